//! The default command: reads IR, runs passes, prints IR.

use crate::arguments::{Cli, GateArgs, InputArgs, JudgeArgs, PipelineArgs};
use crate::exit::refuse;
use crate::reproducers::{self, Reproducer};
use crate::{World, batch, caching, cmd_validate, exit};
use jitopt_core::analysis::{AliasDb, mutations};
use jitopt_core::codegen::kernel_plan::PlanFile;
use jitopt_core::codegen::{target, whole_graph};
use jitopt_core::interpreter::Release;
use jitopt_core::interpreter::profile::Profile;
use jitopt_core::interpreter::specialization::Detail;
use jitopt_core::ir::Graph;
use jitopt_core::log::{self, tracing};
use jitopt_core::pass::{self, Gate, Observer, Pipeline, RunError, Session, Stage};
use jitopt_core::report::{dot_form::dot, listing::listing, python_form, type_origins::type_origins};
use jitopt_core::runtime::{cuda_libraries::NVRTC_VARIABLE, ptx_compiler::CLANG_VARIABLE, ptx_of_text};
use jitopt_core::text::extract::looks_like_log;
use jitopt_core::text::{ParseOptions, PrintOptions, parse, parse_all_graphs, print, print_with_notes};
use jitopt_core::translation::translate;
use jitopt_core::verify;
use jitopt_engine::archives::Wanted;
use jitopt_engine::judging::{self, Trial, named};
use jitopt_engine::observing::{Changed, Timer, TreeWriter, VerifyEach, Watcher};
use jitopt_engine::{Caching, Callees, Calls, EachPass, Error, GateOptions, Page, Program, Specialization, Workspace};
use jitopt_engine::{archives, load_callees_of, panics, profiles, reporting, warn_of_uncalled};
use jitopt_judge::rewrites::{EachRewrite, Reference};
use jitopt_passes::{REGISTRY, fuser};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::{Arc, Mutex};

/// The validated command line; it is checked before any file is read.
pub(crate) struct Plan {
    pub(crate) pipeline: Pipeline,
    pipeline_text: String,
    parse: ParseOptions,
    /// The parts of archives that are read.
    wanted: Wanted,
    print: PrintOptions,
    gate: Gate,
    callees: Callees,
    specialization: Specialization,
    /// The observed types of the graph.
    profile: Option<Profile>,
    /// Plans of kernels, in place of the usual ones.
    schedules: Option<PlanFile>,
    log: log::Spec,
    caching: Option<Caching>,
    before: Vec<&'static str>,
    after: Vec<&'static str>,
    changed: Option<Changed>,
    colour: bool,
    /// The directory of reproducers of our bugs.
    folder: PathBuf,
    /// NVRTC and clang, where variables name them.
    ptx_compilers: [Option<String>; 2],
}

/// The outcome of one file.
#[derive(Default)]
pub(crate) struct Outcome {
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: Vec<u8>,
    pub(crate) code: i32,
    /// Number of graphs of the file that were started.
    pub(crate) graphs: usize,
    /// Debug counters that no graph of the file queried; `None` if no pipeline ran.
    pub(crate) unused_gates: Option<BTreeSet<String>>,
    /// Rules that rewrites of the file queried.
    pub(crate) queried: BTreeSet<String>,
    /// The calls of its graphs; `None` if no pipeline ran.
    pub(crate) calls: Option<Calls>,
}

impl Outcome {
    pub(crate) fn say(&mut self, text: &str) {
        self.stderr.extend(text.as_bytes());
        if !text.ends_with('\n') {
            self.stderr.push(b'\n');
        }
    }

    /// Reports a failure. The first failure decides the exit code, as it is the first one in the
    /// output.
    fn fail(&mut self, code: i32, text: &str) {
        self.say(text);
        if self.code == exit::YES {
            self.code = code;
        }
    }
}

pub(crate) fn run(cli: &Cli, world: &mut World<'_>) -> i32 {
    if let Some(format) = &cli.pipeline.list_passes {
        world.print(list_passes(format).as_bytes());
        return exit::YES;
    }
    let plan = match Plan::new(cli, world) {
        Ok(plan) => plan,
        Err(error) => return exit::failed(&error, world),
    };
    if cli.pipeline.print_pipeline {
        world.say(&plan.pipeline.to_string());
        if cli.files.is_empty() && nothing_to_read(world) {
            return exit::YES;
        }
    }
    let mut calls = None;
    let code = batch::run(cli, world, &mut calls, |name, text| one_file(cli, &plan, name, text));
    for warning in plan.caching.iter().flat_map(Caching::warnings) {
        world.say(&warning);
    }
    if let Some(calls) = calls {
        warn_of_uncalled(&plan.callees, calls, &mut world.workspace());
    }
    code
}

