//! Removes exits: `prim::LoopContinuation` leaves the innermost loop body, `prim::ReturnStmt` the
//! graph.
//!
//! ```text
//! prim::If(%b)                                 %z : Tensor = prim::If(%b)
//!   block0():                                    block0():
//!     prim::ReturnStmt(%x)                         -> (%x)
//!     -> ()                               =>     block1():
//!   block1():                                      %y : Tensor = aten::neg(%x)
//!     -> ()                                        -> (%y)
//! %y : Tensor = aten::neg(%x)                  return (%z)
//! prim::ReturnStmt(%y)
//! ```
//!
//! A block either goes on to its end, or exits, or may do both; in the last case a bool says
//! whether it did, and the nodes after it run in an If of this bool. Nodes after a certain exit, or
//! after an exception, are erased. Where an If sets the bool to one constant in each branch, the
//! next If on it is merged with it. Continuations are removed first, then returns.
//!
//! Linear in nodes, but for merged Ifs, whose branches are copied once for each level of nesting.

use jitopt_core::ir::{Attribute, Block, Graph, Node, Value, ValueMap};
use jitopt_core::pass::{PassContext, PassError, PassInfo};
use jitopt_core::symbol::{Symbol, attr, prim};
use jitopt_core::types::{Type, TypeKind};
use jitopt_core::{graph_dump, graph_update};
use std::collections::HashMap;

/// The registry entry.
pub const PASS: PassInfo = PassInfo {
    name: "exit-transforms",
    aliases: &["TransformExits"],
    summary: "make branches of early returns and of continuations of loops",
    example: "prim::If(%b) block0(): prim::ReturnStmt(%x) -> () block1(): -> ()  =>  %z = prim::If(%b) block0(): -> (%x) …",
    options: &[],
    required: true,
    reads_shapes: true,
    run,
    file: file!(),
};

/// Nodes that merged branches may make of one graph.
const MOST_NODES: usize = 2_000_000;

fn run(graph: &mut Graph, cx: &mut PassContext<'_>) -> Result<(), PassError> {
    graph_dump!("Before transforming exits", graph);
    for exit in [prim::LOOP_CONTINUATION, prim::RETURN_STMT] {
        let anchor = graph.all_nodes().find(|node| graph.kind(*node) == exit);
        if let Some(anchor) = anchor {
            let done = cx.rewrite(graph, "exits-transformed", anchor, |graph| transform(graph, exit));
            done.unwrap_or(Ok(()))?;
        }
    }
    let carriers: Vec<Node> = graph.all_nodes().filter(|node| graph.subgraph(*node).is_some()).collect();
    for carrier in carriers {
        graph.with_subgraph(carrier, |section| run(section, cx)).unwrap_or(Ok(()))?;
    }
    graph_dump!("After transforming exits", graph);
    Ok(())
}

fn transform(graph: &mut Graph, exit: Symbol) -> Result<(), PassError> {
    open_contexts(graph)?;
    let mut transformer = Transformer { exit, made: HashMap::new(), ends: HashMap::new(), open: Vec::new(), graph };
    transformer.run()?;
    let (made, joints) = (transformer.made(), transformer.joints());
    merge_ifs(graph, joints)?;
    close_contexts(graph);
    for node in made {
        if graph.outputs(node).all(|value| !graph.has_uses(value)) {
            graph.erase(node);
        }
    }
    Ok(())
}

/// The end of a block, or of a node with blocks.
#[derive(Clone, Debug)]
enum End {
    /// At its end.
    Passes,
    /// With an exception.
    Raises,
    /// At an exit, with these values.
    Exits(Vec<Value>),
    /// At an exit if the first value is true.
    MayExit(Value, Vec<Value>),
}

/// Work on nodes without recursion, last first.
enum Step {
    Enter(Block),
    Node(Node),
    Leave(Block),
    /// The blocks of a node are done.
    After(Node),
    /// The branches of an If that guards the rest of a block are done.
    Joined(Node),
}

struct Transformer<'g> {
    graph: &'g mut Graph,
    exit: Symbol,
    /// Constants and uninitialised values at the beginning of the graph.
    made: HashMap<(Type, Option<bool>), Value>,
    ends: HashMap<Block, End>,
    /// The ends of the open blocks, as far as they are known.
    open: Vec<End>,
}

