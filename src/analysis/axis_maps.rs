//! Axis maps: how the dimensions of each value of a section correspond to the iteration space of
//! its kernel. The fuser decides by them whether two nodes share a space, lowering how values are
//! loaded and stored, and `codegen/geometry.rs` applies them to sizes and strides.
//!
//! A sum that does not keep its reduced dimensions has fewer dimensions: its last dimension need
//! not be the last one of the space. Values computed elementwise from it have the same axis map,
//! and the operand of the reduction has not; where a value would need both maps there is no kernel.

use super::reduced_dims::{Axes, axes, column_reductions, is_column_reduction, is_of_channels, keeps, recipes_of};
use crate::ir::{Graph, Node, Value};
use crate::symbol::prim;
use rustc_hash::{FxHashMap, FxHashSet};

/// The map from the dimensions of a value to those of the iteration space.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AxisMap {
    /// The last dimension to the last one, and so on.
    Whole,
    /// The same, without the reduced dimensions.
    Kept,
    /// The only dimension to dimension 1.
    Channels,
}

/// The dimensions that a value has in the iteration space of a kernel, as a node that may join the
/// kernel would read it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// It is compatible with any place.
    Any,
    /// It has all dimensions of the space.
    Whole,
    /// It has those that are not reduced.
    Kept,
    /// It has none.
    Free,
    /// It is read in several ways, or in one that nothing outside can have.
    Mixed,
}

impl Place {
    /// The place of a value that has one place for one reader and another for a second one.
    pub fn and(self, other: Place) -> Place {
        if self == Place::Any || self == other { other } else { Place::Mixed }
    }
}

/// A value that would need both axis maps, as a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Clash(pub String);

/// The axis maps of the values of a section.
#[derive(Debug, Default)]
pub struct AxisMaps {
    /// Values that lack the reduced dimensions.
    kept: FxHashSet<Value>,
    /// Zero-dimensional values, which are compatible with every map.
    free: FxHashSet<Value>,
    /// Secondary reductions, over other dimensions than the main ones.
    column_reduction: FxHashSet<Value>,
}

impl AxisMaps {
    /// Computes the axis maps of a section.
    ///
    /// # Errors
    /// A value that needs both axis maps.
    pub fn of(section: &Graph) -> Result<AxisMaps, Clash> {
        let reduces = |node| !recipes_of(section, node).is_empty();
        if !section.nodes(section.root()).any(reduces) {
            return Ok(AxisMaps::default());
        }
        let (parent, axis_map, free) = (FxHashMap::default(), FxHashMap::default(), FxHashSet::default());
        let column_reduction = column_reductions(section).into_iter().collect();
        let mut mapping = Mapping { section, parent, axis_map, free, column_reduction };
        for node in section.nodes(section.root()) {
            mapping.node(node)?;
        }
        let mut kept = FxHashSet::default();
        for output in section.nodes(section.root()).flat_map(|node| section.outputs(node)) {
            let class = mapping.find(output);
            if mapping.axis_map.get(&class) == Some(&AxisMap::Kept) {
                kept.insert(output);
            }
        }
        Ok(AxisMaps { kept, free: mapping.free, column_reduction: mapping.column_reduction })
    }

    /// The axis maps of a reduction alone, as the only node of its kernel.
    pub fn of_node(graph: &Graph, node: Node) -> AxisMaps {
        let (mut kept, mut free, mut column_reduction) = Default::default();
        for (k, output) in graph.outputs(node).enumerate() {
            let set: &mut FxHashSet<Value> = match axes(graph, node) {
                _ if is_column_reduction(graph, output) => &mut column_reduction,
                _ if keeps(graph, node, k) => continue,
                Some(Axes::All) => &mut free,
                _ => &mut kept,
            };
            set.insert(output);
        }
        AxisMaps { kept, free, column_reduction }
    }

    /// The place, for readers outside, of a value that the section computes.
    pub fn place(&self, value: Value) -> Place {
        match self.axis_map(value) {
            _ if self.is_column_reduction(value) => Place::Mixed,
            _ if self.is_free(value) => Place::Free,
            AxisMap::Kept => Place::Kept,
            _ => Place::Whole,
        }
    }

    /// The axis map by which a node of the section reads an operand.
    pub fn read(&self, section: &Graph, node: Node, operand: usize) -> AxisMap {
        match recipes_of(section, node).is_empty() {
            true => self.axis_map(section.output(node, 0)),
            false if is_of_channels(section, node, operand) => AxisMap::Channels,
            false => AxisMap::Whole,
        }
    }

