//! Error budgets: how far apart two results may be that should be equal.
//!
//! One tolerance for all graphs is wrong for most of them: a sum of a thousand numbers that cancel
//! may be off by far more than a product. How a graph amplifies rounding errors is measured: it
//! runs in doubles, then several times more with every result of every node perturbed at random by
//! as much as its operator may err (Monte Carlo arithmetic; Parker, "Monte Carlo arithmetic",
//! 1997). The change of an element shows what rounding can do to it. The operands of the graph are
//! rounded, too: inputs and weights are perturbed by a unit of each number, so that a result is
//! accepted that is exact for inputs as near as that to the given ones (backward stability; Higham,
//! "Accuracy and Stability of Numerical Algorithms", 1.5). Perturbations across a discontinuity,
//! such as that of `floor`, are recognised by a smaller perturbation, and do not count: inputs are
//! exact there.
//!
//! Sums may be added in any order. Where one order overflows and another does not, or in the other
//! direction, any of the results is right, and the element is not judged.
//!
//! An element that becomes another kind of number when it is perturbed (finite, infinite, NaN), or
//! that changes to another integer, depends on rounding alone and is not judged.
//!
//! Half of the perturbed runs give computed NaN one sign, half the other: no operator specifies it,
//! and `copysign` shows it.

use crate::sharing::copies;
use crate::showing::{Outcome, Settings};
use crate::verdict::{Rounding, place};
use jitopt_core::interpreter::machine::run_node;
use jitopt_core::interpreter::random::Philox;
use jitopt_core::interpreter::{Call, IValue, Outs, Stop, Watch};
use jitopt_core::ir::{Graph, Node};
use jitopt_core::ops::rows::{self, Accuracy, Error};
use jitopt_core::symbol::Symbol;
use jitopt_core::tensor::{C128, DType, Precision, Tensor};
use std::fmt;

/// The number of perturbed runs.
const RUNS: u64 = 8;
/// The safety factor for observed changes: eight draws seldom show the worst case.
const SAFETY: f64 = 8.0;
/// Roundings of the result itself that are always allowed, in units in the last place.
const ROUNDINGS: f64 = 4.0;
/// The number of runs with perturbed inputs, each with a large and a small perturbation.
const INPUT_RUNS: u64 = 4;
/// The small perturbation relative to the large one, and the part of the large one's effect that it
/// has at most where there is no discontinuity.
const SHORT: (f64, f64) = (0.25, 0.7);

/// The error of operators without a row, in units: declared ones.
const UNKNOWN: f64 = 2.0;

/// The error model of an operator. An in-place operator errs as its out-of-place form, and no more
/// is assumed of it.
pub fn accuracy(kind: Symbol) -> Accuracy {
    if let Some(known) = rows::accuracy(kind) {
        return known;
    }
    let base = kind.as_str().strip_suffix('_').and_then(|base| rows::accuracy(Symbol::new(base)));
    let error = base.map_or(Error::Units(UNKNOWN), |base| base.error);
    Accuracy { error, addend: None, subtracts: false, in_any_order: false, squares: false, moves: false }
}

/// The magnitude of the largest operand that a node adds last.
fn addend(accuracy: Accuracy, operands: &[IValue]) -> f64 {
    let Some(tensor) = accuracy.addend.and_then(|index| operands.get(index)).and_then(IValue::tensor) else {
        return 0.0;
    };
    tensor.read::<C128>().into_iter().map(|z| z.norm()).filter(|norm| norm.is_finite()).fold(0.0, f64::max)
}

/// Perturbs every result a little.
struct Disturber {
    draws: Philox,
    /// Whether all numbers of an operand are perturbed in one direction, since errors of a sum need
    /// not cancel as those of its summands do.
    to_one_side: bool,
    /// The sign of computed NaN, which no operator specifies and `copysign` shows: 1 or -1.
    nan_sign: f64,
    /// Perturbs this node only.
    only: Option<Node>,
}

