//! Attribute values: from text, and to text.
//!
//! The text alone does not tell kinds apart: `2` is an int, a float of six digits or a bool. The declared type of the
//! constant decides, see `coerce`. A text that is no literal of ours but has balanced brackets is kept as it stands:
//! a tensor that PyTorch printed with its elements, or an opaque one that is never equal to another.

use super::number::{parse_float, print_float, print_int, styles_of};
use super::quoted;
use crate::ir::{Attribute, Float, FloatStyle};
use crate::symbol::{Symbol, attr};
use crate::types::spelling::{self, Seen, Spelling};
use crate::types::{MAX_DEPTH, Simple, Type, TypeKind};
use nom::bytes::complete::{tag, take_while1};
use nom::error::Error as NomError;
use nom::{IResult, Parser};
use smallvec::SmallVec;

type Input<'a> = &'a [u8];

/// What the literals and types of a text gave away.
#[derive(Clone, Copy, Debug, Default)]
pub struct Evidence {
    /// From types.
    pub types: Seen,
    /// A float that only the printer of six digits writes so: up to 1.4.
    pub six: bool,
    /// A float that only printers of 17 digits write so: since 1.5.
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

/// A literal that is none: offset from its start, message.
pub type Problem = (usize, String);

/// Reads the value of attribute `name` from the front of `input`; returns it with its length. `ty` is the declared type of
/// the constant, if it is one and the text gives it.
pub fn parse(
    input: Input<'_>,
    name: Symbol,
    ty: Option<Type>,
    seen: &mut Evidence,
) -> Result<(Attribute, usize), Problem> {
    let fast = small_int(input);
    let (value, used) = match fast {
        Some((n, used)) => (Attribute::Int(n), used),
        None => {
            let float = ty.is_some_and(|ty| ty.to_string().contains("float"));
            Reader { seen, types: matches!(name, attr::TYPES | attr::PROFILED_TYPE), float }.whole(input)?
        }
    };
    let value = match ty {
        Some(ty) if name == attr::VALUE => coerce(value, &input[..used], ty, seen),
        _ => value,
    };
    Ok((value, used))
}

/// The common case: a short whole number and the end of the attribute.
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

struct Reader<'s> {
    seen: &'s mut Evidence,
    /// Whether bare words are types.
    types: bool,
    /// Whether the declared type speaks of floats.
    float: bool,
}

