//! Expressions of nests in C: what every printer of a language like C has in common.
//!
//! A printer says how its places, variables and numbers of loops are spelled; how these become
//! expressions is here, once. So a value is computed by the same operations on every target, and
//! pointwise results have the same bits.
//!
//! ```text
//! Let { value: %y, Apply { "a + b" of v_x, 0.5 } }     v_x + 0.5f
//! Set { variable: a_s, "a + x" of a_s, v_x }           a_s += v_x
//! ```

use super::c_spelling::{applied, converted, literal, narrowed, value_type, widened};
use super::expression::{Binary, Expr, Expression};
use super::nest::{Compute, Known, Nest, Operand, Origin, Place, Term, Watch};
use super::number_type::NumberType;
use super::window::{Gives, Guard};
use crate::tensor::{DType, Scalar};

/// Bytes of a slot of the state that parts of split rows leave.
pub(super) const SLOT: usize = 8;

/// How a printer spells a nest.
pub(super) trait Spelling {
    /// The nest.
    fn nest(&self) -> &Nest;

    /// A variable, as an element of its array where there are several.
    fn variable(&self, variable: usize) -> String;

    /// An element of memory.
    fn place(&self, place: Place) -> String;

    /// A number that loops know.
    fn known(&self, known: Known) -> &'static str;

    /// A variable of another thread of the block, where a target has threads.
    fn of_thread(&self, origin: Origin) -> String {
        let _ = origin;
        String::new()
    }

    /// The result of a row that an earlier launch has left in a slot.
    fn merged(&self, _slot: usize, _ty: NumberType) -> String {
        String::new()
    }

    /// A slot of the state that a part has left.
    fn found(&self, slot: usize, ty: NumberType) -> String {
        format!("*(const {ty} *)(of + {})", SLOT * slot)
    }

    /// A term.
    fn term(&self, term: &Term) -> String {
        self.expression(&term.formula.expr, term)
    }

    /// A part of a term.
    fn expression(&self, expr: &Expr, term: &Term) -> String {
        let leaf = |leaf: &Expr| match leaf {
            Expr::Integer(n) => n.to_string(),
            Expr::Float(x) => literal(Scalar::Float(*x), DType::Double),
            Expr::Typed(number) => number.spelled(),
            other => {
                let found = term.operands.iter().find(|(own, _)| other.letter() == Some(*own));
                found.map_or(String::new(), |(_, operand)| self.operand(operand))
            }
        };
        let suffix = term.ty.suffix();
        expr.print(&leaf, &|callee| callee.in_c(suffix))
    }

    /// The expression that computes a value.
    fn compute(&self, value: usize, compute: &Compute) -> String {
        match compute {
            Compute::Load(place @ Place::Access(at)) if self.nest().accesses[*at].is_written => self.place(*place),
            Compute::Load(place @ Place::Access(at)) => {
                let access = &self.nest().accesses[*at];
                let is_index = access.watch.is_some_and(|watch| watch.gives == Gives::Index);
                let element = self.place(*place);
                self.watched(*at, if is_index { element } else { widened(&element, access.dtype) })
            }
            Compute::Load(place) => self.place(*place),
            Compute::Apply { formula, computed, operands, rounded } => {
                let text = self.formula(formula, (*computed, self.nest().values[value].dtype), operands);
                rounded_to(text, *rounded)
            }
            Compute::Finish { term, rounded } => {
                let ty = value_type(self.nest().values[value].dtype);
                rounded_to(format!("({ty})({})", self.term(term)), *rounded)
            }
        }
    }