impl Watch for Disturber {
    /// Runs subtracting operators on perturbed operands, and perturbs their results like those of
    /// others. Writes to operands go to the originals.
    fn recalled(&mut self, call: &Call<'_>) -> Option<Outs> {
        let is_meant = self.only.is_none_or(|only| only == call.node) && accuracy(call.kind()).subtracts;
        if !is_meant {
            return None;
        }
        let operands: Vec<IValue> = call.args.iter().map(|operand| self.moved(operand)).collect();
        let before: Vec<Option<Tensor>> = operands.iter().map(|operand| operand.tensor().map(Tensor::copied)).collect();
        let outputs = run_node(call.graph, call.node, &operands, call.env).ok()?;
        for ((original, operand), before) in call.args.iter().zip(&operands).zip(&before) {
            write_back(original, operand, before.as_ref());
        }
        self.after(call.graph, call.node, call.args, &outputs).ok()?;
        Some(outputs)
    }

    fn after(&mut self, graph: &Graph, node: Node, operands: &[IValue], outputs: &[IValue]) -> Result<(), Stop> {
        if self.only.is_some_and(|only| only != node) {
            return Ok(());
        }
        let kind = graph.kind(node).as_str();
        let accuracy = accuracy(graph.kind(node));
        let size =
            |values: &[IValue]| values.iter().filter_map(IValue::tensor).map(Tensor::numel).max().unwrap_or(1).max(1);
        let units = match accuracy.error {
            Error::Exact => return Ok(()),
            Error::Units(units) => units,
            Error::Sum => 2.0 + (size(operands) as f64).log2(),
        };
        let in_place = kind.ends_with('_') && !kind.ends_with("__");
        for tensor in outputs.iter().filter_map(IValue::tensor) {
            let is_view = operands.iter().filter_map(IValue::tensor).any(|operand| operand.shares_storage(tensor));
            if (!is_view || in_place) && (tensor.dtype().is_float() || tensor.dtype().is_complex()) {
                self.disturb(tensor, units, addend(accuracy, operands));
            }
        }
        Ok(())
    }
}

/// Writes to an operand what a node wrote to its perturbed copy, such as the running statistics of
/// a batch norm.
fn write_back(original: &IValue, copy: &IValue, before: Option<&Tensor>) {
    let (Some(original), Some(copy), Some(before)) = (original.tensor(), copy.tensor(), before) else {
        return;
    };
    let written = copy.read::<C128>();
    let same = |(a, b): (&C128, &C128)| a.re.to_bits() == b.re.to_bits() && a.im.to_bits() == b.im.to_bits();
    if !original.shares_storage(copy) && !written.iter().zip(&before.read::<C128>()).all(same) {
        original.write(&written);
    }
}

impl Disturber {
    /// A copy of a floating-point tensor, each element perturbed by a unit at most; other values
    /// unchanged.
    fn moved(&mut self, value: &IValue) -> IValue {
        match value.tensor().filter(|tensor| tensor.dtype().is_float()) {
            Some(tensor) => {
                let copy = tensor.copied();
                match self.to_one_side {
                    true => shift(&copy, &mut self.draws, Move::side(1.0)),
                    false => self.disturb(&copy, 1.0, 0.0),
                }
                copy.into()
            }
            None => value.clone(),
        }
    }

    /// Perturbs by a number of units of each number, and of the number that was added to it.
    fn disturb(&mut self, tensor: &Tensor, units: f64, addend: f64) {
        let epsilon = tensor.dtype().epsilon() * units;
        let tiny = smallest(tensor.dtype()) + epsilon * addend;
        let mut step = || 2.0 * self.draws.uniform() - 1.0;
        let nan_sign = self.nan_sign;
        let signed = |x: f64| if x.is_nan() { x.copysign(nan_sign) } else { x };
        let mut moved = |z: C128| z * (1.0 + step() * epsilon) + step() * tiny;
        let elements = tensor.read::<C128>().into_iter().map(&mut moved);
        tensor.write(&elements.map(|z| C128::new(signed(z.re), signed(z.im))).collect::<Vec<C128>>());
    }
}

/// A perturbation of inputs.
#[derive(Clone, Copy)]
struct Move {
    /// The largest perturbation, in units.
    units: f64,
    /// Whether all are perturbed in one direction.
    to_one_side: bool,
}

impl Move {
    fn side(units: f64) -> Move {
        Move { units, to_one_side: true }
    }
}

