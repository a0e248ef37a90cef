//! Names of values: a number, or any other text, unique within a graph.
//!
//! PyTorch prints the running number of a value without a name. When a pass names a value and the
//! name is taken, the new value gets the name and the old owner is renamed `base.N`; the choice of
//! N differs between versions, and both rules are implemented so that texts compare equal.

use super::graph::{Graph, Value};
use super::journal::NameEdit;
use crate::types::era::Era;
use hashbrown::HashTable;
use rustc_hash::{FxBuildHasher, FxHashMap};
use std::hash::BuildHasher;

/// The label of a value, in four bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LabelId(pub(super) u32);

/// Marks a label that is a text.
pub(super) const TEXT: u32 = 1 << 31;

/// Greater numbers in a file are names like any other.
const GREATEST: u32 = 2_000_000_000;

/// The label of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Label<'a> {
    /// `%12`
    Number(u32),
    /// `%x.1`, without the percent sign.
    Text(&'a [u8]),
}

impl LabelId {
    pub(super) fn number(n: u32) -> LabelId {
        debug_assert!(n < TEXT);
        LabelId(n)
    }
}

/// The names of one graph.
#[derive(Clone, Debug, Default)]
pub(super) struct Names {
    table: HashTable<u32>,
    /// Ends of the texts in `bytes`.
    ends: Vec<u32>,
    bytes: Vec<u8>,
    pub(super) owners: Vec<Option<Value>>,
    /// Whether the text gives two values the same name, or one a name of digits that is not a
    /// number: edits of such names depend on the texts.
    pub(super) is_odd: bool,
    /// PyTorch 1.13 and later remember, per base, the suffix to try next.
    suffixes: FxHashMap<Box<[u8]>, u64>,
}

impl Names {
    fn text(&self, id: u32) -> &[u8] {
        let start = if id == 0 { 0 } else { self.ends[id as usize - 1] };
        &self.bytes[start as usize..self.ends[id as usize] as usize]
    }

    fn find(&self, name: &[u8]) -> Option<u32> {
        self.table.find(FxBuildHasher.hash_one(name), |&id| self.text(id) == name).copied()
    }

    fn intern(&mut self, name: &[u8]) -> u32 {
        if let Some(id) = self.find(name) {
            return id;
        }
        let id = self.ends.len() as u32;
        self.bytes.extend(name);
        self.ends.push(self.bytes.len() as u32);
        self.owners.push(None);
        let (ends, bytes) = (&self.ends, &self.bytes);
        let hash = |id: &u32| {
            let start = if *id == 0 { 0 } else { ends[*id as usize - 1] };
            FxBuildHasher.hash_one(&bytes[start as usize..ends[*id as usize] as usize])
        };
        self.table.insert_unique(FxBuildHasher.hash_one(name), id, hash);
        id
    }

    pub(super) fn bytes(&self) -> (usize, usize) {
        let table = self.table.capacity() * 5 + self.ends.capacity() * 4 + self.owners.capacity() * 4;
        (table, self.bytes.capacity())
    }
}

/// The number of a text of digits; `None` if the number would print differently.
#[inline]
pub(crate) fn as_number(name: &[u8]) -> Option<u32> {
    if name.len() > 10 || !matches!(name, [b'0'] | [b'1'..=b'9', ..]) {
        return None;
    }
    let mut n = 0u64;
    for &b in name {
        if !b.is_ascii_digit() {
            return None;
        }
        n = n * 10 + u64::from(b - b'0');
    }
    // Numbers below the bit that marks texts are left for values made later.
    u32::try_from(n).ok().filter(|&n| n < GREATEST)
}

/// Splits `x.3` into `x` and 3.
fn split_suffix(name: &[u8]) -> (&[u8], Option<u64>) {
    let digits = name.iter().rev().take_while(|b| b.is_ascii_digit()).count();
    let dot = name.len() - digits;
    if digits == 0 || digits > 18 || dot < 2 || name[dot - 1] != b'.' {
        return (name, None);
    }
    let number = name[dot..].iter().fold(0, |n, b| n * 10 + u64::from(b - b'0'));
    (&name[..dot - 1], Some(number))
}

