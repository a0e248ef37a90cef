//! Types: of operands and outputs against schemas, and of what passes in and out of blocks.
//!
//! PyTorch looks an overload up when it runs a node and checks nothing else, and its own passes build graphs that it could
//! not read back. So all of this is warnings, and two types fit when a value could be of both. What is to be said of a node
//! depends on its kind and the types alone and is kept under them: a graph of a million nodes has a few hundred.

use super::finding::{Sink, Spot};
use super::misspelling::Misspellings;
use crate::ir::{Block, Node, Value};
use crate::ops::Operator;
use crate::ops::overloads::{Mismatch, Reason, Resolution};
use crate::ops::rules::Structure;
use crate::ops::schema::Schema;
use crate::symbol::{Symbol, prim};
use crate::types::relations::Bindings;
use crate::types::{Simple, TensorType, Type, TypeKind};
use hashbrown::HashTable;
use rustc_hash::FxHasher;
use std::hash::{Hash, Hasher};

/// What was said of nodes before.
pub(super) struct TypeTable {
    rows: HashTable<Row>,
    /// The types of all rows, end to end.
    types: Vec<Type>,
    /// The types of the node at hand, operands first.
    key: Vec<Type>,
    misspellings: Misspellings,
    plain: Type,
    rank_0: Type,
    any: Type,
}

/// Nodes of one kind with the same types.
struct Row {
    operator: &'static Operator,
    start: usize,
    operands: usize,
    outputs: usize,
    complaints: Box<[Complaint]>,
}

/// What is wrong with all of them.
pub(super) struct Complaint {
    pub(super) part: Part,
    pub(super) message: String,
    pub(super) note: Option<String>,
    pub(super) help: Option<String>,
}

/// What of a node it is about.
#[derive(Clone, Copy)]
pub(super) enum Part {
    Node,
    Operand(usize),
    Output(usize),
}

impl Default for TypeTable {
    fn default() -> TypeTable {
        let rank_0 = TensorType { sizes: Some([].into()), ..TensorType::default() };
        TypeTable {
            rows: HashTable::new(),
            types: Vec::new(),
            key: Vec::new(),
            misspellings: Misspellings::default(),
            plain: Type::tensor(),
            rank_0: Type::new(TypeKind::Tensor(rank_0)),
            any: Type::simple(Simple::Any),
        }
    }
}

impl TypeTable {
    /// Checks one node.
    #[inline]
    pub(super) fn check(&mut self, sink: &mut Sink<'_, '_>, node: Node, operator: &'static Operator) {
        if operator.kind == prim::CONSTANT {
            return;
        }
        self.set_key(sink, node);
        let (operands, outputs) = (sink.graph.num_inputs(node), sink.graph.num_outputs(node));
        let hash = self.hash(operator, operands);
        let (types, key) = (&self.types, &self.key);
        let same = |row: &Row| {
            let of_row = &types[row.start..row.start + row.operands + row.outputs];
            std::ptr::eq(row.operator, operator) && row.operands == operands && row.outputs == outputs && of_row == key
        };
        match self.rows.find(hash, same) {
            Some(row) if row.complaints.is_empty() => {}
            Some(row) => complain(sink, node, &row.complaints),
            None => self.new_row(sink, node, operator, hash),
        }
        if sink.graph.num_blocks(node) > 0 {
            blocks(sink, node, operator.rule.structure);
        }
        if operator.kind == prim::FUSION_GROUP {
            devices(sink, node);
        }
    }

    /// Tensors differ in nothing that a schema asks for, but in whether they may be a number whose type was erased. A value
    /// without a type may be anything.
    fn set_key(&mut self, sink: &Sink<'_, '_>, node: Node) {
        let (plain, rank_0, any) = (self.plain, self.rank_0, self.any);
        let key = |value: Value| match sink.graph.written_type(value) {
            Some(ty) if ty == plain => plain,
            Some(ty) => match ty.as_tensor() {
                Some(tensor) if tensor.rank() == Some(0) => rank_0,
                Some(_) => plain,
                None => ty,
            },
            None => any,
        };
        self.key.clear();
        self.key.extend(sink.graph.inputs(node).map(key));
        self.key.extend(sink.graph.outputs(node).map(key));
    }

