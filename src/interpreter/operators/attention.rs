//! Attention and embedding.

use super::elements::{add, apply, by_kind, check, floats, like, multiply, placed, same};
use super::linear_algebra::{Base, matmul, product};
use super::softmax::{rowwise, safe_softmax};
use crate::interpreter::call::{Answer, Call, Row, one, several};
use crate::interpreter::stop::Stop;
use crate::ops::attention_rules;
use crate::tensor::blocks::map3;
use crate::tensor::{DType, Dims, Scalar, Tensor, layout};
use std::ops::Range;

/// The kernel table.
pub(crate) const ROWS: &[Row] = &[
    ("aten::embedding", embedding),
    ("aten::embedding_renorm_", embedding_renorm),
    ("aten::_no_grad_embedding_renorm_", embedding_renorm),
    ("aten::embedding_bag", embedding_bag),
    ("aten::_embedding_bag", embedding_bag),
    ("aten::_embedding_bag_forward_only", embedding_bag),
    ("aten::scaled_dot_product_attention", |call| one(attend_in_parts(call)?)),
    ("aten::_scaled_dot_product_attention_math", |call| {
        let (result, weights) = attend(call)?;
        several([result, weights])
    }),
];

/// The row indices of a table, checked.
fn lookups(table: &Tensor, indices: &Tensor) -> Result<Vec<usize>, Stop> {
    let count = table.size(0) as usize;
    let row = |index: i64| usize::try_from(index).ok().filter(|&index| index < count);
    let found = indices.read::<i64>().into_iter().map(row).collect::<Option<Vec<usize>>>();
    found.ok_or_else(|| Stop::raised_as("IndexError", "index out of range in self"))
}

fn embedding(call: &Call) -> Answer {
    let (table, indices) = (call.tensor("weight")?, call.tensor("indices")?);
    check(table.rank() == 2, || "'weight' must be 2-D".to_owned())?;
    check(matches!(indices.dtype(), DType::Int | DType::Long), || {
        format!(
            "Expected tensor for argument #1 'indices' to have one of the following scalar types: Long, Int; but got {} instead",
            indices.dtype().name()
        )
    })?;
    let rows = lookups(&table, &indices)?;
    let len = table.size(1) as usize;
    let mut shape = indices.shape().to_vec();
    shape.push(table.size(1));
    layout::checked(&shape)?;
    by_kind!(table.dtype(), W => {
        // A large table is not read for a few rows.
        let picked: Vec<W> = if rows.len() < table.size(0) as usize {
            rows.iter().flat_map(|&row| table.select(0, row as i64).read::<W>()).collect()
        } else {
            let all = table.read::<W>();
            rows.iter().flat_map(|&row| all[row * len..(row + 1) * len].iter().copied()).collect()
        };
        one(like(call, &picked, table.dtype(), &shape, &table))
    })
}

/// Shortens looked-up rows whose norm exceeds the maximum, in place.
fn embedding_renorm(call: &Call) -> Answer {
    let table = call.tensor(if call.look("weight").is_some() { "weight" } else { "self" })?;
    let indices = call.tensor(if call.look("input").is_some() { "input" } else { "indices" })?;
    check(table.rank() == 2, || "'self' must be 2-D".to_owned())?;
    let (most, p) = (call.float("max_norm")?, call.float("norm_type")?);
    let mut rows = lookups(&table, &indices)?;
    rows.sort_unstable();
    rows.dedup();
    for row in rows {
        let row = table.select(0, row as i64);
        let norm = super::norms::norm_over(call, &row, p, &[0], false, row.dtype())?.item().real();
        if norm > most {
            row.copy_from(&apply(call, &row, |x| x * (most / (norm + 1e-7)))?)?;
        }
    }
    one(table)
}

/// The start and end of each bag among the indices.
fn bags(call: &Call, indices: &Tensor) -> Result<Vec<(usize, usize)>, Stop> {
    let mut starts = call.tensor("offsets")?.read::<i64>();
    let n = indices.numel() as i64;
    if !call.bool("include_last_offset")? {
        starts.push(n);
    }
    check(starts.first().is_none_or(|&first| first == 0), || {
        format!(
            "offsets[0] has to be 0, i.e., the first sequence in the mini-batch has to start from position 0. However, got {}",
            starts[0]
        )
    })?;
    check(starts.windows(2).all(|pair| pair[0] <= pair[1]) && starts.iter().all(|&at| at <= n), || {
        format!("offsets[-1] can not be greater than input's length({n})")
    })?;
    Ok(starts.windows(2).map(|pair| (pair[0] as usize, pair[1] as usize)).collect())
}

