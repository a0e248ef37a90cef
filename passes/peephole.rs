//! Replaces small patterns by cheaper equivalents: a pattern is one node and the nodes that define
//! its operands.
//!
//! ```text
//! %u : Tensor = aten::t(%x)              %y : Tensor = aten::relu(%x)
//! %v : Tensor = aten::t(%u)       =>
//! %y : Tensor = aten::relu(%v)
//! ```
//!
//! The rules are rows of [`RULES`], in files by subject: each with its name, which is also its
//! counter, its algebraic law, whether PyTorch has it, and a function that only reads the graph and
//! returns an [`Edit`]. The driver here gates, counts and performs the edits.
//! `tools/opt/tests/suite/peephole_universe.rs` proves every row on all small operands.
//!
//! A rule that makes two values share memory (`x * 1`) is refused where either is written to, where
//! both are visible outside, and where a node of the graph can tell strides apart. The era of the
//! graph determines which rules run, as in PyTorch; `{more}` runs all of them.
//!
//! Known errors of PyTorch are not copied: `i / 1` of an int is a float, NaN differs from itself,
//! `-0.0 + 0` is `0.0`, a bool tensor times 1 is an integer tensor, a type printed by 1.3 does not
//! give the device, and the caller may write to a list of sizes that is returned. With `{trusting}`
//! the last four are ignored, as in PyTorch; the first two never are.
//!
//! One worklist in printed order; a node is revisited when one of its operands was replaced, so
//! rules can enable each other. Every rewrite removes a use or shortens a chain. Linear in nodes:
//! one alias analysis at the start, amended as values replace others. Ends with a `dce` that knows
//! no aliases, as PyTorch. Idempotent, except for `{trusting}` on graphs of 2.x, which like PyTorch
//! skips values that share memory with a value that they replaced.

mod cat_rules;
mod container_rules;
mod facts;
mod number_rules;
mod part_rules;
mod structure_rules;
mod tensor_rules;

use crate::common_subexpression_elimination::StandIns;
use crate::dead_code_elimination;
pub use facts::{Facts, Number};
use jitopt_core::analysis::AliasDb;
use jitopt_core::ir::{Attribute, Graph, Node, Value};
use jitopt_core::pass::{PassContext, PassError, PassInfo, PassOption};
use jitopt_core::symbol::{Symbol, attr, prim};
use jitopt_core::types::era::Era;
use jitopt_core::types::release::Release;
use jitopt_core::types::{Simple, Type};
use jitopt_core::{graph_dump, graph_update};
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::VecDeque;
use std::rc::Rc;

/// The registry entry.
pub const PASS: PassInfo = PassInfo {
    name: "peephole",
    aliases: &["peephole-optimize"],
    summary: "replace small patterns by cheaper equivalents",
    example: "%u : Tensor = aten::t(%x), %v : Tensor = aten::t(%u)  =>  %x",
    options: &[
        flag("disable-shape", "disable rules that need sizes, element types or devices, as PyTorch's flag does"),
        flag("refine-list-len", "in a branch that is taken when a list has a certain length, use that length"),
        flag("addmm", "fuse mm and add into addmm, as peephole_addmm of 1.3 does"),
        flag("more", "also use rules that PyTorch of the graph's era lacks"),
        flag(
            "trusting",
            "assume that zeros have no sign, `Tensor` is not bool, 1.3's types are on the cpu, callers do not write to sizes",
        ),
        PassOption {
            name: "only",
            default: "all",
            summary: "use one group of rules: core, lists, dicts, identities, numbers, cats",
        },
    ],
    required: false,
    reads_shapes: true,
    run,
    file: file!(),
};

const fn flag(name: &'static str, summary: &'static str) -> PassOption {
    PassOption { name, default: "false", summary }
}

/// One rule.
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    /// The name, which is also the counter.
    pub name: &'static str,
    /// Kinds of nodes that the rule applies to; none for all.
    pub kinds: &'static [&'static str],
    /// The group that `only=` selects.
    pub group: &'static str,
    /// The versions of PyTorch that have the rule.
    pub known: Known,
    /// Whether the rule needs sizes, element types or devices.
    pub shapes: bool,
    /// Whether the result shares memory with an operand that it did not share memory with before.
    pub shares: bool,
    /// The algebraic law, and its conditions.
    pub law: &'static str,
    /// The edit for a node, if the rule applies.
    pub find: fn(&Facts<'_>, Node) -> Option<Edit>,
}

