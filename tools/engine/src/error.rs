//! Reasons why an operation has no result.

use jitopt_core::interpreter::{Reason, Stop};
use jitopt_core::pass::RunError;
use std::fmt;
use std::path::Path;

/// The reason why an operation has no result: the kind of failure, and a message for the user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    /// The kind of failure.
    pub kind: Kind,
    /// The message; its first line says what is wrong, later ones show where or how to help.
    pub message: String,
}

/// Kinds of failures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Options contradict each other or have no effect, or a file cannot be read or written.
    Misuse,
    /// The text does not parse; the message shows the diagnostics.
    Unparsable,
    /// The graph has structural errors; the message is the report of the verifier.
    Invalid,
    /// A pass cannot take the graph.
    Unfit,
    /// A pass cannot do what was requested, or the program raised an exception.
    Refused,
    /// Results differ from the expected ones.
    Mismatch,
    /// The step or time limit was reached.
    Budget,
    /// A bug of `jitopt`.
    Bug,
}

impl Error {
    /// A failure of this kind.
    pub fn new(kind: Kind, message: impl Into<String>) -> Error {
        Error { kind, message: message.into() }
    }

    /// A pipeline that stopped on the graph of a file.
    pub fn of_passes(path: &Path, error: &RunError) -> Error {
        Error::new(Kind::of(error), format!("{}: {error}", path.display()))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {}

impl Kind {
    /// The kind of failure of a pipeline that stopped.
    pub fn of(error: &RunError) -> Kind {
        match error {
            RunError::Pass { error, .. } if error.misuse => Kind::Misuse,
            RunError::Pass { error, .. } if error.too_large => Kind::Budget,
            RunError::Pass { .. } => Kind::Refused,
            RunError::Broken { .. } => Kind::Bug,
            RunError::Unfit { .. } => Kind::Unfit,
            RunError::Exploded { .. } | RunError::Late => Kind::Budget,
            RunError::Stopped(_) => Kind::Mismatch,
            RunError::Unwritable(_) => Kind::Misuse,
        }
    }

    /// The kind of failure of a run that stopped.
    pub fn of_stop(stop: &Stop) -> Kind {
        match stop.reason {
            Reason::Raised(_) | Reason::Unsupported(_) | Reason::Watcher(_) => Kind::Refused,
            Reason::Unbound(_) => Kind::Misuse,
            Reason::Budget(_) => Kind::Budget,
        }
    }
}

/// The reason why work ended before it had a result.
#[derive(Debug)]
pub enum Stopped {
    /// Options, files, the graph or passes do not fit: there is nothing to show.
    Misuse(Error),
    /// The program raised an exception, or cannot be run further: a result like any other.
    Raised(Stop),
    /// The limit on steps or time was reached.
    OutOfBudget(Stop),
    /// Passes stopped.
    Passes(RunError),
    /// A bug of `jitopt`: the message of a panic.
    Internal(String),
}

impl Stopped {
    /// The end of a run, which is shown with what the run printed; everything else is an error.
    ///
    /// # Errors
    /// Every other stop.
    pub(crate) fn into_stop(self) -> Result<Stop, Error> {
        match self {
            Stopped::Raised(stop) | Stopped::OutOfBudget(stop) => Ok(stop),
            other => Err(other.into()),
        }
    }

    /// The reason why passes stopped, which is shown with the node at fault; every other stop is an
    /// error.
    ///
    /// # Errors
    /// Every other stop.
    pub fn into_run_error(self) -> Result<RunError, Error> {
        if let Stopped::Passes(error) = self { Ok(error) } else { Err(self.into()) }
    }
}

impl From<Error> for Stopped {
    fn from(error: Error) -> Stopped {
        Stopped::Misuse(error)
    }
}

impl From<Stop> for Stopped {
    fn from(stop: Stop) -> Stopped {
        if let Reason::Budget(_) = stop.reason { Stopped::OutOfBudget(stop) } else { Stopped::Raised(stop) }
    }
}

impl From<RunError> for Stopped {
    fn from(error: RunError) -> Stopped {
        Stopped::Passes(error)
    }
}

impl From<Stopped> for Error {
    fn from(stopped: Stopped) -> Error {
        match stopped {
            Stopped::Misuse(error) => error,
            Stopped::Raised(stop) | Stopped::OutOfBudget(stop) => Error::new(Kind::of_stop(&stop), stop.to_string()),
            Stopped::Passes(error) => Error::new(Kind::of(&error), error.to_string()),
            Stopped::Internal(message) => Error::new(Kind::Bug, format!("a bug in jitopt: {message}")),
        }
    }
}

/// Refuses options or files.
pub(crate) fn refuse<T>(message: impl fmt::Display) -> Result<T, Error> {
    Err(Error::new(Kind::Misuse, message.to_string()))
}
