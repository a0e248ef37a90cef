//! Small values of every kind, and an exact comparison of two graphs on them.

use jitopt_core::interpreter::IValue;
use jitopt_core::ir::Graph;
use jitopt_core::tensor::{C128, Precision, Scalar, Tensor};
use jitopt_core::types::DType;
use jitopt_judge::showing::{Outcome, Settings};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

/// A parameter type, and all values of the universe that fit it.
#[derive(Clone)]
pub struct Choice {
    /// As printed.
    pub ty: String,
    /// The values.
    pub values: Vec<IValue>,
}

const DTYPES: &[DType] = &[
    DType::Bool,
    DType::Byte,
    DType::Char,
    DType::Short,
    DType::Int,
    DType::Long,
    DType::Half,
    DType::BFloat16,
    DType::Float,
    DType::Double,
    DType::ComplexFloat,
    DType::ComplexDouble,
];

const INTS: &[i64] = &[0, 1, -1, 2, i64::MAX, i64::MIN];
const FLOATS: &[f64] =
    &[-0.0, 0.0, 1.0, -1.5, f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 5e-324, f64::MAX, 3.0, 1e-40, 6e-8, -65504.0];

/// The choices of a domain, computed once.
pub fn choices(domain: &str) -> Vec<Choice> {
    thread_local! {
        static MADE: RefCell<BTreeMap<String, Vec<Choice>>> = const { RefCell::new(BTreeMap::new()) };
    }
    MADE.with_borrow_mut(|made| made.entry(domain.to_owned()).or_insert_with(|| make(domain)).clone())
}

fn make(domain: &str) -> Vec<Choice> {
    let one = |ty: &str, values: Vec<IValue>| vec![Choice { ty: ty.to_owned(), values }];
    let list = |ty: &str, lists: Vec<IValue>| one(ty, lists);
    match domain {
        "int" => one("int", INTS.iter().map(|&n| n.into()).collect()),
        "float" => one("float", FLOATS.iter().map(|&x| x.into()).collect()),
        "bool" => one("bool", vec![true.into(), false.into()]),
        "str" => one("str", vec!["".into(), "a".into()]),
        "ints" => list("int[]", vec![IValue::list([0i64; 0]), IValue::list([1i64, i64::MIN]), IValue::list([7i64])]),
        "floats" => list("float[]", vec![IValue::list([0f64; 0]), IValue::list([f64::NAN]), IValue::list([1.0, -0.0])]),
        "strs" => list("str[]", vec![IValue::list(["a", ""])]),
        "maybe-int" => one("int?", vec![IValue::None, 3i64.into()]),
        "maybe" => one("Tensor?", vec![IValue::None, tensor(DType::Float, &[2, 3], Layout::Plain, 0).into()]),
        "size" => one("int[]", sizes()),
        "maybe-size" => one("int[]?", [IValue::None].into_iter().chain(sizes()).collect()),
        "tensor" => tensors(&shapes(3, 3), &[Layout::Plain, Layout::Swapped, Layout::Broadcast, Layout::Gaps]),
        "small" => tensors(&[vec![], vec![0], vec![2], vec![1, 2], vec![2, 3]], &[Layout::Plain, Layout::Broadcast]),
        "pair" => pairs(),
        // Integers whose sums are exact.
        "exact" => exact(&[vec![2, 1, 3], vec![2, 3], vec![3], vec![]], &[DType::Float, DType::Double]),
        "matrix" => exact(&[vec![1, 2], vec![2, 2], vec![2, 1], vec![0, 2]], &[DType::Float, DType::Long]),
        "summand" => exact(
            &[vec![], vec![2], vec![1], vec![2, 2], vec![1, 2], vec![2, 1], vec![3, 2, 2]],
            &[DType::Float, DType::Long],
        ),
        "joined" => joined(),
        other => panic!("no domain `{other}`"),
    }
}

fn sizes() -> Vec<IValue> {
    [&[2i64, 1, 3][..], &[1, 1, 3], &[1, 3], &[3], &[1], &[], &[2, 3]]
        .iter()
        .map(|size| IValue::list(size.iter().copied()))
        .collect()
}

/// All shapes of these ranks and extents.
fn shapes(rank: usize, extent: i64) -> Vec<Vec<i64>> {
    let mut all = vec![vec![]];
    let mut last = all.clone();
    for _ in 0..rank {
        last = last.iter().flat_map(|shape: &Vec<i64>| (0..=extent).map(|n| [&shape[..], &[n]].concat())).collect();
        all.extend(last.clone());
    }
    all
}

#[derive(Clone, Copy, PartialEq)]
enum Layout {
    /// Contiguous.
    Plain,
    /// The dimensions in reverse order.
    Swapped,
    /// Stride 0 in all dimensions.
    Broadcast,
    /// Every other element.
    Gaps,
}

