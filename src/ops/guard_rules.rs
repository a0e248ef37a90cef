//! The columns of the operator table for speculation: the tensors that a profiled run records, and
//! the operators whose results need no guard.
//!
//! ```text
//! %g : Float(2, 3) = prim::Guard(%x)          the guard of %a is redundant: the negative of a tensor
//! %a : Tensor = aten::neg(%g)                 with all properties known has all properties known
//! %h : Float(2, 3) = prim::Guard(%a)
//! ```
//!
//! Measured: each overload of 2.15 that makes a tensor, with all properties of its operands known
//! and with each operand free in turn; and the nodes that 2.15 instruments. The rules for 1.3 are
//! derived from recorded graphs, where `aten::where`, `aten::softmax`, `aten::sqrt` and
//! `aten::rsqrt` keep their guards. Where PyTorch assumes more than holds, the column has the
//! facts: a bound of `aten::clamp` may be a tensor that is broadcast, or make floats of integers.

use super::schema::Schema;
use crate::symbol::Symbol;
use crate::types::era::Era;
use rustc_hash::FxHashMap;
use std::sync::LazyLock;

/// The condition under which all properties of a result are known, because those of the operands
/// are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settled {
    /// Each operand is settled: guarded with all properties known, or a constant.
    ByOperands {
        /// Operands of type int, float or bool need not be constants.
        numbers: bool,
        /// These may be anything. A tensor may not if the text shows which tensors require
        /// gradients: if it requires one, so does the result.
        free: &'static [usize],
        /// These may be any number if the first operand is floating point.
        free_for_floats: &'static [usize],
    },
    /// All properties of the first operand are known, guarded or not, and the others are constants.
    ByFirst,
    /// Determined by the tensors of a list that is made directly before it, and a constant
    /// dimension.
    ByList,
    /// It unpacks the chunks of a settled tensor.
    ByChunks,
    /// The first operand is settled, and the second one is a constant, or the known sizes of a
    /// tensor.
    BySizes,
    /// Its block returns it and is known to run (an operand is known to be defined): as much is
    /// known as of the returned value.
    ByBlock,
    /// The result is only known to be undefined.
    Undefined,
    /// Always: it is a guard itself.
    Itself,
}

/// One row.
#[derive(Debug)]
struct GuardRow {
    kinds: &'static [&'static str],
    settled: Settled,
    since: Era,
}

const fn row(kinds: &'static [&'static str], settled: Settled) -> GuardRow {
    GuardRow { kinds, settled, since: Era::V1_3 }
}

impl GuardRow {
    const fn since_2(self) -> GuardRow {
        GuardRow { since: Era::V2, ..self }
    }
}

/// Operands that are settled, and any numbers.
const WITH_NUMBERS: Settled = Settled::ByOperands { numbers: true, free: &[], free_for_floats: &[] };

const fn but_for(free: &'static [usize]) -> Settled {
    Settled::ByOperands { numbers: false, free, free_for_floats: &[] }
}

/// The table.
#[rustfmt::skip]
const ROWS: &[GuardRow] = &[
    row(&["aten::add", "aten::add_", "aten::sub", "aten::mul", "aten::div", "aten::pow"], WITH_NUMBERS),
    row(&["aten::t", "aten::type_as"], WITH_NUMBERS),
    // Numbers are dimensions and element types in some overload of these.
    row(&["aten::mm", "aten::min", "aten::max", "aten::rand_like"], but_for(&[])),
    row(&["aten::abs", "aten::neg", "aten::sign", "aten::reciprocal", "aten::relu", "aten::sigmoid", "aten::tanh"], WITH_NUMBERS),
    row(&["aten::threshold", "aten::lerp", "aten::addcmul", "aten::fmod", "aten::remainder", "aten::lgamma"], WITH_NUMBERS),
    row(&["aten::sin", "aten::cos", "aten::tan", "aten::sinh", "aten::cosh", "aten::asin", "aten::acos"], WITH_NUMBERS),
    row(&["aten::atan", "aten::atan2", "aten::floor", "aten::ceil", "aten::trunc", "aten::frac"], WITH_NUMBERS),
    row(&["aten::exp", "aten::expm1", "aten::log", "aten::log2", "aten::log10", "aten::erf", "aten::erfc"], WITH_NUMBERS),
    row(&["aten::ge", "aten::gt", "aten::lt", "aten::le", "aten::eq", "aten::ne"], WITH_NUMBERS),
    row(&["aten::__and__", "aten::__or__", "aten::__xor__", "aten::__lshift__", "aten::__rshift__"], WITH_NUMBERS),
    row(&["aten::bitwise_not", "aten::bitwise_and", "aten::bitwise_or", "aten::bitwise_xor"], WITH_NUMBERS),
    row(&["aten::_cast_Float", "aten::_cast_Long", "prim::ConstantChunk", "prim::AutogradAdd"], WITH_NUMBERS),
    row(&["aten::where", "aten::sqrt", "aten::rsqrt"], WITH_NUMBERS).since_2(),
    row(&["aten::softmax"], but_for(&[1])).since_2(),
    row(&["aten::flatten", "aten::argmax", "aten::squeeze", "aten::avg_pool2d"], but_for(&[])),
    row(&["aten::multinomial"], but_for(&[2, 3])),
    row(&["aten::conv1d", "aten::conv2d", "aten::conv3d"], but_for(&[2, 6])),
    row(&["aten::clamp"], Settled::ByOperands { numbers: false, free: &[], free_for_floats: &[1, 2] }),
    row(&["aten::slice", "aten::unsqueeze", "aten::max_pool1d", "aten::max_pool2d", "aten::max_pool3d"], Settled::ByFirst),
    row(&["aten::cat"], Settled::ByList),
    row(&["prim::ListUnpack"], Settled::ByChunks),
    row(&["aten::_grad_sum_to_size"], Settled::BySizes),
    row(&["prim::GradOf"], Settled::ByBlock),
    row(&["prim::AutogradZero"], Settled::Undefined),
    row(&["prim::Guard"], Settled::Itself),
];

