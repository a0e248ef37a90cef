//! Memory that kernels write to.

use super::buffer_numbers::{element, set_element};
use crate::codegen::arithmetic::Number;
use crate::tensor::buffer::{Buffer, Typed, Wide, with_elements};
use crate::tensor::spare_memory::Fresh;
use crate::tensor::{DType, Device, Dims, Tensor};

/// Elements before and after a guarded result.
const CANARIES: usize = 64;

/// The memory of a result.
#[derive(Debug)]
pub(crate) struct Destination {
    memory: Fresh,
    /// Canary elements on each side.
    guard: usize,
}

impl Destination {
    /// Memory for a number of elements, with canaries if it is guarded; else that of an earlier
    /// result, if there is any, whose elements it may have.
    pub(crate) fn new(dtype: DType, elements: usize, guarded: bool) -> Destination {
        if !guarded {
            return Destination { memory: Fresh::placed(dtype, elements), guard: 0 };
        }
        let mut memory = Fresh::new(dtype, elements + 2 * CANARIES);
        memory.buffer.poison();
        memory.known = CANARIES..CANARIES + elements;
        Destination { memory, guard: CANARIES }
    }

    /// The address of the first element.
    pub(crate) fn first(&mut self) -> usize {
        let at = self.memory.known.start;
        with_elements!(&mut self.memory.buffer, elements => elements[at..].as_mut_ptr().expose_provenance())
    }

    /// Its elements, if they are of this type.
    pub(super) fn elements<T: Typed>(&mut self) -> Option<&mut [T]> {
        let known = self.memory.known.clone();
        Some(&mut T::slice_mut(&mut self.memory.buffer)?[known])
    }

    /// Writes an element.
    pub(super) fn set(&mut self, at: usize, value: Number) {
        set_element(&mut self.memory.buffer, self.memory.known.start + at, value);
    }

    /// Reads an element.
    pub(super) fn get(&self, at: usize) -> Number {
        element(&self.memory.buffer, self.memory.known.start + at)
    }

    /// Asserts that the canaries are unchanged, if it is guarded.
    fn check(&self) {
        let buffer = &self.memory.buffer;
        let mut clean = Buffer::zeros(buffer.dtype(), self.guard);
        clean.poison();
        let untouched = |from: usize| bits(buffer, from, self.guard) == bits(&clean, 0, self.guard);
        let end = buffer.len() - self.guard;
        assert!(self.guard == 0 || untouched(0) && untouched(end), "a kernel wrote outside of its result");
    }

    /// The result.
    ///
    /// # Errors
    /// Sizes and strides that do not describe a tensor.
    ///
    /// # Panics
    /// If a canary was overwritten.
    pub(crate) fn tensor(self, dtype: DType, laid: &(Dims, Dims), device: Device) -> Result<Tensor, String> {
        if self.guard == 0 {
            return Ok(Tensor::in_fresh(self.memory, dtype, laid.clone()).on(device));
        }
        self.check();
        let n = self.memory.known.len();
        let whole = Tensor::new(self.memory.buffer, dtype, &[(n + 2 * self.guard) as i64]);
        let inside = whole.narrow(0, self.guard as i64, n as i64, 1).copied();
        Ok(inside.as_strided(&laid.0, &laid.1, 0).map_err(|error| error.0)?.on(device))
    }
}

/// Bit patterns of some elements, so that NaN payloads are compared.
fn bits(buffer: &Buffer, from: usize, n: usize) -> Vec<u64> {
    with_elements!(buffer, elements => elements[from..from + n].iter().map(|&x| f64::load(x).to_bits()).collect())
}

/// The accumulators of a column reduction: doubles for each share of a launch, so that no two
/// threads add to the same one. They are added up at the end.
#[derive(Debug)]
pub(crate) struct Totals {
    /// The index of its result.
    pub tensor: usize,
    /// Its access.
    pub access: usize,
    memory: Destination,
    elements: usize,
}

impl Totals {
    /// Accumulators for a number of elements and a number of shares.
    pub(crate) fn new(tensor: usize, access: usize, elements: usize, shares: usize, guarded: bool) -> Totals {
        Totals { tensor, access, memory: Destination::new(DType::Double, elements * shares, guarded), elements }
    }

    /// Sets all to zero.
    pub(crate) fn clear(&mut self) {
        self.doubles().fill(0.0);
    }

    /// The address of those of the first share.
    pub(crate) fn first(&mut self) -> usize {
        self.memory.first()
    }

    /// The distance in bytes between those of a share and those of the next.
    pub(crate) fn bytes(&self) -> usize {
        self.elements * size_of::<f64>()
    }

    fn doubles(&mut self) -> &mut [f64] {
        let Fresh { buffer, known, .. } = &mut self.memory.memory;
        match buffer {
            Buffer::Double(all) => &mut all[known.clone()],
            _ => unreachable!("accumulators are doubles"),
        }
    }

    /// Adds to one of a share.
    pub(super) fn add(&mut self, share: usize, at: usize, value: f64) {
        let first = share * self.elements;
        self.doubles()[first + at] += value;
    }

    /// Writes the sums over all shares to a result.
    ///
    /// # Panics
    /// If a canary of guarded accumulators was overwritten.
    pub(crate) fn add_up(&mut self, result: &mut Destination) {
        self.memory.check();
        let n = self.elements;
        let (sums, others) = self.doubles().split_at_mut(n);
        for share in others.chunks_exact(n.max(1)) {
            sums.iter_mut().zip(share).for_each(|(sum, part)| *sum += part);
        }
        let known = result.memory.known.clone();
        with_elements!(&mut result.memory.buffer, elements => {
            elements[known].iter_mut().zip(sums).for_each(|(element, sum)| *element = sum.store());
        });
    }
}
