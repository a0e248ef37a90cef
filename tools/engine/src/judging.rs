//! Shared by `validate`, `bisect` and `reduce`: a graph, and samples to run it on.

use crate::bindings::bindings;
use crate::callees::{self, Calls};
use crate::error::{Error, Kind, refuse};
use crate::given_texts::Filling;
use crate::given_values::{self, Given};
use crate::options::{GateOptions, JudgeOptions, RunOptions, Semantics, Values};
use crate::program::Program;
use crate::settings::{ATOL, CHECK, DEBUG_COUNTER, DISABLE, RTOL, TIMEOUT, TORCH};
use crate::{Workspace, reporting};
use jitopt_core::interpreter::comparison::Tolerance;
use jitopt_core::interpreter::content_names::ContentNames;
use jitopt_core::interpreter::description::Described;
use jitopt_core::interpreter::generator::{Generator, Style};
use jitopt_core::interpreter::literal_values::spelled;
use jitopt_core::interpreter::{IValue, Reason, Release};
use jitopt_core::ir::Graph;
use jitopt_core::pass::{self, GRAPH_FILE, Gate, Pipeline, Session, never_came_up};
use jitopt_core::tensor::Precision;
use jitopt_core::tensor::quantizer::Quantizer;
use jitopt_core::text::{ParseOptions, PrintOptions, parse, print};
use jitopt_judge::rewrites::Sample;
use jitopt_judge::sharing::Copier;
use jitopt_judge::showing::{Outcome, Settings};
use jitopt_judge::verdict::Policy;
use jitopt_passes::REGISTRY;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A graph under test, and samples to run it on.
pub struct Trial {
    /// The graph.
    pub graph: Graph,
    /// The graph as its file has it: types of [`Trial::graph`] may say more, to fit another graph.
    pub(crate) as_read: Graph,
    /// The semantics of its runs.
    pub settings: Settings,
    /// The inputs of each run.
    pub samples: Vec<Sample>,
    /// The policy of comparisons.
    pub policy: Policy,
}

/// Parses a pipeline and loads the files that its options name; without fusion if
/// `JITOPT_FUSION=0`.
///
/// # Errors
/// The text is not a pipeline, or a file cannot be read.
pub fn pipeline(text: &str, workspace: &mut Workspace<'_>) -> Result<Pipeline, Error> {
    let mut pipeline = Pipeline::parse(text, &REGISTRY).or_else(|error| refuse(error.render(text)))?;
    pipeline.read_files(&mut option_file)?;
    let fuses = pipeline.stages().iter().any(|stage| stage.pass.name == "fuse");
    if fuses && !fusion_is_on(workspace)? {
        workspace.note("JITOPT_FUSION=0: `fuse` is omitted");
        return Ok(pipeline.without("fuse"));
    }
    Ok(pipeline)
}

/// The deadline of passes that start now.
pub(crate) fn deadline(settings: &Settings) -> Option<Instant> {
    settings.timeout.and_then(|time| Instant::now().checked_add(time))
}

/// Refuses options with which no graph of this release can be transformed; otherwise the failing
/// pass would be taken for a finding.
///
/// # Errors
/// Names the option.
pub(crate) fn refuse_misuse(pipeline: &Pipeline, release: Release) -> Result<(), Error> {
    let mut empty = Graph::new();
    empty.set_release(release);
    match pass::run(&mut empty, pipeline, &mut Session::default(), &mut []) {
        Err(error) if Kind::of(&error) == Kind::Misuse => refuse(error),
        _ => Ok(()),
    }
}

/// The pipeline of an option.
///
/// # Errors
/// As of [`pipeline`].
pub fn optional_pipeline(text: Option<&str>, workspace: &mut Workspace<'_>) -> Result<Option<Pipeline>, Error> {
    text.map(|text| pipeline(text, workspace)).transpose()
}

/// The value of `JITOPT_FUSION`.
///
/// # Errors
/// It is neither 0 nor 1.
pub fn fusion_is_on(workspace: &Workspace<'_>) -> Result<bool, Error> {
    match workspace.env().get("JITOPT_FUSION").map(String::as_str) {
        None | Some("" | "1") => Ok(true),
        Some("0") => Ok(false),
        Some(other) => refuse(format_args!("JITOPT_FUSION must be 0 or 1, not `{other}`")),
    }
}

/// Reads the file of a pass option. A file that is not a graph is reported here, where it can be
/// shown.
fn option_file(path: &str, kind: &str) -> Result<Vec<u8>, Error> {
    let text = std::fs::read(path).or_else(|error| refuse(format!("{path}: {error}")))?;
    if kind != GRAPH_FILE {
        return Ok(text);
    }
    match parse(&text, ParseOptions::default()) {
        Ok(_) => Ok(text),
        Err(found) => Err(Error::new(Kind::Unparsable, reporting::render(path, &text, &found, false))),
    }
}

