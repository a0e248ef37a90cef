//! Attribute values: reading and printing.
//!
//! The text alone does not determine the kind of a value: `2` is an int, a float of six digits or a
//! bool. The declared type of the constant decides, see `coerce`. Text that is not a literal but
//! has balanced brackets is kept verbatim: a tensor that PyTorch printed with its elements, or an
//! opaque value that never equals another. Text that no PyTorch prints is kept, too, with a
//! [`Read::doubt`]: a misspelt value must not silently become an unknown one.
//!
//! Blanks, line ends and comments may stand between any two tokens of a literal.

use super::number::{parse_float, print_float, print_int, styles_of};
use super::quoted;
use crate::ir::{Attribute, Float, FloatStyle};
use crate::symbol::{Symbol, attr};
use crate::types::spelling::{self, Seen, Spelling};
use crate::types::{MAX_DEPTH, Simple, Type, TypeKind, gaps};
use nom::bytes::complete::take_while1;
use nom::{IResult, Parser};
use smallvec::SmallVec;
use std::ops::Range;

type Input<'a> = &'a [u8];

/// The evidence of the writer's release in literals and types.
#[derive(Clone, Copy, Debug, Default)]
pub struct Evidence {
    /// From types.
    pub types: Seen,
    /// A float that only the six-digit printer spells this way: up to 1.4.
    pub six: bool,
    /// A float that only the 17-digit printers spell this way: since 1.5.
    pub seventeen: bool,
    /// `12345678901.`: 1.5 and 1.6.
    pub pointed: bool,
    /// A float `12345678901`: since 1.7.
    pub unpointed: bool,
    /// `-0.`: since 1.8.
    pub minus_zero: bool,
    /// `annotate(List[int], [])`
    pub annotated: bool,
    /// `graph(%x : Tensor) {`: up to 1.0, which escapes no quotes in strings.
    pub braces: bool,
}

/// An error in a literal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The place, in bytes from the start of the given text.
    pub span: Range<usize>,
    /// The construct expected there.
    pub message: String,
    /// The remedy.
    pub help: Option<String>,
}

/// A value that was read.
#[derive(Debug)]
pub struct Read {
    /// The value.
    pub value: Attribute,
    /// The number of bytes consumed, blanks on both sides included.
    pub used: usize,
    /// The reason why the value is probably a mistake: it is opaque, and no PyTorch prints such
    /// text.
    pub doubt: Option<Problem>,
}

/// Reads the value of attribute `name` from the start of `input`. `ty` is the declared type of the
/// constant, if it is one and the text declares it.
pub fn parse(input: Input<'_>, name: Symbol, ty: Option<Type>, seen: &mut Evidence) -> Result<Read, Problem> {
    let (read, text) = match small_int(input) {
        Some((n, used)) => (Read { value: Attribute::Int(n), used, doubt: None }, &input[..used]),
        None => {
            let float = ty.is_some_and(|ty| ty.to_string().contains("float"));
            let types = matches!(name, attr::TYPES | attr::PROFILED_TYPE);
            Reader { seen, types, float, total: input.len() }.whole(input, ty)?
        }
    };
    match ty {
        Some(ty) if name == attr::VALUE => Ok(Read { value: coerce(read.value, text, ty, seen), ..read }),
        _ => Ok(read),
    }
}

/// The common case: a short integer and the end of the attribute.
#[inline]
fn small_int(input: Input<'_>) -> Option<(i64, usize)> {
    let negative = input.first() == Some(&b'-');
    let start = usize::from(negative);
    let (mut n, mut at) = (0i64, start);
    while let Some(&digit @ b'0'..=b'9') = input.get(at) {
        n = n * 10 + i64::from(digit - b'0');
        at += 1;
        if at > 17 {
            return None;
        }
    }
    let padded = at > start + 1 && input[start] == b'0';
    let ends = at > start && !padded && matches!(input.get(at), Some(b']' | b','));
    // `-0` is a float.
    (ends && !(negative && n == 0)).then_some((if negative { -n } else { n }, at))
}

/// The position at which reading stopped, as the number of bytes left, and the reason. An empty
/// message means that the text is not a literal: it is kept verbatim.
struct Fault {
    left: usize,
    message: String,
}

type Step<'a, T = Attribute> = Result<(T, Input<'a>), Fault>;

