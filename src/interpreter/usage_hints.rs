//! Properties of a value that the nodes using it imply, where its type is not precise: its rank,
//! its element type, whether it is a probability.

use super::sketch::{Sketch, TensorSketch};
use super::tailoring::subscripts::{self, Subscripts};
use crate::ir::{Attribute, Graph, Node, Value};
use crate::ops;
use crate::ops::rows;
use crate::ops::schema::Schema;
use crate::symbol::{Symbol, prim};
use crate::tensor::DType;

/// The properties of a value that its uses imply.
#[derive(Clone, Copy, Debug, Default)]
pub struct Hint {
    /// Its rank.
    pub rank: Option<usize>,
    dtype: Option<DType>,
    /// Whether it is a number from 0 to 1.
    probability: bool,
}

/// Formals with a fixed rank or element type: kind, formal, rank, element type.
const FORMALS: &[(&str, &str, Option<usize>, Option<DType>)] = &[
    ("aten::t", "self", Some(2), None),
    ("aten::mm", "self", Some(2), None),
    ("aten::mm", "mat2", Some(2), None),
    ("aten::addmm", "mat1", Some(2), None),
    ("aten::addmm", "mat2", Some(2), None),
    ("aten::mv", "vec", Some(1), None),
    ("aten::dot", "self", Some(1), None),
    ("aten::dot", "tensor", Some(1), None),
    ("aten::outer", "self", Some(1), None),
    ("aten::outer", "vec2", Some(1), None),
    ("aten::ger", "self", Some(1), None),
    ("aten::ger", "vec2", Some(1), None),
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
    ("aten::rnn_tanh", "input", Some(3), None),
    ("aten::rnn_relu", "input", Some(3), None),
    ("aten::lstm", "hx", Some(3), None),
    ("aten::gru", "hx", Some(3), None),
    ("aten::rnn_tanh", "hx", Some(3), None),
    ("aten::rnn_relu", "hx", Some(3), None),
    ("aten::ctc_loss", "log_probs", Some(3), None),
    ("aten::ctc_loss", "targets", Some(2), Some(DType::Long)),
    ("aten::ctc_loss", "input_lengths", Some(1), Some(DType::Long)),
    ("aten::ctc_loss", "target_lengths", Some(1), Some(DType::Long)),
    ("aten::grid_sampler", "input", Some(4), None),
    ("aten::grid_sampler", "grid", Some(4), None),
    ("aten::im2col", "self", Some(4), None),
    ("aten::embedding", "weight", Some(2), None),
    ("aten::embedding", "indices", None, Some(DType::Long)),
    ("aten::embedding_bag", "weight", Some(2), None),
    ("aten::embedding_bag", "indices", None, Some(DType::Long)),
    ("aten::embedding_bag", "offsets", Some(1), Some(DType::Long)),
    ("aten::index", "indices", None, Some(DType::Long)),
    ("aten::index_put", "indices", None, Some(DType::Long)),
    ("aten::_index_put_impl", "indices", None, Some(DType::Long)),
    ("aten::index_add", "index", Some(1), Some(DType::Long)),
    ("aten::index_copy", "index", Some(1), Some(DType::Long)),
    ("aten::index_fill", "index", Some(1), Some(DType::Long)),
    ("aten::index_reduce", "index", Some(1), Some(DType::Long)),
    ("aten::take", "index", None, Some(DType::Long)),
    ("aten::put", "index", None, Some(DType::Long)),
    ("aten::take_along_dim", "indices", None, Some(DType::Long)),
    ("aten::gather", "index", None, Some(DType::Long)),
    ("aten::scatter", "index", None, Some(DType::Long)),
    ("aten::scatter_add", "index", None, Some(DType::Long)),
    ("aten::scatter_reduce", "index", None, Some(DType::Long)),
    ("aten::index_select", "index", Some(1), Some(DType::Long)),
    ("aten::nll_loss", "target", Some(1), Some(DType::Long)),
    ("aten::nll_loss2d", "self", Some(4), None),
    ("aten::nll_loss2d", "target", Some(3), Some(DType::Long)),
    ("aten::nll_loss_nd", "target", None, Some(DType::Long)),
    ("aten::cross_entropy_loss", "target", None, Some(DType::Long)),
    ("aten::multi_margin_loss", "target", Some(1), Some(DType::Long)),
    ("aten::max_unpool2d", "indices", None, Some(DType::Long)),
    ("aten::one_hot", "self", None, Some(DType::Long)),
    ("aten::bincount", "self", Some(1), Some(DType::Long)),
    ("aten::repeat_interleave", "repeats", Some(1), Some(DType::Long)),
    ("aten::__and__", "self", None, Some(DType::Long)),
    ("aten::__and__", "other", None, Some(DType::Long)),
    ("aten::__or__", "self", None, Some(DType::Long)),
    ("aten::__or__", "other", None, Some(DType::Long)),
    ("aten::__lshift__", "self", None, Some(DType::Long)),
    ("aten::__rshift__", "self", None, Some(DType::Long)),
    ("aten::masked_fill", "mask", None, Some(DType::Bool)),
    ("aten::masked_select", "mask", None, Some(DType::Bool)),
    ("aten::masked_scatter", "mask", None, Some(DType::Bool)),
    ("aten::where", "condition", None, Some(DType::Bool)),
    ("aten::Bool", "a", Some(0), None),
    ("aten::Int", "a", Some(0), None),
    ("aten::Float", "a", Some(0), None),
    ("aten::item", "self", Some(0), None),
];

