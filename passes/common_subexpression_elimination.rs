//! Common subexpression elimination: equal nodes are computed once.
//!
//! ```text
//! %a : Tensor = aten::neg(%x)            %a : Tensor = aten::neg(%x)
//! %b : Tensor = aten::neg(%x)      =>    %c : Tensor = aten::mul(%a, %a)
//! %c : Tensor = aten::mul(%a, %b)
//! ```
//!
//! Two nodes are equal when their kinds, output types, ordered operands and attributes are equal.
//! Blocks see the values of the enclosing blocks. The pass skips effects, randomness, nodes with
//! blocks or subgraphs, and every value that is written to. Merging makes two values share memory,
//! so it is refused where both reach the graph's results (within a block), or where both escape
//! (across blocks). An unknown constant equals nothing. Types are compared exactly: `Float(*)` and
//! `Tensor` stay two.
//!
//! One hash table with an undo log serves all blocks in one forward traversal, linear in nodes.

use hashbrown::HashTable;
use jitopt_core::analysis::AliasDb;
use jitopt_core::ir::{Attribute, Block, Graph, Node, Value};
use jitopt_core::ops::rules::{AliasRule, Nondeterminism};
use jitopt_core::ops::schema::Formal;
use jitopt_core::ops::{self, Operator};
use jitopt_core::pass::{PassContext, PassError, PassInfo};
use jitopt_core::symbol::prim;
use jitopt_core::types::release::Release;
use jitopt_core::types::{Type, TypeKind};
use jitopt_core::{graph_dump, graph_update};
use rustc_hash::{FxHashSet, FxHasher};
use std::hash::{Hash, Hasher};
use std::rc::Rc;

/// The registry entry.
pub const PASS: PassInfo = PassInfo {
    name: "cse",
    aliases: &["eliminate-common-subexpression"],
    summary: "merge nodes that compute the same from the same operands",
    example: "%a : Tensor = aten::neg(%x), %b : Tensor = aten::neg(%x)  =>  %a : Tensor = aten::neg(%x)",
    options: &[],
    required: false,
    reads_shapes: true,
    run,
    file: file!(),
};

fn run(graph: &mut Graph, cx: &mut PassContext<'_>) -> Result<(), PassError> {
    graph_dump!("Before common subexpression elimination", graph);
    merge(graph, cx);
    graph_dump!("After common subexpression elimination", graph);
    Ok(())
}

/// Merges equal nodes; `fuse` does it to its groups.
pub(crate) fn merge(graph: &mut Graph, cx: &mut PassContext<'_>) {
    let db = cx.alias(graph);
    let mut walk = Walk {
        db,
        template_writes: template_writes(graph),
        table: HashTable::with_capacity(graph.num_shown_nodes()),
        scopes: Vec::new(),
        stand_ins: StandIns::default(),
    };
    walk.all_blocks(graph, cx);
    // No merged value is written to.
    cx.keep_writes(graph);
}

/// The values computed in one open block.
struct Scope {
    cursor: Option<Node>,
    /// The remaining blocks of the node before the cursor.
    owner: Option<(Node, usize)>,
    block: Block,
    /// The entries that the block added to the table; the root block, which is never left, keeps no
    /// list.
    added: Vec<(u32, Node)>,
}

struct Walk {
    db: Rc<AliasDb>,
    /// Whether a graph that this one may bail out to writes to memory: the number of distinct
    /// tensors passed to it must not change.
    template_writes: bool,
    /// Half a hash and a node: eight bytes per entry, for graphs of a million nodes.
    table: HashTable<(u32, Node)>,
    scopes: Vec<Scope>,
    stand_ins: StandIns,
}

/// Values that others were merged into. They are visible wherever the merged values were, but the
/// alias analysis predates the merge.
#[derive(Default)]
pub(crate) struct StandIns {
    returned: FxHashSet<Value>,
    escaping: FxHashSet<Value>,
}

impl StandIns {
    /// Records that `new` replaces `old`.
    pub(crate) fn note(&mut self, db: &AliasDb, old: Value, new: Value) {
        if self.returned.contains(&old) || db.may_alias_graph_output(old) {
            self.returned.insert(new);
        }
        if self.escapes(db, old) {
            self.escaping.insert(new);
        }
    }

    fn escapes(&self, db: &AliasDb, value: Value) -> bool {
        self.escaping.contains(&value) || db.escapes_scope(value)
    }

    /// As [`AliasDb::safe_to_change_aliasing`], taking the recorded replacements into account.
    pub(crate) fn safe(&self, db: &AliasDb, a: Value, b: Value) -> bool {
        let both_escape = || self.escapes(db, a) && self.escapes(db, b);
        !db.has_writers(a) && !db.has_writers(b) && !both_escape()
    }
}

