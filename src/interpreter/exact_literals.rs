//! Exact literals of values: the inverse of [`literal_values`].
//!
//! A constant that a pass makes is read again from its text, so a literal is only given if reading
//! it gives the same value, bit for bit. Tensors print as PyTorch prints them, with four decimals
//! and up to ten elements: `3.5000` is exact, a third is not. The kinds of values that can be
//! constants differ by era: 1.3 had no constant tuples, dicts or lists of floats.

use super::environment::Environment;
use super::ivalue::IValue;
use super::literal_values;
use crate::ir::{Attribute, Float, FloatStyle};
use crate::symbol::Symbol;
use crate::tensor::{DType, Scalar, Tensor};
use crate::text::number::{parse_float, print_float};
use crate::types::era::Era;
use crate::types::release::Release;
use crate::types::{Dim, Simple, Strides, TensorType, Type, TypeKind};

/// The reason why a value has no exact literal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LiteralError {
    /// The era has no constants of this kind, or the value is too large.
    Kind,
    /// The text of such a constant is less precise than its value.
    Rounded,
}

/// The attribute of a constant, `None` for `None`, and its type.
pub type Literal = (Option<Attribute>, Type);

/// The maximal number of elements of a container, nested ones included, and of nesting.
const MOST_PARTS: usize = 1 << 12;
const MOST_DEPTH: usize = 64;
/// The longest text in bytes.
const MOST_BYTES: usize = 1 << 16;
/// The maximal number of elements of a tensor that PyTorch prints in a constant.
const MOST_ELEMENTS: usize = 10;
/// The widest line that PyTorch does not break into columns.
const MOST_COLUMNS: usize = 80;

/// The literal of `value` for an output of type `declared`.
pub fn of(value: &IValue, declared: Type, release: Release) -> Result<Literal, LiteralError> {
    if !is_small(value) {
        return Err(LiteralError::Kind);
    }
    let declared =
        if let TypeKind::Optional(inner) = declared.kind() { (*inner, Some(declared)) } else { (declared, None) };
    let literal = match value {
        IValue::None => (None, declared.1.unwrap_or_else(Type::none)),
        IValue::Bool(b) => (Some(Attribute::Int(i64::from(*b))), Type::bool()),
        IValue::Device(device) => (Some(Attribute::Str(device.name().as_bytes().into())), value.ty()),
        IValue::Tensor(tensor) => of_tensor(tensor, release)?,
        IValue::List(_) | IValue::Dict(_) | IValue::Tuple(_) => {
            let ty = if same_container(value, declared.0) { declared.0 } else { value.ty() };
            (Some(part(value, ty, release)?), ty)
        }
        _ => (Some(part(value, value.ty(), release)?), value.ty()),
    };
    match comes_back(&literal, value) {
        true => Ok(literal),
        false => Err(LiteralError::Rounded),
    }
}

/// Whether a value is small enough to be compared element by element.
fn is_small(value: &IValue) -> bool {
    let (mut parts, mut work) = (0, vec![(value.clone(), 0)]);
    while let Some((value, depth)) = work.pop() {
        parts += 1;
        if parts > MOST_PARTS || depth > MOST_DEPTH {
            return false;
        }
        match value {
            IValue::List(list) => work.extend(list.borrow().iter().take(MOST_PARTS).map(|v| (v.clone(), depth + 1))),
            IValue::Tuple(parts) => work.extend(parts.iter().take(MOST_PARTS).map(|v| (v.clone(), depth + 1))),
            IValue::Dict(dict) => {
                let items = dict.borrow();
                let items = items.iter().take(MOST_PARTS).flat_map(|(key, v)| [key.0.clone(), v.clone()]);
                work.extend(items.map(|v| (v, depth + 1)));
            }
            IValue::Str(text) if text.len() > MOST_BYTES => return false,
            _ => {}
        }
    }
    true
}

fn same_container(value: &IValue, ty: Type) -> bool {
    matches!(
        (value, ty.kind()),
        (IValue::List(_), TypeKind::List(_))
            | (IValue::Dict(_), TypeKind::Dict(..))
            | (IValue::Tuple(_), TypeKind::Tuple(_) | TypeKind::NamedTuple(_))
    )
}

