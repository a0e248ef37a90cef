//! Expressions to values.

use crate::emission::{Binding, Emitter, Number};
use crate::printed_syntax::{Expr, ExprKind, FunctionDef};
use crate::source_error::{Result, fail};
use jitopt_core::ir::{Attribute, Value};
use jitopt_core::symbol::{Symbol, aten, attr, prim};
use jitopt_core::types::{Simple, Type, TypeKind};

/// The meaning of an expression before a value is made of it.
pub(crate) enum Sugared<'c> {
    Value(Value),
    /// Results of an operator that has several.
    Several(Vec<Value>),
    /// A function, by its qualified name.
    Function(String),
    Closure(&'c FunctionDef),
}

impl<'c> Sugared<'c> {
    /// The binding of a name to this, unless it is a value.
    pub(crate) fn as_binding(&self) -> Option<Binding<'c>> {
        match self {
            Sugared::Function(name) => Some(Binding::Function(name.clone())),
            Sugared::Closure(def) => Some(Binding::Closure(def)),
            Sugared::Value(_) | Sugared::Several(_) => None,
        }
    }
}

impl<'c> Emitter<'c> {
    /// The value of an expression; `wanted` is the type of what has none of its own, `[]`.
    pub(crate) fn expression(&mut self, expr: &'c Expr, wanted: Option<Type>) -> Result<Value> {
        let sugared = self.sugared(expr, wanted)?;
        self.plain(sugared, expr.at)
    }

    /// A value of what an expression means: several results become a tuple.
    pub(crate) fn plain(&mut self, sugared: Sugared<'c>, at: usize) -> Result<Value> {
        match sugared {
            Sugared::Value(value) => Ok(value),
            Sugared::Several(values) => Ok(self.tuple(&values, at)),
            Sugared::Function(name) => fail(format!("the function `{name}` where a value is expected")),
            Sugared::Closure(def) => fail(format!("the function `{}` where a value is expected", def.name)),
        }
        .map_err(|error| error.at(&self.place(at)))
    }

    pub(crate) fn tuple(&mut self, values: &[Value], at: usize) -> Value {
        let types: Vec<Type> = values.iter().map(|value| self.graph.ty(*value)).collect();
        self.value(prim::TUPLE_CONSTRUCT, values, Type::tuple(&types), at)
    }

