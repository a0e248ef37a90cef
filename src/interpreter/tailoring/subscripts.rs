//! Shapes of the operands of `einsum`: a letter has one size in all operands.

use super::{Layer, Proposals, Wanted};
use crate::ir::{Attribute, Graph, Node, Value};
use crate::symbol::prim;
use crate::tensor::layout::Dims;
use std::collections::BTreeMap;

/// The subscripts of one operand: letters, and whether they include an ellipsis.
pub(crate) struct Subscripts {
    before: Vec<u8>,
    after: Option<Vec<u8>>,
}

impl Subscripts {
    /// The rank of the operand, if it is known.
    pub(crate) fn rank(&self) -> Option<usize> {
        self.after.is_none().then_some(self.before.len())
    }

    /// The letter of each dimension of an operand of this rank; `None` for those of the ellipsis.
    fn letters(&self, rank: usize) -> Option<Vec<Option<u8>>> {
        let after = self.after.as_deref().unwrap_or_default();
        let hidden = rank.checked_sub(self.before.len() + after.len())?;
        if self.after.is_none() && hidden > 0 {
            return None;
        }
        let letter = |&letter: &u8| Some(letter);
        let all = self.before.iter().map(letter).chain(std::iter::repeat_n(None, hidden));
        Some(all.chain(after.iter().map(letter)).collect())
    }
}

/// The subscripts of all operands of an `einsum` whose equation is a constant.
pub(crate) fn subscripts(graph: &Graph, node: Node) -> Option<Vec<Subscripts>> {
    let equation = graph.inputs(node).next()?;
    let Some(Some(Attribute::Str(text))) = graph.constant(equation) else { return None };
    let text = String::from_utf8_lossy(text).replace(' ', "");
    let operands = text.split("->").next()?;
    let one = |part: &str| match part.split_once("...") {
        Some((before, after)) => Subscripts { before: before.bytes().collect(), after: Some(after.bytes().collect()) },
        None => Subscripts { before: part.bytes().collect(), after: None },
    };
    Some(operands.split(',').map(one).collect())
}

/// The operands of an `einsum`, in the order of the equation.
pub(crate) fn operands(graph: &Graph, node: Node) -> Vec<Value> {
    let list = graph.inputs(node).nth(1).and_then(|list| graph.definer(list));
    let made = list.filter(|&node| graph.kind(node) == prim::LIST_CONSTRUCT);
    made.map_or_else(Vec::new, |made| graph.inputs(made).collect())
}

/// Sizes of letters come from operands that cannot change, else from the first that has them.
pub(super) fn einsum(layer: &Layer<'_>) -> Option<Proposals> {
    let parts = subscripts(layer.graph, layer.node)?;
    let values = operands(layer.graph, layer.node);
    let mut sizes: BTreeMap<u8, i64> = BTreeMap::new();
    let (free, fixed): (Vec<_>, Vec<_>) = values.iter().zip(&parts).partition(|&(&value, _)| layer.may_change(value));
    for &(&value, part) in fixed.iter().chain(&free) {
        let Some(shape) = layer.shape_of(value) else { continue };
        let Some(letters) = part.letters(shape.len()) else { continue };
        for (letter, &size) in letters.iter().zip(&shape) {
            // Size 1 is broadcast to another.
            if let Some(letter) = letter {
                let known = sizes.entry(*letter).or_insert(size);
                *known = if *known == 1 { size } else { *known };
            }
        }
    }
    let wanted = |(&value, part): (&Value, &Subscripts)| {
        let now = layer.shape_of(value).unwrap_or_default();
        let least = part.before.len() + part.after.as_ref().map_or(0, Vec::len);
        let rank = part.rank().unwrap_or(now.len().max(least));
        let letters = part.letters(rank)?;
        let size = |(i, letter): (usize, &Option<u8>)| match letter {
            Some(letter) => sizes.get(letter).copied().unwrap_or(3),
            None => now.get(i).copied().unwrap_or(3),
        };
        Some((value, Wanted::Shape(letters.iter().enumerate().map(size).collect::<Dims>())))
    };
    Some(free.into_iter().filter_map(wanted).collect())
}
