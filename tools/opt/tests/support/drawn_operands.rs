//! Operands of an overload as data that can be written into a graph, generated at random and
//! varied.

use super::dice::Dice;
use jitopt_core::interpreter::IValue;
use jitopt_core::ops::schema::{Formal, Schema};
use jitopt_core::tensor::quantizer::Quantizer;
use jitopt_core::tensor::{C128, DType, Precision, Tensor};
use jitopt_core::types::TypeKind;

/// A tensor without its elements, which are derived from it.
#[derive(Clone, Debug, PartialEq)]
pub struct Spec {
    pub dtype: DType,
    pub shape: Vec<i64>,
    /// Integers are below this.
    pub limit: i64,
}

/// An operand of a node.
#[derive(Clone, Debug, PartialEq)]
pub enum Operand {
    None,
    Int(i64),
    Float(f64),
    Bool(bool),
    Str(String),
    Device(String),
    Ints(Vec<i64>),
    Floats(Vec<f64>),
    Bools(Vec<bool>),
    Tensor(Spec),
    Tensors(Vec<Option<Spec>>),
    /// The result of a node of this kind on operands: a packed weight.
    Made(String, Vec<Operand>),
}

/// String operands of operators.
const WORDS: &[&str] = &[
    "none",
    "mean",
    "sum",
    "floor",
    "trunc",
    "constant",
    "reflect",
    "replicate",
    "circular",
    "linear",
    "nearest",
    "lower",
    "midpoint",
    "fro",
    "nuc",
    "reduced",
    "complete",
    "ij",
    "xy",
    "prod",
    "amax",
    "amin",
    "tanh",
    "max",
    "min",
    "add",
];
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
const SIZES: &[i64] = &[0, 1, 1, 2, 2, 3, 4, 5];
const INTS: &[i64] = &[-3, -2, -1, -1, 0, 0, 1, 1, 2, 3, 4];
/// Maximum number of elements of a tensor.
const MOST: i64 = 4096;

impl Spec {
    pub fn new(dtype: DType, shape: &[i64]) -> Spec {
        Spec { dtype, shape: shape.to_vec(), limit: 2 }
    }

    /// The tensor.
    pub fn made(&self) -> IValue {
        let n = self.shape.iter().product::<i64>();
        if self.dtype.is_quantized() {
            let all: Vec<i64> = (0..n).map(|i| i % 7).collect();
            let integers = Tensor::of(&all, self.dtype.memory(), &self.shape, Precision::Typed);
            return integers.quantized(self.dtype, Quantizer::Tensor { scale: 0.25, zero: 0 }).into();
        }
        if self.dtype.is_integral() {
            let all: Vec<i64> = (0..n).map(|i| i % self.limit.max(1)).collect();
            return Tensor::of(&all, self.dtype, &self.shape, Precision::Typed).into();
        }
        let real = |i: i64| 0.125 + (i * 7 % 13) as f64 / 16.0;
        if self.dtype.is_complex() {
            let all: Vec<C128> = (0..n).map(|i| C128::new(real(i), real(i + 5))).collect();
            return Tensor::of(&all, self.dtype, &self.shape, Precision::Typed).into();
        }
        let all: Vec<f64> = (0..n).map(real).collect();
        Tensor::of(&all, self.dtype, &self.shape, Precision::Typed).into()
    }

    fn of(tensor: &Tensor) -> Spec {
        let largest = if tensor.dtype().is_integral() { tensor.read::<i64>().into_iter().max() } else { None };
        Spec { dtype: tensor.dtype(), shape: tensor.shape().to_vec(), limit: largest.unwrap_or(1) + 1 }
    }

    fn is_small(&self) -> bool {
        self.shape.iter().map(|n| (*n).max(1)).product::<i64>() <= MOST && self.shape.len() < 7
    }
}

