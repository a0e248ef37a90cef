//! Records a run as a graph of operators on tensors.
//!
//! ```text
//! %y : Tensor = prim::Loop(%n, %yes, %x)            %y.1 : Tensor = aten::tanh(%x)
//!   block0(%i : int, %carried : Tensor):     =>     %y.2 : Tensor = aten::tanh(%y.1)
//!     %next : Tensor = aten::tanh(%carried)         return (%y.2)
//!     -> (%yes, %next)
//! return (%y)
//! ```
//!
//! Nodes that compute tensors are copied in execution order, from the branches taken, once per loop
//! iteration. Numbers and strings become constants: they may have decided the control flow. The
//! contents of lists, tuples and dictionaries are tracked, and containers remain only as operands:
//! their operators run a second time, on containers of tokens that stand for tensors. The resulting
//! graph computes the same for these inputs, but need not for others.

mod recurrent_layers;
mod switched_off;

use crate::sharing::Copier;
use jitopt_core::analysis::grad_mode::is_about_grad_mode;
use jitopt_core::interpreter::call::Call;
use jitopt_core::interpreter::shown_values::to_str;
use jitopt_core::interpreter::{Environment, IValue, Machine, Outs, Reason, Stop, Watch, library};
use jitopt_core::ir::{Attribute, Block, DrawPlace, Float, FloatStyle, Graph, Node, Value, ValueMap};
use jitopt_core::ops;
use jitopt_core::ops::gradient_table::any_gradient_row;
use jitopt_core::symbol::{Symbol, attr, prim};
use jitopt_core::tensor::{DType, Precision, Scalar, Tensor};
use jitopt_core::types::{Simple, Type, TypeKind};
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;
use switched_off::Meaning;

/// Whether the execution path depends on values.
pub fn has_control_flow(graph: &Graph) -> bool {
    graph.all_nodes().any(|node| [prim::IF, prim::LOOP].contains(&graph.kind(node)))
}

/// The result of tracing.
pub struct Traced {
    /// One parameter per leaf of the inputs, then one per tensor of `held`; one result per leaf of
    /// the results that is a floating-point tensor.
    pub graph: Graph,
    /// Tensors of constants that the text does not show, for the last parameters.
    pub held: Vec<IValue>,
    /// The results of the run.
    pub results: Vec<IValue>,
    /// For each result of the graph, its leaf in the results.
    pub places: Vec<usize>,
}

/// Traces a graph on these inputs, which are not modified; gradients of all inputs are requested.
/// Callees must be inlined.
pub fn trace(graph: &Graph, env: &Environment, inputs: &[IValue]) -> Result<Traced, Stop> {
    trace_wanting(graph, env, inputs, &|_| true)
}

/// The same with gradients requested for some leaves of the inputs only: programs may query
/// `requires_grad`.
pub fn trace_wanting(
    graph: &Graph,
    env: &Environment,
    inputs: &[IValue],
    is_wanted: &dyn Fn(usize) -> bool,
) -> Result<Traced, Stop> {
    let mut copier = Copier::new(env.precision);
    let inputs: Vec<IValue> = inputs.iter().map(|input| copier.copy(input)).collect();
    let mut tracer = Tracer::new(graph, env, &inputs);
    let leaves = tracer.made.params(tracer.made.root()).enumerate();
    tracer.wanted = leaves.filter(|(i, _)| is_wanted(*i)).map(|(_, param)| param).collect();
    let results = Machine::new(graph, env).watched(&mut tracer).run(inputs)?;
    tracer.finish(results)
}

/// The leaves of nested containers, in order: parameters and results of a trace.
pub fn leaves(value: &IValue) -> Vec<IValue> {
    let all = |values: &mut dyn Iterator<Item = &IValue>| values.flat_map(leaves).collect();
    match value {
        IValue::Tuple(values) => all(&mut values.iter()),
        IValue::List(values) if holds_tensors(value) => all(&mut values.borrow().iter()),
        IValue::Dict(items) if holds_tensors(value) => all(&mut items.borrow().values()),
        other => vec![other.clone()],
    }
}

