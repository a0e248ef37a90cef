//! The printer: graphs in the spelling of the PyTorch of their era.

use super::literal;
use super::number::print_int;
use crate::entity::SecondaryMap;
use crate::ir::{Attribute, Block, Graph, Label, Node, Value};
use crate::symbol::{Symbol, attr};
use crate::types::era::Era;
use crate::types::spelling::{self, Spelling};
use crate::types::{Dim, Type, TypeKind};
use rustc_hash::{FxHashMap, FxHashSet};
use std::fmt;
use std::ops::Range;

/// The suffix of the name of a section that is the backward graph of its node.
pub(super) const BACKWARD: &str = ".backward";

/// Options of the printer.
#[derive(Clone, Copy, Debug, Default)]
pub struct PrintOptions {
    /// The text that PyTorch's own reader and printer produce: no comments, node outputs numbered
    /// densely.
    pub canonical: bool,
    /// `PYTORCH_JIT_TYPE_VERBOSITY`; `None` prints every property that a type has.
    pub type_verbosity: Option<u8>,
    /// Omit source locations and scopes.
    pub no_comments: bool,
}

/// The text of a graph and its sections.
pub fn print(graph: &Graph, options: PrintOptions) -> Vec<u8> {
    let mut printer = Printer::new(options);
    printer.graph(graph);
    printer.out
}

/// The start of a note after the line of a node. Notes are comments, which the parser drops.
pub(super) const NOTE: &str = "#! ";

/// As [`print()`], with notes after the lines of nodes. The key is the number of a graph and a
/// node.
pub fn print_with_notes(graph: &Graph, options: PrintOptions, notes: FxHashMap<(u64, Node), String>) -> Vec<u8> {
    let mut printer = Printer { notes, ..Printer::new(options) };
    printer.graph(graph);
    printer.out
}

/// A part of the line of a node. Params belong to the hidden `prim::Param` of their block, results
/// to its hidden `prim::Return`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Part {
    /// The operator; `graph`, `block0`, `->` and `return` of hidden nodes.
    Kind,
    /// An output or param with its type.
    Output(usize),
    /// An operand or result.
    Operand(usize),
}

/// The position of a printed part of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mark {
    /// The index of the graph in the text: 0 is the outermost, sections follow in the order of the
    /// text.
    pub section: usize,
    /// The node.
    pub node: Node,
    /// The part of the node.
    pub part: Part,
    /// The bytes of the text.
    pub span: Range<usize>,
}

/// The text of a graph, and the positions of the parts of the wanted nodes. A node is identified
/// together with the number of its section. The text is meant for annotation: no line is indented
/// deeper than [`DEEPEST_MARKED`] blanks.
pub(crate) fn print_with_marks(graph: &Graph, wanted: FxHashSet<(usize, Node)>) -> (Vec<u8>, Vec<Mark>) {
    let mut printer = Printer::new(PrintOptions::default());
    printer.marks = Some(Box::new(Marks { wanted, section: 0, node: None, found: Vec::new() }));
    printer.graph(graph);
    (printer.out, printer.marks.map_or(Vec::new(), |marks| marks.found))
}

/// The maximal indentation of a text with marks.
pub(crate) const DEEPEST_MARKED: usize = 80;

/// The state of [`print_with_marks`].
struct Marks {
    wanted: FxHashSet<(usize, Node)>,
    section: usize,
    /// The current node, if it is wanted.
    node: Option<Node>,
    found: Vec<Mark>,
}

/// The whole text, for messages.
impl fmt::Display for Graph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&String::from_utf8_lossy(&print(self, PrintOptions::default())))
    }
}

/// A printer with one output buffer; each type is spelt once.
pub struct Printer {
    /// The text so far.
    pub out: Vec<u8>,
    options: PrintOptions,
    spelling: Spelling,
    types: FxHashMap<Type, (u32, u32)>,
    spelt: Vec<u8>,
    /// The next symbol for a size that has none, at verbosity 4.
    next_symbol: i64,
    /// The dense number of a value plus one, for `canonical`.
    numbers: Option<SecondaryMap<Value, u32>>,
    defined: u32,
    /// The number of nodes with sections so far in the current graph.
    numbered: usize,
    marks: Option<Box<Marks>>,
    notes: FxHashMap<(u64, Node), String>,
}

/// The unprinted rest of one block.
struct Open {
    next: Option<Node>,
    block: Block,
    indent: usize,
    /// The owner of the blocks that follow, if the last printed node has any.
    owner: Option<Node>,
    done: usize,
}

