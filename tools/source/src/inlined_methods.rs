//! Methods with what they call inlined, and the contents of the module that they read.

use crate::archive_code::{ArchiveCode, MethodName};
use crate::packed_weights::is_packed;
use crate::printed_syntax::{ExprKind, Param};
use crate::source_error::{Result, SourceError, fail};
use crate::stored_ivalues::Values;
use jitopt_archive::{Archive, StoredTensor, StoredValue};
use jitopt_core::interpreter::IValue;
use jitopt_core::ir::{Attribute, Graph, Node, Value};
use jitopt_core::pass::{self, Pipeline, RunError, Session};
use jitopt_core::symbol::{Symbol, attr, prim};
use jitopt_core::types::release::Release;
use jitopt_core::types::{Type, TypeKind};
use jitopt_passes::REGISTRY;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Objects in objects; a module that calls through more is not inlined further.
const MOST_ROUNDS: usize = 100;
/// Calls in calls.
const DEEPEST: usize = 100;

/// Nodes of all callees together, which are in memory at once: ten times those of the largest known
/// models. Methods that call the same large one would each have a copy of it.
const MOST_NODES: usize = 1 << 19;

/// The passes that PyTorch runs on a graph before it is inlined: `preoptimizeGraph`.
const PREPARATION: &str = "inline,peephole,constant-propagation{immutable-only},constant-pooling";
/// The same up to 1.5.
const OLD_PREPARATION: &str = "inline";

/// Graphs that are called, by qualified names.
#[derive(Default)]
struct Callees {
    prepared: BTreeMap<String, Graph>,
    /// Those, and the ones that are being prepared.
    seen: BTreeSet<String>,
    /// The nodes of those that are prepared.
    nodes: usize,
}

impl ArchiveCode {
    /// The graph of a method with calls inlined, as PyTorch's `inlined_graph`: calls of interfaces
    /// stay.
    ///
    /// # Errors
    /// The code of the method, or of what it calls, is not read.
    pub fn inlined(&self, method: &MethodName) -> Result<Graph> {
        let mut graph = self.emitted(method, true)?;
        let mut callees = Callees::default();
        self.prepare_callees(&graph, &mut callees, 0)?;
        run(&mut graph, "inline", &mut callees)?;
        shorten_names(&mut graph);
        Ok(graph)
    }

    /// The same for running: objects have the classes that the archive stores, so that calls of
    /// interfaces are inlined, too, also in forks; `forward` has its hooks around it.
    ///
    /// # Errors
    /// As of [`ArchiveCode::inlined`].
    pub fn runnable(&self, method: &MethodName, module: &StoredValue) -> Result<Graph> {
        let mut graph = self.called_from_outside(method)?;
        name_module(&mut graph);
        let mut callees = Callees::default();
        for _ in 0..MOST_ROUNDS {
            let resolved = self.resolve(&mut graph, module, &HashMap::new());
            self.prepare_callees(&graph, &mut callees, 0)?;
            let before = graph.epoch();
            run(&mut graph, "inline,dce", &mut callees)?;
            run_in_sections(&mut graph, "inline,dce", &mut callees)?;
            if graph.epoch() == before && !resolved {
                break;
            }
        }
        shorten_names(&mut graph);
        Ok(graph)
    }

    /// Prepares the graphs of all that a graph calls, by qualified names. A function that calls
    /// itself stays a call.
    fn prepare_callees(&self, graph: &Graph, callees: &mut Callees, depth: usize) -> Result<()> {
        if depth > DEEPEST {
            return fail(format!("calls are nested deeper than {DEEPEST}"));
        }
        for method in called(graph) {
            let name = qualified(&method);
            if self.callable(&method).is_none() || !callees.seen.insert(name.clone()) {
                continue;
            }
            let mut callee = self.emitted(&method, true)?;
            self.prepare_callees(&callee, callees, depth + 1)?;
            let preparation = if self.release < Release(1, 6) { OLD_PREPARATION } else { PREPARATION };
            run(&mut callee, preparation, callees)?;
            callees.keep(name, callee)?;
        }
        Ok(())
    }

    /// The params of a method that have defaults, by name: callers may leave them out.
    pub fn defaults(&self, method: &MethodName) -> Vec<(String, IValue)> {
        let params = self.callable(method).map(|callable| callable.def.params.as_slice()).unwrap_or_default();
        let default = |param: &Param| Some((param.name.clone(), plain_value(&param.default.as_ref()?.kind)?));
        params.iter().filter_map(default).collect()
    }

