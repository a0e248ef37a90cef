//! Decomposes operators so that their pointwise parts can join groups.
//!
//! ```text
//! %y : Tensor = aten::addmm(%b, %x, %w, %1, %1)              =>  %m : Tensor = aten::mm(%x, %w)
//!                                                                %y : Tensor = aten::add(%b, %m, %one)
//!
//! %y : Tensor = aten::layer_norm(%x, %s, %w, %b, %eps, %c)   =>  %n : Tensor = aten::layer_norm(%x, %s, %none, %none, %eps, %c)
//!                                                                %k : Tensor = aten::mul(%n, %w)
//!                                                                %y : Tensor = aten::add(%k, %b, %one)
//!
//! %y : Tensor = aten::batch_norm(%x, %w, %b, %m, %v, %no, …) =>  (x - m) · rsqrt(v + eps) · w + b, node by node
//! ```
//!
//! - `aten::addmm` with alpha and beta 1 becomes a product and a sum.
//! - Norms are decomposed on tensors whose type says that they are on a CUDA device, as in PyTorch;
//!   with `{norms}` on all devices. Weight and bias must each be known to be a tensor or known to
//!   be None. With running statistics that are only read, a batch norm is pointwise throughout;
//!   other norms keep an operator that computes the statistics, and scale and shift become nodes.
//!
//! Without a bias, `{norms}` adds 0.0 at the end, as the kernels do: otherwise -0.0 would stay
//! -0.0. PyTorch's decomposition does not.
//!
//! `{norms}` requires operands of one element type, known from their types: kernels raise an
//! exception on others, which the decomposed nodes would accept. In half precision weight and bias
//! may be floats, as in the kernels.
//!
//! PyTorch decomposes some norms that this pass leaves: the rank must be known for batch norms,
//! which view weight and bias as rows of channels; for running statistics the elements must be
//! known to be floats or doubles, because half precision loses the epsilon; and running statistics
//! that are written must not share memory with weight or bias, which are read after the write.
//! PyTorch also computes the statistics of layer norms with nodes, in the precision of the elements
//! and not for empty tensors. A result that weight or bias of other element types may have promoted
//! is converted back.
//!
//! Ends with `constant-propagation` and `dce` when it changed something, as PyTorch, which infers
//! types as well; here `shape-analysis` does. Linear in nodes; idempotent.

use crate::constant_propagation::{self, Memory};
use crate::dead_code_elimination;
use crate::fuse_addmm::is_one;
use jitopt_core::analysis::AliasDb;
use jitopt_core::interpreter::exact_literals;
use jitopt_core::ir::{Attribute, Graph, Node, Use, Value};
use jitopt_core::pass::{PassContext, PassError, PassInfo, PassOption};
use jitopt_core::symbol::{Symbol, attr, prim};
use jitopt_core::types::era::Era;
use jitopt_core::types::{DType, Simple, TensorType, Type};
use jitopt_core::{graph_dump, graph_update};

/// The registry entry.
pub const PASS: PassInfo = PassInfo {
    name: "decompose-ops",
    aliases: &["decompose"],
    summary: "decompose addmm and norms, so that their pointwise parts can join groups",
    example: "%y : Tensor = aten::addmm(%b, %x, %w, %1, %1)  =>  %m : Tensor = aten::mm(%x, %w), %y : Tensor = aten::add(%b, %m, %one)",
    options: &[PassOption {
        name: "norms",
        default: "false",
        summary: "decompose batch and layer norms on every device, not only on tensors of CUDA devices",
    }],
    required: false,
    reads_shapes: true,
    run,
    file: file!(),
};

