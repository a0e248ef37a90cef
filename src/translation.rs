//! Translates a graph into the text of another version of PyTorch: `--print-as=1.3`.
//!
//! ```text
//! 2:    %2 : NoneType = prim::Constant()                              1.3:  %2 : None = prim::Constant()
//!       %y : Float(2, *, device=cpu) = aten::clone(%x, %2)                  %y : Float(*, *) = aten::clone(%x)
//! ```
//!
//! Eras differ in the spelling of types and constants, the facts in types, the available operators
//! and their operands. A type loses the facts that the other era's text does not show. Operands are
//! matched by the names of formal parameters: one that the other era lacks is dropped when it has
//! the default value, one that it has in addition gets its default. Everything else cannot be
//! expressed, and [`translate`] reports what and why. It warns where an operator of the same name
//! computes a different result.

use crate::analysis::gradient_roles::HIDDEN;
use crate::interpreter::{Environment, exact_literals, literal_values};
use crate::ir::{Attribute, Graph, Node, Releases, Value};
use crate::ops::catalog;
use crate::ops::declared::Declared;
use crate::ops::overloads::accepts;
use crate::ops::schema::{Formal, Schema};
use crate::ops::{resolve, rows, rules};
use crate::symbol::{Symbol, attr, prim};
use crate::tensor::DType;
use crate::text::number::parse_float;
use crate::types::era::Era;
use crate::types::release::Release;
use crate::types::spelling::{NONE_TYPE_SINCE, Spelling};
use crate::types::{Dim, Simple, Strides, TensorType, Type, TypeKind};
use crate::verify::{Carrier, Report, Sink, Spot, carried};

/// Operands that can be dropped without loss: kind and formal parameter. Exceptions had no classes
/// up to 1.4.
const DROPPED: &[(&str, &str)] = &[("prim::RaiseException", "cls")];

/// Operators that compute a different result in the other era, and the difference.
const CHANGED: &[(&str, &str)] = &[
    ("aten::div", "on integers it truncates up to 1.4, and returns floats from 1.5 on"),
    ("aten::div_", "on integers it truncates up to 1.4, and fails from 1.5 on"),
    ("aten::floor_divide", "up to 1.12 it truncates towards zero"),
    ("aten::max", "up to 1.6 it does not propagate NaN"),
    ("aten::min", "up to 1.6 it does not propagate NaN"),
    ("aten::full", "on integers it returns floats up to 1.6"),
];

/// Translates a graph and its sections into the text of a release. When the report has errors, the
/// graph is unchanged.
pub fn translate(graph: &mut Graph, to: Release) -> Report {
    let mut report = Report::default();
    let mut pending: Vec<(&Graph, Option<Carrier>)> = vec![(graph, None)];
    while let Some((graph, carrier)) = pending.pop() {
        let section = report.open_section(carrier);
        // Backward graphs are hidden.
        if !carrier.is_some_and(|carrier| carrier.is_backward) {
            check(graph, to.era(), &mut report.sink(graph, section));
        }
        pending.extend(carried(graph, section, graph.all_nodes()).into_iter().rev());
    }
    if !report.has_errors() {
        let mut pending = vec![graph];
        while let Some(graph) = pending.pop() {
            hide_gradients(graph);
            forget_given(graph);
            rewrite(graph, to);
            pending.extend(graph.subgraphs_mut());
        }
    }
    report
}

fn check(graph: &Graph, to: Era, sink: &mut Sink<'_, '_>) {
    if graph.era == to {
        return;
    }
    for block in graph.all_blocks() {
        check_types(graph, to, graph.param_node(block), sink);
    }
    for node in graph.all_nodes() {
        check_types(graph, to, node, sink);
        if let Err(why) = attributes_in(graph, to, node) {
            sink.error(Spot::Node(node), why);
        }
        if let Err(why) = operands_in(graph, to, node) {
            sink.error(Spot::Node(node), why);
        }
        let changed = CHANGED.iter().find(|(kind, _)| *kind == graph.kind(node).as_str());
        if let Some((kind, how)) = changed.filter(|_| !is_of_floats(graph, node)) {
            sink.warning(Spot::Node(node), format!("`{kind}` differs between the eras: {how}"));
        }
    }
}

