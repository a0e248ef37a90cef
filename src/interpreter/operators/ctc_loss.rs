//! Connectionist temporal classification: the negative log-likelihood of labels, over all
//! alignments to the steps of a longer sequence (Graves et al., 2006).
//!
//! A blank may occur between labels, before and after them. The sum over all alignments up to a
//! step is computed from the preceding step; the gradient uses the same recursion from the other
//! end. All numbers are logarithms.

use super::elements::{check, floats, like};
use crate::interpreter::call::{Answer, Call, Row, one, several};
use crate::interpreter::environment::Release;
use crate::interpreter::ivalue::IValue;
use crate::interpreter::stop::Stop;
use crate::tensor::{DType, Tensor};

/// The kernel table.
pub(crate) const ROWS: &[Row] = &[
    ("aten::_ctc_loss", |call| {
        let batch = Batch::of(call, &call.tensor("log_probs")?)?;
        several([batch.losses(call), batch.log_alpha(call)])
    }),
    ("aten::_ctc_loss_backward", backward),
    ("aten::ctc_loss", reduced),
];

/// One sequence: its number of steps, and its labels with blanks around each.
struct Case {
    steps: usize,
    labels: Vec<usize>,
}

/// Log-probabilities of each class in each step of each sequence.
struct Batch {
    scores: Tensor,
    all: Vec<f64>,
    classes: usize,
    cases: Vec<Case>,
}

/// Numbers given as a list or as a tensor.
fn lengths(call: &Call, name: &str) -> Result<Vec<i64>, Stop> {
    match call.get(name) {
        Some(IValue::Tensor(tensor)) => Ok(tensor.read::<i64>()),
        _ => call.ints(name),
    }
}

const WHERE: &str = "(while checking arguments for ctc_loss_allocate_outputs)";

/// The labels of each sequence: rows of a matrix, or concatenated.
fn labels(call: &Call, counts: &[i64]) -> Result<Vec<Vec<i64>>, Stop> {
    let targets = call.tensor("targets")?;
    check(matches!(targets.dtype(), DType::Int | DType::Long), || {
        format!("Expected tensor for argument #2 'targets' to have scalar type Int or Long {WHERE}")
    })?;
    let total = counts.iter().sum::<i64>();
    let most = counts.iter().copied().max().unwrap_or(0);
    let (stride, dim, wanted) = match targets.rank() {
        1 => (None, 0, total),
        _ => (Some(targets.size(1) as usize), 1, most),
    };
    let fits = if dim == 0 { targets.size(0) == total } else { targets.size(1) >= most };
    check(fits && counts.iter().all(|&count| count >= 0), || {
        let (least, found) = (if dim == 0 { "" } else { "at least " }, targets.size(dim));
        format!(
            "Expected tensor to have size {least}{wanted} at dimension {dim}, but got size {found} for argument #2 'targets' {WHERE}"
        )
    })?;
    let (all, mut at) = (targets.read::<i64>(), 0);
    let taken = counts.iter().enumerate().map(|(n, &count)| {
        let begin = stride.map_or(at, |stride| n * stride);
        at += count as usize;
        all.get(begin..begin + count as usize).map(<[i64]>::to_vec)
    });
    taken.collect::<Option<_>>().ok_or_else(|| Stop::raised("target_lengths must be of size batch_size"))
}

impl Batch {
    fn of(call: &Call, scores: &Tensor) -> Result<Batch, Stop> {
        check(scores.rank() == 3, || {
            format!(
                "Expected 3-dimensional tensor, but got {}-dimensional tensor for argument #1 'log_probs' {WHERE}",
                scores.rank()
            )
        })?;
        floats("ctc_loss_cpu", scores)?;
        let (steps, count, classes) = (scores.size(0), scores.size(1) as usize, scores.size(2));
        let (inputs, targets) = (lengths(call, "input_lengths")?, lengths(call, "target_lengths")?);
        check(inputs.len() == count, || "input_lengths must be of size batch_size".to_owned())?;
        check(targets.len() == count, || "target_lengths must be of size batch_size".to_owned())?;
        let blank = call.int("blank")?;
        check((0..classes).contains(&blank), || "blank must be in label range".to_owned())?;
        if let Some(length) = inputs.iter().find(|length| !(0..=steps).contains(length)) {
            let bound = if *length < 0 { "least 0".to_owned() } else { format!("most {steps}") };
            return Err(Stop::raised(format!(
                "Expected input_lengths to have value at {bound}, but got value {length} {WHERE}"
            )));
        }
        let mut cases = Vec::new();
        for (labels, steps) in labels(call, &targets)?.into_iter().zip(inputs) {
            // Eager mode reads arbitrary memory here.
            check(labels.iter().all(|label| (0..classes).contains(label)), || "a label is not a class".to_owned())?;
            let around = labels.into_iter().flat_map(|label| [label as usize, blank as usize]);
            let labels = std::iter::once(blank as usize).chain(around).collect();
            cases.push(Case { steps: steps as usize, labels });
        }
        Ok(Batch { scores: scores.clone(), all: scores.read::<f64>(), classes: classes as usize, cases })
    }

    /// The index of the score of a class.
    fn at(&self, step: usize, case: usize, class: usize) -> usize {
        (step * self.cases.len() + case) * self.classes + class
    }

    /// For each step and label, the sum over all alignments up to that point.
    fn alphas(&self, n: usize) -> Vec<f64> {
        let case = &self.cases[n];
        paths(&case.labels, case.steps, |step, class| self.all[self.at(step, n, class)])
    }