    /// What an expression means. Errors get its place.
    pub(crate) fn sugared(&mut self, expr: &'c Expr, wanted: Option<Type>) -> Result<Sugared<'c>> {
        let meaning = match &expr.kind {
            ExprKind::Call(call) => self.call(call, expr.at),
            ExprKind::Name(name) => self.name(name, expr.at),
            ExprKind::Attribute(object, name) => self.attribute(expr, object, name),
            _ => self.literal(expr, wanted).map(Sugared::Value),
        };
        meaning.map_err(|error| error.at(&self.place(expr.at)))
    }

    fn literal(&mut self, expr: &'c Expr, wanted: Option<Type>) -> Result<Value> {
        let at = expr.at;
        Ok(match &expr.kind {
            ExprKind::Int(value) => self.int(*value, at),
            ExprKind::Float(value) => self.number(Number::Float(value.to_bits()), at),
            ExprKind::Complex(real, imaginary) => self.number(Number::Complex(real.to_bits(), imaginary.to_bits()), at),
            ExprKind::Bool(value) => self.truth(*value, at),
            ExprKind::None => self.none(at),
            ExprKind::Text(text) => self.text(text, at),
            ExprKind::Tuple(items) => {
                let wanted = wanted.and_then(Type::tuple_elements).unwrap_or_default();
                let values = items.iter().enumerate().map(|(i, item)| self.expression(item, wanted.get(i).copied()));
                let values = values.collect::<Result<Vec<Value>>>()?;
                self.tuple(&values, at)
            }
            ExprKind::List(items) => self.list(items, wanted, at)?,
            ExprKind::Dict(entries) => self.dict(entries, wanted, at)?,
            ExprKind::Negative(inner) => self.negative(inner, at)?,
            ExprKind::Item(object, index) => self.item(object, index, at)?,
            ExprKind::Slice(object, from, to) => self.slice(object, from.as_deref(), to.as_deref(), at)?,
            ExprKind::Name(_) | ExprKind::Attribute(..) | ExprKind::Call(_) => return fail("expected a literal"),
        })
    }

    pub(crate) fn text(&mut self, text: &[u8], at: usize) -> Value {
        self.constant(Some(Attribute::Str(text.into())), Type::simple(Simple::Str), at)
    }

    fn list(&mut self, items: &'c [Expr], wanted: Option<Type>, at: usize) -> Result<Value> {
        let element = match wanted.map(inner_of_optional).map(Type::kind) {
            Some(TypeKind::List(element)) => Some(*element),
            _ => None,
        };
        let values = items.iter().map(|item| self.expression(item, element)).collect::<Result<Vec<Value>>>()?;
        let common = self.common_type(&values).or(element);
        let Some(common) = element.or(common).or_else(|| values.is_empty().then(Type::tensor)) else {
            return fail("the elements of the list have no common type");
        };
        Ok(self.value(prim::LIST_CONSTRUCT, &values, Type::list(common), at))
    }

    /// The least type of which all are; nothing if there are none.
    fn common_type(&self, values: &[Value]) -> Option<Type> {
        let mut types = values.iter().map(|value| self.graph.ty(*value).erased());
        let first = types.next()?;
        types.try_fold(first, Type::join)
    }

    fn dict(&mut self, entries: &'c [(Expr, Expr)], wanted: Option<Type>, at: usize) -> Result<Value> {
        let (key, value) = match wanted.map(inner_of_optional).map(Type::kind) {
            Some(TypeKind::Dict(key, value)) => (Some(*key), Some(*value)),
            _ => (None, None),
        };
        let (mut keys, mut values, mut inputs) = (Vec::new(), Vec::new(), Vec::new());
        for (k, v) in entries {
            keys.push(self.expression(k, key)?);
            values.push(self.expression(v, value)?);
            inputs.extend([keys[keys.len() - 1], values[values.len() - 1]]);
        }
        let of = |emitter: &Self, wanted: Option<Type>, values: &[Value], default: Type| {
            wanted.or_else(|| emitter.common_type(values)).or_else(|| values.is_empty().then_some(default))
        };
        let key = of(self, key, &keys, Type::simple(Simple::Str));
        let value = of(self, value, &values, Type::tensor());
        let (Some(key), Some(value)) = (key, value) else { return fail("the values of the dict have no common type") };
        Ok(self.value(prim::DICT_CONSTRUCT, &inputs, Type::new(TypeKind::Dict(key, value)), at))
    }

    /// `-inf` is a constant, other values are negated.
    fn negative(&mut self, inner: &'c Expr, at: usize) -> Result<Value> {
        if let ExprKind::Name(name) = &inner.kind
            && let Some(value) = self.named_float(name)
        {
            return Ok(self.float(-value, at));
        }
        let value = self.expression(inner, None)?;
        self.builtin(aten::NEG, &[value], &[], at).and_then(|sugared| self.plain(sugared, at))
    }

    /// A float that is no literal of Python is a constant where it stands.
    pub(crate) fn float(&mut self, value: f64, at: usize) -> Value {
        let style = jitopt_core::ir::FloatStyle::of(self.code.release);
        let float = jitopt_core::ir::Float { value, style };
        self.constant(Some(Attribute::Float(float)), Type::simple(Simple::Float), at)
    }

    /// `inf` and `nan`, unless a variable is called so.
    fn named_float(&mut self, name: &str) -> Option<f64> {
        let value = match name {
            "inf" => f64::INFINITY,
            "nan" => f64::NAN,
            _ => return None,
        };
        self.lookup(name).is_none().then_some(value)
    }

    fn name(&mut self, name: &str, at: usize) -> Result<Sugared<'c>> {
        if let Some(variable) = self.lookup(name) {
            return Ok(match variable.binding {
                Binding::Stored(ty) => Sugared::Value(self.load(name, ty, at)),
                Binding::Function(name) => Sugared::Function(name),
                Binding::Closure(def) => Sugared::Closure(def),
                Binding::Unclear => return fail(format!("`{name}` has no value of one type here")),
            });
        }
        match self.named_float(name) {
            Some(value) => Ok(Sugared::Value(self.float(value, at))),
            None => fail(format!("`{name}` is not defined")),
        }
    }

