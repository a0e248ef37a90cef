//! Element types of results.

use super::Call;
use crate::ir::Value;
use crate::ops::release_rules::{Does, OperandTypes, element_type_rule, release_rows};
use crate::ops::shape_rules::{Element, Shape};
use crate::planted;
use crate::symbol::prim;
use crate::tensor::dtype::Kind;
use crate::tensor::promotion::{Promotion, of_number, stands_for_number, to_real_arithmetic};
use crate::types::era::Era;
use crate::types::release::Release;
use crate::types::{DType, Simple, TensorType};

/// Formals that are numbers and take part in promotion; `alpha` does not.
const NUMBERS: &[&str] = &["self", "other", "exponent", "min", "max"];

/// The element type of result `i`: the one that is asked for, else the one that follows.
pub(super) fn of(call: &Call<'_>, i: usize) -> Option<DType> {
    match call.operand("dtype") {
        Some(value) if !call.is_none(value) && call.row.element == Element::Parts => {
            asked_for(call, value).map(DType::to_real)
        }
        Some(value) if !call.is_none(value) => asked_for(call, value),
        _ => {
            let usual = || match call.row.element {
                Element::Each(all) => following(call, *all.get(i)?, i),
                one => following(call, one, i),
            };
            match release_rule(call) {
                None | Some(Does::Computes(_)) => usual(),
                // An operator that raises has no result.
                Some(Does::Raises | Does::RaisesUntyped) => None,
                Some(Does::Keeps(_)) => call.first()?.dtype,
                Some(Does::MakesFloats) => Some(DType::Float),
            }
        }
    }
}

/// What the release of the graph does with operands of these types, where that decides the element type.
fn release_rule(call: &Call<'_>) -> Option<Does> {
    let kind = call.schema.kind;
    if release_rows(kind).is_empty() {
        return None;
    }
    let tensors = call.tensors()?.iter().map(|tensor| tensor.dtype).collect::<Option<Vec<DType>>>()?;
    let types = OperandTypes { tensors, float_number: float_number(call) };
    element_type_rule(kind, &types, call.graph.release())
}

/// Whether an operand is a number that is floating point, as far as types tell.
fn float_number(call: &Call<'_>) -> Option<bool> {
    let types = call.graph.inputs(call.node).map(|value| call.known.ty(value));
    let mut all = Some(false);
    for ty in types {
        match () {
            () if ty.is(Simple::Float) => return Some(true),
            () if ty.is(Simple::Scalar) || ty.is(Simple::Number) => all = None,
            () => {}
        }
    }
    all
}

/// The element type that a number names: a constant, or that of a tensor, where PyTorch looks at constants alone.
fn asked_for(call: &Call<'_>, value: Value) -> Option<DType> {
    if let Some(code) = call.graph.constant_int(value) {
        return DType::from_code(code);
    }
    let asked = call.graph.definer(value).filter(|_| call.known.sees_into_lists())?;
    let is_dtype = call.graph.kind(asked).as_str() == "prim::dtype";
    is_dtype.then(|| call.known.ty(call.graph.input(asked, 0)).as_tensor()?.dtype)?
}

fn following(call: &Call<'_>, element: Element, i: usize) -> Option<DType> {
    let first = || call.first()?.dtype.filter(|dtype| dtype.arithmetic().is_some());
    match element {
        Element::Same => first(),
        Element::Each(_) => None,
        Element::Of(name) => call.tensor(name)?.dtype,
        Element::Widened => first().zip(call.flag("half_to_float")).map(|(dtype, widened)| match widened {
            true if dtype == DType::Half => DType::Float,
            _ => dtype,
        }),
        Element::Power => {
            promoted(call, 0).map(|dtype| if dtype.is_complex() { DType::ComplexDouble } else { DType::Double })
        }
        Element::Statistics => statistics(call),
        Element::Common => call.tensors()?.iter().find_map(|tensor| tensor.dtype),
        Element::Real => first().map(to_real_arithmetic),
        Element::Complex => first().filter(|dtype| dtype.is_float()).map(DType::to_complex),
        Element::Parts => first().map(DType::to_real),
        Element::Promoted => promoted(call, 0),
        // The distance of complex numbers is a float.
        Element::Settled if call.row.shape == Shape::Scalar => settled(call, 0).map(DType::to_real),
        Element::Settled => settled(call, 0),
        Element::Chosen => settled(call, 1),
        Element::Divided => divided(call),
        Element::Angle => {
            let result = promoted(call, 0)?;
            (call.era() == Era::V2 || !result.is_integral()).then(|| to_real_arithmetic(result))
        }
        Element::Summed => first().map(|dtype| if dtype.is_integral() { DType::Long } else { dtype }),
        Element::Squared => first().map(|dtype| if dtype == DType::Bool { DType::Long } else { dtype }),
        Element::Bool => Some(DType::Bool),
        Element::Flag => first().map(|dtype| if dtype == DType::Byte { dtype } else { DType::Bool }),
        Element::Long => Some(DType::Long),
        Element::Places => call.flag("out_int32").map(|narrow| if narrow { DType::Int } else { DType::Long }),
        Element::WithIndex => {
            if i == 0 {
                first()
            } else {
                Some(DType::Long)
            }
        }
        Element::Second => call.tensors()?.get(1)?.dtype,
        Element::Named => {
            let named = call.schema.kind.short().strip_prefix("_cast_")?;
            DType::ALL.iter().copied().find(|dtype| dtype.name() == named)
        }
        Element::Default => Some(DType::Float),
        Element::OfNumber => of_given(call),
        Element::OfWideNumber => Some(of_number(kind(call, call.operand("a")?)?, DType::Double)),
    }
}

