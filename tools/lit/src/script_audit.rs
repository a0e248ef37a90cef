//! Static errors of a test: unknown commands, lines that check nothing, directives that no command
//! reads.

use crate::checker::Arguments;
use crate::command_line::{Command, Pipeline, Redirect};
use crate::test_file::{Expect, RunLine, Script};
use crate::{Commands, builtins, snapshots};
use jitopt_filecheck::did_you_mean;
use regex_lite::Regex;
use std::collections::BTreeSet;
use std::sync::LazyLock;

/// A `RUN:` line and its parsed pipeline.
pub(crate) type Step = (RunLine, Pipeline);

/// Whether the command checks its input.
pub(crate) fn is_checker(command: &Command) -> bool {
    matches!(command.name(), "filecheck" | "FileCheck" | "diff" | "not" | "snapshot" | "test")
}

/// The argument vector without leading `not`.
pub(crate) fn inner(argv: &[String]) -> &[String] {
    let mut argv = argv;
    while argv.first().is_some_and(|name| name == "not") {
        let flags = argv[1..].iter().take_while(|word| word.starts_with("--")).count();
        argv = &argv[1 + flags..];
    }
    argv
}

/// All errors, each with its line, or 0 for the file as a whole.
pub(crate) fn audit(
    script: &Script,
    steps: &[Step],
    file: &str,
    path: &str,
    commands: &dyn Commands,
) -> Vec<(usize, String)> {
    let mut mistakes = script.mistakes.clone();
    let prefixes = prefixes(steps, path);
    let doubtful = script.doubtful.iter().filter(|(_, word, _)| !prefixes.contains(word.trim_end_matches(':')));
    mistakes.extend(doubtful.map(|(line, word, meant)| (*line, format!("`{word}` is not `{meant}:`"))));
    if script.runs.is_empty() {
        mistakes.push((0, "no RUN line, so this file tests nothing".to_owned()));
        return mistakes;
    }
    for (index, (run, pipeline)) in steps.iter().enumerate() {
        let unknown = pipeline.commands.iter().filter_map(|command| unknown(&command.argv, commands));
        mistakes.extend(unknown.map(|message| (run.line, message)));
        if !checks_something(steps, index, commands) {
            mistakes.push((run.line, NOTHING.to_owned()));
        }
    }
    mistakes.extend(unused_prefixes(file, &prefixes));
    mistakes
}

const NOTHING: &str = "this line checks nothing: pipe it into filecheck or snapshot, compare a file that it writes in a \
                       later line, or write FAIL:";

fn unknown(argv: &[String], commands: &dyn Commands) -> Option<String> {
    let Some(name) = inner(argv).first() else {
        return Some("`not` needs a command".to_owned());
    };
    let known: Vec<&str> = commands.known().into_iter().chain(builtins::names()).collect();
    (!known.contains(&name.as_str())).then(|| unknown_command(name, &known))
}

/// The message for an unknown command.
pub(crate) fn unknown_command(name: &str, known: &[&str]) -> String {
    match did_you_mean(name, known.iter().copied()) {
        Some(meant) => format!("unknown command `{name}`; did you mean `{meant}`?"),
        None => format!("unknown command `{name}`; there are {}", known.join(", ")),
    }
}

/// Whether a line has a checker, an expected failure, a command that checks itself, or writes a
/// file that a later line mentions.
fn checks_something(steps: &[Step], index: usize, commands: &dyn Commands) -> bool {
    let (run, pipeline) = &steps[index];
    let all = &pipeline.commands;
    let direct = all.iter().any(|command| is_checker(command) || commands.checks_itself(inner(&command.argv)));
    let housekeeping = steps.len() > 1 && matches!(all[0].name(), "rm" | "cp");
    direct || housekeeping || run.expect != Expect::Success || mentioned_later(pipeline, &steps[index + 1..])
}

/// Whether a later line names a file that this one writes with a redirect or seems to write with an
/// argument.
fn mentioned_later(pipeline: &Pipeline, later: &[Step]) -> bool {
    let mut written: Vec<&str> = Vec::new();
    for command in &pipeline.commands {
        written.extend(command.redirects.iter().filter_map(|redirect| match redirect {
            Redirect::Output { path, .. } | Redirect::Error { path, .. } => Some(path.as_str()),
            _ => None,
        }));
        let temporary =
            command.argv.iter().filter_map(|word| word.rsplit('=').next().filter(|path| path.contains(".tmp")));
        written.extend(temporary);
    }
    let uses = |word: &str| written.iter().any(|path| word.contains(path));
    later.iter().flat_map(|(_, pipeline)| &pipeline.commands).any(|command| {
        let redirected =
            command.redirects.iter().any(|redirect| matches!(redirect, Redirect::Input(path) if uses(path)));
        redirected || command.argv.iter().any(|word| uses(word))
    })
}

/// The prefixes that some `filecheck` on this file reads.
fn prefixes(steps: &[Step], path: &str) -> BTreeSet<String> {
    let mut all = BTreeSet::new();
    for command in steps.iter().flat_map(|(_, pipeline)| &pipeline.commands) {
        let argv = inner(&command.argv);
        if !argv.first().is_some_and(|name| name == "filecheck" || name == "FileCheck") {
            continue;
        }
        if let Ok(arguments) = Arguments::parse(&argv[1..])
            && arguments.check_file == path
        {
            all.extend(arguments.options.prefixes);
        }
    }
    all
}

/// An uppercase word with the suffix of a directive, or with CHECK in it, and a colon.
static DIRECTIVE: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let suffix = "-(?:NEXT|SAME|NOT|DAG|LABEL|EMPTY|COUNT-[0-9]+|COUNT-EXACTLY-[0-9]+|REGEX|SOURCE-HIGHLIGHTED)";
    Regex::new(&format!(r"(?:^|[^A-Za-z0-9_-])([A-Z][A-Z0-9_-]*?)({suffix})?(?:\{{LITERAL\}})?:")).ok()
});

/// Directives that no `filecheck` reads.
fn unused_prefixes(file: &str, prefixes: &BTreeSet<String>) -> Vec<(usize, String)> {
    let blocks = snapshots::blocks(file).unwrap_or_default();
    let in_block = |index: &usize| blocks.iter().any(|block| block.lines.contains(index));
    let lines = file.lines().enumerate().filter(|(index, _)| !in_block(index));
    lines.filter_map(|(index, line)| Some((index + 1, unused_prefix(line, prefixes)?))).collect()
}

fn unused_prefix(line: &str, prefixes: &BTreeSet<String>) -> Option<String> {
    let text = crate::test_file::without_leader(line);
    if ["RUN:", "FAIL", "XFAIL:", "COM:"].iter().any(|keyword| text.starts_with(keyword)) {
        return None;
    }
    let found = DIRECTIVE.as_ref()?.captures(line)?;
    let word = &found[1];
    let directive = found.get(2).is_some() || word.contains("CHECK");
    if !directive || prefixes.contains(word) {
        return None;
    }
    let meant = did_you_mean(word, prefixes.iter().map(String::as_str));
    let meant = meant.map_or(String::new(), |meant| format!("; did you mean `{meant}:`?"));
    Some(format!("unused prefix `{word}`: no filecheck on this file reads it{meant}"))
}
