//! Random executable graphs, generated from a seed.
//!
//! Every node runs as soon as it is created: a node that raises is removed, and later nodes are
//! chosen by the values that exist, not by their types. So graphs are valid, shapes fit, and nearly
//! every node has an effect on the results: views and writes through them, broadcasting, unusual
//! element types, branches, loops, lists, tuples, repeated work, dead code, random numbers,
//! printing, exceptions, calls, forks.

mod aliases;
mod boxes;
mod idioms;
mod motifs;
mod patterns;
mod products;
mod sections;
mod workloads;

use crate::sharing::{Copier, copies};
use crate::showing::Settings;
use jitopt_core::interpreter::library::{self};
use jitopt_core::interpreter::random::Philox;
use jitopt_core::interpreter::{Call, Environment, IValue};
use jitopt_core::ir::{Attribute, Block, Float, FloatStyle, Graph, Node, Value};
use jitopt_core::ops;
use jitopt_core::ops::rules::Nondeterminism;
use jitopt_core::symbol::{Symbol, attr, prim};
use jitopt_core::tensor::{C128, DType, Precision, Scalar, Tensor};
use jitopt_core::types::release::Release;
use jitopt_core::types::spelling::parse_all;
use jitopt_core::types::{Simple, Type, TypeKind};
use std::collections::BTreeMap;
use std::rc::Rc;

/// The size and contents of a generated graph.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// The seed: equal seeds give equal graphs.
    pub seed: u64,
    /// Approximate number of nodes.
    pub nodes: usize,
    /// Maximum nesting depth of blocks.
    pub depth: usize,
}

impl Default for Plan {
    fn default() -> Plan {
        Plan { seed: 0, nodes: 20, depth: 2 }
    }
}

/// A graph, and inputs that it runs on.
pub struct Forged {
    /// The graph.
    pub graph: Graph,
    /// One value per parameter.
    pub inputs: Vec<IValue>,
    /// The graphs that it calls.
    pub callees: BTreeMap<String, Graph>,
}

impl Forged {
    /// Settings with which its calls resolve.
    pub fn settings(&self) -> Settings {
        Settings { callees: Rc::new(self.callees.clone()), ..Settings::default() }
    }
}

/// A value in scope, and its content when the node ran.
type Known = (Value, IValue);

struct Smith {
    graph: Graph,
    draws: Philox,
    env: Environment,
    /// Values in scope, those of enclosing blocks included.
    known: Vec<Known>,
    block: Block,
    depth: usize,
    /// The sizes of dimensions; few, so that shapes fit.
    sizes: [i64; 3],
    /// The constants so far, for reuse.
    constants: Vec<Known>,
    /// The nodes so far, those of closed blocks included, for repetition.
    made: Vec<(Symbol, Vec<Value>)>,
    /// Whether this is the body of a fork or a callee, which must not use random numbers: they are
    /// keyed by the position of a node.
    inside: bool,
    /// Whether the graph contains no writes: writes disable many rewrites.
    pure: bool,
    /// Whether all types are complete, as after profiling. Many rules require element types and
    /// sizes.
    profiled: bool,
    /// Conditions and result types of the branches so far.
    branches: Vec<(Known, Vec<Type>)>,
    /// The inputs of the graph, one value per parameter.
    inputs: Vec<IValue>,
}

/// Generates a graph.
pub fn forge(plan: Plan) -> Forged {
    let mut graph = Graph::new();
    let mut draws = Philox::new(plan.seed, 0x736d_6974, 0);
    // Semantics of old releases are in few graphs, and in motifs of one kind or another.
    if draws.one_in(if plan.seed % 4 == 3 { 4 } else { 8 }) {
        graph.set_release(Release(1, 3));
    }
    let sizes = [draws.int(0, 4), draws.int(1, 4), draws.int(1, 5)];
    let mut copier = Copier::new(Precision::Typed);
    let env = Settings::default().environment(Precision::Typed, &mut copier);
    let block = graph.root();
    let (known, constants, made) = (Vec::new(), Vec::new(), Vec::new());
    let (depth, pure, branches) = (plan.depth, draws.one_in(3), Vec::new());
    let (inside, profiled) = (false, plan.seed % 3 == 2);
    let inputs = Vec::new();
    let mut smith = Smith {
        graph,
        draws,
        env,
        known,
        block,
        depth,
        sizes,
        constants,
        made,
        inside,
        pure,
        profiled,
        branches,
        inputs,
    };
    smith.inputs = smith.params();
    match plan.seed % 4 {
        3 => smith.with_motifs(plan.nodes),
        1 => {
            smith.fill(plan.nodes);
            smith.workload();
        }
        _ => smith.fill(plan.nodes),
    }
    smith.finish();
    Forged { graph: smith.graph, inputs: smith.inputs, callees: (*smith.env.callees).clone() }
}

