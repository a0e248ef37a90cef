//! Expressions: the texts of formulas and recipes, parsed once into trees.
//!
//! The notation of `ops/formulas.rs` and `ops/recipes.rs` is that of C. Each text becomes an
//! [`Expression`] when the first one is asked for: its tree, the operands that it names, whether it
//! is expensive, and how many operations it takes. Nothing else in the code generator reads those
//! texts.
//!
//! ```text
//! "a < 0 ? 0 : a"   Choice(Binary(Less, a, 0), 0, a)     operands a     0 operations
//! "p * exp(x - m)"  Binary(Times, p, Call(exp, …))       operands p x m 25 operations, expensive
//! ```
//!
//! Trees hold no parentheses. `Expr::print` adds those that C needs, and those that a reader
//! wants around comparisons inside of `&` and `|`; a test prints each text of the tables back.

use super::arithmetic::Number;
use super::number_type::NumberType;
use crate::ops::{formulas, recipes, window_rules};
use rustc_hash::FxHashMap;
use std::fmt::Write;
use std::sync::LazyLock;

/// An operator between two expressions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Binary {
    /// `||`
    OrElse,
    /// `&&`
    AndAlso,
    /// `|`
    Or,
    /// `^`
    Xor,
    /// `&`
    And,
    /// `==`
    Equal,
    /// `!=`
    NotEqual,
    /// `<`
    Less,
    /// `<=`
    AtMost,
    /// `>`
    Greater,
    /// `>=`
    AtLeast,
    /// `<<`
    ShiftLeft,
    /// `>>`
    ShiftRight,
    /// `+`
    Plus,
    /// `-`
    Minus,
    /// `*`
    Times,
    /// `/`
    Over,
    /// `%`
    Rest,
}

/// The operators with their spelling and their precedence in C: the higher one binds tighter.
const BINARY: [(Binary, &str, u8); 18] = [
    (Binary::OrElse, "||", 1),
    (Binary::AndAlso, "&&", 2),
    (Binary::Or, "|", 3),
    (Binary::Xor, "^", 4),
    (Binary::And, "&", 5),
    (Binary::Equal, "==", 6),
    (Binary::NotEqual, "!=", 6),
    (Binary::Less, "<", 7),
    (Binary::AtMost, "<=", 7),
    (Binary::Greater, ">", 7),
    (Binary::AtLeast, ">=", 7),
    (Binary::ShiftLeft, "<<", 8),
    (Binary::ShiftRight, ">>", 8),
    (Binary::Plus, "+", 9),
    (Binary::Minus, "-", 9),
    (Binary::Times, "*", 10),
    (Binary::Over, "/", 10),
    (Binary::Rest, "%", 10),
];

/// The precedence of `c ? a : b`.
const OF_CHOICE: u8 = 0;
/// The precedence of an operator with one operand.
const OF_UNARY: u8 = 11;
/// The precedence of names, numbers and calls.
const OF_ATOM: u8 = 12;

impl Binary {
    fn row(self) -> (&'static str, u8) {
        BINARY.iter().find(|row| row.0 == self).map_or(("", 0), |row| (row.1, row.2))
    }

    /// Its spelling in C.
    pub(crate) fn spelling(self) -> &'static str {
        self.row().0
    }

    fn precedence(self) -> u8 {
        self.row().1
    }

    /// Whether it compares: the result is 0 or 1.
    pub(crate) fn compares(self) -> bool {
        (6..=7).contains(&self.precedence())
    }

    /// Whether it adds, subtracts, multiplies or divides.
    fn is_arithmetic(self) -> bool {
        self.precedence() >= 9
    }

    /// Whether it evaluates its second operand only where the first one leaves the result open.
    fn is_lazy(self) -> bool {
        self.precedence() <= 2
    }
}

/// An operator before an expression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unary {
    /// `-`
    Minus,
    /// `~`
    Complement,
    /// `!`
    Not,
}

