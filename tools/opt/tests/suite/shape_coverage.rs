//! For every operator that the interpreter runs and that creates tensors, the types that
//! `shape-analysis{precise}` infers match the results.
//!
//! Operands of each overload are generated, and then varied step by step: sizes of 0 and 1, ranks,
//! element types, negative dimensions, `keepdim`, optional operands that are None, string operands,
//! lengths of lists. Each set of operands on which the node runs is checked twice. With complete
//! operand types, element type and sizes of all results must be inferred correctly; only rows of
//! the shape table that depend on values (`ShapeRow::by_values`) may leave something open. With
//! partial operand types, all inferred types must be correct.
//!
//! Kinds for which that fails, or for which no operands run, are in `shape_coverage.txt`, one line
//! each with the reason. `BLESS=1` writes it and keeps the reasons; a kind that is better or worse
//! than listed is an error, and so is a line without a reason. `JITOPT_UNIVERSE=1` takes ten times
//! as many steps; `JITOPT_SHAPES=aten::index,…` selects kinds; `JITOPT_SHAPES_DUMP=FILE` writes the
//! nodes that ran as lines that can be run in PyTorch.

#![allow(clippy::print_stdout, reason = "a test tells its figures")]

use crate::support::dice;
use crate::support::drawn_operands;
use crate::support::gradient_operands;
use crate::support::parallel;

use dice::Dice;
use drawn_operands::{Operand, Spec, changed};
use jitopt_core::interpreter::generator::Generator;
use jitopt_core::interpreter::{Call, Environment, IValue, library};
use jitopt_core::ir::Graph;
use jitopt_core::ops;
use jitopt_core::ops::schema::Schema;
use jitopt_core::ops::shape_rules::{When, shape_row};
use jitopt_core::pass::{Pipeline, Session, run};
use jitopt_core::symbol::Symbol;
use jitopt_core::tensor::{DType, Precision, Tensor};
use jitopt_core::text::{ParseOptions, parse};
use jitopt_core::types::era::Era;
use jitopt_core::types::release::Release;
use jitopt_core::types::{Dim, Strides, TensorType, Type, TypeKind};
use jitopt_judge::promises::contradiction;
use jitopt_judge::showing::{Outcome, Settings};
use jitopt_passes::REGISTRY;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

/// Kinds with incomplete inference, with their state, see [`state`].
const OPEN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/suite/shape_coverage.txt");

/// Number of variations tried per generated set of operands.
fn steps() -> usize {
    if std::env::var_os("JITOPT_UNIVERSE").is_some() { 400 } else { 40 }
}

// ---- a node as text

/// The number of results for an output: one for a tensor, one per element of a list.
type Lengths = Vec<Option<usize>>;

/// One node with operands.
struct Subject<'a> {
    kind: &'a str,
    returns: Vec<String>,
    operands: &'a [Operand],
    era: Era,
}

/// The text of a graph under construction.
#[derive(Default)]
struct Text {
    params: Vec<String>,
    inputs: Vec<IValue>,
    lines: String,
    made: usize,
}

impl Text {
    fn constant(&mut self, ty: &str, value: &str) -> String {
        self.made += 1;
        let value = if value.is_empty() { String::new() } else { format!("[value={value}]") };
        let _ = writeln!(self.lines, "  %c{} : {ty} = prim::Constant{value}()", self.made);
        format!("%c{}", self.made)
    }

    fn list(&mut self, ty: &str, parts: &[String]) -> String {
        self.made += 1;
        let _ = writeln!(self.lines, "  %c{} : {ty}[] = prim::ListConstruct({})", self.made, parts.join(", "));
        format!("%c{}", self.made)
    }

    fn param(&mut self, ty: &str, value: IValue) -> String {
        let name = format!("%p{}", self.params.len());
        self.params.push(format!("{name} : {ty}"));
        self.inputs.push(value);
        name
    }

