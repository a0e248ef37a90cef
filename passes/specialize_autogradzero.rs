//! Decides which gradients are defined, and simplifies formulas, sums and branches accordingly.
//!
//! ```text
//! %g : Tensor = prim::GradOf[name="aten::neg"](%0)
//!   block0():                                                %n : Tensor = aten::neg(%0)
//!     %n : Tensor = aten::neg(%0)                            %1 : int = prim::Constant[value=1]()
//!     -> (%n)                                           =>   %s : Tensor = aten::add(%g1, %n, %1)
//! %s : Tensor = prim::AutogradAdd(%g1, %g)
//! ```
//!
//! One traversal determines of each value at the top level of the graph whether it is a defined
//! gradient, an undefined one (`Tensor[Undefined]`, `prim::AutogradZero`), or possibly either:
//!
//! - A formula, or the branch on `prim::AutogradAnyNonZero` that `lower-gradof` makes of it, is
//!   inlined when one of its gradients is defined, and its results are zero when none is.
//! - From 1.5 on `aten::_grad_sum_to_size` with None is its operand; in earlier versions,
//!   `peephole` does that.
//! - A sum with an undefined gradient is the other gradient; a sum of two defined ones is
//!   `aten::add`.
//!
//! Undecided nodes stay. Up to 1.4 PyTorch ran this on graphs whose params had the types of one
//! call: an undefined param is printed so, and any other is defined; except in `backward(…)`, where
//! gradients of captured values are undefined. From 1.5 on a plain `Tensor` may be either; one with
//! an element type is defined. The result of an operator on defined operands is defined; with other
//! operands too, unless it may be the operand itself, as the result of `aten::_grad_sum_to_size`.
//! Linear in nodes; idempotent.

use jitopt_core::ir::{Attribute, Block, Graph, Node, Value};
use jitopt_core::ops;
use jitopt_core::ops::rules::AliasRule;
use jitopt_core::ops::schema::Formal;
use jitopt_core::pass::{PassContext, PassError, PassInfo};
use jitopt_core::symbol::{Symbol, aten, attr, prim};
use jitopt_core::types::era::Era;
use jitopt_core::types::{Simple, Type, TypeKind};
use jitopt_core::{graph_dump, graph_update};
use rustc_hash::FxHashMap;

/// The registry entry.
pub const PASS: PassInfo = PassInfo {
    name: "specialize-autogradzero",
    aliases: &["specialize-autograd-zero"],
    summary: "inline or remove gradient formulas where it is known which gradients are defined",
    example: "%0 : Tensor = prim::AutogradZero(), %s : Tensor = prim::AutogradAdd(%g, %0)  =>  %g",
    options: &[],
    required: false,
    reads_shapes: true,
    run,
    file: file!(),
};

fn run(graph: &mut Graph, cx: &mut PassContext<'_>) -> Result<(), PassError> {
    graph_dump!("Before specializing gradients", graph);
    let mut walk = Walk { known: FxHashMap::default() };
    walk.params(graph, cx.is_inside());
    let mut cursor = graph.first(graph.root());
    while let Some(node) = cursor {
        cursor = walk.visit(graph, cx, node);
    }
    graph_dump!("After specializing gradients", graph);
    Ok(())
}

/// The state of a gradient.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Zero,
    Defined,
    Unknown,
}

/// Whether a node adds two gradients; the schemas of 1.3 do not give the number of its outputs.
fn is_sum(graph: &Graph, node: Node) -> bool {
    graph.num_inputs(node) == 2 && graph.num_outputs(node) == 1
}

struct Walk {
    /// Values that are absent are unknown.
    known: FxHashMap<Value, State>,
}

impl Walk {
    fn state(&self, value: Value) -> State {
        self.known.get(&value).copied().unwrap_or(State::Unknown)
    }

