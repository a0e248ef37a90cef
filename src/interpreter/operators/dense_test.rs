//! Kernels of products, convolutions, networks and losses against explicit sums, difference
//! quotients, and values in PyTorch's documentation.

use crate::interpreter::random::Philox;
use crate::interpreter::{Environment, IValue, Machine, Stop};
use crate::tensor::{DType, Precision, Tensor};
use crate::text;

fn run_seeded(source: &str, inputs: Vec<IValue>, seed: u64) -> Result<Vec<IValue>, Stop> {
    let graph = text::parse(source.as_bytes(), text::ParseOptions::default()).expect("the test writes a graph").graph;
    let mut env = Environment::default();
    env.seed = seed;
    Machine::new(&graph, &env).run(inputs)
}

fn run(source: &str, inputs: &[&Tensor]) -> Tensor {
    let inputs = inputs.iter().map(|&tensor| tensor.clone().into()).collect();
    let results = run_seeded(source, inputs, 0).unwrap_or_else(|stop| panic!("{source}\n{stop}"));
    results[0].tensor().expect("the first result is a tensor").clone()
}

/// A graph of one node with these operands, which are inputs or constants: `x`, `[1, 2]`, `2`,
/// `0.5`, `None`, `True`, `"text"`.
fn call(kind: &str, operands: &[&str], outputs: usize) -> String {
    let (mut inputs, mut constants, mut names) = (Vec::new(), String::new(), Vec::new());
    let mut constant = |ty: &str, value: &str| {
        let name = format!("%c{}", constants.len());
        constants += &format!("  {name} : {ty} = prim::Constant{value}()\n");
        name
    };
    for &operand in operands {
        names.push(match operand {
            "None" => constant("NoneType", ""),
            "True" => constant("bool", "[value=1]"),
            "False" => constant("bool", "[value=0]"),
            _ if operand.starts_with('"') => constant("str", &format!("[value={operand}]")),
            _ if operand.starts_with(|c: char| c.is_ascii_digit() || c == '-') => {
                constant(if operand.contains('.') { "float" } else { "int" }, &format!("[value={operand}]"))
            }
            _ if operand.starts_with('[') => {
                let ty = if operand.contains('e') { "bool[]" } else { "int[]" };
                constant(ty, &format!("[value={}]", operand.replace("True", "1").replace("False", "0")))
            }
            _ => {
                if !inputs.contains(&operand) {
                    inputs.push(operand);
                }
                format!("%{operand}")
            }
        });
    }
    let params: Vec<String> = inputs.iter().map(|name| format!("%{name} : Tensor")).collect();
    let results: Vec<String> = (0..outputs).map(|i| format!("%r{i}")).collect();
    let typed: Vec<String> = results.iter().map(|name| format!("{name} : Tensor")).collect();
    format!(
        "graph({}):\n{constants}  {} = {kind}({})\n  return ({})\n",
        params.join(", "),
        typed.join(", "),
        names.join(", "),
        results.join(", ")
    )
}

fn random(shape: &[i64], seed: u64) -> Tensor {
    let mut draws = Philox::new(seed, 1, 1);
    let n = shape.iter().product::<i64>();
    let numbers: Vec<f64> = (0..n).map(|_| 2.0 * draws.uniform() - 1.0).collect();
    Tensor::of(&numbers, DType::Double, shape, Precision::Typed)
}

fn close(found: &Tensor, expected: &[f64], tolerance: f64) {
    let found = found.read::<f64>();
    assert_eq!(found.len(), expected.len());
    for (i, (x, y)) in found.iter().zip(expected).enumerate() {
        assert!((x - y).abs() <= tolerance * y.abs().max(1.0) || x.is_nan() && y.is_nan(), "{i}: {x}, not {y}");
    }
}

/// Compares the gradient of a backward operator with the difference quotient of the forward
/// operator.
fn check_gradient(forward: &str, inputs: &[Tensor], wrt: usize, backward: &str, more: &[&Tensor]) {
    let all: Vec<&Tensor> = inputs.iter().collect();
    let out = run(forward, &all);
    let weights = random(out.shape(), 99);
    let loss = |inputs: &[&Tensor]| -> f64 {
        run(forward, inputs).read::<f64>().iter().zip(weights.read::<f64>()).map(|(x, w)| x * w).sum()
    };
    let mut expected = Vec::new();
    let (base, step) = (inputs[wrt].read::<f64>(), 1e-6);
    for i in 0..base.len() {
        let moved = |by: f64| {
            let mut numbers = base.clone();
            numbers[i] += by;
            let moved = Tensor::of(&numbers, DType::Double, inputs[wrt].shape(), Precision::Typed);
            let mut all = all.clone();
            all[wrt] = &moved;
            loss(&all)
        };
        expected.push((moved(step) - moved(-step)) / (2.0 * step));
    }
    let operands: Vec<&Tensor> = [&weights].into_iter().chain(more.iter().copied()).collect();
    close(&run(backward, &operands), &expected, 1e-6);
}

