//! A graph as the linear code of a register machine: `--emit=code`.
//!
//! ```text
//! graph(%x : Tensor, %b : bool):              0, 1 = Load
//!   %y : Tensor = prim::If(%b)                    JumpZ move(1), L0
//!     block0():                                   2 = relu move(0)
//!       %2 : Tensor = aten::relu(%x)              3 = Move move(2)
//!       -> (%2)                                   Jump L1
//!     block1():                               L0: 3 = Move move(0)
//!       -> (%x)                               L1: = Store move(3)
//!   return (%y)
//! ```
//!
//! As in PyTorch's overview of its interpreter, every value has a register, and `move` marks its
//! last use: the memory is free from there on. A value used in only one of two branches is dropped
//! at the start of the other. Linear in nodes and uses, times the number of blocks between a use
//! and the definition.

use crate::ir::{Block, Graph, Node, Value};
use crate::symbol::prim;
use crate::text::{PrintOptions, Printer};
use rustc_hash::FxHashMap;
use std::fmt;

/// One instruction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Instruction {
    /// Labels that stand before it.
    pub labels: Vec<usize>,
    /// Registers that it writes.
    pub results: Vec<usize>,
    /// The operation: the short name of an operator with its attributes, or `Load`, `Move`, `Drop`,
    /// `Jump`, ….
    pub name: String,
    /// Registers that it reads, and whether the use is the last.
    pub operands: Vec<(usize, bool)>,
    /// The label that it may jump to.
    pub jump: Option<usize>,
}

impl fmt::Display for Instruction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let labels: String = self.labels.iter().map(|label| format!("L{label}: ")).collect();
        let shown =
            |&(register, last): &(usize, bool)| if last { format!("move({register})") } else { register.to_string() };
        let mut operands: Vec<String> = match self.name.as_str() {
            DROP => self.operands.iter().map(|(register, _)| register.to_string()).collect(),
            _ => self.operands.iter().map(shown).collect(),
        };
        operands.extend(self.jump.map(|label| format!("L{label}")));
        let results: Vec<String> = self.results.iter().map(usize::to_string).collect();
        let equals = match (results.is_empty(), self.name.as_str()) {
            (true, DROP | JUMP | JUMP_ZERO | JUMP_LESS) => "",
            (true, _) => "= ",
            _ => " = ",
        };
        let text = format!("{}{equals}{} {}", results.join(", "), self.name, operands.join(", "));
        write!(f, "{labels:<4}{}", text.trim_end())
    }
}

const DROP: &str = "Drop";
const JUMP: &str = "Jump";
/// Jumps when the register is false.
const JUMP_ZERO: &str = "JumpZ";
/// Jumps unless the first register is less than the second, and the third is true.
const JUMP_LESS: &str = "JumpUnlessLess";

/// The code of a graph, followed by that of its sections.
pub fn listing(graph: &Graph) -> String {
    let mut out = String::new();
    let mut waiting = vec![(String::new(), graph)];
    while let Some((title, graph)) = waiting.pop() {
        out += &title;
        out.extend(instructions(graph).iter().map(|instruction| format!("{instruction}\n")));
        let sections = graph.all_nodes().filter_map(|node| Some((node, graph.subgraph(node)?)));
        let titled = |(i, (node, section)): (usize, (Node, _))| (format!("\n{}_{i}:\n", graph.kind(node)), section);
        let mut found: Vec<(String, &Graph)> = sections.enumerate().map(titled).collect();
        found.reverse();
        waiting.extend(found);
    }
    out
}

/// The code of a graph without its sections.
pub fn instructions(graph: &Graph) -> Vec<Instruction> {
    let mut lister = Lister::new(graph);
    lister.run();
    lister.code
}

/// Pending work.
enum Step {
    /// A node, and those after it in its block.
    From(Option<Node>, Block),
    /// One instruction.
    Emit(Instruction),
    /// A jump target.
    Label(usize),
    /// Copies the results of a block into registers, counting their last uses.
    Results(Block, Vec<usize>),
}

struct Lister<'a> {
    graph: &'a Graph,
    registers: FxHashMap<Value, usize>,
    /// The first free register.
    next: usize,
    /// The values whose last use is in a node: as its operand, or nested in it.
    ends: FxHashMap<Node, Vec<Value>>,
    labels: usize,
    sections: usize,
    /// Labels that stand before the next instruction.
    pending: Vec<usize>,
    steps: Vec<Step>,
    code: Vec<Instruction>,
}

/// An instruction without labels and jump.
fn plain(results: Vec<usize>, name: &str, operands: Vec<(usize, bool)>) -> Instruction {
    Instruction { results, name: name.to_owned(), operands, ..Instruction::default() }
}

fn dropping(registers: Vec<usize>) -> Instruction {
    plain(Vec::new(), DROP, registers.into_iter().map(|register| (register, true)).collect())
}

