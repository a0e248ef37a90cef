//! The table of kernels by kind.

use super::call::{Answer, Call, Kernel, one};
use super::environment::Release;
use super::ivalue::IValue;
use super::operators;
use super::operators::picking::{has_shared_elements, refuse_shared_elements, write_changes};
use super::release_semantics;
use super::stop::Stop;
use crate::symbol::Symbol;
use crate::tensor::{DType, Tensor, layout};
use rustc_hash::FxHashMap;
use std::sync::LazyLock;

/// The kernels of a kind, and the use of their result.
#[derive(Clone, Copy, Default)]
pub struct Found {
    of_values: Option<Kernel>,
    of_tensors: Option<Kernel>,
    /// Whether the result is written over the first operand: `aten::add_` runs the kernel of
    /// `aten::add`.
    in_place: bool,
}

impl std::fmt::Debug for Found {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if self.in_place { "a kernel, in place" } else { "a kernel" })
    }
}

static KERNELS: LazyLock<FxHashMap<Symbol, Found>> = LazyLock::new(|| {
    let mut all: FxHashMap<Symbol, Found> = FxHashMap::default();
    for &(name, kernel) in operators::OF_VALUES.iter().copied().flatten() {
        all.entry(Symbol::new(name)).or_default().of_values = Some(kernel);
    }
    for &(name, kernel) in operators::OF_TENSORS.iter().copied().flatten() {
        all.entry(Symbol::new(name)).or_default().of_tensors = Some(kernel);
    }
    all
});

/// The kernels of a kind. A kind without its own that ends in one underscore uses those of the kind
/// without it.
pub fn find(kind: Symbol) -> Option<Found> {
    let own = KERNELS.get(&kind).copied();
    if own.is_some_and(|found| found.of_tensors.is_some()) {
        return own;
    }
    let base = kind.as_str().strip_suffix('_').filter(|name| !name.ends_with('_'));
    let of_tensors = base.and_then(|name| KERNELS.get(&Symbol::new(name))).and_then(|found| found.of_tensors);
    match of_tensors {
        Some(_) => Some(Found { of_values: own.and_then(|found| found.of_values), of_tensors, in_place: true }),
        None => own,
    }
}

/// All kinds that have a kernel of their own.
pub fn kinds() -> impl Iterator<Item = &'static str> {
    operators::OF_VALUES.iter().chain(operators::OF_TENSORS).copied().flatten().map(|row| row.0)
}

impl Found {
    /// The kernel for these operands, and whether it is the one for tensors.
    fn kernel(self, call: &Call<'_>) -> (Kernel, bool) {
        let of_tensors = |value: &IValue| matches!(value, IValue::Tensor(_) | IValue::Undefined);
        match (self.of_values, self.of_tensors) {
            (Some(_), Some(kernel)) if call.args.iter().any(of_tensors) => (kernel, true),
            (Some(kernel), _) => (kernel, false),
            (None, Some(kernel)) => (kernel, true),
            (None, None) => (|call| Err(Stop::unsupported(format!("`{}` has no kernel", call.kind()))), false),
        }
    }

    /// Whether the kernel for these operands computes with tensors; others inspect numbers, and
    /// move values in and out of containers.
    pub fn computes(self, call: &Call<'_>) -> bool {
        self.kernel(call).1
    }

    /// Runs the kernel.
    pub fn run(self, call: &Call<'_>) -> Answer {
        let (kernel, of_tensors) = self.kernel(call);
        if of_tensors && call.args.iter().any(operators::quantization::holds_quantized) {
            return operators::quantization::run(call, kernel, self.in_place);
        }
        release_semantics::check(call, of_tensors)?;
        let results = kernel(call)?;
        if self.in_place && of_tensors {
            refuse_overlap(call)?;
            return write_over(call, call.args.first().and_then(IValue::tensor), results);
        }
        match call.outs() {
            Some(outs) => write_outs(call, outs, &results),
            None if of_tensors => Ok(operators::memory_order::laid(call, results)),
            None => Ok(results),
        }
    }
}