#[test]
fn gradients_of_elementwise_kinds() {
    let cases: &[(&str, &[&str], &str, &[&str])] = &[
        ("aten::tanh", &["x"], "aten::tanh_backward", &["g", "y"]),
        ("aten::sigmoid", &["x"], "aten::sigmoid_backward", &["g", "y"]),
        ("aten::gelu", &["x", "\"none\""], "aten::gelu_backward", &["g", "x", "\"none\""]),
        ("aten::gelu", &["x", "\"tanh\""], "aten::gelu_backward", &["g", "x", "\"tanh\""]),
        ("aten::silu", &["x"], "aten::silu_backward", &["g", "x"]),
        ("aten::hardswish", &["x"], "aten::hardswish_backward", &["g", "x"]),
        ("aten::hardsigmoid", &["x"], "aten::hardsigmoid_backward", &["g", "x"]),
        ("aten::leaky_relu", &["x", "0.1"], "aten::leaky_relu_backward", &["g", "x", "0.1", "False"]),
        ("aten::elu", &["x", "0.7", "1.3", "0.9"], "aten::elu_backward", &["g", "0.7", "1.3", "0.9", "False", "x"]),
        ("aten::elu", &["x", "0.7", "1.3", "0.9"], "aten::elu_backward", &["g", "0.7", "1.3", "0.9", "True", "y"]),
        ("aten::hardtanh", &["x", "-0.5", "0.5"], "aten::hardtanh_backward", &["g", "x", "-0.5", "0.5"]),
        ("aten::softplus", &["x", "2.0", "1.5"], "aten::softplus_backward", &["g", "x", "2.0", "1.5"]),
        ("aten::softmax", &["x", "1", "None"], "aten::_softmax_backward_data", &["g", "y", "1", "7"]),
        ("aten::log_softmax", &["x", "0", "None"], "aten::_log_softmax_backward_data", &["g", "y", "0", "7"]),
    ];
    let x = random(&[3, 4], 5);
    for (kind, operands, backward, their) in cases {
        let forward = call(kind, operands, 1);
        let y = run(&forward, &[&x]);
        let more = if their.contains(&"y") { &y } else { &x };
        check_gradient(&forward, std::slice::from_ref(&x), 0, &call(backward, their, 1), &[more]);
    }
}

#[test]
fn gradients_of_losses() {
    let (x, y) = (random(&[3, 4], 1), random(&[3, 4], 2));
    let losses: &[(&str, &[&str])] =
        &[("aten::mse_loss", &[]), ("aten::smooth_l1_loss", &["0.3"]), ("aten::huber_loss", &["0.3"])];
    for (kind, more) in losses {
        for reduction in ["0", "1", "2"] {
            let forward = call(kind, &[&["x", "t", reduction][..], more].concat(), 1);
            let backward = call(&format!("{kind}_backward"), &[&["g", "x", "t", reduction][..], more].concat(), 1);
            check_gradient(&forward, &[x.clone(), y.clone()], 0, &backward, &[&x, &y]);
        }
    }
    let target = Tensor::of(&[2i64, 0, 1], DType::Long, &[3], Precision::Typed);
    let (weight, total) = (Tensor::of(&[0.2, 0.7, 1.5, 0.4], DType::Double, &[4], Precision::Typed), random(&[], 3));
    for reduction in ["0", "1", "2"] {
        let forward = call("aten::nll_loss", &["x", "t", "w", reduction, "1"], 1);
        let backward = call("aten::nll_loss_backward", &["g", "x", "t", "w", reduction, "1", "total"], 1);
        let inputs = [x.clone(), target.clone(), weight.clone()];
        check_gradient(&forward, &inputs, 0, &backward, &[&x, &target, &weight, &total]);
    }
}

