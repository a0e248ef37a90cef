//! Builds a graph in bulk: its tables are copied from a blueprint, and the parts that the blueprint
//! lacks are taken from the graph that is replaced.
//!
//! ```text
//! before                          blueprint                             after
//! %x : Float(3)                   %a : (type and name of value 0)       %x : Float(3)
//! %y = aten::neg(%x) # m.py:2     %b = aten::relu(%a) # as node 0       %7 = aten::relu(%x) # m.py:2
//! ```
//!
//! No use list is edited: rows of nodes, values, operands and blocks are plain memory. The time is
//! linear in the rows of the blueprint, and in the edits of names if these have to be repeated.

use super::graph::{AttributeList, Graph, Node, NodeRow, Value, ValueRow};
use super::journal::NameEdit;
use super::label_plan::{LabelPlan, LabelSource};
use super::naming::{LabelId, TEXT};
use super::survey::Survey;
use super::text_pool::TextId;
use crate::entity::{Entity, EntityVec};
use crate::types::{Type, TypeKind};

/// The sources of the parts of a result node that are not in the blueprint: numbers of nodes of the
/// first graph in printed order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeSource {
    /// The node with its attributes; those of the blueprint are equal to them.
    pub attributes: Option<u32>,
    /// The node with its source location.
    pub location: Option<u32>,
    /// The node with its scope.
    pub scope: Option<u32>,
}

/// The sources of the name and the type of a result value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValueSource {
    /// Its place: a value of the first graph in printed order, or after these a value made later,
    /// in order of creation.
    pub place: u32,
    /// Its type.
    pub ty: TypeSource,
}

/// The source of a type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TypeSource {
    /// The blueprint.
    Own,
    /// A value of the first graph, whose type it is.
    Whole(u32),
    /// Some of its tensor types are those of values of the first graph: pairs of a value and the
    /// number of a tensor type in its type.
    Parts(Box<[Option<(u32, u32)>]>),
}

/// Everything that a blueprint takes from the first graph.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sources {
    /// The number of nodes of the first graph.
    pub num_nodes: u32,
    /// The number of its values.
    pub num_values: u32,
    /// The values with names, as in [`Survey::named`].
    pub named: Vec<u64>,
    /// The sources of each node of the result, in printed order.
    pub nodes: Vec<NodeSource>,
    /// The sources of each value of the result, in printed order.
    pub values: Vec<ValueSource>,
    /// The edits of names that led to the result; values by their place.
    pub edits: Vec<NameEdit<u32>>,
}

type OwnComments = (u32, Option<Box<[u8]>>, Option<Box<[u8]>>);

/// A template that a graph is built from.
#[derive(Debug)]
pub(crate) struct Blueprint {
    graph: Graph,
    sources: Sources,
    /// Rows of nodes, and the nodes whose comments they take.
    comments: Vec<(u32, NodeSource)>,
    /// Rows of nodes with comments that are not from the first graph: location and scope.
    own_comments: Vec<OwnComments>,
    /// For each list of attributes, the node of the first graph that has it too, and whether this
    /// is its last use.
    attributes: Vec<Option<(u32, bool)>>,
    /// Rows of values and the sources of their types.
    types: Vec<(u32, TypeSource)>,
    /// Places of the values, by row.
    places: Vec<u32>,
    /// Labels of the values, by row, and the next number; `None` if edits of names have to be
    /// repeated.
    labels: Option<(Vec<LabelSource>, LabelSource)>,
    /// One more than the greatest place in use.
    num_places: u32,
}

impl Blueprint {
    /// A blueprint of `graph`, which must be as the parser leaves it: rows in printed order, none
    /// erased. `None` if the sources do not fit it.
    pub(crate) fn new(mut graph: Graph, sources: Sources) -> Option<Blueprint> {
        let survey = Survey::of(&graph);
        let fits = survey.nodes.len() == sources.nodes.len()
            && survey.values.len() == sources.values.len()
            && graph.values.len() == survey.values.len()
            && sources.are_in_bounds();
        if !fits {
            return None;
        }
        let rows = |place: usize| survey.values[place].index();
        let mut places = vec![0; survey.values.len()];
        let mut types = Vec::new();
        for (i, source) in sources.values.iter().enumerate() {
            places[rows(i)] = source.place;
            if source.ty != TypeSource::Own {
                types.push((rows(i) as u32, source.ty.clone()));
            }
        }
        let with_comments = |(&node, source): (&Node, &NodeSource)| {
            (source.location.is_some() || source.scope.is_some()).then_some((node.index() as u32, *source))
        };
        let comments = survey.nodes.iter().zip(&sources.nodes).filter_map(with_comments).collect();
        let own_comments = take_own_comments(&mut graph, &survey, &sources.nodes);
        let edited = sources.edits.iter().filter_map(greatest_place).max();
        let num_places = places.iter().copied().chain(edited).map(|place| place + 1).max().unwrap_or(0);
        Some(Blueprint {
            comments,
            own_comments,
            attributes: attribute_sources(&graph, &survey, &sources.nodes),
            types,
            labels: planned_labels(&sources, &places),
            places,
            num_places: num_places.max(sources.num_values),
            graph,
            sources,
        })
    }

