//! Calls: operators, functions, methods, constructors, and the forms that only look like calls.

use crate::declared_names::Callable;
use crate::emission::{Around, Binding, Captured, Emitter};
use crate::expression_emission::Sugared;
use crate::old_operators;
use crate::packed_weights;
use crate::printed_syntax::{Call, Expr, ExprKind, FunctionDef};
use crate::schema_choice::{Arguments, Choice, Operand, choose};
use crate::source_error::{Result, fail};
use crate::tidying;
use jitopt_core::ir::{Attribute, Value, ValueMap};
use jitopt_core::ops;
use jitopt_core::ops::later_operands::lacks_operand;
use jitopt_core::ops::schema::Formal;
use jitopt_core::symbol::{Symbol, attr, prim};
use jitopt_core::types::{Simple, Type, TypeKind};

/// The values of positional and of named arguments.
type GivenValues<'c> = (Vec<Value>, Vec<(&'c str, Value)>);

impl<'c> Emitter<'c> {
    pub(crate) fn call(&mut self, call: &'c Call, at: usize) -> Result<Sugared<'c>> {
        let path = call.callee.dotted();
        let root = path.as_ref().map(|path| path[0]);
        let is_global = match root {
            Some(root) => self.lookup(root).is_none(),
            None => false,
        };
        match path.as_deref() {
            Some([form]) if is_global => self.form(form, call, at),
            Some(["torch", name]) if is_global => self.operator(&format!("aten::{name}"), call, at),
            Some(["ops", space, name]) if is_global => self.operator(&format!("{space}::{name}"), call, at),
            Some(path) if is_global => self.call_global(path, call, at),
            Some([name]) => match self.lookup(name).map(|variable| variable.binding) {
                Some(Binding::Function(function)) => self.call_function(&function, call, at),
                _ => fail(format!("`{name}` cannot be called")),
            },
            _ => self.call_method(call, at),
        }
    }

    // ---- operators

    fn operator(&mut self, kind: &str, call: &'c Call, at: usize) -> Result<Sugared<'c>> {
        let (values, named) = self.arguments(call)?;
        self.builtin(Symbol::new(kind), &values, &named, at)
    }

    fn arguments(&mut self, call: &'c Call) -> Result<GivenValues<'c>> {
        let values = call.arguments.iter().map(|argument| self.expression(argument, None)).collect::<Result<_>>()?;
        let named = call.named.iter().map(|(name, argument)| Ok((name.as_str(), self.expression(argument, None)?)));
        Ok((values, named.collect::<Result<_>>()?))
    }

    /// A node of the overload that these arguments mean.
    pub(crate) fn builtin(
        &mut self,
        kind: Symbol,
        values: &[Value],
        named: &[(&str, Value)],
        at: usize,
    ) -> Result<Sugared<'c>> {
        let operator = ops::operator(self.code.release.era(), kind);
        let all: Vec<Value> = values.iter().copied().chain(named.iter().map(|(_, value)| *value)).collect();
        let types: Vec<Type> = all.iter().map(|value| self.graph.ty(*value)).collect();
        let names: Vec<&str> = named.iter().map(|(name, _)| *name).collect();
        if self.code.upgrades()
            && self.function.record.name != old_operators::RECORD
            && let Some(upgrader) = old_operators::upgrader(kind.as_str(), &types, &names, self.code.version)
        {
            return self.upgraded(upgrader, values, named, at).map(Sugared::Value);
        }
        let choice = choose(operator, &Arguments { types, names })?;
        let mut choice = choice;
        if kind == prim::RAISE_EXCEPTION && !self.code.raises_classes() {
            choice.operands.truncate(1);
        }
        let inputs = self.operands(kind, &choice, &all, at)?;
        let types: Vec<Type> = inputs.iter().map(|value| self.graph.ty(*value)).collect();
        let results = choice.schema.result_types(&types);
        let node = self.node(kind, &inputs, &results, at);
        if kind.as_str() == "aten::warn" && self.code.numbers_warnings() {
            let number = self.code.next_warning();
            self.graph.set_attribute(node, Symbol::new("warn_id"), Attribute::Int(number));
        }
        let outputs: Vec<Value> = self.graph.outputs(node).collect();
        Ok(match outputs.as_slice() {
            [only] => Sugared::Value(*only),
            // Nothing is returned: None, where a value is expected.
            _ => Sugared::Several(outputs),
        })
    }

    /// The nodes of a function that does what an old operator did.
    fn upgraded(&mut self, name: &str, values: &[Value], named: &[(&str, Value)], at: usize) -> Result<Value> {
        let Some(callable) = self.code.upgraders.function(name) else { return fail(format!("there is no `{name}`")) };
        let inner = tidying::tidy(Emitter::new(self.code, callable, None, self.whole_names).function(None)?)?;
        let mut map = ValueMap::default();
        let params: Vec<(Value, Type)> = inner.params(inner.root()).map(|param| (param, inner.ty(param))).collect();
        for (number, (param, (value, ty))) in callable.def.params.iter().zip(params).enumerate() {
            let by_name = named.iter().find(|(name, _)| *name == param.name).map(|(_, value)| *value);
            let given = match (values.get(number).copied().or(by_name), &param.default) {
                (Some(given), _) => self.converted(given, ty, at)?,
                (None, Some(default)) => self.default_of(default, at),
                (None, None) => return fail(format!("the argument `{}` is missing", param.name)),
            };
            map.insert(value, given);
        }
        let results = self.graph.copy_block_into(Some(&inner), inner.root(), self.block, &mut map);
        results.first().copied().map_or_else(|| fail("an upgrader returns nothing"), Ok)
    }

    fn default_of(&mut self, default: &Expr, at: usize) -> Value {
        if let ExprKind::Float(value) = default.kind { self.float(value, at) } else { self.none(at) }
    }

    fn operands(&mut self, kind: Symbol, choice: &Choice, arguments: &[Value], at: usize) -> Result<Vec<Value>> {
        let mut inputs = Vec::new();
        for (place, operand) in choice.operands.iter().enumerate() {
            if let Operand::Default(number) = operand
                && lacks_operand(kind, choice.schema.formals[*number].name, self.code.release)
            {
                continue;
            }
            inputs.push(match operand {
                Operand::Given(number) => match choice.schema.formals.get(place) {
                    Some(formal) if self.graph.ty(arguments[*number]) == Type::none() => {
                        self.converted(arguments[*number], formal.ty, at).unwrap_or(arguments[*number])
                    }
                    _ => arguments[*number],
                },
                Operand::Converted(number, conversion) => {
                    let ty = match *conversion {
                        "aten::IntImplicit" => Type::int(),
                        "aten::FloatImplicit" => Type::simple(Simple::Float),
                        "aten::ComplexImplicit" => Type::simple(Simple::Complex),
                        _ => Type::simple(Simple::Scalar),
                    };
                    self.value(self.code.conversion(conversion), &[arguments[*number]], ty, at)
                }
                Operand::Default(number) => self.default(&choice.schema.formals[*number], at)?,
            });
        }
        Ok(inputs)
    }

    /// The constant of a default, `None`, `1.`, `[0, 1]`, `'mean'`.
    fn default(&mut self, formal: &Formal, at: usize) -> Result<Value> {
        let text = formal.default.unwrap_or("None");
        let inner = if let TypeKind::Optional(inner) = formal.ty.kind() { *inner } else { formal.ty };
        let unknown = || fail(format!("the default `{text}` of `{}` is not read", formal.name));
        match text {
            // Up to 1.2 None has the expected type.
            "None" if self.code.types_none() => return Ok(self.constant(None, formal.ty, at)),
            "None" => return Ok(self.none(at)),
            "True" | "False" => return Ok(self.truth(text == "True", at)),
            _ => {}
        }
        if let Some(items) = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            return self.default_list(items, inner, at).map_or_else(unknown, Ok);
        }
        if let Some(quoted) = text.strip_prefix('\'').or_else(|| text.strip_prefix('"')) {
            return Ok(self.text(&unescaped(&quoted[..quoted.len().saturating_sub(1)]), at));
        }
        // One number for a list of a known length.
        if let (TypeKind::List(_), Some(size), Ok(_)) = (inner.kind(), formal.size, text.parse::<i64>()) {
            let items = vec![text; size as usize].join(",");
            return self.default_list(&items, inner, at).map_or_else(unknown, Ok);
        }
        let is_float = inner.is(Simple::Float);
        match (text.parse::<i64>(), text.parse::<f64>()) {
            (Ok(value), _) if !is_float => Ok(self.plain_int(value, at)),
            (_, Ok(value)) => Ok(self.float(value, at)),
            _ => unknown(),
        }
    }

    fn plain_int(&mut self, value: i64, at: usize) -> Value {
        self.constant(Some(Attribute::Int(value)), Type::int(), at)
    }

    fn default_list(&mut self, items: &str, ty: Type, at: usize) -> Option<Value> {
        let TypeKind::List(element) = ty.kind() else { return None };
        let element = if element.is(Simple::SymInt) { Type::int() } else { *element };
        let items = items.split(',').map(str::trim).filter(|item| !item.is_empty());
        let items: Option<Vec<Attribute>> = items.map(|item| item.parse().ok().map(Attribute::Int)).collect();
        let value = match items? {
            items if items.is_empty() && self.code.annotates_empty_lists() => {
                Attribute::EmptyList(format!("annotate(List[{element}], [])").into())
            }
            items => Attribute::List(items.into()),
        };
        Some(self.constant(Some(value), Type::list(element), at))
    }

    // ---- forms

    fn form(&mut self, form: &str, call: &'c Call, at: usize) -> Result<Sugared<'c>> {
        let value = match (form, call.arguments.as_slice()) {
            ("annotate", [ty, value]) => {
                let ty = self.annotation(ty)?;
                match listed(value) {
                    Some(tensor) => self.elements_of(tensor, ty, at)?,
                    None => {
                        let value = self.expression(value, Some(ty))?;
                        match self.graph.ty(value) == Type::none() && self.code.annotates_none() {
                            true => self.constant(None, ty, at),
                            false => self.converted(value, ty, at)?,
                        }
                    }
                }
            }
            ("unchecked_cast", [ty, value]) => {
                let ty = self.annotation(ty)?;
                let value = self.expression(value, None)?;
                self.value(prim::UNCHECKED_CAST, &[value], ty, at)
            }
            ("uninitialized", [ty]) => {
                let ty = self.annotation(ty)?;
                self.value(prim::UNINITIALIZED, &[], ty, at)
            }
            ("isinstance", [value, types]) => self.is_instance(value, types, at)?,
            ("getattr", [object, name]) => {
                let object = self.expression(object, None)?;
                let ExprKind::Text(name) = &name.kind else { return fail("`getattr` of no literal name") };
                self.attribute_of(object, &String::from_utf8_lossy(name), at)?
            }
            ("fork", [closure]) => return self.fork(closure, at).map(Sugared::Value),
            ("int" | "float" | "bool" | "str" | "complex", _) => return self.cast(form, call, at),
            ("print", _) => return self.print(call, at),
            ("sorted", _) => return self.operator("aten::sorted", call, at),
            _ => return fail(format!("`{form}` is no function of {} arguments", call.arguments.len())),
        };
        Ok(Sugared::Value(value))
    }

    /// `print("sum of", x)`, which returns nothing.
    fn print(&mut self, call: &'c Call, at: usize) -> Result<Sugared<'c>> {
        let (values, named) = self.arguments(call)?;
        if let Some((name, _)) = named.first() {
            return fail(format!("`print` has no parameter `{name}`"));
        }
        self.node(prim::PRINT, &values, &[], at);
        Ok(Sugared::Several(Vec::new()))
    }

    /// `annotate(List[float], x.tolist())`: the depth of the list and the kind of its numbers are
    /// operands.
    fn elements_of(&mut self, tensor: &'c Expr, ty: Type, at: usize) -> Result<Value> {
        let tensor = self.expression(tensor, None)?;
        let (mut depth, mut number) = (0, ty);
        while let TypeKind::List(element) = number.kind() {
            (depth, number) = (depth + 1, *element);
        }
        let kinds = [Simple::Int, Simple::Float, Simple::Bool, Simple::Complex];
        let Some(kind) = kinds.into_iter().position(|kind| number.is(kind)) else {
            return fail(format!("a tensor becomes no `{ty}`"));
        };
        let (depth, kind) = (self.plain_int(depth, at), self.plain_int(kind as i64, at));
        Ok(self.value(Symbol::new("prim::tolist"), &[tensor, depth, kind], ty, at))
    }

    /// `int(x)`: the value itself if it is one already.
    fn cast(&mut self, form: &str, call: &'c Call, at: usize) -> Result<Sugared<'c>> {
        let (ty, kind) = match form {
            "int" => (Simple::Int, "aten::Int"),
            "float" => (Simple::Float, "aten::Float"),
            "bool" => (Simple::Bool, "aten::Bool"),
            "complex" => (Simple::Complex, "aten::Complex"),
            _ => (Simple::Str, "aten::str"),
        };
        let (values, named) = self.arguments(call)?;
        match values.as_slice() {
            [only] if self.graph.ty(*only).is(ty) => Ok(Sugared::Value(*only)),
            _ => self.builtin(Symbol::new(kind), &values, &named, at),
        }
    }

    fn tested_types(&self, types: &'c Expr) -> Result<Vec<Type>> {
        match &types.kind {
            ExprKind::Tuple(items) | ExprKind::List(items) => items.iter().map(|item| self.annotation(item)).collect(),
            _ => Ok(vec![self.annotation(types)?]),
        }
    }

    fn is_instance(&mut self, value: &'c Expr, types: &'c Expr, at: usize) -> Result<Value> {
        let types = self.tested_types(types)?;
        let value = self.expression(value, None)?;
        if let Some(known) = known_instance(self.graph.ty(value), &types) {
            return Ok(self.truth(known, at));
        }
        let node = self.node(prim::IS_INSTANCE, &[value], &[Type::bool()], at);
        let types = types.into_iter().map(Attribute::Type).collect();
        self.graph.set_attribute(node, attr::TYPES, Attribute::List(types));
        Ok(self.graph.output(node, 0))
    }

    /// Whether a condition is settled by types: PyTorch then emits one branch only.
    pub(crate) fn known_condition(&mut self, condition: &'c Expr) -> Result<Option<bool>> {
        let ExprKind::Call(call) = &condition.kind else { return Ok(None) };
        let (Some(["isinstance"]), [value, types]) = (call.callee.dotted().as_deref(), call.arguments.as_slice())
        else {
            return Ok(None);
        };
        let ExprKind::Name(name) = &value.kind else { return Ok(None) };
        let Some(Binding::Stored(ty)) = self.lookup(name).map(|variable| variable.binding) else { return Ok(None) };
        let types = self.tested_types(types)?;
        Ok(known_instance(ty, &types))
    }

    // ---- functions and methods

    fn call_global(&mut self, path: &[&str], call: &'c Call, at: usize) -> Result<Sugared<'c>> {
        let whole = path.join(".");
        if self.code.names.function(&whole).is_some() {
            return self.call_function(&whole, call, at);
        }
        if let Some(class) = whole.strip_suffix(".__new__") {
            let ty = self.code.names.type_of_class(class)?;
            return Ok(Sugared::Value(self.value(prim::CREATE_OBJECT, &[], ty, at)));
        }
        match self.code.names.class(&whole) {
            Some(class) if class.def.base == "NamedTuple" => self.named_tuple(&whole, call, at),
            Some(_) => fail(format!("the class `{whole}` is no named tuple: PyTorch calls `__new__` of others")),
            None => fail(format!("`{whole}` is not defined")),
        }
    }

    fn named_tuple(&mut self, class: &str, call: &'c Call, at: usize) -> Result<Sugared<'c>> {
        let ty = self.code.names.type_of_class(class)?;
        let elements = ty.tuple_elements().unwrap_or_default();
        if call.arguments.len() != elements.len() || !call.named.is_empty() {
            return fail(format!("`{class}` takes {} arguments", elements.len()));
        }
        let mut values = Vec::new();
        for (argument, element) in call.arguments.iter().zip(elements) {
            let value = self.expression(argument, Some(element))?;
            values.push(self.converted(value, element, argument.at)?);
        }
        Ok(Sugared::Value(self.value(prim::TUPLE_CONSTRUCT, &values, ty, at)))
    }

    fn call_function(&mut self, name: &str, call: &'c Call, at: usize) -> Result<Sugared<'c>> {
        let Some(callable) = self.code.names.function(name) else { return fail(format!("`{name}` is not defined")) };
        let arguments = self.passed(callable, None, call, at)?;
        let shown = if self.whole_names { name } else { &callable.def.name };
        let node = self.node(prim::CONSTANT, &[], &[Type::simple(Simple::Function)], at);
        self.graph.set_attribute(node, attr::NAME, Attribute::Str(shown.as_bytes().into()));
        let mut inputs = vec![self.graph.output(node, 0)];
        inputs.extend(arguments);
        let result = self.code.result_type(callable)?;
        let value = self.value(prim::CALL_FUNCTION, &inputs, result, at);
        Ok(Sugared::Value(value))
    }

    fn call_method(&mut self, call: &'c Call, at: usize) -> Result<Sugared<'c>> {
        let ExprKind::Attribute(object, name) = &call.callee.kind else { return fail("this cannot be called") };
        let object = self.expression(object, None)?;
        let ty = self.graph.ty(object);
        let Some((class, _)) = self.code.names.class_of(ty) else {
            return match packed_weights::method_result(&ty.to_string(), name).filter(|_| call.arguments.is_empty()) {
                Some(result) => Ok(self.method_call(name, &[object], result, at)),
                None => fail(format!("a `{ty}` has no method `{name}`")),
            };
        };
        let Some(callable) = self.code.names.method(class, name) else {
            return fail(format!("the class `{class}` has no method `{name}`"));
        };
        let mut inputs = vec![object];
        inputs.extend(self.passed(callable, Some(object), call, at)?);
        let result = self.code.result_type(callable)?;
        Ok(self.method_call(name, &inputs, result, at))
    }

    fn method_call(&mut self, name: &str, inputs: &[Value], result: Type, at: usize) -> Sugared<'c> {
        let node = self.node(prim::CALL_METHOD, inputs, &[result], at);
        self.graph.set_attribute(node, attr::NAME, Attribute::Str(name.as_bytes().into()));
        Sugared::Value(self.graph.output(node, 0))
    }

    /// The arguments of a function or, without `self`, of a method, defaults filled in.
    fn passed(&mut self, to: Callable<'c>, object: Option<Value>, call: &'c Call, at: usize) -> Result<Vec<Value>> {
        let params = &to.def.params[usize::from(object.is_some()).min(to.def.params.len())..];
        if call.arguments.len() > params.len() {
            return fail(format!("`{}` takes {} arguments", to.def.name, params.len()));
        }
        let mut values = Vec::new();
        for (number, param) in params.iter().enumerate() {
            let ty = match &param.declared {
                Some(declared) => Some(self.code.names.annotation(declared, to.record)?),
                None => None,
            };
            let named = call.named.iter().find(|(name, _)| *name == param.name).map(|(_, value)| value);
            let given = call.arguments.get(number).or(named);
            let Some(argument) = given.or(param.default.as_ref()) else {
                return fail(format!("argument `{}` of `{}` is missing", param.name, to.def.name));
            };
            let value = self.expression(argument, ty)?;
            values.push(match ty {
                Some(ty) => self.converted(value, ty, if given.is_some() { argument.at } else { at })?,
                None => value,
            });
        }
        let is_unknown = |(name, _): &&(String, Expr)| !params.iter().any(|param| param.name == *name);
        match call.named.iter().find(is_unknown) {
            Some((name, _)) => fail(format!("`{}` has no parameter `{name}`", to.def.name)),
            None => Ok(values),
        }
    }

    // ---- fork

    /// `fork(closure)`: a node with the closure as its subgraph.
    fn fork(&mut self, closure: &'c Expr, at: usize) -> Result<Value> {
        let Sugared::Closure(def) = self.sugared(closure, None)? else { return fail("`fork` of no closure") };
        let (inner, captured) = self.closure(def)?;
        let result = inner.results(inner.root()).next().map_or(Type::none(), |value| inner.ty(value));
        let inputs: Vec<Value> = captured
            .into_iter()
            .map(|captured| match captured {
                Captured::Variable(name, ty) => self.load(&name, ty, at),
                Captured::Number(number) => self.number(number, at),
            })
            .collect();
        let node = self.node(prim::FORK, &inputs, &[Type::new(TypeKind::Future(result))], at);
        self.graph.set_attribute(node, attr::SUBGRAPH, Attribute::Graph(Box::new(inner)));
        Ok(self.graph.output(node, 0))
    }

    fn closure(&mut self, def: &'c FunctionDef) -> Result<(jitopt_core::ir::Graph, Vec<Captured>)> {
        if self.around.is_some() {
            return fail("`fork` within a closure is not read");
        }
        let known = self.scopes.iter().flatten();
        let scope = known.map(|(name, variable)| (name.clone(), variable.clone())).collect();
        let around = Around { scope, captured: Vec::new() };
        let mut inner = Emitter::new(self.code, self.function, Some(around), self.whole_names);
        inner.body(def)?;
        let captured = inner.around.take().map(|around| around.captured).unwrap_or_default();
        Ok((inner.graph, captured))
    }
}

/// The text of a default in quotes, `' \n\t\f\v'`.
fn unescaped(text: &str) -> Vec<u8> {
    let (mut bytes, mut rest) = (Vec::new(), text.bytes());
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'\\' => match rest.next() {
                Some(b'n') => b'\n',
                Some(b't') => b'\t',
                Some(b'r') => b'\r',
                Some(b'f') => 0x0c,
                Some(b'v') => 0x0b,
                Some(other) => other,
                None => byte,
            },
            other => other,
        });
    }
    bytes
}

/// The operand of `x.tolist()`.
fn listed(expr: &Expr) -> Option<&Expr> {
    let ExprKind::Call(call) = &expr.kind else { return None };
    match &call.callee.kind {
        ExprKind::Attribute(tensor, name) if name == "tolist" && call.arguments.is_empty() => Some(tensor),
        _ => None,
    }
}

/// Whether every or no value of a type is of one of these types; nothing if it depends.
fn known_instance(ty: Type, types: &[Type]) -> Option<bool> {
    let is_one = |part: Type| types.iter().any(|wanted| part.is_subtype_of(*wanted));
    let may_be_one = |part: Type| types.iter().any(|wanted| wanted.is_subtype_of(part));
    let parts = match ty.kind() {
        TypeKind::Union(parts) => parts.to_vec(),
        TypeKind::Optional(inner) => vec![*inner, Type::none()],
        _ => vec![ty],
    };
    if parts.iter().all(|part| is_one(*part)) {
        Some(true)
    } else if !parts.iter().any(|part| is_one(*part) || may_be_one(*part)) {
        Some(false)
    } else {
        None
    }
}
