//! Detects misspelt directives, and suggests known words for unknown ones.

/// The number of insertions, deletions, substitutions and transpositions of adjacent letters
/// between two words.
pub fn edit_distance(from: &str, to: &str) -> usize {
    let from: Vec<char> = from.chars().collect();
    let to: Vec<char> = to.chars().collect();
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=to.len()).collect();
    for i in 1..=from.len() {
        let mut row = vec![i; to.len() + 1];
        for j in 1..=to.len() {
            let same = usize::from(from[i - 1] != to[j - 1]);
            row[j] = (last[j - 1] + same).min(last[j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && from[i - 1] == to[j - 2] && from[i - 2] == to[j - 1] {
                row[j] = row[j].min(before[j - 2] + 1);
            }
        }
        before = std::mem::replace(&mut last, row);
    }
    last[to.len()]
}

/// The known word nearest to `word`, if it is near enough to be a misspelling.
pub fn did_you_mean<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let allowed = 1 + word.chars().count() / 4;
    let scored = known.into_iter().map(|candidate| (edit_distance(word, candidate), candidate));
    scored.filter(|(distance, _)| *distance <= allowed).min().map(|(_, candidate)| candidate)
}

/// The suffixes a prefix may have in LLVM's dialect, `COUNT-` apart.
pub(crate) const SUFFIXES: [&str; 6] = ["NEXT", "SAME", "NOT", "DAG", "LABEL", "EMPTY"];

/// A part of a line that is probably a misspelt directive.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Misspelt {
    /// Byte offset in the line.
    pub(crate) at: usize,
    /// The text found.
    pub(crate) word: String,
    /// The corrected text.
    pub(crate) meant: String,
}

/// Checks a line without a directive for a misspelt one.
pub(crate) fn misspelt(line: &str, prefixes: &[String]) -> Option<Misspelt> {
    words(line).find_map(|(at, word)| {
        let rest = &line[at + word.len()..];
        let meant = prefixes.iter().find_map(|prefix| {
            let found = glued(word, rest, prefix)
                .or_else(|| detached(word, rest, prefix))
                .or_else(|| blank_before_colon(word, rest, prefix))
                .or_else(|| colon_forgotten(line, at, word, rest, prefix))
                .or_else(|| stem_misspelt(word, rest, prefix))?;
            Some(found)
        });
        meant.map(|(word, meant)| Misspelt { at, word, meant })
    })
}

/// The runs of letters, digits, `-`, `_` and `.` in a line.
fn words(line: &str) -> impl Iterator<Item = (usize, &str)> {
    let part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let mut at = 0;
    std::iter::from_fn(move || {
        let start = at + line[at..].find(part)?;
        let length = line[start..].find(|c| !part(c)).unwrap_or(line.len() - start);
        at = start + length;
        Some((start, &line[start..at]))
    })
}

type Correction = (String, String);

/// `CHECK-NXT:`, `CHECKNEXT:`, `CHECK_NEXT:`, `CHECK-next:`.
fn glued(word: &str, rest: &str, prefix: &str) -> Option<Correction> {
    let tail = word.strip_prefix(prefix)?;
    if !rest.starts_with(':') || tail.is_empty() {
        return None;
    }
    let name = tail.trim_start_matches(['-', '_', '.']);
    let separated = name.len() < tail.len();
    let suffix = meant_suffix(name, separated)?;
    Some((format!("{word}:"), format!("{prefix}-{suffix}:")))
}

/// The suffix that `name` misspells; without a separator before it, only an exact one counts.
fn meant_suffix(name: &str, separated: bool) -> Option<String> {
    let upper = name.to_ascii_uppercase();
    if let Some(count) = count_of(&upper) {
        return Some(format!("COUNT-{count}"));
    }
    if let Some(exact) = SUFFIXES.iter().find(|suffix| **suffix == upper) {
        return Some((*exact).to_owned());
    }
    let near = |suffix: &&&str| separated && edit_distance(&upper, suffix) <= 1 + suffix.len() / 5;
    let near = SUFFIXES.iter().filter(near).min_by_key(|suffix| edit_distance(&upper, suffix));
    near.map(|suffix| (*suffix).to_owned())
}

/// The number in `COUNT-2`, `COUNT2`, `COUNT_2`, `2-COUNT` or `CONUT-2`.
fn count_of(name: &str) -> Option<&str> {
    let digits = |c: char| c.is_ascii_digit();
    let start = name.find(digits)?;
    let end = start + name[start..].find(|c| !digits(c)).unwrap_or(name.len() - start);
    let others = format!("{}{}", &name[..start], &name[end..]);
    let stem = others.trim_matches(['-', '_', '.']);
    (edit_distance(stem, "COUNT") <= 1).then_some(&name[start..end])
}

/// `CHECK -NEXT:` and `CHECK- NEXT:`.
fn detached(word: &str, rest: &str, prefix: &str) -> Option<Correction> {
    let tail = word.strip_prefix(prefix)?;
    let next = rest.trim_start_matches([' ', '\t']);
    let dashed = match (tail, next.strip_prefix('-')) {
        ("", Some(after)) => after,
        ("-" | "_", None) => next,
        _ => return None,
    };
    let (name, _) = dashed.split_once(':')?;
    let suffix = meant_suffix(name.trim(), true)?;
    let blanks = &rest[..rest.len() - next.len()];
    let dash = if tail.is_empty() { "-" } else { "" };
    Some((format!("{word}{blanks}{dash}{name}:"), format!("{prefix}-{suffix}:")))
}

/// `CHECK-NOT :` and `CHECK :`.
fn blank_before_colon(word: &str, rest: &str, prefix: &str) -> Option<Correction> {
    let trimmed = rest.trim_start_matches([' ', '\t']);
    let known = is_directive(word, prefix) && trimmed.len() < rest.len() && trimmed.starts_with(':');
    let blanks = &rest[..rest.len() - trimmed.len()];
    known.then(|| (format!("{word}{blanks}:"), format!("{word}:")))
}

