//! A cache of computed values.
//!
//! A graph changes in few places between two rewrites. A kernel whose operands are bitwise equal to
//! earlier ones gives the same results, wherever it is in the graph; so only the nodes affected by
//! a change run, up to where values are equal again. The cache holds results with memory of their
//! own, of operators that neither use random numbers nor write.

use crate::sharing::copies;
use jitopt_core::interpreter::call::Outs;
use jitopt_core::interpreter::{Call, IValue, Stop, Watch};
use jitopt_core::ir::{Graph, Node};
use jitopt_core::ops::{self, rules::Nondeterminism};
use jitopt_core::tensor::{C128, Precision, Tensor};
use std::collections::HashMap;
use std::hash::{Hash, Hasher};

/// Minimum number of operand elements for which a lookup is faster than computing.
const WORTH_IT: usize = 64;
/// Maximum number of cached elements: a gigabyte of doubles.
const MOST_KEPT: usize = 1 << 27;

/// Results by the hash of their operator and operands.
#[derive(Debug, Default)]
pub struct Recall {
    kept: HashMap<u128, Kept>,
    /// The current run.
    run: u64,
    /// The key of the node that runs now.
    pending: Option<u128>,
    numbers: usize,
    /// Number of results taken from the cache.
    pub recalled: u64,
    /// Number of results computed.
    pub computed: u64,
}

#[derive(Debug)]
struct Kept {
    outputs: Vec<IValue>,
    /// The last run that used it.
    run: u64,
}

impl Recall {
    /// Starts another run; entries that the previous run did not use are dropped.
    pub fn begin(&mut self) {
        let last = self.run;
        self.kept.retain(|_, kept| kept.run == last);
        self.numbers = self.kept.values().map(|kept| numbers(&kept.outputs)).sum();
        self.run += 1;
    }
}

impl Watch for Recall {
    fn recalled(&mut self, call: &Call) -> Option<Outs> {
        self.pending = key_of(call);
        let Some(kept) = self.pending.and_then(|key| self.kept.get_mut(&key)) else {
            self.computed += 1;
            return None;
        };
        kept.run = self.run;
        self.recalled += 1;
        Some(copies(&kept.outputs, Precision::Typed).into())
    }

    fn after(&mut self, graph: &Graph, node: Node, operands: &[IValue], outputs: &[IValue]) -> Result<(), Stop> {
        let Some(key) = self.pending.take() else { return Ok(()) };
        // The operands are unchanged: nothing was written, whatever the schema says.
        let fresh = has_own_memory(operands, outputs) && key_for(graph, node, operands) == Some(key);
        let n = numbers(outputs);
        if fresh && self.numbers + n <= MOST_KEPT {
            self.numbers += n;
            self.kept.insert(key, Kept { outputs: copies(outputs, Precision::Typed), run: self.run });
        }
        Ok(())
    }
}

fn numbers(values: &[IValue]) -> usize {
    let mut n = 0;
    values.iter().for_each(|value| value.each_tensor(&mut |tensor| n += tensor.numel()));
    n
}

/// Whether no output aliases an operand or another output.
fn has_own_memory(operands: &[IValue], outputs: &[IValue]) -> bool {
    let (mut taken, mut own) = (Vec::new(), true);
    operands.iter().for_each(|value| value.each_tensor(&mut |tensor| taken.push(tensor.storage().address())));
    for output in outputs {
        own &= matches!(output, IValue::Tensor(_) | IValue::Int(_) | IValue::Float(_) | IValue::Bool(_));
        output.each_tensor(&mut |tensor| {
            own &= !taken.contains(&tensor.storage().address());
            taken.push(tensor.storage().address());
        });
    }
    own && !outputs.is_empty()
}

fn key_of(call: &Call) -> Option<u128> {
    let random = ops::operator(call.graph.era, call.kind()).nondeterminism(call.schema);
    (random == Nondeterminism::Deterministic).then(|| key_for(call.graph, call.node, call.args)).flatten()
}

/// The key of a node and its operands; `None` if they contain more than numbers.
fn key_for(graph: &Graph, node: Node, operands: &[IValue]) -> Option<u128> {
    if numbers(operands) < WORTH_IT || !graph.attributes(node).is_empty() {
        return None;
    }
    let mut hash = Both::default();
    graph.kind(node).hash(&mut hash);
    graph.inputs(node).chain(graph.outputs(node)).for_each(|value| graph.ty(value).hash(&mut hash));
    operands.iter().try_for_each(|value| add(value, &mut hash))?;
    Some(hash.both())
}

