//! `cargo xtask new-pass`: creates a working pass as a starting point.

use anyhow::{Context, Result, bail, ensure};
use jitopt_tidy::Tree;
use jitopt_tidy::coverage::pass_rows;
use std::fs;
use std::path::Path;

const PASS: &str = include_str!("../templates/pass.rs.txt");
const LIT: &str = include_str!("../templates/basic.ir.txt");

/// Writes the file, the registry row and the lit file of the pass `name`.
pub(crate) fn begin(root: &Path, name: &str, summary: &str) -> Result<()> {
    let (name, stem) = (name.replace('_', "-"), name.replace('-', "_"));
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    ensure!(
        name.starts_with(|c: char| c.is_ascii_lowercase()) && name.chars().all(plain),
        "`{name}` is not a valid pass name: expected the form `loop-unrolling`"
    );
    ensure!(!summary.is_empty() && !summary.ends_with('.'), "a summary is one line without a full stop");
    let tree = Tree::read(root);
    check_name(&name, &tree)?;
    check_stem(&stem, &tree)?;
    let registry_path = root.join("passes/lib.rs");
    let registry = fs::read_to_string(&registry_path)?;
    let registry = with_row(&registry, &stem)?;
    let (file, lit) = (format!("passes/{stem}.rs"), format!("testdata/passes/{stem}/basic.ir"));
    for path in [&file, &lit] {
        ensure!(!root.join(path).exists(), "{path} already exists");
    }
    let fill = |template: &str| template.replace("{name}", &name).replace("{summary}", &summary.replace('"', "'"));
    fs::create_dir_all(root.join("testdata/passes").join(&stem))?;
    fs::write(root.join(&file), fill(PASS))?;
    fs::write(root.join(&lit), fill(LIT))?;
    fs::write(registry_path, registry)?;
    println!("wrote {file}, {lit} and the row `{stem}` in passes/lib.rs");
    println!("\nnext: document and implement the transformation in {file}, with IR before and after");
    println!("      cargo run -- test {lit}");
    println!("      cargo run -- help {name}");
    println!("      cargo xtask bless {stem} updates its snapshots and the list of passes");
    Ok(())
}

/// Rust keywords, which cannot be module names.
const KEYWORDS: &str = "abstract as async await become box break const continue crate do dyn else enum extern false final fn \
    for gen if impl in let loop macro match mod move mut override priv pub ref return self static struct super trait true try \
    type typeof unsafe unsized use virtual where while yield";

/// A name must identify one pass.
fn check_name(name: &str, tree: &Tree) -> Result<()> {
    let same = |known: &String| known.replace('_', "-") == name;
    for (path, text) in tree.sources().filter(|(path, _)| path.starts_with("passes/")) {
        if pass_names(text).iter().any(same) {
            bail!("`{name}` already names the pass in {path}");
        }
    }
    Ok(())
}

/// The name and the aliases of the pass that a file defines, read from its text: `cargo xtask` does
/// not compile the passes, and starts in a second.
fn pass_names(text: &str) -> Vec<String> {
    let Some((_, info)) = text.split_once(": PassInfo = PassInfo {") else { return Vec::new() };
    let field = |name: &str| Some(info.split_once(name)?.1.split_once(",\n")?.0);
    let quoted = |field: &str| field.split('"').skip(1).step_by(2).map(str::to_owned).collect::<Vec<_>>();
    ["name: ", "aliases: "].into_iter().filter_map(field).flat_map(quoted).collect()
}

/// A stem must be a valid module name that no other file has: `JIT_LOG_LEVEL` identifies files by
/// it.
fn check_stem(stem: &str, tree: &Tree) -> Result<()> {
    ensure!(!KEYWORDS.split_whitespace().any(|word| word == stem), "`{stem}` is a Rust keyword");
    let file = format!("{stem}.rs");
    let taken = tree.sources().find(|(path, _)| path.rsplit('/').next() == Some(&file));
    if let Some((path, _)) = taken {
        bail!("the stem `{stem}` is already used by {path}");
    }
    Ok(())
}

/// The registry with an additional row, in order.
fn with_row(registry: &str, stem: &str) -> Result<String> {
    let rows = pass_rows(registry);
    ensure!(!rows.iter().any(|row| row == stem), "there is already a pass `{stem}`");
    let open = registry.find("\npasses! {\n").context("passes/lib.rs has no `passes! {`")? + "\npasses! {\n".len();
    let at = match rows.iter().find(|row| row.as_str() > stem) {
        Some(next) => registry[open..].find(&format!("    {next},\n")),
        None => registry[open..].find("}\n"),
    };
    let at = open + at.context("each row of `passes! {` must be on its own line")?;
    Ok(format!("{}    {stem},\n{}", &registry[..at], &registry[at..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn taken_names_are_refused() {
        let pass = "pub const PASS: PassInfo = PassInfo {\n    name: \"dce\",\n    aliases: &[\"a_b\", \"c\"],\n    \
                    options: &[PassOption { name: \"alias\" }],\n};\n";
        let passes = Tree::of(&[("passes/dead_code_elimination.rs", pass)]);
        for name in ["dce", "a-b", "c"] {
            assert!(check_name(name, &passes).is_err(), "{name}");
        }
        assert!(check_name("alias", &passes).is_ok());
        let tree = Tree::of(&[("src/ir/graph.rs", "")]);
        assert!(check_stem("graph", &tree).is_err() && check_stem("match", &tree).is_err());
        assert!(check_stem("graph_fuser", &tree).is_ok());
    }

    #[test]
    fn rows_stay_sorted() {
        let registry = "x\n\npasses! {\n    b,\n    d,\n}\n";
        let rows = |stem| with_row(registry, stem).map(|text| pass_rows(&text));
        assert_eq!(rows("a").unwrap(), ["a", "b", "d"]);
        assert_eq!(rows("c").unwrap(), ["b", "c", "d"]);
        assert_eq!(rows("e").unwrap(), ["b", "d", "e"]);
        assert!(rows("b").is_err());
    }
}
