//! Reads the directives of a check file.

use crate::blanks::Canonical;
use crate::directive_typos::{SUFFIXES, did_you_mean, misspelt};
use crate::needle::{Needle, Pattern};
use crate::outcome::Outcome;
use crate::pieces::{BadPattern, Piece, cut};
use crate::problem::Problem;
use crate::{Dialect, Options, llvm_match, pytorch_match};

/// The condition that a directive puts on its match.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Plain,
    Next,
    Same,
    Not,
    Dag,
    Label,
    Empty,
}

/// One directive.
#[derive(Debug)]
pub(crate) struct Directive {
    pub(crate) kind: Kind,
    /// Number of consecutive matches required.
    pub(crate) count: usize,
    pub(crate) needle: Needle,
    /// As written, from the prefix to the end of the line.
    pub(crate) spelling: String,
    /// Line of the check file, from 1.
    pub(crate) line: usize,
    /// Column of the pattern, from 1.
    pub(crate) column: usize,
    /// The line of the check file.
    pub(crate) source: String,
}

impl Directive {
    /// The part up to the colon, for messages.
    pub(crate) fn word(&self) -> &str {
        self.spelling.split_once(':').map_or(&self.spelling, |(word, _)| word)
    }
}

/// A valid check file, which can be run on any number of inputs.
#[derive(Debug)]
pub struct CheckFile {
    pub(crate) name: String,
    pub(crate) directives: Vec<Directive>,
    options: Options,
}

impl CheckFile {
    /// Reads a check file; on failure returns every mistake in it, not just the first.
    pub fn parse(name: &str, text: &str, options: &Options) -> Result<CheckFile, Vec<Problem>> {
        let mut reader = Reader::new(name, options);
        reader.check_prefixes();
        for (index, line) in text.split('\n').enumerate() {
            match options.dialect {
                Dialect::Llvm => reader.llvm_line(index + 1, line.strip_suffix('\r').unwrap_or(line)),
                Dialect::PyTorch => reader.pytorch_line(index + 1, line),
            }
        }
        reader.check_presence(text);
        if reader.problems.is_empty() {
            Ok(CheckFile { name: name.to_owned(), directives: reader.directives, options: options.clone() })
        } else {
            Err(reader.problems)
        }
    }

    /// Runs the checks over an input.
    pub fn run(&self, input_name: &str, input: &str) -> Outcome {
        if input.is_empty() && !self.options.allow_empty && self.options.dialect == Dialect::Llvm {
            return Outcome::empty_input(self, input_name);
        }
        match self.options.dialect {
            Dialect::Llvm => {
                let canonical = Canonical::new(input, self.options.strict_whitespace);
                let states = llvm_match::run(&self.directives, &canonical.text);
                Outcome::new(self, input_name, &canonical, states)
            }
            Dialect::PyTorch => {
                let canonical = Canonical::verbatim(input);
                let states = pytorch_match::run(&self.directives, input);
                Outcome::new(self, input_name, &canonical, states)
            }
        }
    }
}

struct Reader<'a> {
    name: &'a str,
    options: &'a Options,
    /// Longest first, so that `CHECK-CSE` is not taken for `CHECK`.
    prefixes: Vec<String>,
    used: Vec<bool>,
    directives: Vec<Directive>,
    problems: Vec<Problem>,
    has_positive: bool,
}

/// The head of a directive: its kind, and where its pattern starts in the line.
struct Head {
    kind: Kind,
    count: usize,
    literal: bool,
    end: usize,
}

/// The reason why a prefix with something after it is not a directive.
enum NoHead {
    /// A longer word that starts with the prefix.
    Word,
    /// An error, with help.
    Wrong(String, Option<String>),
}