    fn params(&mut self, graph: &Graph, is_inside: bool) {
        for param in graph.params(graph.root()) {
            let state = match graph.ty(param).kind() {
                TypeKind::Tensor(tensor) if tensor.undefined == Some(true) => State::Zero,
                // A type with an element type, or with dimensions, is defined.
                TypeKind::Tensor(tensor)
                    if tensor.undefined == Some(false) || tensor.dtype.is_some() || tensor.sizes.is_some() =>
                {
                    State::Defined
                }
                TypeKind::Tensor(_) => match graph.era {
                    Era::V1_3 if !is_inside => State::Defined,
                    _ => State::Unknown,
                },
                _ if holds_tensors(graph.ty(param)) => State::Unknown,
                _ => State::Defined,
            };
            self.known.insert(param, state);
        }
    }

    /// Visits a node, and returns the next one to visit.
    fn visit(&mut self, graph: &mut Graph, cx: &mut PassContext<'_>, node: Node) -> Option<Node> {
        let next = graph.next(node);
        match graph.kind(node) {
            prim::AUTOGRAD_ZERO => {
                self.known.insert(graph.output(node, 0), State::Zero);
            }
            prim::AUTOGRAD_ADD if is_sum(graph, node) => self.sum(graph, cx, node),
            aten::GRAD_SUM_TO_SIZE if graph.era == Era::V2 && is_to_no_size(graph, node) => {
                self.outputs(graph, node);
                let (old, same) = (graph.output(node, 0), graph.input(node, 0));
                cx.rewrite(graph, "sizes-none", node, |graph| {
                    graph_update!("%{} was not broadcast", graph.name(old));
                    graph.replace_all_uses(old, same);
                    graph.erase(node);
                });
            }
            prim::GRAD_OF => {
                let gradients: Vec<Value> = graph.inputs(node).collect();
                let block = graph.node_block(node, 0);
                return self.formula(graph, cx, node, &gradients, block).unwrap_or(next);
            }
            prim::IF => match tested_gradients(graph, node) {
                Some(gradients) => {
                    let block = graph.node_block(node, 0);
                    return self.formula(graph, cx, node, &gradients, block).unwrap_or(next);
                }
                None => self.outputs(graph, node),
            },
            _ => self.outputs(graph, node),
        }
        next
    }

    /// The states of the results of a node; of a branch, a state that both sides agree on, whose
    /// nodes are visited first.
    fn outputs(&mut self, graph: &Graph, node: Node) {
        let is_branch = |node| graph.kind(node) == prim::IF && graph.num_blocks(node) == 2;
        let inside = |node| {
            let inside = graph.node_blocks(node).flat_map(|block| graph.nodes(block));
            let inside: Vec<Node> = inside.collect();
            inside.into_iter().rev().map(|node| (node, false))
        };
        let mut work = vec![(node, false)];
        while let Some((node, is_seen)) = work.pop() {
            match graph.kind(node) {
                prim::AUTOGRAD_ZERO => drop(self.known.insert(graph.output(node, 0), State::Zero)),
                prim::AUTOGRAD_ADD if is_sum(graph, node) => {
                    let state = match [0, 1].map(|i| self.state(graph.input(node, i))) {
                        [State::Zero, other] | [other, State::Zero] => other,
                        states if states.contains(&State::Defined) => State::Defined,
                        _ => State::Unknown,
                    };
                    self.known.insert(graph.output(node, 0), state);
                }
                prim::LOOP if !is_seen => {
                    self.carried(graph, node, true);
                    work.push((node, true));
                    work.extend(inside(node));
                }
                prim::LOOP => {
                    if !self.turned(graph, node) {
                        self.carried(graph, node, false);
                        work.extend(inside(node));
                    }
                }
                _ if !is_branch(node) => self.plain_outputs(graph, node),
                _ if is_seen => self.branch_outputs(graph, node),
                _ => {
                    work.push((node, true));
                    work.extend(inside(node));
                }
            }
        }
    }

    /// The state of carried values at the start of a loop, or unknown.
    fn carried(&mut self, graph: &Graph, node: Node, is_first: bool) {
        let mut params = graph.params(graph.node_block(node, 0));
        self.known.extend(params.next().map(|iteration| (iteration, State::Defined)));
        for (param, first) in params.zip(graph.inputs(node).skip(2)) {
            let state = if is_first { self.state(first) } else { State::Unknown };
            self.known.insert(param, state);
        }
    }

