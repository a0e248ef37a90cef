//! Kernels with reductions: sums, means, softmax, norms, with the pointwise operators before and
//! after them (`fuse{level=2}`).
//!
//! ```text
//! %a : Tensor = aten::mul(%x, %y)                       %s : Tensor = prim::FusionGroup_0(%x, %y)
//! %s : Tensor = aten::sum(%a, %dims, %keep, %none)  =>  return (%s)
//! return (%s)                                           with prim::FusionGroup_0 = graph(%0 : Tensor, %1 : Tensor): …
//! ```
//!
//! A kernel reduces one iteration space, always along the same dimensions. So a reduction of other
//! dimensions stays outside, except for sums that nothing in the kernel reads: these are *secondary
//! reductions*, to which each element is added as it is computed. Operators on reduced values that
//! have lost their dimensions also stay outside, unless their operands are known to have no more
//! dimensions than these: nothing else proves that shapes are compatible, and a group with
//! incompatible shapes runs node by node.

use super::Fuser;
use super::not_fused::NotFused;
use super::pools::has_window;
use jitopt_core::analysis::axis_maps::{AxisMaps, Place};
use jitopt_core::analysis::reduced_dims::{
    excludes_column_reductions, is_float_sum, is_reduced, leading_reduction, may_be_column_reduction, rank, recipes_of,
    same_axes,
};
use jitopt_core::graph_update;
use jitopt_core::ir::{Block, Graph, Node, Value};
use jitopt_core::pass::PassContext;
use jitopt_core::symbol::prim;
use jitopt_core::types::Dim;
use rustc_hash::{FxHashMap, FxHashSet};
use std::cmp::Ordering;

/// The maximum number of nodes in a group with reductions: each pair visits all of them.
const MOST_NODES: usize = 256;

/// The kinds of operators in a group, or that of a node.
#[derive(Clone, Copy, Default)]
pub(super) struct Contents {
    reductions: bool,
    windows: bool,
}

/// Whether a node, or something in a group, is a reduction.
fn reduces(graph: &Graph, node: Node) -> bool {
    match graph.subgraph(node).filter(|_| graph.kind(node) == prim::FUSION_GROUP) {
        Some(section) => section.nodes(section.root()).any(|node| !recipes_of(section, node).is_empty()),
        None => !recipes_of(graph, node).is_empty(),
    }
}

/// One node of a pair, as a kernel.
struct Side<'g> {
    graph: &'g Graph,
    node: Node,
    /// Its section, if it is a group with reductions.
    section: Option<&'g Graph>,
    /// The axis maps of its values, if it reduces.
    axis_maps: AxisMaps,
    reduces: bool,
}

