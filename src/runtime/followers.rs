//! Operators after a product or a convolution in the section of its call that are computed with it:
//! activations, and the sum with a tensor of the same size.

use super::section_reader::Reader;
use crate::ir::{Node, Value};
use crate::ops::epilogue_rules as operators;
use crate::tensor::buffer::Buffer;
use crate::tensor::gemm::{Function, MOST_STEPS, Real, Step};
use crate::tensor::{DType, Tensor};
use std::cell::Ref;

/// One operator that follows.
#[derive(Clone, Debug)]
pub(super) enum Follower {
    /// A function of elements.
    Map(Function),
    /// The sum with a tensor of the size of the result.
    Add(Tensor),
}

/// The following operators, with operands that are contiguous.
pub(super) struct Epilogue(Vec<Follower>);

/// Memory of the operands of an epilogue, held for reading.
pub(super) type Held<'a> = Vec<Option<Ref<'a, Buffer>>>;

impl Epilogue {
    /// For a product of elements of a type.
    ///
    /// # Errors
    /// Why it is not computed, as text for people.
    pub(super) fn new<T: Real>(followers: &[Follower]) -> Result<Epilogue, String> {
        let own = |follower: &Follower| match follower {
            Follower::Map(function) if T::DTYPE != DType::Float && !function.has_doubles() => {
                Err("doubles have no such function".to_owned())
            }
            Follower::Map(function) => Ok(Follower::Map(*function)),
            Follower::Add(tensor) if tensor.dtype() == T::DTYPE => Ok(Follower::Add(tensor.contiguous())),
            Follower::Add(_) => Err(OTHER.to_owned()),
        };
        followers.iter().map(own).collect::<Result<_, _>>().map(Epilogue)
    }

    /// The memory of the operands.
    pub(super) fn hold(&self) -> Held<'_> {
        fn memory(follower: &Follower) -> Option<Ref<'_, Buffer>> {
            match follower {
                Follower::Add(tensor) => Some(tensor.storage().read()),
                Follower::Map(_) => None,
            }
        }
        self.0.iter().map(memory).collect()
    }

    /// The steps on a part of the result: so many elements from one on.
    ///
    /// # Errors
    /// An operand has elements of another type.
    pub(super) fn steps<'a, T: Real>(
        &self,
        held: &'a Held<'_>,
        from: usize,
        len: usize,
    ) -> Result<Vec<Step<'a, T>>, String> {
        let step = |(follower, memory): (&Follower, &'a Option<Ref<'_, Buffer>>)| match (follower, memory) {
            (Follower::Map(function), _) => Ok(Step::Map(*function)),
            (Follower::Add(tensor), Some(memory)) => {
                let all = T::slice(memory).ok_or(OTHER)?;
                Ok(Step::Elements(&all[tensor.offset() + from..][..len]))
            }
            (Follower::Add(_), None) => Err(OTHER.to_owned()),
        };
        self.0.iter().zip(held).map(step).collect()
    }
}

const OTHER: &str = "a tensor has elements of another type";

/// The elements of a tensor in their order.
///
/// # Errors
/// They are of another type.
pub(super) fn elements<T: Real>(tensor: &Tensor) -> Result<Vec<T>, String> {
    let whole = tensor.contiguous();
    let memory = whole.storage().read();
    let all = T::slice(&memory).ok_or(OTHER)?;
    Ok(all[whole.offset()..][..whole.numel()].to_vec())
}

impl Reader<'_> {
    /// The operators after a node of a section, whose result has some sizes.
    ///
    /// # Errors
    /// What no epilogue computes, as text for people.
    pub(super) fn followers(&self, first: Node, shape: &[i64]) -> Result<Vec<Follower>, String> {
        let section = self.section;
        let (mut last, mut all) = (section.output(first, 0), Vec::new());
        for node in self.nodes().skip_while(|&node| node != first).skip(1) {
            let operands: Vec<Value> = section.inputs(node).collect();
            all.push(self.follower(node, &operands, last, shape)?);
            last = section.output(node, 0);
        }
        if !section.results(section.root()).eq([last]) {
            return Err("the section does not return its last value alone".to_owned());
        }
        // A bias may be one more.
        if all.len() >= MOST_STEPS {
            return Err("too much follows".to_owned());
        }
        Ok(all)
    }

    fn follower(&self, node: Node, operands: &[Value], last: Value, shape: &[i64]) -> Result<Follower, String> {
        if let Some(function) = operators::function(self.section, node).filter(|_| operands[0] == last) {
            return Ok(Follower::Map(function));
        }
        let other = operators::addend(self.section, node, last);
        let other = other.ok_or_else(|| format!("no epilogue has `{}`", self.section.kind(node).as_str()))?;
        let tensor = self.tensor(other)?;
        match tensor.shape() == shape {
            true => Ok(Follower::Add(tensor)),
            false => Err("the sum is with a tensor of another size".to_owned()),
        }
    }
}
