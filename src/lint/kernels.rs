//! Errors of rewrites of matrix products and of the fusers' kernels.

use super::finder::Facts;
use crate::ir::{Attribute, Graph, Node, Value};
use crate::symbol::prim;
use crate::tensor::promotion::Promotion;
use crate::types::DType;
use crate::verify::{Sink, Spot};
use rustc_hash::FxHashMap;
use std::cmp::Ordering;
use std::collections::BTreeMap;

/// Trees with fewer matrix products are left alone.
const SMALLEST_TREE: usize = 4;

/// A tree of sums whose leaves are matrix products.
#[derive(Clone, Copy)]
struct Tree {
    products: usize,
    /// A scaled sum in the tree.
    scaling: Option<Node>,
}

/// `%s : Tensor = aten::add(%m1, %m2, %two)` in a tree of four products
pub(super) fn mm_tree_alpha(facts: &Facts<'_>, sink: &mut Sink<'_, '_>) {
    let graph = facts.graph;
    let mut trees: FxHashMap<Value, Tree> = FxHashMap::default();
    for node in facts.of_kinds(&["aten::mm", "aten::add"]) {
        let tree = match facts.kind(node) {
            "aten::mm" => Some(Tree { products: 1, scaling: None }),
            _ => sum(facts, node, &mut trees),
        };
        if let (Some(tree), Some(output)) = (tree, graph.single_output(node)) {
            trees.insert(output, tree);
        }
    }
    let mut found: Vec<Node> =
        trees.values().filter(|tree| tree.products >= SMALLEST_TREE).filter_map(|tree| tree.scaling).collect();
    if found.is_empty() || facts.any_writes() {
        return;
    }
    found.sort_by(|&a, &b| if graph.is_before(a, b) { Ordering::Less } else { Ordering::Greater });
    for node in found {
        sink.warning(Spot::Node(node), format!("the factor `{}` is treated as 1", facts.name(graph.input(node, 2))));
    }
}

/// `%o : Tensor = aten::add(%product, %z, %1)`, where `%product` is zero-dimensional and has a
/// wider element type than `%z`
pub(super) fn number_promotes(facts: &Facts<'_>, sink: &mut Sink<'_, '_>) {
    /// An element type, and whether there are dimensions.
    type Known = (DType, bool);
    let mut made: FxHashMap<Value, Known> = FxHashMap::default();
    for node in facts.of_kinds(&["aten::add", "aten::sub", "aten::mul", "aten::div"]) {
        let known = |value: Value, made: &FxHashMap<Value, Known>| {
            let ty = facts.ty(value);
            let written = ty.as_tensor().and_then(|tensor| Some((tensor.dtype?, tensor.rank()? > 0)));
            written.or_else(|| made.get(&value).copied())
        };
        let operands: Vec<Value> = facts.graph.inputs(node).take(2).collect();
        let [x, y] = operands[..] else { continue };
        let (Some(a), Some(b)) = (known(x, &made), known(y, &made)) else { continue };
        let eager = Promotion::default().element(a.0, a.1).element(b.0, b.1).result();
        // The kernel treats each intermediate result as a tensor with dimensions.
        let in_kernel = |value: Value, known: Known| known.1 || made.contains_key(&value);
        let fused = Promotion::default().element(a.0, in_kernel(x, a)).element(b.0, in_kernel(y, b)).result();
        if eager != fused && (a.1 || b.1) {
            let number = if a.1 { y } else { x };
            let (eager, fused) = (eager.python_name(), fused.python_name());
            let text =
                format!("`{}` is zero-dimensional: the result is {eager}, but {fused} in a kernel", facts.name(number));
            sink.warning(Spot::Node(node), text);
        }
        made.extend(facts.graph.single_output(node).map(|output| (output, (eager, a.1 || b.1))));
    }
}

/// The tree of a sum of two trees without other readers; they are removed from the map.
fn sum(facts: &Facts<'_>, node: Node, trees: &mut FxHashMap<Value, Tree>) -> Option<Tree> {
    let [x, y, alpha] = facts.operands(node)?;
    let alone = |value: Value| facts.graph.single_use(value).is_some();
    let (left, right) = (*trees.get(&x)?, *trees.get(&y)?);
    if !alone(x) || !alone(y) {
        return None;
    }
    trees.remove(&x);
    trees.remove(&y);
    let scaling = (facts.number(alpha) != Some(1.0)).then_some(node);
    Some(Tree { products: left.products + right.products, scaling: left.scaling.or(right.scaling).or(scaling) })
}

/// Arithmetic that the fuser of 1.3 puts into kernels with its constants.
const ARITHMETIC: &[&str] =
    &["aten::add", "aten::sub", "aten::mul", "aten::div", "aten::pow", "aten::clamp", "aten::threshold"];

