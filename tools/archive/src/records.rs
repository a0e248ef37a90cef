//! The records of an archive by name, without its top folder, and the storages among them.

use crate::byte_source::SharedBytes;
use crate::code_surface::Surface;
use crate::container::{Container, Entry};
use crate::pickle_value::Described;
use crate::refusal::{Refusal, Result, refuse, shown};
use crate::stored_tensors::StoredTensor;
use std::borrow::Cow;
use std::collections::HashMap;
use std::ops::Range;

/// PyTorch 2.15 reads format versions up to this one.
const LAST_VERSION: u64 = 10;

/// The record of the format version from version 6 on, which operators with new meanings need: the
/// Gaussian error unit of a model is enough.
const LATER_VERSION: &str = ".data/version";

/// The JSON of exported programs of 2.2 to 2.8, at the root of the archive.
pub(crate) const OLD_PROGRAM: &str = "serialized_exported_program.json";

/// A record that holds the elements of tensors.
#[derive(Debug)]
pub(crate) struct Storage {
    pub(crate) container: usize,
    /// Its full name.
    pub(crate) record: String,
    pub(crate) bytes: u64,
}

/// The records of an archive, and of archives within it.
#[derive(Debug)]
pub(crate) struct Records {
    /// The first is the file.
    pub(crate) containers: Vec<Container>,
    /// The top folder with its slash; empty if records are at the root.
    folder: String,
    pub(crate) storages: Vec<Storage>,
    by_record: HashMap<(usize, String), usize>,
}

impl Records {
    pub(crate) fn of(container: Container) -> Result<Records> {
        let folder = top_folder(&container)?;
        Ok(Records { containers: vec![container], folder, storages: Vec::new(), by_record: HashMap::new() })
    }

    /// The name of a record in the container.
    pub(crate) fn inside(&self, name: &str) -> String {
        format!("{}{name}", self.folder)
    }

