//! The search pattern of a directive, with POSIX semantics: leftmost, then longest.

use crate::pieces::Piece;
use crate::translate::may_stop_short;
use regex_lite::{Captures, Regex};
use std::collections::HashMap;
use std::ops::Range;
use std::sync::OnceLock;

/// Values of variables.
pub(crate) type Variables = HashMap<String, String>;

/// A search pattern.
#[derive(Debug)]
pub(crate) enum Needle {
    /// Exactly this.
    Literal(String),
    /// Text with expressions and variables.
    Pattern(Pattern),
    /// The start of an empty line.
    BlankLine,
    /// Text that is underlined with `~` on the next line.
    Highlighted(String),
}

/// A match.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) range: Range<usize>,
    /// Variables that the match defines.
    pub(crate) bound: Vec<(String, String)>,
}

impl Found {
    fn plain(range: Range<usize>) -> Found {
        Found { range, bound: Vec::new() }
    }
}

/// The reason why a search was impossible.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Impossible {
    /// These variables have no value yet.
    Undefined(Vec<String>),
    /// The expression is invalid once the values are substituted, for example too large.
    Expression(String),
}

impl Needle {
    /// The first match in the text.
    pub(crate) fn find(&self, text: &str, variables: &Variables) -> Result<Option<Found>, Impossible> {
        Ok(match self {
            Needle::Literal(literal) => text.find(literal).map(|at| Found::plain(at..at + literal.len())),
            Needle::Pattern(pattern) => return pattern.find(text, variables),
            Needle::BlankLine => blank_line(text).map(|at| Found::plain(at..at)),
            Needle::Highlighted(token) => highlighted(text, token).map(Found::plain),
        })
    }

    /// Whether the pattern defines or uses variables.
    pub(crate) fn has_variables(&self) -> bool {
        let variable = |piece: &Piece| matches!(piece, Piece::Define(..) | Piece::Use(_));
        matches!(self, Needle::Pattern(pattern) if pattern.pieces.iter().any(variable))
    }

    /// The variables used whose value comes from an earlier directive, with that value.
    pub(crate) fn inputs<'v>(&self, variables: &'v Variables) -> Vec<(&str, &'v str)> {
        let Needle::Pattern(pattern) = self else {
            return Vec::new();
        };
        let value = |name: &String| variables.get(name).map(String::as_str).unwrap_or("");
        pattern.outer_uses().into_iter().map(|name| (name.as_str(), value(name))).collect()
    }

    /// A text similar to a match, used to find lines that nearly match.
    pub(crate) fn sample(&self, variables: &Variables) -> String {
        let part = |piece: &Piece| match piece {
            Piece::Text(text) => text.clone(),
            Piece::Use(name) => variables.get(name).cloned().unwrap_or_default(),
            Piece::Expression(_) | Piece::Define(..) => String::new(),
        };
        match self {
            Needle::Literal(text) | Needle::Highlighted(text) => text.clone(),
            Needle::Pattern(pattern) => pattern.pieces.iter().map(part).collect(),
            Needle::BlankLine => String::new(),
        }
    }
}

/// The start of the first empty line after a newline; the end of a text that ends in a newline is
/// one.
fn blank_line(text: &str) -> Option<usize> {
    let empty = |at: &usize| matches!(text.as_bytes().get(at + 1), None | Some(b'\n'));
    text.match_indices('\n').map(|(at, _)| at).find(empty).map(|at| at + 1)
}

/// The first position of the token where exactly its columns are underlined on the next line.
fn highlighted(text: &str, token: &str) -> Option<Range<usize>> {
    let underlined = |at: &usize| {
        let line_start = text[..*at].rfind('\n').map_or(0, |newline| newline + 1);
        let column = at - line_start;
        let Some(next) = text[*at..].find('\n').map(|newline| at + newline + 1) else {
            return false;
        };
        let line = text[next..].lines().next().unwrap_or("").as_bytes();
        let tilde = |column: usize| line.get(column) == Some(&b'~');
        let whole = (column..column + token.len()).all(tilde);
        whole && !(column > 0 && tilde(column - 1)) && !tilde(column + token.len())
    };
    text.match_indices(token).map(|(at, _)| at).find(underlined).map(|at| at..at + token.len())
}

/// A pattern with expressions or variables.
#[derive(Debug)]
pub(crate) struct Pattern {
    pieces: Vec<Piece>,
    /// Whether the crate's first match could differ from the longest, or a variable is used where
    /// it is defined.
    search_longest: bool,
    /// The compiled pattern, when it depends on no value.
    compiled: OnceLock<Regex>,
}

impl Pattern {
    /// A pattern of these pieces.
    pub(crate) fn new(pieces: Vec<Piece>) -> Pattern {
        let unsure = |piece: &Piece| match piece {
            Piece::Expression(text) | Piece::Define(_, text) => may_stop_short(text),
            Piece::Text(_) | Piece::Use(_) => false,
        };
        let search_longest = pieces.iter().any(unsure) || (0..pieces.len()).any(|at| is_inner_use(&pieces, at));
        Pattern { pieces, search_longest, compiled: OnceLock::new() }
    }

