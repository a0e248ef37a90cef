//! What a run did, as a graph without control flow.
//!
//! ```text
//! %y : Tensor = prim::Loop(%n, %yes, %x)            %y.1 : Tensor = aten::tanh(%x)
//!   block0(%i : int, %carried : Tensor):     =>     %y.2 : Tensor = aten::tanh(%y.1)
//!     %next : Tensor = aten::tanh(%carried)         return (%y.2)
//!     -> (%yes, %next)
//! return (%y)
//! ```
//!
//! Nodes are copied in the order in which they ran, from the branches that were taken, once for each turn of a loop. Numbers that are no tensors become constants: they may
//! have decided what was run. So the graph computes the same for these inputs, and need not for others.

use crate::sharing::Copier;
use jitopt_core::interpreter::{Environment, IValue, Machine, Outs, Reason, Stop, Watch};
use jitopt_core::ir::{Attribute, Block, Float, FloatStyle, Graph, Node, Value, ValueMap};
use jitopt_core::ops;
use jitopt_core::symbol::{attr, prim};
use jitopt_core::types::{Simple, Type, TypeKind};
use rustc_hash::{FxHashMap, FxHashSet};

/// Whether what is run depends on values.
pub fn has_control_flow(graph: &Graph) -> bool {
    graph.all_nodes().any(|node| [prim::IF, prim::LOOP].contains(&graph.kind(node)))
}

/// What the graph does with these inputs, which are left as they are. Callees are to be in the graph.
pub fn trace(graph: &Graph, env: &Environment, inputs: &[IValue]) -> Result<Graph, Stop> {
    let mut copier = Copier::new(env.precision);
    let inputs: Vec<IValue> = inputs.iter().map(|input| copier.copy(input)).collect();
    let mut tracer = Tracer::new(graph, env, &inputs);
    Machine::new(graph, env).watched(&mut tracer).run(inputs)?;
    Ok(tracer.finish())
}

/// Looks on, and copies.
struct Tracer<'a> {
    source: &'a Graph,
    env: &'a Environment,
    made: Graph,
    /// What values of the source are called in the copy, by the last time that they were computed.
    there: ValueMap,
    /// The block of each `prim::If` that was entered last.
    taken: FxHashMap<Node, Block>,
    /// The loops that have turned once.
    turning: FxHashSet<Node>,
}

impl<'a> Tracer<'a> {
    fn new(source: &'a Graph, env: &'a Environment, inputs: &[IValue]) -> Tracer<'a> {
        let mut made = Graph::new();
        (made.era, made.dialect) = (source.era, source.dialect);
        let mut there = ValueMap::default();
        for (param, input) in source.params(source.root()).zip(inputs) {
            let copy = made.add_param(made.root(), decided(source.ty(param), input));
            if source.is_named(param) {
                made.set_name(copy, source.name(param).as_bytes());
            }
            there.insert(param, copy);
        }
        Tracer { source, env, made, there, taken: FxHashMap::default(), turning: FxHashSet::default() }
    }

    fn finish(mut self) -> Graph {
        let root = self.made.root();
        for result in self.source.results(self.source.root()) {
            self.made.add_result(root, self.there[&result]);
        }
        self.made
    }

    /// Says that values stand for what others stand for, all at once.
    fn pass_on(&mut self, from: impl Iterator<Item = Value>, to: impl Iterator<Item = Value>) {
        let from: Vec<Value> = from.map(|value| self.there[&value]).collect();
        self.there.extend(to.zip(from));
    }

    fn copy(&mut self, node: Node) {
        let copy = self.made.copy_node(Some(self.source), node, &mut self.there);
        self.made.append(self.made.root(), copy);
        // The run that is differentiated draws what this one draws.
        self.made.keep_draws(copy, self.source.draw_root(node));
    }

    fn constant(&mut self, value: Value, (literal, ty): (Attribute, Type)) {
        let constant = self.made.create_op(prim::CONSTANT, &[], ty);
        self.made.set_attribute(constant, attr::VALUE, literal);
        self.made.append(self.made.root(), constant);
        self.there.insert(value, self.made.output(constant, 0));
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

/// A number as an attribute, and its type.
fn literal(value: &IValue) -> Option<(Attribute, Type)> {
    match value {
        IValue::Int(n) => Some((Attribute::Int(*n), Type::int())),
        IValue::Bool(flag) => Some((Attribute::Int(i64::from(*flag)), Type::simple(Simple::Bool))),
        IValue::Float(value) => {
            Some((Attribute::Float(Float { value: *value, style: FloatStyle::Seventeen }), Type::simple(Simple::Float)))
        }
        _ => None,
    }
}

impl Watch for Tracer<'_> {
    fn entered(&mut self, graph: &Graph, block: Block, params: &mut [IValue]) {
        let source = self.source;
        let Some(owner) = source.owner_node(block).filter(|_| graph.id() == source.id()) else { return };
        if source.kind(owner) != prim::LOOP {
            self.taken.insert(owner, block);
            return;
        }
        let mut own = source.params(block);
        if let (Some(counter), Some(literal)) = (own.next(), params.first().and_then(literal)) {
            self.constant(counter, literal);
        }
        match self.turning.insert(owner) {
            true => self.pass_on(source.inputs(owner).skip(2), own),
            false => self.pass_on(source.results(block).skip(1), own),
        }
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
            prim::IF => {
                let block = self.taken[&node];
                self.pass_on(source.results(block), source.outputs(node));
            }
            prim::LOOP if self.turning.remove(&node) => {
                self.pass_on(source.results(source.node_block(node, 0)).skip(1), source.outputs(node));
            }
            prim::LOOP => self.pass_on(source.inputs(node).skip(2), source.outputs(node)),
            prim::UNCHECKED_UNWRAP_OPTIONAL | prim::UNCHECKED_CAST => {
                self.pass_on(source.inputs(node).take(1), source.outputs(node));
            }
            kind => match (&outputs[..], outputs.first().and_then(literal)) {
                ([_], Some(literal)) if kind != prim::CONSTANT => {
                    // What it writes must be written in the copy too.
                    if may_write(source, node) {
                        self.copy(node);
                    }
                    self.constant(source.output(node, 0), literal);
                }
                _ => self.copy(node),
            },
        }
        Ok(())
    }
}
