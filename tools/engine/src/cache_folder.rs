//! The directory of `--transform-cache=DIR`: one file per cached result, named by the hash of its
//! key.
//!
//! Files are written under a temporary name and renamed, so that concurrent readers, in any
//! process, see complete files. An unreadable file counts as absent: the passes run and the file is
//! rewritten.

use crate::settings::TRANSFORM_CACHE;
use jitopt_core::pass::{EntryStore, StoreTrouble, Unreadable};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Warnings to print at the end: the first of each kind.
#[derive(Clone, Default)]
pub(crate) struct Troubles(Arc<Mutex<Vec<(&'static str, String)>>>);

impl Troubles {
    fn add(&self, kind: &'static str, text: String) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if all.iter().all(|(known, _)| *known != kind) {
            all.push((kind, text));
        }
    }

    /// The warnings, one per line.
    pub(crate) fn warnings(&self) -> Vec<String> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.iter().map(|(_, text)| format!("warning: {TRANSFORM_CACHE}: {text}")).collect()
    }
}

/// The directory.
pub(crate) struct CacheFolder {
    path: PathBuf,
    troubles: Troubles,
}

impl CacheFolder {
    /// Opens the directory and creates it if necessary.
    pub(crate) fn open(path: &Path, troubles: Troubles) -> io::Result<CacheFolder> {
        std::fs::create_dir_all(path)?;
        Ok(CacheFolder { path: path.to_owned(), troubles })
    }

    fn write(&self, name: &str, entry: &[u8]) -> io::Result<()> {
        // Unique among the writers of this process and of others.
        static WRITERS: AtomicU64 = AtomicU64::new(0);
        let writer = WRITERS.fetch_add(1, Ordering::Relaxed);
        let draft = self.path.join(format!(".{name}.{}.{writer}.draft", std::process::id()));
        std::fs::write(&draft, entry)?;
        std::fs::rename(&draft, self.path.join(name)).inspect_err(|_| {
            // The error of the rename is the one reported.
            let _ = std::fs::remove_file(&draft);
        })
    }
}

impl EntryStore for CacheFolder {
    fn load(&self, name: &str) -> Option<Vec<u8>> {
        let path = self.path.join(name);
        match std::fs::read(&path) {
            Ok(bytes) => Some(bytes),
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            Err(error) => {
                self.troubles.add("read", format!("cannot read `{}`: {error}", path.display()));
                None
            }
        }
    }

    fn save(&self, name: &str, entry: &[u8]) {
        if let Err(error) = self.write(name, entry) {
            self.troubles.add("write", format!("cannot write to `{}`: {error}", self.path.display()));
        }
    }

    fn complain(&self, name: &str, why: StoreTrouble) {
        let path = self.path.join(name);
        let path = path.display();
        match why {
            StoreTrouble::Unreadable(Unreadable::Damaged) => {
                self.troubles.add("damaged", format!("`{path}` is damaged and will be rewritten"));
            }
            StoreTrouble::Unreadable(Unreadable::Foreign) => {
                self.troubles.add("foreign", format!("`{path}` belongs to another graph and will be rewritten"));
            }
            StoreTrouble::NoText => {
                self.troubles
                    .add("text", "a result does not survive a round trip through text and is not cached".to_owned());
            }
        }
    }
}
