//! Pipelines as text: `inline,fixpoint(cse,dce{alias=false}){max=8},@default`.

use super::info::{PassInfo, Registry};
use crate::log::did_you_mean;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// The parsed value of `--passes=`.
#[derive(Clone, Debug, Default)]
pub struct Pipeline {
    /// The steps in order.
    pub steps: Vec<Step>,
}

/// One step.
#[derive(Clone, Debug)]
pub enum Step {
    /// One pass.
    Pass(Stage),
    /// `fixpoint(a,b){max=8}`: repeated until a round changes nothing, or up to the maximum number
    /// of rounds.
    Fixpoint(Pipeline, u64),
    /// `@default`
    Named(&'static NamedPipeline, Pipeline),
    /// `forward(a,b)`, `backward(a,b)`: over one of the graphs of each differentiable subgraph.
    Inside(Side, Pipeline),
}

/// One of the graphs of a differentiable subgraph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The graph that computes the results.
    Forward,
    /// The graph that computes the gradients.
    Backward,
}

impl Side {
    /// The name in a pipeline.
    pub fn name(self) -> &'static str {
        match self {
            Side::Forward => "forward",
            Side::Backward => "backward",
        }
    }
}

/// A pass with its options.
#[derive(Clone, Debug)]
pub struct Stage {
    /// The pass.
    pub pass: &'static PassInfo,
    /// Options that were set.
    pub options: Vec<(&'static str, String)>,
    /// The contents of the files that options name, see [`Pipeline::read_files`].
    pub files: Vec<(&'static str, Arc<[u8]>)>,
}

/// A pipeline with a name.
#[derive(Debug)]
pub struct NamedPipeline {
    /// Without the `@`.
    pub name: &'static str,
    /// One line.
    pub summary: &'static str,
    /// The steps, as `--passes=` takes them.
    pub text: &'static str,
}

/// The reason why a text is not a valid pipeline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PipelineError {
    /// Bytes of the pipeline text.
    pub span: Range<usize>,
    /// The error message.
    pub message: String,
    /// The suggested remedy.
    pub help: Option<String>,
}

/// The default of an option that names a file with a graph.
pub const GRAPH_FILE: &str = "GRAPH.ir";

/// The default of an option that optionally names a JSON file.
pub const JSON_FILE: &str = "FILE.json";

/// Reads a file: its path, and [`GRAPH_FILE`] or [`JSON_FILE`].
pub(crate) type ReadFile<'a, E> = dyn FnMut(&str, &'static str) -> std::result::Result<Vec<u8>, E> + 'a;

/// The default maximum number of rounds of a `fixpoint`.
const DEFAULT_ROUNDS: u64 = 8;

/// The maximum nesting depth of fixpoints and named pipelines.
const MAX_NESTING: usize = 16;

type Result<T> = std::result::Result<T, PipelineError>;

impl Pipeline {
    /// The same without a pass. A named pipeline that contains it is expanded: it would no longer
    /// be what its name says.
    pub fn without(&self, pass: &str) -> Pipeline {
        let mut steps = Vec::new();
        for step in &self.steps {
            match step {
                Step::Pass(stage) if stage.pass.name == pass => {}
                Step::Fixpoint(inner, most) => steps.push(Step::Fixpoint(inner.without(pass), *most)),
                Step::Inside(side, inner) => steps.push(Step::Inside(*side, inner.without(pass))),
                Step::Named(_, inner) if inner.stages().iter().any(|stage| stage.pass.name == pass) => {
                    steps.extend(inner.without(pass).steps);
                }
                other => steps.push(other.clone()),
            }
        }
        Pipeline { steps }
    }

    /// Parses a pipeline.
    pub fn parse(text: &str, registry: &Registry) -> Result<Pipeline> {
        Pipeline::parse_nested(text, registry, 0)
    }

    fn parse_nested(text: &str, registry: &Registry, depth: usize) -> Result<Pipeline> {
        let mut reader = Reader { text, at: 0, registry, depth };
        let pipeline = reader.steps()?;
        reader.blanks();
        match reader.peek() {
            None => Ok(pipeline),
            Some(c) => reader.fail(
                reader.at..reader.at + c.len_utf8(),
                format!("unexpected `{c}`"),
                "passes are separated by `,`",
            ),
        }
    }

    /// Reads the files that options name: passes themselves do not access files.
    pub fn read_files<E>(&mut self, read: &mut ReadFile<'_, E>) -> std::result::Result<(), E> {
        for step in &mut self.steps {
            match step {
                Step::Pass(stage) => stage.read_files(read)?,
                Step::Fixpoint(inner, _) | Step::Named(_, inner) | Step::Inside(_, inner) => inner.read_files(read)?,
            }
        }
        Ok(())
    }

