//! Facts about operators that their schemas lack, as a table.
//!
//! The facts are those of PyTorch's alias analysis and of its list of nodes with side effects,
//! observed in its behaviour in 1.3 to 2.15. A row names kinds, `ns::*` names a namespace; a kind
//! without a row is [`Rule::default`] if it has a schema, and [`UNKNOWN`] otherwise. A new fact is
//! a new field of [`Rule`], a builder for it, and rows.

use super::schema::Schema;
use crate::symbol::Symbol;

/// The effects of an operator other than its results and the writes that its schema marks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// None.
    None,
    /// Writes to memory in a way that only [`AliasRule`] describes, such as `prim::SetAttr`: kept
    /// as long as the write may be observed.
    Write,
    /// An observable effect or a change of the state of the process: printing, seeding, timing, the
    /// network.
    Observable,
    /// Leaves the graph.
    Raise,
    /// Runs code outside of the graph.
    Call,
    /// Marks where a speculative graph can be left: its position decides what is resumed.
    Anchor,
    /// Any effect.
    Unknown,
}

impl Effect {
    /// Whether a node with this effect is never removed and never reordered with another such node.
    pub fn is_side_effect(self) -> bool {
        !matches!(self, Effect::None | Effect::Write)
    }
}

/// Whether the same operands give the same result, from best to worst.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Nondeterminism {
    /// Yes.
    Deterministic,
    /// The contents of the result are uninitialised memory: two such nodes may be merged, but never
    /// folded to a constant.
    Undefined,
    /// Random unless this operand is the constant false, such as `train` of `aten::dropout`.
    UnlessFalse(usize),
    /// Random unless this operand is the constant zero, such as `dropout_p` of
    /// `aten::scaled_dot_product_attention`.
    UnlessZero(usize),
    /// No.
    Always,
}

/// The memory relation of results and operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AliasRule {
    /// As annotated in the schema of the overload. A result without annotation is fresh memory; the
    /// contents of a container result without annotation may alias anything (`aten::list` copies a
    /// list, not its elements).
    Schema,
    /// As [`AliasRule::Schema`]; if that annotates no result, each result, or each element of a
    /// list, may be this operand, or its elements. PyTorch 1.3 lost these annotations in print;
    /// some never existed (`aten::dropout`).
    MayReturn(usize),
    /// Results are fresh.
    Fresh,
    /// The result is a fresh container of the operands.
    FreshContainer,
    /// Results may alias anything of their type that is reachable from outside.
    Wildcard,
    /// All results are this operand.
    PointsTo(usize),
    /// The i-th result is the i-th operand; results beyond that are fresh.
    Pairwise,
    /// Block inputs are the operands, results are those of the subgraph.
    Subgraph,
    /// Writes to every operand and its contents; operands and results are then reachable from
    /// outside.
    Conservative,
    /// The result may alias anything, and everything reachable from outside may have been written
    /// meanwhile.
    Wait,
    /// Operands are reachable from outside from here on; the future is fresh.
    Fork,
    /// Writes to operand 0, and the stored value is reachable from outside.
    SetAttr,
    /// Results are fresh; the running statistics, operands 3 and 4, are written unless this operand
    /// is the constant false.
    BatchNorm {
        /// `training`, `use_input_stats`.
        training_operand: usize,
    },
    /// There are no results of mutable type and no writes.
    Nothing,
    /// Each result is one of the corresponding results of the blocks.
    If,
    /// Block inputs are operands or results of the body; results likewise.
    Loop,
    /// Results are those of the only block, which has no inputs.
    Block,
    /// Each result is a view of operand 0.
    ChunkPointsTo,
    /// Results in groups of `chunks`, each a view of the operand of its group.
    BroadcastingChunk,
}

impl AliasRule {
    /// Whether it implies writes that no schema shows.
    pub fn writes(self) -> bool {
        use AliasRule::*;
        matches!(self, Conservative | Wait | SetAttr | BatchNorm { .. })
    }
}

