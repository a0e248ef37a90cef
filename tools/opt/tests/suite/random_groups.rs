//! Kernels of random groups against the interpreter.
//!
//! Groups have random operators, element types, constants and scalar operands; operands have random
//! shapes with broadcasting, sizes 0 and 1, odd tails, strides of 0, permuted and sliced layouts,
//! and occasionally special values. Half of the groups reduce some of their dimensions. A quarter
//! of those reduce several times, with computed operands and several results: values are kept for a
//! later loop or recomputed. A third of the groups with reductions also sum over other dimensions.
//! An eighth has a batch norm with running statistics.
//! Results are poisoned before the launch and have canaries around them. Results are compared as by
//! `jitopt validate`, and if that fails for operators that round several times, by a tolerance;
//! shapes, strides and element types must be equal. A third of the units use two to five threads
//! per launch.
//!
//! The nests of groups are executed, too. They must give the bits of compiled kernels wherever the
//! order of operations is fixed: in units without vectors, and of groups that reduce nothing; other
//! nests are compared with the interpreter as kernels are.
//!
//! Fifty groups form one unit for the C compiler. Vectorisation takes most of its time, and most of
//! the test's: so of twenty units, one is compiled as by `jitopt run`, one for AVX2 and one for
//! baseline x86-64 processors, the others without vectors.
//!
//! `JITOPT_GROUPS=100000` sets the number of groups, `JITOPT_GROUPS=500-600` a range of seeds; the
//! default is 700 groups. `JITOPT_GROUPS_VECTORS=1` vectorises all units. If the compiler has
//! AddressSanitizer, kernels run under it with its library preloaded:
//!
//! ```text
//! LD_PRELOAD=$(gcc -print-file-name=libasan.so) ASAN_OPTIONS=detect_leaks=0 \
//!     CC='gcc -fsanitize=address' cargo test --test suite random_groups
//! ```
//!
//! UndefinedBehaviorSanitizer has a library, too, and ends the test with the first finding. 2,000
//! groups take some 25 minutes so, on two cores that have other work:
//!
//! ```text
//! LD_PRELOAD="$(gcc -print-file-name=libasan.so) $(gcc -print-file-name=libubsan.so)" \
//!     ASAN_OPTIONS=detect_leaks=0 JITOPT_GROUPS=2000 \
//!     CC='gcc -fsanitize=address,undefined -fno-sanitize-recover=undefined' \
//!     cargo test --test suite random_groups::random_groups
//! ```
//!
//! A seed is another group once the operator table has another row that groups draw, so a finding
//! is kept as a test with its graph, not as a seed: `src/runtime/agreement_test.rs`.

#![allow(clippy::print_stdout, reason = "figures are for those who ask with --nocapture")]

use crate::support::dice;
use crate::support::drawn_layers::{LAYERS, layers};
use crate::support::drawn_pools::{POOLS, pools};
use crate::support::nest_runs::{executor, same_bits};
use crate::support::parallel;
use crate::support::seeds::seeds;
use crate::support::strided_tensors::{numbers, tensor};

use dice::Dice;
use jitopt_core::interpreter::comparison::Tolerance;
use jitopt_core::interpreter::{Environment, IValue, Machine, Release};
use jitopt_core::ir::Graph;
use jitopt_core::ops::rows::{Row, rows};
use jitopt_core::runtime::backend::{Counts, Request};
use jitopt_core::runtime::{CpuBackend, Settings};
use jitopt_core::tensor::{DType, Precision, Tensor};
use jitopt_core::text::{ParseOptions, parse};
use jitopt_core::types::era::Era;
use jitopt_judge::showing::Settings as JudgeSettings;
use jitopt_judge::verdict::{Policy, Verdict, judge};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::LazyLock;

/// Operators and their operands, from the rows of the operator table. A letter stands for an
/// operand: `t` a tensor, `o` a tensor or a number, `n` a number, `1` a scale, `c` a bound or None,
/// `b` bools, `d` an element type, `f` false, `z` None, `=` the previous operand, `r` usually
/// floating point and `w` usually integers, because PyTorch refuses others, `p` numbers above 0:
/// `lgamma` is known to lose digits near its zeros below 0.
static OPERATORS: LazyLock<Vec<(&str, &str)>> = LazyLock::new(|| {
    let each = |row: &'static Row| row.drawn().iter().map(|pattern| (row.kind, *pattern));
    rows().flat_map(each).collect()
});

/// Element types, frequent ones repeated.
const DTYPES: &[DType] = &[
    DType::Float,
    DType::Float,
    DType::Float,
    DType::Float,
    DType::Double,
    DType::Half,
    DType::BFloat16,
    DType::Long,
    DType::Int,
    DType::Short,
    DType::Char,
    DType::Byte,
    DType::Bool,
];

/// A group, and its operands.
pub(crate) struct Group {
    pub(crate) text: String,
    pub(crate) inputs: Vec<IValue>,
    era: Era,
    /// Whether it reduces.
    pub(crate) reduces: bool,
}

