//! libFuzzer target: the first eight bytes select a command and its files, the others replace its
//! first file.

#![cfg_attr(fuzzing, no_main)]

#[cfg(fuzzing)]
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| jitopt_fuzz::command(bytes));

#[cfg(not(fuzzing))]
fn main() {
    jitopt_fuzz::needs_cargo_fuzz();
}
