//! Predictions: how long the kernels of a graph take on a machine, by a model. Nothing runs.

use crate::Workspace;
use crate::error::{Error, refuse};
use crate::given_texts::SizesOf;
use crate::program::Program;
use crate::settings::SHAPE;
use crate::specializing::Specialization;
use jitopt_core::codegen::cost_model::{Estimate, Open};
use jitopt_core::codegen::devices::Device;
use jitopt_core::codegen::launched_functions::Launched;
use jitopt_core::codegen::target::Target;
use jitopt_core::interpreter::Release;
use jitopt_core::ir::Graph;
use jitopt_core::pass::{self, Pipeline, Session};
use jitopt_core::runtime::cubin::KernelResources;
use jitopt_core::runtime::cuda_libraries::NVRTC_VARIABLE;
use jitopt_core::runtime::sized_kernels::{NoKernel, SizedKernel, SizedKernels, sized_kernels};
use jitopt_core::runtime::{FunctionCounts, counts_of_text, resources_of_text};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// The subject of a prediction.
#[derive(Clone, Copy)]
pub struct PredictionSubject<'a> {
    /// The passes that make the groups.
    pub pipeline: &'a Pipeline,
    /// Sizes of parameters, as in `%x=3,4`.
    pub shape: &'a [SizesOf],
    /// The release whose semantics apply.
    pub release: Option<Release>,
    /// The machine.
    pub device: &'static Device,
}

/// The kernels of a graph, after passes.
pub(crate) struct Subject {
    pub(crate) graph: Graph,
    pub(crate) sized: SizedKernels,
    pub(crate) target: &'static Target,
}

impl Subject {
    pub(crate) fn of(
        given: PredictionSubject<'_>,
        program: &Program,
        workspace: &mut Workspace<'_>,
    ) -> Result<Subject, Error> {
        let mut graph = program.graph(given.release, workspace)?;
        Specialization::of_shapes(given.shape).apply(&mut graph).or_else(refuse)?;
        pass::run(&mut graph, given.pipeline, &mut Session::default(), &mut [])
            .map_err(|error| Error::of_passes(&program.path, &error))?;
        let sized = sized_kernels(&graph, given.release);
        let name = given.device.target;
        let Some(target) = Target::named(name) else { return refuse(format_args!("there is no target `{name}`")) };
        Ok(Subject { graph, sized, target })
    }

    /// Warns of groups without a prediction.
    pub(crate) fn warn(&self, workspace: &mut Workspace<'_>) {
        for (outputs, why) in &self.sized.refused {
            let help = match why {
                NoKernel::Unsized(_) => format!("; give {SHAPE} '%x=SIZES', and shape-analysis"),
                NoKernel::Refused(_) => String::new(),
            };
            workspace.warn(format!("no prediction for the group of {outputs}: {why}{help}"));
        }
    }
}

/// The prediction of a kernel.
struct Row {
    group: String,
    sizes: String,
    plan: String,
    /// The functions that the launch takes.
    function: String,
    estimate: Estimate,
}

/// A function in machine code.
struct Function {
    group: String,
    resources: KernelResources,
    /// What its PTX has.
    counts: Option<FunctionCounts>,
}

/// The predictions of a graph.
pub struct Predicted {
    name: String,
    device: &'static Device,
    rows: Vec<Row>,
    /// The facts about functions in machine code.
    functions: Result<Vec<Function>, String>,
}

impl Predicted {
    /// Predicts the kernels of a graph after passes, under the plans that heuristics choose.
    ///
    /// # Errors
    /// The text is not a valid graph, or passes fail.
    pub fn of(
        given: PredictionSubject<'_>,
        program: &Program,
        workspace: &mut Workspace<'_>,
    ) -> Result<Predicted, Error> {
        let subject = Subject::of(given, program, workspace)?;
        subject.warn(workspace);
        let functions = functions(&subject, given.device, workspace);
        let mut rows = Vec::new();
        for one in &subject.sized.kernels {
            let of_group = functions.iter().flatten().filter(|function| function.group == one.outputs);
            match row(one, subject.target, given.device, &of_group.collect::<Vec<_>>()) {
                Ok(row) => rows.push(row),
                Err(why) => workspace.warn(format!("no prediction for the group of {}: {why}", one.outputs)),
            }
        }
        Ok(Predicted { name: program.name(), device: given.device, rows, functions })
    }

