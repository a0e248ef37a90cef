//! Archives of PyTorch: their graphs and weights, and the messages where text is expected.

use crate::error::{Error, Kind};
use crate::kept_graphs::{KeptGraph, KeptGraphs};
use crate::known_values;
use jitopt_archive::{
    Archive, FileBytes, Kind as Layout, MadeTensor, Refusal, Role, StoredValue, UnreadArchive, looks_like_archive,
};
use jitopt_core::interpreter::files::{Tensors, write_safetensors};
use jitopt_core::interpreter::{IValue, Release};
use jitopt_core::ir::Graph;
use jitopt_core::log::did_you_mean;
use jitopt_core::tensor::Tensor;
use jitopt_source::{ArchiveCode, ContentPlace, MethodName, SourceError, contents_at};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The parts of an archive that are read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Choice {
    /// `forward`, `encode`, `encoder.forward`; `forward` if nothing is given.
    pub method: Option<String>,
    /// Whether all modules are in evaluation mode, whatever mode the archive records.
    pub evaluates: bool,
}

/// The method that returns inputs stored in the module.
const BUNDLED: &str = "get_all_bundled_inputs";

/// Which graph of an archive is wanted, and how.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// The method, and its mode.
    pub choice: Choice,
    /// Whether calls are inlined.
    pub inline: bool,
    /// Whether the graph is to run: objects then have the classes that the archive stores.
    pub runs: bool,
    /// The release whose rules hold; if none is given, that which saved an exported program, else
    /// the newest.
    pub release: Option<Release>,
}

impl Wanted {
    /// The options that decide about the graph of a program, as text.
    fn options(&self) -> String {
        let Wanted { choice: Choice { method, .. }, inline, runs, release } = self;
        format!("{method:?} {inline} {runs} {release:?}")
    }

    /// The release whose rules hold for code.
    fn rules(&self) -> Release {
        self.release.unwrap_or(Release::NEWEST)
    }
}

/// The graph of an archive; nothing for other files.
///
/// # Errors
/// The archive is not sound, or its program has no form in IR.
pub fn graph(name: &str, bytes: &[u8], wanted: &Wanted) -> Option<Result<Graph, Error>> {
    looks_like_archive(bytes).then(|| Parts::default().graph(name, &bytes.to_vec().into(), wanted))
}

/// The graph of an archive for passes that read its weights: calls are inlined, numbers of modules
/// are constants, and weights have types. Nothing for other files.
///
/// # Errors
/// The archive is not sound, its program has no form in IR, or a record of a weight is damaged.
pub fn graph_with_weights(name: &str, bytes: &[u8], wanted: &Wanted) -> Option<Result<Graph, Error>> {
    looks_like_archive(bytes).then(|| {
        let (parts, bytes) = (Parts::default(), FileBytes::from(bytes.to_vec()));
        let mut graph = parts.graph(name, &bytes, &Wanted { runs: true, ..wanted.clone() })?;
        known_values::settle(&mut graph, &parts.contents(name, &bytes, wanted)?, &[]);
        Ok(graph)
    })
}

/// The parts of an archive. Its code is read once for all of them: the weights are found through
/// the graph, and inlining the methods of hundreds of modules takes longer than all passes.
#[derive(Default)]
pub(crate) struct Parts(Mutex<Read>);

/// The parts of an archive that have been read.
#[derive(Default)]
struct Read {
    /// The folder with graphs that earlier runs have read.
    kept: Option<KeptGraphs>,
    /// The code, and the release whose rules hold.
    code: Option<(Option<Release>, Reader)>,
    /// A graph that was kept, and the archive without its code.
    found: Option<(Wanted, KeptGraph, Archive)>,
}

impl Read {
    /// The code; nothing for exported programs.
    fn code(&mut self, name: &str, archive: Archive, release: Option<Release>) -> Result<&Reader, Error> {
        Ok(&self.code.insert((release, Reader::of(name, archive, release)?)).1)
    }

