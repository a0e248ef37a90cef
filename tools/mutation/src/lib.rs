//! Mutated inputs for every subcommand: graphs, logs, descriptions, tensors, profiles, pipelines,
//! checks.
//!
//! Whatever the input is, the tool ends with a documented exit code, in a bounded time and with
//! bounded memory; a panic,
//! exit code 70, and anything slower than [`in_process::SLOW`] are failures. `cargo test` tries a
//! fixed number of mutants;
//! for hours it is
//!
//! ```text
//! cargo run --release -p jitopt-mutation -- --hours 4 --jobs 8 --failures target/mutants [SEEDS…]
//! ```
//!
//! where SEEDS are folders or files next to `testdata`. Mutants are numbered: a seed and a number
//! give the same mutant
//! again (`--seed S --first N --count 1`). Workers are processes with a limit on memory
//! (`ulimit -v`), so that a
//! mutant that ends its process is known by the one who started it. What fails is made smaller, and
//! saved as a folder with
//! a lit file, `repro.ir`, whose RUN line shows the failure, and the files it reads.
//!
//! Coverage-guided targets on the same code are in `tools/fuzz`.

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
