//! Batches matrix products: a sum of products, or products that share a factor, become one
//! operator.
//!
//! ```text
//! %m : Tensor = aten::mm(%a, %b)
//! %n : Tensor = aten::mm(%c, %d)
//! …
//! %s : Tensor = aten::add(%m, %n, %1)
//! …
//! %y : Tensor = aten::add(%r, %s, %1)    =>    %y : Tensor = prim::MMTreeReduce(…, %c, %a, …, %d, %b)
//!
//! %y0 : Tensor = aten::mm(%w, %x0)
//! …                                      =>    %y0 : Tensor, … = prim::MMBatchSide[side=0](%w, %x0, …)
//! ```
//!
//! - **Trees.** A sum of at least four products, some of them transposed, is one product of
//!   concatenated matrices: `AB + CD = [A C][B; D]`, and `(AB)ᵀ = BᵀAᵀ`. The products and the
//!   intermediate sums have no reader outside the tree. A sum joins a tree only when its `alpha` is
//!   the constant 1; PyTorch does not check `alpha`, and drops the scaling. A sum whose sides have
//!   types with different element types or sizes does not join either; where types say nothing, the
//!   operator adds as `aten::add` does.
//! - **Sides.** At least eight products of one block that have the same matrix on the same side,
//!   and do not depend on each other, are one product with concatenated matrices. They move to the
//!   first of them together with the nodes that they depend on, but never over a node that may
//!   raise an exception.
//!
//! No factor may be written to, because the batched node reads it later or earlier. PyTorch does
//! nothing when anything in the graph is written to. Floating point products are added in another
//! order, so results differ by rounding.
//!
//! Ends with `dce` when something changed, as PyTorch does; up to 1.8 it always runs. Linear in
//! nodes: the search for dependencies of products is bounded in steps. Idempotent, except that the
//! final `dce` may remove writers to factors.

use crate::dead_code_elimination;
use crate::fuse_addmm::is_one;
use jitopt_core::analysis::AliasDb;
use jitopt_core::ir::{Attribute, Block, Graph, Node, Value};
use jitopt_core::ops;
use jitopt_core::ops::rules::{Carries, Effect};
use jitopt_core::pass::{PassContext, PassError, PassInfo, PassOption};
use jitopt_core::symbol::{Symbol, prim};
use jitopt_core::types::{Dim, Type};
use jitopt_core::{graph_dump, graph_update};
use rustc_hash::FxHashMap;
use std::rc::Rc;

/// The registry entry.
pub const PASS: PassInfo = PassInfo {
    name: "batch-mm",
    aliases: &[],
    summary: "batch a sum of matrix products, or products that share a factor, into one operator",
    example: "%y0 : Tensor = aten::mm(%w, %x0), … %y7 : Tensor = aten::mm(%w, %x7)  =>  %y0 : Tensor, … = prim::MMBatchSide[side=0](%w, %x0, …)",
    options: &[PassOption {
        name: "quiet",
        default: "false",
        summary: "skip a graph in which anything is written to, as PyTorch does",
    }],
    required: false,
    reads_shapes: true,
    run,
    file: file!(),
};

/// The minimum number of products in a tree. With fewer, concatenating the factors costs more than
/// the batched product saves (PyTorch's figure).
const FEWEST_LEAVES: usize = 4;
/// The minimum number of products with a common factor (PyTorch's figure).
const FEWEST_ON_A_SIDE: usize = 8;
/// The budget of the dependency search, in steps per product in the graph.
const PATIENCE: usize = 64;

fn run(graph: &mut Graph, cx: &mut PassContext<'_>) -> Result<(), PassError> {
    let before = graph.epoch();
    graph_dump!("Before batching products", graph);
    let mut products: Vec<Node> = graph.all_nodes().filter(|&node| is_product(graph, node)).collect();
    if cx.flag("quiet")? && is_anything_written(graph, &cx.alias(graph)) {
        products.clear();
    }
    if products.len() >= FEWEST_LEAVES {
        let db = cx.alias(graph);
        Trees { db, nodes: FxHashMap::default() }.reduce(graph, cx);
    }
    if products.len() >= FEWEST_ON_A_SIDE {
        let db = cx.alias(graph);
        Sides { db, patience: PATIENCE * products.len() }.batch(graph, cx);
    }
    if graph.epoch().computation != before.computation || graph.release().always_cleans_up() {
        dead_code_elimination::eliminate(graph, cx, true);
    }
    graph_dump!("After batching products", graph);
    Ok(())
}