    /// Names of all records, without the top folder.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        let entries = self.containers[0].entries().iter().filter(|entry| !entry.is_folder());
        entries.filter_map(|entry| entry.name.strip_prefix(self.folder.as_str()))
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.containers[0].find(&self.inside(name)).is_some()
    }

    /// The bytes of a record.
    pub(crate) fn size(&self, name: &str) -> Option<u64> {
        self.containers[0].find(&self.inside(name)).map(|entry| entry.size)
    }

    pub(crate) fn content(&self, name: &str) -> Result<Vec<u8>> {
        self.content_of(0, &self.inside(name))
            .map_err(|refusal| Refusal { record: refusal.record.map(|_| name.to_owned()), ..refusal })
    }

    /// The content of a record of a container, by its full name.
    pub(crate) fn content_of(&self, container: usize, name: &str) -> Result<Vec<u8>> {
        self.content_in_place(container, name).map(Cow::into_owned)
    }

    /// The same, where it is in memory already.
    pub(crate) fn content_in_place(&self, container: usize, name: &str) -> Result<Cow<'_, [u8]>> {
        self.containers[container].content_in_place(self.entry(container, name)?)
    }

    /// The same, piece by piece.
    pub(crate) fn in_pieces(&self, container: usize, name: &str, take: &mut dyn FnMut(&[u8])) -> Result<()> {
        self.containers[container].in_pieces(self.entry(container, name)?, take)
    }

    /// The same, in a file that is mapped into memory.
    pub(crate) fn shared(&self, container: usize, name: &str) -> Result<Option<(SharedBytes, Range<usize>)>> {
        self.containers[container].shared(self.entry(container, name)?)
    }

    fn entry(&self, container: usize, name: &str) -> Result<&Entry> {
        let found = self.containers[container].find(name);
        found.map_or_else(|| refuse(format!("the archive holds no record {}", shown(name))), Ok)
    }

    /// Adds an archive that is within this one; its number, and its top folder without the slash.
    pub(crate) fn nested(&mut self, content: Vec<u8>) -> Result<(usize, String)> {
        let container = Container::open(Box::new(content))?;
        let folder = top_folder(&container)?;
        self.containers.push(container);
        Ok((self.containers.len() - 1, folder.trim_end_matches('/').to_owned()))
    }

    /// The number of a record as a storage.
    pub(crate) fn storage(&mut self, name: &str) -> Result<usize> {
        let record = self.inside(name);
        self.storage_of(0, record)
    }

    /// The numbers of containers and storages so far, for [`Records::release`].
    pub(crate) fn held(&self) -> (usize, usize) {
        (self.containers.len(), self.storages.len())
    }

    /// Forgets containers and storages that were added since.
    pub(crate) fn release(&mut self, (containers, storages): (usize, usize)) {
        self.containers.truncate(containers);
        self.storages.truncate(storages);
        self.by_record.retain(|_, storage| *storage < storages);
    }

    fn storage_of(&mut self, container: usize, record: String) -> Result<usize> {
        if let Some(known) = self.by_record.get(&(container, record.clone())) {
            return Ok(*known);
        }
        let Some(entry) = self.containers[container].find(&record) else {
            return refuse(format!("there is no record {}", shown(&record)));
        };
        self.storages.push(Storage { container, record: record.clone(), bytes: entry.size });
        self.by_record.insert((container, record), self.storages.len() - 1);
        Ok(self.storages.len() - 1)
    }

    /// A tensor that a pickle describes; its storage is a record of this folder.
    pub(crate) fn tensor_of(&mut self, container: usize, folder: &str, from: &Described) -> Result<StoredTensor> {
        let key = &from.storage.key;
        if key.is_empty() || key.contains('/') {
            return refuse(format!("{} is no key of a storage", shown(key)));
        }
        let storage = self.storage_of(container, format!("{folder}/{key}"))?;
        let bytes = self.storages[storage].bytes;
        let named = from.storage.elements.checked_mul(from.storage.dtype.bytes());
        if named != Some(bytes) {
            let (key, named) = (shown(key), named.map_or("more than all".to_owned(), |named| named.to_string()));
            return refuse(format!("storage {key} has {named} bytes by its pickle, its record has {bytes}"));
        }
        // Tensors of scales are not quantised themselves, which bounds the depth.
        let scales = |scales: &Described| self.tensor_of(container, folder, scales);
        let quantizer = from.quantizer.as_ref().map(|quantizer| quantizer.with(scales)).transpose()?;
        let tensor = StoredTensor {
            dtype: from.dtype,
            sizes: from.sizes.clone(),
            strides: from.strides.clone(),
            offset: from.offset,
            storage,
            requires_grad: from.requires_grad,
            quantizer,
            signs: from.signs,
        };
        tensor.check(bytes)?;
        Ok(tensor)
    }

    // ---- what an archive must have

    pub(crate) fn check_byte_order(&self) -> Result<()> {
        if !self.has("byteorder") {
            return Ok(());
        }
        match self.content("byteorder")?.as_slice() {
            b"little" => Ok(()),
            b"big" => {
                refuse("elements are big-endian, which is not read").map_err(|r: Refusal| r.in_record("byteorder"))
            }
            _ => refuse("it says neither `little` nor `big`").map_err(|r: Refusal| r.in_record("byteorder")),
        }
    }

    /// The format version.
    pub(crate) fn version(&self) -> Result<u64> {
        let record = if self.has(LATER_VERSION) { LATER_VERSION } else { "version" };
        if self.has(LATER_VERSION) && self.has("version") {
            return refuse(format!("it has two versions, `version` and `{LATER_VERSION}`"));
        }
        let at = |refusal: Refusal| refusal.in_record(record);
        let content = self.content(record)?;
        let text = String::from_utf8_lossy(&content).into_owned();
        let digits = text.trim_end_matches('\n');
        let number = if digits.bytes().all(|byte| byte.is_ascii_digit()) { digits.parse::<u64>().ok() } else { None };
        match number {
            Some(number) if (1..=LAST_VERSION).contains(&number) => Ok(number),
            Some(number) => refuse(format!("format version {number}, expected 1 to {LAST_VERSION}")).map_err(at),
            None => refuse(format!("the format version {} is not a number", shown(&text))).map_err(at),
        }
    }

    /// Refuses what PyTorch writes with the same container, but is no program.
    pub(crate) fn check_is_program(&self) -> Result<()> {
        let (data, code) = (self.has("data.pkl"), self.names().any(|name| name.starts_with("code/")));
        let package = self.names().any(|name| name.starts_with(".data/extern") || name.starts_with(".data/ts_code"));
        if package {
            let help = "load it with `torch.package` where it may run, and save the model with `torch.jit.save`";
            return Err(Refusal::new("it is an archive of `torch.package`, which is not read").with_help(help));
        }
        if data && !code && !self.has("constants.pkl") {
            let help = "save the program with `torch.jit.save` or `torch.export.save`";
            let what = "it is a checkpoint of `torch.save`: it holds values, but no program";
            return Err(Refusal::new(what).with_help(help));
        }
        if !data && !code {
            return refuse("it is a zip archive, but not one of PyTorch: it holds no `data.pkl` and no code");
        }
        let version = if self.has(LATER_VERSION) { LATER_VERSION } else { "version" };
        for wanted in ["data.pkl", "constants.pkl", version] {
            if !self.has(wanted) {
                return refuse(format!("the archive holds no `{wanted}`"));
            }
        }
        Ok(())
    }

    /// What all code declares: `code/__torch__/a.py` is the module `__torch__.a`.
    pub(crate) fn surface(&self) -> Result<Surface> {
        let mut surface = Surface::default();
        for name in self.names() {
            let Some(module) = name.strip_prefix("code/").and_then(|name| name.strip_suffix(".py")) else { continue };
            let content = self.content(name)?;
            surface.read(&module.replace('/', "."), &content).map_err(|refusal| refusal.in_record(name))?;
        }
        Ok(surface)
    }

    /// The releases that write such an archive: 2.1 added the byte order, 1.3 the layout.
    pub(crate) fn releases(&self) -> &'static str {
        if self.has("byteorder") { "2.1 or later" } else { "1.3 to 2.0" }
    }
}

/// The one folder that all entries are in, with its slash; none where exported programs of 2.2 to
/// 2.8 keep everything at the root.
fn top_folder(container: &Container) -> Result<String> {
    if container.find(OLD_PROGRAM).is_some() {
        return Ok(String::new());
    }
    let mut folder: Option<&str> = None;
    for entry in container.entries() {
        let Some((first, _)) = entry.name.split_once('/') else {
            return refuse(format!("the entry {} is outside the one top folder", shown(&entry.name)));
        };
        match folder {
            Some(known) if known != first => {
                let known_data = |folder: &str| container.find(&format!("{folder}/data.pkl")).is_some();
                return refuse(if known_data(known) || known_data(first) {
                    format!("more than one top folder: {} and {}", shown(known), shown(first))
                } else {
                    "it is a zip archive, but not one of PyTorch: it has no top folder for all entries".to_owned()
                });
            }
            _ => folder = Some(first),
        }
    }
    Ok(folder.map_or(String::new(), |folder| format!("{folder}/")))
}
