//! Finds the effects of the program in a file on its user by reading it.
//!
//! ```text
//! archive ─> strict reader ─> load hooks, run by the interpreter ─> every method: a graph
//!                                   graphs ─> operators and what they touch, views of memory
//! ```
//!
//! Nothing of the file runs except its load hooks, which the interpreter runs within a budget.

use crate::archives::{Reader, opened};
use crate::memory_proofs::{Bounds, Extent, bounds};
use crate::settings::ALLOW;
use crate::{Error, Kind};
use jitopt_archive::{Kind as Layout, StoredTensor, StoredValue};
use jitopt_core::ir::{Attribute, Graph, Node, Value};
use jitopt_core::ops;
use jitopt_core::ops::rules::Nondeterminism;
use jitopt_core::ops::touches::{Touch, touch};
use jitopt_core::pass::{self, Pipeline, Session};
use jitopt_core::symbol::{attr, prim};
use jitopt_core::tensor::DType;
use jitopt_core::types::{Dim, Strides, TensorType, Type, TypeKind};
use jitopt_passes::REGISTRY;
use jitopt_source::{ArchiveCode, MethodName, RunHook, called, qualified};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// The severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// The file is refused.
    Error,
    /// The user should look at it.
    Warning,
    /// It is good to know.
    Note,
}

/// Kinds of findings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rule {
    /// Readers may see different things in the file, or it is damaged.
    Archive,
    /// A load hook raises, exceeds its budget, or does what no hook needs.
    LoadHook,
    /// Code is not what PyTorch prints, so that nothing is known of it.
    UnreadCode,
    /// A loop while loading has no bound that is known before it runs.
    UnboundedLoop,
    /// Files of any name are read or written.
    Files,
    /// Other machines are reached.
    Network,
    /// Code that is not in the file runs.
    ForeignCode,
    /// Memory is viewed by numbers that nothing checks.
    UncheckedMemory,
    /// A view leaves its storage.
    LeavesStorage,
    /// Nothing is known of an operator.
    UnknownOperator,
    /// A tensor gets other memory.
    ResizedMemory,
    /// A view that only PyTorch's own check at run time keeps inside.
    OpenView,
    /// The state of the process changes.
    ProcessState,
    /// Memory is shown that nothing wrote.
    Uninitialized,
}

/// Name, weight, and what it means.
const RULES: [(Rule, &str, Level, &str); 14] = {
    use Level::{Error, Note, Warning};
    use Rule::*;
    [
        (Archive, "archive", Error, "two readers could see different things in the file, or it is damaged"),
        (LoadHook, "load-hook", Error, "code that runs while the file is loaded raises, or does what no hook needs"),
        (UnreadCode, "unread-code", Error, "code that PyTorch does not print: nothing is known of it"),
        (UnboundedLoop, "unbounded-loop", Warning, "a loop that runs while the file is loaded has no bound"),
        (Files, "files", Error, "files of any name are read or written"),
        (Network, "network", Error, "other processes or machines are reached"),
        (ForeignCode, "foreign-code", Error, "code that is not in the file runs"),
        (UncheckedMemory, "unchecked-memory", Error, "memory is viewed by numbers that nothing checks"),
        (LeavesStorage, "leaves-storage", Error, "a view reaches elements that its storage does not have"),
        (UnknownOperator, "unknown-operator", Error, "nothing is known of an operator"),
        (ResizedMemory, "resized-memory", Warning, "a tensor gets other memory, which may not be written"),
        (OpenView, "open-view", Note, "a view of memory that PyTorch checks when it runs"),
        (ProcessState, "process-state", Note, "seeds, gradient mode or profilers of the process change"),
        (Uninitialized, "uninitialised-memory", Note, "memory that nothing wrote may show in results"),
    ]
};

impl Rule {
    /// All of them, the gravest first.
    pub fn all() -> impl Iterator<Item = Rule> {
        RULES.iter().map(|(rule, ..)| *rule)
    }