impl<'a> Reader<'a> {
    fn new(name: &'a str, options: &'a Options) -> Reader<'a> {
        let mut prefixes = match options.dialect {
            Dialect::Llvm => options.prefixes.clone(),
            Dialect::PyTorch => vec!["CHECK".to_owned()],
        };
        prefixes.sort_by_key(|prefix| std::cmp::Reverse(prefix.len()));
        let used = vec![false; prefixes.len()];
        Reader { name, options, prefixes, used, directives: Vec::new(), problems: Vec::new(), has_positive: false }
    }

    fn problem(&mut self, line: usize, source: &str, at: usize, message: impl Into<String>, help: Option<String>) {
        let column = source[..at.min(source.len())].chars().count() + 1;
        let (file, message, source) = (self.name.to_owned(), message.into(), source.to_owned());
        self.problems.push(Problem { file, line, column, message, help, source });
    }

    /// Prefixes must be words, and different ones.
    fn check_prefixes(&mut self) {
        let word = |prefix: &str| {
            let part = prefix.bytes().all(|b| is_part_of_word(char::from(b)));
            part && prefix.bytes().next().is_some_and(|b| b.is_ascii_alphabetic())
        };
        for (index, prefix) in self.prefixes.iter().enumerate() {
            let message = if !word(prefix) {
                format!("`{prefix}` cannot be a check prefix: a letter, then letters, digits, `-` and `_`")
            } else if self.prefixes[..index].contains(prefix) {
                format!("the check prefix `{prefix}` is given twice")
            } else {
                continue;
            };
            self.problems.push(Problem::whole(self.name, message, None));
        }
        if self.prefixes.is_empty() {
            self.problems.push(Problem::whole(self.name, "no check prefix is given", None));
        }
    }

    /// A line holds at most one directive.
    fn llvm_line(&mut self, number: usize, line: &str) {
        let mut from = 0;
        while let Some((at, prefix)) = self.next_prefix(line, from) {
            let Some(index) = prefix else { return };
            match llvm_head(line, at, &self.prefixes[index]) {
                Ok(head) => {
                    self.used[index] = true;
                    return self.llvm_directive(number, line, at, head);
                }
                Err(NoHead::Wrong(message, help)) => {
                    self.used[index] = true;
                    return self.problem(number, line, at, message, help);
                }
                Err(NoHead::Word) => from = at + word_length(&line[at..]),
            }
        }
        self.look_for_misspelling(number, line);
    }

    fn look_for_misspelling(&mut self, number: usize, line: &str) {
        if let Some(found) = misspelt(line, &self.prefixes) {
            let message = format!("`{}` is not a directive", found.word);
            self.problem(number, line, found.at, message, Some(format!("did you mean `{}`?", found.meant)));
        }
    }

    /// The next position of a prefix that starts a word; the inner `None` marks a comment (`RUN:`
    /// or `COM:`).
    fn next_prefix(&self, line: &str, from: usize) -> Option<(usize, Option<usize>)> {
        let starts = |at: usize| !line[..at].chars().next_back().is_some_and(is_part_of_word);
        let places = line[from..].char_indices().map(|(offset, _)| from + offset).filter(|at| starts(*at));
        for at in places {
            let rest = &line[at..];
            if let Some(index) = self.prefixes.iter().position(|prefix| rest.starts_with(prefix)) {
                return Some((at, Some(index)));
            }
            if rest.starts_with("RUN:") || rest.starts_with("COM:") {
                return Some((at, None));
            }
        }
        None
    }

    fn llvm_directive(&mut self, number: usize, line: &str, at: usize, head: Head) {
        let verbatim = self.options.strict_whitespace && self.options.match_full_lines;
        let raw = &line[head.end..];
        let (start, text) = match verbatim {
            true => (head.end, raw),
            false => (line.len() - raw.trim_start_matches([' ', '\t']).len(), raw.trim_matches([' ', '\t'])),
        };
        let canonical = Canonical::new(text, self.options.strict_whitespace).text;
        let needle = match self.llvm_needle(&head, &canonical) {
            Ok(needle) => needle,
            Err(error) => return self.problem(number, line, start + error.at, error.message, error.help),
        };
        let word = line[at..head.end].trim_end_matches(':').to_owned();
        if head.kind == Kind::Label && needle.has_variables() {
            let message = format!("`{word}` cannot define or use variables: it is found before they have values");
            return self.problem(number, line, start, message, None);
        }
        if matches!(head.kind, Kind::Next | Kind::Same | Kind::Empty) && !self.has_positive {
            let help = Some("start with a plain or a LABEL directive".to_owned());
            return self.problem(number, line, at, format!("`{word}` has no match before it to refer to"), help);
        }
        self.has_positive |= !matches!(head.kind, Kind::Not | Kind::Dag);
        self.push(number, line, (at, start), (head.kind, head.count), needle);
    }

    fn push(
        &mut self,
        number: usize,
        line: &str,
        (at, start): (usize, usize),
        (kind, count): (Kind, usize),
        needle: Needle,
    ) {
        let column = line[..start].chars().count() + 1;
        let spelling = line[at..].trim_end().to_owned();
        self.directives.push(Directive {
            kind,
            count,
            needle,
            spelling,
            line: number,
            column,
            source: line.to_owned(),
        });
    }

    fn llvm_needle(&self, head: &Head, text: &str) -> Result<Needle, BadPattern> {
        let wrong = |message: &str| Err(BadPattern { at: 0, message: message.to_owned(), help: None });
        if head.kind == Kind::Empty {
            return if text.is_empty() { Ok(Needle::BlankLine) } else { wrong("EMPTY takes no text") };
        }
        if text.is_empty() {
            return wrong("nothing to check for");
        }
        let full = self.options.match_full_lines && head.kind != Kind::Not;
        if head.literal {
            return Ok(Needle::Literal(text.to_owned()));
        }
        let mut pieces = cut(text)?;
        if full {
            let blanks = if self.options.strict_whitespace { "" } else { " *" };
            pieces.insert(0, Piece::Expression(format!("^{blanks}")));
            pieces.push(Piece::Expression(format!("{blanks}$")));
        }
        Ok(match pieces.as_slice() {
            [Piece::Text(literal)] => Needle::Literal(literal.clone()),
            _ => Needle::Pattern(Pattern::new(pieces)),
        })
    }

    /// `#`, up to six blanks, `CHECK`, a suffix, a colon and a blank.
    fn pytorch_line(&mut self, number: usize, line: &str) {
        let Some((at, tail)) = pytorch_start(line) else {
            return self.look_for_misspelling_after_hash(number, line);
        };
        self.used[0] = true;
        let Some(head) = pytorch_head(tail) else {
            let help = self.pytorch_help(line, tail);
            return self.problem(number, line, at, "this directive cannot be parsed as PyTorch does", help);
        };
        let pattern = &tail[head.end..];
        let start = line.len() - pattern.len();
        let needle = match head.shape {
            Shape::Text => Needle::Literal(pattern.to_owned()),
            Shape::Highlighted => Needle::Highlighted(pattern.to_owned()),
            Shape::Expression => match crate::pieces::checked(pattern, start) {
                Ok(expression) => Needle::Pattern(Pattern::new(vec![Piece::Expression(expression)])),
                Err(error) => return self.problem(number, line, error.at, error.message, error.help),
            },
        };
        self.push(number, line, (at, start), (head.kind, head.count), needle);
        if head.exactly {
            let needle = Needle::Literal(pattern.to_owned());
            self.push(number, line, (at, start), (Kind::Not, 1), needle);
        }
    }

    fn look_for_misspelling_after_hash(&mut self, number: usize, line: &str) {
        let hash = line.find('#').filter(|at| !line[at + 1..].trim_start().starts_with("CHECK"));
        if hash.is_some() {
            self.look_for_misspelling(number, line);
        }
    }

    fn pytorch_help(&self, line: &str, tail: &str) -> Option<String> {
        if tail.starts_with(':') || pytorch_suffix(tail).is_some() {
            return Some("one blank must follow the colon".to_owned());
        }
        if ["-LABEL:", "-EMPTY:"].iter().any(|suffix| tail.starts_with(suffix)) {
            return Some("PyTorch has no such directive; LLVM's dialect does".to_owned());
        }
        misspelt(line, &self.prefixes).map(|found| format!("did you mean `{}`?", found.meant))
    }

    /// Every prefix must occur, and there must be something to check.
    fn check_presence(&mut self, text: &str) {
        let unused = self.prefixes.iter().zip(&self.used).filter(|(_, used)| !**used);
        let unused: Vec<String> = unused.map(|(prefix, _)| prefix.clone()).collect();
        if unused.is_empty() || !self.problems.is_empty() {
            return;
        }
        let message = match self.directives.is_empty() {
            true => format!("no checks: nothing starts with {}", list(&self.prefixes)),
            false => format!("no directive starts with {}", list(&unused)),
        };
        let help = self.present_prefix(text, &unused);
        let help = help.map(|other| format!("did you mean the prefix `{other}`?"));
        self.problems.push(Problem::whole(self.name, message, help));
    }

    /// A word of the file that looks like a prefix, and is probably a misspelling of an unused one.
    fn present_prefix(&self, text: &str, unused: &[String]) -> Option<String> {
        let present: Vec<&str> = text.lines().filter_map(prefix_in).collect();
        let others = || present.iter().copied().filter(|word| !self.prefixes.iter().any(|prefix| prefix == word));
        let similar = unused.iter().find_map(|prefix| did_you_mean(prefix, others()));
        let any = || others().find(|word| word.contains("CHECK"));
        similar.or_else(any).map(str::to_owned)
    }
}

