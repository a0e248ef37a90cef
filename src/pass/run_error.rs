//! Reasons why a pipeline stops.

use super::info::PassError;
use std::fmt;

/// The reason why a pipeline stopped.
#[derive(Debug)]
pub enum RunError {
    /// A pass could not meet a request.
    Pass {
        /// Its short name.
        pass: &'static str,
        /// Its error.
        error: PassError,
    },
    /// The graph is broken after a pass: our bug.
    Broken {
        /// Short name of the pass.
        pass: &'static str,
        /// The findings, drawn into the graph.
        report: String,
    },
    /// Passes cannot run over this graph.
    Unfit {
        /// Short name of the pass that failed; none when no pass can run.
        pass: Option<&'static str>,
        /// The problems of the graph.
        report: String,
    },
    /// A fixpoint makes the graph larger and larger.
    Exploded {
        /// The number of nodes.
        nodes: usize,
        /// The maximal number of nodes.
        most: usize,
    },
    /// The deadline has passed.
    Late,
    /// An observer gave up.
    Stopped(String),
    /// An observer could not write its output.
    Unwritable(String),
}

impl fmt::Display for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RunError::Pass { pass, error } => {
                write!(f, "{pass}: {error}")?;
                error.at.as_ref().map_or(Ok(()), |node| write!(f, "\n  at {node}"))?;
                error.help.as_ref().map_or(Ok(()), |help| write!(f, "\n  help: {help}"))
            }
            RunError::Broken { pass, report } => write!(f, "the graph is broken after {pass}\n{report}"),
            RunError::Unfit { pass: None, report } => write!(f, "passes cannot run over a broken graph\n{report}"),
            RunError::Unfit { pass: Some(pass), report } => write!(f, "{pass} cannot run over this graph\n{report}"),
            RunError::Exploded { nodes, most } => {
                write!(
                    f,
                    "`fixpoint` has made a graph of {nodes} nodes, more than the limit of {most}, and does not \
                     terminate; use `{{max=N}}`, or fewer passes"
                )
            }
            RunError::Late => f.write_str("the passes did not end within the time limit"),
            RunError::Stopped(why) | RunError::Unwritable(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for RunError {}