/// Whether standard input holds nothing; what it holds is still there to be read.
fn nothing_to_read(world: &mut World<'_>) -> bool {
    let mut bytes = Vec::new();
    let read = world.stdin.read_to_end(&mut bytes);
    let nothing = read.is_ok() && bytes.iter().all(u8::is_ascii_whitespace);
    world.stdin = Box::new(io::Cursor::new(bytes));
    nothing
}

impl Plan {
    fn new(cli: &Cli, world: &mut World<'_>) -> Result<Plan, Error> {
        let pipeline_text = pipeline_text(cli, world)?;
        let pipeline = judging::pipeline(&pipeline_text, &mut world.workspace())?;
        refuse_nonsense(cli)?;
        if pipeline.stages().is_empty() && (cli.pipeline.passes.is_some() || cli.pipeline.passes_file.is_some()) {
            world.say("warning: the pipeline is empty, so no pass runs");
        } else if let Some(flag) = shown_of_passes(cli).filter(|_| pipeline.stages().is_empty()) {
            world.say(&format!("warning: {flag}: no pass runs, so it shows nothing; add --passes"));
        }
        let log = log_spec(cli, world)?;
        let parse = ParseOptions { release: cli.input.torch };
        let InputArgs { callee, no_verify, .. } = &cli.input;
        let callees = load_callees_of(callee, &pipeline, *no_verify, parse, &mut world.workspace())?;
        let specialization = specialization(&cli.input, world)?;
        let is_of_gradients =
            |stage: &&Stage| ["differentiate", "create-autodiff-subgraphs"].contains(&stage.pass.name);
        if let Some(file) = specialization.without_gradients().filter(|_| pipeline.stages().iter().any(is_of_gradients))
        {
            world.say(&format!("note: no input in `{file}` has `\"requires_grad\": true`, so there are no gradients"));
        }
        Ok(Plan {
            gate: judging::gate(&gate_options(&cli.pipeline), &pipeline)?,
            before: named(&cli.watch.print_before, "--print-before", &pipeline)?,
            after: named(&cli.watch.print_after, "--print-after", &pipeline)?,
            changed: changed(cli.watch.print_changed.as_deref()),
            colour: world.colour,
            folder: world.path(Path::new(".")),
            ptx_compilers: [NVRTC_VARIABLE, CLANG_VARIABLE]
                .map(|name| world.env.get(name).filter(|value| !value.is_empty()).cloned()),
            print: PrintOptions {
                canonical: cli.output.canonical,
                type_verbosity: type_verbosity(cli, world)?,
                no_comments: false,
            },
            wanted: Wanted {
                choice: world.chosen.clone(),
                inline: cli.input.archive.inline,
                runs: false,
                release: cli.input.torch,
            },
            caching: caching::requested(cli, &pipeline, &log, &callees, world)?,
            callees,
            specialization,
            profile: profile(cli, &pipeline, world)?,
            schedules: schedules(cli, world)?,
            log,
            pipeline,
            pipeline_text,
            parse,
        })
    }

    fn watcher(&self, cli: &Cli) -> Watcher {
        Watcher {
            before: self.before.clone(),
            after: self.after.clone(),
            after_all: cli.watch.print_after_all,
            changed: self.changed,
            filter: cli.watch.filter_print.clone(),
            options: self.print,
            colour: self.colour,
            ..Watcher::default()
        }
    }

    pub(crate) fn session(&self, cli: &Cli) -> Session {
        Session {
            collects_remarks: cli.watch.remarks.is_some() || cli.watch.report.is_some(),
            gate: self.gate.clone(),
            callees: self.callees.clone(),
            profile: self.profile.clone().map(Rc::new),
            ..Session::default()
        }
    }
}

fn gate_options(args: &PipelineArgs) -> GateOptions {
    GateOptions { debug_counter: args.debug_counter.clone(), disable: args.disable.clone() }
}

fn specialization(args: &InputArgs, world: &mut World<'_>) -> Result<Specialization, Error> {
    let detail = if args.specialize == "sizes" { Detail::Sizes } else { Detail::Rank };
    Specialization::read(args.args.as_deref(), &args.shape, detail, &world.workspace())
}

/// The plans of `--plan`.
fn schedules(cli: &Cli, world: &World<'_>) -> Result<Option<PlanFile>, Error> {
    let Some(path) = &cli.output.plan else { return Ok(None) };
    if !["c", "nest", "plan"].contains(&cli.output.emit.as_str()) {
        return refuse("--plan: it schedules kernels; add --emit=nest, or `run --backend=cpu`");
    }
    let text = std::fs::read_to_string(world.path(path))
        .or_else(|error| refuse(format_args!("--plan: cannot read `{}`: {error}", path.display())))?;
    PlanFile::parse(&text).map(Some).or_else(|why| refuse(format_args!("--plan: {}: {why}", path.display())))
}

