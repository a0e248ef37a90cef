//! Small random programs, run on a model of memory: the analysis must predict all sharing and
//! writes at run time, and a move must not change results.

use super::{AliasDb, Location};
use crate::entity::EntitySet;
use crate::ir::{Block, Graph, Node, Value};
use crate::text::{ParseOptions, parse};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

/// A pseudo-random generator.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) % n as u64) as usize
    }
}

/// Writes a program: the values in scope, by type.
#[derive(Clone, Default)]
struct InScope {
    tensors: Vec<String>,
    lists: Vec<String>,
    tuples: Vec<String>,
}

struct Writer {
    dice: Dice,
    text: String,
    count: usize,
}

impl Writer {
    fn pick(&mut self, from: &[String]) -> String {
        from[self.dice.roll(from.len())].clone()
    }

    fn fresh(&mut self) -> String {
        self.count += 1;
        format!("%v{}", self.count)
    }

    fn line(&mut self, out: &str, ty: &str, call: &str) {
        writeln!(self.text, "{out} : {ty} = {call}").expect("a string");
    }

    fn block(&mut self, outer: &InScope, depth: usize) -> InScope {
        let mut scope = outer.clone();
        for _ in 0..2 + self.dice.roll(6) {
            self.node(&mut scope, depth);
        }
        scope
    }

    fn node(&mut self, scope: &mut InScope, depth: usize) {
        let (a, b) = (self.pick(&scope.tensors), self.pick(&scope.tensors));
        let (list, tuple, v) = (self.pick(&scope.lists), self.pick(&scope.tuples), self.fresh());
        let tensor = match self.dice.roll(15) {
            0 | 1 => format!("aten::neg({a})"),
            2 | 3 => format!("aten::t({a})"),
            4 | 5 => format!("aten::add_({a}, {b}, %one)"),
            6 => format!("aten::__getitem__({list}, %zero)"),
            7 => {
                self.line(&format!("{v}l"), "Tensor[]", &format!("prim::ListConstruct({a}, {b})"));
                format!("aten::cat({v}l, %zero)")
            }
            8 => format!("aten::cat({list}, %zero)"),
            9 => {
                writeln!(self.text, "{v} : Tensor, {v}b : Tensor = prim::TupleUnpack({tuple})").expect("a string");
                return scope.tensors.extend([v.clone(), format!("{v}b")]);
            }
            10 => {
                self.line(&v, "Tensor[]", &format!("prim::ListConstruct({a}, {b})"));
                return scope.lists.push(v);
            }
            11 => {
                self.line(&v, "Tensor[]", &format!("aten::append({list}, {a})"));
                return scope.lists.push(v);
            }
            12 => {
                self.line(&v, "(Tensor, Tensor)", &format!("prim::TupleConstruct({a}, {b})"));
                return scope.tuples.push(v);
            }
            13 if depth < 2 => return self.branch(scope, &v, depth),
            14 if depth < 2 => return self.repeat(scope, &v, depth),
            _ => format!("aten::neg({b})"),
        };
        self.line(&v, "Tensor", &tensor);
        scope.tensors.push(v);
    }

    fn branch(&mut self, scope: &mut InScope, v: &str, depth: usize) {
        writeln!(self.text, "{v} : Tensor, {v}l : Tensor[] = prim::If(%c)").expect("a string");
        for i in 0..2 {
            writeln!(self.text, "block{i}():").expect("a string");
            let inner = self.block(scope, depth + 1);
            let (tensor, list) = (self.pick(&inner.tensors), self.pick(&inner.lists));
            writeln!(self.text, "-> ({tensor}, {list})").expect("a string");
        }
        scope.tensors.push(v.to_owned());
        scope.lists.push(format!("{v}l"));
    }

    fn repeat(&mut self, scope: &mut InScope, v: &str, depth: usize) {
        let (a, b) = (self.pick(&scope.tensors), self.pick(&scope.tensors));
        writeln!(self.text, "{v} : Tensor, {v}b : Tensor = prim::Loop(%n, %c, {a}, {b})").expect("a string");
        writeln!(self.text, "block0({v}i : int, {v}p : Tensor, {v}q : Tensor):").expect("a string");
        let mut inner = scope.clone();
        inner.tensors.extend([format!("{v}p"), format!("{v}q")]);
        let inner = self.block(&inner, depth + 1);
        let (next_a, next_b) = (self.pick(&inner.tensors), self.pick(&inner.tensors));
        writeln!(self.text, "-> (%c, {next_a}, {next_b})").expect("a string");
        scope.tensors.extend([v.to_owned(), format!("{v}b")]);
    }
}

