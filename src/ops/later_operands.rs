//! Operands that operators have since a certain release.
//!
//! `schemas-2.txt` lists the operands of the newest release. A graph of an earlier one lacks those
//! that were added since, all of which have defaults: `aten::gelu(%x)` is `aten::gelu(%x, %mode)`
//! from 1.12 on. The table was made by comparing the schemas that 1.6 to 2.15 register.

use crate::symbol::Symbol;
use crate::types::release::Release;

/// Operator, operand, and the first release that has both.
const LATER: &[(&str, &str, Release)] = &[
    ("aten::__interpolate", "antialias", Release(1, 11)),
    ("aten::_embedding_bag", "padding_idx", Release(1, 9)),
    ("aten::cross_entropy_loss", "label_smoothing", Release(1, 10)),
    ("aten::einsum", "path", Release(1, 13)),
    ("aten::gelu", "approximate", Release(1, 12)),
    ("aten::gelu_backward", "approximate", Release(1, 12)),
    ("aten::index_add", "alpha", Release(1, 11)),
    ("aten::index_add_", "alpha", Release(1, 11)),
    ("aten::is_pinned", "device", Release(1, 10)),
    ("aten::istft", "return_complex", Release(1, 7)),
    ("aten::linalg_cholesky", "upper", Release(1, 10)),
    ("aten::nanquantile", "interpolation", Release(1, 11)),
    ("aten::nansum", "dim", Release(1, 12)),
    ("aten::nansum", "keepdim", Release(1, 12)),
    ("aten::pin_memory", "device", Release(1, 10)),
    ("aten::quantile", "interpolation", Release(1, 11)),
    ("aten::repeat_interleave", "output_size", Release(1, 10)),
    ("aten::searchsorted", "side", Release(1, 11)),
    ("aten::searchsorted", "sorter", Release(1, 11)),
    ("aten::smooth_l1_loss", "beta", Release(1, 7)),
    ("aten::special_round", "decimals", Release(1, 11)),
    ("aten::stft", "return_complex", Release(1, 7)),
    ("aten::to_dense", "dtype", Release(1, 8)),
    ("aten::to_mkldnn", "dtype", Release(1, 8)),
];

/// Whether an operator of a release lacks an operand that it has in the newest one.
#[must_use]
pub fn lacks_operand(kind: Symbol, operand: &str, release: Release) -> bool {
    let is_later = |row: &&(&str, &str, Release)| row.0 == kind.as_str() && row.1 == operand && release < row.2;
    LATER.iter().any(|row| is_later(&row))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops;
    use crate::types::era::Era;

    #[test]
    fn rows_name_operands_with_defaults() {
        for &(kind, operand, since) in LATER {
            let schemas = &ops::operator(Era::V2, Symbol::new(kind)).schemas;
            let formals: Vec<_> =
                schemas.iter().flat_map(|schema| &schema.formals).filter(|formal| formal.name == operand).collect();
            assert!(!formals.is_empty() && formals.iter().all(|formal| formal.default.is_some()), "{kind} {operand}");
            let kind = Symbol::new(kind);
            assert!(!lacks_operand(kind, operand, since) && lacks_operand(kind, operand, Release(1, 6)));
        }
    }
}
