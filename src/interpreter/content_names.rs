//! Names of contents that the text of a graph does not show.
//!
//! Names restart in each section, so that several constants may be called `%w`: one of a section is
//! `prim::fork_0/%w`, as options spell it, that of a callee `name/%w`, and an element of a list or
//! tuple `%w[1]`. Passes copy, move and rename constants, into sections and out of them; copies of
//! an attribute share its text, which identifies the content.

use crate::ir::{Attribute, Graph, Value};
use crate::symbol::{attr, prim};
use crate::text::printed_list;
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A text that does not show its full content, or a list with such elements, and its name.
#[derive(Debug)]
pub struct Content<'g> {
    /// `w`, `prim::fork_0/%w`, `w[1]`: in the spelling of options, without the first `%`.
    pub name: String,
    /// The text.
    pub text: Arc<str>,
    /// Its attribute.
    pub attribute: Attribute,
    /// The graph of the constant.
    pub graph: &'g Graph,
    /// The constant.
    pub constant: Value,
    /// Whether it is the whole constant.
    pub is_whole: bool,
}

/// Names of contents, by the texts that represent them.
#[derive(Clone, Debug, Default)]
pub struct ContentNames(FxHashMap<usize, (Arc<str>, String)>);

impl ContentNames {
    /// The names of a graph, of its sections, and of the graphs that it calls.
    pub fn of(graph: &Graph, callees: &BTreeMap<String, Graph>) -> ContentNames {
        ContentNames::default().and_of(graph, callees)
    }

    /// These names, and those of another graph for contents without a name here.
    pub fn and_of(mut self, graph: &Graph, callees: &BTreeMap<String, Graph>) -> ContentNames {
        for (path, graph) in all_graphs(graph, callees) {
            for content in contents(&path, graph) {
                // A callee may be listed twice, under a short and a long name.
                self.0.entry(address(&content.text)).or_insert((content.text, content.name));
            }
        }
        self
    }

    /// The name of the content that this text represents.
    pub fn get(&self, text: &Arc<str>) -> Option<&str> {
        self.0.get(&address(text)).map(|(_, name)| name.as_str())
    }

    /// Whether there are no names. Contents then have the names of the values that they define.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// The address of a text. Texts are kept alive, so that no other one gets the address.
fn address(text: &Arc<str>) -> usize {
    Arc::as_ptr(text).cast::<u8>().addr()
}

/// The sections of a graph with their names in the text: `prim::FusionGroup_0`.
pub fn sections(graph: &Graph) -> impl Iterator<Item = (String, &Graph)> {
    let owners = graph.all_nodes().filter_map(|node| Some((node, graph.subgraph(node)?)));
    owners.enumerate().map(|(i, (node, section))| (format!("{}_{i}", graph.kind(node).as_str()), section))
}

/// A graph and all graphs whose values options may name, each with the prefix of the `%`: nothing,
/// `prim::fork_0/`, `name/`.
pub fn all_graphs<'g>(graph: &'g Graph, callees: &'g BTreeMap<String, Graph>) -> Vec<(String, &'g Graph)> {
    let mut callees: Vec<(String, &Graph)> =
        callees.iter().map(|(name, callee)| (format!("{name}/"), callee)).collect();
    callees.sort_by_key(|(name, _)| name.len());
    let mut work: Vec<(String, &Graph)> = callees.into_iter().rev().collect();
    work.push((String::new(), graph));
    let mut all = Vec::new();
    while let Some((path, graph)) = work.pop() {
        let inner: Vec<_> = sections(graph).map(|(name, section)| (format!("{path}{name}/"), section)).collect();
        work.extend(inner.into_iter().rev());
        all.push((path, graph));
    }
    all
}

/// The contents of one graph, without its sections, that its text does not show or shows in few
/// digits.
pub fn contents<'g>(path: &str, graph: &'g Graph) -> Vec<Content<'g>> {
    let mut all = Vec::new();
    for node in graph.all_nodes().filter(|&node| graph.kind(node) == prim::CONSTANT) {
        let (Some(constant), Some(attribute)) = (graph.single_output(node), graph.attribute(node, attr::VALUE)) else {
            continue;
        };
        if !has_text(attribute) {
            continue;
        }
        let name = if path.is_empty() { graph.name(constant) } else { format!("{path}%{}", graph.name(constant)) };
        each_text(attribute, name, &mut |attribute, text, name, depth| {
            let (attribute, text) = (attribute.clone(), text.clone());
            all.push(Content { name, text, attribute, graph, constant, is_whole: depth == 0 });
        });
    }
    all
}

/// The name of an element of a content.
pub fn part_name(name: &str, i: usize) -> String {
    format!("{name}[{i}]")
}

/// Whether an attribute is a text for a content, or has such an element.
pub(crate) fn has_text(attribute: &Attribute) -> bool {
    match attribute {
        Attribute::Tensor(_) | Attribute::Opaque(_) => true,
        Attribute::List(parts) | Attribute::Tuple(parts) => parts.iter().any(has_text),
        Attribute::Dict(items) => items.iter().any(|(_, value)| has_text(value)),
        _ => false,
    }
}

/// Receives an attribute that is a text, the text, its name, and its depth in containers.
type Visit<'f> = dyn FnMut(&Attribute, &Arc<str>, String, usize) + 'f;

/// Calls `f` with every text in an attribute, its name, and its depth in containers. A list that is
/// a text precedes its elements.
fn each_text(attribute: &Attribute, name: String, f: &mut Visit<'_>) {
    let mut work = vec![(attribute.clone(), name, 0)];
    while let Some((attribute, name, depth)) = work.pop() {
        let parts = match &attribute {
            Attribute::Tensor(text) => {
                f(&attribute, text, name, depth);
                continue;
            }
            Attribute::Opaque(text) => {
                f(&attribute, text, name.clone(), depth);
                printed_list::parts(text).unwrap_or_default()
            }
            Attribute::List(parts) | Attribute::Tuple(parts) => parts.to_vec(),
            Attribute::Dict(items) => items.iter().map(|(_, value)| value.clone()).collect(),
            _ => continue,
        };
        let parts = parts.into_iter().enumerate().filter(|(_, part)| has_text(part));
        let parts: Vec<_> = parts.map(|(i, part)| (part, part_name(&name, i), depth + 1)).collect();
        work.extend(parts.into_iter().rev());
    }
}