/// A copy of a value with other leaves.
pub fn with_leaves(value: &IValue, next: &mut dyn FnMut(&IValue) -> IValue) -> IValue {
    match value {
        IValue::Tuple(values) => IValue::tuple(values.iter().map(|value| with_leaves(value, next)).collect::<Vec<_>>()),
        IValue::List(values) if holds_tensors(value) => {
            IValue::list(values.borrow().iter().map(|value| with_leaves(value, next)).collect::<Vec<_>>())
        }
        IValue::Dict(items) if holds_tensors(value) => {
            let items = items.borrow();
            IValue::dict(items.iter().map(|(key, item)| (key.0.clone(), with_leaves(item, next))).collect::<Vec<_>>())
        }
        other => next(other),
    }
}

/// Whether a value is a tensor or contains one.
pub fn holds_tensors(value: &IValue) -> bool {
    match value {
        IValue::Tensor(_) | IValue::Undefined => true,
        IValue::Tuple(values) => values.iter().any(holds_tensors),
        IValue::List(values) => values.borrow().iter().any(holds_tensors),
        IValue::Dict(items) => items.borrow().values().any(holds_tensors),
        _ => false,
    }
}

/// Whether a tensor can have a gradient.
pub fn is_real(tensor: &Tensor) -> bool {
    tensor.dtype().is_float() || tensor.dtype().is_complex()
}

/// The observer that copies nodes.
struct Tracer<'a> {
    source: &'a Graph,
    env: &'a Environment,
    made: Graph,
    /// The contents of source values, as last computed: tokens instead of tensors.
    shadows: FxHashMap<Value, IValue>,
    /// The tokens by address, and the tensor and meaning of each.
    tokens: FxHashMap<usize, (Tensor, Meaning)>,
    /// Tensors created with gradients disabled, by the address of their memory.
    unseen: FxHashMap<usize, Tensor>,
    /// The copies of values that are neither plain nor tensors, and of constants.
    there: ValueMap,
    held: Vec<IValue>,
    /// The parameters of the copy, leaves of the inputs, whose gradients are requested.
    wanted: FxHashSet<Value>,
    /// The contents of constants that were executed.
    constants: FxHashMap<Node, IValue>,
    /// The result of a container operator on tokens instead of tensors.
    moved: Option<Result<Outs, Stop>>,
    /// Text to be printed.
    texts: Vec<String>,
    /// The operands of the running operator, where writes through views or sequence lengths require
    /// them.
    given: Vec<IValue>,
    /// Whether the graph contains writes.
    writes: bool,
    /// Whether writes may occur with gradients disabled.
    may_go_past: bool,
    /// The block of each `prim::If` that was entered last.
    taken: FxHashMap<Node, Block>,
    /// The loops that completed an iteration.
    turning: FxHashSet<Node>,
}

