//! The kernels of a graph with the sizes that the types of operands give: what predictions and
//! searches of plans are about. Nothing runs.

use super::device_launch::DeviceLaunch;
use super::emulated_launch::Operands;
use super::square_launch::by_squares;
use super::wide_launch::can_take;
use crate::analysis::inference::{contiguous, number};
use crate::codegen::cost_model::{Extents, Model};
use crate::codegen::devices::Device;
use crate::codegen::geometry::{Geometry, View, settle};
use crate::codegen::kernel::{Direction, Kernel, Traversal};
use crate::codegen::kernel_plan::WIDEST;
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
    // A launch that a device refuses takes neither.
    let data = vec![(0, 0); kernel.accesses()];
    let launch = Operands { data: &data, starts: &[], floats: &[], integers: &[] }.launch(geometry).ok();
    let width = reduced.last().map_or(1.0, |&n| n as f64);
    Extents {
        rows: product(&geometry.shape[..geometry.kept]),
        inner: product(last),
        count: product(reduced),
        pieces: product(reduced) / width.max(1.0),
        elements: (0..kernel.accesses()).map(|access| geometry.elements(access) as f64).collect(),
        dims: geometry.shape.len(),
        at_once: launch.as_ref().map_or(1, |launch| elements_at_once((kernel, geometry), launch)),
        squares: launch.as_ref().and_then(|launch| squares_of(kernel, geometry, launch)).unwrap_or(0.0),
        parts: 1.0,
    }
}

/// The elements that a thread can take at once, where operands begin at aligned addresses.
fn elements_at_once(of: (&Kernel, &Geometry), launch: &DeviceLaunch) -> usize {
    let starts = vec![0; of.0.accesses()];
    std::iter::successors(Some(WIDEST), |lanes| Some(lanes / 2))
        .find(|&lanes| lanes == 1 || can_take(of, launch, &starts, lanes))
        .unwrap_or(1)
}

/// The squares of points that a launch takes, if it takes any.
fn squares_of(kernel: &Kernel, geometry: &Geometry, launch: &DeviceLaunch) -> Option<f64> {
    let has_points = geometry.traversal.direction == Direction::Points;
    let mut launch = launch.clone();
    (has_points && by_squares(kernel, &geometry.traversal, &mut launch)).then(|| f64::from(launch.rows))
}

#[cfg(test)]
mod tests {
    use super::super::wide_launch::{Chosen, functions_of, split_functions_of};
    use super::*;
    use crate::codegen::cost_model::Open;
    use crate::codegen::kernel_plan::Plan;
    use crate::codegen::target::CUDA;
    use crate::codegen::whole_graph::kernels;
    use crate::text::{ParseOptions, parse};

    /// The kernel of a group with these statements, over two operands.
    fn kernel(statements: &str) -> Kernel {
        let text = format!(
            "graph(%a : Float(*, *), %b : Float(*, *)):
  %y : Tensor = prim::FusionGroup_0(%a, %b)
  return (%y)
with prim::FusionGroup_0 = graph(%x : Float(*, *), %t : Float(*, *)):
  %one : int = prim::Constant[value=1]()
  %zero : int = prim::Constant[value=0]()
  %none : None = prim::Constant()
  %no : bool = prim::Constant[value=0]()
  %rows : int[] = prim::Constant[value=[0]]()
  %columns : int[] = prim::Constant[value=[1]]()
  %s : Tensor = aten::add(%x, %t, %one)
  {statements}
  return (%y)
"
        );
        let graph = parse(text.as_bytes(), ParseOptions::default()).expect("a graph").graph;
        kernels(&graph, None, &CUDA).planned.remove(0).kernel
    }

