//! Cached transformations of recorded graphs: results from the cache equal those of the passes byte
//! for byte, for the graph itself, for structurally equal graphs with other names and comments, for
//! those with other shapes, and for mutants, which must miss the cache.
//!
//! `JITOPT_TWINS` sets the number of mutants (20,000), `JITOPT_CORPUS` a directory of additional
//! graphs.

#![allow(clippy::print_stdout, reason = "a test tells its figures")]

use crate::support::dice;
use crate::support::parallel;
use crate::support::recorded;

use dice::Dice;
use jitopt_core::ir::{Attribute, Detail, Graph, GraphWords, Node, Value};
use jitopt_core::pass::{
    EntryStore, Lookup, PassInfo, Pipeline, RunError, Session, Stage, Step, StoreTrouble, TransformCache, Unreadable,
    Why, run,
};
use jitopt_core::symbol::{Symbol, prim};
use jitopt_core::text::{ParseOptions, PrintOptions, parse, print};
use jitopt_core::types::era::Era;
use jitopt_core::types::release::Release;
use jitopt_core::types::{DType, Dim, Strides, TensorType, Type, TypeKind};
use jitopt_passes::REGISTRY;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

/// Complete pipelines, besides the single passes.
const PIPELINES: &[&str] = &[
    "@default",
    "@torch-1.3-inference",
    "lower-simple-tuples,constant-pooling,dce",
    "constant-loop-unrolling,loop-unrolling,dce,constant-pooling",
    "loop-unrolling,canonicalize{keep-names},constant-pooling",
    "canonicalize,loop-unrolling",
    "fixpoint(loop-peeling,dce){max=3},canonicalize",
];

fn pipelines() -> Vec<Pipeline> {
    // Passes that need files or callees are left out.
    let single = REGISTRY.passes.iter().map(|pass| pass.name).filter(|name| *name != "subgraph-rewrite");
    let texts = single.chain(PIPELINES.iter().copied());
    texts.map(|text| Pipeline::parse(text, &REGISTRY).unwrap_or_else(|e| panic!("{}", e.render(text)))).collect()
}

fn read(path: &Path) -> Option<Graph> {
    let old = ["/1.3.1/", "/1.4.0/"].iter().any(|version| path.to_string_lossy().contains(version));
    let era = Some(if old { Era::V1_3 } else { Era::V2 });
    let graph = parse(&std::fs::read(path).ok()?, ParseOptions { release: era.map(Release::of) }).ok()?.graph;
    (graph.all_nodes().count() < 600).then_some(graph)
}

fn text(graph: &Graph) -> String {
    let verbose = PrintOptions { type_verbosity: Some(3), ..PrintOptions::default() };
    [PrintOptions::default(), verbose]
        .map(|options| String::from_utf8_lossy(&print(graph, options)).into_owned())
        .concat()
}

fn transformed(graph: &Graph, pipeline: &Pipeline) -> Result<Graph, String> {
    let mut graph = graph.clone();
    run(&mut graph, pipeline, &mut Session::default(), &mut []).map_err(|error| error.to_string())?;
    Ok(graph)
}

fn through(cache: &TransformCache, graph: &Graph, pipeline: &Pipeline) -> Result<(Graph, Lookup), RunError> {
    let mut graph = graph.clone();
    let mut passes = |graph: &mut Graph| run(graph, pipeline, &mut Session::default(), &mut []);
    let found = cache.transform(&mut graph, &mut GraphWords::default(), &mut passes)?;
    Ok((graph, found))
}

fn values(graph: &Graph) -> Vec<Value> {
    let blocks: Vec<_> = graph.all_blocks().collect();
    let params = blocks.iter().flat_map(|&block| graph.params(block));
    params.chain(graph.all_nodes().flat_map(|node| graph.outputs(node))).collect()
}