impl Transformer<'_> {
    fn run(&mut self) -> Result<(), PassError> {
        let mut steps = vec![Step::Enter(self.graph.root())];
        while let Some(step) = steps.pop() {
            match step {
                Step::Enter(block) => self.enter(block, &mut steps),
                Step::Node(node) => self.node(node, &mut steps),
                Step::Leave(block) => self.leave(block)?,
                Step::After(node) => {
                    let end = self.after(node);
                    self.continue_after(node, end, &mut steps);
                }
                Step::Joined(node) => {
                    let end = self.after(node);
                    self.ended(end);
                }
            }
        }
        Ok(())
    }

    fn enter(&mut self, block: Block, steps: &mut Vec<Step>) {
        self.open.push(End::Passes);
        steps.push(Step::Leave(block));
        let from = steps.len();
        steps.extend(self.graph.nodes(block).map(Step::Node));
        steps[from..].reverse();
    }

    fn ended(&mut self, end: End) {
        if let Some(last) = self.open.last_mut() {
            *last = end;
        }
    }

    fn node(&mut self, node: Node, steps: &mut Vec<Step>) {
        let kind = self.graph.kind(node);
        if kind == self.exit {
            let values = self.graph.inputs(node).collect();
            self.ended(End::Exits(values));
            self.erase_rest(node, steps);
            self.graph.erase(node);
        } else if kind == prim::RAISE_EXCEPTION {
            self.ended(End::Raises);
            self.erase_rest(node, steps);
        } else if self.graph.num_blocks(node) > 0 {
            steps.push(Step::After(node));
            steps.extend(self.graph.node_blocks(node).rev().map(Step::Enter));
        }
    }

    /// The rest of a block.
    fn rest(&self, node: Node, steps: &mut Vec<Step>) -> Vec<Node> {
        while matches!(steps.last(), Some(Step::Node(_))) {
            steps.pop();
        }
        let mut rest = Vec::new();
        let mut cursor = self.graph.next(node);
        while let Some(next) = cursor {
            rest.push(next);
            cursor = self.graph.next(next);
        }
        rest
    }

    fn erase_rest(&mut self, node: Node, steps: &mut Vec<Step>) {
        for dead in self.rest(node, steps).into_iter().rev() {
            let outputs: Vec<Value> = self.graph.outputs(dead).filter(|value| self.graph.has_uses(*value)).collect();
            for output in outputs {
                let nothing = self.nothing(self.graph.ty(output));
                self.graph.replace_all_uses(output, nothing);
            }
            self.graph.erase(dead);
        }
    }

    // ---- values that are made

    fn nothing(&mut self, ty: Type) -> Value {
        let graph = &mut *self.graph;
        *self.made.entry((ty, None)).or_insert_with(|| {
            let node = graph.create_op(prim::UNINITIALIZED, &[], ty);
            graph.prepend(graph.root(), node);
            graph.output(node, 0)
        })
    }

    fn truth(&mut self, value: bool) -> Value {
        let graph = &mut *self.graph;
        *self.made.entry((Type::bool(), Some(value))).or_insert_with(|| {
            let node = graph.create_op(prim::CONSTANT, &[], Type::bool());
            graph.set_attribute(node, attr::VALUE, Attribute::Int(i64::from(value)));
            graph.prepend(graph.root(), node);
            graph.output(node, 0)
        })
    }

    fn nothings(&mut self, like: &[Value]) -> Vec<Value> {
        like.iter().map(|value| self.nothing(self.graph.ty(*value))).collect()
    }

    /// The nodes of values that were made.
    fn made(&self) -> Vec<Node> {
        self.graph.nodes(self.graph.root()).take_while(|node| self.makes(*node)).collect()
    }

    fn makes(&self, node: Node) -> bool {
        self.graph.single_output(node).is_some_and(|value| self.made.values().any(|made| *made == value))
    }

    /// The Ifs of the graph, inner ones first.
    fn joints(&self) -> Vec<Node> {
        let mut found: Vec<Node> = self.graph.all_nodes().filter(|n| self.graph.kind(*n) == prim::IF).collect();
        found.reverse();
        found
    }

    // ---- ends of blocks

    fn is_target(&self, block: Block) -> bool {
        let owner = self.graph.owner_node(block).map(|node| self.graph.kind(node));
        match owner {
            None => self.exit == prim::RETURN_STMT,
            Some(prim::CLOSURE) => self.exit == prim::RETURN_STMT,
            Some(prim::LOOP) => self.exit == prim::LOOP_CONTINUATION,
            Some(_) => false,
        }
    }

    /// The target of exits has the values of the exit as its results.
    fn leave(&mut self, block: Block) -> Result<(), PassError> {
        let mut end = self.open.pop().unwrap_or(End::Passes);
        if self.is_target(block) {
            let results: Vec<Value> = self.graph.results(block).collect();
            let values = match &end {
                End::Exits(values) | End::MayExit(_, values) => values.clone(),
                End::Passes | End::Raises => results.clone(),
            };
            if values.len() != results.len() {
                let why = format!("an exit has {} values, its block {}", values.len(), results.len());
                return Err(PassError::at(self.graph, self.graph.return_node(block), why));
            }
            let values = match end {
                End::MayExit(exited, _) => self.choice(block, exited, &values, &results),
                _ => values,
            };
            self.set_results(block, &values);
            end = End::Passes;
        }
        self.ends.insert(block, end);
        Ok(())
    }

    fn set_results(&mut self, block: Block, values: &[Value]) {
        let results = self.graph.return_node(block);
        self.graph.remove_inputs(results);
        self.graph.set_inputs(results, values.iter().copied());
    }

    /// An If at the end of a block that is one or the other.
    fn choice(&mut self, block: Block, condition: Value, then: &[Value], otherwise: &[Value]) -> Vec<Value> {
        let node = self.graph.create(prim::IF);
        self.graph.append(block, node);
        self.graph.add_input(node, condition);
        let blocks = [self.graph.add_block(node), self.graph.add_block(node)];
        self.join(node, blocks, then, otherwise)
    }

    /// Adds results to an If.
    fn join(&mut self, node: Node, blocks: [Block; 2], then: &[Value], otherwise: &[Value]) -> Vec<Value> {
        let mut outputs = Vec::new();
        for (a, b) in then.iter().zip(otherwise) {
            self.graph.add_result(blocks[0], *a);
            self.graph.add_result(blocks[1], *b);
            let ty = either(self.graph.ty(*a), self.graph.ty(*b));
            outputs.push(self.graph.add_output(node, ty));
        }
        outputs
    }

    // ---- nodes with blocks

    fn after(&mut self, node: Node) -> End {
        let blocks: Vec<Block> = self.graph.node_blocks(node).collect();
        match (self.graph.kind(node), blocks.as_slice()) {
            (prim::IF, [then, otherwise]) => self.after_if(node, [*then, *otherwise]),
            (prim::LOOP, [body]) => self.after_loop(node, *body),
            (prim::WITH, [body, _]) => self.ends.remove(body).unwrap_or(End::Passes),
            _ => End::Passes,
        }
    }

    fn after_if(&mut self, node: Node, blocks: [Block; 2]) -> End {
        let ends = blocks.map(|block| self.ends.remove(&block).unwrap_or(End::Passes));
        let like = match &ends {
            [End::Raises, End::Raises] => return End::Raises,
            [End::Exits(values) | End::MayExit(_, values), _] | [_, End::Exits(values) | End::MayExit(_, values)] => {
                values.clone()
            }
            _ => return End::Passes,
        };
        let certain = ends.iter().all(|end| matches!(end, End::Exits(_) | End::Raises));
        let [(exited, values), (other_exited, other_values)] = ends.map(|end| self.parts(end, &like));
        let exited = (!certain).then(|| self.join(node, blocks, &[exited], &[other_exited])[0]);
        let values = self.join(node, blocks, &values, &other_values);
        match exited {
            Some(exited) => End::MayExit(exited, values),
            None => End::Exits(values),
        }
    }

    /// Whether a block exited, and the values of the exit.
    fn parts(&mut self, end: End, like: &[Value]) -> (Value, Vec<Value>) {
        match end {
            End::Passes => (self.truth(false), self.nothings(like)),
            End::Raises => (self.nothing(Type::bool()), self.nothings(like)),
            End::Exits(values) => (self.truth(true), values),
            End::MayExit(exited, values) => (exited, values),
        }
    }

    /// A Loop that may be left carries whether it was, and the values of the exit.
    fn after_loop(&mut self, node: Node, body: Block) -> End {
        let end = self.ends.remove(&body).unwrap_or(End::Passes);
        let (End::Exits(like) | End::MayExit(_, like)) = &end else { return End::Passes };
        let like = like.clone();
        let (exited, values) = self.parts(end, &like);
        let stop = self.truth(false);
        let goes_on = self.graph.results(body).next();
        if let Some(goes_on) = goes_on {
            let next = self.choice(body, exited, &[stop], &[goes_on])[0];
            let results = self.graph.return_node(body);
            self.graph.set_input(results, 0, next);
        }
        let first: Vec<Value> = std::iter::once(stop).chain(self.nothings(&like)).collect();
        let last = std::iter::once(exited).chain(values);
        let outputs: Vec<Value> =
            first.into_iter().zip(last).map(|(first, last)| self.carry(node, body, first, last)).collect();
        End::MayExit(outputs[0], outputs[1..].to_vec())
    }

    fn carry(&mut self, node: Node, body: Block, first: Value, last: Value) -> Value {
        let ty = either(self.graph.ty(first), self.graph.ty(last));
        self.graph.add_input(node, first);
        self.graph.add_param(body, ty);
        self.graph.add_result(body, last);
        self.graph.add_output(node, ty)
    }

    // ---- what follows

    /// Continues after a node with blocks.
    fn continue_after(&mut self, node: Node, end: End, steps: &mut Vec<Step>) {
        match &end {
            End::Passes => return,
            End::Exits(_) | End::Raises => self.erase_rest(node, steps),
            End::MayExit(exited, values) => {
                let rest = self.rest(node, steps);
                if !rest.is_empty() {
                    self.guard(node, (*exited, values.clone()), rest, steps);
                }
            }
        }
        self.ended(end);
    }

    /// Moves what follows a node into an If that tests whether the node exited. The If has the
    /// results of the block, then those of the exit.
    fn guard(&mut self, node: Node, (exited, values): (Value, Vec<Value>), rest: Vec<Node>, steps: &mut Vec<Step>) {
        let Some(block) = self.graph.block_of(node) else { return };
        graph_update!("guarding {} nodes after {node:?}", rest.len());
        let guard = self.graph.create(prim::IF);
        self.graph.insert_after(node, guard);
        self.graph.add_input(guard, exited);
        let blocks = [self.graph.add_block(guard), self.graph.add_block(guard)];
        for node in rest {
            self.graph.detach(node);
            self.graph.append(blocks[1], node);
        }
        let results: Vec<Value> = self.graph.results(block).collect();
        let nothings = self.nothings(&results);
        let outputs = self.join(guard, blocks, &nothings, &results);
        self.set_results(block, &outputs);
        self.ends.insert(blocks[0], End::Exits(values));
        steps.extend([Step::Joined(guard), Step::Enter(blocks[1])]);
    }
}

