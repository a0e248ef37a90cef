//! Random groups as blocks of threads that are emulated, against the interpreter, and bit by bit
//! against kernels of the processor and of a GPU.
//!
//! A hundred groups run, half of them with each access of memory checked, a unit in the order of
//! its threads' numbers and others in orders that seeds determine; `JITOPT_EMULATED_GROUPS=500`, or
//! a range such as `500-600`, says how many or which. With `JITOPT_EMULATED_ORDERS=3` each group
//! runs checked and unchecked, in three orders each, which give the same bits:
//!
//! ```text
//! JITOPT_EMULATED_GROUPS=10000 JITOPT_EMULATED_ORDERS=3 \
//!   cargo test --release --test suite emulated_groups_agree -- --nocapture
//! ```
//!
//! With `JITOPT_DEVICE_GROUPS=1` they run on a GPU, too, and must give the same bits there.

#![allow(clippy::print_stdout, reason = "figures are for those who ask with --nocapture")]

use crate::random_groups::{Group, TOGETHER, check, compile_all, parsed};
use crate::support::nest_runs::same_bits;
use crate::support::parallel;
use crate::support::seeds::seeds;

use jitopt_core::ir::Graph;
use jitopt_core::runtime::cuda_libraries::{DRIVER_VARIABLE, NVRTC_VARIABLE};
use jitopt_core::runtime::{CpuBackend, Engine, Settings};
use std::path::PathBuf;
use std::rc::Rc;

/// How threads are emulated, and the seed of their order.
type Order = (Engine, u32);

/// The GPU on which groups run as well, if `JITOPT_DEVICE_GROUPS` is set.
fn device(settings: &Settings) -> Option<CpuBackend> {
    let variable = |name: &str| std::env::var(name).ok();
    let (driver, nvrtc) = (variable(DRIVER_VARIABLE), variable(NVRTC_VARIABLE));
    let settings = Settings { engine: Engine::Device, driver, nvrtc, ..settings.clone() };
    variable("JITOPT_DEVICE_GROUPS").map(|_| CpuBackend::new(settings))
}

/// What a GPU computes that emulated blocks of threads do not, and how many groups ran on both.
fn differing_on_device(
    groups: &[(u64, Graph, Group)],
    emulated: &CpuBackend,
    device: &CpuBackend,
) -> (Vec<String>, u64) {
    compile_all(groups, device);
    let (mut wrong, mut same) = (Vec::new(), 0);
    for (seed, graph, group) in groups {
        match same_bits(graph, &group.inputs, device, emulated) {
            Ok(ran) => same += u64::from(ran),
            Err(why) => wrong.push(format!("seed {seed}, on the device: {why}\n{}", group.text)),
        }
    }
    wrong.extend(device.failure());
    (wrong, same)
}

/// The outcome of groups.
struct Compared {
    wrong: Vec<String>,
    launched: u64,
    /// Groups with the bits of the processor's kernels.
    same: u64,
    /// Groups with the same bits on a GPU.
    on_device: u64,
    /// Why groups are not emulated.
    remarks: Vec<String>,
}

