//! Types of operands and outputs against schemas, and of values that enter and leave blocks.
//!
//! PyTorch looks an overload up when it runs a node and checks nothing else, and its own passes
//! build graphs that it could not read back. All findings here are therefore warnings, and two
//! types match if a value could be of both. The findings about a node depend on its kind and the
//! types alone and are cached by them: a graph of a million nodes has a few hundred combinations.

use super::arity;
use super::finding::{Complaint, Part, Sink, Spot, counted};
use super::misspelling::Misspellings;
use crate::ir::{Block, Node, Value};
use crate::ops::Operator;
use crate::ops::overloads::{Mismatch, Reason, Resolution};
use crate::ops::rules::{Carries, Structure};
use crate::ops::schema::Schema;
use crate::symbol::{Symbol, prim};
use crate::types::relations::Bindings;
use crate::types::{Simple, TensorType, Type, TypeKind};
use hashbrown::HashTable;
use rustc_hash::{FxHashMap, FxHasher};
use std::hash::{Hash, Hasher};

/// A type, up to differences that no schema distinguishes; a small number, so that the traversal
/// need not load the types themselves.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub(super) struct Sort(u32);

/// The findings about earlier nodes.
pub(super) struct TypeTable {
    rows: HashTable<Row>,
    /// The sorts of the operands and outputs of all rows, concatenated.
    keys: Vec<Sort>,
    sorts: FxHashMap<Type, Sort>,
    /// The representative type of each sort.
    types: Vec<Type>,
    misspellings: Misspellings,
    rank_0: Type,
}

/// The nodes of one kind with the same types.
struct Row {
    operator: &'static Operator,
    start: usize,
    operands: usize,
    outputs: usize,
    complaints: Box<[Complaint]>,
}

impl Default for TypeTable {
    fn default() -> TypeTable {
        let rank_0 = TensorType { sizes: Some([].into()), ..TensorType::default() };
        TypeTable {
            rows: HashTable::new(),
            keys: Vec::new(),
            sorts: FxHashMap::default(),
            // A value without a type may be of any type.
            types: vec![Type::simple(Simple::Any)],
            misspellings: Misspellings::default(),
            rank_0: Type::new(TypeKind::Tensor(rank_0)),
        }
    }
}

impl TypeTable {
    /// The sort of a written type.
    #[inline]
    pub(super) fn sort(&mut self, ty: Option<Type>) -> Sort {
        let Some(ty) = ty else { return Sort::default() };
        match self.sorts.get(&ty) {
            Some(&sort) => sort,
            None => self.new_sort(ty),
        }
    }

    /// Tensor types differ for schemas only in whether they may be a number whose type was erased.
    #[cold]
    fn new_sort(&mut self, ty: Type) -> Sort {
        let same = match ty.as_tensor() {
            Some(tensor) if tensor.rank() == Some(0) => self.rank_0,
            Some(_) => Type::tensor(),
            None => ty,
        };
        let known = self.sorts.get(&same).copied().unwrap_or(Sort(self.types.len() as u32));
        if known.0 as usize == self.types.len() {
            self.types.push(same);
            self.sorts.insert(same, known);
        }
        self.sorts.insert(ty, known);
        known
    }

    /// Checks one node. `key` contains the sorts of its operands and outputs.
    #[inline]
    pub(super) fn check(&mut self, sink: &mut Sink<'_, '_>, node: Node, operator: &'static Operator, key: &[Sort]) {
        let is_open = operator.kind == prim::LOOP && arity::is_before_ssa(sink.graph, node);
        if operator.kind == prim::CONSTANT || is_open {
            return;
        }
        let operands = sink.graph.num_inputs(node);
        let keys = &self.keys;
        let same = |row: &Row| std::ptr::eq(row.operator, operator) && row.operands == operands && row.key(keys) == key;
        match self.rows.find(hash(operator, operands, key), same) {
            Some(row) if row.complaints.is_empty() => {}
            Some(row) => complain(sink, node, &row.complaints),
            None => self.new_row(sink, node, operator, key),
        }
        if sink.graph.num_blocks(node) > 0 {
            blocks(sink, node, operator.rule.structure);
        }
        if operator.kind == prim::FUSION_GROUP {
            devices(sink, node);
        }
    }

