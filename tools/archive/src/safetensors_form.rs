//! Weights as a safetensors file: a JSON header, then the elements of all tensors.

use crate::archive_layout::Archive;
use crate::refusal::{Refusal, Result, refuse, shown};
use crate::stored_tensors::{Dtype, NamedTensor, Role, StoredTensor};
use std::collections::HashSet;
use std::fmt::Write as _;

/// Beyond eight times the file, views repeat what is stored.
const MOST_BEYOND: u64 = 256 << 20;

/// A tensor that a load hook made.
#[derive(Clone, Debug)]
pub struct MadeTensor {
    /// Its qualified name.
    pub name: String,
    /// PyTorch's name of its element type, `float32`.
    pub dtype: &'static str,
    /// Its sizes.
    pub sizes: Vec<u64>,
    /// Its elements in row-major order, little-endian.
    pub content: Vec<u8>,
}

/// A file that was written.
#[derive(Debug, PartialEq)]
pub struct Written {
    /// The number of its tensors.
    pub tensors: usize,
    /// Why other tensors are not among them.
    pub left_out: Vec<Refusal>,
}

/// A tensor of the file.
struct Row<'a> {
    name: &'a str,
    dtype: Dtype,
    sizes: &'a [u64],
    content: Content<'a>,
}

enum Content<'a> {
    Stored(&'a StoredTensor),
    Made(&'a [u8]),
}

impl Row<'_> {
    fn bytes(&self) -> u64 {
        match self.content {
            Content::Stored(tensor) => tensor.bytes(),
            Content::Made(content) => content.len() as u64,
        }
    }
}

/// A safetensors file of all parameters, buffers and other tensors of the module, by qualified
/// name. Tensors that share memory become independent. `write` receives the file in pieces. Where
/// load hooks make weights, `made` has those that they made.
///
/// # Errors
/// Hooks make weights and none are given, two tensors have one name, or views repeat too much.
pub fn safetensors(
    archive: &Archive,
    made: Option<&[MadeTensor]>,
    mut write: impl FnMut(&[u8]) -> Result<()>,
) -> Result<Written> {
    let (rows, mut left_out) = rows(archive, made)?;
    let mut header = String::from("{\"__metadata__\":{\"format\":\"pt\"}");
    let (mut end, mut names, mut written) = (0u64, HashSet::new(), Vec::new());
    for row in rows {
        if !names.insert(row.name) || row.name == "__metadata__" {
            return refuse(format!("two tensors have the name {}", shown(row.name)));
        }
        let dtype = match dtype_of(&row) {
            Ok(dtype) => dtype,
            Err(refusal) => {
                left_out.push(refusal);
                continue;
            }
        };
        let start = end;
        end = end.saturating_add(row.bytes());
        let sizes: Vec<String> = row.sizes.iter().map(u64::to_string).collect();
        let (name, sizes) = (quoted(row.name), sizes.join(","));
        let line =
            write!(header, ",{name}:{{\"dtype\":\"{dtype}\",\"shape\":[{sizes}],\"data_offsets\":[{start},{end}]}}");
        line.map_err(|_| Refusal::new("the header does not fit into memory"))?;
        written.push(row);
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
    for row in &written {
        match row.content {
            Content::Stored(tensor) => write(&archive.content(tensor)?)?,
            Content::Made(content) => write(content)?,
        }
    }
    Ok(Written { tensors: written.len(), left_out })
}

/// The tensors of the module, and why others are none. Constants of the code are no weights, and
/// what a hook reads is none once there is what it made.
fn rows<'a>(archive: &'a Archive, made: Option<&'a [MadeTensor]>) -> Result<(Vec<Row<'a>>, Vec<Refusal>)> {
    if let Some(hook) = archive.hooks.first().filter(|_| made.is_none()) {
        let help = "the weights exist only after loading: load the file with PyTorch where its code may run";
        let reason = format!("{} makes the weights of what is stored, and nothing here runs code", shown(hook));
        return Err(Refusal::new(reason).with_help(help));
    }
    let is_script = archive.exported.is_none();
    let made = made.unwrap_or_default();
    let is_read_by_hook = |tensor: &NamedTensor| {
        let within = |hook: &String| tensor.name.strip_prefix(hook.as_str()).is_some_and(|rest| rest.starts_with('.'));
        tensor.role == Role::State && archive.hooks.iter().any(within)
    };
    let stored = archive.tensors.iter().filter(|tensor| !(is_script && tensor.role == Role::Constant));
    let stored = stored.filter(|tensor| !is_read_by_hook(tensor));
    let mut rows: Vec<Row<'_>> = stored
        .map(|NamedTensor { name, tensor, .. }| Row {
            name,
            dtype: tensor.dtype,
            sizes: &tensor.sizes,
            content: Content::Stored(tensor),
        })
        .collect();
    let mut left_out = Vec::new();
    for MadeTensor { name, dtype, sizes, content } in made {
        match Dtype::of_name(dtype) {
            Ok(dtype) => rows.push(Row { name, dtype, sizes, content: Content::Made(content) }),
            Err(refusal) => left_out.push(Refusal::new(format!("tensor {}: {}", shown(name), refusal.reason))),
        }
    }
    Ok((rows, left_out))
}

fn dtype_of(row: &Row<'_>) -> Result<&'static str> {
    let (name, dtype) = (shown(row.name), row.dtype);
    match dtype.safetensors() {
        Some(known) => Ok(known),
        None if dtype.is_quantized() => {
            let help = "a safetensors file has no place for scales: dequantise the model before it is saved";
            Err(Refusal::new(format!("tensor {name} is quantised ({})", dtype.name())).with_help(help))
        }
        None => {
            let reason =
                format!("tensor {name} has elements of type {}, which safetensors does not have", dtype.name());
            let help = "store real and imaginary parts with `torch.view_as_real` before it is saved";
            let refusal = Refusal::new(reason);
            Err(if dtype.name().starts_with("complex") { refusal.with_help(help) } else { refusal })
        }
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
