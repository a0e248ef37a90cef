//! Convolutions and products with packed weights, and LSTMs of those.
//!
//! Packed weights are objects of PyTorch's classes, here with the attributes `weight`, `bias`,
//! `stride`, `padding`,
//! `dilation` and `groups`. Sums are those of integers. Results are what FBGEMM makes of them, in
//! single precision:
//! the bias is counted in steps of the products, the sum multiplied by one number, and rounded to
//! nearest even.

use super::elements::check;
use super::quantization::{chosen_for, dequantized, of_integers, of_tensor};
use crate::interpreter::call::{Answer, Call, one, several};
use crate::interpreter::ivalue::{IValue, Object};
use crate::interpreter::library::Row;
use crate::interpreter::stop::Stop;
use crate::symbol::Symbol;
use crate::tensor::quantizer::{clamped, quantized};
use crate::tensor::{DType, Precision, Quantizer, Tensor, layout};
use std::cell::RefCell;
use std::rc::Rc;

/// The rows.
pub const ROWS: &[Row] = &[
    ("quantized::conv1d_prepack", |call| prepack(call, "Conv2dPackedParamsBase", 1)),
    ("quantized::conv2d_prepack", |call| prepack(call, "Conv2dPackedParamsBase", 2)),
    ("_quantized::conv2d_prepack", |call| prepack(call, "Conv2dPackedParamsBase", 2)),
    ("quantized::linear_prepack", |call| prepack(call, "LinearPackedParamsBase", 0)),
    ("_quantized::linear_prepack", |call| prepack(call, "LinearPackedParamsBase", 0)),
    ("quantized::linear_prepack_fp16", |call| prepack(call, "LinearPackedParamsBase", 0)),
    ("quantized::conv1d_unpack", unpack),
    ("quantized::conv2d_unpack", unpack),
    ("quantized::linear_unpack", unpack),
    ("quantized::linear_unpack_fp16", unpack),
    ("quantized::conv1d", |call| convolution(call, false)),
    ("quantized::conv1d_relu", |call| convolution(call, true)),
    ("quantized::conv2d", |call| convolution(call, false)),
    ("quantized::conv2d_relu", |call| convolution(call, true)),
    ("_quantized::conv2d", |call| convolution(call, false)),
    ("_quantized::conv2d_relu", |call| convolution(call, true)),
    ("quantized::linear", |call| linear(call, false)),
    ("quantized::linear_relu", |call| linear(call, true)),
    ("_quantized::linear", |call| linear(call, false)),
    ("quantized::linear_dynamic", |call| linear_dynamic(call, false)),
    ("quantized::linear_relu_dynamic", |call| linear_dynamic(call, true)),
    ("_quantized::linear_dynamic", |call| linear_dynamic(call, false)),
    ("quantized::linear_dynamic_fp16", |call| linear_in_halves(call, false)),
    ("quantized::linear_relu_dynamic_fp16", |call| linear_in_halves(call, true)),
    ("quantized::make_quantized_cell_params_dynamic", cell_params),
    ("quantized::make_quantized_cell_params_fp16", cell_params),
    ("aten::quantized_lstm", lstm),
];

// ---- packed weights

