//! Properties of a value that the nodes using it imply, where its type is not precise: its rank,
//! its element type, whether it is a probability.

use super::sketch::{Sketch, TensorSketch};
use super::tailoring::subscripts::{self, Subscripts};
use crate::ir::{Attribute, Graph, Node, Value};
use crate::ops;
use crate::ops::rows::{self, AsResult, Operands, Rank};
use crate::ops::schema::Schema;
use crate::symbol::{Symbol, prim};
use crate::tensor::DType;
use crate::types::TypeKind;

/// The properties of a value that its uses imply.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Hint {
    /// Its rank.
    pub rank: Option<usize>,
    dtype: Option<DType>,
    /// Whether it is a number from 0 to 1.
    probability: bool,
}

/// Conversions to numbers, which have no row of facts: the rank of their operand is 0.
const NUMBERS: &[&str] = &["aten::Bool", "aten::Int", "aten::Float", "aten::item"];

/// The length of the list that a node takes as this formal.
fn length_of(graph: &Graph, node: Node, formal: &str) -> Option<usize> {
    let schemas = ops::operator(graph.era, graph.kind(node)).schemas;
    let list = graph.inputs(node).nth(schemas.iter().find_map(|schema| schema.formal(formal))?)?;
    let made = graph.definer(list).filter(|&node| graph.kind(node) == prim::LIST_CONSTRUCT);
    match (made, graph.constant(list)) {
        (Some(made), _) => Some(graph.num_inputs(made)),
        (None, Some(Some(Attribute::List(parts)))) => Some(parts.len()),
        _ => None,
    }
}

/// The rank that the results of a node imply: `B, T, C = x.shape`.
fn unpacked_rank(graph: &Graph, node: Node) -> Option<usize> {
    if graph.kind(node).as_str() != "aten::size" || graph.num_inputs(node) != 1 {
        return None;
    }
    let unpacks = |&node: &Node| graph.kind(node) == prim::LIST_UNPACK;
    let unpacked = graph.uses(graph.single_output(node)?).map(|u| graph.user(u)).find(unpacks)?;
    Some(graph.num_outputs(unpacked))
}

/// Whether a formal takes numbers from 0 to 1.
fn is_probability(kind: &str, formal: &str) -> bool {
    let draws = || ["dropout", "bernoulli", "geometric"].iter().any(|word| kind.contains(word));
    matches!(formal, "dropout_p" | "dropout") || formal == "p" && draws()
}

/// The maximal number of values visited for one hint.
const MOST_FOLLOWED: usize = 64;

/// The properties that uses imply, including uses of results that preserve the property.
pub(crate) fn hint(graph: &Graph, value: Value) -> Hint {
    let mut hint = implied_by_uses(graph, value);
    let (mut work, mut followed) = (implied_by_results(graph, value), 0);
    while let Some((value, rank, dtype)) = work.pop() {
        followed += 1;
        if followed > MOST_FOLLOWED {
            break;
        }
        let later = implied_by_uses(graph, value);
        hint.rank = hint.rank.or(later.rank.filter(|_| rank));
        hint.dtype = hint.dtype.or(later.dtype.filter(|_| dtype));
        work.extend(implied_by_results(graph, value).into_iter().map(|(value, r, d)| (value, rank && r, dtype && d)));
        work.retain(|&(_, rank, dtype)| rank && hint.rank.is_none() || dtype && hint.dtype.is_none());
    }
    hint
}

/// The results of nodes that imply properties of a value, with flags for the rank and for the
/// elements.
fn implied_by_results(graph: &Graph, value: Value) -> Vec<(Value, bool, bool)> {
    let mut results = Vec::new();
    for u in graph.uses(value) {
        let user = graph.user(u);
        let is_list = graph.kind(user) == prim::LIST_CONSTRUCT;
        let through = if is_list { graph.single_output(user) } else { Some(value) };
        let uses = through.into_iter().flat_map(|through| graph.uses(through));
        for u in uses.filter(|&u| graph.operand_index(u) == 0) {
            let node = graph.user(u);
            let as_result = facts(graph.kind(node)).map_or_else(AsResult::default, |facts| facts.as_result);
            let takes_list = matches!(graph.ty(graph.input(node, 0)).kind(), TypeKind::List(_));
            let fits = is_list == takes_list && (as_result.rank || as_result.elements);
            if let Some(output) = graph.outputs(node).next().filter(|_| fits) {
                results.push((output, as_result.rank, as_result.elements));
            }
        }
    }
    results
}

