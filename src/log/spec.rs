//! The specification in `JIT_LOG_LEVEL`: which files log, and at which level.

use super::did_you_mean::did_you_mean;
use std::fmt;
use std::ops::Range;

/// The environment variables that are read, in this order. The second is PyTorch's own name since
/// 1.3.
pub(crate) const VARIABLES: [&str; 2] = ["JIT_LOG_LEVEL", "PYTORCH_JIT_LOG_LEVEL"];

/// The flag that takes precedence over the variables.
pub const FLAG: &str = "--log";

/// The level of a file; each level includes those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Verbosity {
    /// Whole graphs at the boundaries of passes (`x=dump`).
    Dump,
    /// Also single rewrites (`x`, `x=update`).
    Update,
    /// Also the reasons, mainly for changes that were not made (`>x`, `x=debug`).
    Debug,
}

impl Verbosity {
    /// The word in the prefix of a message of this level, as in `[UPDATE fuser.rs:044]`.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Verbosity::Dump => "DUMP",
            Verbosity::Update => "UPDATE",
            Verbosity::Debug => "DEBUG",
        }
    }

    fn named(name: &str) -> Option<Verbosity> {
        Some(match name {
            "dump" => Verbosity::Dump,
            "update" => Verbosity::Update,
            "debug" => Verbosity::Debug,
            _ => return None,
        })
    }
}

/// The names that are accepted: file stems, each with its other names (pass names, PyTorch's
/// names). In all of them `-` and `_` are the same.
#[derive(Clone, Copy, Debug)]
pub struct KnownNames<'a>(pub &'a [(&'a str, &'a [&'a str])]);

impl<'a> KnownNames<'a> {
    /// The stems that `name` refers to; an alias may refer to several files.
    fn stems(&self, name: &str) -> Vec<&'a str> {
        let speaks_of = |(stem, aliases): &&(&str, &[&str])| same(stem, name) || aliases.iter().any(|a| same(a, name));
        self.0.iter().filter(speaks_of).map(|(stem, _)| *stem).collect()
    }

    fn all(&self) -> impl Iterator<Item = &'a str> {
        self.0.iter().flat_map(|(stem, aliases)| std::iter::once(*stem).chain(aliases.iter().copied()))
    }
}

fn same(a: &str, b: &str) -> bool {
    let fold = |c: u8| if c == b'-' { b'_' } else { c };
    a.len() == b.len() && a.bytes().zip(b.bytes()).all(|(x, y)| fold(x) == fold(y))
}

/// The files that log, and their levels. An empty specification disables all messages.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Spec {
    /// A list is faster than a table for few entries.
    entries: Vec<(String, Verbosity)>,
}

impl Spec {
    /// True when nothing is enabled; then no subscriber needs to be installed at all.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The level of the file with this stem, `None` when it is disabled.
    pub(crate) fn verbosity(&self, stem: &str) -> Option<Verbosity> {
        self.entries.iter().find(|(name, _)| name == stem).map(|(_, verbosity)| *verbosity)
    }

    /// The most verbose level of any file.
    pub(crate) fn loudest(&self) -> Option<Verbosity> {
        self.entries.iter().map(|(_, verbosity)| *verbosity).max()
    }
}

/// A specification that is valid but probably not intended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Warning {
    /// The variable is set but empty: in a shell an unquoted `>` redirects.
    EmptyVariable(&'static str),
    /// Two variables are set to different values; the first one counts.
    BothVariables,
    /// A file is named twice with different levels; the first entry counts, as in PyTorch.
    Repeated {
        /// The later item, as written.
        item: String,
        /// The stem that it repeats.
        stem: String,
    },
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [ours, theirs] = VARIABLES;
        match self {
            Warning::EmptyVariable(name) => write!(
                f,
                "{name} is set but empty: unquoted, {name}=>fuser makes the shell empty the variable and redirect the \
                 output into a file called `fuser`; write {name}='>fuser' or {FLAG}='fuser=debug'"
            ),
            Warning::BothVariables => write!(f, "{ours} and {theirs} are both set and differ: {ours} counts"),
            Warning::Repeated { item, stem } => {
                write!(
                    f,
                    "`{item}` is ignored: an earlier entry already sets the level of `{stem}`, and the first counts"
                )
            }
        }
    }
}