/// The profile of `--profile`, if a pass reads it.
fn profile(cli: &Cli, pipeline: &Pipeline, world: &mut World<'_>) -> Result<Option<Profile>, Error> {
    let is_one = cli.files.len() <= 1 && !cli.input.split_input_file;
    let profile = profiles::requested(cli.pipeline.seen.profile.as_deref(), &[pipeline], is_one, &world.workspace())?;
    if profile.is_some() && cli.pipeline.transform_cache.is_some() {
        return refuse("--profile: cached results do not depend on profiles; remove --transform-cache");
    }
    Ok(profile)
}

fn pipeline_text(cli: &Cli, world: &World<'_>) -> Result<String, Error> {
    let given = match (&cli.pipeline.passes, &cli.pipeline.passes_file) {
        (Some(text), _) => text.clone(),
        (None, Some(file)) => std::fs::read_to_string(world.path(file))
            .or_else(|error| refuse(format_args!("cannot read `{}`: {error}", file.display())))?,
        (None, None) => String::new(),
    };
    let parts = cli.input.archive.freeze.then(|| "@freeze".to_owned()).into_iter().chain([given]);
    Ok(parts.filter(|part| !part.is_empty()).collect::<Vec<_>>().join(","))
}

/// Refuses combinations of flags that have no effect or contradict each other.
fn refuse_nonsense(cli: &Cli) -> Result<(), Error> {
    let watch = &cli.watch;
    let prints = !watch.print_before.is_empty()
        || !watch.print_after.is_empty()
        || watch.print_after_all
        || watch.print_changed.is_some();
    if watch.filter_print.is_some() && !prints {
        return refuse(
            "--filter-print: nothing is printed; add --print-before, --print-after, --print-after-all or --print-changed",
        );
    }
    if cli.pipeline.validate.is_some() && cli.pipeline.passes.is_none() && cli.pipeline.passes_file.is_none() {
        return refuse("--validate: no pass runs, so there is nothing to compare; add --passes");
    }
    if cli.output.print_mutations && cli.output.emit != "ir" {
        return refuse(format_args!("--print-mutations: only IR has comments; remove --emit={}", cli.output.emit));
    }
    if watch.report.is_some() && (cli.files.len() > 1 || cli.input.split_input_file) {
        return refuse("--report: a report shows one graph, but several files are given");
    }
    if cli.output.canonical && cli.output.print_alias {
        return refuse("--canonical: --print-alias does not print a graph");
    }
    if cli.output.emit != "ir" && (cli.output.canonical || cli.output.print_alias || cli.output.verify_roundtrip) {
        return refuse(format_args!(
            "--emit={}: prints no IR; remove --canonical, --print-alias and --verify-roundtrip",
            cli.output.emit
        ));
    }
    if cli.files.iter().filter(|path| path.as_os_str() == "-").count() > 1 {
        return refuse("`-` is given twice, but standard input can be read only once");
    }
    Ok(())
}

/// A given flag that shows what passes do.
fn shown_of_passes(cli: &Cli) -> Option<&'static str> {
    let watch = &cli.watch;
    let flags = [
        ("--print-before", !watch.print_before.is_empty()),
        ("--print-after", !watch.print_after.is_empty()),
        ("--print-after-all", watch.print_after_all),
        ("--print-changed", watch.print_changed.is_some()),
        ("--remarks", watch.remarks.is_some()),
        ("--stats", watch.stats.is_some()),
        ("--time-passes", watch.time_passes.is_some()),
        ("--report", watch.report.is_some()),
    ];
    flags.into_iter().find_map(|(flag, is_given)| is_given.then_some(flag))
}

fn changed(how: Option<&str>) -> Option<Changed> {
    how.map(|how| match how {
        "diff" => Changed::Diff,
        "word" => Changed::Word,
        _ => Changed::Full,
    })
}

/// The flag, or one of the two variables; PyTorch accepts any integer and crashes on anything else.
/// A variable that is set but empty counts as unset, as with log levels.
fn type_verbosity(cli: &Cli, world: &mut World<'_>) -> Result<Option<u8>, Error> {
    if cli.output.type_verbosity.is_some() {
        return Ok(cli.output.type_verbosity);
    }
    let variables = ["JIT_TYPE_VERBOSITY", "PYTORCH_JIT_TYPE_VERBOSITY"];
    let Some((name, text)) = variables.iter().find_map(|name| Some((name, world.env.get(*name)?.clone()))) else {
        return Ok(None);
    };
    if text.is_empty() {
        world.say(&format!("warning: {name} is set but empty"));
        return Ok(None);
    }
    match text.parse::<i64>() {
        Ok(n) => Ok(Some(n.clamp(0, 4) as u8)),
        Err(_) => refuse(format_args!("{name}=`{text}` is not a number from 0 (no types) to 4 (symbolic sizes)")),
    }
}

