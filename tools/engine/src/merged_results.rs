//! Adds up results of `audit`, `validate`, `run` and `lint` with `--json` that many processes
//! wrote: one JSON object a line.

use crate::error::{Error, Kind};
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// Verdicts that pass.
const GOOD: [&str; 3] = ["accepted", "same", "ran"];
/// The verdict of a file with findings of `lint`.
const AFFECTED: &str = "affected";
/// Files that a summary names, of each verdict.
const MOST_NAMED: usize = 20;

/// The sum of results.
#[derive(Debug, Default)]
pub struct Merged {
    /// Results by verdict.
    verdicts: BTreeMap<String, Vec<String>>,
    /// Results by class of difference, or kind of grave finding.
    classes: BTreeMap<String, usize>,
    /// Results that are in several files, which are counted once.
    repeated: usize,
}

impl Merged {
    /// Reads the lines of several files.
    ///
    /// # Errors
    /// A line is no result.
    pub fn of(files: &[(String, String)]) -> Result<Merged, Error> {
        let mut results: BTreeMap<String, Map<String, Value>> = BTreeMap::new();
        let mut merged = Merged::default();
        let mut lints = BTreeMap::new();
        for (name, text) in files {
            for (number, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
                let result = serde_json::from_str::<Value>(line).ok();
                if let Some(finding) = result.as_ref().and_then(lint) {
                    merged.repeated += usize::from(lints.insert(line.trim().to_owned(), finding).is_some());
                    continue;
                }
                let Some((subject, result)) = result.and_then(subject) else {
                    let what = format!(
                        "{name}, line {}: expected the JSON of an audit, a validation, a run or a lint",
                        number + 1
                    );
                    return Err(Error::new(Kind::Misuse, what));
                };
                merged.repeated += usize::from(results.insert(subject, result).is_some());
            }
        }
        for (subject, result) in results {
            let shown = subject.split('\0').next().unwrap_or_default();
            merged.add(shown.to_owned(), &result);
        }
        merged.add_lints(lints.into_values());
        Ok(merged)
    }

    /// A file is affected once, however many findings it has; each counts for its lint.
    fn add_lints(&mut self, lints: impl Iterator<Item = (String, String)>) {
        let mut files = BTreeSet::new();
        for (file, lint) in lints {
            *self.classes.entry(lint).or_default() += 1;
            files.insert(file);
        }
        if !files.is_empty() {
            self.verdicts.entry(AFFECTED.to_owned()).or_default().extend(files);
        }
    }

    fn add(&mut self, subject: String, result: &Map<String, Value>) {
        let text = |name: &str| result.get(name).and_then(Value::as_str).map(str::to_owned);
        let verdict = text("verdict").unwrap_or_default();
        self.verdicts.entry(verdict).or_default().push(subject);
        if let Some(class) = text("class") {
            *self.classes.entry(class).or_default() += 1;
        }
        let findings = result.get("findings").and_then(Value::as_array).into_iter().flatten();
        let grave =
            findings.filter(|finding| finding["level"] == "error").filter_map(|finding| finding["rule"].as_str());
        let rules: BTreeSet<&str> = grave.collect();
        rules.into_iter().for_each(|rule| *self.classes.entry(rule.to_owned()).or_default() += 1);
    }

    /// Whether every verdict passes.
    pub fn is_good(&self) -> bool {
        self.verdicts.keys().all(|verdict| GOOD.contains(&verdict.as_str()))
    }

