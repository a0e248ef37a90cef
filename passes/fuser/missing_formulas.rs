//! Operators that no kernel computes for the given types: masked fills of integers, for example,
//! and complex products.
//!
//! PyTorch's fuser makes groups of such operators, too, and so does level 1. From level 2 on they
//! stay outside, where their operators run without a warning.

use jitopt_core::analysis::reduced_dims::recipes_of;
use jitopt_core::codegen::kernel::Kernel;
use jitopt_core::codegen::lowering::{Cause, Refusal, arguments_of_types, lower, named_dtype};
use jitopt_core::interpreter::Release;
use jitopt_core::ir::{Graph, Node, Value};
use jitopt_core::ops::formulas::{Typing, When, formulas};
use jitopt_core::ops::rows::window_rule;
use jitopt_core::outlining::excerpt;
use jitopt_core::symbol::prim;
use jitopt_core::types::DType;

/// Whether no kernel has a formula for an operator on integer, complex or bool tensors, or for its
/// operands that are not tensors.
pub(super) fn lacks_formula(graph: &Graph, node: Node) -> bool {
    let dtype = |value: Value| graph.ty(value).as_tensor().map(|tensor| tensor.dtype);
    let dtypes: Vec<Option<DType>> = graph.inputs(node).filter_map(dtype).collect();
    let is_no_float = |dtype: &Option<DType>| dtype.is_some_and(|dtype| !dtype.is_float());
    let is_mixed = dtypes.windows(2).any(|pair| pair[0] != pair[1]);
    let is_short = |dtype: &Option<DType>| dtype.is_some_and(DType::is_short_float);
    let reduces_halves = dtypes.iter().any(is_short) && !recipes_of(graph, node).is_empty();
    let is_known = !dtypes.contains(&None) && (is_mixed || reduces_halves || dtypes.iter().any(is_no_float));
    let rows = formulas(graph.kind(node));
    // Only integers and bools depend on the factors of scaled sums.
    let is_tested = |when: &When| !matches!(when, When::Scales(_));
    let is_conditional = !rows.is_empty() && rows.iter().all(|row| row.when.iter().any(is_tested));
    let slides = window_rule(graph.kind(node)).is_some();
    if !is_known && !is_conditional && !slides {
        return false;
    }
    // Another reason may not hold in a larger group: a value that an operator passes on unchanged
    // may be computed there.
    let is_final = |cause: Cause| match cause {
        Cause::Operator => true,
        Cause::ElementType => is_mixed,
        Cause::Group => false,
    };
    lowered(graph, node).is_err_and(|refusal| is_final(refusal.cause))
}

/// The kernel of a node alone.
fn lowered(graph: &Graph, node: Node) -> Result<Kernel, Refusal> {
    let goes_along = |node| [prim::CONSTANT, prim::LIST_CONSTRUCT].contains(&graph.kind(node));
    let section = excerpt(graph, &[node], goes_along).section;
    let (arguments, _) = arguments_of_types(&section, DType::Float);
    let Release(major, minor) = graph.release();
    lower(&section, "a node", &arguments, (major, minor))
}

/// The reason why no kernel computes a node, for messages.
pub(super) fn why(graph: &Graph, node: Node) -> String {
    lowered(graph, node).err().map_or(String::new(), |refusal| refusal.why)
}

/// Whether an operator may only return its operand, as far as types tell: that does not merit a
/// kernel of its own.
pub(super) fn may_return_operand(graph: &Graph, node: Node) -> bool {
    let dtype = |value: Value| graph.ty(value).as_tensor().and_then(|tensor| tensor.dtype);
    let rows = formulas(graph.kind(node));
    let named = rows.iter().find_map(|row| match row.typing {
        Typing::Cast(dtype) => Some(dtype),
        Typing::Named(i) => graph.constant_int(graph.input(node, i)).and_then(named_dtype),
        _ => None,
    });
    let mut operands = graph.inputs(node).filter(|&value| graph.ty(value).is_tensor());
    let given = operands.next().and_then(dtype);
    // Another operand determines the type of the result.
    let made = operands.next().map_or(graph.output(node, 0), |like| like);
    let converts = given.is_some_and(|given| named.or(dtype(made)).is_some_and(|made| made != given));
    !rows.is_empty() && rows.iter().all(|row| row.only_converts()) && !converts
}
