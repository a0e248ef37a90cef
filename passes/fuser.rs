//! Puts pointwise operators into groups, each of which becomes one kernel.
//!
//! ```text
//! %a : Tensor = aten::mul(%x, %y)         %z : Tensor = prim::FusionGroup_0(%x, %y)
//! %z : Tensor = aten::tanh(%a)       =>   return (%z)
//! return (%z)                             with prim::FusionGroup_0 = graph(%0 : Tensor, %1 : Tensor):
//!                                           %a : Tensor = aten::mul(%0, %1)
//!                                           %z : Tensor = aten::tanh(%a)
//!                                           return (%z)
//! ```
//!
//! The groups are those of PyTorch's legacy fuser (1.3 to 2.x), found in its order:
//!
//! 1. Each block is traversed from its end. A fusible node, the *consumer*, absorbs those of its
//!    operands that are defined by fusible nodes of the same block, the *producers*, the latest
//!    first. The two need not be neighbours: the producer is moved, with its dependents, as far as
//!    [`AliasDb`](jitopt_core::analysis::AliasDb) allows. If it has other users it becomes an
//!    output of the group. A producer that is a group is dissolved and absorbed node by node. This
//!    is repeated until nothing changes, which merges siblings with a common producer into one
//!    group.
//! 2. A chunk between the two moves before the producer, see `fuser/chunks.rs`.
//! 3. `aten::cat` of values that groups compute joins them, see `fuser/concats.rs`.
//! 4. With `{level=2}` reductions go into groups too, see `fuser/spaces.rs`, sums of gradients
//!    among them, see `fuser/gradient_sums.rs`, and pools, see `fuser/pools.rs`. Each fusible node
//!    that is left becomes a single-node group.
//! 5. Groups are cleaned up inside, chunks that only one group reads are pulled into it, and
//!    outputs whose only use is their size are replaced by a computation of the size, see
//!    `fuser/group_sizes.rs`.
//!
//! A node is fusible when a column of the operator table says so of its overload, and all operands
//! that are neither tensors nor floats are constants; those are copied into the group, and floats
//! become scalars of the kernel. Where PyTorch is wrong the pass does not fuse: a node that may
//! return its operand and is written to (`aten::type_as`), chunks of operators that do not
//! broadcast, operators that would move over a write together with a chunk, lists that are written
//! to between construction and concatenation.
//!
//! Each reason is a remark. Ends with `cse`, `dce` and a simplification of the sizes, as PyTorch.
//! Joining a pair costs the number of nodes between the two; the budget for that is linear in the
//! graph. Not idempotent: nodes that the final `cse` merges may have kept a pair apart.

mod chunks;
mod concats;
mod gradient_sums;
mod group_sizes;
mod missing_formulas;
mod not_fused;
mod plans;
mod pools;
mod spaces;
mod tally;

use crate::group_building::SortedGroups;
use crate::{common_subexpression_elimination, constant_pooling, dead_code_elimination};
use jitopt_core::analysis::reduced_dims::lacks_recipe;
use jitopt_core::ir::{Block, Graph, Node, Value};
use jitopt_core::ops::fusion_rules::{FusionRow, fusion_row, untaken};
use jitopt_core::ops::rules::{AliasRule, Nondeterminism};
use jitopt_core::ops::{self};
use jitopt_core::pass::{JSON_FILE, PassContext, PassError, PassInfo, PassOption};
use jitopt_core::symbol::{attr, prim};
use jitopt_core::types::era::Era;
use jitopt_core::types::release::Release;
use jitopt_core::types::{Simple, Type};
use jitopt_core::{graph_debug, graph_dump, graph_update};
use not_fused::NotFused;
use plans::Plan;
pub use plans::candidates;
use rustc_hash::FxHashMap;
use spaces::Contents;
pub use tally::{Tally, int_operands};

/// The registry entry.
pub const PASS: PassInfo = PassInfo {
    name: "fuse",
    aliases: &["fuse-graph"],
    summary: "put pointwise operators into groups, each of which becomes one kernel",
    example: "%a : Tensor = aten::mul(%x, %y), %z : Tensor = aten::tanh(%a)  =>  %z : Tensor = prim::FusionGroup_0(%x, %y)",
    options: &[
        PassOption {
            name: "level",
            default: "1",
            summary: "1: the operators of PyTorch's fuser; 2: all pointwise ones, sums, means, softmax, norms, argmax",
        },
        PassOption {
            name: "sums",
            default: "true",
            summary: "at level 2, fuse gradient sums as reductions; false leaves them after the kernels",
        },
        PassOption {
            name: "strict",
            default: "false",
            summary: "skip values without a known device, as PyTorch does on request",
        },
        PassOption {
            name: "plan",
            default: JSON_FILE,
            summary: "fuse exactly the groups of a plan file; `--emit=fusion-candidates` lists the choices",
        },
    ],
    required: false,
    reads_shapes: true,
    run,
    file: file!(),
};

