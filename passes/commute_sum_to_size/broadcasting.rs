//! Shapes of tensors, and sizes that are summed to: which tensors broadcast to which.
//!
//! Pointwise operators broadcast their operands to a common shape. That is the least shape that all
//! of them broadcast to, independent of order and repetition. So the shape of a value is a set: the
//! values, not made by such operators, from which it is computed.
//!
//! ```text
//! %a = aten::mul(%x, %y)      {x, y}          %y broadcasts to %a, as {y} is a part of {x, y}
//! %b = aten::tanh(%a)         {x, y}          %a and %b have one shape
//! ```
//!
//! Types have sizes, too. A fact is used whichever of the two proves it.

use jitopt_core::analysis::AliasDb;
use jitopt_core::ir::{Attribute, Graph, Node, Value};
use jitopt_core::ops;
use jitopt_core::ops::shape_rules::{Shape, shape_row};
use jitopt_core::symbol::prim;
use jitopt_core::tensor::layout;
use jitopt_core::types::{Dim, Simple, Type};
use rustc_hash::FxHashMap;
use std::rc::Rc;

/// No set is kept of more values: the tensor stands for itself.
const MOST: usize = 32;

/// A shape.
#[derive(Clone, Debug, Default)]
pub(super) struct Extent {
    /// The values whose shapes are broadcast together, in order; nothing for a list of integers.
    atoms: Option<Rc<[Value]>>,
    /// The dimensions that types give.
    pub(super) dims: Option<Rc<[Dim]>>,
}

fn known(dims: Option<&Rc<[Dim]>>) -> Option<Vec<i64>> {
    let number = |dim: &Dim| if let Dim::Known(n) = dim { Some(*n) } else { None };
    dims?.iter().map(number).collect()
}

impl Extent {
    /// Of known sizes.
    pub(super) fn of_numbers(numbers: &[i64]) -> Extent {
        Extent { atoms: None, dims: Some(numbers.iter().map(|&n| Dim::Known(n)).collect()) }
    }

    /// The sizes, where all are known.
    pub(super) fn numbers(&self) -> Option<Vec<i64>> {
        known(self.dims.as_ref())
    }

    /// Whether a tensor of this shape broadcasts to `to` without enlarging it.
    pub(super) fn broadcasts_to(&self, to: &Extent) -> bool {
        let inside = |atoms: &Rc<[Value]>| {
            atoms.is_empty()
                || to.atoms.as_ref().is_some_and(|all| atoms.iter().all(|atom| all.binary_search(atom).is_ok()))
        };
        self.atoms.as_ref().is_some_and(inside) || self.fits(to).unwrap_or(false)
    }

    /// As `broadcasts_to`, decided by types.
    fn fits(&self, to: &Extent) -> Option<bool> {
        let (own, to) = (self.dims.as_ref()?, to.dims.as_ref()?);
        let fits = |(own, to): (&Dim, &Dim)| match (own, to) {
            (Dim::Known(1), _) => true,
            (Dim::Known(own), Dim::Known(to)) => own == to,
            _ => false,
        };
        Some(own.len() <= to.len() && own.iter().rev().zip(to.iter().rev()).all(fits))
    }

    /// Whether both are the same shape.
    pub(super) fn is(&self, other: &Extent) -> bool {
        let is_known = known(self.dims.as_ref()).is_some() && known(self.dims.as_ref()) == known(other.dims.as_ref());
        is_known || self.atoms.is_some() && self.atoms == other.atoms
    }

    /// Whether there is at least one dimension.
    pub(super) fn is_dimensioned(&self) -> bool {
        self.dims.as_ref().is_some_and(|dims| !dims.is_empty())
    }
}

/// The target size of a sum.
#[derive(Clone, Debug)]
pub(super) enum Size {
    /// Nothing is summed.
    Nothing,
    /// The shape of a value.
    Of(Extent),
    /// The first shape, unless it equals the second: then nothing is summed.
    Unless(Extent, Extent),
    /// The value of this list.
    Unknown(Value),
}

impl Size {
    /// Whether a tensor of this shape is the same for all elements that are summed together.
    pub(super) fn keeps(&self, tensor: &Extent) -> bool {
        match self {
            Size::Nothing => true,
            Size::Of(own) | Size::Unless(own, _) => tensor.broadcasts_to(own),
            Size::Unknown(_) => tensor.broadcasts_to(&Extent::of_numbers(&[])),
        }
    }

    /// Whether both are the same sum, of tensors of one shape.
    pub(super) fn is(&self, other: &Size) -> bool {
        match (self, other) {
            (Size::Of(a), Size::Of(b)) => a.is(b),
            (Size::Unless(a, m), Size::Unless(b, n)) => a.is(b) && m.is(n),
            (Size::Unknown(a), Size::Unknown(b)) => a == b,
            (Size::Nothing, Size::Nothing) => true,
            _ => false,
        }
    }
}

/// The shapes of a graph.
pub(super) struct Extents {
    known: FxHashMap<Value, Extent>,
}

impl Extents {
    /// Of all values of a graph.
    pub(super) fn of(graph: &Graph, db: &AliasDb) -> Extents {
        let mut extents = Extents { known: FxHashMap::default() };
        for node in graph.all_nodes() {
            for output in graph.outputs(node).filter(|&output| graph.ty(output).is_tensor()) {
                let found = extents.made(graph, db, node, output);
                extents.note(graph, output, found);
            }
        }
        extents
    }

    fn note(&mut self, graph: &Graph, value: Value, found: Extent) {
        let dims = dims(graph, value).or(found.dims);
        let atoms = match &dims {
            Some(dims) if dims.is_empty() => Some(Rc::from([])),
            _ => found.atoms.or_else(|| Some(Rc::from([value]))),
        };
        self.known.insert(value, Extent { atoms, dims });
    }

