//! Replaces calls by the graphs they call.
//!
//! ```text
//! %f : Function = prim::Constant[name="scale"]()         %f : Function = prim::Constant[name="scale"]()
//! %y : Tensor = prim::CallFunction(%f, %x)         =>    %2 : float = prim::Constant[value=2.]()
//!                                                        %y : Tensor = aten::mul(%x, %2)
//! ```
//!
//! Printed graphs do not hold what they call: `--callee NAME=FILE` gives it. A function goes by the name in its constant, a
//! method by `__torch__.Class.method`, `Class.method` or `method`. Calls in what was inlined are inlined too; a call whose
//! graph was not given stays, and is remarked. As in PyTorch the function's constant stays, for `dce` to remove.
//!
//! Linear in the nodes of the result.

use jitopt_core::ir::{Attribute, Graph, Node, Value, ValueMap};
use jitopt_core::pass::{PassContext, PassError, PassInfo};
use jitopt_core::symbol::{Symbol, attr, prim};
use jitopt_core::types::TypeKind;
use jitopt_core::{graph_dump, graph_update};

/// The row.
pub const PASS: PassInfo = PassInfo {
    name: "inline",
    aliases: &[],
    summary: "replace calls of functions and methods by their graphs, given with --callee",
    example: "%y : Tensor = prim::CallFunction(%scale, %x)  =>  %y : Tensor = aten::mul(%x, %2)",
    options: &[],
    required: false,
    run,
    file: file!(),
};

/// Calls may nest so deep; TorchScript has no recursion, so more is a callee that calls itself.
const MAX_DEPTH: usize = 1000;

fn run(graph: &mut Graph, cx: &mut PassContext<'_>) -> Result<(), PassError> {
    graph_dump!("Before inlining", graph);
    // Deepest first in: what an inlined body calls is looked at before what follows it.
    let calls = |graph: &Graph| graph.all_nodes().filter(|&node| is_call(graph, node)).collect::<Vec<_>>();
    let mut work: Vec<(Node, usize)> = calls(graph).into_iter().rev().map(|node| (node, 0)).collect();
    while let Some((call, depth)) = work.pop() {
        let Some(callee) = callee_of(graph, call, cx).cloned() else {
            cx.missed(graph, "calls-inlined", call, || "its graph was not given; name it with --callee".to_owned());
            continue;
        };
        check(graph, call, &callee, depth)?;
        let inlined = cx.rewrite(graph, "calls-inlined", call, |graph| inline(graph, call, &callee));
        work.extend(inlined.into_iter().flatten().rev().map(|node| (node, depth + 1)));
    }
    graph_dump!("After inlining", graph);
    Ok(())
}

fn is_call(graph: &Graph, node: Node) -> bool {
    matches!(graph.kind(node), prim::CALL_FUNCTION | prim::CALL_METHOD)
}

/// The graph that a call calls, when it was given.
fn callee_of<'c>(graph: &Graph, call: Node, cx: &'c PassContext<'_>) -> Option<&'c Graph> {
    let first = graph.inputs(call).next()?;
    if graph.kind(call) == prim::CALL_FUNCTION {
        let constant = graph.definer(first).filter(|&node| graph.kind(node) == prim::CONSTANT)?;
        return cx.callee(&text(graph, constant, attr::NAME)?);
    }
    let method = text(graph, call, attr::NAME)?;
    let TypeKind::Class(class) = graph.ty(first).kind() else { return cx.callee(&method) };
    let short = class.as_str().rsplit('.').next().unwrap_or_default();
    let names = [format!("{class}.{method}"), format!("{short}.{method}"), method];
    names.iter().find_map(|name| cx.callee(name))
}

fn text(graph: &Graph, node: Node, name: Symbol) -> Option<String> {
    match graph.attribute(node, name)? {
        Attribute::Str(bytes) => Some(String::from_utf8_lossy(bytes).into_owned()),
        _ => None,
    }
}

/// The operands that are handed to the callee: a method gets `self`, a function does not get itself.
fn arguments(graph: &Graph, call: Node) -> Vec<Value> {
    let skip = usize::from(graph.kind(call) == prim::CALL_FUNCTION);
    graph.inputs(call).skip(skip).collect()
}

fn check(graph: &Graph, call: Node, callee: &Graph, depth: usize) -> Result<(), PassError> {
    let (given, wanted) = (arguments(graph, call).len(), callee.params(callee.root()).len());
    let (outputs, results) = (graph.num_outputs(call), callee.results(callee.root()).len());
    if given != wanted {
        return Err(PassError::at(call, format!("the callee takes {wanted} arguments, this call gives {given}")));
    }
    if outputs != results {
        return Err(PassError::at(call, format!("the callee returns {results} values, this call has {outputs} outputs")));
    }
    match depth < MAX_DEPTH {
        true => Ok(()),
        false => Err(PassError::at(call, format!("calls nest deeper than {MAX_DEPTH}: does a callee call itself?"))),
    }
}

/// Puts the body of `callee` in place of `call`; returns the calls that the body holds.
fn inline(graph: &mut Graph, call: Node, callee: &Graph) -> Vec<Node> {
    graph_update!("Inlining {} of %{}", graph.kind(call), graph.outputs(call).next().map_or(String::new(), |v| graph.name(v)));
    let (params, arguments) = (callee.params(callee.root()), arguments(graph, call));
    let mut map: ValueMap = params.zip(arguments).collect();
    let mut calls = Vec::new();
    let mut cursor = callee.first(callee.root());
    while let Some(node) = cursor {
        cursor = callee.next(node);
        let copy = graph.copy_node(Some(callee), node, &mut map);
        graph.insert_before(call, copy);
        calls.extend(nested_calls(graph, copy));
    }
    let results: Vec<Value> = callee.results(callee.root()).collect();
    for (i, result) in results.into_iter().enumerate() {
        let (new, old) = (map.get(&result).copied().unwrap_or(result), graph.output(call, i));
        if graph.is_named(old) && !graph.is_param(new) && callee.params(callee.root()).all(|p| p != result) {
            graph.move_name(old, new);
        }
        graph.replace_all_uses(old, new);
    }
    graph.erase(call);
    calls
}

fn nested_calls(graph: &Graph, node: Node) -> Vec<Node> {
    let mut calls = Vec::new();
    let mut work = vec![node];
    while let Some(node) = work.pop() {
        if is_call(graph, node) {
            calls.push(node);
        }
        let nested: Vec<Node> = graph.node_blocks(node).flat_map(|block| graph.nodes(block)).collect();
        work.extend(nested.into_iter().rev());
    }
    calls
}
