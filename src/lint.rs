//! Known errors of PyTorch that affect a graph: in its passes, its fused kernels, its compiler, its
//! reader.
//!
//! ```text
//!   %y : float = aten::div(%i, %one)
//!                ^~~~~~~~~ warning: true-division-by-one: peephole makes `%y` the int `%i`: 7 instead of 7.0
//!                          note: PyTorch 1.10 to 2.15, peephole; run in 1.10.2 to 2.15.0
//!                          help: divide by 1.0
//! ```
//!
//! A row of [`LINTS`] is one error: the component, the affected releases, the source of that
//! knowledge, and the workaround. Most were run in the releases that they name; the others cite the
//! report in PyTorch's issue tracker. A finding says that the graph has the pattern, not that every
//! run of it fails: `note` gives the further conditions. An error is reported only if one of the
//! releases that print such text has it.
//!
//! A new lint is a row here and a function in the file of its kind; each has a lit file in
//! `testdata/lint/`. Linear in nodes, except for `loop-state-rotates`, which visits the body of
//! each loop once for each enclosing loop.

mod compiler;
mod finder;
mod folding;
mod gradients;
mod kernels;
mod loops;
mod speculation;

use finder::Facts;

use crate::interpreter::Release;
use crate::ir::{Graph, Releases};
use crate::verify::{Carrier, Report, Sink, carried};

/// One known error of PyTorch.
pub struct Lint {
    /// The name of the lint.
    pub name: &'static str,
    /// The error, in one line.
    pub summary: &'static str,
    /// The component of PyTorch that has the error.
    pub culprit: &'static str,
    /// The first and the last release that are known to have it.
    pub releases: (Release, Release),
    /// The source of this knowledge.
    pub source: &'static str,
    /// The workaround.
    pub workaround: &'static str,
    /// Finds occurrences in one graph, without its sections.
    pub(crate) find: fn(&Facts<'_>, &mut Sink<'_, '_>),
}

/// Names that lints had before, with the present ones.
const FORMER_NAMES: [(&str, &str); 1] = [("product-stretched", "product-broadcast")];

impl Lint {
    /// The lint of a name, present or former.
    pub fn named(name: &str) -> Option<&'static Lint> {
        let present = FORMER_NAMES.iter().find(|(former, _)| *former == name).map_or(name, |(_, present)| present);
        LINTS.iter().find(|lint| lint.name == present)
    }

    /// Whether a release is known to have this error.
    pub fn hits(&self, release: Release) -> bool {
        (self.releases.0..=self.releases.1).contains(&release)
    }

    /// Whether one of the releases that print such text has it.
    fn hits_one_of(&self, printed_by: Releases) -> bool {
        self.releases.0 <= printed_by.newest && printed_by.oldest <= self.releases.1
    }

    /// `1.13 to 2.15`
    pub fn span(&self) -> String {
        let (first, last) = self.releases;
        let shown = |release: Release| format!("{}.{}", release.0, release.1);
        if first == last { shown(first) } else { format!("{} to {}", shown(first), shown(last)) }
    }
}

/// The last release that was checked.
const LAST: Release = Release(2, 15);

