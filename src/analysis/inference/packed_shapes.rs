//! Layers whose weights were packed into an object, as far as the packing node is in the graph.

use super::convolving::slid;
use super::{Call, Extent, dim_of, number};
use crate::ops;
use crate::ops::shape_rules::{Shape, shape_row};
use crate::types::{Dim, TensorType, Type};

/// The names that schemas have for the object.
const PACKED: &[&str] = &["packed_weight", "packed_weights", "W_prepack", "weight"];

pub(super) fn extent(call: &Call<'_>) -> Option<Extent> {
    match call.row.shape {
        Shape::PackedWeight => Some(Extent::of(weight(call)?.sizes.as_deref()?.to_vec())),
        Shape::PackedLinear => {
            let mut sizes = call.sizes()?;
            *sizes.last_mut()? =
                weight(call).and_then(|weight| weight.sizes.as_deref()?.first().copied()).unwrap_or(Dim::Unknown);
            Some(Extent::of(sizes))
        }
        _ => convolved(call),
    }
}

/// The known type of the packed weight.
pub(super) fn weight(call: &Call<'_>) -> Option<&'static TensorType> {
    packing(call, |packing| packing.first())
}

/// Queries the node that packed the weight.
fn packing<T>(call: &Call<'_>, ask: impl Fn(&Call<'_>) -> Option<T>) -> Option<T> {
    let node = call.graph.definer(call.any_operand(PACKED)?)?;
    let kind = call.graph.kind(node);
    if !kind.short().contains("_prepack") {
        return None;
    }
    let types: Vec<Type> = call.graph.inputs(node).map(|value| call.graph.ty(value)).collect();
    let schema = ops::resolve(call.graph.era, kind, &types).schema()?;
    // A packing operator has no row: its result is an object.
    let row = shape_row(schema).unwrap_or(call.row);
    ask(&Call { graph: call.graph, node, schema, row, known: call.known })
}

fn convolved(call: &Call<'_>) -> Option<Extent> {
    let sizes = call.sizes()?;
    let made = packing(call, |packing| {
        let weight = packing.sizes()?;
        let n = weight.len().checked_sub(2)?;
        let first = sizes.len().checked_sub(n).filter(|first| *first > 0)?;
        let image: Vec<Option<i64>> = sizes[first..].iter().map(|dim| number(*dim)).collect();
        let kernel: Vec<Option<i64>> = weight[2..].iter().map(|dim| number(*dim)).collect();
        let result = sizes[..first - 1].iter().copied().chain([weight[0]]);
        Some(Extent::of(result.chain(slid(packing, &image, &kernel).into_iter().map(dim_of)).collect()))
    });
    Some(made.unwrap_or_else(|| Extent::ranked(sizes.len())))
}