/// The versions of PyTorch that have a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Known {
    /// All versions.
    Always,
    /// This release and later ones.
    Since(u32, u32),
    /// None: the rule runs under `{more}`.
    Nowhere,
    /// The option of this name enables the rule.
    Option(&'static str),
}

impl Rule {
    /// The usual row; rows that differ use struct update.
    const fn new(
        name: &'static str,
        kinds: &'static [&'static str],
        law: &'static str,
        find: fn(&Facts<'_>, Node) -> Option<Edit>,
    ) -> Rule {
        Rule { name, kinds, group: "core", known: Known::Always, shapes: false, shares: false, law, find }
    }

    const fn known(self, known: Known) -> Rule {
        Rule { known, ..self }
    }

    const fn group(self, group: &'static str) -> Rule {
        Rule { group, ..self }
    }

    const fn shapes(self) -> Rule {
        Rule { shapes: true, ..self }
    }

    const fn shares(self) -> Rule {
        Rule { shares: true, ..self }
    }
}

/// The edit of a node. Nothing is erased here: values without uses are left for `dce`.
#[derive(Clone, Debug)]
pub enum Edit {
    /// Users of this output read another value.
    Output(usize, New),
    /// Users of the outputs read these values, in order.
    Outputs(Vec<Value>),
    /// The node reads other operands at these positions.
    Operands(Vec<(usize, New)>),
    /// This output has a better type.
    Retype(usize, Type),
}

/// A replacement value, created before the node if necessary.
#[derive(Clone, Debug)]
pub enum New {
    /// An existing value.
    Value(Value),
    /// A constant.
    Constant(Option<Attribute>, Type),
    /// A list of integers that is not shared.
    Numbers(Vec<i64>),
    /// A node with one output.
    Op(&'static str, Vec<New>, Type),
}

impl New {
    fn int(n: i64) -> New {
        New::Constant(Some(Attribute::Int(n)), Type::int())
    }

    fn bool(b: bool) -> New {
        New::Constant(Some(Attribute::Int(i64::from(b))), Type::bool())
    }

    fn device(name: &str) -> New {
        New::Constant(Some(Attribute::Str(name.as_bytes().into())), Type::simple(Simple::Device))
    }
}

/// Replaces the output of a node with one output by `value`.
fn forward(value: Value) -> Option<Edit> {
    Some(Edit::Output(0, New::Value(value)))
}

fn result(new: New) -> Option<Edit> {
    Some(Edit::Output(0, new))
}

/// All rules, those of one node in the order in which they are tried.
pub static RULES: &[&[Rule]] = &[
    structure_rules::RULES,
    tensor_rules::RULES,
    container_rules::RULES,
    number_rules::RULES,
    part_rules::RULES,
    cat_rules::RULES,
];

/// Every rule.
pub fn rules() -> impl Iterator<Item = &'static Rule> {
    RULES.iter().copied().flatten()
}

/// The options of the pass.
#[derive(Clone, Debug, Default)]
struct Options {
    disable_shape: bool,
    more: bool,
    trusting: bool,
    only: Option<String>,
    on: Vec<&'static str>,
}

impl Options {
    fn read(cx: &PassContext<'_>) -> Result<Options, PassError> {
        let only: String = cx.option("only")?;
        let groups: Vec<&str> = rules().map(|rule| rule.group).collect();
        if only != "all" && !groups.contains(&only.as_str()) {
            return Err(PassError::misuse(format!("there is no group of rules named `{only}`"))
                .with_help(PASS.options[5].summary));
        }
        let mut on = Vec::new();
        for name in ["refine-list-len", "addmm"] {
            on.extend(cx.flag(name)?.then_some(name));
        }
        Ok(Options {
            disable_shape: cx.flag("disable-shape")?,
            more: cx.flag("more")?,
            trusting: cx.flag("trusting")?,
            only: (only != "all").then_some(only),
            on,
        })
    }

    fn is_enabled(&self, rule: &Rule, release: Release) -> bool {
        let known = match rule.known {
            Known::Always => true,
            Known::Since(major, minor) => release >= Release(major, minor) || self.more,
            Known::Nowhere => self.more,
            Known::Option(name) => self.on.contains(&name),
        };
        known && !(self.disable_shape && rule.shapes) && self.only.as_deref().is_none_or(|only| only == rule.group)
    }
}

fn run(graph: &mut Graph, cx: &mut PassContext<'_>) -> Result<(), PassError> {
    let options = Options::read(cx)?;
    graph_dump!("Before peephole", graph);
    let wanted: Vec<&Rule> = rules().filter(|rule| options.is_enabled(rule, graph.release())).collect();
    let changed = apply(graph, cx, &wanted, options.trusting);
    if options.only.is_none() && (changed || graph.release().always_cleans_up()) {
        dead_code_elimination::eliminate(graph, cx, false);
    }
    graph_dump!("After peephole", graph);
    Ok(())
}

