//! The numbers of operands, outputs, blocks, params and results, for kinds that fix them.

use super::carriers;
use super::constants;
use super::finding::{Sink, Spot, counted};
use crate::ir::{Attribute, Block, Graph, Node};
use crate::ops::Operator;
use crate::ops::rules::{Carries, Structure};
use crate::symbol::{aten, attr, prim};
use crate::types::Type;

/// Checks one node.
#[inline]
pub(super) fn check(sink: &mut Sink<'_, '_>, node: Node, operator: &Operator) {
    let rule = &operator.rule;
    if rule.structure != Structure::None || sink.graph.num_blocks(node) > 0 {
        blocks(sink, node, operator);
    }
    if rule.carries != Carries::Nothing {
        carriers::check(sink, node, rule.carries);
    }
    match sink.graph.kind(node) {
        prim::CONSTANT => constants::check(sink, node),
        prim::TUPLE_UNPACK => tuple_unpack(sink, node),
        prim::TUPLE_INDEX => {
            one_output(sink, node);
            tuple_index(sink, node);
        }
        prim::TUPLE_SLICE | aten::WAIT => one_output(sink, node),
        prim::IF if sink.graph.num_inputs(node) == 0 => {
            sink.error(Spot::Node(node), "`prim::If` has no condition".to_owned());
        }
        prim::TUPLE_CONSTRUCT => tuple_construct(sink, node),
        prim::LIST_UNPACK => list_unpack(sink, node),
        prim::DICT_CONSTRUCT => dict_construct(sink, node),
        prim::CONSTANT_CHUNK => constant_chunk(sink, node),
        prim::TYPE_CHECK | prim::REQUIRES_GRAD_CHECK | prim::ONEDNN_FUSION_GUARD => {
            let checked = sink.graph.num_inputs(node);
            type_check(
                sink,
                node,
                checked + 1,
                "its outputs are the checked operands and a bool that holds if all checks do",
            );
        }
        prim::DYNAMIC_GUARD | prim::CUDA_FUSION_GUARD => {
            type_check(sink, node, 1, "its output is a bool that holds if all checks do");
        }
        _ => {}
    }
}

// ---- blocks

fn blocks(sink: &mut Sink<'_, '_>, node: Node, operator: &Operator) {
    let structure = operator.rule.structure;
    let (found, expected) = (sink.graph.num_blocks(node), structure.blocks());
    // Unknown operators may have any blocks, and exporters print the body of a Python function in
    // one.
    let name = operator.kind.as_str();
    if !operator.is_known() || name.starts_with('^') || name == "prim::PythonOp" {
        return;
    }
    // Lifted closures are sections.
    let lifted = structure == Structure::Closure && found == 0 && sink.graph.subgraph(node).is_some();
    // PyTorch's reader accepts it, and patterns are written this way.
    let one_branch = structure == Structure::If && found == 1;
    if one_branch {
        let message = "this `prim::If` has 1 block, expected 2";
        sink.warning(Spot::Node(node), message).note("its outputs are undefined if the condition is false");
    } else if structure == Structure::Loop && is_before_ssa(sink.graph, node) {
        let finding = sink.error(Spot::Node(node), "this `prim::Loop` has its condition in a second block");
        finding.is_before_ssa = true;
        finding.note("PyTorch's emitter writes it so").help("begin with the passes `convert-to-ssa,exit-transforms`");
        return;
    } else if found != expected && !lifted {
        let kind = operator.kind;
        sink.error(Spot::Node(node), format!("`{kind}` has {}, expected {expected}", counted(found, "block")));
        return;
    }
    match structure {
        Structure::Loop => loop_arity(sink, node),
        Structure::If | Structure::GradOf => branches(sink, node),
        Structure::With => sink.graph.node_blocks(node).for_each(|block| without_params(sink, block, node)),
        Structure::None | Structure::Closure => {}
    }
}

