//! Gives differentiable subgraphs the graphs that compute their gradients.
//!
//! ```text
//! %z : Tensor = prim::DifferentiableGraph_0(%x, %y)
//! with prim::DifferentiableGraph_0 = graph(%x : Tensor, %y : Tensor):
//!   %z : Tensor = aten::mul(%x, %y)
//!   return (%z)
//! =>
//! %z : Tensor = prim::DifferentiableGraph_0[f_real_outputs=1, df_input_vjps=[0], …](%x, %y)
//! with prim::DifferentiableGraph_0 = graph(%x : Tensor, %y : Tensor):
//!   (%z, and the sizes that were broadcast)
//! with prim::DifferentiableGraph_0.backward = graph(%0 : Tensor, %x : Tensor, …):
//!   %grad_self : Tensor, %grad_other : Tensor = prim::GradOf[name="aten::mul"](%0)
//!     (…)
//!   return (%grads)
//! ```
//!
//! A graph without such subgraphs, all of whose operators have a formula, becomes one subgraph. The
//! formulas are a column of the operator table, `ops/rows/`; they agree with eager mode where
//! PyTorch's do not, at ties and bounds. Values of the forward run that a formula needs are
//! returned after the results, or are params already. See `differentiate/reverse_graph.rs` for the
//! construction of the backward graph and `differentiate/captured_values.rs` for how it is
//! separated from the forward graph.
//!
//! The attributes record which values correspond. PyTorch keeps them and the backward graph too,
//! but does not print them; here they are text, so that a differentiated graph can be saved, edited
//! and run:
//!
//! - `f_real_outputs`: how many results the subgraph had.
//! - `df_input_vjps`: the results, the added returned values among them, whose gradients are the
//!   first params of the backward graph.
//! - `df_input_captured_inputs`, `df_input_captured_outputs`: the params and the results that are
//!   its other params.
//! - `df_output_vjps`: the params whose gradients it returns, in a tuple.
//!
//! Linear in nodes and in the size of the written formulas. A subgraph that has its backward graph
//! is left alone, and so is one that PyTorch has printed without it; so the pass is idempotent.

mod activity;
mod captured_values;
mod fitting;
mod formula_writer;
mod gradient_types;
pub(crate) mod joint_graph;
mod nested_groups;
mod packed_results;
mod reverse_graph;

use formula_writer::{Thing, Writer};
pub(crate) use gradient_types::gradient_type;
use jitopt_core::analysis::grad_mode::is_about_grad_mode;
use jitopt_core::analysis::gradient_claims::forget_claims;
use jitopt_core::analysis::gradient_roles::Roles;
use jitopt_core::ir::{Attribute, Graph, Node, Value, ValueMap};
use jitopt_core::ops::gradient_table::function;
use jitopt_core::pass::{PassContext, PassError, PassInfo, PassOption};
use jitopt_core::symbol::{attr, prim};
use jitopt_core::types::Type;
use jitopt_core::types::release::Release;
use jitopt_core::{graph_dump, graph_update};
use packed_results::Packing;
use reverse_graph::Undifferentiable;
use rustc_hash::FxHashSet;

/// The registry entry.
pub const PASS: PassInfo = PassInfo {
    name: "differentiate",
    aliases: &[],
    summary: "give differentiable subgraphs the graphs that compute their gradients",
    example: "%z : Tensor = prim::DifferentiableGraph_0(%x)  =>  %z : Tensor = prim::DifferentiableGraph_0[f_real_outputs=1, …](%x), and its backward graph",
    options: &[
        PassOption {
            name: "groups-only",
            default: "false",
            summary: "leave a graph without differentiable subgraphs alone, as after `create-autodiff-subgraphs`",
        },
        PassOption {
            name: "whole",
            default: "false",
            summary: "also differentiate the graph around groups, with their backward graphs as the groups' formulas",
        },
        PassOption {
            name: "defined",
            default: "false",
            summary: "declare in types that the gradients of all results are defined, and no others, as in most calls",
        },
        PassOption {
            name: "eager",
            default: "false",
            summary: "stop gradients at bounds and conditions as eager mode does; PyTorch's formulas multiply by 0, which makes infinite gradients NaN",
        },
        PassOption {
            name: "joint",
            default: "false",
            summary: "make one graph of both: gradients of results are params after its own, gradients of params are results after its own",
        },
    ],
    required: false,
    reads_shapes: true,
    run,
    file: file!(),
};

