//! Memory that kernels write to.

use crate::tensor::buffer::{Buffer, Wide, with_elements};
use crate::tensor::{DType, Device, Dims, Tensor};
use std::ops::Range;

/// Elements that a guarded result has before and behind it.
const CANARIES: usize = 64;
/// What memory holds that nothing has been written to: NaN in all types of reals.
const POISON: u8 = 0xff;

/// The memory of a result.
#[derive(Debug)]
pub struct Destination {
    buffer: Buffer,
    /// Elements of canaries on both sides.
    guard: usize,
    /// The elements of the result.
    known: Range<usize>,
}

impl Destination {
    /// Of so many elements; watched, if it is guarded.
    pub fn new(dtype: DType, elements: usize, guarded: bool) -> Destination {
        if !guarded {
            let (buffer, known) = Buffer::placed(dtype, elements);
            return Destination { buffer, guard: 0, known };
        }
        let mut buffer = Buffer::zeros(dtype, elements + 2 * CANARIES);
        poison(&mut buffer);
        Destination { buffer, guard: CANARIES, known: CANARIES..CANARIES + elements }
    }

    /// The address of the first element.
    pub fn first(&mut self) -> usize {
        let at = self.known.start;
        with_elements!(&mut self.buffer, elements => elements[at..].as_mut_ptr().expose_provenance())
    }

    /// Asserts that nothing was written beside it, if it is guarded.
    fn check(&self) {
        let mut clean = Buffer::zeros(self.buffer.dtype(), self.guard);
        poison(&mut clean);
        let n = self.buffer.len();
        let untouched = |from: usize| bits(&self.buffer, from, self.guard) == bits(&clean, 0, self.guard);
        assert!(self.guard == 0 || untouched(0) && untouched(n - self.guard), "a kernel wrote beside its result");
    }

    /// The result.
    ///
    /// # Errors
    /// Sizes and strides that do not make a tensor.
    ///
    /// # Panics
    /// Where something was written beside it.
    pub fn tensor(self, dtype: DType, laid: &(Dims, Dims), device: Device) -> Result<Tensor, String> {
        if self.guard == 0 {
            return Ok(Tensor::placed(self.buffer, self.known, dtype, laid.clone()).on(device));
        }
        self.check();
        let n = self.known.len();
        let whole = Tensor::new(self.buffer, dtype, &[(n + 2 * self.guard) as i64]);
        let inside = whole.narrow(0, self.guard as i64, n as i64, 1).copied();
        Ok(inside.as_strided(&laid.0, &laid.1, 0).map_err(|error| error.0)?.on(device))
    }
}

/// Fills memory with what no kernel leaves.
fn poison(buffer: &mut Buffer) {
    match buffer {
        Buffer::Bool(all) => all.fill(true),
        Buffer::Byte(all) => all.fill(POISON),
        Buffer::Char(all) => all.fill(-1),
        Buffer::Short(all) => all.fill(-1),
        Buffer::Int(all) => all.fill(-1),
        Buffer::Long(all) => all.fill(-1),
        Buffer::Half(all) => all.fill(half::f16::from_bits(u16::MAX)),
        Buffer::BFloat16(all) => all.fill(half::bf16::from_bits(u16::MAX)),
        Buffer::Float(all) => all.fill(f32::from_bits(u32::MAX)),
        Buffer::Double(all) => all.fill(f64::from_bits(u64::MAX)),
        Buffer::ComplexFloat(_) | Buffer::ComplexDouble(_) => {}
    }
}

/// Some elements, with NaN told by their bits.
fn bits(buffer: &Buffer, from: usize, n: usize) -> Vec<u64> {
    with_elements!(buffer, elements => elements[from..from + n].iter().map(|&x| f64::load(x).to_bits()).collect())
}

/// What a sum aside is added to: doubles for each share of a launch, so that no two threads add to
/// one, which are added up behind it.
#[derive(Debug)]
pub struct Totals {
    /// The result that they are of.
    pub tensor: usize,
    /// The access that adds to them.
    pub access: usize,
    memory: Destination,
    elements: usize,
}

impl Totals {
    /// For a result of so many elements, and so many shares.
    pub fn new(tensor: usize, access: usize, elements: usize, shares: usize, guarded: bool) -> Totals {
        Totals { tensor, access, memory: Destination::new(DType::Double, elements * shares, guarded), elements }
    }

    /// Begins at zero.
    pub fn clear(&mut self) {
        self.doubles().fill(0.0);
    }

    /// Where those of the first share are.
    pub fn first(&mut self) -> usize {
        self.memory.first()
    }

    /// How many bytes lie between those of a share and those of the next.
    pub fn bytes(&self) -> usize {
        self.elements * size_of::<f64>()
    }

    fn doubles(&mut self) -> &mut [f64] {
        let known = self.memory.known.clone();
        match &mut self.memory.buffer {
            Buffer::Double(all) => &mut all[known],
            _ => unreachable!("totals are doubles"),
        }
    }

    /// Writes the sums of all shares into a result.
    ///
    /// # Panics
    /// Where something was written beside the totals of a guarded one.
    pub fn add_up(&mut self, result: &mut Destination) {
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
