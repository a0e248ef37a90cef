//! Named pipelines, and ordering constraints between passes.
//!
//! `@default` is our recommendation. `@torch-…` are the pipelines that PyTorch's executors ran on a
//! graph before execution, in their order and with their unsound options (`trusting`, `escaping`):
//! they show what PyTorch did to a graph, stage by stage with `--print-changed`, and serve to
//! compare with PyTorch's results.

use jitopt_core::pass::NamedPipeline;

/// The expansion of `@name`.
pub const PIPELINES: &[NamedPipeline] = &[
    NamedPipeline {
        name: "cleanup",
        summary: "inline calls and tuples, then remove duplicate and dead code",
        // Inlining exposes duplicates across calls; tuples hide them; pooling makes equal constants
        // one value, which CSE then sees as the same operand; dead code is erased last.
        text: "inline,lower-simple-tuples,constant-pooling,cse,dce",
    },
    NamedPipeline {
        name: "default",
        summary: "the passes that are sound and pay off on every graph",
        // Constants first: they decide branches and trip counts, and every later pass has less to
        // do. Unrolled iterations expose duplicates to peephole, propagation and CSE, so these run
        // once more afterwards. Products are batched last: the operator that replaces a sum of them
        // is opaque to all other passes. Loops with an unknown trip count are left alone: unrolling
        // them grows graphs each time and pays off only for kernels. Shape analysis runs after the
        // first CSE, which does not merge values of different types, and before the passes that
        // need shapes. The fuser divides chunks of a known number.
        text: "inline,lower-simple-tuples,constant-propagation,constant-pooling,fixpoint(peephole,cse,dce),\
               constant-loop-unrolling,shape-analysis{precise},canonicalize-ops,constant-propagation,constant-pooling,\
               fixpoint(peephole,cse,dce),batch-mm,dce",
    },
    NamedPipeline {
        name: "freeze",
        summary: "what `--freeze` runs for the module of an archive: calls inlined, constants folded, dead code removed",
        // Numbers of a module are constants then, and decide branches; dropout is `peephole`'s.
        text: "inline,lower-simple-tuples,constant-propagation,constant-pooling,fixpoint(peephole{more},cse,dce)",
    },
    NamedPipeline {
        name: "inference",
        summary: "for calls without gradients, as freezing a module does: dropout, in-place writes and batch norms gone, then kernels",
        // Branches and dropout depend on constants: `training` of a module is one once it is bound.
        // Writes go before batch norms are folded, since a convolution is moved to its norm, and
        // norms before the fuser, which would take them for pointwise operators. Types are inferred
        // again after each of the two: casts that keep the element type of a written tensor go
        // where it is known. Attention layers are taken apart where sizes are known, and the parts
        // get types. Layouts are chosen while weights are constants that show theirs. Library calls
        // fuse activations, so they come before the fuser.
        text: "inline,lower-simple-tuples,constant-propagation,constant-pooling,fixpoint(peephole{more},cse,dce),\
               constant-loop-unrolling,shape-analysis{precise},remove-mutation{fixpoint cast},shape-analysis{precise},\
               choose-layouts,fold-batch-norm,decompose-attention,canonicalize-ops,shape-analysis{precise},constant-propagation,constant-pooling,\
               fixpoint(peephole{more},cse,dce),convert-to-library-calls,fuse{level=2},dce",
    },
    NamedPipeline {
        name: "training",
        summary: "the graph and its gradient, each fused, for calls that pass gradients of all results",
        // First one graph, without operators that have no formula, and without lists that may alias
        // written memory. Known sizes are propagated before differentiation, so that formulas
        // capture none, and from one graph to the other: then branches of formulas are decided,
        // gradient sums can move, and become reductions of the backward kernel. Cheap values are
        // recomputed there; the forward graph is fused last, when it is known which values it must
        // return.
        text: "inline,lower-simple-tuples,lower-all-tuples,constant-propagation,cse,dce,constant-loop-unrolling,constant-propagation,\
               remove-mutation,canonicalize-ops,dce,\
               shape-analysis{precise},peephole{only=lists more},dce,functionalize,shape-analysis{precise},differentiate{defined eager},\
               forward(lower-simple-tuples,shape-analysis{precise},peephole,cse,dce),refine-captures,\
               backward(specialize-autogradzero,fixpoint(constant-propagation,lower-simple-tuples,shape-analysis{precise},peephole,cse,dce)),\
               recompute-captures,\
               backward(cse,commute-sum-to-size,shape-analysis{precise},peephole,cse,dce,fuse{level=2},dce),\
               refine-captures,forward(fuse{level=2},dce)",
    },
    NamedPipeline {
        name: "torch-1.3-required",
        summary: "the executor of 1.3, for all arguments, before it checks whether they require gradients",
        // Required: gradient formulas and tuples are lowered, so that only operators of the
        // interpreter remain. Known facts: constants, shapes. Differentiable simplifications:
        // common subexpressions, small rewrites, unrolled loops.
        text: "inline,lower-gradof,specialize-autogradzero,lower-simple-tuples,constant-pooling,\
               remove-expands,canonicalize-ops{trusting},dce,\
               constant-propagation{escaping},shape-analysis,\
               dce,cse,constant-pooling,peephole{trusting},constant-propagation{escaping},loop-unrolling,cse",
    },
    NamedPipeline {
        name: "torch-1.3-training",
        summary: "the same for arguments that require gradients: differentiable graphs, whose forward graphs are fused",
        // A formula adds branches and sizes of its own, so each forward graph runs through the
        // whole pipeline again. Small groups are left to eager mode.
        text: "@torch-1.3-required,create-autodiff-subgraphs,differentiate{groups-only},\
               forward(shape-analysis,dce,cse,constant-pooling,peephole{trusting},constant-propagation{escaping},loop-unrolling,cse,\
               decompose-ops,lower-simple-tuples,batch-mm{quiet},dce,fuse),inline-autodiff-subgraphs,dce",
    },
    NamedPipeline {
        name: "torch-1.3-inference",
        summary: "the same for arguments without gradients, and the fuser",
        // In addition the simplifications that are not differentiable: norms and products.
        text: "@torch-1.3-required,decompose-ops,lower-simple-tuples,batch-mm{quiet},dce,fuse",
    },
    NamedPipeline {
        name: "torch-1.3-profiling",
        summary: "the profiling executor of 1.3 and 1.4, for a graph without gradients, with observed types from --profile",
        // Redundant guards would be barriers for code motion.
        text: "insert-guards,guard-elimination,insert-bailouts,@torch-1.3-guarded",
    },
    NamedPipeline {
        name: "torch-1.3-guarded",
        summary: "the part of it after the guards, for a graph with bailouts",
        // Nothing is inlined or inferred: types were observed by profiling, and guards ensure them.
        // Gradient formulas go first, as types determine which of them are zero.
        text: "specialize-autogradzero,lower-gradof,remove-expands,canonicalize-ops{trusting},dce,\
               constant-propagation{escaping},dce,cse,constant-pooling,peephole{trusting},\
               constant-propagation{escaping},loop-unrolling,cse,\
               decompose-ops,lower-simple-tuples,batch-mm{quiet},dce,fuse",
    },
    NamedPipeline {
        name: "torch-2-legacy-required",
        summary: "the legacy executor of 2.x, for all arguments",
        // The passes of 1.3 in another order: constants are pooled after propagation, and unrolled
        // code is simplified once more.
        text: "inline,lower-gradof,specialize-autogradzero,lower-simple-tuples,constant-pooling,\
               remove-expands,canonicalize-ops{trusting},dce,\
               constant-propagation{escaping},shape-analysis,\
               dce,cse,peephole{trusting},constant-propagation{escaping},constant-pooling,loop-unrolling,\
               peephole{trusting},constant-propagation{escaping},cse",
    },
    NamedPipeline {
        name: "torch-2-legacy",
        summary: "the same for a graph without gradients",
        text: "@torch-2-legacy-required,decompose-ops,lower-simple-tuples,batch-mm{quiet},dce,fuse",
    },
    NamedPipeline {
        name: "torch-2-legacy-training",
        summary: "the same for a graph whose arguments require gradients",
        text: "@torch-2-legacy-required,create-autodiff-subgraphs,differentiate{groups-only},\
               forward(shape-analysis,dce,cse,peephole{trusting},constant-propagation{escaping},constant-pooling,loop-unrolling,\
               peephole{trusting},constant-propagation{escaping},cse,\
               decompose-ops,lower-simple-tuples,batch-mm{quiet},dce,fuse),inline-autodiff-subgraphs,dce",
    },
    NamedPipeline {
        name: "torch-cleanup",
        summary: "PyTorch's passes against duplicate and dead code, once each",
        text: "inline,constant-propagation{escaping},dce{alias=false},cse,constant-pooling,peephole{trusting},cse,\
               dce{alias=false}",
    },
];

