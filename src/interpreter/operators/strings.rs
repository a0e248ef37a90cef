//! Strings, with Python's semantics.

use super::operands::text;
use super::{percent_format, structure::wrapped};
use crate::interpreter::call::{Answer, Call, Row, one};
use crate::interpreter::ivalue::IValue;
use crate::interpreter::shown_values::to_str;
use crate::interpreter::stop::Stop;

/// The kernel table.
pub(crate) const ROWS: &[Row] = &[
    ("aten::str", |call| one(to_str(call.arg(0)?, call.release()))),
    ("aten::format", format),
    ("aten::percentFormat", percent_format::percent_format),
    ("aten::join", join),
    ("aten::split", split),
    ("aten::splitlines", |call| one(IValue::list(text(call, 0)?.lines()))),
    ("aten::strip", |call| one(text(call, 0)?.trim_matches(&chars(call)[..]))),
    ("aten::lstrip", |call| one(text(call, 0)?.trim_start_matches(&chars(call)[..]))),
    ("aten::rstrip", |call| one(text(call, 0)?.trim_end_matches(&chars(call)[..]))),
    ("aten::lower", |call| one(text(call, 0)?.to_ascii_lowercase())),
    ("aten::upper", |call| one(text(call, 0)?.to_ascii_uppercase())),
    ("aten::capitalize", capitalize),
    ("aten::replace", replace),
    ("aten::startswith", |call| one(part(call)?.starts_with(text(call, 1)?))),
    ("aten::endswith", |call| one(part(call)?.ends_with(text(call, 1)?))),
    ("aten::find", |call| one(found(call, false)?.unwrap_or(-1))),
    ("aten::rfind", |call| one(found(call, true)?.unwrap_or(-1))),
    ("aten::rindex", |call| found(call, true)?.map_or_else(not_found, one)),
    ("aten::isdigit", |call| every(call, |c| c.is_ascii_digit())),
    ("aten::isalpha", |call| every(call, |c| c.is_ascii_alphabetic())),
    ("aten::isalnum", |call| every(call, |c| c.is_ascii_alphanumeric())),
    ("aten::isspace", |call| every(call, |c| c.is_ascii_whitespace())),
    ("aten::islower", |call| cased(call, |c| c.is_ascii_lowercase())),
    ("aten::isupper", |call| cased(call, |c| c.is_ascii_uppercase())),
    ("aten::ord", ord),
    ("aten::chr", |call| {
        let code = call.arg(0)?.scalar().map_or(-1, |scalar| scalar.int());
        let c = u32::try_from(code).ok().and_then(char::from_u32);
        c.map_or_else(|| Err(Stop::raised("chr() arg not in range(256)")), |c| one(c.to_string()))
    }),
    ("aten::hex", |call| radix(call, "0x", |n| format!("{n:x}"))),
    ("aten::oct", |call| radix(call, "0o", |n| format!("{n:o}"))),
    ("aten::bin", |call| radix(call, "0b", |n| format!("{n:b}"))),
];

/// The character at an index; PyTorch counts bytes.
pub(crate) fn character(text: &str, index: i64) -> Answer {
    match wrapped(index, text.len()) {
        Some(i) => one(String::from_utf8_lossy(&text.as_bytes()[i..=i]).into_owned()),
        None => Err(Stop::raised("string index out of range")),
    }
}

/// Replaces each `{}` by the next operand.
fn format(call: &Call<'_>) -> Answer {
    let whole = text(call, 0)?;
    let mut pieces = whole.split("{}");
    let mut formatted = pieces.next().unwrap_or_default().to_owned();
    let mut values = call.args[1..].iter();
    for piece in pieces {
        let Some(value) = values.next() else {
            return Err(Stop::raised(format!("Too few arguments for format string: {whole}")));
        };
        formatted += &to_str(value, call.release());
        formatted += piece;
    }
    one(formatted)
}

fn join(call: &Call<'_>) -> Answer {
    match call.arg(1)? {
        IValue::List(words) => {
            let words: Vec<String> = words.borrow().iter().map(|word| to_str(word, call.release())).collect();
            one(words.join(text(call, 0)?))
        }
        other => Err(Stop::unsupported(format!("joining a {}", other.kind_name()))),
    }
}

