//! Folds a batch norm in evaluation into the constant weights of the convolution or linear layer
//! before it.
//!
//! ```text
//! %c : Tensor = aten::conv2d(%x, %w, %b, …)
//! %y : Tensor = aten::batch_norm(%c, %g, %s, %m, %v, %false, %momentum, %eps, %cudnn)
//!                                      |
//!                                      v
//! %r : Tensor = aten::rsqrt(aten::add(%v, %eps, %1))
//! %f : Tensor = aten::mul(%r, %g)
//! %w.1 : Tensor = aten::mul(%w, aten::reshape(%f, [-1, 1, 1, 1]))
//! %b.1 : Tensor = aten::add(aten::mul(aten::sub(%b, %m), %f), %s)
//! %c : Tensor = aten::conv2d(%x, %w.1, %b.1, …)
//! ```
//!
//! A norm with fixed statistics multiplies each channel by a factor and adds a number, and so does
//! a layer with other weights. The new weights are computed in the graph, from values that are the
//! same in every run: constants, and attributes of the module. `bench` computes them once before
//! the first run.
//!
//! The results are those of exact arithmetic; rounding differs, within the error budget of the
//! graph. Required is that nothing changes weights or statistics, that all are of one element type,
//! float or double, that nothing else reads the result of the layer, and that its channels are
//! those of the norm: the ranks of its operands must be known, as an image without a batch has its
//! channels elsewhere. Epsilon must be positive, which keeps the factor finite.
//!
//! Linear in nodes: a layer is at most 64 nodes away. Idempotent.

use jitopt_core::analysis::AliasDb;
use jitopt_core::analysis::mutations::may_assign_attributes;
use jitopt_core::ir::{Attribute, Graph, Node, Value};
use jitopt_core::pass::{PassContext, PassError, PassInfo};
use jitopt_core::symbol::{Symbol, attr, prim};
use jitopt_core::types::{DType, Strides, TensorType, Type, TypeKind};
use jitopt_core::{graph_dump, graph_update};

/// The registry entry.
pub const PASS: PassInfo = PassInfo {
    name: "fold-batch-norm",
    aliases: &["fold-frozen-conv-bn", "FoldFrozenConvBatchnorm"],
    summary: "fold batch norms in evaluation into the constant weights of the layers before them",
    example: "%c : Tensor = aten::conv2d(%x, %w, …), %y : Tensor = aten::batch_norm(%c, %g, %s, %m, %v, …)  =>  %c : Tensor = aten::conv2d(%x, %w.1, …)",
    options: &[],
    required: false,
    reads_shapes: true,
    run,
    file: file!(),
};

/// The farthest layer before a norm, in nodes.
const FARTHEST: usize = 64;

/// Layers: the kind, and the operand that says whether it is transposed.
const LAYERS: &[(&str, Option<usize>)] = &[
    ("aten::conv1d", None),
    ("aten::conv2d", None),
    ("aten::conv3d", None),
    ("aten::convolution", Some(6)),
    ("aten::_convolution", Some(6)),
    ("aten::linear", None),
];

fn run(graph: &mut Graph, cx: &mut PassContext<'_>) -> Result<(), PassError> {
    graph_dump!("Before folding batch norms", graph);
    let is_norm = |node: &Node| graph.kind(*node).as_str() == "aten::batch_norm" && graph.num_inputs(*node) == 9;
    let norms: Vec<Node> = graph.all_nodes().filter(is_norm).collect();
    if norms.is_empty() {
        return Ok(());
    }
    let (db, changes) = (cx.alias(graph), may_assign_attributes(graph));
    for norm in norms {
        match Fold::of(graph, &db, norm, changes) {
            Ok(fold) => {
                cx.rewrite(graph, "norms-folded", norm, |graph| {
                    graph_update!("Folding %{} into its layer", graph.name(graph.output(norm, 0)));
                    fold.carry_out(graph);
                });
            }
            Err(why) => cx.missed(graph, "norms-folded", norm, || why),
        }
    }
    graph_dump!("After folding batch norms", graph);
    Ok(())
}

/// A norm and the layer that it is folded into.
struct Fold {
    layer: Node,
    norm: Node,
    weight: Value,
    bias: Option<Value>,
    gamma: Option<Value>,
    beta: Option<Value>,
    mean: Value,
    variance: Value,
    /// The dimensions of the weight.
    rank: usize,
}

