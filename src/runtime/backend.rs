//! The backend that the interpreter calls for fusion groups.

pub mod device_times;
mod divided_groups;
mod forked_bodies;
mod library_products;
mod operand_limits;
mod planned_runs;
mod ptx_units;

pub use super::counters::Counts;
use super::cuda_blas::Blas;
use super::cuda_compiler::CudaCompiler;
use super::cuda_device::{Device, Module, Traffic};
use super::cuda_graphs::GraphPolicy;
use super::cuda_launch::{DeviceKernel, on_device};
use super::cuda_libraries;
use super::disk_cache::DiskCache;
use super::division::Known;
use super::emulated_launch::{self, Emulated, Image, Observed};
use super::engine::Engine;
use super::launch_plan::{Code, Compiled, Plan, Plans, Way, known, threads_worth};
use super::loading::Loaded;
use super::memory_profile::MemoryProfile;
use super::prepared_launch::Prepared;
use super::ptx_compiler::PtxCompiler;
use super::shared_kernels::SharedKernels;
use super::thread_pool::processors;
use super::toolchain::{self, Compiler};
use super::wide_launch::{functions_of, split_functions_of};
use crate::codegen::column_totals::total_name;
use crate::codegen::geometry::{self, Geometry, View, settle};
use crate::codegen::kernel::{Direction, Kernel, Traversal};
use crate::codegen::kernel_plan::{Grid, Plan as SchedulePlan, PlanFile};
use crate::codegen::loop_structure::{LaunchPhases, Loops, can_be_split};
use crate::codegen::lowering::{Argument, arguments_of_types, lower};
use crate::codegen::nest::{identity::Identity, verification::verify};
use crate::codegen::target::{Nests, Target};
use crate::codegen::text_lines::SourceText;
use crate::codegen::whole_graph::outputs;
use crate::interpreter::call::Outs;
use crate::interpreter::machine::Backend;
use crate::interpreter::{Environment, Future, IValue};
use crate::ir::{Graph, Node};
use crate::outlining::Excerpt;
use crate::symbol::{Symbol, library, prim};
use crate::tensor::spare_memory::SpareMemory;
use crate::tensor::{DType, Precision, Tensor};
use forked_bodies::Forks;
use operand_limits::within_limits;
pub use planned_runs::PlannedMemory;
use planned_runs::Runs;
use rustc_hash::{FxHashMap, FxHashSet};
use std::cell::{Cell, OnceCell, RefCell};
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Settings of compilation and execution.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// The only compiler that is tried, `JITOPT_CC`.
    pub compiler: Option<String>,
    /// The first compiler that is tried, `CC`.
    pub cc: Option<String>,
    /// The folder of compiled units; none are kept without one.
    pub cache: Option<PathBuf>,
    /// The number of threads; by default the number of processors.
    pub threads: Option<usize>,
    /// Fill results with a poison value first, and check the memory around them: for tests.
    pub guarded: bool,
    /// Compile in a tenth of the time, without vectorisation: for tests.
    pub scalar: bool,
    /// Whether results are written with non-temporal stores; by default those of large launches
    /// are.
    pub stream: Option<bool>,
    /// How kernels of groups are scheduled, where it is not as usual.
    pub plans: Option<Arc<PlanFile>>,
    /// How kernels run.
    pub engine: Engine,
    /// The libraries of CUDA, `JITOPT_CUDA_DRIVER` and `JITOPT_NVRTC`; else those that are found.
    pub driver: Option<String>,
    /// See `driver`.
    pub nvrtc: Option<String>,
    /// The clang that makes PTX, `JITOPT_CLANG`; NVRTC, or the first that is found, without one.
    pub clang: Option<String>,
    /// See `driver`; `JITOPT_CUBLAS`.
    pub cublas: Option<String>,
    /// The number of the GPU.
    pub device: u32,
    /// Which sequences of its work are launched as graphs.
    pub graphs: GraphPolicy,
    /// Determines the order in which blocks and threads of an emulated device are scheduled; 0 is
    /// the order of their numbers.
    pub schedule_seed: u32,
    /// Every launch uses this number of threads, whatever its size, and rows are split between them
    /// where that is possible: for tests.
    pub always_threads: Option<usize>,
}

/// The compile time from which on a remark is made, for groups of at least `MANY` nodes.
const PATIENCE: Duration = Duration::from_secs(5);
/// The number of nodes that a compiler needs about a second for.
const MANY: usize = 100;
/// The number of reasons that are reported for why a group runs unfused.
const MOST_REASONS: usize = 3;
/// The number of kernels that are compiled before they are needed. A graph may have hundreds, in
/// branches that are never taken.
const MOST_FORESEEN: usize = 31;