fn group(seed: u64) -> Group {
    let mut draws = Dice(seed.wrapping_mul(0x2545_f491_4f6c_dd1d));
    let draws = &mut draws;
    let sizes = [1, 1, 2, 3, 5, 8, 17, 31, 64, 300];
    let rank = draws.below(5);
    let mut shape: Vec<i64> = (0..rank).map(|_| draws.pick(&sizes)).collect();
    while shape.iter().product::<i64>() > 20_000 {
        shape.pop();
    }
    if !shape.is_empty() && draws.one_in(25) {
        let dim = draws.below(shape.len());
        shape[dim] = 0;
    }
    let is_special = draws.one_in(4);
    let mut section = Section { shape: shape.clone(), ..Section::default() };
    if draws.one_in(2) {
        section.reduced = Some((0..rank.min(shape.len())).filter(|_| draws.one_in(2)).collect());
    }
    for i in 0..1 + draws.below(4) {
        section.operand(draws, &shape, i == 0, is_special);
    }
    if draws.one_in(6) {
        section.number(draws);
    }
    if section.reduced.is_some() && Dice(seed ^ 0x51ed_270b).one_in(4) {
        section.phases(draws);
    }
    let mut norms = Dice(seed ^ 0x36c1_9e2b);
    if shape.len() > 1 && norms.one_in(8) {
        section.norm_with_statistics(&mut norms);
    }
    for _ in 0..1 + draws.below(7) {
        match section.reduced {
            Some(_) if draws.one_in(3) => section.reduce(draws),
            Some(_) if !section.rows.is_empty() && draws.one_in(3) => section.row(draws),
            _ => section.node(draws),
        }
    }
    let era = if draws.one_in(4) { Era::V1_3 } else { Era::V2 };
    let mut others = Dice(seed ^ 0x2f0b_77c1);
    if section.reduced.is_some() && others.one_in(3) {
        (0..1 + others.below(3)).for_each(|_| section.column_reduction(&mut others));
    }
    let mut integers = Dice(seed ^ 0x1d3f_a0c5);
    if integers.one_in(5) {
        section.quotient(&mut integers, &shape);
    }
    section.finished(draws, era, shape.len())
}

/// A section under construction.
#[derive(Default)]
struct Section {
    params: Vec<(String, &'static str)>,
    lines: Vec<String>,
    tensors: Vec<String>,
    computed: Vec<String>,
    pub(crate) inputs: Vec<IValue>,
    next: usize,
    /// The shape of the largest operand.
    shape: Vec<i64>,
    /// The dimensions that are reduced, if any are.
    reduced: Option<Vec<usize>>,
    /// Values that were reduced and have lost these dimensions.
    rows: Vec<String>,
    /// Sums over any dimensions, which nothing reads.
    column_reductions: Vec<String>,
    /// Whether any computed value may be a result.
    many: bool,
}

impl Section {
    fn fresh(&mut self) -> String {
        self.next += 1;
        format!("%v{}", self.next)
    }

    /// An operand whose shape, or that of its chunks, broadcasts to `shape`.
    fn operand(&mut self, draws: &mut Dice, shape: &[i64], whole: bool, is_special: bool) {
        let dtype = draws.pick(DTYPES);
        let mut own: Vec<i64> = shape.to_vec();
        if !whole {
            own.drain(..draws.below(own.len() + 1) * usize::from(draws.one_in(2)));
            own.iter_mut().for_each(|size| *size = if draws.one_in(4) { 1 } else { *size });
        }
        let param = self.fresh();
        self.params.push((param.clone(), "Tensor"));
        if !own.is_empty() && draws.one_in(6) {
            let (dim, chunks) = (draws.below(own.len()), 2 + draws.below(2));
            own[dim] *= chunks as i64;
            let parts: Vec<String> = (0..chunks).map(|_| self.fresh()).collect();
            let outputs: Vec<String> = parts.iter().map(|part| format!("{part} : Tensor")).collect();
            let dim = if draws.one_in(2) { dim as i64 } else { dim as i64 - own.len() as i64 };
            self.lines
                .push(format!("{} = prim::ConstantChunk[chunks={chunks}, dim={dim}]({param})", outputs.join(", ")));
            self.tensors.extend(parts);
        } else {
            self.tensors.push(param);
        }
        self.inputs.push(IValue::Tensor(tensor(draws, dtype, &own, is_special)));
    }

    fn number(&mut self, draws: &mut Dice) {
        let param = self.fresh();
        self.params.push((param, "float"));
        self.inputs.push(IValue::Float(draws.pick(&[0.5, -1.25, 0.1, 3.0])));
    }

    fn constant(&mut self, draws: &mut Dice) -> String {
        let numbers: Vec<String> =
            self.params.iter().filter(|param| param.1 == "float").map(|param| param.0.clone()).collect();
        if !numbers.is_empty() && draws.one_in(3) {
            return numbers[0].clone();
        }
        let name = self.fresh();
        let line = match draws.one_in(2) {
            true => format!("{name} : int = prim::Constant[value={}]()", draws.pick(&[0, 1, 2, 3, -1, 7])),
            false => {
                let x = draws.pick(&["0.5", "-1.5", "0.10000000000000001", "2.", "1e-05", "0.25"]);
                format!("{name} : float = prim::Constant[value={x}]()")
            }
        };
        self.lines.push(line);
        name
    }

    /// Computed values are read more often than operands.
    fn tensor(&mut self, draws: &mut Dice) -> String {
        if !self.computed.is_empty() && !draws.one_in(3) {
            let from = self.computed.len().saturating_sub(4);
            let at = from + draws.below(self.computed.len() - from);
            return self.computed[at].clone();
        }
        let at = draws.below(self.tensors.len());
        self.tensors[at].clone()
    }

