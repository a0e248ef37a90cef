//! The seeds of random groups that a test runs.

/// Those that an environment variable names, by their number or as a range, after a first one.
pub(crate) fn seeds(variable: &str, default: u64, first: u64) -> Vec<u64> {
    let named = std::env::var(variable).unwrap_or(default.to_string());
    let (from, to) = named.split_once('-').unwrap_or(("0", &named));
    let seed = |text: &str| first + text.parse::<u64>().unwrap_or_else(|_| panic!("{variable}={named} names no seeds"));
    (seed(from)..seed(to)).collect()
}
