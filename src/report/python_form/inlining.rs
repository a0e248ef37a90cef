//! Determines the nodes of a graph that have no line of their own in its code: constants, and
//! values with a single use, in the next node that has a line.
//!
//! A node may be inlined in the expression of its user when evaluating the expression from left to
//! right, operands before operators, visits the nodes in the order of the graph. So operands are
//! visited from the last to the first while the nodes before the user are visited backwards, and as
//! long as the two agree the node is inlined.

use crate::entity::EntitySet;
use crate::ir::{Block, Graph, Node, Value};
use crate::symbol::prim;

/// The nodes of a graph that are inlined; its sections are graphs of their own.
pub(super) fn inlined(graph: &Graph) -> EntitySet<Node> {
    let mut scan = Scan { graph, inlined: EntitySet::new(), point: None };
    for block in graph.all_blocks() {
        scan.tree(graph.return_node(block));
        let mut next = graph.last(block);
        while let Some(node) = next {
            if !scan.inlined.contains(node) {
                scan.tree(node);
            }
            next = graph.prev(node);
        }
    }
    scan.inlined
}

struct Scan<'g> {
    graph: &'g Graph,
    inlined: EntitySet<Node>,
    /// The node that the next operand must be, to be inlined.
    point: Option<Node>,
}

impl Scan<'_> {
    /// Inlines as many nodes as possible into the expression of a node. Expressions may be deep:
    /// pending operands are kept in a list.
    fn tree(&mut self, root: Node) {
        self.point = self.before(root);
        let mut open = vec![(root, self.graph.num_inputs(root))];
        while let Some((node, left)) = open.last_mut() {
            let Some(i) = left.checked_sub(1) else {
                // All its operands were visited.
                let node = *node;
                open.pop();
                if !open.is_empty() {
                    self.inlined.insert(node);
                }
                continue;
            };
            *left = i;
            let value = self.graph.input(*node, i);
            let Some(definer) = self.graph.definer(value) else { continue };
            if self.point == Some(definer) && can_inline(self.graph, value) {
                self.point = self.before(definer);
                open.push((definer, self.graph.num_inputs(definer)));
            } else if self.graph.kind(definer) == prim::CONSTANT {
                self.inlined.insert(definer);
            }
        }
    }

    /// The node before this one, constants skipped. The params of a block come before its first
    /// node: PyTorch inlines a single nameless param like any other value, which only shows when a
    /// line becomes too long.
    fn before(&self, node: Node) -> Option<Node> {
        let graph = self.graph;
        let block = graph.block_of(node)?;
        let step = |node: Node| {
            let is_param = node == graph.param_node(block);
            let last = if node == graph.return_node(block) { graph.last(block) } else { graph.prev(node) };
            if is_param { None } else { Some(last.unwrap_or(graph.param_node(block))) }
        };
        std::iter::successors(step(node), |&node| step(node)).find(|&node| graph.kind(node) != prim::CONSTANT)
    }
}

/// Kinds that may use an operand more than once, or later.
const KEEPING: &[&str] = &["prim::fork", "prim::awaitable", "prim::rpc_async", "prim::rpc_sync", "prim::rpc_remote"];

/// Whether a value may be an expression inside that of its user, independent of its position.
fn can_inline(graph: &Graph, value: Value) -> bool {
    let (Some(node), Some(single)) = (graph.definer(value), graph.single_use(value)) else { return false };
    let user = graph.user(single);
    // A named value was a variable of the program; at the end of a block it is inlined all the
    // same.
    let is_variable = graph.is_named(value) && graph.kind(user) != prim::RETURN;
    // The state of a loop is assigned before its condition is computed.
    let is_state = graph.kind(user) == prim::LOOP && graph.operand_index(single) >= 2;
    graph.num_outputs(node) == 1
        && graph.num_blocks(node) == 0
        && !is_variable
        && !is_state
        && !KEEPING.contains(&graph.kind(user).as_str())
        // In the condition of an `if`, reading it again would refine types a second time.
        && graph.kind(node) != prim::IS_INSTANCE
}

/// The constants that a graph uses, in the order of their first use.
pub(super) fn constants(graph: &Graph) -> Vec<Node> {
    let (mut found, mut seen) = (Vec::new(), EntitySet::new());
    let mut open: Vec<(Option<Node>, Block)> = vec![(graph.first(graph.root()), graph.root())];
    while let Some((next, block)) = open.pop() {
        let node = next.unwrap_or(graph.return_node(block));
        for definer in graph.inputs(node).filter_map(|value| graph.definer(value)) {
            if graph.kind(definer) == prim::CONSTANT && seen.insert(definer) {
                found.push(definer);
            }
        }
        if let Some(node) = next {
            open.push((graph.next(node), block));
            let inner: Vec<Block> = graph.node_blocks(node).collect();
            open.extend(inner.into_iter().rev().map(|block| (graph.first(block), block)));
        }
    }
    found
}
