//! The vector mathematics that kernels call: `prelude.c`, from which a unit gets the functions that
//! it needs.
//!
//! Compilers vectorise loops only if they can inline the functions that these call, and kernels
//! link no library. Float functions that are seldom critical are computed in doubles, at half the
//! speed and correctly rounded but for one result in thousands. Those common in networks have their
//! own polynomials, fitted by `tools/polynomials/fit.py`. `jitopt-bench accuracy` measures all of
//! them, see `codegen/accuracy.md`.

use super::expressions::names;
use rustc_hash::FxHashMap;
use std::collections::BTreeSet;
use std::sync::LazyLock;

/// The whole text.
pub const TEXT: &str = include_str!("prelude.c");

/// The number of additions, subtractions, multiplications and divisions of a formula, including the
/// functions that it calls, in the float version where there are two. They are counted as written:
/// a fused multiply-add is two, and the few integer operations count too.
pub fn operations(text: &str) -> usize {
    let own: usize = [" + ", " - ", " * ", " / "].iter().map(|operator| text.matches(operator).count()).sum();
    let called = names(text).filter(|name| name.len() > 1).filter_map(|name| {
        let full = if name.starts_with("jo_") { name.to_owned() } else { format!("jo_{name}f") };
        let piece = PIECES.iter().find(|piece| piece.name == full)?;
        let (_, body) = piece.text.split_once('{')?;
        Some(operations(body))
    });
    own + called.sum::<usize>()
}

/// A function or a definition.
struct Piece {
    name: &'static str,
    text: &'static str,
    /// The pieces that it uses.
    needs: Vec<usize>,
}

/// The text before the first function: type names.
pub fn types() -> &'static str {
    TEXT.split_once("\n\n").map_or(TEXT, |(head, _)| head)
}

/// The pieces, separated by empty lines, each named by its first identifier that begins with `jo_`.
static PIECES: LazyLock<Vec<Piece>> = LazyLock::new(|| {
    let texts = TEXT.split("\n\n").skip(1).filter_map(|text| {
        let code = text.lines().find(|line| !line.starts_with("//"))?;
        let name = names(code).find(|name| name.starts_with("jo_"))?;
        Some((name, text.trim_end()))
    });
    let texts: Vec<_> = texts.collect();
    let places: FxHashMap<&str, usize> = texts.iter().enumerate().map(|(i, (name, _))| (*name, i)).collect();
    let piece = |(i, &(name, text)): (usize, &(&'static str, &'static str))| {
        let needs = names(text).filter_map(|word| places.get(word).copied()).filter(|&other| other != i).collect();
        Piece { name, text, needs }
    };
    texts.iter().enumerate().map(piece).collect()
});

/// The functions of the prelude, in order.
pub fn functions() -> impl Iterator<Item = &'static str> {
    PIECES.iter().map(|piece| piece.name)
}

/// The pieces that these texts use, directly or indirectly, in the order of the file.
pub fn used_by<'a>(texts: impl Iterator<Item = &'a str>) -> String {
    let mut wanted: BTreeSet<usize> = BTreeSet::new();
    let mut open: Vec<usize> = Vec::new();
    for text in texts {
        let words: BTreeSet<&str> = names(text).filter(|word| word.starts_with("jo_")).collect();
        open.extend(PIECES.iter().enumerate().filter(|(_, piece)| words.contains(piece.name)).map(|(i, _)| i));
    }
    while let Some(i) = open.pop() {
        if wanted.insert(i) {
            open.extend(&PIECES[i].needs);
        }
    }
    wanted.into_iter().map(|i| format!("\n\n{}", PIECES[i].text)).collect::<String>() + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_are_those_of_called_functions_too() {
        assert_eq!(operations("a * b + 1.5"), 2);
        assert_eq!(operations("floor(a)"), 1, "a difference");
        let exp = operations("exp(a)");
        assert!((15..30).contains(&exp), "{exp}");
        assert_eq!(operations("a + exp(a)"), exp + 1);
    }
}