fn split(call: &Call<'_>) -> Answer {
    let whole = text(call, 0)?;
    let most = call.args.get(2).and_then(IValue::scalar).map_or(-1, |scalar| scalar.int());
    let words: Vec<&str> = match call.args.get(1) {
        Some(IValue::Str(separator)) if most < 0 => whole.split(&**separator).collect(),
        Some(IValue::Str(separator)) => whole.splitn(most.saturating_add(1) as usize, &**separator).collect(),
        _ => whole.split_whitespace().collect(),
    };
    one(IValue::list(words))
}

fn chars(call: &Call<'_>) -> Vec<char> {
    match call.args.get(1) {
        Some(IValue::Str(chars)) => chars.chars().collect(),
        _ => " \n\t\u{c}\u{b}".chars().collect(),
    }
}

fn capitalize(call: &Call<'_>) -> Answer {
    let mut capital = text(call, 0)?.to_ascii_lowercase();
    if let Some(first) = capital.get_mut(..1) {
        first.make_ascii_uppercase();
    }
    one(capital)
}

fn replace(call: &Call<'_>) -> Answer {
    let (whole, old, new) = (text(call, 0)?, text(call, 1)?, text(call, 2)?);
    match call.args.get(3).and_then(IValue::scalar).map(|scalar| scalar.int()) {
        Some(n) if n >= 0 => one(whole.replacen(old, new, n as usize)),
        _ => one(whole.replace(old, new)),
    }
}

/// The substring between operands 2 and 3, and its offset.
fn bounds<'a>(call: &Call<'a>) -> Result<(&'a str, usize), Stop> {
    let whole = text(call, 0)?;
    let at = |i: usize, default: i64| call.args.get(i).and_then(IValue::scalar).map_or(default, |scalar| scalar.int());
    let n = whole.len() as i64;
    let wrap = |at: i64| if at < 0 { at.saturating_add(n) } else { at }.clamp(0, n) as usize;
    // The default end, -1, means the end of the string.
    let (from, to) = (wrap(at(2, 0)), if at(3, -1) == -1 { whole.len() } else { wrap(at(3, -1)) });
    Ok((whole.get(from..to.max(from)).unwrap_or_default(), from))
}

fn part<'a>(call: &Call<'a>) -> Result<&'a str, Stop> {
    Ok(bounds(call)?.0)
}

fn found(call: &Call<'_>, last: bool) -> Result<Option<i64>, Stop> {
    let (part, from) = bounds(call)?;
    let wanted = text(call, 1)?;
    let at = if last { part.rfind(wanted) } else { part.find(wanted) };
    Ok(at.map(|at| (at + from) as i64))
}

fn not_found() -> Answer {
    Err(Stop::raised_as("ValueError", "ValueError: substring not found"))
}

/// The index of a substring.
pub(crate) fn index(call: &Call<'_>) -> Answer {
    found(call, false)?.map_or_else(not_found, one)
}

/// The number of occurrences of a substring.
pub(crate) fn count(call: &Call<'_>) -> Answer {
    one(part(call)?.matches(text(call, 1)?).count())
}

fn every(call: &Call<'_>, is: fn(char) -> bool) -> Answer {
    let whole = text(call, 0)?;
    one(!whole.is_empty() && whole.chars().all(is))
}

fn cased(call: &Call<'_>, is: fn(char) -> bool) -> Answer {
    let mut letters = text(call, 0)?.chars().filter(char::is_ascii_alphabetic).peekable();
    one(letters.peek().is_some() && letters.all(is))
}

fn ord(call: &Call<'_>) -> Answer {
    match text(call, 0)?.as_bytes() {
        [byte] => one(i64::from(*byte)),
        other => Err(Stop::raised(format!("string for ord() must be 1 character, found {}", other.len()))),
    }
}

fn radix(call: &Call<'_>, prefix: &str, digits: fn(u64) -> String) -> Answer {
    let n = call.arg(0)?.scalar().map_or(0, |scalar| scalar.int());
    one(format!("{}{prefix}{}", if n < 0 { "-" } else { "" }, digits(n.unsigned_abs())))
}
