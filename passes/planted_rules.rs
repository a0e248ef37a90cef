//! Rewrite rules that are wrong: past errors of peephole passes, each a mutant of its own.
//!
//! The pass does nothing unless one of its mutants is active; then it applies that rule wherever
//! the rule matches. It exists with the feature `mutants` only, and is in no registry that users
//! see.

use jitopt_core::ir::{Attribute, Float, FloatStyle, Graph, Node, Value};
use jitopt_core::mutants::{self, Mutant};
use jitopt_core::pass::{PassContext, PassError, PassInfo};
use jitopt_core::symbol::{Symbol, attr, prim};
use jitopt_core::types::{Simple, Type, TypeKind};

/// The registry entry.
pub const PASS: PassInfo = PassInfo {
    name: "planted-rules",
    aliases: &[],
    summary: "wrong rewrites",
    example: "%y : Tensor = aten::sub(%a, %b, %1)  =>  %y : Tensor = aten::sub(%b, %a, %1)",
    options: &[],
    required: false,
    reads_shapes: true,
    run,
    file: file!(),
};

/// An operand of a replacement.
#[derive(Clone, Copy)]
enum Arg {
    /// This operand of the node.
    At(usize),
    Int(i64),
    Float(f64),
    Bool(bool),
    None,
}

/// The replacement of a node.
#[derive(Clone, Copy)]
enum New {
    /// One of its operands.
    Operand(usize),
    /// An operand of the node that defines its first operand.
    Inner(usize),
    /// A constant.
    Is(Arg),
    /// Another operator.
    Op(&'static str, &'static [Arg]),
    /// Nothing.
    Gone,
    /// The node with another operand.
    With(usize, Arg),
}

use Arg::{At, Bool, Int};
use New::{Gone, Inner, Is, Op, Operand, With};

/// Name, kind, condition, replacement.
type Rule = (&'static str, &'static str, fn(&Graph, Node) -> bool, New);

