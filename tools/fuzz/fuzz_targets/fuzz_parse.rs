//! libFuzzer target: arbitrary bytes are parsed or refused.

#![cfg_attr(fuzzing, no_main)]

#[cfg(fuzzing)]
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| jitopt_fuzz::read(bytes));

#[cfg(not(fuzzing))]
fn main() {
    jitopt_fuzz::needs_cargo_fuzz();
}
