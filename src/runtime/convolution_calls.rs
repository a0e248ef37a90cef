//! Convolutions as the processor computes them: the window, and the tensors with a batch.
//!
//! Transposed convolutions, and what PyTorch refuses, are left to the interpreter.

use super::followers::Follower;
use super::section_reader::Reader;
use crate::interpreter::IValue;
use crate::ir::{Graph, Node, Value};
use crate::tensor::gemm::{Axis, Sizes, Window};
use crate::tensor::{DType, Dims, Precision, Tensor, layout};
use crate::types::release::Release;

/// A convolution and what follows it.
#[derive(Clone, Debug)]
pub(super) struct Convolution {
    pub(super) sizes: Sizes,
    /// With a batch.
    pub(super) image: Tensor,
    pub(super) weight: Tensor,
    /// A factor for each channel of the weight.
    pub(super) factors: Option<Tensor>,
    pub(super) bias: Option<Tensor>,
    /// The sizes of the result.
    pub(super) shape: Dims,
    /// The order of its dimensions in memory, if it is not contiguous.
    pub(super) order: Option<&'static [usize]>,
    pub(super) batches: usize,
    pub(super) followers: Vec<Follower>,
    /// Which operand of the call the weight is.
    pub(super) weight_operand: Option<usize>,
}

/// Kinds, and the places of their operands: `transposed`, and `groups`.
const KINDS: [(&str, Option<usize>, usize); 6] = [
    ("aten::conv1d", None, 6),
    ("aten::conv2d", None, 6),
    ("aten::conv3d", None, 6),
    ("aten::_convolution", Some(6), 8),
    ("aten::convolution", Some(6), 8),
    ("aten::_convolution_mode", None, 6),
];

/// What may multiply a weight before it is used.
pub(super) const SCALING: &str = "aten::mul";

/// Those whose result is contiguous, whatever the operands are.
const CONTIGUOUS: [&str; 2] = ["aten::conv1d", "aten::_convolution_mode"];

/// The order in memory that PyTorch gives a result: channels last, if they are in one of the
/// operands.
fn order(image: &Tensor, weight: &Tensor) -> Option<&'static [usize]> {
    if image.rank() == 5 && image.dtype() == DType::Double {
        return None;
    }
    let suggested = |x: &Tensor| layout::suggested_order(x.shape(), x.strides());
    suggested(image).or_else(|| suggested(weight))
}

impl Convolution {
    /// The convolution of a section for operands.
    ///
    /// # Errors
    /// Why it is not computed here, as text for people.
    pub(super) fn of(section: &Graph, operands: &[IValue]) -> Result<Convolution, String> {
        let read = Reader { section, operands };
        let (scaled, node) = read.convolution()?;
        let kind = section.kind(node).as_str();
        let &(_, transposed, groups) =
            KINDS.iter().find(|row| row.0 == kind).ok_or_else(|| format!("`{kind}` is no convolution"))?;
        let values: Vec<Value> = section.inputs(node).collect();
        let value = |at: usize| values.get(at).copied().ok_or("the convolution has other operands than usual");
        let weight = scaled.map_or_else(|| value(1), |node| Ok(section.input(node, 0)))?;
        let weight_operand = read.place(weight);
        let (x, weight, bias) = (read.tensor(value(0)?)?, read.tensor(weight)?, read.optional_tensor(value(2)?)?);
        let factors = scaled.map(|node| read.factors(section.input(node, 1), &weight)).transpose()?;
        if let Some(at) = transposed
            && read.integer(value(at)?)? != 0
        {
            return Err("it is transposed".to_owned());
        }
        let groups = usize::try_from(read.integer(value(groups)?)?).unwrap_or(0);
        let rank = weight.rank().saturating_sub(2);
        let is_single = x.rank() == rank + 1;
        let image = if is_single { x.unsqueeze(0) } else { x };
        check_types(&image, &weight, bias.as_ref())?;
        if !(1..=3).contains(&rank) || image.rank() != rank + 2 {
            return Err("the image or the weight has another number of dimensions".to_owned());
        }
        let (stride, dilation) = (read.spatial(value(3)?, rank)?, read.spatial(value(5)?, rank)?);
        let padding = read.padding(value(4)?, rank, (&weight, &dilation))?;
        let mut axes = [Axis::SINGLE; 3];
        for i in 0..rank {
            let of = (image.size(i + 2), weight.size(i + 2));
            axes[3 - rank + i] = axis(of, (stride[i], dilation[i]), padding[i])?;
        }
        let sizes = sized(&image, &weight, groups, Window { axes })?;
        let mut shape = Dims::from_slice(&[image.size(0), weight.size(0)]);
        shape.extend(axes[3 - rank..].iter().map(|axis| axis.output as i64));
        layout::checked(&shape).map_err(|error| error.0)?;
        if bias.as_ref().is_some_and(|bias| bias.rank() != 1 || bias.size(0) != shape[1]) {
            return Err("the bias has another size".to_owned());
        }
        let batches = image.size(0) as usize;
        let keeps_order = !is_single && !CONTIGUOUS.contains(&kind) && section.release() >= Release(1, 5);
        let order = if keeps_order { order(&image, &weight) } else { None };
        if is_single {
            shape.remove(0);
        }
        let followers = read.followers(node, &shape)?;
        Ok(Convolution { sizes, image, weight, factors, bias, shape, order, batches, followers, weight_operand })
    }

