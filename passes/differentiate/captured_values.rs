//! Separates a backward graph from its forward graph: captured values become params of the one and
//! results of the other.
//!
//! Params of the backward graph are, in this order, the gradients of the forward graph's results,
//! the gradients of values that became results, the params of the forward graph that are read, and
//! the values of it that are read. A value that became a result is visible outside, so it has a
//! gradient from outside as well, which is added to the one computed in the backward graph.
//!
//! Beforehand, known sizes make `aten::_size_if_not_equal` a constant, the size of a value that is
//! captured anyway is recomputed instead of captured, and unread values are dropped.

use super::reverse_graph::Reverse;
use crate::{common_subexpression_elimination, constant_pooling, dead_code_elimination};
use jitopt_core::analysis::gradient_roles::Roles;
use jitopt_core::ir::{Attribute, Graph, Node, Value, ValueMap};
use jitopt_core::pass::PassContext;
use jitopt_core::symbol::{Symbol, attr, prim};
use jitopt_core::types::era::Era;
use jitopt_core::types::{Dim, Type};
use rustc_hash::FxHashMap;

/// Drops unneeded values, adds captured values to the results of the forward graph, and completes
/// the backward graph as a graph of its own.
pub(super) fn cut(forward: &mut Graph, mut reverse: Reverse, cx: &mut PassContext<'_>) -> (Graph, Roles) {
    if forward.era == Era::V2 {
        fold_known_sizes(forward, &mut reverse);
        merge_equal(forward, &mut reverse, cx);
    }
    dead_code_elimination::eliminate(&mut reverse.graph, cx, true);
    ask_sizes_again(forward, &mut reverse);
    if forward.era == Era::V1_3 {
        constant_pooling::pool(&mut reverse.graph, cx);
    }
    let real_outputs = forward.results(forward.root()).len();
    let wanted = wanted(forward, &reverse);
    let (mut captured_inputs, mut captured_outputs) = (Vec::new(), Vec::new());
    let mut places: FxHashMap<Value, usize> = FxHashMap::default();
    for (i, result) in forward.results(forward.root()).enumerate() {
        places.entry(result).or_insert(i);
    }
    for value in wanted {
        if let Some(&i) = places.get(&value) {
            captured_outputs.push(i);
        } else if forward.definer(value) == Some(forward.param_node(forward.root())) {
            captured_inputs.push(forward.output_index(value));
        } else {
            captured_outputs.push(forward.results(forward.root()).len());
            forward.add_result(forward.root(), value);
        }
    }
    let mut input_vjps = reverse.results.clone();
    let mut order: Vec<Value> = reverse.graph.params(reverse.graph.root()).take(input_vjps.len()).collect();
    for i in real_outputs..forward.results(forward.root()).len() {
        let value = forward.input(forward.return_node(forward.root()), i);
        order.extend(from_outside(&mut reverse, value).inspect(|_| input_vjps.push(i)));
    }
    order.extend(
        captured_inputs.iter().map(|&i| reverse.captured[&forward.output(forward.param_node(forward.root()), i)]),
    );
    order.extend(
        captured_outputs.iter().map(|&i| reverse.captured[&forward.input(forward.return_node(forward.root()), i)]),
    );
    let backward = with_params(&reverse.graph, &order);
    (backward, Roles { real_outputs, input_vjps, captured_inputs, captured_outputs, output_vjps: reverse.params })
}

/// The values of the forward graph that the backward graph reads, in the forward graph's order.
fn wanted(forward: &Graph, reverse: &Reverse) -> Vec<Value> {
    let read = |value: &Value| reverse.captured.get(value).is_some_and(|&param| reverse.graph.has_uses(param));
    let made = forward.nodes(forward.root()).flat_map(|node| forward.outputs(node));
    forward.params(forward.root()).chain(made).filter(read).collect()
}

/// Adds a param for the gradient from outside of a value that is visible there now, when the
/// backward graph uses that gradient.
fn from_outside(reverse: &mut Reverse, value: Value) -> Option<Value> {
    let gradient = *reverse.gradients.get(&value)?;
    let graph = &mut reverse.graph;
    let definer = graph.definer(gradient).filter(|&node| graph.block_of(node).is_some())?;
    if !graph.has_uses(gradient) || !graph.ty(gradient).is_tensor() {
        return None;
    }
    let param = graph.add_param(graph.root(), Type::tensor());
    let sum = graph.create_op(prim::AUTOGRAD_ADD, &[param, param], Type::tensor());
    graph.insert_after(definer, sum);
    let output = graph.output(sum, 0);
    graph.replace_all_uses(gradient, output);
    graph.set_input(sum, 1, gradient);
    Some(param)
}

