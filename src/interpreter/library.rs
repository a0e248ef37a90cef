//! Which kernel runs a kind.

use super::call::{Answer, Call, Kernel, one};
use super::operators;
use super::stop::Stop;
use crate::symbol::Symbol;
use crate::tensor::{DType, Tensor};
use rustc_hash::FxHashMap;
use std::sync::LazyLock;

/// A kind and its kernel.
pub type Row = (&'static str, Kernel);

/// A kernel, and how its result is used.
#[derive(Clone, Copy)]
pub struct Found {
    kernel: Kernel,
    /// Whether the result is written over the first operand: `aten::add_` runs the kernel of `aten::add`.
    in_place: bool,
}

impl std::fmt::Debug for Found {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if self.in_place { "a kernel, in place" } else { "a kernel" })
    }
}

static KERNELS: LazyLock<FxHashMap<Symbol, Kernel>> = LazyLock::new(|| {
    operators::FAMILIES.iter().flat_map(|rows| rows.iter()).map(|&(name, kernel)| (Symbol::new(name), kernel)).collect()
});

/// The kernel of a kind. What has none of its own and ends in one underscore is done by the kernel without.
pub fn find(kind: Symbol) -> Option<Found> {
    if let Some(&kernel) = KERNELS.get(&kind) {
        return Some(Found { kernel, in_place: false });
    }
    let name = kind.as_str().strip_suffix('_').filter(|name| !name.ends_with('_'))?;
    let &kernel = KERNELS.get(&Symbol::new(name))?;
    Some(Found { kernel, in_place: true })
}

/// All kinds that have a kernel of their own.
pub fn kinds() -> impl Iterator<Item = &'static str> {
    operators::FAMILIES.iter().flat_map(|rows| rows.iter()).map(|row| row.0)
}

impl Found {
    /// Runs the kernel.
    pub fn run(self, call: &Call<'_>) -> Answer {
        if self.in_place {
            return write_over(call, call.args.first().and_then(|v| v.tensor()), (self.kernel)(call)?);
        }
        match call.look("out").and_then(|value| value.tensor()) {
            Some(out) => write_over(call, Some(out), (self.kernel)(call)?),
            None => (self.kernel)(call),
        }
    }
}

fn write_over(call: &Call<'_>, target: Option<&Tensor>, results: super::call::Outs) -> Answer {
    let (Some(target), Some(result)) = (target, results.first().and_then(|value| value.tensor())) else {
        return Err(Stop::unsupported(format!("`{}` on something that is no tensor", call.kind())));
    };
    write_into(target, result)?;
    one(target.clone())
}

/// Writes a result over a tensor, whose type and shape stay.
pub fn write_into(target: &Tensor, result: &Tensor) -> Result<(), Stop> {
    if !can_cast(result.dtype(), target.dtype()) {
        return Err(Stop::raised(format!(
            "result type {} can't be cast to the desired output type {}",
            result.dtype().name(),
            target.dtype().name()
        )));
    }
    if result.shape() != target.shape() {
        return Err(Stop::raised(format!(
            "output with shape {:?} doesn't match the broadcast shape {:?}",
            target.shape(),
            result.shape()
        )));
    }
    Ok(target.copy_from(result)?)
}

/// Whether a result of one type may be written over a tensor of another: a kind never falls.
pub fn can_cast(from: DType, to: DType) -> bool {
    from.arithmetic() <= to.arithmetic() || (from.is_integral() && to.is_integral() && to != DType::Bool)
}