/// An operator template: kind, and the class of each operand.
struct Template {
    kind: &'static str,
    operands: &'static [Operand],
}

#[derive(Clone, Copy, PartialEq)]
enum Operand {
    Tensor,
    Tensors,
    /// A dict of tensors.
    Dict,
    /// A key of dicts.
    Key,
    /// An int of the program.
    Int,
    Ints,
    /// A constant: a small int.
    Small,
    /// A constant: a dimension.
    Dim,
    /// A constant: usually 1.
    Alpha,
    Number,
    Bool,
    No,
    None,
    /// A constant list of small ints, of one of the sizes.
    Shape,
    DType,
    Str,
}

use Operand as O;

macro_rules! templates {
    ($($kind:literal ($($operand:ident)*);)*) => {
        const TEMPLATES: &[Template] = &[$(Template { kind: $kind, operands: &[$(O::$operand),*] },)*];
    };
}

templates! {
    "aten::add" (Tensor Tensor Alpha); "aten::add" (Tensor Number Alpha); "aten::sub" (Tensor Tensor Alpha);
    "aten::mul" (Tensor Tensor); "aten::mul" (Tensor Number); "aten::div" (Tensor Tensor); "aten::rsub" (Tensor Number Alpha);
    "aten::maximum" (Tensor Tensor); "aten::pow" (Tensor Number); "aten::remainder" (Tensor Tensor);
    "aten::neg" (Tensor); "aten::abs" (Tensor); "aten::relu" (Tensor); "aten::sigmoid" (Tensor); "aten::tanh" (Tensor);
    "aten::exp" (Tensor); "aten::log" (Tensor); "aten::sqrt" (Tensor); "aten::reciprocal" (Tensor); "aten::round" (Tensor);
    "aten::floor" (Tensor); "aten::sin" (Tensor); "aten::erf" (Tensor); "aten::bitwise_not" (Tensor);
    "aten::logical_not" (Tensor); "aten::isnan" (Tensor); "aten::clamp" (Tensor Number None);
    "aten::eq" (Tensor Tensor); "aten::lt" (Tensor Tensor); "aten::ge" (Tensor Number); "aten::ne" (Tensor Number);
    "aten::where" (Tensor Tensor Tensor); "aten::addcmul" (Tensor Tensor Tensor Alpha); "aten::lerp" (Tensor Tensor Number);
    "aten::type_as" (Tensor Tensor); "aten::to" (Tensor DType No No None); "aten::clone" (Tensor None);
    "aten::detach" (Tensor); "aten::contiguous" (Tensor Small);
    "aten::add_" (Tensor Tensor Alpha); "aten::mul_" (Tensor Number); "aten::relu_" (Tensor); "aten::sub_" (Tensor Tensor Alpha);
    "aten::copy_" (Tensor Tensor No); "aten::fill_" (Tensor Number); "aten::zero_" (Tensor); "aten::sigmoid_" (Tensor);
    "aten::t" (Tensor); "aten::transpose" (Tensor Dim Dim); "aten::select" (Tensor Dim Small);
    "aten::slice" (Tensor Dim Small Small Alpha); "aten::unsqueeze" (Tensor Dim); "aten::squeeze" (Tensor);
    "aten::view" (Tensor Shape); "aten::reshape" (Tensor Shape); "aten::expand" (Tensor Shape No); "aten::flatten" (Tensor Dim Dim);
    "aten::narrow" (Tensor Dim Small Small); "aten::expand_as" (Tensor Tensor); "aten::view_as" (Tensor Tensor);
    "aten::sum" (Tensor None); "aten::mean" (Tensor None); "aten::max" (Tensor); "aten::sum" (Tensor Shape Bool None);
    "aten::cumsum" (Tensor Dim None); "aten::softmax" (Tensor Dim None); "aten::any" (Tensor); "aten::all" (Tensor);
    "aten::mm" (Tensor Tensor); "aten::matmul" (Tensor Tensor); "aten::cat" (Tensors Dim); "aten::stack" (Tensors Dim);
    "aten::zeros_like" (Tensor None None None None None); "aten::full_like" (Tensor Number None None None None None);
    "aten::rand_like" (Tensor None None None None None); "aten::dropout" (Tensor Number Bool);
    "aten::chunk" (Tensor Small Dim); "aten::unbind" (Tensor Dim); "aten::split" (Tensor Small Dim);
    "aten::masked_fill" (Tensor Tensor Number); "aten::index_select" (Tensor Dim Tensor); "aten::embedding" (Tensor Tensor Small No No);
    "aten::size" (Tensor); "aten::size" (Tensor Dim); "aten::dim" (Tensor); "aten::numel" (Tensor); "aten::item" (Tensor);
    "aten::Int" (Tensor); "aten::Bool" (Tensor); "aten::Float" (Tensor); "prim::dtype" (Tensor);
    "aten::add" (Int Int); "aten::sub" (Int Int); "aten::mul" (Int Int); "aten::floordiv" (Int Int); "aten::remainder" (Int Int);
    "aten::neg" (Int); "aten::lt" (Int Int); "aten::eq" (Int Int); "aten::__and__" (Bool Bool); "aten::__not__" (Bool);
    "aten::append" (Tensors Tensor); "aten::len" (Tensors); "aten::__getitem__" (Tensors Small); "aten::len" (Ints);
    "aten::__getitem__" (Ints Small); "aten::append" (Ints Int); "aten::_set_item" (Tensors Small Tensor); "aten::pop" (Tensors Small);
    "aten::__is__" (Tensor None); "prim::Print" (Int Str); "prim::NumToTensor" (Int); "prim::Print" (Str); "prim::Print" (Tensor);
    "aten::ne" (Tensor Tensor); "aten::le" (Int Int); "aten::floor_divide" (Tensor Tensor); "aten::clamp" (Tensor Number Number);
    "aten::append" (Tensors Tensor); "aten::extend" (Tensors Tensors); "aten::insert" (Tensors Small Tensor); "aten::clear" (Tensors);
    "aten::__getitem__" (Tensors Small); "aten::_set_item" (Tensors Small Tensor); "aten::list" (Tensors); "aten::copy" (Tensors);
    "aten::__getitem__" (Dict Key); "aten::_set_item" (Dict Key Tensor); "aten::len" (Dict); "aten::values" (Dict);
    "aten::_set_item" (Ints Small Int); "aten::append" (Ints Small); "aten::broadcast_tensors" (Tensors); "aten::cat" (Tensors Dim);
    "aten::rand_like" (Tensor None None None None None); "aten::dropout" (Tensor Number Bool); "aten::alias" (Tensor);
    "aten::scaled_dot_product_attention" (Tensor Tensor Tensor None Number No None No); "aten::einsum" (Str Tensors);
    "aten::add" (Tensors Tensors); "aten::max" (Tensor Dim Bool); "aten::min" (Tensor Dim Bool); "aten::sort" (Tensor Dim Bool);
    "aten::var_mean" (Tensor Bool); "aten::max" (Tensor Dim Bool); "aten::transpose" (Tensor Dim Dim); "aten::flatten" (Tensor Dim Dim);
    "aten::eq" (Int Int); "aten::floordiv" (Int Int); "aten::lt" (Int Int); "aten::lt" (Tensor Tensor); "aten::bernoulli" (Tensor None); "aten::empty_like" (Tensor None None None None None);
}