    /// The shape of a tensor. Numbers have no dimensions.
    pub(super) fn extent(&self, graph: &Graph, value: Value) -> Extent {
        let own = || match is_number(graph.ty(value)) {
            false => Extent { atoms: Some(Rc::from([value])), dims: dims(graph, value) },
            true => Extent { atoms: Some(Rc::from([])), dims: Some(Rc::from([])) },
        };
        self.known.get(&value).cloned().unwrap_or_else(own)
    }

    /// Records the shape of a new value.
    pub(super) fn learn(&mut self, value: Value, extent: Extent) {
        self.known.insert(value, extent);
    }

    /// The shape of a node's output; nothing where the output stands for itself.
    fn made(&self, graph: &Graph, db: &AliasDb, node: Node, output: Value) -> Extent {
        if super::is_sum(graph, node) {
            return self.summed(graph, db, node);
        }
        let operands = match shape_of(graph, node) {
            Some(Shape::Broadcast) => 0..graph.num_inputs(node),
            Some(Shape::Like) => 0..graph.num_inputs(node).min(1),
            Some(Shape::AsOther) => 1..graph.num_inputs(node).min(2),
            _ => return Extent::default(),
        };
        match db.has_writers(output) {
            true => Extent::default(),
            false => broadcast(operands.map(|i| self.extent(graph, graph.input(node, i)))),
        }
    }

    /// The shape of a sum.
    pub(super) fn summed(&self, graph: &Graph, db: &AliasDb, node: Node) -> Extent {
        let whole = self.extent(graph, graph.input(node, 0));
        match self.size(graph, db, graph.input(node, 1)) {
            Size::Nothing => whole,
            Size::Of(own) => own,
            // Where nothing is summed the two shapes are equal, and the operand has that shape.
            Size::Unless(own, of) if of.is(&whole) => own,
            _ => Extent::default(),
        }
    }

    /// The meaning of a list of sizes.
    pub(super) fn size(&self, graph: &Graph, db: &AliasDb, value: Value) -> Size {
        if graph.ty(value) == Type::none() {
            return Size::Nothing;
        }
        self.list(graph, db, value).map_or_else(|| self.comparison(graph, db, value), Size::Of)
    }

    fn comparison(&self, graph: &Graph, db: &AliasDb, value: Value) -> Size {
        let node = graph.definer(value).filter(|&node| graph.kind(node).as_str() == "aten::_size_if_not_equal");
        let sides = node.filter(|_| !db.has_writers(value)).and_then(|node| {
            let side = |i| self.list(graph, db, graph.input(node, i));
            Some((side(0)?, side(1)?))
        });
        match sides {
            Some((own, of)) if own.is(&of) => Size::Nothing,
            Some((own, of)) => Size::Unless(own, of),
            None => Size::Unknown(value),
        }
    }

    /// The size of a tensor, or a list of constants.
    fn list(&self, graph: &Graph, db: &AliasDb, value: Value) -> Option<Extent> {
        let node = graph.definer(value).filter(|_| !db.has_writers(value))?;
        let numbers = |numbers: Option<Vec<i64>>| numbers.map(|numbers| Extent::of_numbers(&numbers));
        match graph.kind(node) {
            prim::CONSTANT => match graph.constant(value)?? {
                Attribute::List(all) => numbers(all.iter().map(Attribute::as_int).collect()),
                Attribute::EmptyList(_) => numbers(Some(Vec::new())),
                _ => None,
            },
            prim::LIST_CONSTRUCT => numbers(graph.inputs(node).map(|element| graph.constant_int(element)).collect()),
            kind if kind.as_str() == "aten::size" && graph.num_inputs(node) == 1 => {
                Some(self.extent(graph, graph.input(node, 0)))
            }
            _ => None,
        }
    }
}

/// The shape that several shapes are broadcast to.
fn broadcast(all: impl Iterator<Item = Extent>) -> Extent {
    let (mut atoms, mut sizes): (Option<Vec<Value>>, Option<Vec<i64>>) = (Some(Vec::new()), Some(Vec::new()));
    for extent in all {
        match (&mut atoms, &extent.atoms) {
            (Some(atoms), Some(more)) => atoms.extend(more.iter()),
            _ => atoms = None,
        }
        let more = known(extent.dims.as_ref());
        sizes = sizes.zip(more).and_then(|(a, b)| layout::broadcast(&a, &b).ok().map(|dims| dims.to_vec()));
    }
    let atoms = atoms.map(|mut atoms| {
        atoms.sort_unstable();
        atoms.dedup();
        atoms
    });
    let atoms = atoms.filter(|atoms| atoms.len() <= MOST).map(Rc::from);
    Extent { atoms, dims: sizes.and_then(|sizes| Extent::of_numbers(&sizes).dims) }
}

/// Whether a value of this type is a scalar or None.
pub(super) fn is_number(ty: Type) -> bool {
    use Simple::*;
    [Int, Float, Bool, Complex, Number, Scalar, None, Str].into_iter().any(|simple| ty.is(simple))
}

fn dims(graph: &Graph, value: Value) -> Option<Rc<[Dim]>> {
    graph.ty(value).as_tensor()?.sizes.as_deref().map(Rc::from)
}

/// The rule for the shape of an operator's result.
fn shape_of(graph: &Graph, node: Node) -> Option<Shape> {
    if graph.kind(node) == prim::AUTOGRAD_ADD {
        return Some(Shape::Broadcast);
    }
    let types: Vec<Type> = graph.inputs(node).map(|value| graph.ty(value)).collect();
    let schema = ops::resolve(graph.era, graph.kind(node), &types).schema()?;
    shape_row(schema).map(|row| row.shape)
}