/// A value as an element of a container, or alone if the form is the same.
fn part(value: &IValue, ty: Type, release: Release) -> Result<Attribute, LiteralError> {
    let parts = |values: &[IValue], types: &[Type]| -> Result<Box<[Attribute]>, LiteralError> {
        values.iter().zip(types).map(|(value, &ty)| part(value, ty, release)).collect()
    };
    let old = release.era() == Era::V1_3;
    Ok(match value {
        IValue::Int(n) => Attribute::Int(*n),
        IValue::Float(x) => Attribute::Float(float(*x, release)),
        IValue::Complex(z) if !old => Attribute::Complex(Box::new((float(z.re, release), float(z.im, release)))),
        IValue::Str(text) => Attribute::Str(text.as_bytes().into()),
        IValue::Bool(b) => Attribute::Bool(*b),
        IValue::List(list) => {
            let (values, element) = (list.borrow(), element_of(ty));
            match values.is_empty() {
                _ if old && !matches!(element.kind(), TypeKind::Simple(Simple::Int | Simple::Bool)) => {
                    return Err(LiteralError::Kind);
                }
                _ if release == Release(1, 5) && !is_plain(element) => return Err(LiteralError::Kind),
                true if element.is_tensor() => return Err(LiteralError::Rounded),
                true if !old => Attribute::EmptyList(annotation(ty).ok_or(LiteralError::Kind)?.into()),
                _ => Attribute::List(parts(&values, &vec![element; values.len()])?),
            }
        }
        IValue::None if !old => Attribute::None,
        IValue::Device(device) if !old => Attribute::Device(device.name().as_bytes().into()),
        IValue::Tuple(values) if !old => {
            let types = ty.tuple_elements().filter(|types| types.len() == values.len()).ok_or(LiteralError::Kind)?;
            Attribute::Tuple(parts(values, &types)?)
        }
        IValue::Dict(dict) if !old => {
            let TypeKind::Dict(key, item) = ty.kind() else { return Err(LiteralError::Kind) };
            let pair =
                |(k, v): (&super::ivalue::Key, &IValue)| Ok((part(&k.0, *key, release)?, part(v, *item, release)?));
            Attribute::Dict(dict.borrow().iter().map(pair).collect::<Result<_, LiteralError>>()?)
        }
        IValue::Tensor(_) => return Err(LiteralError::Rounded),
        _ => return Err(LiteralError::Kind),
    })
}

/// The element types of constant lists in 1.5.
fn is_plain(element: Type) -> bool {
    element.is_tensor()
        || matches!(element.kind(), TypeKind::Simple(Simple::Int | Simple::Float | Simple::Bool | Simple::Str))
}

fn element_of(ty: Type) -> Type {
    if let TypeKind::List(element) = ty.kind() { *element } else { Type::simple(Simple::Any) }
}

/// A floating point number, in the style of the release if that is exact.
pub fn float(value: f64, release: Release) -> Float {
    let usual = Float { value, style: FloatStyle::of(release) };
    let exact = || parse_float(&printed(usual)).is_some_and(|read| read.to_bits() == value.to_bits());
    match !value.is_finite() || exact() {
        true => usual,
        false => Float { value, style: FloatStyle::Seventeen },
    }
}

fn printed(float: Float) -> Vec<u8> {
    let mut out = Vec::new();
    print_float(&mut out, float);
    out
}

/// `List[Optional[int]]`: a type in Python's notation.
fn annotation(ty: Type) -> Option<String> {
    Some(match ty.kind() {
        TypeKind::Tensor(_) => "Tensor".to_owned(),
        TypeKind::List(element) => format!("List[{}]", annotation(*element)?),
        TypeKind::Optional(inner) => format!("Optional[{}]", annotation(*inner)?),
        TypeKind::Dict(key, value) => format!("Dict[{}, {}]", annotation(*key)?, annotation(*value)?),
        TypeKind::Tuple(parts) => {
            let parts: Option<Vec<String>> = parts.iter().map(|&part| annotation(part)).collect();
            format!("Tuple[{}]", parts?.join(", "))
        }
        TypeKind::Simple(
            Simple::Int | Simple::Float | Simple::Bool | Simple::Str | Simple::Complex | Simple::Device,
        ) => ty.to_string(),
        _ => return None,
    })
}

