//! Values as programs print them.

use super::ivalue::IValue;
use crate::ir::{Float, FloatStyle};
use crate::tensor::{C128, Kind, Scalar, Tensor};
use crate::text::number::print_float;
use std::fmt::Write;

/// As `str` makes a text of it: strings without quotes.
pub fn to_str(value: &IValue) -> String {
    match value {
        IValue::Str(text) => text.to_string(),
        other => to_repr(other),
    }
}

/// As it stands in a container: strings with quotes.
pub fn to_repr(value: &IValue) -> String {
    let joined = |values: &[IValue]| values.iter().map(to_repr).collect::<Vec<_>>().join(", ");
    match value {
        IValue::None => "None".to_owned(),
        IValue::Bool(b) => if *b { "True" } else { "False" }.to_owned(),
        IValue::Int(n) => n.to_string(),
        IValue::Float(x) => float(*x),
        IValue::Complex(z) => complex(*z),
        IValue::Str(text) => format!("'{text}'"),
        IValue::Device(device) => device.name().to_owned(),
        IValue::Tensor(t) => tensor(t),
        IValue::Undefined => "[ Tensor (undefined) ]".to_owned(),
        IValue::List(list) => format!("[{}]", joined(&list.borrow())),
        IValue::Dict(dict) => {
            let items =
                dict.borrow().iter().map(|(k, v)| format!("{}: {}", to_repr(&k.0), to_repr(v))).collect::<Vec<_>>();
            format!("{{{}}}", items.join(", "))
        }
        IValue::Tuple(values) if values.len() == 1 => format!("({},)", to_repr(&values[0])),
        IValue::Tuple(values) => format!("({})", joined(values)),
        IValue::Object(object) => format!("<{} object>", object.class.as_str()),
        IValue::Enum(member) => format!("Enum<{}.{}>", member.class.as_str(), member.name),
        IValue::Function(name) => format!("<function {}>", name.as_str()),
        IValue::Future(_) => "Future".to_owned(),
        IValue::Uninitialized => "Uninitialized".to_owned(),
    }
}

/// A real number as constants of a graph print it.
pub fn float(x: f64) -> String {
    let mut out = Vec::new();
    print_float(&mut out, Float { value: x, style: FloatStyle::Seventeen });
    String::from_utf8_lossy(&out).into_owned()
}

fn complex(z: C128) -> String {
    format!("{}{}{}j", float(z.re), if z.im.is_sign_negative() { "-" } else { "+" }, float(z.im.abs()))
}

/// Most elements of a tensor that are printed.
const MOST: usize = 1000;

/// Elements in nested brackets, then type and shape.
pub fn tensor(tensor: &Tensor) -> String {
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