#[test]
fn gradients_of_normalisations() {
    let (x, w, b) = (random(&[3, 4, 2], 1), random(&[4], 2), random(&[4], 3));
    let (m, v) = (random(&[4], 4), Tensor::of(&[0.5, 1.0, 2.0, 0.1], DType::Double, &[4], Precision::Typed));
    for train in ["True", "False"] {
        let forward = call("aten::batch_norm", &["x", "w", "b", "None", "None", train, "0.1", "0.001", "True"], 1);
        let forward = if train == "True" {
            forward
        } else {
            call("aten::batch_norm", &["x", "w", "b", "m", "v", train, "0.1", "0.001", "True"], 1)
        };
        let inputs = [x.clone(), w.clone(), b.clone(), m.clone(), v.clone()];
        let inputs = if train == "True" { &inputs[..3] } else { &inputs[..] };
        let operands = ["g", "x", "w", "m", "v", "None", "None", train, "0.001", "[True, True, True]"];
        for i in 0..3 {
            let backward = call("aten::native_batch_norm_backward", &operands, 3);
            let backward = backward.replace("return (%r0, %r1, %r2)", &format!("return (%r{i})"));
            check_gradient(&forward, inputs, i, &backward, &[&x, &w, &m, &v]);
        }
    }
    let (w, b) = (random(&[4, 2], 6), random(&[4, 2], 7));
    let forward = call("aten::layer_norm", &["x", "[4, 2]", "w", "b", "0.001", "True"], 1);
    let stats = call("aten::native_layer_norm", &["x", "[4, 2]", "w", "b", "0.001"], 3);
    let of = |i: usize| run(&stats.replace("return (%r0, %r1, %r2)", &format!("return (%r{i})")), &[&x, &w, &b]);
    let (mean, inverse) = (of(1), of(2));
    for i in 0..3 {
        let operands = ["g", "x", "[4, 2]", "m", "s", "w", "b", "[True, True, True]"];
        let backward = call("aten::native_layer_norm_backward", &operands, 3);
        let backward = backward.replace("return (%r0, %r1, %r2)", &format!("return (%r{i})"));
        check_gradient(&forward, &[x.clone(), w.clone(), b.clone()], i, &backward, &[&x, &mean, &inverse, &w, &b]);
    }
}

/// Stride, padding, dilation, groups, and whether it is transposed.
const CONVOLUTIONS: &[(i64, i64, i64, i64, bool)] = &[
    (1, 0, 1, 1, false),
    (2, 1, 1, 2, false),
    (1, 2, 2, 4, false),
    (3, 1, 2, 1, false),
    (1, 0, 1, 1, true),
    (2, 1, 1, 2, true),
    (2, 0, 2, 4, true),
];

fn convolution(stride: i64, padding: i64, dilation: i64, groups: i64, transposed: bool) -> String {
    let pair = |n: i64| format!("[{n}, {n}]");
    let (stride, padding, dilation, groups) = (pair(stride), pair(padding), pair(dilation), groups.to_string());
    let transposed = if transposed { "True" } else { "False" };
    call("aten::convolution", &["x", "w", "b", &stride, &padding, &dilation, transposed, "[0, 0]", &groups], 1)
}

/// Every product of an element and a weight, accumulated at its position.
#[test]
fn convolutions_are_sums_of_products() {
    for &(s, p, d, groups, transposed) in CONVOLUTIONS {
        let shape = if transposed { [4, 4 / groups, 3, 2] } else { [8, 4 / groups, 3, 2] };
        let (x, w) = (random(&[2, 4, 7, 6], 1), random(&shape, 2));
        let outs = if transposed { shape[1] * groups } else { shape[0] };
        let b = random(&[outs], 3);
        let found = run(&convolution(s, p, d, groups, transposed), &[&x, &w, &b]);
        let (h, width) = (found.size(2), found.size(3));
        let (xs, ws, bs) = (x.read::<f64>(), w.read::<f64>(), b.read::<f64>());
        let mut expected: Vec<f64> = (0..found.numel()).map(|i| bs[i / (h * width) as usize % outs as usize]).collect();
        for n in 0..2 {
            for (first, second, ky, kx) in quads([shape[0], shape[1], 3, 2]) {
                let group = first / (shape[0] / groups);
                let (from, to) =
                    if transposed { (first, group * shape[1] + second) } else { (group * shape[1] + second, first) };
                for (iy, ix, oy, ox) in quads([7, 6, h, width]) {
                    let meets = match transposed {
                        false => iy == oy * s - p + ky * d && ix == ox * s - p + kx * d,
                        true => oy == iy * s - p + ky * d && ox == ix * s - p + kx * d,
                    };
                    if meets {
                        expected[(((n * outs + to) * h + oy) * width + ox) as usize] += xs
                            [(((n * 4 + from) * 7 + iy) * 6 + ix) as usize]
                            * ws[(((first * shape[1] + second) * 3 + ky) * 2 + kx) as usize];
                    }
                }
            }
        }
        close(&found, &expected, 1e-12);
        let single = |t: &Tensor| t.converted(DType::Float, Precision::Typed);
        let singles = run(&convolution(s, p, d, groups, transposed), &[&single(&x), &single(&w), &single(&b)]);
        close(&singles, &expected, 1e-5);
    }
}

