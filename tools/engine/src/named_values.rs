//! Values that options name: `%v` in the graph itself, `prim::FusionGroup_0/%v` in one of its
//! sections.
//!
//! Sections are named as in the text. Nested sections are numbered anew, so their names form a
//! path: `prim::DifferentiableGraph_0/prim::FusionGroup_0/%v`.

use crate::error::{Error, refuse};
use crate::settings::Setting;
use jitopt_core::interpreter::content_names::sections;
use jitopt_core::interpreter::{Backend, Environment, Future, IValue, Outs};
use jitopt_core::ir::{Graph, Node, Value};
use jitopt_core::log::did_you_mean;
use std::collections::BTreeSet;

/// A value, with the number of its graph.
pub(crate) type Place = (u64, Value);

/// A value that an option names.
pub(crate) struct Named<'g> {
    /// The graph that contains it.
    pub(crate) graph: &'g Graph,
    pub(crate) value: Value,
    /// The graphs on the path to it, its own included; empty for a value of the outermost graph.
    pub(crate) way: Vec<u64>,
}

impl Named<'_> {
    pub(crate) fn place(&self) -> Place {
        (self.graph.id().number(), self.value)
    }
}

/// The value of the graph or of one of its sections that a setting names; `text` lacks the first
/// `%`.
pub(crate) fn find<'g>(setting: Setting, text: &str, graph: &'g Graph) -> Result<Named<'g>, Error> {
    let (path, name) = text.rsplit_once("/%").unwrap_or(("", text));
    let (mut inner, mut way) = (graph, Vec::new());
    for part in path.split('/').filter(|part| !part.is_empty()) {
        let Some((_, section)) = sections(inner).find(|(name, _)| name == part) else {
            let names: Vec<String> = sections(inner).map(|(name, _)| name).collect();
            let near = did_you_mean(part, names.iter().map(String::as_str));
            let near = near.map_or(String::new(), |near| format!("; did you mean `{near}`?"));
            return refuse(format_args!("{setting}: there is no section {part}{near}"));
        };
        way.push(section.id().number());
        inner = section;
    }
    match inner.value_named(name.as_bytes()) {
        Some(value) => Ok(Named { graph: inner, value, way }),
        None => refuse(format_args!("{setting}: there is no value %{text}{}", suggestion(graph, inner, name))),
    }
}

/// Suggests where a value of this name, or of a similar one, is.
fn suggestion(graph: &Graph, inner: &Graph, name: &str) -> String {
    let mut paths = Vec::new();
    let mut work = vec![(String::new(), graph)];
    while let Some((path, graph)) = work.pop() {
        if graph.value_named(name.as_bytes()).is_some() {
            paths.push(format!("`{path}%{name}`"));
        }
        work.extend(sections(graph).map(|(name, section)| (format!("{path}{name}/"), section)));
    }
    paths.sort();
    if !paths.is_empty() {
        return format!("; did you mean {}?", paths.join(" or "));
    }
    let names: Vec<String> = inner.all_nodes().flat_map(|n| inner.outputs(n)).map(|v| inner.name(v)).collect();
    let near = did_you_mean(name, names.iter().map(String::as_str));
    near.map_or(String::new(), |near| format!("; did you mean `%{near}`?"))
}

/// A backend that does not run sections with observed values: kernels do not keep intermediate
/// values.
#[derive(Debug)]
pub(crate) struct Except<'b> {
    pub(crate) backend: &'b dyn Backend,
    pub(crate) sections: BTreeSet<u64>,
}

impl Backend for Except<'_> {
    fn section(
        &self,
        graph: &Graph,
        node: Node,
        section: &Graph,
        operands: &[IValue],
        env: &Environment,
    ) -> Option<Outs> {
        let watched = self.sections.contains(&section.id().number());
        if watched { None } else { self.backend.section(graph, node, section, operands, env) }
    }

    fn fork(&self, graph: &Graph, node: Node, body: &Graph, operands: &[IValue], env: &Environment) -> Option<Future> {
        let is_observed = !self.sections.is_empty();
        if is_observed { None } else { self.backend.fork(graph, node, body, operands, env) }
    }
}
