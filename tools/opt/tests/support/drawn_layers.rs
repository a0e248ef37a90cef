//! Random groups with layers: norms of rows and of channels with weights of their own type, softmax
//! that converts, quotients of halves with a rounding, reductions of everything, scans of long
//! rows, and parts of different sizes. Pointwise operators of other types and shapes are around
//! them.

use super::dice::Dice;
use super::drawn_lines::{FLOATS, INTEGERS, Lines};
use super::drawn_pools::parts;
use super::strided_tensors::numbers;
use jitopt_core::interpreter::IValue;
use jitopt_core::tensor::{DType, Precision, Tensor};

/// Seeds from here on are those of layers.
pub(crate) const LAYERS: u64 = 1 << 41;

/// The most elements of an operand.
const MOST: i64 = 20_000;

/// A group with its operands, and whether it reduces.
type Drawn = (String, Vec<IValue>, bool);

struct Drawing<'d> {
    draws: &'d mut Dice,
    group: Lines,
    is_special: bool,
    results: Vec<String>,
}

impl Drawing<'_> {
    fn param(&mut self, dtype: DType, shape: &[i64]) -> String {
        self.group.param(self.draws, dtype, shape, self.is_special)
    }

    /// An operand of ordinary numbers.
    fn plain(&mut self, dtype: DType, shape: &[i64]) -> String {
        self.group.param(self.draws, dtype, shape, false)
    }

    /// A shape that broadcasts to another one.
    fn smaller(&mut self, shape: &[i64]) -> Vec<i64> {
        let from = self.draws.below(shape.len() + 1) * usize::from(self.draws.one_in(2));
        shape[from..].iter().map(|&size| if self.draws.one_in(4) { 1 } else { size }).collect()
    }

    /// Operators on each element, which keep the type of `x`, or may change it.
    fn pointwise(&mut self, x: &str, dtype: DType, shape: &[i64], keeps: bool) -> String {
        let mut last = x.to_owned();
        for _ in 0..self.draws.below(4) {
            let text = match self.draws.below(9) {
                0 => format!("aten::relu({last})"),
                1 if dtype.is_float() => format!("aten::tanh({last})"),
                2 if dtype.is_float() => format!("aten::sigmoid({last})"),
                3 => format!("aten::mul({last}, {x})"),
                4 if !keeps => {
                    format!("aten::_cast_{}({last}, %no)", self.draws.pick(&["Float", "Half", "Double"]))
                }
                5 | 6 => {
                    let (own, other) = (self.smaller(shape), self.draws.pick(FLOATS));
                    let other = self.param(if keeps { dtype } else { other }, &own);
                    format!("aten::mul({last}, {other})")
                }
                7 => {
                    let one = self.group.int(1);
                    format!("aten::add({last}, {x}, {one})")
                }
                _ => format!("aten::neg({last})"),
            };
            last = self.group.tensor(&text);
        }
        last
    }

    /// A result, after operators on each element of it.
    fn yields(&mut self, x: &str, dtype: DType, shape: &[i64]) {
        let made = self.pointwise(x, dtype, shape, false);
        if made != x && self.draws.one_in(3) {
            self.results.push(x.to_owned());
        }
        self.results.push(made);
    }

    /// The type of the weights of a norm of elements of a type: halves may have floats.
    fn weights(&mut self, dtype: DType) -> DType {
        let is_half = matches!(dtype, DType::Half | DType::BFloat16);
        if is_half && !self.draws.one_in(3) { DType::Float } else { dtype }
    }

    /// Positive numbers of a type.
    fn variances(&mut self, dtype: DType, count: i64) -> String {
        let numbers: Vec<f64> =
            numbers(self.draws, dtype, count as usize, false).into_iter().map(|x| x.abs() + 0.01).collect();
        self.group.given(Tensor::of(&numbers, dtype, &[count], Precision::Typed))
    }

    fn norm_of_rows(&mut self) {
        let shape = shape(self.draws, 1);
        let (dtype, first) = (self.draws.pick(FLOATS), self.draws.below(shape.len()));
        let row = shape[first..].to_vec();
        let (sizes, eps) = (self.group.list(&row), self.group.line("float", "prim::Constant[value=1e-05]()"));
        let x = self.param(dtype, &shape);
        let x = self.pointwise(&x, dtype, &shape, true);
        let of = self.weights(dtype);
        let mut weight =
            || if self.draws.one_in(4) { None } else { Some(self.group.param(self.draws, of, &row, false)) };
        let [w, b] = [weight(), weight()].map(|weight| weight.unwrap_or("%none".to_owned()));
        if of != dtype || !self.draws.one_in(3) {
            let y = self.group.tensor(&format!("aten::layer_norm({x}, {sizes}, {w}, {b}, {eps}, %no)"));
            return self.yields(&y, dtype, &shape);
        }
        let made = self.group.tensors(3, &format!("aten::native_layer_norm({x}, {sizes}, {w}, {b}, {eps})"));
        if self.draws.one_in(2) {
            self.results.extend(made[1..].iter().cloned());
            return self.yields(&made[0], dtype, &shape);
        }
        let gradient = self.plain(dtype, &shape);
        let mask = self.group.line("bool[]", "prim::ListConstruct(%yes, %yes, %yes)");
        let operands = format!("{gradient}, {x}, {sizes}, {}, {}, {w}, {b}, {mask}", made[1], made[2]);
        let made = self.group.tensors(3, &format!("aten::native_layer_norm_backward({operands})"));
        self.yields(&made[0], dtype, &shape);
        let given = [&w, &b].map(|weight| weight != "%none");
        let wanted = made[1..].iter().zip(given).filter(|(_, is_given)| *is_given);
        self.results.extend(wanted.map(|(name, _)| name.clone()));
    }

    fn softmax(&mut self) {
        let shape = shape(self.draws, 1);
        let dtype = if self.draws.one_in(8) { self.draws.pick(INTEGERS) } else { self.draws.pick(FLOATS) };
        // Integers have a softmax only where they are converted.
        let converts = !dtype.is_float() || self.draws.one_in(2);
        let x = self.param(dtype, &shape);
        let x = self.pointwise(&x, dtype, &shape, true);
        let dim = self.draws.below(shape.len()) as i64 - if self.draws.one_in(2) { shape.len() as i64 } else { 0 };
        let dim = self.group.int(dim);
        let to = if converts { self.group.int(self.draws.pick(&[6, 6, 7, 5])) } else { "%none".to_owned() };
        let kind = self.draws.pick(&["softmax", "log_softmax"]);
        let y = self.group.tensor(&format!("aten::{kind}({x}, {dim}, {to})"));
        self.yields(&y, DType::Float, &shape);
    }

    /// A batch norm with running statistics, or one in three of the batch's own.
    fn norm_of_channels(&mut self) {
        let shape = shape(self.draws, 2);
        let dtype = self.draws.pick(FLOATS);
        let (of, channels) = (self.weights(dtype), shape[1]);
        let x = self.param(dtype, &shape);
        let x = self.pointwise(&x, dtype, &shape, true);
        let mut vector =
            || if self.draws.one_in(4) { None } else { Some(self.group.param(self.draws, of, &[channels], false)) };
        let [w, b] = [vector(), vector()].map(|weight| weight.unwrap_or("%none".to_owned()));
        let (mean, variance, training) = match self.draws.one_in(3) {
            true => ("%none".to_owned(), "%none".to_owned(), "%yes"),
            false => (self.plain(of, &[channels]), self.variances(of, channels), "%no"),
        };
        let eps = self.group.line("float", "prim::Constant[value=1e-05]()");
        let operands = format!("{x}, {w}, {b}, {mean}, {variance}, {training}, {eps}, {eps}, %no");
        let y = self.group.tensor(&format!("aten::batch_norm({operands})"));
        self.yields(&y, dtype, &shape);
    }

    /// A quotient that is rounded, or a remainder, mostly of halves.
    fn quotient(&mut self) {
        let shape = shape(self.draws, 0);
        let dtype = self.draws.pick(&[DType::Half, DType::Half, DType::BFloat16, DType::Float, DType::Double]);
        let x = self.param(dtype, &shape);
        let x = self.pointwise(&x, dtype, &shape, true);
        let mut mode = self.draws.pick(&["floor", "trunc"]);
        let by = match self.draws.one_in(2) {
            true => {
                let number = self.draws.pick(&["0.1", "3.", "-0.75", "1e-05", "2.5", "0."]);
                self.group.line("float", &format!("prim::Constant[value={number}]()"))
            }
            false => {
                // No kernel rounds quotients of halves by tensors towards zero.
                mode = if dtype.size() == 2 { "floor" } else { mode };
                let own = self.smaller(&shape);
                self.param(dtype, &own)
            }
        };
        let y = match self.draws.below(6) {
            0 => format!("aten::floor_divide({x}, {by})"),
            1 => format!("aten::remainder({x}, {by})"),
            2 => format!("aten::fmod({x}, {by})"),
            _ => {
                let mode = self.group.line("str", &format!("prim::Constant[value=\"{mode}\"]()"));
                format!("aten::div({x}, {by}, {mode})")
            }
        };
        let y = self.group.tensor(&y);
        self.yields(&y, dtype, &shape);
    }

    /// One or two reductions of all elements, and what is computed of them.
    fn everything(&mut self) {
        let shape = shape(self.draws, 0);
        // Of thousands of floats a part of the product may overflow, and another one be 0.
        let is_short = shape.iter().product::<i64>() < 300;
        let dtype = if self.draws.one_in(4) { self.draws.pick(INTEGERS) } else { self.draws.pick(FLOATS) };
        let x = self.param(dtype, &shape);
        let x = self.pointwise(&x, dtype, &shape, true);
        let dims = self.group.list(&(0..shape.len() as i64).collect::<Vec<_>>());
        let keeps = self.draws.one_in(3);
        let keep = if keeps { "%yes" } else { "%no" };
        for _ in 0..1 + self.draws.below(2) {
            let text = match self.draws.below(11) {
                0 => format!("aten::sum({x}, {dims}, {keep}, %none)"),
                1 => format!("aten::sum({x}, %none)"),
                2 if dtype.is_float() => format!("aten::mean({x}, {dims}, {keep}, %none)"),
                3 => format!("aten::amax({x}, {dims}, {keep})"),
                4 => format!("aten::amin({x}, {dims}, {keep})"),
                5 if is_short || !dtype.is_float() => format!("aten::prod({x}, %none)"),
                6 if dtype.is_float() => format!("aten::var({x}, {dims}, %yes, {keep})"),
                7 if dtype.is_float() => format!("aten::std({x}, {dims}, %no, {keep})"),
                8 if dtype.is_float() => format!("aten::logsumexp({x}, {dims}, {keep})"),
                9 => format!("aten::argmax({x}, %none, %no)"),
                10 => format!("aten::argmin({x}, %none, %no)"),
                _ => format!("aten::sum({x}, {dims}, {keep}, %none)"),
            };
            let y = self.group.tensor(&text);
            match self.draws.below(4) {
                0 => {
                    let other = self.plain(DType::Float, &[]);
                    let made = self.group.tensor(&format!("aten::mul({y}, {other})"));
                    self.results.push(made);
                }
                1 if keeps => {
                    let made = self.group.tensor(&format!("aten::maximum({x}, {y})"));
                    self.results.push(made);
                }
                _ => self.results.push(y),
            }
        }
    }

    fn scan(&mut self) {
        let shape = shape(self.draws, 1);
        let dtype = if self.draws.one_in(4) { self.draws.pick(INTEGERS) } else { self.draws.pick(FLOATS) };
        let x = self.param(dtype, &shape);
        let x = self.pointwise(&x, dtype, &shape, true);
        let dim = self.group.int(self.draws.below(shape.len()) as i64);
        let to = if self.draws.one_in(4) { self.group.int(self.draws.pick(&[6, 7, 4])) } else { "%none".to_owned() };
        let kind = self.draws.pick(&["cumsum", "cumsum", "cumprod"]);
        let y = self.group.tensor(&format!("aten::{kind}({x}, {dim}, {to})"));
        self.yields(&y, DType::Float, &shape);
    }
}