#[rustfmt::skip]
const RULES: &[Rule] = &[
    ("ne-of-itself", "aten::ne", of_tensors_twice, Op("aten::lt", &[At(0), At(1)])),
    ("isnan-false", "aten::isnan", any, Op("aten::lt", &[At(0), At(0)])),
    ("div-by-one", "aten::div", |g, n| is_number(g, n, 1, 1.0), Operand(0)),
    ("mul-by-one", "aten::mul", |g, n| is_number(g, n, 1, 1.0), Operand(0)),
    ("add-of-zero", "aten::add", |g, n| is_number(g, n, 1, 0.0), Operand(0)),
    ("mul-by-zero", "aten::mul", |g, n| is_number(g, n, 1, 0.0),
        Op("aten::zeros_like", &[At(0), Arg::None, Arg::None, Arg::None, Arg::None, Arg::None])),
    ("add-without-alpha", "aten::add", |g, n| has(g, n, 3), With(2, Int(1))),
    ("sub-without-alpha", "aten::sub", |g, n| has(g, n, 3), With(2, Int(1))),
    ("sub-commuted", "aten::sub", |g, n| has(g, n, 3) && tensor_at(g, n, 1), Op("aten::sub", &[At(1), At(0), At(2)])),
    ("sub-to-add", "aten::sub", |g, n| has(g, n, 3), Op("aten::add", &[At(0), At(1), At(2)])),
    ("rsub-to-sub", "aten::rsub", any, Op("aten::sub", &[At(0), At(1), At(2)])),
    ("div-commuted", "aten::div", |g, n| tensor_at(g, n, 1), Op("aten::div", &[At(1), At(0)])),
    ("div-to-floor", "aten::div", any, Op("aten::floor_divide", &[At(0), At(1)])),
    ("remainder-commuted", "aten::remainder", |g, n| tensor_at(g, n, 1), Op("aten::remainder", &[At(1), At(0)])),
    ("pow-to-square", "aten::pow", |g, n| tensor_at(g, n, 0), Op("aten::mul", &[At(0), At(0)])),
    ("pow-half-to-sqrt", "aten::pow", |g, n| is_number(g, n, 1, 0.5), Op("aten::sqrt", &[At(0)])),
    ("clamp-swapped", "aten::clamp", any, Op("aten::clamp", &[At(0), At(2), At(1)])),
    ("clamp-gone", "aten::clamp", any, Operand(0)),
    ("relu-gone", "aten::relu", any, Operand(0)),
    ("double-negation", "aten::neg", |g, n| is_made_by(g, n, "aten::neg"), Inner(0)),
    ("double-reciprocal", "aten::reciprocal", |g, n| is_made_by(g, n, "aten::reciprocal"), Inner(0)),
    ("exp-of-log", "aten::exp", |g, n| is_made_by(g, n, "aten::log"), Inner(0)),
    ("log-of-exp", "aten::log", |g, n| is_made_by(g, n, "aten::exp"), Inner(0)),
    ("abs-of-anything", "aten::abs", any, Operand(0)),
    ("maximum-to-first", "aten::maximum", any, Operand(0)),
    ("round-to-floor", "aten::round", any, Op("aten::floor", &[At(0)])),
    ("floor-gone", "aten::floor", any, Operand(0)),
    ("not-is-logical", "aten::bitwise_not", any, Op("aten::logical_not", &[At(0)])),
    ("ge-to-gt", "aten::ge", |g, n| tensor_at(g, n, 0), Op("aten::gt", &[At(0), At(1)])),
    ("lt-to-le", "aten::lt", |g, n| tensor_at(g, n, 0), Op("aten::le", &[At(0), At(1)])),
    ("lt-flipped", "aten::lt", |g, n| tensor_at(g, n, 1), Op("aten::lt", &[At(1), At(0)])),
    ("where-swapped", "aten::where", |g, n| has(g, n, 3), Op("aten::where", &[At(0), At(2), At(1)])),
    ("masked-fill-gone", "aten::masked_fill", any, Operand(0)),
    ("lerp-to-end", "aten::lerp", any, Operand(1)),
    ("addcmul-without-value", "aten::addcmul", any, With(3, Int(1))),
    ("transpose-gone", "aten::transpose", any, Operand(0)),
    ("t-gone", "aten::t", any, Operand(0)),
    ("select-first", "aten::select", any, With(2, Int(0))),
    ("select-first-dim", "aten::select", any, With(1, Int(0))),
    ("slice-from-start", "aten::slice", |g, n| has(g, n, 5), With(2, Int(0))),
    ("slice-without-step", "aten::slice", |g, n| has(g, n, 5), With(4, Int(1))),
    ("slice-gone", "aten::slice", any, Operand(0)),
    ("narrow-from-start", "aten::narrow", any, With(2, Int(0))),
    ("expand-gone", "aten::expand", |g, n| is_number(g, n, 2, 0.0), Operand(0)),
    ("expand-as-gone", "aten::expand_as", any, Operand(0)),
    ("reshape-gone", "aten::reshape", any, Operand(0)),
    ("view-gone", "aten::view", any, Operand(0)),
    ("flatten-gone", "aten::flatten", any, Operand(0)),
    ("squeeze-gone", "aten::squeeze", any, Operand(0)),
    ("unsqueeze-front", "aten::unsqueeze", any, With(1, Int(0))),
    ("cast-gone", "aten::to", any, Operand(0)),
    ("type-as-gone", "aten::type_as", any, Operand(0)),
    ("clone-gone", "aten::clone", any, Operand(0)),
    ("detach-to-clone", "aten::detach", any, Op("aten::clone", &[At(0), Arg::None])),
    ("add-in-place-to-add", "aten::add_", |g, n| has(g, n, 3), Op("aten::add", &[At(0), At(1), At(2)])),
    ("mul-in-place-to-mul", "aten::mul_", any, Op("aten::mul", &[At(0), At(1)])),
    ("relu-to-in-place", "aten::relu", any, Op("aten::relu_", &[At(0)])),
    ("add-to-in-place", "aten::add", |g, n| has(g, n, 3) && tensor_at(g, n, 0), Op("aten::add_", &[At(0), At(1), At(2)])),
    ("fill-gone", "aten::fill_", any, Operand(0)),
    ("zero-gone", "aten::zero_", any, Operand(0)),
    ("copy-to-source", "aten::copy_", any, Operand(1)),
    ("copy-gone", "aten::copy_", any, Operand(0)),
    ("softmax-other-dim", "aten::softmax", any, With(1, Int(0))),
    ("cumsum-other-dim", "aten::cumsum", any, With(1, Int(0))),
    ("sum-dim-flipped", "aten::sum", |g, n| has(g, n, 4), With(2, Bool(true))),
    ("mean-to-sum", "aten::mean", |g, n| has(g, n, 2), Op("aten::sum", &[At(0), At(1)])),
    ("max-to-min", "aten::max", |g, n| has(g, n, 1), Op("aten::min", &[At(0)])),
    ("any-to-all", "aten::any", |g, n| has(g, n, 1), Op("aten::all", &[At(0)])),
    ("mm-commuted", "aten::mm", any, Op("aten::mm", &[At(1), At(0)])),
    ("matmul-commuted", "aten::matmul", any, Op("aten::matmul", &[At(1), At(0)])),
    ("cat-first-dim", "aten::cat", any, With(1, Int(0))),
    ("stack-to-cat", "aten::stack", any, Op("aten::cat", &[At(0), At(1)])),
    ("full-like-to-ones", "aten::full_like", any, With(1, Arg::Float(1.0))),
    ("rand-to-zeros", "aten::rand_like", any,
        Op("aten::zeros_like", &[At(0), Arg::None, Arg::None, Arg::None, Arg::None, Arg::None])),
    ("dropout-gone", "aten::dropout", any, Operand(0)),
    ("size-first", "aten::size", |g, n| has(g, n, 2), With(1, Int(0))),
    ("numel-to-dim", "aten::numel", any, Op("aten::dim", &[At(0)])),
    ("len-is-two", "aten::len", any, Is(Int(2))),
    ("int-sub-commuted", "aten::sub", |g, n| has(g, n, 2), Op("aten::sub", &[At(1), At(0)])),
    ("int-floordiv-to-mul", "aten::floordiv", any, Op("aten::mul", &[At(0), At(1)])),
    ("int-neg-gone", "aten::neg", |g, n| !tensor_at(g, n, 0), Operand(0)),
    ("int-eq-true", "aten::eq", |g, n| !tensor_at(g, n, 0), Is(Bool(true))),
    ("int-lt-to-le", "aten::lt", |g, n| !tensor_at(g, n, 0), Op("aten::le", &[At(0), At(1)])),
    ("not-gone", "aten::__not__", any, Operand(0)),
    ("and-to-first", "aten::__and__", any, Operand(0)),
    ("getitem-first", "aten::__getitem__", any, With(1, Int(0))),
    ("append-gone", "aten::append", |g, n| !g.outputs(n).any(|value| g.has_uses(value)), Gone),
    ("set-item-gone", "aten::_set_item", |g, n| !g.outputs(n).any(|value| g.has_uses(value)), Gone),
    ("set-item-first", "aten::_set_item", any, With(1, Int(0))),
    ("pop-to-getitem", "aten::pop", any, Op("aten::__getitem__", &[At(0), At(1)])),
    ("print-gone", "prim::Print", any, Gone),
    ("raise-gone", "prim::RaiseException", any, Gone),
    ("if-always-true", "prim::If", any, With(0, Bool(true))),
    ("if-always-false", "prim::If", any, With(0, Bool(false))),
    ("loop-once", "prim::Loop", any, With(0, Int(1))),
    ("loop-condition-true", "prim::Loop", any, With(1, Bool(true))),
    ("list-first-twice", "prim::ListConstruct", |g, n| has(g, n, 2) && same_types(g, n), With(1, At(0))),
    ("tuple-swapped", "prim::TupleConstruct", |g, n| has(g, n, 2) && same_types(g, n), With(0, At(1))),
    ("sub-of-itself", "aten::sub", |g, n| has(g, n, 3) && of_tensors_twice(g, n),
        Op("aten::zeros_like", &[At(0), Arg::None, Arg::None, Arg::None, Arg::None, Arg::None])),
    ("div-of-itself", "aten::div", of_tensors_twice,
        Op("aten::ones_like", &[At(0), Arg::None, Arg::None, Arg::None, Arg::None, Arg::None])),
    ("neg-gone", "aten::neg", |g, n| tensor_at(g, n, 0), Operand(0)),
    ("sigmoid-to-tanh", "aten::sigmoid", any, Op("aten::tanh", &[At(0)])),
    ("floor-to-ceil", "aten::floor", any, Op("aten::ceil", &[At(0)])),
    ("sqrt-gone", "aten::sqrt", any, Operand(0)),
    ("logical-not-gone", "aten::logical_not", any, Operand(0)),
    ("eq-to-ne", "aten::eq", |g, n| tensor_at(g, n, 0), Op("aten::ne", &[At(0), At(1)])),
    ("add-second-alpha", "aten::add", |g, n| has(g, n, 3), With(2, Int(2))),
    ("mul-to-square", "aten::mul", |g, n| tensor_at(g, n, 1), Op("aten::mul", &[At(0), At(0)])),
    ("batch-norm-in-evaluation", "aten::batch_norm", any, With(5, Bool(false))),
];

