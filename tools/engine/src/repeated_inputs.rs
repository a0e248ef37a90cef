//! The inputs of a graph that runs again and again.
//!
//! Inputs that it may write to are copied for each run; the others are the same memory in all
//! runs, so that the operands of a kernel are on its device already.

use jitopt_core::analysis::alias::AliasDb;
use jitopt_core::interpreter::IValue;
use jitopt_core::ir::Graph;
use jitopt_core::tensor::Precision;
use jitopt_judge::sharing::{Copier, copies};
use jitopt_judge::verdict::fitting;

/// The inputs of one graph.
pub(crate) struct RepeatedInputs {
    values: Vec<IValue>,
    /// Whether the graph may write to each.
    written: Vec<bool>,
}

impl RepeatedInputs {
    /// Copies for a graph alone: memory has a copy on one device at most, and graphs may run on
    /// different ones.
    pub(crate) fn new(graph: &Graph, inputs: &[IValue]) -> RepeatedInputs {
        let db = AliasDb::new(graph);
        let values = copies(&fitting(graph, inputs), Precision::Typed);
        let written = graph.params(graph.root()).map(|param| db.reaches_writers(param)).collect();
        RepeatedInputs { values, written }
    }

    /// The inputs of one run.
    pub(crate) fn of_a_run(&self) -> Vec<IValue> {
        let mut copier = Copier::new(Precision::Typed);
        let given = self.values.iter().enumerate();
        given.map(|(i, value)| if self.is_written(i) { copier.copy(value) } else { value.clone() }).collect()
    }

    /// The names of those that are copied.
    pub(crate) fn copied(&self, graph: &Graph) -> Vec<String> {
        let params = graph.params(graph.root()).enumerate();
        params.filter(|(i, _)| self.is_written(*i)).map(|(_, param)| format!("%{}", graph.name(param))).collect()
    }

    fn is_written(&self, i: usize) -> bool {
        self.written.get(i).copied().unwrap_or(true)
    }
}
