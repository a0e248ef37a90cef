//! What no kernel computes, where types tell it: remainders and powers of whole numbers, say, what fills them under a mask, and complex products.
//!
//! PyTorch's fuser makes groups of such operators, too, and so does level 1. From level 2 on they stay outside, where their operators run without
//! a warning.

use jitopt_core::codegen::lowering::{arguments_of_types, lower};
use jitopt_core::interpreter::Release;
use jitopt_core::ir::{Graph, Node, Value, ValueMap};
use jitopt_core::ops::formulas::formulas;
use jitopt_core::symbol::prim;
use jitopt_core::types::DType;

/// Whether no kernel has a formula for an operator of tensors of whole, complex or truth values, or for what it is asked beside tensors.
pub(super) fn lacks_formula(graph: &Graph, node: Node) -> bool {
    let dtype = |value: Value| graph.ty(value).as_tensor().map(|tensor| tensor.dtype);
    let dtypes: Vec<Option<DType>> = graph.inputs(node).filter_map(dtype).collect();
    let is_no_real = |dtype: &Option<DType>| dtype.is_some_and(|dtype| !dtype.is_float());
    let told = !dtypes.contains(&None) && dtypes.iter().any(is_no_real);
    let rows = formulas(graph.kind(node));
    let is_asked = !rows.is_empty() && rows.iter().all(|row| !row.when.is_empty());
    if !told && !is_asked {
        return false;
    }
    let section = alone(graph, node);
    let (arguments, _) = arguments_of_types(&section, DType::Float);
    let Release(major, minor) = Release::of(graph.era);
    // Another refusal may not be one in a larger group: what an operator hands on as it is may be computed there.
    let is_final = |why: &str| why.contains("has no formula") || why.contains("has no recipe");
    lower(&section, "a node", &arguments, (major, minor)).is_err_and(|refusal| is_final(&refusal.0))
}

/// Whether an operator is not worth a kernel of its own: it reads only the sizes of its operand, or may do nothing but hand that on, as far as types tell.
pub(super) fn computes_nothing(graph: &Graph, node: Node) -> bool {
    const FILLS: [&str; 2] = ["aten::zeros_like", "aten::ones_like"];
    FILLS.contains(&graph.kind(node).as_str()) || may_hand_on(graph, node)
}

fn may_hand_on(graph: &Graph, node: Node) -> bool {
    let dtype = |value: Value| graph.ty(value).as_tensor().and_then(|tensor| tensor.dtype);
    let rows = formulas(graph.kind(node));
    let mut operands = graph.inputs(node).filter(|&value| graph.ty(value).is_tensor());
    let given = operands.next().and_then(dtype);
    // Another operand is the one whose type the result has.
    let made = operands.next().map_or(graph.output(node, 0), |like| like);
    let converts = given.is_some_and(|given| dtype(made).is_some_and(|made| made != given));
    !rows.is_empty() && rows.iter().all(|row| row.only_converts()) && !converts
}

/// A node as a section of its own, with the constants that it reads.
fn alone(graph: &Graph, node: Node) -> Graph {
    let mut section = Graph::new();
    (section.era, section.dialect, section.layout) = (graph.era, graph.dialect, graph.layout);
    let root = section.root();
    let mut map = ValueMap::default();
    let mut operands: Vec<Value> = graph.inputs(node).collect();
    while let Some(operand) = operands.pop() {
        if map.contains_key(&operand) {
            continue;
        }
        match graph.definer(operand) {
            Some(definer) if graph.kind(definer) == prim::CONSTANT => {
                let copy = section.copy_node(Some(graph), definer, &mut map);
                section.append(root, copy);
            }
            Some(list) if graph.kind(list) == prim::LIST_CONSTRUCT => {
                let elements: Vec<Value> = graph.inputs(list).filter(|element| !map.contains_key(element)).collect();
                if elements.is_empty() {
                    let copy = section.copy_node(Some(graph), list, &mut map);
                    section.append(root, copy);
                } else {
                    operands.push(operand);
                    operands.extend(elements);
                }
            }
            _ => {
                let param = section.add_param(root, graph.ty(operand));
                map.insert(operand, param);
            }
        }
    }
    let copy = section.copy_node(Some(graph), node, &mut map);
    section.append(root, copy);
    let result = section.output(copy, 0);
    section.add_result(root, result);
    section
}
