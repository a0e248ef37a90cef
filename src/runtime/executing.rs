//! The memory of a launch that is executed without a compiler: operands that are held for reading,
//! and results.

use super::destinations::{Destination, Totals};
use crate::codegen::arithmetic::Number;
use crate::codegen::nest::nest_execution::Memory;
use crate::tensor::buffer::Buffer;

/// An element of memory: integers as `int` or 64 bits, 16-bit floats as their bits.
pub(super) fn element(buffer: &Buffer, at: usize) -> Number {
    let small = |n: i32| Number::Int(n);
    match buffer {
        Buffer::Bool(all) => small(i32::from(all[at])),
        Buffer::Byte(all) => small(i32::from(all[at])),
        Buffer::Char(all) => small(i32::from(all[at])),
        Buffer::Short(all) => small(i32::from(all[at])),
        Buffer::Int(all) => small(all[at]),
        Buffer::Long(all) => Number::Long(all[at]),
        Buffer::Half(all) => small(i32::from(all[at].to_bits())),
        Buffer::BFloat16(all) => small(i32::from(all[at].to_bits())),
        Buffer::Float(all) => Number::Float(all[at]),
        Buffer::Double(all) => Number::Double(all[at]),
        // Kernels have no complex numbers.
        Buffer::ComplexFloat(_) | Buffer::ComplexDouble(_) => small(0),
    }
}

/// Writes an element.
pub(super) fn set_element(buffer: &mut Buffer, at: usize, value: Number) {
    let bits = || value.bits();
    match buffer {
        Buffer::Bool(all) => all[at] = value.is_true(),
        Buffer::Byte(all) => all[at] = bits() as u8,
        Buffer::Char(all) => all[at] = bits() as i8,
        Buffer::Short(all) => all[at] = bits() as i16,
        Buffer::Int(all) => all[at] = bits() as i32,
        Buffer::Long(all) => all[at] = bits(),
        Buffer::Half(all) => all[at] = half::f16::from_bits(bits() as u16),
        Buffer::BFloat16(all) => all[at] = half::bf16::from_bits(bits() as u16),
        Buffer::Float(all) => all[at] = value.single(),
        Buffer::Double(all) => all[at] = value.real(),
        Buffer::ComplexFloat(_) | Buffer::ComplexDouble(_) => {}
    }
}

/// The memory of a launch.
pub(super) struct LaunchMemory<'a> {
    /// The buffer of each load, and where it begins.
    pub(super) loads: Vec<(&'a Buffer, usize)>,
    /// The results.
    pub(super) results: &'a mut [Destination],
    /// The result of each store, and where it begins.
    pub(super) stores: Vec<(usize, usize)>,
    /// The accumulators of column reductions.
    pub(super) totals: &'a mut [Totals],
}

impl Memory for LaunchMemory<'_> {
    fn load(&self, access: usize, at: i64) -> Number {
        match self.loads.get(access) {
            Some((buffer, begin)) => element(buffer, begin + at as usize),
            // A value kept in the memory of a result.
            None => {
                let (result, begin) = self.stores[access - self.loads.len()];
                self.results[result].get(begin + at as usize)
            }
        }
    }

    fn store(&mut self, access: usize, at: i64, value: Number) {
        let (result, begin) = self.stores[access - self.loads.len()];
        self.results[result].set(begin + at as usize, value);
    }

    fn add(&mut self, access: usize, share: usize, at: i64, value: f64) {
        if let Some(totals) = self.totals.iter_mut().find(|totals| totals.access == access) {
            totals.add(share, at as usize, value);
        }
    }
}
