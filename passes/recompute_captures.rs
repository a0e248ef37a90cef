//! Recomputes cheap values in backward graphs, so that fewer are captured.
//!
//! ```text
//! with prim::DifferentiableGraph_0 = graph(%x : Float(4, 1), %y : Float(6)):
//!   %a : Float(4, 6) = aten::mul(%x, %y)
//!   %b : Float(4, 6) = aten::relu(%a)
//!   return (%b, %a, %b)
//! with prim::DifferentiableGraph_0.backward = graph(%0 : Tensor, %x : Float(4, 1), %y : Float(6), %a : Float(4, 6), %b : Float(4, 6)):
//! =>
//!   return (%b)
//! with prim::DifferentiableGraph_0.backward = graph(%0 : Tensor, %x : Float(4, 1), %y : Float(6)):
//!   %a : Float(4, 6) = aten::mul(%x, %y)
//!   %b : Float(4, 6) = aten::relu(%a)
//! ```
//!
//! Formulas capture the tensors that they read; a captured tensor is written by one kernel and read
//! by another, which takes longer than most operations on it. The captured values are a *minimum
//! cut*: between the values that must be available (operands that are passed anyway, and results of
//! expensive operators) and the values that the backward graph reads, through pointwise operators,
//! the cut has the fewest bytes, where a value that is only captured counts twice, for its write
//! and its read. Of several such cuts it is the one closest to the backward graph, which recomputes
//! least. The partitioner of AOTAutograd does the same (H. He, Min-cut optimal recomputation,
//! 2022); flows are found as by Dinic (1970).
//!
//! Not recomputed are expensive operators (exponentials, reductions, matrix products), random ones,
//! operators whose operands are written to, and operators that depend on operands and results that
//! the backward graph does not receive already, or on views of them: those might be written to
//! before it runs. Where sizes are not known all values have the same weight. Runs before `fuse`,
//! because no node leaves a group. Linear in nodes except for the flow; graphs with very many
//! candidate values are left alone.

use crate::refine_captures::{ParamRole, drop_unread, param_roles, without_gradient};
use jitopt_core::analysis::AliasDb;
use jitopt_core::analysis::gradient_roles::Roles;
use jitopt_core::codegen::expression::expression;
use jitopt_core::ir::{Attribute, Graph, Node, Value, ValueMap};
use jitopt_core::ops;
use jitopt_core::ops::formulas::formulas;
use jitopt_core::ops::fusion_rules::{FusionRow, fusion_row};
use jitopt_core::ops::rules::{AliasRule, Nondeterminism};
use jitopt_core::pass::{PassContext, PassError, PassInfo};
use jitopt_core::symbol::{attr, prim};
use jitopt_core::types::{Dim, Type};
use jitopt_core::{graph_dump, graph_update};
use petgraph::Direction;
use petgraph::algo::dinics;
use petgraph::graph::{DiGraph, NodeIndex};
use petgraph::visit::EdgeRef;
use rustc_hash::{FxHashMap, FxHashSet};

/// The registry entry.
pub const PASS: PassInfo = PassInfo {
    name: "recompute-captures",
    aliases: &[],
    summary: "recompute cheap values in backward graphs, and capture fewer",
    example: "with ….backward = graph(%0 : Tensor, %x : Tensor, %r : Tensor)  =>  graph(%0 : Tensor, %x : Tensor): %r : Tensor = aten::relu(%x), as %r is computed in the forward graph",
    options: &[],
    required: false,
    reads_shapes: true,
    run,
    file: file!(),
};

/// The maximum number of values in a flow network: Dinic's algorithm is at least quadratic.
const MOST_VALUES: usize = 4096;

fn run(graph: &mut Graph, cx: &mut PassContext<'_>) -> Result<(), PassError> {
    graph_dump!("Before recomputing captures", graph);
    let groups: Vec<Node> = graph.all_nodes().filter(|&node| graph.subgraph(node).is_some()).collect();
    for group in groups {
        let Some(mut roles) = Roles::of(graph, group) else { continue };
        let plan = match Plan::of(graph, group, &roles) {
            Ok(Some(plan)) => plan,
            Ok(None) => continue,
            Err(why) => {
                cx.missed(graph, "captures-recomputed", group, || why);
                continue;
            }
        };
        let done = cx.rewrite(graph, "captures-recomputed", group, |graph| {
            graph_update!("Recomputing {} values in a backward graph", plan.again.len());
            plan.carry_out(graph, group, &mut roles);
        });
        if done.is_some() {
            drop_unread(graph, cx, group, roles);
        }
    }
    graph_dump!("After recomputing captures", graph);
    Ok(())
}