    fn row(self) -> &'static (Rule, &'static str, Level, &'static str) {
        let found = RULES.iter().find(|(rule, ..)| *rule == self);
        found.unwrap_or(&RULES[0])
    }

    /// `leaves-storage`
    pub fn name(self) -> &'static str {
        self.row().1
    }

    /// The weight of a finding of this kind.
    pub fn level(self) -> Level {
        self.row().2
    }

    /// The meaning of the finding.
    pub fn meaning(self) -> &'static str {
        self.row().3
    }

    fn of_touch(touch: Touch) -> Option<Rule> {
        Some(match touch {
            Touch::Prints => return None,
            Touch::Process => Rule::ProcessState,
            Touch::Uninitialized => Rule::Uninitialized,
            Touch::Resizes => Rule::ResizedMemory,
            Touch::CheckedView => Rule::OpenView,
            Touch::UncheckedView => Rule::UncheckedMemory,
            Touch::Files => Rule::Files,
            Touch::Network => Rule::Network,
            Touch::ForeignCode => Rule::ForeignCode,
        })
    }
}

/// A place in the code of an archive.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CodePlace {
    /// `code/__torch__.py`
    pub record: String,
    /// From 1.
    pub line: usize,
}

/// Something found.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct AuditFinding {
    /// The kind of finding.
    pub rule: Rule,
    /// Its weight here: an allowed finding is a note.
    pub level: Level,
    /// In words.
    pub message: String,
    /// The operator.
    pub operator: Option<String>,
    /// Where.
    pub place: Option<CodePlace>,
    /// The calls that lead there, the entry point first.
    pub path: Vec<String>,
}

/// When the code of a method runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reached {
    /// While the file is loaded.
    Load,
    /// When `forward`, or another method of the module, is called.
    Call,
    /// Only when a caller names it.
    Name,
}

impl Reached {
    /// In words.
    pub fn name(self) -> &'static str {
        match self {
            Reached::Load => "load",
            Reached::Call => "call",
            Reached::Name => "by name",
        }
    }
}

/// A method of the file, or its graph.
#[derive(Clone, Debug)]
pub struct AuditedMethod {
    /// Its qualified name.
    pub name: String,
    /// When it runs.
    pub reached: Reached,
    /// Its operators: what they do, and how often they are called.
    pub operators: BTreeMap<String, (String, usize)>,
}

/// A view that stays inside its storage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proof {
    /// `aten::as_strided`
    pub operator: String,
    /// Where.
    pub place: Option<CodePlace>,
    /// The last element that it reaches, and the elements that there are.
    pub last: u64,
    /// Elements of the storage.
    pub of: u64,
}

/// The findings of a file.
#[derive(Clone, Debug, Default)]
pub struct Audit {
    /// The kind of the file; nothing if it is refused.
    pub what: Option<String>,
    /// Its methods.
    pub methods: Vec<AuditedMethod>,
    /// The load hooks that ran, and ended well.
    pub hooks: Vec<RunHook>,
    /// The findings, the gravest first.
    pub findings: Vec<AuditFinding>,
    /// Views that stay inside their storages.
    pub proofs: Vec<Proof>,
}

/// Nodes of all inlined methods together, which take some seconds; a method that is found to be too
/// large counts as half of them.
const MOST_INLINED: usize = 1 << 19;

/// Reads a file. `allowed` are operators, or names of rules, whose findings are notes.
///
/// # Errors
/// `allowed` names neither an operator nor a rule.
pub fn audit(name: &str, bytes: &[u8], allowed: &[String]) -> Result<Audit, Error> {
    for known in allowed.iter().filter(|allowed| !allowed.contains("::")) {
        if !Rule::all().any(|rule| rule.name() == known) {
            let names: Vec<&str> = Rule::all().map(Rule::name).collect();
            let help = format!(
                "{ALLOW}: `{known}` is neither an operator, `aten::as_strided`, nor one of {}",
                names.join(", ")
            );
            return Err(Error::new(Kind::Misuse, help));
        }
    }
    let mut audit = Audit::default();
    match opened(name, &bytes.to_vec().into()) {
        Err(error) => audit.find(Rule::Archive, reason(name, &error)),
        Ok(archive) if matches!(archive.kind, Layout::Exported | Layout::Serialized) => {
            audit.what = Some(crate::archives::described(&archive));
            if let Some(class) = &archive.class_of_inputs {
                let class = class.escape_debug();
                audit.find(Rule::ForeignCode, format!("Python imports the class `{class}` to load recorded inputs"));
            }
            match jitopt_exported::graph(&archive, None) {
                Ok(graph) => audit.exported(&graph),
                Err(refusal) => audit.find(Rule::UnreadCode, refusal.to_string()),
            }
        }
        Ok(archive) => {
            audit.what = Some(crate::archives::described(&archive));
            match Reader::of(name, archive, None) {
                Ok(mut reader) => {
                    reader.code.locate_in_archive();
                    audit.torch_script(&reader);
                }
                Err(error) => audit.find(Rule::UnreadCode, reason(name, &error)),
            }
        }
    }
    audit.allow(allowed);
    audit.findings.sort();
    audit.findings.dedup();
    Ok(audit)
}

