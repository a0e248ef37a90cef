//! Unrolls recurrent layers into steps, which have gradient formulas while the layers have none.
//!
//! ```text
//! %y, %h, %c = aten::lstm(%x, %hx, %params, …)   =>   %h.1, %c.1 = aten::lstm_cell(%x0, [%h0, %c0], …)
//!                                                     %h.2, %c.2 = aten::lstm_cell(%x1, [%h.1, %c.1], …)
//!                                                     %y = aten::stack([%h.1, %h.2], %0)
//! ```
//!
//! The number of layers, directions and steps is known after the layer has run. With packed
//! sequences, ever fewer sequences take part in a step; the states of finished sequences are kept
//! until the end. Layers with dropout between them, and layers with projections, are not unrolled.

use super::Tracer;
use jitopt_core::interpreter::{IValue, Outs, Stop};
use jitopt_core::ir::{Attribute, Node, Value};
use jitopt_core::symbol::{Symbol, prim};
use jitopt_core::types::Type;

/// Layers, and the operators of their steps.
const CELLS: &[(&str, &str)] = &[
    ("aten::lstm", "aten::lstm_cell"),
    ("aten::gru", "aten::gru_cell"),
    ("aten::rnn_tanh", "aten::rnn_tanh_cell"),
    ("aten::rnn_relu", "aten::rnn_relu_cell"),
];

/// Whether an operator is a recurrent layer.
pub(super) fn is_recurrent(kind: Symbol) -> bool {
    CELLS.iter().any(|row| row.0 == kind.as_str())
}

/// The operands of a layer.
struct Layers {
    cell: Symbol,
    /// The inputs of the steps.
    steps: Vec<Value>,
    /// The arrangement of the steps.
    arranged: Arranged,
    /// The initial hidden state, and the cell state of an LSTM; each stacks all layers and
    /// directions.
    states: Vec<Value>,
    /// The weights, for each layer and direction.
    weights: Vec<Vec<Value>>,
    directions: usize,
}

/// The layout of steps in a layer's operand and result.
enum Arranged {
    /// One index of this dimension per step.
    Along(i64),
    /// Concatenated; a step has as many rows as there are sequences of that length.
    Packed(Vec<i64>),
}

/// The trailing operands that both kinds of layers have.
struct Trailing<'a> {
    params: &'a [IValue],
    biases: bool,
    layers: i64,
    is_dropped: bool,
    both: bool,
}