/// The operators before an expression with their spelling.
const UNARY: [(Unary, &str); 3] = [(Unary::Minus, "-"), (Unary::Complement, "~"), (Unary::Not, "!")];

impl Unary {
    fn spelling(self) -> &'static str {
        UNARY.iter().find(|row| row.0 == self).map_or("", |row| row.1)
    }
}

/// A function of the vector mathematics, as formulas call it.
#[derive(Debug, PartialEq, Eq)]
pub struct Function {
    /// Its name, without prefix and type.
    pub name: &'static str,
    /// The number of its operands.
    pub operands: usize,
    /// Additions, subtractions, multiplications and divisions of its float version, those of the
    /// functions that it calls included, as `prelude.c` spells them; 0 for functions of integers.
    pub operations: usize,
    /// Whether it is expensive, so that it gets a loop of its own and is not computed twice: all
    /// but those that are about as cheap as arithmetic.
    pub is_expensive: bool,
    /// Whether results are exponentials of numbers of at most 0. They are between 0 and 1, so that
    /// a sum of them does not cancel and may be accumulated in floats.
    pub is_share: bool,
}

const fn cheap(name: &'static str, operands: usize, operations: usize) -> Function {
    Function { name, operands, operations, is_expensive: false, is_share: false }
}

const fn expensive(name: &'static str, operands: usize, operations: usize) -> Function {
    Function { is_expensive: true, ..cheap(name, operands, operations) }
}

/// The functions that formulas and recipes call.
pub(crate) static FUNCTIONS: &[Function] = &[
    cheap("larger", 2, 0),
    cheap("smaller", 2, 0),
    cheap("absolute", 1, 0),
    cheap("negative", 1, 0),
    cheap("signed", 2, 0),
    cheap("floor", 1, 1),
    cheap("ceil", 1, 1),
    cheap("trunc", 1, 0),
    cheap("roundeven", 1, 2),
    cheap("sqrt", 1, 0),
    cheap("rsqrt", 1, 1),
    cheap("hypot", 2, 3),
    cheap("fma", 3, 2),
    expensive("exp", 1, 23),
    Function { is_share: true, ..expensive("exp_below", 1, 23) },
    expensive("expm1", 1, 24),
    expensive("sigmoid", 1, 24),
    expensive("silu", 1, 25),
    expensive("tanh", 1, 26),
    expensive("sinh", 1, 79),
    expensive("cosh", 1, 78),
    expensive("log", 1, 31),
    expensive("log2", 1, 32),
    expensive("log10", 1, 33),
    expensive("log1p", 1, 39),
    expensive("asinh", 1, 77),
    expensive("acosh", 1, 77),
    expensive("atanh", 1, 47),
    expensive("sin", 1, 52),
    expensive("cos", 1, 52),
    expensive("tan", 1, 93),
    expensive("atan", 1, 31),
    expensive("atan2", 2, 37),
    expensive("asin", 1, 35),
    expensive("acos", 1, 38),
    expensive("erf", 1, 61),
    expensive("erfc", 1, 161),
    expensive("lgamma", 1, 274),
    expensive("pow", 2, 77),
    expensive("fmod", 2, 8),
    expensive("remainder", 2, 9),
    expensive("floor_quotient", 2, 16),
    // ---- of integers
    expensive("quotient", 2, 0),
    expensive("quotient_down", 2, 0),
    expensive("rest", 2, 4),
    expensive("rest_up", 2, 0),
    expensive("raised", 2, 0),
];