/// The message of an error without the name of the file.
fn reason(name: &str, error: &Error) -> String {
    let text = error.message.trim_end();
    let text = text.strip_prefix("error: ").unwrap_or(text);
    let text = text.strip_prefix(&format!("{name}: ")).unwrap_or(text);
    text.strip_prefix("the archive is refused: ").unwrap_or(text).to_owned()
}

impl Audit {
    /// Whether nothing grave was found.
    pub fn is_accepted(&self) -> bool {
        self.findings.iter().all(|finding| finding.level != Level::Error)
    }

    fn find(&mut self, rule: Rule, message: String) {
        self.findings.push(AuditFinding {
            rule,
            level: rule.level(),
            message,
            operator: None,
            place: None,
            path: Vec::new(),
        });
    }

    fn allow(&mut self, allowed: &[String]) {
        let is_allowed = |finding: &AuditFinding| {
            allowed.iter().any(|name| name == finding.rule.name() || Some(name) == finding.operator.as_ref())
        };
        for finding in self.findings.iter_mut().filter(|finding| is_allowed(finding)) {
            finding.level = Level::Note;
        }
    }

    /// An exported program: one graph, whose types are in the file.
    fn exported(&mut self, graph: &Graph) {
        let path = || vec!["forward".to_owned()];
        self.method(graph, "forward".to_owned(), Reached::Call, &path);
        self.views(graph, &HashMap::new(), &path);
    }

    fn torch_script(&mut self, reader: &Reader) {
        match reader.code.run_hooks(&reader.archive, &reader.module) {
            Ok(hooks) => self.hooks = hooks,
            Err(error) => self.find(Rule::LoadHook, error.to_string()),
        }
        let graphs = Graphs::of(&reader.code, self);
        let reach = Reach::of(&graphs, reader);
        for (method, graph) in &graphs.0 {
            let name = qualified(method);
            let (reached, path) = (reach.when(&name), || reach.path(&qualified(method)));
            self.method(graph, name, reached, &path);
            if reached == Reached::Load {
                self.loops(graph, &path);
            }
        }
        self.methods.sort_by(|a, b| (a.reached, &a.name).cmp(&(b.reached, &b.name)));
        let mut inlined = 0;
        for (root, object) in reach.roots(&graphs, reader) {
            if inlined >= MOST_INLINED {
                self.find(Rule::UnreadCode, format!("`{}` is not inlined after others that are too large", root.name));
                continue;
            }
            inlined += self.views_of(reader, &root, object, &reach);
        }
    }

    /// Views of memory where a method is called with an object, calls inlined. Returns the number
    /// of nodes.
    fn views_of(&mut self, reader: &Reader, root: &MethodName, object: &StoredValue, reach: &Reach) -> usize {
        let path = || reach.path(&qualified(root));
        match reader.code.runnable(root, object) {
            Ok(mut graph) => {
                let stored = reader.code.stored_tensors(&graph, object);
                let extent = |tensor: &StoredTensor| Extent {
                    elements: reader.archive.storage_bytes(tensor.storage) / tensor.dtype.bytes().max(1),
                    offset: Some(tensor.offset),
                };
                infer_shapes(&mut graph, &stored);
                let stored = stored.iter().map(|(value, tensor)| (*value, extent(tensor))).collect();
                self.views(&graph, &stored, &path);
                graph.all_nodes().count()
            }
            Err(error) => {
                self.find(Rule::UnreadCode, error.to_string());
                if error.is_too_large { MOST_INLINED / 2 } else { 0 }
            }
        }
    }

