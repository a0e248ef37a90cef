//! Replaces ints by constants where a condition determines their value.
//!
//! ```text
//! %c : bool = aten::eq(%n, %3)                    %c : bool = aten::eq(%n, %3)
//! %r : int = prim::If(%c)                         %r : int = prim::If(%c)
//!   block0():                                       block0():
//!     %y : int = aten::mul(%n, %k)         =>         %4 : int = prim::Constant[value=3]()
//!     -> (%y)                                         %y : int = aten::mul(%4, %k)
//!   block1():                                         -> (%y)
//!     -> (%n)                                       block1():
//!                                                     -> (%n)
//! ```
//!
//! Facts come from comparisons of an int with a constant, negations, and the lowered form of `and`
//! and `or`: branches that return one condition or a constant. Where one branch raises an
//! exception, the facts at the end of the other hold after them. Each reader gets a constant of its
//! own, as in PyTorch; `constant-pooling` merges them, and `constant-propagation` continues.
//!
//! One traversal in printed order, linear in nodes: the last 16 facts of a condition, and of a
//! branch, are kept. Idempotent.

use jitopt_core::ir::{Attribute, Block, Graph, Node, Value};
use jitopt_core::pass::{PassContext, PassError, PassInfo};
use jitopt_core::symbol::{attr, prim};
use jitopt_core::types::{Simple, Type};
use jitopt_core::{graph_dump, graph_update};
use rustc_hash::{FxHashMap, FxHashSet};

/// The registry entry.
pub const PASS: PassInfo = PassInfo {
    name: "refine-integer-values",
    aliases: &["integer-value-refinement"],
    summary: "replace ints by constants where a condition determines their value",
    example: "in the branch taken when aten::eq(%n, %3): aten::mul(%n, %k)  =>  aten::mul(%4, %k), %4 : int = prim::Constant[value=3]()",
    options: &[],
    required: false,
    reads_shapes: false,
    run,
    file: file!(),
};

fn run(graph: &mut Graph, cx: &mut PassContext<'_>) -> Result<(), PassError> {
    graph_dump!("Before refining ints", graph);
    Walk::default().walk(graph, cx);
    graph_dump!("After refining ints", graph);
    Ok(())
}

/// The known values of some ints.
type Facts = Vec<(Value, i64)>;

/// The maximum number of facts that are kept.
const MOST_FACTS: usize = 16;

fn newest(facts: impl Iterator<Item = (Value, i64)>) -> Facts {
    let mut facts: Facts = facts.collect();
    facts.drain(..facts.len().saturating_sub(MOST_FACTS));
    facts
}

/// Pending work, last first.
enum Step {
    /// The remaining nodes of a block.
    Nodes(Option<Node>),
    /// A block of a node.
    Enter(Node, usize),
    /// The end of the block; the number of facts that were known before it.
    Leave(Node, usize, usize),
    /// Both branches have been visited.
    Join(Node),
}

#[derive(Default)]
struct Walk {
    steps: Vec<Step>,
    /// The facts at the current position.
    known: FxHashMap<Value, i64>,
    /// The facts in the order in which they were added, with the previous value.
    log: Vec<(Value, Option<i64>)>,
    /// The facts that follow from a condition when it is false, and when it is true.
    implied: FxHashMap<Value, [Facts; 2]>,
    /// The facts at the end of branches.
    at_end: FxHashMap<Block, Facts>,
    /// Blocks that are never left at their end.
    raises: FxHashSet<Block>,
}

impl Walk {
    fn walk(mut self, graph: &mut Graph, cx: &mut PassContext<'_>) {
        self.steps.push(Step::Nodes(graph.first(graph.root())));
        while let Some(step) = self.steps.pop() {
            match step {
                Step::Nodes(None) => {}
                Step::Nodes(Some(node)) => {
                    self.steps.push(Step::Nodes(graph.next(node)));
                    self.visit(graph, cx, node);
                }
                Step::Enter(node, i) => self.enter(graph, node, i),
                Step::Leave(node, i, before) => self.leave(graph, cx, node, i, before),
                Step::Join(node) => self.join(graph, node),
            }
        }
        let end = graph.return_node(graph.root());
        self.refine(graph, cx, end);
    }

    fn visit(&mut self, graph: &mut Graph, cx: &mut PassContext<'_>, node: Node) {
        self.refine(graph, cx, node);
        match (graph.kind(node), graph.kind(node).as_str()) {
            (prim::RAISE_EXCEPTION, _) => self.raises.extend(graph.block_of(node)),
            (prim::IF, _) => self.steps.push(Step::Join(node)),
            (_, "aten::eq") => self.compare(graph, node, 1),
            (_, "aten::ne") => self.compare(graph, node, 0),
            (_, "aten::__not__") => {
                if let Some([no, yes]) = self.implied.get(&graph.input(node, 0)).cloned() {
                    self.implied.insert(graph.output(node, 0), [yes, no]);
                }
            }
            _ => {}
        }
        self.steps.extend((0..graph.num_blocks(node)).rev().map(|i| Step::Enter(node, i)));
    }

