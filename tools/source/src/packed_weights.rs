//! Weights that PyTorch's own classes pack for quantised layers, from what an archive stores.
//!
//! The classes are C++, `__torch__.torch.classes.quantized.*PackedParamsBase` and
//! `__torch__.torch.classes.rnn.CellParamsBase`; what they store is public
//! (`ATen/native/quantized/cpu/fbgemm_utils.cpp`, `ATen/native/RNN.cpp`):
//!
//! ```text
//! linear           (weight, bias)
//! convolution 2    ("2", [numbers, weight], [bias])       numbers: an int16 tensor
//! convolution 3    (3, [numbers], [none, weight, bias])   numbers: a list of ints
//! embedding        (1, [weight], [], [bits of an element])
//! recurrent cell   (kind, [biases], [], [reduced range], [weights of input, of state])
//! numbers          dimensions, strides, paddings, dilations, output paddings, groups, transposed
//! ```
//!
//! The interpreter's packed weights are objects with these parts as attributes.

use crate::source_error::{Result, fail};
use jitopt_core::interpreter::{IValue, Object};
use jitopt_core::symbol::Symbol;
use jitopt_core::types::{Simple, Type};
use std::cell::RefCell;
use std::rc::Rc;

/// The module of most of these classes.
const CLASSES: &str = "__torch__.torch.classes.quantized.";
/// The class of one layer in one direction.
const CELL: &str = "__torch__.torch.classes.rnn.CellParamsBase";

/// Whether objects of a class are packed weights.
pub(crate) fn is_packed(class: &str) -> bool {
    class == CELL || class.strip_prefix(CLASSES).is_some_and(|class| class.ends_with("PackedParamsBase"))
}

/// The type of the result of a method of packed weights that takes no arguments; nothing for other
/// classes and methods.
pub(crate) fn method_result(class: &str, method: &str) -> Option<Type> {
    let class = class.strip_prefix(CLASSES)?;
    let is_convolution = matches!(class, "Conv2dPackedParamsBase" | "Conv3dPackedParamsBase");
    Some(match method {
        "unpack" if is_convolution || class == "LinearPackedParamsBase" => {
            Type::tuple(&[Type::tensor(), Type::optional(Type::tensor())])
        }
        "unpack" if class == "EmbeddingPackedParamsBase" => Type::tensor(),
        "stride" | "padding" | "output_padding" | "dilation" if is_convolution => Type::list(Type::simple(Simple::Int)),
        "groups" if is_convolution => Type::simple(Simple::Int),
        "transpose" if is_convolution => Type::simple(Simple::Bool),
        _ => return None,
    })
}

/// The packed weights of a state.
pub(crate) fn packed(class: &str, state: &IValue) -> Result<IValue> {
    let attributes = match class.strip_prefix(CLASSES) {
        Some("LinearPackedParamsBase") => of_linear(state),
        Some("Conv2dPackedParamsBase" | "Conv3dPackedParamsBase") => of_convolution(state),
        Some("EmbeddingPackedParamsBase") => of_embedding(state),
        None => of_cell(state),
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

fn of_embedding(state: &IValue) -> Option<Attributes> {
    let [IValue::Int(1), weights, _, _] = &items(state)?[..] else { return None };
    match &items(weights)?[..] {
        [weight @ IValue::Tensor(_)] => Some(vec![("weight", weight.clone())]),
        _ => None,
    }
}

/// Weights in halves have their biases with them.
fn of_cell(state: &IValue) -> Option<Attributes> {
    let [IValue::Str(kind), biases, _, numbers, weights] = &items(state)?[..] else { return None };
    let [w_ih, w_hh] = <[IValue; 2]>::try_from(items(weights)?).ok()?;
    let mut attributes = vec![("w_ih", w_ih), ("w_hh", w_hh)];
    match (&**kind, &items(biases)?[..], &items(numbers)?[..]) {
        ("quantized_dynamic", [bias_ih, bias_hh], [reduced]) => {
            let reduced = reduced.scalar()?.truth();
            attributes.extend([("bias_ih", bias_ih.clone()), ("bias_hh", bias_hh.clone())]);
            attributes.push(("reduce_range", IValue::Bool(reduced)));
        }
        ("quantized_fp16", [], []) => {}
        _ => return None,
    }
    Some(attributes)
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