impl Smith {
    fn chance(&mut self, n: usize) -> bool {
        self.draws.one_in(n)
    }

    fn pick<T: Clone>(&mut self, from: &[T]) -> T {
        from[self.draws.below(from.len())].clone()
    }

    // ---- inputs

    fn params(&mut self) -> Vec<IValue> {
        let n = 2 + self.draws.below(3);
        let mut inputs: Vec<IValue> = Vec::new();
        for i in 0..n {
            let value = match i {
                0 | 1 => IValue::Tensor(self.tensor()),
                _ => match self.draws.below(8) {
                    0 => IValue::Int(self.draws.int(-2, 4)),
                    4 => sections::module(),
                    1 => IValue::Bool(self.draws.one_in(2)),
                    2 => IValue::list([self.tensor(), self.tensor()]),
                    // Two inputs that are the same tensor.
                    3 => inputs[0].clone(),
                    // An input that is a view of another.
                    5 => part_of(&inputs[0]),
                    _ => IValue::Tensor(self.tensor()),
                },
            };
            inputs.push(value);
        }
        let inner = copies(&inputs, Precision::Typed);
        for (i, value) in inner.into_iter().enumerate() {
            let ty = value.tensor().filter(|_| self.profiled).map_or(value.ty(), refined);
            let param = self.graph.add_param(self.block, ty);
            self.graph.set_name(param, format!("x{i}").as_bytes());
            self.known.push((param, value));
        }
        inputs
    }

    fn tensor(&mut self) -> Tensor {
        let rank = self.draws.below(4);
        let sizes = self.sizes;
        let shape: Vec<i64> =
            (0..rank).map(|i| if self.draws.one_in(4) { 1 } else { sizes[(i + 3 - rank) % 3] }).collect();
        let dtypes = [
            DType::Float,
            DType::Float,
            DType::Float,
            DType::Double,
            DType::Long,
            DType::Bool,
            DType::Half,
            DType::BFloat16,
            DType::Int,
            DType::Byte,
            DType::ComplexFloat,
        ];
        let dtype = self.pick(&dtypes);
        let n: i64 = shape.iter().product();
        let elements: Vec<C128> = (0..n).map(|_| self.number(dtype)).collect();
        let made = Tensor::of(&elements, dtype, &shape, Precision::Typed);
        match rank >= 2 && self.draws.one_in(4) {
            true => made.transpose(rank - 1, rank - 2).copied().transpose(rank - 1, rank - 2),
            false => made,
        }
    }

