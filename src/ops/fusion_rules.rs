//! The column of the operator table for operators that can be part of a pointwise kernel.
//!
//! A row names elementwise overloads of the kind of its [`super::rows::Row`]. Level 1 is the set of
//! PyTorch's legacy fuser, in 1.3 as in 2.x except `aten::logit`, which came later. Level 2 adds
//! pointwise operators that PyTorch's fuser leaves out without necessity, and reductions.

use super::recipes::recipes;
use super::rows::row;
use super::schema::Schema;
use crate::ir::Attribute;
use crate::symbol::Symbol;
use crate::tensor::gemm::Function;
use rustc_hash::FxHashMap;
use std::cell::RefCell;

/// The function of an operator, given the constants among its operands after the first.
pub type Epilogue = fn(&[&Attribute]) -> Option<Function>;

/// One row.
#[derive(Debug)]
pub struct FusionRow {
    /// The overloads that it applies to, by name.
    pub overloads: &'static [&'static str],
    /// The lowest fuser level that takes them.
    pub level: u8,
    /// Whether the first tensor alone determines the sizes of the result; otherwise all are
    /// broadcast together.
    pub like_first: bool,
    /// Whether it is a reduction, see [`super::recipes`].
    pub reduces: bool,
    /// Whether it combines the elements under a window, see [`super::window_rules`].
    pub slides: bool,
    /// Whether it reads no element, only the sizes of the first tensor: not worth a kernel of its
    /// own.
    pub fills: bool,
    /// The reason why no level takes them, if none does.
    pub untaken: Option<&'static str>,
    /// The function that the epilogue of a library call computes for them, if one does.
    pub epilogue: Option<Epilogue>,
}

impl FusionRow {
    pub(super) const fn level(self, level: u8) -> FusionRow {
        FusionRow { level, ..self }
    }

    pub(super) const fn like_first(self) -> FusionRow {
        FusionRow { like_first: true, ..self }
    }

    pub(super) const fn reduces(self) -> FusionRow {
        FusionRow { reduces: true, level: 2, ..self }
    }

    pub(super) const fn slides(self) -> FusionRow {
        FusionRow { slides: true, level: 2, ..self }
    }

    /// Whether each element of the result is computed from one element of each operand.
    pub fn is_pointwise(&self) -> bool {
        !self.reduces && !self.slides
    }

    pub(super) const fn fills(self) -> FusionRow {
        FusionRow { fills: true, like_first: true, ..self }
    }

    pub(super) const fn epilogue(self, epilogue: Epilogue) -> FusionRow {
        FusionRow { epilogue: Some(epilogue), ..self }
    }

    fn fits(&self, schema: &Schema) -> bool {
        let is_computed = match (self.reduces, self.slides) {
            (true, _) => !recipes(schema).is_empty(),
            (_, true) => schema.returns.iter().all(|result| result.ty.is_tensor()),
            _ => {
                schema.formals.iter().any(|formal| formal.ty.is_tensor())
                    && schema.returns.len() == 1
                    && schema.returns[0].ty.is_tensor()
            }
        };
        is_computed && self.overloads.contains(&schema.overload)
    }
}

/// Pointwise overloads that level 1 takes.
pub(super) const fn fused(overloads: &'static [&'static str]) -> FusionRow {
    FusionRow {
        overloads,
        level: 1,
        like_first: false,
        reduces: false,
        slides: false,
        fills: false,
        untaken: None,
        epilogue: None,
    }
}

/// Pointwise overloads that no level takes, for this reason.
pub(super) const fn unfused(overloads: &'static [&'static str], why: &'static str) -> FusionRow {
    FusionRow { untaken: Some(why), ..fused(overloads) }
}

/// The row of an overload; `None` if it cannot be part of a kernel. The first lookup of an overload
/// searches the table.
pub fn fusion_row(schema: &'static Schema) -> Option<&'static FusionRow> {
    thread_local! {
        static SEEN: RefCell<FxHashMap<*const Schema, Option<&'static FusionRow>>> = RefCell::default();
    }
    SEEN.with_borrow_mut(|seen| *seen.entry(schema).or_insert_with(|| taken(schema)))
}

fn taken(schema: &Schema) -> Option<&'static FusionRow> {
    of(schema.kind).iter().find(|row| row.untaken.is_none() && row.fits(schema))
}

/// The rows of a kind.
fn of(kind: Symbol) -> &'static [FusionRow] {
    row(kind).and_then(|row| row.fusion.known()).unwrap_or_default()
}

/// The function that the epilogue of a library call computes for a kind.
pub(super) fn epilogue(kind: Symbol) -> Option<Epilogue> {
    of(kind).iter().find_map(|row| row.epilogue)
}

/// The reason why no level takes a pointwise overload; `None` if a level does, or if it is not
/// pointwise.
pub fn untaken(schema: &Schema) -> Option<&'static str> {
    let is_pointwise = schema.returns.len() == 1 && schema.returns[0].ty.is_tensor();
    let fits = |row: &&FusionRow| is_pointwise && row.untaken.is_some() && row.overloads.contains(&schema.overload);
    of(schema.kind).iter().find(fits).and_then(|row| row.untaken)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops;
    use crate::ops::rows::rows;
    use crate::types::era::Era;
    use std::collections::BTreeSet;

    fn declared(kind: &str) -> Vec<&'static Schema> {
        let eras = [Era::V1_3, Era::V2];
        eras.iter().flat_map(|&era| ops::operator(era, Symbol::new(kind)).schemas).collect()
    }

    /// Each overload of each row, and the row.
    fn all() -> impl Iterator<Item = (&'static str, &'static str, &'static FusionRow)> {
        let named = |row: &'static FusionRow, kind| row.overloads.iter().map(move |overload| (kind, *overload, row));
        rows().flat_map(move |of| of.fusion.known().unwrap_or_default().iter().flat_map(move |row| named(row, of.kind)))
    }

    #[test]
    fn each_overload_of_a_row_is_declared_and_stands_in_one_row() {
        let mut seen = BTreeSet::new();
        for (kind, overload, row) in all() {
            let found = declared(kind).into_iter().find(|s| s.overload == overload && row.fits(s));
            assert!(found.is_some(), "{kind}.{overload} is not declared, or not pointwise, or has no recipe");
            // 1.3 has one overload without a name for a number and a tensor.
            assert!(seen.insert((kind, overload)), "{kind}.{overload} has two rows");
        }
    }

    #[test]
    fn operators_that_no_level_fuses_have_a_reason() {
        for (kind, overload, row) in all().filter(|(.., row)| row.untaken.is_some()) {
            let mut overloads = declared(kind).into_iter().filter(|s| s.overload == overload);
            assert!(overloads.any(|schema| untaken(schema) == row.untaken && fusion_row(schema).is_none()), "{kind}");
        }
    }

    #[test]
    fn sorting_and_scalar_operators_have_no_row() {
        for (kind, overload) in
            [("aten::median", "dim"), ("aten::sum", "int"), ("aten::round", "decimals"), ("aten::add", "int")]
        {
            let all = declared(kind);
            let found: Vec<_> = all.iter().filter(|s| s.overload == overload).collect();
            assert!(!found.is_empty(), "{kind}.{overload}");
            assert!(found.iter().all(|schema| fusion_row(schema).is_none()), "{kind}.{overload}");
        }
    }
}
