//! Internal bugs: panics are caught, reported, and saved as lit tests.

use crate::{Error, Stopped};
use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, PanicHookInfo, catch_unwind};
use std::sync::Once;

thread_local! {
    /// The message of the last panic of this thread, if a guard is active.
    static CAUGHT: RefCell<Option<String>> = const { RefCell::new(None) };
    static WAITING: RefCell<bool> = const { RefCell::new(false) };
}

/// Runs `work`; a panic becomes an `Err` with its message.
pub fn guard<R>(work: impl FnOnce() -> R) -> Result<R, String> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if !note(info) {
                before(info)
            }
        }));
    });
    let outer = WAITING.replace(true);
    let result = catch_unwind(AssertUnwindSafe(work));
    WAITING.set(outer);
    result.map_err(|_| CAUGHT.take().unwrap_or_else(|| "a panic without a message".to_owned()))
}

/// Runs `work`, which may fail; a panic is a failure, too.
///
/// # Errors
/// The failure of the work, or the message of its panic.
pub fn caught<R>(work: impl FnOnce() -> Result<R, Error>) -> Result<R, Stopped> {
    guard(work).map_err(Stopped::Internal)?.map_err(Stopped::Misuse)
}

fn note(info: &PanicHookInfo<'_>) -> bool {
    let waiting = WAITING.with_borrow(|waiting| *waiting);
    if waiting {
        CAUGHT.set(Some(info.to_string()));
    }
    waiting
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_becomes_its_message() {
        assert_eq!(guard(|| 7), Ok(7));
        let message = guard(|| panic!("no such node")).expect_err("it panicked");
        assert!(message.contains("no such node") && message.contains("panics.rs"), "{message}");
    }
}
