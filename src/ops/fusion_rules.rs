//! The column of the operator table for operators that can be part of a pointwise kernel.
//!
//! A row names kinds, and their elementwise overloads. Level 1 is the set of PyTorch's legacy
//! fuser, in 1.3 as in 2.x except `aten::logit`, which came later. Level 2 adds pointwise operators
//! that PyTorch's fuser leaves out without necessity, and reductions.

use super::recipes::recipes;
use super::schema::Schema;
use rustc_hash::FxHashMap;
use std::cell::RefCell;

/// One row.
#[derive(Debug)]
pub struct FusionRow {
    /// The kinds that the row applies to.
    pub kinds: &'static [&'static str],
    /// The overloads that are pointwise, by name.
    pub overloads: &'static [&'static str],
    /// The lowest fuser level that takes them.
    pub level: u8,
    /// Whether the first tensor alone determines the sizes of the result; otherwise all are
    /// broadcast together.
    pub like_first: bool,
    /// Whether it is a reduction, see [`super::recipes`].
    pub reduces: bool,
    /// Whether it reads no element, only the sizes of the first tensor: not worth a kernel of its
    /// own.
    pub fills: bool,
}

impl FusionRow {
    const fn level(self, level: u8) -> FusionRow {
        FusionRow { level, ..self }
    }

    const fn like_first(self) -> FusionRow {
        FusionRow { like_first: true, ..self }
    }

    const fn reduces(self) -> FusionRow {
        FusionRow { reduces: true, level: 2, ..self }
    }

    const fn fills(self) -> FusionRow {
        FusionRow { fills: true, like_first: true, ..self }
    }

    fn fits(&self, schema: &Schema) -> bool {
        let is_computed = match self.reduces {
            true => !recipes(schema).is_empty(),
            false => {
                schema.formals.iter().any(|formal| formal.ty.is_tensor())
                    && schema.returns.len() == 1
                    && schema.returns[0].ty.is_tensor()
            }
        };
        is_computed && self.kinds.contains(&schema.kind.as_str()) && self.overloads.contains(&schema.overload)
    }
}

const fn row(kinds: &'static [&'static str], overloads: &'static [&'static str]) -> FusionRow {
    FusionRow { kinds, overloads, level: 1, like_first: false, reduces: false, fills: false }
}

