//! Reorders the nodes of a graph at random without changing its results: a pass whose result
//! depends on such an order relies on more than the graph guarantees.
//!
//! In each block a node stays after the nodes whose results it reads, in its blocks too; accesses
//! to memory stay after the last write to it, and writes also after the reads since; nodes with
//! effects keep their order and do not cross writes. Random operators may move: the generator is
//! keyed by node lineage. Linear in nodes, operands and the written memory that they reach.

use jitopt_core::analysis::{AliasDb, Location};
use jitopt_core::interpreter::random::Philox;
use jitopt_core::ir::{Block, Graph, Node, Value};
use rustc_hash::{FxHashMap, FxHashSet};

/// Shuffles every block. A seed determines the order.
pub fn shuffle(graph: &mut Graph, seed: u64) {
    let db = AliasDb::new(graph);
    let mut draws = Philox::new(seed, 0x7368_7566, 0);
    for block in graph.all_blocks().collect::<Vec<_>>() {
        let order = Waiting::of(graph, &db, block).order(&mut draws);
        let end = graph.return_node(block);
        order.into_iter().for_each(|node| graph.move_before(node, end));
    }
}

/// The dependencies between the nodes of a block.
#[derive(Default)]
struct Waiting {
    nodes: Vec<Node>,
    /// The index of each node in `nodes`.
    place: FxHashMap<Node, usize>,
    /// The dependents of each node, and the number of dependencies of each.
    successors: Vec<Vec<usize>>,
    ahead: Vec<usize>,
}

/// The last accesses to a memory location.
#[derive(Default)]
struct Touched {
    writer: Option<usize>,
    readers: Vec<usize>,
}

impl Waiting {
    fn of(graph: &Graph, db: &AliasDb, block: Block) -> Waiting {
        let nodes: Vec<Node> = graph.nodes(block).collect();
        let place = nodes.iter().enumerate().map(|(i, &node)| (node, i)).collect();
        let (successors, ahead) = (vec![Vec::new(); nodes.len()], vec![0; nodes.len()]);
        let mut waiting = Waiting { nodes, place, successors, ahead };
        let mut memory: FxHashMap<Location, Touched> = FxHashMap::default();
        let (mut effect, mut writes): (Option<usize>, Vec<usize>) = (None, Vec::new());
        for i in 0..waiting.nodes.len() {
            let node = waiting.nodes[i];
            let operands = nested_operands(graph, node);
            let mut ahead: FxHashSet<usize> =
                operands.iter().filter_map(|&value| waiting.place.get(&graph.definer(value)?).copied()).collect();
            let reads = operands
                .iter()
                .chain(&graph.outputs(node).collect::<Vec<_>>())
                .flat_map(|&v| db.written_through(v))
                .collect();
            note_memory(&mut memory, i, reads, db.writes(node).collect(), &mut ahead);
            if db.has_side_effects(node) {
                ahead.extend(effect.replace(i));
                ahead.extend(writes.drain(..));
            } else if db.is_writing(node) {
                ahead.extend(effect);
                writes.push(i);
            }
            waiting.wait(i, ahead);
        }
        waiting
    }

    fn wait(&mut self, i: usize, ahead: FxHashSet<usize>) {
        let mut ahead: Vec<usize> = ahead.into_iter().filter(|&other| other != i).collect();
        ahead.sort_unstable();
        self.ahead[i] = ahead.len();
        ahead.into_iter().for_each(|other| self.successors[other].push(i));
    }

    /// The nodes in a random topological order.
    fn order(mut self, draws: &mut Philox) -> Vec<Node> {
        let mut ready: Vec<usize> = (0..self.nodes.len()).filter(|&i| self.ahead[i] == 0).collect();
        let mut order = Vec::with_capacity(self.nodes.len());
        while !ready.is_empty() {
            let i = ready.swap_remove(draws.below(ready.len()));
            order.push(self.nodes[i]);
            for other in std::mem::take(&mut self.successors[i]) {
                self.ahead[other] -= 1;
                if self.ahead[other] == 0 {
                    ready.push(other);
                }
            }
        }
        order
    }
}

/// Adds the dependencies of a node on earlier accesses to the memory that it reads and writes.
fn note_memory(
    memory: &mut FxHashMap<Location, Touched>,
    node: usize,
    reads: FxHashSet<Location>,
    writes: FxHashSet<Location>,
    ahead: &mut FxHashSet<usize>,
) {
    for location in reads.difference(&writes) {
        let touched = memory.entry(*location).or_default();
        ahead.extend(touched.writer);
        touched.readers.push(node);
    }
    for location in writes {
        let touched = memory.entry(location).or_default();
        ahead.extend(touched.writer.replace(node));
        ahead.extend(touched.readers.drain(..));
    }
}

/// The operands of a node and of the nodes in its blocks, and the results of the blocks.
fn nested_operands(graph: &Graph, node: Node) -> Vec<Value> {
    let (mut work, mut values) = (vec![node], Vec::new());
    while let Some(node) = work.pop() {
        values.extend(graph.inputs(node));
        for block in graph.node_blocks(node) {
            values.extend(graph.results(block));
            work.extend(graph.nodes(block));
        }
    }
    values
}

#[cfg(test)]
mod tests {
    use super::*;
    use jitopt_core::text::{ParseOptions, PrintOptions, parse, print};

    const TEXT: &str = "graph(%x : Tensor, %y : Tensor):
  %1 : int = prim::Constant[value=1]()
  %a : Tensor = aten::neg(%x)
  %b : Tensor = aten::exp(%a)
  %w : Tensor = aten::add_(%a, %y, %1)
  %c : Tensor = aten::sin(%a)
   = prim::Print(%1)
   = prim::Print(%c)
  %d : Tensor = aten::cos(%y)
  return (%b, %c, %d)
";

    #[test]
    fn writes_effects_and_operands_keep_their_order_and_others_do_not() {
        let mut texts = std::collections::BTreeSet::new();
        for seed in 0..50 {
            let mut graph = parse(TEXT.as_bytes(), ParseOptions::default()).expect("a graph").graph;
            shuffle(&mut graph, seed);
            let text = String::from_utf8(print(&graph, PrintOptions::default())).expect("text");
            let at = |part: &str| text.find(part).expect("it is still there");
            let order = ["aten::neg", "aten::exp", "aten::add_", "aten::sin", "Print(%1)", "Print(%c)"];
            assert!(
                order.windows(2).filter(|w| *w != ["aten::sin", "Print(%1)"]).all(|w| at(w[0]) < at(w[1])),
                "{text}"
            );
            texts.insert(text);
        }
        assert!(texts.len() > 5, "only {} orders", texts.len());
    }
}