/// The table.
pub const LINTS: &[Lint] = &[
    Lint {
        name: "mm-tree-alpha",
        summary: "sums of matrix products lose the factors of their terms",
        culprit: "batch_mm, which the default executors run",
        releases: (Release(1, 3), LAST),
        source: "run in 1.3.1, 1.4.0, 1.13.1 and 2.15.0",
        workaround: "multiply a term by its factor instead of giving `alpha` to the sum",
        find: kernels::mm_tree_alpha,
    },
    Lint {
        name: "true-division-by-one",
        summary: "an int divided by 1 stays an int",
        culprit: "peephole, which the default executor runs",
        releases: (Release(1, 10), LAST),
        source: "run in 1.10.2 to 2.15.0; 1.0.1 to 1.9.1 are right",
        workaround: "divide by 1.0",
        find: folding::true_division_by_one,
    },
    Lint {
        name: "nan-test-folded",
        summary: "`x != x` is false, for NaN too",
        culprit: "peephole, which the default executor runs",
        releases: (Release(1, 10), LAST),
        source: "run in 1.10.2 to 2.15.0; 1.0.1 to 1.9.1 are right",
        workaround: "use math.isnan",
        find: folding::nan_test_folded,
    },
    Lint {
        name: "shared-constant",
        summary: "a returned value is one constant for all calls: a write to it changes the next result",
        culprit: "constant_propagation, which the default executors run",
        releases: (Release(1, 0), LAST),
        source: "run in 1.0.1 to 2.15.0",
        workaround: "clone the returned value before writing to it",
        find: folding::shared_constant,
    },
    Lint {
        name: "constant-stored",
        summary: "a stored list, dict or tensor is one object for all calls: additions are visible in the next call",
        culprit: "constant_propagation, which the default executors run",
        releases: (Release(1, 3), LAST),
        source: "pytorch/pytorch#106128; run in 1.3.1, 1.13.1 and 2.15.0",
        workaround: "store a copy, `list(x)` or `x.clone()`, or compute it from an argument",
        find: folding::constant_stored,
    },
    Lint {
        name: "random-folded",
        summary: "random numbers are drawn once, when the graph is compiled",
        culprit: "constant_propagation",
        releases: (Release(1, 3), Release(1, 3)),
        source: "run in 1.3.1",
        workaround: "torch.randn(sizes) * std + mean",
        find: folding::random_folded,
    },
    Lint {
        name: "product-broadcast",
        summary: "a sum that broadcasts a matrix product becomes an addmm that fails",
        culprit: "fuse_addmm; the default executor decomposes the addmm again, others run it",
        releases: (LAST, LAST),
        source: "run in 2.15.0, without optimisation",
        workaround: "expand the product before the sum",
        find: folding::product_broadcast,
    },
    Lint {
        name: "loop-state-rotates",
        summary: "the alias analysis misses some writes in a loop",
        culprit: "the alias analysis: constant_propagation, constant_pooling and cse trust it",
        releases: (Release(1, 11), LAST),
        source: "pytorch/pytorch#75794; run in 2.15.0",
        workaround: "make a new tensor instead of writing in place",
        find: loops::loop_state_rotates,
    },
    Lint {
        name: "negative-trip-count",
        summary: "a loop that never runs is unrolled without end",
        culprit: "loop_unrolling and constant_loop_unrolling, run alone",
        releases: (LAST, LAST),
        source: "run in 2.15.0",
        workaround: "run constant_propagation first, or drop the loop",
        find: loops::negative_trip_count,
    },
    Lint {
        name: "kernel-shares-constants",
        summary: "two kernels whose constants differ only in the seventh digit are treated as one",
        culprit: "the cache of the fuser, whose keys hold six digits",
        releases: (Release(1, 3), Release(1, 4)),
        source: "run in 1.3.1 and 1.4.0",
        workaround: "pass the constant as a tensor",
        find: kernels::kernel_shares_constants,
    },
    Lint {
        name: "kernel-rounds-otherwise",
        summary: "an operator has different results in a fused kernel and outside",
        culprit: "the formulas of the legacy fuser",
        releases: (Release(1, 3), LAST),
        source: "run in 1.3.1; round, fmod and remainder in 2.15.0 as well",
        workaround: "torch._C._jit_override_can_fuse_on_cpu(False), or another operator",
        find: kernels::kernel_rounds_otherwise,
    },
    Lint {
        name: "constant-in-kernel",
        summary: "the second run crashes: a kernel for any shape has no shape for a tensor constant",
        culprit: "the TensorExpr fuser",
        releases: (Release(1, 10), Release(2, 0)),
        source: "ultralytics/ultralytics#26264",
        workaround: "torch._C._jit_set_texpr_fuser_enabled(False), or make the constant a buffer that is an argument",
        find: kernels::constant_in_kernel,
    },
    Lint {
        name: "number-promotes",
        summary: "a zero-dimensional result promotes the element type of a tensor with dimensions",
        culprit: "nvFuser, whose kernels do not track that an intermediate tensor is zero-dimensional",
        releases: (Release(1, 8), Release(1, 11)),
        source: "csarofeen/pytorch#1437, and the fix pytorch/pytorch#76343",
        workaround: "x.to(z.dtype) before the operation, or torch._C._jit_set_nvfuser_enabled(False)",
        find: kernels::number_promotes,
    },
    Lint {
        name: "gradient-at-tie",
        summary: "where operands are equal or at a bound, the gradient differs from eager mode",
        culprit: "symbolic differentiation",
        releases: (Release(1, 3), LAST),
        source: "run in 1.3.1, 1.13.1 and 2.15.0",
        workaround: "run training under torch.jit.optimized_execution(False)",
        find: gradients::gradient_at_tie,
    },
    Lint {
        name: "gradient-summed",
        summary: "the gradient of `x - x.mean(dim, keepdim=True)` is summed to the size of the mean, or has its shape",
        culprit: "fused kernels on CUDA, from the third call of a graph that is differentiated; the CPU is right",
        releases: (Release(2, 0), LAST),
        source: "pytorch/pytorch#108670, a handwritten layer norm",
        workaround: "torch._C._jit_set_texpr_fuser_enabled(False), or torch.nn.functional.layer_norm",
        find: gradients::gradient_summed,
    },
    Lint {
        name: "sum-past-add",
        summary: "gradients of broadcast operands are summed twice",
        culprit: "the fuser, which moves sums after additions",
        releases: (Release(1, 0), Release(1, 2)),
        source: "pytorch/pytorch#22833; run in 1.1.0",
        workaround: "upgrade to 1.3",
        find: gradients::sum_past_add,
    },
    Lint {
        name: "unsigned-subtraction",
        summary: "`number - x` is computed as `-x + number`, which wraps for uint8",
        culprit: "the compiler's rsub",
        releases: (Release(1, 3), LAST),
        source: "pytorch/pytorch#49336; run in 2.15.0",
        workaround: "-(x - number), or x.float() first",
        find: compiler::unsigned_subtraction,
    },
    Lint {
        name: "modulo-in-place",
        summary: "`x %= y` has the sign of x, `x = x % y` that of y",
        culprit: "the compiler: `%=` becomes fmod_",
        releases: (Release(1, 6), LAST),
        source: "pytorch/pytorch#133847; run in 1.6.0 to 2.15.0, 1.5.1 rejects it",
        workaround: "x = x % y",
        find: compiler::modulo_in_place,
    },
    Lint {
        name: "write-through-view-lost",
        summary: "a write through a view is lost",
        culprit: "remove_inplace_ops, which exporters run: the write becomes a new tensor that is never read",
        releases: (Release(1, 3), LAST),
        source: "pytorch/pytorch#69989; run in 1.3.1 and 2.15.0",
        workaround: "torch.index_put, torch.where or torch.cat instead of assigning to a part",
        find: compiler::write_through_view_lost,
    },
    Lint {
        name: "sections-dropped",
        summary: "PyTorch's reader silently drops sections, and everything after the first graph",
        culprit: "torch._C.parse_ir",
        releases: (Release(1, 1), LAST),
        source: "run in 1.1.0 to 2.15.0",
        workaround: "do not pass this text to parse_ir; jitopt reads it completely",
        find: speculation::sections_dropped,
    },
    Lint {
        name: "guard-without-strides",
        summary: "guards of a printed graph are never eliminated: their types lost the strides",
        culprit: "the printer and guard_elimination",
        releases: (Release(1, 3), Release(1, 3)),
        source: "run in 1.3.1",
        workaround: "eliminate guards in the process that profiled, before printing",
        find: speculation::guard_without_strides,
    },
];

