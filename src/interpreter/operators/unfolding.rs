//! Unfold and fold: the elements under a sliding window as columns of a matrix, and such columns
//! accumulated into images.

use super::elements::{by_kind, check, like};
use super::spatial::{Axis, Window, parameter, runs, volume, window};
use crate::interpreter::call::{Answer, Call, Row, one};
use crate::interpreter::stop::Stop;
use crate::tensor::gemm::Ring;
use crate::tensor::{Tensor, layout};

/// The kernel table. Each operator is the gradient of the other.
pub(crate) const ROWS: &[Row] = &[
    ("aten::im2col", im2col),
    ("aten::col2im", col2im),
    ("aten::im2col_backward", col2im),
    ("aten::col2im_backward", im2col),
];

/// The window over an image of this size.
fn sliding(call: &Call, image: &[i64]) -> Result<Window, Stop> {
    for name in ["kernel_size", "dilation", "padding", "stride"] {
        let n = call.ints(name)?.len();
        check(n == 2, || format!("It is expected {name} equals to 2, but got size {n}"))?;
    }
    let kernel = parameter(call, "kernel_size", 2, 1, &[])?;
    let dilation = parameter(call, "dilation", 2, 1, &[])?;
    let padding = parameter(call, "padding", 2, 0, &[])?;
    let stride = parameter(call, "stride", 2, 1, &[])?;
    let axis = |i: usize| {
        let room = image[i] + 2 * padding[i] - dilation[i] * (kernel[i] - 1) - 1;
        Axis {
            input: image[i],
            output: room.div_euclid(stride[i]) + 1,
            kernel: kernel[i],
            stride: stride[i],
            dilation: dilation[i],
            before: padding[i],
        }
    };
    let axes = [axis(0), axis(1)];
    check(axes.iter().all(|axis| axis.output >= 1), || {
        format!(
            "Given input with spatial size {image:?}, kernel_size={kernel:?}, dilation={dilation:?}, padding={padding:?}, calculated shape of the array of sliding blocks as {:?}, but its components must be at least one.",
            axes.map(|axis| axis.output)
        )
    })?;
    Ok(window(&axes))
}

/// Checks the element type: bool, floating point or complex, as in eager mode.
fn check_dtype(what: &str, x: &Tensor, with_bool: bool) -> Result<(), Stop> {
    let dtype = x.dtype();
    let fits = dtype.is_float() || dtype.is_complex() || (with_bool && dtype == crate::tensor::DType::Bool);
    check(fits, || format!("\"{what}\" not implemented for '{}'", dtype.name()))
}

fn im2col(call: &Call) -> Answer {
    let x = if call.look("self").is_some() { call.tensor("self")? } else { call.tensor("grad_output")? };
    let fits = (x.rank() == 3 || x.rank() == 4) && x.shape()[x.rank().saturating_sub(3)..].iter().all(|&size| size > 0);
    check(fits, || {
        format!(
            "Expected 3D or 4D (batch mode) tensor with possibly 0 batch size and other non-zero dimensions for input, but got: {:?}",
            x.shape()
        )
    })?;
    check_dtype("im2col_out_cpu", &x, true)?;
    let first = x.rank() - 3;
    let window = sliding(call, &x.shape()[first + 1..])?;
    let (taps, positions) = (volume(&window, |axis| axis.kernel), volume(&window, |axis| axis.output));
    let mut shape = x.shape()[..first].to_vec();
    shape.extend([x.size(first) * taps as i64, positions as i64]);
    let total = layout::checked(&shape)?;
    let area = volume(&window, |axis| axis.input);
    by_kind!(x.dtype(), W => {
        let (image, mut columns) = (x.read::<W>(), vec![W::default(); total]);
        let planes = columns.chunks_exact_mut((taps * positions).max(1));
        for (columns, plane) in planes.zip(image.chunks_exact(area.max(1))) {
            runs(&window, |column, element, step, n| {
                let elements = plane[element..].iter().step_by(step);
                columns[column..column + n].iter_mut().zip(elements).for_each(|(to, from)| *to = *from);
            });
        }
        one(like(call, &columns, x.dtype(), &shape, &x))
    })
}

fn col2im(call: &Call) -> Answer {
    let x = if call.look("self").is_some() { call.tensor("self")? } else { call.tensor("grad_output")? };
    let size = if call.look("output_size").is_some() { "output_size" } else { "input_size" };
    let image = parameter(call, size, 2, 1, &[])?;
    let fits = (x.rank() == 2 || x.rank() == 3) && x.shape()[x.rank().saturating_sub(2)..].iter().all(|&size| size > 0);
    check(fits, || {
        format!(
            "Expected 2D or 3D (batch mode) tensor for input with possibly 0 batch size and non-zero dimensions for input, but got: {:?}",
            x.shape()
        )
    })?;
    check_dtype("col2im_out_cpu", &x, true)?;
    let first = x.rank() - 2;
    let window = sliding(call, &image)?;
    let (taps, positions) = (volume(&window, |axis| axis.kernel), volume(&window, |axis| axis.output));
    check(x.size(first) % taps as i64 == 0, || {
        format!(
            "Expected size of input's dimension 1 to be divisible by the product of kernel_size, but got input.size(1)={} and {taps}.",
            x.size(first)
        )
    })?;
    check(x.size(first + 1) == positions as i64, || {
        format!(
            "Given output_size={image:?}, expected size of input's dimension 2 to match the calculated number of sliding blocks {positions}, but got input.size(2)={}.",
            x.size(first + 1)
        )
    })?;
    let mut shape = x.shape()[..first].to_vec();
    shape.extend([x.size(first) / taps as i64, image[0], image[1]]);
    let total = layout::checked(&shape)?;
    by_kind!(x.dtype(), W => {
        let (columns, mut sums) = (x.read::<W>(), vec![W::default(); total]);
        let planes = sums.chunks_exact_mut(volume(&window, |axis| axis.input).max(1));
        for (plane, columns) in planes.zip(columns.chunks_exact((taps * positions).max(1))) {
            runs(&window, |column, element, step, n| {
                let elements = plane[element..].iter_mut().step_by(step);
                elements.zip(&columns[column..column + n]).for_each(|(to, from)| *to = to.plus(*from));
            });
        }
        one(like(call, &sums, x.dtype(), &shape, &x))
    })
}
