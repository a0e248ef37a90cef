//! Makes SSA of variables that are stored and loaded, as PyTorch's emitter writes them.
//!
//! ```text
//! prim::Store[name="y"](%x)
//! prim::Loop(%n)                               %y : Tensor = prim::Loop(%n, %true, %x)
//!   block0(%i : int):                            block0(%i : int, %y.1 : Tensor):
//!     %1 : Tensor = prim::Load[name="y"]()         %2 : Tensor = aten::neg(%y.1)
//!     %2 : Tensor = aten::neg(%1)        =>        -> (%true, %2)
//!     prim::Store[name="y"](%2)
//!     -> ()
//!   block1():
//!     -> (%true)
//! %3 : Tensor = prim::Load[name="y"]()
//! ```
//!
//! A variable that both branches of an If know and one of them sets becomes a result of it; one
//! that the body of a Loop sets and that is known before is carried. `prim::ContinueStmt` and
//! `prim::BreakStmt` become `prim::LoopContinuation` with the next condition and the carried
//! values, and the condition of a Loop moves from its second block to the end of the body and
//! before the Loop. `exit-transforms` then removes continuations and `prim::ReturnStmt`.
//!
//! Linear in nodes and in what Loops carry; conditions are copied once for each `continue`.

use jitopt_core::ir::{Attribute, Block, Graph, Node, Value, ValueMap};
use jitopt_core::pass::{PassContext, PassError, PassInfo};
use jitopt_core::symbol::{attr, prim};
use jitopt_core::types::{Type, TypeKind};
use jitopt_core::{graph_dump, graph_update};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// The registry entry.
pub const PASS: PassInfo = PassInfo {
    name: "convert-to-ssa",
    aliases: &["ConvertToSSA"],
    summary: "make values of stored and loaded variables, and continuations of `break` and `continue`",
    example: "prim::Store[name=\"y\"](%x), %1 : Tensor = prim::Load[name=\"y\"](), use(%1)  =>  use(%x)",
    options: &[],
    required: true,
    reads_shapes: true,
    run,
    file: file!(),
};

/// Nodes that copies of conditions may make of one graph.
const MOST_NODES: usize = 2_000_000;

fn run(graph: &mut Graph, cx: &mut PassContext<'_>) -> Result<(), PassError> {
    graph_dump!("Before converting to SSA", graph);
    let anchor = graph.all_nodes().find(|node| is_before_ssa(graph, *node));
    if let Some(anchor) = anchor {
        let done = cx.rewrite(graph, "graphs-converted", anchor, convert);
        done.unwrap_or(Ok(()))?;
    }
    let carriers: Vec<Node> = graph.all_nodes().filter(|node| graph.subgraph(*node).is_some()).collect();
    for carrier in carriers {
        graph.with_subgraph(carrier, |section| run(section, cx)).unwrap_or(Ok(()))?;
    }
    graph_dump!("After converting to SSA", graph);
    Ok(())
}

fn is_before_ssa(graph: &Graph, node: Node) -> bool {
    match graph.kind(node) {
        prim::STORE | prim::LOAD | prim::CONTINUE_STMT | prim::BREAK_STMT => true,
        prim::LOOP => graph.num_blocks(node) == 2,
        _ => false,
    }
}

fn convert(graph: &mut Graph) -> Result<(), PassError> {
    let loaded = loaded_types(graph);
    Carrying { graph, types: Scopes::new(), set: HashMap::new(), loaded }.run();
    continue_loops(graph)?;
    inline_conditions(graph)?;
    Erasing { graph, values: Scopes::new() }.run()?;
    dissolve_comprehensions(graph);
    Ok(())
}

// ---- variables

type Name = Box<[u8]>;

fn variable(graph: &Graph, node: Node) -> Option<Name> {
    match graph.attribute(node, attr::NAME)? {
        Attribute::Str(name) => Some(name.clone()),
        _ => None,
    }
}

fn access(graph: &mut Graph, kind: jitopt_core::symbol::Symbol, name: &[u8]) -> Node {
    let node = graph.create(kind);
    graph.set_attribute(node, attr::NAME, Attribute::Str(name.into()));
    node
}

fn store(graph: &mut Graph, name: &[u8], value: Value) -> Node {
    let node = access(graph, prim::STORE, name);
    graph.add_input(node, value);
    node
}

fn load(graph: &mut Graph, name: &[u8], ty: Type) -> Node {
    let node = access(graph, prim::LOAD, name);
    graph.add_output(node, ty);
    node
}

