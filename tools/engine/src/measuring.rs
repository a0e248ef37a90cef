//! Measures a graph after one pipeline against the same graph after another one.
//!
//! A round runs both graphs, and a copy of as many bytes as the first one moves; a disturbance
//! longer than a round affects all three. The speedup is the median of the ratios of the rounds.
//! With a GPU a graph runs twice in a round: a run whose time is taken, until the GPU has done its
//! work, and one with the GPU's own clock, whose events would take time of the other one.

use crate::bindings::bindings;
use crate::device_rows::{DeviceFigures, DeviceRow};
use crate::error::{Error, Kind};
use crate::given_values::{self, Given};
use crate::known_values;
use crate::operator_times::OperatorTimes;
use crate::options::RunOptions;
use crate::paired::Middle;
use crate::program::Program;
use crate::repeated_inputs::RepeatedInputs;
use crate::roof::{Rates, Roof};
use crate::running::{environment, make_up, transform};
use crate::settings::BACKEND;
use crate::traffic::Traffic;
use crate::{Workspace, processor};
use jitopt_core::interpreter::comparison::{Tolerance, differences};
use jitopt_core::interpreter::profile::Profile;
use jitopt_core::interpreter::{Environment, IValue, Machine, Stop};
use jitopt_core::ir::Graph;
use jitopt_core::pass::Pipeline;
use jitopt_core::runtime::backend::Counts;
use jitopt_core::runtime::{CpuBackend, DeviceWork, PlannedMemory};
use jitopt_core::tensor::Precision;
use jitopt_core::tensor::storage::with_peak;
use jitopt_judge::sharing::{Copier, copies};
use jitopt_judge::verdict::{fitting, leaves};
use jitopt_passes::fuser::Tally;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;
use std::rc::Rc;
use std::time::Instant;

/// Relative tolerance between the two results: enough for reordered sums of single precision.
/// `validate` compares exactly.
pub(crate) const TOLERANCE: f64 = 1e-3;

/// A measurement.
pub struct Bench<'a> {
    /// The values, and how graphs are run.
    pub run: &'a RunOptions,
    /// The baseline, and the pipeline that is compared with it.
    pub pipelines: [&'a Pipeline; 2],
    /// Whether there are none: the graph is measured as it is.
    pub is_alone: bool,
    /// The profile that their passes read.
    pub profile: Option<&'a Profile>,
    /// Number of rounds.
    pub rounds: u32,
}

/// One of the two measured graphs.
struct Contender {
    graph: Graph,
    env: Environment,
    backend: Option<Rc<CpuBackend>>,
    traffic: Traffic,
    /// The times of the operators in one more run; the timed runs have no observer.
    operators: OperatorTimes,
    peak: usize,
    /// Kernels that one run launches, and groups that the interpreter runs instead.
    launches: u64,
    fallen_back: u64,
    /// Seconds of the first run, which compiles the kernels.
    first: f64,
    tally: Tally,
    times: Vec<f64>,
    /// Whether a GPU does something in a run, and what it does in each.
    uses_device: bool,
    device: Vec<DeviceWork>,
    /// The inputs that are copied for each run.
    copied: Vec<String>,
}

impl Contender {
    fn new(
        bench: &Bench<'_>,
        path: &Path,
        graph: &Graph,
        pipeline: &Pipeline,
        (inputs, bound, is_archive): (&[IValue], &BTreeMap<String, IValue>, bool),
        workspace: &mut Workspace<'_>,
    ) -> Result<Contender, Error> {
        let run = bench.run;
        let (mut graph, mut env) = (graph.clone(), environment(run, graph, workspace)?);
        let mut copier = Copier::new(Precision::Typed);
        env.bindings =
            bound.iter().map(|(name, value)| (name.clone(), copier.copy(value))).collect::<BTreeMap<_, _>>().into();
        if is_archive && !pipeline.steps.is_empty() {
            let known: Vec<Vec<&IValue>> = inputs.iter().map(|input| vec![input]).collect();
            known_values::settle(&mut graph, &env.bindings.borrow(), &known);
        }
        transform(path, &mut graph, pipeline, &env, bench.profile, false)?;
        if is_archive && !pipeline.steps.is_empty() {
            let stopped = |stop| Error::new(Kind::Refused, format!("{}: {stop}", path.display()));
            let inputs = fitting(&graph, inputs);
            known_values::compute_once(&mut graph, &mut env, &inputs).map_err(stopped)?;
        }
        let backend = processor::backend(&run.semantics.backend, workspace).map(Rc::new);
        let tally = Tally::of(&graph);
        let (traffic, operators, times) = Default::default();
        let (peak, launches, fallen_back, first) = (0, 0, 0, 0.0);
        let (uses_device, device, copied) = Default::default();
        Ok(Contender {
            graph,
            env,
            backend,
            traffic,
            operators,
            peak,
            launches,
            fallen_back,
            first,
            tally,
            times,
            uses_device,
            device,
            copied,
        })
    }

