//! Whether validation detects injected faults, whether bisection identifies them, and whether
//! reduction shrinks the failing graphs.
//!
//! `cargo xtask mutants` runs this in a copy of the tree with the mutants inserted; in the tree
//! itself only the wrong rules of `passes/planted_rules.rs` are there.
//!
//! Every mutant runs on random and recorded graphs until one of them shows it. `JITOPT_DETECTION`
//! selects mutants by parts of their names, separated by commas; `JITOPT_SMITH` sets the number of
//! random graphs; with `JITOPT_FIND_ONLY` nothing is bisected, with `JITOPT_LIST_ONLY` nothing
//! runs.

#![allow(clippy::print_stdout, reason = "a test tells its figures")]

#[path = "support/recorded.rs"]
mod recorded;
#[path = "support/subjects.rs"]
mod subjects;

use jitopt_core::mutants::{self, Mutant};
use jitopt_core::ops::{self, rules::Nondeterminism};
use jitopt_core::pass::{Pipeline, Session, run};
use jitopt_core::text::{ParseOptions, PrintOptions, parse, print};
use jitopt_core::verify;
use jitopt_judge::bisecting::{Culprit, Suspect};
use jitopt_judge::reducing::{Case, Reducer};
use jitopt_judge::smith::Plan;
use jitopt_judge::team::Seat;
use jitopt_judge::verdict::{Policy, Verdict, judge, judge_against};
use jitopt_passes::{REGISTRY, planted_rules};
use jitopt_tidy::{Tree, replacements};
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::{LazyLock, OnceLock};
use subjects::{Subject, Subjects, registry};

const POLICY: Policy =
    Policy { signed_zero: true, overflow_is_large: false, tolerance: None, sharing: true, explain: false };

/// The pipelines, in order, followed by every single pass. The planted rules are a pass of their
/// own.
const PIPELINES: &[&str] = &[
    "cse",
    "dce",
    "constant-pooling",
    "lower-simple-tuples",
    "lower-all-tuples",
    "inline",
    "inline-fork-wait",
    "remove-expands",
    "canonicalize",
    "erase-shape-information",
    "dce{alias=false}",
    "decompose-ops{norms}",
    "constant-pooling,cse",
    "erase-shape-information,cse,dce",
    "peephole{more refine-list-len}",
    "shape-analysis{precise}",
    "fuse{level=2}",
    "shape-analysis{precise},fuse-addmm",
    "inline,inline-fork-wait,constant-pooling,cse,dce",
    "@default",
];
const RULES: &str = "planted-rules";

/// Equivalence-preserving rules of two files each: for integers only, for certain constants, and
/// for memory without other writes.
const PATTERNS: &[(&str, &str)] = &[
    ("sum_less_summand", "first_of_two"),
    ("less_itself", "nothing"),
    ("doubled", "added_to_itself"),
    ("rectified_turned", "turned_rectified"),
    ("twice_rectified", "rectified"),
    ("twice_negated", "itself"),
    ("sum_with_negated_floats", "difference"),
];
const FILES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/passes/subgraph_rewrite/Inputs");

fn random_graphs() -> usize {
    std::env::var("JITOPT_SMITH").ok().and_then(|text| text.parse().ok()).unwrap_or(5000)
}

/// How a mutant was detected.
#[derive(Clone, Debug)]
struct Find {
    mutant: Mutant,
    /// Which subject, which pipeline, and what was wrong.
    by: Option<(usize, String, String, String)>,
}

/// The result of a pipeline on a subject without a mutant.
struct Baseline {
    text: Option<Vec<u8>>,
    reached: BTreeSet<&'static str>,
}

/// Searches for mutants; one per thread, because graphs are not shared between threads.
struct Search {
    subjects: Subjects,
    pipelines: Vec<(&'static str, Pipeline)>,
    baselines: Vec<Vec<Baseline>>,
}

fn parsed(text: &str) -> Pipeline {
    let mut pipeline = Pipeline::parse(text, registry()).expect("a pipeline");
    pipeline.read_files(&mut |path, _| std::fs::read(path)).expect("files of the tree");
    pipeline
}

/// The pipeline of the rules in files.
fn patterns() -> &'static str {
    static TEXT: OnceLock<String> = OnceLock::new();
    let stage =
        |(a, b): &(&str, &str)| format!("subgraph-rewrite{{pattern={FILES}/{a}.ir replacement={FILES}/{b}.ir}}");
    TEXT.get_or_init(|| PATTERNS.iter().map(stage).collect::<Vec<_>>().join(","))
}