/// Sizes, at least so many: a few long rows, and seldom none at all.
fn shape(draws: &mut Dice, least: usize) -> Vec<i64> {
    let rank = (least + draws.below(4)).min(5);
    let mut shape: Vec<i64> = (0..rank).map(|_| draws.pick(&[1, 2, 3, 5, 8, 17, 31, 64, 300])).collect();
    if rank > 0 && draws.one_in(4) {
        let dim = draws.below(rank);
        shape[dim] = draws.pick(&[1000, 1025, 2049, 5000]);
    }
    while shape.iter().product::<i64>() > MOST {
        let largest = (0..rank).max_by_key(|&dim| shape[dim].min(299)).unwrap_or(0);
        shape[largest] = draws.pick(&[1, 2, 3]);
    }
    if rank > 0 && draws.one_in(25) {
        let dim = draws.below(rank);
        shape[dim] = 0;
    }
    shape
}

/// The text of a group, its operands, and whether it reduces.
pub(crate) fn layers(seed: u64) -> Drawn {
    let mut draws = Dice(seed.wrapping_mul(0x2545_f491_4f6c_dd1d));
    let is_special = draws.one_in(6);
    let mut drawing = Drawing { draws: &mut draws, group: Lines::new(), is_special, results: Vec::new() };
    let reduces = match seed % 8 {
        0 | 1 => {
            drawing.norm_of_rows();
            true
        }
        2 => {
            drawing.softmax();
            true
        }
        3 => {
            drawing.norm_of_channels();
            true
        }
        4 => {
            drawing.quotient();
            false
        }
        5 => {
            drawing.everything();
            true
        }
        6 => {
            drawing.scan();
            true
        }
        _ => return parts(&mut draws),
    };
    let Drawing { group, results, .. } = drawing;
    (group.text(&results), group.inputs, reduces)
}
