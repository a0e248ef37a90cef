//! The context of a running pass.

use super::gate::Gate;
use super::info::{PassError, PassInfo};
use super::pipeline::Stage;
use super::remark::{Remark, RemarkKind};
use crate::analysis::AliasDb;
use crate::interpreter::profile::Profile;
use crate::ir::{Graph, Node};
use crate::symbol::Symbol;
use crate::text::{ParseOptions, PrintOptions, Printer, parse};
use crate::types::release::Release;
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::str::FromStr;
use std::time::Instant;

/// State that lasts for a whole pipeline: counters, remarks, gates, callees.
#[derive(Default)]
pub struct Session {
    /// Counters: `pass.things-done` and how many.
    pub stats: FxHashMap<String, u64>,
    /// Whether remarks are enabled: creating them costs printing nodes.
    pub collects_remarks: bool,
    /// The recorded remarks.
    pub remarks: Vec<Remark>,
    /// Notes for the user, each once.
    pub notes: Vec<String>,
    /// The filter of rewrites.
    pub gate: Gate,
    /// Graphs of functions and methods for inlining, by qualified name.
    pub callees: BTreeMap<String, Graph>,
    /// The observed types of a profiled run, for guards.
    pub profile: Option<Rc<Profile>>,
    /// The time at which passes give up.
    pub deadline: Option<Instant>,
    /// The last alias analysis, which may still be valid for the next pass.
    pub alias: LastAnalysis,
    /// Called with the graph after each rewrite.
    pub watch: Option<Box<dyn RewriteWatch>>,
    /// The objection of the watch: no further rewrites happen.
    pub objection: Option<String>,
    /// Whether passes run over a graph of a differentiable subgraph.
    pub is_inside: bool,
    /// Warnings about the initial graph, reported when a pass fails on it.
    pub doubts: Vec<String>,
    /// The initial number of nodes of the graph.
    pub size_at_first: usize,
    /// The number of nested rounds of `fixpoint` that are running.
    pub rounds: usize,
    /// The passes that have changed the graph so far, except those inside of differentiable
    /// subgraphs.
    pub changed_by: Vec<String>,
    /// The passes that have run so far, by their short names, each once.
    pub ran: Vec<&'static str>,
    /// The number of candidate rewrites of each rule while a watch was set.
    pub came_up: FxHashMap<(&'static str, &'static str), u64>,
}

impl Session {
    /// Whether the deadline has passed.
    pub(crate) fn is_late(&self) -> bool {
        self.deadline.is_some_and(|end| Instant::now() > end)
    }
}

/// A performed rewrite.
#[derive(Clone, Debug)]
pub struct Rewrite {
    /// Short name of the pass.
    pub pass: &'static str,
    /// The rule.
    pub rule: &'static str,
    /// The number of the rewrite among the candidates of this rule, counted from 1, as
    /// `--debug-counter` takes it.
    pub number: u64,
    /// The anchor as it was printed before.
    pub node: String,
    /// The source location in the program.
    pub location: Option<String>,
    /// Whether the graph passed along is that of a section, and not the outer one.
    pub is_inside: bool,
}

/// A watch that is called after each rewrite, and may object.
pub trait RewriteWatch {
    /// Called after a rewrite, or before the next one begins; `graph` may be one of a section. A
    /// pass records the rewrite and then edits, so the graph is whole again only at the next
    /// rewrite or at the end of the pass.
    fn rewritten(&mut self, graph: &Graph, rewrite: &Rewrite) -> Result<(), String>;
}

/// The last result of [`PassContext::alias`], for any pass.
#[derive(Default)]
pub struct LastAnalysis(Option<Analysed>);

/// An alias analysis, its graph, and the epochs up to which its answers hold.
struct Analysed {
    graph: u64,
    db: Rc<AliasDb>,
    /// The computation for which its writes are valid.
    writes: u64,
}