fn log_spec(cli: &Cli, world: &mut World<'_>) -> Result<log::Spec, Error> {
    let variable = |name: &str| world.env.get(name).cloned();
    let resolved = REGISTRY.with_log_names(|known| log::resolve_spec(cli.watch.log.as_deref(), variable, known));
    match resolved {
        Ok((spec, warnings)) => {
            for warning in warnings {
                world.say(&format!("warning: {warning}"));
            }
            Ok(spec)
        }
        Err(error) => refuse(error),
    }
}

/// Processes one file. Panics are caught here, so that other files are still processed.
fn one_file(cli: &Cli, plan: &Plan, name: &str, text: &[u8]) -> Outcome {
    let log = Arc::new(Mutex::new(Vec::new()));
    let sink = log.clone();
    let work = || panics::guard(|| graphs_of_file(cli, plan, name, text));
    let result = if plan.log.is_empty() {
        work()
    } else {
        let write = move |line: &str| sink.lock().expect("the log is only appended to").extend(line.as_bytes());
        tracing::subscriber::with_default(log::subscriber(plan.log.clone(), write), work)
    };
    let mut outcome = match result {
        Ok(outcome) => outcome,
        Err(message) => broken(plan, name, text, &message),
    };
    let logged = std::mem::take(&mut *log.lock().expect("the log is only appended to"));
    outcome.stderr.splice(0..0, logged);
    outcome
}

fn broken(plan: &Plan, name: &str, text: &[u8], message: &str) -> Outcome {
    let mut outcome = Outcome::default();
    outcome.fail(exit::BUG, &format!("error: {name}: a bug in jitopt: {message}"));
    let flags =
        if plan.pipeline_text.is_empty() { String::new() } else { format!("--passes='{}'", plan.pipeline_text) };
    if let Some(path) = reproducers::of_panic(&plan.folder, &flags, text) {
        outcome.say(&format!("  a reproducer is in `{}`; please report it", path.display()));
    }
    outcome
}

fn graphs_of_file(cli: &Cli, plan: &Plan, name: &str, text: &[u8]) -> Outcome {
    let mut outcome = Outcome::default();
    if cli.input.archive.list {
        return listed(plan, name, text);
    }
    // Only these pipelines read the weights: others show the graph as PyTorch has it.
    let graph = match cli.input.archive.freeze || plan.pipeline_text.contains("@inference") {
        true => archives::graph_with_weights(name, text, &plan.wanted),
        false => archives::graph(name, text, &plan.wanted),
    };
    if let Some(graph) = graph {
        match graph {
            Ok(graph) => one_graph(cli, plan, (name, text), graph, &mut outcome),
            Err(error) => outcome.fail(exit::of_kind(error.kind), error.message.trim_end()),
        }
        return outcome;
    }
    let parsed = match cli.input.split_input_file {
        true => parse_all_graphs(text, plan.parse),
        false => parse(text, plan.parse).map(|parsed| vec![parsed]),
    };
    let parsed = match parsed {
        Ok(parsed) => parsed,
        Err(diagnostics) => {
            outcome.fail(exit::PARSE, &reporting::render(name, text, &diagnostics, plan.colour));
            if let Some(kind) = looks_like_log(text) {
                outcome.say(&format!("  {kind}"));
            }
            return outcome;
        }
    };
    for parsed in parsed {
        let warnings = reporting::render(name, text, &parsed.warnings, plan.colour);
        outcome.stderr.extend(warnings.as_bytes());
        one_graph(cli, plan, (name, text), parsed.graph, &mut outcome);
    }
    outcome
}

/// `--list`: the methods of an archive. Of a file `bytes` are the first few.
fn listed(plan: &Plan, name: &str, bytes: &[u8]) -> Outcome {
    let mut outcome = Outcome::default();
    let methods = match name {
        batch::STDIN => archives::methods_of(name, bytes),
        _ => archives::methods_in(name, &plan.folder.join(name)),
    };
    match methods {
        Some(Ok(text)) => outcome.stdout.extend(text.as_bytes()),
        Some(Err(error)) => outcome.fail(exit::of_kind(error.kind), error.message.trim_end()),
        None => outcome.fail(exit::USAGE, &format!("error: --list: {name} is no archive")),
    }
    outcome
}

