//! Replaces writes to parts of tensors by new tensors.
//!
//! ```text
//! %y : Tensor = aten::zeros_like(%x, …)               %y : Tensor = aten::zeros_like(%x, …)
//! %part : Tensor = aten::select(%y, %0, %i)           %part : Tensor = aten::select(%y, %0, %i)
//! %w : Tensor = aten::copy_(%part, %v, %no)     =>    %whole : Tensor = aten::expand_as(%v, %part)
//! %r : Tensor = aten::relu(%y)                        %y.1 : Tensor = aten::select_scatter(%y, %whole, %0, %i)
//!                                                     %r : Tensor = aten::relu(%y.1)
//! ```
//!
//! Memory that a node of a block creates, and whose names are all known, has versions: each write
//! makes the next one. An in-place operator becomes its out-of-place form, as in `remove-mutation`;
//! where it writes to a view, the result is scattered back into the value that it is a view of, and
//! so on up to the base. Readers of the memory, or of a view of it, after the write read the new
//! version, or a view of that taken at that point. PyTorch 2 does the same as functionalization for
//! its own IR, but has no pass for this one.
//!
//! The names of memory are the views that are known here: `select`, `slice`, `narrow`, `diagonal`,
//! permuted dimensions, and new shapes. Where anything else may alias it (a block, a list that is
//! kept while the memory is written to, an operator that may return its operand) it is left
//! unchanged, with a remark; so is the memory of params, which belongs to the caller. Contiguous
//! memory may get other strides. A new version is a copy of the whole base: that serves gradients,
//! which need the earlier contents, and not speed.
//!
//! PyTorch has the scatter operators from 1.11 on: nothing is done in older graphs. Linear in
//! nodes, and for each write in the depth of its chain of views.

use crate::remove_mutation::{Form, is_new, keeps_elements, out_of_place};
use jitopt_core::analysis::AliasDb;
use jitopt_core::ir::{Attribute, Block, Graph, Node, Value};
use jitopt_core::ops;
use jitopt_core::ops::rules::{AliasRule, Resizes};
use jitopt_core::ops::schema::Schema;
use jitopt_core::pass::{PassContext, PassError, PassInfo};
use jitopt_core::symbol::{Symbol, attr, prim};
use jitopt_core::tensor::DType;
use jitopt_core::types::{Strides, TensorType, Type, TypeKind};
use jitopt_core::{graph_dump, graph_update};
use rustc_hash::{FxHashMap, FxHashSet};

/// The registry entry.
pub const PASS: PassInfo = PassInfo {
    name: "functionalize",
    aliases: &[],
    summary: "replace writes to parts of tensors by new tensors",
    example: "%p : Tensor = aten::select(%y, %0, %i), %w : Tensor = aten::add_(%p, %v, %1)  =>  %w : Tensor = aten::add(%p, %v, %1), %y.1 : Tensor = aten::select_scatter(%y, %w, %0, %i)",
    options: &[],
    required: false,
    reads_shapes: true,
    run,
    file: file!(),
};

fn run(graph: &mut Graph, cx: &mut PassContext<'_>) -> Result<(), PassError> {
    graph_dump!("Before functionalizing", graph);
    let writes: Vec<Node> = graph.all_nodes().filter(|&node| Write::of(graph, node).is_some()).collect();
    if writes.is_empty() || !has_scatters(graph) {
        return Ok(());
    }
    let db = cx.alias(graph);
    let mut known = FxHashSet::default();
    let based = |write: Node| (write, base_of(graph, graph.input(write, 0)));
    let bases: Vec<(Node, Value)> = writes.into_iter().map(based).filter(|based| known.insert(based.1)).collect();
    for (write, base) in bases {
        match Versions::of(graph, &db, base) {
            Ok(versions) => {
                cx.rewrite(graph, "writes-functionalized", write, |graph| {
                    graph_update!("Making versions of %{}", graph.name(base));
                    versions.carry_out(graph);
                });
            }
            Err(why) => cx.missed(graph, "writes-functionalized", write, || why),
        }
    }
    graph_dump!("After functionalizing", graph);
    Ok(())
}