fn fault<T>(rest: Input<'_>, message: impl Into<String>) -> Result<T, Fault> {
    Err(Fault { left: rest.len(), message: message.into() })
}

fn no_literal(rest: Input<'_>) -> Fault {
    Fault { left: rest.len(), message: String::new() }
}

struct Reader<'s> {
    seen: &'s mut Evidence,
    /// Whether bare words are types.
    types: bool,
    /// Whether the declared type contains floats.
    float: bool,
    /// The length of the text in bytes.
    total: usize,
}

impl Reader<'_> {
    /// One literal up to `,` or `]`, or else the raw text up to there; and the text of the literal.
    fn whole<'a>(&mut self, input: Input<'a>, ty: Option<Type>) -> Result<(Read, Input<'a>), Problem> {
        let ends = |rest: Input<'_>| rest.first().is_none_or(|b| matches!(b, b',' | b']'));
        let start = after_gap(input);
        let stopped = match self.value(start, 0) {
            Ok((value, rest)) if ends(after_gap(rest)) => {
                let used = input.len() - after_gap(rest).len();
                return Ok((Read { value, used, doubt: None }, &start[..start.len() - rest.len()]));
            }
            Ok((_, rest)) => self.total - after_gap(rest).len(),
            Err(Fault { left, message }) if message.is_empty() => self.total - left,
            Err(Fault { left, message }) => return Err(self.problem(self.total - left, message)),
        };
        self.raw(input, ty, stopped)
    }

    /// The verbatim text up to the end of the attribute. `stopped` is the offset at which it ceased
    /// to be a literal.
    fn raw<'a>(&self, input: Input<'a>, ty: Option<Type>, stopped: usize) -> Result<(Read, Input<'a>), Problem> {
        let Some((end, used)) = raw_end(input) else {
            return Err(self.problem(stopped, "expected a literal, then `]` or `, name=`"));
        };
        let text = match std::str::from_utf8(&input[..end]) {
            Ok(text) if !text.trim().is_empty() => text,
            Ok(_) => return Err(self.problem(end, "expected a value after `=`")),
            Err(_) => return Err(self.problem(stopped, "this literal is not UTF-8")),
        };
        let value = raw(text);
        let doubt = (!is_printed(&value, text, ty)).then(|| {
            let start = self.total - after_gap(input).len();
            let span = start..gaps::trim_end(input[..end].as_ref()).len().max(start + 1);
            let help = "it is kept as an opaque value, which equals no other; write a literal of its type instead";
            Problem { span, message: expected_literal(ty), help: Some(help.to_owned()) }
        });
        Ok((Read { value, used, doubt }, &input[..end]))
    }

    fn problem(&self, at: usize, message: impl Into<String>) -> Problem {
        Problem { span: at..(at + 1).min(self.total.max(at)), message: message.into(), help: None }
    }

    fn value<'a>(&mut self, input: Input<'a>, depth: usize) -> Step<'a> {
        if depth > MAX_DEPTH {
            return fault(input, format!("literals nest deeper than {MAX_DEPTH} levels"));
        }
        match input.first() {
            Some(b'"' | b'\'') => {
                let raw = if self.seen.braces { quoted::parse_raw(input) } else { None };
                let (bytes, rest) = match raw {
                    Some((bytes, used)) => (bytes, &input[used..]),
                    None => quoted_text(input)?,
                };
                Ok((Attribute::Str(bytes.into()), rest))
            }
            Some(b'[') => self.list(input, depth),
            Some(b'(') if !self.types => self.tuple(input, depth),
            Some(b'{') => self.dict(input, depth),
            Some(b'<') => angled(input),
            Some(b'0'..=b'9' | b'-' | b'.') => self.number(input),
            _ => self.word(input),
        }
    }

    fn number<'a>(&mut self, input: Input<'a>) -> Step<'a> {
        let (rest, text) = number_text(input).map_err(|_| no_literal(input))?;
        if let Some(re_im) = complex(text) {
            let floats = re_im.map(|t| parse_float(t).map(|v| self.float(t, v)));
            if let [Some(re), Some(im)] = floats {
                return Ok((Attribute::Complex(Box::new((re, im))), rest));
            }
        }
        let digits = text.strip_prefix(b"-").unwrap_or(text);
        if digits.iter().all(u8::is_ascii_digit) && text != b"-0" {
            match std::str::from_utf8(text).ok().and_then(|t| t.parse().ok()) {
                Some(n) if digits.len() == 1 || digits[0] != b'0' => return Ok((Attribute::Int(n), rest)),
                // With leading zeros, or out of range for an integer: a float if the declared type
                // is one, else kept verbatim.
                _ if !self.float => return Err(no_literal(input)),
                _ => {}
            }
        }
        let overflowed = |value: &f64| value.is_infinite() && !text.ends_with(b"inf");
        let value = parse_float(text).filter(|value| !overflowed(value)).ok_or_else(|| no_literal(input))?;
        Ok((Attribute::Float(self.float(text, value)), rest))
    }

    fn float(&mut self, text: &[u8], value: f64) -> Float {
        float(text, value, self.seen)
    }

    fn list<'a>(&mut self, input: Input<'a>, depth: usize) -> Step<'a> {
        if let Some(found) = hidden_list(input) {
            return Ok(found);
        }
        let (parts, rest, _) = self.sequence(input, b']', depth)?;
        Ok((Attribute::List(parts.into()), rest))
    }

    fn tuple<'a>(&mut self, input: Input<'a>, depth: usize) -> Step<'a> {
        let (parts, rest, trailing) = self.sequence(input, b')', depth)?;
        match parts.len() == 1 && !trailing {
            true => Err(no_literal(input)),
            false => Ok((Attribute::Tuple(parts.into()), rest)),
        }
    }

    fn sequence<'a>(
        &mut self,
        input: Input<'a>,
        close: u8,
        depth: usize,
    ) -> Result<(Vec<Attribute>, Input<'a>, bool), Fault> {
        let (mut parts, mut rest, mut trailing) = (Vec::new(), after_gap(&input[1..]), false);
        loop {
            if rest.first() == Some(&close) {
                return Ok((parts, &rest[1..], trailing));
            }
            if !parts.is_empty() && !trailing {
                return Err(no_literal(rest));
            }
            let (value, after) = self.value(rest, depth + 1)?;
            parts.push(value);
            rest = after_gap(after);
            trailing = rest.first() == Some(&b',');
            if trailing {
                rest = after_gap(&rest[1..]);
            }
        }
    }

    fn dict<'a>(&mut self, input: Input<'a>, depth: usize) -> Step<'a> {
        let (mut pairs, mut rest) = (Vec::new(), after_gap(&input[1..]));
        while rest.first() != Some(&b'}') {
            if !pairs.is_empty() {
                rest = token(rest, ",")?;
            }
            let (key, after) = self.value(rest, depth + 1)?;
            let (value, after) = self.value(token(after, ":")?, depth + 1)?;
            pairs.push((key, value));
            rest = after_gap(after);
        }
        Ok((Attribute::Dict(pairs.into()), &rest[1..]))
    }

    /// `True`, `inf`, `annotate(..)`, `torch.device(..)`, a type, an enum member.
    fn word<'a>(&mut self, input: Input<'a>) -> Step<'a> {
        let (rest, word) = dotted(input).map_err(|_| self.not_a_word(input))?;
        let simple = match word {
            b"True" => Attribute::Bool(true),
            b"False" => Attribute::Bool(false),
            b"None" if !self.types => Attribute::None,
            b"inf" | b"nan" => return self.number(input),
            b"annotate" => return self.annotate(token(rest, "(")?),
            b"torch.device" => return device(token(rest, "(")?),
            _ => return self.type_or_enum(input, rest, word),
        };
        Ok((simple, rest))
    }

    fn type_or_enum<'a>(&mut self, input: Input<'a>, rest: Input<'a>, word: &[u8]) -> Step<'a> {
        if word.starts_with(b"__torch__.") && !self.types {
            let name = std::str::from_utf8(word).map_err(|_| no_literal(input))?;
            return Ok((Attribute::Enum(Symbol::new(name)), rest));
        }
        match spelling::parse(input, &mut self.seen.types) {
            // No attribute holds a type variable: such a word is a misspelt value.
            Ok((ty, _)) if !self.types && matches!(ty.kind(), TypeKind::Var(_)) => Err(no_literal(input)),
            Ok((ty, used)) => Ok((Attribute::Type(ty), &input[used..])),
            Err(error) if self.types => fault(&input[error.at..], error.message),
            Err(_) => Err(no_literal(input)),
        }
    }

    fn not_a_word(&mut self, input: Input<'_>) -> Fault {
        match spelling::parse(input, &mut Seen::default()) {
            Err(error) if self.types => Fault { left: input.len() - error.at, message: error.message },
            _ => no_literal(input),
        }
    }

    /// `List[int], [])`, after the opening bracket.
    fn annotate<'a>(&mut self, input: Input<'a>) -> Step<'a> {
        let (_, used) = spelling::parse(input, &mut Seen::default()).map_err(|_| no_literal(input))?;
        let mut rest = &input[used..];
        for part in [",", "[", "]", ")"] {
            rest = token(rest, part)?;
        }
        self.seen.annotated = true;
        Ok((Attribute::EmptyList(as_printed(&input[..used]).into()), rest))
    }
}

