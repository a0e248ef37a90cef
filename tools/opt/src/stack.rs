//! Room for the few walks that recurse.

use jitopt_core::ops::declared::Declared;
use std::sync::{Arc, Mutex};
use std::thread::{Scope, ScopedJoinHandle};

/// How much stack to ask for, most first. Nesting of 10,000 levels is read, and the walks over types and literals that recurse
/// need 1 GiB for that; pages that are not touched cost nothing. Where address space is limited (`ulimit -v`, small
/// containers), less room for odd inputs is better than no tool.
pub(crate) const SIZES: [usize; 4] = [1 << 30, 256 << 20, 64 << 20, 8 << 20];

/// Starts a thread with as much stack as there is; an error when no thread can be made at all.
pub(crate) fn spawn<'scope, T: Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    work: impl FnOnce() -> T + Send + 'scope,
) -> std::io::Result<ScopedJoinHandle<'scope, T>> {
    // Custom operators are known to threads one by one.
    let declared = Declared::current();
    let work = move || {
        let _entered = declared.enter();
        work()
    };
    // A thread that cannot be made takes its closure with it: this one is handed on.
    let work = Arc::new(Mutex::new(Some(work)));
    let start = |size: usize| {
        let work = work.clone();
        let begin = move || work.lock().ok().and_then(|mut work| work.take()).map(|work| work());
        std::thread::Builder::new().stack_size(size).spawn_scoped(scope, move || begin().expect("it was not taken"))
    };
    SIZES[1..].iter().fold(start(SIZES[0]), |thread, size| thread.or_else(|_| start(*size)))
}

/// Runs `work` on a thread with as much stack as there is; an error when no thread can be made at all.
pub fn with_room(work: impl FnOnce() -> i32 + Send) -> std::io::Result<i32> {
    std::thread::scope(|scope| Ok(spawn(scope, work)?.join().unwrap_or(crate::exit::BUG)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_done_once_and_its_code_comes_back() {
        assert_eq!(with_room(|| 7).ok(), Some(7));
        assert!(SIZES.is_sorted_by(|a, b| a > b));
    }
}
