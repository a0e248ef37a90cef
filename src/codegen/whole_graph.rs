//! The kernels of all fusion groups of a graph: as one translation unit, `--emit=c`, as nests,
//! `--emit=nest`, and their plans, `--emit=plan`.

use super::geometry::likely;
use super::kernel::{Kernel, Traversal};
use super::kernel_plan::{Plan, PlanFile};
use super::lowering::{Cause, Refusal, arguments_of_types, lower};
use super::target::{CPU, Stage, Target};
use super::text_lines::SourceText;
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
    /// Why plans of a file are refused, each with its group.
    pub wrong: Vec<String>,
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
pub(crate) fn kernels(graph: &Graph, release: Option<Release>, target: &Target) -> Kernels {
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
            let group = format!("prim::{short}_{i}");
            let lowered = lower(section, &group, &arguments, (release.0, release.1)).and_then(|kernel| {
                let unlike = |why| Refusal { why: format!("it has no loops of its own: {why}"), cause: Cause::Group };
                let traversal = likely(&kernel).map_err(unlike)?.traversal;
                Ok((kernel, traversal))
            });
            match lowered {
                Ok((kernel, traversal)) => {
                    let (kernel, outputs) = (Kernel { assumed, ..kernel }, outputs(graph, node));
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
pub(crate) fn outputs(graph: &Graph, node: Node) -> String {
    let names: Vec<String> = graph.outputs(node).map(|value| format!("%{}", graph.name(value))).collect();
    names.join(", ")
}

/// The kernels of a graph in C.
pub fn unit(graph: &Graph, release: Option<Release>) -> Unit {
    text(graph, release, (&CPU, Stage::Source), None)
}

/// A stage of the kernels of a graph as text: `--emit`. Kernels have the plans of a file, where it
/// names their group.
pub fn text(
    graph: &Graph,
    release: Option<Release>,
    (target, stage): (&Target, Stage),
    plans: Option<&PlanFile>,
) -> Unit {
    let Kernels { mut planned, mut refused, groups } = kernels(graph, release, target);
    let wrong = plans.map_or(Vec::new(), |plans| take_plans(&mut planned, plans, target));
    let mut texts = Vec::new();
    for one in planned {
        match one.text(target, stage) {
            Ok(text) => texts.push(text),
            Err(why) => refused.push((one.name, Refusal { why, cause: Cause::Group })),
        }
    }
    let text = match stage {
        Stage::Source if texts.is_empty() => String::new(),
        Stage::Source => (target.unit)(&texts).into_text(),
        Stage::Nest | Stage::Plan => texts.into_iter().map(SourceText::into_text).collect::<Vec<String>>().join("\n"),
    };
    Unit { text, refused, groups, wrong }
}

/// Gives kernels the plans of a file. Returns why some are refused.
fn take_plans(planned: &mut [Planned], plans: &PlanFile, target: &Target) -> Vec<String> {
    let mut wrong = Vec::new();
    for one in planned.iter_mut() {
        match plans.find(&one.outputs).map(|entry| entry.resolve(&one.kernel, &one.traversal, target)) {
            Some(Ok(plan)) => one.plan = plan,
            Some(Err(why)) => wrong.push(format!("the group of {}: {why}", one.outputs)),
            None => {}
        }
    }
    let is_there = |group: &&str| planned.iter().any(|one| one.outputs == **group);
    let unknown = plans.groups().filter(|group| !is_there(group));
    wrong.extend(unknown.map(|group| format!("no kernel is that of the group of {group}")));
    wrong
}

impl Planned {
    /// A stage of the kernel as text.
    fn text(&self, target: &Target, stage: Stage) -> Result<SourceText, String> {
        match stage {
            // A kernel that the target cannot run has no plan either.
            Stage::Plan => target
                .nest(&self.kernel, &self.traversal, &self.plan)
                .map(|_| self.plan.print(&self.outputs, &self.kernel).into()),
            Stage::Nest => target.nest(&self.kernel, &self.traversal, &self.plan).map(|nest| nest.to_string().into()),
            Stage::Source => target.function(&self.name, &self.kernel, &self.traversal, &self.plan),
        }
    }
}
