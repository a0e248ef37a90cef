//! Recorded results of PyTorch, and their comparison with the interpreter:
//! `numerics/VERSION/CASE.*` of the recorded graphs.

use jitopt_core::interpreter::comparison::{Tolerance, differences};
use jitopt_core::interpreter::description::{self, Described, Description, Source, fitted};
use jitopt_core::interpreter::files::{Tensors, read_safetensors};
use jitopt_core::interpreter::{Environment, IValue, Machine, Reason, Release, Stop, Watch};
use jitopt_core::ir::{Graph, Node};
use jitopt_core::runtime::CpuBackend;
use jitopt_core::tensor::{DType, Precision, Tensor};
use jitopt_core::text::{ParseOptions, parse};
use jitopt_core::types::era::Era;
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Kinds, with the element types of their operands and results.
#[derive(Default)]
pub struct Seen(pub BTreeSet<(&'static str, DType)>);

impl Watch for Seen {
    fn after(&mut self, graph: &Graph, node: Node, operands: &[IValue], outputs: &[IValue]) -> Result<(), Stop> {
        let kind = graph.kind(node).as_str();
        let mut note = |tensor: &Tensor| self.0.extend([(kind, tensor.dtype())]);
        operands.iter().chain(outputs).for_each(|value| value.each_tensor(&mut note));
        Ok(())
    }
}

/// Tolerance of results in double precision, relative to the largest element.
const IN_DOUBLES: f64 = 1e-10;

/// Cases whose double-precision results cannot be reproduced, and why. An outdated entry is a
/// failure.
pub const NOT_IN_DOUBLES: &[(&str, &str)] = &[
    ("1.3.1/block_gelu_erf", "1.3.1 prints constants with six digits; PyTorch computed with all of them"),
    ("1.3.1/block_gelu_tanh", "1.3.1 prints constants with six digits; PyTorch computed with all of them"),
    (
        "1.3.1/un_clamp_crossed",
        "with crossed bounds, 1.3.1 gives the upper one in vectors and the lower one in the scalar tail",
    ),
];

/// Why a case failed: a short reason that others may share, and the details.
#[allow(dead_code, reason = "not every test tells why")]
pub struct Failure {
    /// The short reason.
    pub class: String,
    /// All of it.
    pub text: String,
}

fn failure<T>(class: &str, text: impl ToString) -> Result<T, Failure> {
    Err(Failure { class: class.to_owned(), text: text.to_string() })
}

trait OrFail<T> {
    fn or_fail(self, class: &str) -> Result<T, Failure>;
}

impl<T, E: std::fmt::Display> OrFail<T> for Result<T, E> {
    fn or_fail(self, class: &str) -> Result<T, Failure> {
        self.or_else(|error| failure(class, error))
    }
}

/// How the graph of a case is transformed before it runs, and the backend of its groups.
pub type Prepared<'a> = (&'a dyn Fn(&mut Graph), &'a CpuBackend);

/// The files of a case.
struct Case<'a> {
    stem: &'a str,
    graph: Graph,
    release: Release,
    seen: RefCell<Seen>,
    backend: Option<&'a CpuBackend>,
}

impl Case<'_> {
    fn bytes(&self, suffix: &str) -> Result<Vec<u8>, Failure> {
        std::fs::read(format!("{}{suffix}", self.stem)).or_fail("a missing file")
    }

    fn tensors(&self, suffix: &str) -> Result<Tensors, Failure> {
        read_safetensors(&self.bytes(suffix)?).or_fail("a broken file")
    }

    fn inputs(&self, described: &[Described], tensors: &Tensors, to: Precision) -> Result<Vec<IValue>, Failure> {
        let source = Source::new(tensors, to);
        let types = self.graph.params(self.graph.root()).map(|param| self.graph.ty(param));
        let value = |(i, (described, ty)): (usize, (&Described, _))| {
            let value = source.value(described, &format!("in{i}")).or_fail("a broken description")?;
            fitted(value, ty).or_fail("an input of another type")
        };
        described.iter().zip(types).enumerate().map(value).collect()
    }

    fn run(&self, inputs: Vec<IValue>, precision: Precision) -> Result<Vec<IValue>, Failure> {
        let mut env = Environment::default();
        env.precision = precision;
        env.release = Some(self.release);
        let mut seen = self.seen.borrow_mut();
        let mut machine = Machine::new(&self.graph, &env);
        if let Some(backend) = self.backend {
            machine = machine.backed_by(backend);
        } else if precision == Precision::Typed {
            machine = machine.watched(&mut *seen);
        }
        match machine.run(inputs) {
            Ok(results) => Ok(results),
            Err(stop) => match &stop.reason {
                Reason::Unsupported(what) => failure(&format!("unsupported: {what}"), &stop),
                Reason::Raised(exception) => failure(&format!("raised: {}", first_line(&exception.message)), &stop),
                _ => failure("not run", &stop),
            },
        }
    }
}

fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().chars().take(90).collect()
}

fn compare(class: &str, expected: &IValue, found: &IValue, tolerance: Tolerance, path: &str) -> Result<(), Failure> {
    let all: Vec<String> = differences(expected, found, tolerance, path).iter().map(ToString::to_string).collect();
    if all.is_empty() { Ok(()) } else { failure(class, all.join("\n")) }
}

/// Several results are described as a tuple.
fn whole(mut results: Vec<IValue>) -> IValue {
    if results.len() == 1 { results.remove(0) } else { IValue::tuple(results) }
}

fn check(case: &Case<'_>) -> Result<(), Failure> {
    let description = description::parse(&case.bytes(".json")?).or_fail("a broken description")?;
    let described: Vec<Described> = description.inputs.iter().map(|input| input.value.clone()).collect();
    let tensors = case.tensors(".inputs.safetensors")?;
    let inputs = case.inputs(&described, &tensors, Precision::Typed)?;
    let found = whole(case.run(inputs.clone(), Precision::Typed)?);
    let tolerance = description.tolerance.unwrap_or(Tolerance::of(0.0, 0.0));
    let outputs = case.tensors(".outputs.safetensors")?;
    let expected = outputs_of(&description, &outputs)?;
    compare("other results", &expected, &found, tolerance, "out")?;
    check_inputs_after(case, &inputs, tolerance)?;
    if case.backend.is_none() && std::fs::exists(format!("{}.ref64.safetensors", case.stem)).unwrap_or(false) {
        let inputs = case.inputs(&described, &tensors, Precision::Double)?;
        let found = whole(case.run(inputs, Precision::Double)?);
        let excused = NOT_IN_DOUBLES.iter().find(|(name, _)| case.stem.ends_with(name));
        match (check_doubles(case, &found), excused) {
            (Ok(()), Some((_, why))) => failure("an excuse that is none", why)?,
            (Err(failure), None) => return Err(failure),
            _ => {}
        }
    }
    Ok(())
}

fn outputs_of(description: &Description, tensors: &Tensors) -> Result<IValue, Failure> {
    let Some(outputs) = &description.outputs else { return failure("a broken description", "no outputs") };
    Source::new(tensors, Precision::Typed).value(outputs, "out").or_fail("a broken description")
}

fn check_inputs_after(case: &Case<'_>, inputs: &[IValue], tolerance: Tolerance) -> Result<(), Failure> {
    let Ok(after) = case.tensors(".inputs_after.safetensors") else { return Ok(()) };
    for (i, input) in inputs.iter().enumerate() {
        if let Some(expected) = after.get(&format!("in{i}")) {
            compare("other inputs afterwards", &expected.clone().into(), input, tolerance, &format!("in{i}"))?;
        }
    }
    Ok(())
}

