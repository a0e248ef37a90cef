//! `jitopt run`: runs a graph on given or generated values.

use crate::arguments::RunArgs;
use crate::bindings::bindings;
use crate::callees::{self, Calls};
use crate::cmd_profile;
use crate::given_values::{self, Given};
use crate::gradient_run::{nested_in, num_leaves};
use crate::judging;
use crate::named_values::Except;
use crate::observing::VerifyEach;
use crate::onlooker::Onlooker;
use crate::optimise::{Refusal, refuse, warn_of_uncalled};
use crate::verdicts::{self, Expectations};
use crate::{World, batch, exit, gradient_run, kernel_table, panics, processor, reporting, several};
use jitopt_core::interpreter::content_names::ContentNames;
use jitopt_core::interpreter::description::{Described, describe};
use jitopt_core::interpreter::files::{Tensors, write_npz, write_safetensors};
use jitopt_core::interpreter::generator::{Generator, Style};
use jitopt_core::interpreter::literal_values::spelled;
use jitopt_core::interpreter::profile::Profile;
use jitopt_core::interpreter::{Environment, IValue, Machine, Reason, Stop};
use jitopt_core::ir::Graph;
use jitopt_core::pass::{self, Pipeline, Session};
use jitopt_core::runtime::CpuBackend;
use jitopt_core::tensor::Precision;
use jitopt_core::text::extract::looks_like_log;
use jitopt_core::text::{ParseOptions, parse};
use jitopt_core::types::{Type, TypeKind};
use jitopt_core::verify;
use jitopt_passes::differentiate::function_graph;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::{Duration, Instant};

pub(crate) fn run(args: &RunArgs, world: &mut World<'_>) -> i32 {
    if args.checks.coverage || args.files.len() < 2 && args.output_dir.is_none() {
        return run_alone(args, world);
    }
    match refuse_shared_files(args) {
        Ok(()) if args.files.len() == 1 => run_alone(&alone(args, &args.files[0]), world),
        Ok(()) => several::each(&args.files, args.jobs, world, |file, world| run_alone(&alone(args, file), world)),
        Err((code, message)) => {
            world.say(&message);
            code
        }
    }
}

/// The arguments for one of several graphs.
fn alone(args: &RunArgs, file: &Path) -> RunArgs {
    let mut alone = RunArgs { files: vec![file.to_owned()], output_dir: None, ..args.clone() };
    let name = file.file_stem().unwrap_or_default().to_string_lossy();
    let outputs = args.output_dir.as_ref().map(|folder| folder.join(format!("{name}.outputs.safetensors")));
    alone.values.outputs = outputs.or(alone.values.outputs);
    alone
}

/// Refuses flags that would make several graphs write to one file, or read what belongs to one.
fn refuse_shared_files(args: &RunArgs) -> Result<(), Refusal> {
    if args.files.is_empty() {
        return refuse("--output-dir: give the graphs as files");
    }
    if args.files.len() < 2 {
        return Ok(());
    }
    let values = &args.values;
    let grads = values.grads.as_ref().filter(|path| path.as_os_str() != "-");
    let flags = [
        ("--outputs", values.outputs.is_some()),
        ("--grads", grads.is_some()),
        ("--inputs", values.inputs.is_some()),
        ("--args", values.args.is_some()),
        ("--expect", !args.checks.expect.is_empty()),
        ("--expect-grads", !args.checks.expect_grads.is_empty()),
    ];
    match flags.iter().find(|(_, given)| *given) {
        Some((flag, _)) => refuse(format_args!(
            "{flag} names a file for one graph, and {} graphs are given\n  help: files next to each graph are \
             found by their names (`NAME.json`, `NAME.inputs.safetensors`); `--output-dir` writes a file for each",
            args.files.len()
        )),
        None => Ok(()),
    }
}

fn run_alone(args: &RunArgs, world: &mut World<'_>) -> i32 {
    let result =
        match panics::guard(|| if args.checks.coverage { kernel_table::run(args, world) } else { one(args, world) }) {
            Ok(result) => result,
            Err(message) => Err((exit::BUG, format!("error: a bug in jitopt: {message}"))),
        };
    result.unwrap_or_else(|(code, message)| {
        world.say(&message);
        code
    })
}

