//! Products of matrices that are called: of cuBLAS on a GPU, of `tensor/gemm.rs` on the processor.

use super::{Blas, CpuBackend, unwrapped};
use crate::interpreter::call::Outs;
use crate::interpreter::{Environment, IValue};
use crate::ir::{Graph, Node, Value};
use crate::runtime::cpu_products;
use crate::runtime::cuda_libraries;
use crate::runtime::destinations::Destination;
use crate::runtime::library_calls::Product;
use crate::runtime::thread_pool::processors;
use crate::symbol::prim;
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

    /// Runs a `library::Product` on the processor.
    pub(super) fn run_product(
        &self,
        (graph, node): (&Graph, Node),
        section: &Graph,
        operands: &[IValue],
        env: &Environment,
    ) -> Result<Outs, String> {
        if env.precision == Precision::Double {
            return Err("floating-point elements are kept as doubles, which no library multiplies".to_owned());
        }
        let product = Product::of(section, operands)?;
        let right = product.right_operand.map(|at| graph.input(node, at));
        let is_constant = right.is_some_and(|value| is_weight(graph, value));
        let threads = self.settings.always_threads.or(self.settings.threads).unwrap_or_else(processors);
        let result = cpu_products::compute(&product, is_constant, threads)?;
        self.count(|counts| counts.products += 1);
        Ok(std::iter::once(IValue::Tensor(result)).collect())
    }

    /// Runs a `library::Product` on a GPU.
    pub(super) fn run_device_product(
        &self,
        section: &Graph,
        operands: &[IValue],
        env: &Environment,
    ) -> Result<Outs, String> {
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

/// Views that show the same elements in each run.
const VIEWS: [&str; 5] = ["aten::t", "aten::transpose", "aten::permute", "aten::detach", "aten::numpy_T"];

/// Whether a value is the same tensor in each run: a constant, an attribute, or a view of one.
/// Whether it has been written is seen when it is read.
fn is_weight(graph: &Graph, mut value: Value) -> bool {
    loop {
        let Some(definer) = graph.definer(value) else { return false };
        match graph.kind(definer) {
            prim::CONSTANT | prim::GET_ATTR => return true,
            kind if VIEWS.contains(&kind.as_str()) => value = graph.input(definer, 0),
            _ => return false,
        }
    }
}