/// Runs a pipeline with a mutant; returns the printed text and the graph.
fn transformed(
    subject: &Subject,
    pipeline: &Pipeline,
    mutant: Option<Mutant>,
) -> Result<jitopt_core::ir::Graph, String> {
    let mut graph = subject.graph.clone();
    let mut session = Session { callees: subject.callees.clone(), ..Session::default() };
    let ran = catch_unwind(AssertUnwindSafe(|| {
        mutants::with(mutant, || run(&mut graph, pipeline, &mut session, &mut [])).map_err(|error| error.to_string())
    }));
    match ran {
        Err(_) => Err("it panics".to_owned()),
        Ok(Err(error)) => Err(format!("error: {error}")),
        Ok(Ok(())) => Ok(graph),
    }
}

/// The fault of a transformed subject, if any.
fn wrong_with(subject: &Subject, graph: &jitopt_core::ir::Graph) -> Option<String> {
    if let Some(error) = verify::verify(graph).errors().next() {
        return Some(format!("verify: {}", error.message));
    }
    if warnings(graph) > warnings(&subject.graph) {
        return Some("verify: new warnings".to_owned());
    }
    let judged = catch_unwind(AssertUnwindSafe(|| {
        judge_against(&subject.graph, &subject.expected, graph, &subject.settings, &subject.inputs, POLICY)
    }));
    match judged {
        Err(_) => Some("it cannot be judged".to_owned()),
        Ok(Verdict::Differs(lines)) => Some(format!("differs: {}", lines.first().cloned().unwrap_or_default())),
        Ok(Verdict::Unjudged(stop)) if subject.expected.outcome.results.is_ok() => {
            Some(format!("it does not run any more: {stop}"))
        }
        Ok(_) => None,
    }
}

/// Whether a graph contains random operators.
fn draws(graph: &jitopt_core::ir::Graph) -> bool {
    graph.all_nodes().any(|node| {
        let kind = ops::operator(graph.era, graph.kind(node)).nondeterminism(None);
        kind > Nondeterminism::Undefined || graph.subgraph(node).is_some_and(draws)
    })
}

/// Results whose types differ from those of the operators: passes never create any.
fn warnings(graph: &jitopt_core::ir::Graph) -> usize {
    let report = verify::verify(graph);
    report.findings.iter().filter(|finding| finding.message.contains("returns `")).count()
}

impl Search {
    fn new() -> Search {
        let wanted = |name: &&str| !PIPELINES.contains(name) && *name != "subgraph-rewrite";
        let alone = REGISTRY.passes.iter().map(|pass| pass.name).filter(wanted);
        let texts = PIPELINES.iter().copied().chain(alone).chain([patterns(), RULES]);
        let pipelines = texts.map(|text| (text, parsed(text))).collect();
        Search { subjects: Subjects::new(random_graphs()), pipelines, baselines: Vec::new() }
    }

    fn baseline(&mut self, i: usize) -> &[Baseline] {
        while self.baselines.len() <= i {
            let subject = self.subjects.get(self.baselines.len()).expect("subjects are made in order");
            let of = |(_, pipeline): &(&str, Pipeline)| {
                let mut text = None;
                let reached = mutants::reached_by(|| {
                    text =
                        transformed(subject, pipeline, None).ok().map(|graph| print(&graph, PrintOptions::default()));
                });
                Baseline { text, reached }
            };
            let all = self.pipelines.iter().map(of).collect();
            self.baselines.push(all);
        }
        &self.baselines[i]
    }

