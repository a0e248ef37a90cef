//! How messages name the fields of options.
//!
//! The engine knows no command line. A message names a field as Rust code does, `bind_dir`, unless
//! the program that shows it has called [`spell_settings`]: `jitopt` shows `--bind-dir`.

use std::fmt;
use std::sync::OnceLock;

/// Makes the name that messages show of the name of a field.
type Spelling = fn(&'static str) -> String;

static SPELLING: OnceLock<Spelling> = OnceLock::new();

/// Sets how the messages of this process name the fields of options. The first call decides.
pub fn spell_settings(spelling: Spelling) {
    // A second call changes nothing, as messages made before and after it would differ.
    let _ = SPELLING.set(spelling);
}

/// The name of a field of the options, as messages show it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setting(&'static str);

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match SPELLING.get() {
            Some(spelling) => f.write_str(&spelling(self.0)),
            None => f.write_str(self.0),
        }
    }
}

/// Declares settings, each under the name of its field in capitals.
macro_rules! settings {
    ($($constant:ident: $field:literal),* $(,)?) => {
        $(pub(crate) const $constant: Setting = Setting($field);)*
    };
}

settings! {
    ALLOW: "allow",
    ARGS: "args",
    ATOL: "atol",
    BACKEND: "backend",
    BIND: "bind",
    BIND_DIR: "bind_dir",
    CALLEE: "callee",
    CHECK: "check",
    DEBUG_COUNTER: "debug_counter",
    DEVICE: "device",
    DISABLE: "disable",
    EXPECT: "expect",
    GRAD_OUTPUTS: "grad_outputs",
    INPUTS: "inputs",
    MEASURE: "measure",
    MERGE_PROFILE: "merge_profile",
    NO_CACHE: "no_cache",
    PASSES: "passes",
    PLAN: "plan",
    PRINT_TREE_DIR: "print_tree_dir",
    PROFILE: "profile",
    RECORD_PROFILE: "record_profile",
    REPLAY: "replay",
    RTOL: "rtol",
    SCHEDULE_SEED: "schedule_seed",
    SEED: "seed",
    SHAPE: "shape",
    SPECIALIZE: "specialize",
    THREADS: "threads",
    TIMEOUT: "timeout",
    TORCH: "torch",
    TRANSFORM_CACHE: "transform_cache",
    TRANSFORM_CACHE_VERIFY: "transform_cache_verify",
}

#[cfg(test)]
mod tests {
    use super::*;

    /// No test of this crate sets a spelling.
    #[test]
    fn messages_name_fields_as_code_does() {
        assert_eq!(format!("{BIND_DIR}: no file"), "bind_dir: no file");
    }
}
