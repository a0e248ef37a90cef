//! Elements in a row, and the arithmetic they take part in.
//!
//! Whatever the element type, computing is done in one of three [`Wide`] types: `i64`, `f64` or `Complex<f64>`. The sum, difference,
//! product, quotient and root of two 24-bit numbers, rounded to 53 bits and then to 24, is the one rounded to 24 at once, so
//! that the detour shows nowhere; elsewhere it only makes results better.

use super::dtype::{DType, Kind};
use half::{bf16, f16};
use num_complex::Complex;
use std::cell::Cell;
use std::ops::Range;

/// A complex number of two doubles.
pub type C128 = Complex<f64>;

macro_rules! buffers {
    ($($name:ident $element:ty,)*) => {
        /// Elements of one type. A buffer of reals may be wider than its tensor says, see [`Precision`].
        #[derive(Clone, Debug)]
        #[allow(missing_docs, reason = "the variants are the element types")]
        pub enum Buffer { $($name(Vec<$element>),)* }

        impl Buffer {
            /// `n` zeros.
            pub fn zeros(dtype: DType, n: usize) -> Buffer {
                match dtype {
                    $(DType::$name => Buffer::$name(vec![Default::default(); n]),)*
                    _ => panic!("tensors of {} are refused before this", dtype.name()),
                }
            }

            /// How many elements.
            pub fn len(&self) -> usize {
                match self { $(Buffer::$name(elements) => elements.len(),)* }
            }

            /// Bytes of an element.
            pub fn element_size(&self) -> usize {
                match self { $(Buffer::$name(_) => size_of::<$element>(),)* }
            }

            /// The element type.
            pub fn dtype(&self) -> DType {
                match self { $(Buffer::$name(_) => DType::$name,)* }
            }
        }

        /// Runs a block with the elements of a buffer, whatever their type.
        macro_rules! with_elements {
            ($buffer:expr, $elements:ident => $body:expr) => {
                match $buffer { $($crate::tensor::buffer::Buffer::$name($elements) => $body,)* }
            };
        }
        pub(crate) use with_elements;

        $(impl Typed for $element {
            const DTYPE: DType = DType::$name;
            fn slice(buffer: &Buffer) -> Option<&[Self]> {
                match buffer { Buffer::$name(elements) => Some(elements), _ => None }
            }
            fn slice_mut(buffer: &mut Buffer) -> Option<&mut [Self]> {
                match buffer { Buffer::$name(elements) => Some(elements), _ => None }
            }
            fn buffer(elements: Vec<Self>) -> Buffer {
                Buffer::$name(elements)
            }
        })*
    };
}

/// An element type that there is a buffer for.
pub trait Typed: Copy + 'static {
    /// Its name.
    const DTYPE: DType;
    /// The elements, if they are of this type.
    fn slice(buffer: &Buffer) -> Option<&[Self]>;
    /// The elements, if they are of this type.
    fn slice_mut(buffer: &mut Buffer) -> Option<&mut [Self]>;
    /// A buffer of them.
    fn buffer(elements: Vec<Self>) -> Buffer;
}

buffers! {
    Bool bool, Byte u8, Char i8, Short i16, Int i32, Long i64, Half f16, BFloat16 bf16, Float f32, Double f64,
    ComplexFloat Complex<f32>, ComplexDouble Complex<f64>,
}

/// Bytes that the place of a tensor repeats in: pages of x86, whose stores are mistaken for loads of the same place in another one.
const PAGE: usize = 4096;
/// Bytes between the places of the next tensors in their pages: an odd number of lines, so that 64 of them have 64 places.
const SHIFT: usize = 7 * 64;
/// Bytes from which tensors have places of their own.
const WORTH_PLACING: usize = 16 << 10;

thread_local! {
    /// How many tensors have been given a place.
    static PLACED: Cell<usize> = const { Cell::new(0) };
}

