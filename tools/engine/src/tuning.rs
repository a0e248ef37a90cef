//! Search of plans for the kernels of a graph: by the model, and by measurements of the best ones.
//!
//! Measurements are kept, see `measurement_bank.rs`: searches use the model that explains them, and
//! a kernel that was measured before keeps the plan that was fastest.

use crate::error::{Error, Kind};
use crate::measurement_bank::{Bank, Fit, Record, plan_in_a_line};
use crate::measuring::{TOLERANCE, copied, inputs, machine};
use crate::operator_times::OperatorTimes;
use crate::options::{BackendOptions, RunOptions, Semantics, Values};
use crate::paired::Middle;
use crate::prediction::{PredictionSubject, Subject};
use crate::program::Program;
use crate::running::environment;
use crate::settings::MEASURE;
use crate::{Workspace, processor};
use jitopt_core::codegen::cost_model::Open;
use jitopt_core::codegen::devices::Device;
use jitopt_core::codegen::kernel_plan::{Plan, PlanFile};
use jitopt_core::codegen::search::{Found, Size, estimate, search, size, space_of};
use jitopt_core::codegen::target::Target;
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
    /// Neither reads nor keeps measurements.
    pub no_cache: bool,
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
    /// The kernel, in measurements.
    kernel: u64,
    /// Whether the plan is kept because it was fastest when it was measured before.
    is_known: bool,
    /// Milliseconds of the graph under the usual plan and under the kept one, and how many plans
    /// were measured.
    measured: Option<(Middle, Middle, usize)>,
}

/// Plans for the kernels of a graph.
pub struct Tuned {
    name: String,
    machine: &'static str,
    rows: Vec<Row>,
    /// Measurements that are kept, kernels that they are of, and the fit of the model on them,
    /// before this search and after it.
    kept: (usize, usize),
    fits: [Option<Fit>; 2],
}

impl Row {
    /// Keeps the plan that was fastest when the kernel was measured before, if it still is legal.
    fn recall(&mut self, one: &SizedKernel, chosen: &Plan, target: &Target, bank: &Bank) {
        let usual = plan_in_a_line(&chosen.print(&one.outputs, &one.kernel));
        let Some(before) = bank.of_kernel(self.kernel).find(|record| record.plan == usual) else { return };
        let fastest = bank.of_kernel(self.kernel).min_by(|a, b| a.measured.total_cmp(&b.measured));
        let fastest = fastest.filter(|record| record.measured < before.measured * CLEARLY);
        let text = fastest.map(|record| format!("group {}\n  {}\n", self.outputs, record.plan.replace("; ", "\n  ")));
        let is_legal = |text: &String| {
            PlanFile::parse(text)
                .is_ok_and(|file| file.of_group(&one.outputs, &one.kernel, &one.traversal, target).is_ok())
        };
        if text.as_ref().is_none_or(is_legal) {
            (self.text, self.is_known) = (text, true);
        }
    }
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
        let threads = options.measurement.and_then(|measurement| measurement.threads).unwrap_or(1);
        let variable = |name: &str| workspace.env().get(name).filter(|value| !value.is_empty()).cloned();
        let folder = (!options.no_cache).then(|| processor::cache_folder(variable)).flatten();
        let mut bank = Bank::open(folder.as_deref(), given.device, threads);
        let before = bank.fit();
        let device = before.as_ref().filter(|fit| fit.helps()).map_or(*given.device, |fit| fit.device(given.device));
        let mut rows = Vec::new();
        for one in &subject.sized.kernels {
            let chosen = (subject.target.choose)(&one.kernel, &one.traversal);
            let nest = match subject.target.nest(&one.kernel, &one.traversal, &chosen) {
                Ok(nest) => nest,
                Err(why) => {
                    workspace.warn(format!("no plan for the group of {}: {why}", one.outputs));
                    continue;
                }
            };
            let space = space_of(one.model(&device), subject.target, &chosen);
            let Some(found) = search(&*space, &chosen, most) else { continue };
            let mut row = Row {
                outputs: one.outputs.clone(),
                sizes: one.sizes(),
                size: size(&*space),
                text: (found.plan != chosen).then(|| found.plan.print(&one.outputs, &one.kernel)),
                kernel: one.identity(&nest),
                is_known: false,
                found,
                measured: None,
            };
            match &mut bench {
                Some(bench) => {
                    bench.decide(one, &chosen, &mut row, workspace)?;
                    bench.note(one, given.device, row.kernel, &mut bank);
                }
                None => row.recall(one, &chosen, subject.target, &bank),
            }
            rows.push(row);
        }
        let after = if bench.is_some() { bank.fit() } else { before.clone() };
        if bench.is_some()
            && let Err(error) = bank.keep()
        {
            workspace.warn(format!("measurements are not kept: {error}"));
        }
        let (name, machine) = (program.name(), given.device.name);
        Ok(Tuned { name, machine, rows, kept: bank.size(), fits: [before, after] })
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
        let known: Vec<&str> = self.rows.iter().filter(|row| row.is_known).map(|row| row.outputs.as_str()).collect();
        if !known.is_empty() {
            let _ = write!(text, "\nfastest when measured before: {}\n", known.join("; "));
        }
        text + &self.measurements() + "\n"
    }

    /// What measurements say of the model.
    fn measurements(&self) -> String {
        let (plans, kernels) = self.kept;
        if plans == 0 {
            return String::new();
        }
        let mut text = format!("\nmeasurements that are kept: {plans} of {kernels} kernels");
        let Some(fit) = &self.fits[1] else {
            return text + "; the model is fitted to those of 4 and more\n";
        };
        let [launch, memory, compute, loops] = fit.factors;
        let _ = write!(
            text,
            "\nfit on {} of them: launch x {launch:.2}, memory x {memory:.2}, operations x {compute:.2}, loops x \
             {loops:.2}\nerror on the other {}: {:.0} % (median), {:.0} % without the fit\n",
            fit.kernels[0],
            fit.kernels[1],
            fit.error * 100.0,
            fit.before * 100.0,
        );
        let was_used = self.fits[0].as_ref().is_some_and(Fit::helps);
        text += if was_used { "this search used the fit" } else { "this search used no fit" };
        text + if fit.helps() { ", the next one does\n" } else { ", nor does the next one\n" }
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
    /// The plans of the kernel that was measured last, and the nanoseconds of the kernel in each
    /// run.
    plans: Vec<(Plan, Vec<f64>)>,
}

