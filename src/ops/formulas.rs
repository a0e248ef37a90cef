//! Formulas of elementwise operators: the computation of one element, a column of the operator
//! table.
//!
//! A [`Formula`] is a C expression over the operands `a` to `f` of the node, converted to the type
//! of the computation. Functions are those of the vector mathematics in `codegen/prelude.c`; their
//! names, and literals with a point, get the suffix of the type. CUDA compiles the same
//! expressions.
//!
//! The semantics are those of PyTorch's eager kernels, as in the interpreter, not those of its old
//! fuser, which rounds halves away from zero, drops NaN in `min` and `max`, and takes remainders in
//! single precision. Operands that may raise an exception for some element (integers divided by
//! zero) are checked before a launch ([`When::Divides`]), and an element type that an operator
//! refuses has no formula: the group then runs on the interpreter, which reports it in PyTorch's
//! words.
//!
//! A builder of expression trees would need more words for the same formulas, and kernels would not
//! show one statement for each IR line.

use crate::symbol::Symbol;
use crate::tensor::DType;
use rustc_hash::FxHashMap;
use std::sync::LazyLock;

/// The type of the computation of a formula, and the type of its result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Typing {
    /// The common type of the first `n` operands.
    Promoted(usize),
    /// The same, but at least a floating point type.
    FloatPromoted(usize),
    /// The common type of the first two operands; the result is a bool.
    Compared,
    /// That of the first operand.
    Kept,
    /// That of the first operand, but at least a floating point type.
    Real,
    /// That of the first operand; the result is a bool.
    Predicate,
    /// The common type of the second and third operand; the first is a bool.
    Chosen,
    /// Always this one.
    Cast(DType),
    /// The one that this constant operand names.
    Named(usize),
    /// That of the second operand, which is not read otherwise.
    Like,
}

/// The condition of a row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum When {
    /// Before a release of PyTorch.
    Before(u32, u32),
    /// From a release on.
    Since(u32, u32),
    /// This operand is `None`, or missing.
    Missing(usize),
    /// This operand is a number.
    IsNumber(usize),
    /// This operand is a constant number.
    Is(usize, f64),
    /// This operand is a constant number other than this one, or missing: others raise exceptions.
    IsNot(usize, f64),
    /// This operand is a constant and finite number not less than this one, or missing: others
    /// raise exceptions.
    From(usize, f64),
    /// This operand is a constant that names a floating point, integer or bool type.
    Names(usize),
    /// This operand is a tensor.
    Tensor(usize),
    /// This operand is a constant string.
    Says(usize, &'static str),
    /// If this operand is an integer, it is known to be in the range of the element type of the
    /// first; and if that type is floating point, no constant exceeds its range. Others raise
    /// exceptions, which kernels cannot: the usual case is -1e9 with `Half`.
    Fits(usize),
    /// If this operand is a number, it is in the range of the type of the computation, which is
    /// `f32` for 16-bit floats. Others raise exceptions.
    FitsWide(usize),
    /// If this operand is a number, it is a valid factor in the type of the computation, before an
    /// addition: an integer for integers, a bool for bools alone, and in the range of the type.
    /// Others raise exceptions.
    Scales(usize),
    /// This operand is known to be a number in the range of the element type of the first, if that
    /// is an integer type. Others raise exceptions, which kernels cannot.
    Held(usize),
    /// In integer computations, this operand is a non-zero number, or an operand of the kernel,
    /// which is checked for zeros before a launch: they raise exceptions.
    Divides(usize),
    /// In integer computations, this operand, if it is a number, is not negative: negative ones
    /// raise exceptions.
    Natural(usize),
    /// The tensors among the operands so far have one element type: others raise exceptions.
    OfOneType(usize),
    /// The first operand is of another element type.
    IsNotOf(DType),
    /// The first operand has at least 32 bits.
    Wide,
    /// The first operand is a floating point tensor.
    OfFloats,
}

