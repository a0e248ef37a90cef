//! `--backend`: fusion groups as kernels, and the messages about them.

use crate::Workspace;
use crate::error::{Error, Kind, refuse};
use crate::operator_times::OperatorTimes;
use crate::options::BackendOptions;
use crate::settings::{BACKEND, DEVICE, NO_CACHE, PLAN, SCHEDULE_SEED, THREADS};
use jitopt_core::runtime::cuda_libraries::{
    self, CUBLAS_VARIABLE, DRIVER_VARIABLE, DeviceFacts, Found, NVRTC_VARIABLE,
};
use jitopt_core::runtime::disk_cache::DiskCache;
use jitopt_core::runtime::memory_profile::MemoryProfile;
use jitopt_core::runtime::ptx_compiler::{CLANG_VARIABLE, PtxCompiler};
use jitopt_core::runtime::{CpuBackend, Engine, Settings};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// The warning if the option had no effect.
fn no_kernel(backend: &CpuBackend) -> String {
    format!("{BACKEND}={}: no kernel was launched", backend.name())
}

/// The compilers and devices of this machine for kernels; for a missing one, the remedy as text.
#[derive(Clone, Debug)]
pub struct Machine {
    /// The C compiler: the program.
    pub compiler: Result<String, String>,
    /// CUDA's compiler.
    pub nvrtc: Result<Found, String>,
    /// The compiler that makes PTX: NVRTC or clang.
    pub ptx: Result<String, String>,
    /// cuBLAS.
    pub cublas: Result<Found, String>,
    /// CUDA's driver.
    pub driver: Result<Found, String>,
    /// The GPUs; one or more.
    pub devices: Result<Vec<DeviceFacts>, String>,
}

impl Machine {
    /// The backends that need something, and have it.
    pub fn backends(&self) -> impl Iterator<Item = &'static str> {
        let (has_compiler, has_ptx) = (self.compiler.is_ok(), self.ptx.is_ok());
        let has_device = self.nvrtc.is_ok() && self.devices.is_ok();
        let runs = move |engine| match engine {
            Engine::Device => has_device,
            Engine::Ptx => has_ptx,
            Engine::Nests => false,
            _ => has_compiler,
        };
        Engine::names().filter(move |row| runs(row.1)).map(|(name, _)| name)
    }
}

/// Looks for what kernels need. Starts the driver if there is one.
pub fn probe(workspace: &Workspace<'_>) -> Machine {
    let args = BackendOptions { engine: Some(Engine::Compiled), ..BackendOptions::default() };
    let backend = backend(&args, workspace).ok_or_else(String::new);
    let compiler = backend.and_then(|backend| backend.compiler().map(|found| found.name()));
    let named = |variable: &str| workspace.env().get(variable).filter(|path| !path.is_empty()).map(String::as_str);
    let driver = cuda_libraries::driver(named(DRIVER_VARIABLE));
    let devices = driver.as_ref().map_err(|_| "without a driver none is known".to_owned());
    let devices = devices.and_then(|_| match cuda_libraries::devices() {
        Ok(all) if all.is_empty() => Err("the driver knows none".to_owned()),
        found => found,
    });
    let (nvrtc, cublas) =
        (cuda_libraries::compiler(named(NVRTC_VARIABLE)), cuda_libraries::blas(named(CUBLAS_VARIABLE)));
    let ptx = PtxCompiler::find(named(NVRTC_VARIABLE), named(CLANG_VARIABLE), &DiskCache::new(None));
    let ptx = ptx.map(|compiler| compiler.name());
    Machine { compiler, nvrtc, ptx, cublas, driver, devices }
}

/// The folder in which kernels are kept, if kernels run and are kept.
pub fn folder_of_kernels(args: &BackendOptions, workspace: &Workspace<'_>) -> Option<PathBuf> {
    let variable = |name: &str| workspace.env().get(name).filter(|value| !value.is_empty()).cloned();
    args.engine.filter(|_| !args.no_cache).and_then(|_| cache_folder(variable))
}

/// The backend that options and environment select.
pub fn backend(args: &BackendOptions, workspace: &Workspace<'_>) -> Option<CpuBackend> {
    in_environment(args, workspace.env())
}

