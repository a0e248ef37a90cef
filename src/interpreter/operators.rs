//! The kernels, one file per family. A table row is a kind and its kernel; a new operator is a new
//! row.
//!
//! Kernels read operands by their names in the schema, so that one kernel serves all overloads and
//! versions. In-place kinds and kinds with `out` need no row: see [`library`](super::library).

use super::call::Row;

pub mod activations;
pub mod adjoints;
pub mod attention;
pub mod checks;
pub mod clamping;
pub mod comparisons;
pub mod containers;
pub mod conversions;
pub mod convolution;
pub mod correlations;
pub mod ctc_loss;
#[cfg(test)]
mod dense_test;
pub mod einsum;
mod elements;
pub mod factories;
pub mod factorizations;
pub mod fake_quantization;
pub mod gamma;
pub mod grid_sampling;
pub mod indexing;
pub mod integer_arithmetic;
pub mod joining;
pub mod linear_algebra;
pub mod losses;
pub mod memory_order;
pub mod normalization;
pub mod norms;
pub mod operands;
pub mod packed_sequences;
pub mod padding;
pub mod percent_format;
pub mod picking;
pub mod pointwise;
pub mod pooling;
pub mod quantization;
pub mod quantized_functions;
pub mod quantized_layers;
pub mod quantized_recurrent;
pub mod quantized_values;
pub mod rearranging;
pub mod recurrent;
pub mod reductions;
pub mod resampling;
pub mod sampling;
pub mod scalars;
pub mod scans;
pub mod scattering;
pub mod softmax;
pub mod sorting;
mod spatial;
pub mod special_functions;
pub mod strings;
pub mod structure;
pub mod transformer_layers;
pub mod unfolding;
pub mod value_order;
pub mod views;
pub mod vision;
pub mod weighted_sums;
pub mod windows;

/// Kernels of kinds that take no tensor, or treat it like any value. If a kind is in both lists, it
/// depends on whether an operand is a tensor.
pub(crate) const OF_VALUES: &[&[Row]] =
    &[structure::ROWS, checks::ROWS, containers::ROWS, strings::ROWS, scalars::ROWS];

/// Kernels that compute with tensors.
pub(crate) const OF_TENSORS: &[&[Row]] = &[
    pointwise::ROWS,
    clamping::ROWS,
    weighted_sums::ROWS,
    activations::ROWS,
    comparisons::ROWS,
    factories::ROWS,
    conversions::ROWS,
    views::ROWS,
    rearranging::ROWS,
    joining::ROWS,
    gamma::ROWS,
    special_functions::ROWS,
    correlations::ROWS,
    indexing::ROWS,
    scattering::ROWS,
    reductions::ROWS,
    scans::ROWS,
    sorting::ROWS,
    linear_algebra::ROWS,
    factorizations::ROWS,
    windows::ROWS,
    einsum::ROWS,
    norms::ROWS,
    convolution::ROWS,
    pooling::ROWS,
    normalization::ROWS,
    softmax::ROWS,
    losses::ROWS,
    ctc_loss::ROWS,
    padding::ROWS,
    resampling::ROWS,
    grid_sampling::ROWS,
    unfolding::ROWS,
    packed_sequences::ROWS,
    recurrent::ROWS,
    attention::ROWS,
    transformer_layers::ROWS,
    fake_quantization::ROWS,
    quantization::ROWS,
    quantized_layers::ROWS,
    quantized_functions::ROWS,
    quantized_recurrent::ROWS,
    sampling::ROWS,
    vision::ROWS,
    adjoints::ROWS,
];