    /// A table.
    pub fn table(&self) -> String {
        let mut text = format!(
            "{}: predicted for {}, not run\n\n| group | sizes | plan | functions | bytes, kB | at least, kB | \
             operations | us | bound by | of the copy rate |\n| --- | --- | --- | --- | ---: | ---: | ---: | ---: | --- | ---: |\n",
            self.name, self.device.name
        );
        for Row { group, sizes, plan, function, estimate } in &self.rows {
            text += &format!(
                "| {group} | {sizes} | {plan} | {function} | {:.1} | {:.1} | {} | {:.2} | {} | {:.2} |\n",
                estimate.bytes / 1e3,
                estimate.fewest / 1e3,
                estimate.operations.round(),
                estimate.time() / 1e3,
                estimate.bound().name(),
                estimate.fewest / self.device.band / estimate.time(),
            );
        }
        text += "\nexact: sizes, plans, functions that launches take, bytes at least. Estimated: bytes, operations, \
             times; expect -20 % to +25 % above 20 us,\nand a factor of 2 below.";
        match &self.functions {
            Ok(functions) if !functions.is_empty() => text + "\n\n" + &self.machine_code(functions),
            _ => text + " Not known without NVRTC: registers and spills\n\n",
        }
    }

    /// A table of what NVRTC made.
    fn machine_code(&self, functions: &[Function]) -> String {
        let mut text = "| group | function | registers | stack, bytes | shared, bytes | threads a multiprocessor | \
             PTX instructions | loads | stores | sectors |\n\
             | --- | --- | ---: | ---: | ---: | ---: | ---: | --- | --- | ---: |\n"
            .to_owned();
        for Function { group, resources, counts } in functions {
            let KernelResources { name, registers, stack, shared, .. } = resources;
            let resident = resources.resident(self.limits());
            text += &format!("| {group} | {name} | {registers} | {stack} | {shared} | {resident} |");
            text += &counts.as_ref().map_or(" | | | |\n".to_owned(), |counts| {
                let (loads, stores) = (by_width(&counts.loads), by_width(&counts.stores));
                format!(" {} | {loads} | {stores} | {} |\n", counts.instructions, counts.sectors())
            });
        }
        let architecture = self.device.architecture.unwrap_or_default();
        text + &format!(
            "\nexact: what NVRTC made for {architecture}, of which registers limit the threads that times are for; \
             instructions and accesses\nof PTX, each once, with the bytes of a thread. Registers are spilled to the \
             stack. Sectors are those of a warp's accesses, each once,\nif they are coalesced\n\n"
        )
    }

    /// The threads and blocks that a multiprocessor holds.
    fn limits(&self) -> (u64, u64) {
        (self.device.threads as u64, self.device.blocks as u64)
    }

    /// The same as JSON.
    pub fn json(&self) -> Value {
        let row = |row: &Row| {
            let Row { group, sizes, plan, function, estimate } = row;
            json!({
                "group": group,
                "sizes": sizes,
                "plan": plan,
                "function": function,
                "bytes": estimate.bytes,
                "bytes_at_least": estimate.fewest,
                "operations": estimate.operations,
                "time_s": estimate.time() / 1e9,
                "bound_by": estimate.bound().name(),
            })
        };
        let rows: Vec<Value> = self.rows.iter().map(row).collect();
        let function = |Function { group, resources, counts }: &Function| {
            json!({
                "group": group,
                "function": resources.name,
                "registers": resources.registers,
                "stack_bytes": resources.stack,
                "shared_bytes": resources.shared,
                "threads_of_multiprocessor": resources.resident(self.limits()),
                "ptx_instructions": counts.as_ref().map(|counts| counts.instructions),
                "loads_by_bytes": counts.as_ref().map(|counts| &counts.loads),
                "stores_by_bytes": counts.as_ref().map(|counts| &counts.stores),
                "sectors": counts.as_ref().map(FunctionCounts::sectors),
            })
        };
        let functions: Vec<Value> = self.functions.iter().flatten().map(function).collect();
        json!({
            "graph": self.name,
            "device": self.device.name,
            "kernels": rows,
            "functions": functions,
            "is_measured": false,
        })
    }
}

