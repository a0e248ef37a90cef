//! What a load hook may use: memory and work, besides the steps that the interpreter counts.
//!
//! A kernel is refused before it runs if its results could be larger than what is left. How large
//! they may be is bounded from its operands: as many elements as the operands have together, times
//! every number among the operands that could be a size. Whatever is known to keep sizes counts
//! once.

use jitopt_core::interpreter::effort::Effort;
use jitopt_core::interpreter::{Call, IValue, Reason, Stop, Watch};
use jitopt_core::ir::{Graph, Node};
use jitopt_core::ops::rows::is_bounded;
use jitopt_core::tensor::{layout, storage};
use jitopt_core::types::TypeKind;
use std::rc::Rc;

/// Bytes of tensors that a hook may have at once, beyond what its state needs. With what reading
/// takes otherwise they are below 64 MiB.
const MOST_BYTES: u64 = 60 << 20;
/// Bytes for each byte of the state: packing copies a weight, and may do so twice.
const BYTES_FOR_STATE: u64 = 4;
/// Numbers that a hook may read and write, beyond some for each of the state.
const MOST_WORK: u64 = 1 << 28;
const WORK_FOR_STATE: u64 = 64;
/// Bytes of an element of a list, at least.
const LIST_ELEMENT: u64 = size_of::<IValue>() as u64;
/// Numbers that the visit of an element of a list counts as, and of a list of tensors or lists: it
/// takes as long.
const WORK_OF_ELEMENT: u64 = 4;
const WORK_OF_CONTAINER: u64 = 128;
/// Bytes of lists and texts that a hook may make, those that are gone included: their memory is not
/// counted where it is freed.
const MOST_MADE: u64 = 60 << 20;
/// Bytes of an element that a kernel may need while it computes in doubles.
const WIDEST: u64 = 8;

/// Operands that are numbers and no sizes.
const NO_SIZES: [&str; 24] = [
    "dtype",
    "layout",
    "device",
    "pin_memory",
    "memory_format",
    "dim",
    "dim0",
    "dim1",
    "dims",
    "axis",
    "zero_point",
    "ch_axis",
    "groups",
    "start_dim",
    "end_dim",
    "value",
    "other",
    "alpha",
    "idx",
    "index",
    "key",
    "min",
    "max",
    "exponent",
];
/// Operators whose results are as large as the values of an operand, not as its shape.
const SIZED_BY_VALUES: [&str; 7] = [
    "aten::bincount",
    "aten::cartesian_prod",
    "aten::combinations",
    "aten::one_hot",
    "aten::repeat_interleave",
    "aten::sparse_coo_tensor",
    "aten::tril_indices",
];

/// Watches a hook.
pub(crate) struct HookMeter {
    /// Bytes of tensors before the hook, and those that it may have.
    before: u64,
    most: u64,
    work: Effort,
    most_work: u64,
    /// Bytes of lists and texts that were results.
    made: u64,
}

impl HookMeter {
    pub(crate) fn for_state(state: &IValue) -> HookMeter {
        let mut bytes = 0u64;
        state.each_tensor(&mut |tensor| bytes += tensor.numel() as u64 * WIDEST);
        HookMeter {
            before: storage::bytes() as u64,
            most: MOST_BYTES + BYTES_FOR_STATE * bytes,
            work: Effort::default(),
            most_work: MOST_WORK + WORK_FOR_STATE * bytes,
            made: 0,
        }
    }

    /// Counts the visit of all elements of lists and dictionaries, before an operation runs.
    fn count_visits(&mut self, call: &Call) -> Result<(), Stop> {
        self.work.0 = call.args.iter().map(visits).fold(self.work.0, u64::saturating_add);
        match (call.kind().as_str(), call.args) {
            ("aten::extend", [_, added, ..]) => self.count_made(std::slice::from_ref(added))?,
            ("aten::replace", [IValue::Str(text), IValue::Str(old), IValue::Str(new), ..]) => {
                self.work.0 = self.work.0.saturating_add(text.len() as u64);
                self.check_made(replaced(text, old, new))?;
            }
            ("aten::join", [IValue::Str(between), IValue::List(parts), ..]) => {
                let parts = parts.borrow();
                let texts = parts.iter().map(bytes).fold(0, u64::saturating_add);
                self.check_made(texts.saturating_add((between.len() as u64).saturating_mul(parts.len() as u64)))?;
            }
            _ => {}
        }
        self.check_work()
    }