fn quads([a, b, c, d]: [i64; 4]) -> impl Iterator<Item = (i64, i64, i64, i64)> {
    (0..a * b * c * d).map(move |i| (i / (b * c * d), i / (c * d) % b, i / d % c, i % d))
}

#[test]
fn gradients_of_convolutions() {
    for &(s, p, d, groups, transposed) in CONVOLUTIONS {
        let shape = [4, 4 / groups, 2, 2];
        let (x, w, b) = (random(&[2, 4, 5, 4], 1), random(&shape, 2), random(&[4], 3));
        let forward = convolution(s, p, d, groups, transposed);
        let pair = |n: i64| format!("[{n}, {n}]");
        let (stride, padding, dilation, groups) = (pair(s), pair(p), pair(d), groups.to_string());
        let turned = if transposed { "True" } else { "False" };
        let mask = "[True, True, True]";
        let operands = ["g", "x", "w", "[4]", &stride, &padding, &dilation, turned, "[0, 0]", &groups, mask];
        for i in 0..3 {
            let backward = call("aten::convolution_backward", &operands, 3);
            let backward = backward.replace("return (%r0, %r1, %r2)", &format!("return (%r{i})"));
            check_gradient(&forward, &[x.clone(), w.clone(), b.clone()], i, &backward, &[&x, &w]);
        }
    }
}

#[test]
fn gradients_of_pooling_and_resampling() {
    let x = random(&[2, 3, 5, 6], 1);
    let window = ["[3, 2]", "[2, 1]", "[1, 1]", "True", "False", "None"];
    let forward = call("aten::avg_pool2d", &[&["x"][..], &window].concat(), 1);
    let backward = call("aten::avg_pool2d_backward", &[&["g", "x"][..], &window].concat(), 1);
    check_gradient(&forward, std::slice::from_ref(&x), 0, &backward, &[&x]);
    let forward = call("aten::adaptive_avg_pool2d", &["x", "[3, 4]"], 1);
    let backward = call("aten::_adaptive_avg_pool2d_backward", &["g", "x"], 1);
    check_gradient(&forward, std::slice::from_ref(&x), 0, &backward, &[&x]);
    let window = ["[3, 2]", "[2, 1]", "[1, 1]", "[1, 1]", "True"];
    let both = call("aten::max_pool2d_with_indices", &[&["x"][..], &window].concat(), 2);
    let indices = run(&both.replace("return (%r0, %r1)", "return (%r1)"), &[&x]);
    let forward = call("aten::max_pool2d", &[&["x"][..], &window].concat(), 1);
    let operands = [&["g", "x"][..], &window, &["i"]].concat();
    let backward = call("aten::max_pool2d_with_indices_backward", &operands, 1);
    check_gradient(&forward, std::slice::from_ref(&x), 0, &backward, &[&x, &indices]);
    for corners in ["True", "False"] {
        let forward = call("aten::upsample_bilinear2d", &["x", "[7, 4]", corners, "None", "None"], 1);
        let operands = ["g", "[7, 4]", "[2, 3, 5, 6]", corners, "None", "None"];
        check_gradient(
            &forward,
            std::slice::from_ref(&x),
            0,
            &call("aten::upsample_bilinear2d_backward", &operands, 1),
            &[],
        );
    }
}

/// `torch.nn.Upsample` in PyTorch's documentation, and the weights of a cubic at a quarter, which
/// ONNX documents for `Resize`.
#[test]
fn resampled_images() {
    let x = Tensor::of(&[1.0, 2.0, 3.0, 4.0], DType::Float, &[1, 1, 2, 2], Precision::Typed);
    let bilinear =
        |corners| run(&call("aten::upsample_bilinear2d", &["x", "[4, 4]", corners, "None", "None"], 1), &[&x]);
    let expected = [1.0, 1.25, 1.75, 2.0, 1.5, 1.75, 2.25, 2.5, 2.5, 2.75, 3.25, 3.5, 3.0, 3.25, 3.75, 4.0];
    close(&bilinear("False"), &expected, 1e-6);
    let expected =
        [1.0, 1.3333, 1.6667, 2.0, 1.6667, 2.0, 2.3333, 2.6667, 2.3333, 2.6667, 3.0, 3.3333, 3.0, 3.3333, 3.6667, 4.0];
    close(&bilinear("True"), &expected, 1e-4);
    let unit = Tensor::of(&[0.0, 0.0, 1.0, 0.0, 0.0, 0.0], DType::Double, &[1, 1, 1, 6], Precision::Typed);
    let cubic = run(&call("aten::upsample_bicubic2d", &["x", "[1, 12]", "False", "None", "None"], 1), &[&unit]);
    let row = cubic.read::<f64>();
    let (near, far) = (0.87890625, 0.26171875);
    assert_eq!(row[1..9], [-0.03515625, -0.10546875, far, near, near, far, -0.10546875, -0.03515625]);
    let smooth = run(&call("aten::_upsample_bilinear2d_aa", &["x", "[1, 3]", "False", "None", "None"], 1), &[&unit]);
    // A triangle over four elements, of which the first position covers three: weights 3, 3, 1.
    close(&smooth, &[1.0 / 7.0, 3.0 / 8.0, 0.0], 1e-12);
}

