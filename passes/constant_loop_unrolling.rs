//! Unrolls loops with a constant trip count, however large their bodies are.
//!
//! ```text
//! %2 : int = prim::Constant[value=2]()
//! %y : Tensor = prim::Loop(%2, %true, %x)             %1 : Tensor = aten::neg(%x)
//!   block0(%i : int, %p : Tensor):              =>    %y : Tensor = aten::neg(%1)
//!     %1 : Tensor = aten::neg(%p)
//!     -> (%true, %1)
//! ```
//!
//! Everything else is as in `loop-unrolling`, whose file has the argument and the bound on growth:
//! a loop of 64 trips or more becomes a loop of eight bodies and one for the remainder. Without
//! such loops the pass changes nothing; a loop that it leaves is unrolled by another run.

use crate::loop_unrolling::{Which, unroll};
use jitopt_core::graph_dump;
use jitopt_core::ir::Graph;
use jitopt_core::pass::{PassContext, PassError, PassInfo};

/// The registry entry.
pub const PASS: PassInfo = PassInfo {
    name: "constant-loop-unrolling",
    aliases: &["unroll-constant-loops"],
    summary: "unroll loops with a constant trip count",
    example: "%y : Tensor = prim::Loop(%two, %true, %x)  =>  the body, twice",
    options: &[],
    required: false,
    reads_shapes: false,
    run,
    file: file!(),
};

fn run(graph: &mut Graph, cx: &mut PassContext<'_>) -> Result<(), PassError> {
    graph_dump!("Before constant loop unrolling", graph);
    unroll(graph, cx, Which::Constant, 8);
    graph_dump!("After constant loop unrolling", graph);
    Ok(())
}
