//! Weights as a safetensors file: a JSON header, then the elements of all tensors.

use crate::archive_layout::Archive;
use crate::refusal::{Refusal, Result, refuse, shown};
use crate::stored_tensors::{NamedTensor, Role};
use std::collections::HashSet;
use std::fmt::Write as _;

/// Beyond eight times the file, views repeat what is stored.
const MOST_BEYOND: u64 = 256 << 20;

/// A safetensors file of all parameters, buffers and other tensors of the module, by qualified
/// name. Tensors that share memory become independent. `write` receives the file in pieces.
///
/// # Errors
/// A tensor cannot be in such a file; the reason names it.
pub fn safetensors(archive: &Archive, mut write: impl FnMut(&[u8]) -> Result<()>) -> Result<usize> {
    let tensors = exported(archive)?;
    let mut header = String::from("{\"__metadata__\":{\"format\":\"pt\"}");
    let mut end = 0u64;
    let mut names = HashSet::new();
    for tensor in &tensors {
        if !names.insert(tensor.name.as_str()) || tensor.name == "__metadata__" {
            return refuse(format!("two tensors have the name {}", shown(&tensor.name)));
        }
        let start = end;
        end = end.saturating_add(tensor.tensor.bytes());
        let sizes: Vec<String> = tensor.tensor.sizes.iter().map(u64::to_string).collect();
        let (name, dtype, sizes) = (quoted(&tensor.name), dtype_of(tensor)?, sizes.join(","));
        let row =
            write!(header, ",{name}:{{\"dtype\":\"{dtype}\",\"shape\":[{sizes}],\"data_offsets\":[{start},{end}]}}");
        row.map_err(|_| Refusal::new("the header does not fit into memory"))?;
    }
    if end > archive.extent().0.saturating_mul(8).saturating_add(MOST_BEYOND) {
        return refuse(format!("views repeat what is stored: {end} bytes of tensors"));
    }
    header.push('}');
    while !header.len().is_multiple_of(8) {
        header.push(' ');
    }
    write(&(header.len() as u64).to_le_bytes())?;
    write(header.as_bytes())?;
    for tensor in &tensors {
        write(&archive.content(&tensor.tensor)?)?;
    }
    Ok(tensors.len())
}

/// The tensors of the module. Constants of the code are no weights.
fn exported(archive: &Archive) -> Result<Vec<&NamedTensor>> {
    if let Some(hook) = archive.hooks.first() {
        let help = "the weights exist only after loading: load the file with PyTorch where its code may run";
        let reason = format!("{} makes the weights of what is stored, and nothing here runs code", shown(hook));
        return Err(Refusal::new(reason).with_help(help));
    }
    let is_script = archive.exported.is_none();
    Ok(archive.tensors.iter().filter(|tensor| !(is_script && tensor.role == Role::Constant)).collect())
}

fn dtype_of(tensor: &NamedTensor) -> Result<&'static str> {
    let (name, dtype) = (shown(&tensor.name), tensor.tensor.dtype);
    match dtype.safetensors() {
        Some(known) => Ok(known),
        None if dtype.is_quantized() => {
            let help = "a safetensors file has no place for scales: dequantise the model before it is saved";
            Err(Refusal::new(format!("tensor {name} is quantised ({})", dtype.name())).with_help(help))
        }
        None => refuse(format!("tensor {name} has elements of type {}, which safetensors does not have", dtype.name())),
    }
}

/// A JSON string.
fn quoted(text: &str) -> String {
    let mut json = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => json.extend(['\\', c]),
            c if c < ' ' => json.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => json.push(c),
        }
    }
    json.push('"');
    json
}