/// Values get the names of variables, except `_12`.
fn name_value(graph: &mut Graph, value: Value, name: &[u8]) {
    let is_number = name.strip_prefix(b"_").is_some_and(|rest| rest.iter().all(u8::is_ascii_digit));
    if !is_number && !name.is_empty() {
        graph.set_name(value, name);
    }
}

/// The values of names, block by block.
struct Scopes<V> {
    /// With the depths at which they are set, innermost last.
    known: HashMap<Name, Vec<(usize, V)>>,
    /// The names that each open block sets.
    open: Vec<BTreeSet<Name>>,
}

impl<V: Copy> Scopes<V> {
    fn new() -> Scopes<V> {
        Scopes { known: HashMap::new(), open: Vec::new() }
    }

    fn enter(&mut self) {
        self.open.push(BTreeSet::new());
    }

    /// The names that the innermost block set, with their last meanings.
    fn leave(&mut self) -> BTreeMap<Name, V> {
        let mut set = BTreeMap::new();
        for name in self.open.pop().unwrap_or_default() {
            let last = self.known.get_mut(&name).and_then(Vec::pop);
            set.extend(last.map(|(_, meaning)| (name, meaning)));
        }
        set
    }

    fn get(&self, name: &[u8]) -> Option<V> {
        self.known.get(name).and_then(|found| found.last()).map(|(_, meaning)| *meaning)
    }

    fn set(&mut self, name: Name, meaning: V) {
        let depth = self.open.len();
        let found = self.known.entry(name.clone()).or_default();
        match found.last_mut() {
            Some((at, old)) if *at == depth => *old = meaning,
            _ => found.push((depth, meaning)),
        }
        if let Some(open) = self.open.last_mut() {
            open.insert(name);
        }
    }
}

/// Work on the nodes of a graph without recursion, last first.
enum Step {
    Enter(Block),
    Node(Node),
    Leave(Block),
    /// The blocks of a node are done.
    After(Node),
}

fn enter(graph: &Graph, block: Block, steps: &mut Vec<Step>) {
    steps.push(Step::Leave(block));
    let from = steps.len();
    steps.extend(graph.nodes(block).map(Step::Node));
    steps[from..].reverse();
}

// ---- results of Ifs, carried values

/// The types that variables are loaded with: their declared ones.
fn loaded_types(graph: &Graph) -> HashMap<Name, Vec<Type>> {
    let mut found: HashMap<Name, Vec<Type>> = HashMap::new();
    for node in graph.all_nodes().filter(|node| graph.kind(*node) == prim::LOAD) {
        if let (Some(name), Some(output)) = (variable(graph, node), graph.single_output(node)) {
            found.entry(name).or_default().push(graph.ty(output));
        }
    }
    found
}

/// Loads and stores variables at the ends of blocks and after Ifs and Loops.
struct Carrying<'g> {
    graph: &'g mut Graph,
    types: Scopes<Type>,
    /// The names that finished blocks set.
    set: HashMap<Block, BTreeMap<Name, Type>>,
    loaded: HashMap<Name, Vec<Type>>,
}

