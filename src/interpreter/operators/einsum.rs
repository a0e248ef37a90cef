//! Sums of products over labelled dimensions: `einsum` and operators that reduce to it.

use super::elements::{check, sum_over};
use super::linear_algebra::product;
use crate::interpreter::call::{Answer, Call, Row, one};
use crate::interpreter::stop::Stop;
use crate::tensor::{Tensor, layout};

/// The kernel table.
pub(crate) const ROWS: &[Row] =
    &[("aten::einsum", einsum), ("aten::tensordot", tensordot), ("aten::inner", inner), ("aten::bilinear", bilinear)];

/// A dimension has a letter, a number counted from the end in an ellipsis, or a number given by the
/// caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Label {
    Letter(u8),
    Ellipsis(usize),
    Number(usize),
}

/// A tensor and the labels of its dimensions, which are distinct.
#[derive(Clone)]
struct Term {
    tensor: Tensor,
    labels: Vec<Label>,
}

impl Term {
    /// Repeated labels select diagonals.
    fn new(tensor: &Tensor, labels: &[Label]) -> Result<Term, Stop> {
        let (mut shape, mut strides, mut kept): (Vec<i64>, Vec<i64>, Vec<Label>) = Default::default();
        for (i, &label) in labels.iter().enumerate() {
            match kept.iter().position(|&seen| seen == label) {
                Some(at) => {
                    check(shape[at] == tensor.size(i), || {
                        format!(
                            "einsum(): subscript is repeated for an operand but the sizes don't match, {} != {}",
                            tensor.size(i),
                            shape[at]
                        )
                    })?;
                    strides[at] += tensor.strides()[i];
                }
                None => {
                    shape.push(tensor.size(i));
                    strides.push(tensor.strides()[i]);
                    kept.push(label);
                }
            }
        }
        Ok(Term { tensor: tensor.as_strided(&shape, &strides, tensor.offset() as i64)?, labels: kept })
    }

    fn size(&self, label: Label) -> Option<i64> {
        self.labels.iter().position(|&known| known == label).map(|i| self.tensor.size(i))
    }

    /// The tensor with these labels in this order; missing ones get size 1, and size 1 is broadcast
    /// to `sizes`.
    fn arranged(&self, labels: &[Label], sizes: &[i64]) -> Result<Tensor, Stop> {
        let present: Vec<usize> =
            labels.iter().filter_map(|label| self.labels.iter().position(|known| known == label)).collect();
        let mut tensor = self.tensor.permute(&present);
        for (i, label) in labels.iter().enumerate() {
            if !self.labels.contains(label) {
                tensor = tensor.unsqueeze(i);
            }
        }
        Ok(tensor.broadcast_to(sizes)?)
    }

    /// Sums over all labels that are not wanted.
    fn summed(self, call: &Call, wanted: impl Fn(Label) -> bool) -> Term {
        let gone: Vec<usize> = (0..self.labels.len()).filter(|&i| !wanted(self.labels[i])).collect();
        if gone.is_empty() {
            return self;
        }
        let labels = self.labels.iter().copied().filter(|&label| wanted(label)).collect();
        Term { tensor: sum_over(call, &self.tensor, &gone, false), labels }
    }
}

/// The sum of the products of two terms over all labels that are not needed later.
fn contract(call: &Call, a: Term, b: Term, needed: impl Fn(Label) -> bool) -> Result<Term, Stop> {
    let a = a.summed(call, |label| needed(label) || b.labels.contains(&label));
    let b = b.summed(call, |label| needed(label) || a.labels.contains(&label));
    let both = |label: &Label| b.labels.contains(label);
    let batch: Vec<Label> = a.labels.iter().copied().filter(|label| both(label) && needed(*label)).collect();
    let gone: Vec<Label> = a.labels.iter().copied().filter(|label| both(label) && !needed(*label)).collect();
    let left: Vec<Label> = a.labels.iter().copied().filter(|label| !both(label)).collect();
    let right: Vec<Label> = b.labels.iter().copied().filter(|label| !a.labels.contains(label)).collect();
    let size = |label: &Label| common(a.size(*label), b.size(*label));
    let sizes = |labels: &[Label]| labels.iter().map(size).collect::<Result<Vec<i64>, Stop>>();
    let (batch_sizes, gone_sizes) = (sizes(&batch)?, sizes(&gone)?);
    let (left_sizes, right_sizes) = (sizes(&left)?, sizes(&right)?);
    let (n, k): (i64, i64) = (batch_sizes.iter().product(), gone_sizes.iter().product());
    let (rows, cols): (i64, i64) = (left_sizes.iter().product(), right_sizes.iter().product());
    let x = a.arranged(&[&batch[..], &left, &gone].concat(), &[&batch_sizes[..], &left_sizes, &gone_sizes].concat())?;
    let y =
        b.arranged(&[&batch[..], &gone, &right].concat(), &[&batch_sizes[..], &gone_sizes, &right_sizes].concat())?;
    let z = product(call, &x.reshape(&[n, rows, k]), &y.reshape(&[n, k, cols]), None)?;
    let tensor = z.reshape(&[&batch_sizes[..], &left_sizes, &right_sizes].concat());
    Ok(Term { tensor, labels: [batch, left, right].concat() })
}

