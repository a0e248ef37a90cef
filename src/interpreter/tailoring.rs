//! Shapes that operands of common layers must have, given those of the others: what a search at random takes long to find.

use crate::ir::{Attribute, Graph, Node, Value};
use crate::ops;
use crate::symbol::prim;
use crate::tensor::layout::Dims;
use crate::types::Dim;
use std::collections::BTreeMap;

/// Shapes of values as they were in a run.
pub type Shapes = BTreeMap<Value, Dims>;

/// A node, asked by the names of formals.
struct Layer<'a> {
    graph: &'a Graph,
    node: Node,
    shapes: &'a Shapes,
}

impl Layer<'_> {
    fn operand(&self, formal: &str) -> Option<Value> {
        let n = self.graph.num_inputs(self.node);
        let operator = ops::operator(self.graph.era, self.graph.kind(self.node));
        let index =
            operator.schemas.iter().filter(|schema| schema.formals.len() >= n).find_map(|s| s.formal(formal))?;
        (index < n).then(|| self.graph.input(self.node, index))
    }

    /// The shape as it was, else as the type says.
    fn shape(&self, formal: &str) -> Option<Dims> {
        let operand = self.operand(formal)?;
        self.shapes.get(&operand).cloned().or_else(|| declared_shape(self.graph, operand))
    }

    /// The shape as the type says, else as it was.
    fn input(&self, formal: &str) -> Option<Dims> {
        declared_shape(self.graph, self.operand(formal)?).or_else(|| self.shape(formal))
    }

    fn int(&self, formal: &str) -> Option<i64> {
        self.graph.constant_int(self.operand(formal)?)
    }

    /// A list whose elements stand in the text.
    fn ints(&self, formal: &str) -> Option<Dims> {
        let list = self.operand(formal)?;
        if let Some(Some(Attribute::List(parts))) = self.graph.constant(list) {
            return parts.iter().map(Attribute::as_int).collect();
        }
        let made = self.graph.definer(list).filter(|&node| self.graph.kind(node) == prim::LIST_CONSTRUCT)?;
        self.graph.inputs(made).map(|value| self.graph.constant_int(value)).collect()
    }

    /// A size of the output, where its type says it.
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

    fn give(&self, shapes: &[(&str, &[i64])]) -> Vec<(Value, Dims)> {
        shapes.iter().filter_map(|(formal, shape)| Some((self.operand(formal)?, (*shape).into()))).collect()
    }
}

/// The shape of a value, if its type says all of it.
pub fn declared_shape(graph: &Graph, value: Value) -> Option<Dims> {
    let sizes = graph.ty(value).as_tensor()?.sizes.as_ref()?;
    sizes.iter().map(|dim| if let Dim::Known(n) = dim { Some(*n) } else { None }).collect()
}

/// Shapes for operands of a node with which it may run.
pub fn proposals(graph: &Graph, node: Node, shapes: &Shapes) -> Vec<(Value, Dims)> {
    let layer = Layer { graph, node, shapes };
    let name = graph.kind(node).as_str();
    match name.strip_prefix("aten::").unwrap_or_default() {
        "conv1d" | "conv2d" | "conv3d" | "_convolution" | "convolution" => convolution(&layer, false),
        "conv_transpose1d" | "conv_transpose2d" | "conv_transpose3d" => convolution(&layer, true),
        "batch_norm" | "instance_norm" | "group_norm" => per_channel(&layer),
        "layer_norm" => {
            let shape = layer.ints("normalized_shape").unwrap_or_default();
            layer.give(&[("weight", &shape), ("bias", &shape)])
        }
        "linear" => linear(&layer),
        "addmm" => product(&layer, "mat1", "mat2"),
        "mm" => product(&layer, "self", "mat2"),
        "matmul" => product(&layer, "self", "other"),
        "embedding" => {
            let width = layer.declared_last().unwrap_or(4);
            layer.give(&[("weight", &[10, width])])
        }
        _ => Vec::new(),
    }
}

fn convolution(layer: &Layer<'_>, transposed: bool) -> Vec<(Value, Dims)> {
    let (Some(x), Some(w)) = (layer.input("input"), layer.shape("weight")) else { return Vec::new() };
    let strides = layer.ints("stride").unwrap_or_default();
    let n = if strides.len() > 1 { strides.len() } else { x.len().saturating_sub(2) };
    let batched = x.len() == n + 2;
    if x.len() < n + 1 || n == 0 {
        return Vec::new();
    }
    let channels = x[usize::from(batched)];
    let transposed = transposed || layer.int("transposed").is_some_and(|yes| yes != 0);
    let groups = layer.int("groups").unwrap_or(1).max(1);
    let known = layer.declared(usize::from(batched));
    let guess = w.get(usize::from(transposed)).copied().unwrap_or(1).max(1);
    let out = known.unwrap_or(if transposed { guess * groups } else { (guess + groups - 1) / groups * groups });
    let mut weight: Dims = match transposed {
        true => [channels, out / groups].as_slice().into(),
        false => [out, channels / groups].as_slice().into(),
    };
    for i in 0..n {
        weight.push(kernel_size(layer, &x, i, n, transposed).unwrap_or_else(|| w.get(2 + i).copied().unwrap_or(1)));
    }
    layer.give(&[("weight", &weight), ("bias", &[out])])
}

/// The size of a kernel that makes the declared output of the input.
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

fn per_channel(layer: &Layer<'_>) -> Vec<(Value, Dims)> {
    let Some(x) = layer.input("input").filter(|x| x.len() > 1) else { return Vec::new() };
    let all = [x[1]];
    layer.give(&["weight", "bias", "running_mean", "running_var"].map(|formal| (formal, &all[..])))
}

fn linear(layer: &Layer<'_>) -> Vec<(Value, Dims)> {
    let Some(width) = layer.input("input").and_then(|x| x.last().copied()) else { return Vec::new() };
    let guess = layer.shape("weight").and_then(|w| w.first().copied());
    let out = layer.declared_last().or(guess).unwrap_or(3);
    layer.give(&[("weight", &[out, width]), ("bias", &[out])])
}

fn product(layer: &Layer<'_>, left: &str, right: &str) -> Vec<(Value, Dims)> {
    let Some(width) = layer.input(left).and_then(|x| x.last().copied()) else { return Vec::new() };
    let guess = layer.shape(right).and_then(|w| w.last().copied());
    let out = layer.declared_last().or(guess).unwrap_or(3);
    let mut all = layer.give(&[(right, &[width, out])]);
    if left != "self" {
        all.extend(layer.give(&[("self", &[out])]));
    }
    all
}

/// The value that this one is made of without looking at elements, and whether two dimensions change places on the way.
pub fn origin(graph: &Graph, mut value: Value) -> (Value, bool) {
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
