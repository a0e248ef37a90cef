//! What the nodes that use a value say of it, where its type says little: how many dimensions it has, of what elements it is,
//! that it is a probability.

use super::sketch::{Sketch, TensorSketch};
use crate::ir::{Attribute, Graph, Node, Value};
use crate::ops;
use crate::symbol::prim;
use crate::tensor::DType;

/// What nodes that use a value say of it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Hint {
    /// How many dimensions it has.
    pub rank: Option<usize>,
    dtype: Option<DType>,
    /// Whether it is a number from 0 to 1.
    probability: bool,
}

/// Formals that have a number of dimensions or an element type: kind, formal, dimensions, element type.
const FORMALS: &[(&str, &str, Option<usize>, Option<DType>)] = &[
    ("aten::t", "self", Some(2), None),
    ("aten::mm", "self", Some(2), None),
    ("aten::mm", "mat2", Some(2), None),
    ("aten::addmm", "mat1", Some(2), None),
    ("aten::addmm", "mat2", Some(2), None),
    ("aten::mv", "vec", Some(1), None),
    ("aten::dot", "self", Some(1), None),
    ("aten::dot", "tensor", Some(1), None),
    ("aten::bmm", "self", Some(3), None),
    ("aten::bmm", "mat2", Some(3), None),
    ("aten::baddbmm", "batch1", Some(3), None),
    ("aten::baddbmm", "batch2", Some(3), None),
    ("aten::linear", "bias", Some(1), None),
    ("aten::conv1d", "input", Some(3), None),
    ("aten::conv1d", "weight", Some(3), None),
    ("aten::conv1d", "bias", Some(1), None),
    ("aten::conv2d", "input", Some(4), None),
    ("aten::conv2d", "weight", Some(4), None),
    ("aten::conv2d", "bias", Some(1), None),
    ("aten::conv3d", "input", Some(5), None),
    ("aten::conv3d", "weight", Some(5), None),
    ("aten::_convolution", "input", Some(SPATIAL), None),
    ("aten::_convolution", "weight", Some(SPATIAL), None),
    ("aten::_convolution", "bias", Some(1), None),
    ("aten::max_pool2d", "self", Some(4), None),
    ("aten::avg_pool2d", "self", Some(4), None),
    ("aten::adaptive_avg_pool2d", "self", Some(4), None),
    ("aten::upsample_nearest2d", "self", Some(4), None),
    ("aten::upsample_bilinear2d", "self", Some(4), None),
    ("aten::pixel_shuffle", "self", Some(4), None),
    ("aten::batch_norm", "weight", Some(1), None),
    ("aten::batch_norm", "bias", Some(1), None),
    ("aten::batch_norm", "running_mean", Some(1), None),
    ("aten::batch_norm", "running_var", Some(1), None),
    ("aten::layer_norm", "weight", Some(1), None),
    ("aten::layer_norm", "bias", Some(1), None),
    ("aten::lstm", "input", Some(3), None),
    ("aten::gru", "input", Some(3), None),
    ("aten::embedding", "indices", None, Some(DType::Long)),
    ("aten::gather", "index", None, Some(DType::Long)),
    ("aten::scatter", "index", None, Some(DType::Long)),
    ("aten::index_select", "index", Some(1), Some(DType::Long)),
    ("aten::nll_loss", "target", Some(1), Some(DType::Long)),
    ("aten::one_hot", "self", None, Some(DType::Long)),
    ("aten::masked_fill", "mask", None, Some(DType::Bool)),
    ("aten::masked_select", "mask", None, Some(DType::Bool)),
    ("aten::where", "condition", None, Some(DType::Bool)),
    ("aten::Bool", "a", Some(0), None),
    ("aten::Int", "a", Some(0), None),
    ("aten::Float", "a", Some(0), None),
    ("aten::item", "self", Some(0), None),
];

/// Stands for two dimensions more than there are strides.
const SPATIAL: usize = usize::MAX;

/// The number of dimensions of what is convolved.
fn spatial_rank(graph: &Graph, node: Node) -> Option<usize> {
    let strides = graph.inputs(node).nth(3)?;
    let made = graph.definer(strides).filter(|&node| graph.kind(node) == prim::LIST_CONSTRUCT);
    match (made, graph.constant(strides)) {
        (Some(made), _) => Some(graph.num_inputs(made) + 2),
        (None, Some(Some(Attribute::List(parts)))) => Some(parts.len() + 2),
        _ => None,
    }
}

/// Whether a formal takes numbers from 0 to 1.
fn is_probability(kind: &str, formal: &str) -> bool {
    let draws = || ["dropout", "bernoulli", "geometric"].iter().any(|word| kind.contains(word));
    matches!(formal, "dropout_p" | "dropout") || formal == "p" && draws()
}

/// What uses say of a value.
pub fn hint(graph: &Graph, value: Value) -> Hint {
    let mut hint = Hint::default();
    for u in graph.uses(value) {
        let node = graph.user(u);
        let kind = graph.kind(node).as_str();
        let kind = kind.strip_suffix('_').unwrap_or(kind);
        let (operator, index) = (ops::operator(graph.era, graph.kind(node)), graph.operand_index(u));
        let mut formals = operator.schemas.iter().filter_map(|schema| schema.formals.get(index));
        hint.probability |= formals.any(|formal| is_probability(kind, formal.name));
        for (known, formal, rank, dtype) in FORMALS.iter().filter(|(known, ..)| *known == kind) {
            if known.is_empty() || !operator.schemas.iter().any(|schema| schema.formal(formal) == Some(index)) {
                continue;
            }
            let rank = if *rank == Some(SPATIAL) { &spatial_rank(graph, node) } else { rank };
            hint = Hint { rank: hint.rank.or(*rank), dtype: hint.dtype.or(*dtype), ..hint };
        }
    }
    hint
}

/// A sketch with what uses say.
pub fn hinted(mut sketch: Sketch, hint: Hint) -> Sketch {
    if matches!(sketch, Sketch::Float) && hint.probability {
        return Sketch::Probability;
    }
    if let (Sketch::Tensor(tensor), Some(_)) = (&mut sketch, hint.rank) {
        tensor.free_rank = false;
    }
    if let (Sketch::Tensor(TensorSketch { dtype, free_dtype: true, .. }), Some(hint)) = (&mut sketch, hint.dtype) {
        *dtype = hint;
    }
    sketch
}
