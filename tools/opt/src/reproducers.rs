//! Reproducers of failures: the flags to repeat, and lit files with inputs and contents.

use crate::arguments::{BackendArgs, GateArgs, JudgeArgs};
use jitopt_core::interpreter::IValue;
use jitopt_core::interpreter::content_names::{ContentNames, all_graphs, contents};
use jitopt_core::interpreter::description::{Described, MOST_WRITTEN, describe};
use jitopt_core::interpreter::files::{Tensors, write_safetensors};
use jitopt_core::interpreter::literal_values::{PATH, spelled};
use jitopt_core::ir::Graph;
use jitopt_core::ops::declared::Declared;
use jitopt_core::tensor::{Precision, Tensor};
use jitopt_core::text::{PrintOptions, print};
use jitopt_engine::{Bindable, plain_values};
use jitopt_judge::sharing::copies;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// A word quoted for the shell, if necessary.
pub(crate) fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,+@".contains(c);
    match !word.is_empty() && word.chars().all(plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

/// Flags, each preceded by a blank.
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

/// Flags that reproduce the same judgement on the same samples.
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
    flags.0 + &for_passes(args) + &rules(args)
}

/// Flags that name files for passes.
pub(crate) fn for_passes(args: &JudgeArgs) -> String {
    let mut flags = Flags::default();
    flags.each("callee", &args.callee);
    args.seen.profile.iter().for_each(|path| flags.give("profile", path.display()));
    flags.0
}

/// Flags that apply to all inputs and name no file.
fn rules(args: &JudgeArgs) -> String {
    let mut flags = Flags::default();
    flags.each("schema", &Declared::current().texts());
    if args.seed != JudgeArgs::SEED {
        flags.give("seed", args.seed);
    }
    if let Some(how) = &args.fill_unknown {
        flags.0 += &format!(" --fill-unknown={}", quoted(&how.to_string()));
    }
    flags.each("rtol", args.rtol.as_slice());
    flags.each("atol", args.atol.as_slice());
    flags.set("signed-zero", args.signed_zero);
    flags.set("overflow-is-large", args.overflow_is_large);
    if args.max_steps != JudgeArgs::MAX_STEPS {
        flags.give("max-steps", args.max_steps);
    }
    flags.each("timeout", args.timeout.as_slice());
    if let Some(release) = args.torch {
        flags.0 += &format!(" --torch={release}");
    }
    flags.set("no-verify", args.no_verify);
    flags.0
}

/// The flags that select the backend.
pub(crate) fn of_backend(args: &BackendArgs) -> String {
    let mut flags = Flags::default();
    if args.has_kernels() {
        flags.0 += &format!(" --backend={}", args.backend);
        flags.set("no-cache", args.no_cache);
        flags.each("threads", args.threads.as_slice());
        flags.each("device", args.device.as_slice());
        flags.each("schedule-seed", args.schedule_seed.as_slice());
        if let Some(which) = &args.cuda_graphs {
            flags.0 += &format!(" --cuda-graphs={which}");
        }
    }
    flags.0
}

/// The flags that restrict rewrites.
pub(crate) fn gates(args: &GateArgs) -> String {
    let counters = args.debug_counter.iter().map(|counter| format!(" --debug-counter='{counter}'"));
    counters.chain(args.disable.iter().map(|pass| format!(" --disable={}", quoted(pass)))).collect()
}

/// A graph and its inputs as one lit file.
pub(crate) fn lit_file(run_line: &str, note: &str, graph: &Graph, inputs: &[IValue]) -> String {
    let mut text: String = note.lines().map(|line| format!("# {line}\n")).collect();
    text += &format!("# RUN: {run_line}\n");
    // Objects with bound attributes are not described.
    let is_bound = |input: &IValue| matches!(input, IValue::Object(it) if it.attributes.borrow().contains_key(PATH));
    let described = described(inputs).0.into_iter().zip(inputs).filter(|(_, input)| !is_bound(input));
    let lines: Vec<String> = described.map(|(described, _)| format!("# ARGS: {}", described.json())).collect();
    if !lines.is_empty() {
        text += &(lines.join(",\n") + "\n");
    }
    text + &String::from_utf8_lossy(&print(graph, PrintOptions::default()))
}

/// Descriptions of the inputs, and their tensors by key except those that alias another tensor.
fn described(inputs: &[IValue]) -> (Vec<Described>, Tensors) {
    let mut tensors = Tensors::new();
    let inputs = copies(inputs, Precision::Typed).into_iter().enumerate();
    let mut all: Vec<Described> = inputs.map(|(i, input)| describe(&input, &format!("in{i}"), &mut tensors)).collect();
    let mut seen = Vec::new();
    all.iter_mut().for_each(|described| share(described, &tensors, &mut seen));
    tensors.retain(|key, _| seen.contains(key));
    (all, tensors)
}

