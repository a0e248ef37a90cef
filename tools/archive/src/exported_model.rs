//! Exported programs, `.pt2`: JSON and raw tensors.

use crate::code_surface::Method;
use crate::exported_checks::{Bound, check_graph, check_ranges, check_signature};
use crate::exported_weights::{numbers, of_saved_dict, of_table};
use crate::records::{OLD_PROGRAM, Records};
use crate::refusal::{Refusal, Result, refuse, shown};
use crate::stored_tensors::{NamedTensor, Role};
use crate::strict_json::Json;
use std::collections::BTreeMap;

/// Majors of the schema that this reader knows: `2` of PyTorch 2.2 to `8.20` of 2.15.
const MAJORS: std::ops::RangeInclusive<i64> = 2..=8;

/// Facts of an exported program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Exported {
    /// The version of the schema, `8.20`.
    pub schema: String,
    /// The release that saved it.
    pub saved_by: Option<String>,
    /// Nodes of the graph, without those of graphs in it.
    pub nodes: usize,
    /// The record of the program, `models/model.json`.
    pub record: String,
}

/// The parts of an exported program that are read.
pub(crate) struct ExportedParts {
    pub(crate) facts: Exported,
    pub(crate) tensors: Vec<NamedTensor>,
    pub(crate) methods: Vec<Method>,
    pub(crate) operators: BTreeMap<String, usize>,
}

/// Reads the layout of 2.9 and later: `models/NAME.json` and tables of weights.
pub(crate) fn read_models(records: &mut Records) -> Result<ExportedParts> {
    if let Some(library) = records.names().find(|name| name.ends_with(".so") || name.ends_with(".dll")) {
        let help = "packages of compiled code are not read; ask for the exported program itself";
        return Err(Refusal::new(format!("the archive holds a shared library, {}", shown(library))).with_help(help));
    }
    let models: Vec<String> = records
        .names()
        .filter_map(|name| name.strip_prefix("models/")?.strip_suffix(".json").map(str::to_owned))
        .collect();
    let [model] = models.as_slice() else {
        return refuse(match models.len() {
            0 => "the archive holds no model, `models/NAME.json`".to_owned(),
            count => format!("the archive holds {count} models; archives with one are read"),
        });
    };
    let mut tensors = of_table(records, "weights", model, Role::Buffer)?;
    tensors.extend(of_table(records, "constants", model, Role::Constant)?);
    read_program(records, &format!("models/{model}.json"), tensors)
}

/// Reads the layout of 2.2 to 2.8: everything at the root, weights as archives of `torch.save`.
pub(crate) fn read_serialized(records: &mut Records) -> Result<ExportedParts> {
    let mut tensors = Vec::new();
    for (part, role) in [("state_dict", Role::Buffer), ("constants", Role::Constant)] {
        let names = [format!("serialized_{part}.pt"), format!("serialized_{part}.json")];
        if let Some(name) = names.iter().find(|name| records.has(name)) {
            tensors.extend(of_saved_dict(records, name, role)?);
        }
    }
    read_program(records, OLD_PROGRAM, tensors)
}

fn read_program(records: &mut Records, name: &str, mut tensors: Vec<NamedTensor>) -> Result<ExportedParts> {
    let content = records.content(name)?;
    let in_program = |refusal: Refusal| refusal.in_record(name);
    let program = Json::parse(&content).map_err(in_program)?;
    let schema = schema_of(&program).map_err(in_program)?;
    let module = program.get("graph_module");
    let (graph, signature) = (module.get("graph"), module.get("signature"));
    if graph.is_null() || signature.is_null() {
        return refuse("there is no graph, or no signature").map_err(in_program);
    }
    let mut operators = BTreeMap::new();
    check_graph(graph, &mut operators, 0).map_err(in_program)?;
    check_ranges(program.get("range_constraints")).map_err(in_program)?;
    let bound = check_signature(signature, graph).map_err(in_program)?;
    bound.iter().try_for_each(|bound| check_bound(bound, graph, &mut tensors)).map_err(in_program)?;
    let facts = Exported {
        schema,
        saved_by: program.get("torch_version").text().map(str::to_owned),
        nodes: graph.get("nodes").items().len(),
        record: name.to_owned(),
    };
    Ok(ExportedParts { facts, tensors, methods: vec![forward(module)], operators })
}

