//! The memory of a launch that is executed without a compiler: operands that are held for reading,
//! and results.

use super::buffer_numbers::element;
use super::destinations::{Destination, Totals};
use crate::codegen::arithmetic::Number;
use crate::codegen::nest::nest_execution::Memory;
use crate::tensor::buffer::Buffer;

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
