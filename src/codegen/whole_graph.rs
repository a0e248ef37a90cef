//! The kernels of all fusion groups of a graph: as one translation unit, `--emit=c`, as nests,
//! `--emit=nest`, and their plans, `--emit=plan`.

use super::kernel::{Direction, Inner, Kernel, Source, Traversal};
use super::kernel_plan::Plan;
use super::lowering::{Cause, Refusal, arguments_of_types, lower};
use super::target::{CPU, Stage, Target};
use crate::analysis::axis_maps::AxisMap;
use crate::analysis::reduced_dims::Axes;
use crate::interpreter::Release;
use crate::ir::{Graph, Node};
use crate::symbol::prim;
use crate::tensor::DType;

/// A text about all kernels, and remarks about groups that have none.
#[derive(Debug, Default)]
pub struct Unit {
    /// The text, empty where there are no kernels.
    pub text: String,
    /// Names of groups that have no kernel, with the reason.
    pub refused: Vec<(String, Refusal)>,
    /// The number of groups.
    pub groups: usize,
}

/// A kernel of a graph, and how it runs.
#[derive(Debug)]
pub struct Planned {
    /// A name for its function.
    pub name: String,
    /// The results of its group, as plans name it.
    pub outputs: String,
    /// The kernel.
    pub kernel: Kernel,
    /// The layout of its operands.
    pub traversal: Traversal,
    /// The plan that heuristics choose.
    pub plan: Plan,
}

/// The kernels of a graph, and the groups that have none.
#[derive(Debug, Default)]
pub struct Kernels {
    /// The kernels.
    pub planned: Vec<Planned>,
    /// Names of groups that have no kernel, with the reason.
    pub refused: Vec<(String, Refusal)>,
    /// The number of groups.
    pub groups: usize,
}

/// The kernels of a graph and of the graphs in it, for operands as their types describe them:
/// contiguous, with the element type that the type has, else `Float`. At run time the operands
/// themselves decide.
pub fn kernels(graph: &Graph, release: Option<Release>, target: &Target) -> Kernels {
    let release = release.unwrap_or(graph.release());
    let mut found = Kernels::default();
    let mut waiting = vec![(String::new(), graph)];
    while let Some((prefix, graph)) = waiting.pop() {
        let sections = graph.all_nodes().filter_map(|node| Some((node, graph.subgraph(node)?))).enumerate();
        let mut inner = Vec::new();
        for (i, (node, section)) in sections {
            let short = graph.kind(node).short();
            let name = format!("{prefix}{short}_{i}");
            if graph.kind(node) != prim::FUSION_GROUP {
                inner.push((format!("{name}_"), section));
                continue;
            }
            found.groups += 1;
            let (arguments, assumed) = arguments_of_types(section, DType::Float);
            match lower(section, &format!("prim::{short}_{i}"), &arguments, (release.0, release.1)) {
                Ok(kernel) => {
                    let (kernel, outputs) = (Kernel { assumed, ..kernel }, outputs(graph, node));
                    let traversal = in_a_row(&kernel);
                    let plan = (target.choose)(&kernel, &traversal);
                    found.planned.push(Planned { name, outputs, kernel, traversal, plan });
                }
                Err(refusal) => found.refused.push((name, refusal)),
            }
        }
        inner.reverse();
        waiting.extend(inner);
    }
    found
}

/// The results of a node, by name.
pub fn outputs(graph: &Graph, node: Node) -> String {
    let names: Vec<String> = graph.outputs(node).map(|value| format!("%{}", graph.name(value))).collect();
    names.join(", ")
}

/// The kernels of a graph in C.
pub fn unit(graph: &Graph, release: Option<Release>) -> Unit {
    text(graph, release, (&CPU, Stage::Source))
}

/// A stage of the kernels of a graph as text: `--emit`.
pub fn text(graph: &Graph, release: Option<Release>, (target, stage): (&Target, Stage)) -> Unit {
    let Kernels { planned, mut refused, groups } = kernels(graph, release, target);
    let mut texts = Vec::new();
    for one in planned {
        match one.text(target, stage) {
            Ok(text) => texts.push(text),
            Err(why) => refused.push((one.name, Refusal { why, cause: Cause::Group })),
        }
    }
    let text = match stage {
        Stage::Source if texts.is_empty() => String::new(),
        Stage::Source => (target.unit)(&texts),
        Stage::Nest | Stage::Plan => texts.join("\n"),
    };
    Unit { text, refused, groups }
}

