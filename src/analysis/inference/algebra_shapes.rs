//! Systems of equations, chains of products, einsum and tensordot, recurrent layers.

use super::elementwise::{broadcast_two, together};
use super::{Call, Extent, dim_of, number};
use crate::ops::shape_rules::Shape;
use crate::types::Dim;

pub(super) fn extent(call: &Call<'_>) -> Option<Extent> {
    match call.row.shape {
        Shape::Solved(matrix, right) => solved(&call.sizes_of(matrix)?, &call.sizes_of(right)?),
        Shape::SolvedSystem => system(call),
        Shape::Chained => chained(call),
        Shape::Vandermonde => vandermonde(call),
        Shape::Contracted => contracted(call),
        Shape::Einsum => einsum(call),
        Shape::Bilinear => bilinear(call),
        Shape::RecurrentOutput => recurrent(call),
        Shape::GruWorkspace => {
            let sizes = call.sizes_of("hx")?;
            let &[rows, columns] = &sizes[..] else { return None };
            Some(Extent::of(vec![rows, dim_of(number(columns).and_then(|n| n.checked_mul(5)))]))
        }
        _ => correlated(call),
    }
}

/// The matrices of the right side, in batches broadcast from both sides.
fn solved(matrix: &[Dim], right: &[Dim]) -> Option<Extent> {
    let ([stack @ .., _, _], [others @ .., rows, columns]) = (matrix, right) else { return None };
    Some(Extent::of([&broadcast_two(stack, others)[..], &[*rows, *columns]].concat()))
}

/// The right side is a vector when it has one dimension, or those of the matrices without the last.
fn system(call: &Call<'_>) -> Option<Extent> {
    let (matrix, mut right) = (call.sizes_of("A")?, call.sizes_of("B")?);
    let known = |sizes: &[Dim]| sizes.iter().map(|dim| number(*dim)).collect::<Option<Vec<i64>>>();
    let is_vector = match right.len() {
        1 => true,
        n if n + 1 == matrix.len() => known(&right)? == known(&matrix[..n])?,
        _ => false,
    };
    if !is_vector {
        return solved(&matrix, &right);
    }
    right.push(Dim::Known(1));
    let mut sizes = solved(&matrix, &right)?.sizes?;
    sizes.pop();
    Some(Extent::of(sizes))
}

/// Rows of the first and columns of the last; a vector at either end has none.
fn chained(call: &Call<'_>) -> Option<Extent> {
    let tensors = call.tensors()?;
    let first = tensors.first()?.sizes.as_deref()?;
    if tensors.len() == 1 {
        return Some(Extent::of(first.to_vec()));
    }
    let last = tensors.last()?.sizes.as_deref()?;
    let rows = if first.len() == 2 { &first[..1] } else { &[] };
    let columns = if last.len() == 2 { &last[1..] } else { &[] };
    (1..=2).contains(&first.len()).then(|| Extent::of([rows, columns].concat()))
}

/// `N` powers, or as many as the last dimension has elements.
fn vandermonde(call: &Call<'_>) -> Option<Extent> {
    let mut sizes = call.sizes()?;
    let powers = match call.operand("N") {
        Some(n) if !call.is_none(n) => dim_of(call.int(&["N"]).filter(|n| *n >= 0)),
        _ => *sizes.last()?,
    };
    sizes.push(powers);
    Some(Extent::of(sizes))
}

/// The uncontracted dimensions of one operand, then those of the other.
fn contracted(call: &Call<'_>) -> Option<Extent> {
    let rest = |tensor: &str, dims: &str| {
        let sizes = call.sizes_of(tensor)?;
        let summed: Vec<usize> =
            call.ints(&[dims])?.into_iter().map(|dim| super::place(dim?, sizes.len())).collect::<Option<_>>()?;
        Some((0..sizes.len()).filter(|i| !summed.contains(i)).map(|i| sizes[i]).collect::<Vec<Dim>>())
    };
    Some(Extent::of([rest("self", "dims_self")?, rest("other", "dims_other")?].concat()))
}

/// The sizes of the dimensions that letters name, and of those that the ellipsis represents.
#[derive(Default)]
struct Named {
    letters: Vec<(char, Dim, usize)>,
    dots: Vec<Dim>,
}

