//! Graphs within graphs: forks and calls.

use super::{Known, O, Smith, returned};
use jitopt_core::interpreter::ivalue::Object;
use jitopt_core::interpreter::{Future, IValue, Machine};
use jitopt_core::ir::{Attribute, Graph, Node, Value};
use jitopt_core::symbol::{Symbol, aten, attr, prim};
use jitopt_core::types::{Simple, Type, TypeKind};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

const CLASS: &str = "__torch__.M";

/// A module object for method calls; it has no attributes.
pub(super) fn module() -> IValue {
    IValue::Object(Rc::new(Object { class: Symbol::new(CLASS), attributes: RefCell::default() }))
}

fn share_memory(a: &IValue, b: &IValue) -> bool {
    matches!((a, b), (IValue::Tensor(a), IValue::Tensor(b)) if a.shares_storage(b))
}

impl Smith {
    /// A separate graph, run on these values while it is generated; `extra` parameters come first
    /// and are unused.
    fn body(&mut self, extra: &[IValue], arguments: &[Known], results: usize) -> Option<(Graph, Vec<IValue>)> {
        let release = self.graph.release();
        let outer = std::mem::replace(&mut self.graph, Graph::new());
        self.graph.set_release(release);
        let block = std::mem::replace(&mut self.block, self.graph.root());
        let known = std::mem::take(&mut self.known);
        let (constants, made) = (std::mem::take(&mut self.constants), std::mem::take(&mut self.made));
        let inside = std::mem::replace(&mut self.inside, true);
        for value in extra {
            self.graph.add_param(self.block, returned(value));
        }
        for (_, value) in arguments {
            let param = self.graph.add_param(self.block, returned(value));
            self.known.push((param, value.clone()));
        }
        let nodes = 2 + self.draws.below(5);
        self.depth -= 1;
        self.fill(nodes);
        self.depth += 1;
        // Two calls may return the same memory if it is a constant of the callee, but inlined
        // copies have a constant each: the text of a constant does not identify its memory.
        let mut found = self.known.clone();
        found.retain(|(_, value)| !self.constants.iter().any(|(_, constant)| share_memory(value, constant)));
        let found = self.results(&found, &vec![Type::tensor(); results]);
        found.iter().flatten().for_each(|(value, _)| self.graph.add_result(self.block, *value));
        let body = std::mem::replace(&mut self.graph, outer);
        (self.block, self.known, self.inside) = (block, known, inside);
        (self.constants, self.made) = (constants, made);
        Some((body, found?.into_iter().map(|known| known.1).collect()))
    }

    /// Some values to pass as arguments.
    fn arguments(&mut self) -> Option<Vec<Known>> {
        let n = 1 + self.draws.below(3);
        let kinds: Vec<_> = (0..n).map(|i| if i > 0 && self.chance(4) { O::Int } else { O::Tensor }).collect();
        kinds.into_iter().map(|kind| self.earlier(kind)).collect()
    }

    /// Forks a graph. Its future is waited for at once, later, or never.
    pub(super) fn fork(&mut self) {
        let Some(arguments) = self.arguments() else { return };
        let Some((body, mut results)) = self.body(&[], &arguments, 1) else { return };
        let operands: Vec<Value> = arguments.iter().map(|argument| argument.0).collect();
        let future = Type::new(TypeKind::Future(Type::tensor()));
        let node = self.graph.create_op(prim::FORK, &operands, future);
        self.graph.set_attribute(node, attr::SUBGRAPH, Attribute::Graph(Box::new(body)));
        self.graph.append(self.block, node);
        let value = IValue::Future(Rc::new(Future::known(Ok(results.remove(0)))));
        self.known.push((self.graph.output(node, 0), value));
        if self.chance(3) {
            self.wait();
        }
    }

    pub(super) fn earlier_future(&mut self) -> Option<Known> {
        let all: Vec<Known> =
            self.known.iter().filter(|(_, value)| matches!(value, IValue::Future(_))).cloned().collect();
        if all.is_empty() { None } else { Some(self.pick(&all)) }
    }

    /// Waits for a future.
    pub(super) fn wait(&mut self) {
        let Some((future, IValue::Future(value))) = self.earlier_future() else { return };
        let Ok(value) = value.result().clone() else { return };
        let node = self.graph.create_op(aten::WAIT, &[future], Type::tensor());
        self.graph.append(self.block, node);
        self.known.push((self.graph.output(node, 0), value));
    }

