//! A graph as a drawing for Graphviz: `--emit=dot`.
//!
//! ```text
//! graph(%x : Tensor):                        digraph {
//!   %y : Tensor = aten::relu(%x)     =>        p0 [label="%x : Tensor" shape=ellipse]
//!   return (%y)                                n1 [label="aten::relu"]
//!                                              p0 -> n1 [label="%x"]  …
//! ```
//!
//! Nodes are boxes, edges are values; blocks and sections are frames in the box of their owner.
//! Constants are part of the label of their user, because as nodes they would dominate the drawing.

use crate::ir::{Attribute, Block, Graph, Node, Value};
use crate::symbol::prim;
use crate::text::{PrintOptions, Printer};
use std::fmt::Write;

/// The drawing.
pub fn dot(graph: &Graph) -> String {
    let mut out = "digraph {\n  node [shape=box fontname=monospace]\n".to_owned();
    let mut drawn = 0;
    let mut waiting = vec![(String::new(), graph)];
    while let Some((title, graph)) = waiting.pop() {
        let mut drawing = Drawing { graph, prefix: format!("g{drawn}"), out: String::new() };
        drawing.blocks();
        drawing.edges();
        match title.is_empty() {
            true => out += &drawing.out,
            false => {
                let _ =
                    write!(out, "  subgraph cluster_g{drawn} {{\n  label={}\n{}  }}\n", quoted(&title), drawing.out);
            }
        }
        drawn += 1;
        let sections = graph.all_nodes().filter_map(|node| Some((node, graph.subgraph(node)?))).enumerate();
        let mut found: Vec<_> =
            sections.map(|(i, (node, section))| (format!("{}_{i}", graph.kind(node)), section)).collect();
        found.reverse();
        waiting.extend(found);
    }
    out + "}\n"
}

struct Drawing<'a> {
    graph: &'a Graph,
    /// The prefix of DOT names: sections have nodes of the same numbers.
    prefix: String,
    out: String,
}

/// Pending work.
enum Step {
    From(Option<Node>),
    Open(Block, usize),
    Close(Block),
}

impl Drawing<'_> {
    /// The boxes, in the frames of their blocks.
    fn blocks(&mut self) {
        let root = self.graph.root();
        self.ends(root, "input", true);
        let mut steps = vec![Step::From(self.graph.first(root))];
        while let Some(step) = steps.pop() {
            match step {
                Step::From(None) => {}
                Step::From(Some(node)) => {
                    steps.push(Step::From(self.graph.next(node)));
                    self.node(node);
                    let blocks = self.graph.node_blocks(node).enumerate().map(|(i, block)| Step::Open(block, i));
                    steps.extend(blocks.rev());
                }
                Step::Open(block, i) => {
                    let name = format!("{}_{}", self.prefix, id(self.graph.param_node(block)));
                    let _ = write!(self.out, "  subgraph cluster_{name} {{\n  label=\"block{i}\"\n");
                    self.ends(block, "param", false);
                    steps.push(Step::Close(block));
                    steps.push(Step::From(self.graph.first(block)));
                }
                Step::Close(block) => {
                    let node = self.graph.return_node(block);
                    let (name, label) = (self.dot_of(node), self.with_constants(node, "->"));
                    let _ = write!(self.out, "  {name} [label={label} shape=plaintext]\n  }}\n");
                }
            }
        }
        let node = self.graph.return_node(root);
        let (name, label) = (self.dot_of(node), self.with_constants(node, "return"));
        let _ = writeln!(self.out, "  {name} [label={label} shape=ellipse]");
    }

    /// The params of a block.
    fn ends(&mut self, block: Block, what: &str, typed: bool) {
        for param in self.graph.params(block).collect::<Vec<_>>() {
            let ty = if typed { format!(" : {}", self.graph.ty(param)) } else { String::new() };
            let label = quoted(&format!("%{}{ty}", self.graph.name(param)));
            let name = self.dot_of_value(param);
            let _ = writeln!(self.out, "  {name} [label={label} shape=ellipse tooltip=\"{what}\"]");
        }
    }

    fn node(&mut self, node: Node) {
        if self.graph.kind(node) == prim::CONSTANT {
            return;
        }
        let mut printer = Printer::new(PrintOptions { no_comments: true, ..PrintOptions::default() });
        printer.attribute_list(self.graph, node);
        let attributes = String::from_utf8_lossy(&printer.out).into_owned();
        let label = self.with_constants(node, &format!("{}{attributes}", self.graph.kind(node)));
        let name = self.dot_of(node);
        let _ = writeln!(self.out, "  {name} [label={label}]");
    }

    /// A label, with the constant operands below it.
    fn with_constants(&self, node: Node, label: &str) -> String {
        let constants = self.graph.inputs(node).enumerate().filter_map(|(i, value)| Some((i, self.constant(value)?)));
        quoted(&constants.fold(label.to_owned(), |label, (i, text)| format!("{label}\n{i}: {text}")))
    }

    /// A constant as text for a label, truncated.
    fn constant(&self, value: Value) -> Option<String> {
        let node = self.graph.definer(value).filter(|&node| self.graph.kind(node) == prim::CONSTANT)?;
        let Some((_, literal)) = self.graph.attributes(node).first() else { return Some("None".to_owned()) };
        let text = match literal {
            Attribute::Opaque(_) | Attribute::Graph(_) => "<constant>".to_owned(),
            _ => {
                let mut printer = Printer::new(PrintOptions { no_comments: true, ..PrintOptions::default() });
                printer.attribute_list(self.graph, node);
                String::from_utf8_lossy(&printer.out).trim_matches(['[', ']']).trim_start_matches("value=").to_owned()
            }
        };
        Some(text.chars().take(32).collect())
    }

    fn edges(&mut self) {
        let returns: Vec<Node> = self.graph.all_blocks().map(|block| self.graph.return_node(block)).collect();
        let nodes: Vec<Node> = self.graph.all_nodes().chain(returns).collect();
        for node in nodes {
            let to = self.dot_of(node);
            for value in self.graph.inputs(node).collect::<Vec<_>>() {
                if self.constant(value).is_none() {
                    let (from, label) = (self.dot_of_value(value), quoted(&format!("%{}", self.graph.name(value))));
                    let _ = writeln!(self.out, "  {from} -> {to} [label={label}]");
                }
            }
        }
    }

    fn dot_of(&self, node: Node) -> String {
        format!("{}_{}", self.prefix, id(node))
    }

    fn dot_of_value(&self, value: Value) -> String {
        match self.graph.definer(value).filter(|_| !self.graph.is_param(value)) {
            Some(definer) => self.dot_of(definer),
            None => format!("{}_{value:?}", self.prefix),
        }
    }
}

fn id(node: Node) -> String {
    format!("{node:?}")
}

/// A string of the DOT language.
fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n"))
}
