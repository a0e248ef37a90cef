//! Nodes of a graph: calls of operators by their schemas.

use crate::export_arguments::Argument;
use crate::graph_writer::{Place, Writer};
use crate::value_metadata::Metadata;
use crate::{Result, default_values, higher_order, refuse, shown, stand_ins, symbolic_numbers};
use jitopt_archive::{Json, Refusal};
use jitopt_core::ir::Value;
use jitopt_core::ops::operator;
use jitopt_core::ops::overloads::Resolution;
use jitopt_core::ops::schema::{Formal, Schema};
use jitopt_core::symbol::{Symbol, prim};
use jitopt_core::types::{Simple, Type, TypeKind};
use std::collections::HashMap;

/// One graph of the program that is being written, with its values.
pub(crate) struct Frame<'j> {
    values: HashMap<&'j str, Value>,
    pub(crate) metadata: Metadata<'j>,
}

/// A node of the program.
pub(crate) struct Call<'j> {
    pub(crate) target: &'j str,
    pub(crate) inputs: Vec<(&'j str, Argument<'j>)>,
    pub(crate) outputs: Vec<Output<'j>>,
}

/// A result of a node.
#[derive(Clone, Debug)]
pub(crate) enum Output<'j> {
    Nothing,
    Tensor(&'j str),
    Tensors(Vec<Option<&'j str>>),
    Number(&'j str, Simple),
}

impl<'j> Frame<'j> {
    pub(crate) fn of(graph: &'j Json) -> Frame<'j> {
        Frame { values: HashMap::new(), metadata: Metadata::of(graph) }
    }

    pub(crate) fn define(&mut self, name: &'j str, value: Value) {
        self.values.insert(name, value);
    }

    pub(crate) fn find(&self, name: &str) -> Option<Value> {
        self.values.get(name).copied()
    }

    /// The value of an argument.
    pub(crate) fn operand(&self, writer: &mut Writer<'_>, argument: &Argument<'j>) -> Result<Value> {
        writer.argument(argument, &|name| self.find(name))
    }

    /// Names a value that the program names, and defines it.
    pub(crate) fn define_named(&mut self, writer: &mut Writer<'_>, name: &'j str, value: Value) {
        writer.name(value, name);
        self.define(name, value);
    }

    /// Writes the nodes of a graph.
    pub(crate) fn write_nodes(&mut self, writer: &mut Writer<'_>, graph: &'j Json) -> Result<()> {
        for (at, node) in graph.get("nodes").items().iter().enumerate() {
            let place = writer.set_place(place_of(node.get("metadata")));
            let written = Call::read(node).and_then(|call| self.write_call(writer, &call));
            writer.set_place(place);
            written.map_err(|refusal| at_node(refusal, at, node))?;
        }
        Ok(())
    }

    fn write_call(&mut self, writer: &mut Writer<'_>, call: &Call<'j>) -> Result<()> {
        if let Some(name) = call.target.strip_prefix("torch.ops.higher_order.") {
            return higher_order::write(writer, self, name, call);
        }
        if symbolic_numbers::write(writer, self, call)? {
            return Ok(());
        }
        if let Some(name) = call.target.strip_prefix("torch._functorch.predispatch.") {
            return part_of_vmap(name);
        }
        let Some((kind, overload)) = operator_name(call.target) else {
            return refuse("it is neither an operator nor a function on numbers that is known");
        };
        if kind.as_str() == "aten::_assert_scalar" {
            return stand_ins::assertion(writer, self, call);
        }
        let operands = self.operands(writer, kind, overload, call)?;
        if stand_ins::write(writer, self, kind, &operands, call)? {
            return Ok(());
        }
        self.results(writer, kind, &operands, call)
    }

    /// The operands of a call: those of the schema in its order, or all arguments of an unknown
    /// overload in theirs. An unknown operator could do anything.
    fn operands(&self, writer: &mut Writer<'_>, kind: Symbol, overload: &str, call: &Call<'j>) -> Result<Vec<Value>> {
        let Some(schema) = schema(writer, kind, overload, call) else {
            if operator(writer.graph.era, kind).schemas.is_empty() {
                let help = "`--schema='NAMESPACE::NAME(Tensor x) -> Tensor'` declares an operator".to_owned();
                let reason = format!("operator `{kind}` is unknown");
                return Err(Refusal::new(reason).with_help(help));
            }
            return call.inputs.iter().map(|(_, argument)| self.operand(writer, argument)).collect();
        };
        let mut operands = Vec::new();
        for formal in &schema.formals {
            let given = call.inputs.iter().find(|(name, _)| *name == formal.name).map(|(_, argument)| argument.clone());
            let Some(argument) = given.or_else(|| default_values::of(formal)) else {
                return refuse(format!("argument `{}` is missing: expected those of `{schema}`", formal.name));
            };
            operands.push(self.converted(writer, &argument, formal)?);
        }
        if let Some((name, _)) = call.inputs.iter().find(|(name, _)| schema.formal(name).is_none()) {
            return refuse(format!("there is no argument {}: expected those of `{schema}`", shown(name)));
        }
        self.tensors_of_numbers(writer, schema, &mut operands);
        Ok(operands)
    }

    /// An argument as a formal takes it: `1` is `1.` for a float, and `[1, 1]` for `int[2]`.
    fn converted(&self, writer: &mut Writer<'_>, argument: &Argument<'j>, formal: &Formal) -> Result<Value> {
        let ty = if let TypeKind::Optional(inner) = formal.ty.kind() { *inner } else { formal.ty };
        match (ty.kind(), argument) {
            (TypeKind::List(element), Argument::List(..) | Argument::None) => {
                self.as_type(writer, argument, Type::list(*element))
            }
            (TypeKind::List(element), single) if !self.is_list(writer, single) => {
                let value = self.as_type(writer, single, *element)?;
                let values = vec![value; formal.size.unwrap_or(1) as usize];
                Ok(writer.list(listed(*element), &values))
            }
            _ => self.as_type(writer, argument, ty),
        }
    }

    /// Whether an argument names a list.
    fn is_list(&self, writer: &Writer<'_>, argument: &Argument<'j>) -> bool {
        let value = argument.value().and_then(|name| self.find(name));
        value.is_some_and(|value| matches!(writer.graph.ty(value).kind(), TypeKind::List(_)))
    }

    fn as_type(&self, writer: &mut Writer<'_>, argument: &Argument<'j>, ty: Type) -> Result<Value> {
        match (argument, ty.kind()) {
            (Argument::List(_, parts), TypeKind::List(element)) => {
                let values: Result<Vec<Value>> =
                    parts.iter().map(|part| self.as_type(writer, part, *element)).collect();
                Ok(writer.list(listed(*element), &values?))
            }
            (Argument::Int(number), TypeKind::Simple(Simple::Float)) => Ok(writer.float(*number as f64)),
            (Argument::Bool(yes), TypeKind::Simple(Simple::Number | Simple::Scalar)) => Ok(writer.int((*yes).into())),
            (argument, kind) => {
                let value = self.operand(writer, argument)?;
                let is_bool = writer.graph.ty(value) == Type::bool();
                if is_bool && matches!(kind, TypeKind::Simple(Simple::Number | Simple::Scalar)) {
                    return Ok(writer.call_named("aten::Int", &[value], Type::int()));
                }
                Ok(value)
            }
        }
    }

    /// Numbers stand for tensors in exported programs (`add.Tensor(x, 1)`). In IR the overload for
    /// numbers takes them; where there is none, they become tensors.
    fn tensors_of_numbers(&self, writer: &mut Writer<'_>, schema: &Schema, operands: &mut [Value]) {
        let is_number = |ty: Type| ty.is(Simple::Int) || ty.is(Simple::Float) || ty == Type::bool();
        let types: Vec<Type> = operands.iter().map(|operand| writer.graph.ty(*operand)).collect();
        let places = schema.formals.iter().zip(&types).enumerate();
        let wrong: Vec<usize> =
            places.filter_map(|(i, (formal, ty))| (formal.ty.is_tensor() && is_number(*ty)).then_some(i)).collect();
        let era = writer.graph.era;
        if wrong.is_empty() || matches!(operator(era, schema.kind).resolve(&types), Resolution::Found(_)) {
            return;
        }
        for i in wrong {
            operands[i] = writer.call_named("prim::NumToTensor", &[operands[i]], Type::tensor());
        }
    }

    /// Writes a node and defines the results of a call.
    pub(crate) fn results(
        &mut self,
        writer: &mut Writer<'_>,
        kind: Symbol,
        operands: &[Value],
        call: &Call<'j>,
    ) -> Result<()> {
        self.outputs(writer, kind, operands, &call.outputs)
    }

    /// Writes a node and defines its results.
    pub(crate) fn outputs(
        &mut self,
        writer: &mut Writer<'_>,
        kind: Symbol,
        operands: &[Value],
        outputs: &[Output<'j>],
    ) -> Result<()> {
        let node = writer.node(kind, operands);
        let mut lists = Vec::new();
        for output in outputs {
            let ty = self.output_type(output)?;
            let value = writer.graph.add_output(node, ty);
            match output {
                Output::Tensor(name) | Output::Number(name, _) => self.define_named(writer, name, value),
                Output::Tensors(names) => lists.push((value, names)),
                Output::Nothing => {}
            }
        }
        for (list, names) in lists {
            self.unpack(writer, list, names)?;
        }
        Ok(())
    }

    /// Defines the elements of a list of tensors.
    pub(crate) fn unpack(&mut self, writer: &mut Writer<'_>, list: Value, names: &[Option<&'j str>]) -> Result<()> {
        let node = writer.node(prim::LIST_UNPACK, &[list]);
        for name in names {
            let ty = name.map_or(Ok(Type::tensor()), |name| self.metadata.tensor(name))?;
            let value = writer.graph.add_output(node, ty);
            if let Some(name) = name {
                self.define_named(writer, name, value);
            }
        }
        Ok(())
    }

    pub(crate) fn output_type(&self, output: &Output<'j>) -> Result<Type> {
        Ok(match output {
            Output::Nothing => Type::none(),
            Output::Tensor(name) => self.metadata.tensor(name)?,
            Output::Tensors(_) => Type::list(Type::tensor()),
            Output::Number(_, simple) => Type::simple(*simple),
        })
    }
}

impl<'j> Call<'j> {
    fn read(node: &'j Json) -> Result<Call<'j>> {
        let Some(target) = node.get("target").text() else { return refuse("it has no target") };
        let input = |input: &'j Json| {
            let name = input.get("name").text().unwrap_or_default();
            let what = if name.is_empty() { "an argument".to_owned() } else { format!("argument {}", shown(name)) };
            Ok((name, Argument::read(input.get("arg"), &what)?))
        };
        let inputs: Result<Vec<_>> = node.get("inputs").items().iter().map(input).collect();
        let outputs: Result<Vec<_>> = node.get("outputs").items().iter().map(Output::read).collect();
        Ok(Call { target, inputs: inputs?, outputs: outputs? })
    }
}

impl<'j> Output<'j> {
    pub(crate) fn read(union: &'j Json) -> Result<Output<'j>> {
        let (tag, _) = union.union("a result")?;
        let argument = Argument::read(union, "a result")?;
        let simple = match tag {
            "as_sym_int" => Some(Simple::Int),
            "as_sym_float" => Some(Simple::Float),
            "as_sym_bool" => Some(Simple::Bool),
            _ => None,
        };
        match (argument, simple) {
            (Argument::None, _) => Ok(Output::Nothing),
            (Argument::Value(name), Some(simple)) => Ok(Output::Number(name, simple)),
            (Argument::Value(name), None) => Ok(Output::Tensor(name)),
            (Argument::List(_, parts), _) => Ok(Output::Tensors(parts.iter().map(Argument::value).collect())),
            _ => refuse(format!("a result with the tag `{tag}` has no form in IR")),
        }
    }
}

/// Loading tables of decompositions computes nothing; the other calls begin, map and end `vmap`.
fn part_of_vmap(name: &str) -> Result<()> {
    if name == "lazy_load_decompositions" {
        return Ok(());
    }
    let help = "`exported.run_decompositions()` writes `torch.vmap` as operators";
    Err(Refusal::new("it is a part of `torch.vmap`, which has no form in IR").with_help(help))
}

/// `torch.ops.aten.add.Tensor` is `aten::add` with the overload `Tensor`; the one without a name is
/// `default`.
fn operator_name(target: &str) -> Option<(Symbol, &str)> {
    let (namespace, rest) = target.strip_prefix("torch.ops.")?.split_once('.')?;
    let (name, overload) = rest.split_once('.').unwrap_or((rest, "default"));
    let plain = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    let overload = if overload == "default" { "" } else { overload };
    (plain(namespace) && plain(name)).then(|| (Symbol::new(&format!("{namespace}::{name}")), overload))
}

/// The schema of an overload; that of a release which takes the arguments, if releases differ.
fn schema(writer: &Writer<'_>, kind: Symbol, overload: &str, call: &Call<'_>) -> Option<&'static Schema> {
    let operator = operator(writer.graph.era, kind);
    let all = || operator.schemas.iter().chain(operator.elsewhere()).filter(|schema| schema.overload == overload);
    let takes = |schema: &&Schema| call.inputs.iter().all(|(name, _)| schema.formal(name).is_some());
    all().find(takes).or_else(|| all().next())
}

/// The type of list elements: symbolic numbers are numbers in graphs.
fn listed(element: Type) -> Type {
    match element.kind() {
        TypeKind::Simple(Simple::SymInt) => Type::int(),
        TypeKind::Simple(Simple::SymFloat) => Type::simple(Simple::Float),
        TypeKind::Simple(Simple::SymBool) => Type::bool(),
        _ => element,
    }
}

/// A refusal with the number and the target of the node.
fn at_node(refusal: Refusal, at: usize, node: &Json) -> Refusal {
    let target = shown(node.get("target").text().unwrap_or_default());
    Refusal { reason: format!("node {at}, {target}: {}", refusal.reason), ..refusal }
}

/// Where a node comes from: the innermost line of the user's code, and the module.
///
/// ```text
/// "stack_trace": "File \"model.py\", line 12, in forward\n …\n  File \"…/torch/nn/modules/linear.py\", …"
/// "nn_module_stack": "L__self__,,model.Net;L__self__fc,fc,torch.nn.modules.linear.Linear"
/// ```
fn place_of(metadata: &Json) -> Place {
    let trace = metadata.get("stack_trace").text().unwrap_or_default();
    let frames: Vec<(&str, u32)> = trace.lines().filter_map(frame).collect();
    let own = frames.iter().rev().find(|(file, _)| !file.contains("/torch/") && !file.starts_with("torch/"));
    let location = own.or(frames.last()).map(|(file, line)| format!("{file}:{line}:0"));
    let stack = metadata.get("nn_module_stack").text().unwrap_or_default();
    let path = stack.split(';').next_back().and_then(|entry| entry.split(',').nth(1)).unwrap_or_default();
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '.';
    let is_path = !path.is_empty() && !path.starts_with('_') && path.chars().all(plain);
    Place { location, scope: is_path.then(|| format!("__module.{path}")) }
}

/// `File "model.py", line 12, in forward`
fn frame(line: &str) -> Option<(&str, u32)> {
    let (file, rest) = line.trim_start().strip_prefix("File \"")?.split_once("\", line ")?;
    let digits = rest.split(|c: char| !c.is_ascii_digit()).next()?;
    let is_plain = !file.starts_with('<') && !file.chars().any(|c| c.is_control() || c == '#' || c == '"');
    Some((file, digits.parse().ok()?)).filter(|_| is_plain)
}
