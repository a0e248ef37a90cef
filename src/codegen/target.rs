//! The targets of kernels: a table with one row each.
//!
//! A row has the functions that differ: which plan is chosen, which plans are legal, how a function
//! and a unit are printed. All else (groups, kernels, plans as text, nests and their verification,
//! geometry, launch plans) knows no target. It is a table and not a trait because a target has no
//! state: `--emit` and `--backend` pick a row by its name, and a new target is a new row.
//!
//! ```text
//! Kernel ─> choose ─> Plan ─> build ─> Nest ─> verify ─> function ─> unit
//! ```

use super::column_totals::{summed_stores, total_kernel, total_name};
use super::kernel::{Kernel, Traversal};
use super::kernel_plan::{
    Plan, TUNING, Wide, check, check_grid, choose, choose_grid, split_phases, wide_functions, wide_of_parts,
};
use super::nest::build::{build, build_split, build_squares, build_wide};
use super::nest::verification::verify;
use super::nest::{Nest, Split};
use super::text_lines::SourceText;
use super::{c, c_units, cuda};

/// A target.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Its name on the command line.
    pub name: &'static str,
    /// The plan that heuristics choose.
    pub choose: fn(&Kernel, &Traversal) -> Plan,
    /// Whether a plan is legal, or why not.
    pub check: fn(&Kernel, &Traversal, &Plan) -> Result<(), String>,
    /// Prints the function of a nest.
    print: fn(&str, &Nest) -> SourceText,
    /// A unit of functions, with what they call.
    pub unit: fn(&[SourceText]) -> SourceText,
}

/// Processors: C for the system's compiler.
pub(crate) const CPU: Target = Target {
    name: "cpu",
    choose: |kernel, traversal| choose(kernel, traversal, &TUNING),
    check,
    print: c::function,
    unit: c_units::unit,
};

/// Blocks of threads: CUDA C.
pub(crate) const CUDA: Target =
    Target { name: "cuda", choose: choose_grid, check: check_grid, print: cuda::function, unit: cuda::unit };

/// The nests of a kernel.
#[derive(Debug, Hash)]
pub struct Nests {
    /// Its own.
    pub own: Nest,
    /// Those for contiguous elements.
    pub wide: Vec<(Wide, Nest)>,
    /// That of squares of points.
    pub squares: Option<Nest>,
    /// Those of split reductions, by phase; nothing if rows are not split.
    pub split: Vec<SplitNests>,
    /// Those of launches that add up what it leaves, each with its store.
    pub totals: Vec<(usize, Nest)>,
}

/// The nests of a phase of split reductions.
#[derive(Debug, Hash)]
pub struct SplitNests {
    /// The nest of parts of rows.
    pub parts: Nest,
    /// The same for contiguous elements.
    pub wide: Option<(Wide, Nest)>,
    /// The nest that merges them, if the phase reduces.
    pub merge: Option<Nest>,
}

/// The names of the functions of a phase of split reductions: of parts, of contiguous elements, and
/// of the merge.
pub(crate) fn split_names(name: &str, phase: usize) -> [String; 3] {
    let number = if phase > 0 { phase.to_string() } else { String::new() };
    ["parts", "wide_parts", "merge"].map(|word| format!("{name}_{word}{number}"))
}

/// The name of a function for contiguous elements, by its number.
pub(crate) fn wide_name(name: &str, number: usize) -> String {
    format!("{name}_wide{number}")
}

/// The name of a function for squares of points.
pub(crate) fn squares_name(name: &str) -> String {
    format!("{name}_squares")
}

/// The printed form of kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// How each is scheduled.
    Plan,
    /// Its loops.
    Nest,
    /// Its source.
    Source,
}

/// The forms of `--emit` that are about kernels.
const FORMS: [(&str, &Target, Stage); 6] = [
    ("c", &CPU, Stage::Source),
    ("nest", &CPU, Stage::Nest),
    ("plan", &CPU, Stage::Plan),
    ("cuda", &CUDA, Stage::Source),
    ("cuda-nest", &CUDA, Stage::Nest),
    ("cuda-plan", &CUDA, Stage::Plan),
];

/// The target and the stage that a form of `--emit` is about.
pub fn form(name: &str) -> Option<(&'static Target, Stage)> {
    FORMS.iter().find(|row| row.0 == name).map(|row| (row.1, row.2))
}

impl SplitNests {
    /// They, with their names.
    fn named(&self, name: &str, phase: usize) -> impl Iterator<Item = (String, &Nest)> {
        let [parts, wide, merge] = split_names(name, phase);
        let wide = self.wide.as_ref().map(|(_, nest)| (wide, nest));
        std::iter::once((parts, &self.parts)).chain(wide).chain(self.merge.as_ref().map(|nest| (merge, nest)))
    }
}

impl Nests {
    /// All of them with their names, if that of the first is this.
    fn named(&self, name: &str) -> impl Iterator<Item = (String, &Nest)> {
        let wide = self.wide.iter().enumerate().map(|(number, (_, nest))| (wide_name(name, number), nest));
        let squares = self.squares.iter().map(|nest| (squares_name(name), nest));
        let split = self.split.iter().enumerate().flat_map(|(phase, split)| split.named(name, phase));
        let totals = self.totals.iter().map(|(store, nest)| (total_name(name, *store), nest));
        std::iter::once((name.to_owned(), &self.own)).chain(wide).chain(squares).chain(split).chain(totals)
    }

