//! Kernels of random layers against the interpreter, see `support/drawn_layers.rs` and
//! `random_groups.rs`: results have equal bits, or are within the error budget, and nests that are
//! executed give the bits of compiled kernels wherever the order of operations is fixed.
//!
//! `JITOPT_LAYERS=20000` sets the number of groups, `JITOPT_LAYERS=500-600` a range; the default is
//! 300. Sanitizers are used as for other groups.

use crate::random_groups::run_all;
use crate::support::drawn_layers::LAYERS;
use crate::support::seeds::seeds;

#[test]
fn layers_agree_with_the_interpreter() {
    let (reduced, _) = run_all(&seeds("JITOPT_LAYERS", 300, LAYERS));
    assert!(reduced > 0, "no nest with reductions is executed");
}