/// A type in the printer's layout: blanks after commas and nowhere else.
fn as_printed(ty: Input<'_>) -> String {
    let (mut words, mut at) = (Vec::new(), 0);
    while at < ty.len() {
        let gap = gaps::gap(&ty[at..]);
        words.extend(ty.get(at + gap));
        at += gap + 1;
    }
    String::from_utf8_lossy(&words).replace(',', ", ")
}

/// The input after the token `text` and the blanks that follow it.
fn token<'a>(input: Input<'a>, text: &str) -> Result<Input<'a>, Fault> {
    let rest = after_gap(input);
    rest.strip_prefix(text.as_bytes()).map(after_gap).ok_or_else(|| no_literal(rest))
}

/// Whether the text is PyTorch's print of a value that has no literal: a tensor with its elements,
/// or an object. A scalar always has a literal.
fn is_printed(value: &Attribute, text: &str, ty: Option<Type>) -> bool {
    let text = text.trim();
    let tensor = match ty.map(Type::kind) {
        None => true,
        Some(TypeKind::Simple(simple)) => matches!(simple, Simple::Any),
        Some(_) => ty.is_some_and(|ty| ty.to_string().contains("Tensor") || !is_plain(ty)),
    };
    let elements = ["Type{", "MKLDNN Tensor:", "{"].iter().any(|part| text.contains(part));
    let object = ["annotate(", "object(", "<", "Future", "Await", "torch.", "Generator", "Stream"];
    tensor && (matches!(value, Attribute::Tensor(_)) || elements) || object.iter().any(|word| text.starts_with(word))
}

