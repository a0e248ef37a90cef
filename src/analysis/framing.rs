//! Axis maps: how the dimensions of each value of a section correspond to the iteration space of
//! its kernel.
//!
//! A sum that does not keep its reduced dimensions has fewer dimensions: its last dimension need
//! not be the last one of the space. Values computed elementwise from it have the same axis map,
//! and the operand of the reduction has not; where a value would need both maps there is no kernel.

use super::folds::{Axes, asides, axes, is_of_channels, keeps, recipes_of};
use crate::ir::{Graph, Node, Value};
use crate::symbol::prim;
use rustc_hash::{FxHashMap, FxHashSet};

/// The map from the dimensions of a value to those of the iteration space.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Frame {
    /// The last dimension to the last one, and so on.
    Whole,
    /// The same, without the reduced dimensions.
    Kept,
    /// The only dimension to dimension 1.
    Channels,
}

/// A value that would need both axis maps, as a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Clash(pub String);

/// The axis maps of the values of a section.
#[derive(Debug, Default)]
pub struct Frames {
    /// Values that lack the reduced dimensions.
    kept: FxHashSet<Value>,
    /// Zero-dimensional values, which are compatible with every map.
    free: FxHashSet<Value>,
    /// Secondary reductions, over other dimensions than the main ones.
    aside: FxHashSet<Value>,
}

impl Frames {
    /// Computes the axis maps of a section.
    ///
    /// # Errors
    /// A value that needs both axis maps.
    pub fn of(section: &Graph) -> Result<Frames, Clash> {
        let folds = |node| !recipes_of(section, node).is_empty();
        if !section.nodes(section.root()).any(folds) {
            return Ok(Frames::default());
        }
        let (parent, frame, free) = (FxHashMap::default(), FxHashMap::default(), FxHashSet::default());
        let aside = asides(section).into_iter().collect();
        let mut framing = Framing { section, parent, frame, free, aside };
        for node in section.nodes(section.root()) {
            framing.node(node)?;
        }
        let mut kept = FxHashSet::default();
        for output in section.nodes(section.root()).flat_map(|node| section.outputs(node)) {
            let class = framing.find(output);
            if framing.frame.get(&class) == Some(&Frame::Kept) {
                kept.insert(output);
            }
        }
        Ok(Frames { kept, free: framing.free, aside: framing.aside })
    }

    /// The axis map of a value that the section computes.
    pub fn frame(&self, value: Value) -> Frame {
        if self.kept.contains(&value) || self.is_free(value) { Frame::Kept } else { Frame::Whole }
    }

    /// Whether a value is a secondary reduction.
    pub fn is_aside(&self, value: Value) -> bool {
        self.aside.contains(&value)
    }

    /// Whether a value is zero-dimensional because all dimensions were reduced.
    pub fn is_free(&self, value: Value) -> bool {
        self.free.contains(&value)
    }
}

/// Values that are combined elementwise, in equivalence classes.
struct Framing<'g> {
    section: &'g Graph,
    parent: FxHashMap<Value, Value>,
    /// The axis map of a class, where it is known.
    frame: FxHashMap<Value, Frame>,
    /// Zero-dimensional values, which are compatible with every map.
    free: FxHashSet<Value>,
    /// Secondary reductions, which nothing reads.
    aside: FxHashSet<Value>,
}

impl Framing<'_> {
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
            let frame = self.frame.get(&b).copied();
            self.parent.insert(b, a);
            if let Some(frame) = frame {
                self.is(a, frame)?;
            }
        }
        Ok(())
    }

    fn is(&mut self, value: Value, frame: Frame) -> Result<(), Clash> {
        let class = self.find(value);
        match self.frame.insert(class, frame) {
            Some(other) if other != frame => {
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
                let frame = if is_of_channels(section, node, i) { Frame::Kept } else { Frame::Whole };
                if self.is_computed(value) {
                    self.is(value, frame)?;
                }
            }
            return section.outputs(node).enumerate().try_for_each(|(k, output)| match keeps(section, node, k) {
                _ if self.aside.contains(&output) => Ok(()),
                true => self.is(output, Frame::Whole),
                false if axes(section, node) == Some(Axes::All) => {
                    self.free.insert(output);
                    Ok(())
                }
                false => self.is(output, Frame::Kept),
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
