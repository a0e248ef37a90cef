//! Layers of transformers as one operator each, which PyTorch's modules run when no gradient is
//! required.
//!
//! They are composed of other operators. The weights of a row without any visible key are NaN, as
//! is the softmax of minus infinities.

use super::elements::{add, apply, check, floats, like, same};
use super::linear_algebra::{affine, matmul};
use super::normalization::layer_norm_over;
use super::softmax::{rowwise, softmax};
use crate::interpreter::call::{Answer, Call, Row, one, several};
use crate::interpreter::ivalue::IValue;
use crate::interpreter::stop::Stop;
use crate::tensor::blocks::map3;
use crate::tensor::{DType, Tensor};
use std::f64::consts::FRAC_1_SQRT_2;

/// The kernel table.
pub(crate) const ROWS: &[Row] = &[
    ("aten::_native_multi_head_attention", native_multi_head_attention),
    ("aten::_transformer_encoder_layer_fwd", encoder_layer),
    ("aten::_nested_tensor_from_mask_left_aligned", |_| Err(no_nested_tensors())),
    ("aten::_nested_tensor_from_mask", |_| Err(no_nested_tensors())),
    ("aten::to_padded_tensor", |_| Err(no_nested_tensors())),
];

/// Encoders convert padded input to nested tensors and return zeros for the padding: other numbers
/// than those of a padded run.
fn no_nested_tensors() -> Stop {
    Stop::unsupported(
        "a nested tensor, which `nn.TransformerEncoder` makes of a padding mask: build it with `enable_nested_tensor=False`",
    )
}

/// The weights of an attention, and its number of heads.
struct Attention {
    heads: i64,
    weight: Tensor,
    bias: Tensor,
    out_weight: Tensor,
    out_bias: Tensor,
}

impl Attention {
    fn of(call: &Call<'_>, heads: &str) -> Result<Attention, Stop> {
        Ok(Attention {
            heads: call.int(heads)?,
            weight: call.tensor("qkv_weight")?,
            bias: call.tensor("qkv_bias")?,
            out_weight: call.tensor("proj_weight")?,
            out_bias: call.tensor("proj_bias")?,
        })
    }

    /// Checks the shapes of a query, a key and a value of that width.
    fn check(&self, query: &Tensor, width: i64) -> Result<(), Stop> {
        floats("native_multi_head_attention", query)?;
        check(query.rank() == 3, || format!("expected 3-D `query`, got {}-D tensor", query.rank()))?;
        check(query.size(2) == width, || {
            format!("passed-in embed_dim {width} didn't match last dim of query {}", query.size(2))
        })?;
        check(self.weight.rank() == 2 && self.weight.size(0) == 3 * width, || {
            "expected `qkv_weight` first dim to be 3x embed_dim".to_owned()
        })?;
        check(self.bias.rank() == 1 && self.bias.size(0) == 3 * width, || {
            "expected `qkv_bias` first dim to be 3x embed_dim".to_owned()
        })?;
        check(self.heads > 0 && width % self.heads == 0, || "`embed_dim` must divide evenly by `num_heads`".to_owned())
    }

    /// The i-th projection, one matrix per head.
    fn projected(&self, call: &Call<'_>, x: &Tensor, i: i64) -> Result<Tensor, Stop> {
        let width = self.weight.size(0) / 3;
        let (weight, bias) = (self.weight.narrow(0, i * width, width, 1), self.bias.narrow(0, i * width, width, 1));
        let all = affine(call, x, &weight, Some(&bias))?;
        let split = [x.size(0), x.size(1), self.heads, width / self.heads];
        Ok(all.reshape(&split).transpose(1, 2))
    }

    /// The result, and the weights of each head.
    fn run(&self, call: &Call<'_>, [query, key, value]: [&Tensor; 3]) -> Result<(Tensor, Tensor), Stop> {
        let queries = self.projected(call, query, 0)?;
        let (keys, values) = (self.projected(call, key, 1)?, self.projected(call, value, 2)?);
        let scale = 1.0 / (queries.size(3) as f64).sqrt();
        let scores = matmul(call, &apply(call, &queries, |x| x * scale)?, &keys.transpose(2, 3))?;
        let weights = rowwise(call, &masked(call, scores)?, 3, softmax);
        let heads = matmul(call, &weights, &values)?.transpose(1, 2).reshape(query.shape());
        Ok((affine(call, &heads, &self.out_weight, Some(&self.out_bias))?, weights))
    }
}