/// The maximum number of operands and outputs of a group: the limit on the arguments of a CUDA
/// kernel (PyTorch's figure).
const ARGUMENT_LIMIT: usize = 128;
/// The budget for joining pairs, in nodes walked over per node of the graph.
const PATIENCE: usize = 8;
/// The number of nodes that may be walked over for one pair in any case.
const SMALL_PATIENCE: usize = 64;

fn run(graph: &mut Graph, cx: &mut PassContext<'_>) -> Result<(), PassError> {
    fuse(graph, cx)?;
    if cx.file("plan").is_none() {
        let is_differentiated = |node: &Node| graph.backward(*node).is_some();
        let groups: Vec<Node> = graph.all_nodes().filter(is_differentiated).collect();
        for (group, name) in
            groups.into_iter().flat_map(|group| [(group, attr::SUBGRAPH), (group, attr::REVERSE_SUBGRAPH)])
        {
            graph.with_graph(group, name, |section| run(section, cx)).transpose()?;
        }
    }
    Ok(())
}

/// Fuses in the blocks of a graph, but not in its sections.
fn fuse(graph: &mut Graph, cx: &mut PassContext<'_>) -> Result<(), PassError> {
    // Dumped at the end, with the graph after: reasons come before pages of IR.
    let before = not_fused::dumps_are_observed().then(|| graph.clone());
    let level = cx.option("level")?;
    if !(1..=2).contains(&level) {
        return Err(PassError::misuse(format!("`fuse` has no level {level}")).with_help("use level=1 or level=2"));
    }
    let mut fuser = Fuser::new(graph, level, cx.flag("strict")?);
    fuser.plan = cx.file("plan").map(|text| Plan::read(graph, text)).transpose()?;
    if let Some(plan) = &mut fuser.plan {
        plan.look_ahead(graph, level);
    }
    let reduces_sums = cx.flag("sums")? && level > 1;
    // In 1.3 nested blocks are left alone.
    let is_nested = graph.era == Era::V2 || level > 1;
    let blocks: Vec<Block> = graph.all_blocks().take(if is_nested { usize::MAX } else { 1 }).collect();
    if reduces_sums {
        fuser.reduce_sums(graph, cx, &blocks);
    }
    for block in blocks {
        fuser.fuse_block(graph, cx, block);
    }
    if let Some(plan) = &fuser.plan {
        plan.check(graph)?;
    }
    // A value that a group recomputes inside may be computed outside too, and some computed sizes
    // are unread.
    common_subexpression_elimination::merge(graph, cx);
    dead_code_elimination::eliminate(graph, cx, true);
    group_sizes::simplify(graph, cx);
    if let Some(before) = before {
        graph_dump!("Before fusion", before);
        graph_dump!("After fusion", graph);
    }
    Ok(())
}

/// The state of making groups.
struct Fuser {
    groups: SortedGroups,
    level: u8,
    strict: bool,
    /// The row of each node that was checked, or the reason why it is not fused.
    rows: FxHashMap<Node, Result<Option<&'static FusionRow>, NotFused>>,
    /// The contents of nodes and groups, for level 2.
    contents: FxHashMap<Node, Contents>,
    /// The number of nodes that may still be walked over.
    patience: usize,
    /// The fusion plan, if one is given.
    plan: Option<Plan>,
}

impl Fuser {
    fn new(graph: &Graph, level: u8, strict: bool) -> Fuser {
        Fuser {
            groups: SortedGroups::new(graph),
            level,
            strict,
            rows: FxHashMap::default(),
            contents: FxHashMap::default(),
            patience: PATIENCE * graph.num_shown_nodes() + SMALL_PATIENCE * SMALL_PATIENCE,
            plan: None,
        }
    }

