//! The PTX that NVRTC or clang makes of random groups, interpreted: against the emulation of the
//! same text, bit by bit, and where nothing is reduced against kernels of the processor.
//!
//! Without either nothing is compared, which a line says. It is the one that `JITOPT_NVRTC` or
//! `JITOPT_CLANG` names, or that is found; `JITOPT_PTX_GROUPS=10000` sets the number of groups,
//! `JITOPT_PTX_GROUPS=500-600` a range of seeds:
//!
//! ```text
//! pip install --target nvrtc nvidia-cuda-nvrtc
//! JITOPT_NVRTC=$PWD/nvrtc/nvidia/cu13/lib/libnvrtc.so.13 JITOPT_PTX_GROUPS=1000 \
//!     cargo test -p jitopt --test suite ptx_groups -- --nocapture
//! ```

#![allow(clippy::print_stdout, reason = "figures are for those who ask with --nocapture")]

use crate::random_groups::{Group, TOGETHER, compile_all, parsed};
use crate::support::nest_runs::same_bits;
use crate::support::parallel;
use crate::support::seeds::seeds;
use jitopt_core::ir::Graph;
use jitopt_core::runtime::{CpuBackend, Engine, Settings};

/// What was compared: groups whose bits are those of the emulation, those of the processor's
/// kernels, and what differs.
#[derive(Default)]
struct Compared {
    emulated: u64,
    reduced: u64,
    processor: u64,
    wrong: Vec<String>,
    remarks: Vec<String>,
}

fn backend(engine: Engine, schedule_seed: u32) -> CpuBackend {
    let [nvrtc, clang] = ["JITOPT_NVRTC", "JITOPT_CLANG"].map(|name| std::env::var(name).ok());
    let cc = Some(std::env::var("CC").unwrap_or("cc".to_owned()));
    let threads = if engine == Engine::Compiled { Some(1) } else { None };
    let all = Settings { cc, nvrtc, clang, guarded: true, scalar: true, threads, ..Settings::default() };
    CpuBackend::new(Settings { engine, schedule_seed, ..all })
}

fn compare(seeds: &[u64], schedule_seed: u32) -> Compared {
    let ptx = backend(Engine::Ptx, schedule_seed);
    let others = [backend(Engine::Emulated, 0), backend(Engine::Compiled, 0)];
    let groups: Vec<(u64, Graph, Group)> = seeds.iter().map(parsed).collect();
    others.iter().chain([&ptx]).for_each(|backend| compile_all(&groups, backend));
    let mut compared = Compared::default();
    for (seed, graph, group) in &groups {
        // A number divided by 0 has another sign on processors than on GPUs, if it is NaN.
        if group.text.contains("aten::signbit") || group.text.contains("aten::copysign") {
            continue;
        }
        for (other, is_emulated) in others.iter().zip([true, false]) {
            if !is_emulated && group.reduces {
                continue;
            }
            match same_bits(graph, &group.inputs, other, &ptx) {
                Ok(ran) if is_emulated && group.reduces => compared.reduced += u64::from(ran),
                Ok(ran) if is_emulated => compared.emulated += u64::from(ran),
                Ok(ran) => compared.processor += u64::from(ran),
                Err(why) => {
                    compared.wrong.push(format!("seed {seed}, {} and PTX: {why}\n{}", other.name(), group.text));
                }
            }
        }
    }
    compared.wrong.extend(ptx.findings());
    compared.remarks = ptx.remarks();
    compared
}

#[test]
fn ptx_of_random_groups_has_the_bits_of_the_emulation() {
    if let Some(why) = backend(Engine::Ptx, 0).failure() {
        println!("skipped: no PTX is made, {why}");
        return;
    }
    let seeds: Vec<u64> = seeds("JITOPT_PTX_GROUPS", 50, 0);
    let units: Vec<(u32, &[u64])> = (0..).zip(seeds.chunks(TOGETHER)).collect();
    let compared = parallel::each(&units, |(unit, seeds)| compare(seeds, *unit % 3));
    let sum = |of: fn(&Compared) -> u64| compared.iter().map(of).sum::<u64>();
    let (points, reduced) = (sum(|all| all.emulated), sum(|all| all.reduced));
    let processor = sum(|all| all.processor);
    println!("{} groups: {points} without and {reduced} with reductions have the bits of the emulation", seeds.len());
    println!("{processor} those of the processor's kernels");
    let wrong: Vec<&String> = compared.iter().flat_map(|all| &all.wrong).collect();
    let unknown = |remark: &&String| remark.contains("PTX");
    let unknown: Vec<&String> = compared.iter().flat_map(|all| &all.remarks).filter(unknown).collect();
    assert!(unknown.is_empty(), "PTX is not understood: {unknown:?}");
    let shown: Vec<&str> = wrong.iter().take(10).map(|text| text.as_str()).collect();
    assert!(wrong.is_empty(), "{} of {} are wrong\n{}", wrong.len(), seeds.len(), shown.join("\n"));
    assert!(points * 4 > seeds.len() as u64 && reduced * 10 > seeds.len() as u64, "hardly a group runs");
    assert!(processor * 4 > seeds.len() as u64, "hardly a group has the bits of the processor: {processor}");
}
