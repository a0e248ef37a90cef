//! Writes formulas of the operator table into graphs.
//!
//! A name refers to its latest binding; an unknown name is an operand of nothing, which a test of
//! the table finds. The forward lines of a formula are written after the node that they belong to,
//! in the forward graph. The backward lines stand in the block of a `prim::GradOf`, in another
//! graph; there a value of the forward graph becomes a param at its first read, and a constant of
//! it is copied for each reading node, as in PyTorch.

use jitopt_core::ir::{Attribute, Block, DrawPlace, Float, FloatStyle, Graph, Node, Value, ValueMap};
use jitopt_core::ops;
use jitopt_core::ops::gradient_table::function;
use jitopt_core::ops::gradient_table::notation::{Body, Expr, Line, Literal, Repeat};
use jitopt_core::ops::rules::Nondeterminism;
use jitopt_core::ops::schema::{Formal, Schema};
use jitopt_core::symbol::{Symbol, attr, prim};
use jitopt_core::types::era::Era;
use jitopt_core::types::{Simple, Type, TypeKind};

/// The referent of a name.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Thing {
    /// A value of the graph that is being written.
    Here(Value),
    /// A value of the forward graph, while the backward graph is being written.
    There(Value),
    /// A constant without a node yet.
    Constant(Literal),
}

/// The insertion point of nodes.
#[derive(Clone, Copy)]
enum Place {
    Before(Node),
    End(Block),
}

/// The insertion point of constants of the formula.
#[derive(Clone, Copy)]
enum Constants {
    /// After a node.
    Behind(Node),
    /// At the start of a block; for constants of the whole graph, at the start of the graph.
    In(Block),
}

/// The reason why a formula cannot be written: the table and the graph disagree.
pub(super) type Unfit = String;
type Step<T> = Result<T, Unfit>;

/// Writes one formula.
pub(super) struct Writer<'a> {
    graph: &'a mut Graph,
    /// The forward graph, while another is written, and the values that represent its values here.
    forward: Option<(&'a Graph, &'a mut ValueMap)>,
    names: Vec<(&'static str, Thing)>,
    place: Place,
    constants: Constants,
    /// Constants that stay with the formula.
    own: Vec<(Literal, Value)>,
    /// Operands that may be None elsewhere: the formula is written for both.
    optional: Vec<(Thing, Type)>,
    /// Whether a function is being written: constants of functions stay with the formula.
    in_function: bool,
    /// The key by which the replaced node draws random numbers.
    draws: Option<DrawPlace>,
}

/// Constants that one node reads.
type Read = Vec<(Thing, Value)>;

impl<'a> Writer<'a> {
    /// A writer that inserts after a node of the forward graph.
    pub(super) fn after(graph: &'a mut Graph, node: Node) -> Writer<'a> {
        let block = graph.block_of(node).expect("the node stands in a block");
        let next = graph.next(node).unwrap_or(graph.return_node(block));
        let (place, constants) = (Place::Before(next), Constants::Behind(node));
        let (names, own, optional, in_function) = Default::default();
        let draws = Some(graph.draw_place(node));
        Writer { graph, forward: None, names, place, constants, own, optional, in_function, draws }
    }

    /// A writer that inserts into a block of the backward graph.
    pub(super) fn inside(
        graph: &'a mut Graph,
        forward: &'a Graph,
        captured: &'a mut ValueMap,
        block: Block,
    ) -> Writer<'a> {
        let (place, constants) = (Place::End(block), Constants::In(block));
        let (names, own, optional, in_function) = Default::default();
        let draws = None;
        Writer { graph, forward: Some((forward, captured)), names, place, constants, own, optional, in_function, draws }
    }

    /// Binds a name.
    pub(super) fn bind(&mut self, name: &'static str, thing: Thing) {
        self.names.push((name, thing));
    }

    /// Binds the operands that a node omits, in the order after those that it has.
    pub(super) fn bind_defaults(&mut self, schema: &'static Schema, given: usize) {
        for formal in schema.formals.iter().skip(given) {
            if let Some(thing) = default(formal) {
                self.bind(formal.name, thing);
            }
        }
    }