    /// Whether one of them converts real numbers to integers.
    pub(crate) fn truncates(&self) -> bool {
        self.named("").any(|(_, nest)| nest.truncates())
    }

    /// The names of their functions.
    pub(crate) fn names(&self, name: &str) -> Vec<String> {
        self.named(name).map(|(name, _)| name).collect()
    }
}

impl Target {
    /// The target with a name.
    pub fn named(name: &str) -> Option<&'static Target> {
        FORMS.iter().map(|row| row.1).find(|target| target.name == name)
    }

    /// The nest of a kernel. One with threads that wait for each other is verified each time, those
    /// of processors in tests.
    ///
    /// # Errors
    /// Why the target has none.
    pub fn nest(&self, kernel: &Kernel, traversal: &Traversal, plan: &Plan) -> Result<Nest, String> {
        let nest = build(kernel, traversal, plan)?;
        if nest.threads.is_some() {
            verify(&nest).map_err(|why| format!("its nest is wrong: {why}"))?;
        }
        Ok(nest)
    }

    /// The nest of a kernel, and those of launches that add up what it leaves.
    ///
    /// # Errors
    /// Why the target has none.
    pub fn nests(&self, kernel: &Kernel, traversal: &Traversal, plan: &Plan) -> Result<Nests, String> {
        let own = self.nest(kernel, traversal, plan)?;
        let (wide, split) = (self.wide(kernel, traversal, plan)?, self.split(kernel, traversal, plan)?);
        let squares = self.squares(kernel, traversal, plan)?;
        let mut nests = Nests { own, wide, squares, split, totals: Vec::new() };
        for store in summed_stores(kernel).filter(|_| plan.grid.is_some()) {
            let Some((total, traversal)) = total_kernel(kernel, store) else { continue };
            let nest = self.nest(&total, &traversal, &(self.choose)(&total, &traversal))?;
            nests.totals.push((store, nest));
        }
        Ok(nests)
    }

    /// The nests for contiguous elements.
    fn wide(&self, kernel: &Kernel, traversal: &Traversal, plan: &Plan) -> Result<Vec<(Wide, Nest)>, String> {
        let Some(grid) = plan.grid.filter(|grid| grid.wide) else { return Ok(Vec::new()) };
        let nest = |wide: Wide| {
            let Some((wide, nest)) = build_wide(kernel, traversal, plan, wide)? else { return Ok(None) };
            verify(&nest).map_err(|why| format!("its nest for contiguous elements is wrong: {why}"))?;
            Ok(Some((wide, nest)))
        };
        wide_functions(kernel, traversal, grid).into_iter().filter_map(|wide| nest(wide).transpose()).collect()
    }

    /// The nest of squares of points.
    fn squares(&self, kernel: &Kernel, traversal: &Traversal, plan: &Plan) -> Result<Option<Nest>, String> {
        if !plan.grid.is_some_and(|grid| grid.squares) {
            return Ok(None);
        }
        let nest = build_squares(kernel, traversal, plan)?;
        verify(&nest).map_err(|why| format!("its nest for squares of points is wrong: {why}"))?;
        Ok(Some(nest))
    }

    /// The nests of split reductions.
    fn split(&self, kernel: &Kernel, traversal: &Traversal, plan: &Plan) -> Result<Vec<SplitNests>, String> {
        let Some(grid) = plan.grid.filter(|grid| grid.split) else { return Ok(Vec::new()) };
        let nest = |phase: usize, which: Split, wide: Option<Wide>| {
            let nest = build_split(kernel, traversal, plan, (which, phase, wide))?;
            verify(&nest).map_err(|why| format!("its nest for parts of rows is wrong: {why}"))?;
            Ok::<Nest, String>(nest)
        };
        let wide = wide_of_parts(kernel, traversal, grid);
        let phases = split_phases(kernel, traversal);
        let of_phase = |(phase, reduces): (usize, bool)| {
            let wide = wide.map(|wide| Ok::<_, String>((wide, nest(phase, Split::Parts, Some(wide))?))).transpose()?;
            let merge = reduces.then(|| nest(phase, Split::Merge, None)).transpose()?;
            Ok::<SplitNests, String>(SplitNests { parts: nest(phase, Split::Parts, None)?, wide, merge })
        };
        phases.into_iter().enumerate().map(of_phase).collect()
    }

    /// The functions of nests, with their names.
    pub fn functions(&self, name: &str, nests: &Nests) -> Vec<(String, SourceText)> {
        let function = |(name, nest): (String, &Nest)| {
            let text = (self.print)(&name, nest);
            (name, text)
        };
        nests.named(name).map(function).collect()
    }

    /// The text of the functions of nests.
    pub(crate) fn printed(&self, name: &str, nests: &Nests) -> SourceText {
        let mut all = SourceText::default();
        for (at, (_, function)) in self.functions(name, nests).iter().enumerate() {
            all.push(if at == 0 { "" } else { "\n" });
            all.append(function);
        }
        all
    }

    /// The functions of a kernel.
    ///
    /// # Errors
    /// Why the target has none.
    pub(crate) fn function(
        &self,
        name: &str,
        kernel: &Kernel,
        traversal: &Traversal,
        plan: &Plan,
    ) -> Result<SourceText, String> {
        self.nests(kernel, traversal, plan).map(|nests| self.printed(name, &nests))
    }
}