/// The computation of one element. An empty text means that the operator has none for that kind of
/// numbers.
#[derive(Clone, Copy, Debug)]
pub struct Formula {
    /// The operator.
    pub kind: &'static str,
    /// The conditions, all of which must hold.
    pub when: &'static [When],
    /// The types.
    pub typing: Typing,
    /// For floating point numbers.
    pub float: &'static str,
    /// For integers.
    pub integer: &'static str,
    /// For bools: a non-zero value is true.
    pub boolean: &'static str,
    /// The values of operands that are missing or `None`. An infinity is the largest, or the
    /// lowest, number of the element type.
    pub defaults: &'static [(usize, f64)],
    /// From this operand on, numbers and zero-dimensional tensors keep single precision in
    /// computations with 16-bit floats; earlier ones are rounded to 16 bits first (PyTorch 2.15).
    pub factors: usize,
    /// Whether the result is contiguous, regardless of its operands.
    pub in_a_row: bool,
}

/// Parameters next to one operand are factors by default, operands of a common type are not.
const fn factors(typing: Typing) -> usize {
    match typing {
        Kept | Real => 1,
        _ => usize::MAX,
    }
}

/// For floating point numbers only; integers are refused unless the typing makes floats of them.
const fn floats(kind: &'static str, typing: Typing, float: &'static str) -> Formula {
    Formula {
        kind,
        when: &[],
        typing,
        float,
        integer: "",
        boolean: "",
        defaults: &[],
        factors: factors(typing),
        in_a_row: false,
    }
}

/// For integers only.
const fn integers(kind: &'static str, typing: Typing, integer: &'static str) -> Formula {
    Formula { float: "", integer, ..floats(kind, typing, "") }
}

/// For numbers, not for bools.
const fn numbers(kind: &'static str, typing: Typing, text: &'static str) -> Formula {
    Formula { integer: text, ..floats(kind, typing, text) }
}

/// For all types.
const fn all(kind: &'static str, typing: Typing, text: &'static str) -> Formula {
    Formula { boolean: text, ..numbers(kind, typing, text) }
}

impl Formula {
    /// Whether it returns its operand unchanged if that already has the right type.
    pub fn only_converts(&self) -> bool {
        matches!(self.typing, Cast(_) | Named(_) | Like) && self.float == "a"
    }

    const fn in_a_row(self) -> Formula {
        Formula { in_a_row: true, ..self }
    }

    const fn when(self, when: &'static [When]) -> Formula {
        Formula { when, ..self }
    }

    const fn float(self, float: &'static str) -> Formula {
        Formula { float, ..self }
    }

    const fn integer(self, integer: &'static str) -> Formula {
        Formula { integer, ..self }
    }

    const fn boolean(self, boolean: &'static str) -> Formula {
        Formula { boolean, ..self }
    }

    const fn factors(self, factors: usize) -> Formula {
        Formula { factors, ..self }
    }

    const fn or(self, defaults: &'static [(usize, f64)]) -> Formula {
        Formula { defaults, ..self }
    }
}

use Typing::*;
use When::*;

/// The maximum of integers and of bools.
const MAX: &str = "a > b ? a : b";
const MIN: &str = "a < b ? a : b";

/// No element type, layout, device or memory is given, nor another order of dimensions; 1.5 is the
/// first release that keeps that of the operand.
const LIKE: &[When] = &[Since(1, 5), Missing(1), Missing(2), Missing(3), Missing(4), Missing(5)];
/// The same, with `torch.preserve_format` given.
const PRESERVING: &[When] = &[Since(1, 5), Missing(1), Missing(2), Missing(3), Missing(4), Is(5, 1.0)];
/// The same, before 1.5.
const IN_A_ROW: &[When] = &[Before(1, 5), Missing(1), Missing(2), Missing(3), Missing(4), Missing(5)];

/// No other device and no copy is requested; the order of dimensions is that of the operand.
const CONVERTED: &[When] = &[Names(1), Is(3, 0.0), Missing(4)];
/// The same, with `torch.preserve_format` given.
const CONVERTED_PRESERVING: &[When] = &[Names(1), Is(3, 0.0), Is(4, 1.0)];
/// The same, to the type of another tensor.
const CONVERTED_LIKE: &[When] = &[Tensor(1), Is(3, 0.0), Missing(4)];
const CONVERTED_LIKE_PRESERVING: &[When] = &[Tensor(1), Is(3, 0.0), Is(4, 1.0)];