    /// A load of an element of a window, which is `element` inside of the operand.
    fn watched(&self, at: usize, element: String) -> String {
        let access = &self.nest().accesses[at];
        let Some(Watch { gives, guard }) = access.watch else { return element };
        let inside = match guard {
            Guard::None => None,
            Guard::Row | Guard::RowUnder => Some(format!("ok{at}")),
            Guard::Point => Some(format!("(i >= l{at} && i < e{at})")),
            Guard::PointUnder(divisor, limit) if limit < divisor => {
                Some(format!("(i >= l{at} && i < e{at} && (i + q{at}) % {divisor} < {limit})"))
            }
            Guard::PointUnder(..) => Some(format!("(i >= l{at} && i < e{at})")),
        };
        match (gives, inside) {
            (Gives::Presence { .. }, inside) => inside.unwrap_or_else(|| "1".to_owned()),
            (Gives::Element(_) | Gives::Index, None) | (Gives::Part, _) => element,
            (Gives::Index, Some(inside)) => format!("{inside} ? {element} : -1"),
            (Gives::Element(outside), Some(inside)) => {
                format!("{inside} ? {element} : {}", literal(outside.value(access.dtype), access.dtype))
            }
        }
    }

    /// A formula in its types.
    fn formula(&self, formula: &Expression, types: (DType, DType), operands: &[(char, Operand)]) -> String {
        let operand = |letter: char| {
            let found = operands.iter().find(|(own, _)| *own == letter);
            found.map_or(String::new(), |(_, operand)| self.operand(operand))
        };
        applied(formula, types, &operand)
    }

    /// A value as an expression, constants as numbers of a type.
    fn origin(&self, origin: Origin, dtype: DType) -> String {
        match origin {
            Origin::Value(value) => self.nest().values[value].name.clone(),
            Origin::Constant(scalar) => literal(scalar, dtype),
            Origin::Float(k) => format!("float{k}"),
            Origin::Integer(k) => format!("integer{k}"),
            Origin::Variable(variable) => self.variable(variable),
            Origin::Known(known) => self.known(known).to_owned(),
            Origin::Partner(_) | Origin::OfFirst(_) | Origin::OfWarp(_) => self.of_thread(origin),
            Origin::Before(_) | Origin::OfLane(..) | Origin::OfWarpBefore(_) => self.of_thread(origin),
            Origin::Found(slot, ty) => self.found(slot, ty),
            Origin::Merged(slot, ty) => self.merged(slot, ty),
        }
    }

    /// An operand of a formula: constants are numbers of the type that it is read in.
    fn operand(&self, operand: &Operand) -> String {
        match operand.origin {
            Origin::Constant(scalar) => literal(scalar, operand.to),
            origin => converted(&self.origin(origin, operand.from), operand.from, operand.to),
        }
    }

    /// The expression that is written to a location.
    fn stored(&self, to: Place, operand: &Operand) -> String {
        let value = converted(&self.origin(operand.origin, operand.from), operand.from, operand.to);
        match to {
            Place::Access(at) => narrowed(value, self.nest().accesses[at].dtype),
            Place::Buffer(_) => value,
        }
    }

    /// The operand that a variable gets and the operator of C that takes it there, where its new
    /// value begins with the variable itself: `a_s += v_x`.
    fn updated<'t>(&self, variable: usize, term: &'t Term) -> Option<(&'static str, &'t Expr)> {
        let is_own = |part: &Expr| {
            let found = part.letter().and_then(|letter| term.operands.iter().find(|(other, _)| *other == letter));
            found.is_some_and(|(_, operand)| operand.origin == Origin::Variable(variable))
        };
        match &term.formula.expr {
            Expr::Binary(operator @ (Binary::Plus | Binary::Times | Binary::Or), two) if is_own(&two[0]) => {
                Some((operator.spelling(), &two[1]))
            }
            _ => None,
        }
    }

    /// Sets a variable, with the operator of C that does so where it begins with the variable.
    fn set(&self, variable: usize, term: &Term) -> String {
        let own = self.variable(variable);
        match self.updated(variable, term) {
            Some((operator, rest)) => format!("{own} {operator}= {};", self.expression(rest, term)),
            None => format!("{own} = {};", self.term(term)),
        }
    }
}

/// A value, rounded as if it were written to memory.
fn rounded_to(text: String, rounded: Option<DType>) -> String {
    match rounded {
        Some(dtype) => converted(&format!("({text})"), DType::Float, dtype),
        None => text,
    }
}
