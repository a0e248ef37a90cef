//! The amount of work of a run, in numbers read and written: counted and not timed, so that it is
//! the same on every machine.

use super::ivalue::IValue;
use super::machine::Watch;
use super::stop::Stop;
use crate::ir::{Graph, Node};
use crate::tensor::{Tensor, layout};

/// The accumulated work of a run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Effort(pub u64);

impl Effort {
    /// Adds the work of a node. An element of a matrix product or a convolution reads a row of the
    /// weights.
    pub fn add(&mut self, operands: &[IValue], outputs: &[IValue]) {
        let numbers = |values: &[IValue]| {
            let mut n = 0u64;
            values.iter().for_each(|value| value.each_tensor(&mut |tensor| n += tensor.numel() as u64));
            n
        };
        let row = operands.get(1).and_then(IValue::tensor).filter(|weight| is_product(operands, weight, outputs));
        let row = row.map_or(1, |weight| (weight.numel() / weight.size(0).max(1) as usize) as u64);
        let work = numbers(operands).saturating_add(numbers(outputs).saturating_mul(row));
        self.0 = self.0.saturating_add(work);
    }
}

/// Whether the result looks like a product with a weight: neither elementwise nor a list.
fn is_product(operands: &[IValue], weight: &Tensor, outputs: &[IValue]) -> bool {
    let (Some(x), Some(out)) = (operands[0].tensor(), outputs.first().and_then(IValue::tensor)) else { return false };
    weight.rank() > 1 && layout::broadcast(x.shape(), weight.shape()).ok().is_none_or(|shape| shape[..] != *out.shape())
}

impl Watch for Effort {
    fn after(&mut self, _: &Graph, _: Node, operands: &[IValue], outputs: &[IValue]) -> Result<(), Stop> {
        self.add(operands, outputs);
        Ok(())
    }
}
