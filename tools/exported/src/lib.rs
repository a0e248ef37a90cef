//! Reads exported programs, the `.pt2` of `torch.export.save`, into graphs of the textual IR.
//!
//! ```text
//! jitopt_archive: checked JSON ─┬─> signature: params, attributes, results ─┐
//!                               └─> nodes ─┬─> operator calls by schema     ├─> ir::Graph
//!                                          ├─> numbers that sizes are       │
//!                                          └─> graphs in graphs ────────────┘
//! ```
//!
//! The graph has one param for each input of the user, in order, after `%self`, the module. What
//! the program binds is read from there under its qualified name, as in a graph of TorchScript:
//!
//! ```text
//! {"parameter": {"arg": {"name": "p_fc_weight"}, "parameter_name": "fc.weight"}}
//!
//! %fc : __torch__.torch.nn.modules.linear.Linear = prim::GetAttr[name="fc"](%self)
//! %p_fc_weight : Float(3, 4, strides=[4, 1], …) = prim::GetAttr[name="weight"](%fc)
//! ```
//!
//! A node has the operands of its schema, `torch.ops.aten.add.Tensor` with two arguments becomes
//! `aten::add(%x, %y, %1)`; its type is the metadata of its value. What has no form in IR is
//! refused with the record and the node.

mod bound_weights;
mod default_values;
mod export_arguments;
mod graph_writer;
mod higher_order;
mod input_trees;
mod module_attributes;
mod operator_calls;
mod program_signature;
mod result_tree;
mod stand_ins;
mod symbolic_numbers;
mod value_metadata;

pub use bound_weights::{samples, weights};
use graph_writer::Writer;
pub use input_trees::{Input, Inputs, inputs};
use jitopt_archive::{Archive, Json, Refusal};
use jitopt_core::analysis::inference::contradicts;
use jitopt_core::ir::{Dialect, Graph, Releases};
use jitopt_core::types::release::Release;
pub use result_tree::{Key, Tree};

/// A value, or why there is none.
pub(crate) type Result<T> = std::result::Result<T, Refusal>;

/// Refuses for this reason.
pub(crate) fn refuse<T>(reason: impl Into<String>) -> Result<T> {
    Err(Refusal::new(reason))
}

/// A name from the file as it is shown: in quotes, escaped, not longer than a line.
pub(crate) fn shown(name: &str) -> String {
    let short: String = name.chars().take(80).collect();
    let rest = if short.len() < name.len() { "…" } else { "" };
    format!("`{}{rest}`", short.escape_debug())
}

/// The object that holds parameters, buffers and constants, in the names of bindings.
pub const MODULE: &str = "self";

/// Reads the graph of an exported program. `release` is the PyTorch release whose rules hold;
/// without one, that which saved the program.
///
/// # Errors
/// The archive holds no exported program, or one with a part that has no form in IR.
pub fn graph(archive: &Archive, release: Option<Release>) -> Result<Graph> {
    let program = archive.program()?;
    let record = archive.exported.as_ref().map(|exported| exported.record.clone());
    let mut graph = Graph::new();
    let release = release.unwrap_or_else(|| saved_by(&program));
    graph.set_release(release);
    graph.dialect = Dialect { releases: Releases { oldest: release, newest: release }, ..Dialect::default() };
    let mut writer = Writer::new(&mut graph);
    let written = program_signature::write(&mut writer, &program);
    let checked = written.and_then(|()| check_metadata(&graph));
    checked.map_err(|refusal| Refusal { record: refusal.record.or(record), ..refusal })?;
    Ok(graph)
}

/// Refuses metadata that contradicts the operands of its node: two readers would believe different
/// things of such a file.
fn check_metadata(graph: &Graph) -> Result<()> {
    for node in graph.all_nodes() {
        let wrong = graph.outputs(node).find(|output| contradicts(graph, node, *output, graph.ty(*output)));
        if let Some(output) = wrong {
            let (name, ty) = (graph.name(output), graph.ty(output));
            let kind = graph.kind(node).as_str();
            return refuse(format!("the metadata of `{name}` says {ty}, which operands of `{kind}` contradict"));
        }
    }
    Ok(())
}

/// The release that saved a program. Files say so since 2.5; before that, the schema does.
fn saved_by(program: &Json) -> Release {
    if let Some(release) = program.get("torch_version").text().and_then(|text| text.parse().ok()) {
        return release;
    }
    let version = program.get("schema_version");
    match version.int().or_else(|| version.get("major").int()) {
        Some(..=2) => Release(2, 2),
        Some(3 | 4) => Release(2, 3),
        Some(5) => Release(2, 4),
        Some(6 | 7) => Release(2, 5),
        _ => Release::NEWEST,
    }
}
