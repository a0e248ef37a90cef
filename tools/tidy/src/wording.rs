//! What the repository never says: where somebody's copy lies, which mirror it was built from, what is left to do.

use crate::Tree;
use crate::rust_text::regex;
use crate::tree::line_of;
use regex::Regex;

/// Folders that paths on somebody's machine begin with.
const MACHINE: [&str; 8] = ["home", "root", "work", "farm", "tmp", "mnt", "srv", "Users"];
/// Hosts of package registries and mirrors; in two halves, as this file is checked too.
const HOSTS: [(&str, &str); 7] = [
    ("crates", ".io"),
    ("static.rust-", "lang.org"),
    ("pypi", ".org"),
    ("python", "hosted.org"),
    ("registry.npm", "js.org"),
    ("proxy.go", "lang.org"),
    ("conda.ana", "conda.org"),
];
/// Notes to oneself, and words about how a change came to be instead of what it does.
const NOTES: [(&str, &str); 8] = [
    ("TO", "DO"),
    ("FIX", "ME"),
    ("XX", "X"),
    ("HA", "CK"),
    ("work", "tree"),
    ("sub", "agent"),
    ("this ", "session"),
    ("the br", "ief"),
];

/// Where one of them stands. What PyTorch printed may say anything but a path.
pub fn check(tree: &Tree) -> Vec<String> {
    let whole = |words: &[(&str, &str)]| {
        words.iter().map(|(a, b)| regex::escape(&format!("{a}{b}"))).collect::<Vec<_>>().join("|")
    };
    let path = regex(&format!(r"(?m)(?:^|[^A-Za-z0-9_.])(/(?:{})/)", MACHINE.join("|")));
    let host = regex(&format!(r"(?i)\b((?:[a-z]+\.)?(?:{}))", whole(&HOSTS)));
    let note = regex(&format!(r"\b({})\b", whole(&NOTES)));
    let mut wrong = Vec::new();
    // Cargo writes the name of its registry into the lock file.
    for (file, text) in tree.texts().filter(|(file, _)| !file.ends_with("Cargo.lock")) {
        wrong.extend(hits(file, text, &path, "a path of one machine"));
        if !file.starts_with("testdata/corpus/") {
            wrong.extend(hits(file, text, &host, "the host of a registry"));
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
        let text = format!("{path}\n{}{}\n// {}{}: f\n", HOSTS[0].0, HOSTS[0].1, NOTES[0].0, NOTES[0].1);
        let lines: Vec<String> = check(&Tree::of(&[("a.md", &text)]));
        assert_eq!(lines.iter().map(|l| &l[..6]).collect::<Vec<_>>(), ["a.md:1", "a.md:2", "a.md:3"], "{lines:?}");
    }
}
