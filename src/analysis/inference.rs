//! Inference of the types of a node's results from the types of its operands.
//!
//! ```text
//! %y : Float(2, 1, device=cpu), %x : Long(3, device=cpu)
//! %z : Tensor = aten::mul(%x, %y)          =>      Float(2, 3, device=cpu)
//! ```
//!
//! [`infer`] gives all facts that follow; the rule of an operator is a column of the table,
//! [`ShapeRow`]. The rules are grouped in files by their effect on sizes, and are independent of
//! passes: they receive a [`Call`] and return [`Extent`]s. Their facts hold whenever the node has
//! results at all: a rule may assume that operands are compatible, because a node with incompatible
//! ones raises an exception. [`reported`] is the part that PyTorch's `complete_shape_analysis`
//! would report.
//!
//! Element types follow from a single promotion table, `Promotion`, which the interpreter uses
//! too.

mod algebra_shapes;
mod collapsing;
mod concatenating;
mod convolving;
mod creating;
mod element;
mod elementwise;
mod image_shapes;
mod index_picking;
mod joint_shapes;
mod loss_shapes;
mod multiplying;
mod operand_sizes;
mod packed_shapes;
mod parting;
mod viewing;

use crate::ir::{Attribute, Graph, Node, Value};
use crate::ops;
use crate::ops::schema::Schema;
use crate::ops::shape_rules::{Element, Part, Shape, ShapeRow, shape_row};
use crate::symbol::{Symbol, prim};
use crate::types::era::Era;
use crate::types::{DType, Dim, Simple, Strides, TensorType, Type, TypeKind};

#[cfg(doc)]
use crate::tensor::promotion::Promotion;

/// The facts known of values.
pub trait Knowledge {
    /// The type of a value, with all known facts.
    fn ty(&self, value: Value) -> Type;
    /// Whether a list that a `prim::ListConstruct` created is unchanged when it is read.
    fn is_list_kept(&self, value: Value) -> bool;
    /// Whether the elements of integer lists may be read; PyTorch reads only those of constant
    /// lists.
    fn sees_into_lists(&self) -> bool;
}

/// A node, with the facts known of its operands.
#[derive(Clone, Copy)]
pub struct Call<'a> {
    /// The graph.
    pub graph: &'a Graph,
    /// The node.
    pub node: Node,
    /// Its overload.
    pub schema: &'static Schema,
    /// The shape rule of the overload.
    pub row: &'a ShapeRow,
    /// The facts known of values.
    pub known: &'a dyn Knowledge,
}

/// Sizes and strides.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Extent {
    /// Sizes; none when even the rank is unknown.
    pub sizes: Option<Vec<Dim>>,
    /// Strides.
    pub strides: Option<Vec<i64>>,
}

impl Extent {
    /// Of unknown rank.
    pub(crate) fn unknown() -> Extent {
        Extent::default()
    }

    /// These sizes, with unknown strides.
    pub(crate) fn of(sizes: Vec<Dim>) -> Extent {
        Extent { sizes: Some(sizes), strides: None }
    }

    /// A number of unknown sizes.
    pub(crate) fn ranked(rank: usize) -> Extent {
        Extent::of(vec![Dim::Unknown; rank])
    }

    /// These sizes, with contiguous strides if so.
    pub(crate) fn fresh(sizes: Vec<Dim>, is_contiguous: bool) -> Extent {
        let strides = is_contiguous.then(|| contiguous(&sizes)).flatten();
        Extent { sizes: Some(sizes), strides }
    }

    /// These sizes and strides, as far as they are known.
    pub(crate) fn looked_at(sizes: Vec<Dim>, strides: Option<Vec<i64>>) -> Extent {
        Extent { sizes: Some(sizes), strides }
    }
}

/// Contiguous strides.
pub(crate) fn contiguous(sizes: &[Dim]) -> Option<Vec<i64>> {
    let mut next = 1i64;
    let mut strides = Vec::with_capacity(sizes.len());
    for dim in sizes.iter().rev() {
        strides.push(next);
        next = next.checked_mul(number(*dim)?.max(1))?;
    }
    strides.reverse();
    Some(strides)
}

/// The size, when it is known.
pub(crate) fn number(dim: Dim) -> Option<i64> {
    if let Dim::Known(n) = dim { Some(n) } else { None }
}

/// The product, when all are known and it fits into 64 bits.
fn product(all: impl Iterator<Item = Option<i64>>) -> Option<i64> {
    let mut result = 1i64;
    for n in all {
        result = result.checked_mul(n?)?;
    }
    Some(result)
}

