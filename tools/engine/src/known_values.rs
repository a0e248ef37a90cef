//! The facts about a graph that the weights of an archive and the given inputs prove, before passes
//! run.
//!
//! ```text
//! %t : bool = prim::GetAttr[name="training"](%bn)      %t : bool = prim::Constant[value=0]()
//! %w : Tensor = prim::GetAttr[name="w"](%conv)    =>   %w : Float(8, 3) = prim::GetAttr[name="w"](%conv)
//! ```
//!
//! Numbers of a module become constants, and tensors get element types and sizes. Inputs get
//! element types and ranks, but no sizes, so that kernels serve other sizes too. Nothing is done
//! where the graph may assign an attribute or write to a weight.

use crate::given_values::is_object;
use jitopt_core::analysis::AliasDb;
use jitopt_core::analysis::mutations::may_assign_attributes;
use jitopt_core::entity::EntitySet;
use jitopt_core::interpreter::{Environment, IValue, Machine, Stop, exact_literals};
use jitopt_core::ir::{Attribute, Graph, Node, Value};
use jitopt_core::ops::{self, rules::Nondeterminism};
use jitopt_core::symbol::{Symbol, attr, prim};
use jitopt_core::tensor::{Precision, Tensor};
use jitopt_core::types::{Dim, Strides, TensorType, Type, TypeKind};
use jitopt_judge::sharing::copies;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Writes what is known into the graph: contents by name, and for each param the inputs that it
/// receives in different runs.
pub(crate) fn settle(graph: &mut Graph, contents: &BTreeMap<String, IValue>, inputs: &[Vec<&IValue>]) {
    let params: Vec<Value> = graph.params(graph.root()).collect();
    for (param, given) in params.into_iter().zip(inputs) {
        if let Some(ty) = common_type(given).filter(|_| graph.ty(param) == Type::tensor()) {
            graph.set_type(param, ty);
        }
    }
    if may_assign_attributes(graph) {
        return;
    }
    let known: Vec<(Node, Value, &IValue)> = {
        let db = AliasDb::new(graph);
        let read = reads(graph).into_iter();
        read.filter_map(|(node, value, name)| Some((node, value, contents.get(&name)?)))
            .filter(|(_, value, _)| !db.has_writers(*value))
            .collect()
    };
    for (node, value, content) in known {
        match content {
            IValue::Tensor(tensor) if graph.ty(value) == Type::tensor() => {
                graph.set_type(value, with_layout(tensor));
            }
            IValue::Bool(_) | IValue::Int(_) | IValue::Float(_) if graph.kind(node) == prim::GET_ATTR => {
                put_constant(graph, node, value, content);
            }
            _ => {}
        }
    }
}

/// The values that contents are read into, and the names of the contents: `self.conv.weight`, or
/// the name of a constant.
fn reads(graph: &Graph) -> Vec<(Node, Value, String)> {
    let mut objects: BTreeMap<Value, String> = BTreeMap::new();
    objects.extend(graph.params(graph.root()).filter(|&p| is_object(graph, p)).map(|p| (p, graph.name(p))));
    let mut found = Vec::new();
    for node in graph.all_nodes() {
        let Some(output) = graph.single_output(node) else { continue };
        let name = match graph.kind(node) {
            prim::CONSTANT => Some(graph.name(output)),
            prim::GET_ATTR => graph.inputs(node).next().and_then(|object| {
                let Some(Attribute::Str(name)) = graph.attribute(node, attr::NAME) else { return None };
                Some(format!("{}.{}", objects.get(&object)?, String::from_utf8_lossy(name)))
            }),
            _ => None,
        };
        match name {
            Some(name) if is_object(graph, output) => drop(objects.insert(output, name)),
            Some(name) => found.push((node, output, name)),
            None => {}
        }
    }
    found
}

/// Computes what is the same in every run, once: operators on constants and attributes of a module
/// only. Their results become constants that `env` binds. The graph must not be used with other
/// contents afterwards.
///
/// ```text
/// %w : Tensor = prim::GetAttr[name="weight"](%fc)      %t : Tensor = prim::Constant[value=<Tensor>]()
/// %t : Tensor = aten::t(%w)                        =>
/// ```
///
/// # Errors
/// The reason why one of the operators stopped.
pub(crate) fn compute_once(graph: &mut Graph, env: &mut Environment, inputs: &[IValue]) -> Result<(), Stop> {
    if may_assign_attributes(graph) {
        return Ok(());
    }
    let fixed = Fixed::of(graph);
    if fixed.results.is_empty() {
        return Ok(());
    }
    let mut part = graph.clone();
    fixed.keep_only(&mut part);
    let computed = Machine::new(&part, env).run(copies(inputs, Precision::Typed))?;
    let first = graph.first(graph.root());
    for (i, (&old, content)) in fixed.results.iter().zip(computed).enumerate() {
        let (IValue::Tensor(_), Some(first)) = (&content, first) else { continue };
        let constant = graph.create_op(prim::CONSTANT, &[], graph.ty(old));
        graph.set_attribute(constant, attr::VALUE, Attribute::Opaque("<Tensor>".into()));
        graph.insert_before(first, constant);
        let new = graph.output(constant, 0);
        let name = format!("computed_once.{i}");
        graph.set_name(new, name.as_bytes());
        graph.replace_all_uses(old, new);
        env.bindings.borrow_mut().insert(graph.name(new), content);
    }
    fixed.erase_unread(graph);
    env.content_names = Arc::new((*env.content_names).clone().and_of(graph, &env.callees));
    Ok(())
}