    /// The result of a call or of a fork that is waited for: its argument, which it may write.
    pub(super) fn by_call(&mut self, base: &Known, forks: bool) -> Option<Known> {
        let release = self.graph.release();
        let outer = std::mem::replace(&mut self.graph, Graph::new());
        self.graph.set_release(release);
        let block = std::mem::replace(&mut self.block, self.graph.root());
        let (constants, made, seen) =
            (std::mem::take(&mut self.constants), std::mem::take(&mut self.made), self.known.len());
        let param = (self.graph.add_param(self.block, returned(&base.1)), base.1.clone());
        if let IValue::List(_) = base.1 {
            let (at, number) = (self.constant(IValue::Int(0)), self.constant(IValue::Int(5)));
            let element = self.made_of("aten::__getitem__", &[param.clone(), at]);
            element.and_then(|element| self.made_of("aten::fill_", &[element, number]));
        } else if self.chance(2) {
            let one = self.constant(IValue::Int(1));
            self.made_of("aten::add_", &[param.clone(), one.clone(), one]);
        }
        if self.chance(3) {
            let text = self.constant(IValue::from("called"));
            self.run("prim::Print", &[text]);
        }
        self.graph.add_result(self.block, param.0);
        let body = std::mem::replace(&mut self.graph, outer);
        self.block = block;
        (self.constants, self.made) = (constants, made);
        self.known.truncate(seen);
        if forks {
            let future = Type::new(TypeKind::Future(Type::tensor()));
            let node = self.graph.create_op(prim::FORK, &[base.0], future);
            self.graph.set_attribute(node, attr::SUBGRAPH, Attribute::Graph(Box::new(body)));
            self.graph.append(self.block, node);
            let mut waited = self.graph.output(node, 0);
            if self.chance(2) {
                let pair = Type::tuple(&[future, Type::tensor()]);
                let tuple = self.graph.create_op(prim::TUPLE_CONSTRUCT, &[waited, base.0], pair);
                self.graph.append(self.block, tuple);
                let (first, _) = self.constant(IValue::Int(0));
                let index = self.graph.create_op(prim::TUPLE_INDEX, &[self.graph.output(tuple, 0), first], future);
                self.graph.append(self.block, index);
                waited = self.graph.output(index, 0);
            }
            let wait = self.graph.create_op(aten::WAIT, &[waited], Type::tensor());
            self.graph.append(self.block, wait);
            return Some((self.graph.output(wait, 0), base.1.clone()));
        }
        let name = format!("f{}", self.env.callees.len());
        let mut callees: BTreeMap<String, Graph> = (*self.env.callees).clone();
        callees.insert(name.clone(), body);
        self.env.callees = Rc::new(callees);
        let at = self.known.len();
        self.call_node(&name, None, std::slice::from_ref(base), vec![base.1.clone()]);
        self.known.get(at).cloned()
    }

    /// Calls a function or a method, a new one or an existing one.
    pub(super) fn call(&mut self) {
        let objects: Vec<Known> =
            self.known.iter().filter(|(_, value)| matches!(value, IValue::Object(_))).cloned().collect();
        let object = if objects.is_empty() || self.chance(2) { None } else { Some(self.pick(&objects)) };
        if self.chance(3) && self.call_again(object.clone()) {
            return;
        }
        let Some(arguments) = self.arguments() else { return };
        let extra: Vec<IValue> = object.iter().map(|known| known.1.clone()).collect();
        let n = 1 + self.draws.below(2);
        let Some((body, results)) = self.body(&extra, &arguments, n) else { return };
        let count = self.env.callees.len();
        let name = match &object {
            Some(_) => format!("{CLASS}.m{count}"),
            None => format!("f{count}"),
        };
        let mut callees: BTreeMap<String, Graph> = (*self.env.callees).clone();
        if object.is_some() {
            // Another function with the same short name.
            let plain = callees.get("f0").cloned().unwrap_or_else(|| body.clone());
            callees.insert(format!("m{count}"), plain);
        }
        callees.insert(name.clone(), body);
        self.env.callees = Rc::new(callees);
        self.call_node(&name, object, &arguments, results);
    }

    fn call_node(&mut self, name: &str, object: Option<Known>, arguments: &[Known], results: Vec<IValue>) {
        let node = match object {
            Some((object, _)) => {
                let node = self.graph.create(prim::CALL_METHOD);
                let short = name.rsplit('.').next().unwrap_or(name);
                self.graph.set_attribute(node, attr::NAME, Attribute::Str(short.as_bytes().into()));
                self.graph.add_input(node, object);
                node
            }
            None => {
                let function = self.function(name);
                let node = self.graph.create(prim::CALL_FUNCTION);
                self.graph.add_input(node, function);
                node
            }
        };
        arguments.iter().for_each(|(value, _)| self.graph.add_input(node, *value));
        self.graph.append(self.block, node);
        for value in results {
            let output = self.graph.add_output(node, returned(&value));
            self.known.push((output, value));
        }
    }

    fn function(&mut self, name: &str) -> Value {
        let node: Node = self.graph.create_op(prim::CONSTANT, &[], Type::simple(Simple::Function));
        self.graph.set_attribute(node, attr::NAME, Attribute::Str(name.as_bytes().into()));
        self.graph.append(self.block, node);
        self.graph.output(node, 0)
    }

    /// Calls an existing callee on other values; false if that fails.
    fn call_again(&mut self, object: Option<Known>) -> bool {
        let prefix = if object.is_some() { CLASS } else { "f" };
        let names: Vec<String> = self.env.callees.keys().filter(|name| name.starts_with(prefix)).cloned().collect();
        if names.is_empty() {
            return false;
        }
        let name = self.pick(&names);
        let callees = self.env.callees.clone();
        let Some(callee) = callees.get(&name) else { return false };
        let skip = usize::from(object.is_some());
        let types: Vec<Type> = callee.params(callee.root()).skip(skip).map(|value| callee.ty(value)).collect();
        let known = self.known.clone();
        let Some(arguments) = self.results(&known, &types) else { return false };
        let inputs = object.iter().chain(&arguments).map(|known| known.1.clone()).collect();
        let ran = Machine::new(callee, &self.env).run(inputs);
        let Ok(results) = ran else { return false };
        self.call_node(&name, object, &arguments, results);
        true
    }
}
