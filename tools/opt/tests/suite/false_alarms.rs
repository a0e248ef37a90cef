//! False alarms of validation: every reduction, at several shapes and on several samples, as a
//! kernel against the interpreter, judged as `jitopt validate` does. Nothing may differ; with an
//! injected fault the same graphs do.
//!
//! `JITOPT_ALARMS=20x8` sets the numbers of shapes and seeds, `JITOPT_ALARMS_OF=norm` selects the
//! reductions with that in their text; by default 4 shapes and 8 seeds, one of each style of
//! inputs. Random groups are judged by the same budget in `random_groups.rs`.

#![allow(clippy::print_stdout, reason = "figures are for those who ask with --nocapture")]

use crate::support::parallel;

use jitopt_core::interpreter::Environment;
use jitopt_core::interpreter::generator::{Generator, Style};
use jitopt_core::ir::Graph;
use jitopt_core::pass::{Pipeline, Session, run};
use jitopt_core::runtime::{self, CpuBackend};
use jitopt_core::text::{ParseOptions, parse};
use jitopt_judge::showing::Settings;
use jitopt_judge::verdict::{Policy, Verdict, judge};
use jitopt_passes::REGISTRY;
use std::rc::Rc;

/// Reductions of `%x`, with their constants: `D` the last dimension, `L` a list of it, `S` its
/// size, `N` none, `T` and `F` bools, `E` an epsilon, `M` a
/// momentum, `2` a number, `I` 1.
const REDUCTIONS: &[(&str, usize)] = &[
    ("sum(x, L, F, N)", 1),
    ("mean(x, L, T, N)", 1),
    ("var(x, L, T, F)", 1),
    ("var(x, L, F, T)", 1),
    ("std(x, L, T, F)", 1),
    ("var_mean(x, L, T, F)", 2),
    ("std_mean(x, L, F, F)", 2),
    ("softmax(x, D, N)", 1),
    ("log_softmax(x, D, N)", 1),
    ("layer_norm(x, S, N, N, E, F)", 1),
    ("native_layer_norm(x, S, N, N, E)", 3),
    ("group_norm(x, I, N, N, E, F)", 1),
    ("batch_norm(x, N, N, N, N, T, M, E, F)", 1),
    ("native_batch_norm(x, N, N, N, N, T, M, E)", 3),
    ("instance_norm(x, N, N, N, N, T, M, E, F)", 1),
    ("norm(x, 2, L, F)", 1),
    ("logsumexp(x, L, F)", 1),
    ("prod(x, D, F, N)", 1),
    ("amax(x, L, F)", 1),
    ("amin(x, L, F)", 1),
    ("argmax(x, D, F)", 1),
    ("argmin(x, D, F)", 1),
    ("max(x, D, F)", 2),
    ("aminmax(x, D, F)", 2),
    ("cumsum(x, D, N)", 1),
    ("cumprod(x, D, N)", 1),
];

/// Operators before and after a reduction.
const AROUND: &[(&str, &str)] = &[("neg", "relu"), ("tanh", "neg"), ("exp", "tanh")];

/// Odd and even sizes, tails of vectors, rows of one element, long rows, and empty ones.
const SHAPES: &[&[i64]] = &[
    &[64, 128],
    &[8, 16, 14, 14],
    &[3, 5, 33],
    &[4, 13, 1],
    &[2, 4, 1000],
    &[1, 1, 7],
    &[17, 31],
    &[2, 3, 5, 8],
    &[300, 2],
    &[1, 4096],
    &[5, 1],
    &[0, 3, 4],
    &[7, 16],
    &[2, 2, 2],
    &[16, 65],
    &[2, 768],
    &[3, 100, 9],
    &[128, 15],
    &[4, 8, 32],
    &[6, 17, 64],
];

fn text(reduction: &str, outputs: usize, around: (&str, &str), shape: &[i64]) -> String {
    let last = shape[shape.len() - 1];
    let (name, operands) = reduction.trim_end_matches(')').split_once('(').expect("operands");
    let operands: Vec<String> =
        operands.split(", ").map(|one| if one == "x" { "%a" } else { one }.to_owned()).collect();
    let operands: Vec<String> =
        operands.iter().map(|one| if one.starts_with('%') { one.clone() } else { format!("%{one}") }).collect();
    let results: Vec<String> = (0..outputs).map(|i| format!("%r{i}")).collect();
    let typed: Vec<String> = results.iter().map(|result| format!("{result} : Tensor")).collect();
    format!(
        "graph(%x : Tensor):\n  %D : int = prim::Constant[value=-1]()\n  %I : int = prim::Constant[value=1]()\n  \
         %2 : int = prim::Constant[value=2]()\n  %L : int[] = prim::Constant[value=[-1]]()\n  \
         %S : int[] = prim::Constant[value=[{last}]]()\n  %N : NoneType = prim::Constant()\n  \
         %T : bool = prim::Constant[value=1]()\n  %F : bool = prim::Constant[value=0]()\n  \
         %E : float = prim::Constant[value=1e-05]()\n  %M : float = prim::Constant[value=0.10000000000000001]()\n  \
         %a : Tensor = aten::{}(%x)\n  {} = aten::{name}({})\n  %z : Tensor = aten::{}(%r0)\n  return (%z, {})\n",
        around.0,
        typed.join(", "),
        operands.join(", "),
        around.1,
        results.join(", ")
    )
}

