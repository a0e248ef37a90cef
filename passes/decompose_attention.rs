//! Decomposes attention layers that are one operator, so that library calls compute their parts.
//!
//! ```text
//! %y, %w = aten::_native_multi_head_attention(%x, %x, %x, …)
//!                            |
//!                            v
//! %a = aten::linear(%x, %qkv, %bias)
//! %q, %k, %v: the heads of its thirds
//! %s = aten::matmul(%q, %k^T)
//! …
//! %y = aten::linear(%h, %out, %out_bias)
//! ```
//!
//! The module `nn.MultiheadAttention` calls this operator when no gradient is required, and
//! `nn.TransformerEncoderLayer` calls `aten::_transformer_encoder_layer_fwd`, which is attention,
//! two linear layers, and norms.
//!
//! The operators refuse operands whose sizes do not fit together, which their parts would accept.
//! So the sizes and element types of the weights and the rank of the input must be known. Masks,
//! weights that are returned, and three different inputs are left. The scores are scaled after the
//! product, not the queries before it, which is a difference in rounding.
//!
//! Linear in nodes; idempotent.

use jitopt_core::graph_dump;
use jitopt_core::ir::{Attribute, Graph, Node, Value};
use jitopt_core::outlining::dissolve;
use jitopt_core::pass::{PassContext, PassError, PassInfo};
use jitopt_core::symbol::{attr, prim};
use jitopt_core::text::{ParseOptions, parse};
use jitopt_core::types::{Dim, TensorType};

/// The registry entry.
pub const PASS: PassInfo = PassInfo {
    name: "decompose-attention",
    aliases: &[],
    summary: "decompose attention layers that are one operator into products and a softmax",
    example: "%y : Tensor, %w : Tensor = aten::_native_multi_head_attention(%x, %x, %x, …)  =>  %a : Tensor = aten::linear(%x, %qkv, %bias), …",
    options: &[],
    required: false,
    reads_shapes: true,
    run,
    file: file!(),
};

/// An operator with attention of one input.
struct Layer {
    kind: &'static str,
    counter: &'static str,
    operands: usize,
    /// The indices of operands: the input, its width, the number of heads, and the first of the
    /// four weights.
    inputs: &'static [usize],
    width: usize,
    heads: usize,
    weights: usize,
    /// Operands that must be None, and flags that must be false.
    absent: &'static [usize],
    unset: &'static [usize],
    /// The parts.
    text: fn(&Graph, Node, &Known) -> Option<String>,
}

const LAYERS: [Layer; 2] = [
    Layer {
        kind: "aten::_native_multi_head_attention",
        counter: "attentions-decomposed",
        operands: 13,
        inputs: &[0, 1, 2],
        width: 3,
        heads: 4,
        weights: 5,
        absent: &[9],
        unset: &[10],
        text: |graph, node, known| (!graph.has_uses(graph.output(node, 1))).then(|| attention(known)),
    },
    Layer {
        kind: "aten::_transformer_encoder_layer_fwd",
        counter: "layers-decomposed",
        operands: 20,
        inputs: &[0],
        width: 1,
        heads: 2,
        weights: 3,
        absent: &[18],
        unset: &[],
        text: encoder_layer,
    },
];

fn run(graph: &mut Graph, cx: &mut PassContext<'_>) -> Result<(), PassError> {
    graph_dump!("Before decomposing attention", graph);
    let all: Vec<Node> = graph.all_nodes().collect();
    for node in all {
        let kind = graph.kind(node).as_str();
        let fits = |layer: &&Layer| layer.kind == kind && graph.num_inputs(node) == layer.operands;
        let Some(layer) = LAYERS.iter().find(fits) else { continue };
        let text = Known::of(graph, node, layer).map(|known| (layer.text)(graph, node, &known));
        match text {
            Ok(Some(text)) => {
                cx.rewrite(graph, layer.counter, node, |graph| replace(graph, node, &text));
            }
            Ok(None) => {
                cx.missed(graph, layer.counter, node, || "an option is not constant, or a result is read".to_owned())
            }
            Err(why) => cx.missed(graph, layer.counter, node, || why.to_owned()),
        }
    }
    graph_dump!("After decomposing attention", graph);
    Ok(())
}