/// Perturbs the numbers of a tensor relative to themselves: zeros stay.
fn shift(tensor: &Tensor, draws: &mut Philox, Move { units, to_one_side }: Move) {
    let epsilon = tensor.dtype().epsilon() * units;
    let side = if draws.one_in(2) { 1.0 } else { -1.0 };
    let mut step = |x: f64| match to_one_side {
        true => x + side * epsilon * x.abs(),
        false => x * (1.0 + epsilon * (2.0 * draws.uniform() - 1.0)),
    };
    let moved: Vec<C128> = tensor.read::<C128>().into_iter().map(|z| C128::new(step(z.re), step(z.im))).collect();
    tensor.write(&moved);
}

/// Copies of values, in doubles, with every number perturbed; memory is shared as before.
fn shifted(values: &[IValue], draws: &mut Philox, how: Move) -> Vec<IValue> {
    let copied = copies(values, Precision::Double);
    let mut seen = Vec::new();
    for value in &copied {
        value.each_tensor(&mut |tensor| {
            let is_real = tensor.dtype().is_float() || tensor.dtype().is_complex();
            if is_real && !seen.contains(&tensor.storage().address()) {
                seen.push(tensor.storage().address());
                shift(tensor, draws, how);
            }
        });
    }
    copied
}

/// The observable results of the graph on slightly perturbed inputs and weights.
fn with_shifted_inputs(
    graph: &Graph,
    settings: &Settings,
    inputs: &[IValue],
    run: u64,
    units: f64,
) -> Option<Vec<Vec<C128>>> {
    let mut draws = Philox::new(0x6a69_746f, run, 1);
    let how = Move { units, to_one_side: run % 2 == 1 };
    let inputs = shifted(inputs, &mut draws, how);
    let (names, bound): (Vec<String>, Vec<IValue>) = settings.bindings.clone().into_iter().unzip();
    let bindings = names.into_iter().zip(shifted(&bound, &mut draws, how)).collect();
    let settings = Settings { bindings, ..settings.clone() };
    elements(&Outcome::of(graph, &settings, &inputs, Precision::Double))
}

/// Sets results to NaN where a sum is a number in one order and none in another.
struct AnyOrder;

impl Watch for AnyOrder {
    fn recalled(&mut self, call: &Call<'_>) -> Option<Outs> {
        let kind = call.kind().as_str();
        let accuracy = accuracy(call.kind());
        if accuracy.squares && squares_may_overflow(call.args.first()?) {
            return unsettled(call);
        }
        if !accuracy.in_any_order || !may_overflow(call.args) {
            return None;
        }
        let run = |change: &dyn Fn(f64) -> f64| {
            let args: Vec<IValue> = call.args.iter().map(|value| changed(value, change)).collect();
            run_node(call.graph, call.node, &args, call.env).ok()
        };
        let outputs = run(&|x| x)?;
        let finite = |x: f64| if x.is_finite() { x } else { 0.0 };
        let (sums, sizes) = (run(&finite)?, run(&|x| finite(x).abs())?);
        for ((output, sum), size) in outputs.iter().zip(&sums).zip(&sizes) {
            let (Some(output), Some(sum), Some(size)) = (output.tensor(), sum.tensor(), size.tensor()) else {
                continue;
            };
            if output.dtype().is_float() {
                let count = if kind == "aten::mean" { size_of_mean(call.args, output) } else { 1.0 };
                let read = |tensor: &Tensor| tensor.read::<f64>();
                let all = read(output).into_iter().zip(read(sum)).zip(read(size));
                let limit = largest(wide(output.dtype()));
                let settled: Vec<f64> =
                    all.map(|((x, sum), size)| in_any_order(x, sum * count, size * count, limit)).collect();
                output.write(&settled);
            }
        }
        Some(outputs)
    }
}

/// NaN for all results of a node.
fn unsettled(call: &Call<'_>) -> Option<Outs> {
    let outputs = run_node(call.graph, call.node, call.args, call.env).ok()?;
    for output in outputs.iter().filter_map(IValue::tensor).filter(|output| output.dtype().is_float()) {
        output.write(&vec![f64::NAN; output.numel()]);
    }
    Some(outputs)
}