/// Whether a graph that bailouts go to writes to any memory.
fn template_writes(graph: &Graph) -> bool {
    let mut templates = graph.nodes(graph.root()).filter(|&node| graph.kind(node) == prim::BAILOUT_TEMPLATE);
    templates.any(|node| {
        graph.subgraph(node).is_some_and(|template| {
            template.all_nodes().any(|node| {
                let operator = ops::operator(template.era, template.kind(node));
                let types: Vec<Type> = template.inputs(node).map(|value| template.ty(value)).collect();
                operator.may_write(operator.resolve(&types).schema())
            })
        })
    })
}

/// Whether a bailout forwards a value that can be written to.
fn is_forwarded(graph: &Graph, value: Value) -> bool {
    graph.ty(value).is_mutable() && graph.users(value).any(|user| graph.kind(user) == prim::BAILOUT)
}

impl Walk {
    /// Visits blocks in printed order, without recursion; leaving a block removes its entries from
    /// the table.
    fn all_blocks(&mut self, graph: &mut Graph, cx: &mut PassContext<'_>) {
        self.enter(graph, graph.root());
        while let Some(scope) = self.scopes.last_mut() {
            if let Some((owner, next)) = scope.owner {
                if next < graph.num_blocks(owner) {
                    scope.owner = Some((owner, next + 1));
                    self.enter(graph, graph.node_block(owner, next));
                    continue;
                }
                scope.owner = None;
            }
            let Some(node) = scope.cursor else {
                self.leave();
                continue;
            };
            scope.cursor = graph.next(node);
            if graph.num_blocks(node) > 0 {
                scope.owner = Some((node, 0));
            } else if self.may_merge(graph, node) {
                self.visit(graph, cx, node);
            }
        }
    }

    fn enter(&mut self, graph: &Graph, block: Block) {
        self.scopes.push(Scope { cursor: graph.first(block), owner: None, block, added: Vec::new() });
    }

    fn leave(&mut self) {
        let scope = self.scopes.pop().expect("the block on top of the stack");
        if self.scopes.is_empty() {
            return;
        }
        for (hash, node) in scope.added {
            if let Ok(entry) = self.table.find_entry(spread(hash), |&(_, n)| n == node) {
                entry.remove();
            }
        }
    }

    fn may_merge(&self, graph: &Graph, node: Node) -> bool {
        let kind = graph.kind(node);
        if kind == prim::PROFILE || kind == prim::PROFILE_IVALUE || graph.subgraph(node).is_some() {
            return false;
        }
        if self.template_writes && graph.outputs(node).any(|value| is_forwarded(graph, value)) {
            return false;
        }
        let operator = ops::operator(graph.era, kind);
        !operator.has_side_effects()
            && is_deterministic(graph, node, operator)
            && !self.db.node_has_writers(graph, node)
    }

    fn visit(&mut self, graph: &mut Graph, cx: &mut PassContext<'_>, node: Node) {
        let hash = (hash(graph, node) >> 32) as u32;
        let equal = |&(h, other): &(u32, Node)| h == hash && same(graph, node, other);
        let Some(&(_, existing)) = self.table.find(spread(hash), equal) else {
            self.table.insert_unique(spread(hash), (hash, node), |&(h, _)| spread(h));
            if let [_, .., scope] = &mut self.scopes[..] {
                scope.added.push((hash, node));
            }
            return;
        };
        if !self.may_share_memory(graph, node, existing) {
            // Two reads of a submodule are the same object in any case.
            let is_object = |value| matches!(graph.ty(value).kind(), TypeKind::Class(_) | TypeKind::Interface(_));
            if !graph.outputs(node).all(is_object) {
                cx.missed(graph, "nodes-merged", node, || {
                    "merging would make two results of the graph share memory".to_owned()
                });
            }
            return;
        }
        if !cx.may("nodes-merged") {
            return;
        }
        graph_update!("Replacing\n{}with\n{}", line(graph, node), line(graph, existing));
        cx.did(graph, "nodes-merged", node);
        let count = graph.num_outputs(node);
        for i in 0..count {
            let (old, new) = (graph.output(node, i), graph.output(existing, i));
            self.stand_ins.note(&self.db, old, new);
            graph.replace_all_uses(old, new);
        }
        graph.erase(node);
    }

    /// Whether a value may be visible through the results of the graph. PyTorch 1.3.1 leaves two
    /// equal lists in a recorded graph where 2.15 merges them; the rule that its analysis says yes
    /// for every container is inferred from that. It merges less, never more. 1.0.1 merges such
    /// lists.
    fn may_show(&self, graph: &Graph, value: Value) -> bool {
        let is_old = (Release(1, 1)..Release(1, 5)).contains(&graph.release());
        let closed = is_old && graph.ty(value).is_mutable() && is_closed(graph, value);
        closed || self.stand_ins.returned.contains(&value) || self.db.may_alias_graph_output(value)
    }

    /// Whether a new tensor is stored where the caller finds it, such as in a list that is a param.
    /// PyTorch checks results only.
    fn is_given_away(&self, graph: &Graph, node: Node) -> bool {
        let types: Vec<Type> = graph.inputs(node).map(|value| graph.ty(value)).collect();
        let operator = ops::operator(graph.era, graph.kind(node));
        let schema = operator.resolve(&types).schema();
        let is_new = match operator.alias_rule(schema) {
            AliasRule::Fresh => true,
            AliasRule::Schema => schema.is_some_and(|schema| !schema.returns.iter().any(Formal::is_annotated)),
            _ => false,
        };
        is_new && graph.outputs(node).any(|value| self.stand_ins.escapes(&self.db, value))
    }