/// The blocks of a node, and the number of values that pass through them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Structure {
    /// No blocks.
    None,
    /// One operand, the condition. Two blocks without inputs, each returns one value for each
    /// result.
    If,
    /// `max`, `cond`, carried values. One block: counter and carried values in, condition and
    /// carried values out.
    Loop,
    /// One block without inputs that returns one value for each result; runs when an operand is
    /// defined.
    GradOf,
    /// Two blocks without inputs, the body and the exit; from before control flow is made
    /// structured.
    With,
    /// One block whose inputs and returns are its own: closures before they are lifted, scopes of
    /// the tracer. A lifted closure has a section instead.
    Closure,
}

impl Structure {
    /// The number of blocks.
    pub fn blocks(self) -> usize {
        match self {
            Structure::None => 0,
            Structure::If | Structure::With => 2,
            Structure::Loop | Structure::GradOf | Structure::Closure => 1,
        }
    }
}

/// The role of the `Subgraph` attribute of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carries {
    /// There is none.
    Nothing,
    /// Operands in, results out.
    Body,
    /// Operands in; the first results out, the others are kept for the backward graph.
    Differentiable,
    /// Operands in; the result is the future of its results.
    Future,
    /// Resumed from a `prim::BailOut` only.
    Template,
}

/// The element type of a tensor result, as far as the kind determines it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Elements {
    /// The promoted type of all operands, or unknown.
    Promoted,
    /// Bool, regardless of the operands.
    Bool,
    /// That of operand 0, regardless of the other operands.
    First,
}

/// Whether an operator changes the shape of the tensors that it writes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resizes {
    /// Never.
    No,
    /// Never; PyTorch's shape analysis assumes that it does.
    SoPyTorchThinks,
    /// It may.
    Yes,
}

/// The basis of the type of a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Basis {
    /// It was declared, and holds.
    Declared,
    /// It follows from other types.
    Inferred,
    /// It was observed in a profiled run, and need not hold.
    Profiled,
    /// It was checked at run time.
    Guarded,
}

/// One row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule {
    /// The kinds that the row applies to; `ns::*` is a namespace.
    pub kinds: &'static [&'static str],
    /// Its effects other than results.
    pub effect: Effect,
    /// Whether it is random; `None` defers to the schema, see [`nondeterminism`].
    pub nondeterminism: Option<Nondeterminism>,
    /// Memory.
    pub alias: AliasRule,
    /// Blocks.
    pub structure: Structure,
    /// Subgraph.
    pub carries: Carries,
    /// Whether it only reads the elements of a list operand and keeps none: a list made for it
    /// alone does not make its elements reachable from outside.
    pub reads_list_only: bool,
    /// Whether strides determine its results or whether it fails: it can distinguish a strided
    /// tensor from a contiguous copy. Calls and unknown operators may.
    pub reads_strides: bool,
    /// Whether no tensor result has elements of type bool: gradients, and operators that refuse
    /// bools.
    pub never_bool: bool,
    /// The element type of a tensor result.
    pub elements: Elements,
    /// Whether it never fails for operands of its types: it may be executed speculatively.
    pub total: bool,
    /// Whether that holds for operands that are ints and floats.
    pub total_of_numbers: bool,
    /// Whether tensors that it writes to change their shape.
    pub resizes: Resizes,
    /// The basis of the types of its results.
    pub basis: Basis,
    /// Whether it may be replaced by its results if its operands are constants; `None` means true
    /// for all kinds whose schema has a fixed number of operands.
    pub folded: Option<bool>,
}

impl Default for Rule {
    fn default() -> Rule {
        row(&[])
    }
}

const fn row(kinds: &'static [&'static str]) -> Rule {
    Rule {
        kinds,
        effect: Effect::None,
        nondeterminism: None,
        alias: AliasRule::Schema,
        structure: Structure::None,
        carries: Carries::Nothing,
        reads_list_only: false,
        reads_strides: false,
        never_bool: false,
        elements: Elements::Promoted,
        total: false,
        total_of_numbers: false,
        resizes: Resizes::No,
        basis: Basis::Declared,
        folded: None,
    }
}

