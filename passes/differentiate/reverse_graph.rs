//! The backward graph of a graph, before it is separated: captured values of the forward graph are
//! params, which stand where they were first read.
//!
//! ```text
//! graph(%x : Tensor, %y : Tensor):          graph(%0 : Tensor, %y : Tensor, …):
//!   %z : Tensor = aten::mul(%x, %y)    =>     %grad_self : Tensor, … = prim::GradOf[name="aten::mul"](%0)
//!   return (%z)                                 block0():
//!                                                 %2 : Tensor = aten::mul(%0, %y)
//! ```
//!
//! Nodes are visited from the last to the first. A node's formula starts from the gradients of its
//! outputs, `prim::AutogradZero` where there is none; the gradients that it gives for operands are
//! accumulated with `prim::AutogradAdd`.

use super::activity::{Activity, has_backward, is_structural, schema_of};
use super::fitting::{self, Fitting};
use super::formula_writer::{Thing, Unfit, Writer};
use jitopt_core::analysis::differentiability::is_of_complex_numbers;
use jitopt_core::analysis::grad_mode::is_about_grad_mode;
use jitopt_core::analysis::gradient_claims::requires_gradient;
use jitopt_core::entity::EntitySet;
use jitopt_core::ir::{Attribute, Block, Graph, Node, Value, ValueMap};
use jitopt_core::ops::gradient_table::notation::{Body, Literal, Role};
use jitopt_core::ops::gradient_table::{
    GradientRow, any_gradient_row, complex_gradient_row, eager_gradient_row, half_gradient_row, own_half_gradient_row,
};
use jitopt_core::ops::schema::Schema;
use jitopt_core::symbol::{Symbol, attr, prim};
use jitopt_core::tensor::DType;
use jitopt_core::types::Type;

/// A backward graph that still belongs to its forward graph.
pub(super) struct Reverse {
    /// The graph. Its first params are the gradients of results, the others represent values of the
    /// forward graph.
    pub(super) graph: Graph,
    /// The gradients of values, in the backward graph.
    pub(super) gradients: ValueMap,
    /// The values that represent values of the forward graph in the backward graph.
    pub(super) captured: ValueMap,
    /// Gradients that depend on gradients of results. The others are 0 unless the caller passes
    /// gradients of captured values, as a second derivative does.
    reached: EntitySet<Value>,
    /// Indices of the results that have a param for their gradient.
    pub(super) results: Vec<usize>,
    /// Indices of the params of the forward graph that the backward graph computes gradients of.
    pub(super) params: Vec<usize>,
    /// Whether gradients stop as in eager mode, even where they are infinite.
    is_eager: bool,
    /// Whether tensors of unknown element types count as half precision.
    may_be_halves: bool,
    /// Whether gradients are cast to the element types of the values they belong to, as there are
    /// several.
    is_mixed: bool,
    /// The values that may have a gradient.
    activity: Activity,
}

/// A node that cannot be differentiated, and why.
pub(super) struct Undifferentiable {
    pub(super) node: Node,
    pub(super) why: String,
}

/// The first node that cannot be differentiated: one that propagates gradients and has no formula,
/// overwrites a value that has a gradient, also in a branch or a loop, or disables gradients.
pub(super) fn obstacle(forward: &Graph) -> Option<Undifferentiable> {
    let activity = Activity::of(forward);
    let mut nodes = forward.all_nodes();
    nodes.find_map(|node| {
        let inside = || writes_inside(forward, node).then_some("overwrites a value that has a gradient");
        if let Some(why) = activity.is_in_the_way(forward, node).or_else(inside) {
            let why = format!("`{}` {why}", forward.kind(node));
            return Some(Undifferentiable { node, why });
        }
        if activity.is_lost(forward, node) {
            let why = format!("`{}` stores a value that has a gradient where it cannot be tracked", forward.kind(node));
            return Some(Undifferentiable { node, why });
        }
        if is_about_grad_mode(forward, node) {
            let why = "gradients are enabled or disabled at run time".to_owned();
            return Some(Undifferentiable { node, why });
        }
        let is_computed = activity.reaches(forward, node) && !is_structural(forward.kind(node));
        let of_complex =
            || schema_of(forward, node).is_some_and(|schema| complex_gradient_row(forward.release(), schema).is_some());
        if is_computed && is_of_complex_numbers(forward, node) && !of_complex() {
            let why = format!("`{}` of complex numbers has no gradient formula", forward.kind(node));
            return Some(Undifferentiable { node, why });
        }
        if forward.block_of(node) != Some(forward.root()) {
            return None;
        }
        let has_rule = !activity.reaches(forward, node)
            || is_structural(forward.kind(node))
            || has_backward(forward, node)
            || is_of_complex_numbers(forward, node) && of_complex()
            || schema_of(forward, node).is_some_and(|schema| any_gradient_row(forward.release(), schema).is_some());
        (!has_rule).then(|| Undifferentiable {
            node,
            why: format!("`{}` has no gradient formula for these operands", forward.kind(node)),
        })
    })
}

