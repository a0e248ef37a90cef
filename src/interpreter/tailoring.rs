//! Shapes that operands of common layers must have, given those of the others: a random search
//! takes long to find them.

use crate::ir::{Attribute, Graph, Node, Value};
use crate::ops;
use crate::ops::schema::Schema;
use crate::symbol::{attr, prim};
use crate::tensor::layout::Dims;
use crate::types::{Dim, Type};
use demands::Axis;
use std::collections::BTreeMap;

/// The largest parameter of a layer for which operands are proposed: products of larger ones
/// overflow.
const LARGEST: u64 = 1 << 30;

mod demands;
mod recurrences;
pub(super) mod subscripts;

/// The shapes of values in a run.
pub type Shapes = BTreeMap<Value, Dims>;

/// The requirement on a value so that a layer runs.
#[derive(Clone, Debug, PartialEq)]
pub enum Wanted {
    /// A tensor of this shape.
    Shape(Dims),
    /// A list of tensors of these shapes.
    Shapes(Vec<Dims>),
}

/// Values with their requirements.
type Proposals = Vec<(Value, Wanted)>;

/// A node, with access by the names of formals.
struct Layer<'a> {
    graph: &'a Graph,
    node: Node,
    shapes: &'a Shapes,
    /// Whether the shape of a value may still be chosen.
    is_free: &'a dyn Fn(Value) -> bool,
}

impl Layer<'_> {
    /// Whether the shape of a value, or of the value that it transposes or copies, may still be
    /// chosen.
    fn may_change(&self, value: Value) -> bool {
        (self.is_free)(origin(self.graph, value).0)
    }

    /// The shape of an operand that cannot change, such as a given weight.
    fn fixed(&self, formal: &str) -> Option<Dims> {
        let value = self.operand(formal).filter(|&value| !self.may_change(value))?;
        self.shape_of(value)
    }

    fn operand(&self, formal: &str) -> Option<Value> {
        let n = self.graph.num_inputs(self.node);
        let operator = ops::operator(self.graph.era, self.graph.kind(self.node));
        let types: Vec<_> = self.graph.inputs(self.node).map(|value| self.graph.ty(value)).collect();
        let like = |s: &&Schema| s.formals.len() >= n && s.formal(formal).is_some();
        let schema = operator.resolve(&types).schema().or_else(|| operator.schemas.iter().find(like))?;
        let index = schema.formal(formal)?;
        (index < n).then(|| self.graph.input(self.node, index))
    }

    /// The observed shape, else the declared one.
    fn shape(&self, formal: &str) -> Option<Dims> {
        let operand = self.operand(formal)?;
        self.shapes.get(&operand).cloned().or_else(|| declared_shape(self.graph, operand))
    }

    /// The declared shape, else the observed one.
    fn input(&self, formal: &str) -> Option<Dims> {
        declared_shape(self.graph, self.operand(formal)?).or_else(|| self.shape(formal))
    }

    fn int(&self, formal: &str) -> Option<i64> {
        self.graph.constant_int(self.operand(formal)?).filter(|n| n.unsigned_abs() <= LARGEST)
    }

    /// A list whose elements are constants in the text.
    fn ints(&self, formal: &str) -> Option<Dims> {
        let list = self.operand(formal)?;
        if let Some(Some(Attribute::List(parts))) = self.graph.constant(list) {
            let part = |part: &Attribute| part.as_int().filter(|n| n.unsigned_abs() <= LARGEST);
            return parts.iter().map(part).collect();
        }
        let made = self.graph.definer(list).filter(|&node| self.graph.kind(node) == prim::LIST_CONSTRUCT)?;
        let part = |value| self.graph.constant_int(value).filter(|n: &i64| n.unsigned_abs() <= LARGEST);
        self.graph.inputs(made).map(part).collect()
    }

    /// A size of the output, if its type declares it.
    fn declared(&self, dim: usize) -> Option<i64> {
        let output = self.graph.outputs(self.node).next()?;
        match self.graph.ty(output).as_tensor()?.sizes.as_ref()?.get(dim)? {
            Dim::Known(n) => Some(*n),
            _ => None,
        }
    }

    fn declared_last(&self) -> Option<i64> {
        let output = self.graph.outputs(self.node).next()?;
        self.declared(self.graph.ty(output).as_tensor()?.sizes.as_ref()?.len().checked_sub(1)?)
    }

    fn give(&self, shapes: &[(&str, &[i64])]) -> Proposals {
        let wanted = |(formal, shape): &(&str, &[i64])| Some((self.operand(formal)?, Wanted::Shape((*shape).into())));
        shapes.iter().filter_map(wanted).collect()
    }

    /// The elements of a list that is made in the graph; otherwise the value itself.
    fn elements(&self, formal: &str) -> Vec<Value> {
        let Some(value) = self.operand(formal) else { return Vec::new() };
        let made = self.graph.definer(value).filter(|&node| self.graph.kind(node) == prim::LIST_CONSTRUCT);
        made.map_or(vec![value], |made| self.graph.inputs(made).collect())
    }

    fn shape_of(&self, value: Value) -> Option<Dims> {
        self.shapes.get(&value).cloned().or_else(|| declared_shape(self.graph, value))
    }

    /// Whether an operand is a part of another value.
    fn is_part(&self, formal: &str) -> bool {
        let whole =
            self.operand(formal).map(|value| (origin(self.graph, value).0, origin_of_part(self.graph, value).0));
        whole.is_some_and(|(whole, of)| whole != of)
    }

    /// The last component of the name of the attribute or constant that an operand is, or is a part
    /// of, and its value.
    fn attribute(&self, formal: &str) -> Option<(Value, String)> {
        let (value, _) = origin_of_part(self.graph, self.operand(formal)?);
        let node = self.graph.definer(value)?;
        let name = match self.graph.attribute(node, attr::NAME) {
            Some(Attribute::Str(name)) => String::from_utf8_lossy(name).into_owned(),
            _ => self.graph.name(value),
        };
        Some((value, name.rsplit('.').find(|part| !part.bytes().all(|b| b.is_ascii_digit()))?.to_owned()))
    }
}

