//! Removes redundant guards, in four steps.
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
//! - `move`: each guard moves directly after the definition of the tested value, or to the start of
//!   the block when that is defined outside, unless the value is written to in between. Guards at
//!   the start of a branch on whether gradients are defined move out of it.
//! - `coalesce`: of neighbouring guards of a value one is left, with the stronger type.
//! - `dominated`: a guard is removed after an earlier one of the same type, for values that are
//!   never written to. From 1.5 on.
//! - `eliminate`: a guard directly after the operator that defines the value is removed when the
//!   operands determine the result's properties
//!   ([`settled`](jitopt_core::ops::guard_rules::settled)). Its type is then given to the value
//!   itself, so this is where a wrong profile could become a wrong type: where inference
//!   contradicts, the guard stays.
//!
//! PyTorch merges guards of different types too, and keeps the first type where they differ; here
//! such guards stay. Linear in nodes, five times at most, because guards leave one branch in each
//! round; a second run exchanges neighbours.

mod guard_moves;
mod needless_guards;
mod reshapings;

use jitopt_core::graph_dump;
use jitopt_core::ir::{Block, Graph, Node, Value};
use jitopt_core::pass::{PassContext, PassError, PassInfo, PassOption};
use jitopt_core::symbol::prim;
use jitopt_core::types::era::Era;
use rustc_hash::FxHashMap;

/// The registry entry.
pub const PASS: PassInfo = PassInfo {
    name: "guard-elimination",
    aliases: &["eliminate-redundant-guards"],
    summary: "remove redundant guards",
    example: "%2 : Float(3) = prim::Guard(%x), %a : Tensor = aten::neg(%2), %3 : Float(3) = prim::Guard(%a)  =>  %2 : Float(3) = prim::Guard(%x), %a : Float(3) = aten::neg(%2)",
    options: &[PassOption {
        name: "step",
        default: "all",
        summary: "one of move, coalesce, dominated, eliminate; all runs them in that order",
    }],
    required: false,
    reads_shapes: true,
    run,
    file: file!(),
};

type Step = fn(&mut Graph, &mut PassContext<'_>);

/// The steps in order, with the log message after each, and whether the versions up to 1.4 have it.
const STEPS: &[(&str, &str, bool, Step)] = &[
    ("move", "After moveGuardsToDefs", true, guard_moves::run),
    ("coalesce", "After coalesceGuards", true, coalesce),
    ("dominated", "After removeDominatedGuards", false, dominated),
    ("eliminate", "After eliminateRedundantGuards", true, needless_guards::run),
];

fn run(graph: &mut Graph, cx: &mut PassContext<'_>) -> Result<(), PassError> {
    let wanted: String = cx.option("step")?;
    if wanted != "all" && !STEPS.iter().any(|(name, ..)| *name == wanted) {
        let error = PassError::misuse(format!("`guard-elimination` has no step `{wanted}`"));
        return Err(error.with_help("use one of move, coalesce, dominated, eliminate, or all"));
    }
    for (name, title, old, step) in STEPS {
        // A step that is requested by name runs in any era.
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

/// Whether the type of one of two guards implies that of the other.
fn agree(graph: &Graph, first: Value, second: Value) -> bool {
    let (first, second) = (graph.ty(first), graph.ty(second));
    first.is_subtype_of(second) || second.is_subtype_of(first)
}

/// Replaces the result of a guard by `kept`.
fn replace(graph: &mut Graph, guard: Node, kept: Value) {
    let output = graph.output(guard, 0);
    graph.replace_all_uses(output, kept);
    graph.erase(guard);
}

/// Merges guards of one value within an uninterrupted sequence of guards and constants.
fn coalesce(graph: &mut Graph, cx: &mut PassContext<'_>) {
    for block in graph.all_blocks().collect::<Vec<_>>() {
        // The first guard of a value, and the sequence that it stands in.
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

/// Replaces one guard by another, with the stronger of their types: readers rely on either.
fn merge(graph: &mut Graph, guard: Node, kept: Value) {
    let tested = graph.ty(graph.output(guard, 0));
    if tested.is_subtype_of(graph.ty(kept)) {
        graph.set_type(kept, tested);
    }
    replace(graph, guard, kept);
}

/// Removes guards that come after one of the same type, for values that are never written to.
fn dominated(graph: &mut Graph, cx: &mut PassContext<'_>) {
    let db = cx.alias(graph);
    let mut before: FxHashMap<Value, Vec<Value>> = FxHashMap::default();
    let mut roots: FxHashMap<Value, Value> = FxHashMap::default();
    // Guards whose scope ends with the block in which they stand.
    let mut scopes: Vec<(Block, Option<Node>, Vec<Value>)> =
        vec![(graph.root(), graph.first(graph.root()), Vec::new())];
    while let Some((block, cursor, mut noted)) = scopes.pop() {
        let Some(node) = cursor else {
            for value in noted {
                before.get_mut(&value).expect("the value was recorded").pop();
            }
            continue;
        };
        let next = graph.next(node);
        let inner: Vec<Block> = graph.node_blocks(node).collect();
        if is_guard(graph, node) && !db.has_writers(graph.input(node, 0)) {
            // A guard's output and its operand are the same tensor.
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
