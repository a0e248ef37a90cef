//! What a run did, as a graph of operators on tensors.
//!
//! ```text
//! %y : Tensor = prim::Loop(%n, %yes, %x)            %y.1 : Tensor = aten::tanh(%x)
//!   block0(%i : int, %carried : Tensor):     =>     %y.2 : Tensor = aten::tanh(%y.1)
//!     %next : Tensor = aten::tanh(%carried)         return (%y.2)
//!     -> (%yes, %next)
//! return (%y)
//! ```
//!
//! Nodes that compute with tensors are copied in the order in which they ran, from the branches that were taken, once for each turn of a loop. Numbers and texts become
//! constants: they may have decided what was run. What lists, tuples and dictionaries hold is followed from one to the other, and none of them is left but as an operand: their
//! operators run a second time, on containers in whose places tokens stand for tensors. So the graph computes the same for these inputs, and need not for others.

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

/// Whether what is run depends on values.
pub fn has_control_flow(graph: &Graph) -> bool {
    graph.all_nodes().any(|node| [prim::IF, prim::LOOP].contains(&graph.kind(node)))
}

/// What came of looking on.
pub struct Traced {
    /// A param for each leaf of the inputs, then one for each tensor of `held`; a result for each leaf of the results that is a tensor of reals.
    pub graph: Graph,
    /// Tensors of constants that the text does not show, which the last params take.
    pub held: Vec<IValue>,
    /// What the run returned.
    pub results: Vec<IValue>,
    /// Which leaf of the results each result of the graph is.
    pub places: Vec<usize>,
}

/// What the graph does with these inputs, which are left as they are, where gradients of all are wanted. Callees are to be in the graph.
pub fn trace(graph: &Graph, env: &Environment, inputs: &[IValue]) -> Result<Traced, Stop> {
    trace_wanting(graph, env, inputs, &|_| true)
}

/// The same where gradients are wanted of some leaves of the inputs: programs may ask which.
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

/// The values that a value holds, and that those hold, which are no containers: params and results of a trace, in order.
pub fn leaves(value: &IValue) -> Vec<IValue> {
    let all = |values: &mut dyn Iterator<Item = &IValue>| values.flat_map(leaves).collect();
    match value {
        IValue::Tuple(values) => all(&mut values.iter()),
        IValue::List(values) if holds_tensors(value) => all(&mut values.borrow().iter()),
        IValue::Dict(items) if holds_tensors(value) => all(&mut items.borrow().values()),
        other => vec![other.clone()],
    }
}

/// A value like this one, with other leaves.
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

/// Whether a value is a tensor, or holds one.
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

