//! The registry entry of a pass.

use super::context::PassContext;
use super::pipeline::NamedPipeline;
use crate::ir::{Graph, Node};
use crate::log::{KnownNames, did_you_mean, file_stem};
use crate::text::{PrintOptions, Printer};
use std::fmt;

/// The function that runs a pass.
pub type Run = fn(&mut Graph, &mut PassContext<'_>) -> Result<(), PassError>;

/// A pass.
#[derive(Debug)]
pub struct PassInfo {
    /// Short name, as on the command line: `dce`.
    pub name: &'static str,
    /// Other names: PyTorch's. `_` and `-` are the same.
    pub aliases: &'static [&'static str],
    /// One line, without a full stop.
    pub summary: &'static str,
    /// The IR before and after, for `--list-passes`.
    pub example: &'static str,
    /// The options.
    pub options: &'static [PassOption],
    /// A required pass is never skipped by `--disable` or bisection: later passes rely on its
    /// result.
    pub required: bool,
    /// Whether the result depends on facts about tensors in types: element types, sizes, strides,
    /// devices, gradients. Types of constants do not count, and neither does a pass that only
    /// copies types.
    pub reads_shapes: bool,
    /// The function.
    pub run: Run,
    /// `file!()`: its stem is the long name and the log key.
    pub file: &'static str,
}

/// An option, `factor=8` or `norms`.
#[derive(Debug)]
pub struct PassOption {
    /// The name.
    pub name: &'static str,
    /// The default value; options with `true` and `false` are flags.
    pub default: &'static str,
    /// One line.
    pub summary: &'static str,
}

impl PassInfo {
    /// The long name: `dead_code_elimination`.
    pub fn stem(&self) -> &'static str {
        file_stem(self.file)
    }

    /// Whether `name` is one of its names.
    pub(crate) fn is_called(&self, name: &str) -> bool {
        let same = |a: &str| a.len() == name.len() && a.bytes().zip(name.bytes()).all(|(a, b)| fold(a) == fold(b));
        same(self.name) || same(self.stem()) || self.aliases.iter().any(|alias| same(alias))
    }

    /// All of its names.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        [self.name, self.stem()].into_iter().chain(self.aliases.iter().copied())
    }

    /// The option of this name.
    pub(crate) fn option(&self, name: &str) -> Option<&'static PassOption> {
        self.options.iter().find(|option| option.name.bytes().map(fold).eq(name.bytes().map(fold)))
    }
}

fn fold(b: u8) -> u8 {
    if b == b'_' { b'-' } else { b }
}

/// The available passes and named pipelines.
#[derive(Clone, Copy, Debug)]
pub struct Registry {
    /// All passes.
    pub passes: &'static [PassInfo],
    /// All named pipelines.
    pub pipelines: &'static [NamedPipeline],
}

impl Registry {
    /// The pass with this name.
    pub fn pass(&self, name: &str) -> Option<&'static PassInfo> {
        self.passes.iter().find(|pass| pass.is_called(name))
    }

    /// The pass whose name is nearest to `name`.
    pub fn nearest_pass(&self, name: &str) -> Option<&'static str> {
        did_you_mean(name, self.passes.iter().flat_map(PassInfo::names))
    }

    /// The pipeline named `name`, without the `@`.
    pub(crate) fn pipeline(&self, name: &str) -> Option<&'static NamedPipeline> {
        self.pipelines.iter().find(|pipeline| pipeline.name == name)
    }

    /// The names that `JIT_LOG_LEVEL` accepts: stems with the names of their pass.
    pub(crate) fn log_names(&self) -> Vec<(&'static str, Vec<&'static str>)> {
        self.passes.iter().map(|pass| (pass.stem(), pass.names().collect())).collect()
    }

    /// Calls `f` with the names in the form that [`KnownNames`] requires.
    pub fn with_log_names<R>(&self, f: impl FnOnce(&KnownNames<'_>) -> R) -> R {
        let names = self.log_names();
        let mut table: Vec<(&str, &[&str])> = names.iter().map(|(stem, all)| (*stem, all.as_slice())).collect();
        table.push(("runner", &["pass"]));
        f(&KnownNames(&table))
    }
}

/// A request that cannot be met; "nothing to do" is not an error.
#[derive(Debug)]
pub struct PassError {
    /// The error and its reason, without a full stop.
    pub message: String,
    /// The node concerned, as it prints.
    pub at: Option<String>,
    /// The suggested remedy.
    pub help: Option<String>,
    /// Whether the options are invalid, independent of the graph.
    pub misuse: bool,
    /// Whether the graph would become larger than the pass allows.
    pub too_large: bool,
}

impl PassError {
    /// An error about the whole graph.
    pub fn new(message: impl Into<String>) -> PassError {
        PassError { message: message.into(), at: None, help: None, misuse: false, too_large: false }
    }

    /// An error about the options: no graph could be transformed with them.
    pub fn misuse(message: impl Into<String>) -> PassError {
        PassError { misuse: true, ..PassError::new(message) }
    }

    /// The error of a pass that would make a graph larger than it allows.
    pub fn too_large(message: impl Into<String>) -> PassError {
        PassError { too_large: true, ..PassError::new(message) }
    }

    /// An error about one node of `graph`, which may be a callee: the node is printed here, where
    /// its graph is known.
    pub fn at(graph: &Graph, node: Node, message: impl Into<String>) -> PassError {
        let mut printer = Printer::new(PrintOptions::default());
        printer.node_line(graph, node);
        let line = String::from_utf8_lossy(&printer.out).trim().to_owned();
        PassError { at: Some(line), ..PassError::new(message) }
    }

    /// The same error with help.
    pub fn with_help(self, help: impl Into<String>) -> PassError {
        PassError { help: Some(help.into()), ..self }
    }
}

impl fmt::Display for PassError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for PassError {}
