//! A graph as text or in an archive, and the file that it is from.

use crate::Workspace;
use crate::archives::{self, Choice, Parts};
use crate::error::{Error, Kind};
use crate::known_values;
use crate::reporting;
use jitopt_archive::FileBytes;
use jitopt_core::interpreter::{IValue, Release};
use jitopt_core::ir::Graph;
use jitopt_core::text::extract::looks_like_log;
use jitopt_core::text::{ParseOptions, parse};
use jitopt_core::verify;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// The text of a graph or the bytes of an archive, and the file that it is from. Inputs,
/// descriptions and gradients are looked for next to this file.
#[derive(Clone, Debug)]
pub struct Program {
    /// The file; `-` for a text that is in no file.
    pub path: PathBuf,
    /// The text, or the bytes of an archive.
    pub(crate) bytes: FileBytes,
    /// The parts of an archive that are read.
    pub choice: Choice,
    /// The parts that were read.
    parts: Parts,
}

impl Program {
    /// A text, or the bytes of an archive, and the file that it is from.
    pub fn new(path: &Path, bytes: impl Into<FileBytes>, choice: Choice) -> Program {
        Program { path: path.to_owned(), bytes: bytes.into(), choice, parts: Parts::default() }
    }

    /// Reads the file of a graph.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn read(path: &Path, workspace: &Workspace<'_>) -> Result<Program, Error> {
        Ok(Program::new(path, workspace.read(path)?, Choice::default()))
    }

    /// A text that is in no file.
    pub fn of_text(text: &str) -> Program {
        Program::new(Path::new("-"), text.as_bytes().to_vec(), Choice::default())
    }

    /// Looks for the graph of an archive in a folder, and keeps it there.
    #[must_use]
    pub fn kept_in(self, folder: Option<&Path>) -> Program {
        folder.into_iter().for_each(|folder| self.parts.keep_in(folder));
        self
    }

    /// Refuses results if the file was written since it was opened: weights are mapped from it.
    ///
    /// # Errors
    /// The file is another one than it was.
    pub fn refuse_changed(&self) -> Result<(), Error> {
        match self.bytes.has_changed() {
            true => Err(Error::new(
                Kind::Misuse,
                format!(
                    "error: {}: the file was written to while its weights were in use\n  \
                     help: run again; write a new version to another file and rename it\n",
                    self.name()
                ),
            )),
            false => Ok(()),
        }
    }

    /// Whether its graph is one that was kept.
    pub fn was_kept(&self) -> bool {
        self.parts.was_kept()
    }

    /// The name in messages.
    pub fn name(&self) -> String {
        if self.path.as_os_str() == "-" { "<stdin>".to_owned() } else { self.path.display().to_string() }
    }

    /// The text of a file; nothing for archives, and for a text that is in no file.
    pub(crate) fn text_in_file(&self) -> Option<&str> {
        let is_text = self.path.as_os_str() != "-" && !self.is_archive();
        is_text.then(|| std::str::from_utf8(self.bytes.text()).ok()).flatten()
    }

    /// Parses and verifies the graph; `release` is the PyTorch release whose semantics apply, or
    /// the newest that prints such text. Warnings of the verifier are not reported.
    ///
    /// # Errors
    /// The text does not parse, or the graph has structural errors: nothing can run it.
    pub fn graph(&self, release: Option<Release>, workspace: &mut Workspace<'_>) -> Result<Graph, Error> {
        let (name, text) = (self.name(), self.bytes.text());
        if self.is_archive() {
            return self.sound(self.parts.graph(&name, &self.bytes, &self.wanted(release))?);
        }
        let parsed = parse(text, ParseOptions { release }).map_err(|diagnostics| {
            let log = looks_like_log(text).map_or(String::new(), |kind| format!("  {kind}\n"));
            Error::new(Kind::Unparsable, reporting::render(&name, text, &diagnostics, workspace.coloured) + &log)
        })?;
        if !parsed.warnings.is_empty() {
            workspace.say(reporting::render(&name, text, &parsed.warnings, workspace.coloured));
        }
        self.sound(parsed.graph)
    }

    /// [`Program::graph`] for passes: what the weights of an archive say is written into its graph.
    ///
    /// # Errors
    /// See [`Program::graph`] and [`Program::contents`].
    pub fn graph_for_passes(&self, release: Option<Release>, workspace: &mut Workspace<'_>) -> Result<Graph, Error> {
        let mut graph = self.graph(release, workspace)?;
        if self.is_archive() {
            known_values::settle(&mut graph, &self.contents(release)?, &[]);
        }
        Ok(graph)
    }

    /// Refuses a graph with structural errors.
    fn sound(&self, graph: Graph) -> Result<Graph, Error> {
        let report = verify::verify_structure_only(&graph);
        if report.has_errors() {
            let report = verify::render(&graph, &report);
            return Err(Error::new(Kind::Invalid, format!("{}:\n{report}", self.name())));
        }
        Ok(graph)
    }

    /// Whether it is an archive.
    pub(crate) fn is_archive(&self) -> bool {
        self.bytes.is_archive()
    }

    /// Contents of the file other than its graph: the weights of an archive.
    ///
    /// # Errors
    /// A record of the archive is damaged, or nothing computes with its elements.
    pub fn contents(&self, release: Option<Release>) -> Result<BTreeMap<String, IValue>, Error> {
        if !self.is_archive() {
            return Ok(BTreeMap::new());
        }
        self.parts.contents(&self.name(), &self.bytes, &self.wanted(release))
    }

    /// The inputs that an archive records, in the order of the params of its graph.
    ///
    /// # Errors
    /// A record of the archive is damaged.
    pub(crate) fn samples(&self, release: Option<Release>) -> Result<Option<Vec<IValue>>, Error> {
        if !self.is_archive() {
            return Ok(None);
        }
        self.parts.samples(&self.name(), &self.bytes, &self.wanted(release))
    }

    /// The weights of an archive, also those that the graph does not read, without constants.
    ///
    /// # Errors
    /// The archive is not sound.
    pub(crate) fn stored_names(&self) -> Result<BTreeSet<String>, Error> {
        if !self.is_archive() {
            return Ok(BTreeSet::new());
        }
        self.parts.stored_names(&self.name(), &self.bytes, &self.wanted(None))
    }

    /// How the inputs of an exported program nest.
    ///
    /// # Errors
    /// The record of the program is damaged.
    pub(crate) fn exported_inputs(&self) -> Result<Option<jitopt_exported::Inputs>, Error> {
        if !self.is_archive() {
            return Ok(None);
        }
        self.parts.exported_inputs(&self.name(), &self.bytes, &self.wanted(None))
    }

    fn wanted(&self, release: Option<Release>) -> archives::Wanted {
        archives::Wanted { choice: self.choice.clone(), inline: false, runs: true, release }
    }

    /// [`Program::graph`] with the warnings of the verifier: a call that fits no overload runs, by
    /// the names of its operands, but PyTorch would not run it.
    ///
    /// # Errors
    /// See [`Program::graph`].
    pub(crate) fn graph_to_run(&self, release: Option<Release>, workspace: &mut Workspace<'_>) -> Result<Graph, Error> {
        let graph = self.graph(release, workspace)?;
        let report = verify::verify(&graph);
        if !report.findings.is_empty() {
            workspace.say(format!("{}:\n{}", self.name(), verify::render(&graph, &report)));
        }
        Ok(graph)
    }
}
