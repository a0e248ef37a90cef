//! Statements to nodes that store and load variables, as PyTorch emits them.
//!
//! ```text
//! if flag:                      prim::If(%flag)
//!   y = torch.neg(x)              block0():
//! else:                             %x : Tensor = prim::Load[name="x"]()
//!   y = x                =>         %1 : Tensor = aten::neg(%x)
//! return y                          prim::Store[name="y"](%1)
//!                                   -> ()
//!                                 block1(): …
//!                               %y : Tensor = prim::Load[name="y"]()
//!                               prim::ReturnStmt(%y)
//! ```
//!
//! The passes `convert-to-ssa` and `exit-transforms` then make SSA of the graph. Scopes here only
//! know the types of variables.

use crate::archive_code::ArchiveCode;
use crate::declared_names::Callable;
use crate::packed_weights::is_packed;
use crate::printed_syntax::{Expr, ExprKind, FunctionDef, Stmt, StmtKind};
use crate::schema_choice::implicit_conversion;
use crate::source_error::{Place, Result, fail};
use crate::tidying;
use jitopt_core::ir::{Attribute, Block, Float, FloatStyle, Graph, Node, Value};
use jitopt_core::symbol::{Symbol, attr, prim};
use jitopt_core::types::{Simple, Type, TypeKind};
use std::collections::{BTreeMap, HashMap};

/// Nodes of a function: a small file that fork nests may otherwise grow large.
const MOST_NODES: usize = 2_000_000;

/// The meaning of a name.
#[derive(Clone, Debug)]
pub(crate) enum Binding<'c> {
    /// A variable that holds values of this type.
    Stored(Type),
    /// A function, by its qualified name.
    Function(String),
    /// A closure, for `fork`.
    Closure(&'c FunctionDef),
    /// Set in one branch only, or to values of types without a common one.
    Unclear,
}

/// A name in a scope.
#[derive(Clone, Debug)]
pub(crate) struct Variable<'c> {
    pub(crate) binding: Binding<'c>,
    pub(crate) declared: Option<Type>,
}

/// The names that a block sets.
pub(crate) type Scope<'c> = BTreeMap<String, Variable<'c>>;

/// A literal number: equal ones are one constant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Number {
    Int(i64),
    /// Bits of a double.
    Float(u64),
    Complex(u64, u64),
}

/// The values that a closure takes from the graph around it, in the order of its params.
pub(crate) enum Captured {
    /// A variable, and its type.
    Variable(String, Type),
    Number(Number),
}

/// The graph around a closure, and what the closure captured of it.
pub(crate) struct Around<'c> {
    pub(crate) scope: Scope<'c>,
    pub(crate) captured: Vec<Captured>,
}

/// Emits one function.
pub(crate) struct Emitter<'c> {
    pub(crate) code: &'c ArchiveCode,
    pub(crate) function: Callable<'c>,
    pub(crate) graph: Graph,
    pub(crate) block: Block,
    pub(crate) scopes: Vec<Scope<'c>>,
    pub(crate) numbers: HashMap<Number, Value>,
    /// For closures.
    pub(crate) around: Option<Around<'c>>,
    /// Whether constants of functions have qualified names.
    pub(crate) whole_names: bool,
    /// The declared type of the result.
    result: Option<Type>,
    /// The type of what is returned.
    returned: Option<Type>,
}

