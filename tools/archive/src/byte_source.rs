//! The bytes of an archive: in memory, or in a file of which parts are read.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::sync::Arc;

/// Bytes that can be read in parts. A large file is not read as a whole.
pub trait ByteSource: Send {
    /// The number of bytes.
    fn size(&self) -> io::Result<u64>;
    /// Fills `into` with the bytes that begin at `at`.
    ///
    /// # Errors
    /// There are fewer bytes, or they cannot be read.
    fn read_at(&self, at: u64, into: &mut [u8]) -> io::Result<()>;
    /// All bytes, where they are in memory: what is in them need not be copied.
    fn in_memory(&self) -> Option<&[u8]> {
        None
    }
}

impl ByteSource for Vec<u8> {
    fn size(&self) -> io::Result<u64> {
        Ok(self.len() as u64)
    }

    fn read_at(&self, at: u64, into: &mut [u8]) -> io::Result<()> {
        let from = usize::try_from(at).ok().and_then(|at| self.get(at..)?.get(..into.len()));
        into.copy_from_slice(from.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn in_memory(&self) -> Option<&[u8]> {
        Some(self)
    }
}

/// Bytes that others hold, too.
impl ByteSource for Arc<Vec<u8>> {
    fn size(&self) -> io::Result<u64> {
        (**self).size()
    }

    fn read_at(&self, at: u64, into: &mut [u8]) -> io::Result<()> {
        (**self).read_at(at, into)
    }

    fn in_memory(&self) -> Option<&[u8]> {
        Some(self)
    }
}

impl ByteSource for File {
    fn size(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }

    fn read_at(&self, at: u64, into: &mut [u8]) -> io::Result<()> {
        let mut file: &File = self;
        file.seek(SeekFrom::Start(at))?;
        file.read_exact(into)
    }
}