impl<'a> Lister<'a> {
    fn new(graph: &'a Graph) -> Lister<'a> {
        let mut ends: FxHashMap<Node, Vec<Value>> = FxHashMap::default();
        for block in graph.all_blocks() {
            let made = graph.nodes(block).flat_map(|node| graph.outputs(node));
            // The counter of a loop is incremented after its last use in the body.
            let counted = graph.owner_node(block).is_some_and(|owner| graph.kind(owner) == prim::LOOP);
            for value in graph.params(block).skip(usize::from(counted)).chain(made) {
                if let Some(last) = last_use(graph, value, block) {
                    ends.entry(last).or_default().push(value);
                }
            }
        }
        Lister {
            graph,
            registers: FxHashMap::default(),
            next: 0,
            ends,
            labels: 0,
            sections: 0,
            pending: Vec::new(),
            steps: Vec::new(),
            code: Vec::new(),
        }
    }

    fn run(&mut self) {
        let (graph, root) = (self.graph, self.graph.root());
        let params = self.fill(graph.params(root));
        if !params.is_empty() {
            self.emit(plain(params, "Load", Vec::new()));
        }
        self.drop_unused(graph.params(root));
        self.steps.push(Step::From(graph.first(root), root));
        while let Some(step) = self.steps.pop() {
            match step {
                Step::From(Some(node), block) => {
                    self.steps.push(Step::From(graph.next(node), block));
                    self.node(node);
                }
                Step::From(None, block) if block == root => {
                    let results = self.operands(graph.return_node(root), &[]);
                    self.emit(plain(Vec::new(), "Store", results));
                }
                Step::From(None, _) => {}
                Step::Emit(instruction) => self.emit(instruction),
                Step::Label(label) => self.pending.push(label),
                Step::Results(block, into) if into.is_empty() => {
                    debug_assert_eq!(graph.results(block).len(), 0);
                }
                Step::Results(block, into) => {
                    let moved = self.operands(graph.return_node(block), &[]);
                    self.emit(plain(into, "Move", moved));
                }
            }
        }
    }

    fn emit(&mut self, instruction: Instruction) {
        let labels = std::mem::take(&mut self.pending);
        self.code.push(Instruction { labels, ..instruction });
    }

    /// The registers of values, new ones where they have none.
    fn fill(&mut self, values: impl Iterator<Item = Value>) -> Vec<usize> {
        values.map(|value| self.register(value)).collect()
    }

    fn register(&mut self, value: Value) -> usize {
        let next = self.next;
        let register = *self.registers.entry(value).or_insert(next);
        self.next = self.next.max(register + 1);
        register
    }

    fn fresh_label(&mut self) -> usize {
        self.labels += 1;
        self.labels - 1
    }

    fn node(&mut self, node: Node) {
        match self.graph.kind(node) {
            prim::IF => self.branches(node),
            prim::LOOP => self.rounds(node),
            _ => self.single(node),
        }
    }

    fn single(&mut self, node: Node) {
        let graph = self.graph;
        let dying = self.used_inside(node);
        let operands = self.operands(node, &dying);
        let outputs = self.fill(graph.outputs(node));
        for value in dying {
            let last = graph.node_blocks(node).rev().find_map(|block| last_use(graph, value, block));
            last.into_iter().for_each(|last| self.ends.entry(last).or_default().push(value));
        }
        let mut name = graph.kind(node).short().to_owned();
        if graph.subgraph(node).is_some() {
            name += &format!("_{}", self.sections);
            self.sections += 1;
        }
        self.emit(plain(outputs.clone(), &format!("{name}{}", attributes(graph, node)), operands));
        self.drop_unused(graph.outputs(node));
        // The blocks of other kinds run once, in order.
        let blocks: Vec<Block> = graph.node_blocks(node).collect();
        for block in blocks.into_iter().rev() {
            let params = self.fill(graph.params(block));
            if !params.is_empty() {
                self.emit(plain(params, "block", Vec::new()));
                self.drop_unused(graph.params(block));
            }
            self.steps.push(Step::Results(block, outputs.clone()));
            self.steps.push(Step::From(graph.first(block), block));
        }
    }

    /// The operands of a node, and whether their use is the last; values in `kept` stay live.
    fn operands(&self, node: Node, kept: &[Value]) -> Vec<(usize, bool)> {
        let inputs: Vec<Value> = self.graph.inputs(node).collect();
        let ends = self.ends.get(&node).map_or(&[][..], Vec::as_slice);
        let last = |i: usize, value: Value| {
            ends.contains(&value) && !kept.contains(&value) && !inputs[i + 1..].contains(&value)
        };
        // A graph that the verifier rejects may use a value before its definition.
        let register = |value: &Value| self.registers.get(value).copied().unwrap_or(usize::MAX);
        inputs.iter().enumerate().map(|(i, value)| (register(value), last(i, *value))).collect()
    }

    fn unused(&mut self, values: impl Iterator<Item = Value>) -> Vec<usize> {
        let graph = self.graph;
        self.fill(values.filter(|&value| !graph.has_uses(value)))
    }

    fn drop_unused(&mut self, values: impl Iterator<Item = Value>) {
        let unused = self.unused(values);
        if !unused.is_empty() {
            self.emit(dropping(unused));
        }
    }

    /// The values whose last use is nested in a node.
    fn used_inside(&self, node: Node) -> Vec<Value> {
        let graph = self.graph;
        let ends = self.ends.get(&node).cloned().unwrap_or_default();
        let inside = |value| graph.node_blocks(node).any(|block| last_use(graph, value, block).is_some());
        ends.into_iter().filter(|&value| inside(value)).collect()
    }

    fn branches(&mut self, node: Node) {
        let graph = self.graph;
        let dying = self.used_inside(node);
        let condition = self.operands(node, &dying);
        let outputs = self.fill(graph.outputs(node));
        let (other, end) = (self.fresh_label(), self.fresh_label());
        self.emit(Instruction { jump: Some(other), ..plain(Vec::new(), JUMP_ZERO, condition) });
        let mut steps = Vec::new();
        for (i, block) in graph.node_blocks(node).enumerate() {
            let mut unused = Vec::new();
            for &value in &dying {
                match last_use(graph, value, block) {
                    Some(last) => self.ends.entry(last).or_default().push(value),
                    None => unused.extend(self.registers.get(&value).copied()),
                }
            }
            if i == 1 {
                let jump = Instruction { jump: Some(end), ..plain(Vec::new(), JUMP, Vec::new()) };
                steps.extend([Step::Emit(jump), Step::Label(other)]);
            }
            if !unused.is_empty() {
                steps.push(Step::Emit(dropping(unused)));
            }
            steps.push(Step::From(graph.first(block), block));
            steps.push(Step::Results(block, outputs.clone()));
        }
        steps.push(Step::Label(end));
        let unused = self.unused(graph.outputs(node));
        if !unused.is_empty() {
            steps.push(Step::Emit(dropping(unused)));
        }
        self.steps.extend(steps.into_iter().rev());
    }

    fn rounds(&mut self, node: Node) {
        let graph = self.graph;
        let body = graph.node_block(node, 0);
        let dying = self.used_inside(node);
        let operands = self.operands(node, &dying);
        let params = self.fill(graph.params(body));
        let Some((&counter, carried)) = params.split_first() else { return };
        // The bound and the condition are not values of the graph.
        let (bound, condition) = (self.next, self.next + 1);
        self.next += 2;
        let next: Vec<usize> = [condition].into_iter().chain(carried.iter().copied()).collect();
        let outputs = self.fill(graph.outputs(node));
        let (start, end) = (self.fresh_label(), self.fresh_label());
        self.emit(plain(vec![counter], "Constant[value=0]", Vec::new()));
        self.emit(plain([bound].into_iter().chain(next.iter().copied()).collect(), "Move", operands));
        let test = plain(Vec::new(), JUMP_LESS, vec![(counter, false), (bound, false), (condition, false)]);
        let mut steps = vec![
            Step::Label(start),
            Step::Emit(Instruction { jump: Some(end), ..test }),
            Step::Emit(dropping(self.unused(graph.params(body).skip(1)))),
            Step::From(graph.first(body), body),
            Step::Results(body, next),
            Step::Emit(plain(vec![counter], "Increment", vec![(counter, false)])),
            Step::Emit(Instruction { jump: Some(start), ..plain(Vec::new(), JUMP, Vec::new()) }),
            Step::Label(end),
        ];
        if !outputs.is_empty() {
            steps.push(Step::Emit(plain(outputs, "Move", carried.iter().map(|&register| (register, true)).collect())));
        }
        let dropped = dying.iter().filter_map(|value| self.registers.get(value).copied());
        steps.push(Step::Emit(dropping([counter, bound, condition].into_iter().chain(dropped).collect())));
        steps.push(Step::Emit(dropping(self.unused(graph.outputs(node)))));
        steps.retain(|step| !matches!(step, Step::Emit(Instruction { name, operands, .. }) if name == DROP && operands.is_empty()));
        self.steps.extend(steps.into_iter().rev());
    }
}

/// The last node of `block` that uses `value`, directly or in its blocks; none when there is no use
/// in it.
fn last_use(graph: &Graph, value: Value, block: Block) -> Option<Node> {
    let within = |user: Node| {
        let mut at = Some(user);
        while let Some(node) = at.filter(|&node| graph.block_of(node) != Some(block)) {
            at = graph.enclosing(node);
        }
        at
    };
    let is_return = |node: Node| graph.kind(node) == prim::RETURN;
    graph.users(value).filter_map(within).reduce(|a, b| {
        let later = is_return(a) || !is_return(b) && graph.is_before(b, a);
        if later { a } else { b }
    })
}

fn attributes(graph: &Graph, node: Node) -> String {
    let mut printer = Printer::new(PrintOptions { no_comments: true, ..PrintOptions::default() });
    printer.attribute_list(graph, node);
    String::from_utf8_lossy(&printer.out).into_owned()
}
