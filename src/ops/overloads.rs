//! Which overload a node means.
//!
//! The text of IR has no overload names, PyTorch finds them by the types of the operands. It tries the candidates in the
//! order in which they were registered, which depends on the build and is not recorded in its list of schemas. Instead the
//! candidate wins that needs the fewest conversions: `aten::eq(int, int)` before `aten::eq(Scalar, Scalar)`,
//! `aten::len(Tensor[])` before `aten::len(t[])`. Where several need as few, the one first in the list wins.
//!
//! As in PyTorch an operand stands for every formal, defaults are not filled in; a subtype may stand for its supertype,
//! `T` and `NoneType` for `T?`, int, float and complex for `Scalar`, and type variables stand for one type throughout.
//! Graphs that PyTorch printed hold more than that, because its passes do not check again what they build, and because
//! what a formal accepts widened between versions. So three conversions are also made, and count as such:
//! a bool for an int (`aten::sum`'s flags in gradient formulas), `Tensor[]` for `Tensor?[]`, and a value whose type was lost
//! (`Any`) or widened (`T?` for `T`) for anything it may hold. An era is not one version: where nothing in the list of the
//! era matches, the list of the other era is tried.

use super::Operator;
use super::schema::Schema;
use crate::types::relations::Bindings;
use crate::types::{Simple, Type, TypeKind};
use std::fmt;

/// What came of looking for the overload of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Resolution {
    /// This one.
    Found(&'static Schema),
    /// The kind is not known.
    NoSchema,
    /// The kind is known, and no overload takes these operands: why not, one by one.
    NoMatch(Vec<Mismatch>),
}

impl Resolution {
    /// The schema, when there is one.
    pub fn schema(&self) -> Option<&'static Schema> {
        if let Resolution::Found(schema) = self { Some(schema) } else { None }
    }
}

/// Why an overload does not take some operands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mismatch {
    /// The overload.
    pub schema: &'static Schema,
    /// Why not.
    pub reason: Reason,
}

/// What is wrong with the operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// There are so many of them.
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

/// What a conversion costs. Exact is nothing; a type that says less than nothing costs most.
mod cost {
    pub const SUBTYPE: u32 = 1;
    pub const VARIABLE: u32 = 2;
    pub const ANY: u32 = 4;
    pub const LENIENT: u32 = 1000;
}

impl Operator {
    /// The overload that takes operands of these types.
    pub fn resolve(&self, operands: &[Type]) -> Resolution {
        if let [schema] = self.schemas
            && schema.vararg
            && schema.formals.is_empty()
        {
            return Resolution::Found(schema);
        }
        let found = best(self.schemas, operands).or_else(|| best(self.elsewhere(), operands));
        match found {
            Some(schema) => Resolution::Found(schema),
            None if self.schemas.is_empty() => Resolution::NoSchema,
            None => Resolution::NoMatch(self.schemas.iter().filter_map(|s| mismatch(s, operands)).collect()),
        }
    }
}

fn best(schemas: &'static [Schema], operands: &[Type]) -> Option<&'static Schema> {
    let priced = schemas.iter().filter_map(|schema| match price(schema, operands) {
        Ok(price) => Some((price, schema)),
        Err(_) => None,
    });
    priced.min_by_key(|(price, _)| *price).map(|(_, schema)| schema)
}

fn mismatch(schema: &'static Schema, operands: &[Type]) -> Option<Mismatch> {
    price(schema, operands).err().map(|reason| Mismatch { schema, reason })
}

/// What it costs to pass these operands to this overload.
fn price(schema: &Schema, operands: &[Type]) -> Result<u32, Reason> {
    let (given, taken) = (operands.len(), schema.formals.len());
    if given < taken || given > taken && !schema.vararg {
        return Err(Reason::Count(given));
    }
    let mut bindings = Bindings::default();
    let mut total = 0;
    for (i, (formal, &actual)) in schema.formals.iter().zip(operands).enumerate() {
        total += conversion(formal.ty, actual, &mut bindings).ok_or(Reason::Operand(i, actual))?;
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
    if formal.accepts(actual, bindings) {
        let variable = has_variable(formal);
        return Some(if variable { cost::VARIABLE } else { cost::SUBTYPE * u32::from(!formal.same_erased(actual)) });
    }
    is_lenient(formal, actual, bindings).then_some(cost::LENIENT)
}

fn has_variable(ty: Type) -> bool {
    matches!(ty.kind(), TypeKind::Var(_)) || ty.parts().into_iter().any(has_variable)
}

/// What PyTorch's own passes pass and its matching would refuse; see the head of this file.
fn is_lenient(formal: Type, actual: Type, bindings: &mut Bindings) -> bool {
    use TypeKind::{List, Optional};
    match (formal.kind(), actual.kind()) {
        (_, Optional(inner)) => conversion(formal, *inner, bindings).is_some(),
        (Optional(inner), _) => is_lenient(*inner, actual, bindings),
        (List(f), List(a)) => matches!(f.kind(), Optional(f) if f.same_erased(*a)),
        _ if actual.is(Simple::Any) => true,
        _ => actual.is(Simple::Bool) && Type::int().is_subtype_of(formal),
    }
}