/// The same with an explicit environment, which threads share.
pub(crate) fn in_environment(args: &BackendOptions, env: &BTreeMap<String, String>) -> Option<CpuBackend> {
    let variable = |name: &str| env.get(name).filter(|value| !value.is_empty()).cloned();
    let cache = (!args.no_cache).then(|| cache_folder(variable)).flatten();
    let (compiler, cc, threads) = (variable("JITOPT_CC"), variable("CC"), args.threads.map(|n| n as usize));
    let plans = args.plans.clone();
    let (driver, nvrtc) = (variable(DRIVER_VARIABLE), variable(NVRTC_VARIABLE));
    let cublas = variable(CUBLAS_VARIABLE);
    let (clang, device) = (variable(CLANG_VARIABLE), args.device.unwrap_or(0));
    let schedule_seed = args.schedule_seed.unwrap_or(0);
    let others = Settings { compiler, cc, cache, threads, plans, schedule_seed, ..Settings::default() };
    let graphs = args.graphs.unwrap_or_default();
    let others = Settings { driver, nvrtc, clang, cublas, device, graphs, ..others };
    args.engine.map(|engine| CpuBackend::new(Settings { engine, ..others }))
}

/// Refuses plans that are not legal for the kernels that ran, and findings of checked launches, and
/// names plans that no kernel used.
pub(crate) fn refuse_plans(backend: Option<&CpuBackend>, workspace: &mut Workspace<'_>) -> Result<(), Error> {
    let Some(backend) = backend else { return Ok(()) };
    if let Some(why) = backend.refused_plans().first() {
        return refuse(format_args!("{PLAN}: {why}"));
    }
    refuse_findings(backend)?;
    for group in backend.unused_plans() {
        workspace.warn(format!("{PLAN}: no kernel of the group of {group} was launched"));
    }
    Ok(())
}

/// Refuses options for kernels if no kernel runs.
///
/// # Errors
/// Names the option, and why it has no effect.
pub fn refuse_idle(args: &BackendOptions) -> Result<(), Error> {
    match args {
        BackendOptions { engine, device: Some(_), .. } if *engine != Some(Engine::Device) => {
            refuse(format_args!("{DEVICE}: it selects a GPU; add {BACKEND}=cuda"))
        }
        BackendOptions { engine, graphs: Some(_), .. } if *engine != Some(Engine::Device) => {
            refuse("--cuda-graphs: a GPU launches them; add --backend=cuda")
        }
        BackendOptions { engine, schedule_seed: Some(_), .. } if !engine.is_some_and(Engine::emulates) => {
            refuse(format_args!(
                "{SCHEDULE_SEED}: it orders emulated threads; add {BACKEND}=cuda-emulated, cuda-checked or cuda-ptx"
            ))
        }
        BackendOptions { engine: Some(Engine::Nests), no_cache: true, .. } => {
            refuse(format_args!("{NO_CACHE}: nothing is compiled with {BACKEND}=nest"))
        }
        BackendOptions { engine: Some(Engine::Nests), threads: Some(_), .. } => {
            refuse(format_args!("{THREADS}: nests are executed by one thread"))
        }
        BackendOptions { engine: Some(engine), threads: Some(_), .. } if !engine.has_workers() => {
            refuse(format_args!("{THREADS}: blocks of threads have as many as their plans say"))
        }
        BackendOptions { engine: Some(_), .. } => Ok(()),
        BackendOptions { no_cache: true, .. } => {
            refuse(format_args!("{NO_CACHE}: kernels are only compiled with {BACKEND}=cpu"))
        }
        BackendOptions { threads: Some(_), .. } => {
            refuse(format_args!("{THREADS}: it sets the threads of kernels; add {BACKEND}=cpu"))
        }
        BackendOptions { plans: Some(_), .. } => {
            refuse(format_args!("{PLAN}: it schedules kernels; add {BACKEND}=cpu"))
        }
        _ => Ok(()),
    }
}

/// `JITOPT_CACHE`, or a directory in the user's cache directory.
pub(crate) fn cache_folder(variable: impl Fn(&str) -> Option<String>) -> Option<PathBuf> {
    let requested = variable("JITOPT_CACHE").map(PathBuf::from);
    let usual = || variable("XDG_CACHE_HOME").map(|folder| PathBuf::from(folder).join("jitopt"));
    let at_home = || variable("HOME").map(|folder| PathBuf::from(folder).join(".cache/jitopt"));
    requested.or_else(usual).or_else(at_home)
}

/// A failure if something was wrong in launches whose accesses of memory were checked.
///
/// # Errors
/// Failures and findings of checked launches, with their IR lines.
pub fn refuse_findings(backend: &CpuBackend) -> Result<(), Error> {
    if let Some(why) = backend.failure() {
        return Err(Error::new(Kind::Refused, format!("{BACKEND}={}: {why}", backend.name())));
    }
    match &backend.findings()[..] {
        [] => Ok(()),
        all => Err(Error::new(Kind::Bug, format!("{BACKEND}={}: {}", backend.name(), all.join("\n  ")))),
    }
}

