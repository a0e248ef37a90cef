//! Constant propagation: evaluates what depends on constants alone.
//!
//! ```text
//! %2 : int = prim::Constant[value=2]()
//! %3 : int = aten::add(%2, %2)                        %y : Tensor = aten::neg(%x)
//! %c : bool = aten::gt(%3, %2)                        return (%y)
//! %r : Tensor = prim::If(%c)                    =>
//!   block0():
//!     %y : Tensor = aten::neg(%x)
//!     -> (%y)
//!   block1():
//!     -> (%x)
//! return (%r)
//! ```
//!
//! - A node whose operands are constants is run by the interpreter, and its results become
//!   constants. Where that raises an exception, the node stays and raises it when the graph runs.
//!   Effects, random operators and values that are written to stay as well.
//! - An If whose condition is known is replaced by the block that it takes. An If that stays loses
//!   the results that are equal in both blocks.
//! - A Loop that does not run is replaced by its initial values. A Loop that stays loses the state
//!   that it never changes.
//!
//! **Constants are shared.** A constant holds one object in every iteration and every call, so a
//! tensor or a list that a caller may see, and then write to, does not become a constant. PyTorch
//! makes it one anyway: `torch.zeros([2])` returned from a function is the same memory each time.
//! `escaping` imitates that.
//!
//! **Constants are text.** A value becomes a constant only when its literal is exact, bit for bit.
//! PyTorch keeps any tensor in memory and prints `<Tensor>`; this pass leaves the node and
//! continues with the value, so that its readers become constants where they can. A tensor that was
//! printed with rounded elements is not evaluated.
//!
//! `immutable-only` skips every value that can share memory, and needs no alias analysis. Ends with
//! `dce` when it changed something (with 1.3's rules always), as in PyTorch. One run suffices:
//! operands are known before their readers are visited.
//!
//! One traversal, linear in nodes. An intermediate tensor has at most 65,536 elements, all of them
//! together 2^26.

use crate::common_subexpression_elimination::{is_deterministic, same};
use crate::dead_code_elimination::{self, fits};
use jitopt_core::analysis::AliasDb;
use jitopt_core::interpreter::exact_literals::{self, Literal, LiteralError};
use jitopt_core::interpreter::{Environment, IValue, literal_values, machine};
use jitopt_core::ir::{Attribute, Block, Graph, Node, Value};
use jitopt_core::ops;
use jitopt_core::ops::rules::Effect;
use jitopt_core::pass::{PassContext, PassError, PassInfo, PassOption};
use jitopt_core::symbol::{attr, prim};
use jitopt_core::tensor::Tensor;
use jitopt_core::tensor::layout::with_most_elements;
use jitopt_core::tensor::promotion::stands_for_number;
use jitopt_core::types::{Type, TypeKind};
use jitopt_core::{graph_dump, graph_update};
use rustc_hash::FxHashMap;
use std::rc::Rc;

/// The registry entry.
pub const PASS: PassInfo = PassInfo {
    name: "constant-propagation",
    aliases: &["cp"],
    summary: "evaluate nodes with constant operands, known branches, and loops that do not run",
    example: "%2 : int = prim::Constant[value=2](), %3 : int = aten::add(%2, %2)  =>  %3 : int = prim::Constant[value=4]()",
    options: &[
        PassOption {
            name: "immutable-only",
            default: "false",
            summary: "skip values that can share memory: tensors, lists, dicts",
        },
        PassOption {
            name: "escaping",
            default: "false",
            summary: "as PyTorch, also make one shared constant of a value that callers may write to",
        },
    ],
    required: false,
    reads_shapes: true,
    run,
    file: file!(),
};

fn run(graph: &mut Graph, cx: &mut PassContext<'_>) -> Result<(), PassError> {
    let (immutable_only, escaping) = (cx.flag("immutable-only")?, cx.flag("escaping")?);
    graph_dump!("Before constant propagation", graph);
    propagate(graph, cx, Memory { immutable_only, escaping });
    graph_dump!("After constant propagation", graph);
    Ok(())
}

/// The treatment of values that can share memory.
#[derive(Clone, Copy, Default)]
pub(crate) struct Memory {
    /// They are skipped.
    pub(crate) immutable_only: bool,
    /// They become constants although callers may write to them.
    pub(crate) escaping: bool,
}

