//! Gradient sums as reductions (`fuse{level=2}`), so that the kernel that computes their operand
//! contains them.
//!
//! ```text
//! %size : int[] = prim::Constant[value=[3]]()                   %dims : int[] = prim::Constant[value=[0]]()
//! %s : Float(3) = aten::_grad_sum_to_size(%x, %size)       =>   %s : Float(3) = aten::sum(%x, %dims, %keep, %none)
//! ```
//!
//! The rank of `%x` and the size determine the reduced dimensions: those that the size lacks, and
//! those that are 1 in it. Where both occur, a `reshape` after the kernel drops the former. A sum
//! of a concatenation along a dimension that is not reduced becomes a concatenation of sums of the
//! parts: a kernel that computes parts has no contiguous whole before it ends.
//!
//! Sums along different dimensions may be in one kernel, see `spaces.rs`. Sums of integers are left
//! alone, because `aten::sum` widens them, and so are sums of values that no kernel computes.

use super::Fuser;
use jitopt_core::analysis::AliasDb;
use jitopt_core::graph_update;
use jitopt_core::ir::{Attribute, Block, Graph, Node, Value};
use jitopt_core::pass::PassContext;
use jitopt_core::symbol::{Symbol, aten, attr, prim};
use jitopt_core::types::{DType, Dim, Strides, TensorType, Type, TypeKind};

/// A sum whose reduced dimensions are known.
#[derive(Clone, Debug)]
struct Known {
    node: Node,
    /// The summed value.
    operand: Value,
    /// The size of the result.
    size: Vec<i64>,
    /// The reduced dimensions, in order.
    dims: Vec<i64>,
    /// The number of leading ones that the size lacks.
    lacking: usize,
}

fn tensor(graph: &Graph, value: Value) -> Option<&'static TensorType> {
    graph.ty(value).as_tensor()
}

/// Skips multiplications by 1, as in gradients of sums: a sum is new memory in any case. Floating
/// point values are unchanged, and an integer 1 widens nothing.
fn but_for_ones(graph: &Graph, mut value: Value) -> Value {
    let is_real = |value| tensor(graph, value).and_then(|ty| ty.dtype).is_some_and(DType::is_float);
    while let Some(node) = graph.definer(value)
        && graph.kind(node).as_str() == "aten::mul"
        && is_real(graph.input(node, 0))
        && graph.ty(graph.input(node, 1)) == Type::int()
        && graph.constant_int(graph.input(node, 1)) == Some(1)
    {
        value = graph.input(node, 0);
    }
    value
}

/// The operand and the dimensions of a gradient sum.
fn known(graph: &Graph, node: Node) -> Option<Known> {
    let is_sum = graph.kind(node) == aten::GRAD_SUM_TO_SIZE && graph.num_inputs(node) == 2;
    let operand = is_sum.then(|| but_for_ones(graph, graph.input(node, 0)))?;
    let (ty, size) = (tensor(graph, operand)?, graph.constant_ints(graph.input(node, 1))?);
    let whole = ty.sizes.as_ref()?;
    let is_real = ty.dtype.is_some_and(DType::is_float);
    let lacking = whole.len().checked_sub(size.len()).filter(|_| is_real)?;
    let is_summed = |&i: &usize| i < lacking || size[i - lacking] == 1 && whole[i] != Dim::Known(1);
    let dims: Vec<i64> = (0..whole.len()).filter(is_summed).map(|i| i as i64).collect();
    (!dims.is_empty()).then_some(Known { node, operand, size, dims, lacking })
}

impl Fuser {
    /// Replaces gradient sums in blocks by reductions. The alias analysis is recomputed once for
    /// all of them.
    pub(super) fn reduce_sums(&mut self, graph: &mut Graph, cx: &mut PassContext<'_>, blocks: &[Block]) {
        let (mut split, mut reduced) = (0, false);
        for &block in blocks {
            let parts = self.known_sums(graph, block);
            split += parts.iter().filter_map(|sum| self.sum_parts(graph, cx, sum)).count();
        }
        if split > 0 {
            self.look_again(graph);
        }
        for &block in blocks {
            let known = self.known_sums(graph, block).into_iter();
            let sums: Vec<Known> = known.filter(|sum| self.is_reducible(graph, sum)).collect();
            reduced |= !sums.is_empty();
            for sum in sums {
                cx.rewrite(graph, "sums-folded", sum.node, |graph| reduce(graph, &sum));
            }
        }
        if reduced {
            self.look_again(graph);
        }
    }

    /// The gradient sums that are not written to, nor their operands and sizes: a sum that reduces
    /// nothing is its operand.
    fn known_sums(&self, graph: &Graph, block: Block) -> Vec<Known> {
        let is_quiet = |sum: &Known| {
            let operands = graph.inputs(sum.node).chain(graph.outputs(sum.node)).chain([sum.operand]);
            !operands.into_iter().any(|value| self.groups.db.has_writers(value))
        };
        graph.nodes(block).filter_map(|node| known(graph, node)).filter(is_quiet).collect()
    }

    /// Removes facts about erased nodes.
    fn look_again(&mut self, graph: &Graph) {
        self.groups.db = AliasDb::new(graph);
        self.rows.clear();
    }

    /// Whether a kernel computes the summed value.
    fn is_reducible(&mut self, graph: &Graph, sum: &Known) -> bool {
        let maker = graph.definer(sum.operand).filter(|&maker| graph.block_of(maker) == graph.block_of(sum.node));
        maker.is_some_and(|maker| self.fusible(graph, maker).is_ok())
    }

