//! The lists of schemas, searched as text.
//!
//! `schemas-1.3.txt` and `schemas-2.txt` are the output of PyTorch 1.3.1 and 2.15.0 for
//!
//! ```python
//! print("\n".join(sorted({str(s) for s in torch._C._jit_get_all_schemas()})))
//! ```
//!
//! and are replaced by running that again. `schemas-prim.txt` has, in the same form, kinds of
//! graphs that PyTorch executes without registering a schema for them, and `schemas-between.txt`
//! the overloads that neither of the two registers and another release does, 1.0.1 to 2.9.1;
//! `tools/pytorch/merge_schemas.py` makes it.
//!
//! The six thousand schemas are not parsed at start-up: a run of the program must cost
//! milliseconds. The texts are sorted by bytes, and `(` and `.` sort before all characters of
//! names, so the lines of one operator are adjacent and found by bisection. They are parsed on
//! demand.

use super::declaration::parse;
use super::schema::Schema;
use crate::symbol::Symbol;
use crate::types::era::Era;
use std::cmp::Ordering;

/// The schemas that PyTorch 1.3.1 registers.
pub(crate) const LIST_1_3: &str = include_str!("schemas-1.3.txt");
/// The schemas that PyTorch 2.15.0 registers.
pub const LIST_2: &str = include_str!("schemas-2.txt");
/// Schemas of operators in graphs that no PyTorch registers.
pub(crate) const LIST_PRIM: &str = include_str!("schemas-prim.txt");
/// Schemas that neither of the two registers and a version between them does.
pub(crate) const LIST_BETWEEN: &str = include_str!("schemas-between.txt");

/// The list of an era.
pub(crate) fn list(era: Era) -> &'static str {
    match era {
        Era::V1_3 => LIST_1_3,
        Era::V2 => LIST_2,
    }
}

/// The overloads of `kind` in a list, in the order of the list: the overload without a name first.
pub fn schemas(list: &'static str, kind: Symbol) -> Vec<Schema> {
    lines(list, kind.as_str()).filter_map(|line| parse(line).ok()).collect()
}

/// The lines of a list that declare `name`.
pub(crate) fn lines<'n>(list: &'static str, name: &'n str) -> impl Iterator<Item = &'static str> + 'n {
    let start = lower_bound(list, name);
    list[start..].lines().take_while(move |line| key(line) == name)
}

/// The name that a line declares, without that of the overload.
pub fn key(line: &str) -> &str {
    &line[..line.bytes().position(|b| b == b'(' || b == b'.').unwrap_or(line.len())]
}

/// The offset of the first line whose name is not less than `name`.
fn lower_bound(list: &str, name: &str) -> usize {
    let (mut low, mut high) = (0, list.len());
    while low < high {
        let middle = low.midpoint(high);
        let start = memchr::memrchr(b'\n', &list.as_bytes()[low..middle]).map_or(low, |n| low + n + 1);
        let end = memchr::memchr(b'\n', &list.as_bytes()[middle..]).map_or(list.len(), |n| middle + n + 1);
        match key(&list[start..end]).cmp(name) {
            Ordering::Less => low = end,
            _ => high = start,
        }
    }
    low
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_schema_is_read_and_printed_back() {
        let ours = [(LIST_PRIM, Era::V2, 43, 0), (LIST_BETWEEN, Era::V2, 816, 0)];
        for (text, era, count, normalised) in
            [(LIST_1_3, Era::V1_3, 1825, 0), (LIST_2, Era::V2, 4415, 3)].into_iter().chain(ours)
        {
            let differs = |line: &&'static str| match parse(line) {
                Ok(schema) => schema.text(era) != **line,
                Err(error) => panic!("{line}: {error:?}"),
            };
            let different: Vec<&str> = text.lines().filter(differs).collect();
            assert_eq!((text.lines().count(), different.len()), (count, normalised), "{different:#?}");
        }
    }

    #[test]
    fn bisection_agrees_with_a_scan() {
        for text in [LIST_1_3, LIST_2, LIST_PRIM, LIST_BETWEEN] {
            assert!(text.lines().is_sorted());
            for name in text.lines().map(key) {
                let scan: Vec<&str> = text.lines().filter(|line| key(line) == name).collect();
                assert_eq!(lines(text, name).collect::<Vec<_>>(), scan);
                if text.len() > 100_000 && name > "aten::b" {
                    break;
                }
            }
            assert_eq!(lines(text, "aten").chain(lines(text, "")).chain(lines(text, "zzz::z")).count(), 0);
        }
    }
}
