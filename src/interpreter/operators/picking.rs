//! Elements selected by position, of any type: the basis of views, joins, indexing and sorting.

use super::elements::{by_kind, like};
use crate::interpreter::call::Call;
use crate::interpreter::stop::Stop;
use crate::tensor::buffer::Wide;
use crate::tensor::gemm::Ring;
use crate::tensor::layout::{self, Dims};
use crate::tensor::{C128, DType, Kind, Scalar, Tensor};
use rustc_hash::FxHashMap;

/// Arithmetic and order of all wide numbers.
pub trait Number: Ring {
    /// The quotient; the floor for integers, and 0 for a divisor of 0.
    fn over(self, other: Self) -> Self;
    /// Whether it precedes another number in sorted order; NaN is last, complex numbers are ordered
    /// by their real parts.
    fn is_below(self, other: Self) -> bool;
    /// Whether it is NaN.
    fn is_nan(self) -> bool;
}

impl Number for i64 {
    fn over(self, other: i64) -> i64 {
        if other == 0 { 0 } else { self.wrapping_div_euclid(other) }
    }
    fn is_below(self, other: i64) -> bool {
        self < other
    }
    fn is_nan(self) -> bool {
        false
    }
}

impl Number for f64 {
    fn over(self, other: f64) -> f64 {
        self / other
    }
    fn is_below(self, other: f64) -> bool {
        self < other || (other.is_nan() && !self.is_nan())
    }
    fn is_nan(self) -> bool {
        f64::is_nan(self)
    }
}

impl Number for C128 {
    fn over(self, other: C128) -> C128 {
        self / other
    }
    fn is_below(self, other: C128) -> bool {
        self.re.is_below(other.re)
    }
    fn is_nan(self) -> bool {
        C128::is_nan(self)
    }
}

/// The order of two numbers in sorting.
pub(crate) fn order<W: Number>(a: W, b: W) -> std::cmp::Ordering {
    b.is_below(a).cmp(&a.is_below(b))
}

/// The elements of a tensor at these indices in logical order, as a tensor of its own. All indices
/// are in range.
pub(crate) fn picked(call: &Call<'_>, x: &Tensor, places: &[usize], shape: &[i64]) -> Tensor {
    by_kind!(x.dtype(), W => {
        let elements = x.read::<W>();
        let chosen: Vec<W> = places.iter().map(|&place| elements[place]).collect();
        like(call, &chosen, x.dtype(), shape, x)
    })
}

/// Elements of a tensor, where `place` maps the coordinates of each result element to an index.
pub(crate) fn mapped(
    call: &Call<'_>,
    x: &Tensor,
    shape: &[i64],
    place: impl FnMut(&[i64]) -> usize,
) -> Result<Tensor, Stop> {
    layout::checked(shape)?;
    let places: Vec<usize> = coordinates(shape, place);
    Ok(picked(call, x, &places, shape))
}

/// Calls `f` with the coordinates of all elements of a shape, in logical order.
pub(crate) fn coordinates<T>(shape: &[i64], mut f: impl FnMut(&[i64]) -> T) -> Vec<T> {
    let mut at: Dims = Dims::from_elem(0, shape.len());
    let total = layout::numel(shape);
    let mut results = Vec::with_capacity(total);
    for _ in 0..total {
        results.push(f(&at));
        for i in (0..shape.len()).rev() {
            at[i] += 1;
            if at[i] < shape[i] {
                break;
            }
            at[i] = 0;
        }
    }
    results
}

/// The index of coordinates in logical order, given [`layout::contiguous`] strides.
pub(crate) fn place(at: &[i64], strides: &[i64]) -> usize {
    at.iter().zip(strides).map(|(at, stride)| at * stride).sum::<i64>() as usize
}

/// A contiguous copy of a tensor, modified by `f`.
pub(crate) fn changed(x: &Tensor, f: impl FnOnce(&Tensor) -> Result<(), Stop>) -> Result<Tensor, Stop> {
    let copy = x.copied();
    f(&copy)?;
    Ok(copy)
}