/// `log(e^a + e^b)`: for equal infinities it is that infinity.
const LOGADDEXP: &str = "(a == b) & (a - a != 0) ? a : larger(a, b) + log1p(exp(-absolute(a - b)))";
const LOGADDEXP2: &str =
    "(a == b) & (a - a != 0) ? a : larger(a, b) + log1p(pow(2.0, -absolute(a - b))) * 1.4426950408889634";
/// NaN is tested first, then 0.
const XLOGY: &str = "b != b ? b : a == 0 ? 0 : a * log(b)";
/// NaN is ignored in the comparison: the result is the other operand. Of two zeros it is the first.
const FMAX: &str = "(a != a) | (a < b) ? b : a";
const FMIN: &str = "(a != a) | (a > b) ? b : a";
/// The gradient is 0 where the operator returns 0, and at NaN, too; the bound is a number of the
/// element type.
const SHRINK_BACKWARD: &str = "(b >= -c) & (b <= c) ? 0 : a";
/// The normal distribution up to `b`, and `b` times its density there.
const GELU_BACKWARD: &str = "a * (0.5 * erfc(-0.70710678118654752 * b) + b * (exp(-0.5 * b * b) * 0.3989422804014327))";
/// `s + b s' u'`, where `s` is the logistic function of `2u`.
const GELU_TANH_BACKWARD: &str = "a * (sigmoid(1.5957691216057308 * (b + 0.044715 * b * b * b)) \
    + b * sigmoid(1.5957691216057308 * (b + 0.044715 * b * b * b)) * (1 - sigmoid(1.5957691216057308 * (b + 0.044715 * b * b * b))) \
    * 1.5957691216057308 * (1 + 0.134145 * b * b))";

