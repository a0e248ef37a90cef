//! Puts one graph in the place of another, wherever the other is found: rules that a user brings.
//!
//! ```text
//! pattern                        replacement                         what it does
//! graph(%a):                     graph(%a):                          %1 : Tensor = aten::relu(%x)
//!   %m = aten::relu(%a)            %r = aten::relu(%a)               %2 : Tensor = aten::relu(%1)   =>   %2 : Tensor = aten::relu(%x)
//!   %r = aten::relu(%m)            return (%r)
//!   return (%r)
//! ```
//!
//! That the two compute the same is the word of whoever brings them; `--validate` puts it to the test. That nothing around a
//! match can tell is found out by `analysis::matching`. As in PyTorch matches are looked for once, before anything is replaced,
//! and of two that overlap the first wins: three rectifiers in a row become two.
//!
//! PyTorch looks at fewer things: it moves what it found to where the last param is made, past writes and out of branches, ignores types
//! that the pattern writes, and wants constants of a match to have no other readers: `{exclusive}` wants that too. Linear
//! in nodes times those of the pattern. Not idempotent: what a replacement makes may be matched the next time.

use jitopt_core::analysis::matching::{Match, Rule};
use jitopt_core::ir::Graph;
use jitopt_core::pass::{GRAPH_FILE, PassContext, PassError, PassInfo, PassOption};
use jitopt_core::{graph_dump, graph_update};
use rustc_hash::FxHashMap;

/// The row.
pub const PASS: PassInfo = PassInfo {
    name: "subgraph-rewrite",
    aliases: &["custom-pattern-based-rewrite-graph"],
    summary: "put one graph in the place of another, given as files",
    example: "%1 : Tensor = aten::relu(%x), %2 : Tensor = aten::relu(%1)  =>  %2 : Tensor = aten::relu(%x)",
    options: &[
        PassOption { name: "pattern", default: GRAPH_FILE, summary: "what is looked for" },
        PassOption { name: "replacement", default: GRAPH_FILE, summary: "what takes its place" },
        PassOption {
            name: "exclusive",
            default: "false",
            summary: "constants of a match have no other readers, as in PyTorch",
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
                "a pattern is nodes in a row that lead to what is returned, `jitopt --list-passes` shows one",
            ),
            true => ("replacement", "a replacement takes and returns as much as the pattern"),
        };
        PassError::misuse(format!("this is no {side}: {}", unfit.message)).with_help(help)
    })?;
    rule.exclusive = cx.flag("exclusive")?;
    replace_all(graph, cx, "subgraphs-replaced", &rule, &|_, _| true);
    graph_dump!("After rewriting subgraphs", graph);
    Ok(())
}

/// Replaces all matches of a rule that are `wanted`; tells of those that must stay.
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