/// The findings in a graph and its sections, with their lints.
#[derive(Default)]
pub struct Findings {
    /// For [`crate::verify::render`], which draws it.
    pub report: Report,
    /// The lint of each finding of the report.
    pub lints: Vec<&'static Lint>,
}

/// Applies these lints to a graph and its sections, in printed order of the sections.
pub fn lint(graph: &Graph, lints: &[&'static Lint]) -> Findings {
    let mut findings = Findings::default();
    let mut pending = vec![(graph, None, None)];
    while let Some((graph, carrier, kind)) = pending.pop() {
        let section = findings.report.open_section(carrier);
        let facts = Facts::new(graph, kind);
        for lint in lints.iter().filter(|lint| lint.hits_one_of(graph.dialect.releases)) {
            let mut sink = findings.report.sink(graph, section);
            let before = sink.count();
            (lint.find)(&facts, &mut sink);
            finder::label(&mut findings.report, before, lint);
            findings.lints.resize(findings.report.findings.len(), lint);
        }
        let carriers: Vec<_> = graph.all_nodes().filter(|&node| graph.subgraph(node).is_some()).collect();
        let kind = |carrier: Option<Carrier>| carrier.map(|carrier| graph.kind(carrier.node));
        let inner = carried(graph, section, carriers).into_iter().rev();
        pending.extend(inner.map(|(inner, carrier)| (inner, carrier, kind(carrier))));
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn every_lint_has_a_lit_file_and_a_name_of_its_own() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/lint");
        for (i, lint) in LINTS.iter().enumerate() {
            let file = folder.join(lint.name.replace('-', "_") + ".ir");
            let text = std::fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
            assert!(text.contains(&format!("{}: ", lint.name)), "{}: nothing checks a finding", file.display());
            assert!(LINTS[..i].iter().all(|other| other.name != lint.name), "{}", lint.name);
            assert!(lint.releases.0 <= lint.releases.1, "{}", lint.name);
        }
    }
}
