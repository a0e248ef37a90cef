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
//! A graph without such subgraphs, all of whose operators have a formula, becomes one. The formulas are a column of the operator table, `ops/gradients.txt`; they agree with
//! eager mode where PyTorch's do not, at ties and bounds. What a formula needs of the forward run is returned behind the results, or is a param already. See
//! `differentiate/reverse_graph.rs` for how the backward graph is made and `differentiate/captured_values.rs` for how it is cut off.
//!
//! The attributes say which values correspond. PyTorch keeps them and the backward graph too, but does not print them; here they are text, so that a graph that is
//! differentiated can be saved, edited and run:
//!
//! - `f_real_outputs`: how many results the subgraph had.
//! - `df_input_vjps`: the results, the returned values that were added among them, whose gradients are the first params of the backward graph.
//! - `df_input_captured_inputs`, `df_input_captured_outputs`: the params and the results that are its other params.
//! - `df_output_vjps`: the params whose gradients it returns, in a tuple.
//!
//! Linear in nodes and what formulas write. A subgraph that has its backward graph is left alone, and so is one that PyTorch has printed without it; so the pass is idempotent.

mod activity;
mod captured_values;
mod fitting;
mod formula_writer;
pub(crate) mod joint_graph;
mod nested_groups;
mod reverse_graph;

use formula_writer::{Thing, Writer};
use jitopt_core::analysis::grad_mode::is_about_grad_mode;
use jitopt_core::analysis::gradient_claims::forget_claims;
use jitopt_core::analysis::gradient_roles::Roles;
use jitopt_core::ir::{Attribute, Graph, Node, Value, ValueMap};
use jitopt_core::ops::gradient_table::function;
use jitopt_core::pass::{PassContext, PassError, PassInfo, PassOption};
use jitopt_core::symbol::{attr, prim};
use jitopt_core::types::release::Release;
use jitopt_core::types::{Strides, TensorType, Type, TypeKind};
use jitopt_core::{graph_dump, graph_update};
use reverse_graph::Undifferentiable;