/// The shape of a value, if its type declares all of it.
pub(crate) fn declared_shape(graph: &Graph, value: Value) -> Option<Dims> {
    let sizes = graph.ty(value).as_tensor()?.sizes.as_ref()?;
    sizes.iter().map(|dim| if let Dim::Known(n) = dim { Some(*n) } else { None }).collect()
}

/// The type that a guard requires of a value: a specialised graph runs on nothing else.
pub(crate) fn guarded_type(graph: &Graph, value: Value) -> Option<Type> {
    let guarded = |u| {
        let (node, index) = (graph.user(u), graph.operand_index(u));
        let output = match graph.kind(node) {
            prim::GUARD if index == 0 => 0,
            prim::BAILOUT if index == 1 => 0,
            prim::TYPE_CHECK | prim::ONEDNN_FUSION_GUARD => index,
            // These have no output with the type.
            prim::DYNAMIC_GUARD | prim::CUDA_FUSION_GUARD => return listed_type(graph, node, index),
            _ => return None,
        };
        graph.outputs(node).nth(output).map(|output| graph.ty(output))
    };
    graph.uses(value).find_map(guarded)
}

/// The type that a guard lists for an operand.
fn listed_type(graph: &Graph, guard: Node, index: usize) -> Option<Type> {
    let Some(Attribute::List(types)) = graph.attribute(guard, attr::TYPES) else { return None };
    if let Attribute::Type(ty) = types.get(index)? { Some(*ty) } else { None }
}