/// Element types and access patterns: the specialisation of a kernel, besides its section.
type Key = (u64, Vec<Argument>, Traversal);

/// The kernels of sections for operands of given element types, or why there is none.
type Lowered = FxHashMap<(u64, Vec<Argument>), Result<Rc<Kernel>, String>>;

/// The first node of a library call's section, and what follows it; nothing where nothing does.
type TwoParts = Option<Rc<(Excerpt, Excerpt)>>;

/// The pieces of a section, for sizes seen so far.
type Divisions = Vec<Rc<Vec<Excerpt>>>;

/// A group and its operands.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// The section of the group.
    pub section: &'a Graph,
    /// The name of the group in the source.
    pub name: &'a str,
    /// The operands.
    pub operands: &'a [IValue],
    /// The release of PyTorch whose semantics it has.
    pub release: (u32, u32),
}

/// The types of the operands of a request, the kernel for them, and its iteration space.
type Settled = (Vec<Argument>, Rc<Kernel>, Geometry);

/// A kernel that is to be compiled.
struct Wanted {
    identity: Identity,
    nests: Nests,
    /// Points of a tile along the innermost dimension.
    tile: Option<usize>,
    grid: Option<Grid>,
    /// The phases of a split reduction.
    phases: Option<LaunchPhases>,
}

impl Wanted {
    /// With the plan that heuristics choose.
    fn new(kernel: &Kernel, traversal: &Traversal, target: &Target) -> Result<Wanted, String> {
        Wanted::planned(kernel, traversal, &(target.choose)(kernel, traversal), target)
    }

    fn planned(kernel: &Kernel, traversal: &Traversal, plan: &SchedulePlan, target: &Target) -> Result<Wanted, String> {
        let nests = target.nests(kernel, traversal, plan)?;
        Ok(Wanted {
            identity: Identity::of(&nests, target.name),
            nests,
            tile: plan.tile(),
            grid: plan.grid,
            phases: Loops::new(kernel, traversal, plan).launch_phases(),
        })
    }
}

/// Runs the fusion groups of graphs as compiled kernels on the processor.
///
/// A backend serves a run, or several runs of the same graphs: groups are identified by the
/// identity of their section, which must not be edited meanwhile.
#[derive(Debug)]
pub struct CpuBackend {
    settings: Settings,
    cache: DiskCache,
    compiler: OnceCell<Result<Compiler, String>>,
    device: OnceCell<Result<(Rc<Device>, CudaCompiler), String>>,
    ptx_compiler: OnceCell<Result<PtxCompiler, String>>,
    blas: OnceCell<Result<Blas, String>>,
    lowered: RefCell<Lowered>,
    compiled: RefCell<FxHashMap<Key, Result<Rc<Compiled>, String>>>,
    by_identity: RefCell<FxHashMap<Identity, Rc<Compiled>>>,
    /// Sections that have been compiled once, for their operands or for the types of their params.
    foreseen: RefCell<FxHashSet<u64>>,
    /// The pieces of groups that no kernel can run, for sizes seen so far.
    divisions: RefCell<FxHashMap<(u64, Vec<Argument>), Divisions>>,
    /// Groups that cannot be divided either, with the operands for which that was tried.
    undivided: RefCell<FxHashSet<(u64, Vec<Known>)>>,
    /// The launch plans of groups, per operand specification.
    plans: RefCell<Plans>,
    /// Sections of library calls in two parts, where something follows.
    parts: RefCell<FxHashMap<u64, TwoParts>>,
    counts: Cell<Counts>,
    remarks: RefCell<Vec<String>>,
    /// The errors in checked launches.
    findings: RefCell<Vec<String>>,
    profile: RefCell<MemoryProfile>,
    /// Groups whose plan of a file was used, and why others were refused.
    used_plans: RefCell<FxHashSet<String>>,
    refused_plans: RefCell<Vec<String>>,
    /// When the current run has to end, including its compiler.
    deadline: Cell<Option<Instant>>,
    /// Compiled kernels, for all threads.
    kernels: Arc<SharedKernels>,
    forks: Forks,
    /// Memory of earlier results.
    spare: Rc<SpareMemory>,
    runs: Runs,
}

