//! Texts of pipelines, valid ones and mutated ones.

use crate::byte_damage;
use crate::chance::Chance;
use crate::in_process::output;

/// The passes and options that pipelines consist of, as listed by the tool.
pub struct Passes {
    /// Short names, each with its options and their defaults.
    passes: Vec<(String, Vec<(String, String)>)>,
    /// Names of pipelines.
    named: Vec<String>,
}

impl Passes {
    /// Reads the output of `--list-passes`.
    pub fn listed() -> Passes {
        let text = output(&["--list-passes=json"]);
        let all: serde_json::Value = serde_json::from_slice(&text).unwrap_or_default();
        let array = |value: &serde_json::Value| value.as_array().cloned().unwrap_or_default();
        let word = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
        let options = |pass: &serde_json::Value| {
            array(&pass["options"]).iter().map(|option| (word(&option["name"]), word(&option["default"]))).collect()
        };
        Passes {
            passes: array(&all["passes"]).iter().map(|pass| (word(&pass["name"]), options(pass))).collect(),
            named: array(&all["pipelines"]).iter().map(|named| word(&named["name"])).collect(),
        }
    }

    /// A pipeline of a few passes; one in eight is mutated.
    pub fn some(&self, chance: &mut Chance) -> String {
        let count = 1 + chance.below(3);
        let steps: Vec<String> = (0..count).map(|_| self.step(chance, 2)).collect();
        let mut text = steps.join(",");
        if chance.one_in(8) {
            let mut bytes = text.into_bytes();
            byte_damage::damage(&mut bytes, b"fixpoint(dce,cse){max=3},@default", chance);
            text = String::from_utf8_lossy(&bytes).into_owned();
        }
        // File options must not name files outside the directory of the case.
        text.replace(['/', '\0'], "_")
    }

    fn step(&self, chance: &mut Chance, depth: usize) -> String {
        match chance.below(12) {
            0 if depth > 0 => format!("fixpoint({},{})", self.step(chance, depth - 1), self.step(chance, depth - 1)),
            1 if depth > 0 => format!("forward({})", self.step(chance, depth - 1)),
            2 if depth > 0 => format!("backward({})", self.step(chance, depth - 1)),
            3 | 4 if !self.named.is_empty() => format!("@{}", self.named[chance.below(self.named.len())]),
            _ => self.pass(chance),
        }
    }

    fn pass(&self, chance: &mut Chance) -> String {
        let Some((name, options)) = self.passes.get(chance.below(self.passes.len())) else { return "dce".to_owned() };
        if options.is_empty() || chance.one_in(3) {
            return name.clone();
        }
        // Required options are given together.
        let required: Vec<&(String, String)> = options.iter().filter(|(_, default)| is_file(default)).collect();
        let given = if required.is_empty() { vec![&options[chance.below(options.len())]] } else { required };
        let texts: Vec<String> = given.into_iter().map(|(option, default)| value(option, default, chance)).collect();
        format!("{name}{{{}}}", texts.join(" "))
    }
}

/// Whether an option names a file: its default is a file name then.
fn is_file(default: &str) -> bool {
    default.ends_with(".ir") || default.ends_with(".json")
}

/// An option with a value; one in eight is invalid, so that most pipelines run.
fn value(option: &str, default: &str, chance: &mut Chance) -> String {
    const ODD: &[&str] = &["1", "0", "true", "-1", "18446744073709551616", "x", "in.ir", "[]"];
    let fitting = match default {
        _ if chance.one_in(8) => chance.pick(ODD),
        "true" | "false" => match chance.below(3) {
            0 => return option.to_owned(),
            1 => "true",
            _ => "false",
        },
        _ if is_file(default) => "in.ir",
        _ if default.parse::<i64>().is_ok() => chance.pick(&["0", "1", "2", "3", "8", "100"]),
        _ => default,
    };
    if fitting.is_empty() { option.to_owned() } else { format!("{option}={fitting}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::in_process::run;
    use std::path::Path;

    #[test]
    fn most_pipelines_can_be_read() {
        let passes = Passes::listed();
        let read = |seed: u64| {
            let pipeline = format!("--passes={}", passes.some(&mut Chance(seed)).replace("in.ir", "Cargo.toml"));
            let argv = ["jitopt".to_owned(), pipeline];
            !run(&argv, b"graph():\n  return ()\n", Path::new("")).said.contains("error: unknown")
        };
        let fitting = (0..1000).filter(|&seed| read(seed)).count();
        assert!((700..1000).contains(&fitting), "{fitting} of 1000");
    }
}