/// The captured and the recomputed values.
struct Plan {
    /// Values of the forward graph that the others are computed from.
    kept: FxHashSet<Value>,
    /// Params of the backward graph that are recomputed, with the corresponding values of the
    /// forward graph.
    again: Vec<(Value, Value)>,
    /// The params that the backward graph keeps, by the value of the forward graph.
    passed: FxHashMap<Value, Value>,
}

impl Plan {
    /// Nothing where there is no gain; an error where the network is too large.
    fn of(graph: &Graph, group: Node, roles: &Roles) -> Result<Option<Plan>, String> {
        let (Some(section), Some(backward)) = (graph.subgraph(group), graph.backward(group)) else { return Ok(None) };
        let captured = |(param, role): (Value, ParamRole)| match role {
            ParamRole::Captured(value) if section.ty(value).is_tensor() => Some((value, param)),
            _ => None,
        };
        let params = backward.params(backward.root()).zip(param_roles(section, roles));
        let read: Vec<(Value, Value)> =
            params.filter_map(captured).filter(|(_, param)| backward.has_uses(*param)).collect();
        let mut network = Network::new(section, roles.real_outputs, read.iter().map(|pair| pair.0).collect());
        if !network.explore() {
            return Err(format!("more than {MOST_VALUES} values could be recomputed"));
        }
        let (kept, computed) = network.cut();
        let again: Vec<(Value, Value)> =
            read.iter().filter(|(value, _)| computed.contains(value)).map(|&(value, param)| (param, value)).collect();
        Ok((!again.is_empty()).then(|| Plan { kept, again, passed: read.into_iter().collect() }))
    }

    /// Captured values that were not passed before become results of the forward graph.
    fn carry_out(self, graph: &mut Graph, group: Node, roles: &mut Roles) {
        let Some(mut section) = graph.take_subgraph(group) else { return };
        let nodes = self.nodes(&section);
        graph.with_graph(group, attr::REVERSE_SUBGRAPH, |backward| {
            let mut map = ValueMap::default();
            for &node in &nodes {
                for value in section.inputs(node).filter(|value| self.kept.contains(value)).collect::<Vec<_>>() {
                    let known = self.passed.get(&value).copied();
                    let param = map.get(&value).copied().or(known);
                    let param = param.unwrap_or_else(|| hand_over(&mut section, backward, roles, value));
                    map.insert(value, param);
                }
            }
            let anchor = backward.first(backward.root()).unwrap_or(backward.return_node(backward.root()));
            for node in nodes {
                let copy = backward.copy_node(Some(&section), node, &mut map);
                backward.insert_before(anchor, copy);
                let output = backward.output(copy, 0);
                backward.set_type(output, without_gradient(section.ty(section.output(node, 0))));
            }
            for (param, value) in &self.again {
                backward.replace_all_uses(*param, map[value]);
            }
        });
        graph.set_attribute(group, attr::SUBGRAPH, Attribute::Graph(section));
        roles.note(graph, group);
    }

    /// The nodes that are recomputed, and the constants that they read, in order.
    fn nodes(&self, section: &Graph) -> Vec<Node> {
        let mut found = FxHashSet::default();
        let mut open: Vec<Value> = self.again.iter().map(|pair| pair.1).collect();
        while let Some(value) = open.pop() {
            let Some(node) = section.definer(value).filter(|_| !self.kept.contains(&value)) else { continue };
            if found.insert(node) {
                open.extend(section.inputs(node));
            }
        }
        section.nodes(section.root()).filter(|node| found.contains(node)).collect()
    }
}

/// A new param of the backward graph, for a value that the forward graph captures from now on.
fn hand_over(section: &mut Graph, backward: &mut Graph, roles: &mut Roles, value: Value) -> Value {
    let results: Vec<Value> = section.results(section.root()).collect();
    let at = results.iter().position(|&result| result == value).unwrap_or(results.len());
    if at == results.len() {
        section.add_result(section.root(), value);
    }
    roles.captured_outputs.push(at);
    let ty = without_gradient(section.ty(value));
    backward.add_param(backward.root(), ty)
}

