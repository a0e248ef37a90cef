//! `cargo xtask sizes`: code size statistics, for information only.

use anyhow::{Context, Result, ensure};
use jitopt_tidy::Tree;
use jitopt_tidy::rust_text::{code, functions};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

/// The size of one part of the repository.
#[derive(Default)]
struct Size {
    lines: usize,
    /// Lengths in lines, sorted once complete.
    functions: Vec<usize>,
}

impl Size {
    fn add(&mut self, text: &str) {
        self.lines += text.lines().count();
        let code = code(text);
        self.functions.extend(functions(&code).into_iter().map(|(_, range)| code[range].lines().count()));
        self.functions.sort_unstable();
    }

    fn quantile(&self, percent: usize) -> usize {
        self.functions.get(self.functions.len() * percent / 100).copied().unwrap_or(0)
    }
}

/// Prints the table; with a Git revision, also the change in lines since then.
pub(crate) fn print(root: &Path, base: Option<&str>) -> Result<()> {
    let now = Tree::read(root);
    let sizes = measure(now.sources());
    let old = base.map(|base| at_revision(root, base)).transpose()?;
    let old = old.as_ref().map(|files| measure(files.iter().map(|(path, text)| (path.as_str(), text.as_str()))));
    println!(
        "{:<20} {:>6} {:>9} {:>7} {:>5} {:>5} {:>8}",
        "part",
        "lines",
        "functions",
        "median",
        "p90",
        "max",
        if old.is_some() { "change" } else { "" }
    );
    for (part, size) in &sizes {
        let change = old.as_ref().map_or(String::new(), |old| {
            format!("{:+}", size.lines as i64 - old.get(part).map_or(0, |size| size.lines as i64))
        });
        let (median, p90, max) = (size.quantile(50), size.quantile(90), size.functions.last().copied().unwrap_or(0));
        println!("{part:<20} {:>6} {:>9} {median:>7} {p90:>5} {max:>5} {change:>8}", size.lines, size.functions.len());
    }
    Ok(())
}

fn measure<'a>(files: impl Iterator<Item = (&'a str, &'a str)>) -> BTreeMap<String, Size> {
    let mut sizes: BTreeMap<String, Size> = BTreeMap::new();
    for (path, text) in files {
        for part in [part(path), "total".to_owned()] {
            sizes.entry(part).or_default().add(text);
        }
    }
    sizes
}

/// `src/ir`, `passes`, `tools/lit`: a layer of the core, or a package.
fn part(path: &str) -> String {
    let mut parts = path.split('/');
    match (parts.next(), parts.next()) {
        (Some(top @ ("src" | "tools")), Some(next)) => format!("{top}/{}", next.trim_end_matches(".rs")),
        (top, _) => top.unwrap_or(path).to_owned(),
    }
}

/// The Rust files of a revision.
fn at_revision(root: &Path, base: &str) -> Result<Vec<(String, String)>> {
    let git = |arguments: &[&str]| -> Result<String> {
        let output = Command::new("git").args(arguments).current_dir(root).output().context("git cannot be run")?;
        ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr).trim());
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let listed = git(&["ls-tree", "-r", "--name-only", base])?;
    let sources = listed.lines().filter(|path| path.ends_with(".rs"));
    sources.map(|path| Ok((path.to_owned(), git(&["show", &format!("{base}:{path}")])?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_layers_and_packages() {
        assert_eq!(
            ["src/ir/graph.rs", "src/log.rs", "passes/x.rs", "tools/lit/src/a.rs"].map(part),
            ["src/ir", "src/log", "passes", "tools/lit"]
        );
    }
}
