//! Launches whose blocks take squares of points, where strides make it worth it.
//!
//! ```text
//! y: Float(8, 512, 256), strides 131072, 256, 1
//! x: Float(8, 512, 256), strides 131072, 1, 512    squares over the last two dimensions
//! x: Float(8, 512, 256), strides 1, 8, 4096        none: 8 positions are too few
//! ```
//!
//! A kernel finds the dimensions of squares at the end, and all others before them.

use super::device_launch::{DeviceLaunch, MOST_DIMS};
use crate::codegen::kernel::Kernel;
use crate::codegen::kernel::Traversal;
use crate::codegen::kernel_plan::squares;

/// Makes a launch one whose rows are squares, if that is worth it.
pub(super) fn by_squares(kernel: &Kernel, traversal: &Traversal, launch: &mut DeviceLaunch) -> bool {
    let rank = usize::try_from(launch.rank).unwrap_or(0).min(MOST_DIMS);
    let strides = |at: usize| &launch.strides[at][..rank];
    let found = squares(kernel, traversal, &launch.shape[..rank], &strides);
    let Some((dim, squares)) = found else { return false };
    launch.shape[dim..rank - 1].rotate_left(1);
    launch.strides.iter_mut().for_each(|strides| strides[dim..rank - 1].rotate_left(1));
    launch.rows = squares;
    true
}
