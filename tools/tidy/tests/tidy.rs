//! The checks on this repository. `BLESS=1` writes what can be written: the list of passes in the
//! guide.

use jitopt_driver::World;
use jitopt_tidy::{
    Tree, archive_paths, circles, coverage, documents, layers, plain_text, prose, replacements, stems, terms, wording,
};
use std::path::Path;
use std::sync::LazyLock;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
static TREE: LazyLock<Tree> = LazyLock::new(|| Tree::read(Path::new(ROOT)));

/// The output of `jitopt` for these arguments.
fn jitopt(arguments: &[&str]) -> String {
    let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
    let mut world = World {
        stdin: Box::new(std::io::empty()),
        stdout: &mut stdout,
        stderr: &mut stderr,
        env: Default::default(),
        cwd: ROOT.into(),
        colour: false,
        chosen: jitopt_driver::Choice::default(),
        failed_write: None,
    };
    let argv: Vec<String> = ["jitopt"].iter().chain(arguments).map(|argument| (*argument).to_owned()).collect();
    let code = jitopt_driver::run(&argv, &mut world);
    drop(world);
    assert_eq!(code, 0, "{argv:?}: {}", String::from_utf8_lossy(&stderr));
    String::from_utf8_lossy(&stdout).into_owned()
}

#[track_caller]
fn none(wrong: Vec<String>) {
    assert!(wrong.is_empty(), "\n{}\n", wrong.join("\n"));
}

#[test]
fn imports_point_down() {
    none(layers::check(&TREE));
}

#[test]
fn files_of_a_folder_have_an_order() {
    none(circles::check(&TREE));
}

#[test]
fn stems_are_unique() {
    none(stems::check(&TREE));
}

#[test]
fn every_pass_has_lit_files() {
    none(coverage::check_passes(&TREE));
}

#[test]
fn rows_of_operators_have_all_facts() {
    none(coverage::check_operator_rows(&TREE));
}

#[test]
fn every_flag_is_used_by_a_lit_file() {
    let help = jitopt(&["--help"]);
    // `filecheck` is skipped: its options are those of LLVM's FileCheck.
    let commands = coverage::subcommands(&help);
    assert!(commands.contains(&"extract".to_owned()), "{help}");
    let of_commands = commands.iter().filter(|name| *name != "filecheck").map(|name| jitopt(&[name, "--help"]));
    let mut flags: Vec<String> = of_commands.chain([help]).flat_map(|help| coverage::flags(&help)).collect();
    flags.sort();
    flags.dedup();
    none(coverage::check_flags(&TREE, &flags));
}

#[test]
fn text_is_plain() {
    none(plain_text::check(&TREE));
}

#[test]
fn documents_are_short() {
    none(documents::check_lengths(&TREE));
}

#[test]
fn prose_keeps_to_its_width() {
    none(prose::check_width(&TREE));
}

#[test]
fn mutants_have_their_anchors() {
    none(replacements::check(&TREE));
}

#[test]
fn words_are_ours() {
    none(wording::check(&TREE));
}

#[test]
fn archives_have_no_paths_of_machines() {
    none(archive_paths::check(&TREE));
}

#[test]
fn terms_are_standard() {
    none(terms::check(&TREE));
    none(terms::check_names(&TREE));
}

#[test]
fn the_guide_lists_the_passes() {
    let list = jitopt(&["--list-passes=markdown"]);
    if std::env::var_os("BLESS").is_some_and(|value| !value.is_empty()) {
        let new = TREE.text(documents::PASS_CHAPTER).and_then(|text| documents::with_pass_list(text, &list));
        let new = new.expect("a chapter with two markers");
        return std::fs::write(Path::new(ROOT).join(documents::PASS_CHAPTER), new)
            .expect("a chapter that can be written");
    }
    none(documents::check_pass_list(&TREE, &list));
}

#[test]
fn the_code_map_leads_somewhere() {
    none(documents::check_code_map(&TREE));
}
