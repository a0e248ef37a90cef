//! Backends of the command line that have kernels: a table.
//!
//! Each makes kernels for a [`Target`] and runs them in its own way: as compiled functions, as
//! nests that are executed, or as blocks of threads that a processor emulates, compiled or as PTX.

use crate::codegen::target::{CPU, CUDA, Target};

/// How kernels run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Engine {
    /// As functions that the system's compiler has made.
    #[default]
    Compiled,
    /// Nests are executed, statement by statement; nothing is compiled.
    Nests,
    /// The text for GPUs is compiled for the processor, which emulates blocks of threads.
    Emulated,
    /// The same, and each access of memory is checked.
    Checked,
    /// The text for GPUs is compiled by NVRTC to PTX, which is interpreted.
    Ptx,
    /// The text for GPUs is compiled by NVRTC, and a GPU runs it.
    Device,
}

/// The engines with their names, and what kernels are made for.
const ENGINES: [(Engine, &str, &Target); 6] = [
    (Engine::Compiled, "cpu", &CPU),
    (Engine::Nests, "nest", &CPU),
    (Engine::Emulated, "cuda-emulated", &CUDA),
    (Engine::Checked, "cuda-checked", &CUDA),
    (Engine::Ptx, "cuda-ptx", &CUDA),
    (Engine::Device, "cuda", &CUDA),
];

impl Engine {
    /// The engine with a name.
    pub fn named(name: &str) -> Option<Engine> {
        ENGINES.iter().find(|row| row.1 == name).map(|row| row.0)
    }

    /// All of them with their names on the command line.
    pub fn names() -> impl Iterator<Item = (&'static str, Engine)> {
        ENGINES.iter().map(|row| (row.1, row.0))
    }

    /// Its name on the command line.
    pub(crate) fn name(self) -> &'static str {
        self.row().1
    }

    /// The target of kernels.
    pub(crate) fn target(self) -> &'static Target {
        self.row().2
    }

    fn row(self) -> &'static (Engine, &'static str, &'static Target) {
        // A row for each, see the test.
        ENGINES.iter().find(|row| row.0 == self).unwrap_or(&ENGINES[0])
    }

    /// Whether blocks of threads are emulated.
    pub fn emulates(self) -> bool {
        matches!(self, Engine::Emulated | Engine::Checked | Engine::Ptx)
    }

    /// Whether a compiler is needed.
    pub(crate) fn compiles(self) -> bool {
        self != Engine::Nests
    }

    /// Whether a launch may be shared out to threads of the processor, and rows split between them.
    pub fn has_workers(self) -> bool {
        matches!(self, Engine::Compiled | Engine::Nests)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_engine_has_a_row() {
        use Engine::{Checked, Compiled, Device, Emulated, Nests, Ptx};
        for engine in [Compiled, Nests, Emulated, Checked, Ptx, Device] {
            assert_eq!(Engine::named(engine.name()), Some(engine));
        }
    }
}
