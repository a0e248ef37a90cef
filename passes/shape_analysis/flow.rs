//! Propagation of facts through a graph.
//!
//! Optimistic fixpoint: every value starts with no type (unreached); a node's transfer function
//! gives its results from the types of its operands, and when a result becomes less specific, its
//! readers are revisited. Branches and loops join the types of both sides. The type of a value only
//! becomes less specific, a bounded number of times, so the iteration ends; then each type follows
//! by a rule from facts that hold.

use jitopt_core::analysis::inference::{Call, Knowledge, elements, infer, is_complete, reported};
use jitopt_core::analysis::{AliasDb, Location};
use jitopt_core::entity::EntitySet;
use jitopt_core::ir::{Attribute, Block, Graph, Node, Value};
use jitopt_core::ops;
use jitopt_core::ops::rules::{AliasRule, Basis, Effect, Resizes, Structure};
use jitopt_core::ops::schema::{Formal, Schema};
use jitopt_core::ops::shape_rules::shape_row;
use jitopt_core::symbol::{Symbol, attr, prim};
use jitopt_core::types::{Dim, Field, Simple, Strides, TensorType, Type, TypeKind};
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::{BTreeSet, VecDeque};
use std::rc::Rc;

/// The extent of the inferred facts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// The facts that PyTorch infers.
    AsPyTorch,
    /// All facts that follow from the rules.
    Precise,
}

/// A value, its inferred type, and the basis of that as text.
pub(super) type Refined = (Value, Type, String);

/// The state of the propagation.
pub(super) struct Flow<'a> {
    graph: &'a Graph,
    db: Rc<AliasDb>,
    mode: Mode,
    /// The types inferred so far; unreached values are absent.
    followed: FxHashMap<Value, Type>,
    /// The basis of each inferred type.
    basis: FxHashMap<Value, BTreeSet<Basis>>,
    queue: VecDeque<Node>,
    queued: FxHashSet<Node>,
    /// Memory of tensors whose shape may change in place.
    resized: EntitySet<Location>,
    /// Whether nothing in the graph takes part in differentiation.
    no_gradients: bool,
    /// Overloads, resolved once.
    schemas: FxHashMap<Node, Option<&'static Schema>>,
    /// Whether the result of a node depends on memory that is written to.
    mutable: FxHashMap<Node, bool>,
    /// The symbols of unknown sizes.
    sizes: FxHashMap<(Value, usize), i64>,
    next_size: i64,
}

impl Knowledge for Flow<'_> {
    fn ty(&self, value: Value) -> Type {
        self.known(value)
    }

    fn is_list_kept(&self, value: Value) -> bool {
        let made = self.graph.definer(value).is_some_and(|node| self.graph.kind(node) == prim::LIST_CONSTRUCT);
        made && !self.db.has_writers(value)
    }

    fn sees_into_lists(&self) -> bool {
        self.mode == Mode::Precise
    }
}