    /// The number of multiplications.
    pub(super) fn multiplications(&self) -> usize {
        self.batches.saturating_mul(self.sizes.result()).saturating_mul(self.sizes.depth())
    }

    /// The same with tensors converted to floats. Halves have no factors, see `Reader::factors`.
    pub(super) fn as_floats(&self) -> Convolution {
        let converted = |tensor: &Tensor| tensor.converted(DType::Float, Precision::Typed);
        Convolution {
            image: converted(&self.image),
            weight: converted(&self.weight),
            bias: self.bias.as_ref().map(converted),
            ..self.clone()
        }
    }
}

fn check_types(image: &Tensor, weight: &Tensor, bias: Option<&Tensor>) -> Result<(), String> {
    let dtype = image.dtype();
    if weight.dtype() != dtype || bias.is_some_and(|bias| bias.dtype() != dtype) || !dtype.is_float() {
        return Err(format!("no convolution of {} with {}", dtype.name(), weight.dtype().name()));
    }
    Ok(())
}

/// One dimension, given the sizes of image and window, stride and dilation, and the padding on both
/// sides.
fn axis(
    (input, kernel): (i64, i64),
    (stride, dilation): (i64, i64),
    (before, after): (i64, i64),
) -> Result<Axis, String> {
    // Sums and products of two do not overflow.
    let has_range = |n: i64| (0..=1 << 30).contains(&n);
    let all = [input, kernel, stride, dilation, before, after];
    if !all.into_iter().all(has_range) || stride < 1 || dilation < 1 || kernel < 1 || input < 1 {
        return Err("a parameter of the window is out of range".to_owned());
    }
    let room = input + before + after - dilation * (kernel - 1) - 1;
    if room < 0 {
        return Err("the window is larger than the image".to_owned());
    }
    let [input, kernel, stride, dilation, before, room] =
        [input, kernel, stride, dilation, before, room].map(|n| n as usize);
    Ok(Axis { input, output: room / stride + 1, kernel, stride, dilation, before })
}

fn sized(image: &Tensor, weight: &Tensor, groups: usize, window: Window) -> Result<Sizes, String> {
    let (outputs, inputs) = (weight.size(0) as usize, weight.size(1) as usize);
    let fits = groups > 0 && outputs % groups == 0 && inputs.checked_mul(groups) == Some(image.size(1) as usize);
    if !fits || outputs == 0 || inputs == 0 {
        return Err("the channels of image and weight do not match".to_owned());
    }
    Ok(Sizes { window, groups, inputs, outputs: outputs / groups })
}

impl Reader<'_> {
    /// The convolution, and what multiplies its weight.
    fn convolution(&self) -> Result<(Option<Node>, Node), String> {
        let first = self.first()?;
        if self.section.kind(first).as_str() != SCALING {
            return Ok((None, first));
        }
        let is_scaled = |&node: &Node| self.section.inputs(node).nth(1) == Some(self.section.output(first, 0));
        let node = self.nodes().nth(1).filter(is_scaled);
        node.map(|node| (Some(first), node)).ok_or_else(|| "no weight is multiplied".to_owned())
    }

    /// A factor for each channel of a weight. Products of halves would have to be rounded to halves
    /// before they are packed as floats.
    fn factors(&self, value: Value, weight: &Tensor) -> Result<Tensor, String> {
        let factors = self.tensor(value)?;
        let is_packed_as_it_is = matches!(weight.dtype(), DType::Float | DType::Double);
        let is_per_channel = factors.rank() == weight.rank()
            && (0..weight.rank()).all(|i| factors.size(i) == if i == 0 { weight.size(0) } else { 1 });
        match is_packed_as_it_is && is_per_channel && factors.dtype() == weight.dtype() {
            true => Ok(factors),
            false => Err("the weights have no factor for each channel".to_owned()),
        }
    }

    fn integer(&self, value: Value) -> Result<i64, String> {
        let found = self.section.constant_int(value).or_else(|| Some(self.given(value)?.scalar()?.int()));
        found.ok_or_else(|| "a parameter is not a number".to_owned())
    }

    fn integers(&self, value: Value) -> Option<Vec<i64>> {
        if let Some(all) = self.section.constant_ints(value) {
            return Some(all);
        }
        match self.given(value)? {
            IValue::List(list) => list.borrow().iter().map(|value| Some(value.scalar()?.int())).collect(),
            other => Some(vec![other.scalar()?.int()]),
        }
    }

    /// A number for each dimension; one stands for all.
    fn spatial(&self, value: Value, rank: usize) -> Result<Vec<i64>, String> {
        let all = self.integers(value).ok_or("a parameter is not a list of integers")?;
        match all.len() {
            1 => Ok(vec![all[0]; rank]),
            n if n == rank => Ok(all),
            _ => Err("a parameter has another number of dimensions".to_owned()),
        }
    }

    /// The padding before and after the image in each dimension.
    fn padding(&self, value: Value, rank: usize, of: (&Tensor, &[i64])) -> Result<Vec<(i64, i64)>, String> {
        match self.text(value).as_deref() {
            None => Ok(self.spatial(value, rank)?.into_iter().map(|n| (n, n)).collect()),
            Some(b"valid") => Ok(vec![(0, 0); rank]),
            Some(b"same") => {
                let total = |i: usize| of.1[i].saturating_mul(of.0.size(i + 2) - 1);
                Ok((0..rank).map(|i| (total(i) / 2, total(i) - total(i) / 2)).collect())
            }
            Some(_) => Err("the padding has no such name".to_owned()),
        }
    }
}
