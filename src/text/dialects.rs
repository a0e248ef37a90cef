//! What a text shows of the PyTorch that wrote it.

use super::literal::Evidence;
use super::parser::ParseOptions;
use crate::ir::{Dialect, Graph, Releases};
use crate::types::era::Era;
use crate::types::release::Release;
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
        let era = if old && !new { Era::V1_3 } else { Era::V2 };
        let releases = match options.release {
            Some(release) => Releases { oldest: release, newest: release },
            None => Releases { newest: Release::of(era), ..Releases::default() },
        };
        let spelling = Spelling {
            old_none: !types.new_none && (types.old_none || releases.newest.era() == Era::V1_3),
            dynamic: types.dynamic,
            undefined: types.undefined.unwrap_or(Undefined::Suffix),
            colon_strides: types.colon_strides,
            square_unions: types.square_unions && !types.round_unions,
            square_dicts: types.square_dicts,
            verbosity: None,
        };
        set_dialect(graph, spelling, releases);
    }
}

/// Subgraphs are of the same file.
fn set_dialect(graph: &mut Graph, spelling: Spelling, releases: Releases) {
    let mut work = vec![graph];
    while let Some(graph) = work.pop() {
        graph.set_release(releases.newest);
        graph.dialect = Dialect { spelling, releases };
        work.extend(graph.subgraphs_mut());
    }
}
