//! Products of matrices as a library computes them: sizes, and the memory layout of each factor.
//!
//! A `library::Product` has a section with one product, and what follows it. Its operands become
//! three-dimensional: batches, rows, columns. A factor without a dimension of stride 1 is copied,
//! as no library reads it in place.

use super::followers::Follower;
use super::section_reader::Reader;
use crate::interpreter::IValue;
use crate::ir::{Graph, Node, Value};
use crate::tensor::{DType, Dims, Precision, Tensor};

/// A factor.
#[derive(Clone, Debug)]
pub(super) struct Matrix {
    pub(super) tensor: Tensor,
    /// Whether its columns are contiguous, not its rows.
    pub(super) is_transposed: bool,
    /// The distances between rows, or columns where these are contiguous, and between matrices.
    pub(super) leading: i64,
    pub(super) step: i64,
}

/// `alpha * left @ right + beta * summand`.
#[derive(Clone, Debug)]
pub(super) struct Product {
    pub(super) dtype: DType,
    pub(super) batches: i64,
    pub(super) rows: i64,
    pub(super) columns: i64,
    pub(super) depth: i64,
    pub(super) left: Matrix,
    pub(super) right: Matrix,
    /// As large as the result: batches, rows, columns.
    pub(super) summand: Option<Tensor>,
    pub(super) alpha: f64,
    pub(super) beta: f64,
    /// The sizes of the result, which is contiguous.
    pub(super) shape: Dims,
    pub(super) followers: Vec<Follower>,
    /// Which operand of the call the right factor is.
    pub(super) right_operand: Option<usize>,
}

/// Operands of a product.
struct Operands {
    left: Tensor,
    right: Tensor,
    summand: Option<Tensor>,
    alpha: f64,
    beta: f64,
    right_operand: Option<usize>,
}

impl Product {
    /// The product of a section for operands.
    ///
    /// # Errors
    /// Why no library computes it, as text for people. What PyTorch refuses is among that; running
    /// the section then raises.
    pub(super) fn of(section: &Graph, operands: &[IValue]) -> Result<Product, String> {
        let read = Reader { section, operands };
        let node = read.first()?;
        let (kind, own) = (section.kind(node).as_str(), read.operands_of(node)?);
        let (left, right) = match kind {
            "aten::linear" => linear_factors(&own)?,
            "aten::matmul" => matmul_factors(&own)?,
            "aten::mm" | "aten::addmm" => ranked(&own, 2)?,
            "aten::bmm" | "aten::baddbmm" => ranked(&own, 3)?,
            _ => return Err(format!("no library has `{kind}`")),
        };
        let (rows, depth, columns) = (left.1.size(1), left.1.size(2), right.1.size(2));
        let batches = left.1.size(0);
        if right.1.size(0) != batches || right.1.size(1) != depth {
            return Err("the sizes of the factors do not match".to_owned());
        }
        let mut shape = left.0;
        shape.extend(right.0);
        let summand = own.summand.filter(|_| own.beta != 0.0);
        let summand = summand.map(|tensor| laid_out(&tensor, &shape, [batches, rows, columns])).transpose()?;
        let followers = read.followers(node, &shape)?;
        Ok(Product {
            dtype: left.1.dtype(),
            batches,
            rows,
            columns,
            depth,
            left: Matrix::of(left.1),
            right: Matrix::of(right.1),
            summand,
            alpha: own.alpha,
            beta: own.beta,
            shape,
            followers,
            right_operand: own.right_operand,
        })
    }

    /// The number of multiplications.
    pub(super) fn multiplications(&self) -> usize {
        [self.batches, self.rows, self.columns, self.depth].iter().fold(1, |all, &n| all.saturating_mul(n as usize))
    }

    /// The same with factors and summand converted to floats.
    pub(super) fn as_floats(&self) -> Product {
        let converted = |tensor: &Tensor| tensor.converted(DType::Float, Precision::Typed);
        Product {
            dtype: DType::Float,
            left: Matrix::of(converted(&self.left.tensor)),
            right: Matrix::of(converted(&self.right.tensor)),
            summand: self.summand.as_ref().map(converted),
            ..self.clone()
        }
    }

    /// Whether nothing is to be computed.
    pub(super) fn is_empty(&self) -> bool {
        self.batches == 0 || self.rows == 0 || self.columns == 0
    }

    /// Bytes of the result and of all operands; elements that several batches or rows share are
    /// counted once.
    pub(super) fn bytes(&self) -> usize {
        let own = |tensor: &Tensor| -> i64 {
            let sizes = tensor.shape().iter().zip(tensor.strides());
            sizes.map(|(&size, &stride)| if stride == 0 { size.min(1) } else { size }).product()
        };
        let operands = own(&self.left.tensor) + own(&self.right.tensor) + self.summand.as_ref().map_or(0, own);
        (operands + self.batches * self.rows * self.columns) as usize * self.dtype.size()
    }
}

