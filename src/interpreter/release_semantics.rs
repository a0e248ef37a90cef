//! Calls that the release of a graph refuses, and calls that run differently in different releases.

use super::call::Call;
use super::ivalue::IValue;
use super::stop::Stop;
use crate::ir::{Graph, Node, Releases};
use crate::ops::release_rules::{Does, OperandTypes, ReleaseRow, differences, release_rows};
use crate::symbol::Symbol;
use crate::tensor::{DType, Tensor};
use crate::types::release::Release;
use crate::types::{Simple, Type};

/// Refuses calls that the release refuses, and records where releases that print such text differ.
pub(crate) fn check(call: &Call<'_>, of_tensors: bool) -> Result<(), Stop> {
    let rows = release_rows(call.kind());
    if rows.is_empty() || !of_tensors {
        return Ok(());
    }
    let types = operand_types(call);
    note(call, &types);
    let release = call.release();
    let refuses = |row: &&&ReleaseRow| row.does == Does::Raises && row.covers(release) && row.operands.hold(&types);
    match rows.iter().find(refuses) {
        None => Ok(()),
        Some(_) => {
            let names: Vec<&str> = types.tensors.iter().map(|dtype| dtype.name()).collect();
            let (kind, names) = (call.kind(), names.join(", "));
            Err(Stop::raised(format!("PyTorch {release} does not take operands of `{kind}` of these types: {names}")))
        }
    }
}

/// Element types of the operands. A tensor that represents a number has none.
fn operand_types(call: &Call<'_>) -> OperandTypes {
    let mut types = OperandTypes { tensors: Vec::new(), float_number: Some(false) };
    let mut add = |tensor: &Tensor| {
        if !tensor.is_number() {
            types.tensors.push(tensor.dtype());
        }
    };
    call.args.iter().for_each(|value| value.each_tensor(&mut add));
    types.float_number = Some(call.args.iter().any(|value| matches!(value, IValue::Float(_))));
    types
}

/// An operator of a graph that runs differently in the releases that print such text, for operands
/// of the declared types.
pub fn ambiguity(graph: &Graph) -> Option<String> {
    let releases = graph.dialect.releases;
    let of_node = |node: Node| {
        let kind = graph.kind(node);
        if release_rows(kind).is_empty() {
            return None;
        }
        let types: Vec<Type> = graph.inputs(node).map(|value| graph.ty(value)).collect();
        let tensors = types.iter().filter_map(|ty| ty.as_tensor()).map(|tensor| tensor.dtype);
        let tensors = tensors.collect::<Option<Vec<DType>>>()?;
        let of_tensors = !tensors.is_empty() || graph.outputs(node).any(|value| graph.ty(value).is_tensor());
        let float_number = Some(types.iter().any(|ty| ty.is(Simple::Float)));
        let types = OperandTypes { tensors, float_number };
        ambiguity_note(kind, &types, releases, graph.release()).filter(|_| of_tensors)
    };
    (releases.oldest < releases.newest).then(|| graph.all_nodes().find_map(of_node))?
}

/// Only the first is recorded: one warning per graph suffices.
fn note(call: &Call<'_>, types: &OperandTypes) {
    let releases = call.graph.dialect.releases;
    if call.env.release.is_some() || releases.oldest == releases.newest || call.env.ambiguity.borrow().is_some() {
        return;
    }
    if let Some(text) = ambiguity_note(call.kind(), types, releases, call.release()) {
        call.env.ambiguity.replace(Some(text));
    }
}

fn ambiguity_note(kind: Symbol, types: &OperandTypes, releases: Releases, runs_as: Release) -> Option<String> {
    let (oldest, newest) = (releases.oldest, releases.newest);
    let rows: Vec<String> = differences(kind, types, oldest, newest).map(described).collect();
    let rows = (!rows.is_empty()).then(|| rows.join(", "))?;
    Some(format!(
        "PyTorch {oldest} to {newest} print such text, but run `{kind}` with these types differently ({rows}): \
         it runs as in {runs_as}; `--torch` selects another release"
    ))
}

/// `before 1.6 it raises`
fn described(row: &ReleaseRow) -> String {
    let what = row.does.text();
    let from = row.boundaries().next().filter(|_| row.until.is_none() || row.boundaries().count() > 1);
    match (from, row.until) {
        (None, Some(until)) => format!("before {until} it {what}"),
        (Some(from), Some(until)) => format!("from {from} to before {until} it {what}"),
        (Some(from), None) => format!("since {from} it {what}"),
        (None, None) => format!("it {what}"),
    }
}