fn row(one: &SizedKernel, target: &Target, device: &'static Device, functions: &[&Function]) -> Result<Row, String> {
    let plan = (target.choose)(&one.kernel, &one.traversal);
    // A kernel that the target cannot run has no prediction either.
    target.nest(&one.kernel, &one.traversal, &plan)?;
    let launched = |device: &Device| one.model(device).launched(&plan, Open::default());
    let Launched { functions: names, mut estimate } = launched(device).ok_or("it has no loops")?;
    let names: Vec<&str> = names.iter().map(|name| name.strip_prefix('_').unwrap_or("plan")).collect();
    let known = functions.iter().filter(|known| names.contains(&known.resources.name.as_str()));
    // The function with the most registers limits the threads of all.
    if let Some(resident) =
        known.map(|known| known.resources.resident((device.threads as u64, device.blocks as u64))).min()
    {
        let limited = Device { threads: resident as f64, ..*device };
        estimate = launched(&limited).map_or(estimate, |limited| limited.estimate);
    }
    let function = names.join(", ");
    let text = plan.print("", &one.kernel);
    let plan = text.lines().skip(1).map(str::trim).collect::<Vec<_>>().join("; ");
    Ok(Row { group: one.outputs.clone(), sizes: one.sizes(), plan, function, estimate })
}

/// Accesses by their width: `8 x 16 B, 1 x 4 B`.
fn by_width(counts: &BTreeMap<u64, u64>) -> String {
    counts.iter().rev().map(|(width, times)| format!("{times} x {width} B")).collect::<Vec<_>>().join(", ")
}

/// The resources of the functions of all kernels, from their machine code, if NVRTC is found.
fn functions(subject: &Subject, device: &Device, workspace: &Workspace<'_>) -> Result<Vec<Function>, String> {
    let Some(architecture) = device.architecture else { return Ok(Vec::new()) };
    let (mut texts, mut groups) = (Vec::new(), Vec::new());
    for (number, one) in subject.sized.kernels.iter().enumerate() {
        let plan = (subject.target.choose)(&one.kernel, &one.traversal);
        let Ok(nests) = subject.target.nests(&one.kernel, &one.traversal, &plan) else { continue };
        let name = format!("k{number}");
        texts.extend(subject.target.functions(&name, &nests).into_iter().map(|(_, text)| text));
        groups.push((name, one.outputs.clone()));
    }
    if texts.is_empty() {
        return Ok(Vec::new());
    }
    let nvrtc = workspace.env().get(NVRTC_VARIABLE).filter(|path| !path.is_empty()).map(String::as_str);
    let unit = (subject.target.unit)(&texts);
    let found = resources_of_text(unit.text(), architecture, nvrtc)?;
    let counted = counts_of_text(unit.text(), nvrtc, None).unwrap_or_default();
    let named = |mut resources: KernelResources| {
        let counts = counted.iter().find(|counts| counts.name == resources.name).cloned();
        let (kernel, rest) = resources.name.split_once('_').unwrap_or((&resources.name, "plan"));
        let group = groups.iter().find(|group| group.0 == kernel)?.1.clone();
        resources.name = rest.to_owned();
        Some(Function { group, resources, counts })
    };
    Ok(found.into_iter().filter_map(named).collect())
}
