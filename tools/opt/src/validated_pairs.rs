//! `jitopt validate --pairs OLD NEW`: the files of two folders that have the same names.

use crate::arguments::ValidateArgs;
use crate::exit::refuse;
use crate::several::ShardArg;
use crate::{World, cmd_validate, several};
use jitopt_engine::Error;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

/// Extensions of the files that are compared.
const PROGRAMS: [&str; 4] = ["pt", "ptl", "pt2", "ir"];

/// Compares every file of the first folder with that of the second of the same name.
pub(crate) fn run(args: &ValidateArgs, world: &mut World<'_>) -> Result<i32, Error> {
    let [old, new] = args.files.as_slice() else { return refuse("--pairs: two folders are expected") };
    let (olds, news) = (programs(old, world)?, programs(new, world)?);
    let missing = olds.keys().filter(|name| !news.contains_key(*name)).map(|name| (name, new));
    let missing = missing.chain(news.keys().filter(|name| !olds.contains_key(*name)).map(|name| (name, old)));
    for (name, folder) in missing {
        world.say(&format!("note: there is no `{name}` in `{}`", folder.display()));
    }
    let names: Vec<&String> = olds.keys().filter(|name| news.contains_key(*name)).collect();
    if names.is_empty() {
        return refuse("--pairs: no two files of the folders have the same name");
    }
    let files: Vec<PathBuf> = names.iter().map(|name| olds[*name].clone()).collect();
    let files = args.shard.of(&files);
    let counts: Mutex<BTreeMap<&str, usize>> = Mutex::default();
    let code = several::each(&files, args.jobs, world, |file, world| {
        let name = stem(file);
        let both = vec![file.to_owned(), news[&name].clone()];
        let (code, report) = cmd_validate::one(
            &ValidateArgs { files: both, pairs: false, shard: ShardArg::default(), ..args.clone() },
            world,
        );
        let class = report.as_ref().map_or("refused", |report| match report.class {
            Some(class) if report.is_different() => class.name(),
            _ => report.verdict,
        });
        if let Ok(mut counts) = counts.lock() {
            *counts.entry(class).or_default() += 1;
        }
        code
    });
    let counts = counts.into_inner().unwrap_or_default();
    let counts: Vec<String> = counts.iter().map(|(class, count)| format!("{count} {class}")).collect();
    world.say(&format!("{} pairs: {}", files.len(), counts.join(", ")));
    Ok(code)
}

/// The programs of a folder by name.
fn programs(folder: &Path, world: &World<'_>) -> Result<BTreeMap<String, PathBuf>, Error> {
    let entries = match std::fs::read_dir(world.path(folder)) {
        Ok(entries) => entries,
        Err(error) => return refuse(format_args!("--pairs: cannot read the folder `{}`: {error}", folder.display())),
    };
    let paths = entries.flatten().map(|entry| folder.join(entry.file_name()));
    let is_program = |path: &PathBuf| path.extension().is_some_and(|end| PROGRAMS.iter().any(|known| end == *known));
    Ok(paths.filter(is_program).map(|path| (stem(&path), path)).collect())
}

fn stem(path: &Path) -> String {
    path.file_stem().unwrap_or_default().to_string_lossy().into_owned()
}
