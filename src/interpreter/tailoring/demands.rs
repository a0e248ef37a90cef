//! Propagation of required sizes: a size that an operand must have because of a fixed weight or a
//! list in the text is propagated backward through the nodes that compute the operand, to the
//! values that may change.

use super::{Layer, Proposals, Wanted, declared_shape, origin};
use crate::interpreter::tailoring::Shapes;
use crate::ir::{Graph, Node, Value};
use crate::ops;
use crate::ops::schema::Schema;
use crate::ops::shape_rules::{Shape, shape_row};
use crate::tensor::layout::Dims;

/// The dimension with a required size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Axis {
    /// The last dimension.
    Last,
    /// The second dimension: the channels of images.
    Channels,
}

/// The maximal number of values in the propagation of one requirement.
const FUEL: usize = 64;

impl Layer<'_> {
    /// The proposals that give `formal` the size `size` in dimension `axis`.
    pub(super) fn demand(&self, formal: &str, axis: Axis, size: i64) -> Proposals {
        let mut demand = Demand { layer: self, axis, size, proposals: Vec::new(), fuel: FUEL };
        if let Some(value) = self.operand(formal) {
            demand.follow(value);
        }
        demand.proposals
    }
}

struct Demand<'l, 'a> {
    layer: &'l Layer<'a>,
    axis: Axis,
    size: i64,
    proposals: Proposals,
    fuel: usize,
}

impl Demand<'_, '_> {
    fn follow(&mut self, start: Value) {
        let mut work = vec![start];
        while let Some(value) = work.pop() {
            if self.fuel == 0 {
                return;
            }
            self.fuel -= 1;
            let (value, swapped) = origin(self.layer.graph, value);
            if (self.layer.is_free)(value) {
                self.propose(value, swapped);
            } else if let Some(node) = self.layer.graph.definer(value).filter(|_| !swapped) {
                work.extend(self.before(node));
            }
        }
    }

    /// Proposes for a free value its shape with the required size.
    fn propose(&mut self, value: Value, swapped: bool) {
        let Some(mut shape) = shape_of(self.layer.graph, self.layer.shapes, value) else { return };
        if swapped {
            shape.reverse();
        }
        let dim = match self.axis {
            Axis::Last => shape.len().checked_sub(1),
            Axis::Channels => Some(1).filter(|&dim| dim < shape.len()),
        };
        let Some(dim) = dim else { return };
        shape[dim] = self.size;
        if swapped {
            shape.reverse();
        }
        self.proposals.push((value, Wanted::Shape(shape)));
    }

    /// The operands that determine the size of a node; weights of layers are proposed at once.
    fn before(&mut self, node: Node) -> Vec<Value> {
        let graph = self.layer.graph;
        let layer = Layer { graph, node, shapes: self.layer.shapes, is_free: self.layer.is_free };
        let kind = graph.kind(node).as_str();
        let weight = match (kind, self.axis) {
            ("aten::embedding" | "aten::embedding_bag", Axis::Last) => Some(("weight", 1)),
            ("aten::linear", Axis::Last) => Some(("weight", 0)),
            ("aten::addmm" | "aten::mm", Axis::Last) => Some(("mat2", 1)),
            ("aten::conv1d" | "aten::conv2d" | "aten::conv3d" | "aten::_convolution", Axis::Channels) => {
                Some(("weight", 0))
            }
            _ => None,
        };
        if let Some((formal, dim)) = weight {
            let bias = layer.give(&[("bias", &[self.size]), ("self", &[self.size])]);
            self.proposals.extend(bias.into_iter().filter(|_| kind != "aten::embedding"));
            self.widen(&layer, formal, dim);
            return Vec::new();
        }
        if kind == "aten::matmul" {
            return layer.operand("other").into_iter().collect();
        }
        let keeps = match self.axis {
            Axis::Last => KEEP_LAST,
            Axis::Channels => KEEP_CHANNELS,
        };
        let tensors = || graph.inputs(node).filter(|value| self.layer.shapes.contains_key(value));
        match shape_of_schema(graph, node) {
            Some(Shape::Like | Shape::Itself) => tensors().take(1).collect(),
            Some(Shape::Broadcast) => tensors().filter(|&value| !self.is_broadcast(value)).collect(),
            _ if keeps.contains(&kind) => tensors().take(1).collect(),
            _ => Vec::new(),
        }
    }

    /// Whether an operand has size 1 there, or is a number.
    fn is_broadcast(&self, value: Value) -> bool {
        self.layer.shapes.get(&value).is_none_or(|shape| match self.axis {
            Axis::Last => shape.last().is_none_or(|&n| n == 1),
            Axis::Channels => shape.get(1).is_none_or(|&n| n == 1),
        })
    }

    /// Sets one dimension of a weight to the size; if it is one of several equal slices of another
    /// weight, sets that one's.
    fn widen(&mut self, layer: &Layer<'_>, formal: &str, dim: usize) {
        let Some(value) = layer.operand(formal) else { return };
        let (whole, count) = match (self.layer.is_free)(origin(layer.graph, value).0) {
            true => (value, 1),
            false => part_of(layer.graph, value, dim).unwrap_or((value, 1)),
        };
        let Some(mut shape) = layer.shape_of(whole) else { return };
        if dim < shape.len() {
            shape[dim] = self.size.saturating_mul(count);
            self.proposals.push((whole, Wanted::Shape(shape)));
        }
    }
}

/// The value of which another is one of several equal slices in a dimension, and their number.
fn part_of(graph: &Graph, value: Value, dim: usize) -> Option<(Value, i64)> {
    let mut node = graph.definer(value)?;
    while graph.kind(node).as_str() == "prim::ListUnpack" || graph.kind(node).as_str() == "aten::__getitem__" {
        node = graph.definer(graph.input(node, 0))?;
    }
    let is_chunk = graph.kind(node).as_str() == "aten::chunk" && graph.num_inputs(node) == 3;
    let along = || graph.constant_int(graph.input(node, 2)) == Some(dim as i64);
    (is_chunk && along()).then(|| Some((graph.input(node, 0), graph.constant_int(graph.input(node, 1))?)))?
}

/// Kinds that preserve the last size of their first operand.
const KEEP_LAST: &[&str] = &[
    "aten::layer_norm",
    "aten::rms_norm",
    "aten::dropout",
    "aten::softmax",
    "aten::log_softmax",
    "aten::index_select",
    "aten::cumsum",
];
/// Kinds that preserve the channels of their first operand.
const KEEP_CHANNELS: &[&str] = &[
    "aten::batch_norm",
    "aten::instance_norm",
    "aten::group_norm",
    "aten::dropout",
    "aten::feature_dropout",
    "aten::max_pool1d",
    "aten::max_pool2d",
    "aten::max_pool3d",
    "aten::avg_pool1d",
    "aten::avg_pool2d",
    "aten::avg_pool3d",
    "aten::adaptive_avg_pool1d",
    "aten::adaptive_avg_pool2d",
    "aten::adaptive_max_pool2d",
    "aten::upsample_nearest2d",
    "aten::upsample_bilinear2d",
];

fn shape_of(graph: &Graph, shapes: &Shapes, value: Value) -> Option<Dims> {
    shapes.get(&value).cloned().or_else(|| declared_shape(graph, value))
}

fn shape_of_schema(graph: &Graph, node: Node) -> Option<Shape> {
    let types: Vec<_> = graph.inputs(node).map(|value| graph.ty(value)).collect();
    let schema: &'static Schema = ops::operator(graph.era, graph.kind(node)).resolve(&types).schema()?;
    shape_row(schema).map(|row| row.shape)
}