/// Restrictions of the rewrites of a pipeline.
///
/// # Errors
/// A counter cannot be parsed, or a pass is not in the pipeline.
pub fn gate(options: &GateOptions, pipeline: &Pipeline) -> Result<Gate, Error> {
    let mut gate = Gate::default();
    for text in &options.debug_counter {
        gate.add_counter(text).or_else(refuse)?;
    }
    gate.disabled = named(&options.disable, DISABLE, pipeline)?.into_iter().map(str::to_owned).collect();
    Ok(gate)
}

/// The passes that an option names: they must exist and be in the pipeline; otherwise the option
/// would have no effect.
///
/// # Errors
/// Names the first pass that does not exist or is not in the pipeline.
pub fn named(
    names: &[String],
    setting: impl std::fmt::Display,
    pipeline: &Pipeline,
) -> Result<Vec<&'static str>, Error> {
    let mut found = Vec::new();
    for name in names {
        let Some(pass) = REGISTRY.pass(name) else {
            let near = REGISTRY.nearest_pass(name).map_or(String::new(), |near| format!("; did you mean `{near}`?"));
            return refuse(format_args!("{setting}: unknown pass `{name}`{near}"));
        };
        if !pipeline.stages().iter().any(|stage| stage.pass.name == pass.name) {
            return refuse(format_args!("{setting}: `{}` is not in the pipeline `{pipeline}`", pass.name));
        }
        found.push(pass.name);
    }
    Ok(found)
}

/// Refuses counters of rules that never came up: they have no effect.
pub(crate) fn refuse_idle(session: &Session) -> Result<(), Error> {
    match session.gate.unused().next() {
        None => Ok(()),
        Some(rule) => {
            let known = session.stats.keys().map(String::as_str);
            refuse(format_args!("{DEBUG_COUNTER}: {}", never_came_up(rule, known)))
        }
    }
}

/// The equivalent arguments of `run`.
fn as_run(args: &JudgeOptions) -> RunOptions {
    RunOptions {
        values: Values {
            inputs: args.inputs.clone(),
            args: args.args.clone(),
            shape: args.shape.clone(),
            bind: args.bind.clone(),
            bind_dir: args.bind_dir.clone(),
            fill_unknown: Some(how_generated(args)),
            ..Values::default()
        },
        semantics: Semantics {
            torch: args.torch,
            callee: args.callee.clone(),
            no_verify: args.no_verify,
            ..Semantics::default()
        },
        ..RunOptions::default()
    }
}

fn policy(args: &JudgeOptions) -> Result<Policy, Error> {
    for (name, x) in [(RTOL, args.rtol), (ATOL, args.atol)] {
        if x.is_some_and(|x| x.is_nan() || x < 0.0) {
            return refuse(format_args!("{name}: expected a non-negative number"));
        }
    }
    let given = args.rtol.or(args.atol).is_some();
    let tolerance = given.then(|| Tolerance::of(args.rtol.unwrap_or(0.0), args.atol.unwrap_or(0.0)));
    Ok(Policy {
        signed_zero: args.signed_zero,
        overflow_is_large: args.overflow_is_large,
        tolerance,
        sharing: false,
        explain: true,
    })
}

fn settings(args: &JudgeOptions, workspace: &mut Workspace<'_>) -> Result<Settings, Error> {
    let options = ParseOptions { release: args.torch };
    let graphs = callees::load_all(&args.callee, args.no_verify, options, workspace)?;
    let timeout = args.timeout.map(Duration::try_from_secs_f64);
    let Ok(timeout) = timeout.transpose() else {
        return refuse(format_args!("{TIMEOUT}: expected a non-negative number of seconds"));
    };
    let mut settings = Settings {
        release: args.torch,
        other_release: args.other_torch,
        seed: args.seed,
        callees: Rc::new(graphs),
        timeout,
        ..Settings::default()
    };
    settings.max_steps = Some(args.max_steps);
    let filling = how_generated(args);
    (settings.invent, settings.invent_seed) = (Some(filling.invent), filling.seed);
    Ok(settings)
}

/// The generator of unbound contents: a graph is compared even without its weights.
fn how_generated(args: &JudgeOptions) -> Filling {
    args.fill_unknown.clone().unwrap_or_default()
}

