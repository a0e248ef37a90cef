//! Pattern matching: finding the computation of one graph, a pattern, in another, and replacing it.
//!
//! ```text
//! graph(%a, %b):                          %3 : int = prim::Constant[value=1]()
//!   %one : int = prim::Constant[value=1]()  %4 : Tensor = aten::t(%w)
//!   %t = aten::t(%b)                      %5 : Tensor = aten::matmul(%x, %4)       matched, with %a = %x and %b = %w
//!   %r = aten::matmul(%a, %t)             %6 : Tensor = aten::neg(%w)
//!   return (%r)
//! ```
//!
//! A param of a pattern matches any value, consistently; nodes match nodes of the same kind and
//! attributes with as many operands; constants match equal constants; a type in the pattern matches
//! its subtypes. The results of a pattern are defined by its *anchor*, its last node, or by nodes
//! that it depends on.
//!
//! The pattern and its replacement are assumed to be equal when they run undisturbed. These
//! conditions make a replacement legal:
//!
//! - All nodes but constants stand in one block, and intermediate values have no readers outside
//!   the match.
//! - The replacement stands where the anchor stands, so the other nodes have to move there: nodes
//!   in between neither write to their operands nor read or write the memory that they write, and
//!   results are not read before the anchor. Where they touch written memory at all, at most
//!   `FARTHEST` nodes may stand in between, because the check is not free.
//! - Where a result of the replacement shares memory with a param and the pattern's result did not,
//!   or the reverse, neither is written to and at most one is visible outside.
//!
//! All matches are found before anything is edited, as in PyTorch, in the order of their anchors;
//! of two that share a node the first wins. Matching costs the size of the pattern at each anchor.

use super::alias::AliasDb;
use crate::entity::EntitySet;
use crate::ir::{Block, Graph, Node, Value, ValueMap};
use crate::symbol::{attr, prim};
use crate::types::Type;
use rustc_hash::{FxHashMap, FxHashSet};

/// The maximum number of nodes between the nodes of a match where memory that they touch is
/// written.
const FARTHEST: usize = 64;

/// The maximum number of nodes of a pattern: each is compared for each anchor.
const LARGEST: usize = 1000;

/// A pattern and its replacement.
#[derive(Debug)]
pub struct Rule {
    pattern: Graph,
    replacement: Graph,
    anchor: Node,
    /// Whether results share memory with params, in the pattern and in the replacement; where the
    /// two agree, sharing does not change.
    keeps_sharing: bool,
    /// Whether constants of a match must have no other readers, as in PyTorch.
    pub exclusive: bool,
}

/// The reason why a graph is not a valid pattern, or not a valid replacement for one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unfit {
    /// The error message.
    pub message: String,
    /// Whether the replacement is invalid, not the pattern.
    pub in_replacement: bool,
}

/// An occurrence of the pattern.
#[derive(Debug)]
pub struct Match {
    /// The values that the values of the pattern match.
    pub values: FxHashMap<Value, Value>,
    /// The nodes except constants, the anchor first and each before the nodes that it reads.
    pub nodes: Vec<Node>,
    constants: Vec<Node>,
}

/// The reason why a node is not the anchor of a match.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mismatch {
    /// The pattern does not match.
    Elsewhere,
    /// The pattern matches, but must not be replaced.
    Refused(&'static str),
}

impl Rule {
    /// Creates a rule, when both graphs are valid sides of one.
    pub fn new(pattern: Graph, mut replacement: Graph) -> Result<Rule, Unfit> {
        let fits = |graph: &Graph, in_replacement| straight(graph).map_err(|message| Unfit { message, in_replacement });
        fits(&pattern, false)?;
        fits(&replacement, true)?;
        let anchor = anchor(&pattern).map_err(|message| Unfit { message, in_replacement: false })?;
        let ends = |graph: &Graph| (graph.params(graph.root()).len(), graph.results(graph.root()).len());
        if ends(&pattern) != ends(&replacement) {
            let ((a, b), (c, d)) = (ends(&pattern), ends(&replacement));
            let message = format!("it has {c} params and {d} results, but the pattern has {a} and {b}");
            return Err(Unfit { message, in_replacement: true });
        }
        // Names of the replacement would displace names of the graph.
        let made: Vec<Value> = replacement.all_nodes().flat_map(|n| replacement.outputs(n)).collect();
        made.into_iter().for_each(|value| replacement.clear_name(value));
        let keeps_sharing = sharing(&pattern) == sharing(&replacement);
        Ok(Rule { pattern, replacement, anchor, keeps_sharing, exclusive: false })
    }

