//! Replaces calls by the graphs they call.
//!
//! ```text
//! %f : Function = prim::Constant[name="scale"]()         %f : Function = prim::Constant[name="scale"]()
//! %y : Tensor = prim::CallFunction(%f, %x)         =>    %2 : float = prim::Constant[value=2.]()
//!                                                        %y : Tensor = aten::mul(%x, %2)
//! ```
//!
//! Printed graphs do not contain the graphs that they call: `--callee NAME=FILE` gives them. A
//! function is identified by the name in its constant, a method by `__torch__.Class.method`,
//! `Class.method` or `method`. Callees are prepared first: their own calls are inlined into them,
//! and from 1.5 on their constants are pooled, as in PyTorch. A call whose graph is not given
//! stays, with a remark. The function's constant stays, for `dce` to remove.
//!
//! Linear in the nodes of the result.
//!
//! Names of the callee win, as in PyTorch: copying a node copies names, and a name that is taken
//! goes to the new value. After `inline`, a param `%y` may be `%y.1`.

use crate::constant_pooling;
use crate::differentiate::function_graph;
use jitopt_core::ir::{Attribute, Graph, Node, Value, ValueMap};
use jitopt_core::ops::gradient_table::function;
use jitopt_core::outlining::copied;
use jitopt_core::pass::{PassContext, PassError, PassInfo};
use jitopt_core::symbol::{Symbol, attr, prim};
use jitopt_core::types::TypeKind;
use jitopt_core::types::era::Era;
use jitopt_core::types::release::Release;
use jitopt_core::{graph_dump, graph_update};
use std::collections::BTreeMap;
use std::rc::Rc;

/// The registry entry.
pub const PASS: PassInfo = PassInfo {
    name: "inline",
    aliases: &[],
    summary: "replace calls of functions and methods by their graphs, given with --callee",
    example: "%y : Tensor = prim::CallFunction(%scale, %x)  =>  %y : Tensor = aten::mul(%x, %2)",
    options: &[],
    required: false,
    reads_shapes: false,
    run,
    file: file!(),
};

/// The maximum depth of calls; TorchScript has no recursion, so a deeper one is a callee that calls
/// itself.
const MAX_DEPTH: usize = 200;

/// The maximum number of nodes that the calls of a graph and of its callees become, which are in
/// memory together: ten times those of the largest known models. Forty methods that each call the
/// previous one twice would become 2^40.
const MAX_NODES: usize = 1 << 19;

fn run(graph: &mut Graph, cx: &mut PassContext<'_>) -> Result<(), PassError> {
    graph_dump!("Before inlining", graph);
    inline_calls(graph, cx, &mut Prepared::default(), 0)?;
    graph_dump!("After inlining", graph);
    Ok(())
}

/// Callees whose own calls are inlined.
#[derive(Default)]
struct Prepared {
    /// Each with its number of nodes, by the name it was found under.
    callees: BTreeMap<String, (Rc<Graph>, usize)>,
    /// The nodes that calls have become so far.
    inlined: usize,
}

fn inline_calls(
    graph: &mut Graph,
    cx: &mut PassContext<'_>,
    prepared: &mut Prepared,
    depth: usize,
) -> Result<(), PassError> {
    let calls: Vec<Node> = graph.all_nodes().filter(|&node| is_call(graph, node)).collect();
    for call in calls {
        let Some(name) = callee_of(graph, call, cx) else {
            cx.missed(graph, "calls-inlined", call, || "its graph is not given: pass it with --callee".to_owned());
            continue;
        };
        if depth > MAX_DEPTH {
            return Err(PassError::at(
                graph,
                call,
                format!("calls nest deeper than {MAX_DEPTH}: does a callee call itself?"),
            ));
        }
        let known = prepared.callees.get(&name);
        let (callee, size) = match known {
            Some(known) => known.clone(),
            None => prepare(name, graph.release(), cx, prepared, depth)?,
        };
        check(graph, call, &callee)?;
        prepared.inlined += size;
        if prepared.inlined > MAX_NODES {
            return Err(PassError::too_large(format!("the calls of a graph would become more than {MAX_NODES} nodes")));
        }
        cx.rewrite(graph, "calls-inlined", call, |graph| inline(graph, call, &callee));
    }
    Ok(())
}