/// The context of one run of a pass.
pub struct PassContext<'a> {
    pass: &'static PassInfo,
    stage: &'a Stage,
    session: &'a mut Session,
    counts: Vec<(&'static str, u64)>,
    /// Candidate rewrites, performed or not.
    queried: Vec<(&'static str, u64)>,
    /// The graph that the pass runs over; others are sections in it.
    whole: u64,
    /// The last rewrite, which was not shown to the watch yet.
    unseen: Option<Rewrite>,
}

fn bump(counts: &mut Vec<(&'static str, u64)>, name: &'static str, n: u64) {
    match counts.iter_mut().find(|(known, _)| *known == name) {
        Some((_, count)) => *count += n,
        None => counts.push((name, n)),
    }
}

impl<'a> PassContext<'a> {
    pub(super) fn new(stage: &'a Stage, session: &'a mut Session, graph: &Graph) -> Self {
        let (counts, queried, whole) = (Vec::new(), Vec::new(), graph.id().number());
        PassContext { pass: stage.pass, stage, session, counts, queried, whole, unseen: None }
    }

    /// Whether the pass runs over a graph of a differentiable subgraph.
    pub fn is_inside(&self) -> bool {
        self.session.is_inside
    }

    /// Adds the counters to the session.
    pub(super) fn finish(mut self, graph: &Graph) {
        self.show(graph);
        for (name, n) in self.counts {
            *self.session.stats.entry(format!("{}.{name}", self.pass.name)).or_default() += n;
        }
        for (name, _) in self.queried {
            self.session.stats.entry(format!("{}.{name}", self.pass.name)).or_default();
        }
    }

    /// The value of an option, or its default when it was not set.
    pub fn option<T: FromStr>(&self, name: &'static str) -> Result<T, PassError> {
        let set = self.stage.options.iter().rev().find(|(n, _)| *n == name).map(|(_, value)| value.as_str());
        let text = set.or_else(|| self.pass.option(name).map(|option| option.default)).unwrap_or_default();
        text.parse().map_err(|_| PassError::misuse(format!("`{text}` is not a valid value for the option `{name}`")))
    }

    /// Whether a flag is set.
    pub fn flag(&self, name: &'static str) -> Result<bool, PassError> {
        self.option(name)
    }

    /// The graph in the file that an option names, parsed by the rules of `release`.
    pub fn graph_file(&self, name: &'static str, release: Release) -> Result<Graph, PassError> {
        let file = self.stage.files.iter().rev().find(|(option, _)| *option == name);
        let Some((_, text)) = file else {
            let help = format!("`{}{{{name}=FILE}}`", self.pass.name);
            return Err(PassError::misuse(format!("`{name}` requires a file")).with_help(help));
        };
        match parse(text, ParseOptions::of(release)) {
            Ok(parsed) => Ok(parsed.graph),
            Err(found) => {
                let first = found.first().map_or(String::new(), |diagnostic| diagnostic.message.clone());
                Err(PassError::misuse(format!("the file given as `{name}` does not contain a graph: {first}")))
            }
        }
    }

    /// The contents of the file that an option names, if there is one.
    pub fn file(&self, name: &'static str) -> Option<&[u8]> {
        let file = self.stage.files.iter().rev().find(|(option, _)| *option == name);
        file.map(|(_, bytes)| &**bytes)
    }

    /// Adds to a counter, for `--stats`.
    pub fn count(&mut self, name: &'static str, n: u64) {
        bump(&mut self.counts, name, n);
    }

    /// Asks the gate whether a rewrite may happen; [`PassContext::did`] must follow when it does.
    /// For passes that rewrite in bulk.
    pub fn may(&mut self, rule: &'static str) -> bool {
        // After the deadline all results are discarded; a pass that rewrites nothing ends soon.
        if self.session.is_late() {
            return false;
        }
        if self.session.watch.is_some() {
            *self.session.came_up.entry((self.pass.name, rule)).or_default() += 1;
            if self.session.objection.is_some() {
                return false;
            }
        }
        if self.session.gate.is_open() {
            return true;
        }
        bump(&mut self.queried, rule, 1);
        self.session.gate.admits(self.pass.name, rule)
    }

    /// Records a rewrite that [`PassContext::may`] allowed. `node` must still be printable.
    pub fn did(&mut self, graph: &Graph, rule: &'static str, node: Node) {
        self.count(rule, 1);
        if self.session.watch.is_some() {
            self.show(graph);
            self.note(graph, rule, node);
        }
        if self.session.collects_remarks {
            self.remark(graph, RemarkKind::Passed, rule, node, String::new());
        }
    }

    /// Performs one rewrite of `rule` at `anchor`, unless a gate forbids it. Nodes that it creates
    /// descend from the anchor.
    pub fn rewrite<R>(
        &mut self,
        graph: &mut Graph,
        rule: &'static str,
        anchor: Node,
        edit: impl FnOnce(&mut Graph) -> R,
    ) -> Option<R> {
        if !self.may(rule) {
            return None;
        }
        self.did(graph, rule, anchor);
        Some(self.prepare(graph, rule, anchor, edit))
    }

    /// Performs an edit that the same run of the pass reverts, rewrite by rewrite: nodes that it
    /// creates descend from the anchor, and no gate applies.
    pub fn prepare<R>(
        &mut self,
        graph: &mut Graph,
        rule: &'static str,
        anchor: Node,
        edit: impl FnOnce(&mut Graph) -> R,
    ) -> R {
        let outer = graph.begin_rewrite(Symbol::new(rule), &[anchor]);
        let result = edit(graph);
        graph.end_rewrite(outer);
        result
    }

    /// Whether missed remarks are observed: finding the reasons may be expensive.
    pub fn collects_remarks(&self) -> bool {
        self.session.collects_remarks
    }

    /// Adds a note for the user, once.
    pub fn advise(&mut self, text: String) {
        if !self.session.notes.contains(&text) {
            self.session.notes.push(text);
        }
    }

    /// Records that a rewrite did not happen, with the reason.
    pub fn missed(&mut self, graph: &Graph, rule: &'static str, node: Node, why: impl FnOnce() -> String) {
        if self.session.collects_remarks {
            self.remark(graph, RemarkKind::Missed, rule, node, why());
        }
    }

    fn note(&mut self, graph: &Graph, rule: &'static str, node: Node) {
        let number = self.session.came_up.get(&(self.pass.name, rule)).copied().unwrap_or(1);
        let (node, location) = shown(graph, node);
        self.unseen =
            Some(Rewrite { pass: self.pass.name, rule, number, node, location, is_inside: self.session.is_inside });
    }

    /// Passes the last rewrite to the watch.
    fn show(&mut self, graph: &Graph) {
        let (Some(mut rewrite), Some(watch)) = (self.unseen.take(), self.session.watch.as_mut()) else { return };
        rewrite.is_inside |= graph.id().number() != self.whole;
        if self.session.objection.is_none()
            && let Err(objection) = watch.rewritten(graph, &rewrite)
        {
            self.session.objection = Some(objection);
        }
    }

    fn remark(&mut self, graph: &Graph, kind: RemarkKind, rule: &'static str, node: Node, message: String) {
        let (node, location) = shown(graph, node);
        self.session.remarks.push(Remark { kind, pass: self.pass.name, rule, node, location, message });
    }

    /// The alias analysis of `graph`, recomputed when the last one is out of date.
    pub fn alias(&mut self, graph: &Graph) -> Rc<AliasDb> {
        match &self.session.alias.0 {
            Some(last) if last.graph == graph.id().number() && last.db.is_current(graph) => last.db.clone(),
            _ => self.analyse(graph),
        }
    }

    /// An analysis whose facts about writes, and about the values through which they are visible,
    /// are valid: for passes that query only these. The last analysis serves as long as nodes were
    /// only merged, see [`PassContext::keep_writes`].
    pub fn alias_of_writes(&mut self, graph: &Graph) -> Rc<AliasDb> {
        let now = graph.epoch().computation;
        match &self.session.alias.0 {
            Some(last) if last.graph == graph.id().number() && last.writes == now => last.db.clone(),
            _ => self.alias(graph),
        }
    }

    /// Declares that all edits since [`PassContext::alias`] only replaced values by others, neither
    /// of which is written to: facts about writes are still valid.
    pub fn keep_writes(&mut self, graph: &Graph) {
        if let Some(last) = self.session.alias.0.as_mut().filter(|last| last.graph == graph.id().number()) {
            last.writes = graph.epoch().computation;
        }
    }

    fn analyse(&mut self, graph: &Graph) -> Rc<AliasDb> {
        self.session.alias.0 = None;
        let (db, writes) = (Rc::new(AliasDb::new(graph)), graph.epoch().computation);
        self.session.alias.0 = Some(Analysed { graph: graph.id().number(), db: db.clone(), writes });
        db
    }

    /// The observed types of a profiled run, when a profile was given.
    pub fn profile(&self) -> Option<Rc<Profile>> {
        self.session.profile.clone()
    }

    /// Whether a pass of this short name has run before in the pipeline, whether or not it changed
    /// anything.
    pub fn has_run(&self, name: &str) -> bool {
        self.session.ran.contains(&name)
    }

    /// The passes that have changed the graph before this one, as a pipeline; nothing where it is
    /// unchanged.
    pub fn changed_by(&self) -> Option<String> {
        (!self.session.changed_by.is_empty()).then(|| self.session.changed_by.join(","))
    }

    /// The graph that replaces a call of this qualified name.
    pub fn callee(&self, name: &str) -> Option<&Graph> {
        self.session.callees.get(name)
    }
}

/// A node as it is printed, and its source location.
fn shown(graph: &Graph, node: Node) -> (String, Option<String>) {
    let mut printer = Printer::new(PrintOptions { no_comments: true, ..PrintOptions::default() });
    printer.node_line(graph, node);
    let location = graph.origin_location(node).map(|at| String::from_utf8_lossy(at).into_owned());
    (String::from_utf8_lossy(&printer.out).trim().to_owned(), location)
}
