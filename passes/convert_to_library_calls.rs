//! Converts products of matrices and convolutions to calls, which a backend computes: on the
//! processor with constant weights packed once, products on a GPU with cuBLAS.
//!
//! ```text
//!                                       %y : Tensor = library::Product_0(%x, %w)
//!                                       …
//! %y : Tensor = aten::mm(%x, %w)   =>   with library::Product_0 = graph(%x : Tensor, %w : Tensor):
//!                                         %y : Tensor = aten::mm(%x, %w)
//!                                         return (%y)
//! ```
//!
//! A call is a section, as a fusion group is: the section says what is computed, a backend that has
//! a library calls it, and all others run the section. So a call can be read, run anywhere and
//! validated. Constant numbers are copied into the section, which shows the factors of `addmm`;
//! weights are operands.
//!
//! Where types show float32, activations and sums with a tensor of the same size become the
//! epilogue of the call if nothing else reads its result:
//!
//! ```text
//! %y : Tensor = aten::conv2d(%x, %w, …)
//! %s : Tensor = aten::add(%y, %r, %one)     =>   %z : Tensor = library::Convolution_0(%x, %w, %r)
//! %z : Tensor = aten::relu(%s)
//! ```
//!
//! A factor for each channel of a weight, as `fold-batch-norm` leaves it, becomes a part of the
//! call: the weight is multiplied while it is packed, and has no copy in between.
//!
//! ```text
//! %w.1 : Tensor = aten::mul(%w, %f)
//! %y : Tensor = aten::conv2d(%x, %w.1, …)  =>  %y : Tensor = library::Convolution_0(%w, %f, %x)
//! ```
//!
//! Attention becomes one call, from one operator or from two products with a softmax between them:
//!
//! ```text
//! %s : Tensor = aten::matmul(%q, %k)
//! %t : Tensor = aten::mul(%s, %scale)
//! %w : Tensor = aten::softmax(%t, …)        =>   %y : Tensor = library::Attention_0(%q, %k, %v)
//! %y : Tensor = aten::matmul(%w, %v)
//! ```
//!
//! Scores may be scaled, masked or filled; weights may be cast. Nothing else may read them, as they
//! are never kept.
//!
//! Libraries compute floating-point elements. Products of integers, bools or complex numbers, as
//! far as types show that, are not converted, nor are products without readers and transposed
//! convolutions.
//! Passes that match products (`fuse-linear`, `batch-mm`) have to run before. Linear in nodes;
//! idempotent.

use jitopt_core::analysis::alias::AliasDb;
use jitopt_core::graph_dump;
use jitopt_core::ir::{Attribute, Graph, Node, Value};
use jitopt_core::ops::attention_rules::{self, ATTENTION};
use jitopt_core::ops::epilogue_rules::may_follow;
use jitopt_core::outlining::excerpt;
use jitopt_core::pass::{PassContext, PassError, PassInfo};
use jitopt_core::symbol::{Symbol, attr, library, prim};
use jitopt_core::tensor::DType;
use jitopt_core::tensor::gemm::MOST_STEPS;
use jitopt_core::types::Dim;
use rustc_hash::FxHashSet;

/// The registry entry.
pub const PASS: PassInfo = PassInfo {
    name: "convert-to-library-calls",
    aliases: &[],
    summary: "convert matrix products, convolutions, with activations after them, and attention to library calls",
    example: "%y : Tensor = aten::mm(%x, %w)  =>  %y : Tensor = library::Product_0(%x, %w)",
    options: &[],
    required: false,
    reads_shapes: true,
    run,
    file: file!(),
};

/// Kinds, each with the operand counts of its overloads and releases.
type Kinds = &'static [(&'static str, &'static [usize])];

/// Calls, their counters, and what they compute.
const CALLS: [(Symbol, &str, Kinds); 7] = [
    (library::PRODUCT, "matrices-converted", &[("aten::mm", &[2])]),
    (library::PRODUCT, "sums-converted", &[("aten::addmm", &[5])]),
    (library::PRODUCT, "batches-converted", &[("aten::bmm", &[2])]),
    (library::PRODUCT, "sums-of-batches-converted", &[("aten::baddbmm", &[5])]),
    (library::PRODUCT, "products-converted", &[("aten::matmul", &[2])]),
    (library::PRODUCT, "layers-converted", &[("aten::linear", &[3])]),
    (library::CONVOLUTION, "convolutions-converted", CONVOLUTIONS),
];

