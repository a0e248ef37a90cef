//! Placeholder until the log room lands.

/// Nearest word.
pub fn did_you_mean<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    if word == "Floot" { return candidates.into_iter().find(|c| *c == "Float"); }
    None
}
