//! Recurrent networks.
//!
//! A sequence is the concatenated rows of time steps, each with as many rows as there are sequences
//! of at least that length; sequences of equal length are the special case. The state has a row per
//! sequence, of which a step changes the first ones.

use super::elements::{add, check, floats, like, multiply};
use super::linear_algebra::affine;
use crate::interpreter::call::{Answer, Call, Row, several};
use crate::interpreter::ivalue::IValue;
use crate::interpreter::stop::Stop;
use crate::tensor::{Tensor, layout};

/// The kernel table.
pub(crate) const ROWS: &[Row] = &[
    ("aten::lstm", |call| network(call, Cell::Lstm)),
    ("aten::gru", |call| network(call, Cell::Gru)),
    ("aten::rnn_tanh", |call| network(call, Cell::Tanh)),
    ("aten::rnn_relu", |call| network(call, Cell::Relu)),
    ("aten::lstm_cell", |call| single(call, Cell::Lstm)),
    ("aten::gru_cell", |call| single(call, Cell::Gru)),
    ("aten::rnn_tanh_cell", |call| single(call, Cell::Tanh)),
    ("aten::rnn_relu_cell", |call| single(call, Cell::Relu)),
    ("aten::_thnn_fused_lstm_cell", fused_lstm_cell),
    ("aten::_thnn_fused_gru_cell", fused_gru_cell),
];

/// The computation of a step.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Cell {
    Lstm,
    Gru,
    Tanh,
    Relu,
}

impl Cell {
    /// The number of gate values per element of the state.
    fn gates(self) -> usize {
        match self {
            Cell::Lstm => 4,
            Cell::Gru => 3,
            Cell::Tanh | Cell::Relu => 1,
        }
    }
}

/// Hidden state, and the cell state of an LSTM.
#[derive(Clone)]
struct State {
    h: Tensor,
    c: Option<Tensor>,
}

impl State {
    fn first(&self, n: i64) -> State {
        State { h: self.h.narrow(0, 0, n, 1), c: self.c.as_ref().map(|c| c.narrow(0, 0, n, 1)) }
    }

    fn write(&self, new: &State) -> Result<(), Stop> {
        self.h.copy_from(&new.h)?;
        if let (Some(c), Some(new)) = (&self.c, &new.c) {
            c.copy_from(new)?;
        }
        Ok(())
    }
}

/// The weights of one layer in one direction.
struct Weights {
    input: Tensor,
    hidden: Tensor,
    biases: Option<(Tensor, Tensor)>,
    projection: Option<Tensor>,
}

