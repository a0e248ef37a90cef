//! The second launch of kernels for blocks of threads that have column reductions.
//!
//! The first one adds each element to a partial sum of its block, or of its thread where several
//! threads of a block would meet at one. Nothing orders blocks, so that no two share a partial sum.
//! The second launch adds the partial sums of an element in their order, which depends on sizes
//! only:
//!
//! ```text
//! first   for each row …: out1[i] = out1[i] + v_y            out1: copies of the result, doubles
//! second  for each element of the result, a thread each
//!           for each copy: a_total = a_total + v_partial
//! ```
//!
//! It is a kernel like others, a sum of interleaved rows, so that plans, nests and printers know
//! nothing of it.

use super::kernel::{
    ColumnReduction, Direction, Inner, Input, Kernel, Load, Made, Outcome, Reduction, Source, Store, Traversal,
};
use super::window::Guard;
use crate::analysis::axis_maps::AxisMap;
use crate::analysis::reduced_dims::Axes;
use crate::ops::recipes::ReduceOp;
use crate::tensor::DType;
use smallvec::smallvec;

/// The stores of a kernel that are column reductions.
pub(crate) fn summed_stores(kernel: &Kernel) -> impl Iterator<Item = usize> + '_ {
    (0..kernel.stores.len()).filter(|&store| kernel.stores[store].column_reduction.is_some())
}

/// The name of the kernel that adds up the partial sums of a store.
pub(crate) fn total_name(name: &str, store: usize) -> String {
    format!("{name}_total{store}")
}

/// That kernel: the partial sums are the rows of a matrix.
pub(crate) fn total_kernel(kernel: &Kernel, store: usize) -> Option<(Kernel, Traversal)> {
    let Store { tensor, column_reduction, .. } = kernel.stores[store];
    let ColumnReduction { line, .. } = &kernel.column_reductions[column_reduction?];
    let dtype = DType::Double;
    let partial = Load {
        operand: 0,
        axis_map: AxisMap::Whole,
        part: None,
        tap: None,
        dtype,
        dimensioned: true,
        name: "v_partial".to_owned(),
        line: "a partial sum".to_owned(),
    };
    let total = Reduction {
        op: ReduceOp::Sum,
        correction: 0.0,
        input: Input { letter: 'x', source: Source::Load(0), dtype, to: dtype },
        out: dtype,
        axes: Axes::These(smallvec![0]),
        sizes: None,
        keep: false,
        name: "v_total".to_owned(),
        line: line.clone(),
        is_value: false,
        phase: 0,
    };
    let made = Made { dtype: kernel.made[tensor].dtype, name: kernel.made[tensor].name.clone() };
    let store = Store {
        axis_map: AxisMap::Kept,
        source: Source::Reduced(0),
        dtype,
        tensor: 0,
        part: None,
        column_reduction: None,
    };
    let kernel = Kernel {
        group: format!("{}: the sum of its partial sums", kernel.group),
        loads: vec![partial],
        reductions: vec![total],
        stores: vec![store],
        made: vec![made],
        results: vec![Outcome::Made(0)],
        ..Kernel::default()
    };
    let traversal = Traversal {
        direction: Direction::Outer,
        inner: smallvec![Inner::Unit, Inner::Unit],
        invariant: smallvec![false, true],
        guards: smallvec![Guard::None, Guard::None],
    };
    Some((kernel, traversal))
}
