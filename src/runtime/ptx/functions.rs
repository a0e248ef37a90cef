//! Arithmetic instructions as functions of the bits of their operands.
//!
//! Floats are computed as IEEE 754 says.
//!
//! What GPUs approximate by tables that are not public (`ex2.approx` and the like) is computed in
//! doubles and rounded once: the digits are closer than those of a GPU, and not the same.

use super::bits::Type::{self, B32, F32, F64, Pred};
use super::bits::{Float, Integer, Word, of_float, of_integer};
use Function::{Four, One, Three, Two};

/// The function of an instruction, by the number of its operands.
#[derive(Clone, Copy, Debug)]
pub(super) enum Function {
    One(fn(u64) -> u64),
    Two(fn(u64, u64) -> u64),
    Three(fn(u64, u64, u64) -> u64),
    Four(fn(u64, u64, u64, u64) -> u64),
}

/// The function of an opcode: its name, its modifiers in their order, and its type.
pub(super) fn function(name: &str, modifiers: &[&str], ty: Type) -> Option<Function> {
    let is_float = matches!(ty, F32 | F64);
    Some(match (name, modifiers) {
        ("add", [] | ["rn"]) if is_float => of_float!(ty, add_floats, Two),
        ("sub", [] | ["rn"]) if is_float => of_float!(ty, subtract_floats, Two),
        ("mul", [] | ["rn"]) if is_float => of_float!(ty, multiply_floats, Two),
        ("div", ["rn"]) => of_float!(ty, divide_floats, Two),
        ("fma", ["rn"]) => of_float!(ty, fused, Three),
        ("sqrt", ["rn"]) => of_float!(ty, root, One),
        ("rcp", ["rn"]) => of_float!(ty, reciprocal, One),
        ("min", []) if is_float => of_float!(ty, smaller_float, Two),
        ("max", []) if is_float => of_float!(ty, larger_float, Two),
        ("neg", []) if is_float => sign_function(ty, true),
        ("abs", []) if is_float => sign_function(ty, false),
        ("copysign", []) if is_float => {
            Two(if ty == F32 { |sign, x| x & !SIGN | sign & SIGN } else { |sign, x| x & !SIGNS | sign & SIGNS })
        }
        ("add", []) => of_integer!(ty, add, Two),
        ("sub", []) => of_integer!(ty, subtract, Two),
        ("mul", ["lo"]) => of_integer!(ty, multiply, Two),
        ("mul", ["hi"]) => of_integer!(ty, multiply_high, Two),
        ("mul", ["wide"]) => of_integer!(ty, multiply_wide, Two),
        ("mad", ["lo"]) => of_integer!(ty, multiply_add, Three),
        ("mad", ["wide"]) => of_integer!(ty, multiply_add_wide, Three),
        ("div", []) => of_integer!(ty, divide, Two),
        ("rem", []) => of_integer!(ty, remainder, Two),
        ("min", []) => of_integer!(ty, smaller, Two),
        ("max", []) => of_integer!(ty, larger, Two),
        ("neg", []) => of_integer!(ty, negate, One),
        ("abs", []) => of_integer!(ty, absolute, One),
        ("and", []) => Two(|a, b| a & b),
        ("or", []) => Two(|a, b| a | b),
        ("xor", []) => Two(|a, b| a ^ b),
        ("not", []) => One(if ty == Pred { |a| a ^ 1 } else { |a| !a }),
        ("shl", []) => of_integer!(ty, shift_left, Two),
        ("shr", []) => of_integer!(ty, shift_right, Two),
        ("clz", []) => of_integer!(ty, leading_zeros, One),
        ("popc", []) => of_integer!(ty, ones, One),
        ("brev", []) => One(if ty == B32 { |a| u64::from((a as u32).reverse_bits()) } else { u64::reverse_bits }),
        ("selp", []) => Three(|a, b, predicate| if predicate & 1 == 1 { a } else { b }),
        ("mov", []) => One(|a| a),
        ("bfe", []) => of_integer!(ty, extracted, Three),
        ("bfi", []) => Four(inserted),
        ("prmt", []) => Three(permuted_bytes),
        ("shf", ["l", "wrap"]) => Three(|low, high, by| ((high << 32 | low & LOW) << (by & 31) >> 32) & LOW),
        ("shf", ["r", "wrap"]) => Three(|low, high, by| ((high << 32 | low & LOW) >> (by & 31)) & LOW),
        ("setp", [relation]) => comparison(relation, ty)?,
        (_, ["approx" | "full"]) if ty == F32 => approximation::<false>(name)?,
        (_, ["approx" | "full", "ftz"]) if ty == F32 => approximation::<true>(name)?,
        _ => return None,
    })
}

