//! The search of plans finds what an enumeration of all plans finds, and looks at few of them.
//!
//! ```text
//! cargo test -p jitopt --test suite plan_search -- --nocapture
//! ```
//!
//! prints the table of `tools/bench/results.md`.

#![allow(clippy::print_stdout, reason = "figures are for those who ask with --nocapture")]

use crate::support::parallel;
use jitopt_core::codegen::devices::Device;
use jitopt_core::codegen::kernel_plan::Plan;
use jitopt_core::codegen::search::{Found, Size, Space, search, size, space_of};
use jitopt_core::codegen::target::Target;
use jitopt_core::ir::Graph;
use jitopt_core::runtime::sized_kernels::{SizedKernel, sized_kernels};
use jitopt_core::text::{ParseOptions, parse};
use std::path::{Path, PathBuf};

/// The four operations of the table, with the sizes of the recorded figures.
const OPERATIONS: [(&str, &str, &str); 4] = [
    ("softmax", "%x : Float(4096, 1024)", "%y : Tensor = aten::softmax(%x, %last, %none)"),
    (
        "layer norm",
        "%x : Float(4096, 1024), %w : Float(1024), %b : Float(1024)",
        "%y : Tensor = aten::layer_norm(%x, %shape, %w, %b, %eps, %no)",
    ),
    ("add", "%x : Float(4096, 1024), %b : Float(4096, 1024)", "%y : Tensor = aten::add(%x, %b, %one)"),
    (
        "strided add",
        "%x : Float(4096, 1024, strides=[2048, 1]), %b : Float(4096, 1024, strides=[2048, 1])",
        "%y : Tensor = aten::add(%x, %b, %one)",
    ),
];
/// Kernels of recorded graphs that are enumerated.
const KERNELS: usize = 20;
/// The largest space that is enumerated of those.
const ENUMERATED: u64 = 2000;

fn graph((_, params, node): (&str, &str, &str)) -> Graph {
    let names: Vec<&str> = params.split("%").skip(1).filter_map(|one| one.split(' ').next()).collect();
    let operands = names.iter().map(|name| format!("%{name}")).collect::<Vec<_>>().join(", ");
    let text = format!(
        "graph({params}):\n  %r : Tensor = prim::FusionGroup_0({operands})\n  return (%r)\nwith prim::FusionGroup_0 = graph({params}):\n  %none : NoneType = prim::Constant()\n  %one : int = prim::Constant[value=1]()\n  %last : int = prim::Constant[value=-1]()\n  %no : bool = prim::Constant[value=0]()\n  %eps : float = prim::Constant[value=1e-05]()\n  %shape : int[] = prim::Constant[value=[1024]]()\n  {node}\n  return (%y)\n"
    );
    parse(text.as_bytes(), ParseOptions::default()).unwrap_or_else(|why| panic!("{text}\n{why:?}")).graph
}

/// The least time of all plans, and the plan.
fn least(space: &dyn Space, options: &mut Vec<usize>, best: &mut Option<(f64, Plan)>) {
    let Some(variable) = space.variables().get(options.len()) else {
        if let Some(plan) = space.plan(options)
            && let Some(time) = space.time(&plan)
            && best.as_ref().is_none_or(|(least, _)| time < *least)
        {
            *best = Some((time, plan));
        }
        return;
    };
    for option in 0..variable.options.len() {
        options.push(option);
        if space.consistent(options).is_ok() {
            least(space, options, best);
        }
        options.pop();
    }
}

/// Searches the plans of a kernel, and enumerates them.
fn compared(one: &SizedKernel, device: &'static Device, most: u64) -> Option<(Found, Size)> {
    let target = Target::named(device.target).expect("machines have targets");
    let chosen = (target.choose)(&one.kernel, &one.traversal);
    target.nest(&one.kernel, &one.traversal, &chosen).ok()?;
    let space = space_of(one.model(device), target, &chosen);
    let size = size(&*space);
    if size.whole > most {
        return None;
    }
    let found = search(&*space, &chosen, 1).expect("the usual plan has a time");
    let mut best = None;
    least(&*space, &mut Vec::new(), &mut best);
    let (least, plan) = best.expect("there is a plan");
    // The usual plan may have a size that is no option.
    let least = least.min(found.chosen);
    let text = || plan.print(&one.outputs, &one.kernel) + &found.plan.print(&one.outputs, &one.kernel);
    assert!((found.time - least).abs() <= 1e-6 * least, "{} is not {least}:\n{}", found.time, text());
    (target.check)(&one.kernel, &one.traversal, &found.plan).unwrap_or_else(|why| panic!("{why}\n{}", text()));
    Some((found, size))
}