/// The reason why an item is invalid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Problem {
    /// No file, pass or alias has this name.
    UnknownName,
    /// The text after `=` is not `dump`, `update` or `debug`.
    UnknownLevel,
    /// `>` without a name after it: it is a prefix of the name.
    MissingName,
    /// `>x=dump` or `>x=update`: two levels for one file.
    TwoLevels,
}

/// An invalid value of `JIT_LOG_LEVEL` or `--log`; displays with the position marked by carets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpecError {
    /// The whole value.
    pub text: String,
    /// The byte range of `text` that is invalid.
    pub span: Range<usize>,
    /// The problem with that range.
    pub problem: Problem,
    /// The text that was probably meant instead of the marked bytes.
    pub suggestion: Option<String>,
    /// The variable or flag that the value came from, if known.
    pub origin: Option<&'static str>,
}

impl fmt::Display for SpecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let culprit = &self.text[self.span.clone()];
        match self.problem {
            Problem::UnknownName => write!(f, "unknown name `{culprit}`")?,
            Problem::UnknownLevel => write!(f, "unknown level `{culprit}`")?,
            Problem::MissingName => write!(f, "`>` must be followed by a name")?,
            Problem::TwoLevels => write!(f, "`{culprit}` gives two levels, as `>` already means debug")?,
        }
        write!(f, " in {}", self.origin.unwrap_or("the log specification"))?;
        let printable = |c: char| if c.is_control() { ' ' } else { c };
        let line: String = self.text.chars().map(printable).collect();
        let column = self.text[..self.span.start].chars().count();
        let width = culprit.chars().count().max(1);
        write!(f, "\n  {line}\n  {}{}", " ".repeat(column), "^".repeat(width))?;
        match (&self.suggestion, &self.problem) {
            (Some(meant), _) => write!(f, "\n  did you mean `{meant}`?"),
            (None, Problem::UnknownName) => write!(f, "\n  a name is that of a source file or of a pass"),
            (None, _) => write!(f, "\n  the levels are dump, update and debug, as in `fuser=debug`"),
        }
    }
}

impl std::error::Error for SpecError {}

/// Parses the value of `JIT_LOG_LEVEL` or `--log`.
///
/// Items are separated by `:`, empty ones are skipped. `x` enables dumps and updates, `>x` (or more
/// `>`) also the reasons: PyTorch 1.3 and 1.4 counted in this way, which the design documents
/// describe; later releases show one level less. `x=dump`, `x=update` and `x=debug` mean the same
/// without a character that shells redirect on. Directory and extension of a file name are ignored,
/// so `guard_elimination.cpp` and `guard_elimination.h` are `guard_elimination`.
pub fn parse_spec(text: &str, known: &KnownNames) -> Result<(Spec, Vec<Warning>), SpecError> {
    let mut spec = Spec::default();
    let mut warnings = Vec::new();
    let mut start = 0;
    for item in text.split(':') {
        if !item.trim().is_empty() {
            let (stems, verbosity) = parse_item(text, start, item, known)?;
            stems.into_iter().for_each(|stem| add(&mut spec, &mut warnings, item, stem, verbosity));
        }
        start += item.len() + 1;
    }
    Ok((spec, warnings))
}

fn add(spec: &mut Spec, warnings: &mut Vec<Warning>, item: &str, stem: &str, verbosity: Verbosity) {
    match spec.verbosity(stem) {
        None => spec.entries.push((stem.to_owned(), verbosity)),
        Some(first) if first == verbosity => {}
        Some(_) => warnings.push(Warning::Repeated { item: item.trim().to_owned(), stem: stem.to_owned() }),
    }
}

/// One item, which begins at byte `start` of `text`: the stems it names and their level.
fn parse_item<'a>(
    text: &str,
    start: usize,
    item: &str,
    known: &KnownNames<'a>,
) -> Result<(Vec<&'a str>, Verbosity), SpecError> {
    let fault = |fault: Fault| {
        let from = start + (fault.at.as_ptr() as usize - item.as_ptr() as usize);
        let span = from..from + fault.at.len();
        SpecError { text: text.to_owned(), span, problem: fault.problem, suggestion: fault.suggestion, origin: None }
    };
    let (name, verbosity) = parse_level(item.trim()).map_err(fault)?;
    let stem = file_stem(name);
    match known.stems(stem) {
        stems if stems.is_empty() => {
            let suggestion = did_you_mean(stem, known.all()).map(str::to_owned);
            Err(fault(Fault { at: name, problem: Problem::UnknownName, suggestion }))
        }
        stems => Ok((stems, verbosity)),
    }
}