/// Whether the sum of the squares of all finite elements may exceed the largest number.
fn squares_may_overflow(operand: &IValue) -> bool {
    let Some(tensor) = operand.tensor().filter(|tensor| tensor.dtype().is_float()) else { return false };
    let finite = tensor.read::<f64>().into_iter().filter(|x| x.is_finite());
    let most = finite.fold(0.0, |most: f64, x| most.max(x.abs()));
    most * most * tensor.numel() as f64 > largest(wide(tensor.dtype())) / 2.0
}

/// Halves are summed in floats.
fn wide(dtype: DType) -> DType {
    if matches!(dtype.to_real(), DType::Half | DType::BFloat16) { DType::Float } else { dtype }
}

/// The number of elements that a mean is over.
fn size_of_mean(operands: &[IValue], mean: &Tensor) -> f64 {
    let all = operands.first().and_then(IValue::tensor).map_or(1, Tensor::numel);
    all as f64 / mean.numel().max(1) as f64
}

/// `x`, the sum, where it is the same in any order; else NaN. `sum` and `size` are those of finite
/// summands and of their absolute values.
fn in_any_order(x: f64, sum: f64, size: f64, limit: f64) -> f64 {
    let (above, below) = ((size + sum) / 2.0 > limit, (size - sum) / 2.0 > limit);
    let settled = match (above, below) {
        (false, false) => true,
        // Beyond the largest number in each order, or already infinite in that direction.
        (true, false) => sum > limit && x != f64::NEG_INFINITY || x == f64::INFINITY,
        (false, true) => sum < -limit && x != f64::INFINITY || x == f64::NEG_INFINITY,
        (true, true) => false,
    };
    if settled { x } else { f64::NAN }
}

/// Whether the sum of products of operands may exceed the largest number.
fn may_overflow(operands: &[IValue]) -> bool {
    let mut product = 1.0;
    let mut limit = f64::MAX;
    for tensor in operands.iter().filter_map(IValue::tensor).filter(|tensor| tensor.dtype().is_float()) {
        let most = tensor.read::<f64>().into_iter().filter(|x| x.is_finite()).fold(1.0, |most, x| x.abs().max(most));
        product *= most * tensor.numel().max(1) as f64;
        limit = limit.min(largest(wide(tensor.dtype())));
    }
    product > limit / 2.0
}

fn changed(value: &IValue, change: &dyn Fn(f64) -> f64) -> IValue {
    let Some(tensor) = value.tensor().filter(|tensor| tensor.dtype().is_float()) else { return value.clone() };
    let copy = tensor.copied();
    copy.write(&tensor.read::<f64>().into_iter().map(change).collect::<Vec<_>>());
    copy.into()
}

/// The largest number of a type.
fn largest(dtype: DType) -> f64 {
    match dtype.to_real() {
        DType::Half => 65504.0,
        DType::Float | DType::BFloat16 => f64::from(f32::MAX),
        _ => f64::MAX,
    }
}

/// Half the distance between the smallest numbers of a type.
fn smallest(dtype: DType) -> f64 {
    match dtype.to_real() {
        DType::Half => 2f64.powi(-25),
        DType::BFloat16 => 2f64.powi(-134),
        DType::Float => 2f64.powi(-150),
        _ => 0.0,
    }
}

/// The elements of every tensor that is observable after a run, in doubles.
fn elements(outcome: &Outcome) -> Option<Vec<Vec<C128>>> {
    let results = outcome.results.as_ref().ok()?;
    let mut all = Vec::new();
    for value in results.iter().chain(&outcome.inputs) {
        value.each_tensor(&mut |tensor| all.push(tensor.read()));
    }
    Some(all)
}

/// The largest effect of rounding on every observable element of a graph.
#[derive(Debug)]
pub struct Budget {
    /// For each tensor and element; infinite where it is not judged. `None` if no perturbed run
    /// completed.
    allowed: Option<Vec<Vec<f64>>>,
    /// The observable elements in doubles.
    exact: Vec<Vec<C128>>,
}

/// A tensor that differs by more than rounding allows.
#[derive(Debug)]
pub struct Excess {
    path: String,
    wrong: usize,
    of: usize,
    expected: C128,
    found: C128,
    allowed: f64,
    /// The relative tolerance with which it would pass.
    needed: f64,
    /// The element in doubles, if it is known and finite.
    exact: Option<C128>,
}