const LOW: u64 = 0xffff_ffff;
const SIGN: u64 = 1 << 31;
const SIGNS: u64 = 1 << 63;

/// The function that flips a sign, or takes it away.
fn sign_function(ty: Type, flips: bool) -> Function {
    One(match (ty, flips) {
        (F32, true) => |x| x ^ SIGN,
        (F32, false) => |x| x & !SIGN,
        (_, true) => |x| x ^ SIGNS,
        (_, false) => |x| x & !SIGNS,
    })
}

fn add<T: Integer>(a: u64, b: u64) -> u64 {
    T::of(a).plus(T::of(b)).bits()
}

fn subtract<T: Integer>(a: u64, b: u64) -> u64 {
    T::of(a).minus(T::of(b)).bits()
}

fn multiply<T: Integer>(a: u64, b: u64) -> u64 {
    T::of(a.wrapping_mul(b)).bits()
}

fn multiply_high<T: Integer>(a: u64, b: u64) -> u64 {
    let product = T::of(a).wide().wrapping_mul(T::of(b).wide());
    // A product of two unsigned integers of 64 bits needs all bits, the sign's as well.
    T::narrowed(((product as u128) >> T::BITS) as i128).bits()
}

fn multiply_wide<T: Integer>(a: u64, b: u64) -> u64 {
    (T::of(a).wide() * T::of(b).wide()) as u64
}

fn multiply_add<T: Integer>(a: u64, b: u64, c: u64) -> u64 {
    T::of(a.wrapping_mul(b).wrapping_add(c)).bits()
}

fn multiply_add_wide<T: Integer>(a: u64, b: u64, c: u64) -> u64 {
    multiply_wide::<T>(a, b).wrapping_add(c)
}

fn divide<T: Integer>(a: u64, b: u64) -> u64 {
    T::of(a).quotient(T::of(b)).bits()
}

fn remainder<T: Integer>(a: u64, b: u64) -> u64 {
    T::of(a).remainder(T::of(b)).bits()
}

fn smaller<T: Integer>(a: u64, b: u64) -> u64 {
    T::of(a).min(T::of(b)).bits()
}

fn larger<T: Integer>(a: u64, b: u64) -> u64 {
    T::of(a).max(T::of(b)).bits()
}

fn negate<T: Integer>(a: u64) -> u64 {
    T::of(0).minus(T::of(a)).bits()
}

fn absolute<T: Integer>(a: u64) -> u64 {
    if T::of(a) < T::of(0) { negate::<T>(a) } else { a }
}

/// `shl`: amounts have 32 bits. From the width of the register on they leave zeros, or signs in
/// `shr`.
fn shift_left<T: Integer>(a: u64, by: u64) -> u64 {
    T::of(a).left(by as u32).bits()
}

fn shift_right<T: Integer>(a: u64, by: u64) -> u64 {
    T::of(a).right(by as u32).bits()
}

fn leading_zeros<T: Integer>(a: u64) -> u64 {
    T::of(a).leading_zeros()
}

fn ones<T: Integer>(a: u64) -> u64 {
    u64::from(T::of(a).bits().count_ones())
}