    /// What the names of the functions end with that the runtime launches, and those that the model
    /// expects.
    fn launched(statements: &str, shape: [i64; 2], strides: [i64; 2]) -> (Vec<String>, Vec<String>) {
        let kernel = kernel(statements);
        let view = |strides: [i64; 2]| {
            Some(View { shape: shape.into_iter().collect(), strides: strides.into_iter().collect(), offset: 0 })
        };
        let geometry = settle(&kernel, &[view([shape[1], 1]), view(strides)]).expect("a space");
        let plan: Plan = (CUDA.choose)(&kernel, &geometry.traversal);
        let nests = CUDA.nests(&kernel, &geometry.traversal, &plan).expect("nests");
        let (names, grid) = (nests.names(""), plan.grid.expect("a grid"));
        let find = |name: &str| names.iter().position(|one| one == name).ok_or_else(|| name.to_owned());
        let data = vec![(0, 0); kernel.accesses()];
        let operands = Operands { data: &data, starts: &[], floats: &[], integers: &[] };
        let (mut launch, starts) = (operands.launch(&geometry).expect("a launch"), vec![0; kernel.accesses()]);
        let split = split_functions_of("", &nests, find).expect("functions");
        let of = (&kernel, &geometry);
        let taken = match split.and_then(|split| split.chosen(grid, of, &mut launch, &starts)) {
            Some(split) => {
                let of_phase =
                    |(parts, merge): (Chosen<usize>, Option<usize>)| std::iter::once(parts.function).chain(merge);
                split.phases.into_iter().flat_map(of_phase).collect()
            }
            None => {
                let functions = functions_of("", &nests, find).expect("functions");
                vec![functions.chosen(grid, of, &mut launch, &starts).function]
            }
        };
        let extents = extents(&geometry, &kernel);
        let device = Device::named("h100").expect("a device");
        let model = Model { kernel: &kernel, traversal: &geometry.traversal, extents: &extents, device, wide: None };
        let expected = model.launched(&plan, Open::default()).expect("loops").functions;
        (taken.into_iter().map(|at| names[at].clone()).collect(), expected)
    }

    /// Statements, the shape, the strides of the second operand, and the functions of a launch.
    type Case<'a> = (&'a str, [i64; 2], [i64; 2], &'a [&'a str]);

    #[test]
    fn models_know_the_functions_of_launches() {
        let points = "%y : Tensor = aten::relu(%s)";
        let sum = "%y : Tensor = aten::sum(%s, %columns, %no, %none)";
        let outer = "%y : Tensor = aten::sum(%s, %rows, %no, %none)";
        let scan = "%y : Tensor = aten::cumsum(%s, %one, %none)";
        let softmax = "%y : Tensor = aten::softmax(%s, %zero, %none)";
        let cases: [Case<'_>; 18] = [
            (points, [512, 256], [1, 512], &["_squares"]),
            (points, [8, 512], [1, 8], &[""]),
            (points, [512, 256], [512, 2], &[""]),
            (points, [512, 256], [260, 1], &["_wide0"]),
            (points, [512, 256], [257, 1], &[""]),
            (sum, [4096, 100], [100, 1], &["_wide0"]),
            (sum, [4096, 1001], [1001, 1], &[""]),
            (sum, [4096, 1004], [1005, 1], &[""]),
            (sum, [2, 1 << 24], [1 << 24, 1], &["_wide_parts", "_merge"]),
            (sum, [2, 1_000_003], [1_000_003, 1], &["_parts", "_merge"]),
            (outer, [65_536, 1024], [1024, 1], &["_parts", "_merge"]),
            (outer, [16, 1024], [1024, 1], &[""]),
            (scan, [1, 1 << 20], [1 << 20, 1], &["_wide_parts", "_wide_parts1"]),
            (scan, [1, 1_000_003], [1_000_003, 1], &["_parts", "_parts1"]),
            (scan, [4096, 500], [500, 1], &["_wide0"]),
            (scan, [4096, 1000], [1000, 1], &["_wide1"]),
            (scan, [4096, 1001], [1001, 1], &[""]),
            (softmax, [65_536, 64], [64, 1], &["_parts", "_merge", "_parts1", "_merge1", "_parts2"]),
        ];
        for (statements, shape, strides, functions) in cases {
            let (taken, expected) = launched(statements, shape, strides);
            assert_eq!(taken, functions, "launched: {statements} {shape:?} {strides:?}");
            assert_eq!(expected, functions, "expected: {statements} {shape:?} {strides:?}");
        }
    }
}