    fn number(&mut self, dtype: DType) -> C128 {
        let special = [0.0, -0.0, 1.0, -1.0, f64::NAN, f64::INFINITY, 1e-40, 0.5];
        let real = |smith: &mut Smith| match smith.draws.one_in(8) {
            true => smith.pick(&special),
            false => smith.draws.normal(),
        };
        match dtype {
            dtype if dtype.is_complex() => C128::new(self.draws.normal(), self.draws.normal()),
            dtype if dtype.is_float() => C128::from(real(self)),
            _ => C128::from(self.draws.int(0, 4) as f64),
        }
    }

    // ---- nodes

    fn fill(&mut self, nodes: usize) {
        for _ in 0..nodes {
            match self.draws.below(64) {
                58 => self.products(),
                59..=63 => self.idiom(),
                46..=48 => self.look_write_look(),
                49 if !self.pure => self.written_for_the_next_iteration(),
                50 if !self.pure && self.depth > 0 => self.made_in_a_branch(),
                51 | 52 => self.identity(),
                54 if !self.pure && self.depth > 0 => self.write_outside(),
                55 if !self.pure => self.written_for_the_next_iteration(),
                53 if self.depth > 0 => self.across(),
                40 => self.equal_nodes(),
                41 => self.equal_constants(),
                42 | 43 if self.depth > 0 => self.fork(),
                44 | 45 => self.wait(),
                0 | 1 if self.depth > 0 => self.branch(),
                2 | 3 if self.depth > 0 => self.cycle(),
                4 | 5 => self.construct(),
                6 | 7 => self.tuple(),
                8 => self.raise(),
                9 | 10 => self.untuple(),
                11 => self.dict(),
                12 if self.depth > 0 => self.call(),
                13 if self.depth > 0 => self.fork(),
                14 => self.wait(),
                15 => self.expand(),
                16 | 17 => self.write_through(),
                18 => self.batch_norm(),
                19 => self.unpack_list(),
                20..=27 => self.repeat(),
                _ => self.operator(),
            }
        }
    }

    fn operator(&mut self) {
        let template = &TEMPLATES[self.draws.below(TEMPLATES.len())];
        let writes = template.kind.ends_with('_') && !template.kind.ends_with("__");
        if self.pure && (writes || matches!(template.operands[0], O::Tensors | O::Dict | O::Ints)) {
            return;
        }
        let (first, last) = (self.graph.last(self.block), self.known.len());
        let operands: Option<Vec<Known>> = template.operands.iter().map(|&operand| self.operand(operand)).collect();
        let done = operands.is_some_and(|operands| self.run(template.kind, &operands));
        if !done {
            self.take_back(first, last);
        }
    }

    /// Removes the nodes created since.
    fn take_back(&mut self, first: Option<Node>, known: usize) {
        self.known.truncate(known);
        while let Some(node) = self.graph.last(self.block).filter(|&node| Some(node) != first) {
            self.graph.erase(node);
        }
    }

    /// An operand: an existing value, or a fresh constant.
    fn operand(&mut self, operand: Operand) -> Option<Known> {
        let int = |n| Some(IValue::Int(n));
        let constant = match operand {
            O::Small => int(self.draws.int(-1, 3)),
            O::Dim => int(self.draws.int(-2, 2)),
            O::Alpha => int(if self.chance(5) { 2 } else { 1 }),
            O::Number => Some(match self.draws.below(4) {
                0 => IValue::Int(self.draws.int(-2, 4)),
                _ => IValue::Float(self.pick(&[0.0, -0.0, 0.5, 0.25, 1.0, -1.5, 2.0])),
            }),
            O::No => Some(IValue::Bool(false)),
            O::None => Some(IValue::None),
            O::Str => Some(IValue::from(self.pick(&["printed", "painted", "again", ""]))),
            O::Key => Some(IValue::from(self.pick(&["a", "b"]))),
            O::DType => int(self.pick(&[6, 7, 4, 5, 11, 15, 1])),
            O::Int if self.chance(3) => int(self.draws.int(-1, 5)),
            O::Bool if self.chance(2) => Some(IValue::Bool(self.draws.one_in(2))),
            O::Shape => return self.shape(),
            _ => None,
        };
        match constant {
            Some(value) => Some(self.constant(value)),
            None => self.earlier(operand),
        }
    }