fn run(graph: &mut Graph, cx: &mut PassContext<'_>) -> Result<(), PassError> {
    graph_dump!("Before differentiating", graph);
    let is_group =
        |graph: &Graph, node| graph.kind(node) == prim::DIFFERENTIABLE_GRAPH && graph.subgraph(node).is_some();
    let groups: Vec<Node> = graph.all_nodes().filter(|&node| is_group(graph, node)).collect();
    let is_one = graph.first(graph.root()).is_some_and(|node| graph.next(node).is_none() && groups.contains(&node));
    // A pass that makes groups has decided what is differentiated, even where it made none.
    let is_decided = cx.flag("groups-only")? || cx.has_run("create-autodiff-subgraphs");
    let is_whole = cx.flag("whole")?;
    let takes_all = if groups.is_empty() { is_whole || !is_decided } else { is_whole && !is_one };
    if let Some(first) = graph.first(graph.root()).filter(|_| groups.is_empty() && !takes_all) {
        cx.missed(graph, "graphs-differentiated", first, || "there are no differentiable subgraphs".to_owned());
    }
    for group in groups {
        if has_hidden_results(graph, group) {
            cx.missed(graph, "graphs-differentiated", group, || "the printed group has a gradient already".to_owned());
        } else if graph.attribute(group, attr::F_REAL_OUTPUTS).is_none() {
            differentiate(graph, cx, group)?;
        }
    }
    if takes_all && let Some(whole) = wrap_all(graph, cx)? {
        differentiate(graph, cx, whole)?;
    }
    if cx.flag("joint")? {
        join(graph, cx)?;
    }
    graph_dump!("After differentiating", graph);
    Ok(())
}

/// Makes a plain graph of a graph that consists of one differentiated group.
fn join(graph: &mut Graph, cx: &mut PassContext<'_>) -> Result<(), PassError> {
    let first = graph.first(graph.root());
    let Some((group, roles)) = joint_graph::whole(graph) else {
        let why = match first {
            Some(_) => {
                "`joint` requires a graph that is, or becomes, one differentiable group with the same params and results"
            }
            None => "`joint` found nothing to differentiate: no node computes a result",
        };
        let at = first.unwrap_or(graph.return_node(graph.root()));
        return Err(
            PassError::at(graph, at, why).with_help("run `inline-autodiff-subgraphs` first, which inlines groups")
        );
    };
    if let Some(list) = joint_graph::result_without_gradient(graph, group, &roles) {
        let name = graph.name(list);
        let why = format!("`joint` requires tensor results, and `%{name}` is a list of tensors");
        return Err(PassError::at(graph, group, why).with_help("return the tensors themselves from the graph"));
    }
    cx.rewrite(graph, "graphs-joined", group, |graph| {
        graph_update!("Joining a group of {} operands and its backward graph", graph.num_inputs(group));
        joint_graph::join(graph, group, &roles);
    });
    Ok(())
}

/// Whether a section returns more values than its node has outputs, and no attribute says why:
/// PyTorch prints groups that have their gradient so.
fn has_hidden_results(graph: &Graph, group: Node) -> bool {
    let more = |section: &Graph| section.results(section.root()).len() != graph.num_outputs(group);
    graph.attribute(group, attr::F_REAL_OUTPUTS).is_none() && graph.subgraph(group).is_some_and(more)
}

/// A function of the table as a graph of its own; PyTorch's backward graphs call such functions
/// instead of containing their nodes.
pub fn function_graph(release: Release, name: &str) -> Option<Graph> {
    let function = function(release, name)?;
    let mut graph = Graph::new();
    graph.set_release(release);
    let params: Vec<Thing> = function.types.iter().map(|&ty| Thing::Here(graph.add_param(graph.root(), ty))).collect();
    let (root, mut forward) = (graph.root(), (Graph::new(), ValueMap::default()));
    let mut writer = Writer::inside(&mut graph, &forward.0, &mut forward.1, root);
    let things = writer.function(&function.formals, function.body(), &params).ok()?;
    let results: Vec<Value> = things.into_iter().map(|thing| writer.value(thing)).collect();
    results.into_iter().for_each(|result| graph.add_result(root, result));
    Some(graph)
}

/// Help for a node that cannot be differentiated, in a graph that was to be one group.
///
/// Eager gradients are requested by the command that runs the graph, and are of the whole graph.
fn way_round(graph: &Graph, node: Node, is_eager: bool) -> String {
    let help = match graph.kind(node) {
        prim::GRAD_OF => "`specialize-autogradzero` inlines the formulas of gradients that are defined",
        prim::TUPLE_CONSTRUCT => "run `lower-all-tuples` first",
        prim::GUARD | prim::BAILOUT => {
            "differentiate first, then guard the resulting graphs; `jitopt run --grads` removes the guards of the graph"
        }
        _ if is_about_grad_mode(graph, node) => "`jitopt run --grads` handles regions that run with gradients disabled",
        prim::IF | prim::LOOP => "`jitopt run --grads` differentiates the trace of a run",
        _ if graph.block_of(node) != Some(graph.root()) => "`jitopt run --grads` differentiates the trace of a run",
        kind if kind.as_str().ends_with('_') => {
            "`shape-analysis{precise},remove-mutation,functionalize`, which `jitopt run --grads` runs, replace writes to memory that has no other reader; `--remarks` reports why this write stays"
        }
        _ => {
            "run `create-autodiff-subgraphs` first, to differentiate only the nodes that have formulas and leave the others to eager mode; `jitopt run --grads` requires a formula for every node"
        }
    };
    if is_eager {
        return help.to_owned();
    }
    format!(
        "{help}; this graph has no differentiable subgraphs, so it is differentiated as a whole; `differentiate{{groups-only}}` leaves such a graph alone"
    )
}