    fn node(&mut self, draws: &mut Dice) {
        let (kind, pattern) = draws.pick(&OPERATORS);
        let mut operands: Vec<String> = Vec::new();
        for letter in pattern.chars() {
            operands.push(match letter {
                't' => self.tensor(draws),
                'b' | 'p' => {
                    let (name, of) = (self.fresh(), self.tensor(draws));
                    self.lines.push(match letter {
                        'b' => format!("{name} : Tensor = aten::isnan({of})"),
                        _ => format!("{name} : Tensor = aten::exp({of})"),
                    });
                    name
                }
                'd' => {
                    self.line("int", &format!("prim::Constant[value={}]()", draws.pick(&[0, 3, 4, 5, 6, 7, 11, 15])))
                }
                'f' => "%no".to_owned(),
                'r' => self.cast(draws, "Float"),
                'w' => self.cast(draws, "Long"),
                '=' => operands.last().cloned().unwrap_or_default(),
                'z' => "%none".to_owned(),
                'o' if draws.one_in(2) => self.tensor(draws),
                '1' if draws.one_in(2) => {
                    let name = self.fresh();
                    self.lines.push(format!("{name} : int = prim::Constant[value=1]()"));
                    name
                }
                'c' if draws.one_in(4) => {
                    let name = self.fresh();
                    self.lines.push(format!("{name} : None = prim::Constant()"));
                    name
                }
                _ => self.constant(draws),
            });
        }
        let name = self.fresh();
        self.lines.push(format!("{name} : Tensor = {kind}({})", operands.join(", ")));
        self.computed.push(name);
    }

    /// Converts a tensor to a type, or in one of three cases always.
    fn cast(&mut self, draws: &mut Dice, to: &str) -> String {
        let of = self.tensor(draws);
        if draws.one_in(3) { of } else { self.line("Tensor", &format!("aten::_cast_{to}({of}, %no)")) }
    }

    /// Divides integers, or raises them to a power, by an operand or a number. Zeros are rare: they
    /// raise exceptions, as negative number exponents do.
    fn quotient(&mut self, draws: &mut Dice, shape: &[i64]) {
        const INTEGERS: &[DType] = &[DType::Long, DType::Int, DType::Short, DType::Char, DType::Byte];
        let mut operand = |section: &mut Section, has_zeros: bool| {
            let dtype = draws.pick(INTEGERS);
            let lowest = if dtype == DType::Byte { 0 } else { -(1_i64 << (dtype.size() * 8 - 1).min(40)) };
            let n: i64 = shape.iter().product();
            let number = |draws: &mut Dice| match draws.below(12) {
                0 => lowest,
                1 => -1,
                2 => 0,
                _ => draws.below(25) as i64 - 12,
            };
            let numbers = (0..n).map(|_| number(draws));
            let numbers: Vec<i64> = numbers.map(|n| if n == 0 && !has_zeros { 3 } else { n }).collect();
            let param = section.fresh();
            section.params.push((param.clone(), "Tensor"));
            section.inputs.push(IValue::Tensor(Tensor::of(&numbers, dtype, shape, Precision::Typed)));
            param
        };
        let (a, b) = (operand(self, true), operand(self, false));
        let zero = if draws.one_in(12) { 0 } else { 1 };
        let b = match draws.one_in(3) {
            true => self.line("int", &format!("prim::Constant[value={}]()", draws.pick(&[2, 3, 7, 1, 300]) * zero)),
            false => b,
        };
        let mode = self.line("str", &format!("prim::Constant[value=\"{}\"]()", draws.pick(&["floor", "trunc"])));
        let made = match draws.below(6) {
            0 | 1 => format!("aten::div({a}, {b}, {mode})"),
            2 => format!("aten::floor_divide({a}, {b})"),
            3 => format!("aten::remainder({a}, {b})"),
            4 => format!("aten::fmod({a}, {b})"),
            _ => format!("aten::pow({a}, {b})"),
        };
        let made = self.line("Tensor", &made);
        self.computed.push(made);
    }

    fn line(&mut self, ty: &str, text: &str) -> String {
        let name = self.fresh();
        self.lines.push(format!("{name} : {ty} = {text}"));
        name
    }

    /// Reduces a value with the shape of the largest operand, or sometimes a smaller one.
    fn reduce(&mut self, draws: &mut Dice) {
        let Some(reduced) = self.reduced.clone() else { return };
        let mut x = self.tensor(draws);
        if !draws.one_in(6) {
            let (whole, one) = (self.tensors[0].clone(), self.line("int", "prim::Constant[value=1]()"));
            x = self.line("Tensor", &format!("aten::add({x}, {whole}, {one})"));
        }
        if draws.one_in(3) {
            x = self.line("Tensor", &format!("aten::_cast_Float({x}, {})", "%no"));
        }
        let rank = self.shape.len();
        let last = reduced.iter().rev().enumerate().all(|(i, &dim)| dim + 1 + i == rank) && !reduced.is_empty();
        let counted = |dim: &usize| if rank.is_multiple_of(2) { *dim as i64 } else { *dim as i64 - rank as i64 };
        let dims = format!("{:?}", reduced.iter().map(counted).collect::<Vec<_>>());
        match draws.below(12) {
            9..12 => self.several(draws, &x, &reduced, &dims),
            0 | 8 if reduced.len() == 1 => {
                let dim = self.line("int", &format!("prim::Constant[value={}]()", counted(&reduced[0])));
                let kind = draws.pick(&["softmax", "log_softmax", "cumsum", "cumsum", "cumprod"]);
                let made = self.line("Tensor", &format!("aten::{kind}({x}, {dim}, %none)"));
                self.computed.push(made);
            }
            1 | 2 if last => {
                let sizes: Vec<i64> = reduced.iter().map(|&dim| self.shape[dim]).collect();
                let sizes = self.line("int[]", &format!("prim::Constant[value={sizes:?}]()"));
                let eps = self.line("float", "prim::Constant[value=1e-05]()");
                if draws.one_in(4) {
                    return self.gradient_of_norm(draws, &x, &sizes, &eps);
                }
                if draws.one_in(2) {
                    let text = format!("aten::native_layer_norm({x}, {sizes}, %none, %none, {eps})");
                    return self.made_at_once(draws, 3, &text, true);
                }
                let made = self.line("Tensor", &format!("aten::layer_norm({x}, {sizes}, %none, %none, {eps}, %no)"));
                self.computed.push(made);
            }
            _ => {
                let keep = draws.one_in(2);
                let dims = self.line("int[]", &format!("prim::Constant[value={dims}]()"));
                let kept = if keep { "%yes" } else { "%no" };
                let (kind, operands) = match draws.below(8) {
                    0 | 1 => ("sum", format!("{dims}, {kept}, %none")),
                    2 => ("mean", format!("{dims}, {kept}, %none")),
                    3 => ("amax", format!("{dims}, {kept}")),
                    4 => ("amin", format!("{dims}, {kept}")),
                    5 => ("logsumexp", format!("{dims}, {kept}")),
                    6 => ("var", format!("{dims}, %yes, {kept}")),
                    _ => ("std", format!("{dims}, %no, {kept}")),
                };
                let made = self.line("Tensor", &format!("aten::{kind}({x}, {operands})"));
                if keep || reduced.is_empty() && rank == 0 {
                    self.computed.push(made)
                } else {
                    self.rows.push(made)
                };
            }
        }
    }