impl<'a> Flow<'a> {
    pub(super) fn new(graph: &'a Graph, db: Rc<AliasDb>, mode: Mode) -> Flow<'a> {
        let resized = resized(graph, &db, mode);
        let mut flow = Flow {
            graph,
            db,
            mode,
            resized,
            no_gradients: requires_no_gradients(graph),
            queue: graph.all_nodes().collect(),
            queued: graph.all_nodes().collect(),
            followed: FxHashMap::default(),
            basis: FxHashMap::default(),
            schemas: FxHashMap::default(),
            mutable: FxHashMap::default(),
            sizes: FxHashMap::default(),
            next_size: first_free_size(graph),
        };
        for param in graph.params(graph.root()) {
            let ty = flow.known(param);
            flow.lower(param, ty, &says_more(ty).then_some(Basis::Declared).into_iter().collect());
        }
        flow
    }

    /// Iterates until nothing changes. Nodes that wait for a value that is never reached then use
    /// its written type.
    pub(super) fn run(&mut self) {
        let graph = self.graph;
        let params = graph.all_blocks().map(|block| graph.param_node(block));
        let mut unseen = params.chain(graph.all_nodes()).flat_map(|node| graph.outputs(node));
        loop {
            while let Some(node) = self.queue.pop_front() {
                self.queued.remove(&node);
                self.visit(node);
            }
            let Some(value) = unseen.find(|value| !self.followed.contains_key(value)) else { return };
            self.lower(value, self.known(value), &BTreeSet::from([Basis::Declared]));
        }
    }

    /// Nodes, and the inferred types of their outputs, where those are more specific than the
    /// written ones.
    pub(super) fn finish(self) -> Vec<(Node, Vec<Refined>)> {
        let graph = self.graph;
        let params = graph.all_blocks().map(|block| graph.param_node(block));
        let nodes = params.chain(graph.all_nodes());
        let refined = |value: Value| {
            let ty = self.known(value);
            let more = self.followed.contains_key(&value) && Some(ty) != graph.written_type(value);
            (more && !self.is_profiled(value) && !self.is_resized(value)).then(|| (value, ty, self.shown(value)))
        };
        let of = |node: Node| (node, graph.outputs(node).filter_map(refined).collect::<Vec<_>>());
        nodes.map(of).filter(|(_, types)| !types.is_empty()).collect()
    }

    fn shown(&self, value: Value) -> String {
        let names = [(Basis::Declared, "declared"), (Basis::Profiled, "profiled"), (Basis::Guarded, "guarded")];
        let basis = self.basis.get(&value);
        let rests = |kind: &Basis| basis.is_some_and(|all| all.contains(kind));
        let on: Vec<&str> = names.iter().filter(|(kind, _)| rests(kind)).map(|(_, name)| *name).collect();
        let on = if on.is_empty() { "nothing".to_owned() } else { format!("{} types", on.join(" and ")) };
        if rests(&Basis::Inferred) { format!("inferred from {on}") } else { on }
    }

    // ---- what is known

    /// The written and the inferred type combined.
    fn known(&self, value: Value) -> Type {
        // An observed type need not hold again, and a resized tensor has lost its type.
        let doubtful = self.is_profiled(value) || self.is_resized(value);
        let written = if doubtful { self.graph.ty(value).erased() } else { self.graph.ty(value) };
        self.followed.get(&value).map_or(written, |&followed| met(written, followed))
    }

    fn is_profiled(&self, value: Value) -> bool {
        let made =
            self.graph.definer(value).map(|node| ops::operator(self.graph.era, self.graph.kind(node)).rule.basis);
        made == Some(Basis::Profiled)
    }

    /// As `known`, for a value that was reached.
    fn seen(&self, value: Value) -> Option<Type> {
        self.followed.contains_key(&value).then(|| self.known(value))
    }

    /// Lowers the type of a value to this one.
    fn lower(&mut self, value: Value, ty: Type, basis: &BTreeSet<Basis>) {
        let old = self.followed.get(&value).copied();
        let joined = match old {
            None => ty,
            Some(old) => old.join(ty).unwrap_or_else(|| self.graph.ty(value)),
        };
        let joined = self.numbered(value, joined);
        self.basis.entry(value).or_default().extend(basis);
        if old != Some(joined) {
            self.followed.insert(value, joined);
            self.look_again(value);
        }
    }

    fn look_again(&mut self, value: Value) {
        for user in self.graph.users(value) {
            let owner = (self.graph.kind(user) == prim::RETURN).then(|| self.graph.enclosing(user));
            let Some(user) = owner.unwrap_or(Some(user)) else { continue };
            if self.queued.insert(user) {
                self.queue.push_back(user);
            }
            // A reader of a list reads its elements.
            let makes_list = |made: Value| matches!(self.graph.ty(made).kind(), TypeKind::List(_));
            if self.graph.outputs(user).any(makes_list) {
                let readers: Vec<Node> = self.graph.outputs(user).flat_map(|list| self.graph.users(list)).collect();
                for reader in readers {
                    if self.queued.insert(reader) {
                        self.queue.push_back(reader);
                    }
                }
            }
        }
    }

    /// Gives symbols to the unknown sizes of a tensor: each represents "the size of this value
    /// here".
    fn numbered(&mut self, value: Value, ty: Type) -> Type {
        let Some(tensor) = ty.as_tensor().filter(|_| self.mode == Mode::Precise) else { return ty };
        let Some(sizes) = tensor.sizes.as_deref().filter(|sizes| sizes.contains(&Dim::Unknown)) else { return ty };
        let number = |(i, dim): (usize, &Dim)| {
            if *dim != Dim::Unknown {
                return *dim;
            }
            let next = &mut self.next_size;
            Dim::Symbolic(*self.sizes.entry((value, i)).or_insert_with(|| {
                *next -= 1;
                *next + 1
            }))
        };
        let sizes = sizes.iter().enumerate().map(number).collect();
        Type::new(TypeKind::Tensor(TensorType { sizes: Some(sizes), ..tensor.clone() }))
    }

    // ---- nodes

    fn visit(&mut self, node: Node) {
        let rule = ops::operator(self.graph.era, self.graph.kind(node)).rule;
        match rule.structure {
            Structure::If => return self.branch(node),
            Structure::Loop => return self.iterate(node),
            _ => {}
        }
        let made = |value: &Value| self.graph.definer(*value).is_some();
        if self.graph.inputs(node).filter(made).any(|value| !self.followed.contains_key(&value)) {
            return;
        }
        let basis = self.basis_of(node);
        let spoilt = self.mode == Mode::AsPyTorch && self.graph.inputs(node).any(|value| self.is_resized(value));
        let types = match self.graph.kind(node) {
            _ if spoilt => Vec::new(),
            prim::TUPLE_CONSTRUCT => self.packed(node),
            prim::TUPLE_UNPACK => self.unpacked(node),
            prim::TUPLE_INDEX => self.indexed(node),
            prim::LIST_UNPACK => self.list_unpacked(node),
            prim::CONSTANT_CHUNK => self.chunks(node),
            _ if rule.alias == AliasRule::PointsTo(0) => self.same_as(node, 0),
            kind if kind.as_str() == "aten::__getitem__" => self.picked(node),
            _ => self.computed(node),
        };
        for (i, output) in self.graph.outputs(node).enumerate() {
            let ty = types.get(i).copied().flatten().unwrap_or_else(|| self.graph.ty(output).erased());
            let ty = self.cautious(output, ty);
            self.lower(output, ty, &basis);
        }
    }

    /// The basis of facts about the results of a node.
    fn basis_of(&self, node: Node) -> BTreeSet<Basis> {
        let operands = self.graph.inputs(node).filter_map(|value| self.basis.get(&value)).flatten();
        let says = self.graph.outputs(node).any(|value| says_more(self.graph.ty(value)));
        let own = ops::operator(self.graph.era, self.graph.kind(node)).rule.basis;
        operands.copied().chain([Basis::Inferred]).chain(says.then_some(own)).collect()
    }

    /// Removes shapes of a tensor that may be resized, and `requires_grad` where a write may add a
    /// gradient.
    fn cautious(&self, value: Value, ty: Type) -> Type {
        let Some(tensor) = ty.as_tensor() else { return ty };
        if self.is_resized(value) {
            return Type::tensor();
        }
        let mut tensor = tensor.clone();
        if self.no_gradients && self.mode == Mode::Precise {
            tensor.requires_grad = Some(false);
        } else if !self.no_gradients && self.db.has_writers(value) {
            tensor.requires_grad = None;
        }
        Type::new(TypeKind::Tensor(tensor))
    }

    fn is_resized(&self, value: Value) -> bool {
        self.db.locations(value).any(|location| self.resized.contains(location))
    }

    fn branch(&mut self, node: Node) {
        let results: Vec<Vec<Value>> =
            self.graph.node_blocks(node).map(|block| self.graph.results(block).collect()).collect();
        for (i, output) in self.graph.outputs(node).enumerate() {
            let sides: Vec<Value> = results.iter().filter_map(|all| all.get(i).copied()).collect();
            self.meet_sides(output, &sides);
        }
    }

    fn iterate(&mut self, node: Node) {
        let Some(body) = self.graph.node_blocks(node).next() else { return };
        if let Some(counter) = self.graph.params(body).next() {
            self.lower(counter, self.graph.ty(counter), &BTreeSet::new());
        }
        let triples: Vec<[Value; 4]> = self.carried(node, body);
        for [init, result, param, output] in triples {
            let sides = vec![init, result];
            self.meet_sides(param, &sides);
            self.meet_sides(output, &sides);
        }
    }

    /// For each carried value: the initial value, the result of the body, the param, the output.
    fn carried(&self, node: Node, body: Block) -> Vec<[Value; 4]> {
        let (inits, results) = (self.graph.inputs(node).skip(2), self.graph.results(body).skip(1));
        let (params, outputs) = (self.graph.params(body).skip(1), self.graph.outputs(node));
        inits.zip(results).zip(params.zip(outputs)).map(|((a, b), (c, d))| [a, b, c, d]).collect()
    }

    /// Joins several values into one; some of them may be unreached.
    fn meet_sides(&mut self, value: Value, sides: &[Value]) {
        let written = self.graph.ty(value);
        let seen: Vec<Type> = sides.iter().filter_map(|&side| self.seen(side)).collect();
        let joined = seen.into_iter().map(Some).reduce(|a, b| a?.join(b?));
        let Some(joined) = joined else { return };
        let basis = sides.iter().filter_map(|side| self.basis.get(side)).flatten().copied().collect();
        let ty = self.cautious(value, joined.unwrap_or(written));
        self.lower(value, ty, &basis);
    }

    fn same_as(&self, node: Node, i: usize) -> Vec<Option<Type>> {
        let operand = self.graph.inputs(node).nth(i);
        vec![operand.and_then(|value| self.seen(value)).filter(|ty| ty.is_tensor())]
    }

    fn packed(&self, node: Node) -> Vec<Option<Type>> {
        let parts: Vec<Type> = self.graph.inputs(node).map(|value| self.known(value)).collect();
        let ty = match self.graph.single_output(node).map(|output| self.graph.ty(output).kind()) {
            Some(TypeKind::NamedTuple(fields)) if fields.len() == parts.len() => {
                let named = fields.iter().zip(parts).map(|(field, ty)| Field { ty, ..*field });
                Some(Type::new(TypeKind::NamedTuple(named.collect())))
            }
            Some(TypeKind::Tuple(_)) => Some(Type::tuple(&parts)),
            _ => None,
        };
        vec![ty]
    }

    fn unpacked(&self, node: Node) -> Vec<Option<Type>> {
        let parts = self.graph.inputs(node).next().and_then(|tuple| self.seen(tuple)?.tuple_elements());
        parts.into_iter().flatten().map(Some).collect()
    }

    fn indexed(&self, node: Node) -> Vec<Option<Type>> {
        let operands: Vec<Value> = self.graph.inputs(node).collect();
        let &[tuple, index] = &operands[..] else { return Vec::new() };
        let part = || {
            let (parts, at) = (self.seen(tuple)?.tuple_elements()?, self.graph.constant_int(index)?);
            let at = if at < 0 { at + parts.len() as i64 } else { at };
            parts.get(usize::try_from(at).ok()?).copied()
        };
        vec![part()]
    }

    fn list_unpacked(&mut self, node: Node) -> Vec<Option<Type>> {
        let list = self.graph.inputs(node).next();
        let parts = list.and_then(|list| self.in_list(list));
        // A list of another length raises an exception.
        parts.filter(|parts| parts.len() == self.graph.num_outputs(node)).unwrap_or_default()
    }

    /// The element of a list at a constant index.
    fn picked(&mut self, node: Node) -> Vec<Option<Type>> {
        let operands: Vec<Value> = self.graph.inputs(node).collect();
        let &[list, index] = &operands[..] else { return Vec::new() };
        let part = self.graph.constant_int(index).and_then(|at| {
            let parts = self.in_list(list)?;
            let at = if at < 0 { at + parts.len() as i64 } else { at };
            parts.get(usize::try_from(at).ok()?).copied()?
        });
        vec![part.filter(|ty| ty.is_tensor())]
    }

    /// The types of the elements of a list that is not written to; none where their number is
    /// unknown.
    fn in_list(&mut self, list: Value) -> Option<Vec<Option<Type>>> {
        let made = self.graph.definer(list).filter(|_| self.mode == Mode::Precise)?;
        if self.is_list_kept(list) {
            return Some(self.graph.inputs(made).map(|value| self.seen(value)).collect());
        }
        let schema = self.schema(made).filter(|_| !self.db.has_writers(list))?;
        let call = Call { graph: self.graph, node: made, schema, row: shape_row(schema)?, known: self };
        let tensor = |tensor| Some(Type::new(TypeKind::Tensor(tensor)));
        Some(elements(&call)?.into_iter().map(tensor).collect())
    }

    /// Parts of equal size; the last one has the remainder.
    fn chunks(&self, node: Node) -> Vec<Option<Type>> {
        let number = |name: Symbol| self.graph.attribute(node, name).and_then(Attribute::as_int);
        let tensor = self.graph.inputs(node).next().and_then(|value| self.seen(value)?.as_tensor());
        let (Some(tensor), Some(chunks), Some(dim)) = (tensor, number(attr::CHUNKS), number(attr::DIM)) else {
            return Vec::new();
        };
        let part = |i: usize| {
            let mut part = tensor.clone();
            let rank = part.rank().unwrap_or(0) as i64;
            let at = usize::try_from(if dim < 0 { dim + rank } else { dim }).ok()?;
            if let Some(size) = part.sizes.as_mut().and_then(|sizes| sizes.get_mut(at)) {
                *size = match *size {
                    Dim::Known(n) if chunks > 0 => {
                        let each = n.div_euclid(chunks) + i64::from(n % chunks != 0);
                        Dim::Known((n - each * i as i64).clamp(0, each))
                    }
                    _ => Dim::Unknown,
                };
            }
            Some(Type::new(TypeKind::Tensor(part)))
        };
        (0..self.graph.num_outputs(node)).map(part).collect()
    }

    // ---- operators

    /// By the rule of the overload.
    fn computed(&mut self, node: Node) -> Vec<Option<Type>> {
        let Some(schema) = self.schema(node) else { return Vec::new() };
        if schema.is_writing() {
            return self.written_to(node, schema);
        }
        if unwraps(schema) {
            return self.same_as(node, 0);
        }
        let Some(row) = shape_row(schema) else { return Vec::new() };
        let runs = self.mode == Mode::AsPyTorch && self.could_run(node);
        let call = Call { graph: self.graph, node, schema, row, known: self };
        let Some(all) = infer(&call) else { return Vec::new() };
        let all = if self.mode == Mode::Precise { all } else { reported(&call, all, runs) };
        let typed = |(tensor, result): (TensorType, &Formal)| {
            result.ty.is_tensor().then(|| Type::new(TypeKind::Tensor(tensor)))
        };
        all.into_iter().zip(schema.returns.iter()).map(typed).collect()
    }

    /// In-place operators return their target; PyTorch infers nothing for it.
    fn written_to(&self, node: Node, schema: &Schema) -> Vec<Option<Type>> {
        let set = |formal: &Formal| formal.alias.as_ref().map(|alias| alias.before.clone());
        let first = schema.formals.first().filter(|formal| formal.is_written());
        let returned = schema.returns.first().and_then(set);
        if self.mode == Mode::AsPyTorch
            || schema.returns.len() != 1
            || returned.is_none()
            || first.and_then(set) != returned
        {
            return Vec::new();
        }
        self.same_as(node, 0)
    }

    fn schema(&mut self, node: Node) -> Option<&'static Schema> {
        if let Some(known) = self.schemas.get(&node) {
            return *known;
        }
        let types: Vec<Type> = self.graph.inputs(node).map(|value| self.graph.ty(value)).collect();
        let found = ops::resolve(self.graph.era, self.graph.kind(node), &types).schema();
        self.schemas.insert(node, found);
        found
    }