    fn fuse_block(&mut self, graph: &mut Graph, cx: &mut PassContext<'_>, block: Block) {
        while self.round(graph, cx, block) {}
        if self.level > 1 {
            self.fuse_siblings(graph, cx, block);
            self.fuse_parts(graph, cx, block);
        }
        self.fuse_concats(graph, cx, block);
        self.report_not_fused(graph, cx, block);
        if self.level > 1 {
            self.group_single_nodes(graph, cx, block);
        }
        let groups: Vec<Node> = graph.nodes(block).filter(|node| self.groups.grown.contains(node)).collect();
        for group in groups {
            clean_up(graph, cx, group);
        }
        self.settle_chunks(graph, cx, block);
        self.replace_sizes(graph, cx, block);
    }

    /// One traversal of a block, from its end; returns whether anything changed.
    fn round(&mut self, graph: &mut Graph, cx: &mut PassContext<'_>, block: Block) -> bool {
        let (mut cursor, mut changed) = (graph.last(block), false);
        while let Some(consumer) = cursor {
            let again = self.scan(graph, cx, consumer);
            changed |= again.is_some();
            cursor = again.or_else(|| graph.prev(consumer));
        }
        changed
    }

    /// Absorbs one producer into `consumer`, or moves a chunk out of the way; returns the node to
    /// scan again when something changed.
    fn scan(&mut self, graph: &mut Graph, cx: &mut PassContext<'_>, consumer: Node) -> Option<Node> {
        self.fusible(graph, consumer).ok()?;
        for producer in latest_first(graph, consumer) {
            let value = producer.1;
            if self.move_chunk(graph, cx, consumer, value) {
                return Some(consumer);
            }
            if let Some(group) = self.fuse_pair(graph, cx, consumer, value) {
                return Some(group);
            }
        }
        None
    }

