//! Values in the form that programs print.

use super::ivalue::{IValue, Key};
use super::tensor_format;
use crate::ir::{Float, FloatStyle};
use crate::tensor::{C128, Kind, Scalar, Tensor};
use crate::text::number::print_float;
use crate::types::release::Release;
use std::fmt::Write;

/// The form in programs of a release: strings have no quotes, not even in containers.
pub fn to_str(value: &IValue, release: Release) -> String {
    let tensor = |tensor: &Tensor| tensor_format::text(tensor, release);
    shown(value, &TokenStream { text: str::to_owned, float: float_in_words, tensor: &tensor })
}

/// The form in reports: strings have quotes, and numbers all digits.
pub fn to_repr(value: &IValue) -> String {
    shown(value, &TokenStream { text: |text| format!("'{text}'"), float, tensor: &tensor })
}

/// The form of strings and numbers.
struct TokenStream<'w> {
    text: fn(&str) -> String,
    float: fn(f64) -> String,
    tensor: &'w dyn Fn(&Tensor) -> String,
}

fn shown(value: &IValue, words: &TokenStream<'_>) -> String {
    let joined = |values: &[IValue]| values.iter().map(|value| shown(value, words)).collect::<Vec<_>>().join(", ");
    match value {
        IValue::None => "None".to_owned(),
        IValue::Bool(b) => if *b { "True" } else { "False" }.to_owned(),
        IValue::Int(n) => n.to_string(),
        IValue::Float(x) => (words.float)(*x),
        IValue::Complex(z) => complex(*z, words.float),
        IValue::Str(text) => (words.text)(text),
        IValue::Device(device) => device.name().to_owned(),
        IValue::Tensor(t) => (words.tensor)(t),
        IValue::Undefined => "[ Tensor (undefined) ]".to_owned(),
        IValue::List(list) => format!("[{}]", joined(&list.borrow())),
        IValue::Dict(dict) => {
            let item = |(k, v): (&Key, &IValue)| format!("{}: {}", shown(&k.0, words), shown(v, words));
            format!("{{{}}}", dict.borrow().iter().map(item).collect::<Vec<_>>().join(", "))
        }
        IValue::Tuple(values) if values.len() == 1 => format!("({},)", shown(&values[0], words)),
        IValue::Tuple(values) => format!("({})", joined(values)),
        IValue::Object(object) => format!("<{} object>", object.class.as_str()),
        IValue::Enum(member) => format!("Enum<{}.{}>", class_name(member.class.as_str()), member.name),
        IValue::Function(name) => format!("<function {}>", name.as_str()),
        IValue::Future(_) => "Future".to_owned(),
        IValue::Uninitialized => "Uninitialized".to_owned(),
    }
}

/// `Color` of `__torch__.module.Color`.
fn class_name(class: &str) -> &str {
    class.rsplit('.').next().unwrap_or(class)
}

/// A floating point number in the spelling of constants of a graph.
pub(crate) fn float(x: f64) -> String {
    let mut out = Vec::new();
    print_float(&mut out, Float { value: x, style: FloatStyle::Seventeen });
    String::from_utf8_lossy(&out).into_owned()
}

/// A floating point number in the spelling of programs. A number in the range of 64-bit integers
/// prints as an integer, which has no negative zero.
fn float_in_words(x: f64) -> String {
    const END: f64 = 9_223_372_036_854_775_808.0;
    if x == x.trunc() && (-END..END).contains(&x) { format!("{}.", x as i64) } else { float(x) }
}

/// PyTorch tests whether the imaginary part is at least 0, so that -0 gets a plus and NaN a minus.
fn complex(z: C128, float: fn(f64) -> String) -> String {
    format!("{}{}{}j", float(z.re), if z.im >= 0.0 { "+" } else { "-" }, float(z.im.abs()))
}

/// The maximal number of elements of a tensor that reports show.
const MOST: usize = 1000;

/// Elements with all their digits, then type and shape.
fn tensor(tensor: &Tensor) -> String {
    let mut text = String::new();
    let element = |text: &mut String, scalar: Scalar| {
        let _ = match scalar {
            Scalar::Bool(b) => write!(text, "{}", u8::from(b)),
            Scalar::Int(n) => write!(text, "{n}"),
            Scalar::Float(x) => write!(text, "{x}"),
            Scalar::Complex(z) => write!(text, "{z}"),
        };
    };
    let scalars: Vec<Scalar> = match tensor.dtype().arithmetic() {
        Some(Kind::Float) => tensor.read().into_iter().map(Scalar::Float).collect(),
        Some(Kind::Complex) => tensor.read().into_iter().map(Scalar::Complex).collect(),
        _ => tensor.read().into_iter().map(Scalar::Int).collect(),
    };
    for (i, &scalar) in scalars.iter().take(MOST).enumerate() {
        text += if i == 0 { " " } else { "  " };
        element(&mut text, scalar);
    }
    if scalars.len() > MOST {
        text += "  ...";
    }
    let sizes: Vec<String> = tensor.shape().iter().map(i64::to_string).collect();
    let place = tensor.device().kind().to_uppercase();
    let _ = write!(text, "\n[ {place}{}Type{{{}}} ]", tensor.dtype().name(), sizes.join(","));
    text
}
