//! Commands and files that show a failure again: flags that must be repeated, lit files with inputs and contents.

use crate::arguments::{GateArgs, JudgeArgs};
use jitopt_core::interpreter::IValue;
use jitopt_core::interpreter::description::{MOST_WRITTEN, describe};
use jitopt_core::interpreter::files::{Tensors, write_safetensors};
use jitopt_core::ir::Graph;
use jitopt_core::tensor::Precision;
use jitopt_core::text::{PrintOptions, print};
use jitopt_judge::sharing::copies;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// A word that a shell takes as it is.
pub(crate) fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,+@".contains(c);
    match !word.is_empty() && word.chars().all(plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

/// Flags, each with a blank before it.
#[derive(Default)]
struct Flags(String);

impl Flags {
    fn give(&mut self, flag: &str, value: impl ToString) {
        self.0 += &format!(" --{flag} {}", quoted(&value.to_string()));
    }

    fn each(&mut self, flag: &str, values: &[impl ToString]) {
        values.iter().for_each(|value| self.give(flag, value.to_string()));
    }

    fn set(&mut self, flag: &str, is_set: bool) {
        self.0 += &if is_set { format!(" --{flag}") } else { String::new() };
    }
}

/// Flags with which a command judges on the same samples in the same way.
pub(crate) fn all_flags(args: &JudgeArgs) -> String {
    let mut flags = Flags::default();
    if args.samples != JudgeArgs::SAMPLES {
        flags.give("samples", args.samples);
    }
    flags.each("shape", &args.shape);
    let file = |path: &Option<PathBuf>| path.iter().map(|path| path.display().to_string()).collect::<Vec<_>>();
    flags.each("inputs", &file(&args.inputs));
    flags.each("args", &file(&args.args));
    flags.each("bind", &args.bind);
    flags.each("bind-dir", &file(&args.bind_dir));
    flags.each("callee", &args.callee);
    flags.0 + &rules(args)
}

/// Flags that hold whatever the inputs are, and name no file.
fn rules(args: &JudgeArgs) -> String {
    let mut flags = Flags::default();
    if args.seed != JudgeArgs::SEED {
        flags.give("seed", args.seed);
    }
    if let Some(how) = &args.fill_unknown {
        flags.0 += &format!(" --fill-unknown={}", quoted(how));
    }
    flags.each("rtol", args.rtol.as_slice());
    flags.each("atol", args.atol.as_slice());
    flags.set("signed-zero", args.signed_zero);
    flags.set("overflow-is-large", args.overflow_is_large);
    if args.max_steps != JudgeArgs::MAX_STEPS {
        flags.give("max-steps", args.max_steps);
    }
    flags.each("timeout", args.timeout.as_slice());
    if let Some((_, release)) = args.torch {
        flags.0 += &format!(" --torch={}.{}", release.0, release.1);
    }
    flags.set("no-verify", args.no_verify);
    flags.0
}

/// The flags of gates.
pub(crate) fn gates(args: &GateArgs) -> String {
    let counters = args.debug_counter.iter().map(|counter| format!(" --debug-counter='{counter}'"));
    counters.chain(args.disable.iter().map(|pass| format!(" --disable={}", quoted(pass)))).collect()
}

/// A graph and its inputs as one lit file. Memory that inputs share is not shared any more.
pub(crate) fn lit_file(run_line: &str, note: &str, graph: &Graph, inputs: &[IValue]) -> String {
    let mut text: String = note.lines().map(|line| format!("# {line}\n")).collect();
    text += &format!("# RUN: {run_line}\n");
    let mut tensors = Tensors::new();
    for (i, input) in copies(inputs, Precision::Typed).iter().enumerate() {
        let described = describe(input, &format!("in{i}"), &mut tensors);
        text += &format!("# ARGS: {}{}\n", described.json(), if i + 1 < inputs.len() { "," } else { "" });
    }
    text + &String::from_utf8_lossy(&print(graph, PrintOptions::default()))
}

/// What a reproducer pipes `validate` into: it passes as soon as nothing is wrong any more.
pub(crate) const SAME: &str = " | filecheck %s\n# CHECK: the same on 1 sample";

/// A failure that is to be shown again.
pub(crate) struct Reproducer<'a> {
    /// The command with the flags that are its own: `jitopt validate %s --passes='cse' --samples 0`.
    pub(crate) command: String,
    /// What looks at the output: ` | filecheck %s`.
    pub(crate) piped: String,
    /// How it fails.
    pub(crate) note: &'a str,
    pub(crate) graph: &'a Graph,
    pub(crate) inputs: &'a [IValue],
    /// Contents that the text of the graph does not show.
    pub(crate) contents: &'a BTreeMap<String, IValue>,
    pub(crate) judge: &'a JudgeArgs,
}