/// The uppercase word that a line appears to use as a prefix.
fn prefix_in(line: &str) -> Option<&str> {
    let (head, _) = line.split_once(':')?;
    let before = head.char_indices().rfind(|&(_, c)| !is_part_of_word(c));
    let start = before.map_or(0, |(at, c)| at + c.len_utf8());
    let word = &head[start..];
    let suffix = SUFFIXES.iter().find_map(|suffix| word.strip_suffix(suffix)?.strip_suffix('-'));
    let prefix = suffix.unwrap_or(word);
    let capital = prefix.bytes().any(|b| b.is_ascii_uppercase()) && !prefix.bytes().any(|b| b.is_ascii_lowercase());
    (capital && prefix != "RUN" && prefix != "COM").then_some(prefix)
}

fn list(words: &[String]) -> String {
    words.iter().map(|word| format!("`{word}:`")).collect::<Vec<_>>().join(" or ")
}

/// Characters that may not precede a prefix.
fn is_part_of_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '-' | '_')
}

fn word_length(text: &str) -> usize {
    text.find(|c| !is_part_of_word(c)).unwrap_or(text.len())
}

/// The head of the directive at `at`.
fn llvm_head(line: &str, at: usize, prefix: &str) -> Result<Head, NoHead> {
    let tail = &line[at + prefix.len()..];
    let Some(suffix) = tail.strip_prefix('-') else {
        return modifiers(line, tail, Kind::Plain, 1);
    };
    if let Some(number) = suffix.strip_prefix("COUNT-") {
        return count(line, number);
    }
    let Some(name) = SUFFIXES.iter().find(|name| suffix.starts_with(**name)) else {
        return Err(NoHead::Word);
    };
    let after = &suffix[name.len()..];
    let combined = after.strip_prefix('-').and_then(|second| second.split_once(':')).map(|(second, _)| second);
    if combined.is_some_and(|second| SUFFIXES.contains(&second)) {
        return Err(NoHead::Wrong("suffixes cannot be combined".to_owned(), None));
    }
    modifiers(line, after, kind(name), 1)
}

