//! The spelling of types: a parser for the types that every PyTorch since 1.0 prints, and a printer
//! that gives them back.
//!
//! The parser refuses types deeper than `MAX_DEPTH`, so that depth cannot overflow the stack.
//! Spellings that differ between versions for the same type (`None` and `NoneType`, `Dynamic` and
//! `Tensor`, `10:48` and `strides=[48]`) are recorded in a [`Spelling`] by the parser and used by
//! the printer.

use super::release::Release;
use super::{DType, Dim, Field, MAX_DEPTH, Simple, Strides, TensorType, Type, TypeKind, gaps};
use crate::symbol::Symbol;
use nom::IResult;
use nom::character::complete::i64 as signed;
use nom::error::{Error as NomError, ErrorKind};

/// The first release that prints `NoneType`; earlier ones print `None`.
pub(crate) const NONE_TYPE_SINCE: Release = Release(1, 9);

/// The spelling of types that differ between versions, and the amount of detail shown of a tensor
/// type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spelling {
    /// `None` (up to 1.8) instead of `NoneType`.
    pub old_none: bool,
    /// `Dynamic` (0.4, 1.0) instead of `Tensor`.
    pub dynamic: bool,
    /// The name of an undefined tensor without other facts.
    pub undefined: Undefined,
    /// `Float(10:48, 8:6)` (1.5, 1.6) instead of `strides=[48, 6]`.
    pub colon_strides: bool,
    /// `Union[Tensor, int]` (1.10) instead of `Union(Tensor, int)`.
    pub square_unions: bool,
    /// `Dict[str, Tensor]` (1.1) instead of `Dict(str, Tensor)`.
    pub square_dicts: bool,
    /// `string` (up to 1.1) instead of `str`.
    pub string: bool,
    /// Strings escape line ends and tabs, but no quotes and backslashes (1.0).
    pub raw_strings: bool,
    /// `PYTORCH_JIT_TYPE_VERBOSITY`; `None` prints every property that the type has.
    pub verbosity: Option<u8>,
}

/// Names of the undefined tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Undefined {
    /// `Tensor[Undefined]`, 1.3 and later.
    Suffix,
    /// `AutogradZeroTensor`, 1.1.
    AutogradZero,
    /// `UndefinedTensor`, 1.0.
    Plain,
}

impl Default for Spelling {
    fn default() -> Self {
        Spelling {
            old_none: false,
            dynamic: false,
            undefined: Undefined::Suffix,
            colon_strides: false,
            square_unions: false,
            square_dicts: false,
            string: false,
            raw_strings: false,
            verbosity: None,
        }
    }
}

/// The evidence in the types of a text about the version that printed it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// `None` occurs.
    pub old_none: bool,
    /// `NoneType` occurs.
    pub new_none: bool,
    /// `Dynamic` occurs.
    pub dynamic: bool,
    /// The name of an undefined tensor that occurs.
    pub undefined: Option<Undefined>,
    /// `10:48` occurs.
    pub colon_strides: bool,
    /// `strides=`, `requires_grad=` or `device=` occurs: 1.7 and later.
    pub fields: bool,
    /// `ClassType<..>` occurs: before 1.4.
    pub class_type: bool,
    /// `Union[..]` occurs: 1.10.
    pub square_unions: bool,
    /// `Union(..)` occurs: later releases.
    pub round_unions: bool,
    /// `Dict[..]` occurs: 1.1.
    pub square_dicts: bool,
    /// `string` occurs: up to 1.1.
    pub string: bool,
    /// `ProfiledTensor(..` occurs: 1.2.
    pub profiled: bool,
}

/// The reason why a text is not a type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TypeError {
    /// The offset into the given text.
    pub at: usize,
    /// The error and the expected construct.
    pub message: String,
}

