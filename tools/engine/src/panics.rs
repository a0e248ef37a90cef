//! Internal bugs: panics are caught, reported, and saved as lit tests.

use crate::{Error, Stopped};
use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, PanicHookInfo, catch_unwind};
use std::path::{Path, PathBuf};
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

/// Writes the input with a RUN line that reproduces the bug; returns the path.
pub fn write_reproducer(dir: &Path, flags: &str, input: &[u8]) -> Option<PathBuf> {
    let flags = if flags.is_empty() { String::new() } else { format!(" {flags}") };
    let mut text =
        format!("# jitopt {} broke on this file.\n# RUN: jitopt %s{flags}\n", env!("CARGO_PKG_VERSION")).into_bytes();
    text.extend(input);
    let fold = |hash: u64, b: &u8| (hash ^ u64::from(*b)).wrapping_mul(0x100_0000_01b3);
    let name = format!("jitopt-repro-{:016x}.ir", text.iter().fold(0xcbf2_9ce4_8422_2325, fold));
    let path = dir.join(name);
    std::fs::write(&path, text).ok().map(|()| path)
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

    #[test]
    fn a_reproducer_is_a_lit_file() {
        let dir = std::env::temp_dir();
        let path = write_reproducer(&dir, "--passes=dce", b"graph():\n  return ()\n").expect("a writable folder");
        let text = std::fs::read_to_string(&path).expect("it was just written");
        assert!(text.contains("# RUN: jitopt %s --passes=dce\ngraph():\n"), "{text}");
        std::fs::remove_file(path).expect("it is ours");
    }
}