impl Excess {
    /// The full message, with an addition about the budget.
    pub(crate) fn message(&self, by: &str) -> String {
        format!("{self}{by}") + &self.nearer().map_or(String::new(), |text| format!("\n{text}"))
    }

    /// Of the two results, the one that is nearer to the result in doubles, and by how much.
    fn nearer(&self) -> Option<String> {
        let exact = self.exact?;
        let off = |z: C128| (z - exact).norm();
        let (before, after) = (off(self.expected), off(self.found));
        let by = |near: f64, far: f64| match far / near {
            ratio if ratio.is_finite() => format!("{ratio:.1} times nearer"),
            _ => "nearer".to_owned(),
        };
        // NaN and infinities count as infinitely far from any number.
        let far = |x: f64| if x.is_nan() { f64::INFINITY } else { x };
        let who = match far(before).total_cmp(&far(after)) {
            std::cmp::Ordering::Less => format!("the expected one is {}", by(before, after)),
            std::cmp::Ordering::Greater => format!("the one found is {}", by(after, before)),
            std::cmp::Ordering::Equal => "both are as near".to_owned(),
        };
        let text = number(exact);
        Some(format!(
            "in doubles it is {text}: {before:.3e} from the expected one, {after:.3e} from the one found; {who}"
        ))
    }
}

fn number(z: C128) -> String {
    if z.im == 0.0 { z.re.to_string() } else { z.to_string() }
}

impl fmt::Display for Excess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let passing = match self.needed.is_finite() {
            true => format!("rtol {:.1e} would have passed", self.needed),
            false => "no rtol would have passed".to_owned(),
        };
        write!(
            f,
            "{}: {} of {} elements differ; the worst is {}, not {}: off by {:.3e}, rounding explains {:.3e}; {passing}",
            self.path,
            self.wrong,
            self.of,
            number(self.found),
            number(self.expected),
            (self.found - self.expected).norm(),
            self.allowed
        )
    }
}

impl Budget {
    /// Runs the graph in doubles, unperturbed and perturbed; `typed` is its outcome in its own
    /// types.
    pub fn of(graph: &Graph, settings: &Settings, inputs: &[IValue], typed: &Outcome) -> Budget {
        let exact = elements(&Outcome::of(graph, settings, inputs, Precision::Double));
        let (Some(exact), Some(shown)) = (exact, elements(typed)) else {
            return Budget { allowed: None, exact: Vec::new() };
        };
        let mut allowed: Vec<Vec<f64>> = exact.iter().map(|tensor| vec![0.0; tensor.len()]).collect();
        widen(&mut allowed, &exact, &shown);
        for run in 0..RUNS {
            if let Some(moved) = disturbed(graph, settings, inputs, run, None) {
                widen(&mut allowed, &exact, &moved);
            }
        }
        if let Some(moved) =
            elements(&Outcome::watched(graph, settings, inputs, Precision::Double, Some(&mut AnyOrder)))
        {
            widen(&mut allowed, &exact, &moved);
        }
        for run in 0..INPUT_RUNS {
            let moved = |units| with_shifted_inputs(graph, settings, inputs, run, units);
            if let (Some(long), Some(short)) = (moved(1.0), moved(SHORT.0)) {
                widen_smoothly(&mut allowed, &exact, &long, &short);
            }
        }
        for ((allowed, exact), dtype) in allowed.iter_mut().zip(&exact).zip(dtypes(typed)) {
            for (allowed, z) in allowed.iter_mut().zip(exact) {
                let rounding = ROUNDINGS * dtype.epsilon() * if z.norm().is_finite() { z.norm() } else { 0.0 };
                *allowed = *allowed * SAFETY + rounding + 2.0 * smallest(dtype);
            }
        }
        Budget { allowed: Some(allowed), exact }
    }

    /// The tensors of the second value that differ from the first by more than rounding allows.
    pub fn excess(&self, expected: &IValue, found: &IValue, overflow_is_large: bool) -> Vec<Excess> {
        let (a, b) = (tensors(expected), tensors(found));
        let mut all = Vec::new();
        for (i, ((path, a), (_, b))) in a.iter().zip(&b).enumerate() {
            let allowed = self.allowed.as_ref().and_then(|allowed| allowed.get(i));
            let exact = self.exact.get(i).map_or(&[][..], |exact| &exact[..]);
            all.extend(excess_of(path, (a, b), allowed.map(|allowed| &allowed[..]), exact, overflow_is_large));
        }
        all
    }

