//! Concatenation of values that groups compute.
//!
//! ```text
//! %l : Tensor[] = prim::ListConstruct(%a, %b)        %z : Tensor = prim::FusionGroup_0(…)
//! %z : Tensor = aten::cat(%l, %1)               =>   with prim::FusionGroup_0 = graph(…):
//!                                                      …
//!                                                      %z : Tensor = prim::FusedConcat[dim=1](%a, %b)
//! ```
//!
//! The kernel writes each part at its offset of the output. PyTorch puts the group where the list
//! was constructed, so a write to an element between that and the concatenation is lost; this pass
//! leaves such lists alone.

use super::not_fused::NotFused;
use super::pools::has_window;
use super::{Fuser, latest_first};
use jitopt_core::ir::{Attribute, Block, Graph, Node, Value};
use jitopt_core::pass::PassContext;
use jitopt_core::symbol::{aten, attr, prim};
use jitopt_core::types::Dim;
use jitopt_core::{graph_debug, graph_update};
use rustc_hash::FxHashSet;

/// The list that `cat` reads and the dimension, when both are known and the list has no other
/// reader.
fn parts(graph: &Graph, cat: Node) -> Option<(Node, i64)> {
    if graph.kind(cat) != aten::CAT || graph.num_inputs(cat) != 2 {
        return None;
    }
    let list = graph.definer(graph.input(cat, 0)).filter(|&node| graph.kind(node) == prim::LIST_CONSTRUCT)?;
    let alone = graph.single_use(graph.output(list, 0)).is_some();
    let dim = graph.constant_int(graph.input(cat, 1))?;
    (alone && graph.block_of(list) == graph.block_of(cat)).then_some((list, dim))
}

/// Whether types show that the parts of a list have different sizes in a dimension.
fn are_unequal(graph: &Graph, list: Node, dim: i64) -> bool {
    let size = |value: Value| {
        let sizes = graph.ty(value).as_tensor()?.sizes.as_ref()?;
        let at = if dim < 0 { dim + sizes.len() as i64 } else { dim };
        sizes.get(usize::try_from(at).ok()?).and_then(|size| if let Dim::Known(n) = size { Some(*n) } else { None })
    };
    let mut known = graph.inputs(list).filter_map(size);
    known.next().is_some_and(|first| known.any(|other| other != first))
}

/// Whether two parts are one value or share an operand, or a part has a window. Each part of a
/// concatenation of unequal parts has a range of the iteration space of its own, so that an operand
/// is loaded for one part only.
fn are_entangled(graph: &Graph, list: Node) -> bool {
    let mut seen: FxHashSet<Value> = FxHashSet::default();
    graph.inputs(list).any(|part| {
        let made = graph.definer(part).filter(|&node| graph.kind(node) != prim::PARAM);
        if made.is_some_and(|node| has_window(graph, node)) {
            return true;
        }
        let operands =
            made.into_iter().flat_map(|node| graph.inputs(node)).filter(|&value| graph.ty(value).is_tensor());
        let own: FxHashSet<Value> = operands.chain([part]).collect();
        let is_common = own.iter().any(|value| seen.contains(value));
        seen.extend(own);
        is_common
    })
}

/// Whether the last operation of a group is a concatenation: its result has another shape than the
/// computed values.
pub(super) fn ends_in_concat(graph: &Graph, group: Node) -> bool {
    let section = graph.subgraph(group);
    let joins =
        |section: &Graph, value| section.definer(value).is_some_and(|node| section.kind(node) == prim::FUSED_CONCAT);
    section.is_some_and(|section| section.results(section.root()).any(|result| joins(section, result)))
}

impl Fuser {
    /// Lets groups concatenate the values that they compute.
    pub(super) fn fuse_concats(&mut self, graph: &mut Graph, cx: &mut PassContext<'_>, block: Block) {
        let cats: Vec<Node> = graph.nodes(block).filter(|&node| graph.kind(node) == aten::CAT).collect();
        for &cat in cats.iter().rev() {
            let Some((list, dim)) = parts(graph, cat) else { continue };
            let obstacle = self.why_concat_not_fused(graph, cat, (list, dim));
            if let Some(why) = obstacle {
                let why = why.message(graph, cat, list);
                graph_debug!("The parts of %{} are not fused: {why}", graph.name(graph.output(cat, 0)));
                cx.missed(graph, "concats-fused", cat, || why);
                continue;
            }
            let joined = cx.rewrite(graph, "concats-fused", cat, |graph| {
                graph_update!("Fusing the parts of %{}", graph.name(graph.output(cat, 0)));
                self.join(graph, cat, list, dim)
            });
            let Some(group) = joined else { continue };
            self.groups.grown.insert(group);
            while let Some(value) = self.next_part(graph, group) {
                if self.fuse_pair(graph, cx, group, value).is_none() {
                    break;
                }
            }
        }
    }

    /// The reason why concatenating in a group gains nothing, or is not possible.
    fn why_concat_not_fused(&mut self, graph: &Graph, cat: Node, (list, dim): (Node, i64)) -> Option<NotFused> {
        if let Some(obstacle) = self.cannot_move(graph, list, cat) {
            return Some(obstacle);
        }
        let output = graph.output(cat, 0);
        if !self.is_on_device(graph.ty(output)) {
            return Some(NotFused::Device);
        }
        if self.level > 1 && are_unequal(graph, list, dim) && are_entangled(graph, list) {
            return Some(NotFused::UnequalParts);
        }
        let parts = latest_first(graph, list);
        // The list has one output, as the group has, so counts and positions are those of the
        // resulting group.
        let obstacles: Vec<Option<NotFused>> =
            parts.iter().map(|(_, value)| self.why_not_fused(graph, list, *value)).collect();
        if obstacles.iter().any(Option::is_none) {
            None
        } else {
            Some(obstacles.first().copied().flatten().unwrap_or(NotFused::Kind))
        }
    }

    /// Replaces a list and its concatenation by a group that concatenates.
    fn join(&mut self, graph: &mut Graph, cat: Node, list: Node, dim: i64) -> Node {
        let operands: Vec<Value> = graph.inputs(list).collect();
        let output = graph.output(cat, 0);
        let joined = graph.create_op(prim::FUSED_CONCAT, &operands, graph.ty(output));
        graph.set_attribute(joined, attr::DIM, Attribute::Int(dim));
        graph.insert_before(list, joined);
        let new = graph.output(joined, 0);
        self.groups.db.copy_value(new, output);
        graph.replace_all_uses(output, new);
        graph.move_name(output, new);
        graph.erase(cat);
        graph.erase(list);
        self.groups.group_of(graph, joined)
    }

    /// The operand of a concatenating group whose producer can be absorbed next.
    fn next_part(&mut self, graph: &Graph, group: Node) -> Option<Value> {
        latest_first(graph, group)
            .into_iter()
            .map(|(_, value)| value)
            .find(|&value| self.why_not_fused(graph, group, value).is_none())
    }
}
