//! Whether an operator on a sum equals the sum of the operator's results, and which sums are moved.

use super::broadcasting::{Extent, Extents, Size, is_number};
use super::{goes_out, is_sum};
use jitopt_core::analysis::AliasDb;
use jitopt_core::ir::{Attribute, Block, Graph, Node, Value};
use jitopt_core::ops::fusion_rules::fusion_row;
use jitopt_core::ops::linear_rules::{Linear, linear_row};
use jitopt_core::ops::rules::Elements;
use jitopt_core::ops::{self};
use jitopt_core::symbol::{Symbol, prim};
use jitopt_core::tensor::promotion::join;
use jitopt_core::types::{DType, Type};
use rustc_hash::{FxHashMap, FxHashSet};

/// A value that is a sum, or would be one when all sums before it were moved.
#[derive(Clone, Debug)]
pub(super) struct Pending {
    /// The shape before the sum.
    pub(super) whole: Extent,
    /// The target sizes, the first sum first. Without sizes nothing is summed.
    pub(super) sizes: Vec<Size>,
}

/// A linear operator that sums can be moved past, and the operands that are sums.
pub(super) struct Passable {
    /// The name of the rule.
    pub(super) rule: &'static str,
    /// Positions of the sums.
    pub(super) operands: Vec<usize>,
    /// The result.
    pub(super) pending: Pending,
}

/// The reason why a sum stays in place.
pub(super) type Obstacle = &'static str;

/// Sums by value.
pub(super) type Sums = FxHashMap<Value, Pending>;

/// The analyses of one block.
pub(super) struct Carrier<'a> {
    pub(super) graph: &'a Graph,
    pub(super) db: &'a AliasDb,
    pub(super) extents: &'a Extents,
}

fn dtype(ty: Type) -> Option<DType> {
    ty.as_tensor().and_then(|tensor| tensor.dtype)
}

fn types(graph: &Graph, node: Node) -> Vec<Type> {
    graph.inputs(node).map(|value| graph.ty(value)).collect()
}

/// Whether a node is linear in some operand.
pub(super) fn is_linear(graph: &Graph, node: Node) -> bool {
    linear_row(graph.era, graph.kind(node), &types(graph, node)).is_some()
}

