//! Reads the serialized code of TorchScript archives into graphs of the textual IR.
//!
//! ```text
//! archive ─> code records ─> statements ─> declarations ─┐
//!         ─> constants, attributes ─> values ────────────┼─> emission (SSA) ─> tidying ─> graph
//!                              schemas, types (core) ────┘
//! ```
//!
//! The language is what PyTorch's printer writes: operators are calls, loops and branches name what
//! they set, one `return` stands at the end. The interpreter runs load hooks, within a budget, and
//! nothing else.

mod archive_code;
mod call_emission;
mod content_places;
mod declared_names;
mod emission;
mod expression_emission;
mod expression_parser;
mod forward_hooks;
mod hook_meter;
mod inlined_methods;
mod load_hooks;
mod old_operators;
mod packed_weights;
mod printed_syntax;
mod schema_choice;
mod source_error;
mod statement_parser;
mod stored_ivalues;
mod tidying;

pub use archive_code::{ArchiveCode, MethodName, set_dialect};
pub use content_places::{ContentPlace, contents_at};
pub use inlined_methods::{called, qualified};
pub use load_hooks::RunHook;
pub use source_error::SourceError;
