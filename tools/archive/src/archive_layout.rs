//! Detects the kind of an archive, and divides it into its parts.

use crate::byte_source::{ByteSource, SharedBytes};
use crate::code_surface::{Class, Method, Surface};
use crate::container::Container;
use crate::exported_model::{self, Exported};
use crate::exported_weights;
use crate::legacy_model::{self, MODEL};
use crate::legacy_tree::{self, LegacyTree};
use crate::module_tree;
use crate::pickle_value::Value;
use crate::records::{OLD_PROGRAM, Records};
use crate::refusal::{Refusal, Result, refuse, shown};
use crate::source_ranges::{self, SourceRange};
use crate::stored_tensors::{NamedTensor, StoredTensor};
use crate::stored_values::{self, StoredValue};
use crate::strict_json::Json;
use crate::unpickler::unpickle;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::Range;

/// Bytes of a view that repeats elements of its storage.
const MOST_EXPANDED: u64 = 64 << 20;

/// The kinds of archives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// TorchScript of 1.0 to 1.2, with `model.json`.
    Legacy,
    /// TorchScript of 1.3 and later.
    TorchScript,
    /// TorchScript with bytecode for mobile devices, `.ptl`.
    Mobile,
    /// An exported program of 2.2 to 2.8.
    Serialized,
    /// An exported program of 2.9 and later.
    Exported,
}

impl Kind {
    /// In words.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Legacy => "TorchScript archive, layout of 1.0 to 1.2",
            Kind::TorchScript => "TorchScript archive",
            Kind::Mobile => "TorchScript archive for mobile devices, with bytecode",
            Kind::Serialized => "exported program, layout of 2.2 to 2.8",
            Kind::Exported => "exported program",
        }
    }
}

/// An archive that was read, without its weights.
#[derive(Debug)]
pub struct Archive {
    records: Records,
    /// The kind of the archive.
    pub kind: Kind,
    /// The format version of TorchScript archives, from 1 to 10.
    pub version: Option<u64>,
    /// Which releases write such an archive, as far as it shows.
    pub saved_by: String,
    /// The class of the module, `__torch__.Net`; empty for other kinds.
    pub class: String,
    /// The methods of the module.
    pub methods: Vec<Method>,
    /// All classes, by name.
    pub classes: Vec<Class>,
    /// How often the code calls each operator.
    pub operators: BTreeMap<String, usize>,
    /// Tensors by qualified name, in the order of the archive; constants last.
    pub tensors: Vec<NamedTensor>,
    /// Objects whose state a method of the archive would make while loading: nothing ran it.
    pub hooks: Vec<String>,
    /// Whether the module was saved in training mode.
    pub training: Option<bool>,
    /// Modules, the outermost included.
    pub modules: usize,
    /// Constants of the code, tensors and others.
    pub constants: usize,
    /// Files that the user added, with their bytes.
    pub extra_files: Vec<(String, u64)>,
    /// Facts of an exported program.
    pub exported: Option<Exported>,
    /// The class of the user, `__main__.Pair`, whose objects are recorded inputs of an exported
    /// program: they are not read, and Python would import the class.
    pub class_of_inputs: Option<String>,
}

/// A record of serialized code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CodeFile {
    /// Its name, `code/__torch__/a.py`.
    pub record: String,
    /// The module that its definitions belong to, `__torch__.a`.
    pub module: String,
    /// Its text.
    pub content: Vec<u8>,
    /// The origin of its bytes, if the archive states it.
    pub ranges: Vec<SourceRange>,
}

/// Reads an archive.
///
/// # Errors
/// The file is no archive of a program, or one that is not sound.
pub fn open(source: Box<dyn ByteSource>) -> Result<Archive> {
    let records = Records::of(Container::open(source)?)?;
    records.check_byte_order()?;
    read(records)
}

/// Reads the records of an archive.
pub(crate) fn read(records: Records) -> Result<Archive> {
    if records.has("archive_format") || records.names().any(|name| name.starts_with("models/")) {
        return exported(records, Kind::Exported);
    }
    if records.has(OLD_PROGRAM) {
        return exported(records, Kind::Serialized);
    }
    if records.has(MODEL) { legacy(records) } else { torch_script(records) }
}

