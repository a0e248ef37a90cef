//! The nodes and values of a graph in printed order: a correspondence between two graphs of one
//! structure.

use super::graph::{Block, Graph, Node, Value};
use crate::entity::Entity;

/// Nodes and values, numbered in printed order: the params of a block, then node by node the
/// outputs, then the contents of its blocks. Hidden nodes are omitted.
#[derive(Clone, Debug, Default)]
pub struct Survey {
    /// The nodes.
    pub nodes: Vec<Node>,
    /// The values.
    pub values: Vec<Value>,
    /// The values that have a name, 64 to a word.
    pub named: Vec<u64>,
}

impl Survey {
    /// Surveys a graph. Linear in nodes and values.
    pub(crate) fn of(graph: &Graph) -> Survey {
        let mut survey = Survey::default();
        let mut blocks: Vec<(Option<Node>, usize)> = Vec::new();
        survey.enter(graph, graph.root(), &mut blocks);
        while let Some((cursor, block)) = blocks.last_mut() {
            let Some(node) = *cursor else {
                blocks.pop();
                continue;
            };
            if *block == 0 {
                survey.nodes.push(node);
                survey.values.extend(graph.outputs(node));
            }
            if *block < graph.num_blocks(node) {
                *block += 1;
                let inner = graph.node_block(node, *block - 1);
                survey.enter(graph, inner, &mut blocks);
            } else {
                (*cursor, *block) = (graph.next(node), 0);
            }
        }
        survey.note_names(graph);
        survey
    }

    fn enter(&mut self, graph: &Graph, block: Block, blocks: &mut Vec<(Option<Node>, usize)>) {
        self.values.extend(graph.params(block));
        blocks.push((graph.first(block), 0));
    }

    /// Records which values have names.
    pub(super) fn note_names(&mut self, graph: &Graph) {
        let bits = |values: &[Value]| {
            let named = |value: &Value| u64::from(graph.is_named(*value));
            values.iter().rev().fold(0, |bits, value| bits << 1 | named(value))
        };
        self.named.clear();
        self.named.extend(self.values.chunks(64).map(bits));
    }

    pub(super) fn clear(&mut self) {
        self.nodes.clear();
        self.values.clear();
        self.named.clear();
    }

    /// The place of each value.
    pub(crate) fn places(&self) -> impl Fn(Value) -> Option<u32> + use<> {
        let bound = self.values.iter().map(|value| value.index() + 1).max().unwrap_or(0);
        let mut places = vec![None; bound];
        for (place, value) in self.values.iter().enumerate() {
            places[value.index()] = Some(place as u32);
        }
        move |value| places.get(value.index()).copied().flatten()
    }
}