    /// Runs once to compile kernels, once to count, and once to measure operators.
    fn warm_up(&mut self, path: &Path, inputs: &[IValue]) -> Result<Vec<IValue>, Error> {
        let stopped = |stop| Error::new(Kind::Refused, format!("{}: {stop}", path.display()));
        let begin = Instant::now();
        let inputs = &fitting(&self.graph, inputs);
        self.machine().run(copied(inputs)).map_err(stopped)?;
        self.first = begin.elapsed().as_secs_f64();
        let before = self.counts();
        let (graph, env, traffic) = (&self.graph, &self.env, &mut self.traffic);
        let mut watched = machine(graph, env, self.backend.as_deref()).watched(traffic);
        let (results, peak) = with_peak(|| watched.run(copied(inputs)));
        let after = self.counts();
        self.peak = peak;
        self.uses_device = after.launched + after.products > before.launched + before.products;
        (self.launches, self.fallen_back) = (after.launched - before.launched, after.fallen_back - before.fallen_back);
        let results = results.map_err(stopped)?;
        let mut watched = machine(&self.graph, &self.env, self.backend.as_deref()).watched(&mut self.operators);
        watched.run(copied(inputs)).map_err(stopped)?;
        Ok(results)
    }

    fn planned_memory(&self) -> Option<PlannedMemory> {
        self.backend.as_ref()?.planned_memory().filter(|memory| memory.results > 0)
    }

    fn machine(&self) -> Machine<'_> {
        machine(&self.graph, &self.env, self.backend.as_deref())
    }

    fn counts(&self) -> Counts {
        self.backend.as_ref().map(|backend| backend.counts()).unwrap_or_default()
    }

    /// The inputs of a run, on a GPU if kernels run there.
    fn placed(&self, inputs: &RepeatedInputs) -> Vec<IValue> {
        let inputs = inputs.of_a_run();
        if let Some(backend) = &self.backend {
            backend.place(&inputs);
            backend.wait();
        }
        inputs
    }

    /// The seconds of a run, until a GPU has done its work.
    fn time_a_run(&self, path: &Path, inputs: &RepeatedInputs) -> Result<f64, Error> {
        let inputs = self.placed(inputs);
        // Freeing what was copied is not part of the run.
        let _alive = inputs.clone();
        let mut machine = self.machine();
        let begin = Instant::now();
        let ran = machine.run(inputs);
        let failure = self.backend.as_ref().and_then(|backend| backend.failure());
        let time = begin.elapsed().as_secs_f64();
        ran.map_err(|stop| stopped(path, stop))?;
        failure.map_or(Ok(time), |why| Err(self.failed(why)))
    }

    /// The work of a GPU in a run, by its own clock.
    fn on_device(&self, path: &Path, inputs: &RepeatedInputs) -> Result<DeviceWork, Error> {
        let inputs = self.placed(inputs);
        let Some(backend) = &self.backend else { return Ok(DeviceWork::default()) };
        backend.start_clock().map_err(|why| self.failed(why))?;
        let ran = self.machine().run(inputs);
        let work = backend.stop_clock();
        ran.map_err(|stop| stopped(path, stop))?;
        work.map_err(|why| self.failed(why))
    }

    /// A failure of what kernels run on.
    fn failed(&self, why: String) -> Error {
        let name = self.backend.as_ref().map_or("interp", |backend| backend.name());
        Error::new(Kind::Refused, format!("{BACKEND}={name}: {why}"))
    }

    /// An error if a kernel has not run in a measured run as it did before, of which there were
    /// `before` cases until then.
    fn refuse_failures(&self, before: u64) -> Result<(), Error> {
        let Some(backend) = &self.backend else { return Ok(()) };
        processor::refuse_findings(backend)?;
        let runs = (self.times.len() + self.device.len()) as u64;
        if self.counts().fallen_back <= before + self.fallen_back * runs {
            return Ok(());
        }
        Err(self.failed(backend.remarks().pop().unwrap_or_default()))
    }
}