/// `bfe`: `count` bits from bit `at` on, extended with the sign of the highest one if the type is
/// signed.
fn extracted<T: Integer>(a: u64, at: u64, count: u64) -> u64 {
    let (at, count) = ((at & 0xff) as u32, (count & 0xff) as u32);
    let above = T::BITS.saturating_sub(at.saturating_add(count));
    if count == 0 { 0 } else { T::of(a).left(above).right(at.saturating_add(above)).bits() }
}

/// `bfi`: `b` with `count` bits from bit `at` on replaced by the lowest bits of `a`.
fn inserted(a: u64, b: u64, at: u64, count: u64) -> u64 {
    let (at, count) = ((at & 0xff) as u32, (count & 0xff) as u32);
    let mask = 1_u64.checked_shl(count).unwrap_or(0).wrapping_sub(1).checked_shl(at).unwrap_or(0);
    b & !mask | a.checked_shl(at).unwrap_or(0) & mask
}

/// `prmt`: four of the eight bytes of `a` and `b`, each by four bits of a selector, the highest of
/// which takes the sign of the byte instead.
fn permuted_bytes(a: u64, b: u64, selector: u64) -> u64 {
    let bytes = (b << 32 | a & LOW).to_le_bytes();
    (0..4).fold(0, |all, at| {
        let selected = selector >> (4 * at) & 15;
        let byte = bytes[selected as usize & 7];
        let byte = if selected & 8 == 0 { byte } else { (byte as i8 >> 7) as u8 };
        all | u64::from(byte) << (8 * at)
    })
}

fn add_floats<T: Float>(a: u64, b: u64) -> u64 {
    T::of(a).plus(T::of(b)).bits()
}

fn subtract_floats<T: Float>(a: u64, b: u64) -> u64 {
    T::of(a).minus(T::of(b)).bits()
}

fn multiply_floats<T: Float>(a: u64, b: u64) -> u64 {
    T::of(a).times(T::of(b)).bits()
}

fn divide_floats<T: Float>(a: u64, b: u64) -> u64 {
    T::of(a).over(T::of(b)).bits()
}

fn fused<T: Float>(a: u64, b: u64, c: u64) -> u64 {
    T::of(a).fused(T::of(b), T::of(c)).bits()
}

fn root<T: Float>(a: u64) -> u64 {
    T::of(a).root().bits()
}

fn reciprocal<T: Float>(a: u64) -> u64 {
    T::rounded(1.0).over(T::of(a)).bits()
}

/// The other operand if one is NaN; -0 is below 0.
fn smaller_float<T: Float>(a: u64, b: u64) -> u64 {
    let (x, y) = (T::of(a).double(), T::of(b).double());
    let takes_first = y.is_nan() || x < y || x == y && x.is_sign_negative();
    if takes_first { T::of(a).bits() } else { T::of(b).bits() }
}

fn larger_float<T: Float>(a: u64, b: u64) -> u64 {
    let (x, y) = (T::of(a).double(), T::of(b).double());
    let takes_first = y.is_nan() || x > y || x == y && x.is_sign_positive();
    if takes_first { T::of(a).bits() } else { T::of(b).bits() }
}

fn equal<T: Word>(a: u64, b: u64) -> u64 {
    u64::from(T::of(a) == T::of(b))
}

fn unequal<T: Word>(a: u64, b: u64) -> u64 {
    u64::from(T::of(a) != T::of(b))
}

fn less<T: Word>(a: u64, b: u64) -> u64 {
    u64::from(T::of(a) < T::of(b))
}

fn at_most<T: Word>(a: u64, b: u64) -> u64 {
    u64::from(T::of(a) <= T::of(b))
}

fn more<T: Word>(a: u64, b: u64) -> u64 {
    less::<T>(b, a)
}

fn at_least<T: Word>(a: u64, b: u64) -> u64 {
    at_most::<T>(b, a)
}

