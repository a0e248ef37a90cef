//! Recurrent layers and cells of dynamic quantisation: LSTM, GRU and plain ones.
//!
//! The weights of a layer in one direction are an object of the class `CellParamsBase`, or two
//! packed weights. Each product quantises its floats separately, as `quantized::linear_dynamic`
//! does; gates are floats.

use super::elements::check;
use super::quantized_layers::{Packed, dynamic_product, object};
use super::quantized_values::dequantized;
use crate::interpreter::call::{Answer, Call, Row, one, several};
use crate::interpreter::ivalue::IValue;
use crate::interpreter::stop::Stop;
use crate::tensor::{DType, Precision, Tensor, layout};
use crate::types::release::Release;

/// The rows.
pub(crate) const ROWS: &[Row] = &[
    ("quantized::make_quantized_cell_params_dynamic", cell_params),
    ("quantized::make_quantized_cell_params_fp16", cell_params),
    ("aten::quantized_lstm", lstm),
    ("aten::quantized_gru", gru),
    ("quantized::quantized_lstm_cell_dynamic", lstm_cell),
    ("quantized::quantized_gru_cell_dynamic", |call| cell(call, 3, reset_step)),
    ("quantized::quantized_rnn_tanh_cell_dynamic", |call| cell(call, 1, |gates| gates.plain(f64::tanh))),
    ("quantized::quantized_rnn_relu_cell_dynamic", |call| cell(call, 1, |gates| gates.plain(|x| x.max(0.0)))),
];

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

    /// The products of the weights with an input, for each gate.
    fn of_input(&self, call: &Call<'_>, x: &Tensor) -> Result<Tensor, Stop> {
        dynamic_product(call, x, &self.input, self.reduced)
    }

    /// The gates of a step: `from_input` is the product of the weights with its input.
    fn gates(&self, call: &Call<'_>, from_input: &Tensor, h: &Tensor, kinds: i64) -> Result<Gates, Stop> {
        let from_hidden = dynamic_product(call, h, &self.hidden, self.reduced)?.read::<f64>();
        let (from_input, hidden) = (from_input.read::<f64>(), h.read::<f64>());
        let fits = from_input.len() == from_hidden.len() && from_input.len() as i64 == kinds * h.numel() as i64;
        check(fits, || "weights of a quantised recurrent layer do not fit its state".to_owned())?;
        Ok(Gates { from_input, from_hidden, hidden, kinds: kinds as usize, shape: h.shape().into() })
    }
}

/// The contributions of input and hidden state to the gates of a step.
struct Gates {
    from_input: Vec<f64>,
    from_hidden: Vec<f64>,
    hidden: Vec<f64>,
    kinds: usize,
    shape: layout::Dims,
}

impl Gates {
    /// The contributions of input and hidden state to a gate of an element.
    fn of(&self, element: usize, gate: usize) -> (f64, f64) {
        let width = self.shape.last().copied().unwrap_or(1).max(1) as usize;
        let at = element / width * self.kinds * width + gate * width + element % width;
        (self.from_input[at], self.from_hidden[at])
    }

    fn sum(&self, element: usize, gate: usize) -> f64 {
        let (input, hidden) = self.of(element, gate);
        input + hidden
    }

    /// A state with one element for each of the hidden state.
    fn state(&self, element: impl Fn(usize) -> f64) -> Tensor {
        let numbers: Vec<f64> = (0..self.hidden.len()).map(element).collect();
        Tensor::of(&numbers, DType::Float, &self.shape, Precision::Typed)
    }

    /// The state of a cell with one gate.
    fn plain(&self, f: fn(f64) -> f64) -> Tensor {
        self.state(|i| f(self.sum(i, 0)))
    }
}

