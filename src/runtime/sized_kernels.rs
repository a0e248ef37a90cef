//! The kernels of a graph with the sizes that the types of operands give: what predictions and
//! searches of plans are about. Nothing runs.

use crate::analysis::inference::{contiguous, number};
use crate::codegen::cost_model::{Extents, Model};
use crate::codegen::devices::Device;
use crate::codegen::geometry::{Geometry, View, settle};
use crate::codegen::kernel::{Direction, Kernel, Traversal};
use crate::codegen::lowering::{arguments_of_types, lower};
use crate::codegen::nest::Nest;
use crate::codegen::whole_graph::outputs;
use crate::interpreter::Release;
use crate::ir::{Graph, Node, Value};
use crate::symbol::prim;
use crate::tensor::DType;
use crate::types::Strides;
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};

/// A kernel, and the sizes of its operands.
#[derive(Clone, Debug)]
pub struct SizedKernel {
    /// The results of its group, as plans name it.
    pub outputs: String,
    /// The kernel.
    pub kernel: Kernel,
    /// The layout of its operands.
    pub traversal: Traversal,
    /// Its sizes.
    pub extents: Extents,
}

/// The kernels of a graph, and the groups that have none, or whose sizes are unknown.
#[derive(Clone, Debug, Default)]
pub struct SizedKernels {
    /// The kernels.
    pub kernels: Vec<SizedKernel>,
    /// Results of other groups, with the reason.
    pub refused: Vec<(String, NoKernel)>,
}

/// Why a group has no kernel of known sizes.
#[derive(Clone, Debug)]
pub enum NoKernel {
    /// The types of the graph do not show the sizes of this operand.
    Unsized(String),
    /// No kernel computes it, for this reason.
    Refused(String),
}

impl fmt::Display for NoKernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NoKernel::Unsized(operand) => write!(f, "the sizes of %{operand} are not known"),
            NoKernel::Refused(why) => f.write_str(why),
        }
    }
}

impl SizedKernel {
    /// The kernel on a machine.
    pub fn model<'k>(&'k self, device: &'k Device) -> Model<'k> {
        let SizedKernel { kernel, traversal, extents, .. } = self;
        Model { kernel, traversal, extents, device, wide: None }
    }

    /// A hash of its loops and sizes, not of the names of its values.
    pub fn identity(&self, nest: &Nest) -> u64 {
        let mut state = DefaultHasher::new();
        let Extents { rows, inner, count, pieces, elements, .. } = &self.extents;
        [*rows, *inner, *count, *pieces].iter().chain(elements).for_each(|size| size.to_bits().hash(&mut state));
        nest.hash(&mut state);
        state.finish()
    }

    /// Its sizes, for people.
    pub fn sizes(&self) -> String {
        let Extents { rows, inner, count, .. } = self.extents;
        match self.traversal.direction {
            Direction::Points => format!("{} points", rows * inner),
            Direction::Outer => format!("{} rows of {count}", rows * inner),
            _ => format!("{rows} rows of {count}"),
        }
    }
}

/// The kernels of the groups in a graph and in the graphs in it.
pub fn sized_kernels(graph: &Graph, release: Option<Release>) -> SizedKernels {
    let release = release.unwrap_or(graph.release());
    let mut found = SizedKernels::default();
    let mut waiting = vec![graph];
    while let Some(graph) = waiting.pop() {
        for node in graph.all_nodes() {
            let Some(section) = graph.subgraph(node) else { continue };
            if graph.kind(node) != prim::FUSION_GROUP {
                waiting.push(section);
                continue;
            }
            match sized((graph, node), section, release) {
                Ok(kernel) => found.kernels.push(kernel),
                Err(why) => found.refused.push((outputs(graph, node), why)),
            }
        }
    }
    found
}

fn sized((graph, node): (&Graph, Node), section: &Graph, release: Release) -> Result<SizedKernel, NoKernel> {
    let (arguments, _) = arguments_of_types(section, DType::Float);
    let name = format!("prim::{}", graph.kind(node).short());
    let kernel =
        lower(section, &name, &arguments, (release.0, release.1)).map_err(|refusal| NoKernel::Refused(refusal.why))?;
    let params: Vec<Value> = section.params(section.root()).collect();
    let operands: Vec<Option<View>> = graph.inputs(node).map(|value| view(graph, value)).collect();
    let is_tensor = |at: usize| params.get(at).is_some_and(|&param| section.ty(param).as_tensor().is_some());
    let unknown = graph.inputs(node).enumerate().find(|&(at, _)| is_tensor(at) && operands[at].is_none());
    if let Some((_, value)) = unknown {
        return Err(NoKernel::Unsized(graph.name(value)));
    }
    let geometry = settle(&kernel, &operands).map_err(NoKernel::Refused)?;
    let (extents, traversal) = (extents(&geometry, &kernel), geometry.traversal);
    Ok(SizedKernel { outputs: outputs(graph, node), kernel, traversal, extents })
}

/// A tensor of the sizes and strides that the type of a value gives, contiguous where it gives
/// none.
fn view(graph: &Graph, value: Value) -> Option<View> {
    let tensor = graph.ty(value).as_tensor()?;
    let sizes = tensor.sizes.as_ref()?;
    let strides = match &tensor.strides {
        Strides::Known(strides) => strides.to_vec(),
        _ => contiguous(sizes)?,
    };
    let shape = sizes.iter().map(|&dim| number(dim)).collect::<Option<_>>()?;
    Some(View { shape, strides: strides.into_iter().collect(), offset: 0 })
}

/// The sizes of a launch.
fn extents(geometry: &Geometry, kernel: &Kernel) -> Extents {
    let product = |dims: &[i64]| dims.iter().product::<i64>() as f64;
    let (outer, last) = geometry.shape.split_at(geometry.shape.len() - 1);
    let reduced = match geometry.traversal.direction {
        Direction::Points => &[],
        Direction::Outer => &outer[geometry.kept..],
        _ => &geometry.shape[geometry.kept..],
    };
    let width = reduced.last().map_or(1.0, |&n| n as f64);
    Extents {
        rows: product(&geometry.shape[..geometry.kept]),
        inner: product(last),
        count: product(reduced),
        pieces: product(reduced) / width.max(1.0),
        elements: (0..kernel.accesses()).map(|access| geometry.elements(access) as f64).collect(),
        dims: geometry.shape.len(),
    }
}
