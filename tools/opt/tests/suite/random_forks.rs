//! Bodies of forks on other threads compute what they compute where they stand, in random graphs.

use jitopt_core::runtime::{CpuBackend, Settings as Kernels};
use jitopt_core::symbol::prim;
use jitopt_core::text::{PrintOptions, print};
use jitopt_judge::smith::{Forged, Plan, forge};
use jitopt_judge::verdict::{Expected, Policy, Verdict, judge_against};
use std::rc::Rc;

const POLICY: Policy =
    Policy { signed_zero: true, overflow_is_large: false, tolerance: None, sharing: true, explain: false };

#[test]
fn forks_of_random_graphs_compute_the_same_on_other_threads() {
    let backend = Rc::new(CpuBackend::new(Kernels { threads: Some(4), always_threads: Some(4), ..Kernels::default() }));
    let mut judged = 0;
    for seed in 0..500 {
        let forged = forge(Plan { seed, nodes: 10 + seed as usize % 60, ..Plan::default() });
        let mut settings = forged.settings();
        let Forged { graph, inputs, .. } = forged;
        if !graph.all_nodes().any(|node| graph.kind(node) == prim::FORK) {
            continue;
        }
        let expected = Expected::of(&graph, &settings, &inputs);
        settings.backend = Some(backend.clone());
        // Each thread may be the first in one run, and the last in another.
        for _ in 0..3 {
            match judge_against(&graph, &expected, &graph, &settings, &inputs, POLICY) {
                Verdict::Same => judged += 1,
                Verdict::Unjudged(_) => {}
                Verdict::Differs(lines) => {
                    let text = String::from_utf8_lossy(&print(&graph, PrintOptions::default())).into_owned();
                    panic!("seed {seed}: {}\n{text}", lines.join("\n"));
                }
            }
        }
    }
    let forked = backend.counts().forked;
    assert!(judged > 80 && forked > 80, "{judged} runs were judged, {forked} bodies ran on other threads");
}