type Input<'a> = &'a [u8];
type Result<'a, T> = std::result::Result<(Input<'a>, T), (Input<'a>, String)>;

/// Parses one type from the start of `input`; returns it with the number of bytes consumed.
pub(crate) fn parse(input: &[u8], seen: &mut Seen) -> std::result::Result<(Type, usize), TypeError> {
    let mut reader = Reader { seen, depth: 0 };
    match reader.full(input) {
        Ok((rest, ty)) => Ok((ty, input.len() - rest.len())),
        Err((rest, message)) => Err(TypeError { at: input.len() - rest.len(), message }),
    }
}

/// Parses a type without the `?` and `[]` that may follow: schemas put alias annotations between.
pub(crate) fn parse_base(input: &[u8]) -> std::result::Result<(Type, usize), TypeError> {
    let mut seen = Seen::default();
    let mut reader = Reader { seen: &mut seen, depth: 0 };
    match reader.base(input) {
        Ok((rest, ty)) => Ok((ty, input.len() - rest.len())),
        Err((rest, message)) => Err(TypeError { at: input.len() - rest.len(), message }),
    }
}

/// Parses a text that is one type and nothing else.
pub fn parse_all(input: &[u8]) -> std::result::Result<Type, TypeError> {
    let (ty, used) = parse(input, &mut Seen::default())?;
    if used == input.len() {
        Ok(ty)
    } else {
        Err(TypeError { at: used, message: "expected the end of the type here".to_owned() })
    }
}

struct Reader<'s> {
    seen: &'s mut Seen,
    depth: usize,
}

fn blanks(input: Input<'_>) -> Input<'_> {
    &input[gaps::gap(input)..]
}

/// The rest after `token` if it is the next token, leading blanks skipped.
fn eat<'a>(input: Input<'a>, token: &str) -> Option<Input<'a>> {
    blanks(input).strip_prefix(token.as_bytes())
}

fn expect<'a>(input: Input<'a>, token: &str) -> Result<'a, ()> {
    let message = || (blanks(input), format!("expected `{token}` in this type"));
    eat(input, token).map(|rest| (rest, ())).ok_or_else(message)
}

fn is_word(b: u8) -> bool {
    b.is_ascii_alphanumeric() || b == b'_' || b == b'.' || b >= 0x80
}

/// The length of the word at the start. Names of classes may contain letters beyond ASCII; a
/// no-break space is not one.
fn word_length(input: Input<'_>) -> usize {
    let mut at = 0;
    while at < input.len() && is_word(input[at]) && gaps::blank(&input[at..]) == 0 {
        at += input[at + 1..].iter().take_while(|&b| b & 0xc0 == 0x80).count() + 1;
    }
    at
}

