//! Runs of graphs whose results have the memory of earlier results, by a plan.

use super::{CpuBackend, Environment, Graph, IValue};
use crate::runtime::engine::Engine;
use crate::runtime::programs::{Program, Programs};
use crate::tensor::Precision;
use crate::tensor::memory_plan::MemoryPlan;
use crate::tensor::spare_memory::{Ended, Opened};
use std::cell::RefCell;
use std::rc::Rc;

/// How the results of a run share memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlannedMemory {
    /// Tensors of at least 64 elements that the run makes.
    pub results: usize,
    /// The buffers that they share.
    pub buffers: usize,
    /// Bytes of all buffers.
    pub bytes: usize,
    /// The most bytes of such tensors in use at once.
    pub most_alive: usize,
}

/// The runs of a backend.
#[derive(Debug, Default)]
pub(super) struct Runs {
    programs: Programs,
    /// Those that are going on, each within the one before it.
    open: RefCell<Vec<OpenRun>>,
    /// The memory plan of the last run that has ended.
    last: RefCell<Option<Rc<MemoryPlan>>>,
}

/// A run that is going on.
#[derive(Debug)]
struct OpenRun {
    /// The program, for the outermost run.
    program: Option<Rc<Program>>,
    _memory: Opened,
}

impl CpuBackend {
    /// Whether results of a run have memory of earlier ones.
    fn lends(&self, env: &Environment) -> bool {
        self.settings.engine == Engine::Compiled && !self.settings.guarded && env.precision == Precision::Typed
    }

    pub(super) fn run_begins(&self, graph: &Graph, arguments: &[IValue], env: &Environment) {
        if !self.lends(env) {
            return;
        }
        let program = self.runs.programs.find(graph.id().number(), arguments);
        let is_outermost = program.is_planned() && self.spare.begin(program.memory());
        let open = OpenRun { program: is_outermost.then_some(program), _memory: self.spare.open() };
        self.runs.open.borrow_mut().push(open);
    }

    pub(super) fn run_ends(&self, env: &Environment, is_complete: bool) {
        if !self.lends(env) {
            return;
        }
        let open = self.runs.open.borrow_mut().pop();
        if let Some(program) = open.and_then(|open| open.program) {
            let ended = self.spare.end();
            // A run that an exception ended is no plan for later ones.
            program.note(if is_complete { ended } else { Ended::Unplanned });
            *self.runs.last.borrow_mut() = program.memory();
        }
    }

    /// How results of the last run share memory; nothing where it was not planned.
    pub fn planned_memory(&self) -> Option<PlannedMemory> {
        let plan = self.runs.last.borrow();
        let plan = plan.as_ref()?;
        let (results, buffers) = (plan.requests(), plan.buffers().len());
        Some(PlannedMemory { results, buffers, bytes: plan.bytes(), most_alive: plan.most_alive() })
    }
}