impl<'c> Emitter<'c> {
    pub(crate) fn new(
        code: &'c ArchiveCode,
        function: Callable<'c>,
        around: Option<Around<'c>>,
        whole_names: bool,
    ) -> Emitter<'c> {
        let mut graph = Graph::new();
        code.set_dialect(&mut graph);
        let block = graph.root();
        let (scopes, numbers) = (vec![Scope::new()], HashMap::new());
        Emitter { code, function, graph, block, scopes, numbers, around, whole_names, result: None, returned: None }
    }

    /// The graph of a function; `class` is that of `self` where the code does not say it.
    pub(crate) fn function(mut self, class: Option<Type>) -> Result<Graph> {
        let def = self.function.def;
        for (number, param) in def.params.iter().enumerate() {
            let ty = match (&param.declared, class) {
                (Some(declared), _) => self.code.names.annotation(declared, self.function.record)?,
                (None, Some(class)) if number == 0 => class,
                _ => Type::tensor(),
            };
            let value = self.graph.add_param(self.block, ty);
            self.graph.set_name(value, param.name.as_bytes());
            self.set(&param.name, value, None, def.at);
        }
        if let Some(result) = &def.result {
            self.result = Some(self.code.names.annotation(result, self.function.record)?);
        }
        self.body(def)?;
        Ok(self.graph)
    }

    /// The body of a function or a closure, and its result.
    pub(crate) fn body(&mut self, def: &'c FunctionDef) -> Result<()> {
        if !self.statements(&def.body)? {
            self.returns(None, def.at)?;
        }
        let ty = self.result.or(self.returned).unwrap_or_else(Type::none);
        let result = self.value(prim::UNINITIALIZED, &[], ty, def.at);
        self.graph.add_result(self.block, result);
        tidying::make_ssa(&mut self.graph)
    }

    pub(crate) fn place(&self, at: usize) -> Place {
        self.function.place(at)
    }

    fn located<T>(&self, result: Result<T>, at: usize) -> Result<T> {
        result.map_err(|error| error.at(&self.place(at)))
    }

    // ---- nodes

    /// A node at the end of the current block.
    pub(crate) fn node(&mut self, kind: Symbol, inputs: &[Value], outputs: &[Type], at: usize) -> Node {
        let node = self.detached(kind, inputs, outputs, at);
        self.graph.append(self.block, node);
        node
    }

    fn detached(&mut self, kind: Symbol, inputs: &[Value], outputs: &[Type], at: usize) -> Node {
        let node = self.graph.create(kind);
        self.graph.set_inputs(node, inputs.iter().copied());
        for ty in outputs {
            self.graph.add_output(node, *ty);
        }
        let place = self.place(at);
        let comment = if self.code.places_in_archive { Some(place.place_in_archive()) } else { place.comment() };
        if let Some(comment) = comment {
            self.graph.set_location(node, comment.as_bytes());
        }
        node
    }

    /// The same with one result.
    pub(crate) fn value(&mut self, kind: Symbol, inputs: &[Value], ty: Type, at: usize) -> Value {
        let node = self.node(kind, inputs, &[ty], at);
        self.graph.output(node, 0)
    }

    // ---- constants

    /// A constant at the end of the current block.
    pub(crate) fn constant(&mut self, value: Option<Attribute>, ty: Type, at: usize) -> Value {
        let node = self.node(prim::CONSTANT, &[], &[ty], at);
        if let Some(value) = value {
            self.graph.set_attribute(node, attr::VALUE, value);
        }
        self.graph.output(node, 0)
    }

    pub(crate) fn none(&mut self, at: usize) -> Value {
        self.constant(None, Type::none(), at)
    }

    pub(crate) fn truth(&mut self, value: bool, at: usize) -> Value {
        self.constant(Some(Attribute::Int(i64::from(value))), Type::bool(), at)
    }

    /// A literal number. As in PyTorch, equal ones are one constant at the beginning of the graph,
    /// and closures get them as params.
    pub(crate) fn number(&mut self, number: Number, at: usize) -> Value {
        if let Some(known) = self.numbers.get(&number) {
            return *known;
        }
        let (ty, value) = literal(number, FloatStyle::of(self.code.release));
        let made = match &mut self.around {
            Some(around) => {
                around.captured.push(Captured::Number(number));
                self.graph.add_param(self.graph.root(), ty)
            }
            None => {
                let node = self.detached(prim::CONSTANT, &[], &[ty], at);
                self.graph.set_attribute(node, attr::VALUE, value);
                self.graph.prepend(self.graph.root(), node);
                self.graph.output(node, 0)
            }
        };
        self.numbers.insert(number, made);
        made
    }

    pub(crate) fn int(&mut self, value: i64, at: usize) -> Value {
        self.number(Number::Int(value), at)
    }

    // ---- names

    pub(crate) fn lookup(&mut self, name: &str) -> Option<Variable<'c>> {
        if let Some(found) = self.scopes.iter().rev().find_map(|scope| scope.get(name)) {
            return Some(found.clone());
        }
        let around = self.around.as_mut()?;
        let variable = around.scope.get(name)?.clone();
        if let Binding::Stored(ty) = variable.binding {
            around.captured.push(Captured::Variable(name.to_owned(), ty));
            let param = self.graph.add_param(self.graph.root(), ty);
            self.graph.set_name(param, name.as_bytes());
            let store = self.store(name, param, self.function.def.at);
            self.graph.prepend(self.graph.root(), store);
            self.scopes[0].insert(name.to_owned(), variable.clone());
        }
        Some(variable)
    }

    fn store(&mut self, name: &str, value: Value, at: usize) -> Node {
        let node = self.detached(prim::STORE, &[value], &[], at);
        self.graph.set_attribute(node, attr::NAME, Attribute::Str(name.as_bytes().into()));
        node
    }

    /// The value of a variable of this type.
    pub(crate) fn load(&mut self, name: &str, ty: Type, at: usize) -> Value {
        let node = self.node(prim::LOAD, &[], &[ty], at);
        self.graph.set_attribute(node, attr::NAME, Attribute::Str(name.as_bytes().into()));
        self.graph.output(node, 0)
    }

    fn bind(&mut self, name: &str, binding: Binding<'c>, declared: Option<Type>) {
        if let Some(scope) = self.scopes.last_mut() {
            scope.insert(name.to_owned(), Variable { binding, declared });
        }
    }

    /// Binds a name to a value, which gets the name where it has none and is of this block.
    fn set(&mut self, name: &str, value: Value, declared: Option<Type>, at: usize) {
        let is_ours = self.graph.definer(value).and_then(|node| self.graph.block_of(node)) == Some(self.block);
        if is_ours && !self.graph.is_named(value) && is_meaningful(name) {
            self.graph.set_name(value, name.as_bytes());
        }
        let store = self.store(name, value, at);
        self.graph.append(self.block, store);
        self.bind(name, Binding::Stored(self.graph.ty(value)), declared);
    }

    // ---- statements

    /// Returns whether the statements certainly return.
    fn statements(&mut self, statements: &'c [Stmt]) -> Result<bool> {
        let mut returned = false;
        for statement in statements {
            let done = match returned {
                true => fail("a statement after `return`"),
                false if self.graph.num_node_rows() > MOST_NODES => fail("the function has too many nodes"),
                false => self.statement(statement),
            };
            returned = self.located(done, statement.at)?;
        }
        Ok(returned)
    }

    fn statement(&mut self, statement: &'c Stmt) -> Result<bool> {
        let at = statement.at;
        match &statement.kind {
            StmtKind::Return(value) => return self.returns(value.as_ref(), at).map(|()| true),
            StmtKind::If { condition, then, otherwise } => return self.branch(condition, [then, otherwise], at),
            StmtKind::With { objects, body } => return self.with(objects, body, at),
            _ => self.simple_statement(statement, at)?,
        }
        Ok(false)
    }

    /// What the function goes on after.
    fn simple_statement(&mut self, statement: &'c Stmt, at: usize) -> Result<()> {
        match &statement.kind {
            StmtKind::Expr(expr) => self.sugared(expr, None).map(|_| ()),
            StmtKind::Assign { targets, unpacks, declared, value } => {
                let declared = declared.as_ref().map(|declared| self.annotation(declared)).transpose()?;
                if *unpacks { self.unpack(targets, value) } else { self.assign(&targets[0], value, declared) }
            }
            StmtKind::For { target, over, body } => {
                let trips = self.trips(over)?;
                self.repeat(trips, Some(target), None, body, at)
            }
            StmtKind::While { condition, body } => {
                let trips = self.int(i64::MAX, at);
                self.repeat(trips, None, Some(condition), body, at)
            }
            StmtKind::Def(def) => {
                self.bind(&def.name, Binding::Closure(def), None);
                Ok(())
            }
            StmtKind::Pass | StmtKind::Return(_) | StmtKind::If { .. } | StmtKind::With { .. } => Ok(()),
        }
    }

    pub(crate) fn annotation(&self, expr: &Expr) -> Result<Type> {
        self.code.names.annotation(expr, self.function.record)
    }

    fn returns(&mut self, value: Option<&'c Expr>, at: usize) -> Result<()> {
        let value = match value {
            Some(value) => self.expression(value, self.result)?,
            None => self.none(at),
        };
        let value = match self.result {
            Some(wanted) => self.converted(value, wanted, at)?,
            None => value,
        };
        self.returned = Some(self.graph.ty(value));
        self.node(prim::RETURN_STMT, &[value], &[], at);
        Ok(())
    }

    /// A value where another type is wanted: a tensor may be read as a number.
    pub(crate) fn converted(&mut self, value: Value, wanted: Type, at: usize) -> Result<Value> {
        let given = self.graph.ty(value);
        if self.code.types_none() && given == Type::none() && matches!(wanted.kind(), TypeKind::Optional(_)) {
            return Ok(self.constant(None, wanted, at));
        }
        if given.is_subtype_of(wanted) || given.erased().is_subtype_of(wanted) {
            return Ok(value);
        }
        match implicit_conversion(wanted, given) {
            Some(kind) => Ok(self.value(self.code.conversion(kind), &[value], wanted, at)),
            // What is declared wider than it is, or holds values of other types, is not checked.
            // Up to 1.5 packed weights are tensors.
            None if may_be(given, wanted) || wanted.is_tensor() && is_packed_class(given) => Ok(value),
            None => fail(format!("expected a `{wanted}`, found a `{given}`")),
        }
    }

    fn assign(&mut self, target: &'c Expr, value: &'c Expr, declared: Option<Type>) -> Result<()> {
        match &target.kind {
            ExprKind::Name(name) => {
                let sugared = self.sugared(value, declared)?;
                if let Some(binding) = sugared.as_binding() {
                    self.bind(name, binding, declared);
                    return Ok(());
                }
                let value = self.plain(sugared, value.at)?;
                let value = match declared {
                    Some(declared) => self.converted(value, declared, target.at)?,
                    None => value,
                };
                self.set(name, value, declared, target.at);
                Ok(())
            }
            ExprKind::Attribute(object, name) => self.set_attribute(object, name, value, target.at),
            _ => fail("expected a name or an attribute before `=`"),
        }
    }

    fn set_attribute(&mut self, object: &'c Expr, name: &str, value: &'c Expr, at: usize) -> Result<()> {
        let object = self.expression(object, None)?;
        let wanted = self.attribute_type(object, name)?;
        let value = self.expression(value, Some(wanted))?;
        let value = self.converted(value, wanted, at)?;
        let node = self.node(prim::SET_ATTR, &[object, value], &[], at);
        self.graph.set_attribute(node, attr::NAME, Attribute::Str(name.as_bytes().into()));
        Ok(())
    }

    /// `a, b, = value`
    fn unpack(&mut self, targets: &'c [Expr], value: &'c Expr) -> Result<()> {
        let values = match &value.kind {
            ExprKind::Tuple(items) if items.len() == targets.len() => {
                items.iter().map(|item| self.expression(item, None)).collect::<Result<Vec<Value>>>()?
            }
            _ => self.parts(value, targets.len())?,
        };
        for (target, value) in targets.iter().zip(values) {
            let ExprKind::Name(name) = &target.kind else { return fail("expected names before `=`") };
            self.set(name, value, None, target.at);
        }
        Ok(())
    }

    /// `with object:` calls `__enter__` and `__exit__`.
    fn with(&mut self, objects: &'c [Expr], body: &'c [Stmt], at: usize) -> Result<bool> {
        let mut entered = Vec::new();
        for object in objects {
            let object = self.expression(object, None)?;
            let class = self.code.names.class_of(self.graph.ty(object)).map(|(name, _)| name);
            let enter = class.and_then(|class| self.code.names.method(class, "__enter__"));
            let Some(enter) = enter else { return fail("the object has no method `__enter__`") };
            let result = self.code.result_type(enter)?;
            self.value(prim::ENTER, &[object], result, at);
            entered.push(object);
        }
        let returned = self.statements(body)?;
        for object in entered.into_iter().rev() {
            self.value(prim::EXIT, &[object], Type::none(), at);
        }
        Ok(returned)
    }

    // ---- branches

    fn branch(&mut self, condition: &'c Expr, bodies: [&'c [Stmt]; 2], at: usize) -> Result<bool> {
        if let Some(known) = self.known_condition(condition)? {
            return self.statements(bodies[usize::from(!known)]);
        }
        let condition = self.expression(condition, Some(Type::bool()))?;
        let node = self.node(prim::IF, &[condition], &[], at);
        let (mut branches, mut returns) = (Vec::new(), Vec::new());
        for body in bodies {
            let block = self.graph.add_block(node);
            let mut returned = false;
            let scope = self.inside(block, Scope::new(), |emitter| {
                returned = emitter.statements(body)?;
                Ok(())
            })?;
            branches.push((block, scope));
            returns.push(returned);
        }
        match returns[..] {
            [true, false] => self.only(&branches[1].1, branches[0].0, at),
            [false, true] => self.only(&branches[0].1, branches[1].0, at),
            _ => self.join([&branches[0].1, &branches[1].1]),
        }
        Ok(returns == [true, true])
    }

    /// Binds the names of one branch; in the other, which returns, they have no values.
    fn only(&mut self, scope: &Scope<'c>, other: Block, at: usize) {
        for (name, variable) in scope {
            if let (Binding::Stored(ty), None) = (&variable.binding, self.lookup(name)) {
                let nothing = self.detached(prim::UNINITIALIZED, &[], &[*ty], at);
                let value = self.graph.output(nothing, 0);
                let store = self.store(name, value, at);
                self.graph.prepend(other, store);
                self.graph.prepend(other, nothing);
            }
            self.bind(name, variable.binding.clone(), variable.declared);
        }
    }

    /// Emits into a block with a scope of its own; returns the names that were set.
    fn inside(
        &mut self,
        block: Block,
        scope: Scope<'c>,
        emit: impl FnOnce(&mut Self) -> Result<()>,
    ) -> Result<Scope<'c>> {
        let outer = std::mem::replace(&mut self.block, block);
        self.scopes.push(scope);
        let done = emit(self);
        self.block = outer;
        let scope = self.scopes.pop().unwrap_or_default();
        done.map(|()| scope)
    }

    /// Binds the names that the branches of an If set.
    fn join(&mut self, scopes: [&Scope<'c>; 2]) {
        let mut names: Vec<&String> = scopes.iter().flat_map(|scope| scope.keys()).collect();
        names.sort();
        names.dedup();
        for name in names {
            let [a, b] = scopes.map(|scope| scope.get(name).cloned().or_else(|| self.lookup(name)));
            let (Some(a), Some(b)) = (a, b) else { continue };
            let declared = a.declared.or(b.declared);
            let binding = match (a.binding, b.binding) {
                (Binding::Stored(a), Binding::Stored(b)) => a.join(b).or(declared).map(Binding::Stored),
                (Binding::Function(a), Binding::Function(b)) if a == b => Some(Binding::Function(a)),
                _ => None,
            };
            self.bind(name, binding.unwrap_or(Binding::Unclear), declared);
        }
    }

    // ---- loops

    /// The number of iterations of `for _ in range(n)`.
    fn trips(&mut self, over: &'c Expr) -> Result<Value> {
        let ExprKind::Call(call) = &over.kind else { return fail("expected `range(…)` after `in`") };
        match (call.callee.dotted().as_deref(), call.arguments.as_slice()) {
            (Some(["range"]), [count]) => self.expression(count, Some(Type::int())),
            _ => fail("expected `range(…)` with one argument after `in`").map_err(|e| e.at(&self.place(over.at))),
        }
    }

    /// A Loop; its condition is a second block.
    fn repeat(
        &mut self,
        trips: Value,
        target: Option<&'c String>,
        condition: Option<&'c Expr>,
        body: &'c [Stmt],
        at: usize,
    ) -> Result<()> {
        let always = condition.is_none().then(|| self.truth(true, at));
        let node = self.node(prim::LOOP, &[trips], &[], at);
        let [inner, header] = [self.graph.add_block(node), self.graph.add_block(node)];
        let iteration = self.graph.add_param(inner, Type::int());
        // What is known before keeps its declared type, whatever the body sets.
        let mut known = Scope::new();
        for name in assigned(body) {
            if let Some(Variable { binding: Binding::Stored(ty), declared }) = self.lookup(name) {
                let binding = Binding::Stored(declared.unwrap_or(ty));
                known.insert(name.to_owned(), Variable { binding, declared });
            }
        }
        self.inside(inner, known.clone(), |emitter| {
            if let Some(target) = target {
                emitter.name_meaningfully(iteration, target);
                emitter.set(target, iteration, None, at);
            }
            emitter.statements(body).map(|_| ())
        })?;
        self.inside(header, known.clone(), |emitter| {
            let goes_on = match (condition, always) {
                (Some(condition), _) => emitter.expression(condition, None)?,
                (None, Some(always)) => always,
                (None, None) => emitter.truth(true, at),
            };
            emitter.graph.add_result(header, goes_on);
            Ok(())
        })?;
        known.into_iter().for_each(|(name, variable)| self.bind(&name, variable.binding, variable.declared));
        Ok(())
    }

    fn name_meaningfully(&mut self, value: Value, name: &str) {
        if is_meaningful(name) {
            self.graph.set_name(value, name.as_bytes());
        }
    }
}