    /// What the graph reads of the module: attributes under the paths `self.a.b`, constants of the
    /// archive under the names of their values, and values of enums under `Class.MEMBER`.
    ///
    /// # Errors
    /// A record is damaged, or holds values that are not read.
    pub fn contents(&self, archive: &Archive, module: &StoredValue, graph: &Graph) -> Result<BTreeMap<String, IValue>> {
        let mut values = Values::of_module(archive, self);
        let mut found = BTreeMap::new();
        let first = graph.params(graph.root()).next();
        if let Some(object) = first.filter(|param| matches!(graph.ty(*param).kind(), TypeKind::Class(_))) {
            let paths = paths_read(graph, object);
            for (path, attributes) in paths {
                let value = self.value_at(module, &attributes, &mut values).map_err(|error| in_path(&path, error))?;
                found.extend(value.map(|value| (path, value)));
            }
        }
        for node in graph.all_nodes().filter(|node| graph.kind(*node) == prim::CONSTANT) {
            if let (Some(output), Some(value)) = (graph.single_output(node), self.archived_value(graph, node)) {
                found.insert(graph.name(output), values.value(value)?);
            }
        }
        found.extend(
            enum_members(graph).into_iter().filter_map(|member| Some((member.to_owned(), self.enum_value(member)?))),
        );
        Ok(found)
    }

    /// The value of a member of an enum: `3` of `GREEN : int = 3`.
    fn enum_value(&self, member: &str) -> Option<IValue> {
        let (class, name) = member.rsplit_once('.')?;
        let field = self.names.field(self.names.class(class)?, name)?;
        plain_value(&field.value.as_ref()?.kind)
    }

    /// The stored tensors that a graph reads from an object, and from objects in it; sections
    /// excluded.
    pub fn stored_tensors(&self, graph: &Graph, object: &StoredValue) -> HashMap<Value, StoredTensor> {
        let mut found = HashMap::new();
        let mut objects: HashMap<Value, &StoredValue> =
            graph.params(graph.root()).next().map(|param| (param, object)).into_iter().collect();
        for node in graph.all_nodes() {
            let Some(output) = graph.single_output(node) else { continue };
            let stored = match graph.kind(node) {
                prim::CONSTANT => self.archived_value(graph, node),
                prim::GET_ATTR => {
                    let from = graph.inputs(node).next().and_then(|value| objects.get(&value).copied());
                    from.zip(text(graph, node)).and_then(|(object, name)| self.attribute(object, &name))
                }
                _ => None,
            };
            match stored {
                Some(StoredValue::Tensor(tensor)) => drop(found.insert(output, tensor.clone())),
                Some(stored) => drop(objects.insert(output, stored)),
                None => {}
            }
        }
        found
    }

    /// An attribute as it is stored; nothing if code of the archive makes the attributes.
    fn attribute<'s>(&self, object: &'s StoredValue, wanted: &str) -> Option<&'s StoredValue> {
        match object {
            StoredValue::Object { class, .. } if self.has_hook(class) => None,
            _ => object.attributes().into_iter().find(|(name, _)| *name == wanted).map(|(_, value)| value),
        }
    }

    /// The value at a path of attributes: as it is stored, or as the load hook on the way made it.
    /// Nothing for objects, whose attributes have paths of their own, except packed weights.
    fn value_at(&self, module: &StoredValue, path: &[String], values: &mut Values<'_>) -> Result<Option<IValue>> {
        let mut stored = module;
        for (depth, name) in path.iter().enumerate() {
            match stored {
                StoredValue::Object { class, .. } if self.has_hook(class) => {
                    let made = values.value(stored)?;
                    return Ok(within(made, &path[depth..]).filter(is_bound_whole));
                }
                _ => match self.attribute(stored, name) {
                    Some(inner) => stored = inner,
                    None => return Ok(None),
                },
            }
        }
        match stored {
            StoredValue::Object { class, .. } if !is_packed(class) => Ok(None),
            _ => values.value(stored).map(Some),
        }
    }

    /// Gives objects that are read from the module the classes that they have in the archive.
    /// Returns whether a type changed.
    fn resolve(&self, graph: &mut Graph, module: &StoredValue, handed: &HashMap<Value, &StoredValue>) -> bool {
        let mut objects: HashMap<Value, &StoredValue> = handed.clone();
        if handed.is_empty()
            && let Some(object) = graph.params(graph.root()).next()
        {
            objects.insert(object, module);
        }
        let mut changed = false;
        let nodes: Vec<Node> = graph.all_nodes().collect();
        for node in nodes {
            let first = graph.inputs(node).next().and_then(|value| objects.get(&value).copied());
            if let (prim::GET_ATTR, Some(object), Some(output), Some(name)) =
                (graph.kind(node), first, graph.single_output(node), text(graph, node))
                && let Some(stored) = self.attribute(object, &name)
            {
                objects.insert(output, stored);
                if let (TypeKind::Interface(_), StoredValue::Object { class, .. }) = (graph.ty(output).kind(), stored) {
                    graph.set_type(output, Type::new(TypeKind::Class(Symbol::new(class))));
                    changed = true;
                }
            }
            let inputs: Vec<Option<&StoredValue>> =
                graph.inputs(node).map(|value| objects.get(&value).copied()).collect();
            let inner = graph.with_subgraph(node, |inner| {
                let params: Vec<Value> = inner.params(inner.root()).collect();
                let handed: HashMap<Value, &StoredValue> =
                    params.into_iter().zip(inputs).filter_map(|(param, stored)| Some((param, stored?))).collect();
                !handed.is_empty() && self.resolve(inner, module, &handed)
            });
            changed |= inner.unwrap_or(false);
        }
        changed
    }
}