pub(crate) fn machine<'a>(graph: &'a Graph, env: &'a Environment, backend: Option<&'a CpuBackend>) -> Machine<'a> {
    let machine = Machine::new(graph, env);
    match backend {
        Some(backend) => machine.backed_by(backend),
        None => machine,
    }
}

/// A run that ended early.
fn stopped(path: &Path, stop: Stop) -> Error {
    Error::new(Kind::Refused, format!("{}: {stop}", path.display()))
}

/// Copies the inputs for one run: the program may write to them, and the next run needs the
/// originals.
pub(crate) fn copied(inputs: &[IValue]) -> Vec<IValue> {
    copies(inputs, Precision::Typed)
}

/// The measurements of one graph.
pub struct Measured {
    name: String,
    rows: Vec<Row>,
    /// The speedup of the second one.
    faster: Middle,
    /// Whether both graphs are equal.
    are_same: bool,
    rounds: usize,
    /// Extra seconds of the first run compared with a later one, and the number of runs that
    /// amortise them.
    start: f64,
    pays_after: Option<f64>,
    /// The GPU, if kernels run on one.
    device: Option<DeviceFigures>,
}

struct Row {
    name: &'static str,
    time: Middle,
    rate: Middle,
    /// Fraction of the rate of a copy.
    share: Middle,
    /// By the clock of a GPU.
    device: Option<DeviceRow>,
    contender: Contender,
}

impl Measured {
    /// Runs both graphs alternately, after their results are compared. `progress` receives the
    /// number of each round.
    ///
    /// # Errors
    /// The text is not a valid graph, options do not fit the graph, a graph does not run, or the
    /// results differ.
    pub fn of(
        bench: &Bench<'_>,
        program: &Program,
        progress: &mut dyn FnMut(u32),
        workspace: &mut Workspace<'_>,
    ) -> Result<Measured, Error> {
        let path = &program.path;
        let graph = program.graph(bench.run.semantics.torch, workspace)?;
        let (inputs, bound) = inputs(bench.run, program, &graph, workspace)?;
        let mut two = Vec::new();
        let mut results = Vec::new();
        for pipeline in bench.pipelines.into_iter().skip(usize::from(bench.is_alone)) {
            let mut contender =
                Contender::new(bench, path, &graph, pipeline, (&inputs, &bound, program.is_archive()), workspace)?;
            results.push(IValue::tuple(leaves(&IValue::tuple(contender.warm_up(path, &inputs)?))));
            two.push(contender);
        }
        let compared = compare(path, &results);
        let mut remarks = Vec::new();
        for backend in two.iter().filter_map(|contender| contender.backend.as_ref()) {
            // A result that cannot be read from a GPU seems to differ.
            processor::refuse_findings(backend)?;
            remarks.extend(backend.remarks());
        }
        compared?;
        remarks.dedup();
        remarks.iter().for_each(|remark| workspace.warn(remark));
        let timed = has_clock(&two, workspace);
        let inputs: Vec<RepeatedInputs> =
            two.iter().map(|contender| RepeatedInputs::new(&contender.graph, &inputs)).collect();
        two.iter_mut().zip(&inputs).for_each(|(contender, inputs)| contender.copied = inputs.copied(&contender.graph));
        let roofs = alternate(bench.rounds, path, &mut two, (&inputs, timed), progress)?;
        Ok(Measured::from(path, two, &roofs))
    }

    fn from(path: &Path, two: Vec<Contender>, roofs: &[Rates]) -> Measured {
        let rounds = roofs.len();
        let on_device: Option<Vec<f64>> = roofs.iter().map(|rates| rates.device).collect();
        let name = two[two.len() - 1].backend.as_ref().and_then(|backend| Some(backend.device_name()?.0.to_owned()));
        let device = on_device.zip(name).map(|(rates, name)| DeviceFigures { name, roof: Middle::of(rates) });
        let last = two.len() - 1;
        let are_same = two[0].graph.to_string() == two[last].graph.to_string();
        let ratios = (0..rounds).map(|i| two[0].times[i] / two[last].times[i]).collect();
        let names: &[&str] = if last == 0 { &["graph"] } else { &["against", "passes"] };
        let rows: Vec<Row> = two.into_iter().zip(names).map(|(c, name)| Row::new(name, c, roofs)).collect();
        let (slow, fast) = (rows[0].time.median, rows[last].time.median);
        let start = (rows[last].contender.first - fast).max(0.0);
        let pays_after = (slow > fast && !are_same).then(|| (start / (slow - fast)).ceil());
        let name = path.display().to_string();
        Measured { name, rows, faster: Middle::of(ratios), are_same, rounds, start, pays_after, device }
    }

