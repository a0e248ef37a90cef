//! Computations with gradients disabled, as in `torch.no_grad()`.
//!
//! Their results have no gradient, so their history is irrelevant: the tensor of the run itself is
//! tracked, may be written any number of times, and becomes a parameter with its current elements
//! when a node outside reads it.
//!
//! A tensor with a gradient keeps it when it is written with gradients disabled: eager mode changes
//! the elements without recording that. So the gradient bypasses the write.
//!
//! ```text
//! with torch.no_grad():              %copy = aten::clone(%y)              the elements that are written
//!     y.mul_(k)              =>      %new  = aten::mul_(%copy, %k)
//!                                    %now  = %new.detach() + (%y - %y.detach())
//!                                    aten::copy_(%y, %now)
//! ```
//!
//! Infinite and NaN elements count as 0 in the difference, and have no gradient.

use super::{Tracer, is_real, may_write};
use crate::sharing::copies;
use jitopt_core::analysis::grad_mode::is_about_grad_mode;
use jitopt_core::interpreter::{IValue, Outs, Stop};
use jitopt_core::ir::{Attribute, Float, FloatStyle, Graph, Node, Value, ValueMap};
use jitopt_core::symbol::Symbol;
use jitopt_core::tensor::Tensor;
use jitopt_core::types::era::Era;
use jitopt_core::types::{Simple, Type};

/// The meaning of a token.
#[derive(Clone)]
pub(super) enum Meaning {
    /// A value of the copy.
    Value(Value),
    /// A tensor created with gradients disabled; the value is its counterpart in the copy if it is
    /// a view of memory that the copy computes.
    Unseen(Tensor, Option<Value>),
}

impl Meaning {
    /// The value of the copy in this memory.
    fn traced(&self) -> Option<Value> {
        match self {
            Meaning::Value(value) => Some(*value),
            Meaning::Unseen(_, view) => *view,
        }
    }
}

/// Whether the graph may contain writes with gradients disabled.
pub(super) fn may_be_written_to(graph: &Graph) -> bool {
    graph.all_nodes().any(|node| is_about_grad_mode(graph, node))
        && graph.all_nodes().any(|node| may_write(graph, node))
}