    /// `sum(cat(a, b)) = cat(sum(a), sum(b))`, where the concatenated dimension is not reduced.
    fn sum_parts(&mut self, graph: &mut Graph, cx: &mut PassContext<'_>, sum: &Known) -> Option<()> {
        let joined = sum.operand;
        let cat = graph.definer(joined).filter(|&cat| graph.kind(cat) == aten::CAT)?;
        let list = graph.definer(graph.input(cat, 0)).filter(|&list| graph.kind(list) == prim::LIST_CONSTRUCT)?;
        let rank = tensor(graph, joined)?.rank()? as i64;
        let dim = graph.constant_int(graph.input(cat, 1)).map(|dim| if dim < 0 { dim + rank } else { dim })?;
        let is_free = dim >= 0 && !sum.dims.contains(&dim) && !self.groups.db.reaches_writers(graph.input(cat, 0));
        let at = is_free.then(|| dim as usize - sum.lacking)?;
        let parts: Vec<Value> = graph.inputs(list).collect();
        let sizes: Vec<Vec<i64>> =
            parts.iter().map(|&part| part_size(graph, part, sum, at, rank)).collect::<Option<_>>()?;
        let whole = sizes.iter().fold(0i64, |sum, size| sum.saturating_add(size[at]));
        (whole == sum.size[at]).then_some(())?;
        cx.rewrite(graph, "joined-sums-split", sum.node, |graph| split(graph, sum, &parts, sizes, at))
    }
}

/// The size that a part of the concatenation is summed to.
fn part_size(graph: &Graph, part: Value, sum: &Known, at: usize, rank: i64) -> Option<Vec<i64>> {
    let sizes = tensor(graph, part).filter(|ty| ty.dtype.is_some_and(DType::is_float))?.sizes.as_ref()?;
    let along = sizes.get(at + sum.lacking).filter(|_| sizes.len() as i64 == rank)?;
    let Dim::Known(along) = along else { return None };
    let mut size = sum.size.clone();
    size[at] = *along;
    Some(size)
}

fn constant(graph: &mut Graph, before: Node, value: Option<Attribute>, ty: Type) -> Value {
    let node = graph.create_op(prim::CONSTANT, &[], ty);
    if let Some(value) = value {
        graph.set_attribute(node, attr::VALUE, value);
    }
    graph.insert_before(before, node);
    graph.output(node, 0)
}

fn list(graph: &mut Graph, before: Node, numbers: &[i64]) -> Value {
    let all = numbers.iter().map(|&n| Attribute::Int(n)).collect();
    constant(graph, before, Some(Attribute::List(all)), Type::list(Type::int()))
}

/// The type of a tensor like another, with other sizes.
fn sized(graph: &Graph, like: Value, sizes: &[i64]) -> Type {
    let plain = TensorType::default();
    let like = tensor(graph, like).unwrap_or(&plain).clone();
    let sizes = Some(sizes.iter().copied().map(Dim::Known).collect());
    Type::new(TypeKind::Tensor(TensorType { sizes, strides: Strides::Unknown, ..like }))
}

fn operator(graph: &mut Graph, before: Node, kind: &str, operands: &[Value], ty: Type) -> Value {
    let node = graph.create_op(Symbol::new(kind), operands, ty);
    graph.insert_before(before, node);
    graph.copy_location(before, node);
    graph.output(node, 0)
}

/// Replaces the output of a node by a value.
fn replace(graph: &mut Graph, node: Node, new: Value) {
    let old = graph.output(node, 0);
    graph.replace_all_uses(old, new);
    graph.move_name(old, new);
    graph.erase(node);
}

fn reduce(graph: &mut Graph, sum: &Known) {
    let node = sum.node;
    graph_update!("Reducing the sum %{}", graph.name(graph.output(node, 0)));
    let operand = sum.operand;
    let keeps = sum.lacking < sum.dims.len();
    let dims = list(graph, node, &sum.dims);
    let keep = constant(graph, node, Some(Attribute::Int(keeps.into())), Type::bool());
    let none = constant(graph, node, None, Type::none());
    let mut size = vec![1; if keeps { sum.lacking } else { 0 }];
    size.extend(&sum.size);
    let ty = sized(graph, operand, &size);
    let mut new = operator(graph, node, "aten::sum", &[operand, dims, keep, none], ty);
    if size.len() > sum.size.len() {
        let size = list(graph, node, &sum.size);
        let ty = sized(graph, operand, &sum.size);
        new = operator(graph, node, "aten::reshape", &[new, size], ty);
    }
    replace(graph, node, new);
}

fn split(graph: &mut Graph, sum: &Known, parts: &[Value], sizes: Vec<Vec<i64>>, at: usize) {
    let node = sum.node;
    graph_update!("Summing the parts of %{}", graph.name(sum.operand));
    let kind = graph.kind(node);
    let mut sums = Vec::new();
    for (&part, size) in parts.iter().zip(&sizes) {
        let (ty, size) = (sized(graph, part, size), list(graph, node, size));
        sums.push(operator(graph, node, kind.as_str(), &[part, size], ty));
    }
    let ty = sized(graph, sum.operand, &sum.size);
    let list = operator(graph, node, "prim::ListConstruct", &sums, Type::list(Type::tensor()));
    let dim = constant(graph, node, Some(Attribute::Int(at as i64)), Type::int());
    let new = operator(graph, node, "aten::cat", &[list, dim], ty);
    replace(graph, node, new);
}
