//! Checks on the source tree itself: what a reviewer would have to look for, and so would miss.
//!
//! Every check is a function from a [`Tree`] to a list of complaints, `file:line: what is wrong`. `tests/tidy.rs` runs
//! them on the repository; their own tests plant a violation in a tree of a few lines and see it caught.

pub mod coverage;
pub mod documents;
pub mod layers;
pub mod plain_text;
pub mod prose;
pub mod rust_text;
pub mod stems;
pub mod tree;
pub mod wording;

pub use tree::Tree;