/// A graph of a file: its name, and its text or the bytes of an archive.
fn one_graph(cli: &Cli, plan: &Plan, file: (&str, &[u8]), mut graph: Graph, outcome: &mut Outcome) {
    let name = file.0;
    outcome.graphs += 1;
    if !cli.input.no_verify && !verified(name, &graph, is_before_ssa_legal(cli, plan), outcome) {
        return;
    }
    if cli.input.no_verify && !is_only_printed(cli, plan) && !structured(name, &graph, outcome) {
        return;
    }
    if let Err(why) = plan.specialization.apply(&mut graph) {
        return outcome.fail(exit::USAGE, &format!("error: {why}"));
    }
    if !plan.callees.is_empty() {
        outcome.calls.get_or_insert_default().add(&graph);
    }
    if !transform(cli, plan, file, &mut graph, outcome) {
        return;
    }
    if cli.output.print_as.is_some_and(|to| !translated(name, &mut graph, to, outcome)) {
        return;
    }
    let is_ir = cli.output.emit == "ir" && !cli.output.print_alias;
    let printed = match cli.output.emit.as_str() {
        _ if cli.output.print_alias => AliasDb::new(&graph).dump(&graph).into_bytes(),
        "code" => listing(&graph).into_bytes(),
        "dot" => dot(&graph).into_bytes(),
        "types" => type_origins(&graph).into_bytes(),
        "fusion-candidates" => format!("{:#}\n", fuser::candidates(&graph)).into_bytes(),
        form @ ("c" | "nest" | "plan" | "cuda" | "cuda-nest" | "cuda-plan") => {
            let text = of_kernels(name, &graph, (form, plan.schedules.as_ref()), outcome);
            match text {
                Some(text) => text.into_bytes(),
                None => return,
            }
        }
        "ptx" => match ptx(name, &graph, plan, outcome) {
            Some(text) => text.into_bytes(),
            None => return,
        },
        "python" => match source(name, &graph, outcome) {
            Some(text) => text.into_bytes(),
            None => return,
        },
        _ if cli.output.print_mutations => print_with_notes(&graph, plan.print, mutations::notes(&graph)),
        _ => print(&graph, plan.print),
    };
    if cli.output.verify_roundtrip && is_ir {
        round_trip(name, plan, (&graph, &printed), outcome);
    }
    outcome.stdout.extend(printed);
}

/// A text about the kernels of a graph, under the plans of a file if there is one; `None` if it has
/// an illegal one. Warns of groups without a kernel.
fn of_kernels(
    name: &str,
    graph: &Graph,
    (form, plans): (&str, Option<&PlanFile>),
    outcome: &mut Outcome,
) -> Option<String> {
    let unit = target::form(form).map(|form| whole_graph::text(graph, None, form, plans)).unwrap_or_default();
    if let Some(why) = unit.wrong.first() {
        outcome.fail(exit::USAGE, &format!("error: --plan: {why}"));
        return None;
    }
    for (group, why) in &unit.refused {
        outcome.say(&format!("warning: {name}: {group} has no kernel: {why}"));
    }
    if unit.groups == 0 {
        outcome.say(&format!("warning: {name}: there are no fusion groups, so there are no kernels"));
    }
    Some(unit.text)
}

/// The PTX of the kernels of a graph; `None` if there is none.
fn ptx(name: &str, graph: &Graph, plan: &Plan, outcome: &mut Outcome) -> Option<String> {
    let text = of_kernels(name, graph, ("cuda", None), outcome)?;
    let made = ptx_of_text(&text, plan.ptx_compilers[0].as_deref(), plan.ptx_compilers[1].as_deref());
    made.map_err(|why| outcome.fail(exit::NO, &format!("error: {name}: --emit=ptx: {why}"))).ok()
}

/// A graph as TorchScript source; `None` if Python cannot express it.
fn source(name: &str, graph: &Graph, outcome: &mut Outcome) -> Option<String> {
    let code = python_form::code(graph);
    if !code.report.is_clean() {
        outcome.say(&format!("{name}:\n{}", verify::render(graph, &code.report)));
    }
    if code.report.has_errors() {
        outcome.fail(exit::NO, &format!("error: {name}: this graph cannot be expressed in Python"));
        return None;
    }
    Some(code.text)
}

/// Reports the findings of the verifier; false if the graph has errors.
fn verified(name: &str, graph: &Graph, before_ssa: bool, outcome: &mut Outcome) -> bool {
    let report = verify::verify(graph);
    let report = if before_ssa { report.before_ssa() } else { report };
    if !report.findings.is_empty() {
        outcome.say(&format!("{name}:\n{}", verify::render(graph, &report)));
    }
    if report.has_errors() {
        outcome.fail(exit::VERIFY, "  use `--no-verify` to print the graph regardless\n");
    }
    !report.has_errors()
}

