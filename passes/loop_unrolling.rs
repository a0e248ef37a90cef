//! Unrolls short loops, so that later passes see across iterations.
//!
//! ```text
//!                                               %8 : int = prim::Constant[value=8]()
//!                                               %q : int = aten::__round_to_zero_floordiv(%n, %8)
//! %y : Tensor = prim::Loop(%n, %true, %x)       %r : int = aten::sub(%n, aten::mul(%q, %8))
//!   block0(%i : int, %p : Tensor):        =>    %a : Tensor = prim::Loop(%q, %true, %x)
//!     %1 : Tensor = aten::neg(%p)                 block0(%i : int, %p : Tensor):
//!     -> (%true, %1)                                (the body, eight times)
//!                                               %y : Tensor = prim::Loop(%r, %true, %a)
//!                                                 (the body as it was)
//! ```
//!
//! Only counted loops: the condition is the constant true at the start and at the end of the body.
//! A body of at most 31 nodes (32 in 1.3), nested ones counted and constants not; each nested block
//! counts as a node since 2. A constant number of trips below 64 leaves no loop at all; below one,
//! nothing at all, which PyTorch 2.15 takes for a very large number. Where the body reads the
//! counter, a carried value replaces it: both loops share it. Inner loops first; their unrolled
//! size counts for the outer ones.
//!
//! Any number of trips is correct: the quotient rounds to zero, so a negative one gives two loops
//! that do not run, and no product is greater than the number. Not idempotent: eight short bodies
//! may be one short body again. Ends with `dce`, as in PyTorch.
//!
//! Linear in the created nodes. A graph grows to at most ten times its nodes plus 100,000; after
//! that loops stay.

use crate::dead_code_elimination::{self, fits};
use jitopt_core::ir::{Attribute, Block, Graph, Iteration, LoopIterations, Node, Value, ValueMap};
use jitopt_core::pass::{PassContext, PassError, PassInfo, PassOption};
use jitopt_core::symbol::{Symbol, attr, prim};
use jitopt_core::types::Type;
use jitopt_core::types::era::Era;
use jitopt_core::{graph_dump, graph_update};

/// The registry entry.
pub const PASS: PassInfo = PassInfo {
    name: "loop-unrolling",
    aliases: &["unroll-loops"],
    summary: "unroll short loops that count",
    example: "%y : Tensor = prim::Loop(%n, %true, %x)  =>  a loop of n / 8 trips and eight bodies, and one for the rest",
    options: &[PassOption {
        name: "factor",
        default: "8",
        summary: "how many bodies one iteration of the unrolled loop has",
    }],
    required: false,
    reads_shapes: false,
    run,
    file: file!(),
};

fn run(graph: &mut Graph, cx: &mut PassContext<'_>) -> Result<(), PassError> {
    let factor: usize = cx.option("factor")?;
    if !(2..=64).contains(&factor) {
        return Err(PassError::misuse(format!("the factor {factor} is out of range: it must be 2 to 64")));
    }
    graph_dump!("Before loop unrolling", graph);
    unroll(graph, cx, Which::Short, factor);
    graph_dump!("After loop unrolling", graph);
    Ok(())
}

/// The loops that are unrolled.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Which {
    /// Loops with a short body.
    Short,
    /// Loops with a constant number of trips, whatever their body.
    Constant,
}

/// The maximum number of executed nodes in a short body (PyTorch's figure).
const MOST_EXECUTED: usize = 32;
/// The number of trips from which on a loop remains.
const MANY_TRIPS: i64 = 64;

/// The size of a block, nested blocks included.
#[derive(Clone, Copy, Default)]
struct Size {
    /// Nodes that are executed when the graph runs.
    executed: usize,
    /// All nodes and blocks.
    all: usize,
}

impl Size {
    fn add(&mut self, other: Size, times: usize) {
        self.executed += other.executed * times;
        self.all += other.all * times;
    }
}

/// A block that is being visited.
struct Frame {
    cursor: Option<Node>,
    /// The blocks of the cursor that are still to be visited.
    nested: usize,
    size: Size,
    /// The size of its blocks that were visited.
    inside: Size,
}

