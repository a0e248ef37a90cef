//! Checks written for PyTorch's own FileCheck, with the graphs that PyTorch printed, in
//! `tests/data`.

#![allow(clippy::unwrap_used)]

use jitopt_filecheck::{CheckFile, Dialect, Options, Problem, filecheck};
use std::path::Path;

fn pytorch() -> Options {
    Options { dialect: Dialect::PyTorch, ..Options::default() }
}

fn passes(checks: &str, input: &str) -> bool {
    filecheck("t", checks, "in", input, &pytorch()).is_ok()
}

fn mistake(checks: &str) -> Problem {
    CheckFile::parse("t", checks, &pytorch()).expect_err(checks).remove(0)
}

#[test]
fn accepted_by_pytorch_is_accepted() {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data");
    let mut seen = 0;
    for entry in std::fs::read_dir(&data).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        let Some(stem) = name.strip_suffix(".test.ir") else {
            continue;
        };
        let checks = std::fs::read_to_string(&path).unwrap();
        let output = std::fs::read_to_string(data.join(format!("{stem}.out.ir"))).unwrap();
        filecheck(&name, &checks, stem, &output, &pytorch()).unwrap_or_else(|report| panic!("{report}"));
        seen += 1;
    }
    assert_eq!(seen, 8);
}

#[test]
fn matching_is_byte_exact() {
    assert!(passes("# CHECK: a b", "x a b"));
    assert!(!passes("# CHECK: a b", "a  b"));
    assert!(!passes("# CHECK: a ", "a"), "trailing blanks count");
    assert!(!passes("# CHECK: {{a}}", "a"), "no expressions");
}

#[test]
fn next_and_same() {
    assert!(passes("# CHECK: a\n# CHECK-NEXT: b", "a\nxb"));
    assert!(!passes("# CHECK: a\n# CHECK-NEXT: b", "a\n\nb"));
    assert!(!passes("# CHECK: a\n# CHECK-NEXT: b", "a b"));
    assert!(passes("# CHECK: a\n# CHECK-SAME: b", "a b"));
    assert!(!passes("# CHECK: a\n# CHECK-SAME: b", "a\nb"));
    assert!(passes("# CHECK-NEXT: b", "a\nb"), "the first match may be relative to the start");
}

#[test]
fn nots_are_a_group_up_to_the_next_match() {
    assert!(passes("# CHECK: a\n# CHECK-NOT: x\n# CHECK-NOT: y\n# CHECK: b", "x a b y"));
    assert!(!passes("# CHECK: a\n# CHECK-NOT: x\n# CHECK-NOT: y\n# CHECK: b", "a y b"));
    assert!(!passes("# CHECK: a\n# CHECK-NOT: x", "a b x"));
}

#[test]
fn dags_may_overlap() {
    assert!(passes("# CHECK-DAG: ab\n# CHECK-DAG: bc\n# CHECK: d", "abcd"));
    assert!(!passes("# CHECK-DAG: ab\n# CHECK-DAG: bc\n# CHECK: a", "abcd"));
}

#[test]
fn counts() {
    assert!(passes("# CHECK-COUNT-2: a", "aaa"));
    assert!(!passes("# CHECK-COUNT-EXACTLY-2: a", "aaa"));
    assert!(passes("# CHECK-COUNT-EXACTLY-2: a\n# CHECK: b", "aaba"));
    assert!(!passes("# CHECK-COUNT-3: a", "aa"));
}

#[test]
fn expressions_and_highlights() {
    assert!(passes("# CHECK-REGEX: a[0-9]+b", "xa12b"));
    assert!(passes("# CHECK-SOURCE-HIGHLIGHTED: add", "x = add(y)\n    ~~~ <--- HERE"));
    assert!(!passes("# CHECK-SOURCE-HIGHLIGHTED: add", "x = add(y)\n    ~~~~~ <--- HERE"));
}

#[test]
fn ignored_by_pytorch_is_ignored() {
    assert!(passes("; CHECK: zzz\n#       CHECK: zzz\n## CHECK: zzz\n#      CHECK: a", "a"));
}

#[test]
fn rejected_by_pytorch_is_rejected() {
    assert_eq!(mistake("# CHECK:x").help.as_deref(), Some("one blank must follow the colon"));
    assert!(mistake("# CHECK-LABEL: x").help.unwrap().contains("LLVM"));
    assert_eq!(mistake("# CHECK-NXT: x").help.as_deref(), Some("did you mean `CHECK-NEXT:`?"));
    assert_eq!(mistake("# CHEK: x").help.as_deref(), Some("did you mean `CHECK:`?"));
    assert!(mistake("nothing here").message.starts_with("no checks"));
    assert!(mistake("# CHECK-COUNT-x: a").message.contains("cannot be parsed"));
}
