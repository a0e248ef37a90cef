//! Contiguous elements, and their arithmetic.
//!
//! For every element type, arithmetic is done in one of three [`Wide`] types: `i64`, `f64` or
//! `Complex<f64>`. The sum, difference, product, quotient and square root of two 24-bit numbers,
//! rounded to 53 bits and then to 24, equal the result rounded to 24 at once, so that the double
//! rounding is not visible; elsewhere it only makes results more accurate.

use super::dtype::{DType, Kind};
use super::shared_elements::{Elements, SharedBytes};
use half::{bf16, f16};
use num_complex::Complex;
use std::cell::Cell;
use std::ops::Range;

/// A complex number of two doubles.
pub type C128 = Complex<f64>;

macro_rules! buffers {
    ($($name:ident $element:ty,)*) => {
        /// Elements of one type. A floating point buffer may be wider than the type of its tensor,
        /// see [`Precision`].
        #[derive(Clone, Debug)]
        #[allow(missing_docs, reason = "the variants are the element types")]
        pub enum Buffer { $($name(Elements<$element>),)* }

        impl Buffer {
            /// `n` zeros.
            pub(crate) fn zeros(dtype: DType, n: usize) -> Buffer {
                match dtype {
                    $(DType::$name => Buffer::$name(vec![Default::default(); n].into()),)*
                    _ => panic!("tensors of {} are refused before this", dtype.name()),
                }
            }

            /// The number of elements.
            pub fn len(&self) -> usize {
                match self { $(Buffer::$name(elements) => elements.len(),)* }
            }

            /// The size of an element in bytes.
            pub(crate) fn element_size(&self) -> usize {
                match self { $(Buffer::$name(_) => size_of::<$element>(),)* }
            }

            /// The element type.
            pub fn dtype(&self) -> DType {
                match self { $(Buffer::$name(_) => DType::$name,)* }
            }
        }

        /// Runs a block with the elements of a buffer of any type.
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
                Buffer::$name(elements.into())
            }
        })*
    };
}

/// An element type that has a buffer.
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

macro_rules! in_shared_bytes {
    ($($name:ident)*) => {
        impl Buffer {
            /// Elements in a range of bytes, least significant byte first. None where elements
            /// cannot be read as they are: bools, whose bytes may have any value, and elements that
            /// are not aligned.
            pub(crate) fn shared(dtype: DType, bytes: SharedBytes, range: Range<usize>) -> Option<Buffer> {
                match dtype {
                    $(DType::$name => Elements::shared(bytes, range).map(Buffer::$name),)*
                    _ => None,
                }
            }
        }
    };
}
in_shared_bytes!(Byte Char Short Int Long Half BFloat16 Float Double ComplexFloat ComplexDouble);

/// The period of tensor addresses in bytes: pages of x86, whose stores are mistaken for loads at
/// the same offset in another page.
const PAGE: usize = 4096;
/// The distance in bytes between the page offsets of consecutive tensors: an odd number of cache
/// lines, so that 64 tensors have 64 offsets.
const SHIFT: usize = 7 * 64;
/// The size in bytes from which tensors get an offset of their own.
const WORTH_PLACING: usize = 16 << 10;

thread_local! {
    /// The number of tensors that were given an offset.
    static PLACED: Cell<usize> = const { Cell::new(0) };
}

impl Buffer {
    /// Zeros that begin at a cache line, each time at another offset in a page, and the range of
    /// the elements in the buffer. Large vectors otherwise all begin at the same offset of a page,
    /// in the middle of a line: the gradient of an LSTM cell, which reads thirteen at once, took
    /// twice as long with them. Small buffers are not aligned.
    pub(crate) fn placed(dtype: DType, elements: usize) -> (Buffer, Range<usize>) {
        Buffer::placed_in(dtype, elements, |elements| Buffer::zeros(dtype, elements))
    }

    /// The same in memory that `make` provides for at least so many elements, whatever they are.
    pub(crate) fn placed_in(
        dtype: DType,
        elements: usize,
        make: impl FnOnce(usize) -> Buffer,
    ) -> (Buffer, Range<usize>) {
        let size = dtype.size();
        if elements * size < WORTH_PLACING {
            return (make(elements), 0..elements);
        }
        let buffer = make(elements + PAGE / size);
        let begin = with_elements!(&buffer, elements => elements.as_ptr().addr());
        PLACED.set(PLACED.get() + 1);
        let place = (PLACED.get() * SHIFT) % PAGE;
        let first = (place + PAGE - begin % PAGE) % PAGE / size;
        (buffer, first..first + elements)
    }