impl Named {
    fn name(&mut self, letter: char, size: Dim) {
        match self.letters.iter_mut().find(|(known, ..)| *known == letter) {
            Some((_, known, count)) => {
                *known = together(*known, size);
                *count += 1;
            }
            None => self.letters.push((letter, size, 1)),
        }
    }

    fn term(&mut self, term: &str, sizes: &[Dim]) -> Option<()> {
        let (before, after) = term.split_once("...").unwrap_or((term, ""));
        let (n, m) = (before.chars().count(), after.chars().count());
        let dots = sizes.len().checked_sub(n + m)?;
        if dots > 0 && !term.contains("...") {
            return None;
        }
        before.chars().zip(sizes).for_each(|(letter, size)| self.name(letter, *size));
        after.chars().zip(&sizes[n + dots..]).for_each(|(letter, size)| self.name(letter, *size));
        self.dots = broadcast_two(&self.dots, &sizes[n..n + dots]);
        Some(())
    }

    /// Without a right side: the ellipsis, then letters that occur once, in alphabetical order.
    fn implied(&self) -> Vec<Dim> {
        let mut once: Vec<_> = self.letters.iter().filter(|(.., count)| *count == 1).collect();
        once.sort_by_key(|(letter, ..)| *letter);
        self.dots.iter().copied().chain(once.into_iter().map(|(_, size, _)| *size)).collect()
    }

    fn sizes(&self, output: &str) -> Option<Vec<Dim>> {
        let size = |letter: char| self.letters.iter().find(|(known, ..)| *known == letter).map(|(_, size, _)| *size);
        let (before, after) = output.split_once("...").unwrap_or((output, ""));
        let dots: &[Dim] = if output.contains("...") { &self.dots } else { &[] };
        let before: Vec<Dim> = before.chars().map(size).collect::<Option<_>>()?;
        let after: Vec<Dim> = after.chars().map(size).collect::<Option<_>>()?;
        Some([&before, dots, &after].concat())
    }
}

fn einsum(call: &Call<'_>) -> Option<Extent> {
    let equation: String = call.text("equation")?.chars().filter(|letter| *letter != ' ').collect();
    let (inputs, output) = match equation.split_once("->") {
        Some((inputs, output)) => (inputs, Some(output)),
        None => (&equation[..], None),
    };
    let tensors = call.tensors()?;
    let terms: Vec<&str> = inputs.split(',').collect();
    if terms.len() != tensors.len() {
        return None;
    }
    let mut named = Named::default();
    for (term, tensor) in terms.into_iter().zip(tensors) {
        named.term(term, tensor.sizes.as_deref()?)?;
    }
    let sizes = match output {
        Some(output) => named.sizes(output)?,
        None => named.implied(),
    };
    Some(Extent::of(sizes))
}

/// The last dimension has the number of matrices; a bias may broadcast it.
fn bilinear(call: &Call<'_>) -> Option<Extent> {
    let mut sizes = call.sizes()?;
    *sizes.last_mut()? = *call.sizes_of("weight")?.first()?;
    if let Some(bias) = call.operand("bias").filter(|&bias| !call.is_none(bias)) {
        sizes = broadcast_two(&sizes, call.tensor_of(bias)?.sizes.as_deref()?);
    }
    Some(Extent::of(sizes))
}

/// Variables by variables; for one variable a zero-dimensional tensor.
fn correlated(call: &Call<'_>) -> Option<Extent> {
    match call.sizes()?[..] {
        [] | [_] | [Dim::Known(1), _] => Some(Extent::of(Vec::new())),
        [Dim::Known(n), _] => Some(Extent::of(vec![Dim::Known(n); 2])),
        _ => None,
    }
}

/// The last dimension is that of the hidden state, once for each direction.
fn recurrent(call: &Call<'_>) -> Option<Extent> {
    let mut sizes = call.sizes()?;
    let hidden = match call.sizes_of("hx") {
        Some(sizes) => *sizes.last()?,
        // The hidden state of an LSTM is the first tensor of a list, after the input and its sizes.
        None => {
            let at = usize::from(call.schema.formal("batch_sizes").is_some()) + 1;
            *call.tensors()?.get(at)?.sizes.as_deref()?.last()?
        }
    };
    let directions = if call.flag("bidirectional")? { 2 } else { 1 };
    *sizes.last_mut()? = dim_of(number(hidden).and_then(|n| n.checked_mul(directions)));
    Some(Extent::of(sizes))
}