    /// Whether the first pass takes graphs as PyTorch's emitter writes them.
    pub fn begins_with_ssa(&self) -> bool {
        match self.steps.first() {
            Some(Step::Pass(stage)) => stage.pass.name == "convert-to-ssa",
            Some(Step::Named(_, inner)) => inner.begins_with_ssa(),
            _ => false,
        }
    }

    /// All passes, in order, fixpoints once.
    pub fn stages(&self) -> Vec<&Stage> {
        let mut all = Vec::new();
        for step in &self.steps {
            match step {
                Step::Pass(stage) => all.push(stage),
                Step::Fixpoint(inner, _) | Step::Named(_, inner) | Step::Inside(_, inner) => all.extend(inner.stages()),
            }
        }
        all
    }

    /// Whether passes run over graphs of differentiable subgraphs.
    pub fn goes_inside(&self) -> bool {
        self.steps.iter().any(|step| match step {
            Step::Pass(_) => false,
            Step::Fixpoint(inner, _) | Step::Named(_, inner) => inner.goes_inside(),
            Step::Inside(..) => true,
        })
    }
}

impl Stage {
    fn read_files<E>(&mut self, read: &mut ReadFile<'_, E>) -> std::result::Result<(), E> {
        self.files.clear();
        for (name, path) in &self.options {
            let kind = self.pass.option(name).map(|option| option.default);
            if let Some(kind) = kind.filter(|kind| [GRAPH_FILE, JSON_FILE].contains(kind)) {
                self.files.push((name, read(path, kind)?.into()));
            }
        }
        Ok(())
    }
}

impl fmt::Display for Pipeline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, step) in self.steps.iter().enumerate() {
            f.write_str(if i > 0 { "," } else { "" })?;
            match step {
                Step::Pass(stage) => write!(f, "{stage}")?,
                Step::Fixpoint(inner, max) => write!(f, "fixpoint({inner}){{max={max}}}")?,
                Step::Named(_, inner) => write!(f, "{inner}")?,
                Step::Inside(side, inner) => write!(f, "{}({inner})", side.name())?,
            }
        }
        Ok(())
    }
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let set: Vec<String> = self.options.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let options = if set.is_empty() { String::new() } else { format!("{{{}}}", set.join(" ")) };
        write!(f, "{}{options}", self.pass.name)
    }
}

impl fmt::Display for PipelineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl PipelineError {
    /// The pipeline text with a caret under the error.
    pub fn render(&self, text: &str) -> String {
        let column = text.get(..self.span.start).unwrap_or(text).chars().count();
        let width = text.get(self.span.clone()).map_or(1, |t| t.chars().count().max(1));
        let help = self.help.as_deref().map_or(String::new(), |help| format!("\n  help: {help}"));
        format!("{}\n  {text}\n  {}{}{help}", self.message, " ".repeat(column), "^".repeat(width))
    }
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
    registry: &'a Registry,
    depth: usize,
}

impl<'a> Reader<'a> {
    fn peek(&self) -> Option<char> {
        self.text[self.at..].chars().next()
    }

    fn blanks(&mut self) {
        // Pipeline files may have comments and one pass per line.
        loop {
            let rest = &self.text[self.at..];
            let trimmed = rest.trim_start();
            self.at += rest.len() - trimmed.len();
            if !trimmed.starts_with('#') {
                return;
            }
            self.at += trimmed.find('\n').unwrap_or(trimmed.len());
        }
    }

    fn eat(&mut self, token: char) -> bool {
        self.blanks();
        let hit = self.peek() == Some(token);
        if hit {
            self.at += token.len_utf8();
        }
        hit
    }

    fn fail<T>(&self, span: Range<usize>, message: impl Into<String>, help: impl Into<String>) -> Result<T> {
        Err(PipelineError { span, message: message.into(), help: Some(help.into()) })
    }

