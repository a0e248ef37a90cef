//! LLVM's semantics, one small case each; the expectations are the observed behaviour of LLVM 14.

#![allow(clippy::unwrap_used)]

use jitopt_filecheck::{CheckFile, Options, Problem, Verdict, filecheck};

fn passes(checks: &str, input: &str) -> bool {
    filecheck("t", checks, "in", input, &Options::default()).is_ok()
}

fn report(checks: &str, input: &str) -> String {
    filecheck("t.ir", checks, "out.ir", input, &Options::default()).expect_err(checks)
}

fn mistakes(checks: &str) -> Vec<Problem> {
    CheckFile::parse("t.ir", checks, &Options::default()).expect_err(checks)
}

fn prefixes(words: &[&str]) -> Options {
    Options { prefixes: words.iter().map(|word| (*word).to_owned()).collect(), ..Options::default() }
}

#[test]
fn order_and_blanks() {
    assert!(passes("# CHECK: a\n// CHECK: b\n; CHECK:   c  ", "a\nb c"));
    assert!(!passes("CHECK: b\nCHECK: a", "a b"));
    assert!(passes("CHECK: a b", "a \t b"));
    let strict = Options { strict_whitespace: true, ..Options::default() };
    assert!(filecheck("t", "CHECK: a b", "in", "a  b", &strict).is_err());
}

#[test]
fn next_same_and_empty() {
    assert!(passes("CHECK: a\nCHECK-NEXT: b\nCHECK-SAME: c", "a\nb c"));
    assert!(!passes("CHECK: a\nCHECK-NEXT: b", "a\n\nb"));
    assert!(!passes("CHECK: a\nCHECK-SAME: b", "a\nb"));
    assert!(passes("CHECK: a\nCHECK-EMPTY:\nCHECK-NEXT: b", "a\n\nb"));
    assert!(!passes("CHECK: a\nCHECK-EMPTY:", "a\nb\n\n"));
}

#[test]
fn not_looks_between_its_neighbours() {
    assert!(passes("CHECK: a\nCHECK-NOT: x\nCHECK: b", "x a b x"));
    assert!(!passes("CHECK: a\nCHECK-NOT: x\nCHECK: b", "a x b"));
    assert!(!passes("CHECK-NOT: x", "a x"));
}

#[test]
fn dags_do_not_overlap_and_nots_split_them() {
    assert!(passes("CHECK-DAG: b\nCHECK-DAG: a\nCHECK: c", "a b c"));
    assert!(!passes("CHECK-DAG: ab\nCHECK-DAG: b", "ab"));
    assert!(passes("CHECK-DAG: ab\nCHECK-DAG: b", "ab b"));
    assert!(!passes("CHECK-DAG: a\nCHECK-NOT: x\nCHECK-DAG: b", "a x b"));
    assert!(!passes("CHECK-DAG: a\nCHECK-NOT: x\nCHECK-DAG: b", "b a"));
}

#[test]
fn labels_cut_sections() {
    let checks = "CHECK-LABEL: one\nCHECK: a\nCHECK-LABEL: two\nCHECK: b";
    assert!(passes(checks, "one a two b"));
    assert!(!passes(checks, "one two a b"));
    let report = report(checks, "one\ntwo\na\n");
    assert!(report.contains("error: CHECK: not found; occurs at 3:1, in a later section"), "{report}");
    assert!(report.matches("error:").count() == 2, "both sections are reported\n{report}");
}

#[test]
fn counts_and_literals() {
    assert!(passes("CHECK-COUNT-2: a\nCHECK: b", "a a a b"));
    assert!(report("CHECK-COUNT-3: a", "a\na\n").contains("found 2 of 3 times"));
    assert!(passes("CHECK{LITERAL}: [[1, {{x", "[[1, {{x"));
}

#[test]
fn variables() {
    let checks = "CHECK: [[V:%[a-z]+]] = neg\nCHECK: relu([[V]])";
    assert!(passes(checks, "%a = neg\nrelu(%a)"));
    let report = report(checks, "%a = neg\nrelu(%b)");
    assert!(report.contains("with V = `%a`"), "{report}");
    assert!(passes("CHECK: [[V:%[a-z]]] = add([[V]])", "%a = add(%b)\n%b = add(%b)"));
    assert!(report_of_undefined().contains("no directive before it gives a value to W"));
}

fn report_of_undefined() -> String {
    report("CHECK: [[W]]", "x")
}

#[test]
fn whole_lines() {
    let full = Options { match_full_lines: true, ..Options::default() };
    assert!(filecheck("t", "CHECK: a b", "in", "x\n a b \n", &full).is_ok());
    assert!(filecheck("t", "CHECK: a", "in", "a b", &full).is_err());
    assert!(filecheck("t", "CHECK: x\nCHECK-NOT: a", "in", "x\na b", &full).is_err(), "NOT is about parts of lines");
}

