//! Operations on the sums of a product before they leave the first-level cache: a bias is added,
//! another tensor, or a function is applied.
#![allow(unsafe_code, reason = "sums and operands are read and written through pointers")]

use super::element_functions::{Activated, Function};
use super::lanes::Lanes;

/// The largest number of steps.
pub const MOST_STEPS: usize = 8;

/// A step on the elements of a result.
#[derive(Clone, Copy, Debug)]
pub enum Step<'a, T> {
    /// Adds one number to each row.
    Rows(&'a [T]),
    /// Adds one number to each column.
    Columns(&'a [T]),
    /// Adds elements that lie as those of the result do.
    Elements(&'a [T]),
    /// Applies a function.
    Map(Function),
}

/// The same, which borrows nothing.
#[derive(Clone, Copy, Debug)]
pub(super) enum Placed<T> {
    Rows(*const T),
    Columns(*const T),
    Elements(*const T),
    Map(Function),
}

/// Steps in their order.
#[derive(Clone, Copy, Debug)]
pub(super) struct Steps<T> {
    all: [Option<Placed<T>>; MOST_STEPS],
}

impl<T: Copy> Steps<T> {
    /// Steps on a result with some rows and columns, whose rows are contiguous.
    ///
    /// # Panics
    /// When there are too many, or an operand has another size.
    pub(super) fn of(steps: &[Step<'_, T>], rows: usize, columns: usize) -> Steps<T> {
        assert!(steps.len() <= MOST_STEPS, "at most {MOST_STEPS} steps follow a product");
        let mut all = [None; MOST_STEPS];
        for (slot, step) in all.iter_mut().zip(steps) {
            let (elements, needed) = match *step {
                Step::Rows(all) => (all.len(), rows),
                Step::Columns(all) => (all.len(), columns),
                Step::Elements(all) => (all.len(), rows * columns),
                Step::Map(_) => (0, 0),
            };
            assert!(elements == needed, "sizes fit together");
            *slot = Some(match *step {
                Step::Rows(all) => Placed::Rows(all.as_ptr()),
                Step::Columns(all) => Placed::Columns(all.as_ptr()),
                Step::Elements(all) => Placed::Elements(all.as_ptr()),
                Step::Map(function) => Placed::Map(function),
            });
        }
        Steps { all }
    }

    /// The same on a result of one row and as many columns as rows before.
    pub(super) fn turned(mut self) -> Steps<T> {
        for step in self.all.iter_mut().flatten() {
            *step = match *step {
                Placed::Rows(first) => Placed::Columns(first),
                Placed::Columns(first) => Placed::Rows(first),
                other => other,
            };
        }
        self
    }

    /// The steps.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Placed<T>> {
        self.all.iter().flatten()
    }
}

/// Sums of a block of a result.
#[derive(Clone, Copy)]
pub(super) struct Sums<T> {
    pub first: *mut T,
    /// The distance between rows.
    pub pitch: usize,
    pub rows: usize,
    pub columns: usize,
    /// The row of the result that is the first here, and the column.
    pub row: usize,
    pub column: usize,
    /// The distance between rows of the result.
    pub result_row: usize,
}

/// Does a step, with vectors written out where rows are short: the compiler's would begin at
/// lengths that rows of a tile do not have.
///
/// # Safety
/// The processor has the vectors. The sums can be read and written, and operands of the step read
/// for these rows and columns of the result.
#[inline(always)]
pub(super) unsafe fn finish<L, One>(step: &Placed<L::Element>, at: &Sums<L::Element>)
where
    L: Lanes<Element: Activated>,
    One: Lanes<Element = L::Element>,
{
    // SAFETY: the caller's contract, in all rows.
    unsafe {
        if let Placed::Map(function) = *step
            && function != Function::Relu
        {
            return map(function, at);
        }
        for r in 0..at.rows {
            let line = at.first.add(r * at.pitch);
            match *step {
                Placed::Rows(first) => {
                    let number = *first.add(at.row + r);
                    let wide = |_, x: L| x.plus(L::splat(number));
                    each(line, at.columns, wide, |_, x: One| x.plus(One::splat(number)));
                }
                Placed::Columns(first) => add::<L, One>(line, first.add(at.column), at.columns),
                Placed::Elements(first) => {
                    add::<L, One>(line, first.add((at.row + r) * at.result_row + at.column), at.columns);
                }
                Placed::Map(_) => {
                    let zero = L::Element::default();
                    let positive = |_, x: L| L::splat(zero).or_larger(x);
                    each(line, at.columns, positive, |_, x: One| One::splat(zero).or_larger(x));
                }
            }
        }
    }
}

/// Applies a function, to all rows at once if they are next to each other.
///
/// # Safety
/// The sums can be read and written.
#[inline(always)]
unsafe fn map<T: Activated>(function: Function, at: &Sums<T>) {
    let is_whole = at.pitch == at.columns;
    let (rows, columns) = if is_whole { (1, at.rows * at.columns) } else { (at.rows, at.columns) };
    for r in 0..rows {
        // SAFETY: the caller's contract.
        T::map(function, unsafe { std::slice::from_raw_parts_mut(at.first.add(r * at.pitch), columns) });
    }
}

/// Computes vectors in their place, and what is left one by one.
///
/// # Safety
/// So many elements can be read and written, and the processor has the vectors.
#[inline(always)]
unsafe fn each<L: Lanes, One: Lanes<Element = L::Element>>(
    line: *mut L::Element,
    n: usize,
    wide: impl Fn(usize, L) -> L,
    alone: impl Fn(usize, One) -> One,
) {
    let mut at = 0;
    // SAFETY: the caller's contract.
    unsafe {
        while at + L::WIDTH <= n {
            wide(at, L::load(line.add(at))).store(line.add(at));
            at += L::WIDTH;
        }
        while at < n {
            alone(at, One::load(line.add(at))).store(line.add(at));
            at += 1;
        }
    }
}

/// # Safety
/// So many elements can be read and written, as many others read, and the processor has the
/// vectors.
#[inline(always)]
unsafe fn add<L: Lanes, One: Lanes<Element = L::Element>>(line: *mut L::Element, others: *const L::Element, n: usize) {
    // SAFETY: the caller's contract.
    unsafe {
        let wide = |at, x: L| x.plus(L::load(others.add(at)));
        each(line, n, wide, |at, x: One| x.plus(One::load(others.add(at))));
    }
}
