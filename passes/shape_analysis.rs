//! Says of tensors what follows from the operands: element type, sizes, strides, device, whether a gradient is wanted.
//!
//! ```text
//! graph(%x : Float(2, 1, device=cpu), %n : int):        graph(%x : Float(2, 1, device=cpu), %n : int):
//!   %y : Tensor = aten::mul(%x, %n)               =>      %y : Float(2, 1, device=cpu) = aten::mul(%x, %n)
//! ```
//!
//! Without options the facts are those of PyTorch's `complete_shape_analysis` of the era of the graph: everything of some operators when
//! everything is known of their operands, rank and element type of many others, nothing of the rest. With `{precise}` they are
//! all that our rules know, and sizes that nobody knows are given numbers, `SS(-2)`: the same number is the same size.
//!
//! The rules are a column of the operator table (`ops/shape_rules.rs`, `analysis/inference.rs`); what flows through blocks,
//! tuples and casts is in `shape_analysis/flow.rs`. Types that the text has are kept, and refined. Where a tensor may be given another
//! shape in place, nothing is said of it.
//!
//! Where PyTorch is wrong we are not: the product of a 2 by 3 and a 3 by 4 matrix is 2 by 4 also by `aten::matmul`, an
//! `aten::argmax` is a tensor of Long, the sine of a Long tensor is real, a list that `aten::chunk` makes is a list, a copy
//! without a gradient has none. It also inserts an `aten::expand` in front of some operators that broadcast; we do not: the operators do that
//! by themselves.
//!
//! Every type that is given says on what it rests, in the log: `JIT_LOG_LEVEL=shape_analysis`.
//!
//! One worklist; a node is looked at again when less is known of an operand than was hoped, a bounded number of times.

mod flow;

pub(crate) use flow::reshapes;
use flow::{Flow, Mode, Refined};
use jitopt_core::ir::{Graph, Node};
use jitopt_core::pass::{PassContext, PassError, PassInfo, PassOption};
use jitopt_core::{graph_dump, graph_update};

/// The row.
pub const PASS: PassInfo = PassInfo {
    name: "shape-analysis",
    aliases: &["complete-shape-analysis", "propagate-input-shapes", "propagate-shapes-on-graph"],
    summary: "say of tensors what element types, sizes, strides and devices follow",
    example: "%y : Tensor = aten::neg(%x)  =>  %y : Float(2, 3) = aten::neg(%x)",
    options: &[PassOption {
        name: "precise",
        default: "false",
        summary: "all that follows, not only what PyTorch tells; unknown sizes get numbers",
    }],
    required: false,
    reads_shapes: true,
    run,
    file: file!(),
};

/// The texts of the files behind this one, which have sites of mutants.
#[cfg(feature = "mutants")]
pub(crate) const TEXTS: &[&str] = &[include_str!("shape_analysis/flow.rs")];

fn run(graph: &mut Graph, cx: &mut PassContext<'_>) -> Result<(), PassError> {
    let mode = if cx.flag("precise")? { Mode::Precise } else { Mode::AsPyTorch };
    graph_dump!("Before shape analysis", graph);
    let db = cx.alias(graph);
    let mut flow = Flow::new(graph, db, mode);
    flow.run();
    let found = flow.finish();
    for (node, types) in found {
        tell(graph, cx, node, types);
    }
    graph_dump!("After shape analysis", graph);
    Ok(())
}

/// Gives the outputs of a node their types.
fn tell(graph: &mut Graph, cx: &mut PassContext<'_>, node: Node, types: Vec<Refined>) {
    cx.rewrite(graph, "types-refined", node, |graph| {
        for (value, ty, basis) in types {
            graph_update!("%{} : {ty}, {basis}", graph.name(value));
            graph.set_type(value, ty);
        }
    });
}