    /// Records the type that the schema gives an operand, where that may be None.
    pub(super) fn declare(&mut self, thing: Thing, ty: Type) {
        if matches!(ty.kind(), TypeKind::Optional(_)) {
            self.optional.push((thing, ty));
        }
    }

    /// Writes a line; returns its results, which are bound to its names.
    pub(super) fn line(&mut self, line: &'static Line) -> Step<Vec<Thing>> {
        let things = self.expr(&line.value)?;
        let things = self.unpacked(things, line.names.len())?;
        for (name, thing) in line.names.iter().zip(&things) {
            self.bind(name, *thing);
            if let Thing::Here(value) = *thing
                && !self.graph.is_named(value)
                && !self.graph.is_param(value)
            {
                self.graph.set_name(value, name.as_bytes());
            }
        }
        Ok(things)
    }

    /// Writes a line that computes a gradient; the value is named `name` when the line created it.
    pub(super) fn gradient(&mut self, line: &'static Line, name: Option<&'static str>) -> Step<Option<Thing>> {
        let thing = self.expr(&line.value)?.first().copied();
        if let (Some(Thing::Here(value)), Some(name)) = (thing, name)
            && !self.graph.is_named(value)
            && !self.graph.is_param(value)
        {
            self.graph.set_name(value, name.as_bytes());
        }
        Ok(thing)
    }

    /// A zero for each element of a tensor.
    pub(super) fn zeros_like(&mut self, thing: Thing) -> Step<Thing> {
        let things = self.overload("aten::zeros_like", vec![thing], &[])?;
        things.first().copied().ok_or_else(|| "`zeros` returns no value".to_owned())
    }

    /// As many values as there are names: a tuple is unpacked. A loop that carries nothing has
    /// none.
    fn unpacked(&mut self, things: Vec<Thing>, wanted: usize) -> Step<Vec<Thing>> {
        if things.len() == wanted || things.is_empty() && wanted == 1 {
            return Ok(things);
        }
        let [Thing::Here(tuple)] = things[..] else {
            return Err(format!("{} values for {wanted} names", things.len()));
        };
        let parts = self.graph.ty(tuple).tuple_elements().filter(|parts| parts.len() == wanted);
        let parts = parts.ok_or("the tuple has another length")?;
        Ok(self.emit(prim::TUPLE_UNPACK, &[tuple], &parts))
    }

    fn one(&mut self, expr: &'static Expr) -> Step<Thing> {
        let things = self.expr(expr)?;
        let [thing] = things[..] else { return Err(format!("{} values where one is read", things.len())) };
        Ok(thing)
    }

    fn expr(&mut self, expr: &'static Expr) -> Step<Vec<Thing>> {
        Ok(vec![match expr {
            Expr::Name(name) => {
                let found = self.names.iter().rev().find(|(known, _)| known == name);
                found.ok_or_else(|| format!("`{name}` is not known"))?.1
            }
            Expr::Literal(literal) => Thing::Constant(*literal),
            Expr::List(parts) => self.list(parts)?,
            Expr::Tuple(parts) => {
                let things = parts.iter().map(|part| self.one(part)).collect::<Step<Vec<_>>>()?;
                let types: Vec<Type> = things.iter().map(|&thing| self.ty(thing)).collect();
                let operands = self.operands(&things);
                self.emit(prim::TUPLE_CONSTRUCT, &operands, &[Type::tuple(&types)])[0]
            }
            Expr::Negated(inner) => {
                let inner = self.one(inner)?;
                self.operator("aten::neg", &[inner])?
            }
            Expr::Sign(sign, sides) => {
                let (left, right) = (self.one(&sides.0)?, self.one(&sides.1)?);
                self.sign(sign, left, right)?
            }
            Expr::Call(name, operands) => return self.call(name, operands),
            Expr::If(parts) => return self.branch(&parts.0, [&parts.1, &parts.2]),
            Expr::For(repeat) => return self.repeat(repeat),
        }])
    }

    fn list(&mut self, parts: &'static [Expr]) -> Step<Thing> {
        let things = parts.iter().map(|part| self.one(part)).collect::<Step<Vec<_>>>()?;
        Ok(self.list_of(&things))
    }

    /// A list of these.
    pub(super) fn list_of(&mut self, things: &[Thing]) -> Thing {
        let element = things.first().map_or(Type::int(), |&thing| self.ty(thing));
        let operands = self.operands(things);
        self.emit(prim::LIST_CONSTRUCT, &operands, &[Type::list(element)])[0]
    }