    /// Whether PyTorch could run the node on generated tensors: all their types are complete, none
    /// has integer elements, which might be divisors, and nothing that the node depends on is
    /// written to.
    fn could_run(&mut self, node: Node) -> bool {
        let era = self.graph.era;
        let fine = |value: Value| {
            let ty = self.known(value);
            let real = |tensor: &TensorType| {
                is_complete(tensor, era) && !tensor.dtype.is_some_and(|dtype| dtype.is_integral())
            };
            self.graph.constant(value).is_some() || ty.is(Simple::Float) || ty.as_tensor().is_some_and(real)
        };
        self.graph.inputs(node).all(fine) && !self.depends_on_writes(node)
    }

    /// Whether a node, or one that it is computed from, reads memory that is written to.
    fn depends_on_writes(&mut self, node: Node) -> bool {
        let mut work = vec![node];
        while let Some(&at) = work.last() {
            let touches = |value: Value| self.db.has_writers(value);
            let values = || self.graph.inputs(at).chain(self.graph.outputs(at));
            let new = !self.mutable.contains_key(&at);
            if new && values().any(touches) {
                self.mutable.insert(at, true);
            }
            let before: Vec<Node> = self.graph.inputs(at).filter_map(|value| self.graph.definer(value)).collect();
            if new && !self.mutable.contains_key(&at) {
                // Revisited when all nodes before it are done; until then it counts as independent.
                self.mutable.insert(at, false);
                work.extend(before.iter().filter(|node| !self.mutable.contains_key(node)));
                continue;
            }
            let depends = before.iter().any(|node| self.mutable.get(node) == Some(&true));
            *self.mutable.entry(at).or_default() |= depends;
            work.pop();
        }
        self.mutable[&node]
    }
}

