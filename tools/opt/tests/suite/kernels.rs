//! Interpreter kernels on nonsensical operands of the declared types: there is always a result or
//! an exception, never a panic.
//!
//! `JITOPT_KERNELS` selects kinds by a part of their name, `JITOPT_ROUNDS` sets the number of runs
//! per overload.

use jitopt_core::interpreter::random::Philox;
use jitopt_core::interpreter::{Call, Environment, IValue, library};
use jitopt_core::ir::Graph;
use jitopt_core::ops::{self, schema::Formal};
use jitopt_core::symbol::Symbol;
use jitopt_core::tensor::{C128, DType, Device, Precision, Tensor};
use jitopt_core::text;
use jitopt_core::types::era::Era;
use jitopt_core::types::{Simple, Type, TypeKind};
use std::cell::RefCell;
use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};

thread_local! {
    static PLACE: RefCell<String> = const { RefCell::new(String::new()) };
}

const SHAPES: &[&[i64]] =
    &[&[], &[0], &[1], &[3], &[2, 3], &[3, 3], &[0, 3], &[1, 3], &[2, 1, 3], &[2, 4, 3, 3], &[1, 2, 2, 2, 2]];
const DTYPES: &[DType] = &[
    DType::Float,
    DType::Float,
    DType::Double,
    DType::Long,
    DType::Long,
    DType::Int,
    DType::Byte,
    DType::Bool,
    DType::Half,
    DType::ComplexFloat,
];
const STRANGE: &[i64] = &[i64::MAX, i64::MIN, i64::MIN + 1, 1 << 62, -(1 << 62), 1 << 40, 1 << 32];

fn int(draws: &mut Philox) -> i64 {
    if draws.one_in(12) { STRANGE[draws.below(STRANGE.len())] } else { draws.int(-4, 6) }
}

fn real(draws: &mut Philox) -> f64 {
    match draws.below(8) {
        0 => f64::NAN,
        1 => f64::INFINITY,
        2 => -0.0,
        3 => 1e300,
        _ => draws.normal() * 2.0,
    }
}

fn tensor(draws: &mut Philox, precision: Precision) -> IValue {
    if draws.one_in(60) {
        return IValue::Undefined;
    }
    let (shape, dtype) = (SHAPES[draws.below(SHAPES.len())], DTYPES[draws.below(DTYPES.len())]);
    let n = shape.iter().product::<i64>();
    let mut made = match dtype {
        DType::Long | DType::Int if draws.one_in(2) => {
            Tensor::of(&(0..n).map(|_| draws.int(-1, 3)).collect::<Vec<_>>(), dtype, shape, precision)
        }
        DType::Long => Tensor::of(&(0..n).map(|_| int(draws)).collect::<Vec<_>>(), dtype, shape, precision),
        DType::ComplexFloat => Tensor::of(
            &(0..n).map(|_| C128::new(real(draws), real(draws))).collect::<Vec<_>>(),
            dtype,
            shape,
            precision,
        ),
        _ => Tensor::of(&(0..n).map(|_| real(draws)).collect::<Vec<_>>(), dtype, shape, precision),
    };
    if made.rank() > 1 && draws.one_in(3) {
        made = made.transpose(0, made.rank() - 1);
    }
    if made.rank() > 0 && draws.one_in(6) {
        made = made.broadcast_to(&[&[2], made.shape()].concat()).unwrap_or(made);
    }
    made.into()
}

fn list(draws: &mut Philox, element: Type, precision: Precision) -> IValue {
    let n = draws.below(5);
    IValue::list((0..n).map(|_| value(draws, element, precision)).collect::<Vec<_>>())
}

fn word(draws: &mut Philox) -> &'static str {
    const TEXTS: &[&str] =
        &["mean", "sum", "amax", "prod", "linear", "none", "ij", "xy", "left", "tanh", "fro", "i,j->ij", "ij,jk", ""];
    TEXTS[draws.below(TEXTS.len())]
}

