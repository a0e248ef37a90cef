//! Passes depend neither on the order of nodes nor on how often they run: for every legal order of
//! a graph, the result of a pass computes the same, and a second run changes nothing, or is listed
//! with a reason.
//!
//! `JITOPT_SMITH=20000` sets the number of random graphs; recorded graphs are those in the
//! repository, and those in the directory `JITOPT_CORPUS`.

#![allow(clippy::print_stdout, reason = "a test tells its figures")]

use crate::support::each_pass;
use crate::support::recorded;

use jitopt_core::analysis::fingerprints::{Sight, equivalent};
use jitopt_core::interpreter::IValue;
use jitopt_core::interpreter::generator::{Generator, Style};
use jitopt_core::ir::Graph;
use jitopt_core::pass::{Pipeline, Session, run};
use jitopt_core::tensor::Precision;
use jitopt_core::text::{ParseOptions, PrintOptions, parse, print};
use jitopt_core::types::era::Era;
use jitopt_core::types::release::Release;
use jitopt_core::verify;
use jitopt_judge::sharing::Copier;
use jitopt_judge::showing::{Outcome, Settings};
use jitopt_judge::shuffling::shuffle;
use jitopt_judge::smith::{Plan, forge};
use jitopt_judge::verdict::{Policy, Verdict, judge};
use std::collections::BTreeSet;

const POLICY: Policy =
    Policy { signed_zero: true, overflow_is_large: false, tolerance: None, sharing: true, explain: true };

/// Passes whose second run makes further changes, and why.
const GOES_ON: &[(&str, &str)] = &[
    ("@default", "constant pooling and folding follow the pass that lowers tuples, which needs constant indices"),
    ("batch-mm", "its final dead code elimination may remove a write to a factor, after which more products merge"),
    ("constant-propagation", "nodes that it makes dead may have been writers, without which more is constant"),
    ("create-autodiff-subgraphs", "nodes that it removes from a group may join another one, as in PyTorch"),
    ("dce", "nodes used only by results or states that it removes are removed by the next run, as in PyTorch"),
    ("fuse", "its final CSE merges equal nodes, after which further pairs have no other users, as in PyTorch"),
    ("loop-peeling", "the loops that it creates can be peeled again"),
    ("peephole", "nodes that it makes dead may have been writers, without which more rules apply"),
    ("loop-unrolling", "the remainder loop can be unrolled again"),
];

/// Passes whose second run changes one graph in a thousand.
const RARELY_GOES_ON: &[(&str, &str)] = &[
    (
        "canonicalize-ops",
        "its final dead code elimination may remove a write to a constant, which then becomes a number",
    ),
    ("create-autodiff-subgraphs,differentiate{groups-only}", "as create-autodiff-subgraphs"),
];

/// This pass also erases expands whose result is observable, as its documentation states.
const NOT_ALWAYS_RIGHT: &str = "remove-expands";

/// A graph with one sample to run it on.
struct Subject {
    name: String,
    graph: Graph,
    settings: Settings,
    inputs: Vec<IValue>,
}

fn random(seed: u64) -> Subject {
    let forged = forge(Plan { seed, nodes: 10 + seed as usize % 40, ..Plan::default() });
    let settings = forged.settings();
    Subject { name: format!("seed {seed}"), graph: forged.graph, settings, inputs: forged.inputs }
}

fn subjects() -> impl Iterator<Item = Subject> {
    let count = std::env::var("JITOPT_SMITH").ok().and_then(|text| text.parse().ok()).unwrap_or(200);
    (0..count).map(random).chain(recorded_subjects())
}

/// The recorded inputs of passes, each graph once, on generated inputs.
fn recorded_subjects() -> impl Iterator<Item = Subject> {
    let mut seen = BTreeSet::new();
    let files = recorded::files().into_iter().filter(|path| path.to_string_lossy().ends_with(".in.ir"));
    files.filter_map(move |path| {
        let text = std::fs::read(&path).ok()?;
        let name = path.to_string_lossy().into_owned();
        let era = Some(if name.contains("/1.3.1/") { Era::V1_3 } else { Era::V2 });
        let graph = parse(&text, ParseOptions { release: era.map(Release::of) }).ok()?.graph;
        if !seen.insert((era.map(|era| era as u8), text)) || graph.num_shown_nodes() > MOST_NODES {
            return None;
        }
        let settings = Settings { max_steps: Some(20_000), ..Settings::default() };
        let env = settings.environment(Precision::Typed, &mut Copier::default());
        let generator = Generator { seed: 1, style: Style::ALL[0].1, ..Generator::default() };
        let inputs = generator.inputs(&graph, &env);
        Some(Subject { name, graph, settings, inputs })
    })
}

/// Larger recorded graphs are models that take seconds to run.
const MOST_NODES: usize = 150;

impl Subject {
    fn raises(&self) -> bool {
        Outcome::of(&self.graph, &self.settings, &self.inputs, Precision::Typed).results.is_err()
    }