    /// The place by which a node of the section reads an operand.
    pub fn place_read(&self, section: &Graph, node: Node, operand: usize) -> Place {
        let is_free = recipes_of(section, node).is_empty() && self.is_free(section.output(node, 0));
        match self.read(section, node, operand) {
            _ if is_free => Place::Free,
            AxisMap::Channels => Place::Mixed,
            AxisMap::Kept => Place::Kept,
            AxisMap::Whole => Place::Whole,
        }
    }

    /// The axis map of a value that the section computes.
    pub fn axis_map(&self, value: Value) -> AxisMap {
        if self.kept.contains(&value) || self.is_free(value) { AxisMap::Kept } else { AxisMap::Whole }
    }

    /// Whether a value is a secondary reduction.
    pub fn is_column_reduction(&self, value: Value) -> bool {
        self.column_reduction.contains(&value)
    }

    /// Whether a value is zero-dimensional because all dimensions were reduced.
    pub fn is_free(&self, value: Value) -> bool {
        self.free.contains(&value)
    }
}

/// Values that are combined elementwise, in equivalence classes.
struct Mapping<'g> {
    section: &'g Graph,
    parent: FxHashMap<Value, Value>,
    /// The axis map of a class, where it is known.
    axis_map: FxHashMap<Value, AxisMap>,
    /// Zero-dimensional values, which are compatible with every map.
    free: FxHashSet<Value>,
    /// Secondary reductions, which nothing reads.
    column_reduction: FxHashSet<Value>,
}

impl Mapping<'_> {
    fn find(&mut self, value: Value) -> Value {
        let mut root = value;
        while let Some(&parent) = self.parent.get(&root) {
            root = parent;
        }
        if root != value {
            self.parent.insert(value, root);
        }
        root
    }

    fn unite(&mut self, a: Value, b: Value) -> Result<(), Clash> {
        let (a, b) = (self.find(a), self.find(b));
        if a != b {
            let axis_map = self.axis_map.get(&b).copied();
            self.parent.insert(b, a);
            if let Some(axis_map) = axis_map {
                self.is(a, axis_map)?;
            }
        }
        Ok(())
    }

    fn is(&mut self, value: Value, axis_map: AxisMap) -> Result<(), Clash> {
        let class = self.find(value);
        match self.axis_map.insert(class, axis_map) {
            Some(other) if other != axis_map => {
                let name = self.section.name(value);
                Err(Clash(format!(
                    "`%{name}` is combined both with values before a reduction and with reduced values that lack its dimensions"
                )))
            }
            _ => Ok(()),
        }
    }

    fn is_param(&self, value: Value) -> bool {
        self.section.definer(value).is_none_or(|node| self.section.kind(node) == prim::PARAM)
    }

    fn node(&mut self, node: Node) -> Result<(), Clash> {
        let section = self.section;
        if section.num_outputs(node) == 0 || !section.ty(section.output(node, 0)).is_tensor() {
            return Ok(());
        }
        let output = section.output(node, 0);
        if !recipes_of(section, node).is_empty() {
            for (i, value) in section.inputs(node).enumerate().filter(|(_, value)| section.ty(*value).is_tensor()) {
                let axis_map = if is_of_channels(section, node, i) { AxisMap::Kept } else { AxisMap::Whole };
                if self.is_computed(value) {
                    self.is(value, axis_map)?;
                }
            }
            return section.outputs(node).enumerate().try_for_each(|(k, output)| match keeps(section, node, k) {
                _ if self.column_reduction.contains(&output) => Ok(()),
                true => self.is(output, AxisMap::Whole),
                false if axes(section, node) == Some(Axes::All) => {
                    self.free.insert(output);
                    Ok(())
                }
                false => self.is(output, AxisMap::Kept),
            });
        }
        let tensors: Vec<Value> = section.inputs(node).filter(|&value| section.ty(value).is_tensor()).collect();
        if !tensors.is_empty() && tensors.iter().all(|value| self.free.contains(value)) {
            self.free.insert(output);
            return Ok(());
        }
        let with = tensors.into_iter().filter(|&value| self.is_computed(value)).collect::<Vec<_>>();
        for other in with.into_iter().chain(section.outputs(node).skip(1)) {
            self.unite(output, other)?;
        }
        Ok(())
    }

    /// Whether a value has an axis map of its own: operands of the group are loaded with the map of
    /// their reader.
    fn is_computed(&self, value: Value) -> bool {
        self.section.ty(value).is_tensor() && !self.is_param(value) && !self.free.contains(&value)
    }
}