    /// The params of the pattern with their names.
    pub fn params(&self) -> impl Iterator<Item = (String, Value)> + '_ {
        self.pattern.params(self.pattern.root()).map(|param| (self.pattern.name(param), param))
    }

    /// All matches that may be replaced, and the anchors of those that may not with the reason.
    /// `wanted` filters them last.
    pub fn find(
        &self,
        graph: &Graph,
        db: &AliasDb,
        wanted: &dyn Fn(&Match) -> bool,
    ) -> (Vec<Match>, Vec<(Node, &'static str)>) {
        let (mut matches, mut refused): (Vec<Match>, Vec<_>) = Default::default();
        let mut taken: EntitySet<Node> = EntitySet::new();
        for node in graph.all_nodes() {
            match self.at(graph, db, node) {
                Ok(found) if wanted(&found) && found.nodes.iter().all(|&node| !taken.contains(node)) => {
                    found.nodes.iter().for_each(|&node| _ = taken.insert(node));
                    matches.push(found);
                }
                Err(Mismatch::Refused(why)) => refused.push((node, why)),
                _ => {}
            }
        }
        (matches, refused)
    }

    /// The match whose anchor is `node`.
    pub(crate) fn at(&self, graph: &Graph, db: &AliasDb, node: Node) -> Result<Match, Mismatch> {
        if graph.kind(node) != self.pattern.kind(self.anchor) {
            return Err(Mismatch::Elsewhere);
        }
        let found = self.bind(graph, node).ok_or(Mismatch::Elsewhere)?;
        let reasons = [
            (self.is_hidden(graph, &found), "an intermediate value has another reader"),
            (self.is_in_time(graph, &found), "a result of it is read before its last node"),
            (is_undisturbed(graph, db, &found), "a node between its nodes writes to or reads memory that they touch"),
            (
                self.keeps_memory(db, &found),
                "the sharing of memory would change, and the memory is written to or visible outside",
            ),
        ];
        let objection = reasons.into_iter().find(|(holds, _)| !holds);
        objection.map_or(Ok(found), |(_, why)| Err(Mismatch::Refused(why)))
    }

    /// Matches the values of the pattern when the anchor is `node`.
    fn bind(&self, graph: &Graph, node: Node) -> Option<Match> {
        let block = graph.block_of(node)?;
        let mut found = Match { values: FxHashMap::default(), nodes: Vec::new(), constants: Vec::new() };
        let mut bound: FxHashMap<Node, Node> = FxHashMap::default();
        let mut work = vec![(self.anchor, node)];
        while let Some((ours, theirs)) = work.pop() {
            match bound.get(&ours) {
                Some(&other) if other == theirs => continue,
                Some(_) => return None,
                None => bound.insert(ours, theirs),
            };
            if !self.is_like(graph, ours, theirs) {
                return None;
            }
            if graph.kind(theirs) == prim::CONSTANT {
                found.constants.push(theirs);
            } else {
                let here = graph.block_of(theirs) == Some(block);
                if !here {
                    return None;
                }
                found.nodes.push(theirs);
            }
            for (a, b) in self.pattern.outputs(ours).zip(graph.outputs(theirs)) {
                self.bind_value(graph, &mut found, a, b)?;
            }
            for (a, b) in self.pattern.inputs(ours).zip(graph.inputs(theirs)) {
                self.bind_value(graph, &mut found, a, b)?;
                if !self.pattern.is_param(a) {
                    let same_place = self.pattern.output_index(a) == graph.output_index(b);
                    work.push((self.pattern.definer(a)?, graph.definer(b).filter(|_| same_place)?));
                }
            }
        }
        // Distinct nodes of a pattern match distinct nodes; the order is that of the block,
        // backwards.
        let distinct: FxHashSet<Node> = found.nodes.iter().copied().collect();
        (distinct.len() == found.nodes.len()).then_some(())?;
        found.nodes.sort_unstable_by_key(|&node| std::cmp::Reverse(graph.order_of(node)));
        Some(found)
    }

    /// Records that `b` matches the pattern's value `a`.
    fn bind_value(&self, graph: &Graph, found: &mut Match, a: Value, b: Value) -> Option<()> {
        let typed = self.pattern.written_type(a).is_none_or(|ty| graph.ty(b).is_subtype_of(ty));
        let same = *found.values.entry(a).or_insert(b) == b;
        (typed && same).then_some(())
    }

    /// Whether a node matches one of the pattern, without its operands.
    fn is_like(&self, graph: &Graph, ours: Node, theirs: Node) -> bool {
        let (a, b) = (self.pattern.attributes(ours), graph.attributes(theirs));
        let ty: Option<Type> = graph.single_output(theirs).map(|value| graph.ty(value));
        let same = |(name, value): &(_, crate::ir::Attribute)| {
            graph.attribute(theirs, *name).is_some_and(|other| value.same_constant(other, ty))
        };
        let alike = a.len() == b.len() && a.iter().all(same);
        self.pattern.kind(ours) == graph.kind(theirs)
            && self.pattern.num_inputs(ours) == graph.num_inputs(theirs)
            && self.pattern.num_outputs(ours) == graph.num_outputs(theirs)
            && graph.num_blocks(theirs) == 0
            && alike
    }

    /// Whether intermediate values have no readers outside the match.
    fn is_hidden(&self, graph: &Graph, found: &Match) -> bool {
        let results: FxHashSet<Value> =
            self.pattern.results(self.pattern.root()).map(|value| found.values[&value]).collect();
        let inside = |user: Node| found.nodes.contains(&user);
        let unread =
            |node: Node| graph.outputs(node).all(|value| results.contains(&value) || graph.users(value).all(inside));
        let hidden = found.nodes.iter().all(|&node| unread(node));
        hidden && (!self.exclusive || found.constants.iter().all(|&node| unread(node)))
    }

    /// Whether results are read only after the anchor.
    fn is_in_time(&self, graph: &Graph, found: &Match) -> bool {
        let anchor = found.nodes[0];
        let late = |user: Node| found.nodes.contains(&user) || graph.is_before(anchor, user);
        self.pattern.results(self.pattern.root()).all(|value| graph.users(found.values[&value]).all(late))
    }

    /// Whether a change in the sharing of memory cannot be observed.
    fn keeps_memory(&self, db: &AliasDb, found: &Match) -> bool {
        let mut results = self.pattern.results(self.pattern.root()).map(|value| found.values[&value]);
        let params = || self.pattern.params(self.pattern.root()).map(|value| found.values[&value]);
        let safe = |result: Value| params().all(|param| db.safe_to_change_aliasing(result, param));
        self.keeps_sharing || results.all(safe)
    }

    /// Inserts the replacement at the last node of a match; erases the nodes of the match, and
    /// constants that become unread. Values that earlier replacements erased are looked up in
    /// `renamed`, which is extended with those of this one.
    pub fn replace(&self, graph: &mut Graph, found: &Match, renamed: &mut FxHashMap<Value, Value>) {
        let anchor = found.nodes[0];
        let current = |value: Value, renamed: &FxHashMap<Value, Value>| renamed.get(&value).copied().unwrap_or(value);
        let mut map = ValueMap::default();
        let ends = |graph: &Graph, block: Block| -> (Vec<Value>, Vec<Value>) {
            (graph.params(block).collect(), graph.results(block).collect())
        };
        let (params, results) = ends(&self.pattern, self.pattern.root());
        let (new_params, new_results) = ends(&self.replacement, self.replacement.root());
        for (ours, theirs) in params.iter().zip(new_params) {
            map.insert(theirs, current(found.values[ours], renamed));
        }
        for node in self.replacement.nodes(self.replacement.root()) {
            let copy = graph.copy_node(Some(&self.replacement), node, &mut map);
            graph.insert_before(anchor, copy);
            located(graph, copy, found);
        }
        for (ours, theirs) in results.iter().zip(new_results) {
            let (old, new) = (found.values[ours], map[&theirs]);
            if old != new && !renamed.contains_key(&old) {
                self.take_over(graph, old, new);
                renamed.insert(old, new);
            }
        }
        for &node in found.nodes.iter().chain(&found.constants) {
            if graph.block_of(node).is_some() && graph.outputs(node).all(|value| !graph.has_uses(value)) {
                graph.erase(node);
            }
        }
    }

    /// Redirects readers of `old` to `new`, which takes over its name and type.
    fn take_over(&self, graph: &mut Graph, old: Value, new: Value) {
        graph.replace_all_uses(old, new);
        let made = graph.definer(new).is_some_and(|node| graph.kind(node) != prim::PARAM);
        if made {
            graph.move_name_to_nameless(old, new);
        }
        if made && graph.written_type(new).is_none_or(|ty| graph.ty(old).is_subtype_of(ty)) {
            graph.set_type(new, graph.ty(old));
        }
    }
}