/// Runs constant propagation; `decompose-ops` ends with it.
pub(crate) fn propagate(graph: &mut Graph, cx: &mut PassContext<'_>, memory: Memory) {
    let db = (!memory.immutable_only).then(|| cx.alias(graph));
    let env = Environment::default();
    let mut folder = Folder { db, memory, env, known: FxHashMap::default(), spent: 0, changed: false };
    folder.walk(graph, cx);
    if let Some(text) = folder.env.ambiguity.take().filter(|_| folder.changed) {
        cx.advise(text);
    }
    if folder.changed || graph.release().always_cleans_up() {
        dead_code_elimination::eliminate(graph, cx, true);
    }
}

/// The limits on elements: of one tensor that is computed here, and of all of them together.
const MOST_ELEMENTS: i64 = 1 << 16;
const MOST_WORK: usize = 1 << 26;

/// Pending work, last first.
enum Step {
    /// The remaining nodes of a block. With an anchor they belong to a branch that is taken, and
    /// move before the anchor.
    Walk { cursor: Option<Node>, anchor: Option<Node> },
    /// The taken block of an If is empty now; without an anchor around it the If is erased.
    Taken { node: Node, block: Block, anchor: Option<Node> },
    /// The blocks of an If have been visited.
    Results(Node),
    /// The body of a Loop has been visited.
    State(Node),
}

struct Folder {
    /// None when only immutable values are evaluated.
    db: Option<Rc<AliasDb>>,
    memory: Memory,
    env: Environment,
    /// Constants that were read, and values that were computed, whether or not a constant could be
    /// made of them.
    known: FxHashMap<Value, Option<IValue>>,
    /// The number of elements computed so far.
    spent: usize,
    changed: bool,
}

impl Folder {
    /// Visits nodes in printed order, without recursion.
    fn walk(&mut self, graph: &mut Graph, cx: &mut PassContext<'_>) {
        let mut steps = vec![Step::Walk { cursor: graph.first(graph.root()), anchor: None }];
        while let Some(step) = steps.pop() {
            match step {
                Step::Walk { cursor: None, .. } => {}
                Step::Walk { cursor: Some(node), anchor } => {
                    steps.push(Step::Walk { cursor: graph.next(node), anchor });
                    self.visit(graph, cx, node, anchor, &mut steps);
                }
                Step::Taken { node, block, anchor } => leave_branch(graph, node, block, anchor),
                Step::Results(node) => self.drop_equal_results(graph, cx, node),
                Step::State(node) => self.drop_unchanged_state(graph, cx, node),
            }
        }
    }

    fn visit(
        &mut self,
        graph: &mut Graph,
        cx: &mut PassContext<'_>,
        node: Node,
        anchor: Option<Node>,
        steps: &mut Vec<Step>,
    ) {
        let kind = graph.kind(node);
        let blocks = if kind == prim::IF { 2 } else { 1 };
        let shaped = matches!(kind, prim::IF | prim::LOOP) && graph.num_blocks(node) == blocks && fits(graph, node);
        if shaped && kind == prim::IF && self.take_branch(graph, cx, node, anchor, steps) {
            return;
        }
        if let Some(anchor) = anchor {
            graph.move_before(node, anchor);
        }
        match kind {
            prim::IF if shaped => steps.push(Step::Results(node)),
            prim::LOOP if shaped && self.never_runs(graph, node) => return self.remove_loop(graph, cx, node),
            prim::LOOP if shaped => steps.push(Step::State(node)),
            _ if graph.num_blocks(node) == 0 => return self.evaluate(graph, cx, node),
            _ => {}
        }
        let blocks = graph.node_blocks(node).rev();
        steps.extend(blocks.map(|block| Step::Walk { cursor: graph.first(block), anchor: None }));
    }

    // ---- structure