/// Sums, means or maxima of rows; then the bag of each index, the sizes of bags, and for maxima the
/// source rows.
fn embedding_bag(call: &Call) -> Answer {
    let (table, indices) = (call.tensor("weight")?, call.tensor("indices")?);
    floats("embedding_bag", &table)?;
    check(table.rank() == 2 && indices.rank() == 1, || "input has to be 1D or 2D Tensor".to_owned())?;
    let (rows, bags, mode) = (lookups(&table, &indices)?, bags(call, &indices)?, call.int("mode")?);
    let weights = call.opt_tensor("per_sample_weights")?.map(|weights| weights.read::<f64>());
    check(weights.as_ref().is_none_or(|weights| weights.len() == rows.len()), || {
        "expected per_sample_weights to have the same shape as input".to_owned()
    })?;
    // An operand that may be None counts from the end; otherwise a negative index means none.
    let wraps = call.overload() == "padding_idx";
    let padding =
        call.opt_int("padding_idx")?.map(|index| if wraps && index < 0 { index + table.size(0) } else { index });
    let (all, len) = (table.read::<f64>(), table.size(1) as usize);
    let (mut out, mut sizes, mut from) = (Vec::new(), Vec::new(), Vec::new());
    let mut bag_of = vec![0; rows.len()];
    for (bag, &(start, end)) in bags.iter().enumerate() {
        bag_of[start..end].fill(bag as i64);
        let members: Vec<usize> = (start..end).filter(|&i| Some(rows[i] as i64) != padding).collect();
        sizes.push(members.len() as i64);
        let weight = |i: usize| weights.as_ref().map_or(1.0, |weights| weights[i]);
        for k in 0..len {
            let value = |i: usize| all[rows[i] * len + k] * weight(i);
            let sum: f64 = members.iter().map(|&i| value(i)).sum();
            let best = members.iter().copied().reduce(|best, i| if value(i) > value(best) { i } else { best });
            out.push(match mode {
                0 => sum,
                1 => sum / (members.len() as f64).max(1.0),
                _ => best.map_or(0.0, value),
            });
            from.push(best.map_or(0, |i| rows[i] as i64));
        }
    }
    let n = bags.len() as i64;
    let long = |numbers: &[i64], shape: &[i64]| like(call, numbers, DType::Long, shape, &table);
    let maxima = if mode == 2 { long(&from, &[n, len as i64]) } else { long(&sizes, &[n]) };
    let out = like(call, &out, table.dtype(), &[n, len as i64], &table);
    several([out, long(&bag_of, &[rows.len() as i64]), long(&sizes, &[n]), maxima])
}

/// Repeats each head to match the number of query heads.
fn repeated(x: &Tensor, heads: i64) -> Result<Tensor, Stop> {
    let at = x.rank() - 3;
    let own = x.size(at);
    check(own > 0 && heads % own == 0, || {
        "Number of heads in key and value must divide the number of heads in query ".to_owned()
    })?;
    let mut shape = x.shape().to_vec();
    shape.insert(at + 1, heads / own);
    let whole = x.unsqueeze(at + 1).broadcast_to(&shape)?;
    shape[at] = heads;
    shape.remove(at + 1);
    Ok(whole.reshape(&shape))
}

/// Query rows that are computed at once: the scores of all keys for so many rows are in memory,
/// never those for all rows.
const ROWS_AT_ONCE: i64 = 64;

/// The operands of attention, checked.
struct Heads {
    query: Tensor,
    /// With the last two dimensions exchanged.
    keys: Tensor,
    value: Tensor,
    scale: f64,
    /// The strides of a result with the shape of the query, unless it is contiguous.
    strides: Option<Dims>,
}

impl Heads {
    fn of(call: &Call) -> Result<Heads, Stop> {
        let (query, mut key, mut value) = (call.tensor("query")?, call.tensor("key")?, call.tensor("value")?);
        check(query.rank() >= 2 && key.rank() >= 2 && value.rank() >= 2, || {
            format!(
                "scaled_dot_product_attention: Expected query, key, and value to all be  at least 2 dimensional, but got {}, {} and {}",
                query.rank(),
                key.rank(),
                value.rank()
            )
        })?;
        floats("scaled_dot_product_attention", &query)?;
        let strides = attention_rules::result_strides([&query, &key, &value]);
        if call.bool("enable_gqa")? && query.rank() >= 3 && key.rank() == query.rank() && value.rank() == query.rank() {
            let heads = query.size(query.rank() - 3);
            (key, value) = (repeated(&key, heads)?, repeated(&value, heads)?);
        }
        let width = query.size(query.rank() - 1);
        let scale = call.opt_float("scale")?.unwrap_or(1.0 / (width as f64).sqrt());
        let keys = key.transpose(key.rank() - 1, key.rank() - 2);
        Ok(Heads { query, keys, value, scale, strides })
    }

    fn with_strides(&self, result: Tensor) -> Tensor {
        let strides = self.strides.clone().filter(|_| result.shape() == self.query.shape());
        strides.map_or(result.clone(), |strides| result.laid(strides))
    }

    fn rows(&self) -> i64 {
        self.query.size(self.query.rank() - 2)
    }

