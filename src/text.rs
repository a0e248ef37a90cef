//! The textual IR: a reader of what PyTorch has printed since 1.0, a printer that gives it back
//! byte for byte, and diagnostics.
//!
//! Printing is from the model, never from kept source text. Layout (indentation, blank lines, CRLF,
//! a byte order mark) is read in any form and printed canonically; everything else survives: names,
//! locations, scopes, the order of sections and attributes, odd literals.

mod bytes;
pub mod diagnostic;
mod dialects;
mod extents;
pub mod extract;
mod file_kinds;
mod frame;
pub mod literal;
pub mod number;
pub mod parser;
pub mod printed_list;
pub mod printer;
pub mod quoted;

pub use diagnostic::{Diagnostic, Severity};
pub use parser::Parsed;
pub use parser::{ParseOptions, parse, parse_all_graphs};
pub(crate) use printer::print_with_marks;
pub use printer::{Mark, Part, PrintOptions, Printer, print, print_with_notes};

#[cfg(test)]
mod free_layout_test;
#[cfg(test)]
mod parser_test;
