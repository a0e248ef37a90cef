//! The origins of facts in types: `--emit=types`.
//!
//! ```text
//! graph(%x : Float(2, 3)):                                  %x : Float(2, 3)
//!   %1 : Float(2, 3) = prim::Guard(%x)                          declared: dtype, sizes
//!   %y : Float(2, 3) = aten::tanh(%1)               =>      %1 : Float(2, 3)
//!   return (%y)                                                 guarded: dtype, sizes
//!                                                           %y : Float(2, 3)
//!                                                               inferred from %1: dtype, sizes
//! ```
//!
//! A fact is *declared* where only the text gives it, *inferred* where it follows from the types of
//! operands, *guarded* where a node tests it before any reader, and *profiled* where a run has
//! observed it. Passes need not maintain tags for facts: the defining node of a value, and its
//! operands, determine all four. Linear in nodes.

use crate::analysis::inference::inferred;
use crate::ir::{Attribute, Graph, Node, Value};
use crate::symbol::{Symbol, attr, prim};
use crate::types::{Dim, Strides, TensorType};
use std::fmt::Write as _;

/// The facts of a tensor type.
const FACTS: [&str; 5] = ["dtype", "sizes", "strides", "device", "requires_grad"];

/// The tensors of a graph with known facts, in printed order, those of sections after a line with
/// their name.
pub fn type_origins(graph: &Graph) -> String {
    let mut text = String::new();
    let mut open = vec![(String::new(), graph)];
    while let Some((name, graph)) = open.pop() {
        if !name.is_empty() {
            let _ = writeln!(text, "with {name}");
        }
        for param in graph.params(graph.root()) {
            write_origins(&mut text, graph, param, None);
        }
        let nodes: Vec<Node> = graph.all_nodes().collect();
        for &node in &nodes {
            graph.outputs(node).for_each(|output| write_origins(&mut text, graph, output, Some(node)));
            let inside = graph.node_blocks(node).flat_map(|block| graph.params(block));
            inside.for_each(|param| write_origins(&mut text, graph, param, None));
        }
        let sections = nodes.iter().rev().filter_map(|&node| {
            let outputs: Vec<String> = graph.outputs(node).map(|output| format!("%{}", graph.name(output))).collect();
            Some((format!("{} of {}", graph.kind(node), outputs.join(", ")), graph.subgraph(node)?))
        });
        open.extend(sections);
    }
    text
}

/// A value, with its facts grouped by origin.
fn write_origins(text: &mut String, graph: &Graph, value: Value, maker: Option<Node>) {
    let Some(written) = graph.ty(value).as_tensor() else { return };
    let is_written = known(written);
    let profiled = maker.filter(|&node| graph.kind(node) == prim::PROFILE).and_then(|node| profile_of(graph, node));
    if is_written == [false; 5] && profiled.is_none() {
        return;
    }
    let _ = writeln!(text, "%{} : {}", graph.name(value), graph.ty(value));
    if let Some(seen) = profiled {
        let _ = writeln!(text, "    profiled: {seen}");
    }
    const TESTS: [Symbol; 5] =
        [prim::GUARD, prim::BAILOUT, prim::TYPE_CHECK, prim::REQUIRES_GRAD_CHECK, prim::ONEDNN_FUSION_GUARD];
    let is_tested = |node| TESTS.contains(&graph.kind(node));
    if maker.is_some_and(is_tested) {
        return line(text, "guarded", is_written);
    }
    let follows =
        maker.and_then(|node| inferred(graph, node, value)).map_or([false; 5], |found| agrees(&found, written));
    let from = maker.map_or(String::new(), |node| operands(graph, node));
    let both = |i: usize| is_written[i] && follows[i];
    line(text, &format!("inferred{from}"), std::array::from_fn(both));
    line(text, "declared", std::array::from_fn(|i| is_written[i] && !follows[i]));
}

fn line(text: &mut String, origin: &str, which: [bool; 5]) {
    let facts: Vec<&str> = FACTS.into_iter().zip(which).filter(|(_, is_one)| *is_one).map(|(fact, _)| fact).collect();
    if !facts.is_empty() {
        let _ = writeln!(text, "    {origin}: {}", facts.join(", "));
    }
}

/// The type that a profiled run has recorded.
fn profile_of(graph: &Graph, node: Node) -> Option<String> {
    match graph.attribute(node, attr::PROFILED_TYPE)? {
        Attribute::Type(ty) => Some(ty.to_string()),
        _ => None,
    }
}

fn operands(graph: &Graph, node: Node) -> String {
    let tensors = graph.inputs(node).filter(|&value| graph.ty(value).is_tensor());
    let names: Vec<String> = tensors.map(|value| format!("%{}", graph.name(value))).collect();
    if names.is_empty() { String::new() } else { format!(" from {}", names.join(", ")) }
}

fn known(ty: &TensorType) -> [bool; 5] {
    let strides = matches!(ty.strides, Strides::Known(_));
    [ty.dtype.is_some(), ty.sizes.is_some(), strides, ty.device.is_some(), ty.requires_grad.is_some()]
}

/// The inferred facts that equal the written ones; for sizes, all known ones must be equal.
fn agrees(found: &TensorType, written: &TensorType) -> [bool; 5] {
    let size = |(found, written): (&Dim, &Dim)| !matches!(written, Dim::Known(_)) || found == written;
    let sizes = match (&found.sizes, &written.sizes) {
        (Some(found), Some(written)) => found.len() == written.len() && found.iter().zip(written.iter()).all(size),
        _ => false,
    };
    [
        found.dtype == written.dtype,
        sizes,
        found.strides == written.strides,
        found.device == written.device,
        found.requires_grad == written.requires_grad,
    ]
}