impl Rule {
    const fn effect(self, effect: Effect) -> Rule {
        Rule { effect, ..self }
    }

    const fn alias(self, alias: AliasRule) -> Rule {
        Rule { alias, ..self }
    }

    const fn structure(self, structure: Structure) -> Rule {
        Rule { structure, ..self }
    }

    const fn carries(self, carries: Carries) -> Rule {
        Rule { carries, ..self }
    }

    const fn is(self, nondeterminism: Nondeterminism) -> Rule {
        Rule { nondeterminism: Some(nondeterminism), ..self }
    }

    const fn folded(self, folded: bool) -> Rule {
        Rule { folded: Some(folded), ..self }
    }

    const fn reads_list_only(self) -> Rule {
        Rule { reads_list_only: true, ..self }
    }

    const fn reads_strides(self) -> Rule {
        Rule { reads_strides: true, ..self }
    }

    const fn resizes(self, resizes: Resizes) -> Rule {
        Rule { resizes, ..self }
    }

    const fn basis(self, basis: Basis) -> Rule {
        Rule { basis, ..self }
    }

    const fn never_bool(self) -> Rule {
        Rule { never_bool: true, ..self }
    }

    const fn total(self) -> Rule {
        Rule { total: true, ..self }
    }

    const fn total_of_numbers(self) -> Rule {
        Rule { total_of_numbers: true, ..self }
    }

    const fn elements(self, elements: Elements) -> Rule {
        Rule { elements, ..self }
    }
}

/// The row of an unknown operator.
pub const UNKNOWN: Rule = row(&[]).effect(Effect::Unknown).alias(AliasRule::Conservative).is(Nondeterminism::Always);