/// All mutants of rules.
pub fn mutants() -> impl Iterator<Item = Mutant> {
    RULES.iter().map(|(name, ..)| Mutant { site: name, kind: "planted" })
}

fn run(graph: &mut Graph, cx: &mut PassContext<'_>) -> Result<(), PassError> {
    for &(name, kind, applies, new) in RULES.iter().filter(|(name, ..)| mutants::at(name).is_some()) {
        let matches = |graph: &Graph, node: Node| graph.kind(node).as_str() == kind && applies(graph, node);
        let nodes: Vec<Node> = graph.all_nodes().filter(|&node| matches(graph, node)).collect();
        for node in nodes {
            // An earlier rewrite may have changed it.
            if matches(graph, node) {
                cx.rewrite(graph, name, node, |graph| replace(graph, node, new));
            }
        }
    }
    Ok(())
}

fn replace(graph: &mut Graph, node: Node, new: New) {
    match new {
        Operand(i) => forward(graph, node, graph.input(node, i)),
        Inner(i) => {
            let inner = graph.definer(graph.input(node, 0)).map(|inner| graph.input(inner, i));
            inner.into_iter().for_each(|value| forward(graph, node, value));
        }
        Is(arg) => {
            let value = operand(graph, node, arg);
            forward(graph, node, value);
        }
        Op(kind, args) => {
            let operands: Vec<Value> = args.iter().map(|&arg| operand(graph, node, arg)).collect();
            let made = graph.create_op(Symbol::new(kind), &operands, graph.ty(graph.output(node, 0)));
            graph.insert_before(node, made);
            forward(graph, node, graph.output(made, 0));
        }
        Gone => graph.erase(node),
        With(i, arg) => {
            let value = operand(graph, node, arg);
            if graph.input(node, i) != value {
                graph.set_input(node, i, value);
            }
        }
    }
}

