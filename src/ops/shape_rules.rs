//! The column of the operator table for result types: shape, element type, and the properties that
//! PyTorch's shape analysis reports.
//!
//! Rules stand in [`super::rows`]. The first whose formal an overload has applies. The rules
//! themselves, which [`Shape`] names, are in `analysis/inference.rs` and the files below it. They
//! are as precise as possible; `Reported` is the part that `complete_shape_analysis` of PyTorch
//! reports. This was measured: each overload of 2.15 with operands whose properties are all known,
//! and with operands of known element type and rank; for 1.3 it is derived from recorded graphs.

use super::rows;
use super::schema::Schema;
use crate::types::DType;
use crate::types::era::Era;
use rustc_hash::FxHashMap;
use std::cell::RefCell;

/// The sizes of results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// The sizes of the first tensor; contiguous if that was.
    Like,
    /// The first tensor itself, or another view of the same elements.
    Itself,
    /// The sizes of all tensors, broadcast together.
    Broadcast,
    /// The sizes of the first tensor without `dim`, or with 1 there.
    Reduce,
    /// The sizes of the first n tensors, broadcast together.
    BroadcastFirst(usize),
    /// None: a tensor without dimensions.
    Scalar,
    /// As [`Shape::Reduce`], and those of the first tensor for an empty list of dimensions.
    ReduceListed,
    /// A number for each matrix.
    Determinant,
    /// `dim` becomes `k` elements.
    TopK,
    /// `t`, `transpose`, `permute`: dimensions are permuted.
    Transposed,
    /// A list of sizes, of which one may be -1.
    Reshaped,
    /// The sizes of `other`.
    AsOther,
    /// A list of sizes to broadcast to.
    Expanded,
    /// One dimension fewer, the indexed one.
    Selected,
    /// `slice`, `narrow`: one dimension gets smaller.
    Sliced,
    /// One dimension of size 1 more.
    Unsqueezed,
    /// Dimensions of size 1 are removed.
    Squeezed,
    /// Several dimensions become one.
    Flattened,
    /// Windows of a dimension become a new last one.
    Unfolded,
    /// The diagonal of two dimensions becomes the last one.
    Diagonal,
    /// `diag`: a matrix from a vector, a vector from a matrix.
    Diag,
    /// `diagflat`: a matrix.
    Matrix,
    /// Each dimension is repeated.
    Repeated,
    /// `mm`, `bmm`: a product of matrices, or of batches of them, with so many dimensions.
    Product(usize),
    /// `matmul`, by rank.
    Matmul,
    /// `addmv`, `addmm`, `baddbmm`: the product of operands 1 and 2, with so many dimensions, to
    /// which operand 0 is broadcast.
    AddedProduct(usize),
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
    /// `dim` gets the last size of the first of these tensor operands that is given, less so many:
    /// `index_select` takes as many rows as its index has elements.
    SizedBy(&'static [(&'static str, i64)]),
    /// `gather`, `take`: the sizes of the index.
    AsIndex,
    /// `embedding`: a row for each index.
    Embedded,
    /// `nonzero`, `masked_select`: this many dimensions, whose sizes depend on data.
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
    /// Sizes grow by the padding.
    Padded,
    /// `pixel_shuffle`, `glu`: the rank of the first tensor.
    RankOnly,
    /// The sizes of the tensor operand of this name: gradients of an operand.
    Of(&'static str),
    /// The list operand of this name.
    Listed(&'static str),
    /// The sizes of the n-th tensor among the operands.
    Nth(usize),
    /// One rule for each result.
    Each(&'static [Shape]),
    /// The elements of a list: `chunk`, `split`, `unbind` and the like.
    Split,
    /// A loss: no dimensions, or those of the first n tensors without reduction.
    Loss(usize),
    /// A loss over classes: no dimensions, or those of the target without reduction. A target of
    /// probabilities has the classes as a dimension, which is removed.
    ClassLoss,
    /// A loss that reduces the last dimension of its input; its sizes remain without a further
    /// reduction.
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
    /// `index`: indexed dimensions are replaced by those of all indices together.
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
    /// At least this many dimensions.
    AtLeast(usize),
    /// A vector with the length given by the operand of this name.
    Counting(&'static str),
    /// Distances between rows.
    Distances,
    /// `inner`: the dimensions before the last ones of both.
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
    /// `col2im`: images from columns.
    FromColumns,
    /// `affine_grid_generator`: a position for each pixel.
    Grid,
    /// `grid_sampler`: a pixel for each position.
    GridSampled,
    /// `quantile`: the sizes of `q`, then those of a reduction.
    Quantiles,
    /// The solution of equations: the matrices of the second operand, with broadcast batch
    /// dimensions.
    Solved(&'static str, &'static str),
    /// `linalg_solve`, where the right-hand side may be a vector.
    SolvedSystem,
    /// A product of several matrices, the first and the last of which may be vectors.
    Chained,
    /// `vander`: powers of each element become a new last dimension.
    Vandermonde,
    /// `tensordot`: the dimensions of both that are not summed.
    Contracted,
    /// `einsum`
    Einsum,
    /// `bilinear`: the last dimension gets the number of matrices of the weight.
    Bilinear,
    /// `cov`: variables by variables.
    Correlated,
    /// `hstack` and the like: joined in this dimension, after all have at least the rank for it.
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
    /// `trapezoid`, or with true `cumulative_trapezoid`.
    Integrated(bool),
    /// `pdist`: an element for each pair of rows.
    Pairs,
    /// Two tensors broadcast together, then a dimension reduced.
    PairwiseReduced,
    /// `norm_except_dim`
    ReducedExcept,
    /// `one_hot`: a last dimension of `num_classes`.
    OneHot,
    /// `nonzero_static`: `size` indices.
    Places,
    /// `tril_indices`, and `triu_indices` if false.
    Triangle(bool),
    /// `range`, which includes its end.
    ClosedRange,
    /// `multinomial`: the last dimension becomes `num_samples`.
    Sampled,
    /// `_shape_as_tensor`: a vector with one element per dimension.
    RankVector,
    /// `tensor`: those of nested lists of numbers.
    Data,
    /// `view` as another element type.
    Retyped,
    /// `view_as_complex`: the last dimension is removed.
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
    /// The buffer that a GRU cell keeps for its gradient.
    GruWorkspace,
    /// `searchsorted`: those of the operand of this name, and none if it is a number.
    OfOrNumber(&'static str),
    /// The attention weights: queries by keys.
    AttentionWeights,
    /// A list: each tensor with at least this many dimensions.
    EachAtLeast(usize),
    /// A list: each tensor broadcast to the sizes of all.
    EachBroadcast,
    /// A list: each tensor like itself.
    EachLike,
    /// `meshgrid`: each vector broadcast to a grid of all.
    Meshed,
    /// A vector without elements.
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
    /// Unknown: only the element type is given.
    Unreported,
}

/// The element type of results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Element {
    /// The type of the first tensor.
    Same,
    /// The type of all tensors, which must be equal.
    Common,
    /// The type of the first tensor; integers become the default floating point type.
    Real,
    /// The complex type whose parts are of the type of the first tensor.
    Complex,
    /// The type of the parts of the first tensor: `abs`, `norm`.
    Parts,
    /// The promoted type of all tensors and numbers.
    Promoted,
    /// The same; for unequal types only from 1.5 on, as 1.3 had other rules for them.
    Settled,
    /// The same of a sum with a floating-point scalar: integers become floats.
    SettledFloat,
    /// The same, and integers become floats from 1.5 on.
    Divided,
    /// Arithmetic that makes floats of integers from 1.5 on, and refused them before.
    Angle,
    /// Long for integers, else that of the first tensor.
    Summed,
    /// Long for bools, else that of the first tensor.
    Squared,
    /// Bool.
    Bool,
    /// Bool, and Byte for Byte.
    Flag,
    /// Long.
    Long,
    /// Long, or Int if requested.
    Places,
    /// The type of the first tensor, or Float for Half if `half_to_float` is true.
    Widened,
    /// `float_power`: doubles, or complex numbers of doubles.
    Power,
    /// The type of the tensor operand of this name.
    Of(&'static str),
    /// This one.
    Fixed(DType),
    /// The type of the first tensor; floating point for integers, and the type of the parts for
    /// complex.
    RealParts,
    /// The promoted type of all tensors, and the type of the parts for complex.
    Distance,
    /// The input type of a softmax: the number `input_dtype`, or the type of `self`.
    OfInput,
    /// Float for 16-bit floats if `cpu_enabled` is true.
    FullPrecision,
    /// `cpu_dtype` for Float if `cpu_enabled` is true.
    ReducedPrecision,
    /// Long, or the type of sums of weights.
    OfWeights,
    /// The type of numbers in nested lists.
    OfData,
    /// The one that stores the integers of a quantised tensor.
    Stored,
    /// Unknown: no type has the kind of a quantiser, whose scales and zero points are floats if
    /// the zero points that it was made of are.
    OfQuantizer,
    /// The type of the weight that was packed into an object.
    PackedWeight,
    /// The quantised one whose integers have the type of the first tensor.
    Quantised,
    /// The type of the weight of a norm if there is one, else that of its input.
    OfParameter,
    /// The type of the target of a loss, or the promoted type if that is not floating point.
    OfTarget,
    /// As [`Element::Angle`], and that of the first tensor if there is nothing to integrate.
    Integrated,
    /// The type of the first tensor if it keeps its sizes, else as [`Element::Summed`].
    SummedTo,
    /// One rule for each result.
    Each(&'static [Element]),
    /// Statistics of a norm: for 16-bit floats with float weights they are floats.
    Statistics,
    /// Operand 0 as in [`Element::Same`], and Long for the other results.
    WithIndex,
    /// The type of the second tensor: `type_as`.
    Second,
    /// The promoted type of all tensors but the first: `where`.
    Chosen,
    /// The one in the name: `_cast_Double`.
    Named,
    /// The default of a factory: the default floating point type.
    Default,
    /// The type of the given number, floats being of the default type.
    OfNumber,
    /// The type of the given number, floats being doubles.
    OfWideNumber,
}

/// The extent of the properties that PyTorch reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Nothing.
    Nothing,
    /// Element type, rank and device.
    Rank,
    /// The same, and `requires_grad`.
    RankGrad,
    /// All but `requires_grad`, if it could run the operator to find out.
    All,
    /// All.
    AllGrad,
}

/// The properties that PyTorch reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reported {
    /// If all properties of all tensor operands are known.
    pub complete: Part,
    /// If only element type and rank are.
    pub ranked: Part,
}

/// One row.
#[derive(Clone, Copy, Debug)]
pub struct ShapeRow {
    /// The formal that the overload must have, if any.
    formal: Option<&'static str>,
    /// The sizes.
    pub shape: Shape,
    /// The element type.
    pub element: Element,
    /// The report of PyTorch from 1.5 on.
    reported: Reported,
    /// The report for overloads with one tensor, if it differs.
    reported_alone: Option<Reported>,
    /// The report of PyTorch up to 1.4.
    reported_before: Reported,
    /// Whether results never require gradients.
    pub detached: bool,
    /// Formals that the overload spells differently from the operators that the rule is named
    /// for: `dims` and `permutation`.
    spelt: &'static [(&'static str, &'static str)],
    /// The reason why values of operands determine sizes, if they do.
    pub by_values: Option<ByValues>,
}

/// The case in which values of operands, not their types, determine sizes.
#[derive(Clone, Copy, Debug)]
pub struct ByValues {
    /// The reason.
    pub why: &'static str,
    /// The condition.
    pub when: When,
}

/// Calls whose operand values determine sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// Any call.
    Always,
    /// Calls with a mask among the indices.
    Masked,
    /// Calls where this operand is a tensor and `output_size` is not given.
    Tensor(&'static str),
    /// Calls where this number is negative.
    Negative(&'static str),
}

impl ShapeRow {
    /// The same with other sizes.
    pub(crate) fn with_shape(self, shape: Shape) -> ShapeRow {
        ShapeRow { shape, ..self }
    }

    /// The formal of the overloads that it is for.
    pub(crate) fn formal(&self) -> Option<&'static str> {
        self.formal
    }

    /// The properties that PyTorch reports for an overload.
    pub(crate) fn reported(&self, era: Era, schema: &Schema) -> Reported {
        let alone = schema.formals.iter().filter(|formal| formal.ty.is_tensor()).count() == 1;
        match era {
            _ if alone && self.reported_alone.is_some() => self.reported_alone.unwrap_or(self.reported),
            Era::V1_3 => self.reported_before,
            Era::V2 => self.reported,
        }
    }

    /// The properties that PyTorch reports.
    pub(super) const fn reported_as(self, reported: Reported) -> ShapeRow {
        ShapeRow { reported, reported_before: reported, ..self }
    }

    /// Unknown to PyTorch up to 1.4.
    pub(super) const fn since_2(self) -> ShapeRow {
        ShapeRow { reported_before: reported(Part::Nothing, Part::Nothing), ..self }
    }

    /// The properties that it reports for one tensor.
    pub(super) const fn alone(self, reported: Reported) -> ShapeRow {
        ShapeRow { reported_alone: Some(reported), ..self }
    }

    /// The overload spells these formals differently.
    pub(super) const fn spelt(self, spelt: &'static [(&'static str, &'static str)]) -> ShapeRow {
        ShapeRow { spelt, ..self }
    }

    /// The overload's own name of a formal that the rule reads.
    pub(crate) fn spelling<'a>(&self, formal: &'a str) -> &'a str {
        self.spelt.iter().find(|(usual, _)| *usual == formal).map_or(formal, |(_, own)| own)
    }

    /// Its own names of formals.
    pub(super) fn own_names(&self) -> impl Iterator<Item = &'static str> {
        self.spelt.iter().map(|(_, own)| *own)
    }

    /// The sizes depend on the elements of operands, which no type shows.
    pub(super) const fn by_values(self, why: &'static str) -> ShapeRow {
        self.by_values_when(When::Always, why)
    }

    /// The same for some operands.
    pub(super) const fn by_values_when(self, when: When, why: &'static str) -> ShapeRow {
        ShapeRow { by_values: Some(ByValues { why, when }), ..self }
    }

    /// Overloads with this formal.
    pub(super) const fn with(self, formal: &'static str) -> ShapeRow {
        ShapeRow { formal: Some(formal), ..self }
    }

    /// Results never require gradients.
    pub(super) const fn detached(self) -> ShapeRow {
        ShapeRow { detached: true, ..self }
    }
}

