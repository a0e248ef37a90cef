//! Removes guards that say nothing new, in four steps.
//!
//! ```text
//! %1 : Float(2, 3) = prim::Guard(%x)               %1 : Float(2, 3) = prim::Guard(%x)
//! %a : Tensor = aten::tanh(%1)                     %a : Float(2, 3) = aten::tanh(%1)
//! %2 : Float(2, 3) = prim::Guard(%x)         =>    %b : Float(2, 3) = aten::mul(%1, %a)
//! %3 : Float(2, 3) = prim::Guard(%a)
//! %b : Tensor = aten::mul(%2, %3)
//! %4 : Float(2, 3) = prim::Guard(%b)
//! ```
//!
//! - `move`: each guard goes right behind the definition of what it tests, or to the start of the block when that stands outside, unless
//!   somebody writes to it in between. Guards at the head of a branch on whether gradients are defined leave it.
//! - `coalesce`: of neighbouring guards of a value one is left, which says what the stronger of them said.
//! - `dominated`: a guard is left away where one of the same type has come before, of a value that nobody writes to. From 1.5 on.
//! - `eliminate`: a guard right behind the operator that makes the value goes when what is known of operands settles what comes out
//!   ([`settled`](jitopt_core::ops::guard_rules::settled)). What it tested is then said of the value itself, so this is where a wrong profile could become a
//!   wrong type: where inference contradicts, the guard stays.
//!
//! PyTorch merges guards of different types too, and of what differs believes the first; here such guards stay. Linear in nodes, five times at most,
//! for guards leave one branch in each round; a second run turns neighbours around.

mod guard_moves;
mod needless_guards;
mod reshapings;

use jitopt_core::ir::{Block, Graph, Node, Value};
use jitopt_core::pass::{PassContext, PassError, PassInfo, PassOption};
use jitopt_core::symbol::prim;
use jitopt_core::types::era::Era;
use jitopt_core::{graph_dump, planted};
use rustc_hash::FxHashMap;

/// The texts that have sites of mutants.
#[cfg(feature = "mutants")]
pub const TEXTS: &[&str] =
    &[include_str!("guard_elimination/guard_moves.rs"), include_str!("guard_elimination/needless_guards.rs")];

/// The row.
pub const PASS: PassInfo = PassInfo {
    name: "guard-elimination",
    aliases: &["eliminate-redundant-guards"],
    summary: "remove guards that say nothing new",
    example: "%2 : Float(3) = prim::Guard(%x), %a : Tensor = aten::neg(%2), %3 : Float(3) = prim::Guard(%a)  =>  %2 : Float(3) = prim::Guard(%x), %a : Float(3) = aten::neg(%2)",
    options: &[PassOption {
        name: "step",
        default: "all",
        summary: "one of move, coalesce, dominated, eliminate; all in that order",
    }],
    required: false,
    reads_shapes: true,
    run,
    file: file!(),
};