/// Describes tensors that alias an earlier tensor which covers all of their memory. Other kinds of
/// sharing between inputs are lost.
fn share(described: &mut Described, tensors: &Tensors, seen: &mut Vec<String>) {
    match described {
        Described::List(parts) | Described::Tuple(parts) => {
            parts.iter_mut().for_each(|part| share(part, tensors, seen))
        }
        Described::Dict(items) => items.iter_mut().for_each(|(_, value)| share(value, tensors, seen)),
        Described::Tensor(note) => {
            let Some((key, tensor)) = note.key.as_ref().and_then(|key| tensors.get_key_value(key)) else { return };
            let is_all = |other: &Tensor| other.is_contiguous() && other.numel() == other.storage().read().len();
            let whole = seen.iter().find(|other| {
                let other = &tensors[other.as_str()];
                other.shares_storage(tensor) && other.dtype() == tensor.dtype() && is_all(other)
            });
            match whole {
                Some(whole) => (note.storage, note.values) = (Some((whole.clone(), tensor.offset() as i64)), None),
                None => seen.push(key.clone()),
            }
        }
        _ => {}
    }
}

/// The check that a reproducer pipes `validate` into: it passes as soon as the bug is fixed.
pub(crate) const SAME: &str = " | filecheck %s\n# CHECK: the same on 1 sample";

/// A failure to be reproduced.
pub(crate) struct Reproducer<'a> {
    /// The command with its own flags: `jitopt validate %s --passes='cse' --samples 0`.
    pub(crate) command: String,
    /// The observed types of the graph.
    pub(crate) profile: Option<&'a Path>,
    /// The check on the output: ` | filecheck %s`.
    pub(crate) piped: String,
    /// The failure.
    pub(crate) note: &'a str,
    pub(crate) graph: &'a Graph,
    pub(crate) inputs: &'a [IValue],
    /// Contents that the text of the graph omits.
    pub(crate) contents: &'a BTreeMap<String, IValue>,
    /// Their names when they were bound.
    pub(crate) names: &'a ContentNames,
    pub(crate) judge: &'a JudgeArgs,
}

impl Reproducer<'_> {
    /// The lit file; contents are in a directory of this name next to it.
    fn text(&self, folder: Option<&str>, cwd: &Path) -> String {
        let mut flags = Flags::default();
        let parts = self.judge.callee.iter().map(|callee| (callee.name(), callee.file()));
        parts.for_each(|(name, file)| flags.give("callee", format!("{name}={}", absolute(Path::new(file), cwd))));
        self.profile.iter().for_each(|file| flags.give("profile", absolute(file, cwd)));
        // lit interprets `%` as the start of a substitution.
        let flags = format!("{}{}", rules(self.judge), flags.0).replace('%', "%%");
        let bound = folder.map_or(String::new(), |folder| format!(" --bind-dir %S/{folder}")) + &self.plain_flags();
        lit_file(&format!("{}{flags}{bound}{}", self.command, self.piped), self.note, self.graph, self.inputs)
    }

    /// Contents by their names in this graph: sections may differ from those at binding.
    fn named_contents(&self) -> Vec<(String, &IValue)> {
        let mut now: BTreeMap<&str, Vec<String>> = BTreeMap::new();
        for (path, graph) in all_graphs(self.graph, &BTreeMap::new()) {
            for content in contents(&path, graph) {
                if let Some(name) = self.names.get(&content.text) {
                    now.entry(name).or_default().push(content.name);
                }
            }
        }
        let gone = |name: &str| name.starts_with("prim::") && name.contains("/%");
        let named = |(name, value)| {
            let same = || if gone(name) { Vec::new() } else { vec![name.to_owned()] };
            now.get(name).cloned().unwrap_or_else(same).into_iter().map(move |name| (name, value))
        };
        self.contents.iter().map(|(name, value)| (name.as_str(), value)).flat_map(named).collect()
    }

    /// Flags that bind contents without tensors.
    fn plain_flags(&self) -> String {
        let (mut flags, none) = (Flags::default(), BTreeMap::new());
        let bindable = Bindable::of(self.graph, &none);
        for (name, value) in self.named_contents().into_iter().filter(|(name, _)| bindable.takes(name)) {
            if let Some(text) = plain_values::spelling(value) {
                flags.give("bind", format!("{}={text}", spelled(&name)));
            }
        }
        flags.0.replace('%', "%%")
    }

    /// The lit file alone: contents bound from files and large inputs are missing.
    pub(crate) fn printed(&self, cwd: &Path) -> String {
        self.text(None, cwd)
    }

    /// Writes it into a directory under a unique name; returns the path.
    pub(crate) fn write_into(&self, folder: &Path, stem: &str, cwd: &Path) -> std::io::Result<PathBuf> {
        let step = |hash: u64, b: u8| (hash ^ u64::from(b)).wrapping_mul(0x100_0000_01b3);
        let hash = self.printed(cwd).bytes().fold(0xcbf2_9ce4_8422_2325, step);
        let path = folder.join(format!("{stem}-{hash:016x}.ir"));
        std::fs::create_dir_all(folder)?;
        self.write(&path, cwd).map(|()| path)
    }

    /// Writes it, and files next to it for large inputs and for contents that were bound or
    /// generated.
    pub(crate) fn write(&self, path: &Path, cwd: &Path) -> std::io::Result<()> {
        let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let folder = format!("{stem}.contents");
        let contents = self.named_contents().into_iter().map(|(name, value)| (of_content(&name, value), name));
        let contents: Vec<_> = contents.filter(|(tensors, _)| !tensors.is_empty()).collect();
        for (tensors, name) in &contents {
            // Files of sections are in subdirectories named after the sections.
            let file = format!("{}.safetensors", name.replace("/%", "/"));
            let file = path.with_file_name(&folder).join(file);
            std::fs::create_dir_all(file.parent().unwrap_or(Path::new("")))?;
            write_tensors(&file, tensors)?;
        }
        let (_, mut large) = described(self.inputs);
        large.retain(|_, tensor| tensor.numel() > MOST_WRITTEN);
        if !large.is_empty() {
            write_tensors(&path.with_file_name(format!("{stem}.inputs.safetensors")), &large)?;
        }
        std::fs::write(path, self.text((!contents.is_empty()).then_some(&folder), cwd))
    }
}

