//! Comparisons and logic, element by element.

use super::operands::comparison;
use super::pointwise::{not_implemented, self_of};
use crate::interpreter::call::{Answer, Call, Row, one};
use crate::interpreter::ivalue::IValue;
use crate::interpreter::library::write_into;
use crate::tensor::blocks::{Types, map1};
use crate::tensor::{C128, DType, Kind};

/// The kernel table.
pub(crate) const ROWS: &[Row] = &[
    ("aten::eq", |call| comparison(call, |a, b| a == b, |a, b| a == b, |a, b| a == b)),
    ("aten::ne", |call| comparison(call, |a, b| a != b, |a, b| a != b, |a, b| a != b)),
    ("aten::not_equal", |call| comparison(call, |a, b| a != b, |a, b| a != b, |a, b| a != b)),
    ("aten::lt", |call| order(call, |a, b| a < b, |a, b| a < b)),
    ("aten::le", |call| order(call, |a, b| a <= b, |a, b| a <= b)),
    ("aten::gt", |call| order(call, |a, b| a > b, |a, b| a > b)),
    ("aten::ge", |call| order(call, |a, b| a >= b, |a, b| a >= b)),
    ("aten::less", |call| order(call, |a, b| a < b, |a, b| a < b)),
    ("aten::less_equal", |call| order(call, |a, b| a <= b, |a, b| a <= b)),
    ("aten::greater", |call| order(call, |a, b| a > b, |a, b| a > b)),
    ("aten::greater_equal", |call| order(call, |a, b| a >= b, |a, b| a >= b)),
    ("aten::logical_and", |call| logical(call, |a, b| a && b)),
    ("aten::logical_or", |call| logical(call, |a, b| a || b)),
    ("aten::logical_xor", |call| logical(call, |a, b| a != b)),
    ("aten::logical_not", |call| predicate(call, |n| n == 0, |x| x == 0.0, |z| z == C128::default())),
    ("aten::isnan", |call| predicate(call, |_| false, f64::is_nan, |z| z.re.is_nan() || z.im.is_nan())),
    ("aten::isinf", |call| predicate(call, |_| false, f64::is_infinite, |z| z.re.is_infinite() || z.im.is_infinite())),
    ("aten::isfinite", |call| predicate(call, |_| true, f64::is_finite, |z| z.re.is_finite() && z.im.is_finite())),
    ("aten::isposinf", |call| predicate(call, |_| false, |x| x == f64::INFINITY, |_| false)),
    ("aten::isneginf", |call| predicate(call, |_| false, |x| x == f64::NEG_INFINITY, |_| false)),
    ("aten::isreal", |call| predicate(call, |_| true, |_| true, |z| z.im == 0.0)),
    ("aten::signbit", |call| predicate(call, |n| n < 0, f64::is_sign_negative, |_| false)),
];

/// Complex numbers have no order.
fn order(call: &Call<'_>, of_ints: impl Fn(i64, i64) -> bool, of_floats: impl Fn(f64, f64) -> bool) -> Answer {
    let complex = call.args.iter().filter_map(IValue::tensor).find(|tensor| tensor.dtype().is_complex());
    match complex {
        Some(tensor) => Err(not_implemented(&format!("{}_cpu", call.kind().short()), tensor.dtype())),
        None => comparison(call, of_ints, of_floats, |_, _| false),
    }
}

fn logical(call: &Call<'_>, f: fn(bool, bool) -> bool) -> Answer {
    let truth = C128::default();
    comparison(call, |a, b| f(a != 0, b != 0), |a, b| f(a != 0.0, b != 0.0), |a, b| f(a != truth, b != truth))
}

fn predicate(
    call: &Call<'_>,
    of_ints: impl Fn(i64) -> bool,
    of_floats: impl Fn(f64) -> bool,
    of_complex: impl Fn(C128) -> bool,
) -> Answer {
    let x = self_of(call)?;
    let types = Types { common: x.dtype(), out: DType::Bool, precision: call.precision() };
    let result = match x.dtype().arithmetic() {
        Some(Kind::Float) => map1(&x, types, |x| f64::from(u8::from(of_floats(x))))?,
        Some(Kind::Complex) => map1(&x, types, |z| C128::from(f64::from(u8::from(of_complex(z)))))?,
        _ => map1(&x, types, |n| i64::from(of_ints(n)))?,
    };
    match call.look("out").and_then(|out| out.tensor()) {
        // The result is written as 0 and 1 in the type of the output.
        Some(out) => {
            write_into(out, &result.converted(out.dtype(), call.precision()))?;
            one(out.clone())
        }
        None => one(result),
    }
}
