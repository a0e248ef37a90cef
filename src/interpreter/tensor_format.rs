//! Tensors as text, as `print` and `str` of TorchScript programs show them: the stream operator of
//! the C++ library.
//!
//! ```text
//!  0.01 *                      (1,.,.) =
//!   5.0000  1.2000              1  2
//!  -0.3100  7.7500              3  4
//! [ CPUFloatType{2,2} ]       [ CPULongType{1,2,2} ]
//! ```
//!
//! All elements of a row or matrix have one format, which the smallest and the largest of them
//! determine: plain integers, four digits after the point, a common factor before the elements, or
//! exponents. Matrices of tensors with more dimensions have a format each. Lines hold 80
//! characters; wider matrices are printed in groups of columns.
//!
//! Two forms are known: that of 1.x up to 2.2, and that of 2.9, which indents less, prints single
//! numbers with all their digits, and considers the magnitude of negative elements as well. Up to
//! 1.3 types are those of variables.

use crate::tensor::{DType, Precision, Quantizer, Tensor};
use crate::types::release::Release;
use std::fmt::Write;

/// The characters in a line.
const LINE: usize = 80;
/// The oldest release with the newer form among those observed.
const SINCE: Release = Release(2, 9);

/// The text of a tensor, without a line end after it.
pub fn text(tensor: &Tensor, release: Release) -> String {
    let mut out = Formatter { out: String::new(), newer: release >= SINCE, numbers: Numbers::Shortest(6) };
    out.elements(tensor);
    let sizes: Vec<String> = tensor.shape().iter().map(i64::to_string).collect();
    let quantized = if tensor.quantizer().is_some() { "Quantized" } else { "" };
    let device = tensor.device().kind().to_uppercase();
    let mut name = format!("{quantized}{device}{}Type", tensor.dtype().name());
    if release < Release(1, 4) {
        name = format!("Variable[{name}]");
    }
    let _ = write!(out.out, "[ {name}{{{}}}", sizes.join(","));
    if let Some(quantizer) = tensor.quantizer() {
        out.quantizer(&quantizer, release);
    }
    out.out + " ]"
}

/// The format of numbers; the number of digits is kept when another form is set, as in a C++
/// stream.
#[derive(Clone, Copy)]
enum Numbers {
    /// This many digits, fixed or with an exponent.
    Shortest(usize),
    /// This many digits after the point.
    Fixed(usize),
    /// This many digits after the point, and an exponent.
    Exponent(usize),
}

struct Formatter {
    out: String,
    newer: bool,
    numbers: Numbers,
}

/// The common format of all elements of a matrix.
struct Format {
    scale: f64,
    width: usize,
}

impl Formatter {
    fn elements(&mut self, tensor: &Tensor) {
        let numbers: Vec<f64> = match tensor.quantizer() {
            Some(quantizer) => quantizer.dequantize(&tensor.integers().read::<i64>(), tensor.shape()),
            None => tensor.read(),
        };
        let sizes: Vec<usize> = tensor.shape().iter().map(|&size| size as usize).collect();
        match (&sizes[..], &numbers[..]) {
            ([], [number]) => self.out += &(self.single(*number) + "\n"),
            (_, []) => {}
            ([_], row) => self.row(row),
            ([_, columns], matrix) => self.matrix(matrix, *columns, 0),
            ([outer @ .., rows, columns], all) => self.matrices(all, outer, *rows, *columns),
            ([], _) => {}
        }
    }

    /// The number of a zero-dimensional tensor.
    fn single(&self, number: f64) -> String {
        if self.newer { round_trip(number) } else { printed(number, Numbers::Shortest(6)) }
    }

    fn row(&mut self, row: &[f64]) {
        let format = self.format(row);
        self.scale(&format);
        for number in row {
            self.element(*number, &format);
            self.out.push('\n');
        }
    }