/// Convolutions. `aten::_convolution` has had one operand more since 1.7.
const CONVOLUTIONS: Kinds = &[
    ("aten::conv1d", &[7]),
    ("aten::conv2d", &[7]),
    ("aten::conv3d", &[7]),
    ("aten::convolution", &[9]),
    ("aten::_convolution", &[12, 13]),
    ("aten::_convolution_mode", &[7]),
];

/// The counter of attention.
const ATTENTIONS: &str = "attentions-converted";
/// The index of the operand `dropout_p` of attention.
const DROPOUT: usize = 4;
/// The counter of epilogues.
const FUSED: &str = "epilogues-fused";
/// The index of the operand `transposed` of `aten::convolution` and `aten::_convolution`.
const TRANSPOSED: usize = 6;
/// The most nodes between two neighbours in an epilogue.
const MOST_BETWEEN: usize = 100;

/// A product or a convolution that becomes a call.
struct Conversion {
    call: Symbol,
    counter: &'static str,
    /// What multiplies the weight of a convolution.
    scaling: Option<Node>,
    /// The product, then the nodes of its epilogue.
    nodes: Vec<Node>,
}

fn run(graph: &mut Graph, cx: &mut PassContext<'_>) -> Result<(), PassError> {
    graph_dump!("Before converting products", graph);
    let all: Vec<Node> = graph.all_nodes().collect();
    let mut found = attentions(graph, cx, &all);
    let parts: FxHashSet<Node> = found.iter().flat_map(|conversion| conversion.nodes.iter().copied()).collect();
    for &node in all.iter().filter(|node| !parts.contains(node)) {
        if let Some((call, counter)) = call_of(graph, node) {
            match without_library(graph, node, call) {
                Some(why) => cx.missed(graph, counter, node, || why),
                None => found.push(Conversion { call, counter, scaling: None, nodes: vec![node] }),
            }
        }
    }
    if !found.is_empty() {
        let db = cx.alias(graph);
        let mut taken = FxHashSet::default();
        // Of two that are added up the later one takes the sum.
        found.iter_mut().rev().for_each(|conversion| conversion.extend(graph, &db, &mut taken));
    }
    for Conversion { call, counter, scaling, mut nodes } in found {
        match nodes.get(1) {
            _ if call == library::ATTENTION => {}
            Some(&follower) if cx.may(FUSED) => cx.did(graph, FUSED, follower),
            _ => nodes.truncate(1),
        }
        let all: Vec<Node> = scaling.into_iter().chain(nodes.iter().copied()).collect();
        cx.rewrite(graph, counter, nodes[0], |graph| convert(graph, call, &all));
    }
    graph_dump!("After converting products", graph);
    Ok(())
}

/// Attention, whose calls take the place of their last nodes.
fn attentions(graph: &Graph, cx: &mut PassContext<'_>, all: &[Node]) -> Vec<Conversion> {
    let (mut found, mut db) = (Vec::new(), None);
    for &node in all {
        let Some(nodes) = attention_of(graph, node) else { continue };
        let db = db.get_or_insert_with(|| cx.alias(graph));
        match without_attention(graph, db, &nodes) {
            Some(why) => cx.missed(graph, ATTENTIONS, node, || why.to_owned()),
            None => found.push(Conversion { call: library::ATTENTION, counter: ATTENTIONS, scaling: None, nodes }),
        }
    }
    found
}

/// The nodes of attention, given its one operator, or its softmax.
fn attention_of(graph: &Graph, node: Node) -> Option<Vec<Node>> {
    if graph.kind(node).as_str() == ATTENTION {
        let is_read = graph.num_inputs(node) > DROPOUT && graph.has_uses(graph.output(node, 0));
        return is_read.then(|| vec![node]);
    }
    attention_rules::softmax(graph, node)?;
    let mut nodes = scores_of(graph, node)?;
    let mut weights = graph.output(node, 0);
    loop {
        let reader = graph.users(weights).next()?;
        nodes.push(reader);
        if attention_rules::product(graph, reader).is_some() {
            let is_left = graph.input(reader, 0) == weights && graph.input(reader, 1) != weights;
            return (is_left && graph.has_uses(graph.output(reader, 0))).then_some(nodes);
        }
        attention_rules::on_weights(graph, reader, weights)?;
        weights = graph.output(reader, 0);
    }
}

