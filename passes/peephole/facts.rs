//! Predicates and queries about values, for rules.

use jitopt_core::analysis::AliasDb;
use jitopt_core::ir::{Attribute, Graph, Node, Value};
use jitopt_core::ops;
use jitopt_core::ops::rules::{Effect, Resizes};
use jitopt_core::symbol::{Symbol, prim};
use jitopt_core::types::era::Era;
use jitopt_core::types::{DType, Dim, Simple, Strides, TensorType, Type, TypeKind};
use rustc_hash::FxHashMap;

/// A graph that rules read, with the facts known of it.
#[derive(Clone, Copy)]
pub struct Facts<'a> {
    /// The graph.
    pub graph: &'a Graph,
    pub(super) db: &'a AliasDb,
    pub(super) stands_for: &'a FxHashMap<Value, Value>,
    /// Whether to assume what PyTorch assumes; see `{trusting}`.
    pub trusting: bool,
    /// Whether an operator of the graph changes the sizes of an existing tensor (`aten::t_`): the
    /// type of a written tensor may be the one before the change.
    pub(super) reshapes: bool,
}

/// A constant scalar.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Number {
    /// An integer.
    Int(i64),
    /// A floating point number.
    Float(f64),
}

impl Number {
    pub(super) fn is_one(self) -> bool {
        matches!(self, Number::Int(1)) || matches!(self, Number::Float(1.0))
    }

    /// Zero of either sign.
    pub(super) fn is_zero(self) -> bool {
        matches!(self, Number::Int(0)) || matches!(self, Number::Float(x) if x == 0.0)
    }

    pub(super) fn is_negative_zero(self) -> bool {
        matches!(self, Number::Float(x) if x == 0.0 && x.is_sign_negative())
    }
}

/// Whether a node of the graph, or code that is not in it, can tell strides apart.
pub(super) fn reads_strides(graph: &Graph) -> bool {
    let reads = |graph: &Graph, node: Node| {
        let rule = ops::operator(graph.era, graph.kind(node)).rule;
        rule.reads_strides || matches!(rule.effect, Effect::Call | Effect::Unknown) || graph.subgraph(node).is_some()
    };
    graph.all_nodes().any(|node| reads(graph, node))
}

/// Whether a node of the graph changes the sizes of an existing tensor.
pub(super) fn reshapes(graph: &Graph) -> bool {
    graph.all_nodes().any(|node| ops::operator(graph.era, graph.kind(node)).rule.resizes == Resizes::Yes)
}

impl<'a> Facts<'a> {
    // ---- nodes

    /// The node that defines `value`, when it is of this kind.
    pub fn made_by(&self, value: Value, kind: &str) -> Option<Node> {
        self.graph.definer(value).filter(|&node| self.graph.kind(node).as_str() == kind)
    }

    /// Operand `i`.
    pub fn operand(&self, node: Node, i: usize) -> Option<Value> {
        self.graph.inputs(node).nth(i)
    }

    /// All operands, when there are exactly `N`.
    pub fn operands<const N: usize>(&self, node: Node) -> Option<[Value; N]> {
        if self.graph.num_inputs(node) != N {
            return None;
        }
        let all: Vec<Value> = self.graph.inputs(node).collect();
        all.try_into().ok()
    }

    /// The type of the only output.
    pub fn output_type(&self, node: Node) -> Option<Type> {
        self.graph.single_output(node).map(|output| self.ty(output))
    }

    // ---- values

    /// The type.
    pub fn ty(&self, value: Value) -> Type {
        self.graph.ty(value)
    }

