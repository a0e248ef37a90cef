//! Compiled units on disk, found by content.
//!
//! A unit is two files: the library, and its source below a head with the compiler and a hash of
//! the library's bytes. A library is used only if the source is equal to the requested one, the
//! hash matches, and only its owner, who is the user, could have written the files; else it is
//! compiled again. Files are written under another name and renamed, so that processes may share a
//! folder. A unit that one process compiled serves others, whatever graph they run.

use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::{fs, io};

/// Bytes that units may take; above that the oldest ones are removed.
const MOST_BYTES: u64 = 256 << 20;

/// What a stored answer follows.
const END: &[u8] = b"\n--\n";

/// A hash of 32 hex digits, practically free of collisions. It may differ between builds of jitopt,
/// which is a miss.
pub(crate) fn digest(bytes: &[u8]) -> String {
    let half = |salt: u64| {
        let mut hasher = std::hash::DefaultHasher::new();
        (salt, bytes).hash(&mut hasher);
        hasher.finish()
    };
    format!("{:016x}{:016x}", half(0), half(1))
}

/// The folder where units are kept, if any.
#[derive(Debug)]
pub struct DiskCache {
    folder: Option<PathBuf>,
    /// Why nothing is kept, though a folder was given.
    trouble: Option<String>,
}

/// A private folder that is removed when this value is dropped.
#[derive(Debug)]
pub(crate) struct PrivateFolder(pub PathBuf);

impl Drop for PrivateFolder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

impl DiskCache {
    /// Keeps units in a folder, which is created. Without one, or where others may write to it,
    /// nothing is kept.
    pub fn new(folder: Option<&Path>) -> DiskCache {
        let usable = |folder: &Path| {
            if folder.is_file() {
                return Err("it is a file".to_owned());
            }
            make_folder(folder, true).map_err(|error| error.to_string())?;
            let found = folder.canonicalize().map_err(|error| error.to_string())?;
            let usable =
                is_ours(&found) && DiskCache { folder: Some(found.clone()), trouble: None }.private_folder().is_ok();
            usable
                .then_some(found)
                .ok_or_else(|| "it does not belong to the user, or other users can write to it".to_owned())
        };
        match folder.map(|folder| usable(folder).map_err(|why| format!("{}: {why}", folder.display()))) {
            Some(Err(why)) => DiskCache { folder: None, trouble: Some(why) },
            Some(Ok(folder)) => DiskCache { folder: Some(folder), trouble: None },
            None => DiskCache::nowhere(),
        }
    }

    /// A cache that keeps nothing.
    fn nowhere() -> DiskCache {
        DiskCache { folder: None, trouble: None }
    }

    /// The folder that was given, and why nothing is kept in it.
    pub(crate) fn trouble(&self) -> Option<&str> {
        self.trouble.as_deref()
    }