/// The size of a label from those of two operands: 1 is broadcast.
fn common(a: Option<i64>, b: Option<i64>) -> Result<i64, Stop> {
    match (a, b) {
        (Some(x), Some(y)) if x == y || y == 1 => Ok(x),
        (Some(1), Some(y)) => Ok(y),
        (Some(x), Some(y)) => Err(Stop::raised(format!(
            "einsum(): operands do not broadcast with remapped shapes [original->remapped]: sizes {x} and {y}"
        ))),
        (x, y) => Ok(x.or(y).unwrap_or(1)),
    }
}

/// Multiplies from left to right and arranges the result.
fn evaluate(call: &Call, mut terms: Vec<Term>, out: &[Label]) -> Result<Tensor, Stop> {
    terms.reverse();
    let Some(mut first) = terms.pop() else {
        return Err(Stop::raised("einsum(): must provide at least one operand"));
    };
    while let Some(next) = terms.pop() {
        let later = |label: Label| out.contains(&label) || terms.iter().any(|term| term.labels.contains(&label));
        first = contract(call, first, next, later)?;
    }
    let last = first.summed(call, |label| out.contains(&label));
    let sizes: Vec<i64> = out.iter().map(|&label| last.size(label).unwrap_or(1)).collect();
    last.arranged(out, &sizes)
}

fn einsum(call: &Call) -> Answer {
    let equation: String = call.str("equation")?.chars().filter(|c| !c.is_whitespace()).collect();
    let tensors = call.tensors("tensors")?;
    let (inputs, output) = match equation.split_once("->") {
        Some((inputs, output)) => (inputs, Some(output)),
        None => (&equation[..], None),
    };
    let parts: Vec<&str> = inputs.split(',').collect();
    check(parts.len() == tensors.len(), || {
        let word = if parts.len() > tensors.len() { "fewer" } else { "more" };
        format!("einsum(): {word} operands were provided than specified in the equation")
    })?;
    let terms = parts.iter().zip(&tensors).map(|(part, tensor)| Term::new(tensor, &subscripts(part, tensor.rank())?));
    let terms = terms.collect::<Result<Vec<Term>, Stop>>()?;
    let widest = terms.iter().flat_map(|term| &term.labels).filter_map(|label| match label {
        Label::Ellipsis(i) => Some(i + 1),
        _ => None,
    });
    let widest = widest.max().unwrap_or(0);
    let out = match output {
        Some(text) => subscripts(text, text.replace("...", "").len() + if text.contains("...") { widest } else { 0 })?,
        None => implied(&parts, widest),
    };
    for (i, label) in out.iter().enumerate() {
        let known = matches!(label, Label::Ellipsis(_)) || terms.iter().any(|term| term.labels.contains(label));
        check(known && !out[..i].contains(label), || {
            "einsum(): output subscript does not appear in the equation for any input operand, or more than once"
                .to_owned()
        })?;
    }
    one(evaluate(call, terms, &out)?)
}

/// The labels of an operand. The ellipsis has the dimensions that the letters leave.
fn subscripts(text: &str, rank: usize) -> Result<Vec<Label>, Stop> {
    let (before, after) = match text.split_once("...") {
        Some((before, after)) => (before, Some(after)),
        None => (text, None),
    };
    let letters = |text: &str| -> Result<Vec<Label>, Stop> {
        check(text.bytes().all(|c| c.is_ascii_alphabetic()), || {
            format!("einsum(): invalid subscript given in '{text}', subscripts must be in [a-zA-Z]")
        })?;
        Ok(text.bytes().map(Label::Letter).collect())
    };
    let (mut labels, after_labels) = (letters(before)?, after.map(letters).transpose()?);
    let named = labels.len() + after_labels.as_ref().map_or(0, Vec::len);
    check(if after.is_some() { named <= rank } else { named == rank }, || {
        format!(
            "einsum(): the number of subscripts in the equation ({named}) does not match the number of dimensions ({rank}) for an operand"
        )
    })?;
    if let Some(after) = after_labels {
        labels.extend((0..rank - named).rev().map(Label::Ellipsis));
        labels.extend(after);
    }
    Ok(labels)
}