    /// The graph that an earlier run has read.
    fn find(&mut self, name: &str, bytes: &FileBytes, wanted: &Wanted) -> Result<Option<Graph>, Error> {
        let Some(kept) = self.kept.as_ref().filter(|_| self.code.is_none()) else { return Ok(None) };
        if let Some((_, found, _)) = self.found.as_ref().filter(|(of, ..)| of == wanted) {
            return Ok(Some(found.graph.clone()));
        }
        let unread = unread_archive(name, bytes)?;
        let program = unread.program().map_err(|refusal| unread_of(name, &refusal))?;
        let Some(found) = program.and_then(|program| kept.find(&program, (&wanted.options(), wanted.rules()))) else {
            return Ok(None);
        };
        let graph = found.graph.clone();
        self.found = Some((wanted.clone(), found, unread.with_known_code()));
        Ok(Some(graph))
    }

    /// Keeps the graph that was read for later runs.
    fn keep(&self, name: &str, bytes: &FileBytes, wanted: &Wanted, graph: &Graph) -> Result<(), Error> {
        let (Some(kept), Some((_, reader))) = (&self.kept, &self.code) else { return Ok(()) };
        let program = unread_archive(name, bytes)?.program().map_err(|refusal| unread_of(name, &refusal))?;
        if let Some((program, places)) = program.zip(reader.places(wanted, graph)?) {
            kept.keep(&program, (&wanted.options(), wanted.rules()), &KeptGraph { graph: graph.clone(), places });
        }
        Ok(())
    }
}

fn unread_archive(name: &str, bytes: &FileBytes) -> Result<UnreadArchive, Error> {
    UnreadArchive::open(Box::new(bytes.clone())).map_err(|refusal| unread_of(name, &refusal))
}

fn unread_of(name: &str, refusal: &Refusal) -> Error {
    unread(refused(name, refusal))
}

/// Which work an archive gets, by its layout.
struct By<'a, T> {
    exported: &'a dyn Fn(&mut Archive) -> Result<T, Error>,
    code: &'a dyn Fn(&Reader) -> Result<T, Error>,
}

impl Parts {
    fn lock(&self) -> MutexGuard<'_, Read> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Graphs are looked for in a folder, and kept there.
    pub(crate) fn keep_in(&self, folder: &Path) {
        self.lock().kept = Some(KeptGraphs::open(folder));
    }

    /// Whether the graph is one that was kept.
    pub(crate) fn was_kept(&self) -> bool {
        self.lock().found.is_some()
    }

    fn with<T>(&self, name: &str, bytes: &FileBytes, release: Option<Release>, by: &By<'_, T>) -> Result<T, Error> {
        let mut read = self.lock();
        if let Some((_, reader)) = read.code.as_ref().filter(|(of, _)| *of == release) {
            return (by.code)(reader);
        }
        let mut archive = opened(name, bytes)?;
        match archive.kind {
            Layout::Exported | Layout::Serialized => (by.exported)(&mut archive),
            _ => (by.code)(read.code(name, archive, release)?),
        }
    }

    /// See [`graph`].
    pub(crate) fn graph(&self, name: &str, bytes: &FileBytes, wanted: &Wanted) -> Result<Graph, Error> {
        if let Some(graph) = self.lock().find(name, bytes, wanted)? {
            return Ok(graph);
        }
        let by = By { exported: &|archive| exported(name, archive, wanted), code: &|reader| reader.graph(wanted) };
        let graph = self.with(name, bytes, wanted.release, &by)?;
        self.lock().keep(name, bytes, wanted, &graph)?;
        Ok(graph)
    }

    /// The weights, as contents that the graph reads when it runs.
    ///
    /// # Errors
    /// A record is damaged, or nothing computes with elements of its type.
    pub(crate) fn contents(
        &self,
        name: &str,
        bytes: &FileBytes,
        wanted: &Wanted,
    ) -> Result<BTreeMap<String, IValue>, Error> {
        if let Some((_, found, archive)) = self.lock().found.as_mut().filter(|(of, ..)| of == wanted) {
            let contents = contents_at(archive, &found.places).map_err(|error| not_read(name, &error))?;
            return Ok(in_mode(contents, wanted));
        }
        let weights = |archive: &mut Archive| jitopt_exported::weights(archive).map_err(|r| unread_of(name, &r));
        let by = By { exported: &weights, code: &|reader| reader.contents(wanted) };
        self.with(name, bytes, wanted.release, &by)
    }

