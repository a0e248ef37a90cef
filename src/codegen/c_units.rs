//! Kernels as C: readable, without headers, with the IR line of each statement as a comment.
//!
//! A kernel is one function over a range of tiles of its iteration space, or of rows: its nest
//! ([`super::nest`]), printed by [`super::c`]. A unit is several of them, after what they call of
//! the vector mathematics. Names in the text: `v_x` the value of `%x` at an element or of a row,
//! `t_x` an array of such, and for reductions `a_x` the total, `p_x` that of a block.

use super::prelude;
use super::text_lines::SourceText;

/// One translation unit of several functions: what they call of the prelude, then each of them.
pub(crate) fn unit(functions: &[SourceText]) -> SourceText {
    let used = prelude::used_by(&prelude::symbols(functions.iter().map(SourceText::text)));
    let mut unit = SourceText::from(prelude::types().to_owned() + &used);
    for function in functions {
        unit.push("\n");
        unit.append(function);
    }
    unit
}