impl Matrix {
    /// Batches of matrices, copied if no library reads them where they are.
    fn of(tensor: Tensor) -> Matrix {
        let (rows, columns) = (tensor.size(1), tensor.size(2));
        let (step, along_rows, along_columns) = (tensor.strides()[0], tensor.strides()[1], tensor.strides()[2]);
        let step = if tensor.size(0) == 1 { 0 } else { step };
        if (along_columns == 1 || columns == 1) && (along_rows >= columns || rows == 1) {
            let leading = if rows == 1 { columns.max(1) } else { along_rows };
            return Matrix { tensor, is_transposed: false, leading, step };
        }
        if (along_rows == 1 || rows == 1) && (along_columns >= rows || columns == 1) {
            let leading = if columns == 1 { rows.max(1) } else { along_columns };
            return Matrix { tensor, is_transposed: true, leading, step };
        }
        Matrix { tensor: tensor.contiguous(), is_transposed: false, leading: columns.max(1), step: rows * columns }
    }
}

/// The leading sizes of a result, or its last one, and a factor with three dimensions.
type Factor = (Dims, Tensor);

/// `x @ w^T`: a weight has no batches.
fn linear_factors(own: &Operands) -> Result<(Factor, Factor), String> {
    let (x, w) = (&own.left, &own.right);
    if x.rank() == 0 || w.rank() != 2 {
        return Err("a layer needs a matrix of weights".to_owned());
    }
    let depth = x.size(x.rank() - 1);
    let leading = Dims::from_slice(&x.shape()[..x.rank() - 1]);
    let rows = leading.iter().product();
    let w = w.transpose(0, 1).unsqueeze(0);
    let columns = w.size(2);
    Ok(((leading, x.reshape(&[1, rows, depth])), (Dims::from_slice(&[columns]), w)))
}

/// Vectors are matrices of one row or column; without batches on the right, those on the left are
/// rows; else batches are broadcast.
fn matmul_factors(own: &Operands) -> Result<(Factor, Factor), String> {
    let (left, right) = (&own.left, &own.right);
    if left.rank() == 0 || right.rank() == 0 {
        return Err("a factor is a number".to_owned());
    }
    let (is_row, is_column) = (left.rank() == 1, right.rank() == 1);
    let left = if is_row { left.unsqueeze(0) } else { left.clone() };
    let right = if is_column { right.unsqueeze(1) } else { right.clone() };
    let (rows, depth) = (left.size(left.rank() - 2), left.size(left.rank() - 1));
    let columns = right.size(right.rank() - 1);
    let last = if is_column { Dims::new() } else { Dims::from_slice(&[columns]) };
    if right.rank() == 2 {
        let leading: Dims = if is_row { Dims::new() } else { Dims::from_slice(&left.shape()[..left.rank() - 1]) };
        let all = leading.iter().product();
        return Ok(((leading, left.reshape(&[1, all, depth])), (last, right.unsqueeze(0))));
    }
    let batches = broadcast(&left.shape()[..left.rank() - 2], &right.shape()[..right.rank() - 2])?;
    let flat = |tensor: &Tensor| {
        let (r, c) = (tensor.size(tensor.rank() - 2), tensor.size(tensor.rank() - 1));
        let mut whole = batches.clone();
        whole.extend([r, c]);
        let wide = tensor.broadcast_to(&whole).map_err(|error| error.0)?;
        Ok::<_, String>(wide.reshape(&[batches.iter().product(), r, c]))
    };
    let (left, right) = (flat(&left)?, flat(&right)?);
    let mut leading = batches.clone();
    if !is_row {
        leading.push(rows);
    }
    Ok(((leading, left), (last, right)))
}

/// Common sizes of batches.
fn broadcast(a: &[i64], b: &[i64]) -> Result<Dims, String> {
    let rank = a.len().max(b.len());
    let size = |of: &[i64], at: usize| (at + of.len()).checked_sub(rank).map_or(1, |at| of[at]);
    let common = |at| match (size(a, at), size(b, at)) {
        (x, y) if x == y || y == 1 => Ok(x),
        (1, y) => Ok(y),
        _ => Err("the batches of the factors do not match".to_owned()),
    };
    (0..rank).map(common).collect()
}

/// Factors of a rank, 2 or 3.
fn ranked(own: &Operands, rank: usize) -> Result<(Factor, Factor), String> {
    let (left, right) = (&own.left, &own.right);
    if left.rank() != rank || right.rank() != rank {
        return Err(format!("the factors do not have {rank} dimensions"));
    }
    let shape = Dims::from_slice(&left.shape()[..rank - 1]);
    let last = Dims::from_slice(&right.shape()[rank - 1..]);
    let wide = |tensor: &Tensor| if rank == 2 { tensor.unsqueeze(0) } else { tensor.clone() };
    Ok(((shape, wide(left)), (last, wide(right))))
}

/// A summand with the sizes of the result.
fn laid_out(tensor: &Tensor, shape: &[i64], sizes: [i64; 3]) -> Result<Tensor, String> {
    Ok(tensor.broadcast_to(shape).map_err(|error| error.0)?.reshape(&sizes))
}

