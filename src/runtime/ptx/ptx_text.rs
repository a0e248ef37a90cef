//! The text of PTX as statements: declarations, labels and instructions, each with its line.
//!
//! ```text
//! .loc 1 156 9                              a line of the source
//! $L__BB0_5:                                a label
//! @%p1 bra $L__BB0_6;                       an instruction with a guard
//! ld.global.v2.f32 {%f1, %f2}, [%rd6+8];    operands: names, numbers, vectors, addresses
//! ```
//!
//! Statements that the reader does not know are errors with their line.

use rustc_hash::FxHashMap;

/// An operand of an instruction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Operand<'t> {
    /// A register, a variable or a label.
    Name(&'t str),
    /// The bits of a number.
    Number(u64),
    /// `[name+8]`.
    Address(&'t str, i64),
    /// `{%f1, %f2}`.
    Vector(Vec<Operand<'t>>),
    /// `%r1|%p2`.
    Pair(&'t str, &'t str),
}

/// An instruction.
#[derive(Clone, Debug)]
pub(super) struct Statement<'t> {
    /// Its line, and that of the source that it is made of, 0 if that is unknown.
    pub(super) line: u32,
    pub(super) origin: u32,
    /// The predicate under which it is executed, and whether that is negated.
    pub(super) guard: Option<(&'t str, bool)>,
    /// `ld.global.v2.f32`.
    pub(super) opcode: &'t str,
    pub(super) operands: Vec<Operand<'t>>,
}

/// A variable in memory, or a parameter.
#[derive(Clone, Debug)]
pub(super) struct Variable<'t> {
    pub(super) name: &'t str,
    /// `.shared`, `.local`, `.global`, `.const` or `.param`.
    pub(super) space: &'t str,
    pub(super) align: u64,
    pub(super) bytes: u64,
    /// The bytes that it begins with, if any are given.
    pub(super) initial: Vec<u8>,
}

/// An entry.
#[derive(Debug, Default)]
pub(super) struct Listed<'t> {
    pub(super) name: &'t str,
    /// Parameters, and variables in its body.
    pub(super) variables: Vec<Variable<'t>>,
    pub(super) statements: Vec<Statement<'t>>,
    /// The statement that follows each label.
    pub(super) labels: FxHashMap<&'t str, usize>,
}

/// A module.
#[derive(Debug, Default)]
pub(super) struct Listing<'t> {
    pub(super) entries: Vec<Listed<'t>>,
    /// Variables outside of entries.
    pub(super) variables: Vec<Variable<'t>>,
}

/// A word, or one character, and its line.
type Token<'t> = (&'t str, u32);

/// Reads a module.
///
/// # Errors
/// The line that is not understood.
pub(super) fn read(text: &str) -> Result<Listing<'_>, String> {
    let mut reader = Reader { tokens: tokens(text), at: 0, origin: 0 };
    let mut listing = Listing::default();
    while let Some((word, _)) = reader.next() {
        match word {
            ".version" | ".target" | ".address_size" | ".file" => reader.skip_line(),
            ".section" => reader.skip_block()?,
            ".visible" | ".weak" | ".extern" => {}
            ".entry" => listing.entries.push(reader.entry()?),
            ".global" | ".const" => listing.variables.push(reader.variable(word, ";")?),
            _ => return Err(reader.wrong("is not known outside of entries")),
        }
    }
    Ok(listing)
}

fn is_of_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '$' | '%' | '.')
}

/// The words and other characters of a text, without comments.
fn tokens(text: &str) -> Vec<Token<'_>> {
    let mut all = Vec::new();
    for (line, number) in text.lines().zip(1..) {
        let mut rest = line.split("//").next().unwrap_or_default().trim_start();
        while let Some(first) = rest.chars().next() {
            let length = match first {
                '"' => rest[1..].find('"').map_or(rest.len(), |end| end + 2),
                _ if is_of_word(first) => word_length(rest),
                _ => first.len_utf8(),
            };
            all.push((&rest[..length], number));
            rest = rest[length..].trim_start();
        }
    }
    all
}

