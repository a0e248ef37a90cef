//! Kernels as C: readable, without headers, with the IR line of each statement as a comment.
//!
//! A kernel is one function over a range of tiles of its iteration space, or of rows: its nest
//! ([`super::nest`]), printed by [`super::c`]. A unit is several of them, after what they call of
//! the vector mathematics. Names in the text: `v_x` the value of `%x` at an element or of a row,
//! `t_x` an array of such, and for reductions `a_x` the total, `p_x` that of a block.

use super::prelude;

/// One translation unit of several functions: what they call of the prelude, then each of them.
pub(crate) fn unit(functions: &[String]) -> String {
    let mut text = prelude::types().to_owned();
    text += &prelude::used_by(&prelude::symbols(functions.iter().map(String::as_str)));
    for function in functions {
        text += "\n";
        text += function;
    }
    text
}

/// A text without what only people read: lines of the graph, in whose types sizes may stand.
pub(crate) fn without_notes(text: &str) -> String {
    text.lines().map(|line| line.split("//").next().unwrap_or_default().trim_end()).fold(
        String::new(),
        |mut all, line| {
            all += line;
            all.push('\n');
            all
        },
    )
}