/// Whether an operand shows that the node does not compute on integers.
fn is_of_floats(graph: &Graph, node: Node) -> bool {
    let float = |value: Value| {
        let ty = graph.ty(value);
        ty.is(Simple::Float) || ty.as_tensor().and_then(|tensor| tensor.dtype).is_some_and(DType::is_float)
    };
    let order = matches!(graph.kind(node).as_str(), "aten::max" | "aten::min");
    // Division of two scalars was never truncated.
    let division = matches!(graph.kind(node).as_str(), "aten::div" | "aten::div_");
    let numbers = division && !graph.inputs(node).take(2).any(|value| graph.ty(value).is_tensor());
    !order && (numbers || graph.inputs(node).take(2).any(float))
        || order && graph.inputs(node).any(|v| !graph.ty(v).is_tensor())
}

fn check_types(graph: &Graph, to: Era, node: Node, sink: &mut Sink<'_, '_>) {
    for (i, value) in graph.outputs(node).enumerate() {
        if let Some(part) = unsayable(graph.ty(value), to) {
            sink.error(Spot::Output(node, i), format!("PyTorch {to} has no type `{part}`"));
        }
    }
}

/// The part of a type that an era does not have.
fn unsayable(ty: Type, to: Era) -> Option<Type> {
    let mut pending = vec![ty];
    while let Some(ty) = pending.pop() {
        let missing = match ty.kind() {
            TypeKind::Union(_) | TypeKind::Await(_) | TypeKind::Enum(_) => true,
            TypeKind::Simple(simple) => matches!(
                simple,
                Simple::Complex
                    | Simple::SymInt
                    | Simple::SymFloat
                    | Simple::SymBool
                    | Simple::Stream
                    | Simple::Storage
            ),
            TypeKind::Tensor(tensor) => tensor.dtype.is_some_and(|dtype| dtype > DType::QInt32),
            _ => false,
        };
        if missing && to == Era::V1_3 {
            return Some(ty);
        }
        pending.extend(ty.parts());
    }
    None
}

/// A type with the facts that the text of an era shows. Up to 1.4 that was the element type, and
/// the sizes where all were known.
fn shown(ty: Type, to: Era) -> Type {
    if to != Era::V1_3 {
        return ty;
    }
    ty.map_tensors(&mut |tensor| {
        let known = |sizes: &[Dim]| sizes.iter().all(|size| matches!(size, Dim::Known(_)));
        let sizes = tensor.dtype.and(tensor.sizes.as_ref());
        let sizes =
            sizes.map(|sizes| if known(sizes) { sizes.clone() } else { vec![Dim::Unknown; sizes.len()].into() });
        let kept = TensorType { dtype: tensor.dtype, sizes, undefined: tensor.undefined, ..TensorType::default() };
        Type::new(TypeKind::Tensor(TensorType { strides: Strides::Unknown, ..kept }))
    })
}

/// The attributes of a node in another era, where they differ.
fn attributes_in(graph: &Graph, to: Era, node: Node) -> Result<Option<Attribute>, String> {
    if graph.kind(node) != prim::CONSTANT {
        let new =
            graph.attributes(node).iter().find(|(_, value)| matches!(value, Attribute::Type(_) | Attribute::Enum(_)));
        return match new.filter(|_| to == Era::V1_3) {
            Some((name, _)) => Err(format!("PyTorch {to} has no attribute such as `{name}`")),
            None => Ok(None),
        };
    }
    if graph.attribute(node, attr::VALUE).is_none() {
        return Ok(None);
    }
    let Ok(value) = literal_values::constant(graph, &Environment::default(), node) else { return Ok(None) };
    let ty = graph.single_output(node).map_or(Type::none(), |output| graph.ty(output));
    match exact_literals::of(&value, ty, Release::of(to)) {
        Ok((attribute, _)) => Ok(attribute),
        Err(exact_literals::LiteralError::Kind) => Err(format!("PyTorch {to} has no constants of type `{ty}`")),
        // The other era rounds a text no more than this era already did.
        Err(exact_literals::LiteralError::Rounded) => Ok(None),
    }
}

