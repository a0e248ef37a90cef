//! Convolutions on the processor, on one thread or several.
//!
//! A weight that the graph does not change is packed and kept. An image with padding or strides is
//! copied with them, an example at a time. Halves are convolved as floats and rounded once; where
//! such a sum of bfloat16 overflows, the interpreter, which adds up doubles, computes the call.
#![allow(unsafe_code, reason = "threads compute parts of a convolution; the block has the contract")]

use super::convolution_calls::Convolution;
use super::destinations::Destination;
use super::followers::{Epilogue, Follower, elements};
use super::kept_weights::{Weight, kept};
use super::thread_pool::share_out;
use crate::tensor::gemm::{self, ChannelsLast, Filters, Image, PanelMemory, Panels, Real, SLACK, Sliding, Step};
use crate::tensor::{DType, Device, Precision, Tensor, layout};

/// Multiplications for which another thread is worth it.
const WORTH_A_THREAD: usize = 1 << 18;

/// Computes a convolution on at most some threads. A constant weight is packed and kept.
///
/// # Errors
/// Why it is not computed, as text for people.
pub(super) fn compute(of: &Convolution, is_constant: bool, threads: usize) -> Result<Tensor, String> {
    let result = match of.image.dtype() {
        DType::Float => of_elements::<f32>(of, is_constant, threads)?,
        DType::Double => of_elements::<f64>(of, is_constant, threads)?,
        dtype @ (DType::Half | DType::BFloat16) if of.followers.is_empty() => {
            let sums = of_elements::<f32>(&of.as_floats(), false, threads)?;
            if dtype == DType::BFloat16 && sums.read::<f32>().iter().any(|sum| !sum.is_finite()) {
                return Err("a sum is not finite in float32, and may be in float64".to_owned());
            }
            sums.converted(dtype, Precision::Typed)
        }
        other => return Err(format!("no convolution of {}", other.name())),
    };
    Ok(match of.order {
        Some(order) => result.laid(layout::strides_in_order(&of.shape, order)),
        None => result,
    })
}

fn of_elements<T: Real>(of: &Convolution, is_constant: bool, threads: usize) -> Result<Tensor, String> {
    let threads = threads.min(of.multiplications() / WORTH_A_THREAD).max(1);
    let has_addends = of.followers.iter().any(|follower| matches!(follower, Follower::Add(_)));
    if of.sizes.is_by_channel() && !has_addends && has_channels_last(of) {
        let taps = of.sizes.window.taps();
        let order = |all: &[T], factors: &[T], _| {
            if factors.is_empty() {
                return gemm::taps_first(all, taps);
            }
            let mut scaled = all.to_vec();
            gemm::scale_channels(&mut scaled, factors, taps);
            gemm::taps_first(&scaled, taps)
        };
        let weights = kept_or_made(of, is_constant, Order::TapsFirst, order)?;
        if let Some(weights) = weights.as_ref() {
            return by_channels_last::<T>(of, weights, threads);
        }
    }
    let sizes = of.sizes;
    let pack = |all: &[T], factors: &[T], memory| Filters::of(all, factors, sizes, memory);
    let filters = kept_or_made(of, is_constant, Order::Tiles, pack)?;
    let bias = of.bias.as_ref().map(elements::<T>).transpose()?;
    let epilogue = Epilogue::new::<T>(&of.followers)?;
    let held = epilogue.hold();
    let mut result = Destination::new(of.image.dtype(), layout::numel(&of.shape), false);
    let all = result.elements::<T>().ok_or(OTHER)?;
    let memory = of.image.storage().read();
    let (image, distance) = placed(&of.image, T::slice(&memory).ok_or(OTHER)?);
    let in_place = sizes.is_by_channel() || sizes.window.reads_in_place(image.distances);
    let padded = if in_place { 0 } else { sizes.groups * sizes.inputs * sizes.window.padded() + SLACK };
    gemm::with_memory(padded, |padded: &mut [T]| {
        for (example, result) in all.chunks_exact_mut(sizes.result().max(1)).enumerate() {
            let own = Image { elements: &image.elements[example * distance..], ..image };
            let read = if in_place { own } else { pad(of, &own, padded) };
            let mut steps: Vec<Step<'_, T>> = bias.iter().map(|bias| Step::Rows(bias)).collect();
            steps.extend(epilogue.steps(&held, example * result.len(), result.len())?);
            let sliding = Sliding::new(sizes, read, &filters, &steps, result, threads);
            let sliding = sliding.ok_or("the image is too large")?;
            let parts = sliding.parts();
            // SAFETY: the operands are borrowed until `run` returns, when all parts are done.
            run(parts, threads, move |part| unsafe { sliding.compute(part) });
        }
        Ok::<(), String>(())
    })?;
    drop(memory);
    result.tensor(of.image.dtype(), &(of.shape.clone(), layout::contiguous(&of.shape)), Device::default())
}