impl Carrier<'_> {
    /// Whether sums among the operands of a node can be moved after it; nothing where no operand is
    /// a sum, or the node is not linear.
    pub(super) fn passable(&self, node: Node, sums: &Sums) -> Result<Option<Passable>, Obstacle> {
        let graph = self.graph;
        let operands: Vec<usize> =
            (0..graph.num_inputs(node)).filter(|&i| sums.contains_key(&graph.input(node, i))).collect();
        if operands.is_empty() || graph.num_outputs(node) != 1 {
            return Ok(None);
        }
        let Some(row) = linear_row(graph.era, graph.kind(node), &types(graph, node)) else {
            return Err("its reader is not linear");
        };
        self.is_quiet(node)?;
        let sum = |i: usize| &sums[&graph.input(node, i)];
        match (row.linear, &operands[..]) {
            (Linear::EachFactor, &[i @ (0 | 1)]) | (Linear::First, &[i @ 0]) => self.keeps(node, i, sum(i))?,
            (Linear::Cleared, [0]) => {
                self.is_zero(node, 2)?;
                self.keeps(node, 0, sum(0))?;
            }
            (Linear::Cast, [0]) => self.widens(node)?,
            (Linear::Both, [0, 1]) => same_sums(sum(0), sum(1))?,
            (Linear::Branches, [1, 2]) => {
                same_sums(sum(1), sum(2))?;
                self.keeps_choice(node, sum(1))?;
            }
            (Linear::Branches, &[i @ (1 | 2)]) => {
                self.is_zero(node, 3 - i)?;
                self.keeps(node, i, sum(i))?;
            }
            (Linear::EachFactor, _) => return Err("both factors are sums"),
            (Linear::Both, _) => return Err("only one side is a sum"),
            _ => return Err("it is linear in another operand"),
        }
        let pending = sum(operands[0]).clone();
        Ok(Some(Passable { rule: row.rule, operands, pending }))
    }

    /// Checks that neither operand nor result is written to, and that the elements are floating
    /// point or complex.
    fn is_quiet(&self, node: Node) -> Result<(), Obstacle> {
        let output = self.graph.output(node, 0);
        if self.db.has_writers(output) {
            return Err("its result is written to");
        }
        match dtype(self.graph.ty(output)).is_some_and(DType::is_integral) {
            true => Err("it computes integers or bools"),
            false => Ok(()),
        }
    }

    /// Checks that all operands but the sum are the same for all elements that are summed together.
    fn keeps(&self, node: Node, at: usize, sum: &Pending) -> Result<(), Obstacle> {
        for i in (0..self.graph.num_inputs(node)).filter(|&i| i != at) {
            let (other, value) =
                (self.extents.extent(self.graph, self.graph.input(node, i)), self.graph.input(node, i));
            let keeps = sum.sizes.iter().all(|size| size.keeps(&other));
            if !keeps {
                return Err("another operand may vary over the summed elements");
            }
            if !self.promotes_alike(value, self.graph.input(node, at), &other, sum) {
                return Err("the element type of the result may change, as the sum may be zero-dimensional");
            }
        }
        Ok(())
    }

    /// As `keeps`, for the condition of a `where`.
    fn keeps_choice(&self, node: Node, sum: &Pending) -> Result<(), Obstacle> {
        let condition = self.extents.extent(self.graph, self.graph.input(node, 0));
        match sum.sizes.iter().all(|size| size.keeps(&condition)) {
            true => Ok(()),
            false => Err("the condition may vary over the summed elements"),
        }
    }

    /// Whether another operand takes the same part in type promotion before and after the sum. A
    /// zero-dimensional tensor does not widen a tensor with dimensions, but it widens another
    /// zero-dimensional one: so the sum must have dimensions, or the other's element type must not
    /// count.
    fn promotes_alike(&self, value: Value, sum: Value, other: &Extent, pending: &Pending) -> bool {
        let is_dimensioned = |size: &Size| match size {
            Size::Nothing => true,
            Size::Of(own) | Size::Unless(own, _) => own.is_dimensioned(),
            Size::Unknown(_) => false,
        };
        let narrow = match (dtype(self.graph.ty(value)), dtype(self.graph.ty(sum))) {
            (Some(other), Some(sum)) => join(other, sum) == sum,
            (Some(other), None) => other.is_integral(),
            _ => false,
        };
        is_number(self.graph.ty(value)) || narrow || other.is_dimensioned() || pending.sizes.iter().all(is_dimensioned)
    }

    /// Checks that a cast is lossless: a sum of rounded elements is a different sum.
    fn widens(&self, node: Node) -> Result<(), Obstacle> {
        let [from, to] = [0, 1].map(|i| dtype(self.graph.ty(self.graph.input(node, i))));
        match from.zip(to).is_some_and(|(from, to)| !from.is_integral() && join(from, to) == to) {
            true => Ok(()),
            false => Err("the cast may round before the sum"),
        }
    }

    /// Checks that an operand is zero in all elements.
    fn is_zero(&self, node: Node, i: usize) -> Result<(), Obstacle> {
        let value = self.graph.input(node, i);
        let definer = self.graph.definer(value);
        let zeros = definer.is_some_and(|node| self.graph.kind(node) == Symbol::new("aten::zeros_like"));
        let number = match self.graph.constant(value).flatten() {
            Some(Attribute::Int(n)) => *n == 0,
            Some(Attribute::Float(float)) => float.value == 0.0,
            _ => false,
        };
        match zeros && !self.db.has_writers(value) || number {
            true => Ok(()),
            false => Err("the other branch is not zero"),
        }
    }

    /// The result of a sum, as a sum with all earlier sums moved.
    pub(super) fn summed(&self, node: Node, sums: &Sums) -> Result<Pending, Obstacle> {
        let [operand, size] = [0, 1].map(|i| self.graph.input(node, i));
        let output = self.graph.output(node, 0);
        if !self.is_left_alone(node) {
            return Err("it is written to");
        }
        if dtype(self.graph.ty(output)).is_some_and(DType::is_integral) || self.is_predicate(operand) {
            return Err("it is a sum of integers or bools");
        }
        let before = sums.get(&operand).cloned();
        let mut pending =
            before.unwrap_or_else(|| Pending { whole: self.extents.extent(self.graph, operand), sizes: Vec::new() });
        let is_given = self.graph.ty(size) == Type::list(Type::int());
        let size = self.extents.size(self.graph, self.db, size);
        match joined(&pending, &size, is_given).filter(|_| !self.is_result(operand)) {
            Some(one) => drop(pending.sizes.splice(pending.sizes.len() - 1.., [one])),
            None => pending.sizes.push(size),
        }
        Ok(pending)
    }

    /// Whether a value is computed from bools, whatever its type says.
    fn is_predicate(&self, value: Value) -> bool {
        let maker = self.graph.definer(value).map(|node| ops::operator(self.graph.era, self.graph.kind(node)));
        maker.is_some_and(|operator| operator.rule.elements == Elements::Bool)
    }

    /// Whether neither a sum nor its operand is written to; the two may share memory.
    pub(super) fn is_left_alone(&self, node: Node) -> bool {
        !self.db.has_writers(self.graph.input(node, 0)) && !self.db.has_writers(self.graph.output(node, 0))
    }

    /// Whether a value leaves its block.
    pub(super) fn is_result(&self, value: Value) -> bool {
        let block = self.graph.definer(value).and_then(|node| self.graph.block_of(node));
        block.is_some_and(|block| self.graph.users(value).any(|user| goes_out(self.graph, block, user)))
    }

    /// Whether a kernel computes the operand of a sum: otherwise summing first is less work, and
    /// gives one kernel as well.
    pub(super) fn is_worth_it(&self, node: Node) -> bool {
        let graph = self.graph;
        let definer =
            graph.definer(graph.input(node, 0)).filter(|&maker| graph.block_of(maker) == graph.block_of(node));
        definer.is_some_and(|maker| {
            is_sum(graph, maker)
                || graph.kind(maker) == prim::AUTOGRAD_ADD
                || ops::resolve(graph.era, graph.kind(maker), &types(graph, maker))
                    .schema()
                    .is_some_and(|schema| fusion_row(schema).is_some())
        })
    }

    /// The nodes that sums are moved past: as many as possible, such that no sum is needed both
    /// before one of its readers and after another. And the sums that stay because of that.
    pub(super) fn plan(&self, block: Block) -> (FxHashSet<Node>, FxHashSet<Value>) {
        let mut staying: FxHashSet<Value> = FxHashSet::default();
        loop {
            let (mut sums, mut passed, mut made) = (Sums::default(), FxHashSet::default(), Vec::new());
            for node in self.graph.nodes(block) {
                let found = match is_sum(self.graph, node) {
                    true if self.is_worth_it(node) => self.summed(node, &sums).ok(),
                    true => None,
                    false => self.passable(node, &sums).ok().flatten().map(|passable| passable.pending),
                };
                let Some(pending) = found else { continue };
                if !is_sum(self.graph, node) {
                    passed.insert(node);
                }
                let output = self.graph.output(node, 0);
                made.push(output);
                if !staying.contains(&output) {
                    sums.insert(output, pending);
                }
            }
            let before = staying.len();
            staying.extend(made.into_iter().filter(|&value| self.is_torn(block, value, &passed)));
            if staying.len() == before {
                return (passed, staying);
            }
        }
    }

    /// Whether some readers of a sum need it materialised, and others do not.
    fn is_torn(&self, block: Block, value: Value, passed: &FxHashSet<Node>) -> bool {
        let goes_on = |&user: &Node| {
            passed.contains(&user) || is_sum(self.graph, user) && self.graph.block_of(user) == Some(block)
        };
        let (on, off): (Vec<Node>, Vec<Node>) =
            self.graph.users(value).filter(|&user| !goes_out(self.graph, block, user)).partition(goes_on);
        !on.is_empty() && !off.is_empty()
    }
}