impl Graph {
    /// The label of `value`.
    #[inline]
    pub fn label(&self, value: Value) -> Label<'_> {
        match self.values[value].label.0 {
            id if id & TEXT != 0 => Label::Text(self.names.text(id & !TEXT)),
            number => Label::Number(number),
        }
    }

    /// The name of `value` as text, without the percent sign.
    pub fn name(&self, value: Value) -> String {
        match self.label(value) {
            Label::Number(n) => n.to_string(),
            Label::Text(text) => String::from_utf8_lossy(text).into_owned(),
        }
    }

    /// Whether `value` has a name.
    pub fn is_named(&self, value: Value) -> bool {
        matches!(self.label(value), Label::Text(_))
    }

    /// The value with the name or number `name`. The search for a number visits all values.
    pub fn value_named(&self, name: &[u8]) -> Option<Value> {
        match as_number(name) {
            Some(n) => self.values.keys().rev().find(|&v| self.values[v].label.0 == n && self.is_live(v)),
            None => self.owner(name),
        }
    }

    /// The value that owns a non-numeric name.
    pub(crate) fn owner(&self, name: &[u8]) -> Option<Value> {
        self.names.find(name).and_then(|id| self.names.owners[id as usize])
    }

    /// Whether the name of `value` denotes `value`: in a text that defines a name twice it denotes
    /// the later value. Numbers are not recorded; for them the result is true.
    #[inline]
    pub(crate) fn owns_name(&self, value: Value) -> bool {
        match self.values[value].label.0 {
            id @ TEXT.. => self.names.owners[(id & !TEXT) as usize] == Some(value),
            _ => true,
        }
    }

    /// Names `value` as the parser does: no value is renamed, a later owner of the same name takes
    /// over.
    pub(crate) fn name_as_read(&mut self, value: Value, name: &[u8]) {
        let label = match as_number(name) {
            Some(number) => {
                self.next_number = self.next_number.max(number + 1);
                number
            }
            None => {
                let id = self.names.intern(name);
                let previous = self.names.owners[id as usize].replace(value);
                self.names.is_odd |=
                    previous.is_some_and(|other| other != value) || name.iter().all(u8::is_ascii_digit);
                id | TEXT
            }
        };
        self.values[value].label = LabelId(label);
    }

    /// Names `value`; a previous owner of the name is renamed as in PyTorch of this era. Digits
    /// alone and the empty text remove the name.
    pub fn set_name(&mut self, value: Value, name: &[u8]) {
        self.journal(|| NameEdit::Literal(value, name.into()));
        self.rename(value, name);
    }

    fn rename(&mut self, value: Value, name: &[u8]) {
        self.touch_text();
        if name.iter().all(u8::is_ascii_digit) {
            return self.drop_name(value);
        }
        let id = self.names.intern(name);
        let previous = self.names.owners[id as usize];
        if previous == Some(value) {
            return;
        }
        self.disown(value);
        if let Some(previous) = previous {
            let other = self.free_name(name);
            let other_id = self.names.intern(&other);
            self.names.owners[other_id as usize] = Some(previous);
            self.values[previous].label = LabelId(other_id | TEXT);
        }
        self.names.owners[id as usize] = Some(value);
        self.values[value].label = LabelId(id | TEXT);
    }

    /// Removes the name of `value`; it prints as a number.
    pub fn clear_name(&mut self, value: Value) {
        self.journal(|| NameEdit::Cleared(value));
        self.drop_name(value);
    }

    fn drop_name(&mut self, value: Value) {
        self.touch_text();
        if self.is_named(value) {
            self.disown(value);
            let number = self.fresh_number();
            self.values[value].label = LabelId(number);
        }
    }

    /// Sets the number of `value`, even if another value has it: renumbering passes keep numbers
    /// distinct. Not an edit if it has that number already.
    pub fn set_number(&mut self, value: Value, number: u32) {
        self.journal(|| NameEdit::Numbered(value, number));
        self.next_number = self.next_number.max(number + 1);
        if self.values[value].label != LabelId::number(number) {
            self.touch_text();
            self.disown(value);
            self.values[value].label = LabelId::number(number);
        }
    }

    /// As [`Graph::set_number`] for a value without a name; returns whether it is one.
    pub fn set_number_if_nameless(&mut self, value: Value, number: u32) -> bool {
        let Some(journal) = self.journal.suspend() else { return self.number_if_nameless(value, number) };
        let is_nameless = self.number_if_nameless(value, number);
        self.journal.resume(journal);
        self.journal(|| NameEdit::NumberedIfNameless(value, number));
        is_nameless
    }

    fn number_if_nameless(&mut self, value: Value, number: u32) -> bool {
        let is_nameless = !self.is_named(value);
        if is_nameless {
            self.set_number(value, number);
        }
        is_nameless
    }

    /// Gives `value` the next number.
    pub(super) fn number_afresh(&mut self, value: Value) {
        self.touch_text();
        self.disown(value);
        let number = self.fresh_number();
        self.values[value].label = LabelId::number(number);
        self.journal(|| NameEdit::Fresh(value));
    }

    /// Restarts the numbers at `number` for the values made next.
    pub fn set_next_number(&mut self, number: u32) {
        self.journal(|| NameEdit::Restarted(number));
        self.next_number = number;
    }

    /// Moves the name of `from` to `to`, as PyTorch's `copyMetadata` does: only if it has one.
    pub fn move_name(&mut self, from: Value, to: Value) {
        self.journal(|| NameEdit::Moved { from, to, only_nameless: false });
        self.take_name(from, to);
    }

    /// As [`Graph::move_name`], unless `to` has a name of its own.
    pub fn move_name_to_nameless(&mut self, from: Value, to: Value) {
        self.journal(|| NameEdit::Moved { from, to, only_nameless: true });
        if !self.is_named(to) {
            self.take_name(from, to);
        }
    }

    /// Gives `copy` the name that `of`, a value of this graph, had when it was read.
    pub(super) fn copy_name(&mut self, of: Value, name: Option<&[u8]>, copy: Value) {
        self.journal(|| NameEdit::Moved { from: of, to: copy, only_nameless: false });
        if let Some(name) = name {
            self.rename(copy, name);
        }
    }

    fn take_name(&mut self, from: Value, to: Value) {
        if let Label::Text(text) = self.label(from) {
            let name = text.to_vec();
            self.rename(to, &name);
        }
    }

    /// Exchanges the names of two values.
    pub(super) fn exchange_labels(&mut self, a: Value, b: Value) {
        self.journal(|| NameEdit::Exchanged(a, b));
        let (old, new) = (self.values[a].label, self.values[b].label);
        let (owned, other) = (self.owns_name(a), self.owns_name(b));
        (self.values[a].label, self.values[b].label) = (new, old);
        for (value, label, owns) in [(a, new, other), (b, old, owned)] {
            if label.0 & TEXT != 0 && owns {
                self.names.owners[(label.0 & !TEXT) as usize] = Some(value);
            }
        }
    }

    pub(super) fn fresh_number(&mut self) -> u32 {
        let number = self.next_number;
        self.next_number += 1;
        number
    }

    /// Frees the name of a value that leaves the graph.
    pub(super) fn release_name(&mut self, value: Value) {
        self.journal(|| NameEdit::Released(value));
        self.disown(value);
    }

    pub(super) fn disown(&mut self, value: Value) {
        if let id @ TEXT.. = self.values[value].label.0 {
            let owner = &mut self.names.owners[(id & !TEXT) as usize];
            if *owner == Some(value) {
                *owner = None;
            }
        }
    }

    fn free_name(&mut self, name: &[u8]) -> Vec<u8> {
        let (base, suffix) = split_suffix(name);
        let mut n = match self.era {
            Era::V1_3 => suffix.unwrap_or(1),
            Era::V2 => suffix.unwrap_or(1).max(self.names.suffixes.get(base).map_or(1, |stored| stored + 1)),
        };
        loop {
            let candidate = [base, b".", n.to_string().as_bytes()].concat();
            n += 1;
            if self.owner(&candidate).is_none() {
                if self.era == Era::V2 {
                    self.names.suffixes.insert(base.into(), n);
                }
                return candidate;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::Type;
    use crate::types::release::Release;

    fn six_named_x(era: Era) -> (Graph, Vec<Value>) {
        let mut graph = Graph::new();
        graph.set_release(Release::of(era));
        let values: Vec<Value> = (0..6).map(|_| graph.add_param(graph.root(), Type::tensor())).collect();
        for &value in &values {
            graph.set_name(value, b"x");
        }
        (graph, values)
    }

    /// Observed by running 1.3.1, 1.4, 1.13 and 2.15 (format notes §1.2).
    #[test]
    fn a_taken_name_renames_the_old_owner_as_pytorch_does() {
        for (era, expected) in [(Era::V1_3, "x.1 x.2 x.3 x.4 x.5 x"), (Era::V2, "x.1 x.3 x.5 x.7 x.9 x")] {
            let (graph, values) = six_named_x(era);
            assert_eq!(values.iter().map(|&v| graph.name(v)).collect::<Vec<_>>().join(" "), expected);
        }
        let (mut graph, values) = six_named_x(Era::V2);
        for &value in &values {
            graph.set_name(value, b"x");
        }
        let names = values.iter().map(|&v| graph.name(v)).collect::<Vec<_>>().join(" ");
        assert_eq!(names, "x.13 x.15 x.17 x.19 x.21 x");
    }

    #[test]
    fn digits_are_a_number_only_as_numbers_print() {
        assert_eq!(as_number(b"0"), Some(0));
        assert_eq!(as_number(b"120"), Some(120));
        for odd in [&b"007"[..], b"99999999999", b"1e5", b"", b"1.2"] {
            assert_eq!(as_number(odd), None, "{odd:?}");
        }
    }
}