/// A tensor of special values, starting at one of them.
fn tensor(dtype: DType, shape: &[i64], layout: Layout, from: usize) -> Tensor {
    let laid_out = match layout {
        Layout::Plain => shape.to_vec(),
        Layout::Swapped => shape.iter().rev().copied().collect(),
        Layout::Broadcast => vec![1; shape.len()],
        Layout::Gaps => shape.iter().map(|n| n * 2).collect(),
    };
    let n: usize = laid_out.iter().product::<i64>() as usize;
    let base = filled(dtype, &laid_out, n, from);
    match layout {
        Layout::Plain => base,
        Layout::Swapped => base.permute(&(0..shape.len()).rev().collect::<Vec<_>>()),
        Layout::Broadcast => base.broadcast_to(shape).expect("ones are broadcast"),
        Layout::Gaps => (0..shape.len()).fold(base, |view, dim| view.narrow(dim, 0, shape[dim], 2)),
    }
}

fn filled(dtype: DType, shape: &[i64], n: usize, from: usize) -> Tensor {
    let float = |i: usize| FLOATS[(i + from) % FLOATS.len()];
    if dtype.is_integral() {
        let all: Vec<i64> = (0..n).map(|i| INTS[(i + from) % INTS.len()]).collect();
        return Tensor::of(&all, dtype, shape, Precision::Typed);
    }
    if dtype.is_complex() {
        let all: Vec<C128> = (0..n).map(|i| C128::new(float(i), float(i / 3 + 1))).collect();
        return Tensor::of(&all, dtype, shape, Precision::Typed);
    }
    let all: Vec<f64> = (0..n).map(float).collect();
    Tensor::of(&all, dtype, shape, Precision::Typed)
}

/// Tensors under all degrees of type information: nothing, element type and rank, everything.
fn tensors(shapes: &[Vec<i64>], layouts: &[Layout]) -> Vec<Choice> {
    let mut choices: BTreeMap<String, Vec<IValue>> = BTreeMap::new();
    for &dtype in DTYPES {
        for shape in shapes {
            for (i, &layout) in layouts.iter().enumerate() {
                // Contiguous operands have all types; in other layouts the arithmetic is the same.
                if i > 0 && !matches!(dtype, DType::Bool | DType::Long | DType::Float) {
                    continue;
                }
                // Few elements: all special values come one after the other.
                let phases =
                    if i == 0 && shape.iter().product::<i64>() < 3 && shape.len() < 2 { FLOATS.len() } else { 1 };
                for from in 0..phases {
                    let tensor = tensor(dtype, shape, layout, from + i);
                    let stars = vec!["*"; shape.len()].join(", ");
                    let mut types = vec!["Tensor".to_owned(), format!("{}({stars})", dtype.name())];
                    // All there is to say, of a few shapes.
                    if from == 0
                        && layout != Layout::Gaps
                        && shape.iter().max().is_none_or(|&n| n != 1)
                        && shape.len() < 3
                    {
                        types.push(complete(&tensor));
                    }
                    types.dedup();
                    for ty in types {
                        choices.entry(ty).or_default().push(tensor.clone().into());
                    }
                }
            }
        }
    }
    choices.into_iter().map(|(ty, values)| Choice { ty, values }).collect()
}

/// Few tensors, for patterns of several.
fn pairs() -> Vec<Choice> {
    let shapes = [vec![], vec![2], vec![1, 2]];
    let dtypes = [DType::Bool, DType::Long, DType::Half, DType::Float, DType::ComplexFloat];
    let made = |dtype: DType, shape: &Vec<i64>| tensor(dtype, shape, Layout::Plain, shape.len());
    let all: Vec<Tensor> =
        dtypes.iter().flat_map(|&dtype| shapes.iter().map(move |shape| made(dtype, shape))).collect();
    let untyped = Choice { ty: "Tensor".to_owned(), values: all.iter().map(|t| t.clone().into()).collect() };
    let typed =
        all.iter().filter(|t| t.rank() == 1).map(|t| Choice { ty: complete(t), values: vec![t.clone().into()] });
    typed.chain([untyped]).collect()
}

fn complete(tensor: &Tensor) -> String {
    let list = |numbers: &[i64]| numbers.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    let strides = if tensor.rank() == 0 { String::new() } else { format!("strides=[{}], ", list(tensor.strides())) };
    let sizes = if tensor.rank() == 0 { String::new() } else { format!("{}, ", list(tensor.shape())) };
    format!("{}({sizes}{strides}device=cpu)", tensor.dtype().name())
}

