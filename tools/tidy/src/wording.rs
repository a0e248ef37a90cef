//! What the repository never says: where somebody's copy lies, what is left to do.

use crate::Tree;
use crate::rust_text::regex;
use crate::tree::line_of;
use regex::Regex;

/// Folders that paths on somebody's machine begin with.
const MACHINE: [&str; 6] = ["home", "root", "tmp", "mnt", "srv", "Users"];
/// Notes to oneself, in two halves, as this file is checked too.
const NOTES: [(&str, &str); 4] = [("TO", "DO"), ("FIX", "ME"), ("XX", "X"), ("HA", "CK")];

/// Where one of them stands. What PyTorch printed may say anything but a path.
pub fn check(tree: &Tree) -> Vec<String> {
    let whole = |words: &[(&str, &str)]| {
        words.iter().map(|(a, b)| regex::escape(&format!("{a}{b}"))).collect::<Vec<_>>().join("|")
    };
    let path = regex(&format!(r"(?m)(?:^|[^A-Za-z0-9_.])(/(?:{})/)", MACHINE.join("|")));
    let note = regex(&format!(r"\b({})\b", whole(&NOTES)));
    let mut wrong = Vec::new();
    for (file, text) in tree.texts() {
        wrong.extend(hits(file, text, &path, "a path of one machine"));
        if !file.starts_with("testdata/corpus/") {
            wrong.extend(hits(file, text, &note, "a note that belongs elsewhere"));
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
