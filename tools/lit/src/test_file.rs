//! Parses the `RUN:`, `FAIL:` and `XFAIL:` lines of a test file.

use jitopt_filecheck::edit_distance;

/// The expected result of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Expect {
    Success,
    Failure,
    Status(i32),
}

/// One command line of a test.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RunLine {
    /// Line of the file, from 1.
    pub(crate) line: usize,
    pub(crate) expect: Expect,
    /// The command, with continued lines joined.
    pub(crate) text: String,
}

/// The parsed lines of a test file.
#[derive(Debug, Default)]
pub(crate) struct Script {
    pub(crate) runs: Vec<RunLine>,
    /// The reason why the test is expected to fail.
    pub(crate) xfail: Option<String>,
    /// Errors, with their lines.
    pub(crate) mistakes: Vec<(usize, String)>,
    /// Words that may be misspelt keywords, unless they turn out to be check prefixes.
    pub(crate) doubtful: Vec<(usize, String, &'static str)>,
}

/// The text of a line without its comment leader.
pub(crate) fn without_leader(line: &str) -> &str {
    line.trim_start().trim_start_matches(['#', '/', ';']).trim()
}

/// Parses a file.
pub(crate) fn read(text: &str) -> Script {
    let mut script = Script::default();
    let mut lines = text.lines().enumerate();
    while let Some((index, line)) = lines.next() {
        let line = without_leader(line);
        match keyword(line) {
            Some((Keyword::Run(expect), command)) => {
                let mut command = command.trim().to_owned();
                while let Some(head) = command.strip_suffix('\\') {
                    let Some((_, next)) = lines.next() else {
                        script.mistakes.push((index + 1, "nothing follows `\\`".to_owned()));
                        break;
                    };
                    let next = without_leader(next);
                    let next = keyword(next).map_or(next, |(_, rest)| rest.trim());
                    command = format!("{} {next}", head.trim_end());
                }
                script.runs.push(RunLine { line: index + 1, expect, text: command });
            }
            Some((Keyword::XFail, reason)) if reason.trim().is_empty() => {
                script.mistakes.push((index + 1, "XFAIL needs a reason".to_owned()));
            }
            Some((Keyword::XFail, reason)) => script.xfail = Some(reason.trim().to_owned()),
            None => script.doubtful.extend(misspelt(line).map(|(word, meant)| (index + 1, word, meant))),
        }
    }
    script
}

enum Keyword {
    Run(Expect),
    XFail,
}

/// A keyword with its colon, and the rest of the line.
fn keyword(line: &str) -> Option<(Keyword, &str)> {
    if let Some(rest) = line.strip_prefix("RUN:") {
        return Some((Keyword::Run(Expect::Success), rest));
    }
    if let Some(rest) = line.strip_prefix("FAIL:") {
        return Some((Keyword::Run(Expect::Failure), rest));
    }
    if let Some(rest) = line.strip_prefix("XFAIL:") {
        return Some((Keyword::XFail, rest));
    }
    let (status, rest) = line.strip_prefix("FAIL[")?.split_once("]:")?;
    Some((Keyword::Run(Expect::Status(status.parse().ok()?)), rest))
}

/// A word that is probably a misspelt keyword, and that keyword.
fn misspelt(line: &str) -> Option<(String, &'static str)> {
    let (head, _) = line.split_once(':')?;
    let word = head.trim_end();
    let stem = word.split_once(['[', '(', ' ']).map_or(word, |(stem, _)| stem);
    if stem.len() < 2 || !stem.bytes().all(|b| b.is_ascii_uppercase()) {
        return None;
    }
    let meant = ["RUN", "FAIL", "XFAIL"].into_iter().min_by_key(|keyword| edit_distance(stem, keyword))?;
    let exact = stem == meant;
    let number = |c: char| c.is_ascii_digit() || "[]()-".contains(c);
    let only_blanks_or_status = exact && word[stem.len()..].chars().all(number);
    let near = !exact && stem == word && edit_distance(stem, meant) == 1;
    (only_blanks_or_status || near).then(|| (format!("{head}:"), meant))
}

#[cfg(test)]
mod tests {
    use super::{Expect, read};

    #[test]
    fn keywords_with_any_leader() {
        let script = read("# RUN: a %s\n// FAIL: b\n;; FAIL[3]: c\nRUN: d\n# XFAIL: not done\n");
        let runs: Vec<_> = script.runs.iter().map(|run| (run.line, run.expect, run.text.as_str())).collect();
        let expected = [
            (1, Expect::Success, "a %s"),
            (2, Expect::Failure, "b"),
            (3, Expect::Status(3), "c"),
            (4, Expect::Success, "d"),
        ];
        assert_eq!(runs, expected);
        assert_eq!(script.xfail.as_deref(), Some("not done"));
        assert!(script.mistakes.is_empty() && script.doubtful.is_empty());
    }

    #[test]
    fn lines_go_on_after_a_backslash() {
        let script = read("# RUN: a \\\n# RUN:   b | \\\n#   c\n# RUN: d\n");
        assert_eq!(script.runs[0].text, "a b | c");
        assert_eq!(script.runs[1].line, 4);
        assert_eq!(read("# RUN: a \\").mistakes.len(), 1);
    }

    #[test]
    fn misspelt_keywords_are_doubtful() {
        for line in ["# RUN : a", "# RNU: a", "# RU: a", "# FIAL: a", "# FAIL(3): a", "# FAIL[x]: a", "# XFIAL: a"] {
            let script = read(line);
            assert!(script.runs.is_empty() && script.doubtful.len() == usize::from(line != "# FAIL[x]: a"), "{line}");
        }
        for line in ["# CHECK: a", "# FUSE: a", "# A RUN line: a", "# RUN2: a", "graph(%x : Tensor):"] {
            assert!(read(line).doubtful.is_empty(), "{line}");
        }
        assert_eq!(read("# XFAIL:").mistakes.len(), 1);
    }
}