/// Shapes for operands of a node with which it may run. `is_free` selects the values that may
/// change; `message` is the exception of the node, if any.
pub(crate) fn proposals(
    graph: &Graph,
    node: Node,
    shapes: &BTreeMap<Value, Dims>,
    is_free: &dyn Fn(Value) -> bool,
    message: &str,
) -> Vec<(Value, Wanted)> {
    let layer = Layer { graph, node, shapes, is_free };
    let name = graph.kind(node).as_str();
    match name.strip_prefix("aten::").unwrap_or_default() {
        "conv1d" | "conv2d" | "conv3d" | "_convolution" | "convolution" => convolution(&layer, false),
        "conv_transpose1d" | "conv_transpose2d" | "conv_transpose3d" => convolution(&layer, true),
        "batch_norm" | "instance_norm" | "group_norm" => per_channel(&layer),
        "layer_norm" => normalized(&layer),
        "linear" => projections(&layer).unwrap_or_else(|| linear(&layer)),
        "split" | "split_with_sizes" => divided(&layer).unwrap_or_default(),
        "lstm" => recurrences::network(&layer, 4).unwrap_or_default(),
        "gru" => recurrences::network(&layer, 3).unwrap_or_default(),
        "rnn_tanh" | "rnn_relu" => recurrences::network(&layer, 1).unwrap_or_default(),
        "lstm_cell" => recurrences::cell(&layer, 4).unwrap_or_default(),
        "gru_cell" => recurrences::cell(&layer, 3).unwrap_or_default(),
        "rnn_tanh_cell" | "rnn_relu_cell" => recurrences::cell(&layer, 1).unwrap_or_default(),
        "einsum" => subscripts::einsum(&layer).unwrap_or_default(),
        "_native_multi_head_attention" | "_transformer_encoder_layer_fwd" => {
            fused_attention(&layer).unwrap_or_default()
        }
        "add" | "add_" => part_of_bias(&layer).unwrap_or_else(|| like_the_other(&layer)),
        "sub" | "mul" => like_the_other(&layer),
        "addmm" => product(&layer, "mat1", "mat2"),
        "mm" => product(&layer, "self", "mat2"),
        "matmul" => part_of_projections(&layer).unwrap_or_else(|| product(&layer, "self", "other")),
        "embedding" => {
            let width = layer.declared_last().unwrap_or(4);
            layer.give(&[("weight", &[10, width])])
        }
        "view" | "reshape" | "_unsafe_view" => reshaped(&layer, message).unwrap_or_default(),
        "cross_entropy_loss" | "nll_loss_nd" => classes(&layer).unwrap_or_default(),
        "ctc_loss" => labelled(&layer).unwrap_or_default(),
        _ => Vec::new(),
    }
}

/// The input of a layer norm ends in the normalised sizes.
fn normalized(layer: &Layer<'_>) -> Proposals {
    let shape = layer.ints("normalized_shape").unwrap_or_default();
    let mut all = layer.give(&[("weight", &shape), ("bias", &shape)]);
    let input = layer.operand("input").filter(|&value| layer.may_change(value));
    match (input, layer.shape("input"), &shape[..]) {
        (Some(value), Some(input), _) => {
            let lead = input.len().saturating_sub(shape.len()).max(1).min(input.len());
            let whole: Dims = input[..lead].iter().chain(&shape).copied().collect();
            all.push((value, Wanted::Shape(whole)));
        }
        (None, _, &[width]) => all.extend(layer.demand("input", Axis::Last, width)),
        _ => {}
    }
    all
}

/// Changes the last size of a value that is reshaped to a shape with fewer or more elements.
fn reshaped(layer: &Layer<'_>, message: &str) -> Option<Proposals> {
    let (_, rest) = message.split_once("shape '[")?;
    let (shape, rest) = rest.split_once("]' is invalid for input of size ")?;
    let sizes: Option<Vec<i64>> = shape.split(", ").map(|n| n.parse().ok().filter(|&n| n > 0)).collect();
    let wanted = sizes?.into_iter().try_fold(1_i64, i64::checked_mul)?;
    let elements: i64 = rest.parse().ok().filter(|&n| n > 0)?;
    let last = layer.shape("self")?.last()?.checked_mul(wanted)?;
    (last % elements == 0).then(|| layer.demand("self", Axis::Last, last / elements))
}