/// An operand of a node in another era.
#[derive(Clone, Debug, PartialEq)]
enum Operand {
    Given(Value),
    Default(&'static str),
}

/// The operands of a node in another era, where they differ.
fn operands_in(graph: &Graph, to: Era, node: Node) -> Result<Option<Vec<Operand>>, String> {
    let kind = graph.kind(node);
    // Declared operators exist in every release.
    let declared = Declared::current().schemas_of(kind);
    let theirs: Vec<Schema> = catalog::schemas(catalog::list(to), kind).into_iter().chain(declared).collect();
    let operands: Vec<Value> = graph.inputs(node).collect();
    let types: Vec<Type> = operands.iter().map(|&value| graph.ty(value)).collect();
    if accepts(&theirs, &types) {
        return Ok(None);
    }
    if theirs.is_empty() {
        let listed = || rules::RULES.iter().any(|(kinds, _)| kinds.contains(&kind.as_str()));
        let structural = listed() || rows::row(kind).is_some_and(|row| row.semantics.known().is_some());
        return match structural && !is_newer(kind, to) {
            true => Ok(None),
            false => Err(format!("PyTorch {to} has no operator `{kind}`")),
        };
    }
    let resolution = resolve(graph.era, kind, &types);
    let Some(ours) = resolution.schema() else {
        return Err(format!("no overload of `{kind}` accepts these operands, so there is nothing to translate"));
    };
    let matched = theirs.iter().find_map(|theirs| matched(graph, ours, theirs, &operands));
    let nearest = theirs.iter().find(|theirs| theirs.overload == ours.overload).unwrap_or(&theirs[0]);
    matched.map(Some).ok_or_else(|| format!("`{kind}` of PyTorch {to} has other operands: `{}`", nearest.text(to)))
}

/// Kinds without a schema that were added for the executors of 1.5 and later.
fn is_newer(kind: Symbol, to: Era) -> bool {
    const NEWER: &[&str] = &[
        "prim::TensorExprGroup",
        "prim::TensorExprDynamicGroup",
        "prim::TensorExprDynamicGuard",
        "prim::TypeCheck",
        "prim::CudaFusionGuard",
        "prim::oneDNNFusionGroup",
        "prim::oneDNNFusionGuard",
        "prim::RequiresGradCheck",
        "prim::CudaFusionGroup",
        "prim::FallbackGraph",
        "prim::profile_ivalue",
        "prim::With",
        "prim::Enter",
        "prim::Exit",
        "prim::FunctionalGraph",
        "prim::StaticSubgraph",
        "prim::ConstantMKLDNNTensor",
    ];
    to == Era::V1_3 && NEWER.contains(&kind.as_str())
}

/// The operands for another overload, by formal parameter.
fn matched(graph: &Graph, ours: &Schema, theirs: &Schema, operands: &[Value]) -> Option<Vec<Operand>> {
    let named = |name: &str| ours.formals.iter().position(|formal| formal.name == name);
    let lost = |(i, formal): (usize, &Formal)| {
        let dropped = DROPPED.contains(&(ours.kind.as_str(), formal.name));
        theirs.formal(formal.name).is_none() && !dropped && !is_default(graph, operands[i], formal.default)
    };
    if operands.len() != ours.formals.len() || ours.formals.iter().enumerate().any(lost) {
        return None;
    }
    let default =
        |formal: &Formal| formal.default.filter(|text| constant(text, graph.release()).is_some()).map(Operand::Default);
    let operand = |formal: &Formal| match named(formal.name).map(|i| operands[i]) {
        // `end=None` becomes the largest integer where integers are not optional.
        Some(value)
            if matches!(graph.constant(value), Some(None)) && !matches!(formal.ty.kind(), TypeKind::Optional(_)) =>
        {
            default(formal)
        }
        Some(value) => Some(Operand::Given(value)),
        None => default(formal),
    };
    let found: Vec<Operand> = theirs.formals.iter().map(operand).collect::<Option<_>>()?;
    let types = found.iter().map(|operand| match operand {
        Operand::Given(value) => graph.ty(*value),
        Operand::Default(text) => constant(text, graph.release()).map_or(Type::none(), |(_, ty)| ty),
    });
    accepts(std::slice::from_ref(theirs), &types.collect::<Vec<_>>()).then_some(found)
}

/// Whether a value is the default constant of a schema.
fn is_default(graph: &Graph, value: Value, default: Option<&'static str>) -> bool {
    match (graph.constant(value), default.and_then(|text| constant(text, graph.release()))) {
        (Some(None), Some((None, _))) => true,
        (Some(Some(given)), Some((Some(default), ty))) => given.same_constant(&default, Some(ty)),
        _ => false,
    }
}

/// The constant that the text of a default denotes, in the spelling of a release.
fn constant(text: &str, release: Release) -> Option<(Option<Attribute>, Type)> {
    let float = |value| Attribute::Float(exact_literals::float(value, release));
    match text {
        "None" => Some((None, Type::none())),
        "True" => Some((Some(Attribute::Int(1)), Type::bool())),
        "False" => Some((Some(Attribute::Int(0)), Type::bool())),
        _ if text.starts_with(['"', '\'']) => {
            let text = text.trim_matches(['"', '\'']);
            Some((Some(Attribute::Str(text.as_bytes().into())), Type::simple(Simple::Str)))
        }
        _ => match text.parse::<i64>() {
            Ok(n) => Some((Some(Attribute::Int(n)), Type::int())),
            Err(_) => Some((Some(float(parse_float(text.as_bytes())?)), Type::simple(Simple::Float))),
        },
    }
}

/// Backward graphs and their attributes exist in our text only: PyTorch has them but does not print
/// them.
fn hide_gradients(graph: &mut Graph) {
    let nodes: Vec<Node> = graph.all_nodes().filter(|&node| graph.backward(node).is_some()).collect();
    for node in nodes {
        for name in HIDDEN {
            graph.remove_attribute(node, name);
        }
    }
}

/// PyTorch does not print which gradients are given.
fn forget_given(graph: &mut Graph) {
    let made = graph.all_nodes().chain(graph.all_blocks().map(|block| graph.param_node(block)));
    let values: Vec<Value> = made.flat_map(|node| graph.outputs(node)).collect();
    for value in values {
        let given = graph.ty(value).as_tensor().filter(|tensor| tensor.undefined == Some(false)).cloned();
        if let Some(tensor) = given {
            graph.set_type(value, Type::new(TypeKind::Tensor(TensorType { undefined: None, ..tensor })));
        }
    }
}

fn rewrite(graph: &mut Graph, to: Release) {
    if graph.era != to.era() {
        rewrite_for_era(graph, to.era());
        let verbosity = graph.dialect.spelling.verbosity;
        graph.dialect.spelling = Spelling { verbosity, ..Spelling::default() };
    }
    graph.set_release(to);
    graph.dialect.releases = Releases { oldest: to, newest: to };
    graph.dialect.spelling.old_none = to < NONE_TYPE_SINCE;
}

fn rewrite_for_era(graph: &mut Graph, to: Era) {
    let nodes: Vec<Node> = graph.all_nodes().collect();
    for node in nodes {
        if let Ok(Some(attribute)) = attributes_in(graph, to, node) {
            graph.set_attribute(node, attr::VALUE, attribute);
        }
        if let Ok(Some(operands)) = operands_in(graph, to, node) {
            let operands: Vec<Value> = operands.into_iter().map(|operand| value_of(graph, node, operand, to)).collect();
            graph.remove_inputs(node);
            operands.into_iter().for_each(|value| graph.add_input(node, value));
        }
    }
    let made = graph.all_nodes().chain(graph.all_blocks().map(|block| graph.param_node(block)));
    let values: Vec<Value> = made.flat_map(|node| graph.outputs(node)).collect();
    for value in values {
        if graph.written_type(value).is_some() {
            graph.set_type(value, shown(graph.ty(value), to));
        }
    }
}

/// The value of an operand; a default is a new constant before the node.
fn value_of(graph: &mut Graph, node: Node, operand: Operand, to: Era) -> Value {
    let text = match operand {
        Operand::Given(value) => return value,
        Operand::Default(text) => text,
    };
    let (attribute, ty) = constant(text, Release::of(to)).expect("only defaults that are constants are matched");
    let made = graph.create_op(prim::CONSTANT, &[], ty);
    if let Some(attribute) = attribute {
        graph.set_attribute(made, attr::VALUE, attribute);
    }
    graph.insert_before(node, made);
    graph.output(made, 0)
}
