//! What kernels can be made for: a table of targets, one row each.
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
use super::kernel_plan::{Plan, TUNING, check, check_grid, choose, choose_grid};
use super::nest::Nest;
use super::nest::build::build;
use super::nest::verification::verify;
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
    print: fn(&str, &Nest) -> String,
    /// A unit of functions, with what they call.
    pub unit: fn(&[String]) -> String,
}

/// Processors: C for the system's compiler.
pub const CPU: Target = Target {
    name: "cpu",
    choose: |kernel, traversal| choose(kernel, traversal, &TUNING),
    check,
    print: c::function,
    unit: c_units::unit,
};

/// Blocks of threads: CUDA C.
pub const CUDA: Target =
    Target { name: "cuda", choose: choose_grid, check: check_grid, print: cuda::function, unit: cuda::unit };

/// The nests of a kernel.
#[derive(Debug, Hash)]
pub struct Nests {
    /// Its own.
    pub own: Nest,
    /// Those of launches that add up what it leaves, each with its store.
    pub totals: Vec<(usize, Nest)>,
}

/// What is printed of kernels.
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
        let mut nests = Nests { own: self.nest(kernel, traversal, plan)?, totals: Vec::new() };
        for store in summed_stores(kernel).filter(|_| plan.grid.is_some()) {
            let Some((total, traversal)) = total_kernel(kernel, store) else { continue };
            let nest = self.nest(&total, &traversal, &(self.choose)(&total, &traversal))?;
            nests.totals.push((store, nest));
        }
        Ok(nests)
    }

    /// The functions of nests.
    pub fn printed(&self, name: &str, nests: &Nests) -> String {
        let function = |(store, nest): &(usize, Nest)| format!("\n{}", (self.print)(&total_name(name, *store), nest));
        (self.print)(name, &nests.own) + &nests.totals.iter().map(function).collect::<String>()
    }

    /// The functions of a kernel.
    ///
    /// # Errors
    /// Why the target has none.
    pub fn function(&self, name: &str, kernel: &Kernel, traversal: &Traversal, plan: &Plan) -> Result<String, String> {
        self.nests(kernel, traversal, plan).map(|nests| self.printed(name, &nests))
    }
}
