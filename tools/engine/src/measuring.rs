//! Measures a graph after one pipeline against the same graph after another one.
//!
//! A round runs both graphs, and a copy of as many bytes as the first one moves; a disturbance
//! longer than a round affects all three. The speedup is the median of the ratios of the rounds.

use crate::bindings::bindings;
use crate::error::{Error, Kind};
use crate::given_values::{self, Given};
use crate::known_values;
use crate::operator_times::OperatorTimes;
use crate::options::RunOptions;
use crate::paired::Middle;
use crate::program::Program;
use crate::running::{environment, make_up, transform};
use crate::traffic::Traffic;
use crate::{Workspace, processor};
use jitopt_core::interpreter::comparison::{Tolerance, differences};
use jitopt_core::interpreter::profile::Profile;
use jitopt_core::interpreter::{Environment, IValue, Machine};
use jitopt_core::ir::Graph;
use jitopt_core::pass::Pipeline;
use jitopt_core::runtime::CpuBackend;
use jitopt_core::runtime::Prepared;
use jitopt_core::runtime::backend::Request;
use jitopt_core::tensor::storage::with_peak;
use jitopt_core::tensor::{Precision, Tensor};
use jitopt_core::text::{ParseOptions, parse};
use jitopt_judge::sharing::{Copier, copies};
use jitopt_judge::verdict::{fitting, leaves};
use jitopt_passes::fuser::Tally;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Instant;

/// The copy kernel: one element read, one written.
const COPY: &str = "graph(%x : Tensor):\n  %y : Tensor = aten::neg(%x)\n  return (%y)\n";
/// Maximum number of bytes copied per round; beyond the caches the rate is constant.
const MOST_COPIED: u64 = 256 << 20;
/// Relative tolerance between the two results: enough for reordered sums of single precision.
/// `validate` compares exactly.
pub(crate) const TOLERANCE: f64 = 1e-3;

/// What is measured.
pub struct Bench<'a> {
    /// The values, and how graphs are run.
    pub run: &'a RunOptions,
    /// The baseline, and the pipeline that is compared with it.
    pub pipelines: [&'a Pipeline; 2],
    /// The profile that their passes read.
    pub profile: Option<&'a Profile>,
    /// Number of rounds.
    pub rounds: u32,
}

/// One of the two measured graphs.
struct Contender {
    graph: Graph,
    env: Environment,
    backend: Option<CpuBackend>,
    traffic: Traffic,
    /// Where the time of one more run goes; the timed runs have no observer.
    operators: OperatorTimes,
    peak: usize,
    /// Kernels that one run launches, and groups that the interpreter runs instead.
    launches: u64,
    fallen_back: u64,
    /// Seconds of the first run, which compiles the kernels.
    first: f64,
    tally: Tally,
    times: Vec<f64>,
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
        let backend = processor::backend(&run.semantics.backend, workspace);
        let tally = Tally::of(&graph);
        let (traffic, operators, times) = Default::default();
        let (peak, launches, fallen_back, first) = (0, 0, 0, 0.0);
        Ok(Contender { graph, env, backend, traffic, operators, peak, launches, fallen_back, first, tally, times })
    }

    /// Runs once to compile kernels, once to count, and once to measure operators.
    fn warm_up(&mut self, path: &Path, inputs: &[IValue]) -> Result<Vec<IValue>, Error> {
        let stopped = |stop| Error::new(Kind::Refused, format!("{}: {stop}", path.display()));
        let begin = Instant::now();
        let inputs = &fitting(&self.graph, inputs);
        machine(&self.graph, &self.env, self.backend.as_ref()).run(copied(inputs)).map_err(stopped)?;
        self.first = begin.elapsed().as_secs_f64();
        let counts = |backend: &Option<CpuBackend>| backend.as_ref().map(CpuBackend::counts).unwrap_or_default();
        let before = counts(&self.backend);
        let (graph, env, traffic) = (&self.graph, &self.env, &mut self.traffic);
        let mut watched = machine(graph, env, self.backend.as_ref()).watched(traffic);
        let (results, peak) = with_peak(|| watched.run(copied(inputs)));
        let after = counts(&self.backend);
        self.peak = peak;
        (self.launches, self.fallen_back) = (after.launched - before.launched, after.fallen_back - before.fallen_back);
        let results = results.map_err(stopped)?;
        let mut watched = machine(&self.graph, &self.env, self.backend.as_ref()).watched(&mut self.operators);
        watched.run(copied(inputs)).map_err(stopped)?;
        Ok(results)
    }
}