fn has_scatters(graph: &Graph) -> bool {
    !ops::operator(graph.era, Symbol::new("aten::select_scatter")).schemas.is_empty()
}

// ---- views

/// The operation that puts the new value of a view back into its base.
enum Back {
    /// An operator on the base, the new part, and the other operands of the view.
    Scatter(&'static str),
    /// The operator of the view itself, with its operands.
    Itself,
    /// As `Itself`, with the two operands exchanged.
    Exchanged,
    /// `slice_scatter`, with the end of the part computed.
    Narrowed,
    /// The inverse permutation of dimensions.
    Permuted,
    /// The part reshaped to the base: both have the same elements in the same order.
    Shape,
}

const VIEWS: &[(&str, Back)] = &[
    ("aten::select", Back::Scatter("aten::select_scatter")),
    ("aten::slice", Back::Scatter("aten::slice_scatter")),
    ("aten::diagonal", Back::Scatter("aten::diagonal_scatter")),
    ("aten::t", Back::Itself),
    ("aten::transpose", Back::Itself),
    ("aten::numpy_T", Back::Itself),
    ("aten::mT", Back::Itself),
    ("aten::swapaxes", Back::Itself),
    ("aten::swapdims", Back::Itself),
    ("aten::movedim", Back::Exchanged),
    ("aten::moveaxis", Back::Exchanged),
    ("aten::narrow", Back::Narrowed),
    ("aten::permute", Back::Permuted),
    ("aten::squeeze", Back::Shape),
    ("aten::unsqueeze", Back::Shape),
    ("aten::view", Back::Shape),
    ("aten::view_as", Back::Shape),
];

fn back(graph: &Graph, node: Node) -> Option<&'static Back> {
    let is_plain = graph.num_outputs(node) == 1 && graph.ty(graph.output(node, 0)).is_tensor();
    let on_tensor = graph.num_inputs(node) > 0 && graph.ty(graph.input(node, 0)).is_tensor();
    // `view` with another element type is a different operator: its second operand is an integer.
    let is_cast = graph.kind(node).as_str() == "aten::view"
        && !matches!(graph.ty(graph.input(node, 1)).kind(), TypeKind::List(_));
    let row = VIEWS.iter().find(|row| row.0 == graph.kind(node).as_str());
    let is_known = |row: &&(&str, Back)| match row.1 {
        Back::Permuted => inverse(graph, node).is_some(),
        // The other overload has a tensor for the start.
        Back::Narrowed => !graph.ty(graph.input(node, 2)).is_tensor(),
        _ => true,
    };
    row.filter(|_| is_plain && on_tensor && !is_cast).filter(is_known).map(|row| &row.1)
}

/// The permutation that undoes `permute`, where that is constant.
fn inverse(graph: &Graph, permute: Node) -> Option<Vec<i64>> {
    let order = graph.constant_ints(graph.input(permute, 1))?;
    let rank = order.len() as i64;
    let from: Vec<i64> = order.iter().map(|&dim| if dim < 0 { dim + rank } else { dim }).collect();
    (0..rank).map(|dim| from.iter().position(|&other| other == dim).map(|at| at as i64)).collect()
}

/// The operator that accepts any strides, by a copy if necessary: versions may have other strides.
fn any_strides(kind: Symbol) -> Symbol {
    match kind.as_str() {
        "aten::view" => Symbol::new("aten::reshape"),
        "aten::view_as" => Symbol::new("aten::reshape_as"),
        _ => kind,
    }
}

/// A type without the strides, which may be others in a copy.
fn without_strides(ty: Type) -> Type {
    match ty.as_tensor() {
        Some(tensor) => Type::new(TypeKind::Tensor(TensorType { strides: Strides::Unknown, ..tensor.clone() })),
        None => ty,
    }
}