impl Fold {
    /// The layer of a norm, or why it stays.
    fn of(graph: &Graph, db: &AliasDb, norm: Node, changes: bool) -> Result<Fold, String> {
        let layer = layer_before(graph, norm)?;
        let optional = |node: Node, i: usize| {
            let value = graph.input(node, i);
            (!matches!(graph.constant(value), Some(None))).then_some(value)
        };
        let [weight, bias] = [1, 2].map(|i| optional(layer, i));
        let [gamma, beta, mean, variance] = [1, 2, 3, 4].map(|i| optional(norm, i));
        let (Some(weight), Some(mean), Some(variance)) = (weight, mean, variance) else {
            return Err("it has no running statistics".to_owned());
        };
        let fixed: Vec<Value> =
            [Some(weight), bias, gamma, beta, Some(mean), Some(variance)].into_iter().flatten().collect();
        if let Some(&value) = fixed.iter().find(|&&value| !is_fixed(graph, db, value, changes)) {
            return Err(format!("`%{}` may be another value in another run", graph.name(value)));
        }
        let dtypes: Vec<Option<DType>> = fixed.iter().map(|&value| graph.ty(value).as_tensor()?.dtype).collect();
        if ![DType::Float, DType::Double].map(Some).contains(&dtypes[0]) || dtypes.iter().any(|own| *own != dtypes[0]) {
            return Err("weights and statistics are not known to be all floats or all doubles".to_owned());
        }
        let rank = has_batch(graph, layer, weight)?;
        let epsilon = graph.constant(graph.input(norm, 7)).flatten();
        if !matches!(epsilon, Some(Attribute::Float(x)) if x.value > 0.0) {
            return Err("epsilon is not known to be positive".to_owned());
        }
        stands_close(graph, db, layer, norm)?;
        Ok(Fold { layer, norm, weight, bias, gamma, beta, mean, variance, rank })
    }

    fn carry_out(&self, graph: &mut Graph) {
        let mut at = Place { graph, norm: self.norm };
        let ty = without_strides(at.graph.ty(self.variance));
        let one = at.constant(Attribute::Int(1), Type::int());
        let epsilon = at.graph.input(self.norm, 7);
        let shifted = at.insert("aten::add", &[self.variance, epsilon, one], ty);
        let mut factor = at.insert("aten::rsqrt", &[shifted], ty);
        if let Some(gamma) = self.gamma {
            factor = at.insert("aten::mul", &[factor, gamma], ty);
        }
        let weight = at.weight(self.weight, factor, self.rank);
        let centred = match self.bias {
            Some(bias) => at.insert("aten::sub", &[bias, self.mean, one], ty),
            None => at.insert("aten::neg", &[self.mean], ty),
        };
        let mut bias = at.insert("aten::mul", &[centred, factor], ty);
        if let Some(beta) = self.beta {
            bias = at.insert("aten::add", &[bias, beta, one], ty);
        }
        let graph = at.graph;
        let (old, new) = (graph.output(self.norm, 0), graph.output(self.layer, 0));
        graph.move_before(self.layer, self.norm);
        graph.set_input(self.layer, 1, weight);
        graph.set_input(self.layer, 2, bias);
        graph.set_type(new, graph.ty(old));
        graph.replace_all_uses(old, new);
        graph.erase(self.norm);
    }
}

/// The point at which the new nodes are inserted: before the norm.
struct Place<'g> {
    graph: &'g mut Graph,
    norm: Node,
}

impl Place<'_> {
    fn insert(&mut self, kind: &str, operands: &[Value], ty: Type) -> Value {
        self.made(Symbol::new(kind), operands, ty)
    }

    fn made(&mut self, kind: Symbol, operands: &[Value], ty: Type) -> Value {
        let node = self.graph.create_op(kind, operands, ty);
        self.graph.insert_before(self.norm, node);
        self.graph.copy_location(self.norm, node);
        self.graph.output(node, 0)
    }

    fn constant(&mut self, literal: Attribute, ty: Type) -> Value {
        let value = self.made(prim::CONSTANT, &[], ty);
        let node = self.graph.definer(value).expect("a new constant has a node");
        self.graph.set_attribute(node, attr::VALUE, literal);
        value
    }

    /// The weight with each output channel, the first dimension, multiplied by its factor.
    fn weight(&mut self, weight: Value, factor: Value, rank: usize) -> Value {
        let shape = (0..rank).map(|i| Attribute::Int(if i == 0 { -1 } else { 1 })).collect();
        let shape = self.constant(Attribute::List(shape), Type::list(Type::int()));
        let factors = self.insert("aten::reshape", &[factor, shape], Type::tensor());
        let ty = without_strides(self.graph.ty(weight));
        self.insert("aten::mul", &[weight, factors], ty)
    }
}

