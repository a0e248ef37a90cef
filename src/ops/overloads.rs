//! Overload resolution.
//!
//! The text of IR has no overload names; PyTorch finds overloads by the types of the operands. It
//! tries the candidates in the order of registration, which depends on the build and is not in its
//! list of schemas. Here the candidate with the fewest conversions wins: `aten::eq(int, int)`
//! before `aten::eq(Scalar, Scalar)`, `aten::len(Tensor[])` before `aten::len(t[])`. Among
//! candidates with equally few, the first in the list wins.
//!
//! As in PyTorch every formal has an operand, defaults are not filled in; a subtype is accepted for
//! its supertype, `T` and `NoneType` for `T?`, int, float and complex for `Scalar`, and a type
//! variable denotes one type throughout. Graphs that PyTorch printed contain more than that,
//! because its passes do not recheck the graphs they build. Some further conversions are therefore
//! accepted if nothing else matches: bool and int for each other (`prim::AutogradAnyNonZero` is
//! declared to return an int, and `prim::If` takes it), `Tensor[]` for `Tensor?[]`, and a value
//! whose type was lost (`Any`) or widened (`T?` for `T`) for any type that it may have.
//!
//! An era covers several versions. If nothing in the list of the era matches, the overloads of
//! other versions are tried before those conversions.
//!
//! Of the 234,596 nodes of graphs printed by 1.3.1, 1.4.0, 1.13.1 and 2.15.0 in the measurement,
//! 234,556 resolve. The others are from graphs after `erase_number_types`, where numbers are
//! tensors ([`Operator::resolve_erased`] accepts those), `onnx::` kinds, and patterns that cannot
//! run (`aten::addcmul` without its value).

use super::Operator;
use super::schema::Schema;
use crate::types::relations::Bindings;
use crate::types::{Simple, Type, TypeKind};
use std::fmt;

/// The result of overload resolution.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Resolution {
    /// The overload.
    Found(&'static Schema),
    /// The kind is unknown.
    NoSchema,
    /// The kind is known, and no overload takes these operands: the reason for each.
    NoMatch(Vec<Mismatch>),
}

impl Resolution {
    /// The schema, if one was found.
    pub fn schema(&self) -> Option<&'static Schema> {
        if let Resolution::Found(schema) = self { Some(schema) } else { None }
    }
}

/// The reason why an overload does not take some operands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mismatch {
    /// The overload.
    pub schema: &'static Schema,
    /// The reason.
    pub reason: Reason,
}

/// The mismatch of the operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// Their number.
    Count(usize),
    /// The type of one of them.
    Operand(usize, Type),
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.reason {
            Reason::Count(n) => {
                let (least, more) = (self.schema.formals.len(), if self.schema.vararg { " or more" } else { "" });
                write!(f, "`{}` takes {least}{more} operands, not {n}", self.schema)
            }
            Reason::Operand(i, ty) => {
                let formal = &self.schema.formals[i];
                write!(f, "`{}`: operand {i} (`{}`) is a `{ty}`, not a `{}`", self.schema, formal.name, formal.ty)
            }
        }
    }
}

/// The cost of a conversion. An exact match costs nothing, a type with lost information the most.
mod cost {
    pub(crate) const SUBTYPE: u32 = 1;
    pub(crate) const VARIABLE: u32 = 2;
    pub(crate) const ANY: u32 = 4;
    pub(crate) const LENIENT: u32 = 1000;
}

impl Operator {
    /// The overload for operands of these types.
    pub fn resolve(&self, operands: &[Type]) -> Resolution {
        self.find(operands, Numbers::Kept)
    }

    /// As [`Operator::resolve`], for graphs in which numbers became tensors: a tensor is then
    /// accepted for a number, and the choice between overloads that differ in numbers alone is a
    /// guess.
    pub fn resolve_erased(&self, operands: &[Type]) -> Resolution {
        self.find(operands, Numbers::Erased)
    }

