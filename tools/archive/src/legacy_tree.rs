//! Modules of archives of 1.0 to 1.2 as objects: what `data.pkl` holds in later ones.

use crate::legacy_model::{MODEL, named, number, of_row};
use crate::records::Records;
use crate::refusal::{Result, refuse};
use crate::stored_tensors::StoredTensor;
use crate::stored_values::{self, StoredValue};
use crate::strict_json::Json;
use crate::unpickler::unpickle;

/// Modules within modules.
const DEEPEST: usize = 100;

/// A module, which is a class of its own: its attributes, and the file of its methods.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LegacyClass {
    /// The name of the module; its path where another one has that name.
    pub name: String,
    /// Names and types of parameters, buffers and attributes.
    pub fields: Vec<(String, String)>,
    /// Names and classes of submodules.
    pub modules: Vec<(String, String)>,
    /// `code/net.py`, if it has methods.
    pub record: Option<String>,
}

/// The modules of an archive.
#[derive(Debug)]
pub struct LegacyTree {
    /// The outermost one first.
    pub classes: Vec<LegacyClass>,
    /// The outermost module.
    pub module: StoredValue,
    /// All tensors: constants of the code are among them.
    pub tensors: Vec<StoredTensor>,
}

pub(crate) fn read(records: &mut Records) -> Result<LegacyTree> {
    let model = Json::parse(&records.content(MODEL)?).map_err(|refusal| refusal.in_record(MODEL))?;
    let tensors = model.get("tensors").items().iter().map(|row| of_row(records, row)).collect::<Result<Vec<_>>>()?;
    let attributes = if records.has("attributes.pkl") {
        let pickle = unpickle(&records.content("attributes.pkl")?)?;
        stored_values::tree_with(&pickle, &tensors, records)?
    } else {
        StoredValue::Tuple(Vec::new())
    };
    let (StoredValue::Tuple(attributes) | StoredValue::List(attributes)) = attributes else {
        return refuse("`attributes.pkl` is no tuple");
    };
    let mut reader = Reader { tensors: &tensors, attributes, classes: Vec::new(), number: 0 };
    let module = reader.module("", model.get("mainModule"), 0)?;
    let classes = reader.classes;
    Ok(LegacyTree { classes, module, tensors })
}

struct Reader<'a> {
    tensors: &'a [StoredTensor],
    attributes: Vec<StoredValue>,
    classes: Vec<LegacyClass>,
    number: u32,
}

fn entry<T: Clone>(table: &[T], at: u64) -> Result<T> {
    let found = usize::try_from(at).ok().and_then(|at| table.get(at)).cloned();
    found.map_or_else(|| refuse(format!("a module names entry {at} of a table of {}", table.len())), Ok)
}

impl Reader<'_> {
    /// A module at a path; the depth is bounded.
    fn module(&mut self, path: &str, module: &Json, depth: usize) -> Result<StoredValue> {
        if depth > DEEPEST {
            return refuse("modules are nested too deep");
        }
        let name = named(module)?;
        let is_taken = self.classes.iter().any(|class| class.name == name);
        let class = if is_taken { path.to_owned() } else { name.to_owned() };
        let record = module.get("torchscriptArena").get("key").text().map(str::to_owned);
        let at = self.classes.len();
        self.classes.push(LegacyClass { name: class.clone(), fields: Vec::new(), modules: Vec::new(), record });
        self.number += 1;
        let number = self.number;
        let (mut fields, mut state) = (Vec::new(), Vec::new());
        let mut add = |name: &str, ty: String, value: StoredValue| {
            fields.push((name.to_owned(), ty));
            state.push((StoredValue::Text(name.to_owned()), value));
        };
        for row in module.get("parameters").items() {
            let tensor = entry(self.tensors, self::number(row.get("tensorId"), "tensor number")?)?;
            add(named(row)?, "Tensor".to_owned(), StoredValue::Tensor(tensor));
        }
        for row in module.get("attributes").items() {
            let value = entry(&self.attributes, self::number(row.get("id"), "number of an attribute")?)?;
            let ty = row.get("type").text().unwrap_or_default().to_owned();
            add(named(row)?, ty, value);
        }
        let mut modules = Vec::new();
        for inner in module.get("submodules").items() {
            let inner_name = named(inner)?;
            let path = if path.is_empty() { inner_name.to_owned() } else { format!("{path}.{inner_name}") };
            let value = self.module(&format!("{class}.{path}"), inner, depth + 1)?;
            let StoredValue::Object { class, .. } = &value else { continue };
            modules.push((inner_name.to_owned(), class.clone()));
            state.push((StoredValue::Text(inner_name.to_owned()), value));
        }
        (self.classes[at].fields, self.classes[at].modules) = (fields, modules);
        Ok(StoredValue::Object { class, number, state: Box::new(StoredValue::Dict(state)) })
    }
}
