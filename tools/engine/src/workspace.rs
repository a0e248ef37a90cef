//! Finds files, and receives notes.

use crate::error::{Error, refuse};
use jitopt_core::log::did_you_mean;
use std::collections::BTreeMap;
use std::fmt;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// A message that is no result and no error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// The kind of message.
    pub level: Level,
    /// The message, without the name of its level.
    pub text: String,
}

/// The kind of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// A decision that the user did not make, such as a generated input.
    Note,
    /// Something that is probably a mistake.
    Warning,
    /// Output that was requested: steps of a run, what the program printed, rendered diagnostics.
    Output,
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.level {
            Level::Note => write!(f, "note: {}", self.text),
            Level::Warning => write!(f, "warning: {}", self.text),
            Level::Output => f.write_str(&self.text),
        }
    }
}

/// The files and variables that an operation may read, and the receiver of its notes.
pub struct Workspace<'a> {
    cwd: &'a Path,
    env: &'a BTreeMap<String, String>,
    /// Whether rendered diagnostics have ANSI colours.
    pub coloured: bool,
    sink: Box<dyn FnMut(Note) + 'a>,
}

impl<'a> Workspace<'a> {
    /// Relative paths are relative to `cwd`; an empty one is the working directory of the process.
    /// `env` holds the environment variables, `JITOPT_FUSION` and `JITOPT_CC` for example.
    pub fn new(cwd: &'a Path, env: &'a BTreeMap<String, String>, sink: impl FnMut(Note) + 'a) -> Workspace<'a> {
        Workspace { cwd, env, coloured: false, sink: Box::new(sink) }
    }

    /// A path relative to the directory.
    pub fn path(&self, path: &Path) -> PathBuf {
        if self.cwd.as_os_str().is_empty() { path.to_owned() } else { self.cwd.join(path) }
    }

    /// The directory of relative paths.
    pub fn cwd(&self) -> &'a Path {
        self.cwd
    }

    /// The environment variables.
    pub fn env(&self) -> &'a BTreeMap<String, String> {
        self.env
    }

    /// Reports a decision that the user did not make.
    pub(crate) fn note(&mut self, text: impl Into<String>) {
        (self.sink)(Note { level: Level::Note, text: text.into() });
    }

    /// Reports something that is probably a mistake.
    pub(crate) fn warn(&mut self, text: impl Into<String>) {
        (self.sink)(Note { level: Level::Warning, text: text.into() });
    }

    /// Reports requested output.
    pub(crate) fn say(&mut self, text: impl Into<String>) {
        (self.sink)(Note { level: Level::Output, text: text.into() });
    }

    /// Reads a file.
    ///
    /// # Errors
    /// Names the file, and a similar one if the file does not exist.
    pub(crate) fn read(&self, path: &Path) -> Result<Vec<u8>, Error> {
        std::fs::read(self.path(path)).or_else(|error| {
            let near = self.similar_file(path).filter(|_| error.kind() == ErrorKind::NotFound);
            let near = near.map_or(String::new(), |near| format!("; did you mean `{}`?", near.display()));
            refuse(format_args!("cannot read `{}`: {error}{near}", path.display()))
        })
    }

    /// A file next to `path` with a similar name, relative to the directory.
    pub fn similar_file(&self, path: &Path) -> Option<PathBuf> {
        let full = self.path(path);
        let folder = full.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let names: Vec<String> =
            std::fs::read_dir(folder).ok()?.flatten().map(|e| e.file_name().to_string_lossy().into_owned()).collect();
        let wanted = path.file_name()?.to_string_lossy();
        did_you_mean(&wanted, names.iter().map(String::as_str)).map(|near| path.with_file_name(near))
    }
}