impl Planned {
    /// A stage of the kernel as text.
    fn text(&self, target: &Target, stage: Stage) -> Result<String, String> {
        match stage {
            // A kernel that the target cannot run has no plan either.
            Stage::Plan => target
                .nest(&self.kernel, &self.traversal, &self.plan)
                .map(|_| self.plan.print(&self.outputs, &self.kernel)),
            Stage::Nest => target.nest(&self.kernel, &self.traversal, &self.plan).map(|nest| nest.to_string()),
            Stage::Source => target.function(&self.name, &self.kernel, &self.traversal, &self.plan),
        }
    }
}

/// Tensors with dimensions are contiguous, those without are broadcast.
pub fn in_a_row(kernel: &Kernel) -> Traversal {
    let direction = likely_direction(kernel);
    let invariant: Vec<bool> = (0..kernel.accesses()).map(|access| !moves(kernel, access)).collect();
    let is_row = |access: usize| access >= kernel.loads.len() && direction == Direction::Outer;
    let inner = |(access, &invariant): (usize, &bool)| match kernel.is_column_reduction(access) {
        true => if_summed(kernel, access, direction),
        false if invariant && !is_row(access) => Inner::Broadcast,
        false => Inner::Unit,
    };
    Traversal {
        direction,
        inner: invariant.iter().enumerate().map(inner).collect(),
        invariant: invariant
            .iter()
            .enumerate()
            .map(|(access, &invariant)| {
                invariant && direction != Direction::Points && !kernel.is_column_reduction(access)
            })
            .collect(),
    }
}

/// The likely stride class of a column reduction's accumulator along the innermost dimension: rows
/// are along another dimension, or along all of them.
fn if_summed(kernel: &Kernel, access: usize, direction: Direction) -> Inner {
    let column_reduction =
        kernel.stores[access - kernel.loads.len()].column_reduction.map(|at| &kernel.column_reductions[at].axes);
    match column_reduction {
        Some(Axes::These(_) | Axes::ButLast(_) | Axes::AllBut(_)) if direction.has_inner_loop() => Inner::Unit,
        _ => Inner::Broadcast,
    }
}

/// An inner reduction, unless the first dimension is reduced.
fn likely_direction(kernel: &Kernel) -> Direction {
    match kernel.axes() {
        None => Direction::Points,
        Some(Axes::These(dims)) if dims[..] == [0] || dims.iter().all(|&dim| dim < -1) => Direction::Outer,
        Some(Axes::AllBut(_)) => Direction::Strided,
        Some(Axes::These(dims)) if leaves_out(dims) => Direction::Strided,
        Some(_) => Direction::Inner,
    }
}

/// Whether dimensions, counted from the first, leave out one between them.
fn leaves_out(dims: &[i64]) -> bool {
    let (first, last) = (dims.iter().min(), dims.iter().max());
    first.zip(last).is_some_and(|(&first, &last)| first >= 0 && last - first >= dims.len() as i64)
}

fn moves(kernel: &Kernel, access: usize) -> bool {
    match access.checked_sub(kernel.loads.len()) {
        None => kernel.loads[access].dimensioned && kernel.loads[access].axis_map != AxisMap::Channels,
        Some(store) => !kernel.has_rows() || depends_on_elements(kernel, kernel.stores[store].source),
    }
}

/// Whether a value depends on single elements, not only on results of reductions.
fn depends_on_elements(kernel: &Kernel, source: Source) -> bool {
    match source {
        Source::Load(k) => kernel.loads[k].dimensioned && kernel.loads[k].axis_map != AxisMap::Channels,
        // A scan has a value for each element, even if there is only one.
        Source::Step(i) if kernel.steps[i].scan.is_some() => true,
        Source::Step(i) => kernel.steps[i].inputs.iter().any(|input| depends_on_elements(kernel, input.source)),
        _ => false,
    }
}
