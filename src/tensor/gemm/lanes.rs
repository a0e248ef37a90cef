//! Vectors of floating-point elements, as processors have them.
#![allow(unsafe_code, reason = "intrinsics need a processor that has them, and take pointers")]

/// A vector of elements.
pub(super) trait Lanes: Copy {
    type Element: Copy + Default + PartialEq;
    /// The number of elements.
    const WIDTH: usize;

    /// # Safety
    /// The processor has these vectors. The same holds for all functions below.
    unsafe fn splat(x: Self::Element) -> Self;
    /// # Safety
    /// `WIDTH` elements can be read there.
    unsafe fn load(from: *const Self::Element) -> Self;
    /// # Safety
    /// `WIDTH` elements can be written there.
    unsafe fn store(self, to: *mut Self::Element);
    /// `self + a b`
    ///
    /// # Safety
    /// See `splat`.
    unsafe fn plus_product(self, a: Self, b: Self) -> Self;
    /// # Safety
    /// See `splat`.
    unsafe fn plus(self, other: Self) -> Self;
    /// # Safety
    /// See `splat`.
    unsafe fn times(self, other: Self) -> Self;
    /// The elements that are larger than those of another vector, and the other ones elsewhere,
    /// where one of the two is NaN or both are 0, too.
    ///
    /// # Safety
    /// See `splat`.
    unsafe fn or_larger(self, other: Self) -> Self;
}

/// Vectors whose operations are intrinsics.
#[cfg(target_arch = "x86_64")]
macro_rules! intrinsics {
    ($($vector:ident of $width:literal $element:ty: $splat:ident $load:ident $store:ident $fma:ident $add:ident $mul:ident $max:ident;)*) => {$(
        impl Lanes for core::arch::x86_64::$vector {
            type Element = $element;
            const WIDTH: usize = $width;
            #[inline(always)]
            unsafe fn splat(x: $element) -> Self {
                // SAFETY: the caller's contract, which is the intrinsic's, here and below.
                unsafe { core::arch::x86_64::$splat(x) }
            }
            #[inline(always)]
            unsafe fn load(from: *const $element) -> Self {
                // SAFETY: see above.
                unsafe { core::arch::x86_64::$load(from) }
            }
            #[inline(always)]
            unsafe fn store(self, to: *mut $element) {
                // SAFETY: see above.
                unsafe { core::arch::x86_64::$store(to, self) }
            }
            #[inline(always)]
            unsafe fn plus_product(self, a: Self, b: Self) -> Self {
                // SAFETY: see above.
                unsafe { core::arch::x86_64::$fma(a, b, self) }
            }
            #[inline(always)]
            unsafe fn plus(self, other: Self) -> Self {
                // SAFETY: see above.
                unsafe { core::arch::x86_64::$add(self, other) }
            }
            #[inline(always)]
            unsafe fn times(self, other: Self) -> Self {
                // SAFETY: see above.
                unsafe { core::arch::x86_64::$mul(self, other) }
            }
            #[inline(always)]
            unsafe fn or_larger(self, other: Self) -> Self {
                // SAFETY: see above.
                unsafe { core::arch::x86_64::$max(self, other) }
            }
        }
    )*};
}
#[cfg(target_arch = "x86_64")]
intrinsics! {
    __m256 of 8 f32: _mm256_set1_ps _mm256_loadu_ps _mm256_storeu_ps _mm256_fmadd_ps _mm256_add_ps _mm256_mul_ps _mm256_max_ps;
    __m256d of 4 f64: _mm256_set1_pd _mm256_loadu_pd _mm256_storeu_pd _mm256_fmadd_pd _mm256_add_pd _mm256_mul_pd _mm256_max_pd;
    __m512 of 16 f32: _mm512_set1_ps _mm512_loadu_ps _mm512_storeu_ps _mm512_fmadd_ps _mm512_add_ps _mm512_mul_ps _mm512_max_ps;
    __m512d of 8 f64: _mm512_set1_pd _mm512_loadu_pd _mm512_storeu_pd _mm512_fmadd_pd _mm512_add_pd _mm512_mul_pd _mm512_max_pd;
}

/// Arrays, which the compiler turns into vectors of 16 bytes; products are rounded.
macro_rules! arrays {
    ($($width:literal $element:ty;)*) => {$(
        impl Lanes for [$element; $width] {
            type Element = $element;
            const WIDTH: usize = $width;
            #[inline(always)]
            unsafe fn splat(x: $element) -> Self {
                [x; $width]
            }
            #[inline(always)]
            unsafe fn load(from: *const $element) -> Self {
                // SAFETY: the caller's contract; the address has the alignment of an element.
                unsafe { from.cast::<Self>().read_unaligned() }
            }
            #[inline(always)]
            unsafe fn store(self, to: *mut $element) {
                // SAFETY: see `load`.
                unsafe { to.cast::<Self>().write_unaligned(self) }
            }
            #[inline(always)]
            unsafe fn plus_product(mut self, a: Self, b: Self) -> Self {
                for i in 0..$width {
                    self[i] += a[i] * b[i];
                }
                self
            }
            #[inline(always)]
            unsafe fn plus(mut self, other: Self) -> Self {
                for i in 0..$width {
                    self[i] += other[i];
                }
                self
            }
            #[inline(always)]
            unsafe fn times(mut self, other: Self) -> Self {
                for i in 0..$width {
                    self[i] *= other[i];
                }
                self
            }
            #[inline(always)]
            unsafe fn or_larger(self, mut other: Self) -> Self {
                for i in 0..$width {
                    other[i] = if self[i] > other[i] { self[i] } else { other[i] };
                }
                other
            }
        }
    )*};
}
arrays! { 4 f32; 2 f64; 1 f32; 1 f64; }
