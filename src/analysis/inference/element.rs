//! Element types of results.

use super::Call;
use crate::ir::Value;
use crate::ops::release_rules::{Does, OperandTypes, element_type_rule, release_rows};
use crate::ops::shape_rules::{Element, Shape};
use crate::symbol::prim;
use crate::tensor::dtype::Kind;
use crate::tensor::promotion::{Promotion, of_number, stands_for_number, to_float_arithmetic};
use crate::types::era::Era;
use crate::types::release::Release;
use crate::types::{DType, Dim, Simple, TensorType, Type, TypeKind};

/// Formal parameters that are scalars and take part in promotion; `alpha` does not.
const NUMBERS: &[&str] = &["self", "other", "exponent", "min", "max"];

/// The element type of result `i`: the requested one, otherwise the inferred one.
pub(super) fn of(call: &Call<'_>, i: usize) -> Option<DType> {
    match call.operand("dtype") {
        Some(value) if !call.is_none(value) && call.row.element == Element::Parts => {
            named_by(call, value).map(DType::to_real)
        }
        Some(value) if !call.is_none(value) => named_by(call, value),
        _ => {
            let usual = || match call.row.element {
                Element::Each(all) => following(call, *all.get(i)?, i),
                one => following(call, one, i),
            };
            match release_rule(call) {
                None | Some(Does::Computes(_)) => usual(),
                // An operator that raises an exception has no result.
                Some(Does::Raises | Does::RaisesUntyped) => None,
                Some(Does::Keeps(_)) => call.first()?.dtype,
                Some(Does::MakesFloats) => Some(DType::Float),
            }
        }
    }
}

/// The behaviour of the graph's release on operands of these types, where that decides the element
/// type.
fn release_rule(call: &Call<'_>) -> Option<Does> {
    let kind = call.schema.kind;
    if release_rows(kind).is_empty() {
        return None;
    }
    let tensors = call.tensors()?.iter().map(|tensor| tensor.dtype).collect::<Option<Vec<DType>>>()?;
    let types = OperandTypes { tensors, float_number: float_number(call) };
    element_type_rule(kind, &types, call.graph.release())
}

/// Whether a scalar operand is floating point, as far as types tell.
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

/// The element type that a dtype operand names: a constant, or the dtype of a tensor; PyTorch reads
/// constants only.
fn named_by(call: &Call<'_>, value: Value) -> Option<DType> {
    if let Some(code) = call.graph.constant_int(value) {
        return DType::from_code(code);
    }
    let definer = call.graph.definer(value).filter(|_| call.known.sees_into_lists())?;
    let is_dtype = call.graph.kind(definer).as_str() == "prim::dtype";
    is_dtype.then(|| call.known.ty(call.graph.input(definer, 0)).as_tensor()?.dtype)?
}

fn following(call: &Call<'_>, element: Element, i: usize) -> Option<DType> {
    let is_known = |dtype: &DType| dtype.arithmetic().is_some() || dtype.is_quantized();
    let first = || call.first()?.dtype.filter(is_known);
    match element {
        Element::Same => first(),
        Element::Each(_) => None,
        Element::Of(name) => call.tensor(name)?.dtype,
        Element::Fixed(dtype) => Some(dtype),
        Element::RealParts => first().map(|dtype| to_float_arithmetic(dtype).to_real()),
        Element::Distance => settled(call, 0).map(|dtype| to_float_arithmetic(dtype.to_real())),
        Element::OfInput => of_softmax_input(call, first()?),
        Element::OfTarget => of_target(call),
        Element::Integrated => match call.operand("dim").and_then(|_| integrated_size(call))? {
            0 => first(),
            _ => following(call, Element::Angle, i),
        },
        Element::SummedTo => summed_to(call, first()?),
        Element::FullPrecision => autocast(call, first()?, DType::is_short_float, || Some(DType::Float)),
        Element::ReducedPrecision => {
            autocast(call, first()?, |dtype| dtype == DType::Float, || DType::from_code(call.int(&["cpu_dtype"])?))
        }
        Element::OfWeights => of_weights(call),
        Element::OfData => of_data(call),
        Element::PackedWeight => super::packed_shapes::weight(call)?.dtype,
        Element::Stored => {
            call.first()?.dtype.map(|dtype| QUANTISED.iter().find(|row| row.0 == dtype).map_or(dtype, |row| row.1))
        }
        Element::OfQuantizer => None,
        Element::Quantised => QUANTISED.iter().find(|row| Some(row.1) == first()).map(|row| row.0),
        Element::OfParameter => of_parameter(call),
        Element::Widened => first().zip(call.flag("half_to_float")).map(|(dtype, widened)| match widened {
            true if dtype == DType::Half => DType::Float,
            _ => dtype,
        }),
        Element::Power => {
            promoted(call, 0).map(|dtype| if dtype.is_complex() { DType::ComplexDouble } else { DType::Double })
        }
        Element::Statistics => statistics(call),
        Element::Common => call.tensors()?.iter().find_map(|tensor| tensor.dtype),
        Element::Real => first().map(to_float_arithmetic),
        Element::Complex => first().filter(|dtype| dtype.is_float()).map(DType::to_complex),
        Element::Parts => first().map(DType::to_real),
        Element::Promoted => promoted(call, 0),
        // The distance of complex numbers is a float.
        Element::Settled if call.row.shape == Shape::Scalar => settled(call, 0).map(DType::to_real),
        Element::Settled => settled(call, 0),
        Element::SettledFloat => settled(call, 0).map(to_float_arithmetic),
        Element::Chosen => settled(call, 1),
        Element::Divided => divided(call),
        Element::Angle => of_angle(call),
        Element::Summed => first().map(|dtype| if dtype.is_integral() { DType::Long } else { dtype }),
        Element::Squared => first().map(|dtype| if dtype == DType::Bool { DType::Long } else { dtype }),
        Element::Bool => Some(DType::Bool),
        Element::Flag => first().map(|dtype| if dtype == DType::Byte { dtype } else { DType::Bool }),
        Element::Long => Some(DType::Long),
        Element::Places => call.flag("out_int32").map(|narrow| if narrow { DType::Int } else { DType::Long }),
        Element::WithIndex if i == 0 => first(),
        Element::WithIndex => Some(DType::Long),
        Element::Second => call.tensors()?.get(1)?.dtype,
        Element::Named => named_by_cast(call),
        Element::Default => Some(DType::Float),
        Element::OfNumber => of_given(call),
        Element::OfWideNumber => Some(of_number(kind(call, call.operand("a")?)?, DType::Double)),
    }
}