    /// The row of a node that can be part of a group (none for a node that is a group already), or
    /// why it cannot.
    fn fusible(&mut self, graph: &Graph, node: Node) -> Result<Option<&'static FusionRow>, NotFused> {
        if graph.kind(node) == prim::FUSION_GROUP {
            return if graph.subgraph(node).is_some() { Ok(None) } else { Err(NotFused::Kind) };
        }
        if let Some(known) = self.rows.get(&node) {
            return *known;
        }
        let answer = self.judge(graph, node).map(Some);
        self.rows.insert(node, answer);
        answer
    }

    fn judge(&self, graph: &Graph, node: Node) -> Result<&'static FusionRow, NotFused> {
        let types: Vec<Type> = graph.inputs(node).map(|value| graph.ty(value)).collect();
        let operator = ops::operator(graph.era, graph.kind(node));
        let schema = operator.resolve(&types).schema().ok_or(NotFused::Kind)?;
        let no_row = || untaken(schema).map_or(NotFused::Kind, |why| NotFused::Untaken(node, why));
        let row = fusion_row(schema).ok_or_else(no_row)?;
        if row.level > self.level {
            return Err(NotFused::Level(row.level, node));
        }
        let is_settled = |value: &Value| {
            graph.ty(*value).is_tensor()
                || graph.ty(*value).is(Simple::Float)
                || graph.definer(*value).is_some_and(|node| graph.kind(node) == prim::CONSTANT)
                || !row.is_pointwise() && self.is_constant_list(graph, *value)
        };
        if let Some(value) = graph.inputs(node).find(|value| !is_settled(value)) {
            return Err(NotFused::RunTimeOperand(value));
        }
        // A text may leave results out that the operator has.
        let output = graph.outputs(node).next().ok_or(NotFused::Kind)?;
        if graph.has_uses(output) && !self.is_on_device(graph.ty(output)) {
            return Err(NotFused::Device);
        }
        if row.reduces && lacks_recipe(graph, node) {
            return Err(NotFused::Recipe(node));
        }
        if self.level > 1 && missing_formulas::lacks_formula(graph, node) {
            return Err(if row.slides { NotFused::Window(node) } else { NotFused::Formula(node) });
        }
        let may_return_operand = matches!(operator.rule.alias, AliasRule::MayReturn(_));
        if may_return_operand && self.groups.db.has_writers(output) {
            return Err(NotFused::Written(output));
        }
        Ok(row)
    }

    /// Whether a value is a list of constants that is never written to, such as the dimensions of a
    /// sum.
    fn is_constant_list(&self, graph: &Graph, value: Value) -> bool {
        let list = graph.definer(value).filter(|&node| graph.kind(node) == prim::LIST_CONSTRUCT);
        list.is_some_and(|list| graph.inputs(list).all(|element| graph.constant_int(element).is_some()))
            && !self.groups.db.has_writers(value)
    }

    /// Whether kernels can be generated for the device of a tensor.
    fn is_on_device(&self, ty: Type) -> bool {
        let device = ty.as_tensor().and_then(|tensor| tensor.device);
        device.map_or(!self.strict, |device| ["cpu", "cuda"].contains(&device.as_str().split(':').next().unwrap_or("")))
    }

    /// Whether `consumer` can absorb the node that defines `value`.
    fn fits(&mut self, graph: &Graph, consumer: Node, value: Value) -> bool {
        self.fusible(graph, consumer).is_ok() && self.why_not_fused(graph, consumer, value).is_none()
    }

    /// The reason why `consumer` cannot absorb the node that defines `value`.
    fn why_not_fused(&mut self, graph: &Graph, consumer: Node, value: Value) -> Option<NotFused> {
        let producer = graph.definer(value)?;
        if let Err(obstacle) = self.fusible(graph, producer) {
            return Some(obstacle);
        }
        if self.plan.as_ref().is_some_and(|plan| !plan.joins(graph, consumer, producer)) {
            return Some(NotFused::Unplanned);
        }
        if concats::ends_in_concat(graph, producer) {
            return Some(NotFused::Concat);
        }
        if chunks::feeds_chunk(graph, consumer, value) {
            return Some(NotFused::Chunked);
        }
        let arguments = |node| graph.num_inputs(node) + graph.num_outputs(node);
        if arguments(consumer) + arguments(producer) > ARGUMENT_LIMIT {
            return Some(NotFused::Arguments);
        }
        if let Some(obstacle) = self.why_windows_not_fused(graph, consumer, producer) {
            return Some(obstacle);
        }
        if let Some(obstacle) = self.why_reductions_not_fused(graph, consumer, producer) {
            return Some(obstacle);
        }
        self.cannot_move(graph, producer, consumer)
    }

    /// The reason why `node` cannot stand directly before `anchor`.
    fn cannot_move(&mut self, graph: &Graph, node: Node, anchor: Node) -> Option<NotFused> {
        if graph.prev(anchor) == Some(node) {
            return None;
        }
        let mut steps = self.patience.max(SMALL_PATIENCE);
        let allowed = steps;
        let could = self.groups.db.could_move_within(graph, node, anchor, &mut steps);
        self.patience = self.patience.saturating_sub(allowed - steps);
        match could {
            Some(true) => None,
            Some(false) => Some(NotFused::Between(None)),
            None => Some(NotFused::TooFar),
        }
    }

    /// Absorbs the node that defines `value` into `consumer`, which becomes a group if it is none;
    /// returns the group on success.
    fn fuse_pair(&mut self, graph: &mut Graph, cx: &mut PassContext<'_>, consumer: Node, value: Value) -> Option<Node> {
        let producer = graph.definer(value)?;
        if self.why_not_fused(graph, consumer, value).is_some() {
            return None;
        }
        let planned = self.plan.as_ref().and_then(|plan| plan.group(graph, consumer));
        let contents = self.contents_of_both(graph, consumer, producer);
        let group = cx.rewrite(graph, "producers-fused", producer, |graph| {
            graph_update!("Fusing {} into the kernel of {}", described(graph, producer), described(graph, consumer));
            self.groups.db.move_before_topologically(graph, producer, consumer);
            let group = self.groups.group_of(graph, consumer);
            if graph.kind(producer) == prim::FUSION_GROUP {
                self.groups.merge(graph, group, producer);
            } else {
                self.groups.take_in(graph, group, producer);
            }
            group
        })?;
        self.contents.insert(group, contents);
        self.grow(group, planned);
        Some(group)
    }

    /// Records that a group was created or extended, and which group of the plan it is.
    fn grow(&mut self, group: Node, planned: Option<usize>) {
        self.groups.grown.insert(group);
        if let Some(plan) = &mut self.plan {
            plan.note(group, planned);
        }
    }

    /// Makes single-node groups of operators that fused with nothing: a kernel with the widest
    /// vector instructions runs faster than the operator. PyTorch makes none.
    fn group_single_nodes(&mut self, graph: &mut Graph, cx: &mut PassContext<'_>, block: Block) {
        let nodes: Vec<Node> = graph.nodes(block).collect();
        for node in nodes {
            let is_wanted = self.plan.as_ref().is_none_or(|plan| plan.group(graph, node).is_some());
            let obstacle = match self.fusible(graph, node) {
                Ok(Some(_)) if missing_formulas::may_return_operand(graph, node) => NotFused::MayReturnOperand(node),
                Ok(Some(row)) => {
                    if is_wanted && !row.fills {
                        let group =
                            cx.rewrite(graph, "loners-grouped", node, |graph| self.groups.group_of(graph, node));
                        self.groups.grown.extend(group);
                    }
                    continue;
                }
                Ok(None) => continue,
                Err(obstacle) => obstacle,
            };
            if obstacle.is_of_operator() {
                cx.missed(graph, "loners-grouped", node, || obstacle.message(graph, node, node));
            }
        }
    }

    /// Remarks why each remaining pair was not fused. At the end of all rounds, the reason that
    /// holds for a pair now is the one that held.
    fn report_not_fused(&mut self, graph: &Graph, cx: &mut PassContext<'_>, block: Block) {
        if !cx.collects_remarks() && !not_fused::is_observed() {
            return;
        }
        let consumers: Vec<Node> = graph.nodes(block).collect();
        for consumer in consumers {
            for (producer, value) in latest_first(graph, consumer) {
                if !graph.ty(value).is_tensor() || is_no_news(graph, consumer, producer) {
                    continue;
                }
                let obstacle = match self.fusible(graph, consumer) {
                    Ok(_) => self.why_not_fused(graph, consumer, value),
                    Err(why) => self.fusible(graph, producer).is_ok().then(|| why.of_consumer()),
                };
                let Some(mut obstacle) = obstacle else { continue };
                if obstacle == NotFused::Between(None) {
                    obstacle = NotFused::Between(self.groups.db.obstacle(graph, producer, consumer));
                }
                let why = obstacle.message(graph, consumer, producer);
                graph_debug!("%{} is not fused: {why}", graph.name(value));
                cx.missed(graph, "producers-fused", producer, || why);
            }
        }
    }
}

