//! `jitopt inspect`: what is in an archive, without running anything of it.

use crate::{World, exit};
use clap::Args;
use jitopt_archive::{Archive, NamedTensor, Quantizer, Role};
use jitopt_engine::{Error, archives, panics};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

const EXAMPLES: &str = "\
Examples:
  jitopt inspect model.pt
  jitopt inspect model.pt2 --json

Nothing in the archive is executed, and weights are not read. Exit codes: 0 shown, 3 the file is no archive of a
program, or one that is refused because two readers could see different things in it.";

/// `jitopt inspect`
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct InspectArgs {
    /// The archives: .pt, .ptl or .pt2
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// Print one line of JSON per file
    #[arg(long)]
    json: bool,
}

/// Inspects every file; the first that is refused decides the exit code.
pub(crate) fn run(args: &InspectArgs, world: &mut World<'_>) -> i32 {
    let mut code = exit::YES;
    for path in &args.files {
        let full = world.path(path);
        let result = panics::caught(|| inspected(&full, path, args.json));
        let result = result.map(|text| {
            world.print(text.as_bytes());
            exit::YES
        });
        let this = exit::ended(result, world);
        code = if code == exit::YES { this } else { code };
    }
    code
}

fn inspected(full: &Path, path: &Path, json: bool) -> Result<String, Error> {
    let archive = archives::open(full, path)?;
    Ok(if json { as_json(path, &archive) } else { as_text(path, &archive) })
}

/// Tensors and bytes of a role; bytes that tensors share count for each.
fn totals(archive: &Archive) -> BTreeMap<Role, (usize, u64)> {
    let mut totals = BTreeMap::new();
    for tensor in &archive.tensors {
        let (count, bytes): &mut (usize, u64) = totals.entry(tensor.role).or_default();
        *count += 1;
        *bytes = bytes.saturating_add(tensor.tensor.bytes());
    }
    totals
}