/// A dotted name such as `int` or `__torch__.a.C`.
fn word(input: Input<'_>) -> IResult<Input<'_>, &str> {
    let start = blanks(input);
    let (bytes, rest) = start.split_at(word_length(start));
    match std::str::from_utf8(bytes) {
        Ok(text) if !text.is_empty() => Ok((rest, text)),
        _ => Err(nom::Err::Error(NomError::new(input, ErrorKind::Alpha))),
    }
}

/// Whether a bare word is the name of a class: `__torch__.M`.
fn is_qualified(name: &str) -> bool {
    name.contains('.') && !name.ends_with('.') && name.bytes().all(is_word)
}

fn number(input: Input<'_>) -> Option<(Input<'_>, i64)> {
    signed::<_, NomError<_>>(blanks(input)).ok()
}

impl Reader<'_> {
    fn full<'a>(&mut self, input: Input<'a>) -> Result<'a, Type> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err((input, format!("types nest deeper than {MAX_DEPTH} levels here")));
        }
        let (mut rest, mut ty) = self.base(input)?;
        let mut levels = self.depth;
        while let Some((after, next)) = suffix(rest, ty) {
            levels += 1;
            if levels > MAX_DEPTH {
                return Err((rest, format!("types nest deeper than {MAX_DEPTH} levels here")));
            }
            (rest, ty) = (after, next);
        }
        self.depth -= 1;
        Ok((rest, ty))
    }

    fn base<'a>(&mut self, input: Input<'a>) -> Result<'a, Type> {
        if let Some(rest) = eat(input, "(") {
            let (rest, parts) = self.list(rest, ")")?;
            return Ok((rest, Type::tuple(&parts)));
        }
        let Ok((rest, name)) = word(input) else {
            return Err((blanks(input), "expected a type, such as `Tensor`, `Float(2, 3)` or `int[]`".to_owned()));
        };
        match name {
            "Tensor" => self.tensor(rest, None),
            "Dynamic" => {
                self.seen.dynamic = true;
                Ok((rest, Type::tensor()))
            }
            "UndefinedTensor" | "AutogradZeroTensor" => Ok((rest, self.undefined(name))),
            "None" | "NoneType" => {
                self.seen.old_none |= name == "None";
                self.seen.new_none |= name == "NoneType";
                Ok((rest, Type::none()))
            }
            "string" => {
                self.seen.string = true;
                Ok((rest, Type::simple(Simple::Str)))
            }
            "ProfiledTensor" => self.profiled(rest),
            "Dict" => self.dict(rest),
            "NamedTuple" => self.named_tuple(rest),
            "Future" | "RRef" | "Await" => self.wrapper(rest, name),
            "Union" => self.union(rest),
            "Tuple" if eat(rest, "[").is_some() => {
                let (rest, ()) = expect(rest, "[")?;
                let (rest, parts) = self.list(rest, "]")?;
                Ok((rest, Type::tuple(&parts)))
            }
            "Optional" | "List" if eat(rest, "[").is_some() => self.python_generic(rest, name),
            "ClassType" | "InterfaceType" | "Enum" if eat(rest, "<").is_some() => self.angled(rest, name),
            _ => self.named(input, rest, name),
        }
    }

    fn undefined(&mut self, name: &str) -> Type {
        let plain = name == "UndefinedTensor";
        self.seen.undefined = Some(if plain { Undefined::Plain } else { Undefined::AutogradZero });
        Type::new(TypeKind::Tensor(TensorType { undefined: Some(true), ..TensorType::default() }))
    }

    fn list<'a>(&mut self, input: Input<'a>, close: &str) -> Result<'a, Vec<Type>> {
        let mut parts = Vec::new();
        let mut rest = input;
        if let Some(end) = eat(rest, close) {
            return Ok((end, parts));
        }
        loop {
            let (after, ty) = self.full(rest)?;
            parts.push(ty);
            if let Some(end) = eat(after, close) {
                return Ok((end, parts));
            }
            let Some(next) = eat(after, ",") else {
                return Err((blanks(after), format!("expected `,` or `{close}` in this type")));
            };
            rest = next;
            // `(int,)`, as in Python.
            if let Some(end) = eat(rest, close) {
                return Ok((end, parts));
            }
        }
    }

    fn dict<'a>(&mut self, input: Input<'a>) -> Result<'a, Type> {
        let square = eat(input, "[").is_some();
        self.seen.square_dicts |= square;
        let (open, close) = if square { ("[", "]") } else { ("(", ")") };
        let (rest, ()) = expect(input, open)?;
        let (rest, key) = self.full(rest)?;
        let (rest, ()) = expect(rest, ",")?;
        let (rest, value) = self.full(rest)?;
        let (rest, ()) = expect(rest, close)?;
        Ok((rest, Type::new(TypeKind::Dict(key, value))))
    }

    fn named_tuple<'a>(&mut self, input: Input<'a>) -> Result<'a, Type> {
        let (mut rest, ()) = expect(input, "(")?;
        let mut fields = Vec::new();
        while eat(rest, ")").is_none() {
            if !fields.is_empty() {
                rest = expect(rest, ",")?.0;
            }
            let Ok((after, name)) = word(rest) else {
                return Err((blanks(rest), "expected the name of a field".to_owned()));
            };
            let (after, ()) = expect(after, ":")?;
            let (after, ty) = self.full(after)?;
            let (after, default) = default(after)?;
            fields.push(Field { name: Symbol::new(name), ty, default });
            rest = after;
        }
        let (rest, ()) = expect(rest, ")")?;
        Ok((rest, Type::new(TypeKind::NamedTuple(fields.into()))))
    }

    /// `Future[T]` as printed, `Future(T)` as in schemas and in PyTorch's reader.
    fn wrapper<'a>(&mut self, input: Input<'a>, name: &str) -> Result<'a, Type> {
        let (rest, close) = match (eat(input, "["), eat(input, "(")) {
            (Some(rest), _) => (rest, "]"),
            (_, Some(rest)) => (rest, ")"),
            _ => return Err((blanks(input), format!("expected `[` after `{name}`"))),
        };
        let (rest, inner) = self.full(rest)?;
        let (rest, ()) = expect(rest, close)?;
        let kind = match name {
            "Future" => TypeKind::Future(inner),
            "RRef" => TypeKind::RRef(inner),
            _ => TypeKind::Await(inner),
        };
        Ok((rest, Type::new(kind)))
    }

    fn union<'a>(&mut self, input: Input<'a>) -> Result<'a, Type> {
        let (rest, close) = match (eat(input, "("), eat(input, "[")) {
            (Some(rest), _) => (rest, ")"),
            (_, Some(rest)) => (rest, "]"),
            _ => return Err((blanks(input), "expected `(` after `Union`".to_owned())),
        };
        self.seen.square_unions |= close == "]";
        self.seen.round_unions |= close == ")";
        let (rest, parts) = self.list(rest, close)?;
        Ok((rest, Type::new(TypeKind::Union(parts.into()))))
    }

    fn python_generic<'a>(&mut self, input: Input<'a>, name: &str) -> Result<'a, Type> {
        let (rest, ()) = expect(input, "[")?;
        let (rest, inner) = self.full(rest)?;
        let (rest, ()) = expect(rest, "]")?;
        Ok((rest, if name == "List" { Type::list(inner) } else { Type::optional(inner) }))
    }

    fn angled<'a>(&mut self, input: Input<'a>, name: &str) -> Result<'a, Type> {
        let (rest, ()) = expect(input, "<")?;
        let Some(end) = rest.iter().position(|&b| b == b'>' || b == b'\n') else {
            return Err((rest, format!("expected `>` to close `{name}<`")));
        };
        let (Ok(inner), Some(b'>')) = (std::str::from_utf8(&rest[..end]), rest.get(end)) else {
            return Err((rest, format!("expected `>` to close `{name}<`")));
        };
        let symbol = Symbol::new(inner);
        let kind = match name {
            "ClassType" => {
                self.seen.class_type = true;
                TypeKind::Class(symbol)
            }
            "InterfaceType" => TypeKind::Interface(symbol),
            _ => TypeKind::Enum(symbol),
        };
        Ok((&rest[end + 1..], Type::new(kind)))
    }

    /// A scalar, a dtype, a class, or a type variable.
    fn named<'a>(&mut self, input: Input<'a>, rest: Input<'a>, name: &str) -> Result<'a, Type> {
        if let Some(&simple) = Simple::ALL.iter().find(|simple| simple.name() == name) {
            return Ok((rest, Type::simple(simple)));
        }
        if let Some(dtype) = dtype(name) {
            return self.tensor(rest, Some(dtype));
        }
        if let Some(dtype) = name.strip_suffix("Tensor").and_then(dtype) {
            let tensor = TensorType { dtype: Some(dtype), ..TensorType::default() };
            return self.fields_and_suffix(rest, tensor);
        }
        if is_qualified(name) {
            return Ok((rest, Type::new(TypeKind::Class(Symbol::new(name)))));
        }
        if name.starts_with(|c: char| c.is_ascii_lowercase()) {
            return Ok((rest, Type::new(TypeKind::Var(Symbol::new(name)))));
        }
        Err((blanks(input), unknown_type(name)))
    }

    /// The rest of a type after `Float` or `Tensor`: sizes and fields in parentheses,
    /// `[Undefined]`, and our extension `[Defined]`: a gradient that is given.
    fn tensor<'a>(&mut self, input: Input<'a>, dtype: Option<DType>) -> Result<'a, Type> {
        let mut tensor = TensorType { dtype, ..TensorType::default() };
        // A dtype without brackets is a typo for a type of unknown rank; a bare `Tensor` is
        // complete. `Tensor(a!)` of a schema is parsed elsewhere.
        let sizes = eat(input, "(");
        let Some(sizes) = sizes.filter(|sizes| sizes.first().is_none_or(|&b| !is_alias(sizes, b))) else {
            return match dtype {
                Some(d) if sizes.is_none() => {
                    Err((input, format!("expected sizes, such as `{0}(2, 3)`, or `{0}Tensor`", d.name())))
                }
                _ => self.fields_and_suffix(input, tensor),
            };
        };
        let (rest, dims) = self.dims(sizes)?;
        // `Tensor(requires_grad=0)` has no rank; `Float(requires_grad=0)` has rank 0.
        let rankless = dims.sizes.is_empty() && dtype.is_none() && dims.any_field();
        if !rankless {
            tensor.sizes = Some(dims.sizes.into());
        }
        tensor.strides = dims.strides;
        tensor.requires_grad = dims.requires_grad;
        tensor.device = dims.device;
        self.fields_and_suffix(rest, tensor)
    }

    /// `ProfiledTensor(dtype = Float , shape = (2, 5)`: the profiled type of 1.2, whose printer
    /// closes no bracket. `(*)` is an unknown rank.
    fn profiled<'a>(&mut self, input: Input<'a>) -> Result<'a, Type> {
        let mut rest = input;
        for token in ["(", "dtype", "="] {
            rest = expect(rest, token)?.0;
        }
        let name = word(rest).ok().map(|(after, name)| (after, dtype(name)));
        let Some((after, Some(element))) = name else {
            return Err((blanks(rest), "expected an element type, such as `Float`".to_owned()));
        };
        rest = after;
        for token in [",", "shape", "=", "("] {
            rest = expect(rest, token)?.0;
        }
        let (after, sizes) = profiled_sizes(rest)?;
        self.seen.profiled = true;
        let tensor = TensorType { dtype: Some(element), sizes, profiled: true, ..TensorType::default() };
        Ok((after, Type::new(TypeKind::Tensor(tensor))))
    }

    fn fields_and_suffix<'a>(&mut self, input: Input<'a>, mut tensor: TensorType) -> Result<'a, Type> {
        let mut rest = input;
        if tensor.sizes.is_none()
            && tensor.dtype.is_some()
            && let Some(fields) = eat(input, "(")
        {
            let (after, dims) = self.dims(fields)?;
            if !dims.sizes.is_empty() {
                return Err((input, "a type of unknown rank has no sizes; write `Float(2, 3)`".to_owned()));
            }
            tensor.requires_grad = dims.requires_grad;
            tensor.device = dims.device;
            rest = after;
        }
        if let Some(after) = bracketed(rest, "Undefined") {
            tensor.undefined = Some(true);
            self.seen.undefined = Some(Undefined::Suffix);
            rest = after;
        } else if let Some(after) = bracketed(rest, "Defined") {
            tensor.undefined = Some(false);
            rest = after;
        }
        Ok((rest, if tensor == TensorType::default() { Type::tensor() } else { Type::new(TypeKind::Tensor(tensor)) }))
    }

    fn dims<'a>(&mut self, input: Input<'a>) -> Result<'a, Dims> {
        let mut dims = Dims::default();
        let mut rest = input;
        while eat(rest, ")").is_none() {
            if dims.any() {
                rest = expect(rest, ",")?.0;
            }
            rest = self.dim_or_field(blanks(rest), &mut dims)?.0;
        }
        if let Some(clash) = dims.clash() {
            return Err((blanks(rest), clash.to_owned()));
        }
        if !dims.colon.is_empty() {
            self.seen.colon_strides = true;
            dims.strides = Strides::Known(dims.colon.clone().into());
        }
        if dims.marks.contains(&true) {
            dims.strides = Strides::Marked(dims.marks.clone().into());
        }
        let (rest, ()) = expect(rest, ")")?;
        Ok((rest, dims))
    }

    fn dim_or_field<'a>(&mut self, input: Input<'a>, dims: &mut Dims) -> Result<'a, ()> {
        for (name, field) in [("strides", 0), ("requires_grad", 1), ("device", 2)] {
            if let Some(rest) = eat(input, name).and_then(|rest| eat(rest, "=")).map(blanks) {
                self.seen.fields = true;
                return dims.field(rest, field);
            }
        }
        if dims.any_field() {
            return Err((input, "expected sizes before `strides=` and the other fields".to_owned()));
        }
        dims.size(input)
    }
}