/// Whether a wider type may hold a value of a narrower one; optionals and unions are refined by
/// casts that the printer may leave out.
fn may_be(given: Type, wanted: Type) -> bool {
    let is_any = |ty: Type| ty.is(Simple::Any) || matches!(ty.kind(), TypeKind::Union(_));
    let number = |ty: Type| ty.is(Simple::Scalar) || ty.is(Simple::Number);
    match (given.kind(), wanted.kind()) {
        (TypeKind::Class(_) | TypeKind::Interface(_), TypeKind::Interface(_)) => true,
        (TypeKind::Optional(_), TypeKind::Optional(_)) => true,
        // An empty list without a type is one of tensors.
        (TypeKind::List(_), TypeKind::List(_)) | (TypeKind::Dict(..), TypeKind::Dict(..)) => true,
        (TypeKind::Future(_), TypeKind::Future(_)) => true,
        (_, TypeKind::Optional(inner)) => may_be(given, *inner),
        _ => is_any(given) || is_any(wanted) || number(given) && !wanted.is_tensor(),
    }
}

/// Whether PyTorch gives values such a name: not `_12`.
fn is_meaningful(name: &str) -> bool {
    name.strip_prefix('_').is_none_or(|rest| !rest.bytes().all(|byte| byte.is_ascii_digit()))
}

