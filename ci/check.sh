#!/usr/bin/env bash
# What people run before a commit and machines after it: formatting, lints, tests, documents. Needs Rust and a C compiler.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

step() { printf '\n== %s\n' "$*"; "$@"; }

step cargo fmt --all --check
# Modules that a macro declares are not seen from lib.rs.
step rustfmt --check --edition 2024 passes/*.rs tools/fuzz/src/*.rs tools/fuzz/fuzz_targets/*.rs
step cargo clippy --quiet --workspace --all-targets -- -D warnings
RUSTDOCFLAGS=-Dwarnings step cargo doc --quiet --no-deps --workspace

# The coverage-guided targets need a nightly toolchain and a C++ compiler.
if cargo +nightly --version > /dev/null 2>&1 && command -v c++ > /dev/null; then
  RUSTFLAGS='--cfg fuzzing' step cargo +nightly check --quiet --manifest-path tools/fuzz/Cargo.toml
fi

# What the README shows, on what is in the repository.
step cargo build --quiet --package jitopt
jitopt="${CARGO_TARGET_DIR:-target}/debug/jitopt"
for sample in $("$jitopt" samples | cut -d ' ' -f 1); do
  "$jitopt" samples "$sample" | "$jitopt" --passes='@default' --verify-roundtrip > /dev/null
done

# Everything, the lit files and the checks on the tree itself (tidy) included; last, so that its verdict closes the log.
step cargo test --workspace