    /// Replaces known operands by constants.
    fn refine(&mut self, graph: &mut Graph, cx: &mut PassContext<'_>, node: Node) {
        for i in 0..graph.num_inputs(node) {
            let value = graph.input(node, i);
            let Some(&number) = self.known.get(&value) else { continue };
            let anchor = if graph.kind(node) == prim::RETURN { graph.enclosing(node).unwrap_or(node) } else { node };
            cx.rewrite(graph, "ints-refined", anchor, |graph| {
                graph_update!("%{} is {number} here", graph.name(value));
                let constant = graph.create_op(prim::CONSTANT, &[], Type::int());
                graph.set_attribute(constant, attr::VALUE, Attribute::Int(number));
                graph.insert_before(node, constant);
                graph.set_input(node, i, graph.output(constant, 0));
            });
        }
    }

    /// A comparison with a constant yields a fact when its result is `when`.
    fn compare(&mut self, graph: &Graph, node: Node, when: usize) {
        let [a, b] = graph.inputs(node).collect::<Vec<_>>()[..] else { return };
        let whole = |value: Value| graph.ty(value) == Type::int();
        let fact = match (graph.constant_int(a), graph.constant_int(b)) {
            (None, Some(number)) => (a, number),
            (Some(number), None) => (b, number),
            _ => return,
        };
        if whole(a) && whole(b) && graph.ty(graph.output(node, 0)).is(Simple::Bool) {
            let mut implied = [Facts::new(), Facts::new()];
            implied[when].push(fact);
            self.implied.insert(graph.output(node, 0), implied);
        }
    }

    // ---- blocks

    fn learn(&mut self, facts: &[(Value, i64)]) {
        for &(value, number) in facts {
            let before = self.known.insert(value, number);
            self.log.push((value, before));
        }
    }

    /// The facts that follow from the condition of an If in one of its blocks.
    fn implied_in(&self, graph: &Graph, node: Node, block: usize) -> Facts {
        let implied = self.implied.get(&graph.input(node, 0));
        implied.map_or(Facts::new(), |implied| implied[1 - block].clone())
    }

    fn enter(&mut self, graph: &Graph, node: Node, i: usize) {
        let before = self.log.len();
        if graph.kind(node) == prim::IF {
            self.learn(&self.implied_in(graph, node, i));
        }
        self.steps.push(Step::Leave(node, i, before));
        self.steps.push(Step::Nodes(graph.first(graph.node_block(node, i))));
    }

    fn leave(&mut self, graph: &mut Graph, cx: &mut PassContext<'_>, node: Node, i: usize, before: usize) {
        let block = graph.node_block(node, i);
        self.refine(graph, cx, graph.return_node(block));
        let learnt = self.log[before..].iter().map(|(value, _)| (*value, self.known[value]));
        self.at_end.insert(block, newest(learnt));
        while self.log.len() > before {
            let (value, old) = self.log.pop().expect("the log is longer than `known`");
            match old {
                Some(old) => self.known.insert(value, old),
                None => self.known.remove(&value),
            };
        }
    }

    fn join(&mut self, graph: &Graph, node: Node) {
        let blocks = [0, 1].map(|i| graph.node_block(node, i));
        let raises = blocks.map(|block| self.raises.contains(&block));
        let at_end = blocks.map(|block| self.at_end.remove(&block).unwrap_or_default());
        match raises {
            [true, true] => self.raises.extend(graph.block_of(node)),
            [true, false] => self.learn(&at_end[1]),
            [false, true] => self.learn(&at_end[0]),
            [false, false] => {}
        }
        for (i, output) in graph.outputs(node).enumerate().filter(|(_, output)| graph.ty(*output).is(Simple::Bool)) {
            let results = blocks.map(|block| graph.input(graph.return_node(block), i));
            let implied = match raises {
                [true, false] => self.implied.get(&results[1]).cloned(),
                [false, true] => self.implied.get(&results[0]).cloned(),
                _ => Some([0, 1].map(|outcome| self.implied_by_branches(graph, results, &at_end, outcome))),
            };
            self.implied.extend(implied.map(|implied| (output, implied)));
        }
    }

    /// The facts that follow when two branches returned `outcome`: when one of them returns the
    /// opposite constant, the other was taken.
    fn implied_by_branches(&self, graph: &Graph, results: [Value; 2], at_end: &[Facts; 2], outcome: usize) -> Facts {
        let never = |value: Value| graph.constant_int(value).is_some_and(|bool| (bool != 0) != (outcome == 1));
        let taken = match results.map(never) {
            [true, false] => 1,
            [false, true] => 0,
            _ => return Facts::new(),
        };
        let by_result = self.implied.get(&results[taken]).map_or(Facts::new(), |implied| implied[outcome].clone());
        newest(at_end[taken].iter().copied().chain(by_result))
    }
}
