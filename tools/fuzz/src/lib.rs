//! Coverage-guided fuzzing of the parser, the printer, passes and all subcommands.
//!
//! Each property is a target of `cargo fuzz` (nightly Rust, a C++ compiler):
//! ```text
//! cargo +nightly fuzz run --fuzz-dir tools/fuzz parse      target/fuzz-parse testdata/corpus
//! cargo +nightly fuzz run --fuzz-dir tools/fuzz round_trip target/fuzz-trip  testdata/corpus
//! cargo +nightly fuzz run --fuzz-dir tools/fuzz passes     target/fuzz-passes
//! cargo +nightly fuzz run --fuzz-dir tools/fuzz command    target/fuzz-command
//! ```
//! The first directory is libFuzzer's own and must exist, the others are seeds. `tools/mutation`
//! works without nightly Rust: it mutates the files of the repository itself.

use jitopt_core::text::{ParseOptions, PrintOptions, parse, parse_all_graphs, print};
use jitopt_mutation::case::{Case, Sources};
use jitopt_mutation::in_process;
use jitopt_mutation::pipeline_texts::Passes;
use jitopt_mutation::seeds::Seeds;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// Passes transform a graph or refuse it.
///
/// # Panics
/// If they do neither.
pub fn passes(bytes: &[u8]) {
    let end = bytes.iter().position(|byte| *byte == b'\n').unwrap_or(0);
    let pipeline = String::from_utf8_lossy(&bytes[..end]).replace('/', "_");
    let words = ["jitopt", &format!("--passes={pipeline}"), "--no-verify"];
    let argv: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
    let ended = in_process::run(&argv, &bytes[end..], &scratch());
    assert_eq!(ended.failure(), None, "{}", ended.said);
}

/// A command of `jitopt-mutation` ends with a documented exit code, in bounded time.
///
/// # Panics
/// If it does not.
pub fn command(bytes: &[u8]) {
    static SOURCES: OnceLock<Sources> = OnceLock::new();
    let testdata = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata");
    let sources = SOURCES.get_or_init(|| Sources {
        seeds: Seeds::find(&[testdata]),
        passes: Passes::listed(),
        archives: Vec::new(),
    });
    let Some((choice, rest)) = bytes.split_first_chunk() else { return };
    let mut case = Case::make(sources, 1, u64::from_le_bytes(*choice));
    if let Some(file) = case.files.values_mut().next() {
        *file = rest.to_vec();
    }
    let ended = case.run(&scratch());
    assert_eq!(ended.failure(), None, "{}\n{}", case.argv.join(" "), ended.said);
}

/// The directory of this process for the files of commands.
fn scratch() -> PathBuf {
    let folder = std::env::temp_dir().join(format!("jitopt-fuzz-{}", std::process::id()));
    // If it cannot be created, commands find no files.
    let _ = std::fs::create_dir_all(&folder);
    folder
}

/// Arbitrary bytes are parsed or refused, as one graph and as several.
pub fn read(bytes: &[u8]) {
    let _ = parse(bytes, ParseOptions::default());
    let _ = parse_all_graphs(bytes, ParseOptions::default());
}

/// A parsed graph survives a round trip: printed, parsed and printed again, the text is the same.
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

/// Runs the targets without `cargo fuzz`.
pub fn needs_cargo_fuzz() {
    eprintln!(
        "this is a libFuzzer target: run it with `cargo fuzz run --fuzz-dir tools/fuzz …`, or use `tools/mutation`"
    );
}