impl<'a> Tracer<'a> {
    fn new(source: &'a Graph, env: &'a Environment, inputs: &[IValue]) -> Tracer<'a> {
        let mut made = Graph::new();
        made.set_release(source.release());
        made.dialect = source.dialect;
        let mut tracer = Tracer {
            source,
            env,
            made,
            shadows: FxHashMap::default(),
            tokens: FxHashMap::default(),
            unseen: FxHashMap::default(),
            there: ValueMap::default(),
            held: Vec::new(),
            wanted: FxHashSet::default(),
            constants: FxHashMap::default(),
            moved: None,
            texts: Vec::new(),
            given: Vec::new(),
            may_go_past: switched_off::may_be_written_to(source),
            writes: source.all_nodes().any(|node| may_write(source, node)),
            taken: FxHashMap::default(),
            turning: FxHashSet::default(),
        };
        for (param, input) in source.params(source.root()).zip(inputs) {
            tracer.param(param, input);
        }
        tracer
    }

    /// Creates parameters for the leaves of an input.
    fn param(&mut self, param: Value, input: &IValue) {
        let (ty, is_leaf) = (self.source.ty(param), leaves(input).len() == 1 && !is_container(input));
        let shadow = with_leaves(input, &mut |leaf| {
            let root = self.made.root();
            let copy = self.made.add_param(root, if is_leaf { decided(ty, leaf) } else { leaf.ty() });
            if is_leaf && self.source.is_named(param) {
                self.made.set_name(copy, self.source.name(param).as_bytes());
            }
            match leaf {
                // The caller's memory is not modified, even by writes with gradients disabled.
                IValue::Tensor(_) if self.may_go_past => {
                    let own = self.copied(copy);
                    self.token(own)
                }
                IValue::Tensor(_) => self.token(copy),
                leaf if is_plain(leaf) => Copier::new(self.env.precision).copy(leaf),
                leaf => {
                    self.there.insert(param, copy);
                    leaf.clone()
                }
            }
        });
        if is_plain(&shadow) || holds_tensors(&shadow) {
            self.shadows.insert(param, shadow);
        }
    }

    /// Floating-point tensors become results: each is computed here, and occurs once.
    fn finish(mut self, results: Vec<IValue>) -> Result<Traced, Stop> {
        let root = self.made.root();
        let mut shadows = Vec::new();
        for result in self.source.results(self.source.root()) {
            shadows.push(self.shadows.get(&result).cloned().unwrap_or(IValue::None));
        }
        let (mut places, mut seen) = (Vec::new(), FxHashSet::default());
        let pairs = results.iter().flat_map(leaves).zip(shadows.iter().flat_map(leaves));
        for (i, (_, shadow)) in pairs.enumerate().filter(|(_, (leaf, _))| leaf.tensor().is_some_and(is_real)) {
            let mut result = self.operand_of(&shadow, Type::tensor())?;
            if self.made.is_param(result) || !seen.insert(result) {
                result = self.copied(result);
            }
            self.made.add_result(root, result);
            places.push(i);
        }
        Ok(Traced { graph: self.made, held: self.held, results, places })
    }

    /// `aten::clone` of a value.
    fn copied(&mut self, value: Value) -> Value {
        let none = self.constant(Attribute::None, Type::none());
        self.append(Symbol::new("aten::clone"), &[value, none], Type::tensor())
    }

    fn append(&mut self, kind: Symbol, operands: &[Value], ty: Type) -> Value {
        let node = self.made.create_op(kind, operands, ty);
        self.made.append(self.made.root(), node);
        self.made.output(node, 0)
    }

    fn constant(&mut self, literal: Attribute, ty: Type) -> Value {
        let constant = self.made.create_op(prim::CONSTANT, &[], ty);
        if !matches!(literal, Attribute::None) {
            self.made.set_attribute(constant, attr::VALUE, literal);
        }
        self.made.append(self.made.root(), constant);
        self.made.output(constant, 0)
    }

    /// A token that stands for a value.
    fn token(&mut self, value: Value) -> IValue {
        self.token_of(Meaning::Value(value))
    }

    fn token_of(&mut self, meaning: Meaning) -> IValue {
        let token = Tensor::scalar(Scalar::Int(0), DType::Long, Precision::Typed);
        self.tokens.insert(token.storage().address(), (token.clone(), meaning));
        IValue::Tensor(token)
    }

    /// Makes values aliases of others, all at once.
    fn pass_on(&mut self, from: impl Iterator<Item = Value>, to: impl Iterator<Item = Value>) {
        let from = from.map(|value| (self.shadows.get(&value).cloned(), self.there.get(&value).copied()));
        let from: Vec<(Option<IValue>, Option<Value>)> = from.collect();
        for (to, (shadow, there)) in to.zip(from) {
            self.stand(to, shadow, there);
        }
    }

    fn stand(&mut self, value: Value, shadow: Option<IValue>, there: Option<Value>) {
        match shadow {
            Some(shadow) => self.shadows.insert(value, shadow),
            None => self.shadows.remove(&value),
        };
        match there {
            Some(there) => self.there.insert(value, there),
            None => self.there.remove(&value),
        };
    }

    // ---- operands

    /// The copy of a source operand.
    fn operand(&mut self, value: Value) -> Result<Value, Stop> {
        let Some(shadow) = self.shadows.get(&value).cloned() else {
            let found = self.there.get(&value).copied();
            return found.ok_or_else(|| Stop::unsupported(format!("`%{}` in a trace", self.source.name(value))));
        };
        let is_constant = self.source.definer(value).is_some_and(|node| self.source.kind(node) == prim::CONSTANT);
        match self.there.get(&value).copied().filter(|_| is_constant) {
            Some(known) => Ok(known),
            None => {
                let made = self.operand_of(&shadow, self.source.ty(value))?;
                if is_constant {
                    self.there.insert(value, made);
                }
                Ok(made)
            }
        }
    }

    /// A value with the contents of a shadow.
    fn operand_of(&mut self, shadow: &IValue, ty: Type) -> Result<Value, Stop> {
        let parts: Vec<IValue> = match shadow {
            IValue::Tensor(token) => return self.meant(token),
            IValue::Undefined => return Ok(self.append(prim::AUTOGRAD_ZERO, &[], Type::tensor())),
            IValue::List(values) => values.borrow().clone(),
            IValue::Tuple(values) => values.to_vec(),
            other => {
                let (literal, ty) = literal(other, ty)?;
                return Ok(self.constant(literal, ty));
            }
        };
        let (kind, ty) = match decided(ty, shadow) {
            ty if matches!(ty.kind(), TypeKind::List(_) | TypeKind::Tuple(_) | TypeKind::NamedTuple(_)) => (shadow, ty),
            _ => (shadow, shadow.ty()),
        };
        let kind = if matches!(kind, IValue::List(_)) { prim::LIST_CONSTRUCT } else { prim::TUPLE_CONSTRUCT };
        let part = |part: &IValue| self.operand_of(part, part.ty());
        let operands: Vec<Value> = parts.iter().map(part).collect::<Result<_, _>>()?;
        Ok(self.append(kind, &operands, ty))
    }

    // ---- nodes

    /// Copies an executed node.
    fn copy(&mut self, node: Node, outputs: &Outs) -> Result<(), Stop> {
        let mut map = ValueMap::default();
        for operand in self.source.inputs(node) {
            let there = self.operand(operand)?;
            map.insert(operand, there);
        }
        let copy = self.made.copy_node(Some(self.source), node, &mut map);
        self.made.append(self.made.root(), copy);
        self.keep_draws(copy, node);
        for (output, found) in self.source.outputs(node).zip(outputs) {
            let shadow = self.shadow(found, map[&output]);
            self.stand(output, shadow, Some(map[&output]));
        }
        Ok(())
    }

    /// Keeps the lineage of random operators, so that the differentiated run uses the same random
    /// numbers.
    fn keep_draws(&mut self, copy: Node, node: Node) {
        let place = DrawPlace { root: self.source.draw_root(node), iterations: self.env.iterations() };
        self.made.keep_draws(copy, place);
    }

    /// The shadow of a result, given its value in the copy.
    fn shadow(&mut self, found: &IValue, there: Value) -> Option<IValue> {
        match found {
            IValue::Tensor(_) => Some(self.token(there)),
            IValue::List(values) if holds_tensors(found) => {
                let unpack = self.made.create(prim::LIST_UNPACK);
                self.made.set_inputs(unpack, [there].into_iter());
                let elements: Vec<Value> =
                    values.borrow().iter().map(|_| self.made.add_output(unpack, Type::tensor())).collect();
                self.made.append(self.made.root(), unpack);
                Some(IValue::list(elements.into_iter().map(|element| self.token(element)).collect::<Vec<_>>()))
            }
            found if is_plain(found) => Some(Copier::new(self.env.precision).copy(found)),
            _ => None,
        }
    }

    /// The value of a constant; tensors that the text does not show become parameters.
    fn constant_node(&mut self, node: Node, outputs: &Outs) -> Result<(), Stop> {
        let (output, found) = (self.source.output(node, 0), &outputs[0]);
        let hidden = self.source.attribute(node, attr::VALUE).is_some_and(Attribute::is_opaque) && holds_tensors(found);
        if let Some(known) = self.constants.get(&node) {
            self.shadows.insert(output, known.clone());
        } else if hidden {
            let mut copier = Copier::new(self.env.precision);
            let shadow = with_leaves(found, &mut |leaf| {
                let param = self.made.add_param(self.made.root(), leaf.ty());
                // The program may write to the original later.
                self.held.push(copier.copy(leaf));
                self.token(param)
            });
            self.shadows.insert(output, shadow);
        } else if is_plain(found) {
            self.shadows.insert(output, Copier::new(self.env.precision).copy(found));
            return Ok(());
        } else {
            self.copy(node, outputs)?;
        }
        if let Some(shadow) = self.shadows.get(&output) {
            self.constants.insert(node, shadow.clone());
        }
        Ok(())
    }

    /// Resolves an operator that returns either a view or a copy to the one that the run took, so
    /// that later writes affect the right memory. Skipped if the graph contains no writes.
    fn looked_at(&mut self, node: Node, outputs: &Outs) -> Result<bool, Stop> {
        let given = std::mem::take(&mut self.given);
        let (Some(IValue::Tensor(own)), [IValue::Tensor(made)]) = (given.first(), &outputs[..]) else {
            return Ok(false);
        };
        let (operand, output) = (self.source.input(node, 0), self.source.output(node, 0));
        if made.is_same_view(own) && made.dtype() == own.dtype() {
            self.pass_on([operand].into_iter(), [output].into_iter());
            return Ok(true);
        }
        let there = self.operand(operand)?;
        if made.shares_storage(own) {
            let sizes: Vec<Attribute> = made.shape().iter().map(|&size| Attribute::Int(size)).collect();
            let sizes = self.constant(Attribute::List(sizes.into()), Type::list(Type::int()));
            let view = self.append(Symbol::new("aten::view"), &[there, sizes], Type::tensor());
            let token = self.token(view);
            self.stand(output, Some(token), None);
            return Ok(true);
        }
        let copy = self.copied(there);
        let (before, token) = (self.shadows.get(&operand).cloned(), self.token(copy));
        self.shadows.insert(operand, token);
        self.copy(node, outputs)?;
        let there = self.there.get(&operand).copied();
        self.stand(operand, before, there);
        Ok(true)
    }

    /// Prints text, whatever its operands were.
    fn print(&mut self, node: Node) -> Result<(), Stop> {
        let mut map = ValueMap::default();
        for (operand, text) in self.source.inputs(node).zip(std::mem::take(&mut self.texts)) {
            let there = match self.shadows.get(&operand) {
                Some(IValue::Tensor(_)) => self.operand(operand)?,
                _ => self.constant(Attribute::Str(text.into_bytes().into()), Type::simple(Simple::Str)),
            };
            map.insert(operand, there);
        }
        let copy = self.made.copy_node(Some(self.source), node, &mut map);
        self.made.append(self.made.root(), copy);
        Ok(())
    }

    /// Whether a tensor requires a gradient: floating-point, and computed from such a tensor by
    /// differentiable operators. The run itself does not track this.
    fn requires_gradient(&self, token: &Tensor) -> bool {
        let Some((_, Meaning::Value(value))) = self.tokens.get(&token.storage().address()) else { return false };
        let is_stopped = |node: Node| {
            let types: Vec<Type> = self.made.inputs(node).map(|value| self.made.ty(value)).collect();
            let schema = ops::operator(self.made.era, self.made.kind(node)).resolve(&types).schema();
            let row = schema.and_then(|schema| any_gradient_row(self.made.release(), schema));
            row.is_some_and(|row| row.formula().lines.is_empty())
        };
        let (mut open, mut seen) = (vec![*value], FxHashSet::default());
        while let Some(value) = open.pop().filter(|_| self.env.grad_enabled()) {
            let may_be_float =
                self.made.ty(value).as_tensor().and_then(|ty| ty.dtype).is_none_or(|dtype| dtype.is_float());
            if self.wanted.contains(&value) && may_be_float {
                return true;
            }
            if let Some(node) = self.made.definer(value).filter(|&node| seen.insert(node) && !is_stopped(node)) {
                open.extend(self.made.inputs(node));
            }
        }
        false
    }

    /// Whether all tensors of a shadow have tokens: other tensors were computed by the operator.
    fn are_tokens(&self, shadow: &IValue) -> bool {
        let is_token = |tensor: &Tensor| self.tokens.contains_key(&tensor.storage().address());
        leaves(shadow).iter().all(|leaf| leaf.tensor().is_none_or(is_token))
    }

    /// Handles an executed operator without blocks.
    fn ran(&mut self, node: Node, outputs: &Outs) -> Result<(), Stop> {
        let (source, moved) = (self.source, self.moved.take());
        let kind = source.kind(node);
        if kind == prim::CONSTANT && outputs.len() == 1 {
            return self.constant_node(node, outputs);
        }
        if [Symbol::new("prim::Print"), Symbol::new("aten::_print")].contains(&kind) {
            return self.print(node);
        }
        // Its effect is contained in the trace already.
        if is_about_grad_mode(source, node) {
            return Ok(());
        }
        let is_number = |found: &IValue| is_plain(found) && !is_container(found);
        let known = |moved: &Outs| moved.iter().all(|shadow| self.are_tokens(shadow));
        if let Some(Ok(moved)) = moved.filter(|moved| moved.as_ref().is_ok_and(known)) {
            for ((output, found), shadow) in source.outputs(node).zip(outputs).zip(moved) {
                self.stand(output, Some(if is_number(found) { found.clone() } else { shadow }), None);
            }
            return Ok(());
        }
        if !outputs.is_empty() && outputs.iter().all(is_plain) && !may_write(source, node) {
            for (output, found) in source.outputs(node).zip(outputs) {
                let shadow = Copier::new(self.env.precision).copy(found);
                self.stand(output, Some(shadow), None);
            }
            return Ok(());
        }
        if !self.env.grad_enabled() && outputs.iter().any(holds_tensors) {
            return self.unseen(node, outputs);
        }
        if MAY_COPY.contains(&kind.as_str()) && self.looked_at(node, outputs)? {
            return Ok(());
        }
        if let Some(made) = self.unrolled(node, outputs)? {
            for (output, there) in source.outputs(node).zip(made) {
                let token = self.token(there);
                self.stand(output, Some(token), None);
            }
            return Ok(());
        }
        self.copy(node, outputs)
    }
}