/// Applies a mask. Its type determines whether it is for positions, for keys of each sequence, or
/// for all scores.
fn masked(call: &Call<'_>, scores: Tensor) -> Result<Tensor, Stop> {
    let Some(mask) = call.opt_tensor("mask")? else { return Ok(scores) };
    let mask = if mask.dtype() == DType::Bool { mask } else { mask.converted(DType::Bool, call.precision()) };
    let (batch, length) = (scores.size(0), scores.size(3));
    let (fits, form) = match call.opt_int("mask_type")?.unwrap_or(2) {
        0 => (mask.shape() == [scores.size(2), length], "mask_type == 0 mask shape should be (L, L)"),
        1 => (mask.shape() == [batch, length], "mask_type == 1 mask shape should be (B, L)"),
        2 => (mask.shape() == scores.shape(), "mask_type == 2 mask shape should match input shape"),
        _ => (false, "Mask Type should be 0 (src_mask), 1 (src_key_padding_mask), or 2 (default_mask)"),
    };
    check(fits, || if form.starts_with("mask_type") { format!("For {form}") } else { form.to_owned() })?;
    let mask = if mask.shape() == [batch, length] && call.opt_int("mask_type")? == Some(1) {
        mask.reshape(&[batch, 1, 1, length])
    } else {
        mask
    };
    let hidden = like(call, &[f64::NEG_INFINITY], scores.dtype(), &[], &scores);
    let choose = |x: f64, is_hidden: f64, hidden: f64| if is_hidden != 0.0 { hidden } else { x };
    Ok(map3([&scores, &mask, &hidden], same(call, scores.dtype()), choose)?)
}

/// Weights are returned if requested, for each head or their mean.
fn native_multi_head_attention(call: &Call) -> Answer {
    let (query, key, value) = (call.tensor("query")?, call.tensor("key")?, call.tensor("value")?);
    let attention = Attention::of(call, "num_head")?;
    attention.check(&query, call.int("embed_dim")?)?;
    check(query.shape() == key.shape() && query.shape() == value.shape(), || {
        "expected `query`/`key`/`value` shapes to match".to_owned()
    })?;
    let (result, weights) = attention.run(call, [&query, &key, &value])?;
    if !call.bool("need_weights")? {
        return several([IValue::Tensor(result), IValue::Undefined]);
    }
    let weights = match call.bool("average_attn_weights")? {
        true => {
            let sum = super::elements::sum_over(call, &weights, &[1], false);
            apply(call, &sum, |x| x / attention.heads as f64)?
        }
        false => weights,
    };
    several([result, weights])
}

/// Attention and two linear layers, each with a residual connection, normalised before or after.
fn encoder_layer(call: &Call) -> Answer {
    let source = call.tensor("src")?;
    let attention = Attention::of(call, "num_heads")?;
    attention.check(&source, call.int("embed_dim")?)?;
    let (first, eps) = (call.bool("norm_first")?, call.float("eps")?);
    let normed = |x: &Tensor, [weight, bias]: [&str; 2]| {
        layer_norm_over(call, x, &call.tensor(weight)?, &call.tensor(bias)?, eps)
    };
    let (norm_1, norm_2) = (["norm_weight_1", "norm_bias_1"], ["norm_weight_2", "norm_bias_2"]);
    let given = if first { normed(&source, norm_1)? } else { source.clone() };
    let mut x = add(call, &attention.run(call, [&given; 3])?.0, &source)?;
    if !first {
        x = normed(&x, norm_1)?;
    }
    let given = if first { normed(&x, norm_2)? } else { x.clone() };
    x = add(call, &fed_forward(call, &given)?, &x)?;
    one(if first { x } else { normed(&x, norm_2)? })
}

/// Two linear layers with an activation between them.
fn fed_forward(call: &Call<'_>, x: &Tensor) -> Result<Tensor, Stop> {
    let layer = |x: &Tensor, weight, bias| affine(call, x, &call.tensor(weight)?, Some(&call.tensor(bias)?));
    let inner = layer(x, "ffn_weight_1", "ffn_bias_1")?;
    let active = match call.bool("use_gelu")? {
        true => apply(call, &inner, |x| 0.5 * x * libm::erfc(-x * FRAC_1_SQRT_2))?,
        false => apply(call, &inner, |x| if x < 0.0 { 0.0 } else { x })?,
    };
    layer(&active, "ffn_weight_2", "ffn_bias_2")
}
