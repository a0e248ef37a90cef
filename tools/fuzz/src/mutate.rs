//! `mutate COUNT [SEED] [FOLDER]`: damages the graphs of a folder and checks both properties on each.
//!
//! Where an input kills the process, set `JITOPT_FUZZ_LAST=FILE`: every input is written there before it is tried.

use jitopt_fuzz::damage::{Random, damage};
use jitopt_fuzz::{read, round_trip, shrink::shrink};
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Seeds above this are left out: reading them takes the time of a hundred small ones.
const LARGEST_SEED: u64 = 8 << 10;
/// An input that takes longer has found something quadratic.
const SLOW: Duration = Duration::from_millis(500);
/// One that takes longer hangs.
const HANGS: Duration = Duration::from_secs(20);
/// As the tool has it.
const STACK: usize = 1 << 30;

/// The input at work and since when.
type Current = Arc<Mutex<Option<(Instant, Vec<u8>)>>>;

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let mut number = |default: u64| arguments.next().and_then(|text| text.parse().ok()).unwrap_or(default);
    let (count, seed) = (number(100_000), number(1));
    let folder = arguments.next().unwrap_or(concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/corpus").to_owned());
    let seeds = seeds(Path::new(&folder));
    if seeds.is_empty() {
        eprintln!("no graphs in {folder}");
        return ExitCode::from(2);
    }
    let work = move || campaign(&seeds, count, seed);
    let thread = std::thread::Builder::new().stack_size(STACK).spawn(work);
    let failures = thread.ok().and_then(|thread| thread.join().ok()).unwrap_or(1);
    ExitCode::from(u8::from(failures > 0))
}

fn seeds(folder: &Path) -> Vec<Vec<u8>> {
    let (mut folders, mut files) = (vec![folder.to_owned()], BTreeSet::<PathBuf>::new());
    while let Some(folder) = folders.pop() {
        for path in std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()) {
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "ir") {
                files.insert(path);
            }
        }
    }
    let small = |path: &PathBuf| path.metadata().is_ok_and(|data| data.len() <= LARGEST_SEED);
    files.iter().filter(|path| small(path)).filter_map(|path| std::fs::read(path).ok()).collect()
}

fn campaign(seeds: &[Vec<u8>], count: u64, seed: u64) -> usize {
    std::panic::set_hook(Box::new(|_| {}));
    let current = Current::default();
    watch(Arc::clone(&current));
    let mut random = Random(seed);
    let last = std::env::var_os("JITOPT_FUZZ_LAST");
    let (mut known, start) = (BTreeSet::new(), Instant::now());
    for _ in 0..count {
        let input = damage(seeds, &mut random);
        if let Some(file) = &last {
            let _ = std::fs::write(file, &input);
        }
        let begun = Instant::now();
        if let Ok(mut current) = current.lock() {
            *current = Some((begun, input.clone()));
        }
        let wrong = verdict(&input).or_else(|| (begun.elapsed() > SLOW).then(|| "slow".to_owned()));
        if let Some(why) = wrong
            && known.insert(family(&why))
        {
            report(&input, &why);
        }
    }
    let seconds = start.elapsed().as_secs_f64();
    println!("{count} inputs from {} files in {seconds:.0} s, {} kinds of failure", seeds.len(), known.len());
    known.len()
}

/// What is wrong with what happens to the input.
fn verdict(input: &[u8]) -> Option<String> {
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        read(input);
        round_trip(input)
    }));
    match outcome {
        Ok(result) => result.err(),
        Err(payload) => {
            let text = payload.downcast_ref::<String>().map(String::as_str);
            let text = text.or_else(|| payload.downcast_ref::<&str>().copied()).unwrap_or("");
            Some(format!("panic: {text}"))
        }
    }
}

/// Failures that read alike up to numbers and names are one kind.
fn family(why: &str) -> String {
    why.chars().filter(|c| c.is_ascii_alphabetic() || *c == ' ').take(48).collect()
}

fn report(input: &[u8], why: &str) {
    let kind = family(why);
    let small = match why {
        "slow" => input.to_vec(),
        _ => shrink(input, |text| verdict(text).is_some_and(|why| family(&why) == kind)),
    };
    println!(
        "---- {}\n{}",
        verdict(&small).as_deref().unwrap_or(why),
        small.escape_ascii().to_string().replace("\\n", "\n")
    );
}

/// Ends the process, with the input, when one input takes too long.
fn watch(current: Current) {
    std::thread::spawn(move || {
        loop {
            std::thread::sleep(Duration::from_secs(1));
            let hanging = current.lock().ok().and_then(|c| c.clone()).filter(|(since, _)| since.elapsed() > HANGS);
            if let Some((_, input)) = hanging {
                println!("---- hangs\n{}", input.escape_ascii());
                std::process::exit(1);
            }
        }
    });
}