/// A size, when it is known.
fn dim_of(n: Option<i64>) -> Dim {
    n.map_or(Dim::Unknown, Dim::Known)
}

/// The index of a dimension, counted from either end, among `rank`; a zero-dimensional tensor
/// counts as having one.
fn place(dim: i64, rank: usize) -> Option<usize> {
    let rank = rank.max(1) as i64;
    let at = if dim < 0 { dim + rank } else { dim };
    (0..rank).contains(&at).then_some(at as usize)
}

// ---- queries

impl Call<'_> {
    /// The operand for a formal parameter.
    pub(crate) fn operand(&self, name: &str) -> Option<Value> {
        let at = self.schema.formal(self.row.spelling(name))?;
        (at < self.graph.num_inputs(self.node)).then(|| self.graph.input(self.node, at))
    }

    /// The first operand that has one of these names.
    fn any_operand(&self, names: &[&str]) -> Option<Value> {
        names.iter().find_map(|name| self.operand(name))
    }

    /// The known types of operands that are tensors, including elements of lists. None when the
    /// elements of a list are unknown.
    pub(crate) fn tensors(&self) -> Option<Vec<&'static TensorType>> {
        self.tensor_values()?.into_iter().map(|value| self.tensor_of(value)).collect()
    }

    /// The operands that are tensors, including elements of lists. None when the elements of a list
    /// are unknown.
    pub(crate) fn tensor_values(&self) -> Option<Vec<Value>> {
        let mut all = Vec::new();
        for (formal, value) in self.schema.formals.iter().zip(self.graph.inputs(self.node)) {
            match formal.ty.kind() {
                TypeKind::List(element) if element.is_tensor() => {
                    let list = self.graph.definer(value).filter(|_| self.known.is_list_kept(value))?;
                    all.extend(self.graph.inputs(list));
                }
                TypeKind::Tensor(_) => all.push(value),
                TypeKind::Optional(inner) if inner.is_tensor() && !self.is_none(value) => all.push(value),
                _ => {}
            }
        }
        Some(all)
    }

    /// The known type of a value, when it is a tensor.
    pub(crate) fn tensor_of(&self, value: Value) -> Option<&'static TensorType> {
        self.known.ty(value).as_tensor()
    }

    /// The type of the first tensor operand.
    pub(crate) fn first(&self) -> Option<&'static TensorType> {
        let at = self.schema.formals.iter().position(|formal| formal.ty.is_tensor())?;
        self.graph.inputs(self.node).nth(at).and_then(|value| self.tensor_of(value))
    }

    /// Its sizes.
    fn sizes(&self) -> Option<Vec<Dim>> {
        self.first()?.sizes.as_deref().map(<[Dim]>::to_vec)
    }

    /// Its strides.
    fn strides(&self) -> Option<Vec<i64>> {
        strides_of(self.first()?)
    }

    /// The known type of the tensor operand for a formal parameter.
    fn tensor(&self, name: &str) -> Option<&'static TensorType> {
        self.operand(name).and_then(|value| self.tensor_of(value))
    }

    /// Whether a value is certainly None.
    pub(crate) fn is_none(&self, value: Value) -> bool {
        self.known.ty(value).is(Simple::None) || matches!(self.graph.constant(value), Some(None))
    }

    /// The constant operand for one of these formal parameters.
    fn int(&self, names: &[&str]) -> Option<i64> {
        let value = self.any_operand(names)?;
        self.known.ty(value).is(Simple::Int).then(|| self.graph.constant_int(value)).flatten()
    }

    /// The constant operand for a formal parameter, or `default` where it is None or the schema has
    /// no such formal parameter.
    fn int_or(&self, name: &str, default: i64) -> Option<i64> {
        match self.operand(name) {
            Some(value) if !self.is_none(value) => self.int(&[name]),
            _ => Some(default),
        }
    }

    /// The constant bool operand for a formal parameter.
    fn flag(&self, name: &str) -> Option<bool> {
        let value = self.operand(name)?;
        self.known.ty(value).is(Simple::Bool).then(|| self.graph.constant_int(value)).flatten().map(|n| n != 0)
    }

    /// The value of a constant scalar.
    fn float(&self, value: Value) -> Option<f64> {
        match self.graph.constant(value)?? {
            Attribute::Float(x) => Some(x.value),
            Attribute::Int(n) => Some(*n as f64),
            _ => None,
        }
    }

    /// The constant string operand for a formal parameter.
    fn text(&self, name: &str) -> Option<String> {
        match self.graph.constant(self.operand(name)?)?? {
            Attribute::Str(text) => Some(String::from_utf8_lossy(text).into_owned()),
            _ => None,
        }
    }

    /// The sizes of the tensor operand for a formal parameter.
    fn sizes_of(&self, name: &str) -> Option<Vec<Dim>> {
        self.tensor(name)?.sizes.as_deref().map(<[Dim]>::to_vec)
    }

    /// The elements of an integer list, each as far as it is known; none when even the length is
    /// unknown. A single integer counts as a list of it.
    fn ints(&self, names: &[&str]) -> Option<Vec<Option<i64>>> {
        let value = self.any_operand(names)?;
        if let Some(Some(constant)) = self.graph.constant(value) {
            return match constant {
                Attribute::List(all) => all.iter().map(|n| n.as_int().map(Some)).collect(),
                Attribute::EmptyList(_) => Some(Vec::new()),
                Attribute::Int(n) => Some(vec![Some(*n)]),
                _ => None,
            };
        }
        let list = self.graph.definer(value).filter(|&node| self.graph.kind(node) == prim::LIST_CONSTRUCT)?;
        if !self.known.is_list_kept(value) {
            return None;
        }
        let sees = self.known.sees_into_lists();
        Some(self.graph.inputs(list).map(|n| sees.then(|| self.graph.constant_int(n)).flatten()).collect())
    }

    /// The era of the graph.
    fn era(&self) -> Era {
        self.graph.era
    }
}

