//! Selects the rewrites that may happen: `--debug-counter=dce.nodes-erased=1-5:9` and
//! `--disable=cse`.

use crate::log::did_you_mean;
use std::fmt;
use std::ops::RangeInclusive;

/// The gate that every rewrite passes.
#[derive(Clone, Debug, Default)]
pub struct Gate {
    counters: Vec<Counter>,
    /// Disabled passes.
    pub disabled: Vec<String>,
}

/// The name that matches every rule: `*=1-5`.
pub(crate) const EVERY: &str = "*";

/// One `rule=1-5:9`. A rule is named with or without its pass.
#[derive(Clone, Debug)]
struct Counter {
    rule: String,
    allowed: Vec<RangeInclusive<u64>>,
    seen: u64,
}

/// The reason why a text is not a valid debug counter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GateError(String);

impl fmt::Display for GateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for GateError {}

impl Gate {
    /// Adds `rule=1-5:9`: of the rewrites of that rule, counted from 1, only these happen.
    pub fn add_counter(&mut self, text: &str) -> Result<(), GateError> {
        let bad =
            |why: &str| GateError(format!("bad debug counter `{text}`: {why}; write `rule=1-5:9`, counted from 1"));
        let (rule, ranges) = text.split_once('=').ok_or_else(|| bad("`=` is missing"))?;
        if rule.is_empty() {
            return Err(bad("the rule is missing"));
        }
        let allowed = ranges.split(':').map(|part| range(part).ok_or_else(|| bad(&format!("`{part}` is not a range"))));
        let allowed = allowed.collect::<Result<_, _>>()?;
        self.counters.push(Counter { rule: rule.to_owned(), allowed, seen: 0 });
        Ok(())
    }

    /// Whether nothing is gated.
    pub(crate) fn is_open(&self) -> bool {
        self.counters.is_empty()
    }

    /// Counts one candidate rewrite of `rule` of `pass` and returns whether it may happen.
    pub(super) fn admits(&mut self, pass: &str, rule: &str) -> bool {
        let mut open = true;
        for counter in &mut self.counters {
            let full = counter.rule.strip_prefix(pass).and_then(|r| r.strip_prefix('.'));
            if counter.rule == EVERY || counter.rule == rule || full == Some(rule) {
                counter.seen += 1;
                open &= counter.allowed.iter().any(|range| range.contains(&counter.seen));
            }
        }
        open
    }

    /// The number of candidate rewrites for the counters of every rule.
    pub fn came_up(&self) -> u64 {
        self.counters.iter().filter(|counter| counter.rule == EVERY).map(|counter| counter.seen).max().unwrap_or(0)
    }

    /// Rules of counters without a candidate rewrite: a misspelt one would have no effect,
    /// silently.
    pub fn unused(&self) -> impl Iterator<Item = &str> {
        self.counters.iter().filter(|counter| counter.seen == 0).map(|counter| counter.rule.as_str())
    }
}

/// The message for a rule without candidate rewrites, with the nearest rule that had some.
pub fn never_came_up<'a>(rule: &str, queried: impl IntoIterator<Item = &'a str>) -> String {
    let near = did_you_mean(rule, queried).map_or(String::new(), |name| format!("; did you mean `{name}`?"));
    format!("there was no candidate for the rewrite `{rule}`{near}")
}

fn range(text: &str) -> Option<RangeInclusive<u64>> {
    let (first, last) = match text.split_once('-') {
        Some((first, last)) => (first.parse().ok()?, last.parse().ok()?),
        None => (text.parse().ok()?, text.parse().ok()?),
    };
    (first <= last).then_some(first..=last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_let_the_named_ones_through() {
        let mut gate = Gate::default();
        gate.add_counter("dce.nodes-erased=1-2:4").expect("a counter");
        let let_through: Vec<bool> = (0..5).map(|_| gate.admits("dce", "nodes-erased")).collect();
        assert_eq!(let_through, [true, true, false, true, false]);
        assert!(gate.admits("cse", "nodes-merged"));
        for bad in ["dce", "=1", "dce=", "dce=a", "dce=5-1"] {
            assert!(gate.add_counter(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_rule_that_never_came_up_is_reported() {
        let mut gate = Gate::default();
        gate.add_counter("dce.node-erased=1").expect("a counter");
        assert_eq!(gate.unused().collect::<Vec<_>>(), ["dce.node-erased"]);
        let message = never_came_up("dce.node-erased", ["dce.nodes-erased"]);
        assert_eq!(
            message,
            "there was no candidate for the rewrite `dce.node-erased`; did you mean `dce.nodes-erased`?"
        );
    }
}