/// The sum over all assignments of values to letters, one product for each.
fn by_enumeration(equation: &str, operands: &[&Tensor]) -> Vec<f64> {
    let (inputs, output) = equation.split_once("->").expect("the test writes the output");
    let inputs: Vec<&str> = inputs.split(',').collect();
    let mut letters: Vec<char> = output.chars().collect();
    let mut more: Vec<char> = inputs.concat().chars().filter(|c| !output.contains(*c)).collect();
    more.sort_unstable();
    more.dedup();
    letters.extend(more);
    let size = |letter: &char| {
        let find = |(labels, tensor): (&&str, &&Tensor)| labels.find(*letter).map(|at| tensor.size(at));
        inputs.iter().zip(operands).find_map(find).expect("every letter is in an operand")
    };
    let sizes: Vec<i64> = letters.iter().map(size).collect();
    let results: i64 = sizes[..output.len()].iter().product();
    let mut sums = vec![0.0; results as usize];
    for i in 0..sizes.iter().product::<i64>() {
        let values: Vec<i64> =
            (0..sizes.len()).map(|k| i / sizes[k + 1..].iter().product::<i64>() % sizes[k]).collect();
        let element = |(labels, tensor): (&&str, &&Tensor)| {
            let find = |letter| letters.iter().position(|&known| known == letter).map_or(0, |k| values[k]);
            let at = labels.chars().enumerate().fold(0, |at, (k, letter)| at * tensor.size(k) + find(letter));
            tensor.read::<f64>()[at as usize]
        };
        let inner: i64 = sizes[output.len()..].iter().product();
        sums[(i / inner) as usize] += inputs.iter().zip(operands).map(element).product::<f64>();
    }
    sums
}

#[test]
fn einsum_is_a_sum_over_all_letters() {
    let tensors = |shapes: &[&[i64]]| -> Vec<Tensor> { shapes.iter().map(|shape| random(shape, 7)).collect() };
    let cases: &[(&str, &str, &[&[i64]])] = &[
        ("ij,jk->ik", "ij,jk", &[&[3, 4], &[4, 5]]),
        ("bij,bkj->bik", "b i j, b k j -> b i k", &[&[2, 3, 4], &[2, 5, 4]]),
        ("abi,abj->ijab", "...i,...j->ij...", &[&[2, 3, 4], &[2, 3, 5]]),
        ("ii->i", "ii->i", &[&[4, 4]]),
        ("iji->j", "iji", &[&[3, 4, 3]]),
        ("ij,ik,il->jkl", "ij,ik,il->jkl", &[&[3, 2], &[3, 4], &[3, 2]]),
        ("ij,kl->", "ij,kl->", &[&[3, 2], &[3, 4]]),
        ("ij,i->ij", "ij,i->ij", &[&[3, 2], &[3]]),
        ("ba->ab", "ba", &[&[3, 2]]),
    ];
    for (plain, equation, shapes) in cases {
        let operands = tensors(shapes);
        let names: Vec<String> = (0..operands.len()).map(|i| format!("%t{i}")).collect();
        let params: Vec<String> = names.iter().map(|name| format!("{name} : Tensor")).collect();
        let source = format!(
            "graph({}):\n  %e : str = prim::Constant[value=\"{equation}\"]()\n  %n : NoneType = prim::Constant()\n  %l : Tensor[] = prim::ListConstruct({})\n  %r : Tensor = aten::einsum(%e, %l, %n)\n  return (%r)\n",
            params.join(", "),
            names.join(", ")
        );
        let operands: Vec<&Tensor> = operands.iter().collect();
        close(&run(&source, &operands), &by_enumeration(plain, &operands), 1e-12);
    }
}

