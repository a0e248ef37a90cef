//! Random groups with pools: windows of any size, step, padding and dilation over images in any
//! layout, with pointwise operators after them. A quarter concatenates parts of different sizes.

use super::dice::Dice;
use super::drawn_lines::{FLOATS, INTEGERS, Lines};
use jitopt_core::interpreter::IValue;
use jitopt_core::tensor::{DType, Precision, Tensor};

/// Seeds from here on are those of pools.
pub(crate) const POOLS: u64 = 1 << 40;

/// A window, with a number for each dimension.
struct Window {
    kernel: Vec<i64>,
    stride: Vec<i64>,
    padding: Vec<i64>,
    dilation: Vec<i64>,
    ceil: bool,
}

/// Appends a pool to a group; indices of largest elements, which are results, to a list.
fn pool(
    group: &mut Lines,
    indices: &mut Vec<String>,
    draws: &mut Dice,
    (x, window, is_mean): (&str, &Window, bool),
) -> String {
    let dims = window.kernel.len();
    let truth = |is_true: bool| if is_true { "%yes" } else { "%no" };
    let stride = group.list(&window.stride);
    let (kernel, padding, ceil) = (group.list(&window.kernel), group.list(&window.padding), truth(window.ceil));
    if !is_mean {
        let dilation = group.list(&window.dilation);
        let operands = format!("{x}, {kernel}, {stride}, {padding}, {dilation}, {ceil}");
        if !draws.one_in(3) {
            return group.tensor(&format!("aten::max_pool{dims}d({operands})"));
        }
        let mut made = group.tensors(2, &format!("aten::max_pool{dims}d_with_indices({operands})"));
        indices.extend(made.pop());
        return made.remove(0);
    }
    let counts = truth(draws.one_in(2));
    let given = match dims {
        2 if draws.one_in(3) => format!(", {}", group.int(draws.pick(&[1, 3, -2]))),
        2 => ", %none".to_owned(),
        _ => String::new(),
    };
    group.tensor(&format!("aten::avg_pool{dims}d({x}, {kernel}, {stride}, {padding}, {ceil}, {counts}{given})"))
}

fn window(draws: &mut Dice, sizes: &[i64], is_mean: bool) -> Window {
    let mut made = Window { kernel: vec![], stride: vec![], padding: vec![], dilation: vec![], ceil: draws.one_in(3) };
    for &size in sizes {
        let kernel = draws.pick(&[1, 2, 2, 3, 3, 4, 5]).min(size.max(1));
        let dilation = if is_mean || (kernel - 1) * 2 >= size || !draws.one_in(3) { 1 } else { 2 };
        made.padding.push(if draws.one_in(2) { draws.below(kernel as usize / 2 + 1) as i64 } else { 0 });
        made.stride.push(draws.pick(&[1, 2, 2, 3]));
        made.dilation.push(dilation);
        made.kernel.push(kernel);
    }
    // None means that of the kernel.
    if draws.one_in(4) {
        made.stride.clear();
    }
    made
}

/// A group that concatenates parts of different sizes, each computed from operands of its own, and
/// from one that is broadcast along them.
pub(crate) fn parts(draws: &mut Dice) -> (String, Vec<IValue>, bool) {
    let rank = 1 + draws.below(4);
    let shape: Vec<i64> = (0..rank).map(|_| draws.pick(&[1, 2, 3, 5, 8, 17, 40])).collect();
    let dim = draws.below(rank);
    let mut group = Lines::new();
    let dtypes = if draws.one_in(4) { INTEGERS } else { FLOATS };
    let (dtype, is_special) = (draws.pick(dtypes), draws.one_in(4));
    let mut small = shape.clone();
    small[dim] = 1;
    let shared = draws.one_in(3).then(|| group.param(draws, dtype, &small, false));
    let mut made = Vec::new();
    for _ in 0..2 + draws.below(3) {
        let mut own = shape.clone();
        own[dim] = draws.pick(&[0, 1, 2, 3, 5, 9, 64, 300]);
        let x = group.param(draws, dtype, &own, is_special);
        let mut part = vec![x];
        for _ in 0..draws.below(4) {
            let last = part[part.len() - 1].clone();
            let text = match draws.below(6) {
                0 => format!("aten::relu({last})"),
                1 if dtype.is_float() => format!("aten::tanh({last})"),
                2 if dtype.is_float() => format!("aten::exp({last})"),
                3 if shared.is_some() => format!("aten::mul({last}, {})", shared.as_deref().unwrap_or_default()),
                4 => format!("aten::mul({last}, {})", part[0]),
                _ => format!("aten::neg({last})"),
            };
            part.push(group.tensor(&text));
        }
        made.push(part[part.len() - 1].clone());
    }
    let counted = if draws.one_in(2) { dim as i64 } else { dim as i64 - rank as i64 };
    let joined = group.tensor(&format!("prim::FusedConcat[dim={counted}]({})", made.join(", ")));
    (group.text(&[joined]), group.inputs, false)
}

