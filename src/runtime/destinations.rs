//! Memory that kernels write to.

use super::buffer_numbers::{element, set_element};
use crate::codegen::arithmetic::Number;
use crate::tensor::buffer::{Buffer, Typed, Wide, with_elements};
use crate::tensor::spare_memory::SpareMemory;
use crate::tensor::{DType, Device, Dims, Tensor};
use std::ops::Range;
use std::rc::Rc;

/// Elements before and after a guarded result.
const CANARIES: usize = 64;

/// The memory of a result.
#[derive(Debug)]
pub(crate) struct Destination {
    buffer: Buffer,
    /// Canary elements on each side.
    guard: usize,
    /// The elements of the result.
    known: Range<usize>,
    /// The origin of the buffer.
    lender: Option<Rc<SpareMemory>>,
}

impl Destination {
    /// Memory for a number of elements, with canaries if it is guarded; else that of an earlier
    /// result, if there is any, whose elements it may have.
    pub(crate) fn new(dtype: DType, elements: usize, guarded: bool) -> Destination {
        if !guarded {
            let lender = SpareMemory::current();
            let make = |n| lender.as_ref().map_or_else(|| Buffer::zeros(dtype, n), |lender| lender.take(dtype, n));
            let (buffer, known) = Buffer::placed_in(dtype, elements, make);
            return Destination { buffer, guard: 0, known, lender };
        }
        let mut buffer = Buffer::zeros(dtype, elements + 2 * CANARIES);
        buffer.poison();
        Destination { buffer, guard: CANARIES, known: CANARIES..CANARIES + elements, lender: None }
    }

    /// The address of the first element.
    pub(crate) fn first(&mut self) -> usize {
        let at = self.known.start;
        with_elements!(&mut self.buffer, elements => elements[at..].as_mut_ptr().expose_provenance())
    }

    /// Its elements, if they are of this type.
    pub(super) fn elements<T: Typed>(&mut self) -> Option<&mut [T]> {
        let known = self.known.clone();
        Some(&mut T::slice_mut(&mut self.buffer)?[known])
    }

    /// Writes an element.
    pub(super) fn set(&mut self, at: usize, value: Number) {
        set_element(&mut self.buffer, self.known.start + at, value);
    }

    /// Reads an element.
    pub(super) fn get(&self, at: usize) -> Number {
        element(&self.buffer, self.known.start + at)
    }

    /// Asserts that the canaries are unchanged, if it is guarded.
    fn check(&self) {
        let mut clean = Buffer::zeros(self.buffer.dtype(), self.guard);
        clean.poison();
        let n = self.buffer.len();
        let untouched = |from: usize| bits(&self.buffer, from, self.guard) == bits(&clean, 0, self.guard);
        assert!(self.guard == 0 || untouched(0) && untouched(n - self.guard), "a kernel wrote outside of its result");
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
            let tensor = Tensor::placed(self.buffer, self.known, dtype, laid.clone());
            self.lender.iter().for_each(|lender| tensor.storage().lent_by(lender));
            return Ok(tensor.on(device));
        }
        self.check();
        let n = self.known.len();
        let whole = Tensor::new(self.buffer, dtype, &[(n + 2 * self.guard) as i64]);
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
        let known = self.memory.known.clone();
        match &mut self.memory.buffer {
            Buffer::Double(all) => &mut all[known],
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
        let known = result.known.clone();
        with_elements!(&mut result.buffer, elements => {
            elements[known].iter_mut().zip(sums).for_each(|(element, sum)| *element = sum.store());
        });
    }
}
