//! Search of plans for the kernels of a graph: by the model, and by measurements of the best ones.

use crate::error::{Error, Kind};
use crate::measuring::{TOLERANCE, copied, inputs, machine};
use crate::options::{BackendOptions, RunOptions, Semantics, Values};
use crate::paired::Middle;
use crate::prediction::{PredictionSubject, Subject};
use crate::program::Program;
use crate::running::environment;
use crate::settings::MEASURE;
use crate::{Workspace, processor};
use jitopt_core::codegen::kernel_plan::{Plan, PlanFile};
use jitopt_core::codegen::search::{Found, Size, search, size, space_of};
use jitopt_core::interpreter::comparison::{Tolerance, differences};
use jitopt_core::interpreter::{Environment, IValue};
use jitopt_core::ir::Graph;
use jitopt_core::runtime::sized_kernels::SizedKernel;
use jitopt_core::runtime::{CpuBackend, Engine};
use jitopt_judge::sharing::Copier;
use jitopt_judge::verdict::{fitting, leaves};
use std::fmt::Write;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

/// The options of a search.
#[derive(Clone, Copy, Debug, Default)]
pub struct TuningOptions {
    /// Measurements of the best plans by the model, if any.
    pub measurement: Option<Measurement>,
}

/// The options of measurements.
#[derive(Clone, Copy, Debug)]
pub struct Measurement {
    /// Plans of each kernel, besides the usual one.
    pub candidates: u32,
    /// Runs of each.
    pub rounds: u32,
    /// Threads of a kernel.
    pub threads: Option<u32>,
    /// The seed of inputs.
    pub seed: u64,
}

/// The result for a kernel.
struct Row {
    outputs: String,
    sizes: String,
    size: Size,
    found: Found,
    /// The plan that is kept, as text; none if it is the usual one.
    text: Option<String>,
    /// Milliseconds of the graph under the usual plan and under the kept one, and how many plans
    /// were measured.
    measured: Option<(Middle, Middle, usize)>,
}

/// Plans for the kernels of a graph.
pub struct Tuned {
    name: String,
    machine: &'static str,
    rows: Vec<Row>,
}

impl Tuned {
    /// Searches plans for the kernels of a graph after passes.
    ///
    /// # Errors
    /// The text is not a valid graph, passes fail, or a plan computes other results than the
    /// interpreter.
    pub fn of(
        given: PredictionSubject<'_>,
        options: TuningOptions,
        program: &Program,
        workspace: &mut Workspace<'_>,
    ) -> Result<Tuned, Error> {
        let subject = Subject::of(given, program, workspace)?;
        subject.warn(workspace);
        let most = options.measurement.map_or(1, |measurement| measurement.candidates as usize + 1);
        let mut bench = match options.measurement {
            Some(measurement) => Some(Bench::new(given, measurement, &subject.graph, program, workspace)?),
            None => None,
        };
        let mut rows = Vec::new();
        for one in &subject.sized.kernels {
            let chosen = (subject.target.choose)(&one.kernel, &one.traversal);
            if let Err(why) = subject.target.nest(&one.kernel, &one.traversal, &chosen) {
                workspace.warn(format!("no plan for the group of {}: {why}", one.outputs));
                continue;
            }
            let space = space_of(one.model(given.device), subject.target, &chosen);
            let Some(found) = search(&*space, &chosen, most) else { continue };
            let mut row = Row {
                outputs: one.outputs.clone(),
                sizes: one.sizes(),
                size: size(&*space),
                text: (found.plan != chosen).then(|| found.plan.print(&one.outputs, &one.kernel)),
                found,
                measured: None,
            };
            if let Some(bench) = &mut bench {
                bench.decide(one, &chosen, &mut row, workspace)?;
            }
            rows.push(row);
        }
        Ok(Tuned { name: program.name(), machine: given.device.name, rows })
    }

    /// A table.
    pub fn table(&self) -> String {
        let is_measured = self.rows.iter().any(|row| row.measured.is_some());
        let mut text = format!(
            "{}: plans for {}, by the model{}\n\n| group | sizes | variables | evaluations | consistent | space | \
             usual plan, us | best plan, us |{}\n| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |{}\n",
            self.name,
            self.machine,
            if is_measured { " and as measured" } else { ", not run" },
            if is_measured { " graph, ms | with the kept plan, ms | plans measured |" } else { "" },
            if is_measured { " ---: | ---: | ---: |" } else { "" },
        );
        for Row { outputs, sizes, size, found, measured, .. } in &self.rows {
            let _ = write!(
                text,
                "| {outputs} | {sizes} | {} | {} | {} | {} | {:.2} | {:.2} |",
                size.variables,
                found.evaluations,
                size.consistent,
                size.whole,
                found.chosen / 1e3,
                found.time / 1e3
            );
            if let Some((usual, kept, plans)) = measured {
                let ms = |middle: &Middle| format!("{:.3} ({:.3}–{:.3})", middle.median, middle.low, middle.high);
                let _ = write!(text, " {} | {} | {plans} |", ms(usual), ms(kept));
            }
            text.push('\n');
        }
        text + "\n"
    }

    /// The plans that are kept, as a file of plans. Groups that have none are scheduled as usual.
    pub fn plans(&self) -> String {
        let kept: Vec<&str> = self.rows.iter().filter_map(|row| row.text.as_deref()).collect();
        format!("# plans for {}, found by a search\n{}", self.machine, kept.join("\n"))
    }
}

