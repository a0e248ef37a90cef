//! Reads the section of a library call, with values of its params.

use crate::interpreter::IValue;
use crate::ir::{Attribute, Graph, Node, Value};
use crate::symbol::prim;
use crate::tensor::Tensor;

/// A section and its operands.
pub(super) struct Reader<'a> {
    pub(super) section: &'a Graph,
    pub(super) operands: &'a [IValue],
}

impl Reader<'_> {
    /// Its nodes that are no constants.
    pub(super) fn nodes(&self) -> impl Iterator<Item = Node> {
        let section = self.section;
        let is_given = |node: &Node| ![prim::CONSTANT, prim::LIST_CONSTRUCT].contains(&section.kind(*node));
        section.nodes(section.root()).filter(is_given)
    }

    /// The first of these, which a library computes.
    pub(super) fn first(&self) -> Result<Node, String> {
        self.nodes().next().ok_or_else(|| "the section computes nothing".to_owned())
    }

    /// The value of a param.
    pub(super) fn given(&self, value: Value) -> Option<&IValue> {
        self.operands.get(self.place(value)?)
    }

    pub(super) fn place(&self, value: Value) -> Option<usize> {
        self.section.params(self.section.root()).position(|param| param == value)
    }

    pub(super) fn tensor(&self, value: Value) -> Result<Tensor, String> {
        let found = self.given(value).and_then(IValue::tensor).cloned();
        found.ok_or_else(|| "an operand of a product is not a tensor".to_owned())
    }

    pub(super) fn optional_tensor(&self, value: Value) -> Result<Option<Tensor>, String> {
        let is_none =
            matches!(self.section.constant(value), Some(None)) || matches!(self.given(value), Some(IValue::None));
        if is_none { Ok(None) } else { self.tensor(value).map(Some) }
    }

    /// The bytes of a constant text.
    pub(super) fn text(&self, value: Value) -> Option<Vec<u8>> {
        match (self.section.constant(value), self.given(value)) {
            (Some(Some(Attribute::Str(text))), _) => Some(text.to_vec()),
            (_, Some(IValue::Str(text))) => Some(text.as_bytes().to_vec()),
            _ => None,
        }
    }

    pub(super) fn number(&self, value: Value) -> Result<f64, String> {
        match self.section.constant(value) {
            Some(Some(Attribute::Int(n))) => return Ok(*n as f64),
            Some(Some(Attribute::Float(x))) => return Ok(x.value),
            _ => {}
        }
        let given = self.given(value).and_then(IValue::scalar);
        given.map(|number| number.real()).ok_or_else(|| "a factor of a product is not a number".to_owned())
    }

    pub(super) fn optional_number(&self, value: Value) -> Result<Option<f64>, String> {
        let is_none =
            matches!(self.section.constant(value), Some(None)) || matches!(self.given(value), Some(IValue::None));
        if is_none { Ok(None) } else { self.number(value).map(Some) }
    }
}
