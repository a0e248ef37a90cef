//! Checks of the graph in an exported program that need no schemas: every value is defined before
//! it is used, every tag is known, the signature names what is there.

use crate::refusal::{Refusal, Result, refuse, shown};
use crate::strict_json::Json;
use std::collections::{BTreeMap, HashSet};

/// Tags of arguments, of all versions of the schema until 8.20.
const TAGS: [&str; 34] = [
    "as_none",
    "as_tensor",
    "as_tensors",
    "as_int",
    "as_ints",
    "as_float",
    "as_floats",
    "as_string",
    "as_strings",
    "as_sym_int",
    "as_sym_ints",
    "as_scalar_type",
    "as_memory_format",
    "as_layout",
    "as_device",
    "as_bool",
    "as_bools",
    "as_sym_bool",
    "as_sym_bools",
    "as_graph",
    "as_optional_tensors",
    "as_custom_obj",
    "as_operator",
    "as_sym_float",
    "as_sym_floats",
    "as_optional_tensor",
    "as_complex",
    "as_nested_tensors",
    "as_int_lists",
    "as_string_to_argument",
    "as_float_lists",
    "as_name",
    "as_expr",
    "as_token",
];
const INPUTS: [&str; 7] =
    ["user_input", "parameter", "buffer", "tensor_constant", "custom_obj", "token", "constant_input"];
const OUTPUTS: [&str; 9] = [
    "user_output",
    "loss_output",
    "buffer_mutation",
    "parameter_mutation",
    "gradient_to_parameter",
    "gradient_to_user_input",
    "user_input_mutation",
    "token",
    "custom_obj",
];
/// What a target may begin with: operators, Python's functions on numbers, and the parts of `vmap`.
const TARGETS: [&str; 6] =
    ["torch.ops.", "_operator.", "math.", "torch.sym_", "torch._sym_", "torch._functorch.predispatch."];
/// Brackets in a symbolic expression, and graphs in graphs.
const DEEPEST: usize = 64;

/// Checks a graph and the graphs in it; counts its operators.
pub(crate) fn check_graph(graph: &Json, operators: &mut BTreeMap<String, usize>, depth: usize) -> Result<()> {
    if depth > DEEPEST {
        return refuse("graphs are nested too deep");
    }
    let mut scope = Scope { defined: HashSet::new(), operators, depth };
    for input in graph.get("inputs").items() {
        scope.define(input, "an input")?;
    }
    for node in graph.get("nodes").items() {
        scope.node(node)?;
    }
    for output in graph.get("outputs").items() {
        scope.uses(output, "an output", 0)?;
    }
    for key in ["sym_int_values", "sym_bool_values", "sym_float_values"] {
        graph.get(key).fields().iter().try_for_each(|(_, value)| check_symbols(value))?;
    }
    graph.get("tensor_values").fields().iter().try_for_each(|(name, meta)| check_meta(name, meta))
}

struct Scope<'a, 'b> {
    defined: HashSet<&'a str>,
    operators: &'b mut BTreeMap<String, usize>,
    depth: usize,
}

impl<'a> Scope<'a, '_> {
    /// Adds the values that an argument names.
    fn define(&mut self, argument: &'a Json, what: &str) -> Result<()> {
        let (tag, value) = tagged(argument, what)?;
        for one in if tag.ends_with('s') { value.items() } else { std::slice::from_ref(value) } {
            if let Some(name) = name_of(one)
                && !self.defined.insert(name)
            {
                return refuse(format!("value {} is defined twice", shown(name)));
            }
        }
        Ok(())
    }

    fn node(&mut self, node: &'a Json) -> Result<()> {
        let Some(target) = node.get("target").text() else { return refuse("a node has no target") };
        if !TARGETS.iter().any(|start| target.starts_with(start)) {
            let help = "exported programs call operators only; do not load this file with Python";
            return Err(Refusal::new(format!("target {} is no operator", shown(target))).with_help(help));
        }
        let what = format!("an argument of {}", shown(target));
        for input in node.get("inputs").items() {
            self.uses(input.get("arg"), &what, 0)?;
        }
        for output in node.get("outputs").items() {
            self.define(output, "a result")?;
        }
        let name = target.strip_prefix("torch.ops.").unwrap_or(target);
        *self.operators.entry(name.to_owned()).or_default() += 1;
        Ok(())
    }

    /// Every value that an argument names is defined.
    fn uses(&mut self, argument: &'a Json, what: &str, depth: usize) -> Result<()> {
        let (tag, value) = tagged(argument, what)?;
        if tag == "as_graph" {
            return check_graph(value.get("graph"), self.operators, self.depth + 1);
        }
        if tag == "as_string_to_argument" {
            let mut entries = value.fields().iter();
            return if depth > DEEPEST {
                refuse("arguments are nested too deep")
            } else {
                entries.try_for_each(|(_, argument)| self.uses(argument, what, depth + 1))
            };
        }
        // Constants of custom objects and strings are no values.
        if matches!(tag, "as_string" | "as_strings" | "as_custom_obj" | "as_operator" | "as_device") {
            return Ok(());
        }
        let mut lists: Vec<&Json> = vec![value];
        while let Some(one) = lists.pop() {
            lists.extend(one.items());
            match name_of(one) {
                Some(name) if !self.defined.contains(name) => {
                    return refuse(format!("value {} is used before it is defined, by {what}", shown(name)));
                }
                _ => {}
            }
        }
        Ok(())
    }
}