    /// Begins to empty the block that an If takes; its nodes are visited as they move before it.
    /// Returns true when the condition is known.
    fn take_branch(
        &mut self,
        graph: &Graph,
        cx: &mut PassContext<'_>,
        node: Node,
        anchor: Option<Node>,
        steps: &mut Vec<Step>,
    ) -> bool {
        let condition = self.known(graph, graph.input(node, 0)).and_then(|value| value.scalar());
        let Some(condition) = condition.filter(|_| cx.may("branches-taken")) else { return false };
        graph_update!("Taking a branch of the If on %{}", graph.name(graph.input(node, 0)));
        cx.did(graph, "branches-taken", node);
        self.changed = true;
        let taken = usize::from(!condition.truth());
        let block = graph.node_block(node, taken);
        steps.push(Step::Taken { node, block, anchor });
        steps.push(Step::Walk { cursor: graph.first(block), anchor: anchor.or(Some(node)) });
        true
    }

    fn never_runs(&mut self, graph: &Graph, node: Node) -> bool {
        let trips = self.known(graph, graph.input(node, 0));
        let starts = self.known(graph, graph.input(node, 1)).and_then(|value| value.scalar());
        let none = matches!(trips, Some(IValue::Int(n)) if n <= 0);
        none || starts.is_some_and(|scalar| !scalar.truth())
    }

    fn remove_loop(&mut self, graph: &mut Graph, cx: &mut PassContext<'_>, node: Node) {
        let removed = cx.rewrite(graph, "loops-removed", node, |graph| {
            for i in 0..graph.num_outputs(node) {
                let start = graph.input(node, i + 2);
                graph.replace_all_uses(graph.output(node, i), start);
            }
            graph.erase(node);
        });
        self.changed |= removed.is_some();
    }

    /// Drops results that are equal in both blocks, or equal constants.
    fn drop_equal_results(&mut self, graph: &mut Graph, cx: &mut PassContext<'_>, node: Node) {
        let blocks = [graph.node_block(node, 0), graph.node_block(node, 1)];
        for i in (0..graph.num_outputs(node)).rev() {
            let [a, b] = blocks.map(|block| graph.input(graph.return_node(block), i));
            let output = graph.output(node, i);
            let equal = a == b;
            if !equal && !self.is_equal_constant(graph, [a, b], output) {
                continue;
            }
            let dropped = cx.rewrite(graph, "branch-results-removed", node, |graph| {
                let value = if equal { a } else { copy_constant(graph, a, node) };
                graph.replace_all_uses(output, value);
                graph.remove_output(node, i);
                for block in blocks {
                    graph.remove_input(graph.return_node(block), i);
                }
            });
            self.changed |= dropped.is_some();
        }
    }

    fn is_equal_constant(&self, graph: &Graph, values: [Value; 2], output: Value) -> bool {
        let [Some(a), Some(b)] = values.map(|value| graph.definer(value)) else { return false };
        graph.kind(a) == prim::CONSTANT
            && same(graph, a, b)
            && self.may_be_shared(graph, output)
            && self.db.as_ref().is_none_or(|db| !db.has_writers(output))
    }

    /// Drops loop state that every iteration passes on unchanged.
    fn drop_unchanged_state(&mut self, graph: &mut Graph, cx: &mut PassContext<'_>, node: Node) {
        let body = graph.node_block(node, 0);
        let (param_node, return_node) = (graph.param_node(body), graph.return_node(body));
        for i in (0..graph.num_outputs(node)).rev() {
            let param = graph.output(param_node, i + 1);
            if graph.input(return_node, i + 1) != param {
                continue;
            }
            let dropped = cx.rewrite(graph, "loop-state-removed", node, |graph| {
                let start = graph.input(node, i + 2);
                graph.replace_all_uses(graph.output(node, i), start);
                graph.replace_all_uses(param, start);
                graph.remove_output(node, i);
                graph.remove_input(node, i + 2);
                graph.remove_input(return_node, i + 1);
                graph.remove_output(param_node, i + 1);
            });
            self.changed |= dropped.is_some();
        }
    }

    // ---- values

    /// The value, when it is known exactly.
    fn known(&mut self, graph: &Graph, value: Value) -> Option<IValue> {
        if let Some(known) = self.known.get(&value) {
            return known.clone();
        }
        let node = graph.definer(value).filter(|&node| graph.kind(node) == prim::CONSTANT)?;
        let is_exact = match graph.attributes(node) {
            [] => true,
            [(attr::VALUE, literal)] => is_exact(literal, graph.ty(value)),
            _ => false,
        };
        let found = is_exact.then(|| literal_values::constant(graph, &self.env, node).ok()).flatten();
        self.known.insert(value, found.clone());
        found
    }