    /// The name of an operand; a number is a constant, or a param where `known` is not.
    fn operand(&mut self, operand: &Operand, known: bool) -> String {
        match operand {
            Operand::None => self.constant("NoneType", ""),
            Operand::Int(n) if known => self.constant("int", &n.to_string()),
            Operand::Bool(b) if known => self.constant("bool", &u8::from(*b).to_string()),
            Operand::Int(n) => self.param("int", IValue::Int(*n)),
            Operand::Bool(b) => self.param("bool", IValue::Bool(*b)),
            Operand::Float(x) => self.constant("float", &format!("{x:?}").replace("inf", "inf")),
            Operand::Str(text) => self.constant("str", &format!("{text:?}")),
            Operand::Device(name) => self.constant("Device", &format!("{name:?}")),
            Operand::Ints(all) if !known => self.param("int[]", IValue::list(all.iter().copied())),
            Operand::Ints(all) => {
                let parts: Vec<String> = all.iter().map(|n| self.constant("int", &n.to_string())).collect();
                self.list("int", &parts)
            }
            Operand::Floats(all) => {
                let parts: Vec<String> = all.iter().map(|x| self.constant("float", &format!("{x:?}"))).collect();
                self.list("float", &parts)
            }
            Operand::Bools(all) => {
                let parts: Vec<String> = all.iter().map(|b| self.constant("bool", &u8::from(*b).to_string())).collect();
                self.list("bool", &parts)
            }
            Operand::Tensor(spec) => self.param("Tensor", spec.made()),
            Operand::Made(kind, operands) => {
                let names: Vec<String> = operands.iter().map(|operand| self.operand(operand, true)).collect();
                let schema = ops::operator(Era::V2, Symbol::new(kind)).schemas.first();
                let ty = schema.map_or("Tensor".to_owned(), |schema| schema.returns[0].ty.to_string());
                self.made += 1;
                let _ = writeln!(self.lines, "  %c{} : {ty} = {kind}({})", self.made, names.join(", "));
                format!("%c{}", self.made)
            }
            Operand::Tensors(all) => {
                let is_optional = all.iter().any(Option::is_none);
                let parts: Vec<String> = all.iter().map(|spec| self.element(spec.as_ref())).collect();
                self.list(if is_optional { "Tensor?" } else { "Tensor" }, &parts)
            }
        }
    }

    fn element(&mut self, spec: Option<&Spec>) -> String {
        match spec {
            Some(spec) => self.param("Tensor", spec.made()),
            None => self.constant("NoneType", ""),
        }
    }
}

impl Subject<'_> {
    /// The graph of the node, and its inputs. With `lengths`, lists among the results are unpacked.
    fn graph(&self, lengths: &[Option<usize>], known: &dyn Fn(usize) -> bool) -> Option<(Graph, Vec<IValue>)> {
        let mut text = Text::default();
        let names: Vec<String> =
            self.operands.iter().enumerate().map(|(i, operand)| text.operand(operand, known(i))).collect();
        let results: Vec<String> = (0..self.returns.len()).map(|i| format!("%r{i}")).collect();
        let typed: Vec<String> = results.iter().zip(&self.returns).map(|(name, ty)| format!("{name} : {ty}")).collect();
        let _ = writeln!(text.lines, "  {} = {}({})", typed.join(", "), self.kind, names.join(", "));
        let mut returned = Vec::new();
        for (i, result) in results.iter().enumerate() {
            match lengths.get(i).copied().flatten() {
                None => returned.push(result.clone()),
                Some(n) => returned.extend(unpacked(&mut text, result, n)),
            }
        }
        let (params, lines) = (text.params.join(", "), &text.lines);
        let whole = format!("graph({params}):\n{lines}  return ({})\n", returned.join(", "));
        let options = ParseOptions::of(Release::of(self.era));
        let graph = parse(whole.as_bytes(), options).ok()?.graph;
        (!jitopt_core::verify::verify(&graph).has_errors()).then_some((graph, text.inputs))
    }
}

/// The elements of a list, by `prim::ListUnpack`, or the last one by `aten::__getitem__`.
fn unpacked(text: &mut Text, list: &str, n: usize) -> Vec<String> {
    let mut names: Vec<String> = (0..n).map(|i| format!("{list}_{i}")).collect();
    if n == 0 {
        return names;
    }
    let typed: Vec<String> = names.iter().map(|name| format!("{name} : Tensor")).collect();
    let _ = writeln!(text.lines, "  {} = prim::ListUnpack({list})", typed.join(", "));
    let at = text.constant("int", "-1");
    let _ = writeln!(text.lines, "  {list}_last : Tensor = aten::__getitem__({list}, {at})");
    names[n - 1] = format!("{list}_last");
    names
}

// ---- type information