/// An attribute of an attribute of an object.
fn within(object: IValue, path: &[String]) -> Option<IValue> {
    path.iter().try_fold(object, |value, name| match value {
        IValue::Object(object) => object.attributes.borrow().get(name).cloned(),
        _ => None,
    })
}

/// Whether a value is bound as a whole: attributes of other objects have paths of their own.
fn is_bound_whole(value: &IValue) -> bool {
    !matches!(value, IValue::Object(object) if !is_packed(object.class.as_str()))
}

/// Names the module `self`, as exported programs do, whatever the user called it: what it holds is
/// bound by names such as `self.weight`.
fn name_module(graph: &mut Graph) {
    let first = graph.params(graph.root()).next();
    if let Some(module) = first.filter(|param| matches!(graph.ty(*param).kind(), TypeKind::Class(_))) {
        graph.set_name(module, b"self");
    }
}

/// The members of enums that are constants of a graph, or in one, by their whole names.
pub(crate) fn enum_members(graph: &Graph) -> Vec<&'static str> {
    let constants = graph.all_nodes().filter(|node| graph.kind(*node) == prim::CONSTANT);
    let mut open: Vec<&Attribute> = constants.filter_map(|node| graph.attribute(node, attr::VALUE)).collect();
    let mut found = Vec::new();
    while let Some(attribute) = open.pop() {
        match attribute {
            Attribute::Enum(member) => found.push(member.as_str()),
            Attribute::List(parts) | Attribute::Tuple(parts) => open.extend(parts.iter()),
            Attribute::Dict(items) => open.extend(items.iter().flat_map(|(key, value)| [key, value])),
            _ => {}
        }
    }
    found
}

/// The value of a literal without parts.
fn plain_value(kind: &ExprKind) -> Option<IValue> {
    Some(match kind {
        ExprKind::None => IValue::None,
        ExprKind::Bool(value) => IValue::Bool(*value),
        ExprKind::Int(value) => IValue::Int(*value),
        ExprKind::Float(value) => IValue::Float(*value),
        ExprKind::Text(text) => IValue::Str(String::from_utf8_lossy(text).as_ref().into()),
        _ => return None,
    })
}

fn in_path(path: &str, error: SourceError) -> SourceError {
    SourceError { reason: format!("`{path}`: {}", error.reason), ..error }
}

/// The qualified name of a method or a function.
pub fn qualified(method: &MethodName) -> String {
    match method.class.as_str() {
        "" => method.name.clone(),
        class => format!("{class}.{}", method.name),
    }
}

/// The methods and functions that the nodes of a graph and its sections call.
pub fn called(graph: &Graph) -> Vec<MethodName> {
    let (mut graphs, mut found) = (vec![graph], Vec::new());
    while let Some(graph) = graphs.pop() {
        for node in graph.all_nodes() {
            found.extend(callee(graph, node));
            graphs.extend(graph.subgraph(node));
        }
    }
    found
}

/// The number of nodes, those of sections included.
fn nodes(graph: &Graph) -> usize {
    let sections = graph.all_nodes().filter_map(|node| graph.subgraph(node));
    graph.all_nodes().count() + sections.map(nodes).sum::<usize>()
}

