//! Recurrent layers as their steps, which have gradients where the layers have none.
//!
//! ```text
//! %y, %h, %c = aten::lstm(%x, %hx, %params, …)   =>   %h.1, %c.1 = aten::lstm_cell(%x0, [%h0, %c0], …)
//!                                                     %h.2, %c.2 = aten::lstm_cell(%x1, [%h.1, %c.1], …)
//!                                                     %y = aten::stack([%h.1, %h.2], %0)
//! ```
//!
//! How many layers, directions and steps there are is known when the layer has run. Layers between which elements are dropped, those with projections and packed sequences stay.

use super::Tracer;
use jitopt_core::interpreter::{IValue, Outs, Stop};
use jitopt_core::ir::{Attribute, Node, Value};
use jitopt_core::symbol::{Symbol, prim};
use jitopt_core::types::Type;

/// Layers, and their steps.
const CELLS: &[(&str, &str)] = &[
    ("aten::lstm", "aten::lstm_cell"),
    ("aten::gru", "aten::gru_cell"),
    ("aten::rnn_tanh", "aten::rnn_tanh_cell"),
    ("aten::rnn_relu", "aten::rnn_relu_cell"),
];

/// What a layer is made of.
struct Layers {
    cell: Symbol,
    /// What goes into each step.
    steps: Vec<Value>,
    /// The dimension of steps.
    dim: i64,
    /// The initial hidden state, and the cell state of an LSTM; one below the other for all layers and directions.
    states: Vec<Value>,
    /// For each layer and direction.
    weights: Vec<Vec<Value>>,
    directions: usize,
}

impl Tracer<'_> {
    /// Writes a recurrent layer down step by step; nothing where it is none, or one that stays.
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
        let [
            x,
            hx,
            IValue::List(params),
            IValue::Bool(biases),
            IValue::Int(layers),
            IValue::Float(dropout),
            IValue::Bool(train),
            IValue::Bool(both),
            IValue::Bool(first),
        ] = operands
        else {
            return Ok(None);
        };
        let directions = 1 + usize::from(*both);
        let each = if *biases { 4 } else { 2 };
        let params = params.borrow();
        let is_plain = params.len() == each * directions * usize::try_from(*layers).unwrap_or(0);
        let out = outputs.first().and_then(IValue::tensor).filter(|out| out.rank() == 3);
        let Some(out) = out.filter(|_| is_plain && (*dropout <= 0.0 || !train)) else { return Ok(None) };
        let dim = i64::from(*first);
        let x = self.operand_of(x, Type::tensor())?;
        let steps = (0..out.size(dim as usize)).map(|t| self.selected(x, dim, t)).collect();
        let parts = |value: &IValue| match value {
            IValue::List(values) => values.borrow().clone(),
            other => vec![other.clone()],
        };
        let states = parts(hx).iter().map(|state| self.operand_of(state, Type::tensor())).collect::<Result<_, _>>()?;
        let mut weights = Vec::new();
        for group in params.chunks_exact(each) {
            let mut all = Vec::new();
            for part in group {
                all.push(self.operand_of(part, Type::tensor())?);
            }
            while all.len() < 4 {
                all.push(self.constant(Attribute::None, Type::none()));
            }
            weights.push(all);
        }
        Ok(Some(Layers { cell, steps, dim, states, weights, directions }))
    }

    /// The results of the layer.
    fn run_through(&mut self, layers: Layers) -> Vec<Value> {
        let mut steps = layers.steps;
        let mut last: Vec<Vec<Value>> = vec![Vec::new(); layers.states.len()];
        for (layer, both) in layers.weights.chunks(layers.directions).enumerate() {
            let mut beside: Vec<Vec<Value>> = vec![Vec::new(); steps.len()];
            for (direction, weights) in both.iter().enumerate() {
                let at = (layer * layers.directions + direction) as i64;
                let mut state: Vec<Value> = layers.states.iter().map(|&all| self.selected(all, 0, at)).collect();
                let mut order: Vec<usize> = (0..steps.len()).collect();
                if direction == 1 {
                    order.reverse();
                }
                for t in order {
                    state = self.step(layers.cell, steps[t], &state, weights);
                    beside[t].push(state[0]);
                }
                last.iter_mut().zip(state).for_each(|(all, value)| all.push(value));
            }
            let joined = |parts: Vec<Value>| match parts[..] {
                [only] => only,
                _ => self.joined("aten::cat", &parts, 1),
            };
            steps = beside.into_iter().map(joined).collect();
        }
        let mut results = vec![self.joined("aten::stack", &steps, layers.dim)];
        results.extend(last.iter().map(|parts| self.joined("aten::stack", parts, 0)));
        results
    }

    /// A step: the next state.
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