/// The graph with its params in this order, and its results in a tuple.
fn with_params(graph: &Graph, order: &[Value]) -> Graph {
    let mut new = Graph::empty_like(graph);
    let mut map = ValueMap::default();
    for &param in order {
        let copy = new.add_param(new.root(), graph.ty(param));
        if graph.is_named(param) {
            new.set_name(copy, graph.name(param).as_bytes());
        }
        map.insert(param, copy);
    }
    let results = new.copy_block_into(Some(graph), graph.root(), new.root(), &mut map);
    let types: Vec<Type> = results.iter().map(|&value| new.ty(value)).collect();
    let tuple = new.create_op(prim::TUPLE_CONSTRUCT, &results, Type::tuple(&types));
    new.append(new.root(), tuple);
    let value = new.output(tuple, 0);
    new.add_result(new.root(), value);
    new
}

/// Recomputes `%s = aten::size(%x)` in the backward graph where `%x` is captured too.
fn ask_sizes_again(forward: &Graph, reverse: &mut Reverse) {
    for value in wanted(forward, reverse) {
        let Some(node) = forward.definer(value).filter(|&node| queries_size(forward, node)) else { continue };
        let of = forward.input(node, 0);
        let Some(&tensor) = reverse.captured.get(&of).filter(|&&param| reverse.graph.has_uses(param)) else { continue };
        let used = forward.users(value).any(|user| user != node);
        if used {
            continue;
        }
        let graph = &mut reverse.graph;
        let size = graph.create_op(Symbol::new("aten::size"), &[tensor], Type::list(Type::int()));
        graph.prepend(graph.root(), size);
        let (old, new) = (reverse.captured[&value], graph.output(size, 0));
        graph.replace_all_uses(old, new);
    }
}

fn queries_size(graph: &Graph, node: Node) -> bool {
    graph.kind(node).as_str() == "aten::size" && graph.num_inputs(node) == 1
}

/// Merges equal nodes in the forward graph, which has many equal sizes. A temporary node that reads
/// each captured value tracks the replacements.
fn merge_equal(forward: &mut Graph, reverse: &mut Reverse, cx: &mut PassContext<'_>) {
    let mut captured: Vec<(Value, Value)> = reverse.captured.drain().collect();
    captured.sort_unstable();
    let mut readers = Vec::new();
    for (i, &(value, _)) in captured.iter().enumerate() {
        let reader = forward.create_op(prim::IS_INSTANCE, &[value], Type::bool());
        forward.set_attribute(reader, attr::INDEX, Attribute::Int(i as i64));
        forward.append(forward.root(), reader);
        readers.push(reader);
    }
    common_subexpression_elimination::merge(forward, cx);
    merge_comparisons(forward);
    for (reader, (_, param)) in readers.into_iter().zip(captured) {
        let value = forward.input(reader, 0);
        forward.erase(reader);
        match reverse.captured.get(&value) {
            Some(&other) => reverse.graph.replace_all_uses(param, other),
            None => {
                reverse.captured.insert(value, param);
            }
        }
    }
}

/// Merges comparisons of the same sizes: their results are lists that are never written to.
fn merge_comparisons(forward: &mut Graph) {
    let mut seen: FxHashMap<(Value, Value), Value> = FxHashMap::default();
    for node in comparisons(forward) {
        let output = forward.output(node, 0);
        let first = *seen.entry((forward.input(node, 0), forward.input(node, 1))).or_insert(output);
        if first != output {
            forward.replace_all_uses(output, first);
            forward.erase(node);
        }
    }
}

/// The nodes that compare sizes which formulas capture.
fn comparisons(forward: &Graph) -> Vec<Node> {
    let nodes = forward.nodes(forward.root());
    nodes.filter(|&node| forward.kind(node).as_str() == "aten::_size_if_not_equal").collect()
}

/// `aten::_size_if_not_equal` of sizes that are known from types is a constant.
fn fold_known_sizes(forward: &mut Graph, reverse: &mut Reverse) {
    for node in comparisons(forward) {
        let known = |i| {
            let size = forward.definer(forward.input(node, i)).filter(|&size| queries_size(forward, size))?;
            let tensor = forward.ty(forward.input(size, 0));
            let dims = tensor.as_tensor()?.sizes.as_ref()?.iter();
            dims.map(|dim| if let Dim::Known(n) = dim { Some(*n) } else { None }).collect::<Option<Vec<i64>>>()
        };
        let (Some(own), Some(result)) = (known(0), known(1)) else { continue };
        let constant = forward.create_op(prim::CONSTANT, &[], forward.ty(forward.output(node, 0)));
        if own != result {
            let sizes: Box<[Attribute]> = own.into_iter().map(Attribute::Int).collect();
            forward.set_attribute(constant, attr::VALUE, Attribute::List(sizes));
        }
        forward.insert_before(node, constant);
        let (old, new) = (forward.output(node, 0), forward.output(constant, 0));
        forward.replace_all_uses(old, new);
        if let Some(param) = reverse.captured.remove(&old) {
            reverse.captured.insert(new, param);
        }
        forward.erase(node);
    }
}