    /// Names used before this pattern defines them.
    fn outer_uses(&self) -> Vec<&String> {
        let pieces = self.pieces.iter().enumerate();
        let outer = pieces.filter_map(|(at, piece)| match piece {
            Piece::Use(name) if !is_inner_use(&self.pieces, at) => Some(name),
            _ => None,
        });
        outer.collect()
    }

    fn find(&self, text: &str, variables: &Variables) -> Result<Option<Found>, Impossible> {
        let whole = self.compile(variables)?;
        if !self.search_longest {
            return Ok(whole.captures(text).map(|captures| self.found(&captures)));
        }
        let steps = self.steps(variables)?;
        let closed = compile(&format!("(?:{})\\z", self.expression(variables)))?;
        let mut from = 0;
        while let Some(captures) = whole.captures_at(text, from) {
            let greedy = captures.get(0).map_or(from..from, |found| found.range());
            let shortest = if self.has_inner_use() { greedy.start } else { greedy.end };
            let last = line_end(text, greedy.end).min(shortest + MOST_ENDS).max(greedy.end);
            let ends = ends(text, shortest, last);
            for end in ends.filter(|end| reaches(&closed, text, greedy.start, *end)) {
                let mut bound = Vec::new();
                if walk(&steps, text, greedy.start, end, &mut bound) {
                    return Ok(Some(Found { range: greedy.start..end, bound }));
                }
            }
            match text[greedy.start..].chars().next() {
                Some(c) => from = greedy.start + c.len_utf8(),
                None => break,
            }
        }
        Ok(None)
    }

    fn has_inner_use(&self) -> bool {
        (0..self.pieces.len()).any(|at| is_inner_use(&self.pieces, at))
    }

    /// The match and the variables as the crate found them.
    fn found(&self, captures: &Captures<'_>) -> Found {
        let value = |at: usize| captures.name(&group(at)).map_or("", |found| found.as_str()).to_owned();
        let definition = |(at, piece): (usize, &Piece)| match piece {
            Piece::Define(name, _) => Some((name.clone(), value(at))),
            _ => None,
        };
        let bound = self.pieces.iter().enumerate().filter_map(definition).collect();
        Found { range: captures.get(0).map_or(0..0, |found| found.range()), bound }
    }

    fn compile(&self, variables: &Variables) -> Result<Regex, Impossible> {
        if let Some(compiled) = self.compiled.get() {
            return Ok(compiled.clone());
        }
        let uses = self.outer_uses();
        let undefined: Vec<String> =
            uses.iter().filter(|name| !variables.contains_key(**name)).map(|n| (*n).clone()).collect();
        if !undefined.is_empty() {
            return Err(Impossible::Undefined(undefined));
        }
        let compiled = compile(&self.expression(variables))?;
        if uses.is_empty() {
            return Ok(self.compiled.get_or_init(|| compiled).clone());
        }
        Ok(compiled)
    }

    /// The whole pattern as one expression. A use of a name that the pattern itself defines is
    /// replaced by its expression: that matches more than the use may, which the steps then verify.
    fn expression(&self, variables: &Variables) -> String {
        let part = |(at, piece): (usize, &Piece)| match piece {
            Piece::Text(text) => regex_lite::escape(text),
            Piece::Expression(text) => format!("(?:{text})"),
            Piece::Define(_, text) => format!("(?P<{}>{text})", group(at)),
            Piece::Use(name) => match inner_definition(&self.pieces, at) {
                Some(text) => format!("(?:{text})"),
                None => regex_lite::escape(variables.get(name).map_or("", String::as_str)),
            },
        };
        self.pieces.iter().enumerate().map(part).collect()
    }

    fn steps(&self, variables: &Variables) -> Result<Vec<Step>, Impossible> {
        let step = |(at, piece): (usize, &Piece)| {
            Ok(match piece {
                Piece::Text(text) => Step::Literal(text.clone()),
                Piece::Expression(text) => Step::Match(None, compile(&format!("(?:{text})\\z"))?),
                Piece::Define(name, text) => Step::Match(Some(name.clone()), compile(&format!("(?:{text})\\z"))?),
                Piece::Use(name) if is_inner_use(&self.pieces, at) => Step::Again(name.clone()),
                Piece::Use(name) => Step::Literal(variables.get(name).cloned().unwrap_or_default()),
            })
        };
        self.pieces.iter().enumerate().map(step).collect()
    }
}

/// Groups are numbered, because variables may begin with `$`.
fn group(at: usize) -> String {
    format!("jitopt{at}")
}

/// The expression that defines the name used at `at`, if it is defined earlier in the same pattern.
fn inner_definition(pieces: &[Piece], at: usize) -> Option<&str> {
    let Piece::Use(used) = &pieces[at] else { return None };
    pieces[..at].iter().rev().find_map(|piece| match piece {
        Piece::Define(name, text) if name == used => Some(text.as_str()),
        _ => None,
    })
}

fn is_inner_use(pieces: &[Piece], at: usize) -> bool {
    inner_definition(pieces, at).is_some()
}

fn compile(expression: &str) -> Result<Regex, Impossible> {
    Regex::new(&format!("(?m){expression}")).map_err(|error| Impossible::Expression(error.to_string()))
}

