//! Terms: the field's standard term instead of the project's former one.

use crate::Tree;
use crate::rust_text::regex;
use crate::tree::line_of;

/// Former terms that have no other meaning here, and the standard term. A blank also matches the
/// line break and the comment mark between two lines of a comment.
const TERMS: [(&str, &str); 18] = [
    (r"whole numbers?", "integer"),
    (r"truth values?", "bool"),
    (r"(?:is|are) no numbers?", "NaN"),
    (r"of reals", "floating point"),
    (r"sums? aside", "column reduction"),
    (r"running (?:totals?|sums?|products?)", "scan"),
    (r"parted", "split"),
    (r"crews?", "thread pool"),
    (r"asks? ahead|asking ahead", "prefetch"),
    (r"past the caches", "non-temporal store"),
    (r"(?:stands?|standing) still", "broadcast or loop-invariant"),
    (r"made up|made-up", "generated"),
    (r"(?:came|come|comes) by", "observed"),
    (r"hand(?:s|ed|ing)? on", "forward"),
    (r"loners?", "single-node group"),
    (r"twins?", "structurally equal graph"),
    (r"turns? of (?:a|the) loop", "iteration"),
    (r"(?:no|some)body", "a reader, a caller or no use: name the thing"),
];

/// The rest of the name of a counter, `loners-grouped`, which scripts may read.
const COUNTER: &str = "-grouped";

/// Files that may use former terms: records of earlier releases and of other programs, code that
/// is replaced as a whole, and the list itself.
const FREE: [&str; 3] = ["src/changelog.md", "testdata/", "tools/tidy/src/terms.rs"];

/// Words of names of tests that say nothing to a reader who does not know the project.
const OWN_WORDS: &str = "beside|behind|aside|told|tells?|asks?|asked|nobody|somebody|handed|made up|makes up";

/// Names of lit files with former terms or words of our own.
pub fn check_names(tree: &Tree) -> Vec<String> {
    let terms: Vec<&str> = TERMS.iter().map(|(former, _)| *former).collect();
    let pattern = regex(&format!(r"\b(?:{}|{OWN_WORDS})\b", terms.join("|")));
    let is_ours = |path: &&str| path.starts_with("testdata/") && path.ends_with(".ir") && !path.contains("/corpus/");
    let names = tree.files().map(|(path, _)| path).filter(is_ours);
    let wrong =
        names.filter_map(|path| Some((path, pattern.find(&path.replace(['_', '/', '.'], " "))?.as_str().to_owned())));
    wrong.map(|(path, word)| format!("{path}: `{word}` is a word of our own: name what the file shows")).collect()
}

/// The former terms in all other files.
pub fn check(tree: &Tree) -> Vec<String> {
    let texts: Vec<(&str, &str)> =
        tree.texts().filter(|(path, _)| !FREE.iter().any(|free| path.starts_with(free))).collect();
    let mut wrong = Vec::new();
    for (former, standard) in TERMS {
        let blank = r"(?:[ ]|[ ]?\n[ ]*(?://[/!]?|#)?[ ]*)";
        let pattern = regex(&format!(r"(?i)\b(?:{})\b", former.replace(' ', blank)));
        for (path, text) in &texts {
            let hits = pattern.find_iter(text).filter(|hit| !text[hit.end()..].starts_with(COUNTER));
            wrong.extend(hits.map(|hit| {
                let found = hit.as_str().split_whitespace().filter(|word| !word.starts_with(['/', '#']));
                let found = found.collect::<Vec<_>>().join(" ");
                format!("{path}:{}: `{found}`: the standard term is `{standard}`", line_of(text, hit.start()))
            }));
        }
    }
    wrong
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_tests_are_words_of_the_field() {
        let names = ["testdata/cli/whole_numbers.ir", "testdata/cli/run_tells.ir", "testdata/cli/stellar.ir"];
        let found = check_names(&Tree::of(&names.map(|name| (name, ""))));
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].contains("`tells`") && found[1].contains("`whole numbers`"), "{found:?}");
    }

    #[test]
    fn former_terms_are_found_in_comments_and_messages() {
        let rust = "/// A list of whole\n/// numbers.\nfail(\"it is no number\");\ncount(\"loners-grouped\");\n";
        let tree = Tree::of(&[("a.rs", rust), ("src/changelog.md", "Truth values\n"), ("b.md", "Two loners.\n")]);
        assert_eq!(
            check(&tree),
            [
                "a.rs:1: `whole numbers`: the standard term is `integer`",
                "a.rs:3: `is no number`: the standard term is `NaN`",
                "b.md:1: `loners`: the standard term is `single-node group`",
            ]
        );
    }
}
