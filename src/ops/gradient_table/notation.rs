//! The notation of gradient formulas, and its parser.
//!
//! ```text
//! keep self_size = size(self)                   a value of the forward graph
//! result, mean := native_norm(self)             what stands in the place of the operator
//! mask = if flag { -> result > 0 } else { -> result < 0 }
//! grad self = g * mask                          the gradient of an operand
//! ```
//!
//! Names are operands of the operator by their formals, its results (`result`, or `result0`,
//! `result1`, …), the incoming gradients (`g`, or `g0`, …), and values of earlier lines. Calls name
//! operators of `aten`, others with their namespace, or functions of the table; omitted operands
//! have their defaults. Arithmetic and comparison operators stand for calls, as does an index in
//! brackets. `'1` is a constant local to the formula, any other number is one shared by the whole
//! graph: PyTorch makes this difference from 1.5 on. `constants(1)` is a number that is kept in a
//! tuple.

/// An expression.
#[derive(Debug)]
pub enum Expr {
    /// A named value.
    Name(&'static str),
    /// A constant.
    Literal(Literal),
    /// A list.
    List(Vec<Expr>),
    /// A tuple that is unpacked when it is assigned.
    Tuple(Vec<Expr>),
    /// A call; operands with names are keyword arguments.
    Call(&'static str, Vec<(Option<&'static str>, Expr)>),
    /// An arithmetic or comparison operator.
    Sign(&'static str, Box<(Expr, Expr)>),
    /// Negation.
    Negated(Box<Expr>),
    /// A branch.
    If(Box<(Expr, Body, Body)>),
    /// A loop.
    For(Box<Repeat>),
}

/// A loop.
#[derive(Debug)]
pub struct Repeat {
    /// The counter.
    pub counter: &'static str,
    /// The trip count.
    pub trips: Expr,
    /// The loop-carried values, with their initial values.
    pub carried: Vec<(&'static str, Expr)>,
    /// The body of an iteration: its results are carried to the next one.
    pub body: Body,
}

/// A constant.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Literal {
    /// An integer, and whether it is local to the formula.
    Int(i64, bool),
    /// A float, and whether it is local.
    Float(f64, bool),
    /// True or false.
    Bool(bool),
    /// None.
    None,
    /// A string.
    Text(&'static str),
    /// An integer that is kept in a tuple.
    Kept(i64),
}

/// Lines and results.
#[derive(Debug, Default)]
pub struct Body {
    /// The lines.
    pub lines: Vec<Line>,
    /// The results.
    pub results: Vec<Expr>,
}

/// The role of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Names a value in the backward graph.
    Local,
    /// Names a value in the forward graph.
    Keep,
    /// Replaces the operator in the forward graph.
    Replace,
    /// Defines the gradient of an operand.
    Grad,
}

/// A line.
#[derive(Debug)]
pub struct Line {
    /// The role.
    pub role: Role,
    /// The names.
    pub names: Vec<&'static str>,
    /// The value.
    pub value: Expr,
}

/// Parses a body. An error means a mistake in the table, which a test finds.
pub(crate) fn body(text: &'static str) -> Result<Body, String> {
    let mut reader = Reader { tokens: tokens(text)?, at: 0 };
    let body = reader.body("")?;
    Ok(body)
}

/// Names, numbers with their mark, strings and signs; line ends outside of brackets are `;`.
fn tokens(text: &'static str) -> Result<Vec<&'static str>, String> {
    let (mut all, mut rest, mut depth) = (Vec::new(), text, 0usize);
    while let Some(first) = rest.bytes().next() {
        let word = |b: u8| b.is_ascii_alphanumeric() || b == b'_' || b == b'.' || b == b':';
        let signs = [":=", "->", "==", "!=", "<=", ">="];
        let len = match first {
            b'#' => {
                rest = &rest[rest.find('\n').unwrap_or(rest.len())..];
                continue;
            }
            b'\n' if depth == 0 => {
                all.push(";");
                rest = &rest[1..];
                continue;
            }
            b if b.is_ascii_whitespace() => {
                rest = &rest[1..];
                continue;
            }
            b'"' => 2 + rest[1..].find('"').ok_or("a text does not end")?,
            b'\'' => 1 + number(&rest[1..]),
            b if b.is_ascii_digit() => number(rest),
            b if word(b) && !rest.starts_with(":=") => rest.bytes().take_while(|&b| word(b)).count(),
            _ => signs.iter().find(|sign| rest.starts_with(**sign)).map_or(1, |sign| sign.len()),
        };
        let (token, tail) = rest.split_at(len);
        match token {
            "(" | "[" => depth += 1,
            ")" | "]" => depth = depth.checked_sub(1).ok_or("a bracket too many")?,
            _ => {}
        }
        all.push(token);
        rest = tail;
    }
    Ok(all)
}

/// The length of the number at the start of a text: `1e-5`, `0.5`.
fn number(text: &str) -> usize {
    let bytes = text.as_bytes();
    let part = |i: usize| {
        let b = bytes[i];
        b.is_ascii_digit() || b == b'.' || b == b'e' || (b == b'-' && i > 0 && bytes[i - 1] == b'e')
    };
    (0..bytes.len()).take_while(|&i| part(i)).count()
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
        let token = self.peek();
        self.at += 1;
        token
    }

    fn eat(&mut self, token: &str) -> bool {
        let found = self.peek() == token;
        self.at += usize::from(found);
        found
    }

    fn expect(&mut self, token: &str) -> Result<(), String> {
        if self.eat(token) { Ok(()) } else { Err(format!("expected `{token}`, not `{}`", self.peek())) }
    }

    /// Lines up to `end`, and the results if there are any.
    fn body(&mut self, end: &str) -> Result<Body, String> {
        let mut body = Body::default();
        loop {
            while self.eat(";") {}
            if self.eat("->") {
                body.results = self.list(end)?;
                while self.eat(";") {}
                if !end.is_empty() {
                    self.expect(end)?;
                }
                return Ok(body);
            }
            if self.peek() == end {
                self.at += 1;
                return Ok(body);
            }
            let line = self.line()?;
            body.lines.push(line);
        }
    }

    fn line(&mut self) -> Result<Line, String> {
        let mut role = match self.peek() {
            "keep" => Role::Keep,
            "grad" => Role::Grad,
            _ => Role::Local,
        };
        self.at += usize::from(role != Role::Local);
        let mut names = vec![self.next()];
        while self.eat(",") {
            names.push(self.next());
        }
        if self.eat(":=") {
            role = Role::Replace;
        } else {
            self.expect("=")?;
        }
        Ok(Line { role, names, value: self.expr(0)? })
    }

    /// Expressions with commas in between, up to a token that ends them.
    fn list(&mut self, end: &str) -> Result<Vec<Expr>, String> {
        let mut all = Vec::new();
        while !["", ";"].contains(&self.peek()) && self.peek() != end {
            all.push(self.expr(0)?);
            if !self.eat(",") {
                break;
            }
        }
        Ok(all)
    }

    /// An expression of operators that bind at least as strongly as `least`.
    fn expr(&mut self, least: u8) -> Result<Expr, String> {
        let mut left = self.single()?;
        while self.eat("[") {
            let index = self.expr(0)?;
            self.expect("]")?;
            left = Expr::Call("__getitem__", vec![(None, left), (None, index)]);
        }
        loop {
            let sign = self.peek();
            let strength = match sign {
                "<" | ">" | "<=" | ">=" | "==" | "!=" => 1,
                "+" | "-" => 2,
                "*" | "/" => 3,
                _ => return Ok(left),
            };
            if strength <= least {
                return Ok(left);
            }
            self.at += 1;
            let right = self.expr(strength)?;
            left = Expr::Sign(sign, Box::new((left, right)));
        }
    }

    fn single(&mut self) -> Result<Expr, String> {
        let token = self.next();
        let first = token.bytes().next().ok_or("the formula ends too early")?;
        Ok(match token {
            "-" => match self.peek().parse::<f64>() {
                Ok(_) => negative(self.single()?),
                Err(_) => Expr::Negated(Box::new(self.expr(3)?)),
            },
            "(" => {
                let mut all = self.list(")")?;
                self.expect(")")?;
                if all.len() == 1 { all.remove(0) } else { Expr::Tuple(all) }
            }
            "[" => {
                let all = self.list("]")?;
                self.expect("]")?;
                Expr::List(all)
            }
            "None" => Expr::Literal(Literal::None),
            "True" | "False" => Expr::Literal(Literal::Bool(token == "True")),
            "if" => self.branch()?,
            "for" => self.repeat()?,
            "constants" => {
                self.expect("(")?;
                let value = self.next().parse().map_err(|_| "a kept constant is an integer".to_owned())?;
                self.expect(")")?;
                Expr::Literal(Literal::Kept(value))
            }
            _ if first == b'"' => Expr::Literal(Literal::Text(&token[1..token.len() - 1])),
            _ if first == b'\'' => literal(&token[1..], true)?,
            _ if first.is_ascii_digit() => literal(token, false)?,
            _ if first.is_ascii_alphabetic() || first == b'_' => self.name_or_call(token)?,
            _ => return Err(format!("`{token}` begins no expression")),
        })
    }

    fn name_or_call(&mut self, name: &'static str) -> Result<Expr, String> {
        if !self.eat("(") {
            return Ok(Expr::Name(name));
        }
        let mut operands = Vec::new();
        while self.peek() != ")" {
            let named = self.tokens.get(self.at + 1) == Some(&"=");
            let name = named.then(|| self.next());
            self.at += usize::from(named);
            operands.push((name, self.expr(0)?));
            if !self.eat(",") {
                break;
            }
        }
        self.expect(")")?;
        Ok(Expr::Call(name, operands))
    }

    fn branch(&mut self) -> Result<Expr, String> {
        let condition = self.expr(0)?;
        self.expect("{")?;
        let then = self.body("}")?;
        self.expect("else")?;
        let otherwise = if self.eat("if") {
            Body { lines: Vec::new(), results: vec![self.branch()?] }
        } else {
            self.expect("{")?;
            self.body("}")?
        };
        Ok(Expr::If(Box::new((condition, then, otherwise))))
    }

    /// `for i < n with a = x, b = y { … -> a2, b2 }`
    fn repeat(&mut self) -> Result<Expr, String> {
        let counter = self.next();
        self.expect("<")?;
        let trips = self.expr(3)?;
        let mut carried = Vec::new();
        if self.eat("with") {
            loop {
                let name = self.next();
                self.expect("=")?;
                carried.push((name, self.expr(0)?));
                if !self.eat(",") {
                    break;
                }
            }
        }
        self.expect("{")?;
        let body = self.body("}")?;
        Ok(Expr::For(Box::new(Repeat { counter, trips, carried, body })))
    }
}

fn negative(number: Expr) -> Expr {
    match number {
        Expr::Literal(Literal::Int(n, local)) => Expr::Literal(Literal::Int(-n, local)),
        Expr::Literal(Literal::Float(x, local)) => Expr::Literal(Literal::Float(-x, local)),
        other => Expr::Negated(Box::new(other)),
    }
}

fn literal(text: &str, local: bool) -> Result<Expr, String> {
    let wrong = |_| format!("`{text}` is not a number");
    Ok(Expr::Literal(match text.contains(['.', 'e']) {
        true => Literal::Float(text.parse().map_err(wrong)?, local),
        false => Literal::Int(text.parse().map_err(|_| format!("`{text}` is not a number"))?, local),
    }))
}