    /// Whether a graph with this survey has the required nodes and values.
    pub(crate) fn fits(&self, survey: &Survey) -> bool {
        survey.nodes.len() == self.sources.num_nodes as usize && survey.values.len() == self.sources.num_values as usize
    }
}

impl Sources {
    fn are_in_bounds(&self) -> bool {
        let node = |n: Option<u32>| n.is_none_or(|n| n < self.num_nodes);
        let ty = |ty: &TypeSource| match ty {
            TypeSource::Own => true,
            TypeSource::Whole(value) => *value < self.num_values,
            TypeSource::Parts(parts) => parts.iter().flatten().all(|(value, _)| *value < self.num_values),
        };
        // There cannot be more places than edits and values: a wrong number must not allocate
        // memory.
        let most = u64::from(self.num_values) + 2 * self.edits.len() as u64;
        let place = |place: u32| u64::from(place) < most;
        self.named.len() == (self.num_values as usize).div_ceil(64)
            && self.nodes.iter().all(|s| node(s.attributes) && node(s.location) && node(s.scope))
            && self.values.iter().all(|source| ty(&source.ty) && place(source.place))
            && self.edits.iter().filter_map(greatest_place).all(place)
    }

    fn is_named(&self, place: u32) -> bool {
        self.named.get(place as usize / 64).is_some_and(|word| word >> (place % 64) & 1 == 1)
    }
}

fn greatest_place(edit: &NameEdit<u32>) -> Option<u32> {
    match *edit {
        NameEdit::Moved { from: a, to: b, .. } | NameEdit::Exchanged(a, b) => Some(a.max(b)),
        NameEdit::Fresh(v) | NameEdit::Cleared(v) | NameEdit::Released(v) | NameEdit::Literal(v, _) => Some(v),
        NameEdit::Numbered(v, _) | NameEdit::NumberedIfNameless(v, _) => Some(v),
        NameEdit::Restarted(_) => None,
    }
}

/// Removes the comments from the rows: they are texts of another graph.
fn take_own_comments(graph: &mut Graph, survey: &Survey, nodes: &[NodeSource]) -> Vec<OwnComments> {
    let mut own = Vec::new();
    for (&node, source) in survey.nodes.iter().zip(nodes) {
        let location = graph.location(node).filter(|_| source.location.is_none()).map(Box::from);
        let scope = graph.scope(node).filter(|_| source.scope.is_none()).map(Box::from);
        if location.is_some() || scope.is_some() {
            own.push((node.index() as u32, location, scope));
        }
        let row = &mut graph.nodes[node];
        (row.location, row.scope) = (TextId::default(), TextId::default());
    }
    own
}

fn attribute_sources(graph: &Graph, survey: &Survey, nodes: &[NodeSource]) -> Vec<Option<(u32, bool)>> {
    let mut sources = vec![None; graph.attributes.len()];
    let mut seen = rustc_hash::FxHashSet::default();
    // From the back, so that the last user moves the list and earlier ones copy it.
    for (&node, source) in survey.nodes.iter().zip(nodes).rev() {
        let slot = (graph.nodes[node].attributes as usize).checked_sub(1);
        if let (Some(slot), Some(from)) = (slot, source.attributes) {
            sources[slot] = Some((from, seen.insert(from)));
        }
    }
    sources
}

fn planned_labels(sources: &Sources, places: &[u32]) -> Option<(Vec<LabelSource>, LabelSource)> {
    let plan = LabelPlan::of(&sources.edits, sources.num_values, &|place| sources.is_named(place))?;
    let labels = places.iter().map(|&place| plan.labels.get(place as usize).copied().flatten());
    Some((labels.collect::<Option<_>>()?, plan.next))
}

impl Graph {
    /// Linear in the blueprint: replaces this graph, whose survey is given, by the result of the
    /// blueprint. Node ids held by the caller are invalid afterwards, and lineage starts
    /// anew.
    ///
    /// # Panics
    /// When the blueprint does not fit the survey, see [`Blueprint::fits`].
    pub(crate) fn rebuild(&mut self, blueprint: &Blueprint, survey: &Survey) {
        assert!(blueprint.fits(survey), "a blueprint fits graphs of one shape only");
        let template = &blueprint.graph;
        let values = self.assembled_values(blueprint, survey);
        let nodes = self.assembled_nodes(blueprint, survey);
        self.attributes = self.assembled_attributes(blueprint, survey);
        (self.nodes, self.values) = (nodes, values);
        self.uses = template.uses.clone();
        self.blocks = template.blocks.clone();
        self.lists = template.lists.clone();
        self.root = template.root;
        self.lineages = EntityVec::default();
        self.current_rewrite = None;
        self.own_names();
        self.touch();
    }

