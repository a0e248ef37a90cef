//! The graph against a naive model: vectors of nodes with vectors of operands, where every query is
//! a scan.

use super::*;
use crate::entity::Entity;
use crate::symbol::Symbol;
use crate::types::Type;
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Edit {
    Append { inputs: Vec<usize>, outputs: usize },
    InsertBefore { anchor: usize, inputs: Vec<usize> },
    Move { node: usize, anchor: usize, after: bool },
    Erase(usize),
    SetInput { node: usize, i: usize, value: usize },
    AddInput { node: usize, value: usize },
    InsertInput { node: usize, i: usize, value: usize },
    RemoveInput { node: usize, i: usize },
    AddOutput(usize),
    InsertOutput { node: usize, i: usize },
    RemoveOutput { node: usize, i: usize },
    ReplaceAll { old: usize, new: usize },
    ReplaceIf { old: usize, new: usize, odd: bool },
    Exchange { a: usize, b: usize },
}

fn edit() -> impl Strategy<Value = Edit> {
    let n = || 0usize..64;
    let inputs = || prop::collection::vec(0usize..64, 0..4);
    prop_oneof![
        3 => (inputs(), 0usize..3).prop_map(|(inputs, outputs)| Edit::Append { inputs, outputs }),
        3 => (n(), inputs()).prop_map(|(anchor, inputs)| Edit::InsertBefore { anchor, inputs }),
        2 => (n(), n(), any::<bool>()).prop_map(|(node, anchor, after)| Edit::Move { node, anchor, after }),
        1 => n().prop_map(Edit::Erase),
        2 => (n(), n(), n()).prop_map(|(node, i, value)| Edit::SetInput { node, i, value }),
        2 => (n(), n()).prop_map(|(node, value)| Edit::AddInput { node, value }),
        1 => (n(), n(), n()).prop_map(|(node, i, value)| Edit::InsertInput { node, i, value }),
        1 => (n(), n()).prop_map(|(node, i)| Edit::RemoveInput { node, i }),
        1 => n().prop_map(Edit::AddOutput),
        1 => (n(), n()).prop_map(|(node, i)| Edit::InsertOutput { node, i }),
        1 => (n(), n()).prop_map(|(node, i)| Edit::RemoveOutput { node, i }),
        1 => (n(), n()).prop_map(|(old, new)| Edit::ReplaceAll { old, new }),
        1 => (n(), n(), any::<bool>()).prop_map(|(old, new, odd)| Edit::ReplaceIf { old, new, odd }),
        1 => (n(), n()).prop_map(|(a, b)| Edit::Exchange { a, b }),
    ]
}

#[derive(Default)]
struct Model {
    /// Nodes in order: id, operands, outputs.
    nodes: Vec<(Node, Vec<Value>, Vec<Value>)>,
    values: Vec<Value>,
}

impl Model {
    fn node(&self, i: usize) -> Option<usize> {
        (!self.nodes.is_empty()).then(|| i % self.nodes.len())
    }

    fn value(&self, i: usize) -> Value {
        self.values[i % self.values.len()]
    }

    fn used(&self, value: Value) -> bool {
        self.nodes.iter().any(|(_, inputs, _)| inputs.contains(&value))
    }

    fn add(&mut self, graph: &mut Graph, at: Option<usize>, inputs: &[usize], outputs: usize) {
        let inputs: Vec<Value> = inputs.iter().map(|&i| self.value(i)).collect();
        let node = graph.create(Symbol::new("test::op"));
        graph.set_inputs(node, inputs.iter().copied());
        let outputs: Vec<Value> = (0..outputs).map(|_| graph.add_output(node, Type::tensor())).collect();
        self.values.extend(&outputs);
        match at {
            Some(at) => {
                graph.insert_before(self.nodes[at].0, node);
                self.nodes.insert(at, (node, inputs, outputs));
            }
            None => {
                graph.append(graph.root(), node);
                self.nodes.push((node, inputs, outputs));
            }
        }
    }

    fn move_node(&mut self, graph: &mut Graph, node: usize, anchor: usize, after: bool) {
        let (id, anchor_id) = (self.nodes[node].0, self.nodes[anchor].0);
        if id == anchor_id {
            return;
        }
        let row = self.nodes.remove(node);
        let at = self.nodes.iter().position(|(n, ..)| *n == anchor_id).expect("the anchor is another node");
        self.nodes.insert(at + usize::from(after), row);
        if after { graph.move_after(id, anchor_id) } else { graph.move_before(id, anchor_id) }
    }

