//! Memory traffic of a run: figures that do not depend on the machine.

use jitopt_core::interpreter::{IValue, Stop, Watch};
use jitopt_core::ir::{Graph, Node};
use jitopt_core::ops;
use jitopt_core::tensor::Tensor;
use jitopt_core::types::Type;

/// Counts during a run. A group run by a kernel is one operator.
#[derive(Debug, Default)]
pub(crate) struct Traffic {
    /// Operators that read or wrote tensors; views are not counted.
    pub(crate) operators: u64,
    /// Bytes that operators read and wrote, each operand once. Broadcast operands are counted once.
    pub(crate) moved: u64,
    /// Bytes of the tensors that operators created.
    pub(crate) made: u64,
}

impl Watch for Traffic {
    fn after(&mut self, graph: &Graph, node: Node, operands: &[IValue], outputs: &[IValue]) -> Result<(), Stop> {
        let moved = moved(graph, node, operands, outputs);
        self.operators += u64::from(moved.total() > 0);
        self.moved += moved.total();
        self.made += moved.made;
        Ok(())
    }
}

/// Bytes that one operator moves.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Moved {
    /// Of the tensors that it created.
    made: u64,
    /// Of the operands that it read, and of what it wrote in place.
    other: u64,
}

impl Moved {
    pub(crate) fn total(self) -> u64 {
        self.made + self.other
    }
}

/// The bytes that one operator moves: none if it only makes views.
pub(crate) fn moved(graph: &Graph, node: Node, operands: &[IValue], outputs: &[IValue]) -> Moved {
    let (read, written) = (tensors(operands), tensors(outputs));
    let is_view = |output: &Tensor| read.iter().any(|operand| operand.shares_storage(output));
    let made: u64 = written.iter().filter(|output| !is_view(output)).map(bytes).sum();
    let in_place: u64 = if writes(graph, node) { read.first().map_or(0, bytes) } else { 0 };
    match made + in_place {
        0 => Moved::default(),
        _ => Moved { made, other: in_place + read.iter().map(bytes).sum::<u64>() },
    }
}

fn writes(graph: &Graph, node: Node) -> bool {
    let types: Vec<Type> = graph.inputs(node).map(|value| graph.ty(value)).collect();
    let operator = ops::operator(graph.era, graph.kind(node));
    operator.may_write(operator.resolve(&types).schema())
}

/// The distinct tensors among values and in their lists.
fn tensors(values: &[IValue]) -> Vec<Tensor> {
    let mut found: Vec<Tensor> = Vec::new();
    let mut add = |value: &IValue| {
        if let Some(tensor) = value.tensor().filter(|tensor| !found.iter().any(|other| is_same(other, tensor))) {
            found.push(tensor.clone());
        }
    };
    for value in values {
        match value {
            IValue::List(list) => list.borrow().iter().for_each(&mut add),
            other => add(other),
        }
    }
    found
}

fn is_same(a: &Tensor, b: &Tensor) -> bool {
    a.shares_storage(b) && a.shape() == b.shape() && a.strides() == b.strides() && a.offset() == b.offset()
}

/// Bytes of the elements in memory: a broadcast dimension has one.
fn bytes(tensor: &Tensor) -> u64 {
    let sizes = tensor.shape().iter().zip(tensor.strides());
    let elements: i64 = sizes.map(|(&size, &stride)| if stride == 0 { size.min(1) } else { size }).product();
    // Not `read()`, which would copy from a device.
    elements.unsigned_abs() * tensor.storage().dtype().size() as u64
}