    fn assembled_values(&mut self, blueprint: &Blueprint, survey: &Survey) -> EntityVec<Value, ValueRow> {
        let mut values = blueprint.graph.values.clone();
        match &blueprint.labels {
            Some((labels, next)) if blueprint.sources.named == survey.named => {
                for (row, &source) in values.rows_mut().iter_mut().zip(labels) {
                    row.label = self.label_from(source, survey);
                }
                self.next_number = self.label_from(*next, survey).0;
            }
            _ => {
                let value_at = self.redo_edits(blueprint, survey);
                for (row, &place) in values.rows_mut().iter_mut().zip(&blueprint.places) {
                    row.label = self.values[value_at(place)].label;
                }
            }
        }
        for (row, source) in &blueprint.types {
            let row = &mut values.rows_mut()[*row as usize];
            row.ty = match source {
                TypeSource::Own => row.ty,
                TypeSource::Whole(from) => self.values[survey.values[*from as usize]].ty,
                TypeSource::Parts(parts) => row.ty.map(|ty| self.with_parts(ty, parts, survey)),
            };
        }
        values
    }

    #[inline]
    fn label_from(&self, source: LabelSource, survey: &Survey) -> LabelId {
        match source {
            LabelSource::Place(place) => self.values[survey.values[place as usize]].label,
            LabelSource::Fresh(n) => LabelId::number(self.next_number + n),
            LabelSource::Number(n) => LabelId::number(n),
        }
    }

    /// Repeats the edits of names; rows of created values are added for this. Returns the map from
    /// places to values.
    fn redo_edits<'a>(&mut self, blueprint: &Blueprint, survey: &'a Survey) -> impl Fn(u32) -> Value + use<'a> {
        let (inputs, first) = (survey.values.len() as u32, self.values.len());
        let value_at = move |place: u32| match place < inputs {
            true => survey.values[place as usize],
            false => Value::at(first + (place - inputs) as usize),
        };
        for _ in inputs..blueprint.num_places {
            let label = LabelId::number(0);
            self.values.push(ValueRow { ty: None, label, definer: None, index: 0, first_use: None, last_use: None });
        }
        for edit in &blueprint.sources.edits {
            let edit = edit.clone().try_map(|place| Some(value_at(place)));
            self.redo(edit.expect("every place is a value"));
        }
        value_at
    }

    /// A type with some of its tensor types taken from values.
    fn with_parts(&self, ty: Type, parts: &[Option<(u32, u32)>], survey: &Survey) -> Type {
        let mut at = 0;
        ty.map_tensors(&mut |own| {
            at += 1;
            let found = parts.get(at - 1).copied().flatten().and_then(|(from, part)| {
                let ty = self.values[survey.values[from as usize]].ty?;
                ty.tensor_part(part as usize)
            });
            found.unwrap_or_else(|| Type::new(TypeKind::Tensor(own.clone())))
        })
    }

    fn assembled_nodes(&mut self, blueprint: &Blueprint, survey: &Survey) -> EntityVec<Node, NodeRow> {
        let mut nodes = blueprint.graph.nodes.clone();
        let rows = nodes.rows_mut();
        for &(row, source) in &blueprint.comments {
            let from = |node: Option<u32>| node.map(|node| &self.nodes[survey.nodes[node as usize]]);
            rows[row as usize].location = from(source.location).map_or(TextId::default(), |row| row.location);
            rows[row as usize].scope = from(source.scope).map_or(TextId::default(), |row| row.scope);
        }
        for (row, location, scope) in &blueprint.own_comments {
            if let Some(text) = location {
                rows[*row as usize].location = self.texts.add(text, TextId::default());
            }
            if let Some(text) = scope {
                self.last_scope = self.texts.add(text, self.last_scope);
                rows[*row as usize].scope = self.last_scope;
            }
        }
        nodes
    }

    fn assembled_attributes(&mut self, blueprint: &Blueprint, survey: &Survey) -> Vec<AttributeList> {
        let mut old = std::mem::take(&mut self.attributes);
        let templates = &blueprint.graph.attributes;
        let list = |(source, template): (&Option<(u32, bool)>, &AttributeList)| {
            let slot = source.and_then(|(node, last)| {
                let row = &self.nodes[survey.nodes[node as usize]];
                Some(((row.attributes as usize).checked_sub(1)?, last))
            });
            match slot {
                Some((slot, true)) => std::mem::take(&mut old[slot]),
                Some((slot, false)) => old[slot].clone(),
                None => template.clone(),
            }
        };
        blueprint.attributes.iter().zip(templates).map(list).collect()
    }

    /// Makes every value the owner of its name.
    fn own_names(&mut self) {
        self.names.owners.fill(None);
        for (i, row) in self.values.rows().iter().enumerate() {
            if row.label.0 & TEXT != 0 {
                self.names.owners[(row.label.0 & !TEXT) as usize] = Some(Value::at(i));
            }
        }
    }
}
