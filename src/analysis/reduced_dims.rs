//! Reductions: nodes that compute one element from many, with their recipes and dimensions.

use crate::ir::{Attribute, Graph, Node, Value};
use crate::ops;
use crate::ops::recipes::{Making, OPTIONAL, Over, Recipe, ReduceOp, recipes};
use crate::ops::schema::Schema;
use crate::symbol::{attr, prim};
use crate::types::Type;
use crate::types::era::Era;
use smallvec::SmallVec;

/// The dimensions that are reduced.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Axes {
    /// All of them.
    All,
    /// These; negative ones count from the last.
    These(SmallVec<[i64; 4]>),
    /// All but this many at the end.
    ButLast(usize),
    /// All but this one.
    AllBut(usize),
}

/// The overload of a reduction, and its recipes.
pub(crate) fn overload(graph: &Graph, node: Node) -> Option<(&'static Schema, &'static [&'static Recipe])> {
    if graph.num_outputs(node) == 0 || graph.num_inputs(node) == 0 {
        return None;
    }
    let types: Vec<Type> = graph.inputs(node).map(|value| graph.ty(value)).collect();
    let schema = ops::resolve(graph.era, graph.kind(node), &types).schema()?;
    let all = recipes(schema);
    // Up to 1.6 argmax and argmin found the last of several equal elements.
    let is_known = !all.is_empty() && schema.returns.len() == graph.num_outputs(node);
    let is_known = is_known && (graph.era == Era::V2 || !all.iter().any(|recipe| recipe.finds_indices()));
    is_known.then_some((schema, all))
}

/// The recipes of a node; none where it is not a reduction.
pub fn recipes_of(graph: &Graph, node: Node) -> &'static [&'static Recipe] {
    overload(graph, node).map_or(&[], |(_, recipes)| recipes)
}

fn operand(graph: &Graph, node: Node, schema: &Schema, name: &str) -> Option<Value> {
    schema.formal(name).filter(|&i| i < graph.num_inputs(node)).map(|i| graph.input(node, i))
}

fn constant(graph: &Graph, value: Value) -> Option<Node> {
    graph.definer(value).filter(|&node| graph.kind(node) == prim::CONSTANT)
}

/// Whether a result of a reduction has as many dimensions as its operand.
pub fn keeps(graph: &Graph, node: Node, result: usize) -> bool {
    let Some((schema, recipes)) = overload(graph, node) else { return false };
    let keepdim = || operand(graph, node, schema, "keepdim").and_then(|value| graph.constant_int(value)) == Some(1);
    match recipes[0].over {
        Over::Dims => keepdim(),
        Over::Channels => result == 0,
        Over::Row | Over::Last | Over::Image(_) => true,
    }
}

/// Whether an operand of a reduction has one element for each channel.
pub fn is_of_channels(graph: &Graph, node: Node, operand: usize) -> bool {
    operand > 0 && recipes_of(graph, node).first().is_some_and(|recipe| recipe.over == Over::Channels)
}

/// Whether no recipe of a reduction supports its operands, as far as their types and constants
/// show.
pub fn lacks_recipe(graph: &Graph, node: Node) -> bool {
    recipe(graph, node).is_none()
}

/// The first recipe that supports the operands of a reduction, as far as their types and constants
/// show.
fn recipe(graph: &Graph, node: Node) -> Option<&'static Recipe> {
    let (schema, recipes) = overload(graph, node)?;
    let given = |name: &&str| operand(graph, node, schema, name).is_some_and(|value| graph.ty(value).is_tensor());
    let says = |&(name, n): &(&str, i64)| {
        operand(graph, node, schema, name).and_then(|value| graph.constant_int(value)) == Some(n)
    };
    let holds = |recipe: &&&Recipe| {
        OPTIONAL.iter().all(|name| given(name) == recipe.given.contains(name))
            && recipe.says.iter().all(says)
            && (!matches!(recipe.over, Over::Image(_)) || becomes_one(graph, node, schema))
    };
    recipes.iter().find(holds).copied()
}

/// Whether an image becomes one element.
fn becomes_one(graph: &Graph, node: Node, schema: &Schema) -> bool {
    let sizes = operand(graph, node, schema, "output_size").and_then(|value| numbers(graph, value));
    sizes.is_some_and(|sizes| !sizes.is_empty() && sizes.iter().all(|&size| size == 1))
}

/// The results of a node that are sums over other dimensions than its main reduction, with those
/// dimensions: secondary reductions, one sum for each position in its rows.
pub(crate) fn returned_columns(graph: &Graph, node: Node) -> Option<(SmallVec<[Value; 2]>, Axes)> {
    let recipe = recipes_of(graph, node).first()?;
    let is_column_reduction = |(k, _): &(usize, Value)| recipe.is_column_reduction(*k);
    let all: SmallVec<[Value; 2]> =
        graph.outputs(node).enumerate().filter(is_column_reduction).map(|(_, value)| value).collect();
    let Some(Axes::These(rows)) = axes(graph, node).filter(|_| !all.is_empty()) else { return None };
    Some((all, Axes::ButLast(rows.len())))
}