#[test]
fn plans_of_the_four_operations_are_the_best_ones() {
    for name in ["cpu", "h100"] {
        let device = Device::named(name).expect("it is in the table");
        for operation in OPERATIONS {
            let kernels = sized_kernels(&graph(operation), None);
            assert_eq!(kernels.kernels.len(), 1, "{}: {:?}", operation.0, kernels.refused);
            let (found, size) = compared(&kernels.kernels[0], device, u64::MAX).expect("it has a plan");
            println!(
                "| {name} | {} | {} | {} | {} | {} | {:.1} | {:.1} |",
                operation.0,
                size.variables,
                found.evaluations,
                size.consistent,
                size.whole,
                found.chosen / 1e3,
                found.time / 1e3
            );
            let share = found.evaluations as f64 / size.whole as f64;
            let is_small = size.whole < 300;
            if ["softmax", "layer norm"].contains(&operation.0) {
                // On processors few plans of the small space of a layer norm differ by much.
                let most = if is_small { 0.3 } else { 0.15 };
                assert!(share <= most, "{name}: {}: {share} of the space", operation.0);
            }
        }
    }
}

/// The files of recorded graphs in which `fuse` of PyTorch made groups.
fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    let mut entries: Vec<PathBuf> =
        std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    entries.sort();
    for path in entries {
        match path.is_dir() {
            true => files(&path, found),
            false if path.extension().is_some_and(|ext| ext == "ir") => found.push(path),
            false => {}
        }
    }
}

/// A text in which sizes that are unknown are known.
fn with_sizes(text: &str) -> String {
    let tensors = [
        ("Float(*, *, *, *)", "Float(4, 8, 32, 64)"),
        ("Float(*, *, *)", "Float(4, 192, 256)"),
        ("Float(*, *)", "Float(768, 256)"),
        ("Float(*)", "Float(256)"),
    ];
    tensors.iter().fold(text.to_owned(), |text, (from, to)| text.replace(from, to))
}

#[test]
fn plans_of_recorded_groups_are_the_best_ones() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata");
    let mut paths = Vec::new();
    files(&root, &mut paths);
    let device = Device::named("cpu").expect("it is in the table");
    let kernels = |path: &PathBuf| -> Vec<SizedKernel> {
        let text = std::fs::read_to_string(path).unwrap_or_default();
        if !text.contains("prim::FusionGroup_") {
            return Vec::new();
        }
        let parsed = parse(with_sizes(&text).as_bytes(), ParseOptions::default());
        parsed.map_or(Vec::new(), |parsed| sized_kernels(&parsed.graph, None).kernels)
    };
    let mut seen = std::collections::BTreeSet::new();
    let all: Vec<SizedKernel> = paths.iter().flat_map(kernels).collect();
    let without_names = |one: &SizedKernel| {
        let mut steps = one.kernel.steps.clone();
        steps.iter_mut().for_each(|step| step.name.clear());
        format!("{steps:?}{:?}", one.traversal)
    };
    let is_new = |one: &&SizedKernel| seen.insert(without_names(one));
    let all: Vec<&SizedKernel> =
        all.iter().filter(is_new).filter(|one| one.extents.rows * one.extents.inner > 0.0).collect();
    println!("{} different kernels", all.len());
    let compared = parallel::each(&all, |one| compared(one, device, ENUMERATED).is_some());
    let n = compared.iter().filter(|found| **found).count();
    println!("{n} kernels were enumerated");
    assert!(n >= KERNELS, "{n} of {} kernels", all.len());
}