/// A flow network: each value of a forward graph is an edge whose capacity is the cost of capturing
/// it, after the values that it is computed from.
struct Network<'g> {
    section: &'g Graph,
    db: AliasDb,
    /// The values that the backward graph reads.
    read: Vec<Value>,
    /// The results of the forward graph that are not only captured.
    results: FxHashSet<Value>,
    /// Operands and results of the graph that the backward graph does not receive: their owners may
    /// write to them before it runs.
    outside: Vec<Value>,
    /// The end nodes of the edge of each value.
    ends: FxHashMap<Value, (NodeIndex, NodeIndex)>,
    flow: DiGraph<(), u64>,
    source: NodeIndex,
    sink: NodeIndex,
}

/// A capacity larger than that of all values together.
const UNBOUNDED: u64 = u64::MAX / 4;

impl<'g> Network<'g> {
    fn new(section: &'g Graph, real_outputs: usize, read: Vec<Value>) -> Network<'g> {
        let mut flow = DiGraph::new();
        let (source, sink) = (flow.add_node(()), flow.add_node(()));
        let results: FxHashSet<Value> = section.results(section.root()).take(real_outputs).collect();
        let outside = section.params(section.root()).chain(section.results(section.root()).take(real_outputs));
        let outside = outside.filter(|value| section.ty(*value).is_tensor() && !read.contains(value)).collect();
        let db = AliasDb::new(section);
        Network { section, db, read, results, outside, ends: FxHashMap::default(), flow, source, sink }
    }

    /// Adds the values that are read, and those from which they may be recomputed; returns false
    /// when there are too many.
    fn explore(&mut self) -> bool {
        let mut open = self.read.clone();
        let mut found: FxHashMap<Value, Vec<Value>> = FxHashMap::default();
        while let Some(value) = open.pop() {
            if !found.contains_key(&value) {
                if found.len() == MOST_VALUES {
                    return false;
                }
                let operands = self.computed_of(value).unwrap_or_default();
                open.extend(&operands);
                found.insert(value, operands);
            }
        }
        let mut values: Vec<Value> = found.keys().copied().collect();
        values.sort_unstable();
        let all_known = values.iter().all(|&value| self.bytes(value).is_some());
        for &value in &values {
            let ends = (self.flow.add_node(()), self.flow.add_node(()));
            let ways = if self.is_there_anyway(value) { 1 } else { 2 };
            let bytes = if all_known { self.bytes(value).unwrap_or(1) } else { 1 };
            self.flow.add_edge(ends.0, ends.1, bytes.saturating_mul(ways));
            self.ends.insert(value, ends);
        }
        for value in values {
            let ends = self.ends[&value];
            if found[&value].is_empty() {
                self.flow.add_edge(self.source, ends.0, UNBOUNDED);
            }
            for operand in &found[&value] {
                self.flow.add_edge(self.ends[operand].1, ends.0, UNBOUNDED);
            }
        }
        for value in &self.read {
            self.flow.add_edge(self.ends[value].1, self.sink, UNBOUNDED);
        }
        true
    }

    /// Whether a value is in memory anyway: an operand or a result of the forward graph.
    fn is_there_anyway(&self, value: Value) -> bool {
        self.is_param(value) || self.results.contains(&value)
    }

    fn is_param(&self, value: Value) -> bool {
        self.section.definer(value).is_none_or(|node| self.section.kind(node) == prim::PARAM)
    }

    /// The tensors from which a value may be recomputed.
    fn computed_of(&self, value: Value) -> Option<Vec<Value>> {
        let section = self.section;
        let node = section.definer(value).filter(|&node| is_cheap(section, node))?;
        let (tensors, others): (Vec<Value>, Vec<Value>) =
            section.inputs(node).partition(|&operand| section.ty(operand).is_tensor());
        let is_constant =
            |operand: &Value| section.definer(*operand).is_some_and(|definer| section.kind(definer) == prim::CONSTANT);
        let is_outside = |operand: &Value| self.outside.iter().any(|&other| self.db.may_alias(*operand, other));
        let is_at_hand = |operand: &Value| self.read.contains(operand) || !is_outside(operand);
        let is_quiet = |operand: &Value| !self.db.has_writers(*operand) && !is_constant(operand);
        let fits = others.iter().all(is_constant)
            && tensors.iter().all(|operand| is_at_hand(operand) && is_quiet(operand))
            && !self.db.has_writers(value);
        (fits && !tensors.is_empty()).then_some(tensors)
    }

    fn bytes(&self, value: Value) -> Option<u64> {
        let ty = self.section.ty(value).as_tensor()?;
        let size = |dim: &Dim| if let Dim::Known(n) = dim { u64::try_from(*n).ok() } else { None };
        let sizes: Option<Vec<u64>> = ty.sizes.as_ref()?.iter().map(size).collect();
        let element = ty.dtype.map_or(4, |dtype| dtype.size() as u64);
        Some(sizes?.into_iter().fold(element, u64::saturating_mul).min(UNBOUNDED / (4 * MOST_VALUES as u64)))
    }

    /// The values that are captured, and those that are recomputed from them.
    fn cut(&self) -> (FxHashSet<Value>, FxHashSet<Value>) {
        let (_, flows) = dinics(&self.flow, self.source, self.sink);
        // A value from which the sink can still be reached is after the cut that is closest to it.
        let (mut reaching, mut open) = (FxHashSet::from_iter([self.sink]), vec![self.sink]);
        while let Some(node) = open.pop() {
            let before = self.flow.edges_directed(node, Direction::Incoming);
            let before = before.filter(|edge| flows[edge.id().index()] < *edge.weight()).map(|edge| edge.source());
            let back = self.flow.edges_directed(node, Direction::Outgoing);
            let back = back.filter(|edge| flows[edge.id().index()] > 0).map(|edge| edge.target());
            open.extend(before.chain(back).filter(|&other| reaching.insert(other)).collect::<Vec<_>>());
        }
        let computed = |(_, ends): &(&Value, &(NodeIndex, NodeIndex))| reaching.contains(&ends.0);
        let kept =
            |(_, ends): &(&Value, &(NodeIndex, NodeIndex))| !reaching.contains(&ends.0) && reaching.contains(&ends.1);
        let values = |all: Vec<(&Value, &(NodeIndex, NodeIndex))>| all.into_iter().map(|pair| *pair.0).collect();
        (values(self.ends.iter().filter(kept).collect()), values(self.ends.iter().filter(computed).collect()))
    }
}

/// Whether a node computes each element from few others, cheaply and deterministically.
fn is_cheap(graph: &Graph, node: Node) -> bool {
    let types: Vec<Type> = graph.inputs(node).map(|value| graph.ty(value)).collect();
    let operator = ops::operator(graph.era, graph.kind(node));
    let row = operator.resolve(&types).schema().and_then(fusion_row);
    let is_expensive = |text| expression(text).is_ok_and(|formula| formula.is_expensive);
    let is_cheap = || formulas(graph.kind(node)).iter().all(|formula| !is_expensive(formula.float));
    row.is_some_and(FusionRow::is_pointwise)
        && is_cheap()
        && matches!(operator.rule.alias, AliasRule::Fresh | AliasRule::Schema)
        && operator.nondeterminism(None) == Nondeterminism::Deterministic
}

#[cfg(test)]
mod tests {
    use super::MOST_VALUES;
    use crate::REGISTRY;
    use jitopt_core::pass::{Pipeline, Session, run};
    use jitopt_core::text::{ParseOptions, parse};
    use std::fmt::Write;

    #[test]
    fn captures_beyond_the_budget_are_kept() {
        let mut text = "graph(%h0 : Float(4), %x : Float(4)):\n".to_owned();
        for i in 0..MOST_VALUES / 2 + 1 {
            let step =
                format!("  %a{i} : Float(4) = aten::relu(%h{i})\n  %h{} : Float(4) = aten::mul(%a{i}, %x)\n", i + 1);
            text.write_str(&step).expect("a text can be written to");
        }
        writeln!(text, "  return (%h{})", MOST_VALUES / 2 + 1).expect("a text can be written to");
        let mut graph = parse(text.as_bytes(), ParseOptions::default()).expect("a graph").graph;
        let pipeline = Pipeline::parse("differentiate{defined},recompute-captures", &REGISTRY).expect("passes");
        let mut session = Session::default();
        run(&mut graph, &pipeline, &mut session, &mut []).expect("it runs to its end");
        assert_eq!(session.stats.get("recompute-captures.captures-recomputed"), None);
    }
}