/// Reports groups that the interpreter ran.
pub(crate) fn report_groups(backend: Option<&CpuBackend>, workspace: &mut Workspace<'_>) {
    let Some(backend) = backend else { return };
    backend.remarks().iter().for_each(|remark| workspace.warn(remark));
    let counts = backend.counts();
    let called = counts.products + counts.convolutions + counts.attentions;
    if counts.launched + called + counts.fallen_back == 0 {
        workspace.warn(no_kernel(backend));
    }
}

/// Prints the counters, and the times of operators.
pub fn report_counts(
    backend: Option<&CpuBackend>,
    stats: Option<&str>,
    mut counted: BTreeMap<String, u64>,
    times: Option<&OperatorTimes>,
    workspace: &mut Workspace<'_>,
) {
    if let Some(backend) = backend {
        let counts = backend.counts();
        let named = [
            ("kernels-launched", counts.launched),
            ("groups-fallen-back", counts.fallen_back),
            ("groups-divided", counts.divided),
            ("kernels-compiled", counts.compiled),
            ("kernels-cached", counts.cached),
            ("units-compiled", counts.units),
            ("plans-made", counts.planned),
        ];
        let libraries = [
            ("library-products", counts.products),
            ("library-convolutions", counts.convolutions),
            ("library-attentions", counts.attentions),
            ("library-epilogues", counts.epilogues),
        ];
        let called = libraries.into_iter().filter(|&(_, n)| n > 0);
        let traffic = backend.traffic().map_or(called.collect(), |traffic| {
            vec![
                ("library-products", counts.products),
                ("copies-to-device", traffic.copied_to),
                ("copies-from-device", traffic.copied_from),
                ("bytes-to-device", traffic.bytes_to),
                ("bytes-from-device", traffic.bytes_from),
                ("graphs-captured", traffic.graphs),
                ("graph-launches", traffic.graph_launches),
                ("launches-by-graphs", traffic.launched_by_graphs),
            ]
        });
        counted.extend(traffic.into_iter().map(|(name, n)| (name.to_owned(), n)));
        counted.extend(accesses(&backend.memory_profile()));
        counted.extend(named.map(|(name, n)| (name.to_owned(), n)));
    }
    let Some(format) = stats else { return };
    let text = match format {
        "json" => counts_as_json(&counted, times).to_string(),
        _ => {
            let counts: String = counted.iter().map(|(name, n)| format!("{n:>10} {name}\n")).collect();
            let accesses = backend.map(|backend| backend.memory_profile().table()).unwrap_or_default();
            counts + &times.map(OperatorTimes::table).unwrap_or_default() + &accesses
        }
    };
    if !text.is_empty() {
        workspace.say(text);
    }
}

/// The totals of what checked launches requested of memory; nothing without any.
fn accesses(profile: &MemoryProfile) -> Vec<(String, u64)> {
    let half = |is_shared, [requests, transactions, fewest]: [&str; 3]| {
        let total = profile.total(is_shared);
        let named = [(requests, total.0), (transactions, total.1), (fewest, total.2)];
        let named = named.map(|(name, n)| (name.to_owned(), u64::try_from(n).unwrap_or(0)));
        if total.0 > 0 { Vec::from(named) } else { Vec::new() }
    };
    let mut all = half(false, ["memory-requests", "memory-sectors", "memory-sectors-fewest"]);
    all.extend(half(true, ["shared-requests", "shared-wavefronts", "shared-wavefronts-fewest"]));
    all
}

/// The counters, and the times of operators under a name that no counter has.
fn counts_as_json(counted: &BTreeMap<String, u64>, times: Option<&OperatorTimes>) -> serde_json::Value {
    let mut all = serde_json::json!(counted);
    if let Some(times) = times {
        all["operators"] = times.json();
    }
    all
}

/// Reports how many kernels ran: without any, a validation does not cover kernels.
pub fn note_of_launches(backend: &CpuBackend, workspace: &mut Workspace<'_>) {
    backend.remarks().iter().for_each(|remark| workspace.warn(remark));
    let counts = backend.counts();
    let n = counts.launched;
    match n {
        0 if counts.products > 0 => workspace.note(format!("products were computed {} times", counts.products)),
        0 if counts.convolutions > 0 => {
            workspace.note(format!("convolutions were computed {} times", counts.convolutions));
        }
        0 if counts.attentions > 0 => {
            workspace.note(format!("attention was computed {} times", counts.attentions));
        }
        0 => workspace.warn(no_kernel(backend)),
        1 => workspace.note("one kernel was launched"),
        _ => workspace.note(format!("kernels were launched {n} times")),
    }
}