    /// The operators of a graph and its sections, and findings about them.
    fn method(&mut self, graph: &Graph, name: String, reached: Reached, path: &dyn Fn() -> Vec<String>) {
        let mut operators: BTreeMap<String, (String, usize)> = BTreeMap::new();
        each_node(graph, &mut |graph, node| {
            let kind = graph.kind(node);
            let Some(effect) = effect(graph, node) else { return };
            operators.entry(kind.as_str().to_owned()).or_insert((effect.in_words(), 0)).1 += 1;
            let rule = match effect {
                Does::Unknown => Some(Rule::UnknownOperator),
                // Views are judged where calls are inlined.
                Does::Touches(touch) if touch.is_about_memory() && touch != Touch::Resizes => None,
                Does::Touches(touch) => Rule::of_touch(touch),
                Does::Nothing | Does::Draws | Does::DrawsInTraining => None,
            };
            if let Some(rule) = rule {
                self.node(rule, format!("`{kind}`: {}", effect.in_words()), graph, node, path);
            }
        });
        self.methods.push(AuditedMethod { name, reached, operators });
    }

    fn node(&mut self, rule: Rule, message: String, graph: &Graph, node: Node, path: &dyn Fn() -> Vec<String>) {
        self.findings.push(AuditFinding {
            rule,
            level: rule.level(),
            message,
            operator: Some(graph.kind(node).as_str().to_owned()),
            place: place(graph, node),
            path: path(),
        });
    }

    /// Loops whose bound is not a number, or a large one. The budget of the hook stops those that
    /// are reached; these are named although they may not be.
    fn loops(&mut self, graph: &Graph, path: &dyn Fn() -> Vec<String>) {
        each_node(graph, &mut |graph, node| {
            if graph.kind(node) != prim::LOOP {
                return;
            }
            let trips = graph.inputs(node).next().and_then(|value| graph.definer(value));
            let trips = trips.and_then(|node| graph.attribute(node, attr::VALUE));
            match trips {
                Some(Attribute::Int(trips)) if *trips > MOST_TRIPS => {
                    self.node(Rule::UnboundedLoop, "a loop of a load hook has no bound".to_owned(), graph, node, path);
                }
                _ => {}
            }
        });
    }

    fn views(&mut self, whole: &Graph, stored: &HashMap<Value, Extent>, path: &dyn Fn() -> Vec<String>) {
        let of_sections = HashMap::new();
        each_node(whole, &mut |graph, node| {
            // Sections have values of their own.
            let stored = if graph.id() == whole.id() { stored } else { &of_sections };
            let kind = graph.kind(node);
            let Some(touch) = touch(kind).filter(|touch| touch.is_about_memory() && *touch != Touch::Resizes) else {
                return;
            };
            let bounds = bounds(graph, node, stored).unwrap_or(Bounds::Open { last: None });
            let unproved = if touch == Touch::UncheckedView { Rule::UncheckedMemory } else { Rule::OpenView };
            match bounds {
                Bounds::Within { last, of } => {
                    let operator = kind.as_str().to_owned();
                    self.proofs.push(Proof { operator, place: place(graph, node), last, of });
                }
                Bounds::Leaves { .. } => {
                    self.node(Rule::LeavesStorage, bounds_message(kind.as_str(), bounds), graph, node, path)
                }
                Bounds::Open { .. } => self.node(unproved, bounds_message(kind.as_str(), bounds), graph, node, path),
            }
        });
    }
}

/// Types of what an archive stores, and what follows from them: sizes of fresh tensors.
fn infer_shapes(graph: &mut Graph, stored: &HashMap<Value, StoredTensor>) {
    for (value, tensor) in stored {
        let sizes = tensor.sizes.iter().map(|size| Dim::Known(*size as i64)).collect();
        let strides = Strides::Known(tensor.strides.iter().map(|stride| *stride as i64).collect());
        let dtype = DType::from_python(tensor.dtype.name());
        let ty = TensorType { dtype, sizes: Some(sizes), strides, ..TensorType::default() };
        graph.set_type(*value, Type::new(TypeKind::Tensor(ty)));
    }
    if let Ok(pipeline) = Pipeline::parse("shape-analysis{precise}", &REGISTRY) {
        // Without inferred sizes less is proved, and nothing is wrong.
        let _ = pass::run(graph, &pipeline, &mut Session::default(), &mut []);
    }
}

