//! Sizes of the caches of this processor.

use std::num::NonZero;
use std::path::Path;
use std::sync::LazyLock;

/// The size that is assumed where the system reports none.
const USUAL: usize = 32 << 20;

/// The largest share of a cache that a core may count on. A virtual machine of two cores sees all
/// 480 MB of its processor's cache, which other machines use as well: there a launch with 77 MB of
/// results takes 0.7 times as long with non-temporal stores.
const SHARE: usize = 16 << 20;

/// Bytes of the largest cache, or of the share that our cores may count on.
pub(crate) fn largest_cache() -> usize {
    static LARGEST: LazyLock<usize> = LazyLock::new(|| {
        let said = largest(Path::new("/sys/devices/system/cpu/cpu0/cache")).unwrap_or(USUAL);
        said.min(SHARE * std::thread::available_parallelism().map_or(1, NonZero::get))
    });
    *LARGEST
}

/// Linux has a folder for each cache, with its size in a file: `32768K`.
fn largest(folder: &Path) -> Option<usize> {
    let size = |entry: std::io::Result<std::fs::DirEntry>| {
        size(&std::fs::read_to_string(entry.ok()?.path().join("size")).ok()?)
    };
    std::fs::read_dir(folder).ok()?.filter_map(size).max()
}

fn size(text: &str) -> Option<usize> {
    let text = text.trim_end();
    let (digits, unit) = match text.char_indices().find(|(_, c)| !c.is_ascii_digit()) {
        Some((at, 'K')) => (&text[..at], 1 << 10),
        Some((at, 'M')) => (&text[..at], 1 << 20),
        Some(_) => return None,
        None => (text, 1),
    };
    digits.parse::<usize>().ok()?.checked_mul(unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units() {
        assert_eq!(
            [size("32768K\n"), size("8M"), size("512"), size("x"), size("9G")],
            [Some(32 << 20), Some(8 << 20), Some(512), None, None]
        );
    }
}