/// A union of arguments, whose tag is known.
fn tagged<'a>(argument: &'a Json, what: &str) -> Result<(&'a str, &'a Json)> {
    let (tag, value) = argument.union(what)?;
    if TAGS.contains(&tag) { Ok((tag, value)) } else { refuse(format!("{what} has the unknown tag {}", shown(tag))) }
}

/// `{"name": "x"}`, or a union around it, `{"as_tensor": {"name": "x"}}`, `{"as_name": "n"}`.
fn name_of(value: &Json) -> Option<&str> {
    let inner = |key: &str| Some(value.get(key)).filter(|inner| !inner.is_null());
    value.get("name").text().or_else(|| value.get("as_name").text()).or_else(|| inner("as_tensor")?.get("name").text())
}

fn check_meta(name: &str, meta: &Json) -> Result<()> {
    let (sizes, strides) = (meta.get("sizes").items(), meta.get("strides").items());
    if sizes.len() != strides.len() {
        return refuse(format!("value {} has {} sizes, {} strides", shown(name), sizes.len(), strides.len()));
    }
    sizes.iter().chain(strides).try_for_each(check_symbols)
}

/// Symbolic expressions are text, which PyTorch gives to a recursive parser.
fn check_symbols(size: &Json) -> Result<()> {
    let Some(text) = size.get("as_expr").get("expr_str").text() else { return Ok(()) };
    let mut depth = 0usize;
    for byte in text.bytes() {
        match byte {
            b'(' => depth += 1,
            b')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > DEEPEST {
            return refuse("a symbolic expression is nested too deep");
        }
    }
    let powers = text.matches("**").count() + text.matches("Pow(").count();
    if powers > 4 { refuse("a symbolic expression has too many powers") } else { Ok(()) }
}

/// The ranges of symbolic sizes are not empty.
pub(crate) fn check_ranges(ranges: &Json) -> Result<()> {
    for (symbol, range) in ranges.fields() {
        if let (Some(low), Some(high)) = (range.get("min_val").int(), range.get("max_val").int())
            && low > high
        {
            return refuse(format!("the range of {} is empty: from {low} to {high}", shown(symbol)));
        }
    }
    Ok(())
}

/// An input of the graph that is no argument of the user.
pub(crate) struct Bound<'a> {
    /// `parameter`, `buffer`, `tensor_constant`.
    pub(crate) kind: &'a str,
    /// The value in the graph.
    pub(crate) value: &'a str,
    /// The qualified name.
    pub(crate) target: &'a str,
}

/// The inputs that the signature binds to tensors; it names the inputs of the graph in order.
pub(crate) fn check_signature<'a>(signature: &'a Json, graph: &'a Json) -> Result<Vec<Bound<'a>>> {
    let (specs, inputs) = (signature.get("input_specs").items(), graph.get("inputs").items());
    if specs.len() != inputs.len() {
        return refuse(format!("the signature has {} inputs, the graph {}", specs.len(), inputs.len()));
    }
    let mut bound = Vec::new();
    for (spec, input) in specs.iter().zip(inputs) {
        let (kind, body) = spec.union("an input of the signature")?;
        if !INPUTS.contains(&kind) {
            return refuse(format!("unknown input spec {}", shown(kind)));
        }
        let key =
            ["parameter_name", "buffer_name", "tensor_constant_name"].into_iter().find_map(|k| body.get(k).text());
        let Some(target) = key else { continue };
        let value = body.get("arg").get("name").text().unwrap_or_default();
        if name_of(input) != Some(value) {
            return refuse(format!("the signature names {}, the graph another input", shown(value)));
        }
        bound.push(Bound { kind, value, target });
    }
    for spec in signature.get("output_specs").items() {
        let (kind, _) = spec.union("an output of the signature")?;
        if !OUTPUTS.contains(&kind) {
            return refuse(format!("unknown output spec {}", shown(kind)));
        }
    }
    Ok(bound)
}