/// An expression over operands that are named by letters.
#[derive(Clone, Debug, PartialEq)]
pub enum Expr {
    /// An operand.
    Operand(char),
    /// An integer.
    Integer(i64),
    /// A number with a point: it has the type of the computation.
    Float(f64),
    /// An operator with one operand.
    Unary(Unary, Box<Expr>),
    /// An operator with two.
    Binary(Binary, Box<[Expr; 2]>),
    /// `c ? a : b`
    Choice(Box<[Expr; 3]>),
    /// A call.
    Call(&'static Function, Vec<Expr>),
    /// A number of a type, in the vector mathematics, as everything that follows.
    Typed(Number),
    /// A variable.
    Name(&'static str),
    /// A conversion.
    Cast(NumberType, Box<Expr>),
    /// An element of a table.
    Element(&'static str, Box<Expr>),
    /// A call of another function of the vector mathematics, or of one that compilers have.
    Inner(&'static str, Vec<Expr>),
}

impl Expr {
    /// Parses a text. An error means a mistake in a table, which a test finds.
    pub(crate) fn parse(text: &'static str) -> Result<Expr, String> {
        let mut reader = Reader::new(text, false);
        let expr = reader.choice()?;
        match reader.peek() {
            "" => Ok(expr),
            other => Err(format!("unexpected `{other}` after an expression")),
        }
    }

    /// The parts that it consists of.
    pub(crate) fn parts(&self) -> &[Expr] {
        match self {
            Expr::Operand(_) | Expr::Integer(_) | Expr::Float(_) | Expr::Typed(_) | Expr::Name(_) => &[],
            Expr::Unary(_, of) | Expr::Cast(_, of) | Expr::Element(_, of) => std::slice::from_ref(of),
            Expr::Binary(_, two) => &two[..],
            Expr::Choice(three) => &three[..],
            Expr::Call(_, operands) | Expr::Inner(_, operands) => operands,
        }
    }

    /// The letter of an operand.
    pub(crate) fn letter(&self) -> Option<char> {
        match self {
            Expr::Operand(letter) => Some(*letter),
            Expr::Name(name) => name.chars().next(),
            _ => None,
        }
    }

    /// It and all of its parts, in the order of the text.
    fn all(&self) -> Vec<&Expr> {
        let mut all = vec![self];
        self.parts().iter().for_each(|part| all.extend(part.all()));
        all
    }

    /// Prints it as C. `leaf` spells operands and numbers, `callee` the name of a function.
    pub(crate) fn print(&self, leaf: &dyn Fn(&Expr) -> String, callee: &dyn Fn(Callee) -> String) -> String {
        let mut printer = Printer { leaf, callee, out: String::new() };
        printer.expr(self);
        printer.out
    }

    fn precedence(&self) -> u8 {
        match self {
            Expr::Unary(..) | Expr::Cast(..) => OF_UNARY,
            Expr::Binary(operator, _) => operator.precedence(),
            Expr::Choice(_) => OF_CHOICE,
            _ => OF_ATOM,
        }
    }

    fn compares(&self) -> bool {
        matches!(self, Expr::Binary(operator, _) if operator.compares())
    }
}

/// What a call names.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Callee {
    /// A function, in the type that is computed in.
    Typed(&'static Function),
    /// One that is spelled with its type.
    Spelled(&'static str),
}

impl Callee {
    /// Its name in C, where functions of the computed type have a suffix.
    pub(crate) fn in_c(self, suffix: &str) -> String {
        match self {
            Callee::Typed(function) => format!("jo_{}{suffix}", function.name),
            Callee::Spelled(name) => name.to_owned(),
        }
    }

    /// Its name for people.
    pub(crate) fn plain(self) -> String {
        match self {
            Callee::Typed(function) => function.name.to_owned(),
            Callee::Spelled(name) => name.trim_start_matches("jo_").to_owned(),
        }
    }
}

struct Printer<'a> {
    leaf: &'a dyn Fn(&Expr) -> String,
    callee: &'a dyn Fn(Callee) -> String,
    out: String,
}

impl Printer<'_> {
    fn expr(&mut self, expr: &Expr) {
        match expr {
            Expr::Operand(_) | Expr::Integer(_) | Expr::Float(_) | Expr::Typed(_) | Expr::Name(_) => {
                self.out += &(self.leaf)(expr);
            }
            Expr::Element(name, at) => {
                let _ = write!(self.out, "{name}[");
                self.expr(at);
                self.out.push(']');
            }
            Expr::Cast(ty, of) => {
                let _ = write!(self.out, "({ty})");
                self.inside(of, of.precedence() < OF_UNARY);
            }
            Expr::Inner(name, operands) => self.call(&(self.callee)(Callee::Spelled(name)), operands),
            Expr::Unary(operator, of) => {
                self.out += operator.spelling();
                self.inside(of, of.precedence() < OF_UNARY);
            }
            Expr::Binary(operator, two) => {
                let own = operator.precedence();
                // A comparison is set apart where its bits are an operand.
                let takes_bits = !operator.is_arithmetic() && !operator.is_lazy();
                let is_other = |part: &Expr| matches!(part, Expr::Binary(Binary::AndAlso, _));
                let is_apart =
                    |part: &Expr| takes_bits && part.compares() || *operator == Binary::OrElse && is_other(part);
                self.inside(&two[0], two[0].precedence() < own || is_apart(&two[0]));
                let _ = write!(self.out, " {} ", operator.spelling());
                self.inside(&two[1], two[1].precedence() <= own || is_apart(&two[1]));
            }
            Expr::Choice(three) => {
                self.inside(&three[0], three[0].precedence() == OF_CHOICE);
                self.out += " ? ";
                self.inside(&three[1], three[1].precedence() == OF_CHOICE);
                self.out += " : ";
                self.expr(&three[2]);
            }
            Expr::Call(function, operands) => self.call(&(self.callee)(Callee::Typed(function)), operands),
        }
    }

    fn call(&mut self, name: &str, operands: &[Expr]) {
        self.out += name;
        self.out.push('(');
        for (i, operand) in operands.iter().enumerate() {
            self.out += if i == 0 { "" } else { ", " };
            self.expr(operand);
        }
        self.out.push(')');
    }

    fn inside(&mut self, expr: &Expr, parenthesised: bool) {
        if parenthesised {
            self.out.push('(');
        }
        self.expr(expr);
        if parenthesised {
            self.out.push(')');
        }
    }
}

/// Identifiers, numbers, and operators of one or two characters.
fn tokens(text: &'static str) -> impl Iterator<Item = &'static str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        rest = rest.trim_start();
        while rest.starts_with("//") {
            rest = rest.find('\n').map_or("", |end| rest[end..].trim_start());
        }
        let first = rest.chars().next()?;
        let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '.';
        let is_double = |two: &str| BINARY.iter().any(|row| row.1 == two) || ["+=", "-=", "*="].contains(&two);
        let len = match rest.get(..2) {
            _ if rest.starts_with(">>=") => 3,
            _ if first.is_ascii_digit() => length_of_number(rest),
            _ if is_word(first) => rest.find(|c| !is_word(c)).unwrap_or(rest.len()),
            Some(two) if is_double(two) => 2,
            _ => first.len_utf8(),
        };
        let (token, after) = rest.split_at(len);
        rest = after;
        Some(token)
    })
}

/// The length of the number at the beginning of a text: its exponent may have a sign.
fn length_of_number(text: &str) -> usize {
    let exponent = if text.starts_with("0x") { ['p', 'P'] } else { ['e', 'E'] };
    let (mut last, mut len) = (' ', 0);
    for c in text.chars() {
        let is_sign = (c == '-' || c == '+') && exponent.contains(&last);
        if !(c.is_ascii_alphanumeric() || c == '.' || is_sign) {
            break;
        }
        (last, len) = (c, len + 1);
    }
    len
}

/// Reads expressions, and for [`super::mathematics`] the words around them.
pub(super) struct Reader {
    tokens: Vec<&'static str>,
    at: usize,
    /// Whether it reads the vector mathematics: numbers have types, and names any length.
    is_full: bool,
}

impl Reader {
    pub(super) fn new(text: &'static str, is_full: bool) -> Reader {
        Reader { tokens: tokens(text).collect(), at: 0, is_full }
    }

