//! The fusion groups of recorded graphs, compiled, against the interpreter.
//!
//! Every recorded graph with groups that runs on generated inputs is validated with kernels as by
//! `jitopt validate --backend=cpu`: two samples, poisoned results, canaries around them.

#![allow(clippy::print_stdout, reason = "figures are for those who ask with --nocapture")]

use crate::support::parallel;
use crate::support::recorded;

use jitopt_core::interpreter::generator::{Generator, invent_random};
use jitopt_core::runtime::backend::Counts;
use jitopt_core::runtime::{CpuBackend, Settings};
use jitopt_core::tensor::Precision;
use jitopt_core::text::{ParseOptions, parse};
use jitopt_core::types::era::Era;
use jitopt_core::types::release::Release;
use jitopt_judge::sharing::Copier;
use jitopt_judge::showing::Settings as JudgeSettings;
use jitopt_judge::verdict::{Policy, Verdict, judge};
use std::path::Path;
use std::rc::Rc;

/// The result of a graph.
#[derive(Default)]
struct Outcome {
    wrong: Option<String>,
    judged: usize,
    counts: Counts,
    remarks: Vec<String>,
}

const SAMPLES: u64 = 2;

/// Validates a graph; `None` if it has no groups, or contents that cannot be read.
fn check(path: &Path) -> Option<Outcome> {
    let text = std::fs::read(path).ok()?;
    let marker = b"prim::FusionGroup_";
    text.windows(marker.len()).find(|window| window == marker)?;
    // Printed values are compared to the last digit, which kernels may round otherwise.
    if text.windows(11).any(|window| window == b"prim::Print") {
        return None;
    }
    let name = path.to_string_lossy().into_owned();
    let old = ["/1.3.1/", "/1.4.0/"].iter().any(|version| name.contains(version));
    let era = Some(if old { Era::V1_3 } else { Era::V2 });
    let graph = parse(&text, ParseOptions { release: era.map(Release::of) }).ok()?.graph;
    let backend =
        Rc::new(CpuBackend::new(Settings { cc: std::env::var("CC").ok(), guarded: true, ..Settings::default() }));
    let mut settings = JudgeSettings {
        invent: Some(invent_random),
        invent_seed: 1,
        max_steps: Some(20_000),
        backend: Some(backend.clone()),
        ..JudgeSettings::default()
    };
    let policy = Policy { signed_zero: false, overflow_is_large: true, tolerance: None, sharing: true, explain: false };
    let mut outcome = Outcome::default();
    for seed in 1..=SAMPLES {
        let env = settings.environment(Precision::Typed, &mut Copier::default());
        let inputs = Generator::new(seed).inputs(&graph, &env);
        for (name, value) in env.bindings.borrow().iter() {
            settings.bindings.entry(name.clone()).or_insert_with(|| value.clone());
        }
        match judge(&graph, &graph, &settings, &inputs, policy) {
            Verdict::Same => outcome.judged += 1,
            Verdict::Unjudged(_) => {}
            Verdict::Differs(lines) => outcome.wrong = Some(format!("{name}: {}", lines.join("\n"))),
        }
    }
    outcome.counts = backend.counts();
    outcome.remarks = backend.remarks().into_iter().map(|remark| format!("{name}: {remark}")).collect();
    Some(outcome)
}

#[test]
fn recorded_groups_run_as_kernels() {
    let files = recorded::files();
    let all: Vec<Outcome> = parallel::each(&files, |path| check(path)).into_iter().flatten().collect();
    let sum = |f: fn(&Outcome) -> u64| all.iter().map(f).sum::<u64>();
    let judged = all.iter().filter(|outcome| outcome.judged > 0).count();
    let launching = all.iter().filter(|outcome| outcome.counts.launched > 0).count();
    println!(
        "{} graphs with groups, {judged} judged, {launching} with kernels; {} launches, {} unfused",
        all.len(),
        sum(|outcome| outcome.counts.launched),
        sum(|outcome| outcome.counts.fallen_back)
    );
    all.iter().flat_map(|outcome| &outcome.remarks).for_each(|remark| println!("{remark}"));
    let wrong: Vec<&str> = all.iter().filter_map(|outcome| outcome.wrong.as_deref()).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(launching * 10 >= judged * 9, "kernels run in {launching} of {judged} graphs");
}