    #[cold]
    fn new_row(&mut self, sink: &mut Sink<'_, '_>, node: Node, operator: &'static Operator, key: &[Sort]) {
        let types: Vec<Type> = key.iter().map(|sort| self.types[sort.0 as usize]).collect();
        let (operands, outputs) = types.split_at(sink.graph.num_inputs(node));
        let complaints = self.judge(operator, operands, outputs).into_boxed_slice();
        complain(sink, node, &complaints);
        let (start, operands, outputs) = (self.keys.len(), operands.len(), outputs.len());
        self.keys.extend(key);
        let keys = &self.keys;
        let rehash = |row: &Row| hash(row.operator, row.operands, row.key(keys));
        let row = Row { operator, start, operands, outputs, complaints };
        self.rows.insert_unique(hash(operator, operands, key), row, rehash);
    }

    fn judge(&self, operator: &'static Operator, operands: &[Type], outputs: &[Type]) -> Vec<Complaint> {
        match operator.kind {
            prim::LIST_CONSTRUCT => return list_construct(operands, outputs),
            prim::TUPLE_CONSTRUCT => return tuple_construct(operands, outputs),
            // It declares the type itself.
            prim::UNCHECKED_CAST if outputs.len() == 1 => return Vec::new(),
            // Their arity is that of their section.
            _ if operator.rule.carries != Carries::Nothing => return Vec::new(),
            _ => {}
        }
        match operator.resolve(operands) {
            Resolution::Found(_) if returns_as_declared(operator, operands, outputs) => Vec::new(),
            Resolution::Found(schema) => returns(schema, operands, outputs),
            Resolution::NoSchema => self.misspellings.check(operator),
            Resolution::NoMatch(_) if self.resolves_erased(operator, operands) => Vec::new(),
            Resolution::NoMatch(why) => vec![no_overload(operator, operands, &why)],
        }
    }

    /// Whether an overload takes the operands when numbers are tensors of rank 0, as after
    /// `erase_number_types`.
    fn resolves_erased(&self, operator: &Operator, operands: &[Type]) -> bool {
        let number = |&ty: &Type| if ty == self.rank_0 { Type::simple(Simple::Any) } else { ty };
        let numbers: Vec<Type> = operands.iter().map(number).collect();
        numbers != operands && operator.resolve(&numbers).schema().is_some()
    }
}

impl Row {
    fn key<'k>(&self, keys: &'k [Sort]) -> &'k [Sort] {
        &keys[self.start..self.start + self.operands + self.outputs]
    }
}