/// Whether several elements share an address, as in an expanded dimension.
pub(crate) fn has_shared_elements(x: &Tensor) -> bool {
    x.shape().iter().zip(x.strides()).any(|(&size, &stride)| size > 1 && stride == 0)
}

/// For each element, the first element at the same address.
pub(crate) fn first_in_memory(x: &Tensor) -> Vec<usize> {
    let mut first = FxHashMap::default();
    let place = |at: &[i64]| at.iter().zip(x.strides()).map(|(i, stride)| i * stride).sum::<i64>();
    let places = coordinates(x.shape(), place);
    places.into_iter().enumerate().map(|(i, place)| *first.entry(place).or_insert(i)).collect()
}

/// Changes some elements in place: a change applies to all elements at the same address.
pub(crate) fn write_elements<W: Wide>(
    x: &Tensor,
    changes: impl IntoIterator<Item = (usize, W)>,
    with: impl Fn(W, W) -> W,
) {
    let first = has_shared_elements(x).then(|| first_in_memory(x));
    let mut elements = x.read::<W>();
    for (i, value) in changes {
        let slot = &mut elements[first.as_ref().map_or(i, |first| first[i])];
        *slot = with(*slot, value);
    }
    if let Some(first) = first {
        elements = first.into_iter().map(|i| elements[i]).collect();
    }
    x.write(&elements);
}

/// Writes the elements that differ from a result, if only in the sign of a zero. An element that is
/// NaN before and after is not written: it may share its address with one that changes.
pub(crate) fn write_changes(target: &Tensor, result: &Tensor) {
    by_kind!(target.dtype(), W => {
        let pairs = target.read::<W>().into_iter().zip(result.read::<W>()).enumerate();
        let bits = |x: W| {
            let z: C128 = x.store();
            // For large integers a float comparison is less precise than an integer one.
            (z.re.to_bits(), z.im.to_bits(), x.store::<i64>())
        };
        let changed = pairs.filter(|(_, (old, new))| bits(*old) != bits(*new));
        let changes: Vec<(usize, W)> = changed.map(|(i, (_, new))| (i, new)).collect();
        write_elements(target, changes, |_, new| new);
    });
}

/// Raises if several elements share an address.
pub(crate) fn refuse_shared_elements(target: &Tensor) -> Result<(), Stop> {
    match has_shared_elements(target) {
        false => Ok(()),
        true => Err(Stop::raised(
            "unsupported operation: more than one element of the written-to tensor refers to a single memory location. Please clone() the tensor before performing the operation.",
        )),
    }
}

/// An index from a program: negative ones count from the end.
pub(crate) fn wrapped(index: i64, size: i64) -> Option<i64> {
    (-size..size).contains(&index).then(|| if index < 0 { index + size } else { index })
}

/// An `IndexError`.
pub(crate) fn index_error(message: impl Into<String>) -> Stop {
    Stop::raised_as("IndexError", message)
}

/// Refuses a number out of the range of an element type. Negative integers wrap in unsigned types;
/// floating point numbers are truncated, and must not be less than the smallest.
pub(crate) fn check_fits(value: Scalar, dtype: DType) -> Result<(), Stop> {
    let x = value.real();
    let fits = match (value, dtype.arithmetic(), dtype.range()) {
        (_, Some(Kind::Bool), _) => true,
        (Scalar::Complex(z), _, Some(_)) if z.im != 0.0 => false,
        (Scalar::Int(n), _, Some((low, high))) => (lowest(dtype, low)..=high).contains(&n),
        (_, _, Some((low, high))) => x >= low as f64 && x < high as f64 + 1.0,
        (_, Some(Kind::Float), _) => dtype.holds_float(value),
        _ => true,
    };
    if fits {
        return Ok(());
    }
    Err(Stop::raised(format!("value cannot be converted to type {} without overflow", element_name(dtype))))
}