/// The row.
pub const PASS: PassInfo = PassInfo {
    name: "differentiate",
    aliases: &[],
    summary: "give differentiable subgraphs the graphs that compute their gradients",
    example: "%z : Tensor = prim::DifferentiableGraph_0(%x)  =>  %z : Tensor = prim::DifferentiableGraph_0[f_real_outputs=1, …](%x), and its backward graph",
    options: &[
        PassOption {
            name: "groups-only",
            default: "false",
            summary: "leave a graph without differentiable subgraphs alone, as behind `create-autodiff-subgraphs`",
        },
        PassOption {
            name: "whole",
            default: "false",
            summary: "differentiate the graph around groups as well, which count as operators with their backward graphs for formulas",
        },
        PassOption {
            name: "defined",
            default: "false",
            summary: "say in types that gradients of all results are given, and no others: what is so in most calls",
        },
        PassOption {
            name: "eager",
            default: "false",
            summary: "stop gradients at bounds and conditions as eager mode does, which PyTorch's formulas multiply with 0: infinite ones make NaN there",
        },
        PassOption {
            name: "joint",
            default: "false",
            summary: "make one graph of both, with the gradients of results behind its params, and those of params behind its results",
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
    // A pass that looked for groups has said what may be differentiated, also where it found none.
    let is_told = cx.flag("groups-only")? || cx.has_run("create-autodiff-subgraphs");
    let is_whole = cx.flag("whole")?;
    let takes_all = if groups.is_empty() { is_whole || !is_told } else { is_whole && !is_one };
    if let Some(first) = graph.first(graph.root()).filter(|_| groups.is_empty() && !takes_all) {
        cx.missed(graph, "graphs-differentiated", first, || "there are no differentiable subgraphs".to_owned());
    }
    for group in groups {
        if has_hidden_results(graph, group) {
            cx.missed(graph, "graphs-differentiated", group, || "it had its gradient when it was printed".to_owned());
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

/// Makes a plain graph of one that is a differentiated group and nothing else.
fn join(graph: &mut Graph, cx: &mut PassContext<'_>) -> Result<(), PassError> {
    let first = graph.first(graph.root());
    let Some((group, roles)) = joint_graph::whole(graph) else {
        let why = match first {
            Some(_) => {
                "`joint` takes a graph that is one differentiable group, whose params and results are its own, or becomes one"
            }
            None => "`joint` finds nothing to differentiate: no node makes a result",
        };
        let at = first.unwrap_or(graph.return_node(graph.root()));
        return Err(PassError::at(graph, at, why).with_help("`inline-autodiff-subgraphs` puts groups back"));
    };
    if let Some(list) = joint_graph::result_without_gradient(graph, group, &roles) {
        let name = graph.name(list);
        let why = format!("`joint` takes gradients of tensors, and not of `%{name}`, which is a list of them");
        return Err(PassError::at(graph, group, why).with_help("let the graph return the tensors themselves"));
    }
    cx.rewrite(graph, "graphs-joined", group, |graph| {
        graph_update!("Joining a group of {} operands and its backward graph", graph.num_inputs(group));
        joint_graph::join(graph, group, &roles);
    });
    Ok(())
}

/// Whether a section returns more than its node has, and nothing tells what for: PyTorch prints groups that have their gradient so.
fn has_hidden_results(graph: &Graph, group: Node) -> bool {
    let more = |section: &Graph| section.results(section.root()).len() != graph.num_outputs(group);
    graph.attribute(group, attr::F_REAL_OUTPUTS).is_none() && graph.subgraph(group).is_some_and(more)
}

/// A function of the table as a graph of its own: what PyTorch's backward graphs call instead of having it in them.
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

/// What to do about a node that cannot be differentiated, in a graph that was to be one group.
///
/// Eager gradients are asked for by whoever runs the graph, and are of all of it.
fn way_round(graph: &Graph, node: Node, is_eager: bool) -> String {
    let help = match graph.kind(node) {
        prim::GRAD_OF => "`specialize-autogradzero` puts formulas of gradients that are given in their place",
        prim::TUPLE_CONSTRUCT => "`lower-all-tuples` first",
        prim::GUARD | prim::BAILOUT => {
            "differentiate first, and guard the graphs that come of it; `jitopt run --grads` takes the graph without its guards"
        }
        _ if is_about_grad_mode(graph, node) => "`jitopt run --grads` follows what a run does without gradients",
        prim::IF | prim::LOOP => "`jitopt run --grads` differentiates what a run did",
        _ if graph.block_of(node) != Some(graph.root()) => "`jitopt run --grads` differentiates what a run did",
        kind if kind.as_str().ends_with('_') => {
            "`shape-analysis{precise},remove-mutation,functionalize`, which `jitopt run --grads` runs, make memory anew that nobody else looks into; `--remarks` tells why they leave this"
        }
        _ => {
            "`create-autodiff-subgraphs` first differentiates what has formulas, and leaves the rest to eager mode; `jitopt run --grads` takes no graph that has one without"
        }
    };
    if is_eager {
        return help.to_owned();
    }
    format!(
        "{help}; a graph without differentiable subgraphs, as this is, is differentiated as a whole, and left alone by `differentiate{{groups-only}}`"
    )
}

/// Makes one group of the whole graph.
fn wrap_all(graph: &mut Graph, cx: &mut PassContext<'_>) -> Result<Option<Node>, PassError> {
    let mut whole = graph.clone();
    forget_claims(&mut whole);
    if let Some(found) = reverse_graph::obstacle(&whole) {
        let help = way_round(graph, found.node, cx.flag("eager")?);
        return Err(PassError::at(graph, found.node, found.why).with_help(help));
    }
    let Some(first) = graph.first(graph.root()) else { return Ok(None) };
    Ok(cx.rewrite(graph, "graphs-grouped", first, |graph| {
        graph_update!("Grouping all nodes");
        forget_claims(graph);
        let section = graph.clone();
        let group = graph.create(prim::DIFFERENTIABLE_GRAPH);
        let params: Vec<Value> = graph.params(graph.root()).collect();
        let results: Vec<Value> = graph.results(graph.root()).collect();
        let end = graph.return_node(graph.root());
        graph.remove_inputs(end);
        let nodes: Vec<Node> = graph.nodes(graph.root()).collect();
        for &node in nodes.iter().rev() {
            graph.erase(node);
        }
        graph.set_inputs(group, params.into_iter());
        graph.set_attribute(group, attr::SUBGRAPH, Attribute::Graph(Box::new(section)));
        graph.append(graph.root(), group);
        for (i, result) in results.into_iter().enumerate() {
            let inside = |section: &Graph| section.input(section.return_node(section.root()), i);
            let name = graph
                .subgraph(group)
                .filter(|section| section.is_named(inside(section)) && !section.is_param(inside(section)))
                .map(|section| section.name(inside(section)));
            let output = graph.add_output(group, graph.ty(result));
            if let Some(name) = name {
                graph.set_name(output, name.as_bytes());
            }
            graph.add_result(graph.root(), output);
        }
        group
    }))
}

/// Gives one group its backward graph.
fn differentiate(graph: &mut Graph, cx: &mut PassContext<'_>, group: Node) -> Result<(), PassError> {
    if let Some(Undifferentiable { node, why }) = graph.subgraph(group).and_then(reverse_graph::obstacle) {
        let section = graph.subgraph(group).expect("it was looked into");
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
    // What replaced operators left them behind.
    crate::dead_code_elimination::eliminate(&mut forward, cx, true);
    if cx.flag("defined")? {
        tell_defined(&forward, &mut backward, &roles);
    }
    graph.set_attribute(group, attr::SUBGRAPH, Attribute::Graph(forward));
    graph.set_attribute(group, attr::REVERSE_SUBGRAPH, Attribute::Graph(Box::new(backward)));
    roles.note(graph, group);
    Ok(())
}

/// The type of the gradient of a value, which is given or not. Where its elements lie is up to who gives it.
pub(crate) fn gradient_type(of: Type, is_given: bool) -> Type {
    let known = of.as_tensor().filter(|_| is_given).cloned().unwrap_or_default();
    let strides = Strides::Unknown;
    Type::new(TypeKind::Tensor(TensorType { undefined: Some(!is_given), requires_grad: None, strides, ..known }))
}

/// Gives the gradients of results the types of these, and those of values that are only kept the type of what is not there.
fn tell_defined(forward: &Graph, backward: &mut Graph, roles: &Roles) {
    let results: Vec<Type> = forward.results(forward.root()).map(|result| forward.ty(result)).collect();
    let params: Vec<Value> = backward.params(backward.root()).collect();
    for (&i, param) in roles.input_vjps.iter().zip(params) {
        backward.set_type(param, gradient_type(results[i], i < roles.real_outputs));
    }
}
