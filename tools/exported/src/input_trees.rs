//! The inputs of a program as its caller passes them: which params of the graph are parts of one.
//!
//! ```text
//! forward(x, {"a": a, "b": b}, n=3)     %x, %d_a, %d_b, %n
//! ```

use crate::Result;
use crate::export_arguments::Argument;
use crate::result_tree::{Key, Tree};
use jitopt_archive::{Archive, Json};
use jitopt_core::interpreter::IValue;

/// An input as the caller passes it.
#[derive(Clone, Debug, PartialEq)]
pub struct Input {
    /// Its name in `forward`, if the program has it.
    pub name: Option<String>,
    /// Whether it is passed by its position, not by its name.
    pub is_positional: bool,
    /// Its parts.
    pub tree: Tree,
}

/// All inputs.
#[derive(Clone, Debug)]
pub struct Inputs {
    /// In the order of the call.
    pub inputs: Vec<Input>,
    /// For each param after the module, the value that the program was exported for, where it is no
    /// input of the graph: a number, a string, or None.
    pub fixed: Vec<Option<IValue>>,
}

/// The inputs of an exported program; nothing if it does not describe them.
///
/// # Errors
/// The record of the program is damaged.
pub fn inputs(archive: &Archive) -> Result<Option<Inputs>> {
    Ok(described(&archive.program()?))
}

fn described(program: &Json) -> Option<Inputs> {
    let module = program.get("graph_module");
    let fixed: Vec<Option<IValue>> =
        module.get("signature").get("input_specs").items().iter().filter_map(fixed_value).collect();
    let calls = module.get("module_call_graph").items();
    let call = calls.iter().find(|call| call.get("fqn").text() == Some(""))?.get("signature");
    let Tree::Tuple(mut parts) = Tree::read(call.get("in_spec").text()?)? else { return None };
    let (Some(Tree::Dict(keywords, named)), Some(positional), None) = (parts.pop(), parts.pop(), parts.pop()) else {
        return None;
    };
    let names: Vec<&str> = call.get("forward_arg_names").items().iter().filter_map(Json::text).collect();
    let has_names = names.len() == positional.parts().len() + named.len();
    let positional = positional.parts().iter().enumerate().map(|(i, tree)| Input {
        name: has_names.then(|| names[i].to_owned()),
        is_positional: true,
        tree: tree.clone(),
    });
    let named = keywords.into_iter().zip(named);
    let named = named.map(|(key, tree)| Input { name: text(key), is_positional: false, tree });
    let inputs: Vec<Input> = positional.chain(named).collect();
    let leaves: usize = inputs.iter().map(|input| input.tree.leaves()).sum();
    (leaves == fixed.len()).then_some(Inputs { inputs, fixed })
}

fn text(key: Key) -> Option<String> {
    if let Key::Text(text) = key { Some(text) } else { None }
}

/// For an input of the caller, its value if the program was exported for one value.
fn fixed_value(spec: &Json) -> Option<Option<IValue>> {
    let (kind, body) = spec.union("an input of the signature").ok()?;
    let argument = match kind {
        "user_input" => body.get("arg"),
        "constant_input" => body.get("value"),
        _ => return None,
    };
    Some(Argument::read(argument, "an input").ok().and_then(|argument| match argument {
        Argument::None => Some(IValue::None),
        Argument::Int(number) => Some(IValue::Int(number)),
        Argument::Float(number) => Some(IValue::Float(number)),
        Argument::Bool(yes) => Some(IValue::Bool(yes)),
        Argument::Text(text) => Some(IValue::Str(text.into())),
        _ => None,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_described() {
        let leaf = r#"{"type": null, "context": null, "children_spec": []}"#;
        let of = |kind: &str, context: &str, parts: &[&str]| {
            let parts = parts.join(", ");
            format!(r#"{{"type": "builtins.{kind}", "context": {context}, "children_spec": [{parts}]}}"#)
        };
        let list = of("list", r#""null""#, &[leaf, leaf]);
        let arguments = of("tuple", r#""null""#, &[leaf, &list]);
        let keywords = of("dict", r#""[\"n\"]""#, &[leaf]);
        let spec = format!("[1, {}]", of("tuple", r#""null""#, &[&arguments, &keywords]));
        let spec = spec.replace('\\', "\\\\").replace('"', "\\\"");
        let user = |name: &str| format!(r#"{{"user_input": {{"arg": {{"as_tensor": {{"name": "{name}"}}}}}}}}"#);
        let users = ["x", "l_0", "l_1"].map(user).join(", ");
        let program = format!(
            r#"{{"graph_module": {{
                "signature": {{"input_specs": [{users}, {{"constant_input": {{"name": "n", "value": {{"as_int": 3}}}}}}]}},
                "module_call_graph": [{{"fqn": "", "signature": {{"in_spec": "{spec}"}}}}]}}}}"#
        );
        let found = described(&Json::parse(program.as_bytes()).expect("JSON")).expect("inputs");
        let inputs: Vec<_> = found.inputs.iter().map(|one| (one.name.as_deref(), one.tree.leaves())).collect();
        assert_eq!(inputs, [(None, 1), (None, 2), (Some("n"), 1)]);
        assert_eq!(found.inputs.iter().filter(|one| one.is_positional).count(), 2);
        assert!(matches!(found.fixed.as_slice(), [None, None, None, Some(IValue::Int(3))]));
    }
}