impl Operand {
    /// A value as data; none of what has no place in a text.
    pub fn of(value: &IValue) -> Option<Operand> {
        Some(match value {
            IValue::None => Operand::None,
            IValue::Int(n) => Operand::Int(*n),
            IValue::Float(x) => Operand::Float(*x),
            IValue::Bool(b) => Operand::Bool(*b),
            IValue::Str(text) => Operand::Str(text.to_string()),
            IValue::Device(_) => Operand::Device("cpu".to_owned()),
            IValue::Tensor(tensor) => Operand::Tensor(Spec::of(tensor)),
            IValue::List(list) => return Operand::of_list(&list.borrow()),
            _ => return None,
        })
    }

    fn of_list(all: &[IValue]) -> Option<Operand> {
        let tensor = |value: &IValue| match value {
            IValue::None => Some(None),
            IValue::Tensor(tensor) => Some(Some(Spec::of(tensor))),
            _ => None,
        };
        let int = |value: &IValue| if let IValue::Int(n) = value { Some(*n) } else { None };
        let float = |value: &IValue| if let IValue::Float(x) = value { Some(*x) } else { None };
        let bool = |value: &IValue| if let IValue::Bool(b) = value { Some(*b) } else { None };
        (all.iter().map(int).collect::<Option<_>>().map(Operand::Ints))
            .or_else(|| all.iter().map(float).collect::<Option<_>>().map(Operand::Floats))
            .or_else(|| all.iter().map(bool).collect::<Option<_>>().map(Operand::Bools))
            .or_else(|| all.iter().map(tensor).collect::<Option<_>>().map(Operand::Tensors))
    }

    /// The operand that a word of the tables of operands stands for.
    pub fn parse(word: &str) -> Option<Operand> {
        let ints =
            |list: &str| list.split(',').filter(|n| !n.is_empty()).map(|n| n.parse().ok()).collect::<Option<_>>();
        let floats = |list: &str| list.split(',').map(|n| n.parse().ok()).collect::<Option<_>>();
        if let Some((kind, operands)) = word.strip_prefix("made:").and_then(|rest| rest.split_once('(')) {
            let operands = operands.strip_suffix(')')?.split('|').map(Operand::parse).collect::<Option<_>>()?;
            return Some(Operand::Made(kind.to_owned(), operands));
        }
        let bare = |list: &'_ str| list.trim_matches(['[', ']']).to_owned();
        Some(match word.split_once(':') {
            None if word == "none" => Operand::None,
            None if word == "yes" || word == "no" => Operand::Bool(word == "yes"),
            None if word == "mask" => Operand::Bools(vec![true; 3]),
            Some(("int", n)) => Operand::Int(n.parse().ok()?),
            Some(("float", x)) => Operand::Float(x.parse().ok()?),
            Some(("text", text)) => Operand::Str(text.trim_matches('"').to_owned()),
            Some(("ints", list)) => Operand::Ints(ints(&bare(list))?),
            Some(("floats", list)) => Operand::Floats(floats(&bare(list))?),
            Some(("bools", list)) => Operand::Bools(bare(list).split(',').map(|b| b == "1").collect()),
            Some(("list", list)) => Operand::Tensors(list.split(',').map(spec_of).collect::<Option<_>>()?),
            _ => Operand::Tensor(spec_of(word)??),
        })
    }

    /// The tensors in it.
    pub fn specs(&self) -> Vec<&Spec> {
        match self {
            Operand::Tensor(spec) => vec![spec],
            Operand::Tensors(all) => all.iter().flatten().collect(),
            _ => Vec::new(),
        }
    }

    fn specs_mut(&mut self) -> Vec<&mut Spec> {
        match self {
            Operand::Tensor(spec) => vec![spec],
            Operand::Tensors(all) => all.iter_mut().flatten().collect(),
            _ => Vec::new(),
        }
    }
}