impl<'g> Side<'g> {
    fn new(graph: &'g Graph, node: Node, reduces: bool) -> Option<Side<'g>> {
        let section = graph.subgraph(node).filter(|_| reduces && graph.kind(node) == prim::FUSION_GROUP);
        let axis_maps = match section {
            Some(section) => AxisMaps::of(section).ok()?,
            None if reduces => AxisMaps::of_node(graph, node),
            None => AxisMaps::default(),
        };
        Some(Side { graph, node, section, axis_maps, reduces })
    }

    /// The reduction that determines the reduced dimensions, with the graph that it is in.
    fn reduce(&self) -> Option<(&'g Graph, Node)> {
        match &self.section {
            Some(section) => leading_reduction(section).map(|node| (*section, node)),
            None => self.reduces.then_some((self.graph, self.node)),
        }
    }

    /// The graph of its nodes, and its reductions.
    fn reduction(&self) -> (&'g Graph, Vec<Node>) {
        match &self.section {
            Some(section) => {
                let reduces = section.nodes(section.root()).filter(|&node| !recipes_of(section, node).is_empty());
                (section, reduces.collect())
            }
            None => (self.graph, if self.reduces { vec![self.node] } else { Vec::new() }),
        }
    }

    /// Whether all its reductions are sums that may be secondary reductions of the other kernel,
    /// which does not read them.
    fn may_be_column_reduction(&self, other: &Side<'_>) -> bool {
        let read = |value: Value| self.graph.users(value).any(|user| user == other.node);
        let (graph, reduces) = self.reduction();
        match &self.section {
            Some(section) => {
                let sums = reduces.iter().all(|&node| may_be_column_reduction(section, node));
                let results = self.graph.outputs(self.node).zip(section.results(section.root()));
                let is_sum = |value: Value| reduces.iter().any(|&node| section.output(node, 0) == value);
                sums && !results.into_iter().any(|(output, result)| is_sum(result) && read(output))
            }
            // Outside of groups every reader reads a result.
            None => reduces.iter().all(|&node| is_float_sum(graph, node) && !read(graph.output(node, 0))),
        }
    }

    /// Whether no secondary reduction can be combined with one of its nodes.
    fn excludes_column_reductions(&self) -> bool {
        let (graph, reduces) = self.reduction();
        reduces.into_iter().any(|node| excludes_column_reductions(graph, node))
    }

    /// The place of an output.
    fn made(&self, value: Value) -> Place {
        match self.result(value) {
            _ if !self.reduces => Place::Any,
            Some(result) => self.axis_maps.place(result),
            None => Place::Mixed,
        }
    }

    /// The source of an output: the result of the section, or the output itself.
    fn result(&self, value: Value) -> Option<Value> {
        let Some(section) = &self.section else { return Some(value) };
        let at = self.graph.outputs(self.node).position(|output| output == value)?;
        section.results(section.root()).nth(at)
    }

    /// The place of an operand.
    fn read(&self, value: Value) -> Place {
        if !self.reduces {
            return Place::Any;
        }
        let of_node = |graph: &Graph, node: Node, value: Value| {
            let read = graph.inputs(node).enumerate().filter(|(_, operand)| *operand == value);
            read.fold(Place::Any, |all, (i, _)| all.and(self.axis_maps.place_read(graph, node, i)))
        };
        let Some(section) = &self.section else { return of_node(self.graph, self.node, value) };
        let mut found = Place::Any;
        for param in self.params(value) {
            for user in section.users(param).filter(|&user| section.num_outputs(user) > 0) {
                found = found.and(of_node(section, user, param));
            }
        }
        found
    }

    /// The params that correspond to an operand.
    fn params(&self, value: Value) -> Vec<Value> {
        let Some(section) = &self.section else { return Vec::new() };
        let operands = self.graph.inputs(self.node).zip(section.params(section.root()));
        operands.filter(|(operand, _)| *operand == value).map(|(_, param)| param).collect()
    }

    /// Whether an output is reduced, or computed from reduced values only, and kept its dimensions
    /// with size 1.
    fn is_row(&self, value: Value) -> bool {
        match &self.section {
            Some(section) => self
                .result(value)
                .is_some_and(|result| depends_only_on(section, result, &|value| is_reduced(section, value))),
            None => self.reduces && is_reduced(self.graph, value),
        }
    }

    /// Whether something is reduced that is computed from these operands alone.
    fn reduces_only(&self, values: &[Value]) -> bool {
        match &self.section {
            Some(section) => {
                let params: Vec<Value> = values.iter().flat_map(|&value| self.params(value)).collect();
                let reduces = section.nodes(section.root()).filter(|&node| !recipes_of(section, node).is_empty());
                let of_params = |value| params.contains(&value);
                reduces.into_iter().any(|node| depends_only_on(section, section.input(node, 0), &of_params))
            }
            None => self.reduces && values.contains(&self.graph.input(self.node, 0)),
        }
    }
}

/// Whether the reductions of one of a pair may be secondary reductions of the other.
fn becomes_column_reduction(p: &Side<'_>, c: &Side<'_>) -> bool {
    !p.excludes_column_reductions()
        && !c.excludes_column_reductions()
        && (p.may_be_column_reduction(c) || c.may_be_column_reduction(p))
}

/// Whether all tensors that a value is computed from satisfy a predicate.
fn depends_only_on(graph: &Graph, value: Value, is_one: &dyn Fn(Value) -> bool) -> bool {
    let (mut open, mut seen) = (vec![value], FxHashSet::default());
    while let Some(value) = open.pop() {
        if is_one(value) || !graph.ty(value).is_tensor() || !seen.insert(value) {
            continue;
        }
        match graph.definer(value).filter(|&node| graph.kind(node) != prim::PARAM) {
            Some(node) => open.extend(graph.inputs(node)),
            None => return false,
        }
    }
    true
}

/// Whether no operand of a node is known to have more dimensions than the given one.
fn is_of_most_dimensions(graph: &Graph, node: Node, value: Value, maker: &Side<'_>) -> bool {
    let reduced = || maker.reduce().and_then(|(section, reduce)| rank(section, section.input(reduce, 0)));
    let Some(most) = rank(graph, value).or_else(reduced) else { return true };
    graph.inputs(node).filter_map(|operand| rank(graph, operand)).all(|operand| operand <= most)
}

/// The operand of a node, or of a group, that it reduces unchanged.
fn reduced_operand(graph: &Graph, node: Node) -> Option<Value> {
    let side = Side::new(graph, node, reduces(graph, node))?;
    let (section, reduce) = side.reduce()?;
    let reduced = section.input(reduce, 0);
    if side.section.is_none() {
        return Some(reduced);
    }
    let mut operands = graph.inputs(node).zip(section.params(section.root()));
    operands.find(|(_, param)| *param == reduced).map(|(operand, _)| operand)
}

/// The sizes of the operand that a node, or a group, reduces, where they are known.
fn reduced_shape(graph: &Graph, node: Node) -> Option<Vec<i64>> {
    let side = Side::new(graph, node, reduces(graph, node))?;
    let (section, reduce) = side.reduce()?;
    let sizes = section.ty(section.input(reduce, 0)).as_tensor()?.sizes.as_ref()?;
    sizes.iter().map(|dim| if let Dim::Known(n) = dim { Some(*n) } else { None }).collect()
}

impl Fuser {
    /// The contents of a node or a group. A group of n nodes needs them n times, once for each pair
    /// that is fused, so they are kept, and its nodes are visited once.
    fn contents(&mut self, graph: &Graph, node: Node) -> Contents {
        let contents = || Contents { reductions: reduces(graph, node), windows: has_window(graph, node) };
        *self.contents.entry(node).or_insert_with(contents)
    }

