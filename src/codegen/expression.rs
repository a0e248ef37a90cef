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
//! Trees hold no parentheses. [`Expr::print`] adds those that C needs, and those that a reader
//! wants around comparisons inside of `&` and `|`; a test prints each text of the tables back.

use crate::ops::{formulas, recipes};
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
    /// `+`
    Plus,
    /// `-`
    Minus,
    /// `*`
    Times,
    /// `/`
    Over,
}

/// The operators with their spelling and their precedence in C: the higher one binds tighter.
const BINARY: [(Binary, &str, u8); 15] = [
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
    (Binary::Plus, "+", 8),
    (Binary::Minus, "-", 8),
    (Binary::Times, "*", 9),
    (Binary::Over, "/", 9),
];

/// The precedence of `c ? a : b`.
const OF_CHOICE: u8 = 0;
/// The precedence of an operator with one operand.
const OF_UNARY: u8 = 10;
/// The precedence of names, numbers and calls.
const OF_ATOM: u8 = 11;

impl Binary {
    fn row(self) -> (&'static str, u8) {
        BINARY.iter().find(|row| row.0 == self).map_or(("", 0), |row| (row.1, row.2))
    }

    /// Its spelling in C.
    pub fn spelling(self) -> &'static str {
        self.row().0
    }

    fn precedence(self) -> u8 {
        self.row().1
    }

    /// Whether it compares: the result is 0 or 1.
    pub fn compares(self) -> bool {
        (6..=7).contains(&self.precedence())
    }

    /// Whether it adds, subtracts, multiplies or divides.
    fn is_arithmetic(self) -> bool {
        self.precedence() >= 8
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
pub static FUNCTIONS: &[Function] = &[
    cheap("larger", 2, 0),
    cheap("smaller", 2, 0),
    cheap("absolute", 1, 0),
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
    Whole(i64),
    /// A number with a point: it has the type of the computation.
    Real(f64),
    /// An operator with one operand.
    Unary(Unary, Box<Expr>),
    /// An operator with two.
    Binary(Binary, Box<[Expr; 2]>),
    /// `c ? a : b`
    Choice(Box<[Expr; 3]>),
    /// A call.
    Call(&'static Function, Vec<Expr>),
}

impl Expr {
    /// Parses a text. An error means a mistake in a table, which a test finds.
    pub fn parse(text: &'static str) -> Result<Expr, String> {
        let mut reader = Reader { tokens: tokens(text).collect(), at: 0 };
        let expr = reader.choice()?;
        match reader.peek() {
            "" => Ok(expr),
            other => Err(format!("`{other}` behind an expression")),
        }
    }

    /// The parts that it consists of.
    pub fn parts(&self) -> &[Expr] {
        match self {
            Expr::Operand(_) | Expr::Whole(_) | Expr::Real(_) => &[],
            Expr::Unary(_, of) => std::slice::from_ref(of),
            Expr::Binary(_, two) => &two[..],
            Expr::Choice(three) => &three[..],
            Expr::Call(_, operands) => operands,
        }
    }

    /// It and all of its parts, in the order of the text.
    fn all(&self) -> Vec<&Expr> {
        let mut all = vec![self];
        self.parts().iter().for_each(|part| all.extend(part.all()));
        all
    }

    /// Prints it as C. `leaf` spells operands and numbers, `function` the name of a function.
    pub fn print(&self, leaf: &dyn Fn(&Expr) -> String, function: &dyn Fn(&Function) -> String) -> String {
        let mut printer = Printer { leaf, function, out: String::new() };
        printer.expr(self);
        printer.out
    }

    fn precedence(&self) -> u8 {
        match self {
            Expr::Operand(_) | Expr::Whole(_) | Expr::Real(_) | Expr::Call(..) => OF_ATOM,
            Expr::Unary(..) => OF_UNARY,
            Expr::Binary(operator, _) => operator.precedence(),
            Expr::Choice(_) => OF_CHOICE,
        }
    }

    fn compares(&self) -> bool {
        matches!(self, Expr::Binary(operator, _) if operator.compares())
    }
}

struct Printer<'a> {
    leaf: &'a dyn Fn(&Expr) -> String,
    function: &'a dyn Fn(&Function) -> String,
    out: String,
}

impl Printer<'_> {
    fn expr(&mut self, expr: &Expr) {
        match expr {
            Expr::Operand(_) | Expr::Whole(_) | Expr::Real(_) => self.out += &(self.leaf)(expr),
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
            Expr::Call(function, operands) => {
                self.out += &(self.function)(function);
                for (i, operand) in operands.iter().enumerate() {
                    self.out += if i == 0 { "(" } else { ", " };
                    self.expr(operand);
                }
                self.out.push(')');
            }
        }
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
        let first = rest.chars().next()?;
        let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '.';
        let is_double = |two: &str| BINARY.iter().any(|row| row.1 == two);
        let len = match rest.get(..2) {
            _ if is_word(first) => rest.find(|c| !is_word(c)).unwrap_or(rest.len()),
            Some(two) if is_double(two) => 2,
            _ => first.len_utf8(),
        };
        let (token, after) = rest.split_at(len);
        rest = after;
        Some(token)
    })
}

