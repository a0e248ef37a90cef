//! The element type of a result, from those of the operands.
//!
//! Operands fall into three classes: tensors with dimensions, tensors without, and plain numbers. A
//! class only counts when it is of a higher kind (bool, integer, floating point, complex) than the
//! classes before it; plain numbers then have the default types. Source: `torch.result_type`, in
//! force since 1.3 for arithmetic and comparisons.

use super::dtype::{DType, Kind};
use super::strided::{Scalar, Tensor};
use DType::*;

/// The smaller of the types that represent the values of both.
pub fn join(a: DType, b: DType) -> DType {
    if a == b {
        return a;
    }
    let (low, high) = if a.arithmetic() <= b.arithmetic() { (a, b) } else { (b, a) };
    match (low.arithmetic(), high.arithmetic()) {
        (_, None) | (None, _) => high,
        (Some(x), Some(y)) if x == y => match (low, high) {
            // No 8-bit type represents the values of both.
            (Byte, Char) | (Char, Byte) => Short,
            (Half, BFloat16) | (BFloat16, Half) => Float,
            _ if low.size() > high.size() => low,
            _ => high,
        },
        (Some(Kind::Float), Some(Kind::Complex)) if low == Double => ComplexDouble,
        _ => high,
    }
}

/// The type of a plain number, given the default floating point type.
pub(crate) fn of_scalar(scalar: Scalar, default: DType) -> DType {
    of_number(scalar.kind(), default)
}

/// The type of a plain number of a kind, given the default floating point type.
pub(crate) fn of_number(kind: Kind, default: DType) -> DType {
    match kind {
        Kind::Bool => Bool,
        Kind::Int => Long,
        Kind::Float => default,
        Kind::Complex => default.to_complex(),
    }
}

/// The operands seen so far.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Promotion {
    dimensioned: Option<DType>,
    zero_dim: Option<DType>,
    number: Option<DType>,
}

impl Promotion {
    /// Counts a tensor.
    pub(crate) fn tensor(self, tensor: &Tensor) -> Promotion {
        match tensor.dtype().arithmetic().filter(|_| tensor.is_number()) {
            Some(kind) => self.number(kind),
            None => self.element(tensor.dtype(), tensor.rank() > 0),
        }
    }

    /// Counts a tensor with this element type.
    pub(crate) fn element(mut self, dtype: DType, has_dimensions: bool) -> Promotion {
        let class = if has_dimensions { &mut self.dimensioned } else { &mut self.zero_dim };
        *class = Some(class.map_or(dtype, |seen| join(seen, dtype)));
        self
    }

    /// Counts a plain number.
    pub(crate) fn scalar(self, scalar: Scalar) -> Promotion {
        self.number(scalar.kind())
    }

    /// Counts a plain number of this kind.
    pub(crate) fn number(mut self, kind: Kind) -> Promotion {
        let dtype = of_number(kind, Float);
        self.number = Some(self.number.map_or(dtype, |seen| join(seen, dtype)));
        self
    }

    /// The type of the result.
    pub(crate) fn result(self) -> DType {
        let kind = |dtype: Option<DType>| dtype.and_then(DType::arithmetic);
        let mut result = self.dimensioned;
        for lower in [self.zero_dim, self.number] {
            result = match (result, lower) {
                (Some(higher), Some(lower)) if kind(Some(lower)) > kind(Some(higher)) => Some(raised(higher, lower)),
                (None, lower) => lower,
                (higher, _) => higher,
            };
        }
        result.unwrap_or(Float)
    }
}

/// A lower class of a higher kind wins; a complex one takes its width from the floating point
/// operands.
fn raised(higher: DType, lower: DType) -> DType {
    match (higher.arithmetic(), lower.arithmetic()) {
        (Some(Kind::Float), Some(Kind::Complex)) => higher.to_complex(),
        _ => lower,
    }
}

/// The type of the result of two tensors.
pub(crate) fn result_type(a: &Tensor, b: &Tensor) -> DType {
    Promotion::default().tensor(a).tensor(b).result()
}

/// Whether a zero-dimensional constant of this type is a traced Python number, which has the widest
/// type of its kind: `%2 : Double() = prim::Constant[value={0.5}]()`. It has no influence on the
/// type of a product with it; PyTorch 2.15 does this also for graphs that were saved and loaded.
pub fn stands_for_number(dtype: DType) -> bool {
    matches!(dtype, Double | Long | ComplexDouble)
}

/// The type of the result of a floating point operator: integers become the default floating point
/// type.
pub(crate) fn to_float_arithmetic(dtype: DType) -> DType {
    if dtype.is_integral() { Float } else { dtype }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_only_raise_the_kind() {
        let tensor = |dtype, shape: &[i64]| Tensor::zeros(dtype, shape, super::super::Precision::Typed);
        let (int, half, double) = (tensor(Int, &[2]), tensor(Half, &[2]), tensor(Double, &[]));
        assert_eq!(Promotion::default().tensor(&half).tensor(&double).result(), Half);
        assert_eq!(Promotion::default().tensor(&int).tensor(&double).result(), Double);
        assert_eq!(Promotion::default().tensor(&int).scalar(Scalar::Float(2.0)).result(), Float);
        assert_eq!(Promotion::default().tensor(&int).scalar(Scalar::Int(2)).result(), Int);
        assert_eq!(Promotion::default().scalar(Scalar::Int(2)).tensor(&half).result(), Half);
        assert_eq!(join(Byte, Char), Short);
        assert_eq!(join(Half, BFloat16), Float);
        assert_eq!(join(Long, Half), Half);
    }
}