    /// The element whose difference is the largest part of what rounding explains.
    pub fn share(&self, expected: &IValue, found: &IValue) -> Option<Rounding> {
        let mut worst: Option<Rounding> = None;
        for (i, ((_, a), (_, b))) in tensors(expected).iter().zip(&tensors(found)).enumerate() {
            let (a, b): (Vec<C128>, Vec<C128>) = (a.read(), b.read());
            for (k, (x, y)) in a.iter().zip(&b).enumerate() {
                let explained = self.allowed.as_ref().and_then(|all| all.get(i)?.get(k)).copied().unwrap_or(0.0);
                let off = (x - y).norm();
                let part = |rounding: &Rounding| rounding.off / rounding.explained.max(f64::MIN_POSITIVE);
                let one = Rounding { off, explained };
                if off > 0.0 && off.is_finite() && worst.as_ref().is_none_or(|worst| part(&one) > part(worst)) {
                    worst = Some(one);
                }
            }
        }
        worst
    }

    /// The node whose errors have the largest effect, as printed. Every node is perturbed alone,
    /// which takes long.
    pub(crate) fn dominated_by(&self, graph: &Graph, settings: &Settings, inputs: &[IValue]) -> Option<String> {
        self.allowed.as_ref()?;
        dominant(graph, settings, inputs, &self.exact)
    }
}

fn excess_of(
    path: &str,
    (a, b): (&Tensor, &Tensor),
    allowed: Option<&[f64]>,
    exact: &[C128],
    overflow_is_large: bool,
) -> Option<Excess> {
    let limit = if overflow_is_large { largest(a.dtype()) / 2.0 } else { f64::INFINITY };
    let (a, b): (Vec<C128>, Vec<C128>) = (a.read(), b.read());
    let (mut wrong, mut worst, mut needed) = (0, None, 0f64);
    for (i, (&x, &y)) in a.iter().zip(&b).enumerate() {
        let allowed = allowed.and_then(|allowed| allowed.get(i)).copied().unwrap_or(0.0);
        if kind(x) == kind(y) && (kind(x) != 0 || (x - y).norm() <= allowed) || allowed.is_infinite() {
            continue;
        }
        let beyond = |z: C128| z.im == 0.0 && z.re.abs() > limit;
        if beyond(x) && beyond(y) && x.re.signum() == y.re.signum() {
            continue;
        }
        wrong += 1;
        let off = (x - y).norm();
        needed = needed.max(if off.is_finite() && x.norm() > 0.0 { off / x.norm() } else { f64::INFINITY });
        let ratio = if off.is_finite() { off / allowed.max(f64::MIN_POSITIVE) } else { f64::INFINITY };
        if worst.is_none_or(|(best, _, _)| ratio > best) {
            worst = Some((ratio, i, allowed));
        }
    }
    let (_, at, allowed) = worst?;
    let exact = exact.get(at).copied().filter(|z| z.norm().is_finite());
    Some(Excess { path: place(path), wrong, of: a.len(), expected: a[at], found: b[at], allowed, needed, exact })
}

/// 0 for finite numbers; infinities by sign; NaN.
fn kind(z: C128) -> u8 {
    let part = |x: f64| match x {
        x if x.is_nan() => 3,
        f64::INFINITY => 1,
        f64::NEG_INFINITY => 2,
        _ => 0,
    };
    part(z.re) * 4 + part(z.im)
}

fn widen(allowed: &mut [Vec<f64>], exact: &[Vec<C128>], moved: &[Vec<C128>]) {
    for ((allowed, exact), moved) in allowed.iter_mut().zip(exact).zip(moved) {
        if exact.len() != moved.len() {
            allowed.fill(f64::INFINITY);
            continue;
        }
        for ((allowed, &x), &y) in allowed.iter_mut().zip(exact).zip(moved) {
            let off = if kind(x) != kind(y) {
                f64::INFINITY
            } else if kind(x) == 0 {
                (x - y).norm()
            } else {
                0.0
            };
            *allowed = allowed.max(off);
        }
    }
}