    fn hash(&self, operator: &Operator, operands: usize) -> u64 {
        let mut hasher = FxHasher::default();
        std::ptr::from_ref(operator).hash(&mut hasher);
        operands.hash(&mut hasher);
        for ty in &self.key {
            ty.hash(&mut hasher);
        }
        hasher.finish()
    }

    #[cold]
    fn new_row(&mut self, sink: &mut Sink<'_, '_>, node: Node, operator: &'static Operator, hash: u64) {
        let (operands, outputs) = self.key.split_at(sink.graph.num_inputs(node));
        let complaints = self.judge(operator, operands, outputs).into_boxed_slice();
        complain(sink, node, &complaints);
        let (start, operands, outputs) = (self.types.len(), operands.len(), outputs.len());
        self.types.extend(&self.key);
        // Rows keep no hash: it is made again from the types when the table grows.
        let types = &self.types;
        let rehash = |row: &Row| {
            let mut hasher = FxHasher::default();
            std::ptr::from_ref(row.operator).hash(&mut hasher);
            row.operands.hash(&mut hasher);
            types[row.start..row.start + row.operands + row.outputs].iter().for_each(|ty| ty.hash(&mut hasher));
            hasher.finish()
        };
        self.rows.insert_unique(hash, Row { operator, start, operands, outputs, complaints }, rehash);
    }

    fn judge(&self, operator: &'static Operator, operands: &[Type], outputs: &[Type]) -> Vec<Complaint> {
        match operator.kind {
            prim::LIST_CONSTRUCT => return list_construct(operands, outputs),
            prim::TUPLE_CONSTRUCT => return tuple_construct(operands, outputs),
            _ => {}
        }
        match operator.resolve(operands) {
            Resolution::Found(schema) => returns(operator.kind, schema, operands, outputs),
            Resolution::NoSchema => self.misspellings.check(operator),
            Resolution::NoMatch(_) if self.resolves_erased(operator, operands) => Vec::new(),
            Resolution::NoMatch(why) => vec![no_overload(operator.kind, operands, &why)],
        }
    }

    /// Numbers are tensors of rank 0 after `erase_number_types`.
    fn resolves_erased(&self, operator: &Operator, operands: &[Type]) -> bool {
        let number = |&ty: &Type| if ty == self.rank_0 { self.any } else { ty };
        let numbers: Vec<Type> = operands.iter().map(number).collect();
        numbers != operands && operator.resolve(&numbers).schema().is_some()
    }
}

fn complain(sink: &mut Sink<'_, '_>, node: Node, complaints: &[Complaint]) {
    for complaint in complaints {
        let spot = match complaint.part {
            Part::Node => Spot::Node(node),
            Part::Operand(i) => Spot::Operand(node, i),
            Part::Output(i) => Spot::Output(node, i),
        };
        let finding = sink.warning(spot, &*complaint.message);
        (finding.note, finding.help) = (complaint.note.clone(), complaint.help.clone());
    }
}

// ---- schemas

fn no_overload(kind: Symbol, operands: &[Type], why: &[Mismatch]) -> Complaint {
    /// Types shown at most.
    const SHOWN: usize = 12;
    let mut types: Vec<String> = operands.iter().take(SHOWN).map(Type::to_string).collect();
    types.extend((operands.len() > SHOWN).then(|| "…".to_owned()));
    let reach = |mismatch: &&Mismatch| match mismatch.reason {
        Reason::Count(_) => 0,
        Reason::Operand(i, _) => i + 1,
    };
    // The overload that got furthest was probably meant; of those that got as far, the first.
    let nearest = why.iter().rev().max_by_key(reach);
    let part = match nearest.map(|mismatch| mismatch.reason) {
        Some(Reason::Operand(i, _)) if why.len() == 1 => Part::Operand(i),
        _ => Part::Node,
    };
    let message = format!("PyTorch has no overload of `{kind}` for ({})", types.join(", "));
    let others = (why.len() > 1).then(|| format!("there are {} overloads, this one came nearest", why.len()));
    Complaint { part, message, note: nearest.map(Mismatch::to_string), help: others }
}