fn value(draws: &mut Philox, ty: Type, precision: Precision) -> IValue {
    match ty.kind() {
        TypeKind::Optional(inner) => {
            if draws.one_in(2) {
                IValue::None
            } else {
                value(draws, *inner, precision)
            }
        }
        TypeKind::List(element) => list(draws, *element, precision),
        TypeKind::Tensor(_) => tensor(draws, precision),
        TypeKind::Simple(Simple::Bool) => draws.one_in(2).into(),
        TypeKind::Simple(Simple::Float) => real(draws).into(),
        TypeKind::Simple(Simple::Str) => word(draws).into(),
        TypeKind::Simple(Simple::Device | Simple::DeviceObj) => {
            IValue::Device(Device::new(if draws.one_in(2) { "cpu" } else { "cuda" }))
        }
        TypeKind::Simple(Simple::Complex) => IValue::Complex(C128::new(real(draws), real(draws))),
        TypeKind::Simple(Simple::Int | Simple::None | Simple::Any) => int(draws).into(),
        _ => {
            if draws.one_in(3) {
                real(draws).into()
            } else {
                int(draws).into()
            }
        }
    }
}

fn operands(draws: &mut Philox, formals: &[Formal], precision: Precision) -> Vec<IValue> {
    let operand = |formal: &Formal| match (formal.name, formal.default) {
        ("dtype", _) if draws.one_in(2) => IValue::from(DTYPES[draws.below(DTYPES.len())]),
        (_, Some("None")) if draws.one_in(2) => IValue::None,
        _ => value(draws, formal.ty, precision),
    };
    formals.iter().map(operand).collect()
}

fn graph_with(kind: &str) -> Graph {
    let source = format!("graph():\n  %r : Tensor = {kind}()\n  return (%r)\n");
    text::parse(source.as_bytes(), text::ParseOptions::default()).expect("a node without operands is read").graph
}

/// The panics of the kernels of a kind: operands and location, one per location.
fn panics(kind: &'static str, rounds: usize) -> Vec<String> {
    let mut found = Vec::new();
    let graph = graph_with(kind);
    let node = graph.first(graph.root()).expect("it has a node");
    let kernel = library::find(Symbol::new(kind)).expect("it has a row");
    for era in [Era::V2, Era::V1_3] {
        for schema in ops::operator(era, Symbol::new(kind)).schemas.iter() {
            let mut draws = Philox::new(7, kind.len() as u64, 1);
            for round in 0..rounds {
                let mut env = Environment::default();
                env.precision = if round % 4 == 0 { Precision::Double } else { Precision::Typed };
                let args = operands(&mut draws, &schema.formals, env.precision);
                let shown = format!("{args:?}");
                let call = Call { graph: &graph, node, schema: Some(schema), args: &args, env: &env };
                if catch_unwind(AssertUnwindSafe(|| drop(kernel.run(&call)))).is_err() {
                    let place = PLACE.with(|place| place.borrow().clone());
                    if !found.iter().any(|text: &String| text.contains(&place)) {
                        found.push(format!("{}\n  {place}\n  {shown:.600}", schema.text(era)));
                    }
                }
            }
        }
    }
    found
}

fn setting(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

#[test]
fn kernels_never_panic() {
    let wanted = setting("JITOPT_KERNELS").unwrap_or_default();
    let wanted = |kind: &str| wanted.split(',').any(|part| kind.contains(part));
    let rounds = setting("JITOPT_ROUNDS").and_then(|n| n.parse().ok()).unwrap_or(40);
    std::panic::set_hook(Box::new(|info| {
        let place = info.location().map(ToString::to_string).unwrap_or_default();
        PLACE.with(|found| *found.borrow_mut() = format!("{place}: {}", info.payload_as_str().unwrap_or_default()));
    }));
    let mut kinds: Vec<&str> = library::kinds().filter(|kind| wanted(kind)).collect();
    kinds.sort_unstable();
    kinds.dedup();
    let verbose = setting("JITOPT_VERBOSE").is_some();
    let found: Vec<String> = (kinds.into_iter())
        .flat_map(|kind| {
            if verbose {
                let _ = writeln!(std::io::stderr(), "{kind}");
            }
            panics(kind, rounds)
        })
        .collect();
    let _ = std::panic::take_hook();
    assert!(found.is_empty(), "{} panics\n{}", found.len(), found.join("\n"));
}