/// The rows. The first of several rows for a kind whose conditions hold applies.
const ROWS: &[Formula] = &[
    // ---- arithmetic
    all("aten::add", Promoted(2), "a + b").when(&[Missing(2)]),
    all("aten::add", Promoted(2), "a + b").when(&[Is(2, 1.0), Scales(2)]),
    // Eager mode's vector code rounds a product with `alpha` once, together with the sum.
    all("aten::add", Promoted(2), "a + b * c").float("fma(b, c, a)").when(&[Scales(2)]),
    numbers("aten::sub", Promoted(2), "a - b").when(&[Missing(2)]),
    numbers("aten::sub", Promoted(2), "a - b").when(&[Is(2, 1.0), Scales(2)]),
    numbers("aten::sub", Promoted(2), "a - b * c").float("fma(b, -c, a)").when(&[Scales(2)]),
    numbers("aten::rsub", Promoted(2), "b - a * c").float("fma(a, -c, b)").or(&[(2, 1.0)]).when(&[Scales(2)]),
    all("aten::mul", Promoted(2), "a * b").factors(1),
    floats("aten::div", Promoted(2), "a / b").factors(1).when(&[Missing(2), Before(1, 6)]),
    floats("aten::div", FloatPromoted(2), "a / b").factors(1).when(&[Missing(2)]),
    floats("aten::true_divide", FloatPromoted(2), "a / b").factors(1),
    floats("aten::div", Promoted(2), "floor_quotient(a, b)")
        .integer("quotient_down(a, b)")
        .factors(1)
        .when(&[Says(2, "floor"), Since(1, 8), Divides(1)]),
    // For 16-bit floats eager mode rounds the quotient first, unless the divisor is a number.
    floats("aten::div", Promoted(2), "trunc(a / b)").when(&[Says(2, "trunc"), Since(1, 8), OfFloats, OfOneType(2), Wide]),
    integers("aten::div", Promoted(2), "quotient(a, b)").when(&[Says(2, "trunc"), Since(1, 8), Divides(1)]),
    floats("aten::floor_divide", Promoted(2), "floor_quotient(a, b)")
        .integer("quotient_down(a, b)")
        .factors(1)
        .when(&[Since(1, 13), Divides(1)]),
    integers("aten::floor_divide", Promoted(2), "quotient(a, b)").when(&[Before(1, 13), Divides(1)]),
    floats("aten::fmod", Promoted(2), "fmod(a, b)").integer("rest(a, b)").when(&[Divides(1)]),
    floats("aten::remainder", Promoted(2), "remainder(a, b)").integer("rest_up(a, b)").when(&[Divides(1)]),
    all("aten::pow", Promoted(2), "a * a").when(&[Is(1, 2.0)]),
    // The power of -0.0, and that of minus infinity, equal those of the square root; `Half` uses
    // `pow`.
    floats("aten::pow", Promoted(2), "sqrt(a)").when(&[Is(1, 0.5), IsNotOf(DType::Half)]),
    floats("aten::pow", Promoted(2), "rsqrt(a)").when(&[Is(1, -0.5), IsNotOf(DType::Half)]),
    floats("aten::pow", Promoted(2), "pow(a, b)").integer("raised(a, b)").when(&[Since(1, 6), IsNumber(0), Natural(1)]).in_a_row(),
    floats("aten::pow", Promoted(2), "pow(a, b)").integer("raised(a, b)").when(&[Since(1, 6), Fits(1), Natural(1)]),
    floats("aten::pow", Promoted(2), "pow(a, b)").when(&[Before(1, 6), Fits(1)]),
    floats("aten::float_power", Cast(DType::Double), "a * a").when(&[Is(1, 2.0)]),
    floats("aten::float_power", Cast(DType::Double), "sqrt(a)").when(&[Is(1, 0.5)]),
    floats("aten::float_power", Cast(DType::Double), "rsqrt(a)").when(&[Is(1, -0.5)]),
    all("aten::float_power", Cast(DType::Double), "pow(a, b)"),
    floats("aten::atan2", FloatPromoted(2), "atan2(a, b)"),
    floats("aten::hypot", Promoted(2), "hypot(a, b)"),
    floats("aten::copysign", FloatPromoted(2), "signed(a, b)"),
    floats("aten::logaddexp", Promoted(2), LOGADDEXP),
    floats("aten::logaddexp2", Promoted(2), LOGADDEXP2),
    floats("aten::xlogy", FloatPromoted(2), XLOGY),
    all("aten::heaviside", Promoted(2), "a == 0 ? b : a > 0").when(&[OfOneType(2)]),
    all("aten::fmax", Promoted(2), MAX).float(FMAX),
    all("aten::fmin", Promoted(2), MIN).float(FMIN),
    // Before 1.5 a NaN of the first operand is lost.
    all("aten::max", Promoted(2), MAX).when(&[Before(1, 5)]),
    all("aten::max", Promoted(2), MAX).float("larger(a, b)"),
    all("aten::min", Promoted(2), MIN).when(&[Before(1, 5)]),
    all("aten::min", Promoted(2), MIN).float("smaller(a, b)"),
    all("aten::maximum", Promoted(2), MAX).float("larger(a, b)"),
    all("aten::minimum", Promoted(2), MIN).float("smaller(a, b)"),
    numbers("aten::addcmul", Promoted(3), "a + d * b * c").float("fma(d * b, c, a)").factors(3).or(&[(3, 1.0)]).when(&[FitsWide(3)]),
    floats("aten::addcdiv", Promoted(3), "a + d * b / c").factors(3).or(&[(3, 1.0)]).when(&[FitsWide(3)]),
    floats("aten::lerp", Kept, "absolute(c) < 0.5 ? fma(c, b - a, a) : fma(c - 1, b - a, b)").when(&[OfOneType(3), FitsWide(2)]),
    // ---- bounds
    // Bounds out of the range of the type wrap, have no effect or raise, depending on the release:
    // the interpreter handles them.
    numbers("aten::clamp", Kept, "a < b ? b : a").when(&[Before(1, 5), Missing(2), Held(1)]),
    numbers("aten::clamp", Kept, "a > c ? c : a").when(&[Before(1, 5), Missing(1), Held(2)]),
    // For integer bounds that cross, GCC 12 at -O1 returns the lower bound for all elements if it
    // is tested first.
    numbers("aten::clamp", Kept, "(a >= b) & (a > c) ? c : a < b ? b : a").when(&[Before(1, 5), Held(1), Held(2)]),
    all("aten::clamp", Promoted(2), MAX).float("larger(a, b)").when(&[Since(1, 12), Missing(2), Fits(1)]),
    all("aten::clamp", Promoted(3), "a < c ? a : c").float("smaller(a, c)").when(&[Since(1, 12), Missing(1), Fits(2)]),
    numbers("aten::clamp", Promoted(3), "(a > b ? a : b) < c ? (a > b ? a : b) : c")
        .float("smaller(larger(a, b), c)")
        .when(&[Since(1, 12), Fits(1), Fits(2)]),
    all("aten::clamp_min", Promoted(2), MAX).float("larger(a, b)").when(&[Since(1, 12), Fits(1)]),
    all("aten::clamp_max", Promoted(2), MIN).float("smaller(a, b)").when(&[Since(1, 12), Fits(1)]),
    // Since 1.9 it is a clamp, which keeps -0.0.
    numbers("aten::relu", Kept, "a <= 0 ? 0 : a").when(&[Before(1, 9)]),
    numbers("aten::relu", Kept, "a < 0 ? 0 : a").float("larger(a, 0.0)"),
    numbers("aten::threshold", Kept, "a <= b ? c : a").when(&[Held(1), Held(2), Fits(1), Fits(2)]),
    floats("aten::hardtanh", Kept, "a < b ? b : a > c ? c : a").or(&[(1, -1.0), (2, 1.0)]).when(&[Before(1, 5), Fits(1), Fits(2)]),
    floats("aten::hardtanh", Kept, "smaller(larger(a, b), c)").or(&[(1, -1.0), (2, 1.0)]).when(&[Fits(1), Fits(2)]),
    floats("aten::relu6", Kept, "a < 0 ? 0 : a > 6 ? 6 : a"),
    floats("aten::leaky_relu", Kept, "a > 0 ? a : a * b").or(&[(1, 0.01)]).when(&[FitsWide(1)]),
    // The bound is a number of the element type.
    floats("aten::hardshrink", Kept, "(a >= -b) & (a <= b) ? 0 : a").factors(usize::MAX).or(&[(1, 0.5)]).when(&[Fits(1)]),
    // Before 2.6 a NaN is lost.
    floats("aten::softshrink", Kept, "a > b ? a - b : a < -b ? a + b : a != a ? a : 0")
        .factors(usize::MAX)
        .or(&[(1, 0.5)])
        .when(&[Since(2, 6), From(1, 0.0), Fits(1)]),
    all("aten::nan_to_num", Kept, "a")
        .float("a != a ? b : a - a == 0 ? a : a > 0 ? c : d")
        .or(&[(1, 0.0), (2, f64::INFINITY), (3, f64::NEG_INFINITY)]),
    // ---- the type is kept
    numbers("aten::neg", Kept, "-a"),
    numbers("aten::abs", Kept, "a < 0 ? -a : a").float("absolute(a)"),
    all("aten::sign", Kept, "(a > 0) - (a < 0)"),
    all("aten::sgn", Kept, "(a > 0) - (a < 0)"),
    numbers("aten::floor", Kept, "a").float("floor(a)"),
    numbers("aten::ceil", Kept, "a").float("ceil(a)"),
    numbers("aten::trunc", Kept, "a").float("trunc(a)"),
    numbers("aten::round", Kept, "a").float("roundeven(a)").when(&[Missing(1)]),
    floats("aten::frac", Kept, "a - trunc(a)"),
    numbers("aten::square", Kept, "a * a"),
    // ---- integers become floats
    floats("aten::exp", Real, "exp(a)"),
    floats("aten::exp2", Real, "pow(2.0, a)"),
    floats("aten::expm1", Real, "expm1(a)"),
    floats("aten::log", Real, "log(a)"),
    floats("aten::log2", Real, "log2(a)"),
    floats("aten::log10", Real, "log10(a)"),
    floats("aten::log1p", Real, "log1p(a)"),
    floats("aten::sqrt", Real, "sqrt(a)"),
    floats("aten::rsqrt", Real, "rsqrt(a)"),
    floats("aten::reciprocal", Real, "1 / a"),
    floats("aten::sin", Real, "sin(a)"),
    floats("aten::cos", Real, "cos(a)"),
    floats("aten::tan", Real, "tan(a)"),
    floats("aten::asin", Real, "asin(a)"),
    floats("aten::acos", Real, "acos(a)"),
    floats("aten::atan", Real, "atan(a)"),
    floats("aten::sinh", Real, "sinh(a)"),
    floats("aten::cosh", Real, "cosh(a)"),
    floats("aten::tanh", Real, "tanh(a)"),
    floats("aten::asinh", Real, "asinh(a)"),
    floats("aten::acosh", Real, "acosh(a)"),
    floats("aten::atanh", Real, "atanh(a)"),
    floats("aten::sigmoid", Real, "sigmoid(a)"),
    // For 16-bit floats eager mode rounds each step.
    floats("aten::logit", Real, "log(a / (1 - a))").when(&[Wide, Missing(1)]),
    // Negative bounds mean no bounds.
    floats(
        "aten::logit",
        Real,
        "log(((b >= 0) & (a < b) ? b : (b >= 0) & (a > 1 - b) ? 1 - b : a) / (1 - ((b >= 0) & (a < b) ? b : (b >= 0) & (a > 1 - b) ? 1 - b : a)))",
    )
    .when(&[Wide, FitsWide(1)]),
    floats("aten::sinc", Real, "a == 0 ? 1 : sin(3.141592653589793 * a) / (3.141592653589793 * a)"),
    floats("aten::deg2rad", Real, "a * 0.017453292519943295"),
    floats("aten::rad2deg", Real, "a * 57.29577951308232"),
    floats("aten::erf", Real, "erf(a)"),
    floats("aten::erfc", Real, "erfc(a)"),
    floats("aten::lgamma", Real, "lgamma(a)"),
    // ---- activations that PyTorch's fuser does not take
    floats("aten::silu", Kept, "silu(a)"),
    // `x Phi(x)`, computed from the complement to keep precision where it is small.
    floats("aten::gelu", Kept, "0.5 * a * erfc(-0.70710678118654752 * a)").when(&[Missing(1)]),
    floats("aten::gelu", Kept, "0.5 * a * erfc(-0.70710678118654752 * a)").when(&[Says(1, "none")]),
    // `(1 + tanh(u)) / 2` is the logistic function of `2u`; 1.5957... is `2 sqrt(2 / pi)`.
    floats("aten::gelu", Kept, "a * sigmoid(1.5957691216057308 * fma(0.044715 * a, a * a, a))").when(&[Says(1, "tanh")]),
    floats("aten::softplus", Kept, "a * b > c ? a : log1p(exp(a * b)) / b").or(&[(1, 1.0), (2, 20.0)]).when(&[FitsWide(1), FitsWide(2)]),
    floats("aten::hardsigmoid", Kept, "(a + 3 < 0 ? 0 : a + 3 > 6 ? 6 : a + 3) / 6"),
    floats("aten::hardswish", Kept, "a * (a + 3 < 0 ? 0 : a + 3 > 6 ? 6 : a + 3) / 6"),
    floats("aten::elu", Kept, "(a > 0 ? a : b * expm1(a * d)) * c").or(&[(1, 1.0), (2, 1.0), (3, 1.0)]).when(&[FitsWide(1), FitsWide(2), FitsWide(3)]),
    floats("aten::mish", Kept, "a * tanh(log1p(exp(a)))"),
    floats("aten::celu", Kept, "a > 0 ? a : b * expm1(a * (1 / b))").or(&[(1, 1.0)]).when(&[IsNot(1, 0.0), FitsWide(1)]),
    floats("aten::selu", Kept, "(a > 0 ? a : 1.6732632423543772 * expm1(a)) * 1.0507009873554805"),
    floats("aten::log_sigmoid", Kept, "(a < 0 ? a : 0) - log1p(exp(-absolute(a)))").in_a_row().when(&[Since(1, 5)]),
    // ---- gradients of activations; the incoming gradient and the operand have one element type
    floats("aten::tanh_backward", Promoted(2), "a * (1 - b * b)"),
    floats("aten::sigmoid_backward", Promoted(2), "a * (1 - b) * b"),
    numbers("aten::threshold_backward", Kept, "b <= c ? 0 : a").factors(2).when(&[OfOneType(2), Held(2), Fits(2)]),
    floats("aten::hardtanh_backward", Kept, "(b <= c) | (b >= d) ? 0 : a")
        .factors(2)
        .when(&[OfOneType(2), Fits(2), Fits(3)]),
    floats("aten::leaky_relu_backward", Kept, "b > 0 ? a : a * c").factors(2).when(&[OfOneType(2), Missing(3)]),
    floats("aten::leaky_relu_backward", Kept, "b > 0 ? a : a * c").factors(2).when(&[OfOneType(2), Is(3, 0.0)]),
    floats("aten::leaky_relu_backward", Kept, "b > 0 ? a : a * c").factors(2).when(&[OfOneType(2), From(2, 0.0)]),
    floats("aten::elu_backward", Kept, "f <= 0 ? a * d * (b * c) * exp(f * d) : a * c")
        .when(&[OfOneType(6), Is(4, 0.0)]),
    floats("aten::elu_backward", Kept, "f <= 0 ? a * d * (f + b * c) : a * c")
        .when(&[OfOneType(6), Is(4, 1.0), From(1, 0.0)]),
    floats("aten::hardshrink_backward", Kept, SHRINK_BACKWARD).factors(usize::MAX).when(&[OfOneType(2), Fits(2)]),
    floats("aten::softshrink_backward", Kept, SHRINK_BACKWARD).factors(usize::MAX).when(&[OfOneType(2), Fits(2)]),
    floats("aten::silu_backward", Kept, "a * sigmoid(b) * (1 + b * (1 - sigmoid(b)))").when(&[OfOneType(2)]),
    floats("aten::gelu_backward", Kept, GELU_BACKWARD).when(&[OfOneType(2), Missing(2)]),
    floats("aten::gelu_backward", Kept, GELU_BACKWARD).when(&[OfOneType(2), Says(2, "none")]),
    floats("aten::gelu_backward", Kept, GELU_TANH_BACKWARD).when(&[OfOneType(2), Says(2, "tanh")]),
    // The factor 1/6 is of single precision, also for doubles.
    floats("aten::hardsigmoid_backward", Kept, "(b > -3) & (b < 3) ? a * 0.1666666716337204 : 0").when(&[OfOneType(2)]),
    floats("aten::hardswish_backward", Kept, "b <= -3 ? 0 : b < 3 ? a * (b / 3 + 0.5) : a").when(&[OfOneType(2)]),
    floats("aten::softplus_backward", Kept, "b * c > d ? a : a * exp(b * c) / (exp(b * c) + 1)")
        .factors(2)
        .when(&[OfOneType(2), Missing(4)]),
    // ---- comparisons and logic
    all("aten::eq", Compared, "a == b"),
    all("aten::ne", Compared, "a != b"),
    all("aten::lt", Compared, "a < b"),
    all("aten::le", Compared, "a <= b"),
    all("aten::gt", Compared, "a > b"),
    all("aten::ge", Compared, "a >= b"),
    all("aten::logical_and", Compared, "(a != 0) & (b != 0)"),
    all("aten::logical_or", Compared, "(a != 0) | (b != 0)"),
    all("aten::logical_xor", Compared, "(a != 0) != (b != 0)"),
    all("aten::logical_not", Predicate, "a == 0"),
    all("aten::isnan", Predicate, "a != a"),
    all("aten::isfinite", Predicate, "a == a").float("a - a == 0"),
    all("aten::isinf", Predicate, "a != a").float("(a == a) & (a - a != 0)"),
    all("aten::isposinf", Predicate, "a != a").float("(a - a != 0) & (a > 0)"),
    all("aten::isneginf", Predicate, "a != a").float("(a - a != 0) & (a < 0)"),
    all("aten::signbit", Predicate, "a < 0").float("signed(1.0, a) < 0"),
    all("aten::where", Chosen, "a ? b : c").when(&[FitsWide(1), FitsWide(2)]),
    floats("aten::masked_fill", Kept, "b ? c : a").when(&[Fits(2)]).in_a_row(),
    all("aten::__and__", Promoted(2), "a & b").float(""),
    all("aten::__or__", Promoted(2), "a | b").float(""),
    all("aten::__xor__", Promoted(2), "a ^ b").float(""),
    all("aten::bitwise_and", Promoted(2), "a & b").float(""),
    all("aten::bitwise_or", Promoted(2), "a | b").float(""),
    all("aten::bitwise_xor", Promoted(2), "a ^ b").float(""),
    numbers("aten::bitwise_not", Kept, "~a").float("").boolean("a == 0"),
    // ---- results with the shape of their operand, which is not read otherwise
    all("aten::zeros_like", Kept, "a != a ? 0 : 0").when(LIKE),
    all("aten::zeros_like", Kept, "a != a ? 0 : 0").when(PRESERVING),
    all("aten::zeros_like", Kept, "a != a ? 0 : 0").when(IN_A_ROW).in_a_row(),
    all("aten::ones_like", Kept, "a != a ? 1 : 1").when(LIKE),
    all("aten::ones_like", Kept, "a != a ? 1 : 1").when(PRESERVING),
    all("aten::ones_like", Kept, "a != a ? 1 : 1").when(IN_A_ROW).in_a_row(),
    // ---- conversions
    all("aten::to", Named(1), "a").when(CONVERTED),
    all("aten::to", Named(1), "a").when(CONVERTED_PRESERVING),
    all("aten::to", Like, "a").when(CONVERTED_LIKE),
    all("aten::to", Like, "a").when(CONVERTED_LIKE_PRESERVING),
    all("aten::type_as", Like, "a"),
    all("aten::_cast_Byte", Cast(DType::Byte), "a"),
    all("aten::_cast_Char", Cast(DType::Char), "a"),
    all("aten::_cast_Short", Cast(DType::Short), "a"),
    all("aten::_cast_Int", Cast(DType::Int), "a"),
    all("aten::_cast_Long", Cast(DType::Long), "a"),
    all("aten::_cast_Half", Cast(DType::Half), "a"),
    all("aten::_cast_Float", Cast(DType::Float), "a"),
    all("aten::_cast_Double", Cast(DType::Double), "a"),
];