    /// For each step and label, the sum over all alignments from that point on.
    fn betas(&self, n: usize) -> Vec<f64> {
        let case = &self.cases[n];
        let labels: Vec<usize> = case.labels.iter().rev().copied().collect();
        let mut all = paths(&labels, case.steps, |step, class| self.all[self.at(case.steps - 1 - step, n, class)]);
        all.reverse();
        all
    }

    /// The loss of a sequence, from [`Batch::alphas`]: alignments end with the last label, or the
    /// blank after it.
    fn loss(&self, n: usize, alphas: &[f64]) -> f64 {
        let labels = &self.cases[n].labels;
        match alphas.len() {
            0 if labels.len() > 1 => f64::INFINITY,
            0 => -0.0,
            end => -log_sum(&alphas[end - labels.len().min(2)..]),
        }
    }

    fn losses(&self, call: &Call) -> Tensor {
        let losses: Vec<f64> = (0..self.cases.len()).map(|n| self.loss(n, &self.alphas(n))).collect();
        like(call, &losses, self.scores.dtype(), &[losses.len() as i64], &self.scores)
    }

    /// The result of [`Batch::alphas`], with impossible alignments after the end, where eager mode
    /// leaves memory unwritten.
    fn log_alpha(&self, call: &Call) -> Tensor {
        let (steps, width) = (self.scores.size(0), self.cases.iter().map(|case| case.labels.len()).max().unwrap_or(1));
        let mut all = vec![f64::NEG_INFINITY; self.cases.len() * steps as usize * width];
        for (n, case) in self.cases.iter().enumerate() {
            for (step, row) in self.alphas(n).chunks(case.labels.len()).enumerate() {
                let begin = (n * steps as usize + step) * width;
                all[begin..begin + row.len()].copy_from_slice(row);
            }
        }
        like(call, &all, self.scores.dtype(), &[self.cases.len() as i64, steps, width as i64], &self.scores)
    }
}

/// The logarithm of the sum of the numbers with these logarithms.
fn log_sum(all: &[f64]) -> f64 {
    let most = all.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    if most == f64::NEG_INFINITY { most } else { most + all.iter().map(|x| (x - most).exp()).sum::<f64>().ln() }
}

/// Sums over alignments: a step stays at its label, moves to the next, or skips a blank to a
/// different label.
fn paths(labels: &[usize], steps: usize, score: impl Fn(usize, usize) -> f64) -> Vec<f64> {
    let width = labels.len();
    let mut all: Vec<f64> = Vec::with_capacity(steps * width);
    for step in 0..steps {
        for (s, &class) in labels.iter().enumerate() {
            let skips = s >= 2 && class != labels[s - 2];
            let before = match step {
                0 => {
                    if s < 2 {
                        0.0
                    } else {
                        f64::NEG_INFINITY
                    }
                }
                _ => {
                    let last = &all[(step - 1) * width..step * width];
                    log_sum(&last[s.saturating_sub(if skips { 2 } else { 1 })..=s])
                }
            };
            all.push(before + score(step, class));
        }
    }
    all
}

/// As in eager mode, the gradient is of the input of `log_softmax`; the scores must be its output.
fn backward(call: &Call) -> Answer {
    let batch = Batch::of(call, &call.tensor("log_probs")?)?;
    let (given, zero_infinity) = (call.tensor("grad")?.read::<f64>(), call.bool("zero_infinity")?);
    check(given.len() == batch.cases.len(), || "grad must be of size batch_size".to_owned())?;
    let mut all = vec![0.0; batch.all.len()];
    for (n, case) in batch.cases.iter().enumerate() {
        let alphas = batch.alphas(n);
        let loss = batch.loss(n, &alphas);
        if zero_infinity && loss == f64::INFINITY {
            continue;
        }
        let through: Vec<f64> = alphas.iter().zip(batch.betas(n)).map(|(a, b)| a + b).collect();
        for step in 0..case.steps {
            let row = &through[step * case.labels.len()..(step + 1) * case.labels.len()];
            for class in 0..batch.classes {
                let of_class = row.iter().zip(&case.labels).filter(|(_, label)| **label == class).map(|(x, _)| *x);
                let (at, sum) = (batch.at(step, n, class), log_sum(&of_class.collect::<Vec<_>>()));
                let score = batch.all[at];
                all[at] = (score.exp() - (sum + loss - score).exp()) * given[n];
            }
        }
    }
    one(like(call, &all, batch.scores.dtype(), batch.scores.shape(), &batch.scores))
}

/// The mean is over losses divided by the lengths of their targets.
fn reduced(call: &Call) -> Answer {
    let scores = call.tensor("log_probs")?;
    let is_alone = scores.rank() == 2 && call.release() >= Release(1, 5);
    let batch = Batch::of(call, &if is_alone { scores.unsqueeze(1) } else { scores })?;
    let mut losses = batch.losses(call).read::<f64>();
    if call.bool("zero_infinity")? {
        losses.iter_mut().filter(|loss| **loss == f64::INFINITY).for_each(|loss| *loss = 0.0);
    }
    let per_label = |(loss, case): (&f64, &Case)| loss / (case.labels.len() / 2).max(1) as f64;
    let (value, shape) = match call.int("reduction")? {
        0 if is_alone => (losses, vec![]),
        0 => (losses, vec![batch.cases.len() as i64]),
        1 => (vec![losses.iter().zip(&batch.cases).map(per_label).sum::<f64>() / batch.cases.len() as f64], vec![]),
        _ => (vec![losses.iter().sum()], vec![]),
    };
    one(like(call, &value, batch.scores.dtype(), &shape, &batch.scores))
}