    /// A table under a title that names the pipelines.
    pub fn table(&self, headline: &str) -> String {
        let mut text = format!(
            "{}: {}\n\n| | ms | moved, kB | made, kB | peak, kB | GB/s | of the roof | operators | kernels | pointwise outside |\n\
             | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n",
            self.name, headline
        );
        self.rows.iter().for_each(|row| text += &row.markdown());
        if let Some(device) = &self.device {
            text += &device.table(self.rows.iter().filter_map(|row| row.device.as_ref()));
        }
        for row in self.rows.iter().filter(|row| !row.contender.copied.is_empty()) {
            let copied = row.contender.copied.join(", ");
            text += &format!("\n{}: copied before each run, as it may write to them: {copied}\n", row.name);
        }
        self.rows.iter().for_each(|row| text += &row.shared_memory());
        let Middle { median, low, high } = self.faster;
        if self.rows.len() == 1 {
            return text
                + &format!("\n{} rounds; the first run takes {:.1} ms more\n\n", self.rounds, self.start * 1e3);
        }
        if self.are_same {
            let ratio = format!("{median:.2}, {low:.2} to {high:.2} with 95 % confidence, {} rounds", self.rounds);
            return text + &format!("\nboth graphs are equal: their ratio ({ratio}) is the noise of this machine\n\n");
        }
        text += &match median < 1.0 {
            true => format!("\n{:.2} times slower, {:.2} to {:.2}", 1.0 / median, 1.0 / high, 1.0 / low),
            false => format!("\n{median:.2} times faster, {low:.2} to {high:.2}"),
        };
        text += &format!(" with 95 % confidence, {} rounds", self.rounds);
        text += &match self.pays_after {
            Some(n) => format!("; the first run takes {:.1} ms more, amortised after {n} runs\n\n", self.start * 1e3),
            None => format!("; the first run takes {:.1} ms more\n\n", self.start * 1e3),
        };
        text
    }

    /// The measurements as JSON.
    pub fn json(&self) -> Value {
        json!({
            "graph": self.name,
            "rows": self.rows.iter().map(Row::json).collect::<Vec<_>>(),
            "same_graph": self.are_same,
            "times_faster": (self.rows.len() > 1).then(|| self.faster.json()),
            "rounds": self.rounds,
            "first_run_s": self.start,
            "pays_after_runs": self.pays_after,
            "device": self.device.as_ref().map(DeviceFigures::json),
        })
    }
}

impl Row {
    fn new(name: &'static str, contender: Contender, roofs: &[Rates]) -> Row {
        let moved = contender.traffic.moved as f64;
        let rates: Vec<f64> = contender.times.iter().map(|time| moved / time).collect();
        let shares = rates.iter().zip(roofs).map(|(rate, roof)| rate / roof.run).collect();
        let on_device: Vec<f64> = roofs.iter().filter_map(|rates| rates.device).collect();
        let device = DeviceRow::new(name, &contender.device, &on_device);
        let time = Middle::of(contender.times.clone());
        Row { name, time, rate: Middle::of(rates), share: Middle::of(shares), device, contender }
    }

    fn markdown(&self) -> String {
        let Contender { traffic, peak, launches, fallen_back, tally, .. } = &self.contender;
        let (kb, ms) = (|bytes: u64| bytes as f64 / 1e3, |time: f64| time * 1e3);
        let kernels = if *fallen_back > 0 { format!("{launches}, {fallen_back} not") } else { launches.to_string() };
        format!(
            "| {} | {:.3} ({:.3}–{:.3}) | {:.3} | {:.3} | {:.3} | {:.1} | {:.2} | {} | {kernels} | {} |\n",
            self.name,
            ms(self.time.median),
            ms(self.time.low),
            ms(self.time.high),
            kb(traffic.moved),
            kb(traffic.made),
            kb(*peak as u64),
            self.rate.median / 1e9,
            self.share.median,
            traffic.operators,
            tally.outside.len(),
        )
    }

    /// How results share memory.
    fn shared_memory(&self) -> String {
        let Some(memory) = self.contender.planned_memory() else { return String::new() };
        let PlannedMemory { results, buffers, bytes, most_alive } = memory;
        let kb = |bytes: usize| bytes as f64 / 1e3;
        format!(
            "\n{}: {results} results share {buffers} buffers of {:.3} kB, of which {:.3} are in use at most\n",
            self.name,
            kb(bytes),
            kb(most_alive)
        )
    }