/// Whether a section of a node changes something that may have a gradient: a tensor, or a list or a
/// dictionary of them.
fn writes_inside(graph: &Graph, node: Node) -> bool {
    let writes_over = |section: &Graph, node| {
        let operand = |i: usize| (i < section.num_inputs(node)).then(|| section.ty(section.input(node, i)));
        let mut targets = schema_of(section, node).into_iter().flat_map(Schema::writes).filter_map(operand);
        targets.any(requires_gradient) || writes_inside(section, node)
    };
    graph.subgraph(node).is_some_and(|section| section.all_nodes().any(|node| writes_over(section, node)))
}

/// Makes the backward graph. The forward graph gets the nodes that formulas capture.
pub(super) fn reverse(forward: &mut Graph, is_eager: bool, may_be_halves: bool) -> Result<Reverse, Undifferentiable> {
    let graph = Graph::empty_like(forward);
    let mut all = Reverse {
        graph,
        gradients: ValueMap::default(),
        captured: ValueMap::default(),
        reached: EntitySet::new(),
        results: Vec::new(),
        params: Vec::new(),
        is_eager,
        may_be_halves,
        is_mixed: is_eager && fitting::are_mixed(forward),
        activity: Activity::of(forward),
    };
    let results: Vec<Value> = forward.results(forward.root()).collect();
    for (i, result) in results.into_iter().enumerate() {
        if requires_gradient(forward.ty(result)) {
            let param = all.graph.add_param(all.graph.root(), plain(forward.ty(result)));
            all.reached.insert(param);
            all.set(result, param);
            all.results.push(i);
        }
    }
    let mut cursor = forward.last(forward.root());
    while let Some(node) = cursor {
        cursor = forward.prev(node);
        if forward.outputs(node).any(|value| requires_gradient(forward.ty(value))) {
            all.node(forward, node).map_err(|why| Undifferentiable { node, why })?;
        }
    }
    let params: Vec<Value> = forward.params(forward.root()).collect();
    for (i, param) in params.into_iter().enumerate() {
        if let Some(&gradient) = all.gradients.get(&param).filter(|_| requires_gradient(forward.ty(param))) {
            all.graph.add_result(all.graph.root(), gradient);
            all.params.push(i);
        }
    }
    Ok(all)
}

/// The type of a gradient: a tensor, or a list of tensors, with no further facts.
fn plain(ty: Type) -> Type {
    ty.erased()
}

impl Reverse {
    /// The gradient of a value; `prim::AutogradZero` when there is none yet.
    pub(super) fn get(&mut self, value: Value) -> Value {
        if let Some(&gradient) = self.gradients.get(&value) {
            return gradient;
        }
        let zero = self.append(prim::AUTOGRAD_ZERO, &[], Type::tensor());
        self.gradients.insert(value, zero);
        zero
    }

    fn set(&mut self, value: Value, gradient: Value) {
        let sum = match self.gradients.get(&value) {
            // Each element of a list with several readers has a sum of its own.
            Some(&before) => self.append(prim::AUTOGRAD_ADD, &[before, gradient], plain(self.graph.ty(gradient))),
            None => gradient,
        };
        self.gradients.insert(value, sum);
    }

    fn append(&mut self, kind: Symbol, operands: &[Value], ty: Type) -> Value {
        let node = self.graph.create_op(kind, operands, ty);
        self.graph.append(self.graph.root(), node);
        let made = self.graph.output(node, 0);
        self.follow(made, operands);
        made
    }

    /// Records whether a value made from gradients depends on those of results.
    pub(super) fn follow(&mut self, made: Value, gradients: &[Value]) {
        if gradients.iter().any(|&gradient| self.reached.contains(gradient)) {
            self.reached.insert(made);
        }
    }