fn exported(mut records: Records, kind: Kind) -> Result<Archive> {
    if kind == Kind::Exported {
        let format = records.content("archive_format")?;
        if format.trim_ascii() != b"pt2" {
            let format = String::from_utf8_lossy(&format).into_owned();
            return Err(Refusal::new(format!("it says {}, not `pt2`", shown(&format))).in_record("archive_format"));
        }
    }
    let parts = match kind {
        Kind::Exported => exported_model::read_models(&mut records)?,
        _ => exported_model::read_serialized(&mut records)?,
    };
    let saved_by = parts.facts.saved_by.clone().unwrap_or_else(|| "2.2 to 2.4".to_owned());
    let mut archive = Archive::new(records, kind, saved_by);
    archive.methods = parts.methods;
    archive.operators = parts.operators;
    archive.tensors = parts.tensors;
    archive.exported = Some(parts.facts);
    // PyTorch reads them together with the program, as a pickle that may run anything.
    let held = archive.records.held();
    let found = archive.sample_inputs();
    if let Some(class) = found.as_ref().err().and_then(|refusal| refusal.global.clone())
        && exported_model::takes_class(&archive.program()?, &class)
    {
        archive.class_of_inputs = Some(class);
        archive.records.release(held);
        return Ok(archive);
    }
    found.map_err(|refusal| {
        let help = "a pickle may run anything when Python loads it; the graph does not need this record: \
                    `zip -d FILE '*sample_inputs*'` removes it";
        refusal.with_help(help)
    })?;
    archive.records.release(held);
    Ok(archive)
}

fn legacy(mut records: Records) -> Result<Archive> {
    let version = records.version()?;
    let parts = legacy_model::read(&mut records)?;
    let saved_by = format!("1.0 to 1.2 ({})", parts.saved_by);
    let mut archive = Archive::new(records, Kind::Legacy, saved_by);
    archive.version = Some(version);
    archive.methods = parts.class.methods;
    archive.take(parts.tree, parts.surface);
    Ok(archive)
}

fn torch_script(mut records: Records) -> Result<Archive> {
    records.check_is_program()?;
    let version = records.version()?;
    let surface = records.surface()?;
    let in_constants = |refusal: Refusal| refusal.in_record("constants.pkl");
    let constants = records.content("constants.pkl")?;
    let constants = unpickle(&constants).map_err(in_constants)?;
    let (constants, count) = module_tree::constants(&constants, &mut records).map_err(in_constants)?;
    if let Some(last) = surface.last_constant.filter(|last| *last >= count) {
        return refuse(format!("the code uses CONSTANTS.c{last} of {count}"));
    }
    let in_data = |refusal: Refusal| refusal.in_record("data.pkl");
    let data = records.content("data.pkl")?;
    let data = unpickle(&data).map_err(in_data)?;
    let tree = module_tree::walk(&data, &surface, &mut records).map_err(in_data)?;
    let Value::Object { class, .. } = data.root() else { return refuse("it is not a module").map_err(in_data) };
    let kind = if records.has("bytecode.pkl") { Kind::Mobile } else { Kind::TorchScript };
    let saved_by = records.releases();
    let mut archive = Archive::new(records, kind, saved_by.to_owned());
    archive.version = Some(version);
    archive.class = class.clone();
    archive.methods = surface.classes.get(class).map(|class| class.methods.clone()).unwrap_or_default();
    archive.constants = count;
    archive.take(tree, surface);
    archive.tensors.extend(constants);
    Ok(archive)
}

impl Archive {
    pub(crate) fn new(records: Records, kind: Kind, saved_by: String) -> Archive {
        let extra = |name: &str| {
            let file = name.strip_prefix("extra/")?;
            Some((file.to_owned(), records.size(name)?))
        };
        let extra_files = records.names().filter_map(extra).collect();
        Archive {
            kind,
            version: None,
            saved_by,
            class: String::new(),
            methods: Vec::new(),
            classes: Vec::new(),
            operators: BTreeMap::new(),
            tensors: Vec::new(),
            hooks: Vec::new(),
            training: None,
            modules: 0,
            constants: 0,
            extra_files,
            exported: None,
            class_of_inputs: None,
            records,
        }
    }

    fn take(&mut self, tree: module_tree::Tree, surface: Surface) {
        self.tensors = tree.tensors;
        self.hooks = tree.hooks;
        self.training = tree.training;
        self.modules = tree.modules;
        self.operators = surface.operators;
        self.classes = surface.classes.into_values().collect();
    }

    /// The serialized code, in the order of the archive.
    ///
    /// # Errors
    /// A record is damaged.
    pub fn code(&self) -> Result<Vec<CodeFile>> {
        let mut files = Vec::new();
        for name in self.records.names() {
            let folder = if self.kind == Kind::Legacy { "libs/" } else { "code/" };
            let Some(module) = name.strip_prefix(folder).and_then(|name| name.strip_suffix(".py")) else { continue };
            let (record, module) = (name.to_owned(), module.replace('/', "."));
            let debug = format!("{name}.debug_pkl");
            let debug = if self.records.has(&debug) { self.records.content(&debug).ok() } else { None };
            let ranges = debug.and_then(|debug| source_ranges::read(&debug)).unwrap_or_default();
            files.push(CodeFile { content: self.records.content(name)?, record, module, ranges });
        }
        Ok(files)
    }

