//! The bytes of an archive: in memory, or in a file of which parts are read.

use memmap2::Mmap;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::SystemTime;

/// Reads of at most so many bytes, such as of headers, are answered by a larger one.
const SMALL: usize = 1 << 10;
/// Bytes of that larger read.
const WINDOW: u64 = 1 << 12;

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
    /// All bytes, for others to hold: those of a file, mapped into memory.
    fn shared(&self) -> Option<SharedBytes> {
        None
    }
}

/// Bytes that several hold: the type of that name of the core, on which this crate does not depend.
pub type SharedBytes = Arc<dyn AsRef<[u8]> + Send + Sync>;

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

/// The bytes of a file, which several readers hold.
#[derive(Clone, Debug)]
pub enum FileBytes {
    /// All of them.
    Memory(Arc<Vec<u8>>),
    /// Those of an archive, which are read when they are needed.
    Archive(Arc<OpenFile>),
}

/// An open file. Headers of records and what is next to them are read at once, and weights are used
/// where they are.
#[derive(Debug)]
pub struct OpenFile {
    file: File,
    size: u64,
    /// The time of its last change when it was opened, if the system has one.
    modified: Option<SystemTime>,
    mapped: OnceLock<Option<Arc<Mmap>>>,
    /// Where the bytes begin that were read last for small reads, and these bytes.
    window: Mutex<(u64, Vec<u8>)>,
}

impl OpenFile {
    fn of(file: File) -> io::Result<OpenFile> {
        let found = file.metadata()?;
        let (size, modified) = (found.len(), found.modified().ok());
        Ok(OpenFile { file, size, modified, mapped: OnceLock::new(), window: Mutex::default() })
    }

    /// The file in memory. None where the system cannot map it.
    #[allow(unsafe_code, reason = "a mapped file is memory that another process may change")]
    fn mapped(&self) -> Option<Arc<Mmap>> {
        let map = || {
            // SAFETY: the bytes are only read, as elements of types that have a value for any
            // bytes. A process that writes to the file meanwhile changes numbers, which
            // `has_changed` reports afterwards; one that truncates it ends this process with a
            // message.
            let mapped = unsafe { Mmap::map(&self.file) }.ok().filter(|mapped| mapped.len() as u64 == self.size)?;
            // The system maps all pages at once ten times faster than one after the other.
            #[cfg(target_os = "linux")]
            let _ = mapped.advise(memmap2::Advice::PopulateRead);
            Some(Arc::new(mapped))
        };
        self.mapped.get_or_init(map).clone()
    }

    /// Whether its bytes may be others now than when it was opened, as far as the system says.
    fn has_changed(&self) -> bool {
        let now = self.file.metadata().map(|found| (found.len(), found.modified().ok()));
        now.is_ok_and(|now| now != (self.size, self.modified))
    }

    /// The lock is held meanwhile, as the file has one position.
    fn read_at(&self, at: u64, into: &mut [u8]) -> io::Result<()> {
        let mut window = self.window.lock().unwrap_or_else(PoisonError::into_inner);
        if into.len() > SMALL {
            return self.file.read_at(at, into);
        }
        let is_known = at >= window.0 && (at - window.0).saturating_add(into.len() as u64) <= window.1.len() as u64;
        if !is_known {
            let mut bytes = vec![0; WINDOW.min(self.size.saturating_sub(at)) as usize];
            self.file.read_at(at, &mut bytes)?;
            *window = (at, bytes);
        }
        window.1.read_at(at - window.0, into)
    }
}