/// The completeness of tensor types: everything, element type and rank, element type, nothing.
fn known_type(tensor: &Tensor, how: usize) -> Type {
    let strides = if tensor.rank() == 0 { Strides::Unknown } else { Strides::Known(tensor.strides().into()) };
    let full = TensorType {
        dtype: Some(tensor.dtype()),
        sizes: Some(tensor.shape().iter().copied().map(Dim::Known).collect()),
        strides,
        requires_grad: Some(false),
        device: Some(Symbol::new("cpu")),
        ..TensorType::default()
    };
    let unknown = |sizes: &[Dim]| sizes.iter().map(|_| Dim::Unknown).collect();
    let ty = match how {
        0 => full,
        1 => TensorType { sizes: full.sizes.as_deref().map(unknown), strides: Strides::Unknown, ..full },
        2 => TensorType { sizes: None, strides: Strides::Unknown, ..full },
        _ => return Type::tensor(),
    };
    Type::new(TypeKind::Tensor(ty))
}

/// The missing parts of a type that should be complete.
fn missing(ty: Type, value: &IValue) -> Option<String> {
    let (TypeKind::Tensor(known), IValue::Tensor(tensor)) = (ty.kind(), value) else { return None };
    let number = |dim: &Dim| matches!(dim, Dim::Known(_));
    let complete = known.dtype.is_some() && known.sizes.as_deref().is_some_and(|sizes| sizes.iter().all(number));
    (!complete).then(|| format!("`{ty}` is less than {}{:?}", tensor.dtype().name(), tensor.shape()))
}

// ---- a kind

/// The result for the operands of a kind.
#[derive(Default)]
struct Tally {
    ran: usize,
    checked: usize,
    /// Overloads that ran, and whether all was inferred each time.
    seen: BTreeMap<String, bool>,
    panics: usize,
    wrong: BTreeSet<String>,
    missing: BTreeSet<String>,
    dump: Vec<String>,
}

struct Trial<'a> {
    kind: &'static str,
    era: Era,
    pipelines: &'a [Pipeline],
    dice: Dice,
    tally: &'a mut Tally,
}

fn has_tensor(ty: Type) -> bool {
    match ty.kind() {
        TypeKind::Tensor(_) => true,
        TypeKind::Optional(inner) | TypeKind::List(inner) => has_tensor(*inner),
        _ => false,
    }
}

/// Whether the kind creates tensors and writes to none.
fn is_tried(schema: &Schema) -> bool {
    schema.returns.iter().any(|formal| has_tensor(formal.ty)) && !schema.is_writing() && !schema.varret
}

/// Whether, according to the table, sizes depend on the values of these operands.
fn decided_by_values(schema: &'static Schema, operands: &[Operand]) -> bool {
    let operand = |name: &str| schema.formal(name).and_then(|at| operands.get(at));
    let is_mask = |spec: &&Spec| matches!(spec.dtype, DType::Bool | DType::Byte);
    match shape_row(schema).and_then(|row| row.by_values).map(|by| by.when) {
        None => false,
        Some(When::Always) => true,
        Some(When::Masked) => operand("indices").is_some_and(|indices| indices.specs().iter().any(is_mask)),
        Some(When::Negative(name)) => matches!(operand(name), Some(Operand::Int(n)) if *n < 0),
        Some(When::Tensor(name)) => {
            let open = operand("output_size").is_none_or(|size| *size == Operand::None);
            open && matches!(operand(name), Some(Operand::Tensor(_)))
        }
    }
}

/// Operands in two words each, to name a case.
fn shown(kind: &str, operands: &[Operand]) -> String {
    let spec = |spec: &Spec| format!("{}{:?}", spec.dtype.name(), spec.shape);
    let one = |operand: &Operand| match operand {
        Operand::Tensor(tensor) => spec(tensor),
        Operand::Tensors(all) => {
            format!(
                "[{}]",
                all.iter().map(|one| one.as_ref().map_or("None".to_owned(), spec)).collect::<Vec<_>>().join(", ")
            )
        }
        other => format!("{other:?}"),
    };
    format!("{kind}({})", operands.iter().map(one).collect::<Vec<_>>().join(", "))
}

