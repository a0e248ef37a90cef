//! Locations in an archive of the contents that a graph reads: they are found without its code.

use crate::archive_code::ArchiveCode;
use crate::declared_names::Declarations;
use crate::inlined_methods::{enum_members, paths_read};
use crate::packed_weights::is_packed;
use crate::source_error::Result;
use crate::stored_ivalues::Values;
use jitopt_archive::{Archive, StoredValue};
use jitopt_core::interpreter::IValue;
use jitopt_core::ir::Graph;
use jitopt_core::symbol::prim;
use jitopt_core::types::TypeKind;
use std::collections::BTreeMap;

/// The location of a content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ContentPlace {
    /// In the module: a path of attributes.
    Attribute(Vec<String>),
    /// Among the constants, by its number.
    Constant(usize),
}

impl ArchiveCode {
    /// The places of what a graph reads, under the names that [`ArchiveCode::contents`] gives.
    /// None where code of the archive makes objects, or where values need its declarations.
    pub fn content_places(
        &self,
        archive: &Archive,
        module: &StoredValue,
        graph: &Graph,
    ) -> Option<BTreeMap<String, ContentPlace>> {
        if !archive.hooks.is_empty() || !enum_members(graph).is_empty() {
            return None;
        }
        let mut places = BTreeMap::new();
        let first = graph.params(graph.root()).next();
        if let Some(object) = first.filter(|param| matches!(graph.ty(*param).kind(), TypeKind::Class(_))) {
            for (path, attributes) in paths_read(graph, object) {
                match at_path(module, &attributes) {
                    // Objects are read by the paths of what is in them.
                    Some(StoredValue::Object { class, .. }) if !is_packed(class) => {}
                    None => {}
                    Some(stored) if is_plain(stored) => drop(places.insert(path, ContentPlace::Attribute(attributes))),
                    Some(_) => return None,
                }
            }
        }
        for node in graph.all_nodes().filter(|node| graph.kind(*node) == prim::CONSTANT) {
            if let (Some(output), Some(value)) = (graph.single_output(node), self.archived_value(graph, node)) {
                let number = self.constants.iter().position(|constant| std::ptr::eq(constant.stored(), value))?;
                is_plain(value).then(|| places.insert(graph.name(output), ContentPlace::Constant(number)))?;
            }
        }
        Some(places)
    }
}

/// The contents at places of an archive.
///
/// # Errors
/// A record is damaged.
pub fn contents_at(archive: &mut Archive, places: &BTreeMap<String, ContentPlace>) -> Result<BTreeMap<String, IValue>> {
    let refused = |refusal: jitopt_archive::Refusal| crate::SourceError::new(refusal.to_string());
    let module = archive.stored("data").map_err(refused)?;
    let constants = match archive.stored("constants").map_err(refused)? {
        StoredValue::Tuple(items) | StoredValue::List(items) => items,
        _ => Vec::new(),
    };
    let names = Declarations::default();
    let mut values = Values::of_constants(archive, &names);
    let mut found = BTreeMap::new();
    for (name, place) in places {
        let stored = match place {
            ContentPlace::Attribute(path) => at_path(&module, path),
            ContentPlace::Constant(number) => constants.get(*number),
        };
        if let Some(stored) = stored {
            found.insert(name.clone(), values.value(stored)?);
        }
    }
    Ok(found)
}

fn at_path<'s>(module: &'s StoredValue, path: &[String]) -> Option<&'s StoredValue> {
    path.iter().try_fold(module, |object, wanted| {
        object.attributes().into_iter().find(|(name, _)| name == wanted).map(|(_, value)| value)
    })
}

/// Whether a value is the same without the declarations of the code.
fn is_plain(stored: &StoredValue) -> bool {
    match stored {
        StoredValue::Object { .. } | StoredValue::Made { .. } | StoredValue::Other | StoredValue::Dict(_) => false,
        StoredValue::Tuple(items) | StoredValue::List(items) => items.iter().all(is_plain),
        _ => true,
    }
}