#[test]
fn empty_input() {
    assert!(report("CHECK-NOT: x", "").contains("the input is empty"));
    let allowed = Options { allow_empty: true, ..Options::default() };
    assert!(filecheck("t", "CHECK-NOT: x", "in", "", &allowed).is_ok());
}

#[test]
fn prefixes_are_words_of_their_own() {
    assert!(
        filecheck("t", "A: a\nCHECK-B-NEXT: b\nXA: c\nCHECK: d", "in", "a\nb", &prefixes(&["A", "CHECK-B"])).is_ok()
    );
    let error = filecheck("t", "FUSED: a\nCHECK: b", "in", "a", &prefixes(&["CHECK", "FUSE"])).unwrap_err();
    assert!(error.contains("no directive starts with `FUSE:`") && error.contains("prefix `FUSED`"), "{error}");
    assert!(passes("RUN: jitopt | filecheck CHECK: no\nCOM: CHECK: no\nCHECK: a", "a"));
}

#[test]
fn mistakes_are_errors_with_suggestions() {
    for (checks, expected) in [
        ("# CHECK-NXT: a", "did you mean `CHECK-NEXT:`?"),
        ("# CHECKNEXT: a", "did you mean `CHECK-NEXT:`?"),
        ("# CHECK_NEXT: a", "did you mean `CHECK-NEXT:`?"),
        ("# CHEK: a", "did you mean `CHECK:`?"),
        ("# CHECK-NOT : a", "did you mean `CHECK-NOT:`?"),
        ("# CHECK -NEXT: a", "did you mean `CHECK-NEXT:`?"),
        ("# CHECK: [[1, 2]]", "to match two brackets write `{{\\[\\[}}`, or use `CHECK{LITERAL}:`"),
    ] {
        let found = mistakes(&format!("# CHECK: x\n{checks}"));
        assert_eq!(found[0].help.as_deref(), Some(expected), "{checks}");
        assert_eq!(found[0].line, 2, "{checks}");
    }
    for (checks, expected) in [
        ("# nothing", "no checks: nothing starts with `CHECK:`"),
        ("# CHECK:", "nothing to check for"),
        ("# CHECK-NEXT: a", "`CHECK-NEXT` has no match before it to refer to"),
        ("# CHECK-COUNT-0: a", "COUNT needs a positive number, then a colon"),
        ("# CHECK-NOT-DAG: a", "suffixes cannot be combined"),
        ("# CHECK-LABEL: [[X:a]]", "`CHECK-LABEL` cannot define or use variables: it is found before they have values"),
    ] {
        assert_eq!(mistakes(checks)[0].message, expected);
    }
}

#[test]
fn a_bad_expression_has_a_caret() {
    let shown = mistakes("# CHECK: a{{b(c}}")[0].to_string();
    assert_eq!(
        shown,
        "t.ir:1:13: error: bad regular expression: found open group without closing ')'\n  1 | # CHECK: a{{b(c}}\n    |             ^"
    );
}

#[test]
fn the_report_has_a_row_for_each_directive() {
    let checks = "# CHECK: graph\n# CHECK-NOT: neg\n# CHECK-NEXT: aten::mul(%x, %y)\n# CHECK: return\n";
    let input = "graph(%x):\n  %z = aten::mul(%x, %z)\n  return (%z)\n";
    let options = Options::default();
    let outcome = CheckFile::parse("t.ir", checks, &options).unwrap().run("out.ir", input);
    let verdicts: Vec<&Verdict> = outcome.rows.iter().map(|row| &row.verdict).collect();
    assert_eq!(verdicts[0], &Verdict::Matched { line: 1, column: 1 });
    assert_eq!(verdicts[3], &Verdict::NotTried);
    let expected = "\
t.ir:3:15: error: CHECK-NEXT: not found; nearest is line 2
  3 | # CHECK-NEXT: aten::mul(%x, %y)
    |               ^
  note: searched from 1:6 to 4:1
  --> out.ir:2:3
       1 | graph(%x):
  >    2 |   %z = aten::mul(%x, %z)
         |   ^
       3 |   return (%z)
directives of t.ir on out.ir:
  ok      1: CHECK: graph                   1:1
  -       2: CHECK-NOT: neg                 not tried
  FAIL    3: CHECK-NEXT: aten::mul(%x, %y)  not found; nearest is line 2
  -       4: CHECK: return                  not tried
";
    assert_eq!(outcome.to_string(), expected);
}
