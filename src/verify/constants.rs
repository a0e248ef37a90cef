//! Constants: one output, no operands, and a value of its type.

use super::finding::{Sink, Spot};
use crate::ir::{Attribute, Node};
use crate::symbol::attr;
use crate::types::{Simple, Type, TypeKind};

/// Checks one `prim::Constant`.
pub(super) fn check(sink: &mut Sink<'_, '_>, node: Node) {
    let graph = sink.graph;
    let (operands, outputs) = (graph.num_inputs(node), graph.num_outputs(node));
    if operands > 0 {
        sink.error(Spot::Operand(node, 0), format!("a constant has no operands, this one has {operands}"));
    }
    if outputs != 1 {
        sink.error(Spot::Node(node), format!("a constant has one output, this one has {outputs}"));
    }
    let value = graph.attribute(node, attr::VALUE);
    if value.is_none() && graph.attribute(node, attr::NAME).is_none() && !graph.attributes(node).is_empty() {
        let finding = sink.warning(Spot::Node(node), "this constant has no value");
        finding.help("expected the attribute `value`; `prim::Constant()` is None");
    }
    let ty = graph.single_output(node).and_then(|output| graph.written_type(output));
    if let (Some(value), Some(ty)) = (value, ty)
        && !may_hold(ty, value)
    {
        sink.warning(Spot::Output(node, 0), format!("the value of this constant is not of type `{ty}`"));
    }
}

/// Whether a value in this spelling may be of that type. Only certain mismatches are refused: the
/// text of a tensor may be a number, dtypes and layouts are ints, and bools are 0 and 1.
fn may_hold(ty: Type, value: &Attribute) -> bool {
    use Attribute as A;
    use TypeKind as T;
    match (ty.kind(), value) {
        (T::Optional(inner), _) => matches!(value, A::None) || may_hold(*inner, value),
        (T::Simple(simple), A::Int(_)) => !matches!(simple, Simple::Str | Simple::None),
        (T::Simple(simple), A::Float(_)) => !matches!(simple, Simple::Int | Simple::Bool | Simple::Str | Simple::None),
        (T::Simple(simple), A::Complex(_)) => {
            !matches!(simple, Simple::Int | Simple::Bool | Simple::Str | Simple::Float)
        }
        (T::Simple(simple), A::Str(_)) => !matches!(simple, Simple::Int | Simple::Bool | Simple::Float | Simple::None),
        (T::Simple(simple), A::List(_) | A::Dict(_) | A::Tensor(_) | A::EmptyList(_)) => {
            !matches!(simple, Simple::Int | Simple::Bool | Simple::Float | Simple::Str)
        }
        (T::List(_) | T::Tuple(_) | T::Dict(..), A::Int(_) | A::Float(_) | A::Complex(_) | A::Str(_)) => false,
        (T::Tensor(_), A::Str(_) | A::Dict(_)) => false,
        _ => true,
    }
}
