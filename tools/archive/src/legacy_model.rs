//! Archives of PyTorch 1.0 to 1.2: a tree of modules in `model.json`, tensors in a table.

use crate::code_surface::{Class, Surface};
use crate::module_tree::{Tree, joined};
use crate::pickle_value::{Id, Pickle, Value};
use crate::records::Records;
use crate::refusal::{Refusal, Result, refuse, shown};
use crate::stored_tensors::{Dtype, NamedTensor, Role, Signs, StoredTensor};
use crate::strict_json::Json;
use crate::unpickler::unpickle;

/// The record that this layout is recognised by.
pub(crate) const MODEL: &str = "model.json";
/// Modules within modules.
const DEEPEST: usize = 100;

/// The parts of such an archive that are read.
pub(crate) struct LegacyParts {
    pub(crate) tree: Tree,
    pub(crate) surface: Surface,
    /// The class of the module: its methods.
    pub(crate) class: Class,
    pub(crate) saved_by: String,
}

/// Reads the tree, the attributes and the code.
pub(crate) fn read(records: &mut Records) -> Result<LegacyParts> {
    let model = Json::parse(&records.content(MODEL)?).map_err(|refusal| refusal.in_record(MODEL))?;
    let tensors = model.get("tensors").items().iter().map(|row| of_row(records, row));
    let tensors = tensors.collect::<Result<Vec<StoredTensor>>>().map_err(|refusal| refusal.in_record(MODEL))?;
    let attributes = if records.has("attributes.pkl") {
        let content = records.content("attributes.pkl")?;
        Some(unpickle(&content).map_err(|refusal| refusal.in_record("attributes.pkl"))?)
    } else {
        None
    };
    let mut reader = Reader { records, tensors, attributes, tree: Tree::default(), surface: Surface::default() };
    reader.surface.repeats = true;
    reader.libraries()?;
    let main = model.get("mainModule");
    let class = reader.module("", main, 0).map_err(|refusal| refusal.in_record(MODEL))?;
    let producer = [model.get("producerName"), model.get("producerVersion")].map(|text| text.text().unwrap_or("?"));
    Ok(LegacyParts { tree: reader.tree, surface: reader.surface, class, saved_by: producer.join(" ") })
}

/// Numbers are strings here, as protobuf writes 64-bit ones.
pub(crate) fn number(value: &Json, what: &str) -> Result<u64> {
    let number = value.int().or_else(|| value.text()?.parse().ok());
    let Some(number) = number else { return refuse(format!("a {what} is not an integer")) };
    u64::try_from(number).map_err(|_| Refusal::new(format!("negative {what} {number}")))
}

fn numbers(values: &Json, what: &str) -> Result<Vec<u64>> {
    values.items().iter().map(|value| number(value, what)).collect()
}

/// A row of the table of tensors.
pub(crate) fn of_row(records: &mut Records, row: &Json) -> Result<StoredTensor> {
    let dtype = match row.get("dataType").text().unwrap_or_default() {
        "FLOAT" => "float32",
        "DOUBLE" => "float64",
        "FLOAT16" => "float16",
        "BFLOAT16" => "bfloat16",
        "UINT8" | "BYTE" => "uint8",
        "INT8" => "int8",
        "INT16" => "int16",
        "INT32" => "int32",
        "INT64" => "int64",
        "BOOL" => "bool",
        other => return refuse(format!("unknown element type {}", shown(other))),
    };
    if row.get("isQuantized").is_true() {
        return refuse("quantised tensors of this layout are not read");
    }
    let Some(key) = row.get("data").get("key").text() else { return refuse("a tensor has no record") };
    let mut tensor = StoredTensor {
        dtype: Dtype::of_name(dtype)?,
        sizes: numbers(row.get("dims"), "size")?,
        strides: numbers(row.get("strides"), "stride")?,
        offset: if row.get("offset").is_null() { 0 } else { number(row.get("offset"), "storage offset")? },
        storage: 0,
        requires_grad: row.get("requiresGrad").is_true(),
        quantizer: None,
        signs: Signs::default(),
    };
    let Some(bytes) = records.size(key) else { return refuse(format!("there is no record {}", shown(key))) };
    tensor.check(bytes)?;
    tensor.storage = records.storage(key)?;
    Ok(tensor)
}

struct Reader<'a> {
    records: &'a mut Records,
    tensors: Vec<StoredTensor>,
    attributes: Option<Pickle>,
    tree: Tree,
    surface: Surface,
}

