//! Facts computed once per graph: the kernel of each node, and the values without later uses.

use super::environment::Environment;
use super::ivalue::IValue;
use super::library::{self, Found};
use super::literal_values;
use super::stop::Stop;
use crate::entity::SecondaryMap;
use crate::ir::{Block, Graph, Node, Value};
use crate::ops;
use crate::ops::rules::{Carries, Nondeterminism};
use crate::ops::schema::Schema;
use crate::symbol::{Symbol, aten, prim};
use crate::types::Type;
use crate::types::era::Era;
use smallvec::SmallVec;

/// The action of a node.
#[derive(Clone, Debug)]
pub enum Action {
    /// The outputs come from a kernel. The overload is `None` if types did not determine it.
    Kernel(Found, Option<&'static Schema>),
    /// A constant value.
    Constant(IValue),
    /// One of two blocks.
    If,
    /// A loop over a block.
    Loop,
    /// A block that runs if an operand is defined.
    GradOf,
    /// The graph of the node's section.
    Section(Carries),
    /// A call of a graph in the environment.
    CallFunction,
    /// A call of a graph in the environment, found through the class of the first operand.
    CallMethod,
    /// The operand is passed on if it has the type of the output; else the graph is left.
    BailOut,
    /// No action.
    Skip,
    /// The node cannot run.
    Refused(Box<Stop>),
}

/// The plan of a node.
#[derive(Clone, Debug)]
pub struct Row {
    /// The action.
    pub action: Action,
    /// Values without later uses.
    pub drops: SmallVec<[Value; 2]>,
    /// Whether it may draw random numbers.
    pub draws: bool,
}

/// The plan of a graph.
#[derive(Debug, Default)]
pub struct Plan {
    rows: SecondaryMap<Node, Option<Box<Row>>>,
}

impl Plan {
    /// Plans a graph. Nodes that cannot run are refused only when they are reached.
    pub fn of(graph: &Graph, env: &Environment) -> Plan {
        let mut plan = Plan::default();
        for block in graph.all_blocks() {
            let ends = [graph.param_node(block), graph.return_node(block)];
            for node in ends.into_iter().chain(graph.nodes(block)) {
                let action = action(graph, env, node).unwrap_or_else(|stop| Action::Refused(Box::new(stop)));
                let random = ops::operator(graph.era, graph.kind(node)).nondeterminism(None);
                let draws = random > Nondeterminism::Undefined;
                plan.rows[node] = Some(Box::new(Row { action, drops: SmallVec::new(), draws }));
            }
        }
        for block in graph.all_blocks() {
            let params = graph.params(block).map(|value| (graph.param_node(block), value));
            let outputs = graph.nodes(block).flat_map(|node| graph.outputs(node).map(move |value| (node, value)));
            let ends: Vec<(Node, Value)> =
                params.chain(outputs).map(|(at, v)| (last_reader(graph, block, at, v), v)).collect();
            for (node, value) in ends {
                plan.rows[node].as_mut().expect("every node has a row").drops.push(value);
            }
        }
        plan
    }

    /// The plan of a node.
    pub fn row(&self, node: Node) -> &Row {
        self.rows[node].as_deref().expect("every node has a row")
    }
}

/// The last node of the value's own block that uses it, itself or in its blocks; the definer if
/// there is none.
fn last_reader(graph: &Graph, block: Block, definer: Node, value: Value) -> Node {
    let mut last: Option<Node> = None;
    for user in graph.users(value) {
        let mut at = user;
        while let Some(around) = graph.enclosing(at).filter(|_| graph.block_of(at) != Some(block)) {
            at = around;
        }
        last = Some(match last {
            Some(other) if is_later(graph, other, at) => other,
            _ => at,
        });
    }
    last.unwrap_or(definer)
}

fn is_later(graph: &Graph, a: Node, b: Node) -> bool {
    a != b && (graph.kind(a) == prim::RETURN || (graph.kind(b) != prim::RETURN && graph.is_before(b, a)))
}

fn action(graph: &Graph, env: &Environment, node: Node) -> Result<Action, Stop> {
    let kind = graph.kind(node);
    Ok(match kind {
        prim::CONSTANT => Action::Constant(literal_values::constant(graph, env, node)?),
        prim::IF => Action::If,
        prim::LOOP => Action::Loop,
        prim::GRAD_OF => Action::GradOf,
        prim::CALL_FUNCTION => Action::CallFunction,
        prim::CALL_METHOD | prim::ENTER | prim::EXIT => Action::CallMethod,
        prim::BAILOUT => Action::BailOut,
        prim::PARAM | prim::RETURN | prim::BAILOUT_TEMPLATE => Action::Skip,
        aten::WAIT => Action::Kernel(library::find(kind).ok_or_else(|| Stop::unsupported("`aten::wait`"))?, None),
        _ => {
            let operator = ops::operator(graph.era, kind);
            if graph.subgraph(node).is_some() && operator.rule.carries != Carries::Nothing {
                return Ok(Action::Section(operator.rule.carries));
            }
            let unknown = || Stop::unsupported(lacking(graph.era, kind));
            let found = library::find(kind).ok_or_else(unknown)?;
            let types: Vec<Type> = graph.inputs(node).map(|value| graph.ty(value)).collect();
            Action::Kernel(found, operator.resolve(&types).schema())
        }
    })
}

/// The reason why a kind cannot run.
fn lacking(era: Era, kind: Symbol) -> String {
    match ops::names_section(era, kind) {
        true => format!("there is no section `{kind}`; expected `with {kind} = graph(…):` after the graph"),
        false => format!("`{kind}` has no kernel"),
    }
}
