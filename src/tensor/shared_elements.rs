//! The elements of a buffer: in memory of their own, or bytes that others hold, such as a file that
//! is mapped into memory.
//!
//! Weights are most of what a program reads, and few are written. Those of a file are read where
//! they are; a write copies them first.

use std::fmt;
use std::ops::{Deref, DerefMut, Range};
use std::sync::Arc;

/// Bytes that several hold, and no holder writes.
pub type SharedBytes = Arc<dyn AsRef<[u8]> + Send + Sync>;

/// Elements of one type.
#[derive(Clone)]
pub struct Elements<T>(Place<T>);

#[derive(Clone)]
enum Place<T> {
    Own(Vec<T>),
    Shared {
        bytes: SharedBytes,
        range: Range<usize>,
        /// The elements in these bytes.
        cast: fn(&[u8]) -> &[T],
    },
}

impl<T: bytemuck::Pod> Elements<T> {
    /// Elements in a range of bytes, least significant byte first; none if the range is not that of
    /// elements, or where this processor reads bytes in another order.
    pub(crate) fn shared(bytes: SharedBytes, range: Range<usize>) -> Option<Elements<T>> {
        let own = (*bytes).as_ref().get(range.clone())?;
        let are_elements = cfg!(target_endian = "little") && bytemuck::try_cast_slice::<u8, T>(own).is_ok();
        are_elements.then_some(Elements(Place::Shared { bytes, range, cast: cast::<T> }))
    }
}

/// The elements in bytes of which [`Elements::shared`] found that they are some.
fn cast<T: bytemuck::Pod>(bytes: &[u8]) -> &[T] {
    bytemuck::try_cast_slice(bytes).unwrap_or_default()
}

impl<T> From<Vec<T>> for Elements<T> {
    fn from(all: Vec<T>) -> Elements<T> {
        Elements(Place::Own(all))
    }
}

impl<T> Deref for Elements<T> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        match &self.0 {
            Place::Own(all) => all,
            Place::Shared { bytes, range, cast } => cast(&(**bytes).as_ref()[range.clone()]),
        }
    }
}

impl<T: Copy> DerefMut for Elements<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [T] {
        self.own()
    }
}

impl<T: Copy> Elements<T> {
    /// The elements in memory of their own.
    #[inline]
    pub(crate) fn own(&mut self) -> &mut Vec<T> {
        if matches!(self.0, Place::Shared { .. }) {
            self.0 = Place::Own(self.to_vec());
        }
        match &mut self.0 {
            Place::Own(all) => all,
            Place::Shared { .. } => unreachable!("they were copied above"),
        }
    }
}

impl<T: fmt::Debug> fmt::Debug for Elements<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes() -> SharedBytes {
        let all: Vec<u64> = vec![0x4000_0000_3f80_0000, 0x4080_0000_4040_0000];
        struct Words(Vec<u64>);
        impl AsRef<[u8]> for Words {
            fn as_ref(&self) -> &[u8] {
                bytemuck::cast_slice(&self.0)
            }
        }
        Arc::new(Words(all))
    }

    #[test]
    fn shared_elements_are_copied_when_one_is_written() {
        let file = bytes();
        let mut found = Elements::<f32>::shared(file.clone(), 4..16).expect("three floats");
        let other = found.clone();
        assert_eq!(&found[..], [2.0, 3.0, 4.0]);
        assert_eq!(found.as_ptr().addr(), (*file).as_ref().as_ptr().addr() + 4);
        found[1] = 7.0;
        assert_eq!((&found[..], &other[..]), (&[2.0f32, 7.0, 4.0][..], &[2.0f32, 3.0, 4.0][..]));
    }

    #[test]
    fn ranges_are_those_of_aligned_elements() {
        assert!(Elements::<f32>::shared(bytes(), 2..6).is_none(), "not aligned");
        assert!(Elements::<f64>::shared(bytes(), 0..12).is_none(), "a part of an element");
        assert!(Elements::<f32>::shared(bytes(), 12..20).is_none(), "beyond the end");
        assert!(Elements::<f32>::shared(bytes(), 8..8).is_some_and(|none| none.is_empty()));
    }
}