/// A tensor under its name, or the tensors of a list under their indices, as `--bind` reads them.
fn of_content(name: &str, value: &IValue) -> Tensors {
    let parts = match value {
        IValue::List(parts) => parts.borrow().clone(),
        other => return other.tensor().map(|tensor| (name.to_owned(), tensor.clone())).into_iter().collect(),
    };
    parts.iter().enumerate().filter_map(|(i, part)| Some((i.to_string(), part.tensor()?.clone()))).collect()
}

fn write_tensors(path: &Path, tensors: &Tensors) -> std::io::Result<()> {
    let bytes = write_safetensors(tensors).map_err(std::io::Error::other)?;
    std::fs::write(path, bytes)
}

fn absolute(file: &Path, cwd: &Path) -> String {
    let path = cwd.join(file);
    std::path::absolute(&path).unwrap_or(path).display().to_string()
}

/// Writes the input with a RUN line that reproduces the bug; returns the path.
pub(crate) fn of_panic(dir: &Path, flags: &str, input: &[u8]) -> Option<PathBuf> {
    let flags = if flags.is_empty() { String::new() } else { format!(" {flags}") };
    let mut text =
        format!("# jitopt {} broke on this file.\n# RUN: jitopt %s{flags}\n", env!("CARGO_PKG_VERSION")).into_bytes();
    text.extend(input);
    let fold = |hash: u64, b: &u8| (hash ^ u64::from(*b)).wrapping_mul(0x100_0000_01b3);
    let name = format!("jitopt-repro-{:016x}.ir", text.iter().fold(0xcbf2_9ce4_8422_2325, fold));
    let path = dir.join(name);
    std::fs::write(&path, text).ok().map(|()| path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_that_inputs_share_is_shared_again() {
        let x = Tensor::from_elements(vec![1f32, 2.0, 3.0, 4.0], &[4]);
        let inputs = [x.clone().into(), x.narrow(0, 1, 2, 1).into(), x.clone().into(), IValue::Int(3)];
        let (described, tensors) = described(&inputs);
        let shown: Vec<String> = described.iter().map(|one| one.json().to_string()).collect();
        assert!(shown[0].contains("values") && !shown[0].contains("storage"), "{shown:?}");
        assert!(shown[1].contains(r#""storage":"in0""#) && shown[1].contains(r#""offset":1"#), "{shown:?}");
        assert!(shown[2].contains(r#""storage":"in0""#) && !shown[2].contains("values"), "{shown:?}");
        assert_eq!(tensors.keys().collect::<Vec<_>>(), ["in0"]);
    }

    #[test]
    fn words_are_quoted_where_a_shell_would_read_them_otherwise() {
        assert_eq!(quoted("random:3"), "random:3");
        assert_eq!(quoted("%x=1,3"), "'%x=1,3'");
        assert_eq!(quoted("it's"), r"'it'\''s'");
        assert_eq!(quoted(""), "''");
    }

    #[test]
    fn a_reproducer_is_a_lit_file() {
        let dir = std::env::temp_dir();
        let path = of_panic(&dir, "--passes=dce", b"graph():\n  return ()\n").expect("a writable folder");
        let text = std::fs::read_to_string(&path).expect("it was just written");
        assert!(text.contains("# RUN: jitopt %s --passes=dce\ngraph():\n"), "{text}");
        std::fs::remove_file(path).expect("it is ours");
    }
}
