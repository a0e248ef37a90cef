//! Random legal plans of many random kernels compute what the interpreter does.
//!
//! Their nests are executed, which takes no compiler: 200 kernels with 4 plans each in less than a
//! minute on two cores. All 5,000 plans take some five minutes:
//!
//! ```text
//! JITOPT_PLANS=25 cargo test -p jitopt-core --lib drawn_plan
//! ```

#![allow(clippy::print_stdout, reason = "figures are for those who ask with --nocapture")]

use super::plan_test::{Draws, random};
use super::{CpuBackend, Engine, Settings};
use crate::codegen::kernel::Direction;
use crate::codegen::kernel_plan::{PlanFile, check};
use crate::codegen::target::CPU;
use crate::codegen::whole_graph::{Planned, kernels};
use crate::interpreter::{Environment, IValue, Machine};
use crate::ir::Graph;
use crate::tensor::{DType, Precision, Tensor};
use crate::text::{ParseOptions, parse};
use std::collections::BTreeMap;
use std::sync::Arc;

const KERNELS: u64 = 200;
/// Legal plans of each kernel.
const PLANS: u64 = 4;
/// Most plans that are drawn for a legal one.
const TRIES: u64 = 40;

const CHEAP: [&str; 4] = ["relu", "neg", "abs", "sqrt"];
const EXPENSIVE: [&str; 5] = ["exp", "tanh", "sigmoid", "erf", "sin"];
const PAIRS: [&str; 4] = ["mul(%a, %b)", "sub(%a, %b, %one)", "add(%a, %b, %one)", "maximum(%a, %b)"];

/// A section that is being drawn.
struct Section<'d> {
    draws: &'d mut Draws,
    lines: Vec<String>,
    /// The dimensions that are reduced, as a constant, and the only one, if it is.
    single: Option<i64>,
}

impl Section<'_> {
    fn pick<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.draws.below(all.len() as u64) as usize]
    }

    fn line(&mut self, text: &str) -> String {
        let name = format!("%v{}", self.lines.len());
        self.lines.push(format!("{name} : Tensor = aten::{text}"));
        name
    }

    fn unary(&mut self, of: &str) -> String {
        let kind = if self.draws.one_in(2) { self.pick(&CHEAP) } else { self.pick(&EXPENSIVE) };
        match kind {
            "sqrt" => {
                let size = self.line(&format!("abs({of})"));
                self.line(&format!("sqrt({size})"))
            }
            _ => self.line(&format!("{kind}({of})")),
        }
    }

    fn pair(&mut self, a: &str, b: &str) -> String {
        let text = self.pick(&PAIRS).replace("%a", a).replace("%b", b);
        self.line(&text)
    }

    /// A reduction that keeps its dimensions, or a value for each element.
    fn reduced(&mut self, of: &str) -> String {
        match (self.draws.below(10), self.single) {
            (0 | 1, _) => self.line(&format!("sum({of}, %dims, %yes, %none)")),
            (2, _) => self.line(&format!("mean({of}, %dims, %yes, %none)")),
            (3, _) => self.line(&format!("amax({of}, %dims, %yes)")),
            (4, _) => self.line(&format!("amin({of}, %dims, %yes)")),
            (5, _) => self.line(&format!("var({of}, %dims, %no, %yes)")),
            (6, _) => self.line(&format!("std({of}, %dims, %yes, %yes)")),
            (7, Some(_)) => self.line(&format!("softmax({of}, %dim, %none)")),
            (8, Some(_)) => self.line(&format!("cumsum({of}, %dim, %none)")),
            _ => self.line(&format!("logsumexp({of}, %dims, %yes)")),
        }
    }
}