/// Whether Loops may have their conditions in second blocks.
fn is_before_ssa_legal(cli: &Cli, plan: &Plan) -> bool {
    plan.pipeline.begins_with_ssa() || is_only_printed(cli, plan)
}

/// Whether a graph is only parsed and printed, which works even for graphs with errors.
fn is_only_printed(cli: &Cli, plan: &Plan) -> bool {
    let InputArgs { args, shape, .. } = &cli.input;
    let is_ir = cli.output.emit == "ir"
        && !cli.output.print_alias
        && !cli.output.print_mutations
        && cli.output.print_as.is_none();
    let is_as_read = args.is_none() && shape.is_empty() && plan.pipeline.stages().is_empty();
    is_ir && is_as_read && cli.pipeline.validate.is_none()
}

/// Reports structural errors, with which only printing is possible; false if there are some.
fn structured(name: &str, graph: &Graph, outcome: &mut Outcome) -> bool {
    let report = verify::verify_structure_only(graph);
    if report.has_errors() {
        let shown = verify::render(graph, &report);
        let help = "  with `--no-verify` it can only be printed";
        outcome.fail(exit::VERIFY, &format!("error: {name} has structural errors:\n{shown}{help}\n"));
    }
    !report.has_errors()
}

/// Translates a graph to the dialect of another PyTorch release; false if that is impossible.
fn translated(name: &str, graph: &mut Graph, to: Release, outcome: &mut Outcome) -> bool {
    let before = graph.clone();
    let report = translate(graph, to);
    if !report.is_clean() {
        outcome.say(&format!("{name}:\n{}", verify::render(&before, &report)));
    }
    if report.has_errors() {
        outcome.fail(exit::NO, &format!("error: {name}: PyTorch {to} cannot express this graph"));
    }
    !report.has_errors()
}

/// Transforms a graph through the cache; false if the graph must not be printed.
fn transform_cached(
    cli: &Cli,
    plan: &Plan,
    caching: &Caching,
    name: &str,
    graph: &mut Graph,
    outcome: &mut Outcome,
) -> bool {
    let (mut session, result) = caching::transform(caching, cli, plan, name, graph, outcome);
    // Cached results have no notes, and hits and misses must print the same.
    session.notes.clear();
    let ended = result.map_err(|error| stopped(name, &error, outcome)).is_ok();
    summaries(cli, &session, &Timer::default(), outcome);
    ended
}

/// Runs the pipeline on a graph, with its observers; false if the graph must not be printed.
fn transform(cli: &Cli, plan: &Plan, file: (&str, &[u8]), graph: &mut Graph, outcome: &mut Outcome) -> bool {
    let name = file.0;
    if let Some(caching) = &plan.caching {
        return transform_cached(cli, plan, caching, name, graph, outcome);
    }
    let mut session = plan.session(cli);
    let (mut watcher, mut timer, mut verifier) = (plan.watcher(cli), Timer::default(), VerifyEach);
    let mut observers: Vec<&mut dyn Observer> = Vec::new();
    if !watcher.is_idle() {
        observers.push(&mut watcher);
    }
    let folder = cli.watch.print_tree_dir.as_ref().map(|dir| plan.folder.join(dir));
    let mut tree = folder.map(|dir| TreeWriter::new(&dir, name, outcome.graphs, plan.print));
    observers.extend(tree.as_mut().map(|tree| tree as &mut dyn Observer));
    let mut page = cli.watch.report.as_ref().map(|_| Page::new(plan.print));
    observers.extend(page.as_mut().map(|page| page as &mut dyn Observer));
    if cli.watch.time_passes.is_some() {
        observers.push(&mut timer);
    }
    if !cli.pipeline.no_verify_each && !cli.input.no_verify {
        observers.push(&mut verifier);
    }
    let judge = match Validation::of(cli, plan, file, graph, outcome) {
        Ok(judge) => judge,
        Err(error) => {
            outcome.fail(exit::of_kind(error.kind), &exit::text(&error));
            return false;
        }
    };
    let mut each_pass = judge.as_ref().map(|judge| EachPass(judge.reference.clone()));
    match (cli.pipeline.validate.as_deref(), &judge) {
        (Some("pass"), _) => observers.extend(each_pass.as_mut().map(|each| each as &mut dyn Observer)),
        (Some("rewrite"), Some(judge)) => session.watch = Some(Box::new(EachRewrite(judge.reference.clone()))),
        _ => {}
    }
    let result = pass::run(graph, &plan.pipeline, &mut session, &mut observers);
    outcome.stderr.append(&mut watcher.out);
    if let Some(page) = page
        && !report(cli, plan, &page.html(name, &plan.pipeline_text, graph, &session), outcome)
    {
        return false;
    }
    let is_right = match result {
        Ok(()) => {
            note_unused_gates(&session, outcome);
            judge.is_none_or(|judge| judge.at_the_end(cli, name, graph, outcome))
        }
        Err(RunError::Stopped(why)) => {
            outcome.fail(exit::MISMATCH, &format!("error: {name}: {why}"));
            judge.iter().for_each(|judge| judge.reproduce(cli, &why, outcome));
            false
        }
        Err(error) => stopped(name, &error, outcome),
    };
    // Tables follow an error, which would be hard to find before them.
    summaries(cli, &session, &timer, outcome);
    is_right
}