    pub(super) fn peek(&self) -> &'static str {
        self.tokens.get(self.at).copied().unwrap_or("")
    }

    pub(super) fn next(&mut self) -> &'static str {
        self.at += 1;
        self.tokens.get(self.at - 1).copied().unwrap_or("")
    }

    pub(super) fn takes(&mut self, token: &str) -> bool {
        let is_next = self.peek() == token;
        self.at += usize::from(is_next);
        is_next
    }

    pub(super) fn expect(&mut self, token: &str) -> Result<(), String> {
        match self.next() {
            found if found == token => Ok(()),
            found => Err(format!("`{found}` where `{token}` is expected")),
        }
    }

    pub(super) fn choice(&mut self) -> Result<Expr, String> {
        let condition = self.binary(1)?;
        if !self.takes("?") {
            return Ok(condition);
        }
        let chosen = self.choice()?;
        self.expect(":")?;
        Ok(Expr::Choice(Box::new([condition, chosen, self.choice()?])))
    }

    fn binary(&mut self, least: u8) -> Result<Expr, String> {
        let mut left = self.unary()?;
        loop {
            let Some(&(operator, _, precedence)) =
                BINARY.iter().find(|row| row.1 == self.peek()).filter(|row| row.2 >= least)
            else {
                return Ok(left);
            };
            self.at += 1;
            left = Expr::Binary(operator, Box::new([left, self.binary(precedence + 1)?]));
        }
    }

    fn unary(&mut self) -> Result<Expr, String> {
        let Some(&(operator, _)) = UNARY.iter().find(|row| row.1 == self.peek()) else { return self.atom() };
        self.at += 1;
        Ok(Expr::Unary(operator, Box::new(self.unary()?)))
    }

    fn atom(&mut self) -> Result<Expr, String> {
        let token = self.next();
        let first = token.chars().next().unwrap_or(' ');
        match () {
            () if let Some(ty) = self.cast(token) => {
                self.at += 1;
                self.expect(")")?;
                Ok(Expr::Cast(ty, Box::new(self.unary()?)))
            }
            () if self.is_full && first.is_ascii_digit() => typed(token).map(Expr::Typed),
            () if self.is_full && first.is_ascii_alphabetic() && self.takes("[") => {
                let at = self.choice()?;
                self.expect("]").map(|()| Expr::Element(token, Box::new(at)))
            }
            () if self.is_full && (first.is_ascii_alphabetic() || first == '_') && self.takes("(") => {
                self.operands().map(|operands| Expr::Inner(token, operands))
            }
            () if self.is_full && (first.is_ascii_alphabetic() || first == '_') => Ok(Expr::Name(token)),
            () if token == "(" => {
                let inner = self.choice()?;
                self.expect(")").map(|()| inner)
            }
            () if first.is_ascii_digit() && token.contains('.') => number(token).map(Expr::Float),
            () if first.is_ascii_digit() => number(token).map(Expr::Integer),
            () if first.is_ascii_lowercase() && self.takes("(") => self.call(token),
            () if first.is_ascii_alphabetic() && token.len() == 1 => Ok(Expr::Operand(first)),
            () => Err(format!("`{token}` where an operand is expected")),
        }
    }

    /// The type that a bracket converts to.
    fn cast(&self, token: &str) -> Option<NumberType> {
        (self.is_full && token == "(").then(|| NumberType::named(self.peek()))?
    }

    fn call(&mut self, name: &str) -> Result<Expr, String> {
        let Some(function) = FUNCTIONS.iter().find(|function| function.name == name) else {
            return Err(format!("there is no function `{name}`"));
        };
        let operands = self.operands()?;
        match operands.len() == function.operands {
            true => Ok(Expr::Call(function, operands)),
            false => Err(format!("`{name}` of {} operands", operands.len())),
        }
    }
}