impl Frame {
    fn of(graph: &Graph, block: Block) -> Frame {
        Frame { cursor: graph.first(block), nested: 0, size: Size::default(), inside: Size::default() }
    }
}

/// Unrolls all selected loops, inner ones first, without recursion.
pub(crate) fn unroll(graph: &mut Graph, cx: &mut PassContext<'_>, which: Which, factor: usize) {
    let mut budget = Budget(9 * graph.num_shown_nodes() + 100_000);
    let before = graph.epoch();
    let mut frames = vec![Frame::of(graph, graph.root())];
    while let Some(top) = frames.last_mut() {
        let Some(node) = top.cursor else {
            leave(graph, &mut frames);
            continue;
        };
        if top.nested < graph.num_blocks(node) {
            let block = graph.node_block(node, top.nested);
            top.nested += 1;
            let inner = Frame::of(graph, block);
            frames.push(inner);
            continue;
        }
        let inside = std::mem::take(&mut top.inside);
        (top.cursor, top.nested) = (graph.next(node), 0);
        let size = visit(graph, cx, node, inside, which, factor, &mut budget);
        top.size.add(size, 1);
    }
    if graph.epoch().computation != before.computation || graph.release().always_cleans_up() {
        dead_code_elimination::eliminate(graph, cx, true);
    }
}

/// Since 2 PyTorch counts one more for each nested block.
fn leave(graph: &Graph, frames: &mut Vec<Frame>) {
    let frame = frames.pop().expect("the frame on top of the stack");
    if let Some(outer) = frames.last_mut() {
        outer.inside.add(frame.size, 1);
        outer.inside.add(Size { executed: usize::from(graph.era != Era::V1_3), all: 1 }, 1);
    }
}

/// The number of nodes that may still be created.
struct Budget(usize);

impl Budget {
    fn take(&mut self, nodes: Option<usize>) -> bool {
        let left = nodes.and_then(|nodes| self.0.checked_sub(nodes));
        self.0 = left.unwrap_or(self.0);
        left.is_some()
    }
}

/// Visits a node whose blocks have size `inside`; returns the size of its replacement.
fn visit(
    graph: &mut Graph,
    cx: &mut PassContext<'_>,
    node: Node,
    inside: Size,
    which: Which,
    factor: usize,
    budget: &mut Budget,
) -> Size {
    let mut size = inside;
    size.add(Size { executed: usize::from(is_executed(graph, node)), all: 1 }, 1);
    if graph.kind(node) != prim::LOOP || !fits(graph, node) || !counts(graph, node) {
        return size;
    }
    let trips = graph.constant_int(graph.input(node, 0));
    let wanted = match which {
        Which::Short => inside.executed <= MOST_EXECUTED,
        Which::Constant => trips.is_some(),
    };
    let few = trips.filter(|&n| n < MANY_TRIPS).map(|n| n.max(0) as usize);
    let (rule, made) = match few {
        Some(n) => ("loops-unrolled-fully", inside.all.checked_mul(n)),
        None => ("loops-unrolled", inside.all.checked_mul(factor)),
    };
    if !wanted {
        return size;
    }
    if !budget.take(made) {
        cx.missed(graph, rule, node, || "the graph has reached its growth limit".to_owned());
        return size;
    }
    let unrolled = cx.rewrite(graph, rule, node, |graph| {
        graph_update!("Unrolling a loop of {} nodes", inside.all);
        share_constants(graph, node);
        let counted = carry_counter(graph, node);
        match few {
            Some(n) => repeat_in_place(graph, node, n),
            None => split(graph, node, factor),
        }
        counted
    });
    let Some(counted) = unrolled else { return size };
    let body = Size { executed: inside.executed + usize::from(counted), all: inside.all + 2 * usize::from(counted) };
    let mut made = Size::default();
    match few {
        Some(n) => made.add(body, n),
        None => {
            made.add(body, factor + 1);
            made.add(Size { executed: 5, all: 7 }, 1);
        }
    }
    made
}

fn is_executed(graph: &Graph, node: Node) -> bool {
    !matches!(graph.kind(node), prim::CONSTANT | prim::PROFILE | prim::PROFILE_IVALUE)
}