/// The table.
#[rustfmt::skip]
pub const RULES: &[Rule] = &{
    use AliasRule as A;
    use Effect::*;
    use Nondeterminism::{Always, Deterministic, Undefined};
    use Structure as S;
    [
        // Structure.
        row(&["prim::Param", "prim::Return", "prim::Drop"]).alias(A::Nothing).is(Deterministic),
        row(&["prim::If"]).alias(A::If).structure(S::If).is(Deterministic),
        row(&["prim::Loop"]).alias(A::Loop).structure(S::Loop).is(Deterministic),
        row(&["prim::GradOf"]).alias(A::Block).structure(S::GradOf).is(Deterministic).never_bool(),
        row(&["prim::With"]).effect(Call).alias(A::Conservative).structure(S::With),
        row(&["prim::Closure", "prim::forkClosure", "prim::LocalVariableScope", "prim::ComprehensionScope"])
            .effect(Call).alias(A::Conservative).structure(S::Closure),
        row(&["prim::TracedFork", "prim::TracedModuleForward"]).effect(Call).alias(A::Conservative).structure(S::Closure),
        row(&["prim::Load", "prim::Store", "prim::ContinueStmt", "prim::BreakStmt", "prim::ReturnStmt"])
            .effect(Observable).alias(A::Conservative),
        row(&["prim::LoopContinuation"]).effect(Observable).alias(A::Conservative),
        // Values made from nothing. The content of an uninitialised value is never used.
        row(&["prim::Constant", "prim::AutogradZero", "prim::Undefined", "prim::ConstantMKLDNNTensor"])
            .alias(A::Fresh).is(Deterministic).folded(false).total(),
        row(&["prim::CreateObject"]).alias(A::Fresh).is(Deterministic).folded(false),
        row(&["prim::Uninitialized"]).alias(A::Fresh).is(Undefined).folded(false),
        // Autograd and sizes.
        row(&["prim::AutogradAdd"]).alias(A::Fresh).is(Deterministic).never_bool(),
        row(&["prim::MMTreeReduce", "prim::MMBatchSide", "prim::FusedConcat", "prim::VarConcat"])
            .alias(A::Fresh).is(Deterministic),
        row(&["prim::VarStack", "prim::BroadcastSizes", "prim::ChunkSizes", "prim::ReductionSizes", "prim::tolist"])
            .alias(A::Fresh).is(Deterministic),
        row(&["prim::AutogradAnyNonZero", "prim::AutogradAllNonZero", "prim::AutogradAllZero"])
            .alias(A::Nothing).is(Deterministic),
        row(&["prim::isinstance"]).alias(A::Nothing).is(Deterministic).folded(true),
        row(&["prim::HasAttr"]).alias(A::Nothing).is(Deterministic),
        row(&["prim::mkldnn_convolution"]).is(Deterministic),
        // Containers and objects.
        row(&["prim::TupleConstruct", "prim::ListConstruct", "prim::DictConstruct"])
            .alias(A::FreshContainer).is(Deterministic).folded(true).total(),
        row(&["prim::TupleUnpack", "prim::TupleIndex", "prim::TupleSlice", "prim::ListUnpack", "prim::DictIndex"])
            .alias(A::Wildcard).is(Deterministic).folded(true),
        row(&["prim::GetAttr", "prim::ModuleContainerIndex"]).alias(A::Wildcard).is(Deterministic).folded(false),
        row(&["prim::SetAttr"]).effect(Write).alias(A::SetAttr).is(Deterministic),
        row(&["prim::ConstantChunk"]).alias(A::ChunkPointsTo).is(Deterministic),
        row(&["prim::BroadcastingChunk"]).alias(A::BroadcastingChunk).is(Deterministic),
        row(&["prim::BroadcastMKLDNNTensors"]).alias(A::Pairwise).is(Deterministic),
        row(&["prim::unchecked_cast"]).alias(A::PointsTo(0)).is(Deterministic),
        // Speculation. PyTorch takes `prim::profile` to be free of effects; the graph cannot
        // observe its counting.
        row(&["prim::profile", "prim::profile_ivalue", "prim::profile_optional"])
            .alias(A::PointsTo(0)).is(Deterministic).folded(false).basis(Basis::Profiled),
        row(&["prim::Guard"]).alias(A::PointsTo(0)).is(Deterministic).folded(false).basis(Basis::Guarded),
        // Types and passes depend on its position; a quantised tensor has no textual constant.
        row(&["prim::unchecked_unwrap_optional", "aten::dequantize"]).folded(false),
        row(&["prim::BailOut"]).effect(Anchor).alias(A::PointsTo(1)).is(Deterministic).basis(Basis::Guarded),
        row(&["prim::BailoutTemplate"]).effect(Anchor).alias(A::Nothing).carries(Carries::Template).is(Deterministic),
        row(&["prim::TypeCheck", "prim::RequiresGradCheck"]).alias(A::Pairwise).is(Deterministic).basis(Basis::Guarded),
        row(&["prim::oneDNNFusionGuard"]).alias(A::Pairwise).is(Deterministic).basis(Basis::Guarded),
        // These only compute the result: the operands of a check are read unchanged.
        row(&["prim::TensorExprDynamicGuard", "prim::CudaFusionGuard"])
            .alias(A::Nothing).is(Deterministic).folded(false),
        // Groups. Randomness inside of them is found in their subgraphs.
        row(&["prim::FusionGroup", "prim::CudaFusionGroup", "prim::oneDNNFusionGroup", "prim::FunctionalGraph"])
            .alias(A::Subgraph).carries(Carries::Body).is(Deterministic),
        row(&["prim::FallbackGraph"]).alias(A::Subgraph).carries(Carries::Body).is(Deterministic),
        row(&["prim::DifferentiableGraph"]).alias(A::Subgraph).carries(Carries::Differentiable).is(Deterministic),
        row(&["prim::TensorExprGroup", "prim::TensorExprDynamicGroup", "prim::StaticSubgraph", "prim::MKLDNNGroup"])
            .alias(A::Fresh).carries(Carries::Body).is(Deterministic),
        row(&["prim::StaticRuntimeCopyOuts"]).alias(A::Conservative),
        // Calls and concurrency. PyTorch's analysis assumes that Python operators do not write to
        // their operands; nothing prevents them from it.
        row(&["prim::CallFunction", "prim::CallMethod", "prim::Enter", "prim::Exit", "prim::rpc_sync"])
            .effect(Call).alias(A::Conservative).is(Always),
        row(&["prim::PythonOp", "prim::IgnoredPythonOp"]).effect(Call).alias(A::Conservative).is(Always),
        row(&["prim::rpc_async", "prim::rpc_remote"]).effect(Call).alias(A::Fork).is(Always),
        row(&["prim::fork"]).alias(A::Fork).carries(Carries::Future).is(Always),
        row(&["aten::wait"]).effect(Observable).alias(A::Wait).is(Always),
        row(&["prim::awaitable", "prim::Await"]).effect(Call).alias(A::Conservative).carries(Carries::Future).is(Always),
        row(&["prim::awaitable_wait"]).effect(Call).alias(A::Wait).is(Always),
        row(&["prim::awaitable_nowait"]).alias(A::FreshContainer).is(Deterministic),
        // Effects.
        row(&["prim::Print"]).effect(Observable).alias(A::Nothing).is(Deterministic),
        row(&["aten::_assert_async", "aten::_assert_scalar", "aten::_assert_tensor_metadata"])
            .effect(Raise).alias(A::Nothing).is(Deterministic),
        row(&["prim::RaiseException"]).effect(Raise).alias(A::Nothing).is(Deterministic),
        row(&["prim::AddStatValue"]).effect(Observable).alias(A::Nothing).is(Deterministic),
        row(&["prim::TimePoint"]).effect(Observable).alias(A::Nothing).is(Always),
        row(&["aten::warn", "aten::save", "aten::set_grad_enabled"]).effect(Observable).alias(A::Nothing).is(Deterministic),
        row(&["aten::manual_seed", "aten::seed", "aten::initial_seed", "aten::Generator"]).effect(Observable).is(Always),
        row(&["aten::backward", "aten::_backward", "aten::dist_backward"]).effect(Call).alias(A::Conservative).is(Always),
        row(&["aten::is_grad_enabled", "aten::is_autocast_enabled", "aten::is_autocast_cpu_enabled"]).is(Always),
        row(&["cuda::*", "profiler::*", "c10d::*", "_c10d_functional::*", "_c10d_functional_autograd::*", "symm_mem::*"])
            .effect(Call).alias(A::Conservative).is(Always),
        row(&["_caffe2::*", "_c10_experimental::*", "_dtensor::*", "fsdp::*", "inductor::*", "debug_mode_ops::*"])
            .effect(Call).alias(A::Conservative).is(Always),
        // Running statistics, which no schema marks.
        row(&["aten::batch_norm", "aten::instance_norm", "aten::native_batch_norm", "aten::_batch_norm_impl_index"])
            .alias(A::BatchNorm { training_operand: 5 }),
        row(&["aten::cudnn_batch_norm", "aten::miopen_batch_norm"]).alias(A::BatchNorm { training_operand: 5 }),
        // Views that are not annotated as such in all versions.
        row(&["aten::as_tensor", "aten::chunk", "aten::coalesce", "aten::contiguous", "aten::detach", "aten::expand_as"])
            .alias(A::MayReturn(0)),
        row(&["aten::flatten", "aten::pin_memory", "aten::reshape", "aten::reshape_as", "aten::slice", "aten::split"])
            .alias(A::MayReturn(0)),
        row(&["aten::split_with_sizes", "aten::to", "aten::unbind", "aten::_ncf_unsqueeze"]).alias(A::MayReturn(0)),
        row(&["aten::view_as", "aten::_ncf_view"]).alias(A::MayReturn(0)).reads_strides(),
        row(&["aten::type_as", "aten::meshgrid", "aten::_unwrap_optional", "aten::data"])
            .alias(A::MayReturn(0)),
        row(&["aten::_cast_*", "aten::cartesian_prod", "aten::_grad_sum_to_size", "aten::atleast_*"]).alias(A::MayReturn(0)),
        row(&["aten::dropout", "aten::feature_dropout", "aten::alpha_dropout", "aten::feature_alpha_dropout"])
            .alias(A::MayReturn(0)),
        // Return an operand itself if there is nothing to do: real numbers, equal sizes, one
        // matrix, a transposition.
        row(&["aten::conj_physical", "aten::sum_to_size", "aten::to_dense", "aten::chain_matmul"]).alias(A::MayReturn(0)),
        row(&["aten::einsum"]).alias(A::MayReturn(1)),
        // Lists that are only read. The results of `broadcast_tensors` are views of the elements
        // nevertheless.
        row(&["aten::broadcast_tensors"]).alias(A::MayReturn(0)),
        row(&["aten::cat", "aten::stack", "aten::vstack", "aten::hstack", "aten::dstack"]).reads_list_only(),
        // Operators that read strides, and operators that refuse bools.
        row(&["aten::view", "aten::as_strided", "aten::stride", "aten::is_contiguous", "aten::storage_offset"])
            .reads_strides(),
        row(&["aten::empty_like"]).is(Undefined).reads_strides(),
        row(&["aten::neg"]).never_bool().total_of_numbers(),
        // Integers wrap.
        row(&["aten::add", "aten::sub", "aten::mul"]).total_of_numbers(),
        // Operators that work on all tensors.
        row(&["aten::exp", "aten::sin", "aten::cos", "aten::tanh", "aten::sigmoid", "aten::dim", "aten::numel", "prim::dtype"]).total(),
        row(&["prim::NumToTensor", "aten::__not__", "aten::__is__", "aten::__isnot__", "prim::device"]).total(),
        // Element types of results.
        row(&["aten::eq", "aten::ne", "aten::lt", "aten::le", "aten::gt", "aten::ge", "aten::equal", "aten::not_equal"])
            .elements(Elements::Bool).total_of_numbers(),
        row(&["aten::less", "aten::less_equal", "aten::greater", "aten::greater_equal", "aten::logical_*"])
            .elements(Elements::Bool),
        row(&["aten::copy", "aten::fill", "aten::masked_fill", "aten::masked_scatter", "aten::bernoulli"])
            .elements(Elements::First),
        row(&["aten::index_put", "aten::index_fill", "aten::index_copy", "aten::index_add", "aten::scatter*", "aten::put"])
            .elements(Elements::First),
        // New shapes for written tensors.
        row(&["aten::resize_", "aten::resize_as_", "aten::set_", "aten::set_data", "aten::as_strided_"]).resizes(Resizes::Yes),
        row(&["aten::t_", "aten::transpose_", "aten::swapaxes_", "aten::swapdims_", "aten::squeeze_", "aten::unsqueeze_"])
            .resizes(Resizes::Yes),
        row(&["aten::copy_"]).resizes(Resizes::SoPyTorchThinks),
        // Uninitialised contents.
        row(&["aten::empty", "aten::empty_strided", "aten::empty_permuted", "aten::new_empty"])
            .is(Undefined),
        row(&["aten::new_empty_strided", "aten::_empty_affine_quantized", "aten::empty_quantized"]).is(Undefined),
    ]
};

