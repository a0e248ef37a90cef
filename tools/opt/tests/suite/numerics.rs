//! The interpreter against the results of PyTorch: `numerics/VERSION/CASE.*` of the recorded
//! graphs.
//!
//! Results have the recorded types and shapes exactly, and elements within the recorded tolerances;
//! inputs that a graph writes have the recorded contents after the run; and in double precision,
//! results are within 1e-10 of the largest element of those that PyTorch computed from the same
//! source in double precision. Gradient graphs are compared in the same way.
//!
//! `JITOPT_NUMERICS` selects cases by a part of their path.

use crate::support::cases;
use crate::support::recorded;

use cases::Failure;
use std::collections::BTreeMap;

#[test]
fn results_are_those_of_pytorch() {
    let wanted = std::env::var("JITOPT_NUMERICS").unwrap_or_default();
    let (mut passed, mut failed) = (0, BTreeMap::<String, Vec<(String, String)>>::new());
    for path in recorded::files() {
        let path = path.to_string_lossy().into_owned();
        if !path.contains("/numerics/") || !path.contains(&wanted) {
            continue;
        }
        let short = path.rsplit("/numerics/").next().unwrap_or(&path).to_owned();
        match cases::run(&path) {
            Ok(_) => passed += 1,
            Err(Failure { class, text }) => failed.entry(class).or_default().push((short, text)),
        }
    }
    assert!(passed + failed.len() > 0, "no case matches");
    let table = table(passed, &failed);
    assert!(failed.is_empty(), "{table}");
}

/// Failures by frequency.
fn table(passed: usize, failed: &BTreeMap<String, Vec<(String, String)>>) -> String {
    let mut classes: Vec<_> = failed.iter().collect();
    classes.sort_by_key(|(_, cases)| std::cmp::Reverse(cases.len()));
    let total: usize = classes.iter().map(|(_, cases)| cases.len()).sum();
    let mut text = format!("{passed} passed, {total} did not\n");
    for (class, cases) in &classes {
        text += &format!("{:5}  {class}\n", cases.len());
    }
    for (class, cases) in classes {
        text += &format!("\n== {class}\n");
        for (case, why) in cases {
            text += &format!("{case}\n    {}\n", why.replace('\n', "\n    "));
        }
    }
    text
}