fn run(graph: &mut Graph, cx: &mut PassContext<'_>) -> Result<(), PassError> {
    graph_dump!("Before decomposing operators", graph);
    let norms = norms(graph, cx);
    let (mut norms_split, mut products_split) = (false, false);
    for (node, norm) in norms {
        norms_split |= cx.rewrite(graph, "norms-split", node, |graph| norm.split(graph, node)).is_some();
    }
    let is_product =
        |graph: &Graph, node: Node| graph.kind(node).as_str() == "aten::addmm" && graph.num_inputs(node) == 5;
    let products: Vec<Node> = graph.all_nodes().filter(|&node| is_product(graph, node)).collect();
    for node in products {
        products_split |= take_product_apart(graph, cx, node);
    }
    // 1.3 leaves constants alone where it decomposed products only.
    if norms_split || products_split && graph.era == Era::V2 {
        constant_propagation::propagate(graph, cx, Memory::default());
    }
    if norms_split || products_split {
        dead_code_elimination::eliminate(graph, cx, true);
    }
    graph_dump!("After decomposing operators", graph);
    Ok(())
}

fn take_product_apart(graph: &mut Graph, cx: &mut PassContext<'_>, node: Node) -> bool {
    let [summand, a, b, beta, alpha] = graph.inputs(node).collect::<Vec<_>>()[..] else { return false };
    let beta = is_one(graph, beta);
    let alpha = is_one(graph, alpha);
    let done = (beta && alpha).then(|| {
        cx.rewrite(graph, "addmm-split", node, |graph| {
            graph_update!("Decomposing %{}", graph.name(graph.output(node, 0)));
            let mut parts = Parts { graph, place: Place::Before(node) };
            let product = parts.op("aten::mm", &[a, b]);
            let one = parts.int(1);
            let sum = parts.op("aten::add", &[summand, product, one]);
            parts.replace(node, sum);
        })
    });
    done.flatten().is_some()
}

// ---- norms

/// The decomposition of a norm.
struct Norm {
    /// Whether mean and variance are given, so that all of it is pointwise.
    pointwise: bool,
    /// Number of dimensions, where weight and bias have one element per channel.
    rank: Option<usize>,
    /// Whether weight and bias are present.
    affine: [bool; 2],
    /// Whether an operand may have another element type than the first.
    mixed: bool,
    /// Whether an operand that becomes the operand of a node of its own may have an element type
    /// that the norm rejects in combination with the first.
    raises: bool,
    /// Whether zero is added where there is no bias, as kernels do: it turns -0.0 into 0.0.
    zero: bool,
}

/// The norms that can be decomposed, found before anything is edited.
fn norms(graph: &Graph, cx: &mut PassContext<'_>) -> Vec<(Node, Norm)> {
    let everywhere = cx.flag("norms").unwrap_or(false);
    let is_norm = |node: &Node| match (graph.kind(*node).as_str(), graph.num_inputs(*node)) {
        ("aten::batch_norm", 9) | ("aten::layer_norm", 6) => graph.num_outputs(*node) == 1,
        _ => false,
    };
    let mut found = Vec::new();
    for node in graph.all_nodes().filter(is_norm) {
        let Some(x) = graph.ty(graph.input(node, 0)).as_tensor() else { continue };
        if !everywhere && x.device.is_none_or(|device| !device.as_str().starts_with("cuda")) {
            continue;
        }
        let norm = match graph.kind(node).as_str() {
            "aten::layer_norm" => layer_norm(graph, node),
            _ => batch_norm(graph, node, x, &cx.alias(graph)),
        };
        match norm {
            Ok(norm) if everywhere && norm.raises => {
                cx.missed(graph, "norms-split", node, || {
                    "its operands may have element types that it rejects".to_owned()
                });
            }
            Ok(norm) if norm.pointwise || norm.affine != [false; 2] => {
                found.push((node, Norm { zero: everywhere, ..norm }));
            }
            Ok(_) => {}
            Err(why) => cx.missed(graph, "norms-split", node, || why.to_owned()),
        }
    }
    found
}

/// Whether the value is a tensor (true) or None (false), when that is known.
fn is_given(graph: &Graph, value: Value) -> Result<bool, &'static str> {
    match graph.ty(value).as_tensor() {
        Some(tensor) if tensor.undefined != Some(true) => Ok(true),
        None if graph.ty(value) == Type::none() || matches!(graph.constant(value), Some(None)) => Ok(false),
        _ => Err("an operand may be None"),
    }
}