    fn earlier(&mut self, operand: Operand) -> Option<Known> {
        let first = |list: &IValue| if let IValue::List(list) = list { list.borrow().first().cloned() } else { None };
        let fits = |(_, value): &&Known| match operand {
            O::Tensor => matches!(value, IValue::Tensor(_)),
            O::Int => matches!(value, IValue::Int(_)),
            O::Bool => matches!(value, IValue::Bool(_)),
            O::Tensors => matches!(first(value), Some(IValue::Tensor(_))),
            O::Ints => matches!(first(value), Some(IValue::Int(_))),
            O::Dict => matches!(value, IValue::Dict(_)),
            _ => false,
        };
        let all: Vec<Known> = self.known.iter().filter(fits).cloned().collect();
        if all.is_empty() {
            return None;
        }
        // Recent values are chosen more often.
        let back = self.draws.below(all.len()).min(self.draws.below(all.len()));
        Some(all[all.len() - 1 - back].clone())
    }

    fn shape(&mut self) -> Option<Known> {
        let n = 1 + self.draws.below(3);
        let sizes = self.sizes;
        if self.chance(3) {
            let list: Vec<IValue> =
                (0..n).map(|i| IValue::Int(if self.draws.one_in(3) { -1 } else { sizes[i % 3] })).collect();
            return Some(self.constant(IValue::list(list)));
        }
        let parts: Vec<Known> = (0..n)
            .map(|i| {
                let size = if self.chance(3) { -1 } else { sizes[i % 3] };
                self.constant(IValue::Int(size))
            })
            .collect();
        self.list(&parts, Type::int())
    }

    fn list(&mut self, parts: &[Known], element: Type) -> Option<Known> {
        let inputs: Vec<Value> = parts.iter().map(|part| part.0).collect();
        let node = self.graph.create_op(prim::LIST_CONSTRUCT, &inputs, Type::list(element));
        self.graph.append(self.block, node);
        let known = (self.graph.output(node, 0), IValue::list(parts.iter().map(|part| part.1.clone())));
        self.known.push(known.clone());
        Some(known)
    }

    fn constant(&mut self, value: IValue) -> Known {
        let node = self.graph.create(prim::CONSTANT);
        if let Some(attribute) = written(&value) {
            self.graph.set_attribute(node, attr::VALUE, attribute);
        }
        let ty = returned(&value);
        self.constant_node(node, value, ty)
    }

    fn constant_node(&mut self, node: Node, value: IValue, ty: Type) -> Known {
        let output = self.graph.add_output(node, ty);
        self.graph.append(self.block, node);
        self.constants.push((output, value.clone()));
        (output, value)
    }

    /// Creates a node, runs it, and keeps it if it succeeds.
    fn run(&mut self, kind: &str, operands: &[Known]) -> bool {
        let kind = Symbol::new(kind);
        let (types, args): (Vec<Type>, Vec<IValue>) =
            operands.iter().map(|(v, x)| (self.graph.ty(*v), x.clone())).unzip();
        let operator = ops::operator(self.graph.era, kind);
        let Some(schema) = operator.resolve(&types).schema() else { return false };
        let Some(kernel) = library::find(kind) else { return false };
        let random = operator.nondeterminism(Some(schema)) != Nondeterminism::Deterministic;
        if self.inside && random || extends_itself(kind, &args) {
            return false;
        }
        let node = self.graph.create(kind);
        operands.iter().for_each(|(value, _)| self.graph.add_input(node, *value));
        self.graph.append(self.block, node);
        let call = Call { graph: &self.graph, node, schema: Some(schema), args: &args, env: &self.env };
        let Some(outs) = kernel.run(&call).ok().filter(|outs| !outs.iter().any(is_large)) else {
            self.graph.erase(node);
            return false;
        };
        self.made.push((kind, operands.iter().map(|operand| operand.0).collect()));
        for value in outs {
            let ty = match &value {
                IValue::Tensor(tensor) if (self.draws.one_in(8) || self.profiled) && self.is_certain() => {
                    refined(tensor)
                }
                other => returned(other),
            };
            let output = self.graph.add_output(node, ty);
            self.known.push((output, value));
        }
        true
    }

    /// Repeats an earlier node exactly or with a variation, as input for common subexpression
    /// elimination.
    fn repeat(&mut self) {
        if self.chance(6) && !self.constants.is_empty() {
            let (_, value) = self.pick(&self.constants.clone());
            let known = self.constant(copies(&[value], Precision::Typed).remove(0));
            self.known.extend(matches!(known.1, IValue::Int(_) | IValue::Tensor(_) | IValue::List(_)).then_some(known));
            return;
        }
        if self.made.is_empty() {
            return;
        }
        let back = self.draws.below(self.made.len()).min(self.draws.below(self.made.len()));
        let (kind, inputs) = self.made[self.made.len() - 1 - back].clone();
        let (first, last) = (self.graph.last(self.block), self.known.len());
        let operands: Option<Vec<Known>> = inputs.iter().map(|&value| self.again(value)).collect();
        let Some(mut operands) = operands else { return self.take_back(first, last) };
        match self.draws.below(8) {
            0 if operands.len() > 1 => operands.swap(0, 1),
            1 => self.vary(&mut operands),
            _ => {}
        }
        let kind = if self.chance(12) { self.pick(&["aten::neg", "aten::add", "aten::sub"]) } else { kind.as_str() };
        if !self.run(kind, &operands) {
            self.take_back(first, last);
        }
    }