    /// The inputs that are recorded for the program: one sample, in the order of the params. None
    /// where nothing is recorded.
    ///
    /// # Errors
    /// What is recorded is damaged.
    pub(crate) fn samples(&self, name: &str, bytes: &FileBytes, wanted: &Wanted) -> Result<Option<Vec<IValue>>, Error> {
        // A graph of an archive with samples is not kept.
        let is_found = self.lock().found.is_some();
        if is_found || wanted.choice.method.as_deref().is_some_and(|method| method != "forward") {
            return Ok(None);
        }
        let samples = |archive: &mut Archive| jitopt_exported::samples(archive).map_err(|r| unread_of(name, &r));
        self.with(name, bytes, wanted.release, &By { exported: &samples, code: &Reader::bundled })
    }
}

impl Parts {
    /// The names of weights, without constants of the code.
    pub(crate) fn stored_names(
        &self,
        name: &str,
        bytes: &FileBytes,
        wanted: &Wanted,
    ) -> Result<BTreeSet<String>, Error> {
        let of = |archive: &Archive| {
            let weights = archive.tensors.iter().filter(|tensor| tensor.role != Role::Constant);
            weights.map(|tensor| tensor.name.clone()).collect()
        };
        let by = By { exported: &|archive| Ok(of(archive)), code: &|reader| Ok(of(&reader.archive)) };
        self.with(name, bytes, wanted.release, &by)
    }

    /// How the inputs of an exported program nest; nothing for code.
    pub(crate) fn exported_inputs(
        &self,
        name: &str,
        bytes: &FileBytes,
        wanted: &Wanted,
    ) -> Result<Option<jitopt_exported::Inputs>, Error> {
        let inputs = |archive: &mut Archive| jitopt_exported::inputs(archive).map_err(|r| unread_of(name, &r));
        self.with(name, bytes, wanted.release, &By { exported: &inputs, code: &|_| Ok(None) })
    }
}

/// Modules in evaluation mode, if that is requested.
fn in_mode(mut contents: BTreeMap<String, IValue>, wanted: &Wanted) -> BTreeMap<String, IValue> {
    let flags = contents.iter_mut().filter(|(name, _)| wanted.choice.evaluates && name.ends_with(".training"));
    flags.for_each(|(_, value)| {
        if let IValue::Bool(training) = value {
            *training = false;
        }
    });
    contents
}

/// Another program reads its archive itself.
impl Clone for Parts {
    fn clone(&self) -> Parts {
        Parts::default()
    }
}

impl std::fmt::Debug for Parts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Parts")
    }
}

fn exported(name: &str, archive: &Archive, wanted: &Wanted) -> Result<Graph, Error> {
    if let Some(method) = wanted.choice.method.as_deref().filter(|method| *method != "forward") {
        let text = format!("error: {name}: an exported program has one graph, not a method `{method}`\n");
        return Err(Error::new(Kind::Misuse, text));
    }
    jitopt_exported::graph(archive, wanted.release).map_err(|refusal| unread(refused(name, &refusal)))
}

/// The methods of an archive that have graphs, one a line: those of the module, then those of the
/// modules in it. Nothing for other files.
pub fn methods_of(name: &str, bytes: &[u8]) -> Option<Result<String, Error>> {
    looks_like_archive(bytes).then(|| listed(name, opened(name, &bytes.to_vec().into())?))
}

/// The same for a file, of which only the code and the values of the module are read.
pub fn methods_in(name: &str, path: &Path) -> Option<Result<String, Error>> {
    let (file, mut start) = (File::open(path).ok()?, [0u8; 4]);
    std::io::Read::read_exact(&mut &file, &mut start).ok()?;
    looks_like_archive(&start).then(|| {
        let archive = jitopt_archive::open(Box::new(file)).map_err(|refusal| unread(refused(name, &refusal)))?;
        listed(name, archive)
    })
}

/// Maximum number of methods that a message lists.
const MOST_SHOWN: usize = 8;