    /// Refuses a list or a text before it is made; it is counted afterwards.
    fn check_made(&self, bytes: u64) -> Result<(), Stop> {
        if self.made.saturating_add(bytes) > MOST_MADE { Err(makes_too_much()) } else { Ok(()) }
    }

    /// Counts new lists and texts.
    fn count_made(&mut self, values: &[IValue]) -> Result<(), Stop> {
        self.made = values.iter().map(bytes).fold(self.made, u64::saturating_add);
        if self.made > MOST_MADE { Err(makes_too_much()) } else { Ok(()) }
    }

    fn check_work(&self) -> Result<(), Stop> {
        match self.work.0 > self.most_work {
            true => Err(Stop::new(Reason::Budget("it computes more than 2^28 numbers".to_owned()))),
            false => Ok(()),
        }
    }

    fn check(&self, more: u64) -> Result<(), Stop> {
        let used = (storage::bytes() as u64).saturating_sub(self.before);
        if used.saturating_add(more) > self.most {
            let mebibytes = self.most >> 20;
            return Err(Stop::new(Reason::Budget(format!("it needs more than {mebibytes} MiB of memory"))));
        }
        Ok(())
    }
}

impl Watch for HookMeter {
    fn before(&mut self, call: &Call) -> Result<(), Stop> {
        if SIZED_BY_VALUES.contains(&call.kind().as_str()) {
            return Err(Stop::unsupported(format!(
                "`{}` in a load hook: the size of its result is unknown",
                call.kind()
            )));
        }
        self.count_visits(call)?;
        if makes_list(call) {
            let (tensors, lists) = extents(call);
            self.check_made(lists.saturating_mul(if tensors.is_empty() { sizes(call) } else { 1 }))?;
        }
        self.check(most_bytes(call))
    }

    fn after(&mut self, _: &Graph, _: Node, operands: &[IValue], outputs: &[IValue]) -> Result<(), Stop> {
        self.work.add(operands, outputs);
        for output in outputs.iter().filter(|output| !operands.iter().any(|operand| is_same(operand, output))) {
            self.count_made(std::slice::from_ref(output))?;
        }
        self.check_work()
    }
}

fn makes_too_much() -> Stop {
    Stop::new(Reason::Budget(format!("it makes more than {} MiB of lists", MOST_MADE >> 20)))
}

/// Whether the result is a new list, as long as lists among the operands.
fn makes_list(call: &Call) -> bool {
    let is_list = |value| matches!(call.graph.ty(value).kind(), TypeKind::List(_));
    let is_same_list = ["aten::append", "aten::extend", "aten::insert"].contains(&call.kind().as_str());
    !is_same_list && call.graph.outputs(call.node).any(is_list)
}

/// Bytes of a text whose parts are replaced; an empty part is before each character and at the end.
fn replaced(text: &str, old: &str, new: &str) -> u64 {
    let times = if old.is_empty() { text.chars().count() + 1 } else { text.matches(old).count() };
    (text.len() as u64).saturating_add((times as u64).saturating_mul(new.len() as u64))
}

/// The work of visiting the elements of a list or a dictionary.
fn visits(value: &IValue) -> u64 {
    let of = |first: Option<&IValue>, length: usize| {
        let is_container = first.is_some_and(|value| !matches!(value, IValue::Int(_) | IValue::Float(_)));
        length as u64 * if is_container { WORK_OF_CONTAINER } else { WORK_OF_ELEMENT }
    };
    match value {
        IValue::List(list) => of(list.borrow().first(), list.borrow().len()),
        IValue::Dict(dict) => of(dict.borrow().values().next(), dict.borrow().len()),
        _ => 0,
    }
}

/// Whether a result is an operand, as that of `append`.
fn is_same(operand: &IValue, result: &IValue) -> bool {
    match (operand, result) {
        (IValue::List(a), IValue::List(b)) => Rc::ptr_eq(a, b),
        (IValue::Dict(a), IValue::Dict(b)) => Rc::ptr_eq(a, b),
        _ => false,
    }
}