fn implied_by_uses(graph: &Graph, value: Value) -> Hint {
    let mut hint = Hint::default();
    for u in graph.uses(value) {
        let (node, index) = (graph.user(u), graph.operand_index(u));
        if graph.kind(node) == prim::LIST_CONSTRUCT {
            for list in graph.outputs(node).flat_map(|list| graph.uses(list)) {
                let (user, formal) = (graph.user(list), graph.operand_index(list));
                note(graph, user, formal, &mut hint);
                hint.rank = hint.rank.or_else(|| subscripts(graph, user)?.get(index)?.rank());
            }
        } else {
            note(graph, node, index, &mut hint);
            hint.rank = hint.rank.or_else(|| unpacked_rank(graph, node).filter(|_| index == 0));
        }
    }
    hint
}

/// The subscripts of an `einsum`; `None` for other nodes.
fn subscripts(graph: &Graph, node: Node) -> Option<Vec<Subscripts>> {
    (graph.kind(node).as_str() == "aten::einsum").then(|| subscripts::subscripts(graph, node))?
}

/// The operands of an operator, or of the one that it does in place: `relu_`.
fn facts(kind: Symbol) -> Option<Operands> {
    let pure = || kind.as_str().strip_suffix('_').filter(|kind| !kind.ends_with('_')).map(Symbol::new);
    rows::row(kind).or_else(|| rows::row(pure()?))?.operands.known()
}

/// Records the properties that a node implies for its operand, or for the elements of that list.
fn note(graph: &Graph, node: Node, index: usize, hint: &mut Hint) {
    let kind = graph.kind(node);
    let formals = formals_at(graph, node, index);
    hint.probability |= formals.iter().any(|formal| is_probability(kind.as_str(), formal));
    let takes_integers = || rows::row(kind).is_some_and(|row| row.takes_integers(index));
    hint.dtype = hint.dtype.or_else(|| takes_integers().then_some(DType::Long));
    if NUMBERS.contains(&kind.as_str()) {
        hint.rank = hint.rank.or(Some(0));
    }
    let hints = facts(kind).map_or(&[][..], |facts| facts.hints);
    for stated in hints.iter().filter(|stated| formals.contains(&stated.formal)) {
        let rank = match stated.rank {
            Some(Rank::Listed(list, more)) => length_of(graph, node, list).map(|length| length + more),
            Some(Rank::Is(rank)) => Some(rank),
            None => None,
        };
        *hint = Hint { rank: hint.rank.or(rank), dtype: hint.dtype.or(stated.elements), ..*hint };
    }
}

/// The names of a formal in the resolved overload, or in all overloads if types do not determine
/// it.
fn formals_at(graph: &Graph, node: Node, index: usize) -> Vec<&'static str> {
    let operator = ops::operator(graph.era, graph.kind(node));
    let types: Vec<_> = graph.inputs(node).map(|value| graph.ty(value)).collect();
    let named = |schema: &'static Schema| schema.formals.get(index).map(|formal| formal.name);
    match operator.resolve(&types).schema() {
        Some(schema) => named(schema).into_iter().collect(),
        None => operator.schemas.iter().filter_map(named).collect(),
    }
}

/// A sketch with the properties implied by uses.
pub(crate) fn hinted(mut sketch: Sketch, hint: Hint) -> Sketch {
    if matches!(sketch, Sketch::Float) && hint.probability {
        return Sketch::Probability;
    }
    if let (Sketch::Tensor(tensor), Some(_)) = (&mut sketch, hint.rank) {
        tensor.free_rank = false;
    }
    if let (Sketch::Tensor(TensorSketch { dtype, free_dtype: true, .. }), Some(hint)) = (&mut sketch, hint.dtype) {
        *dtype = hint;
    }
    sketch
}
