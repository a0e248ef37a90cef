//! Padding.

use super::elements::{check, placed};
use super::picking::check_fits;
use crate::interpreter::call::{Answer, Call, Row, one};
use crate::interpreter::stop::Stop;
use crate::tensor::{Scalar, Tensor, layout};

/// The kernel table.
pub(crate) const ROWS: &[Row] = &[
    ("aten::constant_pad_nd", |call| {
        one(constant(call, &call.tensor("self")?, &call.ints("pad")?, call.scalar("value")?)?)
    }),
    ("aten::pad", pad),
    ("aten::_pad_circular", |call| bordered(call, "pad", Mode::Circular)),
    ("aten::reflection_pad1d", |call| bordered(call, "padding", Mode::Reflect)),
    ("aten::reflection_pad2d", |call| bordered(call, "padding", Mode::Reflect)),
    ("aten::reflection_pad3d", |call| bordered(call, "padding", Mode::Reflect)),
    ("aten::replication_pad1d", |call| bordered(call, "padding", Mode::Replicate)),
    ("aten::replication_pad2d", |call| bordered(call, "padding", Mode::Replicate)),
    ("aten::replication_pad3d", |call| bordered(call, "padding", Mode::Replicate)),
];

/// The source of the elements of a border.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Mode {
    Reflect,
    Replicate,
    Circular,
}

impl Mode {
    /// The index of the source of a position outside of `0..size`.
    fn source(self, at: i64, size: i64) -> i64 {
        match self {
            Mode::Replicate => at.clamp(0, size - 1),
            Mode::Circular => at.rem_euclid(size),
            Mode::Reflect if at < 0 => -at,
            Mode::Reflect if at >= size => 2 * (size - 1) - at,
            Mode::Reflect => at,
        }
    }
}

/// The widths before and after each padded dimension, the last dimension first: `(dimension,
/// before, after)`.
fn borders(x: &Tensor, pad: &[i64]) -> Result<Vec<(usize, i64, i64)>, Stop> {
    check(pad.len().is_multiple_of(2) && pad.len() / 2 <= x.rank(), || {
        format!(
            "Length of pad should be even and no more than twice the number of dimensions of the input. Pad length is {} while the input has {} dimensions.",
            pad.len(),
            x.rank()
        )
    })?;
    let pairs = pad.chunks_exact(2).enumerate().map(|(i, pair)| (x.rank() - 1 - i, pair[0], pair[1]));
    let pairs: Vec<_> = pairs.collect();
    for &(dim, before, after) in &pairs {
        let possible = [before, after].iter().all(|n| (-(1 << 30)..=1 << 30).contains(n));
        check(possible && x.size(dim) + before + after >= 0, || {
            format!(
                "The input size {}, plus negative padding {before} and {after} resulted in a negative output size, which is invalid. Check dimension {dim} of your input.",
                x.size(dim)
            )
        })?;
    }
    Ok(pairs)
}

/// A border of one number. Negative widths crop.
fn constant(call: &Call, x: &Tensor, pad: &[i64], value: Scalar) -> Result<Tensor, Stop> {
    let pairs = borders(x, pad)?;
    let mut shape = x.shape().to_vec();
    for &(dim, before, after) in &pairs {
        shape[dim] += before + after;
    }
    layout::checked(&shape)?;
    check_fits(value, x.dtype())?;
    let result = Tensor::full(value, x.dtype(), &shape, call.precision());
    let (mut from, mut to) = (x.clone(), result.clone());
    for &(dim, before, after) in &pairs {
        let (cut, put) = ((-before).max(0), before.max(0));
        let len = (x.size(dim) - cut - (-after).max(0)).max(0).min(shape[dim] - put.min(shape[dim]));
        from = from.narrow(dim, cut.min(x.size(dim)), len, 1);
        to = to.narrow(dim, put.min(shape[dim]), len, 1);
    }
    to.copy_from(&from)?;
    Ok(placed(result, x))
}

fn pad(call: &Call) -> Answer {
    let (x, pad, value) = (call.tensor("self")?, call.ints("pad")?, call.opt_scalar("value")?);
    let mode = match call.str("mode")?.as_str() {
        "constant" => return one(constant(call, &x, &pad, value.unwrap_or(Scalar::Int(0)))?),
        "reflect" => Mode::Reflect,
        "replicate" => Mode::Replicate,
        "circular" => Mode::Circular,
        other => return Err(Stop::raised(format!("Unrecognised padding mode {other}"))),
    };
    check(value.is_none_or(|value| !value.truth()), || {
        "Padding mode \"reflect\" doesn't take in value argument".to_owned()
    })?;
    one(filled(call, &x, &pad, mode)?)
}

fn bordered(call: &Call, name: &str, mode: Mode) -> Answer {
    one(filled(call, &call.tensor("self")?, &call.ints(name)?, mode)?)
}

/// A border of elements of the tensor itself.
fn filled(call: &Call, x: &Tensor, pad: &[i64], mode: Mode) -> Result<Tensor, Stop> {
    let mut result = x.clone();
    for (dim, before, after) in borders(x, pad)? {
        let size = x.size(dim);
        let most = match mode {
            Mode::Reflect => size - 1,
            Mode::Replicate => i64::MAX,
            Mode::Circular => size,
        };
        check(size > 0 && before <= most && after <= most, || {
            format!(
                "Argument #4: Padding size should be less than the corresponding input dimension, but got: padding ({before}, {after}) at dimension {dim} of input {:?}",
                x.shape()
            )
        })?;
        let mut shape = result.shape().to_vec();
        shape[dim] += before + after;
        layout::checked(&shape)?;
        let next = Tensor::zeros(x.dtype(), &shape, call.precision());
        for i in 0..shape[dim] {
            let source = mode.source(i - before, size).clamp(0, size - 1);
            next.select(dim, i).copy_from(&result.select(dim, source))?;
        }
        result = next;
    }
    Ok(placed(if result.shares_storage(x) { x.copied() } else { result }, x))
}
