//! Recorded results of PyTorch, recomputed by kernels: `numerics/VERSION/CASE.*` of the recorded
//! graphs after `@default,fuse`, as PyTorch fuses, and after `@default,fuse{level=2}`.
//!
//! Results are within the recorded tolerances; kernels write to poisoned memory with canaries
//! around it. With level 2 at least a third of the cases must launch a kernel. `JITOPT_NUMERICS`
//! selects cases by a part of their path.

#![allow(clippy::print_stdout, reason = "figures are for those who ask with --nocapture")]

use crate::support::cases;
use crate::support::parallel;
use crate::support::recorded;

use jitopt_core::ir::Graph;
use jitopt_core::pass::{Pipeline, Session, run};
use jitopt_core::runtime::backend::Counts;
use jitopt_core::runtime::{CpuBackend, Settings};
use jitopt_passes::REGISTRY;

/// The result of a case.
struct Outcome {
    counts: Counts,
    remarks: Vec<String>,
    wrong: Option<String>,
}

fn check(path: &str, passes: &str) -> Outcome {
    let pipeline = Pipeline::parse(passes, &REGISTRY).expect("the pipeline is one");
    let change = |graph: &mut Graph| {
        run(graph, &pipeline, &mut Session::default(), &mut []).expect("no pass fails");
    };
    let stream = Some(passes.contains("level"));
    let settings =
        Settings { cc: std::env::var("CC").ok(), guarded: true, scalar: true, stream, ..Settings::default() };
    let backend = CpuBackend::new(settings);
    let found = cases::run_prepared(path, (&change, &backend));
    let short = path.rsplit("/numerics/").next().unwrap_or(path);
    let wrong = found.err().map(|failure| format!("{short} after {passes}: {}\n{}", failure.class, failure.text));
    Outcome { counts: backend.counts(), remarks: backend.remarks(), wrong }
}

fn check_all(passes: &str) -> (usize, usize) {
    let wanted = std::env::var("JITOPT_NUMERICS").unwrap_or_default();
    let paths = recorded::files().into_iter().map(|path| path.to_string_lossy().into_owned());
    let paths: Vec<String> = paths.filter(|path| path.contains("/numerics/") && path.contains(&wanted)).collect();
    let all = parallel::each(&paths, |path| check(path, passes));
    let launching = all.iter().filter(|outcome| outcome.counts.launched > 0).count();
    let launched: u64 = all.iter().map(|outcome| outcome.counts.launched).sum();
    let unfused: u64 = all.iter().map(|outcome| outcome.counts.fallen_back).sum();
    println!("{passes}: {} cases, {launching} with kernels; {launched} launches, {unfused} unfused", all.len());
    all.iter().flat_map(|outcome| &outcome.remarks).for_each(|remark| println!("  {remark}"));
    let wrong: Vec<&str> = all.iter().filter_map(|outcome| outcome.wrong.as_deref()).collect();
    assert!(wrong.is_empty(), "{} of {} cases are wrong\n{}", wrong.len(), all.len(), wrong.join("\n"));
    (launching, all.len())
}

#[test]
fn cases_are_right_after_fuse() {
    check_all("@default,fuse");
}

#[test]
fn cases_are_right_after_all_that_can_be_fused() {
    let (launching, all) = check_all("@default,fuse{level=2}");
    let asked_for_some = std::env::var("JITOPT_NUMERICS").is_ok();
    assert!(asked_for_some || launching * 3 >= all, "kernels run in {launching} of {all} cases");
}