/// Two constants of kernels with equal text: of nodes that a fuser may absorb, or of sections,
/// which one traversal from the outermost graph compares.
pub(super) fn kernel_shares_constants(facts: &Facts<'_>, sink: &mut Sink<'_, '_>) {
    if facts.carrier.is_some() {
        return;
    }
    let mut seen: BTreeMap<String, (String, f64)> = BTreeMap::new();
    for node in facts.graph.all_nodes() {
        for (i, x) in float_operands(facts.graph, node) {
            let name = facts.name(facts.graph.input(node, i));
            let (first, other) = seen.entry(in_six_digits(x)).or_insert_with(|| (name.clone(), x));
            if *other != x && x.is_finite() {
                let text = format!("`{name}` and `{first}` are equal in six digits");
                sink.warning(Spot::Operand(node, i), text);
            }
        }
        let Some(section) = facts.graph.subgraph(node) else { continue };
        let floats = floats_in(section);
        // A kernel is not compared with itself, so its constants are recorded after the comparison.
        for &x in &floats {
            if let Some((first, _)) = seen.get(&in_six_digits(x)).filter(|(_, other)| *other != x && x.is_finite()) {
                let text = format!("`{x}` in this section and `{first}` are equal in six digits");
                sink.warning(Spot::Node(node), text);
            }
        }
        for x in floats {
            seen.entry(in_six_digits(x)).or_insert_with(|| (x.to_string(), x));
        }
    }
}

fn in_six_digits(x: f64) -> String {
    format!("{x:.5e}")
}

/// The constants that are operands of arithmetic, by position.
fn float_operands(graph: &Graph, node: Node) -> Vec<(usize, f64)> {
    if !ARITHMETIC.contains(&graph.kind(node).as_str()) {
        return Vec::new();
    }
    let float = |value: Value| match graph.constant(value).flatten() {
        Some(Attribute::Float(x)) => Some(x.value),
        _ => None,
    };
    graph.inputs(node).enumerate().filter_map(|(i, value)| Some((i, float(value)?))).collect()
}

/// The constants of a section and its sections.
fn floats_in(section: &Graph) -> Vec<f64> {
    let mut floats = Vec::new();
    for node in section.all_nodes() {
        floats.extend(float_operands(section, node).into_iter().map(|(_, x)| x));
        floats.extend(section.subgraph(node).into_iter().flat_map(floats_in));
    }
    floats
}

/// The kinds of nodes whose sections are kernels of the legacy fuser.
fn is_kernel(facts: &Facts<'_>, node: Node) -> bool {
    ["prim::FusionGroup", "prim::CudaFusionGroup"].contains(&facts.kind(node))
}

/// Differences between kernels and operators.
const ROUNDING: &[(&str, &str)] = &[
    ("aten::round", "half-integers are rounded away from zero, not to even: 2.5 becomes 3"),
    ("aten::remainder", "1.3 rounds to the nearest multiple, remainder(3.5, 2) = -0.5; later releases lose low bits"),
    ("aten::fmod", "doubles are divided as floats"),
    ("aten::min", "1.3 ignores NaN"),
    ("aten::max", "1.3 ignores NaN"),
];

/// `aten::round` and other operators in a kernel
pub(super) fn kernel_rounds_otherwise(facts: &Facts<'_>, sink: &mut Sink<'_, '_>) {
    for group in facts.graph.all_nodes().filter(|&node| is_kernel(facts, node)) {
        let Some(kernel) = facts.graph.subgraph(group) else { continue };
        for node in kernel.all_nodes() {
            let kind = kernel.kind(node).as_str();
            if let Some((_, text)) = ROUNDING.iter().find(|(rounding, _)| *rounding == kind) {
                sink.warning(Spot::Node(group), format!("`{kind}` in this kernel: {text}"));
            }
        }
    }
}

/// A tensor constant among the operands of a TensorExpr kernel, or of a node that becomes one.
pub(super) fn constant_in_kernel(facts: &Facts<'_>, sink: &mut Sink<'_, '_>) {
    for node in facts.of_kinds(ARITHMETIC) {
        for (i, value) in facts.graph.inputs(node).enumerate() {
            let Some(tensor) = facts.made_by(value, prim::CONSTANT.as_str()).and(facts.ty(value).as_tensor()) else {
                continue;
            };
            let empty = tensor.sizes.as_ref().is_some_and(|sizes| sizes.is_empty());
            if !empty && tensor.dtype.is_none_or(DType::is_float) {
                let finding =
                    sink.warning(Spot::Operand(node, i), format!("`{}` is a tensor constant", facts.name(value)));
                finding.note = Some("when the fuser puts this node into a kernel for any shape".to_owned());
            }
        }
    }
}