    /// Runs a mutant until something is wrong.
    fn find(&mut self, mutant: Mutant) -> Find {
        let is_rule = !mutant.site.contains('.');
        for i in 0.. {
            if self.subjects.get(i).is_none() {
                break;
            }
            self.baseline(i);
            let subject = self.subjects.made(i);
            for ((name, pipeline), baseline) in self.pipelines.iter().zip(&self.baselines[i]) {
                let reached = if is_rule { *name == RULES } else { baseline.reached.contains(mutant.site) };
                let Some(right) = baseline.text.as_ref().filter(|_| reached) else { continue };
                if let Some(why) = self.wrong(subject, pipeline, mutant, right) {
                    return Find { mutant, by: Some((i, subject.name.clone(), (*name).to_owned(), why)) };
                }
            }
        }
        Find { mutant, by: None }
    }

    fn wrong(&self, subject: &Subject, pipeline: &Pipeline, mutant: Mutant, right: &[u8]) -> Option<String> {
        let graph = match transformed(subject, pipeline, Some(mutant)) {
            Ok(graph) => graph,
            Err(why) => return Some(why),
        };
        let text = print(&graph, PrintOptions::default());
        // The text does not contain the results of random operators.
        if text == right && !draws(&graph) {
            return None;
        }
        if parse(&text, ParseOptions::default()).is_err() {
            return Some("its text is not read".to_owned());
        }
        wrong_with(subject, &graph)
    }
}

/// The mutants that are known to survive, and why.
static SURVIVORS: LazyLock<Vec<(String, String)>> =
    LazyLock::new(|| replacements::survivors(include_str!("../../mutation/survivors.md")));

/// All mutants: those that are inserted in this copy of the tree, and the wrong rules.
fn all() -> Vec<Mutant> {
    let tree = Tree::read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."));
    let sheets = replacements::sheets(&tree).filter(|_| mutants::INSERTED);
    let names = sheets.flat_map(|(path, sheet)| sheet.unwrap_or_else(|wrong| panic!("{path}: {wrong:?}")).names());
    let inserted = names.map(|name| {
        let (site, kind) = name.leak().split_once(':').expect("SITE:KIND");
        Mutant { site, kind }
    });
    inserted.chain(planted_rules::mutants()).collect()
}

fn wanted() -> Vec<Mutant> {
    let parts = std::env::var("JITOPT_DETECTION").unwrap_or_default();
    let named = |mutant: &Mutant| parts.split(',').any(|part| mutant.to_string().contains(part));
    all().into_iter().filter(named).collect()
}

/// The rules of a site, which bisection has to identify; `None` if any rewrite may be at fault.
fn rules_of(site: &str) -> Option<&[&str]> {
    Some(match site.split('.').next().unwrap_or(site) {
        // The evaluation of constants also checks whether operators are random.
        "cse" => &["nodes-merged", "constants-merged", "nodes-evaluated"],
        "pooling" => &["constants-merged", "constants-moved"],
        "dce" => &["nodes-erased", "results-removed", "loop-state-removed", "fork-inputs-removed"],
        "tuples" | "flatten" => &["tuples-lowered"],
        "inline" => &["calls-inlined"],
        "forks" => &["forks-inlined"],
        "expands" => &["expands-removed"],
        "erase" => &["types-erased"],
        "alias" | "memory" | "plan" | "types" | "ops" | "constants" => return None,
        _ => &[],
    })
}

/// Whether bisection identifies a rewrite of the planted rule; else what it identified.
fn bisected(search: &Search, mutant: Mutant, i: usize, pipeline: &str) -> Result<usize, String> {
    let pipeline = parsed(pipeline);
    let subject = search.subjects.made(i);
    let check = |graph: &jitopt_core::ir::Graph| mutants::with(None, || wrong_with(subject, graph));
    let suspect = Suspect {
        graph: &subject.graph,
        pipeline: &pipeline,
        callees: &subject.callees,
        profile: None,
        check: &check,
        seat: Seat::alone(),
        progress: &|_, _| {},
        timeout: None,
        late: Cell::new(false),
    };
    match mutants::with(Some(mutant), || suspect.find()) {
        Culprit::Rewrites { numbers, rewrites, .. } => {
            let passes = passes_of(mutant.site);
            let named = match rules_of(mutant.site) {
                None => true,
                Some([]) if passes.is_empty() => rewrites.iter().any(|rewrite| rewrite.rule == mutant.site),
                Some([]) => rewrites.iter().any(|rewrite| passes.contains(&rewrite.pass)),
                Some(rules) => rewrites.iter().any(|rewrite| rules.contains(&rewrite.rule)),
            };
            if named { Ok(numbers.len()) } else { Err(format!("{rewrites:?}")) }
        }
        // It gives up before it does anything, on a graph that it could do.
        Culprit::Pass(pass, _) if passes_of(mutant.site).contains(&pass.as_str()) => Ok(0),
        other => Err(format!("{other:?}")),
    }
}

