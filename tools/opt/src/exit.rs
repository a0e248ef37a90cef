//! Exit codes. They are part of the interface: scripts, bisection and reduction distinguish
//! failures by them.

use jitopt_core::pass::RunError;

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

/// The exit code of a pipeline that stopped.
pub(crate) fn of(error: &RunError) -> i32 {
    match error {
        RunError::Pass { error, .. } if error.misuse => USAGE,
        RunError::Pass { .. } => NO,
        RunError::Broken { .. } => BUG,
        RunError::Unfit { .. } => VERIFY,
        RunError::Exploded { .. } | RunError::Late => BUDGET,
        RunError::Stopped(_) => MISMATCH,
        RunError::Unwritable(_) => USAGE,
    }
}
