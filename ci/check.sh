#!/usr/bin/env bash
# The checks before a commit and in CI: formatting, lints, documentation, tests. Needs Rust and a C
# compiler.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# One build of each crate: incremental files would only cost time.
export CARGO_INCREMENTAL=0

step() { printf '\n== %s\n' "$*"; "$@"; }

step cargo fmt --all --check
# rustfmt does not find modules that a macro declares.
step rustfmt --check --edition 2024 passes/*.rs tools/fuzz/src/*.rs tools/fuzz/fuzz_targets/*.rs
# With the feature `mutants`, whose code no other step compiles; fuzz targets without libFuzzer.
step cargo clippy --quiet --workspace --all-targets --all-features -- -D warnings
RUSTDOCFLAGS=-Dwarnings step cargo doc --quiet --no-deps --workspace

# Everything that tests need, in one build: with `--package jitopt` crates have fewer features, and
# are compiled a second time.
step cargo test --quiet --workspace --no-run

# The commands that the README shows, on the files of the repository. Archives are read by `inspect`
# and `export` only, which lit files run.
jitopt="${CARGO_TARGET_DIR:-target}/debug/jitopt"
for sample in $("$jitopt" samples | cut -d ' ' -f 1 | grep -v '\.pt$'); do
  "$jitopt" samples "$sample" | "$jitopt" --passes='@default' --verify-roundtrip > /dev/null
done

# All tests, including the lit files and the checks of the source tree (tidy). Last, so that the log
# ends with their result.
step cargo test --workspace