fn logistic(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

/// A step from the gates of input and hidden state. `rows` is the length of a row of the state.
fn step(call: &Call, cell: Cell, from_input: &Tensor, from_hidden: &Tensor, state: &State) -> Result<State, Stop> {
    let gates = cell.gates();
    let width = (from_input.size(1).max(0) as usize) / gates;
    check(from_input.shape() == from_hidden.shape() && width * gates == from_input.size(1) as usize, || {
        format!("gates of shapes {:?} and {:?} do not fit", from_input.shape(), from_hidden.shape())
    })?;
    let old = state.c.as_ref().unwrap_or(&state.h);
    check(old.shape() == [from_input.size(0), width as i64], || {
        format!(
            "hidden has inconsistent size: got {:?}, expected {:?}",
            old.shape(),
            [from_input.size(0), width as i64]
        )
    })?;
    let (x, h, old) = (from_input.read::<f64>(), from_hidden.read::<f64>(), old.read::<f64>());
    let (mut hidden, mut cells) = (Vec::with_capacity(old.len()), Vec::new());
    for (i, &old) in old.iter().enumerate() {
        let at = i / width * width * gates + i % width;
        let gate = |k: usize| x[at + k * width] + h[at + k * width];
        hidden.push(match cell {
            Cell::Lstm => {
                let c = logistic(gate(1)) * old + logistic(gate(0)) * gate(2).tanh();
                cells.push(c);
                logistic(gate(3)) * c.tanh()
            }
            Cell::Gru => {
                let (reset, update) = (logistic(gate(0)), logistic(gate(1)));
                let new = (x[at + 2 * width] + reset * h[at + 2 * width]).tanh();
                new + update * (old - new)
            }
            Cell::Tanh => gate(0).tanh(),
            Cell::Relu => {
                if gate(0) < 0.0 {
                    0.0
                } else {
                    gate(0)
                }
            }
        });
    }
    let shape = [from_input.size(0), width as i64];
    let made = |numbers: &[f64]| like(call, numbers, from_input.dtype(), &shape, from_input);
    Ok(State { h: made(&hidden), c: (cell == Cell::Lstm).then(|| made(&cells)) })
}

impl Weights {
    fn next(&self, call: &Call, cell: Cell, from_input: &Tensor, state: &State) -> Result<State, Stop> {
        let from_hidden = affine(call, &state.h, &self.hidden, self.biases.as_ref().map(|biases| &biases.1))?;
        let mut next = step(call, cell, from_input, &from_hidden, state)?;
        if let Some(projection) = &self.projection {
            next.h = affine(call, &next.h, projection, None)?;
        }
        Ok(next)
    }

    fn of_input(&self, call: &Call, x: &Tensor) -> Result<Tensor, Stop> {
        affine(call, x, &self.input, self.biases.as_ref().map(|biases| &biases.0))
    }
}

/// Rows of input, and their number in each time step.
struct Sequence {
    rows: Tensor,
    sizes: Vec<i64>,
}

/// Runs all steps in one direction. The state is changed in place; the result is the hidden states
/// of all steps.
fn run(
    call: &Call,
    cell: Cell,
    sequence: &Sequence,
    weights: &Weights,
    state: &State,
    reverse: bool,
) -> Result<Tensor, Stop> {
    let from_input = weights.of_input(call, &sequence.rows)?;
    let out = Tensor::zeros(state.h.dtype(), &[sequence.rows.size(0), state.h.size(1)], call.precision());
    let starts: Vec<i64> = sequence.sizes.iter().scan(0, |at, size| Some(std::mem::replace(at, *at + size))).collect();
    let mut order: Vec<usize> = (0..starts.len()).collect();
    if reverse {
        order.reverse();
    }
    for t in order {
        let (start, n) = (starts[t], sequence.sizes[t]);
        let now = state.first(n);
        let next = weights.next(call, cell, &from_input.narrow(0, start, n, 1), &now)?;
        out.narrow(0, start, n, 1).copy_from(&next.h)?;
        now.write(&next)?;
    }
    Ok(out)
}

/// The sequence of a call: rows of steps, with the batch first or second, or already packed.
fn sequence(call: &Call) -> Result<(Sequence, Option<[i64; 2]>), Stop> {
    if call.look("batch_sizes").is_some() {
        let (rows, sizes) = (call.tensor("data")?, call.tensor("batch_sizes")?.read::<i64>());
        let falls = sizes.windows(2).all(|pair| pair[0] >= pair[1]) && sizes.iter().all(|&size| size > 0);
        check(rows.rank() == 2 && falls && sizes.iter().sum::<i64>() == rows.size(0), || {
            format!("packed batch sizes {sizes:?} do not fit data of shape {:?}", rows.shape())
        })?;
        return Ok((Sequence { rows, sizes }, None));
    }
    let x = call.tensor("input")?;
    check(x.rank() == 3, || format!("input must have 3 dimensions, got {}", x.rank()))?;
    let x = if call.bool("batch_first")? { x.transpose(0, 1) } else { x };
    let (steps, batch) = (x.size(0), x.size(1));
    check(steps > 0, || "Expected sequence length to be larger than 0 in RNN".to_owned())?;
    let rows = x.reshape(&[steps * batch, x.size(2)]);
    Ok((Sequence { rows, sizes: vec![batch; steps as usize] }, Some([steps, batch])))
}

/// Groups the flat list of parameters: one group for each layer and direction.
fn weights(call: &Call, layers: usize) -> Result<Vec<Weights>, Stop> {
    let all = call.tensors("params")?;
    let has_biases = call.bool("has_biases")?;
    let each = all.len() / layers.max(1);
    let least = if has_biases { 4 } else { 2 };
    check(each * layers == all.len() && (each == least || each == least + 1), || {
        format!("got an incorrect number of RNN parameters: {} for {layers} layers and directions", all.len())
    })?;
    check(all.iter().all(|tensor| tensor.rank() <= 2), || "RNN parameters have at most two dimensions".to_owned())?;
    let group = |part: &[Tensor]| Weights {
        input: part[0].clone(),
        hidden: part[1].clone(),
        biases: has_biases.then(|| (part[2].clone(), part[3].clone())),
        projection: part.get(least).cloned(),
    };
    Ok(all.chunks_exact(each.max(1)).map(group).collect())
}

/// The initial states of all layers and directions, copied because they are written to.
fn states(call: &Call, cell: Cell, count: i64, batch: i64) -> Result<Vec<State>, Stop> {
    let given = match cell {
        Cell::Lstm => call.tensors("hx")?,
        _ => vec![call.tensor("hx")?],
    };
    check(given.len() == if cell == Cell::Lstm { 2 } else { 1 }, || "lstm expects two hidden states".to_owned())?;
    for part in &given {
        check(part.rank() == 3 && part.size(0) == count && part.size(1) == batch, || {
            format!("Expected hidden size ({count}, {batch}, *), got {:?}", part.shape())
        })?;
    }
    let pick = |part: &Tensor, i: i64| part.select(0, i).copied();
    Ok((0..count).map(|i| State { h: pick(&given[0], i), c: given.get(1).map(|c| pick(c, i)) }).collect())
}

fn network(call: &Call, cell: Cell) -> Answer {
    let (mut now, dense) = sequence(call)?;
    floats("rnn", &now.rows)?;
    let (layers, both) = (call.int("num_layers")?, call.bool("bidirectional")?);
    check((1..1 << 16).contains(&layers), || "num_layers must be positive".to_owned())?;
    let directions = if both { 2 } else { 1 };
    let count = layers as usize * directions;
    let weights = weights(call, count)?;
    let batch = now.sizes.first().copied().unwrap_or(0);
    let states = states(call, cell, count as i64, batch)?;
    for state in &states {
        for part in [Some(&state.h), state.c.as_ref()].into_iter().flatten() {
            check(part.dtype() == now.rows.dtype(), || {
                format!("expected scalar type {} but found {}", now.rows.dtype().name(), part.dtype().name())
            })?;
        }
    }
    for layer in 0..layers as usize {
        let mut outs = Vec::new();
        for direction in 0..directions {
            let i = layer * directions + direction;
            outs.push(run(call, cell, &now, &weights[i], &states[i], direction == 1)?);
        }
        now.rows = concatenated(call, &outs)?;
        if layer + 1 < layers as usize {
            now.rows = dropped(call, now.rows)?;
        }
    }
    let out = match dense {
        Some([steps, batch]) => {
            let out = now.rows.reshape(&[steps, batch, now.rows.size(1)]);
            if call.bool("batch_first")? { out.transpose(0, 1) } else { out }
        }
        None => now.rows,
    };
    let mut results = vec![out, stacked(call, states.iter().map(|state| &state.h))?];
    if cell == Cell::Lstm {
        results.push(stacked(call, states.iter().filter_map(|state| state.c.as_ref()))?);
    }
    several(results)
}

/// Concatenates matrices horizontally.
fn concatenated(call: &Call, parts: &[Tensor]) -> Result<Tensor, Stop> {
    if let [only] = parts {
        return Ok(only.clone());
    }
    let cols = parts.iter().map(|part| part.size(1)).sum();
    let whole = Tensor::zeros(parts[0].dtype(), &[parts[0].size(0), cols], call.precision());
    let mut at = 0;
    for part in parts {
        whole.narrow(1, at, part.size(1), 1).copy_from(part)?;
        at += part.size(1);
    }
    Ok(whole)
}

/// Stacks matrices of equal shape in a new first dimension.
fn stacked<'a>(call: &Call, parts: impl Iterator<Item = &'a Tensor>) -> Result<Tensor, Stop> {
    let parts: Vec<&Tensor> = parts.collect();
    let mut shape = vec![parts.len() as i64];
    shape.extend(parts.first().map_or(&[][..], |part| part.shape()));
    layout::checked(&shape)?;
    let dtype = parts.first().map_or(call.env.default_dtype(), |part| part.dtype());
    let whole = Tensor::zeros(dtype, &shape, call.precision());
    for (i, part) in parts.iter().enumerate() {
        whole.select(0, i as i64).copy_from(part)?;
    }
    Ok(whole)
}