/// The problem with the range `at` of an item.
struct Fault<'a> {
    at: &'a str,
    problem: Problem,
    suggestion: Option<String>,
}

/// Splits an item into name and level.
fn parse_level(item: &str) -> Result<(&str, Verbosity), Fault<'_>> {
    let rest = item.trim_start_matches('>');
    let (name, level) = rest.split_once('=').map_or((rest, None), |(name, level)| (name, Some(level)));
    let bare = name.trim_end_matches('>');
    if name.is_empty() || bare != name {
        let suggestion = (!bare.is_empty()).then(|| format!(">{bare}"));
        return Err(Fault { at: item, problem: Problem::MissingName, suggestion });
    }
    let louder = rest.len() < item.len();
    let Some(level) = level else {
        return Ok((name, if louder { Verbosity::Debug } else { Verbosity::Update }));
    };
    match Verbosity::named(level) {
        None => {
            let suggestion = did_you_mean(level, ["dump", "update", "debug"]).map(str::to_owned);
            Err(Fault { at: level, problem: Problem::UnknownLevel, suggestion })
        }
        Some(verbosity) if louder && verbosity != Verbosity::Debug => {
            Err(Fault { at: item, problem: Problem::TwoLevels, suggestion: Some(rest.to_owned()) })
        }
        Some(verbosity) => Ok((name, verbosity)),
    }
}

/// The name of a file without directories and without the last extension; `/` and `\` both separate
/// directories, since `file!()` depends on the machine that compiled.
pub fn file_stem(path: &str) -> &str {
    let name = path.rsplit(['/', '\\']).next().unwrap_or(path);
    name.rsplit_once('.').map_or(name, |(stem, _)| stem)
}

