//! Recognition of the PyTorch release that wrote a text.

use super::literal::Evidence;
use super::parser::ParseOptions;
use crate::ir::{Dialect, Graph, Releases};
use crate::types::era::Era;
use crate::types::release::Release;
use crate::types::spelling::{NONE_TYPE_SINCE, Spelling, Undefined};

impl Evidence {
    /// Decides the era and the spelling from the evidence in the text.
    pub(super) fn settle(&self, graph: &mut Graph, options: ParseOptions) {
        let types = &self.types;
        let releases = match options.release {
            Some(release) => Releases { oldest: release, newest: release },
            None => self.releases(),
        };
        let spelling = Spelling {
            old_none: !types.new_none && (types.old_none || releases.newest.era() == Era::V1_3),
            dynamic: types.dynamic,
            undefined: types.undefined.unwrap_or(Undefined::Suffix),
            colon_strides: types.colon_strides,
            square_unions: types.square_unions && !types.round_unions,
            square_dicts: types.square_dicts,
            string: types.string,
            raw_strings: self.braces,
            verbosity: None,
        };
        set_dialect(graph, spelling, releases);
    }
}

impl Evidence {
    /// The releases that print such text. A mix of spellings that no release prints counts as the
    /// newest release's.
    fn releases(&self) -> Releases {
        let types = &self.types;
        let last = |seen: bool, newest: Release| if seen { newest } else { Release::NEWEST };
        let first = |seen: bool, oldest: Release| if seen { oldest } else { Release::OLDEST };
        let newest = [
            last(self.braces || types.dynamic || types.undefined == Some(Undefined::Plain), Release(1, 0)),
            last(types.square_dicts || types.string, Release(1, 1)),
            last(types.profiled || types.undefined == Some(Undefined::AutogradZero), Release(1, 2)),
            last(types.class_type, Release(1, 3)),
            last(self.six, Release(1, 4)),
            last(self.pointed, Release(1, 6)),
            last(types.colon_strides, Release(1, 6)),
            last(types.old_none, Release(1, 8)),
            last(types.square_unions, Release(1, 10)),
        ];
        let oldest = [
            first(types.undefined == Some(Undefined::AutogradZero), Release(1, 1)),
            first(types.profiled, Release(1, 2)),
            first(types.undefined == Some(Undefined::Suffix), Release(1, 3)),
            first(self.seventeen || self.pointed || self.annotated, Release(1, 5)),
            first(types.colon_strides, Release(1, 5)),
            first(types.fields || self.unpointed, Release(1, 7)),
            first(self.minus_zero, Release(1, 8)),
            first(types.new_none, NONE_TYPE_SINCE),
            first(types.square_unions, Release(1, 10)),
        ];
        let newest = newest.into_iter().min().unwrap_or_default();
        let oldest = oldest.into_iter().max().unwrap_or(Release::OLDEST);
        Releases { oldest, newest: if oldest > newest { Release::NEWEST } else { newest } }
    }
}

/// Sets the dialect of a graph and its subgraphs, which come from the same file.
fn set_dialect(graph: &mut Graph, spelling: Spelling, releases: Releases) {
    let mut work = vec![graph];
    while let Some(graph) = work.pop() {
        graph.set_release(releases.newest);
        graph.dialect = Dialect { spelling, releases };
        work.extend(graph.subgraphs_mut());
    }
}