    /// A batch norm with running statistics, of floats, or of halves with weights that are floats.
    fn norm_with_statistics(&mut self, draws: &mut Dice) {
        let (x, whole, one) =
            (self.tensor(draws), self.tensors[0].clone(), self.line("int", "prim::Constant[value=1]()"));
        let x = self.line("Tensor", &format!("aten::add({x}, {whole}, {one})"));
        let x = self.line("Tensor", &format!("aten::_cast_{}({x}, %no)", draws.pick(&["Float", "Float", "Half"])));
        let channels = self.shape[1];
        let mut given = |section: &mut Section, is_positive: bool| {
            let numbers = numbers(draws, DType::Float, channels as usize, false);
            let numbers: Vec<f64> = numbers.iter().map(|x| if is_positive { x.abs() } else { *x }).collect();
            let param = section.fresh();
            section.params.push((param.clone(), "Tensor"));
            let vector = Tensor::of(&numbers, DType::Float, &[channels], Precision::Typed);
            section.inputs.push(IValue::Tensor(vector));
            (param, draws.one_in(3))
        };
        let operands = [given(self, false), given(self, false), given(self, false), given(self, true)];
        let [weight, bias, (mean, _), (variance, _)] = operands;
        let optional = |(name, is_missing): (String, bool)| if is_missing { "%none".to_owned() } else { name };
        let eps = self.line("float", "prim::Constant[value=1e-05]()");
        let operands =
            format!("{x}, {}, {}, {mean}, {variance}, %no, {eps}, {eps}, %no", optional(weight), optional(bias));
        let made = self.line("Tensor", &format!("aten::batch_norm({operands})"));
        self.computed.push(made);
    }

    /// A node with several results, of which some are read.
    fn made_at_once(&mut self, draws: &mut Dice, count: usize, text: &str, keeps: bool) {
        let names: Vec<String> = (0..count).map(|_| self.fresh()).collect();
        let outputs: Vec<String> = names.iter().map(|name| format!("{name} : Tensor")).collect();
        self.lines.push(format!("{} = {text}", outputs.join(", ")));
        let mut read: Vec<String> = names.iter().filter(|_| !draws.one_in(4)).cloned().collect();
        if read.is_empty() {
            read.push(names[0].clone());
        }
        if keeps { self.computed.extend(read) } else { self.rows.extend(read) }
    }

    /// A norm and its gradient: sums over rows, and over the elements at the same position of all
    /// rows.
    fn gradient_of_norm(&mut self, draws: &mut Dice, x: &str, sizes: &str, eps: &str) {
        let names: Vec<String> = (0..6).map(|_| self.fresh()).collect();
        let outputs: Vec<String> = names.iter().map(|name| format!("{name} : Tensor")).collect();
        let norm = format!("aten::native_layer_norm({x}, {sizes}, %none, %none, {eps})");
        self.lines.push(format!("{} = {norm}", outputs[..3].join(", ")));
        let mask = self.line("bool[]", "prim::ListConstruct(%yes, %yes, %yes)");
        let given = self.line("Tensor", &format!("aten::sigmoid({})", names[0]));
        let operands = format!("{given}, {x}, {sizes}, {}, {}, %none, %none, {mask}", names[1], names[2]);
        self.lines.push(format!("{} = aten::native_layer_norm_backward({operands})", outputs[3..].join(", ")));
        self.computed.push(names[3].clone());
        self.column_reductions.extend(names[4..].iter().filter(|_| draws.one_in(2)).cloned());
    }