    /// The operator for a sign, as in PyTorch: with a tensor on either side it is the operator on
    /// tensors, where addition has an `alpha`.
    fn sign(&mut self, sign: &str, left: Thing, right: Thing) -> Step<Thing> {
        let once = Thing::Constant(Literal::Int(1, true));
        let tensors = [left, right].map(|thing| self.ty(thing).is_tensor());
        match (sign, tensors) {
            ("+", [true, _]) => self.operator("aten::add", &[left, right, once]),
            ("+", [_, true]) => self.operator("aten::add", &[right, left, once]),
            ("-", [true, _]) => self.operator("aten::sub", &[left, right, once]),
            ("-", [_, true]) => {
                let negated = self.operator("aten::neg", &[right])?;
                self.operator("aten::add", &[negated, left, once])
            }
            ("*", [false, true]) => self.operator("aten::mul", &[right, left]),
            ("/", [false, true]) => {
                let inverse = self.operator("aten::reciprocal", &[right])?;
                self.operator("aten::mul", &[inverse, left])
            }
            _ => {
                let signs = [("+", "add"), ("-", "sub"), ("*", "mul"), ("/", "div"), ("==", "eq"), ("!=", "ne")];
                let signs = signs.into_iter().chain([("<", "lt"), (">", "gt"), ("<=", "le"), (">=", "ge")]);
                let name = signs.into_iter().find(|(known, _)| *known == sign).ok_or("unknown operator sign")?.1;
                self.operator(&format!("aten::{name}"), &[left, right])
            }
        }
    }