/// The least accepted number: negative numbers wrap in the unsigned type.
fn lowest(dtype: DType, low: i64) -> i64 {
    if dtype == DType::Byte { -255 } else { low }
}

/// The name of an element type in C++, for messages.
fn element_name(dtype: DType) -> &'static str {
    match dtype {
        DType::Byte => "uint8_t",
        DType::Char => "int8_t",
        DType::Short => "int16_t",
        DType::Int => "int",
        DType::Long => "int64_t",
        DType::Half => "c10::Half",
        DType::BFloat16 => "c10::BFloat16",
        DType::Float => "float",
        _ => "double",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interpreter::{Environment, IValue, Machine};
    use crate::tensor::Precision;
    use crate::text::{ParseOptions, parse};

    fn longs(elements: &[i64], shape: &[i64]) -> IValue {
        Tensor::of(elements, DType::Long, shape, Precision::Typed).into()
    }

    fn count(n: i64, shape: &[i64]) -> IValue {
        longs(&(0..n).collect::<Vec<_>>(), shape)
    }

    /// Runs one node on inputs of these types; returns its results as integers, with their shapes.
    fn run(types: &[&str], outputs: usize, node: &str, inputs: Vec<IValue>) -> Vec<(Vec<i64>, Vec<i64>)> {
        let params: Vec<String> = types.iter().enumerate().map(|(i, ty)| format!("%{i} : {ty}")).collect();
        let names: Vec<String> = (0..outputs).map(|i| format!("%r{i}")).collect();
        let typed: Vec<String> = names.iter().map(|name| format!("{name} : Tensor")).collect();
        let text = format!(
            "graph({}):\n  {} = {node}\n  return ({})\n",
            params.join(", "),
            typed.join(", "),
            names.join(", ")
        );
        let graph = parse(text.as_bytes(), ParseOptions::default()).expect("it is a graph").graph;
        let results = Machine::new(&graph, &Environment::default()).run(inputs).expect("it runs");
        let show = |value: &IValue| value.tensor().map(|x| (x.read::<i64>(), x.shape().to_vec()));
        results.iter().map(|value| show(value).expect("results are tensors")).collect()
    }

    /// NumPy's rule: the dimensions of non-adjacent indices come first.
    #[test]
    fn indices_apart_come_first() {
        let (x, i, j) = (count(24, &[2, 3, 4]), longs(&[0, 1], &[2]), longs(&[1, 2], &[2]));
        let indices = IValue::list([i.clone(), IValue::None, j.clone()]);
        let found = run(&["Tensor", "Tensor?[]"], 1, "aten::index(%0, %1)", vec![x.clone(), indices]);
        assert_eq!(found, [(vec![1, 5, 9, 14, 18, 22], vec![2, 3])]);
        let indices = IValue::list([IValue::None, i, j]);
        let found = run(&["Tensor", "Tensor?[]"], 1, "aten::index(%0, %1)", vec![x, indices]);
        assert_eq!(found, [(vec![1, 6, 13, 18], vec![2, 2])]);
    }

    /// The example in the documentation of `torch.mode`.
    #[test]
    fn modes() {
        let rows = [
            [0, 0, 0, 2, 0, 0, 2],
            [0, 3, 0, 0, 2, 0, 1],
            [2, 2, 2, 0, 0, 0, 3],
            [2, 2, 3, 0, 1, 1, 0],
            [1, 1, 0, 0, 2, 0, 2],
        ];
        let inputs = vec![longs(rows.as_flattened(), &[5, 7]), IValue::Int(0), IValue::Bool(false)];
        let found = run(&["Tensor", "int", "bool"], 2, "aten::mode(%0, %1, %2)", inputs);
        assert_eq!(found[0].0, [0, 2, 0, 0, 0, 0, 2]);
        assert_eq!(found[1].0, [1, 3, 4, 4, 2, 4, 4]);
    }

    /// The example in the documentation of `torch.searchsorted`.
    #[test]
    fn bins_of_sorted_rows() {
        let (edges, x) = (longs(&[1, 3, 5, 7, 9, 2, 4, 6, 8, 10], &[2, 5]), longs(&[3, 6, 9, 3, 6, 9], &[2, 3]));
        let bins = |right: bool| {
            let rest = [IValue::Bool(false), IValue::Bool(right), IValue::None, IValue::None];
            let inputs = [edges.clone(), x.clone()].into_iter().chain(rest).collect();
            let types = ["Tensor", "Tensor", "bool", "bool", "str?", "Tensor?"];
            run(&types, 1, "aten::searchsorted(%0, %1, %2, %3, %4, %5)", inputs).remove(0).0
        };
        assert_eq!(bins(false), [1, 3, 4, 1, 2, 4]);
        assert_eq!(bins(true), [2, 3, 5, 1, 3, 4]);
    }

    /// The example in the documentation of `Tensor.scatter_reduce`.
    #[test]
    fn scattering_with_a_reduction() {
        let (source, index) = (longs(&[1, 2, 3, 4, 5, 6], &[6]), longs(&[0, 1, 0, 1, 2, 1], &[6]));
        let scattered = |x: &[i64], how: &str, include: bool| {
            let x = longs(x, &[4]);
            let inputs = vec![x, IValue::Int(0), index.clone(), source.clone(), how.into(), include.into()];
            let types = ["Tensor", "int", "Tensor", "Tensor", "str", "bool"];
            run(&types, 1, "aten::scatter_reduce(%0, %1, %2, %3, %4, %5)", inputs).remove(0).0
        };
        assert_eq!(scattered(&[1, 2, 3, 4], "sum", true), [5, 14, 8, 4]);
        assert_eq!(scattered(&[1, 2, 3, 4], "sum", false), [4, 12, 5, 4]);
        assert_eq!(scattered(&[5, 4, 3, 2], "amax", true), [5, 6, 5, 2]);
        assert_eq!(scattered(&[5, 4, 3, 2], "amax", false), [3, 6, 5, 2]);
    }

    /// The examples in the documentation of `torch.roll` and `torch.flip`.
    #[test]
    fn rolls_and_flips() {
        let types = ["Tensor", "int[]", "int[]"];
        let rolled = |shifts: &[i64], dims: &[i64]| {
            let list = |dims: &[i64]| IValue::list(dims.iter().copied());
            let inputs = vec![longs(&[1, 2, 3, 4, 5, 6, 7, 8], &[4, 2]), list(shifts), list(dims)];
            run(&types, 1, "aten::roll(%0, %1, %2)", inputs).remove(0).0
        };
        assert_eq!(rolled(&[1], &[]), [8, 1, 2, 3, 4, 5, 6, 7]);
        assert_eq!(rolled(&[-1], &[0]), [3, 4, 5, 6, 7, 8, 1, 2]);
        assert_eq!(rolled(&[2, 1], &[0, 1]), [6, 5, 8, 7, 2, 1, 4, 3]);
        let inputs = vec![count(8, &[2, 2, 2]), IValue::list([0i64, 1])];
        let found = run(&["Tensor", "int[]"], 1, "aten::flip(%0, %1)", inputs);
        assert_eq!(found[0].0, [6, 7, 4, 5, 2, 3, 0, 1]);
    }

    #[test]
    fn numbers_that_do_not_fit() {
        assert!(check_fits(Scalar::Int(256), DType::Byte).is_err());
        assert!(check_fits(Scalar::Int(-255), DType::Byte).is_ok());
        assert!(check_fits(Scalar::Int(i64::MAX), DType::Long).is_ok());
        assert!(check_fits(Scalar::Float(1e39), DType::Float).is_err());
        assert!(check_fits(Scalar::Float(f64::NEG_INFINITY), DType::Half).is_ok());
    }
}