/// The gradient of a softmax that converted halves to floats has halves.
fn of_softmax_input(call: &Call<'_>, first: DType) -> Option<DType> {
    let input = match call.operand("input_dtype") {
        Some(_) => DType::from_code(call.int(&["input_dtype"])?)?,
        None => call.tensor("self")?.dtype?,
    };
    Some(if input == DType::Half && first == DType::Float { input } else { first })
}

fn of_target(call: &Call<'_>) -> Option<DType> {
    match call.tensor("target")?.dtype {
        Some(dtype) if dtype.is_float() => Some(dtype),
        dtype => dtype.and_then(|_| settled(call, 0)),
    }
}

/// A sum to the sizes of its operand returns the operand, others of integers return Long.
fn summed_to(call: &Call<'_>, first: DType) -> Option<DType> {
    if !first.is_integral() || first == DType::Long {
        return Some(first);
    }
    let sizes = call.first()?.sizes.as_deref()?;
    let is_kept = call.ints(&["size"])? == sizes.iter().map(|dim| super::number(*dim)).collect::<Vec<_>>();
    Some(if is_kept { first } else { DType::Long })
}

fn of_weights(call: &Call<'_>) -> Option<DType> {
    let Some(weights) = call.operand("weights").filter(|&weights| !call.is_none(weights)) else {
        return Some(DType::Long);
    };
    let dtype = call.tensor_of(weights)?.dtype?;
    Some(if dtype == DType::Float { dtype } else { DType::Double })
}

fn of_parameter(call: &Call<'_>) -> Option<DType> {
    match call.operand("weight").filter(|&weight| !call.is_none(weight)) {
        Some(weight) => call.tensor_of(weight)?.dtype,
        None => call.tensor("input")?.dtype,
    }
}

/// The element type in the name of `_cast_Double` and similar operators.
fn named_by_cast(call: &Call<'_>) -> Option<DType> {
    let named = call.schema.kind.short().strip_prefix("_cast_")?;
    DType::ALL.iter().copied().find(|dtype| dtype.name() == named)
}

/// Floating point; 1.3 had no result for integers.
fn of_angle(call: &Call<'_>) -> Option<DType> {
    let result = promoted(call, 0)?;
    (call.era() == Era::V2 || !result.is_integral()).then(|| to_float_arithmetic(result))
}

/// Quantised element types, and the integer types that represent them.
const QUANTISED: &[(DType, DType)] =
    &[(DType::QUInt8, DType::Byte), (DType::QInt8, DType::Char), (DType::QInt32, DType::Int)];

/// The size of the dimension that is integrated.
fn integrated_size(call: &Call<'_>) -> Option<i64> {
    let sizes = call.first()?.sizes.as_deref()?;
    super::number(*sizes.get(super::place(call.int(&["dim"])?, sizes.len())?)?)
}

/// Autocast: another element type, for operators that `cast`, where autocasting is enabled on the
/// CPU.
fn autocast(
    call: &Call<'_>,
    dtype: DType,
    cast: impl Fn(DType) -> bool,
    to: impl Fn() -> Option<DType>,
) -> Option<DType> {
    let enabled = call.operand("cpu_enabled").map_or(Some(false), |_| call.flag("cpu_enabled"));
    match enabled {
        Some(true) if cast(dtype) => to(),
        None if cast(dtype) => None,
        _ => Some(dtype),
    }
}

