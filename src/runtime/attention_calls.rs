//! Attention as the processor computes it, from one operator or from its parts: sizes, operands
//! with common leading dimensions, and what is done to scores.
//!
//! Dropout that draws, and what PyTorch refuses, are left to the interpreter.

use super::section_reader::Reader;
use crate::interpreter::IValue;
use crate::ir::{Graph, Node, Value};
use crate::ops::attention_rules::{self as rules, OnScores};
use crate::tensor::{DType, Dims, Precision, Scalar, Tensor, layout};

/// A step on scores.
#[derive(Clone, Debug)]
pub(super) enum Step {
    Times(f64),
    Over(f64),
    Plus(Tensor),
    /// A number where a mask of bools has this value.
    Filled {
        mask: Tensor,
        value: bool,
        with: f64,
    },
}

/// Attention. Operands keep their own leading dimensions, which broadcast to `batch`.
#[derive(Clone, Debug)]
pub(super) struct Attention {
    pub(super) dtype: DType,
    pub(super) batch: Dims,
    /// Queries, keys, elements of a key, elements of a value.
    pub(super) rows: i64,
    pub(super) keys: i64,
    pub(super) depth: i64,
    pub(super) width: i64,
    pub(super) query: Tensor,
    /// A key is a column.
    pub(super) key: Tensor,
    pub(super) value: Tensor,
    /// The factor of scores, before their steps.
    pub(super) factor: f64,
    pub(super) steps: Vec<Step>,
    /// Whether a query sees only as many keys as there are queries up to it.
    pub(super) is_causal: bool,
    /// Whether a query that sees no key has zeros as its result, not NaN.
    pub(super) or_zero: bool,
    /// The sizes of the result.
    pub(super) shape: Dims,
    /// Its strides, unless it is contiguous.
    pub(super) strides: Option<Dims>,
}

impl Attention {
    /// The attention of a section for operands.
    ///
    /// # Errors
    /// Why it is not computed here, as text for people.
    pub(super) fn of(section: &Graph, operands: &[IValue]) -> Result<Attention, String> {
        let read = Reader { section, operands };
        let first = read.first()?;
        let made = match section.kind(first).as_str() == rules::ATTENTION {
            true => read.one_operator(first)?,
            false => read.in_parts()?,
        };
        made.checked()
    }

    /// The number of multiplications.
    pub(super) fn multiplications(&self) -> usize {
        let all = [layout::numel(&self.batch) as i64, self.rows, self.keys, self.depth + self.width];
        all.iter().fold(1, |all, &n| all.saturating_mul(n as usize))
    }

    /// The same with operands converted to floats.
    pub(super) fn as_floats(&self) -> Attention {
        let converted = |tensor: &Tensor| tensor.converted(DType::Float, Precision::Typed);
        let step = |step: &Step| match step {
            Step::Plus(mask) => Step::Plus(converted(mask)),
            other => other.clone(),
        };
        Attention {
            query: converted(&self.query),
            key: converted(&self.key),
            value: converted(&self.value),
            steps: self.steps.iter().map(step).collect(),
            ..self.clone()
        }
    }

    /// The same, if operands have the right types, and constants are in the range of these.
    fn checked(self) -> Result<Attention, String> {
        let dtype = self.dtype;
        let is_known = matches!(dtype, DType::Float | DType::Double | DType::Half | DType::BFloat16);
        if !is_known || self.key.dtype() != dtype || self.value.dtype() != dtype {
            return Err(format!("no attention of {} with {}", dtype.name(), self.key.dtype().name()));
        }
        if self.depth == 0 {
            return Err("keys have no elements".to_owned());
        }
        let is_right = |step: &Step| match step {
            Step::Times(by) => by.is_finite() && dtype.holds_float(Scalar::Float(*by)),
            Step::Over(by) => by.is_normal() && dtype.holds_float(Scalar::Float(*by)),
            Step::Plus(mask) => mask.dtype() == dtype,
            Step::Filled { mask, with, .. } => {
                mask.dtype() == DType::Bool && (!with.is_finite() || dtype.holds_float(Scalar::Float(*with)))
            }
        };
        match self.steps.iter().all(is_right) {
            true => Ok(self),
            false => Err("a mask or a factor has another type or is out of range".to_owned()),
        }
    }
}

/// Sizes of scores while they are read, and the dimensions before the last two.
struct Scores {
    shape: Dims,
}

impl Scores {
    fn batch(&self) -> &[i64] {
        &self.shape[..self.shape.len() - 2]
    }

    /// Those of a product of queries and keys.
    fn of(query: &Tensor, key: &Tensor, rank: Option<usize>) -> Result<Scores, String> {
        let (q, k) = (query.shape(), key.shape());
        let batch = batches(q, k, rank)?;
        if q[q.len() - 1] != k[k.len() - 2] {
            return Err("queries and keys have different sizes".to_owned());
        }
        let mut shape = batch;
        shape.extend([q[q.len() - 2], k[k.len() - 1]]);
        Ok(Scores { shape })
    }