    /// The contents of the group that two nodes become.
    pub(super) fn contents_of_both(&mut self, graph: &Graph, a: Node, b: Node) -> Contents {
        if self.level < 2 {
            return Contents::default();
        }
        let (a, b) = (self.contents(graph, a), self.contents(graph, b));
        Contents { reductions: a.reductions || b.reductions, windows: a.windows || b.windows }
    }

    /// Whether a node, or something in a group, is a reduction.
    pub(super) fn reduces(&mut self, graph: &Graph, node: Node) -> bool {
        self.contents(graph, node).reductions
    }

    /// Whether a node, or something in a group, has a window.
    pub(super) fn slides(&mut self, graph: &Graph, node: Node) -> bool {
        self.contents(graph, node).windows
    }

    /// Fuses reductions of the same tensor along the same dimensions, such as its mean and its
    /// variance, into one kernel: the tensor is read from memory once.
    pub(super) fn fuse_siblings(&mut self, graph: &mut Graph, cx: &mut PassContext<'_>, block: Block) {
        let mut last: FxHashMap<Value, Node> = FxHashMap::default();
        let nodes: Vec<Node> = graph.nodes(block).collect();
        for node in nodes {
            if self.fusible(graph, node).is_err() || !self.reduces(graph, node) {
                continue;
            }
            let Some(operand) = reduced_operand(graph, node) else { continue };
            let merged = last.get(&operand).and_then(|&before| self.fuse_sibling(graph, cx, node, before));
            last.insert(operand, merged.unwrap_or(node));
        }
    }

    /// Fuses reductions of tensors of one shape along the same dimensions for parts of a
    /// concatenation, such as the gradients of gates and their sums, into one kernel.
    pub(super) fn fuse_parts(&mut self, graph: &mut Graph, cx: &mut PassContext<'_>, block: Block) {
        let is_list = |node: &Node| graph.kind(*node) == prim::LIST_CONSTRUCT;
        let lists: Vec<Node> = graph.nodes(block).filter(is_list).collect();
        for list in lists {
            let made_here = |part: Value| graph.definer(part).filter(|&node| graph.block_of(node) == Some(block));
            let mut makers: Vec<Node> = graph.inputs(list).filter_map(made_here).collect();
            makers.retain(|&node| reduced_shape(graph, node).is_some());
            makers.sort_by(|&a, &b| match a == b {
                true => Ordering::Equal,
                false if graph.is_before(a, b) => Ordering::Less,
                false => Ordering::Greater,
            });
            makers.dedup();
            let mut last: Option<Node> = None;
            for node in makers {
                if self.fusible(graph, node).is_err() || reduced_shape(graph, node).is_none() {
                    continue;
                }
                let before = last.filter(|&before| reduced_shape(graph, before) == reduced_shape(graph, node));
                last = before.and_then(|before| self.fuse_sibling(graph, cx, node, before)).or(Some(node));
            }
        }
    }

