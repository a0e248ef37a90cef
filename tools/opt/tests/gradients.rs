//! Gradients against those of PyTorch's eager mode: `CASE.grads` and `CASE.grads64` of `numerics/`
//! of the recorded graphs, from `CASE.grad_outputs`.
//!
//! Gradients are within the recorded tolerances, by the interpreter and by kernels, for the graph
//! as one group and as many, and in double precision within 1e-8 of the largest element. Cases that
//! cannot be differentiated are listed in `testdata/corpus/numerics/without_gradients.txt` with the
//! reason; an outdated line there is a failure too. `JITOPT_NUMERICS` selects cases by a part of
//! their path.

#![allow(clippy::print_stdout, reason = "a test tells its figures")]

#[path = "support/recorded.rs"]
mod recorded;

use jitopt_core::interpreter::comparison::{Tolerance, differences};
use jitopt_core::interpreter::description::{self, Described, Description, Source, fitted};
use jitopt_core::interpreter::files::{Tensors, read_safetensors};
use jitopt_core::interpreter::{Environment, IValue, Machine, Release};
use jitopt_core::ir::Graph;
use jitopt_core::pass::{Pipeline, Session, run};
use jitopt_core::runtime::{CpuBackend, Settings};
use jitopt_core::tensor::Precision;
use jitopt_core::text::{ParseOptions, parse};
use jitopt_core::types::era::Era;
use jitopt_judge::differentials::{Differentials, PREPARATION, give_types};
use jitopt_judge::tracing::{has_control_flow, trace};
use jitopt_passes::REGISTRY;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Tolerance of gradients in double precision, relative to the largest element.
const IN_DOUBLES: f64 = 1e-8;

/// The pipeline that creates groups, which become kernels.
const FUSION: &str = "@default,fuse{level=2}";

/// The pipeline that creates many small groups with backward graphs, and then the gradient of the
/// graph around them.
const GROUPS: &str = "create-autodiff-subgraphs{threshold=1},differentiate,differentiate{eager whole}";

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

fn environment(version: &str, precision: Precision) -> Environment {
    let mut env = Environment::default();
    env.precision = precision;
    env.release = Some(if version.starts_with("1.3") { Release(1, 3) } else { Release(2, 15) });
    env
}

/// A case, and its expected gradients.
struct Case<'a> {
    stem: &'a str,
    version: &'a str,
    description: Description,
    /// Keys of gradients that are given, of each result.
    keys: Vec<Option<String>>,
}

/// A way to compute gradients.
struct Way<'a> {
    precision: Precision,
    wanted: &'a str,
    backend: Option<&'a CpuBackend>,
    /// Passes over both graphs, which know what goes in.
    passes: Option<&'a str>,
}

impl Case<'_> {
    /// The graph that is differentiated.
    fn prepared(&self) -> Result<Graph, String> {
        let era = if self.version.starts_with("1.3") { Era::V1_3 } else { Era::V2 };
        let text = std::fs::read(format!("{}.ir", self.stem)).map_err(|why| why.to_string())?;
        let options = ParseOptions::of(Release::of(era));
        let mut graph: Graph = parse(&text, options).map_err(|_| "no graph")?.graph;
        run_passes(&mut graph, PREPARATION)?;
        if has_control_flow(&graph) {
            let inputs = self.inputs(&graph, Precision::Typed)?;
            let env = environment(self.version, Precision::Typed);
            // Results of these cases are floating-point tensors, and all of their constants are
            // printed.
            graph = trace(&graph, &env, &inputs).map_err(|stop| stop.to_string())?.graph;
            run_passes(&mut graph, PREPARATION)?;
        }
        Ok(graph)
    }

    fn inputs(&self, graph: &Graph, precision: Precision) -> Result<Vec<IValue>, String> {
        inputs_of(graph, &self.description, &Source::new(&tensors(self.stem, "inputs"), precision))
    }

    /// The gradients of results.
    fn given(&self, precision: Precision) -> Vec<IValue> {
        let given = tensors(self.stem, "grad_outputs");
        let gradient = |key: &Option<String>| {
            let tensor = key.as_ref().and_then(|key| given.get(key)).cloned();
            tensor.map_or(IValue::Undefined, |tensor| IValue::Tensor(tensor.converted(tensor.dtype(), precision)))
        };
        self.keys.iter().map(gradient).collect()
    }

    fn compare(&self, both: &mut Differentials, way: &Way<'_>) -> Result<(), String> {
        let values = self.inputs(&both.forward, way.precision)?;
        let env = environment(self.version, way.precision);
        let mut run = |graph: &Graph, values| match way.backend {
            Some(backend) => Machine::new(graph, &env).backed_by(backend).run(values),
            None => Machine::new(graph, &env).run(values),
        };
        if let Some(passes) = way.passes {
            run_passes(&mut both.forward, passes)?;
        }
        let forward = both.forward(&mut run, values).map_err(|stop| stop.to_string())?;
        let operands = both.operands(forward, &self.given(way.precision));
        if let Some(passes) = way.passes {
            both.specialize(&operands);
            run_passes(&mut both.backward, passes)?;
        }
        let gradients = both.backward(&mut run, operands).map_err(|stop| stop.to_string())?;
        let tolerance = match way.precision {
            Precision::Double => Tolerance::of_largest(IN_DOUBLES),
            Precision::Typed => self.description.tolerance.unwrap_or(Tolerance::of(1e-4, 1e-5)),
        };
        for (key, tensor) in tensors(self.stem, way.wanted).iter() {
            let i: usize = key.trim_start_matches("in").parse().map_err(|_| format!("the key `{key}`"))?;
            let wanted = IValue::Tensor(tensor.clone());
            let found = gradients.get(i).cloned().unwrap_or(IValue::Undefined);
            if let Some(first) = differences(&wanted, &found, tolerance, key).first() {
                return Err(format!("{}: {first:?}", way.wanted));
            }
        }
        Ok(())
    }
}

