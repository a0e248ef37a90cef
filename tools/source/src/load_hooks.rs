//! Load hooks: objects that code of the archive makes of what is stored.
//!
//! ```text
//! def __setstate__(self, state: Tuple[Tensor, float]) -> NoneType:
//!   self.w = torch.div((state)[0], (state)[1])      stored (t, 2.)  =>  w = t / 2
//!   self.scale = (state)[1]                                             scale = 2.
//! ```
//!
//! PyTorch runs these methods while it loads a file, before anybody can look at the module. Here
//! the interpreter runs them, and nothing else does: without files, raw memory, the network and
//! random numbers, within a budget of steps, memory and work ([`HookBudget`]).

use crate::archive_code::{ArchiveCode, MethodName};
use crate::hook_meter::HookMeter;
use crate::inlined_methods::{called, qualified};
use crate::source_error::{Result, SourceError, fail};
use jitopt_archive::{Archive, StoredValue};
use jitopt_core::interpreter::environment::Environment;
use jitopt_core::interpreter::machine::Machine;
use jitopt_core::interpreter::{IValue, Object, Reason, Stop};
use jitopt_core::ir::Graph;
use jitopt_core::ops::touches::touch;
use jitopt_core::ops::{self, rules::Nondeterminism};
use jitopt_core::symbol::Symbol;
use jitopt_core::tensor::Tensor;
use jitopt_core::types::{Type, TypeKind};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

/// The method that makes an object of what is stored.
const HOOK: &str = "__setstate__";
/// Nodes that all hooks of an archive may run.
const MOST_STEPS: u64 = 1_000_000;

/// The remaining budget of the load hooks of an archive: all of them share the steps.
#[derive(Debug)]
pub(crate) struct HookBudget {
    steps: Cell<u64>,
}

impl Default for HookBudget {
    fn default() -> HookBudget {
        HookBudget { steps: Cell::new(MOST_STEPS) }
    }
}

/// A hook that ran.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunHook {
    /// The object in the module, `encoder.0`; empty for the module itself.
    pub path: String,
    /// Its class.
    pub class: String,
}

impl ArchiveCode {
    /// Whether code makes an object of this class of what is stored.
    pub(crate) fn has_hook(&self, class: &str) -> bool {
        self.names.method(class, HOOK).is_some()
    }

    /// The tensors of the objects that load hooks make, by qualified name.
    ///
    /// # Errors
    /// A hook raises, or exceeds its budget.
    pub fn made_tensors(&self, archive: &Archive, module: &StoredValue) -> Result<Vec<(String, Tensor)>> {
        let mut values = crate::stored_ivalues::Values::of_module(archive, self);
        let (mut work, mut made) = (vec![(String::new(), module)], Vec::new());
        while let Some((path, stored)) = work.pop() {
            match stored {
                StoredValue::Object { class, .. } if self.has_hook(class) => {
                    collect_tensors(&path, &values.value(stored)?, 0, &mut made);
                }
                StoredValue::Object { .. } => {
                    work.extend(
                        stored.attributes().into_iter().rev().map(|(name, inner)| (joined(&path, name), inner)),
                    );
                }
                _ => {}
            }
        }
        Ok(made)
    }

    /// Runs the load hooks of a module, innermost first, as `torch.jit.load` does.
    ///
    /// # Errors
    /// A hook raises, exceeds its budget, does what no hook needs, or leaves an attribute unset.
    pub fn run_hooks(&self, archive: &Archive, module: &StoredValue) -> Result<Vec<RunHook>> {
        let mut values = crate::stored_ivalues::Values::of_module(archive, self);
        let mut ran = Vec::new();
        let mut work = vec![(String::new(), module)];
        while let Some((path, stored)) = work.pop() {
            let joined = |part: &str| if path.is_empty() { part.to_owned() } else { format!("{path}.{part}") };
            match stored {
                StoredValue::Object { class, .. } if self.has_hook(class) => {
                    values.value(stored)?;
                    ran.push(RunHook { path, class: class.clone() });
                }
                StoredValue::Object { .. } => {
                    work.extend(stored.attributes().into_iter().rev().map(|(name, value)| (joined(name), value)));
                }
                StoredValue::Tuple(items) | StoredValue::List(items) => {
                    work.extend(items.iter().enumerate().rev().map(|(i, item)| (joined(&i.to_string()), item)));
                }
                StoredValue::Dict(entries) => {
                    work.extend(entries.iter().rev().map(|(key, value)| (joined(&key_text(key)), value)));
                }
                _ => {}
            }
        }
        Ok(ran)
    }

    /// The object that the hook of a class makes of a state.
    pub(crate) fn restored(&self, class: &str, state: IValue, budget: &HookBudget) -> Result<IValue> {
        let hook = MethodName { class: class.to_owned(), name: HOOK.to_owned() };
        let in_hook = |error: SourceError| SourceError {
            reason: format!("the load hook `{class}.{HOOK}` {}", error.reason),
            ..error
        };
        let graph =
            self.untidied(&hook, true).map_err(|e| SourceError { reason: format!("is not read: {}", e.reason), ..e });
        let graph = graph.map_err(in_hook)?;
        let callees = self.callees_of(&graph).map_err(in_hook)?;
        std::iter::once(&graph).chain(callees.values()).try_for_each(refuse_touches).map_err(in_hook)?;
        let object = IValue::Object(Rc::new(Object { class: Symbol::new(class), attributes: RefCell::default() }));
        let mut meter = HookMeter::for_state(&state);
        let mut environment = Environment::default();
        environment.callees = Rc::new(callees);
        environment.max_steps = Some(budget.steps.get());
        environment.release = Some(self.release);
        let mut machine = Machine::new(&graph, &environment).watched(&mut meter);
        let ran = machine.run(vec![object.clone(), state]);
        budget.steps.set(budget.steps.get().saturating_sub(machine.steps()));
        ran.map_err(|stop| in_hook(SourceError::new(why(&stop))))?;
        self.check_attributes(class, &object).map_err(in_hook)?;
        Ok(object)
    }