/// Two layers in both directions, step by step with the formulas of `torch.nn.LSTM`.
#[test]
fn lstm_follows_its_formulas() {
    let (steps, batch, width, hidden) = (3usize, 2usize, 3usize, 2usize);
    let mut params = Vec::new();
    for (i, inputs) in [width, width, 2 * hidden, 2 * hidden].into_iter().enumerate() {
        let gates = 4 * hidden as i64;
        let shapes: [&[i64]; 4] = [&[gates, inputs as i64], &[gates, hidden as i64], &[gates], &[gates]];
        params.extend(shapes.iter().enumerate().map(|(k, shape)| random(shape, (10 * i + k) as u64)));
    }
    let x = random(&[batch as i64, steps as i64, width as i64], 50);
    let (h0, c0) = (random(&[4, 2, 2], 51), random(&[4, 2, 2], 52));
    let names: Vec<String> = (0..16).map(|i| format!("%p{i}")).collect();
    let typed: Vec<String> = names.iter().map(|name| format!("{name} : Tensor")).collect();
    let source = format!(
        "graph(%x : Tensor, %h : Tensor, %c : Tensor, {}):\n  %s : Tensor[] = prim::ListConstruct(%h, %c)\n  %p : Tensor[] = prim::ListConstruct({})\n  %t : bool = prim::Constant[value=1]()\n  %f : bool = prim::Constant[value=0]()\n  %n : int = prim::Constant[value=2]()\n  %z : float = prim::Constant[value=0.]()\n  %a : Tensor, %b : Tensor, %d : Tensor = aten::lstm(%x, %s, %p, %t, %n, %z, %f, %t, %t)\n  return (%a)\n",
        typed.join(", "),
        names.join(", ")
    );
    let operands: Vec<&Tensor> = [&x, &h0, &c0].into_iter().chain(&params).collect();
    let found = run(&source, &operands);
    let logistic = |x: f64| 1.0 / (1.0 + (-x).exp());
    let mut expected = Vec::new();
    for b in 0..batch {
        let xs = x.read::<f64>();
        let mut rows: Vec<Vec<f64>> = (0..steps).map(|t| xs[(b * steps + t) * width..][..width].to_vec()).collect();
        for layer in 0..2 {
            let mut outs = vec![vec![0.0; 2 * hidden]; steps];
            for direction in 0..2 {
                let at = layer * 2 + direction;
                let p: Vec<Vec<f64>> = params[at * 4..at * 4 + 4].iter().map(Tensor::read).collect();
                let state = |all: &Tensor| all.read::<f64>()[(at * batch + b) * hidden..][..hidden].to_vec();
                let (mut h, mut c) = (state(&h0), state(&c0));
                let order: Vec<usize> = if direction == 0 { (0..steps).collect() } else { (0..steps).rev().collect() };
                for t in order {
                    let dot = |m: &[f64], r: usize, v: &[f64]| -> f64 {
                        v.iter().enumerate().map(|(k, x)| m[r * v.len() + k] * x).sum()
                    };
                    let gate = |r: usize| dot(&p[0], r, &rows[t]) + p[2][r] + dot(&p[1], r, &h) + p[3][r];
                    let new: Vec<(f64, f64)> = (0..hidden)
                        .map(|k| {
                            let (i, f) = (logistic(gate(k)), logistic(gate(hidden + k)));
                            let (g, o) = (gate(2 * hidden + k).tanh(), logistic(gate(3 * hidden + k)));
                            let next = f * c[k] + i * g;
                            (o * next.tanh(), next)
                        })
                        .collect();
                    (h, c) = new.into_iter().unzip();
                    outs[t][direction * hidden..][..hidden].copy_from_slice(&h);
                }
            }
            rows = outs;
        }
        expected.extend(rows.concat());
    }
    close(&found, &expected, 1e-12);
}

#[test]
fn beta_of_zero_hides_nan_and_integers_wrap() {
    let nan = Tensor::of(&[f64::NAN; 4], DType::Float, &[2, 2], Precision::Typed);
    let one = Tensor::of(&[1.0; 4], DType::Float, &[2, 2], Precision::Typed);
    let source = call("aten::addmm", &["s", "a", "b", "0", "2"], 1);
    close(&run(&source, &[&nan, &one, &one]), &[4.0; 4], 0.0);
    let bytes = Tensor::of(&[200i64, 200, 3, 4], DType::Byte, &[2, 2], Precision::Typed);
    let product = run(&call("aten::mm", &["a", "b"], 1), &[&bytes, &bytes]);
    assert_eq!(product.read::<i64>(), [(200 * 203) % 256, (200 * 204) % 256, 612 % 256, 616 % 256]);
}