/// The specification from the flag and the environment: the flag if given, otherwise the first
/// non-empty variable. `variable` looks up the environment, which only the driver accesses.
pub fn resolve_spec(
    flag: Option<&str>,
    variable: impl Fn(&str) -> Option<String>,
    known: &KnownNames,
) -> Result<(Spec, Vec<Warning>), SpecError> {
    let from = |origin: &'static str| move |error: SpecError| SpecError { origin: Some(origin), ..error };
    if let Some(text) = flag {
        return parse_spec(text, known).map_err(from(FLAG));
    }
    let set = VARIABLES.map(|name| (name, variable(name)));
    let mut warnings: Vec<Warning> =
        set.iter().filter(|(_, v)| v.as_deref() == Some("")).map(|(name, _)| Warning::EmptyVariable(name)).collect();
    let mut values = set.iter().filter_map(|(name, v)| v.as_deref().filter(|v| !v.is_empty()).map(|v| (*name, v)));
    let Some((origin, text)) = values.next() else {
        return Ok((Spec::default(), warnings));
    };
    if values.any(|(_, other)| other != text) {
        warnings.push(Warning::BothVariables);
    }
    let (spec, more) = parse_spec(text, known).map_err(from(origin))?;
    warnings.extend(more);
    Ok((spec, warnings))
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNOWN: KnownNames = KnownNames(&[
        ("fuser", &["fuse", "FuseGraph"]),
        ("dead_code_elimination", &["dce"]),
        ("guard_elimination", &["eliminate-redundant-guards", "guards"]),
        ("insert_guards", &["guards"]),
    ]);

    fn parse(text: &str) -> Vec<(String, Verbosity)> {
        parse_spec(text, &KNOWN).unwrap().0.entries
    }

    fn error(text: &str) -> SpecError {
        parse_spec(text, &KNOWN).unwrap_err()
    }

    #[test]
    fn spellings_of_a_name() {
        for (text, stem, verbosity) in [
            ("fuser", "fuser", Verbosity::Update),
            (">fuser", "fuser", Verbosity::Debug),
            (">>>>fuser", "fuser", Verbosity::Debug),
            ("fuser.cpp", "fuser", Verbosity::Update),
            (">fuser.h", "fuser", Verbosity::Debug),
            ("passes/fuser.rs", "fuser", Verbosity::Update),
            ("fuse", "fuser", Verbosity::Update),
            ("FuseGraph=debug", "fuser", Verbosity::Debug),
            ("fuser=dump", "fuser", Verbosity::Dump),
            ("fuser.rs=update", "fuser", Verbosity::Update),
            (">fuser=debug", "fuser", Verbosity::Debug),
            ("dead-code-elimination", "dead_code_elimination", Verbosity::Update),
            ("eliminate_redundant_guards", "guard_elimination", Verbosity::Update),
            (" fuser ", "fuser", Verbosity::Update),
        ] {
            assert_eq!(parse(text), [(stem.to_owned(), verbosity)], "{text}");
        }
    }

    #[test]
    fn lists() {
        assert_eq!(parse(""), []);
        assert_eq!(parse("::"), []);
        let two = [("fuser".to_owned(), Verbosity::Debug), ("dead_code_elimination".to_owned(), Verbosity::Update)];
        assert_eq!(parse(">fuser:dce"), two);
        assert_eq!(parse(":>fuser::dce:"), two);
        let both = parse("guards").into_iter().map(|(stem, _)| stem).collect::<Vec<_>>();
        assert_eq!(both, ["guard_elimination", "insert_guards"]);
    }

    #[test]
    fn the_first_of_two_wins() {
        let (spec, warnings) = parse_spec("fuser:>fuser.cpp:fuse", &KNOWN).unwrap();
        assert_eq!(spec.verbosity("fuser"), Some(Verbosity::Update));
        assert_eq!(warnings, [Warning::Repeated { item: ">fuser.cpp".to_owned(), stem: "fuser".to_owned() }]);
        assert!(warnings[0].to_string().contains("`>fuser.cpp` is ignored"));
    }

    #[test]
    fn errors_point_at_the_item() {
        for (text, at, problem, suggestion) in [
            ("dce:>fusr.cpp", "fusr.cpp", Problem::UnknownName, Some("fuser")),
            ("quantise", "quantise", Problem::UnknownName, None),
            ("dead_code", "dead_code", Problem::UnknownName, Some("dead_code_elimination")),
            ("fuser=debig", "debig", Problem::UnknownLevel, Some("debug")),
            ("fuser=", "", Problem::UnknownLevel, None),
            ("dce:>", ">", Problem::MissingName, None),
            ("fuser>", "fuser>", Problem::MissingName, Some(">fuser")),
            ("=debug", "=debug", Problem::MissingName, None),
            (">fuser=dump", ">fuser=dump", Problem::TwoLevels, Some("fuser=dump")),
        ] {
            let e = error(text);
            let found = (&text[e.span.clone()], &e.problem, e.suggestion.as_deref());
            assert_eq!(found, (at, &problem, suggestion), "{text}");
        }
    }

    #[test]
    fn an_error_is_drawn_with_carets() {
        let drawn = error("dce:>fusr:dce").to_string();
        let expected =
            "unknown name `fusr` in the log specification\n  dce:>fusr:dce\n       ^^^^\n  did you mean `fuser`?";
        assert_eq!(drawn, expected);
        assert!(error("é=x:zzz").to_string().contains("\n  é=x:zzz\n    ^\n"));
    }

    #[test]
    fn flag_and_variables() {
        let resolve = |flag, ours: Option<&str>, theirs: Option<&str>| {
            let variable = |name: &str| if name == VARIABLES[0] { ours } else { theirs }.map(str::to_owned);
            resolve_spec(flag, variable, &KNOWN)
        };
        let (spec, warnings) = resolve(Some("dce"), Some("fuser"), Some("nonsense")).unwrap();
        assert!(spec.verbosity("dead_code_elimination").is_some() && spec.verbosity("fuser").is_none());
        assert_eq!(warnings, []);
        let (spec, warnings) = resolve(None, Some("fuser"), Some("dce")).unwrap();
        assert_eq!((spec.loudest(), warnings), (Some(Verbosity::Update), vec![Warning::BothVariables]));
        let (spec, warnings) = resolve(None, Some(""), Some("dce")).unwrap();
        assert_eq!((spec.entries.len(), warnings), (1, vec![Warning::EmptyVariable("JIT_LOG_LEVEL")]));
        let (spec, warnings) = resolve(None, None, None).unwrap();
        assert!(spec.is_empty() && warnings.is_empty());
        let error = resolve(None, None, Some("fusre")).unwrap_err();
        assert_eq!(error.origin, Some("PYTORCH_JIT_LOG_LEVEL"));
        assert!(Warning::EmptyVariable("JIT_LOG_LEVEL").to_string().contains("JIT_LOG_LEVEL='>fuser'"));
    }
}