fn check_doubles(case: &Case<'_>, found: &IValue) -> Result<(), Failure> {
    let reference = case.tensors(".ref64.safetensors")?;
    let mut results = Tensors::new();
    description::describe(found, "out", &mut results);
    for (key, expected) in &reference {
        let Some(result) = results.get(key) else { return failure("a broken description", format!("no {key}")) };
        let (expected, result) = (expected.clone().into(), result.clone().into());
        compare("other doubles", &expected, &result, Tolerance::of_largest(IN_DOUBLES), key)?;
    }
    Ok(())
}

/// `CASE.diff.f.ir`, `CASE.diff.df.ir`, `CASE.diff.df_specialized.ir`, described in
/// `CASE.diff.json`.
fn check_gradient(case: &Case<'_>, graph: &str) -> Result<(), Failure> {
    let json = case.bytes(".diff.json")?;
    let list = |what: &str| description::parse_list(&json, &format!("{graph}_{what}")).or_fail("a broken description");
    let tensors = case.tensors(&format!(".diff.{graph}_inputs.safetensors"))?;
    let inputs = case.inputs(&list("inputs")?, &tensors, Precision::Typed)?;
    // A gradient graph with one result returns it in a tuple.
    let found = match case.run(inputs, Precision::Typed)?.as_slice() {
        [IValue::Tuple(values)] => IValue::Tuple(values.clone()),
        values => IValue::tuple(values.iter().cloned()),
    };
    let outputs = case.tensors(&format!(".diff.{graph}_outputs.safetensors"))?;
    let source = Source::new(&outputs, Precision::Typed);
    let expected = source.value(&Described::Tuple(list("outputs")?), "output").or_fail("a broken description")?;
    let description = description::parse(&case.bytes(".json")?).or_fail("a broken description")?;
    let tolerance = description.tolerance.unwrap_or(Tolerance::of(1e-5, 1e-6));
    compare("other results", &expected, &found, tolerance, "out")
}

/// Runs a case; returns the observed kinds if it passes.
fn run_guarded(path: &str, prepared: Option<Prepared<'_>>) -> Result<Seen, Failure> {
    let release = if path.contains("/1.3.1/") { Release(1, 3) } else { Release(2, 15) };
    let era = Some(if release.0 == 1 { Era::V1_3 } else { Era::V2 });
    let text = std::fs::read(path).or_fail("a missing file")?;
    let parsed = parse(&text, ParseOptions { release: era.map(Release::of) });
    let Ok(mut parsed) = parsed else { return failure("a text that is not read", path) };
    if let Some((change, _)) = prepared {
        change(&mut parsed.graph);
    }
    let backend = prepared.map(|(_, backend)| backend);
    let name = path.strip_suffix(".ir").unwrap_or(path);
    let case = |stem| Case { stem, graph: parsed.graph, release, seen: RefCell::default(), backend };
    let split = name.split_once(".diff.");
    let case = case(split.map_or(name, |(stem, _)| stem));
    match split {
        Some((_, "df_specialized")) => check_gradient(&case, "df")?,
        Some((_, graph)) => check_gradient(&case, graph)?,
        None => check(&case)?,
    }
    Ok(case.seen.into_inner())
}

/// Runs a case; returns the observed kinds if it passes. A panic is a failure.
#[allow(dead_code, reason = "not every test runs cases as they are")]
pub fn run(path: &str) -> Result<Seen, Failure> {
    catch_unwind(|| run_guarded(path, None)).unwrap_or_else(|_| failure("a panic", "see above"))
}

/// Transforms the graph of a case before it is run, and runs it with kernels.
#[allow(dead_code, reason = "not every test changes graphs")]
pub fn run_prepared(path: &str, prepared: Prepared<'_>) -> Result<(), Failure> {
    let run = AssertUnwindSafe(|| run_guarded(path, Some(prepared)).map(drop));
    catch_unwind(run).unwrap_or_else(|_| failure("a panic", "see above"))
}