fn hash(operator: &Operator, operands: usize, key: &[Sort]) -> u64 {
    let mut hasher = FxHasher::default();
    std::ptr::from_ref(operator).hash(&mut hasher);
    operands.hash(&mut hasher);
    key.iter().for_each(|sort| sort.hash(&mut hasher));
    hasher.finish()
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

fn no_overload(operator: &Operator, operands: &[Type], why: &[Mismatch]) -> Complaint {
    /// The number of types shown at most.
    const SHOWN: usize = 12;
    let mut types: Vec<String> = operands.iter().take(SHOWN).map(Type::to_string).collect();
    types.extend((operands.len() > SHOWN).then(|| "…".to_owned()));
    let reach = |mismatch: &&Mismatch| match mismatch.reason {
        Reason::Count(_) => 0,
        Reason::Operand(i, _) => i + 1,
    };
    // Graphs rarely contain overloads that write to an operand for the result.
    let is_out = |mismatch: &&Mismatch| mismatch.schema.overload.ends_with("out");
    let (outs, mut why): (Vec<&Mismatch>, Vec<&Mismatch>) = why.iter().partition(is_out);
    if why.is_empty() {
        why = outs;
    }
    // The overload that matches the most operands was probably meant; among equals, the first.
    let nearest = why.iter().copied().rev().max_by_key(reach);
    let part = match nearest.map(|mismatch| mismatch.reason) {
        Some(Reason::Operand(i, _)) if why.len() == 1 => Part::Operand(i),
        _ => Part::Node,
    };
    let (kind, types) = (operator.kind, types.join(", "));
    let message = match operator.is_declared {
        true => format!("no declared schema of `{kind}` takes ({types})"),
        false => format!("PyTorch has no overload of `{kind}` for ({types})"),
    };
    let others = (why.len() > 1).then(|| format!("there are {} overloads, this one is the closest", why.len()));
    Complaint { part, message, note: nearest.map(ToString::to_string), help: others }
}

/// Whether an overload takes these operands and returns these outputs: some differ only in their
/// results (`prim::EnumValue`).
fn returns_as_declared(operator: &Operator, operands: &[Type], outputs: &[Type]) -> bool {
    let takes = |schema: &&Schema| {
        let mut bindings = Bindings::default();
        let taken = schema.formals.len();
        let enough = operands.len() == taken || schema.vararg && operands.len() > taken;
        enough && schema.formals.iter().zip(operands).all(|(formal, &ty)| formal.ty.accepts(ty, &mut bindings))
    };
    let overloads = operator.schemas.iter().chain(operator.elsewhere());
    overloads.filter(takes).any(|schema| returns(schema, operands, outputs).is_empty())
}

/// Compares the outputs with the results of the schema.
fn returns(schema: &Schema, operands: &[Type], outputs: &[Type]) -> Vec<Complaint> {
    let (kind, taken) = (schema.kind, schema.returns.len());
    if outputs.len() != taken && !(schema.varret && outputs.len() > taken) {
        let values = counted(taken, "value");
        let message = format!("`{kind}` returns {values}, this one has {}", counted(outputs.len(), "output"));
        return vec![Complaint { part: Part::Node, message, note: Some(format!("`{schema}`")), help: None }];
    }
    let mut bindings = Bindings::default();
    for (formal, &actual) in schema.formals.iter().zip(operands) {
        formal.ty.accepts(actual, &mut bindings);
    }
    let mut complaints = Vec::new();
    for (i, (formal, &actual)) in schema.returns.iter().zip(outputs).enumerate() {
        let expected = formal.ty.substituted(&bindings);
        if !fits(actual, expected) && !is_erased(actual, expected) {
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

/// Whether a value of one type may be of the other: one refines the other, or they differ in facts
/// about tensors.
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

/// Whether a tensor of rank 0 represents a number.
fn is_erased(actual: Type, expected: Type) -> bool {
    let numbers = Simple::Int as usize..=Simple::Bool as usize;
    let is_number = |ty: Type| matches!(ty.kind(), TypeKind::Simple(simple) if numbers.contains(&(*simple as usize)));
    actual.as_tensor().and_then(TensorType::rank) == Some(0) && (is_number(expected) || expected.is(Simple::Scalar))
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

/// Checks the carried values: operand to param, result to param, result to output.
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
    let is_condition = |ty: Type| fits(ty, Type::bool()) || is_erased(ty, Type::bool());
    if let Some(ty) = sink.graph.written_type(value).filter(|&ty| !is_condition(ty)) {
        let message = format!("the condition of the loop is a `{ty}`, expected `bool`");
        sink.warning(Spot::Operand(ret, 0), message);
    }
}

/// Checks a value that becomes another one.
fn flows(sink: &mut Sink<'_, '_>, from: Spot, to: Value, how: &str) {
    let graph = sink.graph;
    let types = from.value(graph).and_then(|value| Some((value, graph.written_type(value)?, graph.written_type(to)?)));
    let Some((value, actual, wanted)) = types else { return };
    if !fits(actual, wanted) {
        let (value, to) = (sink.name(value), sink.name(to));
        sink.warning(from, format!("{value}, a `{actual}`, is {how} {to}, a `{wanted}`"));
    }
}

/// Checks that a kernel reads and writes on one device.
fn devices(sink: &mut Sink<'_, '_>, node: Node) {
    let graph = sink.graph;
    let values = graph.inputs(node).chain(graph.outputs(node));
    let mut devices: Vec<Symbol> = values.filter_map(|value| graph.ty(value).as_tensor()?.device).collect();
    devices.dedup();
    if let [first, second, ..] = devices[..] {
        sink.warning(Spot::Node(node), format!("this group is on `{first}` and on `{second}`"));
    }
}
