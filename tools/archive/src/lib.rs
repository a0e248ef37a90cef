//! Reads the archives that PyTorch writes, `.pt`, `.ptl` and `.pt2`, without PyTorch and without
//! running anything that is in them.
//!
//! ```text
//! bytes ─> container (zip) ─> layout ─┬─> unpickler ─> module tree ─┐
//!                                     ├─> serialized code ──────────┼─> Archive: tensors by name,
//!                                     ├─> legacy model (1.0 to 1.2) │   methods, records, totals
//!                                     └─> exported model (.pt2) ────┘
//! ```
//!
//! The reader is strict: whatever two readers could see differently is refused with the reason
//! ([`Refusal`]), and so is whatever PyTorch does not write. It reads what it must, record by
//! record; weights are read when their content is asked for.

mod archive_layout;
mod byte_source;
mod code_surface;
pub mod code_tokens;
mod container;
mod declared_types;
mod exported_checks;
mod exported_model;
mod exported_weights;
mod legacy_model;
mod legacy_tree;
mod module_tree;
mod pickle_value;
mod records;
mod refusal;
mod safetensors_form;
mod source_ranges;
mod stored_tensors;
mod stored_values;
mod stored_zip;
mod strict_json;
mod unpickler;
mod unread_archive;

pub use archive_layout::{Archive, CodeFile, Kind, open};
pub use byte_source::{ByteSource, FileBytes, OpenFile};
pub use code_surface::{Class, Method};
pub use container::{Container, Entry};
pub use exported_model::Exported;
pub use legacy_tree::{LegacyClass, LegacyTree};
pub use refusal::Refusal;
pub use safetensors_form::{MadeTensor, Written, safetensors};
pub use source_ranges::{Origin, SourceRange};
pub use stored_tensors::{Dtype, NamedTensor, PerSlice, Quantizer, Role, Signs, StoredTensor};
pub use stored_values::StoredValue;
pub use stored_zip::stored_zip;
pub use strict_json::Json;
pub use unread_archive::UnreadArchive;

/// Whether a file begins as a zip archive does. PyTorch's own always do.
pub fn looks_like_archive(bytes: &[u8]) -> bool {
    bytes.starts_with(b"PK\x03\x04") || bytes.starts_with(b"PK\x05\x06")
}
