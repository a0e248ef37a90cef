//! The point at which a run continues after a bailout: in the middle of the template.
//!
//! ```text
//! %t : int = prim::BailoutTemplate_0()                        with prim::BailoutTemplate_0 = graph(…):
//! %r : Tensor = prim::Loop(%n, %true, %x)                       %r : Tensor = prim::Loop(%n, %true, %x)
//!   block0(%i : int, %c : Tensor):                                block0(%i : int, %c : Tensor):
//!     %y : Tensor = fast(%c)                                        %y : Tensor = slow(%c)
//!     %z : Float(3) = prim::BailOut[index=0](%t, %y, %n, %i, %c)    %z : Float(3) = prim::BailOut[index=0](%y, %n, %i, %c)
//!     %u : Tensor = fast(%z, %c)                                    %u : Tensor = slow(%z, %c)      <- continues here, in iteration %i of %n
//!     -> (%true, %u)                                                -> (%true, %u)
//! ```
//!
//! The nodes before the bailout have run, effects included, and those after it have not: nothing is
//! lost and nothing happens twice. The rest of the template is not copied into a graph of its own.
//! The stack is built as it would be had the template run from its start: a frame for each block
//! around the bailout, a loop in the iteration that the operands give. PyTorch instead makes a loop
//! of the remaining iterations, with a counter that restarts at 0 and a trip count that is the
//! original one minus the old counter, so that it runs one iteration too many and reads wrong
//! counters.
//!
//! Values come from three sources: operands, by position; constants of the template; and earlier
//! bailouts, whose output equals their guarded operand. If a required value comes from none of
//! these, the graph cannot be left, and the message names the value: PyTorch 1.4 passes fewer
//! values than the next iteration reads.
//!
//! Types in a template hold only while its guards hold. Nothing is inferred from them, and bailouts
//! in a template test nothing.

use super::ivalue::IValue;
use super::plan::{Action, Plan};
use super::stop::Stop;
use crate::entity::Entity;
use crate::ir::{Attribute, Block, Graph, Node, Value};
use crate::ops;
use crate::ops::rules::Structure;
use crate::symbol::{attr, prim};
use rustc_hash::FxHashSet;

/// A block around the point, with the node that owns it.
#[derive(Clone, Debug)]
pub struct Around {
    /// The block.
    pub block: Block,
    /// The node; `None` for the root.
    pub owner: Option<Node>,
    /// The node to run after the inner block.
    pub cursor: Option<Node>,
    /// Values that later iterations of the loop require and that have no source.
    missing: Vec<Value>,
}

/// A point in a template where runs continue. It is shared by all bailouts with its index.
#[derive(Clone, Debug)]
pub(crate) struct Resumption {
    /// The bailout of the template.
    pub bailout: Node,
    /// The blocks around it, from the root to the innermost.
    pub around: Vec<Around>,
    /// Constants read after the point.
    constants: Vec<Node>,
    /// Earlier bailouts: pairs of a known value and the value that it determines.
    determined: Vec<(Value, Value)>,
    /// Values that this iteration requires and that have no source.
    missing: Vec<Value>,
}

impl Resumption {
    /// The point in `template` with this index.
    pub(crate) fn of(template: &Graph, index: i64) -> Result<Resumption, Stop> {
        let is_it = |&node: &Node| {
            template.kind(node) == prim::BAILOUT
                && matches!(template.attribute(node, attr::INDEX), Some(Attribute::Int(n)) if *n == index)
        };
        let mut found = template.all_nodes().filter(is_it);
        let (Some(bailout), None) = (found.next(), found.next()) else {
            return Err(Stop::unsupported(format!("a bailout {index} that its template lacks or has twice")));
        };
        let mut place = Resumption {
            bailout,
            around: around(template, bailout),
            constants: Vec::new(),
            determined: Vec::new(),
            missing: Vec::new(),
        };
        let passed: Vec<Node> = place.around.iter().flat_map(|around| preceding(template, around)).collect();
        place.constants = passed.iter().copied().filter(|&node| template.kind(node) == prim::CONSTANT).collect();
        place.follow(template, &passed);
        Ok(place)
    }

    /// Determines the known values, and the required ones without a source.
    fn follow(&mut self, template: &Graph, passed: &[Node]) {
        let mut known: FxHashSet<Value> = template.inputs(self.bailout).chain(template.outputs(self.bailout)).collect();
        let tests = |node: &Node| template.kind(*node) == prim::BAILOUT && template.num_inputs(*node) > 0;
        let bailouts: Vec<(Value, Value)> = passed
            .iter()
            .copied()
            .filter(tests)
            .map(|node| (template.input(node, 0), template.output(node, 0)))
            .collect();
        // The content of a constant that is written to may be passed as an operand; other constants
        // keep the value in the template.
        for constants in [&[][..], &self.constants] {
            known.extend(constants.iter().flat_map(|&node| template.outputs(node)));
            let backward = bailouts.iter().rev().map(|&(tested, made)| (made, tested));
            for (from, to) in backward.chain(bailouts.iter().copied()) {
                if known.contains(&from) && known.insert(to) {
                    self.determined.push((from, to));
                }
            }
        }
        let is_missing = |value: &Value| !known.contains(value);
        let inside: FxHashSet<Block> = self.around.iter().map(|around| around.block).collect();
        // Values made before the point: in enclosing blocks, by preceding nodes or as params.
        let before: FxHashSet<Node> =
            passed.iter().copied().chain(inside.iter().map(|&block| template.param_node(block))).collect();
        let made_before = |value: &Value| template.definer(*value).is_none_or(|node| before.contains(&node));
        for i in 0..self.around.len() {
            let around = &self.around[i];
            let loops = around.owner.is_some_and(|owner| is_loop(template, owner));
            let mut wanted = reads(template, around.block, around.cursor);
            if loops {
                let owner = around.owner.expect("a loop owns it");
                wanted.push(template.input(owner, 0));
                wanted.extend(template.params(around.block).next());
            }
            let later = if loops { reads(template, around.block, template.first(around.block)) } else { Vec::new() };
            // The next iteration makes its own values and receives its params.
            let inner: FxHashSet<Node> = self.around[i..]
                .iter()
                .flat_map(|inner| preceding(template, inner).chain([template.param_node(inner.block)]))
                .collect();
            let of_outside = |value: &Value| template.definer(*value).is_none_or(|node| !inner.contains(&node));
            let later = later
                .into_iter()
                .filter(|value| made_before(value) && of_outside(value) && is_missing(value))
                .collect();
            self.missing.extend(wanted.into_iter().filter(|value| made_before(value) && is_missing(value)));
            self.around[i].missing = later;
        }
    }