    fn apply(&mut self, graph: &mut Graph, edit: Edit) {
        match edit {
            Edit::Append { inputs, outputs } => self.add(graph, None, &inputs, outputs),
            Edit::InsertBefore { anchor, inputs } => self.add(graph, self.node(anchor), &inputs, 1),
            Edit::Move { node, anchor, after } => {
                if let (Some(node), Some(anchor)) = (self.node(node), self.node(anchor)) {
                    self.move_node(graph, node, anchor, after);
                }
            }
            Edit::ReplaceAll { old, new } => {
                let (old, new) = (self.value(old), self.value(new));
                graph.replace_all_uses(old, new);
                self.nodes.iter_mut().flat_map(|n| &mut n.1).filter(|v| **v == old).for_each(|v| *v = new);
            }
            Edit::ReplaceIf { old, new, odd } => {
                let (old, new) = (self.value(old), self.value(new));
                graph.replace_uses_if(old, new, |g, u| (g.operand_index(u) % 2 == 1) == odd);
                let slots = self.nodes.iter_mut().flat_map(|n| n.1.iter_mut().enumerate());
                slots.filter(|(i, v)| **v == old && (i % 2 == 1) == odd).for_each(|(_, v)| *v = new);
            }
            Edit::Exchange { a, b } => {
                let (a, b) = (self.value(a), self.value(b));
                let (name, other) = (graph.name(a), graph.name(b));
                graph.exchange_outputs(a, b);
                assert_eq!((graph.name(b), graph.name(a)), (name, other));
                let swapped = |v: Value| {
                    if v == a {
                        b
                    } else if v == b {
                        a
                    } else {
                        v
                    }
                };
                self.nodes.iter_mut().flat_map(|n| &mut n.2).for_each(|v| *v = swapped(*v));
            }
            edit => self.apply_to_node(graph, edit),
        }
    }

    fn apply_to_node(&mut self, graph: &mut Graph, edit: Edit) {
        let (Edit::Erase(n)
        | Edit::AddOutput(n)
        | Edit::SetInput { node: n, .. }
        | Edit::AddInput { node: n, .. }
        | Edit::InsertInput { node: n, .. }
        | Edit::RemoveInput { node: n, .. }
        | Edit::InsertOutput { node: n, .. }
        | Edit::RemoveOutput { node: n, .. }) = edit
        else {
            return;
        };
        let Some(at) = self.node(n) else { return };
        let (id, n_inputs, n_outputs) = (self.nodes[at].0, self.nodes[at].1.len(), self.nodes[at].2.len());
        match edit {
            Edit::Erase(_) if !self.nodes[at].2.iter().any(|v| self.used(*v)) => {
                let (_, _, outputs) = self.nodes.remove(at);
                self.values.retain(|v| !outputs.contains(v));
                graph.erase(id);
            }
            Edit::AddOutput(_) => {
                let value = graph.add_output(id, Type::int());
                self.nodes[at].2.push(value);
                self.values.push(value);
            }
            Edit::InsertOutput { i, .. } => {
                let value = graph.insert_output(id, i % (n_outputs + 1), Type::int());
                self.nodes[at].2.insert(i % (n_outputs + 1), value);
                self.values.push(value);
            }
            Edit::RemoveOutput { i, .. } if n_outputs > 0 && !self.used(self.nodes[at].2[i % n_outputs]) => {
                let value = self.nodes[at].2.remove(i % n_outputs);
                self.values.retain(|v| *v != value);
                graph.remove_output(id, i % n_outputs);
            }
            Edit::SetInput { i, value, .. } if n_inputs > 0 => {
                let value = self.value(value);
                self.nodes[at].1[i % n_inputs] = value;
                graph.set_input(id, i % n_inputs, value);
            }
            Edit::AddInput { value, .. } => {
                let value = self.value(value);
                self.nodes[at].1.push(value);
                graph.add_input(id, value);
            }
            Edit::InsertInput { i, value, .. } => {
                let value = self.value(value);
                self.nodes[at].1.insert(i % (n_inputs + 1), value);
                graph.insert_input(id, i % (n_inputs + 1), value);
            }
            Edit::RemoveInput { i, .. } if n_inputs > 0 => {
                self.nodes[at].1.remove(i % n_inputs);
                graph.remove_input(id, i % n_inputs);
            }
            _ => {}
        }
    }