/// Whether the program takes objects of a class, `__main__.Pair`, which its signature names with or
/// without the module.
pub(crate) fn takes_class(program: &Json, class: &str) -> bool {
    let calls = program.get("graph_module").get("module_call_graph").items();
    let whole = calls.iter().find(|call| call.get("fqn").text() == Some(""));
    let spec = whole.and_then(|call| call.get("signature").get("in_spec").text());
    let Some(spec) = spec.and_then(|spec| Json::parse(spec.as_bytes()).ok()) else { return false };
    let short = class.rsplit('.').next().unwrap_or(class);
    let mut work = spec.items().get(1).into_iter().collect::<Vec<&Json>>();
    while let Some(tree) = work.pop() {
        if tree.get("type").text().is_some_and(|name| name == class || name == short) {
            return true;
        }
        work.extend(tree.get("children_spec").items());
    }
    false
}

/// `8.20`, or `2` as 2.2 writes it.
fn schema_of(program: &Json) -> Result<String> {
    let version = program.get("schema_version");
    let major = version.int().or_else(|| version.get("major").int());
    let Some(major) = major else { return refuse("there is no schema version") };
    if !MAJORS.contains(&major) {
        let (first, last) = (MAJORS.start(), MAJORS.end());
        return refuse(format!("schema version {major} is not one of {first} to {last}, which are read"));
    }
    Ok(version.get("minor").int().map_or(major.to_string(), |minor| format!("{major}.{minor}")))
}

/// A tensor that the signature binds is there, of the shape that the graph declares. Its role is
/// what the signature says.
fn check_bound(bound: &Bound<'_>, graph: &Json, tensors: &mut [NamedTensor]) -> Result<()> {
    let Some(found) = tensors.iter_mut().find(|tensor| tensor.name == bound.target) else {
        return refuse(format!("{} {} has no weight", bound.kind.replace('_', " "), shown(bound.target)));
    };
    found.role = match bound.kind {
        "parameter" => Role::Parameter,
        "buffer" => Role::Buffer,
        _ => Role::Constant,
    };
    let meta = graph.get("tensor_values").get(bound.value);
    let sizes = numbers(meta.get("sizes"), "size")?;
    if !meta.is_null() && sizes != found.tensor.sizes {
        let (here, there) = (&found.tensor.sizes, &sizes);
        return refuse(format!("weight {} has the shape {here:?}, the graph says {there:?}", shown(bound.target)));
    }
    Ok(())
}

/// The signature of the program, with the names that the user gave.
fn forward(module: &Json) -> Method {
    let calls = module.get("module_call_graph").items();
    let whole = calls.iter().find(|call| call.get("fqn").text() == Some(""));
    let given = whole.map(|call| call.get("signature").get("forward_arg_names").items()).unwrap_or_default();
    let mut names: Vec<&str> = given.iter().filter_map(Json::text).collect();
    let specs = module.get("signature").get("input_specs").items();
    let users = specs.iter().filter_map(|spec| {
        let argument = spec.get("user_input").get("arg");
        argument.union("").ok().map(|(tag, value)| (tag, value.get("name").text().unwrap_or_default()))
    });
    let users: Vec<(&str, &str)> = users.collect();
    if names.len() != users.len() {
        names = users.iter().map(|(_, name)| *name).collect();
    }
    let values = module.get("graph").get("tensor_values");
    let param = |(name, (_, value)): (&str, &(&str, &str))| (name.to_owned(), type_of(values.get(value)));
    let params = names.into_iter().zip(&users).map(param).collect();
    Method { name: "forward".to_owned(), params, result: String::new() }
}

/// `float32[2, s0]`, or nothing for what is no tensor.
fn type_of(meta: &Json) -> String {
    let dtype = meta.get("dtype").int().and_then(|number| crate::exported_weights::dtype_of(number).ok());
    let Some(dtype) = dtype else { return String::new() };
    let size = |size: &Json| {
        let symbol = |text: &str| {
            let rest = text.strip_prefix("Symbol('").and_then(|rest| rest.split('\'').next());
            rest.unwrap_or(text).to_owned()
        };
        size.get("as_int").int().map_or_else(
            || size.get("as_expr").get("expr_str").text().map_or("?".to_owned(), symbol),
            |number| number.to_string(),
        )
    };
    let sizes: Vec<String> = meta.get("sizes").items().iter().map(size).collect();
    format!("{}[{}]", dtype.name(), sizes.join(", "))
}