    /// Propagates the gradients of a node's outputs to its operands.
    fn node(&mut self, forward: &mut Graph, node: Node) -> Result<(), Unfit> {
        let outputs: Vec<Value> = forward.outputs(node).collect();
        let is_list = |value: &Value| !forward.ty(*value).is_tensor();
        if outputs.iter().all(|output| is_list(output) && !self.gradients.contains_key(output)) {
            return Ok(());
        }
        let gradients: Vec<Value> = outputs.into_iter().map(|output| self.get(output)).collect();
        let found = match forward.kind(node) {
            prim::CONSTANT | prim::AUTOGRAD_ZERO => return Ok(()),
            prim::AUTOGRAD_ADD | prim::PROFILE => forward.inputs(node).map(|operand| (operand, gradients[0])).collect(),
            prim::LIST_CONSTRUCT => self.list_elements(forward, node, gradients[0])?,
            prim::LIST_UNPACK | prim::CONSTANT_CHUNK => self.joined(forward, node, &gradients),
            prim::DIFFERENTIABLE_GRAPH if has_backward(forward, node) => self.group(forward, node)?,
            kind => {
                let schema = schema_of(forward, node);
                let row = schema.and_then(|schema| Some((schema, self.row(forward, node, schema)?)));
                if row.is_none() && !self.activity.reaches(forward, node) {
                    return Ok(());
                }
                let (schema, row) =
                    row.ok_or_else(|| format!("`{kind}` has no gradient formula for these operands"))?;
                self.formula(forward, node, schema, row.formula(), &gradients)?
            }
        };
        for (operand, gradient) in found {
            if requires_gradient(forward.ty(operand)) {
                self.set(operand, gradient);
            }
        }
        Ok(())
    }

