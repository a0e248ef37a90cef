//! Exit codes. They are part of the interface: scripts, bisection and reduction distinguish
//! failures by them.

use crate::World;
use jitopt_core::pass::RunError;
use jitopt_engine::{Error, Kind, Stopped};
use std::fmt;

/// Success; a check passed.
pub const YES: i32 = 0;
/// A check failed, or a pass cannot do what was requested.
pub const NO: i32 = 1;
/// A usage error, or a file cannot be read or written.
pub const USAGE: i32 = 2;
/// The text does not parse.
pub const PARSE: i32 = 3;
/// The graph fails verification.
pub const VERIFY: i32 = 4;
/// Results differ from the expected values.
pub const MISMATCH: i32 = 5;
/// The step or time limit was reached.
pub const BUDGET: i32 = 6;
/// A bug in jitopt.
pub const BUG: i32 = 70;

/// The exit code of a failure.
pub(crate) fn of_kind(kind: Kind) -> i32 {
    match kind {
        Kind::Misuse => USAGE,
        Kind::Unparsable => PARSE,
        Kind::Invalid | Kind::Unfit => VERIFY,
        Kind::Refused => NO,
        Kind::Mismatch => MISMATCH,
        Kind::Budget => BUDGET,
        Kind::Bug => BUG,
    }
}

/// The exit code of a pipeline that stopped.
pub(crate) fn of(error: &RunError) -> i32 {
    of_kind(Kind::of(error))
}

/// A failure as it is printed. Diagnostics and reports of the verifier have a title of their own.
pub(crate) fn text(error: &Error) -> String {
    match error.kind {
        Kind::Unparsable | Kind::Invalid => error.message.clone(),
        Kind::Budget | Kind::Misuse if error.message.starts_with("error: ") => error.message.clone(),
        _ => format!("error: {error}"),
    }
}

/// A misuse of the command line.
pub(crate) fn refuse<T>(message: impl fmt::Display) -> Result<T, Error> {
    Err(Error::new(Kind::Misuse, message.to_string()))
}

/// Prints a failure; returns its exit code.
pub(crate) fn failed(error: &Error, world: &mut World<'_>) -> i32 {
    world.say(&text(error));
    of_kind(error.kind)
}

/// The exit code of work that may be refused or may panic.
pub(crate) fn ended(result: Result<i32, Stopped>, world: &mut World<'_>) -> i32 {
    result.unwrap_or_else(|stopped| failed(&stopped.into(), world))
}
