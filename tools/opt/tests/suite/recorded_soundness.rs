//! Every pass preserves the results of recorded graphs.
//!
//! Each executable graph gets inputs: the recorded ones, if any, then generated ones in several
//! styles. Contents that the text omits are generated too. Each pass runs on it alone, and the
//! behaviour after it is compared. Reads `testdata/corpus`, and the directory `JITOPT_CORPUS` if it
//! is set; `JITOPT_SOUND` selects graphs by a part of their path.

#![allow(clippy::print_stdout, reason = "a test tells its figures")]

use crate::support::parallel;
use crate::support::recorded;

use jitopt_core::interpreter::description::{self, Description, Source, fitted};
use jitopt_core::interpreter::effort::Effort;
use jitopt_core::interpreter::files::read_safetensors;
use jitopt_core::interpreter::generator::{Generator, Style, invent_random};
use jitopt_core::interpreter::{IValue, Reason, Release, Stop};
use jitopt_core::ir::Graph;
use jitopt_core::pass::{Pipeline, RunError, Session, run};
use jitopt_core::tensor::Precision;
use jitopt_core::text::{ParseOptions, PrintOptions, parse, print};
use jitopt_core::types::era::Era;
use jitopt_judge::rewrites::{Reference, Sample};
use jitopt_judge::sharing::Copier;
use jitopt_judge::showing::{Outcome, Settings};
use jitopt_judge::verdict::Policy;
use jitopt_passes::REGISTRY;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::rc::Rc;

/// One erases every `aten::expand`, even if its result is observable: correct only for equal sizes,
/// as its documentation states. The second creates graphs for exporters, whose parameters and
/// results are tensors that were numbers. The last is controlled by files.
const NOT_ALWAYS_RIGHT: &[&str] = &["remove-expands", "erase-number-types", "subgraph-rewrite"];

/// The text of a zero-dimensional tensor, `Double() = prim::Constant[value={1}]`, relies for its
/// element type on the type that this pass erases, as PyTorch's does. PyTorch keeps it in memory.
const ERASING: &str = "erase-shape-information";

/// Number of elements in the inputs of one sample, weights included, above which a graph is
/// compared on one sample only, and only with the whole corpus: a run takes seconds.
const LARGE: usize = 4 << 20;

/// Number of elements that one run reads and writes, above which a graph is compared after
/// `@default` only.
const LONG: u64 = 1_000_000_000;

/// Maximum number of nodes of a run: a loop that generated numbers prolong indefinitely does not
/// count as executable.
const MOST_STEPS: u64 = 200_000;

/// The result of a graph.
enum Fate {
    /// How many comparisons were made, how many could not be, how often a pass would not work on
    /// it, and what is wrong.
    Ran { compared: usize, not: usize, declined: usize, wrong: Vec<String> },
    /// Why it does not run, in words that others may share.
    CannotRun(String),
}

fn is_old(path: &str) -> bool {
    path.contains("/1.3.1/") || path.contains("/1.4.0/")
}

fn graph(path: &Path) -> Option<Graph> {
    let era = Some(if is_old(&path.to_string_lossy()) { Era::V1_3 } else { Era::V2 });
    parse(&std::fs::read(path).ok()?, ParseOptions { release: era.map(Release::of) }).ok().map(|parsed| parsed.graph)
}

/// The recorded callees of a graph, by name.
fn callees(path: &str) -> BTreeMap<String, Graph> {
    let Some(stem) = path.strip_suffix(".in.ir").map(|stem| format!("{stem}.callee.")) else { return BTreeMap::new() };
    let folder = std::fs::read_dir(Path::new(path).parent().unwrap_or(Path::new(""))).into_iter().flatten().flatten();
    let named = |file: std::path::PathBuf| {
        let name = file.to_str()?.strip_prefix(&stem)?.strip_suffix(".ir")?.to_owned();
        Some((name, graph(&file)?))
    };
    folder.filter_map(|entry| named(entry.path())).collect()
}

fn settings(path: &str) -> Settings {
    let mut settings = Settings { callees: Rc::new(callees(path)), ..Settings::default() };
    settings.release = Some(if is_old(path) { Release(1, 3) } else { Release(2, 15) });
    settings.invent = Some(invent_random);
    settings.invent_seed = 1;
    settings.max_steps = Some(MOST_STEPS);
    settings
}

