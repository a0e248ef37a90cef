//! The signature: params, attributes, writes to them, and results.

use crate::export_arguments::Argument;
use crate::graph_writer::Writer;
use crate::module_attributes::Modules;
use crate::operator_calls::Frame;
use crate::result_tree::{Tree, tuple};
use crate::{Result, refuse, shown};
use jitopt_archive::Json;
use jitopt_core::ir::Value;
use jitopt_core::types::{Simple, Type};
use std::collections::HashMap;

/// Writes a whole program.
pub(crate) fn write(writer: &mut Writer<'_>, program: &Json) -> Result<()> {
    let module = program.get("graph_module");
    let (graph, signature) = (module.get("graph"), module.get("signature"));
    let mut whole = Whole { frame: Frame::of(graph), attributes: HashMap::new(), users: HashMap::new() };
    whole.inputs(writer, graph, signature)?;
    whole.frame.write_nodes(writer, graph)?;
    let results = whole.outputs(writer, graph, signature)?;
    let calls = module.get("module_call_graph").items().iter();
    let call = calls.into_iter().find(|call| call.get("fqn").text() == Some(""));
    let spec = call.and_then(|call| call.get("signature").get("out_spec").text());
    let result = nested(writer, spec, results);
    let root = writer.graph.root();
    writer.graph.add_result(root, result);
    Ok(())
}

struct Whole<'j> {
    frame: Frame<'j>,
    /// Parameters and buffers by their qualified names.
    attributes: HashMap<&'j str, Value>,
    /// Inputs of the user by their names.
    users: HashMap<&'j str, Value>,
}

impl<'j> Whole<'j> {
    /// Params of the graph come first, then attributes are read.
    fn inputs(&mut self, writer: &mut Writer<'_>, graph: &'j Json, signature: &'j Json) -> Result<()> {
        let mut modules = Modules::new(writer, graph);
        let specs = signature.get("input_specs").items();
        let mut bound = Vec::new();
        for spec in specs {
            let (kind, body) = spec.union("an input of the signature")?;
            match kind {
                "user_input" => self.user_input(writer, body)?,
                "constant_input" => self.constant_input(writer, body)?,
                "parameter" => bound.push((body, body.get("parameter_name"))),
                "buffer" => bound.push((body, body.get("buffer_name"))),
                "tensor_constant" => bound.push((body, body.get("tensor_constant_name"))),
                "custom_obj" => {
                    let name = shown(body.get("custom_obj_name").text().unwrap_or_default());
                    return refuse(format!("input {name} is an object of a class in C++, which has no form in IR"));
                }
                "token" => return refuse("an input is a token of an effect, which has no form in IR"),
                other => return refuse(format!("unknown input spec {}", shown(other))),
            }
        }
        for (body, qualified) in bound {
            let name = body.get("arg").get("name").text();
            let (Some(name), Some(qualified)) = (name, qualified.text()) else {
                return refuse("an input of the signature has no name");
            };
            let ty = self.frame.metadata.tensor(name)?;
            let value = modules.read(writer, qualified, ty)?;
            self.frame.define_named(writer, name, value);
            self.attributes.insert(qualified, value);
        }
        Ok(())
    }

    fn user_input(&mut self, writer: &mut Writer<'_>, body: &'j Json) -> Result<()> {
        let union = body.get("arg");
        let (tag, _) = union.union("an input")?;
        let argument = Argument::read(union, "an input")?;
        let ty = match (tag, &argument) {
            ("as_tensor", Argument::Value(name)) => self.frame.metadata.tensor(name)?,
            ("as_sym_int", Argument::Value(_)) => Type::int(),
            ("as_sym_float", Argument::Value(_)) => Type::simple(Simple::Float),
            ("as_sym_bool", Argument::Value(_)) => Type::bool(),
            _ => return self.constant_param(writer, "", &argument),
        };
        if let Argument::Value(name) = argument {
            let value = self.param(writer, name, ty);
            self.frame.define(name, value);
            self.users.insert(name, value);
        }
        Ok(())
    }

    /// An input that the program was exported for one value of.
    fn constant_input(&mut self, writer: &mut Writer<'_>, body: &'j Json) -> Result<()> {
        let argument = Argument::read(body.get("value"), "a constant input")?;
        self.constant_param(writer, body.get("name").text().unwrap_or_default(), &argument)
    }

    fn constant_param(&mut self, writer: &mut Writer<'_>, name: &'j str, argument: &Argument<'j>) -> Result<()> {
        let ty = match argument {
            Argument::None => Type::none(),
            Argument::Int(_) => Type::int(),
            Argument::Float(_) => Type::simple(Simple::Float),
            Argument::Bool(_) => Type::bool(),
            Argument::Text(_) => Type::simple(Simple::Str),
            _ => return refuse("an input is neither a tensor nor a number, a string or None"),
        };
        self.param(writer, name, ty);
        Ok(())
    }

    fn param(&mut self, writer: &mut Writer<'_>, name: &str, ty: Type) -> Value {
        let root = writer.graph.root();
        let value = writer.graph.add_param(root, ty);
        if !name.is_empty() {
            writer.name(value, name);
        }
        value
    }

    /// Writes what the program changes, and returns the results of the user.
    fn outputs(&mut self, writer: &mut Writer<'_>, graph: &'j Json, signature: &'j Json) -> Result<Vec<Value>> {
        let (specs, outputs) = (signature.get("output_specs").items(), graph.get("outputs").items());
        if specs.len() != outputs.len() {
            let (specs, outputs) = (specs.len(), outputs.len());
            return refuse(format!("the signature has {specs} results, the graph {outputs}"));
        }
        let mut results = Vec::new();
        for (spec, output) in specs.iter().zip(outputs) {
            let (kind, body) = spec.union("an output of the signature")?;
            let value = self.frame.operand(writer, &Argument::read(output, "a result")?)?;
            let name = |key: &str| body.get(key).text().unwrap_or_default();
            match kind {
                "user_output" | "loss_output" => results.push(value),
                "buffer_mutation" => self.change(writer, self.attributes.get(name("buffer_name")).copied(), value)?,
                "parameter_mutation" => {
                    self.change(writer, self.attributes.get(name("parameter_name")).copied(), value)?;
                }
                "user_input_mutation" => {
                    self.change(writer, self.users.get(name("user_input_name")).copied(), value)?;
                }
                "gradient_to_parameter" | "gradient_to_user_input" => {
                    return refuse("a result is a gradient; programs of inference are read");
                }
                other => return refuse(format!("an output of the kind {} has no form in IR", shown(other))),
            }
        }
        Ok(results)
    }

    /// `aten::copy_(%buffer, %new, %false)`
    fn change(&self, writer: &mut Writer<'_>, target: Option<Value>, value: Value) -> Result<()> {
        let Some(target) = target else { return refuse("a result changes an input that does not exist") };
        let ty = writer.graph.ty(target);
        let no = writer.bool(false);
        writer.call_named("aten::copy_", &[target, value, no], ty);
        Ok(())
    }
}

/// The results as the caller gets them.
fn nested(writer: &mut Writer<'_>, spec: Option<&str>, results: Vec<Value>) -> Value {
    let tree = spec.and_then(Tree::read).filter(|tree| tree.leaves() == results.len());
    if let Some(tree) = tree
        && let Some(value) = tree.build(writer, &mut results.iter().copied())
    {
        return value;
    }
    match results.as_slice() {
        [single] => *single,
        _ => {
            let types: Vec<Type> = results.iter().map(|value| writer.graph.ty(*value)).collect();
            tuple(writer, &results, &types)
        }
    }
}