impl Trial<'_> {
    /// Runs the node; and what is inferred is held against what comes out. Whether it ran.
    fn check(&mut self, schema: &'static Schema, operands: &[Operand]) -> bool {
        let spell = |ty: Type| ty.to_string();
        let returns = schema.returns.iter().map(|formal| spell(formal.ty)).collect();
        let subject = Subject { kind: self.kind, returns, operands, era: self.era };
        let Some((graph, inputs)) = subject.graph(&[], &|_| true) else { return false };
        let Some(results) = outcome(&graph, &inputs) else { return false };
        let types: Vec<Type> = match graph.all_nodes().find(|&node| graph.kind(node).as_str() == self.kind) {
            Some(node) => graph.inputs(node).map(|value| graph.ty(value)).collect(),
            None => return false,
        };
        let Some(resolved) = ops::resolve(self.era, Symbol::new(self.kind), &types).schema() else { return false };
        self.tally.ran += 1;
        let mut lengths: Lengths = results.iter().map(length).collect();
        if lengths.iter().all(Option::is_none) {
            lengths.clear();
        }
        let by_values = decided_by_values(resolved, operands);
        let whole = match lengths.is_empty() {
            true => self.infer_of(&subject, (graph, &inputs, &results), &|_| 0, by_values),
            false => self.infer(&subject, &lengths, &|_| true, &|_| 0, by_values),
        };
        let entry = self.tally.seen.entry(format!("{:?} {}", self.era, resolved.text(self.era))).or_insert(true);
        *entry &= whole;
        self.dump(&results, operands, resolved);
        if self.dice.one_in(2) {
            let (bits, hows) = (self.dice.next(), self.dice.next());
            let known = |i: usize| bits >> (i % 64) & 1 == 0;
            let how = |i: usize| (hows >> (2 * (i % 32)) & 3) as usize;
            self.infer(&subject, &lengths, &known, &how, true);
        }
        true
    }

    /// Whether everything was inferred of the results; what is wrong, or missing unless it
    /// `may_lack`, is noted.
    fn infer(
        &mut self,
        subject: &Subject<'_>,
        lengths: &[Option<usize>],
        known: &dyn Fn(usize) -> bool,
        how: &dyn Fn(usize) -> usize,
        may_lack: bool,
    ) -> bool {
        let Some((graph, inputs)) = subject.graph(lengths, known) else { return true };
        let Some(results) = outcome(&graph, &inputs) else { return true };
        self.infer_of(subject, (graph, &inputs, &results), how, may_lack)
    }

    /// The same for a graph that ran on inputs.
    fn infer_of(
        &mut self,
        subject: &Subject<'_>,
        (mut graph, inputs, results): (Graph, &[IValue], &[IValue]),
        how: &dyn Fn(usize) -> usize,
        may_lack: bool,
    ) -> bool {
        let params: Vec<_> = graph.params(graph.root()).collect();
        for (i, (param, input)) in params.into_iter().zip(inputs).enumerate() {
            if let IValue::Tensor(tensor) = input {
                graph.set_type(param, known_type(tensor, how(i)));
            }
        }
        let mut whole = true;
        for (i, pipeline) in self.pipelines.iter().enumerate() {
            let mut after = graph.clone();
            run(&mut after, pipeline, &mut Session::default(), &mut []).expect("it always works");
            let types: Vec<Type> = after.results(after.root()).map(|result| after.ty(result)).collect();
            self.tally.checked += 1;
            let name = shown(subject.kind, subject.operands);
            if let Some(why) = types.iter().zip(results).find_map(|(ty, value)| contradiction(*ty, value)) {
                let types: Vec<String> = after.params(after.root()).map(|param| after.ty(param).to_string()).collect();
                self.tally.wrong.insert(format!("{:?} {name} of {}: {why}", subject.era, types.join(" ")));
            }
            let lacks = types.iter().zip(results).find_map(|(ty, value)| missing(*ty, value));
            if let Some(why) = lacks.filter(|_| i == 0) {
                whole = false;
                // Up to 1.4 mixed element types are refused or have other results, and the table
                // says nothing of them.
                if !may_lack && subject.era == Era::V2 {
                    self.tally.missing.insert(format!("{:?} {name}: {why}", subject.era));
                }
            }
        }
        whole
    }

    /// A line that a program can ask PyTorch about.
    fn dump(&mut self, results: &[IValue], operands: &[Operand], schema: &Schema) {
        if self.era == Era::V2 && std::env::var_os("JITOPT_SHAPES_DUMP").is_some() {
            let mut shapes = Vec::new();
            let mut note = |tensor: &Tensor| shapes.push(format!("{}{:?}", tensor.dtype().name(), tensor.shape()));
            results.iter().for_each(|value| value.each_tensor(&mut note));
            let operands: Vec<String> = operands.iter().map(|operand| format!("{operand:?}")).collect();
            let (kind, overload) = (self.kind, schema.overload);
            let line = format!("{kind}\t{overload}\t{}\t{}", operands.join("\t"), shapes.join(" "));
            self.tally.dump.push(line);
        }
    }

    /// Operands that are changed as long as they run.
    fn wander(&mut self, schema: &'static Schema, first: Vec<Operand>, steps: usize) {
        let mut at = first.clone();
        for _ in 0..steps {
            if self.dice.one_in(6) {
                at.clone_from(&first);
            }
            let next = changed(schema, &at, &mut self.dice);
            if next != at && self.check(schema, &next) {
                at = next;
            }
        }
    }

    /// Operands that the generator of inputs finds.
    fn generated(&self, schema: &'static Schema, seed: u64) -> Option<Vec<Operand>> {
        let mut graph = Graph::new();
        graph.era = self.era;
        let root = graph.root();
        let operands: Vec<_> = schema.formals.iter().map(|formal| graph.add_param(root, formal.ty)).collect();
        let node = graph.create(schema.kind);
        graph.set_inputs(node, operands.into_iter());
        schema.returns.iter().for_each(|formal| {
            graph.add_output(node, formal.ty);
        });
        graph.append(root, node);
        let env = Environment::default();
        let call = Call { graph: &graph, node, schema: Some(schema), args: &[], env: &env };
        // Operands with a default have that; None is one only for even seeds.
        let kept = |value: &IValue| !value.is_none() || seed.is_multiple_of(2);
        let given = schema.formals.iter().map(|formal| call.get(formal.name).filter(kept)).collect();
        let made = Generator::new(seed).complete(&graph, &env, given);
        made.into_iter().map(|value| Operand::of(&value.unwrap_or(IValue::None))).collect()
    }

    /// All sets of operands to start from.
    fn starts(&self, schema: &'static Schema) -> Vec<Vec<Operand>> {
        let lines = gradient_operands::called(self.kind).iter().chain(gradient_operands::shaped(self.kind));
        let parsed = lines.filter_map(|line| line.split_whitespace().map(Operand::parse).collect::<Option<Vec<_>>>());
        let fits = |operands: &Vec<Operand>| operands.len() == schema.formals.len();
        parsed.filter(fits).chain((0..3).filter_map(|seed| self.generated(schema, seed))).collect()
    }

    fn all(&mut self, schemas: &[&'static Schema]) {
        for &schema in schemas {
            let starts = self.starts(schema);
            let (mut begun, most) = (0, starts.len());
            for start in starts {
                if self.check(schema, &start) {
                    begun += 1;
                    let steps = steps() * 3 / most.max(1) + 4;
                    self.wander(schema, start, steps);
                }
            }
            let _ = begun;
        }
    }
}