/// Sizes that types and constants show.
struct Known {
    width: i64,
    heads: i64,
}

impl Known {
    fn of(graph: &Graph, node: Node, layer: &Layer) -> Result<Known, &'static str> {
        let operand = |at: usize| graph.input(node, at);
        if layer.inputs.iter().any(|&at| operand(at) != operand(layer.inputs[0])) {
            return Err("query, key and value are different tensors");
        }
        if layer.absent.iter().any(|&at| !matches!(graph.constant(operand(at)), Some(None))) {
            return Err("it has a mask, or may have");
        }
        if layer.unset.iter().any(|&at| graph.constant_int(operand(at)) != Some(0)) {
            return Err("the weights are returned");
        }
        let constants = (graph.constant_int(operand(layer.width)), graph.constant_int(operand(layer.heads)));
        let (Some(width), Some(heads)) = constants else { return Err("the number of heads is not constant") };
        if heads < 1 || width < 1 || width % heads != 0 {
            return Err("heads do not divide the width");
        }
        let tensor = |at: usize| graph.ty(operand(at)).as_tensor();
        let dtype = tensor(layer.weights).and_then(|weight| weight.dtype).filter(|dtype| dtype.is_float());
        let Some(wide) = width.checked_mul(3) else { return Err("the width is out of range") };
        let sizes: [&[i64]; 4] = [&[wide, width], &[wide], &[width, width], &[width]];
        let are_known = sizes.iter().zip(layer.weights..).all(|(sizes, at)| {
            tensor(at).is_some_and(|weight| has_sizes(weight, sizes) && weight.dtype == dtype && dtype.is_some())
        });
        let rank = tensor(layer.inputs[0]).and_then(|input| input.sizes.as_ref()).map(|sizes| sizes.len());
        match are_known && rank == Some(3) {
            true => Ok(Known { width, heads }),
            false => Err("the sizes of its weights or the rank of its input are not known"),
        }
    }
}

fn has_sizes(tensor: &TensorType, sizes: &[i64]) -> bool {
    let is = |(own, &size): (&Dim, &i64)| matches!(own, Dim::Known(own) if *own == size);
    tensor.sizes.as_ref().is_some_and(|own| own.len() == sizes.len() && own.iter().zip(sizes).all(is))
}

/// The name of the param of an operand.
fn param(at: usize) -> String {
    format!("%p{at}")
}

/// Constants that parts read.
const CONSTANTS: &str = "  %none : NoneType = prim::Constant()
  %true : bool = prim::Constant[value=1]()
  %zero : int = prim::Constant[value=0]()
  %one : int = prim::Constant[value=1]()
  %two : int = prim::Constant[value=2]()
  %three : int = prim::Constant[value=3]()
  %last : int = prim::Constant[value=-1]()
  %before : int = prim::Constant[value=-2]()
";

/// The parts of attention of an input, with weights from an operand on.
fn heads(known: &Known, input: &str, weights: usize, result: &str) -> String {
    let [qkv, bias, out, out_bias] = [0, 1, 2, 3].map(|i| param(weights + i));
    let Known { width, heads } = known;
    let each = width / heads;
    let scale = 1.0 / (each as f64).sqrt();
    format!(
        "  %width : int = prim::Constant[value={width}]()
  %heads : int = prim::Constant[value={heads}]()
  %each : int = prim::Constant[value={each}]()
  %scale : float = prim::Constant[value={scale:?}]()
  %all : Tensor = aten::linear({input}, {qkv}, {bias})
  %sizes : int[] = prim::ListConstruct(%three, %heads, %each)
  %split : Tensor = aten::unflatten(%all, %last, %sizes)
  %q : Tensor = aten::select(%split, %two, %zero)
  %k : Tensor = aten::select(%split, %two, %one)
  %v : Tensor = aten::select(%split, %two, %two)
  %qs : Tensor = aten::transpose(%q, %one, %two)
  %ks : Tensor = aten::transpose(%k, %one, %two)
  %vs : Tensor = aten::transpose(%v, %one, %two)
  %kt : Tensor = aten::transpose(%ks, %before, %last)
  %product : Tensor = aten::matmul(%qs, %kt)
  %scores : Tensor = aten::mul(%product, %scale)
  %weights : Tensor = aten::softmax(%scores, %last, %none)
  %sums : Tensor = aten::matmul(%weights, %vs)
  %rows : Tensor = aten::transpose(%sums, %one, %two)
  %joined : Tensor = aten::flatten(%rows, %two, %three)
  {result} : Tensor = aten::linear(%joined, {out}, {out_bias})
"
    )
}

