//! Semantics of an operator besides its result, where its schema does not state them: effects,
//! randomness, memory, linearity.
//!
//! The facts are those of PyTorch's alias analysis and of its list of nodes with side effects,
//! observed in its behaviour in 1.3 to 2.15. Operators with a row have them in their column
//! `semantics`, see [`super::rows`]. The table here is for the rest: constructs, namespaces
//! (`ns::*`), and operators that are written in place. A kind without either is `DECLARED` if it
//! has a schema, and `UNKNOWN` otherwise. A new fact is a new field of [`Rule`] and a builder for
//! it.

use super::linear_rules::{Linear, LinearRow};
use super::schema::Schema;
use super::touches::Touch;
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
    pub(crate) fn is_side_effect(self) -> bool {
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
    pub(crate) fn writes(self) -> bool {
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
    pub(crate) fn blocks(self) -> usize {
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
    /// The type of operand 0, regardless of the other operands.
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
    /// Its effects other than results.
    pub effect: Effect,
    /// Whether it is random; `None` defers to the schema, see `nondeterminism`.
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
    /// The way in which it commutes with a sum.
    pub linear: Option<LinearRow>,
    /// The resources that it touches besides its operands and results.
    pub touches: Option<Touch>,
}

impl Default for Rule {
    fn default() -> Rule {
        DECLARED
    }
}

/// The rule of an operator of which its schema says everything.
pub(crate) const DECLARED: Rule = Rule {
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
    linear: None,
    touches: None,
};

impl Rule {
    pub(super) const fn effect(self, effect: Effect) -> Rule {
        Rule { effect, ..self }
    }

    pub(super) const fn alias(self, alias: AliasRule) -> Rule {
        Rule { alias, ..self }
    }

    pub(super) const fn structure(self, structure: Structure) -> Rule {
        Rule { structure, ..self }
    }

    pub(super) const fn carries(self, carries: Carries) -> Rule {
        Rule { carries, ..self }
    }

    pub(super) const fn is(self, nondeterminism: Nondeterminism) -> Rule {
        Rule { nondeterminism: Some(nondeterminism), ..self }
    }

    pub(super) const fn folded(self, folded: bool) -> Rule {
        Rule { folded: Some(folded), ..self }
    }

    pub(super) const fn reads_list_only(self) -> Rule {
        Rule { reads_list_only: true, ..self }
    }

    pub(super) const fn reads_strides(self) -> Rule {
        Rule { reads_strides: true, ..self }
    }

    pub(super) const fn resizes(self, resizes: Resizes) -> Rule {
        Rule { resizes, ..self }
    }

    pub(super) const fn basis(self, basis: Basis) -> Rule {
        Rule { basis, ..self }
    }

    pub(super) const fn never_bool(self) -> Rule {
        Rule { never_bool: true, ..self }
    }

    pub(super) const fn total(self) -> Rule {
        Rule { total: true, ..self }
    }

    pub(super) const fn total_of_numbers(self) -> Rule {
        Rule { total_of_numbers: true, ..self }
    }

    pub(super) const fn elements(self, elements: Elements) -> Rule {
        Rule { elements, ..self }
    }

    /// Results have elements of type bool.
    pub(super) const fn bools(self) -> Rule {
        self.elements(Elements::Bool)
    }

    /// Results have elements of the type of the first operand.
    pub(super) const fn of_first(self) -> Rule {
        self.elements(Elements::First)
    }

    /// A sum can be moved past some overloads, by the rewrite of this name.
    pub(super) const fn linear(self, linear: Linear, overloads: &'static [&'static str], rule: &'static str) -> Rule {
        Rule { linear: Some(LinearRow { overloads, linear, rule }), ..self }
    }

    pub(super) const fn touching(self, touch: Touch) -> Rule {
        Rule { touches: Some(touch), ..self }
    }
}

/// The row of an unknown operator.
pub(crate) const UNKNOWN: Rule =
    DECLARED.effect(Effect::Unknown).alias(AliasRule::Conservative).is(Nondeterminism::Always);

/// The table.
#[rustfmt::skip]
pub(crate) const RULES: &[(&[&str], Rule)] = &{
    use AliasRule as A;
    use Effect::*;
    use Nondeterminism::{Always, Deterministic, Undefined};
    use Structure as S;
    [
        // Structure.
        (&["prim::Param", "prim::Return", "prim::Drop"], DECLARED.alias(A::Nothing).is(Deterministic)),
        (&["prim::If"], DECLARED.alias(A::If).structure(S::If).is(Deterministic)),
        (&["prim::Loop"], DECLARED.alias(A::Loop).structure(S::Loop).is(Deterministic)),
        (&["prim::With"], DECLARED.effect(Call).alias(A::Conservative).structure(S::With)),
        (&["prim::Closure", "prim::forkClosure", "prim::LocalVariableScope", "prim::ComprehensionScope"],
            DECLARED.effect(Call).alias(A::Conservative).structure(S::Closure)),
        (&["prim::TracedFork", "prim::TracedModuleForward"],
            DECLARED.effect(Call).alias(A::Conservative).structure(S::Closure)),
        (&["prim::Load", "prim::Store", "prim::ContinueStmt", "prim::BreakStmt", "prim::ReturnStmt"],
            DECLARED.effect(Observable).alias(A::Conservative)),
        (&["prim::LoopContinuation"], DECLARED.effect(Observable).alias(A::Conservative)),
        // Values made from nothing. The content of an uninitialised value is never used.
        (&["prim::Constant", "prim::Undefined", "prim::ConstantMKLDNNTensor"],
            DECLARED.alias(A::Fresh).is(Deterministic).folded(false).total()),
        (&["prim::CreateObject"], DECLARED.alias(A::Fresh).is(Deterministic).folded(false)),
        (&["prim::Uninitialized"], DECLARED.alias(A::Fresh).is(Undefined).folded(false)),
        // Autograd and sizes.
        (&["prim::MMTreeReduce", "prim::MMBatchSide", "prim::VarConcat"], DECLARED.alias(A::Fresh).is(Deterministic)),
        (&["prim::VarStack", "prim::BroadcastSizes", "prim::ChunkSizes", "prim::ReductionSizes", "prim::tolist"],
            DECLARED.alias(A::Fresh).is(Deterministic)),
        (&["prim::isinstance"], DECLARED.alias(A::Nothing).is(Deterministic).folded(true)),
        (&["prim::HasAttr"], DECLARED.alias(A::Nothing).is(Deterministic)),
        (&["prim::mkldnn_convolution"], DECLARED.is(Deterministic)),
        // Containers and objects.
        (&["prim::TupleConstruct", "prim::DictConstruct"],
            DECLARED.alias(A::FreshContainer).is(Deterministic).folded(true).total()),
        (&["prim::TupleUnpack", "prim::TupleIndex", "prim::TupleSlice", "prim::DictIndex"],
            DECLARED.alias(A::Wildcard).is(Deterministic).folded(true)),
        (&["prim::GetAttr", "prim::ModuleContainerIndex"], DECLARED.alias(A::Wildcard).is(Deterministic).folded(false)),
        (&["prim::SetAttr"], DECLARED.effect(Write).alias(A::SetAttr).is(Deterministic)),
        (&["prim::BroadcastingChunk"], DECLARED.alias(A::BroadcastingChunk).is(Deterministic)),
        (&["prim::BroadcastMKLDNNTensors"], DECLARED.alias(A::Pairwise).is(Deterministic)),
        (&["prim::unchecked_cast"], DECLARED.alias(A::PointsTo(0)).is(Deterministic)),
        // Speculation. PyTorch takes `prim::profile` to be free of effects; the graph cannot
        // observe its counting.
        (&["prim::profile_optional"],
            DECLARED.alias(A::PointsTo(0)).is(Deterministic).folded(false).basis(Basis::Profiled)),
        // Types and passes depend on its position; a quantised tensor has no textual constant.
        (&["prim::unchecked_unwrap_optional"], DECLARED.folded(false)),
        (&["prim::BailOut"], DECLARED.effect(Anchor).alias(A::PointsTo(1)).is(Deterministic).basis(Basis::Guarded)),
        (&["prim::BailoutTemplate"],
            DECLARED.effect(Anchor).alias(A::Nothing).carries(Carries::Template).is(Deterministic)),
        (&["prim::TypeCheck", "prim::RequiresGradCheck"],
            DECLARED.alias(A::Pairwise).is(Deterministic).basis(Basis::Guarded)),
        (&["prim::oneDNNFusionGuard"], DECLARED.alias(A::Pairwise).is(Deterministic).basis(Basis::Guarded)),
        // These only compute the result: the operands of a check are read unchanged.
        (&["prim::TensorExprDynamicGuard", "prim::CudaFusionGuard"],
            DECLARED.alias(A::Nothing).is(Deterministic).folded(false)),
        // Groups. Randomness inside of them is found in their subgraphs.
        (&["prim::FusionGroup", "prim::CudaFusionGroup", "prim::oneDNNFusionGroup", "prim::FunctionalGraph"],
            DECLARED.alias(A::Subgraph).carries(Carries::Body).is(Deterministic)),
        // Ours: what a library computes. The section says what that is.
        (&["library::Product", "library::Convolution", "library::Attention"],
            DECLARED.alias(A::Subgraph).carries(Carries::Body).is(Deterministic)),
        (&["prim::FallbackGraph"], DECLARED.alias(A::Subgraph).carries(Carries::Body).is(Deterministic)),
        (&["prim::DifferentiableGraph"],
            DECLARED.alias(A::Subgraph).carries(Carries::Differentiable).is(Deterministic)),
        (&["prim::TensorExprGroup", "prim::TensorExprDynamicGroup", "prim::StaticSubgraph", "prim::MKLDNNGroup"],
            DECLARED.alias(A::Fresh).carries(Carries::Body).is(Deterministic)),
        (&["prim::StaticRuntimeCopyOuts"], DECLARED.alias(A::Conservative)),
        // Calls and concurrency. PyTorch's analysis assumes that Python operators do not write to
        // their operands; nothing prevents them from it.
        (&["prim::CallFunction", "prim::CallMethod", "prim::Enter", "prim::Exit", "prim::rpc_sync"],
            DECLARED.effect(Call).alias(A::Conservative).is(Always)),
        (&["prim::PythonOp", "prim::IgnoredPythonOp"], DECLARED.effect(Call).alias(A::Conservative).is(Always)),
        (&["prim::rpc_async", "prim::rpc_remote"], DECLARED.effect(Call).alias(A::Fork).is(Always)),
        (&["prim::fork"], DECLARED.alias(A::Fork).carries(Carries::Future).is(Always)),
        (&["aten::wait"], DECLARED.effect(Observable).alias(A::Wait).is(Always)),
        (&["prim::awaitable", "prim::Await"],
            DECLARED.effect(Call).alias(A::Conservative).carries(Carries::Future).is(Always)),
        (&["prim::awaitable_wait"], DECLARED.effect(Call).alias(A::Wait).is(Always)),
        (&["prim::awaitable_nowait"], DECLARED.alias(A::FreshContainer).is(Deterministic)),
        // Effects.
        (&["prim::Print"], DECLARED.effect(Observable).alias(A::Nothing).is(Deterministic)),
        (&["aten::_assert_async", "aten::_assert_scalar", "aten::_assert_tensor_metadata"],
            DECLARED.effect(Raise).alias(A::Nothing).is(Deterministic)),
        (&["prim::RaiseException"], DECLARED.effect(Raise).alias(A::Nothing).is(Deterministic)),
        (&["prim::AddStatValue"], DECLARED.effect(Observable).alias(A::Nothing).is(Deterministic)),
        (&["prim::TimePoint"], DECLARED.effect(Observable).alias(A::Nothing).is(Always)),
        (&["aten::warn", "aten::save", "aten::set_grad_enabled"],
            DECLARED.effect(Observable).alias(A::Nothing).is(Deterministic)),
        (&["aten::manual_seed", "aten::seed", "aten::initial_seed", "aten::Generator"],
            DECLARED.effect(Observable).is(Always)),
        (&["aten::backward", "aten::_backward", "aten::dist_backward"],
            DECLARED.effect(Call).alias(A::Conservative).is(Always)),
        (&["aten::is_grad_enabled", "aten::is_autocast_enabled", "aten::is_autocast_cpu_enabled"], DECLARED.is(Always)),
        (&["cuda::*", "profiler::*", "c10d::*", "_c10d_functional::*", "_c10d_functional_autograd::*", "symm_mem::*"],
            DECLARED.effect(Call).alias(A::Conservative).is(Always)),
        (&["_caffe2::*", "_c10_experimental::*", "_dtensor::*", "fsdp::*", "inductor::*", "debug_mode_ops::*"],
            DECLARED.effect(Call).alias(A::Conservative).is(Always)),
        // Running statistics, which no schema marks.
        (&["aten::cudnn_batch_norm", "aten::miopen_batch_norm"], DECLARED.alias(A::BatchNorm { training_operand: 5 })),
        // Views that are not annotated as such in all versions, or the operand itself.
        (&["aten::coalesce", "aten::_ncf_unsqueeze", "aten::_unwrap_optional", "aten::data", "aten::to_dense"],
            DECLARED.alias(A::MayReturn(0))),
        (&["aten::_ncf_view"], DECLARED.alias(A::MayReturn(0)).reads_strides()),
        // Operators that read strides.
        (&["aten::stride", "aten::is_contiguous", "aten::storage_offset"], DECLARED.reads_strides()),
        // Operators that work on all tensors.
        (&["aten::numel", "aten::__not__", "aten::__is__", "aten::__isnot__"], DECLARED.total()),
        // Element types of results.
        (&["aten::equal"], DECLARED.bools().total_of_numbers()),
        // New shapes for written tensors.
        (&["aten::resize_", "aten::resize_as_", "aten::set_", "aten::set_data", "aten::as_strided_"],
            DECLARED.resizes(Resizes::Yes)),
        (&["aten::t_", "aten::transpose_", "aten::swapaxes_", "aten::swapdims_", "aten::squeeze_", "aten::unsqueeze_"],
            DECLARED.resizes(Resizes::Yes)),
        // Uninitialised contents.
        (&["aten::empty_permuted", "aten::_empty_affine_quantized", "aten::empty_quantized"], DECLARED.is(Undefined)),
    ]
};

/// The rule of a kind with these schemas that has no row of its own, see [`super::rows`].
pub(super) fn rule(kind: Symbol, schemas: &[Schema]) -> Rule {
    let name = kind.as_str();
    // `^Fn(..)`, a Python function, may be represented as its own kind.
    let name = if name.starts_with('^') { "prim::PythonOp" } else { name };
    let by = |matches: fn(&str, &str) -> bool| RULES.iter().find(|(kinds, _)| kinds.iter().any(|k| matches(k, name)));
    let found = by(|kind, name| kind == name).or_else(|| by(matches_pattern));
    match found {
        Some((_, rule)) => *rule,
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
pub(crate) fn nondeterminism(schema: &Schema) -> Nondeterminism {
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
    use crate::ops::{Operator, operator, rows};
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
    fn kinds_of_prim_are_distinguished_by_rows_and_not_by_schemas() {
        for kind in KINDS.lines().filter(|kind| kind.starts_with("prim::")) {
            let op = op(kind);
            let vague = op.schemas.iter().any(|schema| schema.varret || schema.vararg);
            assert!(!vague || op.rule != Rule::default(), "{kind}");
        }
    }

    #[test]
    fn no_kind_has_two_rows() {
        let mut kinds: Vec<&str> = RULES.iter().flat_map(|(kinds, _)| *kinds).copied().collect();
        kinds.sort_unstable();
        assert!(kinds.windows(2).all(|pair| pair[0] != pair[1]));
        let has_row = |kind: &&&str| rows::rows().any(|row| row.kind == **kind || matches_pattern(kind, row.kind));
        let doubled = kinds.iter().find(has_row);
        assert_eq!(doubled, None, "its row has a column for this");
        for kind in kinds.iter().filter(|kind| !kind.ends_with('*')) {
            // Our own kinds, and nvFuser's, which only CUDA builds register.
            let generated = [
                "prim::DictIndex",
                "prim::BroadcastingChunk",
                "prim::CudaFusionGuard",
                "library::Product",
                "library::Convolution",
                "library::Attention",
            ];
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