    /// Whether an iteration returns the state it was given; then that is the final state, otherwise
    /// it is unknown.
    fn turned(&mut self, graph: &Graph, node: Node) -> bool {
        let block = graph.node_block(node, 0);
        let carried: Vec<(Value, Value)> = graph.params(block).skip(1).zip(graph.results(block).skip(1)).collect();
        let stays = carried.iter().all(|&(param, result)| self.state(param) == self.state(result));
        for ((param, _), output) in carried.into_iter().zip(graph.outputs(node)) {
            let state = if stays { self.state(param) } else { State::Unknown };
            self.known.insert(output, if holds_tensors(graph.ty(output)) { state } else { State::Defined });
        }
        stays
    }

    fn branch_outputs(&mut self, graph: &Graph, node: Node) {
        let [yes, no] = [0, 1].map(|i| graph.node_block(node, i));
        for ((output, a), b) in graph.outputs(node).zip(graph.results(yes)).zip(graph.results(no)) {
            let is_there = !holds_tensors(graph.ty(output));
            let [a, b] = [a, b].map(|value| if is_there { State::Defined } else { self.state(value) });
            self.known.insert(output, if a == b { a } else { State::Unknown });
        }
    }

    fn plain_outputs(&mut self, graph: &Graph, node: Node) {
        let plain = graph.num_blocks(node) == 0;
        let defined = plain && graph.inputs(node).all(|value| self.state(value) == State::Defined);
        let defined = defined || plain && is_fresh(graph, node);
        let state = if defined { State::Defined } else { State::Unknown };
        // A value that holds no tensor is defined.
        let state = |output| if holds_tensors(graph.ty(output)) { state } else { State::Defined };
        self.known.extend(graph.outputs(node).map(|output| (output, state(output))));
    }

    fn sum(&mut self, graph: &mut Graph, cx: &mut PassContext<'_>, node: Node) {
        let ([a, b], old) = ([0, 1].map(|i| graph.input(node, i)), graph.output(node, 0));
        let states = [self.state(a), self.state(b)];
        let one_side = match states {
            [State::Zero, _] => Some(b),
            [_, State::Zero] => Some(a),
            _ => None,
        };
        let done = match (one_side, states) {
            (Some(kept), _) => cx.rewrite(graph, "sums-dropped", node, |graph| {
                graph_update!("%{} is %{}", graph.name(old), graph.name(kept));
                graph.replace_all_uses(old, kept);
                graph.erase(node);
            }),
            // There is no other operator for a sum of lists.
            (None, [State::Defined, State::Defined]) if graph.ty(old).is_tensor() => {
                cx.rewrite(graph, "sums-defined", node, |graph| {
                    let sum = add(graph, node, [a, b]);
                    self.known.insert(sum, State::Defined);
                })
            }
            _ => None,
        };
        if done.is_none() {
            let either = states.contains(&State::Defined);
            self.known.insert(old, if either { State::Defined } else { State::Unknown });
        }
    }

    /// Simplifies a formula on `gradients`; returns the node to continue with, when it did not
    /// stay.
    fn formula(
        &mut self,
        graph: &mut Graph,
        cx: &mut PassContext<'_>,
        node: Node,
        gradients: &[Value],
        block: Block,
    ) -> Option<Option<Node>> {
        let states: Vec<State> = gradients.iter().map(|&value| self.state(value)).collect();
        let any = states.contains(&State::Defined);
        let none = states.iter().all(|state| *state == State::Zero);
        if any {
            return cx.rewrite(graph, "formulas-placed", node, |graph| place(graph, node, block));
        }
        let zero = |graph: &mut Graph| {
            let next = graph.next(node);
            self.known.insert(zero(graph, node), State::Zero);
            next
        };
        if none { cx.rewrite(graph, "formulas-zero", node, zero) } else { None }
    }
}