/// The outputs against what the schema returns.
fn returns(kind: Symbol, schema: &Schema, operands: &[Type], outputs: &[Type]) -> Vec<Complaint> {
    let taken = schema.returns.len();
    if outputs.len() != taken && !(schema.varret && outputs.len() > taken) {
        let message = format!("`{kind}` returns {taken} values, this one has {}", outputs.len());
        return vec![Complaint { part: Part::Node, message, note: Some(format!("`{schema}`")), help: None }];
    }
    let mut bindings = Bindings::default();
    for (formal, &actual) in schema.formals.iter().zip(operands) {
        formal.ty.accepts(actual, &mut bindings);
    }
    let mut complaints = Vec::new();
    for (i, (formal, &actual)) in schema.returns.iter().zip(outputs).enumerate() {
        let expected = substituted(formal.ty, &bindings);
        if !fits(actual, expected) {
            let message = format!("`{kind}` returns `{expected}`, not `{actual}`");
            complaints.push(Complaint {
                part: Part::Output(i),
                message,
                note: Some(format!("`{schema}`")),
                help: None,
            });
        }
    }
    complaints
}

/// The type with its variables replaced by what they stand for; one that stands for nothing may be anything.
fn substituted(ty: Type, bindings: &Bindings) -> Type {
    use TypeKind::{Dict, Future, List, Optional, Tuple, Var};
    match ty.kind() {
        Var(name) => bindings.get(name).copied().unwrap_or(Type::simple(Simple::Any)),
        List(t) => Type::list(substituted(*t, bindings)),
        Optional(t) => Type::optional(substituted(*t, bindings)),
        Future(t) => Type::new(Future(substituted(*t, bindings))),
        Dict(k, v) => Type::new(Dict(substituted(*k, bindings), substituted(*v, bindings))),
        Tuple(parts) => Type::new(Tuple(parts.iter().map(|t| substituted(*t, bindings)).collect())),
        _ => ty,
    }
}

fn list_construct(operands: &[Type], outputs: &[Type]) -> Vec<Complaint> {
    let [output] = outputs else { return Vec::new() };
    let TypeKind::List(element) = output.kind() else { return Vec::new() };
    let wrong = operands.iter().enumerate().filter(|(_, operand)| !fits(**operand, *element));
    wrong.map(|(i, operand)| element_of(i, *output, *operand)).collect()
}

fn tuple_construct(operands: &[Type], outputs: &[Type]) -> Vec<Complaint> {
    let [output] = outputs else { return Vec::new() };
    let elements = output.tuple_elements().unwrap_or_default();
    let wrong =
        operands.iter().zip(&elements).enumerate().filter(|(_, (operand, element))| !fits(**operand, **element));
    wrong.map(|(i, (operand, _))| element_of(i, *output, *operand)).collect()
}

fn element_of(i: usize, whole: Type, part: Type) -> Complaint {
    let message = format!("element {i} of this `{whole}` is a `{part}`");
    Complaint { part: Part::Operand(i), message, note: None, help: None }
}

// ---- fitting

/// Whether a value of one type may be one of the other: one of them says more, or they differ in facts about tensors.
fn fits(a: Type, b: Type) -> bool {
    a == b || a.is_tensor() && b.is_tensor() || fits_erased(a.erased(), b.erased())
}

fn fits_erased(a: Type, b: Type) -> bool {
    use TypeKind::{Dict, Future, List, Optional, RRef};
    if a.is_subtype_of(b) || b.is_subtype_of(a) || is_number(a) && is_number(b) {
        return true;
    }
    match (a.kind(), b.kind()) {
        (Optional(a), _) => fits_erased(*a, b),
        (_, Optional(b)) => fits_erased(a, *b),
        (List(a), List(b)) | (Future(a), Future(b)) | (RRef(a), RRef(b)) => fits_erased(*a, *b),
        (Dict(ka, va), Dict(kb, vb)) => fits_erased(*ka, *kb) && fits_erased(*va, *vb),
        _ => match (a.tuple_elements(), b.tuple_elements()) {
            (Some(a), Some(b)) => a.len() == b.len() && a.iter().zip(&b).all(|(a, b)| fits_erased(*a, *b)),
            _ => false,
        },
    }
}