/// The condition under which a guard after an operator is redundant; `None` if it never is.
pub fn settled(era: Era, kind: Symbol) -> Option<Settled> {
    static ALL: LazyLock<FxHashMap<Symbol, &'static GuardRow>> = LazyLock::new(|| {
        ROWS.iter().flat_map(|row| row.kinds.iter().map(move |kind| (Symbol::new(kind), row))).collect()
    });
    ALL.get(&kind).filter(|row| row.since <= era).map(|row| row.settled)
}

/// The tensors recorded by a profiled run around an operator, from 1.5 on. Before that it recorded
/// every tensor operand of a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Profiled {
    /// Its tensor operands.
    pub operands: bool,
    /// Its tensor results, regardless of their uses.
    pub outputs: bool,
}

/// Overloads whose operands and outputs are recorded: those that the compiler of 2.x could make
/// kernels of.
#[rustfmt::skip]
const BOTH: &[&str] = &[
    "aten::__and__.Scalar", "aten::__and__.Tensor", "aten::__lshift__.Scalar", "aten::__lshift__.Tensor", "aten::__or__.Scalar",
    "aten::__or__.Tensor", "aten::__rshift__.Scalar", "aten::__rshift__.Tensor", "aten::__xor__.Scalar", "aten::__xor__.Tensor",
    "aten::_autocast_to_full_precision", "aten::_autocast_to_reduced_precision", "aten::_cast_Float", "aten::_convolution",
    "aten::_convolution.deprecated", "aten::_dim_arange", "aten::_grad_sum_to_size", "aten::_slow_conv2d_forward", "aten::abs",
    "aten::acos", "aten::adaptive_avg_pool1d", "aten::adaptive_avg_pool2d", "aten::adaptive_avg_pool3d", "aten::add.Scalar",
    "aten::add.Tensor", "aten::addcmul", "aten::addmm", "aten::addmm.dtype", "aten::asin", "aten::atan", "aten::atan2",
    "aten::avg_pool2d", "aten::batch_norm", "aten::bmm", "aten::ceil", "aten::clamp", "aten::clamp.Tensor", "aten::contiguous",
    "aten::conv2d", "aten::conv2d.padding", "aten::cos", "aten::cosh", "aten::div.Scalar", "aten::div.Scalar_mode",
    "aten::div.Tensor", "aten::div.Tensor_mode", "aten::dot", "aten::dropout", "aten::elu", "aten::embedding", "aten::eq.Scalar",
    "aten::eq.Tensor", "aten::erf", "aten::erfc", "aten::exp", "aten::expand", "aten::expand_as", "aten::expm1", "aten::floor",
    "aten::fmod.Scalar", "aten::fmod.Tensor", "aten::frac", "aten::ge.Scalar", "aten::ge.Tensor", "aten::gelu", "aten::gt.Scalar",
    "aten::gt.Tensor", "aten::hardshrink", "aten::hardsigmoid", "aten::hardswish", "aten::hardtanh", "aten::index.Tensor_hacked_twin",
    "aten::isnan", "aten::layer_norm", "aten::le.Scalar", "aten::le.Tensor", "aten::leaky_relu", "aten::lerp.Scalar",
    "aten::lerp.Tensor", "aten::lgamma", "aten::linear", "aten::log", "aten::log10", "aten::log1p", "aten::log2",
    "aten::log_softmax.int", "aten::logsumexp", "aten::lt.Scalar", "aten::lt.Tensor", "aten::matmul", "aten::max.other",
    "aten::max_pool2d", "aten::max_pool2d_with_indices", "aten::mean", "aten::mean.dim", "aten::min.other", "aten::mish",
    "aten::mul.Scalar", "aten::mul.Tensor", "aten::mv", "aten::native_batch_norm", "aten::ne.Scalar", "aten::ne.Tensor",
    "aten::neg", "aten::nll_loss", "aten::nonzero", "aten::permute", "aten::pow.Scalar", "aten::pow.Tensor_Scalar",
    "aten::pow.Tensor_Tensor", "aten::reciprocal", "aten::relu", "aten::relu6", "aten::remainder.Scalar", "aten::remainder.Tensor",
    "aten::reshape", "aten::round", "aten::rsqrt", "aten::rsub.Scalar", "aten::sigmoid", "aten::silu", "aten::sin", "aten::sinh",
    "aten::softmax.int", "aten::softplus", "aten::sqrt", "aten::square", "aten::squeeze", "aten::squeeze.dim", "aten::std",
    "aten::std.correction", "aten::std.dim", "aten::sub.Scalar", "aten::sub.Tensor", "aten::t", "aten::tan", "aten::tanh",
    "aten::threshold", "aten::to.dtype", "aten::to.dtype_layout", "aten::to.prim_Device", "aten::to.prim_dtype", "aten::transpose.int",
    "aten::trunc", "aten::type_as", "aten::unsqueeze", "aten::var", "aten::var.correction", "aten::var.dim", "aten::view",
    "aten::mm", "aten::mm.dtype", "aten::where.Scalar", "aten::where.ScalarOther", "aten::where.ScalarSelf", "aten::where.self",
];