/// A tensor as `long:2x3`; the inner `None` stands for the word `none`.
#[allow(clippy::option_option, reason = "a word that is none of both is an error")]
fn spec_of(word: &str) -> Option<Option<Spec>> {
    let (kind, shape) = word.split_once(':').unwrap_or(("", word));
    if word == "none" {
        return Some(None);
    }
    let (dtype, limit) = match kind {
        "" | "double" | "sign" => (DType::Float, 2),
        "long" => (DType::Long, 2),
        "zeros" => (DType::Long, 1),
        "bool" => (DType::Bool, 2),
        "complex" => (DType::ComplexFloat, 2),
        "float64" => (DType::Double, 2),
        "byte" => (DType::Byte, 2),
        "quint8" => (DType::QUInt8, 2),
        "qint8" => (DType::QInt8, 2),
        "longs" => return Some(Some(Spec::new(DType::Long, &[shape.split(',').count() as i64]))),
        "doubles" => return Some(Some(Spec::new(DType::Float, &[shape.split(',').count() as i64]))),
        _ => return None,
    };
    let shape: Option<Vec<i64>> = match shape {
        "" | "scalar" => Some(Vec::new()),
        sizes => sizes.split('x').map(|n| n.parse().ok()).collect(),
    };
    Some(Some(Spec { dtype, shape: shape?, limit }))
}

// ---- variations

/// Operands that differ in one respect; they may not fit together any more.
pub fn changed(schema: &Schema, operands: &[Operand], dice: &mut Dice) -> Vec<Operand> {
    let mut operands = operands.to_vec();
    match dice.below(8) {
        0..3 => change_one(schema, &mut operands, dice),
        3 => change_dtypes(&mut operands, dice),
        4 => change_size(&mut operands, dice),
        5 => change_rank(&mut operands, dice),
        6 => change_tensor(&mut operands, dice),
        _ => {
            change_one(schema, &mut operands, dice);
            change_one(schema, &mut operands, dice);
        }
    }
    let small = operands.iter().flat_map(Operand::specs).all(Spec::is_small);
    if !small {
        operands.iter_mut().flat_map(Operand::specs_mut).for_each(|spec| spec.shape.truncate(1));
    }
    operands
}

fn change_one(schema: &Schema, operands: &mut [Operand], dice: &mut Dice) {
    let at = dice.below(operands.len());
    let (Some(formal), Some(first)) = (schema.formals.get(at), operands.get(at).cloned()) else { return };
    let spec = operands.iter().flat_map(Operand::specs).next().cloned().unwrap_or(Spec::new(DType::Float, &[2]));
    let is_optional = matches!(formal.ty.kind(), TypeKind::Optional(_));
    operands[at] = match first {
        Operand::None => given(formal, &spec, dice),
        _ if is_optional && dice.one_in(3) => Operand::None,
        other => other_value(formal, other, dice),
    };
}

fn int(formal: &Formal, dice: &mut Dice) -> i64 {
    match formal.name {
        "dtype" => dice.pick(DTYPES).code().unwrap_or(6),
        "memory_format" => dice.pick(&[0, 1, 2]),
        // Others are not refused, and mean what each kernel makes of them.
        "reduction" => dice.pick(&[0, 1, 2]),
        _ => dice.pick(INTS),
    }
}

/// A value for an optional operand that was None.
fn given(formal: &Formal, spec: &Spec, dice: &mut Dice) -> Operand {
    let TypeKind::Optional(inner) = formal.ty.kind() else { return Operand::None };
    match inner.to_string().replace("SymInt", "int").as_str() {
        "int" | "ScalarType" | "MemoryFormat" => Operand::Int(int(formal, dice)),
        "Scalar" if dice.one_in(2) => Operand::Float(0.5),
        "Scalar" => Operand::Int(dice.pick(INTS)),
        "float" => Operand::Float(0.5),
        "bool" => Operand::Bool(dice.one_in(2)),
        "str" => Operand::Str(dice.pick(WORDS).to_owned()),
        "int[]" => Operand::Ints((0..dice.below(3)).map(|_| dice.pick(INTS)).collect()),
        "float[]" => Operand::Floats(vec![1.5; 1 + dice.below(3)]),
        "Tensor" => Operand::Tensor(spec.clone()),
        "Device" => Operand::Device("cpu".to_owned()),
        _ => Operand::None,
    }
}