#[test]
fn large_products_are_small_products() {
    for (m, k, n) in [(33, 40, 17), (1, 200, 64), (64, 64, 1)] {
        let (a, b) = (random(&[m, k], 1), random(&[k, n], 2));
        let expected = by_enumeration("ij,jk->ik", &[&a, &b]);
        close(&run(&call("aten::matmul", &["a", "b"], 1), &[&a, &b]), &expected, 1e-12);
        let turned = a.transpose(0, 1).copied().transpose(0, 1);
        close(&run(&call("aten::matmul", &["a", "b"], 1), &[&turned, &b]), &expected, 1e-12);
    }
}

#[test]
fn draws_follow_the_seed() {
    let dropped = |seed| {
        let x = Tensor::of(&[1.0; 1000], DType::Float, &[1000], Precision::Typed);
        let source = call("aten::dropout", &["x", "0.25", "True"], 1);
        let results = run_seeded(&source, vec![x.into()], seed).expect("it runs");
        results[0].tensor().expect("it is a tensor").read::<f64>()
    };
    assert_eq!(dropped(1), dropped(1));
    assert_ne!(dropped(1), dropped(2));
    let kept = dropped(1).iter().filter(|&&x| x != 0.0).count();
    assert!((680..820).contains(&kept) && dropped(1).iter().all(|&x| x == 0.0 || (x - 4.0 / 3.0).abs() < 1e-6));
    let source = call("aten::randperm", &["20", "None", "None", "None", "None"], 1);
    let mut numbers = run(&source, &[]).read::<i64>();
    assert_ne!(numbers, (0..20).collect::<Vec<i64>>());
    numbers.sort_unstable();
    assert_eq!(numbers, (0..20).collect::<Vec<i64>>());
}

#[test]
fn boxes_that_overlap_go() {
    let boxes = [0.0, 0.0, 10.0, 10.0, 1.0, 1.0, 11.0, 11.0, 20.0, 20.0, 30.0, 30.0];
    let boxes = Tensor::of(&boxes, DType::Float, &[3, 4], Precision::Typed);
    let scores = Tensor::of(&[0.5, 0.9, 0.7], DType::Float, &[3], Precision::Typed);
    let kept = run(&call("torchvision::nms", &["b", "s", "0.5"], 1), &[&boxes, &scores]);
    assert_eq!(kept.read::<i64>(), [1, 2]);
    let x = Tensor::of(&vec![3.0; 32], DType::Float, &[1, 2, 4, 4], Precision::Typed);
    let roi = Tensor::of(&[0.0, 1.0, 1.0, 3.0, 3.0], DType::Float, &[1, 5], Precision::Typed);
    let operands = ["x", "r", "1.0", "2", "2", "2", "True"];
    close(&run(&call("torchvision::roi_align", &operands, 1), &[&x, &roi]), &[3.0; 8], 1e-6);
}

/// Timings of performance-critical kernels; shown with `--ignored --nocapture` in a release build.
#[test]
#[ignore = "prints times and checks nothing"]
fn times() {
    let single = |shape: &[i64]| random(shape, 1).converted(DType::Float, Precision::Typed);
    let mut times = String::new();
    let mut time = |name: &str, source: &str, inputs: &[&Tensor]| {
        let start = std::time::Instant::now();
        (0..10).for_each(|_| drop(run(source, inputs)));
        times += &format!("{name}: {:?}\n", start.elapsed() / 10);
    };
    let (a, b) = (single(&[512, 512]), single(&[512, 512]));
    time("mm 512", &call("aten::mm", &["a", "b"], 1), &[&a, &b]);
    let (x, gates) = (single(&[64, 512]), single(&[2048, 512]));
    let bias = single(&[2048]);
    let cell = "graph(%x : Tensor, %h : Tensor, %c : Tensor, %w : Tensor, %u : Tensor, %b : Tensor):\n  %s : Tensor[] = prim::ListConstruct(%h, %c)\n  %a : Tensor, %d : Tensor = aten::lstm_cell(%x, %s, %w, %u, %b, %b)\n  return (%a)\n";
    time("lstm cell 64 x 512", cell, &[&x, &x, &x, &gates, &gates, &bias]);
    let (image, kernel) = (single(&[8, 32, 56, 56]), single(&[64, 32, 3, 3]));
    let conv = ["x", "w", "None", "[1, 1]", "[1, 1]", "[1, 1]", "1"];
    time("conv2d 8x32x56x56 3x3 to 64", &call("aten::conv2d", &conv, 1), &[&image, &kernel]);
    let deep = single(&[32, 1, 3, 3]);
    let depthwise = ["x", "w", "None", "[1, 1]", "[1, 1]", "[1, 1]", "32"];
    time("depthwise", &call("aten::conv2d", &depthwise, 1), &[&image, &deep]);
    let pool = ["x", "[2, 2]", "[2, 2]", "[0, 0]", "[1, 1]", "False"];
    time("max_pool2d", &call("aten::max_pool2d", &pool, 1), &[&image]);
    time("softmax", &call("aten::softmax", &["x", "1", "None"], 1), &[&single(&[64, 1000])]);
    assert!(!times.is_empty());
    std::fs::write(std::env::temp_dir().join("dense_times.txt"), times).expect("it can be written");
}