/// Looks on, and copies.
struct Tracer<'a> {
    source: &'a Graph,
    env: &'a Environment,
    made: Graph,
    /// What values of the source hold, by the last time that they were computed: tokens in the places of tensors.
    shadows: FxHashMap<Value, IValue>,
    /// The tokens by their addresses, and what each stands for.
    tokens: FxHashMap<usize, (Tensor, Meaning)>,
    /// Memory that was made where gradients are off, by its address.
    unseen: FxHashMap<usize, Tensor>,
    /// What values that are neither plain nor tensors are called in the copy, and constants.
    there: ValueMap,
    held: Vec<IValue>,
    /// The params of the copy, leaves of the inputs, that gradients are wanted of.
    wanted: FxHashSet<Value>,
    /// What constants hold that came by.
    constants: FxHashMap<Node, IValue>,
    /// What an operator on containers made of tokens, in the place of tensors.
    moved: Option<Result<Outs, Stop>>,
    /// What is about to be printed.
    texts: Vec<String>,
    /// What the operator got that runs, where views may be written to, or how long sequences are decides.
    given: Vec<IValue>,
    /// Whether anything is written to.
    writes: bool,
    /// Whether that may be where gradients are off.
    may_go_past: bool,
    /// The block of each `prim::If` that was entered last.
    taken: FxHashMap<Node, Block>,
    /// The loops that have turned once.
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

    /// Makes params of the leaves of an input.
    fn param(&mut self, param: Value, input: &IValue) {
        let (ty, is_leaf) = (self.source.ty(param), leaves(input).len() == 1 && !is_container(input));
        let shadow = with_leaves(input, &mut |leaf| {
            let root = self.made.root();
            let copy = self.made.add_param(root, if is_leaf { decided(ty, leaf) } else { leaf.ty() });
            if is_leaf && self.source.is_named(param) {
                self.made.set_name(copy, self.source.name(param).as_bytes());
            }
            match leaf {
                // What a caller has is left as it is, also where it is written to and gradients are off.
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

    /// Tensors of reals are results: each computed here, and each once.
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

    /// Says that values stand for what others stand for, all at once.
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

    /// What an operand of the source is in the copy.
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

    /// A value that holds what a shadow says.
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

    /// Copies a node that has run.
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

    /// The run that is differentiated draws what this one draws.
    fn keep_draws(&mut self, copy: Node, node: Node) {
        let place = DrawPlace { root: self.source.draw_root(node), turns: self.env.turns() };
        self.made.keep_draws(copy, place);
    }

    /// What a result holds that is called so in the copy.
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

    /// What a constant holds; tensors that the text does not show become params.
    fn constant_node(&mut self, node: Node, outputs: &Outs) -> Result<(), Stop> {
        let (output, found) = (self.source.output(node, 0), &outputs[0]);
        let hidden = self.source.attribute(node, attr::VALUE).is_some_and(Attribute::is_opaque) && holds_tensors(found);
        if let Some(known) = self.constants.get(&node) {
            self.shadows.insert(output, known.clone());
        } else if hidden {
            let mut copier = Copier::new(self.env.precision);
            let shadow = with_leaves(found, &mut |leaf| {
                let param = self.made.add_param(self.made.root(), leaf.ty());
                // The program may write to it later.
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

    /// What gives a view or a copy, as the run had it: so that it is known whose memory is written to behind it. Nothing is written where nobody writes.
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

    /// Prints texts, whatever they were of.
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

    /// Whether a tensor wants a gradient: reals of which one that wants it is in it, by operators that hand gradients on. The run itself does not know.
    fn wants_gradient(&self, token: &Tensor) -> bool {
        let Some((_, Meaning::Value(value))) = self.tokens.get(&token.storage().address()) else { return false };
        let is_stopped = |node: Node| {
            let types: Vec<Type> = self.made.inputs(node).map(|value| self.made.ty(value)).collect();
            let schema = ops::operator(self.made.era, self.made.kind(node)).resolve(&types).schema();
            let row = schema.and_then(|schema| any_gradient_row(self.made.release(), schema));
            row.is_some_and(|row| row.formula().lines.is_empty())
        };
        let (mut open, mut seen) = (vec![*value], FxHashSet::default());
        while let Some(value) = open.pop().filter(|_| self.env.grad_enabled()) {
            let may_be_real =
                self.made.ty(value).as_tensor().and_then(|ty| ty.dtype).is_none_or(|dtype| dtype.is_float());
            if self.wanted.contains(&value) && may_be_real {
                return true;
            }
            if let Some(node) = self.made.definer(value).filter(|&node| seen.insert(node) && !is_stopped(node)) {
                open.extend(self.made.inputs(node));
            }
        }
        false
    }

    /// Whether all tensors that a shadow holds stand for something: what made others has computed.
    fn are_tokens(&self, shadow: &IValue) -> bool {
        let is_token = |tensor: &Tensor| self.tokens.contains_key(&tensor.storage().address());
        leaves(shadow).iter().all(|leaf| leaf.tensor().is_none_or(is_token))
    }

    /// What an operator made that has no block.
    fn ran(&mut self, node: Node, outputs: &Outs) -> Result<(), Stop> {
        let (source, moved) = (self.source, self.moved.take());
        let kind = source.kind(node);
        if kind == prim::CONSTANT && outputs.len() == 1 {
            return self.constant_node(node, outputs);
        }
        if [Symbol::new("prim::Print"), Symbol::new("aten::_print")].contains(&kind) {
            return self.print(node);
        }
        // What it says is in the trace already.
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

/// Operators that give a view of their first operand or a copy, by how that lies in memory or what it is.
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

/// Numbers, texts, and what holds nothing else.
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

/// The type of what may be None, when it is known whether it is.
fn decided(ty: Type, value: &IValue) -> Type {
    match (ty.kind(), value) {
        (TypeKind::Optional(_), IValue::None) => Type::none(),
        (TypeKind::Optional(inner), _) => *inner,
        _ => ty,
    }
}

/// What is no tensor as an attribute, and its type; of what has the type of a value in the source.
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
        let is_asked = self.writes || !self.env.grad_enabled() || recurrent_layers::is_recurrent(call.kind());
        self.given = if is_asked { call.args.to_vec() } else { Vec::new() };
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
            return Err(Stop::new(Reason::Budget("time is up".to_owned())));
        }
        match source.kind(node) {
            kind if kind.as_str() == "prim::requires_grad" => {
                let shadow = self.shadows.get(&source.input(node, 0)).and_then(IValue::tensor).cloned();
                outputs[0] = IValue::Bool(shadow.is_some_and(|token| self.wants_gradient(&token)));
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
            // Its block does not run where no gradient comes.
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