/// Gives a new node the source location and the scope of the matched node of its kind, or else
/// those of the anchor, unless the replacement has its own.
fn located(graph: &mut Graph, new: Node, found: &Match) {
    let kind = graph.kind(new);
    let mut matched = found.nodes.iter().chain(&found.constants).copied();
    let from = matched.find(|&node| graph.kind(node) == kind).unwrap_or(found.nodes[0]);
    if graph.location(new).is_none() {
        graph.copy_location(from, new);
    }
    if graph.scope(new).is_none() {
        graph.copy_scope(from, new);
    }
}

// ---- the sides of a rule

/// Checks that a graph is a sequence of nodes without blocks and sections, and has results.
fn straight(graph: &Graph) -> Result<(), String> {
    let nested = |node: Node| graph.num_blocks(node) > 0 || graph.attribute(node, attr::SUBGRAPH).is_some();
    if let Some(node) = graph.all_nodes().find(|&node| nested(node)) {
        return Err(format!(
            "`{}` has blocks or a section: only a sequence of plain nodes can be matched",
            graph.kind(node)
        ));
    }
    let count = graph.all_nodes().take(LARGEST + 1).count();
    let undefined = graph.all_nodes().flat_map(|node| graph.inputs(node)).chain(graph.results(graph.root()));
    match undefined.into_iter().find(|&value| graph.definer(value).is_none()) {
        Some(value) => Err(format!("%{} is not defined", graph.name(value))),
        None if graph.results(graph.root()).len() == 0 => Err("it returns nothing".to_owned()),
        None if count > LARGEST => Err(format!("it has more than {LARGEST} nodes")),
        None => Ok(()),
    }
}