/// PyTorch's own passes take ints for bools, and a `Scalar` for any of them.
fn is_number(ty: Type) -> bool {
    matches!(ty.kind(), TypeKind::Simple(Simple::Int | Simple::Bool | Simple::Number | Simple::Scalar))
}

// ---- blocks

fn blocks(sink: &mut Sink<'_, '_>, node: Node, structure: Structure) {
    match structure {
        Structure::If | Structure::GradOf => {
            let blocks: Vec<Block> = sink.graph.node_blocks(node).collect();
            blocks.into_iter().for_each(|block| branch(sink, node, block));
        }
        Structure::Loop if sink.graph.num_blocks(node) == 1 => body(sink, node),
        _ => {}
    }
}

fn branch(sink: &mut Sink<'_, '_>, node: Node, block: Block) {
    let ret = sink.graph.return_node(block);
    let outputs: Vec<Value> = sink.graph.outputs(node).collect();
    for (i, output) in outputs.into_iter().enumerate().take(sink.graph.num_inputs(ret)) {
        flows(sink, Spot::Operand(ret, i), output, "returned as");
    }
}

/// What is carried: operand to param, result to param, result to output.
fn body(sink: &mut Sink<'_, '_>, node: Node) {
    let graph = sink.graph;
    let block = graph.node_block(node, 0);
    let ret = graph.return_node(block);
    let params: Vec<Value> = graph.params(block).skip(1).collect();
    for (i, &param) in params.iter().enumerate() {
        if i + 2 < graph.num_inputs(node) {
            flows(sink, Spot::Operand(node, i + 2), param, "carried into");
        }
        if i + 1 < graph.num_inputs(ret) {
            flows(sink, Spot::Operand(ret, i + 1), param, "carried into");
            if i < graph.num_outputs(node) {
                flows(sink, Spot::Operand(ret, i + 1), graph.output(node, i), "returned as");
            }
        }
    }
    condition(sink, ret);
}

fn condition(sink: &mut Sink<'_, '_>, ret: Node) {
    let Some(value) = sink.graph.inputs(ret).next() else { return };
    let is_condition =
        |ty: Type| ty.is_tensor() && ty.as_tensor().and_then(TensorType::rank) == Some(0) || fits(ty, Type::bool());
    if let Some(ty) = sink.graph.written_type(value).filter(|&ty| !is_condition(ty)) {
        let message = format!("whether the loop goes on is a `{ty}`, expected `bool`");
        sink.warning(Spot::Operand(ret, 0), message);
    }
}

/// A value that becomes another one.
fn flows(sink: &mut Sink<'_, '_>, from: Spot, to: Value, how: &str) {
    let graph = sink.graph;
    let types = from.value(graph).and_then(|value| Some((value, graph.written_type(value)?, graph.written_type(to)?)));
    let Some((value, actual, wanted)) = types else { return };
    if !fits(actual, wanted) {
        let (value, to) = (sink.name(value), sink.name(to));
        sink.warning(from, format!("{value}, a `{actual}`, is {how} {to}, a `{wanted}`"));
    }
}

/// What a kernel reads and writes is on one device.
fn devices(sink: &mut Sink<'_, '_>, node: Node) {
    let graph = sink.graph;
    let values = graph.inputs(node).chain(graph.outputs(node));
    let mut devices: Vec<Symbol> = values.filter_map(|value| graph.ty(value).as_tensor()?.device).collect();
    devices.dedup();
    if let [first, second, ..] = devices[..] {
        sink.warning(Spot::Node(node), format!("this group is on `{first}` and on `{second}`"));
    }
}