/// The row of a kind with these schemas.
pub fn rule(kind: Symbol, schemas: &[Schema]) -> Rule {
    let name = kind.as_str();
    // `^Fn(..)`, a Python function, may be represented as its own kind.
    let name = if name.starts_with('^') { "prim::PythonOp" } else { name };
    let by =
        |matches: fn(&str, &str) -> bool| RULES.iter().find(|rule| rule.kinds.iter().any(|kind| matches(kind, name)));
    let found = by(|kind, name| kind == name).or_else(|| by(matches_pattern));
    match found {
        Some(rule) => *rule,
        None if schemas.is_empty() => UNKNOWN,
        None => of_schemas(schemas),
    }
}

/// The row of a kind of which only schemas are known.
pub(super) fn of_schemas(schemas: &[Schema]) -> Rule {
    // An operator that returns nothing and writes nothing is called for another effect.
    let effect = if schemas.iter().any(returns_nothing) { Effect::Observable } else { Effect::None };
    Rule::default().effect(effect)
}

fn matches_pattern(kind: &str, name: &str) -> bool {
    kind.strip_suffix('*').is_some_and(|prefix| name.starts_with(prefix))
}

fn returns_nothing(schema: &Schema) -> bool {
    schema.returns.is_empty() && !schema.varret && !schema.is_writing()
}

