//! The prefix of every line of a graph in a log, and its recognition in later lines.

use super::plain;
use std::ops::Range;

/// The mark that PyTorch's log puts at the start of every line: `[DUMP guard_elimination.cpp:020]
/// `.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Tag {
    /// The bytes of the tag, bracket included.
    pub span: Range<usize>,
    /// `DUMP`, `UPDATE` or `DEBUG`.
    pub level: String,
    /// The file, if the tag names it (people shorten tags to `[DEBUG profiling_...]`).
    pub file: Option<String>,
}

/// The first tag in a line.
pub(super) fn find_tag(line: &[u8]) -> Option<Tag> {
    memchr::memchr_iter(b'[', line).take(8).find_map(|at| tag_at(line, at))
}

fn tag_at(line: &[u8], at: usize) -> Option<Tag> {
    let inside = &line[at + 1..];
    let level = ["DUMP", "UPDATE", "DEBUG"].into_iter().find(|level| inside.starts_with(level.as_bytes()))?;
    let place = inside[level.len()..].strip_prefix(b" ")?;
    let length = memchr::memchr(b']', &place[..place.len().min(200)])?;
    let place = &place[..length];
    let file = place.iter().rposition(|b| *b == b':').filter(|colon| place[colon + 1..].iter().all(u8::is_ascii_digit));
    Some(Tag {
        span: at..at + 1 + level.len() + 1 + length + 1,
        level: level.to_owned(),
        file: file.filter(|colon| *colon > 0).map(|colon| plain(&place[..colon])),
    })
}

/// The prompts of interpreters and debuggers.
const PROMPTS: [&[u8]; 5] = [b">>> ", b"... ", b"(Pdb) ", b"$ ", b"# "];

/// The text before a graph on the graph's first line.
#[derive(Clone, Debug)]
pub(super) struct Prefix {
    /// All text before `graph(`, which may end in a title that only the first line has.
    pub bytes: Vec<u8>,
    /// The tag, which must recur exactly; other numbers may change from line to line.
    pub tag: Option<Tag>,
    /// The numbers that have changed so far, one bit each, the first number lowest.
    pub varies: u64,
}

/// The extent to which a line begins like a prefix.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Likeness {
    /// The number of bytes of the prefix found in the line.
    pub of_prefix: usize,
    /// The number of bytes of the line that they occupy.
    pub of_line: usize,
    /// The numbers that differ, one bit each.
    pub differs: u64,
}

impl Prefix {
    /// The prefix of a graph whose header follows `bytes`.
    pub(crate) fn new(bytes: &[u8]) -> Prefix {
        Prefix { bytes: bytes.to_vec(), tag: find_tag(bytes), varies: 0 }
    }

    /// Whether the prefix is only white space.
    pub(crate) fn is_blank(&self) -> bool {
        self.bytes.trim_ascii().is_empty()
    }

    /// The prefix without the prompt of an interpreter or debugger, which is on the screen when
    /// another process prints and therefore precedes the first line only. `None` if there is no
    /// prompt or nothing else.
    pub(crate) fn without_prompt(&self) -> Option<Prefix> {
        let rest = PROMPTS.iter().find_map(|prompt| self.bytes.strip_prefix(*prompt))?;
        (!rest.trim_ascii().is_empty()).then(|| Prefix::new(rest))
    }

    /// Compares the start of `line` with the first `length` bytes of this prefix.
    pub(crate) fn likeness(&self, length: usize, line: &[u8]) -> Likeness {
        let prefix = &self.bytes[..length];
        let fixed = self.tag.as_ref().map_or(0..0, |tag| tag.span.clone());
        let (mut p, mut l, mut numbers, mut differs) = (0, 0, 0, 0);
        while p < prefix.len() && l < line.len() {
            let within = !fixed.contains(&p) && (p == 0 || prefix[p - 1] != b' ');
            let pair = within.then(|| number(&prefix[p..]).zip(number(&line[l..]))).flatten();
            if let Some((a, b)) = pair {
                if prefix[p..p + a].trim_ascii_start() != line[l..l + b].trim_ascii_start() {
                    differs |= 1u64.checked_shl(numbers).unwrap_or(0);
                }
                (p, l, numbers) = (p + a, l + b, numbers + 1);
            } else if prefix[p] == line[l] {
                (p, l) = (p + 1, l + 1);
            } else {
                break;
            }
        }
        Likeness { of_prefix: p, of_line: l, differs }
    }

