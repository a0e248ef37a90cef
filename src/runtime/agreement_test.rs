//! Kernels, executed nests and the interpreter agree where random groups found that they did not.

use super::{CpuBackend, Engine, Settings};
use crate::interpreter::{Environment, IValue, Machine, Release};
use crate::ir::Graph;
use crate::tensor::{DType, Precision, Tensor};
use crate::text::{ParseOptions, parse};
use crate::types::era::Era;

/// A graph of one group.
fn group(params: &str, lines: &str, result: &str) -> Graph {
    group_of(Era::V2, params, lines, result)
}

/// The same, as the releases of an era read it.
fn group_of(era: Era, params: &str, lines: &str, result: &str) -> Graph {
    let typed: Vec<String> = params.split(' ').map(|param| format!("{param} : Tensor")).collect();
    let (typed, given) = (typed.join(", "), params.split(' ').collect::<Vec<_>>().join(", "));
    let text = format!(
        "graph({typed}):\n  %r : Tensor = prim::FusionGroup_0({given})\n  return (%r)\nwith prim::FusionGroup_0 = graph({typed}):\n  %none : None = prim::Constant()\n  %no : bool = prim::Constant[value=0]()\n  %yes : bool = prim::Constant[value=1]()\n  %half : float = prim::Constant[value=0.5]()\n  %dims : int[] = prim::Constant[value=[0]]()\n  {lines}\n  return ({result})\n"
    );
    let options = ParseOptions::of(Release::of(era));
    parse(text.as_bytes(), options).unwrap_or_else(|why| panic!("{text}\n{why:?}")).graph
}

/// A view of memory that counts up.
fn view(dtype: DType, shape: &[i64], strides: &[i64]) -> IValue {
    let reach: i64 = shape.iter().zip(strides).map(|(size, stride)| (size - 1) * stride).sum();
    let numbers: Vec<f64> = (0..=reach).map(|i| (i % 7 + 1) as f64 / 3.0).collect();
    let whole = Tensor::of(&numbers, dtype, &[reach + 1], Precision::Typed);
    IValue::Tensor(whole.as_strided(shape, strides, 0).expect("it is in memory"))
}

fn run(graph: &Graph, operands: &[IValue], backend: Option<&CpuBackend>) -> Tensor {
    let env = Environment::default();
    let mut machine = Machine::new(graph, &env);
    if let Some(backend) = backend {
        machine = machine.backed_by(backend);
    }
    let results = machine.run(operands.to_vec()).expect("it runs");
    if let Some(backend) = backend {
        assert_eq!(backend.counts().launched, 1, "{:?}", backend.remarks());
    }
    results[0].tensor().expect("a tensor").clone()
}

/// Strides, by PyTorch 2.15. Those of sizes of 1 decide what later operators give.
#[test]
fn sizes_of_one_keep_their_strides_in_conversions_and_norms() {
    let norm = "%f : Tensor = aten::_cast_Float(%x, %no)
  %y : Tensor, %mean : Tensor, %scale : Tensor = aten::native_batch_norm(%f, %none, %none, %none, %none, %yes, %half, %half)";
    let (of_norm, of_old_norm) = (group("%x", norm, "%y"), group_of(Era::V1_3, "%x", norm, "%y"));
    let of_quotient = group(
        "%a %b",
        "%l : Tensor = aten::_cast_Long(%b, %no)
  %y : Tensor = aten::mul(%a, %l)",
        "%y",
    );
    let cases: [(&Graph, Vec<IValue>, &[i64]); 4] = [
        (&of_old_norm, vec![view(DType::Int, &[2, 2, 3, 1], &[6, 1, 2, 1])], &[6, 3, 1, 1]),
        (&of_norm, vec![view(DType::Int, &[1, 2, 3, 1], &[6, 1, 2, 1])], &[6, 1, 2, 2]),
        (&of_norm, vec![view(DType::Int, &[2, 1, 3, 1], &[6, 1, 1, 1])], &[3, 3, 1, 1]),
        (
            &of_quotient,
            vec![view(DType::Float, &[5, 2, 3, 1], &[0, 3, 0, 2]), view(DType::Float, &[5, 2, 3, 1], &[6, 1, 2, 6])],
            &[6, 3, 1, 3],
        ),
    ];
    for (graph, operands, wanted) in cases {
        let backend = CpuBackend::new(Settings { engine: Engine::Nests, guarded: true, ..Settings::default() });
        let (plain, kernel) = (run(graph, &operands, None), run(graph, &operands, Some(&backend)));
        assert_eq!((plain.strides(), kernel.strides()), (wanted, wanted), "{graph}");
    }
}

/// Each share of a launch has its own sums of columns, in nests as in compiled kernels.
#[test]
fn sums_of_columns_have_the_bits_of_shares() {
    let graph = group(
        "%x",
        "%axis : int = prim::Constant[value=1]()
  %t : Tensor = aten::tanh(%x)
  %s : Tensor = aten::softmax(%t, %axis, %none)
  %p : Tensor = aten::mul(%s, %x)
  %y : Tensor = aten::sum(%p, %dims, %no, %none)",
        "%y",
    );
    let x = [view(DType::Double, &[301, 5], &[5, 1])];
    let found = |engine: Engine, always_threads: usize| {
        let settings = Settings {
            engine,
            guarded: true,
            scalar: true,
            always_threads: Some(always_threads),
            ..Settings::default()
        };
        let y = run(&graph, &x, Some(&CpuBackend::new(settings))).read::<f64>();
        y.into_iter().map(f64::to_bits).collect::<Vec<_>>()
    };
    let alone = found(Engine::Nests, 1);
    for threads in [1, 2, 3] {
        assert_eq!(found(Engine::Nests, threads), found(Engine::Compiled, threads), "{threads} threads");
    }
    assert_ne!(found(Engine::Nests, 3), alone, "the order of the sum does not show");
}
