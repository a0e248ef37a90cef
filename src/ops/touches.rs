//! The resources that operators touch besides their operands and results, for users who run a
//! program of unknown origin.
//!
//! Operators with a row have the fact in their column `semantics`, see [`super::rows`]; the table
//! here is for the rest. Patterns end with `*`. Other operators of PyTorch touch nothing; of
//! operators without a schema nothing is known.

use crate::symbol::Symbol;
use crate::types::era::Era;

/// A resource that an operator touches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Touch {
    /// The output of the process.
    Prints,
    /// The state of the process: seeds, gradient mode, profilers, devices.
    Process,
    /// Its result shows memory that was not written before.
    Uninitialized,
    /// A tensor gets memory of a size that the program chooses.
    Resizes,
    /// A view of memory by numbers, which PyTorch checks when it runs.
    CheckedView,
    /// A view of memory by numbers, or indices, that nothing checks.
    UncheckedView,
    /// Files of any name.
    Files,
    /// Other processes and machines.
    Network,
    /// Code outside of the program.
    ForeignCode,
}

impl Touch {
    /// In words.
    pub fn in_words(self) -> &'static str {
        match self {
            Touch::Prints => "it prints",
            Touch::Process => "it changes or reads the state of the process",
            Touch::Uninitialized => "its result shows memory that nothing wrote",
            Touch::Resizes => "it gives a tensor other memory",
            Touch::CheckedView => "it views memory by numbers, which are checked when it runs",
            Touch::UncheckedView => "it views memory by numbers that nothing checks",
            Touch::Files => "it reads or writes files",
            Touch::Network => "it talks to other processes",
            Touch::ForeignCode => "it runs code that is not in the program",
        }
    }

    /// Whether code that runs while a file is loaded may do this.
    pub fn is_allowed_in_hooks(self) -> bool {
        matches!(self, Touch::Prints | Touch::Uninitialized)
    }

    /// Whether it may reach memory that is not a tensor's.
    pub fn is_about_memory(self) -> bool {
        matches!(self, Touch::Resizes | Touch::CheckedView | Touch::UncheckedView)
    }
}

/// The resources that kinds without a row touch. `set_` of a tensor takes over the memory of
/// another, `resize_` grows it without writing to it; both are checked. The `_unsafe`
/// constructors of sparse tensors do not look at their indices.
#[rustfmt::skip]
const ROWS: &[(&str, Touch)] = &[
    ("prim::Print", Touch::Prints),
    ("aten::warn", Touch::Prints),
    ("aten::manual_seed", Touch::Process),
    ("aten::seed", Touch::Process),
    ("aten::initial_seed", Touch::Process),
    ("aten::set_grad_enabled", Touch::Process),
    ("prim::AddStatValue", Touch::Process),
    ("prim::TimePoint", Touch::Process),
    ("profiler::*", Touch::Process),
    ("cuda::*", Touch::Process),
    ("aten::empty_permuted", Touch::Uninitialized),
    ("aten::empty_quantized", Touch::Uninitialized),
    ("aten::_empty_affine_quantized", Touch::Uninitialized),
    ("aten::_empty_per_channel_affine_quantized", Touch::Uninitialized),
    ("aten::resize_", Touch::Resizes),
    ("aten::resize_as_", Touch::Resizes),
    ("aten::resize", Touch::Resizes),
    ("aten::resize_as", Touch::Resizes),
    ("aten::resize_as_sparse_", Touch::Resizes),
    ("aten::_resize_output_", Touch::Resizes),
    ("aten::_copy_from_and_resize", Touch::Resizes),
    ("aten::sparse_resize_", Touch::Resizes),
    ("aten::sparse_resize_and_clear_", Touch::Resizes),
    ("inductor::resize_storage_bytes_", Touch::Resizes),
    ("aten::set_data", Touch::Resizes),
    ("aten::set_", Touch::CheckedView),
    ("aten::set", Touch::CheckedView),
    ("aten::as_strided_", Touch::CheckedView),
    ("aten::as_strided_copy", Touch::CheckedView),
    ("aten::_reshape_alias_copy", Touch::CheckedView),
    ("inductor::_reinterpret_tensor", Touch::UncheckedView),
    ("inductor::_alloc_from_pool", Touch::UncheckedView),
    ("inductor::*", Touch::UncheckedView),
    ("aten::_nested_view_from_buffer", Touch::UncheckedView),
    ("aten::_nested_view_from_buffer_copy", Touch::UncheckedView),
    ("aten::_sparse_coo_tensor_unsafe", Touch::UncheckedView),
    ("aten::_sparse_compressed_tensor_unsafe", Touch::UncheckedView),
    ("aten::_sparse_csr_tensor_unsafe", Touch::UncheckedView),
    ("aten::_sparse_csc_tensor_unsafe", Touch::UncheckedView),
    ("aten::_sparse_bsr_tensor_unsafe", Touch::UncheckedView),
    ("aten::_sparse_bsc_tensor_unsafe", Touch::UncheckedView),
    ("aten::save", Touch::Files),
    ("aten::from_file", Touch::Files),
    ("aten::load", Touch::Files),
    ("image::read_file", Touch::Files),
    ("image::write_file", Touch::Files),
    ("torchaudio::sox_*", Touch::Files),
    ("rpc::*", Touch::Network),
    ("prim::rpc_*", Touch::Network),
    ("c10d::*", Touch::Network),
    ("c10d_functional::*", Touch::Network),
    ("_c10d_functional::*", Touch::Network),
    ("dist_autograd::*", Touch::Network),
    ("prim::PythonOp", Touch::ForeignCode),
    ("^*", Touch::ForeignCode),
];