/// A rank of two more than the number of strides.
const SPATIAL: usize = usize::MAX;

/// The rank of the input of a convolution.
fn spatial_rank(graph: &Graph, node: Node) -> Option<usize> {
    let strides = graph.inputs(node).nth(3)?;
    let made = graph.definer(strides).filter(|&node| graph.kind(node) == prim::LIST_CONSTRUCT);
    match (made, graph.constant(strides)) {
        (Some(made), _) => Some(graph.num_inputs(made) + 2),
        (None, Some(Some(Attribute::List(parts)))) => Some(parts.len() + 2),
        _ => None,
    }
}

/// The rank that a node implies: `B, T, C = x.shape`, and `permute` with a list.
fn unpacked_rank(graph: &Graph, node: Node) -> Option<usize> {
    match (graph.kind(node).as_str(), graph.num_inputs(node)) {
        ("aten::size", 1) => {
            let unpacks = |&node: &Node| graph.kind(node) == prim::LIST_UNPACK;
            let unpacked = graph.uses(graph.single_output(node)?).map(|u| graph.user(u)).find(unpacks)?;
            Some(graph.num_outputs(unpacked))
        }
        ("aten::permute", 2) => {
            let dims = graph.input(node, 1);
            match graph.constant(dims) {
                Some(Some(Attribute::List(parts))) => Some(parts.len()),
                _ => {
                    let made = graph.definer(dims).filter(|&node| graph.kind(node) == prim::LIST_CONSTRUCT)?;
                    Some(graph.num_inputs(made))
                }
            }
        }
        _ => None,
    }
}

/// Whether a formal takes numbers from 0 to 1.
fn is_probability(kind: &str, formal: &str) -> bool {
    let draws = || ["dropout", "bernoulli", "geometric"].iter().any(|word| kind.contains(word));
    matches!(formal, "dropout_p" | "dropout") || formal == "p" && draws()
}

/// Operators whose result implies properties of their first operand: kinds, whether the rank is
/// equal, and whether the kind of elements is equal.
const HAND_ON: &[(&[&str], bool, bool)] = &[
    (&["aten::contiguous", "aten::clone", "aten::detach", "aten::permute", "aten::transpose"], true, true),
    (&["aten::t", "aten::slice", "aten::narrow", "aten::add", "aten::sub", "aten::remainder"], true, true),
    (&["aten::view", "aten::reshape", "aten::flatten", "aten::unsqueeze", "aten::squeeze"], false, true),
    (&["aten::expand", "aten::expand_as", "aten::repeat", "aten::select"], false, true),
    (&["aten::relu", "aten::relu_", "aten::sigmoid", "aten::tanh", "aten::gelu", "aten::silu"], true, false),
    (&["aten::dropout", "aten::leaky_relu", "aten::batch_norm", "aten::mul", "aten::div"], true, false),
    (&["aten::conv1d", "aten::conv2d", "aten::conv3d", "aten::max_pool2d", "aten::avg_pool2d"], true, false),
    (&["aten::cat"], true, true),
];
/// The maximal number of values visited for one hint.
const MOST_FOLLOWED: usize = 64;