    /// The operand of an earlier node, here: itself if it is in scope, else an equal constant.
    fn again(&mut self, value: Value) -> Option<Known> {
        if let Some(known) = self.known.iter().find(|(known, _)| *known == value) {
            return Some(known.clone());
        }
        let (_, constant) = self.constants.iter().find(|(known, _)| *known == value).cloned()?;
        let standing = self.graph.definer(value).and_then(|node| self.graph.block_of(node));
        let mut around = Some(self.block);
        while let Some(block) = around {
            if standing == Some(block) && !self.chance(8) {
                return Some((value, constant));
            }
            around = self.graph.owner_node(block).and_then(|owner| self.graph.block_of(owner));
        }
        Some(self.constant(copies(&[constant], Precision::Typed).remove(0)))
    }

    /// Replaces one operand by another of its class.
    fn vary(&mut self, operands: &mut [Known]) {
        if operands.is_empty() {
            return;
        }
        let i = self.draws.below(operands.len());
        let other = match &operands[i].1 {
            IValue::Tensor(_) => self.earlier(O::Tensor),
            IValue::Int(n) => Some(self.constant(IValue::Int(1i64.wrapping_sub(*n)))),
            IValue::Float(x) => Some(self.constant(IValue::Float(-x))),
            IValue::Bool(b) => Some(self.constant(IValue::Bool(!b))),
            _ => None,
        };
        operands[i] = other.unwrap_or(operands[i].clone());
    }

    fn construct(&mut self) {
        let operand = if self.chance(3) { O::Int } else { O::Tensor };
        let n = 1 + self.draws.below(3);
        let parts: Option<Vec<Known>> = (0..n).map(|_| self.earlier(operand)).collect();
        if let Some(parts) = parts {
            let element = self.graph.ty(parts[0].0);
            self.list(&parts, element);
        }
    }

    // ---- blocks

    /// Whether the known contents of values hold in all executions. A loop runs once here, and
    /// shapes may change from iteration to iteration, or from call to call.
    fn is_certain(&self) -> bool {
        !self.inside && self.graph.all_nodes().all(|node| self.graph.kind(node) != prim::LOOP)
    }

    /// Gives a tensor its complete type, if that is certain.
    fn declare(&mut self, known: &Known) {
        if let Some(tensor) = known.1.tensor().filter(|_| self.is_certain()) {
            self.graph.set_type(known.0, refined(tensor));
        }
    }

    /// Fills a block of a node; its values are not in scope outside.
    fn block_of(&mut self, node: Node, nodes: usize, params: &[IValue]) -> (Block, Vec<Known>) {
        let block = self.graph.add_block(node);
        let (outer, seen) = (std::mem::replace(&mut self.block, block), self.known.len());
        for value in params {
            let param = self.graph.add_param(block, returned(value));
            self.known.push((param, value.clone()));
        }
        self.depth -= 1;
        self.fill(nodes);
        self.depth += 1;
        let inner = self.known.clone();
        self.known.truncate(seen);
        self.block = outer;
        (block, inner)
    }

    /// Values of the wanted types that both branches can return.
    fn results(&mut self, from: &[Known], wanted: &[Type]) -> Option<Vec<Known>> {
        let mut results = Vec::new();
        for &ty in wanted {
            let same = |other: Type| other == ty || (other.is_tensor() && ty.is_tensor());
            let all: Vec<Known> = from.iter().filter(|(value, _)| same(self.graph.ty(*value))).cloned().collect();
            if all.is_empty() {
                return None;
            }
            let back = self.draws.below(all.len()).min(self.draws.below(all.len()));
            results.push(all[all.len() - 1 - back].clone());
        }
        Some(results)
    }

    fn branch(&mut self) {
        let Some(condition) = self.operand(O::Bool) else { return };
        let node = self.graph.create(prim::IF);
        self.graph.add_input(node, condition.0);
        self.graph.append(self.block, node);
        let n = self.draws.below(4);
        let wanted: Vec<Type> = (0..n).map(|_| self.wanted()).collect();
        let before = if self.branches.is_empty() { None } else { Some(self.pick(&self.branches.clone())) };
        // The same condition again, with the other outcome.
        let before =
            before.filter(|(known, _)| self.chance(3) && self.known.iter().any(|(value, _)| *value == known.0));
        let (condition, wanted) = before.unwrap_or((condition, wanted));
        self.branches.push((condition.clone(), wanted.clone()));
        let taken = matches!(condition.1, IValue::Bool(true));
        let mut outputs = Vec::new();
        for is_then in [true, false] {
            // Writes of the branch not taken must not be visible.
            let saved = self.known.clone();
            if is_then != taken {
                let values: Vec<IValue> = saved.iter().map(|known| known.1.clone()).collect();
                let copied = copies(&values, Precision::Typed);
                self.known.iter_mut().zip(copied).for_each(|(known, copy)| known.1 = copy);
            }
            let nodes = 1 + self.draws.below(4);
            let (block, inner) = self.block_of(node, nodes, &[]);
            self.known = saved;
            let Some(results) = self.results(&inner, &wanted) else {
                self.graph.erase(node);
                return;
            };
            results.iter().for_each(|result| self.graph.add_result(block, result.0));
            if is_then == taken {
                outputs = results;
            }
        }
        for (ty, (_, value)) in wanted.iter().zip(outputs) {
            let output = self.graph.add_output(node, *ty);
            self.known.push((output, value));
        }
    }