type Step = fn(&mut Graph, &mut PassContext<'_>);

/// The steps in their order, with what is logged behind them, and whether the versions up to 1.4 have them.
const STEPS: &[(&str, &str, bool, Step)] = &[
    ("move", "After moveGuardsToDefs", true, guard_moves::run),
    ("coalesce", "After coalesceGuards", true, coalesce),
    ("dominated", "After removeDominatedGuards", false, dominated),
    ("eliminate", "After eliminateRedundantGuards", true, needless_guards::run),
];

fn run(graph: &mut Graph, cx: &mut PassContext<'_>) -> Result<(), PassError> {
    let wanted: String = cx.option("step")?;
    if wanted != "all" && !STEPS.iter().any(|(name, ..)| *name == wanted) {
        let error = PassError::misuse(format!("`{wanted}` is no step of it"));
        return Err(error.with_help("one of move, coalesce, dominated, eliminate, or all"));
    }
    for (name, title, old, step) in STEPS {
        // Asked for by name, a step runs in any era.
        if wanted == *name || wanted == "all" && (*old || graph.era == Era::V2) {
            step(graph, cx);
            graph_dump!(title, graph);
        }
    }
    Ok(())
}

fn is_guard(graph: &Graph, node: Node) -> bool {
    graph.kind(node) == prim::GUARD && graph.num_inputs(node) == 1 && graph.num_outputs(node) == 1
}

/// Whether one of two guards says all that the other says.
fn agree(graph: &Graph, first: Value, second: Value) -> bool {
    let (first, second) = (graph.ty(first), graph.ty(second));
    planted!(
        "guards.agree", first.is_subtype_of(second) || second.is_subtype_of(first),
        "always" => true,
    )
}

/// Puts `kept` in the place of what a guard says.
fn replace(graph: &mut Graph, guard: Node, kept: Value) {
    let output = graph.output(guard, 0);
    graph.replace_all_uses(output, kept);
    graph.erase(guard);
}

/// Merges guards of one value that stand in one run of guards and constants.
fn coalesce(graph: &mut Graph, cx: &mut PassContext<'_>) {
    for block in graph.all_blocks().collect::<Vec<_>>() {
        // What a value is guarded by, and in which run.
        let mut first: FxHashMap<Value, (u32, Value)> = FxHashMap::default();
        let mut run = 0;
        let mut cursor = graph.first(block);
        while let Some(node) = cursor {
            cursor = graph.next(node);
            if !is_guard(graph, node) {
                run += u32::from(graph.kind(node) != prim::CONSTANT);
                continue;
            }
            let (value, output) = (graph.input(node, 0), graph.output(node, 0));
            match first.get(&value).copied().filter(|(at, kept)| *at == run && agree(graph, *kept, output)) {
                Some((_, kept)) => {
                    cx.rewrite(graph, "guards-merged", node, |graph| merge(graph, node, kept));
                }
                None => {
                    first.insert(value, (run, output));
                }
            }
        }
    }
}

/// Puts one guard in the place of another, with the stronger of their types: readers of either rely on it.
fn merge(graph: &mut Graph, guard: Node, kept: Value) {
    let said = graph.ty(graph.output(guard, 0));
    if planted!("guards.stronger", said.is_subtype_of(graph.ty(kept)), "forgotten" => false) {
        graph.set_type(kept, said);
    }
    replace(graph, guard, kept);
}

/// Takes away guards that come after one of the same type, of values that nobody writes to.
fn dominated(graph: &mut Graph, cx: &mut PassContext<'_>) {
    let db = cx.alias(graph);
    let mut before: FxHashMap<Value, Vec<Value>> = FxHashMap::default();
    let mut roots: FxHashMap<Value, Value> = FxHashMap::default();
    // Guards that end with the block in which they stand.
    let mut scopes: Vec<(Block, Option<Node>, Vec<Value>)> =
        vec![(graph.root(), graph.first(graph.root()), Vec::new())];
    while let Some((block, cursor, mut noted)) = scopes.pop() {
        let Some(node) = cursor else {
            for value in noted {
                before.get_mut(&value).expect("it was noted").pop();
            }
            continue;
        };
        let next = graph.next(node);
        let inner: Vec<Block> = graph.node_blocks(node).collect();
        if is_guard(graph, node)
            && !planted!("guards.written", db.has_writers(graph.input(node, 0)), "ignored" => false)
        {
            // What a guard makes is what it tests.
            let (tested, output) = (graph.input(node, 0), graph.output(node, 0));
            let value = roots.get(&tested).copied().unwrap_or(tested);
            roots.insert(output, value);
            let known = before.entry(value).or_default();
            let same = known.iter().copied().find(|&other| graph.ty(other) == graph.ty(output));
            let done =
                same.and_then(|kept| cx.rewrite(graph, "guards-dominated", node, |graph| replace(graph, node, kept)));
            if done.is_none() {
                known.push(output);
                noted.push(value);
            }
        }
        scopes.push((block, next, noted));
        scopes.extend(inner.into_iter().rev().map(|block| (block, graph.first(block), Vec::new())));
    }
}
