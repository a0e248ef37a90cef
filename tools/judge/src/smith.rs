//! Random graphs that run, from a seed.
//!
//! Every node is run as soon as it is made: what raises is taken back, and what there is next is known by its value, not by
//! its type. So graphs are valid, shapes fit, and nearly every node does something: views and writes through them, broadcasting, odd
//! element types, branches, loops, lists, tuples, repeated work, dead work, random draws, printing, raising.

use crate::sharing::{Copier, copies};
use crate::showing::Settings;
use jitopt_core::interpreter::library::{self};
use jitopt_core::interpreter::random::Philox;
use jitopt_core::interpreter::{Call, Environment, IValue};
use jitopt_core::ir::{Attribute, Block, Float, FloatStyle, Graph, Node, Value};
use jitopt_core::ops;
use jitopt_core::symbol::{Symbol, attr, prim};
use jitopt_core::tensor::{C128, DType, Precision, Tensor};
use jitopt_core::types::{Simple, Type, TypeKind};

/// How large, and what may be in it.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// The seed: the same one gives the same graph.
    pub seed: u64,
    /// About so many nodes.
    pub nodes: usize,
    /// Blocks in blocks, at most.
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
    /// One value for each param.
    pub inputs: Vec<IValue>,
}

/// A value that may be used where the smith is, and what it was when the node ran.
type Known = (Value, IValue);

struct Smith {
    graph: Graph,
    draws: Philox,
    env: Environment,
    /// What may be used, blocks around included.
    known: Vec<Known>,
    block: Block,
    depth: usize,
    /// Sizes that dimensions are made of, so that shapes meet.
    sizes: [i64; 3],
}

/// Makes a graph.
pub fn forge(plan: Plan) -> Forged {
    let graph = Graph::new();
    let mut draws = Philox::new(plan.seed, 0x736d_6974, 0);
    let sizes = [draws.int(0, 4), draws.int(1, 4), draws.int(1, 5)];
    let mut copier = Copier::new(Precision::Typed);
    let env = Settings::default().environment(Precision::Typed, &mut copier);
    let block = graph.root();
    let mut smith = Smith { graph, draws, env, known: Vec::new(), block, depth: plan.depth, sizes };
    let inputs = smith.params();
    smith.fill(plan.nodes);
    smith.finish();
    Forged { graph: smith.graph, inputs }
}

/// One operator that the smith knows: kind, and what each operand is.
struct Template {
    kind: &'static str,
    operands: &'static [Operand],
}