/// An operand of a type, often with an invalid value.
fn odd(ty: crate::types::Type, size: Option<u32>, draws: &mut Philox) -> IValue {
    use crate::types::{Simple, TypeKind};
    match ty.kind() {
        TypeKind::Optional(_) if draws.one_in(2) => IValue::None,
        TypeKind::Optional(inner) => odd(*inner, size, draws),
        TypeKind::List(element) => {
            let n = size.filter(|_| !draws.one_in(8)).map_or_else(|| draws.below(4), |n| n as usize);
            IValue::list((0..n).map(|_| odd(*element, None, draws)).collect::<Vec<_>>())
        }
        TypeKind::Simple(Simple::Int | Simple::SymInt) if draws.one_in(30) => IValue::Int(i64::MAX >> draws.below(3)),
        TypeKind::Simple(Simple::Int | Simple::SymInt) => IValue::Int(draws.int(-2, 5)),
        TypeKind::Simple(Simple::ScalarType | Simple::Layout | Simple::MemoryFormat) => IValue::Int(draws.int(0, 12)),
        TypeKind::Simple(Simple::Bool) => IValue::Bool(draws.one_in(2)),
        TypeKind::Simple(Simple::Float) => IValue::Float(draws.normal()),
        TypeKind::Simple(Simple::Str) => IValue::from(
            ["sum", "mean", "ij,jk->ik", "...", "i->", "nearest", "bilinear", "same", "reflect"][draws.below(9)],
        ),
        TypeKind::Simple(Simple::Number | Simple::Scalar) => IValue::Float(draws.normal()),
        TypeKind::Simple(Simple::Generator | Simple::Device) => IValue::None,
        _ => odd_tensor(draws).into(),
    }
}

fn odd_tensor(draws: &mut Philox) -> Tensor {
    let sizes = [0, 1, 2, 3, 2, 4];
    let shape: Vec<i64> = (0..draws.below(6)).map(|_| sizes[draws.below(6)]).collect();
    let n = shape.iter().product::<i64>();
    let dtype =
        [DType::Float, DType::Float, DType::Float, DType::Long, DType::Half, DType::ComplexFloat][draws.below(6)];
    let numbers: Vec<f64> = (0..n).map(|_| 3.0 * draws.normal()).collect();
    Tensor::of(&numbers, dtype, &shape, Precision::Typed)
}

#[test]
fn odd_operands_raise_and_do_not_panic() {
    let families = [
        super::linear_algebra::ROWS,
        super::einsum::ROWS,
        super::norms::ROWS,
        super::convolution::ROWS,
        super::pooling::ROWS,
        super::normalization::ROWS,
        super::softmax::ROWS,
        super::losses::ROWS,
        super::padding::ROWS,
        super::resampling::ROWS,
        super::recurrent::ROWS,
        super::attention::ROWS,
        super::sampling::ROWS,
        super::adjoints::ROWS,
    ];
    let source = "graph(%x : Tensor):\n  %r : Tensor = aten::relu(%x)\n  return (%r)\n";
    let graph = text::parse(source.as_bytes(), text::ParseOptions::default()).expect("it is a graph").graph;
    let node = graph.nodes(graph.root()).next().expect("it has a node");
    let env = Environment::default();
    let mut panicked = Vec::new();
    for &(kind, kernel) in families.iter().flat_map(|rows| rows.iter()) {
        for era in [crate::types::era::Era::V2, crate::types::era::Era::V1_3] {
            for schema in crate::ops::operator(era, crate::symbol::Symbol::new(kind)).schemas.iter() {
                let mut draws = Philox::new(7, schema.formals.len() as u64, kind.len() as u64);
                for _ in 0..150 {
                    let args: Vec<IValue> =
                        schema.formals.iter().map(|formal| odd(formal.ty, formal.size, &mut draws)).collect();
                    let shown = format!("{kind} {args:?}");
                    let call =
                        crate::interpreter::Call { graph: &graph, node, schema: Some(schema), args: &args, env: &env };
                    let run = std::panic::AssertUnwindSafe(|| drop(kernel(&call)));
                    if std::panic::catch_unwind(run).is_err() {
                        panicked.push(shown);
                        break;
                    }
                }
            }
        }
    }
    assert!(panicked.is_empty(), "{}", panicked.join("\n"));
}
