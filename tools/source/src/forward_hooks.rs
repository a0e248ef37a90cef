//! Hooks of `forward`: what Python calls around it when a module is called.
//!
//! ```text
//! class M(Module):                          graph(%self, %x):
//!   __forward_pre_hooks__ = ["pre", ]         %1 = prim::TupleConstruct(%x)
//!   __forward_hooks__ = ["post", ]       =>   %2 = prim::CallMethod[name="pre"](%self, %1)
//!                                             %3 = prim::TupleUnpack(%2)
//!                                             %4 = prim::CallMethod[name="forward"](%self, %3)
//!                                             %5 = prim::TupleConstruct(%3)
//!                                             %6 = prim::CallMethod[name="post"](%self, %5, %4)
//! ```
//!
//! Hooks of modules in the module are in the code, as calls. `forward` is printed without its own.

use crate::archive_code::{ArchiveCode, MethodName};
use crate::source_error::{Result, fail};
use jitopt_core::ir::{Attribute, Graph, Value};
use jitopt_core::symbol::{attr, prim};
use jitopt_core::types::Type;

impl ArchiveCode {
    /// A graph that calls a method as Python does: `forward` with its hooks, others as they are.
    pub(crate) fn called_from_outside(&self, method: &MethodName) -> Result<Graph> {
        let class = self.names.class(&method.class).map(|class| &class.def);
        let hooks = class.filter(|class| !class.before_forward.is_empty() || !class.after_forward.is_empty());
        let Some(class) = hooks.filter(|_| method.name == "forward") else { return self.emitted(method, true) };
        let mut caller = Caller { code: self, class: &method.class, graph: self.with_params_of(method)? };
        let mut values: Vec<Value> = caller.graph.params(caller.graph.root()).collect();
        let object = values.remove(0);
        for hook in &class.before_forward {
            let given = caller.tuple(&values);
            let result = caller.call(hook, &[object, given])?;
            values = caller.arguments_of(result, values);
        }
        let arguments: Vec<Value> = std::iter::once(object).chain(values.iter().copied()).collect();
        let mut result = caller.call("forward", &arguments)?;
        for hook in &class.after_forward {
            let given = caller.tuple(&values);
            let changed = caller.call(hook, &[object, given, result])?;
            // A hook that returns nothing looks only.
            if caller.graph.ty(changed) != Type::none() {
                result = changed;
            }
        }
        let root = caller.graph.root();
        caller.graph.add_result(root, result);
        Ok(caller.graph)
    }

    /// An empty graph with the params of a method.
    fn with_params_of(&self, method: &MethodName) -> Result<Graph> {
        let source = self.emitted(method, true)?;
        let mut graph = Graph::new();
        self.set_dialect(&mut graph);
        for param in source.params(source.root()) {
            let root = graph.root();
            let copy = graph.add_param(root, source.ty(param));
            graph.set_name(copy, source.name(param).as_bytes());
        }
        Ok(graph)
    }
}

/// The graph that calls.
struct Caller<'c> {
    code: &'c ArchiveCode,
    class: &'c str,
    graph: Graph,
}

impl Caller<'_> {
    fn tuple(&mut self, values: &[Value]) -> Value {
        let types: Vec<Type> = values.iter().map(|value| self.graph.ty(*value)).collect();
        let node = self.graph.create(prim::TUPLE_CONSTRUCT);
        self.graph.set_inputs(node, values.iter().copied());
        let tuple = self.graph.add_output(node, Type::tuple(&types));
        self.graph.append(self.graph.root(), node);
        tuple
    }

    fn call(&mut self, name: &str, inputs: &[Value]) -> Result<Value> {
        let Some(callable) = self.code.names.method(self.class, name) else {
            return fail(format!("the class `{}` has no method `{name}`, a hook of `forward`", self.class));
        };
        let ty = self.code.result_type(callable)?;
        let node = self.graph.create(prim::CALL_METHOD);
        self.graph.set_inputs(node, inputs.iter().copied());
        self.graph.set_attribute(node, attr::NAME, Attribute::Str(name.as_bytes().into()));
        let result = self.graph.add_output(node, ty);
        self.graph.append(self.graph.root(), node);
        Ok(result)
    }

    /// The arguments after a hook: what it returned, one value or several, or those before it.
    fn arguments_of(&mut self, result: Value, before: Vec<Value>) -> Vec<Value> {
        let ty = self.graph.ty(result);
        if ty == Type::none() {
            return before;
        }
        let Some(elements) = ty.tuple_elements() else { return vec![result] };
        let node = self.graph.create(prim::TUPLE_UNPACK);
        self.graph.set_inputs(node, [result].into_iter());
        let parts = elements.iter().map(|ty| self.graph.add_output(node, *ty)).collect();
        self.graph.append(self.graph.root(), node);
        parts
    }
}
