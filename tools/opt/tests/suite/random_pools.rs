//! Kernels of random pools against the interpreter, see `support/drawn_pools.rs` and
//! `random_groups.rs`: results have equal bits, or are within the error budget, and nests that are
//! executed give the bits of compiled kernels.
//!
//! `JITOPT_POOLS=10000` sets the number of groups, `JITOPT_POOLS=500-600` a range; the default is
//! 600. Sanitizers are used as for other groups.

use crate::random_groups::run_all;
use crate::support::drawn_pools::POOLS;

#[test]
fn pools_agree_with_the_interpreter() {
    let asked_for = std::env::var("JITOPT_POOLS").unwrap_or("600".to_owned());
    let (from, to) = asked_for.split_once('-').unwrap_or(("0", &asked_for));
    let seed = |text: &str| POOLS + text.parse::<u64>().expect("a number");
    run_all(&(seed(from)..seed(to)).collect::<Vec<_>>());
}
