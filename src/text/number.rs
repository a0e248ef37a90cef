//! Numbers in PyTorch's spellings.

use crate::ir::{Float, FloatStyle};

/// Appends an integer.
pub(crate) fn print_int(out: &mut Vec<u8>, n: i64) {
    let mut digits = [0u8; 20];
    let mut at = digits.len();
    let mut rest = n.unsigned_abs();
    loop {
        at -= 1;
        digits[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    if n < 0 {
        out.push(b'-');
    }
    out.extend(&digits[at..]);
}

/// Appends a float in its style.
pub fn print_float(out: &mut Vec<u8>, float: Float) {
    let value = float.value;
    if !value.is_finite() {
        let text: &[u8] = if value.is_nan() { b"nan" } else { b"inf" };
        out.extend(if value.is_sign_negative() { &b"-"[..] } else { b"" });
        return out.extend(text);
    }
    match float.style {
        FloatStyle::Six => print_general(out, value, 6),
        FloatStyle::Seventeen if value.abs() < 1e10 && is_integer(value) => print_pointed(out, value),
        FloatStyle::Pointed if is_integer(value) => print_pointed(out, value),
        FloatStyle::Seventeen | FloatStyle::Pointed => print_general(out, value, 17),
    }
}

/// Whether `i64` represents the value.
fn is_integer(value: f64) -> bool {
    let range = -(i64::MIN as f64);
    value == value.trunc() && (-range..range).contains(&value)
}

/// Prints all digits and a point. Releases up to 1.7 print -0.0 without its sign; the sign is kept
/// here, as the constant would otherwise change.
fn print_pointed(out: &mut Vec<u8>, value: f64) {
    if value == 0.0 && value.is_sign_negative() {
        out.push(b'-');
    }
    print_int(out, value as i64);
    out.push(b'.');
}

/// C's `%.{digits}g`.
fn print_general(out: &mut Vec<u8>, value: f64, digits: usize) {
    let scientific = format!("{:.*e}", digits - 1, value);
    let (mantissa, exponent) = scientific.split_once('e').expect("Rust writes an exponent");
    let exponent: i32 = exponent.parse().expect("Rust writes a whole exponent");
    let trim = |text: &str| -> String {
        if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text.to_owned() }
    };
    if exponent < -4 || exponent >= digits as i32 {
        let sign = if exponent < 0 { '-' } else { '+' };
        out.extend(format!("{}e{sign}{:02}", trim(mantissa), exponent.abs()).as_bytes());
    } else {
        out.extend(trim(&format!("{value:.*}", (digits as i32 - 1 - exponent) as usize)).as_bytes());
    }
}

/// Reads `1`, `-0.5`, `1e-05`, `2.`, `inf`, `-nan` as C++ prints them; the whole text must be the
/// number.
pub(crate) fn parse_float(text: &[u8]) -> Option<f64> {
    let (sign, digits) = match text {
        [b'-', rest @ ..] => (-1.0, rest),
        [b'+', rest @ ..] => (1.0, rest),
        _ => (1.0, text),
    };
    match digits {
        b"inf" => return Some(sign * f64::INFINITY),
        b"nan" => return Some(f64::NAN.copysign(sign)),
        _ => {}
    }
    let plain = |b: &u8| b.is_ascii_digit() || matches!(b, b'.' | b'e' | b'E' | b'-' | b'+');
    let text =
        std::str::from_utf8(digits).ok().filter(|t| t.bytes().all(|b| plain(&b)) && !t.starts_with(['-', '+']))?;
    text.parse::<f64>().ok().map(|value| value.copysign(sign))
}

/// The styles whose printers reproduce `text`, oldest first.
pub(crate) fn styles_of(text: &[u8], value: f64) -> impl Iterator<Item = FloatStyle> {
    let prints = move |style: &FloatStyle| {
        let mut out = Vec::with_capacity(24);
        print_float(&mut out, Float { value, style: *style });
        out == text
    };
    [FloatStyle::Six, FloatStyle::Pointed, FloatStyle::Seventeen].into_iter().filter(prints)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn printed(value: f64, style: FloatStyle) -> String {
        let mut out = Vec::new();
        print_float(&mut out, Float { value, style });
        String::from_utf8(out).expect("ascii")
    }

    /// Observed texts (format notes §1.4).
    #[test]
    fn as_pytorch_prints() {
        for (value, six, seventeen) in [
            (2.0, "2", "2."),
            (-0.0, "-0", "-0."),
            (1e-5, "1e-05", "1.0000000000000001e-05"),
            (123456789.0, "1.23457e+08", "123456789."),
            (1.0 / 3.0, "0.333333", "0.33333333333333331"),
            (1e10, "1e+10", "10000000000"),
            (9999999999.0, "1e+10", "9999999999."),
            (1e20, "1e+20", "1e+20"),
            (5e-324, "4.94066e-324", "4.9406564584124654e-324"),
            (0.1, "0.1", "0.10000000000000001"),
            (f64::INFINITY, "inf", "inf"),
            (f64::NAN, "nan", "nan"),
        ] {
            assert_eq!(printed(value, FloatStyle::Six), six);
            assert_eq!(printed(value, FloatStyle::Seventeen), seventeen);
        }
    }

    /// Observed in graphs that 1.5.1 and 1.6.0 printed, and 1.7.1 to 2.15.0.
    #[test]
    fn integers_beyond_1e10_are_distinguished() {
        for (value, pointed, seventeen) in [
            (12345678901.0, "12345678901.", "12345678901"),
            (-1e10, "-10000000000.", "-10000000000"),
            (1.2345678901234568e17, "123456789012345680.", "1.2345678901234568e+17"),
            (4.611686018427388e18, "4611686018427387904.", "4.6116860184273879e+18"),
            (9.223372036854775e18, "9223372036854774784.", "9.2233720368547748e+18"),
            (-9.223_372_036_854_776e18, "-9223372036854775808.", "-9.2233720368547758e+18"),
        ] {
            assert_eq!(printed(value, FloatStyle::Pointed), pointed);
            assert_eq!(printed(value, FloatStyle::Seventeen), seventeen);
            let styles = |text: &str| styles_of(text.as_bytes(), value).collect::<Vec<_>>();
            assert_eq!(styles(pointed), [FloatStyle::Pointed]);
            assert_eq!(styles(seventeen), [FloatStyle::Seventeen]);
        }
        for both in [9.223_372_036_854_776e18, 1e20, 1e300, 0.1, 2.0, 9999999999.0, 10000000000.5, -0.0] {
            assert_eq!(printed(both, FloatStyle::Pointed), printed(both, FloatStyle::Seventeen));
        }
    }

    proptest! {
        #[test]
        fn seventeen_digits_are_enough(bits in any::<u64>(), integer in any::<i64>(), shift in 0u32..63) {
            for value in [f64::from_bits(bits), (integer >> shift) as f64] {
                for style in [FloatStyle::Seventeen, FloatStyle::Pointed] {
                    let text = printed(value, style);
                    let back = parse_float(text.as_bytes()).expect("a number");
                    prop_assert!(back.to_bits() == value.to_bits() || (back.is_nan() && value.is_nan()));
                    prop_assert!(styles_of(text.as_bytes(), value).any(|found| found == style));
                }
            }
        }

        #[test]
        fn integers_are_as_rust_writes_them(n in any::<i64>()) {
            let mut out = Vec::new();
            print_int(&mut out, n);
            prop_assert_eq!(String::from_utf8(out).ok(), Some(n.to_string()));
        }
    }
}