/// The passes of a site.
fn passes_of(site: &str) -> &[&str] {
    match site.split('.').next().unwrap_or(site) {
        "tuples" | "flatten" => &["lower-simple-tuples", "lower-all-tuples"],
        "inline" => &["inline"],
        "copy" => &[
            "inline",
            "inline-fork-wait",
            "loop-unrolling",
            "constant-loop-unrolling",
            "loop-peeling",
            "fuse",
            "subgraph-rewrite",
        ],
        "addmm" => &["fuse-addmm"],
        "batch-mm" => &["batch-mm"],
        "canonicalize" => &["canonicalize"],
        "canonicalize-ops" => &["canonicalize-ops"],
        "decompose" => &["decompose-ops"],
        "gradof" => &["lower-gradof"],
        "autogradzero" => &["specialize-autogradzero"],
        "guards" | "reshapings" => &["insert-guards", "guard-elimination"],
        "bailouts" | "liveness" => &["insert-bailouts"],
        "autodiff" | "candidates" => &["create-autodiff-subgraphs"],
        "differentiate" | "fitting" | "joint" | "nested" | "packing" | "activity" | "reverse" | "formulas" => {
            &["differentiate"]
        }
        "captures" => &["differentiate", "refine-captures"],
        "recompute" => &["recompute-captures"],
        "refine-ints" => &["refine-integer-values"],
        "mutation" => &["remove-mutation"],
        "numbers" => &["erase-number-types"],
        "peeling" => &["loop-peeling"],
        "peephole" => &["peephole"],
        // The results of a decomposition are evaluated at once.
        "propagation" => &["constant-propagation", "decompose-ops"],
        "refine" => &["refine-tuple-types"],
        "fuse" | "moves" => &["fuse"],
        "hoisting" => &["hoist-loop-invariants"],
        "shapes" => &["shape-analysis"],
        "sums" => &["commute-sum-to-size"],
        "linear" | "matching" => &["fuse-linear", "subgraph-rewrite"],
        "unrolling" => &["loop-unrolling", "constant-loop-unrolling", "loop-peeling"],
        _ => &[],
    }
}

/// The results of some mutants.
fn detect(mutants: Vec<Mutant>) -> Vec<(Find, Option<Result<usize, String>>)> {
    let mut search = Search::new();
    let bisects = std::env::var_os("JITOPT_FIND_ONLY").is_none();
    let mut all = Vec::new();
    for mutant in mutants {
        let find = search.find(mutant);
        println!("{mutant}: {:?}", find.by);
        let named = match &find.by {
            Some((i, _, pipeline, why)) if bisects && !why.starts_with("its text") => {
                Some(bisected(&search, mutant, *i, pipeline))
            }
            _ => None,
        };
        println!("{mutant}: bisected {named:?}");
        all.push((find, named));
    }
    all
}

fn in_threads<T: Send>(items: Vec<Mutant>, work: impl Fn(Vec<Mutant>) -> Vec<T> + Sync) -> Vec<T> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(8);
    let parts: Vec<Vec<Mutant>> =
        (0..threads).map(|k| items.iter().copied().skip(k).step_by(threads).collect()).collect();
    std::thread::scope(|scope| {
        let work = &work;
        let start = |part| {
            let builder = std::thread::Builder::new().stack_size(64 << 20);
            builder.spawn_scoped(scope, move || work(part)).expect("a thread")
        };
        let started: Vec<_> = parts.into_iter().map(start).collect();
        started.into_iter().flat_map(|thread| thread.join().expect("it ends")).collect()
    })
}

