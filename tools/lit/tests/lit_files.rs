//! Complete test files, run with a few commands defined here.

#![allow(clippy::unwrap_used)]

use jitopt_lit::{Commands, Config, Io, Summary, Test, TestResult, discover, run_all, run_one};
use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};

/// `emit TEXT`, `upper`, `exit N TEXT`, `boom`, `getenv NAME`, `strip FILE` (the file without its
/// comments).
struct Few;

impl Commands for Few {
    fn run(&self, argv: &[String], io: &mut Io<'_>) -> Option<i32> {
        let argument = argv.get(1).cloned().unwrap_or_default();
        match argv[0].as_str() {
            "emit" => io.stdout.extend(format!("{}\n", argv[1..].join("\n")).bytes()),
            "upper" => io.stdout.extend(io.stdin.to_ascii_uppercase()),
            "boom" => panic!("boom"),
            "getenv" => io.stdout.extend(io.env.get(&argument).cloned().unwrap_or_default().bytes()),
            "strip" => {
                let text = fs::read_to_string(io.cwd.join(argument)).unwrap();
                let kept = text.lines().filter(|line| !line.trim_start().starts_with('#'));
                io.stdout.extend(kept.flat_map(|line| line.bytes().chain([b'\n'])));
            }
            "exit" => {
                io.stderr.extend(format!("error: {}\n", argv[2..].join(" ")).bytes());
                return argument.parse().ok();
            }
            _ => return None,
        }
        Some(0)
    }

    fn known(&self) -> Vec<&'static str> {
        vec!["emit", "upper", "exit", "boom", "getenv", "strip"]
    }

    fn checks_itself(&self, argv: &[String]) -> bool {
        argv.iter().any(|word| word == "--self")
    }
}

static NEXT: AtomicUsize = AtomicUsize::new(0);

/// A directory per test, removed when dropped.
struct Directory(PathBuf);