    fn word(&mut self) -> (&'a str, Range<usize>) {
        self.blanks();
        let rest = &self.text[self.at..];
        let len =
            rest.find(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'))).unwrap_or(rest.len());
        let span = self.at..self.at + len;
        self.at += len;
        (&rest[..len], span)
    }

    fn steps(&mut self) -> Result<Pipeline> {
        let mut steps = Vec::new();
        self.blanks();
        while !matches!(self.peek(), None | Some(')')) {
            steps.push(self.step()?);
            // A trailing comma, or a comma at the end of a line of a file, is harmless.
            if !self.eat(',') {
                break;
            }
            self.blanks();
        }
        Ok(Pipeline { steps })
    }

    fn step(&mut self) -> Result<Step> {
        if self.eat('@') {
            return self.named();
        }
        let (word, span) = self.word();
        if word.is_empty() {
            let end = self.at + self.peek().map_or(0, char::len_utf8);
            return self.fail(self.at..end, "expected the name of a pass", "`jitopt --list-passes` lists them");
        }
        if word == "fixpoint" && self.eat('(') {
            return self.fixpoint(span);
        }
        for side in [Side::Forward, Side::Backward] {
            if word == side.name() && self.eat('(') {
                return Ok(Step::Inside(side, self.nested(side.name(), span)?));
            }
        }
        let Some(pass) = self.registry.pass(word) else {
            return self.unknown_pass(word, span);
        };
        Ok(Step::Pass(Stage { pass, options: self.options(pass)?, files: Vec::new() }))
    }

    fn unknown_pass<T>(&self, word: &str, span: Range<usize>) -> Result<T> {
        let help = match self.registry.nearest_pass(word) {
            Some(name) => format!("did you mean `{name}`?"),
            None if self.registry.pipeline(word).is_some() => format!("named pipelines take an `@`: `@{word}`"),
            None => "`jitopt --list-passes` lists them".to_owned(),
        };
        self.fail(span, format!("unknown pass `{word}`"), help)
    }

    /// The passes in parentheses, after `word(`.
    fn nested(&mut self, word: &str, span: Range<usize>) -> Result<Pipeline> {
        self.depth += 1;
        if self.depth > MAX_NESTING {
            return self.fail(
                span,
                format!("`{word}` is nested too deeply"),
                format!("the maximum depth is {MAX_NESTING}"),
            );
        }
        let inner = self.steps()?;
        self.depth -= 1;
        if !self.eat(')') {
            return self.fail(self.at..self.at + 1, format!("this `{word}(` is not closed"), "expected `)`");
        }
        if inner.steps.is_empty() {
            return self.fail(span, format!("this {word} is empty"), format!("write `{word}(cse,dce)`"));
        }
        Ok(inner)
    }

    fn fixpoint(&mut self, span: Range<usize>) -> Result<Step> {
        let inner = self.nested("fixpoint", span)?;
        let mut max = DEFAULT_ROUNDS;
        for (name, value, span) in self.settings()? {
            match (name, value.parse()) {
                ("max", Ok(n)) if n > 0 => max = n,
                ("max", _) => return self.fail(span, "`max` must be an integer above 0", "write `{max=8}`"),
                _ => return self.fail(span, format!("fixpoint has no option `{name}`"), "it has `max`"),
            }
        }
        Ok(Step::Fixpoint(inner, max))
    }

    fn named(&mut self) -> Result<Step> {
        let (word, span) = self.word();
        let Some(named) = self.registry.pipeline(word) else {
            let names = self.registry.pipelines.iter().map(|p| p.name);
            let help = match did_you_mean(word, names.clone()) {
                Some(name) => format!("did you mean `@{name}`?"),
                None => format!("there are {}", names.map(|n| format!("`@{n}`")).collect::<Vec<_>>().join(", ")),
            };
            return self.fail(span, format!("unknown pipeline `@{word}`"), help);
        };
        if self.depth >= MAX_NESTING {
            return self.fail(
                span,
                "named pipelines are nested too deeply",
                format!("the maximum depth is {MAX_NESTING}"),
            );
        }
        let inner = Pipeline::parse_nested(named.text, self.registry, self.depth + 1);
        inner.map(|inner| Step::Named(named, inner)).map_err(|error| PipelineError { span, ..error })
    }

    /// `{a=1 b flag}` for a pass.
    fn options(&mut self, pass: &'static PassInfo) -> Result<Vec<(&'static str, String)>> {
        let mut options = Vec::new();
        for (name, value, span) in self.settings()? {
            let Some(option) = pass.option(name) else {
                let names = pass.options.iter().map(|o| o.name);
                let help = match (did_you_mean(name, names.clone()), pass.options) {
                    (Some(near), _) => format!("did you mean `{near}`?"),
                    (None, []) => "it has no options".to_owned(),
                    (None, _) => format!("it has {}", names.map(|n| format!("`{n}`")).collect::<Vec<_>>().join(", ")),
                };
                return self.fail(span, format!("`{}` has no option `{name}`", pass.name), help);
            };
            if !fits(option.default, &value) {
                let message = format!("`{value}` is not a valid value for `{name}` of `{}`", pass.name);
                return self.fail(span, message, allowed(option));
            }
            if options.iter().any(|(given, _)| *given == option.name) {
                return self.fail(span, format!("`{name}` of `{}` is given twice", pass.name), "give one value");
            }
            options.push((option.name, value));
        }
        Ok(options)
    }

    fn settings(&mut self) -> Result<Vec<(&'a str, String, Range<usize>)>> {
        let mut settings = Vec::new();
        if self.peek() != Some('{') {
            return Ok(settings);
        }
        let open = self.at;
        self.at += 1;
        while !self.eat('}') {
            self.eat(',');
            let (name, span) = self.word();
            if name.is_empty() {
                return self.fail(open..open + 1, "these options are not closed", "write `{name=value flag}`");
            }
            let value = if self.eat('=') { self.value() } else { "true".to_owned() };
            settings.push((name, value, span.start..self.at));
        }
        Ok(settings)
    }

    fn value(&mut self) -> String {
        let rest = &self.text[self.at..];
        let len = rest.find(|c: char| c.is_whitespace() || matches!(c, '}' | ',')).unwrap_or(rest.len());
        self.at += len;
        rest[..len].to_owned()
    }
}

/// The allowed values.
fn allowed(option: &super::PassOption) -> String {
    let default = option.default;
    match default {
        "true" | "false" => format!("`true` or `false`; the default is `{default}`"),
        _ if option.summary.is_empty() => format!("an integer; the default is `{default}`"),
        _ => format!("an integer: {}; the default is `{default}`", option.summary),
    }
}

/// Whether a value has the kind of the default: a flag, an integer, or any text.
fn fits(default: &str, value: &str) -> bool {
    match default {
        "true" | "false" => matches!(value, "true" | "false"),
        _ if default.parse::<u64>().is_ok() => value.parse::<u64>().is_ok(),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pass::PassOption;

    const fn pass(name: &'static str, options: &'static [PassOption]) -> PassInfo {
        let (aliases, summary, example, file): (&[&str], _, _, _) =
            (&["eliminate_dead"], "", "", "passes/some_pass.rs");
        PassInfo {
            name,
            aliases,
            summary,
            example,
            options,
            required: false,
            reads_shapes: false,
            run: |_, _| Ok(()),
            file,
        }
    }

    static PASSES: [PassInfo; 2] = [
        pass("cse", &[]),
        pass(
            "unroll",
            &[
                PassOption { name: "factor", default: "8", summary: "" },
                PassOption { name: "peel", default: "false", summary: "" },
            ],
        ),
    ];
    static PIPELINES: [NamedPipeline; 1] = [NamedPipeline { name: "default", summary: "", text: "cse,unroll{peel}" }];
    const REGISTRY: Registry = Registry { passes: &PASSES, pipelines: &PIPELINES };

    #[test]
    fn pipelines_print_as_they_are_read() {
        for (text, printed) in [
            ("cse", "cse"),
            (" cse , unroll{factor=4 peel} ", "cse,unroll{factor=4 peel=true}"),
            ("fixpoint(cse,unroll){max=3},cse", "fixpoint(cse,unroll){max=3},cse"),
            ("@default", "cse,unroll{peel=true}"),
            ("eliminate-dead", "cse"),
            ("cse,  # the first\nunroll\n", "cse,unroll"),
            ("", ""),
        ] {
            let pipeline = Pipeline::parse(text, &REGISTRY).unwrap_or_else(|e| panic!("{}", e.render(text)));
            assert_eq!(pipeline.to_string(), printed);
            assert_eq!(Pipeline::parse(printed, &REGISTRY).map(|p| p.to_string()), Ok(printed.to_owned()));
        }
    }

    #[test]
    fn a_bad_pipeline_is_shown_with_its_position_and_advice() {
        for (text, at, help) in [
            ("cse,unrol", 4..9, "did you mean `unroll`?"),
            ("unroll{facto=3}", 7..14, "did you mean `factor`?"),
            ("unroll{factor=x}", 7..15, "an integer; the default is `8`"),
            ("cse{x}", 4..5, "it has no options"),
            ("@defalt", 1..7, "did you mean `@default`?"),
            ("fixpoint(cse", 12..13, "expected `)`"),
            ("cse)", 3..4, "passes are separated by `,`"),
            ("cse dce", 4..5, "passes are separated by `,`"),
            ("unroll{peel", 6..7, "write `{name=value flag}`"),
            (",cse", 0..1, "`jitopt --list-passes` lists them"),
        ] {
            let error = Pipeline::parse(text, &REGISTRY).err().unwrap_or_else(|| panic!("{text} was read"));
            assert_eq!((error.span.clone(), error.help.as_deref()), (at, Some(help)), "{text}: {}", error.message);
        }
    }
}
