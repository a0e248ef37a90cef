//! Runs a graph on compiled kernels and on executed nests, and compares the bits.

use jitopt_core::interpreter::{Environment, IValue, Machine};
use jitopt_core::ir::Graph;
use jitopt_core::runtime::{CpuBackend, Settings};

/// Whether a nest ran.
///
/// # Errors
/// The element in which compiled kernels and nests differ.
pub(crate) fn same_bits(graph: &Graph, inputs: &[IValue], compiled: &CpuBackend) -> Result<bool, String> {
    let nests = CpuBackend::new(Settings { executes_nests: true, guarded: true, ..Settings::default() });
    let env = Environment::default();
    let run = |backend: &CpuBackend| Machine::new(graph, &env).backed_by(backend).run(inputs.to_vec()).ok();
    let (before, by_nests) = (compiled.counts().launched, run(&nests));
    let by_kernels = run(compiled);
    let (Some(by_nests), Some(by_kernels)) = (by_nests, by_kernels) else { return Ok(false) };
    if nests.counts().launched == 0 || nests.counts().fallen_back > 0 || compiled.counts().launched == before {
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
