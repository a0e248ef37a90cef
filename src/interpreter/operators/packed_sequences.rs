//! Packed sequences of different length: for each time step the rows of all sequences that are long
//! enough, longest sequence first.

use super::elements::{check, like};
use crate::interpreter::call::{Answer, Call, Row, several};
use crate::interpreter::stop::Stop;
use crate::tensor::{DType, Tensor, layout};

/// The kernel table.
pub(crate) const ROWS: &[Row] =
    &[("aten::_pack_padded_sequence", pack_padded), ("aten::_pad_packed_sequence", pad_packed)];

/// The lengths, in decreasing order as eager mode requires.
fn lengths(call: &Call, batch: i64) -> Result<Vec<i64>, Stop> {
    let lengths = call.tensor("lengths")?;
    check(lengths.dtype() == DType::Long, || {
        format!("expected scalar type Long but found {}", lengths.dtype().name())
    })?;
    check(lengths.rank() == 1 && lengths.size(0) == batch, || {
        format!("Expected `len(lengths)` to be equal to batch_size, but got {} (batch_size={batch})", lengths.numel())
    })?;
    let lengths = lengths.read::<i64>();
    check(lengths.last().is_some_and(|&last| last > 0), || {
        "Length of all samples has to be greater than 0, but found an element in 'lengths' that is <= 0".to_owned()
    })?;
    check(lengths.windows(2).all(|pair| pair[0] >= pair[1]), || {
        "`lengths` array must be sorted in decreasing order when `enforce_sorted` is True. You can pass `enforce_sorted=False` to pack_padded_sequence and/or pack_sequence to sidestep this requirement if you do not need ONNX exportability.".to_owned()
    })?;
    Ok(lengths)
}

/// The number of sequences that are long enough for each step.
fn sizes_of_steps(lengths: &[i64]) -> Vec<i64> {
    let longest = lengths.first().copied().unwrap_or(0);
    (0..longest).map(|t| lengths.iter().filter(|&&length| length > t).count() as i64).collect()
}

fn pack_padded(call: &Call) -> Answer {
    let x = call.tensor("input")?;
    check(x.rank() >= 2 || !call.bool("batch_first")?, || {
        "Dimension out of range (expected to be in range of [-1, 0], but got 1)".to_owned()
    })?;
    let x = if call.bool("batch_first")? { x.transpose(0, 1) } else { x };
    check(x.numel() > 0, || "Cannot pack empty tensors.".to_owned())?;
    check(x.rank() >= 2, || "Dimension out of range (expected to be in range of [-1, 0], but got 1)".to_owned())?;
    let lengths = lengths(call, x.size(1))?;
    check(lengths[0] <= x.size(0), || {
        format!("Expected the longest of lengths to be at most {}, but got {}", x.size(0), lengths[0])
    })?;
    let sizes = sizes_of_steps(&lengths);
    let mut shape = vec![sizes.iter().sum()];
    shape.extend_from_slice(&x.shape()[2..]);
    layout::checked(&shape)?;
    let data = Tensor::zeros(x.dtype(), &shape, call.precision());
    let mut at = 0;
    for (t, &n) in sizes.iter().enumerate() {
        data.narrow(0, at, n, 1).copy_from(&x.select(0, t as i64).narrow(0, 0, n, 1))?;
        at += n;
    }
    let sizes = call.made(&sizes, DType::Long, &[sizes.len() as i64]);
    several([data.on(x.device()), sizes])
}

fn pad_packed(call: &Call) -> Answer {
    let (data, sizes) = (call.tensor("data")?, call.tensor("batch_sizes")?);
    let sizes = sizes.read::<i64>();
    let falls = sizes.windows(2).all(|pair| pair[0] >= pair[1]) && sizes.iter().all(|&size| size >= 0);
    let most = sizes.first().copied().unwrap_or(0);
    check(data.rank() > 0 && falls && most > 0 && sizes.iter().sum::<i64>() == data.size(0), || {
        format!("packed batch sizes {sizes:?} do not fit data of shape {:?}", data.shape())
    })?;
    let (steps, total) = (sizes.len() as i64, call.int("total_length")?);
    check(total <= 0 || total >= steps, || {
        format!(
            "Expected total_length to be at least the length of the longest sequence in input, but got total_length={total} and max sequence length being {steps}"
        )
    })?;
    let mut shape = vec![if total > 0 { total } else { steps }, most];
    shape.extend_from_slice(&data.shape()[1..]);
    layout::checked(&shape)?;
    let padded = Tensor::full(call.scalar("padding_value")?, data.dtype(), &shape, call.precision());
    let mut at = 0;
    for (t, &n) in sizes.iter().enumerate() {
        padded.select(0, t as i64).narrow(0, 0, n, 1).copy_from(&data.narrow(0, at, n, 1))?;
        at += n;
    }
    let padded = padded.on(data.device());
    let padded = if call.bool("batch_first")? { padded.transpose(0, 1) } else { padded };
    let lengths: Vec<i64> = (0..most).map(|i| sizes.iter().filter(|&&size| size > i).count() as i64).collect();
    several([padded, like(call, &lengths, DType::Long, &[most], &data)])
}
