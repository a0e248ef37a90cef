//! Makes places of guards where a graph can be left: with all that the rest of it needs, and a copy of the whole to go on with.
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
//! Operands are the template, what is tested, and what is live behind it, in the order in which values were made; constants are not handed on, the
//! template has them, unless somebody writes to them. In loops the counter and the number of turns are live all the way, for the rest of the loop is still to run. Up to 1.4
//! these come first, those of the innermost loop before others (one loop is recorded). The index names the place in the template that stands for
//! this one: later passes may copy the node, and all copies resume in the same place.
//!
//! What a loop reads in every turn but was given from outside is live to the end of each turn. PyTorch 1.4 forgot that, and could not go on with the
//! next turn; here what is missing is handed on behind the rest of what is live, unless a guard that is handed on tells it. 2.15 hands on
//! params of loops that are dead, too; so does this. Linear in nodes and in operands of what it makes.

mod liveness;

use jitopt_core::analysis::AliasDb;
use jitopt_core::ir::{Attribute, Graph, Node, Value};
use jitopt_core::pass::{PassContext, PassError, PassInfo};
use jitopt_core::symbol::{attr, prim};
use jitopt_core::types::Type;
use jitopt_core::{graph_dump, planted};

/// The texts that have sites of mutants.
#[cfg(feature = "mutants")]
pub const TEXTS: &[&str] = &[include_str!("insert_bailouts/liveness.rs")];

/// The row.
pub const PASS: PassInfo = PassInfo {
    name: "insert-bailouts",
    aliases: &["insert-bail-outs"],
    summary: "make places of guards where the graph can be left for a copy that takes any tensors",
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
        let error = PassError::at(graph, node, "the graph has bailouts already");
        return Err(error.with_help("put all guards in first, and bailouts once"));
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
    // Only now: what is live at a later one may be the result of this.
    for &(guard, bailout) in &made {
        let (old, new) = (graph.output(guard, 0), graph.output(bailout, 0));
        graph.replace_all_uses(old, new);
        graph.insert_after(guard, bailout);
        graph.erase(guard);
    }
    // Values are called there as they are here: contents that the text does not show go by names.
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

/// Moves constants that somebody writes to, to the start. They are one memory in each turn of a loop, and must be the same one in the template: so they are
/// handed on, from wherever the graph is left.
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
    let index = planted!("bailouts.index", index, "first" => 0);
    graph.set_attribute(node, attr::INDEX, Attribute::Int(index as i64));
    node
}