    /// Fills it with values that nothing computes.
    pub(crate) fn poison(&mut self) {
        /// NaN in all floating-point types.
        const POISON: u8 = 0xff;
        match self {
            Buffer::Bool(all) => all.fill(true),
            Buffer::Byte(all) => all.fill(POISON),
            Buffer::Char(all) => all.fill(-1),
            Buffer::Short(all) => all.fill(-1),
            Buffer::Int(all) => all.fill(-1),
            Buffer::Long(all) => all.fill(-1),
            Buffer::Half(all) => all.fill(f16::from_bits(u16::MAX)),
            Buffer::BFloat16(all) => all.fill(bf16::from_bits(u16::MAX)),
            Buffer::Float(all) => all.fill(f32::from_bits(u32::MAX)),
            Buffer::Double(all) => all.fill(f64::from_bits(u64::MAX)),
            Buffer::ComplexFloat(_) | Buffer::ComplexDouble(_) => {}
        }
    }

    /// Sets some elements to zero.
    pub(crate) fn clear(&mut self, range: Range<usize>) {
        with_elements!(self, elements => elements[range].fill(Default::default()));
    }

    /// The address of the first element.
    pub(crate) fn address(&self) -> usize {
        with_elements!(self, elements => elements.as_ptr().addr())
    }

    /// Whether there are no elements.
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
    /// The bytes of some elements, least significant byte first.
    pub(crate) fn bytes(&self, range: Range<usize>) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(range.len() * self.element_size());
        with_elements!(self, elements => elements[range].iter().for_each(|&element| element.push(&mut bytes)));
        bytes
    }

    /// Stores bytes as elements, starting at one of them, as many as the bytes fill.
    pub(crate) fn set_bytes(&mut self, first: usize, bytes: &[u8]) {
        let size = self.element_size();
        with_elements!(self, elements => {
            for (element, bytes) in elements[first..].iter_mut().zip(bytes.chunks_exact(size)) {
                *element = Bytes::of(bytes);
            }
        });
    }
}

/// The precision in which floating point elements are stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Precision {
    /// The precision of the element type.
    #[default]
    Typed,
    /// 53 bits, regardless of the element type: no rounding. The reference that results are
    /// compared with.
    Double,
}

impl Precision {
    /// The type of the stored elements.
    pub fn kept(self, dtype: DType) -> DType {
        match (self, dtype.arithmetic()) {
            (Precision::Double, Some(Kind::Float)) => DType::Double,
            (Precision::Double, Some(Kind::Complex)) => DType::ComplexDouble,
            _ => dtype.memory(),
        }
    }
}

/// A type of arithmetic.
pub trait Wide: Copy + Default + PartialEq + 'static {
    /// From a number of any element type.
    fn load<T: Narrow>(element: T) -> Self;
    /// To an element type: floating point numbers are rounded to nearest even, integers wrap.
    fn store<T: Narrow>(self) -> T;
    /// The value after a conversion to an element type and back.
    fn through(self, dtype: DType) -> Self;
}

/// An element type, as seen by the arithmetic.
pub trait Narrow: Copy + 'static {
    /// As an integer: floating point numbers are truncated, as by the processor.
    fn int(self) -> i64;
    /// As a floating point number.
    fn real(self) -> f64;
    /// As a complex number.
    fn complex(self) -> C128 {
        C128::new(self.real(), 0.0)
    }
    /// From an integer.
    fn from_int(n: i64) -> Self;
    /// From a floating point number.
    fn from_real(x: f64) -> Self;
    /// From a complex number: real types drop the imaginary part.
    fn from_complex(z: C128) -> Self {
        Self::from_real(z.re)
    }
}

/// x86's conversion of a floating point number to a 64-bit integer: a number out of range becomes
/// the smallest integer.
pub(crate) fn cut(x: f64) -> i64 {
    if (-9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0).contains(&x) { x as i64 } else { i64::MIN }
}

/// The same for types of up to 32 bits, as PyTorch is compiled: a number out of the range of 32
/// bits becomes their smallest integer, of which narrower types keep the low bits.
fn cut_to_32(x: f64) -> i32 {
    // A number that truncates to the smallest integer may itself be less than it.
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

/// PyTorch rounds to single precision first: half of its arithmetic is done there.
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
/// Single precision too: for functions that are much faster in 24 bits and no less accurate there.
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
