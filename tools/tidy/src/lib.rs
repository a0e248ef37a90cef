//! Checks of the source tree itself, which are tedious for a reviewer.
//!
//! Every check is a function from a [`Tree`] to a list of complaints, `file:line: message`.
//! `tests/tidy.rs` runs them on the repository; their unit tests plant a violation in a small tree
//! and check that it is found.

pub mod archive_paths;
pub mod circles;
pub mod coverage;
pub mod documents;
pub mod layers;
pub mod plain_text;
pub mod prose;
pub mod replacements;
pub mod rust_text;
pub mod stems;
pub mod terms;
pub mod tree;
pub mod wording;

pub use tree::Tree;