/// The resources that an operator touches; nothing for most.
pub fn touch(kind: Symbol) -> Option<Touch> {
    let name = kind.as_str();
    let fits = |pattern: &str| match pattern.strip_suffix('*') {
        Some(prefix) => name.starts_with(prefix),
        None => name == pattern,
    };
    let listed = || ROWS.iter().find(|(pattern, _)| fits(pattern)).map(|(_, touch)| *touch);
    super::operator(Era::V2, kind).rule.touches.or_else(listed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::rules::Nondeterminism;
    use crate::ops::{self, rows};

    #[test]
    fn rows_name_the_memory_that_operators_touch() {
        let doubled = ROWS.iter().find(|(name, _)| rows::row(Symbol::new(name)).is_some());
        assert!(doubled.is_none(), "{doubled:?}");
    }

    #[test]
    fn whole_names_stand_before_the_patterns_that_match_them() {
        for (at, (name, _)) in ROWS.iter().enumerate() {
            let earlier = &ROWS[..at];
            let hides = |pattern: &str| pattern.strip_suffix('*').is_some_and(|prefix| name.starts_with(prefix));
            assert!(!earlier.iter().any(|(pattern, _)| hides(pattern) || pattern == name), "{name} is never found");
        }
    }

    #[test]
    fn operators_with_uninitialised_results_say_so_in_both_tables() {
        for (name, touch) in ROWS.iter().filter(|(_, touch)| *touch == Touch::Uninitialized) {
            let operator = ops::operator(Era::V2, Symbol::new(name));
            let known = operator.nondeterminism(operator.schemas.first());
            let is_listed = known == Nondeterminism::Undefined || name.contains("empty");
            assert!(is_listed, "{name} is {touch:?}, and {known:?}");
        }
    }

    #[test]
    fn memory_and_files_are_found_by_name_and_by_pattern() {
        assert_eq!(touch(Symbol::new("aten::as_strided")), Some(Touch::CheckedView));
        assert_eq!(touch(Symbol::new("inductor::something_new")), Some(Touch::UncheckedView));
        assert_eq!(touch(Symbol::new("^Function")), Some(Touch::ForeignCode));
        assert_eq!(touch(Symbol::new("aten::add")), None);
    }
}