/// Whether one of these operands, if present, may have another element type than the first.
fn is_mixed(graph: &Graph, node: Node, operands: &[usize]) -> bool {
    let dtype = |i: usize| graph.ty(graph.input(node, i)).as_tensor().map(|tensor| tensor.dtype);
    let own = dtype(0).flatten();
    operands.iter().filter_map(|&i| dtype(i)).any(|dtype| dtype.is_none() || dtype != own)
}

/// Whether one of these operands may have an element type that kernels reject in combination with
/// the first: all must be of one type, but in half precision the others may be floats.
fn may_raise(graph: &Graph, node: Node, operands: &[usize]) -> bool {
    let tensor = |i: usize| graph.ty(graph.input(node, i)).as_tensor();
    let own = tensor(0).and_then(|tensor| tensor.dtype);
    let halves = matches!(own, Some(DType::Half | DType::BFloat16));
    let fits = |dtype: Option<DType>| dtype.is_some() && (dtype == own || halves && dtype == Some(DType::Float));
    operands.iter().filter_map(|&i| tensor(i)).any(|tensor| !fits(tensor.dtype))
}

fn layer_norm(graph: &Graph, node: Node) -> Result<Norm, &'static str> {
    let affine = [is_given(graph, graph.input(node, 2))?, is_given(graph, graph.input(node, 3))?];
    let (mixed, raises) = (is_mixed(graph, node, &[2, 3]), may_raise(graph, node, &[2, 3]));
    Ok(Norm { pointwise: false, rank: None, affine, mixed, raises, zero: false })
}

fn batch_norm(graph: &Graph, node: Node, x: &TensorType, db: &AliasDb) -> Result<Norm, &'static str> {
    let rank = x.rank().filter(|&rank| rank >= 2).ok_or("its rank is not known")?;
    let given = |i: usize| is_given(graph, graph.input(node, i));
    let (affine, running) = ([given(1)?, given(2)?], [given(3)?, given(4)?]);
    let trains = graph.constant_int(graph.input(node, 5)).ok_or("its `training` flag is not known")? != 0;
    let shared = [1, 2]
        .iter()
        .any(|&i| [3, 4].iter().any(|&j| running[j - 3] && db.may_alias(graph.input(node, i), graph.input(node, j))));
    if trains && shared {
        return Err("running statistics may share memory with weight or bias");
    }
    let precise = matches!(x.dtype, Some(DType::Float | DType::Double));
    if !trains && (running != [true; 2] || !precise) {
        return Err("its operand is not known to have floats or doubles as elements");
    }
    let others: &[usize] = if trains { &[1, 2] } else { &[1, 2, 3, 4] };
    let (mixed, raises) = (is_mixed(graph, node, others), may_raise(graph, node, others));
    Ok(Norm { pointwise: !trains, rank: Some(rank), affine, mixed, raises, zero: false })
}

impl Norm {
    fn split(self, graph: &mut Graph, node: Node) {
        let old = graph.output(node, 0);
        graph_update!("Decomposing %{}", graph.name(old));
        let first = if graph.kind(node).as_str() == "aten::layer_norm" { 2 } else { 1 };
        let affine = [0, 1].map(|i| self.affine[i].then(|| graph.input(node, first + i)));
        if self.pointwise {
            let x = graph.input(node, 0);
            let mut parts = Parts { graph, place: Place::Before(node) };
            let normal = self.pointwise(&mut parts, node);
            let new = self.scaled(&mut parts, normal, affine, x);
            parts.replace(node, new);
            return;
        }
        let mut before = Parts { graph, place: Place::Before(node) };
        let none = before.none();
        (0..2).for_each(|i| graph.set_input(node, first + i, none));
        let uses: Vec<Use> = graph.uses(old).collect();
        let mut parts = Parts { graph, place: Place::Behind(node) };
        let new = self.scaled(&mut parts, old, affine, old);
        graph.set_type(new, graph.ty(old));
        uses.into_iter().for_each(|one| graph.set_use(one, new));
    }