fn forward(graph: &mut Graph, node: Node, value: Value) {
    if graph.num_outputs(node) == 1 {
        graph.replace_all_uses(graph.output(node, 0), value);
    }
    graph.erase(node);
}

fn operand(graph: &mut Graph, node: Node, arg: Arg) -> Value {
    let simple = |simple| Type::new(TypeKind::Simple(simple));
    let (attribute, ty) = match arg {
        At(i) => return graph.input(node, i),
        Int(n) => (Some(Attribute::Int(n)), Type::int()),
        Arg::Float(value) => {
            (Some(Attribute::Float(Float { value, style: FloatStyle::Seventeen })), simple(Simple::Float))
        }
        Bool(b) => (Some(Attribute::Int(i64::from(b))), simple(Simple::Bool)),
        Arg::None => (None, simple(Simple::None)),
    };
    let constant = graph.create_op(prim::CONSTANT, &[], ty);
    attribute.into_iter().for_each(|attribute| graph.set_attribute(constant, attr::VALUE, attribute));
    graph.insert_before(node, constant);
    graph.output(constant, 0)
}

fn any(_: &Graph, _: Node) -> bool {
    true
}

fn has(graph: &Graph, node: Node, operands: usize) -> bool {
    graph.num_inputs(node) == operands
}

fn tensor_at(graph: &Graph, node: Node, i: usize) -> bool {
    graph.inputs(node).nth(i).is_some_and(|value| graph.ty(value).is_tensor())
}

fn of_tensors_twice(graph: &Graph, node: Node) -> bool {
    tensor_at(graph, node, 1) && graph.input(node, 0) == graph.input(node, 1)
}

fn same_types(graph: &Graph, node: Node) -> bool {
    graph.ty(graph.input(node, 0)) == graph.ty(graph.input(node, 1))
}

fn is_made_by(graph: &Graph, node: Node, kind: &str) -> bool {
    graph.definer(graph.input(node, 0)).is_some_and(|definer| graph.kind(definer).as_str() == kind)
}

fn is_number(graph: &Graph, node: Node, i: usize, wanted: f64) -> bool {
    let constant = graph.inputs(node).nth(i).and_then(|value| graph.constant(value)).flatten();
    tensor_at(graph, node, 0)
        && match constant {
            Some(Attribute::Int(n)) => *n as f64 == wanted,
            Some(Attribute::Float(x)) => x.value == wanted,
            _ => false,
        }
}