    fn find(&self, operands: &[Type], numbers: Numbers) -> Resolution {
        let ours = best(self.schemas, operands, numbers);
        let found = match ours {
            Some((price, _)) if price < cost::LENIENT => ours,
            // The first of equal costs wins: the declared order.
            _ => ours.into_iter().chain(best(self.elsewhere(), operands, numbers)).min_by_key(|(price, _)| *price),
        };
        match found {
            Some((_, schema)) => Resolution::Found(schema),
            None if self.schemas.is_empty() => Resolution::NoSchema,
            None => Resolution::NoMatch(self.schemas.iter().filter_map(|s| mismatch(s, operands, numbers)).collect()),
        }
    }
}

impl Schema {
    /// The types of the results for operands of these types.
    pub fn result_types(&self, operands: &[Type]) -> Vec<Type> {
        let mut bindings = Bindings::default();
        for (formal, &actual) in self.formals.iter().zip(operands) {
            conversion(formal.ty, actual, &mut bindings);
        }
        self.returns.iter().map(|formal| formal.ty.substituted(&bindings)).collect()
    }
}

/// The cost of passing a value of type `actual` for a formal, if it can be passed. Type variables
/// are bound as arguments are matched in order.
pub fn conversion_cost(formal: Type, actual: Type, bindings: &mut Bindings) -> Option<u32> {
    conversion(formal, actual, bindings)
}

/// Whether one of these overloads takes operands of these types, as PyTorch's reader checks.
pub(crate) fn accepts(schemas: &[Schema], operands: &[Type]) -> bool {
    schemas.iter().any(|schema| price(schema, operands, Numbers::Kept).is_ok_and(|price| price < cost::LENIENT))
}

/// Whether numbers are numbers, or tensors of rank 0 as after `erase_number_types`.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Numbers {
    Kept,
    Erased,
}

fn best(schemas: &'static [Schema], operands: &[Type], numbers: Numbers) -> Option<(u32, &'static Schema)> {
    let priced = schemas.iter().filter_map(|schema| Some((price(schema, operands, numbers).ok()?, schema)));
    priced.min_by_key(|(price, _)| *price)
}

fn mismatch(schema: &'static Schema, operands: &[Type], numbers: Numbers) -> Option<Mismatch> {
    price(schema, operands, numbers).err().map(|reason| Mismatch { schema, reason })
}

/// The cost of passing these operands to this overload.
fn price(schema: &Schema, operands: &[Type], numbers: Numbers) -> Result<u32, Reason> {
    let (given, taken) = (operands.len(), schema.formals.len());
    if given < taken || given > taken && !schema.vararg {
        return Err(Reason::Count(given));
    }
    let mut bindings = Bindings::default();
    let mut total = 0;
    for (i, (formal, &actual)) in schema.formals.iter().zip(operands).enumerate() {
        let erased = || (numbers == Numbers::Erased && actual.is_tensor()).then_some(cost::LENIENT);
        total += conversion(formal.ty, actual, &mut bindings).or_else(erased).ok_or(Reason::Operand(i, actual))?;
    }
    Ok(total)
}

fn conversion(formal: Type, actual: Type, bindings: &mut Bindings) -> Option<u32> {
    if formal == actual || formal.is_tensor() && actual.is_tensor() {
        return Some(0);
    }
    if formal.is(Simple::Any) {
        return Some(cost::ANY);
    }
    if !formal.accepts(actual, bindings) {
        return is_lenient(formal, actual, bindings).then_some(cost::LENIENT);
    }
    Some(match () {
        () if has_variable(formal) => cost::VARIABLE,
        () if formal.same_erased(actual) => 0,
        () => cost::SUBTYPE,
    })
}

fn has_variable(ty: Type) -> bool {
    matches!(ty.kind(), TypeKind::Var(_)) || ty.parts().into_iter().any(has_variable)
}

/// Conversions that PyTorch's own passes rely on and its matching would refuse; see the head of
/// this file.
fn is_lenient(formal: Type, actual: Type, bindings: &mut Bindings) -> bool {
    use TypeKind::{List, Optional};
    match (formal.kind(), actual.kind()) {
        (_, Optional(inner)) => conversion(formal, *inner, bindings).is_some(),
        (Optional(inner), _) => is_lenient(*inner, actual, bindings),
        (List(f), List(a)) => matches!(f.kind(), Optional(f) if f.same_erased(*a)),
        _ if actual.is(Simple::Any) => true,
        _ if formal.is(Simple::Bool) => actual.is(Simple::Int),
        _ => actual.is(Simple::Bool) && Type::int().is_subtype_of(formal),
    }
}

