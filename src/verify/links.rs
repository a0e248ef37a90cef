//! Consistency of the tables of a graph. A finding here is a bug of ours.

use super::finding::{Sink, Spot};
use crate::entity::Entity;
use crate::ir::{Block, Node, Value};

/// Checks use lists, the order of nodes and ownership; in debug builds only, since no edit can
/// break them.
pub(super) fn check(sink: &mut Sink<'_, '_>) {
    uses(sink);
    let blocks: Vec<Block> = sink.graph.all_blocks().collect();
    for block in blocks {
        order(sink, block);
    }
}

/// Checks that use lists contain exactly the operands that read their value.
fn uses(sink: &mut Sink<'_, '_>) {
    let graph = sink.graph;
    let mut operands = vec![0usize; graph.num_values()];
    for node in (0..graph.num_node_rows()).map(Node::at) {
        graph.inputs(node).for_each(|value| operands[value.index()] += 1);
    }
    for (value, &count) in operands.iter().enumerate().map(|(i, count)| (Value::at(i), count)) {
        let listed = graph.uses(value).take(count + 1);
        let right = listed.filter(|&u| {
            let (user, i) = (graph.user(u), graph.operand_index(u));
            i < graph.num_inputs(user) && graph.input(user, i) == value
        });
        if right.count() != count || graph.uses(value).nth(count).is_some() {
            let spot = graph.definer(value).map_or(Spot::Block(graph.root()), Spot::Node);
            let name = sink.name(value);
            sink.error(spot, format!("the use list of {name} is broken"));
        }
    }
}

fn order(sink: &mut Sink<'_, '_>, block: Block) {
    let graph = sink.graph;
    let mut before = None;
    for node in graph.nodes(block) {
        let linked = graph.block_of(node) == Some(block) && graph.prev(node) == before;
        let ordered = before.is_none_or(|before| graph.is_before(before, node));
        let nested = graph.node_blocks(node).all(|inner| {
            graph.owner_node(inner) == Some(node) && graph.block_depth(inner) == graph.block_depth(block) + 1
        });
        if !linked || !ordered || !nested {
            sink.error(Spot::Node(node), "the links of this node are broken");
        }
        before = Some(node);
    }
    if graph.last(block) != before {
        sink.error(Spot::Block(block), "the last node of this block is recorded wrongly");
    }
}