    /// Matrices, the index of the first dimension changing fastest.
    fn matrices(&mut self, all: &[f64], outer: &[usize], rows: usize, columns: usize) {
        let size = rows * columns;
        for n in 0..outer.iter().product() {
            let (mut left, mut index, mut at) = (n, Vec::new(), 0);
            for count in outer {
                index.push(left % count);
                left /= count;
            }
            for (i, count) in index.iter().zip(outer) {
                at = at * count + i;
            }
            self.out += if n > 0 { "\n(" } else { "(" };
            index.iter().for_each(|i| self.out += &format!("{},", i + 1));
            self.out += ".,.) = \n";
            self.matrix(&all[at * size..][..size], columns, 1);
        }
    }

    fn matrix(&mut self, matrix: &[f64], columns: usize, indent: usize) {
        let format = self.format(matrix);
        let indent = &"  "[..indent];
        if !self.newer {
            self.out += indent;
        }
        let in_line = ((LINE - indent.len()) / (format.width + 1)).max(1);
        for first in (0..columns).step_by(in_line) {
            let group = first..columns.min(first + in_line);
            if in_line < columns {
                self.out += if first > 0 { "\n" } else { "" };
                self.out += &format!("Columns {} to {}{indent}", first + 1, group.end);
            }
            if self.scale(&format) {
                self.out += indent;
            }
            for (l, row) in matrix.chunks(columns).enumerate() {
                if l > 0 {
                    self.out += indent;
                    self.out += if format.scale == 1.0 { "" } else { " " };
                }
                for (c, number) in row[group.clone()].iter().enumerate() {
                    self.out += if c > 0 { " " } else { "" };
                    self.element(*number, &format);
                }
                self.out.push('\n');
            }
        }
    }

    /// The common factor, unless it is 1.
    fn scale(&mut self, format: &Format) -> bool {
        if format.scale == 1.0 {
            return false;
        }
        let factor = if self.newer { round_trip(format.scale) } else { self.in_stream(format.scale) };
        self.out += &(factor + " *\n");
        true
    }

    /// A number with the digits that the stream is set to.
    fn in_stream(&self, number: f64) -> String {
        let (Numbers::Shortest(digits) | Numbers::Fixed(digits) | Numbers::Exponent(digits)) = self.numbers;
        printed(number, Numbers::Shortest(digits))
    }

    fn element(&mut self, number: f64, format: &Format) {
        let _ = write!(self.out, "{:>1$}", printed(number / format.scale, self.numbers), format.width);
    }

    fn format(&mut self, numbers: &[f64]) -> Format {
        let mut finite = numbers.iter().copied().filter(|number| number.is_finite()).peekable();
        let first = finite.peek().map(|number| number.abs());
        let (mut integers, mut least, mut most) = (true, first.unwrap_or(1.0), first.unwrap_or(1.0));
        for number in finite {
            integers &= number == number.ceil();
            least = least.min(number.abs());
            // The older form ignores negative numbers when it determines the largest.
            most = most.max(if self.newer { number.abs() } else { number });
        }
        let (least, most) = match first {
            Some(_) => (magnitude(least), magnitude(most)),
            None => (1, 1),
        };
        self.choose(integers, least, most)
    }

    /// The format of numbers with these counts of digits before the point.
    fn choose(&mut self, integers: bool, least: i32, most: i32) -> Format {
        let (numbers, width, scale) = match () {
            () if integers && most <= 9 => (Numbers::Shortest(self.digits()), most + 1, 1.0),
            () if integers => (Numbers::Exponent(4), 11, 1.0),
            () if most - least > 4 => (Numbers::Exponent(4), 11 + i32::from(most.abs() > 99 || least.abs() > 99), 1.0),
            () if !(0..=5).contains(&most) => (Numbers::Fixed(4), 7, 10f64.powf(f64::from(most - 1))),
            () => (Numbers::Fixed(4), 6 + most.max(1), 1.0),
        };
        self.numbers = numbers;
        Format { scale, width: width.max(0) as usize }
    }