impl Tracer<'_> {
    /// The value that a token stands for, with its current elements.
    pub(super) fn meant(&mut self, token: &Tensor) -> Result<Value, Stop> {
        match self.tokens.get(&token.storage().address()).map(|(_, meaning)| meaning.clone()) {
            Some(Meaning::Value(value)) => Ok(value),
            Some(Meaning::Unseen(tensor, _)) => Ok(self.held(tensor)),
            None => Err(Stop::unsupported("a tensor of unknown origin")),
        }
    }

    /// A parameter with the current elements of a tensor.
    fn held(&mut self, tensor: Tensor) -> Value {
        let now = copies(&[IValue::Tensor(tensor)], self.env.precision).remove(0);
        let param = self.made.add_param(self.made.root(), now.ty());
        self.held.push(now);
        param
    }

    /// Tracks the results of an operator.
    pub(super) fn unseen(&mut self, node: Node, outputs: &Outs) -> Result<(), Stop> {
        if may_write(self.source, node) && self.writes_past(node)? {
            return self.go_past(node, outputs);
        }
        let given = std::mem::take(&mut self.given);
        let view = self.traced_view(node, &given, outputs)?;
        for (output, found) in self.source.outputs(node).zip(outputs) {
            let shadow = super::with_leaves(found, &mut |leaf| match leaf {
                IValue::Tensor(tensor) => {
                    let is_view = given.iter().filter_map(IValue::tensor).any(|own| own.shares_storage(tensor));
                    if !is_view {
                        self.unseen.insert(tensor.storage().address(), tensor.clone());
                    }
                    self.token_of(Meaning::Unseen(tensor.clone(), view))
                }
                other => other.clone(),
            });
            self.stand(output, Some(shadow), None);
        }
        Ok(())
    }

    /// The value of the copy that a source value is, or is a view of.
    fn traced(&self, value: Value) -> Option<Value> {
        let token = self.shadows.get(&value).and_then(IValue::tensor)?;
        self.tokens.get(&token.storage().address()).and_then(|(_, meaning)| meaning.traced())
    }

    /// The view that an operator creates of memory that the copy computes: it may be written
    /// through.
    fn traced_view(&mut self, node: Node, given: &[IValue], outputs: &Outs) -> Result<Option<Value>, Stop> {
        let (Some(IValue::Tensor(own)), [IValue::Tensor(made)]) = (given.first(), &outputs[..]) else {
            return Ok(None);
        };
        let Some(operand) = self.source.inputs(node).next().filter(|_| made.shares_storage(own)) else {
            return Ok(None);
        };
        let Some(there) = self.traced(operand).filter(|_| self.may_go_past) else { return Ok(None) };
        let view = self.copied_onto(node, operand, there)?;
        Ok(Some(self.made.output(view, 0)))
    }

    /// Copies a node with another first operand.
    fn copied_onto(&mut self, node: Node, operand: Value, there: Value) -> Result<Node, Stop> {
        let mut map = ValueMap::default();
        map.insert(operand, there);
        for other in self.source.inputs(node).filter(|&other| other != operand).collect::<Vec<_>>() {
            let there = self.operand(other)?;
            map.insert(other, there);
        }
        let copy = self.made.copy_node(Some(self.source), node, &mut map);
        self.made.append(self.made.root(), copy);
        self.keep_draws(copy, node);
        Ok(copy)
    }

    /// Whether an operator writes to memory that the copy computes, not to memory created with
    /// gradients disabled.
    fn writes_past(&self, node: Node) -> Result<bool, Stop> {
        let is_own =
            |value: &IValue| value.tensor().is_none_or(|tensor| self.unseen.contains_key(&tensor.storage().address()));
        let in_place = self.source.kind(node).as_str().ends_with('_');
        let written = if in_place { &self.given[..self.given.len().min(1)] } else { &self.given[..] };
        if written.iter().all(is_own) {
            return Ok(false);
        }
        match self.source.inputs(node).next().and_then(|value| self.traced(value)) {
            Some(_) if in_place => Ok(true),
            _ => Err(Stop::unsupported(
                "a write with gradients disabled through a view, or by an operator that receives its result",
            )),
        }
    }

    /// Redirects a write to a copy, so that the gradient bypasses it.
    fn go_past(&mut self, node: Node, outputs: &Outs) -> Result<(), Stop> {
        let (Some(IValue::Tensor(written)), Some(operand)) = (self.given.first(), self.source.inputs(node).next())
        else {
            return self.copy(node, outputs);
        };
        if !is_real(written) {
            return self.copy(node, outputs);
        }
        let there = self.traced(operand).map_or_else(|| self.operand(operand), Ok)?;
        let (copy, past) = (self.copied(there), self.finite(there));
        let written = self.copied_onto(node, operand, copy)?;
        let (new, detached) = (self.made.output(written, 0), self.detached(past));
        // The source of the write is copied: later readers may alias it.
        let new = self.copied(new);
        let new = self.detached(new);
        let one = self.constant(Attribute::Int(1), Type::int());
        let nothing = self.append(Symbol::new("aten::sub"), &[past, detached, one], Type::tensor());
        let now = self.append(Symbol::new("aten::add"), &[new, nothing, one], Type::tensor());
        let wait = self.constant(Attribute::Int(0), Type::simple(Simple::Bool));
        let result = self.append(Symbol::new("aten::copy_"), &[there, now, wait], Type::tensor());
        let is_view = self.shadows.get(&operand).and_then(IValue::tensor).map(|token| token.storage().address());
        let meaning = is_view.and_then(|address| self.tokens.get(&address)).map(|(_, meaning)| meaning.clone());
        let meaning = match (meaning, &outputs[..]) {
            (Some(Meaning::Unseen(..)), [IValue::Tensor(now)]) => Meaning::Unseen(now.clone(), Some(result)),
            _ => Meaning::Value(result),
        };
        let token = self.token_of(meaning);
        self.stand(self.source.output(node, 0), Some(token), None);
        Ok(())
    }

    fn detached(&mut self, value: Value) -> Value {
        self.append(Symbol::new("aten::detach"), &[value], Type::tensor())
    }

    /// The finite elements of a value, and 0 elsewhere; there is no such operator before 1.8.
    fn finite(&mut self, value: Value) -> Value {
        if self.made.era == Era::V1_3 {
            return self.copied(value);
        }
        let zero = Attribute::Float(Float { value: 0.0, style: FloatStyle::Seventeen });
        let zero = self.constant(zero, Type::simple(Simple::Float));
        self.append(Symbol::new("aten::nan_to_num"), &[value, zero, zero, zero], Type::tensor())
    }

    /// Creates values of the copy for operands that are about to be written with gradients enabled.
    pub(super) fn about_to_write(&mut self, node: Node) {
        if self.unseen.is_empty() || !self.env.grad_enabled() || !may_write(self.source, node) {
            return;
        }
        for operand in self.source.inputs(node).collect::<Vec<_>>() {
            let Some(IValue::Tensor(token)) = self.shadows.get(&operand) else { continue };
            let meaning = self.tokens.get(&token.storage().address()).map(|(_, meaning)| meaning.clone());
            if let Some(Meaning::Unseen(tensor, None)) = meaning {
                self.unseen.remove(&tensor.storage().address());
                let held = self.held(tensor);
                let (copy, there) = (self.copied(held), self.there.get(&operand).copied());
                let token = self.token(copy);
                self.stand(operand, Some(token), there);
            }
        }
    }
}
