//! Rules about tensors: views that undo each other, properties that the type determines,
//! identities.

use super::facts::Number;
use super::{Edit, Facts, Known, New, Rule, forward, result};
use jitopt_core::ir::{Attribute, Node, Value};
use jitopt_core::types::era::Era;
use jitopt_core::types::release::Release;
use jitopt_core::types::{DType, Dim, Simple, Type};

/// Convolutions of batches, with the ranks of their results.
const CONVOLUTIONS: [(&str, i64); 3] = [("aten::conv1d", 3), ("aten::conv2d", 4), ("aten::conv3d", 5)];

/// The rules.
pub const RULES: &[Rule] = &[
    // Views, and operators that return their operand itself.
    Rule::new("t-of-t", &["aten::t"], "(xᵀ)ᵀ = x", |facts, node| {
        let [inner] = facts.operands(node)?;
        forward(facts.operand(facts.made_by(inner, "aten::t")?, 0)?)
    }),
    Rule::new(
        "transpose-of-transpose",
        &["aten::transpose"],
        "swapping the same dimensions twice changes nothing",
        |facts, node| {
            let [outer, a, b] = facts.operands(node)?;
            let [x, c, d] = facts.operands(facts.made_by(outer, "aten::transpose")?)?;
            let (a, b, c, d) = (facts.int(a)?, facts.int(b)?, facts.int(c)?, facts.int(d)?);
            ((a, b) == (c, d) || (a, b) == (d, c)).then(|| forward(x))?
        },
    )
    .known(Known::Nowhere),
    Rule::new("expand-to-own-size", &["aten::expand"], "expand(x, size of x) = x", |facts, node| {
        let (x, size) = (facts.operand(node, 0)?, facts.operand(node, 1)?);
        (facts.sizes(x)? == numbers(facts, size)?).then(|| forward(x))?
    })
    .shapes(),
    Rule::new(
        "type-as-own",
        &["aten::type_as"],
        "type_as(x, y) = x, when element types and devices are equal",
        |facts, node| {
            let [x, y] = facts.operands(node)?;
            let same_dtype = facts.dtype(x)? == facts.dtype(y)?;
            (same_dtype && facts.device(x)? == facts.device(y)?).then(|| forward(x))?
        },
    )
    .shapes(),
    Rule::new("dropout-off", &["aten::dropout"], "dropout(x, p, train=false) = x", |facts, node| {
        let [x, _, train] = facts.operands(node)?;
        (!facts.bool(train)?).then(|| forward(x))?
    })
    .known(Known::Nowhere),
    // Gradients.
    Rule::new("sum-to-none", &["aten::_grad_sum_to_size"], "sum_to(x, None) = x", |facts, node| {
        let [x, size] = facts.operands(node)?;
        facts.is_none(size).then(|| forward(x))?
    }),
    Rule::new(
        "sum-to-of-sum-to",
        &["aten::_grad_sum_to_size"],
        "sum_to(sum_to(x, s), t) = sum_to(x, t), when t is not None, the inner sum has no other reader and x is not written to",
        |facts, node| {
            let [inner, size] = facts.operands(node)?;
            let [x, _] = facts.operands(facts.made_by(inner, "aten::_grad_sum_to_size")?)?;
            // Where sizes are equal the sum is its operand itself, and another reader of the inner
            // sum shares memory with it.
            let alone = facts.trusting || facts.graph.single_use(inner).is_some();
            let quiet = alone && !facts.is_written(x) && !facts.is_written(inner);
            let given = facts.ty(size) == Type::list(Type::int());
            (quiet && given).then(|| Edit::Operands(vec![(0, New::Value(x))]))
        },
    ),
    // Scalars that were converted to tensors and back.
    Rule::new(
        "number-of-tensor-of-number",
        // Up to 1.1 the first two are operators of `prim`.
        &[
            "prim::Int",
            "prim::Float",
            "aten::Int",
            "aten::Float",
            "aten::IntImplicit",
            "aten::FloatImplicit",
            "aten::ScalarImplicit",
        ],
        "number(tensor(n)) = n, when it is a number of that type and the tensor is not written to",
        |facts, node| {
            let [tensor] = facts.operands(node)?;
            let [n] = facts.operands(facts.made_by(tensor, "prim::NumToTensor")?)?;
            let same = facts.ty(n).is_subtype_of(facts.output_type(node)?);
            (same && !facts.is_written(tensor)).then(|| forward(n))?
        },
    ),
    // Properties that the type determines.
    Rule::new("size-known", &["aten::size"], "size(x) = [2, 3] for x : Float(2, 3)", |facts, node| {
        let [x] = facts.operands(node)?;
        let (sizes, output) = (facts.sizes(x)?, facts.graph.single_output(node)?);
        if facts.is_written(output) {
            return None;
        }
        // Each call returns a list of its own; a constant is one list for all of them.
        let shared = facts.trusting || !facts.escapes(output);
        let constant = || Attribute::List(sizes.iter().map(|&n| Attribute::Int(n)).collect());
        result(match shared {
            true if !sizes.is_empty() => New::Constant(Some(constant()), Type::list(Type::int())),
            _ => New::Numbers(sizes.clone()),
        })
    })
    .shapes(),
    Rule::new("size-of-dimension-known", &["aten::size"], "size(x, 1) = 3 for x : Float(*, 3)", |facts, node| {
        let [x, dim] = facts.operands(node)?;
        let sizes = facts.tensor(x)?.sizes.as_ref()?;
        let dim = wrapped(facts.int(dim)?, sizes.len())?;
        match sizes[dim] {
            Dim::Known(n) => result(New::int(n)),
            _ => None,
        }
    })
    .shapes()
    .known(Known::Since(1, 6)),
    Rule::new("rank-known", &["aten::dim"], "dim(x) = 2 for x : Float(*, *)", |facts, node| {
        let [x] = facts.operands(node)?;
        result(New::int(facts.tensor(x)?.rank()? as i64))
    })
    .shapes(),
    Rule::new(
        "rank-of-convolution",
        &["aten::dim"],
        "dim(conv2d(x, w)) = 4 from 1.8 to 1.10, as later releases also take images without a batch",
        |facts, node| {
            let [y] = facts.operands(node)?;
            let (_, rank) = CONVOLUTIONS.iter().find(|(kind, _)| facts.made_by(y, kind).is_some())?;
            let has_batch = facts.graph.release() <= Release(1, 10) || facts.trusting;
            (has_batch && !facts.is_written(y)).then(|| result(New::int(*rank)))?
        },
    )
    .known(Known::Since(1, 8)),
    Rule::new(
        "length-of-size-known",
        &["aten::len"],
        "len(size(x)) = 2 for x : Float(*, *), when the list is not written to",
        |facts, node| {
            let [size] = facts.operands(node)?;
            let [x] = facts.operands(facts.made_by(size, "aten::size")?)?;
            (!facts.is_written(size)).then(|| result(New::int(facts.tensor(x)?.rank()? as i64)))?
        },
    )
    .shapes()
    .known(Known::Since(1, 6)),
    Rule::new("dtype-known", &["prim::dtype"], "dtype(x) = 6 for x : Float(*)", |facts, node| {
        let [x] = facts.operands(node)?;
        result(New::int(facts.dtype(x)?.code()?))
    })
    .shapes(),
    Rule::new("device-known", &["prim::device"], "device(x) = cpu for x : Float(2, device=cpu)", |facts, node| {
        let [x] = facts.operands(node)?;
        result(New::device(facts.device(x)?))
    })
    .shapes(),
    Rule::new("is-cuda-known", &["prim::is_cuda"], "is_cuda(x) = false for x : Float(2, device=cpu)", |facts, node| {
        let [x] = facts.operands(node)?;
        result(New::bool(facts.device(x)?.starts_with("cuda")))
    })
    .shapes(),
    Rule::new(
        "is-floating-point-known",
        &["aten::is_floating_point"],
        "is_floating_point(x) = true for x : Float(*)",
        |facts, node| {
            let [x] = facts.operands(node)?;
            result(New::bool(facts.dtype(x)?.is_float()))
        },
    )
    .shapes()
    .known(Known::Since(1, 6)),
    Rule::new("is-complex-known", &["aten::is_complex"], "is_complex(x) = false for x : Float(*)", |facts, node| {
        let [x] = facts.operands(node)?;
        result(New::bool(facts.dtype(x)?.is_complex()))
    })
    .shapes()
    .known(Known::Since(1, 9)),
    // Identities. The constant must not change the element type; a complex product with 1 + 0i
    // makes NaN of infinities.
    Rule::new(
        "mul-one",
        &["aten::mul"],
        "x · 1 = x, for numbers that are not complex, of the element type of x · 1",
        |facts, node| {
            let [x, one] = facts.operands(node)?;
            let one = facts.number(one).filter(|one| one.is_one())?;
            keeps_dtype(facts, node, x, one).then(|| forward(x))?
        },
    )
    .group("identities")
    .shares(),
    Rule::new("div-one", &["aten::div"], "x / 1 = x, for floating point x", |facts, node| {
        let [x, one] = facts.operands(node)?;
        let one = facts.number(one).filter(|one| one.is_one())?;
        let real = match facts.dtype(x) {
            Some(dtype) => dtype.is_float(),
            None => facts.trusting && facts.graph.era == Era::V1_3,
        };
        (facts.tensor(x).is_some() && real && keeps_dtype(facts, node, x, one)).then(|| forward(x))?
    })
    .group("identities")
    .shares(),
    Rule::new("add-zero", &["aten::add"], "x + 0 = x, unless x may be -0.0 and the zero is not", |facts, node| {
        let [x, zero, alpha] = facts.operands(node)?;
        let (zero, alpha) = (facts.number(zero).filter(|zero| zero.is_zero())?, facts.number(alpha)?);
        let whole = facts.dtype(x).is_some_and(DType::is_integral);
        let signed = facts.trusting || whole || zero.is_negative_zero();
        (alpha.is_one() && signed && keeps_dtype(facts, node, x, zero)).then(|| forward(x))?
    })
    .group("identities")
    .shares(),
    Rule::new("sub-zero", &["aten::sub"], "x - 0 = x, for a zero that is not -0.0", |facts, node| {
        let [x, zero, alpha] = facts.operands(node)?;
        let (zero, alpha) = (facts.number(zero).filter(|zero| zero.is_zero())?, facts.number(alpha)?);
        let signed = facts.trusting || !zero.is_negative_zero();
        (alpha.is_one() && signed && keeps_dtype(facts, node, x, zero)).then(|| forward(x))?
    })
    .group("identities")
    .shares(),
    Rule::new("pow-one", &["aten::pow"], "x¹ = x, of the element type of x¹", |facts, node| {
        let [x, one] = facts.operands(node)?;
        let one = facts.number(one).filter(|one| one.is_one())?;
        (facts.dtype(x).is_some_and(|dtype| dtype.is_float()) && keeps_dtype(facts, node, x, one))
            .then(|| forward(x))?
    })
    .group("identities")
    .shares()
    .known(Known::Nowhere),
    Rule::new("neg-of-neg", &["aten::neg"], "-(-x) = x", |facts, node| twice(facts, node, "aten::neg"))
        .group("identities")
        .shares()
        .known(Known::Nowhere),
    Rule::new("relu-of-relu", &["aten::relu"], "relu(relu(x)) = relu(x)", |facts, node| {
        let [inner] = facts.operands(node)?;
        facts.made_by(inner, "aten::relu").and_then(|_| forward(inner))
    })
    .group("identities")
    .shares()
    .known(Known::Nowhere),
];

