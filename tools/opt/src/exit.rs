//! Exit codes: part of the contract, so that scripts, bisection and reduction can tell failures apart.

use jitopt_core::pass::RunError;

/// Done, and the answer to a check is yes.
pub const YES: i32 = 0;
/// The check said no; a pass could not do what was asked.
pub const NO: i32 = 1;
/// The command line makes no sense, or a file cannot be read or written.
pub const USAGE: i32 = 2;
/// The text is no graph.
pub const PARSE: i32 = 3;
/// The graph is broken.
pub const VERIFY: i32 = 4;
/// Numbers are not as expected.
pub const MISMATCH: i32 = 5;
/// The allowed number of steps or time is spent.
pub const BUDGET: i32 = 6;
/// Our bug.
pub const BUG: i32 = 70;

/// What a pipeline that stopped ends with.
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
