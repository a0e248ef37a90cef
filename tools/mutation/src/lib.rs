//! Mutated inputs for every subcommand: graphs, logs, descriptions, tensors, profiles, pipelines,
//! checks.
//!
//! Whatever the input is, the tool must end with a documented exit code, in bounded time and with
//! bounded memory; a panic, exit code 70, and anything slower than [`in_process::SLOW`] are
//! failures. `cargo test` tries a fixed number of mutants; a campaign of hours is
//!
//! ```text
//! cargo run --release -p jitopt-mutation -- --hours 4 --jobs 8 --failures target/mutants [SEEDS…]
//! ```
//!
//! where SEEDS are additional directories or files besides `testdata`. Mutants are numbered: a seed
//! and a number give the same mutant again (`--seed S --first N --count 1`). Workers are processes
//! with a memory limit (`ulimit -v`), so that the supervisor can identify a mutant that kills its
//! process. Failing mutants are shrunk and saved as a directory with a lit file, `repro.ir`, whose
//! RUN line shows the failure, and the files it reads.
//!
//! ```text
//! cargo run --release -p jitopt-mutation -- --archives --count 10000000 --jobs 8 [SEEDS…]
//! ```
//!
//! tries mutants of archives only, and states how many were made in which part of the file
//! ([`archive_damage`]). Reading one may take two seconds, and four times the file and 64 MiB.
//!
//! Coverage-guided targets on the same code are in `tools/fuzz`.

pub mod archive_damage;
pub mod byte_damage;
pub mod case;
mod case_commands;
pub mod chance;
pub mod graph_damage;
pub mod in_process;
pub mod json_damage;
pub mod pipeline_texts;
pub mod saved_case;
pub mod seeds;
pub mod shrinking;
pub mod supervisor;
pub mod tensor_files;
pub mod worker;
