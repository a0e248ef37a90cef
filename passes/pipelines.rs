//! Named pipelines, and the order that passes want.
//!
//! `@default` is what we would run. `@torch-…` are what PyTorch's executors ran on a graph before it was executed, in their order
//! and with their liberties (`trusting`, `escaping`): to see what became of a graph there, stage by stage with
//! `--print-changed`, and to compare with what PyTorch left.

use jitopt_core::pass::NamedPipeline;

/// What `@name` stands for.
pub const PIPELINES: &[NamedPipeline] = &[
    NamedPipeline {
        name: "cleanup",
        summary: "calls and tuples away, then what is computed twice or for nothing",
        // Inlining shows duplicates across calls; tuples hide them; pooling makes equal constants one value, which CSE
        // then sees as the same operand; what loses its last user on the way goes last.
        text: "inline,lower-simple-tuples,constant-pooling,cse,dce",
    },
    NamedPipeline {
        name: "default",
        summary: "what is safe and pays on every graph",
        // Constants first: they decide branches and how often loops run, and every later pass has less to look at. What a
        // loop repeats is the same again for peephole, propagation and CSE, so these come once more behind it. Products are
        // batched last: the operator that stands for a sum of them is opaque to everything else. Loops whose number of turns
        // is not known are left as they are: repeating them makes graphs larger each time and pays only for kernels.
        // Shapes come behind the first CSE, which merges nothing of different types, and before what asks for them. Chunks of known number
        // are what the fuser takes apart.
        text: "inline,lower-simple-tuples,constant-propagation,constant-pooling,fixpoint(peephole,cse,dce),\
               constant-loop-unrolling,shape-analysis{precise},canonicalize-ops,constant-propagation,constant-pooling,\
               fixpoint(peephole,cse,dce),batch-mm,dce",
    },
    NamedPipeline {
        name: "training",
        summary: "the graph and its gradient, each fused, for calls that give gradients of all results",
        // One graph first, without what has no formula, and without lists that may keep what is written to. What is known of sizes is told before differentiation, so that formulas keep none, and from one graph to the other:
        // then branches of formulas are decided, sums of gradients can move, and be folds of the backward kernel. What is cheap is computed there again; the forward graph is fused last, when it
        // is known what it must keep.
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
        summary: "what the executor of 1.3 did for all arguments, before it looked whether they want gradients",
        // What must be: gradient formulas and tuples away, operators that the interpreter has. What can be known: constants,
        // shapes. What gradients survive: common work, small rewrites, repeated loops.
        text: "inline,lower-gradof,specialize-autogradzero,lower-simple-tuples,constant-pooling,\
               remove-expands,canonicalize-ops{trusting},dce,\
               constant-propagation{escaping},shape-analysis,\
               dce,cse,constant-pooling,peephole{trusting},constant-propagation{escaping},loop-unrolling,cse",
    },
    NamedPipeline {
        name: "torch-1.3-training",
        summary: "the same for arguments that want gradients: differentiable graphs, whose forward graphs are fused",
        // A formula brings branches and sizes of its own, so that each forward graph goes the whole way again. Small groups are left to eager mode.
        text: "@torch-1.3-required,create-autodiff-subgraphs,differentiate{groups-only},\
               forward(shape-analysis,dce,cse,constant-pooling,peephole{trusting},constant-propagation{escaping},loop-unrolling,cse,\
               decompose-ops,lower-simple-tuples,batch-mm{quiet},dce,fuse),inline-autodiff-subgraphs,dce",
    },
    NamedPipeline {
        name: "torch-1.3-inference",
        summary: "the same for arguments without gradients, and the fuser",
        // And what gradients do not survive: norms and products.
        text: "@torch-1.3-required,decompose-ops,lower-simple-tuples,batch-mm{quiet},dce,fuse",
    },
    NamedPipeline {
        name: "torch-1.3-profiling",
        summary: "what the profiling executor of 1.3 and 1.4 did to a graph without gradients, given what a run saw with --profile",
        // Tests that say nothing new would be places that nothing may cross.
        text: "insert-guards,guard-elimination,insert-bailouts,@torch-1.3-guarded",
    },
    NamedPipeline {
        name: "torch-1.3-guarded",
        summary: "the part of it behind the guards, for a graph with bailouts",
        // Nothing is inlined or inferred: profiling saw the types, and guards hold them. Gradient formulas go first, as types tell which
        // of them are zero.
        text: "specialize-autogradzero,lower-gradof,remove-expands,canonicalize-ops{trusting},dce,\
               constant-propagation{escaping},dce,cse,constant-pooling,peephole{trusting},\
               constant-propagation{escaping},loop-unrolling,cse,\
               decompose-ops,lower-simple-tuples,batch-mm{quiet},dce,fuse",
    },
    NamedPipeline {
        name: "torch-2-legacy-required",
        summary: "what the legacy executor of 2.x does for all arguments",
        // The passes of 1.3 in another order: constants are pooled behind propagation, and what unrolling shows is looked at once more.
        text: "inline,lower-gradof,specialize-autogradzero,lower-simple-tuples,constant-pooling,\
               remove-expands,canonicalize-ops{trusting},dce,\
               constant-propagation{escaping},shape-analysis,\
               dce,cse,peephole{trusting},constant-propagation{escaping},constant-pooling,loop-unrolling,\
               peephole{trusting},constant-propagation{escaping},cse",
    },
    NamedPipeline {
        name: "torch-2-legacy",
        summary: "what it does to a graph without gradients",
        text: "@torch-2-legacy-required,decompose-ops,lower-simple-tuples,batch-mm{quiet},dce,fuse",
    },
    NamedPipeline {
        name: "torch-2-legacy-training",
        summary: "what it does to a graph whose arguments want gradients",
        text: "@torch-2-legacy-required,create-autodiff-subgraphs,differentiate{groups-only},\
               forward(shape-analysis,dce,cse,peephole{trusting},constant-propagation{escaping},constant-pooling,loop-unrolling,\
               peephole{trusting},constant-propagation{escaping},cse,\
               decompose-ops,lower-simple-tuples,batch-mm{quiet},dce,fuse),inline-autodiff-subgraphs,dce",
    },
    NamedPipeline {
        name: "torch-cleanup",
        summary: "PyTorch's passes against what is computed twice or for nothing, once each",
        text: "inline,constant-propagation{escaping},dce{alias=false},cse,constant-pooling,peephole{trusting},cse,\
               dce{alias=false}",
    },
];

/// `(before, after, why)`: in every named pipeline of ours the first `before` comes before the first `after`.
pub const ORDER: &[(&str, &str, &str)] = &[
    ("inline", "cse", "what is computed on both sides of a call is only seen in one body"),
    ("inline", "constant-propagation", "arguments of calls are constants of their bodies"),
    ("inline", "lower-simple-tuples", "calls return tuples that are unpacked at once"),
    ("lower-simple-tuples", "cse", "equal values packed into different tuples look different"),
    ("cse", "dce", "merging leaves the unused side to be erased"),
    ("constant-propagation", "constant-loop-unrolling", "the number of turns must be a constant"),
    ("cse", "shape-analysis", "values of different types are not merged"),
    ("constant-propagation", "fuse", "numbers that are not constants keep an operator out of a group"),
    ("canonicalize-ops", "fuse", "only chunks of a known number go into a group"),
    ("remove-mutation", "fuse", "what writes to memory is no part of a kernel"),
    ("decompose-ops", "fuse", "what comes out of it is pointwise in part"),
    ("commute-sum-to-size", "fuse", "sums between operators keep them out of one group"),
    ("constant-loop-unrolling", "batch-mm", "products of several turns are summed"),
];
