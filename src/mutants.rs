//! The active injected fault; compiled with the feature `mutants` only.
//!
//! A *site* is an expression that decides about a rewrite. The wrong expressions in its place are
//! its *mutants*, named `SITE:KIND`. They stand in `.mutants` files next to the sources;
//! `cargo xtask mutants` inserts them in a copy of the tree as
//!
//! ```text
//! match jitopt_core::mutants::at("cse.kind") {
//!     Some("ignored") => true,
//!     _ => graph.kind(a) == graph.kind(b),
//! }
//! ```
//!
//! so that one build holds them all. None is active at first, or the one that
//! `JITOPT_MUTANT=SITE:KIND` names. `tools/tidy/src/replacements.rs` has the format.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::fs::File;
use std::io::Write;
use std::sync::{LazyLock, Mutex, PoisonError};

/// Whether this is a copy of the tree with the mutants inserted; `cargo xtask mutants` changes it.
pub const INSERTED: bool = false;

/// One wrong expression.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mutant {
    /// The decision: `cse.kind`.
    pub site: &'static str,
    /// The fault: `ignored`.
    pub kind: &'static str,
}

impl std::fmt::Display for Mutant {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.site, self.kind)
    }
}

thread_local! {
    static CHOSEN: Cell<Option<Mutant>> = Cell::new(named_by_environment());
    static RECORDS: Cell<bool> = const { Cell::new(false) };
    static REACHED: RefCell<BTreeSet<&'static str>> = const { RefCell::new(BTreeSet::new()) };
}

fn named_by_environment() -> Option<Mutant> {
    let name: &'static str = std::env::var("JITOPT_MUTANT").ok()?.leak();
    let (site, kind) = name.split_once(':')?;
    Some(Mutant { site, kind })
}

/// An open file, and the sites that it names already.
type Report = Mutex<(File, BTreeSet<&'static str>)>;

/// The file to which a process writes each site that it reaches, once: `JITOPT_REACHED` names it.
static REPORT: LazyLock<Option<Report>> = LazyLock::new(|| {
    let file = File::options().append(true).create(true).open(std::env::var_os("JITOPT_REACHED")?).ok()?;
    Some(Mutex::new((file, BTreeSet::new())))
});

fn report(site: &'static str) {
    let Some(report) = &*REPORT else { return };
    let mut report = report.lock().unwrap_or_else(PoisonError::into_inner);
    if report.1.insert(site) {
        // A site that is not written counts as not reached.
        let _ = writeln!(report.0, "{site}");
    }
}

/// The kind of the mutant that is active at a site, on this thread.
#[inline]
pub fn at(site: &'static str) -> Option<&'static str> {
    report(site);
    if RECORDS.get() {
        REACHED.with_borrow_mut(|reached| reached.insert(site));
    }
    CHOSEN.get().filter(|chosen| chosen.site == site).map(|chosen| chosen.kind)
}

/// Whether a mutant is active.
#[inline]
pub fn is(site: &'static str, kind: &str) -> bool {
    at(site) == Some(kind)
}

/// Runs a function with a mutant, or with none; the previously active one is restored afterwards.
pub fn with<R>(mutant: Option<Mutant>, run: impl FnOnce() -> R) -> R {
    struct Restore(Option<Mutant>);
    impl Drop for Restore {
        fn drop(&mut self) {
            CHOSEN.set(self.0);
        }
    }
    let _restore = Restore(CHOSEN.replace(mutant));
    run()
}

/// The sites that are reached during a call.
pub fn reached_by(run: impl FnOnce()) -> BTreeSet<&'static str> {
    RECORDS.set(true);
    run();
    RECORDS.set(false);
    REACHED.take()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mutant_is_active_during_its_call() {
        let mutant = Mutant { site: "x.y", kind: "ignored" };
        assert!(with(Some(mutant), || is("x.y", "ignored") && !is("x.y", "first") && !is("x.z", "ignored")));
        assert!(!is("x.y", "ignored"));
        assert_eq!(reached_by(|| assert!(at("x.z").is_none())).into_iter().collect::<Vec<_>>(), ["x.z"]);
    }
}