/// Writes the page of `--report`; false if that fails.
fn report(cli: &Cli, plan: &Plan, html: &str, outcome: &mut Outcome) -> bool {
    let Some(path) = &cli.watch.report else { return true };
    let written = std::fs::write(plan.folder.join(path), html);
    if let Err(error) = &written {
        outcome.fail(exit::USAGE, &format!("error: --report: cannot write `{}`: {error}", path.display()));
    }
    written.is_ok()
}

/// Reports why a pipeline stopped; the graph must not be printed.
fn stopped(name: &str, error: &RunError, outcome: &mut Outcome) -> bool {
    outcome.fail(exit::of(error), &format!("error: {name}: {error}"));
    false
}

/// The original graph and its results.
struct Validation {
    reference: Rc<Reference>,
    folder: PathBuf,
    passes: String,
    args: JudgeArgs,
}

impl Validation {
    /// Runs the graph on the inputs from its file or a file next to it, and on generated ones;
    /// `None` if validation is not requested.
    fn of(
        cli: &Cli,
        plan: &Plan,
        (name, text): (&str, &[u8]),
        graph: &Graph,
        outcome: &mut Outcome,
    ) -> Result<Option<Validation>, Error> {
        if cli.pipeline.validate.is_none() {
            return Ok(None);
        }
        let folder = plan.folder.clone();
        let args = JudgeArgs {
            samples: JudgeArgs::SAMPLES,
            seed: JudgeArgs::SEED,
            // No flag sets it here, and users accept less delay for passes than for `validate`.
            max_steps: JudgeArgs::MAX_STEPS / 20,
            torch: cli.input.torch.map(Into::into),
            no_verify: cli.input.no_verify,
            callee: cli.input.callee.clone(),
            seen: cli.pipeline.seen.clone(),
            ..JudgeArgs::default()
        };
        let path = if name == "<stdin>" { "-" } else { name };
        let env = BTreeMap::new();
        let mut workspace = Workspace::new(&folder, &env, |note| outcome.say(&note.to_string()));
        // The weights of an archive come with its graph.
        let program = Program::new(Path::new(path), text.to_vec(), plan.wanted.choice.clone());
        let trial = Trial::of(graph.clone(), &args.options(), &program, &mut workspace)?;
        drop(workspace);
        let reference = Reference::new(&trial.graph, trial.settings, trial.policy, trial.samples);
        let at_the_end = cli.pipeline.validate.as_deref() == Some("end");
        let reference = Rc::new(if at_the_end { reference } else { reference.recalling() });
        Ok(Some(Validation { reference, folder, passes: plan.pipeline_text.clone(), args }))
    }

    /// Compares the results; false if the graph must not be printed.
    fn at_the_end(&self, cli: &Cli, name: &str, graph: &Graph, outcome: &mut Outcome) -> bool {
        match self.reference.check(graph) {
            Ok(tally) => {
                let (text, note, compared) = cmd_validate::meaning(&tally);
                note.iter().for_each(|note| outcome.say(note));
                if !compared {
                    outcome.fail(cmd_validate::uncompared(&tally), &text);
                }
                compared
            }
            Err(finding) => {
                outcome.fail(exit::MISMATCH, &format!("error: {name} is wrong after the passes\n{finding}"));
                self.reproduce(cli, &finding.to_string(), outcome);
                false
            }
        }
    }

    fn reproduce(&self, cli: &Cli, note: &str, outcome: &mut Outcome) {
        let (Some(dir), Some(sample)) = (&cli.pipeline.repro_dir, self.reference.failed()) else { return };
        let PipelineArgs { debug_counter, disable, .. } = &cli.pipeline;
        let gates = reproducers::gates(&GateArgs { debug_counter: debug_counter.clone(), disable: disable.clone() });
        let reproducer = Reproducer {
            command: format!("jitopt validate %s --passes='{}'{gates} --samples 0", self.passes),
            profile: self.args.seen.profile.as_deref(),
            piped: reproducers::SAME.to_owned(),
            note,
            graph: self.reference.graph(),
            inputs: &sample.inputs,
            contents: &self.reference.settings().bindings,
            names: &self.reference.settings().content_names,
            judge: &self.args,
        };
        match reproducer.write_into(&self.folder.join(dir), "wrong", &self.folder) {
            Ok(path) => outcome.say(&format!("  a reproducer is in `{}`", path.display())),
            Err(error) => outcome.say(&format!("warning: cannot write to `{}`: {error}", dir.display())),
        }
    }
}

