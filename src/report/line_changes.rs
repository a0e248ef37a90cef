//! The lines that differ between two texts, and the words that differ between changed lines.
//!
//! ```text
//! -%2 : Tensor = aten::tanh(%1)
//! +%2 : Tensor = aten::tanh(%x)
//!                ^^^^^^^^^^^^^^     a changed word, as words end with blanks
//! ```
//!
//! All sequences are compared as numbers of their distinct elements, so the program has one copy of
//! Myers' algorithm. There is no time limit, which would make results depend on the machine.

use rustc_hash::FxHashMap;
use similar::algorithms::{Capture, Compact, Replace, myers};
use similar::{ChangeTag, DiffOp, group_diff_ops};
use std::fmt::Write as _;
use std::hash::Hash;

/// The least share of equal words in changed lines whose words are compared.
const LEAST_ALIKE: f32 = 0.5;

/// The steps that lead from one sequence to another one.
pub(crate) fn steps<T: Hash + Eq>(old: &[T], new: &[T]) -> Vec<DiffOp> {
    let mut numbers = FxHashMap::default();
    let both: Vec<u32> = old.iter().chain(new).map(|element| number(&mut numbers, element)).collect();
    let (old, new) = both.split_at(old.len());
    let mut hook = Compact::new(Replace::new(Capture::new()), old, new);
    let Ok(()) = myers::diff(&mut hook, old, 0..old.len(), new, 0..new.len());
    hook.into_inner().into_inner().into_ops()
}

fn number<'a, T: Hash + Eq>(numbers: &mut FxHashMap<&'a T, u32>, element: &'a T) -> u32 {
    let next = numbers.len() as u32;
    *numbers.entry(element).or_insert(next)
}

/// A line of one text or of both, in parts that are new or gone (`true`) and others.
pub struct Line<'a> {
    /// The side on which the line is.
    pub tag: ChangeTag,
    /// The text, with the end of the line.
    pub parts: Vec<(bool, &'a str)>,
}

/// Two texts, and how their lines differ.
pub struct LineChanges<'a> {
    old: Vec<&'a str>,
    new: Vec<&'a str>,
    steps: Vec<DiffOp>,
}

impl<'a> LineChanges<'a> {
    /// Compares two texts.
    pub fn new(old: &'a str, new: &'a str) -> LineChanges<'a> {
        let (old, new): (Vec<&str>, Vec<&str>) =
            (old.split_inclusive('\n').collect(), new.split_inclusive('\n').collect());
        let steps = steps(&old, &new);
        LineChanges { old, new, steps }
    }

    /// Changes with so many equal lines around them; those near each other are one group.
    pub fn groups(&self, around: usize) -> Vec<Vec<DiffOp>> {
        group_diff_ops(self.steps.clone(), around)
    }

    /// The lines of a step, with changed words marked.
    pub fn lines(&self, step: &DiffOp) -> Vec<Line<'a>> {
        let (old, new) = (&self.old[step.old_range()], &self.new[step.new_range()]);
        match step {
            DiffOp::Equal { .. } => old.iter().map(|line| unmarked(ChangeTag::Equal, line)).collect(),
            DiffOp::Delete { .. } | DiffOp::Insert { .. } => whole(old, new),
            DiffOp::Replace { .. } => marked(old, new).unwrap_or_else(|| whole(old, new)),
        }
    }

    /// The changes as `diff -u` prints them; empty where there are none.
    pub fn unified(&self, around: usize, from: &str, to: &str) -> String {
        let mut out = String::new();
        for group in self.groups(around) {
            if out.is_empty() {
                let _ = write!(out, "--- {from}\n+++ {to}\n");
            }
            let lines = |range: fn(&DiffOp) -> std::ops::Range<usize>| {
                let (first, last) = (range(&group[0]).start, range(&group[group.len() - 1]).end);
                numbers_of_lines(first, last - first)
            };
            let _ = writeln!(out, "@@ -{} +{} @@", lines(DiffOp::old_range), lines(DiffOp::new_range));
            for step in &group {
                self.unified_step(&mut out, step);
            }
        }
        out
    }

    fn unified_step(&self, out: &mut String, step: &DiffOp) {
        let is_equal = matches!(step, DiffOp::Equal { .. });
        let (gone, come) = (&self.old[step.old_range()], &self.new[step.new_range()]);
        let gone = gone.iter().map(|line| (if is_equal { ' ' } else { '-' }, line));
        let come = come.iter().filter(|_| !is_equal).map(|line| ('+', line));
        for (sign, line) in gone.chain(come) {
            let _ = write!(out, "{sign}{line}");
            if !line.ends_with('\n') {
                out.push_str("\n\\ No newline at end of file\n");
            }
        }
    }
}

/// The lines of one side in the head of a hunk: `7` or `7,3`; without lines the one before.
fn numbers_of_lines(first: usize, count: usize) -> String {
    match count {
        1 => (first + 1).to_string(),
        0 => format!("{first},0"),
        _ => format!("{},{count}", first + 1),
    }
}

fn unmarked<'a>(tag: ChangeTag, line: &'a str) -> Line<'a> {
    Line { tag, parts: vec![(false, line)] }
}