/// `(before, after, why)`: in every named pipeline of ours the first `before` comes before the
/// first `after`.
pub const ORDER: &[(&str, &str, &str)] = &[
    ("inline", "cse", "a value computed on both sides of a call is only visible as a duplicate in one body"),
    ("inline", "constant-propagation", "arguments of calls are constants of their bodies"),
    ("inline", "lower-simple-tuples", "calls return tuples that are unpacked at once"),
    ("lower-simple-tuples", "cse", "equal values packed into different tuples look different"),
    ("cse", "dce", "merging leaves the unused side to be erased"),
    ("constant-propagation", "constant-loop-unrolling", "the number of iterations must be a constant"),
    ("cse", "shape-analysis", "values of different types are not merged"),
    ("constant-propagation", "fuse", "scalars that are not constants keep an operator out of a group"),
    ("canonicalize-ops", "fuse", "only chunks of a known number go into a group"),
    ("remove-mutation", "choose-layouts", "values that are written keep their layout"),
    ("choose-layouts", "fold-batch-norm", "a folded weight is no constant, whose layout its type shows"),
    ("choose-layouts", "convert-to-library-calls", "convolutions inside of calls have the layout of their operands"),
    ("remove-mutation", "fold-batch-norm", "a write between a convolution and its norm keeps them apart"),
    ("fold-batch-norm", "fuse", "a norm inside of a kernel is not folded"),
    ("decompose-attention", "convert-to-library-calls", "products inside of a layer are no calls"),
    ("remove-mutation", "fuse", "a node that writes to memory is not part of a kernel"),
    ("decompose-ops", "fuse", "its results are partly pointwise"),
    ("commute-sum-to-size", "fuse", "sums between operators keep them out of one group"),
    ("constant-loop-unrolling", "batch-mm", "products of several iterations are summed"),
];
