//! Cuts the steps of a kernel into loops over a tile, one transcendental function to a loop.
//!
//! The chain of a single `exp` keeps a processor waiting while the next element could begin, but with five of them in a loop its window holds
//! hardly one element: the loops of an LSTM cell take 1.2 to 1.3 times less when each has one. What one loop computes for a later
//! one waits in a buffer that stays in the first level of cache.

use super::kernel::{Kernel, Source};
use super::prelude;

/// Which loop each step is in, and how many loops there are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stages {
    /// The loop of each step.
    pub of_step: Vec<usize>,
    /// How many there are.
    pub count: usize,
}

impl Stages {
    /// The loop that a value is known in.
    pub fn of(&self, source: Source) -> usize {
        if let Source::Step(i) = source { self.of_step[i] } else { 0 }
    }
}

/// Stages a kernel: what is heavy begins a loop of its own, what is light is done as late as possible, beside its first reader.
pub fn stages(kernel: &Kernel) -> Stages {
    let heavy: Vec<bool> = kernel.steps.iter().map(|step| prelude::is_heavy(step.text)).collect();
    let mut begun = 0;
    let mut of_step = Vec::with_capacity(kernel.steps.len());
    for (step, &heavy) in kernel.steps.iter().zip(&heavy) {
        let operands = step.inputs.iter().map(|input| match input.source {
            Source::Step(i) => of_step[i],
            _ => 0,
        });
        let earliest = operands.max().unwrap_or(0);
        of_step.push(if heavy {
            begun += 1;
            begun - 1
        } else {
            earliest
        });
    }
    let mut first_reader = vec![usize::MAX; kernel.steps.len()];
    for i in (0..kernel.steps.len()).rev() {
        if !heavy[i] && first_reader[i] != usize::MAX {
            of_step[i] = first_reader[i].max(of_step[i]);
        }
        for input in &kernel.steps[i].inputs {
            if let Source::Step(operand) = input.source {
                first_reader[operand] = first_reader[operand].min(of_step[i]);
            }
        }
    }
    Stages { of_step, count: begun.max(1) }
}
