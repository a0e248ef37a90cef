//! Attention on the processor, on one thread or several: scores of some queries and some keys at a
//! time, so that memory grows with the number of keys, and not with its product with that of
//! queries.
//!
//! Halves are computed as floats: scores are rounded after each operator, weights are not.
#![allow(unsafe_code, reason = "threads compute parts of a result; each block has the contract")]

use super::attention_calls::{Attention, Step};
use super::destinations::Destination;
use super::thread_pool::share_out;
use crate::tensor::gemm::{self, Matrix, Packed, PanelMemory, Product, Real, Right, Rows, Running};
use crate::tensor::{DType, Device, Dims, Precision, Tensor, layout};
use std::ops::Range;
use std::sync::Arc;

/// The multiplications of a thread at least: fewer take less time than starting it.
const WORTH_A_THREAD: usize = 1 << 18;
/// Queries and keys of a block, at most: its scores are a part of the second-level cache.
const MOST_ROWS: usize = 64;
const MOST_KEYS: usize = 512;

/// Computes attention on at most some threads.
///
/// # Errors
/// Why it is not computed, as text for people.
pub(super) fn compute(of: &Attention, threads: usize) -> Result<Tensor, String> {
    let result = match of.dtype {
        DType::Float => of_elements::<f32>(of, None, threads)?,
        DType::Double => of_elements::<f64>(of, None, threads)?,
        dtype => of_elements::<f32>(&of.as_floats(), Some(dtype), threads)?.converted(dtype, Precision::Typed),
    };
    Ok(of.strides.clone().map_or(result.clone(), |strides| result.laid(strides)))
}

/// The matrices of a tensor in the last two dimensions, by strides.
struct Matrices {
    /// The offset of the matrix of each batch.
    first: Vec<usize>,
    row: usize,
    column: usize,
}

impl Matrices {
    /// The matrices of a tensor that broadcasts to the batches and the two last sizes.
    fn of(tensor: &Tensor, batch: &[i64], last: [i64; 2]) -> Result<Matrices, String> {
        let mut shape = Dims::from_slice(batch);
        shape.extend(last);
        let wide = tensor.broadcast_to(&shape).map_err(|error| error.0)?;
        let mut first = vec![wide.offset()];
        for (&size, &stride) in batch.iter().zip(wide.strides()) {
            let at = |from: &usize, i: i64| from + (i * stride) as usize;
            first = first.iter().flat_map(|from| (0..size).map(move |i| at(from, i))).collect();
        }
        let stride = |dim: usize| wide.strides()[dim] as usize;
        Ok(Matrices { first, row: stride(batch.len()), column: stride(batch.len() + 1) })
    }

    /// Some rows and columns of the matrix of a batch.
    fn part(&self, batch: usize, rows: Range<usize>, columns: Range<usize>) -> Matrix {
        Matrix {
            rows: rows.len(),
            cols: columns.len(),
            offset: self.first[batch] + rows.start * self.row + columns.start * self.column,
            row_stride: self.row,
            col_stride: self.column,
        }
    }
}

/// The elements of a slice that its owner keeps while threads read them.
struct Elements<T>(*const T, usize);

impl<T> Elements<T> {
    fn new(all: &[T]) -> Elements<T> {
        Elements(all.as_ptr(), all.len())
    }

    /// # Safety
    /// The owner keeps them meanwhile.
    unsafe fn get(&self) -> &[T] {
        // SAFETY: the address and the number are those of a slice, which the owner keeps.
        unsafe { std::slice::from_raw_parts(self.0, self.1) }
    }
}

/// A step on scores, with masks where they are.
enum Placed<T> {
    Times(T),
    Over(T),
    Plus(Elements<T>, Matrices),
    Filled { mask: Elements<bool>, at: Matrices, value: bool, with: T },
}

/// Attention with one element type. It holds addresses, so that threads share it.
struct Work<T> {
    rows: usize,
    keys: usize,
    depth: usize,
    width: usize,
    query: (Elements<T>, Matrices),
    key: (Elements<T>, Matrices),
    value: (Elements<T>, Matrices),
    steps: Vec<Placed<T>>,
    factor: T,
    rounding: Option<DType>,
    is_causal: bool,
    or_zero: bool,
    result: *mut T,
}

// SAFETY: addresses and numbers; `compute` alone reads or writes through them, under its contract.
unsafe impl<T: Send> Send for Work<T> {}
// SAFETY: see above.
unsafe impl<T: Sync> Sync for Work<T> {}

const OTHER: &str = "a tensor has elements of another type";