/// Trips that the budget of hooks allows.
const MOST_TRIPS: i64 = 1_000_000;

fn bounds_message(kind: &str, bounds: Bounds) -> String {
    match bounds {
        Bounds::Leaves { index: Some(index), of: Some(of) } => {
            format!("`{kind}` reaches element {index} of a storage of {of}")
        }
        Bounds::Leaves { .. } => format!("`{kind}` has numbers that no storage fits: negative, or beyond 64 bits"),
        Bounds::Open { last: Some(last) } => {
            format!("`{kind}` reaches element {last} of a storage that is known only when it runs")
        }
        _ => format!("`{kind}`: where it ends is known only when it runs"),
    }
}

// ---- operators

/// The effect of an operator.
#[derive(Clone, Copy)]
enum Does {
    Nothing,
    Draws,
    DrawsInTraining,
    Touches(Touch),
    Unknown,
}

impl Does {
    fn in_words(self) -> String {
        match self {
            Does::Nothing => "pure".to_owned(),
            Does::Draws => "random".to_owned(),
            Does::DrawsInTraining => "random in training".to_owned(),
            Does::Touches(touch) => touch.in_words().to_owned(),
            Does::Unknown => "nothing is known of it".to_owned(),
        }
    }
}

/// The effects of a node; nothing for structure: constants, calls, attributes, branches,
/// containers.
fn effect(graph: &Graph, node: Node) -> Option<Does> {
    let kind = graph.kind(node);
    let operator = ops::operator(graph.era, kind);
    if let Some(touch) = touch(kind) {
        return Some(Does::Touches(touch));
    }
    if !operator.is_known() && operator.elsewhere().is_empty() {
        return Some(Does::Unknown);
    }
    if kind.as_str().starts_with("prim::") {
        return None;
    }
    let types: Vec<_> = graph.inputs(node).map(|value| graph.ty(value)).collect();
    Some(match operator.nondeterminism(operator.resolve(&types).schema()) {
        Nondeterminism::Always => Does::Draws,
        Nondeterminism::UnlessFalse(_) | Nondeterminism::UnlessZero(_) => Does::DrawsInTraining,
        Nondeterminism::Deterministic | Nondeterminism::Undefined => Does::Nothing,
    })
}

fn each_node(graph: &Graph, visit: &mut dyn FnMut(&Graph, Node)) {
    for node in graph.all_nodes() {
        visit(graph, node);
        if let Some(inner) = graph.subgraph(node) {
            each_node(inner, visit);
        }
    }
}

/// `code/__torch__.py:7:4`
fn place(graph: &Graph, node: Node) -> Option<CodePlace> {
    let text = String::from_utf8_lossy(graph.origin_location(node)?).into_owned();
    let (rest, _column) = text.rsplit_once(':')?;
    let (record, line) = rest.rsplit_once(':')?;
    Some(CodePlace { record: record.to_owned(), line: line.parse().ok()? })
}

// ---- what calls what

/// The graphs of all methods.
struct Graphs(Vec<(MethodName, Graph)>);

impl Graphs {
    /// Code that is not read is a finding.
    fn of(code: &ArchiveCode, audit: &mut Audit) -> Graphs {
        let mut graphs = Vec::new();
        for method in code.methods() {
            match code.graph(&method) {
                Ok(graph) => graphs.push((method, graph)),
                Err(error) => audit.find(Rule::UnreadCode, format!("{}: {error}", qualified(&method))),
            }
        }
        Graphs(graphs)
    }
}

/// When each method runs, and what calls it.
struct Reach {
    /// By qualified name: when, and the method that calls it first.
    found: BTreeMap<String, (Reached, Option<String>)>,
}

impl Reach {
    fn of(graphs: &Graphs, reader: &Reader) -> Reach {
        let calls: BTreeMap<String, Vec<String>> =
            graphs.0.iter().map(|(method, graph)| (qualified(method), callees(graph, graphs))).collect();
        let mut reach = Reach { found: BTreeMap::new() };
        let hooks: Vec<String> =
            classes(&reader.module).into_iter().map(|class| format!("{class}.__setstate__")).collect();
        reach.follow(hooks, Reached::Load, &calls);
        let class = reader.code.class();
        let own = |name: &String| calls.contains_key(name) && name.rsplit_once('.').is_some_and(|(of, _)| of == class);
        let mut methods: Vec<String> = calls.keys().filter(|name| own(name)).cloned().collect();
        methods.sort_by_key(|name| !name.ends_with(".forward"));
        reach.follow(methods, Reached::Call, &calls);
        reach
    }

