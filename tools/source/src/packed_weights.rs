//! Weights that PyTorch's own classes pack for quantised layers, from what an archive stores.
//!
//! The classes are C++, `__torch__.torch.classes.quantized.*PackedParamsBase`; what they store is
//! public (`ATen/native/quantized/cpu/fbgemm_utils.cpp`):
//!
//! ```text
//! linear           (weight, bias)
//! convolution 2    ("2", [numbers, weight], [bias])       numbers: an int16 tensor
//! convolution 3    (3, [numbers], [none, weight, bias])   numbers: a list of ints
//! numbers          dimensions, strides, paddings, dilations, output paddings, groups, transposed
//! ```
//!
//! The interpreter's packed weights are objects with these parts as attributes.

use crate::source_error::{Result, fail};
use jitopt_core::interpreter::{IValue, Object};
use jitopt_core::symbol::Symbol;
use std::cell::RefCell;
use std::rc::Rc;

/// The module of these classes.
const CLASSES: &str = "__torch__.torch.classes.quantized.";

/// Whether objects of a class are packed weights.
pub(crate) fn is_packed(class: &str) -> bool {
    class.strip_prefix(CLASSES).is_some_and(|class| class.ends_with("PackedParamsBase"))
}

/// The packed weights of a state.
pub(crate) fn packed(class: &str, state: &IValue) -> Result<IValue> {
    let attributes = match class.strip_prefix(CLASSES) {
        Some("LinearPackedParamsBase") => of_linear(state),
        Some("Conv2dPackedParamsBase" | "Conv3dPackedParamsBase") => of_convolution(state),
        _ => None,
    };
    let Some(attributes) = attributes else {
        return fail(format!("the state of a `{class}` has a form that is not read"));
    };
    let attributes = attributes.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    Ok(IValue::Object(Rc::new(Object { class: Symbol::new(class), attributes: RefCell::new(attributes) })))
}

type Attributes = Vec<(&'static str, IValue)>;

fn items(value: &IValue) -> Option<Vec<IValue>> {
    match value {
        IValue::Tuple(items) => Some(items.to_vec()),
        IValue::List(items) => Some(items.borrow().clone()),
        _ => None,
    }
}

fn of_linear(state: &IValue) -> Option<Attributes> {
    match items(state)?.as_slice() {
        [weight @ IValue::Tensor(_), bias] => Some(vec![("weight", weight.clone()), ("bias", bias.clone())]),
        _ => None,
    }
}

fn of_convolution(state: &IValue) -> Option<Attributes> {
    let (numbers, weight, bias) = match items(state)?.as_slice() {
        [IValue::Str(version), tensors, optional] if &**version == "2" => {
            let tensors = items(tensors)?;
            let [IValue::Tensor(numbers), weight] = tensors.as_slice() else { return None };
            (numbers.read::<i64>(), weight.clone(), items(optional)?.first()?.clone())
        }
        [IValue::Int(3), numbers, tensors] => {
            let numbers: Vec<i64> = items(numbers)?.iter().filter_map(IValue::scalar).map(|n| n.int()).collect();
            let tensors = items(tensors)?;
            let [_, weight, bias] = tensors.as_slice() else { return None };
            (numbers, weight.clone(), bias.clone())
        }
        _ => return None,
    };
    weight.tensor()?;
    let mut attributes = vec![("weight", weight), ("bias", bias)];
    attributes.extend(of_numbers(&numbers)?);
    Some(attributes)
}

fn of_numbers(numbers: &[i64]) -> Option<Attributes> {
    let (first, rest) = numbers.split_first()?;
    let dims = usize::try_from(*first).ok().filter(|dims| (1..=3).contains(dims))?;
    let [lists @ .., groups, transposed] = rest else { return None };
    if lists.len() != 4 * dims {
        return None;
    }
    let names = ["stride", "padding", "dilation", "output_padding"];
    let named = names.into_iter().zip(lists.chunks(dims));
    let mut attributes: Attributes =
        named.map(|(name, numbers)| (name, IValue::list(numbers.iter().map(|n| IValue::Int(*n))))).collect();
    attributes.push(("groups", IValue::Int(*groups)));
    attributes.push(("transpose", IValue::Bool(transposed & 1 == 1)));
    Some(attributes)
}