/// Whether a type has more facts about tensors than that they are tensors.
fn says_more(ty: Type) -> bool {
    ty != ty.erased()
}

/// Whether an operator returns the contents of its optional operand: `(t(a)? optional) -> t(a)`.
fn unwraps(schema: &Schema) -> bool {
    let (Some(formal), Some(result)) = (schema.formals.first(), schema.returns.first()) else { return false };
    let inner = if let TypeKind::Optional(inner) = formal.ty.kind() { Some(*inner) } else { None };
    schema.formals.len() == 1 && inner == Some(result.ty) && matches!(result.ty.kind(), TypeKind::Var(_))
}

/// Memory that an in-place operator may resize. A node that runs code outside the graph may do that
/// to all memory it reaches.
fn resized(graph: &Graph, db: &AliasDb, mode: Mode) -> EntitySet<Location> {
    let mut all = EntitySet::new();
    for node in graph.all_nodes() {
        let rule = ops::operator(graph.era, graph.kind(node)).rule;
        let is_thought_to = rule.resizes == Resizes::SoPyTorchThinks && mode == Mode::AsPyTorch;
        if (is_thought_to || reshapes(graph, node)) && rule.structure == Structure::None {
            for location in db.writes(node) {
                all.insert(location);
            }
        }
    }
    all
}