/// `# CHECK-NEXT foo`: a suffix and then text; a bare `# CHECK foo` may be prose.
fn colon_forgotten(line: &str, at: usize, word: &str, rest: &str, prefix: &str) -> Option<Correction> {
    let leader = line[..at].chars().all(|c| matches!(c, '#' | '/' | ';' | ' ' | '\t'));
    let forgotten = leader && word != prefix && is_directive(word, prefix) && rest.starts_with([' ', '\t']);
    forgotten.then(|| (word.to_owned(), format!("{word}:")))
}

/// Whether the word is the prefix with nothing or a known suffix after it.
fn is_directive(word: &str, prefix: &str) -> bool {
    match word.strip_prefix(prefix) {
        Some("") => true,
        Some(tail) => tail.strip_prefix('-').is_some_and(|name| SUFFIXES.contains(&name) || exact_count(name)),
        None => false,
    }
}

/// `COUNT-` and digits.
fn exact_count(name: &str) -> bool {
    let digits = name.strip_prefix("COUNT-").unwrap_or("");
    !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit())
}

/// `CHEK:`, `CHCEK-NEXT:`; for prefixes without the word CHECK only transposed letters, because
/// others may be prefixes of other runs on the same file.
fn stem_misspelt(word: &str, rest: &str, prefix: &str) -> Option<Correction> {
    if !rest.starts_with(':') {
        return None;
    }
    let (stem, tail) = split_suffix(word);
    let swapped =
        stem != prefix && stem.len() == prefix.len() && edit_distance(stem, prefix) == 1 && anagram(stem, prefix);
    let near_check = prefix == "CHECK" && !stem.contains("CHECK") && looks_like_check(stem);
    let meant = (swapped || near_check).then(|| format!("{prefix}{tail}:"))?;
    Some((format!("{word}:"), meant))
}

/// The word without a known suffix, and the suffix with its dash.
fn split_suffix(word: &str) -> (&str, &str) {
    let cut = word.match_indices('-').map(|(at, _)| at).find(|at| {
        let name = &word[at + 1..];
        SUFFIXES.contains(&name) || exact_count(name)
    });
    word.split_at(cut.unwrap_or(word.len()))
}

fn anagram(one: &str, other: &str) -> bool {
    let sorted = |word: &str| {
        let mut letters: Vec<char> = word.chars().collect();
        letters.sort_unstable();
        letters
    };
    sorted(one) == sorted(other)
}

/// One edit away from CHECK, in uppercase; longer words such as CHECKS or CHECK2 may be prefixes.
fn looks_like_check(stem: &str) -> bool {
    stem.bytes().all(|b| b.is_ascii_uppercase()) && edit_distance(stem, "CHECK") == 1
}

#[cfg(test)]
mod tests {
    use super::{did_you_mean, edit_distance, misspelt};

    fn meant(line: &str) -> Option<String> {
        misspelt(line, &["CHECK".to_owned()]).map(|found| found.meant)
    }

    #[test]
    fn distances() {
        assert_eq!(edit_distance("CHECK", "CHECK"), 0);
        assert_eq!(edit_distance("CHCEK", "CHECK"), 1);
        assert_eq!(edit_distance("CHEK", "CHECK"), 1);
        assert_eq!(edit_distance("", "abc"), 3);
        assert_eq!(did_you_mean("filechek", ["cat", "filecheck"]), Some("filecheck"));
        assert_eq!(did_you_mean("ls", ["cat", "filecheck"]), None);
    }

    #[test]
    fn misspelt_directives_are_seen() {
        for (line, expected) in [
            ("# CHECK-NXT: a", "CHECK-NEXT:"),
            ("# CHECKNEXT: a", "CHECK-NEXT:"),
            ("# CHECK_NEXT: a", "CHECK-NEXT:"),
            ("# CHECK-next: a", "CHECK-NEXT:"),
            ("# CHEK: a", "CHECK:"),
            ("# CHEK-NEXT: a", "CHECK-NEXT:"),
            ("# CHCEK-NOT: a", "CHECK-NOT:"),
            ("# CHECK-NOT : a", "CHECK-NOT:"),
            ("# CHECK : a", "CHECK:"),
            ("# CHECK -NEXT: a", "CHECK-NEXT:"),
            ("# CHECK- NEXT: a", "CHECK-NEXT:"),
            ("# CHECK-LABLE: a", "CHECK-LABEL:"),
            ("# CHECK-COUNT2: a", "CHECK-COUNT-2:"),
            ("# CHECK-CONUT-2: a", "CHECK-COUNT-2:"),
            ("# CHECK-NEXT a", "CHECK-NEXT:"),
        ] {
            assert_eq!(meant(line).as_deref(), Some(expected), "{line}");
        }
    }

    #[test]
    fn other_prefixes_and_prose_are_left_alone() {
        for line in [
            "# CHECK2: a",
            "# CHECK-CSE: a",
            "# CHECKS: a",
            "# The CHECK lines say: a",
            "# Check: a",
            "# DCE-NEXT: a",
            "# see CHECK-NOT above",
            "# CHECK lines",
        ] {
            assert_eq!(meant(line), None, "{line}");
        }
    }

    #[test]
    fn swapped_letters_of_an_own_prefix_are_seen() {
        let found = misspelt("# FSUE-NEXT: a", &["FUSE".to_owned()]);
        assert_eq!(found.map(|found| found.meant).as_deref(), Some("FUSE-NEXT:"));
        assert_eq!(misspelt("# FUSED: a", &["FUSE".to_owned()]), None);
    }
}
