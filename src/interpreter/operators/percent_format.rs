//! `'%d of %s' % (a, b)`, with the few specifiers that TorchScript has.

use super::operands::text;
use crate::interpreter::call::{Answer, Call, one};
use crate::interpreter::environment::Release;
use crate::interpreter::ivalue::IValue;
use crate::interpreter::shown_values::to_str;
use crate::interpreter::stop::Stop;

/// Formats the elements of a tuple, or one operand, with `%d`, `%s`, `%f`.
pub(crate) fn percent_format(call: &Call<'_>) -> Answer {
    let values: Vec<IValue> = match &call.args[1..] {
        [IValue::Tuple(values), ..] => values.to_vec(),
        // PyTorch uses only the first of them.
        values => values.iter().take(1).cloned().collect(),
    };
    let (mut formatted, mut values) = (String::new(), values.into_iter());
    let mut characters = text(call, 0)?.chars();
    while let Some(c) = characters.next() {
        if c != '%' {
            formatted.push(c);
            continue;
        }
        match characters.next() {
            None => return Err(Stop::raised("Incomplete format specifier")),
            Some('%') => formatted.push('%'),
            Some(how) => {
                let value = values.next().ok_or_else(|| Stop::raised("Too few arguments for format string"))?;
                formatted += &specified(how, &value, call.release())?;
            }
        }
    }
    match values.next() {
        None => one(formatted),
        Some(_) => Err(Stop::raised("Too many arguments for format string")),
    }
}

/// A value in the format of one specifier.
fn specified(how: char, value: &IValue, release: Release) -> Result<String, Stop> {
    match how {
        's' => Ok(to_str(value, release)),
        'c' => character(value),
        'd' | 'i' => whole(how, value),
        'f' | 'F' => Ok(finite_or(single(how, value)?, |x| format!("{x:.6}"))),
        'e' => Ok(finite_or(single(how, value)?, scientific)),
        'E' => Ok(finite_or(single(how, value)?, scientific).to_ascii_uppercase()),
        _ => Err(Stop::raised(format!("The specifier %{how} is not supported in TorchScript format strings"))),
    }
}

/// PyTorch converts a float to a C int; the processor converts values out of range to the smallest
/// int.
fn whole(how: char, value: &IValue) -> Result<String, Stop> {
    match value {
        IValue::Int(n) => Ok(n.to_string()),
        IValue::Float(x) if (-2_147_483_649.0 < *x) && (*x < 2_147_483_648.0) => Ok((*x as i32).to_string()),
        IValue::Float(_) => Ok(i32::MIN.to_string()),
        other => Err(no_number(how, other)),
    }
}

/// Floating point conversions are in single precision in PyTorch, and integers are converted too.
fn single(how: char, value: &IValue) -> Result<f32, Stop> {
    match value {
        IValue::Int(n) => Ok(*n as f32),
        IValue::Float(x) => Ok(*x as f32),
        other => Err(no_number(how, other)),
    }
}

fn no_number(how: char, value: &IValue) -> Stop {
    match value {
        // PyTorch accepts them as numbers and then reports an internal error.
        IValue::Bool(_) | IValue::Complex(_) => Stop::raised("expected double"),
        other => Stop::raised(format!("%{how} requires a number for formatting, but got {}", other.tag())),
    }
}

fn character(value: &IValue) -> Result<String, Stop> {
    match value {
        IValue::Str(text) if text.len() == 1 => Ok(text.to_string()),
        IValue::Int(n) if (*n as u8).is_ascii() => Ok(char::from(*n as u8).to_string()),
        IValue::Int(n) => Err(Stop::unsupported(format!("`%c` of {n}: a byte that is not UTF-8"))),
        other => Err(Stop::raised(format!("%c requires an int or char for formatting, but got {}", other.tag()))),
    }
}

fn finite_or(x: f32, digits: impl Fn(f32) -> String) -> String {
    match x.is_finite() {
        true => digits(x),
        false => format!("{}{}", if x.is_sign_negative() { "-" } else { "" }, if x.is_nan() { "nan" } else { "inf" }),
    }
}

/// C's `%e`: an exponent with a sign and at least two digits.
fn scientific(x: f32) -> String {
    let text = format!("{x:.6e}");
    let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let (sign, exponent) = exponent.strip_prefix('-').map_or(('+', exponent), |exponent| ('-', exponent));
    format!("{digits}e{sign}{exponent:0>2}")
}