fn attention(known: &Known) -> String {
    format!("{}{CONSTANTS}{}  return (%y)\n", header(13), heads(known, "%p0", 5, "%y"))
}

/// A graph with a param for each operand.
fn header(operands: usize) -> String {
    let params: Vec<String> = (0..operands).map(|at| format!("{} : Tensor", param(at))).collect();
    format!("graph({}):\n", params.join(", "))
}

/// An encoder layer, whose norms come before or after attention and linear layers.
fn encoder_layer(graph: &Graph, node: Node, known: &Known) -> Option<String> {
    let flag = |at: usize| graph.constant_int(graph.input(node, at)).map(|flag| flag != 0);
    let (is_gelu, is_first) = (flag(7)?, flag(8)?);
    let Attribute::Float(_) = graph.constant(graph.input(node, 9))?? else { return None };
    let norm = |result: &str, x: &str, weight: usize| {
        let (weight, bias) = (param(weight), param(weight + 1));
        format!("  {result} : Tensor = aten::layer_norm({x}, %shape, {weight}, {bias}, %p9, %true)\n")
    };
    let add = |result: &str, a: &str, b: &str| format!("  {result} : Tensor = aten::add({a}, {b}, %one)\n");
    let active = if is_gelu { "aten::gelu(%inner, %how)" } else { "aten::relu(%inner)" };
    let mut text = format!("{}{CONSTANTS}", header(20));
    text += "  %how : str = prim::Constant[value=\"none\"]()\n";
    if is_first {
        text += &format!("  %size : int = prim::Constant[value={}]()\n", known.width);
        text += "  %shape : int[] = prim::ListConstruct(%size)\n";
        text += &norm("%given", "%p0", 10);
        text += &(heads(known, "%given", 3, "%attended") + &add("%x", "%attended", "%p0"));
        text += &norm("%to_feed", "%x", 12);
    } else {
        text += &(heads(known, "%p0", 3, "%attended") + "  %shape : int[] = prim::ListConstruct(%width)\n");
        text += &(add("%sum", "%attended", "%p0") + &norm("%to_feed", "%sum", 10));
    }
    text += "  %inner : Tensor = aten::linear(%to_feed, %p14, %p15)\n";
    text += &format!("  %active : Tensor = {active}\n  %fed : Tensor = aten::linear(%active, %p16, %p17)\n");
    text += &match is_first {
        true => add("%y", "%fed", "%x"),
        false => add("%together", "%fed", "%to_feed") + &norm("%y", "%together", 12),
    };
    Some(text + "  return (%y)\n")
}

/// Replaces a node by its parts.
fn replace(graph: &mut Graph, node: Node, text: &str) {
    let mut section = parse(text.as_bytes(), ParseOptions::of(graph.release())).expect("the parts are a graph").graph;
    let operands: Vec<Value> = graph.inputs(node).collect();
    let params: Vec<Value> = section.params(section.root()).collect();
    for (param, &operand) in params.into_iter().zip(&operands) {
        section.set_type(param, graph.ty(operand));
    }
    let old = graph.output(node, 0);
    let result = section.results(section.root()).next().expect("one result");
    section.set_type(result, graph.ty(old));
    let group = graph.create(prim::FUSION_GROUP);
    operands.iter().for_each(|&operand| graph.add_input(group, operand));
    let new = graph.add_output(group, graph.ty(old));
    graph.set_attribute(group, attr::SUBGRAPH, Attribute::Graph(Box::new(section)));
    graph.insert_before(node, group);
    graph.replace_all_uses(old, new);
    graph.move_name_to_nameless(old, new);
    graph.erase(node);
    dissolve(graph, group, |_, _, _| {});
}
