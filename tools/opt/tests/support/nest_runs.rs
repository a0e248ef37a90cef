//! Runs a graph on compiled kernels and on executed nests, and compares the bits.

use jitopt_core::interpreter::{Environment, IValue, Machine};
use jitopt_core::ir::Graph;
use jitopt_core::runtime::{CpuBackend, Engine, Settings};

/// A backend that executes nests. Rows have as many parts as those of compiled kernels.
pub(crate) fn executor(always_threads: Option<usize>) -> CpuBackend {
    let threads = std::thread::available_parallelism().ok().map(|n| n.get());
    CpuBackend::new(Settings { engine: Engine::Nests, guarded: true, threads, always_threads, ..Settings::default() })
}

/// Whether a nest ran.
///
/// # Errors
/// The element in which compiled kernels and nests differ.
pub(crate) fn same_bits(
    graph: &Graph,
    inputs: &[IValue],
    compiled: &CpuBackend,
    nests: &CpuBackend,
) -> Result<bool, String> {
    let nests_before = nests.counts();
    let env = Environment::default();
    let run = |backend: &CpuBackend| Machine::new(graph, &env).backed_by(backend).run(inputs.to_vec()).ok();
    let (before, by_nests) = (compiled.counts().launched, run(nests));
    let by_kernels = run(compiled);
    let (Some(by_nests), Some(by_kernels)) = (by_nests, by_kernels) else { return Ok(false) };
    let (launched, fallen_back) = (nests.counts().launched, nests.counts().fallen_back);
    if launched == nests_before.launched
        || fallen_back > nests_before.fallen_back
        || compiled.counts().launched == before
    {
        return Ok(false);
    }
    for (k, (nest, kernel)) in by_nests.iter().zip(&by_kernels).enumerate() {
        let (Some(nest), Some(kernel)) = (nest.tensor(), kernel.tensor()) else { continue };
        let (nest, kernel) = (nest.read::<f64>(), kernel.read::<f64>());
        let differs =
            |i: &usize| nest[*i].to_bits() != kernel[*i].to_bits() && !(nest[*i].is_nan() && kernel[*i].is_nan());
        if let Some(i) = (0..nest.len()).find(differs) {
            let (nest, kernel) = (nest[i], kernel[i]);
            return Err(format!("result {k}, element {i}: the executed nest gives {nest:?}, the kernel {kernel:?}"));
        }
    }
    Ok(true)
}
