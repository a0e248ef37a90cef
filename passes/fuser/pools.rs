//! Kernels with windows that slide over images: pools, with the pointwise operators after them
//! (`fuse{level=2}`).
//!
//! ```text
//! %p : Tensor = aten::max_pool2d(%x, …)       %y : Tensor = prim::FusionGroup_0(%x)
//! %y : Tensor = aten::relu(%p)           =>   with prim::FusionGroup_0 = graph(%x : Tensor):
//!                                               %p : Tensor = aten::max_pool2d(%x, …)
//!                                               …
//! ```
//!
//! The space of a kernel is that of the positions of the window. An operator before it would be
//! computed once for each position that its result is under, so it stays outside; and so do
//! reductions, whose rows have no padding.

use super::Fuser;
use super::not_fused::NotFused;
use jitopt_core::ir::{Graph, Node, Value};
use jitopt_core::ops::rows::window_rule;
use jitopt_core::symbol::prim;

/// The section of a group.
fn section(graph: &Graph, node: Node) -> Option<&Graph> {
    graph.subgraph(node).filter(|_| graph.kind(node) == prim::FUSION_GROUP)
}

fn slides(graph: &Graph, node: Node) -> bool {
    window_rule(graph.kind(node)).is_some()
}

/// Whether a node, or something in a group, has a window.
pub(super) fn has_window(graph: &Graph, node: Node) -> bool {
    match section(graph, node) {
        Some(section) => section.nodes(section.root()).any(|node| slides(section, node)),
        None => slides(graph, node),
    }
}

/// Whether a node reads a value under a window.
fn reads_under_window(graph: &Graph, node: Node, value: Value) -> bool {
    let Some(section) = section(graph, node) else {
        return slides(graph, node) && graph.inputs(node).any(|operand| operand == value);
    };
    let operands = graph.inputs(node).zip(section.params(section.root()));
    let mut params = operands.filter(|(operand, _)| *operand == value).map(|(_, param)| param);
    params.any(|param| section.users(param).any(|user| section.num_outputs(user) > 0 && slides(section, user)))
}

impl Fuser {
    /// The reason why a producer cannot be fused with a consumer, if one of them has a window.
    pub(super) fn why_windows_not_fused(&mut self, graph: &Graph, consumer: Node, producer: Node) -> Option<NotFused> {
        if self.level < 2 || !self.slides(graph, consumer) && !self.slides(graph, producer) {
            return None;
        }
        let is_under = |value: Value| reads_under_window(graph, consumer, value);
        match () {
            () if graph.outputs(producer).any(is_under) => Some(NotFused::UnderWindow),
            () if self.reduces(graph, consumer) || self.reduces(graph, producer) => Some(NotFused::WindowOfRows),
            () => None,
        }
    }
}
