//! The reason why a run ended early.

use crate::ir::{Graph, Node};
use crate::tensor::layout::{Fault, TensorError};
use crate::text::{PrintOptions, Printer};
use std::fmt;

/// An exception raised by the program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exception {
    /// Its class, `RuntimeError`; for exceptions of its own, the class that the program names.
    pub class: String,
    /// Its message.
    pub message: String,
}

/// The reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The program raised an exception: a result like any other.
    Raised(Exception),
    /// The interpreter does not support an operation.
    Unsupported(String),
    /// The content of a constant or an object is not in the text and was not bound: the message
    /// names it.
    Unbound(String),
    /// The limit on steps or time was reached.
    Budget(String),
    /// An observer ended the run.
    Watcher(String),
}

/// The reason, and the node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stop {
    /// The reason.
    pub reason: Reason,
    /// The node as printed.
    pub node: Option<String>,
    /// Its source location in the program.
    pub source: Option<String>,
    /// The waiting node, as printed, if the exception was raised in a fork: it ends the run only
    /// there.
    pub waited: Option<String>,
}

impl Stop {
    /// Ends a run; the node is added by the caller.
    pub fn new(reason: Reason) -> Stop {
        Stop { reason, node: None, source: None, waited: None }
    }

    /// A `RuntimeError`.
    pub(crate) fn raised(message: impl Into<String>) -> Stop {
        Stop::raised_as("RuntimeError", message)
    }

    /// Another exception.
    pub(crate) fn raised_as(class: &str, message: impl Into<String>) -> Stop {
        Stop::new(Reason::Raised(Exception { class: class.to_owned(), message: message.into() }))
    }

    /// An unsupported operation.
    pub fn unsupported(what: impl Into<String>) -> Stop {
        Stop::new(Reason::Unsupported(what.into()))
    }

    /// The same at a node, unless it has one already.
    pub(crate) fn at(mut self, graph: &Graph, node: Node) -> Stop {
        if self.node.is_none() {
            self.node = Some(printed(graph, node));
            self.source = graph.origin_location(node).map(|at| String::from_utf8_lossy(at).into_owned());
        }
        self
    }

    /// The same for the exception of a future that a node waits for.
    pub(crate) fn waited_for(self, graph: &Graph, node: Node) -> Stop {
        Stop { waited: Some(printed(graph, node)), ..self }
    }

    /// The exception, if the program raised one.
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
        let class = if error.1 == Fault::OutOfRange { "IndexError" } else { "RuntimeError" };
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
