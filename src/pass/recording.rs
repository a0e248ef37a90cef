//! Derives, from a graph before and after passes, the blueprint that produces the result from the
//! graph, and from structurally equal graphs.
//!
//! The passes are not traced: structure is read from the result. The facts that the encoding of a
//! graph omits are tracked: names by the journal of the graph, comments by rows and the journal,
//! and types by marks. A mark is a tensor type that no other value has; passes that read no shapes
//! copy it as they would copy the real type.

use crate::entity::Entity;
use crate::ir::{
    Attribute, Comment, Graph, GraphWords, Journal, Label, Node, NodeSource, Sources, Survey, TypeSource, Value,
    ValueMap, ValueSource,
};
use crate::symbol::prim;
use crate::types::{Dim, TensorType, Type, TypeKind};
use rustc_hash::{FxHashMap, FxHashSet};

/// The marks on the types of one graph.
#[derive(Debug, Default)]
pub(super) struct Marks {
    /// For each mark the value, by position, and the index of the tensor type in the value's type.
    stands_for: Vec<(u32, u32)>,
    /// The position of the value that has this type as a whole.
    wholes: FxHashMap<Type, u32>,
}

/// Marks count up from here: far from the symbols of sizes in texts, and from overflow.
const FIRST_MARK: i64 = -(1 << 60);

impl Marks {
    /// Replaces all tensor types except those of constants by marks.
    pub(super) fn put(graph: &mut Graph, survey: &Survey) -> Marks {
        let mut marks = Marks::default();
        for (place, &value) in survey.values.iter().enumerate() {
            let is_constant = graph.definer(value).is_some_and(|node| graph.kind(node) == prim::CONSTANT);
            let Some(ty) = graph.written_type(value).filter(|_| !is_constant) else { continue };
            let mut part = 0;
            let marked = ty.map_tensors(&mut |_| {
                marks.stands_for.push((place as u32, part));
                part += 1;
                mark(marks.stands_for.len() - 1)
            });
            if part > 0 {
                marks.wholes.insert(marked, place as u32);
                graph.set_type(value, marked);
            }
        }
        marks
    }

    fn meaning(&self, tensor: &TensorType) -> Option<(u32, u32)> {
        match tensor.sizes.as_deref() {
            Some([Dim::Symbolic(n)]) => self.stands_for.get(usize::try_from(n.wrapping_sub(FIRST_MARK)).ok()?).copied(),
            _ => None,
        }
    }

    /// Removes the marks from a type, and returns what they represented.
    fn source(&self, ty: Type) -> (Type, TypeSource) {
        let mut parts = Vec::new();
        let plain = ty.map_tensors(&mut |tensor| {
            parts.push(self.meaning(tensor));
            match parts.last() {
                Some(Some(_)) => Type::tensor(),
                _ => Type::new(TypeKind::Tensor(tensor.clone())),
            }
        });
        match self.wholes.get(&ty) {
            Some(&place) => (plain, TypeSource::Whole(place)),
            None if parts.iter().all(Option::is_none) => (plain, TypeSource::Own),
            None => (plain, TypeSource::Parts(parts.into())),
        }
    }
}

fn mark(n: usize) -> Type {
    let sizes: Box<[Dim]> = [Dim::Symbolic(FIRST_MARK + n as i64)].into();
    Type::new(TypeKind::Tensor(TensorType { sizes: Some(sizes), ..TensorType::default() }))
}

/// The graph before the passes.
pub(super) struct Recording<'a> {
    pub(super) before: &'a Graph,
    pub(super) survey: &'a Survey,
    pub(super) marks: Marks,
}