/// The type of what is one or the other.
fn either(a: Type, b: Type) -> Type {
    a.join(b).unwrap_or_else(|| Type::new(TypeKind::Union([a, b].into())))
}

// ---- consecutive Ifs

/// Merges each If with the next one, if that tests a result that is true in one branch and false
/// in the other.
fn merge_ifs(graph: &mut Graph, mut work: Vec<Node>) -> Result<(), PassError> {
    work.reverse();
    while let Some(node) = work.pop() {
        while let Some((second, value)) = mergeable(graph, node) {
            if graph.num_node_rows() > MOST_NODES {
                return Err(PassError::at(graph, node, "copies of branches make the graph too large"));
            }
            merge(graph, node, second, value, &mut work);
        }
    }
    Ok(())
}

/// The next If, and what its condition is in the first branch.
fn mergeable(graph: &Graph, node: Node) -> Option<(Node, bool)> {
    let is_if = |node: Node| graph.kind(node) == prim::IF && graph.num_blocks(node) == 2;
    graph.block_of(node)?;
    let second = graph.next(node).filter(|second| is_if(node) && is_if(*second))?;
    let condition = graph.input(second, 0);
    if graph.definer(condition) != Some(node) {
        return None;
    }
    let at = graph.output_index(condition);
    let value = |i: usize| graph.constant_int(graph.results(graph.node_block(node, i)).nth(at)?);
    let (then, otherwise) = (value(0)? != 0, value(1)? != 0);
    (then != otherwise).then_some((second, then))
}

