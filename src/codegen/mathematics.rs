//! The vector mathematics without a compiler: `prelude.c`, parsed once and executed.
//!
//! Its functions are a few declarations and a result, so that compilers can make vectors of them,
//! and small loops where they do not. The text is the notation of the expressions, as that of
//! formulas is: units get it with its comments, it becomes trees of [`Expr`] here, and these print
//! as C that reads as the same trees. They are executed in the arithmetic of C
//! ([`super::arithmetic`]), and so the results have the bits of compiled kernels.
//!
//! Functions that reinterpret bits, fused multiply-adds, and the reduction of large angles, which
//! takes products of 128 bits, are written here: `builtin`.

use super::arithmetic::{Number, binary, chosen, unary};
use super::expression::{Binary, Expr, Reader};
use super::number_type::NumberType;
use super::prelude;
use rustc_hash::FxHashMap;
use std::sync::LazyLock;

/// A function.
#[derive(Debug)]
struct Routine {
    /// The type of its result.
    result: NumberType,
    params: Vec<Variable>,
    body: Vec<Statement>,
}

/// A type and a name.
type Variable = (NumberType, &'static str);

#[derive(Debug)]
enum Statement {
    /// Declares a variable.
    Declare(Variable, Expr),
    /// Sets one.
    Set(&'static str, Expr),
    /// Ends the function.
    Return(Expr),
    /// Runs its statements if a condition holds.
    If(Expr, Vec<Statement>),
    /// Runs them as long as it holds.
    While(Expr, Vec<Statement>),
}

/// The steps of a loop of one call: those of `fmod` are a few dozen at most.
const MOST_STEPS: usize = 100_000;

static ROUTINES: LazyLock<FxHashMap<&'static str, Result<Routine, String>>> =
    LazyLock::new(|| prelude::sources().map(|(name, text)| (name, routine(text))).collect());

/// The bits of 2 / pi that the reduction of angles reads.
static TWO_OVER_PI: LazyLock<Vec<u32>> = LazyLock::new(|| {
    let text = prelude::sources().find(|(name, _)| *name == "jo_two_over_pi").map_or("", |(_, text)| text);
    let numbers = text.split_once('{').map_or("", |(_, numbers)| numbers);
    let number = |word: &str| match word.trim().strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16).ok(),
        None => word.trim().parse().ok(),
    };
    numbers.split(',').filter_map(number).collect()
});

/// The value of a function of the vector mathematics.
///
/// # Errors
/// If there is no such function, or its text is none that this module reads.
pub(crate) fn call(name: &str, operands: &[Number]) -> Result<Number, String> {
    if let Some(value) = builtin(name, operands) {
        return Ok(value);
    }
    let routine = ROUTINES.get(name).ok_or_else(|| format!("there is no function `{name}`"))?;
    let routine = routine.as_ref().map_err(|why| format!("{name}: {why}"))?;
    let params = routine.params.iter().zip(operands);
    let mut frame = Frame(params.map(|((ty, name), value)| (*name, value.cast(*ty), *ty)).collect());
    let value = frame.run(&routine.body)?.ok_or_else(|| format!("{name}: it returns nothing"))?;
    Ok(value.cast(routine.result))
}

/// Whether all functions of the prelude can be executed: for tests.
#[cfg(test)]
fn unread() -> Vec<String> {
    let faults = ROUTINES.iter().filter(|(name, _)| builtin(name, &[Number::Double(0.0); 3]).is_none());
    faults.filter_map(|(name, routine)| Some(format!("{name}: {}", routine.as_ref().err()?))).collect()
}