#[cfg(test)]
mod tests {
    use crate::ops::{operator, overloads::Resolution};
    use crate::symbol::Symbol;
    use crate::types::Type;
    use crate::types::era::Era::{self, V1_3, V2};
    use crate::types::spelling::parse_all;

    fn types(list: &str) -> Vec<Type> {
        list.split_whitespace().map(|ty| parse_all(ty.as_bytes()).expect(ty)).collect()
    }

    fn resolved(era: Era, kind: &str, operands: &str) -> String {
        match operator(era, Symbol::new(kind)).resolve(&types(operands)) {
            Resolution::Found(schema) => schema.text(era),
            Resolution::NoSchema => "no schema".to_owned(),
            Resolution::NoMatch(why) => why.first().map_or(String::new(), ToString::to_string),
        }
    }

    #[test]
    fn the_overload_that_needs_the_fewest_conversions_wins() {
        for (era, kind, operands, starts) in [
            (V2, "aten::add", "Float(2) Tensor int", "aten::add.Tensor(Tensor self, Tensor"),
            (V2, "aten::add", "Tensor float int", "aten::add.Scalar(Tensor self, Scalar"),
            (V2, "aten::add", "int int", "aten::add.int("),
            (V2, "aten::add", "int[] int[]", "aten::add.t("),
            (V1_3, "aten::add", "int[] int[]", "aten::add(int[]"),
            (V1_3, "aten::len", "Tensor[]", "aten::len(Tensor[]"),
            (V1_3, "aten::__getitem__", "Float(2)[] int", "aten::__getitem__(Tensor[](a)"),
            (V2, "aten::__getitem__", "str[] int", "aten::__getitem__.t("),
            (V2, "aten::eq", "int Scalar", "aten::eq(Scalar"),
            (V2, "aten::sum", "Tensor int[] bool NoneType", "aten::sum.dim_IntList("),
            (V1_3, "aten::sum", "Tensor int", "aten::sum(Tensor self, *, int? dtype"),
            (V2, "aten::index", "Tensor Tensor[]", "aten::index.Tensor_hacked_twin("),
            (V1_3, "aten::index", "Tensor Tensor[]", "aten::index.Tensor(Tensor self, Tensor[]"),
            (V2, "prim::If", "int", "prim::If("),
            (V2, "prim::TupleConstruct", "int str Tensor", "prim::TupleConstruct(..."),
        ] {
            let found = resolved(era, kind, operands);
            assert!(found.starts_with(starts), "{kind} {operands}: {found}");
        }
    }

    #[test]
    fn versions_in_between_have_operators_of_both_lists_and_of_their_own() {
        for (era, kind, operands) in [
            (V1_3, "aten::clone", "Tensor NoneType"),
            (V1_3, "aten::zeros_like", "Tensor NoneType"),
            (V2, "aten::to_dense", "Tensor NoneType"),
            (V2, "prim::shape", "Tensor"),
        ] {
            assert!(resolved(era, kind, operands).starts_with(kind), "{kind}");
        }
    }

    #[test]
    fn mismatches_have_a_reason() {
        assert_eq!(resolved(V2, "my::op", "Tensor"), "no schema");
        let count = "`aten::relu(Tensor self) -> Tensor` takes 1 operands, not 3";
        assert_eq!(resolved(V2, "aten::relu", "Tensor int Tensor"), count);
        let operand = "`aten::relu(Tensor self) -> Tensor`: operand 0 (`self`) is a `str`, not a `Tensor`";
        assert_eq!(resolved(V2, "aten::relu", "str"), operand);
    }

    #[test]
    fn erased_numbers_are_taken_only_on_request() {
        let (cat, operands) = (operator(V2, Symbol::new("aten::cat")), types("Tensor[] Long(device=cpu)"));
        assert!(cat.resolve(&operands).schema().is_none());
        assert!(cat.resolve_erased(&operands).schema().is_some());
    }
}
