//! What kernels of blocks of threads are called with, and the emulation of a device, as C reads
//! them: `codegen/cuda_head.c`, `runtime/emulation.c`.

use crate::codegen::geometry::Geometry;
use crate::codegen::kernel::Direction;
use crate::codegen::kernel_plan::{MOST_ACCESSES, MOST_NUMBERS};

/// Dimensions that a launch passes.
pub(super) const MOST_DIMS: usize = 8;

/// A launch as kernels read it: `jo_launch` in `codegen/cuda_head.c`.
#[repr(C)]
#[derive(Clone, Debug, PartialEq)]
pub(super) struct DeviceLaunch {
    /// The first element of each access.
    pub(super) data: [usize; MOST_ACCESSES],
    /// Floating-point operands, and integer ones.
    pub(super) floats: [f64; MOST_NUMBERS],
    pub(super) integers: [i64; MOST_NUMBERS],
    /// The dimensions, and how many of them are those of rows, which come first.
    pub(super) rank: i32,
    pub(super) kept: i32,
    /// The number of rows, and of the elements of a row.
    pub(super) rows: u32,
    pub(super) count: u32,
    /// The memory in which the parts of a split reduction leave their states, their number, and the
    /// elements of each.
    pub(super) left: usize,
    pub(super) parts: u32,
    pub(super) share: u32,
    /// Sizes, and strides in elements, a row for each access.
    pub(super) shape: [u32; MOST_DIMS],
    pub(super) strides: [[u32; MOST_DIMS]; MOST_ACCESSES],
    /// The distances between the partial sums of blocks, and between those of the threads of a
    /// block; 0 where threads share them.
    pub(super) of_block: [u32; MOST_ACCESSES],
    pub(super) of_thread: [u32; MOST_ACCESSES],
}

impl DeviceLaunch {
    /// A launch of nothing.
    pub(super) const EMPTY: DeviceLaunch = DeviceLaunch {
        data: [0; MOST_ACCESSES],
        floats: [0.0; MOST_NUMBERS],
        integers: [0; MOST_NUMBERS],
        rank: 0,
        kept: 0,
        rows: 0,
        count: 0,
        left: 0,
        parts: 1,
        share: 0,
        shape: [1; MOST_DIMS],
        strides: [[0; MOST_DIMS]; MOST_ACCESSES],
        of_block: [0; MOST_ACCESSES],
        of_thread: [0; MOST_ACCESSES],
    };

    /// Its bytes, as a kernel gets them as a parameter.
    pub(super) fn bytes(&self) -> Vec<u8> {
        let DeviceLaunch { data, floats, integers, rank, kept, rows, count, left, parts, share, .. } = self;
        let mut all = Vec::with_capacity(size_of::<DeviceLaunch>());
        data.iter().for_each(|data| all.extend(data.to_le_bytes()));
        floats.iter().for_each(|float| all.extend(float.to_le_bytes()));
        integers.iter().for_each(|integer| all.extend(integer.to_le_bytes()));
        [*rank, *kept].iter().for_each(|n| all.extend(n.to_le_bytes()));
        [*rows, *count].iter().for_each(|n| all.extend(n.to_le_bytes()));
        all.extend(left.to_le_bytes());
        let strides = self.strides.iter().flatten();
        let sizes = [*parts, *share].into_iter().chain(self.shape).chain(strides.copied());
        sizes.chain(self.of_block).chain(self.of_thread).for_each(|n| all.extend(n.to_le_bytes()));
        all
    }
}

/// The state of an element: `jo_cell`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Cell([u32; 8]);

impl Cell {
    /// Whether a thread has written the element.
    pub(super) fn is_written(&self) -> bool {
        self.0[0] != 0
    }
}

/// The memory of an access: `jo_region`.
#[repr(C)]
#[derive(Debug)]
pub(super) struct Region {
    pub(super) memory: usize,
    pub(super) bytes: i64,
    pub(super) size: i64,
    pub(super) cells: *mut Cell,
    /// Whether something has been written to all of it before the launch.
    pub(super) is_set: i64,
}

/// Something wrong: `jo_finding`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RawFinding {
    pub(super) kind: i64,
    pub(super) line: i64,
    pub(super) other_line: i64,
    pub(super) block: i64,
    pub(super) thread: i64,
    pub(super) other_thread: i64,
}

/// The counts of the accesses at a place: `jo_place`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RawPlace {
    pub(super) line: i64,
    /// 1 for shared memory, plus 2 for stores.
    pub(super) kind: i64,
    pub(super) requests: i64,
    pub(super) transactions: i64,
    pub(super) fewest: i64,
}

/// How a launch is emulated: `jo_emulation`.
#[repr(C)]
#[derive(Debug)]
pub(super) struct Emulation {
    /// Blocks, and the threads of each.
    pub(super) blocks: i64,
    pub(super) threads: i64,
    /// Determines the order in which they run; that of their numbers if it is 0.
    pub(super) seed: i64,
    /// Whether threads wait for each other, so that each needs a stack.
    pub(super) has_barriers: i64,
    pub(super) stacks: *mut u8,
    pub(super) stack: i64,
    /// The state of memory, in checked mode.
    pub(super) regions: *mut Region,
    pub(super) region_count: i64,
    pub(super) findings: *mut RawFinding,
    pub(super) most_findings: i64,
    pub(super) found: i64,
    /// The counts of accesses, in checked mode.
    pub(super) places: *mut RawPlace,
    pub(super) most_places: i64,
    pub(super) place_count: i64,
}

/// The dimensions in the order of a device, those of rows first, and how many those are. A point is
/// a row; the innermost dimension of interleaved rows is theirs.
pub(super) fn device_order(geometry: &Geometry) -> (Vec<usize>, usize) {
    let (rank, kept) = (geometry.shape.len(), geometry.kept);
    match geometry.traversal.direction {
        Direction::Points => ((0..rank).collect(), rank),
        Direction::Outer => ((0..kept).chain([rank - 1]).chain(kept..rank - 1).collect(), kept + 1),
        _ => ((0..rank).collect(), kept),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::{offset_of, size_of};

    #[test]
    fn fields_are_those_of_the_kernels() {
        // `jo_launch`: pointers, doubles and 64-bit integers, then four of 32 bits, a pointer, two
        // of 32 bits, then arrays.
        assert_eq!(offset_of!(DeviceLaunch, floats), 8 * MOST_ACCESSES);
        assert_eq!(offset_of!(DeviceLaunch, rank), 8 * (MOST_ACCESSES + 2 * MOST_NUMBERS));
        assert_eq!(offset_of!(DeviceLaunch, shape), offset_of!(DeviceLaunch, rank) + 32);
        assert_eq!(
            size_of::<DeviceLaunch>(),
            offset_of!(DeviceLaunch, shape) + 4 * (MOST_DIMS * (1 + MOST_ACCESSES) + 2 * MOST_ACCESSES)
        );
        let launch = DeviceLaunch { left: 7, of_thread: [9; MOST_ACCESSES], ..DeviceLaunch::EMPTY };
        let (bytes, left) = (launch.bytes(), offset_of!(DeviceLaunch, left));
        assert_eq!((bytes.len(), bytes[left], bytes.last_chunk()), (size_of::<DeviceLaunch>(), 7, Some(&[9, 0, 0, 0])));
        assert_eq!((size_of::<Cell>(), size_of::<Region>(), size_of::<RawFinding>()), (32, 40, 48));
        assert_eq!((offset_of!(Emulation, stacks), size_of::<Emulation>()), (32, 112));
        assert_eq!(size_of::<RawPlace>(), 40);
    }
}