    /// For people.
    pub fn as_text(&self) -> String {
        let counted = |counts: Vec<(&String, usize)>| {
            counts.iter().map(|(name, count)| format!("{count} {name}")).collect::<Vec<_>>().join(", ")
        };
        let all: usize = self.verdicts.values().map(Vec::len).sum();
        let verdicts = counted(self.verdicts.iter().map(|(name, files)| (name, files.len())).collect());
        let mut text = format!("{all} results: {verdicts}\n");
        if !self.classes.is_empty() {
            text += &format!("kinds: {}\n", counted(self.classes.iter().map(|(name, count)| (name, *count)).collect()));
        }
        if self.repeated > 0 {
            text += &format!("repeated results, counted once: {}\n", self.repeated);
        }
        for (verdict, files) in self.verdicts.iter().filter(|(verdict, _)| !GOOD.contains(&verdict.as_str())) {
            files.iter().take(MOST_NAMED).for_each(|file| text += &format!("{verdict}: {file}\n"));
            if files.len() > MOST_NAMED {
                text += &format!("{verdict}: {} more\n", files.len() - MOST_NAMED);
            }
        }
        text
    }

    /// One JSON object.
    pub fn as_json(&self) -> Value {
        let counts: BTreeMap<&String, usize> = self.verdicts.iter().map(|(name, files)| (name, files.len())).collect();
        let bad: BTreeMap<&String, &Vec<String>> =
            self.verdicts.iter().filter(|(name, _)| !GOOD.contains(&name.as_str())).collect();
        json!({"verdicts": counts, "kinds": self.classes, "repeated": self.repeated, "files": bad})
    }
}

/// The file and the lint of a finding of `lint`.
fn lint(result: &Value) -> Option<(String, String)> {
    let text = |name: &str| result.get(name).and_then(Value::as_str).map(str::to_owned);
    Some((text("file")?, text("lint")?))
}

/// The subject of a result: a file or two, then after a NUL each what was done with it.
fn subject(result: Value) -> Option<(String, Map<String, Value>)> {
    let Value::Object(result) = result else { return None };
    let text = |name: &str| result.get(name).and_then(Value::as_str).map(str::to_owned);
    text("verdict")?;
    let subject = match (text("file"), text("first"), text("second")) {
        (Some(file), ..) => [file, text("command").unwrap_or_default(), text("passes").unwrap_or_default()].join("\0"),
        (None, Some(first), Some(second)) => format!("{first} {second}"),
        _ => return None,
    };
    Some((subject, result))
}

#[cfg(test)]
mod tests {
    use super::Merged;

    fn merged(lines: &[&str]) -> Merged {
        Merged::of(&[("a".to_owned(), lines.join("\n"))]).expect("results")
    }

    #[test]
    fn results_are_counted_once_by_verdict_and_kind() {
        let refused = r#"{"file":"b.pt","verdict":"refused","findings":[{"level":"error","rule":"files"},{"level":"error","rule":"files"}]}"#;
        let all = merged(&[r#"{"file":"a.pt","verdict":"accepted","findings":[]}"#, refused, refused]);
        assert!(!all.is_good());
        assert_eq!(
            all.as_text(),
            "2 results: 1 accepted, 1 refused\nkinds: 1 files\nrepeated results, counted once: 1\nrefused: b.pt\n"
        );
    }

    #[test]
    fn findings_of_one_file_are_counted_by_lint() {
        let finding = |file: &str, lint: &str| format!(r#"{{"file":"{file}","lint":"{lint}","outputs":[]}}"#);
        let lines = [finding("a.ir", "x"), finding("a.ir", "y"), finding("b.ir", "x"), finding("b.ir", "x")];
        let all = merged(&lines.each_ref().map(String::as_str));
        assert_eq!(
            all.as_text(),
            "2 results: 2 affected\nkinds: 2 x, 1 y\nrepeated results, counted once: 1\naffected: a.ir\naffected: b.ir\n"
        );
        assert!(!all.is_good());
        assert!(merged(&[r#"{"file":"a.pt","verdict":"ran"}"#]).is_good());
    }

    #[test]
    fn other_lines_are_refused_with_their_number() {
        let error = Merged::of(&[("a".to_owned(), "\n{}".to_owned())]).expect_err("no result");
        assert!(error.message.starts_with("a, line 2: expected the JSON"), "{error}");
    }
}
