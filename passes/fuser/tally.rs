//! The operators in groups, and those that could be.

use crate::remove_mutation::out_of_place;
use jitopt_core::ir::{Graph, Node, Value};
use jitopt_core::ops;
use jitopt_core::ops::fusion_rules::{fusion_row, untaken};
use jitopt_core::symbol::{Symbol, prim};
use jitopt_core::types::{Simple, Type};
use rustc_hash::FxHashMap;

/// The extent of fusion in a graph.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// The groups.
    pub groups: Vec<Node>,
    /// The number of pointwise operators in groups; chunks and concatenations are not counted.
    pub inside: usize,
    /// The number of reductions in groups (level 2).
    pub reduces: usize,
    /// Pointwise operators outside groups, including those of level 2, those in place and those
    /// that are fused at no level.
    pub outside: Vec<Node>,
}

impl Tally {
    /// Counts. Groups in nested sections are not visited.
    pub fn of(graph: &Graph) -> Tally {
        let mut tally = Tally::default();
        for node in graph.all_nodes() {
            match graph.subgraph(node).filter(|_| graph.kind(node) == prim::FUSION_GROUP) {
                Some(section) => {
                    tally.groups.push(node);
                    tally.inside += section.all_nodes().filter(|&node| is_pointwise(section, node)).count();
                    tally.reduces += section.all_nodes().filter(|&node| reduces(section, node) == Some(true)).count();
                }
                None if is_pointwise(graph, node) => tally.outside.push(node),
                None => {}
            }
        }
        tally
    }

    /// Whether this fused more than `other`.
    pub fn beats(&self, other: &Tally) -> bool {
        self.all_inside() > other.all_inside() && self.outside.len() <= other.outside.len()
            || self.all_inside() == other.all_inside() && self.outside.len() < other.outside.len()
    }

    /// Operators in groups, reductions included.
    pub fn all_inside(&self) -> usize {
        self.inside + self.reduces
    }
}

/// Whether an operator is pointwise, or would be if it did not write to its operand.
fn is_pointwise(graph: &Graph, node: Node) -> bool {
    is_row(graph, node, graph.kind(node))
        || out_of_place(graph, node).is_some_and(|form| is_row(graph, node, form.kind()))
}

fn is_row(graph: &Graph, node: Node, kind: Symbol) -> bool {
    let types: Vec<Type> = graph.inputs(node).map(|value| graph.ty(value)).collect();
    let resolved = ops::resolve(graph.era, kind, &types);
    resolved.schema().is_some_and(|schema| match fusion_row(schema) {
        Some(row) => !row.reduces,
        None => untaken(schema).is_some(),
    })
}

/// Whether an operator that groups may contain is a reduction.
fn reduces(graph: &Graph, node: Node) -> Option<bool> {
    let types: Vec<Type> = graph.inputs(node).map(|value| graph.ty(value)).collect();
    let resolved = ops::resolve(graph.era, graph.kind(node), &types);
    resolved.schema().and_then(fusion_row).map(|row| row.reduces)
}

/// The operands of a pointwise operator that would be scalars of a kernel if they were floats, and
/// are ints.
pub fn int_operands(graph: &Graph, node: Node) -> Vec<Value> {
    let types: Vec<Type> = graph.inputs(node).map(|value| graph.ty(value)).collect();
    let schema = ops::resolve(graph.era, graph.kind(node), &types).schema();
    // An operand that is an int by its schema, such as an element type, is never a float.
    let is_number = |i: usize| {
        let formal = schema.and_then(|schema| schema.formals.get(i));
        formal.is_none_or(|formal| formal.ty.accepts(Type::simple(Simple::Float), &mut FxHashMap::default()))
    };
    let is_constant = |value| graph.definer(value).is_some_and(|node| graph.kind(node) == prim::CONSTANT);
    let operands = graph.inputs(node).enumerate();
    let is_meant =
        |&(i, value): &(usize, Value)| graph.ty(value).is(Simple::Int) && !is_constant(value) && is_number(i);
    operands.filter(is_meant).map(|(_, value)| value).collect()
}