/// Overloads whose operands are recorded.
const OPERANDS: &[&str] = &[
    "aten::dim",
    "aten::is_floating_point",
    "aten::size",
    "aten::size.int",
    "aten::split.Tensor",
    "aten::split_with_sizes",
    "aten::unbind.int",
    "prim::device",
    "prim::dtype",
    "prim::is_cuda",
];

/// Overloads whose outputs are recorded.
const OUTPUTS: &[&str] = &["aten::cat", "aten::stack"];

/// Kinds without overloads whose operands and outputs are recorded.
const KINDS: &[&str] = &[
    "prim::ConstantChunk",
    "prim::ListConstruct",
    "prim::AutogradZero",
    "prim::AutogradAdd",
    "prim::AutogradAnyNonZero",
    "prim::AutogradAllNonZero",
    "prim::AutogradAllZero",
];

/// The tensors recorded by a profiled run around a node of this kind.
pub fn profiled(era: Era, kind: Symbol, overload: Option<&Schema>) -> Profiled {
    static ALL: LazyLock<FxHashMap<&'static str, Profiled>> = LazyLock::new(|| {
        let both = BOTH.iter().chain(KINDS).map(|&name| (name, Profiled { operands: true, outputs: true }));
        let operands = OPERANDS.iter().map(|&name| (name, Profiled { operands: true, outputs: false }));
        let outputs = OUTPUTS.iter().map(|&name| (name, Profiled { operands: false, outputs: true }));
        both.chain(operands).chain(outputs).collect()
    });
    if era == Era::V1_3 {
        return Profiled { operands: true, outputs: false };
    }
    let name = match overload.map(|schema| schema.overload).filter(|overload| !overload.is_empty()) {
        Some(overload) => ALL.get(format!("{}.{overload}", kind.as_str()).as_str()),
        None => ALL.get(kind.as_str()),
    };
    name.copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops;

    #[test]
    fn names_are_declared_and_used_once() {
        let all: Vec<&str> = [BOTH, OPERANDS, OUTPUTS].into_iter().flatten().copied().collect();
        let mut sorted = all.clone();
        sorted.sort_unstable();
        sorted.dedup();
        assert_eq!(sorted.len(), all.len(), "a name stands twice");
        for name in all {
            let (kind, overload) = name.split_once('.').unwrap_or((name, ""));
            let declared = ops::operator(Era::V2, Symbol::new(kind)).schemas.iter().any(|s| s.overload == overload);
            assert!(declared, "{name}");
        }
    }

    #[test]
    fn each_kind_has_one_row_and_is_known() {
        let kinds: Vec<&str> = ROWS.iter().flat_map(|row| row.kinds).copied().collect();
        for kind in &kinds {
            assert_eq!(kinds.iter().filter(|other| *other == kind).count(), 1, "{kind}");
            assert!(ops::operator(Era::V2, Symbol::new(kind)).is_known(), "{kind}");
        }
        assert_eq!(settled(Era::V1_3, Symbol::new("aten::sqrt")), None);
        assert_eq!(settled(Era::V2, Symbol::new("aten::sqrt")), Some(WITH_NUMBERS));
    }
}
