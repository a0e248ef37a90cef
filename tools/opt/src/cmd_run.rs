//! `jitopt run`: runs a graph on given or generated values.

use crate::arguments::RunArgs;
use crate::batch::unreadable;
use crate::exit::{self, refuse};
use crate::{World, batch, several};
use jitopt_core::codegen::kernel_plan::PlanFile;
use jitopt_core::interpreter::description::{Described, describe};
use jitopt_core::interpreter::files::{Tensors, write_npz, write_safetensors};
use jitopt_core::interpreter::profile::Profile;
use jitopt_core::interpreter::{IValue, Reason, Stop};
use jitopt_core::pass::Pipeline;
use jitopt_engine::{Compared, Error, Expected, GradientRun, KernelTable, Kind, Ran, Run};
use jitopt_engine::{judging, panics, processor, profiles};
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

pub(crate) fn run(args: &RunArgs, world: &mut World<'_>) -> i32 {
    if args.checks.coverage || args.files.len() < 2 && args.output_dir.is_none() {
        return run_alone(args, world);
    }
    match refuse_shared_files(args).and_then(|()| make_folder(args, world)) {
        Ok(()) if args.files.len() == 1 => run_alone(&alone(args, &args.files[0]), world),
        Ok(()) => several::each(&args.shard.of(&args.files), args.jobs, world, |file, world| {
            run_alone(&alone(args, file), world)
        }),
        Err(error) => exit::failed(&error, world),
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

/// Makes the folder for the outputs, in which every graph has a file of its own.
fn make_folder(args: &RunArgs, world: &World<'_>) -> Result<(), Error> {
    let Some(folder) = &args.output_dir else { return Ok(()) };
    let mut stems = BTreeSet::new();
    if let Some(file) = args.files.iter().find(|file| !stems.insert(file.file_stem().unwrap_or_default())) {
        return refuse(format_args!(
            "--output-dir: another file has the name of `{}`, and both outputs would be written to one place",
            file.display()
        ));
    }
    std::fs::create_dir_all(world.path(folder))
        .or_else(|error| refuse(format_args!("cannot make the folder `{}`: {error}", folder.display())))
}

/// Refuses flags that would make several graphs write to one file, or read what belongs to one.
fn refuse_shared_files(args: &RunArgs) -> Result<(), Error> {
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
        ("--record-profile", args.checks.record_profile.is_some()),
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
    if args.json && !args.checks.coverage {
        return run_for_json(args, world);
    }
    let result = panics::caught(|| if args.checks.coverage { coverage(args, world) } else { one(args, world) });
    exit::ended(result, world)
}

/// One line of JSON about a run; messages are in it.
fn run_for_json(args: &RunArgs, world: &mut World<'_>) -> i32 {
    let file = args.files.first().cloned().unwrap_or_else(|| PathBuf::from("-"));
    let plain = RunArgs { json: false, ..args.clone() };
    let done = several::captured(world, |inner| run_alone(&plain, inner));
    let compares = !args.checks.expect.is_empty() || !args.checks.expect_grads.is_empty();
    let verdict = match done.code {
        exit::YES if compares => "same",
        exit::YES => "ran",
        exit::MISMATCH => "different",
        exit::NO => "raised",
        exit::BUDGET => "over budget",
        _ => "refused",
    };
    world.print(format!("{}\n", done.as_json("run", &file, verdict)).as_bytes());
    done.code
}

/// `--coverage`: reads all files and prints the table. Unreadable files are reported and decide the
/// exit code.
fn coverage(args: &RunArgs, world: &mut World<'_>) -> Result<i32, Error> {
    refuse_others(args)?;
    let files = if args.files.is_empty() { vec![PathBuf::from("-")] } else { args.files.clone() };
    let (mut table, mut code) = (KernelTable::default(), exit::YES);
    for path in &files {
        let graph =
            batch::program(path, world).and_then(|program| program.graph(args.semantics.torch, &mut world.workspace()));
        match graph {
            Ok(graph) => table.add(&graph),
            Err(error) => {
                let failed = exit::failed(&error, world);
                code = if code == exit::YES { failed } else { code };
            }
        }
    }
    world.print(table.to_string().as_bytes());
    Ok(code)
}

fn refuse_others(args: &RunArgs) -> Result<(), Error> {
    let (values, checks, semantics) = (&args.values, &args.checks, &args.semantics);
    let flags = [
        ("--inputs", values.inputs.is_some()),
        ("--args", values.args.is_some()),
        ("--outputs", values.outputs.is_some()),
        ("--seed", values.seed.is_some()),
        ("--shape", !values.shape.is_empty()),
        ("--bind", !values.bind.is_empty()),
        ("--bind-dir", values.bind_dir.is_some()),
        ("--fill-unknown", values.fill_unknown.is_some()),
        ("--replay", !values.replay.is_empty()),
        ("--expect", !checks.expect.is_empty()),
        ("--assert-finite", checks.assert_finite),
        ("--steps", checks.steps),
        ("--max-steps", checks.max_steps.is_some()),
        ("--timeout", checks.timeout.is_some()),
        ("--f64", semantics.f64),
        ("--callee", !semantics.callee.is_empty()),
        ("--passes", semantics.passes.is_some()),
        ("--profile", semantics.seen.profile.is_some()),
    ];
    match flags.iter().find(|(_, given)| *given) {
        Some((flag, _)) => refuse(format_args!("{flag}: --coverage runs nothing")),
        None => Ok(()),
    }
}

/// Whether gradients are requested.
fn requests_gradients(args: &RunArgs) -> bool {
    args.values.grads.is_some() || args.values.grad_outputs.is_some() || !args.checks.expect_grads.is_empty()
}

/// Refuses flags that name values of the original graph: the forward and backward graphs have other
/// values.
fn refuse_of_original(args: &RunArgs) -> Result<(), Error> {
    let checks = &args.checks;
    let flags = [
        ("--replay", !args.values.replay.is_empty()),
        ("--expect '%V=FILE'", checks.expect.iter().any(|expected| matches!(expected, Expected::Value(_)))),
        ("--record-profile", checks.record_profile.is_some()),
        ("--merge-profile", !checks.merge_profile.is_empty()),
        ("--profile", args.semantics.seen.profile.is_some()),
        ("--trace-bailouts", checks.trace_bailouts),
        ("--coverage", checks.coverage),
    ];
    match flags.iter().find(|(_, is_given)| *is_given) {
        Some((flag, _)) => refuse(format_args!(
            "{flag} refers to the original graph, but gradients are computed by two derived graphs; `jitopt --passes='differentiate'` prints them"
        )),
        None => Ok(()),
    }
}

/// Refuses combinations of flags that have no effect or contradict each other.
fn refuse_nonsense(args: &RunArgs) -> Result<(), Error> {
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
    if semantics.backend.has_kernels() && semantics.f64 {
        let backend = &semantics.backend.backend;
        return refuse(format_args!("--f64: compiled kernels do not support it; remove --backend={backend}"));
    }
    if semantics.backend.has_kernels() && checks.coverage {
        let backend = &semantics.backend.backend;
        return refuse(format_args!("--coverage: no kernel runs; remove --backend={backend}"));
    }
    processor::refuse_idle(&semantics.backend.options())?;
    if semantics.plan.is_some() && !semantics.backend.has_kernels() {
        return refuse("--plan: it schedules kernels; add --backend=cpu");
    }
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

/// The plans of a file.
fn plans(args: &RunArgs, world: &World<'_>) -> Result<Option<Arc<PlanFile>>, Error> {
    let Some(path) = &args.semantics.plan else { return Ok(None) };
    let text = match std::fs::read_to_string(world.path(path)) {
        Ok(text) => text,
        Err(error) => return refuse(format_args!("--plan: {}", unreadable(path, &error, world))),
    };
    match PlanFile::parse(&text) {
        Ok(plans) => Ok(Some(Arc::new(plans))),
        Err(why) => refuse(format_args!("--plan: {}: {why}", path.display())),
    }
}

fn one(args: &RunArgs, world: &mut World<'_>) -> Result<i32, Error> {
    refuse_nonsense(args)?;
    let mut options = args.options();
    options.semantics.backend.plans = plans(args, world)?;
    let pipeline = judging::optional_pipeline(args.semantics.passes.as_deref(), &mut world.workspace())?;
    let passes: Vec<&Pipeline> = pipeline.iter().collect();
    let profile = profiles::requested(args.semantics.seen.profile.as_deref(), &passes, true, &world.workspace())?;
    let path = args.files.first().cloned().unwrap_or_else(|| PathBuf::from("-"));
    let folder = processor::folder_of_kernels(&options.semantics.backend, &world.workspace());
    let program = batch::program(&path, world)?.kept_in(folder.as_deref());
    let run = Run::read(&options, &program, &mut world.workspace())?;
    if requests_gradients(args) {
        refuse_of_original(args)?;
        let ran = run.gradients(pipeline, &mut world.workspace())?;
        program.refuse_changed()?;
        return finish_gradients(args, &path, ran, world);
    }
    let mut ran = run.run(pipeline.as_ref(), profile.as_ref(), &mut world.workspace())?;
    program.refuse_changed()?;
    // Counters follow an error, which would be lost before a table.
    let ended = std::mem::replace(&mut ran.results, Ok(Vec::new()));
    let ended = ended.map_err(|stop| stopped(&path, &stop, ran.all_given, world));
    let stats = std::mem::take(&mut ran.stats);
    let format = args.semantics.stats.as_deref();
    let times = ran.times.as_ref();
    processor::report_counts(ran.backend.as_ref(), format, stats, times, &mut world.workspace());
    let results = match ended {
        Ok(results) => results,
        Err(code) => return Ok(code),
    };
    let profile = ran.profile(&world.workspace())?;
    if let (Some(path), Some(profile)) = (&args.checks.record_profile, profile) {
        write_profile(args, path, &profile, world)?;
    }
    if args.checks.only_profile && args.checks.expect.is_empty() && args.values.outputs.is_none() {
        return Ok(exit::YES);
    }
    finish(args, &ran, results, world)
}

/// Writes a recorded profile.
fn write_profile(args: &RunArgs, path: &Path, profile: &Profile, world: &mut World<'_>) -> Result<(), Error> {
    let is_stdout = path.as_os_str() == "-";
    if is_stdout {
        world.print(profile.to_json().as_bytes());
    } else {
        let written = std::fs::write(world.path(path), profile.to_json());
        written.or_else(|error| refuse(format_args!("cannot write `{}`: {error}", path.display())))?;
    }
    if args.checks.only_profile {
        let seen = profile.places.iter().filter(|place| place.times > 0).count();
        let (all, runs) = (profile.places.len(), profile.runs);
        let plural = if runs == 1 { "" } else { "s" };
        let name = if is_stdout { "<stdout>".to_owned() } else { path.display().to_string() };
        world.say(&format!("{name}: {runs} run{plural}, tensors observed at {seen} of {all} profile nodes"));
    }
    Ok(())
}

/// Reports why a run stopped.
fn stopped(path: &Path, stop: &Stop, all_given: bool, world: &mut World<'_>) -> i32 {
    let place = if path.as_os_str() == "-" { "<stdin>".to_owned() } else { path.display().to_string() };
    world.say(&format!("error: {place}: {stop}"));
    if !all_given && matches!(stop.reason, Reason::Raised(_)) {
        world.say("note: the inputs are generated and may not fit; give inputs, or try another --seed or --shape");
    }
    exit::of_kind(Kind::of_stop(stop))
}

/// Compares, writes and prints results.
fn finish(args: &RunArgs, ran: &Ran<'_>, mut results: Vec<IValue>, world: &mut World<'_>) -> Result<i32, Error> {
    let whole = if results.len() == 1 { results.remove(0) } else { IValue::tuple(results) };
    let mut tensors = Tensors::new();
    let mut described = describe(&whole, "out", &mut tensors);
    if let Some(path) = &args.values.outputs {
        write_tensors(path, &tensors, world)?;
        without_elements(&mut described);
    }
    if !args.checks.expect.is_empty() {
        return Ok(print_compared(&ran.compare(&whole, &tensors)?, world));
    }
    world.print(format!("{}\n", laid_out(&json!({"outputs": described.json()}), 0)).as_bytes());
    Ok(exit::YES)
}

/// Prints the result of a comparison.
fn print_compared(compared: &Compared, world: &mut World<'_>) -> i32 {
    world.say(&compared.to_string());
    if compared.is_equal() { exit::YES } else { exit::MISMATCH }
}

/// Compares, writes and prints results and gradients.
fn finish_gradients(
    args: &RunArgs,
    path: &Path,
    mut ran: GradientRun<'_>,
    world: &mut World<'_>,
) -> Result<i32, Error> {
    let ended = std::mem::replace(&mut ran.whole, Ok(IValue::None));
    let ended = ended.map_err(|stop| stopped(path, &stop, ran.all_given, world));
    if ran.is_derived {
        let stats = std::mem::take(&mut ran.stats);
        let format = args.semantics.stats.as_deref();
        let times = format.is_some().then_some(&ran.times);
        processor::report_counts(ran.backend.as_ref(), format, stats, times, &mut world.workspace());
    }
    let whole = match ended {
        Ok(whole) => whole,
        Err(code) => return Ok(code),
    };
    let mut tensors = Tensors::new();
    let mut outputs = describe(&whole, "out", &mut tensors);
    let (mut found, mut described) = (Tensors::new(), Map::new());
    let file = args.values.grads.as_ref().filter(|path| path.as_os_str() != "-");
    for (key, gradient) in ran.gradients(&mut world.workspace()) {
        let mut gradient = describe(&gradient, &key, &mut found);
        if file.is_some() {
            without_elements(&mut gradient);
        }
        described.insert(key, gradient.json());
    }
    if let Some(path) = &args.values.outputs {
        write_tensors(path, &tensors, world)?;
        without_elements(&mut outputs);
    }
    if let Some(path) = file {
        write_tensors(path, &found, world)?;
    }
    if args.checks.expect.is_empty() && args.checks.expect_grads.is_empty() {
        let all = json!({"outputs": outputs.json(), "gradients": Value::Object(described)});
        world.print(format!("{}\n", laid_out(&all, 0)).as_bytes());
        return Ok(exit::YES);
    }
    let outputs = ran.compare_outputs(&whole, &tensors)?.map_or(exit::YES, |compared| print_compared(&compared, world));
    let gradients =
        ran.compare_gradients(&whole, &found)?.map_or(exit::YES, |compared| print_compared(&compared, world));
    Ok(outputs.max(gradients))
}

fn write_tensors(path: &Path, tensors: &Tensors, world: &World<'_>) -> Result<(), Error> {
    let bytes = match path.extension().is_some_and(|extension| extension == "npz") {
        true => write_npz(tensors),
        false => write_safetensors(tensors),
    };
    let name = path.display();
    let bytes = bytes.or_else(|error| refuse(format_args!("cannot write `{name}`: {error}")))?;
    std::fs::write(world.path(path), bytes).or_else(|error| refuse(format_args!("cannot write `{name}`: {error}")))
}

/// Elements that are stored in a file are omitted from the printed description.
fn without_elements(described: &mut Described) {
    match described {
        Described::Tensor(note) => note.values = None,
        Described::List(list) | Described::Tuple(list) => list.iter_mut().for_each(without_elements),
        Described::Dict(items) => items.iter_mut().for_each(|(_, value)| without_elements(value)),
        _ => {}
    }
}

/// Pretty-prints JSON: values that fit go on one line, and fields are put on shared lines.
fn laid_out(json: &Value, indent: usize) -> String {
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