/// Operators that return a view of their first operand or a copy, depending on its strides, type or
/// device.
const MAY_COPY: &[&str] = &[
    "aten::contiguous",
    "aten::reshape",
    "aten::reshape_as",
    "aten::flatten",
    "aten::to",
    "aten::type_as",
    "aten::float",
    "aten::double",
    "aten::half",
    "aten::dropout",
];

fn is_container(value: &IValue) -> bool {
    matches!(value, IValue::List(_) | IValue::Tuple(_) | IValue::Dict(_))
}

/// Numbers, strings, and containers of nothing else.
fn is_plain(value: &IValue) -> bool {
    match value {
        IValue::Tuple(values) => values.iter().all(is_plain),
        IValue::List(values) => values.borrow().iter().all(is_plain),
        IValue::Dict(items) => items.borrow().values().all(is_plain),
        IValue::None | IValue::Bool(_) | IValue::Int(_) | IValue::Float(_) | IValue::Complex(_) => true,
        IValue::Str(_) | IValue::Device(_) | IValue::Uninitialized => true,
        _ => false,
    }
}

fn may_write(graph: &Graph, node: Node) -> bool {
    let operator = ops::operator(graph.era, graph.kind(node));
    let types: Vec<Type> = graph.inputs(node).map(|value| graph.ty(value)).collect();
    operator.has_side_effects() || operator.may_write(operator.resolve(&types).schema())
}

