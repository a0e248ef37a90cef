//! Changes of a sketch that may make a node run.

use crate::interpreter::ivalue::IValue;
use crate::interpreter::sketch::{Sketch, TensorSketch};
use crate::interpreter::tailoring::Wanted;

/// Adds a key to all dicts in it that lack it.
pub(super) fn add_key(sketch: &mut Sketch, wanted: &str) -> bool {
    match sketch {
        Sketch::Optional(inner, _) => add_key(inner, wanted),
        Sketch::List(parts) | Sketch::Tuple(parts) => {
            let lacking = parts.iter_mut().map(|part| add_key(part, wanted)).filter(|&added| added);
            lacking.count() > 0
        }
        Sketch::Dict(items) => {
            let has = |(key, _): &(IValue, Sketch)| matches!(key, IValue::Str(text) if **text == *wanted);
            match items.first().cloned() {
                Some((IValue::Str(_), value)) if !items.iter().any(has) => items.push((IValue::from(wanted), value)),
                _ => return false,
            }
            true
        }
        _ => false,
    }
}

/// Applies the requirement of a layer, as far as parts are free; returns whether the sketch
/// changed.
pub(super) fn take(sketch: &mut Sketch, wanted: Wanted, swapped: bool, most: i64) -> bool {
    let mut changed = false;
    match wanted {
        Wanted::Shape(mut shape) => {
            if swapped {
                shape.reverse();
            }
            sketch.each(&mut |part| {
                if let Sketch::Tensor(tensor) = part {
                    changed |= take_shape(tensor, &shape, most);
                }
            });
        }
        Wanted::Shapes(shapes) => {
            let Sketch::List(parts) = sketch else { return false };
            changed = parts.len() != shapes.len();
            let first = parts.first().cloned().unwrap_or(Sketch::Tensor(TensorSketch::free(1)));
            parts.resize(shapes.len(), first);
            for (part, shape) in parts.iter_mut().zip(shapes) {
                changed |= take(part, Wanted::Shape(shape), false, most);
            }
        }
    }
    changed
}

/// Applies a shape as far as it is free; returns whether the sketch changed.
fn take_shape(tensor: &mut TensorSketch, shape: &[i64], most: i64) -> bool {
    let fits = tensor.dims.len() == shape.len();
    let fixed = fits && tensor.dims.iter().zip(shape).any(|(&(n, free), &wanted)| !free && n != wanted);
    if (!fits && !tensor.free_rank) || fixed || tensor.shape()[..] == *shape {
        return false;
    }
    let before = tensor.clone();
    let free = |i: usize| before.dims.get(i).is_none_or(|&(_, free)| free || !fits);
    tensor.dims = shape.iter().enumerate().map(|(i, &n)| (n, free(i))).collect();
    tensor.strides = None;
    let n = shape.iter().try_fold(1i64, |n, &size| n.checked_mul(size.max(1)));
    if n.is_none_or(|n| n > most) {
        *tensor = before;
        return false;
    }
    true
}

/// Whether any part of it may be changed.
pub(super) fn is_free(sketch: &Sketch) -> bool {
    match sketch {
        Sketch::Tensor(tensor) => {
            tensor.free_rank
                || tensor.free_dtype
                || tensor.dtype.is_integral()
                || tensor.dims.iter().any(|(_, free)| *free)
        }
        Sketch::Int(_) | Sketch::Optional(..) | Sketch::List(_) => true,
        Sketch::Tuple(parts) => parts.iter().any(is_free),
        Sketch::Dict(items) => items.iter().any(|(_, value)| is_free(value)),
        Sketch::Fixed(value) => matches!(value, IValue::Bool(_)),
        Sketch::Float | Sketch::Probability => false,
    }
}

/// Whether the shape of a tensor in it may be changed.
pub(super) fn has_free_shape(sketch: &Sketch) -> bool {
    match sketch {
        Sketch::Tensor(tensor) => tensor.free_rank || tensor.dims.iter().any(|(_, free)| *free),
        Sketch::Optional(inner, _) => has_free_shape(inner),
        Sketch::List(_) => true,
        Sketch::Tuple(parts) => parts.iter().any(has_free_shape),
        Sketch::Dict(items) => items.iter().any(|(_, value)| has_free_shape(value)),
        Sketch::Int(_) | Sketch::Float | Sketch::Probability | Sketch::Fixed(_) => false,
    }
}