impl Carrying<'_> {
    fn run(&mut self) {
        let mut steps = vec![Step::Enter(self.graph.root())];
        while let Some(step) = steps.pop() {
            match step {
                Step::Enter(block) => {
                    self.types.enter();
                    enter(self.graph, block, &mut steps);
                }
                Step::Leave(block) => {
                    let set = self.types.leave();
                    self.set.insert(block, set);
                }
                Step::Node(node) => self.node(node, &mut steps),
                Step::After(node) => match self.graph.kind(node) {
                    prim::IF => self.branches(node),
                    prim::LOOP => self.body(node),
                    _ => {}
                },
            }
        }
    }

    fn node(&mut self, node: Node, steps: &mut Vec<Step>) {
        if self.graph.kind(node) == prim::STORE
            && let (Some(name), Some(value)) = (variable(self.graph, node), self.graph.inputs(node).next())
        {
            self.types.set(name, self.graph.ty(value));
        }
        if self.graph.num_blocks(node) > 0 {
            steps.push(Step::After(node));
            // The second block of a Loop is its condition, which sets nothing.
            let count = if self.graph.kind(node) == prim::LOOP { 1 } else { self.graph.num_blocks(node) };
            steps.extend(self.graph.node_blocks(node).take(count).rev().map(Step::Enter));
        }
    }

    /// The type of what is one or the other: a union where nothing else is both.
    fn either(&self, name: &[u8], a: Type, b: Type) -> Type {
        let declared = || {
            let fits = |ty: &&Type| a.is_subtype_of(**ty) && b.is_subtype_of(**ty);
            self.loaded.get(name).and_then(|types| types.iter().find(fits)).copied()
        };
        a.join(b).or_else(declared).unwrap_or_else(|| Type::new(TypeKind::Union([a, b].into())))
    }

    fn branches(&mut self, node: Node) {
        if self.graph.num_blocks(node) != 2 {
            return;
        }
        let blocks = [0, 1].map(|i| self.graph.node_block(node, i));
        let sets = blocks.map(|block| self.set.remove(&block).unwrap_or_default());
        let names: BTreeSet<&Name> = sets.iter().flat_map(BTreeMap::keys).collect();
        for name in names {
            let types = [0, 1].map(|i: usize| sets[i].get(name).copied().or_else(|| self.types.get(name)));
            let [Some(a), Some(b)] = types else { continue };
            for (block, ty) in blocks.into_iter().zip([a, b]) {
                self.result(block, name, ty);
            }
            let ty = self.either(name, a, b);
            self.output(node, name, ty);
        }
    }

    /// Values are carried where they are known before the Loop.
    fn body(&mut self, node: Node) {
        if self.graph.num_blocks(node) != 2 {
            return;
        }
        let body = self.graph.node_block(node, 0);
        for (name, last) in self.set.remove(&body).unwrap_or_default() {
            let Some(first) = self.types.get(&name) else { continue };
            let ty = self.either(&name, first, last);
            let before = load(self.graph, &name, first);
            self.graph.insert_before(node, before);
            self.graph.add_input(node, self.graph.output(before, 0));
            let param = self.graph.add_param(body, ty);
            name_value(self.graph, param, &name);
            let stored = store(self.graph, &name, param);
            self.graph.prepend(body, stored);
            self.result(body, &name, last);
            self.output(node, &name, ty);
        }
    }

    fn result(&mut self, block: Block, name: &[u8], ty: Type) {
        let loaded = load(self.graph, name, ty);
        self.graph.append(block, loaded);
        self.graph.add_result(block, self.graph.output(loaded, 0));
    }

    fn output(&mut self, node: Node, name: &[u8], ty: Type) {
        let output = self.graph.add_output(node, ty);
        name_value(self.graph, output, name);
        let stored = store(self.graph, name, output);
        self.graph.insert_after(node, stored);
        self.types.set(name.into(), ty);
    }
}

// ---- loops

/// The Loop whose body a node is in; nothing beyond a closure.
fn innermost_loop(graph: &Graph, node: Node) -> Option<Node> {
    let mut inner = node;
    loop {
        let block = graph.block_of(inner)?;
        let owner = graph.owner_node(block)?;
        match graph.kind(owner) {
            prim::LOOP if graph.node_block(owner, 0) == block => return Some(owner),
            prim::CLOSURE => return None,
            _ => inner = owner,
        }
    }
}

/// Makes continuations of `break` and `continue`.
fn continue_loops(graph: &mut Graph) -> Result<(), PassError> {
    let mut stop = None;
    let nodes: Vec<Node> = graph.all_nodes().collect();
    for node in nodes {
        let kind = graph.kind(node);
        if kind != prim::BREAK_STMT && kind != prim::CONTINUE_STMT {
            continue;
        }
        let around = innermost_loop(graph, node).filter(|around| graph.num_blocks(*around) == 2);
        let Some(around) = around else { return Err(PassError::at(graph, node, "it is in no loop with a condition")) };
        let condition = if kind == prim::BREAK_STMT {
            *stop.get_or_insert_with(|| falsehood(graph))
        } else {
            copy_condition(graph, around, node)?
        };
        continuation(graph, node, around, condition);
    }
    Ok(())
}

fn falsehood(graph: &mut Graph) -> Value {
    let node = graph.create_op(prim::CONSTANT, &[], Type::bool());
    graph.set_attribute(node, attr::VALUE, Attribute::Int(0));
    graph.prepend(graph.root(), node);
    graph.output(node, 0)
}

/// Copies the condition of a Loop before a node.
fn copy_condition(graph: &mut Graph, of: Node, before: Node) -> Result<Value, PassError> {
    if graph.num_node_rows() > MOST_NODES {
        return Err(PassError::at(graph, of, "copies of its condition make the graph too large"));
    }
    let block = graph.node_block(of, 1);
    let Some(result) = graph.results(block).next() else { return Err(PassError::at(graph, of, "it has no condition")) };
    let mut map = ValueMap::default();
    let mut cursor = graph.first(block);
    while let Some(node) = cursor {
        cursor = graph.next(node);
        let copy = graph.copy_node(None, node, &mut map);
        graph.insert_before(before, copy);
    }
    Ok(graph.mapped(None, result, &mut map))
}