    /// Whether a graph after `other` would come from the same writer: all constant parts of this
    /// prefix are equal there.
    pub(crate) fn same_stream(&self, length: usize, other: &Prefix) -> bool {
        let like = self.likeness(length, &other.bytes);
        let whole = like.of_prefix == length && like.of_line == other.bytes.len();
        (whole && like.differs & !self.varies == 0) || (self.is_blank() && other.is_blank())
    }

    /// Takes over which numbers are known to change, from a prefix of the same form.
    pub(crate) fn learn_from(&mut self, other: &Prefix) {
        let like = other.likeness(other.bytes.len(), &self.bytes);
        if like.of_prefix == other.bytes.len() && like.of_line == self.bytes.len() {
            self.varies |= other.varies;
        }
    }
}

/// The length of a number with the blanks that right-align it, if one begins here.
fn number(text: &[u8]) -> Option<usize> {
    let blanks = text.iter().take_while(|b| **b == b' ').count();
    let digits = text[blanks..].iter().take_while(|b| b.is_ascii_digit()).count();
    (digits > 0).then_some(blanks + digits)
}

/// Characters of ruled lines and headings.
const DECORATION: &[char] = &['=', '-', '#', '*', '~', '_', '+', '|', '>', '`', '"', '\'', ':', ' ', '\t'];

/// The longest title kept, in characters.
const LONGEST_TITLE: usize = 200;

/// A title without decoration; `None` if nothing readable is left.
pub(super) fn title(text: &[u8]) -> Option<String> {
    let text = plain(text).replace("<GRAPH_EXPORT>", "");
    let text = without_logger(text.trim()).trim_matches(DECORATION);
    let letters = text.chars().filter(|c| c.is_alphabetic()).take(2).count();
    (letters == 2).then(|| text.chars().take(LONGEST_TITLE).collect())
}

/// Drops `INFO:root:`, which Python's logging puts before the first line of a message.
fn without_logger(text: &str) -> &str {
    let level = ["DEBUG:", "INFO:", "WARNING:", "ERROR:", "CRITICAL:"].into_iter().find(|l| text.starts_with(l));
    level.and_then(|level| text[level.len()..].split_once(':')).map_or(text, |(_, rest)| rest)
}

/// Whether a line without any prefix reads like the title of the graph below it. Terminal output is
/// full of other lines, so the form must be distinctive.
pub(super) fn reads_like_title(line: &[u8]) -> bool {
    let text = line.trim_ascii();
    let short = text.len() <= 100;
    let announced = text.ends_with(b":")
        || [&b"After "[..], b"Before ", b"=", b"#", b"--", b"**"].iter().any(|s| text.starts_with(s));
    short && announced && !text.starts_with(b"def ") && !text.starts_with(b"class ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn like(prefix: &str, line: &str) -> (usize, usize, u64) {
        let likeness = Prefix::new(prefix.as_bytes()).likeness(prefix.len(), line.as_bytes());
        (likeness.of_prefix, likeness.of_line, likeness.differs)
    }

    #[test]
    fn tags() {
        let tag = find_tag(b"2024-03-01 [1] [UPDATE fuser.cpp:047] Moved").unwrap();
        assert_eq!((tag.level.as_str(), tag.file.as_deref(), tag.span), ("UPDATE", Some("fuser.cpp"), 15..37));
        assert_eq!(find_tag(b"[DEBUG profiling_...] graph(").unwrap().file, None);
        for none in ["[INFO x.py:3] y", "[DUMP", "[DUMP ", "DUMP x:1]", "[DUMPx y:1]", ""] {
            assert_eq!(find_tag(none.as_bytes()), None, "{none}");
        }
    }

    #[test]
    fn numbers_may_change_outside_the_tag() {
        assert_eq!(like("[rank0]: ", "[rank12]:   %1"), (9, 10, 1));
        assert_eq!(like(" 9 | ", "10 |   %1"), (5, 5, 1));
        assert_eq!(like("[DUMP f.cpp:020] ", "[DUMP f.cpp:020]   %1"), (17, 17, 0));
        assert_eq!(like("[DUMP f.cpp:020] ", "[DUMP f.cpp:021]   %1"), (14, 14, 0));
        assert_eq!(like("E   AssertionError: ", "E     %1"), (4, 4, 0));
        assert_eq!(like("", "  %1"), (0, 0, 0));
    }

    #[test]
    fn titles() {
        for (text, expected) in [
            ("After moveGuardsToDefs", Some("After moveGuardsToDefs")),
            ("===== Graph: =====", Some("Graph")),
            ("INFO:root:Optimized: ", Some("Optimized")),
            ("INFO:root:", None),
            (" 12 | ", None),
            ("", None),
        ] {
            assert_eq!(title(text.as_bytes()).as_deref(), expected, "{text}");
        }
    }
}