#[derive(Clone, Copy, PartialEq)]
enum Operand {
    Tensor,
    Tensors,
    /// A number of the program.
    Int,
    Ints,
    /// A constant: small whole number.
    Small,
    /// A constant: a dimension.
    Dim,
    /// A constant: 1, mostly.
    Alpha,
    Number,
    Bool,
    No,
    None,
    /// A constant list of small whole numbers, of one of the sizes.
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
    "aten::__is__" (Tensor None); "prim::Print" (Int Str); "prim::NumToTensor" (Int);
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
                _ => match self.draws.below(6) {
                    0 => IValue::Int(self.draws.int(-2, 4)),
                    1 => IValue::Bool(self.draws.one_in(2)),
                    2 => IValue::list([self.tensor(), self.tensor()]),
                    // The same memory twice.
                    3 => inputs[0].clone(),
                    _ => IValue::Tensor(self.tensor()),
                },
            };
            inputs.push(value);
        }
        let inner = copies(&inputs, Precision::Typed);
        for (i, value) in inner.into_iter().enumerate() {
            let param = self.graph.add_param(self.block, value.ty());
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
            match self.draws.below(24) {
                0 if self.depth > 0 => self.branch(),
                1 if self.depth > 0 => self.cycle(),
                2 => self.construct(),
                3 => self.tuple(),
                4 => self.raise(),
                5..=8 => self.repeat(),
                _ => self.operator(),
            }
        }
    }

    fn operator(&mut self) {
        let template = &TEMPLATES[self.draws.below(TEMPLATES.len())];
        let (first, last) = (self.graph.last(self.block), self.known.len());
        let operands: Option<Vec<Known>> = template.operands.iter().map(|&operand| self.operand(operand)).collect();
        let done = operands.is_some_and(|operands| self.run(template.kind, &operands));
        if !done {
            self.take_back(first, last);
        }
    }

    /// Erases what was made since.
    fn take_back(&mut self, first: Option<Node>, known: usize) {
        self.known.truncate(known);
        while let Some(node) = self.graph.last(self.block).filter(|&node| Some(node) != first) {
            self.graph.erase(node);
        }
    }

    /// Something that nodes can be given: made before, or a constant of its own.
    fn operand(&mut self, operand: Operand) -> Option<Known> {
        let int = |n| Some(IValue::Int(n));
        let constant = match operand {
            O::Small => int(self.draws.int(-1, 3)),
            O::Dim => int(self.draws.int(-2, 2)),
            O::Alpha => int(if self.chance(5) { 2 } else { 1 }),
            O::Number => Some(match self.draws.below(4) {
                0 => IValue::Int(self.draws.int(-2, 4)),
                _ => IValue::Float(self.pick(&[0.0, 0.5, 1.0, -1.5, 2.0])),
            }),
            O::No => Some(IValue::Bool(false)),
            O::None => Some(IValue::None),
            O::Str => Some(IValue::from("printed")),
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
            _ => false,
        };
        let all: Vec<Known> = self.known.iter().filter(fits).cloned().collect();
        if all.is_empty() {
            return None;
        }
        // What is new is used more often.
        let back = self.draws.below(all.len()).min(self.draws.below(all.len()));
        Some(all[all.len() - 1 - back].clone())
    }

    fn shape(&mut self) -> Option<Known> {
        let n = 1 + self.draws.below(3);
        let sizes = self.sizes;
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
        let attribute = match &value {
            IValue::Int(n) => Some(Attribute::Int(*n)),
            IValue::Bool(b) => Some(Attribute::Int(i64::from(*b))),
            IValue::Float(x) => Some(Attribute::Float(Float { value: *x, style: FloatStyle::Seventeen })),
            IValue::Str(text) => Some(Attribute::Str(text.as_bytes().into())),
            _ => None,
        };
        if let Some(attribute) = attribute {
            self.graph.set_attribute(node, attr::VALUE, attribute);
        }
        let output = self.graph.add_output(node, value.ty());
        self.graph.append(self.block, node);
        (output, value)
    }

    /// Makes a node, runs it, and keeps it when it ran.
    fn run(&mut self, kind: &str, operands: &[Known]) -> bool {
        let kind = Symbol::new(kind);
        let (types, args): (Vec<Type>, Vec<IValue>) =
            operands.iter().map(|(v, x)| (self.graph.ty(*v), x.clone())).unzip();
        let operator = ops::operator(self.graph.era, kind);
        let Some(schema) = operator.resolve(&types).schema() else { return false };
        let Some(kernel) = library::find(kind) else { return false };
        let node = self.graph.create(kind);
        operands.iter().for_each(|(value, _)| self.graph.add_input(node, *value));
        self.graph.append(self.block, node);
        let call = Call { graph: &self.graph, node, schema: Some(schema), args: &args, env: &self.env };
        let Ok(outs) = kernel.run(&call) else { return false };
        if outs.iter().any(is_large) {
            return false;
        }
        for value in outs {
            let ty = returned(&value);
            let output = self.graph.add_output(node, ty);
            self.known.push((output, value));
        }
        true
    }

    /// The same as an earlier node once more, for those who look for it.
    fn repeat(&mut self) {
        let all: Vec<Node> = self.graph.nodes(self.block).filter(|&node| self.graph.num_blocks(node) == 0).collect();
        if all.is_empty() {
            return;
        }
        let node = self.pick(&all);
        let kind = self.graph.kind(node);
        let inputs: Vec<Value> = self.graph.inputs(node).collect();
        if kind == prim::CONSTANT {
            let value = self.known.iter().find(|(value, _)| *value == self.graph.output(node, 0)).cloned();
            if let Some((_, value)) = value {
                self.constant(value);
            }
            return;
        }
        let find = |value: &Value| self.known.iter().find(|(known, _)| known == value).cloned();
        let operands: Option<Vec<Known>> = inputs.iter().map(find).collect();
        let (first, last) = (self.graph.last(self.block), self.known.len());
        if !operands.is_some_and(|operands| self.run(kind.as_str(), &operands)) {
            self.take_back(first, last);
        }
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

    /// A tuple, and perhaps what is in it again.
    fn tuple(&mut self) {
        let parts: Option<Vec<Known>> =
            [O::Tensor, O::Tensor].into_iter().map(|operand| self.earlier(operand)).collect();
        let Some(parts) = parts else { return };
        let types: Vec<Type> = parts.iter().map(|part| self.graph.ty(part.0)).collect();
        let inputs: Vec<Value> = parts.iter().map(|part| part.0).collect();
        let node = self.graph.create_op(prim::TUPLE_CONSTRUCT, &inputs, Type::tuple(&types));
        self.graph.append(self.block, node);
        let tuple = self.graph.output(node, 0);
        if self.chance(3) {
            return;
        }
        let unpack = self.graph.create(prim::TUPLE_UNPACK);
        self.graph.add_input(unpack, tuple);
        self.graph.append(self.block, unpack);
        for ((_, value), ty) in parts.into_iter().zip(types) {
            let output = self.graph.add_output(unpack, ty);
            self.known.push((output, value));
        }
    }

    // ---- blocks

    /// Fills a block of a node; what was made in it is not seen outside.
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

    /// Values of a kind that both branches can give.
    fn results(&mut self, from: &[Known], wanted: &[Type]) -> Option<Vec<Known>> {
        let mut results = Vec::new();
        for &ty in wanted {
            let all: Vec<Known> = from.iter().filter(|(value, _)| self.graph.ty(*value) == ty).cloned().collect();
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
        let wanted = vec![Type::tensor(); 1 + self.draws.below(2)];
        let taken = matches!(condition.1, IValue::Bool(true));
        let mut outputs = Vec::new();
        for is_then in [true, false] {
            // What the branch that is not taken writes must not be seen.
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

    /// A loop of a few iterations. It is run once here; shapes that change make later iterations raise, which is fine too.
    fn cycle(&mut self) {
        let Some(carried) = self.earlier(O::Tensor) else { return };
        let trips = self.draws.int(0, 4);
        let most = self.constant(IValue::Int(trips));
        let condition = self.constant(IValue::Bool(true));
        let node = self.graph.create(prim::LOOP);
        for value in [most.0, condition.0, carried.0] {
            self.graph.add_input(node, value);
        }
        self.graph.append(self.block, node);
        let saved = self.known.clone();
        let nodes = 1 + self.draws.below(5);
        let (block, inner) = self.block_of(node, nodes, &[IValue::Int(0), carried.1.clone()]);
        self.known = saved;
        let Some(results) = self.results(&inner, &[Type::tensor()]) else {
            self.graph.erase(node);
            return;
        };
        let stop = inner.iter().rev().find(|(value, known)| {
            matches!(known, IValue::Bool(_))
                && self.graph.definer(*value).is_some_and(|d| self.graph.block_of(d) == Some(block))
        });
        let goes_on = stop.map_or(condition.0, |known| known.0);
        self.graph.add_result(block, goes_on);
        self.graph.add_result(block, results[0].0);
        let output = self.graph.add_output(node, Type::tensor());
        self.known.push((output, if trips > 0 { results[0].1.clone() } else { carried.1 }));
    }

    /// An exception in a branch that is seldom taken.
    fn raise(&mut self) {
        if self.depth == 0 || !self.chance(3) {
            return;
        }
        let Some(condition) = self.earlier(O::Bool).filter(|(_, value)| matches!(value, IValue::Bool(false))) else {
            return;
        };
        let node = self.graph.create(prim::IF);
        self.graph.add_input(node, condition.0);
        self.graph.append(self.block, node);
        let block = self.graph.add_block(node);
        self.graph.add_block(node);
        let outer = std::mem::replace(&mut self.block, block);
        let message = self.constant(IValue::from("raised"));
        let raise = self.graph.create(prim::RAISE_EXCEPTION);
        self.graph.add_input(raise, message.0);
        self.graph.append(block, raise);
        self.block = outer;
    }

    /// Some values are returned; the rest is dead, or its writes are seen.
    fn finish(&mut self) {
        let n = 1 + self.draws.below(3);
        for _ in 0..n {
            let result = match self.chance(6) {
                true => self.operand(O::Int),
                false => self.earlier(O::Tensor),
            };
            if let Some((value, _)) = result {
                self.graph.add_result(self.graph.root(), value);
            }
        }
    }
}

/// The type that a node declares for such a value: tensors are plain tensors.
fn returned(value: &IValue) -> Type {
    match value {
        IValue::List(list) if list.borrow().is_empty() => Type::list(Type::tensor()),
        IValue::None => Type::new(TypeKind::Simple(Simple::None)),
        other => other.ty(),
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
            let outcome = Outcome::of(&forged.graph, &Settings::default(), &forged.inputs, Precision::Typed);
            ran += usize::from(outcome.results.is_ok());
            nodes += forged.graph.all_nodes().count();
        }
        assert!(ran > 200, "only {ran} of 300 graphs ran to their end");
        assert!(nodes > 300 * 15, "{nodes} nodes in 300 graphs");
    }
}
