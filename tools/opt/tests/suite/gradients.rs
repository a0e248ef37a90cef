//! Gradients against those of PyTorch's eager mode: `CASE.grads` and `CASE.grads64` of `numerics/`
//! of the recorded graphs, from `CASE.grad_outputs`.
//!
//! Gradients are within the recorded tolerances, by the interpreter and by kernels, for the graph
//! as one group and as many, and in double precision within 1e-8 of the largest element. Cases that
//! cannot be differentiated are listed in `testdata/corpus/numerics/without_gradients.txt` with the
//! reason; an outdated line there is a failure too. `JITOPT_NUMERICS` selects cases by a part of
//! their path.

#![allow(clippy::print_stdout, reason = "a test tells its figures")]

use crate::support::recorded;

use jitopt_core::interpreter::comparison::{Tolerance, differences};
use jitopt_core::interpreter::description::{self, Described, Description};
use jitopt_core::interpreter::files::{Tensors, read_safetensors};
use jitopt_core::interpreter::{IValue, Release};
use jitopt_core::runtime::{CpuBackend, Engine};
use jitopt_engine::{BackendOptions, Error, GradientRun, Program, Run, RunOptions, Semantics, Workspace, judging};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Tolerance of gradients in double precision, relative to the largest element.
const IN_DOUBLES: f64 = 1e-8;

/// The pipeline that creates groups, which become kernels.
const FUSION: &str = "@default,fuse{level=2}";

/// The pipeline that creates many small groups with backward graphs; the gradient of the graph
/// around them is derived afterwards.
const GROUPS: &str = "create-autodiff-subgraphs{threshold=1},differentiate";

fn tensors(stem: &str, suffix: &str) -> Tensors {
    let bytes = std::fs::read(format!("{stem}.{suffix}.safetensors")).expect("a file of the case");
    read_safetensors(&bytes).expect("tensors")
}

/// The leaves of the outputs, in order, under the keys of their tensors.
fn leaves(described: &Described, all: &mut Vec<Option<String>>) {
    match described {
        Described::Tensor(note) => all.push(note.key.clone()),
        Described::Tuple(parts) => parts.iter().for_each(|part| leaves(part, all)),
        _ => all.push(None),
    }
}

/// A case of a version, and its description.
struct Case<'a> {
    stem: &'a str,
    version: &'a str,
    description: Description,
}

/// A way to compute gradients.
struct Way<'a> {
    in_doubles: bool,
    wanted: &'a str,
    by_kernels: bool,
    passes: Option<&'a str>,
}

impl Case<'_> {
    /// Whether the gradient of each result is given.
    fn has_all_gradients(&self) -> bool {
        let (mut keys, given) = (Vec::new(), tensors(self.stem, "grad_outputs"));
        self.description.outputs.iter().for_each(|outputs| leaves(outputs, &mut keys));
        keys.iter().all(|key| key.as_ref().is_some_and(|key| given.contains_key(key)))
    }

    /// The number of launched kernels, or why the gradients are wrong.
    fn compare(&self, way: &Way<'_>) -> Result<u64, String> {
        let (torch, f64) = (Some(self.release()), way.in_doubles);
        let backend = BackendOptions {
            engine: way.by_kernels.then_some(Engine::Compiled),
            no_cache: true,
            threads: Some(1),
            plans: None,
            device: None,
            schedule_seed: None,
            graphs: None,
        };
        let semantics = Semantics { f64, torch, backend, ..Semantics::default() };
        let options = RunOptions { semantics, ..RunOptions::default() };
        let env = std::env::vars().filter(|(name, _)| name == "CC").collect();
        let mut workspace = Workspace::new(Path::new(""), &env, |_| {});
        let ran = self.run(&options, way.passes, &mut workspace).map_err(|error| error.to_string())?;
        if let Err(stop) = &ran.whole {
            return Err(stop.to_string());
        }
        let gradients: BTreeMap<String, IValue> = ran.gradients(&mut workspace).into_iter().collect();
        let tolerance = match way.in_doubles {
            true => Tolerance::of_largest(IN_DOUBLES),
            false => self.description.tolerance.unwrap_or(Tolerance::of(1e-4, 1e-5)),
        };
        for (key, tensor) in &tensors(self.stem, way.wanted) {
            let found = gradients.get(key).cloned().unwrap_or(IValue::Undefined);
            if let Some(first) = differences(&IValue::Tensor(tensor.clone()), &found, tolerance, key).first() {
                return Err(format!("{}: {first:?}", way.wanted));
            }
        }
        Ok(ran.backend.as_ref().map_or(0, |backend: &CpuBackend| backend.counts().launched))
    }

    fn run<'o>(
        &self,
        options: &'o RunOptions,
        passes: Option<&str>,
        workspace: &mut Workspace<'_>,
    ) -> Result<GradientRun<'o>, Error> {
        let program = Program::read(Path::new(&format!("{}.ir", self.stem)), workspace)?;
        let pipeline = judging::optional_pipeline(passes, workspace)?;
        Run::read(options, &program, workspace)?.gradients(pipeline, workspace)
    }

    fn release(&self) -> Release {
        if self.version.starts_with("1.3") { Release(1, 3) } else { Release(2, 15) }
    }
}