    /// The normalised value before scaling, computed from given statistics.
    fn pointwise(&self, parts: &mut Parts<'_>, node: Node) -> Value {
        let [x, mean, variance, eps] = [0, 3, 4, 7].map(|i| parts.graph.input(node, i));
        let [mean, variance] = [mean, variance].map(|value| parts.row(value, self.rank));
        let one = parts.int(1);
        let above_zero = parts.op("aten::add", &[variance, eps, one]);
        let inverse = parts.op("aten::rsqrt", &[above_zero]);
        let centred = parts.op("aten::sub", &[x, mean, one]);
        parts.op("aten::mul", &[centred, inverse])
    }

    /// Scales and shifts; the result has the element type of `like`.
    fn scaled(&self, parts: &mut Parts<'_>, normal: Value, affine: [Option<Value>; 2], like: Value) -> Value {
        let mut y = normal;
        if let Some(weight) = affine[0] {
            let weight = parts.row(weight, self.rank);
            y = parts.op("aten::mul", &[y, weight]);
        }
        if let Some(bias) = affine[1] {
            let (bias, one) = (parts.row(bias, self.rank), parts.int(1));
            y = parts.op("aten::add", &[y, bias, one]);
        } else if self.zero {
            let (zero, one) = (parts.float(0.0), parts.int(1));
            y = parts.op("aten::add", &[y, zero, one]);
        }
        if self.mixed { parts.op("aten::type_as", &[y, like]) } else { y }
    }
}

/// The insertion point of nodes.
#[derive(Clone, Copy)]
enum Place {
    Before(Node),
    /// After this node; each inserted node becomes the new insertion point.
    Behind(Node),
}

/// Creates nodes.
struct Parts<'a> {
    graph: &'a mut Graph,
    place: Place,
}

impl Parts<'_> {
    fn put(&mut self, node: Node) -> Value {
        match &mut self.place {
            Place::Before(anchor) => self.graph.insert_before(*anchor, node),
            Place::Behind(last) => {
                self.graph.insert_after(*last, node);
                *last = node;
            }
        }
        self.graph.output(node, 0)
    }

    fn op(&mut self, kind: &str, operands: &[Value]) -> Value {
        let node = self.graph.create_op(Symbol::new(kind), operands, Type::tensor());
        self.put(node)
    }

    fn none(&mut self) -> Value {
        let node = self.graph.create_op(prim::CONSTANT, &[], Type::none());
        self.put(node)
    }

    fn constant(&mut self, value: Attribute, ty: Type) -> Value {
        let node = self.graph.create_op(prim::CONSTANT, &[], ty);
        self.graph.set_attribute(node, attr::VALUE, value);
        self.put(node)
    }

    fn int(&mut self, n: i64) -> Value {
        self.constant(Attribute::Int(n), Type::int())
    }

    fn float(&mut self, value: f64) -> Value {
        let value = exact_literals::float(value, self.graph.release());
        self.constant(Attribute::Float(value), Type::simple(Simple::Float))
    }

    /// A vector with one element per channel, as a view that is broadcast over the other
    /// dimensions.
    fn row(&mut self, value: Value, rank: Option<usize>) -> Value {
        let Some(rank) = rank else { return value };
        let shape = (0..rank).map(|dim| Attribute::Int(if dim == 1 { -1 } else { 1 })).collect();
        let shape = self.constant(Attribute::List(shape), Type::list(Type::int()));
        self.op("aten::reshape", &[value, shape])
    }

    /// Replaces the output of a node with `new`.
    fn replace(self, node: Node, new: Value) {
        let old = self.graph.output(node, 0);
        self.graph.set_type(new, self.graph.ty(old));
        self.graph.replace_all_uses(old, new);
        self.graph.erase(node);
    }
}
