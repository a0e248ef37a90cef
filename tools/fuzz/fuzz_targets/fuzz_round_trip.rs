//! libFuzzer target: a parsed graph survives printing and parsing.

#![cfg_attr(fuzzing, no_main)]

#[cfg(fuzzing)]
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    if let Err(why) = jitopt_fuzz::round_trip(bytes) {
        panic!("{why}");
    }
});

#[cfg(not(fuzzing))]
fn main() {
    jitopt_fuzz::needs_cargo_fuzz();
}
