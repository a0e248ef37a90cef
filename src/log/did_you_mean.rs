//! Suggestions for mistyped words: names of passes, files, flags, operators.

/// The maximum length of a compared word, in characters; a longer one is not a typing error of any
/// known name.
const LONGEST: usize = 80;

/// The minimum length of a prefix that counts as an abbreviation of a candidate (`dead_code` for
/// `dead_code_elimination`).
const SHORTEST_ABBREVIATION: usize = 3;

/// The candidate that `word` was probably meant to be, if any is near enough.
///
/// The limit is one edit per three characters of the longer word (an edit inserts, deletes,
/// replaces a character or swaps two neighbours), at least one and at most four; case and `-`
/// against `_` cost nothing. When no candidate is near, the shortest one that begins with `word` is
/// returned. Among equals the earliest candidate wins, so the answer is stable.
pub fn did_you_mean<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let word = folded(word)?;
    let mut nearest: Option<(usize, &str)> = None;
    let mut longer: Option<&str> = None;
    for candidate in candidates {
        let Some(other) = folded(candidate) else { continue };
        let edits = edits(&word, &other);
        if edits <= allowed(&word, &other) && nearest.is_none_or(|(best, _)| edits < best) {
            nearest = Some((edits, candidate));
        }
        if abbreviates(&word, &other) && longer.is_none_or(|l| candidate.len() < l.len()) {
            longer = Some(candidate);
        }
    }
    nearest.map(|(_, candidate)| candidate).or(longer)
}

/// The characters that are compared, or `None` for a word that is not compared.
fn folded(word: &str) -> Option<Vec<char>> {
    let fold = |c: char| if c == '-' { '_' } else { c.to_ascii_lowercase() };
    let chars: Vec<char> = word.chars().take(LONGEST + 1).map(fold).collect();
    (1..=LONGEST).contains(&chars.len()).then_some(chars)
}

/// The number of edits that still counts as a typing error. A one-letter word must match, otherwise
/// everything would be near it.
fn allowed(a: &[char], b: &[char]) -> usize {
    match a.len().min(b.len()) {
        1 => 0,
        _ => (a.len().max(b.len()) / 3).clamp(1, 4),
    }
}

fn abbreviates(word: &[char], whole: &[char]) -> bool {
    word.len() >= SHORTEST_ABBREVIATION && whole.starts_with(word)
}

/// Damerau-Levenshtein distance, in the form that edits no part of a word twice (optimal string
/// alignment).
fn edits(a: &[char], b: &[char]) -> usize {
    let mut before_last = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for i in 0..a.len() {
        let row = next_row(a, b, i, &last, &before_last);
        before_last = std::mem::replace(&mut last, row);
    }
    last[b.len()]
}

fn next_row(a: &[char], b: &[char], i: usize, last: &[usize], before_last: &[usize]) -> Vec<usize> {
    let mut row = vec![i + 1];
    for j in 0..b.len() {
        let replaced = last[j] + usize::from(a[i] != b[j]);
        let mut best = replaced.min(last[j + 1] + 1).min(row[j] + 1);
        if i > 0 && j > 0 && a[i] == b[j - 1] && a[i - 1] == b[j] {
            best = best.min(before_last[j - 1] + 1);
        }
        row.push(best);
    }
    row
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAMES: [&str; 5] = ["fuser", "dce", "cse", "dead_code_elimination", "constant-pooling"];

    #[test]
    fn near_words_are_found() {
        for (word, meant) in [
            ("fusre", "fuser"),
            ("Fuser", "fuser"),
            ("fuse", "fuser"),
            ("dcee", "dce"),
            ("constant_poling", "constant-pooling"),
            ("dead_code", "dead_code_elimination"),
        ] {
            assert_eq!(did_you_mean(word, NAMES), Some(meant), "{word}");
        }
    }

    #[test]
    fn far_words_are_not() {
        for word in ["", "x", "inlining", "quantise", &"y".repeat(500)] {
            assert_eq!(did_you_mean(word, NAMES), None, "{word}");
        }
    }

    #[test]
    fn distance() {
        let distance = |a: &str, b: &str| edits(&a.chars().collect::<Vec<_>>(), &b.chars().collect::<Vec<_>>());
        for (a, b, n) in [("", "", 0), ("a", "", 1), ("ab", "ba", 1), ("kitten", "sitting", 3), ("ca", "abc", 3)] {
            assert_eq!((distance(a, b), distance(b, a)), (n, n), "{a} {b}");
        }
    }
}