/// Whether all values of a type have literals.
fn is_plain(ty: Type) -> bool {
    match ty.kind() {
        TypeKind::Simple(simple) => !matches!(simple, Simple::Any),
        TypeKind::Optional(inner) | TypeKind::List(inner) => is_plain(*inner),
        TypeKind::Dict(key, value) => is_plain(*key) && is_plain(*value),
        TypeKind::Tuple(parts) => parts.iter().all(|part| is_plain(*part)),
        _ => false,
    }
}

fn expected_literal(ty: Option<Type>) -> String {
    match ty {
        Some(ty) => format!("expected a literal of type `{ty}`"),
        None => "expected a literal, such as `2`, `0.5`, `\"text\"` or `[1, 2]`".to_owned(),
    }
}

/// Records which printers spell a float this way. A spelling of no printer keeps its value: it was
/// written by hand, and all its digits are significant.
fn float(text: &[u8], value: f64, seen: &mut Evidence) -> Float {
    let styles: SmallVec<[FloatStyle; 3]> = styles_of(text, value).collect();
    match styles[..] {
        [FloatStyle::Six] => seen.six = true,
        [FloatStyle::Pointed] => seen.pointed = true,
        [FloatStyle::Seventeen] => seen.unpointed = true,
        [FloatStyle::Pointed, FloatStyle::Seventeen] => seen.seventeen = true,
        _ => {}
    }
    seen.minus_zero |= text == b"-0.";
    // If several printers spell it this way, the newest.
    Float { value, style: styles.last().copied().unwrap_or(FloatStyle::Seventeen) }
}