    /// Evaluates a node on constants.
    fn evaluate(&mut self, graph: &mut Graph, cx: &mut PassContext<'_>, node: Node) {
        let operands: Option<Vec<IValue>> =
            (0..graph.num_inputs(node)).map(|i| self.known(graph, graph.input(node, i))).collect();
        let Some(operands) = operands.filter(|_| self.may_evaluate(graph, node)) else { return };
        if may_be_large(graph, node, &operands) || !self.spend(&operands) {
            return;
        }
        let run = || machine::run_node(graph, node, &operands, &self.env);
        let Ok(results) = with_most_elements(MOST_ELEMENTS, run) else { return };
        if results.len() != graph.num_outputs(node) || !self.spend(&results) {
            return;
        }
        let mut literals: Vec<(usize, Literal)> = Vec::new();
        for (i, value) in results.iter().enumerate() {
            let output = graph.output(node, i);
            let literal = exact_literals::of(value, graph.ty(output), graph.release());
            if !matches!(literal, Err(LiteralError::Kind)) {
                self.known.insert(output, Some(value.clone()));
            }
            match literal {
                Ok(_) if reads_as_number(value) && takes_part(graph, output) => {
                    cx.missed(graph, "nodes-evaluated", node, || "its text reads as a traced scalar".to_owned());
                }
                Ok(literal) if self.may_be_shared(graph, output) => literals.push((i, literal)),
                Ok(_) => cx.missed(graph, "nodes-evaluated", node, || {
                    "it would be one object in every call, and a caller may write to it".to_owned()
                }),
                Err(_) => cx.missed(graph, "nodes-evaluated", node, || "no literal is exact for its value".to_owned()),
            }
        }
        if graph.outputs(node).any(|output| graph.has_uses(output)) && !literals.is_empty() {
            self.replace(graph, cx, node, literals);
        }
    }

    fn replace(&mut self, graph: &mut Graph, cx: &mut PassContext<'_>, node: Node, literals: Vec<(usize, Literal)>) {
        let made = cx.rewrite(graph, "nodes-evaluated", node, |graph| {
            let one = |(i, literal): (usize, Literal)| (graph.output(node, i), make_constant(graph, literal, node));
            let made: Vec<(Value, Value)> = literals.into_iter().map(one).collect();
            for &(old, new) in &made {
                graph_update!("%{} is the constant %{}", graph.name(old), graph.name(new));
                graph.replace_all_uses(old, new);
            }
            made
        });
        for (old, new) in made.into_iter().flatten() {
            let value = self.known.get(&old).cloned().flatten();
            self.known.insert(new, value);
            self.changed = true;
        }
    }

    fn may_evaluate(&self, graph: &Graph, node: Node) -> bool {
        let operator = ops::operator(graph.era, graph.kind(node));
        operator.rule.effect == Effect::None
            && operator.is_folded()
            && graph.num_outputs(node) > 0
            && graph.subgraph(node).is_none()
            && is_deterministic(graph, node, operator)
            && match &self.db {
                None => graph.inputs(node).chain(graph.outputs(node)).all(|value| !graph.ty(value).is_mutable()),
                Some(db) => !db.node_has_writers(graph, node),
            }
    }

    /// Whether all calls may share one object for this value.
    fn may_be_shared(&self, graph: &Graph, output: Value) -> bool {
        let private = || self.db.as_ref().is_none_or(|db| !db.escapes_scope(output));
        !graph.ty(output).is_mutable() || self.memory.escaping || private()
    }

    /// Counts elements; returns false when the limit is reached.
    fn spend(&mut self, values: &[IValue]) -> bool {
        for value in values {
            self.spent += match value {
                IValue::Tensor(tensor) => tensor.numel(),
                IValue::Str(text) => text.len(),
                _ => 0,
            };
        }
        self.spent < MOST_WORK
    }
}

