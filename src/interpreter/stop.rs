//! Why a run ended before its end.

use crate::ir::{Graph, Node};
use crate::tensor::layout::TensorError;
use crate::text::{PrintOptions, Printer};
use std::fmt;

/// What the program raised.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exception {
    /// Its class, `RuntimeError`; the class that the program names for exceptions of its own.
    pub class: String,
    /// What it says.
    pub message: String,
}

/// Why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The program raised an exception: a result like any other.
    Raised(Exception),
    /// The interpreter cannot do this.
    Unsupported(String),
    /// A constant or an object whose content is not in the text, and that nobody bound: what it is called.
    Unbound(String),
    /// A number of steps or a time is spent.
    Budget(String),
    /// A watcher ended it.
    Watcher(String),
}

/// Why, and at which node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stop {
    /// Why.
    pub reason: Reason,
    /// The node as printed.
    pub node: Option<String>,
    /// Where in the program it comes from.
    pub source: Option<String>,
    /// Who waited for what raised it, as printed: it ended the run only then.
    pub waited: Option<String>,
}

impl Stop {
    /// Ends a run, at a node that is filled in on the way out.
    pub fn new(reason: Reason) -> Stop {
        Stop { reason, node: None, source: None, waited: None }
    }

    /// A `RuntimeError`.
    pub fn raised(message: impl Into<String>) -> Stop {
        Stop::raised_as("RuntimeError", message)
    }

    /// Another exception.
    pub fn raised_as(class: &str, message: impl Into<String>) -> Stop {
        Stop::new(Reason::Raised(Exception { class: class.to_owned(), message: message.into() }))
    }

    /// Something that the interpreter cannot do.
    pub fn unsupported(what: impl Into<String>) -> Stop {
        Stop::new(Reason::Unsupported(what.into()))
    }

    /// The same, at a node, unless it is known where already.
    pub fn at(mut self, graph: &Graph, node: Node) -> Stop {
        if self.node.is_none() {
            self.node = Some(printed(graph, node));
            self.source = graph.origin_location(node).map(|at| String::from_utf8_lossy(at).into_owned());
        }
        self
    }

    /// The same, for what a future held when a node waited for it.
    pub fn waited_for(self, graph: &Graph, node: Node) -> Stop {
        Stop { waited: Some(printed(graph, node)), ..self }
    }

    /// The exception, if it is one.
    pub fn exception(&self) -> Option<&Exception> {
        if let Reason::Raised(exception) = &self.reason { Some(exception) } else { None }
    }
}

fn printed(graph: &Graph, node: Node) -> String {
    let mut printer = Printer::new(PrintOptions { no_comments: true, ..PrintOptions::default() });
    printer.node_line(graph, node);
    String::from_utf8_lossy(&printer.out).trim().to_owned()
}

impl From<TensorError> for Stop {
    fn from(error: TensorError) -> Stop {
        let class = if error.0.starts_with("Dimension out of range") { "IndexError" } else { "RuntimeError" };
        Stop::raised_as(class, error.0)
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::Raised(exception) => write!(f, "{}: {}", exception.class, exception.message),
            Reason::Unsupported(what) => write!(f, "the interpreter cannot run this: {what}"),
            Reason::Unbound(what) | Reason::Budget(what) | Reason::Watcher(what) => f.write_str(what),
        }
    }
}

impl fmt::Display for Stop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.reason)?;
        if let Some(node) = &self.node {
            write!(f, "\n  at {node}")?;
        }
        if let Some(source) = &self.source {
            write!(f, "\n  from {source}")?;
        }
        self.waited.as_ref().map_or(Ok(()), |wait| write!(f, "\n  waited for at {wait}"))
    }
}

impl std::error::Error for Stop {}