fn listed(name: &str, archive: Archive) -> Result<String, Error> {
    let reader = Reader::of(name, archive, None)?;
    Ok(reader.methods().into_iter().map(|(path, _)| path + "\n").collect())
}

/// An archive with its code.
pub(crate) struct Reader {
    name: String,
    pub(crate) archive: Archive,
    pub(crate) code: ArchiveCode,
    pub(crate) module: StoredValue,
    /// The graph that was read last.
    last: RefCell<Option<(Wanted, Graph)>>,
}

impl Reader {
    pub(crate) fn of(name: &str, mut archive: Archive, release: Option<Release>) -> Result<Reader, Error> {
        let module = match archive.kind {
            Layout::Legacy => archive.legacy_tree().map(|tree| tree.module),
            _ => archive.stored("data"),
        };
        let module = module.map_err(|refusal| unread(refused(name, &refusal)))?;
        let code = ArchiveCode::read(&mut archive, release.unwrap_or(Release::NEWEST));
        let code = code.map_err(|error| not_read(name, &error))?;
        Ok(Reader { name: name.to_owned(), archive, code, module, last: RefCell::default() })
    }

    /// The methods by their paths.
    fn methods(&self) -> Vec<(String, MethodName)> {
        let mut found = Vec::new();
        let mut work = vec![(String::new(), &self.module)];
        while let Some((path, object)) = work.pop() {
            let StoredValue::Object { class, .. } = object else { continue };
            let joined = |name: &str| if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
            let methods = self.code.methods().into_iter().filter(|method| method.class == *class);
            found.extend(methods.map(|method| (joined(&method.name), method)));
            let inner = object.attributes().into_iter().rev();
            work.extend(inner.map(|(name, object)| (joined(name), object)));
        }
        found
    }

    fn method(&self, wanted: &Wanted) -> Result<MethodName, Error> {
        let name = wanted.choice.method.as_deref().unwrap_or("forward");
        let own = MethodName { class: self.code.class().to_owned(), name: name.to_owned() };
        if self.code.methods().contains(&own) {
            return Ok(own);
        }
        let methods = self.methods();
        if let Some((_, method)) = methods.iter().find(|(path, _)| path == name) {
            return Ok(method.clone());
        }
        let known = methods.iter().map(|(path, _)| path.as_str());
        let near = did_you_mean(name, known).map_or(String::new(), |near| format!("; did you mean `{near}`?"));
        let mut shown: Vec<&str> = methods.iter().map(|(path, _)| path.as_str()).collect();
        let others = shown.len().saturating_sub(MOST_SHOWN);
        shown.truncate(MOST_SHOWN);
        let others = if others == 0 { String::new() } else { format!(" and {others} others") };
        let help = format!("  help: its methods are {}{others}\n", shown.join(", "));
        Err(Error::new(Kind::Misuse, format!("error: {}: there is no method `{name}`{near}\n{help}", self.name)))
    }

    fn graph(&self, wanted: &Wanted) -> Result<Graph, Error> {
        if let Some((_, graph)) = self.last.borrow().as_ref().filter(|(of, _)| of == wanted) {
            return Ok(graph.clone());
        }
        let graph = self.graph_of_code(wanted)?;
        self.last.replace(Some((wanted.clone(), graph.clone())));
        Ok(graph)
    }

    fn graph_of_code(&self, wanted: &Wanted) -> Result<Graph, Error> {
        let method = self.method(wanted)?;
        // PyTorch runs these before anything else: a file whose hooks fail does not load.
        let hooks = self.code.run_hooks(&self.archive, &self.module);
        hooks.map_err(|error| unread(format!("error: {}: the archive is refused: {error}\n", self.name)))?;
        let graph = match (wanted.runs, wanted.inline) {
            (true, _) => self.code.runnable(&method, self.module_of(wanted)),
            (false, true) => self.code.inlined(&method),
            (false, false) => self.code.graph(&method),
        };
        graph.map_err(|error| not_read(&self.name, &error))
    }