/// The length of a word: modifiers of instructions have double colons in them.
fn word_length(text: &str) -> usize {
    let mut at = 0;
    loop {
        at += text[at..].find(|c| !is_of_word(c)).unwrap_or(text.len() - at);
        let is_modifier = text[at..].starts_with("::") && text[at + 2..].starts_with(is_of_word);
        if !is_modifier {
            return at;
        }
        at += 2;
    }
}

/// The bits of a number: `0f3F800000` and `0d3FF0000000000000` are those of floats.
fn number(word: &str) -> Option<u64> {
    let hexadecimal = ["0f", "0F", "0d", "0D", "0x", "0X"].iter().find_map(|prefix| word.strip_prefix(prefix));
    match hexadecimal {
        Some(digits) => u64::from_str_radix(digits.trim_end_matches('U'), 16).ok(),
        None => word.trim_end_matches('U').parse().ok(),
    }
}

struct Reader<'t> {
    tokens: Vec<Token<'t>>,
    at: usize,
    /// The line of the source.
    origin: u32,
}

impl<'t> Reader<'t> {
    fn next(&mut self) -> Option<Token<'t>> {
        self.at += 1;
        self.tokens.get(self.at - 1).copied()
    }

    fn peek(&self) -> &'t str {
        self.tokens.get(self.at).map_or("", |token| token.0)
    }

    fn word(&mut self) -> Result<&'t str, String> {
        self.next().map(|token| token.0).ok_or_else(|| "the text ends within a statement".to_owned())
    }

    fn takes(&mut self, word: &str) -> bool {
        let is_it = self.peek() == word;
        self.at += usize::from(is_it);
        is_it
    }

    fn expect(&mut self, wanted: &str) -> Result<(), String> {
        match self.word()? {
            word if word == wanted => Ok(()),
            _ => Err(self.wrong(&format!("stands where `{wanted}` is expected"))),
        }
    }

    /// An error about the token before.
    fn wrong(&self, why: &str) -> String {
        let (word, line) = self.tokens.get(self.at.saturating_sub(1)).copied().unwrap_or_default();
        format!("PTX line {line}: `{word}` {why}")
    }

    fn skip_line(&mut self) {
        let line = self.tokens.get(self.at - 1).map_or(0, |token| token.1);
        while self.tokens.get(self.at).is_some_and(|token| token.1 == line) {
            self.at += 1;
        }
    }

    fn skip_block(&mut self) -> Result<(), String> {
        while self.word()? != "{" {}
        while self.word()? != "}" {}
        Ok(())
    }

    fn size(&mut self) -> Result<u64, String> {
        let word = self.word()?;
        number(word).ok_or_else(|| self.wrong("stands where a number is expected"))
    }

    fn entry(&mut self) -> Result<Listed<'t>, String> {
        let mut entry = Listed { name: self.word()?, ..Listed::default() };
        self.origin = 0;
        if self.takes("(") {
            while !self.takes(")") {
                self.expect(".param")?;
                entry.variables.push(self.variable(".param", ",)")?);
            }
        }
        // Limits of threads and the like, which launches respect.
        while self.peek() != "{" {
            self.word()?;
        }
        self.at += 1;
        self.body(&mut entry)?;
        Ok(entry)
    }

    /// Statements up to the end of the body, which has blocks in it that only bound names.
    fn body(&mut self, entry: &mut Listed<'t>) -> Result<(), String> {
        let mut depth = 1;
        while depth > 0 {
            let (word, line) = self.next().ok_or("the text ends within an entry")?;
            match word {
                "{" => depth += 1,
                "}" => depth -= 1,
                ".loc" => self.location()?,
                ".reg" | ".pragma" => while self.word()? != ";" {},
                ".shared" | ".local" => entry.variables.push(self.variable(word, ";")?),
                _ if word.starts_with('.') => return Err(self.wrong("is not known in entries")),
                _ if self.takes(":") => {
                    entry.labels.insert(word, entry.statements.len());
                }
                _ => entry.statements.push(self.statement(word, line)?),
            }
        }
        Ok(())
    }

    /// `.loc file line column`: lines of functions that are inlined name the same statement.
    fn location(&mut self) -> Result<(), String> {
        self.size()?;
        let line = self.size()?;
        self.size()?;
        if self.peek() == "," {
            self.skip_line();
        } else if line > 0 {
            self.origin = u32::try_from(line).unwrap_or(0);
        }
        Ok(())
    }

    /// `.align 8 .b8 name[64] = {1, 2}`, up to one of some characters.
    fn variable(&mut self, space: &'t str, ends: &str) -> Result<Variable<'t>, String> {
        let align = if self.takes(".align") { self.size()? } else { 1 };
        let ty = self.word()?;
        let size = size_of_type(ty).ok_or_else(|| self.wrong("is no type of a variable"))?;
        let mut variable = Variable { name: self.word()?, space, align: align.max(size), bytes: size, initial: vec![] };
        if self.takes("[") {
            variable.bytes = size.saturating_mul(self.size()?);
            self.expect("]")?;
        }
        if self.takes("=") {
            self.expect("{")?;
            while !self.takes("}") {
                let value = self.size()?;
                variable.initial.extend(&value.to_le_bytes()[..size as usize]);
                self.takes(",");
            }
        }
        match ends.contains(self.peek()) {
            // The end of a list is read by its owner.
            true if self.peek() == ")" => {}
            true => self.at += 1,
            false => {
                self.at += 1;
                return Err(self.wrong("is not expected after a variable"));
            }
        }
        Ok(variable)
    }

    fn statement(&mut self, first: &'t str, line: u32) -> Result<Statement<'t>, String> {
        let mut statement = Statement { line, origin: self.origin, guard: None, opcode: first, operands: vec![] };
        if first == "@" {
            let is_negated = self.takes("!");
            statement.guard = Some((self.word()?, is_negated));
            statement.opcode = self.word()?;
        }
        while !self.takes(";") {
            let operand = self.operand()?;
            statement.operands.push(operand);
            if self.peek() != ";" {
                self.expect(",")?;
            }
        }
        Ok(statement)
    }

    fn operand(&mut self) -> Result<Operand<'t>, String> {
        match self.word()? {
            "[" => {
                let base = self.word()?;
                let offset = if self.takes("+") { self.signed()? } else { 0 };
                self.expect("]")?;
                Ok(Operand::Address(base, offset))
            }
            "{" => {
                let mut all = Vec::new();
                while !self.takes("}") {
                    all.push(self.simple()?);
                    self.takes(",");
                }
                Ok(Operand::Vector(all))
            }
            _ => {
                self.at -= 1;
                self.simple()
            }
        }
    }

    /// A name, two of them, or a number.
    fn simple(&mut self) -> Result<Operand<'t>, String> {
        if self.peek() == "-" || number(self.peek()).is_some() {
            return self.signed().map(|number| Operand::Number(number as u64));
        }
        let word = self.word()?;
        match word.starts_with(is_of_word) {
            true if self.takes("|") => Ok(Operand::Pair(word, self.word()?)),
            true => Ok(Operand::Name(word)),
            false => Err(self.wrong("is no operand")),
        }
    }

    fn signed(&mut self) -> Result<i64, String> {
        let is_negative = self.takes("-");
        let value = self.size()? as i64;
        Ok(if is_negative { value.wrapping_neg() } else { value })
    }
}

/// The bytes of an element of a variable: `.b8`, `.f64`.
fn size_of_type(ty: &str) -> Option<u64> {
    match ty.strip_prefix('.')?.trim_start_matches(['b', 'u', 's', 'f']) {
        "8" => Some(1),
        "16" => Some(2),
        "32" => Some(4),
        "64" => Some(8),
        _ => None,
    }
}
