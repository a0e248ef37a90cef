//! The right-hand side of a node: its operator in Python syntax.

use super::annotations::{has_class, is_inferred_from_members};
use super::identifiers::is_identifier;
use super::literals::{is_default, quote};
use super::module_names::qualified;
use super::{Body, Writer};
use crate::ir::{Attribute, Node, Value};
use crate::ops::resolve;
use crate::ops::schema::{Formal, Schema};
use crate::symbol::{attr, prim};
use crate::types::{Simple, Type, TypeKind};

/// Operators with their own Python syntax.
const WORDS: &[(&str, &str)] = &[
    ("aten::Int", "int"),
    ("aten::Float", "float"),
    ("aten::Bool", "bool"),
    ("aten::str", "str"),
    ("aten::sorted", "sorted"),
    ("prim::Print", "print"),
];

/// Operators that are in another module than `torch`.
const ELSEWHERE: &[(&str, &str)] =
    &[("aten::backward", "torch.autograd.backward"), ("aten::grad", "torch.autograd.grad")];

impl Body<'_> {
    /// The expression of a node.
    pub(super) fn expression(&mut self, w: &mut Writer, node: Node) -> String {
        let graph = self.graph;
        let kind = graph.kind(node).as_str();
        if let Some((_, word)) = WORDS.iter().find(|(of, _)| *of == kind) {
            return format!("{word}({})", self.operands(w, node));
        }
        if kind.starts_with('^') {
            return self.python_function(w, node);
        }
        match kind {
            "prim::Constant" => self.constant(w, node),
            "prim::Uninitialized" => format!("uninitialized({})", self.type_of(w, node)),
            "aten::ScalarImplicit" | "aten::FloatImplicit" | "aten::IntImplicit" => {
                format!("annotate({}, {})", self.type_of(w, node), self.operands(w, node))
            }
            "prim::unchecked_cast" | "prim::unchecked_unwrap_optional" => {
                format!("unchecked_cast({}, {})", self.type_of(w, node), self.operands(w, node))
            }
            "aten::__getitem__" => self.element(w, node),
            "aten::_unwrap_optional" => self.unwrapping(w, node),
            "prim::TupleConstruct" | "prim::ListConstruct" | "prim::DictConstruct" => self.container(w, node),
            "prim::TupleIndex" => format!("({})[{}]", self.operand(w, node, 0), self.operand(w, node, 1)),
            "prim::TupleSlice" => self.tuple_slice(w, node),
            "prim::CreateObject" => {
                let class = self.type_of(w, node);
                format!("{class}.__new__({class})")
            }
            "prim::GetAttr" => self.member(w, node),
            "prim::CallFunction" => format!("{}({})", self.operand(w, node, 0), self.arguments(w, node)),
            "prim::CallMethod" => {
                let method = self.string(node, attr::NAME);
                format!("({}).{method}({})", self.operand(w, node, 0), self.arguments(w, node))
            }
            "prim::isinstance" => self.type_test(w, node),
            "prim::tolist" => format!("annotate({}, {}.tolist())", self.type_of(w, node), self.operand(w, node, 0)),
            "prim::EnumValue" => format!("({}).value", self.operand(w, node, 0)),
            "prim::EnumName" => format!("({}).name", self.operand(w, node, 0)),
            _ => self.call(w, node),
        }
    }

    pub(super) fn operand(&self, w: &mut Writer, node: Node, i: usize) -> String {
        match self.graph.inputs(node).nth(i) {
            Some(value) => self.text(w, value).to_string(),
            None => {
                self.refuse(w, format!("`{}` has no operand {i}", self.graph.kind(node)));
                String::new()
            }
        }
    }

    /// The arguments of a function or method, each followed by a comma.
    fn arguments(&self, w: &mut Writer, node: Node) -> String {
        self.graph.inputs(node).skip(1).map(|value| format!("{}, ", self.text(w, value))).collect()
    }

    /// The annotation of the type of the output.
    fn type_of(&self, w: &mut Writer, node: Node) -> String {
        self.annotation(w, self.output_type(node))
    }

    fn output_type(&self, node: Node) -> Type {
        self.graph.outputs(node).next().map_or(Type::none(), |output| self.graph.ty(output))
    }

    fn constant(&self, w: &mut Writer, node: Node) -> String {
        let ty = self.output_type(node);
        if ty.is(Simple::Function) {
            return qualified(&self.string(node, attr::NAME));
        }
        match self.graph.attribute(node, attr::VALUE) {
            None => "None".to_owned(),
            Some(_) if ty.is(Simple::None) => "None".to_owned(),
            Some(value) => {
                // Warns where the constant is a named tuple.
                self.annotation(w, ty);
                w.constants.literal(value, ty).unwrap_or_else(|why| {
                    self.refuse(w, why);
                    "None".to_owned()
                })
            }
        }
    }

    /// `^f(2.0)(x)`: a function of Python itself, which PyTorch shows but does not save.
    fn python_function(&self, w: &mut Writer, node: Node) -> String {
        let scalars = match self.graph.attribute(node, attr::PYTHON_ARGS) {
            Some(Attribute::Opaque(text)) => format!("({text})"),
            _ => String::new(),
        };
        format!("{}{scalars}({})", self.graph.kind(node), self.operands(w, node))
    }

    fn element(&self, w: &mut Writer, node: Node) -> String {
        let (whole, index) = (self.operand(w, node, 0), self.operand(w, node, 1));
        if is_identifier(&whole) { format!("{whole}[{index}]") } else { format!("({whole})[{index}]") }
    }

    fn unwrapping(&self, w: &mut Writer, node: Node) -> String {
        let value = self.operand(w, node, 0);
        let is_none =
            |value: Value| self.graph.ty(value).is(Simple::None) || matches!(self.graph.constant(value), Some(None));
        if !self.graph.inputs(node).next().is_some_and(is_none) {
            return format!("torch._unwrap_optional({value})");
        }
        // The annotation is the only indication of the optional type.
        format!("torch._unwrap_optional(annotate(Optional[{}], {value}))", self.type_of(w, node))
    }

    fn container(&self, w: &mut Writer, node: Node) -> String {
        let operands: Vec<Value> = self.graph.inputs(node).collect();
        let ty = self.output_type(node);
        let (text, is_inferred) = match (self.graph.kind(node), ty.kind()) {
            (prim::TUPLE_CONSTRUCT, _) => {
                let name = if has_class(ty) { self.annotation(w, ty) } else { String::new() };
                let comma = if operands.len() == 1 { "," } else { "" };
                return format!("{name}({}{comma})", self.operands(w, node));
            }
            (prim::LIST_CONSTRUCT, TypeKind::List(element)) => {
                (format!("[{}]", self.operands(w, node)), is_inferred_from_members(*element))
            }
            (prim::LIST_CONSTRUCT, _) => (format!("[{}]", self.operands(w, node)), true),
            (_, kind) => {
                let pair =
                    |pair: &[Value]| pair.iter().map(|&v| self.text(w, v).to_string()).collect::<Vec<_>>().join(": ");
                let pairs = operands.chunks(2).map(pair).collect::<Vec<_>>().join(", ");
                let is_inferred = match kind {
                    TypeKind::Dict(key, item) => is_inferred_from_members(*key) && is_inferred_from_members(*item),
                    _ => true,
                };
                (format!("{{{pairs}}}"), is_inferred)
            }
        };
        match operands.is_empty() || !is_inferred {
            true => format!("annotate({}, {text})", self.annotation(w, ty)),
            false => text,
        }
    }

    fn tuple_slice(&self, w: &mut Writer, node: Node) -> String {
        let end = |name| self.graph.attribute(node, name).and_then(Attribute::as_int).unwrap_or_default();
        format!("({})[{}:{}]", self.operand(w, node, 0), end(attr::BEGIN), end(attr::END))
    }

    fn member(&self, w: &mut Writer, node: Node) -> String {
        let (object, name) = (self.operand(w, node, 0), self.string(node, attr::NAME));
        match is_identifier(&name) {
            true => format!("{object}.{name}"),
            false => format!("getattr({object}, {})", quote(name.as_bytes())),
        }
    }

    fn type_test(&self, w: &mut Writer, node: Node) -> String {
        let types: Vec<Type> = match self.graph.attribute(node, attr::TYPES) {
            Some(Attribute::List(types)) => types.iter().filter_map(as_type).collect(),
            Some(one) => as_type(one).into_iter().collect(),
            None => Vec::new(),
        };
        let texts: Vec<String> = types.iter().map(|&ty| self.annotation(w, ty)).collect();
        let list = texts.join(", ");
        let value = self.operand(w, node, 0);
        if texts.len() == 1 { format!("isinstance({value}, {list})") } else { format!("isinstance({value}, ({list}))") }
    }

    // ---- operators

    fn call(&self, w: &mut Writer, node: Node) -> String {
        let graph = self.graph;
        let kind = graph.kind(node);
        if graph.subgraph(node).is_some() || graph.num_blocks(node) > 0 {
            let what = if graph.subgraph(node).is_some() { "section" } else { "block" };
            self.refuse(w, format!("PyTorch code cannot express the {what} of `{kind}`"));
            return String::new();
        }
        let operands: Vec<Value> = graph.inputs(node).collect();
        let types: Vec<Type> = operands.iter().map(|&value| graph.ty(value)).collect();
        let Some(schema) = resolve(graph.era, kind, &types).schema() else {
            self.refuse(
                w,
                format!("no overload of `{kind}` accepts these operands, so names and defaults of its parameters are unknown"),
            );
            return String::new();
        };
        if schema.formals.is_empty() && !operands.is_empty() {
            self.refuse(w, format!("the code of PyTorch would not show the operands of `{kind}`"));
        }
        format!("{}({})", self.operator_name(node), self.passed(w, schema, &operands))
    }

    fn operator_name(&self, node: Node) -> String {
        let kind = self.graph.kind(node);
        match ELSEWHERE.iter().find(|(of, _)| *of == kind.as_str()) {
            Some((_, name)) => (*name).to_owned(),
            None if kind.namespace() == "aten" => format!("torch.{}", kind.short()),
            None => format!("ops.{}.{}", kind.namespace(), kind.short()),
        }
    }

    /// The operands that are not omitted. Output operands come after all others, and always.
    fn passed(&self, w: &mut Writer, schema: &Schema, operands: &[Value]) -> String {
        let is_out = |&(i, formal): &(usize, &Formal)| i >= schema.positional && formal.is_written();
        let formals = schema.formals.iter().enumerate();
        let outs = formals.rev().take_while(is_out).count();
        let inner = schema.formals.len() - outs;
        let is_left_out = |i: usize| is_default(self.graph, operands[i], &schema.formals[i]);
        let needed = match operands.len() > schema.formals.len() {
            true => operands.len(),
            false => (0..inner).rev().find(|&i| !is_left_out(i)).map_or(0, |i| i + 1),
        };
        let outs = if operands.len() > schema.formals.len() { 0 } else { outs };
        let passed = (0..needed).chain(inner..inner + outs);
        let one = |i: usize| {
            let text = self.text(w, operands[i]);
            match schema.formals.get(i).filter(|_| i >= schema.positional) {
                Some(formal) => format!("{}={text}", formal.name),
                None => text.to_string(),
            }
        };
        passed.map(one).collect::<Vec<_>>().join(", ")
    }
}

fn as_type(attribute: &Attribute) -> Option<Type> {
    if let Attribute::Type(ty) = attribute { Some(*ty) } else { None }
}