    fn call(&mut self, name: &'static str, operands: &'static [(Option<&'static str>, Expr)]) -> Step<Vec<Thing>> {
        let mut positional = Vec::new();
        let mut named = Vec::new();
        for (formal, operand) in operands {
            let thing = self.one(operand)?;
            match formal {
                Some(formal) => named.push((*formal, thing)),
                None => positional.push(thing),
            }
        }
        if let Some(function) = function(self.graph.release(), name) {
            // One constant None may stand for several operands: the function determines which one
            // is meant.
            let known = self.optional.len();
            for (&thing, &ty) in positional.iter().zip(&function.types) {
                self.declare(thing, ty);
            }
            let things = self.function(&function.formals, function.body(), &positional);
            self.optional.truncate(known);
            return things;
        }
        if matches!(name, "prim::unchecked_cast" | "prim::unchecked_unwrap_optional") {
            let ty = match self.ty(positional[0]).kind() {
                // Sizes in graphs are always ints.
                TypeKind::Optional(inner) if Type::int().is_subtype_of(*inner) => Type::int(),
                TypeKind::Optional(inner) => *inner,
                _ => self.ty(positional[0]),
            };
            let operands = self.operands(&positional);
            return Ok(self.emit(Symbol::new(name), &operands, &[ty]));
        }
        let name = if name.contains("::") { name.to_owned() } else { format!("aten::{name}") };
        self.overload(&name, positional, &named)
    }

    /// Writes a function of the table inline; returns its results.
    pub(super) fn function(
        &mut self,
        formals: &'static [&'static str],
        body: &'static Body,
        operands: &[Thing],
    ) -> Step<Vec<Thing>> {
        let formals = formals.iter().copied().zip(operands.iter().copied()).collect();
        let (outer, around) = (std::mem::replace(&mut self.names, formals), self.in_function);
        self.in_function = true;
        let things = self.body(body);
        (self.names, self.in_function) = (outer, around);
        things
    }

    fn body(&mut self, body: &'static Body) -> Step<Vec<Thing>> {
        for line in &body.lines {
            self.line(line)?;
        }
        let mut all = Vec::new();
        for result in &body.results {
            all.extend(self.expr(result)?);
        }
        Ok(all)
    }

    /// The first result of an operator, called with all operands.
    pub(super) fn operator(&mut self, name: &str, operands: &[Thing]) -> Step<Thing> {
        let things = self.overload(name, operands.to_vec(), &[])?;
        things.first().copied().ok_or_else(|| format!("`{name}` returns no value"))
    }

    /// The results of the overload that accepts these operands; omitted operands have their
    /// defaults.
    fn overload(&mut self, name: &str, positional: Vec<Thing>, named: &[(&str, Thing)]) -> Step<Vec<Thing>> {
        let kind = Symbol::new(name);
        let operator = ops::operator(self.graph.era, kind);
        let types: Vec<Type> = positional.iter().map(|&thing| self.ty(thing)).collect();
        // It takes any number of gradients, and has no schema in the list.
        if kind == prim::AUTOGRAD_ANY_NON_ZERO {
            let operands = self.operands(&positional);
            return Ok(self.emit(kind, &operands, &[Type::bool()]));
        }
        let takes_all = |schema: &&Schema| named.is_empty() && schema.formals.len() == types.len();
        let exact = operator.resolve(&types).schema().filter(takes_all);
        // Overloads of other releases have no gradient formulas: they come last.
        let is_own = |schema: &&Schema| operator.schemas.iter().any(|own| std::ptr::eq(own, *schema));
        if let Some(schema) = exact.filter(is_own) {
            return self.node(kind, schema, &positional);
        }
        for schema in operator.schemas {
            if let Some(things) = self.completed(schema, &positional, named) {
                let types: Vec<Type> = things.iter().map(|&thing| self.ty(thing)).collect();
                if operator.resolve(&types).schema().is_some_and(|found| std::ptr::eq(found, schema)) {
                    return self.node(kind, schema, &things);
                }
            }
        }
        if let Some(schema) = exact {
            return self.node(kind, schema, &positional);
        }
        let shown: Vec<String> = types.iter().map(ToString::to_string).collect();
        Err(format!("no overload of `{name}` takes ({})", shown.join(", ")))
    }

    /// All operands of an overload, with defaults for omitted ones.
    fn completed(&mut self, schema: &Schema, positional: &[Thing], named: &[(&str, Thing)]) -> Option<Vec<Thing>> {
        let known = |name: &str| named.iter().find(|(formal, _)| *formal == name).map(|(_, thing)| *thing);
        if positional.len() > schema.formals.len() || named.iter().any(|(name, _)| schema.formal(name).is_none()) {
            return None;
        }
        let rest = schema.formals[positional.len()..].iter();
        let given: Option<Vec<Option<Thing>>> =
            rest.map(|formal| known(formal.name).or_else(|| default(formal)).map(Some)).collect();
        Some(positional.iter().copied().chain(given?.into_iter().flatten()).collect())
    }

    fn node(&mut self, kind: Symbol, schema: &Schema, things: &[Thing]) -> Step<Vec<Thing>> {
        let types: Vec<Type> = things.iter().map(|&thing| self.ty(thing)).collect();
        let operands = self.operands(things);
        Ok(self.emit(kind, &operands, &schema.result_types(&types)))
    }

    fn emit(&mut self, kind: Symbol, operands: &[Value], types: &[Type]) -> Vec<Thing> {
        let node = self.graph.create(kind);
        self.graph.set_inputs(node, operands.iter().copied());
        let is_random = ops::operator(self.graph.era, kind).nondeterminism(None) > Nondeterminism::Undefined;
        if let Some(place) = self.draws.clone().filter(|_| is_random) {
            self.graph.keep_draws(node, place);
        }
        self.put(node);
        types.iter().map(|&ty| Thing::Here(self.graph.add_output(node, ty))).collect()
    }

    fn put(&mut self, node: Node) {
        match self.place {
            Place::Before(anchor) => self.graph.insert_before(anchor, node),
            Place::End(block) => self.graph.append(block, node),
        }
    }

    fn branch(&mut self, condition: &'static Expr, bodies: [&'static Body; 2]) -> Step<Vec<Thing>> {
        let condition = self.one(condition)?;
        let operand = self.operands(&[condition]);
        let node = self.graph.create(prim::IF);
        self.graph.set_inputs(node, operand.into_iter());
        self.put(node);
        let mut sides: Vec<Vec<Type>> = Vec::new();
        for body in bodies {
            let block = self.graph.add_block(node);
            let (_, types) = self.in_block(block, |writer| writer.body(body))?;
            sides.push(types);
        }
        let joined = sides[0].iter().zip(&sides[1]).map(|(a, b)| a.join(*b).ok_or("the branches have different types"));
        let types = joined.collect::<Result<Vec<Type>, _>>()?;
        if sides[0].len() != sides[1].len() {
            return Err("the branches have different numbers of results".to_owned());
        }
        Ok(types.iter().map(|&ty| Thing::Here(self.graph.add_output(node, ty))).collect())
    }