/// Bytes of a list, a dictionary or a text.
fn bytes(value: &IValue) -> u64 {
    match value {
        IValue::List(list) => list.borrow().len() as u64 * LIST_ELEMENT,
        IValue::Dict(dict) => dict.borrow().len() as u64 * LIST_ELEMENT,
        IValue::Str(text) => text.len() as u64,
        _ => 0,
    }
}

/// Bytes of the results of a kernel, at most.
fn most_bytes(call: &Call) -> u64 {
    let (tensors, others) = extents(call);
    // Pointwise operators, reductions and views keep the shape of their operands.
    let keeps = is_bounded(call.kind()) && !tensors.is_empty();
    let elements = match layout_of_all(&tensors) {
        Some(elements) => elements,
        None => tensors.iter().map(|shape| numel(shape)).fold(1, u64::saturating_mul),
    };
    let sizes = if keeps { 1 } else { sizes(call) };
    let of_tensors = if tensors.is_empty() && others > 0 { 0 } else { elements.saturating_mul(sizes) };
    let of_others = others.saturating_mul(if tensors.is_empty() { sizes } else { 1 });
    of_tensors.saturating_mul(WIDEST).saturating_add(of_others)
}

/// The shapes of tensors among the operands, those in lists included; and the bytes of lists and
/// texts.
fn extents(call: &Call) -> (Vec<Vec<i64>>, u64) {
    let (mut shapes, mut others) = (Vec::new(), 0u64);
    for value in call.args {
        value.each_tensor(&mut |tensor| shapes.push(tensor.shape().to_vec()));
        others = others.saturating_add(match value {
            IValue::Str(text) => text.len() as u64,
            IValue::List(list) if !is_size(call, value) => list.borrow().len() as u64 * LIST_ELEMENT,
            _ => 0,
        });
    }
    (shapes, others)
}

fn numel(shape: &[i64]) -> u64 {
    shape.iter().map(|size| size.unsigned_abs()).product()
}

/// Elements of the shape that all fit by broadcasting, or of all together where they are put
/// together.
fn layout_of_all(shapes: &[Vec<i64>]) -> Option<u64> {
    let first: layout::Dims = shapes.first()?.as_slice().into();
    let whole = shapes[1..].iter().try_fold(first, |all, shape| layout::broadcast(&all, shape).ok())?;
    let together = shapes.iter().map(|shape| numel(shape)).fold(0, u64::saturating_add);
    Some(numel(&whole).max(together))
}

/// Whether an operand is a list of numbers that may be sizes.
fn is_size(call: &Call, value: &IValue) -> bool {
    let IValue::List(list) = value else { return false };
    call.kind().as_str() != "aten::tensor"
        && list.borrow().iter().all(|item| matches!(item, IValue::Int(_)))
        && call.schema.is_some_and(|schema| schema.formals.iter().any(|formal| formal.name.contains("size")))
}

/// The product of the numbers among the operands that may be sizes, and of those that a format asks
/// for.
fn sizes(call: &Call) -> u64 {
    let mut product = 1u64;
    for (place, value) in call.args.iter().enumerate() {
        let name = call.schema.and_then(|schema| schema.formals.get(place)).map_or("", |formal| formal.name);
        if NO_SIZES.contains(&name) {
            continue;
        }
        let factor = match value {
            IValue::Int(number) => number.unsigned_abs(),
            IValue::Float(number) => number.abs() as u64,
            IValue::List(list) => {
                let numbers = list.borrow();
                let each = numbers.iter().filter_map(|item| if let IValue::Int(n) = item { Some(*n) } else { None });
                each.map(|number| number.unsigned_abs().max(1)).fold(1, u64::saturating_mul)
            }
            IValue::Str(text) => digits(text),
            _ => 1,
        };
        product = product.saturating_mul(factor.max(1));
    }
    product
}

/// The largest number in a text, `%1000d`.
fn digits(text: &str) -> u64 {
    let runs = text.split(|c: char| !c.is_ascii_digit()).filter(|run| !run.is_empty());
    runs.map(|run| run.parse().unwrap_or(u64::MAX)).max().unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::digits;

    #[test]
    fn widths_of_formats_count() {
        assert_eq!(digits("%1000d of %5s"), 1000);
        assert_eq!(digits("plain"), 1);
        assert_eq!(digits("%99999999999999999999999d"), u64::MAX);
    }
}