fn whole<'a>(old: &[&'a str], new: &[&'a str]) -> Vec<Line<'a>> {
    let gone = old.iter().map(|line| unmarked(ChangeTag::Delete, line));
    gone.chain(new.iter().map(|line| unmarked(ChangeTag::Insert, line))).collect()
}

/// Changed lines with their changed words, if half of the words are the same.
fn marked<'a>(old: &[&'a str], new: &[&'a str]) -> Option<Vec<Line<'a>>> {
    let (old_words, new_words) = (words(old), words(new));
    let (few, all) = (count(&old_words).min(count(&new_words)), count(&old_words) + count(&new_words));
    // Words of texts so different in length are not compared: that takes long.
    if 2.0 * few as f32 / (all.max(1) as f32) < LEAST_ALIKE {
        return None;
    }
    let (mut gone, mut come) = (vec![true; old_words.len()], vec![true; new_words.len()]);
    let mut same = 0;
    for step in steps(&old_words, &new_words).iter().filter(|step| matches!(step, DiffOp::Equal { .. })) {
        gone[step.old_range()].fill(false);
        come[step.new_range()].fill(false);
        same += count(&old_words[step.old_range()]);
    }
    let is_alike = 2.0 * same as f32 / (all as f32) >= LEAST_ALIKE;
    let mut lines = lines_of_words(ChangeTag::Delete, old, &old_words, &gone);
    lines.extend(lines_of_words(ChangeTag::Insert, new, &new_words, &come));
    is_alike.then_some(lines)
}

/// The number of words that are not blank.
fn count(words: &[&str]) -> usize {
    words.iter().filter(|word| !word.starts_with(char::is_whitespace)).count()
}

/// The words of lines, and the blanks between them.
fn words<'a>(lines: &[&'a str]) -> Vec<&'a str> {
    let mut words = Vec::new();
    for mut rest in lines.iter().copied() {
        while let Some(first) = rest.chars().next() {
            let is_blank = first.is_whitespace();
            let end = rest.find(|c: char| c.is_whitespace() != is_blank).unwrap_or(rest.len());
            let (word, other) = rest.split_at(end);
            words.push(word);
            rest = other;
        }
    }
    words
}

/// Neighbouring words of a line that are all marked, or all not, as one part each. Ends of lines
/// are never marked.
fn lines_of_words<'a>(tag: ChangeTag, lines: &[&'a str], words: &[&'a str], marks: &[bool]) -> Vec<Line<'a>> {
    let mut at = 0;
    let parts = |line: &&'a str| {
        let (mut parts, mut begin, mut end): (Vec<(bool, &str)>, usize, usize) = (Vec::new(), 0, 0);
        while end < line.len() {
            let mark = marks[at] && !words[at].ends_with('\n');
            end += words[at].len();
            at += 1;
            match parts.last_mut() {
                Some(last) if last.0 == mark => last.1 = &line[begin..end],
                _ => {
                    begin = end - words[at - 1].len();
                    parts.push((mark, &line[begin..end]));
                }
            }
        }
        Line { tag, parts }
    };
    lines.iter().map(parts).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn marks(old: &str, new: &str) -> String {
        let changes = LineChanges::new(old, new);
        let lines = changes.groups(0).into_iter().flatten().flat_map(|step| changes.lines(&step));
        let part = |&(marked, text): &(bool, &str)| if marked { format!("[{text}]") } else { text.to_owned() };
        lines.map(|line| line.tag.to_string() + &line.parts.iter().map(part).collect::<String>()).collect()
    }

    #[test]
    fn changed_words_are_marked() {
        assert_eq!(marks("a = f(b) here\n", "a = f(c) here\n"), "-a = [f(b)] here\n+a = [f(c)] here\n");
        assert_eq!(marks("a b c d\n", "e f g h\n"), "-a b c d\n+e f g h\n", "less than half is the same");
        assert_eq!(marks("x y\n", ""), "-x y\n");
    }

    #[test]
    fn unified_changes_are_those_of_diff() {
        let unified = |old, new| LineChanges::new(old, new).unified(1, "a", "b");
        assert_eq!(unified("1\n2\n3\n4\n", "1\n2\n4\n"), "--- a\n+++ b\n@@ -2,3 +2,2 @@\n 2\n-3\n 4\n");
        assert_eq!(unified("", "1\n"), "--- a\n+++ b\n@@ -0,0 +1 @@\n+1\n");
        let end = "\\ No newline at end of file\n";
        assert_eq!(unified("1", "2\n"), format!("--- a\n+++ b\n@@ -1 +1 @@\n-1\n{end}+2\n"));
        assert_eq!(unified("1\n", "1\n"), "");
    }

    proptest! {
        #[test]
        fn steps_lead_from_one_sequence_to_the_other(old in "[abc]{0,40}", new in "[abc]{0,40}") {
            let (old, new): (Vec<char>, Vec<char>) = (old.chars().collect(), new.chars().collect());
            let mut made = Vec::new();
            for step in steps(&old, &new) {
                if let DiffOp::Equal { .. } = step {
                    prop_assert_eq!(&old[step.old_range()], &new[step.new_range()]);
                }
                made.extend_from_slice(&new[step.new_range()]);
            }
            prop_assert_eq!(made, new);
        }
    }
}