impl FileBytes {
    /// The bytes of a file: those of an archive stay there.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn read(path: &Path) -> io::Result<FileBytes> {
        let (mut file, mut start) = (File::open(path)?, Vec::new());
        Read::by_ref(&mut file).take(4).read_to_end(&mut start)?;
        if file.metadata()?.is_file() && crate::looks_like_archive(&start) {
            return Ok(FileBytes::Archive(Arc::new(OpenFile::of(file)?)));
        }
        file.read_to_end(&mut start)?;
        Ok(start.into())
    }

    /// Whether it is an archive.
    pub fn is_archive(&self) -> bool {
        match self {
            FileBytes::Memory(all) => crate::looks_like_archive(all),
            FileBytes::Archive(_) => true,
        }
    }

    /// Whether the file was written since it was opened: what was read of it may be neither the old
    /// bytes nor the new ones.
    pub fn has_changed(&self) -> bool {
        match self {
            FileBytes::Memory(_) => false,
            FileBytes::Archive(file) => file.has_changed(),
        }
    }

    /// All bytes in memory: the text of a file that is no archive.
    pub fn text(&self) -> &[u8] {
        self.in_memory().unwrap_or_default()
    }

    /// Whether both have the same bytes; not where they cannot be read.
    pub fn is_same(&self, other: &FileBytes) -> bool {
        let all = |bytes: &FileBytes| {
            let mut all = vec![0; usize::try_from(bytes.size().ok()?).ok()?];
            bytes.read_at(0, &mut all).ok().map(|()| all)
        };
        matches!((self.size(), other.size()), (Ok(a), Ok(b)) if a == b)
            && all(self).is_some_and(|own| Some(own) == all(other))
    }
}

impl ByteSource for FileBytes {
    fn size(&self) -> io::Result<u64> {
        match self {
            FileBytes::Memory(all) => all.size(),
            FileBytes::Archive(file) => Ok(file.size),
        }
    }

    fn read_at(&self, at: u64, into: &mut [u8]) -> io::Result<()> {
        match self {
            FileBytes::Memory(all) => ByteSource::read_at(&**all, at, into),
            FileBytes::Archive(file) => file.read_at(at, into),
        }
    }

    fn in_memory(&self) -> Option<&[u8]> {
        match self {
            FileBytes::Memory(all) => Some(all),
            FileBytes::Archive(_) => None,
        }
    }

    fn shared(&self) -> Option<SharedBytes> {
        match self {
            FileBytes::Memory(_) => None,
            FileBytes::Archive(file) => file.mapped().map(|mapped| mapped as SharedBytes),
        }
    }
}

impl From<Vec<u8>> for FileBytes {
    fn from(bytes: Vec<u8>) -> FileBytes {
        FileBytes::Memory(Arc::new(bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_a_file_are_its_bytes() {
        let path = std::env::temp_dir().join(format!("jitopt-byte-source-{}", std::process::id()));
        let all: Vec<u8> = b"PK\x03\x04".iter().copied().chain((0..20_000u32).map(|i| ((i * i) >> 7) as u8)).collect();
        std::fs::write(&path, &all).expect("there is a folder for what is temporary");
        let file = FileBytes::read(&path).expect("it is there");
        assert!(file.is_archive() && file.in_memory().is_none());
        assert!(file.is_same(&all.clone().into()) && !file.is_same(&all[1..].to_vec().into()));
        for (at, count) in [(0, 30), (4000, 200), (4090, 100), (3, 1), (100, 5000), (19_990, 14), (20_000, 4)] {
            let mut part = vec![0; count];
            file.read_at(at, &mut part).expect("they are inside");
            assert_eq!(part, all[at as usize..][..count], "{count} at {at}");
        }
        assert!(file.read_at(20_000, &mut [0; 5]).is_err() && file.read_at(1 << 40, &mut [0; 1]).is_err());
        assert!(file.shared().is_none_or(|mapped| (*mapped).as_ref() == all) && !file.has_changed());
        std::fs::write(&path, "graph():\n").expect("it is ours");
        assert!(file.has_changed());
        assert_eq!(FileBytes::read(&path).expect("it is there").text(), b"graph():\n");
        std::fs::remove_file(&path).expect("it is ours");
    }
}