fn merge(graph: &mut Graph, first: Node, second: Node, then: bool, work: &mut Vec<Node>) {
    for (i, taken) in [then, !then].into_iter().enumerate() {
        let (to, from) = (graph.node_block(first, i), graph.node_block(second, usize::from(!taken)));
        let mut map: ValueMap = graph.outputs(first).zip(graph.results(to)).collect();
        let last = graph.last(to);
        let results = graph.copy_block_into(None, from, to, &mut map);
        results.into_iter().for_each(|value| graph.add_result(to, value));
        work.extend(last);
    }
    let outputs: Vec<Value> = graph.outputs(second).collect();
    for output in outputs {
        let ty = graph.ty(output);
        let new = graph.add_output(first, ty);
        graph.replace_all_uses(output, new);
        graph.move_name(output, new);
    }
    graph.erase(second);
}

// ---- contexts

/// Makes a node with two blocks, the body and the exit, of `prim::Enter` and `prim::Exit`: an exit
/// inside still leaves the context.
fn open_contexts(graph: &mut Graph) -> Result<(), PassError> {
    let enters: Vec<Node> = graph.all_nodes().filter(|node| graph.kind(*node) == prim::ENTER).collect();
    for enter in enters.into_iter().rev() {
        let mut body = Vec::new();
        let mut cursor = graph.next(enter);
        let exit = loop {
            let Some(node) = cursor else { return Err(PassError::at(graph, enter, "nothing leaves this context")) };
            if graph.kind(node) == prim::EXIT && graph.inputs(node).next() == graph.inputs(enter).next() {
                break node;
            }
            body.push(node);
            cursor = graph.next(node);
        };
        let with = graph.create(prim::WITH);
        graph.insert_after(enter, with);
        let blocks = [graph.add_block(with), graph.add_block(with)];
        for (node, block) in body.into_iter().map(|node| (node, blocks[0])).chain([(exit, blocks[1])]) {
            graph.detach(node);
            graph.append(block, node);
        }
        return_what_escapes(graph, with, blocks[0]);
    }
    Ok(())
}