    /// Reduces to several results, or finds the index of an element.
    fn several(&mut self, draws: &mut Dice, x: &str, reduced: &[usize], dims: &str) {
        let (is_all, rank) = (reduced.len() == self.shape.len(), self.shape.len());
        if rank > 1 && reduced.len() + 1 == rank && !reduced.contains(&1) {
            let momentum = self.line("float", "prim::Constant[value=0.5]()");
            let names: Vec<String> = (0..3).map(|_| self.fresh()).collect();
            let outputs: Vec<String> = names.iter().map(|name| format!("{name} : Tensor")).collect();
            let none = ["%none"; 4].join(", ");
            let norm = format!("aten::native_batch_norm({x}, {none}, %yes, {momentum}, {momentum})");
            self.lines.push(format!("{} = {norm}", outputs.join(", ")));
            self.computed.push(names[0].clone());
            return self.rows.extend(names[1..].iter().filter(|_| draws.one_in(2)).cloned());
        }
        let keep = draws.one_in(2);
        let kept = if keep { "%yes" } else { "%no" };
        let kind = draws.pick(&["var_mean", "std_mean", "max", "min", "argmax", "argmin", "aminmax"]);
        let (dim, form) = match kind {
            "var_mean" | "std_mean" => (format!("int[] = prim::Constant[value={dims}]()"), "%yes, "),
            _ if reduced.len() == 1 && !(is_all && draws.one_in(2)) => {
                (format!("int = prim::Constant[value={}]()", dims.trim_matches(['[', ']'])), "")
            }
            "argmax" | "argmin" | "aminmax" if is_all => ("None = prim::Constant()".to_owned(), ""),
            _ => return self.several(draws, x, reduced, dims),
        };
        let (ty, constant) = dim.split_once(" = ").unwrap_or_default();
        let dim = self.line(ty, constant);
        let count = if kind.starts_with("arg") { 1 } else { 2 };
        let keeps = keep || reduced.is_empty() && self.shape.is_empty();
        self.made_at_once(draws, count, &format!("aten::{kind}({x}, {dim}, {form}{kept})"), keeps);
    }

    /// Reduces and computes with the result repeatedly, as norms do:
    ///
    /// ```text
    /// h = exp(x)    f = sum(h)    y = h / f    g = var(y)    z = h - g    …
    /// ```
    fn phases(&mut self, draws: &mut Dice) {
        const HEAVY: &[&str] = &["exp", "sigmoid", "tanh", "erf", "silu", "neg"];
        self.many = true;
        let (x, whole, one) =
            (self.tensor(draws), self.tensors[0].clone(), self.line("int", "prim::Constant[value=1]()"));
        let x = self.line("Tensor", &format!("aten::add({x}, {whole}, {one})"));
        let mut known = vec![self.line("Tensor", &format!("aten::{}({x})", draws.pick(HEAVY))), x];
        let dims: Vec<i64> = self.reduced.iter().flatten().map(|&dim| dim as i64).collect();
        let dims = self.line("int[]", &format!("prim::Constant[value={dims:?}]()"));
        for _ in 0..1 + draws.below(3) {
            let of = known[draws.below(known.len())].clone();
            let reduce = match draws.below(6) {
                0 | 1 => format!("aten::sum({of}, {dims}, %yes, %none)"),
                2 => format!("aten::mean({of}, {dims}, %yes, %none)"),
                3 => format!("aten::amax({of}, {dims}, %yes)"),
                4 => format!("aten::var({of}, {dims}, %no, %yes)"),
                _ => format!("aten::std({of}, {dims}, %no, %yes)"),
            };
            let reduced = self.line("Tensor", &reduce);
            let with = known[draws.below(known.len())].clone();
            let made = match draws.below(4) {
                0 => format!("aten::mul({with}, {reduced})"),
                1 => format!("aten::sub({with}, {reduced}, {one})"),
                2 => format!("aten::add({with}, {reduced}, {one})"),
                _ => format!("aten::maximum({with}, {reduced})"),
            };
            let mut made = self.line("Tensor", &made);
            if draws.one_in(3) {
                made = self.line("Tensor", &format!("aten::{}({made})", draws.pick(HEAVY)));
            }
            known.push(made);
            if draws.one_in(3) {
                known.push(reduced);
            }
        }
        known.rotate_left(1);
        self.computed.extend(known);
    }

    /// Sums a value with the shape of the largest operand over any dimensions, for a result that
    /// nothing reads.
    fn column_reduction(&mut self, draws: &mut Dice) {
        let (x, whole, one) =
            (self.tensor(draws), self.tensors[0].clone(), self.line("int", "prim::Constant[value=1]()"));
        let mut x = self.line("Tensor", &format!("aten::add({x}, {whole}, {one})"));
        if !draws.one_in(4) {
            x = self.line("Tensor", &format!("aten::_cast_Float({x}, %no)"));
        }
        let rank = self.shape.len();
        let dims: Vec<i64> = (0..rank as i64).filter(|_| draws.one_in(2)).collect();
        let dims: Vec<i64> =
            dims.into_iter().map(|dim| if draws.one_in(2) { dim } else { dim - rank as i64 }).collect();
        let dims = self.line("int[]", &format!("prim::Constant[value={dims:?}]()"));
        let keep = draws.pick(&["%yes", "%no"]);
        let sum = self.line("Tensor", &format!("aten::sum({x}, {dims}, {keep}, %none)"));
        self.column_reductions.push(sum);
    }

    /// Computes with reduced values.
    fn row(&mut self, draws: &mut Dice) {
        let (a, b) = (self.rows[draws.below(self.rows.len())].clone(), self.rows[self.rows.len() - 1].clone());
        let kind = draws.pick(&["mul", "exp", "relu", "maximum"]);
        let operands = if ["mul", "maximum"].contains(&kind) { format!("{a}, {b}") } else { b };
        let made = self.line("Tensor", &format!("aten::{kind}({operands})"));
        self.rows.push(made);
    }