impl Buffer {
    /// Zeros that begin with a line, each time in another place of a page, and which of the elements they are. Large vectors all begin at the same
    /// place of a page, in the middle of a line: the gradient of an LSTM cell, which walks thirteen at once, took twice as long with them. Few
    /// elements are where they happen to be.
    pub fn placed(dtype: DType, elements: usize) -> (Buffer, Range<usize>) {
        let size = dtype.size();
        if elements * size < WORTH_PLACING {
            return (Buffer::zeros(dtype, elements), 0..elements);
        }
        let buffer = Buffer::zeros(dtype, elements + PAGE / size);
        let begin = with_elements!(&buffer, elements => elements.as_ptr().addr());
        PLACED.set(PLACED.get() + 1);
        let place = (PLACED.get() * SHIFT) % PAGE;
        let first = (place + PAGE - begin % PAGE) % PAGE / size;
        (buffer, first..first + elements)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

macro_rules! bytes_of {
    ($($t:ty)*) => {$(impl Bytes for $t {
        fn push(self, bytes: &mut Vec<u8>) { bytes.extend(self.to_le_bytes()) }
        fn of(bytes: &[u8]) -> Self { <$t>::from_le_bytes(bytes.try_into().unwrap_or_default()) }
    })*};
}
bytes_of!(u8 i8 i16 i32 i64 f16 bf16 f32 f64);

/// An element as bytes in memory.
trait Bytes: Sized {
    fn push(self, bytes: &mut Vec<u8>);
    fn of(bytes: &[u8]) -> Self;
}

impl Bytes for bool {
    fn push(self, bytes: &mut Vec<u8>) {
        bytes.push(u8::from(self));
    }
    fn of(bytes: &[u8]) -> Self {
        bytes != [0]
    }
}

impl<T: Bytes> Bytes for Complex<T> {
    fn push(self, bytes: &mut Vec<u8>) {
        self.re.push(bytes);
        self.im.push(bytes);
    }
    fn of(bytes: &[u8]) -> Self {
        let (re, im) = bytes.split_at(bytes.len() / 2);
        Complex::new(T::of(re), T::of(im))
    }
}

impl Buffer {
    /// The bytes of some elements, the lowest of each first.
    pub fn bytes(&self, range: Range<usize>) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(range.len() * self.element_size());
        with_elements!(self, elements => elements[range].iter().for_each(|&element| element.push(&mut bytes)));
        bytes
    }

    /// Makes elements of bytes, from one of them on, as many as there are bytes for.
    pub fn set_bytes(&mut self, first: usize, bytes: &[u8]) {
        let size = self.element_size();
        with_elements!(self, elements => {
            for (element, bytes) in elements[first..].iter_mut().zip(bytes.chunks_exact(size)) {
                *element = Bytes::of(bytes);
            }
        });
    }
}

/// How many bits reals are kept in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Precision {
    /// As many as the element type says.
    #[default]
    Typed,
    /// 53, whatever the element type says: nothing is rounded to it. The shadow that results are judged against.
    Double,
}

impl Precision {
    /// The type that elements are kept in.
    pub fn kept(self, dtype: DType) -> DType {
        match (self, dtype.arithmetic()) {
            (Precision::Double, Some(Kind::Float)) => DType::Double,
            (Precision::Double, Some(Kind::Complex)) => DType::ComplexDouble,
            _ => dtype.memory(),
        }
    }
}

/// A type that computing is done in.
pub trait Wide: Copy + Default + PartialEq + 'static {
    /// From a number of any element type.
    fn load<T: Narrow>(element: T) -> Self;
    /// To an element type: reals are rounded to nearest even, whole numbers wrap.
    fn store<T: Narrow>(self) -> T;
    /// What it is after a detour through an element type.
    fn through(self, dtype: DType) -> Self;
}

/// An element type, as seen by the arithmetic.
pub trait Narrow: Copy + 'static {
    /// As a whole number: reals are cut, as the processor does.
    fn int(self) -> i64;
    /// As a real number.
    fn real(self) -> f64;
    /// As a complex number.
    fn complex(self) -> C128 {
        C128::new(self.real(), 0.0)
    }
    /// From a whole number.
    fn from_int(n: i64) -> Self;
    /// From a real number.
    fn from_real(x: f64) -> Self;
    /// From a complex number: types that are not lose the imaginary part.
    fn from_complex(z: C128) -> Self {
        Self::from_real(z.re)
    }
}

/// What x86 makes of a real number that is cast to a 64-bit integer: what does not fit is the smallest one.
pub fn cut(x: f64) -> i64 {
    if (-9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0).contains(&x) { x as i64 } else { i64::MIN }
}

/// The same of types of up to 32 bits, as PyTorch is compiled: what does not fit into 32 bits is the smallest number of those, of which narrower types keep the last bits.
fn cut_to_32(x: f64) -> i32 {
    // What is cut to the smallest number may be less than it.
    if x > -2_147_483_649.0 && x < 2_147_483_648.0 { x as i32 } else { i32::MIN }
}