impl Reproducer<'_> {
    /// The lit file, with contents in a folder of this name beside it.
    fn text(&self, folder: Option<&str>, cwd: &Path) -> String {
        let mut flags = Flags::default();
        let parts = self.judge.callee.iter().filter_map(|text| text.split_once('='));
        parts.for_each(|(name, file)| flags.give("callee", format!("{name}={}", absolute(file, cwd))));
        // lit takes `%` for the begin of a substitution.
        let flags = format!("{}{}", rules(self.judge), flags.0).replace('%', "%%");
        let bound = folder.map_or(String::new(), |folder| format!(" --bind-dir %S/{folder}"));
        lit_file(&format!("{}{flags}{bound}{}", self.command, self.piped), self.note, self.graph, self.inputs)
    }

    /// The lit file by itself: contents that were bound from files are not in it, nor large inputs.
    pub(crate) fn printed(&self, cwd: &Path) -> String {
        self.text(None, cwd)
    }

    /// Writes it into a folder under a name that tells it from others; returns where it is.
    pub(crate) fn write_into(&self, folder: &Path, stem: &str, cwd: &Path) -> std::io::Result<PathBuf> {
        let step = |hash: u64, b: u8| (hash ^ u64::from(b)).wrapping_mul(0x100_0000_01b3);
        let hash = self.printed(cwd).bytes().fold(0xcbf2_9ce4_8422_2325, step);
        let path = folder.join(format!("{stem}-{hash:016x}.ir"));
        std::fs::create_dir_all(folder)?;
        self.write(&path, cwd).map(|()| path)
    }

    /// Writes it, and beside it what a text cannot hold: large inputs, and contents that were bound or made up.
    pub(crate) fn write(&self, path: &Path, cwd: &Path) -> std::io::Result<()> {
        let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let folder = format!("{stem}.contents");
        let contents: Vec<_> = self.contents.iter().filter_map(|(name, value)| Some((name, value.tensor()?))).collect();
        if !contents.is_empty() {
            std::fs::create_dir_all(path.with_file_name(&folder))?;
        }
        for (name, tensor) in &contents {
            let one = Tensors::from([((*name).clone(), (*tensor).clone())]);
            write_tensors(&path.with_file_name(&folder).join(format!("{name}.safetensors")), &one)?;
        }
        let mut large = Tensors::new();
        for (i, input) in copies(self.inputs, Precision::Typed).iter().enumerate() {
            describe(input, &format!("in{i}"), &mut large);
        }
        large.retain(|_, tensor| tensor.numel() > MOST_WRITTEN);
        if !large.is_empty() {
            write_tensors(&path.with_file_name(format!("{stem}.inputs.safetensors")), &large)?;
        }
        std::fs::write(path, self.text((!contents.is_empty()).then_some(&folder), cwd))
    }
}

fn write_tensors(path: &Path, tensors: &Tensors) -> std::io::Result<()> {
    let bytes = write_safetensors(tensors).map_err(std::io::Error::other)?;
    std::fs::write(path, bytes)
}

fn absolute(file: &str, cwd: &Path) -> String {
    let path = cwd.join(file);
    std::path::absolute(&path).unwrap_or(path).display().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted_where_a_shell_would_read_them_otherwise() {
        assert_eq!(quoted("random:3"), "random:3");
        assert_eq!(quoted("%x=1,3"), "'%x=1,3'");
        assert_eq!(quoted("it's"), r"'it'\''s'");
        assert_eq!(quoted(""), "''");
    }
}
