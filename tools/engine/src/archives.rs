//! Archives of PyTorch: their graphs and weights, and what is said where text is expected.

use crate::error::{Error, Kind};
use jitopt_archive::{Archive, Kind as Layout, Refusal, looks_like_archive};
use jitopt_core::interpreter::{IValue, Release};
use jitopt_core::ir::Graph;
use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;

/// The graph of an archive; nothing for other files. `release` is the PyTorch release whose rules
/// hold, or that which saved the archive.
///
/// # Errors
/// The archive is not sound, or its program has no form in IR.
pub fn graph(name: &str, bytes: &[u8], release: Option<Release>) -> Option<Result<Graph, Error>> {
    if !looks_like_archive(bytes) {
        return None;
    }
    let unread = |text: String| Error::new(Kind::Unparsable, text);
    Some(match opened(name, bytes).map_err(unread) {
        Err(error) => Err(error),
        Ok(archive) => match archive.kind {
            Layout::Exported | Layout::Serialized => {
                jitopt_exported::graph(&archive, release).map_err(|refusal| unread(refused(name, &refusal)))
            }
            _ => Err(unread(instead(name, &archive))),
        },
    })
}

/// The weights of an archive, as contents that its graph reads; none for other files.
///
/// # Errors
/// A record is damaged, or nothing computes with elements of its type.
pub fn contents(name: &str, bytes: &[u8]) -> Result<BTreeMap<String, IValue>, Error> {
    if !looks_like_archive(bytes) {
        return Ok(BTreeMap::new());
    }
    let unread = |text: String| Error::new(Kind::Unparsable, text);
    let archive = opened(name, bytes).map_err(unread)?;
    match archive.kind {
        Layout::Exported | Layout::Serialized => {
            jitopt_exported::weights(&archive).map_err(|refusal| unread(refused(name, &refusal)))
        }
        _ => Ok(BTreeMap::new()),
    }
}

fn opened(name: &str, bytes: &[u8]) -> Result<Archive, String> {
    jitopt_archive::open(Box::new(bytes.to_vec())).map_err(|refusal| refused(name, &refusal))
}

/// What to say of an archive that was given where only the text of a graph is read; nothing for
/// other files.
pub fn notice(name: &str, bytes: &[u8]) -> Option<String> {
    if !looks_like_archive(bytes) {
        return None;
    }
    Some(opened(name, bytes).map_or_else(|refused| refused, |archive| instead(name, &archive)))
}

/// What can be done with an archive, where its graph is not read.
fn instead(name: &str, archive: &Archive) -> String {
    let (what, file) = (described(archive), if name == "<stdin>" { "FILE" } else { name });
    let print = match archive.exported {
        Some(_) => format!("`jitopt {file}` prints its graph"),
        None => format!(
            "graphs of TorchScript archives are not read yet; PyTorch prints them: \
             `print(torch.jit.load({file:?}).inlined_graph)`"
        ),
    };
    format!(
        "error: {name}: expected the text of a graph, found an archive: {what}\n  \
         help: `jitopt inspect {file}` shows what is in it\n  \
         help: `jitopt export {file} --to=safetensors -o weights.safetensors` writes its weights\n  \
         help: {print}\n"
    )
}

/// `TorchScript archive of 2.1 or later, module __torch__.Net`
fn described(archive: &Archive) -> String {
    let class = if archive.class.is_empty() { String::new() } else { format!(", module {}", archive.class) };
    format!("{} of {}{class}", archive.kind.name(), archive.saved_by)
}

/// A refused archive, with the file, the record, the reason and advice.
pub fn refused(name: &str, refusal: &Refusal) -> String {
    let help = refusal.help.as_ref().map_or(String::new(), |help| format!("  help: {help}\n"));
    format!("error: {name}: the archive is refused: {refusal}\n{help}")
}

/// Opens the archive of a file. Weights are not read.
///
/// # Errors
/// The file cannot be read, is no archive, or one that is not sound.
pub fn open(path: &Path, shown: &Path) -> Result<Archive, Error> {
    let name = shown.display().to_string();
    let misuse = |error: std::io::Error| Error::new(Kind::Misuse, format!("cannot read `{name}`: {error}"));
    let file = File::open(path).map_err(misuse)?;
    let mut start = [0u8; 32];
    let length = std::io::Read::read(&mut &file, &mut start).map_err(misuse)?;
    let start = &start[..length];
    if let Some(what) = other_file(start) {
        return Err(Error::new(Kind::Unparsable, format!("error: {name}: {what}\n")));
    }
    jitopt_archive::open(Box::new(file)).map_err(|refusal| Error::new(Kind::Unparsable, refused(&name, &refusal)))
}

/// Files that people take for archives, by their first bytes.
fn other_file(start: &[u8]) -> Option<&'static str> {
    if start.starts_with(b"\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19.") {
        return Some("a checkpoint of `torch.save` before 1.6, which holds values, but no program");
    }
    if start.get(4..8) == Some(b"PTMF") {
        return Some("a mobile model as a flatbuffer, which is not read; save it with `_save_for_lite_interpreter`");
    }
    if start.trim_ascii_start().starts_with(b"graph") {
        return Some("the text of a graph, not an archive: `jitopt FILE` prints it");
    }
    None
}
