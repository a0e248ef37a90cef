//! The memory of a launch, in which every access is checked: operands and results, shared memory,
//! that of a thread, parameters.
//!
//! Each operand and result has addresses of its own, far from those of others, so that an access
//! outside of one is in none:
//!
//! ```text
//! 1 << 39   variables of the module
//! 2 << 40   the first operand        its last four bits are those of the memory on the processor
//! 3 << 40   the second one
//! ```

use super::instructions::{LOCAL, SHARED, Space, VARIABLES};
use std::cell::Cell;

/// The binary logarithm of the distance between the addresses of operands.
const OPERAND: u32 = 40;
/// The first operand has this multiple of the distance as its address.
const FIRST: u64 = 2;
/// The bytes of shared memory before the first write: as a float a NaN that no kernel computes.
pub(super) const UNWRITTEN: u8 = 0xff;

/// The memory of an operand or a result.
#[derive(Clone, Copy, Debug)]
pub struct Region<'m> {
    /// Its bytes.
    pub bytes: Bytes<'m>,
    /// Its address on the processor; that of the launch is aligned like it.
    pub address: usize,
}

/// Bytes that a kernel may read, or read and write.
#[derive(Clone, Copy, Debug)]
pub enum Bytes<'m> {
    /// Of an operand.
    Fixed(&'m [u8]),
    /// Of a result.
    Written(&'m [Cell<u8>]),
}

impl Region<'_> {
    /// Its address in the launch, by its number.
    pub fn address(&self, number: usize) -> u64 {
        (number as u64 + FIRST) << OPERAND | (self.address as u64 & 15)
    }
}

/// The memory that the running thread can address.
#[derive(Debug)]
pub(super) struct Memory<'m> {
    pub(super) regions: &'m [Region<'m>],
    pub(super) variables: &'m [u8],
    pub(super) parameters: &'m [u8],
    /// The addresses of arrays in shared memory.
    pub(super) arrays: &'m [(u64, u64)],
    pub(super) shared: Vec<u8>,
    /// The memory of threads, so many bytes for each.
    pub(super) local: Vec<u8>,
    pub(super) of_thread: usize,
}

impl Memory<'_> {
    /// Reads an element.
    pub(super) fn read(&self, space: Space, address: u64, size: usize, thread: usize) -> Result<u64, String> {
        let (space, address) = settled(space, address);
        match space {
            Space::Shared => {
                self.check_array(address, size)?;
                Ok(number(&self.shared[address as usize..][..size]))
            }
            Space::Local => {
                let at = within(address, size, self.of_thread, "the memory of a thread")?;
                Ok(number(&self.local[thread * self.of_thread + at..][..size]))
            }
            Space::Parameter => {
                let at = within(address, size, self.parameters.len(), "the parameters")?;
                Ok(number(&self.parameters[at..][..size]))
            }
            _ if address >> OPERAND == 0 => {
                let at = within(address.wrapping_sub(VARIABLES), size, self.variables.len(), "every operand")?;
                Ok(number(&self.variables[at..][..size]))
            }
            _ => {
                let (region, at) = self.region(address, size)?;
                Ok(match region.bytes {
                    Bytes::Fixed(bytes) => number(&bytes[at..][..size]),
                    Bytes::Written(cells) => {
                        cells[at..][..size].iter().rev().fold(0, |all, cell| all << 8 | u64::from(cell.get()))
                    }
                })
            }
        }
    }

    /// Writes an element.
    pub(super) fn write(
        &mut self,
        (space, address): (Space, u64),
        size: usize,
        thread: usize,
        value: u64,
    ) -> Result<(), String> {
        let (space, address) = settled(space, address);
        let bytes = &value.to_le_bytes()[..size];
        match space {
            Space::Shared => {
                self.check_array(address, size)?;
                self.shared[address as usize..][..size].copy_from_slice(bytes);
            }
            Space::Local => {
                let at = within(address, size, self.of_thread, "the memory of a thread")?;
                self.local[thread * self.of_thread + at..][..size].copy_from_slice(bytes);
            }
            Space::Parameter => return Err("writes a parameter".to_owned()),
            _ if address >> OPERAND == 0 => return Err(format!("is outside of every operand (address {address:#x})")),
            _ => {
                let (region, at) = self.region(address, size)?;
                let Bytes::Written(cells) = region.bytes else { return Err("writes an operand".to_owned()) };
                cells[at..][..size].iter().zip(bytes).for_each(|(cell, &byte)| cell.set(byte));
            }
        }
        Ok(())
    }

    fn region(&self, address: u64, size: usize) -> Result<(&Region<'_>, usize), String> {
        let outside = || format!("is outside of the memory of an operand (address {address:#x})");
        let number = (address >> OPERAND).checked_sub(FIRST).and_then(|number| usize::try_from(number).ok());
        let (number, region) =
            number.and_then(|number| Some((number, self.regions.get(number)?))).ok_or_else(outside)?;
        let at = address.wrapping_sub(region.address(number));
        let bytes = match region.bytes {
            Bytes::Fixed(bytes) => bytes.len(),
            Bytes::Written(cells) => cells.len(),
        };
        let at = usize::try_from(at).ok().filter(|at| at.checked_add(size).is_some_and(|end| end <= bytes));
        Ok((region, at.ok_or_else(outside)?))
    }

    fn check_array(&self, address: u64, size: usize) -> Result<(), String> {
        let is_within = |&(begin, end): &(u64, u64)| begin <= address && address.saturating_add(size as u64) <= end;
        match self.arrays.iter().any(is_within) {
            true => Ok(()),
            false => Err(format!("is outside of every shared array (address {address:#x})")),
        }
    }
}

/// The kind of memory that an address means, and the address there.
fn settled(space: Space, address: u64) -> (Space, u64) {
    match space {
        // Registers with addresses of shared memory have 32 bits.
        Space::Shared => (space, address & 0xffff_ffff),
        Space::Any if address >= VARIABLES => (Space::Global, address),
        Space::Any if address >= SHARED => (Space::Shared, address - SHARED),
        Space::Any if address >= LOCAL => (Space::Local, address - LOCAL),
        Space::Any => (Space::Global, address),
        known => (known, address),
    }
}

fn within(address: u64, size: usize, bytes: usize, what: &str) -> Result<usize, String> {
    let at = usize::try_from(address).ok().filter(|at| at.checked_add(size).is_some_and(|end| end <= bytes));
    at.ok_or_else(|| format!("is outside of {what} (address {address:#x})"))
}

/// A number of up to eight bytes.
fn number(bytes: &[u8]) -> u64 {
    let mut all = [0; 8];
    all[..bytes.len()].copy_from_slice(bytes);
    u64::from_le_bytes(all)
}