/// Whether an operator may resize its target.
pub(crate) fn reshapes(graph: &Graph, node: Node) -> bool {
    let rule = ops::operator(graph.era, graph.kind(node)).rule;
    rule.resizes == Resizes::Yes || matches!(rule.effect, Effect::Call | Effect::Unknown) || has_out(graph, node)
}

/// Whether an operator writes its result to an `out` operand, and resizes it to fit.
fn has_out(graph: &Graph, node: Node) -> bool {
    let operator = ops::operator(graph.era, graph.kind(node));
    let out = |schema: &Schema| schema.formals.iter().skip(schema.positional).any(|formal| formal.is_written());
    operator.schemas.iter().any(|schema| schema.formals.len() == graph.num_inputs(node) && out(schema))
        && operator.schemas.iter().any(out)
}

/// Whether no input tensor takes part in differentiation, and none is created that does.
fn requires_no_gradients(graph: &Graph) -> bool {
    let plain = |ty: Type| ty.as_tensor().map_or(!ty.is_mutable(), |tensor| tensor.requires_grad == Some(false));
    let harmless = |node: Node| {
        let kind = graph.kind(node);
        let operator = ops::operator(graph.era, kind);
        let takes_flag = || operator.schemas.iter().any(|schema| schema.formal("requires_grad").is_some());
        let calls = matches!(operator.rule.effect, Effect::Call | Effect::Unknown) || kind == prim::GET_ATTR;
        !calls && !kind.as_str().contains("requires_grad") && !takes_flag() && graph.subgraph(node).is_none()
    };
    graph.params(graph.root()).all(|param| plain(graph.ty(param))) && graph.all_nodes().all(harmless)
}

