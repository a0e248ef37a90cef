//! The column of the operator table that tells what tensors come out: shape, element type, and how much of it PyTorch tells.
//!
//! A row names overloads: `aten::max` is the kind, `aten::max:other` its overloads with a formal of that name; the first row
//! that fits counts. The rules themselves, which [`Shape`] names, are in `analysis/inference.rs` and the files behind it. They are as
//! exact as can be; [`Told`] says what `complete_shape_analysis` of PyTorch makes of it. That was measured: each overload of 2.15 on
//! operands of which everything is known, and on operands of known element type and rank; for 1.3 it is read off recorded graphs.

use super::schema::Schema;
use crate::types::DType;
use crate::types::era::Era;
use rustc_hash::FxHashMap;
use std::cell::RefCell;

/// The sizes of results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Those of the first tensor; elements lie in a row where they did.
    Like,
    /// The first tensor itself, or another look at the same elements.
    Itself,
    /// Those of all tensors, broadcast together.
    Broadcast,
    /// Those of the first tensor without `dim`, or with 1 there.
    Reduce,
    /// Those of the first so many tensors, broadcast together.
    BroadcastFirst(usize),
    /// None: a tensor without dimensions.
    Scalar,
    /// As [`Shape::Reduce`], and those of the first tensor for an empty list of dimensions.
    ReduceListed,
    /// A number for each matrix.
    Determinant,
    /// `dim` becomes `k` elements.
    TopK,
    /// `t`, `transpose`, `permute`: dimensions change places.
    Transposed,
    /// A list of sizes, of which one may be -1.
    Reshaped,
    /// The sizes of `other`.
    AsOther,
    /// A list of sizes to broadcast to.
    Expanded,
    /// One dimension less, the one that an index is taken of.
    Selected,
    /// `slice`, `narrow`: less of one dimension.
    Sliced,
    /// One dimension of size 1 more.
    Unsqueezed,
    /// Dimensions of size 1 go.
    Squeezed,
    /// Several dimensions become one.
    Flattened,
    /// Windows of a dimension become a new last one.
    Unfolded,
    /// The diagonal of two dimensions becomes the last one.
    Diagonal,
    /// `diag`: a matrix of a vector, a vector of a matrix.
    Diag,
    /// `diagflat`: a matrix.
    Matrix,
    /// Each dimension so many times.
    Repeated,
    /// `mm`, `bmm`: the last two dimensions are multiplied.
    Product,
    /// `matmul`, by rank.
    Matmul,
    /// `addmm` and the like: the product of operands 1 and 2, to which operand 0 is broadcast.
    AddedProduct,
    /// `linear`.
    Linear,
    /// `addbmm`: the sum of products of matrices.
    ReducedProduct,
    /// `ger`, `addr`: rows by columns.
    Outer,
    /// `cat`.
    Concatenated,
    /// `stack`.
    Stacked,
    /// `index_select`.
    IndexSelected,
    /// `gather`, `take`: the sizes of the index.
    AsIndex,
    /// `embedding`: a row for each index.
    Embedded,
    /// `nonzero`, `masked_select`: so many dimensions, their sizes are data.
    Counted(usize),
    /// `zeros`, `rand`: a list of sizes.
    Given,
    /// `arange`
    Range,
    /// `eye`
    Identity,
    /// A convolution.
    Convolved,
    /// Pooling over windows.
    Pooled,
    /// The last dimensions are given.
    Resized,
    /// Sizes grow by what is put around.
    Padded,
    /// `pixel_shuffle`, `glu`: the rank of the first tensor.
    RankOnly,
    /// Those of the tensor operand of this name: gradients of an operand.
    Of(&'static str),
    /// The list operand of this name.
    Listed(&'static str),
    /// Those of tensor number n among the operands.
    Nth(usize),
    /// One rule for each result.
    Each(&'static [Shape]),
    /// The elements of a list: `chunk`, `split`, `unbind` and the like.
    Parted,
    /// A loss: no dimensions, or those of the first so many tensors where nothing is reduced.
    Loss(usize),
    /// A loss over classes: no dimensions, or those of the target where nothing is reduced. A
    /// target of probabilities has the classes as a dimension, which goes.
    ClassLoss,
    /// A loss that reduces the last dimension of its input, which remains where nothing else is
    /// reduced.
    RowLoss,
    /// A loss of distances between rows of its operands.
    DistanceLoss,
    /// A loss of cosines between rows of its operands.
    CosineLoss,
    /// Statistics of a layer norm: normalised dimensions have size 1.
    RowStatistics,
    /// Statistics of a batch norm: one for each channel in training, else none.
    ChannelStatistics,
    /// Statistics of a group norm: one for each group of each image.
    GroupStatistics,
    /// `index`: dimensions with an index give way to those of all indices together.
    Indexed,
    /// `repeat_interleave`.
    Interleaved,
    /// Attention: the queries, with rows of the values.
    Attended,
    /// `pixel_shuffle`: channels become pixels.
    Shuffled,
    /// `pixel_unshuffle`: pixels become channels.
    Unshuffled,
    /// `glu`: half of a dimension.
    Halved,
    /// `diag_embed`: the last dimension becomes a diagonal.
    DiagonalEmbedded,
    /// One dimension becomes several.
    Unflattened,
    /// At least so many dimensions.
    AtLeast(usize),
    /// A vector of as many elements as the operand of this name says.
    Counting(&'static str),
    /// Distances between rows.
    Distances,
    /// `inner`: what is before the last dimensions of both.
    Inner,
    /// `kron`: sizes are multiplied.
    Kronecker,
    /// The channels of the tensor operand of this name.
    Channels(&'static str),
    /// A list of sizes, or those of a weight.
    NormalizedShape,
    /// The gradient of a table: a row for each of `num_weights`.
    TableGradient,
    /// `embedding_bag`: a row of the table for each bag.
    Bags,
    /// `upsample_*`: the last dimensions are given, or scaled.
    Upsampled,
    /// The gradient of `upsample_*`: the last dimensions are those of the operand.
    Downsampled,
    /// `im2col`: a column for each window.
    Columns,
    /// `col2im`: images of columns.
    FromColumns,
    /// `affine_grid_generator`: a position for each pixel.
    Grid,
    /// `grid_sampler`: a pixel for each position.
    GridSampled,
    /// `quantile`: the sizes of `q`, then what a reduction leaves.
    Quantiles,
    /// The solution of equations: the matrices of the second operand, in stacks of both.
    Solved(&'static str, &'static str),
    /// `linalg_solve`, where the right side may be a vector.
    SolvedSystem,
    /// A product of several matrices, the first and the last of which may be vectors.
    Chained,
    /// `vander`: powers of each element become a new last dimension.
    Vandermonde,
    /// `tensordot`: the dimensions of both that are not summed.
    Contracted,
    /// `einsum`
    Einsum,
    /// `bilinear`: the last dimension becomes as many as the weight has matrices.
    Bilinear,
    /// `cov`: variables by variables.
    Correlated,
    /// `hstack` and the like: joined along this dimension, after all have at least so many.
    Joined(usize),
    /// `column_stack`: vectors are columns.
    Columnar,
    /// `block_diag`
    BlockDiagonal,
    /// `combinations`
    Combined,
    /// `cartesian_prod`
    CartesianProduct,
    /// `diff`
    Differences,
    /// `trapezoid`, and whether partial sums are kept.
    Integrated(bool),
    /// `pdist`: an element for each pair of rows.
    Pairs,
    /// Two tensors broadcast together, then a dimension reduced.
    PairwiseReduced,
    /// `norm_except_dim`
    ReducedExcept,
    /// `one_hot`: a last dimension of `num_classes`.
    OneHot,
    /// `nonzero_static`: `size` places.
    Places,
    /// `tril_indices`, and `triu_indices` where it is false.
    Triangle(bool),
    /// `range`, which has its end in it.
    ClosedRange,
    /// `multinomial`: the last dimension becomes `num_samples`.
    Sampled,
    /// `_shape_as_tensor`: a vector of as many elements as there are dimensions.
    RankVector,
    /// `tensor`: those of nested lists of numbers.
    Data,
    /// `view` as another element type.
    Retyped,
    /// `view_as_complex`: the last dimension goes.
    PairsJoined,
    /// `view_as_real`: a new last dimension of two.
    PairsSplit,
    /// `movedim`
    Moved,
    /// `rot90`
    Rotated,
    /// All elements in one dimension.
    Raveled,
    /// `take_along_dim`
    TakenAlong,
    /// Recurrent layers: the last dimension becomes that of the hidden state, once or twice.
    RecurrentOutput,
    /// The buffer that the cell of a GRU keeps for its gradient.
    GruWorkspace,
    /// `searchsorted`: those of the operand of this name, and none of a number.
    OfOrNumber(&'static str),
    /// The attention weights: queries by keys.
    AttentionWeights,
    /// A list: each tensor with at least so many dimensions.
    EachAtLeast(usize),
    /// A list: each tensor broadcast to the sizes of all.
    EachBroadcast,
    /// A list: each tensor like itself.
    EachLike,
    /// `meshgrid`: each vector broadcast to a grid of all.
    Meshed,
    /// A vector of no elements.
    Nothing,
    /// A loss for each sequence of a batch.
    SequenceLoss,
    /// The weights of heads, or their mean.
    HeadWeights,
    /// The weight that was packed into an object.
    PackedWeight,
    /// `linear` with a packed weight.
    PackedLinear,
    /// A convolution with a packed weight.
    PackedConvolved,
    /// Not told: only the element type is.
    Untold,
}

/// The element type of results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Element {
    /// That of the first tensor.
    Same,
    /// That of all tensors, which is one.
    Common,
    /// That of the first tensor; whole numbers become the default type of reals.
    Real,
    /// The complex type whose parts are of the type of the first tensor.
    Complex,
    /// That of the parts of the first tensor: `abs`, `norm`.
    Parts,
    /// What arithmetic with all tensors and numbers makes.
    Promoted,
    /// The same, where 1.3 had other rules for unequal types: there only of equal ones.
    Settled,
    /// The same, and whole numbers become reals from 1.5 on.
    Divided,
    /// Arithmetic that makes reals of whole numbers from 1.5 on, and refused them before.
    Angle,
    /// Long for whole numbers, else that of the first tensor.
    Summed,
    /// Long for truth values, else that of the first tensor.
    Squared,
    /// Bool.
    Bool,
    /// Bool, and Byte for Byte.
    Flag,
    /// Long.
    Long,
    /// Long, or Int where that is asked for.
    Places,
    /// That of the first tensor, or Float of Half where `half_to_float` is true.
    Widened,
    /// `float_power`: doubles, or complex numbers of doubles.
    Power,
    /// That of the tensor operand of this name.
    Of(&'static str),
    /// This one.
    Fixed(DType),
    /// That of the first tensor; floating point of integers, and that of the parts of complex.
    RealParts,
    /// What arithmetic with all tensors makes, and that of the parts of complex.
    Distance,
    /// The one that a softmax had as its input: the number `input_dtype`, or that of `self`.
    OfInput,
    /// Float for halves where `cpu_enabled` is true.
    FullPrecision,
    /// `cpu_dtype` for Float where `cpu_enabled` is true.
    ReducedPrecision,
    /// Long, or what sums of weights are.
    OfWeights,
    /// That of numbers in nested lists.
    OfData,
    /// The one that holds the integers of a quantised tensor.
    Stored,
    /// That of the weight that was packed into an object.
    PackedWeight,
    /// The quantised one that is held in integers of the type of the first tensor.
    Quantised,
    /// That of the weight of a norm, where there is one, else that of its input.
    OfParameter,
    /// That of the target of a loss, or what arithmetic makes where that is no float.
    OfTarget,
    /// As [`Element::Angle`], and that of the first tensor where there is nothing to integrate.
    Integrated,
    /// That of the first tensor where it keeps its sizes, else as [`Element::Summed`].
    SummedTo,
    /// One rule for each result.
    Each(&'static [Element]),
    /// Statistics of a norm: those of halves with weights of floats are floats.
    Statistics,
    /// Operand 0 as in [`Element::Same`], and Long for the other results.
    WithIndex,
    /// That of the second tensor: `type_as`.
    Second,
    /// What arithmetic with all tensors but the first makes: `where`.
    Chosen,
    /// The one in the name: `_cast_Double`.
    Named,
    /// What a factory makes when nothing is said: the default type of reals.
    Default,
    /// The one that the number given has, reals being of the default type.
    OfNumber,
    /// The one that the number given has, reals being doubles.
    OfWideNumber,
}

/// How much of the facts PyTorch tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Nothing.
    Nothing,
    /// Element type, rank and device.
    Rank,
    /// That, and whether a gradient is wanted.
    RankGrad,
    /// All but whether a gradient is wanted, where it could run the operator to find out.
    All,
    /// All.
    AllGrad,
}

/// When which part is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Told {
    /// Where everything is known of all tensors that go in.
    pub complete: Part,
    /// Where only element type and rank are.
    pub ranked: Part,
}

/// One row.
#[derive(Clone, Copy, Debug)]
pub struct ShapeRow {
    /// What it is about: `aten::max`, `aten::max:other`.
    pub overloads: &'static [&'static str],
    /// The sizes.
    pub shape: Shape,
    /// The element type.
    pub element: Element,
    /// What PyTorch from 1.5 on tells.
    told: Told,
    /// What it tells of overloads that take one tensor, where that differs.
    told_alone: Option<Told>,
    /// What PyTorch up to 1.4 tells.
    told_before: Told,
    /// Whether results never take part in differentiation.
    pub detached: bool,
    /// Why values of operands decide about sizes, where they do.
    pub by_values: Option<ByValues>,
}

/// When values of operands, not their types, decide about sizes.
#[derive(Clone, Copy, Debug)]
pub struct ByValues {
    /// Why.
    pub why: &'static str,
    /// When.
    pub when: When,
}

/// Operands of which values decide about sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// Any.
    Always,
    /// Those where a mask is among the indices.
    Masked,
    /// Those where this operand is a tensor and `output_size` is not given.
    Tensor(&'static str),
    /// Those where this number is negative.
    Negative(&'static str),
}

impl ShapeRow {
    /// The same but for the sizes.
    pub fn with_shape(self, shape: Shape) -> ShapeRow {
        ShapeRow { shape, ..self }
    }

    /// How much PyTorch tells of the facts of an overload.
    pub fn told(&self, era: Era, schema: &Schema) -> Told {
        let alone = schema.formals.iter().filter(|formal| formal.ty.is_tensor()).count() == 1;
        match era {
            _ if alone && self.told_alone.is_some() => self.told_alone.unwrap_or(self.told),
            Era::V1_3 => self.told_before,
            Era::V2 => self.told,
        }
    }

    /// Whether it is about this overload.
    fn fits(&self, schema: &Schema) -> bool {
        self.overloads.iter().any(|name| match name.rsplit_once(':').filter(|(kind, _)| !kind.ends_with(':')) {
            Some((kind, formal)) => kind == schema.kind.as_str() && schema.formal(formal).is_some(),
            None => *name == schema.kind.as_str(),
        })
    }

    const fn told_as(self, told: Told) -> ShapeRow {
        ShapeRow { told, told_before: told, ..self }
    }

    /// Unknown to PyTorch up to 1.4.
    const fn since_2(self) -> ShapeRow {
        ShapeRow { told_before: told(Part::Nothing, Part::Nothing), ..self }
    }

    const fn alone(self, told: Told) -> ShapeRow {
        ShapeRow { told_alone: Some(told), ..self }
    }

    /// The sizes follow from the elements of operands, which no type tells.
    const fn by_values(self, why: &'static str) -> ShapeRow {
        self.by_values_when(When::Always, why)
    }

    /// The same, for some operands.
    const fn by_values_when(self, when: When, why: &'static str) -> ShapeRow {
        ShapeRow { by_values: Some(ByValues { why, when }), ..self }
    }

    const fn detached(self) -> ShapeRow {
        ShapeRow { detached: true, ..self }
    }
}

const fn told(complete: Part, ranked: Part) -> Told {
    Told { complete, ranked }
}

const fn row(overloads: &'static [&'static str], shape: Shape, element: Element) -> ShapeRow {
    let nothing = told(Part::Nothing, Part::Nothing);
    ShapeRow {
        overloads,
        shape,
        element,
        told: nothing,
        told_alone: None,
        told_before: nothing,
        detached: false,
        by_values: None,
    }
}

/// The row of an overload. The first question for an overload walks the table, later ones find the answer of the thread.
pub fn shape_row(schema: &'static Schema) -> Option<&'static ShapeRow> {
    thread_local! {
        static SEEN: RefCell<FxHashMap<*const Schema, Option<&'static ShapeRow>>> = RefCell::default();
    }
    SEEN.with_borrow_mut(|seen| *seen.entry(schema).or_insert_with(|| SHAPES.iter().find(|row| row.fits(schema))))
}

/// A formula of PyTorch for one tensor of known rank.
const RANK: Told = told(Part::RankGrad, Part::RankGrad);
/// A formula for several.
const RANKS: Told = told(Part::Rank, Part::Rank);
/// Run on made-up tensors when everything is known of the operands.
const RUN: Told = told(Part::All, Part::Rank);
/// A formula for sizes, else one for the rank.
const SIZES: Told = told(Part::AllGrad, Part::RankGrad);
/// A formula for sizes that forgets gradients.
const FRESH: Told = told(Part::All, Part::RankGrad);
/// A formula for sizes only.
const ONLY_SIZES: Told = told(Part::AllGrad, Part::Nothing);

/// The table.
#[rustfmt::skip]
pub const SHAPES: &[ShapeRow] = &{
    use Element::{self as E, Bool, Common, Default, Divided, Flag, Long, Parts, Promoted, Real, Same, Second, Settled, Summed, WithIndex};
    use Shape as S;
    [
        // One by one.
        row(&["aten::neg"], S::Like, Same).told_as(SIZES),
        row(&["aten::sigmoid", "aten::tanh"], S::Like, Real).told_as(SIZES),
        row(&["aten::abs"], S::Like, Parts).told_as(RANK),
        row(&["aten::acos", "aten::asin", "aten::atan", "aten::cos", "aten::cosh", "aten::sin", "aten::sinh", "aten::tan"], S::Like, Real)
            .told_as(RANK),
        row(&["aten::exp", "aten::expm1", "aten::log", "aten::log10", "aten::log1p", "aten::log2", "aten::sqrt", "aten::rsqrt"], S::Like, Real)
            .told_as(RANK),
        row(&["aten::erf", "aten::erfc", "aten::erfinv", "aten::lgamma", "aten::digamma", "aten::reciprocal", "aten::mvlgamma"], S::Like, Real)
            .told_as(RANK),
        row(&["aten::acosh", "aten::asinh", "aten::atanh", "aten::deg2rad", "aten::rad2deg", "aten::sinc", "aten::exp2", "aten::i0"], S::Like, Real),
        row(&["aten::special_entr", "aten::special_erf", "aten::special_expit", "aten::special_expm1", "aten::special_log1p"], S::Like, Real),
        row(&["aten::special_i0", "aten::special_i0e", "aten::special_i1", "aten::special_i1e", "aten::special_ndtri", "aten::special_log_ndtr"], S::Like, Real),
        row(&["aten::fake_quantize_per_tensor_affine", "aten::fake_quantize_per_channel_affine"], S::Like, Same),
        row(&["aten::logit"], S::Like, Real).told_as(SIZES).since_2(),
        row(&["aten::ceil", "aten::floor", "aten::round", "aten::trunc", "aten::frac", "aten::relu"], S::Like, Same).told_as(RANK),
        row(&["aten::sign", "aten::leaky_relu", "aten::elu", "aten::selu", "aten::celu"], S::Like, Same).told_as(RANK),
        row(&["aten::hardshrink", "aten::softshrink", "aten::hardtanh", "aten::threshold", "aten::softplus"], S::Like, Same).told_as(RANK),
        row(&["aten::log_sigmoid", "aten::rrelu", "aten::prelu"], S::Like, Same).told_as(RANK),
        row(&["aten::hardswish", "aten::gelu"], S::Like, Same).told_as(RANK).since_2(),
        row(&["aten::relu6", "aten::silu", "aten::mish", "aten::hardsigmoid", "aten::positive", "aten::fix"], S::Like, Same),
        row(&["aten::square"], S::Like, Element::Squared),
        row(&["aten::bitwise_not", "aten::conj", "aten::sgn", "aten::nan_to_num", "aten::fill"], S::Like, Same),
        row(&["aten::clamp:self", "aten::clamp_min", "aten::clamp_max"], S::Broadcast, Settled).told_as(RANK),
        row(&["aten::dropout", "aten::alpha_dropout", "aten::feature_dropout", "aten::feature_alpha_dropout"], S::Like, Same).told_as(RANK),
        row(&["aten::bernoulli"], S::Like, Same).told_as(RANK),
        row(&["aten::isnan", "aten::isinf", "aten::isfinite", "aten::logical_not", "aten::isneginf", "aten::isposinf", "aten::signbit"], S::Like, Bool)
            .detached(),
        row(&["aten::clone"], S::Like, Same).told_as(RANK),
        row(&["aten::contiguous", "aten::alias", "aten::pin_memory"], S::Itself, Same).told_as(RANK),
        row(&["aten::detach"], S::Itself, Same).told_as(RANK).detached(),
        row(&["aten::flip", "aten::tril", "aten::triu"], S::Like, Same).told_as(RANK),
        row(&["aten::roll"], S::Like, Same),
        row(&["aten::inverse"], S::Of("self"), Same).told_as(RANK),
        row(&["aten::pinverse"], S::RankOnly, Same).told_as(RANK),
        row(&["aten::glu"], S::Halved, Same).told_as(RANK),
        row(&["aten::rot90"], S::Rotated, Same).told_as(RANK),
        row(&["aten::cumsum", "aten::cumprod"], S::Like, Summed).told_as(SIZES),
        row(&["aten::logcumsumexp"], S::Like, Real),
        row(&["aten::softmax", "aten::log_softmax"], S::Like, Same).told_as(SIZES),
        row(&["aten::_softmax", "aten::_log_softmax"], S::Like, E::Widened),
        row(&["aten::softmin"], S::Like, Same),
        row(&["aten::_cast_Byte", "aten::_cast_Char", "aten::_cast_Double", "aten::_cast_Float", "aten::_cast_Half"], S::Like, E::Named)
            .told_as(SIZES),
        row(&["aten::_cast_Int", "aten::_cast_Long", "aten::_cast_Short"], S::Like, E::Named).told_as(SIZES),
        row(&["aten::type_as"], S::Like, Second).told_as(SIZES),
        row(&["aten::to:dtype"], S::Like, Same),
        row(&["aten::to:other"], S::Like, Second),
        row(&["aten::masked_fill"], S::Broadcast, Same),
        row(&["aten::index_fill", "aten::index_add", "aten::index_copy", "aten::scatter", "aten::scatter_add"], S::Like, Same),
        // Broadcasting.
        row(&["aten::add", "aten::sub", "aten::mul"], S::Broadcast, Promoted).told_as(RUN).alone(SIZES),
        row(&["aten::div"], S::Broadcast, Divided).told_as(RUN).alone(SIZES),
        row(&["aten::true_divide"], S::Broadcast, E::Angle).told_as(RUN).alone(SIZES),
        row(&["aten::rsub", "aten::floor_divide"], S::Broadcast, Promoted),
        row(&["aten::pow", "aten::max:other", "aten::min:other"], S::Broadcast, Settled).told_as(RUN).alone(SIZES),
        row(&["aten::fmod", "aten::remainder", "aten::__and__", "aten::__or__", "aten::__xor__"], S::Broadcast, Settled).told_as(RANKS).alone(RANK),
        row(&["aten::__lshift__", "aten::__rshift__"], S::Broadcast, Settled).told_as(RANKS).alone(RANK),
        row(&["aten::addcmul", "aten::addcdiv"], S::Broadcast, Settled).told_as(RANKS).alone(RANK),
        row(&["aten::lerp"], S::Broadcast, Common).told_as(RANKS),
        row(&["aten::atan2"], S::Broadcast, E::Angle).told_as(RANKS),
        row(&["aten::maximum", "aten::minimum", "aten::fmax", "aten::fmin"], S::Broadcast, Settled),
        row(&["aten::bitwise_and", "aten::bitwise_or", "aten::bitwise_xor"], S::Broadcast, Settled),
        row(&["aten::hypot"], S::Broadcast, Settled),
        row(&["aten::complex", "aten::polar"], S::Broadcast, E::Complex),
        row(&["aten::_add_relu"], S::Broadcast, Promoted),
        row(&["aten::eq", "aten::ne", "aten::lt", "aten::le", "aten::gt", "aten::ge"], S::Broadcast, Bool).told_as(RUN).alone(RANK).detached(),
        row(&["aten::logical_and", "aten::logical_or", "aten::logical_xor"], S::Broadcast, Bool).detached(),
        row(&["aten::where:self"], S::Broadcast, E::Chosen).told_as(RANKS),
        row(&["aten::where", "aten::nonzero_numpy"], S::Untold, Long).by_values("elements that are not 0 are counted"),
        row(&["aten::_s_where"], S::Broadcast, E::Chosen),
        // Reductions.
        row(&["aten::sum:dim"], S::Reduce, Summed).told_as(ONLY_SIZES),
        row(&["aten::sum"], S::Reduce, Summed).told_as(SIZES),
        row(&["aten::prod"], S::Reduce, Summed).told_as(RANK),
        row(&["aten::mean:dim", "aten::amax", "aten::amin"], S::Reduce, Same),
        row(&["aten::logsumexp"], S::Reduce, Real),
        row(&["aten::mean"], S::Reduce, Same).told_as(RANK),
        row(&["aten::norm:dim", "aten::std:dim", "aten::var:dim", "aten::frobenius_norm:dim"], S::Reduce, Parts),
        row(&["aten::norm", "aten::std", "aten::var"], S::Reduce, Parts).told_as(RANK),
        row(&["aten::all:dim", "aten::any:dim"], S::ReduceListed, Flag).told_as(RANK).detached(),
        row(&["aten::all", "aten::any"], S::Reduce, Flag).told_as(RANK).detached(),
        row(&["aten::argmax", "aten::argmin"], S::Reduce, Long).told_as(RANK).detached(),
        row(&["aten::max:dim", "aten::min:dim", "aten::median:dim"], S::Reduce, WithIndex).told_as(RANK),
        row(&["aten::mode", "aten::kthvalue"], S::Reduce, WithIndex).told_as(RANK),
        row(&["aten::max", "aten::min", "aten::median"], S::Scalar, Same).told_as(RANK),
        row(&["aten::nanmedian:dim"], S::Reduce, WithIndex).told_as(RANK).since_2(),
        row(&["aten::nanmedian"], S::Scalar, Same).told_as(RANK).since_2(),
        row(&["aten::trace"], S::Scalar, Summed).told_as(RANK),
        row(&["aten::det", "aten::logdet"], S::Determinant, Same).told_as(RANK),
        row(&["aten::dot"], S::Scalar, Common).told_as(RANK),
        row(&["aten::dist"], S::Scalar, Settled).told_as(RANK),
        row(&["aten::sort", "aten::cummax", "aten::cummin"], S::Like, WithIndex),
        row(&["aten::topk"], S::TopK, WithIndex),
        row(&["aten::argsort"], S::Like, Long).detached(),
        row(&["aten::count_nonzero"], S::Reduce, Long).detached(),
        row(&["aten::one_hot"], S::OneHot, Long).detached().by_values_when(When::Negative("num_classes"), "the largest element is looked for"),
        row(&["aten::linalg_matrix_rank"], S::Untold, Long).detached(),
        row(&["aten::argwhere"], S::Counted(2), Long).detached().by_values("elements that are not 0 are counted"),
        row(&["aten::multinomial"], S::Sampled, Long).detached(),
        row(&["aten::randperm"], S::Counting("n"), Long).detached(),
        row(&["aten::tril_indices"], S::Triangle(true), Long).detached(),
        row(&["aten::triu_indices"], S::Triangle(false), Long).detached(),
        row(&["aten::searchsorted", "aten::bucketize"], S::OfOrNumber("self"), E::Places).detached(),
        row(&["aten::isin:element", "aten::isin:elements"], S::OfOrNumber("elements"), Bool).detached(),
        row(&["aten::isreal"], S::Like, Bool).detached(),
        row(&["aten::nonzero_static"], S::Places, Long).detached(),
        row(&["aten::bincount"], S::Counted(1), E::OfWeights).detached().by_values("the largest element is looked for"),
        row(&["aten::histc"], S::Counting("bins"), Same).detached(),
        row(&["aten::isclose", "aten::greater", "aten::greater_equal", "aten::less", "aten::less_equal", "aten::not_equal"], S::Broadcast, Bool).detached(),
        row(&["aten::_unique", "aten::_unique2", "aten::unique_dim", "aten::unique_consecutive", "aten::unique_dim_consecutive"], S::Untold, WithIndex).by_values("elements that differ are counted"),
        row(&["aten::max_pool1d_with_indices", "aten::max_pool2d_with_indices", "aten::max_pool3d_with_indices"], S::Pooled, WithIndex),
        row(&["aten::adaptive_max_pool1d", "aten::adaptive_max_pool2d", "aten::adaptive_max_pool3d"], S::Resized, WithIndex),
        row(&["aten::fractional_max_pool2d", "aten::fractional_max_pool3d"], S::Untold, WithIndex),
        // Views.
        row(&["aten::t"], S::Transposed, Same).told_as(SIZES),
        row(&["aten::transpose", "aten::permute"], S::Transposed, Same).told_as(RANK),
        row(&["aten::numpy_T", "aten::swapaxes", "aten::swapdims"], S::Transposed, Same),
        row(&["aten::view:size"], S::Reshaped, Same).told_as(SIZES),
        row(&["aten::view:dtype"], S::Retyped, Same),
        row(&["aten::view_as_complex"], S::PairsJoined, E::Complex),
        row(&["aten::view_as_real"], S::PairsSplit, Parts),
        row(&["aten::movedim", "aten::moveaxis"], S::Moved, Same),
        row(&["aten::ravel"], S::Raveled, Same),
        row(&["aten::cpu", "aten::cuda"], S::Itself, Same),
        row(&["aten::_autocast_to_full_precision"], S::Itself, E::FullPrecision),
        row(&["aten::_autocast_to_reduced_precision"], S::Itself, E::ReducedPrecision),
        row(&["aten::as_tensor:t", "aten::tensor:t"], S::Scalar, E::OfData).detached(),
        row(&["aten::tensor"], S::Data, E::OfData).detached(),
        row(&["aten::as_tensor"], S::Data, E::OfData),
        row(&["aten::reshape"], S::Reshaped, Same).told_as(RANK),
        row(&["aten::view_as", "aten::reshape_as"], S::AsOther, Same).told_as(RANK),
        row(&["aten::expand_as"], S::AsOther, Same).told_as(RANK),
        row(&["aten::expand"], S::Expanded, Same).told_as(SIZES),
        row(&["aten::select"], S::Selected, Same).told_as(RANK),
        row(&["aten::slice:dim"], S::Sliced, Same).told_as(RANK),
        row(&["aten::narrow:length"], S::Sliced, Same).told_as(SIZES),
        row(&["aten::unsqueeze"], S::Unsqueezed, Same).told_as(SIZES),
        row(&["aten::squeeze:dim"], S::Squeezed, Same).told_as(ONLY_SIZES),
        row(&["aten::squeeze"], S::Squeezed, Same),
        row(&["aten::flatten:start_dim"], S::Flattened, Same),
        row(&["aten::unfold"], S::Unfolded, Same).told_as(RANK),
        row(&["aten::diagonal"], S::Diagonal, Same).told_as(RANK),
        row(&["aten::diag"], S::Diag, Same).told_as(RANK),
        row(&["aten::diagflat"], S::Matrix, Same).told_as(RANK),
        row(&["aten::repeat"], S::Repeated, Same).told_as(RANK),
        row(&["aten::as_strided"], S::Reshaped, Same).told_as(RANK),
        // Products.
        row(&["aten::mm"], S::Product, Common).told_as(FRESH),
        row(&["aten::bmm"], S::Product, Common).told_as(SIZES),
        row(&["aten::matmul"], S::Matmul, Common).told_as(SIZES),
        row(&["aten::mv"], S::Matmul, Common).told_as(RANK),
        row(&["aten::addmm", "aten::baddbmm"], S::AddedProduct, Common).told_as(RANK),
        row(&["aten::addmv"], S::AddedProduct, Common).told_as(RANK),
        row(&["aten::addbmm"], S::ReducedProduct, Common).told_as(RANK),
        row(&["aten::addr"], S::Outer, Settled).told_as(RANK),
        row(&["aten::ger", "aten::outer"], S::Outer, Settled),
        row(&["aten::linear"], S::Linear, Common),
        row(&["aten::bilinear"], S::Bilinear, Common).told_as(RANK),
        row(&["aten::vdot"], S::Scalar, Common),
        row(&["aten::chain_matmul", "aten::linalg_multi_dot"], S::Chained, Common),
        row(&["aten::tensordot"], S::Contracted, Common),
        row(&["aten::einsum:equation"], S::Einsum, Common),
        row(&["aten::cross", "aten::linalg_cross"], S::Broadcast, Promoted),
        row(&["aten::cov", "aten::corrcoef"], S::Correlated, Real),
        row(&["aten::vander", "aten::linalg_vander"], S::Vandermonde, Summed),
        // Matrices.
        row(&["aten::linalg_inv"], S::Of("A"), Same),
        row(&["aten::cholesky", "aten::linalg_cholesky", "aten::matrix_power", "aten::linalg_matrix_power"], S::Of("self"), Same),
        row(&["aten::linalg_det"], S::Determinant, Same),
        row(&["aten::slogdet", "aten::linalg_slogdet"], S::Determinant, E::Each(&[Same, Parts])),
        row(&["aten::linalg_solve"], S::SolvedSystem, Same),
        row(&["aten::linalg_solve_triangular"], S::Solved("self", "B"), Same),
        row(&["aten::cholesky_solve"], S::Solved("input2", "self"), Same),
        row(&["aten::triangular_solve"], S::Each(&[S::Solved("A", "self"), S::Solved("self", "A")]), Same),
        // Several in one.
        row(&["aten::cat:dim", "prim::FusedConcat"], S::Concatenated, Promoted).told_as(SIZES),
        row(&["aten::stack"], S::Stacked, Promoted),
        row(&["aten::hstack"], S::Joined(1), Promoted),
        row(&["aten::vstack", "aten::row_stack"], S::Joined(2), Promoted),
        row(&["aten::dstack"], S::Joined(3), Promoted),
        row(&["aten::column_stack"], S::Columnar, Promoted),
        row(&["aten::block_diag"], S::BlockDiagonal, Promoted),
        row(&["aten::cartesian_prod"], S::CartesianProduct, Promoted),
        row(&["aten::combinations"], S::Combined, Same),
        // By index.
        row(&["aten::index_select"], S::IndexSelected, Same).told_as(SIZES),
        row(&["aten::gather:sparse_grad", "aten::take"], S::AsIndex, Same).told_as(RANK),
        row(&["aten::embedding"], S::Embedded, Same).told_as(RANK),
        row(&["aten::nonzero"], S::Counted(2), Long).told_as(RANK).detached().by_values("elements that are not 0 are counted"),
        row(&["aten::masked_select"], S::Counted(1), Same).told_as(RANK).by_values("elements of the mask are counted"),
        // Made from numbers.
        row(&["aten::zeros:size", "aten::ones:size", "aten::rand:size", "aten::randn:size", "aten::empty:size"], S::Given, Default).told_as(RANKS).detached(),
        row(&["aten::full:size"], S::Given, E::OfNumber).told_as(RANKS).detached(),
        row(&["aten::randint:size"], S::Given, Long).told_as(RANKS).detached(),
        row(&["aten::zeros_like", "aten::ones_like", "aten::full_like", "aten::empty_like"], S::Like, Same).told_as(RANKS).detached(),
        row(&["aten::rand_like", "aten::randn_like", "aten::randint_like"], S::Like, Same).told_as(RANKS).detached(),
        row(&["prim::NumToTensor"], S::Scalar, E::OfWideNumber).told_as(RANKS).detached(),
        row(&["aten::arange"], S::Range, E::OfNumber).detached(),
        row(&["aten::range"], S::ClosedRange, Default).detached(),
        row(&["aten::normal:size"], S::Given, Default).detached(),
        row(&["aten::_shape_as_tensor"], S::RankVector, Long).detached(),
        row(&["aten::eye"], S::Identity, Default).detached(),
        row(&["aten::new_zeros", "aten::new_ones", "aten::new_full", "aten::new_empty"], S::Given, Same).detached(),
        row(&["aten::_grad_sum_to_size"], S::Given, Same),
        // Layers.
        row(&["aten::batch_norm"], S::Like, Same).told_as(RANK),
        row(&["aten::layer_norm", "aten::group_norm", "aten::instance_norm"], S::Like, Same),
        row(&["aten::conv1d", "aten::conv2d", "aten::conv3d"], S::Convolved, Same).told_as(RANK),
        row(&["aten::convolution", "aten::_convolution"], S::Convolved, Same).told_as(RANK),
        row(&["aten::conv_transpose1d", "aten::conv_transpose2d", "aten::conv_transpose3d"], S::Convolved, Same).told_as(RANK),
        row(&["aten::conv_tbc"], S::RankOnly, Same).told_as(RANK),
        row(&["aten::_convolution_mode", "aten::convolution_overrideable", "aten::mkldnn_convolution"], S::Convolved, Same),
        row(&["aten::_slow_conv2d_forward", "aten::thnn_conv2d", "aten::slow_conv3d", "aten::_conv_depthwise2d"], S::Convolved, Same),
        row(&["aten::convolution_backward", "aten::convolution_backward_overrideable"],
            S::Each(&[S::Of("input"), S::Of("weight"), S::Channels("grad_output")]), E::Of("input")),
        row(&["aten::im2col", "aten::col2im_backward"], S::Columns, Same),
        row(&["aten::col2im", "aten::im2col_backward"], S::FromColumns, Same),
        row(&["aten::affine_grid_generator"], S::Grid, Same),
        row(&["aten::grid_sampler", "aten::grid_sampler_2d", "aten::grid_sampler_3d"], S::GridSampled, Same),
        row(&["aten::grid_sampler_2d_backward", "aten::grid_sampler_3d_backward"], S::Each(&[S::Of("input"), S::Of("grid")]), Same),
        row(&["aten::_adaptive_avg_pool2d", "aten::_adaptive_avg_pool3d"], S::Resized, Same),
        row(&["aten::_pad_circular"], S::Padded, Same),
        row(&["aten::avg_pool1d", "aten::avg_pool2d", "aten::avg_pool3d"], S::Pooled, Same).told_as(RANK),
        row(&["aten::max_pool1d", "aten::max_pool2d", "aten::max_pool3d"], S::Pooled, Same).told_as(RANK),
        row(&["aten::max_unpool2d", "aten::max_unpool3d"], S::Resized, Same).told_as(RANK),
        row(&["aten::adaptive_avg_pool1d", "aten::adaptive_avg_pool2d", "aten::adaptive_avg_pool3d"], S::Resized, Same).told_as(RANK),
        row(&["aten::reflection_pad1d", "aten::reflection_pad2d", "aten::replication_pad1d"], S::Padded, Same).told_as(RANK),
        row(&["aten::replication_pad2d", "aten::replication_pad3d"], S::Padded, Same).told_as(RANK),
        row(&["aten::reflection_pad3d"], S::Padded, Same).told_as(RANK).since_2(),
        row(&["aten::constant_pad_nd", "aten::pad"], S::Padded, Same),
        row(&["aten::upsample_nearest1d:self", "aten::upsample_nearest2d:self", "aten::upsample_nearest3d:self"], S::Upsampled, Same).told_as(RANK),
        row(&["aten::upsample_linear1d:self", "aten::upsample_bilinear2d:self", "aten::upsample_trilinear3d:self"], S::Upsampled, Same).told_as(RANK),
        row(&["aten::upsample_nearest1d", "aten::upsample_nearest2d", "aten::upsample_nearest3d", "aten::upsample_linear1d"], S::Upsampled, Same),
        row(&["aten::upsample_bilinear2d", "aten::upsample_trilinear3d", "aten::upsample_bicubic2d"], S::Upsampled, Same),
        row(&["aten::_upsample_nearest_exact1d", "aten::_upsample_nearest_exact2d", "aten::_upsample_nearest_exact3d"], S::Upsampled, Same),
        row(&["aten::_upsample_bicubic2d_aa", "aten::_upsample_bilinear2d_aa", "aten::_upsample_lanczos2d_aa"], S::Upsampled, Same),
        row(&["aten::__interpolate", "aten::__upsample", "aten::__upsample_bilinear", "aten::__upsample_nearest"], S::Upsampled, Same),
        // Elements with elements, without facts from PyTorch.
        row(&["aten::xlogy", "aten::special_xlogy", "aten::special_xlog1py", "aten::special_zeta", "aten::arctan2", "aten::ldexp"], S::Broadcast, E::Angle),
        row(&["aten::copysign"], S::Broadcast, E::Angle),
        row(&["aten::float_power"], S::Broadcast, E::Power),
        row(&["aten::logaddexp", "aten::logaddexp2", "aten::nextafter", "aten::gcd", "aten::lcm", "aten::heaviside"], S::Broadcast, Settled),
        row(&["aten::subtract", "aten::multiply"], S::Broadcast, Promoted),
        row(&["aten::divide"], S::Broadcast, Divided),
        row(&["aten::bitwise_left_shift", "aten::bitwise_right_shift", "aten::special_xlogy"], S::Broadcast, Settled),
        row(&["aten::clip", "aten::clamp"], S::Broadcast, Settled),
        row(&["aten::tanh_backward", "aten::sigmoid_backward", "aten::silu_backward", "aten::gelu_backward", "aten::mish_backward"], S::Broadcast, Settled),
        row(&["aten::hardtanh_backward", "aten::hardswish_backward", "aten::hardsigmoid_backward", "aten::leaky_relu_backward"], S::Broadcast, Settled),
        row(&["aten::elu_backward", "aten::threshold_backward", "aten::hardshrink_backward", "aten::softshrink_backward"], S::Broadcast, Settled),
        row(&["aten::softplus_backward", "aten::logit_backward", "aten::log_sigmoid_backward"], S::Broadcast, Settled),
        // One by one, without facts from PyTorch.
        row(&["aten::arccos", "aten::arccosh", "aten::arcsin", "aten::arcsinh", "aten::arctan", "aten::arctanh", "aten::special_sinc"], S::Like, Real),
        row(&["aten::special_exp2"], S::Like, Real),
        row(&["aten::special_log_softmax", "aten::special_softmax"], S::Like, Same),
        row(&["aten::absolute"], S::Like, Parts),
        row(&["aten::negative", "aten::conj_physical", "aten::_conj", "aten::_neg_view", "aten::resolve_conj", "aten::resolve_neg"], S::Like, Same),
        row(&["aten::alias_copy", "aten::detach_copy", "aten::lift", "aten::lift_fresh", "aten::lift_fresh_copy", "aten::zero"], S::Like, Same),
        row(&["prim::data", "aten::_to_copy", "aten::to", "aten::fliplr", "aten::flipud", "aten::msort"], S::Like, Same),
        row(&["aten::renorm", "aten::channel_shuffle", "aten::poisson", "aten::normal_functional", "aten::uniform", "aten::exponential"], S::Like, Same),
        row(&["aten::geometric", "aten::cauchy", "aten::log_normal", "aten::random"], S::Like, Same),
        row(&["aten::copy", "aten::slice_scatter", "aten::select_scatter", "aten::diagonal_scatter", "aten::as_strided_scatter"], S::Like, Same),
        row(&["aten::index_put", "aten::_unsafe_index_put", "aten::index_reduce", "aten::scatter_reduce", "aten::put"], S::Like, Same),
        row(&["aten::rms_norm", "aten::prelu"], S::Like, Same),
        row(&["aten::_prelu_kernel", "aten::native_dropout_backward", "aten::_masked_scale", "aten::_weight_norm"], S::Broadcast, Same),
        row(&["aten::masked_scatter"], S::BroadcastFirst(2), Same),
        row(&["aten::fake_quantize_per_tensor_affine_cachemask_backward", "aten::fake_quantize_per_channel_affine_cachemask_backward"], S::Broadcast, Promoted),
        row(&["aten::fake_quantize_per_tensor_affine_cachemask", "aten::fake_quantize_per_channel_affine_cachemask"], S::Like, E::Each(&[Same, Bool])),
        row(&["aten::_fake_quantize_per_tensor_affine_cachemask_tensor_qparams"], S::Like, E::Each(&[Same, Bool])),
        row(&["aten::_fused_dropout"], S::Like, E::Each(&[Same, E::Fixed(DType::Byte)])),
        row(&["aten::normal:std", "aten::normal:mean"], S::Broadcast, Same),
        row(&["aten::diff"], S::Differences, Promoted),
        row(&["aten::trapezoid", "aten::trapz"], S::Integrated(false), E::Integrated),
        row(&["aten::cumulative_trapezoid"], S::Integrated(true), E::Angle),
        // Quantised tensors.
        row(&["quantized::add", "quantized::add_relu", "quantized::mul", "quantized::mul_relu"], S::Broadcast, Same),
        row(&["quantized::hardswish", "quantized::leaky_relu", "quantized::relu6", "quantized::sigmoid"], S::Like, Same),
        row(&["quantized::batch_norm2d", "quantized::batch_norm2d_relu"], S::Like, Same),
        row(&["quantized::cat", "quantized::cat_relu"], S::Concatenated, Common),
        row(&["quantized::linear", "quantized::linear_relu", "_quantized::linear"], S::PackedLinear, Same),
        row(&["quantized::linear_dynamic", "quantized::linear_relu_dynamic", "_quantized::linear_dynamic"], S::PackedLinear, Same),
        row(&["quantized::linear_dynamic_fp16", "quantized::linear_relu_dynamic_fp16"], S::PackedLinear, E::Fixed(DType::Float)),
        row(&["quantized::conv1d", "quantized::conv1d_relu", "quantized::conv2d", "quantized::conv2d_relu"], S::PackedConvolved, Same),
        row(&["_quantized::conv2d", "_quantized::conv2d_relu"], S::PackedConvolved, Same),
        row(&["quantized::conv1d_unpack", "quantized::conv2d_unpack"], S::PackedWeight, E::PackedWeight),
        row(&["quantized::linear_unpack", "quantized::linear_unpack_fp16"], S::PackedWeight, E::PackedWeight),
        row(&["aten::q_per_channel_scales"], S::Counted(1), E::Fixed(DType::Double)).detached().by_values("no type tells the axis of scales"),
        row(&["aten::q_per_channel_zero_points"], S::Counted(1), Long).detached().by_values("no type tells the axis of scales"),
        row(&["aten::dequantize:tensors", "aten::dequantize:qtensors"], S::EachLike, E::Fixed(DType::Float)),
        row(&["aten::dequantize"], S::Like, E::Fixed(DType::Float)),
        row(&["aten::int_repr"], S::Like, E::Stored).detached(),
        row(&["aten::quantize_per_tensor:tensors"], S::EachLike, Same),
        row(&["aten::quantize_per_tensor", "aten::quantize_per_channel", "aten::quantize_per_tensor_dynamic"], S::Like, Same),
        row(&["aten::_make_per_tensor_quantized_tensor", "aten::_make_per_channel_quantized_tensor"], S::Like, E::Quantised),
        row(&["aten::_safe_softmax"], S::Like, Same),
        row(&["aten::real", "aten::imag"], S::Like, Parts),
        row(&["aten::angle"], S::Like, E::RealParts),
        row(&["aten::native_dropout"], S::Like, E::Each(&[Same, Bool])),
        row(&["aten::log_sigmoid_forward"], S::Like, Same),
        // Gradients of operands.
        row(&["aten::_softmax_backward_data", "aten::_log_softmax_backward_data"], S::Of("grad_output"), E::OfInput),
        row(&["aten::mse_loss_backward", "aten::l1_loss_backward", "aten::smooth_l1_loss_backward", "aten::huber_loss_backward"], S::Broadcast, E::Of("self")),
        row(&["aten::kl_div_backward", "aten::binary_cross_entropy_backward"], S::Broadcast, E::Of("self")),
        row(&["aten::embedding_backward", "aten::embedding_dense_backward"], S::TableGradient, Same),
        row(&["aten::native_batch_norm_backward"], S::Each(&[S::Of("input"), S::Channels("input"), S::Channels("input")]), E::Of("input")),
        row(&["aten::_batch_norm_impl_index_backward"], S::Each(&[S::Of("input"), S::Channels("input"), S::Channels("input")]), E::Of("input")),
        row(&["aten::native_group_norm_backward"], S::Each(&[S::Of("input"), S::Channels("input"), S::Channels("input")]),
            E::Each(&[E::Of("input"), E::OfParameter, E::OfParameter])),
        row(&["aten::native_layer_norm_backward"], S::Each(&[S::Of("input"), S::NormalizedShape, S::NormalizedShape]),
            E::Each(&[E::Of("input"), E::OfParameter, E::OfParameter])),
        row(&["aten::ctc_loss"], S::SequenceLoss, Same),
        row(&["aten::_ctc_loss"], S::Each(&[S::Channels("log_probs"), S::Untold]), Same).by_values("lengths of targets decide about scores"),
        row(&["aten::_pack_padded_sequence", "aten::_pad_packed_sequence"], S::Untold, E::Each(&[Same, Long]))
            .by_values("lengths of sequences are summed"),
        row(&["aten::_native_multi_head_attention"], S::Each(&[S::Like, S::HeadWeights]), Same),
        row(&["aten::_transformer_encoder_layer_fwd"], S::Like, Same),
        row(&["aten::_ctc_loss_backward"], S::Of("log_probs"), Same),
        row(&["aten::slice_backward", "aten::select_backward", "aten::diagonal_backward"], S::Listed("input_sizes"), Same),
        row(&["aten::unfold_backward"], S::Listed("input_sizes"), Same),
        row(&["aten::upsample_nearest1d_backward", "aten::upsample_nearest2d_backward", "aten::upsample_nearest3d_backward"], S::Downsampled, Same),
        row(&["aten::_upsample_nearest_exact1d_backward", "aten::_upsample_nearest_exact2d_backward"], S::Downsampled, Same),
        row(&["aten::_upsample_nearest_exact3d_backward", "aten::upsample_bicubic2d_backward"], S::Downsampled, Same),
        row(&["aten::upsample_linear1d_backward", "aten::upsample_bilinear2d_backward", "aten::upsample_trilinear3d_backward"], S::Downsampled, Same),
        row(&["aten::_adaptive_avg_pool2d_backward", "aten::_adaptive_avg_pool3d_backward", "aten::adaptive_avg_pool3d_backward"], S::Of("self"), E::Of("self")),
        row(&["aten::adaptive_max_pool2d_backward", "aten::adaptive_max_pool3d_backward"], S::Of("self"), E::Of("self")),
        row(&["aten::avg_pool2d_backward", "aten::avg_pool3d_backward", "aten::max_pool2d_with_indices_backward"], S::Of("self"), E::Of("self")),
        row(&["aten::max_pool3d_with_indices_backward", "aten::nll_loss_backward", "aten::nll_loss2d_backward"], S::Of("self"), E::Of("self")),
        // Norms and losses.
        row(&["aten::native_layer_norm"], S::Each(&[S::Like, S::RowStatistics, S::RowStatistics]), E::Each(&[Same, E::Statistics, E::Statistics])),
        row(&["aten::native_batch_norm"], S::Each(&[S::Like, S::ChannelStatistics, S::ChannelStatistics]), E::Each(&[Same, E::Statistics, E::Statistics])),
        row(&["aten::native_group_norm"], S::Each(&[S::Like, S::GroupStatistics, S::GroupStatistics]), E::Each(&[Same, E::Statistics, E::Statistics])),
        row(&["aten::_native_batch_norm_legit", "aten::_native_batch_norm_legit_no_training"], S::Each(&[S::Like, S::ChannelStatistics, S::ChannelStatistics]),
            E::Each(&[Same, E::Statistics, E::Statistics])),
        row(&["aten::_batch_norm_impl_index"], S::Each(&[S::Like, S::ChannelStatistics, S::ChannelStatistics, S::Nothing]),
            E::Each(&[Same, E::Statistics, E::Statistics, E::Fixed(DType::Byte)])),
        row(&["aten::mse_loss", "aten::l1_loss", "aten::smooth_l1_loss"], S::Loss(2), Settled),
        row(&["aten::binary_cross_entropy", "aten::huber_loss", "aten::soft_margin_loss"], S::Loss(2), Same),
        row(&["aten::binary_cross_entropy_with_logits"], S::Loss(4), E::OfTarget),
        row(&["aten::kl_div", "aten::hinge_embedding_loss", "aten::poisson_nll_loss"], S::Loss(2), Settled),
        row(&["aten::margin_ranking_loss"], S::Loss(3), Settled),
        row(&["aten::nll_loss", "aten::nll_loss2d", "aten::nll_loss_nd", "aten::cross_entropy_loss", "aten::multi_margin_loss"], S::ClassLoss, Same),
        row(&["aten::nll_loss_forward", "aten::nll_loss2d_forward"], S::Each(&[S::ClassLoss, S::Scalar]), Same),
        row(&["aten::multilabel_margin_loss"], S::RowLoss, Same),
        row(&["aten::triplet_margin_loss"], S::DistanceLoss, E::Distance),
        row(&["aten::cosine_embedding_loss"], S::CosineLoss, Settled),
        // Reductions that PyTorch tells nothing of.
        row(&["aten::var_mean", "aten::std_mean"], S::Reduce, E::Each(&[Parts, Same])),
        row(&["aten::aminmax", "aten::_aminmax", "aten::nanmean"], S::Reduce, Same),
        row(&["aten::nansum"], S::Reduce, Summed),
        row(&["aten::linalg_vector_norm", "aten::linalg_matrix_norm", "aten::linalg_norm", "aten::native_norm"], S::Reduce, Parts),
        row(&["aten::max_values", "aten::min_values"], S::Reduce, Same),
        row(&["aten::quantile", "aten::nanquantile"], S::Quantiles, Same),
        row(&["aten::norm_except_dim"], S::ReducedExcept, Parts),
        row(&["aten::pairwise_distance", "aten::cosine_similarity"], S::PairwiseReduced, E::Distance),
        row(&["aten::pdist", "aten::_pdist_forward"], S::Pairs, Parts),
        row(&["aten::special_logsumexp"], S::Reduce, Real),
        // Lists of tensors.
        row(&["aten::chunk", "aten::unsafe_chunk", "aten::split", "aten::unsafe_split", "aten::split_with_sizes", "aten::unsafe_split_with_sizes"], S::Parted, Same),
        row(&["aten::unbind", "aten::tensor_split:sections", "aten::tensor_split:indices"], S::Parted, Same),
        row(&["aten::hsplit", "aten::vsplit", "aten::dsplit"], S::Parted, Same),
        row(&["aten::tensor_split"], S::Untold, Same).by_values("elements of a tensor tell where to split"),
        row(&["aten::atleast_1d:tensors"], S::EachAtLeast(1), Same),
        row(&["aten::atleast_2d:tensors"], S::EachAtLeast(2), Same),
        row(&["aten::atleast_3d:tensors"], S::EachAtLeast(3), Same),
        row(&["aten::broadcast_tensors"], S::EachBroadcast, Same),
        row(&["aten::meshgrid"], S::Meshed, Same),
        row(&["aten::sorted:input"], S::Untold, Same).by_values("elements tell the order of tensors"),
        // By index.
        row(&["aten::index:indices", "aten::_unsafe_index"], S::Indexed, Same).by_values_when(When::Masked, "ones of a mask are counted"),
        row(&["aten::take_along_dim"], S::TakenAlong, Same),
        row(&["aten::embedding_bag", "aten::_embedding_bag", "aten::_embedding_bag_forward_only"], S::Each(&[S::Bags, S::Untold, S::Untold, S::Untold]),
            E::Each(&[Same, Long, Long, Long])).by_values("which kernel runs decides about all results but the first"),
        row(&["aten::repeat_interleave:self"], S::Interleaved, Same).by_values_when(When::Tensor("repeats"), "`repeats` are summed"),
        row(&["aten::repeat_interleave"], S::Counted(1), Same).by_values("`repeats` are summed"),
        // Looks and copies.
        row(&["aten::tile"], S::Repeated, Same),
        row(&["aten::_unsafe_view", "aten::_reshape_alias"], S::Reshaped, Same),
        row(&["aten::broadcast_to"], S::Expanded, Same),
        row(&["aten::sum_to_size"], S::Listed("size"), E::SummedTo),
        row(&["aten::select_copy"], S::Selected, Same),
        row(&["aten::slice_copy", "aten::narrow_copy"], S::Sliced, Same),
        row(&["aten::unsqueeze_copy"], S::Unsqueezed, Same),
        row(&["aten::unflatten"], S::Unflattened, Same),
        row(&["aten::diag_embed"], S::DiagonalEmbedded, Same),
        row(&["aten::pixel_shuffle"], S::Shuffled, Same),
        row(&["aten::pixel_unshuffle"], S::Unshuffled, Same),
        row(&["aten::atleast_1d:self"], S::AtLeast(1), Same),
        row(&["aten::atleast_2d:self"], S::AtLeast(2), Same),
        row(&["aten::atleast_3d:self"], S::AtLeast(3), Same),
        row(&["aten::mT", "aten::mH", "aten::adjoint", "aten::matrix_H"], S::Transposed, Same),
        row(&["aten::concat:dim", "aten::concatenate:dim"], S::Concatenated, Promoted),
        // Products.
        row(&["aten::scaled_dot_product_attention"], S::Attended, Same),
        row(&["aten::_scaled_dot_product_attention_math"], S::Each(&[S::Attended, S::AttentionWeights]), Same),
        row(&["aten::inner"], S::Inner, Same),
        row(&["aten::kron"], S::Kronecker, Promoted),
        row(&["aten::cdist", "aten::_cdist_forward"], S::Distances, E::Distance),
        // Cells.
        row(&["aten::gru", "aten::rnn_tanh", "aten::rnn_relu"], S::Each(&[S::RecurrentOutput, S::Of("hx")]), Same),
        row(&["aten::lstm:input"], S::Each(&[S::RecurrentOutput, S::Nth(1), S::Nth(2)]), Same),
        row(&["aten::lstm"], S::Each(&[S::RecurrentOutput, S::Nth(2), S::Nth(3)]), Same),
        row(&["aten::_thnn_fused_lstm_cell"], S::Each(&[S::Of("cx"), S::Of("cx"), S::Of("input_gates")]), Same),
        row(&["aten::_thnn_fused_gru_cell"], S::Each(&[S::Of("hx"), S::GruWorkspace]), Promoted),
        row(&["aten::lstm_cell"], S::Each(&[S::Nth(1), S::Nth(2)]), Same),
        row(&["aten::gru_cell", "aten::rnn_tanh_cell", "aten::rnn_relu_cell"], S::Of("hx"), Same),
        // Made from numbers.
        row(&["aten::bartlett_window", "aten::blackman_window", "aten::hamming_window", "aten::hann_window", "aten::kaiser_window"], S::Counting("window_length"), Default).detached(),
        row(&["aten::linspace", "aten::logspace"], S::Counting("steps"), Default).detached(),
        row(&["aten::scalar_tensor"], S::Scalar, Default).detached(),
        row(&["aten::empty_strided"], S::Given, Default).detached(),
        row(&["aten::new_empty_strided"], S::Given, Same).detached(),
        row(&["aten::polygamma"], S::Like, Real).told_as(SIZES),
    ]
};
