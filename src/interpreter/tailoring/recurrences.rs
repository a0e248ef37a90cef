//! Shapes of the states and weights of recurrent layers and cells.

use super::{Layer, Proposals, Wanted};
use crate::tensor::layout::Dims;

/// A cell of one step: its state and weights from its input, or its input from fixed weights.
pub(super) fn cell(layer: &Layer<'_>, gates: i64) -> Option<Proposals> {
    let input = layer.shape("input")?;
    let states = layer.elements("hx");
    let fixed = |formal: &str, dim: usize| {
        let value = layer.operand(formal)?;
        layer.shape(formal).filter(|shape| !layer.may_change(value) && shape.len() == 2).map(|shape| shape[dim])
    };
    let state = states.first().and_then(|&value| layer.shape_of(value)).filter(|shape| shape.len() == 2);
    let hidden = fixed("w_hh", 1).or(state.map(|shape| shape[1])).unwrap_or(4);
    let width = fixed("w_ih", 1).or(input.last().copied()).unwrap_or(3);
    let batch = if input.len() == 2 { input[0] } else { 3 };
    let all = gates * hidden;
    let mut proposals = layer.give(&[
        ("input", &[batch, width]),
        ("w_ih", &[all, width]),
        ("w_hh", &[all, hidden]),
        ("b_ih", &[all]),
        ("b_hh", &[all]),
    ]);
    proposals.extend(states.into_iter().map(|state| (state, Wanted::Shape([batch, hidden].as_slice().into()))));
    Some(proposals)
}

/// A layer over a sequence: its states and weights from its input.
pub(super) fn network(layer: &Layer<'_>, gates: i64) -> Option<Proposals> {
    let states = layer.elements("hx");
    let known = layer.shape_of(*states.first()?);
    let directions = if layer.int("bidirectional").unwrap_or(0) != 0 { 2 } else { 1 };
    let fitting = fitting_state(layer, directions, known.as_ref());
    let mut proposals = Vec::new();
    let state = match fitting {
        Some(state) if states.iter().all(|&value| layer.may_change(value)) && known.as_ref() != Some(&state) => {
            proposals.extend(states.iter().map(|&value| (value, Wanted::Shape(state.clone()))));
            state
        }
        _ => known.filter(|shape| shape.len() == 3)?,
    };
    proposals.extend(weights(layer, gates, directions, &state)?);
    Some(proposals)
}

/// The shape of a state, with the known number of layers and batch size.
fn fitting_state(layer: &Layer<'_>, directions: i64, known: Option<&Dims>) -> Option<Dims> {
    let x = layer.shape("input").filter(|x| x.len() == 3)?;
    let batch = if layer.int("batch_first")? != 0 { x[0] } else { x[1] };
    let hidden = known.and_then(|shape| shape.last().copied()).unwrap_or(4);
    Some([layer.int("num_layers")? * directions, batch, hidden].as_slice().into())
}

/// The weights of all layers and directions: of the input, of the state, their biases, and a
/// projection of the state.
fn weights(layer: &Layer<'_>, gates: i64, directions: i64, state: &Dims) -> Option<Proposals> {
    let width = *layer.shape("input").or_else(|| layer.shape("data"))?.last()?;
    let states = layer.elements("hx");
    let shown = state[2];
    // With a projection, the hidden state of an LSTM is narrower than its cell.
    let cell = states.get(1).filter(|&&cell| !layer.may_change(cell));
    let cell = cell.and_then(|&cell| layer.shape_of(cell)?.last().copied()).unwrap_or(shown);
    let mut shapes: Vec<Dims> = Vec::new();
    for i in 0..state[0] {
        let from = if i < directions { width } else { shown * directions };
        shapes.extend([[gates * cell, from].as_slice().into(), [gates * cell, shown].as_slice().into()]);
        if layer.int("has_biases") != Some(0) {
            shapes.extend([[gates * cell].as_slice().into(), [gates * cell].as_slice().into()]);
        }
        shapes.extend((shown != cell).then(|| [shown, cell].as_slice().into()));
    }
    let list = layer.operand("params")?;
    let parts = layer.elements("params");
    match parts.len() == shapes.len() && parts != [list] {
        true => Some(parts.into_iter().zip(shapes.into_iter().map(Wanted::Shape)).collect()),
        false => Some(vec![(list, Wanted::Shapes(shapes))]),
    }
}