/// Whether a value of this type may be a tensor, or contain one.
fn holds_tensors(ty: Type) -> bool {
    let mut work = vec![ty];
    while let Some(ty) = work.pop() {
        match ty.kind() {
            TypeKind::Simple(simple) if *simple != Simple::Any => {}
            TypeKind::Optional(_) | TypeKind::List(_) | TypeKind::Tuple(_) | TypeKind::NamedTuple(_) => {
                work.extend(ty.parts());
            }
            _ => return true,
        }
    }
    false
}

/// Whether a gradient is summed to no size, because nothing was broadcast.
fn is_to_no_size(graph: &Graph, node: Node) -> bool {
    graph.num_inputs(node) == 2 && graph.ty(graph.input(node, 1)).is(Simple::None)
}

/// The gradients that the condition of a branch tests, when the branch takes the formula if one of
/// them is defined, and zeros otherwise.
fn tested_gradients(graph: &Graph, node: Node) -> Option<Vec<Value>> {
    let test = graph.definer(graph.input(node, 0))?;
    let is_zero = |value: Value| graph.definer(value).is_some_and(|node| graph.kind(node) == prim::AUTOGRAD_ZERO);
    let zeros = graph.num_blocks(node) == 2 && graph.results(graph.node_block(node, 1)).all(is_zero);
    (graph.kind(test) == prim::AUTOGRAD_ANY_NON_ZERO && zeros).then(|| graph.inputs(test).collect())
}

/// Whether no result may be an operand itself.
fn is_fresh(graph: &Graph, node: Node) -> bool {
    let operator = ops::operator(graph.era, graph.kind(node));
    let operands: Vec<Type> = graph.inputs(node).map(|value| graph.ty(value)).collect();
    let schema = operator.resolve(&operands).schema();
    match operator.alias_rule(schema) {
        AliasRule::Schema => schema.is_some_and(|schema| !schema.returns.iter().any(Formal::is_annotated)),
        rule => matches!(rule, AliasRule::Fresh | AliasRule::Nothing),
    }
}

/// Moves the nodes of a formula before its node, which then loses its readers. The first of them is
/// visited next.
fn place(graph: &mut Graph, node: Node, block: Block) -> Option<Node> {
    graph_update!("Inlining the formula of %{}", graph.outputs(node).next().map_or(String::new(), |v| graph.name(v)));
    let body: Vec<Node> = graph.nodes(block).collect();
    for &moved in &body {
        graph.move_before(moved, node);
    }
    let results: Vec<Value> = graph.results(block).collect();
    let pairs: Vec<(Value, Value)> = graph.outputs(node).zip(results).collect();
    for (old, new) in pairs {
        graph.replace_all_uses(old, new);
    }
    let next = body.first().copied().or_else(|| graph.next(node));
    graph.erase(node);
    next
}

/// Replaces all results of a node by one undefined gradient.
fn zero(graph: &mut Graph, node: Node) -> Value {
    let zero = graph.create_op(prim::AUTOGRAD_ZERO, &[], Type::tensor());
    graph.insert_before(node, zero);
    let zero = graph.output(zero, 0);
    let outputs: Vec<Value> = graph.outputs(node).collect();
    for output in outputs {
        graph.replace_all_uses(output, zero);
    }
    graph.erase(node);
    zero
}

/// Creates a sum of two defined gradients.
fn add(graph: &mut Graph, node: Node, operands: [Value; 2]) -> Value {
    let old = graph.output(node, 0);
    graph_update!("Both sides of %{} are defined", graph.name(old));
    let one = graph.create_op(prim::CONSTANT, &[], Type::int());
    graph.set_attribute(one, attr::VALUE, Attribute::Int(1));
    graph.insert_before(node, one);
    let sum =
        graph.create_op(Symbol::new("aten::add"), &[operands[0], operands[1], graph.output(one, 0)], graph.ty(old));
    graph.insert_before(node, sum);
    let sum = graph.output(sum, 0);
    graph.replace_all_uses(old, sum);
    graph.erase(node);
    sum
}