    /// A mask may give them more leading dimensions, but neither more queries nor more keys.
    fn masked(&mut self, mask: &Tensor) -> Result<(), String> {
        let shape = layout::broadcast(&self.shape, mask.shape()).map_err(|error| error.0)?;
        if shape[shape.len() - 2..] != self.shape[self.shape.len() - 2..] {
            return Err("a mask has more queries or keys than there are".to_owned());
        }
        self.shape = shape;
        Ok(())
    }
}

/// The common leading dimensions of two factors, which have a rank if one is given, and then the
/// same dimensions.
fn batches(a: &[i64], b: &[i64], rank: Option<usize>) -> Result<Dims, String> {
    if a.len() < 2 || b.len() < 2 {
        return Err("a factor is a vector".to_owned());
    }
    let (a, b) = (&a[..a.len() - 2], &b[..b.len() - 2]);
    if rank.is_some_and(|rank| a != b || a.len() + 2 != rank) {
        return Err("the batches of two factors differ".to_owned());
    }
    layout::broadcast(a, b).map_err(|error| error.0)
}

impl Reader<'_> {
    /// `aten::scaled_dot_product_attention`.
    fn one_operator(&self, node: Node) -> Result<Attention, String> {
        let values: Vec<Value> = self.section.inputs(node).collect();
        let &[query, key, value, mask, dropout, causal, ref more @ ..] = &values[..] else {
            return Err("attention has an unexpected number of operands".to_owned());
        };
        if self.number(dropout)? > 0.0 {
            return Err("it has dropout".to_owned());
        }
        let (mut query, mut key, mut value) = (self.tensor(query)?, self.tensor(key)?, self.tensor(value)?);
        let mut mask = self.optional_tensor(mask)?;
        let is_causal = self.number(causal)? != 0.0;
        if is_causal && mask.is_some() {
            return Err("it has a mask and is causal".to_owned());
        }
        if [&query, &key, &value].iter().any(|tensor| tensor.rank() < 2) {
            return Err("an operand is a vector".to_owned());
        }
        let depth = query.size(query.rank() - 1);
        let scale = more.first().map_or(Ok(None), |&scale| self.optional_number(scale))?;
        let factor = scale.unwrap_or(1.0 / (depth as f64).sqrt());
        let is_grouped = more.get(1).map_or(Ok(0.0), |&grouped| self.number(grouped))? != 0.0;
        let (shape, strides) = (query.shape().to_vec(), rules::result_strides([&query, &key, &value]));
        if is_grouped && query.rank() >= 3 {
            (query, key, value, mask) = grouped((query, key, value), mask)?;
        }
        let key = key.transpose(key.rank() - 1, key.rank() - 2);
        let mut scores = Scores::of(&query, &key, None)?;
        let mut steps = Vec::new();
        if let Some(mask) = mask {
            scores.masked(&mask)?;
            steps.push(match mask.dtype() {
                DType::Bool => Step::Filled { mask, value: false, with: f64::NEG_INFINITY },
                _ => Step::Plus(mask),
            });
        }
        let mut found = attention((query, key, value), &scores, None)?;
        (found.factor, found.steps, found.is_causal, found.or_zero) = (factor, steps, is_causal, true);
        if is_grouped && found.shape.len() > shape.len() {
            let at = shape.len() - 3;
            let heads = found.shape.remove(at);
            found.shape[at] *= heads;
        }
        found.strides = strides.filter(|_| found.shape[..] == shape[..]);
        Ok(found)
    }

    /// Products, softmax, and what is between them.
    fn in_parts(&self) -> Result<Attention, String> {
        let (section, other) = (self.section, || "the section is no attention".to_owned());
        let mut nodes = self.nodes();
        let first = nodes.next().ok_or_else(other)?;
        let rank = rules::product(section, first).ok_or_else(other)?;
        let (query, key) = (self.tensor(section.input(first, 0))?, self.tensor(section.input(first, 1))?);
        let mut scores = Scores::of(&query, &key, rank)?;
        let (mut last, mut steps) = (section.output(first, 0), Vec::new());
        let softmax = loop {
            let node = nodes.next().ok_or_else(other)?;
            if let Some(softmax) = rules::softmax(section, node).filter(|_| section.input(node, 0) == last) {
                last = section.output(node, 0);
                break softmax;
            }
            let step = self.step(rules::on_scores(section, node, last).ok_or_else(other)?)?;
            if let Step::Plus(mask) | Step::Filled { mask, .. } = &step {
                scores.masked(mask)?;
            }
            steps.push(step);
            last = section.output(node, 0);
        };
        let (dim, mut dtype) = (softmax.0, softmax.1.unwrap_or(query.dtype()));
        if dim != -1 && dim != scores.shape.len() as i64 - 1 {
            return Err("the softmax is over another dimension".to_owned());
        }
        if dtype != query.dtype() && !(query.dtype().is_short_float() && dtype == DType::Float) {
            return Err("the softmax has another element type".to_owned());
        }
        let product = loop {
            let node = nodes.next().ok_or_else(other)?;
            match rules::on_weights(section, node, last) {
                Some(to) => dtype = to.unwrap_or(dtype),
                None => break node,
            }
            last = section.output(node, 0);
        };
        let rank = rules::product(section, product).ok_or_else(other)?;
        let is_end = section.results(section.root()).eq([section.output(product, 0)]) && nodes.next().is_none();
        if section.input(product, 0) != last || dtype != query.dtype() || !is_end {
            return Err(other());
        }
        let value = self.tensor(section.input(product, 1))?;
        let mut found = attention((query, key, value), &scores, rank)?;
        found.steps = steps;
        found.fold_factor();
        Ok(found)
    }

    fn step(&self, step: OnScores) -> Result<Step, String> {
        Ok(match step {
            OnScores::Times(by) => Step::Times(self.element(by)?),
            OnScores::Over(by) => Step::Over(self.element(by)?),
            OnScores::Plus(mask) => Step::Plus(self.tensor(mask)?),
            OnScores::FilledWhere(mask, with) => {
                Step::Filled { mask: self.tensor(mask)?, value: true, with: self.element(with)? }
            }
            OnScores::KeptWhere(mask, with) => {
                Step::Filled { mask: self.tensor(mask)?, value: false, with: self.element(with)? }
            }
        })
    }

    /// A number, or the element of a tensor without dimensions.
    fn element(&self, value: Value) -> Result<f64, String> {
        match self.given(value).and_then(IValue::tensor) {
            Some(tensor) if tensor.rank() == 0 && !tensor.dtype().is_complex() => Ok(tensor.item().real()),
            Some(_) => Err("a factor has dimensions".to_owned()),
            None => self.number(value),
        }
    }
}