/// The properties that uses imply, including uses of results that preserve the property.
pub fn hint(graph: &Graph, value: Value) -> Hint {
    let mut hint = uses_say(graph, value);
    let (mut work, mut followed) = (handed_on(graph, value), 0);
    while let Some((value, rank, dtype)) = work.pop() {
        followed += 1;
        if followed > MOST_FOLLOWED {
            break;
        }
        let behind = uses_say(graph, value);
        hint.rank = hint.rank.or(behind.rank.filter(|_| rank));
        hint.dtype = hint.dtype.or(behind.dtype.filter(|_| dtype));
        work.extend(handed_on(graph, value).into_iter().map(|(value, r, d)| (value, rank && r, dtype && d)));
        work.retain(|&(_, rank, dtype)| rank && hint.rank.is_none() || dtype && hint.dtype.is_none());
    }
    hint
}

/// The results of nodes that imply properties of a value, with flags for the rank and for the
/// elements.
fn handed_on(graph: &Graph, value: Value) -> Vec<(Value, bool, bool)> {
    let mut results = Vec::new();
    for u in graph.uses(value) {
        let user = graph.user(u);
        let is_list = graph.kind(user) == prim::LIST_CONSTRUCT;
        let through = if is_list { graph.single_output(user) } else { Some(value) };
        let uses = through.into_iter().flat_map(|through| graph.uses(through));
        for u in uses.filter(|&u| graph.operand_index(u) == 0) {
            let kind = graph.kind(graph.user(u)).as_str();
            let row = HAND_ON.iter().find(|(kinds, ..)| kinds.contains(&kind) && is_list == (kind == "aten::cat"));
            if let (Some(&(_, rank, dtype)), Some(output)) = (row, graph.outputs(graph.user(u)).next()) {
                results.push((output, rank, dtype));
            }
        }
    }
    results
}

fn uses_say(graph: &Graph, value: Value) -> Hint {
    let mut hint = Hint::default();
    for u in graph.uses(value) {
        let (node, index) = (graph.user(u), graph.operand_index(u));
        if graph.kind(node) == prim::LIST_CONSTRUCT {
            for list in graph.outputs(node).flat_map(|list| graph.uses(list)) {
                let (user, formal) = (graph.user(list), graph.operand_index(list));
                note(graph, user, formal, &mut hint);
                hint.rank = hint.rank.or_else(|| subscripts(graph, user)?.get(index)?.rank());
            }
        } else {
            note(graph, node, index, &mut hint);
            hint.rank = hint.rank.or_else(|| unpacked_rank(graph, node).filter(|_| index == 0));
        }
    }
    hint
}

/// The subscripts of an `einsum`; `None` for other nodes.
fn subscripts(graph: &Graph, node: Node) -> Option<Vec<Subscripts>> {
    (graph.kind(node).as_str() == "aten::einsum").then(|| subscripts::subscripts(graph, node))?
}

/// Records the properties that a node implies for its operand, or for the elements of that list.
fn note(graph: &Graph, node: Node, index: usize, hint: &mut Hint) {
    let kind = graph.kind(node).as_str();
    let kind = kind.strip_suffix('_').filter(|kind| !kind.ends_with('_')).unwrap_or(kind);
    let formals = formals_at(graph, node, index);
    hint.probability |= formals.iter().any(|formal| is_probability(kind, formal));
    if kind.ends_with("_cell") {
        let rank = |formal: &&str| match *formal {
            "b_ih" | "b_hh" => Some(1),
            "input" | "hx" | "w_ih" | "w_hh" => Some(2),
            _ => None,
        };
        hint.rank = hint.rank.or(formals.iter().find_map(rank));
    }
    let takes_integers = || rows::row(Symbol::new(kind)).is_some_and(|row| row.takes_integers(index));
    hint.dtype = hint.dtype.or_else(|| takes_integers().then_some(DType::Long));
    for (_, formal, rank, dtype) in FORMALS.iter().filter(|(known, ..)| *known == kind) {
        if !formals.contains(formal) {
            continue;
        }
        let rank = if *rank == Some(SPATIAL) { spatial_rank(graph, node) } else { *rank };
        *hint = Hint { rank: hint.rank.or(rank), dtype: hint.dtype.or(*dtype), ..*hint };
    }
}

/// The names of a formal in the resolved overload, or in all overloads if types do not determine
/// it.
fn formals_at(graph: &Graph, node: Node, index: usize) -> Vec<&'static str> {
    let operator = ops::operator(graph.era, graph.kind(node));
    let types: Vec<_> = graph.inputs(node).map(|value| graph.ty(value)).collect();
    let named = |schema: &'static Schema| schema.formals.get(index).map(|formal| formal.name);
    match operator.resolve(&types).schema() {
        Some(schema) => named(schema).into_iter().collect(),
        None => operator.schemas.iter().filter_map(named).collect(),
    }
}

/// A sketch with the properties implied by uses.
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
