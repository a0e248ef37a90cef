//! Infers facts about tensors from operands: element type, sizes, strides, device, `requires_grad`.
//!
//! ```text
//! graph(%x : Float(2, 1, device=cpu), %n : int):        graph(%x : Float(2, 1, device=cpu), %n : int):
//!   %y : Tensor = aten::mul(%x, %n)               =>      %y : Float(2, 1, device=cpu) = aten::mul(%x, %n)
//! ```
//!
//! Without options the facts are those of PyTorch's `complete_shape_analysis` of the era of the
//! graph: complete types for some operators when the types of their operands are complete, rank and
//! element type for many others, nothing for the rest. With `{precise}` they are all that our rules
//! can infer, and unknown sizes get symbols, `SS(-2)`: equal symbols are equal sizes.
//!
//! The rules are a column of the operator table (`ops/shape_rules.rs`, `analysis/inference.rs`);
//! `shape_analysis/flow.rs` propagates facts through blocks, tuples and casts. Types in the text
//! are kept, and refined. Nothing is inferred for a tensor whose shape may change in place.
//!
//! Known errors of PyTorch are not copied: the product of a 2 by 3 and a 3 by 4 matrix is 2 by 4
//! also by `aten::matmul`, an `aten::argmax` is a tensor of Long, the sine of a Long tensor is
//! floating point, a list that `aten::chunk` returns is a list, a copy without a gradient has none.
//! PyTorch also inserts an `aten::expand` before some operators that broadcast; this pass does not:
//! the operators broadcast by themselves.
//!
//! The log gives the basis of every inferred type: `JIT_LOG_LEVEL=shape_analysis`.
//!
//! Optimistic fixpoint with one worklist; a node is revisited when the type of an operand became
//! less specific, a bounded number of times.

mod flow;

pub(crate) use flow::reshapes;
use flow::{Flow, Mode, Refined};
use jitopt_core::ir::{Graph, Node};
use jitopt_core::pass::{PassContext, PassError, PassInfo, PassOption};
use jitopt_core::{graph_dump, graph_update};

/// The registry entry.
pub const PASS: PassInfo = PassInfo {
    name: "shape-analysis",
    aliases: &["complete-shape-analysis", "propagate-input-shapes", "propagate-shapes-on-graph"],
    summary: "infer element types, sizes, strides and devices of tensors",
    example: "%y : Tensor = aten::neg(%x)  =>  %y : Float(2, 3) = aten::neg(%x)",
    options: &[PassOption {
        name: "precise",
        default: "false",
        summary: "infer all facts, not only those that PyTorch infers; unknown sizes get symbols",
    }],
    required: false,
    reads_shapes: true,
    run,
    file: file!(),
};

fn run(graph: &mut Graph, cx: &mut PassContext<'_>) -> Result<(), PassError> {
    let mode = if cx.flag("precise")? { Mode::Precise } else { Mode::AsPyTorch };
    graph_dump!("Before shape analysis", graph);
    let db = cx.alias(graph);
    let mut flow = Flow::new(graph, db, mode);
    flow.run();
    let found = flow.finish();
    for (node, types) in found {
        set_types(graph, cx, node, types);
    }
    graph_dump!("After shape analysis", graph);
    Ok(())
}

/// Gives the outputs of a node their types.
fn set_types(graph: &mut Graph, cx: &mut PassContext<'_>, node: Node, types: Vec<Refined>) {
    cx.rewrite(graph, "types-refined", node, |graph| {
        for (value, ty, basis) in types {
            graph_update!("%{} : {ty}, {basis}", graph.name(value));
            graph.set_type(value, ty);
        }
    });
}