impl Printer {
    /// A printer with an empty buffer.
    pub fn new(options: PrintOptions) -> Printer {
        Printer {
            out: Vec::new(),
            options,
            spelling: Spelling::default(),
            types: FxHashMap::default(),
            spelt: Vec::new(),
            next_symbol: -2,
            numbers: None,
            defined: 0,
            numbered: 0,
            marks: None,
            notes: FxHashMap::default(),
        }
    }

    /// Prints a graph and, after its `return`, its sections.
    pub(crate) fn graph(&mut self, graph: &Graph) {
        self.out.reserve(graph.num_values() * 40);
        let mut pending: Vec<(&Graph, Option<Vec<u8>>)> = vec![(graph, None)];
        while let Some((graph, header)) = pending.pop() {
            if let Some(header) = header {
                self.out.extend(header);
            }
            let mut sections = Vec::new();
            self.one_graph(graph, &mut sections);
            // Sections of a section follow it directly: a pre-order listing.
            pending.extend(sections.into_iter().rev());
        }
    }

    /// Takes over the spelling of a graph. PyTorch up to 1.4 prints only element type and sizes of
    /// a tensor.
    fn adopt(&mut self, graph: &Graph) {
        let shown = (graph.era == Era::V1_3).then_some(1);
        let spelling = Spelling { verbosity: self.options.type_verbosity.or(shown), ..graph.dialect.spelling };
        if spelling != self.spelling {
            self.types.clear();
            self.spelling = spelling;
        }
    }

    fn one_graph<'g>(&mut self, graph: &'g Graph, sections: &mut Vec<(&'g Graph, Option<Vec<u8>>)>) {
        self.adopt(graph);
        if self.options.type_verbosity == Some(4) {
            self.next_symbol = self.next_symbol.min(least_symbol(graph) - 1);
        }
        self.numbers = self.options.canonical.then(SecondaryMap::new);
        (self.defined, self.numbered) = (0, 0);
        self.mark_node(graph.param_node(graph.root()));
        self.kind(b"graph");
        self.out.push(b'(');
        let separator: &[u8] = if graph.layout.no_commas { b"\n      " } else { b",\n      " };
        for (i, param) in graph.params(graph.root()).enumerate() {
            if i > 0 {
                self.out.extend(separator);
            }
            self.definition(graph, param, i);
        }
        self.out.extend(if graph.layout.braces { &b") {\n"[..] } else { b"):\n" });
        self.body(graph, sections);
        self.mark_node(graph.return_node(graph.root()));
        self.out.extend(b"  ");
        self.kind(b"return");
        self.out.extend(b" (");
        self.references(graph, graph.results(graph.root()));
        self.out.extend(if graph.layout.semicolon { &b");\n"[..] } else { b")\n" });
        if graph.layout.braces {
            self.out.extend(b"}\n");
        }
        if let Some(marks) = &mut self.marks {
            marks.section += 1;
        }
    }

    /// Begins the marks of `node`.
    fn mark_node(&mut self, node: Node) {
        if let Some(marks) = &mut self.marks {
            marks.node = Some(node).filter(|&node| marks.wanted.contains(&(marks.section, node)));
        }
    }

    /// Marks the text since `start`.
    #[inline]
    fn mark(&mut self, part: Part, start: usize) {
        if let Some(marks) = &mut self.marks
            && let Some(node) = marks.node
        {
            marks.found.push(Mark { section: marks.section, node, part, span: start..self.out.len() });
        }
    }

    fn kind(&mut self, text: &[u8]) {
        let start = self.out.len();
        self.out.extend(text);
        self.mark(Part::Kind, start);
    }

    /// Prints the nodes of all blocks, with a list of open blocks instead of recursion.
    fn body<'g>(&mut self, graph: &'g Graph, sections: &mut Vec<(&'g Graph, Option<Vec<u8>>)>) {
        let open = |block: Block, indent: usize| Open { next: graph.first(block), block, indent, owner: None, done: 0 };
        let mut stack = vec![open(graph.root(), 2)];
        while let Some(top) = stack.last_mut() {
            if let Some(owner) = top.owner {
                if top.done < graph.num_blocks(owner) {
                    let (block, indent) = (graph.node_block(owner, top.done), top.indent);
                    self.block_header(graph, block, top.done, indent + 2);
                    top.done += 1;
                    stack.push(open(block, indent + 4));
                    continue;
                }
                top.owner = None;
            }
            if let Some(node) = top.next {
                top.next = graph.next(node);
                (top.owner, top.done) = (Some(node), 0);
                let indent = top.indent;
                self.node(graph, node, indent, sections);
                continue;
            }
            let (block, indent) = (top.block, top.indent);
            stack.pop();
            if !stack.is_empty() {
                self.block_end(graph, block, indent);
            }
        }
    }

