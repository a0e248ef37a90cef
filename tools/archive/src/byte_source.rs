//! Where the bytes of an archive are: in memory, or in a file of which parts are read.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};

/// Bytes that can be read in parts. A large file is not read as a whole.
pub trait ByteSource {
    /// The number of bytes.
    fn size(&self) -> io::Result<u64>;
    /// Fills `into` with the bytes that begin at `at`.
    ///
    /// # Errors
    /// There are fewer bytes, or they cannot be read.
    fn read_at(&self, at: u64, into: &mut [u8]) -> io::Result<()>;
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