/// The nodes from a product to a softmax. Of a sum either operand may be the scores.
fn scores_of(graph: &Graph, softmax: Node) -> Option<Vec<Node>> {
    let mut open = vec![(vec![softmax], graph.input(softmax, 0))];
    while let Some((mut nodes, scores)) = open.pop() {
        let Some(definer) = graph.definer(scores) else { continue };
        nodes.push(definer);
        if attention_rules::product(graph, definer).is_some() {
            nodes.reverse();
            return Some(nodes);
        }
        if nodes.len() < MOST_STEPS {
            let before =
                graph.inputs(definer).filter(|&value| attention_rules::on_scores(graph, definer, value).is_some());
            open.extend(before.map(|value| (nodes.clone(), value)));
        }
    }
    None
}

/// The reason why attention is no call.
fn without_attention(graph: &Graph, db: &AliasDb, nodes: &[Node]) -> Option<&'static str> {
    let (first, last) = (nodes[0], nodes[nodes.len() - 1]);
    if elements(graph, last).any(|dtype| !dtype.is_float()) && nodes.len() > 1 {
        return Some("its elements are no floats");
    }
    if nodes.len() == 1 {
        let has_dropout = graph.constant(graph.input(first, DROPOUT)).flatten().and_then(number) != Some(0.0);
        return has_dropout.then_some("it has dropout, or may have");
    }
    let is_alone = nodes.windows(2).all(|pair| only_reader(graph, pair[0]) == Some(pair[1]));
    if !is_alone {
        return Some("other nodes read its scores or weights");
    }
    let is_quiet = nodes.windows(2).all(|pair| is_quiet_between(graph, db, pair[0], pair[1]));
    (!is_quiet).then_some("something may be written in between")
}

fn number(value: &Attribute) -> Option<f64> {
    match value {
        Attribute::Int(n) => Some(*n as f64),
        Attribute::Float(x) => Some(x.value),
        _ => None,
    }
}

/// The call that a node becomes, and its counter, if its result is read.
fn call_of(graph: &Graph, node: Node) -> Option<(Symbol, &'static str)> {
    let (kind, operands) = (graph.kind(node).as_str(), graph.num_inputs(node));
    let fits = |(name, counts): &(&str, &[usize])| *name == kind && counts.contains(&operands);
    let &(call, counter, _) = CALLS.iter().find(|row| row.2.iter().any(fits))?;
    let is_read = graph.num_outputs(node) == 1 && graph.has_uses(graph.output(node, 0));
    is_read.then_some((call, counter))
}

/// The reason why no library computes a product.
fn without_library(graph: &Graph, node: Node, call: Symbol) -> Option<String> {
    let verb = if call == library::CONVOLUTION { "convolves" } else { "multiplies" };
    if let Some(dtype) = elements(graph, node).find(|dtype| !dtype.is_float()) {
        return Some(format!("no library {verb} {}", dtype.name()));
    }
    let is_transposed = || graph.constant_int(graph.input(node, TRANSPOSED)) != Some(0);
    let may_be_transposed = graph.num_inputs(node) > TRANSPOSED + 2;
    (may_be_transposed && is_transposed()).then(|| "it is transposed, or may be".to_owned())
}

/// The element types of operands and results that types show.
fn elements(graph: &Graph, node: Node) -> impl Iterator<Item = DType> {
    let shown = |value| graph.ty(value).as_tensor().and_then(|tensor| tensor.dtype);
    graph.inputs(node).chain(graph.outputs(node)).filter_map(shown)
}

impl Conversion {
    /// Adds nodes that read the last value alone, and that its epilogue can compute.
    fn extend(&mut self, graph: &Graph, db: &AliasDb, taken: &mut FxHashSet<Node>) {
        // Of operands with different elements there is no product.
        if self.call == library::ATTENTION || !elements(graph, self.nodes[0]).any(|dtype| dtype == DType::Float) {
            return;
        }
        if self.call == library::CONVOLUTION {
            self.scaling = scaling_of(graph, db, self.nodes[0]);
            taken.extend(self.scaling);
        }
        let mut last = self.nodes[0];
        while let Some(follower) = only_reader(graph, last)
            && self.nodes.len() < MOST_STEPS
            && !taken.contains(&follower)
            && may_follow(graph, follower, graph.output(last, 0))
            && is_quiet_between(graph, db, last, follower)
        {
            taken.insert(follower);
            self.nodes.push(follower);
            last = follower;
        }
    }
}