/// Checks that two sums belong together: the addends had one shape before they were summed, or one
/// side counts several times.
fn same_sums(a: &Pending, b: &Pending) -> Result<(), Obstacle> {
    let same = a.sizes.len() == b.sizes.len() && a.sizes.iter().zip(&b.sizes).all(|(a, b)| a.is(b));
    if !same {
        return Err("the two sides are summed to different sizes");
    }
    match a.whole.is(&b.whole) {
        true => Ok(()),
        false => Err("the two sides may have different shapes before they are summed"),
    }
}

/// A sum and the sum before it as one: the last of them reduces everything that is reduced. Where
/// it may be a no-op, they are one if the first is known to end at the size that the last one
/// starts from, and to start from the shape before both: of the three sizes each then broadcasts to
/// the next, so that the ends are equal only when all are.
pub(super) fn joined(before: &Pending, last: &Size, is_given: bool) -> Option<Size> {
    let first = before.sizes.last()?;
    let begins = |whole: &Extent| before.sizes.len() == 1 && whole.is(&before.whole);
    match (first, last) {
        (_, Size::Nothing) => Some(first.clone()),
        (Size::Nothing, _) | (_, Size::Of(_)) => Some(last.clone()),
        (_, Size::Unknown(_)) if is_given => Some(last.clone()),
        _ if first.is(last) => Some(first.clone()),
        (Size::Unless(middle, whole), Size::Unless(own, of)) if of.is(middle) && begins(whole) => {
            Some(Size::Unless(own.clone(), whole.clone()))
        }
        (Size::Of(middle), Size::Unless(own, of)) if of.is(middle) => Some(Size::Of(own.clone())),
        _ => None,
    }
}