fn callee(graph: &Graph, node: Node) -> Option<MethodName> {
    let first = graph.inputs(node).next();
    match graph.kind(node) {
        prim::CALL_METHOD => {
            let TypeKind::Class(class) = graph.ty(first?).kind() else { return None };
            Some(MethodName { class: class.as_str().to_owned(), name: text(graph, node)? })
        }
        prim::CALL_FUNCTION => {
            let name = text(graph, graph.definer(first?)?)?;
            Some(MethodName { class: String::new(), name })
        }
        _ => None,
    }
}

fn text(graph: &Graph, node: Node) -> Option<String> {
    match graph.attribute(node, attr::NAME)? {
        Attribute::Str(bytes) => Some(String::from_utf8_lossy(bytes).into_owned()),
        _ => None,
    }
}

fn run(graph: &mut Graph, passes: &str, callees: &mut Callees) -> Result<()> {
    let failed = |error: String| SourceError::new(format!("calls cannot be inlined: {error}"));
    let pipeline = Pipeline::parse(passes, &REGISTRY).map_err(|error| failed(error.to_string()))?;
    let mut session = Session { callees: callees.taken_for(graph), ..Session::default() };
    let ran = pass::run(graph, &pipeline, &mut session, &mut []);
    callees.prepared.append(&mut session.callees);
    ran.map_err(|error| {
        let is_too_large = matches!(&error, RunError::Pass { error, .. } if error.too_large);
        SourceError { is_too_large, ..failed(error.to_string()) }
    })
}

impl Callees {
    fn keep(&mut self, name: String, callee: Graph) -> Result<()> {
        self.nodes += nodes(&callee);
        if self.nodes > MOST_NODES {
            let reason = format!("calls cannot be inlined: callees would become more than {MOST_NODES} nodes");
            return Err(SourceError { is_too_large: true, ..SourceError::new(reason) });
        }
        self.prepared.insert(name, callee);
        Ok(())
    }

    /// Takes the prepared graphs that a graph calls, itself or through others: of a module with
    /// hundreds of methods each calls a few, and every run verifies what it is given.
    fn taken_for(&mut self, graph: &Graph) -> BTreeMap<String, Graph> {
        let mut taken = BTreeMap::new();
        let mut wanted = called(graph);
        while let Some(method) = wanted.pop() {
            if let Some((name, callee)) = self.prepared.remove_entry(&qualified(&method)) {
                wanted.extend(called(&callee));
                taken.insert(name, callee);
            }
        }
        taken
    }
}

fn run_in_sections(graph: &mut Graph, passes: &str, callees: &mut Callees) -> Result<()> {
    let nodes: Vec<Node> = graph.all_nodes().filter(|node| graph.subgraph(*node).is_some()).collect();
    for node in nodes {
        graph.with_subgraph(node, |inner| run(inner, passes, callees)).unwrap_or(Ok(()))?;
    }
    Ok(())
}

/// Functions have their last names in text.
fn shorten_names(graph: &mut Graph) {
    for inner in graph.subgraphs_mut() {
        shorten_names(inner);
    }
    let nodes: Vec<Node> = graph.all_nodes().filter(|node| graph.kind(*node) == prim::CONSTANT).collect();
    for node in nodes {
        if let Some(name) = text(graph, node) {
            let short = name.rsplit('.').next().unwrap_or_default();
            graph.set_attribute(node, attr::NAME, Attribute::Str(short.as_bytes().into()));
        }
    }
}

/// The attributes that a graph reads from an object, and from objects in it: their paths, and the
/// names on the way.
pub(crate) fn paths_read(graph: &Graph, object: Value) -> BTreeMap<String, Vec<String>> {
    let mut found = BTreeMap::new();
    let root = (graph.name(object), Vec::new());
    collect_paths(graph, HashMap::from([(object, root)]), &mut found);
    found
}

fn collect_paths(
    graph: &Graph,
    mut objects: HashMap<Value, (String, Vec<String>)>,
    found: &mut BTreeMap<String, Vec<String>>,
) {
    for node in graph.all_nodes() {
        let first = graph.inputs(node).next().and_then(|value| objects.get(&value).cloned());
        if let (prim::GET_ATTR, Some((path, mut names)), Some(output), Some(name)) =
            (graph.kind(node), first, graph.single_output(node), text(graph, node))
        {
            let path = format!("{path}.{name}");
            names.push(name);
            found.insert(path.clone(), names.clone());
            objects.insert(output, (path, names));
        }
        if let Some(inner) = graph.subgraph(node) {
            let handed = inner.params(inner.root()).zip(graph.inputs(node));
            let handed = handed.filter_map(|(param, value)| Some((param, objects.get(&value)?.clone())));
            collect_paths(inner, handed.collect(), found);
        }
    }
}