/// Inserts an operator before another.
fn insert(graph: &mut Graph, before: Node, kind: Symbol, operands: &[Value], ty: Type) -> Value {
    let node = graph.create_op(kind, operands, ty);
    graph.insert_before(before, node);
    graph.copy_location(before, node);
    graph.output(node, 0)
}

/// Inserts a constant before a node.
fn constant(graph: &mut Graph, before: Node, literal: Attribute, ty: Type) -> Value {
    let value = insert(graph, before, prim::CONSTANT, &[], ty);
    let node = graph.definer(value).expect("a new constant has a node");
    graph.set_attribute(node, attr::VALUE, literal);
    value
}

// ---- writes

/// An operator that writes to its first operand, and its out-of-place form.
enum Write {
    Copy,
    Operator(Form),
}

impl Write {
    fn of(graph: &Graph, node: Node) -> Option<Write> {
        match graph.kind(node).as_str() {
            "aten::copy_" if graph.num_outputs(node) == 1 => Some(Write::Copy),
            kind if kind.ends_with('_') => out_of_place(graph, node).map(Write::Operator),
            _ => None,
        }
    }
}

/// The base of a value's memory, as far as views and writes tell.
fn base_of(graph: &Graph, mut value: Value) -> Value {
    while let Some(node) = graph.definer(value) {
        if back(graph, node).is_none() && Write::of(graph, node).is_none() {
            break;
        }
        value = graph.input(node, 0);
    }
    value
}

/// Whether an in-place operator leaves the layout of its operand unchanged: `t_` changes how one
/// name views the memory, and other names do not see that.
fn keeps_shape(graph: &Graph, node: Node, out_of_place: Symbol) -> Result<(), String> {
    let types: Vec<Type> = graph.inputs(node).map(|value| graph.ty(value)).collect();
    let schema = ops::resolve(graph.era, out_of_place, &types).schema();
    let is_view = schema.is_some_and(|schema| schema.returns.iter().any(|returned| returned.is_annotated()));
    match is_view || ops::operator(graph.era, graph.kind(node)).rule.resizes == Resizes::Yes {
        true => {
            Err(format!("`{}` writes to no element: it changes the shape or strides of one tensor", graph.kind(node)))
        }
        false => Ok(()),
    }
}

/// Whether the out-of-place result is cast to the element type of the written tensor: between
/// floating point types no in-place cast is rejected.
fn is_cast_back(graph: &Graph, node: Node) -> bool {
    let dtype = |value: Value| graph.ty(value).as_tensor().and_then(|ty| ty.dtype);
    let own = dtype(graph.input(node, 0));
    let mut others = graph.inputs(node).filter(|&value| graph.ty(value).is_tensor()).map(dtype);
    let is_real = |dtype: Option<DType>| dtype.is_some_and(DType::is_float);
    let differs = graph.inputs(node).any(|value| graph.ty(value).is_tensor() && dtype(value) != own);
    differs && is_real(own) && others.all(is_real)
}

// ---- names

/// The kind of a name of the memory.
#[derive(Clone, Copy)]
enum Name {
    /// The base itself.
    Base,
    /// The output of this node, a view of another name.
    View(Node, Value),
    /// The result of an operator that has written to another name.
    Written(Value),
}

/// The names of memory, and the nodes that read, alias or write it, in the order in which they run.
struct Versions {
    base: Value,
    names: FxHashMap<Value, Name>,
    nodes: Vec<Node>,
}

impl Versions {
    /// All names of a value's memory, or why they are not known.
    fn of(graph: &Graph, db: &AliasDb, base: Value) -> Result<Versions, String> {
        let block = graph.definer(base).and_then(|node| graph.block_of(node)).filter(|_| is_new(graph, base));
        let Some(block) = block else {
            return Err(format!(
                "`%{}` is not memory that a node creates: it may have other aliases",
                graph.name(base)
            ));
        };
        let mut found = Search { graph, db, base, block, nodes: FxHashSet::default(), held: Vec::new() };
        let mut names = FxHashMap::from_iter([(base, Name::Base)]);
        let mut open = vec![base];
        while let Some(name) = open.pop() {
            for used in graph.uses(name) {
                if let Some((made, how)) = found.used(name, graph.user(used), graph.operand_index(used))? {
                    names.insert(made, how);
                    open.push(made);
                }
            }
        }
        let nodes = found.in_order()?;
        Ok(Versions { base, names, nodes })
    }
}