impl CpuBackend {
    /// Creates a backend. The compiler is looked for when the first group runs.
    pub fn new(settings: Settings) -> CpuBackend {
        CpuBackend {
            cache: DiskCache::new(settings.cache.as_deref()),
            settings,
            compiler: OnceCell::new(),
            device: OnceCell::new(),
            ptx_compiler: OnceCell::new(),
            blas: OnceCell::new(),
            lowered: RefCell::default(),
            compiled: RefCell::default(),
            by_identity: RefCell::default(),
            foreseen: RefCell::default(),
            divisions: RefCell::default(),
            undivided: RefCell::default(),
            plans: RefCell::default(),
            parts: RefCell::default(),
            counts: Cell::default(),
            remarks: RefCell::default(),
            findings: RefCell::default(),
            profile: RefCell::default(),
            used_plans: RefCell::default(),
            refused_plans: RefCell::default(),
            deadline: Cell::default(),
            kernels: Arc::default(),
            forks: Forks::default(),
            spare: Rc::default(),
            runs: Runs::default(),
        }
    }

    /// Its name on the command line.
    pub fn name(&self) -> &'static str {
        self.settings.engine.name()
    }

    /// Whether memory is guarded, and the seed of schedules.
    pub(super) fn how(&self) -> (bool, u32) {
        (self.settings.guarded, self.settings.schedule_seed)
    }

    /// The target of kernels.
    fn target(&self) -> &'static Target {
        self.settings.engine.target()
    }

    /// The errors in launches whose accesses were checked, each with its group.
    pub fn findings(&self) -> Vec<String> {
        self.findings.borrow().clone()
    }

    /// How launches accessed memory, where they were checked.
    pub fn memory_profile(&self) -> MemoryProfile {
        self.profile.borrow().clone()
    }

    pub(super) fn note_seen(&self, name: &str, seen: Observed) {
        let found = seen.findings;
        self.profile.borrow_mut().add_group(name, seen.profile);
        let mut findings = self.findings.borrow_mut();
        for finding in found.iter().map(|finding| format!("{name}: {finding}")) {
            if findings.len() < MOST_REASONS && !findings.contains(&finding) {
                findings.push(finding);
            }
        }
    }

    /// The counters so far.
    pub fn counts(&self) -> Counts {
        let own = Counts { allocated: self.spare.allocated(), ..self.counts.get() };
        own.and(&self.forks.counts())
    }

    /// Why groups ran on the interpreter, and what else took long, each reason once.
    pub fn remarks(&self) -> Vec<String> {
        let mut all = self.remarks.borrow().clone();
        let trouble = self.device.get().and_then(|opened| opened.as_ref().ok()?.0.graph_trouble());
        all.extend(trouble.map(|why| format!("launches that repeat are not one graph: {why}")));
        for remark in self.forks.remarks() {
            if !all.contains(&remark) {
                all.push(remark);
            }
        }
        all
    }

    /// Why plans of a file were refused, each with its group.
    pub fn refused_plans(&self) -> Vec<String> {
        self.refused_plans.borrow().clone()
    }

    /// The groups of a file of plans of which no kernel has been compiled.
    pub fn unused_plans(&self) -> Vec<String> {
        let used = self.used_plans.borrow();
        let groups = self.settings.plans.iter().flat_map(|plans| plans.groups());
        groups.filter(|group| !used.contains(*group)).map(str::to_owned).collect()
    }

    /// The compiler.
    ///
    /// # Errors
    /// The messages of the compilers that do not work.
    pub fn compiler(&self) -> Result<&Compiler, String> {
        let find = || {
            let (asked_for, cc) = (self.settings.compiler.as_deref(), self.settings.cc.as_deref());
            toolchain::find((asked_for, cc), self.settings.scalar, &self.cache, self.deadline.get())
        };
        self.compiler.get_or_init(find).as_ref().map_err(Clone::clone)
    }

    /// The GPU and its compiler.
    fn device(&self) -> Result<&(Rc<Device>, CudaCompiler), String> {
        let open = || {
            let driver = cuda_libraries::driver(self.settings.driver.as_deref())?;
            let nvrtc = cuda_libraries::compiler(self.settings.nvrtc.as_deref())?;
            let device = Device::open(self.settings.device, self.settings.graphs)?;
            let compiler = CudaCompiler::new((&nvrtc, &driver), device.facts.capability);
            Ok((device, compiler))
        };
        self.device.get_or_init(open).as_ref().map_err(Clone::clone)
    }

    /// Why there are no results, or wrong ones: no GPU can be used, or it has failed.
    pub fn failure(&self) -> Option<String> {
        match self.settings.engine {
            Engine::Device => match self.device() {
                Ok((device, _)) => device.wait().err().or_else(|| device.failure()),
                Err(why) => Some(why),
            },
            Engine::Ptx => self.ptx_compiler().err(),
            _ => None,
        }
    }

    /// Copies to and from a GPU so far.
    pub fn traffic(&self) -> Option<Traffic> {
        let opened = self.device.get()?.as_ref().ok()?;
        Some(opened.0.traffic())
    }

    /// Copies tensors to a GPU, where kernels read them.
    pub fn place(&self, values: &[IValue]) {
        if self.settings.engine == Engine::Device
            && let Ok((device, _)) = self.device()
        {
            // A value that cannot be copied now is tried again when a kernel needs it.
            values.iter().filter_map(IValue::tensor).for_each(|tensor| drop(on_device(tensor, device)));
        }
    }

    /// Waits until a GPU has done its work.
    pub fn wait(&self) {
        if let Some(Ok((device, _))) = self.device.get() {
            // A failure is kept.
            let _ = device.wait();
        }
    }

    fn count(&self, change: impl FnOnce(&mut Counts)) {
        let mut counts = self.counts.get();
        change(&mut counts);
        self.counts.set(counts);
    }

    /// Adds a remark, unless there is an equal one.
    fn remark(&self, remark: String) {
        let mut remarks = self.remarks.borrow_mut();
        if !remarks.contains(&remark) {
            remarks.push(remark);
        }
    }

    /// Remarks why the interpreter runs a group or a library call. In a loop there may be a reason
    /// for each size; only a few are reported.
    fn remark_fallback(&self, kind: Symbol, outputs: &str, why: &str) {
        let head = match kind {
            library::PRODUCT => format!("the interpreter computes the product {outputs}: "),
            library::CONVOLUTION => format!("the interpreter computes the convolution {outputs}: "),
            library::ATTENTION => format!("the interpreter computes the attention {outputs}: "),
            _ => format!("the group of {outputs} runs unfused: "),
        };
        let told = self.remarks.borrow().iter().filter(|remark| remark.starts_with(&head)).count();
        if told < MOST_REASONS {
            self.remark(head + why);
        }
    }

    fn run(
        &self,
        graph: &Graph,
        node: Node,
        section: &Graph,
        operands: &[IValue],
        env: &Environment,
    ) -> Result<Outs, String> {
        if env.precision == Precision::Double {
            return Err("floating-point elements are kept as doubles, which kernels do not support".to_owned());
        }
        let release = env.release.unwrap_or(graph.release());
        let operands: Vec<IValue> = operands.iter().map(unwrapped).collect();
        let (name, release) = (graph.kind(node).as_str(), (release.0, release.1));
        let request = Request { section, name, operands: &operands, release };
        self.deadline.set(env.deadline);
        let known = self.plans.borrow_mut().find(section.id().number(), &operands);
        let way = match known {
            Some(way) => way,
            None => self.way(request, graph, node)?,
        };
        match way {
            Way::Pieces(pieces) => self.run_pieces(request, &pieces),
            Way::Launch(plan) => {
                within_limits(&plan.kernel, &operands)?;
                let mut prepared = Prepared::new(plan, operands, self.how());
                let launched = prepared.launch()?;
                self.note_seen(name, prepared.seen());
                self.count(|counts| counts.launched += u64::from(launched));
                prepared.results()
            }
        }
    }

    /// Determines how a group runs on operands whose specification is new.
    fn way(&self, request: Request<'_>, graph: &Graph, node: Node) -> Result<Way, String> {
        let (units, begin) = (self.counts().units, Instant::now());
        let way = match self.settled(&request) {
            Ok(settled) => Way::Launch(self.planned(settled, request, Some((graph, node)))?),
            Err(why) => Way::Pieces(self.division(&request).ok_or(why)?),
        };
        if self.counts().units > units && begin.elapsed() >= PATIENCE {
            self.say_how_long(begin.elapsed(), request.section, &outputs(graph, node));
        }
        self.keep(request, way.clone());
        Ok(way)
    }

    fn keep(&self, request: Request<'_>, way: Way) {
        self.plans.borrow_mut().keep(request.section.id().number(), request.operands, way);
        self.count(|counts| counts.planned += 1);
    }

    fn say_how_long(&self, time: Duration, section: &Graph, outputs: &str) {
        let nodes = section.all_nodes().filter(|&node| section.kind(node) != prim::CONSTANT).count();
        if nodes >= MANY {
            let time = time.as_secs_f64();
            self.remark(format!("the compiler took {time:.0} s for the group of {outputs}, which has {nodes} nodes"));
        }
    }

    /// Prepares a group for repeated launches on operands; compiles it if needed.
    ///
    /// # Errors
    /// The reason why no kernel can compute it, as text for people.
    pub fn prepared(&self, request: Request<'_>) -> Result<Prepared, String> {
        let section = request.section.id().number();
        let plan = match self.plans.borrow_mut().find(section, request.operands) {
            Some(Way::Launch(plan)) => Some(plan),
            _ => None,
        };
        let plan = match plan {
            Some(plan) => plan,
            None => {
                let plan = self.planned(self.settled(&request)?, request, None)?;
                self.keep(request, Way::Launch(plan.clone()));
                plan
            }
        };
        within_limits(&plan.kernel, request.operands)?;
        Ok(Prepared::new(plan, request.operands.to_vec(), self.how()))
    }

    /// Compiles the kernels of several groups as one unit. Groups without a kernel are left out:
    /// running them reports why.
    pub fn compile_together(&self, groups: &[Request<'_>]) {
        if !self.settings.engine.compiles() {
            return;
        }
        let wanted = groups.iter().filter_map(|request| {
            let (_, kernel, geometry) = self.settled(request).ok()?;
            Wanted::new(&kernel, &geometry.traversal, self.target()).ok()
        });
        let wanted = self.new_ones(wanted.collect());
        if !wanted.is_empty() {
            // An error is reported to the groups that need the kernels.
            let _ = self.make(&wanted);
        }
    }

    fn settled(&self, request: &Request<'_>) -> Result<Settled, String> {
        let known: Vec<Known> = request.operands.iter().map(known).collect();
        let (kernel, geometry) = self.settled_for(request.section, request.name, &known, request.release)?;
        Ok((known.into_iter().map(|(argument, _)| argument).collect(), kernel, geometry))
    }

    fn settled_for(
        &self,
        section: &Graph,
        name: &str,
        known: &[Known],
        release: (u32, u32),
    ) -> Result<(Rc<Kernel>, Geometry), String> {
        let (arguments, views): (Vec<Argument>, Vec<Option<View>>) = known.iter().cloned().unzip();
        let kernel = self.lowered(section, name, &arguments, release)?;
        let mut geometry = settle(&kernel, &views)?;
        if self.parts_rows(&kernel, &geometry) {
            geometry.traversal.direction = Direction::Split;
        }
        Ok((kernel, geometry))
    }

    /// The number of threads of a launch.
    fn threads(&self, kernel: &Kernel, geometry: &Geometry) -> usize {
        if !self.settings.engine.has_workers() {
            return 1;
        }
        // Nests are executed by one thread, whatever the machine has.
        let usual = || if self.settings.engine.compiles() { processors() } else { 1 };
        let most = || self.settings.threads.unwrap_or_else(usual);
        self.settings.always_threads.unwrap_or_else(|| threads_worth(kernel, geometry, most()))
    }

    /// Whether there are fewer rows than threads that could reduce them.
    fn parts_rows(&self, kernel: &Kernel, geometry: &Geometry) -> bool {
        let are_few = || geometry.tiles(None) < self.threads(kernel, geometry) as i64;
        geometry.traversal.direction.has_inner_loop()
            && self.settings.engine.has_workers()
            && (self.settings.always_threads.is_some() || are_few())
            && can_be_split(kernel)
    }

    fn planned(
        &self,
        (arguments, kernel, geometry): Settled,
        request: Request<'_>,
        graph: Option<(&Graph, Node)>,
    ) -> Result<Rc<Plan>, String> {
        let compiled = self.kernel(&request, arguments, &kernel, &geometry, graph)?;
        let threads = self.threads(&kernel, &geometry);
        Ok(Rc::new(Plan::new(kernel, geometry, compiled, threads, self.settings.stream)))
    }

    fn lowered(
        &self,
        section: &Graph,
        name: &str,
        arguments: &[Argument],
        release: (u32, u32),
    ) -> Result<Rc<Kernel>, String> {
        let key = (section.id().number(), arguments.to_vec());
        let make = || lower(section, name, arguments, release).map(Rc::new).map_err(|refusal| refusal.why);
        self.lowered.borrow_mut().entry(key).or_insert_with(make).clone()
    }

    /// The kernel for a request; those that other groups of the graph are likely to need are
    /// compiled with it.
    fn kernel(
        &self,
        request: &Request<'_>,
        arguments: Vec<Argument>,
        kernel: &Rc<Kernel>,
        geometry: &Geometry,
        graph: Option<(&Graph, Node)>,
    ) -> Result<Rc<Compiled>, String> {
        let section = request.section.id().number();
        let key = (section, arguments, geometry.traversal.clone());
        if let Some(known) = self.compiled.borrow().get(&key) {
            return known.clone();
        }
        let wanted = self.wanted(graph, kernel, &geometry.traversal)?;
        let identity = wanted.identity;
        let known = || self.known_kernel(identity);
        self.foreseen.borrow_mut().insert(section);
        let made = match known() {
            Some(known) => Ok(known),
            None if !self.settings.engine.compiles() => executed(wanted),
            None => {
                let _making = self.kernels.making();
                if let Some(made) = known() {
                    return Ok(made);
                }
                let mut unit = vec![wanted];
                unit.extend(graph.into_iter().flat_map(|(graph, _)| self.likely(graph, request, &key.1)));
                let mut unit = self.new_ones(unit);
                let mut made = self.make(&unit);
                let is_over = self.deadline.get().is_some_and(|end| Instant::now() >= end);
                if made.is_err() && unit.len() > 1 && self.may_compile() && !is_over {
                    // An error in another kernel must not fail this one.
                    unit.truncate(1);
                    made = self.make(&unit);
                }
                made.and_then(|()| known().ok_or_else(|| "a kernel is not in its unit".to_owned()))
            }
        };
        self.compiled.borrow_mut().insert(key, made.clone());
        made
    }

    /// A kernel that was made before, here or for another thread.
    fn known_kernel(&self, identity: Identity) -> Option<Rc<Compiled>> {
        if let Some(known) = self.by_identity.borrow().get(&identity) {
            return Some(known.clone());
        }
        let compiled = Rc::new(self.kernels.find(identity)?);
        self.by_identity.borrow_mut().insert(identity, compiled.clone());
        Some(compiled)
    }

    /// Keeps a kernel, for other threads, too.
    fn keep_kernel(&self, identity: Identity, compiled: Compiled) {
        self.kernels.keep(identity, &compiled);
        self.by_identity.borrow_mut().insert(identity, Rc::new(compiled));
    }

    /// Whether there is a compiler, so that a unit may compile where another one did not.
    fn may_compile(&self) -> bool {
        match self.settings.engine {
            Engine::Device => self.device().is_ok(),
            Engine::Ptx => self.ptx_compiler().is_ok(),
            _ => self.compiler().is_ok(),
        }
    }

    /// A kernel with its plan: that of the file, if it has one for the group, or the usual one.
    fn wanted(&self, graph: Option<(&Graph, Node)>, kernel: &Kernel, traversal: &Traversal) -> Result<Wanted, String> {
        let named = graph.zip(self.settings.plans.as_ref());
        let group = named.map(|((graph, node), plans)| (plans, outputs(graph, node)));
        let Some((entry, group)) = group.and_then(|(plans, group)| Some((plans.find(&group)?, group))) else {
            return Wanted::new(kernel, traversal, self.target());
        };
        match entry.resolve(kernel, traversal, self.target()) {
            Ok(plan) => {
                self.used_plans.borrow_mut().insert(group);
                Wanted::planned(kernel, traversal, &plan, self.target())
            }
            Err(why) => {
                let why = format!("the group of {group}: {why}");
                self.refused_plans.borrow_mut().push(why.clone());
                Err(why)
            }
        }
    }

    /// The kernels that other groups of a graph are likely to need, by the types of their params:
    /// contiguous operands, and where a type has no element type, that of the operands at hand. A
    /// likely kernel is compiled once; a group that then gets other operands is compiled when it
    /// runs.
    fn likely(&self, graph: &Graph, request: &Request<'_>, arguments: &[Argument]) -> Vec<Wanted> {
        let usual = arguments.iter().find_map(|argument| match argument {
            Argument::Tensor { dtype, .. } if dtype.is_float() => Some(*dtype),
            _ => None,
        });
        let groups = graph.all_nodes().filter(|&node| graph.kind(node) == prim::FUSION_GROUP);
        let likely = groups.filter_map(|node| {
            let section = graph.subgraph(node)?;
            self.foreseen.borrow_mut().insert(section.id().number()).then_some(())?;
            let (arguments, _) = arguments_of_types(section, usual.unwrap_or(DType::Float));
            let kernel = self.lowered(section, graph.kind(node).as_str(), &arguments, request.release).ok()?;
            let traversal = geometry::likely(&kernel).ok()?.traversal;
            self.wanted(Some((graph, node)), &kernel, &traversal).ok()
        });
        likely.take(MOST_FORESEEN).collect()
    }

    /// Those that have not been compiled, each once.
    fn new_ones(&self, mut wanted: Vec<Wanted>) -> Vec<Wanted> {
        let mut seen: FxHashSet<Identity> = FxHashSet::default();
        let known = self.by_identity.borrow();
        wanted.retain(|wanted| !known.contains_key(&wanted.identity) && seen.insert(wanted.identity));
        wanted
    }

    /// Takes a unit of kernels from disk, or compiles it.
    fn make(&self, unit: &[Wanted]) -> Result<(), String> {
        let names: Vec<String> = (0..unit.len()).map(|i| format!("{NAME}_{i}")).collect();
        let function = |(name, wanted): (&String, &Wanted)| self.target().printed(name, &wanted.nests);
        let functions: Vec<SourceText> = names.iter().zip(unit).map(function).collect();
        let text = (self.target().unit)(&functions);
        let source = match self.settings.engine {
            Engine::Emulated | Engine::Checked => {
                let all: Vec<String> =
                    names.iter().zip(unit).flat_map(|(name, wanted)| wanted.nests.names(name)).collect();
                emulated_launch::source(&text, &all, self.settings.engine == Engine::Checked)
            }
            Engine::Device => return self.make_on_device(&names, unit, &text),
            Engine::Ptx => return self.make_of_ptx(&names, unit, text),
            Engine::Compiled | Engine::Nests => text.clone(),
        };
        let truncates = unit.iter().any(|wanted| wanted.nests.truncates());
        let (library, text) = (self.opened((&source, truncates), unit.len() as u64)?, Rc::new(text));
        for (name, wanted) in names.iter().zip(unit) {
            let code = self.code(name, wanted, &library, &text)?;
            self.keep_kernel(wanted.identity, Compiled { code, tile: wanted.tile, phases: wanted.phases });
        }
        Ok(())
    }

    /// Compiles a unit for the GPU.
    fn make_on_device(&self, names: &[String], unit: &[Wanted], text: &SourceText) -> Result<(), String> {
        let module = Rc::new(self.module(text, unit.len() as u64)?);
        for (name, wanted) in names.iter().zip(unit) {
            let total = |(store, _): &(usize, _)| Ok((*store, module.function(&total_name(name, *store))?));
            let kernel = DeviceKernel {
                functions: functions_of(name, &wanted.nests, |name| module.function(name))?,
                split: split_functions_of(name, &wanted.nests, |name| module.function(name))?,
                totals: wanted.nests.totals.iter().map(total).collect::<Result<_, String>>()?,
                grid: wanted.grid.ok_or("a plan for GPUs has no grid")?,
                module: module.clone(),
            };
            let compiled = Compiled { code: Code::Device(kernel), tile: wanted.tile, phases: None };
            self.by_identity.borrow_mut().insert(wanted.identity, Rc::new(compiled));
        }
        Ok(())
    }

    /// The module of a text, from disk or compiled.
    fn module(&self, text: &SourceText, kernels: u64) -> Result<Module, String> {
        let (device, compiler) = self.device()?;
        let (known_by, identity) = (text.code(), compiler.identity());
        let kept = self.cache.library(&known_by, &identity).and_then(|path| std::fs::read(path).ok());
        if let Some(Ok(module)) = kept.map(|image| device.module(&image)) {
            self.count(|counts| counts.cached += kernels);
            return Ok(module);
        }
        let image = compiler.compile(text.text())?;
        self.count(|counts| {
            counts.compiled += kernels;
            counts.units += 1;
        });
        let module = device.module(&image).map_err(|why| format!("{why}; {}", compiler.versions()))?;
        self.keep_image(&known_by, &identity, &image);
        Ok(module)
    }

    /// Keeps machine code, or PTX, on disk.
    fn keep_image(&self, known_by: &str, identity: &str, image: &[u8]) {
        let Ok(folder) = self.cache.private_folder() else { return };
        let path = folder.0.join("unit.image");
        // A failure only means that it is compiled again.
        if std::fs::write(&path, image).is_ok() {
            self.cache.keep(known_by, identity, &path);
        }
    }

    /// The code that a launch of a compiled kernel runs.
    fn code(&self, name: &str, wanted: &Wanted, library: &Arc<Loaded>, text: &Rc<SourceText>) -> Result<Code, String> {
        let Some(grid) = wanted.grid else {
            return Ok(Code::Function(library.kernel(name)?, library.clone()));
        };
        self.emulated((name, wanted, grid), Image::Compiled(library.clone()), text)
    }

    /// An emulated kernel of an image.
    fn emulated(
        &self,
        (name, wanted, grid): (&str, &Wanted, Grid),
        image: Image,
        text: &Rc<SourceText>,
    ) -> Result<Code, String> {
        let total = |(store, _): &(usize, _)| Ok((*store, image.entry(&total_name(name, *store))?));
        Ok(Code::Emulated(Emulated {
            functions: functions_of(name, &wanted.nests, |name| image.entry(name))?,
            split: split_functions_of(name, &wanted.nests, |name| image.entry(name))?,
            totals: wanted.nests.totals.iter().map(total).collect::<Result<_, String>>()?,
            image,
            grid,
            has_barriers: wanted.nests.own.has_barriers(),
            text: text.clone(),
            is_checked: self.settings.engine == Engine::Checked,
        }))
    }

    /// The library of a unit that truncates floats or does not, from disk or compiled.
    fn opened(&self, (text, truncates): (&SourceText, bool), kernels: u64) -> Result<Arc<Loaded>, String> {
        let (compiler, known_by) = (self.compiler()?, text.code());
        if let Some(Ok(found)) = self.cache.library(&known_by, compiler.identity()).map(|path| Loaded::open(&path)) {
            self.count(|counts| counts.cached += kernels);
            return Ok(Arc::new(found));
        }
        if let Some(trouble) = self.cache.trouble() {
            self.remark(format!("kernels are not kept, so that each run compiles them: {trouble}"));
        }
        let folder =
            self.cache.private_folder().map_err(|error| format!("cannot create a folder to compile in: {error}"))?;
        let path = compiler
            .compile((text.text(), truncates), &folder.0, self.deadline.get())
            .map_err(|why| format!("the compiler `{}`: {why}", compiler.name()))?;
        self.count(|counts| {
            counts.compiled += kernels;
            counts.units += 1;
        });
        // The library stays open when its file is removed.
        let library = Loaded::open(&path)?;
        self.cache.keep(&known_by, compiler.identity(), &path);
        Ok(Arc::new(library))
    }
}