/// Statistics of a norm are of the type of the input; of halves beside a weight of floats they are
/// floats.
fn statistics(call: &Call<'_>) -> Option<DType> {
    let input = call.first()?.dtype?;
    let weights = ["weight", "bias", "running_mean"].into_iter().filter_map(|name| call.operand(name));
    let mut given = weights.filter(|&value| !call.is_none(value));
    match (matches!(input, DType::Half | DType::BFloat16), given.next()) {
        (true, Some(weight)) => call.tensor_of(weight)?.dtype,
        _ => Some(input),
    }
}

/// Cat joins in the same way as arithmetic; up to 1.4 it takes tensors of one type only.
fn promoted(call: &Call<'_>, from: usize) -> Option<DType> {
    let tensors = call.tensors()?;
    let mut promotion = Promotion::default();
    for (tensor, value) in tensors.iter().zip(call.tensor_values()?).skip(from) {
        let dtype = arithmetic(tensor)?;
        promotion = match stands_for_number(dtype) && is_traced_number(call, value) {
            true => promotion.number(dtype.arithmetic()?),
            false => promotion.element(dtype, has_dimensions(tensor, &tensors[from..])?),
        };
    }
    for kind in numbers(call) {
        promotion = promotion.number(kind?);
    }
    Some(planted!("shapes.promoted", promotion.result(), "first" => tensors.first()?.dtype?))
}

/// See [`stands_for_number`].
fn is_traced_number(call: &Call<'_>, value: Value) -> bool {
    let is_constant = call.graph.definer(value).is_some_and(|node| call.graph.kind(node) == prim::CONSTANT);
    is_constant && call.tensor_of(value).and_then(TensorType::rank) == Some(0)
}

fn arithmetic(tensor: &TensorType) -> Option<DType> {
    tensor.dtype.filter(|dtype| dtype.arithmetic().is_some())
}

/// Whether it has dimensions, where that makes a difference: among tensors of one type it makes none.
fn has_dimensions(tensor: &TensorType, all: &[&TensorType]) -> Option<bool> {
    let one = all.iter().all(|other| other.dtype == tensor.dtype);
    tensor.rank().map(|rank| rank > 0).or(one.then_some(true))
}

/// The kinds of the numbers that take part; none of one whose kind is unknown.
fn numbers(call: &Call<'_>) -> Vec<Option<Kind>> {
    let operands = NUMBERS.iter().filter_map(|name| call.operand(name));
    operands
        .filter(|&value| !call.known.ty(value).is_tensor() && !call.is_none(value))
        .map(|value| kind(call, value))
        .collect()
}

fn kind(call: &Call<'_>, value: Value) -> Option<Kind> {
    let ty = call.known.ty(value);
    let kinds = [
        (Simple::Bool, Kind::Bool),
        (Simple::Int, Kind::Int),
        (Simple::Float, Kind::Float),
        (Simple::Complex, Kind::Complex),
    ];
    kinds.iter().find(|(simple, _)| ty.is(*simple)).map(|&(_, kind)| kind)
}

/// As [`promoted`]; up to 1.4 only where all types are one and numbers do not raise it.
fn settled(call: &Call<'_>, from: usize) -> Option<DType> {
    let result = promoted(call, from)?;
    let one = || call.tensors().is_some_and(|all| all.iter().skip(from).all(|tensor| tensor.dtype == Some(result)));
    (call.era() == Era::V2 || one()).then_some(result)
}

/// Integers are divided into floats from 1.6 on, unless they are rounded.
fn divided(call: &Call<'_>) -> Option<DType> {
    let result = promoted(call, 0)?;
    let rounded = match call.operand("rounding_mode") {
        None => Some(false),
        Some(value) if call.is_none(value) => Some(false),
        Some(value) => call.graph.constant(value).map(|_| true),
    };
    match rounded {
        _ if !result.is_integral() || call.graph.release() < Release(1, 6) => Some(result),
        Some(true) => Some(result),
        Some(false) => Some(to_real_arithmetic(result)),
        None => None,
    }
}

/// The type of numbers that a factory is given; earlier releases make floats of all of them, see `release_rules.rs`.
fn of_given(call: &Call<'_>) -> Option<DType> {
    let given = ["fill_value", "start", "end", "step"].iter().filter_map(|name| call.operand(name));
    let kinds: Option<Vec<Kind>> = given.map(|value| kind(call, value)).collect();
    Some(of_number(kinds?.into_iter().max()?, DType::Float))
}
