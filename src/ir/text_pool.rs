//! Source locations and scopes: texts that are stored and never looked up, four bytes per row.

/// A text in a [`TextPool`], or none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct TextId(u32);

impl TextId {
    /// This text, or the other if there is none.
    pub(super) fn or(self, other: TextId) -> TextId {
        if self == TextId::default() { other } else { self }
    }
}

/// The texts of one graph, concatenated. A text equal to the last one of its kind is not stored
/// again; scopes of traced graphs and locations of one source line repeat in this way.
#[derive(Clone, Debug, Default)]
pub(super) struct TextPool {
    bytes: Vec<u8>,
}

impl TextPool {
    pub(super) fn add(&mut self, text: &[u8], like: TextId) -> TextId {
        if self.get(like) == Some(text) {
            return like;
        }
        // Comments beyond 4 GiB are dropped rather than confused.
        let Ok(id) = u32::try_from(self.bytes.len() + 1) else { return TextId(0) };
        let mut len = text.len();
        while len >= 0x80 {
            self.bytes.push(len as u8 | 0x80);
            len >>= 7;
        }
        self.bytes.push(len as u8);
        self.bytes.extend(text);
        TextId(id)
    }

    #[inline]
    pub(super) fn get(&self, id: TextId) -> Option<&[u8]> {
        let mut at = (id.0 as usize).checked_sub(1)?;
        let (mut len, mut shift) = (0, 0);
        loop {
            let byte = self.bytes[at];
            at += 1;
            len |= ((byte & 0x7f) as usize) << shift;
            shift += 7;
            if byte < 0x80 {
                return Some(&self.bytes[at..at + len]);
            }
        }
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes.capacity()
    }

    pub(super) fn shrink_to_fit(&mut self) {
        self.bytes.shrink_to_fit();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_any_length_come_back() {
        let mut pool = TextPool::default();
        let texts: Vec<Vec<u8>> = [0, 1, 127, 128, 129, 20_000].map(|n| vec![b'x'; n]).into();
        let ids: Vec<TextId> = texts.iter().map(|t| pool.add(t, TextId(0))).collect();
        assert!(ids.iter().zip(&texts).all(|(&id, text)| pool.get(id) == Some(text)));
        assert_eq!(pool.add(&texts[2], ids[2]), ids[2]);
        assert_eq!(pool.get(TextId(0)), None);
    }
}
