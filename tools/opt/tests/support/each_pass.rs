//! Pipelines of one pass each, for tests of all passes.

use jitopt_core::pass::Pipeline;
use jitopt_passes::REGISTRY;

/// Skipped passes: one creates graphs for exporters, whose parameters and results are tensors that
/// were numbers. Others require files, see [`RULE`], or profiles, see [`SPECULATION`], or refuse
/// graphs without gradients, see [`GRADIENTS`].
const NOT_BY_NAME: &[&str] = &["erase-number-types", "insert-guards", "subgraph-rewrite", "differentiate"];

/// Guards are created from observed types.
const SPECULATION: &str = "profile-instrument,insert-guards,guard-elimination,insert-bailouts";

/// Subgraphs with their backward graphs.
const GRADIENTS: &str = "create-autodiff-subgraphs,differentiate{groups-only}";

/// A rule that replaces separate memory by an alias.
const RULE: &str = "subgraph-rewrite{pattern=RULES/twice_negated.ir replacement=RULES/itself.ir}";
const RULES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/passes/subgraph_rewrite/Inputs");

/// All passes that preserve the results of a graph, and `@default`.
pub fn pipelines() -> Vec<(String, Pipeline)> {
    let names = REGISTRY.passes.iter().map(|pass| pass.name).filter(|name| !NOT_BY_NAME.contains(name));
    names.chain([RULE, SPECULATION, GRADIENTS, "@default"]).map(parsed).collect()
}

/// A pipeline with its text.
pub fn parsed(text: &str) -> (String, Pipeline) {
    let mut pipeline = Pipeline::parse(&text.replace("RULES", RULES), &REGISTRY).expect("a pipeline");
    pipeline.read_files(&mut |path, _| std::fs::read(path)).expect("files of the tree");
    (text.to_owned(), pipeline)
}