/// A part of a pattern with all values substituted.
enum Step {
    Literal(String),
    /// An expression anchored with `\z`, whose match may become a value.
    Match(Option<String>, Regex),
    /// The value bound by an earlier step.
    Again(String),
}

/// Maximum number of positions after the shortest match that are tried for a longer one; lines with
/// constants may have any length.
const MOST_ENDS: usize = 4_096;

/// Whether the steps match exactly `from..to`; earlier steps are greedy.
fn walk(steps: &[Step], text: &str, from: usize, to: usize, bound: &mut Vec<(String, String)>) -> bool {
    let Some((step, rest)) = steps.split_first() else {
        return from == to;
    };
    let skip = |literal: &str| text[from..to].starts_with(literal).then_some(from + literal.len());
    match step {
        Step::Literal(literal) => skip(literal).is_some_and(|next| walk(rest, text, next, to, bound)),
        Step::Again(name) => {
            let value = bound.iter().rev().find(|(other, _)| other == name).map(|(_, value)| value.clone());
            value.and_then(|value| skip(&value)).is_some_and(|next| walk(rest, text, next, to, bound))
        }
        Step::Match(name, expression) => {
            let first = if rest.is_empty() { to } else { from };
            ends(text, first, to).filter(|end| reaches(expression, text, from, *end)).any(|end| {
                let before = bound.len();
                bound.extend(name.iter().map(|name| (name.clone(), text[from..end].to_owned())));
                let matched = walk(rest, text, end, to, bound);
                if !matched {
                    bound.truncate(before);
                }
                matched
            })
        }
    }
}

/// Whether an expression anchored with `\z` matches exactly `from..to`.
fn reaches(closed: &Regex, text: &str, from: usize, to: usize) -> bool {
    closed.find_at(&text[..to], from).is_some_and(|found| found.start() == from)
}

/// The possible ends, from the last to the first.
fn ends(text: &str, first: usize, last: usize) -> impl Iterator<Item = usize> + '_ {
    (first..=last).rev().filter(|end| text.is_char_boundary(*end))
}

fn line_end(text: &str, at: usize) -> usize {
    text[at..].find('\n').map_or(text.len(), |newline| at + newline)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::{Needle, Pattern, Variables};
    use crate::pieces::cut;

    fn find(pattern: &str, text: &str) -> Option<(String, Vec<(String, String)>)> {
        let needle = Needle::Pattern(Pattern::new(cut(pattern).unwrap()));
        let variables = Variables::from([("K".to_owned(), "a.c".to_owned())]);
        let found = needle.find(text, &variables).unwrap()?;
        Some((text[found.range].to_owned(), found.bound))
    }

    fn matched(pattern: &str, text: &str) -> Option<String> {
        find(pattern, text).map(|(text, _)| text)
    }

    #[test]
    fn the_longest_match_wins() {
        assert_eq!(matched("x{{a|ab}}", "xab").as_deref(), Some("xab"));
        assert_eq!(matched("{{(a|ab)(c|bcd)?}}", "abcd").as_deref(), Some("abcd"));
        assert_eq!(find("[[X:a|ab]]{{b*}}", "abb").unwrap().1[0].1, "ab");
    }

    #[test]
    fn values_are_text_not_expressions() {
        assert_eq!(matched("<[[K]]>", "<abc> <a.c>").as_deref(), Some("<a.c>"));
    }

    #[test]
    fn a_variable_may_be_used_where_it_is_defined() {
        let pattern = "[[X:%[a-z0-9]+]] = add([[X]])";
        assert_eq!(matched(pattern, "%a = add(%b)\n%c = add(%c)").as_deref(), Some("%c = add(%c)"));
        assert_eq!(matched("[[X:a+]][[X]]b", "aaaaab").as_deref(), Some("aaaab"));
        assert_eq!(matched("[[X:a+]]{{a*}}-[[X]]-", "aaa-aa-").as_deref(), Some("aaa-aa-"));
        assert_eq!(matched("[[X:a+]]-[[X]]b", "aaa-ac"), None);
    }

    #[test]
    fn sets_with_a_caret_stay_on_their_line() {
        assert_eq!(matched("a{{[^x]*}}", "ab\nc").as_deref(), Some("ab"));
    }

    #[test]
    fn blank_lines() {
        let at = |text: &str| Needle::BlankLine.find(text, &Variables::new()).unwrap().map(|found| found.range.start);
        assert_eq!(at("a\n\nb"), Some(2));
        assert_eq!(at("a\n"), Some(2));
        assert_eq!(at("a\nb"), None);
    }

    #[test]
    fn highlights_cover_the_token_exactly() {
        let at = |text: &str| {
            Needle::Highlighted("add".into()).find(text, &Variables::new()).unwrap().map(|f| f.range.start)
        };
        assert_eq!(at("x add y\n  ~~~ <-"), Some(2));
        assert_eq!(at("x add y\n  ~~~~"), None);
        assert_eq!(at("x add y\n ~~~~"), None);
        assert_eq!(at("add\nx add\n  ~~~"), Some(6));
    }
}
