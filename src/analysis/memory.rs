//! Points-to constraints, recorded during the traversal: elements, what they point to and contain,
//! and writes.
//!
//! Nothing is resolved here. The values of an element are known when all edges are, so the
//! traversal only records notes, and [`super::locations`] resolves them. A note costs a few bytes
//! and no look-up.

pub(super) use super::type_classes::Element;
use super::type_classes::{Breadth, ClassRow, TypeClass, TypeClasses};
use crate::entity::{Entity, EntityVec};
use crate::types::{Simple, Type};

crate::entities! {
    /// A further points-to edge of an element.
    Edge, "p";
}

#[derive(Clone, Copy, Debug)]
pub(super) struct ElementRow {
    pub(super) class: TypeClass,
    /// The first points-to target; an element without targets is memory of its own.
    pub(super) first: Option<Element>,
    /// The other targets.
    pub(super) more: Option<Edge>,
}

/// The target of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Write {
    /// The memory of the element.
    To(Element),
    /// The memory of the element and all its contents.
    Deep(Element),
    /// Everything that is reachable from outside.
    Everything,
}

/// The notes.
#[derive(Debug)]
pub(super) struct Draft {
    pub(super) elements: EntityVec<Element, ElementRow>,
    pub(super) edges: EntityVec<Edge, (Element, Option<Edge>)>,
    /// Pairs of container and content.
    pub(super) contains: Vec<(Element, Element)>,
    /// Elements that become reachable from outside.
    pub(super) escaped: Vec<Element>,
    pub(super) writes: Vec<Write>,
    pub(super) classes: TypeClasses,
    /// The class of values of any type.
    pub(super) any: TypeClass,
}

impl Draft {
    pub(super) fn new() -> Draft {
        let mut draft = Draft {
            elements: EntityVec::default(),
            edges: EntityVec::default(),
            contains: Vec::new(),
            escaped: Vec::new(),
            writes: Vec::new(),
            classes: TypeClasses::new(),
            any: TypeClass::at(0),
        };
        draft.class(Type::simple(Simple::Any));
        draft.class(Type::tensor());
        draft
    }

    /// The class of a type; none when it is immutable.
    #[inline]
    pub(super) fn class(&mut self, ty: Type) -> Option<TypeClass> {
        if ty.is_tensor() && self.classes.tensor.is_some() {
            return self.classes.tensor;
        }
        self.class_with_wildcard(ty)
    }

    fn class_with_wildcard(&mut self, ty: Type) -> Option<TypeClass> {
        let before = self.classes.rows.len();
        let elements = &mut self.elements;
        let class = self.classes.of(ty, &mut |class| elements.push(ElementRow { class, first: None, more: None }));
        for new in before..self.classes.rows.len() {
            let ClassRow { wildcard, .. } = self.classes.rows[TypeClass::at(new)];
            self.hold_parts(wildcard);
        }
        class
    }

    /// The element that represents all values of a class that come from outside.
    pub(super) fn wildcard(&self, class: TypeClass) -> Element {
        self.classes.rows[class].wildcard
    }

    /// The wildcard, for a value that may be anything from outside.
    #[inline]
    pub(super) fn outside(&mut self, class: TypeClass) -> Element {
        let row = &mut self.classes.rows[class];
        row.used = true;
        row.wildcard
    }

    /// New memory. The contents of a container may be anything of its type, unless the caller knows
    /// better.
    #[inline]
    pub(super) fn fresh(&mut self, class: TypeClass) -> Element {
        let element = self.empty(class);
        if Some(class) != self.classes.tensor {
            self.hold_parts(element);
        }
        element
    }

    /// New memory without contents yet.
    #[inline]
    pub(super) fn empty(&mut self, class: TypeClass) -> Element {
        self.elements.push(ElementRow { class, first: None, more: None })
    }

    fn hold_parts(&mut self, element: Element) {
        let row = &self.classes.rows[self.elements[element].class];
        // A union is one of its parts; it does not contain them.
        if row.breadth == Breadth::Parts {
            return;
        }
        for part in row.parts.clone() {
            let wildcard = self.outside(part);
            self.contains.push((element, wildcard));
        }
    }

    /// Records that `from` may be the same memory as `to`.
    pub(super) fn point(&mut self, from: Element, to: Element) {
        let row = self.elements[from];
        if row.first.is_none() {
            self.elements[from].first = Some(to);
        } else if row.first != Some(to) {
            self.elements[from].more = Some(self.edges.push((to, row.more)));
        }
    }

    /// The points-to targets of `element`.
    pub(super) fn targets(&self, element: Element) -> impl Iterator<Item = Element> + '_ {
        let row = self.elements[element];
        let more = std::iter::successors(row.more, |&edge| self.edges[edge].1);
        row.first.into_iter().chain(more.map(|edge| self.edges[edge].0))
    }
}