/// Applies rules until none applies; returns whether one did. [`PASS`] without options does this,
/// and tests use it with rules of their own.
pub fn apply(graph: &mut Graph, cx: &mut PassContext<'_>, rules: &[&'static Rule], trusting: bool) -> bool {
    let mut walk = Walk::new(graph, cx.alias(graph), rules, trusting);
    let mut changed = false;
    while let Some(node) = walk.queue.pop_front() {
        walk.queued.remove(&node);
        changed |= walk.visit(graph, cx, node);
    }
    changed
}

struct Walk {
    db: Rc<AliasDb>,
    by_kind: FxHashMap<Symbol, Vec<&'static Rule>>,
    /// Rules for nodes of every kind.
    general: Vec<&'static Rule>,
    queue: VecDeque<Node>,
    queued: FxHashSet<Node>,
    /// Values created after the analysis, and the value whose memory they have.
    stands_for: FxHashMap<Value, Value>,
    sharing: Sharing,
    trusting: bool,
    strides_matter: bool,
    /// See [`Facts`].
    reshapes: bool,
}

/// The values that began to share memory.
enum Sharing {
    /// Tracked exactly.
    Exact(StandIns),
    /// As PyTorch 2.x: a value that took part once is skipped afterwards.
    Once(FxHashSet<Value>),
    /// As PyTorch 1.3, which checked nothing; this pass checks for writers.
    Untracked,
}

