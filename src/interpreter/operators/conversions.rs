//! Element type, device and layout of tensors, and queries about them.

use super::pointwise::self_of;
use super::views::formatted;
use crate::interpreter::call::{Answer, Call, Row, one};
use crate::interpreter::ivalue::IValue;
use crate::interpreter::stop::Stop;
use crate::tensor::promotion::{Promotion, join};
use crate::tensor::{DType, Device, Precision, Tensor};

/// The kernel table.
pub(crate) const ROWS: &[Row] = &[
    ("aten::to", to),
    ("aten::_to_copy", |call| {
        let x = self_of(call)?;
        let dtype = call.opt_dtype("dtype")?.unwrap_or(x.dtype());
        let copy = x.converted(dtype, call.precision());
        one(call.opt_device("device").map_or(copy.clone(), |device| copy.on(device)))
    }),
    ("aten::type_as", |call| {
        let (x, other) = (self_of(call)?, call.tensor("other")?);
        one(as_type(call, &x, other.dtype(), Some(other.device()), false))
    }),
    ("aten::_cast_Byte", |call| cast(call, DType::Byte)),
    ("aten::_cast_Char", |call| cast(call, DType::Char)),
    ("aten::_cast_Short", |call| cast(call, DType::Short)),
    ("aten::_cast_Int", |call| cast(call, DType::Int)),
    ("aten::_cast_Long", |call| cast(call, DType::Long)),
    ("aten::_cast_Half", |call| cast(call, DType::Half)),
    ("aten::_cast_Float", |call| cast(call, DType::Float)),
    ("aten::_cast_Double", |call| cast(call, DType::Double)),
    ("aten::_autocast_to_full_precision", |call| {
        autocast(call, |dtype| matches!(dtype, DType::Half | DType::BFloat16), Ok(DType::Float))
    }),
    ("aten::_autocast_to_reduced_precision", |call| {
        autocast(
            call,
            |dtype| dtype == DType::Float,
            call.opt_dtype("cpu_dtype").map(|dtype| dtype.unwrap_or(DType::BFloat16)),
        )
    }),
    ("aten::cpu", |call| one(self_of(call)?.on(Device::cpu()))),
    ("aten::cuda", |call| one(self_of(call)?.on(Device::new("cuda:0")))),
    ("prim::data", |call| one(self_of(call)?.alias())),
    ("aten::pin_memory", first),
    ("aten::item", item),
    ("aten::_local_scalar_dense", item),
    ("prim::dtype", |call| one(self_of(call)?.dtype())),
    ("prim::device", |call| Ok(smallvec::smallvec![IValue::Device(self_of(call)?.device())])),
    ("aten::device", |call| Ok(smallvec::smallvec![IValue::Device(self_of(call)?.device())])),
    // Strided is 0.
    ("prim::layout", |_| one(0i64)),
    ("aten::layout", |_| one(0i64)),
    ("prim::is_cuda", |call| on_kind(call, "cuda")),
    ("prim::is_cpu", |call| on_kind(call, "cpu")),
    ("prim::is_mps", |call| on_kind(call, "mps")),
    ("prim::is_meta", |call| on_kind(call, "meta")),
    ("prim::is_xpu", |call| on_kind(call, "xpu")),
    ("prim::is_sparse", |_| one(false)),
    ("prim::is_sparse_csr", |_| one(false)),
    ("prim::is_mkldnn", |_| one(false)),
    ("prim::is_quantized", |call| one(self_of(call)?.dtype().is_quantized())),
    ("prim::is_nested", |_| one(false)),
    ("aten::is_cuda", |call| on_kind(call, "cuda")),
    ("aten::get_device", |call| one(self_of(call)?.device().index().unwrap_or(-1))),
    ("prim::requires_grad", |call| one(self_of(call)?.requires_grad())),
    ("aten::requires_grad_", |call| {
        let x = self_of(call)?;
        x.set_requires_grad(call.args.get(1).and_then(IValue::scalar).is_none_or(|yes| yes.truth()));
        one(x)
    }),
    ("aten::is_leaf", |_| one(true)),
    ("aten::is_floating_point", |call| one(self_of(call)?.dtype().is_float())),
    ("aten::is_complex", |call| one(self_of(call)?.dtype().is_complex())),
    ("aten::is_signed", |call| one(!matches!(self_of(call)?.dtype(), DType::Byte | DType::Bool))),
    ("aten::is_conj", |_| one(false)),
    ("aten::is_neg", |_| one(false)),
    ("aten::is_inference", |_| one(false)),
    ("aten::is_nonzero", |call| one(single(&self_of(call)?)?.item().truth())),
    ("aten::element_size", |call| one(self_of(call)?.dtype().size())),
    ("prim::itemsize", |call| one(self_of(call)?.dtype().size())),
    ("prim::nbytes", |call| {
        let x = self_of(call)?;
        one(x.numel() * x.dtype().size())
    }),
    ("prim::name", |_| one(IValue::None)),
    ("prim::grad", |_| Ok(smallvec::smallvec![IValue::Undefined])),
    ("aten::result_type", result_type),
    ("aten::promote_types", |call| {
        let (a, b) = (call.opt_dtype("type1")?, call.opt_dtype("type2")?);
        one(a.zip(b).map(|(a, b)| join(a, b)).map_or(IValue::None, IValue::from))
    }),
    ("aten::can_cast", |call| {
        let (from, to) = (call.opt_dtype("from")?, call.opt_dtype("to")?);
        let can = |(from, to)| crate::interpreter::library::can_cast(from, to);
        one(from.or(call.opt_dtype("from_")?).zip(to).is_some_and(can))
    }),
];