    /// The values of the template at the point, given the operands of the taken bailout, the
    /// template itself excluded.
    pub(crate) fn values(&self, template: &Graph, plan: &Plan, operands: &[IValue]) -> Result<Vec<IValue>, Stop> {
        let wanted = template.num_inputs(self.bailout);
        if operands.len() != wanted {
            let (found, index) = (operands.len(), self.bailout);
            return Err(Stop::unsupported(format!(
                "a bailout with {found} values for a template that requires {wanted}"
            ))
            .at(template, index));
        }
        self.refuse(template, &self.missing, "reads")?;
        let mut values = vec![IValue::Uninitialized; template.num_values()];
        for (value, operand) in template.inputs(self.bailout).zip(operands) {
            values[value.index()] = operand.clone();
        }
        values[template.output(self.bailout, 0).index()] = operands[0].clone();
        let given: FxHashSet<Value> = template.inputs(self.bailout).collect();
        for &node in self.constants.iter().filter(|&&node| !given.contains(&template.output(node, 0))) {
            match &plan.row(node).action {
                Action::Constant(value) => values[template.output(node, 0).index()] = value.clone(),
                Action::Refused(stop) => return Err((**stop).clone()),
                _ => {}
            }
        }
        for &(from, to) in &self.determined {
            values[to.index()] = values[from.index()].clone();
        }
        Ok(values)
    }

    /// The current iteration of a loop and the trip count; refused if later iterations require
    /// values without a source.
    pub(crate) fn iteration(&self, template: &Graph, around: &Around, values: &[IValue]) -> Result<(i64, i64), Stop> {
        let owner = around.owner.expect("a loop owns its body");
        let counter = template.params(around.block).next().expect("the first param of a body counts");
        let number = |value: Value| if let IValue::Int(n) = values[value.index()] { Some(n) } else { None };
        let (Some(at), Some(most)) = (number(counter), number(template.input(owner, 0))) else {
            return Err(Stop::unsupported("a bailout in a loop whose counters are not ints").at(template, self.bailout));
        };
        if at + 1 < most {
            self.refuse(template, &around.missing, "reads in later iterations")?;
        }
        Ok((at, most))
    }

    fn refuse(&self, template: &Graph, missing: &[Value], when: &str) -> Result<(), Stop> {
        let Some(first) = missing.first() else { return Ok(()) };
        let name = template.name(*first);
        let text = format!(
            "this bailout does not pass %{name}, which its template {when}; `insert-bailouts` of jitopt passes all values"
        );
        Err(Stop::unsupported(text).at(template, self.bailout))
    }
}

fn is_loop(graph: &Graph, node: Node) -> bool {
    ops::operator(graph.era, graph.kind(node)).rule.structure == Structure::Loop
}

/// The blocks around a node, outermost first.
fn around(graph: &Graph, node: Node) -> Vec<Around> {
    let (mut found, mut at) = (Vec::new(), Some(node));
    while let Some(inner) = at {
        let Some(block) = graph.block_of(inner) else { break };
        let owner = graph.owner_node(block);
        found.push(Around { block, owner, cursor: graph.next(inner), missing: Vec::new() });
        at = owner;
    }
    found.reverse();
    found
}

/// The nodes of a block before the next one to run, without the taken bailout or the owner of the
/// inner block.
fn preceding<'a>(graph: &'a Graph, around: &Around) -> impl Iterator<Item = Node> + 'a {
    let last = match around.cursor {
        Some(cursor) => graph.prev(cursor),
        None => graph.last(around.block),
    };
    graph.nodes(around.block).take_while(move |&node| Some(node) != last)
}

/// The values that a block reads from `cursor` on, its results included.
fn reads(graph: &Graph, block: Block, cursor: Option<Node>) -> Vec<Value> {
    let mut found: Vec<Value> = graph.results(block).collect();
    let mut work = vec![cursor];
    while let Some(cursor) = work.pop() {
        let Some(node) = cursor else { continue };
        work.push(graph.next(node));
        found.extend(graph.inputs(node));
        for inner in graph.node_blocks(node) {
            found.extend(graph.results(inner));
            work.push(graph.first(inner));
        }
    }
    found
}