fn logistic(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

/// The hidden state and the state of the cell after a step of an LSTM.
fn forgetting_step(gates: &Gates, c: &Tensor) -> (Tensor, Tensor) {
    let old = c.read::<f64>();
    let new = gates.state(|i| logistic(gates.sum(i, 1)) * old[i] + logistic(gates.sum(i, 0)) * gates.sum(i, 2).tanh());
    let cells = new.read::<f64>();
    (gates.state(|i| logistic(gates.sum(i, 3)) * cells[i].tanh()), new)
}

/// The hidden state after a step of a GRU.
fn reset_step(gates: &Gates) -> Tensor {
    gates.state(|i| {
        let (input, hidden) = gates.of(i, 2);
        let new = (input + hidden * logistic(gates.sum(i, 0))).tanh();
        (gates.hidden[i] - new) * logistic(gates.sum(i, 1)) + new
    })
}

/// The states of a layer in one direction: the hidden one, and that of the cell where there is one.
type States = Vec<Tensor>;

/// Steps of one layer in one direction: the hidden states of all of them, and the last states.
fn run_direction(
    call: &Call<'_>,
    params: &Cell,
    x: &Tensor,
    mut states: States,
    backwards: bool,
) -> Result<(Tensor, States), Stop> {
    let gates = params.of_input(call, x)?;
    let (steps, batch, width) = (x.size(0), states[0].size(0), states[0].size(1));
    let all = Tensor::zeros(DType::Float, &[steps, batch, width], Precision::Typed);
    for step in 0..steps {
        let at = if backwards { steps - 1 - step } else { step };
        let from_input = gates.select(0, at);
        states = match &states[..] {
            [h, c] => {
                let (h, c) = forgetting_step(&params.gates(call, &from_input, h, 4)?, c);
                vec![h, c]
            }
            _ => vec![reset_step(&params.gates(call, &from_input, &states[0], 3)?)],
        };
        all.select(0, at).copy_from(&states[0])?;
    }
    Ok((all, states))
}

/// All layers in all directions, with one state for a GRU and two for an LSTM.
fn layers(call: &Call<'_>, state: &[Tensor]) -> Answer {
    if call.look("batch_sizes").is_some() {
        return Err(Stop::unsupported(format!("`{}` of packed sequences", call.kind())));
    }
    let mut x = call.tensor("input")?;
    let (params, both) = (call.elements("params")?, call.bool("bidirectional")?);
    check(x.rank() == 3 && !params.is_empty() && state.iter().all(|state| state.rank() == 3), || {
        format!("`{}` expects a batch of sequences", call.kind())
    })?;
    let fits = |one: &Tensor| one.size(0) as usize == params.len() && one.shape() == state[0].shape();
    check(state.iter().all(fits), || {
        format!("hidden states of shape {:?} for {} layers and directions", state[0].shape(), params.len())
    })?;
    if call.bool("batch_first")? {
        x = x.transpose(0, 1);
    }
    let directions = if both { 2 } else { 1 };
    let mut last: Vec<Vec<Tensor>> = vec![Vec::new(); state.len()];
    for (layer, params) in params.chunks(directions).enumerate() {
        let mut outputs = Vec::new();
        for (direction, params) in params.iter().enumerate() {
            let k = (layer * directions + direction) as i64;
            let states: States = state.iter().map(|state| state.select(0, k)).collect();
            let (all, states) = run_direction(call, &Cell::of(params)?, &x, states, direction == 1)?;
            outputs.push(all);
            states.into_iter().zip(&mut last).for_each(|(state, all)| all.push(state.unsqueeze(0)));
        }
        x = joined(&outputs, 2)?;
    }
    let x = if call.bool("batch_first")? { x.transpose(0, 1) } else { x };
    let last = last.iter().map(|all| joined(all, 0)).collect::<Result<Vec<_>, _>>()?;
    several(std::iter::once(x).chain(last))
}

fn lstm(call: &Call<'_>) -> Answer {
    let state = call.tensors("hx")?;
    check(state.len() == 2, || "lstm expects two hidden states".to_owned())?;
    layers(call, &state)
}

fn gru(call: &Call<'_>) -> Answer {
    layers(call, &[call.tensor("hx")?])
}

/// Weights that are operands of a cell. The biases are those packed with them; the bias operands
/// are ignored.
fn own_weights(call: &Call<'_>) -> Result<Cell, Stop> {
    let weights = |name: &str| Packed::of(call.look(name).unwrap_or(&IValue::None));
    // PyTorch's cells always use the smaller range, from 1.7 on.
    let reduced = call.release() >= Release(1, 7);
    Ok(Cell { input: weights("w_ih")?, hidden: weights("w_hh")?, reduced })
}

/// A step of a cell with one state.
fn cell(call: &Call<'_>, kinds: i64, step: fn(&Gates) -> Tensor) -> Answer {
    let params = own_weights(call)?;
    let from_input = params.of_input(call, &call.tensor("input")?)?;
    one(step(&params.gates(call, &from_input, &call.tensor("hx")?, kinds)?))
}

fn lstm_cell(call: &Call<'_>) -> Answer {
    let (params, state) = (own_weights(call)?, call.tensors("hx")?);
    let [h, c] = &state[..] else { return Err(Stop::raised("lstm_cell expects two hidden states")) };
    check(h.shape() == c.shape(), || format!("hidden states of shapes {:?} and {:?}", h.shape(), c.shape()))?;
    let from_input = params.of_input(call, &call.tensor("input")?)?;
    let (h, c) = forgetting_step(&params.gates(call, &from_input, h, 4)?, c);
    several([h, c])
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