fn program(seed: u64) -> Graph {
    let mut writer = Writer { dice: Dice(seed), text: String::new(), count: 0 };
    writer.text += "graph(%x : Tensor, %y : Tensor, %l : Tensor[], %u : (Tensor, Tensor), %c : bool, %n : int):\n";
    writer.text += "%one : int = prim::Constant[value=1]()\n%zero : int = prim::Constant[value=0]()\n";
    let names = |list: &[&str]| list.iter().map(|name| (*name).to_owned()).collect();
    let scope = InScope { tensors: names(&["%x", "%y"]), lists: names(&["%l"]), tuples: names(&["%u"]) };
    let scope = writer.block(&scope, 0);
    let scope = writer.block(&scope, 0);
    let (a, b, tuple) = (writer.pick(&scope.tensors), writer.pick(&scope.lists), writer.pick(&scope.tuples));
    writeln!(writer.text, "return ({a}, {b}, {tuple})").expect("a string");
    parse(writer.text.as_bytes(), ParseOptions::default()).expect("a graph of ours").graph
}

/// A value at run time.
#[derive(Clone, Debug)]
enum Thing {
    Number(u64),
    Tensor(usize),
    List(usize),
    Tuple(Vec<Thing>),
}

/// The model of memory, and its history.
#[derive(Default)]
struct Machine {
    tensors: Vec<u64>,
    lists: Vec<Vec<Thing>>,
    values: BTreeMap<Value, Thing>,
    /// All things that each value ever was.
    seen: BTreeMap<Value, Vec<Thing>>,
    /// Tensors, and lists, that were written.
    written: BTreeSet<(bool, usize)>,
}

impl Machine {
    fn run(graph: &Graph, flag: bool, iterations: u64, shared: bool) -> (Machine, String) {
        let mut machine = Machine::default();
        let (x, y) = (machine.tensor(3), machine.tensor(5));
        let other = if shared { x.clone() } else { machine.tensor(7) };
        let list = machine.list(vec![other.clone()]);
        let inputs = [
            x,
            y,
            list,
            Thing::Tuple(vec![other.clone(), other]),
            Thing::Number(flag.into()),
            Thing::Number(iterations),
        ];
        for (param, thing) in graph.params(graph.root()).zip(inputs.iter()) {
            machine.set(param, thing.clone());
        }
        machine.block(graph, graph.root());
        let results = graph.results(graph.root()).map(|v| machine.values[&v].clone());
        let text = results.chain(inputs).fold(String::new(), |text, thing| text + &machine.show(&thing) + "\n");
        (machine, text)
    }

    fn tensor(&mut self, content: u64) -> Thing {
        self.tensors.push(content);
        Thing::Tensor(self.tensors.len() - 1)
    }

    fn list(&mut self, things: Vec<Thing>) -> Thing {
        self.lists.push(things);
        Thing::List(self.lists.len() - 1)
    }

    fn set(&mut self, value: Value, thing: Thing) {
        self.seen.entry(value).or_default().push(thing.clone());
        self.values.insert(value, thing);
    }

    fn content(&self, thing: &Thing) -> u64 {
        match thing {
            Thing::Number(n) => *n,
            Thing::Tensor(i) => self.tensors[*i],
            Thing::List(i) => self.lists[*i].iter().fold(17, |h, t| mix(h, self.content(t))),
            Thing::Tuple(things) => things.iter().fold(19, |h, t| mix(h, self.content(t))),
        }
    }

    fn show(&self, thing: &Thing) -> String {
        match thing {
            Thing::List(i) => {
                format!("[{}]", self.lists[*i].iter().map(|t| self.show(t)).collect::<Vec<_>>().join(" "))
            }
            Thing::Tuple(things) => things.iter().map(|t| self.show(t)).collect(),
            _ => format!("{} ", self.content(thing)),
        }
    }

    fn block(&mut self, graph: &Graph, block: Block) -> Vec<Thing> {
        for node in graph.nodes(block) {
            self.node(graph, node);
        }
        graph.results(block).map(|v| self.values[&v].clone()).collect()
    }

    fn node(&mut self, graph: &Graph, node: Node) {
        let inputs: Vec<Thing> = graph.inputs(node).map(|v| self.values[&v].clone()).collect();
        let outputs = match (graph.kind(node).short(), &inputs[..]) {
            ("Constant", _) => vec![Thing::Number(graph.constant_int(graph.output(node, 0)).unwrap_or(0) as u64)],
            ("neg", [a]) => vec![self.tensor(mix(1, self.content(a)))],
            ("t", [a]) => vec![a.clone()],
            ("cat", [list, _]) => vec![self.tensor(self.content(list))],
            ("add_", [Thing::Tensor(a), b, _]) => {
                self.tensors[*a] = mix(self.tensors[*a], self.content(b));
                self.written.insert((false, *a));
                vec![Thing::Tensor(*a)]
            }
            ("append", [Thing::List(list), a]) => {
                self.lists[*list].push(a.clone());
                self.written.insert((true, *list));
                vec![Thing::List(*list)]
            }
            ("__getitem__", [Thing::List(list), _]) => vec![self.lists[*list][self.lists[*list].len() - 1].clone()],
            ("ListConstruct", _) => vec![self.list(inputs)],
            ("TupleConstruct", _) => vec![Thing::Tuple(inputs)],
            ("TupleUnpack", [Thing::Tuple(things)]) => things.clone(),
            ("If", [Thing::Number(flag)]) => self.block(graph, graph.node_block(node, usize::from(*flag == 0))),
            ("Loop", [Thing::Number(iterations), Thing::Number(flag), carried @ ..]) => self.iterations(
                graph,
                graph.node_block(node, 0),
                if *flag == 0 { 0 } else { *iterations },
                carried.to_vec(),
            ),
            (kind, inputs) => panic!("{kind} {inputs:?}"),
        };
        for (value, thing) in graph.outputs(node).zip(outputs) {
            self.set(value, thing);
        }
    }

