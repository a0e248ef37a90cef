//! `jitopt extract LOG`: extracts graphs from a log.

use crate::arguments::ExtractArgs;
use crate::{World, exit};
use jitopt_core::text::extract::{Extracted, extract};
use jitopt_engine::archives;
use std::io::Read;
use std::path::Path;

/// The commands for an archive, which is no log.
fn in_place_of_log(name: &str, what: &str) -> String {
    let file = if name == "-" { "FILE" } else { name };
    format!(
        "error: {name}: expected a log, found an archive: {what}\n  \
         help: `jitopt inspect {file}` shows what is in it\n  \
         help: `jitopt export {file} --to=safetensors -o weights.safetensors` writes its weights\n  \
         help: `jitopt {file}` prints its graph\n"
    )
}

pub(crate) fn run(args: &ExtractArgs, world: &mut World<'_>) -> i32 {
    let log = match read(&args.log, world) {
        Ok(log) => log,
        Err(error) => {
            world.say(&format!("error: cannot read `{}`: {error}", args.log.display()));
            return exit::USAGE;
        }
    };
    let name = args.log.display().to_string();
    if let Some(found) = archives::description(&name, &log) {
        world.say(&found.map_or_else(|error| error.message, |what| in_place_of_log(&name, &what)));
        return exit::PARSE;
    }
    let found = extract(&log);
    let kept: Vec<&Extracted> =
        found.iter().filter(|graph| args.keep_duplicates || graph.duplicate_of.is_none()).collect();
    summary(&found, &kept, world);
    if kept.is_empty() {
        return exit::NO;
    }
    if let Some(number) = args.number {
        return match number.checked_sub(1).and_then(|i| kept.get(i)) {
            Some(graph) => {
                world.print(graph.text.as_bytes());
                exit::YES
            }
            None => {
                world.say(&format!("error: there is no graph {number}: numbers range from 1 to {}", kept.len()));
                exit::USAGE
            }
        };
    }
    if args.list {
        let lines: String = kept.iter().enumerate().map(|(i, graph)| format!("{}\n", describe(i, graph))).collect();
        world.print(lines.as_bytes());
        return exit::YES;
    }
    match &args.output_dir {
        Some(folder) => write_files(&world.path(folder), &kept, world),
        None => {
            let one = |(i, graph): (usize, &&Extracted)| format!("# {}\n{}", describe(i, graph), graph.text);
            let text: Vec<String> = kept.iter().enumerate().map(one).collect();
            world.print(text.join("\n").as_bytes());
            exit::YES
        }
    }
}

fn read(path: &Path, world: &mut World<'_>) -> std::io::Result<Vec<u8>> {
    if path.as_os_str() == "-" {
        let mut log = Vec::new();
        return world.stdin.read_to_end(&mut log).map(|_| log);
    }
    std::fs::read(world.path(path))
}

fn summary(found: &[Extracted], kept: &[&Extracted], world: &mut World<'_>) {
    let cut = kept.iter().filter(|graph| !graph.complete).count();
    let cut = if cut > 0 { format!(", {cut} truncated") } else { String::new() };
    let dropped = found.len() - kept.len();
    let dropped = if dropped > 0 { format!(", {} dropped", counted(dropped, "duplicate")) } else { String::new() };
    world.say(&format!("{}{cut}{dropped}", counted(kept.len(), "graph")));
}

/// `1 graph`, `2 graphs`.
fn counted(n: usize, what: &str) -> String {
    format!("{n} {what}{}", if n == 1 { "" } else { "s" })
}

fn describe(i: usize, graph: &Extracted) -> String {
    let name = graph.name.as_deref().or(graph.source_file.as_deref()).unwrap_or("graph");
    let cut = if graph.complete { "" } else { ", truncated" };
    format!("{}: {name} (line {}{cut})", i + 1, graph.first_line)
}

fn write_files(folder: &Path, kept: &[&Extracted], world: &mut World<'_>) -> i32 {
    if let Err(error) = std::fs::create_dir_all(folder) {
        world.say(&format!("error: cannot create `{}`: {error}", folder.display()));
        return exit::USAGE;
    }
    for (i, graph) in kept.iter().enumerate() {
        let path = folder.join(format!("{:03}-{}.ir", i + 1, graph.stem().unwrap_or("graph")));
        if let Err(error) = std::fs::write(&path, &graph.text) {
            world.say(&format!("error: cannot write `{}`: {error}", path.display()));
            return exit::USAGE;
        }
        world.print(format!("{}\n", path.display()).as_bytes());
    }
    exit::YES
}