/// The node of a pattern that depends on every other.
fn anchor(pattern: &Graph) -> Result<Node, String> {
    let results: Vec<Value> = pattern.results(pattern.root()).collect();
    if let Some(&param) = results.iter().find(|&&value| pattern.is_param(value)) {
        return Err(format!("it returns its param %{}: a result must be computed by a node", pattern.name(param)));
    }
    let last = results.iter().filter_map(|&value| pattern.definer(value)).max_by_key(|&node| pattern.order_of(node));
    let anchor = last.filter(|&node| pattern.kind(node) != prim::CONSTANT).ok_or("it computes nothing")?;
    let mut reached: EntitySet<Node> = EntitySet::new();
    let mut work = vec![anchor];
    while let Some(node) = work.pop() {
        if reached.insert(node) {
            work.extend(pattern.inputs(node).filter_map(|value| pattern.definer(value)));
        }
    }
    let unread = pattern.params(pattern.root()).find(|&param| !pattern.has_uses(param));
    match (pattern.all_nodes().find(|&node| !reached.contains(node)), unread) {
        (Some(node), _) => Err(format!(
            "`{}` is not needed for `{}`, the last returned node: matching starts there",
            pattern.kind(node),
            pattern.kind(anchor)
        )),
        (None, Some(param)) => Err(format!("%{} is unused: it would match any value", pattern.name(param))),
        (None, None) => Ok(anchor),
    }
}

/// The results that may share memory with a param or with each other.
fn sharing(graph: &Graph) -> Vec<bool> {
    let db = AliasDb::new(graph);
    let (params, results): (Vec<Value>, Vec<Value>) =
        (graph.params(graph.root()).collect(), graph.results(graph.root()).collect());
    let with_params = results.iter().map(|&result| params.iter().any(|&param| db.may_contain_alias(result, param)));
    let pairs = results.iter().enumerate().flat_map(|(i, &a)| results[..i].iter().map(move |&b| (a, b)));
    with_params.chain(pairs.map(|(a, b)| db.may_contain_alias(a, b))).collect()
}

// ---- nodes in between

/// Whether all nodes of a match may run at the position of the last of them.
fn is_undisturbed(graph: &Graph, db: &AliasDb, found: &Match) -> bool {
    let quiet = |&node: &Node| !db.node_has_writers(graph, node) && !db.is_writing(node) && !db.has_side_effects(node);
    if found.nodes.len() < 2 || found.nodes.iter().all(quiet) {
        return true;
    }
    let (last, first) = (found.nodes[0], found.nodes[found.nodes.len() - 1]);
    let (effects, writes) = (found.nodes.iter().any(|&n| db.has_side_effects(n)), |n: Node| db.is_writing(n));
    let touched = |node: Node| -> Vec<Value> { graph.inputs(node).chain(graph.outputs(node)).collect() };
    let theirs: Vec<Value> = found.nodes.iter().flat_map(|&node| touched(node)).collect();
    let mut between =
        std::iter::successors(graph.next(first), |&node| graph.next(node)).take_while(|&node| node != last);
    let near = between.clone().take(FARTHEST + 1).count() <= FARTHEST;
    let disturbs = |node: Node| {
        let reads =
            found.nodes.iter().any(|&ours| writes(ours) && db.writes_to_alias_of(ours, &nested_operands(graph, node)));
        !found.nodes.contains(&node)
            && (effects && db.has_side_effects(node) || db.writes_to_alias_of(node, &theirs) || reads)
    };
    near && !between.any(disturbs)
}

/// The operands of a node and of the nodes in its blocks.
fn nested_operands(graph: &Graph, node: Node) -> Vec<Value> {
    let (mut work, mut values) = (vec![node], Vec::new());
    while let Some(node) = work.pop() {
        values.extend(graph.inputs(node));
        work.extend(graph.node_blocks(node).flat_map(|block| graph.nodes(block)));
    }
    values
}