/// Whether kernels took part in computing the gradients of a case, or why the gradients are wrong.
fn check(stem: &str, version: &str) -> Result<bool, String> {
    let description = description::parse(&std::fs::read(format!("{stem}.json")).map_err(|why| why.to_string())?);
    let description = description.map_err(|why| why.to_string())?;
    let mut keys = Vec::new();
    description.outputs.iter().for_each(|outputs| leaves(outputs, &mut keys));
    let case = Case { stem, version, description, keys };
    let prepared = case.prepared()?;
    let mut graph = prepared.clone();
    run_passes(&mut graph, "differentiate")?;
    let mut both = Differentials::of(&graph).ok_or("it is not differentiated as a whole")?;
    let kernels = CpuBackend::new(Settings { cc: std::env::var("CC").ok(), threads: Some(1), ..Settings::default() });
    case.compare(&mut both, &Way { precision: Precision::Double, wanted: "grads64", backend: None, passes: None })?;
    let way = Way { precision: Precision::Typed, wanted: "grads", backend: None, passes: None };
    case.compare(&mut both, &way)?;
    case.compare(&mut both, &Way { backend: Some(&kernels), passes: Some(FUSION), ..way })?;
    // Groups among other nodes, each with its backward graph as a formula.
    let mut grouped = prepared.clone();
    run_passes(&mut grouped, GROUPS)?;
    let mut both = Differentials::of(&grouped).ok_or("what is around groups is not differentiated")?;
    case.compare(&mut both, &way).map_err(|why| format!("{GROUPS}: {why}"))?;
    // One pipeline for all of it, where gradients of all results are given.
    if !case.given(Precision::Typed).iter().any(|given| matches!(given, IValue::Undefined)) {
        let mut graph = prepared;
        let inputs = case.inputs(&graph, Precision::Typed)?;
        give_types(&mut graph, &inputs);
        run_passes(&mut graph, "@training")?;
        let mut both = Differentials::of(&graph).ok_or("`@training` does not make one group of it")?;
        let way = Way { precision: Precision::Typed, wanted: "grads", backend: Some(&kernels), passes: None };
        case.compare(&mut both, &way).map_err(|why| format!("@training: {why}"))?;
    }
    Ok(kernels.counts().launched > 0)
}

/// The described inputs, in the form of the parameters.
fn inputs_of(graph: &Graph, description: &Description, source: &Source<'_>) -> Result<Vec<IValue>, String> {
    let types = graph.params(graph.root()).map(|param| graph.ty(param));
    let value = |(i, (input, ty)): (usize, (&description::Input, _))| {
        let value = source.value(&input.value, &format!("in{i}")).map_err(|why| why.to_string())?;
        fitted(value, ty).map_err(|why| why.to_string())
    };
    description.inputs.iter().zip(types).enumerate().map(value).collect()
}

fn run_passes(graph: &mut Graph, passes: &str) -> Result<(), String> {
    let pipeline = Pipeline::parse(passes, &REGISTRY).expect("a pipeline");
    run(graph, &pipeline, &mut Session::default(), &mut []).map_err(|error| error.to_string())
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