fn strides_of(tensor: &TensorType) -> Option<Vec<i64>> {
    if let Strides::Known(strides) = &tensor.strides { Some(strides.to_vec()) } else { None }
}

/// Whether the strides are known to be contiguous.
pub(crate) fn is_contiguous(tensor: &TensorType) -> bool {
    let row = tensor.sizes.as_deref().and_then(contiguous);
    row.is_some() && row == strides_of(tensor)
}

/// Whether the type is complete: element type, sizes, and from 1.5 on, where text shows it, strides
/// and device.
pub fn is_complete(tensor: &TensorType, era: Era) -> bool {
    let sized = tensor.sizes.as_ref().is_some_and(|sizes| sizes.iter().all(|dim| number(*dim).is_some()));
    let shown = era == Era::V1_3
        || tensor.device.is_some() && matches!(tensor.strides, Strides::Known(_))
        || tensor.device.is_some() && tensor.rank() == Some(0);
    tensor.dtype.is_some() && sized && shown
}

// ---- results

/// All known facts of the results; one type for each, none where the rule does not apply. The entry
/// for a result that is not a tensor has no meaning.
pub fn infer(call: &Call<'_>) -> Option<Vec<TensorType>> {
    let schema = call.schema;
    if schema.is_writing() || !schema.returns.iter().any(|result| result.ty.is_tensor()) {
        return None;
    }
    let extents = extents(call, schema.returns.len());
    let with = |(i, extent): (usize, Extent)| {
        let strides = extent.strides.filter(|strides| !strides.is_empty());
        TensorType {
            dtype: element::of(call, i),
            sizes: extent.sizes.map(Into::into),
            strides: strides.map_or(Strides::Unknown, |strides| Strides::Known(strides.into())),
            requires_grad: None,
            device: device(call),
            undefined: None,
            profiled: false,
        }
    };
    let mut results: Vec<TensorType> = extents.into_iter().enumerate().map(with).collect();
    results.iter_mut().for_each(|result| result.requires_grad = requires_grad(call, result));
    Some(results)
}

fn extents(call: &Call<'_>, n: usize) -> Vec<Extent> {
    let Shape::Each(shapes) = call.row.shape else { return vec![extent(call).unwrap_or_default(); n] };
    let of = |&shape: &Shape| {
        let row = call.row.with_shape(shape);
        extent(&Call { row: &row, ..*call }).unwrap_or_default()
    };
    let mut all: Vec<Extent> = shapes.iter().map(of).collect();
    all.resize(n, Extent::unknown());
    all
}

