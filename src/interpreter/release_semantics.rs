//! Calls that the release of a graph refuses, and calls that releases run differently.

use super::call::Call;
use super::ivalue::IValue;
use super::stop::Stop;
use crate::ops::release_rules::{Does, OperandTypes, ReleaseRow, differences, release_rows};
use crate::tensor::Tensor;

/// Refuses what the release refuses, and notes where releases that print such text differ.
pub fn check(call: &Call<'_>, of_tensors: bool) -> Result<(), Stop> {
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

/// Element types of the operands. A tensor that stands for a number has none.
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

/// Only the first is noted: a graph of one release is told of it once.
fn note(call: &Call<'_>, types: &OperandTypes) {
    let releases = call.graph.dialect.releases;
    if call.env.release.is_some() || releases.oldest == releases.newest || call.env.ambiguity.borrow().is_some() {
        return;
    }
    let rows: Vec<String> = differences(call.kind(), types, releases.oldest, releases.newest).map(described).collect();
    if !rows.is_empty() {
        let (oldest, newest) = (releases.oldest, releases.newest);
        let text = format!(
            "PyTorch {oldest} to {newest} print such text, and run `{}` of these types differently ({}): \
             it runs as in {}; `--torch` gives another release",
            call.kind(),
            rows.join(", "),
            call.release(),
        );
        call.env.ambiguity.replace(Some(text));
    }
}

/// `before 1.6 it raises`
fn described(row: &ReleaseRow) -> String {
    let what = match row.does {
        Does::Raises => "raises",
        Does::Computes(what) => what,
    };
    let from = row.boundaries().next().filter(|_| row.until.is_none() || row.boundaries().count() > 1);
    match (from, row.until) {
        (None, Some(until)) => format!("before {until} it {what}"),
        (Some(from), Some(until)) => format!("from {from} to before {until} it {what}"),
        (Some(from), None) => format!("since {from} it {what}"),
        (None, None) => format!("it {what}"),
    }
}
