//! The passes: one file and one registry entry per pass.
//!
//! A file shows IR before and after its pass, then the registry entry, the function and its tests.
//! To add one, run `cargo xtask new-pass <name>`: it writes the file, adds the entry here and a lit
//! file.

mod group_building;
mod pipelines;

pub use pipelines::ORDER;

use jitopt_core::pass::{PassInfo, Registry};

/// Declares the modules and collects their registry entries.
macro_rules! passes {
    ($($file:ident,)*) => {
        $(pub mod $file;)*
        /// All passes, by file name.
        pub static PASSES: &[PassInfo] = &[$($file::PASS,)*];
    };
}

#[cfg(feature = "mutants")]
pub mod planted_rules;

passes! {
    batch_mm,
    canonicalize,
    canonicalize_ops,
    choose_layouts,
    common_subexpression_elimination,
    commute_sum_to_size,
    constant_loop_unrolling,
    constant_pooling,
    constant_propagation,
    convert_to_library_calls,
    convert_to_ssa,
    create_autodiff_subgraphs,
    dead_code_elimination,
    decompose_attention,
    decompose_ops,
    differentiate,
    eliminate_exceptions,
    erase_number_types,
    erase_shape_information,
    exit_transforms,
    fold_batch_norm,
    functionalize,
    fuse_addmm,
    fuse_linear,
    fuser,
    guard_elimination,
    hoist_loop_invariants,
    inline_autodiff_subgraphs,
    inline_fork_wait,
    inliner,
    insert_bailouts,
    insert_guards,
    loop_peeling,
    loop_unrolling,
    lower_gradof,
    lower_simple_tuples,
    lower_tuples,
    peephole,
    profile_instrument,
    recompute_captures,
    refine_captures,
    refine_integer_values,
    refine_tuple_types,
    remove_expands,
    remove_mutation,
    shape_analysis,
    specialize_autogradzero,
    subgraph_rewrite,
}

/// Everything that `--passes=` can name.
pub const REGISTRY: Registry = Registry { passes: PASSES, pipelines: pipelines::PIPELINES };

#[cfg(test)]
mod tests {
    use super::*;
    use jitopt_core::pass::{Pipeline, Step};
    use std::collections::BTreeSet;

    #[test]
    fn rows_are_sorted_and_names_are_used_once() {
        let stems: Vec<&str> = PASSES.iter().map(PassInfo::stem).collect();
        assert!(stems.is_sorted(), "{stems:?}");
        let mut seen = BTreeSet::new();
        for pass in PASSES {
            let names: BTreeSet<String> = pass.names().map(|name| name.replace('_', "-")).collect();
            assert!(names.into_iter().all(|name| seen.insert(name)), "a name of {} is taken", pass.name);
            assert!(
                !pass.summary.is_empty() && !pass.summary.ends_with('.') && !pass.example.is_empty(),
                "{}",
                pass.name
            );
        }
    }

    #[test]
    fn named_pipelines_are_pipelines_in_a_legal_order() {
        // PyTorch's own pipelines keep the order that PyTorch had.
        for named in pipelines::PIPELINES.iter().filter(|named| !named.name.starts_with("torch-")) {
            let pipeline =
                Pipeline::parse(named.text, &REGISTRY).unwrap_or_else(|e| panic!("{}", e.render(named.text)));
            for names in sequences(&pipeline) {
                for (before, after, why) in ORDER {
                    let at = |name| names.iter().position(|n| *n == name);
                    let legal = at(*before).zip(at(*after)).is_none_or(|(b, a)| b < a);
                    assert!(legal, "@{}: `{before}` comes before `{after}`: {why}", named.name);
                }
            }
        }
    }

    /// The passes that one graph goes through: the whole graph, and each forward or backward graph
    /// after the passes before it was split off.
    fn sequences(pipeline: &Pipeline) -> Vec<Vec<&'static str>> {
        let names = |pipeline: &Pipeline| pipeline.stages().iter().map(|stage| stage.pass.name).collect::<Vec<_>>();
        let (mut outer, mut all) = (Vec::new(), Vec::new());
        for step in &pipeline.steps {
            match step {
                Step::Inside(_, inner) => all.push(outer.iter().copied().chain(names(inner)).collect()),
                _ => outer.extend(names(&Pipeline { steps: vec![step.clone()] })),
            }
        }
        all.push(outer);
        all
    }
}
