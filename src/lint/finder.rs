//! Queries of lints about a graph.

use super::Lint;
use crate::analysis::AliasDb;
use crate::ir::{Attribute, Graph, Node, Value};
use crate::ops::{Operator, operator};
use crate::symbol::Symbol;
use crate::types::Type;
use crate::verify::Report;
use std::cell::OnceCell;

/// A graph, with facts that are computed once for all lints.
pub(crate) struct Facts<'g> {
    pub(super) graph: &'g Graph,
    /// The kind of the node that owns it, when it is a section of another.
    pub(super) carrier: Option<Symbol>,
    alias: OnceCell<AliasDb>,
    writes: OnceCell<bool>,
}

impl<'g> Facts<'g> {
    pub(super) fn new(graph: &'g Graph, carrier: Option<Symbol>) -> Facts<'g> {
        Facts { graph, carrier, alias: OnceCell::new(), writes: OnceCell::new() }
    }

    pub(super) fn alias(&self) -> &AliasDb {
        self.alias.get_or_init(|| AliasDb::new(self.graph))
    }

    /// Whether any node writes.
    pub(super) fn any_writes(&self) -> bool {
        *self.writes.get_or_init(|| self.graph.all_nodes().any(|node| self.alias().is_writing(node)))
    }

    /// The nodes of these kinds.
    pub(super) fn of_kinds(&self, kinds: &'static [&'static str]) -> impl Iterator<Item = Node> + '_ {
        self.graph.all_nodes().filter(move |&node| kinds.contains(&self.kind(node)))
    }

    pub(super) fn kind(&self, node: Node) -> &'static str {
        self.graph.kind(node).as_str()
    }

    pub(super) fn operator(&self, node: Node) -> &'static Operator {
        operator(self.graph.era, self.graph.kind(node))
    }

    /// The node of this kind that defines a value.
    pub(super) fn made_by(&self, value: Value, kind: &str) -> Option<Node> {
        self.graph.definer(value).filter(|&node| self.kind(node) == kind)
    }

    /// The operands, when there are exactly `N`.
    pub(super) fn operands<const N: usize>(&self, node: Node) -> Option<[Value; N]> {
        let operands: Vec<Value> = self.graph.inputs(node).collect();
        operands.try_into().ok()
    }

    pub(super) fn ty(&self, value: Value) -> Type {
        self.graph.ty(value)
    }

    /// The value of a constant scalar.
    pub(super) fn number(&self, value: Value) -> Option<f64> {
        match self.graph.constant(value).flatten()? {
            Attribute::Int(n) => Some(*n as f64),
            Attribute::Float(x) => Some(x.value),
            _ => None,
        }
    }

    /// `%x`
    pub(super) fn name(&self, value: Value) -> String {
        format!("%{}", self.graph.name(value))
    }
}

/// Adds to findings from `first` on the name of their lint, its source and workaround.
pub(super) fn label(report: &mut Report, first: usize, lint: &Lint) {
    for finding in &mut report.findings[first..] {
        finding.message = format!("{}: {}", lint.name, finding.message);
        let known = format!("PyTorch {}, {}; {}", lint.span(), lint.culprit, lint.source);
        finding.note = Some(finding.note.take().map_or(known.clone(), |note| format!("{note}; {known}")));
        finding.help.get_or_insert_with(|| lint.workaround.to_owned());
    }
}