fn prepare(
    name: String,
    release: Release,
    cx: &mut PassContext<'_>,
    prepared: &mut Prepared,
    depth: usize,
) -> Result<(Rc<Graph>, usize), PassError> {
    let given = cx.callee(&name).cloned().or_else(|| function_graph(release, &name));
    let mut callee = given.expect("the callee was found by name above");
    inline_calls(&mut callee, cx, prepared, depth + 1)?;
    if release.era() == Era::V2 {
        constant_pooling::pool(&mut callee, cx);
    }
    let size = callee.all_nodes().count();
    let callee = (Rc::new(callee), size);
    prepared.callees.insert(name, callee.clone());
    Ok(callee)
}

fn is_call(graph: &Graph, node: Node) -> bool {
    matches!(graph.kind(node), prim::CALL_FUNCTION | prim::CALL_METHOD)
}

/// The name under which the graph of a callee was given.
fn callee_of(graph: &Graph, call: Node, cx: &PassContext<'_>) -> Option<String> {
    let first = graph.inputs(call).next()?;
    let mut names = Vec::new();
    if graph.kind(call) == prim::CALL_FUNCTION {
        let constant = graph.definer(first).filter(|&node| graph.kind(node) == prim::CONSTANT)?;
        names.push(text(graph, constant, attr::NAME)?);
    } else {
        let method = text(graph, call, attr::NAME)?;
        if let TypeKind::Class(class) = graph.ty(first).kind() {
            let short = class.as_str().rsplit('.').next().unwrap_or_default();
            names.extend([format!("{class}.{method}"), format!("{short}.{method}")]);
        }
        names.push(method);
    }
    names
        .into_iter()
        .find(|name| cx.callee(name).is_some() || function(graph.release(), name).is_some())
        .filter(|name| !cx.callee(name).is_some_and(may_be_left))
}

/// Whether a graph has bailouts. A bailout continues with the rest of that graph, and not of one
/// around it: it must stay a graph of its own.
pub(crate) fn may_be_left(graph: &Graph) -> bool {
    graph.all_nodes().any(|node| graph.kind(node) == prim::BAILOUT_TEMPLATE)
}

fn text(graph: &Graph, node: Node, name: Symbol) -> Option<String> {
    match graph.attribute(node, name)? {
        Attribute::Str(bytes) => Some(String::from_utf8_lossy(bytes).into_owned()),
        _ => None,
    }
}

/// The operands that are passed to the callee: a method gets `self`, a function does not get
/// itself.
fn arguments(graph: &Graph, call: Node) -> Vec<Value> {
    let skip = usize::from(graph.kind(call) == prim::CALL_FUNCTION);
    graph.inputs(call).skip(skip).collect()
}

fn check(graph: &Graph, call: Node, callee: &Graph) -> Result<(), PassError> {
    let (given, wanted) = (arguments(graph, call).len(), callee.params(callee.root()).len());
    let (outputs, results) = (graph.num_outputs(call), callee.results(callee.root()).len());
    if given != wanted {
        return Err(PassError::at(
            graph,
            call,
            format!("the callee takes {wanted} arguments, but this call passes {given}"),
        ));
    }
    if outputs != results {
        return Err(PassError::at(
            graph,
            call,
            format!("the callee returns {results} values, but this call has {outputs} outputs"),
        ));
    }
    Ok(())
}

/// Replaces `call` by the body of `callee`.
fn inline(graph: &mut Graph, call: Node, callee: &Graph) {
    graph_update!(
        "Inlining {} of %{}",
        graph.kind(call),
        graph.outputs(call).next().map_or(String::new(), |v| graph.name(v))
    );
    let (params, arguments) = (callee.params(callee.root()), arguments(graph, call));
    let mut map: ValueMap = params.zip(arguments).collect();
    let first = callee.first(callee.root());
    let mut cursor = first;
    while let Some(node) = cursor {
        cursor = callee.next(node);
        let copy = copied(graph, callee, node, &mut map);
        graph.insert_before(call, copy);
    }
    let results: Vec<Value> = callee.results(callee.root()).collect();
    for (i, result) in results.into_iter().enumerate() {
        let (new, old) = (graph.mapped(Some(callee), result, &mut map), graph.output(call, i));
        if !graph.is_param(new) && callee.params(callee.root()).all(|p| p != result) {
            graph.move_name(old, new);
        }
        graph.replace_all_uses(old, new);
    }
    graph.erase(call);
}