    /// The type of an existing value: usually a tensor.
    fn wanted(&mut self) -> Type {
        let any = self.draws.one_in(3).then(|| self.pick(&self.known.clone()).1);
        let tuple = self.earlier_tuple().filter(|_| self.draws.one_in(3)).map(|known| known.1);
        match tuple.or(any) {
            Some(value @ (IValue::Tuple(_) | IValue::Int(_) | IValue::Bool(_) | IValue::List(_))) => returned(&value),
            _ => Type::tensor(),
        }
    }

    /// A loop of a few iterations. It runs once here; changing shapes may make later iterations
    /// raise, which is allowed.
    fn cycle(&mut self) {
        let n = self.draws.below(4);
        let carried: Option<Vec<Known>> = (0..n)
            .map(|_| {
                let wanted = self.wanted();
                let from = self.known.clone();
                self.results(&from, &[wanted]).map(|mut found| found.remove(0))
            })
            .collect();
        let Some(carried) = carried else { return };
        // Most loops are entered; some are not, or run as often as passes consider many.
        let (few, many) = (self.draws.int(0, 4), self.pick(&[-3, -1, 8, 9, 17]));
        let trips = if self.chance(8) { many } else { few };
        let starts = !self.chance(12);
        let most = self.constant(IValue::Int(trips));
        let goes_on = self.constant(IValue::Bool(true));
        let condition = if starts { goes_on.clone() } else { self.constant(IValue::Bool(false)) };
        let node = self.graph.create(prim::LOOP);
        for value in [&most, &condition].into_iter().chain(&carried) {
            self.graph.add_input(node, value.0);
        }
        self.graph.append(self.block, node);
        let saved = self.known.clone();
        let nodes = 1 + self.draws.below(8);
        let params: Vec<IValue> =
            std::iter::once(IValue::Int(0)).chain(carried.iter().map(|known| known.1.clone())).collect();
        let (block, inner) = self.block_of(node, nodes, &params);
        self.known = saved;
        let types: Vec<Type> = carried.iter().map(|known| returned(&known.1)).collect();
        let Some(mut results) = self.results(&inner, &types) else {
            self.graph.erase(node);
            return;
        };
        if self.chance(4) && results.len() > 1 && types[0] == types[1] {
            // The loop-carried values swap in each iteration.
            let param = |i: usize| self.graph.params(block).nth(i).map(|value| (value, carried[i - 1].1.clone()));
            (results[0], results[1]) = (param(2).unwrap_or(results[0].clone()), param(1).unwrap_or(results[1].clone()));
        }
        let stop = inner.iter().rev().find(|(value, known)| {
            matches!(known, IValue::Bool(_))
                && self.graph.definer(*value).is_some_and(|d| self.graph.block_of(d) == Some(block))
        });
        let goes_on = stop.map_or(goes_on.0, |known| known.0);
        self.graph.add_result(block, goes_on);
        for (result, (ty, (_, before))) in results.into_iter().zip(types.into_iter().zip(carried)) {
            self.graph.add_result(block, result.0);
            let output = self.graph.add_output(node, ty);
            self.known.push((output, if trips > 0 && starts { result.1 } else { before }));
        }
    }

    /// An exception in a rarely taken branch.
    fn raise(&mut self) {
        if self.depth == 0 || !self.chance(3) {
            return;
        }
        let taken = self.chance(12);
        let wanted = |value: &IValue| matches!(value, IValue::Bool(b) if !b || taken);
        let Some(condition) = self.operand(O::Bool).filter(|(_, value)| wanted(value)) else { return };
        self.raise_if(&condition, true, "raised");
    }

    /// Raises an exception if the condition is true, or if it is false.
    fn raise_if(&mut self, condition: &Known, when: bool, message: &str) {
        let node = self.graph.create(prim::IF);
        self.graph.add_input(node, condition.0);
        self.graph.append(self.block, node);
        for is_then in [true, false] {
            let block = self.graph.add_block(node);
            if is_then != when {
                continue;
            }
            let outer = std::mem::replace(&mut self.block, block);
            let message = self.constant(IValue::from(message));
            let raise = self.graph.create(prim::RAISE_EXCEPTION);
            self.graph.add_input(raise, message.0);
            self.graph.append(block, raise);
            self.block = outer;
        }
    }