fn literal(number: Number, style: FloatStyle) -> (Type, Attribute) {
    let float = |bits: u64| Float { value: f64::from_bits(bits), style };
    match number {
        Number::Int(value) => (Type::int(), Attribute::Int(value)),
        Number::Float(bits) => (Type::simple(Simple::Float), Attribute::Float(float(bits))),
        Number::Complex(real, imaginary) => {
            (Type::simple(Simple::Complex), Attribute::Complex(Box::new((float(real), float(imaginary)))))
        }
    }
}

/// The names that statements set, each once, in order.
fn assigned(statements: &[Stmt]) -> Vec<&str> {
    let mut names = Vec::new();
    collect_assigned(statements, &mut names);
    let mut seen = std::collections::HashSet::new();
    names.retain(|name| seen.insert(*name));
    names
}

/// Blocks are nested a hundred deep at most.
fn collect_assigned<'s>(statements: &'s [Stmt], names: &mut Vec<&'s str>) {
    for statement in statements {
        match &statement.kind {
            StmtKind::Assign { targets, .. } => {
                names.extend(targets.iter().filter_map(|target| match &target.kind {
                    ExprKind::Name(name) => Some(name.as_str()),
                    _ => None,
                }));
            }
            StmtKind::If { then, otherwise, .. } => {
                collect_assigned(then, names);
                collect_assigned(otherwise, names);
            }
            StmtKind::For { body, .. } | StmtKind::While { body, .. } | StmtKind::With { body, .. } => {
                collect_assigned(body, names);
            }
            _ => {}
        }
    }
}

/// Whether a type is that of packed weights.
fn is_packed_class(ty: Type) -> bool {
    matches!(ty.kind(), TypeKind::Class(class) if is_packed(class.as_str()))
}
