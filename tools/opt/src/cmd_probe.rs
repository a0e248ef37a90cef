//! `jitopt probe`: compilers, libraries and devices of this machine, and what each enables.

use crate::{World, exit};
use clap::Args;
use jitopt_engine::processor;
use jitopt_engine::processor::Machine;
use serde_json::{Value, json};
use std::fmt::Write;

const EXAMPLES: &str = "\
Examples:
  jitopt probe
  jitopt probe --json
  JITOPT_NVRTC=/opt/cuda/lib/libnvrtc.so.12 jitopt probe

JITOPT_CC or CC names the C compiler, JITOPT_CLANG the one for PTX, JITOPT_NVRTC, JITOPT_CUBLAS and JITOPT_CUDA_DRIVER
the libraries of CUDA; by default the loader looks for them. Whatever is missing, the exit code is 0.";

/// `jitopt probe`
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ProbeArgs {
    /// Print JSON instead of a table
    #[arg(long)]
    pub(crate) json: bool,
}

pub(crate) fn run(args: &ProbeArgs, world: &mut World<'_>) -> i32 {
    let machine = processor::probe(&world.workspace());
    let text = if args.json { format!("{:#}\n", as_json(&machine)) } else { as_text(&machine) };
    world.print(text.as_bytes());
    exit::YES
}

fn as_text(machine: &Machine) -> String {
    let mut text = String::new();
    for (what, found, enables) in rows(machine) {
        let (has, found) = match found {
            Ok(found) => ("yes", found),
            Err(why) => ("no", why),
        };
        let _ = writeln!(text, "{what:<12} {has:<3}  {found}");
        if has == "yes" {
            let _ = writeln!(text, "{:<17}  {enables}", "");
        }
    }
    text
}

/// Each part of the machine, what was found or why nothing, and what it enables.
fn rows(machine: &Machine) -> [(&'static str, Result<String, String>, &'static str); 7] {
    let version = |(major, minor): (i32, i32)| format!("{major}.{minor}");
    let library = |found: &jitopt_core::runtime::cuda_libraries::Found| {
        format!("CUDA {}, {}", version(found.version), found.path)
    };
    let devices = machine.devices.clone().map(|all| {
        let one = |device: &jitopt_core::runtime::cuda_libraries::DeviceFacts| {
            let (major, minor) = device.capability;
            let memory = device.memory >> 20;
            format!("{} (sm_{major}{minor}, {memory} MiB, {} processors)", device.name, device.multiprocessors)
        };
        all.iter().map(one).collect::<Vec<_>>().join("; ")
    });
    [
        ("C compiler", machine.compiler.clone(), "--backend=cpu, --backend=cuda-emulated, --backend=cuda-checked"),
        ("NVRTC", machine.nvrtc.as_ref().map(library).map_err(Clone::clone), "CUDA kernels become machine code"),
        ("PTX", machine.ptx.clone(), "--emit=ptx, and --backend=cuda-ptx interprets it"),
        ("CUDA driver", machine.driver.as_ref().map(library).map_err(Clone::clone), "GPUs can be used"),
        ("cuBLAS", machine.cublas.as_ref().map(library).map_err(Clone::clone), "--backend=cuda runs library::Product"),
        ("GPUs", devices, "--device=N selects one"),
        (
            "--backend",
            Ok(format!("interp, nest{}", machine.backends().map(|name| format!(", {name}")).collect::<String>())),
            "what runs here",
        ),
    ]
}

fn as_json(machine: &Machine) -> Value {
    let library = |found: &Result<jitopt_core::runtime::cuda_libraries::Found, String>| match found {
        Ok(found) => json!({"path": found.path, "version": [found.version.0, found.version.1]}),
        Err(why) => json!({ "missing": why }),
    };
    let devices = match &machine.devices {
        Ok(all) => all
            .iter()
            .map(|device| {
                json!({
                    "name": device.name,
                    "capability": [device.capability.0, device.capability.1],
                    "memory": device.memory,
                    "multiprocessors": device.multiprocessors,
                    "last_cache": device.last_cache,
                })
            })
            .collect(),
        Err(why) => json!({ "missing": why }),
    };
    let compiler = match &machine.compiler {
        Ok(found) => json!({ "program": found }),
        Err(why) => json!({ "missing": why }),
    };
    let backends: Vec<&str> = ["interp", "nest"].into_iter().chain(machine.backends()).collect();
    json!({
        "compiler": compiler,
        "nvrtc": library(&machine.nvrtc),
        "ptx": match &machine.ptx {
            Ok(found) => json!({ "compiler": found }),
            Err(why) => json!({ "missing": why }),
        },
        "cublas": library(&machine.cublas),
        "driver": library(&machine.driver),
        "devices": devices,
        "backends": backends,
    })
}
