//! Findings and their places.

use crate::ir::{Block, Graph, Node, Value};
use crate::text::Severity;

/// A place in a graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Spot {
    /// A node as a whole.
    Node(Node),
    /// An operand; a result of a block is an operand of its hidden `prim::Return`.
    Operand(Node, usize),
    /// An output; a param of a block is an output of its hidden `prim::Param`.
    Output(Node, usize),
    /// A block as a whole; the root block is the graph.
    Block(Block),
}

impl Spot {
    /// The node whose line contains it; for a block, the hidden `prim::Param`.
    pub fn node(self, graph: &Graph) -> Node {
        match self {
            Spot::Node(node) | Spot::Operand(node, _) | Spot::Output(node, _) => node,
            Spot::Block(block) => graph.param_node(block),
        }
    }

    /// The value, if the spot is one.
    pub(crate) fn value(self, graph: &Graph) -> Option<Value> {
        match self {
            Spot::Operand(node, i) => (i < graph.num_inputs(node)).then(|| graph.input(node, i)),
            Spot::Output(node, i) => (i < graph.num_outputs(node)).then(|| graph.output(node, i)),
            Spot::Node(_) | Spot::Block(_) => None,
        }
    }
}

/// A place in a graph or in one of its sections.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Place {
    /// The index of the graph in the text: 0 is the outermost, sections follow in printed order.
    /// [`Report::path`] names the nodes that own it.
    pub section: usize,
    /// The place in that graph.
    pub spot: Spot,
}

/// One problem.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The severity.
    pub severity: Severity,
    /// The place.
    pub at: Place,
    /// The problem, without a full stop.
    pub message: String,
    /// Whether it is only about the name of a value, which no pass reads.
    pub is_about_name: bool,
    /// Whether `convert-to-ssa` mends it.
    pub is_before_ssa: bool,
    /// A further fact about it.
    pub note: Option<String>,
    /// The remedy.
    pub help: Option<String>,
    /// The source location of the node, or of the node that it was made from.
    pub source: Option<String>,
}

impl Finding {
    pub(super) fn note(&mut self, text: impl Into<String>) -> &mut Finding {
        self.note = Some(text.into());
        self
    }

    pub(super) fn help(&mut self, text: impl Into<String>) -> &mut Finding {
        self.help = Some(text.into());
        self
    }
}

/// A finding about all nodes of one operator and types.
pub(super) struct Complaint {
    pub(super) part: Part,
    pub(super) message: String,
    pub(super) note: Option<String>,
    pub(super) help: Option<String>,
}

/// The part of a node that it refers to.
#[derive(Clone, Copy)]
pub(super) enum Part {
    Node,
    Operand(usize),
    Output(usize),
}

/// All findings about a graph.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// The findings, section by section in printed order, in order of detection.
    pub findings: Vec<Finding>,
    /// The owner of each section.
    sections: Vec<Option<Carrier>>,
}

/// The sections of nodes, in printed order: after each subgraph its backward graph.
pub(crate) fn carried(
    graph: &Graph,
    outer: usize,
    nodes: impl IntoIterator<Item = Node>,
) -> Vec<(&Graph, Option<Carrier>)> {
    let carrier = |node, is_backward| Some(Carrier { outer, node, is_backward });
    let both = |node| [(graph.subgraph(node), carrier(node, false)), (graph.backward(node), carrier(node, true))];
    nodes.into_iter().flat_map(both).filter_map(|(inner, carrier)| Some((inner?, carrier))).collect()
}

/// The owner of a section.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Carrier {
    /// The section that contains the node.
    pub(crate) outer: usize,
    /// The node.
    pub(crate) node: Node,
    /// Whether the section is the backward graph of the node.
    pub(crate) is_backward: bool,
}

impl Report {
    /// Whether there are no findings.
    pub fn is_clean(&self) -> bool {
        self.findings.is_empty()
    }

    /// The report for a graph that `convert-to-ssa` runs on first.
    pub fn before_ssa(mut self) -> Report {
        self.findings.retain(|finding| !finding.is_before_ssa);
        self
    }

    /// Whether the graph is meaningless.
    pub fn has_errors(&self) -> bool {
        self.errors().next().is_some()
    }

    /// The findings that make the graph meaningless.
    pub fn errors(&self) -> impl Iterator<Item = &Finding> {
        self.findings.iter().filter(|finding| finding.severity == Severity::Error)
    }

    /// The findings about text that PyTorch accepts and that is probably a mistake.
    pub fn warnings(&self) -> impl Iterator<Item = &Finding> {
        self.findings.iter().filter(|finding| finding.severity == Severity::Warning)
    }

    /// The owners of the sections that lead from the outermost graph to a place, outermost first.
    fn carriers(&self, place: Place) -> Vec<Carrier> {
        let mut carriers = Vec::new();
        let mut section = place.section;
        while let Some(Some(carrier)) = self.sections.get(section) {
            carriers.push(*carrier);
            section = carrier.outer;
        }
        carriers.reverse();
        carriers
    }

    /// The nodes whose subgraphs lead from the outermost graph to a place, outermost first.
    pub fn path(&self, place: Place) -> Vec<Node> {
        self.carriers(place).into_iter().map(|carrier| carrier.node).collect()
    }

    /// The graph that contains a place. `graph` is the verified graph, unchanged since.
    pub fn graph_of<'g>(&self, graph: &'g Graph, place: Place) -> &'g Graph {
        self.carriers(place).into_iter().fold(graph, |graph, carrier| {
            let inner = if carrier.is_backward { graph.backward(carrier.node) } else { graph.subgraph(carrier.node) };
            inner.unwrap_or(graph)
        })
    }

    pub(crate) fn open_section(&mut self, carrier: Option<Carrier>) -> usize {
        self.sections.push(carrier);
        self.sections.len() - 1
    }

    pub(crate) fn sink<'g, 'r>(&'r mut self, graph: &'g Graph, section: usize) -> Sink<'g, 'r> {
        Sink { graph, section, findings: &mut self.findings }
    }
}

/// A collector of findings in one graph.
pub(crate) struct Sink<'g, 'r> {
    pub(super) graph: &'g Graph,
    section: usize,
    findings: &'r mut Vec<Finding>,
}

impl Sink<'_, '_> {
    pub(crate) fn error(&mut self, spot: Spot, message: impl Into<String>) -> &mut Finding {
        self.add(Severity::Error, spot, message.into())
    }

    pub(crate) fn warning(&mut self, spot: Spot, message: impl Into<String>) -> &mut Finding {
        self.add(Severity::Warning, spot, message.into())
    }

    fn add(&mut self, severity: Severity, spot: Spot, message: String) -> &mut Finding {
        let source = self.graph.origin_location(spot.node(self.graph));
        let source = source.map(|text| String::from_utf8_lossy(text).into_owned());
        let at = Place { section: self.section, spot };
        self.findings.push(Finding {
            severity,
            at,
            message,
            is_about_name: false,
            is_before_ssa: false,
            note: None,
            help: None,
            source,
        });
        self.findings.last_mut().expect("a finding was just added")
    }

    /// `%x`
    pub(super) fn name(&self, value: Value) -> String {
        format!("%{}", self.graph.name(value))
    }

    pub(crate) fn count(&self) -> usize {
        self.findings.len()
    }
}

/// `1 value`, `2 values`
pub(crate) fn counted(n: usize, what: &str) -> String {
    format!("{n} {what}{}", if n == 1 { "" } else { "s" })
}