macro_rules! narrow_int {
    ($cut:ident: $($t:ty)*) => {$(impl Narrow for $t {
        #[inline]
        fn int(self) -> i64 { self as i64 }
        #[inline]
        fn real(self) -> f64 { self as f64 }
        #[inline]
        fn from_int(n: i64) -> Self { n as $t }
        #[inline]
        fn from_real(x: f64) -> Self { $cut(x) as $t }
    })*};
}
narrow_int!(cut_to_32: u8 i8 i16 i32);
narrow_int!(cut: i64);

macro_rules! narrow_real {
    ($($t:ty, $to:expr, $from:expr, $from_int:expr;)*) => {$(impl Narrow for $t {
        #[inline]
        fn int(self) -> i64 { cut(self.real()) }
        #[inline]
        fn real(self) -> f64 { $to(self) }
        #[inline]
        fn from_int(n: i64) -> Self { $from_int(n) }
        #[inline]
        fn from_real(x: f64) -> Self { $from(x) }
    })*};
}
narrow_real! {
    f64, |x| x, |x| x, |n| n as f64;
    f32, f64::from, |x| x as f32, |n| n as f32;
    f16, f16::to_f64, f16_from, |n| f16::from_f32(n as f32);
    bf16, bf16::to_f64, bf16_from, |n| bf16::from_f32(n as f32);
}

/// PyTorch rounds to single first: half of its arithmetic is done there.
fn f16_from(x: f64) -> f16 {
    f16::from_f32(x as f32)
}

fn bf16_from(x: f64) -> bf16 {
    bf16::from_f32(x as f32)
}

impl Narrow for bool {
    #[inline]
    fn int(self) -> i64 {
        i64::from(self)
    }
    #[inline]
    fn real(self) -> f64 {
        f64::from(u8::from(self))
    }
    #[inline]
    fn from_int(n: i64) -> Self {
        n != 0
    }
    #[inline]
    fn from_real(x: f64) -> Self {
        x != 0.0
    }
    fn from_complex(z: C128) -> Self {
        z != C128::default()
    }
}

macro_rules! narrow_complex {
    ($($t:ty)*) => {$(impl Narrow for Complex<$t> {
        #[inline]
        fn int(self) -> i64 { self.re.int() }
        #[inline]
        fn real(self) -> f64 { self.re.real() }
        #[inline]
        fn complex(self) -> C128 { C128::new(self.re.real(), self.im.real()) }
        #[inline]
        fn from_int(n: i64) -> Self { Complex::new(n as $t, 0.0) }
        #[inline]
        fn from_real(x: f64) -> Self { Complex::new(x as $t, 0.0) }
        #[inline]
        fn from_complex(z: C128) -> Self { Complex::new(z.re as $t, z.im as $t) }
    })*};
}
narrow_complex!(f32 f64);

macro_rules! through {
    ($value:expr, $dtype:expr, $store:ident) => {
        match $dtype {
            DType::Bool => Self::load($value.store::<bool>()),
            DType::Byte => Self::load($value.store::<u8>()),
            DType::Char => Self::load($value.store::<i8>()),
            DType::Short => Self::load($value.store::<i16>()),
            DType::Int => Self::load($value.store::<i32>()),
            DType::Long => Self::load($value.store::<i64>()),
            DType::Half => Self::load($value.store::<f16>()),
            DType::BFloat16 => Self::load($value.store::<bf16>()),
            DType::Float => Self::load($value.store::<f32>()),
            DType::ComplexFloat => Self::load($value.store::<Complex<f32>>()),
            _ => $value,
        }
    };
}

macro_rules! wide {
    ($($t:ty, $load:ident, $store:ident;)*) => {$(impl Wide for $t {
        #[inline]
        fn load<T: Narrow>(element: T) -> Self { element.$load() }
        #[inline]
        fn store<T: Narrow>(self) -> T { T::$store(self) }
        fn through(self, dtype: DType) -> Self { through!(self, dtype, $store) }
    })*};
}
/// Singles too: for functions that are much faster in 24 bits and no less exact there.
impl Wide for f32 {
    #[inline]
    fn load<T: Narrow>(element: T) -> Self {
        element.real() as f32
    }
    #[inline]
    fn store<T: Narrow>(self) -> T {
        T::from_real(f64::from(self))
    }
    fn through(self, dtype: DType) -> Self {
        f64::from(self).through(dtype) as f32
    }
}

wide! {
    i64, int, from_int;
    f64, real, from_real;
    C128, complex, from_complex;
}