/// The nodes whose results are the same in every run.
struct Fixed {
    /// In order; constants and attributes included.
    nodes: Vec<Node>,
    /// Tensors that operators among them compute and others read.
    results: Vec<Value>,
}

impl Fixed {
    fn of(graph: &Graph) -> Fixed {
        let db = AliasDb::new(graph);
        let (mut known, mut computed) = (EntitySet::new(), EntitySet::new());
        graph.params(graph.root()).filter(|&param| is_object(graph, param)).for_each(|param| _ = known.insert(param));
        let mut nodes = Vec::new();
        for node in graph.nodes(graph.root()) {
            let is_read = [prim::CONSTANT, prim::GET_ATTR].contains(&graph.kind(node));
            let is_written = graph.outputs(node).any(|output| db.has_writers(output));
            let of_known = graph.inputs(node).all(|input| known.contains(input));
            if !of_known || is_written || !(is_read || is_repeatable(graph, &db, node)) {
                continue;
            }
            graph.outputs(node).for_each(|output| _ = known.insert(output));
            nodes.push(node);
            if !is_read {
                computed.insert(node);
            }
        }
        let read_outside =
            |&value: &Value| graph.ty(value).is_tensor() && graph.users(value).any(|user| !computed.contains(user));
        let made = nodes.iter().filter(|&&node| computed.contains(node));
        let results = made.flat_map(|&node| graph.outputs(node)).filter(read_outside).collect();
        Fixed { nodes, results }
    }

    /// Leaves these nodes only, and their results as those of the graph.
    fn keep_only(&self, graph: &mut Graph) {
        let root = graph.root();
        let end = graph.return_node(root);
        for i in (0..graph.num_inputs(end)).rev() {
            graph.remove_input(end, i);
        }
        let mut kept = EntitySet::new();
        self.nodes.iter().for_each(|&node| _ = kept.insert(node));
        let others: Vec<Node> = graph.nodes(root).filter(|&node| !kept.contains(node)).collect();
        others.into_iter().rev().for_each(|node| graph.erase(node));
        self.results.iter().for_each(|&value| graph.add_result(root, value));
    }

    /// Erases those that nothing reads any more.
    fn erase_unread(&self, graph: &mut Graph) {
        for &node in self.nodes.iter().rev() {
            if graph.outputs(node).all(|output| graph.users(output).next().is_none()) {
                graph.erase(node);
            }
        }
    }
}

/// Whether a node computes the same each time that it runs on the same operands.
fn is_repeatable(graph: &Graph, db: &AliasDb, node: Node) -> bool {
    let is_plain = |graph: &Graph, node: Node| {
        let operator = ops::operator(graph.era, graph.kind(node));
        let is_group = graph.kind(node) == prim::FUSION_GROUP;
        let is_one_value = is_group || operator.nondeterminism(None) == Nondeterminism::Deterministic;
        graph.num_blocks(node) == 0 && is_one_value
    };
    let section = graph.subgraph(node);
    let is_group = graph.kind(node) == prim::FUSION_GROUP;
    graph.num_inputs(node) > 0
        && (section.is_none() || is_group)
        && is_plain(graph, node)
        && section.is_none_or(|section| section.all_nodes().all(|inner| is_plain(section, inner)))
        && !db.is_writing(node)
        && !db.has_side_effects(node)
}

/// Replaces the read of an attribute by its value.
fn put_constant(graph: &mut Graph, node: Node, value: Value, content: &IValue) {
    let Ok((Some(literal), ty)) = exact_literals::of(content, graph.ty(value), graph.release()) else { return };
    if ty != graph.ty(value) {
        return;
    }
    let constant = graph.create_op(prim::CONSTANT, &[], ty);
    graph.set_attribute(constant, attr::VALUE, literal);
    graph.insert_before(node, constant);
    let new = graph.output(constant, 0);
    graph.replace_all_uses(value, new);
    graph.erase(node);
}

/// The element type and rank that all tensors given for a param have in common.
fn common_type(given: &[&IValue]) -> Option<Type> {
    let types: Option<Vec<Type>> = given.iter().map(|value| Some(type_of(value.tensor()?, |_| Dim::Unknown))).collect();
    let types = types?;
    types.first().copied().filter(|first| types.iter().all(|ty| ty == first))
}

/// The same with sizes, and with strides unless these are the usual ones. Strides of dimensions of
/// size 1 count, too, as they decide about the layout of the result of a convolution.
fn with_layout(tensor: &Tensor) -> Type {
    let ty = type_of(tensor, Dim::Known);
    let usual = |dim: usize| tensor.shape()[dim + 1..].iter().product::<i64>();
    let is_usual = tensor.strides().iter().enumerate().all(|(dim, &stride)| stride == usual(dim));
    match ty.as_tensor() {
        Some(known) if !is_usual && tensor.numel() > 0 => {
            let strides = Strides::Known(tensor.strides().into());
            Type::new(TypeKind::Tensor(TensorType { strides, ..known.clone() }))
        }
        _ => ty,
    }
}

fn type_of(tensor: &Tensor, size: impl Fn(i64) -> Dim) -> Type {
    Type::new(TypeKind::Tensor(TensorType {
        dtype: Some(tensor.dtype()),
        sizes: Some(tensor.shape().iter().map(|&n| size(n)).collect()),
        strides: Strides::Unknown,
        requires_grad: None,
        device: Some(Symbol::new(tensor.device().name())),
        undefined: None,
        profiled: false,
    }))
}