struct Reader {
    tokens: Vec<&'static str>,
    at: usize,
}

impl Reader {
    fn peek(&self) -> &'static str {
        self.tokens.get(self.at).copied().unwrap_or("")
    }

    fn next(&mut self) -> &'static str {
        self.at += 1;
        self.tokens.get(self.at - 1).copied().unwrap_or("")
    }

    fn takes(&mut self, token: &str) -> bool {
        let is_next = self.peek() == token;
        self.at += usize::from(is_next);
        is_next
    }

    fn expect(&mut self, token: &str) -> Result<(), String> {
        match self.next() {
            found if found == token => Ok(()),
            found => Err(format!("`{found}` where `{token}` is expected")),
        }
    }

    fn choice(&mut self) -> Result<Expr, String> {
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
            () if token == "(" => {
                let inner = self.choice()?;
                self.expect(")").map(|()| inner)
            }
            () if first.is_ascii_digit() && token.contains('.') => number(token).map(Expr::Real),
            () if first.is_ascii_digit() => number(token).map(Expr::Whole),
            () if first.is_ascii_lowercase() && self.takes("(") => self.call(token),
            () if first.is_ascii_alphabetic() && token.len() == 1 => Ok(Expr::Operand(first)),
            () => Err(format!("`{token}` where an operand is expected")),
        }
    }

    fn call(&mut self, name: &str) -> Result<Expr, String> {
        let Some(function) = FUNCTIONS.iter().find(|function| function.name == name) else {
            return Err(format!("there is no function `{name}`"));
        };
        let mut operands = vec![self.choice()?];
        while self.takes(",") {
            operands.push(self.choice()?);
        }
        self.expect(")")?;
        match operands.len() == function.operands {
            true => Ok(Expr::Call(function, operands)),
            false => Err(format!("`{name}` of {} operands", operands.len())),
        }
    }
}

fn number<T: std::str::FromStr>(token: &str) -> Result<T, String> {
    token.parse().map_err(|_| format!("`{token}` is no number"))
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
        let expr = Expr::parse(text).map_err(|why| format!("{text}: {why}"))?;
        let (mut operands, mut operations, mut is_expensive) = (Vec::new(), 0, false);
        for part in expr.all() {
            match part {
                Expr::Operand(letter) if !operands.contains(letter) => operands.push(*letter),
                Expr::Binary(operator, _) => operations += usize::from(operator.is_arithmetic()),
                Expr::Call(function, _) => {
                    operations += function.operations;
                    is_expensive |= function.is_expensive;
                }
                _ => {}
            }
        }
        let is_share = matches!(&expr, Expr::Call(function, _) if function.is_share);
        Ok(Expression { text, expr, operands, is_expensive, is_share, operations })
    }

    /// Whether it names an operand.
    pub fn reads(&self, letter: char) -> bool {
        self.operands.contains(&letter)
    }

    /// Whether it is an operand alone.
    pub fn is_operand(&self) -> bool {
        matches!(self.expr, Expr::Operand(_))
    }
}

/// The texts of all formulas and recipes. The ones that cannot be parsed are kept as messages.
static ALL: LazyLock<FxHashMap<&'static str, Result<Expression, String>>> =
    LazyLock::new(|| formulas::texts().chain(recipes::texts()).map(|text| (text, Expression::new(text))).collect());

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
            Expr::Whole(n) => n.to_string(),
            Expr::Real(x) => format!("{x:?}"),
            _ => String::new(),
        };
        for text in ALL.keys() {
            let printed = of(text).expr.print(&leaf, &|function| function.name.to_owned());
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
        assert_eq!(why("a b"), "`b` behind an expression");
        assert_eq!(why("a ? b"), "`` where `:` is expected");
    }

    #[test]
    fn functions_cost_what_the_prelude_spells() {
        for function in FUNCTIONS {
            let spelled = prelude::spelled_operations(&format!("jo_{}f", function.name));
            assert_eq!(function.operations, spelled, "{}", function.name);
            let is_there = |name: &str| prelude::functions().any(|known| known == name);
            let [float, whole] = ["f", "32"].map(|suffix| is_there(&format!("jo_{}{suffix}", function.name)));
            assert!(float || whole, "{}", function.name);
        }
    }
}