    /// Selects one of two values by a condition.
    fn selected_by(&mut self, condition: &Known, values: [Value; 2], ty: Type) -> Value {
        let node = self.graph.create(prim::IF);
        self.graph.add_input(node, condition.0);
        self.graph.append(self.block, node);
        for value in values {
            let block = self.graph.add_block(node);
            self.graph.add_result(block, value);
        }
        self.graph.add_output(node, ty)
    }

    /// Returns some values; the others are dead, or only their writes are observable.
    fn finish(&mut self) {
        let n = if self.chance(2) { 4 + self.draws.below(8) } else { 1 + self.draws.below(3) };
        for _ in 0..n {
            let result = match self.draws.below(8) {
                0 => self.operand(O::Int),
                1 => self.earlier(O::Tensors).or_else(|| self.earlier(O::Tensor)),
                2 => self.earlier(O::Dict).or_else(|| self.earlier(O::Ints)).or_else(|| self.earlier(O::Tensor)),
                _ => self.earlier(O::Tensor),
            };
            if let Some((value, _)) = result {
                self.graph.add_result(self.graph.root(), value);
            }
        }
    }
}

/// A value as a literal constant, if it has one.
fn written(value: &IValue) -> Option<Attribute> {
    Some(match value {
        IValue::Int(n) => Attribute::Int(*n),
        IValue::Bool(b) => Attribute::Int(i64::from(*b)),
        IValue::Float(x) => Attribute::Float(Float { value: *x, style: FloatStyle::Seventeen }),
        IValue::Str(text) => Attribute::Str(text.as_bytes().into()),
        IValue::List(list) => Attribute::List(list.borrow().iter().filter_map(written).collect()),
        IValue::Tensor(tensor) => Attribute::Tensor(match tensor.item() {
            Scalar::Float(x) => format!("{{{x}}}").into(),
            other => format!("{{{}}}", other.int()).into(),
        }),
        _ => return None,
    })
}

/// The complete type of a tensor.
fn refined(tensor: &Tensor) -> Type {
    let sizes: Vec<String> = tensor.shape().iter().map(ToString::to_string).collect();
    let text = format!("{}({})", tensor.dtype().name(), sizes.join(", "));
    parse_all(text.as_bytes()).unwrap_or(Type::tensor())
}

/// The type that a node declares for such a value: tensors are unrefined.
fn returned(value: &IValue) -> Type {
    match value {
        IValue::List(list) if list.borrow().is_empty() => Type::list(Type::tensor()),
        IValue::None => Type::new(TypeKind::Simple(Simple::None)),
        other => other.ty(),
    }
}

/// Whether a list would grow exponentially: one that receives its own elements in each iteration of
/// nested loops exhausts memory.
fn extends_itself(kind: Symbol, args: &[IValue]) -> bool {
    matches!(args, [IValue::List(a), IValue::List(b), ..] if kind.as_str() == "aten::extend" && Rc::ptr_eq(a, b))
}

/// A view of the first row of a tensor.
fn part_of(value: &IValue) -> IValue {
    match value {
        IValue::Tensor(tensor) if tensor.rank() > 0 && tensor.size(0) > 0 => IValue::Tensor(tensor.narrow(0, 0, 1, 1)),
        other => other.clone(),
    }
}

fn is_large(value: &IValue) -> bool {
    let mut large = false;
    value.each_tensor(&mut |tensor| large |= tensor.numel() > 4096);
    large
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::showing::Outcome;
    use jitopt_core::text::{ParseOptions, PrintOptions, parse, print};
    use jitopt_core::verify;

    #[test]
    fn graphs_are_valid_and_run() {
        let (mut ran, mut nodes) = (0, 0);
        for seed in 0..300 {
            let forged = forge(Plan { seed, ..Plan::default() });
            let text = print(&forged.graph, PrintOptions::default());
            let shown = String::from_utf8_lossy(&text);
            let findings = verify::verify(&forged.graph);
            assert!(!findings.has_errors(), "seed {seed}: {findings:?}\n{shown}");
            let Ok(parsed) = parse(&text, ParseOptions::default()) else { panic!("seed {seed} is not read\n{shown}") };
            assert_eq!(print(&parsed.graph, PrintOptions::default()), text, "seed {seed}");
            let outcome = Outcome::of(&forged.graph, &forged.settings(), &forged.inputs, Precision::Typed);
            ran += usize::from(outcome.results.is_ok());
            nodes += forged.graph.all_nodes().count();
        }
        assert!(ran > 200, "only {ran} of 300 graphs ran to their end");
        assert!(nodes > 300 * 15, "{nodes} nodes in 300 graphs");
    }
}