/// Whether reading the literal gives the value again.
fn comes_back(literal: &Literal, value: &IValue) -> bool {
    let Some(attribute) = &literal.0 else { return value.is_none() };
    let env = Environment::default();
    // A tensor is read from its text; so is a float of six digits.
    literal_values::of(&env, attribute, literal.1, "").is_ok_and(|read| is_same(&read, value))
}

/// Bit for bit the same; every NaN is the same.
fn is_same(a: &IValue, b: &IValue) -> bool {
    let all = |a: &[IValue], b: &[IValue]| a.len() == b.len() && a.iter().zip(b).all(|(a, b)| is_same(a, b));
    let real = |a: f64, b: f64| a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan());
    match (a, b) {
        (IValue::None, IValue::None) => true,
        (IValue::Bool(a), IValue::Bool(b)) => a == b,
        (IValue::Int(a), IValue::Int(b)) => a == b,
        (IValue::Float(a), IValue::Float(b)) => real(*a, *b),
        (IValue::Complex(a), IValue::Complex(b)) => real(a.re, b.re) && real(a.im, b.im),
        (IValue::Str(a), IValue::Str(b)) => a == b,
        (IValue::Device(a), IValue::Device(b)) => a == b,
        (IValue::List(a), IValue::List(b)) => all(&a.borrow(), &b.borrow()),
        (IValue::Tuple(a), IValue::Tuple(b)) => all(a, b),
        (IValue::Dict(a), IValue::Dict(b)) => {
            let (a, b) = (a.borrow(), b.borrow());
            let same = |((k, v), (l, w)): ((_, &IValue), (_, &IValue))| {
                let (k, l): (&super::ivalue::Key, &super::ivalue::Key) = (k, l);
                is_same(&k.0, &l.0) && is_same(v, w)
            };
            a.len() == b.len() && a.iter().zip(b.iter()).all(same)
        }
        (IValue::Tensor(a), IValue::Tensor(b)) => same_tensor(a, b),
        _ => false,
    }
}

fn same_tensor(a: &Tensor, b: &Tensor) -> bool {
    let bits = |tensor: &Tensor| -> Vec<u64> { tensor.read::<f64>().into_iter().map(f64::to_bits).collect() };
    let same = match a.dtype().is_integral() {
        true => a.read::<i64>() == b.read::<i64>(),
        false => bits(a) == bits(b),
    };
    a.dtype() == b.dtype() && a.shape() == b.shape() && a.strides() == b.strides() && same
}

/// A tensor in PyTorch's print of a constant.
fn of_tensor(tensor: &Tensor, release: Release) -> Result<Literal, LiteralError> {
    let plain = tensor.device().name() == "cpu" && tensor.is_contiguous() && !tensor.dtype().is_complex();
    if !plain || tensor.requires_grad() {
        return Err(LiteralError::Kind);
    }
    let text = match tensor.numel() {
        1 => format!("{{{}}}", single(tensor)),
        0..=MOST_ELEMENTS if tensor.rank() <= 2 => elements(tensor, release).ok_or(LiteralError::Rounded)?,
        _ => return Err(LiteralError::Rounded),
    };
    Ok((Some(Attribute::Tensor(text.into())), type_of(tensor, release)))
}

/// The type of such a constant: complete from 1.5 on, element type and sizes before.
fn type_of(tensor: &Tensor, release: Release) -> Type {
    let known = |n: &i64| Dim::Known(*n);
    let new = release.era() != Era::V1_3;
    Type::new(TypeKind::Tensor(TensorType {
        dtype: Some(tensor.dtype()),
        sizes: Some(tensor.shape().iter().map(known).collect()),
        strides: if new { Strides::Known(tensor.strides().into()) } else { Strides::Unknown },
        requires_grad: new.then_some(false),
        device: new.then(|| Symbol::new(tensor.device().name())),
        undefined: None,
        profiled: false,
    }))
}

/// The text of the only element of a tensor, with six digits, as PyTorch prints it in a constant.
pub fn single(tensor: &Tensor) -> String {
    match tensor.item() {
        Scalar::Bool(b) => u8::from(b).to_string(),
        Scalar::Int(n) => n.to_string(),
        Scalar::Float(x) => general(x),
        Scalar::Complex(z) => z.to_string(),
    }
}

