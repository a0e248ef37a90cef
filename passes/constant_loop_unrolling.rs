//! Unrolls loops that run a constant number of times, however large their bodies are.
//!
//! ```text
//! %2 : int = prim::Constant[value=2]()
//! %y : Tensor = prim::Loop(%2, %true, %x)             %1 : Tensor = aten::neg(%x)
//!   block0(%i : int, %p : Tensor):              =>    %y : Tensor = aten::neg(%1)
//!     %1 : Tensor = aten::neg(%p)
//!     -> (%true, %1)
//! ```
//!
//! All else is as in `loop-unrolling`, whose file has the argument and the bound on growth: 64 trips and more leave a loop of
//! eight bodies and one for the rest. Without such loops it changes nothing; where it left one, another run unrolls that.

use crate::loop_unrolling::{Which, unroll};
use jitopt_core::graph_dump;
use jitopt_core::ir::Graph;
use jitopt_core::pass::{PassContext, PassError, PassInfo};

/// The row.
pub const PASS: PassInfo = PassInfo {
    name: "constant-loop-unrolling",
    aliases: &["unroll-constant-loops"],
    summary: "repeat the bodies of loops that run a constant number of times",
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