fn counted(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

// ---- for people

fn as_text(path: &Path, archive: &Archive) -> String {
    let mut text = format!("{}: {}\n", path.display(), heading(archive));
    if !archive.methods.is_empty() {
        text += "\nmethods\n";
        archive.methods.iter().for_each(|method| text += &format!("  {}\n", method.signature()));
    }
    if !archive.operators.is_empty() {
        let calls = archive.operators.values().sum();
        text += &format!("\noperators: {} in {}\n", archive.operators.len(), counted(calls, "call"));
        text += &columns(archive.operators.iter().map(|(name, count)| vec![name.clone(), count.to_string()]).collect());
    }
    if !archive.tensors.is_empty() {
        text += "\ntensors\n";
        text += &columns(archive.tensors.iter().map(row).collect());
        text += &format!("total: {}\n", total_line(archive));
    }
    if !archive.extra_files.is_empty() {
        text += "\nextra files\n";
        text += &columns(archive.extra_files.iter().map(|(n, b)| vec![n.clone(), format!("{b} bytes")]).collect());
    }
    for hook in &archive.hooks {
        text += &format!("\nnote: `{hook}` makes the state of what is stored; it was not run\n");
    }
    text
}

fn heading(archive: &Archive) -> String {
    let (bytes, records) = archive.extent();
    let mut text = format!("{}, saved by {}", archive.kind.name(), archive.saved_by);
    if let Some(version) = archive.version {
        let _ = write!(text, ", format version {version}");
    }
    if let Some(exported) = &archive.exported {
        let _ = write!(text, ", schema {}, {}", exported.schema, counted(exported.nodes, "node"));
    }
    let _ = write!(text, "\n{} bytes in {}", bytes, counted(records, "record"));
    if !archive.class.is_empty() {
        let _ = write!(text, ", module {}", archive.class);
    }
    if archive.modules > 1 {
        let _ = write!(text, " with {}", counted(archive.modules - 1, "submodule"));
    }
    match archive.training {
        Some(true) => text += ", in training mode: dropout and batch norm train",
        Some(false) => text += ", in evaluation mode",
        None => {}
    }
    text
}

fn row(tensor: &NamedTensor) -> Vec<String> {
    let view = &tensor.tensor;
    let sizes: Vec<String> = view.sizes.iter().map(u64::to_string).collect();
    let quantizer = match &view.quantizer {
        Some(Quantizer::PerTensor { scale, zero_point }) => format!("  scale {scale}, zero point {zero_point}"),
        Some(Quantizer::PerChannel { axis, .. }) => format!("  scales along dimension {axis}"),
        None => String::new(),
    };
    let bytes = format!("{} bytes{quantizer}", view.bytes());
    vec![
        tensor.role.name().to_owned(),
        tensor.name.clone(),
        format!("{}[{}]", view.dtype.name(), sizes.join(", ")),
        bytes,
    ]
}

fn total_line(archive: &Archive) -> String {
    let totals = totals(archive);
    let part =
        |(role, (count, bytes)): (&Role, &(usize, u64))| format!("{} ({bytes} bytes)", counted(*count, role.name()));
    let parts: Vec<String> = totals.iter().map(part).collect();
    let parts = parts.join(", ").replace("states (", "tensors in states (").replace("state (", "tensor in a state (");
    format!("{parts}; {} bytes are stored", archive.stored_bytes())
}

/// Rows with two blanks of margin; each column as wide as its widest cell.
fn columns(rows: Vec<Vec<String>>) -> String {
    let width =
        |at: usize| rows.iter().filter_map(|row| row.get(at)).map(|cell| cell.chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..rows.first().map_or(0, Vec::len)).map(width).collect();
    let line = |row: &Vec<String>| {
        let cells: Vec<String> = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
        format!("  {}\n", cells.join("  ").trim_end())
    };
    rows.iter().map(line).collect()
}

// ---- for programs

fn as_json(path: &Path, archive: &Archive) -> String {
    let (bytes, records) = archive.extent();
    let tensor = |tensor: &NamedTensor| {
        let view = &tensor.tensor;
        serde_json::json!({
            "name": tensor.name, "role": tensor.role.name(), "dtype": view.dtype.name(), "shape": view.sizes,
            "strides": view.strides, "storage_offset": view.offset, "storage": view.storage,
            "storage_bytes": archive.storage_bytes(view.storage), "bytes": view.bytes(),
            "requires_grad": view.requires_grad, "quantizer": view.quantizer.as_ref().map(quantizer),
        })
    };
    let method = |method: &jitopt_archive::Method| serde_json::json!({"name": method.name, "params": method.params, "result": method.result});
    let totals: BTreeMap<&str, serde_json::Value> = totals(archive)
        .iter()
        .map(|(role, (count, bytes))| (role.name(), serde_json::json!({"count": count, "bytes": bytes})))
        .collect();
    let object = serde_json::json!({
        "file": path.display().to_string(), "kind": archive.kind.name(), "saved_by": archive.saved_by,
        "format_version": archive.version, "bytes": bytes, "records": records, "class": archive.class,
        "schema": archive.exported.as_ref().map(|exported| &exported.schema), "modules": archive.modules,
        "training": archive.training, "methods": archive.methods.iter().map(method).collect::<Vec<_>>(),
        "operators": archive.operators, "tensors": archive.tensors.iter().map(tensor).collect::<Vec<_>>(),
        "totals": totals, "stored_bytes": archive.stored_bytes(), "constants": archive.constants,
        "extra_files": archive.extra_files, "hooks_not_run": archive.hooks,
    });
    format!("{object}\n")
}

fn quantizer(quantizer: &Quantizer) -> serde_json::Value {
    match quantizer {
        Quantizer::PerTensor { scale, zero_point } => serde_json::json!({"scale": scale, "zero_point": zero_point}),
        Quantizer::PerChannel { axis, .. } => serde_json::json!({"axis": axis}),
    }
}
