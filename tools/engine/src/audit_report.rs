//! An audit as text for people, as one JSON object, and as SARIF for code review tools.

use crate::audit::{Audit, AuditFinding, CodePlace, Level, Reached, Rule};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

impl Level {
    /// As SARIF spells it.
    fn name(self) -> &'static str {
        match self {
            Level::Error => "error",
            Level::Warning => "warning",
            Level::Note => "note",
        }
    }
}

impl Audit {
    /// The verdict in a word.
    fn verdict(&self) -> &'static str {
        if self.is_accepted() { "accepted" } else { "refused" }
    }

    /// For people.
    pub fn as_text(&self, file: &str) -> String {
        let mut text = format!("{file}: {}\n", self.verdict());
        if let Some(what) = &self.what {
            let _ = writeln!(text, "{what}");
        }
        for finding in &self.findings {
            text += &shown(finding);
        }
        for proof in &self.proofs {
            let place = proof.place.as_ref().map_or(String::new(), |place| format!(", {}", at(place)));
            let _ =
                writeln!(text, "proved: `{}` reaches element {} of {}{place}", proof.operator, proof.last, proof.of);
        }
        text + &self.effects_as_text() + &self.methods_as_text()
    }

    fn effects_as_text(&self) -> String {
        let mut by_effect: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for (operator, (effect, _)) in self.methods.iter().flat_map(|method| &method.operators) {
            by_effect.entry(effect).or_default().insert(operator);
        }
        let line = |(effect, operators): (&&str, &BTreeSet<&str>)| {
            let operators: Vec<&str> = operators.iter().copied().collect();
            format!("  {effect}: {}\n", operators.join(" "))
        };
        if by_effect.is_empty() {
            String::new()
        } else {
            "operators\n".to_owned() + &by_effect.iter().map(line).collect::<String>()
        }
    }

    fn methods_as_text(&self) -> String {
        let mut text = String::new();
        for reached in [Reached::Load, Reached::Call, Reached::Name] {
            let names: Vec<&str> = self
                .methods
                .iter()
                .filter(|method| method.reached == reached)
                .map(|method| method.name.as_str())
                .collect();
            let what = match reached {
                Reached::Load => "runs while loading",
                Reached::Call => "runs when called",
                Reached::Name => "runs if called by name",
            };
            if !names.is_empty() {
                let _ = writeln!(text, "{what}\n  {}", names.join("\n  "));
            }
        }
        text
    }

    /// One JSON object.
    pub fn as_json(&self, file: &str) -> Value {
        let finding = |finding: &AuditFinding| {
            json!({
                "rule": finding.rule.name(), "level": finding.level.name(), "message": finding.message,
                "operator": finding.operator, "record": finding.place.as_ref().map(|place| &place.record),
                "line": finding.place.as_ref().map(|place| place.line), "path": finding.path,
            })
        };
        let method = |method: &crate::audit::AuditedMethod| {
            let operator = |(name, (effect, count)): (&String, &(String, usize))| json!({"operator": name, "effect": effect, "count": count});
            json!({
                "method": method.name, "runs": method.reached.name(),
                "operators": method.operators.iter().map(operator).collect::<Vec<_>>(),
            })
        };
        let proof = |proof: &crate::audit::Proof| {
            json!({
                "operator": proof.operator, "last": proof.last, "elements": proof.of,
                "record": proof.place.as_ref().map(|place| &place.record),
                "line": proof.place.as_ref().map(|place| place.line),
            })
        };
        let hook = |hook: &jitopt_source::RunHook| json!({"object": hook.path, "class": hook.class});
        json!({
            "file": file, "verdict": self.verdict(), "what": self.what,
            "findings": self.findings.iter().map(finding).collect::<Vec<_>>(),
            "proofs": self.proofs.iter().map(proof).collect::<Vec<_>>(),
            "hooks_run": self.hooks.iter().map(hook).collect::<Vec<_>>(),
            "methods": self.methods.iter().map(method).collect::<Vec<_>>(),
        })
    }
}

/// `error: leaves-storage: … (code/__torch__.py, line 4, in forward)`
fn shown(finding: &AuditFinding) -> String {
    let mut place = finding.place.as_ref().map(at).into_iter().collect::<Vec<_>>();
    if !finding.path.is_empty() {
        place.push(format!("in {}", finding.path.join(" > ")));
    }
    let place = if place.is_empty() { String::new() } else { format!("\n  {}", place.join(", ")) };
    format!("{}: {}: {}{place}\n", finding.level.name(), finding.rule.name(), finding.message)
}

fn at(place: &CodePlace) -> String {
    format!("{}, line {}", place.record, place.line)
}

/// A SARIF 2.1.0 log of several files. Records of code are artifacts inside the artifact of their
/// archive.
pub fn as_sarif(audits: &[(String, Audit)]) -> Value {
    let mut artifacts = Vec::new();
    let mut results = Vec::new();
    for (file, audit) in audits {
        let archive = artifacts.len();
        artifacts.push(json!({"location": {"uri": file}}));
        let mut records: BTreeMap<String, usize> = BTreeMap::new();
        for finding in &audit.findings {
            let place = finding.place.as_ref().map(|place| {
                let index = *records.entry(place.record.clone()).or_insert_with(|| {
                    artifacts.push(json!({"location": {"uri": place.record}, "parentIndex": archive}));
                    artifacts.len() - 1
                });
                (place, index)
            });
            results.push(result(file, archive, finding, place));
        }
    }
    let rule = |rule: Rule| {
        json!({
            "id": rule.name(), "shortDescription": {"text": rule.meaning()},
            "defaultConfiguration": {"level": rule.level().name()},
        })
    };
    json!({
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json", "version": "2.1.0",
        "runs": [{
            "tool": {"driver": {"name": "jitopt", "version": env!("CARGO_PKG_VERSION"), "rules": Rule::all().map(rule).collect::<Vec<_>>()}},
            "artifacts": artifacts, "results": results,
        }],
    })
}

fn result(file: &str, archive: usize, finding: &AuditFinding, place: Option<(&CodePlace, usize)>) -> Value {
    let mut physical = json!({"artifactLocation": {"uri": file, "index": archive}});
    if let Some((place, index)) = place {
        physical = json!({
            "artifactLocation": {"uri": place.record, "index": index}, "region": {"startLine": place.line},
        });
    }
    let mut location = json!({"physicalLocation": physical});
    if let Some(method) = finding.path.last() {
        location["logicalLocations"] = json!([{"fullyQualifiedName": method, "kind": "function"}]);
    }
    json!({
        "ruleId": finding.rule.name(), "level": finding.level.name(), "message": {"text": finding.message},
        "locations": [location], "properties": {"archive": file, "path": finding.path},
    })
}