    fn finished(mut self, draws: &mut Dice, era: Era, rank: usize) -> Group {
        let reduces = self.reduced.is_some();
        if self.computed.is_empty() || !self.rows.is_empty() && draws.one_in(3) {
            self.computed.extend(self.rows.last().cloned());
        }
        let mut results = vec![self.computed[self.computed.len() - 1].clone()];
        if !self.rows.is_empty() && draws.one_in(2) {
            results.extend(self.rows.last().cloned());
        }
        if self.many {
            let others = self.computed[..self.computed.len() - 1].to_vec();
            results.extend(others.into_iter().filter(|_| draws.one_in(2)));
        } else if self.computed.len() > 1 && draws.one_in(3) {
            results.push(self.computed[self.computed.len() - 2].clone());
        }
        results.append(&mut self.column_reductions);
        if rank > 0 && self.reduced.is_none() && draws.one_in(8) {
            let name = self.fresh();
            let dim = draws.below(rank);
            self.lines
                .push(format!("{name} : Tensor = prim::FusedConcat[dim={dim}]({})", [&*results[0]; 2].join(", ")));
            results = vec![name];
        }
        let list = |ty: bool, params: &[(String, &str)]| {
            params.iter().map(|(name, of)| if ty { format!("{name} : {of}") } else { name.clone() }).collect::<Vec<_>>()
        };
        let constants = ["%no : bool = prim::Constant[value=0]()", "%yes : bool = prim::Constant[value=1]()"];
        self.lines.splice(0..0, constants.map(str::to_owned));
        self.lines.insert(0, "%none : None = prim::Constant()".to_owned());
        let (outer, names) = (list(true, &self.params).join(", "), list(false, &self.params).join(", "));
        let outputs: Vec<String> = (0..results.len()).map(|i| format!("%r{i} : Tensor")).collect();
        let returned: Vec<String> = (0..results.len()).map(|i| format!("%r{i}")).collect();
        let text = format!(
            "graph({outer}):\n  {} = prim::FusionGroup_0({names})\n  return ({})\nwith prim::FusionGroup_0 = graph({outer}):\n  {}\n  return ({})\n",
            outputs.join(", "),
            returned.join(", "),
            self.lines.join("\n  "),
            results.join(", ")
        );
        Group { text, inputs: self.inputs, era, reduces }
    }
}

/// The layouts of operands, for findings.
fn layouts(group: &Group) -> String {
    let tensors = group.inputs.iter().filter_map(IValue::tensor);
    let lines = tensors.map(|x| format!("{:?} {:?} strides {:?}\n", x.dtype(), x.shape(), x.strides()));
    lines.collect()
}

/// Whether results have the same layout as without kernels.
fn same_layout(graph: &Graph, inputs: &[IValue], backend: &CpuBackend) -> Result<(), String> {
    let env = Environment::default();
    let run = |machine: Machine<'_>| -> Option<Vec<IValue>> {
        let mut machine = machine;
        machine.run(inputs.to_vec()).ok()
    };
    let plain = run(Machine::new(graph, &env));
    let kernels = run(Machine::new(graph, &env).backed_by(backend));
    let (Some(plain), Some(kernels)) = (plain, kernels) else { return Ok(()) };
    for (a, b) in plain.iter().zip(&kernels).filter_map(|(a, b)| a.tensor().zip(b.tensor())) {
        let laid = |x: &Tensor| (x.dtype(), x.shape().to_vec(), strides_that_count(x), x.device());
        if laid(a) != laid(b) {
            return Err(format!("the interpreter makes {:?}, the kernel {:?}", laid(a), laid(b)));
        }
    }
    Ok(())
}

/// Strides of dimensions that are iterated.
fn strides_that_count(x: &Tensor) -> Vec<i64> {
    let walked = x.shape().iter().zip(x.strides()).filter(|(size, _)| **size > 1);
    if x.numel() == 0 { Vec::new() } else { walked.map(|(_, &stride)| stride).collect() }
}

/// Operators that round several times, as eager kernels do too; the budget assumes one rounding per
/// operator, too little where sums cancel. `gelu` keeps digits where PyTorch's returns 0. The
/// exponential in `mish` of numbers below -87 is denormal, and rounded before it is multiplied.
const ROUND_TWICE: &[&str] = &[
    "aten::add(",
    "aten::sub(",
    "aten::rsub(",
    "aten::addcmul(",
    "aten::addcdiv(",
    "aten::gelu(",
    "aten::mish(",
    "aten::silu_backward(",
];

/// The final tolerance of groups with such operators.
const LOOSE: Tolerance = Tolerance { rtol: 2e-5, atol: 1e-15, of_largest: 1e-6, dtypes: true };

/// Norms of nearly equal elements lose their common digits: kernels keep the mean in the element
/// type, as eager ones do.
const NORMS: Tolerance = Tolerance { rtol: 1e-3, atol: 1e-15, of_largest: 1e-4, dtypes: true };

/// The mean of equal doubles may lack the last digit, so that a norm of them is not quite 0.
const NORMS_OF_DOUBLES: Tolerance = Tolerance { rtol: 1e-9, atol: 1e-11, of_largest: 1e-9, dtypes: true };

/// Doubles are summed in any order, of thousands by vectors.
const SUMS_OF_DOUBLES: Tolerance = Tolerance { rtol: 1e-13, atol: 0.0, of_largest: 1e-15, dtypes: true };

