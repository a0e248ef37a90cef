//! Converts products of matrices to calls, which a backend computes: on the processor with constant
//! weights packed once, on a GPU with cuBLAS.
//!
//! ```text
//!                                       %y : Tensor = library::Product_0(%x, %w)
//!                                       …
//! %y : Tensor = aten::mm(%x, %w)   =>   with library::Product_0 = graph(%x : Tensor, %w : Tensor):
//!                                         %y : Tensor = aten::mm(%x, %w)
//!                                         return (%y)
//! ```
//!
//! A call is a section, as a fusion group is: the section says what is computed, a backend that has
//! a library calls it, and all others run the section. So a call can be read, run anywhere and
//! validated. Numbers go along, so that the section shows the factors of `addmm`; weights are
//! operands.
//!
//! Libraries multiply floating-point elements. Products that types show to be of integers, bools or
//! complex numbers are not converted, and neither are those without readers. Passes that match
//! products (`fuse-linear`, `batch-mm`) have to run before. Linear in nodes; idempotent.

use jitopt_core::graph_dump;
use jitopt_core::ir::{Attribute, Graph, Node, Value};
use jitopt_core::outlining::excerpt;
use jitopt_core::pass::{PassContext, PassError, PassInfo};
use jitopt_core::symbol::{attr, library, prim};
use jitopt_core::tensor::DType;
use jitopt_core::types::Type;

/// The registry entry.
pub const PASS: PassInfo = PassInfo {
    name: "convert-to-library-calls",
    aliases: &[],
    summary: "convert products of matrices to library calls, which --backend=cpu and cuda compute",
    example: "%y : Tensor = aten::mm(%x, %w)  =>  %y : Tensor = library::Product_0(%x, %w)",
    options: &[],
    required: false,
    reads_shapes: true,
    run,
    file: file!(),
};

/// Products, the counter of each, and how many operands it has.
const PRODUCTS: [(&str, &str, usize); 6] = [
    ("aten::mm", "matrices-converted", 2),
    ("aten::addmm", "sums-converted", 5),
    ("aten::bmm", "batches-converted", 2),
    ("aten::baddbmm", "sums-of-batches-converted", 5),
    ("aten::matmul", "products-converted", 2),
    ("aten::linear", "layers-converted", 3),
];

fn run(graph: &mut Graph, cx: &mut PassContext<'_>) -> Result<(), PassError> {
    graph_dump!("Before converting products", graph);
    let products: Vec<(Node, &'static str)> =
        graph.all_nodes().filter_map(|node| Some((node, counter_of(graph, node)?))).collect();
    for (node, counter) in products {
        match elements_without_library(graph, node) {
            Some(dtype) => cx.missed(graph, counter, node, || format!("no library multiplies {}", dtype.name())),
            None => drop(cx.rewrite(graph, counter, node, |graph| convert(graph, node))),
        }
    }
    graph_dump!("After converting products", graph);
    Ok(())
}

/// The counter of a product that is read.
fn counter_of(graph: &Graph, node: Node) -> Option<&'static str> {
    let (kind, operands) = (graph.kind(node).as_str(), graph.num_inputs(node));
    let (_, counter, _) = PRODUCTS.iter().find(|row| row.0 == kind && row.2 == operands)?;
    let is_read = graph.num_outputs(node) == 1 && graph.has_uses(graph.output(node, 0));
    is_read.then_some(counter)
}

/// Elements that types show and no library multiplies.
fn elements_without_library(graph: &Graph, node: Node) -> Option<DType> {
    let values = graph.inputs(node).chain(graph.outputs(node));
    let shown = |ty: Type| ty.as_tensor().and_then(|tensor| tensor.dtype);
    values.filter_map(|value| shown(graph.ty(value))).find(|dtype| !dtype.is_float())
}

/// Whether a node is a constant other than a tensor: a weight is an operand of its call.
fn is_number(graph: &Graph, node: Node) -> bool {
    graph.kind(node) == prim::CONSTANT && graph.outputs(node).all(|value| graph.ty(value).as_tensor().is_none())
}

/// Moves a product into the section of a call.
fn convert(graph: &mut Graph, node: Node) {
    let mut found = excerpt(graph, &[node], |definer| is_number(graph, definer));
    let call = graph.create(library::PRODUCT);
    let params: Vec<Value> = found.section.params(found.section.root()).collect();
    for (operand, param) in found.operands.into_iter().zip(params) {
        graph.add_input(call, operand);
        if graph.is_named(operand) {
            found.section.set_name(param, graph.name(operand).as_bytes());
        }
    }
    let old = graph.output(node, 0);
    let new = graph.add_output(call, graph.ty(old));
    graph.set_attribute(call, attr::SUBGRAPH, Attribute::Graph(Box::new(found.section)));
    graph.insert_before(node, call);
    graph.replace_all_uses(old, new);
    graph.move_name_to_nameless(old, new);
    graph.erase(node);
}
