//! The names that the code mentions, with numbers that are fixed at compile time.

use super::Symbol;

macro_rules! known {
    ($($(#[$doc:meta])* $ns:ident from $base:expr => { $($name:ident = $text:literal,)* })*) => {
        $(
            $(#[$doc])*
            #[allow(missing_docs, reason = "the constants are the names themselves")]
            pub mod $ns {
                use super::Symbol;
                #[allow(non_camel_case_types, clippy::upper_case_acronyms, reason = "variants exist to be counted")]
                enum Index { $($name,)* }
                const BASE: u32 = {
                    #[allow(unused_imports, reason = "the first group starts at a plain number")]
                    use super::*;
                    $base
                };
                $(pub const $name: Symbol = Symbol::fixed(BASE + Index::$name as u32);)*
                pub(super) const TEXTS: &[&str] = &[$($text,)*];
            }
        )*
        const GROUPS: &[&[&str]] = &[$($ns::TEXTS,)*];
    };
}

/// All fixed names in the order of their numbers.
pub(super) fn all() -> impl Iterator<Item = &'static str> {
    GROUPS.iter().flat_map(|group| group.iter().copied())
}

/// The text of a fixed number, without taking a lock.
pub(super) fn text(mut id: usize) -> Option<&'static str> {
    for group in GROUPS {
        match group.get(id) {
            Some(text) => return Some(text),
            None => id -= group.len(),
        }
    }
    None
}

known! {
    /// Kinds of the `prim` namespace: structure, calls, speculation, fusion.
    prim from 0 => {
        PARAM = "prim::Param",
        RETURN = "prim::Return",
        CONSTANT = "prim::Constant",
        IF = "prim::If",
        LOOP = "prim::Loop",
        WITH = "prim::With",
        LIST_CONSTRUCT = "prim::ListConstruct",
        LIST_UNPACK = "prim::ListUnpack",
        TUPLE_CONSTRUCT = "prim::TupleConstruct",
        TUPLE_UNPACK = "prim::TupleUnpack",
        TUPLE_INDEX = "prim::TupleIndex",
        TUPLE_SLICE = "prim::TupleSlice",
        DICT_CONSTRUCT = "prim::DictConstruct",
        GET_ATTR = "prim::GetAttr",
        SET_ATTR = "prim::SetAttr",
        CREATE_OBJECT = "prim::CreateObject",
        CALL_FUNCTION = "prim::CallFunction",
        CALL_METHOD = "prim::CallMethod",
        FORK = "prim::fork",
        FORK_CLOSURE = "prim::forkClosure",
        CLOSURE = "prim::Closure",
        PRINT = "prim::Print",
        RAISE_EXCEPTION = "prim::RaiseException",
        UNINITIALIZED = "prim::Uninitialized",
        ENTER = "prim::Enter",
        EXIT = "prim::Exit",
        IS_INSTANCE = "prim::isinstance",
        UNCHECKED_CAST = "prim::unchecked_cast",
        UNCHECKED_UNWRAP_OPTIONAL = "prim::unchecked_unwrap_optional",
        PROFILE = "prim::profile",
        PROFILE_OPTIONAL = "prim::profile_optional",
        PROFILE_IVALUE = "prim::profile_ivalue",
        GUARD = "prim::Guard",
        BAILOUT = "prim::BailOut",
        BAILOUT_TEMPLATE = "prim::BailoutTemplate",
        TYPE_CHECK = "prim::TypeCheck",
        REQUIRES_GRAD_CHECK = "prim::RequiresGradCheck",
        DYNAMIC_GUARD = "prim::TensorExprDynamicGuard",
        CUDA_FUSION_GUARD = "prim::CudaFusionGuard",
        ONEDNN_FUSION_GUARD = "prim::oneDNNFusionGuard",
        GRAD_OF = "prim::GradOf",
        AUTOGRAD_ADD = "prim::AutogradAdd",
        AUTOGRAD_ZERO = "prim::AutogradZero",
        AUTOGRAD_ANY_NON_ZERO = "prim::AutogradAnyNonZero",
        DIFFERENTIABLE_GRAPH = "prim::DifferentiableGraph",
        FUSION_GROUP = "prim::FusionGroup",
        CUDA_FUSION_GROUP = "prim::CudaFusionGroup",
        TENSOR_EXPR_GROUP = "prim::TensorExprGroup",
        TENSOR_EXPR_DYNAMIC_GROUP = "prim::TensorExprDynamicGroup",
        FUNCTIONAL_GRAPH = "prim::FunctionalGraph",
        FALLBACK_GRAPH = "prim::FallbackGraph",
        STATIC_SUBGRAPH = "prim::StaticSubgraph",
        ONEDNN_FUSION_GROUP = "prim::oneDNNFusionGroup",
        CONSTANT_CHUNK = "prim::ConstantChunk",
        BROADCASTING_CHUNK = "prim::BroadcastingChunk",
        FUSED_CONCAT = "prim::FusedConcat",
        CHUNK_SIZES = "prim::ChunkSizes",
        BROADCAST_SIZES = "prim::BroadcastSizes",
        MM_TREE_REDUCE = "prim::MMTreeReduce",
        MM_BATCH_SIDE = "prim::MMBatchSide",
        PYTHON_OP = "prim::PythonOp",
        LOAD = "prim::Load",
        STORE = "prim::Store",
        CONTINUE_STMT = "prim::ContinueStmt",
        BREAK_STMT = "prim::BreakStmt",
        RETURN_STMT = "prim::ReturnStmt",
        LOOP_CONTINUATION = "prim::LoopContinuation",
    }
    /// Kinds of the `aten` namespace that the code treats by name.
    aten from prim::TEXTS.len() as u32 => {
        WAIT = "aten::wait",
        GRAD_SUM_TO_SIZE = "aten::_grad_sum_to_size",
        EXPAND = "aten::expand",
        CAT = "aten::cat",
        CHUNK = "aten::chunk",
        STACK = "aten::stack",
        VSTACK = "aten::vstack",
        HSTACK = "aten::hstack",
        DSTACK = "aten::dstack",
        BROADCAST_TENSORS = "aten::broadcast_tensors",
        BATCH_NORM = "aten::batch_norm",
        INSTANCE_NORM = "aten::instance_norm",
        DROPOUT = "aten::dropout",
        APPEND = "aten::append",
        NEG = "aten::neg",
        GET_ITEM = "aten::__getitem__",
    }
    /// Calls of libraries, each with a section that says what it computes.
    library from (prim::TEXTS.len() + aten::TEXTS.len()) as u32 => {
        ATTENTION = "library::Attention",
        CONVOLUTION = "library::Convolution",
        PRODUCT = "library::Product",
    }
    /// Names of attributes.
    attr from (prim::TEXTS.len() + aten::TEXTS.len() + library::TEXTS.len()) as u32 => {
        VALUE = "value",
        NAME = "name",
        SUBGRAPH = "Subgraph",
        REVERSE_SUBGRAPH = "ReverseSubgraph",
        F_REAL_OUTPUTS = "f_real_outputs",
        DF_INPUT_VJPS = "df_input_vjps",
        DF_INPUT_CAPTURED_INPUTS = "df_input_captured_inputs",
        DF_INPUT_CAPTURED_OUTPUTS = "df_input_captured_outputs",
        DF_OUTPUT_VJPS = "df_output_vjps",
        TYPES = "types",
        STRIDING_INPUTS_DESC = "striding_inputs_desc",
        PROFILED_TYPE = "profiled_type",
        SEEN_NONE = "seen_none",
        CHUNKS = "chunks",
        DIM = "dim",
        INDEX = "index",
        FALLBACK = "fallback",
        BEGIN = "beg",
        END = "end",
        // Not a name that a file can contain: the scalar arguments of `^Fn(2.0, "a")(%x)`.
        PYTHON_ARGS = "(python args)",
        // Also not such a name: the brackets of `^f[]()(%x)`, which represent no attribute.
        EMPTY_BRACKETS = "(empty brackets)",
    }
}