pub(crate) fn machine<'a>(graph: &'a Graph, env: &'a Environment, backend: Option<&'a CpuBackend>) -> Machine<'a> {
    let machine = Machine::new(graph, env);
    match backend {
        Some(backend) => machine.backed_by(backend),
        None => machine,
    }
}

/// Copies the inputs for one run: the program may write to them, and the next run needs the
/// originals.
pub(crate) fn copied(inputs: &[IValue]) -> Vec<IValue> {
    copies(inputs, Precision::Typed)
}

/// The roofline: a copy of this many bytes, read and written together.
enum Roof {
    /// By a kernel, as groups are run.
    Kernel(Box<Prepared>),
    /// By the system's memory copy, where there is no compiler.
    System(Vec<u8>, Vec<u8>),
}

impl Roof {
    fn new(bytes: u64, backend: Option<&CpuBackend>) -> Roof {
        let half = (bytes.min(MOST_COPIED) / 8).max(1) as usize;
        let copy = parse(COPY.as_bytes(), ParseOptions::default()).expect("it is a graph").graph;
        let operands = [IValue::Tensor(Tensor::from_elements(vec![1f32; half], &[half as i64]))];
        let request = Request { section: &copy, name: "a copy", operands: &operands, release: (2, 15) };
        match backend.and_then(|backend| backend.prepared(request).ok()) {
            Some(prepared) => Roof::Kernel(Box::new(prepared)),
            None => Roof::System(vec![1; half * 4], vec![0; half * 4]),
        }
    }

    /// Bytes per second.
    fn rate(&mut self) -> f64 {
        let begin = Instant::now();
        let bytes = match self {
            Roof::Kernel(prepared) => {
                let launched = prepared.launch().and_then(|_| prepared.wait());
                launched.map_or(0, |()| prepared.bytes())
            }
            Roof::System(from, to) => {
                to.copy_from_slice(from);
                2 * std::hint::black_box(&*to).len()
            }
        };
        bytes as f64 / begin.elapsed().as_secs_f64()
    }
}

/// The measurements of one graph.
pub struct Measured {
    name: String,
    rows: Vec<Row>,
    /// The speedup of the second one.
    faster: Middle,
    /// Whether both graphs are equal.
    are_same: bool,
    turns: usize,
    /// Extra seconds of the first run compared with a later one, and the number of runs that
    /// amortise them.
    start: f64,
    pays_after: Option<f64>,
}

struct Row {
    name: &'static str,
    time: Middle,
    rate: Middle,
    /// Fraction of the rate of a copy.
    share: Middle,
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
        for pipeline in bench.pipelines {
            let mut contender =
                Contender::new(bench, path, &graph, pipeline, (&inputs, &bound, program.is_archive()), workspace)?;
            results.push(IValue::tuple(leaves(&IValue::tuple(contender.warm_up(path, &inputs)?))));
            two.push(contender);
        }
        compare(path, &results)?;
        if let Some(backend) = &two[1].backend {
            backend.remarks().iter().for_each(|remark| workspace.warn(remark));
        }
        let roofs = take_turns(bench.rounds, path, &mut two, &inputs, progress)?;
        Ok(Measured::from(path, two, &roofs))
    }

    fn from(path: &Path, two: Vec<Contender>, roofs: &[f64]) -> Measured {
        let turns = roofs.len();
        let are_same = two[0].graph.to_string() == two[1].graph.to_string();
        let ratios = (0..turns).map(|i| two[0].times[i] / two[1].times[i]).collect();
        let rows: Vec<Row> =
            two.into_iter().zip(["against", "passes"]).map(|(c, name)| Row::new(name, c, roofs)).collect();
        let (slow, fast) = (rows[0].time.median, rows[1].time.median);
        let start = (rows[1].contender.first - fast).max(0.0);
        let pays_after = (slow > fast && !are_same).then(|| (start / (slow - fast)).ceil());
        let name = path.display().to_string();
        Measured { name, rows, faster: Middle::of(ratios), are_same, turns, start, pays_after }
    }

    /// A table under a title that names the pipelines.
    pub fn table(&self, headline: &str) -> String {
        let mut text = format!(
            "{}: {}\n\n| | ms | moved, kB | made, kB | peak, kB | GB/s | of the roof | operators | kernels | pointwise outside |\n\
             | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n",
            self.name, headline
        );
        self.rows.iter().for_each(|row| text += &row.markdown());
        let Middle { median, low, high } = self.faster;
        if self.are_same {
            let ratio = format!("{median:.2}, {low:.2} to {high:.2} with 95 % confidence, {} rounds", self.turns);
            return text + &format!("\nboth graphs are equal: their ratio ({ratio}) is the noise of this machine\n\n");
        }
        text += &match median < 1.0 {
            true => format!("\n{:.2} times slower, {:.2} to {:.2}", 1.0 / median, 1.0 / high, 1.0 / low),
            false => format!("\n{median:.2} times faster, {low:.2} to {high:.2}"),
        };
        text += &format!(" with 95 % confidence, {} rounds", self.turns);
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
            "times_faster": middle(self.faster),
            "turns": self.turns,
            "first_run_s": self.start,
            "pays_after_runs": self.pays_after,
        })
    }
}

