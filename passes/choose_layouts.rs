//! Chooses one layout for a chain of convolutions and what is between them: contiguous, where
//! PyTorch has channels last.
//!
//! ```text
//!                                        %e : Tensor = aten::contiguous(%x, 0)
//!                                        %v : Tensor = aten::contiguous(%w, 0)   (once)
//! %a = aten::conv2d(%x, %w, …)           %a = aten::conv2d(%e, %v, …)
//! %b = aten::relu(%a)               =>   %b = aten::relu(%a)
//! %c = aten::conv2d(%b, %w2, …)          %c = aten::conv2d(%b, %v2, …)
//! return (%c)                            %r : Tensor = aten::clone(%c, 2)
//!                                        return (%r)
//! ```
//!
//! A module that `.to(memory_format=torch.channels_last)` converted has such weights, and then each
//! result has channels last, whatever its input has. The convolutions of the backend compute
//! planes: each would convert its image and its result. In a chain that is contiguous none does.
//! Convolutions of single channels have kernels for both layouts and gain nothing.
//!
//! A chain is converted if that removes more conversions than it adds. It removes two for each
//! convolution. It adds one for each operand from outside, each result that is read outside, and
//! each weight that is not the same in every run. The remark of a refused chain has both numbers.
//!
//! Values do not depend on the layout, but for the order of sums. Strides do, and operators like
//! `view` depend on them: whatever reads a value outside of the chain reads a copy with channels
//! last, whose strides are those that PyTorch gives. Where types leave open whether images have one
//! channel or one element, strides of dimensions of size 1 may be others. Values that are written
//! stay as they are. Linear in nodes; idempotent.

use jitopt_core::analysis::alias::AliasDb;
use jitopt_core::graph_dump;
use jitopt_core::ir::{Attribute, Block, Graph, Node, Value};
use jitopt_core::pass::{PassContext, PassError, PassInfo};
use jitopt_core::symbol::{Symbol, attr, prim};
use jitopt_core::tensor::layout;
use jitopt_core::types::release::Release;
use jitopt_core::types::{Dim, Strides, TensorType, Type};
use rustc_hash::{FxHashMap, FxHashSet};

/// The registry entry.
pub const PASS: PassInfo = PassInfo {
    name: "choose-layouts",
    aliases: &[],
    summary: "choose one layout for chains of convolutions: contiguous, where fewer conversions remain",
    example: "%a : Tensor = aten::conv2d(%x, %w, …)  =>  %a : Tensor = aten::conv2d(aten::contiguous(%x, 0), aten::contiguous(%w, 0), …)",
    options: &[],
    required: false,
    reads_shapes: true,
    run,
    file: file!(),
};

/// Convolutions of images with two dimensions: their operands, the place of `groups`, and that of
/// `transposed`.
const CONVOLUTIONS: [(&str, &[usize], usize, Option<usize>); 3] = [
    ("aten::conv2d", &[7], 6, None),
    ("aten::convolution", &[9], 8, Some(6)),
    ("aten::_convolution", &[12, 13], 8, Some(6)),
];
/// Operators whose result has the layout of their first operand.
const FOLLOWING: [&str; 14] = [
    "aten::relu",
    "aten::relu6",
    "aten::hardtanh",
    "aten::leaky_relu",
    "aten::hardswish",
    "aten::hardsigmoid",
    "aten::sigmoid",
    "aten::silu",
    "aten::gelu",
    "aten::tanh",
    "aten::elu",
    "aten::max_pool2d",
    "aten::avg_pool2d",
    "aten::batch_norm",
];
/// Operators whose result has the layout that both operands have.
const OF_TWO: [&str; 3] = ["aten::add", "aten::sub", "aten::mul"];
/// The index of the operand `training` of a batch norm.
const TRAINING: usize = 5;
/// Codes of memory formats.
const CONTIGUOUS: i64 = 0;
const CHANNELS_LAST: i64 = 2;
/// The counter.
const CHOSEN: &str = "chains-made-contiguous";

