//! Texts that the repository must not contain: absolute paths of a machine, and reminders.

use crate::Tree;
use crate::rust_text::regex;
use crate::tree::line_of;
use regex_lite::Regex;

/// Directories at the start of machine-specific paths.
pub const MACHINE: [&str; 6] = ["home", "root", "tmp", "mnt", "srv", "Users"];
/// Reminders, each split in two, because this file is checked too.
const NOTES: [(&str, &str); 4] = [("TO", "DO"), ("FIX", "ME"), ("XX", "X"), ("HA", "CK")];

/// The occurrences. Recorded output of PyTorch may contain anything but paths.
pub fn check(tree: &Tree) -> Vec<String> {
    let whole = |words: &[(&str, &str)]| {
        words.iter().map(|(a, b)| regex_lite::escape(&format!("{a}{b}"))).collect::<Vec<_>>().join("|")
    };
    let path = regex(&format!(r"(?m)(?:^|[^A-Za-z0-9_.])(/(?:{})/)", MACHINE.join("|")));
    let note = regex(&format!(r"\b({})\b", whole(&NOTES)));
    let mut wrong = Vec::new();
    for (file, text) in tree.texts() {
        wrong.extend(hits(file, text, &path, "a machine-specific path"));
        if !file.starts_with("testdata/corpus/") {
            wrong.extend(hits(file, text, &note, "a reminder, which belongs in an issue"));
        }
    }
    wrong
}

fn hits(file: &str, text: &str, what: &Regex, why: &str) -> Vec<String> {
    let found = what.captures_iter(text).filter_map(|hit| hit.get(1));
    found.map(|hit| format!("{file}:{}: `{}` is {why}", line_of(text, hit.start()), hit.as_str())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_is_found() {
        let path = format!("a \"/{}/x\" b/home/c https://d.org/tmp/e", "home");
        let text = format!("{path}\n// {}{}: f\n", NOTES[0].0, NOTES[0].1);
        let lines: Vec<String> = check(&Tree::of(&[("a.md", &text)]));
        assert_eq!(lines.iter().map(|l| &l[..6]).collect::<Vec<_>>(), ["a.md:1", "a.md:2"], "{lines:?}");
    }
}
