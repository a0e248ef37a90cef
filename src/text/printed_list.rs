//! Lists of tensors as PyTorch prints them: `[ 1  2 [ CPULongType{2} ]]`,
//! `annotate(List[Optional[Tensor]], [None, {1}])`.
//!
//! Such a text is one attribute that equals no other, as some of the tensors may be hidden or
//! rounded. The elements that it shows can be read.

use super::literal::{self, Evidence};
use super::quoted;
use crate::ir::Attribute;
use crate::symbol::attr;

/// The elements of a list, if they are literals or printed tensors; `None` for text that is not a
/// list of elements, such as `[<Tensors>]`.
pub fn parts(text: &str) -> Option<Vec<Attribute>> {
    let annotated = text.strip_prefix("annotate(").and_then(|rest| rest.strip_suffix(')'));
    // No type contains a comma, a blank and a bracket in sequence.
    let list = annotated.map_or(Some(text), |rest| Some(&rest[rest.find(", [")? + 2..]))?;
    let body = list.strip_prefix('[')?.strip_suffix(']')?;
    if body.starts_with("<Tensors>") {
        return None;
    }
    split(body)?.into_iter().map(part).collect()
}

fn part(text: &str) -> Option<Attribute> {
    let input = format!("{}]", text.trim());
    let read = literal::parse(input.as_bytes(), attr::VALUE, None, &mut Evidence::default()).ok()?;
    (read.used + 1 == input.len()).then_some(read.value)
}

/// Splits at the commas outside of brackets and strings.
fn split(body: &str) -> Option<Vec<&str>> {
    let (bytes, mut parts) = (body.as_bytes(), Vec::new());
    let (mut depth, mut start, mut at) = (0usize, 0, 0);
    while at < bytes.len() {
        match bytes[at] {
            b'"' => at += quoted::parse(&bytes[at..]).ok()?.1 - 1,
            b'[' | b'(' | b'{' => depth += 1,
            b']' | b')' | b'}' => depth = depth.checked_sub(1)?,
            b',' if depth == 0 => {
                parts.push(&body[start..at]);
                start = at + 1;
            }
            _ => {}
        }
        at += 1;
    }
    parts.push(&body[start..]);
    (depth == 0 && parts.iter().all(|part| !part.trim().is_empty())).then_some(parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(text: &str) -> Option<String> {
        let kind = |part: &Attribute| match part {
            Attribute::None => "none",
            Attribute::Tensor(_) => "shown",
            Attribute::Opaque(_) => "hidden",
            _ => "literal",
        };
        Some(parts(text)?.iter().map(kind).collect::<Vec<_>>().join(" "))
    }

    #[test]
    fn parts_of_printed_lists_are_separated() {
        for (text, expected) in [
            ("annotate(List[Optional[Tensor]], [None,  1  2  2 [ CPULongType{3} ]])", Some("none shown")),
            ("[ 1  2  2 [ CPULongType{3} ]]", Some("shown")),
            ("[<Tensor>, {1}, 1  2 [ CPULongType{1,2} ]]", Some("hidden shown shown")),
            ("annotate(List[Optional[Dict[str, int]]], [None, {\"a, [\": 1}])", Some("none literal")),
            ("annotate(List[Optional[int]], [1, None])", Some("literal none")),
            ("[<Tensors>]", None),
            ("[]", None),
            ("[1, , 2]", None),
            ("[1], [2]", None),
            ("annotate(List[int]", None),
            ("object(0x55aa)", None),
        ] {
            assert_eq!(kinds(text).as_deref(), expected, "{text}");
        }
    }
}
