//! Products of matrices on the processor, on one thread or several.
//!
//! Halves are multiplied as floats: factors are converted, sums are floats, and results are rounded
//! once. A weight that the graph does not change is packed and kept, except where one row is
//! multiplied by its lines.
#![allow(unsafe_code, reason = "threads compute parts of a product; the block has the contract")]

use super::destinations::Destination;
use super::followers::Epilogue;
use super::kept_weights::kept;
use super::library_calls::{self, Product};
use super::thread_pool::share_out;
use crate::tensor::gemm::{self, Matrix, Packed, Real, Right, Shared};
use crate::tensor::{DType, Device, Precision, Tensor, layout};

/// Multiplications that take a thread 10 us, for which another thread is worth it.
const WORTH_A_THREAD: usize = 1 << 18;
/// Shares of each thread, so that a delayed thread does not hold up all others.
const SHARES: usize = 2;

/// Computes a product on at most some threads. A constant right factor is packed and kept.
///
/// # Errors
/// Why it is not computed, as text for people.
pub(super) fn compute(product: &Product, is_constant: bool, threads: usize) -> Result<Tensor, String> {
    match product.dtype {
        DType::Float => of_elements::<f32>(product, is_constant, threads),
        DType::Double => of_elements::<f64>(product, is_constant, threads),
        DType::Half | DType::BFloat16 => {
            if !product.followers.is_empty() {
                return Err("what follows rounds to halves".to_owned());
            }
            let sums = of_elements::<f32>(&product.as_floats(), false, threads)?;
            Ok(sums.converted(product.dtype, Precision::Typed))
        }
        other => Err(format!("no product of {}", other.name())),
    }
}

fn of_elements<T: Real>(product: &Product, is_constant: bool, threads: usize) -> Result<Tensor, String> {
    let (rows, columns) = (product.rows as usize, product.columns as usize);
    let mut result = Destination::new(product.dtype, layout::numel(&product.shape), false);
    let all = result.elements::<T>().ok_or("the result has elements of another type")?;
    let beta = match &product.summand {
        Some(summand) => {
            fill(all, summand, columns)?;
            product.beta
        }
        None => 0.0,
    };
    let (left, right) = (product.left.tensor.storage().read(), product.right.tensor.storage().read());
    let other = "a factor has elements of another type";
    let (a, b) = (T::slice(&left).ok_or(other)?, T::slice(&right).ok_or(other)?);
    // One row is multiplied by a weight as it is: packing would take longer than the product.
    let is_packed = is_constant && product.right.step == 0 && !(rows == 1 && product.right.is_transposed);
    let place = at(&product.right, 0);
    let pack = |memory| Packed::of(b, place, memory);
    let weights = is_packed.then(|| kept(product.right.tensor.storage(), (place, ()), pack));
    let factor = |batch| match &weights {
        Some(weights) => Right::Packed(weights),
        None => Right::Matrix(b, at(&product.right, batch)),
    };
    let epilogue = Epilogue::new::<T>(&product.followers)?;
    let held = epilogue.hold();
    let parts = all.chunks_exact_mut((rows * columns).max(1)).enumerate();
    let shared: Vec<Shared<T>> = parts
        .map(|(batch, c)| {
            let (left, steps) = ((a, at(&product.left, batch)), epilogue.steps(&held, batch * c.len(), c.len())?);
            let one = gemm::Product::new(T::of(product.alpha), left, factor(batch), T::of(beta), c);
            Ok(one.then(&steps).shared())
        })
        .collect::<Result<_, String>>()?;
    run(shared, threads.min(product.multiplications() / WORTH_A_THREAD));
    drop((left, right));
    result.tensor(product.dtype, &(product.shape.clone(), layout::contiguous(&product.shape)), Device::default())
}

/// Computes products, whose operands the caller borrows.
fn run<T: Real>(products: Vec<Shared<T>>, threads: usize) {
    let parts = if threads < 2 { 1 } else { (threads * SHARES).div_ceil(products.len().max(1)) };
    let shares = products.len() * parts;
    // SAFETY: the caller borrows the operands until this returns, when all shares are done; each
    // share is one part of one product.
    let share = move |share: usize| unsafe { products[share / parts].compute(share % parts, parts) };
    match threads < 2 {
        true => (0..shares).for_each(share),
        false => share_out(threads, shares, share),
    }
}

/// The matrix of a batch.
fn at(factor: &library_calls::Matrix, batch: usize) -> Matrix {
    let (rows, cols) = (factor.tensor.size(1) as usize, factor.tensor.size(2) as usize);
    let (leading, offset) = (factor.leading as usize, factor.tensor.offset() + batch * factor.step as usize);
    let (row_stride, col_stride) = if factor.is_transposed { (1, leading) } else { (leading, 1) };
    Matrix { rows, cols, offset, row_stride, col_stride }
}

/// Writes a summand as large as the result, of which all rows may be the same.
fn fill<T: Real>(all: &mut [T], summand: &Tensor, columns: usize) -> Result<(), String> {
    let strides = summand.strides();
    if strides[0] == 0 && strides[1] == 0 && strides[2] == 1 {
        let memory = summand.storage().read();
        let row = T::slice(&memory).ok_or("a summand has elements of another type")?;
        let row = &row[summand.offset()..summand.offset() + columns];
        all.chunks_exact_mut(columns.max(1)).for_each(|of_result| of_result.copy_from_slice(row));
        return Ok(());
    }
    let whole = summand.contiguous();
    let memory = whole.storage().read();
    let elements = T::slice(&memory).ok_or("a summand has elements of another type")?;
    all.copy_from_slice(&elements[whole.offset()..whole.offset() + all.len()]);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interpreter::IValue;
    use crate::text::{ParseOptions, parse};

    /// Whether the weight of a layer is kept packed after some calls with so many rows, which have
    /// the same result.
    fn is_packed(rows: i64, calls: usize) -> bool {
        let text = "graph(%x : Tensor, %w : Tensor):\n  %none : None = prim::Constant()\n  %y : Tensor = aten::linear(%x, %w, %none)\n  return (%y)\n";
        let graph = parse(text.as_bytes(), ParseOptions::default()).expect("it parses").graph;
        let matrix = |rows: i64| Tensor::from_elements((0..rows * 70).map(|i| i as f32).collect(), &[rows, 70]);
        let (x, weight) = (matrix(rows), matrix(90));
        let operands = [x, weight.clone()].map(IValue::Tensor);
        let call = |_| compute(&Product::of(&graph, &operands).expect("a product"), true, 1).expect("it is computed");
        let results: Vec<Vec<f64>> = (0..calls).map(call).map(|result| result.read()).collect();
        assert!(results.windows(2).all(|two| two[0] == two[1]));
        weight.storage().elsewhere().is_some()
    }

    #[test]
    fn weights_are_not_packed_for_one_row() {
        assert_eq!([(1, 3), (2, 3)].map(|(rows, calls)| is_packed(rows, calls)), [false, true]);
    }
}