/// Whether only the trip count ends a loop.
fn counts(graph: &Graph, node: Node) -> bool {
    let body = graph.node_block(node, 0);
    let is_true = |value: Value| graph.ty(value) == Type::bool() && graph.constant_int(value) == Some(1);
    is_true(graph.input(node, 1)) && is_true(graph.input(graph.return_node(body), 0))
}

/// Moves constants that can share memory out of a loop: each is one object in all iterations, and
/// would be two when it is copied. PyTorch's copies share the tensor; those of a text do not.
pub(crate) fn share_constants(graph: &mut Graph, node: Node) {
    let mut work: Vec<Block> = graph.node_blocks(node).collect();
    let mut shared = Vec::new();
    while let Some(block) = work.pop() {
        for inner in graph.nodes(block) {
            work.extend(graph.node_blocks(inner));
            let is_shared = |value: Value| graph.ty(value).is_mutable();
            if graph.kind(inner) == prim::CONSTANT && graph.outputs(inner).any(is_shared) {
                shared.push(inner);
            }
        }
    }
    for constant in shared {
        graph.move_before(constant, node);
    }
}

/// Makes the counter a carried value where it is read.
fn carry_counter(graph: &mut Graph, node: Node) -> bool {
    let body = graph.node_block(node, 0);
    let (param_node, return_node) = (graph.param_node(body), graph.return_node(body));
    let counter = graph.output(param_node, 0);
    if !graph.has_uses(counter) {
        return false;
    }
    let zero = number(graph, 0, node);
    graph.insert_input(node, 2, zero);
    graph.insert_output(node, 0, Type::int());
    let carried = graph.insert_output(param_node, 1, Type::int());
    graph.replace_all_uses(counter, carried);
    let one = number(graph, 1, return_node);
    let next = operation(graph, "aten::add", &[carried, one], return_node);
    graph.insert_input(return_node, 1, next);
    true
}

/// An integer constant before a node.
pub(crate) fn number(graph: &mut Graph, n: i64, before: Node) -> Value {
    let constant = graph.create_op(prim::CONSTANT, &[], Type::int());
    graph.set_attribute(constant, attr::VALUE, Attribute::Int(n));
    graph.insert_before(before, constant);
    graph.output(constant, 0)
}

/// An integer operation before a node.
pub(crate) fn operation(graph: &mut Graph, kind: &str, operands: &[Value], before: Node) -> Value {
    let node = graph.create_op(Symbol::new(kind), operands, Type::int());
    graph.insert_before(before, node);
    graph.output(node, 0)
}

/// The insertion point for copies of a body.
enum Place {
    Before(Node),
    EndOf(Block),
}

/// Copies nodes of a body once, for this state; returns the results of the copy.
fn copy_body(graph: &mut Graph, body: Block, nodes: &[Node], state: &[Value], place: &Place) -> Vec<Value> {
    let params: Vec<Value> = graph.params(body).skip(1).collect();
    let mut map: ValueMap = params.into_iter().zip(state.iter().copied()).collect();
    for &node in nodes {
        let copy = graph.copy_node(None, node, &mut map);
        match place {
            Place::Before(anchor) => graph.insert_before(*anchor, copy),
            Place::EndOf(block) => graph.append(*block, copy),
        }
    }
    let results: Vec<Value> = graph.results(body).collect();
    results.into_iter().map(|value| map.get(&value).copied().unwrap_or(value)).collect()
}

/// Replaces a loop by a number of bodies.
fn repeat_in_place(graph: &mut Graph, node: Node, trips: usize) {
    let body = graph.node_block(node, 0);
    let nodes: Vec<Node> = graph.nodes(body).collect();
    let mut state: Vec<Value> = graph.inputs(node).skip(2).collect();
    for at in 0..trips {
        copy_for_iteration(graph, node, at);
        state = copy_body(graph, body, &nodes, &state, &Place::Before(node)).split_off(1);
    }
    graph.copy_for_iteration(None);
    if graph.is_part_of_loop(node) {
        start_rest_at(graph, node, trips);
    }
    for (i, value) in state.into_iter().enumerate() {
        graph.replace_all_uses(graph.output(node, i), value);
    }
    graph.erase(node);
}

