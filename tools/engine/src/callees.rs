//! Callees, given as `NAME=FILE`: graphs that `inline` substitutes for calls.

use crate::error::{Error, Kind, refuse};
use crate::given_texts::CalleeOf;
use crate::settings::CALLEE;
use crate::{Workspace, archives, reporting};
use jitopt_core::ir::{Attribute, Graph, Node};
use jitopt_core::log::did_you_mean;
use jitopt_core::pass::Pipeline;
use jitopt_core::symbol::{Symbol, attr, prim};
use jitopt_core::text::{ParseOptions, parse};
use jitopt_core::types::TypeKind;
use jitopt_core::verify;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Graphs by the names under which calls look them up.
pub type Callees = BTreeMap<String, Graph>;

/// Reads the callees of a pipeline, given as `NAME=FILE`.
///
/// # Errors
/// A name is given twice, a file does not contain a valid graph, or no pass of the pipeline reads
/// them.
pub fn load(
    given: &[CalleeOf],
    pipeline: &Pipeline,
    no_verify: bool,
    options: ParseOptions,
    workspace: &mut Workspace<'_>,
) -> Result<Callees, Error> {
    if given.is_empty() {
        return Ok(Callees::new());
    }
    if !pipeline.stages().iter().any(|stage| stage.pass.name == "inline") {
        return refuse(format_args!("{CALLEE}: `inline` is not in the pipeline `{pipeline}`"));
    }
    load_all(given, no_verify, options, workspace)
}

/// Reads callees, given as `NAME=FILE`. A broken callee would only surface as a broken result, so
/// it is verified here, where its file is known.
///
/// # Errors
/// A name is given twice, or a file does not contain a valid graph.
pub fn load_all(
    given: &[CalleeOf],
    no_verify: bool,
    options: ParseOptions,
    workspace: &mut Workspace<'_>,
) -> Result<Callees, Error> {
    let mut callees = Callees::new();
    for callee in given {
        let name = callee.name();
        if callees.contains_key(name) {
            return refuse(format_args!("{CALLEE}={callee}: `{name}` is given twice"));
        }
        let file = callee.file().to_string_lossy();
        callees.insert(name.to_owned(), read(&file, no_verify, options, workspace)?);
    }
    Ok(callees)
}

fn read(file: &str, no_verify: bool, options: ParseOptions, workspace: &mut Workspace<'_>) -> Result<Graph, Error> {
    let bytes = match std::fs::read(workspace.path(Path::new(file))) {
        Ok(bytes) => bytes,
        Err(error) => return refuse(format_args!("cannot read `{file}`: {error}")),
    };
    let wanted = archives::Wanted { inline: true, release: options.release, ..archives::Wanted::default() };
    if let Some(graph) = archives::graph(file, &bytes, &wanted).transpose()? {
        verified(file, &graph, no_verify, workspace)?;
        return Ok(graph);
    }
    let parsed = parse(&bytes, options).map_err(|diagnostics| {
        Error::new(Kind::Unparsable, reporting::render(file, &bytes, &diagnostics, workspace.coloured))
    })?;
    if !parsed.warnings.is_empty() {
        let warnings = reporting::render(file, &bytes, &parsed.warnings, workspace.coloured);
        workspace.say(warnings);
    }
    verified(file, &parsed.graph, no_verify, workspace)?;
    Ok(parsed.graph)
}

/// A callee with errors is refused in any case; warnings are shown unless verification is
/// disabled.
fn verified(file: &str, graph: &Graph, no_verify: bool, workspace: &mut Workspace<'_>) -> Result<(), Error> {
    let report = if no_verify { verify::verify_structure_only(graph) } else { verify::verify(graph) };
    let shown = || format!("{file}:\n{}", verify::render(graph, &report));
    if report.has_errors() {
        return Err(Error::new(Kind::Invalid, shown()));
    }
    if !report.findings.is_empty() {
        workspace.say(shown());
    }
    Ok(())
}

/// The callee names that calls look up. It finds callees that nothing calls, which would be silent
/// no-ops.
#[derive(Clone, Default)]
pub struct Calls {
    /// For each call, the names that `inline` looks up, in its order.
    names: BTreeSet<Vec<String>>,
}

impl Calls {
    /// Adds the calls of a graph and of the graphs in its nodes.
    pub fn add(&mut self, graph: &Graph) {
        let mut graphs = vec![graph];
        while let Some(graph) = graphs.pop() {
            self.names.extend(graph.all_nodes().filter_map(|node| names_of(graph, node)));
            graphs.extend(graph.all_nodes().filter_map(|node| graph.subgraph(node)));
        }
    }

    /// Adds the calls of another file.
    pub fn extend(&mut self, other: &Calls) {
        self.names.extend(other.names.iter().cloned());
    }

    /// The names of each call; the first is the qualified one.
    pub(crate) fn each(&self) -> impl Iterator<Item = &[String]> {
        self.names.iter().map(Vec::as_slice)
    }

    /// All names, for suggestions.
    pub(crate) fn all(&self) -> impl Iterator<Item = &str> {
        self.names.iter().flatten().map(String::as_str)
    }

    /// The elements of `given` that no call resolves to. A call resolves to the first of its names
    /// that was given.
    pub(crate) fn unused<'a>(&self, given: &BTreeSet<&'a str>) -> Vec<&'a str> {
        let taken: BTreeSet<&str> = self
            .names
            .iter()
            .filter_map(|names| names.iter().map(String::as_str).find(|name| given.contains(name)))
            .collect();
        given.iter().filter(|name| !taken.contains(*name)).copied().collect()
    }
}

/// Warns of callees that neither a file nor another callee calls.
pub fn warn_of_uncalled(callees: &Callees, mut calls: Calls, workspace: &mut Workspace<'_>) {
    callees.values().for_each(|graph| calls.add(graph));
    let given: BTreeSet<&str> = callees.keys().map(String::as_str).collect();
    for name in calls.unused(&given) {
        let near = did_you_mean(name, calls.all().filter(|called| !given.contains(called)));
        let near = near.map_or(String::new(), |near| format!("; did you mean `{near}`?"));
        workspace.warn(format!("{CALLEE} {name}: nothing calls it{near}"));
    }
}

/// The names under which the graph of a call may be given, as `inline` looks them up.
fn names_of(graph: &Graph, node: Node) -> Option<Vec<String>> {
    let kind = graph.kind(node);
    let first = graph.inputs(node).next()?;
    if kind == prim::CALL_FUNCTION {
        let constant = graph.definer(first).filter(|&node| graph.kind(node) == prim::CONSTANT)?;
        return Some(vec![text(graph, constant, attr::NAME)?]);
    }
    let method = (kind == prim::CALL_METHOD).then(|| text(graph, node, attr::NAME)).flatten()?;
    let mut names = Vec::new();
    if let TypeKind::Class(class) = graph.ty(first).kind() {
        let short = class.as_str().rsplit('.').next().unwrap_or_default();
        names.extend([format!("{class}.{method}"), format!("{short}.{method}")]);
    }
    names.push(method);
    Some(names)
}

fn text(graph: &Graph, node: Node, name: Symbol) -> Option<String> {
    match graph.attribute(node, name)? {
        Attribute::Str(bytes) => Some(String::from_utf8_lossy(bytes).into_owned()),
        _ => None,
    }
}