/// Increases bounds by the effect of a large perturbation of the inputs, if that of a small one is
/// smaller: there is no discontinuity.
fn widen_smoothly(allowed: &mut [Vec<f64>], exact: &[Vec<C128>], long: &[Vec<C128>], short: &[Vec<C128>]) {
    for (((allowed, exact), long), short) in allowed.iter_mut().zip(exact).zip(long).zip(short) {
        if exact.len() != long.len() || exact.len() != short.len() {
            continue;
        }
        for (((allowed, &x), &y), &z) in allowed.iter_mut().zip(exact).zip(long).zip(short) {
            let (far, near) = ((x - y).norm(), (x - z).norm());
            if far.is_finite() && near <= SHORT.1 * far {
                *allowed = allowed.max(far);
            }
        }
    }
}

fn disturbed(
    graph: &Graph,
    settings: &Settings,
    inputs: &[IValue],
    run: u64,
    only: Option<Node>,
) -> Option<Vec<Vec<C128>>> {
    let draws = Philox::new(0x6a69_746f, run, 0);
    let nan_sign = if run % 4 < 2 { 1.0 } else { -1.0 };
    let mut disturber = Disturber { draws, to_one_side: run % 2 == 1, nan_sign, only };
    elements(&Outcome::watched(graph, settings, inputs, Precision::Double, Some(&mut disturber)))
}

/// The number of nodes that are perturbed one by one to find the one with the largest effect.
const MOST_TRIED: usize = 100;

fn dominant(graph: &Graph, settings: &Settings, inputs: &[IValue], exact: &[Vec<C128>]) -> Option<String> {
    let errs = |node: &Node| accuracy(graph.kind(*node)).error != Error::Exact && graph.num_outputs(*node) > 0;
    let effect = |node: Node| {
        let moved = disturbed(graph, settings, inputs, 0, Some(node))?;
        let off = |(x, y): (&C128, &C128)| if kind(*x) == kind(*y) { (x - y).norm() } else { 0.0 };
        let most = exact.iter().flatten().zip(moved.iter().flatten()).map(off).fold(0.0, f64::max);
        (most > 0.0).then_some((most, node))
    };
    let tried = graph.all_nodes().filter(errs).take(MOST_TRIED).filter_map(effect);
    let (_, node) = tried.max_by(|a, b| a.0.total_cmp(&b.0))?;
    Some(format!("{} = {}", named(graph, node), graph.kind(node)))
}

fn named(graph: &Graph, node: Node) -> String {
    graph.outputs(node).map(|value| format!("%{}", graph.name(value))).collect::<Vec<_>>().join(", ")
}

fn dtypes(outcome: &Outcome) -> Vec<DType> {
    let mut all = Vec::new();
    for value in outcome.results.iter().flatten().chain(&outcome.inputs) {
        value.each_tensor(&mut |tensor| all.push(tensor.dtype()));
    }
    all
}

/// All tensors of a value in the order of [`IValue::each_tensor`], with their paths.
fn tensors(value: &IValue) -> Vec<(String, Tensor)> {
    fn walk(value: &IValue, path: &str, all: &mut Vec<(String, Tensor)>) {
        match value {
            IValue::Tensor(tensor) => all.push((path.to_owned(), tensor.clone())),
            IValue::Tuple(values) => {
                values.iter().enumerate().for_each(|(i, value)| walk(value, &format!("{path}.{i}"), all));
            }
            other => other.each_tensor(&mut |tensor| all.push((path.to_owned(), tensor.clone()))),
        }
    }
    let mut all = Vec::new();
    walk(value, "", &mut all);
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn in_place_operators_err_as_the_others() {
        let error = |kind: &str| accuracy(Symbol::new(kind)).error;
        assert_eq!((error("aten::tanh_"), error("aten::relu_")), (Error::Units(4.0), Error::Exact));
        assert_eq!((error("aten::zero_"), error("aten::einsum")), (Error::Exact, Error::Sum));
        assert!(accuracy(Symbol::new("aten::sum")).in_any_order && accuracy(Symbol::new("aten::mm")).in_any_order);
    }
}
