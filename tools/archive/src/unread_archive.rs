//! An archive of which only the directory has been read.
//!
//! What a program is depends on all records but those with the elements of its weights. Where those
//! bytes are known from before, neither the code is read nor whether it is sound.

use crate::archive_layout::{Archive, Kind, read};
use crate::byte_source::ByteSource;
use crate::container::Container;
use crate::records::Records;
use crate::refusal::Result;

/// Bytes of the records of a program from which on it is not worth comparing them.
const MOST_BYTES: usize = 16 << 20;
/// The folder with the elements of weights.
const WEIGHTS: &str = "data/";
/// Parts of programs that are no TorchScript of 1.3 and later.
const OTHERS: [&str; 5] =
    ["archive_format", "models/", "serialized_exported_program.json", "model.json", "bytecode.pkl"];

/// An archive that was opened.
#[derive(Debug)]
pub struct UnreadArchive {
    records: Records,
}

impl UnreadArchive {
    /// Opens an archive.
    ///
    /// # Errors
    /// The file is no archive, or one that two readers could read differently.
    pub fn open(source: Box<dyn ByteSource>) -> Result<UnreadArchive> {
        let records = Records::of(Container::open(source)?)?;
        records.check_byte_order()?;
        Ok(UnreadArchive { records })
    }

    /// All that decides what the program of TorchScript is, with the names and sizes of the other
    /// records. None for other programs, and for what is too large to be compared.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn program(&self) -> Result<Option<Vec<u8>>> {
        let has_other = self.records.names().any(|name| OTHERS.iter().any(|other| name.starts_with(other)));
        if has_other || !self.records.has("data.pkl") || !self.records.has("constants.pkl") {
            return Ok(None);
        }
        let container = &self.records.containers[0];
        let mut all = Vec::new();
        for entry in container.entries() {
            all.extend(format!("{} {} {}\n", entry.name.escape_debug(), entry.size, entry.deflated).bytes());
            let own = entry.name.strip_prefix(self.records.inside("").as_str()).unwrap_or(&entry.name);
            if !own.starts_with(WEIGHTS) {
                all.extend_from_slice(&container.packed(entry)?);
            }
            if all.len() > MOST_BYTES {
                return Ok(None);
            }
        }
        Ok(Some(all))
    }

    /// Reads it.
    ///
    /// # Errors
    /// The file is no archive of a program, or one that is not sound.
    pub fn read(self) -> Result<Archive> {
        read(self.records)
    }

    /// The archive without its code. The program must be known to be sound.
    pub fn with_known_code(self) -> Archive {
        Archive::new(self.records, Kind::TorchScript, String::new())
    }
}