/// An in-place operator reads other tensors while it writes: they may be the same elements, but
/// must not overlap partially.
pub(crate) fn refuse_overlap(call: &Call<'_>) -> Result<(), Stop> {
    let mut tensors = call.args.iter().filter_map(IValue::tensor);
    let Some(target) = tensors.next().filter(|_| call.release() >= Release(1, 7)) else { return Ok(()) };
    let dense = |tensor: &Tensor| layout::is_dense(tensor.shape(), tensor.strides());
    let apart = |other: &Tensor| {
        let (from, to) = (target.offset(), other.offset());
        !other.shares_storage(target)
            || other.is_same_view(target)
            || !dense(other)
            || !dense(target)
            || from + target.numel() <= to
            || to + other.numel() <= from
    };
    match tensors.all(apart) {
        true => Ok(()),
        false => Err(Stop::raised(
            "unsupported operation: some elements of the input tensor and the written-to tensor refer to a single memory location. Please clone() the tensor before performing the operation.",
        )),
    }
}

/// Writes results into the operands of an `out=` overload. If there are fewer operands, the
/// remaining results are not written.
fn write_outs(call: &Call<'_>, outs: &[IValue], results: &[IValue]) -> Answer {
    if outs.len() > results.len() {
        return Err(Stop::unsupported(format!("`{}.{}`", call.kind(), call.overload())));
    }
    for (out, result) in outs.iter().zip(results) {
        let (Some(out), Some(result)) = (out.tensor(), result.tensor()) else {
            return Err(Stop::unsupported(format!(
                "`{}.{}` on a value that is not a tensor",
                call.kind(),
                call.overload()
            )));
        };
        if out.shape() != result.shape() {
            let (kind, from, to) = (call.kind(), out.shape(), result.shape());
            return Err(Stop::unsupported(format!("`{kind}` would resize its `out` from {from:?} to {to:?}")));
        }
        if !out.is_same_view(result) {
            write_into(out, result)?;
        }
    }
    Ok(outs.into())
}

/// In-place operators that do not check for elements that share an address: the selected elements
/// are written, whatever else shares them.
const WRITES_SHARED_ELEMENTS: &[&str] =
    &["aten::masked_fill_", "aten::index_fill_", "aten::threshold_", "aten::tril_", "aten::triu_"];

fn write_over(call: &Call<'_>, target: Option<&Tensor>, results: super::call::Outs) -> Answer {
    let (Some(target), Some(result)) = (target, results.first().and_then(IValue::tensor)) else {
        return Err(Stop::unsupported(format!("`{}` on a value that is not a tensor", call.kind())));
    };
    let is_same = result.shape() == target.shape() && result.dtype() == target.dtype();
    if is_same && has_shared_elements(target) && WRITES_SHARED_ELEMENTS.contains(&call.kind().as_str()) {
        write_changes(target, result);
        return one(target.clone());
    }
    write_into(target, result)?;
    one(target.clone())
}

/// Writes a result into a tensor, whose type and shape are kept.
pub(crate) fn write_into(target: &Tensor, result: &Tensor) -> Result<(), Stop> {
    if !can_cast(result.dtype(), target.dtype()) {
        return Err(Stop::raised(format!(
            "result type {} can't be cast to the desired output type {}",
            result.dtype().name(),
            target.dtype().name()
        )));
    }
    refuse_shared_elements(target)?;
    if result.shape() != target.shape() {
        return Err(Stop::raised(format!(
            "output with shape {:?} doesn't match the broadcast shape {:?}",
            target.shape(),
            result.shape()
        )));
    }
    Ok(target.copy_from(result)?)
}

/// Whether a result of one type may be written into a tensor of another: the kind must not be
/// lower.
pub(crate) fn can_cast(from: DType, to: DType) -> bool {
    from.arithmetic() <= to.arithmetic() || (from.is_integral() && to.is_integral() && to != DType::Bool)
}