    /// Writes into a block; returns the results and their types.
    fn in_block(
        &mut self,
        block: Block,
        write: impl FnOnce(&mut Self) -> Step<Vec<Thing>>,
    ) -> Step<(Vec<Thing>, Vec<Type>)> {
        let (place, known) = (self.place, self.names.len());
        self.place = Place::End(block);
        let things = write(self);
        self.place = place;
        self.names.truncate(known);
        let things = things?;
        let types = things.iter().map(|&thing| self.ty(thing)).collect();
        for value in self.operands(&things) {
            self.graph.add_result(block, value);
        }
        Ok((things, types))
    }

    fn repeat(&mut self, repeat: &'static Repeat) -> Step<Vec<Thing>> {
        let Repeat { counter, trips, carried, body } = repeat;
        let yes = Thing::Constant(Literal::Bool(true));
        let mut things = vec![self.one(trips)?, yes];
        for (_, start) in carried {
            things.push(self.one(start)?);
        }
        // Values that an iteration passes on may have other sizes than the initial ones.
        let types: Vec<Type> = things[2..].iter().map(|&thing| self.ty(thing).erased()).collect();
        let operands = self.operands(&things);
        let node = self.graph.create(prim::LOOP);
        self.graph.set_inputs(node, operands.into_iter());
        self.put(node);
        let block = self.graph.add_block(node);
        let iteration = self.graph.add_param(block, Type::int());
        let params: Vec<Value> = types.iter().map(|&ty| self.graph.add_param(block, ty)).collect();
        self.in_block(block, |writer| {
            writer.bind(counter, Thing::Here(iteration));
            for ((name, _), param) in carried.iter().zip(params) {
                writer.bind(name, Thing::Here(param));
            }
            let results = writer.body(body)?;
            Ok([yes].into_iter().chain(results).collect())
        })?;
        Ok(types.iter().map(|&ty| Thing::Here(self.graph.add_output(node, ty))).collect())
    }

    // ---- values

    fn ty(&self, thing: Thing) -> Type {
        if let Some((_, ty)) = self.optional.iter().rev().find(|(known, _)| *known == thing) {
            return *ty;
        }
        match thing {
            Thing::Here(value) => self.graph.ty(value),
            Thing::There(value) => self.forward.as_ref().map_or_else(Type::tensor, |(forward, _)| forward.ty(value)),
            Thing::Constant(literal) => match literal {
                Literal::Int(..) | Literal::Kept(_) => Type::int(),
                Literal::Float(..) => Type::simple(Simple::Float),
                Literal::Bool(_) => Type::bool(),
                Literal::None => Type::simple(Simple::None),
                Literal::Text(_) => Type::simple(Simple::Str),
            },
        }
    }

    /// The value of a thing, as an operand of a node to come or as a result of the block.
    pub(super) fn value(&mut self, thing: Thing) -> Value {
        self.operands(&[thing])[0]
    }

    /// Values of the graph that is written: the operands of one node.
    fn operands(&mut self, things: &[Thing]) -> Vec<Value> {
        let mut read = Read::new();
        things.iter().map(|&thing| self.operand(thing, &mut read)).collect()
    }

    fn operand(&mut self, thing: Thing, read: &mut Read) -> Value {
        if let Some((_, value)) = read.iter().find(|(known, _)| *known == thing) {
            return *value;
        }
        let value = match thing {
            Thing::Here(value) => return value,
            Thing::There(value) => match self.captured(value) {
                Some(param) => return param,
                None => self.copied_constant(value),
            },
            Thing::Constant(literal) => self.constant(literal),
        };
        read.push((thing, value));
        value
    }

    /// The param that represents a value of the forward graph here; none for a constant.
    fn captured(&mut self, value: Value) -> Option<Value> {
        let (forward, captured) =
            self.forward.as_mut().expect("a value of the forward graph is read only when there is one");
        if forward.definer(value).is_some_and(|made| forward.kind(made) == prim::CONSTANT) {
            return None;
        }
        Some(capture(self.graph, forward, captured, value))
    }