/// The type of an optional value, refined by whether it is None.
fn decided(ty: Type, value: &IValue) -> Type {
    match (ty.kind(), value) {
        (TypeKind::Optional(_), IValue::None) => Type::none(),
        (TypeKind::Optional(inner), _) => *inner,
        _ => ty,
    }
}

/// A non-tensor value as an attribute, and its type, for a source value of type `ty`.
fn literal(value: &IValue, ty: Type) -> Result<(Attribute, Type), Stop> {
    let float = |value: f64| Float { value, style: FloatStyle::Seventeen };
    Ok(match value {
        IValue::None | IValue::Uninitialized => (Attribute::None, Type::none()),
        IValue::Int(n) => (Attribute::Int(*n), Type::int()),
        IValue::Bool(flag) => (Attribute::Int(i64::from(*flag)), Type::simple(Simple::Bool)),
        IValue::Float(value) => (Attribute::Float(float(*value)), Type::simple(Simple::Float)),
        IValue::Complex(z) => (Attribute::Complex(Box::new((float(z.re), float(z.im)))), Type::simple(Simple::Complex)),
        IValue::Str(text) => (Attribute::Str(text.as_bytes().into()), Type::simple(Simple::Str)),
        IValue::Device(device) => (Attribute::Str(device.name().as_bytes().into()), Type::simple(Simple::Device)),
        _ => return Err(Stop::unsupported(format!("`{ty}` as an operand in a trace"))),
    })
}