/// A class for each row, or each pixel of images, and a weight for each class.
fn classes(layer: &Layer<'_>) -> Option<Proposals> {
    let x = layer.shape("self")?;
    let dim = usize::from(x.len() > 1);
    let classes = *x.get(dim)?;
    let target: Dims = x.iter().enumerate().filter(|(i, _)| *i != dim).map(|(_, &n)| n).collect();
    Some(layer.give(&[("target", &target), ("weight", &[classes])]))
}

/// The targets and lengths of `ctc_loss`, one of each per batch element.
fn labelled(layer: &Layer<'_>) -> Option<Proposals> {
    let batch = *layer.shape("log_probs")?.get(1)?;
    Some(layer.give(&[("targets", &[batch, 3]), ("input_lengths", &[batch]), ("target_lengths", &[batch])]))
}

fn convolution(layer: &Layer<'_>, transposed: bool) -> Proposals {
    let (Some(x), Some(w)) = (layer.input("input"), layer.shape("weight")) else { return Vec::new() };
    let strides = layer.ints("stride").unwrap_or_default();
    let n = if strides.len() > 1 { strides.len() } else { x.len().saturating_sub(2) };
    let batched = x.len() == n + 2;
    if x.len() < n + 1 || n == 0 {
        return Vec::new();
    }
    let transposed = transposed || layer.int("transposed").is_some_and(|yes| yes != 0);
    let groups = layer.int("groups").unwrap_or(1).max(1);
    if let Some(w) = layer.fixed("weight").filter(|w| w.len() == n + 2) {
        let (taken, made) = if transposed { (w[0], w[1] * groups) } else { (w[1] * groups, w[0]) };
        let mut all = layer.give(&[("bias", &[made])]);
        all.extend(layer.demand("input", Axis::Channels, taken));
        return all;
    }
    let channels = x[usize::from(batched)];
    let known = layer.declared(usize::from(batched));
    let guess = w.get(usize::from(transposed)).copied().unwrap_or(1).max(1);
    let out = known.unwrap_or(if transposed { guess * groups } else { (guess + groups - 1) / groups * groups });
    let mut weight: Dims = match transposed {
        true => [channels, out / groups].as_slice().into(),
        false => [out, channels / groups].as_slice().into(),
    };
    for i in 0..n {
        let likely = || likely_kernel(layer, i, transposed).or(w.get(2 + i).copied()).unwrap_or(1);
        weight.push(kernel_size(layer, &x, i, n, transposed).unwrap_or_else(likely));
    }
    layer.give(&[("weight", &weight), ("bias", &[out])])
}

/// The size of a kernel that keeps the size of images, given the padding, or enlarges them by the
/// stride.
fn likely_kernel(layer: &Layer<'_>, i: usize, transposed: bool) -> Option<i64> {
    let one = |formal: &str| {
        let list = layer.ints(formal).unwrap_or_default();
        list.get(i).or(list.first()).copied()
    };
    match (one("padding")?, one("stride")?) {
        (0, stride) if transposed && stride > 1 => Some(stride),
        (padding, _) if padding > 0 => Some(2 * padding + 1),
        _ => None,
    }
}

/// The size of a kernel that yields the declared output for the input.
fn kernel_size(layer: &Layer<'_>, x: &Dims, i: usize, n: usize, transposed: bool) -> Option<i64> {
    let one = |formal: &str, default: i64| {
        let list = layer.ints(formal).unwrap_or_default();
        list.get(i).or(list.first()).copied().unwrap_or(default)
    };
    let (size, made) = (x[x.len() - n + i], layer.declared(x.len() - n + i)?);
    let (stride, padding, dilation) = (one("stride", 1), one("padding", 0), one("dilation", 1).max(1));
    let reach = match transposed {
        false => size + 2 * padding - 1 - (made - 1) * stride,
        true => made - 1 + 2 * padding - (size - 1) * stride - one("output_padding", 0),
    };
    (reach >= 0).then(|| reach / dilation + 1)
}

