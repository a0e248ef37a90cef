//! The meaning of operators before they changed, by the version that the code of an archive states.
//!
//! | operator | version | before |
//! |---|---:|---|
//! | `div`, `div_` | 4 | integers are divided with truncation |
//! | `full` | 5 | without an element type the result has that of floats |
//! | `linspace` | 8 | 100 steps, unless their number is given |
//! | `logspace` | 9 | 100 steps, unless their number is given |
//!
//! PyTorch replaces calls of such operators by the nodes of functions, its upgraders; others of
//! them (`gelu`, and those with `rounding_mode` or `out` of `full`) only spell out defaults.

use crate::declared_names::Declarations;
use crate::source_error::Result;
use jitopt_archive::CodeFile;
use jitopt_core::types::{Simple, Type, TypeKind};

/// The record of the functions.
pub(crate) const RECORD: &str = "<string>";

/// The functions by name.
pub(crate) fn declared() -> Result<Declarations> {
    let (record, content) = (RECORD.to_owned(), CODE.as_bytes().to_vec());
    Declarations::read(vec![CodeFile { record, module: String::new(), content, ranges: Vec::new() }])
}

/// The functions, in the language of the printer.
const CODE: &str = r#"def div_tensor(self: Tensor, other: Tensor) -> Tensor:
  if torch.is_floating_point(self):
    floats = True
  else:
    floats = torch.is_floating_point(other)
  if floats:
    return torch.div(self, other)
  else:
    return torch.div(self, other, rounding_mode="trunc")
def div_scalar(self: Tensor, other: number) -> Tensor:
  if torch.is_floating_point(self):
    floats = True
  else:
    floats = isinstance(other, float)
  if floats:
    return torch.div(self, other)
  else:
    return torch.div(self, other, rounding_mode="trunc")
def div_out(self: Tensor, other: Tensor, out: Tensor) -> Tensor:
  if torch.is_floating_point(self):
    floats = True
  else:
    if torch.is_floating_point(other):
      floats = True
    else:
      floats = torch.is_floating_point(out)
  if floats:
    return torch.div(self, other, out=out)
  else:
    return torch.div(self, other, rounding_mode="trunc", out=out)
def div__tensor(self: Tensor, other: Tensor) -> Tensor:
  if torch.is_floating_point(self):
    floats = True
  else:
    floats = torch.is_floating_point(other)
  if floats:
    return torch.div_(self, other)
  else:
    return torch.div_(self, other, rounding_mode="trunc")
def div__scalar(self: Tensor, other: number) -> Tensor:
  if torch.is_floating_point(self):
    floats = True
  else:
    floats = isinstance(other, float)
  if floats:
    return torch.div_(self, other)
  else:
    return torch.div_(self, other, rounding_mode="trunc")
def full(size: List[int], fill_value: number, dtype: Optional[int]=None, layout: Optional[int]=None, device: Optional[Device]=None, pin_memory: Optional[bool]=None) -> Tensor:
  if torch.__is__(dtype, None):
    value = annotate(number, float(fill_value))
  else:
    value = fill_value
  return torch.full(size, value, dtype=dtype, layout=layout, device=device, pin_memory=pin_memory)
def linspace(start: number, end: number, steps: Optional[int]=None, dtype: Optional[int]=None, layout: Optional[int]=None, device: Optional[Device]=None, pin_memory: Optional[bool]=None) -> Tensor:
  if torch.__is__(steps, None):
    count = 100
  else:
    count = unchecked_cast(int, steps)
  return torch.linspace(start, end, count, dtype=dtype, layout=layout, device=device, pin_memory=pin_memory)
def linspace_out(start: number, end: number, steps: Optional[int]=None, out: Tensor) -> Tensor:
  if torch.__is__(steps, None):
    count = 100
  else:
    count = unchecked_cast(int, steps)
  return torch.linspace(start, end, count, out=out)
def logspace(start: number, end: number, steps: Optional[int]=None, base: float=10., dtype: Optional[int]=None, layout: Optional[int]=None, device: Optional[Device]=None, pin_memory: Optional[bool]=None) -> Tensor:
  if torch.__is__(steps, None):
    count = 100
  else:
    count = unchecked_cast(int, steps)
  return torch.logspace(start, end, count, base, dtype=dtype, layout=layout, device=device, pin_memory=pin_memory)
def logspace_out(start: number, end: number, steps: Optional[int]=None, base: float=10., out: Tensor) -> Tensor:
  if torch.__is__(steps, None):
    count = 100
  else:
    count = unchecked_cast(int, steps)
  return torch.logspace(start, end, count, base, out=out)
"#;

/// The function that a call of an operator in code of this version means.
pub(crate) fn upgrader(operator: &str, types: &[Type], names: &[&str], version: u64) -> Option<&'static str> {
    let has_out = names.contains(&"out");
    let is_tensor = |i: usize| types.get(i).is_some_and(|ty| ty.is_tensor());
    Some(match operator {
        "aten::div" | "aten::div_" if version >= 4 || names.contains(&"rounding_mode") || !is_tensor(0) => return None,
        "aten::div" if has_out => "div_out",
        "aten::div" if is_tensor(1) => "div_tensor",
        "aten::div" => "div_scalar",
        "aten::div_" if is_tensor(1) => "div__tensor",
        "aten::div_" => "div__scalar",
        "aten::full" if version < 5 && !has_out && !names.contains(&"names") => "full",
        "aten::linspace" if version < 8 && open_steps(types, names) => choose(has_out, "linspace", "linspace_out"),
        "aten::logspace" if version < 9 && open_steps(types, names) => choose(has_out, "logspace", "logspace_out"),
        _ => return None,
    })
}

fn choose(has_out: bool, plain: &'static str, out: &'static str) -> &'static str {
    if has_out { out } else { plain }
}

/// Whether the third argument, the number of steps, is missing or may be None.
fn open_steps(types: &[Type], names: &[&str]) -> bool {
    let positional = types.len() - names.len();
    let place = names.iter().position(|name| *name == "steps").map(|at| positional + at);
    match place.or((positional > 2).then_some(2)).and_then(|at| types.get(at)) {
        Some(ty) => ty.is(Simple::None) || matches!(ty.kind(), TypeKind::Optional(_)),
        None => true,
    }
}