impl Row {
    fn new(name: &'static str, contender: Contender, roofs: &[f64]) -> Row {
        let moved = contender.traffic.moved as f64;
        let rates: Vec<f64> = contender.times.iter().map(|time| moved / time).collect();
        let shares = rates.iter().zip(roofs).map(|(rate, roof)| rate / roof).collect();
        let time = Middle::of(contender.times.clone());
        Row { name, time, rate: Middle::of(rates), share: Middle::of(shares), contender }
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

    fn json(&self) -> Value {
        let Contender { traffic, operators, peak, launches, fallen_back, tally, .. } = &self.contender;
        json!({
            "name": self.name,
            "time_s": middle(self.time),
            "bytes_per_s": middle(self.rate),
            "share_of_roof": middle(self.share),
            "bytes_moved": traffic.moved,
            "bytes_made": traffic.made,
            "peak_bytes": peak,
            "operators": traffic.operators,
            "times": operators.json(),
            "kernels_launched": launches,
            "groups_fallen_back": fallen_back,
            "pointwise_outside": tally.outside.len(),
        })
    }
}

fn middle(middle: Middle) -> Value {
    json!({"median": middle.median, "low": middle.low, "high": middle.high})
}

/// The inputs from files beside the graph or from flags, with the missing ones generated on
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

/// Refuses to time graphs whose results differ.
fn compare(path: &Path, results: &[IValue]) -> Result<(), Error> {
    let found = differences(&results[0], &results[1], Tolerance::of(TOLERANCE, TOLERANCE), "out");
    match found.first() {
        None => Ok(()),
        Some(first) => {
            let path = path.display();
            Err(Error::new(
                Kind::Mismatch,
                format!("{path}: results differ: {first}\n  run `jitopt validate` for details"),
            ))
        }
    }
}

/// Runs both graphs and the copy alternately; returns the rates of the copy, in bytes per second.
fn take_turns(
    rounds: u32,
    path: &Path,
    two: &mut [Contender],
    inputs: &[IValue],
    progress: &mut dyn FnMut(u32),
) -> Result<Vec<f64>, Error> {
    let mut roof = Roof::new(two[1].traffic.moved, two[1].backend.as_ref());
    roof.rate();
    let mut roofs = Vec::new();
    for round in 0..rounds {
        progress(round);
        for contender in &mut *two {
            let mut machine = machine(&contender.graph, &contender.env, contender.backend.as_ref());
            let inputs = copied(&fitting(&contender.graph, inputs));
            if let Some(backend) = &contender.backend {
                backend.place(&inputs);
                backend.wait();
            }
            let begin = Instant::now();
            let ran = machine.run(inputs);
            contender.backend.iter().for_each(CpuBackend::wait);
            let time = begin.elapsed().as_secs_f64();
            ran.map_err(|stop| Error::new(Kind::Refused, format!("{}: {stop}", path.display())))?;
            contender.times.push(time);
        }
        roofs.push(roof.rate());
    }
    for backend in two.iter().filter_map(|contender| contender.backend.as_ref()) {
        processor::refuse_findings(backend)?;
    }
    Ok(roofs)
}
