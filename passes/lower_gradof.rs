//! Converts gradient formulas to branches: a formula runs when one of its gradients is defined.
//!
//! ```text
//! %g : Tensor = prim::GradOf[name="aten::mul"](%0)      %any : int = prim::AutogradAnyNonZero(%0)
//!   block0():                                           %g : Tensor = prim::If(%any)
//!     %m : Tensor = aten::mul(%0, %y)              =>     block0():
//!     -> (%m)                                               %m : Tensor = aten::mul(%0, %y)
//!                                                           -> (%m)
//!                                                         block1():
//!                                                           %z : Tensor = prim::AutogradZero()
//!                                                           -> (%z)
//! ```
//!
//! Run `specialize-autogradzero` first: formulas that it decides need no branch. The formula is
//! moved, not copied. In PyTorch the condition is an int, in all versions. Linear in nodes;
//! idempotent.

use jitopt_core::ir::{Graph, Node, Value};
use jitopt_core::pass::{PassContext, PassError, PassInfo};
use jitopt_core::symbol::prim;
use jitopt_core::types::Type;
use jitopt_core::{graph_dump, graph_update};

/// The registry entry.
pub const PASS: PassInfo = PassInfo {
    name: "lower-gradof",
    aliases: &["lower-grad-of"],
    summary: "convert gradient formulas to branches that run when one of their gradients is defined",
    example: "%g : Tensor = prim::GradOf[name=\"aten::mul\"](%0) …  =>  %any : int = prim::AutogradAnyNonZero(%0), %g : Tensor = prim::If(%any) …",
    options: &[],
    required: false,
    reads_shapes: false,
    run,
    file: file!(),
};

fn run(graph: &mut Graph, cx: &mut PassContext<'_>) -> Result<(), PassError> {
    graph_dump!("Before lowering gradient formulas", graph);
    let formulas: Vec<Node> = graph.all_nodes().filter(|&node| graph.kind(node) == prim::GRAD_OF).collect();
    for node in formulas {
        cx.rewrite(graph, "formulas-lowered", node, |graph| lower(graph, node));
    }
    graph_dump!("After lowering gradient formulas", graph);
    Ok(())
}

fn lower(graph: &mut Graph, node: Node) {
    graph_update!("Lowering the formula on {} gradients", graph.num_inputs(node));
    let gradients: Vec<Value> = graph.inputs(node).collect();
    let any = graph.create_op(prim::AUTOGRAD_ANY_NON_ZERO, &gradients, Type::int());
    graph.insert_before(node, any);
    let branch = graph.create(prim::IF);
    graph.add_input(branch, graph.output(any, 0));
    graph.insert_before(node, branch);
    graph.copy_location(node, branch);
    let (formula, defined, undefined) = (graph.node_block(node, 0), graph.add_block(branch), graph.add_block(branch));
    let body: Vec<Node> = graph.nodes(formula).collect();
    for moved in body {
        graph.detach(moved);
        graph.append(defined, moved);
    }
    let results: Vec<Value> = graph.results(formula).collect();
    for (i, result) in results.into_iter().enumerate() {
        let old = graph.output(node, i);
        let zero = graph.create_op(prim::AUTOGRAD_ZERO, &[], Type::tensor());
        graph.append(undefined, zero);
        graph.add_result(defined, result);
        graph.add_result(undefined, graph.output(zero, 0));
        let new = graph.add_output(branch, graph.ty(old));
        graph.replace_all_uses(old, new);
    }
    graph.erase(node);
}