/// The outcomes of the samples of one graph.
#[derive(Default)]
struct Tally {
    same: usize,
    unjudged: usize,
    launched: u64,
    wrong: Vec<String>,
}

fn fused(text: &str) -> (Graph, Graph) {
    let graph = parse(text.as_bytes(), ParseOptions::default()).expect("a graph").graph;
    let mut after = graph.clone();
    let pipeline = Pipeline::parse("fuse{level=2}", &REGISTRY).expect("a pipeline");
    run(&mut after, &pipeline, &mut Session::default(), &mut []).expect("no pass fails");
    (graph, after)
}

fn inputs(graph: &Graph, shape: &[i64], seed: u64) -> Vec<jitopt_core::interpreter::IValue> {
    let (_, style) = Style::ALL[seed as usize % Style::ALL.len()];
    let shapes = [("x".to_owned(), shape.iter().copied().collect())].into_iter().collect();
    Generator { seed: seed + 1, style, shapes, hints: Default::default() }.inputs(graph, &Environment::default())
}

fn check(reduction: (&str, usize), around: (&str, &str), shape: &[i64], seeds: u64) -> Tally {
    let text = text(reduction.0, reduction.1, around, shape);
    let (before, after) = fused(&text);
    let cc = std::env::var("CC").ok();
    let backend = Rc::new(CpuBackend::new(runtime::Settings { cc, scalar: true, ..runtime::Settings::default() }));
    let settings = Settings { backend: Some(backend.clone()), ..Settings::default() };
    let mut tally = Tally::default();
    for seed in 0..seeds {
        match judge(&before, &after, &settings, &inputs(&before, shape, seed), Policy::default()) {
            Verdict::Same => tally.same += 1,
            Verdict::Unjudged(_) => tally.unjudged += 1,
            Verdict::Differs(lines) => {
                tally.wrong.push(format!("{} of {shape:?}, seed {seed}: {}\n{text}", reduction.0, lines.join("\n")));
            }
        }
    }
    tally.launched = backend.counts().launched;
    tally
}

#[test]
fn right_kernels_are_called_right() {
    let asked_for = std::env::var("JITOPT_ALARMS").unwrap_or("4x8".to_owned());
    let wanted = std::env::var("JITOPT_ALARMS_OF").unwrap_or_default();
    let (shapes, seeds) = asked_for.split_once('x').expect("such as 20x8");
    let (shapes, seeds): (usize, u64) = (shapes.parse().expect("shapes"), seeds.parse().expect("seeds"));
    let reductions = REDUCTIONS.iter().filter(|reduction| reduction.0.contains(&wanted)).enumerate();
    let works: Vec<_> = reductions
        .flat_map(|(i, &reduction)| {
            SHAPES.iter().take(shapes).enumerate().map(move |(j, &shape)| (reduction, i + j, shape))
        })
        .collect();
    let all = parallel::each(&works, |&(reduction, n, shape)| check(reduction, AROUND[n % AROUND.len()], shape, seeds));
    let count = |f: fn(&Tally) -> usize| all.iter().map(f).sum::<usize>();
    let launched: u64 = all.iter().map(|tally| tally.launched).sum();
    let (same, unjudged) = (count(|tally| tally.same), count(|tally| tally.unjudged));
    let wrong: Vec<&str> = all.iter().flat_map(|tally| &tally.wrong).map(String::as_str).collect();
    println!(
        "{} graphs: {same} the same, {unjudged} not judged, {} differ; {launched} launches",
        works.len(),
        wrong.len()
    );
    assert!(wrong.is_empty(), "{} false alarms\n{}", wrong.len(), wrong.join("\n"));
    assert!(!wanted.is_empty() || launched * 2 > same as u64, "kernels run in {launched} of {same} comparisons");
}

/// Results that are wrong by a factor near 1, or of other elements, are found on ordinary samples.
#[test]
fn wrong_reductions_are_called_wrong() {
    let pairs = [
        ("var(x, L, T, F)", "var(x, L, F, F)"),
        ("std(x, L, T, F)", "std(x, L, F, F)"),
        ("layer_norm(x, S, N, N, E, F)", "layer_norm(x, S, N, N, M, F)"),
        ("softmax(x, D, N)", "log_softmax(x, D, N)"),
        ("cumsum(x, D, N)", "cumprod(x, D, N)"),
        ("amax(x, L, F)", "amin(x, L, F)"),
    ];
    for (right, wrong) in pairs {
        for shape in [&[64i64, 128][..], &[3, 5, 33]] {
            let graph = |reduction: &str| {
                parse(text(reduction, 1, ("neg", "relu"), shape).as_bytes(), ParseOptions::default())
                    .expect("a graph")
                    .graph
            };
            let (a, b) = (graph(right), graph(wrong));
            let verdict = judge(&a, &b, &Settings::default(), &inputs(&a, shape, 0), Policy::default());
            assert!(verdict.is_wrong(), "{right} and {wrong} of {shape:?}");
        }
    }
}
