//! `src/interpreter/coverage.md` states which operators run on which element types, and for which
//! of them the results match recorded ones of PyTorch.
//!
//! Operands are generated for each overload once, and then tried with all element types, so what is
//! refused is refused for its element type. What matched comes from the recorded runs, of which the
//! repository holds a part. So `BLESS=1` with `JITOPT_CORPUS` writes the whole document, and
//! without it what the document calls matched is believed, as long as it has all that the runs in
//! the repository match.

use crate::support::cases;
use crate::support::parallel;
use crate::support::recorded;

use jitopt_core::interpreter::generator::Generator;
use jitopt_core::interpreter::{Call, Environment, IValue, library};
use jitopt_core::ir::{Graph, Node};
use jitopt_core::ops::rules::Nondeterminism;
use jitopt_core::ops::schema::Schema;
use jitopt_core::ops::{self, Operator};
use jitopt_core::symbol::Symbol;
use jitopt_core::tensor::{DType, Precision, Tensor};
use jitopt_core::types::era::Era;
use jitopt_core::types::release::Release;
use jitopt_core::types::{Type, TypeKind};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

/// The columns, in groups: bool, integers, floating point, complex.
const COLUMNS: &[&[DType]] = &[
    &[DType::Bool],
    &[DType::Byte, DType::Char, DType::Short, DType::Int, DType::Long],
    &[DType::Half, DType::BFloat16, DType::Float, DType::Double],
    &[DType::ComplexFloat, DType::ComplexDouble],
];

const DOCUMENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../src/interpreter/coverage.md");

const TITLE: &str = "\
# Which operators run on which element types

`cargo xtask bless` writes this file, `tools/opt/tests/suite/coverage_matrix.rs` checks it. Each
line is an operator kind with a kernel. Each letter stands for an element type, in this order:

    bool  u8 i8 i16 i32 i64  f16 bf16 f32 f64  c64 c128

- `M`: matched. A recorded PyTorch run with an operand or a result of this type is reproduced: types,
  shapes and elements
- `r`: runs. A call with generated operands of this type returns
- `-`: refused. The same call raises an exception or is not supported
- `.`: not tried. No fitting operands were found

An in-place kind such as `aten::add_` runs the kernel of the kind without the underscore and shares
its line. Types that only one of the two tested versions, 1.3 and 2.15, refuses are listed after the
letters.
";

/// How often operands are generated for an overload, until one runs.
const SEEDS: u64 = 2;

/// Larger operands are what a search ended with that found nothing: their conversions take half of
/// the time of the test, and none runs.
const MOST_ELEMENTS: usize = 1 << 16;

fn columns() -> impl Iterator<Item = DType> {
    COLUMNS.iter().flat_map(|group| group.iter().copied())
}

fn kinds() -> Vec<&'static str> {
    library::kinds().collect::<BTreeSet<_>>().into_iter().collect()
}

// ---- runs

/// Whether a type contains a tensor.
fn has_tensor(ty: Type) -> bool {
    match ty.kind() {
        TypeKind::Tensor(_) => true,
        TypeKind::Optional(inner) | TypeKind::List(inner) | TypeKind::Future(inner) => has_tensor(*inner),
        TypeKind::Tuple(parts) => parts.iter().any(|&part| has_tensor(part)),
        TypeKind::Dict(_, value) => has_tensor(*value),
        _ => false,
    }
}

fn takes_tensors(schema: &Schema) -> bool {
    schema.formals.iter().any(|formal| has_tensor(formal.ty))
}

fn is_about_tensors(schema: &Schema) -> bool {
    takes_tensors(schema) || schema.returns.iter().any(|formal| has_tensor(formal.ty))
}

/// A graph of one node, whose operands are the parameters.
fn graph_of(schema: &Schema, era: Era) -> (Graph, Node) {
    let mut graph = Graph::new();
    graph.set_release(Release::of(era));
    let root = graph.root();
    let operands: Vec<_> = schema.formals.iter().map(|formal| graph.add_param(root, formal.ty)).collect();
    let node = graph.create(schema.kind);
    graph.set_inputs(node, operands.into_iter());
    for formal in &schema.returns {
        graph.add_output(node, formal.ty);
    }
    graph.append(root, node);
    (graph, node)
}