static BY_KIND: LazyLock<FxHashMap<Symbol, Vec<&'static Formula>>> = LazyLock::new(|| {
    let mut rows: FxHashMap<Symbol, Vec<&'static Formula>> = FxHashMap::default();
    for row in ROWS {
        rows.entry(Symbol::new(row.kind)).or_default().push(row);
    }
    rows
});

/// The formulas of a kind, to be tried in order; none if it is not elementwise, or has no formula
/// yet.
pub fn formulas(kind: Symbol) -> &'static [&'static Formula] {
    BY_KIND.get(&kind).map_or(&[], Vec::as_slice)
}

/// Functions about as cheap as arithmetic: they do not start a loop of their own.
const LIGHT: &[&str] = &[
    "larger",
    "smaller",
    "absolute",
    "signed",
    "floor",
    "ceil",
    "trunc",
    "roundeven",
    "sqrt",
    "rsqrt",
    "hypot",
    "cut",
    "fma",
];

/// Whether a formula calls an expensive function.
pub fn is_expensive(formula: &str) -> bool {
    let words = formula.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == '.'));
    let is_name = |word: &&str| word.len() > 1 && word.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    words.filter(is_name).any(|name| !LIGHT.contains(&name))
}

/// All kinds that have a formula, in the order of the table.
pub fn kinds() -> impl Iterator<Item = &'static str> {
    let mut last = "";
    ROWS.iter().map(|row| row.kind).filter(move |kind| std::mem::replace(&mut last, kind) != *kind)
}