#[test]
fn mutants_are_caught_and_named() {
    let mutants = wanted();
    if std::env::var_os("JITOPT_LIST_ONLY").is_some() {
        // Below the line of the test's name.
        println!();
        return mutants.iter().for_each(|mutant| println!("{mutant}"));
    }
    std::panic::set_hook(Box::new(|_| {}));
    let total = mutants.len();
    let found = in_threads(mutants, detect);
    let _ = std::panic::take_hook();
    let survivors: Vec<Mutant> = found.iter().filter(|(f, _)| f.by.is_none()).map(|(f, _)| f.mutant).collect();
    let unnamed: Vec<String> = found
        .iter()
        .filter_map(|(f, named)| Some(format!("{}: {}", f.mutant, named.as_ref()?.as_ref().err()?)))
        .collect();
    let named: Vec<usize> = found.iter().filter_map(|(_, named)| named.as_ref()?.as_ref().ok().copied()).collect();
    println!("{}", table(&found));
    let caught = total - survivors.len();
    println!(
        "{caught} of {total} mutants are caught; bisection names {} of {}",
        named.len(),
        named.len() + unnamed.len()
    );
    println!("fewest rewrites: {} alone, at most {:?}", named.iter().filter(|n| **n == 1).count(), named.iter().max());
    let unexplained: Vec<String> = survivors
        .iter()
        .map(Mutant::to_string)
        .filter(|name| !SURVIVORS.iter().any(|(known, _)| known == name))
        .collect();
    println!("not named:\n{}", unnamed.join("\n"));
    assert!(unexplained.is_empty(), "the reason why these survive is unknown: {unexplained:#?}");
    assert!(unnamed.is_empty(), "{} are not named", unnamed.len());
}

fn table(found: &[(Find, Option<Result<usize, String>>)]) -> String {
    let mut sites: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for (Find { mutant, by }, _) in found {
        let name = mutant.to_string();
        let text = match by {
            Some((_, subject, pipeline, why)) => {
                let why: String = why.chars().take(60).collect();
                format!("  {:<14} caught by {subject} with {pipeline}: {why}", mutant.kind)
            }
            None => {
                let why = SURVIVORS.iter().find(|(known, _)| *known == name).map_or("unexplained", |(_, why)| why);
                format!("  {:<14} SURVIVES: {why}", mutant.kind)
            }
        };
        sites.entry(mutant.site).or_default().push(text);
    }
    sites.iter().map(|(site, lines)| format!("{site}\n{}\n", lines.join("\n"))).collect()
}

/// Only both rewrites together are wrong: either of them alone is correct.
#[test]
fn two_cooperating_rewrites_are_named_together() {
    let text = b"graph(%x : Tensor):\n  %u : Tensor = aten::abs(%x)\n  %v : Tensor = aten::relu(%u)\n  \
        %a : Tensor = aten::relu(%x)\n  %b : Tensor = aten::relu(%x)\n  %y : Tensor = aten::maximum(%a, %b)\n  \
        %w : Tensor = aten::relu(%y)\n  return (%y, %v)\n";
    let graph = parse(text, ParseOptions::default()).expect("a graph").graph;
    let subject = Subject::of_tensor(graph, &[-1.0, 2.0]);
    let mutant = Mutant { site: "relu-gone", kind: "planted" };
    let check = |graph: &jitopt_core::ir::Graph| mutants::with(None, || wrong_with(&subject, graph));
    let pipeline = parsed("dce,planted-rules,cse");
    let suspect = Suspect {
        graph: &subject.graph,
        pipeline: &pipeline,
        callees: &subject.callees,
        profile: None,
        check: &check,
        seat: Seat::alone(),
        progress: &|_, _| {},
        timeout: None,
        late: Cell::new(false),
    };
    let culprit = mutants::with(Some(mutant), || suspect.find());
    let Culprit::Rewrites { rewrites, .. } = culprit else { panic!("{culprit:?}") };
    let named: Vec<(&str, &str)> =
        rewrites.iter().map(|r| (r.rule, r.node.split_once(' ').map_or("", |n| n.0))).collect();
    assert_eq!(named, [("relu-gone", "%a"), ("relu-gone", "%b")]);
}

