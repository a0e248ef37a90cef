//! Fault injection, to measure whether validation finds the faults.
//!
//! A *site* is an expression that decides about a rewrite, with plausible wrong alternatives:
//!
//! ```
//! use jitopt_core::planted;
//!
//! let (kind, other) = ("aten::add", "aten::sub");
//! let equal = planted!("cse.kind", kind == other, "ignored" => true);
//! assert!(!equal);
//! ```
//!
//! Each wrong expression is a *mutant*, named `SITE:KIND`. Without the feature `mutants` only the
//! right expression is compiled. With it, the active mutant of the thread is selected at run time;
//! none is active at first, or the one that `JITOPT_MUTANT=SITE:KIND` names. There is no separate
//! list: [`in_source`] extracts the sites from the source text.

/// `planted!("site", right, "kind" => wrong, …)` is `right`, unless a mutant of the site is active.
#[cfg(not(feature = "mutants"))]
#[macro_export]
macro_rules! planted {
    ($site:literal, $right:expr, $($kind:literal => $wrong:expr),+ $(,)?) => {
        $right
    };
}

/// `planted!("site", right, "kind" => wrong, …)` is `right`, unless a mutant of the site is active.
#[cfg(feature = "mutants")]
#[macro_export]
macro_rules! planted {
    ($site:literal, $right:expr, $($kind:literal => $wrong:expr),+ $(,)?) => {
        match $crate::mutants::active::at($site) {
            $(Some($kind) => $wrong,)+
            _ => $right,
        }
    };
}

/// The sources of the core that have sites.
#[cfg(feature = "mutants")]
pub const SOURCES: &[&str] = &[
    include_str!("analysis/alias.rs"),
    include_str!("analysis/inference/collapsing.rs"),
    include_str!("analysis/inference/concatenating.rs"),
    include_str!("analysis/inference/convolving.rs"),
    include_str!("analysis/inference/element.rs"),
    include_str!("analysis/inference/elementwise.rs"),
    include_str!("analysis/inference/multiplying.rs"),
    include_str!("analysis/inference/viewing.rs"),
    include_str!("analysis/locations.rs"),
    include_str!("analysis/matching.rs"),
    include_str!("analysis/moves.rs"),
    include_str!("analysis/transfer.rs"),
    include_str!("analysis/transfer_plan.rs"),
    include_str!("analysis/type_classes.rs"),
    include_str!("ir/attribute.rs"),
    include_str!("ir/copy.rs"),
    include_str!("ops.rs"),
];

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

/// The mutants in a source text, in order. A site that occurs at several places has its mutants
/// once.
pub fn in_source(text: &'static str) -> Vec<Mutant> {
    let mut found: Vec<Mutant> = Vec::new();
    for call in text.split("planted!(").skip(1) {
        let call = call.trim_start();
        let Some((site, rest)) = call.strip_prefix('"').and_then(|call| call.split_once('"')) else { continue };
        for kind in kinds(rest) {
            let mutant = Mutant { site, kind };
            if !found.contains(&mutant) {
                found.push(mutant);
            }
        }
    }
    found
}

/// The literals before `=>` up to the end of the call.
fn kinds(call: &'static str) -> Vec<&'static str> {
    let (mut depth, mut at, mut last, mut kinds) = (0usize, 0, None, Vec::new());
    let bytes = call.as_bytes();
    while let Some(&byte) = bytes.get(at) {
        match byte {
            b'"' => {
                let len = call[at + 1..].find('"').unwrap_or(0);
                last = Some(&call[at + 1..at + 1 + len]);
                at += len + 1;
            }
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' if depth == 0 => break,
            b')' | b']' | b'}' => depth -= 1,
            b'=' if depth == 0 && call[at..].starts_with("=>") => kinds.extend(last.take()),
            _ => {}
        }
        at += 1;
    }
    kinds
}

#[cfg(feature = "mutants")]
pub mod active {
    //! The active mutant of this thread, and the sites that were reached.

    use super::Mutant;
    use std::cell::{Cell, RefCell};
    use std::collections::BTreeSet;

    /// A site and a kind.
    type Chosen = Option<(&'static str, &'static str)>;

    thread_local! {
        static CHOSEN: Cell<Chosen> = Cell::new(named_by_environment());
        static RECORDS: Cell<bool> = const { Cell::new(false) };
        static REACHED: RefCell<BTreeSet<&'static str>> = const { RefCell::new(BTreeSet::new()) };
    }

    fn named_by_environment() -> Chosen {
        let name: &'static str = std::env::var("JITOPT_MUTANT").ok()?.leak();
        name.split_once(':')
    }

    /// The kind of the mutant that is active at a site.
    #[inline]
    pub fn at(site: &'static str) -> Option<&'static str> {
        if RECORDS.get() {
            REACHED.with_borrow_mut(|reached| reached.insert(site));
        }
        CHOSEN.get().filter(|(chosen, _)| *chosen == site).map(|(_, kind)| kind)
    }

    /// Runs a function with a mutant, or with none; the previously active one is restored
    /// afterwards.
    pub fn with<R>(mutant: Option<Mutant>, run: impl FnOnce() -> R) -> R {
        struct Restore(Chosen);
        impl Drop for Restore {
            fn drop(&mut self) {
                CHOSEN.set(self.0);
            }
        }
        let _restore = Restore(CHOSEN.replace(mutant.map(|mutant| (mutant.site, mutant.kind))));
        run()
    }

    /// The sites that are reached during a call.
    pub fn reached_by(run: impl FnOnce()) -> BTreeSet<&'static str> {
        RECORDS.set(true);
        run();
        RECORDS.set(false);
        REACHED.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sites_are_read_out_of_the_text() {
        let text = r#"a(planted!("x.y", f(1, "no" ), "a" => g("b", |z| z), "c" => { 2 }), "d" => 3) planted!(
            "z", 1, "e" => 2,
        )"#;
        let names: Vec<String> = in_source(text).iter().map(Mutant::to_string).collect();
        assert_eq!(names, ["x.y:a", "x.y:c", "z:e"]);
    }
}