impl Reader {
    /// The operands of a call, up to its bracket.
    fn operands(&mut self) -> Result<Vec<Expr>, String> {
        let mut operands = Vec::new();
        if self.takes(")") {
            return Ok(operands);
        }
        // A NaN is made of an empty string.
        if self.takes("\"") {
            self.expect("\"")?;
        } else {
            operands.push(self.choice()?);
        }
        while self.takes(",") {
            operands.push(self.choice()?);
        }
        self.expect(")").map(|()| operands)
    }
}

/// A number with its type, as C spells it: `0x1p-32f`, `12582912.0f`, `0x7fULL`, `1`.
fn typed(token: &str) -> Result<Number, String> {
    let is_hex = token.starts_with("0x");
    let is_real = token.contains(['.', 'p']) || !is_hex && token.contains('e');
    if is_real {
        let (digits, single) = match token.strip_suffix('f') {
            Some(digits) => (digits, true),
            None => (token, false),
        };
        let value = if is_hex { hexadecimal(digits)? } else { number::<f64>(digits)? };
        let single_value = || if is_hex { Ok(value as f32) } else { number::<f32>(digits) };
        return if single { single_value().map(Number::Float) } else { Ok(Number::Double(value)) };
    }
    let digits = token.trim_end_matches(['u', 'U', 'l', 'L']);
    let suffix = token[digits.len()..].to_lowercase();
    let value = match digits.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).map_err(|_| format!("`{token}` is not a number"))?,
        None => number::<u64>(digits)?,
    };
    Ok(match suffix.as_str() {
        "ull" => Number::UnsignedLong(value),
        "ll" => Number::Long(value as i64),
        "u" => Number::Unsigned(value as u32),
        _ => match (i32::try_from(value), u32::try_from(value)) {
            (Ok(n), _) => Number::Int(n),
            (_, Ok(n)) if is_hex => Number::Unsigned(n),
            _ => Number::Long(value as i64),
        },
    })
}

