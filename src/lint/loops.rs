//! Errors concerning loops.

use super::finder::Facts;
use crate::ir::{Block, Node, Value};
use crate::verify::{Sink, Spot};

/// `%n : int = prim::Constant[value=-3]()`, the trip count of a loop
pub(super) fn negative_trip_count(facts: &Facts<'_>, sink: &mut Sink<'_, '_>) {
    for node in facts.of_kinds(&["prim::Loop"]) {
        let trips = facts.graph.constant_int(facts.graph.input(node, 0));
        if let Some(n) = trips.filter(|&n| n < 0) {
            sink.warning(Spot::Operand(node, 0), format!("the loop has a trip count of {n}"));
        }
    }
}

/// Loop-carried values exchange positions, and one of them is written to:
///
/// ```text
///   %a : Tensor, %b : Tensor = prim::Loop(%n, %true, %p, %q)
///     block0(%i : int, %x : Tensor, %y : Tensor):
///       %w : Tensor = aten::add_(%y, %1, %1)
///       -> (%true, %y, %x)
/// ```
///
/// PyTorch's analysis follows a value into the body once: it finds that `%q` is written to, but not
/// that `%p` is.
pub(super) fn loop_state_rotates(facts: &Facts<'_>, sink: &mut Sink<'_, '_>) {
    for node in facts.of_kinds(&["prim::Loop"]) {
        let body = facts.graph.node_block(node, 0);
        let moved = moved(facts, node, body);
        let written = |&&value: &&Value| body_writes(facts, node, value);
        if let Some(&value) = moved.iter().find(written) {
            let text = format!("`{}` is written to, and the loop-carried values exchange positions", facts.name(value));
            sink.warning(Spot::Node(node), text);
        }
    }
}

/// Tensors among the params of the body that are returned at another position.
fn moved(facts: &Facts<'_>, node: Node, body: Block) -> Vec<Value> {
    let params: Vec<Value> = facts.graph.params(body).skip(1).collect();
    let results: Vec<Value> = facts.graph.results(body).skip(1).collect();
    debug_assert_eq!(params.len(), facts.graph.num_outputs(node));
    let elsewhere = |(i, param): &(usize, &Value)| {
        facts.ty(**param).is_tensor() && results.iter().enumerate().any(|(j, result)| j != *i && result == *param)
    };
    params.iter().enumerate().filter(elsewhere).map(|(_, &param)| param).collect()
}

fn body_writes(facts: &Facts<'_>, node: Node, value: Value) -> bool {
    facts.alias().writes_to_alias_of(node, &[value])
}