/// The sizes of one result.
fn extent(call: &Call<'_>) -> Option<Extent> {
    use Shape::*;
    match call.row.shape {
        Unreported | Each(_) | Split | EachAtLeast(_) | EachBroadcast | EachLike | Meshed => None,
        Of(_) | Listed(_) | Nth(_) | Counting(_) | AtLeast(_) | Nothing | RankVector | Channels(_) => {
            operand_sizes::extent(call)
        }
        RowStatistics | ChannelStatistics | GroupStatistics | NormalizedShape => operand_sizes::extent(call),
        OfOrNumber(_) | Triangle(_) | Places => operand_sizes::extent(call),
        PackedWeight | PackedLinear | PackedConvolved => packed_shapes::extent(call),
        Loss(_) | ClassLoss | RowLoss | DistanceLoss | CosineLoss | SequenceLoss => loss_shapes::extent(call),
        Indexed | Interleaved | TableGradient | Bags | TakenAlong | OneHot => index_picking::extent(call),
        Attended | AttentionWeights | HeadWeights | Inner | Kronecker | Distances => multiplying::extent(call),
        Solved(..) | SolvedSystem | Chained | Vandermonde | Contracted | Einsum | Bilinear | Correlated => {
            algebra_shapes::extent(call)
        }
        RecurrentOutput | GruWorkspace => algebra_shapes::extent(call),
        Shuffled | Unshuffled | Halved | DiagonalEmbedded | Unflattened => viewing::extent(call),
        Retyped | PairsJoined | PairsSplit | Moved | Rotated | Raveled => viewing::extent(call),
        Like | Itself | AsIndex | AsOther | RankOnly | Broadcast | BroadcastFirst(_) => elementwise::extent(call),
        Reduce | ReduceListed | Scalar | TopK | Determinant | Counted(_) | Sampled => collapsing::extent(call),
        Quantiles | Pairs | PairwiseReduced | ReducedExcept => collapsing::extent(call),
        Transposed | Reshaped | Expanded | Selected | Sliced | Unsqueezed | Squeezed => viewing::extent(call),
        Flattened | Unfolded | Diagonal | Diag | Matrix | Repeated => viewing::extent(call),
        Product(_) | Matmul | AddedProduct(_) | Linear | ReducedProduct | Outer => multiplying::extent(call),
        Concatenated | Stacked | SizedBy(_) | Embedded => concatenating::extent(call),
        Joined(_) | Columnar | BlockDiagonal | Combined | CartesianProduct => joint_shapes::extent(call),
        Differences | Integrated(_) => joint_shapes::extent(call),
        Given | Range | ClosedRange | Identity | Data => creating::extent(call),
        Convolved | Pooled | Resized | Padded => convolving::extent(call),
        Upsampled | Downsampled | Columns | FromColumns | Grid | GridSampled => image_shapes::extent(call),
    }
}

/// The known types of the tensors in the list that a node creates, where their number is known.
pub fn elements(call: &Call<'_>) -> Option<Vec<TensorType>> {
    let returns = &call.schema.returns;
    let is_list = |ty: Type| matches!(ty.kind(), TypeKind::List(element) if element.is_tensor());
    if returns.len() != 1 || !is_list(returns[0].ty) {
        return None;
    }
    let typed = |(dtype, extent): (Option<DType>, Extent)| TensorType {
        dtype,
        sizes: extent.sizes.map(Into::into),
        device: device(call),
        ..TensorType::default()
    };
    if call.row.shape == Shape::Split {
        let dtype = element::of(call, 0);
        return Some(parting::extents(call)?.into_iter().map(|extent| typed((dtype, extent))).collect());
    }
    let tensors = call.tensors()?;
    let own = |tensor: &&TensorType| match call.row.element {
        Element::Fixed(dtype) => Some(dtype),
        _ if call.schema.formal("dtype").is_some() => element::of(call, 0),
        _ => tensor.dtype,
    };
    let extents = joint_shapes::of_each(call, &tensors)?;
    Some(tensors.iter().map(own).zip(extents).map(typed).collect())
}

/// The device: the requested one, or that of the tensors. A zero-dimensional tensor may be on
/// another device than the result.
fn device(call: &Call<'_>) -> Option<Symbol> {
    if let Some(value) = call.operand("device").filter(|&value| !call.is_none(value)) {
        return match call.graph.constant(value)?? {
            Attribute::Str(name) => Some(Symbol::new(&String::from_utf8_lossy(name))),
            _ => None,
        };
    }
    let tensors = call.tensors()?;
    if tensors.is_empty() {
        return Some(Symbol::new("cpu"));
    }
    if call.schema.formal("other").is_some() && matches!(call.row.shape, Shape::Like) {
        return same(&tensors, |tensor| tensor.device);
    }
    let dimensioned =
        tensors.iter().find(|tensor| tensor.rank().is_some_and(|rank| rank > 0) && tensor.device.is_some());
    dimensioned.map_or_else(|| same(&tensors, |tensor| tensor.device), |tensor| tensor.device)
}