    /// The digits of numbers in the shortest form: in the older form, the last setting is kept.
    fn digits(&self) -> usize {
        match self.numbers {
            Numbers::Shortest(digits) | Numbers::Fixed(digits) | Numbers::Exponent(digits) if !self.newer => digits,
            _ => 6,
        }
    }

    fn quantizer(&mut self, quantizer: &Quantizer, release: Release) {
        match quantizer {
            Quantizer::Tensor { scale, zero } => {
                let scale = match self.newer {
                    true => printed(*scale, Numbers::Shortest(6)),
                    false => printed(*scale, self.numbers),
                };
                let _ = write!(self.out, ", qscheme: per_tensor_affine, scale: {scale}, zero_point: {zero}");
            }
            Quantizer::Channels { scales, zeros, axis, floats } => {
                let scheme = if *floats { "per_channel_affine_float_qparams" } else { "per_channel_affine" };
                let size = [scales.len() as i64];
                let (of_floats, of_integers) = (DType::Float, DType::Long);
                let typed = |numbers: &[f64], dtype| Tensor::of(numbers, dtype, &size, Precision::Typed);
                let scales = text(&typed(scales, if *floats { of_floats } else { DType::Double }), release);
                let zeros = text(&typed(zeros, if *floats { of_floats } else { of_integers }), release);
                let _ = write!(self.out, ", qscheme: {scheme}, scales: {scales}, zero_points: {zeros}, axis: {axis}");
            }
        }
    }
}

/// The number of digits before the point; 1 for 0, zero or negative below 0.1.
fn magnitude(number: f64) -> i32 {
    if number == 0.0 { 1 } else { number.log10().floor() as i32 + 1 }
}

/// A number in a form of C's `printf`.
fn printed(number: f64, form: Numbers) -> String {
    if let Some(word) = not_finite(number) {
        return word.to_owned();
    }
    match form {
        Numbers::Fixed(digits) => format!("{number:.digits$}"),
        Numbers::Exponent(digits) => with_c_exponent(&format!("{number:.digits$e}")),
        Numbers::Shortest(digits) => {
            let digits = digits.max(1);
            let rounded = format!("{number:.*e}", digits - 1);
            let exponent = exponent(&rounded);
            match usize::try_from(digits as i32 - 1 - exponent) {
                Ok(places) if exponent >= -4 => without_zeros(&format!("{number:.places$}")).to_owned(),
                _ => {
                    let (mantissa, _) = rounded.split_once('e').unwrap_or((&rounded, ""));
                    with_c_exponent(&format!("{}e{exponent}", without_zeros(mantissa)))
                }
            }
        }
    }
}

/// The fewest digits that read back as the same number.
fn round_trip(number: f64) -> String {
    if let Some(word) = not_finite(number) {
        return word.to_owned();
    }
    let text = format!("{number:e}");
    if (-4..16).contains(&exponent(&text)) { format!("{number}") } else { with_c_exponent(&text) }
}

fn not_finite(number: f64) -> Option<&'static str> {
    match (number.is_nan(), number.is_infinite(), number.is_sign_negative()) {
        (true, _, false) => Some("nan"),
        (true, _, true) => Some("-nan"),
        (_, true, false) => Some("inf"),
        (_, true, true) => Some("-inf"),
        _ => None,
    }
}

fn exponent(text: &str) -> i32 {
    text.split_once('e').and_then(|(_, exponent)| exponent.parse().ok()).unwrap_or(0)
}

/// `1.5e-7` in C's spelling, `1.5e-07`.
fn with_c_exponent(text: &str) -> String {
    let (digits, exponent) = text.split_once('e').unwrap_or((text, "0"));
    let (sign, exponent) = exponent.strip_prefix('-').map_or(('+', exponent), |exponent| ('-', exponent));
    format!("{digits}e{sign}{exponent:0>2}")
}

fn without_zeros(text: &str) -> &str {
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { text }
}