/// The tolerance that decides about a group whose results are beyond the budget.
fn tolerance(group: &Group) -> Option<Tolerance> {
    let calls = |kind: &str| group.text.contains(kind);
    let has_doubles = group.inputs.iter().filter_map(IValue::tensor).any(|x| x.dtype() == DType::Double);
    match ROUND_TWICE.iter().any(|kind| calls(kind)) {
        true if calls("aten::layer_norm(") => Some(NORMS),
        true => Some(LOOSE),
        false if has_doubles && calls("_norm(") => Some(NORMS_OF_DOUBLES),
        false => group.reduces.then_some(SUMS_OF_DOUBLES),
    }
}

/// Number of times that a failing group runs again: a failure in every run indicates a wrong
/// kernel, otherwise a wrong launch.
const AGAIN: usize = 5;

/// Number of groups per compilation unit.
pub(crate) const TOGETHER: usize = 50;

/// How a unit is compiled: without vectors, or as by `jitopt run` with additional flags.
#[derive(Clone, Copy)]
enum How {
    Scalar,
    Vectors(&'static str),
}

/// Of twenty units one uses the vectors of this processor, one those of AVX2, and one those of
/// baseline processors. Seeds determine it, so that a group that runs alone is compiled as among
/// its neighbours.
fn how(unit: u64) -> How {
    match unit % 20 {
        0 => How::Vectors(""),
        7 if cfg!(target_arch = "x86_64") => How::Vectors("-mno-avx512f"),
        14 if cfg!(target_arch = "x86_64") => How::Vectors("-march=x86-64"),
        _ => How::Scalar,
    }
}

/// The results of a checked group.
pub(crate) struct Checked {
    pub(crate) wrong: Option<String>,
    /// The seed, if only the tolerance accepted the result, and the finding by the budget.
    loosened: Option<(u64, String)>,
    counts: Counts,
    /// Whether its nest gave the same bits as its kernel.
    nests: u64,
    /// The same of groups with reductions.
    reduced_nests: u64,
    /// Whether its nest was compared with the interpreter.
    judged_nests: u64,
    reasons: Vec<String>,
}

/// A group that another generator draws: a fifth of them are of the older era.
fn drawn(seed: u64, (text, inputs, reduces): (String, Vec<IValue>, bool)) -> Group {
    Group { text, inputs, era: if seed.is_multiple_of(5) { Era::V1_3 } else { Era::V2 }, reduces }
}

/// The group of a seed.
pub(crate) fn parsed(&seed: &u64) -> (u64, Graph, Group) {
    let group = match seed {
        0..POOLS => group(seed),
        POOLS..LAYERS => drawn(seed, pools(seed)),
        _ => drawn(seed, layers(seed)),
    };
    let parsed = parse(group.text.as_bytes(), ParseOptions::of(Release::of(group.era)));
    (seed, parsed.expect("random groups are graphs").graph, group)
}

/// Compiles groups as one unit.
pub(crate) fn compile_all(groups: &[(u64, Graph, Group)], backend: &CpuBackend) {
    let requests = groups.iter().map(|(_, graph, group)| {
        let node = graph.nodes(graph.root()).next().expect("there is a group");
        Request {
            section: graph.subgraph(node).expect("groups have sections"),
            name: graph.kind(node).as_str(),
            operands: &group.inputs,
            release: (Release::of(graph.era).0, Release::of(graph.era).1),
        }
    });
    backend.compile_together(&requests.collect::<Vec<_>>());
}

/// Compiles groups together and checks each.
fn check_together(seeds: &[u64], how: How) -> Vec<Checked> {
    let unit = seeds[0] / TOGETHER as u64;
    let stream = Some(unit.is_multiple_of(2));
    let always_threads = unit.is_multiple_of(3).then_some(2 + unit as usize % 4);
    let (scalar, options) = match how {
        How::Scalar => (true, ""),
        How::Vectors(options) => (false, options),
    };
    let cc = Some(format!("{} {options}", std::env::var("CC").unwrap_or("cc".to_owned())));
    let backend =
        Rc::new(CpuBackend::new(Settings { cc, guarded: true, scalar, stream, always_threads, ..Settings::default() }));
    let groups: Vec<(u64, Graph, Group)> = seeds.iter().map(parsed).collect();
    compile_all(&groups, &backend);
    let together = backend.counts();
    // Without fused multiply-adds compiled kernels have other last digits than nests here.
    let has_own_digits = !options.contains("-march=x86-64");
    let mut all: Vec<Checked> =
        groups.iter().map(|(seed, graph, group)| check(*seed, graph, group, &backend)).collect();
    let nests = Rc::new(executor(always_threads));
    // An operation on two NaNs gives the sign of either.
    let reads_signs = |group: &Group| ["aten::signbit", "aten::copysign"].iter().any(|kind| group.text.contains(kind));
    for ((seed, graph, group), checked) in groups.iter().zip(&mut all).filter(|_| has_own_digits) {
        if reads_signs(group) {
            continue;
        }
        if group.reduces && !scalar {
            let judged = check(*seed, graph, group, &nests);
            checked.judged_nests = judged.counts.launched.min(1);
            if let Some(why) = judged.wrong {
                checked.wrong = Some(format!("the executed nest: {why}"));
            }
            continue;
        }
        match same_bits(graph, &group.inputs, &backend, &nests) {
            Ok(ran) => {
                checked.nests = u64::from(ran && !group.reduces);
                checked.reduced_nests = u64::from(ran && group.reduces);
            }
            Err(why) => checked.wrong = Some(format!("seed {seed}: {why}\n{}{}", group.text, layouts(group))),
        }
    }
    all[0].counts.compiled += together.compiled;
    all[0].counts.units += together.units;
    all
}

/// The failure of a group, if any; the counters, and why it was not compiled.
pub(crate) fn check(seed: u64, graph: &Graph, group: &Group, backend: &Rc<CpuBackend>) -> Checked {
    let (before, said) = (backend.counts(), backend.remarks().len());
    let settings = JudgeSettings { backend: Some(backend.clone()), ..JudgeSettings::default() };
    let policy =
        Policy { signed_zero: false, overflow_is_large: true, tolerance: None, sharing: false, explain: false };
    let mut verdict = judge(graph, graph, &settings, &group.inputs, policy);
    let beyond_budget = if let Verdict::Differs(lines) = &verdict { Some(lines.join("\n")) } else { None };
    if beyond_budget.is_some()
        && let Some(tolerance) = tolerance(group)
    {
        verdict = judge(graph, graph, &settings, &group.inputs, Policy { tolerance: Some(tolerance), ..policy });
    }
    let loosened = beyond_budget.filter(|_| !matches!(verdict, Verdict::Differs(_)));
    let again = || judge(graph, graph, &settings, &group.inputs, policy);
    let once = matches!(verdict, Verdict::Differs(_)) && (0..AGAIN).any(|_| matches!(again(), Verdict::Same));
    let counts = backend.counts().since(&before);
    let reasons = backend.remarks()[said..].to_vec();
    let wrong = match verdict {
        Verdict::Differs(lines) => Some(lines.join("\n")),
        // The interpreter makes rows of what `where` and `masked_fill` choose, which the kernel
        // does not.
        Verdict::Same
            if counts.launched > 0
                && !["aten::where", "aten::masked_fill"].iter().any(|kind| group.text.contains(kind)) =>
        {
            same_layout(graph, &group.inputs, backend).err()
        }
        _ => None,
    };
    let often = if once { " (not each time)" } else { "" };
    let wrong = wrong.map(|why| format!("seed {seed}{often}: {why}\n{}{}", group.text, layouts(group)));
    let loosened = loosened.map(|why| (seed, format!("{why}\n{}", group.text)));
    Checked { wrong, loosened, counts, nests: 0, reduced_nests: 0, judged_nests: 0, reasons }
}

#[test]
fn random_groups() {
    let seeds = seeds("JITOPT_GROUPS", 700, 0);
    let (reduced, divided) = run_all(&seeds);
    assert!(reduced * 10 > seeds.len() as u64, "hardly a nest with reductions is executed: {reduced}");
    assert!(divided * 100 > seeds.len() as u64, "hardly a group is divided");
}

/// Checks groups, and prints how many ran. Returns how many reduced, and how many were divided.
pub(crate) fn run_all(seeds: &[u64]) -> (u64, u64) {
    let everywhere = std::env::var("JITOPT_GROUPS_VECTORS").is_ok();
    let units: Vec<&[u64]> = seeds.chunks(TOGETHER).collect();
    let checked = parallel::each(&units, |seeds| {
        check_together(seeds, if everywhere { How::Vectors("") } else { how(seeds[0] / TOGETHER as u64) })
    });
    let all: Vec<Checked> = checked.into_iter().flatten().collect();
    let wrong: Vec<&String> = all.iter().filter_map(|found| found.wrong.as_ref()).collect();
    let sum = |f: fn(&Counts) -> u64| all.iter().map(|found| f(&found.counts)).sum::<u64>();
    let (launched, fallen_back) = (sum(|counts| counts.launched), sum(|counts| counts.fallen_back));
    let divided = sum(|counts| counts.divided);
    let mut reasons: BTreeMap<String, usize> = BTreeMap::new();
    for reason in all.iter().flat_map(|found| &found.reasons) {
        *reasons.entry(reason.split("unfused: ").last().unwrap_or(reason).to_owned()).or_default() += 1;
    }
    let mut reasons: Vec<_> = reasons.into_iter().collect();
    reasons.sort_by_key(|reason| std::cmp::Reverse(reason.1));
    let reported: String = reasons.iter().take(12).map(|(why, n)| format!("{n:6} {why}\n")).collect();
    let (kernels, units) = (sum(|counts| counts.compiled), sum(|counts| counts.units));
    println!(
        "{} groups, {kernels} kernels in {units} units, {launched} launches, {divided} divided, {fallen_back} unfused\n{reported}",
        seeds.len()
    );
    let loosened: Vec<&(u64, String)> = all.iter().filter_map(|found| found.loosened.as_ref()).collect();
    println!("{} within the tolerance, and beyond the budget", loosened.len());
    loosened.iter().for_each(|(seed, why)| println!("seed {seed}: {why}"));
    let nests: u64 = all.iter().map(|found| found.nests).sum();
    let reduced: u64 = all.iter().map(|found| found.reduced_nests).sum();
    let judged: u64 = all.iter().map(|found| found.judged_nests).sum();
    println!("{nests} nests without and {reduced} with reductions have the same bits, {judged} are within the budget");
    let shown: Vec<&str> = wrong.iter().take(30).map(|text| text.as_str()).collect();
    assert!(wrong.is_empty(), "{} groups of {} are wrong\n{}", wrong.len(), seeds.len(), shown.join("\n"));
    assert!(launched * 2 > seeds.len() as u64, "hardly a group runs as a kernel\n{reported}");
    assert!(nests * 10 > seeds.len() as u64, "hardly a nest is executed: {nests}");
    (reduced, divided)
}