/// The row of an overload; `None` if it cannot be part of a kernel. The first lookup of an overload
/// searches the table.
pub fn fusion_row(schema: &'static Schema) -> Option<&'static FusionRow> {
    thread_local! {
        static SEEN: RefCell<FxHashMap<*const Schema, Option<&'static FusionRow>>> = RefCell::default();
    }
    SEEN.with_borrow_mut(|seen| *seen.entry(schema).or_insert_with(|| FUSIBLE.iter().find(|row| row.fits(schema))))
}

/// Overloads without a name.
const PLAIN: &[&str] = &[""];
/// A tensor with a tensor, a tensor with a number.
const BOTH: &[&str] = &["Tensor", "Scalar"];

/// The table.
#[rustfmt::skip]
pub const FUSIBLE: &[FusionRow] = &[
    // One operand.
    row(&["aten::abs", "aten::neg", "aten::reciprocal", "aten::relu", "aten::sigmoid", "aten::tanh"], PLAIN),
    row(&["aten::acos", "aten::asin", "aten::atan", "aten::cos", "aten::cosh", "aten::sin", "aten::sinh", "aten::tan"], PLAIN),
    row(&["aten::ceil", "aten::floor", "aten::round", "aten::trunc", "aten::frac"], PLAIN),
    row(&["aten::erf", "aten::erfc", "aten::lgamma", "aten::exp", "aten::expm1", "aten::sqrt", "aten::rsqrt"], PLAIN),
    row(&["aten::log", "aten::log10", "aten::log1p", "aten::log2", "aten::logit"], PLAIN),
    row(&["aten::_cast_Float"], PLAIN),
    row(&["aten::rand_like"], PLAIN).like_first(),
    // Two.
    row(&["aten::add", "aten::sub", "aten::mul", "aten::div"], BOTH),
    row(&["aten::eq", "aten::ne", "aten::ge", "aten::gt", "aten::le", "aten::lt"], BOTH),
    row(&["aten::pow"], &["Tensor_Tensor", "Tensor_Scalar", "Scalar"]),
    row(&["aten::atan2"], PLAIN),
    row(&["aten::fmod", "aten::remainder"], &["Tensor"]),
    row(&["aten::max", "aten::min"], &["other"]),
    row(&["aten::type_as"], PLAIN).like_first(),
    // More.
    row(&["aten::lerp"], BOTH),
    row(&["aten::clamp", "aten::threshold", "aten::addcmul"], PLAIN),
    row(&["aten::where"], &["self"]),
    // Operators that PyTorch does not take.
    row(&["aten::fmod", "aten::remainder"], &["Scalar"]).level(2),
    row(&["aten::gelu", "aten::silu", "aten::softplus", "aten::hardtanh", "aten::leaky_relu"], PLAIN).level(2),
    row(&["aten::elu", "aten::hardswish", "aten::hardsigmoid", "aten::relu6", "aten::mish", "aten::sign"], PLAIN).level(2),
    row(&["aten::_cast_Double", "aten::_cast_Half", "aten::_cast_Int", "aten::_cast_Long"], PLAIN).level(2),
    row(&["aten::bitwise_and", "aten::bitwise_or", "aten::bitwise_xor"], BOTH).level(2),
    row(&["aten::bitwise_not", "aten::logical_not", "aten::logical_and", "aten::logical_or", "aten::logical_xor"], PLAIN).level(2),
    row(&["aten::maximum", "aten::minimum", "aten::addcdiv", "aten::square", "aten::exp2"], PLAIN).level(2),
    row(&["aten::rsub"], BOTH).level(2),
    row(&["aten::zeros_like", "aten::ones_like"], PLAIN).level(2).fills(),
    row(&["aten::where"], &["ScalarOther", "ScalarSelf"]).level(2),
    row(&["aten::masked_fill"], &["Scalar"]).level(2),
    row(&["aten::to"], &["", "dtype", "prim_dtype", "other"]).level(2).like_first(),
    row(&["aten::isnan", "aten::isinf", "aten::isfinite", "aten::isposinf", "aten::isneginf", "aten::signbit"], PLAIN).level(2),
    row(&["aten::nan_to_num", "aten::sgn", "aten::sinc", "aten::deg2rad", "aten::rad2deg"], PLAIN).level(2),
    row(&["aten::acosh", "aten::asinh", "aten::atanh"], PLAIN).level(2),
    row(&["aten::fmax", "aten::fmin", "aten::hypot", "aten::heaviside", "aten::logaddexp", "aten::logaddexp2"], PLAIN).level(2),
    row(&["aten::copysign"], BOTH).level(2),
    row(&["aten::xlogy"], &["Tensor", "Scalar_Self", "Scalar_Other"]).level(2),
    row(&["aten::float_power"], &["Tensor_Tensor", "Tensor_Scalar", "Scalar"]).level(2),
    row(&["aten::div"], &["Tensor_mode", "Scalar_mode"]).level(2),
    row(&["aten::floor_divide"], &["", "Scalar"]).level(2),
    row(&["aten::clamp"], &["Tensor"]).level(2),
    row(&["aten::clamp_min", "aten::clamp_max"], &["", "Tensor"]).level(2),
    row(&["aten::celu", "aten::selu", "aten::log_sigmoid", "aten::hardshrink", "aten::softshrink"], PLAIN).level(2),
    row(&["aten::threshold_backward", "aten::hardtanh_backward", "aten::leaky_relu_backward", "aten::elu_backward"], PLAIN).level(2),
    row(&["aten::silu_backward", "aten::gelu_backward", "aten::softplus_backward"], PLAIN).level(2),
    row(&["aten::hardsigmoid_backward", "aten::hardswish_backward", "aten::hardshrink_backward", "aten::softshrink_backward"], PLAIN).level(2),
    // Reductions.
    row(&["aten::sum"], &["", "dim_IntList"]).reduces(),
    row(&["aten::mean"], &["", "dim"]).reduces(),
    row(&["aten::prod"], &["", "dim_int"]).reduces(),
    row(&["aten::amax", "aten::amin", "aten::max", "aten::min", "aten::logsumexp"], PLAIN).reduces(),
    row(&["aten::var", "aten::std"], &["", "dim", "correction"]).reduces(),
    row(&["aten::softmax", "aten::log_softmax"], &["", "int"]).reduces().like_first(),
    row(&["aten::layer_norm", "aten::native_layer_norm", "aten::native_layer_norm_backward"], PLAIN).reduces().like_first(),
    row(&["aten::batch_norm", "aten::native_batch_norm"], PLAIN).reduces().like_first(),
    row(&["aten::var_mean", "aten::std_mean"], &["", "dim", "correction"]).reduces(),
    row(&["aten::aminmax", "aten::argmax", "aten::argmin"], PLAIN).reduces(),
    row(&["aten::max", "aten::min"], &["dim"]).reduces(),
    row(&["aten::cumsum", "aten::cumprod"], PLAIN).reduces().like_first(),
];

/// Pointwise operators that no level takes: kinds, their pointwise overloads, and the reason.
#[rustfmt::skip]
const UNTAKEN: &[(&[&str], &[&str], &str)] = &[
    (&["aten::digamma", "aten::erfinv", "aten::i0", "aten::mvlgamma", "aten::polygamma", "aten::special_ndtri", "aten::special_log_ndtr"], PLAIN, UNKNOWN),
    (&["aten::special_i0e", "aten::special_i1", "aten::special_i1e", "aten::special_entr", "aten::special_erfcx"], PLAIN, UNKNOWN),
    (&["aten::igamma", "aten::igammac", "aten::mish_backward", "aten::nextafter"], PLAIN, UNKNOWN),
    (&["aten::special_zeta"], &["", "other_scalar", "self_scalar"], UNKNOWN),
    (&["aten::ldexp"], &["Tensor"], UNKNOWN),
    (&["aten::angle", "aten::conj", "aten::real", "aten::imag", "aten::complex", "aten::polar"], PLAIN, "kernels have no complex arithmetic"),
    (&["aten::gcd", "aten::lcm"], PLAIN, NO_INTEGERS),
    (&["aten::bitwise_left_shift", "aten::bitwise_right_shift"], &["Tensor", "Tensor_Scalar", "Scalar_Tensor"], NO_INTEGERS),
    (&["aten::__lshift__", "aten::__rshift__"], BOTH, NO_INTEGERS),
    (&["aten::remainder"], &["Scalar_Tensor"], "its dividend, a number, cannot be an operand of a kernel"),
    (&["aten::masked_fill"], &["Tensor"], "its fill value may be out of range of the element type, which raises an exception"),
    (&["aten::prelu"], PLAIN, "its slopes are broadcast in another dimension than their own"),
    (&["aten::positive", "aten::clone"], PLAIN, "it has no computation"),
];

/// There is a formula, but none with accurate last digits in vector code.
const UNKNOWN: &str = "it has no formula that is both accurate and branch-free";
const NO_INTEGERS: &str = "it has no formula for integers";

/// The reason why no level takes a pointwise overload; `None` if a level does, or if it is not
/// pointwise.
pub fn untaken(schema: &Schema) -> Option<&'static str> {
    let fits = |kinds: &[&str], overloads: &[&str]| {
        kinds.contains(&schema.kind.as_str()) && overloads.contains(&schema.overload)
    };
    let is_pointwise = schema.returns.len() == 1 && schema.returns[0].ty.is_tensor();
    UNTAKEN.iter().find(|(kinds, overloads, _)| is_pointwise && fits(kinds, overloads)).map(|(.., why)| *why)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops;
    use crate::symbol::Symbol;
    use crate::types::era::Era;
    use std::collections::BTreeSet;

    fn declared(kind: &str) -> Vec<&'static Schema> {
        let eras = [Era::V1_3, Era::V2];
        eras.iter().flat_map(|&era| ops::operator(era, Symbol::new(kind)).schemas).collect()
    }

    #[test]
    fn each_overload_of_a_row_is_declared_and_stands_in_one_row() {
        let mut seen = BTreeSet::new();
        for row in FUSIBLE {
            for kind in row.kinds {
                for overload in row.overloads {
                    let found = declared(kind).into_iter().find(|s| s.overload == *overload && row.fits(s));
                    assert!(found.is_some(), "{kind}.{overload} is not declared, or not pointwise");
                    assert!(seen.insert((*kind, *overload)), "{kind}.{overload} has two rows");
                }
            }
        }
    }

    #[test]
    fn what_no_level_takes_is_declared_and_has_no_row() {
        for (kinds, overloads, why) in UNTAKEN {
            for kind in *kinds {
                let all = declared(kind).into_iter().filter(|s| overloads.contains(&s.overload));
                let found: Vec<_> = all.filter(|schema| untaken(schema) == Some(*why)).collect();
                assert!(!found.is_empty(), "{kind} is not declared, or not pointwise");
                assert!(found.into_iter().all(|schema| fusion_row(schema).is_none()), "{kind} has a row");
            }
        }
    }

    #[test]
    fn reductions_have_recipes() {
        for row in FUSIBLE.iter().filter(|row| row.reduces) {
            for kind in row.kinds {
                for overload in row.overloads {
                    let rows = declared(kind).into_iter().filter(|s| s.overload == *overload && row.fits(s));
                    assert!(rows.count() > 0, "{kind}.{overload}");
                }
            }
        }
    }

    #[test]
    fn what_sorts_or_computes_with_numbers_has_no_row() {
        for (kind, overload) in
            [("aten::median", "dim"), ("aten::sum", "int"), ("aten::round", "decimals"), ("aten::add", "int")]
        {
            let all = declared(kind);
            let found: Vec<_> = all.iter().filter(|s| s.overload == overload).collect();
            assert!(!found.is_empty(), "{kind}.{overload}");
            assert!(found.iter().all(|schema| fusion_row(schema).is_none()), "{kind}.{overload}");
        }
    }
}