/// Evaluates the functions that are not executed as written.
fn builtin(name: &str, operands: &[Number]) -> Option<Number> {
    let at = |i: usize| operands.get(i).copied().unwrap_or(Number::Int(0));
    let (a, b, c) = (at(0), at(1), at(2));
    Some(match name {
        "jo_bitsf" => Number::Unsigned(a.single().to_bits()),
        "jo_of_bitsf" => Number::Float(f32::from_bits(a.bits() as u32)),
        "jo_bits" => Number::UnsignedLong(a.real().to_bits()),
        "jo_of_bits" => Number::Double(f64::from_bits(a.bits() as u64)),
        "jo_fmaf" if fuses() => Number::Float(a.single().mul_add(b.single(), c.single())),
        "jo_fma" if fuses() => Number::Double(a.real().mul_add(b.real(), c.real())),
        "jo_fmaf" => Number::Float(a.single() * b.single() + c.single()),
        "jo_fma" => Number::Double(a.real() * b.real() + c.real()),
        "__builtin_sqrtf" => Number::Float(a.single().sqrt()),
        "__builtin_sqrt" => Number::Double(a.real().sqrt()),
        "__builtin_inff" => Number::Float(f32::INFINITY),
        "__builtin_inf" => Number::Double(f64::INFINITY),
        "__builtin_nanf" => Number::Float(f32::NAN),
        "__builtin_nan" => Number::Double(f64::NAN),
        "__builtin_constant_p" => Number::Int(0),
        "jo_none" => Number::Unsigned(0),
        "jo_sin_of" => sine(a.real(), b.bits() as u32).map(Number::Double)?,
        // Nests have statements for these.
        "jo_first" | "jo_next" | "jo_inside" | "jo_under" | "jo_stream" | "jo_fence" => Number::Int(0),
        "jo_two_over_pi" | "jo_reduced" => Number::Int(0),
        _ => return None,
    })
}

/// Whether compiled kernels fuse multiplications with additions: where the processor does.
fn fuses() -> bool {
    #[cfg(target_arch = "x86_64")]
    return std::arch::is_x86_feature_detected!("fma");
    #[cfg(not(target_arch = "x86_64"))]
    return cfg!(target_arch = "aarch64");
}

/// `jo_sin_of`: the sine of the absolute value of a number plus some quarter rotations.
fn sine(x: f64, quarters: u32) -> Option<f64> {
    let (r, quarter) = reduced(x);
    let n = quarter.wrapping_add(quarters);
    let near = if n & 1 == 1 { "jo_cos_near_0" } else { "jo_sin_near_0" };
    let y = call(near, &[Number::Double(r)]).ok()?.real();
    Some(if n & 2 == 2 { -y } else { y })
}

/// `jo_reduced`: the rest of an angle, and the quarter that it is in.
#[allow(clippy::eq_op, reason = "an infinity gives the NaN that the processor makes")]
fn reduced(x: f64) -> (f64, u32) {
    let bits = x.to_bits() & 0x7fff_ffff_ffff_ffff;
    let (m, e) = (u128::from(bits & 0xf_ffff_ffff_ffff | 0x10_0000_0000_0000), (bits >> 52) as u32);
    if x.abs() < 0.78 {
        return (x.abs(), 0);
    }
    if e == 0x7ff {
        return (x - x, 0);
    }
    let from = e + 64 - 1077;
    let high = u128::from((m as u64).wrapping_mul(pi_bits(from))) << 64;
    let turn =
        high.wrapping_add(m * u128::from(pi_bits(from + 64))).wrapping_add((m * u128::from(pi_bits(from + 128))) >> 64);
    let quarter = (((turn >> 64) as u64).wrapping_add(0x2000_0000_0000_0000) >> 62) as u32 & 3;
    let rest = turn.wrapping_sub(u128::from(quarter) << 126);
    let (high, low) = ((rest >> 64) as i64, rest as u64);
    let in_turns = high as f64 * 2_f64.powi(-62) + low as f64 * 2_f64.powi(-126);
    (in_turns * std::f64::consts::FRAC_PI_2, quarter)
}