/// The first symbol for a size that no type of the graph has.
fn first_free_size(graph: &Graph) -> i64 {
    let blocks = graph.all_blocks().map(|block| graph.param_node(block));
    let values = blocks.chain(graph.all_nodes()).flat_map(|node| graph.outputs(node).collect::<Vec<_>>());
    let mut least = -1;
    for value in values {
        graph.ty(value).map_tensors(&mut |tensor| {
            for dim in tensor.sizes.iter().flatten() {
                if let Dim::Symbolic(n) = dim {
                    least = least.min(*n);
                }
            }
            Type::tensor()
        });
    }
    least - 1
}

/// Both types combined; where they contradict each other, the written one stays.
fn met(written: Type, followed: Type) -> Type {
    use TypeKind::{NamedTuple, Tensor, Tuple};
    if written == followed {
        return written;
    }
    match (written.kind(), followed.kind()) {
        (Tensor(a), Tensor(b)) => Type::new(Tensor(met_tensors(a, b))),
        (Tuple(a), Tuple(b)) if a.len() == b.len() => {
            let parts: Vec<Type> = a.iter().zip(b).map(|(a, b)| met(*a, *b)).collect();
            Type::tuple(&parts)
        }
        (NamedTuple(a), NamedTuple(b)) if a.len() == b.len() => {
            let fields = a.iter().zip(b).map(|(a, b)| Field { ty: met(a.ty, b.ty), ..*a });
            Type::new(NamedTuple(fields.collect()))
        }
        _ if followed.is_subtype_of(written) => followed,
        _ => written,
    }
}

fn met_tensors(a: &TensorType, b: &TensorType) -> TensorType {
    let dim = |(a, b): (&Dim, &Dim)| match (a, b) {
        (Dim::Known(_), _) | (Dim::Symbolic(_), Dim::Unknown | Dim::Symbolic(_)) => *a,
        _ => *b,
    };
    let sizes = match (&a.sizes, &b.sizes) {
        (Some(a), Some(b)) if a.len() == b.len() => Some(a.iter().zip(b).map(dim).collect()),
        (Some(a), _) => Some(a.clone()),
        (None, b) => b.clone(),
    };
    let fits = a.rank().is_none() || a.rank() == b.rank();
    let strides = match &a.strides {
        Strides::Unknown if fits => b.strides.clone(),
        known => known.clone(),
    };
    TensorType {
        dtype: a.dtype.or(b.dtype),
        sizes,
        strides,
        requires_grad: a.requires_grad.or(b.requires_grad),
        device: a.device.or(b.device),
        undefined: a.undefined.or(b.undefined),
        profiled: false,
    }
}