/// Whether a Loop is as PyTorch's emitter writes it: nothing is carried yet, and the second block
/// returns the condition.
pub(super) fn is_before_ssa(graph: &Graph, node: Node) -> bool {
    let blocks: Vec<Block> = graph.node_blocks(node).collect();
    let [body, condition] = blocks[..] else { return false };
    let counts = |block: Block| (graph.params(block).len(), graph.results(block).len());
    graph.num_inputs(node) == 1 && graph.num_outputs(node) == 0 && counts(body) == (1, 0) && counts(condition) == (0, 1)
}

/// Each block takes no values and returns one value for each output.
fn branches(sink: &mut Sink<'_, '_>, node: Node) {
    let blocks: Vec<Block> = sink.graph.node_blocks(node).collect();
    for block in blocks {
        without_params(sink, block, node);
        let outputs = sink.graph.num_outputs(node);
        results(sink, block, outputs, || format!("its node has {}", counted(outputs, "output")));
    }
}

fn without_params(sink: &mut Sink<'_, '_>, block: Block, node: Node) {
    let params = sink.graph.params(block).len();
    if params > 0 {
        let kind = sink.graph.kind(node);
        sink.error(Spot::Block(block), format!("a block of `{kind}` takes no values, this one takes {params}"));
    }
}

fn results(sink: &mut Sink<'_, '_>, block: Block, expected: usize, why: impl FnOnce() -> String) {
    let found = sink.graph.results(block).len();
    if found != expected {
        let message = format!("this block returns {}, expected {expected}", counted(found, "value"));
        sink.error(Spot::Node(sink.graph.return_node(block)), message).note(why());
    }
}

/// `outputs = carried = operands - 2 = params - 1 = results - 1`
fn loop_arity(sink: &mut Sink<'_, '_>, node: Node) {
    let Some(carried) = sink.graph.num_inputs(node).checked_sub(2) else {
        let message = format!("`prim::Loop` has {}", counted(sink.graph.num_inputs(node), "operand"));
        sink.error(Spot::Node(node), message)
            .note("it takes the maximal trip count, the initial condition, and the carried values");
        return;
    };
    let outputs = sink.graph.num_outputs(node);
    if outputs != carried {
        let message =
            format!("`prim::Loop` carries {} and has {}", counted(carried, "value"), counted(outputs, "output"));
        sink.error(Spot::Node(node), message);
    }
    let body = sink.graph.node_block(node, 0);
    let params = sink.graph.params(body).len();
    if params != carried + 1 {
        let message = format!("this body takes {}, expected {}", counted(params, "value"), carried + 1);
        sink.error(Spot::Block(body), message).note(format!("the counter and {}", counted(carried, "carried value")));
    }
    results(sink, body, carried + 1, || format!("the condition and {}", counted(carried, "carried value")));
}

// ---- containers

/// Passes replace the result of these nodes without checking that there is one.
fn one_output(sink: &mut Sink<'_, '_>, node: Node) {
    let (kind, found) = (sink.graph.kind(node), sink.graph.num_outputs(node));
    if found != 1 {
        sink.error(Spot::Node(node), format!("`{kind}` has {}, expected 1", counted(found, "output")));
    }
}

fn tuple_unpack(sink: &mut Sink<'_, '_>, node: Node) {
    unpacked(sink, node);
    let Some(elements) = tuple_operand(sink, node) else { return };
    let outputs = sink.graph.num_outputs(node);
    if elements.len() != outputs {
        let message = format!("a tuple of {} is unpacked into {outputs}", elements.len());
        sink.error(Spot::Operand(node, 0), message);
    }
}

/// The operand must exist; the schemas of 1.3 do not require it.
fn unpacked(sink: &mut Sink<'_, '_>, node: Node) {
    let (kind, operands) = (sink.graph.kind(node), sink.graph.num_inputs(node));
    if operands != 1 {
        sink.error(Spot::Node(node), format!("`{kind}` has {}, expected 1", counted(operands, "operand")));
    }
}