impl Reader<'_> {
    /// One literal up to `,` or `]`, or else the raw text up to there.
    fn whole(&mut self, input: Input<'_>) -> Result<(Attribute, usize), Problem> {
        let problem = match self.value(input, 0) {
            Ok((value, rest)) if rest.first().is_none_or(|b| matches!(b, b',' | b']')) => {
                return Ok((value, input.len() - rest.len()));
            }
            Ok(_) => None,
            Err(problem) => Some(problem),
        };
        if let Some((at, message)) = problem.filter(|(_, message)| !message.is_empty()) {
            return Err((at, message));
        }
        let end = raw_end(input).ok_or((0, "expected a literal, closed by `]`".to_owned()))?;
        match std::str::from_utf8(&input[..end]) {
            Ok(text) if end > 0 => Ok((raw(text), end)),
            Ok(_) => Err((0, "expected a value behind `=`".to_owned())),
            Err(_) => Err((0, "this literal is not UTF-8".to_owned())),
        }
    }

    /// An error with an empty message means: none of our literals, take it raw.
    fn value<'a>(&mut self, input: Input<'a>, depth: usize) -> Result<(Attribute, Input<'a>), Problem> {
        if depth > MAX_DEPTH {
            return Err((0, format!("literals nest deeper than {MAX_DEPTH} levels")));
        }
        match input.first() {
            Some(b'"') if self.seen.braces => {
                let (bytes, used) = quoted::parse_raw(input).ok_or_else(raw_please)?;
                Ok((Attribute::Str(bytes.into()), &input[used..]))
            }
            Some(b'"' | b'\'') => {
                let (bytes, used) = quoted::parse(input).map_err(|(at, message)| (at, message.to_owned()))?;
                Ok((Attribute::Str(bytes.into()), &input[used..]))
            }
            Some(b'[') => self.list(input, depth),
            Some(b'(') if !self.types => self.tuple(input, depth),
            Some(b'{') => self.dict(input, depth),
            Some(b'<') => angled(input),
            Some(b'0'..=b'9' | b'-' | b'.') => self.number(input),
            _ => self.word(input),
        }
    }

    fn number<'a>(&mut self, input: Input<'a>) -> Result<(Attribute, Input<'a>), Problem> {
        let (rest, text) = number_text(input).map_err(|_| raw_please())?;
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
                Some(_) if !self.float => return Err(raw_please()),
                // Too great for an int: a float if its type says so, else kept as it stands.
                None if !self.float => return Err(raw_please()),
                _ => {}
            }
        }
        let overflowed = |value: &f64| value.is_infinite() && !text.ends_with(b"inf");
        let value = parse_float(text).filter(|value| !overflowed(value)).ok_or_else(raw_please)?;
        Ok((Attribute::Float(self.float(text, value)), rest))
    }

    fn float(&mut self, text: &[u8], value: f64) -> Float {
        float(text, value, self.seen)
    }

    fn list<'a>(&mut self, input: Input<'a>, depth: usize) -> Result<(Attribute, Input<'a>), Problem> {
        if input.starts_with(b"[<") {
            let end = input.iter().position(|&b| b == b']').ok_or_else(raw_please)?;
            let text = std::str::from_utf8(&input[..=end]).map_err(|_| raw_please())?;
            return Ok((Attribute::Opaque(text.into()), &input[end + 1..]));
        }
        let (parts, rest, _) = self.sequence(input, b']', depth)?;
        Ok((Attribute::List(parts.into()), rest))
    }

    fn tuple<'a>(&mut self, input: Input<'a>, depth: usize) -> Result<(Attribute, Input<'a>), Problem> {
        let (parts, rest, trailing) = self.sequence(input, b')', depth)?;
        match parts.len() == 1 && !trailing {
            true => Err(raw_please()),
            false => Ok((Attribute::Tuple(parts.into()), rest)),
        }
    }

    fn sequence<'a>(
        &mut self,
        input: Input<'a>,
        close: u8,
        depth: usize,
    ) -> Result<(Vec<Attribute>, Input<'a>, bool), Problem> {
        let (mut parts, mut rest, mut trailing) = (Vec::new(), blanks(&input[1..]), false);
        loop {
            if rest.first() == Some(&close) {
                return Ok((parts, &rest[1..], trailing));
            }
            if !parts.is_empty() && !trailing {
                return Err(raw_please());
            }
            let offset = input.len() - rest.len();
            let (value, after) = self.value(rest, depth + 1).map_err(|(at, m)| (at + offset, m))?;
            parts.push(value);
            rest = blanks(after);
            trailing = rest.first() == Some(&b',');
            if trailing {
                rest = blanks(&rest[1..]);
            }
        }
    }

    fn dict<'a>(&mut self, input: Input<'a>, depth: usize) -> Result<(Attribute, Input<'a>), Problem> {
        let (mut pairs, mut rest) = (Vec::new(), &input[1..]);
        while rest.first() != Some(&b'}') {
            if !pairs.is_empty() {
                rest = blanks(rest.strip_prefix(b",").ok_or_else(raw_please)?);
            }
            let (key, after) = self.value(rest, depth + 1)?;
            let after = after.strip_prefix(b":").ok_or_else(raw_please)?;
            let (value, after) = self.value(blanks(after), depth + 1)?;
            pairs.push((key, value));
            rest = after;
        }
        Ok((Attribute::Dict(pairs.into()), &rest[1..]))
    }

    /// `True`, `inf`, `annotate(..)`, `torch.device(..)`, a type, an enum member.
    fn word<'a>(&mut self, input: Input<'a>) -> Result<(Attribute, Input<'a>), Problem> {
        if let Ok((rest, _)) = tag::<_, _, NomError<_>>(&b"annotate("[..]).parse(input) {
            return self.annotate(rest);
        }
        if let Ok((rest, _)) = tag::<_, _, NomError<_>>(&b"torch.device("[..]).parse(input) {
            return device(rest);
        }
        let (rest, word) = dotted(input).map_err(|_| self.no_literal(input))?;
        let simple = match word {
            b"True" => Some(Attribute::Bool(true)),
            b"False" => Some(Attribute::Bool(false)),
            b"None" if !self.types => Some(Attribute::None),
            b"inf" | b"nan" => return self.number(input),
            _ => None,
        };
        match simple {
            Some(value) => Ok((value, rest)),
            None => self.type_or_enum(input, rest, word),
        }
    }

    fn type_or_enum<'a>(
        &mut self,
        input: Input<'a>,
        rest: Input<'a>,
        word: &[u8],
    ) -> Result<(Attribute, Input<'a>), Problem> {
        if word.starts_with(b"__torch__.") && !self.types {
            let name = std::str::from_utf8(word).map_err(|_| raw_please())?;
            return Ok((Attribute::Enum(Symbol::new(name)), rest));
        }
        match spelling::parse(input, &mut self.seen.types) {
            Ok((ty, used)) => Ok((Attribute::Type(ty), &input[used..])),
            Err(error) if self.types => Err((error.at, error.message)),
            Err(_) => Err(raw_please()),
        }
    }

    fn no_literal(&mut self, input: Input<'_>) -> Problem {
        match self.types {
            true => spelling::parse(input, &mut Seen::default()).map_or_else(|e| (e.at, e.message), |_| raw_please()),
            false => raw_please(),
        }
    }

    fn annotate<'a>(&mut self, input: Input<'a>) -> Result<(Attribute, Input<'a>), Problem> {
        let end = memchr::memmem::find(input, b", [])").ok_or_else(raw_please)?;
        let text = std::str::from_utf8(&input[..end]).map_err(|_| raw_please())?;
        if text.contains(['\n', '"']) {
            return Err(raw_please());
        }
        self.seen.annotated = true;
        Ok((Attribute::EmptyList(text.into()), &input[end + 5..]))
    }
}