fn per_channel(layer: &Layer<'_>) -> Proposals {
    let Some(x) = layer.input("input").filter(|x| x.len() > 1) else { return Vec::new() };
    let formals = ["weight", "bias", "running_mean", "running_var"];
    let fixed = formals.iter().find_map(|formal| layer.fixed(formal)).and_then(|shape| shape.first().copied());
    // Groups of channels have equal sizes.
    let groups = layer.int("num_groups").filter(|&groups| groups > 0 && x[1] % groups != 0);
    let channels = fixed.or(groups.map(|groups| 2 * groups));
    let all = [channels.unwrap_or(x[1])];
    let mut proposals = layer.give(&formals.map(|formal| (formal, &all[..])));
    if let Some(channels) = channels.filter(|&channels| channels != x[1]) {
        proposals.extend(layer.demand("input", Axis::Channels, channels));
    }
    proposals
}

fn linear(layer: &Layer<'_>) -> Proposals {
    let Some(width) = layer.input("input").and_then(|x| x.last().copied()) else { return Vec::new() };
    if let Some(&[out, taken]) = layer.fixed("weight").as_deref() {
        let mut all = layer.give(&[("bias", &[out])]);
        all.extend(layer.demand("input", Axis::Last, taken));
        return all;
    }
    let guess = layer.shape("weight").and_then(|w| w.first().copied());
    let out = layer.declared_last().or(guess).unwrap_or(3);
    layer.give(&[("weight", &[out, width]), ("bias", &[out])])
}

/// Attention has the projections of queries, keys and values in one weight, of which a slice may be
/// used.
fn projections(layer: &Layer<'_>) -> Option<Proposals> {
    let width = *layer.input("input")?.last()?;
    let shape = |(value, name): (Value, String)| match name.as_str() {
        "in_proj_weight" => Some((value, Wanted::Shape([3 * width, width].as_slice().into()))),
        "in_proj_bias" => Some((value, Wanted::Shape([3 * width].as_slice().into()))),
        _ => None,
    };
    let weight = layer.attribute("weight").and_then(shape)?;
    Some(std::iter::once(weight).chain(layer.attribute("bias").and_then(shape)).collect())
}

/// The same for a product followed by a sum, with slices of the weight and the bias.
fn part_of_projections(layer: &Layer<'_>) -> Option<Proposals> {
    let width = *layer.input("self")?.last()?;
    let (value, name) = layer.attribute("other").filter(|_| layer.is_part("other"))?;
    (name == "in_proj_weight").then(|| vec![(value, Wanted::Shape([3 * width, width].as_slice().into()))])
}

fn part_of_bias(layer: &Layer<'_>) -> Option<Proposals> {
    let width = *layer.input("self")?.last()?;
    let (value, name) = layer.attribute("other").filter(|_| layer.is_part("other"))?;
    (name == "in_proj_bias").then(|| vec![(value, Wanted::Shape([3 * width].as_slice().into()))])
}

/// A weight of several projections that is split by sizes.
fn divided(layer: &Layer<'_>) -> Option<Proposals> {
    let (value, name) = layer.attribute("self")?;
    let all: i64 = layer.ints("split_sizes").or_else(|| layer.ints("split_size"))?.iter().sum();
    match name.as_str() {
        "in_proj_weight" => Some(vec![(value, Wanted::Shape([all, all / 3].as_slice().into()))]),
        "in_proj_bias" => Some(vec![(value, Wanted::Shape([all].as_slice().into()))]),
        _ => None,
    }
}