    fn indent(&mut self, n: usize) {
        const BLANKS: &[u8; 64] = &[b' '; 64];
        let mut left = if self.marks.is_some() { n.min(DEEPEST_MARKED) } else { n };
        while left > 0 {
            let step = left.min(64);
            self.out.extend(&BLANKS[..step]);
            left -= step;
        }
    }

    fn block_header(&mut self, graph: &Graph, block: Block, ordinal: usize, indent: usize) {
        self.indent(indent);
        self.mark_node(graph.param_node(block));
        let start = self.out.len();
        self.out.extend(b"block");
        print_int(&mut self.out, ordinal as i64);
        self.mark(Part::Kind, start);
        self.out.push(b'(');
        for (i, param) in graph.params(block).enumerate() {
            if i > 0 {
                self.out.extend(b", ");
            }
            self.definition(graph, param, i);
        }
        self.out.extend(if graph.layout.braces { &b") {\n"[..] } else { b"):\n" });
    }

    fn block_end(&mut self, graph: &Graph, block: Block, indent: usize) {
        self.indent(indent);
        self.mark_node(graph.return_node(block));
        self.kind(b"->");
        self.out.extend(b" (");
        self.references(graph, graph.results(block));
        self.out.extend(b")\n");
        if graph.layout.braces {
            self.indent(indent - 2);
            self.out.extend(b"}\n");
        }
    }

    fn node<'g>(
        &mut self,
        graph: &'g Graph,
        node: Node,
        indent: usize,
        sections: &mut Vec<(&'g Graph, Option<Vec<u8>>)>,
    ) {
        self.indent(indent);
        self.mark_node(node);
        for (i, output) in graph.outputs(node).enumerate() {
            if i > 0 {
                self.out.extend(b", ");
            }
            self.definition(graph, output, i);
        }
        // Also printed without outputs: the line then starts with one blank more than its siblings.
        self.out.extend(b" = ");
        self.head(graph, node, sections);
        self.out.push(b'(');
        self.references(graph, graph.inputs(node));
        self.out.push(b')');
        self.comments(graph, node);
        if !self.notes.is_empty() {
            self.note(graph, node);
        }
        self.out.push(b'\n');
    }

    /// Prints one node as a line of its own, without line end: for messages.
    pub fn node_line(&mut self, graph: &Graph, node: Node) {
        self.adopt(graph);
        self.node(graph, node, 0, &mut Vec::new());
        self.out.pop();
    }

    /// Prints the attributes of a node in brackets, or nothing if there are none.
    pub(crate) fn attribute_list(&mut self, graph: &Graph, node: Node) {
        self.adopt(graph);
        let attributes = graph.attributes(node);
        if !attributes.is_empty() {
            self.attributes(attributes, graph.subgraph(node).is_some());
        }
    }

    fn head<'g>(&mut self, graph: &'g Graph, node: Node, sections: &mut Vec<(&'g Graph, Option<Vec<u8>>)>) {
        let kind = graph.kind(node).as_str();
        self.kind(kind.as_bytes());
        let attributes = graph.attributes(node);
        if attributes.is_empty() {
            if graph.has_attribute_list(node) {
                self.out.extend(b"[]");
            }
            return;
        }
        let subgraph = if kind.starts_with('^') { None } else { graph.subgraph(node) };
        if let Some(subgraph) = subgraph {
            let name = format!("{kind}_{}", self.numbered);
            self.numbered += 1;
            self.out.extend(&name.as_bytes()[kind.len()..]);
            sections.push((subgraph, Some(format!("with {name} = ").into_bytes())));
            // PyTorch keeps the backward graph, and does not print it.
            if let Some(backward) = graph.backward(node) {
                sections.push((backward, Some(format!("with {name}{BACKWARD} = ").into_bytes())));
            }
        }
        self.attributes(attributes, subgraph.is_some());
    }

    fn attributes(&mut self, attributes: &[(Symbol, Attribute)], is_section: bool) {
        let hidden = |name: Symbol| {
            matches!(name, attr::PYTHON_ARGS | attr::EMPTY_BRACKETS)
                || is_section && matches!(name, attr::SUBGRAPH | attr::REVERSE_SUBGRAPH)
        };
        let shown = |name: Symbol| !hidden(name);
        let mut any = false;
        for (name, value) in attributes.iter().filter(|(name, _)| shown(*name)) {
            self.out.extend(if any { &b", "[..] } else { b"[" });
            any = true;
            self.out.extend(name.as_str().as_bytes());
            self.out.push(b'=');
            literal::print(&mut self.out, value, &self.spelling);
        }
        let python = attributes.iter().find(|(name, _)| *name == attr::PYTHON_ARGS);
        if any {
            self.out.push(b']');
        } else if attributes.iter().any(|(name, _)| *name == attr::EMPTY_BRACKETS) {
            self.out.extend(b"[]");
        }
        if let Some((_, Attribute::Opaque(text))) = python {
            self.out.push(b'(');
            self.out.extend(text.as_bytes());
            self.out.push(b')');
        }
    }