    fn follow(&mut self, roots: Vec<String>, reached: Reached, calls: &BTreeMap<String, Vec<String>>) {
        let mut work: Vec<(String, Option<String>)> = roots.into_iter().rev().map(|root| (root, None)).collect();
        while let Some((name, by)) = work.pop() {
            if !calls.contains_key(&name) || self.found.contains_key(&name) {
                continue;
            }
            work.extend(calls[&name].iter().map(|callee| (callee.clone(), Some(name.clone()))));
            self.found.insert(name, (reached, by));
        }
    }

    /// When a method runs.
    fn when(&self, name: &str) -> Reached {
        self.found.get(name).map_or(Reached::Name, |(reached, _)| *reached)
    }

    /// The calls that lead to a method. In a chain of calls they are many, so that they are found
    /// for findings only.
    fn path(&self, name: &str) -> Vec<String> {
        let mut path = vec![name.to_owned()];
        while let Some((_, Some(by))) = path.last().and_then(|last| self.found.get(last)) {
            path.push(by.clone());
        }
        path.reverse();
        path
    }

    /// The entry points of calls, with the objects that they are called on: methods of the module,
    /// and methods without callers for each object of their class.
    fn roots<'r>(&self, graphs: &Graphs, reader: &'r Reader) -> Vec<(MethodName, &'r StoredValue)> {
        let is_root = |method: &&MethodName| match self.found.get(&qualified(method)) {
            None => true,
            Some((reached, by)) => *reached == Reached::Call && by.is_none(),
        };
        let methods = graphs.0.iter().map(|(method, _)| method).filter(is_root);
        let of_object = |method: &MethodName| {
            let all = objects(&reader.module);
            let of_class =
                |object: &&StoredValue| matches!(object, StoredValue::Object { class, .. } if *class == method.class);
            let mut found: Vec<&StoredValue> = all.into_iter().filter(of_class).collect();
            if found.is_empty() {
                found.push(&reader.module);
            }
            found.into_iter().map(|object| (method.clone(), object)).collect::<Vec<_>>()
        };
        methods.flat_map(of_object).collect()
    }
}

/// The callees of a graph, by qualified names; a call of an interface may be one of every method
/// of that name.
fn callees(graph: &Graph, graphs: &Graphs) -> Vec<String> {
    let mut names: BTreeSet<String> = called(graph).iter().map(qualified).collect();
    each_node(graph, &mut |graph, node| {
        let first = graph.inputs(node).next().map(|value| graph.ty(value).kind());
        if let (prim::CALL_METHOD, Some(TypeKind::Interface(_)), Some(Attribute::Str(name))) =
            (graph.kind(node), first, graph.attribute(node, attr::NAME))
        {
            let same = graphs.0.iter().filter(|(method, _)| method.name.as_bytes() == &**name);
            names.extend(same.map(|(method, _)| qualified(method)));
        }
    });
    names.into_iter().collect()
}

/// The objects of a module, itself first.
fn objects(module: &StoredValue) -> Vec<&StoredValue> {
    let (mut found, mut seen, mut work) = (Vec::new(), BTreeSet::new(), vec![module]);
    while let Some(value) = work.pop() {
        match value {
            StoredValue::Object { number, state, .. } if seen.insert(*number) => {
                found.push(value);
                work.push(state);
            }
            StoredValue::Tuple(items) | StoredValue::List(items) => work.extend(items),
            StoredValue::Dict(entries) => work.extend(entries.iter().flat_map(|(key, value)| [key, value])),
            StoredValue::Made { from, .. } => work.push(from),
            _ => {}
        }
    }
    found
}

/// Classes of the objects of a module.
fn classes(module: &StoredValue) -> BTreeSet<&str> {
    let mut found = BTreeSet::new();
    for object in objects(module) {
        if let StoredValue::Object { class, .. } = object {
            found.insert(class.as_str());
        }
    }
    found
}
