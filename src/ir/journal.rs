//! A journal of edits of names and comments, so that they can be repeated on a graph with other
//! names.
//!
//! The computation of a node can be read from the resulting graph. The origin of its names cannot:
//! `%x.1` may be a name of the first graph, or the result of renaming `%x` when another value took
//! that name.

use super::graph::{Graph, Node, Value};

/// One edit of names. `V` denotes a value: the value itself while it is recorded, its place
/// afterwards.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NameEdit<V = Value> {
    /// It takes the next number.
    Fresh(V),
    /// It takes a name that is not from this graph.
    Literal(V, Box<[u8]>),
    /// It takes the name of another value, if that has one; with `only_nameless`, only if it has
    /// none itself.
    Moved {
        /// The value whose name moves.
        from: V,
        /// The value that receives it.
        to: V,
        /// Whether `to` keeps a name that it already has.
        only_nameless: bool,
    },
    /// Its name is removed.
    Cleared(V),
    /// It takes this number.
    Numbered(V, u32),
    /// It takes this number unless it has a name.
    NumberedIfNameless(V, u32),
    /// The next number is set.
    Restarted(u32),
    /// It leaves the graph, and its name is free.
    Released(V),
    /// The two exchange names.
    Exchanged(V, V),
}

impl<V> NameEdit<V> {
    /// The edit with its values mapped; `None` if one is not mapped.
    pub(crate) fn try_map<W>(self, mut to: impl FnMut(V) -> Option<W>) -> Option<NameEdit<W>> {
        Some(match self {
            NameEdit::Fresh(v) => NameEdit::Fresh(to(v)?),
            NameEdit::Literal(v, name) => NameEdit::Literal(to(v)?, name),
            NameEdit::Moved { from, to: taker, only_nameless } => {
                NameEdit::Moved { from: to(from)?, to: to(taker)?, only_nameless }
            }
            NameEdit::Cleared(v) => NameEdit::Cleared(to(v)?),
            NameEdit::Numbered(v, n) => NameEdit::Numbered(to(v)?, n),
            NameEdit::NumberedIfNameless(v, n) => NameEdit::NumberedIfNameless(to(v)?, n),
            NameEdit::Restarted(n) => NameEdit::Restarted(n),
            NameEdit::Released(v) => NameEdit::Released(to(v)?),
            NameEdit::Exchanged(a, b) => NameEdit::Exchanged(to(a)?, to(b)?),
        })
    }
}

/// The comments after a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Comment {
    /// The source location.
    Location,
    /// The scope.
    Scope,
}

/// The recorded edits.
#[derive(Debug, Default)]
pub(crate) struct Journal {
    /// Edits of names, in order.
    pub names: Vec<NameEdit>,
    /// The copied comments: kind, source node and target node.
    pub comments: Vec<(Comment, Node, Node)>,
    /// Whether a node was given a section, which may have been removed since: names of nodes copied
    /// from it are recorded as names from elsewhere.
    pub made_section: bool,
}

/// The journal of a graph, if one is kept. A copy of the graph keeps none.
#[derive(Debug, Default)]
pub(super) struct Journaling(Option<Box<Journal>>);

impl Clone for Journaling {
    fn clone(&self) -> Self {
        Journaling(None)
    }
}

impl Journaling {
    /// Suspends the journal while an edit is made of smaller ones that must not be recorded.
    pub(super) fn suspend(&mut self) -> Option<Box<Journal>> {
        self.0.take()
    }

    pub(super) fn resume(&mut self, journal: Box<Journal>) {
        self.0 = Some(journal);
    }
}

impl Graph {
    /// Starts recording edits of names and comments.
    pub(crate) fn keep_journal(&mut self) {
        self.journal.0 = Some(Box::default());
    }

    /// The edits since [`Graph::keep_journal`]; `None` if it was never called for this graph.
    pub(crate) fn take_journal(&mut self) -> Option<Journal> {
        self.journal.0.take().map(|journal| *journal)
    }

    /// Whether the journal says that a node was given a section.
    pub(crate) fn noted_section(&self) -> bool {
        self.journal.0.as_ref().is_some_and(|journal| journal.made_section)
    }

    pub(super) fn note_section(&mut self) {
        if let Some(journal) = &mut self.journal.0 {
            journal.made_section = true;
        }
    }

    #[inline]
    pub(super) fn journal(&mut self, edit: impl FnOnce() -> NameEdit) {
        if let Some(journal) = &mut self.journal.0 {
            journal.names.push(edit());
        }
    }

    pub(super) fn note_comment(&mut self, comment: Comment, from: Node, to: Node) {
        if let Some(journal) = &mut self.journal.0 {
            journal.comments.push((comment, from, to));
        }
    }

    /// Repeats one recorded edit.
    pub(super) fn redo(&mut self, edit: NameEdit<Value>) {
        match edit {
            NameEdit::Fresh(value) => self.number_afresh(value),
            NameEdit::Literal(value, name) => self.set_name(value, &name),
            NameEdit::Moved { from, to, only_nameless: false } => self.move_name(from, to),
            NameEdit::Moved { from, to, only_nameless: true } => self.move_name_to_nameless(from, to),
            NameEdit::Cleared(value) => self.clear_name(value),
            NameEdit::Numbered(value, number) => self.set_number(value, number),
            NameEdit::NumberedIfNameless(value, number) => {
                self.set_number_if_nameless(value, number);
            }
            NameEdit::Restarted(number) => self.set_next_number(number),
            NameEdit::Released(value) => self.release_name(value),
            NameEdit::Exchanged(a, b) => self.exchange_labels(a, b),
        }
    }
}
