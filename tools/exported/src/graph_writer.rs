//! Writes nodes of a graph, with fresh names, shared constants and locations.

use crate::export_arguments::{Argument, Elements};
use crate::{Result, refuse};
use jitopt_core::ir::{Attribute, Block, Float, FloatStyle, Graph, Node, Value};
use jitopt_core::symbol::{Symbol, attr, prim};
use jitopt_core::types::{Simple, Type};
use std::collections::{HashMap, HashSet};

/// Writes at the end of a block.
pub(crate) struct Writer<'g> {
    pub(crate) graph: &'g mut Graph,
    /// The blocks that are being written, the innermost last, with the constants of each.
    blocks: Vec<(Block, HashMap<String, Value>)>,
    names: HashSet<String>,
    /// How often each name was given.
    repeated: HashMap<String, usize>,
    /// The location and the scope of the nodes that are written.
    place: Place,
}

/// Where a node comes from: `model.py:12:0`, `__module.fc`.
#[derive(Clone, Default)]
pub(crate) struct Place {
    pub(crate) location: Option<String>,
    pub(crate) scope: Option<String>,
}

impl<'g> Writer<'g> {
    pub(crate) fn new(graph: &'g mut Graph) -> Writer<'g> {
        let root = graph.root();
        Writer {
            graph,
            blocks: vec![(root, HashMap::new())],
            names: HashSet::new(),
            repeated: HashMap::new(),
            place: Place::default(),
        }
    }

    /// The block at whose end nodes are written.
    pub(crate) fn block(&self) -> Block {
        self.blocks.last().map_or(self.graph.root(), |(block, _)| *block)
    }

    pub(crate) fn enter(&mut self, block: Block) {
        self.blocks.push((block, HashMap::new()));
    }

    pub(crate) fn leave(&mut self) {
        self.blocks.pop();
    }

    /// Sets where the nodes that follow come from; returns what was set before.
    pub(crate) fn set_place(&mut self, place: Place) -> Place {
        std::mem::replace(&mut self.place, place)
    }

    /// Names a value. Graphs within graphs have names of their own, so a name may be taken:
    /// `%x.1` then follows `%x`.
    pub(crate) fn name(&mut self, value: Value, name: &str) {
        let plain = |c: char| if c.is_ascii_alphanumeric() || c == '_' { c } else { '_' };
        let mut base: String = name.chars().map(plain).collect();
        if base.is_empty() || base.starts_with(|c: char| c.is_ascii_digit()) {
            base.insert(0, '_');
        }
        let count = self.repeated.entry(base.clone()).or_default();
        let mut free = base.clone();
        while !self.names.insert(free.clone()) {
            *count += 1;
            free = format!("{base}.{count}");
        }
        self.graph.set_name(value, free.as_bytes());
    }

    // ---- nodes

    /// A node without outputs at the end of the block.
    pub(crate) fn node(&mut self, kind: Symbol, operands: &[Value]) -> Node {
        let node = self.graph.create(kind);
        operands.iter().for_each(|operand| self.graph.add_input(node, *operand));
        let block = self.block();
        self.graph.append(block, node);
        let place = self.place.clone();
        if let Some(scope) = place.scope {
            self.graph.set_scope(node, scope.as_bytes());
        }
        if let Some(location) = place.location {
            self.graph.set_location(node, location.as_bytes());
        }
        node
    }

    /// The one output of a node.
    pub(crate) fn call(&mut self, kind: Symbol, operands: &[Value], ty: Type) -> Value {
        let node = self.node(kind, operands);
        self.graph.add_output(node, ty)
    }

    /// As [`Writer::call`], by the name of the kind.
    pub(crate) fn call_named(&mut self, kind: &str, operands: &[Value], ty: Type) -> Value {
        self.call(Symbol::new(kind), operands, ty)
    }

    /// Reads an attribute of an object.
    pub(crate) fn attribute_of(&mut self, object: Value, name: &str, ty: Type) -> Value {
        let node = self.node(prim::GET_ATTR, &[object]);
        self.graph.set_attribute(node, attr::NAME, Attribute::Str(name.as_bytes().into()));
        self.graph.add_output(node, ty)
    }

    pub(crate) fn list(&mut self, element: Type, parts: &[Value]) -> Value {
        self.call(prim::LIST_CONSTRUCT, parts, Type::list(element))
    }

    // ---- constants

    /// A constant, which is written once for the blocks that see it.
    fn constant(&mut self, key: String, value: Option<Attribute>, ty: Type) -> Value {
        if let Some(known) = self.blocks.iter().rev().find_map(|(_, constants)| constants.get(&key)) {
            return *known;
        }
        let place = self.set_place(Place::default());
        let node = self.node(prim::CONSTANT, &[]);
        self.set_place(place);
        if let Some(value) = value {
            self.graph.set_attribute(node, attr::VALUE, value);
        }
        let output = self.graph.add_output(node, ty);
        if let Some((_, constants)) = self.blocks.last_mut() {
            constants.insert(key, output);
        }
        output
    }

    pub(crate) fn none(&mut self) -> Value {
        self.constant("none".to_owned(), None, Type::none())
    }

    pub(crate) fn int(&mut self, number: i64) -> Value {
        self.constant(format!("int {number}"), Some(Attribute::Int(number)), Type::int())
    }

    pub(crate) fn bool(&mut self, yes: bool) -> Value {
        self.constant(format!("bool {yes}"), Some(Attribute::Int(yes.into())), Type::bool())
    }

    pub(crate) fn float(&mut self, number: f64) -> Value {
        let key = format!("float {:x}", number.to_bits());
        self.constant(key, Some(Attribute::Float(spelled(number))), Type::simple(Simple::Float))
    }

    pub(crate) fn text(&mut self, text: &str) -> Value {
        let value = Attribute::Str(text.as_bytes().into());
        self.constant(format!("str {text}"), Some(value), Type::simple(Simple::Str))
    }

    pub(crate) fn device(&mut self, device: &str) -> Value {
        let value = Attribute::Str(device.as_bytes().into());
        self.constant(format!("device {device}"), Some(value), Type::simple(Simple::Device))
    }

    fn complex(&mut self, real: f64, imaginary: f64) -> Value {
        let value = Attribute::Complex(Box::new((spelled(real), spelled(imaginary))));
        let key = format!("complex {:x} {:x}", real.to_bits(), imaginary.to_bits());
        self.constant(key, Some(value), Type::simple(Simple::Complex))
    }

    /// An argument as its tag says, with values by `find`.
    pub(crate) fn argument(&mut self, argument: &Argument<'_>, find: &dyn Fn(&str) -> Option<Value>) -> Result<Value> {
        Ok(match argument {
            Argument::None => self.none(),
            Argument::Value(name) => match find(name) {
                Some(value) => value,
                None => return refuse(format!("value {} is not defined", crate::shown(name))),
            },
            Argument::Int(number) | Argument::Code(number) => self.int(*number),
            Argument::Float(number) => self.float(*number),
            Argument::Bool(yes) => self.bool(*yes),
            Argument::Complex(real, imaginary) => self.complex(*real, *imaginary),
            Argument::Text(text) => self.text(text),
            Argument::Device(device) => self.device(device),
            Argument::List(elements, parts) => {
                let values: Result<Vec<Value>> = parts.iter().map(|part| self.argument(part, find)).collect();
                let values = values?;
                let element = element_type(*elements, values.first().map(|value| self.graph.ty(*value)));
                self.list(element, &values)
            }
            Argument::Graph(_) => return refuse("a graph is no operand of this operator"),
        })
    }
}

fn spelled(value: f64) -> Float {
    Float { value, style: FloatStyle::Seventeen }
}

/// The element type of a list; lists of lists have that of their first element.
fn element_type(elements: Elements, first: Option<Type>) -> Type {
    match elements {
        Elements::Tensors => Type::tensor(),
        Elements::OptionalTensors => Type::optional(Type::tensor()),
        Elements::Ints => Type::int(),
        Elements::Floats => Type::simple(Simple::Float),
        Elements::Bools => Type::bool(),
        Elements::Texts => Type::simple(Simple::Str),
        Elements::Lists => first.unwrap_or_else(|| Type::list(Type::int())),
    }
}