/// The common value of a fact, if it is the same for all.
fn same<T: PartialEq + Copy>(tensors: &[&'static TensorType], of: impl Fn(&TensorType) -> Option<T>) -> Option<T> {
    let first = of(tensors.first()?)?;
    tensors.iter().all(|tensor| of(tensor) == Some(first)).then_some(first)
}

/// Whether the result requires a gradient: never for integers, otherwise when any tensor operand
/// does.
fn requires_grad(call: &Call<'_>, result: &TensorType) -> Option<bool> {
    if call.row.detached || result.dtype.is_some_and(|dtype| dtype.is_integral()) {
        return Some(false);
    }
    if call.operand("requires_grad").is_some() {
        return result.dtype.and(call.flag("requires_grad"));
    }
    let wanted: Vec<Option<bool>> = call.tensors()?.iter().map(|tensor| tensor.requires_grad).collect();
    match (wanted.contains(&Some(true)), wanted.contains(&None)) {
        (true, _) => result.dtype.map(|_| true),
        (false, true) => None,
        (false, false) => Some(false),
    }
}

/// Types as they are written in the text.
struct Written<'a>(&'a Graph);

impl Knowledge for Written<'_> {
    fn ty(&self, value: Value) -> Type {
        self.0.ty(value)
    }
    fn is_list_kept(&self, _: Value) -> bool {
        false
    }
    fn sees_into_lists(&self) -> bool {
        false
    }
}

/// The type of a value defined by `node` that follows from the written types of the operands.
pub(crate) fn inferred(graph: &Graph, node: Node, value: Value) -> Option<TensorType> {
    let operands: Vec<Type> = graph.inputs(node).map(|value| graph.ty(value)).collect();
    let schema = ops::resolve(graph.era, graph.kind(node), &operands).schema();
    let known = Written(graph);
    let call = schema.and_then(|schema| {
        let row = shape_row(schema)?;
        Some(Call { graph, node, schema, row, known: &known })
    });
    let at = graph.output_index(value);
    let is_tensor = schema?.returns.get(at).is_some_and(|result| result.ty.is_tensor());
    call.as_ref().filter(|_| is_tensor).and_then(infer).and_then(|all| all.into_iter().nth(at))
}

/// Whether `value`, defined by `node`, cannot be of this type: the written types of the operands
/// contradict it.
pub fn contradicts(graph: &Graph, node: Node, value: Value, ty: Type) -> bool {
    let (Some(inferred), Some(written)) = (inferred(graph, node, value), ty.as_tensor()) else { return false };
    let size = |(a, b): (&Dim, &Dim)| number(*a).is_some() && number(*b).is_some() && a != b;
    let sizes = match (&inferred.sizes, &written.sizes) {
        (Some(a), Some(b)) => a.len() != b.len() || a.iter().zip(b).any(size),
        _ => false,
    };
    sizes || inferred.dtype.is_some() && written.dtype.is_some() && inferred.dtype != written.dtype
}

// ---- PyTorch's part

/// The part of the facts that PyTorch infers; `runs` says whether it could run the node on
/// generated tensors.
pub fn reported(call: &Call<'_>, results: Vec<TensorType>, runs: bool) -> Vec<TensorType> {
    let reported = call.row.reported(call.era(), call.schema);
    let complete = call.tensors().is_some_and(|all| all.iter().all(|tensor| is_complete(tensor, call.era())));
    let part = match reported.complete {
        Part::All if complete && !runs && reported.ranked == Part::Rank => reported.ranked,
        part if complete => part,
        _ => reported.ranked,
    };
    results.into_iter().map(|result| weakened(result, part, reported.ranked, call.era())).collect()
}

fn weakened(result: TensorType, part: Part, ranked: Part, era: Era) -> TensorType {
    let device = era == Era::V1_3 || result.device.is_some();
    let (Some(rank), Some(_), true) = (result.rank(), result.dtype, device) else { return TensorType::default() };
    let grad = |kept: bool| result.requires_grad.filter(|_| kept);
    match part {
        Part::Nothing => TensorType::default(),
        Part::Rank | Part::RankGrad => TensorType {
            sizes: Some(vec![Dim::Unknown; rank].into()),
            strides: Strides::Unknown,
            requires_grad: grad(part == Part::RankGrad),
            ..result
        },
        Part::All | Part::AllGrad if result.sizes.iter().flatten().any(|dim| number(*dim).is_none()) => {
            weakened(result, ranked, Part::Nothing, era)
        }
        Part::All | Part::AllGrad => TensorType { requires_grad: grad(part == Part::AllGrad), ..result },
    }
}