    /// What the graph of a method reads when it runs. Constants of the archive share their text
    /// with their copies in the graph that is made of it, and have the names that it gives them.
    fn contents(&self, wanted: &Wanted) -> Result<BTreeMap<String, IValue>, Error> {
        let wanted = Wanted { runs: true, ..wanted.clone() };
        let graph = self.graph(&wanted)?;
        let module = self.module_of(&wanted);
        let contents = self.code.contents(&self.archive, module, &graph);
        let mut contents = in_mode(contents.map_err(|error| not_read(&self.name, &error))?, &wanted);
        contents.extend(self.code.defaults(&self.method(&wanted)?));
        Ok(contents)
    }

    /// Where the contents of the graph of a method are. None where they need the code, and for
    /// archives with samples, which come from the code.
    fn places(&self, wanted: &Wanted, graph: &Graph) -> Result<Option<BTreeMap<String, ContentPlace>>, Error> {
        let method = self.method(wanted)?;
        let has_samples = self.code.methods().iter().any(|method| method.name == BUNDLED);
        let is_whole = std::ptr::eq(self.module_of(wanted), &self.module);
        if !wanted.runs || has_samples || !is_whole || !self.code.defaults(&method).is_empty() {
            return Ok(None);
        }
        Ok(self.code.content_places(&self.archive, &self.module, graph))
    }

    /// The module that has the method: `encoder` for `encoder.forward`.
    fn module_of(&self, wanted: &Wanted) -> &StoredValue {
        let path = wanted.choice.method.as_deref().and_then(|method| method.rsplit_once('.'));
        let mut module = &self.module;
        for name in path.map(|(path, _)| path).into_iter().flat_map(|path| path.split('.')) {
            let found = module.attributes().into_iter().find(|(known, _)| *known == name);
            module = found.map_or(module, |(_, inner)| inner);
        }
        module
    }

    /// The first of the inputs that `torch.utils.bundled_inputs` stored: what the method that it
    /// adds returns.
    fn bundled(&self) -> Result<Option<Vec<IValue>>, Error> {
        let method = MethodName { class: self.code.class().to_owned(), name: BUNDLED.to_owned() };
        if !self.code.methods().contains(&method) {
            return Ok(None);
        }
        let samples = self.code.called_without_arguments(&self.archive, &self.module, &method);
        let first = match samples.map_err(|error| not_read(&self.name, &error))? {
            IValue::List(samples) => samples.borrow().first().cloned(),
            _ => None,
        };
        Ok(first.and_then(|sample| if let IValue::Tuple(inputs) = sample { Some(inputs.to_vec()) } else { None }))
    }
}

pub(crate) fn opened(name: &str, bytes: &FileBytes) -> Result<Archive, Error> {
    jitopt_archive::open(Box::new(bytes.clone())).map_err(|refusal| unread(refused(name, &refusal)))
}

/// The line that a location names, `model.py:31:12` or `code/__torch__.py:7:4`, if the archive has
/// it.
pub(crate) fn source_line(program: &crate::Program, location: &str) -> Option<String> {
    let (rest, _column) = location.rsplit_once(':')?;
    let (record, line) = rest.rsplit_once(':')?;
    let archive = program.is_archive().then(|| opened("", &program.bytes).ok()).flatten()?;
    let code = archive.code().ok()?;
    let origins = code.iter().flat_map(|file| &file.ranges).filter_map(|range| range.origin.as_ref());
    if let Some(origin) = origins.into_iter().find(|origin| origin.comment() == location) {
        return Some(origin.text.trim().to_owned());
    }
    let file = code.into_iter().find(|file| file.record == record)?;
    let text = String::from_utf8_lossy(&file.content).into_owned();
    let line = text.lines().nth(line.parse::<usize>().ok()?.checked_sub(1)?)?;
    Some(line.trim().to_owned())
}

fn unread(text: String) -> Error {
    Error::new(Kind::Unparsable, text)
}

/// Code that is not read: the reason, and the place in the archive.
fn not_read(name: &str, error: &SourceError) -> Error {
    let kind = if error.is_too_large { Kind::Budget } else { Kind::Unparsable };
    Error::new(kind, format!("error: {name}: {error}\n"))
}