/// Other names, numbers and comments. Names that share numbering suffixes are as likely as
/// unrelated ones.
fn renamed(graph: &Graph, draws: &mut Dice) -> Graph {
    let mut other = graph.clone();
    for value in values(&other) {
        match draws.below(4) {
            0 => other.clear_name(value),
            1 => other.set_name(value, format!("x.{}", draws.below(5)).as_bytes()),
            2 => other.set_name(value, draws.pick(&["x", "y", "self", "a.b", "input.2"]).as_bytes()),
            _ => other.set_name(value, format!("n{}", draws.below(1000)).as_bytes()),
        }
    }
    let nodes: Vec<Node> = other.all_nodes().collect();
    for node in nodes {
        match draws.below(3) {
            0 => other.set_location(node, format!("model.py:{}:0", draws.below(99)).as_bytes()),
            1 => other.set_scope(node, format!("Net/Layer[{}]", draws.below(3)).as_bytes()),
            _ => {}
        }
    }
    let read = parse(&print(&other, PrintOptions::default()), ParseOptions::of(graph.release()));
    read.map(|parsed| parsed.graph).unwrap_or_else(|_| graph.clone())
}

fn tensor(draws: &mut Dice) -> Type {
    let size =
        |draws: &mut Dice| draws.pick(&[Dim::Known(1), Dim::Known(3), Dim::Known(64), Dim::Unknown, Dim::Symbolic(-2)]);
    let sizes: Option<Box<[Dim]>> = (draws.below(3) > 0).then(|| (0..draws.below(4)).map(|_| size(draws)).collect());
    let strides = match &sizes {
        Some(sizes) if draws.below(3) == 0 => Strides::Known(sizes.iter().map(|_| 1).collect()),
        _ => Strides::Unknown,
    };
    let dtype = draws.pick(&[None, Some(DType::Float), Some(DType::Long), Some(DType::Double)]);
    let device = (draws.below(3) == 0).then(|| Symbol::new(draws.pick(&["cpu", "cuda:0"])));
    let requires_grad = draws.pick(&[None, Some(true), Some(false)]);
    Type::new(TypeKind::Tensor(TensorType {
        dtype,
        sizes,
        strides,
        requires_grad,
        device,
        undefined: None,
        profiled: false,
    }))
}

/// Other type facts for all tensors but constants.
fn reshaped(graph: &Graph, draws: &mut Dice) -> Graph {
    let mut other = graph.clone();
    for value in values(graph) {
        let is_constant = graph.definer(value).is_some_and(|node| graph.kind(node) == prim::CONSTANT);
        if let Some(ty) = graph.written_type(value).filter(|_| !is_constant) {
            other.set_type(value, ty.map_tensors(&mut |_| tensor(draws)));
        }
    }
    other
}

/// The failures.
#[derive(Default)]
struct Tally {
    hits: usize,
    misses: usize,
    /// Results that are not kept because of sections that passes made.
    sections: usize,
    unwritten: usize,
    failures: Vec<String>,
}

impl Tally {
    fn check(&mut self, what: &str, cache: &TransformCache, graph: &Graph, pipeline: &Pipeline, must_hit: bool) {
        let (wanted, found) = (transformed(graph, pipeline), through(cache, graph, pipeline));
        match (wanted, found) {
            (Ok(wanted), Ok((found, lookup))) => {
                let (wanted, found) = (text(&wanted), text(&found));
                if wanted != found {
                    let line = wanted.lines().zip(found.lines()).find(|(a, b)| a != b);
                    self.failures.push(format!("{what}, {pipeline}, {lookup:?}: {line:?}"));
                } else if lookup == Lookup::NotCached(Why::Section) {
                    self.sections += 1;
                } else if matches!(lookup, Lookup::NotCached(_)) || must_hit && lookup != Lookup::Hit {
                    self.failures.push(format!("{what}, {pipeline}: {lookup:?}"));
                }
                self.hits += usize::from(lookup == Lookup::Hit);
                self.misses += usize::from(lookup == Lookup::Miss);
            }
            (Err(wanted), Err(found)) if wanted == found.to_string() => {}
            // A structurally equal graph that could be transformed, although a requirement of the
            // pass is missing, is no failure.
            (wanted, found) => self.failures.push(format!(
                "{what}, {pipeline}: {:?} and {:?}",
                wanted.map(|_| ()),
                found.map(|(_, lookup)| lookup).map_err(|e| e.to_string())
            )),
        }
    }
}

