//! Releases of PyTorch.

use super::era::Era;
use std::fmt;
use std::str::FromStr;

/// A release of PyTorch, `(1, 3)` or `(2, 15)`: a graph runs and is transformed by its rules. Patch
/// releases change none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Release(pub u32, pub u32);

impl Release {
    /// The first with a TorchScript text.
    pub(crate) const OLDEST: Release = Release(1, 0);
    /// The newest that is known.
    pub const NEWEST: Release = Release(2, 15);
    /// The last 1.x.
    const LAST_OF_1: u32 = 13;

    /// The representative of an era: the release with which facts about the era were measured.
    pub fn of(era: Era) -> Release {
        match era {
            Era::V1_3 => Release(1, 3),
            Era::V2 => Release::NEWEST,
        }
    }

    /// Whether its passes end with `dce` even if they changed nothing: true up to 1.8, as measured
    /// in all releases.
    pub fn always_cleans_up(self) -> bool {
        self < Release(1, 9)
    }

    /// The era that it belongs to.
    pub fn era(self) -> Era {
        if self < Release(1, 5) { Era::V1_3 } else { Era::V2 }
    }

    /// All releases, oldest first.
    #[cfg(test)]
    pub(crate) fn all() -> impl Iterator<Item = Release> {
        let of_1 = (0..=Release::LAST_OF_1).map(|minor| Release(1, minor));
        of_1.chain((0..=Release::NEWEST.1).map(|minor| Release(2, minor)))
    }
}

impl Default for Release {
    fn default() -> Self {
        Release::NEWEST
    }
}

impl fmt::Display for Release {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.0, self.1)
    }
}

/// `1.8`, `1.8.1`, `2.1.0+cpu`, `2.4.0a0+git1234`; `1` and `2` are the newest of their series.
impl FromStr for Release {
    type Err = String;

    fn from_str(text: &str) -> Result<Release, String> {
        let malformed =
            || format!("`{text}` is not a release of PyTorch: expected one such as 1.3, 1.8.1, 2.1.0+cpu or 2");
        let version = text.split_once('+').map_or(text, |(version, _)| version);
        let mut parts = version.split('.');
        let number = |part: &str| part.parse::<u32>().map_err(|_| malformed());
        let major = parts.next().map_or_else(|| Err(malformed()), number)?;
        let last = match major {
            1 => Release::LAST_OF_1,
            2 => Release::NEWEST.1,
            _ => return Err(malformed()),
        };
        let minor = parts.next().map_or(Ok(last), number)?;
        let is_patch = |part: &str| part.starts_with(|c: char| c.is_ascii_digit());
        if !parts.all(|part| is_patch(part) || part.starts_with("dev")) {
            return Err(malformed());
        }
        if minor > last {
            return Err(format!("PyTorch {major}.{minor} is unknown: the last release of {major}.x is {major}.{last}"));
        }
        Ok(Release(major, minor))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_are_read_as_they_are_printed() {
        for release in Release::all() {
            assert_eq!(release.to_string().parse(), Ok(release));
        }
        assert_eq!(Release::all().count(), 30);
    }

    #[test]
    fn versions_are_read_as_wheels_spell_them() {
        for (text, release) in [
            ("1", Release(1, 13)),
            ("2", Release(2, 15)),
            ("1.8.1", Release(1, 8)),
            ("2.1.0+cpu", Release(2, 1)),
            ("2.4.0a0+git1234", Release(2, 4)),
            ("1.12.0.dev20220101", Release(1, 12)),
        ] {
            assert_eq!(text.parse(), Ok(release), "{text}");
        }
        for text in ["", "0.4", "1.14", "2.16", "3", "1.x", "1.8.", "1.8.1.x", "new", "-1", "1.-3"] {
            assert!(text.parse::<Release>().is_err(), "{text}");
        }
    }
}
