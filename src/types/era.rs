//! The era of PyTorch that a graph belongs to.

use std::fmt;
use std::str::FromStr;

/// The family of PyTorch versions a graph was printed by: it decides the operator list, the
/// spelling of new text and the rules of evaluation. Two eras are enough: within one, what was
/// printed is compatible enough to share tables, and the operator table of one era falls back to
/// the other's where a version in between differs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Era {
    /// 1.0 to 1.4: the legacy executor and fuser; dtypes are `int?`; integer division truncates.
    V1_3,
    /// 1.5 and later.
    #[default]
    V2,
}

impl Era {
    /// Both, oldest first.
    pub const ALL: [Era; 2] = [Era::V1_3, Era::V2];

    /// The other era.
    pub(crate) fn other(self) -> Era {
        match self {
            Era::V1_3 => Era::V2,
            Era::V2 => Era::V1_3,
        }
    }
}

impl fmt::Display for Era {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Era::V1_3 => "1.3",
            Era::V2 => "2",
        })
    }
}

impl FromStr for Era {
    type Err = String;

    fn from_str(text: &str) -> Result<Era, String> {
        let found = Era::ALL.into_iter().find(|era| era.to_string() == text);
        found.ok_or_else(|| format!("`{text}` is not an era of PyTorch: expected `1.3` or `2`"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn eras_are_read_as_they_are_printed() {
        for era in Era::ALL {
            assert_eq!((era.to_string().parse(), era.other().other()), (Ok(era), era));
        }
        assert!("3".parse::<Era>().is_err());
    }
}