/// C's `%g`.
pub(super) fn general(value: f64) -> String {
    String::from_utf8_lossy(&printed(Float { value, style: FloatStyle::Six })).into_owned()
}

/// C's `%.4e`.
fn scientific(value: f64) -> String {
    let text = format!("{value:.4e}");
    match text.split_once('e') {
        Some((mantissa, exponent)) => {
            let (sign, digits) = exponent.strip_prefix('-').map_or(('+', exponent), |digits| ('-', digits));
            format!("{mantissa}e{sign}{digits:0>2}")
        }
        None => text,
    }
}

/// ` 1  2  3 [ CPULongType{3} ]`: all elements in one format, lines joined by blanks. `None` if
/// PyTorch would break lines.
fn elements(tensor: &Tensor, release: Release) -> Option<String> {
    let values: Vec<f64> = tensor.read();
    let (width, format) = format_of(&values)?;
    let columns = if tensor.rank() == 2 { tensor.size(1).max(1) as usize } else { 1 };
    if columns * (width + 1) > MOST_COLUMNS {
        return None;
    }
    let mut text: Vec<String> = values.iter().map(|&x| format!("{:>width$}", format(x))).collect();
    let sizes: Vec<String> = tensor.shape().iter().map(i64::to_string).collect();
    let ty = format!("CPU{}Type", tensor.dtype().name());
    let ty = if release.era() == Era::V1_3 { format!("Variable[{ty}]") } else { ty };
    text.push(format!("[ {ty}{{{}}} ]", sizes.join(",")));
    Some(text.join(" "))
}

/// Prints a number.
type Format = fn(f64) -> String;

/// The width of a column and the format of its numbers. As in PyTorch, the largest number is found
/// with signs, the smallest without.
fn format_of(values: &[f64]) -> Option<(usize, Format)> {
    let finite = || values.iter().copied().filter(|x| x.is_finite());
    let digits = |x: f64| if x == 0.0 { 1.0 } else { x.log10().floor() + 1.0 };
    let first = finite().next().map_or(1.0, f64::abs);
    let least = digits(finite().fold(first, |least, x| least.min(x.abs())));
    let most = digits(finite().fold(first, f64::max));
    match finite().all(|x| x == x.ceil()) {
        true if most > 9.0 => Some((11, scientific)),
        true => Some((most as usize + 1, general)),
        false if most - least > 4.0 => {
            Some((if most.abs() > 99.0 || least.abs() > 99.0 { 12 } else { 11 }, scientific))
        }
        // All numbers are divided by a common factor, printed before them.
        false if !(0.0..=5.0).contains(&most) => None,
        false => Some((if most == 0.0 { 7 } else { most as usize + 6 }, |x| format!("{x:.4}"))),
    }
}

/// Whether the text of a printed tensor has all of its elements exactly: integers, none shortened
/// to six digits.
pub fn prints_all_elements(text: &str, dtype: Option<DType>) -> bool {
    let body = text.rsplit_once('[').map_or(text, |(body, _)| body);
    dtype.is_some_and(DType::is_integral) && !body.contains(['.', 'e'])
}

