//! The tensors of a pickled module by their qualified names.

use crate::code_surface::{Class, Surface};
use crate::declared_types::Declared;
use crate::pickle_value::{Id, Pickle, Value};
use crate::records::Records;
use crate::refusal::{Refusal, Result, refuse, shown};
use crate::stored_tensors::{NamedTensor, Role};

/// Values visited: a module that is shared is visited under each of its names.
const MOST_VISITED: usize = 1_000_000;
/// Bytes of all qualified names of tensors, and of one.
const MOST_NAMED: usize = 32 << 20;
const LONGEST_NAME: usize = 1000;
/// C++ classes of PyTorch, whose states are packed weights.
const FOREIGN_CLASSES: &str = "__torch__.torch.classes.";

/// The contents of a module.
#[derive(Debug, Default)]
pub(crate) struct Tree {
    pub(crate) tensors: Vec<NamedTensor>,
    /// Modules and objects whose state a method of the archive makes of what is stored, by name.
    pub(crate) hooks: Vec<String>,
    /// The flag `training` of the module.
    pub(crate) training: Option<bool>,
    /// Modules, this one included.
    pub(crate) modules: usize,
}

/// Walks over the module.
pub(crate) fn walk(pickle: &Pickle, surface: &Surface, records: &mut Records) -> Result<Tree> {
    let Value::Object { class, .. } = pickle.root() else {
        return refuse(format!("it is {}, not a module", pickle.root().kind()));
    };
    if class.starts_with(FOREIGN_CLASSES) {
        return refuse(format!("class {} is no module", shown(class)));
    }
    let mut walker = Walker { pickle, surface, records, tree: Tree::default(), visited: 0, named: 0, compared: 0 };
    walker.object("", pickle.root)?;
    Ok(walker.tree)
}

/// Adds the tensors of a list of constants, `CONSTANTS.c0`.
pub(crate) fn constants(pickle: &Pickle, records: &mut Records) -> Result<(Vec<NamedTensor>, usize)> {
    let (Value::Tuple(items) | Value::List(items)) = pickle.root() else {
        return refuse(format!("it is {}, not a tuple", pickle.root().kind()));
    };
    let mut tensors = Vec::new();
    for (number, item) in items.iter().enumerate() {
        if let Value::Tensor(described) = pickle.get(*item) {
            let tensor = records.tensor_of(0, &records.inside("constants"), described)?;
            tensors.push(NamedTensor { name: format!("CONSTANTS.c{number}"), role: Role::Constant, tensor });
        }
    }
    Ok((tensors, items.len()))
}

struct Walker<'a> {
    pickle: &'a Pickle,
    surface: &'a Surface,
    records: &'a mut Records,
    tree: Tree,
    visited: usize,
    named: usize,
    compared: u64,
}

impl<'a> Walker<'a> {
    /// An object under a name; the depth is bounded by that of the pickle.
    fn object(&mut self, name: &str, id: Id) -> Result<()> {
        let pickle = self.pickle;
        let Value::Object { class, state } = pickle.get(id) else { return Ok(()) };
        let known = self.class(class)?;
        self.tree.modules += usize::from(known.is_some_and(|class| class.base == "Module"));
        let Some(state) = state else { return Ok(()) };
        match (pickle.get(*state), known) {
            (Value::Dict(entries), Some(class)) if !class.has_load_hook() => self.attributes(name, class, entries),
            // What PyTorch's own classes make of their state is known: packed weights.
            (_, None) => self.value(name, *state, Role::State),
            (_, Some(_)) => {
                let hook = joined(name, "__setstate__");
                self.tree.hooks.push(hook.clone());
                self.value(&hook, *state, Role::State)
            }
        }
    }

    /// The class, which the code must define unless it is one of PyTorch's in C++.
    fn class(&self, name: &str) -> Result<Option<&'a Class>> {
        if name.starts_with(FOREIGN_CLASSES) {
            return Ok(None);
        }
        match self.surface.classes.get(name) {
            Some(class) => Ok(Some(class)),
            None => refuse(format!("the code defines no class {}", shown(name))),
        }
    }

    fn attributes(&mut self, name: &str, class: &Class, entries: &[(Id, Id)]) -> Result<()> {
        for (key, value) in entries {
            let Some(attribute) = self.pickle.text(*key) else { return refuse("the name of an attribute is no str") };
            let declared = class.declared(attribute);
            if !declared.admits(&self.pickle.values, *value, &mut self.compared) {
                let found = self.pickle.get(*value).kind();
                return refuse(format!("attribute {} is {found}, {declared:?} wanted", shown(attribute)));
            }
            let is_in = |list: &[String]| list.iter().any(|known| known == attribute);
            let role = if is_in(&class.parameters) {
                Role::Parameter
            } else if is_in(&class.buffers) || (!class.lists_buffers && declared == Declared::Tensor) {
                Role::Buffer
            } else {
                Role::Attribute
            };
            if let (true, "training", Value::Bool(on)) = (name.is_empty(), attribute, self.pickle.get(*value)) {
                self.tree.training = Some(*on);
            }
            self.value(&joined(name, attribute), *value, role)?;
        }
        Ok(())
    }

    fn value(&mut self, name: &str, id: Id, role: Role) -> Result<()> {
        self.visited += 1;
        self.named += name.len();
        if self.visited > MOST_VISITED || self.named > MOST_NAMED || name.len() > LONGEST_NAME {
            return refuse("the module has too many values, or names that are too long");
        }
        let pickle = self.pickle;
        match pickle.get(id) {
            Value::Tensor(described) => {
                let at =
                    |refusal: Refusal| Refusal { reason: format!("{}: {}", shown(name), refusal.reason), ..refusal };
                let folder = self.records.inside("data");
                let tensor = self.records.tensor_of(0, &folder, described).map_err(at)?;
                self.tree.tensors.push(NamedTensor { name: name.to_owned(), role, tensor });
                Ok(())
            }
            Value::Object { .. } => self.object(name, id),
            Value::Made { class, .. } => self.class(class).map(|_| ()),
            Value::List(items) | Value::Tuple(items) => {
                let mut numbered = items.iter().enumerate();
                numbered.try_for_each(|(number, item)| self.value(&joined(name, &number.to_string()), *item, role))
            }
            Value::Dict(entries) => entries.iter().try_for_each(|(key, value)| {
                let key = match pickle.get(*key) {
                    Value::Text(text) => text.clone(),
                    Value::Int(number) => number.to_string(),
                    other => other.kind().to_owned(),
                };
                self.value(&joined(name, &key), *value, role)
            }),
            _ => Ok(()),
        }
    }
}

/// A qualified name; that of the module itself is empty.
pub(crate) fn joined(name: &str, part: &str) -> String {
    if name.is_empty() { part.to_owned() } else { format!("{name}.{part}") }
}