/// `0x1.8p3`: a fraction in sixteenths, times a power of two.
fn hexadecimal(digits: &str) -> Result<f64, String> {
    let wrong = || format!("`{digits}` is not a number");
    let (fraction, exponent) = digits.trim_start_matches("0x").split_once('p').ok_or_else(wrong)?;
    let (whole, part) = fraction.split_once('.').unwrap_or((fraction, ""));
    let bits = u64::from_str_radix(&format!("{whole}{part}"), 16).map_err(|_| wrong())?;
    let exponent: i32 = exponent.parse().map_err(|_| wrong())?;
    Ok(bits as f64 * 2_f64.powi(exponent - 4 * part.len() as i32))
}

fn number<T: std::str::FromStr>(token: &str) -> Result<T, String> {
    token.parse().map_err(|_| format!("`{token}` is not a number"))
}

/// A text of the tables, and what is known of it.
#[derive(Debug)]
pub struct Expression {
    /// The notation.
    pub text: &'static str,
    /// The tree.
    pub expr: Expr,
    /// The operands that it names, each once, in the order of the text.
    pub operands: Vec<char>,
    /// Whether it calls an expensive function.
    pub is_expensive: bool,
    /// Whether it is an exponential of a number of at most 0: see [`Function::is_share`].
    pub is_share: bool,
    /// Additions, subtractions, multiplications and divisions, those of called functions included.
    pub operations: usize,
}

impl Expression {
    /// Parses a text.
    pub(super) fn new(text: &'static str) -> Result<Expression, String> {
        Expr::parse(text).map(|expr| Expression::of(text, expr)).map_err(|why| format!("{text}: {why}"))
    }

    /// Parses a text with the casts, the numbers and the functions of the vector mathematics.
    pub(super) fn full(text: &'static str) -> Result<Expression, String> {
        let mut reader = Reader::new(text, true);
        let expr = reader.choice().map_err(|why| format!("{text}: {why}"))?;
        match reader.peek() {
            "" => Ok(Expression::of(text, expr)),
            other => Err(format!("{text}: unexpected `{other}` after an expression")),
        }
    }