/// `jo_pi_bits`: 64 bits of 2 / pi, starting at a bit.
fn pi_bits(at: u32) -> u64 {
    let word = |i: u32| u64::from(TWO_OVER_PI.get(i as usize).copied().unwrap_or(0));
    let (first, shift) = (at >> 5, at & 31);
    let high = word(first) << 32 | word(first + 1);
    if shift == 0 { high } else { high << shift | word(first + 2) >> (32 - shift) }
}

/// Reads a function.
fn routine(text: &'static str) -> Result<Routine, String> {
    let text = &text[text.find("\nJO ").or_else(|| text.find("\nstatic ")).map_or(0, |at| at + 1)..];
    let mut reader = Reader::new(text, true);
    while reader.takes("JO") || reader.takes("static") {}
    let result = ty(&mut reader)?;
    let _name = reader.next();
    reader.expect("(")?;
    let mut params = Vec::new();
    while !reader.takes(")") {
        params.push((ty(&mut reader)?, reader.next()));
        reader.takes(",");
    }
    let body = block(&mut reader)?;
    Ok(Routine { result, params, body })
}

fn ty(reader: &mut Reader) -> Result<NumberType, String> {
    let name = reader.next();
    NumberType::named(name).ok_or_else(|| format!("`{name}` is no type of numbers"))
}

/// Statements in braces, or one without.
fn block(reader: &mut Reader) -> Result<Vec<Statement>, String> {
    let mut all = Vec::new();
    if !reader.takes("{") {
        statement(reader, &mut all)?;
        return Ok(all);
    }
    while !reader.takes("}") {
        if reader.peek().is_empty() {
            return Err("a function does not end".to_owned());
        }
        statement(reader, &mut all)?;
    }
    Ok(all)
}

fn statement(reader: &mut Reader, all: &mut Vec<Statement>) -> Result<(), String> {
    reader.takes("const");
    match reader.peek() {
        "return" => {
            reader.next();
            all.push(Statement::Return(reader.choice()?));
            reader.expect(";")
        }
        "if" | "while" => {
            let is_loop = reader.next() == "while";
            reader.expect("(")?;
            let condition = reader.choice()?;
            reader.expect(")")?;
            let body = block(reader)?;
            all.push(if is_loop { Statement::While(condition, body) } else { Statement::If(condition, body) });
            Ok(())
        }
        // The counter has a name of its own in each function.
        "for" => {
            reader.next();
            reader.expect("(")?;
            statement(reader, all)?;
            let condition = reader.choice()?;
            reader.expect(";")?;
            let step = assignment(reader)?;
            reader.expect(")")?;
            let mut body = block(reader)?;
            body.push(step);
            all.push(Statement::While(condition, body));
            Ok(())
        }
        _ if let Some(ty) = NumberType::named(reader.peek()) => {
            reader.next();
            loop {
                let name = reader.next();
                reader.expect("=")?;
                all.push(Statement::Declare((ty, name), reader.choice()?));
                if !reader.takes(",") {
                    return reader.expect(";");
                }
            }
        }
        _ => {
            all.push(assignment(reader)?);
            reader.expect(";")
        }
    }
}

/// `y = …` and `y += …`
fn assignment(reader: &mut Reader) -> Result<Statement, String> {
    let (name, operator) = (reader.next(), reader.next());
    let value = reader.choice()?;
    let operator = match operator {
        "=" => return Ok(Statement::Set(name, value)),
        "+=" => Binary::Plus,
        "-=" => Binary::Minus,
        "*=" => Binary::Times,
        ">>=" => Binary::ShiftRight,
        other => return Err(format!("`{name} {other}` is no statement")),
    };
    Ok(Statement::Set(name, Expr::Binary(operator, Box::new([Expr::Name(name), value]))))
}