/// Whether the text of a tensor probably lacks digits: those after the fourth decimal, or after the
/// sixth digit of a single number.
pub fn may_be_rounded(text: &str) -> bool {
    let body = text.rsplit_once('[').map_or(text, |(body, _)| body);
    let is_single = body.trim().starts_with('{');
    body.split(|c: char| c.is_whitespace() || "{}".contains(c)).any(|word| {
        let (digits, fraction) = word.split_once('.').unwrap_or((word, ""));
        let fraction = fraction.split('e').next().unwrap_or_default();
        let count =
            if is_single { digits.trim_start_matches(['-', '0']).len() + fraction.len() } else { fraction.len() };
        count >= if is_single { 6 } else { 4 } && !fraction.ends_with('0')
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensor::Precision;
    use crate::text::literal;
    use crate::types::spelling::Spelling;

    fn text(value: &IValue, release: Release) -> Option<String> {
        let (attribute, ty) = of(value, value.ty(), release).ok()?;
        let mut out = Vec::new();
        literal::print(&mut out, &attribute?, &Spelling::default());
        Some(format!("{ty} {}", String::from_utf8(out).ok()?))
    }

    fn tensor(numbers: &[f64], dtype: DType, shape: &[i64]) -> IValue {
        IValue::Tensor(Tensor::of(numbers, dtype, shape, Precision::Typed))
    }

    #[test]
    fn tensors_print_as_pytorch_prints_them() {
        let (new, float) = ("requires_grad=0, device=cpu)", DType::Float);
        for (numbers, dtype, shape, expected) in [
            (&[0.1][..], float, &[][..], format!("Float({new} {{0.1}}")),
            (&[0.0], float, &[1, 1], format!("Float(1, 1, strides=[1, 1], {new} {{0}}")),
            (&[0.1, 0.1], float, &[2], format!("Float(2, strides=[1], {new}  0.1000  0.1000 [ CPUFloatType{{2}} ]")),
            (
                &[3.5; 4],
                float,
                &[2, 2],
                format!("Float(2, 2, strides=[2, 1], {new}  3.5000  3.5000  3.5000  3.5000 [ CPUFloatType{{2,2}} ]"),
            ),
            (&[1.0, 2.0, 3.0], DType::Long, &[3], format!("Long(3, strides=[1], {new}  1  2  3 [ CPULongType{{3}} ]")),
            (&[1.0, 0.0], DType::Bool, &[2], format!("Bool(2, strides=[1], {new}  1  0 [ CPUBoolType{{2}} ]")),
            (&[], float, &[0, 6], format!("Float(0, 6, strides=[6, 1], {new} [ CPUFloatType{{0,6}} ]")),
            (
                &[0.5, 50000.0],
                float,
                &[2],
                format!("Float(2, strides=[1], {new}  5.0000e-01  5.0000e+04 [ CPUFloatType{{2}} ]"),
            ),
        ] {
            let found = text(&tensor(numbers, dtype, shape), Release::NEWEST);
            assert_eq!(found, Some(expected));
        }
        let old = text(&tensor(&[1.0; 4], float, &[2, 2]), Release(1, 3));
        assert_eq!(old.as_deref(), Some("Float(2, 2)  1  1  1  1 [ Variable[CPUFloatType]{2,2} ]"));
    }

    #[test]
    fn rounded_numbers_have_no_exact_literal() {
        let third = tensor(&[1.0 / 3.0], DType::Float, &[]);
        let many = tensor(&[0.0; 11], DType::Float, &[11]);
        let cube = tensor(&[0.0; 8], DType::Float, &[2, 2, 2]);
        for value in [third, many, cube, tensor(&[1.0, 1_234_567.0], DType::Long, &[2])] {
            assert_eq!(of(&value, value.ty(), Release::NEWEST).err(), Some(LiteralError::Rounded), "{value:?}");
        }
        let tensors = IValue::list(Vec::<Tensor>::new());
        assert!(of(&tensors, Type::list(Type::tensor()), Release::NEWEST).is_err());
    }

    #[test]
    fn numbers_keep_all_their_digits() {
        let x = IValue::Float(0.1 + 0.2);
        assert_eq!(text(&x, Release::NEWEST).as_deref(), Some("float 0.30000000000000004"));
        assert_eq!(text(&x, Release(1, 3)).as_deref(), Some("float 0.30000000000000004"));
        assert_eq!(text(&IValue::Float(0.5), Release(1, 3)).as_deref(), Some("float 0.5"));
        let empty = IValue::list(Vec::<i64>::new());
        let (attribute, _) = of(&empty, Type::list(Type::int()), Release::NEWEST).expect("a list of ints");
        assert!(matches!(attribute, Some(Attribute::EmptyList(text)) if &*text == "List[int]"));
        assert!(of(&IValue::list([0.5]), Type::list(Type::simple(Simple::Float)), Release(1, 3)).is_err());
    }

    #[test]
    fn containers_that_grow_without_end_are_refused() {
        let mut value = IValue::list([1i64, 2]);
        for _ in 0..60 {
            value = IValue::tuple([value.clone(), value]);
        }
        assert_eq!(of(&value, Type::tensor(), Release::NEWEST).err(), Some(LiteralError::Kind));
    }
}
