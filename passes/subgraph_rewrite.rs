//! Replaces each occurrence of one graph by another: rewrite rules given by the user.
//!
//! ```text
//! pattern                        replacement                         what it does
//! graph(%a):                     graph(%a):                          %1 : Tensor = aten::relu(%x)
//!   %m = aten::relu(%a)            %r = aten::relu(%a)               %2 : Tensor = aten::relu(%1)   =>   %2 : Tensor = aten::relu(%x)
//!   %r = aten::relu(%m)            return (%r)
//!   return (%r)
//! ```
//!
//! The user vouches that the two compute the same; `--validate` tests it. `analysis::matching`
//! proves that no node outside a match can observe the difference. As in PyTorch matches are found
//! once, before anything is replaced, and of two that overlap the first wins: three consecutive
//! rectifiers become two.
//!
//! PyTorch checks less: it moves the match to the definition of the last param, past writes and out
//! of branches, and ignores types in the pattern; it requires that constants of a match have no
//! other readers, which `{exclusive}` requires too. Linear in nodes times those of the pattern. Not
//! idempotent: a replacement may match again in another run.

use jitopt_core::analysis::matching::{Match, Rule};
use jitopt_core::ir::Graph;
use jitopt_core::pass::{GRAPH_FILE, PassContext, PassError, PassInfo, PassOption};
use jitopt_core::{graph_dump, graph_update};
use rustc_hash::FxHashMap;

/// The registry entry.
pub const PASS: PassInfo = PassInfo {
    name: "subgraph-rewrite",
    aliases: &["custom-pattern-based-rewrite-graph"],
    summary: "replace each occurrence of one graph by another, given as files",
    example: "%1 : Tensor = aten::relu(%x), %2 : Tensor = aten::relu(%1)  =>  %2 : Tensor = aten::relu(%x)",
    options: &[
        PassOption { name: "pattern", default: GRAPH_FILE, summary: "the graph to find" },
        PassOption { name: "replacement", default: GRAPH_FILE, summary: "the graph that replaces it" },
        PassOption {
            name: "exclusive",
            default: "false",
            summary: "require that constants of a match have no other readers, as in PyTorch",
        },
    ],
    required: false,
    reads_shapes: true,
    run,
    file: file!(),
};

fn run(graph: &mut Graph, cx: &mut PassContext<'_>) -> Result<(), PassError> {
    graph_dump!("Before rewriting subgraphs", graph);
    let (pattern, replacement) =
        (cx.graph_file("pattern", graph.release())?, cx.graph_file("replacement", graph.release())?);
    let mut rule = Rule::new(pattern, replacement).map_err(|unfit| {
        let (side, help) = match unfit.in_replacement {
            false => (
                "pattern",
                "a pattern is a sequence of nodes that ends in the returned values; `jitopt --list-passes` shows one",
            ),
            true => ("replacement", "a replacement has as many params and results as the pattern"),
        };
        PassError::misuse(format!("not a valid {side}: {}", unfit.message)).with_help(help)
    })?;
    rule.exclusive = cx.flag("exclusive")?;
    replace_all(graph, cx, "subgraphs-replaced", &rule, &|_, _| true);
    graph_dump!("After rewriting subgraphs", graph);
    Ok(())
}

/// Replaces all matches of a rule that are `wanted`; reports those that must stay.
pub(crate) fn replace_all(
    graph: &mut Graph,
    cx: &mut PassContext<'_>,
    name: &'static str,
    rule: &Rule,
    wanted: &dyn Fn(&Graph, &Match) -> bool,
) {
    let db = cx.alias(graph);
    let (matches, refused) = rule.find(graph, &db, &|found| wanted(graph, found));
    for (node, why) in refused {
        cx.missed(graph, name, node, || why.to_owned());
    }
    let mut renamed = FxHashMap::default();
    for found in matches {
        let anchor = found.nodes[0];
        cx.rewrite(graph, name, anchor, |graph| {
            graph_update!("Replacing {} nodes that end in {}", found.nodes.len(), graph.kind(anchor));
            rule.replace(graph, &found, &mut renamed);
        });
    }
}