fn first(call: &Call<'_>) -> Answer {
    one(call.arg(0)?.clone())
}

/// Casts that autocast makes on the CPU, of the element types that `casts` names.
fn autocast(call: &Call<'_>, casts: impl Fn(DType) -> bool, to: Result<DType, Stop>) -> Answer {
    let x = self_of(call)?;
    let enabled = call.look("cpu_enabled").is_some() && call.bool("cpu_enabled")?;
    match enabled && x.device() == Device::cpu() && casts(x.dtype()) {
        true => one(as_type(call, &x, to?, None, false)),
        false => first(call),
    }
}

/// The tensor itself if nothing changes and no copy is requested.
fn as_type(call: &Call<'_>, x: &Tensor, dtype: DType, device: Option<Device>, copy: bool) -> Tensor {
    let device = device.map_or(x.device(), Device::placed);
    if dtype == x.dtype() && device == x.device() && !copy {
        return x.clone();
    }
    rounded(x, dtype).converted(dtype, call.precision()).on(device)
}

/// A conversion to 16 bits rounds even in the double-precision reference, as the program requests
/// it.
fn rounded(x: &Tensor, dtype: DType) -> Tensor {
    match dtype {
        DType::Half | DType::BFloat16 => x.converted(dtype, Precision::Typed),
        _ => x.clone(),
    }
}

fn cast(call: &Call<'_>, dtype: DType) -> Answer {
    one(as_type(call, &self_of(call)?, dtype, None, false))
}

fn to(call: &Call<'_>) -> Answer {
    let x = self_of(call)?;
    let other = call.look("other").and_then(IValue::tensor);
    let dtype = call.opt_dtype("dtype")?.or(other.map(Tensor::dtype)).unwrap_or(x.dtype());
    let device = call.opt_device("device").or(other.map(Tensor::device));
    one(formatted(call, as_type(call, &x, dtype, device, call.bool("copy")?))?)
}

fn single(x: &Tensor) -> Result<&Tensor, Stop> {
    match x.numel() {
        1 => Ok(x),
        n => Err(Stop::raised(format!("a Tensor with {n} elements cannot be converted to Scalar"))),
    }
}

fn item(call: &Call<'_>) -> Answer {
    let x = self_of(call)?;
    match x.quantizer() {
        Some(quantizer) => one(quantizer.dequantize(&[single(&x)?.item().int()], x.shape())[0]),
        None => one(single(&x)?.item()),
    }
}

fn on_kind(call: &Call<'_>, kind: &str) -> Answer {
    one(self_of(call)?.device().kind() == kind)
}

fn result_type(call: &Call<'_>) -> Answer {
    let count = |promotion: Promotion, value: &IValue| match (value, value.scalar()) {
        (IValue::Tensor(tensor), _) => promotion.tensor(tensor),
        (_, Some(scalar)) => promotion.scalar(scalar),
        _ => promotion,
    };
    one(call.args.iter().fold(Promotion::default(), count).result())
}