/// Whether a value is a secondary reduction of the node that defines it.
pub fn is_column_reduction(graph: &Graph, value: Value) -> bool {
    graph.definer(value).and_then(|node| returned_columns(graph, node)).is_some_and(|(all, _)| all.contains(&value))
}

/// Whether a value is the result of a reduction, and not an elementwise result of the same node.
pub fn is_reduced(graph: &Graph, value: Value) -> bool {
    let Some(node) = graph.definer(value) else { return false };
    let Some(recipe) = recipes_of(graph, node).first() else { return false };
    matches!(recipe.over, Over::Dims | Over::Image(_)) || graph.output(node, 0) != value
}

/// The dimensions that a node reduces; nothing where they are known only at run time.
pub fn axes(graph: &Graph, node: Node) -> Option<Axes> {
    let (schema, recipes) = overload(graph, node)?;
    let dims: SmallVec<[i64; 4]> = match recipes[0].over {
        Over::Channels => return Some(Axes::AllBut(1)),
        Over::Image(dims) => (1..=dims as i64).map(|i| -i).collect(),
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

/// A constant list of integers, a single constant integer, or none.
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

/// The rank of a tensor, where its type gives it.
pub fn rank(graph: &Graph, value: Value) -> Option<usize> {
    graph.ty(value).as_tensor().and_then(|tensor| tensor.rank())
}

/// Whether two nodes, each in a graph, are known to reduce the same dimensions.
pub fn same_axes(a: (&Graph, Node), b: (&Graph, Node)) -> bool {
    let all = |(graph, node): (&Graph, Node)| Some((axes(graph, node)?, rank(graph, graph.input(node, 0))));
    let wrapped = |axes: &Axes, rank: usize| -> Vec<i64> {
        let rank = rank as i64;
        let mut dims: Vec<i64> = match axes {
            Axes::All => (0..rank).collect(),
            Axes::These(dims) => dims.iter().map(|&dim| if dim < 0 { dim + rank } else { dim }).collect(),
            Axes::ButLast(last) => (0..rank - *last as i64).collect(),
            Axes::AllBut(kept) => (0..rank).filter(|&dim| dim != *kept as i64).collect(),
        };
        dims.sort_unstable();
        dims
    };
    match (all(a), all(b)) {
        (Some((x, _)), Some((y, _))) if x == y => true,
        (Some((x, Some(m))), Some((y, Some(n)))) => m == n && wrapped(&x, m) == wrapped(&y, n),
        _ => false,
    }
}

/// Whether a node is a sum that is not known to have integer elements.
pub fn is_float_sum(graph: &Graph, node: Node) -> bool {
    let is_sum = |recipe: &&Recipe| recipe.lines.len() == 1 && recipe.lines[0].1 == Making::Whole(ReduceOp::Sum);
    let dtype = |value: Value| graph.ty(value).as_tensor().and_then(|ty| ty.dtype);
    recipes_of(graph, node).first().is_some_and(is_sum) && dtype(graph.output(node, 0)).is_none_or(|ty| ty.is_float())
}

/// Whether a node of a section is a floating point sum that nothing in the section reads, so that
/// it may be a secondary reduction over other dimensions.
pub fn may_be_column_reduction(section: &Graph, node: Node) -> bool {
    let is_result = |user: Node| section.num_outputs(user) == 0;
    is_float_sum(section, node) && section.users(section.output(node, 0)).all(is_result)
}

/// Whether a node computes a scan (cumulative sum or product).
pub fn runs(graph: &Graph, node: Node) -> bool {
    recipes_of(graph, node).iter().any(|recipe| recipe.lines.iter().any(|line| matches!(line.1, Making::Scan(_))))
}

/// Whether no sum over other dimensions may join a node: it scans, or reduces nothing at all, so
/// that the sum would be the only reduction of the kernel.
pub fn excludes_column_reductions(graph: &Graph, node: Node) -> bool {
    runs(graph, node) || recipe(graph, node).is_some_and(Recipe::is_elementwise)
}

/// The reduction of a section that determines its reduced dimensions: one that cannot be secondary,
/// otherwise the first.
pub fn leading_reduction(section: &Graph) -> Option<Node> {
    let reduces = || section.nodes(section.root()).filter(|&node| !recipes_of(section, node).is_empty());
    reduces().find(|&node| !may_be_column_reduction(section, node)).or_else(|| reduces().next())
}

/// The secondary reductions of a section.
pub(crate) fn column_reductions(section: &Graph) -> Vec<Value> {
    let Some(leading) = leading_reduction(section) else { return Vec::new() };
    let is_other = |&node: &Node| {
        node != leading && may_be_column_reduction(section, node) && !same_axes((section, node), (section, leading))
    };
    let others = section.nodes(section.root()).filter(is_other).map(|node| section.output(node, 0));
    let of_same_nodes =
        section.nodes(section.root()).filter_map(|node| returned_columns(section, node)).flat_map(|(all, _)| all);
    match section.nodes(section.root()).any(|node| excludes_column_reductions(section, node)) {
        true => Vec::new(),
        false => others.chain(of_same_nodes).collect(),
    }
}
