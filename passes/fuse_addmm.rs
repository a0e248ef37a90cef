//! Fuses a matrix product and an addition into one operator.
//!
//! ```text
//! %m : Tensor = aten::mm(%a, %b)            %1 : int = prim::Constant[value=1]()
//! %y : Tensor = aten::add(%m, %c, %1)  =>   %y : Tensor = aten::addmm(%c, %a, %b, %1, %1)
//! ```
//!
//! The kernel of a product computes its output's earlier contents, times a factor, plus the
//! product: the addition is free. This needs types that say that all elements are of one type and
//! that the summand broadcasts to the product, never the other way round: `aten::addmm` rejects
//! what `aten::add` broadcasts. No factor may be written to, because it is read later, and the
//! product must have no other reader. `alpha` is 1.
//!
//! With `{trusting}` element types and sizes may be unknown, the product may have other readers,
//! and where both sides are products both are fused and the second is left for `dce`, as in
//! PyTorch, which makes an `aten::addmm` that fails of `Float(1, 4) + Float(2, 4)`. Linear in
//! nodes; idempotent, because an unread sum is left alone.

use jitopt_core::analysis::AliasDb;
use jitopt_core::ir::{Attribute, Graph, Node, Value};
use jitopt_core::pass::{PassContext, PassError, PassInfo, PassOption};
use jitopt_core::symbol::{Symbol, attr, prim};
use jitopt_core::types::{DType, Dim, Type};
use jitopt_core::{graph_dump, graph_update};

/// The registry entry.
pub const PASS: PassInfo = PassInfo {
    name: "fuse-addmm",
    aliases: &[],
    summary: "fuse an addition and a matrix product into addmm",
    example: "%m : Tensor = aten::mm(%a, %b), %y : Tensor = aten::add(%m, %c, %1)  =>  %y : Tensor = aten::addmm(%c, %a, %b, %1, %1)",
    options: &[PassOption {
        name: "trusting",
        default: "false",
        summary: "as PyTorch, also fuse with unknown sizes, products with other readers, and both of two products",
    }],
    required: false,
    reads_shapes: true,
    run,
    file: file!(),
};

fn run(graph: &mut Graph, cx: &mut PassContext<'_>) -> Result<(), PassError> {
    graph_dump!("Before fusing addmm", graph);
    let trusting = cx.flag("trusting")?;
    let is_sum = |graph: &Graph, node: Node| graph.kind(node).as_str() == "aten::add" && graph.num_inputs(node) == 3;
    let sums: Vec<Node> = graph.all_nodes().filter(|&node| is_sum(graph, node)).collect();
    let db = cx.alias(graph);
    for sum in sums {
        if !graph.outputs(sum).any(|output| graph.has_uses(output)) {
            continue;
        }
        for side in 0..2 {
            let Some(product) = product(graph, &db, sum, side, trusting) else { continue };
            let done = cx.rewrite(graph, "sums-folded", sum, |graph| fold(graph, sum, side, product));
            if done.is_some() && !trusting {
                break;
            }
        }
    }
    graph_dump!("After fusing addmm", graph);
    Ok(())
}

/// The product that is operand `side` of a sum, when the two can be fused.
pub(crate) fn product(graph: &Graph, db: &AliasDb, sum: Node, side: usize, trusting: bool) -> Option<Node> {
    let operands: Vec<Value> = graph.inputs(sum).collect();
    let [.., alpha] = operands[..] else { return None };
    let (product, summand) = (operands[side], operands[1 - side]);
    let mm = graph.definer(product).filter(|&node| graph.kind(node).as_str() == "aten::mm")?;
    let unscaled = is_one(graph, alpha);
    let quiet = graph.inputs(mm).chain([product]).all(|value| !db.has_writers(value));
    // For another reader the product is computed anyway, and a subtraction of the two no longer
    // cancels exactly.
    let alone = trusting || graph.single_use(product).is_some();
    let [a, b] = graph.inputs(mm).collect::<Vec<_>>()[..] else { return None };
    let fits = if trusting { might_fit(graph, summand, a) } else { fits(graph, summand, a, b) };
    (unscaled && quiet && alone && fits).then_some(mm)
}

pub(crate) fn is_one(graph: &Graph, value: Value) -> bool {
    match graph.constant(value).flatten() {
        Some(Attribute::Int(n)) => *n == 1,
        Some(Attribute::Float(x)) => x.value == 1.0,
        _ => false,
    }
}

fn dtype(graph: &Graph, value: Value) -> Option<DType> {
    graph.ty(value).as_tensor()?.dtype
}

/// PyTorch's condition: both element types are known.
fn might_fit(graph: &Graph, summand: Value, a: Value) -> bool {
    dtype(graph, summand).is_some() && dtype(graph, a).is_some()
}

/// Whether types prove that the summand broadcasts to the product of `a` and `b`, and that all have
/// one element type.
fn fits(graph: &Graph, summand: Value, a: Value, b: Value) -> bool {
    let size = |value: Value, rank: usize, i: usize| -> Option<Dim> {
        let sizes = graph.ty(value).as_tensor()?.sizes.as_ref()?;
        (sizes.len() == rank).then(|| sizes[i])
    };
    let one_dtype = dtype(graph, summand).is_some() && [a, b].iter().all(|&v| dtype(graph, v) == dtype(graph, summand));
    let (Some(rows), Some(columns)) = (size(a, 2, 0), size(b, 2, 1)) else { return false };
    let Some(sizes) = graph.ty(summand).as_tensor().and_then(|tensor| tensor.sizes.as_ref()) else { return false };
    let broadcasts = |from: Dim, to: Dim| from == Dim::Known(1) || from == to && to != Dim::Unknown;
    one_dtype
        && match sizes[..] {
            [] => true,
            [n] => broadcasts(n, columns),
            [m, n] => broadcasts(m, rows) && broadcasts(n, columns),
            _ => false,
        }
}

/// Inserts `addmm` before the sum; the product is left for `dce`.
fn fold(graph: &mut Graph, sum: Node, side: usize, mm: Node) {
    graph_update!("Fusing %{} and a product", graph.name(graph.output(sum, 0)));
    let (summand, old) = (graph.input(sum, 1 - side), graph.output(sum, 0));
    let one = graph.create_op(prim::CONSTANT, &[], Type::int());
    graph.set_attribute(one, attr::VALUE, Attribute::Int(1));
    graph.insert_before(sum, one);
    let one = graph.output(one, 0);
    let factors: Vec<Value> = graph.inputs(mm).collect();
    let operands: Vec<Value> = [summand].into_iter().chain(factors).chain([one, one]).collect();
    let addmm = graph.create_op(Symbol::new("aten::addmm"), &operands, graph.ty(old));
    graph.insert_before(sum, addmm);
    graph.replace_all_uses(old, graph.output(addmm, 0));
}