/// Refuses combinations of flags that have no effect or contradict each other.
fn refuse_nonsense(args: &RunArgs) -> Result<(), Refusal> {
    let (values, checks, semantics) = (&args.values, &args.checks, &args.semantics);
    if args.files.len() > 1 {
        return refuse(format_args!("{} graphs are given, but `run` takes one", args.files.len()));
    }
    if !values.shape.is_empty() && values.seed.is_none() && values.fill_unknown.is_none() {
        return refuse("--shape: no input is generated; add --seed or --fill-unknown");
    }
    let ending = |path: &PathBuf| path.extension().is_some_and(|ending| ending == "safetensors" || ending == "npz");
    for (flag, path) in [("--outputs", &values.outputs), ("--grads", &values.grads)] {
        let only_printed = |path: &PathBuf| flag == "--grads" && path.as_os_str() == "-";
        if let Some(path) = path.as_ref().filter(|path| !ending(path) && !only_printed(path)) {
            return refuse(format_args!("{flag} {}: expected FILE.safetensors or FILE.npz", path.display()));
        }
    }
    if checks.timeout.is_some_and(|seconds| Duration::try_from_secs_f64(seconds).is_err()) {
        return refuse("--timeout: expected a non-negative number of seconds");
    }
    if semantics.backend.backend == "cpu" && semantics.f64 {
        return refuse("--f64: compiled kernels do not support it; remove --backend=cpu");
    }
    if semantics.backend.backend == "cpu" && checks.coverage {
        return refuse("--coverage: no kernel runs; remove --backend=cpu");
    }
    processor::refuse_idle(&semantics.backend)?;
    for (name, x) in [("--rtol", checks.rtol), ("--atol", checks.atol)] {
        if x.is_some_and(|x| x.is_nan() || x < 0.0) {
            return refuse(format_args!("{name}: expected a non-negative number"));
        }
        if x.is_some() && checks.expect.is_empty() && checks.expect_grads.is_empty() {
            return refuse(format_args!("{name}: nothing is compared; add --expect"));
        }
    }
    Ok(())
}

fn one(args: &RunArgs, world: &mut World<'_>) -> Result<i32, Refusal> {
    refuse_nonsense(args)?;
    let pipeline = judging::optional_pipeline(args.semantics.passes.as_deref(), world)?;
    let passes: Vec<&Pipeline> = pipeline.iter().collect();
    let profile = cmd_profile::asked_for(&args.semantics.seen, &passes, true, world)?;
    let path = args.files.first().cloned().unwrap_or_else(|| PathBuf::from("-"));
    let mut graph = read_graph(args, &path, world)?;
    let given = Given::read(args, &path, world)?.bound_for(&graph);
    let mut env = environment(args, &graph, world)?;
    env.bindings = bindings(args, &graph, &env, world)?.into();
    let time = args.checks.timeout.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    env.deadline = time.and_then(|left| Instant::now().checked_add(left));
    if gradient_run::is_asked_for(args) {
        return gradient_run::run(args, &path, graph, &given, env, world);
    }
    let mut stats = BTreeMap::new();
    let types: Vec<Type> = graph.results(graph.root()).map(|result| graph.ty(result)).collect();
    if let Some(pipeline) = &pipeline {
        stats = transform(&path, &mut graph, pipeline, &env, profile.as_ref(), args.semantics.no_verify)?;
    }
    if let Some(passes) = cmd_profile::instrumenting(args, &graph) {
        let pipeline = judging::pipeline(passes, world)?;
        transform(&path, &mut graph, &pipeline, &env, None, args.semantics.no_verify)?;
    }
    let (inputs, all_given) = inputs(args, &graph, &given, &env, world)?;
    let mut expectations = Expectations::read(args, &graph, world)?;
    let backend = processor::backend(&args.semantics.backend, world);
    let held = inputs.clone();
    // Recording starts only now: generating inputs runs the graph.
    cmd_profile::begin(args, &graph, &env)?;
    env.departures.replace(args.checks.trace_bailouts.then(Vec::new));
    let ran = watched_run(args, &graph, &env, inputs, &mut expectations, backend.as_ref(), world)?;
    expectations.note_params(&graph, held);
    for departure in env.departures.take().into_iter().flatten() {
        world.say(&format!("bailout: {departure}"));
    }
    tell_side_effects(&env, world);
    processor::tell_of_groups(backend.as_ref(), world);
    // Counters follow an error, which would be lost before a table.
    let ended = ran.map_err(|stop| stopped(&path, &stop, all_given, world));
    processor::tell_of_counts(backend.as_ref(), args.semantics.stats.as_deref(), stats, world);
    let results = match ended {
        Ok(results) => results,
        Err(code) => return Ok(code),
    };
    cmd_profile::end(args, &env, world)?;
    if args.checks.only_profile && args.checks.expect.is_empty() && args.values.outputs.is_none() {
        return Ok(exit::YES);
    }
    finish(args, &given, &expectations, in_tuples(&types, results), world)
}