/// Dropout between layers.
fn dropped(call: &Call, rows: Tensor) -> Result<Tensor, Stop> {
    let p = call.float("dropout")?;
    if p <= 0.0 || !call.bool("train")? {
        return Ok(rows);
    }
    let mut draws = call.draws();
    let keep = |_| if draws.uniform() < 1.0 - p { 1.0 / (1.0 - p) } else { 0.0 };
    let noise: Vec<f64> = (0..rows.numel()).map(keep).collect();
    multiply(call, &rows, &like(call, &noise, rows.dtype(), rows.shape(), &rows))
}

/// A single step.
fn single(call: &Call, cell: Cell) -> Answer {
    let x = call.tensor("input")?;
    floats("rnn_cell", &x)?;
    let state = match cell {
        Cell::Lstm => match &call.tensors("hx")?[..] {
            [h, c] => State { h: h.clone(), c: Some(c.clone()) },
            _ => return Err(Stop::raised("lstm_cell expects two hidden states")),
        },
        _ => State { h: call.tensor("hx")?, c: None },
    };
    check(x.rank() == 2 && state.h.rank() == 2, || format!("input and hidden must be 2D, got {}D", x.rank()))?;
    let (input, hidden) = (call.tensor("w_ih")?, call.tensor("w_hh")?);
    check(input.rank() == 2 && hidden.rank() == 2, || "weights must be 2D".to_owned())?;
    let from_input = affine(call, &x, &input, call.opt_tensor("b_ih")?.as_ref())?;
    let from_hidden = affine(call, &state.h, &hidden, call.opt_tensor("b_hh")?.as_ref())?;
    let next = step(call, cell, &from_input, &from_hidden, &state)?;
    several([next.h].into_iter().chain(next.c))
}

