//! The alias analysis as text, laid out like PyTorch's `AliasDb::dump`.

use super::alias::AliasDb;
use super::memory::Element;
use crate::ir::{Graph, Value};
use crate::text::{PrintOptions, Printer, print};
use rustc_hash::FxHashMap;
use std::fmt::Write;

impl AliasDb {
    /// The graph, the points-to and contains relations, and the writes. For reading, and for
    /// comparison with PyTorch.
    pub fn dump(&self, graph: &Graph) -> String {
        let mut out = String::from("\n===1. GRAPH===\n");
        out += &String::from_utf8_lossy(&print(graph, PrintOptions::default()));
        out += "\n===2. ALIAS DB===\n";
        let dump = Dump { db: self, graph, names: self.names(graph) };
        dump.elements(&mut out);
        out += "\n===3. Writes===\n";
        dump.writes(&mut out);
        out + "\n"
    }

    fn names(&self, graph: &Graph) -> FxHashMap<Element, Value> {
        let mut names = FxHashMap::default();
        for value in values(graph) {
            if let Some(element) = self.element(value) {
                names.entry(element).or_insert(value);
            }
        }
        names
    }

    fn element(&self, value: Value) -> Option<Element> {
        *self.elements.get(crate::entity::Entity::index(value))?
    }
}

/// The values of a graph in the order of their definitions.
fn values(graph: &Graph) -> impl Iterator<Item = Value> + '_ {
    let nested = graph.all_nodes().flat_map(|node| {
        let params = graph.node_blocks(node).flat_map(|block| graph.params(block));
        graph.outputs(node).chain(params)
    });
    graph.params(graph.root()).chain(nested)
}

struct Dump<'a> {
    db: &'a AliasDb,
    graph: &'a Graph,
    names: FxHashMap<Element, Value>,
}

impl Dump<'_> {
    fn elements(&self, out: &mut String) {
        let mut contains: FxHashMap<Element, Vec<String>> = FxHashMap::default();
        for &(container, content) in &self.db.draft.contains {
            contains.entry(container).or_default().push(self.name(content));
        }
        for value in values(self.graph) {
            let Some(element) = self.db.element(value) else {
                continue;
            };
            let targets = self.targets(value, element);
            // Writing to a string cannot fail.
            if !targets.is_empty() {
                let _ = writeln!(out, "%{} points to: {}", self.graph.name(value), targets.join(", "));
            }
            if let Some(held) = contains.get(&element).filter(|_| !self.is_wildcard(element)) {
                let _ = writeln!(out, "%{} contains: {},", self.graph.name(value), held.join(", "));
            }
        }
    }

    /// The targets of a points-to edge; the wildcard where the element was merged with one, which
    /// leaves no edges.
    fn targets(&self, value: Value, element: Element) -> Vec<String> {
        if self.is_wildcard(element) {
            return vec![self.name(element)];
        }
        let targets: Vec<String> = self.db.draft.targets(element).map(|target| self.name(target)).collect();
        if targets.is_empty() && self.db.may_alias_wildcard(value) {
            return vec![self.wildcard_name(element)];
        }
        targets
    }

    fn is_wildcard(&self, element: Element) -> bool {
        self.db.draft.wildcard(self.db.draft.elements[element].class) == element
    }

    fn wildcard_name(&self, element: Element) -> String {
        format!("WILDCARD for type {}", self.db.draft.classes.rows[self.db.draft.elements[element].class].ty)
    }

    fn name(&self, element: Element) -> String {
        match self.names.get(&element) {
            Some(&value) if !self.is_wildcard(element) => format!("%{}", self.graph.name(value)),
            _ => self.wildcard_name(element),
        }
    }

    fn writes(&self, out: &mut String) {
        let mut printer = Printer::new(PrintOptions { no_comments: true, ..PrintOptions::default() });
        for node in self.graph.all_nodes().filter(|&node| self.db.is_writing(node) && self.graph.num_blocks(node) == 0)
        {
            printer.out.clear();
            printer.node_line(self.graph, node);
            let _ = writeln!(out, "{}", String::from_utf8_lossy(&printer.out));
            let targets: Vec<String> = self.db.writes(node).map(|location| self.name(location.element())).collect();
            let _ = writeln!(out, "  {}, ", targets.join(", "));
        }
    }
}