/// Groups as blocks of threads that are emulated: against the interpreter, and where nothing is
/// reduced bit by bit against kernels of the processor.
fn check_emulated(seeds: &[u64], (engine, schedule_seed): Order, others: &[Order]) -> Compared {
    let cc = Some(std::env::var("CC").unwrap_or("cc".to_owned()));
    let settings = Settings { cc, guarded: true, scalar: true, threads: Some(1), ..Settings::default() };
    // Other orders of the same engine find what has been compiled.
    let kept = folder_of(seeds);
    let ordered = |&(engine, schedule_seed): &Order| {
        let cache = (!others.is_empty()).then(|| kept.clone());
        Rc::new(CpuBackend::new(Settings { engine, schedule_seed, cache, ..settings.clone() }))
    };
    let emulated = ordered(&(engine, schedule_seed));
    let device = device(&settings);
    let compiled = CpuBackend::new(settings.clone());
    let groups: Vec<(u64, Graph, Group)> = seeds.iter().map(parsed).collect();
    compile_all(&groups, &emulated);
    compile_all(&groups, &compiled);
    let (mut wrong, mut same) = (Vec::new(), 0);
    for (seed, graph, group) in &groups {
        let checked = check(*seed, graph, group, &emulated);
        wrong.extend(checked.wrong);
        if group.reduces {
            continue;
        }
        match same_bits(graph, &group.inputs, &compiled, &emulated) {
            Ok(ran) => same += u64::from(ran),
            Err(why) => wrong.push(format!("seed {seed}: {why}\n{}", group.text)),
        }
    }
    // Checked launches have fewer blocks, and with them other partial sums of columns.
    let mut firsts = vec![(engine, emulated.clone())];
    for other in others {
        let (ordered, what) = (ordered(other), format!("order {} of {:?}", other.1, other.0));
        compile_all(&groups, &ordered);
        match firsts.iter().find(|(engine, _)| *engine == other.0) {
            Some((_, first)) => wrong.extend(differing(&groups, (first, &ordered), &what)),
            None => {
                let results = groups.iter().flat_map(|(seed, graph, group)| check(*seed, graph, group, &ordered).wrong);
                wrong.extend(results.chain(ordered.findings()).map(|why| format!("{what}: {why}")));
                firsts.push((other.0, ordered));
            }
        }
    }
    let _ = std::fs::remove_dir_all(&kept);
    let (other, on_device) =
        device.map_or_else(Default::default, |device| differing_on_device(&groups, &emulated, &device));
    wrong.extend(other);
    let (first, count) = (seeds[0], seeds.len());
    let found = emulated.findings().into_iter().map(|why| format!("one of {count} seeds from {first} on: {why}"));
    wrong.extend(found);
    Compared { wrong, launched: emulated.counts().launched, same, on_device, remarks: emulated.remarks() }
}

/// What groups compute in another order of threads and not in the first one, and what checks find.
fn differing(groups: &[(u64, Graph, Group)], (first, other): (&CpuBackend, &CpuBackend), what: &str) -> Vec<String> {
    let differs = |(seed, graph, group): &(u64, Graph, Group)| {
        let why = same_bits(graph, &group.inputs, first, other).err()?;
        Some(format!("seed {seed}, {what}: {why}\n{}", group.text))
    };
    groups.iter().filter_map(differs).chain(other.findings()).collect()
}

/// A folder for what is compiled of some groups.
fn folder_of(seeds: &[u64]) -> PathBuf {
    std::env::temp_dir().join(format!("jitopt-emulated-{}-{}", std::process::id(), seeds[0]))
}

#[test]
fn emulated_groups_agree() {
    let seeds = seeds("JITOPT_EMULATED_GROUPS", 100, 0);
    let orders = std::env::var("JITOPT_EMULATED_ORDERS").map_or(0, |text| text.parse().expect("a number"));
    let others: Vec<Order> = (0..orders).flat_map(|seed| [(Engine::Checked, seed), (Engine::Emulated, seed)]).collect();
    let units: Vec<(usize, &[u64])> = seeds.chunks(TOGETHER).enumerate().collect();
    let engine = |unit: usize| if unit.is_multiple_of(2) { Engine::Checked } else { Engine::Emulated };
    let order = |unit: usize| (engine(unit), (unit / 2 % 3) as u32);
    let checked = parallel::each(&units, |(unit, seeds)| check_emulated(seeds, order(*unit), &others));
    let wrong: Vec<&String> = checked.iter().flat_map(|unit| &unit.wrong).collect();
    let sum = |count: fn(&Compared) -> u64| checked.iter().map(count).sum::<u64>();
    let (launched, same, on_device) = (sum(|unit| unit.launched), sum(|unit| unit.same), sum(|unit| unit.on_device));
    println!("{} groups, {launched} launches, {same} with the bits of the processor's kernels", seeds.len());
    println!("{on_device} with the same bits on a GPU");
    let shown: Vec<&str> = wrong.iter().take(10).map(|text| text.as_str()).collect();
    assert!(wrong.is_empty(), "{} of {} are wrong\n{}", wrong.len(), seeds.len(), shown.join("\n"));
    let remarks = checked.iter().flat_map(|unit| &unit.remarks).map(String::as_str).collect::<Vec<_>>().join("\n");
    assert!(launched * 2 > seeds.len() as u64, "hardly a group runs: {launched}\n{remarks}");
    assert!(same * 4 > seeds.len() as u64, "hardly a group has the bits of the processor: {same}\n{remarks}");
    let has_device = std::env::var("JITOPT_DEVICE_GROUPS").is_ok();
    assert!(!has_device || on_device * 2 > seeds.len() as u64, "hardly a group runs on the GPU: {on_device}");
}
