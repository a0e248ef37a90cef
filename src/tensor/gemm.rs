//! Matrix products on slices.
//!
//! [`naive`] is three loops in wide numbers. For `f32` and `f64` of some size [`Real::multiply`]
//! computes the same with the crate `matrixmultiply`, which reads operands through strides and
//! packs them itself.

use super::buffer::{C128, Typed, Wide};

/// The layout of a matrix in a slice, in elements.
#[derive(Clone, Copy, Debug)]
pub struct Matrix {
    /// The number of rows.
    pub rows: usize,
    /// The number of columns.
    pub cols: usize,
    /// The offset of its first element.
    pub offset: usize,
    /// The distance between rows; 0 if one row is broadcast.
    pub row_stride: usize,
    /// The distance between columns.
    pub col_stride: usize,
}

impl Matrix {
    /// A row-major matrix at the start of the slice.
    pub fn in_rows(rows: usize, cols: usize) -> Matrix {
        Matrix { rows, cols, offset: 0, row_stride: cols, col_stride: 1 }
    }

    /// Rows and columns swapped.
    pub fn transposed(self) -> Matrix {
        let Matrix { rows, cols, offset, row_stride, col_stride } = self;
        Matrix { rows: cols, cols: rows, offset, row_stride: col_stride, col_stride: row_stride }
    }

    /// Whether all elements are inside a slice of this length, and the strides fit pointer
    /// arithmetic.
    fn fits(&self, len: usize) -> bool {
        let small = |n: usize| isize::try_from(n).is_ok();
        let reach = |n: usize, stride: usize| (n - 1).checked_mul(stride);
        let last = || {
            let (down, right) = (reach(self.rows, self.row_stride)?, reach(self.cols, self.col_stride)?);
            self.offset.checked_add(down)?.checked_add(right)
        };
        let empty = self.rows == 0 || self.cols == 0;
        small(self.row_stride) && small(self.col_stride) && (empty || last().is_some_and(|last| last < len))
    }

    fn at(&self, row: usize, col: usize) -> usize {
        self.offset + row * self.row_stride + col * self.col_stride
    }
}

/// A wide number with sums of products. Integers wrap.
pub trait Ring: Wide {
    /// `self + a b`
    fn plus_product(self, a: Self, b: Self) -> Self;
    /// `self + other`
    fn plus(self, other: Self) -> Self;
    /// `self other`
    fn times(self, other: Self) -> Self {
        Self::default().plus_product(self, other)
    }
}

impl Ring for i64 {
    #[inline]
    fn plus_product(self, a: i64, b: i64) -> i64 {
        self.wrapping_add(a.wrapping_mul(b))
    }
    #[inline]
    fn plus(self, other: i64) -> i64 {
        self.wrapping_add(other)
    }
}

macro_rules! ring {
    ($($t:ty)*) => {$(impl Ring for $t {
        #[inline]
        fn plus_product(self, a: $t, b: $t) -> $t { self + a * b }
        #[inline]
        fn plus(self, other: $t) -> $t { self + other }
        #[inline]
        fn times(self, other: $t) -> $t { self * other }
    })*};
}
ring!(f64 C128);

/// Adds a product to `c`, whose rows are contiguous.
pub fn naive<W: Ring>(a: &[W], a_at: Matrix, b: &[W], b_at: Matrix, c: &mut [W]) {
    for (i, row) in c.chunks_exact_mut(b_at.cols.max(1)).enumerate().take(a_at.rows) {
        for k in 0..a_at.cols {
            let factor = a[a_at.at(i, k)];
            match b_at.col_stride {
                1 => {
                    let from = b_at.at(k, 0);
                    for (sum, &x) in row.iter_mut().zip(&b[from..from + b_at.cols]) {
                        *sum = sum.plus_product(factor, x);
                    }
                }
                _ => {
                    for (j, sum) in row.iter_mut().enumerate() {
                        *sum = sum.plus_product(factor, b[b_at.at(k, j)]);
                    }
                }
            }
        }
    }
}

/// An element type with a fast matrix product.
pub trait Real: Typed + Default {
    /// From a wide number.
    fn of(x: f64) -> Self;
    /// Whether it is zero.
    fn is_zero(self) -> bool;
    /// `c = alpha a b + beta c`, where the rows of `c` are contiguous. `c` is not read when beta is
    /// 0.
    ///
    /// # Panics
    /// When an operand exceeds its slice, or sizes do not match.
    fn multiply(alpha: Self, a: (&[Self], Matrix), b: (&[Self], Matrix), beta: Self, c: &mut [Self]);
}