/// A kernel: its graph, and the sizes of its operand.
fn drawn(draws: &mut Draws) -> (Graph, Vec<i64>, DType) {
    const SPACES: [(&[i64], &[i64]); 10] = [
        (&[7, 300], &[]),
        (&[2, 3, 9, 141], &[]),
        (&[5, 300], &[1]),
        (&[3, 700], &[1]),
        (&[300, 5], &[0]),
        (&[40, 70], &[0]),
        (&[3, 260], &[0, 1]),
        (&[3, 50, 9], &[-2]),
        (&[4, 7, 60], &[0, 2]),
        (&[3, 20, 30], &[1, 2]),
    ];
    let (shape, dims) = SPACES[draws.below(SPACES.len() as u64) as usize];
    let dtype = if draws.one_in(4) { DType::Double } else { DType::Float };
    let single = if let [dim] = dims { Some(*dim) } else { None };
    let mut section = Section { draws, lines: Vec::new(), single };
    let mut known = vec!["%x".to_owned()];
    if shape.len() == 4 {
        // Windows over images, with padding.
        const POOLS: [&str; 2] =
            ["max_pool2d(%x, %three, %two, %pad, %pad, %no)", "avg_pool2d(%x, %three, %two, %pad, %no, %no, %none)"];
        let pool = section.pick(&POOLS);
        known = vec![section.line(pool)];
    }
    for _ in 0..1 + section.draws.below(3) {
        let last = known[known.len() - 1].clone();
        known.push(section.unary(&last));
    }
    for _ in 0..if dims.is_empty() { 0 } else { 1 + section.draws.below(2) } {
        let (last, before) = (known[known.len() - 1].clone(), known[known.len() - 2].clone());
        let reduced = section.reduced(&last);
        known.push(section.pair(&before, &reduced));
    }
    let (last, before) = (known[known.len() - 1].clone(), known[known.len() - 2].clone());
    known.push(section.pair(&last, &before));
    let ty = format!("{}({})", dtype.name(), vec!["*"; shape.len()].join(", "));
    let text = format!(
        "graph(%a : {ty}):\n  %r : Tensor, %q : Tensor = prim::FusionGroup_0(%a)\n  return (%r, %q)\nwith prim::FusionGroup_0 = graph(%x : {ty}):\n  %none : None = prim::Constant()\n  %one : int = prim::Constant[value=1]()\n  %no : bool = prim::Constant[value=0]()\n  %yes : bool = prim::Constant[value=1]()\n  %dims : int[] = prim::Constant[value={dims:?}]()\n  %dim : int = prim::Constant[value={}]()\n  %three : int[] = prim::Constant[value=[3, 3]]()\n  %two : int[] = prim::Constant[value=[2, 2]]()\n  %pad : int[] = prim::Constant[value=[1, 1]]()\n  {}\n  return ({}, {last})\n",
        single.unwrap_or(0),
        section.lines.join("\n  "),
        known[known.len() - 1]
    );
    let parsed = parse(text.as_bytes(), ParseOptions::default()).unwrap_or_else(|why| panic!("{text}\n{why:?}"));
    (parsed.graph, shape.to_vec(), dtype)
}

fn results(graph: &Graph, input: &Tensor, backend: Option<&CpuBackend>) -> Vec<Vec<f64>> {
    let env = Environment::default();
    let mut machine = Machine::new(graph, &env);
    if let Some(backend) = backend {
        machine = machine.backed_by(backend);
    }
    let results = machine.run(vec![IValue::Tensor(input.clone())]).expect("it runs");
    results.iter().map(|result| result.tensor().expect("a tensor").read::<f64>()).collect()
}

/// Whether results differ by no more than the order of sums explains. Without reductions there is
/// no order, and all plans give the same bits.
fn compare(found: &[Vec<f64>], wanted: &[Vec<f64>], within: f64) -> Result<(), String> {
    for (found, wanted) in found.iter().zip(wanted) {
        let largest = wanted.iter().filter(|x| x.is_finite()).fold(0.0_f64, |most, x| most.max(x.abs()));
        for (found, wanted) in found.iter().zip(wanted) {
            let is_same = found.to_bits() == wanted.to_bits() || found.is_nan() && wanted.is_nan();
            // False for NaN.
            let is_near = (found - wanted).abs() <= within * (wanted.abs() + largest);
            if !is_same && !is_near {
                return Err(format!("{found} is not {wanted}"));
            }
        }
    }
    Ok(())
}

