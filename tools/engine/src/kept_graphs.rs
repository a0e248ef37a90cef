//! Graphs of archives that an earlier run has read, in the folder of kernels.
//!
//! Reading the code of hundreds of modules takes longer than a run. The graph is kept as text, with
//! the places of what it reads, under all bytes of the archive but those of weights. It is kept
//! only if its text is read back as the same graph, and if no random number is keyed by its nodes.

use jitopt_core::interpreter::Release;
use jitopt_core::ir::{Attribute, Graph, Node};
use jitopt_core::ops::{self, rules::Nondeterminism};
use jitopt_core::runtime::disk_cache::DiskCache;
use jitopt_core::text::{ParseOptions, PrintOptions, parse, print};
use jitopt_source::{ContentPlace, set_dialect};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;

/// A graph, and where its contents are.
#[derive(Clone, Debug)]
pub(crate) struct KeptGraph {
    pub(crate) graph: Graph,
    pub(crate) places: BTreeMap<String, ContentPlace>,
}

/// The graphs in a folder.
#[derive(Debug)]
pub(crate) struct KeptGraphs(DiskCache);

impl KeptGraphs {
    pub(crate) fn open(folder: &Path) -> KeptGraphs {
        KeptGraphs(DiskCache::new(Some(folder)))
    }

    /// The graph of a program as options of a release say, if one is kept.
    pub(crate) fn find(&self, program: &[u8], (options, release): (&str, Release)) -> Option<KeptGraph> {
        let text = self.0.verdict(cache_key(program, options))?;
        let kept: Value = serde_json::from_str(&text).ok()?;
        let graph = read_back(kept["graph"].as_str()?, release)?;
        let mut places = BTreeMap::new();
        for (name, place) in kept["places"].as_object()? {
            let place = match place {
                Value::Array(path) => {
                    let path = path.iter().map(|part| part.as_str().map(str::to_owned)).collect::<Option<_>>();
                    ContentPlace::Attribute(path?)
                }
                number => ContentPlace::Constant(usize::try_from(number.as_u64()?).ok()?),
            };
            places.insert(name.clone(), place);
        }
        Some(KeptGraph { graph, places })
    }

    /// Keeps the graph of a program, if its text says all about it.
    pub(crate) fn keep(&self, program: &[u8], (options, release): (&str, Release), kept: &KeptGraph) {
        let mut located = kept.graph.clone();
        locate(&mut located);
        let text = String::from_utf8_lossy(&print(&located, PrintOptions::default())).into_owned();
        let is_same = read_back(&text, release).is_some_and(|again| is_same_graph(&kept.graph, &again));
        if !is_same || draws(&kept.graph) {
            return;
        }
        let place = |place: &ContentPlace| match place {
            ContentPlace::Attribute(path) => json!(path),
            ContentPlace::Constant(number) => json!(number),
        };
        let places: BTreeMap<&String, Value> = kept.places.iter().map(|(name, at)| (name, place(at))).collect();
        let answer = json!({"graph": text, "places": places}).to_string();
        self.0.remember_verdict(cache_key(program, options), &answer);
    }
}

/// The cache key of a graph: this build, the options, and the bytes.
fn cache_key(program: &[u8], options: &str) -> Vec<u8> {
    let mut key = format!("graph of an archive: {} {options}\n", crate::keeping::build()).into_bytes();
    key.extend_from_slice(program);
    key
}

fn read_back(text: &str, release: Release) -> Option<Graph> {
    let mut parsed = parse(text.as_bytes(), ParseOptions { release: Some(release) }).ok()?;
    set_dialect(&mut parsed.graph, release);
    parsed.warnings.is_empty().then_some(parsed.graph)
}

/// Gives each node the place in a source that messages show: text has no ancestors of nodes.
fn locate(graph: &mut Graph) {
    for node in graph.all_nodes().collect::<Vec<_>>() {
        if let Some(place) = graph.origin_location(node).map(<[u8]>::to_vec) {
            graph.set_location(node, &place);
        }
        graph.with_subgraph(node, locate);
    }
}

/// Whether a run may draw random numbers.
fn draws(graph: &Graph) -> bool {
    graph.all_nodes().any(|node| {
        let is = |at: usize, wanted: fn(&Attribute) -> bool| {
            let value = graph.inputs(node).nth(at).and_then(|value| graph.constant(value)).flatten();
            value.is_some_and(wanted)
        };
        let is_random = match ops::operator(graph.era, graph.kind(node)).nondeterminism(None) {
            Nondeterminism::Deterministic | Nondeterminism::Undefined => false,
            Nondeterminism::UnlessFalse(at) => !is(at, |on| matches!(on, Attribute::Int(0) | Attribute::Bool(false))),
            Nondeterminism::UnlessZero(at) => !is(at, |p| matches!(p, Attribute::Float(p) if p.value == 0.0)),
            Nondeterminism::Always => true,
        };
        is_random || graph.subgraph(node).is_some_and(draws)
    })
}

/// Whether two graphs have the same nodes with the same attributes, values, types and places in
/// sources, in the same order.
fn is_same_graph(a: &Graph, b: &Graph) -> bool {
    let (mut nodes, mut others) = (all_nodes(a).into_iter(), all_nodes(b).into_iter());
    let is_same = |one: Node, other: Node| {
        let values = |graph: &Graph, node: Node| -> Vec<(String, String)> {
            graph.outputs(node).map(|value| (graph.name(value), graph.ty(value).to_string())).collect()
        };
        let inputs =
            |graph: &Graph, node: Node| -> Vec<String> { graph.inputs(node).map(|value| graph.name(value)).collect() };
        let sections = match (a.subgraph(one), b.subgraph(other)) {
            (Some(one), Some(other)) => is_same_graph(one, other),
            (one, other) => one.is_none() && other.is_none(),
        };
        let plain = |graph: &Graph, node: Node| -> Vec<String> {
            let all = graph.attributes(node).iter().filter(|(_, value)| !matches!(value, Attribute::Graph(_)));
            all.map(|attribute| format!("{attribute:?}")).collect()
        };
        a.kind(one) == b.kind(other)
            && sections
            && plain(a, one) == plain(b, other)
            && values(a, one) == values(b, other)
            && inputs(a, one) == inputs(b, other)
            && a.origin_location(one) == b.origin_location(other)
    };
    loop {
        match (nodes.next(), others.next()) {
            (None, None) => return true,
            (Some(one), Some(other)) if is_same(one, other) => {}
            _ => return false,
        }
    }
}

/// The nodes of all blocks, with those of params and results.
fn all_nodes(graph: &Graph) -> Vec<Node> {
    let blocks = graph.all_blocks();
    let ends = |block| [graph.param_node(block), graph.return_node(block)];
    blocks.flat_map(|block| ends(block).into_iter().chain(graph.nodes(block)).collect::<Vec<_>>()).collect()
}