/// The text of a group, its operands, and whether it reduces.
pub(crate) fn pools(seed: u64) -> (String, Vec<IValue>, bool) {
    let mut draws = Dice(seed.wrapping_mul(0x2545_f491_4f6c_dd1d));
    let draws = &mut draws;
    if seed % 4 == 3 {
        return parts(draws);
    }
    let dims = if draws.one_in(4) { 1 } else { 2 };
    let mut shape: Vec<i64> = (0..dims).map(|_| draws.pick(&[1, 2, 3, 5, 6, 7, 8, 12, 31])).collect();
    let sizes = shape.clone();
    shape.insert(0, draws.pick(&[1, 2, 3, 5, 17, 33]));
    if !draws.one_in(4) {
        shape.insert(0, draws.pick(&[0, 1, 1, 2, 3]));
    }
    let (mut group, mut indices) = (Lines::new(), Vec::new());
    let (is_mean, is_special) = (draws.one_in(2), draws.one_in(4));
    let dtypes = if is_mean || dims == 1 || !draws.one_in(3) { FLOATS } else { INTEGERS };
    let dtype = draws.pick(dtypes);
    let channels = shape.len() - dims - 1;
    let reduces = dims == 2 && dtype.is_float() && draws.one_in(6);
    let mut made = Vec::new();
    if reduces {
        let x = group.param(draws, dtype, &shape, is_special);
        let x = if draws.one_in(2) { group.tensor(&format!("aten::relu({x})")) } else { x };
        let ones = group.list(&[1, 1]);
        made.push(group.tensor(&format!("aten::adaptive_avg_pool2d({x}, {ones})")));
    } else if dims == 2 && dtype.is_float() && draws.one_in(3) {
        made.push(gradient(draws, &mut group, dtype, &shape, is_mean));
    } else if draws.one_in(6) {
        let mut whole = shape.clone();
        whole[channels] *= 2;
        let x = group.param(draws, dtype, &whole, is_special);
        let halves = group.tensors(2, &format!("prim::ConstantChunk[chunks=2, dim={channels}]({x})"));
        let of = window(draws, &sizes, is_mean);
        for x in &halves {
            made.push(pool(&mut group, &mut indices, draws, (x.as_str(), &of, is_mean)));
        }
    } else {
        let of = window(draws, &sizes, is_mean);
        for _ in 0..1 + draws.below(2) {
            let x = group.param(draws, dtype, &shape, is_special);
            made.push(pool(&mut group, &mut indices, draws, (x.as_str(), &of, is_mean)));
        }
    }
    after(draws, &mut group, &mut made, dtype, &shape[channels..]);
    let results = results(draws, &mut group, (&made, indices), channels);
    (group.text(&results), group.inputs, reduces)
}

