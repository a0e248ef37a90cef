//! libFuzzer target: a pipeline in the first line, then a graph, which is not verified.

#![cfg_attr(fuzzing, no_main)]

#[cfg(fuzzing)]
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| jitopt_fuzz::passes(bytes));

#[cfg(not(fuzzing))]
fn main() {
    jitopt_fuzz::needs_cargo_fuzz();
}