/// The weights of an encoder layer, or of its attention alone, that is one operator.
fn fused_attention(layer: &Layer<'_>) -> Option<Proposals> {
    let width = layer.int("embed_dim")?;
    let hidden = layer.shape("ffn_weight_1").and_then(|shape| shape.first().copied()).unwrap_or(width);
    let (square, narrow) = ([width, width], [width]);
    let mut all = layer.give(&[
        ("qkv_weight", &[3 * width, width]),
        ("qkv_bias", &[3 * width]),
        ("proj_weight", &square),
        ("ffn_weight_1", &[hidden, width]),
        ("ffn_bias_1", &[hidden]),
        ("ffn_weight_2", &[width, hidden]),
    ]);
    let narrow_ones = ["proj_bias", "norm_weight_1", "norm_bias_1", "norm_weight_2", "norm_bias_2", "ffn_bias_2"];
    all.extend(layer.give(&narrow_ones.map(|formal| (formal, &narrow[..]))));
    Some(all)
}

/// The operands of a sum usually have one shape.
fn like_the_other(layer: &Layer<'_>) -> Proposals {
    let made = layer.graph.outputs(layer.node).next().and_then(|value| declared_shape(layer.graph, value));
    if let Some(shape) = made {
        return layer.give(&[("self", &shape), ("other", &shape)]);
    }
    let generated = |formal: &&str| {
        let definer = layer.operand(formal).and_then(|value| layer.graph.definer(origin(layer.graph, value).0));
        let kind = definer.map(|node| layer.graph.kind(node));
        kind.is_none_or(|kind| [prim::GET_ATTR, prim::CALL_METHOD, prim::CALL_FUNCTION].contains(&kind))
    };
    let pair = if generated(&"other") { ("other", "self") } else { ("self", "other") };
    layer.input(pair.1).map_or(Proposals::new(), |shape| layer.give(&[(pair.0, &shape)]))
}

fn product(layer: &Layer<'_>, left: &str, right: &str) -> Proposals {
    let Some(width) = layer.input(left).and_then(|x| x.last().copied()) else { return Vec::new() };
    if let Some(fixed) = layer.fixed(right).filter(|shape| shape.len() > 1) {
        let mut all = layer.demand(left, Axis::Last, fixed[fixed.len() - 2]);
        if left != "self" {
            all.extend(layer.give(&[("self", &fixed[fixed.len() - 1..])]));
        }
        return all;
    }
    let guess = layer.shape(right).and_then(|w| w.last().copied());
    let out = layer.declared_last().or(guess).unwrap_or(3);
    let mut all = layer.give(&[(right, &[width, out])]);
    if left != "self" {
        all.extend(layer.give(&[("self", &[out])]));
    }
    all
}

/// The same for a value that may be a part of another.
fn origin_of_part(graph: &Graph, mut value: Value) -> (Value, bool) {
    loop {
        let found = origin(graph, value);
        let part = graph.definer(found.0).filter(|&node| graph.num_inputs(node) > 0);
        match part.map(|node| (node, graph.kind(node).as_str())) {
            Some((
                node,
                "aten::slice"
                | "aten::narrow"
                | "aten::chunk"
                | "aten::split"
                | "aten::split_with_sizes"
                | "aten::__getitem__"
                | "aten::select"
                | "prim::ListUnpack"
                | "prim::ConstantChunk",
            )) => value = graph.input(node, 0),
            _ => return found,
        }
    }
}

/// The value from which this one is made without access to elements, and whether two dimensions are
/// swapped on the way.
pub(crate) fn origin(graph: &Graph, mut value: Value) -> (Value, bool) {
    let mut swapped = false;
    while let Some(node) = graph.definer(value).filter(|&node| graph.num_inputs(node) > 0) {
        match graph.kind(node).as_str() {
            "aten::t" | "aten::transpose" | "aten::numpy_T" => swapped = !swapped,
            "aten::contiguous" | "aten::to" | "aten::detach" | "aten::type_as" | "prim::unchecked_unwrap_optional" => {}
            _ => break,
        }
        value = graph.input(node, 0);
    }
    (value, swapped)
}