/// The inputs of PyTorch's run.
fn recorded_inputs(path: &str, graph: &Graph) -> Option<(Description, Vec<IValue>)> {
    let stem = path.strip_suffix(".ir").filter(|stem| stem.contains("/numerics/") && !stem.contains(".diff."))?;
    let description = description::parse(&std::fs::read(format!("{stem}.json")).ok()?).ok()?;
    let tensors = read_safetensors(&std::fs::read(format!("{stem}.inputs.safetensors")).ok()?).ok()?;
    let source = Source::new(&tensors, Precision::Typed);
    let types = graph.params(graph.root()).map(|param| graph.ty(param));
    let value = |(i, (input, ty)): (usize, (&description::Input, _))| {
        fitted(source.value(&input.value, &format!("in{i}")).ok()?, ty).ok()
    };
    let inputs: Option<Vec<IValue>> = description.inputs.iter().zip(types).enumerate().map(value).collect();
    inputs.map(|inputs| (description, inputs))
}

/// The samples. Contents generated for the first sample are kept for all.
fn samples(path: &str, graph: &Graph, settings: &mut Settings, rounds: usize) -> Vec<Sample> {
    let recorded = recorded_inputs(path, graph);
    let mut hints = BTreeMap::new();
    let mut samples = Vec::new();
    if let Some((description, inputs)) = recorded {
        hints.extend(description.inputs.into_iter().map(|input| input.value).enumerate());
        samples.push(Sample { name: "the recorded inputs".to_owned(), inputs });
    }
    for (seed, &(name, style)) in (1..).zip(Style::ALL.iter().take(rounds)) {
        let env = settings.environment(Precision::Typed, &mut Copier::default());
        let generator = Generator { seed, style, hints: hints.clone(), ..Generator::default() };
        let inputs = generator.inputs(graph, &env);
        for (name, value) in env.bindings.borrow().iter() {
            settings.bindings.entry(name.clone()).or_insert_with(|| value.clone());
        }
        samples.push(Sample { name: name.to_owned(), inputs });
        if is_large(&samples, settings) {
            break;
        }
    }
    samples
}

fn is_large(samples: &[Sample], settings: &Settings) -> bool {
    let mut numbers = 0;
    let values = samples.first().into_iter().flat_map(|sample| &sample.inputs).chain(settings.bindings.values());
    values.for_each(|value| value.each_tensor(&mut |tensor| numbers += tensor.numel()));
    numbers > LARGE
}

/// The cost of a run.
fn effort<'a>(graph: &Graph, settings: &Settings, mut samples: impl Iterator<Item = (&'a Sample, &'a Outcome)>) -> u64 {
    let mut effort = Effort::default();
    let Some((sample, _)) = samples.next() else { return 0 };
    Outcome::watched(graph, settings, &sample.inputs, Precision::Typed, Some(&mut effort));
    effort.0
}

/// A reason without details of the particular graph.
fn class(stop: &Stop) -> String {
    let text = match &stop.reason {
        Reason::Raised(exception) => format!("raised {}: {}", exception.class, exception.message),
        Reason::Unsupported(what) => format!("unsupported: {what}"),
        Reason::Unbound(what) => format!("unbound: {what}"),
        Reason::Budget(what) => format!("budget: {what}"),
        Reason::Watcher(what) => what.clone(),
    };
    let text = text.lines().next().unwrap_or_default();
    text.chars().map(|c| if c.is_ascii_digit() { '#' } else { c }).take(80).collect()
}

fn check(path: &str, pipelines: &[(String, Pipeline)], rounds: usize) -> Fate {
    let Some(before) = graph(Path::new(path)) else { return Fate::CannotRun("it is not read".to_owned()) };
    let mut settings = settings(path);
    let samples = samples(path, &before, &mut settings, rounds);
    let large = is_large(&samples, &settings);
    if large && !is_whole() {
        return Fate::CannotRun("it is large: not run here".to_owned());
    }
    let policy = Policy { signed_zero: true, ..Policy::default() };
    let reference = Reference::new(&before, settings.clone(), policy, samples);
    let ended = |stop: &Stop| matches!(stop.reason, Reason::Raised(_));
    let stops: Vec<&Stop> = reference.samples().filter_map(|(_, outcome)| outcome.results.as_ref().err()).collect();
    if stops.len() == reference.samples().count() {
        let worst = stops.iter().find(|stop| !ended(stop)).or(stops.first());
        return Fate::CannotRun(worst.map_or("no samples".to_owned(), |stop| class(stop)));
    }
    let shown = |graph: &Graph| print(graph, PrintOptions::default());
    let (mut compared, mut not, mut declined, mut wrong) = (0, 0, 0, Vec::new());
    let mut found = BTreeMap::from([(shown(&before), Ok(reference.samples().count()))]);
    if large {
        println!("{path}: effort {} M", effort(&before, &settings, reference.samples()) / 1_000_000);
    }
    let long = large && effort(&before, &settings, reference.samples()) > LONG;
    let is_judged = |name: &str| (!long || name == "@default") && !(name == ERASING && has_bare_number(&before));
    for (name, pipeline) in pipelines.iter().filter(|(name, _)| is_judged(name)) {
        let mut after = before.clone();
        let mut session = Session { callees: (*settings.callees).clone(), ..Session::default() };
        match run(&mut after, pipeline, &mut session, &mut []) {
            Ok(_) => {}
            Err(RunError::Pass { .. }) => {
                declined += 1;
                continue;
            }
            Err(error) => {
                wrong.push(format!("{path}: {name}: {error}"));
                continue;
            }
        }
        // Equal texts compute the same, whichever pass wrote them.
        let found = found.entry(shown(&after)).or_insert_with(|| reference.check(&after).map(|tally| tally.same));
        match found {
            Ok(0) => not += 1,
            Ok(_) => compared += 1,
            Err(finding) => wrong.push(format!("{path}: {name} is wrong\n{finding}")),
        }
    }
    Fate::Ran { compared, not, declined, wrong }
}