/// Unequal, and neither is NaN.
fn apart<T: Word>(a: u64, b: u64) -> u64 {
    less::<T>(a, b) | less::<T>(b, a)
}

fn not_apart<T: Word>(a: u64, b: u64) -> u64 {
    apart::<T>(a, b) ^ 1
}

/// Less, or one of them is NaN; the other relations alike.
fn not_at_least<T: Word>(a: u64, b: u64) -> u64 {
    at_least::<T>(a, b) ^ 1
}

fn not_more<T: Word>(a: u64, b: u64) -> u64 {
    more::<T>(a, b) ^ 1
}

fn not_at_most<T: Word>(a: u64, b: u64) -> u64 {
    at_most::<T>(a, b) ^ 1
}

fn not_less<T: Word>(a: u64, b: u64) -> u64 {
    less::<T>(a, b) ^ 1
}

fn both_numbers<T: Word>(a: u64, b: u64) -> u64 {
    equal::<T>(a, a) & equal::<T>(b, b)
}

fn one_is_nan<T: Word>(a: u64, b: u64) -> u64 {
    both_numbers::<T>(a, b) ^ 1
}

fn comparison(relation: &str, ty: Type) -> Option<Function> {
    if !matches!(ty, F32 | F64) {
        return Some(match relation {
            "eq" => of_integer!(ty, equal, Two),
            "ne" => of_integer!(ty, unequal, Two),
            "lt" | "lo" => of_integer!(ty, less, Two),
            "le" | "ls" => of_integer!(ty, at_most, Two),
            "gt" | "hi" => of_integer!(ty, more, Two),
            "ge" | "hs" => of_integer!(ty, at_least, Two),
            _ => return None,
        });
    }
    Some(match relation {
        "eq" => of_float!(ty, equal, Two),
        "ne" => of_float!(ty, apart, Two),
        "lt" => of_float!(ty, less, Two),
        "le" => of_float!(ty, at_most, Two),
        "gt" => of_float!(ty, more, Two),
        "ge" => of_float!(ty, at_least, Two),
        "equ" => of_float!(ty, not_apart, Two),
        "neu" => of_float!(ty, unequal, Two),
        "ltu" => of_float!(ty, not_at_least, Two),
        "leu" => of_float!(ty, not_more, Two),
        "gtu" => of_float!(ty, not_at_most, Two),
        "geu" => of_float!(ty, not_less, Two),
        "num" => of_float!(ty, both_numbers, Two),
        "nan" => of_float!(ty, one_is_nan, Two),
        _ => return None,
    })
}

/// A denormal as 0 of its sign, where `ftz` flushes those.
fn flushed<const FLUSHES: bool>(x: f32) -> f32 {
    if FLUSHES && x.is_subnormal() { 0.0_f32.copysign(x) } else { x }
}

fn approximation<const FLUSHES: bool>(name: &str) -> Option<Function> {
    macro_rules! of_one {
        ($function:expr) => {
            One(|a| {
                let function: fn(f64) -> f64 = $function;
                let x = flushed::<FLUSHES>(f32::of(a));
                flushed::<FLUSHES>(function(f64::from(x)) as f32).bits()
            })
        };
    }
    Some(match name {
        "ex2" => of_one!(f64::exp2),
        "lg2" => of_one!(f64::log2),
        "sin" => of_one!(f64::sin),
        "cos" => of_one!(f64::cos),
        "tanh" => of_one!(f64::tanh),
        "rcp" => of_one!(f64::recip),
        "sqrt" => of_one!(f64::sqrt),
        "rsqrt" => of_one!(|x| f64::recip(f64::sqrt(x))),
        "div" => Two(|a, b| {
            let (x, y) = (flushed::<FLUSHES>(f32::of(a)), flushed::<FLUSHES>(f32::of(b)));
            flushed::<FLUSHES>(x / y).bits()
        }),
        _ => return None,
    })
}
