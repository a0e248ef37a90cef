//! Every pass preserves the results of random graphs.
//!
//! `JITOPT_SMITH=20000` sets the number of graphs, `JITOPT_SMITH=20000-40000` a range of seeds; the
//! default is 800 graphs.

use crate::support::each_pass;

use jitopt_core::interpreter::IValue;
use jitopt_core::ir::Graph;
use jitopt_core::pass::{Pipeline, Session, run};
use jitopt_core::text::{PrintOptions, print};
use jitopt_core::verify;
use jitopt_judge::bisecting::Suspect;
use jitopt_judge::reducing::{Case, Reducer};
use jitopt_judge::showing::Settings;
use jitopt_judge::smith::{Forged, Plan, forge};
use jitopt_judge::team::Seat;
use jitopt_judge::verdict::{Expected, Policy, Verdict, judge, judge_against};
use std::cell::Cell;

const POLICY: Policy =
    Policy { signed_zero: true, overflow_is_large: false, tolerance: None, sharing: true, explain: false };

fn seeds() -> std::ops::Range<u64> {
    let text = std::env::var("JITOPT_SMITH").unwrap_or("800".to_owned());
    let (from, to) = text.split_once('-').unwrap_or(("0", &text));
    from.parse().expect("a seed")..to.parse().expect("a number")
}

/// The failure of one graph, if any, and the number of comparisons.
fn check(seed: u64, pipelines: &[(String, Pipeline)]) -> Result<usize, String> {
    let forged = forge(Plan { seed, nodes: 10 + seed as usize % 40, ..Plan::default() });
    let settings = forged.settings();
    let Forged { graph, inputs, callees } = forged;
    let expected = Expected::of(&graph, &settings, &inputs);
    let mut judged = 0;
    let raises = expected.outcome.results.is_err() || !expected.outcome.held.is_empty();
    for (name, pipeline) in pipelines {
        // It promises the results of runs that do not raise.
        if raises && name == "eliminate-exceptions" {
            continue;
        }
        let mut after = graph.clone();
        let text = |graph| String::from_utf8_lossy(&print(graph, PrintOptions::default())).into_owned();
        let wrong = |why: &str, after| format!("seed {seed}, {name}: {why}\n{}\nbecame\n{}", text(&graph), text(after));
        let mut session = Session { callees: callees.clone(), ..Session::default() };
        if let Err(error) = run(&mut after, pipeline, &mut session, &mut []) {
            return Err(wrong(&error.to_string(), &after));
        }
        if verify::verify(&after).has_errors() {
            return Err(wrong("it is broken", &after));
        }
        match judge_against(&graph, &expected, &after, &settings, &inputs, POLICY) {
            Verdict::Same => judged += 1,
            Verdict::Unjudged(_) => {}
            Verdict::Differs(lines) => {
                let why = lines.join("\n");
                let small = smallest(Case { graph: graph.clone(), inputs: inputs.clone() }, pipeline, &settings);
                return Err(wrong(&format!("{why}\n{small}\nwhich was"), &after));
            }
        }
    }
    Ok(judged)
}

/// A reduced failing graph, its transformed form, and the rewrites at fault.
fn smallest(case: Case, pipeline: &Pipeline, settings: &Settings) -> String {
    let wrong = |graph: &Graph, after: &Graph, inputs: &[IValue]| {
        judge(graph, after, settings, inputs, POLICY).is_wrong().then(|| "differs".to_owned())
    };
    let transformed = |graph: &Graph| {
        let mut after = graph.clone();
        let mut session = Session { callees: (*settings.callees).clone(), ..Session::default() };
        run(&mut after, pipeline, &mut session, &mut []).ok().map(|()| after)
    };
    let signature = |case: &Case| {
        let after = transformed(&case.graph).filter(|_| !verify::verify(&case.graph).has_errors());
        after.and_then(|after| wrong(&case.graph, &after, &case.inputs))
    };
    let mut reducer =
        Reducer { signature: &signature, settings, progress: &mut |_, _| {}, most: 5000, seat: Seat::alone() };
    let Some((Case { graph, inputs }, _)) = reducer.reduce(case) else { return String::new() };
    let check = |after: &Graph| wrong(&graph, after, &inputs);
    let culprit = Suspect {
        timeout: None,
        late: Cell::default(),
        graph: &graph,
        pipeline,
        callees: &settings.callees,
        profile: None,
        check: &check,
        seat: Seat::alone(),
        progress: &|_, _| {},
    }
    .find();
    let text = |graph: &Graph| String::from_utf8_lossy(&print(graph, PrintOptions::default())).into_owned();
    let after = transformed(&graph).map_or(String::new(), |after| text(&after));
    format!("in small:\n{}became\n{after}{culprit:#?}", text(&graph))
}

#[test]
fn passes_preserve_results_of_random_graphs() {
    let mut parsed = each_pass::pipelines();
    let more = ["fixpoint(cse,constant-pooling,dce)", "peephole{more refine-list-len}", "decompose-ops{norms}"];
    parsed.extend(more.map(each_pass::parsed));
    let (mut judged, mut wrong) = (0, Vec::new());
    for seed in seeds() {
        match check(seed, &parsed) {
            Ok(n) => judged += n,
            Err(why) => wrong.push(why),
        }
    }
    let heads: Vec<&str> = wrong.iter().filter_map(|why| why.lines().next()).take(40).collect();
    let shown = wrong[..wrong.len().min(3)].join("\n\n");
    assert!(wrong.is_empty(), "{} graphs are wrong\n{}\n\n{shown}", wrong.len(), heads.join("\n"));
    let possible = seeds().count() * parsed.len();
    assert!(judged * 2 > possible, "only {judged} of {possible} runs were compared");
}