/// The next copies represent iteration `at` of a loop: random nodes among them draw the numbers of
/// that iteration.
fn copy_for_iteration(graph: &mut Graph, node: Node, at: usize) {
    let LoopIterations { start, stride, continues } = graph.loop_iterations(node);
    let iteration = Iteration { of: graph.draw_root(node), at: start + stride * at as u64, continues };
    graph.copy_for_iteration(Some(iteration));
}

/// The next copies follow the body of a loop as `at` further bodies of the same iteration.
fn copy_in_body(graph: &mut Graph, node: Node, at: usize) {
    let stride = graph.loop_iterations(node).stride;
    let iteration = Iteration { of: graph.draw_root(node), at: stride * at as u64, continues: false };
    graph.copy_for_iteration(Some(iteration));
}

/// Each iteration of `node` represents `factor` iterations now, and `rest` continues where it ends.
fn count_by(graph: &mut Graph, node: Node, rest: Node, factor: usize) {
    let iterations = graph.loop_iterations(node);
    let trips = graph.constant_int(graph.input(node, 0)).map(|trips| trips.max(0) as u64);
    let goes_on = match trips {
        // Its end is known, even when the loop is removed later.
        Some(trips) => LoopIterations {
            start: iterations.start + iterations.stride * (trips - trips % factor as u64),
            ..iterations
        },
        None => LoopIterations { start: 0, continues: true, ..iterations },
    };
    graph.set_loop_iterations(rest, goes_on);
    graph.set_loop_iterations(node, LoopIterations { stride: iterations.stride * factor as u64, ..iterations });
}

/// The loop that continues where `node` ends begins with the iteration after `trips` of it.
fn start_rest_at(graph: &mut Graph, node: Node, trips: usize) {
    let LoopIterations { start, stride, continues } = graph.loop_iterations(node);
    let (root, start) = (graph.draw_root(node), start + stride * trips as u64);
    let mut following = std::iter::successors(graph.next(node), |&other| graph.next(other));
    let is_next = |&other: &Node| graph.kind(other) == prim::LOOP && graph.draw_root(other) == root;
    if let Some(rest) = following.find(is_next).filter(|&rest| graph.loop_iterations(rest).continues) {
        let iterations = graph.loop_iterations(rest);
        graph.set_loop_iterations(rest, LoopIterations { start: iterations.start + start, continues, ..iterations });
    }
}

/// Makes a loop of `factor` bodies and one for the remaining trips.
fn split(graph: &mut Graph, node: Node, factor: usize) {
    let rest = graph.copy_node(None, node, &mut ValueMap::default());
    graph.insert_after(node, rest);
    for i in 0..graph.num_outputs(node) {
        let (outer, inner) = (graph.output(rest, i), graph.output(node, i));
        graph.replace_all_uses(inner, outer);
        graph.set_input(rest, i + 2, inner);
    }
    let body = graph.node_block(node, 0);
    let nodes: Vec<Node> = graph.nodes(body).collect();
    let mut results: Vec<Value> = graph.results(body).collect();
    for at in 1..factor {
        let mut state = results.clone();
        copy_in_body(graph, node, at);
        results = copy_body(graph, body, &nodes, &state.split_off(1), &Place::EndOf(body));
    }
    graph.copy_for_iteration(None);
    count_by(graph, node, rest, factor);
    for (i, result) in results.into_iter().enumerate() {
        graph.set_input(graph.return_node(body), i, result);
    }
    let trips = graph.input(node, 0);
    let by = number(graph, factor as i64, node);
    let division = "aten::__round_to_zero_floordiv";
    let quotient = operation(graph, division, &[trips, by], node);
    let by = number(graph, factor as i64, node);
    let done = operation(graph, "aten::mul", &[quotient, by], node);
    let left = operation(graph, "aten::sub", &[trips, done], node);
    graph.set_input(node, 0, quotient);
    graph.set_input(rest, 0, left);
}