    /// A new folder that no other user can read or write.
    ///
    /// # Errors
    /// If none can be created.
    pub(crate) fn private_folder(&self) -> io::Result<PrivateFolder> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let base = self.folder.clone().unwrap_or_else(std::env::temp_dir);
        loop {
            let n = NEXT.fetch_add(1, Ordering::Relaxed);
            let path = base.join(format!("jitopt-work-{}-{n}", std::process::id()));
            match make_folder(&path, false) {
                Ok(()) => return Ok(PrivateFolder(path)),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// The library of a unit that the same compiler compiled before.
    pub(crate) fn library(&self, source: &str, compiler: &str) -> Option<PathBuf> {
        let (library, note) = self.places(source, compiler)?;
        let trusted = [&library, &note].into_iter().all(|path| is_ours(path));
        let bytes = fs::read(&library).ok().filter(|_| trusted)?;
        (fs::read_to_string(&note).ok()? == noted(source, compiler, &bytes)).then_some(library)
    }

    /// Keeps a library and returns its path in the cache.
    pub(crate) fn keep(&self, source: &str, compiler: &str, made: &Path) -> Option<PathBuf> {
        let (library, note) = self.places(source, compiler)?;
        let bytes = fs::read(made).ok()?;
        let folder = self.private_folder().ok()?;
        self.put(&folder.0, &bytes, &library).ok()?;
        self.put(&folder.0, noted(source, compiler, &bytes).as_bytes(), &note).ok()?;
        self.shrink();
        Some(library)
    }

    fn put(&self, folder: &Path, bytes: &[u8], place: &Path) -> io::Result<()> {
        let new = folder.join("new");
        fs::write(&new, bytes)?;
        restrict(&new, 0o600)?;
        fs::rename(&new, place)
    }

    fn places(&self, source: &str, compiler: &str) -> Option<(PathBuf, PathBuf)> {
        let name = digest(format!("{compiler}\n{source}").as_bytes());
        let folder = self.folder.as_ref()?;
        Some((folder.join(format!("{name}.so")), folder.join(format!("{name}.c"))))
    }

    /// The stored answer to a question.
    pub fn verdict(&self, question: impl AsRef<[u8]>) -> Option<String> {
        let question = question.as_ref();
        let path = self.verdict_place(question)?;
        let mut kept = fs::read(&path).ok().filter(|_| is_ours(&path))?;
        let head = kept.strip_prefix(question)?.starts_with(END).then_some(question.len() + END.len())?;
        kept.drain(..head);
        String::from_utf8(kept).ok()
    }

    /// Stores an answer.
    pub fn remember_verdict(&self, question: impl AsRef<[u8]>, answer: &str) {
        let question = question.as_ref();
        if let (Some(place), Ok(folder)) = (self.verdict_place(question), self.private_folder()) {
            // A failure only means that it is determined again.
            let _ = self.put(&folder.0, &[question, END, answer.as_bytes()].concat(), &place);
        }
    }

    fn verdict_place(&self, question: &[u8]) -> Option<PathBuf> {
        Some(self.folder.as_ref()?.join(format!("{}.verdict", digest(question))))
    }

    /// Removes the oldest units until there is room.
    fn shrink(&self) {
        let entries = self.folder.as_ref().and_then(|folder| fs::read_dir(folder).ok()).into_iter().flatten().flatten();
        let files = entries.filter_map(|entry| {
            let file = entry.metadata().ok().filter(fs::Metadata::is_file)?;
            Some((file.modified().ok()?, file.len(), entry.path()))
        });
        let mut files: Vec<_> = files.collect();
        let mut total: u64 = files.iter().map(|file| file.1).sum();
        files.sort();
        for (_, bytes, path) in files {
            if total <= MOST_BYTES {
                return;
            }
            // Another process may have removed it.
            let _ = fs::remove_file(path);
            total -= bytes;
        }
    }
}

fn noted(source: &str, compiler: &str, library: &[u8]) -> String {
    let head: String = compiler.lines().map(|line| format!("// {line}\n")).collect();
    format!("// a library of {} bytes, {}\n{head}{source}", library.len(), digest(library))
}

#[cfg(unix)]
fn make_folder(path: &Path, with_parents: bool) -> io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    fs::DirBuilder::new().mode(0o700).recursive(with_parents).create(path)
}

#[cfg(not(unix))]
fn make_folder(path: &Path, with_parents: bool) -> io::Result<()> {
    fs::DirBuilder::new().recursive(with_parents).create(path)
}

#[cfg(unix)]
fn restrict(path: &Path, mode: u32) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(path, fs::Permissions::from_mode(mode))
}

#[cfg(not(unix))]
fn restrict(_: &Path, _: u32) -> io::Result<()> {
    Ok(())
}

/// Whether the user owns a file or folder, and no other user may write to it. Links are not
/// followed.
#[cfg(unix)]
fn is_ours(path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let Ok(found) = fs::symlink_metadata(path) else { return false };
    !found.is_symlink() && Some(found.uid()) == own_user() && found.mode() & 0o022 == 0
}

#[cfg(not(unix))]
fn is_ours(path: &Path) -> bool {
    path.exists()
}

/// The user, as the owner of files that this process creates.
#[cfg(unix)]
fn own_user() -> Option<u32> {
    use std::os::unix::fs::MetadataExt;
    static USER: std::sync::OnceLock<Option<u32>> = std::sync::OnceLock::new();
    *USER.get_or_init(|| {
        let folder = DiskCache::nowhere().private_folder().ok()?;
        Some(fs::symlink_metadata(&folder.0).ok()?.uid())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cache_with_unit() -> (PrivateFolder, DiskCache, PathBuf) {
        let folder = DiskCache::nowhere().private_folder().expect("there is a folder for what is temporary");
        let cache = DiskCache::new(Some(&folder.0.join("kept")));
        let made = folder.0.join("made");
        fs::write(&made, b"library").expect("it is ours");
        let library = cache.keep("source", "compiler", &made).expect("it is kept");
        (folder, cache, library)
    }

    #[test]
    fn stored_units_are_found() {
        let (_folder, cache, library) = cache_with_unit();
        assert_eq!(cache.library("source", "compiler"), Some(library));
        assert_eq!(cache.library("source", "another"), None);
        assert_eq!(cache.library("another", "compiler"), None);
        cache.remember_verdict("works?", "yes\nit does");
        assert_eq!(cache.verdict("works?").as_deref(), Some("yes\nit does"));
        assert_eq!(cache.verdict("and that?"), None);
    }

    #[test]
    fn damaged_units_are_not_loaded() {
        let (_folder, cache, library) = cache_with_unit();
        fs::write(&library, b"librarx").expect("it is ours");
        assert_eq!(cache.library("source", "compiler"), None);
    }

    #[cfg(unix)]
    #[test]
    fn units_that_others_may_write_are_not_loaded() {
        let (folder, cache, library) = cache_with_unit();
        restrict(&library, 0o602).expect("it is ours");
        assert_eq!(cache.library("source", "compiler"), None);
        restrict(&library, 0o600).expect("it is ours");
        assert!(cache.library("source", "compiler").is_some());
        restrict(&folder.0.join("kept"), 0o777).expect("it is ours");
        assert!(DiskCache::new(Some(&folder.0.join("kept"))).folder.is_none());
    }
}
