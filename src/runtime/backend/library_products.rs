//! Products of matrices that a library computes: cuBLAS, on a GPU.

use super::{Blas, CpuBackend, unwrapped};
use crate::interpreter::call::Outs;
use crate::interpreter::{Environment, IValue};
use crate::ir::Graph;
use crate::runtime::cuda_libraries;
use crate::runtime::destinations::Destination;
use crate::runtime::library_calls::Product;
use crate::tensor::layout;
use crate::tensor::{Precision, Tensor};

impl CpuBackend {
    /// cuBLAS on the GPU.
    fn blas(&self) -> Result<&Blas, String> {
        let open = || {
            let (device, _) = self.device()?;
            cuda_libraries::blas(self.settings.cublas.as_deref())?;
            Blas::open(device)
        };
        self.blas.get_or_init(open).as_ref().map_err(Clone::clone)
    }

    /// Runs a `library::Product`.
    pub(super) fn run_product(&self, section: &Graph, operands: &[IValue], env: &Environment) -> Result<Outs, String> {
        if env.precision == Precision::Double {
            return Err("floating-point elements are kept as doubles, which no library multiplies".to_owned());
        }
        let device = operands.iter().filter_map(IValue::tensor).next().map(Tensor::device);
        let operands: Vec<IValue> = operands.iter().map(unwrapped).collect();
        let product = Product::of(section, &operands)?;
        // A result without elements has no memory on the device: there is nothing to copy back.
        let memory = if product.is_empty() { None } else { Some(self.blas()?.run(&product)?) };
        let (shape, strides) = (product.shape.clone(), layout::contiguous(&product.shape));
        let destination = Destination::new(product.dtype, layout::numel(&shape), false);
        let result = destination.tensor(product.dtype, &(shape, strides), device.unwrap_or_default())?;
        if let Some(memory) = memory {
            result.storage().keep_elsewhere(memory, true);
            self.count(|counts| counts.products += 1);
        }
        Ok(std::iter::once(IValue::Tensor(result)).collect())
    }
}
