//! Machine-specific paths in files that are no text, among them the entries of zip archives, which
//! PyTorch fills with the paths of the Python files that made a model.

use crate::Tree;
use crate::wording::MACHINE;
use std::io::{Cursor, Read};
use zip::ZipArchive;

/// More such directories; texts may name those of drivers in them.
const PACKAGES: [&str; 2] = ["opt", "work"];

/// Files, or entries of them, with an absolute path. `tools/pytorch/neutral_paths.py` blanks these.
pub fn check(tree: &Tree) -> Vec<String> {
    let binary = tree.files().filter(|(_, bytes)| std::str::from_utf8(bytes).is_err());
    binary.flat_map(|(file, bytes)| of_file(file, bytes)).collect()
}

fn of_file(file: &str, bytes: &[u8]) -> Vec<String> {
    let mut wrong: Vec<String> = complaint(file, bytes).into_iter().collect();
    // Stored entries are found above, and so is what an archive has that cannot be read.
    let Ok(mut archive) = ZipArchive::new(Cursor::new(bytes)) else { return wrong };
    for index in 0..archive.len() {
        let Ok(mut entry) = archive.by_index(index) else { continue };
        let (name, mut content) = (String::from_utf8_lossy(entry.name_raw()).into_owned(), Vec::new());
        if entry.compression() != zip::CompressionMethod::Stored && entry.read_to_end(&mut content).is_ok() {
            wrong.extend(complaint(&format!("{file}: {name}"), &content));
        }
    }
    wrong
}

fn complaint(place: &str, bytes: &[u8]) -> Option<String> {
    let path = paths(bytes).find(|path| is_of_a_machine(path))?;
    Some(format!("{place}: `{path}` is a machine-specific path, see tools/pytorch/neutral_paths.py"))
}

/// What looks like an absolute path: it begins with a slash that nothing precedes.
fn paths(bytes: &[u8]) -> impl Iterator<Item = String> {
    let begins = (0..bytes.len()).filter(|&at| bytes[at] == b'/' && (at == 0 || !is_of_path(bytes[at - 1])));
    begins.map(|at| bytes[at..].iter().take_while(|byte| is_of_path(**byte)).map(|byte| char::from(*byte)).collect())
}

fn is_of_path(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"_.-/:".contains(&byte)
}

/// Whether a path is below a folder of machines, or that of a Python file whose folders are not
/// blanked.
fn is_of_a_machine(path: &str) -> bool {
    let mut folders = path[1..].split('/');
    let (first, below) = (folders.next().unwrap_or_default(), folders.next());
    below.is_some()
        && (MACHINE.contains(&first)
            || PACKAGES.contains(&first)
            || path.contains(".py") && !first.trim_matches('-').is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use zip::write::{SimpleFileOptions, ZipWriter};

    fn archive(method: zip::CompressionMethod, content: &[u8]) -> Vec<u8> {
        let mut writer = ZipWriter::new(Cursor::new(Vec::new()));
        writer.start_file("m/x", SimpleFileOptions::default().compression_method(method)).expect("an entry");
        writer.write_all(content).expect("an entry's bytes");
        writer.finish().expect("an archive").into_inner()
    }

    #[test]
    fn stored_and_deflated_entries_are_searched() {
        let content = b"\xff\x00/opt/x/model.pyq".repeat(3);
        for method in [zip::CompressionMethod::Stored, zip::CompressionMethod::Deflated] {
            assert_eq!(of_file("a.pt", &archive(method, &content)).len(), 1, "{method}");
            let blanked = b"\xff\x00/---/x/model.pyq m/code/__torch__.py".repeat(3);
            assert_eq!(of_file("a.pt", &archive(method, &blanked)), [""; 0], "{method}");
        }
    }

    #[test]
    fn paths_of_machines() {
        let all = |bytes: &[u8]| paths(bytes).filter(|path| is_of_a_machine(path)).collect::<Vec<_>>();
        assert_eq!(all(b"X\0/elsewhere/lib/a.pyq /lib/a.so /tmp"), ["/elsewhere/lib/a.pyq"]);
        assert_eq!(all(b"m/opt/a.py https://d.org/opt/a.py \0/-----/a.py"), [""; 0]);
        assert_eq!(all(b"(/opt/lib/a.so)"), ["/opt/lib/a.so"]);
    }
}