    fn fuse_sibling(&mut self, graph: &mut Graph, cx: &mut PassContext<'_>, node: Node, before: Node) -> Option<Node> {
        let planned = self.plan.as_ref().and_then(|plan| plan.group(graph, node));
        let arguments = |node| graph.num_inputs(node) + graph.num_outputs(node);
        let is_free = graph.outputs(before).all(|output| graph.inputs(node).all(|operand| operand != output));
        if !is_free
            || self.plan.as_ref().is_some_and(|plan| !plan.joins(graph, node, before))
            || arguments(node) + arguments(before) > super::ARGUMENT_LIMIT
            || self.why_reductions_not_fused(graph, node, before).is_some()
            || self.cannot_move(graph, before, node).is_some()
        {
            return None;
        }
        let contents = self.contents_of_both(graph, node, before);
        let group = cx.rewrite(graph, "siblings-fused", before, |graph| {
            graph_update!("Fusing two reductions of %{}", graph.name(graph.input(node, 0)));
            self.groups.db.move_before_topologically(graph, before, node);
            let group = self.groups.group_of(graph, node);
            match graph.kind(before) == prim::FUSION_GROUP {
                true => self.groups.merge(graph, group, before),
                false => self.groups.take_in(graph, group, before),
            }
            group
        })?;
        self.contents.insert(group, contents);
        self.grow(group, planned);
        Some(group)
    }

    /// The reason why a producer cannot be fused with `consumer`, if one of them reduces.
    pub(super) fn why_reductions_not_fused(
        &mut self,
        graph: &Graph,
        consumer: Node,
        producer: Node,
    ) -> Option<NotFused> {
        if self.level < 2 {
            return None;
        }
        let (of_consumer, of_producer) = (self.reduces(graph, consumer), self.reduces(graph, producer));
        if !of_consumer && !of_producer {
            return None;
        }
        let size = |node| graph.subgraph(node).map_or(1, Graph::num_shown_nodes);
        if size(consumer) + size(producer) > MOST_NODES {
            return Some(NotFused::Arguments);
        }
        let joins = super::concats::ends_in_concat(graph, consumer) || graph.kind(consumer) == prim::LIST_CONSTRUCT;
        let (Some(c), Some(p)) = (Side::new(graph, consumer, of_consumer), Side::new(graph, producer, of_producer))
        else {
            return Some(NotFused::OtherSpace);
        };
        if joins {
            return Some(NotFused::OtherSpace);
        }
        let between: Vec<Value> =
            graph.outputs(producer).filter(|&output| graph.inputs(consumer).any(|i| i == output)).collect();
        match (p.reduce(), c.reduce()) {
            (Some(a), Some(b)) if !same_axes(a, b) && !becomes_column_reduction(&p, &c) => {
                return Some(NotFused::OtherAxes);
            }
            _ => {}
        }
        let fits = |&value: &Value| match (p.made(value), c.read(value)) {
            (_, Place::Mixed) | (Place::Mixed, _) => false,
            (Place::Any, _) => true,
            (Place::Whole, Place::Any) => is_of_most_dimensions(graph, consumer, value, &p),
            (made, Place::Any) => self.goes_with_reduced(graph, &p, &c, value, made),
            (made, read) => made == read,
        };
        let places = between.iter().fold(Place::Any, |all, &value| all.and(c.read(value)));
        let rows: Vec<Value> = between.iter().copied().filter(|&value| p.is_row(value)).collect();
        let fits = between.iter().all(fits)
            && places != Place::Mixed
            && !(c.reduces && c.reduces_only(&rows) && !rows.is_empty());
        (!fits).then_some(NotFused::OtherSpace)
    }

    /// Whether the operands of a consumer without reductions are compatible with a value that has
    /// lost dimensions.
    fn goes_with_reduced(&self, graph: &Graph, p: &Side<'_>, c: &Side<'_>, value: Value, made: Place) -> bool {
        let is_small = |operand: Value| match (rank(graph, operand), made) {
            (Some(operand), Place::Free) => operand == 0,
            (Some(operand), _) => rank(graph, value).is_some_and(|value| operand <= value),
            (None, _) => false,
        };
        // A tensor that is reduced entirely, and the result is combined with its elements.
        let is_reduced_too = |operand| made == Place::Free && p.read(operand) == Place::Whole;
        let others = graph.inputs(c.node).filter(|&operand| graph.ty(operand).is_tensor() && operand != value);
        others.into_iter().all(|operand| match graph.outputs(p.node).any(|output| output == operand) {
            true => p.made(operand) == made || made == Place::Free && p.made(operand) == Place::Whole,
            false => is_small(operand) || is_reduced_too(operand),
        })
    }
}
