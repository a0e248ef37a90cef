//! Statements to nodes, in SSA form at once.
//!
//! ```text
//! if flag:                      %y : Tensor = prim::If(%flag)
//!   y = torch.neg(x)              block0():
//! else:                             %1 : Tensor = aten::neg(%x)
//!   y = x                           -> (%1)
//!                       =>        block1():
//!                                   -> (%x)
//! ```
//!
//! PyTorch emits stores and loads of variables first and makes SSA of them in passes. The result is
//! the same up to results without uses, which `dce` removes: a variable becomes a result of an
//! If where both branches have it, and a value that a Loop carries where it is set in the body and
//! known before.

use crate::archive_code::ArchiveCode;
use crate::declared_names::Callable;
use crate::packed_weights::is_packed;
use crate::printed_syntax::{Expr, ExprKind, FunctionDef, Stmt, StmtKind};
use crate::schema_choice::implicit_conversion;
use crate::source_error::{Place, Result, fail};
use jitopt_core::ir::{Attribute, Block, Float, FloatStyle, Graph, Node, Value};
use jitopt_core::symbol::{Symbol, attr, prim};
use jitopt_core::types::{Simple, Type, TypeKind};
use std::collections::{BTreeMap, HashMap};

/// Nodes of a function: a small file that fork nests may otherwise grow large.
const MOST_NODES: usize = 2_000_000;

/// What a name stands for.
#[derive(Clone, Debug)]
pub(crate) enum Binding<'c> {
    Value(Value),
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

/// What a closure takes from the graph around it, in the order of its params.
pub(crate) enum Captured {
    Value(Value),
    Number(Number),
}