/// One overload, ready to be called.
struct Trial {
    graph: Graph,
    node: Node,
    schema: &'static Schema,
    env: Environment,
}

impl Trial {
    fn new(schema: &'static Schema, era: Era) -> Trial {
        let (graph, node) = graph_of(schema, era);
        let mut env = Environment::default();
        env.max_steps = Some(1000);
        Trial { graph, node, schema, env }
    }

    /// Operands that fit, if they are found: defaults where there are some.
    fn operands(&self, seed: u64) -> Vec<IValue> {
        let none = Call { graph: &self.graph, node: self.node, schema: Some(self.schema), args: &[], env: &self.env };
        // Optional operands are left out, except for the last seed: `aten::clamp` needs at least
        // one bound.
        let left_out = |value: &IValue| !value.is_none() || seed == 1;
        let given = self.schema.formals.iter().map(|formal| none.get(formal.name).filter(left_out)).collect();
        let made = Generator::new(seed).complete(&self.graph, &self.env, given);
        made.into_iter().map(|value| value.unwrap_or(IValue::None)).collect()
    }

    /// Element types of operands and results, when it returns.
    fn types(&self, args: &[IValue]) -> Option<BTreeSet<DType>> {
        let call = Call { graph: &self.graph, node: self.node, schema: Some(self.schema), args, env: &self.env };
        let results = library::find(self.schema.kind)?.run(&call).ok()?;
        let mut seen = BTreeSet::new();
        let values = args.iter().chain(&results);
        values.for_each(|value| value.each_tensor(&mut |tensor| seen.extend([tensor.dtype()])));
        Some(seen)
    }

    /// The element types of the columns that it runs with. Operands that were found in the other
    /// release are tried before others are searched for, which takes most of the time.
    fn ran(&self, found: &mut Found) -> BTreeSet<DType> {
        let mut ran = BTreeSet::new();
        for seed in 1..=SEEDS {
            if !ran.is_empty() {
                break;
            }
            let key = (self.schema.to_string(), seed);
            if let Some(operands) = found.get(&key) {
                ran = self.ran_with(operands);
            }
            if ran.is_empty() {
                let operands = self.operands(seed);
                ran = self.ran_with(&operands);
                found.insert(key, operands);
            }
        }
        ran
    }

    fn ran_with(&self, operands: &[IValue]) -> BTreeSet<DType> {
        let mut elements = 0;
        operands.iter().for_each(|value| value.each_tensor(&mut |tensor| elements += tensor.numel()));
        if elements > MOST_ELEMENTS {
            return BTreeSet::new();
        }
        let runs = |args: Vec<IValue>, dtype| self.types(&args).is_some_and(|types| types.contains(&dtype));
        let any = |&dtype: &DType| variants(self.schema, operands, dtype).into_iter().any(|args| runs(args, dtype));
        columns().filter(any).collect()
    }
}

/// Operands by schema and seed.
type Found = BTreeMap<(String, u64), Vec<IValue>>;

/// The operands with another element type: all tensors, those of the type of the first, or the
/// value of `dtype`.
fn variants(schema: &Schema, operands: &[IValue], dtype: DType) -> Vec<Vec<IValue>> {
    let mut first = None;
    let mut note = |tensor: &Tensor| first = first.or(Some(tensor.dtype()));
    operands.iter().for_each(|value| value.each_tensor(&mut note));
    let Some(first) = first else {
        let mut operands = operands.to_vec();
        if let Some(at) = schema.formal("dtype").and_then(|at| operands.get_mut(at)) {
            *at = IValue::from(dtype);
        }
        return vec![operands];
    };
    let all = |only: Option<DType>| operands.iter().map(|value| converted(value, only, dtype)).collect();
    vec![all(None), all(Some(first))]
}

fn converted(value: &IValue, only: Option<DType>, to: DType) -> IValue {
    match value {
        IValue::Tensor(tensor) if only.is_none_or(|only| only == tensor.dtype()) => {
            tensor.converted(to, Precision::Typed).into()
        }
        IValue::Tensor(tensor) => tensor.copied().into(),
        IValue::List(list) => {
            IValue::list(list.borrow().iter().map(|value| converted(value, only, to)).collect::<Vec<_>>())
        }
        other => other.clone(),
    }
}