fn exact(shapes: &[Vec<i64>], dtypes: &[DType]) -> Vec<Choice> {
    let made = |dtype: DType, shape: &Vec<i64>| {
        let n = shape.iter().product::<i64>();
        let all: Vec<i64> = (0..n).map(|i| i * 3 - 4).collect();
        Tensor::of(&all, dtype, shape, Precision::Typed)
    };
    let all: Vec<Tensor> =
        dtypes.iter().flat_map(|&dtype| shapes.iter().map(move |shape| made(dtype, shape))).collect();
    let untyped = Choice { ty: "Tensor".to_owned(), values: all.iter().map(|t| t.clone().into()).collect() };
    let typed = all.iter().map(|t| Choice { ty: complete(t), values: vec![t.clone().into()] });
    typed.chain([untyped]).collect()
}

/// Tensors to be concatenated: also of unequal element types, with large numbers that some of them
/// cannot represent.
fn joined() -> Vec<Choice> {
    let shapes = [vec![0], vec![2], vec![2, 2]];
    let dtypes = [DType::Long, DType::Half, DType::Float];
    let large = |dtype: DType, shape: &Vec<i64>| {
        let n = shape.iter().product::<i64>();
        Tensor::of(&vec![16_777_217i64; n as usize], dtype, shape, Precision::Typed)
    };
    let all: Vec<Tensor> =
        dtypes.iter().flat_map(|&dtype| shapes.iter().map(move |shape| large(dtype, shape))).collect();
    let untyped = Choice { ty: "Tensor".to_owned(), values: all.iter().map(|t| t.clone().into()).collect() };
    let typed = all.iter().map(|t| Choice { ty: complete(t), values: vec![t.clone().into()] });
    typed.chain([untyped]).collect()
}

// ---- comparing

/// The difference between two graphs on these inputs: in their results, in the inputs after the
/// run, and in both again after every result was written. If the first graph fails, the second is
/// not compared.
pub fn compare(before: &Graph, after: &Graph, inputs: &[IValue]) -> Option<String> {
    let settings = Settings::default();
    let of = |graph: &Graph| Outcome::of(graph, &settings, inputs, Precision::Typed);
    let expected = of(before);
    let Ok(wanted) = &expected.results else { return None };
    let found = of(after);
    let got = match &found.results {
        Ok(got) => got,
        Err(stop) => return Some(format!("it fails: {stop}")),
    };
    let differ = |when: &str| {
        let (a, b) = (shown(wanted, &expected.inputs), shown(got, &found.inputs));
        (a != b).then(|| format!("{when}it is {b}\nnot {a}"))
    };
    differ("").or_else(|| {
        for (i, (a, b)) in wanted.iter().zip(got).enumerate() {
            poke(a, i as i64 + 1);
            poke(b, i as i64 + 1);
        }
        differ("after writing to the results ")
    })
}

/// Writes to all results.
fn poke(value: &IValue, number: i64) {
    match value {
        IValue::Tensor(tensor) if tensor.numel() > 0 => tensor.fill(Scalar::Int(number)),
        IValue::List(list) => {
            list.borrow().iter().for_each(|value| poke(value, number));
            list.borrow_mut().push(IValue::Int(number));
        }
        _ => {}
    }
}

fn shown(results: &[IValue], inputs: &[IValue]) -> String {
    let all = |values: &[IValue]| values.iter().map(show).collect::<Vec<_>>().join(", ");
    format!("({}) with inputs ({})", all(results), all(inputs))
}

/// A value by its bits; all NaNs are equal.
pub fn show(value: &IValue) -> String {
    let float = |x: f64| if x.is_nan() { "nan".to_owned() } else { format!("{x:?}") };
    match value {
        IValue::Tensor(tensor) => {
            let elements: Vec<String> = match tensor.dtype() {
                dtype if dtype.is_integral() => tensor.read::<i64>().iter().map(ToString::to_string).collect(),
                dtype if dtype.is_complex() => {
                    tensor.read::<C128>().iter().map(|z| format!("{}+{}i", float(z.re), float(z.im))).collect()
                }
                _ => tensor.read::<f64>().into_iter().map(float).collect(),
            };
            format!("{}{:?}[{}]", tensor.dtype().name(), tensor.shape(), elements.join(" "))
        }
        IValue::Float(x) => float(*x),
        IValue::List(list) => format!("[{}]", list.borrow().iter().map(show).collect::<Vec<_>>().join(", ")),
        IValue::Tuple(parts) => format!("({})", parts.iter().map(show).collect::<Vec<_>>().join(", ")),
        IValue::Int(n) => n.to_string(),
        IValue::Str(text) => format!("{:?}", Rc::clone(text)),
        other => format!("{other:?}"),
    }
}