/// Restores the tuples that the graph returned before passes flattened them.
fn in_tuples(types: &[Type], results: Vec<IValue>) -> Vec<IValue> {
    let number: usize = types.iter().map(|&ty| num_leaves(ty)).sum();
    let are_apart = results.len() != types.len() && results.len() == number;
    if !are_apart {
        return results;
    }
    let mut flat = results.into_iter();
    types.iter().map(|&ty| nested_in(ty, &mut flat)).collect()
}

/// The inputs, and whether none of them is generated.
pub(crate) fn inputs(
    args: &RunArgs,
    graph: &Graph,
    given: &Given,
    env: &Environment,
    world: &mut World<'_>,
) -> Result<(Vec<IValue>, bool), Refusal> {
    let mut inputs = given_values::inputs(args, graph, given, env)?;
    let all_given = inputs.iter().all(Option::is_some);
    make_up(args, graph, env, given, &mut inputs, world)?;
    let inputs = given_values::complete(graph, inputs, given)?;
    given_values::warn_of_contradictions(graph, inputs.iter(), world);
    Ok((inputs, all_given))
}

/// Reads and verifies a graph.
pub(crate) fn read_graph(args: &RunArgs, path: &Path, world: &mut World<'_>) -> Result<Graph, Refusal> {
    let (name, text) = batch::read(path, world);
    let text = text.map_err(|message| (exit::USAGE, message))?;
    let parsed = parse(&text, options(args)).map_err(|diagnostics| {
        let log = looks_like_log(&text).map_or(String::new(), |kind| format!("  {kind}\n"));
        (exit::PARSE, reporting::render(&name, &text, &diagnostics, world.colour) + &log)
    })?;
    if !parsed.warnings.is_empty() {
        world.say(&reporting::render(&name, &text, &parsed.warnings, world.colour));
    }
    // Warnings are not shown here; a graph with errors is refused whatever flags say, since nothing
    // can run it.
    let report = verify::verify_structure_only(&parsed.graph);
    if report.has_errors() {
        return Err((exit::VERIFY, format!("{name}:\n{}", verify::render(&parsed.graph, &report))));
    }
    Ok(parsed.graph)
}

fn options(args: &RunArgs) -> ParseOptions {
    ParseOptions { release: args.semantics.torch }
}

pub(crate) fn environment(args: &RunArgs, graph: &Graph, world: &mut World<'_>) -> Result<Environment, Refusal> {
    let mut env = Environment::default();
    let semantics = &args.semantics;
    env.precision = if semantics.f64 { Precision::Double } else { Precision::Typed };
    env.release = semantics.torch;
    env.seed = args.values.seed.unwrap_or(0);
    if let Some(how) = &args.values.fill_unknown {
        let (invent, seed) = given_values::fill_unknown(how)?;
        (env.invent, env.invent_seed) = (Some(invent), seed);
    }
    env.max_steps = args.checks.max_steps;
    let mut graphs = callees::load_all(&semantics.callee, semantics.no_verify, options(args), world)?;
    let mut calls = Calls::default();
    calls.add(graph);
    if !graphs.is_empty() {
        warn_of_uncalled(&graphs, calls.clone(), world);
    }
    graphs.values().for_each(|callee| calls.add(callee));
    // The interpreter looks up qualified names; users may give short ones, as for `inline`.
    for names in calls.each() {
        let given = names.iter().find_map(|name| graphs.get(name)).cloned();
        let known = || names.first().and_then(|name| function_graph(graph.release(), name));
        if let (Some(callee), Some(whole)) = (given.or_else(known), names.first()) {
            graphs.entry(whole.clone()).or_insert(callee);
        }
    }
    env.content_names = ContentNames::of(graph, &graphs).into();
    env.callees = graphs.into();
    Ok(env)
}