/// The search for names.
struct Search<'g> {
    graph: &'g Graph,
    db: &'g AliasDb,
    base: Value,
    block: Block,
    nodes: FxHashSet<Node>,
    /// Lists and tuples that hold a name, and their readers.
    held: Vec<(Node, Node)>,
}

impl Search<'_> {
    /// The effect of a use on a name: the new name that it creates, if any.
    fn used(&mut self, name: Value, node: Node, operand: usize) -> Result<Option<(Value, Name)>, String> {
        let graph = self.graph;
        if node == graph.return_node(self.block) {
            self.nodes.insert(node);
            return Ok(None);
        }
        if graph.block_of(node) != Some(self.block) {
            return Err(format!("`%{}` is read in a nested block", graph.name(name)));
        }
        self.nodes.insert(node);
        if operand == 0 && back(graph, node).is_some() {
            return Ok(Some((graph.output(node, 0), Name::View(node, name))));
        }
        if let Some(write) = Write::of(graph, node) {
            // Of the other operands it only reads elements.
            if operand > 0 {
                return Ok(None);
            }
            if let Write::Operator(form) = write {
                if !is_cast_back(graph, node) {
                    keeps_elements(graph, node, form.kind(), false)?;
                }
                keeps_shape(graph, node, form.kind())?;
            }
            return Ok(Some((graph.output(node, 0), Name::Written(name))));
        }
        if [prim::LIST_CONSTRUCT, prim::TUPLE_CONSTRUCT].contains(&graph.kind(node)) {
            return self.is_held(node).map(|()| None);
        }
        self.only_reads(node, name).map(|()| None)
    }

    /// Whether a node only reads its operand, and neither returns an alias of it nor stores it.
    fn only_reads(&self, node: Node, name: Value) -> Result<(), String> {
        let graph = self.graph;
        let types: Vec<Type> = graph.inputs(node).map(|value| graph.ty(value)).collect();
        let operator = ops::operator(graph.era, graph.kind(node));
        let schema = operator.resolve(&types).schema();
        let puts = |schema: &Schema| schema.writes().any(|i| types.get(i).is_none_or(|ty| !ty.is_tensor()));
        let rule = operator.alias_rule(schema);
        let is_plain = matches!(
            rule,
            AliasRule::Schema
                | AliasRule::MayReturn(_)
                | AliasRule::Fresh
                | AliasRule::Nothing
                | AliasRule::BatchNorm { .. }
        );
        let passes_on = graph.outputs(node).any(|output| self.db.may_contain_alias(output, self.base));
        match is_plain
            && !passes_on
            && !schema.is_some_and(puts)
            && graph.num_blocks(node) == 0
            && graph.subgraph(node).is_none()
        {
            true => Ok(()),
            false => Err(format!("`{}` may keep `%{}`, or return an alias of it", graph.kind(node), graph.name(name))),
        }
    }

    /// Records the readers of a list or a tuple.
    fn is_held(&mut self, holder: Node) -> Result<(), String> {
        let graph = self.graph;
        let list = graph.output(holder, 0);
        for user in graph.users(list) {
            if user != graph.return_node(self.block) {
                if graph.block_of(user) != Some(self.block) || graph.num_blocks(user) > 0 {
                    return Err(format!("`%{}` is read in a nested block", graph.name(list)));
                }
                self.only_reads(user, list)?;
            }
            self.held.push((holder, user));
        }
        Ok(())
    }

    /// The nodes in order; an error for lists that are read after a write that they were
    /// constructed before.
    fn in_order(self) -> Result<Vec<Node>, String> {
        let (graph, end) = (self.graph, self.graph.return_node(self.block));
        let is_before = |a: Node, b: Node| a != end && (b == end || graph.is_before(a, b));
        let mut nodes: Vec<Node> = self.nodes.into_iter().collect();
        nodes.sort_by(|&a, &b| if a == b { std::cmp::Ordering::Equal } else { is_before(b, a).cmp(&is_before(a, b)) });
        let writes: Vec<Node> =
            nodes.iter().copied().filter(|&node| node != end && Write::of(graph, node).is_some()).collect();
        let between = |(holder, reader): &(Node, Node)| {
            let next = writes.partition_point(|&write| is_before(write, *holder));
            writes.get(next).is_some_and(|&write| is_before(write, *reader))
        };
        match self.held.iter().find(|held| between(held)) {
            Some((holder, _)) => {
                Err(format!("`%{}` holds it while it is written to", graph.name(graph.output(*holder, 0))))
            }
            None => Ok(nodes),
        }
    }
}