/// The results of a graph on its inputs. A panicking operator is reported as an error of its own.
fn outcome(graph: &Graph, inputs: &[IValue]) -> Option<Vec<IValue>> {
    let ran = || Outcome::of(graph, &Settings::default(), inputs, Precision::Typed).results.ok();
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(ran)).unwrap_or_else(|_| {
        let params: Vec<String> = inputs.iter().map(|value| value.ty().to_string()).collect();
        println!("PANIC on {}", params.join(" "));
        PANICS.with(|all| all.set(all.get() + 1));
        None
    })
}

thread_local! {
    /// How many runs of this thread ended in a panic.
    static PANICS: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// The number of tensors in a list.
fn length(value: &IValue) -> Option<usize> {
    if let IValue::List(list) = value { Some(list.borrow().len()) } else { None }
}

// ---- all of them

fn tally(kind: &'static str) -> Tally {
    let pipelines =
        ["shape-analysis{precise}", "shape-analysis"].map(|text| Pipeline::parse(text, &REGISTRY).expect("a pipeline"));
    let mut tally = Tally::default();
    PANICS.set(0);
    for era in Era::ALL {
        let operator = ops::operator(era, Symbol::new(kind));
        let schemas: Vec<&'static Schema> = operator.schemas.iter().filter(|schema| is_tried(schema)).collect();
        let seed = kind.bytes().fold(7u64, |hash, byte| hash.wrapping_mul(31).wrapping_add(byte.into()));
        let dice = Dice(seed);
        Trial { kind, era, pipelines: &pipelines, dice, tally: &mut tally }.all(&schemas);
    }
    tally.panics = PANICS.get();
    tally
}

fn kinds() -> Vec<&'static str> {
    let only = std::env::var("JITOPT_SHAPES").unwrap_or_default();
    let wanted = |kind: &&str| only.is_empty() || only.split(',').any(|one| one == *kind);
    let makes = |kind: &&'static str| {
        Era::ALL.iter().any(|&era| ops::operator(era, Symbol::new(kind)).schemas.iter().any(is_tried))
    };
    library::kinds().collect::<BTreeSet<_>>().into_iter().filter(wanted).filter(makes).collect()
}