/// Ends the visit of a taken block: its results replace the outputs of the If.
fn leave_branch(graph: &mut Graph, node: Node, block: Block, anchor: Option<Node>) {
    for i in 0..graph.num_outputs(node) {
        let result = graph.input(graph.return_node(block), i);
        graph.replace_all_uses(graph.output(node, i), result);
    }
    // Inside another taken branch it is erased with that one.
    if anchor.is_none() {
        graph.erase(node);
    }
}

/// Whether the text of a tensor computed here reads as a traced scalar.
fn reads_as_number(value: &IValue) -> bool {
    let reads = |tensor: &Tensor| !tensor.is_number() && tensor.rank() == 0 && stands_for_number(tensor.dtype());
    value.tensor().is_some_and(reads)
}

/// Whether the element type of a tensor may influence other element types: it does not where it is
/// returned, or converted to a scalar.
fn takes_part(graph: &Graph, value: Value) -> bool {
    let is_returned = |user: Node| user == graph.return_node(graph.root());
    let makes_no_tensor = |user: Node| {
        let is_plain = graph.num_blocks(user) == 0 && !graph.kind(user).as_str().starts_with("prim::");
        is_plain && graph.num_outputs(user) > 0 && graph.outputs(user).all(|output| !graph.ty(output).is_tensor())
    };
    let is_harmless = |user: Node| {
        let is_packed = graph.kind(user) == prim::TUPLE_CONSTRUCT;
        is_returned(user)
            || makes_no_tensor(user)
            || (is_packed && graph.outputs(user).all(|tuple| graph.users(tuple).all(is_returned)))
    };
    !graph.users(value).all(is_harmless)
}

/// Whether a literal is exact. The printed text of a floating point tensor is rounded.
fn is_exact(literal: &Attribute, ty: Type) -> bool {
    match literal {
        Attribute::Opaque(_) | Attribute::Graph(_) | Attribute::Type(_) | Attribute::Enum(_) => false,
        Attribute::Tensor(text) => {
            let dtype = ty.as_tensor().and_then(|tensor| tensor.dtype);
            exact_literals::prints_all_elements(text, dtype)
        }
        Attribute::Int(_) | Attribute::Float(_) if ty.is_tensor() => false,
        Attribute::Str(text) | Attribute::Device(text) => std::str::from_utf8(text).is_ok(),
        Attribute::List(parts) | Attribute::Tuple(parts) => {
            let any = Type::simple(jitopt_core::types::Simple::Any);
            let element = if let TypeKind::List(element) = ty.kind() { *element } else { any };
            parts.iter().all(|part| is_exact(part, element))
        }
        Attribute::Dict(pairs) => pairs.iter().all(|(k, v)| {
            let any = Type::simple(jitopt_core::types::Simple::Any);
            is_exact(k, any) && is_exact(v, any)
        }),
        _ => true,
    }
}

/// Whether a list or a string may be repeated many times.
fn may_be_large(graph: &Graph, node: Node, operands: &[IValue]) -> bool {
    // These hold their operands, of any size.
    if matches!(graph.kind(node), prim::LIST_CONSTRUCT | prim::TUPLE_CONSTRUCT | prim::DICT_CONSTRUCT) {
        return false;
    }
    let large = |value: &IValue| matches!(value, IValue::Int(n) if n.unsigned_abs() > MOST_ELEMENTS as u64);
    let held = |value: &IValue| matches!(value, IValue::List(_) | IValue::Str(_) | IValue::Tuple(_));
    let plain = |output: Value| !graph.ty(output).is_mutable() && !operands.iter().any(held);
    operands.iter().any(large) && !graph.outputs(node).all(|output| plain(output) || graph.ty(output).is_tensor())
}

fn make_constant(graph: &mut Graph, (attribute, ty): Literal, before: Node) -> Value {
    let constant = graph.create_op(prim::CONSTANT, &[], ty);
    if let Some(attribute) = attribute {
        graph.set_attribute(constant, attr::VALUE, attribute);
    }
    graph.insert_before(before, constant);
    graph.output(constant, 0)
}

fn copy_constant(graph: &mut Graph, value: Value, before: Node) -> Value {
    let attribute = graph.constant(value).flatten().cloned();
    make_constant(graph, (attribute, graph.ty(value)), before)
}