fn run(graph: &mut Graph, cx: &mut PassContext<'_>) -> Result<(), PassError> {
    graph_dump!("Before choosing layouts", graph);
    let is_convolution = |node: Node| convolution(graph, node).is_some();
    if graph.release() < Release(1, 5) || !graph.all_nodes().any(is_convolution) {
        return Ok(());
    }
    let mut blocks: Vec<Block> = Vec::new();
    let mut seen = FxHashSet::default();
    blocks.extend(graph.all_nodes().filter_map(|node| graph.block_of(node)).filter(|&block| seen.insert(block)));
    let db = cx.alias(graph);
    let chains: Vec<Chain> = blocks.into_iter().flat_map(|block| chains(graph, block)).collect();
    // Decided before the first rewrite, as the analysis does not know new values.
    let refusals: Vec<Option<String>> = chains.iter().map(|chain| chain.refusal(graph, &db)).collect();
    for (chain, refusal) in chains.iter().zip(refusals) {
        match refusal {
            Some(why) => cx.missed(graph, CHOSEN, chain.nodes[0], || why),
            None => {
                cx.rewrite(graph, CHOSEN, chain.nodes[0], |graph| chain.make_contiguous(graph));
            }
        }
    }
    graph_dump!("After choosing layouts", graph);
    Ok(())
}

/// The place of `groups` of a convolution that is known not to be transposed, of images with two
/// dimensions.
fn convolution(graph: &Graph, node: Node) -> Option<usize> {
    let (kind, operands) = (graph.kind(node).as_str(), graph.num_inputs(node));
    let &(_, _, groups, transposed) = CONVOLUTIONS.iter().find(|row| row.0 == kind && row.1.contains(&operands))?;
    let is_forward = transposed.is_none_or(|at| graph.constant_int(graph.input(node, at)) == Some(0));
    let rank = |value: Value| graph.ty(value).as_tensor().and_then(TensorType::rank);
    let is_flat = rank(graph.input(node, 1)) == Some(4);
    let image = rank(graph.input(node, 0)).or_else(|| rank(graph.output(node, 0)));
    (is_forward && is_flat && image == Some(4)).then_some(groups)
}

/// Nodes whose results have channels last in PyTorch, each joined with the others by an operand, in
/// the order of their block.
struct Chain {
    nodes: Vec<Node>,
}

/// The chains of a block.
fn chains(graph: &Graph, block: Block) -> Vec<Chain> {
    // The chain of each value with channels last; chains that meet become one.
    let mut chain_of: FxHashMap<Value, usize> = FxHashMap::default();
    let mut joined: Vec<usize> = Vec::new();
    let mut members: Vec<(Node, usize)> = Vec::new();
    for node in graph.nodes(block) {
        let Some(from) = operands_in_layout(graph, node, |value| chain_of.contains_key(&value)) else { continue };
        let mut own: Option<usize> = None;
        for value in from {
            let Some(&other) = chain_of.get(&value) else { continue };
            let other = root(&joined, other);
            match own {
                Some(own) => joined[other] = own,
                None => own = Some(other),
            }
        }
        let own = own.unwrap_or_else(|| {
            joined.push(joined.len());
            joined.len() - 1
        });
        members.push((node, own));
        chain_of.insert(graph.output(node, 0), own);
    }
    let mut found: Vec<(usize, Chain)> = Vec::new();
    let mut place: FxHashMap<usize, usize> = FxHashMap::default();
    for (node, own) in members {
        let own = root(&joined, own);
        let at = *place.entry(own).or_insert_with(|| {
            found.push((own, Chain { nodes: Vec::new() }));
            found.len() - 1
        });
        found[at].1.nodes.push(node);
    }
    let has_convolution = |chain: &Chain| chain.nodes.iter().any(|&node| convolution(graph, node).is_some());
    found.into_iter().map(|(_, chain)| chain).filter(has_convolution).collect()
}

fn root(joined: &[usize], mut at: usize) -> usize {
    while joined[at] != at {
        at = joined[at];
    }
    at
}