/// Registers callees under their qualified names, which the interpreter looks up; users may give
/// short ones, as for `inline`.
fn with_whole_names(settings: &mut Settings, graph: &Graph) {
    let mut calls = Calls::default();
    calls.add(graph);
    let mut graphs = (*settings.callees).clone();
    graphs.values().for_each(|callee| calls.add(callee));
    for names in calls.each() {
        let given = names.iter().find_map(|name| graphs.get(name)).cloned();
        if let (Some(callee), Some(whole)) = (given, names.first()) {
            graphs.entry(whole.clone()).or_insert(callee);
        }
    }
    settings.callees = Rc::new(graphs);
}

impl Trial {
    /// Parses a graph and prepares samples: the given inputs, if any, then generated ones.
    ///
    /// # Errors
    /// The text is not a valid graph, a file cannot be read, or options do not fit the graph.
    pub fn read(args: &JudgeOptions, program: &Program, workspace: &mut Workspace<'_>) -> Result<Trial, Error> {
        let graph = program.graph_to_run(args.torch, workspace)?;
        Trial::of(graph, args, program, workspace)
    }

    /// Prepares samples for a graph that was read from a program.
    ///
    /// # Errors
    /// A file cannot be read, or options do not fit the graph.
    pub fn of(
        graph: Graph,
        args: &JudgeOptions,
        program: &Program,
        workspace: &mut Workspace<'_>,
    ) -> Result<Trial, Error> {
        if args.other_torch.is_some() {
            return refuse(format_args!("{TORCH}: two releases are compared by validation of one file or of two"));
        }
        let recorded = || program.samples(args.torch);
        Trial::with(graph, args, (program, program.contents(args.torch)?), recorded, workspace)
    }

    /// The same with contents that the text of the graph omits; inputs are looked for next to
    /// the file.
    pub(crate) fn with(
        graph: Graph,
        args: &JudgeOptions,
        (program, contents): (&Program, BTreeMap<String, IValue>),
        recorded: impl FnOnce() -> Result<Option<Vec<IValue>>, Error>,
        workspace: &mut Workspace<'_>,
    ) -> Result<Trial, Error> {
        let run = as_run(args);
        let policy = policy(args)?;
        let mut settings = settings(args, workspace)?;
        with_whole_names(&mut settings, &graph);
        settings.content_names = Arc::new(ContentNames::of(&graph, &settings.callees));
        let env = settings.environment(Precision::Typed, &mut Copier::default());
        settings.bindings = bindings(&run, &graph, &env, contents, workspace)?;
        let mut trial = Trial { as_read: graph.clone(), graph, settings, samples: Vec::new(), policy };
        trial.given(&run, program, recorded, workspace)?;
        trial.generated(args, &run, program, workspace)?;
        Ok(trial)
    }

    /// The inputs from files next to the graph, or from flags, or those that an archive records.
    fn given(
        &mut self,
        run: &RunOptions,
        program: &Program,
        recorded: impl FnOnce() -> Result<Option<Vec<IValue>>, Error>,
        workspace: &mut Workspace<'_>,
    ) -> Result<(), Error> {
        let given = Given::read(run, program, workspace)?.or_recorded(run, &self.graph, recorded, workspace)?;
        let env = self.settings.environment(Precision::Typed, &mut Copier::default());
        let inputs = given_values::inputs(run, &self.graph, &given, &env)?;
        if inputs.iter().all(Option::is_some) {
            given_values::warn_of_contradictions(&self.graph, inputs.iter().flatten(), workspace);
            let name = if inputs.is_empty() { "no inputs" } else { "the given inputs" };
            self.samples.push(Sample { name: name.to_owned(), inputs: inputs.into_iter().flatten().collect() });
        } else if run.values.inputs.is_some() {
            given_values::complete(&self.graph, inputs, &given)?;
        }
        Ok(())
    }

