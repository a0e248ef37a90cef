//! A graph as TorchScript source, the form of PyTorch's `.code`: `--emit=python`.
//!
//! ```text
//! graph(%x : Tensor, %b : bool):              def forward(x: Tensor,
//!   %2 : int = prim::Constant[value=2]()          b: bool) -> Tensor:
//!   %y : Tensor = prim::If(%b)                  if b:
//!     block0():                                   y = torch.add(torch.neg(x), x, alpha=2)
//!       %3 : Tensor = aten::neg(%x)             else:
//!       %4 : Tensor = aten::add(%3, %x, %2)       y = x
//!       -> (%4)                                 return y
//!     block1():
//!       -> (%x)
//!   return (%y)
//! ```
//!
//! The rules are those of PyTorch 2.15 for graphs of all versions, found by comparison with its
//! output for some thousand graphs (`tools/pytorch/record_code.py`):
//!
//! - A value with a single use, in the next line, is inlined in that line
//!   (`python_form/inlining.rs`), until the line has 40 characters: then the values that were
//!   inlined before the long part get lines of their own, from left to right, so that effects stay
//!   in order.
//! - Constants are inlined at their uses, long ones at the top; tensors, objects and strings beyond
//!   ASCII are `CONSTANTS.c0`, ….
//! - Operands after the last that differs from its default are omitted; those after a `*` of the
//!   schema have their names.
//! - Loop state is assigned to the outputs of the loop: before it, and at the end of each
//!   iteration.
//!
//! A method is a graph whose first param is an object called `self`. The text of IR lacks the name
//! of the function, which is then `forward`, the defaults of params, and the names of named tuples
//! that are classes. It also lacks the modules of functions and interfaces: a function with a name
//! of PyTorch's library is taken to be that one (`python_form/module_names.rs`), all others to be
//! members of `__torch__`. Graphs without a Python form are an error: sections other than those of
//! `fork`, and operators whose operands PyTorch does not print.

mod annotations;
mod calls;
mod identifiers;
mod inlining;
mod literals;
mod module_names;

use crate::entity::EntitySet;
use crate::ir::{Attribute, Block, Graph, Label, Node, Value};
use crate::symbol::{Symbol, attr, prim};
use crate::types::{Type, TypeKind};
use crate::verify::{Report, Spot, carried};
use annotations::{annotation, has_named_tuple};
use identifiers::{Identifiers, base};
use literals::Table;
use rustc_hash::FxHashMap;
use std::rc::Rc;

/// The code of a graph.
#[derive(Debug)]
pub struct Code {
    /// The source. It is meaningless when the report has errors.
    pub text: String,
    /// Errors, and warnings about facts that are not in the text of the graph.
    pub report: Report,
}

/// The code of a graph, as `ScriptFunction.code` of PyTorch 2.15 shows it; that of
/// `ScriptModule.code` when it is a method.
pub fn code(graph: &Graph) -> Code {
    let mut report = Report::default();
    let sections = open_sections(graph, &mut report);
    let mut writer = Writer { report, sections, ..Writer::default() };
    Body::new(graph, 0).function(&mut writer);
    Code { text: writer.out, report: writer.report }
}

/// Numbers all sections as the text does; returns the sections by the number and the node of their
/// owner.
fn open_sections(graph: &Graph, report: &mut Report) -> FxHashMap<(usize, Node), usize> {
    let (mut numbers, mut pending) = (FxHashMap::default(), vec![(graph, None)]);
    while let Some((graph, carrier)) = pending.pop() {
        let section = report.open_section(carrier);
        let carrier = carrier.filter(|carrier| !carrier.is_backward);
        numbers.extend(carrier.map(|carrier| ((carrier.outer, carrier.node), section)));
        pending.extend(carried(graph, section, graph.all_nodes()).into_iter().rev());
    }
    numbers
}

/// Lines from this length on are split; indentation counts.
const LONG: usize = 40;

/// State shared by the bodies of a function: its text, names and constants.
#[derive(Default)]
struct Writer {
    out: String,
    /// Indentation level, of two blanks each.
    level: usize,
    names: Identifiers,
    constants: Table,
    report: Report,
    sections: FxHashMap<(usize, Node), usize>,
    /// Whether missing names of named tuples were reported already.
    nameless: bool,
}

