//! Expressions of one logical line.

use crate::printed_syntax::{Call, Expr, ExprKind};
use crate::source_error::{Result, fail};
use jitopt_archive::code_tokens::{Line, Token};
use jitopt_core::text::quoted;

/// Attributes, calls and indices after each other: trees of them are walked by recursion.
const LONGEST_CHAIN: usize = 100;

/// A place in the tokens of a line. `text` is that of the record, for offsets.
pub(crate) struct Cursor<'a, 'l> {
    text: &'a str,
    line: &'l Line<'a>,
    at: usize,
}

impl<'a, 'l> Cursor<'a, 'l> {
    pub(crate) fn new(text: &'a str, line: &'l Line<'a>) -> Cursor<'a, 'l> {
        Cursor { text, line, at: 0 }
    }

    pub(crate) fn peek(&self) -> Option<Token<'a>> {
        self.line.get(self.at)
    }

    pub(crate) fn peek_second(&self) -> Option<Token<'a>> {
        self.line.get(self.at + 1)
    }

    pub(crate) fn next(&mut self) -> Option<Token<'a>> {
        let token = self.peek();
        self.at += 1;
        token
    }

    /// The offset of the next token in the record; at the end of the line, of the last one.
    pub(crate) fn offset(&self) -> usize {
        let token = self.peek().or_else(|| self.line.tokens.last().copied());
        // Tokens are parts of the text.
        token.map_or(0, |token| token.text().as_ptr().addr().saturating_sub(self.text.as_ptr().addr()))
    }

    pub(crate) fn takes(&mut self, mark: &str) -> bool {
        let found = self.line.has(self.at, mark);
        self.at += usize::from(found);
        found
    }

    pub(crate) fn takes_name(&mut self, name: &str) -> bool {
        let found = self.peek() == Some(Token::Name(name));
        self.at += usize::from(found);
        found
    }

    pub(crate) fn expect(&mut self, mark: &str) -> Result<()> {
        if self.takes(mark) { Ok(()) } else { self.expected(&format!("`{mark}`")) }
    }

    pub(crate) fn name(&mut self) -> Result<String> {
        match self.peek() {
            Some(Token::Name(name)) => {
                self.at += 1;
                Ok(name.to_owned())
            }
            _ => self.expected("a name"),
        }
    }

    pub(crate) fn expected<T>(&self, what: &str) -> Result<T> {
        match self.peek() {
            Some(token) => {
                let found: String = token.text().chars().take(40).collect();
                fail(format!("expected {what}, found `{}`", found.escape_debug()))
            }
            None => fail(format!("expected {what}, found the end of the line")),
        }
    }

    pub(crate) fn end(&self) -> Result<()> {
        if self.peek().is_none() { Ok(()) } else { self.expected("the end of the line") }
    }

    /// Expressions up to a mark, `a, b, )`; whether there was a comma.
    fn list_up_to(&mut self, close: &str) -> Result<(Vec<Expr>, bool)> {
        let (mut items, mut comma) = (Vec::new(), false);
        while !self.takes(close) {
            items.push(self.expression()?);
            if self.takes(",") {
                comma = true;
            } else {
                self.expect(close)?;
                break;
            }
        }
        Ok((items, comma))
    }

    /// `a`, or `a, b` and `a, ` without brackets: a tuple.
    pub(crate) fn expressions(&mut self) -> Result<Expr> {
        let at = self.offset();
        let first = self.expression()?;
        if !self.takes(",") {
            return Ok(first);
        }
        let mut items = vec![first];
        while self.peek().is_some_and(|token| !token.is("=")) {
            items.push(self.expression()?);
            if !self.takes(",") {
                break;
            }
        }
        Ok(Expr { at, kind: ExprKind::Tuple(items) })
    }

    /// One expression. Brackets are as deep as the tokens allow, a hundred.
    pub(crate) fn expression(&mut self) -> Result<Expr> {
        let at = self.offset();
        if self.takes("-") {
            let inner = self.expression()?;
            return negative(at, inner);
        }
        let mut expr = self.atom()?;
        for _ in 0..LONGEST_CHAIN {
            let kind = if self.takes(".") {
                ExprKind::Attribute(Box::new(expr), self.name()?)
            } else if self.takes("(") {
                self.call(expr)?
            } else if self.takes("[") {
                self.subscript(expr)?
            } else {
                return self.sum(expr);
            };
            expr = Expr { at, kind };
        }
        self.expected("a shorter chain of attributes, calls and indices")
    }

    /// `1.+2.j`: a complex number is two literals with a sign between.
    fn sum(&mut self, real: Expr) -> Result<Expr> {
        let sign = match self.peek() {
            Some(Token::Mark("+")) => 1.0,
            Some(Token::Mark("-")) => -1.0,
            _ => return Ok(real),
        };
        let ExprKind::Float(value) = real.kind else { return self.expected("the end of an expression") };
        self.at += 1;
        match self.atom()?.kind {
            ExprKind::Complex(_, imaginary) => {
                Ok(Expr { at: real.at, kind: ExprKind::Complex(value, sign * imaginary) })
            }
            _ => self.expected("the imaginary part of a complex number"),
        }
    }

    fn atom(&mut self) -> Result<Expr> {
        let at = self.offset();
        let kind = match self.next() {
            Some(Token::Name("True")) => ExprKind::Bool(true),
            Some(Token::Name("False")) => ExprKind::Bool(false),
            Some(Token::Name("None")) => ExprKind::None,
            Some(Token::Name(name)) => ExprKind::Name(name.to_owned()),
            Some(Token::Number(number)) => self.number(number)?,
            Some(Token::Text(text)) => match quoted::parse(text.as_bytes()) {
                Ok((bytes, _)) => ExprKind::Text(bytes),
                Err((_, problem)) => return fail(problem),
            },
            Some(Token::Mark("(")) => {
                let (mut items, comma) = self.list_up_to(")")?;
                match items.pop() {
                    Some(only) if items.is_empty() && !comma => return Ok(only),
                    last => ExprKind::Tuple(items.into_iter().chain(last).collect()),
                }
            }
            Some(Token::Mark("[")) => ExprKind::List(self.list_up_to("]")?.0),
            Some(Token::Mark("{")) => self.dict()?,
            _ => {
                self.at -= 1;
                return self.expected("an expression");
            }
        };
        Ok(Expr { at, kind })
    }

    fn number(&mut self, number: &str) -> Result<ExprKind> {
        if let Some(imaginary) = number.strip_suffix('j') {
            return real(imaginary).map(|imaginary| ExprKind::Complex(0.0, imaginary));
        }
        if number.bytes().all(|byte| byte.is_ascii_digit()) {
            // The least int is printed with a sign: its magnitude is no int.
            return match number.parse::<i128>() {
                Ok(value) if value == -i128::from(i64::MIN) => Ok(ExprKind::Int(i64::MIN)),
                Ok(value) => i64::try_from(value).map(ExprKind::Int).or_else(|_| fail("an int of more than 64 bits")),
                Err(_) => fail("an int of more than 64 bits"),
            };
        }
        real(number).map(ExprKind::Float)
    }

    fn dict(&mut self) -> Result<ExprKind> {
        let mut entries = Vec::new();
        while !self.takes("}") {
            let key = self.expression()?;
            self.expect(":")?;
            entries.push((key, self.expression()?));
            if !self.takes(",") {
                self.expect("}")?;
                break;
            }
        }
        Ok(ExprKind::Dict(entries))
    }

    fn call(&mut self, callee: Expr) -> Result<ExprKind> {
        let (mut arguments, mut named) = (Vec::new(), Vec::new());
        while !self.takes(")") {
            let is_named =
                matches!(self.peek(), Some(Token::Name(_))) && self.peek_second().is_some_and(|token| token.is("="));
            if is_named {
                let name = self.name()?;
                self.expect("=")?;
                named.push((name, self.expression()?));
            } else if named.is_empty() {
                arguments.push(self.expression()?);
            } else {
                return self.expected("an argument with a name after others with names");
            }
            if !self.takes(",") {
                self.expect(")")?;
                break;
            }
        }
        Ok(ExprKind::Call(Box::new(Call { callee, arguments, named })))
    }

    fn subscript(&mut self, object: Expr) -> Result<ExprKind> {
        let object = Box::new(object);
        let bound = |cursor: &mut Self, close: &str| {
            let is_there = cursor.peek().is_some_and(|token| !token.is(close));
            is_there.then(|| cursor.expression().map(Box::new)).transpose()
        };
        let at = self.offset();
        let from = bound(self, ":")?;
        if self.takes(":") {
            let to = bound(self, "]")?;
            self.expect("]")?;
            return Ok(ExprKind::Slice(object, from, to));
        }
        let Some(first) = from else { return self.expected("an index") };
        if self.takes("]") {
            return Ok(ExprKind::Item(object, first));
        }
        // Parts of a type, `Dict[str, int]`.
        self.expect(",")?;
        let mut items = vec![*first];
        items.extend(self.list_up_to("]")?.0);
        Ok(ExprKind::Item(object, Box::new(Expr { at, kind: ExprKind::Tuple(items) })))
    }
}

fn real(text: &str) -> Result<f64> {
    text.parse().or_else(|_| fail("a malformed number"))
}

/// `-3` is a literal; `-inf` is computed.
fn negative(at: usize, inner: Expr) -> Result<Expr> {
    let kind = match inner.kind {
        ExprKind::Int(value) => ExprKind::Int(value.wrapping_neg()),
        ExprKind::Float(value) => ExprKind::Float(-value),
        ExprKind::Complex(real, imaginary) => ExprKind::Complex(-real, imaginary),
        _ => ExprKind::Negative(Box::new(inner)),
    };
    Ok(Expr { at, kind })
}