    /// What a method of the module without arguments returns: it runs as load hooks do.
    ///
    /// # Errors
    /// As of [`ArchiveCode::run_hooks`].
    pub fn called_without_arguments(
        &self,
        archive: &Archive,
        module: &StoredValue,
        method: &MethodName,
    ) -> Result<IValue> {
        let in_method =
            |error: SourceError| SourceError { reason: format!("`{}` {}", method.name, error.reason), ..error };
        let graph = self.untidied(method, true)?;
        let callees = self.callees_of(&graph)?;
        std::iter::once(&graph).chain(callees.values()).try_for_each(refuse_touches).map_err(in_method)?;
        let object = crate::stored_ivalues::Values::of_module(archive, self).value(module)?;
        let mut meter = HookMeter::for_state(&object);
        let mut environment = Environment::default();
        environment.callees = Rc::new(callees);
        environment.max_steps = Some(MOST_STEPS);
        environment.release = Some(self.release);
        let ran = Machine::new(&graph, &environment).watched(&mut meter).run(vec![object]);
        let mut results = ran.map_err(|stop| in_method(SourceError::new(why(&stop))))?;
        results.pop().map_or_else(|| fail("a method returns nothing").map_err(in_method), Ok)
    }

    /// The graphs of all that a graph calls, by qualified names.
    fn callees_of(&self, graph: &Graph) -> Result<BTreeMap<String, Graph>> {
        let mut graphs = BTreeMap::new();
        let mut work = called(graph);
        while let Some(method) = work.pop() {
            let name = qualified(&method);
            if self.callable(&method).is_none() || graphs.contains_key(&name) {
                continue;
            }
            let callee = self.untidied(&method, true)?;
            work.extend(called(&callee));
            graphs.insert(name, callee);
        }
        Ok(graphs)
    }

    /// Every attribute must have a value after the hook; those that may be None have that.
    fn check_attributes(&self, class: &str, object: &IValue) -> Result<()> {
        let (Some(declared), IValue::Object(object)) = (self.names.class(class), object) else { return Ok(()) };
        for field in declared.def.fields.iter().filter(|field| field.value.is_none()) {
            let Some(ty) = self.names.attribute_type(declared, &field.name).transpose()? else { continue };
            let mut attributes = object.attributes.borrow_mut();
            if attributes.contains_key(&field.name) {
                continue;
            }
            if !(ty == Type::none() || matches!(ty.kind(), TypeKind::Optional(_))) {
                return fail(format!("leaves the attribute `{}` unset", field.name));
            }
            attributes.insert(field.name.clone(), IValue::None);
        }
        Ok(())
    }
}

/// Refuses operators that no hook needs: files, raw memory, the network, random numbers.
fn refuse_touches(graph: &Graph) -> Result<()> {
    let mut graphs = vec![graph];
    while let Some(graph) = graphs.pop() {
        for node in graph.all_nodes() {
            graphs.extend(graph.subgraph(node));
            let kind = graph.kind(node);
            if let Some(touch) = touch(kind).filter(|touch| !touch.is_allowed_in_hooks()) {
                return fail(format!("calls `{kind}`: {}", touch.in_words()));
            }
            // What calls, branches and loops run is looked at itself.
            if kind.as_str().starts_with("prim::") {
                continue;
            }
            let types: Vec<_> = graph.inputs(node).map(|value| graph.ty(value)).collect();
            let operator = ops::operator(graph.era, kind);
            if operator.nondeterminism(operator.resolve(&types).schema()) == Nondeterminism::Always {
                return fail(format!("calls `{kind}`, whose results are random"));
            }
        }
    }
    Ok(())
}

fn why(stop: &Stop) -> String {
    let place = stop.node.as_ref().map_or(String::new(), |node| format!("\n  at {node}"));
    match &stop.reason {
        Reason::Raised(exception) => format!("raises {}: {}{place}", exception.class, exception.message),
        Reason::Budget(what) => format!("exceeds its budget: {what}{place}"),
        other => format!("cannot be run here: {other}{place}"),
    }
}

fn key_text(key: &StoredValue) -> String {
    match key {
        StoredValue::Text(text) => text.clone(),
        StoredValue::Int(number) => number.to_string(),
        _ => "?".to_owned(),
    }
}
/// Objects within an object that a hook made.
const DEEPEST_MADE: usize = 64;

fn joined(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

/// Adds the tensors of an object and of objects in it.
fn collect_tensors(path: &str, value: &IValue, depth: usize, made: &mut Vec<(String, Tensor)>) {
    let mut inner = |name: &str, value: &IValue| collect_tensors(&joined(path, name), value, depth + 1, made);
    match value {
        IValue::Tensor(tensor) => made.push((path.to_owned(), tensor.clone())),
        _ if depth > DEEPEST_MADE => {}
        IValue::Object(object) => object.attributes.borrow().iter().for_each(|(name, value)| inner(name, value)),
        IValue::List(parts) => {
            parts.borrow().iter().enumerate().for_each(|(at, value)| inner(&at.to_string(), value));
        }
        IValue::Tuple(parts) => parts.iter().enumerate().for_each(|(at, value)| inner(&at.to_string(), value)),
        _ => {}
    }
}