    fn generated(
        &mut self,
        args: &JudgeOptions,
        run: &RunOptions,
        program: &Program,
        workspace: &mut Workspace<'_>,
    ) -> Result<(), Error> {
        let given = Given::read(run, program, workspace)?;
        let n = self.graph.params(self.graph.root()).len();
        let shapes = given_values::shapes(run, &self.graph, &self.settings.callees, &vec![None; n])?;
        // Without parameters there is one run, with generated contents.
        let rounds = if n == 0 { args.samples.min(1) } else { args.samples };
        let mut may_vary = true;
        for k in 0..rounds {
            let (name, style) = Style::ALL[k as usize % Style::ALL.len()];
            let env = self.settings.environment(Precision::Typed, &mut Copier::default());
            let hints = given.hints(&self.graph);
            let generator = Generator { seed: args.seed + k, style, shapes: shapes.clone(), hints };
            let inputs = quantized(generator.inputs(&self.graph, &env), &generator.hints);
            // Contents generated for the first sample are kept for all.
            let known = env.bindings.borrow().clone();
            for (name, value) in known {
                if let Entry::Vacant(place) = self.settings.bindings.entry(name) {
                    let name = spelled(place.key());
                    workspace.note(format!("{name} is generated: {}", crate::verdicts::summary(&value)));
                    place.insert(value);
                }
            }
            if k == 0 && (self.samples.is_empty() || !args.shape.is_empty()) {
                given_values::warn_of_contradictions(&self.graph, inputs.iter(), workspace);
            }
            let is_spent = env.search_is_spent.get();
            may_vary &= !is_spent;
            let inputs = self.varied(inputs, k as usize, &mut may_vary);
            if n > 0 {
                self.samples.push(Sample { name: format!("seed {} ({name})", args.seed + k), inputs });
            }
            if is_spent {
                break;
            }
        }
        Ok(())
    }
}

/// Generated integers with the scale and zero point that a description gives for the input.
fn quantized(mut inputs: Vec<IValue>, hints: &BTreeMap<usize, Described>) -> Vec<IValue> {
    for (i, hint) in hints {
        let (Described::Tensor(note), Some(IValue::Tensor(tensor))) = (hint, inputs.get(*i)) else { continue };
        let Some(quantizer) = note.quantizer.clone().filter(|_| tensor.dtype() == note.dtype) else { continue };
        let fits = match &quantizer {
            Quantizer::Tensor { .. } => true,
            Quantizer::Channels { scales, axis, .. } => tensor.shape().get(*axis) == Some(&(scales.len() as i64)),
        };
        if fits {
            inputs[*i] = IValue::Tensor(tensor.integers().quantized(note.dtype, quantizer));
        }
    }
    inputs
}

/// Integers that generated inputs take, sample by sample; they may be trip counts, indices or
/// sizes.
const INTS: &[i64] = &[3, 2, 4, 0, 5, -1, 1];

impl Trial {
    /// The inputs with other integers and bools, as far as the graph still runs on them. A run that
    /// exhausts its budget is the last one.
    fn varied(&self, mut inputs: Vec<IValue>, k: usize, may_vary: &mut bool) -> Vec<IValue> {
        for i in 0..inputs.len() {
            if !*may_vary {
                break;
            }
            let other = match inputs[i] {
                IValue::Int(_) => IValue::Int(INTS[(k + i) % INTS.len()]),
                IValue::Bool(yes) => IValue::Bool(yes ^ ((k >> i) % 2 == 1)),
                _ => continue,
            };
            let before = std::mem::replace(&mut inputs[i], other);
            if let Err(stop) = Outcome::of(&self.graph, &self.settings, &inputs, Precision::Typed).results {
                inputs[i] = before;
                *may_vary = !matches!(stop.reason, Reason::Budget(_));
            }
        }
        inputs
    }
}

/// Refuses a command that the shell cannot start: it would fail on every graph.
///
/// # Errors
/// Names the exit status.
pub(crate) fn refuse_unstartable(command: Option<&str>, graph: &Graph) -> Result<(), Error> {
    match command.and_then(|command| failure(command, graph)) {
        // Exit statuses of shells for a program that is not executable, or missing.
        Some(Failure { message, code: Some(126 | 127) }) => {
            refuse(format_args!("{CHECK}: {message}: it cannot be started"))
        }
        _ => Ok(()),
    }
}

/// The failure of a shell command.
struct Failure {
    message: String,
    /// The exit status, if it ran to its end.
    code: Option<i32>,
}

/// Runs a shell command on a graph; returns its error if it fails.
pub(crate) fn fails_command(command: &str, graph: &Graph) -> Option<String> {
    failure(command, graph).map(|failure| failure.message)
}

fn failure(command: &str, graph: &Graph) -> Option<Failure> {
    use std::io::Write;
    use std::process::{Command, Stdio};
    let child = Command::new("sh")
        .args(["-c", command])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn();
    let not_run = |error| Some(Failure { message: format!("`{command}` cannot be run: {error}"), code: None });
    let mut child = match child {
        Ok(child) => child,
        Err(error) => return not_run(error),
    };
    if let Some(mut stdin) = child.stdin.take() {
        // A command need not read its input.
        let _ = stdin.write_all(&print(graph, PrintOptions::default()));
    }
    match child.wait_with_output() {
        Ok(output) if output.status.success() => None,
        Ok(output) => {
            Some(Failure { message: format!("`{command}` failed with {}", output.status), code: output.status.code() })
        }
        Err(error) => not_run(error),
    }
}