    // ---- parts

    /// `(x)[i]` of a tuple, `x[i]` of a list, a dict or a str.
    fn item(&mut self, object: &'c Expr, index: &'c Expr, at: usize) -> Result<Value> {
        let object = self.expression(object, None)?;
        let Some(elements) = self.graph.ty(object).tuple_elements() else {
            let index = self.expression(index, None)?;
            return self.builtin(aten::GET_ITEM, &[object, index], &[], at).and_then(|s| self.plain(s, at));
        };
        let ExprKind::Int(place) = index.kind else { return fail("the index of a tuple is no literal") };
        let count = elements.len() as i64;
        let number = usize::try_from(if place < 0 { place + count } else { place });
        let Some(ty) = number.ok().and_then(|number| elements.get(number)) else {
            return fail(format!("index {place} of a tuple of {count}"));
        };
        Ok(self.tuple_index(object, place, *ty, at))
    }

    pub(crate) fn tuple_index(&mut self, tuple: Value, place: i64, ty: Type, at: usize) -> Value {
        let index = self.int(place, at);
        self.value(prim::TUPLE_INDEX, &[tuple, index], ty, at)
    }

    /// `(x)[a:b]` of a tuple.
    fn slice(&mut self, object: &'c Expr, from: Option<&'c Expr>, to: Option<&'c Expr>, at: usize) -> Result<Value> {
        let object = self.expression(object, None)?;
        let Some(elements) = self.graph.ty(object).tuple_elements() else {
            return fail("expected a tuple before `[…:…]`: PyTorch prints other slices as calls");
        };
        let count = elements.len() as i64;
        let bound = |bound: Option<&Expr>, default: i64| match bound.map(|bound| &bound.kind) {
            None => Ok(default),
            Some(ExprKind::Int(place)) => Ok(if *place < 0 { place + count } else { *place }.clamp(0, count)),
            Some(_) => fail("the bounds of a slice of a tuple are no literals"),
        };
        let (from, to) = (bound(from, 0)?, bound(to, count)?);
        let types = elements.get(from as usize..to.max(from) as usize).unwrap_or_default();
        let node = self.node(prim::TUPLE_SLICE, &[object], &[Type::tuple(types)], at);
        self.graph.set_attribute(node, attr::BEGIN, Attribute::Int(from));
        self.graph.set_attribute(node, attr::END, Attribute::Int(to));
        Ok(self.graph.output(node, 0))
    }

    /// The parts of a value that is unpacked into this many names.
    pub(crate) fn parts(&mut self, expr: &'c Expr, count: usize) -> Result<Vec<Value>> {
        let value = match self.sugared(expr, None)? {
            Sugared::Several(values) if values.len() == count => return Ok(values),
            sugared => self.plain(sugared, expr.at)?,
        };
        let ty = self.graph.ty(value);
        let (kind, types) = match (ty.tuple_elements(), ty.kind()) {
            (Some(elements), _) => (prim::TUPLE_UNPACK, elements),
            (None, TypeKind::List(element)) => (prim::LIST_UNPACK, vec![*element; count]),
            _ => return fail(format!("a `{ty}` cannot be unpacked")),
        };
        if types.len() != count {
            return fail(format!("{} values are unpacked into {count} names", types.len()));
        }
        let node = self.node(kind, &[value], &types, expr.at);
        Ok(self.graph.outputs(node).collect())
    }

    // ---- attributes

