//! Graphs of random groups, line by line.

use super::dice::Dice;
use super::strided_tensors::tensor;
use jitopt_core::interpreter::IValue;
use jitopt_core::tensor::{DType, Tensor};

/// The floating-point types, frequent ones repeated.
pub(crate) const FLOATS: &[DType] =
    &[DType::Float, DType::Float, DType::Float, DType::Double, DType::Half, DType::BFloat16];
/// The integer types.
pub(crate) const INTEGERS: &[DType] = &[DType::Long, DType::Int, DType::Short, DType::Char, DType::Byte];

/// A group that is being drawn: its params, its lines, and how many values it has.
pub(crate) struct Lines {
    params: Vec<String>,
    pub(crate) inputs: Vec<IValue>,
    lines: Vec<String>,
    next: usize,
}

impl Lines {
    /// A group with the constants `%none`, `%no` and `%yes`.
    pub(crate) fn new() -> Lines {
        let constants = [
            "%none : None = prim::Constant()",
            "%no : bool = prim::Constant[value=0]()",
            "%yes : bool = prim::Constant[value=1]()",
        ];
        Lines { params: vec![], inputs: vec![], lines: constants.map(str::to_owned).to_vec(), next: 0 }
    }

    fn fresh(&mut self) -> String {
        self.next += 1;
        format!("%p{}", self.next)
    }

    pub(crate) fn line(&mut self, ty: &str, text: &str) -> String {
        let name = self.fresh();
        self.lines.push(format!("{name} : {ty} = {text}"));
        name
    }

    /// A node whose result is a tensor.
    pub(crate) fn tensor(&mut self, text: &str) -> String {
        self.line("Tensor", text)
    }

    /// A node with several results, all tensors.
    pub(crate) fn tensors(&mut self, count: usize, text: &str) -> Vec<String> {
        let names: Vec<String> = (0..count).map(|_| self.fresh()).collect();
        let outputs: Vec<String> = names.iter().map(|name| format!("{name} : Tensor")).collect();
        self.lines.push(format!("{} = {text}", outputs.join(", ")));
        names
    }

    pub(crate) fn list(&mut self, numbers: &[i64]) -> String {
        self.line("int[]", &format!("prim::Constant[value={numbers:?}]()"))
    }

    pub(crate) fn int(&mut self, number: i64) -> String {
        self.line("int", &format!("prim::Constant[value={number}]()"))
    }

    /// A random operand.
    pub(crate) fn param(&mut self, draws: &mut Dice, dtype: DType, shape: &[i64], is_special: bool) -> String {
        // The layout that models have, too.
        let is_channels_last = shape.len() == 4 && draws.one_in(3);
        let drawn = match is_channels_last {
            true => {
                let [n, c, h, w] = shape else { unreachable!("there are four sizes") };
                tensor(&mut Dice(draws.next()), dtype, &[*n, *h, *w, *c], is_special)
                    .contiguous()
                    .permute(&[0, 3, 1, 2])
            }
            false => tensor(draws, dtype, shape, is_special),
        };
        self.given(drawn)
    }

    /// An operand.
    pub(crate) fn given(&mut self, operand: Tensor) -> String {
        let name = format!("%x{}", self.params.len());
        self.params.push(format!("{name} : Tensor"));
        self.inputs.push(IValue::Tensor(operand));
        name
    }

    /// The graph of the group.
    pub(crate) fn text(&self, results: &[String]) -> String {
        let (params, names) = (self.params.join(", "), self.params.join(", ").replace(" : Tensor", ""));
        let outputs: Vec<String> = (0..results.len()).map(|i| format!("%r{i} : Tensor")).collect();
        let returned: Vec<String> = (0..results.len()).map(|i| format!("%r{i}")).collect();
        format!(
            "graph({params}):\n  {} = prim::FusionGroup_0({names})\n  return ({})\nwith prim::FusionGroup_0 = graph({params}):\n  {}\n  return ({})\n",
            outputs.join(", "),
            returned.join(", "),
            self.lines.join("\n  "),
            results.join(", ")
        )
    }
}