/// The element types that run in a release; `None` without an overload with tensors.
fn ran(kind: &'static str, era: Era, found: &mut Found) -> Option<BTreeSet<DType>> {
    let operator: &Operator = ops::operator(era, Symbol::new(kind));
    let tried = |schema: &&Schema| is_about_tensors(schema) && schema.formal("out").is_none();
    let schemas: Vec<&'static Schema> = operator.schemas.iter().filter(tried).collect();
    (!schemas.is_empty()).then(|| schemas.into_iter().flat_map(|schema| Trial::new(schema, era).ran(found)).collect())
}

/// The overloads of a kind, in 1.3 and in 2.15.
type Tried = [Option<BTreeSet<DType>>; 2];

fn tried() -> BTreeMap<&'static str, Tried> {
    let kinds = kinds();
    let rows = parallel::each(&kinds, |kind| {
        let mut found = Found::new();
        [Era::V1_3, Era::V2].map(|era| ran(kind, era, &mut found))
    });
    kinds.into_iter().zip(rows).collect()
}

// ---- matches

type Matched = BTreeSet<(&'static str, DType)>;

/// The line of a kind.
fn line_of(kind: &'static str, kinds: &BTreeSet<&'static str>) -> Option<&'static str> {
    let base = || kind.strip_suffix('_').filter(|base| kinds.contains(base));
    kinds.contains(kind).then_some(kind).or_else(base)
}

/// The matches of recorded runs.
fn matched() -> Matched {
    let kinds: BTreeSet<&'static str> = kinds().into_iter().collect();
    let paths: Vec<String> = recorded::files().iter().map(|path| path.to_string_lossy().into_owned()).collect();
    let paths: Vec<&String> = paths.iter().filter(|path| path.contains("/numerics/")).collect();
    let seen = parallel::each(&paths, |path| cases::run(path).map(|seen| seen.0).unwrap_or_default());
    let seen = seen.into_iter().flatten();
    seen.filter_map(|(kind, dtype)| Some((line_of(kind, &kinds)?, dtype))).collect()
}

/// The matches that a document lists.
fn reported(document: &str) -> Matched {
    let kinds: BTreeSet<&'static str> = kinds().into_iter().collect();
    let mut matched = Matched::new();
    for line in document.lines() {
        let mut words = line.split_whitespace();
        let Some(kind) = words.next().and_then(|word| kinds.get(word)) else { continue };
        let cells: String = words.take(COLUMNS.len()).collect();
        let marked = columns().zip(cells.chars()).filter(|&(_, cell)| cell == 'M');
        matched.extend(marked.map(|(dtype, _)| (*kind, dtype)));
    }
    matched
}

// ---- the document

fn python(dtype: DType) -> &'static str {
    dtype.python_name()
}

/// The letter of a cell.
fn cell(kind: &'static str, dtype: DType, tried: &Tried, matched: &Matched) -> char {
    let ran: Vec<&BTreeSet<DType>> = tried.iter().flatten().filter(|ran| !ran.is_empty()).collect();
    match () {
        () if matched.contains(&(kind, dtype)) => 'M',
        () if ran.is_empty() => '.',
        () if ran.iter().any(|ran| ran.contains(&dtype)) => 'r',
        () => '-',
    }
}

/// The differences between the releases.
fn notes(tried: &Tried) -> String {
    let [old, new] = tried;
    match (old, new) {
        (Some(_), None) => "  1.3 only".to_owned(),
        (None, Some(_)) => "  2.15 only".to_owned(),
        (Some(old), Some(new)) if !old.is_empty() && !new.is_empty() => {
            let list = |version: &str, other: &BTreeSet<DType>, this: &BTreeSet<DType>| {
                let names: Vec<&str> = other.difference(this).map(|&dtype| python(dtype)).collect();
                if names.is_empty() { String::new() } else { format!("  {version} refuses {}", names.join(" ")) }
            };
            list("1.3", new, old) + &list("2.15", old, new)
        }
        _ => String::new(),
    }
}