    /// The row by which a node is differentiated: where half precision is known, the one that
    /// rounds as eager mode does.
    ///
    /// PyTorch's own formulas stay where nothing is known, unless the graph is made for a run:
    /// PyTorch's executors have these texts.
    fn row(&self, forward: &Graph, node: Node, schema: &Schema) -> Option<&'static GradientRow> {
        let dtypes = || {
            forward
                .inputs(node)
                .chain(forward.outputs(node))
                .filter_map(|value| forward.ty(value).as_tensor().map(|ty| ty.dtype))
        };
        if is_of_complex_numbers(forward, node) {
            return complex_gradient_row(forward.release(), schema);
        }
        let is_half = |dtype: Option<DType>| matches!(dtype, Some(DType::Half | DType::BFloat16));
        let release = forward.release();
        if dtypes().any(is_half) {
            return half_gradient_row(release, schema);
        }
        let may_be = self.may_be_halves && dtypes().all(|dtype| dtype.is_none_or(|dtype| !dtype.is_float()));
        let own = if may_be { own_half_gradient_row(release, schema) } else { None };
        let usual = if self.is_eager { eager_gradient_row } else { any_gradient_row };
        own.or_else(|| usual(release, schema))
    }

    /// A `prim::GradOf` with its block.
    fn linear(&mut self, forward: &Graph, node: Node, gradients: &[Value]) -> (Node, Block) {
        let linear = self.graph.create(prim::GRAD_OF);
        self.graph.set_inputs(linear, gradients.iter().copied());
        self.graph.set_attribute(linear, attr::NAME, Attribute::Str(forward.kind(node).as_str().as_bytes().into()));
        self.graph.append(self.graph.root(), linear);
        let block = self.graph.add_block(linear);
        (linear, block)
    }

    /// Makes a value computed in a block an output of its node, which takes over the name.
    fn export(&mut self, linear: Node, block: Block, inner: Value) -> Value {
        self.graph.add_result(block, inner);
        let output = self.graph.add_output(linear, plain(self.graph.ty(inner)));
        let gradients: Vec<Value> = self.graph.inputs(linear).collect();
        self.follow(output, &gradients);
        if self.graph.is_named(inner) && !self.graph.is_param(inner) {
            let name = self.graph.name(inner);
            self.graph.set_name(output, name.as_bytes());
        }
        output
    }

    fn formula(
        &mut self,
        forward: &mut Graph,
        node: Node,
        schema: &'static Schema,
        formula: &'static Body,
        gradients: &[Value],
    ) -> Result<Vec<(Value, Value)>, Unfit> {
        if formula.lines.is_empty() {
            return Ok(Vec::new());
        }
        let operands: Vec<Value> = forward.inputs(node).collect();
        let mut kept = bound(schema, &operands);
        let outputs: Vec<Value> = forward.outputs(node).collect();
        kept.extend(named_results(&outputs));
        let kept = self.keep(forward, node, schema, formula, kept)?;
        let (linear, block) = self.linear(forward, node, gradients);
        let mut writer = Writer::inside(&mut self.graph, forward, &mut self.captured, block);
        writer.bind_defaults(schema, operands.len());
        for (name, value) in kept {
            writer.bind(name, Thing::There(value));
        }
        for (formal, &operand) in schema.formals.iter().zip(&operands) {
            writer.declare(Thing::There(operand), formal.ty);
        }
        bind_gradients(&mut writer, gradients);
        let mut found: Vec<(usize, Value)> = Vec::new();
        for line in formula.lines.iter().filter(|line| matches!(line.role, Role::Local | Role::Grad)) {
            if line.role == Role::Local {
                writer.line(line)?;
                continue;
            }
            let i = schema.formal(line.names[0]).ok_or_else(|| format!("`{}` is not an operand", line.names[0]))?;
            let name = GRADIENT_NAMES.iter().find(|(formal, _)| *formal == line.names[0]).map(|(_, name)| *name);
            if let Some(thing) = writer.gradient(line, name)?.filter(|thing| *thing != Thing::Constant(Literal::None)) {
                let value = writer.value(thing);
                let fitting =
                    if self.is_mixed { Fitting::of_operand(forward, node, operands[i]) } else { Fitting::default() };
                found.push((i, fitting.write(&mut writer, value)?));
            }
        }
        found.sort_by_key(|(i, _)| *i);
        // The replaced operator may write, as running statistics do, and must not do so twice.
        if formula.lines.iter().any(|line| line.role == Role::Replace) {
            forward.erase(node);
        }
        Ok(found.into_iter().map(|(i, inner)| (operands[i], self.export(linear, block, inner))).collect())
    }

    /// Writes the forward lines of a formula, after the node or in its place; returns the names
    /// that the backward lines may read.
    fn keep(
        &mut self,
        forward: &mut Graph,
        node: Node,
        schema: &'static Schema,
        formula: &'static Body,
        mut kept: Vec<(&'static str, Value)>,
    ) -> Result<Vec<(&'static str, Value)>, Unfit> {
        let lines = formula.lines.iter().filter(|line| matches!(line.role, Role::Keep | Role::Replace));
        let operands = forward.num_inputs(node);
        let mut writer = Writer::after(forward, node);
        writer.bind_defaults(schema, operands);
        for (name, value) in &kept {
            writer.bind(name, Thing::Here(*value));
        }
        let mut replaced = Vec::new();
        for line in lines {
            let things = writer.line(line)?;
            let values: Vec<Value> = things.into_iter().map(|thing| writer.value(thing)).collect();
            let named = line.names.iter().copied().zip(values);
            if line.role == Role::Replace {
                replaced.extend(named.clone().filter(|(name, _)| name.starts_with("result")).map(|(_, value)| value));
            }
            kept.extend(named);
        }
        let outputs: Vec<Value> = forward.outputs(node).collect();
        for (old, new) in outputs.into_iter().zip(replaced) {
            forward.replace_all_uses(old, new);
            forward.set_type(new, forward.ty(old));
            forward.move_name(old, new);
            if let Some(gradient) = self.gradients.remove(&old) {
                self.gradients.insert(new, gradient);
            }
            // Its later readers have been differentiated, and may capture it.
            if let Some(param) = self.captured.remove(&old) {
                self.captured.insert(new, param);
            }
        }
        // Later lines hide earlier names.
        Ok(kept)
    }

    /// The gradients of the elements of a list.
    fn list_elements(&mut self, forward: &Graph, node: Node, gradient: Value) -> Result<Vec<(Value, Value)>, Unfit> {
        let (linear, block) = self.linear(forward, node, &[gradient]);
        let unpack = self.graph.create(prim::LIST_UNPACK);
        self.graph.add_input(unpack, gradient);
        self.graph.append(block, unpack);
        let operands: Vec<Value> = forward.inputs(node).collect();
        let mut found = Vec::new();
        for operand in operands {
            let mut inner = self.graph.add_output(unpack, Type::tensor());
            if self.is_eager {
                let mut writer = Writer::inside(&mut self.graph, forward, &mut self.captured, block);
                inner = Fitting::of_element(forward, node, operand, self.is_mixed).write(&mut writer, inner)?;
            }
            found.push((operand, self.export(linear, block, inner)));
        }
        Ok(found)
    }

    /// The gradient of a value that was unpacked into a list, or into chunks that are concatenated
    /// again.
    fn joined(&mut self, forward: &Graph, node: Node, gradients: &[Value]) -> Vec<(Value, Value)> {
        let (linear, block) = self.linear(forward, node, gradients);
        let outputs: Vec<Value> = forward.outputs(node).collect();
        let whole: Vec<Value> = outputs
            .into_iter()
            .zip(gradients)
            .map(|(output, &gradient)| self.defined(forward, block, output, gradient))
            .collect();
        let list = self.graph.create_op(prim::LIST_CONSTRUCT, &whole, Type::list(Type::tensor()));
        self.graph.append(block, list);
        let mut inner = self.graph.output(list, 0);
        if forward.kind(node) == prim::CONSTANT_CHUNK {
            let dim = forward.attribute(node, attr::DIM).and_then(Attribute::as_int).unwrap_or(0);
            let constant = self.graph.create_op(prim::CONSTANT, &[], Type::int());
            self.graph.set_attribute(constant, attr::VALUE, Attribute::Int(dim));
            self.graph.append(block, constant);
            let operands = [inner, self.graph.output(constant, 0)];
            let cat = self.graph.create_op(Symbol::new("aten::cat"), &operands, Type::tensor());
            self.graph.append(block, cat);
            inner = self.graph.output(cat, 0);
        }
        let gradient = self.export(linear, block, inner);
        vec![(forward.input(node, 0), gradient)]
    }

    /// The gradient itself, or zeros where no result propagates one: concatenated operands must be
    /// defined.
    fn defined(&mut self, forward: &Graph, block: Block, output: Value, gradient: Value) -> Value {
        if self.reached.contains(gradient) {
            return gradient;
        }
        let mut writer = Writer::inside(&mut self.graph, forward, &mut self.captured, block);
        let Ok(zeros) = writer.zeros_like(Thing::There(output)) else { return gradient };
        let zeros = writer.value(zeros);
        if self.graph.definer(gradient).is_some_and(|node| self.graph.kind(node) == prim::AUTOGRAD_ZERO) {
            return zeros;
        }
        let sum = self.graph.create_op(prim::AUTOGRAD_ADD, &[zeros, gradient], Type::tensor());
        self.graph.append(block, sum);
        self.graph.output(sum, 0)
    }
}