impl Recording<'_> {
    /// Whether a node of `after` has a section, where there was none before, or had one in between.
    /// The contents of an old section are part of the encoding of the graph, names included.
    pub(super) fn made_section(&self, after: &Graph) -> bool {
        let had: FxHashSet<Node> =
            self.survey.nodes.iter().copied().filter(|&node| has_section(self.before, node)).collect();
        after.noted_section() || after.all_nodes().any(|node| has_section(after, node) && !had.contains(&node))
    }

    /// The blueprint that produces `after` from the graph before: a graph without erased rows, and
    /// the inherited facts. None where something cannot be tracked.
    pub(super) fn result(&self, after: &mut Graph) -> Option<(Graph, Sources)> {
        let journal = after.take_journal()?;
        let survey = Survey::of(after);
        let nodes = self.node_sources(after, &survey, &journal);
        let places = self.survey.places();
        let inputs = self.survey.values.len();
        // The values of the first graph are followed by those that were created, in the order of
        // their rows.
        let place =
            |value: Value| if value.index() < inputs { places(value) } else { u32::try_from(value.index()).ok() };
        let values = survey.values.iter().map(|&value| Some(self.value_source(after, value, place(value)?)));
        let values: Option<Vec<ValueSource>> = values.collect();
        let edits: Option<_> = journal.names.into_iter().map(|edit| edit.try_map(place)).collect();
        let sources = Sources {
            num_nodes: self.survey.nodes.len() as u32,
            num_values: self.survey.values.len() as u32,
            named: self.survey.named.clone(),
            nodes,
            values: values?,
            edits: edits?,
        };
        Some((compact(after), sources))
    }

    fn value_source(&self, after: &mut Graph, value: Value, place: u32) -> ValueSource {
        let Some(ty) = after.written_type(value) else { return ValueSource { place, ty: TypeSource::Own } };
        let (plain, source) = self.marks.source(ty);
        after.set_type(value, plain);
        ValueSource { place, ty: source }
    }

    fn node_sources(&self, after: &Graph, survey: &Survey, journal: &Journal) -> Vec<NodeSource> {
        let mut places: FxHashMap<Node, u32> = FxHashMap::default();
        places.extend(self.survey.nodes.iter().enumerate().map(|(i, &node)| (node, i as u32)));
        let mut copied: FxHashMap<(Node, bool), Node> = FxHashMap::default();
        for &(comment, from, to) in &journal.comments {
            let key = |node| (node, comment == Comment::Scope);
            let first = copied.get(&key(from)).copied().unwrap_or(from);
            copied.insert(key(to), first);
        }
        let mut words = (GraphWords::default(), GraphWords::default());
        let mut source = |node: &Node| {
            let own = places.get(node).copied();
            let from = |scope: bool| places.get(copied.get(&(*node, scope)).unwrap_or(node)).copied();
            let is_same = |place: &u32, of: fn(&Graph, Node) -> Option<&[u8]>| {
                of(self.before, self.survey.nodes[*place as usize]) == of(after, *node)
            };
            NodeSource {
                attributes: own.filter(|&place| {
                    same_attributes(&mut words, (self.before, self.survey.nodes[place as usize]), (after, *node))
                }),
                location: from(false).filter(|place| is_same(place, Graph::location)),
                scope: from(true).filter(|place| is_same(place, Graph::scope)),
            }
        };
        survey.nodes.iter().map(&mut source).collect()
    }
}

fn has_section(graph: &Graph, node: Node) -> bool {
    graph.attributes(node).iter().any(|attribute| matches!(attribute.1, Attribute::Graph(_)))
}

/// Whether two nodes have equal attributes, and at least one.
fn same_attributes(words: &mut (GraphWords, GraphWords), a: (&Graph, Node), b: (&Graph, Node)) -> bool {
    if !a.0.has_attribute_list(a.1) || !b.0.has_attribute_list(b.1) {
        return false;
    }
    for (words, (graph, node)) in [(&mut words.0, a), (&mut words.1, b)] {
        words.words.clear();
        words.attributes(graph, node);
    }
    words.0.words == words.1.words
}

/// A copy without erased rows.
fn compact(graph: &Graph) -> Graph {
    let mut copy = Graph::new();
    copy.set_release(graph.release());
    copy.dialect = graph.dialect;
    copy.layout = graph.layout;
    let mut map = ValueMap::default();
    let root = copy.root();
    for param in graph.params(graph.root()) {
        let new = copy.add_param_if_typed(root, graph.written_type(param));
        map.insert(param, new);
        if let Label::Text(name) = graph.label(param) {
            copy.set_name(new, name);
        }
    }
    for result in copy.copy_block_into(Some(graph), graph.root(), root, &mut map) {
        copy.add_result(root, result);
    }
    copy.shrink_to_fit();
    copy
}