pub(crate) fn transform(
    path: &Path,
    graph: &mut Graph,
    pipeline: &Pipeline,
    env: &Environment,
    profile: Option<&Profile>,
    no_verify: bool,
) -> Result<BTreeMap<String, u64>, Refusal> {
    let (callees, profile) = ((*env.callees).clone(), profile.cloned().map(Rc::new));
    let mut session = Session { callees, profile, deadline: env.deadline, ..Session::default() };
    let mut verifier = VerifyEach;
    let mut observers: Vec<&mut dyn pass::Observer> = Vec::new();
    if !no_verify {
        observers.push(&mut verifier);
    }
    let ran = pass::run(graph, pipeline, &mut session, &mut observers);
    ran.map_err(|error| (exit::of(&error), format!("error: {}: {error}", path.display())))?;
    Ok(session.stats.into_iter().collect())
}

/// Generates missing inputs and unbound contents, and notes them.
pub(crate) fn make_up(
    args: &RunArgs,
    graph: &Graph,
    env: &Environment,
    given: &Given,
    inputs: &mut Vec<Option<IValue>>,
    world: &mut World<'_>,
) -> Result<(), Refusal> {
    let shapes = given_values::shapes(args, graph, &env.callees, inputs)?;
    let unknown = env.invent.is_some();
    let Some(seed) = args.values.seed.or(unknown.then_some(env.invent_seed)) else { return Ok(()) };
    if args.values.seed.is_none() && inputs.iter().any(Option::is_none) {
        return Ok(());
    }
    let missing: Vec<usize> = (0..inputs.len()).filter(|&i| inputs[i].is_none()).collect();
    // Without parameters the seed is only used by random operators.
    if missing.is_empty() && !unknown && inputs.is_empty() {
        return Ok(());
    }
    if missing.is_empty() && !unknown {
        return refuse("--seed: all inputs are given, so none is generated");
    }
    let style = args.values.style.as_deref().and_then(Style::named).unwrap_or_default();
    let generator = Generator { seed, style, shapes, hints: given.hints(graph) };
    let made = generator.complete(graph, env, std::mem::take(inputs));
    if env.is_late() {
        return Err((
            exit::BUDGET,
            "error: the time limit was reached while inputs were generated; give inputs, or raise --timeout".to_owned(),
        ));
    }
    for i in missing {
        if let (Some(param), Some(Some(value))) = (graph.params(graph.root()).nth(i), made.get(i)) {
            world.say(&format!("note: %{} is generated: {}", graph.name(param), verdicts::summary(value)));
        }
    }
    *inputs = made;
    Ok(())
}

/// Runs the graph with an observer.
#[allow(clippy::type_complexity, reason = "a refusal is a mistake of the user, a stop a result")]
fn watched_run(
    args: &RunArgs,
    graph: &Graph,
    env: &Environment,
    inputs: Vec<IValue>,
    expectations: &mut Expectations,
    backend: Option<&CpuBackend>,
    world: &mut World<'_>,
) -> Result<Result<Vec<IValue>, Stop>, Refusal> {
    let replayed = given_values::replayed(args, graph, env, world)?;
    let mut sections = expectations.sections().clone();
    sections.extend(replayed.iter().flat_map(|(named, _)| &named.way));
    let except = backend.map(|backend| Except { backend, sections });
    let mut onlooker = Onlooker::new(args, graph, replayed, expectations.values(), world.stderr);
    onlooker.deadline = env.deadline;
    let mut machine = Machine::new(graph, env).watched(&mut onlooker);
    if let Some(backend) = &except {
        machine = machine.backed_by(backend);
    }
    let ran = machine.run(inputs);
    let (unreached, seen) = onlooker.end();
    expectations.found = seen;
    if ran.is_ok() {
        unreached.iter().for_each(|name| world.say(&format!("warning: --replay %{name}: the run did not reach it")));
    }
    Ok(ran)
}

/// Prints the program's output and warnings, and notes the generated contents.
pub(crate) fn tell_side_effects(env: &Environment, world: &mut World<'_>) {
    for text in [env.warned.borrow(), env.printed.borrow()] {
        if !text.is_empty() {
            world.say(&text);
        }
    }
    if let Some(text) = &*env.ambiguity.borrow() {
        world.say(&format!("note: {text}"));
    }
    let bindings = env.bindings.borrow();
    for (name, ty) in env.invented.borrow().iter() {
        // An unbound list without elements in the text is an empty list.
        let otherwise =
            if matches!(ty.kind(), TypeKind::List(_)) { "an empty list".to_owned() } else { ty.to_string() };
        let value = bindings.get(name).map_or(otherwise, verdicts::summary);
        world.say(&format!("note: {} is generated: {value}", spelled(name)));
    }
}