    fn may_share_memory(&self, graph: &Graph, node: Node, existing: Node) -> bool {
        let here = graph.block_of(existing) == Some(self.scopes.last().expect("an open block").block);
        let mut pairs = graph.outputs(node).zip(graph.outputs(existing));
        match here {
            true => {
                let shown = |node| {
                    graph.outputs(node).any(|value| self.may_show(graph, value)) || self.is_given_away(graph, node)
                };
                !(shown(node) && shown(existing))
            }
            false => pairs.all(|(a, b)| self.stand_ins.safe(&self.db, a, b)),
        }
    }
}

/// Whether a value is a container whose elements the rules of 1.3 do not look into: any container
/// but a tuple that is constructed of others.
fn is_closed(graph: &Graph, value: Value) -> bool {
    let mut work = vec![value];
    while let Some(value) = work.pop() {
        let construct = graph.definer(value).filter(|&node| graph.kind(node) == prim::TUPLE_CONSTRUCT);
        match graph.ty(value).kind() {
            TypeKind::List(_) | TypeKind::Dict(..) | TypeKind::Class(_) => return true,
            TypeKind::Tuple(_) | TypeKind::NamedTuple(_) => match construct {
                Some(node) => work.extend(graph.inputs(node)),
                None => return true,
            },
            _ => {}
        }
    }
    false
}

/// Whether equal operands give equal results, as far as operands tell.
pub(crate) fn is_deterministic(graph: &Graph, node: Node, operator: &Operator) -> bool {
    let worst = operator.nondeterminism(None);
    // No reader depends on which uninitialized value it sees.
    if graph.kind(node) == prim::UNINITIALIZED || worst == Nondeterminism::Deterministic {
        return true;
    }
    let exact = if operator.schemas.is_empty() {
        worst
    } else {
        let types: Vec<_> = graph.inputs(node).map(|value| graph.ty(value)).collect();
        operator.nondeterminism(operator.resolve_erased(&types).schema())
    };
    let off = |i: usize| graph.inputs(node).nth(i).is_some_and(|value| graph.constant_int(value) == Some(0));
    match exact {
        Nondeterminism::Deterministic => true,
        Nondeterminism::UnlessFalse(i) => off(i),
        Nondeterminism::UnlessZero(i) => off(i) || is_zero(graph, node, i),
        Nondeterminism::Undefined | Nondeterminism::Always => false,
    }
}

fn is_zero(graph: &Graph, node: Node, i: usize) -> bool {
    let constant = graph.inputs(node).nth(i).and_then(|value| graph.constant(value)).flatten();
    matches!(constant, Some(Attribute::Float(float)) if float.value == 0.0)
}

/// The table takes the bucket from the low bits of a hash and the tag from the high bits.
fn spread(hash: u32) -> u64 {
    u64::from(hash).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// A hash that is equal for nodes that compute the same. Hash hits are confirmed by [`same`].
pub(crate) fn hash(graph: &Graph, node: Node) -> u64 {
    let mut hasher = FxHasher::default();
    graph.kind(node).hash(&mut hasher);
    graph.inputs(node).for_each(|value| value.hash(&mut hasher));
    graph.outputs(node).for_each(|value| graph.ty(value).hash(&mut hasher));
    // The order of attributes does not count.
    let attributes = graph.attributes(node).iter();
    let sum =
        attributes.fold(0u64, |sum, (name, value)| sum.wrapping_add((name.index() as u64) << 32 ^ value.hash_key()));
    sum.hash(&mut hasher);
    hasher.finish()
}

/// Whether two nodes compute the same.
pub(crate) fn same(graph: &Graph, a: Node, b: Node) -> bool {
    let types = |node| graph.outputs(node).map(|value| graph.ty(value));
    graph.kind(a) == graph.kind(b)
        && graph.inputs(a).eq(graph.inputs(b))
        && types(a).eq(types(b))
        && same_attributes(graph, a, b)
}

fn same_attributes(graph: &Graph, a: Node, b: Node) -> bool {
    let (list_a, list_b) = (graph.attributes(a), graph.attributes(b));
    let ty = graph.outputs(a).next().map(|value| graph.ty(value));
    let found = |(name, value): &(_, Attribute)| {
        list_b.iter().any(|(other, theirs)| other == name && value.same_constant(theirs, ty))
    };
    list_a.len() == list_b.len() && list_a.iter().all(found)
}

fn line(graph: &Graph, node: Node) -> String {
    let mut printer = jitopt_core::text::Printer::new(jitopt_core::text::PrintOptions::default());
    printer.node_line(graph, node);
    printer.out.push(b'\n');
    String::from_utf8_lossy(&printer.out).into_owned()
}