/// Replaces a statement by the values that the Loop carries on.
fn continuation(graph: &mut Graph, statement: Node, around: Node, condition: Value) {
    graph_update!("continuing {around:?}");
    let made = graph.create(prim::LOOP_CONTINUATION);
    graph.copy_location(statement, made);
    graph.add_input(made, condition);
    let carried: Vec<Value> = graph.results(graph.node_block(around, 0)).collect();
    for value in carried {
        let name = graph.definer(value).and_then(|node| variable(graph, node));
        let loaded = load(graph, &name.unwrap_or_default(), graph.ty(value));
        graph.insert_before(statement, loaded);
        graph.add_input(made, graph.output(loaded, 0));
    }
    graph.insert_before(statement, made);
    graph.erase(statement);
}

/// Moves conditions before Loops and to the ends of their bodies, inner ones first.
fn inline_conditions(graph: &mut Graph) -> Result<(), PassError> {
    let is_open = |graph: &Graph, node: Node| graph.kind(node) == prim::LOOP && graph.num_blocks(node) == 2;
    let loops: Vec<Node> = graph.all_nodes().filter(|node| is_open(graph, *node)).collect();
    for node in loops.into_iter().rev() {
        let first = copy_condition(graph, node, node)?;
        graph.insert_input(node, 1.min(graph.num_inputs(node)), first);
        let [body, condition] = [0, 1].map(|i| graph.node_block(node, i));
        let nodes: Vec<Node> = graph.nodes(condition).collect();
        for inner in nodes {
            graph.detach(inner);
            graph.append(body, inner);
        }
        let next = graph.input(graph.return_node(condition), 0);
        graph.insert_input(graph.return_node(body), 0, next);
        graph.remove_block(node, 1);
    }
    Ok(())
}

/// The variables of a comprehension are its own, its nodes are not.
fn dissolve_comprehensions(graph: &mut Graph) {
    let is_one = |graph: &Graph, node: Node| graph.kind(node).as_str() == "prim::ComprehensionScope";
    let scopes: Vec<Node> = graph.all_nodes().filter(|node| is_one(graph, *node)).collect();
    for scope in scopes {
        for block in graph.node_blocks(scope).collect::<Vec<Block>>() {
            for node in graph.nodes(block).collect::<Vec<Node>>() {
                graph.detach(node);
                graph.insert_before(scope, node);
            }
        }
        graph.erase(scope);
    }
}

// ---- loads

/// Replaces loads by what was stored last.
struct Erasing<'g> {
    graph: &'g mut Graph,
    values: Scopes<Value>,
}

impl Erasing<'_> {
    fn run(&mut self) -> Result<(), PassError> {
        let mut steps = vec![Step::Enter(self.graph.root())];
        while let Some(step) = steps.pop() {
            match step {
                Step::Enter(block) => {
                    self.values.enter();
                    enter(self.graph, block, &mut steps);
                }
                Step::Leave(_) => drop(self.values.leave()),
                Step::Node(node) => {
                    self.node(node)?;
                    steps.extend(self.graph.node_blocks(node).rev().map(Step::Enter));
                }
                Step::After(_) => {}
            }
        }
        Ok(())
    }

    fn node(&mut self, node: Node) -> Result<(), PassError> {
        let kind = self.graph.kind(node);
        if kind != prim::STORE && kind != prim::LOAD {
            return Ok(());
        }
        let Some(name) = variable(self.graph, node) else {
            return Err(PassError::at(self.graph, node, "it has no name"));
        };
        if kind == prim::STORE {
            let [value] = self.graph.inputs(node).collect::<Vec<_>>()[..] else {
                return Err(PassError::at(self.graph, node, "it stores no value"));
            };
            self.values.set(name, value);
        } else {
            let Some(output) = self.graph.single_output(node) else {
                return Err(PassError::at(self.graph, node, "it loads no value"));
            };
            let Some(value) = self.values.get(&name) else {
                let why = format!("nothing stores `{}` before", String::from_utf8_lossy(&name));
                return Err(PassError::at(self.graph, node, why));
            };
            self.graph.replace_all_uses(output, value);
        }
        self.graph.erase(node);
        Ok(())
    }
}