/// The implicit output: the ellipsis, then the letters that occur once, capitals first.
fn implied(parts: &[&str], widest: usize) -> Vec<Label> {
    let letters: Vec<u8> = parts.iter().flat_map(|part| part.bytes()).filter(u8::is_ascii_alphabetic).collect();
    let once = |letter: &u8| letters.iter().filter(|&other| other == letter).count() == 1;
    let mut single: Vec<u8> = letters.iter().copied().filter(once).collect();
    single.sort_unstable();
    (0..widest).rev().map(Label::Ellipsis).chain(single.into_iter().map(Label::Letter)).collect()
}

fn tensordot(call: &Call) -> Answer {
    let (a, b) = (call.tensor("self")?, call.tensor("other")?);
    let (x, y) = (call.ints("dims_self")?, call.ints("dims_other")?);
    check(x.len() == y.len(), || "both dimension lists should have same length".to_owned())?;
    let (x, y) = (layout::wrap_all(&x, a.rank())?, layout::wrap_all(&y, b.rank())?);
    for (&i, &j) in x.iter().zip(&y) {
        check(a.size(i) == b.size(j) || a.size(i) == 1 || b.size(j) == 1, || {
            format!(
                "contracted dimensions need to match, but first has size {} in dim {i} and second has size {} in dim {j}",
                a.size(i),
                b.size(j)
            )
        })?;
    }
    let first: Vec<Label> = (0..a.rank()).map(Label::Number).collect();
    let name = |j: usize| y.iter().position(|&k| k == j).map_or(a.rank() + j, |at| x[at]);
    let second: Vec<Label> = (0..b.rank()).map(|j| Label::Number(name(j))).collect();
    let gone = |label: &Label| !x.iter().any(|&i| *label == Label::Number(i));
    let out: Vec<Label> = first.iter().chain(&second).copied().filter(gone).collect();
    one(evaluate(call, vec![Term::new(&a, &first)?, Term::new(&b, &second)?], &out)?)
}

fn inner(call: &Call) -> Answer {
    let (a, b) = (call.tensor("self")?, call.tensor("other")?);
    if a.rank() == 0 || b.rank() == 0 {
        return one(super::elements::multiply(call, &a, &b)?);
    }
    check(a.size(a.rank() - 1) == b.size(b.rank() - 1), || {
        format!(
            "inner() the last dimension must match on both input tensors but got shapes {:?} and {:?}",
            a.shape(),
            b.shape()
        )
    })?;
    let label = |from: usize, n: usize| (0..n).map(move |i| Label::Number(if i + 1 == n { 0 } else { from + i }));
    let first: Vec<Label> = label(1, a.rank()).collect();
    let second: Vec<Label> = label(1 + a.rank(), b.rank()).collect();
    let out: Vec<Label> = first.iter().chain(&second).copied().filter(|label| *label != Label::Number(0)).collect();
    one(evaluate(call, vec![Term::new(&a, &first)?, Term::new(&b, &second)?], &out)?)
}

/// `x1' W x2 + bias` over the last dimensions.
fn bilinear(call: &Call) -> Answer {
    let (a, b, weight) = (call.tensor("input1")?, call.tensor("input2")?, call.tensor("weight")?);
    check(a.rank() == b.rank() && a.rank() > 0 && weight.rank() == 3, || {
        format!("bilinear(): input dimensions do not match: got {} and {}", a.rank(), b.rank())
    })?;
    let last = a.rank() - 1;
    check(a.shape()[..last] == b.shape()[..last], || {
        format!("bilinear(): input batch dimensions do not match: got {:?} and {:?}", a.shape(), b.shape())
    })?;
    if let Some(bias) = call.opt_tensor("bias")? {
        check(bias.rank() > 0 && bias.size(0) == weight.size(0), || {
            format!(
                "bilinear(): bias size does not match weight size: got {:?} but expected {}",
                bias.shape(),
                weight.size(0)
            )
        })?;
    }
    let outer: Vec<Label> = (3..a.rank() + 2).map(Label::Number).collect();
    let with = |last: usize| [&outer[..], &[Label::Number(last)]].concat();
    let labels = [Label::Number(0), Label::Number(1), Label::Number(2)];
    let terms = vec![Term::new(&a, &with(1))?, Term::new(&weight, &labels)?, Term::new(&b, &with(2))?];
    let result = evaluate(call, terms, &with(0))?;
    one(match call.opt_tensor("bias")? {
        Some(bias) => super::elements::add(call, &result, &bias)?,
        None => result,
    })
}