/// The element type of a scalar, of nested lists, or of a tensor.
fn of_data(call: &Call<'_>) -> Option<DType> {
    let value = call.operand("t").or_else(|| call.operand("data"))?;
    let mut ty = call.known.ty(value);
    // Up to 1.4 a scalar gives a double. A list of floats has the default type, and so has an empty
    // one, whatever its type.
    let is_list = matches!(ty.kind(), TypeKind::List(_));
    let is_empty = || Some(super::creating::data(call)?.sizes?.contains(&Dim::Known(0)));
    let is_old = call.era() == Era::V1_3;
    if is_list && is_empty()? {
        return Some(DType::Float);
    }
    while let TypeKind::List(inner) = ty.kind() {
        ty = *inner;
    }
    match ty.as_tensor() {
        Some(tensor) if call.known.ty(value).is_tensor() => tensor.dtype,
        _ => Some(of_number(kind_of(ty)?, if is_old && !is_list { DType::Double } else { DType::Float })),
    }
}

/// Statistics of a norm have the type of the input; for halves with a float weight they are floats.
fn statistics(call: &Call<'_>) -> Option<DType> {
    let input = call.first()?.dtype?;
    // Outside of training nothing is saved, in a vector of the type of the input.
    let is_batch = call.schema.formal("running_mean").is_some();
    let trained = if call.schema.formal("training").is_some() { call.flag("training") } else { Some(false) };
    match trained {
        Some(true) => {}
        _ if !is_batch => {}
        Some(false) => return Some(input),
        None if matches!(input, DType::Half | DType::BFloat16) => return None,
        None => return Some(input),
    }
    let weights = ["weight", "bias", "running_mean"].into_iter().filter_map(|name| call.operand(name));
    let mut given = weights.filter(|&value| !call.is_none(value));
    match (matches!(input, DType::Half | DType::BFloat16), given.next()) {
        (true, Some(weight)) => call.tensor_of(weight)?.dtype,
        _ => Some(input),
    }
}

/// `cat` promotes in the same way as arithmetic; up to 1.4 it accepts tensors of one type only.
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
    Some(promotion.result())
}

/// See [`stands_for_number`].
fn is_traced_number(call: &Call<'_>, value: Value) -> bool {
    let is_constant = call.graph.definer(value).is_some_and(|node| call.graph.kind(node) == prim::CONSTANT);
    is_constant && call.tensor_of(value).and_then(TensorType::rank) == Some(0)
}

fn arithmetic(tensor: &TensorType) -> Option<DType> {
    tensor.dtype.filter(|dtype| dtype.arithmetic().is_some())
}

/// Whether it has dimensions, where that matters: among tensors of one type it does not.
fn has_dimensions(tensor: &TensorType, all: &[&TensorType]) -> Option<bool> {
    let one = all.iter().all(|other| other.dtype == tensor.dtype);
    tensor.rank().map(|rank| rank > 0).or(one.then_some(true))
}

/// The kinds of the scalars that take part; none for an unknown kind.
fn numbers(call: &Call<'_>) -> Vec<Option<Kind>> {
    let operands = NUMBERS.iter().filter_map(|name| call.operand(name));
    operands
        .filter(|&value| !call.known.ty(value).is_tensor() && !call.is_none(value))
        .map(|value| kind(call, value))
        .collect()
}

fn kind(call: &Call<'_>, value: Value) -> Option<Kind> {
    kind_of(call.known.ty(value))
}

fn kind_of(ty: Type) -> Option<Kind> {
    let kinds = [
        (Simple::Bool, Kind::Bool),
        (Simple::Int, Kind::Int),
        (Simple::Float, Kind::Float),
        (Simple::Complex, Kind::Complex),
    ];
    kinds.iter().find(|(simple, _)| ty.is(*simple)).map(|&(_, kind)| kind)
}

/// As [`promoted`]; up to 1.4 only where all types are equal and scalars do not widen them.
fn settled(call: &Call<'_>, from: usize) -> Option<DType> {
    let result = promoted(call, from)?;
    let one = || call.tensors().is_some_and(|all| all.iter().skip(from).all(|tensor| tensor.dtype == Some(result)));
    (call.era() == Era::V2 || one()).then_some(result)
}

/// Division of integers gives floats from 1.6 on, unless it is rounded.
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
        Some(false) => Some(to_float_arithmetic(result)),
        None => None,
    }
}

/// The type of scalars that a factory receives; earlier releases convert all of them to floats, see
/// `release_rules.rs`.
fn of_given(call: &Call<'_>) -> Option<DType> {
    let given = ["fill_value", "start", "end", "step"].iter().filter_map(|name| call.operand(name));
    let kinds: Option<Vec<Kind>> = given.map(|value| kind(call, value)).collect();
    Some(of_number(kinds?.into_iter().max()?, DType::Float))
}