#[test]
fn twins_come_out_as_the_passes_make_them() {
    let files = recorded::files();
    let all = pipelines();
    // Every other pipeline on each graph. Files are pairs, before and after a pass: both meet the
    // same ones.
    let numbered: Vec<(usize, &PathBuf)> = files.iter().enumerate().collect();
    let tallies = parallel::each(&numbered, |(number, path)| {
        let mut tally = Tally::default();
        let Some(graph) = read(path) else { return tally };
        let mut draws = Dice(path.to_string_lossy().len() as u64);
        let (named, shaped) = (renamed(&graph, &mut draws), reshaped(&graph, &mut draws));
        for pipeline in all.iter().skip(number / 2 % 2).step_by(2) {
            let cache = TransformCache::new(pipeline);
            let name = path.display().to_string();
            tally.check(&name, &cache, &graph, pipeline, false);
            let ran = transformed(&graph, pipeline).is_ok();
            let sections = graph.all_nodes().any(|node| graph.subgraph(node).is_some());
            tally.check(&format!("{name} renamed"), &cache, &named, pipeline, ran && !sections);
            let erased = cache.detail() == Detail::Erased;
            tally.check(&format!("{name} reshaped"), &cache, &shaped, pipeline, ran && erased && !sections);
        }
        tally
    });
    let (hits, misses) = tallies.iter().fold((0, 0), |(h, m), tally| (h + tally.hits, m + tally.misses));
    println!("{} graphs, {} pipelines: {hits} hits, {misses} misses", files.len(), all.len());
    let failures: Vec<&String> = tallies.iter().flat_map(|tally| &tally.failures).collect();
    let mut by_pipeline: BTreeMap<&str, usize> = BTreeMap::new();
    for failure in &failures {
        *by_pipeline.entry(failure.split(',').nth(1).unwrap_or_default()).or_default() += 1;
    }
    let shown: Vec<&str> = failures.iter().take(20).map(|failure| failure.as_str()).collect();
    assert!(failures.is_empty(), "{} failures, {by_pipeline:?}:\n{}", failures.len(), shown.join("\n"));
    assert!(hits > 5_000 || files.len() < 300, "{hits} hits");
}

/// A store in memory.
#[derive(Clone, Default)]
struct Shelf {
    files: Arc<Mutex<BTreeMap<String, Vec<u8>>>>,
    troubles: Arc<Mutex<Vec<StoreTrouble>>>,
}

impl EntryStore for Shelf {
    fn load(&self, name: &str) -> Option<Vec<u8>> {
        self.files.lock().expect("no test panics with it").get(name).cloned()
    }
    fn save(&self, name: &str, entry: &[u8]) {
        self.files.lock().expect("no test panics with it").insert(name.to_owned(), entry.to_vec());
    }
    fn complain(&self, _: &str, why: StoreTrouble) {
        self.troubles.lock().expect("no test panics with it").push(why);
    }
}

/// An entry that one process writes is read by another, whatever the names in its graph are.
#[test]
fn entries_serve_other_processes() {
    let files = recorded::files();
    let all: Vec<Pipeline> =
        PIPELINES.iter().map(|text| Pipeline::parse(text, &REGISTRY).expect("a pipeline")).collect();
    let tallies = parallel::each(&files, |path| {
        let mut tally = Tally::default();
        let Some(graph) = read(path) else { return tally };
        let named = renamed(&graph, &mut Dice(path.to_string_lossy().len() as u64));
        let sections = graph.all_nodes().any(|node| graph.subgraph(node).is_some());
        for pipeline in all.iter().filter(|pipeline| transformed(&graph, pipeline).is_ok()) {
            let shelf = Shelf::default();
            let cache = || TransformCache::with_store(pipeline, Box::new(shelf.clone()), "program: this one\n");
            let name = path.display().to_string();
            tally.check(&name, &cache(), &graph, pipeline, false);
            let is_kept = shelf.troubles.lock().expect("no test panics with it").is_empty();
            tally.unwritten += usize::from(!is_kept && !sections);
            tally.check(&format!("{name} again"), &cache(), &graph, pipeline, is_kept);
            tally.check(&format!("{name} renamed"), &cache(), &named, pipeline, is_kept && !sections);
        }
        tally
    });
    let failures: Vec<&String> = tallies.iter().flat_map(|tally| &tally.failures).collect();
    let shown: Vec<&str> = failures.iter().take(20).map(|failure| failure.as_str()).collect();
    assert!(failures.is_empty(), "{} failures:\n{}", failures.len(), shown.join("\n"));
    assert!(tallies.iter().map(|tally| tally.hits).sum::<usize>() > files.len(), "few hits");
    // Floats that passes computed may have more digits than 1.3 prints.
    let unwritten: usize = tallies.iter().map(|tally| tally.unwritten).sum();
    assert!(unwritten <= 5 || files.len() > 888, "{unwritten} results have no text");
}