impl Attention {
    /// Makes a first factor of scores that of the product, where nothing is rounded in between.
    fn fold_factor(&mut self) {
        let factor = match self.steps.first() {
            Some(Step::Times(by)) => *by,
            Some(Step::Over(by)) => 1.0 / by,
            _ => return,
        };
        if !self.dtype.is_short_float() && factor.is_normal() {
            self.factor = factor;
            self.steps.remove(0);
        }
    }
}

/// Attention without steps.
fn attention(
    (query, key, value): (Tensor, Tensor, Tensor),
    scores: &Scores,
    rank: Option<usize>,
) -> Result<Attention, String> {
    let batch = batches(&scores.shape, value.shape(), rank)?;
    let (rows, keys) = (scores.shape[scores.shape.len() - 2], scores.shape[scores.shape.len() - 1]);
    if value.size(value.rank() - 2) != keys {
        return Err("keys and values have different sizes".to_owned());
    }
    let (depth, width) = (query.size(query.rank() - 1), value.size(value.rank() - 1));
    debug_assert!(layout::broadcast(scores.batch(), &batch).is_ok_and(|both| both == batch));
    let mut shape = batch.clone();
    shape.extend([rows, width]);
    layout::checked(&shape).map_err(|error| error.0)?;
    let dtype = query.dtype();
    let (factor, steps, is_causal, or_zero) = (1.0, Vec::new(), false, false);
    Ok(Attention {
        dtype,
        batch,
        rows,
        keys,
        depth,
        width,
        query,
        key,
        value,
        factor,
        steps,
        is_causal,
        or_zero,
        shape,
        strides: None,
    })
}

/// Operands with a dimension of groups of query heads that have the same keys.
type Grouped = (Tensor, Tensor, Tensor, Option<Tensor>);

fn grouped((query, key, value): (Tensor, Tensor, Tensor), mask: Option<Tensor>) -> Result<Grouped, String> {
    let at = query.rank() - 3;
    let heads = query.size(at);
    let own = key.size(key.rank().saturating_sub(3));
    let fits = key.rank() == query.rank() && value.rank() == query.rank() && value.size(at) == own;
    if !fits || own == 0 || heads % own != 0 {
        return Err("heads of keys and values do not divide those of queries".to_owned());
    }
    let split = |tensor: &Tensor| -> Result<Tensor, String> {
        let at = tensor.rank() - 3;
        let mut shape = tensor.shape().to_vec();
        shape[at] = own;
        shape.insert(at + 1, heads / own);
        tensor.view(&shape).ok_or_else(|| "heads are not grouped".to_owned())
    };
    let mask = match mask {
        Some(mask) if mask.rank() >= 3 && mask.size(mask.rank() - 3) == heads => Some(split(&mask)?),
        Some(mask) if mask.rank() >= 3 => Some(mask.unsqueeze(mask.rank() - 2)),
        mask => mask,
    };
    Ok((split(&query)?, key.unsqueeze(at + 1), value.unsqueeze(at + 1), mask))
}