impl Watch for Tracer<'_> {
    fn entered(&mut self, graph: &Graph, block: Block, params: &mut [IValue]) {
        let source = self.source;
        if graph.id() != source.id() {
            return;
        }
        let Some(owner) = source.owner_node(block) else { return };
        if source.kind(owner) != prim::LOOP {
            self.taken.insert(owner, block);
            return;
        }
        let mut own = source.params(block);
        if let (Some(counter), Some(at)) = (own.next(), params.first()) {
            self.stand(counter, Some(at.clone()), None);
        }
        match self.turning.insert(owner) {
            true => self.pass_on(source.inputs(owner).skip(2), own),
            false => self.pass_on(source.results(block).skip(1), own),
        }
    }

    fn recalled(&mut self, call: &Call) -> Option<Outs> {
        (self.moved, self.texts) = (None, Vec::new());
        let source = self.source;
        if call.graph.id() != source.id() {
            return None;
        }
        self.about_to_write(call.node);
        let is_recorded = self.writes || !self.env.grad_enabled() || recurrent_layers::is_recurrent(call.kind());
        self.given = if is_recorded { call.args.to_vec() } else { Vec::new() };
        if ops::operator(source.era, call.kind()).has_side_effects() {
            self.texts = call.args.iter().map(|value| to_str(value, call.release())).collect();
            return None;
        }
        let shadows = source.inputs(call.node).map(|operand| self.shadows.get(&operand).cloned());
        let shadows: SmallVec<[IValue; 8]> = shadows.collect::<Option<_>>()?;
        let of_tokens = Call { args: &shadows, ..*call };
        let moves = library::find(call.kind()).filter(|found| !found.computes(&of_tokens))?;
        self.moved = Some(moves.run(&of_tokens));
        None
    }

    fn delivered(&mut self, graph: &Graph, node: Node, outputs: &mut Outs) -> Result<(), Stop> {
        let source = self.source;
        if graph.id() != source.id() {
            return Ok(());
        }
        if self.env.is_late() {
            return Err(Stop::new(Reason::Budget("the time limit was reached".to_owned())));
        }
        match source.kind(node) {
            kind if kind.as_str() == "prim::requires_grad" => {
                let shadow = self.shadows.get(&source.input(node, 0)).and_then(IValue::tensor).cloned();
                outputs[0] = IValue::Bool(shadow.is_some_and(|token| self.requires_gradient(&token)));
                self.ran(node, outputs)?;
            }
            prim::IF => {
                let block = self.taken[&node];
                self.pass_on(source.results(block), source.outputs(node));
            }
            prim::LOOP if self.turning.remove(&node) => {
                self.pass_on(source.results(source.node_block(node, 0)).skip(1), source.outputs(node));
            }
            prim::LOOP => self.pass_on(source.inputs(node).skip(2), source.outputs(node)),
            // Its block does not run if no gradient arrives.
            prim::GRAD_OF if outputs.iter().all(|output| matches!(output, IValue::Undefined)) => {
                for output in source.outputs(node) {
                    let zero = self.append(prim::AUTOGRAD_ZERO, &[], Type::tensor());
                    self.stand(output, None, Some(zero));
                }
            }
            prim::GRAD_OF => self.pass_on(source.results(source.node_block(node, 0)), source.outputs(node)),
            _ => self.ran(node, outputs)?,
        }
        Ok(())
    }
}