/// The operand of two successive applications of an operator, when the value between is not written
/// to.
fn twice(facts: &Facts<'_>, node: Node, kind: &str) -> Option<Edit> {
    let [inner] = facts.operands(node)?;
    let [x] = facts.operands(facts.made_by(inner, kind)?)?;
    (facts.tensor(x).is_some() && !facts.is_written(inner)).then(|| forward(x))?
}

/// Whether a tensor combined with a scalar has the element type of the tensor, and is not complex.
/// 1.3 has practically no complex tensors.
fn keeps_dtype(facts: &Facts<'_>, node: Node, x: Value, number: Number) -> bool {
    let Some(tensor) = facts.tensor(x) else { return false };
    let old = facts.graph.era == Era::V1_3;
    match (tensor.dtype, number) {
        (Some(dtype), Number::Float(_)) => dtype.is_float(),
        (Some(dtype), Number::Int(_)) => {
            let bools = dtype == DType::Bool;
            dtype.arithmetic().is_some() && !dtype.is_complex() && !bools
        }
        (None, Number::Int(_)) => facts.trusting || old && facts.is_never_bool(node, x),
        (None, Number::Float(_)) => facts.trusting && old,
    }
}

/// The values of a constant list of integers.
fn numbers(facts: &Facts<'_>, list: Value) -> Option<Vec<i64>> {
    match facts.graph.constant(list)?? {
        Attribute::List(parts) if !facts.is(list, Simple::Any) => parts.iter().map(Attribute::as_int).collect(),
        _ => None,
    }
}

/// A position counted from either end.
pub(super) fn wrapped(i: i64, len: usize) -> Option<usize> {
    let i = if i < 0 { i.checked_add(len as i64)? } else { i };
    usize::try_from(i).ok().filter(|&i| i < len)
}