/// Notes which printers write a float so. One that none wrote keeps its value: it was written by
/// hand, and has all digits that there are.
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
    // Where more than one prints it so, the newest.
    Float { value, style: styles.last().copied().unwrap_or(FloatStyle::Seventeen) }
}

fn raw_please() -> Problem {
    (0, String::new())
}

fn blanks(input: Input<'_>) -> Input<'_> {
    &input[input.iter().take_while(|b| b.is_ascii_whitespace()).count()..]
}

fn dotted(input: Input<'_>) -> IResult<Input<'_>, Input<'_>> {
    take_while1(|b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.')).parse(input)
}

/// The characters of a number or a complex one: digits, point, exponent, signs, `inf`, `nan`, `j`.
fn number_text(input: Input<'_>) -> IResult<Input<'_>, Input<'_>> {
    take_while1(|b: u8| b.is_ascii_digit() || b".eE+-infaj".contains(&b)).parse(input)
}

/// `1.5-0.5j` into `1.5` and `-0.5`; `2.j` has no real part to split off.
fn complex(text: &[u8]) -> Option<[&[u8]; 2]> {
    let body = text.strip_suffix(b"j")?;
    let splits = |&i: &usize| matches!(body[i], b'+' | b'-') && !matches!(body[i - 1], b'e' | b'E');
    let at = (1..body.len()).rev().find(splits)?;
    Some([&body[..at], body[at..].strip_prefix(b"+").unwrap_or(&body[at..])])
}

/// `<Tensor>`, `<Graph>`
fn angled(input: Input<'_>) -> Result<(Attribute, Input<'_>), Problem> {
    let end =
        input.iter().position(|&b| b == b'>' || b == b'\n').filter(|&i| input[i] == b'>').ok_or_else(raw_please)?;
    let text = std::str::from_utf8(&input[..=end]).map_err(|_| raw_please())?;
    Ok((Attribute::Opaque(text.into()), &input[end + 1..]))
}

fn device(input: Input<'_>) -> Result<(Attribute, Input<'_>), Problem> {
    if !matches!(input.first(), Some(b'"' | b'\'')) {
        return Err(raw_please());
    }
    let (bytes, used) = quoted::parse(input).map_err(|(at, message)| (at, message.to_owned()))?;
    let rest = input[used..].strip_prefix(b")").ok_or_else(raw_please)?;
    Ok((Attribute::Device(bytes.into()), rest))
}

/// Where a raw literal ends: at the `]` that closes the attributes, or at `, name=`.
fn raw_end(input: Input<'_>) -> Option<usize> {
    let (mut depth, mut at) = (0usize, 0);
    while at < input.len() {
        match input[at] {
            b'\n' => return None,
            b'"' => at += quoted::parse(&input[at..]).ok()?.1 - 1,
            b'[' | b'(' | b'{' => depth += 1,
            b']' if depth == 0 => return Some(at),
            b']' | b')' | b'}' => depth = depth.checked_sub(1)?,
            b',' if depth == 0 && attribute_follows(&input[at + 1..]) => return Some(at),
            _ => {}
        }
        at += 1;
    }
    None
}

fn attribute_follows(input: Input<'_>) -> bool {
    let rest = blanks(input);
    let name = rest.iter().take_while(|b| b.is_ascii_alphanumeric() || **b == b'_').count();
    name > 0 && rest.get(name) == Some(&b'=')
}

/// What raw text is: a tensor with its elements, or something opaque.
fn raw(text: &str) -> Attribute {
    let one_element = text.starts_with('{') && text.ends_with('}');
    // `[ CPUFloatType{2} ]`, `[ Variable[CPUFloatType]{2} ]`
    let elements = text.ends_with("} ]") && text.contains("Type") && !text.starts_with("MKLDNN");
    if one_element || elements { Attribute::Tensor(text.into()) } else { Attribute::Opaque(text.into()) }
}

/// Gives a literal the kind that the declared type asks for: a `2` under `float` is a float.
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
        let (value, used) = read.unwrap_or_else(|e| panic!("{text}: {e:?}"));
        assert_eq!(used, text.len(), "{text}");
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
        let one = round("{1}", Some("Tensor")).0;
        assert!(one.same_constant(&one, long) && !one.same_constant(&one, float));
    }
}