    fn comments(&mut self, graph: &Graph, node: Node) {
        if self.options.canonical || self.options.no_comments {
            return;
        }
        if let Some(scope) = graph.scope(node) {
            self.out.extend(b", scope: ");
            self.out.extend(scope);
        }
        if let Some(location) = graph.location(node) {
            self.out.extend(b" # ");
            self.out.extend(location);
        }
    }

    fn note(&mut self, graph: &Graph, node: Node) {
        if let Some(note) = self.notes.get(&(graph.id().number(), node)) {
            self.out.extend(format!(" {NOTE}{note}").as_bytes());
        }
    }

    /// `%x : T`, output `i` of its node.
    fn definition(&mut self, graph: &Graph, value: Value, i: usize) {
        let start = self.out.len();
        self.value_and_type(graph, value);
        self.mark(Part::Output(i), start);
    }

    fn value_and_type(&mut self, graph: &Graph, value: Value) {
        if let Some(numbers) = &mut self.numbers {
            // Every value consumes a number; graph and block params with a name print the name all
            // the same.
            self.defined += 1;
            if !(graph.is_param(value) && graph.is_named(value)) {
                numbers.set(value, self.defined);
            }
        }
        self.reference(graph, value);
        if self.options.type_verbosity == Some(0) {
            return;
        }
        if let Some(ty) = graph.written_type(value) {
            self.out.extend(b" : ");
            self.ty(ty);
        }
    }

    fn references(&mut self, graph: &Graph, values: impl Iterator<Item = Value>) {
        for (i, value) in values.enumerate() {
            if i > 0 {
                self.out.extend(b", ");
            }
            let start = self.out.len();
            self.reference(graph, value);
            self.mark(Part::Operand(i), start);
        }
    }

    #[inline]
    fn reference(&mut self, graph: &Graph, value: Value) {
        self.out.push(b'%');
        if let Some(numbers) = &self.numbers {
            let number = numbers[value];
            if number > 0 {
                return print_int(&mut self.out, i64::from(number) - 1);
            }
        }
        match graph.label(value) {
            Label::Number(n) => print_int(&mut self.out, i64::from(n)),
            Label::Text(text) => self.out.extend(text),
        }
    }

    fn ty(&mut self, ty: Type) {
        if self.options.type_verbosity == Some(4) && has_unknown_size(ty) {
            let ty = self.with_symbols(ty);
            return spelling::print(&mut self.out, ty, &self.spelling);
        }
        let (start, end) = match self.types.get(&ty) {
            Some(&range) => range,
            None => {
                let start = self.spelt.len() as u32;
                spelling::print(&mut self.spelt, ty, &self.spelling);
                let range = (start, self.spelt.len() as u32);
                self.types.insert(ty, range);
                range
            }
        };
        self.out.extend(&self.spelt[start as usize..end as usize]);
    }

    /// Replaces unknown sizes by symbols. PyTorch gives every unknown size a symbol of its own when
    /// it reads a type; the numbers start at -2.
    fn with_symbols(&mut self, ty: Type) -> Type {
        let next = &mut self.next_symbol;
        ty.map_tensors(&mut |tensor| {
            let mut tensor = tensor.clone();
            for dim in tensor.sizes.iter_mut().flat_map(|sizes| sizes.iter_mut()).filter(|d| **d == Dim::Unknown) {
                *dim = Dim::Symbolic(*next);
                *next -= 1;
            }
            Type::new(TypeKind::Tensor(tensor))
        })
    }
}

fn has_unknown_size(ty: Type) -> bool {
    let mut found = false;
    ty.map_tensors(&mut |tensor| {
        found |= tensor.sizes.as_ref().is_some_and(|sizes| sizes.contains(&Dim::Unknown));
        Type::tensor()
    });
    found
}

/// The least symbol among the sizes of a graph, at most -1: new symbols are smaller.
fn least_symbol(graph: &Graph) -> i64 {
    let mut least = -1;
    let nodes = graph.all_nodes().chain(graph.all_blocks().map(|block| graph.param_node(block)));
    for ty in nodes.flat_map(|node| graph.outputs(node)).map(|value| graph.ty(value)) {
        ty.map_tensors(&mut |tensor| {
            for dim in tensor.sizes.iter().flat_map(|sizes| sizes.iter()) {
                if let Dim::Symbolic(id) = dim {
                    least = least.min(*id);
                }
            }
            Type::tensor()
        });
    }
    least
}
