//! Attribute values: the constants in square brackets after a kind.

use super::graph::Graph;
use crate::symbol::Symbol;
use crate::types::release::Release;
use crate::types::{DType, Type};
use std::sync::Arc;

/// An attribute value, as the text shows it.
///
/// Texts that show a tensor only in part are shared by the copies of an attribute: sharing
/// identifies the content, wherever passes move it.
#[derive(Clone, Debug)]
pub enum Attribute {
    /// `3`; also a bool constant, which prints as 0 or 1.
    Int(i64),
    /// `1e-05`, `2.`, `inf`
    Float(Float),
    /// `2.+3.j`
    Complex(Box<(Float, Float)>),
    /// `True`, inside lists and tuples only.
    Bool(bool),
    /// `None`, inside lists and tuples only.
    None,
    /// `"text"`, any bytes.
    Str(Box<[u8]>),
    /// `[1, 2]`
    List(Box<[Attribute]>),
    /// `annotate(List[int], [])`: an empty list since 1.7, with its annotation.
    EmptyList(Box<str>),
    /// `(1, "a")`, `(1,)`
    Tuple(Box<[Attribute]>),
    /// `{"k": 1}`
    Dict(Box<[(Attribute, Attribute)]>),
    /// `torch.device("cpu")`, inside lists and tuples only.
    Device(Box<[u8]>),
    /// `Float(2, 2)` of `profiled_type=`, `int` of `types=[int]`.
    Type(Type),
    /// `__torch__.Color.RED`
    Enum(Symbol),
    /// `{1}`, ` 1  2 [ CPULongType{2} ]`: a tensor whose elements PyTorch printed, rounded unless
    /// they are integers.
    Tensor(Arc<str>),
    /// `<Tensor>`, `[<Tensors>]`, `object(0x55..)`, `MKLDNN Tensor: [...]`: content unknown, never
    /// equal to another value.
    Opaque(Arc<str>),
    /// The `Subgraph` of a node, printed as a section of its own.
    Graph(Box<Graph>),
}

/// A floating point number and the number of digits it was printed with.
#[derive(Clone, Copy, Debug)]
pub struct Float {
    /// The number.
    pub value: f64,
    /// The printer that reproduces its spelling.
    pub style: FloatStyle,
}

/// PyTorch's float formats, observed in each release, `testdata/text/ok/floats_of_*.ir`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FloatStyle {
    /// Six significant digits and no forced point: `2`, `1e-05` (up to 1.4).
    Six,
    /// Seventeen, and a point after integers below 1e10: `2.`, `0.10000000000000001` (from 1.7 on).
    Seventeen,
    /// Seventeen, and a point after integers in the range of `i64`: `12345678901.` (1.5 and 1.6).
    Pointed,
}

impl FloatStyle {
    /// The style in which a release prints.
    pub fn of(release: Release) -> FloatStyle {
        match release {
            Release(1, ..=4) => FloatStyle::Six,
            Release(1, 5 | 6) => FloatStyle::Pointed,
            _ => FloatStyle::Seventeen,
        }
    }
}

impl Attribute {
    /// Whether both are known to be the same constant. The types of the values determine how much
    /// of a printed tensor is known: elements of floating point tensors were rounded, so two equal
    /// texts may be two tensors.
    pub fn same_constant(&self, other: &Attribute, ty: Option<Type>) -> bool {
        use Attribute::*;
        let all = |a: &[Attribute], b: &[Attribute]| {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.same_constant(b, Option::None))
        };
        match (self, other) {
            (Int(a), Int(b)) => a == b,
            (Float(a), Float(b)) => a.same(*b),
            (Complex(a), Complex(b)) => a.0.same(b.0) && a.1.same(b.1),
            (Bool(a), Bool(b)) => a == b,
            (None, None) => true,
            (Str(a), Str(b)) | (Device(a), Device(b)) => a == b,
            (List(a), List(b)) | (Tuple(a), Tuple(b)) => all(a, b),
            (EmptyList(a), EmptyList(b)) => a == b,
            (Dict(a), Dict(b)) => {
                let pair = |(a, b): (&(Attribute, Attribute), &(Attribute, Attribute))| {
                    a.0.same_constant(&b.0, Option::None) && a.1.same_constant(&b.1, Option::None)
                };
                a.len() == b.len() && a.iter().zip(b.iter()).all(pair)
            }
            (Type(a), Type(b)) => a == b,
            (Enum(a), Enum(b)) => a == b,
            // Copies of one constant share its text.
            (Tensor(a), Tensor(b)) if Arc::ptr_eq(a, b) => true,
            (Tensor(a), Tensor(b)) => a == b && ty.is_some_and(prints_exactly),
            (Opaque(_), Opaque(_)) => false,
            _ => false,
        }
    }

    /// Whether the content is not in the text.
    pub fn is_opaque(&self) -> bool {
        match self {
            Attribute::Opaque(_) => true,
            Attribute::List(parts) | Attribute::Tuple(parts) => parts.iter().any(Attribute::is_opaque),
            _ => false,
        }
    }

    /// The number, if it is an integer.
    pub fn as_int(&self) -> Option<i64> {
        if let Attribute::Int(n) = self { Some(*n) } else { None }
    }

    /// A hash that is equal for equal constants.
    pub fn hash_key(&self) -> u64 {
        use Attribute::*;
        let fold = |parts: &[Attribute]| parts.iter().fold(7u64, |h, p| h.wrapping_mul(0x100_0193) ^ p.hash_key());
        match self {
            Int(n) => *n as u64,
            Float(float) => float.value.to_bits(),
            Bool(b) => u64::from(*b),
            Str(text) | Device(text) => text.iter().fold(11, |h: u64, &b| h.wrapping_mul(0x100_0193) ^ u64::from(b)),
            List(parts) | Tuple(parts) => fold(parts),
            Enum(symbol) => symbol.index() as u64,
            _ => 0,
        }
    }
}

fn prints_exactly(ty: Type) -> bool {
    ty.as_tensor().and_then(|tensor| tensor.dtype).is_some_and(DType::is_integral)
}

impl Float {
    /// Bitwise the same number; every NaN is the same, 0 and -0 are not.
    pub(crate) fn same(self, other: Float) -> bool {
        self.value.to_bits() == other.value.to_bits() || (self.value.is_nan() && other.value.is_nan())
    }
}