macro_rules! real {
    ($($t:ty, $gemm:ident;)*) => {$(impl Real for $t {
        fn of(x: f64) -> $t { x as $t }
        fn is_zero(self) -> bool { self == 0.0 }
        #[allow(unsafe_code, reason = "the crate takes pointers; see the comment at the call")]
        fn multiply(alpha: $t, (a, a_at): (&[$t], Matrix), (b, b_at): (&[$t], Matrix), beta: $t, c: &mut [$t]) {
            let (m, k, n) = (a_at.rows, a_at.cols, b_at.cols);
            assert!(a_at.fits(a.len()) && b_at.fits(b.len()), "operands lie in their slices");
            assert!(b_at.rows == k && m.checked_mul(n) == Some(c.len()), "sizes fit together");
            if m == 0 || n == 0 {
                return;
            }
            let (a_from, b_from) = if k == 0 { (0, 0) } else { (a_at.offset, b_at.offset) };
            let strides = |at: Matrix| (at.row_stride as isize, at.col_stride as isize);
            let ((rsa, csa), (rsb, csb)) = (strides(a_at), strides(b_at));
            // SAFETY: the callee requires that every element of the three matrices, which it
            // addresses by pointer and strides, can be read (c: written) and that those of c are
            // distinct and not part of a or b. The first was asserted above, with k = 0 reading
            // nothing; c has rows of n with stride n and is borrowed mutably.
            unsafe {
                matrixmultiply::$gemm(
                    m, k, n, alpha,
                    a[a_from..].as_ptr(), rsa, csa,
                    b[b_from..].as_ptr(), rsb, csb,
                    beta,
                    c.as_mut_ptr(), n as isize, 1,
                );
            }
        }
    })*};
}
real! { f32, sgemm; f64, dgemm; }

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(n: usize) -> Vec<f64> {
        (0..n).map(|i| ((i * 7919 + 13) % 101) as f64 / 8.0 - 6.0).collect()
    }

    /// All layouts, and the sizes around those of the inner kernels, agree with three loops. The
    /// numbers are such that every sum is exact.
    #[test]
    fn strides_and_edges() {
        let (a, b) = (numbers(4000), numbers(4000));
        let (a32, b32): (Vec<f32>, Vec<f32>) =
            (a.iter().map(|&x| x as f32).collect(), b.iter().map(|&x| x as f32).collect());
        for (m, k, n) in [(1, 1, 1), (3, 5, 2), (8, 8, 8), (17, 9, 33), (1, 30, 40), (31, 1, 7), (5, 0, 4), (0, 3, 2)] {
            let rows = |rows, cols| Matrix { offset: 11, row_stride: 2 * cols + 1, col_stride: 2, rows, cols };
            let columns = |rows: usize, cols| Matrix { offset: 3, row_stride: 1, col_stride: rows + 2, rows, cols };
            let same = |rows, cols| Matrix { offset: 5, row_stride: 0, col_stride: 1, rows, cols };
            for a_at in [Matrix::in_rows(m, k), rows(m, k), columns(m, k), same(m, k)] {
                for b_at in [Matrix::in_rows(k, n), rows(k, n), columns(k, n), same(n, k).transposed()] {
                    let mut expected = vec![0.0; m * n];
                    naive(&a, a_at, &b, b_at, &mut expected);
                    let (mut c, mut c32) = (vec![f64::NAN; m * n], vec![1f32; m * n]);
                    f64::multiply(1.0, (&a, a_at), (&b, b_at), 0.0, &mut c);
                    f32::multiply(2.0, (&a32, a_at), (&b32, b_at), 3.0, &mut c32);
                    assert_eq!(c, expected);
                    assert!(c32.iter().zip(&expected).all(|(&x, &y)| f64::from(x) == 2.0 * y + 3.0));
                }
            }
        }
    }

    #[test]
    #[should_panic(expected = "operands lie in their slices")]
    fn out_of_bounds_is_refused() {
        let at = Matrix { rows: 2, cols: 2, offset: 1, row_stride: 2, col_stride: 1 };
        f64::multiply(1.0, (&[0.0; 4], at), (&[0.0; 4], Matrix::in_rows(2, 2)), 0.0, &mut [0.0; 4]);
    }
}