fn tuple_operand(sink: &Sink<'_, '_>, node: Node) -> Option<Vec<Type>> {
    let graph = sink.graph;
    (graph.num_inputs(node) > 0).then(|| graph.ty(graph.input(node, 0)).tuple_elements()).flatten()
}

fn tuple_index(sink: &mut Sink<'_, '_>, node: Node) {
    let (graph, elements) = (sink.graph, tuple_operand(sink, node));
    let (index, spot) = match graph.num_inputs(node) {
        // Up to 1.1 the index is an attribute.
        1 => (graph.attribute(node, attr::INDEX).and_then(Attribute::as_int), Spot::Node(node)),
        2 => (graph.constant_int(graph.input(node, 1)), Spot::Operand(node, 1)),
        _ => return,
    };
    let (Some(index), Some(elements)) = (index, elements) else { return };
    let len = elements.len() as i64;
    if !(-len..len).contains(&index) {
        sink.error(spot, format!("a tuple of {len} has no element {index}"));
    }
}

fn tuple_construct(sink: &mut Sink<'_, '_>, node: Node) {
    let graph = sink.graph;
    let elements = graph.single_output(node).and_then(|output| graph.ty(output).tuple_elements());
    let operands = graph.num_inputs(node);
    if let Some(elements) = elements.filter(|elements| elements.len() != operands) {
        let message = format!("a tuple of {} is made from {}", elements.len(), counted(operands, "operand"));
        sink.error(Spot::Output(node, 0), message);
    }
}

/// A warning only, and only if the list has no other reader: another reader might have added
/// elements.
fn list_unpack(sink: &mut Sink<'_, '_>, node: Node) {
    unpacked(sink, node);
    let graph = sink.graph;
    let definer = (graph.num_inputs(node) > 0).then(|| graph.definer(graph.input(node, 0))).flatten();
    let Some(made) = definer.filter(|&definer| graph.kind(definer) == prim::LIST_CONSTRUCT) else { return };
    let alone = graph.users(graph.input(node, 0)).all(|user| graph.kind(user) == prim::LIST_UNPACK);
    let (made, outputs) = (graph.num_inputs(made), graph.num_outputs(node));
    if made != outputs && alone {
        sink.warning(Spot::Operand(node, 0), format!("a list made of {made} is unpacked into {outputs}"));
    }
}

fn dict_construct(sink: &mut Sink<'_, '_>, node: Node) {
    let operands = sink.graph.num_inputs(node);
    if !operands.is_multiple_of(2) {
        let message = format!("`prim::DictConstruct` has {}", counted(operands, "operand"));
        sink.error(Spot::Node(node), message).note("it takes keys and values alternately");
    }
}

fn constant_chunk(sink: &mut Sink<'_, '_>, node: Node) {
    let (operands, outputs) = (sink.graph.num_inputs(node), sink.graph.num_outputs(node));
    if operands != 1 {
        sink.error(Spot::Node(node), format!("`prim::ConstantChunk` has {}, expected 1", counted(operands, "operand")));
    }
    let chunks = sink.graph.attribute(node, attr::CHUNKS).and_then(Attribute::as_int);
    if let Some(chunks) = chunks.filter(|&chunks| chunks != outputs as i64) {
        sink.error(Spot::Node(node), format!("{chunks} chunks have {}", counted(outputs, "output")));
    }
}

/// One type and one output for each operand, and a bool.
fn type_check(sink: &mut Sink<'_, '_>, node: Node, expected: usize, note: &str) {
    let graph = sink.graph;
    let (kind, operands, outputs) = (graph.kind(node), graph.num_inputs(node), graph.num_outputs(node));
    if outputs != expected {
        let message = format!("`{kind}` has {}, expected {expected}", counted(outputs, "output"));
        sink.error(Spot::Node(node), message).note(note);
    }
    if let Some(Attribute::List(types)) = graph.attribute(node, attr::TYPES)
        && types.len() != operands
    {
        let message =
            format!("`{kind}` checks {} against {}", counted(operands, "operand"), counted(types.len(), "type"));
        sink.error(Spot::Node(node), message);
    }
}