/// Name parts, between underscores, that indicate random numbers.
#[rustfmt::skip]
const RANDOM: &[&str] = &[
    "rand", "randint", "randn", "randperm", "random", "normal", "bernoulli", "dropout", "multinomial", "poisson", "uniform",
    "cauchy", "exponential", "geometric", "rrelu", "binomial", "gamma", "dirichlet", "rnn", "lstm", "gru",
];

/// Name parts that contain random words and are not random.
const NOT_RANDOM: &[&str] = &["backward", "nll", "cell", "setup", "weight"];

/// Whether an overload is random, from its formals and its name.
///
/// PyTorch keeps a list of schemas for this, which became outdated as operators were added (its
/// `aten::normal(float, float, int[])` is taken for a constant). A generator among the formals, a
/// training flag, or the name is better evidence: a name counts by its parts, `aten::randn_like`
/// but not `aten::normalize`, and not if it is a gradient, which is given the mask.
pub fn nondeterminism(schema: &Schema) -> Nondeterminism {
    let parts = || schema.kind.short().split('_');
    let gradient = parts().next_back() == Some("grad");
    let named =
        parts().any(|part| RANDOM.contains(&part)) && !gradient && !parts().any(|part| NOT_RANDOM.contains(&part));
    let given = schema.formals.iter().any(|formal| matches!(formal.name, "generator" | "gen"));
    let flag = || schema.formal("train").or_else(|| schema.formal("training"));
    match (named || given, schema.formal("dropout_p").or_else(|| schema.formal("dropout"))) {
        (true, _) => flag().map_or(Nondeterminism::Always, Nondeterminism::UnlessFalse),
        (false, Some(p)) if !parts().any(|part| part == "backward") => Nondeterminism::UnlessZero(p),
        _ => Nondeterminism::Deterministic,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::{Operator, operator};
    use crate::types::era::Era;

    const KINDS: &str = include_str!("../../testdata/ops/kinds.txt");

    fn op(name: &str) -> &'static Operator {
        operator(Era::V2, Symbol::new(name))
    }

    /// The overload with this name, `aten::add.Tensor`.
    fn overload(name: &str) -> (&'static Operator, &'static Schema) {
        let cut = name.rfind('.').unwrap_or(name.len());
        let op = op(&name[..cut]);
        let found = op.schemas.iter().find(|schema| schema.overload == name[cut..].trim_start_matches('.'));
        (op, found.unwrap_or_else(|| panic!("{name}")))
    }

    #[test]
    fn every_kind_of_printed_graphs_has_a_row() {
        // The results of `prepare_division_for_onnx` belong to the exporter.
        let unknown: Vec<&str> = KINDS
            .lines()
            .filter(|kind| Era::ALL.iter().all(|&era| !operator(era, Symbol::new(kind)).is_known()))
            .collect();
        assert_eq!(unknown, ["onnx::Cast"]);
    }

    #[test]
    fn kinds_of_prim_are_told_apart_by_rows_and_not_by_schemas() {
        for kind in KINDS.lines().filter(|kind| kind.starts_with("prim::")) {
            let op = op(kind);
            let vague = op.schemas.iter().any(|schema| schema.varret || schema.vararg);
            assert!(!vague || op.rule != Rule::default(), "{kind}");
        }
    }

    #[test]
    fn no_kind_has_two_rows() {
        let mut kinds: Vec<&str> = RULES.iter().flat_map(|rule| rule.kinds).copied().collect();
        kinds.sort_unstable();
        assert!(kinds.windows(2).all(|pair| pair[0] != pair[1]));
        for kind in kinds.iter().filter(|kind| !kind.ends_with('*')) {
            // Our own kinds, and nvFuser's, which only CUDA builds register.
            let generated = ["prim::DictIndex", "prim::BroadcastingChunk", "prim::CudaFusionGuard"];
            assert!(!op(kind).schemas.is_empty() || generated.contains(kind), "{kind} has a row and no schema");
        }
    }

    #[test]
    fn randomness() {
        use Nondeterminism::*;
        for (name, expected) in [
            ("aten::dropout", UnlessFalse(2)),
            ("aten::native_dropout", UnlessFalse(2)),
            ("aten::rrelu", UnlessFalse(3)),
            ("aten::lstm.input", UnlessFalse(6)),
            ("aten::lstm.data", UnlessFalse(7)),
            ("aten::lstm_cell", Deterministic),
            ("aten::rand", Always),
            ("aten::rand_like", Always),
            ("aten::randperm", Always),
            ("aten::bernoulli", Always),
            ("aten::bernoulli.p", Always),
            ("aten::normal.float_float", Always),
            ("aten::uniform_", Always),
            ("aten::_standard_gamma", Always),
            ("aten::_standard_gamma_grad", Deterministic),
            ("aten::poisson", Always),
            ("aten::poisson_nll_loss", Deterministic),
            ("aten::layer_norm", Deterministic),
            ("aten::binomial", Always),
            ("aten::native_dropout_backward", Deterministic),
            ("aten::empty.memory_format", Undefined),
            ("aten::scaled_dot_product_attention", UnlessZero(4)),
            ("aten::_no_grad_uniform_", Always),
            ("prim::TimePoint", Always),
            ("aten::add.Tensor", Deterministic),
            ("aten::multinomial", Always),
        ] {
            let (op, schema) = overload(name);
            assert_eq!(op.nondeterminism(Some(schema)), expected, "{name}");
        }
        assert_eq!(op("my::op").nondeterminism(None), Always);
    }

    #[test]
    fn effects_and_purity() {
        let effects = "prim::Print prim::RaiseException aten::warn aten::wait prim::CallMethod prim::BailOut prim::TimePoint \
            prim::BailoutTemplate prim::Enter ^MyFn prim::PythonOp aten::_assert_async cuda::synchronize my::op prim::unheard_of \
            aten::set_grad_enabled aten::manual_seed prim::AddStatValue";
        for kind in effects.split_whitespace() {
            assert!(op(kind).has_side_effects() && !op(kind).is_pure(None), "{kind}");
        }
        let impure =
            "prim::SetAttr aten::add_ aten::append aten::batch_norm aten::rand prim::If prim::fork prim::FusionGroup";
        for kind in impure.split_whitespace() {
            assert!(!op(kind).has_side_effects() && !op(kind).is_pure(None), "{kind}");
        }
        let pure =
            "aten::relu prim::ListConstruct prim::GetAttr aten::size prim::Constant prim::ConstantChunk aten::reshape";
        for kind in pure.split_whitespace() {
            assert!(op(kind).is_pure(op(kind).schemas.first()), "{kind}");
        }
        // One overload writes, the other does not.
        let (add, schema) = overload("aten::add.Tensor");
        assert!(!add.is_pure(None) && add.is_pure(Some(schema)));
    }

    #[test]
    fn aliasing() {
        let rule = |name: &str| {
            let (op, schema) = overload(name);
            op.alias_rule(Some(schema))
        };
        assert_eq!(rule("aten::reshape"), AliasRule::Schema);
        assert_eq!(rule("aten::dropout"), AliasRule::MayReturn(0));
        let old = operator(Era::V1_3, Symbol::new("aten::reshape"));
        assert_eq!(old.alias_rule(old.schemas.first()), AliasRule::MayReturn(0));
        assert_eq!(rule("aten::batch_norm"), AliasRule::BatchNorm { training_operand: 5 });
        let training = overload("aten::batch_norm").1.formal("training");
        assert_eq!((training, overload("aten::instance_norm").1.formal("use_input_stats")), (Some(5), Some(5)));
        assert_eq!(op("my::op").alias_rule(None), AliasRule::Conservative);
        assert_eq!(op("aten::relu").alias_rule(None), AliasRule::Conservative);
        assert_eq!(overload("aten::_no_grad_embedding_renorm_").1.writes().collect::<Vec<_>>(), [0]);
    }
}