fn add(value: &IValue, hash: &mut Both) -> Option<()> {
    std::mem::discriminant(value).hash(hash);
    match value {
        IValue::None | IValue::Undefined => {}
        IValue::Bool(b) => b.hash(hash),
        IValue::Int(n) => n.hash(hash),
        IValue::Float(x) => x.to_bits().hash(hash),
        IValue::Str(text) => text.hash(hash),
        IValue::Device(device) => device.name().hash(hash),
        IValue::Tensor(tensor) => add_tensor(tensor, hash),
        IValue::List(list) => {
            list.borrow().len().hash(hash);
            list.borrow().iter().try_for_each(|value| add(value, hash))?;
        }
        IValue::Tuple(parts) => {
            parts.len().hash(hash);
            parts.iter().try_for_each(|value| add(value, hash))?;
        }
        _ => return None,
    }
    Some(())
}

fn add_tensor(tensor: &Tensor, hash: &mut Both) {
    (tensor.dtype(), tensor.kept(), tensor.shape(), tensor.strides()).hash(hash);
    (tensor.device().name(), tensor.requires_grad()).hash(hash);
    match tensor.dtype() {
        dtype if dtype.is_complex() => {
            tensor.read::<C128>().into_iter().for_each(|z| (z.re.to_bits(), z.im.to_bits()).hash(hash));
        }
        dtype if dtype.is_float() => tensor.read::<f64>().into_iter().for_each(|x| hash.write_u64(x.to_bits())),
        _ => tensor.read::<i64>().into_iter().for_each(|n| hash.write_u64(n as u64)),
    }
}

/// Two hashes of 64 bits: a single one would collide occasionally.
struct Both(u64, u64);

impl Default for Both {
    fn default() -> Both {
        Both(0x9e37_79b9_7f4a_7c15, 0xc2b2_ae3d_27d4_eb4f)
    }
}

impl Both {
    fn both(&self) -> u128 {
        (u128::from(self.0) << 64) | u128::from(self.1)
    }
}

impl Hasher for Both {
    fn finish(&self) -> u64 {
        self.0 ^ self.1
    }

    fn write(&mut self, bytes: &[u8]) {
        for part in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..part.len()].copy_from_slice(part);
            self.write_u64(u64::from_le_bytes(word) ^ ((part.len() as u64) << 56));
        }
    }

    // Odd multipliers of xxHash (Collet, 2012).
    fn write_u64(&mut self, word: u64) {
        self.0 = (self.0.rotate_left(29) ^ word).wrapping_mul(0x9e37_79b1_85eb_ca87);
        self.1 = (self.1 ^ word.rotate_left(32)).wrapping_mul(0xc2b2_ae3d_27d4_eb4f).rotate_left(31);
    }
}

#[cfg(test)]
mod tests {
    use crate::rewrites::{Reference, Sample};
    use crate::showing::Settings;
    use crate::verdict::Policy;
    use jitopt_core::interpreter::IValue;
    use jitopt_core::ir::Graph;
    use jitopt_core::tensor::Tensor;
    use jitopt_core::text::{ParseOptions, parse};

    fn graph(kind: &str) -> Graph {
        let text = format!(
            "graph(%x : Tensor, %y : Tensor):\n  %a : Tensor = aten::neg(%x)\n  %b : Tensor = aten::{kind}(%a)\n  \
             %c : Tensor = aten::abs(%b)\n  %d : Tensor = aten::mul(%y, %y)\n  %e : Tensor = aten::relu_(%d)\n  \
             %f : Tensor = aten::mul(%e, %c)\n  return (%f)\n"
        );
        parse(text.as_bytes(), ParseOptions::default()).expect("a graph").graph
    }

    fn reference(numbers: &[f32]) -> Reference {
        let tensor = || IValue::Tensor(Tensor::from_elements(numbers.to_vec(), &[numbers.len() as i64]));
        let sample = Sample { name: String::new(), inputs: vec![tensor(), tensor()] };
        Reference::new(&graph("relu"), Settings::default(), Policy::default(), vec![sample]).recalling()
    }

    #[test]
    fn only_the_cone_of_a_change_is_run() {
        let reference = reference(&[0.5; 100]);
        assert!(reference.check(&graph("relu")).is_ok());
        assert_eq!(reference.computed(), (6, 0));
        // A write runs again with the same result: readers of the memory are found in the cache.
        assert!(reference.check(&graph("relu")).is_ok());
        assert_eq!(reference.computed(), (7, 5));
        // Different results are detected, although most of the graph is cached.
        assert!(reference.check(&graph("abs")).is_err());
        let (computed, recalled) = reference.computed();
        assert!(computed > 7 && recalled > 5, "{computed} {recalled}");
    }

    #[test]
    fn small_graphs_are_computed_again() {
        let reference = reference(&[1.0; 3]);
        assert!(reference.check(&graph("relu")).is_ok() && reference.check(&graph("relu")).is_ok());
        assert_eq!(reference.computed(), (12, 0));
    }
}