fn after_gap(input: Input<'_>) -> Input<'_> {
    &input[gaps::gap(input)..]
}

fn dotted(input: Input<'_>) -> IResult<Input<'_>, Input<'_>> {
    take_while1(|b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.')).parse(input)
}

/// The characters of a real or complex number: digits, point, exponent, signs, `inf`, `nan`, `j`.
fn number_text(input: Input<'_>) -> IResult<Input<'_>, Input<'_>> {
    take_while1(|b: u8| b.is_ascii_digit() || b".eE+-infaj".contains(&b)).parse(input)
}

/// Splits `1.5-0.5j` into `1.5` and `-0.5`; `2.j` has no real part to split off.
fn complex(text: &[u8]) -> Option<[&[u8]; 2]> {
    let body = text.strip_suffix(b"j")?;
    let splits = |&i: &usize| matches!(body[i], b'+' | b'-') && !matches!(body[i - 1], b'e' | b'E');
    let at = (1..body.len()).rev().find(splits)?;
    Some([&body[..at], body[at..].strip_prefix(b"+").unwrap_or(&body[at..])])
}

/// `<Tensor>`, `<Graph>`
fn angled(input: Input<'_>) -> Step<'_> {
    let end = input.iter().position(|&b| b == b'>' || b == b'\n').filter(|&i| input[i] == b'>');
    let text = end.and_then(|end| std::str::from_utf8(&input[..=end]).ok()).ok_or_else(|| no_literal(input))?;
    Ok((Attribute::Opaque(text.into()), &input[text.len()..]))
}

/// `[<Tensors>]`: a list whose elements are not shown.
fn hidden_list(input: Input<'_>) -> Option<(Attribute, Input<'_>)> {
    let (Attribute::Opaque(inner), rest) = angled(after_gap(&input[1..])).ok()? else { return None };
    let rest = after_gap(rest).strip_prefix(b"]")?;
    Some((Attribute::Opaque(format!("[{inner}]").into()), rest))
}

/// `"cpu")`, after `torch.device(`.
fn device(input: Input<'_>) -> Step<'_> {
    if !matches!(input.first(), Some(b'"' | b'\'')) {
        return Err(no_literal(input));
    }
    let (bytes, rest) = quoted_text(input)?;
    let rest = after_gap(rest).strip_prefix(b")").ok_or_else(|| no_literal(rest))?;
    Ok((Attribute::Device(bytes.into()), rest))
}

fn quoted_text(input: Input<'_>) -> Step<'_, Vec<u8>> {
    match quoted::parse(input) {
        Ok((bytes, used)) => Ok((bytes, &input[used..])),
        Err((at, message)) => fault(&input[at..], message),
    }
}

/// The end of a raw literal, and the length with the layout after it: at the `]` that closes the
/// attributes, or at `, name=`.
fn raw_end(input: Input<'_>) -> Option<(usize, usize)> {
    let (mut depth, mut at) = (0usize, 0);
    while at < input.len() {
        match input[at] {
            b'\n' | b'#' if depth == 0 && is_end(after_gap(&input[at..])) => {
                return Some((at, input.len() - after_gap(&input[at..]).len()));
            }
            b'\n' => return None,
            b'"' => at += quoted::parse(&input[at..]).ok()?.1 - 1,
            b'[' | b'(' | b'{' => depth += 1,
            _ if depth == 0 && is_end(&input[at..]) => return Some((at, at)),
            b']' | b')' | b'}' => depth = depth.checked_sub(1)?,
            _ => {}
        }
        at += 1;
    }
    None
}

/// Whether an attribute ends before `input`.
fn is_end(input: Input<'_>) -> bool {
    match input.first() {
        Some(b']') => true,
        Some(b',') => attribute_follows(&input[1..]),
        _ => false,
    }
}

fn attribute_follows(input: Input<'_>) -> bool {
    let rest = after_gap(input);
    let name = rest.iter().take_while(|b| b.is_ascii_alphanumeric() || **b == b'_').count();
    name > 0 && after_gap(&rest[name..]).first() == Some(&b'=')
}

/// Classifies raw text: a tensor with its elements, or an opaque value. The leading blank of
/// printed elements belongs to them.
fn raw(text: &str) -> Attribute {
    let text = text.trim_end();
    let inner = text.trim_start();
    if inner.starts_with('{') && inner.ends_with('}') {
        return Attribute::Tensor(inner.into());
    }
    // `[ CPUFloatType{2} ]`, `[ Variable[CPUFloatType]{2} ]`
    let elements = inner.ends_with("} ]") && inner.contains("Type") && !inner.starts_with("MKLDNN");
    match elements {
        true => Attribute::Tensor(text.into()),
        false if inner.contains("Type{") => Attribute::Opaque(text.into()),
        false => Attribute::Opaque(inner.into()),
    }
}

/// Converts a literal to the kind of its declared type: a `2` under `float` is a float.
fn coerce(value: Attribute, text: &[u8], ty: Type, seen: &mut Evidence) -> Attribute {
    match (value, ty.kind()) {
        (value, TypeKind::Optional(inner)) => coerce(value, text, *inner, seen),
        (Attribute::Int(n), TypeKind::Simple(Simple::Float)) => Attribute::Float(float(text, n as f64, seen)),
        (Attribute::List(parts), TypeKind::List(element)) => {
            let parts = parts.into_vec().into_iter();
            Attribute::List(parts.map(|part| coerce_part(part, *element, seen)).collect())
        }
        (Attribute::Tuple(parts), TypeKind::Tuple(types)) if parts.len() == types.len() => {
            let parts = parts.into_vec().into_iter().zip(types);
            Attribute::Tuple(parts.map(|(part, ty)| coerce_part(part, *ty, seen)).collect())
        }
        (Attribute::Tuple(parts), TypeKind::NamedTuple(fields)) if parts.len() == fields.len() => {
            let parts = parts.into_vec().into_iter().zip(fields);
            Attribute::Tuple(parts.map(|(part, field)| coerce_part(part, field.ty, seen)).collect())
        }
        (Attribute::Dict(pairs), TypeKind::Dict(key, item)) => {
            let pair = |(k, v)| (coerce_part(k, *key, seen), coerce_part(v, *item, seen));
            Attribute::Dict(pairs.into_vec().into_iter().map(pair).collect())
        }
        (value, _) => value,
    }
}

fn coerce_part(part: Attribute, ty: Type, seen: &mut Evidence) -> Attribute {
    let mut text = Vec::new();
    if let Attribute::Int(n) = part {
        print_int(&mut text, n);
    }
    coerce(part, &text, ty, seen)
}

/// Appends the text of an attribute value. A subgraph prints as `<Graph>`.
pub fn print(out: &mut Vec<u8>, value: &Attribute, spelling: &Spelling) {
    match value {
        Attribute::Int(n) => print_int(out, *n),
        Attribute::Float(float) => print_float(out, *float),
        Attribute::Complex(parts) => print_complex(out, parts.0, parts.1),
        Attribute::Bool(b) => out.extend(if *b { &b"True"[..] } else { b"False" }),
        Attribute::None => out.extend(b"None"),
        Attribute::Str(bytes) if spelling.raw_strings => quoted::print_raw(out, bytes),
        Attribute::Str(bytes) => quoted::print(out, bytes),
        Attribute::List(parts) => print_sequence(out, "[", parts, "]", spelling),
        Attribute::EmptyList(annotation) => out.extend(format!("annotate({annotation}, [])").as_bytes()),
        Attribute::Tuple(parts) => print_sequence(out, "(", parts, if parts.len() == 1 { ",)" } else { ")" }, spelling),
        Attribute::Dict(pairs) => print_dict(out, pairs, spelling),
        Attribute::Device(name) => {
            out.extend(b"torch.device(");
            quoted::print(out, name);
            out.push(b')');
        }
        Attribute::Type(ty) => spelling::print(out, *ty, spelling),
        Attribute::Enum(name) => out.extend(name.as_str().as_bytes()),
        Attribute::Tensor(text) | Attribute::Opaque(text) => out.extend(text.as_bytes()),
        Attribute::Graph(_) => out.extend(b"<Graph>"),
    }
}

fn print_complex(out: &mut Vec<u8>, re: Float, im: Float) {
    print_float(out, re);
    if !im.value.is_sign_negative() {
        out.push(b'+');
    }
    print_float(out, im);
    out.push(b'j');
}

fn print_sequence(out: &mut Vec<u8>, open: &str, parts: &[Attribute], close: &str, spelling: &Spelling) {
    out.extend(open.as_bytes());
    for (i, part) in parts.iter().enumerate() {
        if i > 0 {
            out.extend(b", ");
        }
        print(out, part, spelling);
    }
    out.extend(close.as_bytes());
}

fn print_dict(out: &mut Vec<u8>, pairs: &[(Attribute, Attribute)], spelling: &Spelling) {
    out.push(b'{');
    for (i, (key, value)) in pairs.iter().enumerate() {
        if i > 0 {
            out.extend(b", ");
        }
        print(out, key, spelling);
        out.extend(b": ");
        print(out, value, spelling);
    }
    out.push(b'}');
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round(text: &str, ty: Option<&str>) -> (Attribute, String) {
        let ty = ty.map(|t| spelling::parse_all(t.as_bytes()).expect("a type"));
        let input = format!("{text}]()");
        let read = parse(input.as_bytes(), attr::VALUE, ty, &mut Evidence::default());
        let Read { value, used, doubt } = read.unwrap_or_else(|e| panic!("{text}: {e:?}"));
        assert_eq!((used, doubt), (text.len(), None), "{text}");
        let mut out = Vec::new();
        print(&mut out, &value, &Spelling::default());
        (value, String::from_utf8(out).expect("ascii"))
    }

    #[test]
    fn literals_of_all_versions_come_back() {
        for (text, ty) in [
            ("-3", "int"),
            ("2", "float"),
            ("2.", "float"),
            ("1e-05", "float"),
            ("1.0000000000000001e-05", "float"),
            ("10000000000", "float"),
            ("-0", "float"),
            ("inf", "float"),
            ("-inf", "float"),
            ("nan", "float"),
            ("1.5-0.5j", "complex"),
            ("-nan+infj", "complex"),
            ("1.0000000000000001e-05-nanj", "complex"),
            ("\"a\\\"b\"", "str"),
            ("[1, 2, 3]", "int[]"),
            ("[]", "int[]"),
            ("annotate(List[int], [])", "int[]"),
            ("[1., 2.5]", "float[]"),
            ("[True, False]", "bool[]"),
            ("(1, \"a\", 2.5, None)", "(int, str, float, NoneType)"),
            ("(1,)", "(int)"),
            ("()", "()"),
            ("{\"k\": 1}", "Dict(str, int)"),
            ("{}", "Dict(str, int)"),
            ("[[1], [2, 3]]", "int[][]"),
            ("[(1, 2)]", "(int, int)[]"),
            ("torch.device(\"cpu\")", "Device"),
            ("{1}", "Tensor"),
            ("{(1,2)}", "Tensor"),
            (" 1  2  3 [ CPULongType{3} ]", "Tensor"),
            ("[ CPUFloatType{0,3} ]", "Tensor"),
            (" 1  2 [ Variable[CPULongType]{2} ]", "Tensor"),
            ("<Tensor>", "Tensor"),
            ("Columns 1 to 8 0  1 Columns 9 to 10 8  9 [ CPULongType{1,10} ]", "Tensor"),
            ("[<Tensors>]", "Tensor[]"),
            ("(0,0,.,.) =    0.5  (0,1,.,.) =   0.1 [ CPUFloatType{1,2,1,1} ]", "Tensor"),
            ("object(0x55aa)", "Any"),
            ("MKLDNN Tensor:  0.2719 -0.4188 [ MkldnnCPUFloatType{2} ]", "Tensor"),
            ("__torch__.Color.RED", "Enum<__torch__.Color>"),
            ("0.01 *  1.0 2.0 [ CPUFloatType{2} ]", "Tensor"),
            ("-1 -2 [ CPULongType{2} ]", "Tensor"),
        ] {
            assert_eq!(round(text, Some(ty)).1, text);
        }
    }

    #[test]
    fn the_declared_type_decides_the_kind() {
        assert!(matches!(round("2", Some("float")).0, Attribute::Float(f) if f.value == 2.0));
        assert!(matches!(round("2", Some("int")).0, Attribute::Int(2)));
        assert!(matches!(round("2", None).0, Attribute::Int(2)));
        assert!(matches!(round("2", Some("float?")).0, Attribute::Float(_)));
        assert!(round("<Tensor>", Some("Tensor")).0.is_opaque());
    }

    #[test]
    fn an_unknown_constant_equals_nothing_not_even_itself() {
        let float = spelling::parse_all(b"Float()").ok();
        let long = spelling::parse_all(b"Long()").ok();
        let opaque = round("<Tensor>", Some("Tensor")).0;
        assert!(!opaque.same_constant(&opaque, long));
        let [one, other] = [(); 2].map(|()| round("{1}", Some("Tensor")).0);
        assert!(one.same_constant(&other, long) && !one.same_constant(&other, float));
        // A copy of a node has the same tensor, whatever is printed of it.
        assert!(one.same_constant(&one.clone(), float));
    }
}