// ---- versions

/// The version current at a point of the traversal.
struct Current<'v> {
    versions: &'v Versions,
    whole: Value,
    number: usize,
    /// Views of versions, by the node that creates them in the original graph.
    views: FxHashMap<Node, (usize, Value)>,
}

impl Versions {
    fn carry_out(&self, graph: &mut Graph) {
        let mut current = Current { versions: self, whole: self.base, number: 0, views: FxHashMap::default() };
        for &node in &self.nodes {
            current.visit(graph, node);
        }
        // From the last to the first: readers of the results come later, and read versions now.
        for &node in self.nodes.iter().rev() {
            if graph.kind(node).as_str() == "aten::copy_" && self.names.contains_key(&graph.input(node, 0)) {
                graph.erase(node);
            }
        }
    }
}

impl Current<'_> {
    fn visit(&mut self, graph: &mut Graph, node: Node) {
        let own = (graph.num_inputs(node) > 0).then(|| graph.input(node, 0));
        let name = own.filter(|own| self.versions.names.contains_key(own));
        let write = name.and_then(|name| Some((name, Write::of(graph, node)?)));
        for i in 0..graph.num_inputs(node) {
            let operand = graph.input(node, i);
            // The target of a copy is still needed, for its shape.
            let is_target = i == 0 && matches!(write, Some((_, Write::Copy)));
            if self.versions.names.contains_key(&operand) && !is_target {
                let value = self.value(graph, operand, node);
                graph.set_input(node, i, value);
            }
        }
        match write {
            Some((name, write)) => self.write(graph, node, name, write),
            None if name.is_some() && back(graph, node).is_some() => {
                if self.number > 0 {
                    graph.set_kind(node, any_strides(graph.kind(node)));
                }
                self.views.insert(node, (self.number, graph.output(node, 0)));
            }
            None => {}
        }
    }

    /// The value of a name in this version; a missing view is created before a node.
    fn value(&mut self, graph: &mut Graph, name: Value, before: Node) -> Value {
        match self.versions.names[&name] {
            Name::Base => self.whole,
            Name::Written(other) => self.value(graph, other, before),
            Name::View(node, other) => match self.views.get(&node) {
                Some(&(number, view)) if number == self.number => view,
                _ => {
                    let whole = self.value(graph, other, before);
                    let operands: Vec<Value> = [whole].into_iter().chain(graph.inputs(node).skip(1)).collect();
                    let (kind, ty) = (any_strides(graph.kind(node)), without_strides(graph.ty(graph.output(node, 0))));
                    let view = insert(graph, before, kind, &operands, ty);
                    self.views.insert(node, (self.number, view));
                    view
                }
            },
        }
    }

    /// Creates the next version.
    fn write(&mut self, graph: &mut Graph, node: Node, name: Value, write: Write) {
        // The scattered value stands after the write.
        let anchor = graph.next(node).unwrap_or_else(|| {
            let block = graph.block_of(node).expect("a write stands in a block");
            graph.return_node(block)
        });
        let mut made = match write {
            Write::Copy => {
                let target = self.value(graph, name, node);
                copied(graph, node, target, self.scatters(graph, name))
            }
            Write::Operator(form) => {
                let (is_cast, target) = (is_cast_back(graph, node), graph.input(node, 0));
                form.apply(graph, node);
                let made = graph.output(node, 0);
                match is_cast {
                    true => {
                        let ty = graph.ty(made);
                        graph.set_type(made, Type::tensor());
                        insert(graph, anchor, Symbol::new("aten::type_as"), &[made, target], ty)
                    }
                    false => made,
                }
            }
        };
        let mut name = name;
        loop {
            name = match self.versions.names[&name] {
                Name::Base => break,
                Name::Written(other) => other,
                Name::View(view, other) => {
                    let whole = self.value(graph, other, node);
                    made = put_back(graph, anchor, view, whole, made);
                    other
                }
            };
        }
        (self.whole, self.number) = (made, self.number + 1);
    }

    /// Whether the new value of a name is copied when it is put back.
    fn scatters(&self, graph: &Graph, name: Value) -> bool {
        match self.versions.names[&name] {
            Name::Base => false,
            Name::Written(other) => self.scatters(graph, other),
            Name::View(view, other) => {
                matches!(back(graph, view), Some(Back::Scatter(_))) || self.scatters(graph, other)
            }
        }
    }
}