/// The variables of a call, with their types.
struct Frame(Vec<(&'static str, Number, NumberType)>);

impl Frame {
    /// Runs statements; the result if one of them returns.
    fn run(&mut self, body: &[Statement]) -> Result<Option<Number>, String> {
        for statement in body {
            let returned = match statement {
                Statement::Declare((ty, name), value) => {
                    let value = self.value(value)?.cast(*ty);
                    self.0.push((name, value, *ty));
                    None
                }
                Statement::Set(name, value) => {
                    let value = self.value(value)?;
                    let variable = self.0.iter_mut().rev().find(|row| row.0 == *name);
                    let row = variable.ok_or_else(|| format!("`{name}` is not declared"))?;
                    row.1 = value.cast(row.2);
                    None
                }
                Statement::Return(value) => Some(self.value(value)?),
                Statement::If(condition, body) => match self.value(condition)?.is_true() {
                    true => self.run(body)?,
                    false => None,
                },
                Statement::While(condition, body) => self.repeat(condition, body)?,
            };
            if returned.is_some() {
                return Ok(returned);
            }
        }
        Ok(None)
    }

    fn repeat(&mut self, condition: &Expr, body: &[Statement]) -> Result<Option<Number>, String> {
        for _ in 0..MOST_STEPS {
            if !self.value(condition)?.is_true() {
                return Ok(None);
            }
            if let Some(returned) = self.run(body)? {
                return Ok(Some(returned));
            }
        }
        Err("a loop does not end".to_owned())
    }

    fn value(&self, expr: &Expr) -> Result<Number, String> {
        let known = |name: &str| {
            let found = self.0.iter().rev().find(|row| row.0 == name).map(|row| row.1);
            found.or_else(|| builtin(name, &[])).ok_or_else(|| format!("`{name}` is not declared"))
        };
        let leaf = |leaf: &Expr| match leaf {
            Expr::Name(name) => known(name),
            other => Err(format!("{other:?} in the vector mathematics")),
        };
        evaluate(expr, &leaf, &|name| name.to_owned())
    }
}

/// The value of an expression. `leaf` gives that of operands and numbers without a type, `function`
/// the name of a function in the type that is computed in.
pub(crate) fn evaluate(
    expr: &Expr,
    leaf: &dyn Fn(&Expr) -> Result<Number, String>,
    function: &dyn Fn(&str) -> String,
) -> Result<Number, String> {
    let value = |expr: &Expr| evaluate(expr, leaf, function);
    let values = |operands: &[Expr]| operands.iter().map(value).collect::<Result<Vec<Number>, String>>();
    match expr {
        Expr::Typed(number) => Ok(*number),
        Expr::Unary(operator, of) => Ok(unary(*operator, value(of)?)),
        Expr::Binary(Binary::AndAlso, two) => Ok(Number::truth(value(&two[0])?.is_true() && value(&two[1])?.is_true())),
        Expr::Binary(Binary::OrElse, two) => Ok(Number::truth(value(&two[0])?.is_true() || value(&two[1])?.is_true())),
        Expr::Binary(operator, two) => Ok(binary(*operator, value(&two[0])?, value(&two[1])?)),
        Expr::Choice(three) => {
            let (first, second) = (value(&three[1])?, value(&three[2])?);
            Ok(if value(&three[0])?.is_true() { chosen(first, second) } else { chosen(second, first) })
        }
        Expr::Cast(ty, of) => Ok(value(of)?.cast(*ty)),
        Expr::Element(_, at) => {
            let at = usize::try_from(value(at)?.bits()).unwrap_or(usize::MAX);
            TWO_OVER_PI.get(at).map(|&bits| Number::Unsigned(bits)).ok_or_else(|| format!("there is no element {at}"))
        }
        Expr::Inner(name, operands) => call(name, &values(operands)?),
        Expr::Call(called, operands) => call(&function(called.name), &values(operands)?),
        Expr::Operand(_) | Expr::Integer(_) | Expr::Float(_) | Expr::Name(_) => leaf(expr),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(name: &str, operands: &[f64]) -> f64 {
        let single = name.ends_with('f') && name != "jo_erf";
        let number = |x: &f64| if single { Number::Float(*x as f32) } else { Number::Double(*x) };
        let operands: Vec<Number> = operands.iter().map(number).collect();
        call(name, &operands).unwrap_or_else(|why| panic!("{why}")).real()
    }

    #[test]
    fn the_whole_prelude_is_read() {
        assert_eq!(unread(), Vec::<String>::new());
    }

    fn printed(expr: &Expr) -> String {
        let leaf = |leaf: &Expr| match leaf {
            Expr::Name(name) => (*name).to_owned(),
            Expr::Typed(number) => number.spelled(),
            other => panic!("{other:?}"),
        };
        expr.print(&leaf, &|callee| callee.in_c(""))
    }

    /// Statements as C, loops as `while`.
    fn listed(body: &[Statement]) -> String {
        let one = |statement: &Statement| match statement {
            Statement::Declare((ty, name), value) => format!("{ty} {name} = {};", printed(value)),
            Statement::Set(name, value) => format!("{name} = {};", printed(value)),
            Statement::Return(value) => format!("return {};", printed(value)),
            Statement::If(condition, body) => format!("if ({}) {{ {} }}", printed(condition), listed(body)),
            Statement::While(condition, body) => format!("while ({}) {{ {} }}", printed(condition), listed(body)),
        };
        body.iter().map(one).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn functions_are_printed_as_they_are_read() {
        let mut count = 0;
        for (name, read) in ROUTINES.iter() {
            let Ok(read) = read else { continue };
            let params: Vec<String> = read.params.iter().map(|(ty, name)| format!("{ty} {name}")).collect();
            let text = format!("{} {name}({}) {{ {} }}", read.result, params.join(", "), listed(&read.body));
            let again = routine(Box::leak(text.clone().into_boxed_str()));
            assert_eq!(format!("{:?}", again.as_ref().ok()), format!("{:?}", Some(read)), "{text}");
            count += 1;
        }
        assert!(count > 100, "{count} functions");
    }

    #[test]
    fn functions_are_as_exact_as_they_are_compiled() {
        let close = |name: &str, x: f64, wanted: f64, within: f64| {
            let found = of(name, &[x]);
            assert!((found - wanted).abs() <= within * wanted.abs(), "{name}({x}) = {found}, not {wanted}");
        };
        for x in [-3.5, -0.75, -1e-3, 0.25, 1.0, 2.5, 40.0] {
            close("jo_exp", x, f64::exp(x), 1e-15);
            close("jo_expf", x, f64::exp(x), 2e-7);
            close("jo_tanh", x, f64::tanh(x), 1e-15);
            close("jo_sinf", x, f64::sin(x), 2e-7);
            close("jo_cos", 1e3 * x, f64::cos(1e3 * x), 1e-12);
            close("jo_atan", x, f64::atan(x), 1e-15);
            close("jo_sigmoidf", x, 1.0 / (1.0 + f64::exp(-x)), 3e-7);
        }
        for x in [1e-3, 0.25, 1.5, 1e6] {
            close("jo_log", x, f64::ln(x), 1e-15);
            close("jo_logf", x, f64::ln(x), 2e-7);
            close("jo_lgamma", x, libm::lgamma(x), 1e-13);
        }
        assert_eq!(of("jo_fmod", &[7.5, -2.0]), 1.5);
        assert_eq!(of("jo_fmodf", &[7.5, 2.0]), 1.5);
        assert_eq!(of("jo_remainder", &[7.5, -2.0]), -0.5);
        assert_eq!(of("jo_pow", &[3.0, 4.0]), 81.0);
        assert!(of("jo_larger", &[1.0, f64::NAN]).is_nan());
        assert_eq!(call("jo_raised32", &[Number::Int(3), Number::Int(5)]), Ok(Number::Int(243)));
        assert_eq!(call("jo_to_half", &[Number::Float(1.5)]), Ok(Number::Int(0x3e00)));
        assert!(call("jo_wave", &[]).is_err());
    }
}