fn is_anything_written(graph: &Graph, db: &AliasDb) -> bool {
    graph.all_nodes().any(|node| db.is_writing(node))
}

fn is(graph: &Graph, node: Node, kind: &str, operands: usize) -> bool {
    graph.kind(node).as_str() == kind && graph.num_inputs(node) == operands && graph.num_outputs(node) == 1
}

fn is_product(graph: &Graph, node: Node) -> bool {
    is(graph, node, "aten::mm", 2)
}

/// Whether neither the factors of a product nor the product are written to.
fn is_quiet(graph: &Graph, db: &AliasDb, product: Node) -> bool {
    graph.inputs(product).chain(graph.outputs(product)).all(|value| !db.has_writers(value))
}

// ---- trees

/// A node of a tree: the number of products below it, and whether it is a root as far as is known.
#[derive(Clone, Copy)]
struct Part {
    leaves: usize,
    root: bool,
}

struct Trees {
    db: Rc<AliasDb>,
    nodes: FxHashMap<Node, Part>,
}

impl Trees {
    fn reduce(&mut self, graph: &mut Graph, cx: &mut PassContext<'_>) {
        let nodes: Vec<Node> = graph.all_nodes().collect();
        for &node in &nodes {
            if is_product(graph, node) && is_quiet(graph, &self.db, node) {
                self.nodes.insert(node, Part { leaves: 1, root: true });
            } else if is(graph, node, "aten::t", 1) {
                self.transposed(graph, node);
            } else if is(graph, node, "aten::add", 3) {
                self.sum(graph, cx, node);
            }
        }
        let is_large =
            |node: &&Node| self.nodes.get(*node).is_some_and(|part| part.root && part.leaves >= FEWEST_LEAVES);
        for &root in nodes.iter().filter(is_large) {
            cx.rewrite(graph, "trees-reduced", root, |graph| reduce(graph, root));
        }
    }

    /// The node that makes `value` in the block of `user`, when it is part of a tree and has no
    /// other reader.
    fn part(&self, graph: &Graph, value: Value, user: Node) -> Option<(Node, Part)> {
        let node = graph.definer(value).filter(|&node| graph.block_of(node) == graph.block_of(user))?;
        let alone = graph.single_use(value).is_some();
        self.nodes.get(&node).filter(|_| alone).map(|part| (node, *part))
    }

    fn transposed(&mut self, graph: &Graph, node: Node) {
        let product = self.part(graph, graph.input(node, 0), node).filter(|(inner, _)| is_product(graph, *inner));
        if product.is_some() && !self.db.has_writers(graph.output(node, 0)) {
            self.nodes.insert(node, Part { leaves: 1, root: true });
        }
    }

    fn sum(&mut self, graph: &Graph, cx: &mut PassContext<'_>, node: Node) {
        let [left, right] = [0, 1].map(|i| graph.input(node, i));
        let Some((a, left_part)) = self.part(graph, left, node) else { return };
        let Some((b, right_part)) = self.part(graph, right, node) else { return };
        let why = if !is_one(graph, graph.input(node, 2)) {
            "a side of the sum is scaled"
        } else if differ(graph.ty(left), graph.ty(right)) {
            "the sum promotes or broadcasts a side"
        } else {
            for part in [a, b] {
                self.nodes.entry(part).and_modify(|part| part.root = false);
            }
            self.nodes.insert(node, Part { leaves: left_part.leaves + right_part.leaves, root: true });
            return;
        };
        cx.missed(graph, "trees-reduced", node, || why.to_owned());
    }
}