fn row(kind: &'static str, tried: &Tried, matched: &Matched, sums: &mut BTreeMap<char, usize>) -> String {
    let mut cells = Vec::new();
    for group in COLUMNS {
        cells.push(group.iter().map(|&dtype| cell(kind, dtype, tried, matched)).collect::<String>());
    }
    cells.iter().flat_map(|cells| cells.chars()).for_each(|cell| *sums.entry(cell).or_default() += 1);
    format!("{kind:<44} {}{}", cells.join(" "), notes(tried))
}

/// Words in lines of at most 120 characters.
fn paragraph(words: &[&str]) -> String {
    let (mut text, mut length) = (String::new(), 0);
    for (i, word) in words.iter().enumerate() {
        let width = word.len() + 3;
        let gap = if i == 0 {
            ""
        } else if length + width > 118 {
            "\n"
        } else {
            " "
        };
        length = if gap == " " { length + width } else { width };
        let comma = if i + 1 < words.len() { "," } else { "" };
        let _ = write!(text, "{gap}`{word}`{comma}");
    }
    text
}

fn is_random(kind: &str) -> bool {
    let random = |era| {
        let operator = ops::operator(era, Symbol::new(kind));
        let known = |schema: &Schema| {
            is_about_tensors(schema) && operator.nondeterminism(Some(schema)) >= Nondeterminism::UnlessFalse(0)
        };
        operator.schemas.iter().any(known)
    };
    random(Era::V1_3) || random(Era::V2)
}

fn document(tried: &BTreeMap<&'static str, Tried>, matched: &Matched) -> String {
    let has_line = |kind: &str, tried: &Tried| {
        tried.iter().any(Option::is_some) || matched.iter().any(|(matched, _)| *matched == kind)
    };
    let (mut text, mut sums) = (TITLE.to_owned(), BTreeMap::new());
    text += "\n```text\n";
    let (mut lines, mut with, mut others) = (0, 0, Vec::new());
    for (kind, tried) in tried {
        if !has_line(kind, tried) {
            others.push(*kind);
            continue;
        }
        let row = row(kind, tried, matched, &mut sums);
        lines += 1;
        with += usize::from(row.contains('M'));
        text += &row;
        text += "\n";
    }
    let sum = |cell: char| sums.get(&cell).copied().unwrap_or_default();
    let (met, runs, refused, not) = (sum('M'), sum('r'), sum('-'), sum('.'));
    let _ = write!(
        text,
        "```\n\n{lines} kinds, {with} of them matched for some type.\nOf {} pairs of kind and type {met} match, \
         {runs} more run, {refused} are refused, {not} were not tried.\n",
        met + runs + refused + not
    );
    let random: Vec<&str> = tried.keys().copied().filter(|kind| is_random(kind)).collect();
    let _ = write!(
        text,
        "\n## Not tried\n\n{} kinds without tensors, or without a schema to generate operands from:\n{}\n",
        others.len(),
        paragraph(&others)
    );
    text += "\n## Random\n\nThe numbers come from our own generator and never match PyTorch's. Element types and shapes do match:\n";
    text += &paragraph(&random);
    text +=
        "\n\n## Excused\n\nRecorded runs whose results in doubles do not match, with the reason. All others match:\n\n";
    for (case, why) in cases::NOT_IN_DOUBLES {
        let _ = writeln!(text, "- `{case}`: {why}");
    }
    text
}

#[test]
fn the_coverage_document_is_up_to_date() {
    let bless = std::env::var_os("BLESS").is_some_and(|value| !value.is_empty());
    let whole = std::env::var_os("JITOPT_CORPUS").is_some();
    let written = std::fs::read_to_string(DOCUMENT).unwrap_or_default();
    let (reported, mut own) = (reported(&written), matched());
    if !whole {
        let missing: Vec<_> = own.difference(&reported).collect();
        assert!(bless || missing.is_empty(), "coverage.md does not say that these are met: {missing:?}");
        own.extend(reported);
    }
    let new = document(&tried(), &own);
    if bless {
        std::fs::write(DOCUMENT, &new).expect("the document can be written");
    } else if written != new {
        let differ = |(old, new): (&str, &str)| (old != new).then(|| format!("- {old}\n+ {new}"));
        let lines: Vec<String> = written.lines().zip(new.lines()).filter_map(differ).take(20).collect();
        panic!("coverage.md is another: `cargo xtask bless` writes it\n{}", lines.join("\n"));
    }
}
