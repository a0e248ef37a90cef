//! Named pipelines, and the order that passes want.

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
        summary: "what is safe and pays on every graph, with the passes there are",
        text: "inline,lower-simple-tuples,constant-pooling,fixpoint(cse,dce)",
    },
];

/// `(before, after, why)`: in every named pipeline the first `before` comes before the first `after`.
pub const ORDER: &[(&str, &str, &str)] = &[
    ("inline", "cse", "what is computed on both sides of a call is only seen in one body"),
    ("inline", "lower-simple-tuples", "calls return tuples that are unpacked at once"),
    ("lower-simple-tuples", "cse", "equal values packed into different tuples look different"),
    ("cse", "dce", "merging leaves the unused side to be erased"),
];
