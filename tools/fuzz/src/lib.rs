//! Random bytes and damaged graphs against the reader and the printer.
//!
//! Two properties, each a target of `cargo fuzz` (nightly Rust, a C++ compiler):
//! ```text
//! cargo +nightly fuzz run --fuzz-dir tools/fuzz parse      target/fuzz-parse testdata/corpus
//! cargo +nightly fuzz run --fuzz-dir tools/fuzz round_trip target/fuzz-trip  testdata/corpus
//! ```
//! The first folder is libFuzzer's own and must exist, the others are seeds. Without nightly Rust the driver `mutate`
//! damages the corpus itself: the same count and seed, the same inputs.
//! ```text
//! cargo run --release --manifest-path tools/fuzz/Cargo.toml --bin mutate -- 100000
//! ```
//! It prints what fails, shrunk, and ends with 1 if anything did.

pub mod damage;
pub mod shrink;

use jitopt_core::text::{ParseOptions, PrintOptions, parse, parse_all_graphs, print};

/// Any bytes are read or refused, as one graph and as several.
pub fn read(bytes: &[u8]) {
    let _ = parse(bytes, ParseOptions::default());
    let _ = parse_all_graphs(bytes, ParseOptions::default());
}

/// What was read comes back from its own print: printed, read again and printed again, it is the same text.
pub fn round_trip(bytes: &[u8]) -> Result<(), String> {
    let Ok(parsed) = parse(bytes, ParseOptions::default()) else { return Ok(()) };
    let once = print(&parsed.graph, PrintOptions::default());
    let again = parse(&once, ParseOptions::default())
        .map_err(|diagnostics| format!("its own print is refused: {}", diagnostics[0].message))?;
    let twice = print(&again.graph, PrintOptions::default());
    if once == twice {
        Ok(())
    } else {
        Err(format!("printed otherwise the second time: {}", first_difference(&once, &twice)))
    }
}

fn first_difference(once: &[u8], twice: &[u8]) -> String {
    let lines = |text: &[u8]| String::from_utf8_lossy(text).lines().map(str::to_owned).collect::<Vec<_>>();
    let pairs = lines(once).into_iter().zip(lines(twice));
    pairs.into_iter().find(|(a, b)| a != b).map_or("one is longer".to_owned(), |(a, b)| format!("{a:?} became {b:?}"))
}

/// What the targets do when they are not built by `cargo fuzz`.
pub fn needs_cargo_fuzz() {
    eprintln!(
        "this is a libFuzzer target: run it with `cargo fuzz run --fuzz-dir tools/fuzz …`, or use `--bin mutate`"
    );
}
