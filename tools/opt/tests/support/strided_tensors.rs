//! Tensors of random elements and strides.

use super::dice::Dice;
use jitopt_core::tensor::{DType, Precision, Tensor};

/// A tensor with random strides.
pub(crate) fn tensor(draws: &mut Dice, dtype: DType, shape: &[i64], is_special: bool) -> Tensor {
    let mut order: Vec<usize> = (0..shape.len()).collect();
    if draws.one_in(3) {
        order.reverse();
    }
    if shape.len() > 1 && draws.one_in(4) {
        let (a, b) = (draws.below(shape.len()), draws.below(shape.len()));
        order.swap(a, b);
    }
    let steps: Vec<(i64, i64)> = shape.iter().map(|_| if draws.one_in(8) { (2, 1) } else { (1, 0) }).collect();
    let still: Vec<bool> = shape.iter().map(|_| draws.one_in(12)).collect();
    let memory: Vec<i64> =
        order.iter().map(|&dim| if still[dim] { 1 } else { shape[dim] * steps[dim].0 + steps[dim].1 }).collect();
    let n: i64 = memory.iter().product();
    let mut whole = Tensor::of(&numbers(draws, dtype, n as usize, is_special), dtype, &memory, Precision::Typed);
    for (at, &dim) in order.iter().enumerate() {
        if !still[dim] {
            whole = whole.narrow(at, steps[dim].1.min(memory[at].max(1) - 1), shape[dim], steps[dim].0);
        }
    }
    let mut places = vec![0; shape.len()];
    order.iter().enumerate().for_each(|(at, &dim)| places[dim] = at);
    let view = whole.permute(&places);
    view.broadcast_to(shape).expect("broadcast dimensions have size 1")
}

/// Numbers of a type, one in four of them special.
pub(crate) fn numbers(draws: &mut Dice, dtype: DType, n: usize, is_special: bool) -> Vec<f64> {
    const SPECIAL: [f64; 10] = [0.0, -0.0, f64::INFINITY, f64::NEG_INFINITY, f64::NAN, 1.0, -1.0, 1e-40, -2.5, 100.0];
    let real = |draws: &mut Dice| (draws.next() >> 11) as f64 / (1u64 << 53) as f64 * 6.0 - 3.0;
    let number = |_| match dtype.is_float() {
        true if is_special && draws.one_in(4) => draws.pick(&SPECIAL),
        true => real(draws),
        false => (real(draws) * 4.0).trunc(),
    };
    (0..n).map(number).collect()
}