    fn copied_constant(&mut self, value: Value) -> Value {
        let (forward, _) = self.forward.as_ref().expect("a value of the forward graph is read only when there is one");
        let constant = forward.definer(value).expect("a constant has a node");
        let copy = self.graph.copy_node(Some(forward), constant, &mut ValueMap::default());
        self.graph.prepend(self.graph.root(), copy);
        self.graph.output(copy, 0)
    }

    fn constant(&mut self, literal: Literal) -> Value {
        match literal {
            Literal::Kept(number) => self.kept(number),
            Literal::Int(_, false) | Literal::Float(_, false) if self.belongs_to_graph() => {
                let node = made(self.graph, literal);
                self.graph.prepend(self.graph.root(), node);
                self.graph.output(node, 0)
            }
            _ => self.own_constant(literal),
        }
    }

    /// Whether the scalars of a formula are constants of the whole backward graph.
    fn belongs_to_graph(&self) -> bool {
        matches!(self.constants, Constants::In(_)) && !self.in_function
    }

    /// A constant that stays with the formula, one for all readers.
    fn own_constant(&mut self, literal: Literal) -> Value {
        if let Some((_, value)) = self.own.iter().find(|(known, _)| *known == literal) {
            return *value;
        }
        let node = made(self.graph, literal);
        match self.constants {
            Constants::Behind(anchor) => self.graph.insert_after(anchor, node),
            Constants::In(block) => self.graph.prepend(block, node),
        }
        let value = self.graph.output(node, 0);
        self.own.push((literal, value));
        value
    }

    /// An integer out of a tuple. Only 2.x stores it so.
    fn kept(&mut self, number: i64) -> Value {
        if self.graph.era == Era::V1_3 {
            return self.constant(Literal::Int(number, false));
        }
        let tuple = self.graph.create_op(prim::CONSTANT, &[], Type::tuple(&[Type::int()]));
        let parts: Box<[Attribute]> = Box::new([Attribute::Int(number)]);
        self.graph.set_attribute(tuple, attr::VALUE, Attribute::Tuple(parts));
        self.graph.prepend(self.graph.root(), tuple);
        let operand = self.graph.output(tuple, 0);
        let Thing::Here(value) = self.emit(prim::TUPLE_UNPACK, &[operand], &[Type::int()])[0] else {
            unreachable!("a node makes values of its own graph")
        };
        value
    }
}

/// A node for a constant, in no block yet.
fn made(graph: &mut Graph, literal: Literal) -> Node {
    let style = FloatStyle::of(graph.release());
    let (ty, value) = match literal {
        Literal::Int(n, _) | Literal::Kept(n) => (Type::int(), Some(Attribute::Int(n))),
        Literal::Float(value, _) => (Type::simple(Simple::Float), Some(Attribute::Float(Float { value, style }))),
        Literal::Bool(b) => (Type::bool(), Some(Attribute::Int(i64::from(b)))),
        Literal::Text(text) => (Type::simple(Simple::Str), Some(Attribute::Str(text.as_bytes().into()))),
        Literal::None => (Type::simple(Simple::None), None),
    };
    let node = graph.create_op(prim::CONSTANT, &[], ty);
    if let Some(value) = value {
        graph.set_attribute(node, attr::VALUE, value);
    }
    node
}

/// The default of a formal parameter.
fn default(formal: &Formal) -> Option<Thing> {
    let literal = match formal.default? {
        "None" => Literal::None,
        "True" => Literal::Bool(true),
        "False" => Literal::Bool(false),
        text => match text.parse() {
            Ok(n) => Literal::Int(n, true),
            Err(_) => Literal::Float(text.parse().ok()?, true),
        },
    };
    Some(Thing::Constant(literal))
}

/// The param of a backward graph that represents a value of the forward graph.
pub(super) fn capture(graph: &mut Graph, forward: &Graph, captured: &mut ValueMap, value: Value) -> Value {
    *captured.entry(value).or_insert_with(|| {
        let param = graph.add_param(graph.root(), forward.ty(value));
        if forward.is_named(value) {
            graph.set_name(param, forward.name(value).as_bytes());
        }
        param
    })
}