impl Tracer<'_> {
    /// Unrolls a recurrent layer; `None` if the node is not one, or is not supported.
    pub(super) fn unrolled(&mut self, node: Node, outputs: &Outs) -> Result<Option<Vec<Value>>, Stop> {
        let kind = self.source.kind(node);
        let Some((_, cell)) = CELLS.iter().find(|row| row.0 == kind.as_str()) else { return Ok(None) };
        let operands: Option<Vec<IValue>> =
            self.source.inputs(node).map(|operand| self.shadows.get(&operand).cloned()).collect();
        match self.layers(Symbol::new(cell), &operands.unwrap_or_default(), outputs)? {
            Some(layers) => Ok(Some(self.run_through(layers))),
            None => Ok(None),
        }
    }

    fn layers(&mut self, cell: Symbol, operands: &[IValue], outputs: &Outs) -> Result<Option<Layers>, Stop> {
        use IValue::{Bool, Float, Int, List, Tensor};
        let out = outputs.first().and_then(IValue::tensor);
        let (x, hx, params, rest, arranged) = match (operands, out) {
            ([x, hx, List(params), rest @ .., Bool(first)], Some(out)) if out.rank() == 3 => {
                (x, hx, params, rest, Arranged::Along(i64::from(*first)))
            }
            ([x, Tensor(_), hx, List(params), rest @ ..], Some(out)) if out.rank() == 2 => {
                let sizes = self.given.get(1).and_then(IValue::tensor).map(jitopt_core::tensor::Tensor::read);
                (x, hx, params, rest, Arranged::Packed(sizes.unwrap_or_default()))
            }
            _ => return Ok(None),
        };
        let [Bool(biases), Int(layers), Float(dropout), Bool(train), Bool(both)] = rest else { return Ok(None) };
        let params = params.borrow();
        let is_dropped = *dropout > 0.0 && *train;
        let trailing = Trailing { params: &params, biases: *biases, layers: *layers, is_dropped, both: *both };
        let Some(weights) = self.weights(&trailing)? else { return Ok(None) };
        let x = self.operand_of(x, Type::tensor())?;
        let steps = match (&arranged, out) {
            (Arranged::Along(dim), Some(out)) => {
                (0..out.size(*dim as usize)).map(|t| self.selected(x, *dim, t)).collect()
            }
            (Arranged::Packed(sizes), _) => {
                let mut at = 0;
                let mut rows = |&n: &i64| {
                    at += n;
                    self.narrowed(x, at - n, n)
                };
                sizes.iter().map(&mut rows).collect()
            }
            _ => return Ok(None),
        };
        let parts = |value: &IValue| match value {
            List(values) => values.borrow().clone(),
            other => vec![other.clone()],
        };
        let states = parts(hx).iter().map(|state| self.operand_of(state, Type::tensor())).collect::<Result<_, _>>()?;
        Ok(Some(Layers { cell, steps, arranged, states, weights, directions: 1 + usize::from(*both) }))
    }

    /// The weights of each layer and direction; `None` if they are not those of plain cells.
    fn weights(&mut self, trailing: &Trailing) -> Result<Option<Vec<Vec<Value>>>, Stop> {
        let each = if trailing.biases { 4 } else { 2 };
        let count = (1 + usize::from(trailing.both)) * usize::try_from(trailing.layers).unwrap_or(0);
        if trailing.params.len() != each * count || trailing.is_dropped {
            return Ok(None);
        }
        let mut weights = Vec::new();
        for group in trailing.params.chunks_exact(each) {
            let mut all = Vec::new();
            for part in group {
                all.push(self.operand_of(part, Type::tensor())?);
            }
            while all.len() < 4 {
                all.push(self.constant(Attribute::None, Type::none()));
            }
            weights.push(all);
        }
        Ok(Some(weights))
    }

    /// Emits the steps; returns the results of the layer.
    fn run_through(&mut self, layers: Layers) -> Vec<Value> {
        let mut steps = layers.steps.clone();
        let mut last: Vec<Vec<Value>> = vec![Vec::new(); layers.states.len()];
        for (layer, both) in layers.weights.chunks(layers.directions).enumerate() {
            let mut by_direction: Vec<Vec<Value>> = vec![Vec::new(); steps.len()];
            for (direction, weights) in both.iter().enumerate() {
                let at = (layer * layers.directions + direction) as i64;
                let first: Vec<Value> = layers.states.iter().map(|&all| self.selected(all, 0, at)).collect();
                let (hidden, states) = self.run_in_direction(&layers, &steps, first, weights, direction == 1);
                by_direction.iter_mut().zip(hidden).for_each(|(all, value)| all.push(value));
                last.iter_mut().zip(states).for_each(|(all, value)| all.push(value));
            }
            let joined = |parts: Vec<Value>| match parts[..] {
                [only] => only,
                _ => self.joined("aten::cat", &parts, 1),
            };
            steps = by_direction.into_iter().map(joined).collect();
        }
        let mut results = vec![match layers.arranged {
            Arranged::Along(dim) => self.joined("aten::stack", &steps, dim),
            Arranged::Packed(_) => self.joined("aten::cat", &steps, 0),
        }];
        results.extend(last.iter().map(|parts| self.joined("aten::stack", parts, 0)));
        results
    }

    /// The hidden states of all steps in one direction, and the last states.
    fn run_in_direction(
        &mut self,
        layers: &Layers,
        steps: &[Value],
        first: Vec<Value>,
        weights: &[Value],
        reverse: bool,
    ) -> (Vec<Value>, Vec<Value>) {
        let sizes: &[i64] = match &layers.arranged {
            Arranged::Packed(sizes) => sizes,
            Arranged::Along(_) => &[],
        };
        let mut order: Vec<usize> = (0..steps.len()).collect();
        if reverse {
            order.reverse();
        }
        let rows = |at: Option<&usize>| at.and_then(|&t| sizes.get(t)).copied();
        let (mut hidden, mut state, mut ended) = (vec![None; steps.len()], first.clone(), Vec::new());
        let mut taking_part = sizes.first().copied();
        for t in order {
            let now = rows(Some(&t));
            if let (Some(before), Some(now)) = (taking_part, now) {
                if reverse && t + 1 == steps.len() && now < before {
                    state = state.iter().map(|&all| self.narrowed(all, 0, now)).collect();
                } else if now < before {
                    ended.push(state.iter().map(|&all| self.narrowed(all, now, before - now)).collect::<Vec<_>>());
                    state = state.iter().map(|&all| self.narrowed(all, 0, now)).collect();
                } else if now > before {
                    let others: Vec<Value> =
                        first.iter().map(|&all| self.narrowed(all, before, now - before)).collect();
                    let pairs = state.iter().zip(others);
                    state = pairs.map(|(&own, other)| self.joined("aten::cat", &[own, other], 0)).collect();
                }
            }
            taking_part = now;
            state = self.step(layers.cell, steps[t], &state, weights);
            hidden[t] = Some(state[0]);
        }
        let whole = |(i, own): (usize, Value)| {
            let parts: Vec<Value> = [own].into_iter().chain(ended.iter().rev().map(|part| part[i])).collect();
            if parts.len() == 1 { own } else { self.joined("aten::cat", &parts, 0) }
        };
        let state = state.into_iter().enumerate().map(whole).collect();
        (hidden.into_iter().flatten().collect(), state)
    }

    /// Emits a step; returns the next state.
    fn step(&mut self, cell: Symbol, x: Value, state: &[Value], weights: &[Value]) -> Vec<Value> {
        let held = match state {
            [only] => *only,
            both => self.append(prim::LIST_CONSTRUCT, both, Type::list(Type::tensor())),
        };
        let operands: Vec<Value> = [x, held].into_iter().chain(weights.iter().copied()).collect();
        let node = self.made.create(cell);
        self.made.set_inputs(node, operands.into_iter());
        let next = state.iter().map(|_| self.made.add_output(node, Type::tensor())).collect();
        self.made.append(self.made.root(), node);
        next
    }

    fn narrowed(&mut self, value: Value, start: i64, length: i64) -> Value {
        let operands = [0, start, length].map(|n| self.constant(Attribute::Int(n), Type::int()));
        self.append(Symbol::new("aten::narrow"), &[&[value], &operands[..]].concat(), Type::tensor())
    }

    fn selected(&mut self, value: Value, dim: i64, index: i64) -> Value {
        let dim = self.constant(Attribute::Int(dim), Type::int());
        let index = self.constant(Attribute::Int(index), Type::int());
        self.append(Symbol::new("aten::select"), &[value, dim, index], Type::tensor())
    }

    fn joined(&mut self, kind: &str, parts: &[Value], dim: i64) -> Value {
        let list = self.append(prim::LIST_CONSTRUCT, parts, Type::list(Type::tensor()));
        let dim = self.constant(Attribute::Int(dim), Type::int());
        self.append(Symbol::new(kind), &[list, dim], Type::tensor())
    }
}
