//! Nodes that make one element of many: by which recipe, and along which dimensions.

use crate::ir::{Attribute, Graph, Node, Value};
use crate::ops;
use crate::ops::recipes::{Over, Recipe, recipes};
use crate::ops::schema::Schema;
use crate::symbol::{attr, prim};
use crate::types::Type;
use smallvec::SmallVec;

/// The dimensions along which something is folded.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Axes {
    /// All of them.
    All,
    /// These; negative ones count from behind.
    These(SmallVec<[i64; 4]>),
}

/// The overload of a node that folds, and the recipes for it.
pub fn overload(graph: &Graph, node: Node) -> Option<(&'static Schema, &'static [&'static Recipe])> {
    if graph.num_outputs(node) != 1 || graph.num_inputs(node) == 0 {
        return None;
    }
    let types: Vec<Type> = graph.inputs(node).map(|value| graph.ty(value)).collect();
    let schema = ops::resolve(graph.era, graph.kind(node), &types).schema()?;
    Some((schema, recipes(schema))).filter(|(_, recipes)| !recipes.is_empty())
}

/// The recipes of a node; none where it folds nothing.
pub fn recipes_of(graph: &Graph, node: Node) -> &'static [&'static Recipe] {
    overload(graph, node).map_or(&[], |(_, recipes)| recipes)
}

fn operand(graph: &Graph, node: Node, schema: &Schema, name: &str) -> Option<Value> {
    schema.formal(name).filter(|&i| i < graph.num_inputs(node)).map(|i| graph.input(node, i))
}

fn constant(graph: &Graph, value: Value) -> Option<Node> {
    graph.definer(value).filter(|&node| graph.kind(node) == prim::CONSTANT)
}

/// Whether the result of a node that folds has as many dimensions as its operand.
pub fn keeps(graph: &Graph, node: Node) -> bool {
    let Some((schema, recipes)) = overload(graph, node) else { return false };
    let keepdim = operand(graph, node, schema, "keepdim");
    recipes[0].over != Over::Dims || keepdim.and_then(|value| graph.constant_int(value)) == Some(1)
}

/// The dimensions that a node folds; nothing where only a run tells.
pub fn axes(graph: &Graph, node: Node) -> Option<Axes> {
    let (schema, recipes) = overload(graph, node)?;
    let dims: SmallVec<[i64; 4]> = match recipes[0].over {
        Over::Last => {
            let sizes = numbers(graph, operand(graph, node, schema, "normalized_shape")?)?;
            (1..=sizes.len() as i64).map(|i| -i).collect()
        }
        Over::Dims | Over::Row => match operand(graph, node, schema, "dim") {
            Some(dims) => numbers(graph, dims)?,
            None => SmallVec::new(),
        },
    };
    Some(if dims.is_empty() { Axes::All } else { Axes::These(dims) })
}

/// A constant list of whole numbers, one alone, or none at all.
fn numbers(graph: &Graph, value: Value) -> Option<SmallVec<[i64; 4]>> {
    let definer = graph.definer(value)?;
    if graph.kind(definer) == prim::LIST_CONSTRUCT {
        return graph.inputs(definer).map(|element| graph.constant_int(element)).collect();
    }
    match graph.attribute(constant(graph, value)?, attr::VALUE) {
        None | Some(Attribute::EmptyList(_)) => Some(SmallVec::new()),
        Some(Attribute::Int(n)) => Some(SmallVec::from_slice(&[*n])),
        Some(Attribute::List(all)) => all.iter().map(Attribute::as_int).collect(),
        Some(_) => None,
    }
}