impl Reader<'_> {
    fn operands_of(&self, node: Node) -> Result<Operands, String> {
        let values: Vec<Value> = self.section.inputs(node).collect();
        let (left, right, summand, factors) = match (self.section.kind(node).as_str(), &values[..]) {
            ("aten::linear", &[x, w, bias]) => (x, w, self.optional_tensor(bias)?, None),
            ("aten::addmm" | "aten::baddbmm", &[summand, a, b, beta, alpha]) => {
                (a, b, Some(self.tensor(summand)?), Some((beta, alpha)))
            }
            (_, &[a, b]) => (a, b, None, None),
            _ => return Err("the product has other operands than usual".to_owned()),
        };
        let right_operand = self.place(right);
        let (left, right) = (self.tensor(left)?, self.tensor(right)?);
        let (beta, alpha) = match factors {
            Some((beta, alpha)) => (self.number(beta)?, self.number(alpha)?),
            None => (1.0, 1.0),
        };
        let dtype = left.dtype();
        let has_library = matches!(dtype, DType::Float | DType::Double | DType::Half | DType::BFloat16);
        if !has_library || right.dtype() != dtype || summand.as_ref().is_some_and(|tensor| tensor.dtype() != dtype) {
            return Err(format!("no library multiplies {} by {}", dtype.name(), right.dtype().name()));
        }
        Ok(Operands { left, right, summand, alpha, beta, right_operand })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matrix(shape: &[i64]) -> Tensor {
        let n: i64 = shape.iter().product();
        Tensor::from_elements((0..n).map(|i| i as f32).collect(), shape)
    }

    fn product(body: &str, operands: &[Tensor]) -> Result<Product, String> {
        let names = ["%a", "%b", "%c"];
        let params: Vec<String> = names[..operands.len()].iter().map(|name| format!("{name} : Tensor")).collect();
        let text = format!(
            "graph({}):\n  %none : None = prim::Constant()\n  %two : int = prim::Constant[value=2]()\n  %y : Tensor = {body}\n  return (%y)\n",
            params.join(", ")
        );
        let graph = crate::text::parse(text.as_bytes(), crate::text::ParseOptions::default()).expect("it parses").graph;
        let operands: Vec<IValue> = operands.iter().cloned().map(IValue::Tensor).collect();
        Product::of(&graph, &operands)
    }

    #[test]
    fn factors_are_read_where_they_are() {
        let (a, b) = (matrix(&[4, 3]).transpose(0, 1), matrix(&[4, 5]));
        let found = product("aten::mm(%a, %b)", &[a.clone(), b]).expect("a product");
        assert_eq!((found.rows, found.depth, found.columns, &found.shape[..]), (3, 4, 5, &[3i64, 5][..]));
        assert!(found.left.is_transposed && found.left.tensor.shares_storage(&a) && found.left.leading == 3);
        assert!(!found.right.is_transposed && found.right.leading == 5);
    }

    #[test]
    fn operands_without_a_contiguous_dimension_are_copied() {
        let a = matrix(&[3, 8]).narrow(1, 0, 4, 2);
        let found = product("aten::mm(%a, %b)", &[a.clone(), matrix(&[4, 2])]).expect("a product");
        assert!(!found.left.tensor.shares_storage(&a) && found.left.leading == 4);
    }

    #[test]
    fn batches_are_broadcast() {
        let found = product("aten::matmul(%a, %b)", &[matrix(&[2, 1, 3, 4]), matrix(&[5, 4, 6])]).expect("a product");
        assert_eq!((found.batches, &found.shape[..]), (10, &[2i64, 5, 3, 6][..]));
        let row = product("aten::matmul(%a, %b)", &[matrix(&[4]), matrix(&[5, 4, 6])]).expect("a product");
        assert_eq!((row.batches, row.rows, &row.shape[..], row.right.step), (5, 1, &[5i64, 6][..], 24));
        let column = product("aten::matmul(%a, %b)", &[matrix(&[2, 3, 4]), matrix(&[4])]).expect("a product");
        assert_eq!((column.batches, column.rows, &column.shape[..]), (1, 6, &[2i64, 3][..]));
    }

    #[test]
    fn summands_have_the_size_of_the_result() {
        let of = [matrix(&[6]), matrix(&[3, 4]), matrix(&[4, 6])];
        let found = product("aten::addmm(%a, %b, %c, %two, %two)", &of).expect("a product");
        assert_eq!(found.summand.expect("there is one").strides(), [0, 0, 1]);
        assert!(product("aten::addmm(%a, %b, %c, %two, %two)", &[matrix(&[5]), of[1].clone(), of[2].clone()]).is_err());
    }

    #[test]
    fn unmatched_operands_are_left_to_the_section() {
        assert!(product("aten::mm(%a, %b)", &[matrix(&[3, 4]), matrix(&[3, 4])]).is_err());
        assert!(product("aten::linear(%a, %b, %none)", &[matrix(&[3, 4]), matrix(&[2, 3])]).is_err());
        assert!(product("aten::bmm(%a, %b)", &[matrix(&[2, 3, 4]), matrix(&[3, 4, 5])]).is_err());
    }
}