    fn iterations(&mut self, graph: &Graph, body: Block, iterations: u64, mut carried: Vec<Thing>) -> Vec<Thing> {
        for iteration in 0..iterations {
            let things = [vec![Thing::Number(iteration)], carried].concat();
            for (param, thing) in graph.params(body).zip(things) {
                self.set(param, thing);
            }
            carried = self.block(graph, body).split_off(1);
        }
        carried
    }

    /// The memory of a thing; with `deep`, all memory reachable from it.
    fn memory(&self, thing: &Thing, deep: bool, into: &mut BTreeSet<(bool, usize)>) {
        match thing {
            Thing::Number(_) => {}
            Thing::Tensor(i) => drop(into.insert((false, *i))),
            Thing::List(i) => {
                if into.insert((true, *i)) && deep {
                    self.lists[*i].iter().for_each(|t| self.memory(t, true, into));
                }
            }
            Thing::Tuple(things) if deep => things.iter().for_each(|t| self.memory(t, true, into)),
            Thing::Tuple(_) => {}
        }
    }

    fn memories(&self, deep: bool) -> Vec<(Value, BTreeSet<(bool, usize)>)> {
        let all = |things: &Vec<Thing>| {
            let mut into = BTreeSet::new();
            things.iter().for_each(|thing| self.memory(thing, deep, &mut into));
            into
        };
        self.seen.iter().map(|(value, things)| (*value, all(things))).collect()
    }
}

fn mix(a: u64, b: u64) -> u64 {
    (a ^ b.rotate_left(17)).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(23)
}

fn check_sharing(graph: &Graph, db: &AliasDb, machine: &Machine) {
    let name = |v: Value| graph.name(v);
    let (shallow, deep) = (machine.memories(false), machine.memories(true));
    for (i, (a, of_a)) in shallow.iter().enumerate() {
        for (b, of_b) in &shallow[..i] {
            assert!(of_a.is_disjoint(of_b) || db.may_alias(*a, *b), "%{} is %{}", name(*a), name(*b));
        }
        assert!(of_a.is_disjoint(&machine.written) || db.has_writers(*a), "%{} is written", name(*a));
    }
    for (i, (a, of_a)) in deep.iter().enumerate() {
        let mut reached = EntitySet::<Location>::new();
        db.mark_reachable(*a, &mut reached);
        for (b, of_b) in &deep[..i] {
            assert!(of_a.is_disjoint(of_b) || db.may_contain_alias(*a, *b), "%{} shares with %{}", name(*a), name(*b));
            assert_eq!(db.may_contain_alias(*a, *b), db.may_contain_alias(*b, *a));
            assert!(!db.locations(*b).any(|l| reached.contains(l)) || db.may_contain_alias(*a, *b));
        }
        assert!(of_a.is_disjoint(&machine.written) || db.reaches_writers(*a), "in %{} is written", name(*a));
    }
}

proptest! {
    #[test]
    fn every_observed_sharing_and_write_is_predicted(seed in any::<u64>()) {
        let graph = program(seed);
        let db = AliasDb::new(&graph);
        for (flag, iterations, shared) in [(true, 3, false), (false, 1, true), (true, 0, true)] {
            check_sharing(&graph, &db, &Machine::run(&graph, flag, iterations, shared).0);
        }
    }

    #[test]
    fn a_move_changes_no_result(seed in any::<u64>()) {
        let mut graph = program(seed);
        let db = AliasDb::new(&graph);
        let runs = [(true, 2, false), (false, 1, true), (true, 1, true)];
        let before = runs.map(|(flag, iterations, shared)| Machine::run(&graph, flag, iterations, shared).1);
        let nodes: Vec<Node> = graph.all_nodes().collect();
        let mut dice = Dice(seed);
        for _ in 0..30 {
            let (node, anchor, front) = (nodes[dice.roll(nodes.len())], nodes[dice.roll(nodes.len())], dice.roll(2) == 0);
            let order: Vec<Node> = graph.all_nodes().collect();
            let (could, did) = match front {
                true => (db.could_move_before(&graph, node, anchor), db.move_before_topologically(&mut graph, node, anchor)),
                false => (db.could_move_after(&graph, node, anchor), db.move_after_topologically(&mut graph, node, anchor)),
            };
            prop_assert_eq!(could, did);
            prop_assert!(did || order == graph.all_nodes().collect::<Vec<_>>());
            if did && node != anchor {
                prop_assert_eq!(if front { graph.next(node) } else { graph.prev(node) }, Some(anchor));
            }
        }
        prop_assert!(db.is_current(&graph));
        let after = runs.map(|(flag, iterations, shared)| Machine::run(&graph, flag, iterations, shared).1);
        prop_assert_eq!(before, after);
    }
}
