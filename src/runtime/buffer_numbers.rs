//! Elements of memory as numbers of the executor.

use crate::codegen::arithmetic::Number;
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