/// The operands by the names of the formal parameters.
fn bound(schema: &'static Schema, operands: &[Value]) -> Vec<(&'static str, Value)> {
    schema.formals.iter().map(|formal| formal.name).zip(operands.iter().copied()).collect()
}

/// `result`, or `result0`, `result1`, …
fn named_results(outputs: &[Value]) -> Vec<(&'static str, Value)> {
    const NAMES: [&str; 6] = ["result0", "result1", "result2", "result3", "result4", "result5"];
    match outputs {
        [only] => vec![("result", *only)],
        _ => NAMES.into_iter().zip(outputs.iter().copied()).collect(),
    }
}

/// `g`, or `g0`, `g1`, …; `gs` is a single gradient that is a list.
fn bind_gradients(writer: &mut Writer<'_>, gradients: &[Value]) {
    const NAMES: [&str; 6] = ["g0", "g1", "g2", "g3", "g4", "g5"];
    if let [only] = gradients {
        writer.bind("g", Thing::Here(*only));
        writer.bind("gs", Thing::Here(*only));
    } else {
        for (name, gradient) in NAMES.into_iter().zip(gradients) {
            writer.bind(name, Thing::Here(*gradient));
        }
    }
}

/// The names of gradients of the most common operands.
const GRADIENT_NAMES: &[(&str, &str)] = &[
    ("self", "grad_self"),
    ("other", "grad_other"),
    ("input", "grad_input"),
    ("weight", "grad_weight"),
    ("bias", "grad_bias"),
    ("mat2", "grad_mat2"),
    ("tensors", "grad_tensors"),
    ("end", "grad_end"),
    ("exponent", "grad_exponent"),
];
