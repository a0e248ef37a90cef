//! Random legal plans compute what the interpreter does, and plans survive being printed and read.

use super::{CpuBackend, Settings};
use crate::codegen::kernel::Direction;
use crate::codegen::kernel_plan::{Ahead, Plan, PlanFile, check};
use crate::codegen::target::CPU;
use crate::codegen::whole_graph::{Planned, kernels};
use crate::interpreter::{Environment, IValue, Machine};
use crate::ir::Graph;
use crate::tensor::{DType, Precision, Tensor};
use crate::text::{ParseOptions, parse};
use std::sync::Arc;

/// The kernels: sections of one operand of two dimensions, `%x`.
const SECTIONS: [&str; 5] = [
    // Points, with expensive values that others read.
    "%t : Tensor = aten::tanh(%x)
  %s : Tensor = aten::sigmoid(%x)
  %m : Tensor = aten::mul(%t, %s)
  %y : Tensor = aten::exp(%m)",
    // Inner reductions: kept values, and sums of floats.
    "%y : Tensor = aten::softmax(%x, %one, %none)",
    // Variances, with and without means.
    "%v : Tensor = aten::var(%x, %dims, %no, %yes)
  %m : Tensor = aten::mean(%x, %dims, %yes, %none)
  %c : Tensor = aten::sub(%x, %m, %one)
  %e : Tensor = aten::exp(%c)
  %y : Tensor = aten::mul(%e, %v)",
    // Outer reductions.
    "%m : Tensor = aten::mean(%x, %outer, %yes, %none)
  %v : Tensor = aten::var(%x, %outer, %no, %yes)
  %c : Tensor = aten::sub(%x, %m, %one)
  %y : Tensor = aten::mul(%c, %v)",
    // A scan.
    "%e : Tensor = aten::exp(%x)
  %y : Tensor = aten::cumsum(%e, %one, %none)",
];
/// Random plans of each kernel.
const PLANS: u64 = 12;

fn graph(section: &str) -> Graph {
    let constants = "%none : None = prim::Constant()
  %one : int = prim::Constant[value=1]()
  %no : bool = prim::Constant[value=0]()
  %yes : bool = prim::Constant[value=1]()
  %dims : int[] = prim::Constant[value=[1]]()
  %outer : int[] = prim::Constant[value=[0]]()";
    let text = format!(
        "graph(%a : Float(*, *)):\n  %r : Tensor = prim::FusionGroup_0(%a)\n  return (%r)\nwith prim::FusionGroup_0 = graph(%x : Float(*, *)):\n  {constants}\n  {section}\n  return (%y)\n"
    );
    parse(text.as_bytes(), ParseOptions::default()).unwrap_or_else(|why| panic!("{text}\n{why:?}")).graph
}

/// A generator of numbers, seeded.
pub(super) struct Draws(pub(super) u64);

impl Draws {
    pub(super) fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }

    pub(super) fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }
}

/// A plan with random choices, legal or not.
pub(super) fn random(chosen: &Plan, steps: usize, stores: usize, draws: &mut Draws) -> Plan {
    let mut plan = chosen.clone();
    plan.tile = 64 * (1 + draws.below(17) as usize);
    plan.part = 64 * (1 + draws.below(4) as usize);
    plan.alone = (0..steps).filter(|_| draws.one_in(2)).collect();
    plan.apart.retain(|_| !draws.one_in(3));
    plan.kept = plan.kept.into_iter().filter(|_| !draws.one_in(3)).collect();
    plan.streamed = (0..stores).filter(|_| draws.one_in(2)).collect();
    for phase in &mut plan.phases {
        // Points have no blocks and no rows, and their plans say nothing of them.
        if plan.direction == Direction::Points {
            continue;
        }
        phase.block = 1 + draws.below(700) as usize;
        phase.scan_block = phase.block;
        phase.first = if draws.one_in(2) { phase.block } else { 1 + draws.below(phase.block as u64) as usize };
        phase.together = [1, 1, 1, 1, 2, 8][draws.below(6) as usize];
        phase.ahead = [Ahead::Nothing, Ahead::Elements(64), Ahead::NextRow(1 << 12)][draws.below(3) as usize];
    }
    plan
}

fn results(graph: &Graph, input: &Tensor, backend: Option<&CpuBackend>) -> Vec<f64> {
    let env = Environment::default();
    let mut machine = Machine::new(graph, &env);
    if let Some(backend) = backend {
        machine = machine.backed_by(backend);
    }
    let results = machine.run(vec![IValue::Tensor(input.clone())]).expect("it runs");
    results[0].tensor().expect("a tensor").read::<f64>()
}

#[test]
fn random_legal_plans_compute_the_same() {
    let (mut legal, mut refused) = (0, 0);
    for (k, section) in (0..).zip(SECTIONS) {
        let graph = graph(section);
        let shape = [9_i64, 700];
        let numbers: Vec<f64> = (0..9 * 700).map(|i| f64::from(i * 37 % 211) / 70.0 - 1.5).collect();
        let input = Tensor::of(&numbers, DType::Float, &shape, Precision::Typed);
        let wanted = results(&graph, &input, None);
        let Planned { kernel, traversal, plan: chosen, outputs, .. } = kernels(&graph, None, &CPU).planned.remove(0);
        let mut draws = Draws(k);
        for _ in 0..PLANS {
            let plan = random(&chosen, kernel.steps.len(), kernel.stores.len(), &mut draws);
            let text = plan.print(&outputs, &kernel);
            let file = PlanFile::parse(&text).unwrap_or_else(|why| panic!("{why}\n{text}"));
            let read = file.find(&outputs).expect("the group").resolve(&kernel, &traversal, &CPU);
            assert_eq!(read.is_ok(), check(&kernel, &traversal, &plan).is_ok(), "{read:?}\n{text}");
            let Ok(read) = read else {
                refused += 1;
                continue;
            };
            assert_eq!(read.print(&outputs, &kernel), text);
            legal += 1;
            let settings = Settings {
                scalar: true,
                guarded: true,
                plans: Some(Arc::new(file)),
                threads: Some(1),
                stream: Some(draws.one_in(2)),
                ..Settings::default()
            };
            let backend = CpuBackend::new(settings);
            let found = results(&graph, &input, Some(&backend));
            assert_eq!(
                (backend.counts().launched, backend.unused_plans().len()),
                (1, 0),
                "{:?}\n{text}",
                backend.remarks()
            );
            for (found, wanted) in found.iter().zip(&wanted) {
                assert!(
                    (found - wanted).abs() <= 1e-4 * wanted.abs() + 1e-6,
                    "{found} is not {wanted}\n{section}\n{text}"
                );
            }
        }
    }
    assert!(legal >= 8 && refused >= 4, "{legal} legal, {refused} refused");
}
