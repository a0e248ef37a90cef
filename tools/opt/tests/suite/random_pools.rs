//! Kernels of random pools against the interpreter, see `support/drawn_pools.rs` and
//! `random_groups.rs`: results have equal bits, or are within the error budget, and nests that are
//! executed give the bits of compiled kernels.
//!
//! `JITOPT_POOLS=10000` sets the number of groups, `JITOPT_POOLS=500-600` a range; the default is
//! 400. Sanitizers are used as for other groups.

use crate::random_groups::run_all;
use crate::support::drawn_pools::POOLS;
use crate::support::seeds::seeds;

#[test]
fn pools_agree_with_the_interpreter() {
    run_all(&seeds("JITOPT_POOLS", 400, POOLS));
}