    /// The modules of an archive of 1.0 to 1.2.
    ///
    /// # Errors
    /// A record is damaged.
    pub fn legacy_tree(&mut self) -> Result<LegacyTree> {
        legacy_tree::read(&mut self.records)
    }

    /// The code of a record of an archive of 1.0 to 1.2.
    ///
    /// # Errors
    /// The record is damaged, or there is none.
    pub fn legacy_code(&self, record: &str) -> Result<CodeFile> {
        let content = self.records.content(record)?;
        Ok(CodeFile { record: record.to_owned(), module: String::new(), content, ranges: Vec::new() })
    }

    /// The module, or the value of another record: `data`, `constants`.
    ///
    /// # Errors
    /// The record is damaged, or there is none.
    pub fn stored(&mut self, name: &str) -> Result<StoredValue> {
        let record = format!("{name}.pkl");
        let content = self.records.content(&record)?;
        let pickle = unpickle(&content).map_err(|refusal| refusal.in_record(&record))?;
        stored_values::tree(&pickle, name, &mut self.records).map_err(|refusal| refusal.in_record(&record))
    }

    /// The inputs that an exported program records, `((args…), {kwargs…})`, if it does.
    ///
    /// # Errors
    /// The record is damaged.
    pub fn sample_inputs(&mut self) -> Result<Option<StoredValue>> {
        let is_this = |name: &&str| *name == "serialized_example_inputs.pt" || name.starts_with("data/sample_inputs/");
        let found = self.records.names().find(is_this).map(str::to_owned);
        let found = found.filter(|name| self.records.size(name) > Some(0) && self.class_of_inputs.is_none());
        let Some(name) = found else { return Ok(None) };
        exported_weights::of_saved_value(&mut self.records, &name).map(Some)
    }

    /// Bytes of the file, and its entries.
    pub fn extent(&self) -> (u64, usize) {
        (self.records.containers[0].size, self.records.containers[0].entries().len())
    }

    /// Bytes of a storage.
    pub fn storage_bytes(&self, storage: usize) -> u64 {
        self.records.storages[storage].bytes
    }

    /// Passes on the bytes of a storage piece by piece.
    ///
    /// # Errors
    /// The record is damaged; what was passed on is worth nothing then.
    pub fn storage_in_pieces(&self, storage: usize, take: &mut dyn FnMut(&[u8])) -> Result<()> {
        let storage = &self.records.storages[storage];
        self.records.in_pieces(storage.container, &storage.record, take)
    }

    /// The bytes of a storage where they are, if the file is mapped into memory and they are in it
    /// as they are.
    ///
    /// # Errors
    /// The record is damaged.
    pub fn storage_in_place(&self, storage: usize) -> Result<Option<(SharedBytes, Range<usize>)>> {
        let storage = &self.records.storages[storage];
        self.records.shared(storage.container, &storage.record)
    }

    /// The bytes that all tensors occupy: shared storages count once.
    pub fn stored_bytes(&self) -> u64 {
        self.records.storages.iter().map(|storage| storage.bytes).sum()
    }

    /// The JSON of an exported program, whose structure was checked when the archive was opened.
    ///
    /// # Errors
    /// There is no exported program, or its record is damaged.
    pub fn program(&self) -> Result<Json> {
        let Some(exported) = &self.exported else { return refuse("it is no exported program") };
        let content = self.records.content(&exported.record)?;
        Json::parse(&content).map_err(|refusal| refusal.in_record(&exported.record))
    }

    /// The elements of a tensor in row-major order, little-endian.
    ///
    /// # Errors
    /// The record is damaged, or the tensor is much larger than its storage.
    pub fn content(&self, tensor: &StoredTensor) -> Result<Vec<u8>> {
        self.content_in_place(tensor).map(Cow::into_owned)
    }

    /// The same, where they are in memory already.
    fn content_in_place(&self, tensor: &StoredTensor) -> Result<Cow<'_, [u8]>> {
        let storage = &self.records.storages[tensor.storage];
        if tensor.bytes() > MOST_EXPANDED.max(storage.bytes.saturating_mul(4)) {
            let (bytes, stored) = (tensor.bytes(), storage.bytes);
            return Err(Refusal::new(format!("a view of {bytes} bytes repeats the {stored} bytes of its storage"))
                .in_record(&storage.record));
        }
        let content = self.records.content_in_place(storage.container, &storage.record)?;
        let found = match (content, tensor.place_in_storage()) {
            (Cow::Borrowed(all), Some(place)) => all.get(place).map(Cow::Borrowed),
            (Cow::Owned(all), Some(place)) if place == (0..all.len()) => Some(Cow::Owned(all)),
            (all, _) => tensor.gathered(&all).map(Cow::Owned),
        };
        found.map_or_else(|| refuse("a tensor does not fit into memory, or leaves its storage"), Ok)
    }
}
