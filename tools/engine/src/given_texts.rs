//! Values of options that have a text: sizes, files and contents by the name of what they are for.
//!
//! Each keeps the text that it was parsed from, which messages and reproducers show.

use jitopt_core::interpreter::environment::Invent;
use jitopt_core::interpreter::generator;
use jitopt_core::log::did_you_mean;
use jitopt_core::tensor::layout::{self, Dims};
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// The sizes of a parameter: `%x=3,4` or `%x=3x4`; `%x=` has no dimensions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SizesOf {
    text: String,
    pub(crate) name: String,
    pub(crate) sizes: Dims,
}

impl FromStr for SizesOf {
    type Err = String;

    fn from_str(text: &str) -> Result<SizesOf, String> {
        let wrong = || "expected `%x=3,4`".to_owned();
        let (name, sizes) = text.split_once('=').ok_or_else(wrong)?;
        let sizes = sizes.split([',', 'x']).map(str::trim).filter(|size| !size.is_empty());
        let sizes: Dims = sizes.map(str::parse).collect::<Result<_, _>>().map_err(|_| wrong())?;
        layout::checked(&sizes).map_err(|error| error.to_string())?;
        let name = name.trim().trim_start_matches('%').to_owned();
        Ok(SizesOf { text: text.to_owned(), name, sizes })
    }
}

/// The content of a value that the text of a graph does not show: `%w=FILE`, `%n=8`, or
/// `prim::FusionGroup_0/%w=FILE` of a section.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContentOf {
    text: String,
    /// Where its content begins, after `=`.
    content: usize,
}

impl ContentOf {
    /// `%name` or `section/%name`.
    pub(crate) fn name(&self) -> &str {
        &self.text[..self.content - 1]
    }

    pub(crate) fn content(&self) -> &str {
        &self.text[self.content..]
    }
}

impl FromStr for ContentOf {
    type Err = String;

    fn from_str(text: &str) -> Result<ContentOf, String> {
        let parts = text.split_once('=').filter(|(_, given)| !given.is_empty());
        let name = parts.map(|(name, _)| name).filter(|name| name.len() > 1);
        match name.filter(|name| name.starts_with('%') || name.contains("/%")) {
            Some(name) => Ok(ContentOf { text: text.to_owned(), content: name.len() + 1 }),
            None => Err("expected `%value=FILE`".to_owned()),
        }
    }
}

/// The file of a computed value: `%v=FILE`, `%v=FILE:KEY`, or `prim::FusionGroup_0/%v=FILE`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileOf {
    text: String,
    /// Where the file begins, after `=`.
    file: usize,
}

impl FileOf {
    /// The path of sections and the name, without the first `%`.
    pub(crate) fn name(&self) -> &str {
        let name = &self.text[..self.file - 1];
        name.strip_prefix('%').unwrap_or(name)
    }

    /// The name within its section.
    pub(crate) fn last_name(&self) -> &str {
        self.name().rsplit_once("/%").map_or(self.name(), |(_, name)| name)
    }

    pub(crate) fn file(&self) -> &str {
        &self.text[self.file..]
    }
}

impl FromStr for FileOf {
    type Err = String;

    fn from_str(text: &str) -> Result<FileOf, String> {
        match text.split_once('=').filter(|(name, file)| is_name(name) && !file.is_empty()) {
            Some((name, _)) => Ok(FileOf { text: text.to_owned(), file: name.len() + 1 }),
            None => Err("expected `%value=FILE`".to_owned()),
        }
    }
}

/// Whether the text names a value rather than a file.
fn is_name(text: &str) -> bool {
    let (path, name) = text.rsplit_once("/%").map_or(("", text.strip_prefix('%')), |(path, name)| (path, Some(name)));
    name.is_some_and(|name| !name.is_empty()) && (path.is_empty() || path.split('/').all(|part| part.contains("::")))
}

/// Expected results.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expected {
    /// The file of all outputs.
    Outputs(PathBuf),
    /// The file of one value.
    Value(FileOf),
}

impl Expected {
    /// The file of all outputs, if it is one.
    pub(crate) fn outputs(&self) -> Option<&Path> {
        if let Expected::Outputs(path) = self { Some(path) } else { None }
    }
}

impl FromStr for Expected {
    type Err = String;

    fn from_str(text: &str) -> Result<Expected, String> {
        let names_value = text.split_once('=').is_some_and(|(name, _)| is_name(name)) || text.starts_with('%');
        if names_value { text.parse().map(Expected::Value) } else { Ok(Expected::Outputs(PathBuf::from(text))) }
    }
}

/// The graph of a called function or method: `NAME=FILE`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CalleeOf {
    text: String,
    /// Where the file begins, after `=`.
    file: usize,
}

impl CalleeOf {
    /// The name that calls look up.
    pub fn name(&self) -> &str {
        self.text[..self.file - 1].trim()
    }

    /// The file of the graph.
    pub fn file(&self) -> &Path {
        Path::new(&self.text[self.file..])
    }
}

impl FromStr for CalleeOf {
    type Err = String;

    fn from_str(text: &str) -> Result<CalleeOf, String> {
        match text.split_once('=').filter(|(name, file)| !name.trim().is_empty() && !file.is_empty()) {
            Some((name, _)) => Ok(CalleeOf { text: text.to_owned(), file: name.len() + 1 }),
            None => Err("expected `NAME=FILE`".to_owned()),
        }
    }
}

/// How contents that are not bound are generated: `zeros`, `ones`, `random` or `random:SEED`.
#[derive(Clone, Debug)]
pub struct Filling {
    text: String,
    pub(crate) invent: Invent,
    pub(crate) seed: u64,
}

impl Default for Filling {
    fn default() -> Filling {
        Filling { text: "random".to_owned(), invent: generator::invent_random, seed: 0 }
    }
}

impl FromStr for Filling {
    type Err = String;

    fn from_str(text: &str) -> Result<Filling, String> {
        let (word, seed) = text.split_once(':').map_or((text, None), |(word, seed)| (word, Some(seed)));
        let filling = |invent, seed| Ok(Filling { text: text.to_owned(), invent, seed });
        match (word, seed.map_or(Ok(0), str::parse), seed) {
            ("zeros", Ok(_), None) => filling(generator::invent_zeros, 0),
            ("ones", Ok(_), None) => filling(generator::invent_ones, 0),
            ("random", Ok(seed), _) => filling(generator::invent_random, seed),
            _ => {
                let near = did_you_mean(word, ["zeros", "ones", "random"]).filter(|near| *near != word);
                let near = near.map_or(String::new(), |near| format!("; did you mean `{near}`?"));
                Err(format!("expected zeros, ones, random or random:SEED{near}"))
            }
        }
    }
}

/// Shows the text that a value was parsed from.
macro_rules! shown_as_given {
    ($($ty:ident),*) => {
        $(impl fmt::Display for $ty {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.text)
            }
        })*
    };
}

shown_as_given!(SizesOf, ContentOf, FileOf, CalleeOf, Filling);

impl fmt::Display for Expected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Expected::Outputs(path) => write!(f, "{}", path.display()),
            Expected::Value(value) => value.fmt(f),
        }
    }
}