/// Records debug counters that no graph queried so far: those would be silent no-ops.
fn note_unused_gates(session: &Session, outcome: &mut Outcome) {
    let unused: BTreeSet<String> = session.gate.unused().map(str::to_owned).collect();
    outcome.queried.extend(session.stats.keys().cloned());
    outcome.unused_gates = Some(match outcome.unused_gates.take() {
        None => unused,
        Some(before) => before.intersection(&unused).cloned().collect(),
    });
}

fn summaries(cli: &Cli, session: &Session, timer: &Timer, outcome: &mut Outcome) {
    for note in &session.notes {
        outcome.say(&format!("note: {note}"));
    }
    if let Some(format) = &cli.watch.remarks {
        for remark in &session.remarks {
            outcome.say(&if format == "json" { remark_json(remark) } else { remark.to_string() });
        }
    }
    if let Some(format) = &cli.watch.stats {
        let sorted: BTreeMap<&str, u64> = session.stats.iter().map(|(name, n)| (name.as_str(), *n)).collect();
        let table = || sorted.iter().map(|(name, n)| format!("{n:>10} {name}\n")).collect::<String>();
        let text = if format == "json" { serde_json::json!(sorted).to_string() } else { table() };
        if !text.is_empty() {
            outcome.say(&text);
        }
    }
    if let Some(format) = &cli.watch.time_passes {
        outcome.say(&timer.render(format));
    }
}

fn remark_json(remark: &pass::Remark) -> String {
    serde_json::json!({
        "kind": remark.kind.name(), "pass": remark.pass, "rule": remark.rule, "node": remark.node,
        "location": remark.location, "message": remark.message,
    })
    .to_string()
}

fn round_trip(name: &str, plan: &Plan, (graph, printed): (&Graph, &[u8]), outcome: &mut Outcome) {
    let again = parse(printed, plan.parse).map(|parsed| print(&parsed.graph, plan.print));
    if again.as_deref() != Ok(&print(graph, plan.print)) {
        outcome.fail(exit::BUG, &format!("error: {name}: the printed graph does not parse back to the same text"));
    }
}

fn list_passes(format: &str) -> String {
    match format {
        "json" => {
            let option =
                |o: &pass::PassOption| serde_json::json!({"name": o.name, "default": o.default, "summary": o.summary});
            let row = |p: &pass::PassInfo| {
                serde_json::json!({
                    "name": p.name, "file": p.file, "aliases": p.names().skip(1).collect::<Vec<_>>(), "summary": p.summary,
                    "example": p.example, "required": p.required, "options": p.options.iter().map(option).collect::<Vec<_>>(),
                })
            };
            let named = REGISTRY
                .pipelines
                .iter()
                .map(|n| serde_json::json!({"name": n.name, "summary": n.summary, "passes": n.text}));
            let passes: Vec<_> = REGISTRY.passes.iter().map(row).collect();
            serde_json::json!({"version": 1, "passes": passes, "pipelines": named.collect::<Vec<_>>()}).to_string()
                + "\n"
        }
        "markdown" => {
            let row = |p: &pass::PassInfo| format!("| `{}` | {} | `{}` |\n", p.name, p.summary, p.file);
            format!(
                "| pass | what it does | file |\n|---|---|---|\n{}",
                REGISTRY.passes.iter().map(row).collect::<String>()
            )
        }
        _ => {
            let passes: String = REGISTRY.passes.iter().map(describe).collect();
            let named = REGISTRY.pipelines.iter();
            let named: String = named.map(|n| format!("@{}\n    {}\n    {}\n", n.name, n.summary, n.text)).collect();
            format!("{passes}\nPipelines:\n{named}")
        }
    }
}

pub(crate) fn describe(pass: &pass::PassInfo) -> String {
    let aliases: Vec<&str> = pass.names().skip(1).filter(|name| name.replace('_', "-") != pass.name).collect();
    let also = if aliases.is_empty() { String::new() } else { format!(" (also {})", aliases.join(", ")) };
    let options = pass.options.iter();
    let options: String = options.map(|o| format!("    {{{}={}}}  {}\n", o.name, o.default, o.summary)).collect();
    let example = pass.example.replacen("  =>  ", "\n        =>  ", 1);
    format!("{}{also}\n    {}\n{options}            {example}\n", pass.name, pass.summary)
}
