//! Chooses the overload of an operator that a call means, and its operands.
//!
//! ```text
//! torch.add(x, 1)  =>  aten::add.Scalar(Tensor self, Scalar other, Scalar alpha=1): x, 1, 1
//! ```
//!
//! As in PyTorch an overload is tried with the arguments as they are, before any is tried with
//! tensors converted to numbers.

use crate::source_error::{Result, fail};
use jitopt_core::ops::Operator;
use jitopt_core::ops::overloads::conversion_cost;
use jitopt_core::ops::schema::{Formal, Schema};
use jitopt_core::types::relations::Bindings;
use jitopt_core::types::{Simple, Type, TypeKind};

/// An operand of the chosen overload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operand {
    /// The argument of this number.
    Given(usize),
    /// The argument, a tensor, as a number: `aten::IntImplicit` and the like.
    Converted(usize, &'static str),
    /// The default of the formal of this number.
    Default(usize),
}

/// An overload with its operands.
#[derive(Debug)]
pub(crate) struct Choice {
    pub(crate) schema: &'static Schema,
    pub(crate) operands: Vec<Operand>,
}

impl Choice {
    /// Arguments for formals that have defaults. Of two overloads that fit, PyTorch registers the
    /// one first that requires what is given: `std.dim(Tensor self, int[1]? dim, ...)` before
    /// `std.correction(Tensor self, int[1]? dim=None, ...)`.
    fn given_optionals(&self) -> usize {
        let is_default = |operand: &Operand| matches!(operand, Operand::Default(_));
        let formals = self.operands.iter().zip(&self.schema.formals);
        formals.filter(|(operand, formal)| !is_default(operand) && formal.default.is_some()).count()
    }
}

/// The arguments of a call: types by position, then those with names.
pub(crate) struct Arguments<'a> {
    pub(crate) types: Vec<Type>,
    /// Names of the last ones.
    pub(crate) names: Vec<&'a str>,
}

impl Arguments<'_> {
    fn positional(&self) -> usize {
        self.types.len() - self.names.len()
    }
}

/// Costs from here on are those of conversions that PyTorch's own matching would refuse.
const LENIENT: u32 = 1000;

/// Chooses the overload; the reason of a failure lists what was tried. Overloads of other releases
/// are tried where those of the era do not fit.
pub(crate) fn choose(operator: &Operator, arguments: &Arguments<'_>) -> Result<Choice> {
    let schemas = || operator.schemas.iter().chain(operator.elsewhere());
    for converts in [false, true] {
        // The first of equally good ones, in the order of the list.
        let ours = best(operator.schemas.iter(), arguments, converts);
        if let Some((0..LENIENT, choice)) = ours {
            return Ok(choice);
        }
        if let Some((_, choice)) = best(schemas(), arguments, converts) {
            return Ok(choice);
        }
    }
    if operator.schemas.is_empty() {
        return fail(format!("the operator `{}` is not known", operator.kind));
    }
    let tried =
        schemas().filter_map(|schema| fit(schema, arguments, false).err().map(|why| format!("{schema}: {why}")));
    let tried: Vec<String> = tried.take(MOST_LISTED).collect();
    fail(format!("no overload of `{}` takes these arguments\n  {}", operator.kind, tried.join("\n  ")))
}

fn best(
    schemas: impl Iterator<Item = &'static Schema>,
    arguments: &Arguments<'_>,
    converts: bool,
) -> Option<(u32, Choice)> {
    let fitting = schemas.filter_map(|schema| fit(schema, arguments, converts).ok());
    fitting.min_by_key(|(cost, choice)| (*cost, choice.given_optionals()))
}

/// Overloads that a message lists.
const MOST_LISTED: usize = 4;

fn fit(
    schema: &'static Schema,
    arguments: &Arguments<'_>,
    converts: bool,
) -> std::result::Result<(u32, Choice), String> {
    let mut bindings = Bindings::default();
    let (mut operands, mut total, mut next, mut named) = (Vec::new(), 0, 0, 0);
    for (number, formal) in schema.formals.iter().enumerate() {
        let by_name = arguments.names.iter().position(|name| *name == formal.name);
        let at = match by_name {
            Some(at) => {
                named += 1;
                Some(arguments.positional() + at)
            }
            None if next < arguments.positional() && number < schema.positional => {
                next += 1;
                Some(next - 1)
            }
            None => None,
        };
        let Some(at) = at else {
            if formal.default.is_none() {
                return Err(format!("`{}` is missing", formal.name));
            }
            operands.push(Operand::Default(number));
            continue;
        };
        let given = arguments.types[at];
        match conversion_cost(formal.ty, given, &mut bindings) {
            Some(cost) => {
                total += cost;
                operands.push(Operand::Given(at));
            }
            None => match implicit(formal, given).filter(|_| converts) {
                Some(conversion) => operands.push(Operand::Converted(at, conversion)),
                None => return Err(format!("`{}` is a `{given}`", formal.name)),
            },
        }
    }
    if named < arguments.names.len() {
        return Err("it has no parameter of a name that is given".to_owned());
    }
    if next < arguments.positional() {
        if !schema.vararg {
            return Err(format!("it takes {} arguments", schema.formals.len()));
        }
        operands.extend((next..arguments.positional()).map(Operand::Given));
    }
    Ok((total, Choice { schema, operands }))
}

/// How a tensor becomes the number that a formal requires.
pub(crate) fn implicit(formal: &Formal, given: Type) -> Option<&'static str> {
    implicit_conversion(formal.ty, given)
}

/// The operator that makes a value of this type of a tensor.
pub(crate) fn implicit_conversion(wanted: Type, given: Type) -> Option<&'static str> {
    if !given.is_tensor() {
        return None;
    }
    match wanted.kind() {
        TypeKind::Simple(Simple::Int | Simple::SymInt) => Some("aten::IntImplicit"),
        TypeKind::Simple(Simple::Float) => Some("aten::FloatImplicit"),
        TypeKind::Simple(Simple::Complex) => Some("aten::ComplexImplicit"),
        TypeKind::Simple(Simple::Scalar | Simple::Number) => Some("aten::ScalarImplicit"),
        _ => None,
    }
}