fn is_whole() -> bool {
    std::env::var_os("JITOPT_CORPUS").is_some()
}

/// Whether it has a zero-dimensional tensor constant.
fn has_bare_number(graph: &Graph) -> bool {
    String::from_utf8_lossy(&print(graph, PrintOptions::default())).contains("[value={")
}

fn pipelines() -> Vec<(String, Pipeline)> {
    let names = REGISTRY.passes.iter().map(|pass| pass.name).filter(|name| !NOT_ALWAYS_RIGHT.contains(name));
    let names = names.chain(["@default"]).map(str::to_owned);
    names.map(|name| (name.clone(), Pipeline::parse(&name, &REGISTRY).expect("a pipeline"))).collect()
}

/// The distinct graphs. Those with variables and exits cannot run before `convert-to-ssa` and
/// `exit-transforms`, whose results are among the graphs.
fn paths() -> Vec<String> {
    let wanted = std::env::var("JITOPT_SOUND").unwrap_or_default();
    let judged = |path: &str| {
        let of_pass = !path.contains("/passes/") || path.ends_with(".in.ir");
        let can_run = ![".emitted.ir", ".ssa.ir"].iter().any(|end| path.ends_with(end));
        path.contains(&wanted) && of_pass && can_run && !path.contains(".callee.")
    };
    let all = recorded::files().into_iter().map(|path| path.to_string_lossy().into_owned());
    let mut seen = std::collections::BTreeSet::new();
    all.filter(|path| judged(path) && seen.insert((is_old(path), std::fs::read(path).unwrap_or_default()))).collect()
}

#[test]
fn passes_preserve_results_of_recorded_graphs() {
    let (paths, pipelines) = (paths(), pipelines());
    let rounds = if is_whole() { Style::ALL.len() } else { 2 };
    let fates = parallel::each(&paths, |path| {
        let began = std::time::Instant::now();
        let fate = catch_unwind(AssertUnwindSafe(|| check(path, &pipelines, rounds)));
        let took = began.elapsed().as_secs();
        if took > 3 {
            println!("{path} takes {took} s");
        }
        fate.unwrap_or_else(|_| {
            let wrong = vec![format!("{path}: a panic")];
            Fate::Ran { compared: 0, not: 0, declined: 0, wrong }
        })
    });
    let (mut ran, mut compared, mut not, mut declined, mut wrong) = (0, 0, 0, 0, Vec::new());
    let mut classes: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for (path, fate) in paths.iter().zip(fates) {
        match fate {
            Fate::CannotRun(why) => classes.entry(why).or_default().push(path),
            Fate::Ran { compared: a, not: b, declined: c, wrong: those } => {
                (ran, compared, not, declined) = (ran + 1, compared + a, not + b, declined + c);
                wrong.extend(those);
            }
        }
    }
    let mut sorted: Vec<_> = classes.iter().collect();
    sorted.sort_by_key(|(_, files)| std::cmp::Reverse(files.len()));
    let lines: String =
        sorted.iter().map(|(why, files)| format!("{:5}  {why}  ({})\n", files.len(), files[0])).collect();
    println!(
        "{ran} of {} graphs ran; {compared} comparisons, {not} could not be made, {declined} times a pass would not work on a graph; \
         those that did not run:\n{lines}",
        paths.len()
    );
    assert!(wrong.is_empty(), "{} are wrong\n{}", wrong.len(), wrong[..wrong.len().min(40)].join("\n\n"));
    assert!(ran * 10 >= paths.len() * 9, "only {ran} of {} graphs ran\n{lines}", paths.len());
}