    fn after(&self, graph: &Graph, pipeline: &Pipeline) -> Option<Graph> {
        let mut after = graph.clone();
        let mut session = Session { callees: (*self.settings.callees).clone(), ..Session::default() };
        run(&mut after, pipeline, &mut session, &mut []).ok().map(|()| after)
    }
}

fn text(graph: &Graph) -> String {
    String::from_utf8_lossy(&print(graph, PrintOptions::default())).into_owned()
}

/// Why the reordered graph itself differs.
fn illegal(subject: &Subject, seed: u64) -> Option<String> {
    let mut shuffled = subject.graph.clone();
    shuffle(&mut shuffled, seed);
    let verdict = judge(&subject.graph, &shuffled, &subject.settings, &subject.inputs, POLICY);
    let broken = verify::verify(&shuffled).has_errors() && !verify::verify(&subject.graph).has_errors();
    let why = match verdict {
        Verdict::Differs(lines) => lines.join("\n"),
        _ if broken => "it is broken".to_owned(),
        _ => return None,
    };
    Some(format!("{}: no legal order: {why}\n{}\nof\n{}", subject.name, text(&shuffled), text(&subject.graph)))
}

/// Why the result of a pass on the reordered graph differs.
fn disorder(subject: &Subject, name: &str, pipeline: &Pipeline, seed: u64) -> Result<bool, String> {
    let mut shuffled = subject.graph.clone();
    shuffle(&mut shuffled, seed);
    let Some(after) = subject.after(&shuffled, pipeline) else { return Ok(false) };
    let reported =
        |why: &str| Err(format!("{}, {name}: {why}\n{}\nbecame\n{}", subject.name, text(&shuffled), text(&after)));
    if verify::verify(&after).has_errors() {
        return reported("it is broken");
    }
    match judge(&subject.graph, &after, &subject.settings, &subject.inputs, POLICY) {
        Verdict::Same => Ok(true),
        Verdict::Unjudged(_) => Ok(false),
        Verdict::Differs(lines) => reported(&lines.join("\n")),
    }
}

#[test]
fn any_legal_order_gives_the_same_results() {
    let mut pipelines = each_pass::pipelines();
    pipelines.retain(|(name, _)| name != NOT_ALWAYS_RIGHT);
    let (mut judged, mut possible, mut wrong) = (0, 0, Vec::new());
    for (subject, seed) in subjects().zip(0..) {
        // Of several nodes that raise, the order says which does.
        if subject.raises() {
            continue;
        }
        if let Some(why) = illegal(&subject, seed) {
            wrong.push(why);
            continue;
        }
        for (name, pipeline) in &pipelines {
            possible += 1;
            match disorder(&subject, name, pipeline, seed) {
                Ok(compared) => judged += usize::from(compared),
                Err(why) => wrong.push(why),
            }
        }
    }
    println!("{judged} of {possible} runs were compared");
    assert!(wrong.is_empty(), "{} are wrong\n{}", wrong.len(), wrong[..wrong.len().min(9)].join("\n\n"));
    assert!(judged * 3 > possible, "only {judged} of {possible} runs were compared");
}

/// Whether two graphs are equal after dead code elimination: `dce` does not remove nodes that it
/// made dead itself, as PyTorch's does not, and neither do passes that end with it.
fn is_same(subject: &Subject, a: &Graph, b: &Graph, settle: &Pipeline) -> bool {
    let same = |a: &Graph, b: &Graph| equivalent(a, b, Sight::EXACT);
    same(a, b) || subject.after(a, settle).zip(subject.after(b, settle)).is_some_and(|(a, b)| same(&a, &b))
}

#[test]
fn twice_is_once() {
    let pipelines = each_pass::pipelines();
    let (_, settle) = each_pass::parsed("fixpoint(dce)");
    let (mut went_on, mut wrong, mut changed) = (BTreeSet::new(), Vec::new(), 0);
    for subject in subjects() {
        for (name, pipeline) in &pipelines {
            let Some(once) = subject.after(&subject.graph, pipeline) else { continue };
            changed += usize::from(once.epoch() != subject.graph.epoch());
            let Some(twice) = subject.after(&once, pipeline) else { continue };
            if text(&once) == text(&twice) || name != "dce" && is_same(&subject, &once, &twice, &settle) {
                continue;
            }
            match GOES_ON.iter().chain(RARELY_GOES_ON).find(|(pass, _)| pass == name) {
                Some((pass, _)) => _ = went_on.insert(*pass),
                None => wrong.push(format!("{}, {name}\n{}\nbecame\n{}", subject.name, text(&once), text(&twice))),
            }
        }
    }
    let heads: BTreeSet<&str> = wrong.iter().filter_map(|why| why.lines().next()?.split(", ").nth(1)).collect();
    assert!(wrong.is_empty(), "{} went on: {heads:?}\n{}", wrong.len(), wrong[..wrong.len().min(9)].join("\n\n"));
    let idle: Vec<&str> = GOES_ON.iter().map(|(pass, _)| *pass).filter(|pass| !went_on.contains(pass)).collect();
    assert!(idle.is_empty(), "listed as going on, and do not: {idle:?}");
    assert!(changed > 1000, "only {changed} runs changed anything");
}