/// Whether two tensors are known to have different element types or different sizes.
fn differ(a: Type, b: Type) -> bool {
    let (Some(a), Some(b)) = (a.as_tensor(), b.as_tensor()) else { return true };
    let dtypes = a.dtype.zip(b.dtype).is_some_and(|(a, b)| a != b);
    let other = |(a, b): (&Dim, &Dim)| matches!((a, b), (Dim::Known(a), Dim::Known(b)) if a != b);
    let sizes = a.sizes.as_ref().zip(b.sizes.as_ref());
    dtypes || sizes.is_some_and(|(a, b)| a.len() != b.len() || a.iter().zip(b.iter()).any(other))
}

/// Inserts one node before the root of a tree; the tree itself is left for `dce`.
fn reduce(graph: &mut Graph, root: Node) {
    graph_update!("Reducing the tree of %{}", graph.name(graph.output(root, 0)));
    let (mut left, mut right) = (Vec::new(), Vec::new());
    let mut work = vec![root];
    while let Some(node) = work.pop() {
        // The right side first, as in PyTorch.
        let operands: Vec<Node> = graph.inputs(node).take(2).filter_map(|value| graph.definer(value)).collect();
        if is_product(graph, node) {
            left.push(graph.input(node, 0));
            right.push(graph.input(node, 1));
        } else if is(graph, node, "aten::t", 1) {
            let [a, b] = [0, 1].map(|i| graph.input(operands[0], i));
            left.push(transpose(graph, b, root));
            right.push(transpose(graph, a, root));
        } else {
            work.extend(operands);
        }
    }
    let operands: Vec<Value> = left.into_iter().chain(right).collect();
    let old = graph.output(root, 0);
    let reduced = graph.create_op(prim::MM_TREE_REDUCE, &operands, graph.ty(old));
    graph.insert_before(root, reduced);
    graph.replace_all_uses(old, graph.output(reduced, 0));
}

/// The transpose of a matrix: the operand of an existing transpose, or a new node.
fn transpose(graph: &mut Graph, value: Value, before: Node) -> Value {
    match graph.definer(value).filter(|&node| is(graph, node, "aten::t", 1)) {
        Some(node) => graph.input(node, 0),
        None => {
            let node = graph.create_op(Symbol::new("aten::t"), &[value], Type::tensor());
            graph.insert_before(before, node);
            graph.output(node, 0)
        }
    }
}

// ---- sides

struct Sides {
    db: Rc<AliasDb>,
    /// Steps that are left in the budget.
    patience: usize,
}

/// Products that have a factor in common, on the left and on the right, with no node between them
/// that may raise an exception: an exception of a moved product would come before it.
type Groups = Vec<[Vec<Node>; 2]>;

/// Independent products, and the nodes that must move before the first of them.
#[derive(Default)]
struct Batch {
    products: Vec<Node>,
    needed: Vec<Node>,
}

impl Sides {
    fn batch(&mut self, graph: &mut Graph, cx: &mut PassContext<'_>) {
        let blocks: Vec<Block> = graph.all_blocks().collect();
        for block in blocks {
            for sides in self.groups(graph, block) {
                for (side, mut products) in sides.into_iter().enumerate() {
                    // Some may have been batched by their other side.
                    products.retain(|&node| graph.block_of(node).is_some());
                    if products.len() < FEWEST_ON_A_SIDE {
                        continue;
                    }
                    let found = self.independent(graph, &products, side);
                    if found.products.len() >= FEWEST_ON_A_SIDE {
                        let first = found.products[0];
                        cx.rewrite(graph, "sides-batched", first, |graph| batch(graph, side, &found));
                    }
                }
            }
        }
    }

    fn groups(&self, graph: &Graph, block: Block) -> Groups {
        let (mut groups, mut at) = (Groups::new(), FxHashMap::default());
        for node in graph.nodes(block) {
            if self.db.has_side_effects(node) {
                at.clear();
            }
            if !is_product(graph, node) {
                continue;
            }
            let [left, right] = [0, 1].map(|i| graph.input(node, i));
            if left == right || !is_quiet(graph, &self.db, node) {
                continue;
            }
            for (side, factor) in [left, right].into_iter().enumerate() {
                let i = *at.entry(factor).or_insert(groups.len());
                if i == groups.len() {
                    groups.push([Vec::new(), Vec::new()]);
                }
                groups[i][side].push(node);
            }
        }
        groups
    }