    fn compare(&self, graph: &Graph) -> Result<(), TestCaseError> {
        let order: Vec<Node> = graph.nodes(graph.root()).collect();
        prop_assert_eq!(&order, &self.nodes.iter().map(|n| n.0).collect::<Vec<_>>());
        for pair in order.windows(2) {
            prop_assert!(graph.is_before(pair[0], pair[1]) && !graph.is_before(pair[1], pair[0]));
            prop_assert_eq!(graph.prev(pair[1]), Some(pair[0]));
        }
        for (node, inputs, outputs) in &self.nodes {
            prop_assert_eq!(&graph.inputs(*node).collect::<Vec<_>>(), inputs);
            prop_assert_eq!(&graph.outputs(*node).collect::<Vec<_>>(), outputs);
            prop_assert!(outputs.iter().enumerate().all(|(i, v)| graph.output_index(*v) == i));
        }
        for &value in &self.values {
            let mut uses: Vec<(Node, usize)> =
                graph.uses(value).map(|u| (graph.user(u), graph.operand_index(u))).collect();
            uses.sort();
            let slots = self.nodes.iter().flat_map(|n| n.1.iter().enumerate().map(|(i, v)| (n.0, i, *v)));
            let mut expected: Vec<(Node, usize)> = slots.filter(|s| s.2 == value).map(|s| (s.0, s.1)).collect();
            expected.sort();
            prop_assert_eq!(&uses, &expected);
            prop_assert_eq!(graph.has_uses(value), !expected.is_empty());
            prop_assert_eq!(graph.single_use(value).is_some(), expected.len() == 1);
        }
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn any_edits_leave_the_graph_as_the_model(edits in prop::collection::vec(edit(), 1..120)) {
        let (mut graph, mut model) = (Graph::new(), Model::default());
        model.values.extend((0..3).map(|_| graph.add_param(graph.root(), Type::tensor())));
        for edit in edits {
            let before = graph.epoch();
            model.apply(&mut graph, edit);
            prop_assert!(graph.epoch().edits >= before.edits);
        }
        model.compare(&graph)?;
    }

    /// Many insertions at one place make tags collide; the order must survive.
    #[test]
    fn order_survives_crowding(places in prop::collection::vec((0usize..4, any::<bool>()), 1..400)) {
        let mut graph = Graph::new();
        let mut model: Vec<Node> = Vec::new();
        for (near, after) in places {
            let node = graph.create(Symbol::new("test::op"));
            match model.len() {
                0 => graph.append(graph.root(), node),
                len => {
                    let at = near.min(len - 1);
                    if after { graph.insert_after(model[at], node) } else { graph.insert_before(model[at], node) }
                    model.insert(at + usize::from(after), node);
                    continue;
                }
            }
            model.push(node);
        }
        prop_assert_eq!(graph.nodes(graph.root()).collect::<Vec<_>>(), model.clone());
        for (i, &a) in model.iter().enumerate().step_by(7) {
            for (j, &b) in model.iter().enumerate().step_by(5) {
                prop_assert_eq!(graph.is_before(a, b), i < j);
            }
        }
    }
}

/// If, nested blocks: printed order, copies, erasing.
fn nested() -> (Graph, Node, Vec<Node>) {
    let mut graph = Graph::new();
    let x = graph.add_param(graph.root(), Type::tensor());
    let root = graph.root();
    let op = |graph: &mut Graph, block: Block, kind: &str| {
        let node = graph.create_op(Symbol::new(kind), &[x], Type::tensor());
        graph.append(block, node);
        node
    };
    let first = op(&mut graph, root, "t::first");
    let branch = op(&mut graph, root, "t::if");
    let (a, b) = (graph.add_block(branch), graph.add_block(branch));
    let in_a = op(&mut graph, a, "t::a");
    let in_b = op(&mut graph, b, "t::b");
    let last = op(&mut graph, root, "t::last");
    for (block, node) in [(a, in_a), (b, in_b), (graph.root(), last)] {
        let value = graph.output(node, 0);
        graph.add_result(block, value);
    }
    (graph, branch, vec![first, branch, in_a, in_b, last])
}

#[test]
fn all_nodes_walks_in_printed_order() {
    let (graph, branch, order) = nested();
    assert_eq!(graph.all_nodes().collect::<Vec<_>>(), order);
    assert_eq!(graph.all_blocks().count(), 3);
    assert!(graph.is_before(order[0], order[2]) && graph.is_before(order[2], order[4]));
    assert!(graph.is_before(branch, order[2]) && !graph.is_before(order[2], branch));
}

#[test]
fn copies_are_whole_and_erasing_frees_all_uses() {
    let (mut graph, branch, _) = nested();
    let x = graph.params(graph.root()).next().expect("one param");
    let copy = graph.copy_node(None, branch, &mut ValueMap::default());
    graph.append(graph.root(), copy);
    let kinds = |graph: &Graph, node| -> Vec<Symbol> {
        graph.node_blocks(node).flat_map(|b| graph.nodes(b).map(|n| graph.kind(n)).collect::<Vec<_>>()).collect()
    };
    assert_eq!(kinds(&graph, copy), kinds(&graph, branch));
    let uses = graph.uses(x).count();
    graph.erase(copy);
    assert_eq!(graph.uses(x).count(), uses - 3);
    let other = Graph::new();
    let mut target = other.clone();
    let y = target.add_param(target.root(), Type::tensor());
    let mut map = ValueMap::from_iter([(x, y)]);
    target.copy_block_into(Some(&graph), graph.root(), target.root(), &mut map);
    assert_eq!(target.all_nodes().count(), graph.all_nodes().count());
}

#[test]
fn lineage_leads_to_the_root() {
    let (mut graph, branch, order) = nested();
    let outer = graph.begin_rewrite(Symbol::new("rule"), &[branch]);
    let copy = graph.copy_node(None, order[0], &mut ValueMap::default());
    graph.end_rewrite(outer);
    // A copy descends from its original, regardless of the sources of the rewrite.
    assert_eq!(graph.lineage_root(copy), order[0]);
    assert_eq!(graph.origin(copy).map(|(rule, _)| rule), Some(Symbol::new("rule")));
    assert!(graph.origin(order[0]).is_none());
    assert_eq!(Node::at(0).index(), 0);
}