/// The gradient of a pool.
fn gradient(draws: &mut Dice, group: &mut Lines, dtype: DType, shape: &[i64], is_mean: bool) -> String {
    let dims = shape.len() - 2;
    let mut of = window(draws, &shape[dims..], is_mean);
    if of.stride.is_empty() {
        of.stride = of.kernel.clone();
    }
    let positions = |i: usize| {
        let room = shape[dims + i] + 2 * of.padding[i] - of.dilation[i] * (of.kernel[i] - 1) - 1;
        let count = (room + if of.ceil { of.stride[i] - 1 } else { 0 }).div_euclid(of.stride[i]) + 1;
        let is_beyond = of.ceil && (count - 1) * of.stride[i] >= shape[dims + i] + of.padding[i];
        (count - i64::from(is_beyond)).max(0)
    };
    let given: Vec<i64> = shape[..dims].iter().copied().chain([positions(0), positions(1)]).collect();
    let gradient = group.param(draws, dtype, &given, false);
    let image = group.param(draws, dtype, shape, false);
    let (kernel, stride, padding) = (group.list(&of.kernel), group.list(&of.stride), group.list(&of.padding));
    let ceil = if of.ceil { "%yes" } else { "%no" };
    if is_mean {
        let text = format!(
            "aten::avg_pool2d_backward({gradient}, {image}, {kernel}, {stride}, {padding}, {ceil}, %yes, %none)"
        );
        return group.tensor(&text);
    }
    let name = group.given(indices(draws, &of, &given, &shape[dims..]));
    let dilation = group.list(&of.dilation);
    let text = format!(
        "aten::max_pool2d_with_indices_backward({gradient}, {image}, {kernel}, {stride}, {padding}, {dilation}, {ceil}, {name})"
    );
    group.tensor(&text)
}

/// The index of any element under each position.
fn indices(draws: &mut Dice, of: &Window, given: &[i64], image: &[i64]) -> Tensor {
    let dims = given.len() - 2;
    let mut under = |i: usize, position: i64| {
        let all = (0..of.kernel[i]).map(|tap| position * of.stride[i] - of.padding[i] + tap * of.dilation[i]);
        let inside: Vec<i64> = all.filter(|at| (0..image[i]).contains(at)).collect();
        if inside.is_empty() { 0 } else { inside[draws.below(inside.len())] }
    };
    let images: i64 = given[..dims].iter().product();
    let mut numbers = Vec::new();
    for (h, w) in (0..images).flat_map(|_| (0..given[dims]).flat_map(|h| (0..given[dims + 1]).map(move |w| (h, w)))) {
        numbers.push(under(0, h) * image[1] + under(1, w));
    }
    Tensor::of(&numbers, DType::Long, given, Precision::Typed)
}

/// Pointwise operators.
fn after(draws: &mut Dice, group: &mut Lines, made: &mut Vec<String>, dtype: DType, image: &[i64]) {
    for _ in 0..draws.below(5) {
        let (a, b) = (made[draws.below(made.len())].clone(), made[made.len() - 1].clone());
        let text = match draws.below(7) {
            0 => format!("aten::relu({b})"),
            1 if dtype.is_float() => format!("aten::tanh({b})"),
            2 => format!("aten::neg({b})"),
            3 => format!("aten::mul({a}, {b})"),
            4 => {
                // A bias for each channel.
                let mut shape = vec![1; image.len()];
                shape[0] = image[0];
                let bias = group.param(draws, dtype, &shape, false);
                format!("aten::mul({b}, {bias})")
            }
            _ => {
                let one = group.int(1);
                format!("aten::add({a}, {b}, {one})")
            }
        };
        made.push(group.tensor(&text));
    }
}

fn results(
    draws: &mut Dice,
    group: &mut Lines,
    (made, indices): (&[String], Vec<String>),
    channels: usize,
) -> Vec<String> {
    let last = made[made.len() - 1].clone();
    if draws.one_in(8) {
        let first = &made[0];
        return vec![group.tensor(&format!("prim::FusedConcat[dim={channels}]({first}, {last})"))];
    }
    let others = made[..made.len() - 1].iter().filter(|_| draws.one_in(3)).cloned().collect::<Vec<_>>();
    [last].into_iter().chain(others).chain(indices).collect()
}