fn kind(suffix: &str) -> Kind {
    match suffix {
        "NEXT" => Kind::Next,
        "SAME" => Kind::Same,
        "NOT" => Kind::Not,
        "DAG" => Kind::Dag,
        "LABEL" => Kind::Label,
        _ => Kind::Empty,
    }
}

/// After `-COUNT-`: a number that is not zero.
fn count(line: &str, number: &str) -> Result<Head, NoHead> {
    let digits = number.find(|c: char| !c.is_ascii_digit()).unwrap_or(number.len());
    let value = number[..digits].parse::<usize>().ok().filter(|count| (1..=i32::MAX as usize).contains(count));
    match (value, number[digits..].starts_with([':', '{'])) {
        (Some(count), true) => modifiers(line, &number[digits..], Kind::Plain, count),
        _ if number.starts_with("EXACTLY") => {
            let help = "COUNT-EXACTLY belongs to the PyTorch dialect; here add a NOT directive".to_owned();
            Err(NoHead::Wrong("COUNT needs a number".to_owned(), Some(help)))
        }
        _ => Err(NoHead::Wrong("COUNT needs a positive number, then a colon".to_owned(), None)),
    }
}

/// A colon, or `{LITERAL}` and a colon.
fn modifiers(line: &str, tail: &str, kind: Kind, count: usize) -> Result<Head, NoHead> {
    let (literal, rest) = match tail.strip_prefix('{').and_then(|inner| inner.split_once('}')) {
        Some((inner, rest)) if inner.split(',').all(|word| word.trim() == "LITERAL") => (true, rest),
        _ => (false, tail),
    };
    match rest.strip_prefix(':') {
        Some(pattern) => Ok(Head { kind, count, literal, end: line.len() - pattern.len() }),
        None => Err(NoHead::Word),
    }
}

