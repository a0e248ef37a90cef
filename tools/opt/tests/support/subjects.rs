//! Subjects for mutation tests: random graphs, and executable recorded ones.

use super::recorded;
use jitopt_core::interpreter::description::{self, Source, fitted};
use jitopt_core::interpreter::files::{Tensors, read_safetensors};
use jitopt_core::interpreter::generator::{Generator, invent_random};
use jitopt_core::interpreter::{Environment, IValue};
use jitopt_core::ir::Graph;
use jitopt_core::pass::{PassInfo, Registry};
use jitopt_core::tensor::{DType, Precision, Tensor};
use jitopt_core::text::{ParseOptions, parse};
use jitopt_core::types::era::Era;
use jitopt_core::types::release::Release;
use jitopt_judge::showing::Settings;
use jitopt_judge::smith::{Plan, forge};
use jitopt_judge::verdict::Expected;
use jitopt_passes::{REGISTRY, planted_rules};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::OnceLock;

/// All passes, and the pass with the incorrect rules.
pub fn registry() -> &'static Registry {
    static ALL: OnceLock<Registry> = OnceLock::new();
    ALL.get_or_init(|| {
        let mut passes: Vec<&'static PassInfo> = REGISTRY.passes.iter().collect();
        passes.push(&planted_rules::PASS);
        let owned: Vec<PassInfo> = passes.into_iter().map(copy).collect();
        Registry { passes: owned.leak(), pipelines: REGISTRY.pipelines }
    })
}

fn copy(pass: &'static PassInfo) -> PassInfo {
    let PassInfo { name, aliases, summary, example, options, required, reads_shapes, run, file } = *pass;
    PassInfo { name, aliases, summary, example, options, required, reads_shapes, run, file }
}

/// An executable graph, and its behaviour.
pub struct Subject {
    pub name: String,
    pub graph: Graph,
    pub inputs: Vec<IValue>,
    pub callees: BTreeMap<String, Graph>,
    pub settings: Settings,
    pub expected: Expected,
}

/// Maximum number of nodes of a run.
const MOST_STEPS: u64 = 20_000;

impl Subject {
    fn new(name: String, graph: Graph, inputs: Vec<IValue>, callees: BTreeMap<String, Graph>) -> Subject {
        let settings = Settings {
            callees: Rc::new(callees.clone()),
            invent: Some(invent_random),
            max_steps: Some(MOST_STEPS),
            // Other draws than those of a pass that draws.
            seed: 1,
            ..Settings::default()
        };
        let expected = Expected::of(&graph, &settings, &inputs);
        Subject { name, graph, inputs, callees, settings, expected }
    }

    /// A random graph.
    pub fn forged(plan: Plan) -> Subject {
        let forged = forge(plan);
        Subject::new(format!("seed {}", plan.seed), forged.graph, forged.inputs, forged.callees)
    }

    /// A graph of one tensor.
    pub fn of_tensor(graph: Graph, numbers: &[f64]) -> Subject {
        let tensor = Tensor::of(numbers, DType::Float, &[numbers.len() as i64], Precision::Typed);
        Subject::new("a graph".to_owned(), graph, vec![tensor.into()], BTreeMap::new())
    }

    /// A recorded graph with recorded or generated inputs; none if it does not run.
    fn recorded(path: &Path) -> Option<Subject> {
        let name = path.to_string_lossy().into_owned();
        let old = ["/1.3.1/", "/1.4.0/"].iter().any(|version| name.contains(version));
        let era = Some(if old { Era::V1_3 } else { Era::V2 });
        let options = ParseOptions { release: era.map(Release::of) };
        let read = |path: &Path| Some(parse(&std::fs::read(path).ok()?, options).ok()?.graph);
        let graph = read(path).filter(|graph| graph.all_nodes().count() < 400)?;
        let mut callees = BTreeMap::new();
        let stem = name.trim_end_matches(".ir").trim_end_matches(".in");
        for file in std::fs::read_dir(path.parent()?).ok()?.flatten().map(|entry| entry.path()) {
            let callee = file.to_string_lossy().into_owned();
            if let Some(rest) = callee.strip_prefix(&format!("{stem}.callee.")) {
                callees.insert(rest.trim_end_matches(".ir").to_owned(), read(&file)?);
            }
        }
        let inputs = given(stem, &graph).unwrap_or_else(|| generated(&graph, &callees));
        let short = name.rsplit("corpus/").next().unwrap_or(&name).to_owned();
        let subject = Subject::new(short, graph, inputs, callees);
        subject.expected.outcome.results.is_ok().then_some(subject)
    }
}

fn given(stem: &str, graph: &Graph) -> Option<Vec<IValue>> {
    let description = description::parse(&std::fs::read(format!("{stem}.json")).ok()?).ok()?;
    let tensors: Tensors = read_safetensors(&std::fs::read(format!("{stem}.inputs.safetensors")).ok()?).ok()?;
    let source = Source::new(&tensors, Precision::Typed);
    let types = graph.params(graph.root()).map(|param| graph.ty(param));
    let inputs = description.inputs.iter().enumerate().zip(types);
    inputs.map(|((i, input), ty)| fitted(source.value(&input.value, &format!("in{i}")).ok()?, ty).ok()).collect()
}

fn generated(graph: &Graph, callees: &BTreeMap<String, Graph>) -> Vec<IValue> {
    let mut env = Environment::default();
    env.callees = Rc::new(callees.clone());
    env.invent = Some(invent_random);
    env.max_steps = Some(MOST_STEPS);
    Generator::new(1).inputs(graph, &env)
}

/// Graphs with sums of gradients between operators, which are rare among random and recorded
/// graphs.
fn written() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/passes/commute_sum_to_size");
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    files.sort();
    files
}

/// Some random graphs, then the recorded ones, then more random ones. They are generated on demand.
pub struct Subjects {
    made: Vec<Subject>,
    recorded: Vec<PathBuf>,
    most: usize,
    seed: u64,
}

/// Number of random graphs before the recorded ones.
const FIRST: u64 = 100;

impl Subjects {
    /// So many random graphs, and the recorded ones.
    pub fn new(most: usize) -> Subjects {
        let wanted = |path: &PathBuf| {
            let name = path.to_string_lossy();
            (name.contains("/numerics/") && !name.contains(".diff.")) || name.ends_with(".in.ir")
        };
        let mut recorded: Vec<PathBuf> = recorded::files().into_iter().filter(wanted).collect();
        recorded.extend(written());
        recorded.reverse();
        Subjects { made: Vec::new(), recorded, most, seed: 0 }
    }

    /// One of them; they are asked for in order.
    pub fn get(&mut self, i: usize) -> Option<&Subject> {
        while self.made.len() <= i {
            let next = self.next()?;
            self.made.push(next);
        }
        self.made.get(i)
    }

    /// One that was asked for before.
    pub fn made(&self, i: usize) -> &Subject {
        &self.made[i]
    }

    fn next(&mut self) -> Option<Subject> {
        while self.seed >= FIRST
            && let Some(path) = self.recorded.pop()
        {
            if let Some(subject) = Subject::recorded(&path) {
                return Some(subject);
            }
        }
        if self.seed >= self.most as u64 {
            return None;
        }
        let seed = self.seed;
        self.seed += 1;
        Some(Subject::forged(Plan { seed, nodes: 10 + seed as usize % 50, ..Plan::default() }))
    }
}
