//! What a text shows of the PyTorch that wrote it.

use super::literal::Evidence;
use super::parser::ParseOptions;
use crate::ir::Graph;
use crate::types::era::Era;
use crate::types::spelling::{Spelling, Undefined};

impl Evidence {
    /// Decides the era and the spelling from what was met.
    pub(super) fn settle(&self, graph: &mut Graph, options: ParseOptions) {
        let types = &self.types;
        let new = types.new_none || types.fields || self.seventeen || self.annotated;
        let old = types.class_type
            || types.profiled
            || types.square_dicts
            || types.dynamic
            || self.six
            || (types.old_none && !new);
        let asked = options.era.filter(|_| options.force_era || !(new || old));
        let era = asked.unwrap_or(if old && !new { Era::V1_3 } else { Era::V2 });
        let spelling = Spelling {
            old_none: !types.new_none && (types.old_none || era == Era::V1_3),
            dynamic: types.dynamic,
            undefined: types.undefined.unwrap_or(Undefined::Suffix),
            colon_strides: types.colon_strides,
            square_unions: types.square_unions && !types.round_unions,
            square_dicts: types.square_dicts,
            verbosity: None,
        };
        set_dialect(graph, era, spelling, new || old);
    }
}

/// Subgraphs are of the same file.
fn set_dialect(graph: &mut Graph, era: Era, spelling: Spelling, shown: bool) {
    let mut work = vec![graph];
    while let Some(graph) = work.pop() {
        graph.era = era;
        graph.dialect.spelling = spelling;
        graph.dialect.era_shown = shown;
        work.extend(graph.subgraphs_mut());
    }
}