fn lines<'a>(all: impl Iterator<Item = &'a String>, most: usize) -> String {
    all.take(most).map(|line| format!("  {line}\n")).collect()
}

/// The state of a kind: `wrong` if a type contradicts a run, mostly one on operands that PyTorch
/// refuses and the interpreter accepts; `missing` if a type is less complete than a run; `untried`
/// if no operands ran. `None` if all is inferred correctly.
fn state(tally: &Tally) -> Option<&'static str> {
    match () {
        () if tally.panics > 0 => Some("panics"),
        () if !tally.wrong.is_empty() => Some("wrong"),
        () if !tally.missing.is_empty() => Some("missing"),
        () if tally.ran == 0 => Some("untried"),
        () => None,
    }
}

#[test]
fn inferred_shapes_are_those_of_results() {
    let kinds = kinds();
    let tallies = parallel::each(&kinds, |kind| tally(kind));
    let document = std::fs::read_to_string(OPEN).unwrap_or_default();
    let fields = |line: &'static str| {
        line.split_once(' ').map(|(kind, rest)| (kind, rest.split_once(": ").unwrap_or((rest, "?"))))
    };
    let document: &'static str = Box::leak(document.into_boxed_str());
    let all: BTreeMap<&str, (&str, &str)> = document.lines().filter_map(fields).collect();
    let listed: BTreeMap<&str, &str> = all.iter().map(|(kind, (state, _))| (*kind, *state)).collect();
    let argued = |reason: &str| reason.trim().len() > 10;
    let unargued: Vec<&str> = all.iter().filter(|(_, (_, reason))| !argued(reason)).map(|(kind, _)| *kind).collect();
    let (mut report, mut new, mut failed) = (String::new(), String::new(), 0);
    let (mut ran, mut checked, mut overloads) = (0, 0, 0);
    for (kind, tally) in kinds.iter().zip(&tallies) {
        (ran, checked, overloads) = (ran + tally.ran, checked + tally.checked, overloads + tally.seen.len());
        let state = state(tally);
        if let Some(state) = state {
            let reason = all.get(kind).map_or("?", |(_, reason)| reason);
            let _ = writeln!(new, "{kind} {state}: {reason}");
        }
        if state == listed.get(kind).copied() {
            continue;
        }
        failed += 1;
        let (wrong, missing) = (lines(tally.wrong.iter(), 3), lines(tally.missing.iter(), 3));
        let listed = listed.get(kind).copied().unwrap_or("complete");
        let state = state.unwrap_or("complete");
        let _ = write!(report, "{kind}: {state}, listed as {listed}; ran {}\n{wrong}{missing}", tally.ran);
    }
    if let Some(path) = std::env::var_os("JITOPT_SHAPES_DUMP") {
        let dump: Vec<String> = tallies.iter().flat_map(|tally| tally.dump.iter().cloned()).collect();
        std::fs::write(path, dump.join("\n")).expect("a file for what ran");
    }
    println!("{} kinds, {overloads} overloads ran {ran} times, {checked} inferences", kinds.len());
    if std::env::var_os("BLESS").is_some_and(|value| !value.is_empty()) {
        std::fs::write(OPEN, new).expect("the list can be written");
        println!("{report}");
    } else {
        assert!(failed == 0, "{failed} of {} kinds:\n{report}", kinds.len());
        assert!(unargued.is_empty(), "lines of shape_coverage.txt without a reason: {}", unargued.join(", "));
    }
}