    /// `self.weight`, or a name of a module: `__torch__.Mode.ADD`, `CONSTANTS.c0`.
    fn attribute(&mut self, expr: &'c Expr, object: &'c Expr, name: &str) -> Result<Sugared<'c>> {
        if let Some(path) = expr.dotted()
            && self.lookup(path[0]).is_none()
        {
            return self.global(&path, expr.at);
        }
        let object = self.expression(object, None)?;
        self.attribute_of(object, name, expr.at).map(Sugared::Value)
    }

    fn global(&mut self, path: &[&str], at: usize) -> Result<Sugared<'c>> {
        if let ["CONSTANTS", name] = path {
            return self.archived_constant(name, at).map(Sugared::Value);
        }
        let whole = path.join(".");
        if self.code.names.function(&whole).is_some() {
            return Ok(Sugared::Function(whole));
        }
        let (name, class) = (path[path.len() - 1], path[..path.len() - 1].join("."));
        let Some(found) = self.code.names.class(&class) else { return fail(format!("`{whole}` is not defined")) };
        if found.def.base != "Enum" || self.code.names.field(found, name).is_none() {
            return fail(format!("`{whole}` is no value of an enum"));
        }
        let ty = self.code.names.type_of_class(&class)?;
        Ok(Sugared::Value(self.constant(Some(Attribute::Enum(Symbol::new(&whole))), ty, at)))
    }

    fn archived_constant(&mut self, name: &str, at: usize) -> Result<Value> {
        let number = name.strip_prefix('c').and_then(|number| number.parse::<usize>().ok());
        let Some(found) = number.and_then(|number| self.code.constants.get(number)) else {
            return fail(format!("there is no constant `{name}`"));
        };
        match &found.literal {
            Ok((ty, value)) => Ok(self.constant(Some(value.clone()), *ty, at)),
            Err(what) => fail(format!("the constant `{name}` is {what}, which is not read")),
        }
    }

    pub(crate) fn attribute_type(&self, object: Value, name: &str) -> Result<Type> {
        let ty = self.graph.ty(object);
        let Some((class_name, class)) = self.code.names.class_of(ty) else {
            return fail(format!("a `{ty}` has no attribute `{name}`"));
        };
        match self.code.names.attribute_type(class, name) {
            Some(ty) => ty,
            None => fail(format!("the class `{class_name}` has no attribute `{name}`")),
        }
    }

    pub(crate) fn attribute_of(&mut self, object: Value, name: &str, at: usize) -> Result<Value> {
        let ty = self.graph.ty(object);
        match ty.kind() {
            TypeKind::NamedTuple(fields) => {
                let Some(place) = fields.iter().position(|field| field.name.as_str() == name) else {
                    return fail(format!("the named tuple has no field `{name}`"));
                };
                return Ok(self.tuple_index(object, place as i64, fields[place].ty, at));
            }
            TypeKind::Enum(_) if name == "name" => {
                return Ok(self.value(Symbol::new("prim::EnumName"), &[object], Type::simple(Simple::Str), at));
            }
            TypeKind::Enum(_) if name == "value" => {
                let ty = self.enum_value_type(ty)?;
                return Ok(self.value(Symbol::new("prim::EnumValue"), &[object], ty, at));
            }
            _ => {}
        }
        // `c : Final[T] = value`
        if let Some((_, class)) = self.code.names.class_of(ty)
            && let Some(value) = self.code.names.field(class, name).and_then(|field| field.value.as_ref())
        {
            return self.literal(value, None);
        }
        let wanted = self.attribute_type(object, name)?;
        let node = self.node(prim::GET_ATTR, &[object], &[wanted], at);
        self.graph.set_attribute(node, attr::NAME, Attribute::Str(name.as_bytes().into()));
        Ok(self.graph.output(node, 0))
    }

    fn enum_value_type(&self, ty: Type) -> Result<Type> {
        let class = self.code.names.class_of(ty).map(|(_, class)| class);
        let first = class.and_then(|class| class.def.fields.first()).and_then(|field| field.value.as_ref());
        Ok(match first.map(|value| &value.kind) {
            Some(ExprKind::Int(_)) => Type::int(),
            Some(ExprKind::Float(_)) => Type::simple(Simple::Float),
            Some(ExprKind::Text(_)) => Type::simple(Simple::Str),
            _ => return fail("the values of the enum are neither int, float nor str"),
        })
    }
}

fn inner_of_optional(ty: Type) -> Type {
    if let TypeKind::Optional(inner) = ty.kind() { *inner } else { ty }
}