impl Directory {
    fn new() -> Directory {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("lit-files-{}-{number}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Directory(path)
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        path
    }

    fn config(&self) -> Config {
        Config { temp_dir: self.0.join(".tmp"), ..Config::default() }
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn run(text: &str) -> TestResult {
    let directory = Directory::new();
    let path = directory.write("t.test", text);
    run_one(&Test { name: "t.test".into(), path }, &Few, &directory.config())
}

#[track_caller]
fn passes(text: &str) {
    assert_eq!(run(text), TestResult::Pass { blessed: false }, "{text}");
}

#[track_caller]
fn fails(text: &str, part: &str) {
    let TestResult::Fail(report) = run(text) else { panic!("passes: {text}") };
    assert!(report.contains(part), "{report}");
}

#[test]
fn pipes_into_filecheck() {
    passes("# RUN: emit a b | upper | filecheck %s\n# CHECK: A\n# CHECK-NEXT: B\n");
    fails("# RUN: emit a | filecheck %s\n# CHECK: b\n", "error: CHECK: not found");
    passes("# RUN: emit a | FileCheck %s --check-prefixes=A,B\n# A: a\n# B-NOT: b\n");
    passes("# RUN: emit 'a  b' | filecheck --pytorch %s\n# CHECK: a  b\n");
}

#[test]
fn every_line_runs_and_files_stay_between_them() {
    passes("# RUN: emit a > %t\n# RUN: emit b >> %t\n# RUN: filecheck %s < %t\n# CHECK: a\n# CHECK-NEXT: b\n");
    passes("# RUN: emit a > x\n# RUN: emit a | diff x -\n# RUN: test -s %T/x\n# RUN: rm x\n# RUN: test ! -e x\n");
    fails("# RUN: emit a > x\n# RUN: emit b | diff x -\n", "-a\n  +b");
    passes(
        "# RUN: printf 'a\\tb\\x0a' > x\n# RUN: cp x y\n# RUN: cat y | filecheck %s --strict-whitespace\n# CHECK: a\tb\n",
    );
}

#[test]
fn streams() {
    passes("# RUN: exit 0 oops 2>&1 | filecheck %s\n# CHECK: error: oops\n");
    passes("# RUN: exit 0 oops 2> %t\n# RUN: filecheck %s --input-file=%t\n# CHECK: error: oops\n");
    passes("# RUN: exit 0 oops > %t 2>&1\n# RUN: filecheck %s --input-file %t\n# CHECK: oops\n");
    passes("# RUN: X='a b' getenv X | filecheck %s\n# CHECK: a b\n");
}

#[test]
fn statuses() {
    passes("# FAIL: exit 3\n");
    passes("# FAIL[3]: exit 3\n");
    fails("# FAIL[3]: exit 4\n", "exit exits with status 4, not 3");
    fails("# FAIL: exit 0\n", "should fail");
    passes("# RUN: not exit 3\n");
    passes("# RUN: not --code=3 exit 3\n");
    fails("# RUN: not --code=3 exit 1\n", "exits with status 1, not 3");
    fails("# RUN: exit 3 --self\n", "exit exits with status 3");
    fails("# RUN: exit 3 | emit x | filecheck %s\n# CHECK: x\n", "exit exits with status 3");
}

#[test]
fn an_expected_failure_does_not_excuse_the_checks() {
    passes("# FAIL[3]: exit 3 oops 2>&1 | filecheck %s\n# CHECK: oops\n");
    fails("# FAIL: exit 3 oops 2>&1 | filecheck %s\n# CHECK: nothing\n", "filecheck failed (exit status 1)");
    fails("# FAIL: exit 0 oops 2>&1 | filecheck %s\n# CHECK: nothing\n", "filecheck failed (exit status 1)");
    passes("# FAIL: filecheck %s --input-file=%s --match-full-lines\n# CHECK: nothing\n");
}

#[test]
fn a_panic_is_a_bug_not_a_failure() {
    fails("# FAIL: boom\n", "boom: panic: boom");
    fails("# RUN: not boom\n", "fails with an internal bug");
    passes("# FAIL[70]: boom\n");
}

#[test]
fn expected_failures_of_tests() {
    assert_eq!(run("# XFAIL: later\n# RUN: not exit 0\n"), TestResult::XFail("later".into()));
    assert_eq!(run("# XFAIL: later\n# RUN: not exit 1\n"), TestResult::XPass("later".into()));
    fails("# XFAIL: later\n# RUN: nto exit 1\n", "unknown command `nto`; did you mean `not`?");
}

#[test]
fn tests_that_test_nothing_fail() {
    fails("graph():\n", "no RUN line");
    fails("# RUN: emit a\n", "t.test:1: error: this line checks nothing");
    fails(
        "# RUN: emit a > %t\n# RUN: emit b | filecheck %s\n# CHECK: b\n",
        "t.test:1: error: this line checks nothing",
    );
    fails("# RNU: emit a\n# RUN: not exit 1\n", "`RNU:` is not `RUN:`");
    fails("# RUN : emit a\n", "`RUN :` is not `RUN:`");
    passes("# RUN: exit 0 --self\n");
    passes("# TAIL: a\n# RUN: emit a | filecheck %s --check-prefix=TAIL\n");
}

#[test]
fn unread_directives_fail() {
    let checks = "# CHECK: a\n# FOO-NEXT: b\n";
    fails(&format!("# RUN: emit a | filecheck %s\n{checks}"), "unused prefix `FOO`");
    passes(&format!("# RUN: emit a b | filecheck %s --check-prefixes=CHECK,FOO\n{checks}"));
    fails("# RUN: emit a | diff - %s\n# CHECK2: a\n", "unused prefix `CHECK2`");
    fails("# RUN: emit a | filecheck %s --check-prefix=FUSED\n# FUSED: a\n# FUSE-NOT: b\n", "did you mean `FUSED:`?");
}

#[test]
fn lines_that_need_a_shell_fail() {
    fails("# RUN: emit a && emit b\n", "`&&` is not supported");
    fails("# RUN: emti a | filecheck %s\n# CHECK: a\n", "unknown command `emti`; did you mean `emit`?");
}

#[test]
fn snapshots_compare_and_bless() {
    let directory = Directory::new();
    let text = "# RUN: strip %s | snapshot\n# SNAPSHOT:\n# | graph\n# END\ngraph\nmore %s\n# RUN: emit %s | snapshot\n";
    let path = directory.write("t.ir", text);
    let test = Test { name: "t.ir".into(), path: fs::canonicalize(path).unwrap() };
    let config = directory.config();
    let TestResult::Fail(report) = run_one(&test, &Few, &config) else { panic!("passes") };
    assert!(report.contains("SNAPSHOT of line 2 differs") && report.contains("+more"), "{report}");
    let bless = Config { bless: true, ..config.clone() };
    assert_eq!(run_one(&test, &Few, &bless), TestResult::Pass { blessed: true });
    let blessed = fs::read_to_string(&test.path).unwrap();
    assert!(blessed.ends_with("# RUN: emit %s | snapshot\n# SNAPSHOT:\n# | %s\n# END\n"), "{blessed}");
    assert_eq!(run_one(&test, &Few, &bless), TestResult::Pass { blessed: false });
    assert_eq!(run_one(&test, &Few, &config), TestResult::Pass { blessed: false });
    assert_eq!(fs::read_to_string(&test.path).unwrap(), blessed);
    fails("# RUN: not exit 1\n# SNAPSHOT:\n# END\n", "this SNAPSHOT is not used");
}

#[test]
fn a_directory_is_searched_and_summed_up_in_order() {
    let directory = Directory::new();
    for name in ["b/two.ir", "a.test", "b/one.ir", "Inputs/x.ir", "b/corpus/y.ir", "c.txt"] {
        directory.write(name, "# RUN: not exit 1\n");
    }
    directory.write("z.ir", "# RUN: not exit 0\n");
    let tests = discover(&directory.0, None).unwrap();
    let names: Vec<&str> = tests.iter().map(|test| test.name.as_str()).collect();
    assert_eq!(names, ["a.test", "b/one.ir", "b/two.ir", "z.ir"]);
    let summary: Summary = run_all(&tests, &Few, &directory.config(), &|| ());
    assert!(!summary.passed());
    let report = summary.to_string();
    assert!(report.ends_with("3 passed, 1 failed\n"), "{report}");
    assert!(report.starts_with("FAIL z.ir\nz.ir:1: error: not exits with status 1\n"), "{report}");
    let some = discover(&directory.0, Some("one|a")).unwrap();
    assert_eq!(some.len(), 2);
    assert!(discover(&directory.0, Some("(")).is_err());
    assert_eq!(discover(&directory.0.join("b/one.ir"), None).unwrap()[0].name, "one.ir");
}