/// Reports why a run stopped.
pub(crate) fn stopped(path: &Path, stop: &Stop, all_given: bool, world: &mut World<'_>) -> i32 {
    let place = if path.as_os_str() == "-" { "<stdin>".to_owned() } else { path.display().to_string() };
    world.say(&format!("error: {place}: {stop}"));
    if !all_given && matches!(stop.reason, Reason::Raised(_)) {
        world.say("note: the inputs are generated and may not fit; give inputs, or try another --seed or --shape");
    }
    match stop.reason {
        Reason::Raised(_) | Reason::Unsupported(_) | Reason::Watcher(_) => exit::NO,
        Reason::Unbound(_) => exit::USAGE,
        Reason::Budget(_) => exit::BUDGET,
    }
}

/// Compares, writes and prints results.
fn finish(
    args: &RunArgs,
    given: &Given,
    expectations: &Expectations,
    mut results: Vec<IValue>,
    world: &mut World<'_>,
) -> Result<i32, Refusal> {
    let whole = if results.len() == 1 { results.remove(0) } else { IValue::tuple(results) };
    let mut tensors = Tensors::new();
    let mut described = describe(&whole, "out", &mut tensors);
    if let Some(path) = &args.values.outputs {
        write_tensors(path, &tensors, world)?;
        without_elements(&mut described);
    }
    if !args.checks.expect.is_empty() {
        return expectations.judge(args, &given.description, &whole, &tensors, world);
    }
    world.print(format!("{}\n", laid_out(&json!({"outputs": described.json()}), 0)).as_bytes());
    Ok(exit::YES)
}

pub(crate) fn write_tensors(path: &Path, tensors: &Tensors, world: &World<'_>) -> Result<(), Refusal> {
    let bytes = match path.extension().is_some_and(|extension| extension == "npz") {
        true => write_npz(tensors),
        false => write_safetensors(tensors),
    };
    let name = path.display();
    let bytes = bytes.or_else(|error| refuse(format_args!("cannot write `{name}`: {error}")))?;
    std::fs::write(world.path(path), bytes).or_else(|error| refuse(format_args!("cannot write `{name}`: {error}")))
}

/// Elements that are stored in a file are omitted from the printed description.
pub(crate) fn without_elements(described: &mut Described) {
    match described {
        Described::Tensor(note) => note.values = None,
        Described::List(list) | Described::Tuple(list) => list.iter_mut().for_each(without_elements),
        Described::Dict(items) => items.iter_mut().for_each(|(_, value)| without_elements(value)),
        _ => {}
    }
}

/// Pretty-prints JSON: values that fit go on one line, and fields are put on shared lines.
pub(crate) fn laid_out(json: &Value, indent: usize) -> String {
    const WIDTH: usize = 110;
    let flat = flat(json);
    if indent + flat.len() <= WIDTH {
        return flat;
    }
    let pad = " ".repeat(indent + 1);
    match json {
        Value::Array(parts) => {
            let parts: Vec<String> = parts.iter().map(|part| laid_out(part, indent + 1)).collect();
            format!("[\n{pad}{}\n{}]", parts.join(&format!(",\n{pad}")), " ".repeat(indent))
        }
        Value::Object(fields) => {
            let (mut text, mut column) = (format!("{{\n{pad}"), pad.len());
            for (i, (name, value)) in fields.iter().enumerate() {
                let field = format!("{}: {}", json!(name), laid_out(value, indent + 1));
                let breaks = i > 0 && (field.contains('\n') || column + field.len() > WIDTH);
                text += ["", ", ", &format!(",\n{pad}")][usize::from(i > 0) + usize::from(breaks)];
                text += &field;
                column = if breaks { pad.len() + field.len() } else { column + field.len() + 2 };
            }
            format!("{text}\n{}}}", " ".repeat(indent))
        }
        _ => flat,
    }
}

/// JSON on one line, with the spacing of Python's `json.dumps`.
fn flat(json: &Value) -> String {
    match json {
        Value::Array(parts) => format!("[{}]", parts.iter().map(flat).collect::<Vec<_>>().join(", ")),
        Value::Object(fields) => {
            let field = |(name, value): (&String, &Value)| format!("{}: {}", json!(name), flat(value));
            format!("{{{}}}", fields.iter().map(field).collect::<Vec<_>>().join(", "))
        }
        other => other.to_string(),
    }
}
