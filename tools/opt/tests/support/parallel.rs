//! Parallel work, with large stacks for recursive traversals.

use rayon::prelude::*;

/// The results of `work` on each item, in order.
pub fn each<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let pool = rayon::ThreadPoolBuilder::new().stack_size(256 << 20).build().expect("threads can be made");
    pool.install(|| items.par_iter().with_max_len(1).map(&work).collect())
}