fn of_elements<T: Real>(of: &Attention, rounding: Option<DType>, threads: usize) -> Result<Tensor, String> {
    let [rows, keys, depth, width] = [of.rows, of.keys, of.depth, of.width].map(|n| n as usize);
    let mut result = Destination::new(T::DTYPE, layout::numel(&of.shape), false);
    let all = result.elements::<T>().ok_or(OTHER)?;
    let batches = layout::numel(&of.batch);
    let memory = [&of.query, &of.key, &of.value].map(|tensor| tensor.storage().read());
    let elements = |i: usize| T::slice(&memory[i]).ok_or(OTHER);
    let value = Matrices::of(&of.value, &of.batch, [of.keys, of.width])?;
    if !all.is_empty() {
        check_values(elements(2)?, &value, (keys, width))?;
    }
    let masks: Vec<_> = of.steps.iter().map(mask).map(|mask| mask.map(|mask| mask.storage().read())).collect();
    let step = |(step, memory): (&Step, &Option<std::cell::Ref<'_, _>>)| placed::<T>(step, memory.as_deref(), of);
    let work = Work {
        rows,
        keys,
        depth,
        width,
        query: (Elements::new(elements(0)?), Matrices::of(&of.query, &of.batch, [of.rows, of.depth])?),
        key: (Elements::new(elements(1)?), Matrices::of(&of.key, &of.batch, [of.depth, of.keys])?),
        value: (Elements::new(elements(2)?), value),
        steps: of.steps.iter().zip(&masks).map(step).collect::<Result<_, _>>()?,
        factor: T::of(of.factor),
        rounding,
        is_causal: of.is_causal,
        or_zero: of.or_zero,
        result: all.as_mut_ptr(),
    };
    match keys {
        _ if all.is_empty() => {}
        0 => all.fill(T::default()),
        _ => run(work, batches, threads.min(of.multiplications() / WORTH_A_THREAD)),
    }
    drop((memory, masks));
    result.tensor(T::DTYPE, &(of.shape.clone(), layout::contiguous(&of.shape)), Device::default())
}

/// Shares blocks of all batches out to threads. Blocks are the same whatever their number, and so
/// is each bit of the result.
fn run<T: Real>(work: Work<T>, batches: usize, threads: usize) {
    let blocks = work.rows.div_ceil(MOST_ROWS);
    let groups = if threads < 2 { 1 } else { (2 * threads).div_ceil(batches).min(blocks) };
    let work = Arc::new(work);
    let share = move |share: usize| {
        let (batch, group) = (share / groups, share % groups);
        // SAFETY: the caller of `run` borrows all operands until it returns, when all shares are
        // done, and no two shares have the same blocks of the same batch.
        unsafe { work.compute(batch, blocks * group / groups..blocks * (group + 1) / groups, blocks) }
    };
    match threads < 2 {
        true => (0..batches * groups).for_each(share),
        false => share_out(threads, batches * groups, share),
    }
}

/// The mask of a step.
fn mask(step: &Step) -> Option<&Tensor> {
    match step {
        Step::Plus(mask) | Step::Filled { mask, .. } => Some(mask),
        Step::Times(_) | Step::Over(_) => None,
    }
}

fn placed<T: Real>(
    step: &Step,
    memory: Option<&crate::tensor::buffer::Buffer>,
    of: &Attention,
) -> Result<Placed<T>, String> {
    let at = |mask: &Tensor| Matrices::of(mask, &of.batch, [of.rows, of.keys]);
    Ok(match step {
        Step::Times(by) => Placed::Times(T::of(*by)),
        Step::Over(by) => Placed::Over(T::of(*by)),
        Step::Plus(mask) => Placed::Plus(Elements::new(memory.and_then(T::slice).ok_or(OTHER)?), at(mask)?),
        Step::Filled { mask, value, with } => Placed::Filled {
            mask: Elements::new(memory.and_then(<bool as crate::tensor::buffer::Typed>::slice).ok_or(OTHER)?),
            at: at(mask)?,
            value: *value,
            with: T::of(*with),
        },
    })
}

/// A key that weighs nothing makes a result NaN if its value is not finite, and sums are divided
/// last, so that they may overflow where weights do not.
fn check_values<T: Real>(all: &[T], at: &Matrices, (keys, width): (usize, usize)) -> Result<(), String> {
    let most = if T::DTYPE == DType::Double { f64::MAX } else { f64::from(f32::MAX) };
    let limit = T::of(most / (4 * keys.max(1)) as f64);
    let mut first = at.first.clone();
    first.sort_unstable();
    first.dedup();
    let is_small = |from: usize| match at.column == 1 || width < 2 {
        true => gemm::are_at_most(&all[from..][..width], limit),
        false => (0..width).all(|i| gemm::are_at_most(&all[from + i * at.column..][..1], limit)),
    };
    match first.iter().all(|from| (0..keys).all(|key| is_small(from + key * at.row))) {
        true => Ok(()),
        false => Err("a value is not finite, or very large".to_owned()),
    }
}

/// The keys of a block and the values, packed if several blocks of queries read them.
type PackedKeys<T> = Vec<(Packed<T>, Packed<T>)>;

impl<T: Real> Work<T> {
    /// The keys of a block.
    fn some_keys(&self, block: usize) -> Range<usize> {
        let blocks = self.keys.div_ceil(MOST_KEYS);
        self.keys * block / blocks..self.keys * (block + 1) / blocks
    }

    /// Computes blocks of queries of a batch.
    ///
    /// # Safety
    /// Operands and result are borrowed, and no other thread computes these blocks.
    unsafe fn compute(&self, batch: usize, blocks: Range<usize>, of: usize) {
        // SAFETY: the caller's contract.
        let (key, value) = unsafe { (self.key.0.get(), self.value.0.get()) };
        let parts = self.keys.div_ceil(MOST_KEYS);
        let pack = |block: usize| {
            let keys = self.some_keys(block);
            let of_keys = Packed::of(key, self.key.1.part(batch, 0..self.depth, keys.clone()), PanelMemory::Own);
            (of_keys, Packed::of(value, self.value.1.part(batch, keys, 0..self.width), PanelMemory::Own))
        };
        let packed: PackedKeys<T> = if of > 1 { (0..parts).map(pack).collect() } else { Vec::new() };
        let most = MOST_ROWS.min(self.rows) * MOST_KEYS.min(self.keys);
        gemm::with_memory(most, |memory: &mut [T]| {
            for block in blocks {
                let rows = self.rows * block / of..self.rows * (block + 1) / of;
                // SAFETY: the result has these rows, which this thread alone writes.
                let result = unsafe {
                    let first = self.result.add((batch * self.rows + rows.start) * self.width);
                    std::slice::from_raw_parts_mut(first, rows.len() * self.width)
                };
                // SAFETY: the caller's contract.
                unsafe { self.block(batch, rows, &packed, memory, result) };
            }
        });
    }

    /// # Safety
    /// See `compute`.
    unsafe fn block(
        &self,
        batch: usize,
        rows: Range<usize>,
        packed: &PackedKeys<T>,
        memory: &mut [T],
        result: &mut [T],
    ) {
        // SAFETY: the caller's contract.
        let (query, key, value) = unsafe { (self.query.0.get(), self.key.0.get(), self.value.0.get()) };
        let mut running = [Running::<T>::new(); MOST_ROWS];
        let running = &mut running[..rows.len()];
        let (one, zero) = (T::of(1.0), T::default());
        let left = (query, self.query.1.part(batch, rows.clone(), 0..self.depth));
        for block in 0..self.keys.div_ceil(MOST_KEYS) {
            let keys = self.some_keys(block);
            if self.is_causal && keys.start >= rows.end {
                break;
            }
            let (of_keys, of_values) = match packed.get(block) {
                Some((of_keys, of_values)) => (Right::Packed(of_keys), Right::Packed(of_values)),
                None => (
                    Right::Matrix(key, self.key.1.part(batch, 0..self.depth, keys.clone())),
                    Right::Matrix(value, self.value.1.part(batch, keys.clone(), 0..self.width)),
                ),
            };
            let scores = &mut memory[..rows.len() * keys.len()];
            Product::new(self.factor, left, of_keys, zero, scores).compute();
            self.round(scores);
            // SAFETY: the caller's contract.
            self.steps.iter().for_each(|step| unsafe { self.step(step, batch, (&rows, &keys), scores) });
            if self.is_causal {
                hide(scores, &rows, &keys);
            }
            let sums: &mut [T] = if block == 0 { &mut [] } else { &mut *result };
            gemm::weigh(Rows { scores, sums, running });
            let weights = (&*scores, Matrix::in_rows(rows.len(), keys.len()));
            Product::new(one, weights, of_values, if block == 0 { zero } else { one }, result).compute();
        }
        for (row, running) in result.chunks_exact_mut(self.width).zip(running) {
            running.divide(row, self.or_zero);
        }
    }

    /// Does a step on the scores of some queries and keys.
    ///
    /// # Safety
    /// See `compute`.
    unsafe fn step(
        &self,
        step: &Placed<T>,
        batch: usize,
        (rows, keys): (&Range<usize>, &Range<usize>),
        scores: &mut [T],
    ) {
        let lines = scores.chunks_exact_mut(keys.len()).zip(rows.clone());
        match step {
            Placed::Times(by) => scores.iter_mut().for_each(|x| *x = x.multiplied(*by)),
            Placed::Over(by) => scores.iter_mut().for_each(|x| *x = x.divided(*by)),
            Placed::Plus(mask, at) => {
                // SAFETY: the caller's contract.
                let mask = unsafe { mask.get() };
                for (line, row) in lines {
                    let from = at.first[batch] + row * at.row + keys.start * at.column;
                    each(line, mask, from, at.column, |x, mask| *x = x.added(mask));
                }
            }
            Placed::Filled { mask, at, value, with } => {
                // SAFETY: the caller's contract.
                let mask = unsafe { mask.get() };
                for (line, row) in lines {
                    let from = at.first[batch] + row * at.row + keys.start * at.column;
                    each(line, mask, from, at.column, |x, mask| *x = if mask == *value { *with } else { *x });
                }
            }
        }
        self.round(scores);
    }

    /// Rounds scores to halves.
    fn round(&self, scores: &mut [T]) {
        match self.rounding {
            Some(DType::Half) => {
                scores.iter_mut().for_each(|x| *x = T::of(half::f16::from_f64(x.wide()).to_f64()));
            }
            Some(DType::BFloat16) => {
                scores.iter_mut().for_each(|x| *x = T::of(half::bf16::from_f64(x.wide()).to_f64()));
            }
            _ => {}
        }
    }
}

/// Changes a line, given elements that are some distance apart.
fn each<T, M: Copy>(line: &mut [T], of: &[M], from: usize, distance: usize, change: impl Fn(&mut T, M)) {
    match distance {
        0 => line.iter_mut().for_each(|x| change(x, of[from])),
        1 => line.iter_mut().zip(&of[from..]).for_each(|(x, &other)| change(x, other)),
        _ => line.iter_mut().enumerate().for_each(|(i, x)| change(x, of[from + i * distance])),
    }
}

/// Hides the keys after each query.
fn hide<T: Real>(scores: &mut [T], rows: &Range<usize>, keys: &Range<usize>) {
    for (line, row) in scores.chunks_exact_mut(keys.len()).zip(rows.clone()) {
        let seen = (row + 1).saturating_sub(keys.start).min(keys.len());
        line[seen..].fill(T::of(f64::NEG_INFINITY));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interpreter::IValue;
    use crate::tensor::storage::with_peak;

    fn numbers(n: i64, width: i64, seed: i64) -> Tensor {
        let element = |i: i64| ((i * 7919 + seed * 104_729) % 1009) as f32 / 400.0 - 1.2;
        Tensor::from_elements((0..n * width).map(element).collect(), &[n, width])
    }

    /// Causal attention of so many queries and keys.
    fn causal(n: i64) -> (Tensor, Attention) {
        let text = "graph(%q : Tensor, %k : Tensor, %v : Tensor):
  %n : None = prim::Constant()
  %z : float = prim::Constant[value=0.]()
  %t : bool = prim::Constant[value=1]()
  %y : Tensor = aten::scaled_dot_product_attention(%q, %k, %v, %n, %z, %t)
  return (%y)\n";
        let graph = crate::text::parse(text.as_bytes(), crate::text::ParseOptions::default()).expect("it parses").graph;
        let operands = [numbers(n, 2, 1), numbers(n, 2, 2), numbers(n, 1, 3)].map(IValue::Tensor);
        let of = Attention::of(&graph, &operands).expect("an attention");
        (compute(&of, 1).expect("it is computed"), of)
    }

    /// In doubles, one query after the other.
    fn expected(of: &Attention, row: i64) -> f64 {
        let (q, v) = (of.query.read::<f64>(), of.value.read::<f64>());
        let k = of.key.transpose(0, 1).contiguous().read::<f64>();
        let score =
            |j: i64| (0..2).map(|i| q[(2 * row + i) as usize] * k[(2 * j + i) as usize]).sum::<f64>() / 2f64.sqrt();
        let weights: Vec<f64> = (0..=row).map(|j| score(j).exp()).collect();
        weights.iter().zip(&v).map(|(weight, x)| weight * x).sum::<f64>() / weights.iter().sum::<f64>()
    }

    #[test]
    fn memory_grows_with_the_sequence_and_not_with_its_square() {
        let peak = |n: i64| with_peak(|| causal(n)).1;
        let (small, large) = (peak(512), peak(4096));
        // Operands and the result; a matrix of all scores would be 64 MiB.
        assert!(large <= 9 * small && large < 1 << 18, "{small} {large}");
    }

    #[test]
    fn blocks_of_keys_and_queries_agree_with_doubles() {
        for n in [1, 64, 65, 700] {
            let (found, of) = causal(n);
            let found = found.read::<f64>();
            for row in [0, n / 2, n - 1] {
                let (found, expected) = (found[row as usize], expected(&of, row));
                assert!((found - expected).abs() < 1e-6, "{n} {row} {found} {expected}");
            }
        }
    }
}