/// The graph around a closure, and what the closure captured of it.
pub(crate) struct Around<'c> {
    pub(crate) scope: BTreeMap<String, (Variable<'c>, Type)>,
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
    returned: Option<Value>,
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
            let variable = Variable { binding: Binding::Value(value), declared: None };
            self.scopes[0].insert(param.name.clone(), variable);
        }
        if let Some(result) = &def.result {
            self.result = Some(self.code.names.annotation(result, self.function.record)?);
        }
        self.body(def)?;
        Ok(self.graph)
    }

    /// The body of a function or a closure, and its result.
    pub(crate) fn body(&mut self, def: &'c FunctionDef) -> Result<()> {
        self.statements(&def.body)?;
        let value = match self.returned {
            Some(value) => value,
            None => self.none(def.at),
        };
        self.graph.add_result(self.block, value);
        Ok(())
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
        let comment = self.place(at).comment();
        self.graph.set_location(node, comment.as_bytes());
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
        let (mut variable, ty) = around.scope.get(name)?.clone();
        if let Binding::Value(outer) = variable.binding {
            around.captured.push(Captured::Value(outer));
            let param = self.graph.add_param(self.graph.root(), ty);
            self.graph.set_name(param, name.as_bytes());
            variable.binding = Binding::Value(param);
            self.scopes[0].insert(name.to_owned(), variable.clone());
        }
        Some(variable)
    }

    fn bind(&mut self, name: &str, binding: Binding<'c>, declared: Option<Type>) {
        if let Some(scope) = self.scopes.last_mut() {
            scope.insert(name.to_owned(), Variable { binding, declared });
        }
    }

    /// Binds a name to a value, which gets the name where it has none and is of this block.
    fn set(&mut self, name: &str, value: Value, declared: Option<Type>) {
        let is_ours = self.graph.definer(value).and_then(|node| self.graph.block_of(node)) == Some(self.block);
        if is_ours && !self.graph.is_named(value) && is_meaningful(name) {
            self.graph.set_name(value, name.as_bytes());
        }
        self.bind(name, Binding::Value(value), declared);
    }

    // ---- statements

    fn statements(&mut self, statements: &'c [Stmt]) -> Result<()> {
        for statement in statements {
            let done = match self.returned {
                Some(_) => fail("a statement after `return`"),
                None if self.graph.num_node_rows() > MOST_NODES => fail("the function has too many nodes"),
                None => self.statement(statement),
            };
            self.located(done, statement.at)?;
        }
        Ok(())
    }

    fn statement(&mut self, statement: &'c Stmt) -> Result<()> {
        let at = statement.at;
        match &statement.kind {
            StmtKind::Pass => Ok(()),
            StmtKind::Expr(expr) => self.sugared(expr, None).map(|_| ()),
            StmtKind::Assign { targets, unpacks, declared, value } => {
                let declared = declared.as_ref().map(|declared| self.annotation(declared)).transpose()?;
                if *unpacks { self.unpack(targets, value) } else { self.assign(&targets[0], value, declared) }
            }
            StmtKind::Return(value) => self.returns(value.as_ref(), at),
            StmtKind::If { condition, then, otherwise } => self.branch(condition, [then, otherwise], at),
            StmtKind::For { target, over, body } => {
                let trips = self.trips(over)?;
                let starts = self.truth(true, at);
                self.repeat([trips, starts], Some(target), None, body, at)
            }
            StmtKind::While { condition, body } => {
                let trips = self.int(i64::MAX, at);
                let starts = self.expression(condition, None)?;
                self.repeat([trips, starts], None, Some(condition), body, at)
            }
            StmtKind::With { objects, body } => self.with(objects, body, at),
            StmtKind::Def(def) => {
                self.bind(&def.name, Binding::Closure(def), None);
                Ok(())
            }
        }
    }

    pub(crate) fn annotation(&self, expr: &Expr) -> Result<Type> {
        self.code.names.annotation(expr, self.function.record)
    }

    fn returns(&mut self, value: Option<&'c Expr>, at: usize) -> Result<()> {
        if self.block != self.graph.root() {
            return fail("`return` inside a block is not read: PyTorch prints one at the end");
        }
        let value = match value {
            Some(value) => self.expression(value, self.result)?,
            None => self.none(at),
        };
        let value = match self.result {
            Some(wanted) => self.converted(value, wanted, at)?,
            None => value,
        };
        self.returned = Some(value);
        Ok(())
    }

    /// A value where another type is wanted: a tensor may be read as a number.
    pub(crate) fn converted(&mut self, value: Value, wanted: Type, at: usize) -> Result<Value> {
        let given = self.graph.ty(value);
        if given.is_subtype_of(wanted) || given.erased().is_subtype_of(wanted) {
            return Ok(value);
        }
        match implicit_conversion(wanted, given) {
            Some(kind) => Ok(self.value(Symbol::new(kind), &[value], wanted, at)),
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
                self.set(name, value, declared);
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
            self.set(name, value, None);
        }
        Ok(())
    }

    /// `with object:` calls `__enter__` and `__exit__`.
    fn with(&mut self, objects: &'c [Expr], body: &'c [Stmt], at: usize) -> Result<()> {
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
        self.statements(body)?;
        for object in entered.into_iter().rev() {
            self.value(prim::EXIT, &[object], Type::none(), at);
        }
        Ok(())
    }

    // ---- branches

    fn branch(&mut self, condition: &'c Expr, bodies: [&'c [Stmt]; 2], at: usize) -> Result<()> {
        if let Some(known) = self.known_condition(condition)? {
            return self.statements(bodies[usize::from(!known)]);
        }
        let condition = self.expression(condition, Some(Type::bool()))?;
        let node = self.node(prim::IF, &[condition], &[], at);
        let mut blocks = Vec::new();
        let mut scopes = Vec::new();
        for body in bodies {
            let block = self.graph.add_block(node);
            blocks.push(block);
            scopes.push(self.inside(block, Scope::new(), |emitter| emitter.statements(body))?);
        }
        self.join(node, [blocks[0], blocks[1]], [&scopes[0], &scopes[1]]);
        Ok(())
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

    /// Makes results of an If of the names that its branches set.
    fn join(&mut self, node: Node, blocks: [Block; 2], scopes: [&Scope<'c>; 2]) {
        let mut names: Vec<&String> = scopes.iter().flat_map(|scope| scope.keys()).collect();
        names.sort();
        names.dedup();
        for name in names {
            let [a, b] = scopes.map(|scope| scope.get(name).cloned().or_else(|| self.lookup(name)));
            let (Some(a), Some(b)) = (a, b) else { continue };
            let declared = a.declared.or(b.declared);
            let binding = match (a.binding, b.binding) {
                (Binding::Value(a), Binding::Value(b)) => {
                    let joined = self.graph.ty(a).join(self.graph.ty(b)).or(declared);
                    joined.map(|ty| Binding::Value(self.add_result(node, blocks, [a, b], ty, name)))
                }
                (Binding::Function(a), Binding::Function(b)) if a == b => Some(Binding::Function(a)),
                _ => None,
            };
            self.bind(name, binding.unwrap_or(Binding::Unclear), declared);
        }
    }

    fn add_result(&mut self, node: Node, blocks: [Block; 2], values: [Value; 2], ty: Type, name: &str) -> Value {
        for (block, value) in blocks.into_iter().zip(values) {
            self.graph.add_result(block, value);
        }
        let output = self.graph.add_output(node, ty);
        if is_meaningful(name) {
            self.graph.set_name(output, name.as_bytes());
        }
        output
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

    /// A Loop with the values that its body sets and that are known before it.
    fn repeat(
        &mut self,
        [trips, starts]: [Value; 2],
        target: Option<&'c String>,
        condition: Option<&'c Expr>,
        body: &'c [Stmt],
        at: usize,
    ) -> Result<()> {
        let mut carried = Vec::new();
        for name in assigned(body) {
            if let Some(Variable { binding: Binding::Value(value), declared }) = self.lookup(name) {
                carried.push((name, value, declared));
            }
        }
        let node = self.node(prim::LOOP, &[trips, starts], &[], at);
        let block = self.graph.add_block(node);
        let iteration = self.graph.add_param(block, Type::int());
        let mut scope = Scope::new();
        for (name, value, declared) in &carried {
            self.graph.add_input(node, *value);
            let param = self.carried_param(block, *value, *declared, name);
            scope.insert((*name).to_owned(), Variable { binding: Binding::Value(param), declared: *declared });
        }
        if let Some(target) = target {
            self.name_meaningfully(iteration, target);
            let variable = Variable { binding: Binding::Value(iteration), declared: None };
            scope.insert(target.clone(), variable);
        }
        let mut goes_on = None;
        let scope = self.inside(block, scope, |emitter| {
            emitter.statements(body)?;
            goes_on = Some(match condition {
                Some(condition) => emitter.expression(condition, None)?,
                None => emitter.truth(true, at),
            });
            Ok(())
        })?;
        if let Some(goes_on) = goes_on {
            self.graph.add_result(block, goes_on);
        }
        self.end_loop(node, block, &carried, &scope)
    }

    fn carried_param(&mut self, block: Block, value: Value, declared: Option<Type>, name: &str) -> Value {
        let ty = declared.unwrap_or_else(|| self.graph.ty(value));
        let param = self.graph.add_param(block, ty);
        self.name_meaningfully(param, name);
        param
    }

    fn name_meaningfully(&mut self, value: Value, name: &str) {
        if is_meaningful(name) {
            self.graph.set_name(value, name.as_bytes());
        }
    }

    fn end_loop(
        &mut self,
        node: Node,
        block: Block,
        carried: &[(&str, Value, Option<Type>)],
        scope: &Scope<'c>,
    ) -> Result<()> {
        for (name, value, declared) in carried {
            let Some(Variable { binding: Binding::Value(last), .. }) = scope.get(*name) else {
                return fail(format!("`{name}` is no value at the end of the loop"));
            };
            self.graph.add_result(block, *last);
            let ty = declared.unwrap_or_else(|| self.graph.ty(*value));
            let output = self.graph.add_output(node, ty);
            self.name_meaningfully(output, name);
            self.bind(name, Binding::Value(output), *declared);
        }
        Ok(())
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