/// A kernel as a nest, which is executed.
fn executed(wanted: Wanted) -> Result<Rc<Compiled>, String> {
    verify(&wanted.nests.own).map_err(|why| format!("its nest is wrong: {why}"))?;
    Ok(Rc::new(Compiled { code: Code::Nest(wanted.nests.own), tile: wanted.tile, phases: None }))
}

/// The common part of the names of a unit's kernels, each with a number.
const NAME: &str = "jo_kernel";

impl Backend for CpuBackend {
    fn fork(&self, _: &Graph, _: Node, body: &Graph, operands: &[IValue], env: &Environment) -> Option<Future> {
        self.forked(body, operands, env)
    }

    fn begins(&self, graph: &Graph, arguments: &[IValue], env: &Environment) {
        self.run_begins(graph, arguments, env);
    }

    fn ends(&self, env: &Environment, is_complete: bool) {
        self.run_ends(env, is_complete);
    }

    fn section(
        &self,
        graph: &Graph,
        node: Node,
        section: &Graph,
        operands: &[IValue],
        env: &Environment,
    ) -> Option<Outs> {
        let _open = (self.settings.engine == Engine::Compiled).then(|| self.spare.open());
        let ran = match graph.kind(node) {
            prim::FUSION_GROUP => self.run(graph, node, section, operands, env),
            kind @ (library::PRODUCT | library::CONVOLUTION | library::ATTENTION) => match self.settings.engine {
                Engine::Device if kind == library::PRODUCT => {
                    self.run_device_product((graph, node), section, operands, env)
                }
                Engine::Compiled => self.run_library((graph, node), section, operands, env),
                _ => return None,
            },
            _ => return None,
        };
        match ran {
            Ok(results) => Some(results),
            Err(why) => {
                self.count(|counts| counts.fallen_back += 1);
                self.remark_fallback(graph.kind(node), &outputs(graph, node), &why);
                None
            }
        }
    }
}

/// A traced number as a plain number.
fn unwrapped(value: &IValue) -> IValue {
    let number = value.tensor().filter(|tensor| tensor.is_number()).map(Tensor::item);
    number.map_or_else(|| value.clone(), IValue::from)
}