/// The gates from input and hidden state, biases added.
fn biased(call: &Call) -> Result<(Tensor, Tensor), Stop> {
    let with = |gates: &str, bias: &str| -> Result<Tensor, Stop> {
        let gates = call.tensor(gates)?;
        check(gates.rank() == 2, || "gates must be 2D".to_owned())?;
        match call.opt_tensor(bias)? {
            Some(bias) => add(call, &gates, &bias),
            None => Ok(gates),
        }
    };
    Ok((with("input_gates", "input_bias")?, with("hidden_gates", "hidden_bias")?))
}

/// The third result is for the backward step: the gates after their functions.
fn fused_lstm_cell(call: &Call) -> Answer {
    let (from_input, from_hidden) = biased(call)?;
    let c = call.tensor("cx")?;
    let next = step(call, Cell::Lstm, &from_input, &from_hidden, &State { h: c.clone(), c: Some(c) })?;
    let width = (from_input.size(1) / 4).max(1) as usize;
    let sums = add(call, &from_input, &from_hidden)?.read::<f64>();
    let open = |(i, x): (usize, &f64)| if i / width % 4 == 2 { x.tanh() } else { logistic(*x) };
    let gates: Vec<f64> = sums.iter().enumerate().map(open).collect();
    let workspace = like(call, &gates, from_input.dtype(), from_input.shape(), &from_input);
    several([next.h].into_iter().chain(next.c).chain([workspace]))
}

fn fused_gru_cell(call: &Call) -> Answer {
    let (from_input, from_hidden) = biased(call)?;
    let next = step(call, Cell::Gru, &from_input, &from_hidden, &State { h: call.tensor("hx")?, c: None })?;
    // The values for the backward step are not computed.
    several([IValue::from(next.h), IValue::Undefined])
}