const fn reported(complete: Part, ranked: Part) -> Reported {
    Reported { complete, ranked }
}

/// A formula of PyTorch for one tensor of known rank.
pub(super) const RANK: Reported = reported(Part::RankGrad, Part::RankGrad);
/// A formula for several.
pub(super) const RANKS: Reported = reported(Part::Rank, Part::Rank);
/// Run on generated tensors if all properties of the operands are known.
pub(super) const RUN: Reported = reported(Part::All, Part::Rank);
/// A formula for sizes, else one for the rank.
pub(super) const SIZES: Reported = reported(Part::AllGrad, Part::RankGrad);
/// A formula for sizes that drops `requires_grad`.
pub(super) const FRESH: Reported = reported(Part::All, Part::RankGrad);
/// A formula for sizes only.
pub(super) const ONLY_SIZES: Reported = reported(Part::AllGrad, Part::Nothing);

/// A rule for the overloads of a row.
pub(super) const fn sized(shape: Shape, element: Element) -> ShapeRow {
    let nothing = reported(Part::Nothing, Part::Nothing);
    ShapeRow {
        formal: None,
        shape,
        element,
        reported: nothing,
        reported_alone: None,
        reported_before: nothing,
        detached: false,
        spelt: &[],
        by_values: None,
    }
}

/// The row of an overload. The first lookup of an overload searches the table, later ones hit the
/// cache of the thread.
pub fn shape_row(schema: &'static Schema) -> Option<&'static ShapeRow> {
    thread_local! {
        static SEEN: RefCell<FxHashMap<*const Schema, Option<&'static ShapeRow>>> = RefCell::default();
    }
    SEEN.with_borrow_mut(|seen| *seen.entry(schema).or_insert_with(|| found(schema)))
}

fn found(schema: &Schema) -> Option<&'static ShapeRow> {
    let rules = rows::row(schema.kind)?.shape.known()?;
    rules.iter().find(|rule| rule.formal.is_none_or(|name| schema.formal(name).is_some()))
}