    fn of(text: &'static str, expr: Expr) -> Expression {
        let (mut operands, mut operations, mut is_expensive) = (Vec::new(), 0, false);
        for part in expr.all() {
            operands.extend(part.letter().filter(|letter| !operands.contains(letter)));
            match part {
                Expr::Binary(operator, _) => operations += usize::from(operator.is_arithmetic()),
                Expr::Call(function, _) => {
                    operations += function.operations;
                    is_expensive |= function.is_expensive;
                }
                _ => {}
            }
        }
        let is_share = matches!(&expr, Expr::Call(function, _) if function.is_share);
        Expression { text, expr, operands, is_expensive, is_share, operations }
    }

    /// Whether it names an operand.
    pub(crate) fn reads(&self, letter: char) -> bool {
        self.operands.contains(&letter)
    }

    /// Whether it is an operand alone.
    pub(crate) fn is_operand(&self) -> bool {
        matches!(self.expr, Expr::Operand(_))
    }
}

/// The texts of all formulas, recipes and windows. The ones that cannot be parsed are kept as
/// messages.
static ALL: LazyLock<FxHashMap<&'static str, Result<Expression, String>>> = LazyLock::new(|| {
    let all = formulas::texts().chain(recipes::texts()).chain(window_rules::texts());
    all.map(|text| (text, Expression::new(text))).collect()
});

/// The expression of a text of the tables.
///
/// # Errors
/// Why the text is no expression: a mistake in a table.
pub fn expression(text: &'static str) -> Result<&'static Expression, String> {
    let known = ALL.get(text).ok_or_else(|| format!("`{text}` is in no table"))?;
    known.as_ref().map_err(Clone::clone)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codegen::prelude;

    fn of(text: &'static str) -> &'static Expression {
        expression(text).unwrap_or_else(|why| panic!("{why}"))
    }

    #[test]
    fn texts_are_printed_as_they_are_written() {
        let leaf = |expr: &Expr| match *expr {
            Expr::Operand(letter) => letter.to_string(),
            Expr::Integer(n) => n.to_string(),
            Expr::Float(x) => format!("{x:?}"),
            _ => String::new(),
        };
        for text in ALL.keys() {
            let printed = of(text).expr.print(&leaf, &Callee::plain);
            assert_eq!(printed, text.split_whitespace().collect::<Vec<_>>().join(" "));
        }
        assert!(ALL.len() > 100);
    }

    #[test]
    fn facts_are_those_of_the_tree() {
        let softmax = of("exp_below(x - m)");
        assert!(softmax.is_share && softmax.is_expensive);
        assert_eq!((&softmax.operands[..], softmax.operations), (&['x', 'm'][..], 24));
        let relu = of("a < 0 ? 0 : a");
        assert!(!relu.is_expensive && !relu.is_operand());
        assert_eq!((&relu.operands[..], relu.operations), (&['a'][..], 0));
        assert!(of("a").is_operand());
        assert!(!of("p * r").is_expensive);
    }

    #[test]
    fn mistakes_are_named() {
        let why = |text: &'static str| Expr::parse(text).map(|_| ()).unwrap_err();
        assert_eq!(why("a + "), "`` where an operand is expected");
        assert_eq!(why("wave(a)"), "there is no function `wave`");
        assert_eq!(why("exp(a, b)"), "`exp` of 2 operands");
        assert_eq!(why("(a + b"), "`` where `)` is expected");
        assert_eq!(why("a b"), "unexpected `b` after an expression");
        assert_eq!(why("a ? b"), "`` where `:` is expected");
    }

    #[test]
    fn function_costs_match_the_prelude() {
        for function in FUNCTIONS {
            let spelled = prelude::spelled_operations(&format!("jo_{}f", function.name));
            assert_eq!(function.operations, spelled, "{}", function.name);
            let is_there = |name: &str| prelude::sources().any(|(known, _)| known == name);
            let [float, whole] = ["f", "32"].map(|suffix| is_there(&format!("jo_{}{suffix}", function.name)));
            assert!(float || whole, "{}", function.name);
        }
    }
}