/// The operands whose layout the result of a node has, if it has channels last.
fn operands_in_layout(graph: &Graph, node: Node, is_last: impl Fn(Value) -> bool) -> Option<Vec<Value>> {
    let kind = graph.kind(node).as_str();
    if graph.num_outputs(node) != 1 {
        return None;
    }
    let has_one_order = |sizes: Vec<i64>| sizes.len() == 4 && sizes[1] != 1 && sizes[2..] != [1, 1];
    if convolution(graph, node).is_some() {
        let (image, weight) = (graph.input(node, 0), graph.input(node, 1));
        return (is_last(image) || has_channels_last(graph, weight)).then(|| vec![image]);
    }
    // Sizes of 1 leave the order open, and these operators decide otherwise than convolutions.
    let sizes = graph.ty(graph.output(node, 0)).as_tensor().and_then(known_sizes);
    if !sizes.is_none_or(has_one_order) {
        return None;
    }
    if FOLLOWING.contains(&kind) {
        let is_in_training = kind == "aten::batch_norm" && graph.constant_int(graph.input(node, TRAINING)) != Some(0);
        let image = graph.input(node, 0);
        return (is_last(image) && !is_in_training).then(|| vec![image]);
    }
    if OF_TWO.contains(&kind) && graph.num_inputs(node) >= 2 {
        // Numbers have no layout.
        let is_tensor = |value: &Value| graph.ty(*value).as_tensor().is_some();
        let both: Vec<Value> = graph.inputs(node).take(2).filter(is_tensor).collect();
        return (!both.is_empty() && both.iter().all(|&value| is_last(value))).then_some(both);
    }
    None
}

/// Whether a weight is known to have channels last: by its type, or because it is made so.
fn has_channels_last(graph: &Graph, weight: Value) -> bool {
    let Some(ty) = graph.ty(weight).as_tensor() else { return false };
    let Some(sizes) = known_sizes(ty) else { return false };
    if let Strides::Known(strides) = &ty.strides {
        return layout::suggested_order(&sizes, strides).is_some();
    }
    // Values that are contiguous in either order are not converted.
    let has_one_order = sizes[1] > 1 && (sizes[2] > 1 || sizes[3] > 1);
    has_one_order && made_with(graph, weight, CHANNELS_LAST).is_some()
}

fn known_sizes(ty: &TensorType) -> Option<Vec<i64>> {
    let size = |dim: &Dim| match dim {
        Dim::Known(size) => Some(*size),
        _ => None,
    };
    ty.sizes.as_ref()?.iter().map(size).collect()
}

/// The operand of the conversion to a memory format that made a value.
fn made_with(graph: &Graph, value: Value, format: i64) -> Option<Value> {
    let definer = graph.definer(value).filter(|&node| graph.kind(node).as_str() == "aten::contiguous")?;
    (graph.constant_int(graph.input(definer, 1)) == Some(format)).then(|| graph.input(definer, 0))
}

/// The number of conversions that are removed, and that are added.
struct Cost {
    saved: usize,
    added: usize,
}

impl Chain {
    /// Whether a node is a part of it.
    fn inside(&self) -> FxHashSet<Node> {
        self.nodes.iter().copied().collect()
    }

    /// Images that come from outside, each once.
    fn entries(&self, graph: &Graph) -> Vec<Value> {
        let own: FxHashSet<Value> = self.nodes.iter().map(|&node| graph.output(node, 0)).collect();
        let mut seen = FxHashSet::default();
        // All other nodes read values of the chain.
        let images =
            self.nodes.iter().map(|&node| graph.input(node, 0)).filter(|&value| graph.ty(value).as_tensor().is_some());
        images.filter(|value| !own.contains(value) && seen.insert(*value)).collect()
    }

    /// Results that are read outside.
    fn exits(&self, graph: &Graph) -> Vec<Value> {
        let inside = self.inside();
        let is_read = |value: &Value| graph.users(*value).any(|user| !inside.contains(&user));
        self.nodes.iter().map(|&node| graph.output(node, 0)).filter(is_read).collect()
    }

    /// The weights of its convolutions that have channels last, each once.
    fn weights(&self, graph: &Graph) -> Vec<Value> {
        let mut seen = FxHashSet::default();
        let of = self.nodes.iter().filter(|&&node| convolution(graph, node).is_some());
        of.map(|&node| graph.input(node, 1))
            .filter(|&weight| has_channels_last(graph, weight) && seen.insert(weight))
            .collect()
    }

