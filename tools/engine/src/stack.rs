//! Threads with a stack large enough for recursive traversals.

use jitopt_core::ops::declared::Declared;
use std::sync::{Arc, Mutex};
use std::thread::{Scope, ScopedJoinHandle};

/// Stack sizes to request, largest first. The parser accepts 10,000 levels of nesting, and the
/// recursive traversals of types and literals need 1 GiB for that; untouched pages cost nothing.
/// Where address space is limited (`ulimit -v`, small containers), a smaller stack still handles
/// ordinary inputs.
pub const SIZES: [usize; 4] = [1 << 30, 256 << 20, 64 << 20, 8 << 20];

/// Starts a thread with the largest stack available; an error if no thread can be started.
pub(crate) fn spawn<'scope, T: Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    work: impl FnOnce() -> T + Send + 'scope,
) -> std::io::Result<ScopedJoinHandle<'scope, T>> {
    // Declared operators are thread-local.
    let declared = Declared::current();
    let work = move || {
        let _entered = declared.enter();
        work()
    };
    // A thread that fails to start drops its closure: this one is shared between the attempts.
    let work = Arc::new(Mutex::new(Some(work)));
    let start = |size: usize| {
        let work = work.clone();
        let begin = move || work.lock().ok().and_then(|mut work| work.take()).map(|work| work());
        std::thread::Builder::new().stack_size(size).spawn_scoped(scope, move || begin().expect("it was not taken"))
    };
    SIZES[1..].iter().fold(start(SIZES[0]), |thread, size| thread.or_else(|_| start(*size)))
}

/// Runs `work` on a thread with the largest stack available; `None` if it panics.
///
/// # Errors
/// No thread can be started.
pub fn with_room<T: Send>(work: impl FnOnce() -> T + Send) -> std::io::Result<Option<T>> {
    std::thread::scope(|scope| Ok(spawn(scope, work)?.join().ok()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_done_once_and_its_code_comes_back() {
        assert_eq!(with_room(|| 7).ok(), Some(Some(7)));
        assert!(SIZES.is_sorted_by(|a, b| a > b));
    }
}