/// Makes results of a context of what is read after its body.
fn return_what_escapes(graph: &mut Graph, with: Node, body: Block) {
    let values: Vec<Value> = graph.nodes(body).flat_map(|node| graph.outputs(node).collect::<Vec<Value>>()).collect();
    for value in values {
        if !graph.users(value).all(|user| is_within(graph, user, body)) {
            let output = graph.add_output(with, graph.ty(value));
            graph.replace_uses_if(value, output, |graph, one| !is_within(graph, graph.user(one), body));
            graph.add_result(body, value);
        }
    }
}

fn is_within(graph: &Graph, node: Node, body: Block) -> bool {
    let mut around = graph.block_of(node);
    while let Some(block) = around.filter(|block| *block != body) {
        around = graph.owner_node(block).and_then(|owner| graph.block_of(owner));
    }
    around.is_some()
}

/// The reverse.
fn close_contexts(graph: &mut Graph) {
    let contexts: Vec<Node> = graph.all_nodes().filter(|node| graph.kind(*node) == prim::WITH).collect();
    for with in contexts {
        let results: Vec<Value> = graph.results(graph.node_block(with, 0)).collect();
        let outputs: Vec<Value> = graph.outputs(with).collect();
        outputs.into_iter().zip(results).for_each(|(output, result)| graph.replace_all_uses(output, result));
        for block in graph.node_blocks(with).collect::<Vec<Block>>() {
            for node in graph.nodes(block).collect::<Vec<Node>>() {
                graph.detach(node);
                graph.insert_before(with, node);
            }
        }
        graph.erase(with);
    }
}
