//! The module of a called function: the text of the graph has only its bare name.

use crate::ops::rows;
use crate::symbol::Symbol;

/// The Python functions of the modules of PyTorch 2.15, as far as its own functions and modules
/// call them when they are compiled. Functions of programs seldom have these names.
#[rustfmt::skip]
const MODULES: &[(&str, &[&str])] = &[
    ("torch.backends.mha", &[
        "get_fastpath_enabled",
    ]),
    ("torch.compiler", &[
        "is_compiling",
    ]),
    ("torch.functional", &[
        "_check_list_size", "_consecutive_return_counts", "_consecutive_return_inverse",
        "_consecutive_return_inverse_and_counts", "_consecutive_return_output", "_lu_impl", "_lu_no_infos",
        "_lu_with_infos", "_meshgrid", "_return_counts", "_return_inverse", "_return_inverse_and_counts",
        "_return_output", "_unique_consecutive_impl", "_unique_consecutive_torch_function", "_unique_impl",
        "_unique_torch_function", "_unravel_index", "broadcast_shapes", "lu", "stft", "unique", "unravel_index",
    ]),
    ("torch.nn._reduction", &[
        "get_enum", "legacy_get_enum", "legacy_get_string",
    ]),
    ("torch.nn.functional", &[
        "_adaptive_max_pool1d", "_adaptive_max_pool2d", "_adaptive_max_pool3d", "_canonical_mask",
        "_check_key_padding_mask", "_check_unpool_output_size", "_enum_list_as_int_list", "_expand_single_value",
        "_fractional_max_pool2d", "_fractional_max_pool3d", "_get_softmax_dim", "_in_projection",
        "_in_projection_packed", "_is_integer", "_linear_cross_entropy_chunked_applies", "_list_or_empty",
        "_max_pool1d", "_max_pool2d", "_max_pool3d", "_mha_shape_check", "_no_grad_embedding_renorm_",
        "_none_or_dtype", "_threshold", "_unpool_output_size", "_verify_batch_size", "_verify_spatial_size",
        "adaptive_max_pool1d_with_indices", "adaptive_max_pool2d_with_indices",
        "adaptive_max_pool3d_with_indices", "affine_grid", "assert_int_or_pair", "cross_entropy", "dropout1d",
        "dropout2d", "dropout3d", "fold", "fractional_max_pool2d_with_indices",
        "fractional_max_pool3d_with_indices", "gaussian_nll_loss", "grid_sample", "grouped_mm", "gumbel_softmax",
        "interpolate", "linear_cross_entropy", "local_response_norm", "lp_pool1d", "lp_pool2d", "lp_pool3d",
        "max_unpool1d", "multi_head_attention_forward", "multilabel_soft_margin_loss", "normalize",
        "scaled_addmm", "scaled_addmm_", "scaled_grouped_mm", "scaled_mm", "softsign", "tanhshrink",
        "triplet_margin_with_distance_loss", "upsample", "upsample_bilinear", "upsample_nearest",
    ]),
    ("torch.nn.modules.activation", &[
        "_arg_requires_grad", "_check_arg_device", "_is_make_fx_tracing",
    ]),
    ("torch.nn.modules.rnn", &[
        "_apply_permutation", "apply_permutation",
    ]),
    ("torch.nn.modules.transformer", &[
        "_detect_is_causal_mask", "_generate_square_subsequent_mask", "_get_seq_len",
    ]),
];

/// The qualified name of a function: that of PyTorch's library, otherwise that of a program in a
/// single file. Functions with the name of an operator have their module in its row.
pub(super) fn qualified(name: &str) -> String {
    let of_operator = || rows::row(Symbol::new(&format!("aten::{name}")))?.python.known();
    let of_function =
        || MODULES.iter().find(|(_, names)| names.binary_search(&name).is_ok()).map(|(module, _)| *module);
    match of_function().or_else(|| of_operator().filter(|module| *module != "torch")) {
        Some(module) => format!("__torch__.{module}.{name}"),
        None => format!("__torch__.{name}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found() {
        assert!(MODULES.iter().all(|(_, names)| names.is_sorted()));
        assert_eq!(qualified("layer_norm"), "__torch__.torch.nn.functional.layer_norm");
        assert_eq!(qualified("mish"), "__torch__.torch.nn.functional.mish");
        assert_eq!(qualified("neg"), "__torch__.neg");
        assert_eq!(qualified("mine"), "__torch__.mine");
    }
}