impl Reader<'_> {
    /// Classes and functions outside modules: `libs/__torch__.py`.
    fn libraries(&mut self) -> Result<()> {
        let names: Vec<String> = self
            .records
            .names()
            .filter(|name| name.starts_with("libs/") && name.ends_with(".py"))
            .map(str::to_owned)
            .collect();
        for name in names {
            let module = name.trim_start_matches("libs/").trim_end_matches(".py").replace('/', ".");
            let content = self.records.content(&name)?;
            self.surface.read(&module, &content).map_err(|refusal| refusal.in_record(&name))?;
        }
        Ok(())
    }

    /// A module under a name, and those in it; its methods as a class.
    fn module(&mut self, name: &str, module: &Json, depth: usize) -> Result<Class> {
        if depth > DEEPEST {
            return refuse("modules are nested too deep");
        }
        self.tree.modules += 1;
        for row in module.get("parameters").items() {
            let role = if row.get("isBuffer").is_true() { Role::Buffer } else { Role::Parameter };
            let tensor = self.tensor(number(row.get("tensorId"), "tensor number")?)?;
            self.tree.tensors.push(NamedTensor { name: joined(name, named(row)?), role, tensor });
        }
        for row in module.get("attributes").items() {
            self.attribute(name, row)?;
        }
        for inner in module.get("submodules").items() {
            self.module(&joined(name, named(inner)?), inner, depth + 1)?;
        }
        self.code(name, module)
    }

    fn tensor(&self, number: u64) -> Result<StoredTensor> {
        let found = usize::try_from(number).ok().and_then(|number| self.tensors.get(number));
        found.cloned().map_or_else(|| refuse(format!("there is no tensor {number}")), Ok)
    }

    fn attribute(&mut self, module: &str, row: &Json) -> Result<()> {
        let name = named(row)?;
        let at = number(row.get("id"), "number of an attribute")?;
        let Some(pickle) = self.attributes.take() else { return refuse("there is no `attributes.pkl`") };
        let (Value::Tuple(items) | Value::List(items)) = pickle.root() else {
            return refuse("`attributes.pkl` is no tuple");
        };
        let Some(item) = usize::try_from(at).ok().and_then(|at| items.get(at)) else {
            return refuse(format!("there is no attribute {at}"));
        };
        if let (true, "training", Value::Bool(on)) = (module.is_empty(), name, pickle.get(*item)) {
            self.tree.training = Some(*on);
        }
        let role = if row.get("type").text() == Some("Tensor") { Role::Buffer } else { Role::Attribute };
        let found = self.value(&pickle, &joined(module, name), *item, role);
        self.attributes = Some(pickle);
        found
    }

    fn value(&mut self, pickle: &Pickle, name: &str, id: Id, role: Role) -> Result<()> {
        match pickle.get(id) {
            Value::LegacyTensor(number) => {
                let tensor = self.tensor(*number)?;
                self.tree.tensors.push(NamedTensor { name: name.to_owned(), role, tensor });
                Ok(())
            }
            // Lists of lists of tensors are no attributes of this time; others hold no tensors.
            Value::List(items) => items.iter().enumerate().try_for_each(|(number, item)| match pickle.get(*item) {
                Value::LegacyTensor(_) => self.value(pickle, &joined(name, &number.to_string()), *item, role),
                _ => Ok(()),
            }),
            _ => Ok(()),
        }
    }

    /// The methods of a module are the functions of its file.
    fn code(&mut self, name: &str, module: &Json) -> Result<Class> {
        let mut class = Class { qualified_name: name.to_owned(), base: "Module".to_owned(), ..Class::default() };
        let Some(key) = module.get("torchscriptArena").get("key").text() else { return Ok(class) };
        let content = self.records.content(key)?;
        let mut file = Surface::default();
        file.read("", &content).map_err(|refusal| refusal.in_record(key))?;
        class.methods = file.functions.into_values().collect();
        for (operator, count) in file.operators {
            *self.surface.operators.entry(operator).or_default() += count;
        }
        self.surface.last_constant = self.surface.last_constant.max(file.last_constant);
        self.surface.classes.insert(name.to_owned(), class.clone());
        Ok(class)
    }
}

pub(crate) fn named(row: &Json) -> Result<&str> {
    row.get("name").text().map_or_else(|| refuse("a module, a parameter or an attribute has no name"), Ok)
}
