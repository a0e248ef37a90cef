//! Parameters, buffers and constants: attributes of the module and of modules within it.

use crate::graph_writer::Writer;
use crate::{MODULE, Result, refuse, shown};
use jitopt_archive::Json;
use jitopt_core::ir::Value;
use jitopt_core::symbol::Symbol;
use jitopt_core::types::{Type, TypeKind};
use std::collections::HashMap;

/// Modules within modules.
const DEEPEST: usize = 256;

/// The modules of a program whose attributes were read.
pub(crate) struct Modules<'j> {
    /// The classes that the nodes name, by the path of their module; the whole has an empty path.
    classes: HashMap<&'j str, &'j str>,
    objects: HashMap<String, Value>,
}

impl<'j> Modules<'j> {
    /// Adds the module as the first param of the graph.
    pub(crate) fn new(writer: &mut Writer<'_>, graph: &'j Json) -> Modules<'j> {
        let mut modules = Modules { classes: classes(graph), objects: HashMap::new() };
        let ty = modules.class("");
        let root = writer.graph.root();
        let module = writer.graph.add_param(root, ty);
        writer.name(module, MODULE);
        modules.objects.insert(String::new(), module);
        modules
    }

    /// Reads an attribute by its qualified name, `encoder.0.weight`.
    pub(crate) fn read(&mut self, writer: &mut Writer<'_>, qualified: &str, ty: Type) -> Result<Value> {
        let parts: Vec<&str> = qualified.split('.').collect();
        if parts.iter().any(|part| part.is_empty()) || parts.len() > DEEPEST {
            return refuse(format!("{} is no name of an attribute", shown(qualified)));
        }
        let (path, name) = qualified.rsplit_once('.').unwrap_or(("", qualified));
        let object = self.object(writer, path);
        Ok(writer.attribute_of(object, name, ty))
    }

    /// The module of a path, read from the modules around it.
    fn object(&mut self, writer: &mut Writer<'_>, path: &str) -> Value {
        if let Some(known) = self.objects.get(path) {
            return *known;
        }
        let (outer, name) = path.rsplit_once('.').unwrap_or(("", path));
        let outer = self.object(writer, outer);
        let object = writer.attribute_of(outer, name, self.class(path));
        writer.name(object, name);
        self.objects.insert(path.to_owned(), object);
        object
    }

    /// The type of a module: `__torch__.torch.nn.modules.linear.Linear`.
    fn class(&self, path: &str) -> Type {
        let class = self.classes.get(path).copied().unwrap_or("torch.nn.modules.module.Module");
        let plain = |c: char| if c.is_ascii_alphanumeric() || c == '_' { c } else { '_' };
        // As in TorchScript, a class of the main program has no module.
        let class = class.strip_prefix("__main__.").unwrap_or(class);
        let parts = class.split('.').filter(|part| *part != "<locals>" && !part.is_empty());
        let parts: Vec<String> = parts.map(|part| part.chars().map(plain).collect()).collect();
        Type::new(TypeKind::Class(Symbol::new(&format!("__torch__.{}", parts.join(".")))))
    }
}

/// The classes that nodes name: `L__self__fc,fc,torch.nn.modules.linear.Linear`.
fn classes(graph: &Json) -> HashMap<&str, &str> {
    let mut classes = HashMap::new();
    for node in graph.get("nodes").items() {
        for entry in node.get("metadata").get("nn_module_stack").text().unwrap_or_default().split(';') {
            let mut parts = entry.splitn(3, ',').skip(1);
            if let (Some(path), Some(class)) = (parts.next(), parts.next())
                && !path.starts_with("_empty_nn_module")
            {
                classes.entry(path).or_insert(class);
            }
        }
    }
    classes
}