/// Whether a reason needs no remark: nodes that pass values on compute nothing, and groups absorb
/// chunks at the end.
fn is_no_news(graph: &Graph, consumer: Node, producer: Node) -> bool {
    // A broadcasting chunk is a step of this pass, which neither its input nor its output has.
    [prim::PARAM, prim::CONSTANT, prim::BROADCASTING_CHUNK].contains(&graph.kind(producer))
        || graph.kind(consumer) == prim::TUPLE_CONSTRUCT
        || chunks::takes_in(graph, consumer, producer)
}

/// The nodes of the same block that define operands of `node`, with the operand, the latest first.
fn latest_first(graph: &Graph, node: Node) -> Vec<(Node, Value)> {
    let block = graph.block_of(node);
    let made = |value| graph.definer(value).filter(|&definer| graph.block_of(definer) == block).map(|d| (d, value));
    let mut all: Vec<(Node, Value)> = graph.inputs(node).filter_map(made).collect();
    all.sort_by(|(a, _), (b, _)| {
        if a == b {
            std::cmp::Ordering::Equal
        } else if graph.is_before(*a, *b) {
            std::cmp::Ordering::Greater
        } else {
            std::cmp::Ordering::Less
        }
    });
    all.dedup();
    all
}

/// A node in the log: its kind, and the name of its result. Numbers are left out, as those of
/// values that the pass creates are in no text that is printed.
fn described(graph: &Graph, node: Node) -> String {
    let name = graph.outputs(node).next().filter(|&value| graph.is_named(value)).map(|value| graph.name(value));
    format!("{}{}", graph.kind(node), name.map_or(String::new(), |name| format!(" of %{name}")))
}

/// Whether a node draws random numbers.
fn is_random(graph: &Graph, node: Node) -> bool {
    ops::operator(graph.era, graph.kind(node)).nondeterminism(None) == Nondeterminism::Always
}

/// Cleans up inside a group: constants came with each node, and a value that two groups computed is
/// duplicated. 1.0 left that so.
fn clean_up(graph: &mut Graph, cx: &mut PassContext<'_>, group: Node) {
    if graph.release() < Release(1, 1) {
        return;
    }
    graph.with_subgraph(group, |section| {
        dead_code_elimination::eliminate(section, cx, true);
        common_subexpression_elimination::merge(section, cx);
        constant_pooling::pool(section, cx);
    });
}
