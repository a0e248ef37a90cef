//! Checks the values of a run against the types of the graph.
//!
//! Passes rely on types. A type that a run contradicts is a bug even if no result is wrong yet. The
//! interpreter does not track gradients, so `requires_grad` is not checked; neither are strides and
//! profiled types.

use crate::showing::{Outcome, Settings};
use jitopt_core::interpreter::{IValue, Stop, Watch};
use jitopt_core::ir::{Graph, Node};
use jitopt_core::ops;
use jitopt_core::ops::rules::Basis;
use jitopt_core::tensor::{Precision, Tensor};
use jitopt_core::text::{PrintOptions, Printer};
use jitopt_core::types::{Dim, TensorType, Type, TypeKind};
use rustc_hash::FxHashSet;

/// An observer that keeps the first contradicted type.
#[derive(Default)]
pub struct Facts {
    /// The contradiction, and its node.
    pub wrong: Option<String>,
    /// Whether a bailout was taken: types of templates hold only while guards hold.
    left: bool,
}

impl Watch for Facts {
    fn after(&mut self, graph: &Graph, node: Node, _: &[IValue], outputs: &[IValue]) -> Result<(), Stop> {
        if self.left || self.wrong.is_some() || ops::operator(graph.era, graph.kind(node)).rule.basis == Basis::Profiled
        {
            return Ok(());
        }
        let broken = |(value, made)| contradiction(graph.ty(value), made);
        self.wrong = graph.outputs(node).zip(outputs).find_map(broken).map(|why| {
            let mut printer = Printer::new(PrintOptions { no_comments: true, ..PrintOptions::default() });
            printer.node_line(graph, node);
            format!("{why}\n  of {}", String::from_utf8_lossy(&printer.out).trim())
        });
        Ok(())
    }

    fn left(&mut self, _: &Graph, _: Node, _: &Graph) {
        self.left = true;
    }
}

/// The first type of `after` that a run contradicts and that `before` does not have. Nothing runs
/// if all types of `after` occur in `before`; nothing is reported if `before` itself contradicts
/// its types.
pub fn broken(
    before: &Graph,
    after: &Graph,
    (settings, named): (&Settings, &Settings),
    inputs: &[IValue],
    fitting: &[IValue],
) -> Option<String> {
    let types = |graph: &Graph| -> FxHashSet<Type> {
        let params = graph.all_blocks().map(|block| graph.param_node(block));
        let all = params.chain(graph.all_nodes()).flat_map(|node| graph.outputs(node).collect::<Vec<_>>());
        all.map(|value| graph.ty(value)).collect()
    };
    let old = types(before);
    if types(after).iter().all(|ty| old.contains(ty)) {
        return None;
    }
    let watched = |graph: &Graph, settings: &Settings, inputs: &[IValue]| {
        let mut facts = Facts::default();
        Outcome::watched(graph, settings, inputs, Precision::Typed, Some(&mut facts));
        facts.wrong
    };
    let wrong = watched(after, named, fitting)?;
    watched(before, settings, inputs).is_none().then_some(wrong)
}

/// The contradiction between a value and a type, if any.
pub fn contradiction(ty: Type, value: &IValue) -> Option<String> {
    match (ty.kind(), value) {
        (TypeKind::Tensor(known), IValue::Tensor(tensor)) if !fits(known, tensor) => {
            Some(format!("the type `{ty}` is wrong: it is a {}{:?}", tensor.dtype().name(), tensor.shape()))
        }
        (TypeKind::Optional(inner), value) => contradiction(*inner, value),
        (TypeKind::Tuple(parts), IValue::Tuple(values)) => {
            parts.iter().zip(values.iter()).find_map(|(part, value)| contradiction(*part, value))
        }
        (TypeKind::NamedTuple(fields), IValue::Tuple(values)) => {
            fields.iter().zip(values.iter()).find_map(|(field, value)| contradiction(field.ty, value))
        }
        _ => None,
    }
}

fn fits(known: &TensorType, tensor: &Tensor) -> bool {
    let size = |(dim, size): (&Dim, &i64)| !matches!(dim, Dim::Known(n) if n != size);
    let sizes = known
        .sizes
        .as_deref()
        .is_none_or(|sizes| sizes.len() == tensor.rank() && sizes.iter().zip(tensor.shape()).all(size));
    sizes && known.dtype.is_none_or(|dtype| dtype == tensor.dtype())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Verdict, judge};
    use jitopt_core::tensor::DType;
    use jitopt_core::text::{ParseOptions, parse};

    fn graph(ty: &str) -> Graph {
        let text = format!("graph(%x : Tensor,\n      %y : Tensor):\n  %r : {ty} = aten::mm(%x, %y)\n  return (%r)\n");
        parse(text.as_bytes(), ParseOptions::default()).expect("a graph").graph
    }

    #[test]
    fn a_type_that_a_run_contradicts_is_found() {
        let tensor = |shape: &[i64]| IValue::Tensor(Tensor::zeros(DType::Float, shape, Precision::Typed));
        let inputs = [tensor(&[2, 3]), tensor(&[3, 4])];
        let verdict = |ty: &str| judge(&graph("Tensor"), &graph(ty), &Settings::default(), &inputs, Default::default());
        for right in ["Tensor", "Float(2, 4)", "Float(*, *)", "Float(SS(-2), 4)"] {
            assert!(!verdict(right).is_wrong(), "{right}");
        }
        // Includes the mistake that PyTorch's shape analysis makes for `aten::matmul`.
        for wrong in ["Float(2, 3)", "Double(2, 4)", "Float(*)", "Long(*, *)"] {
            let Verdict::Differs(lines) = verdict(wrong) else { panic!("{wrong} was not found") };
            assert!(lines[0].contains("is wrong: it is a Float[2, 4]"), "{lines:?}");
        }
    }
}