/// An entry that was truncated, changed, or renamed to another key is ignored, and the passes run.
#[test]
fn damaged_entries_are_written_anew() {
    let pipeline = Pipeline::parse("lower-simple-tuples,dce", &REGISTRY).expect("a pipeline");
    let graph = |body: &str| {
        let text = format!("graph(%x : Tensor):\n{body}  return (%y)\n");
        parse(text.as_bytes(), ParseOptions::default()).expect("a graph").graph
    };
    let one = graph("  %y : Tensor = aten::neg(%x)\n  %z : Tensor = aten::neg(%y)\n");
    let other = graph("  %y : Tensor = aten::exp(%x)\n  %z : Tensor = aten::neg(%y)\n");
    let shelf = Shelf::default();
    let cache = || TransformCache::with_store(&pipeline, Box::new(shelf.clone()), "");
    let lookup = |graph: &Graph| {
        let (found, lookup) = through(&cache(), graph, &pipeline).expect("the passes run");
        assert_eq!(text(&found), text(&transformed(graph, &pipeline).expect("the passes run")));
        lookup
    };
    assert_eq!([lookup(&one), lookup(&other), lookup(&one)], [Lookup::Miss, Lookup::Miss, Lookup::Hit]);
    let whole = shelf.files.lock().expect("no test panics with it").clone();
    let names: Vec<&String> = whole.keys().collect();
    for cut in 0..whole[names[0]].len() {
        for (name, bytes) in &whole {
            let mut bytes = bytes.clone();
            match cut % 2 {
                0 => bytes.truncate(cut.min(bytes.len() - 1)),
                _ => bytes[cut.min(whole[name].len() - 1)] ^= 1,
            }
            shelf.files.lock().expect("no test panics with it").insert(name.clone(), bytes);
        }
        assert_eq!([lookup(&one), lookup(&one)], [Lookup::Miss, Lookup::Hit], "{cut}");
    }
    let troubles = std::mem::take(&mut *shelf.troubles.lock().expect("no test panics with it"));
    assert!(troubles.contains(&StoreTrouble::Unreadable(Unreadable::Damaged)), "{troubles:?}");
    let swapped = names.iter().zip(names.iter().rev()).map(|(a, b)| ((*a).clone(), whole[*b].clone())).collect();
    *shelf.files.lock().expect("no test panics with it") = swapped;
    assert_eq!([lookup(&one), lookup(&one)], [Lookup::Miss, Lookup::Hit]);
    let troubles = shelf.troubles.lock().expect("no test panics with it").clone();
    assert_eq!(troubles, [StoreTrouble::Unreadable(Unreadable::Foreign)]);
}

/// A mutation: of a kind, an operand, a constant, a type, or the position of a node.
fn mutated(graph: &Graph, draws: &mut Dice) -> Graph {
    let mut mutant = graph.clone();
    let nodes: Vec<Node> = graph.all_nodes().collect();
    let all = values(graph);
    let (node, other) = (draws.pick(&nodes), draws.pick(&nodes));
    match draws.below(7) {
        0 => mutant.set_kind(node, graph.kind(other)),
        1 | 2 if graph.num_inputs(node) > 0 => {
            let i = draws.below(graph.num_inputs(node));
            mutant.set_input(node, i, draws.pick(&all));
        }
        3 if graph.num_inputs(node) > 1 => {
            let (first, last) = (graph.input(node, 0), graph.input(node, graph.num_inputs(node) - 1));
            mutant.set_input(node, 0, last);
            mutant.set_input(node, graph.num_inputs(node) - 1, first);
        }
        4 => {
            let constants =
                nodes.iter().filter(|&&node| graph.attributes(node).iter().any(|(_, a)| a.as_int().is_some()));
            let constants: Vec<Node> = constants.copied().collect();
            if !constants.is_empty() {
                let node = draws.pick(&constants);
                let name = graph.attributes(node)[0].0;
                mutant.set_attribute(node, name, Attribute::Int(draws.below(3) as i64));
            }
        }
        5 => {
            let (value, from) = (draws.pick(&all), draws.pick(&all));
            mutant.set_type(value, graph.ty(from));
        }
        _ if graph.block_of(node) == graph.block_of(other) => mutant.move_before(node, other),
        _ => {}
    }
    mutant
}