fn object(class: &str, attributes: impl IntoIterator<Item = (&'static str, IValue)>) -> IValue {
    let attributes = attributes.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    IValue::Object(Rc::new(Object { class: Symbol::new(class), attributes: RefCell::new(attributes) }))
}

/// An object with a weight, as one of PyTorch's classes.
fn prepack(call: &Call<'_>, class: &str, dims: usize) -> Answer {
    let named = |names: [&'static str; 2]| {
        let schema = call.schema.filter(|schema| schema.formal(names[0]).is_some());
        if schema.is_some() { names[0] } else { names[1] }
    };
    let weight = call.tensor(named(["weight", "W"]))?;
    let bias = call.opt_tensor(named(["bias", "B"]))?;
    let is_fp16 = call.kind().as_str().ends_with("fp16");
    check(weight.dtype().is_quantized() != is_fp16, || {
        format!("`{}` gets a weight of {}", call.kind(), weight.dtype().name())
    })?;
    // Weights in halves are floats that were rounded.
    let weight = match is_fp16 {
        true => weight.converted(DType::Half, Precision::Typed).converted(DType::Float, Precision::Typed),
        false => weight,
    };
    let mut attributes = vec![("weight", IValue::from(weight)), ("bias", IValue::from(bias))];
    if dims > 0 {
        for name in ["stride", "padding", "dilation"] {
            attributes.push((name, IValue::list(call.spatial(name, dims)?)));
        }
        attributes.push(("groups", IValue::Int(call.int("groups")?)));
    }
    one(object(&format!("__torch__.torch.classes.quantized.{class}"), attributes))
}

/// Packed weights among the operands.
struct Packed {
    weight: Tensor,
    bias: Option<Vec<f64>>,
    object: Rc<Object>,
}

impl Packed {
    fn of(value: &IValue) -> Result<Packed, Stop> {
        let IValue::Object(object) = value else {
            return Err(Stop::unsupported(format!("packed weights that are a {}", value.kind_name())));
        };
        let attributes = object.attributes.borrow();
        let Some(IValue::Tensor(weight)) = attributes.get("weight") else {
            let class = object.class;
            return Err(Stop::unsupported(format!(
                "a `{class}` without `weight`: give it as an object with attributes"
            )));
        };
        let bias = attributes.get("bias").and_then(IValue::tensor).map(|bias| bias.read::<f64>());
        Ok(Packed { weight: weight.clone(), bias, object: object.clone() })
    }

    fn ints(&self, name: &str, otherwise: i64, dims: usize) -> Vec<i64> {
        let ints = |values: &[IValue]| values.iter().filter_map(IValue::scalar).map(|n| n.int()).collect::<Vec<i64>>();
        let given = match self.object.attributes.borrow().get(name) {
            Some(IValue::List(list)) => ints(&list.borrow()),
            Some(IValue::Tuple(parts)) => ints(parts),
            Some(value) => value.scalar().map(|n| vec![n.int()]).unwrap_or_default(),
            None => Vec::new(),
        };
        match given[..] {
            [] => vec![otherwise; dims],
            [n] => vec![n; dims],
            _ => given,
        }
    }

    /// Scale and zero point of the weights of an output channel.
    fn step(&self, channel: usize) -> (f32, i64) {
        match self.weight.quantizer().as_deref() {
            Some(Quantizer::Tensor { scale, zero }) => (*scale as f32, *zero),
            Some(Quantizer::Channels { scales, zeros, .. }) => (
                scales.get(channel).copied().unwrap_or(1.0) as f32,
                zeros.get(channel).copied().unwrap_or_default() as i64,
            ),
            None => (1.0, 0),
        }
    }

    fn bias(&self, channel: usize) -> f32 {
        self.bias.as_ref().and_then(|bias| bias.get(channel)).copied().unwrap_or_default() as f32
    }
}

/// The first operand that is an object.
fn packed(call: &Call<'_>) -> Result<Packed, Stop> {
    let object = call.args.iter().find(|value| matches!(value, IValue::Object(_)));
    object.map_or_else(|| Err(Stop::unsupported(format!("`{}` without packed weights", call.kind()))), Packed::of)
}

fn unpack(call: &Call<'_>) -> Answer {
    let packed = packed(call)?;
    let bias = packed.object.attributes.borrow().get("bias").cloned().unwrap_or(IValue::None);
    Ok(smallvec::smallvec![IValue::Tensor(packed.weight), bias])
}

// ---- sums of products

/// The output of a channel of which the products add to `sum`.
struct Output {
    of_input: f32,
    scale: f32,
    zero: i64,
    dtype: DType,
    floor: i64,
}

impl Output {
    fn of(call: &Call<'_>, of_input: f64, dtype: DType, with_relu: bool) -> Result<Output, Stop> {
        // The last two operands, whatever a version calls them.
        let n = call.args.len();
        let number = |i: usize| {
            let value = call.args.get(i).and_then(IValue::scalar);
            value.ok_or_else(|| Stop::unsupported(format!("`{}` without a scale and a zero point", call.kind())))
        };
        let (scale, zero) = (number(n.wrapping_sub(2))?.real() as f32, number(n.wrapping_sub(1))?.int());
        let floor = if with_relu { zero } else { i64::MIN };
        Ok(Output { of_input: of_input as f32, scale, zero, dtype, floor })
    }

    fn put(&self, packed: &Packed, channel: usize, sum: i64) -> i64 {
        let of_products = self.of_input * packed.step(channel).0;
        let whole = match packed.bias {
            Some(_) => sum as f32 + packed.bias(channel) / of_products,
            None => sum as f32,
        };
        let steps = whole * (of_products / self.scale);
        clamped(f64::from(steps).round_ties_even() + self.zero as f64, self.dtype).max(self.floor)
    }

    fn quantizer(&self, call: &Call<'_>) -> Result<Quantizer, Stop> {
        let scale = call.args.iter().rev().nth(1).and_then(IValue::scalar);
        let scale = scale.ok_or_else(|| Stop::unsupported(format!("`{}` without a scale", call.kind())))?;
        Ok(Quantizer::Tensor { scale: scale.real(), zero: self.zero })
    }
}

fn quantized_operand(call: &Call<'_>) -> Result<Tensor, Stop> {
    let x = call.arg(0)?.tensor().cloned().filter(|x| x.dtype().is_quantized());
    x.ok_or_else(|| Stop::raised(format!("`{}` expects a quantised tensor", call.kind())))
}

fn convolution(call: &Call<'_>, with_relu: bool) -> Answer {
    let (x, packed) = (quantized_operand(call)?, packed(call)?);
    let (scale, zero) = of_tensor(&x)?;
    let output = Output::of(call, scale, x.dtype(), with_relu)?;
    let is_line = call.kind().as_str().contains("conv1d");
    let as_image = |tensor: Tensor| if is_line { tensor.unsqueeze(2) } else { tensor };
    // A line is an image of one row: attributes that PyTorch packed have two numbers, those given
    // here may have one.
    let pairs = |name: &str, otherwise: i64| {
        let given = packed.ints(name, otherwise, if is_line { 1 } else { 2 });
        if is_line {
            [otherwise, given.last().copied().unwrap_or(otherwise)]
        } else {
            [given[0], given[1 % given.len()]]
        }
    };
    check(x.rank() == if is_line { 3 } else { 4 }, || {
        format!("`{}` expects {} dimensions, got {}", call.kind(), if is_line { 3 } else { 4 }, x.rank())
    })?;
    let weight = packed.weight.integers();
    let weight = if weight.rank() == 3 { weight.unsqueeze(2) } else { weight };
    let (stride, padding, dilation) = (pairs("stride", 1), pairs("padding", 0), pairs("dilation", 1));
    let groups = packed.ints("groups", 1, 1)[0].max(1);
    let image = Image { x: as_image(x.integers()), weight, zero, stride, padding, dilation, groups };
    let (sums, shape) = image.sums(&packed)?;
    check(shape[2..].iter().all(|&n| n > 0), || {
        format!("Kernel size can't be greater than actual input size of {:?}", x.shape())
    })?;
    let inner = (shape[2] * shape[3]).max(1) as usize;
    let channels = shape[1].max(1) as usize;
    let put = |(i, &sum): (usize, &i64)| output.put(&packed, i / inner % channels, sum);
    let integers: Vec<i64> = sums.iter().enumerate().map(put).collect();
    let made = Tensor::of(&integers, x.dtype().memory(), &shape, Precision::Typed);
    let made = made.laid(layout::strides_in_order(&shape, &[0, 2, 3, 1]));
    let made = if is_line { made.squeeze(&[2]) } else { made };
    one(made.quantized(x.dtype(), output.quantizer(call)?))
}

/// The operands of a convolution as integers.
struct Image {
    x: Tensor,
    weight: Tensor,
    zero: i64,
    stride: [i64; 2],
    padding: [i64; 2],
    dilation: [i64; 2],
    groups: i64,
}

impl Image {
    fn sums(&self, packed: &Packed) -> Result<(Vec<i64>, [i64; 4]), Stop> {
        let (x, w) = (self.x.shape(), self.weight.shape());
        let fits = w.len() == 4 && x[1] == w[1] * self.groups && w[0] % self.groups == 0;
        check(fits && self.stride.iter().all(|&n| n > 0), || {
            format!("a weight of {w:?} in {} groups does not fit an image of {x:?}", self.groups)
        })?;
        let size = |k: usize| {
            let reach = self.dilation[k] * (w[2 + k] - 1) + 1;
            (x[2 + k] + 2 * self.padding[k] - reach).div_euclid(self.stride[k]) + 1
        };
        let shape = [x[0], w[0], size(0), size(1)];
        layout::checked(&shape)?;
        let (image, weight) = (self.x.read::<i64>(), self.weight.read::<i64>());
        let mut sums = Vec::with_capacity(layout::numel(&shape));
        for n in 0..shape[0] {
            for channel in 0..shape[1] {
                let of_weight = packed.step(channel as usize).1;
                for i in 0..shape[2] {
                    for j in 0..shape[3] {
                        sums.push(self.window(&image, &weight, [n, channel, i, j], of_weight));
                    }
                }
            }
        }
        Ok((sums, shape))
    }

    /// The sum under one window. What is beyond the image stands for 0.
    fn window(&self, image: &[i64], weight: &[i64], [n, channel, i, j]: [i64; 4], of_weight: i64) -> i64 {
        let (x, w) = (self.x.shape(), self.weight.shape());
        let first = channel / (w[0] / self.groups) * w[1];
        let mut sum = 0;
        for c in 0..w[1] {
            for a in 0..w[2] {
                let row = i * self.stride[0] - self.padding[0] + a * self.dilation[0];
                for b in 0..w[3] {
                    let column = j * self.stride[1] - self.padding[1] + b * self.dilation[1];
                    if (0..x[2]).contains(&row) && (0..x[3]).contains(&column) {
                        let from = ((n * x[1] + first + c) * x[2] + row) * x[3] + column;
                        let by = ((channel * w[1] + c) * w[2] + a) * w[3] + b;
                        sum += (image[from as usize] - self.zero) * (weight[by as usize] - of_weight);
                    }
                }
            }
        }
        sum
    }
}

/// Sums of products of rows of integers with rows of the weight, and the shape that they have.
fn row_sums(rows: &[i64], zero: i64, shape: &[i64], packed: &Packed) -> Result<(Vec<i64>, layout::Dims), Stop> {
    let (weight, w) = (packed.weight.integers().read::<i64>(), packed.weight.shape());
    let fits = w.len() == 2 && shape.last() == Some(&w[1]);
    check(fits, || format!("The last dimension of the input, {shape:?}, does not fit a weight of {w:?}"))?;
    let (outputs, inner) = (w[0].max(0) as usize, w[1].max(0) as usize);
    let mut sums = Vec::new();
    let count: i64 = shape[..shape.len() - 1].iter().product();
    for row in 0..count.max(0) as usize {
        for channel in 0..outputs {
            let of_weight = packed.step(channel).1;
            let pairs = rows[row * inner..][..inner].iter().zip(&weight[channel * inner..][..inner]);
            sums.push(pairs.map(|(&x, &w)| (x - zero) * (w - of_weight)).sum());
        }
    }
    let mut of_result: layout::Dims = shape.into();
    if let Some(last) = of_result.last_mut() {
        *last = w[0];
    }
    Ok((sums, of_result))
}

fn linear(call: &Call<'_>, with_relu: bool) -> Answer {
    let (x, packed) = (quantized_operand(call)?, packed(call)?);
    let (scale, zero) = of_tensor(&x)?;
    let output = Output::of(call, scale, x.dtype(), with_relu)?;
    let (sums, shape) = row_sums(&x.integers().read::<i64>(), zero, x.shape(), &packed)?;
    let outputs = packed.weight.size(0).max(1) as usize;
    let put = |(i, &sum): (usize, &i64)| output.put(&packed, i % outputs, sum);
    let integers: Vec<i64> = sums.iter().enumerate().map(put).collect();
    one(of_integers(&integers, x.dtype(), &shape, output.quantizer(call)?))
}

/// A product of floats that are quantised for it, each tensor by its own smallest and largest
/// element.
fn dynamic_product(x: &Tensor, packed: &Packed, reduced: bool) -> Result<Tensor, Stop> {
    check(x.dtype() == DType::Float, || format!("expected a Float tensor, got {}", x.dtype().name()))?;
    if !packed.weight.dtype().is_quantized() {
        return product_in_halves(x, packed);
    }
    let mut shape: layout::Dims = x.shape().into();
    if x.numel() == 0 {
        if let Some(last) = shape.last_mut() {
            *last = packed.weight.size(0);
        }
        return Ok(Tensor::zeros(DType::Float, &shape, Precision::Typed));
    }
    let (scale, zero) = chosen_for(x, if reduced { (0, 127) } else { (0, 255) })?;
    let put = |&x: &f64| quantized(x as f32, scale as f32, zero as f64, DType::QUInt8);
    let integers: Vec<i64> = x.read::<f64>().iter().map(put).collect();
    let (sums, shape) = row_sums(&integers, zero, x.shape(), packed)?;
    let outputs = packed.weight.size(0).max(1) as usize;
    let result = |(i, &sum): (usize, &i64)| {
        let channel = i % outputs;
        f64::from(sum as f32 * (scale as f32 * packed.step(channel).0) + packed.bias(channel))
    };
    let numbers: Vec<f64> = sums.iter().enumerate().map(result).collect();
    Ok(Tensor::of(&numbers, DType::Float, &shape, Precision::Typed))
}

/// A product of floats with weights that were rounded to halves.
fn product_in_halves(x: &Tensor, packed: &Packed) -> Result<Tensor, Stop> {
    let (weight, w) = (packed.weight.read::<f64>(), packed.weight.shape());
    check(w.len() == 2 && x.shape().last() == Some(&w[1]), || {
        format!("The last dimension of the input, {:?}, does not fit a weight of {w:?}", x.shape())
    })?;
    let (outputs, inner) = (w[0].max(0) as usize, w[1].max(0) as usize);
    let rows = x.read::<f64>();
    let mut numbers = Vec::new();
    for row in rows.chunks(inner.max(1)) {
        for channel in 0..outputs {
            let sum: f64 = row.iter().zip(&weight[channel * inner..]).map(|(x, w)| x * w).sum();
            numbers.push(sum + f64::from(packed.bias(channel)));
        }
    }
    let mut shape: layout::Dims = x.shape().into();
    if let Some(last) = shape.last_mut() {
        *last = w[0];
    }
    Ok(Tensor::of(&numbers, DType::Float, &shape, Precision::Typed))
}

fn positive(tensor: Tensor) -> Tensor {
    let numbers: Vec<f64> = tensor.read::<f64>().into_iter().map(|x| x.max(0.0)).collect();
    Tensor::of(&numbers, DType::Float, tensor.shape(), Precision::Typed)
}

fn linear_dynamic(call: &Call<'_>, with_relu: bool) -> Answer {
    let result = dynamic_product(&call.tensor("X")?, &packed(call)?, call.bool("reduce_range")?)?;
    one(if with_relu { positive(result) } else { result })
}

fn linear_in_halves(call: &Call<'_>, with_relu: bool) -> Answer {
    let result = product_in_halves(&call.tensor("X")?, &packed(call)?)?;
    one(if with_relu { positive(result) } else { result })
}

// ---- LSTM

fn cell_params(call: &Call<'_>) -> Answer {
    let part = |name: &str| call.get(name).unwrap_or(IValue::None);
    let attributes = [
        ("w_ih", part("w_ih")),
        ("w_hh", part("w_hh")),
        ("bias_ih", part("bias_ih")),
        ("bias_hh", part("bias_hh")),
        ("reduce_range", IValue::Bool(call.bool("reduce_range")?)),
    ];
    one(object("__torch__.torch.classes.rnn.CellParamsBase", attributes))
}

/// The weights of one layer in one direction.
struct Cell {
    input: Packed,
    hidden: Packed,
    reduced: bool,
}

impl Cell {
    fn of(value: &IValue) -> Result<Cell, Stop> {
        let IValue::Object(object) = value else {
            return Err(Stop::unsupported("a quantised LSTM without `CellParamsBase`"));
        };
        let attributes = object.attributes.borrow();
        let weights = |name: &str, bias: &str| {
            let packed = Packed::of(attributes.get(name).unwrap_or(&IValue::None))?;
            let own = attributes.get(bias).and_then(IValue::tensor).map(|bias| bias.read::<f64>());
            Ok::<Packed, Stop>(Packed { bias: own.or(packed.bias.clone()), ..packed })
        };
        let reduced = attributes.get("reduce_range").and_then(IValue::scalar).is_some_and(|yes| yes.truth());
        Ok(Cell { input: weights("w_ih", "bias_ih")?, hidden: weights("w_hh", "bias_hh")?, reduced })
    }

    /// The hidden states of all steps, the last one, and the last state of the cell.
    fn run(&self, x: &Tensor, h: Tensor, c: Tensor, backwards: bool) -> Result<[Tensor; 3], Stop> {
        let gates = dynamic_product(x, &self.input, self.reduced)?;
        let steps = x.size(0);
        let (batch, width) = (h.size(0), h.size(1));
        let all = Tensor::zeros(DType::Float, &[steps, batch, width], Precision::Typed);
        let (mut h, mut c) = (h, c);
        for step in 0..steps {
            let at = if backwards { steps - 1 - step } else { step };
            let from_hidden = dynamic_product(&h, &self.hidden, self.reduced)?.read::<f64>();
            let from_input = gates.select(0, at).read::<f64>();
            check(from_input.len() == from_hidden.len() && from_input.len() as i64 == 4 * batch * width, || {
                "weights of a quantised LSTM do not fit its state".to_owned()
            })?;
            (h, c) = stepped(&from_input, &from_hidden, &c);
            all.select(0, at).copy_from(&h)?;
        }
        Ok([all, h, c])
    }
}

/// The next state from what input and hidden state give for each gate.
fn stepped(from_input: &[f64], from_hidden: &[f64], c: &Tensor) -> (Tensor, Tensor) {
    let width = c.size(1).max(1) as usize;
    let logistic = |x: f64| 1.0 / (1.0 + (-x).exp());
    let (mut hidden, mut cells) = (Vec::new(), Vec::new());
    for (i, &old) in c.read::<f64>().iter().enumerate() {
        let at = i / width * 4 * width + i % width;
        let gate = |k: usize| from_input[at + k * width] + from_hidden[at + k * width];
        let new = logistic(gate(1)) * old + logistic(gate(0)) * gate(2).tanh();
        cells.push(new);
        hidden.push(logistic(gate(3)) * new.tanh());
    }
    let made = |numbers: &[f64]| Tensor::of(numbers, DType::Float, c.shape(), Precision::Typed);
    (made(&hidden), made(&cells))
}

fn lstm(call: &Call<'_>) -> Answer {
    if call.look("batch_sizes").is_some() {
        return Err(Stop::unsupported("a quantised LSTM of packed sequences"));
    }
    let (mut x, state) = (call.tensor("input")?, call.tensors("hx")?);
    let (params, both) = (call.elements("params")?, call.bool("bidirectional")?);
    let [h, c] = &state[..] else { return Err(Stop::raised("lstm expects two hidden states")) };
    check(x.rank() == 3 && h.rank() == 3 && c.rank() == 3 && !params.is_empty(), || {
        "a quantised LSTM expects a batch of sequences".to_owned()
    })?;
    check(h.size(0) as usize == params.len() && h.shape() == c.shape(), || {
        format!("hidden states of shape {:?} for {} layers and directions", h.shape(), params.len())
    })?;
    if call.bool("batch_first")? {
        x = x.transpose(0, 1);
    }
    let directions = if both { 2 } else { 1 };
    let (mut hidden, mut cells) = (Vec::new(), Vec::new());
    for (layer, params) in params.chunks(directions).enumerate() {
        let mut outputs = Vec::new();
        for (direction, params) in params.iter().enumerate() {
            let k = (layer * directions + direction) as i64;
            let [all, h, c] = Cell::of(params)?.run(&x, h.select(0, k), c.select(0, k), direction == 1)?;
            outputs.push(all);
            hidden.push(h);
            cells.push(c);
        }
        x = joined(&outputs, 2)?;
    }
    let stacked = |all: &[Tensor]| joined(&all.iter().map(|one| one.unsqueeze(0)).collect::<Vec<_>>(), 0);
    let x = if call.bool("batch_first")? { x.transpose(0, 1) } else { x };
    several([x, stacked(&hidden)?, stacked(&cells)?])
}

/// Tensors of floats one after the other along a dimension.
fn joined(parts: &[Tensor], dim: usize) -> Result<Tensor, Stop> {
    let [first, ..] = parts else { return Err(Stop::unsupported("an LSTM without layers")) };
    let mut shape: layout::Dims = first.shape().into();
    shape[dim] = parts.iter().map(|part| part.size(dim)).sum();
    let whole = Tensor::zeros(DType::Float, &shape, Precision::Typed);
    let mut start = 0;
    for part in parts {
        whole.narrow(dim, start, part.size(dim), 1).copy_from(&dequantized(part))?;
        start += part.size(dim);
    }
    Ok(whole)
}
