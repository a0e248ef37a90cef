//! Products of matrices that are called: of cuBLAS on a GPU, of `tensor/gemm.rs` on the processor;
//! convolutions and attention, of the latter.

use super::{Blas, CpuBackend, Request, TwoParts, unwrapped};
use crate::interpreter::call::Outs;
use crate::interpreter::{Environment, IValue};
use crate::ir::{Graph, Node, Value};
use crate::outlining::{Excerpt, excerpt};
use crate::runtime::attention_calls::Attention;
use crate::runtime::convolution_calls::{Convolution, SCALING};
use crate::runtime::cpu_attention;
use crate::runtime::cpu_convolutions;
use crate::runtime::cpu_products;
use crate::runtime::cuda_libraries;
use crate::runtime::destinations::Destination;
use crate::runtime::library_calls::Product;
use crate::runtime::thread_pool::processors;
use crate::symbol::{library, prim};
use crate::tensor::layout;
use crate::tensor::{Precision, Tensor};
use std::rc::Rc;

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

    /// Runs a library call on the processor.
    pub(super) fn run_library(
        &self,
        (graph, node): (&Graph, Node),
        section: &Graph,
        operands: &[IValue],
        env: &Environment,
    ) -> Result<Outs, String> {
        if env.precision == Precision::Double {
            return Err("floating-point elements are kept as doubles, which no library computes".to_owned());
        }
        if graph.kind(node) == library::ATTENTION {
            return self.attention(section, operands).map(one);
        }
        let is_constant = |place: Option<usize>| place.is_some_and(|at| is_weight(graph, graph.input(node, at)));
        let compute = |section: &Graph, operands: &[IValue], origin: &dyn Fn(usize) -> Option<usize>| {
            let of = |place: Option<usize>| is_constant(place.and_then(origin));
            match graph.kind(node) {
                library::CONVOLUTION => self.convolution(section, operands, &of),
                _ => self.product(section, operands, &of),
            }
        };
        match compute(section, operands, &Some) {
            Ok(result) => Ok(one(result)),
            Err(why) => {
                let parts = self.parts(section).ok_or(why)?;
                let first = compute(&parts.0.section, &taken(section, &parts.0, operands), &|at| {
                    section.params(section.root()).position(|param| param == parts.0.operands[at])
                })?;
                self.rest((graph, node), section, &parts, operands, first, env)
            }
        }
    }

    fn product(
        &self,
        section: &Graph,
        operands: &[IValue],
        is_constant: &dyn Fn(Option<usize>) -> bool,
    ) -> Result<Tensor, String> {
        let product = Product::of(section, operands)?;
        let result = cpu_products::compute(&product, is_constant(product.right_operand), self.most_threads())?;
        self.count(|counts| {
            counts.products += 1;
            counts.epilogues += u64::from(!product.followers.is_empty());
        });
        Ok(result)
    }

    fn attention(&self, section: &Graph, operands: &[IValue]) -> Result<Tensor, String> {
        let attention = Attention::of(section, operands)?;
        let result = cpu_attention::compute(&attention, self.most_threads())?;
        self.count(|counts| counts.attentions += 1);
        let device = attention.query.device();
        Ok(if result.device() == device { result } else { result.on(device) })
    }

    fn convolution(
        &self,
        section: &Graph,
        operands: &[IValue],
        is_constant: &dyn Fn(Option<usize>) -> bool,
    ) -> Result<Tensor, String> {
        let convolution = Convolution::of(section, operands)?;
        let is_constant = is_constant(convolution.weight_operand);
        let result = cpu_convolutions::compute(&convolution, is_constant, self.most_threads())?;
        self.count(|counts| {
            counts.convolutions += 1;
            counts.epilogues += u64::from(!convolution.followers.is_empty());
        });
        let device = convolution.image.device();
        Ok(if result.device() == device { result } else { result.on(device) })
    }

    /// The product of a section, and what follows it, as sections of their own; kept. None where
    /// nothing follows.
    fn parts(&self, section: &Graph) -> TwoParts {
        let id = section.id().number();
        if let Some(known) = self.parts.borrow().get(&id) {
            return known.clone();
        }
        let is_given = |node: Node| [prim::CONSTANT, prim::LIST_CONSTRUCT].contains(&section.kind(node));
        let nodes: Vec<Node> = section.nodes(section.root()).filter(|&node| !is_given(node)).collect();
        // A weight is multiplied together with its convolution.
        let is_scaled = nodes.first().is_some_and(|&node| section.kind(node).as_str() == SCALING);
        let (first, others) = nodes.split_at(nodes.len().min(if is_scaled { 2 } else { 1 }));
        let has_both = !others.is_empty();
        let made = has_both.then(|| Rc::new((excerpt(section, first, is_given), excerpt(section, others, is_given))));
        self.parts.borrow_mut().insert(id, made.clone());
        made
    }

    /// Runs what follows as a kernel of its own.
    fn rest(
        &self,
        (graph, node): (&Graph, Node),
        section: &Graph,
        parts: &(Excerpt, Excerpt),
        operands: &[IValue],
        first: Tensor,
        env: &Environment,
    ) -> Result<Outs, String> {
        let result = *parts.0.results.first().ok_or("a product has no result")?;
        let value = |value: &Value| match *value == result {
            true => IValue::Tensor(first.clone()),
            false => operand(section, *value, operands),
        };
        let operands: Vec<IValue> = parts.1.operands.iter().map(value).collect();
        let release = env.release.unwrap_or(graph.release());
        let name = graph.kind(node).as_str();
        let request = Request { section: &parts.1.section, name, operands: &operands, release: (release.0, release.1) };
        let mut prepared = self.prepared(request)?;
        let launched = prepared.launch()?;
        self.note_seen(name, prepared.seen());
        self.count(|counts| counts.launched += u64::from(launched));
        prepared.results()
    }

    /// The number of threads that products and convolutions may use.
    pub(super) fn most_threads(&self) -> usize {
        self.settings.always_threads.or(self.settings.threads).unwrap_or_else(processors)
    }

    /// Runs a `library::Product` on a GPU.
    pub(super) fn run_device_product(
        &self,
        (graph, node): (&Graph, Node),
        section: &Graph,
        operands: &[IValue],
        env: &Environment,
    ) -> Result<Outs, String> {
        if env.precision == Precision::Double {
            return Err("floating-point elements are kept as doubles, which no library multiplies".to_owned());
        }
        match self.parts(section) {
            None => self.device_product(section, operands).map(one),
            Some(parts) => {
                let first = self.device_product(&parts.0.section, &taken(section, &parts.0, operands))?;
                self.rest((graph, node), section, &parts, operands, first, env)
            }
        }
    }

    fn device_product(&self, section: &Graph, operands: &[IValue]) -> Result<Tensor, String> {
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
        Ok(result)
    }
}

fn one(result: Tensor) -> Outs {
    std::iter::once(IValue::Tensor(result)).collect()
}

/// The operand of a param of a section.
fn operand(section: &Graph, value: Value, operands: &[IValue]) -> IValue {
    let place = section.params(section.root()).position(|param| param == value);
    place.and_then(|at| operands.get(at)).cloned().unwrap_or(IValue::None)
}

/// The operands of a part of a section.
fn taken(section: &Graph, part: &Excerpt, operands: &[IValue]) -> Vec<IValue> {
    part.operands.iter().map(|&value| operand(section, value, operands)).collect()
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
