//! Launches, on one thread or several.

use super::loading::{Arguments, Away, Function, Part};
use super::thread_pool::share_out;
use crate::codegen::loop_structure::LaunchPhases;
use smallvec::SmallVec;
use std::sync::Arc;

/// Runs a launch, in shares of whole tiles where several threads are worth it. The addresses of
/// some accesses differ between shares, by `apart` bytes.
pub(super) fn shared_out(
    function: Function,
    arguments: &Arguments<'_>,
    tiles: i64,
    (threads, shares): (usize, usize),
    apart: &[(usize, usize)],
) {
    // Kernels divide by the sizes of their space.
    if tiles == 0 {
        return;
    }
    if shares == 1 {
        return launch(function, arguments, 0, tiles);
    }
    let at = move |share: usize| tiles * share as i64 / shares as i64;
    let (kept, apart): (_, SmallVec<[(usize, usize); 4]>) = (Kept::new(arguments), apart.into());
    share_out(threads, shares, move |share| {
        let mut data: SmallVec<[usize; 16]> = kept.data[..].into();
        apart.iter().for_each(|&(access, bytes)| data[access] += share * bytes);
        launch(function, &Arguments { data: &data, ..kept.arguments() }, at(share), at(share + 1));
    });
}

/// Runs a split reduction, each part on a thread of its own, phase by phase. Each part gets its
/// index, and the memory for the partial results of all parts.
pub(super) fn in_phases(function: Function, arguments: &Arguments<'_>, rows: i64, parts: usize, of: LaunchPhases) {
    let mut places = vec![0_f64; rows as usize * parts * of.slots];
    let found = places.as_mut_ptr().expose_provenance();
    let kept = Arc::new(Kept::new(arguments));
    for phase in 0..of.phases {
        let kept = kept.clone();
        share_out(parts, parts, move |part| {
            let part = Some(Part { phase, part: part as i64, parts: parts as i64, found });
            launch(function, &Arguments { part, ..kept.arguments() }, 0, rows);
        });
    }
}

/// Arguments that outlive their caller's, since threads may come too late for a launch.
struct Kept {
    shape: SmallVec<[i64; 6]>,
    kept: usize,
    strides: Vec<i64>,
    data: SmallVec<[usize; 16]>,
    floats: SmallVec<[f64; 4]>,
    integers: SmallVec<[i64; 4]>,
    stream: bool,
    away: Away,
    columns: usize,
    bounds: Vec<i64>,
}

impl Kept {
    fn new(arguments: &Arguments<'_>) -> Kept {
        let &Arguments { shape, kept, strides, data, floats, integers, stream, away, columns, bounds, .. } = arguments;
        Kept {
            shape: shape.into(),
            kept,
            strides: strides.into(),
            data: data.into(),
            floats: floats.into(),
            integers: integers.into(),
            stream,
            away,
            columns,
            bounds: bounds.into(),
        }
    }

    fn arguments(&self) -> Arguments<'_> {
        Arguments {
            shape: &self.shape,
            kept: self.kept,
            strides: &self.strides,
            data: &self.data,
            floats: &self.floats,
            integers: &self.integers,
            stream: self.stream,
            away: self.away,
            columns: self.columns,
            bounds: &self.bounds,
            part: None,
        }
    }
}

#[allow(unsafe_code, reason = "the geometry was checked for what the caller of a kernel has to guarantee")]
fn launch(function: Function, arguments: &Arguments<'_>, begin: i64, end: i64) {
    // SAFETY: `Compiled` keeps the library open. The kernel was written for the strides of this
    // geometry (its key has them), which was found for these operands or for others of their types,
    // sizes and strides. Operands are initialised memory that is held for reading, of the element
    // types that are loaded and, from their first elements on, at least as long as `reaches`, which
    // each launch checks. Results are new memory of the size of their shape, to which nothing else
    // has access, with strides without overlap. Shares are disjoint ranges of tiles, and each has
    // its own accumulators. Parts are disjoint pieces of rows, and each has its own places for
    // partial results, which others read in later phases only. Threads are done with all shares
    // before `share_out` returns, and the memory is held until then.
    unsafe { function.run(arguments, begin, end) }
}