/// What an archive is, in one line: `TorchScript archive of 2.1 or later, module __torch__.Net`;
/// nothing for other files.
pub fn description(name: &str, bytes: &[u8]) -> Option<Result<String, Error>> {
    let open = || Ok(described(&opened(name, &bytes.to_vec().into())?));
    looks_like_archive(bytes).then(open)
}

/// `TorchScript archive of 2.1 or later, module __torch__.Net`
pub(crate) fn described(archive: &Archive) -> String {
    let class = if archive.class.is_empty() { String::new() } else { format!(", module {}", archive.class) };
    format!("{} of {}{class}", archive.kind.name(), archive.saved_by)
}

/// A refused archive, with the file, the record, the reason and advice.
pub fn refused(name: &str, refusal: &Refusal) -> String {
    let help = refusal.help.as_ref().map_or(String::new(), |help| format!("  help: {help}\n"));
    format!("error: {name}: the archive is refused: {refusal}\n{help}")
}

/// Opens the archive of a file. Weights are not read.
///
/// # Errors
/// The file cannot be read, is no archive, or one that is not sound.
pub fn open(path: &Path, shown: &Path) -> Result<Archive, Error> {
    let name = shown.display().to_string();
    let misuse = |error: std::io::Error| Error::new(Kind::Misuse, format!("cannot read `{name}`: {error}"));
    let file = File::open(path).map_err(misuse)?;
    let mut start = [0u8; 32];
    let length = std::io::Read::read(&mut &file, &mut start).map_err(misuse)?;
    let start = &start[..length];
    if let Some(what) = other_file(start) {
        return Err(Error::new(Kind::Unparsable, format!("error: {name}: {what}\n")));
    }
    jitopt_archive::open(Box::new(file)).map_err(|refusal| Error::new(Kind::Unparsable, refused(&name, &refusal)))
}

/// The tensors that load hooks make, if there are hooks: the interpreter runs them within their
/// budget. Returns the archive, too.
///
/// # Errors
/// A hook raises, or exceeds its budget.
pub fn made_by_hooks(archive: Archive, shown: &Path) -> Result<(Archive, Option<Vec<MadeTensor>>), Error> {
    if archive.hooks.is_empty() {
        return Ok((archive, None));
    }
    let name = shown.display().to_string();
    let reader = Reader::of(&name, archive, None)?;
    let made = reader.code.made_tensors(&reader.archive, &reader.module);
    let made = made.map_err(|error| not_read(&name, &error))?;
    let tensors: Result<Vec<MadeTensor>, Error> = made.iter().map(|(name, tensor)| made_tensor(name, tensor)).collect();
    Ok((reader.archive, Some(tensors?)))
}

fn made_tensor(name: &str, tensor: &Tensor) -> Result<MadeTensor, Error> {
    let sizes = tensor.shape().iter().map(|size| *size as u64).collect();
    // A quantised tensor is named and left out.
    let content = if tensor.dtype().is_quantized() { Vec::new() } else { little_endian(tensor)? };
    Ok(MadeTensor { name: name.to_owned(), dtype: tensor.dtype().python_name(), sizes, content })
}

/// The elements as a safetensors file has them, after its header.
fn little_endian(tensor: &Tensor) -> Result<Vec<u8>, Error> {
    let one = Tensors::from_iter([("x".to_owned(), tensor.clone())]);
    let file = write_safetensors(&one).map_err(|error| Error::new(Kind::Refused, error.0))?;
    let length = file.first_chunk::<8>().map_or(0, |length| u64::from_le_bytes(*length) as usize);
    Ok(file.get(8 + length..).unwrap_or_default().to_vec())
}

/// Files that people take for archives, by their first bytes.
fn other_file(start: &[u8]) -> Option<&'static str> {
    if start.starts_with(b"\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19.") {
        return Some("a checkpoint of `torch.save` before 1.6, which holds values, but no program");
    }
    if start.get(4..8) == Some(b"PTMF") {
        return Some("a mobile model as a flatbuffer, which is not read; save it with `_save_for_lite_interpreter`");
    }
    if start.trim_ascii_start().starts_with(b"graph") {
        return Some("the text of a graph, not an archive");
    }
    None
}