    /// The products, of a list in printed order, that can be computed at the position of the first.
    fn independent(&mut self, graph: &Graph, products: &[Node], side: usize) -> Batch {
        let first = products[0];
        let mut found = Batch { products: vec![first], needed: Vec::new() };
        // Nodes after the first product, and whether they may move before it. The products
        // themselves may not.
        let mut known: FxHashMap<Node, bool> = products.iter().map(|&node| (node, false)).collect();
        for &product in &products[1..] {
            let other = graph.input(product, 1 - side);
            let mut needed = Vec::new();
            if self.may_precede(graph, other, first, &mut known, &mut needed) {
                found.products.push(product);
                found.needed.extend(needed);
            }
        }
        found
    }

    /// Whether everything that `value` is computed from may stand before `first`; nodes that do not
    /// stand there yet are added to `needed`.
    fn may_precede(
        &mut self,
        graph: &Graph,
        value: Value,
        first: Node,
        known: &mut FxHashMap<Node, bool>,
        needed: &mut Vec<Node>,
    ) -> bool {
        let mut work = vec![value];
        let mut may = true;
        while let Some(value) = work.pop().filter(|_| may) {
            let same_block = |node: &Node| graph.block_of(*node) == graph.block_of(first);
            let Some(node) = graph.definer(value).filter(same_block) else { continue };
            if graph.is_param(value) || graph.is_before(node, first) {
                continue;
            }
            may = match known.get(&node) {
                Some(&may) => may,
                None if self.patience == 0 => false,
                None => {
                    self.patience -= 1;
                    work.extend(graph.inputs(node));
                    needed.push(node);
                    known.insert(node, true);
                    self.may_move(graph, node)
                }
            };
        }
        if !may {
            // The last node is the one that cannot move; nothing is known of the others.
            let last = needed.pop();
            known.extend(last.map(|node| (node, false)));
            for node in needed.drain(..) {
                known.remove(&node);
            }
        }
        may
    }

    /// Whether a node computes the same result anywhere in the block. The random generator is keyed
    /// by node lineage, so random nodes qualify.
    fn may_move(&self, graph: &Graph, node: Node) -> bool {
        let operator = ops::operator(graph.era, graph.kind(node));
        let operands: Vec<Type> = graph.inputs(node).map(|value| graph.ty(value)).collect();
        let plain = graph.num_blocks(node) == 0 && operator.rule.carries == Carries::Nothing;
        plain
            && operator.rule.effect == Effect::None
            && !operator.may_write(operator.resolve(&operands).schema())
            && !self.db.node_has_writers(graph, node)
    }
}

fn batch(graph: &mut Graph, side: usize, found: &Batch) {
    let first = found.products[0];
    // The factor may itself be a product that was batched since; the operand of the first product
    // is up to date.
    let factor = graph.input(first, side);
    graph_update!("Batching {} products with %{}", found.products.len(), graph.name(factor));
    let mut needed = found.needed.clone();
    needed.sort_by(|&a, &b| graph.is_before(b, a).cmp(&graph.is_before(a, b)));
    for node in needed {
        graph.move_before(node, first);
    }
    let others = found.products.iter().map(|&node| graph.input(node, 1 - side));
    let operands: Vec<Value> = [factor].into_iter().chain(others).collect();
    let batched = graph.create(prim::MM_BATCH_SIDE);
    graph.set_inputs(batched, operands.into_iter());
    graph.set_attribute(batched, Symbol::new("side"), Attribute::Int(side as i64));
    graph.insert_before(first, batched);
    for &product in &found.products {
        let old = graph.output(product, 0);
        let new = graph.add_output(batched, graph.ty(old));
        graph.replace_all_uses(old, new);
        graph.erase(product);
    }
}
