//! Programs: graphs for arguments of one specification, whose memory is planned once.
//!
//! The first run for arguments of a specification (element types, sizes and strides) is recorded:
//! which results need memory, and when nothing reads them any more. Later runs for the same
//! specification have a plan by which those share buffers, and allocate none for them. A run that
//! makes other results than were planned, such as a loop that runs longer, goes on without the
//! plan, and the next one is recorded anew.

use super::division::Known;
use super::launch_plan::{known, meets};
use crate::interpreter::IValue;
use crate::tensor::memory_plan::MemoryPlan;
use crate::tensor::spare_memory::Ended;
use rustc_hash::FxHashMap;
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// The number of specifications kept per graph; the least recently used one is evicted.
const MOST_PROGRAMS: usize = 16;
/// Runs in which a plan did not hold, after which no more are made: what the program does follows
/// from more than the specification.
const MOST_FAILURES: u32 = 4;

/// A graph for arguments of one specification.
#[derive(Debug)]
pub(super) struct Program {
    arguments: Vec<Known>,
    memory: RefCell<Option<Rc<MemoryPlan>>>,
    failures: Cell<u32>,
}

impl Program {
    /// The memory of the next run; nothing before one was recorded.
    pub(super) fn memory(&self) -> Option<Rc<MemoryPlan>> {
        self.memory.borrow().clone()
    }

    /// Whether runs are planned.
    pub(super) fn is_planned(&self) -> bool {
        self.failures.get() < MOST_FAILURES
    }

    /// Takes note of how a run ended.
    pub(super) fn note(&self, ended: Ended) {
        match ended {
            Ended::Recorded(plan) => *self.memory.borrow_mut() = Some(Rc::new(plan)),
            Ended::Planned => {}
            Ended::Unplanned => {
                *self.memory.borrow_mut() = None;
                self.failures.set(self.failures.get() + 1);
            }
        }
    }
}

/// Programs by the number of their graph, those used last at the end.
#[derive(Debug, Default)]
pub(super) struct Programs(RefCell<FxHashMap<u64, Vec<Rc<Program>>>>);

impl Programs {
    /// The program of a graph for such arguments, which is made if there is none.
    pub(super) fn find(&self, graph: u64, arguments: &[IValue]) -> Rc<Program> {
        let mut all = self.0.borrow_mut();
        let known_ones = all.entry(graph).or_default();
        match known_ones.iter().rposition(|program| meets(&program.arguments, arguments)) {
            Some(at) => known_ones[at..].rotate_left(1),
            None => {
                if known_ones.len() == MOST_PROGRAMS {
                    known_ones.remove(0);
                }
                let arguments = arguments.iter().map(known).collect();
                known_ones.push(Rc::new(Program { arguments, memory: RefCell::default(), failures: Cell::new(0) }));
            }
        }
        known_ones[known_ones.len() - 1].clone()
    }
}