/// Mutants of all passes.
const REDUCED: &[&str] = &[
    "cse.kind:ignored",
    "cse.operands:commuted",
    "cse.writers:ignored",
    "cse.random:ignored",
    "cse.scope:kept",
    "pooling.equal:same-type",
    "pooling.place:stays",
    "dce.live-writes:ignored",
    "dce.effects:ignored",
    "dce.memory:none",
    "dce.branch-result:first",
    "tuples.unpacked:reversed",
    "tuples.index:reversed",
    "flatten.place:reversed",
    "inline.arguments:reversed",
    "forks.place:at-wait",
    "expands.implicit:explicit",
    "alias.views:fresh",
    "alias.carried:ignored",
    "sub-commuted:planted",
    "transpose-gone:planted",
    "cast-gone:planted",
];

/// The failure of a case that occurs with the mutant only, in a word.
fn signature(case: &Case, template: &Subject, pipeline: &Pipeline, mutant: Mutant) -> Option<String> {
    let wrong = failure(case, template, pipeline, Some(mutant))?;
    failure(case, template, pipeline, None).is_none().then_some(wrong)
}

fn failure(case: &Case, template: &Subject, pipeline: &Pipeline, mutant: Option<Mutant>) -> Option<String> {
    let mut graph = case.graph.clone();
    let mut session = Session { callees: template.callees.clone(), ..Session::default() };
    let ran = catch_unwind(AssertUnwindSafe(|| {
        mutants::with(mutant, || run(&mut graph, pipeline, &mut session, &mut [])).map_err(|error| error.to_string())
    }));
    match ran {
        Err(_) => return Some("panic".to_owned()),
        Ok(Err(_)) => return Some("error".to_owned()),
        Ok(Ok(())) => {}
    }
    if verify::verify(&case.graph).has_errors() {
        return None;
    }
    if verify::verify(&graph).has_errors() {
        return Some("broken".to_owned());
    }
    judge(&case.graph, &graph, &template.settings, &case.inputs, POLICY).is_wrong().then(|| "differs".to_owned())
}

/// Number of nodes of a failing graph before and after reduction.
fn reduced(mutant: Mutant) -> Result<(usize, usize, usize), String> {
    for seed in 0..2000 {
        let subject = Subject::forged(Plan { seed, nodes: 120, ..Plan::default() });
        let before = subject.graph.all_nodes().count();
        if before < 500 {
            continue;
        }
        for text in PIPELINES.iter().chain([&RULES]) {
            let pipeline = parsed(text);
            let case = Case { graph: subject.graph.clone(), inputs: subject.inputs.clone() };
            let same = |case: &Case| signature(case, &subject, &pipeline, mutant);
            if same(&case).is_none_or(|how| how == "error") {
                continue;
            }
            let mut tried = 0;
            let mut reducer = Reducer {
                signature: &same,
                settings: &subject.settings,
                progress: &mut |_, n| tried = n,
                most: 20_000,
                seat: Seat::alone(),
            };
            let Some((case, how)) = reducer.reduce(case) else { continue };
            let after = case.graph.all_nodes().count();
            if after > 10 || std::env::var_os("JITOPT_SHOW").is_some() {
                let text = print(&case.graph, PrintOptions::default());
                println!("{mutant}: seed {seed}, {how}\n{}", String::from_utf8_lossy(&text));
            }
            return Ok((before, after, tried));
        }
    }
    Err("no graph of that size fails".to_owned())
}

#[test]
fn failing_graphs_become_small() {
    std::panic::set_hook(Box::new(|_| {}));
    let part = std::env::var("JITOPT_DETECTION").unwrap_or_default();
    let all = all();
    let named = |name: &&str| all.iter().find(|mutant| mutant.to_string() == **name).copied();
    let inserted = |name: &&&str| name.contains(&part) && (mutants::INSERTED || !name.contains('.'));
    let mutants: Vec<Mutant> = REDUCED.iter().filter(inserted).map(|name| named(name).expect(name)).collect();
    let found = in_threads(mutants, |part| part.into_iter().map(|mutant| (mutant, reduced(mutant))).collect());
    let _ = std::panic::take_hook();
    let mut large = Vec::new();
    for (mutant, result) in found {
        println!("{mutant}: {result:?}");
        if !matches!(result, Ok((_, after, _)) if after <= 10) {
            large.push(mutant.to_string());
        }
    }
    assert!(large.is_empty(), "these stay large: {large:?}");
}