/// The rest after `[word]`.
fn bracketed<'a>(input: Input<'a>, word: &str) -> Option<Input<'a>> {
    eat(eat(eat(input, "[")?, word)?, "]")
}

/// Sizes up to and including the closing bracket; none for `*)`.
fn profiled_sizes(input: Input<'_>) -> Result<'_, Option<Box<[Dim]>>> {
    if let Some(rest) = eat(input, "*").and_then(|rest| eat(rest, ")")) {
        return Ok((rest, None));
    }
    let (mut rest, mut sizes) = (input, Vec::new());
    while eat(rest, ")").is_none() {
        if !sizes.is_empty() {
            rest = expect(rest, ",")?.0;
        }
        let (after, size) = dim(blanks(rest))?;
        sizes.push(size);
        rest = after;
    }
    Ok((expect(rest, ")")?.0, Some(sizes.into())))
}

/// ` = cfg` after a field: any text up to the next field or the closing bracket.
fn default(input: Input<'_>) -> Result<'_, Option<Symbol>> {
    let Some(rest) = eat(input, "=").map(blanks) else { return Ok((input, None)) };
    let mut depth = 0usize;
    let ends = |(i, b): (usize, &u8)| {
        match b {
            b'(' | b'[' | b'{' => depth += 1,
            _ if depth == 0 && default_ends(&rest[i..]) => return Some(i),
            b')' | b']' | b'}' => depth = depth.saturating_sub(1),
            b'\n' => return Some(i),
            _ => {}
        }
        None
    };
    let end = rest.iter().enumerate().find_map(ends).unwrap_or(rest.len());
    match std::str::from_utf8(&rest[..end]) {
        Ok(text) => Ok((&rest[end..], Some(Symbol::new(text)))),
        Err(_) => Err((rest, "this default is not UTF-8".to_owned())),
    }
}

/// Whether only a bracket or the next field follows: ` )`, `, name : `. A default may contain
/// commas.
fn default_ends(input: Input<'_>) -> bool {
    if eat(input, ")").is_some() {
        return true;
    }
    let field = eat(input, ",").and_then(|rest| word(rest).ok());
    field.is_some_and(|(rest, _)| eat(rest, ":").is_some())
}

/// Whether it is `(a`, `(a!`, `(a -> *)` or `(*)` of a schema and not sizes.
fn is_alias(input: Input<'_>, first: u8) -> bool {
    let short = input.get(1).is_some_and(|b| matches!(b, b'!' | b')' | b' ' | b'|'));
    first.is_ascii_lowercase() && short
}

fn dtype(name: &str) -> Option<DType> {
    DType::ALL.iter().copied().find(|dtype| dtype.name() == name)
}

fn unknown_type(name: &str) -> String {
    let known = DType::ALL.iter().map(|d| d.name()).chain(Simple::ALL.iter().map(|s| s.name()));
    let close = crate::log::did_you_mean(name, known.chain(["Tensor", "Dict", "NamedTuple", "Future", "Union"]));
    match close {
        Some(close) => format!("unknown type `{name}`; did you mean `{close}`?"),
        None => format!("unknown type `{name}`"),
    }
}

fn suffix(input: Input<'_>, ty: Type) -> Option<(Input<'_>, Type)> {
    if let Some(rest) = eat(input, "?") {
        return Some((rest, Type::optional(ty)));
    }
    Some((eat(eat(input, "[")?, "]")?, Type::list(ty)))
}

#[derive(Default)]
struct Dims {
    sizes: Vec<Dim>,
    marks: Vec<bool>,
    colon: Vec<i64>,
    strides: Strides,
    requires_grad: Option<bool>,
    device: Option<Symbol>,
}

impl Dims {
    fn any_field(&self) -> bool {
        self.strides != Strides::Unknown || self.requires_grad.is_some() || self.device.is_some()
    }

    fn any(&self) -> bool {
        !self.sizes.is_empty() || self.any_field()
    }

    /// Strides are given in one notation, and for all sizes.
    fn clash(&self) -> Option<&'static str> {
        let (marked, listed) = (self.marks.contains(&true), self.strides != Strides::Unknown);
        match self.colon.len() {
            0 if marked && listed => Some("sizes marked with `!` exclude `strides=`"),
            0 => None,
            n if n != self.sizes.len() => Some("expected a stride, `2:3`, for every size or for none"),
            _ if marked || listed => Some("duplicate strides"),
            _ => None,
        }
    }

    fn size<'a>(&mut self, input: Input<'a>) -> Result<'a, ()> {
        let (rest, dim) = dim(input)?;
        self.sizes.push(dim);
        let marked = eat(rest, "!");
        self.marks.push(marked.is_some());
        let rest = marked.unwrap_or(rest);
        if let Some((rest, stride)) = eat(rest, ":").and_then(number) {
            self.colon.push(stride);
            return Ok((rest, ()));
        }
        Ok((rest, ()))
    }

    fn field<'a>(&mut self, input: Input<'a>, field: usize) -> Result<'a, ()> {
        if [self.strides != Strides::Unknown, self.requires_grad.is_some(), self.device.is_some()][field] {
            return Err((input, "duplicate field".to_owned()));
        }
        match field {
            0 => self.strides(input),
            1 => match number(input) {
                Some((rest, n @ (0 | 1))) => {
                    self.requires_grad = Some(n == 1);
                    Ok((rest, ()))
                }
                _ => Err((input, "expected 0 or 1 after `requires_grad=`".to_owned())),
            },
            _ => {
                let mut n = word_length(input);
                while input.get(n) == Some(&b':') {
                    n += 1 + word_length(&input[n + 1..]);
                }
                let (Ok(name), true) = (std::str::from_utf8(&input[..n]), n > 0) else {
                    return Err((input, "expected a device, such as `cpu` or `cuda:0`".to_owned()));
                };
                self.device = Some(Symbol::new(name));
                Ok((&input[n..], ()))
            }
        }
    }

    fn strides<'a>(&mut self, input: Input<'a>) -> Result<'a, ()> {
        let (mut rest, ()) = expect(input, "[")?;
        let mut strides = Vec::new();
        while eat(rest, "]").is_none() {
            if !strides.is_empty() {
                rest = expect(rest, ",")?.0;
            }
            let Some((after, stride)) = number(rest) else {
                return Err((blanks(rest), "expected a stride, an integer".to_owned()));
            };
            strides.push(stride);
            rest = after;
        }
        if strides.len() != self.sizes.len() {
            let message = format!("{} strides for {} sizes: expected equal numbers", strides.len(), self.sizes.len());
            return Err((input, message));
        }
        self.strides = Strides::Known(strides.into());
        Ok((expect(rest, "]")?.0, ()))
    }
}