    fn json(&self) -> Value {
        let memory = self.contender.planned_memory();
        let Contender { traffic, operators, peak, launches, fallen_back, tally, copied, .. } = &self.contender;
        json!({
            "name": self.name,
            "time_s": self.time.json(),
            "bytes_per_s": self.rate.json(),
            "share_of_roof": self.share.json(),
            "bytes_moved": traffic.moved,
            "bytes_made": traffic.made,
            "peak_bytes": peak,
            "planned_memory": memory.map(|memory| json!({
                "results": memory.results,
                "buffers": memory.buffers,
                "bytes": memory.bytes,
                "bytes_in_use": memory.most_alive,
            })),
            "operators": traffic.operators,
            "times": operators.json(),
            "kernels_launched": launches,
            "groups_fallen_back": fallen_back,
            "pointwise_outside": tally.outside.len(),
            "inputs_copied": copied,
            "device": self.device.as_ref().map(DeviceRow::json),
        })
    }
}

/// The inputs from files next to the graph or from flags, with the missing ones generated on
/// request; and contents that the text omits.
#[allow(clippy::type_complexity, reason = "it is used in one place")]
pub(crate) fn inputs(
    run: &RunOptions,
    program: &Program,
    graph: &Graph,
    workspace: &mut Workspace<'_>,
) -> Result<(Vec<IValue>, BTreeMap<String, IValue>), Error> {
    let recorded = || program.samples(run.semantics.torch);
    let given = Given::read(run, program, workspace)?.or_recorded(run, graph, recorded, workspace)?;
    let mut env = environment(run, graph, workspace)?;
    env.bindings = bindings(run, graph, &env, program.contents(run.semantics.torch)?, workspace)?.into();
    let mut inputs = given_values::inputs(run, graph, &given, &env)?;
    make_up(run, graph, &env, &given, &mut inputs, workspace)?;
    Ok((given_values::complete(graph, inputs, &given)?, env.bindings.take()))
}

/// Whether the clock of a GPU is there; says so if only that is missing.
fn has_clock(two: &[Contender], workspace: &mut Workspace<'_>) -> bool {
    let backends = two.iter().filter(|contender| contender.uses_device);
    let mut backends = backends.filter_map(|contender| contender.backend.as_ref()).filter(|it| it.runs_on_device());
    match backends.next().map(|backend| backend.start_clock().and_then(|()| backend.stop_clock())) {
        Some(Err(why)) => {
            workspace.warn(why);
            false
        }
        found => found.is_some(),
    }
}

/// Refuses to time graphs whose results differ.
fn compare(path: &Path, results: &[IValue]) -> Result<(), Error> {
    let found = differences(&results[0], &results[results.len() - 1], Tolerance::of(TOLERANCE, TOLERANCE), "out");
    match found.first() {
        None => Ok(()),
        Some(first) => {
            let path = path.display();
            Err(Error::new(Kind::Mismatch, format!("{path}: results differ: {first}\n  validation shows details")))
        }
    }
}

/// Runs both graphs and the copy alternately; returns the rates of the copy, in bytes per second.
fn alternate(
    rounds: u32,
    path: &Path,
    two: &mut [Contender],
    (inputs, timed): (&[RepeatedInputs], bool),
    progress: &mut dyn FnMut(u32),
) -> Result<Vec<Rates>, Error> {
    let last = two.len() - 1;
    let backend = two[last].backend.clone();
    let mut roof =
        Roof::new(two[last].traffic.moved, backend.as_deref(), timed).map_err(|why| two[last].failed(why))?;
    roof.rates().map_err(|why| two[last].failed(why))?;
    let before: Vec<u64> = two.iter().map(|contender| contender.counts().fallen_back).collect();
    let mut roofs = Vec::new();
    for round in 0..rounds {
        progress(round);
        for (contender, inputs) in two.iter_mut().zip(inputs) {
            contender.times.push(contender.time_a_run(path, inputs)?);
            if timed && contender.uses_device {
                contender.device.push(contender.on_device(path, inputs)?);
            }
        }
        roofs.push(roof.rates().map_err(|why| two[last].failed(why))?);
    }
    for (contender, before) in two.iter().zip(before) {
        contender.refuse_failures(before)?;
    }
    Ok(roofs)
}