/// Whether kernels took part in computing the gradients of a case, or why the gradients are wrong.
fn check(stem: &str, version: &str) -> Result<bool, String> {
    let description = description::parse(&std::fs::read(format!("{stem}.json")).map_err(|why| why.to_string())?);
    let case = Case { stem, version, description: description.map_err(|why| why.to_string())? };
    case.compare(&Way { in_doubles: true, wanted: "grads64", by_kernels: false, passes: None })?;
    let way = Way { in_doubles: false, wanted: "grads", by_kernels: false, passes: None };
    case.compare(&way)?;
    let mut launched = case.compare(&Way { by_kernels: true, passes: Some(FUSION), ..way })?;
    // Groups with other nodes around them, each with its backward graph for a formula.
    case.compare(&Way { passes: Some(GROUPS), ..way }).map_err(|why| format!("{GROUPS}: {why}"))?;
    // One pipeline for all of it, where gradients of all results are given.
    if case.has_all_gradients() {
        let way = Way { by_kernels: true, passes: Some("@training"), ..way };
        launched += case.compare(&way).map_err(|why| format!("@training: {why}"))?;
    }
    Ok(launched > 0)
}

#[test]
fn gradients_are_those_of_eager_mode() {
    let list = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/corpus/numerics/without_gradients.txt");
    let list = std::fs::read_to_string(list).expect("it stands in the tree");
    let lines = list.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
    let listed: BTreeMap<&str, &str> = lines.map(|line| line.split_once(": ").expect("NAME: reason")).collect();
    let wanted = std::env::var("JITOPT_NUMERICS").unwrap_or_default();
    let (mut seen, mut right, mut launched, mut wrong) = (BTreeSet::new(), 0, 0, Vec::new());
    for path in recorded::files() {
        let text = path.to_string_lossy().into_owned();
        let Some(stem) = text.strip_suffix(".ir").filter(|stem| stem.contains("/numerics/") && stem.contains(&wanted))
        else {
            continue;
        };
        if !Path::new(&format!("{stem}.grads.safetensors")).is_file() {
            continue;
        }
        let (version, case) =
            stem.rsplit_once("/numerics/").and_then(|(_, name)| name.split_once('/')).expect("a case");
        let name = format!("{version}/{case}");
        if !seen.insert(name.clone()) {
            continue;
        }
        match (check(stem, version), listed.get(name.as_str())) {
            (Ok(with_kernels), None) => {
                right += 1;
                launched += usize::from(with_kernels);
            }
            (Err(why), None) => wrong.push(format!("{name}: {}", why.lines().next().unwrap_or_default())),
            (Ok(_), Some(_)) => wrong.push(format!("{name} is right, and listed as without gradients")),
            (Err(_), Some(_)) => {}
        }
    }
    println!("{right} of {} right, kernels launched in {launched}", seen.len());
    assert!(launched * 2 > right, "kernels were launched in {launched} of {right} cases");
    assert!(!seen.is_empty(), "no case matches");
    assert!(wrong.is_empty(), "{} of {} are wrong:\n{}", wrong.len(), seen.len(), wrong.join("\n"));
}