/// The syntax of the pattern of a PyTorch directive.
enum Shape {
    Text,
    Highlighted,
    Expression,
}

struct PyTorchHead {
    kind: Kind,
    shape: Shape,
    count: usize,
    exactly: bool,
    /// The start of the pattern, counted from the end of `CHECK`.
    end: usize,
}

/// The position of `CHECK` after a `#` and at most six blanks, and the text after it.
fn pytorch_start(line: &str) -> Option<(usize, &str)> {
    let mut from = 0;
    loop {
        let after = from + line.get(from..)?.find('#')? + 1;
        let blanks = line[after..].bytes().take(6).take_while(|b| matches!(b, b' ' | b'\t')).count();
        let at = after + blanks;
        if let Some(tail) = line[at..].strip_prefix("CHECK") {
            return Some((at, tail));
        }
        // PyTorch continues after the character examined, so `## CHECK:` disables a check.
        from = at + line[at..].chars().next()?.len_utf8();
    }
}

const PYTORCH: [(&str, Kind, Shape); 7] = [
    (":", Kind::Plain, Shape::Text),
    ("-NEXT:", Kind::Next, Shape::Text),
    ("-SAME:", Kind::Same, Shape::Text),
    ("-NOT:", Kind::Not, Shape::Text),
    ("-DAG:", Kind::Dag, Shape::Text),
    ("-SOURCE-HIGHLIGHTED:", Kind::Plain, Shape::Highlighted),
    ("-REGEX:", Kind::Plain, Shape::Expression),
];

/// The suffix up to its colon, for directives that take no count.
fn pytorch_suffix(tail: &str) -> Option<(&'static str, Kind, Shape)> {
    PYTORCH.into_iter().find(|(suffix, ..)| tail.starts_with(suffix))
}

fn pytorch_head(tail: &str) -> Option<PyTorchHead> {
    if let Some(number) = tail.strip_prefix("-COUNT-") {
        let exact = number.strip_prefix("EXACTLY-");
        let (digits, pattern) = exact.unwrap_or(number).split_once(": ")?;
        let count = digits.parse().ok().filter(|count| *count > 0)?;
        let end = tail.len() - pattern.len();
        return Some(PyTorchHead { kind: Kind::Plain, shape: Shape::Text, count, exactly: exact.is_some(), end });
    }
    let (suffix, kind, shape) = pytorch_suffix(tail)?;
    let end = suffix.len() + 1;
    tail[suffix.len()..].starts_with(' ').then_some(PyTorchHead { kind, shape, count: 1, exactly: false, end })
}

#[cfg(test)]
mod tests {
    use super::prefix_in;

    #[test]
    fn a_letter_that_is_not_ascii_may_stand_before_a_prefix() {
        assert_eq!([prefix_in("# \u{e9}CHECK: x"), prefix_in("\u{e9}: x")], [Some("CHECK"), None]);
    }
}