impl Writer {
    fn line(&mut self, text: &str) {
        (0..self.level).for_each(|_| self.out.push_str("  "));
        self.out.push_str(text);
        self.out.push('\n');
    }

    fn is_long(&self, text: &str) -> bool {
        text.len() + 2 * self.level >= LONG
    }
}

/// Pending work.
enum Step {
    /// A node, and those after it in its block.
    From(Option<Node>),
    /// One line.
    Line(&'static str),
    /// Assigns values to others.
    Assign(Vec<Value>, Vec<Value>),
    /// Increases or decreases the indentation.
    In,
    Out,
}

/// A graph that is being written: the function itself, or a section of it.
struct Body<'g> {
    graph: &'g Graph,
    section: usize,
    inlined: EntitySet<Node>,
    /// The names of assigned values. A name takes precedence over an expression.
    names: FxHashMap<Value, Rc<str>>,
    expressions: FxHashMap<Value, Rc<str>>,
    /// Values whose type was annotated at their first assignment.
    annotated: EntitySet<Value>,
    /// The index of the last operand of a node up to which inlined values were moved to lines of
    /// their own; -1 when that is none.
    split: FxHashMap<Node, i64>,
    steps: Vec<Step>,
    /// The node being written, for messages.
    at: Node,
}

impl<'g> Body<'g> {
    fn new(graph: &'g Graph, section: usize) -> Body<'g> {
        Body {
            graph,
            section,
            inlined: inlining::inlined(graph),
            names: FxHashMap::default(),
            expressions: FxHashMap::default(),
            annotated: EntitySet::new(),
            split: FxHashMap::default(),
            steps: Vec::new(),
            at: graph.param_node(graph.root()),
        }
    }

    // ---- messages

    fn refuse(&self, w: &mut Writer, message: impl Into<String>) {
        w.report.sink(self.graph, self.section).error(Spot::Node(self.at), message);
    }

    /// The annotation of a type, with a warning about names that the graph does not have.
    fn annotation(&self, w: &mut Writer, ty: Type) -> String {
        if has_named_tuple(ty) && !std::mem::replace(&mut w.nameless, true) {
            let message =
                "the text of a graph does not contain names of named tuples; the code calls them all `NamedTuple`";
            w.report.sink(self.graph, self.section).warning(Spot::Node(self.at), message);
        }
        annotation(ty)
    }

    // ---- values

    /// The expression for a use of a value.
    fn text(&self, w: &mut Writer, value: Value) -> Rc<str> {
        match self.names.get(&value).or_else(|| self.expressions.get(&value)) {
            Some(text) => Rc::clone(text),
            None => {
                self.refuse(
                    w,
                    format!(
                        "`%{}` is not defined before this, so the code has no expression for it",
                        self.graph.name(value)
                    ),
                );
                Rc::from("_")
            }
        }
    }

    fn texts(&self, w: &mut Writer, values: impl Iterator<Item = Value>) -> String {
        values.map(|value| self.text(w, value).to_string()).collect::<Vec<_>>().join(", ")
    }

    fn operands(&self, w: &mut Writer, node: Node) -> String {
        self.texts(w, self.graph.inputs(node))
    }

    fn give_names(&mut self, w: &mut Writer, values: &[Value]) {
        for &value in values {
            self.names.insert(value, w.names.fresh_for(self.graph, value).into());
        }
    }

    // ---- functions

    fn function(&mut self, w: &mut Writer) {
        let graph = self.graph;
        let params: Vec<Value> = graph.params(graph.root()).collect();
        w.out.push_str("def forward(");
        for (i, &param) in params.iter().enumerate() {
            let name = w.names.fresh(&param_name(graph, param, i));
            if i > 0 {
                w.out.push_str(",\n    ");
            }
            w.out.push_str(&name);
            if i > 0 || !is_self(graph, param) {
                let ty = self.annotation(w, graph.ty(param));
                w.out.push_str(&format!(": {ty}"));
            }
            self.names.insert(param, name.into());
        }
        self.at = graph.return_node(graph.root());
        match graph.results(graph.root()).next() {
            Some(result) => {
                let ty = self.annotation(w, graph.ty(result));
                w.out.push_str(&format!(") -> {ty}:\n"));
            }
            None => self.refuse(w, "the code of a function must return a value, at least `None`"),
        }
        self.body(w);
    }

    fn body(&mut self, w: &mut Writer) {
        let graph = self.graph;
        let root = graph.root();
        w.level += 1;
        for constant in inlining::constants(graph) {
            self.at = constant;
            self.plain(w, constant);
        }
        self.block(root, graph.results(root).len() > 0);
        self.run(w);
        self.at = graph.return_node(root);
        if graph.results(root).len() > 0 {
            let results = self.texts(w, graph.results(root));
            w.line(&format!("return {results}"));
        }
        w.level -= 1;
    }

    /// Schedules a block. A following statement on the same level keeps it from being empty.
    fn block(&mut self, block: Block, is_followed: bool) {
        self.steps.push(match self.graph.first(block) {
            None if !is_followed => Step::Line("pass"),
            first => Step::From(first),
        });
    }

    fn run(&mut self, w: &mut Writer) {
        while let Some(step) = self.steps.pop() {
            match step {
                Step::From(None) => {}
                Step::From(Some(node)) => {
                    self.steps.push(Step::From(self.graph.next(node)));
                    self.at = node;
                    self.node(w, node);
                }
                Step::Line(text) => w.line(text),
                Step::Assign(to, from) => self.assign(w, &to, &from),
                Step::In => w.level += 1,
                Step::Out => w.level = w.level.saturating_sub(1),
            }
        }
    }

    // ---- statements

    fn node(&mut self, w: &mut Writer, node: Node) {
        match self.graph.kind(node) {
            prim::CONSTANT => {}
            prim::IF => self.branches(w, node),
            prim::LOOP => self.rounds(w, node),
            prim::TUPLE_UNPACK | prim::LIST_UNPACK => self.unpacking(w, node),
            prim::SET_ATTR => self.attribute_assignment(w, node),
            prim::ENTER => self.enter(w, node),
            prim::EXIT => {
                if self.graph.prev(node).is_some_and(|before| self.graph.kind(before) == prim::ENTER) {
                    w.line("pass");
                }
                w.level = w.level.saturating_sub(1);
            }
            prim::CLOSURE => self.closure(w, node),
            kind => match kind.as_str() {
                "prim::fork" => self.deferred(w, node, "fork", "__forked_function"),
                "prim::awaitable" => self.deferred(w, node, "awaitable", "__awaitable_function"),
                "prim::ModuleContainerIndex" => self.container_index(w, node),
                _ => self.plain(w, node),
            },
        }
    }

    /// A node that is an expression: a line of its own, or a part of another.
    fn plain(&mut self, w: &mut Writer, node: Node) {
        let text = self.expression(w, node);
        let is_constant = self.graph.kind(node) == prim::CONSTANT;
        let Some(output) = self.graph.single_output(node).filter(|_| self.inlined.contains(node)) else {
            return self.define(w, node, &text);
        };
        if is_constant && w.is_long(&text) {
            return self.define(w, node, &text);
        }
        let is_long = w.is_long(&text);
        self.expressions.insert(output, text.into());
        if is_long {
            self.split_before(w, output);
        }
    }

    /// Moves values that were inlined into the same line to lines of their own, up to the given
    /// value.
    fn split_before(&mut self, w: &mut Writer, value: Value) {
        let graph = self.graph;
        let Some(mut at) = graph.single_use(value) else { return };
        let (mut to_split, mut last) = (Vec::new(), graph.operand_index(at) as i64);
        loop {
            let user = graph.user(at);
            let done = self.split.insert(user, last);
            for i in (done.map_or(0, |done| done + 1)..=last).rev() {
                let operand = graph.input(user, i as usize);
                let inlined = |node: Node| graph.kind(node) != prim::CONSTANT && self.inlined.contains(node);
                to_split.extend(graph.definer(operand).filter(|&node| inlined(node)));
            }
            let outer = graph.single_output(user).filter(|_| done.is_none() && self.inlined.contains(user));
            let Some(next) = outer.and_then(|output| graph.single_use(output)) else { break };
            // The expression of the user is incomplete: it cannot get a line.
            (at, last) = (next, graph.operand_index(next) as i64 - 1);
        }
        for node in to_split.into_iter().rev() {
            let text = self.text(w, graph.output(node, 0));
            self.define(w, node, &text);
        }
    }

    fn define(&mut self, w: &mut Writer, node: Node, text: &str) {
        let outputs: Vec<Value> = self.graph.outputs(node).collect();
        self.give_names(w, &outputs);
        let names = self.texts(w, outputs.iter().copied());
        w.line(&if outputs.is_empty() { text.to_owned() } else { format!("{names} = {text}") });
    }

    fn assign(&mut self, w: &mut Writer, to: &[Value], from: &[Value]) {
        if to.is_empty() {
            return;
        }
        let (names, values) = (self.texts(w, to.iter().copied()), self.texts(w, from.iter().copied()));
        let ty = match *to {
            // A tuple of names cannot be annotated.
            [one]
                if !self.expressions.contains_key(&one)
                    && is_open(self.graph.ty(one))
                    && self.annotated.insert(one) =>
            {
                format!(" : {}", self.annotation(w, self.graph.ty(one)))
            }
            _ => String::new(),
        };
        w.line(&format!("{names}{ty} = {values}"));
    }

    fn branches(&mut self, w: &mut Writer, node: Node) {
        let graph = self.graph;
        let outputs: Vec<Value> = graph.outputs(node).collect();
        self.give_names(w, &outputs);
        let condition = self.operands(w, node);
        w.line(&format!("if {condition}:"));
        for (i, block) in graph.node_blocks(node).enumerate().rev() {
            self.steps.push(Step::Out);
            self.steps.push(Step::Assign(outputs.clone(), graph.results(block).collect()));
            self.block(block, !outputs.is_empty());
            self.steps.push(Step::In);
            if i > 0 {
                self.steps.push(Step::Line("else:"));
            }
        }
    }

    fn rounds(&mut self, w: &mut Writer, node: Node) {
        let graph = self.graph;
        let (body, outputs): (_, Vec<Value>) = (graph.node_blocks(node).next(), graph.outputs(node).collect());
        self.give_names(w, &outputs);
        let (Some(counts), Some(body)) = (self.counts(node), body) else {
            return self.refuse(w, "a loop with both a trip count and a condition is neither `for` nor `while`");
        };
        let params: Vec<Value> = graph.params(body).collect();
        for (&param, &output) in params[1..].iter().zip(&outputs) {
            let name = self.text(w, output);
            self.expressions.insert(param, name);
        }
        for (&output, initial) in outputs.iter().zip(graph.inputs(node).skip(2)) {
            let ty = graph.ty(output);
            let says = if is_open(ty) { self.annotated.insert(output) } else { ty != graph.ty(initial) };
            let (name, value) = (self.text(w, output), self.text(w, initial));
            let ty = if says { format!(": {}", self.annotation(w, ty)) } else { String::new() };
            w.line(&format!("{name}{ty} = {value}"));
        }
        self.give_names(w, &params[..1]);
        let counter = self.text(w, params[0]);
        if counts {
            let trips = self.operand(w, node, 0);
            w.line(&format!("for {counter} in range({trips}):"));
        } else {
            // The name of the counter, which is not read, is that of the condition.
            self.assign(w, &params[..1], &graph.inputs(node).skip(1).take(1).collect::<Vec<_>>());
            w.line(&format!("while {counter}:"));
        }
        let state = usize::from(counts);
        self.steps.push(Step::Out);
        self.steps.push(Step::Assign(params[state..].to_vec(), graph.results(body).skip(state).collect()));
        self.block(body, params.len() > state);
        self.steps.push(Step::In);
    }

    /// Whether a loop is a `for` (true) or a `while` (false); none when it is both.
    fn counts(&self, node: Node) -> Option<bool> {
        let graph = self.graph;
        let body = graph.node_blocks(node).next()?;
        graph.params(body).next()?;
        let is_true = |value: Option<Value>| value.and_then(|value| graph.constant_int(value)).is_some_and(|n| n != 0);
        let goes_on = is_true(graph.inputs(node).nth(1)) && is_true(graph.results(body).next());
        let is_read = graph.params(body).next().is_some_and(|counter| graph.has_uses(counter));
        let is_bounded =
            graph.inputs(node).next().and_then(|value| graph.constant_int(value)) != Some(i64::MAX) || is_read;
        if goes_on || !is_bounded { Some(goes_on && is_bounded) } else { None }
    }

    fn unpacking(&mut self, w: &mut Writer, node: Node) {
        let outputs: Vec<Value> = self.graph.outputs(node).collect();
        self.give_names(w, &outputs);
        let whole = self.operands(w, node);
        let names = self.texts(w, outputs.iter().copied());
        // The comma makes it an unpacking even with one name.
        w.line(&if outputs.is_empty() { whole } else { format!("{names}, = {whole}") });
    }

    fn attribute_assignment(&mut self, w: &mut Writer, node: Node) {
        let (object, value) = (self.operand(w, node, 0), self.operand(w, node, 1));
        let name = self.string(node, attr::NAME);
        w.line(&format!("{object}.{name} = {value}"));
    }

    fn container_index(&mut self, w: &mut Writer, node: Node) {
        let outputs: Vec<Value> = self.graph.outputs(node).collect();
        self.give_names(w, &outputs);
        let (container, key) = (self.operand(w, node, 0), self.operand(w, node, 1));
        let name = self.texts(w, outputs.iter().copied());
        let ty = outputs.first().map_or(String::new(), |&output| self.annotation(w, self.graph.ty(output)));
        w.line(&format!("{name} : {ty} = {container}[{key}]"));
    }

    fn enter(&mut self, w: &mut Writer, node: Node) {
        let context = self.operands(w, node);
        let output = self.graph.single_output(node).filter(|&output| self.graph.has_uses(output));
        self.give_names(w, output.as_slice());
        let name = output.map_or(String::new(), |output| format!(" as {}", self.text(w, output)));
        w.line(&format!("with {context}{name}:"));
        w.level += 1;
    }

    // ---- sections

    /// A section that runs later is a function without params, which reads enclosing variables.
    fn deferred(&mut self, w: &mut Writer, node: Node, word: &str, wanted: &str) {
        let Some(subgraph) = self.graph.subgraph(node) else { return self.plain(w, node) };
        let name = w.names.fresh(wanted);
        w.line(&format!("def {name}():"));
        let mut body = Body::new(subgraph, w.sections.get(&(self.section, node)).copied().unwrap_or(0));
        for (param, value) in subgraph.params(subgraph.root()).zip(self.graph.inputs(node)) {
            body.expressions.insert(param, self.text(w, value));
        }
        body.body(w);
        self.define(w, node, &format!("{word}({name})"));
    }

    fn closure(&mut self, w: &mut Writer, node: Node) {
        let Some(subgraph) = self.graph.subgraph(node) else { return self.plain(w, node) };
        let outputs: Vec<Value> = self.graph.outputs(node).collect();
        self.give_names(w, &outputs);
        let name = self.texts(w, outputs.iter().copied());
        let mut body = Body::new(subgraph, w.sections.get(&(self.section, node)).copied().unwrap_or(0));
        let params: Vec<Value> = subgraph.params(subgraph.root()).collect();
        body.give_names(w, &params);
        let param = |&param: &Value| format!("{}: {}", body.names[&param], annotation(subgraph.ty(param)));
        let list = params.iter().map(param).collect::<Vec<_>>().join(", ");
        w.line(&format!("def {name}({list}):"));
        body.body(w);
    }

    /// A string attribute; empty when there is none.
    fn string(&self, node: Node, name: Symbol) -> String {
        match self.graph.attribute(node, name) {
            Some(Attribute::Str(text)) => String::from_utf8_lossy(text).into_owned(),
            _ => String::new(),
        }
    }
}

/// Whether values of several types may be assigned to a variable of this type, so that it is always
/// annotated.
fn is_open(ty: Type) -> bool {
    matches!(ty.kind(), TypeKind::Optional(_) | TypeKind::Union(_))
}

fn param_name(graph: &Graph, param: Value, i: usize) -> String {
    match graph.label(param) {
        Label::Number(_) => format!("argument_{i}"),
        Label::Text(name) => String::from_utf8_lossy(base(name)).into_owned(),
    }
}

/// Whether the first param makes the graph a method.
fn is_self(graph: &Graph, param: Value) -> bool {
    let is_object = matches!(graph.ty(param).kind(), TypeKind::Class(_) | TypeKind::Interface(_));
    is_object && param_name(graph, param, 0) == "self"
}
