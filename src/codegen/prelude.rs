//! The vector mathematics that kernels call: `prelude.c`, from which a unit gets the functions that
//! it needs.
//!
//! Compilers vectorise loops only if they can inline the functions that these call, and kernels
//! link no library. Float functions that are seldom critical are computed in doubles, at half the
//! speed and correctly rounded but for one result in thousands. Those common in networks have their
//! own polynomials, fitted by `tools/polynomials/fit.py`. `jitopt-bench accuracy` measures all of
//! them, see `codegen/accuracy.md`.

use rustc_hash::FxHashMap;
use std::collections::BTreeSet;
use std::sync::LazyLock;

/// The whole text.
pub(crate) const TEXT: &str = include_str!("prelude.c");

/// The identifiers in C text, without numbers.
fn names(text: &str) -> impl Iterator<Item = &str> {
    let words = text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == '.'));
    words.filter(|word| word.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_'))
}

/// The number of additions, subtractions, multiplications and divisions of a function, including
/// those of the functions that it calls, as they are spelled: a fused multiply-add is two, and the
/// few integer operations count too.
#[cfg(test)]
pub(super) fn spelled_operations(name: &str) -> usize {
    let Some(piece) = PIECES.iter().find(|piece| piece.name == name) else { return 0 };
    let Some((_, body)) = piece.text.split_once('{') else { return 0 };
    let own: usize = [" + ", " - ", " * ", " / "].iter().map(|operator| body.matches(operator).count()).sum();
    own + names(body).filter(|name| name.starts_with("jo_")).map(spelled_operations).sum::<usize>()
}

/// A function or a definition.
struct Piece {
    name: &'static str,
    text: &'static str,
    /// The pieces that it uses.
    needs: Vec<usize>,
}

/// The text before the first function: type names.
pub(crate) fn types() -> &'static str {
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

/// The functions and tables of the prelude with their text.
pub(super) fn sources() -> impl Iterator<Item = (&'static str, &'static str)> {
    PIECES.iter().map(|piece| (piece.name, piece.text))
}

/// The symbols in texts. A unit is linked by them: it has the pieces that its functions name.
pub(crate) fn symbols<'a>(texts: impl Iterator<Item = &'a str>) -> BTreeSet<&'a str> {
    texts.flat_map(names).collect()
}

/// The pieces that have these symbols, and those that they use, in the order of the file.
pub(crate) fn used_by(symbols: &BTreeSet<&str>) -> String {
    let mut wanted: BTreeSet<usize> = BTreeSet::new();
    let named = PIECES.iter().enumerate().filter(|(_, piece)| symbols.contains(piece.name));
    let mut open: Vec<usize> = named.map(|(i, _)| i).collect();
    while let Some(i) = open.pop() {
        if wanted.insert(i) {
            open.extend(&PIECES[i].needs);
        }
    }
    wanted.into_iter().map(|i| format!("\n\n{}", PIECES[i].text)).collect::<String>() + "\n"
}