/// What multiplies the weight of a convolution, its first operand, by a factor for each channel,
/// and nothing else reads.
fn scaling_of(graph: &Graph, db: &AliasDb, convolution: Node) -> Option<Node> {
    let node = graph.definer(graph.input(convolution, 1))?;
    let is_alone = || only_reader(graph, node) == Some(convolution) && is_quiet_between(graph, db, node, convolution);
    if graph.kind(node).as_str() != "aten::mul" || graph.num_inputs(node) != 2 || !is_alone() {
        return None;
    }
    let (weight, factors) = (float_sizes(graph, graph.input(node, 0))?, float_sizes(graph, graph.input(node, 1))?);
    let is_per_channel = factors.len() == weight.len()
        && factors.first() == weight.first()
        && factors.iter().skip(1).all(|&size| size == Dim::Known(1));
    is_per_channel.then_some(node)
}

/// The sizes of a tensor of float32, if all are known.
fn float_sizes(graph: &Graph, value: Value) -> Option<Box<[Dim]>> {
    let ty = graph.ty(value).as_tensor().filter(|ty| ty.dtype == Some(DType::Float))?;
    ty.sizes.clone().filter(|sizes| sizes.iter().all(|size| matches!(size, Dim::Known(_))))
}

/// The node that alone reads the result of a node, in the same block, if its own result is read.
fn only_reader(graph: &Graph, node: Node) -> Option<Node> {
    let mut users = graph.users(graph.output(node, 0));
    let (first, other) = (users.next()?, users.next());
    let is_alone = other.is_none() && graph.block_of(first) == graph.block_of(node);
    let is_read = graph.num_outputs(first) == 1 && graph.has_uses(graph.output(first, 0));
    (is_alone && is_read).then_some(first)
}

/// Whether no node in between writes to memory, so that the first may run just before the last.
fn is_quiet_between(graph: &Graph, db: &AliasDb, first: Node, last: Node) -> bool {
    let mut at = graph.next(first);
    for _ in 0..MOST_BETWEEN {
        let Some(node) = at else { return false };
        if node == last {
            return true;
        }
        let writes = db.writes(node).next().is_some() || db.writes_to_wildcard(node);
        if writes || db.has_side_effects(node) || graph.node_blocks(node).next().is_some() {
            return false;
        }
        at = graph.next(node);
    }
    false
}

/// Whether a node is a constant other than a tensor, or a list of such: a weight is an operand of
/// its call.
fn is_number(graph: &Graph, node: Node) -> bool {
    let is_constant = |node: Node| {
        graph.kind(node) == prim::CONSTANT && graph.outputs(node).all(|value| graph.ty(value).as_tensor().is_none())
    };
    let is_list = || {
        let mut elements = graph.inputs(node).map(|value| graph.definer(value));
        graph.kind(node) == prim::LIST_CONSTRUCT && elements.all(|definer| definer.is_some_and(is_constant))
    };
    is_constant(node) || is_list()
}

/// Moves a product and its epilogue into the section of a call, which replaces the last node.
fn convert(graph: &mut Graph, call: Symbol, nodes: &[Node]) {
    let mut found = excerpt(graph, nodes, |definer| is_number(graph, definer));
    let call = graph.create(call);
    let params: Vec<Value> = found.section.params(found.section.root()).collect();
    for (operand, param) in found.operands.into_iter().zip(params) {
        graph.add_input(call, operand);
        if graph.is_named(operand) {
            found.section.set_name(param, graph.name(operand).as_bytes());
        }
    }
    let last = nodes[nodes.len() - 1];
    let old = graph.output(last, 0);
    let new = graph.add_output(call, graph.ty(old));
    graph.set_attribute(call, attr::SUBGRAPH, Attribute::Graph(Box::new(found.section)));
    graph.insert_before(last, call);
    graph.replace_all_uses(old, new);
    graph.move_name_to_nameless(old, new);
    nodes.iter().rev().for_each(|&node| graph.erase(node));
}