    /// The weights of some rows.
    fn weights(&self, call: &Call, rows: Range<i64>) -> Result<Tensor, Stop> {
        let query = rows_of(&self.query, &rows);
        let scores = match query.rank() == self.keys.rank() {
            true => {
                let zero = like(call, &[0.0], query.dtype(), &[], &query);
                let base = Base { base: &zero, beta: Scalar::Int(0), alpha: Scalar::Float(self.scale) };
                product(call, &query, &self.keys, Some(base))?
            }
            false => apply(call, &matmul(call, &query, &self.keys)?, |x| x * self.scale)?,
        };
        let scores = masked(call, scores, &rows, self.rows())?;
        let last = scores.rank() - 1;
        dropped(call, rowwise(call, &scores, last, safe_softmax))
    }
}

/// Some rows of the last but one dimension.
fn rows_of(tensor: &Tensor, rows: &Range<i64>) -> Tensor {
    tensor.narrow(tensor.rank() - 2, rows.start, rows.end - rows.start, 1)
}

/// The result and the weights. Rows without any visible key are zeros.
fn attend(call: &Call) -> Result<(Tensor, Tensor), Stop> {
    let heads = Heads::of(call)?;
    let weights = heads.weights(call, 0..heads.rows())?;
    Ok((matmul(call, &weights, &heads.value)?, weights))
}

/// The result, some rows after others: memory grows with the number of keys, not with its product
/// with that of queries. Dropout draws for all weights in order, so it takes them at once.
fn attend_in_parts(call: &Call) -> Result<Tensor, Stop> {
    let heads = Heads::of(call)?;
    let rows = heads.rows();
    if call.float("dropout_p")? > 0.0 {
        return Ok(attend(call)?.0);
    }
    if rows <= ROWS_AT_ONCE {
        return Ok(heads.with_strides(attend(call)?.0));
    }
    let mut whole: Option<Tensor> = None;
    for first in (0..rows).step_by(ROWS_AT_ONCE as usize) {
        let part = first..rows.min(first + ROWS_AT_ONCE);
        let result = matmul(call, &heads.weights(call, part.clone())?, &heads.value)?;
        let whole = whole.get_or_insert_with(|| {
            let mut shape = result.shape().to_vec();
            let at = shape.len() - 2;
            shape[at] = rows;
            Tensor::zeros(result.dtype(), &shape, call.precision())
        });
        rows_of(whole, &part).copy_from(&result)?;
    }
    match whole {
        Some(whole) => Ok(heads.with_strides(placed(whole, &heads.query))),
        None => Ok(attend(call)?.0),
    }
}

/// The scores of some of `all` rows under a mask: a bool mask selects; a floating point mask is
/// added.
fn masked(call: &Call, scores: Tensor, part: &Range<i64>, all: i64) -> Result<Tensor, Stop> {
    let (rank, causal) = (scores.rank(), call.bool("is_causal")?);
    // A mask of one row is that of all rows.
    let mask = call.opt_tensor("attn_mask")?.map(|mask| {
        let is_of_all = mask.rank() >= 2 && mask.size(mask.rank() - 2) == all;
        if is_of_all { rows_of(&mask, part) } else { mask }
    });
    let hide = |scores: &Tensor, seen: &Tensor| -> Result<Tensor, Stop> {
        let hidden = like(call, &[f64::NEG_INFINITY], scores.dtype(), &[], scores);
        let choose = |x: f64, seen: f64, hidden: f64| if seen != 0.0 { x } else { hidden };
        Ok(map3([scores, seen, &hidden], same(call, scores.dtype()), choose)?)
    };
    match mask {
        Some(_) if causal => {
            Err(Stop::raised("_scaled_dot_product_attention: Explicit attn_mask should not be set when is_causal=True"))
        }
        Some(mask) if mask.dtype() == DType::Bool => hide(&scores, &mask),
        Some(mask) => add(call, &scores, &mask),
        None if causal => {
            let (rows, cols, first) = (scores.size(rank - 2), scores.size(rank - 1), part.start);
            let seen: Vec<f64> =
                (0..rows).flat_map(|i| (0..cols).map(move |j| f64::from(u8::from(j <= i + first)))).collect();
            hide(&scores, &like(call, &seen, scores.dtype(), &[rows, cols], &scores))
        }
        None => Ok(scores),
    }
}

fn dropped(call: &Call, weights: Tensor) -> Result<Tensor, Stop> {
    let p = call.float("dropout_p")?;
    if p <= 0.0 {
        return Ok(weights);
    }
    let mut draws = call.draws();
    let keep = |_| if draws.uniform() < 1.0 - p { 1.0 / (1.0 - p) } else { 0.0 };
    let noise: Vec<f64> = (0..weights.numel()).map(keep).collect();
    multiply(call, &weights, &like(call, &noise, weights.dtype(), weights.shape(), &weights))
}