impl Walk {
    fn new(graph: &Graph, db: Rc<AliasDb>, rules: &[&'static Rule], trusting: bool) -> Walk {
        let mut by_kind: FxHashMap<Symbol, Vec<&'static Rule>> = FxHashMap::default();
        for rule in rules {
            for kind in rule.kinds {
                by_kind.entry(Symbol::new(kind)).or_default().push(rule);
            }
        }
        let general: Vec<&'static Rule> = rules.iter().copied().filter(|rule| rule.kinds.is_empty()).collect();
        let concerned = |node: &Node| !general.is_empty() || by_kind.contains_key(&graph.kind(*node));
        let queue: VecDeque<Node> = graph.all_nodes().filter(concerned).collect();
        let sharing = match (trusting, graph.era) {
            (false, _) => Sharing::Exact(StandIns::default()),
            (true, Era::V2) => Sharing::Once(FxHashSet::default()),
            (true, Era::V1_3) => Sharing::Untracked,
        };
        let (queued, stands_for) = (queue.iter().copied().collect(), FxHashMap::default());
        let strides_matter = !trusting && facts::reads_strides(graph);
        let reshapes = !trusting && facts::reshapes(graph);
        Walk { db, by_kind, general, queue, queued, stands_for, sharing, trusting, strides_matter, reshapes }
    }

    fn facts<'a>(&'a self, graph: &'a Graph) -> Facts<'a> {
        Facts { graph, db: &self.db, stands_for: &self.stands_for, trusting: self.trusting, reshapes: self.reshapes }
    }

    /// Applies rules to a node until none applies.
    fn visit(&mut self, graph: &mut Graph, cx: &mut PassContext<'_>, node: Node) -> bool {
        if graph.block_of(node).is_none() || !graph.outputs(node).any(|output| graph.has_uses(output)) {
            return false;
        }
        let of_kind = self.by_kind.get(&graph.kind(node)).cloned().unwrap_or_default();
        for rule in of_kind.iter().chain(&self.general.clone()) {
            let Some(edit) = (rule.find)(&self.facts(graph), node) else { continue };
            // Of several outputs, one without readers would be replaced again and again.
            if matches!(&edit, Edit::Output(i, _) if !graph.has_uses(graph.output(node, *i))) {
                continue;
            }
            if self.may_do(graph, cx, rule, node, &edit) {
                cx.rewrite(graph, rule.name, node, |graph| self.edit(graph, node, edit));
                return true;
            }
        }
        false
    }

    /// Checks for new sharing of memory, then the gate through [`PassContext::rewrite`].
    fn may_do(&mut self, graph: &Graph, cx: &mut PassContext<'_>, rule: &Rule, node: Node, edit: &Edit) -> bool {
        let (true, Edit::Output(i, New::Value(new))) = (rule.shares, edit) else { return true };
        let (old, new) = (graph.output(node, *i), *new);
        let why = if !self.may_share(graph, old, new) {
            "the result would share memory that is written to, or that is visible outside twice"
        } else if self.strides_matter && !self.facts(graph).is_contiguous(new) {
            "the graph reads strides, which may differ"
        } else {
            self.share(old, new);
            return true;
        };
        cx.missed(graph, rule.name, node, || why.to_owned());
        false
    }

    fn may_share(&self, graph: &Graph, old: Value, new: Value) -> bool {
        let facts = self.facts(graph);
        let (before, after) = (facts.memory(old), facts.memory(new));
        match &self.sharing {
            Sharing::Exact(stand_ins) => stand_ins.safe(&self.db, before, after),
            Sharing::Once(stale) => {
                !stale.contains(&old) && !stale.contains(&new) && self.db.safe_to_change_aliasing(before, after)
            }
            Sharing::Untracked => !self.db.has_writers(before) && !self.db.has_writers(after),
        }
    }

    fn share(&mut self, old: Value, new: Value) {
        let memory = |value: Value| self.stands_for.get(&value).copied().unwrap_or(value);
        let (before, after) = (memory(old), memory(new));
        match &mut self.sharing {
            Sharing::Exact(stand_ins) => stand_ins.note(&self.db, before, after),
            Sharing::Once(stale) => stale.extend([old, new]),
            Sharing::Untracked => {}
        }
    }

    fn edit(&mut self, graph: &mut Graph, node: Node, edit: Edit) {
        graph_update!(
            "Simplifying {} of %{}",
            graph.kind(node),
            graph.outputs(node).next().map_or(String::new(), |v| graph.name(v))
        );
        match edit {
            Edit::Output(i, new) => {
                let old = graph.output(node, i);
                let made = !matches!(new, New::Value(_));
                let value = make(graph, node, new);
                if made {
                    let memory = self.stands_for.get(&old).copied().unwrap_or(old);
                    self.stands_for.insert(value, memory);
                }
                self.replace(graph, old, value);
            }
            Edit::Outputs(values) => {
                for (i, value) in values.into_iter().enumerate() {
                    self.replace(graph, graph.output(node, i), value);
                }
            }
            Edit::Operands(operands) => {
                for (i, new) in operands {
                    let value = make(graph, node, new);
                    graph.set_input(node, i, value);
                }
            }
            Edit::Retype(i, ty) => {
                graph.set_type(graph.output(node, i), ty);
                self.enqueue_users(graph, graph.output(node, i));
            }
        }
        self.enqueue(graph, node);
    }

    fn replace(&mut self, graph: &mut Graph, old: Value, new: Value) {
        self.enqueue_users(graph, old);
        graph.replace_all_uses(old, new);
    }

    /// A result of a block is used by the node that the block belongs to.
    fn enqueue_users(&mut self, graph: &Graph, value: Value) {
        let users: Vec<Node> = graph.users(value).collect();
        for user in users {
            let owner = (graph.kind(user) == prim::RETURN).then(|| graph.enclosing(user));
            owner.unwrap_or(Some(user)).into_iter().for_each(|user| self.enqueue(graph, user));
        }
    }

    fn enqueue(&mut self, graph: &Graph, node: Node) {
        let concerned = !self.general.is_empty() || self.by_kind.contains_key(&graph.kind(node));
        if concerned && self.queued.insert(node) {
            self.queue.push_back(node);
        }
    }
}

/// Creates a replacement value before `node`.
fn make(graph: &mut Graph, node: Node, new: New) -> Value {
    let made = match new {
        New::Value(value) => return value,
        New::Constant(attribute, ty) => {
            let constant = graph.create_op(prim::CONSTANT, &[], ty);
            attribute.into_iter().for_each(|attribute| graph.set_attribute(constant, attr::VALUE, attribute));
            constant
        }
        New::Numbers(numbers) => {
            let numbers: Vec<Value> = numbers.into_iter().map(|n| make(graph, node, New::int(n))).collect();
            graph.create_op(prim::LIST_CONSTRUCT, &numbers, Type::list(Type::int()))
        }
        New::Op(kind, operands, ty) => {
            let operands: Vec<Value> = operands.into_iter().map(|operand| make(graph, node, operand)).collect();
            graph.create_op(Symbol::new(kind), &operands, ty)
        }
    };
    graph.insert_before(node, made);
    graph.output(made, 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_used_once_and_laws_are_described() {
        let mut seen = FxHashSet::default();
        for rule in rules() {
            assert!(seen.insert(rule.name), "{} is there twice", rule.name);
            assert!(!rule.law.is_empty() && PASS.options[5].summary.contains(rule.group), "{}", rule.name);
        }
    }
}