/// Makes one group of the whole graph; tuples that its results are packed into stay outside.
fn wrap_all(graph: &mut Graph, cx: &mut PassContext<'_>) -> Result<Option<Node>, PassError> {
    // A joint graph has results of its own.
    let packing = Packing::of(graph, !cx.flag("joint")?);
    let section = unpacked(graph, &packing);
    if let Some(found) = reverse_graph::obstacle(&section) {
        let help = way_round(graph, found.node, cx.flag("eager")?);
        return Err(PassError::at(graph, found.node, found.why).with_help(help));
    }
    let Some(first) = graph.first(graph.root()).filter(|first| !packing.nodes.contains(first)) else { return Ok(None) };
    Ok(cx.rewrite(graph, "graphs-grouped", first, |graph| {
        graph_update!("Grouping all nodes");
        group_all(graph, section, &packing)
    }))
}

/// The graph that goes into the group: it returns what tuples pack.
fn unpacked(graph: &Graph, packing: &Packing) -> Graph {
    let mut section = graph.clone();
    forget_claims(&mut section);
    let root = section.root();
    section.remove_inputs(section.return_node(root));
    packing.nodes.iter().rev().for_each(|&node| section.erase(node));
    packing.leaves.iter().for_each(|&(.., value)| section.add_result(root, value));
    section
}

/// Puts a group with this section in the place of all nodes but those that pack results.
fn group_all(graph: &mut Graph, section: Graph, packing: &Packing) -> Node {
    forget_claims(graph);
    let group = graph.create(prim::DIFFERENTIABLE_GRAPH);
    let params: Vec<Value> = graph.params(graph.root()).collect();
    let packs: FxHashSet<Node> = packing.nodes.iter().copied().collect();
    let erased: Vec<Node> = graph.nodes(graph.root()).filter(|node| !packs.contains(node)).collect();
    graph.set_inputs(group, params.into_iter());
    match packing.nodes.first() {
        Some(&first) => graph.insert_before(first, group),
        None => graph.append(graph.root(), group),
    }
    let names = names_of_results(&section);
    let mut named = Vec::new();
    for (&(reader, i, value), name) in packing.leaves.iter().zip(names) {
        let output = graph.add_output(group, graph.ty(value));
        graph.set_input(reader, i, output);
        named.push((output, name));
    }
    erased.iter().rev().for_each(|&node| graph.erase(node));
    for (output, name) in named {
        name.iter().for_each(|name| graph.set_name(output, name.as_bytes()));
    }
    graph.set_attribute(group, attr::SUBGRAPH, Attribute::Graph(Box::new(section)));
    group
}

/// The names that the results of a section have of their own; a param lends none.
fn names_of_results(section: &Graph) -> Vec<Option<String>> {
    let name = |value| (section.is_named(value) && !section.is_param(value)).then(|| section.name(value));
    section.results(section.root()).map(name).collect()
}

/// Gives one group its backward graph.
fn differentiate(graph: &mut Graph, cx: &mut PassContext<'_>, group: Node) -> Result<(), PassError> {
    if let Some(Undifferentiable { node, why }) = graph.subgraph(group).and_then(reverse_graph::obstacle) {
        let section = graph.subgraph(group).expect("the group has a section, as checked above");
        return Err(PassError::at(section, node, why));
    }
    if !cx.may("graphs-differentiated") {
        return Ok(());
    }
    cx.did(graph, "graphs-differentiated", group);
    graph_update!("Differentiating a group of {} operands", graph.num_inputs(group));
    let mut forward = graph.take_subgraph(group).expect("a group has a section");
    let is_eager = cx.flag("eager")?;
    let may_be_halves = is_eager || cx.flag("joint")?;
    let made = reverse_graph::reverse(&mut forward, is_eager, may_be_halves)
        .map(|reverse| captured_values::cut(&mut forward, reverse, cx));
    let (mut backward, roles) = match made {
        Ok(made) => made,
        Err(Undifferentiable { node, why }) => return Err(PassError::at(&forward, node, why)),
    };
    // Replaced operators are left over.
    crate::dead_code_elimination::eliminate(&mut forward, cx, true);
    if cx.flag("defined")? {
        mark_defined(&forward, &mut backward, &roles);
    }
    graph.set_attribute(group, attr::SUBGRAPH, Attribute::Graph(forward));
    graph.set_attribute(group, attr::REVERSE_SUBGRAPH, Attribute::Graph(Box::new(backward)));
    roles.note(graph, group);
    Ok(())
}

/// Types gradients of results as the results, and gradients of values that are only captured as
/// undefined.
fn mark_defined(forward: &Graph, backward: &mut Graph, roles: &Roles) {
    let results: Vec<Type> = forward.results(forward.root()).map(|result| forward.ty(result)).collect();
    let params: Vec<Value> = backward.params(backward.root()).collect();
    for (&i, param) in roles.input_vjps.iter().zip(params) {
        backward.set_type(param, gradient_type(results[i], i < roles.real_outputs));
    }
}