/// A hit must equal the result of the passes. Encodings are compared completely, so no number of
/// mutants can find a false hit; this checks that the encoding itself is sufficient.
#[test]
fn no_mutant_is_taken_for_its_original() {
    let wanted: usize = std::env::var("JITOPT_TWINS").ok().and_then(|n| n.parse().ok()).unwrap_or(20_000);
    let files = recorded::files();
    let texts = ["@default", "dce", "constant-pooling,dce", "loop-unrolling,canonicalize", "lower-all-tuples"];
    let all = texts.map(|text| Pipeline::parse(text, &REGISTRY).expect("it is a pipeline"));
    let each = wanted.div_ceil(files.len() * all.len());
    let found = parallel::each(&files, |path| {
        let (mut hits, mut mutants, mut wrong) = (0, 0, Vec::new());
        let Some(graph) = read(path).filter(|graph| graph.all_nodes().next().is_some()) else { return (0, 0, wrong) };
        let (mut draws, mut words) = (Dice(path.to_string_lossy().len() as u64), GraphWords::default());
        for pipeline in &all {
            let cache = TransformCache::new(pipeline);
            if through(&cache, &graph, pipeline).is_err() {
                continue;
            }
            for _ in 0..each {
                let mutant = mutated(&graph, &mut draws);
                let mut found = mutant.clone();
                mutants += 1;
                if words.read(&found, cache.detail()).is_ok() && cache.apply(&mut found, &words, words.hash()) {
                    hits += 1;
                    if transformed(&mutant, pipeline).map(|graph| text(&graph)) != Ok(text(&found)) {
                        wrong.push(format!("{}, {pipeline}: a false hit on\n{mutant}", path.display()));
                    }
                }
            }
        }
        (hits, mutants, wrong)
    });
    let (hits, mutants) = found.iter().fold((0, 0), |(h, m), found| (h + found.0, m + found.1));
    println!("{mutants} mutants, {hits} hits, which are all right");
    let wrong: Vec<&String> = found.iter().flat_map(|found| &found.2).collect();
    assert!(wrong.is_empty(), "{} false hits:\n{}", wrong.len(), wrong[0]);
    assert!(mutants > wanted / 2, "{mutants} of {wanted} mutants");
}

/// A pass declared to read shapes really does: otherwise graphs of other shapes would miss the
/// cache needlessly.
#[test]
fn columns_are_not_set_for_nothing() {
    // No graph of this repository shows it, but they read types, or run operators on constants that
    // have types.
    const UNSEEN: &[&str] = &[
        "batch-mm",
        "canonicalize-ops",
        "constant-propagation",
        "erase-number-types",
        "fuse-linear",
        "recompute-captures",
        "refine-captures",
        "specialize-autogradzero",
    ];
    let files = recorded::files();
    let readers: Vec<&PassInfo> =
        REGISTRY.passes.iter().filter(|pass| pass.reads_shapes && pass.name != "subgraph-rewrite").collect();
    let seen = parallel::each(&readers, |pass| {
        let blind: &'static PassInfo = Box::leak(Box::new(PassInfo { reads_shapes: false, ..**pass }));
        let stage = Stage { pass: blind, options: Vec::new(), files: Vec::new() };
        let pipeline = Pipeline { steps: vec![Step::Pass(stage)] };
        files.iter().any(|path| {
            let Some(graph) = read(path) else { return false };
            let other = reshaped(&graph, &mut Dice(7));
            let cache = TransformCache::new(&pipeline);
            [graph, other].iter().any(|graph| {
                // A graph with wrong types may also make a pass panic.
                let through = || through(&cache, graph, &pipeline);
                let Ok(found) = std::panic::catch_unwind(std::panic::AssertUnwindSafe(through)) else { return true };
                let wanted = transformed(graph, &pipeline);
                let same = |wanted: &Graph, found: &Graph| text(wanted) == text(found);
                !matches!((wanted, found), (Ok(a), Ok((b, _))) if same(&a, &b))
            })
        })
    });
    let unseen: Vec<&str> = readers.iter().zip(seen).filter(|(_, seen)| !seen).map(|(pass, _)| pass.name).collect();
    assert!(unseen.iter().all(|pass| UNSEEN.contains(pass)), "said to read shapes: {unseen:?}");
}
