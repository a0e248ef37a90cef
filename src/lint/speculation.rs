//! Information that a printed graph loses when it is read back.

use super::finder::Facts;
use crate::types::Strides;
use crate::types::era::Era;
use crate::verify::{Sink, Spot};

/// `with prim::FusionGroup_0 = graph(…)`
pub(super) fn sections_dropped(facts: &Facts<'_>, sink: &mut Sink<'_, '_>) {
    let mut carriers = facts.graph.all_nodes().filter(|&node| facts.graph.subgraph(node).is_some());
    if let Some(first) = carriers.next().filter(|_| facts.carrier.is_none()) {
        let n = 1 + carriers.count();
        let text = format!("{n} section{} would be empty when read back", if n == 1 { "" } else { "s" });
        sink.warning(Spot::Node(first), text);
    }
}

/// `%y : Float(2, 3) = prim::Guard(%x)`
pub(super) fn guard_without_strides(facts: &Facts<'_>, sink: &mut Sink<'_, '_>) {
    if facts.graph.era != Era::V1_3 {
        return;
    }
    for node in facts.of_kinds(&["prim::Guard"]) {
        let Some(output) = facts.graph.single_output(node) else { continue };
        let ty = facts.ty(output);
        if let Some(tensor) =
            ty.as_tensor().filter(|tensor| tensor.sizes.is_some() && tensor.strides == Strides::Unknown)
        {
            let n = tensor.sizes.as_ref().map_or(0, |sizes| sizes.len());
            sink.warning(Spot::Node(node), format!("{n} sizes and no strides are not a complete type"));
        }
    }
}
