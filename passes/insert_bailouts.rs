//! Replaces guards by bailouts, at which a graph can be left: with all values that the rest of it
//! needs, and a copy of the whole graph to continue in.
//!
//! ```text
//! graph(%x : Tensor, %y : Tensor):           graph(%x : Tensor, %y : Tensor):
//!   %1 : Float(2, 3) = prim::Guard(%x)         %3 : int = prim::BailoutTemplate_0()
//!   %2 : Tensor = aten::mul(%1, %y)      =>    %2 : Float(2, 3) = prim::BailOut[index=0](%3, %x, %y)
//!   return (%2)                                %4 : Tensor = aten::mul(%2, %y)
//!                                              return (%4)
//!                                            with prim::BailoutTemplate_0 = graph(%x : Tensor, %y : Tensor):
//!                                              %2 : Float(2, 3) = prim::BailOut[index=0](%x, %y)
//!                                              …
//! ```
//!
//! Operands are the template, the tested value, and the values live after it, in order of
//! definition; constants are not forwarded, because the template has them, unless they are written
//! to. In loops the counter and the trip count are live throughout, because the rest of the loop is
//! still to run. Up to 1.4 these come first, those of the innermost loop before others (one loop is
//! recorded). The index identifies the corresponding position in the template: later passes may
//! copy the node, and all copies resume at the same position.
//!
//! A value from outside that a loop reads in every iteration is live to the end of each iteration.
//! PyTorch 1.4 omitted that, and could not continue with the next iteration; here the missing
//! values are forwarded after the other live values, unless a forwarded guard supplies them. 2.15
//! also forwards dead params of loops; so does this pass. Linear in nodes and in operands of the
//! created nodes.

mod liveness;

use jitopt_core::analysis::AliasDb;
use jitopt_core::graph_dump;
use jitopt_core::ir::{Attribute, Graph, Node, Value};
use jitopt_core::pass::{PassContext, PassError, PassInfo};
use jitopt_core::symbol::{attr, prim};
use jitopt_core::types::Type;

/// The registry entry.
pub const PASS: PassInfo = PassInfo {
    name: "insert-bailouts",
    aliases: &["insert-bail-outs"],
    summary: "replace guards by bailouts, which leave the graph for a copy that takes any tensors",
    example: "%1 : Float(3) = prim::Guard(%x)  =>  %2 : int = prim::BailoutTemplate_0(), %1 : Float(3) = prim::BailOut[index=0](%2, %x, …)",
    options: &[],
    required: false,
    reads_shapes: false,
    run,
    file: file!(),
};

fn run(graph: &mut Graph, cx: &mut PassContext<'_>) -> Result<(), PassError> {
    let is_old = |&node: &Node| [prim::BAILOUT, prim::BAILOUT_TEMPLATE].contains(&graph.kind(node));
    if let Some(node) = graph.all_nodes().find(is_old) {
        let error = PassError::at(graph, node, "the graph already has bailouts");
        return Err(error.with_help("insert all guards first, and bailouts once"));
    }
    let Some(first) = graph.first(graph.root()) else { return Ok(()) };
    let db = cx.alias(graph);
    cx.rewrite(graph, "templates-inserted", first, |graph| insert(graph, &db));
    let made = graph.all_nodes().filter(|&node| graph.kind(node) == prim::BAILOUT).count();
    cx.count("bailouts-inserted", made as u64);
    graph_dump!("After InsertBailOuts:", graph);
    Ok(())
}

fn insert(graph: &mut Graph, db: &AliasDb) {
    lift_written_constants(graph, db);
    let made: Vec<(Node, Node)> = liveness::at_guards(graph, db)
        .into_iter()
        .enumerate()
        .map(|(index, (guard, live))| (guard, bailout(graph, guard, index, &live)))
        .collect();
    // Only now: a value live at a later bailout may be the result of this one.
    for &(guard, bailout) in &made {
        let (old, new) = (graph.output(guard, 0), graph.output(bailout, 0));
        graph.replace_all_uses(old, new);
        graph.insert_after(guard, bailout);
        graph.erase(guard);
    }
    // Values have the same names in the template: constants whose contents the text does not show
    // are identified by name.
    let mut copy = graph.clone();
    copy.end_rewrite(None);
    let template = graph.create_op(prim::BAILOUT_TEMPLATE, &[], Type::int());
    graph.set_attribute(template, attr::SUBGRAPH, Attribute::Graph(Box::new(copy)));
    graph.prepend(graph.root(), template);
    let template = graph.output(template, 0);
    for (_, bailout) in made {
        graph.insert_input(bailout, 0, template);
    }
}

/// Moves constants that are written to to the start of the graph. Such a constant is one object in
/// every iteration of a loop, and must be the same object in the template: so it is forwarded, from
/// wherever the graph is left.
fn lift_written_constants(graph: &mut Graph, db: &AliasDb) {
    let is_written =
        |&node: &Node| graph.kind(node) == prim::CONSTANT && graph.outputs(node).any(|value| db.reaches_writers(value));
    let written: Vec<Node> = graph.all_nodes().filter(is_written).collect();
    for node in written.into_iter().rev() {
        graph.detach(node);
        graph.prepend(graph.root(), node);
    }
}

/// A bailout for a guard, not yet in a block, and without its template.
fn bailout(graph: &mut Graph, guard: Node, index: usize, live: &[Value]) -> Node {
    let (value, ty) = (graph.input(guard, 0), graph.ty(graph.output(guard, 0)));
    let operands: Vec<Value> = [value].into_iter().chain(live.iter().copied()).collect();
    let node = graph.create_op(prim::BAILOUT, &operands, ty);
    graph.set_attribute(node, attr::INDEX, Attribute::Int(index as i64));
    node
}
