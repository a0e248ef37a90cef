//! Interned names: operator kinds, attribute names, class names, devices.
//!
//! A [`Symbol`] is four bytes and compared as a number. The names that the code itself mentions
//! have fixed numbers, see [`prim`], [`aten`] and [`attr`]; the others are numbered as they occur.
//! Names live as long as the process, which is bounded by the distinct names of the files that were
//! read.

mod known;

pub use known::{aten, attr, library, prim};

use hashbrown::HashTable;
use rustc_hash::FxBuildHasher;
use std::fmt;
use std::hash::BuildHasher;
use std::sync::{LazyLock, RwLock};

/// An interned name.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Symbol(u32);

struct Interner {
    table: HashTable<u32>,
    names: Vec<&'static str>,
}

static INTERNER: LazyLock<RwLock<Interner>> = LazyLock::new(|| {
    let mut interner = Interner { table: HashTable::with_capacity(1024), names: Vec::with_capacity(1024) };
    for name in known::all() {
        interner.add(name);
    }
    RwLock::new(interner)
});

fn hash(name: &str) -> u64 {
    FxBuildHasher.hash_one(name)
}

impl Interner {
    fn find(&self, name: &str) -> Option<u32> {
        self.table.find(hash(name), |&i| self.names[i as usize] == name).copied()
    }

    fn add(&mut self, name: &'static str) -> u32 {
        let id = self.names.len() as u32;
        self.names.push(name);
        let names = &self.names;
        self.table.insert_unique(hash(name), id, |&i| hash(names[i as usize]));
        id
    }
}

impl Symbol {
    /// The symbol of `name`, created when it is new.
    pub fn new(name: &str) -> Symbol {
        if let Some(symbol) = Symbol::existing(name) {
            return symbol;
        }
        let mut interner = INTERNER.write().expect("no holder of this lock panics");
        // Another thread may have added it between the two locks.
        let id = interner.find(name).unwrap_or_else(|| interner.add(String::leak(name.to_owned())));
        Symbol(id)
    }

    /// The symbol of `name` when there is one.
    pub(crate) fn existing(name: &str) -> Option<Symbol> {
        INTERNER.read().expect("no holder of this lock panics").find(name).map(Symbol)
    }

    /// The symbol of a fixed number.
    const fn fixed(id: u32) -> Symbol {
        Symbol(id)
    }

    /// The name.
    pub fn as_str(self) -> &'static str {
        match known::text(self.0 as usize) {
            Some(text) => text,
            None => INTERNER.read().expect("no holder of this lock panics").names[self.0 as usize],
        }
    }

    /// An index for side tables.
    pub fn index(self) -> usize {
        self.0 as usize
    }

    /// `aten` of `aten::add`; empty without `::`.
    pub(crate) fn namespace(self) -> &'static str {
        self.as_str().split_once("::").map_or("", |(ns, _)| ns)
    }

    /// `add` of `aten::add`; the whole name without `::`.
    pub fn short(self) -> &'static str {
        let text = self.as_str();
        text.split_once("::").map_or(text, |(_, name)| name)
    }
}

impl fmt::Display for Symbol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for Symbol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_names_have_their_fixed_numbers() {
        for (i, name) in known::all().enumerate() {
            assert_eq!(Symbol::new(name), Symbol(i as u32), "{name} is listed twice");
        }
        assert_eq!(Symbol::new("prim::Constant"), prim::CONSTANT);
        assert_eq!(prim::CONSTANT.as_str(), "prim::Constant");
    }

    #[test]
    fn a_name_is_one_symbol_in_all_threads() {
        let names: Vec<String> = (0..500).map(|i| format!("my::op{i}")).collect();
        let ids = || names.iter().map(|n| Symbol::new(n)).collect::<Vec<_>>();
        let (a, b) = std::thread::scope(|s| (s.spawn(ids).join(), s.spawn(ids).join()));
        assert_eq!(a.ok(), b.ok());
        assert_eq!(Symbol::new("my::op7").namespace(), "my");
        assert_eq!(Symbol::new("my::op7").short(), "op7");
    }
}
