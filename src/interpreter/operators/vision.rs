//! Operators of torchvision. They have no schema here, so operands are read by position.

use super::elements::{check, floats, like};
use crate::interpreter::call::{Answer, Call, Row, one};
use crate::interpreter::ivalue::IValue;
use crate::interpreter::stop::Stop;
use crate::tensor::{DType, Tensor, layout};

/// The kernel table.
pub(crate) const ROWS: &[Row] = &[("torchvision::nms", nms), ("torchvision::roi_align", roi_align)];

fn tensor(call: &Call, i: usize) -> Result<Tensor, Stop> {
    let found = call.args.get(i).and_then(IValue::tensor).cloned();
    found.ok_or_else(|| Stop::unsupported(format!("`{}` without a tensor at {i}", call.kind())))
}

fn number(call: &Call, i: usize) -> Result<f64, Stop> {
    let found = call.args.get(i).and_then(IValue::scalar).map(|scalar| scalar.real());
    found.ok_or_else(|| Stop::unsupported(format!("`{}` without a number at {i}", call.kind())))
}

/// Non-maximum suppression: in order of scores, each remaining box removes those that overlap with
/// it too much.
fn nms(call: &Call) -> Answer {
    let (boxes, scores, most) = (tensor(call, 0)?, tensor(call, 1)?, number(call, 2)?);
    check(boxes.rank() == 2 && boxes.size(1) == 4, || {
        format!("boxes should be a 2d tensor with 4 elements in dimension 1, got {:?}", boxes.shape())
    })?;
    check(scores.rank() == 1 && scores.size(0) == boxes.size(0), || {
        format!(
            "boxes and scores should have same number of elements in dimension 0, got {} and {}",
            boxes.size(0),
            scores.size(0)
        )
    })?;
    let (boxes, scores) = (boxes.read::<f64>(), scores.read::<f64>());
    let boxes: Vec<&[f64]> = boxes.chunks_exact(4).collect();
    let area = |b: &[f64]| (b[2] - b[0]) * (b[3] - b[1]);
    let overlap = |a: &[f64], b: &[f64]| {
        let side = |low: usize| (a[low + 2].min(b[low + 2]) - a[low].max(b[low])).max(0.0);
        let common = side(0) * side(1);
        common / (area(a) + area(b) - common)
    };
    let mut order: Vec<usize> = (0..boxes.len()).collect();
    order.sort_by(|&a, &b| scores[b].partial_cmp(&scores[a]).unwrap_or(std::cmp::Ordering::Equal));
    let mut removed = vec![false; boxes.len()];
    let mut kept = Vec::new();
    for (at, &i) in order.iter().enumerate() {
        if removed[i] {
            continue;
        }
        kept.push(i as i64);
        for &j in &order[at + 1..] {
            removed[j] |= overlap(boxes[i], boxes[j]) > most;
        }
    }
    one(like(call, &kept, DType::Long, &[kept.len() as i64], &tensor(call, 0)?))
}

/// The position of a box in an image, and the sampling of its bins.
struct Region {
    image: usize,
    start: [f64; 2],
    bin: [f64; 2],
    samples: [i64; 2],
}

impl Region {
    fn new(row: &[f64], scale: f64, pooled: [i64; 2], sampling: i64, aligned: bool) -> Region {
        let shift = if aligned { 0.5 } else { 0.0 };
        let at = |i: usize| row[i] * scale - shift;
        let size = |low: usize, high: usize| match at(high) - at(low) {
            size if aligned => size,
            size => size.max(1.0),
        };
        let bin = [size(2, 4) / pooled[0] as f64, size(1, 3) / pooled[1] as f64];
        let samples = bin.map(|bin| if sampling > 0 { sampling } else { (bin.ceil() as i64).clamp(0, 1 << 12) });
        Region { image: row[0].max(0.0) as usize, start: [at(2), at(1)], bin, samples }
    }

    /// The mean of the samples in a bin.
    fn mean(&self, plane: &[f64], size: [i64; 2], bin: [i64; 2]) -> f64 {
        let place = |dim: usize, i: i64| {
            self.start[dim]
                + bin[dim] as f64 * self.bin[dim]
                + (i as f64 + 0.5) * self.bin[dim] / self.samples[dim] as f64
        };
        let [rows, cols] = self.samples;
        let pairs = (0..rows).flat_map(|y| (0..cols).map(move |x| (y, x)));
        let sum: f64 = pairs.map(|(y, x)| bilinear(plane, size, place(0, y), place(1, x))).sum();
        sum / (rows * cols).max(1) as f64
    }
}

/// Bilinear interpolation. Positions more than one element outside of the image give 0.
fn bilinear(plane: &[f64], [h, w]: [i64; 2], y: f64, x: f64) -> f64 {
    if !(-1.0..=h as f64).contains(&y) || !(-1.0..=w as f64).contains(&x) {
        return 0.0;
    }
    let split = |at: f64, size: i64| {
        let at = at.max(0.0).min((size - 1) as f64);
        let low = at.floor();
        (low as i64, (low as i64 + 1).min(size - 1), at - low)
    };
    let ((y0, y1, dy), (x0, x1, dx)) = (split(y, h), split(x, w));
    let pixel = |y: i64, x: i64| plane[(y * w + x) as usize];
    let across = |y: i64| pixel(y, x0) * (1.0 - dx) + pixel(y, x1) * dx;
    across(y0) * (1.0 - dy) + across(y1) * dy
}

/// `roi_align(input, rois, scale, height, width, sampling_ratio, aligned)`; older versions have no
/// `aligned`.
fn roi_align(call: &Call) -> Answer {
    let (x, rois) = (tensor(call, 0)?, tensor(call, 1)?);
    floats("roi_align", &x)?;
    let (scale, sampling) = (number(call, 2)?, number(call, 5)? as i64);
    let pooled = [number(call, 3)? as i64, number(call, 4)? as i64];
    let aligned = call.args.len() > 6 && number(call, 6)? != 0.0;
    check(x.rank() == 4 && rois.rank() == 2 && rois.size(1) == 5, || {
        "rois must have shape as Tensor[K, 5]".to_owned()
    })?;
    check(sampling < 1 << 12 && x.size(2) > 0 && x.size(3) > 0, || "roi_align: wrong sizes".to_owned())?;
    let shape = [rois.size(0), x.size(1), pooled[0], pooled[1]];
    layout::checked(&shape)?;
    let (image, size) = (x.read::<f64>(), [x.size(2), x.size(3)]);
    let (channels, area) = (x.size(1) as usize, (size[0] * size[1]) as usize);
    let mut means = Vec::new();
    for row in rois.read::<f64>().chunks_exact(5) {
        let region = Region::new(row, scale, pooled, sampling, aligned);
        check(region.image < x.size(0) as usize, || format!("roi_align: no image {} in the batch", region.image))?;
        for plane in image[region.image * channels * area..].chunks_exact(area).take(channels) {
            for y in 0..pooled[0] {
                means.extend((0..pooled[1]).map(|x| region.mean(plane, size, [y, x])));
            }
        }
    }
    one(like(call, &means, x.dtype(), &shape, &x))
}