/// A type without the strides and flags, which are others in a new tensor.
fn without_strides(ty: Type) -> Type {
    match ty.as_tensor() {
        Some(tensor) => {
            Type::new(TypeKind::Tensor(TensorType { strides: Strides::Unknown, requires_grad: None, ..tensor.clone() }))
        }
        None => ty,
    }
}

/// The layer whose result a norm in evaluation reads.
fn layer_before(graph: &Graph, norm: Node) -> Result<Node, String> {
    let is_false =
        |value: Value| matches!(graph.constant(value).flatten(), Some(Attribute::Int(0) | Attribute::Bool(false)));
    if !is_false(graph.input(norm, 5)) {
        return Err("the batch norm may be in training mode".to_owned());
    }
    let read = graph.input(norm, 0);
    let found = graph.definer(read).and_then(|node| {
        let row = LAYERS.iter().find(|row| row.0 == graph.kind(node).as_str())?;
        Some((node, row.1.is_some_and(|i| !is_false(graph.input(node, i)))))
    });
    match found {
        None => Err(format!("`%{}` is not the result of a convolution or a linear layer", graph.name(read))),
        Some((_, true)) => Err("the convolution is not known to be an untransposed one".to_owned()),
        Some(_) if graph.single_use(read).is_none() => Err(format!("`%{}` has other readers", graph.name(read))),
        Some((node, _)) => Ok(node),
    }
}

/// Whether a value is the same in every run: a constant, or an attribute of the module, maybe in
/// another layout.
fn is_fixed(graph: &Graph, db: &AliasDb, value: Value, changes: bool) -> bool {
    let made = graph.definer(value).filter(|&node| graph.kind(node).as_str() == "aten::contiguous");
    let value = made.map_or(value, |node| graph.input(node, 0));
    let mut from = value;
    while let Some(node) = graph.definer(from).filter(|&node| graph.kind(node) == prim::GET_ATTR) {
        from = graph.input(node, 0);
    }
    let is_module = from != value && graph.is_param(from) && !changes;
    let is_constant = graph.definer(from).is_some_and(|node| graph.kind(node) == prim::CONSTANT);
    (is_constant || is_module) && !db.has_writers(value)
}

/// The rank of the weight, if the result of the layer has its channels in dimension 1.
fn has_batch(graph: &Graph, layer: Node, weight: Value) -> Result<usize, String> {
    let rank = |value: Value| graph.ty(value).as_tensor().and_then(TensorType::rank);
    let images = rank(graph.input(layer, 0)).or_else(|| rank(graph.output(layer, 0)));
    match (rank(weight), images) {
        (Some(own), Some(images)) if own == images => Ok(own),
        (None, _) => Err(format!("the rank of `%{}` is not known", graph.name(weight))),
        (_, None) => Err(format!("the rank of `%{}` is not known", graph.name(graph.input(layer, 0)))),
        _ => Err("the channels of the layer are not those of the norm".to_owned()),
    }
}

/// Whether the layer can as well run at its norm.
fn stands_close(graph: &Graph, db: &AliasDb, layer: Node, norm: Node) -> Result<(), String> {
    let mut between = graph.next(layer);
    for _ in 0..FARTHEST {
        match between {
            Some(node) if node == norm => return Ok(()),
            Some(node) if !db.is_writing(node) && !db.has_side_effects(node) && graph.num_blocks(node) == 0 => {
                between = graph.next(node);
            }
            Some(node) => return Err(format!("`{}` stands between the layer and the norm", graph.kind(node))),
            None => break,
        }
    }
    Err("the layer is in another block, or far away".to_owned())
}