fn other_value(formal: &Formal, value: Operand, dice: &mut Dice) -> Operand {
    let is_number = matches!(formal.ty.to_string().as_str(), "Scalar" | "Scalar?" | "number" | "number?");
    match value {
        Operand::Int(_) if is_number && dice.one_in(3) => Operand::Float(0.5),
        Operand::Float(_) if is_number => Operand::Int(dice.pick(INTS)),
        Operand::Int(_) => Operand::Int(int(formal, dice)),
        Operand::Float(_) => Operand::Float(dice.pick(&[0.0, 0.5, 1.0, 1.5, 2.0])),
        Operand::Bool(b) => Operand::Bool(!b),
        Operand::Str(_) => Operand::Str(dice.pick(WORDS).to_owned()),
        Operand::Ints(mut all) => {
            match dice.below(4) {
                0 => all.push(dice.pick(INTS)),
                1 => drop(all.pop()),
                _ if all.is_empty() => {}
                _ => {
                    let at = dice.below(all.len());
                    all[at] = dice.pick(INTS);
                }
            }
            Operand::Ints(all)
        }
        Operand::Bools(mut all) => {
            let at = dice.below(all.len());
            all.iter_mut().skip(at).take(1).for_each(|b| *b = !*b);
            Operand::Bools(all)
        }
        Operand::Tensors(mut all) => {
            match dice.below(3) {
                0 => drop(all.pop()),
                1 => all.extend(all.last().cloned()),
                _ if !all.is_empty() => all.rotate_left(1),
                _ => {}
            }
            Operand::Tensors(all)
        }
        other => other,
    }
}

fn change_dtypes(operands: &mut [Operand], dice: &mut Dice) {
    let dtype = dice.pick(DTYPES);
    let mut specs: Vec<&mut Spec> = operands.iter_mut().flat_map(Operand::specs_mut).collect();
    let Some(first) = specs.first().map(|spec| spec.dtype) else { return };
    let (at, how) = (dice.below(specs.len()), dice.below(3));
    for (i, spec) in specs.iter_mut().enumerate() {
        if how == 0 || how == 1 && spec.dtype == first || how == 2 && i == at {
            spec.dtype = dtype;
        }
    }
}

/// Another size for all equal sizes, or for one.
fn change_size(operands: &mut [Operand], dice: &mut Dice) {
    let mut sizes: Vec<&mut i64> =
        operands.iter_mut().flat_map(Operand::specs_mut).flat_map(|spec| spec.shape.iter_mut()).collect();
    if sizes.is_empty() {
        return;
    }
    let (at, alone, new) = (dice.below(sizes.len()), dice.one_in(3), dice.pick(SIZES));
    let old = *sizes[at];
    for (i, size) in sizes.iter_mut().enumerate() {
        if i == at || !alone && **size == old {
            **size = new;
        }
    }
}

/// One dimension more or less for all tensors, or for one.
fn change_rank(operands: &mut [Operand], dice: &mut Dice) {
    let mut specs: Vec<&mut Spec> = operands.iter_mut().flat_map(Operand::specs_mut).collect();
    let (at, alone, how, size) = (dice.below(specs.len()), dice.one_in(2), dice.below(4), dice.pick(SIZES));
    for (i, spec) in specs.iter_mut().enumerate().filter(|(i, _)| !alone || *i == at) {
        let _ = i;
        match how {
            0 => spec.shape.insert(0, size),
            1 => spec.shape.push(size),
            2 if !spec.shape.is_empty() => drop(spec.shape.remove(0)),
            _ => drop(spec.shape.pop()),
        }
    }
}

/// Another shape, or other integers, for one tensor.
fn change_tensor(operands: &mut [Operand], dice: &mut Dice) {
    let specs: Vec<Spec> = operands.iter().flat_map(Operand::specs).cloned().collect();
    let at = dice.below(specs.len());
    let Some(target) = operands.iter_mut().flat_map(Operand::specs_mut).nth(at) else { return };
    match dice.below(3) {
        0 => target.limit = dice.pick(&[1, 2, 3, 5]),
        1 => target.shape = specs[dice.below(specs.len())].shape.clone(),
        _ => target.shape = (0..dice.below(5)).map(|_| dice.pick(SIZES)).collect(),
    }
}