    /// The type, when it is a tensor.
    pub fn tensor(&self, value: Value) -> Option<&'static TensorType> {
        let known = self.ty(value).as_tensor()?;
        let stays = !self.reshapes || known.sizes.is_none() || !self.is_written(value);
        let plain = || TensorType { sizes: None, strides: Strides::Unknown, ..known.clone() };
        if stays { Some(known) } else { Type::new(TypeKind::Tensor(plain())).as_tensor() }
    }

    /// Whether it is exactly of this simple type.
    pub fn is(&self, value: Value, simple: Simple) -> bool {
        self.ty(value).is(simple)
    }

    /// The value of an integer constant; bools do not count.
    pub fn int(&self, value: Value) -> Option<i64> {
        self.is(value, Simple::Int).then(|| self.graph.constant_int(value)).flatten()
    }

    /// The value of a bool constant.
    pub fn bool(&self, value: Value) -> Option<bool> {
        let constant = self.is(value, Simple::Bool).then(|| self.graph.constant_int(value)).flatten();
        constant.map(|n| n != 0)
    }

    /// The value of a scalar constant; bools do not count.
    pub fn number(&self, value: Value) -> Option<Number> {
        match self.graph.constant(value)?? {
            Attribute::Int(n) if self.is(value, Simple::Int) => Some(Number::Int(*n)),
            Attribute::Float(x) if self.is(value, Simple::Float) => Some(Number::Float(x.value)),
            _ => None,
        }
    }

    /// Whether it is certainly None.
    pub fn is_none(&self, value: Value) -> bool {
        self.is(value, Simple::None) || matches!(self.graph.constant(value), Some(None))
    }

    /// Whether it is never None: its type does not include None. Nothing is known for a general
    /// type.
    pub fn is_never_none(&self, value: Value) -> bool {
        use TypeKind as K;
        let ty = self.ty(value);
        !self.is_none(value)
            && match ty.kind() {
                K::Tensor(tensor) => tensor.undefined != Some(true),
                K::List(_) | K::Dict(..) | K::Tuple(_) | K::NamedTuple(_) | K::Class(_) | K::Enum(_) => true,
                K::Simple(simple) => is_plain(*simple),
                _ => false,
            }
    }

    // ---- tensors

    /// The element type.
    pub fn dtype(&self, value: Value) -> Option<DType> {
        self.tensor(value)?.dtype
    }

    /// The sizes, when all of them are known.
    pub fn sizes(&self, value: Value) -> Option<Vec<i64>> {
        let known = |dim: &Dim| if let Dim::Known(n) = dim { Some(*n) } else { None };
        self.tensor(value)?.sizes.as_ref()?.iter().map(known).collect()
    }

    /// The device. 1.3 reads a type that it printed with all its sizes as one on the cpu.
    pub fn device(&self, value: Value) -> Option<&'static str> {
        let tensor = self.tensor(value)?;
        let assumed = || {
            let cpu =
                self.trusting && self.graph.era == Era::V1_3 && tensor.dtype.is_some() && self.sizes(value).is_some();
            cpu.then_some("cpu")
        };
        tensor.device.map(Symbol::as_str).or_else(assumed)
    }

    /// Whether elements of an operand of `node` are known not to be bools: by its type, because the
    /// operator does not produce bools, or because it is a gradient, as `node` belongs to a
    /// formula.
    pub(crate) fn is_never_bool(&self, node: Node, value: Value) -> bool {
        let made = self.graph.definer(value);
        let never = made.is_some_and(|node| ops::operator(self.graph.era, self.graph.kind(node)).rule.never_bool);
        let formula = self.graph.enclosing(node).filter(|&owner| self.graph.kind(owner) == prim::GRAD_OF);
        let gradient = formula.is_some_and(|owner| self.graph.inputs(owner).any(|operand| operand == value));
        never || gradient
    }

    /// Whether the strides are known to be those of a fresh tensor.
    pub fn is_contiguous(&self, value: Value) -> bool {
        let (Some(sizes), Some(tensor)) = (self.sizes(value), self.tensor(value)) else { return false };
        let Strides::Known(strides) = &tensor.strides else { return false };
        let mut expected = 1i64;
        sizes.iter().zip(strides.iter()).rev().all(|(size, stride)| {
            let fits = *stride == expected;
            expected = expected.saturating_mul((*size).max(1));
            fits
        })
    }

    // ---- memory

    /// The value of the analysed graph whose memory `value` has.
    pub(super) fn memory(&self, value: Value) -> Value {
        self.stands_for.get(&value).copied().unwrap_or(value)
    }

    /// Whether memory that the value may have is written to: of a container, the container itself.
    pub fn is_written(&self, value: Value) -> bool {
        self.db.has_writers(self.memory(value))
    }

    /// Whether the value may be visible outside of the graph.
    pub fn escapes(&self, value: Value) -> bool {
        self.db.escapes_scope(self.memory(value))
    }
}

/// Simple types whose values are never None.
fn is_plain(simple: Simple) -> bool {
    use Simple::*;
    matches!(
        simple,
        Int | Float | Bool | Str | Complex | Number | Scalar | Device | Generator | Function | Layout | SymInt
    )
}