/// Plans that ran, by direction, of a kernel.
fn check_kernel(seed: u64, plans: u64) -> (Direction, u64) {
    let mut draws = Draws(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let (graph, shape, dtype) = drawn(&mut draws);
    let n: i64 = shape.iter().product();
    let numbers: Vec<f64> = (0..n).map(|i| (i * 37 % 211) as f64 / 70.0 - 1.5).collect();
    let input = Tensor::of(&numbers, dtype, &shape, Precision::Typed);
    let wanted = results(&graph, &input, None);
    let Some(Planned { kernel, traversal, plan: chosen, outputs, .. }) = kernels(&graph, None, &CPU).planned.pop()
    else {
        return (Direction::Points, 0);
    };
    let within = if dtype == DType::Double { 1e-10 } else { 2e-5 };
    let (mut ran, mut first) = (0, None);
    for _ in 0..plans * TRIES {
        if ran == plans {
            break;
        }
        let plan = random(&chosen, kernel.steps.len(), kernel.stores.len(), &mut draws);
        if check(&kernel, &traversal, &plan).is_err() {
            continue;
        }
        let text = plan.print(&outputs, &kernel);
        let file = PlanFile::parse(&text).unwrap_or_else(|why| panic!("{why}\n{text}"));
        let settings = Settings {
            engine: Engine::Nests,
            guarded: true,
            plans: Some(Arc::new(file)),
            threads: Some(1),
            ..Settings::default()
        };
        let backend = CpuBackend::new(settings);
        let found = results(&graph, &input, Some(&backend));
        let remarks = backend.remarks();
        assert_eq!(backend.counts().launched, 1, "seed {seed}: {remarks:?}\n{graph}\n{text}");
        if let Err(why) = compare(&found, &wanted, within) {
            panic!("seed {seed}: {why}\n{graph}\n{text}");
        }
        // Results that do not depend on the order have the same bits under all plans.
        if traversal.direction == Direction::Points {
            let first = first.get_or_insert_with(|| found.clone());
            compare(&found, first, 0.0).unwrap_or_else(|why| panic!("seed {seed}: {why}\n{graph}\n{text}"));
        }
        ran += 1;
    }
    (traversal.direction, ran)
}

#[test]
fn random_legal_plans_of_random_kernels_compute_the_same() {
    let plans = std::env::var("JITOPT_PLANS").ok().and_then(|text| text.parse().ok()).unwrap_or(PLANS);
    let shares = std::thread::available_parallelism().map_or(1, |n| n.get() as u64).min(8);
    let run = |share: u64| (share..KERNELS).step_by(shares as usize).map(|seed| check_kernel(seed, plans)).collect();
    let all: Vec<(Direction, u64)> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..shares).map(|share| scope.spawn(move || -> Vec<_> { run(share) })).collect();
        threads.into_iter().flat_map(|thread| thread.join().expect("all plans of a share agree")).collect()
    });
    let mut ran: BTreeMap<&str, u64> = BTreeMap::new();
    for (direction, plans) in all {
        *ran.entry(direction.name()).or_default() += plans;
    }
    for direction in ["points", "inner", "outer", "strided"] {
        assert!(ran.get(direction).is_some_and(|&n| n >= 5 * plans), "{ran:?}");
    }
    let (total, wanted) = (ran.values().sum::<u64>(), KERNELS * plans);
    println!("{total} plans agree: {ran:?}");
    assert!(total * 10 >= wanted * 9, "{total} of {wanted} plans: {ran:?}");
}