/// The value that a copy writes, in the shape and element type of its target. It has memory of its
/// own, unless it is copied once more.
fn copied(graph: &mut Graph, node: Node, target: Value, again: bool) -> Value {
    let (source, ty) = (graph.input(node, 1), graph.ty(target));
    let dtype = |value: Value| graph.ty(value).as_tensor().and_then(|ty| ty.dtype);
    let is_same = dtype(source).is_some() && dtype(source) == dtype(target);
    let expanded = insert(graph, node, Symbol::new("aten::expand_as"), &[source, target], Type::tensor());
    let typed = match is_same {
        true => expanded,
        false => insert(graph, node, Symbol::new("aten::type_as"), &[expanded, target], Type::tensor()),
    };
    if again {
        return typed;
    }
    let none = insert(graph, node, prim::CONSTANT, &[], Type::none());
    insert(graph, node, Symbol::new("aten::clone"), &[typed, none], ty)
}

/// The base with a new part in place of the view.
fn put_back(graph: &mut Graph, before: Node, view: Node, whole: Value, part: Value) -> Value {
    let others: Vec<Value> = graph.inputs(view).skip(1).collect();
    let ty = without_strides(graph.ty(whole));
    match back(graph, view) {
        Some(Back::Scatter(kind)) => {
            let operands: Vec<Value> = [whole, part].into_iter().chain(others).collect();
            insert(graph, before, Symbol::new(kind), &operands, ty)
        }
        Some(Back::Itself) => {
            let operands: Vec<Value> = [part].into_iter().chain(others).collect();
            insert(graph, before, graph.kind(view), &operands, ty)
        }
        Some(Back::Exchanged) => insert(graph, before, graph.kind(view), &[part, others[1], others[0]], ty),
        Some(Back::Narrowed) => {
            let end = insert(graph, before, Symbol::new("aten::add"), &[others[1], others[2]], Type::int());
            let one = constant(graph, before, Attribute::Int(1), Type::int());
            let operands = [whole, part, others[0], others[1], end, one];
            insert(graph, before, Symbol::new("aten::slice_scatter"), &operands, ty)
        }
        Some(Back::Permuted) => {
            let order = inverse(graph, view).unwrap_or_default().into_iter().map(Attribute::Int).collect();
            let order = constant(graph, before, Attribute::List(order), Type::list(Type::int()));
            insert(graph, before, graph.kind(view), &[part, order], ty)
        }
        Some(Back::Shape) | None => insert(graph, before, Symbol::new("aten::reshape_as"), &[part, whole], ty),
    }
}