fn dim(input: Input<'_>) -> Result<'_, Dim> {
    if let Some(rest) = input.strip_prefix(b"*") {
        return Ok((rest, Dim::Unknown));
    }
    if let Some((rest, id)) = eat(input, "SS").and_then(|rest| eat(rest, "(")).and_then(number) {
        return Ok((expect(rest, ")")?.0, Dim::Symbolic(id)));
    }
    match number(input) {
        Some((rest, size)) if size >= 0 => Ok((rest, Dim::Known(size))),
        _ => Err((
            blanks(input),
            "expected a size (a number, `*` or `SS(-2)`), `strides=`, `requires_grad=` or `device=`".to_owned(),
        )),
    }
}

/// Appends the text of `ty` to `out`.
pub(crate) fn print(out: &mut Vec<u8>, ty: Type, spelling: &Spelling) {
    use TypeKind::*;
    match ty.kind() {
        Tensor(tensor) => print_tensor(out, tensor, spelling),
        Simple(super::Simple::None) if spelling.old_none => out.extend(b"None"),
        Simple(super::Simple::Str) if spelling.string => out.extend(b"string"),
        Simple(simple) => out.extend(simple.name().as_bytes()),
        Optional(inner) => print_with(out, "", *inner, "?", spelling),
        List(inner) => print_with(out, "", *inner, "[]", spelling),
        Future(inner) => print_with(out, "Future[", *inner, "]", spelling),
        RRef(inner) => print_with(out, "RRef[", *inner, "]", spelling),
        Await(inner) => print_with(out, "Await(", *inner, ")", spelling),
        Dict(key, value) => {
            let (open, close) = if spelling.square_dicts { ("Dict[", "]") } else { ("Dict(", ")") };
            // 1.1 prints dicts with its printer of Python types.
            let spelling = &Spelling { string: spelling.string && !spelling.square_dicts, ..*spelling };
            let part = if spelling.square_dicts { print_python } else { print };
            out.extend(open.as_bytes());
            part(out, *key, spelling);
            out.extend(b", ");
            part(out, *value, spelling);
            out.extend(close.as_bytes());
        }
        Tuple(parts) => print_list(out, "(", parts, ")", spelling),
        Union(parts) if spelling.square_unions => print_list(out, "Union[", parts, "]", spelling),
        Union(parts) => print_list(out, "Union(", parts, ")", spelling),
        NamedTuple(fields) => print_fields(out, fields, spelling),
        Class(name) if is_qualified(name.as_str()) => out.extend(name.as_str().as_bytes()),
        Class(name) => out.extend(format!("ClassType<{name}>").as_bytes()),
        Interface(name) => out.extend(format!("InterfaceType<{name}>").as_bytes()),
        Enum(name) => out.extend(format!("Enum<{name}>").as_bytes()),
        Var(name) => out.extend(name.as_str().as_bytes()),
    }
}

/// In Python's notation, `List[int]`: parts of the dicts of 1.1.
fn print_python(out: &mut Vec<u8>, ty: Type, spelling: &Spelling) {
    let (name, parts): (&str, &[Type]) = match ty.kind() {
        TypeKind::List(inner) => ("List[", std::slice::from_ref(inner)),
        TypeKind::Optional(inner) => ("Optional[", std::slice::from_ref(inner)),
        TypeKind::Tuple(parts) => ("Tuple[", parts),
        _ => return print(out, ty, spelling),
    };
    out.extend(name.as_bytes());
    for (i, part) in parts.iter().enumerate() {
        out.extend(if i > 0 { &b", "[..] } else { b"" });
        print_python(out, *part, spelling);
    }
    out.push(b']');
}

fn print_with(out: &mut Vec<u8>, open: &str, inner: Type, close: &str, spelling: &Spelling) {
    out.extend(open.as_bytes());
    print(out, inner, spelling);
    out.extend(close.as_bytes());
}

fn print_list(out: &mut Vec<u8>, open: &str, parts: &[Type], close: &str, spelling: &Spelling) {
    out.extend(open.as_bytes());
    for (i, part) in parts.iter().enumerate() {
        print_with(out, if i > 0 { ", " } else { "" }, *part, "", spelling);
    }
    out.extend(close.as_bytes());
}

fn print_fields(out: &mut Vec<u8>, fields: &[Field], spelling: &Spelling) {
    out.extend(b"NamedTuple(");
    for (i, field) in fields.iter().enumerate() {
        let default = field.default.map_or(String::new(), |text| format!(" = {text}"));
        print_with(out, &format!("{}{} : ", if i > 0 { ", " } else { "" }, field.name), field.ty, &default, spelling);
    }
    out.push(b')');
}

/// In the spelling of 1.2: the bracket stays open.
fn print_profiled(out: &mut Vec<u8>, tensor: &TensorType, dtype: DType) {
    let sizes = tensor.sizes.as_deref().map(|sizes| {
        sizes.iter().map(|dim| match dim {
            Dim::Known(n) => n.to_string(),
            Dim::Unknown | Dim::Symbolic(_) => "*".to_owned(),
        })
    });
    let sizes = sizes.map_or("*".to_owned(), |sizes| sizes.collect::<Vec<_>>().join(", "));
    out.extend(format!("ProfiledTensor(dtype = {} , shape = ({sizes})", dtype.name()).as_bytes());
}

fn print_tensor(out: &mut Vec<u8>, tensor: &TensorType, spelling: &Spelling) {
    if let (true, Some(dtype)) = (tensor.profiled, tensor.dtype) {
        return print_profiled(out, tensor, dtype);
    }
    let undefined = tensor.undefined == Some(true);
    if undefined && tensor.dtype.is_none() && tensor.sizes.is_none() && spelling.undefined != Undefined::Suffix {
        let plain = spelling.undefined == Undefined::Plain;
        return out.extend(if plain { &b"UndefinedTensor"[..] } else { b"AutogradZeroTensor" });
    }
    match tensor.dtype {
        Some(dtype) => {
            out.extend(dtype.name().as_bytes());
            out.extend(if tensor.sizes.is_none() { &b"Tensor"[..] } else { b"" });
        }
        None => out.extend(if spelling.dynamic { &b"Dynamic"[..] } else { b"Tensor" }),
    }
    let fields = fields(tensor, spelling);
    match &tensor.sizes {
        None if fields.is_empty() => {}
        sizes => {
            let sizes = sizes.as_deref().unwrap_or_default().iter().enumerate();
            let all: Vec<String> = sizes.map(|(i, dim)| size(tensor, i, *dim, spelling)).chain(fields).collect();
            out.extend(format!("({})", all.join(", ")).as_bytes());
        }
    }
    match tensor.undefined {
        Some(true) => out.extend(b"[Undefined]"),
        // PyTorch has this property and does not print it; this printer does, see
        // `translation.rs`.
        Some(false) => out.extend(b"[Defined]"),
        None => {}
    }
}

fn size(tensor: &TensorType, i: usize, dim: Dim, spelling: &Spelling) -> String {
    let size = match dim {
        Dim::Known(n) => n.to_string(),
        Dim::Symbolic(id) if spelling.verbosity.is_none_or(|v| v >= 4) => format!("SS({id})"),
        Dim::Unknown | Dim::Symbolic(_) => "*".to_owned(),
    };
    match &tensor.strides {
        Strides::Known(strides) if spelling.colon_strides => format!("{size}:{}", strides[i]),
        Strides::Marked(marks) if marks[i] => format!("{size}!"),
        _ => size,
    }
}

/// `strides=`, `requires_grad=` and `device=`, as far as the verbosity shows them.
fn fields(tensor: &TensorType, spelling: &Spelling) -> Vec<String> {
    let verbosity = spelling.verbosity.unwrap_or(4);
    let mut fields = Vec::new();
    if let (Strides::Known(strides), true) = (&tensor.strides, verbosity >= 2 && !spelling.colon_strides)
        && !strides.is_empty()
    {
        let list: Vec<String> = strides.iter().map(i64::to_string).collect();
        fields.push(format!("strides=[{}]", list.join(", ")));
    }
    if verbosity >= 3 {
        fields.extend(tensor.requires_grad.map(|grad| format!("requires_grad={}", u8::from(grad))));
        fields.extend(tensor.device.map(|device| format!("device={device}")));
    }
    fields
}

#[cfg(test)]
#[path = "spelling_test.rs"]
mod tests;