/// Whether the channels of image and result are next to each other.
fn has_channels_last(of: &Convolution) -> bool {
    let image = &of.image;
    let is_suggested = layout::suggested_order(image.shape(), image.strides()).is_some();
    of.order.is_some() && is_suggested && image.size(1) > 1 && image.strides()[1] == 1
}

/// A convolution of single channels, which are innermost in image and result.
fn by_channels_last<T: Real>(of: &Convolution, weights: &[T], threads: usize) -> Result<Tensor, String> {
    let (window, channels, dtype) = (of.sizes.window, of.sizes.groups, of.image.dtype());
    let mut result = Destination::new(dtype, layout::numel(&of.shape), false);
    let all = result.elements::<T>().ok_or(OTHER)?;
    let bias = of.bias.as_ref().map(elements::<T>).transpose()?;
    let epilogue = Epilogue::new::<T>(&of.followers)?;
    let held = epilogue.hold();
    let memory = of.image.storage().read();
    let (image, distance) = placed(&of.image, T::slice(&memory).ok_or(OTHER)?);
    for (example, result) in all.chunks_exact_mut(of.sizes.result().max(1)).enumerate() {
        let mut steps: Vec<Step<'_, T>> = bias.iter().map(|bias| Step::Columns(bias)).collect();
        steps.extend(epilogue.steps(&held, 0, 0)?);
        let own = (&image.elements[example * distance..], image.distances);
        let last = ChannelsLast::new((window, channels), own, weights, &steps, result);
        let parts = last.parts();
        // SAFETY: the operands are borrowed until `run` returns, when all parts are done.
        run(parts, threads, move |part| unsafe { last.compute(part) });
    }
    drop(memory);
    let order = of.order.ok_or("the result is contiguous")?;
    let strides = layout::strides_in_order(&of.shape, order);
    result.tensor(dtype, &(of.shape.clone(), strides), Device::default())
}

const OTHER: &str = "a tensor has elements of another type";

/// How a weight is packed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    Tiles,
    TapsFirst,
}

/// The weight in another order and multiplied by its factors, which is kept if the weight is
/// constant: until it is used with other factors.
fn kept_or_made<T: Real, P: Panels + Send + Sync + 'static>(
    of: &Convolution,
    is_constant: bool,
    order: Order,
    pack: impl FnOnce(&[T], &[T], PanelMemory) -> P,
) -> Result<Weight<P>, String> {
    let factors = of.factors.as_ref().map(elements::<T>).transpose()?.unwrap_or_default();
    let bits: Vec<u64> = factors.iter().map(|factor| factor.wide().to_bits()).collect();
    let whole = of.weight.contiguous();
    let memory = whole.storage().read();
    let weights = &T::slice(&memory).ok_or(OTHER)?[whole.offset()..][..whole.numel()];
    match is_constant && whole.shares_storage(&of.weight) {
        true => {
            let key = ((whole.offset(), of.sizes, order), bits);
            Ok(kept(whole.storage(), key, |memory| pack(weights, &factors, memory)))
        }
        false => Ok(Weight::Once(pack(weights, &factors, PanelMemory::Lent))),
    }
}

/// An image where it is, and the distance between examples.
fn placed<'a, T>(image: &Tensor, memory: &'a [T]) -> (Image<'a, T>, usize) {
    let mut distances = [0; 3];
    let strides = &image.strides()[2..];
    for (slot, &stride) in distances.iter_mut().rev().zip(strides.iter().rev()) {
        *slot = stride as usize;
    }
    let (example, channel) = (image.strides()[0] as usize, image.strides()[1] as usize);
    let elements = &memory[image.offset().min(memory.len())..];
    (Image { elements, channel, distances }, example)
}

/// The padded image of an example.
fn pad<'a, T: Real>(of: &Convolution, own: &Image<'_, T>, to: &'a mut [T]) -> Image<'a, T> {
    let (window, each) = (&of.sizes.window, of.sizes.window.padded());
    let channels = of.sizes.groups * of.sizes.inputs;
    gemm::pad(window, own, 0..channels, &mut to[..channels * each]);
    Image { elements: to, channel: each, distances: [0; 3] }
}

/// Computes the parts of a convolution.
fn run(parts: usize, threads: usize, part: impl Fn(usize) + Send + Sync + 'static) {
    match threads < 2 {
        true => (0..parts).for_each(part),
        false => share_out(threads, parts, part),
    }
}