    fn cost(&self, graph: &Graph) -> Cost {
        let converts =
            |&&node: &&Node| convolution(graph, node).is_some_and(|groups| !is_by_channel(graph, node, groups));
        let converted = |value: &Value| made_with(graph, *value, CHANNELS_LAST).is_none();
        let changes = |value: &Value| {
            let kind = |value: Value| graph.definer(value).map(|definer| graph.kind(definer));
            let made_of = made_with(graph, *value, CHANNELS_LAST);
            !matches!(kind(made_of.unwrap_or(*value)), Some(prim::GET_ATTR | prim::CONSTANT)) && made_of.is_none()
        };
        let added = self.entries(graph).iter().filter(|value| converted(value)).count()
            + self.exits(graph).len()
            + self.weights(graph).iter().filter(|value| changes(value)).count();
        Cost { saved: 2 * self.nodes.iter().filter(converts).count(), added }
    }

    /// The reason why it keeps its layout.
    fn refusal(&self, graph: &Graph, db: &AliasDb) -> Option<String> {
        let Cost { saved, added } = self.cost(graph);
        if saved <= added {
            return Some(format!("{saved} conversions of images would go, and {added} come"));
        }
        let own = self.nodes.iter().map(|&node| graph.output(node, 0));
        let given: Vec<Value> = self.entries(graph).into_iter().chain(self.weights(graph)).collect();
        let sources = given.iter().filter_map(|&value| made_with(graph, value, CHANNELS_LAST));
        let mut all = own.chain(sources).chain(given.iter().copied());
        let written = all.find(|&value| db.has_writers(value))?;
        Some(format!("`%{}` may be written", graph.name(written)))
    }

    fn make_contiguous(&self, graph: &mut Graph) {
        let (entries, exits, weights) = (self.entries(graph), self.exits(graph), self.weights(graph));
        let inside = self.inside();
        let first = self.nodes[0];
        let formats = [CONTIGUOUS, CHANNELS_LAST].map(|format| constant(graph, first, format));
        for value in entries.into_iter().chain(weights) {
            let source = made_with(graph, value, CHANNELS_LAST).unwrap_or(value);
            let reader = self.nodes.iter().copied().find(|&node| graph.inputs(node).any(|operand| operand == value));
            let ty = without_strides(graph, value);
            let node = graph.create_op(Symbol::new("aten::contiguous"), &[source, formats[0]], ty);
            let reader = reader.expect("a node of the chain reads it");
            graph.insert_before(reader, node);
            graph.copy_location(reader, node);
            let new = graph.output(node, 0);
            graph.replace_uses_if(value, new, |graph, read| inside.contains(&graph.user(read)));
        }
        for value in exits {
            let definer = graph.definer(value).expect("a node of the chain defines it");
            let copy = graph.create_op(Symbol::new("aten::clone"), &[value, formats[1]], graph.ty(value));
            graph.insert_after(definer, copy);
            graph.copy_location(definer, copy);
            let new = graph.output(copy, 0);
            graph.replace_uses_if(value, new, |graph, read| {
                let user = graph.user(read);
                user != copy && !inside.contains(&user)
            });
        }
        for &node in &self.nodes {
            let value = graph.output(node, 0);
            let ty = without_strides(graph, value);
            graph.set_type(value, ty);
        }
    }
}

/// Whether a convolution is of single channels: there are as many groups as channels.
fn is_by_channel(graph: &Graph, node: Node, groups: usize) -> bool {
    let weight = graph.ty(graph.input(node, 1)).as_tensor().and_then(known_sizes);
    let groups = graph.constant_int(graph.input(node, groups));
    weight.is_some_and(|sizes| sizes[1] == 1 && Some(sizes[0]) == groups)
}

fn constant(graph: &mut Graph, before: Node, value: i64) -> Value {
    let node = graph.create_op(prim::CONSTANT, &[], Type::int());
    graph.set_attribute(node, attr::VALUE, Attribute::Int(value));
    graph.insert_before(before, node);
    graph.copy_location(before, node);
    graph.output(node, 0)
}

fn without_strides(graph: &Graph, value: Value) -> Type {
    match graph.ty(value).as_tensor() {
        Some(ty) => {
            Type::new(jitopt_core::types::TypeKind::Tensor(TensorType { strides: Strides::Unknown, ..ty.clone() }))
        }
        None => graph.ty(value),
    }
}