/// A plan that is timed.
struct Candidate {
    text: Option<String>,
    backend: CpuBackend,
    times: Vec<f64>,
    plan: Plan,
    /// Nanoseconds of the kernel.
    of_kernel: Vec<f64>,
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
        let mut bench =
            Bench { measurement, graph, env, inputs, wanted: IValue::None, path, kept: Vec::new(), plans: Vec::new() };
        bench.wanted = bench.run(None, None)?.0;
        Ok(bench)
    }

    /// The results of a run, and its milliseconds.
    fn run(&self, backend: Option<&CpuBackend>, times: Option<&mut OperatorTimes>) -> Result<(IValue, f64), Error> {
        let stopped = |stop| Error::new(Kind::Refused, format!("{}: {stop}", self.path.display()));
        let inputs = copied(&self.inputs);
        let mut machine = machine(self.graph, &self.env, backend);
        if let Some(times) = times {
            machine = machine.watched(times);
        }
        let begin = Instant::now();
        let results = machine.run(inputs).map_err(stopped)?;
        let time = begin.elapsed().as_secs_f64() * 1e3;
        Ok((IValue::tuple(leaves(&IValue::tuple(results))), time))
    }

    /// Compiles a plan and compares what it computes with the interpreter's results.
    fn candidate(&self, text: Option<String>, plan: &Plan, workspace: &Workspace<'_>) -> Result<Candidate, Error> {
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
        let found = self.run(Some(&backend), None)?.0;
        if let Some(why) = backend.refused_plans().first() {
            return Err(Error::new(Kind::Refused, why.clone()));
        }
        if backend.counts().launched == 0 {
            let why = backend.remarks().first().map_or("no kernel was launched".to_owned(), ToString::to_string);
            return Err(Error::new(Kind::Refused, format!("{MEASURE}: {why}")));
        }
        let wrong = differences(&self.wanted, &found, Tolerance::of(TOLERANCE, TOLERANCE), "out");
        match wrong.first() {
            None => {
                let (times, of_kernel) = Default::default();
                Ok(Candidate { text, backend, times, plan: plan.clone(), of_kernel })
            }
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
        let mut candidates = vec![self.candidate(None, chosen, workspace)?];
        for (_, plan) in row.found.best.iter().filter(|(_, plan)| plan != chosen) {
            let text = plan.print(&one.outputs, &one.kernel);
            candidates.push(self.candidate(Some(text), plan, workspace)?);
        }
        for _ in 0..self.measurement.rounds {
            for candidate in &mut candidates {
                let mut operators = OperatorTimes::default();
                let time = self.run(Some(&candidate.backend), Some(&mut operators))?.1;
                candidate.times.push(time);
                candidate.of_kernel.extend(operators.of_group(&one.outputs).map(|seconds| seconds * 1e9));
            }
        }
        let middles: Vec<Middle> = candidates.iter().map(|candidate| Middle::of(candidate.times.clone())).collect();
        let fastest = (1..middles.len()).min_by(|&a, &b| middles[a].median.total_cmp(&middles[b].median));
        let kept = fastest.filter(|&at| middles[at].median < middles[0].median * CLEARLY).unwrap_or(0);
        row.text = candidates[kept].text.clone();
        self.plans = candidates.into_iter().map(|one| (one.plan, one.of_kernel)).collect();
        row.measured = Some((middles[0], middles[kept], middles.len()));
        self.kept.extend(row.text.clone());
        Ok(())
    }

    /// Keeps the times of the kernel that was measured last.
    fn note(&mut self, one: &SizedKernel, device: &Device, kernel: u64, bank: &mut Bank) {
        for (plan, times) in self.plans.drain(..).filter(|(_, times)| !times.is_empty()) {
            let Some(estimate) = estimate(&one.model(device), &plan, Open::default()) else { continue };
            let text = plan_in_a_line(&plan.print(&one.outputs, &one.kernel));
            bank.add(Record::new(kernel, &estimate, Middle::of(times).median, text));
        }
    }
}