/// The inputs with which plans are timed.
struct Bench<'a> {
    measurement: Measurement,
    graph: &'a Graph,
    env: Environment,
    inputs: Vec<IValue>,
    /// The results of the interpreter.
    wanted: IValue,
    path: &'a Path,
    /// The plans that were kept of the kernels before.
    kept: Vec<String>,
}

/// A plan that is timed.
struct Candidate {
    text: Option<String>,
    backend: CpuBackend,
    times: Vec<f64>,
}

/// A plan is kept if it is faster by more than what two runs of one plan differ by.
const CLEARLY: f64 = 0.98;

impl<'a> Bench<'a> {
    fn new(
        given: PredictionSubject<'_>,
        measurement: Measurement,
        graph: &'a Graph,
        program: &'a Program,
        workspace: &mut Workspace<'_>,
    ) -> Result<Bench<'a>, Error> {
        let options = RunOptions {
            values: Values { seed: Some(measurement.seed), shape: given.shape.to_vec(), ..Values::default() },
            semantics: Semantics { torch: given.release, ..Semantics::default() },
            ..RunOptions::default()
        };
        let original = program.graph(given.release, workspace)?;
        let (inputs, bound) = inputs(&options, program, &original, workspace)?;
        let mut env = environment(&options, graph, workspace)?;
        let mut copier = Copier::new(jitopt_core::tensor::Precision::Typed);
        env.bindings = bound
            .iter()
            .map(|(name, value)| (name.clone(), copier.copy(value)))
            .collect::<std::collections::BTreeMap<_, _>>()
            .into();
        let inputs = fitting(graph, &inputs);
        let path = &program.path;
        let mut bench = Bench { measurement, graph, env, inputs, wanted: IValue::None, path, kept: Vec::new() };
        bench.wanted = bench.run(None)?.0;
        Ok(bench)
    }

    /// The results of a run, and its milliseconds.
    fn run(&self, backend: Option<&CpuBackend>) -> Result<(IValue, f64), Error> {
        let stopped = |stop| Error::new(Kind::Refused, format!("{}: {stop}", self.path.display()));
        let inputs = copied(&self.inputs);
        let mut machine = machine(self.graph, &self.env, backend);
        let begin = Instant::now();
        let results = machine.run(inputs).map_err(stopped)?;
        let time = begin.elapsed().as_secs_f64() * 1e3;
        Ok((IValue::tuple(leaves(&IValue::tuple(results))), time))
    }

    /// Compiles a plan and compares what it computes with the interpreter's results.
    fn candidate(&self, text: Option<String>, workspace: &Workspace<'_>) -> Result<Candidate, Error> {
        let all = self.kept.iter().chain(&text).cloned().collect::<Vec<_>>().join("\n");
        let plans = PlanFile::parse(&all).map_err(|why| Error::new(Kind::Refused, format!("{why}:\n{all}")))?;
        let options = BackendOptions {
            engine: Engine::named("cpu"),
            no_cache: false,
            threads: self.measurement.threads.or(Some(1)),
            plans: Some(Arc::new(plans)),
            device: None,
            schedule_seed: None,
            graphs: None,
        };
        let Some(backend) = processor::backend(&options, workspace) else {
            return Err(Error::new(Kind::Refused, "there is no backend `cpu`".to_owned()));
        };
        let found = self.run(Some(&backend))?.0;
        if let Some(why) = backend.refused_plans().first() {
            return Err(Error::new(Kind::Refused, why.clone()));
        }
        if backend.counts().launched == 0 {
            let why = backend.remarks().first().map_or("no kernel was launched".to_owned(), ToString::to_string);
            return Err(Error::new(Kind::Refused, format!("{MEASURE}: {why}")));
        }
        let wrong = differences(&self.wanted, &found, Tolerance::of(TOLERANCE, TOLERANCE), "out");
        match wrong.first() {
            None => Ok(Candidate { text, backend, times: Vec::new() }),
            Some(first) => Err(Error::new(Kind::Mismatch, format!("a plan computes other results: {first}\n{all}"))),
        }
    }

    /// Times the best plans of a kernel alternately, and keeps the fastest one.
    fn decide(
        &mut self,
        one: &SizedKernel,
        chosen: &Plan,
        row: &mut Row,
        workspace: &mut Workspace<'_>,
    ) -> Result<(), Error> {
        let mut candidates = vec![self.candidate(None, workspace)?];
        for (_, plan) in row.found.best.iter().filter(|(_, plan)| plan != chosen) {
            let text = plan.print(&one.outputs, &one.kernel);
            candidates.push(self.candidate(Some(text), workspace)?);
        }
        for _ in 0..self.measurement.rounds {
            for candidate in &mut candidates {
                let time = self.run(Some(&candidate.backend))?.1;
                candidate.times.push(time);
            }
        }
        let middles: Vec<Middle> = candidates.iter().map(|candidate| Middle::of(candidate.times.clone())).collect();
        let fastest = (1..middles.len()).min_by(|&a, &b| middles[a].median.total_cmp(&middles[b].median));
        let kept = fastest.filter(|&at| middles[at].median < middles[0].median * CLEARLY).unwrap_or(0);
        row.text = candidates.swap_remove(kept).text;
        row.measured = Some((middles[0], middles[kept], middles.len()));
        self.kept.extend(row.text.clone());
        Ok(())
    }
}
