//! Command-line grammar: one struct per subcommand; the doc comments are the help texts.

use crate::World;
use crate::cmd_audit::AuditArgs;
use crate::cmd_bench::BenchArgs;
use crate::cmd_export::ExportArgs;
use crate::cmd_inspect::InspectArgs;
use crate::cmd_lint::LintArgs;
use crate::cmd_merge::MergeArgs;
use crate::cmd_probe::ProbeArgs;
use crate::cmd_tune::TuneArgs;
use crate::engine_options::Releases;
use crate::several::ShardArg;
use clap::builder::PossibleValuesParser;
use clap::{Args, Parser, Subcommand, ValueEnum};
use jitopt_core::interpreter::Release;
use jitopt_core::runtime::{Engine, GraphPolicy};
use jitopt_engine::{CalleeOf, ContentOf, Expected, FileOf, Filling, SizesOf};
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  jitopt in.ir                                        verify and print the same bytes back
  jitopt --passes='cse,constant-pooling,dce' in.ir    IR in, IR out
  jitopt samples lstm_cell | jitopt --passes='@default' --stats
  JIT_LOG_LEVEL='>dce' jitopt --passes='cse,dce' in.ir
  jitopt extract build.log

Pipelines and JIT_LOG_LEVEL contain characters that shells interpret: quote them.
Exit codes: 0 success, 1 a check or a pass failed, 2 usage error, 3 parse error, 4 verifier error,
5 results differ from the expected values, 6 step or time limit reached, 70 bug in jitopt.";

/// Reads, verifies, transforms and prints TorchScript IR.
#[derive(Debug, Parser)]
#[command(name = "jitopt", version, about = "Pass toolkit for the TorchScript textual IR", after_help = EXAMPLES)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true, max_term_width = 110)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Option<Command>,

    /// Input files; stdin if `-` or none
    pub(crate) files: Vec<PathBuf>,

    #[command(flatten)]
    pub(crate) choice: crate::archive_options::ChoiceArgs,
    #[command(flatten)]
    pub(crate) input: InputArgs,
    #[command(flatten)]
    pub(crate) pipeline: PipelineArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
    #[command(flatten)]
    pub(crate) watch: WatchArgs,

    /// When to use colours in messages
    #[arg(long, value_name = "WHEN", default_value = "auto", require_equals = true, global = true)]
    pub(crate) color: When,

    #[command(flatten)]
    pub(crate) declared: DeclaredArgs,
}

/// Operators that PyTorch does not define.
#[derive(Debug, Args)]
#[command(next_help_heading = "Custom operators")]
pub(crate) struct DeclaredArgs {
    /// Declare a custom operator in PyTorch's schema syntax: `my::scale(Tensor x, float by=2.) ->
    /// Tensor`. It is assumed pure unless the schema annotates aliasing: `my::fill_(Tensor(a!) x)
    /// -> Tensor(a!)`; may be repeated
    #[arg(long, value_name = "SCHEMA", global = true)]
    pub(crate) schema: Vec<String>,
    /// File of schemas, one per line; `#` starts a comment; may be repeated
    #[arg(long, value_name = "FILE", global = true)]
    pub(crate) schemas: Vec<PathBuf>,
}

/// When to use colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum When {
    Auto,
    Always,
    Never,
}

impl Cli {
    pub(crate) fn colours(&self, world: &World<'_>) -> bool {
        match self.color {
            When::Always => true,
            When::Never => false,
            When::Auto => world.colour && !world.env.contains_key("NO_COLOR"),
        }
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a graph on tensors with PyTorch's semantics
    Run(Box<RunArgs>),
    /// Run a graph and record the tensor types observed
    Profile(Box<ProfileArgs>),
    /// Run a graph before and after passes, or two graphs, and compare their observable behaviour
    Validate(ValidateArgs),
    /// Find the rewrites that make a pipeline produce wrong results
    Bisect(BisectArgs),
    /// Reduce a failing graph to a minimal one
    Reduce(ReduceArgs),
    /// Generate random executable graphs
    Smith(SmithArgs),
    /// Report the structural differences of two graphs; names and legal reordering are ignored
    Diff(DiffArgs),
    /// Report known PyTorch miscompilations that affect a graph
    Lint(LintArgs),
    /// Report which operators fuse into kernels, which do not and why, and which edits would help
    Explain(ExplainArgs),
    /// Measure graphs after a pipeline against the same graphs without fusion
    Bench(Box<BenchArgs>),
    /// Search for plans under which the kernels of a graph take less time
    Tune(Box<TuneArgs>),
    /// Extract graphs from a PyTorch log
    Extract(ExtractArgs),
    /// Report the effects of the program in an archive, at load and when called; refuse unsafe ones
    Audit(AuditArgs),
    /// Add up results that many processes wrote with --json
    Merge(MergeArgs),
    /// Show what is in a .pt, .ptl or .pt2 archive, without running anything
    Inspect(InspectArgs),
    /// Write the weights of an archive as a safetensors file
    Export(ExportArgs),
    /// Report the compilers, CUDA libraries and GPUs of this machine, and what each enables
    Probe(ProbeArgs),
    /// Print the embedded sample graphs
    Samples(SamplesArgs),
    /// Print a chapter of the guide, or list the chapters
    Guide(GuideArgs),
    /// Run lit tests
    Test(TestArgs),
    /// Check a text against CHECK lines, with the semantics of LLVM's FileCheck or of PyTorch's
    Filecheck(FilecheckArgs),
    /// Print a completion script for a shell
    Completions(CompletionsArgs),
}

impl Command {
    /// Whether it takes graphs, which may be those of archives.
    pub(crate) fn reads_graphs(&self) -> bool {
        use Command::{Bench, Bisect, Diff, Explain, Lint, Profile, Reduce, Run, Tune, Validate};
        matches!(
            self,
            Run(_)
                | Profile(_)
                | Validate(_)
                | Bisect(_)
                | Reduce(_)
                | Diff(_)
                | Lint(_)
                | Explain(_)
                | Bench(_)
                | Tune(_)
        )
    }
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Input")]
pub(crate) struct InputArgs {
    /// PyTorch release whose semantics apply, such as 1.3, 1.8.1 or 2.15 [default: the newest
    /// release that prints such text]
    #[arg(long, value_name = "VERSION", require_equals = true)]
    pub(crate) torch: Option<Release>,
    /// Split each file into its graphs
    #[arg(long)]
    pub(crate) split_input_file: bool,
    #[command(flatten)]
    pub(crate) archive: crate::archive_options::ArchiveArgs,
    /// JSON description of the arguments: parameters get element types, ranks, devices and
    /// requires_grad
    #[arg(long, value_name = "FILE")]
    pub(crate) args: Option<PathBuf>,
    /// Sizes of a parameter, written into its type; `%x=` is zero-dimensional; may be repeated
    #[arg(long, value_name = "%X=SIZES")]
    pub(crate) shape: Vec<SizesOf>,
    /// Which properties of the tensors of --args are written into types: the rank, or sizes and
    /// strides too
    #[arg(long, value_name = "WHAT", default_value = "rank", require_equals = true, requires = "args")]
    #[arg(value_parser = PossibleValuesParser::new(["rank", "sizes"]))]
    pub(crate) specialize: String,
    /// Graph that `inline` substitutes for calls of NAME; may be repeated
    #[arg(long, value_name = "NAME=FILE")]
    pub(crate) callee: Vec<CalleeOf>,
    /// Do not verify the input and output graphs; passes still refuse a graph with structural
    /// errors
    #[arg(long)]
    pub(crate) no_verify: bool,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Passes")]
pub(crate) struct PipelineArgs {
    /// Passes to run: `a,b{opt=1 flag},fixpoint(a,b){max=8},forward(a),backward(b),@named`
    #[arg(long, value_name = "PIPELINE", conflicts_with = "passes_file")]
    pub(crate) passes: Option<String>,
    /// File that contains the pipeline; `#` starts a comment
    #[arg(long, value_name = "FILE")]
    pub(crate) passes_file: Option<PathBuf>,
    /// List passes with their options and an example
    #[arg(long, value_name = "FORMAT", num_args = 0..=1, require_equals = true, default_missing_value = "text")]
    #[arg(value_parser = PossibleValuesParser::new(["text", "json", "markdown"]))]
    pub(crate) list_passes: Option<String>,
    /// Print the pipeline as run, with named pipelines expanded
    #[arg(long)]
    pub(crate) print_pipeline: bool,
    /// Do not verify the graph after each pass
    #[arg(long)]
    pub(crate) no_verify_each: bool,
    /// Restrict a rule to these rewrites, counted from 1: `dce.nodes-erased=1-5:9`; may be repeated
    #[arg(long, value_name = "RULE=RANGES")]
    pub(crate) debug_counter: Vec<String>,
    /// Skip a pass; may be repeated
    #[arg(long, value_name = "PASS")]
    pub(crate) disable: Vec<String>,
    #[command(flatten)]
    pub(crate) seen: ProfileArg,
    /// Cache the results of pipelines, and reuse them for graphs that differ only in properties
    /// that the passes do not read: `memory`, or a directory
    #[arg(long, value_name = "PLACE", require_equals = true)]
    pub(crate) transform_cache: Option<String>,
    /// Run the passes even on a cache hit, and compare the results
    #[arg(long, requires = "transform_cache")]
    pub(crate) transform_cache_verify: bool,
    /// Run the graph before and after the passes and compare: at the end, after each pass, or after
    /// each rewrite
    #[arg(long, value_name = "WHEN", num_args = 0..=1, require_equals = true, default_missing_value = "end")]
    #[arg(value_parser = PossibleValuesParser::new(["end", "pass", "rewrite"]))]
    pub(crate) validate: Option<String>,
    /// Directory for reproducers of failed validations
    #[arg(long, value_name = "DIR", requires = "validate")]
    pub(crate) repro_dir: Option<PathBuf>,
}

/// Observed types of a graph, for the passes that read a profile.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct ProfileArg {
    /// Profile of observed tensor types, written by `jitopt profile` and read by `insert-guards`
    #[arg(long, value_name = "FILE")]
    pub(crate) profile: Option<PathBuf>,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Output")]
pub(crate) struct OutputArgs {
    /// Output file; `-` is stdout [default: stdout]
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Write each result into this folder, under the name of its file
    #[arg(long, value_name = "DIR", conflicts_with = "output")]
    pub(crate) output_dir: Option<PathBuf>,
    /// Print as PyTorch's parser reprints: no comments, outputs numbered densely
    #[arg(long)]
    pub(crate) canonical: bool,
    /// Verbosity of types, 0 to 4, as JIT_TYPE_VERBOSITY and PYTORCH_JIT_TYPE_VERBOSITY
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(0..=4), require_equals = true)]
    pub(crate) type_verbosity: Option<u8>,
    /// Print in the dialect of another PyTorch release, such as 1.3 or 2.15; report what it cannot
    /// express
    #[arg(long, value_name = "VERSION", require_equals = true)]
    pub(crate) print_as: Option<Release>,
    /// Output format: the IR, TorchScript source as PyTorch's `.code`, register-machine code, a
    /// Graphviz drawing, the kernels of fusion groups in C or CUDA, their loops, how each is
    /// scheduled (for `run --plan`), the PTX that NVRTC or clang makes of them, the fusion
    /// candidates with their savings as JSON, or the origin of each type: declared, inferred,
    /// guarded or profiled
    #[arg(long, value_name = "FORM", default_value = "ir", require_equals = true)]
    #[arg(value_parser = PossibleValuesParser::new(["ir", "python", "code", "dot", "c", "nest", "plan", "cuda", "cuda-nest", "cuda-plan", "ptx", "fusion-candidates", "types"]))]
    pub(crate) emit: String,
    /// The plans of kernels, as `--emit=plan` prints them, for `--emit=nest`, `plan` and `c`; an
    /// illegal one is refused
    #[arg(long, value_name = "FILE")]
    pub(crate) plan: Option<PathBuf>,
    /// Annotate each node that writes to memory with a comment: what it writes, and which values
    /// observe it. The comments do not affect parsing
    #[arg(long, conflicts_with_all = ["canonical", "print_alias"])]
    pub(crate) print_mutations: bool,
    /// Print alias sets instead of the graph
    #[arg(long)]
    pub(crate) print_alias: bool,
    /// Check that the output parses back to the same text
    #[arg(long)]
    pub(crate) verify_roundtrip: bool,
    /// Number of files processed in parallel
    #[arg(short, long, value_name = "N", default_value_t = 1)]
    pub(crate) jobs: usize,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Diagnostics (all to stderr)")]
pub(crate) struct WatchArgs {
    /// Print the graph before this pass; may be repeated
    #[arg(long, value_name = "PASS")]
    pub(crate) print_before: Vec<String>,
    /// Print the graph after this pass; may be repeated
    #[arg(long, value_name = "PASS")]
    pub(crate) print_after: Vec<String>,
    /// Print the graph after every pass
    #[arg(long)]
    pub(crate) print_after_all: bool,
    /// Print what each pass changed
    #[arg(long, value_name = "HOW", num_args = 0..=1, require_equals = true, default_missing_value = "full")]
    #[arg(value_parser = PossibleValuesParser::new(["full", "diff", "word"]))]
    pub(crate) print_changed: Option<String>,
    /// Write the graph after each pass that changed it into this directory, with one subdirectory
    /// per file
    #[arg(long, value_name = "DIR")]
    pub(crate) print_tree_dir: Option<PathBuf>,
    /// Write an HTML report of the passes: times, side-by-side changes, a drawing of the graph with
    /// its groups, kernels, counters
    #[arg(long, value_name = "FILE.html", require_equals = true)]
    pub(crate) report: Option<PathBuf>,
    /// In the output of these options, keep only the lines that contain this text, under their
    /// titles
    #[arg(long, value_name = "TEXT")]
    pub(crate) filter_print: Option<String>,
    /// Print the time spent in each pass
    #[arg(long, value_name = "FORMAT", num_args = 0..=1, require_equals = true, default_missing_value = "table")]
    #[arg(value_parser = PossibleValuesParser::new(["table", "json", "trace"]))]
    pub(crate) time_passes: Option<String>,
    /// Print the counters
    #[arg(long, value_name = "FORMAT", num_args = 0..=1, require_equals = true, default_missing_value = "table")]
    #[arg(value_parser = PossibleValuesParser::new(["table", "json"]))]
    pub(crate) stats: Option<String>,
    /// Print which rewrites were applied and which were not, and why
    #[arg(long, value_name = "FORMAT", num_args = 0..=1, require_equals = true, default_missing_value = "text")]
    #[arg(value_parser = PossibleValuesParser::new(["text", "json"]))]
    pub(crate) remarks: Option<String>,
    /// Log levels, in the syntax of JIT_LOG_LEVEL: `dce:>cse`
    #[arg(long, value_name = "ITEMS")]
    pub(crate) log: Option<String>,
}

const RUN_EXAMPLES: &str = "\
Examples:
  jitopt run case.ir                                 reads case.json and case.inputs.safetensors in the same folder
  jitopt run in.ir --inputs x.safetensors --args x.json --outputs y.safetensors
  jitopt run in.ir --seed 7 --shape '%x=3,4'         generates inputs that fit the graph
  jitopt run in.ir --bind '%self.conv1.weight=w.npy' --fill-unknown=random:1
  jitopt run case.ir --expect case.outputs.safetensors
  jitopt run case.df.ir                              reads df_inputs of case.json, and case.df_inputs.safetensors
  jitopt run case.ir --backend=cpu --stats           runs fusion groups as compiled kernels
  jitopt run case.ir --grad-outputs g.safetensors --grads out.safetensors
                                                     forward and backward; --passes apply to both graphs

Inputs and outputs are named by the keys of the description; without one, inputs are in0, in1, … or the names of the
parameters, and outputs are out, or out.0, out.1, … The printed description of the outputs has the format of `--args`.";

/// One graph, its inputs, and the checks on the run.
#[derive(Clone, Debug, Default, Args)]
#[command(after_help = RUN_EXAMPLES)]
pub(crate) struct RunArgs {
    /// The graphs; stdin if `-` or none
    pub(crate) files: Vec<PathBuf>,

    /// Number of files run in parallel
    #[arg(short, long, value_name = "N", default_value_t = 1)]
    pub(crate) jobs: usize,
    #[command(flatten)]
    pub(crate) shard: ShardArg,
    /// Write the outputs of each graph into this folder, as NAME.outputs.safetensors
    #[arg(long, value_name = "DIR", conflicts_with = "outputs")]
    pub(crate) output_dir: Option<PathBuf>,
    /// Print one line of JSON for each graph: its verdict, outputs and messages
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) values: RunValues,
    #[command(flatten)]
    pub(crate) checks: RunChecks,
    #[command(flatten)]
    pub(crate) semantics: RunSemantics,
}

const PROFILE_EXAMPLES: &str = "\
Examples:
  jitopt profile case.ir                             writes case.prof; reads inputs as `jitopt run` does
  jitopt profile case.ir --inputs more.safetensors --merge-profile case.prof -o case.prof
  jitopt --passes='insert-guards,guard-elimination,insert-bailouts' --profile=case.prof case.ir

A graph without `prim::profile` nodes is instrumented first. Profiles do not depend on value names.";

/// One graph and its inputs, to record observed types.
#[derive(Clone, Debug, Default, Args)]
#[command(after_help = PROFILE_EXAMPLES)]
pub(crate) struct ProfileArgs {
    /// Output file; `-` is stdout [default: the graph's path with the extension `.prof`]
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) run: RunArgs,
}

#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Values")]
pub(crate) struct RunValues {
    /// Input tensors: a safetensors, .npz or .npy file
    #[arg(long, value_name = "FILE")]
    pub(crate) inputs: Option<PathBuf>,
    /// JSON description of the inputs, and for --expect of the outputs and tolerances
    #[arg(long, value_name = "FILE")]
    pub(crate) args: Option<PathBuf>,
    /// Write the output tensors: safetensors, or .npz by extension
    #[arg(long, value_name = "FILE")]
    pub(crate) outputs: Option<PathBuf>,
    /// Gradients of the outputs, under their keys: safetensors, .npz or .npy; an output without one
    /// does not contribute. `ones` is 1 in each element of each output
    #[arg(long, value_name = "FILE|ones")]
    pub(crate) grad_outputs: Option<PathBuf>,
    /// Write the gradients of the inputs, under their keys: safetensors, or .npz by extension; `-`
    /// only prints them
    #[arg(long, value_name = "FILE")]
    pub(crate) grads: Option<PathBuf>,
    /// Generate missing inputs from their types and uses, with this seed
    #[arg(long, value_name = "N")]
    pub(crate) seed: Option<u64>,
    /// Shape of a generated tensor; `%x=` is zero-dimensional; may be repeated
    #[arg(long, value_name = "%X=SIZES")]
    pub(crate) shape: Vec<SizesOf>,
    /// Distribution of generated inputs
    #[arg(long, value_name = "STYLE", requires = "seed", require_equals = true)]
    #[arg(value_parser = PossibleValuesParser::new(["ordinary", "adversarial", "broadcasting", "tiny", "aliased"]))]
    pub(crate) style: Option<String>,
    /// Content of a constant, attribute or parameter that the text does not show; FILE:KEY selects
    /// one tensor of several, those of a list are called `0`, `1`, …; `prim::fork_0/%v` is a value
    /// of a section, `%list[1]` an element; values without tensors are written inline, `[1, 2]` or
    /// `{"a": 1}`; may be repeated
    #[arg(long, value_name = "%V=FILE")]
    pub(crate) bind: Vec<ContentOf>,
    /// Directory of such contents: V.npy binds %V, prim::fork_0/V.npy a value of a section,
    /// V.safetensors the attributes of %V
    #[arg(long, value_name = "DIR")]
    pub(crate) bind_dir: Option<PathBuf>,
    /// Generate contents that are not bound: zeros, ones, random, or random:SEED
    #[arg(long, value_name = "HOW", num_args = 0..=1, require_equals = true, default_missing_value = "random")]
    pub(crate) fill_unknown: Option<Filling>,
    /// Use this value instead of computing it; `prim::FusionGroup_0/%v` is a value of a section;
    /// may be repeated
    #[arg(long, value_name = "%V=FILE")]
    pub(crate) replay: Vec<FileOf>,
}

#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Checks")]
pub(crate) struct RunChecks {
    /// Compare the outputs with a file, or any value: `%57=w.npy`, in a section
    /// `prim::FusionGroup_0/%v=w.npy`; a parameter is compared after the run, a value computed
    /// several times by its last one; may be repeated
    #[arg(long, value_name = "[%V=]FILE")]
    pub(crate) expect: Vec<Expected>,
    /// Compare the gradients of the inputs with a file; may be repeated
    #[arg(long, value_name = "FILE")]
    pub(crate) expect_grads: Vec<PathBuf>,
    /// Relative tolerance [default: that of the description, or of torch.testing.assert_close]
    #[arg(long, value_name = "X")]
    pub(crate) rtol: Option<f64>,
    /// Absolute tolerance
    #[arg(long, value_name = "X")]
    pub(crate) atol: Option<f64>,
    /// Report the first node that produces NaN or infinity from finite operands
    #[arg(long)]
    pub(crate) assert_finite: bool,
    /// Print the result of each node to stderr
    #[arg(long)]
    pub(crate) steps: bool,
    /// Stop after N nodes
    #[arg(long, value_name = "N")]
    pub(crate) max_steps: Option<u64>,
    /// Stop after this time, input generation included; a started operator is completed
    #[arg(long, value_name = "SECONDS")]
    pub(crate) timeout: Option<f64>,
    /// Run nothing; report which operator kinds the files contain, and whether they can run
    #[arg(long)]
    pub(crate) coverage: bool,
    /// Write the tensor types observed at `prim::profile` nodes, for `--profile`
    #[arg(long, value_name = "FILE")]
    pub(crate) record_profile: Option<PathBuf>,
    /// Merge a profile of earlier runs of the same graph into this one; may be repeated
    #[arg(long, value_name = "FILE")]
    pub(crate) merge_profile: Vec<PathBuf>,
    /// Report which guards failed, on which values, and where the run resumed
    #[arg(long)]
    pub(crate) trace_bailouts: bool,
    /// Whether only the profile is requested.
    #[arg(skip)]
    pub(crate) only_profile: bool,
}

#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Semantics")]
pub(crate) struct RunSemantics {
    /// Compute all floating-point values in f64, whatever their type: the reference that results
    /// are compared with
    #[arg(long)]
    pub(crate) f64: bool,
    /// PyTorch release whose results are reproduced, such as 1.3, 1.8.1 or 2.15 [default: the
    /// newest release that prints such text]
    #[arg(long, value_name = "VERSION", require_equals = true)]
    pub(crate) torch: Option<Release>,
    /// Graph of a called function or method; may be repeated
    #[arg(long, value_name = "NAME=FILE")]
    pub(crate) callee: Vec<CalleeOf>,
    /// Passes to run first
    #[arg(long, value_name = "PIPELINE")]
    pub(crate) passes: Option<String>,
    #[command(flatten)]
    pub(crate) seen: ProfileArg,
    /// Do not verify the graph after passes; structural errors are still refused
    #[arg(long)]
    pub(crate) no_verify: bool,
    #[command(flatten)]
    pub(crate) backend: BackendArgs,
    /// How kernels are scheduled: what `--emit=plan` prints, edited. Groups that the file does not
    /// name are scheduled as usual; a plan that is not legal is refused
    #[arg(long, value_name = "FILE")]
    pub(crate) plan: Option<PathBuf>,
    /// Print the counters, and the time, bytes and rate of each operator and kernel
    #[arg(long, value_name = "FORMAT", num_args = 0..=1, require_equals = true, default_missing_value = "table")]
    #[arg(value_parser = PossibleValuesParser::new(["table", "json"]))]
    pub(crate) stats: Option<String>,
}

/// Backend for fusion groups.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct BackendArgs {
    /// Backend for fusion groups: the interpreter, kernels compiled from C, the loops of kernels
    /// executed without a compiler, or kernels in CUDA whose blocks of threads the processor
    /// emulates, with each access of memory checked or without, whose PTX, made by NVRTC or clang,
    /// is interpreted, or that a GPU runs. JITOPT_CC or CC names the compiler, JITOPT_CLANG the one
    /// of PTX, JITOPT_NVRTC, JITOPT_CUBLAS and JITOPT_CUDA_DRIVER the libraries of CUDA,
    /// JITOPT_CACHE the directory of compiled kernels
    #[arg(long, value_name = "WHO", default_value = "interp", require_equals = true)]
    #[arg(value_parser = PossibleValuesParser::new(["interp"].into_iter().chain(Engine::names().map(|row| row.0))))]
    pub(crate) backend: String,
    /// Neither read nor write the cache of compiled kernels
    #[arg(long)]
    pub(crate) no_cache: bool,
    /// GPU of --backend=cuda [default: 0]
    #[arg(long, value_name = "N")]
    pub(crate) device: Option<u32>,
    /// Order in which emulated threads are scheduled, with --backend=cuda-emulated, cuda-checked or
    /// cuda-ptx [default: that of their numbers]
    #[arg(long, value_name = "N")]
    pub(crate) schedule_seed: Option<u32>,
    /// Launches of --backend=cuda that are captured as CUDA graphs: those that repeat, all between
    /// two copies, or none [default: auto]
    #[arg(long, value_name = "WHICH", require_equals = true)]
    #[arg(value_parser = PossibleValuesParser::new(GraphPolicy::NAMES))]
    pub(crate) cuda_graphs: Option<String>,
    /// Threads per kernel [default: the number of processors]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) threads: Option<u32>,
}

const VALIDATE_EXAMPLES: &str = "\
Examples:
  jitopt validate in.ir --passes='cse,dce'           compare before and after
  jitopt validate old.pt new.pt2 --samples 32        compare two graphs, each with its weights
  jitopt validate --pairs old new --jobs=2 --json    a.pt of one folder with a.pt2 of the other, and so on
  jitopt validate --jobs=2 --passes=@default *.ir    each of several graphs, with a summary
  jitopt validate in.ir --passes='@default' --each=rewrite
  jitopt validate fused.ir --backend=cpu             compare kernels with the interpreter
  jitopt validate case.ir --passes='insert-guards,guard-elimination,insert-bailouts' --profile=case.prof

Missing inputs are generated from the seed: ordinary and special values, broadcasting, empty tensors, aliased tensors.
Exit codes: 0 equal, 5 different, 1 nothing could be compared.";

/// Inputs and tolerances of a comparison.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Samples")]
pub(crate) struct JudgeArgs {
    /// Number of generated samples
    #[arg(long, value_name = "N", default_value_t = JudgeArgs::SAMPLES)]
    pub(crate) samples: u64,
    /// Seed of the first sample
    #[arg(long, value_name = "N", default_value_t = JudgeArgs::SEED)]
    pub(crate) seed: u64,
    /// Shape of a generated tensor; may be repeated
    #[arg(long, value_name = "%X=SIZES")]
    pub(crate) shape: Vec<SizesOf>,
    /// Input tensors: a safetensors, .npz or .npy file
    #[arg(long, value_name = "FILE")]
    pub(crate) inputs: Option<PathBuf>,
    /// JSON description of the inputs
    #[arg(long, value_name = "FILE")]
    pub(crate) args: Option<PathBuf>,
    /// Content that the text does not show; may be repeated
    #[arg(long, value_name = "%V=FILE")]
    pub(crate) bind: Vec<ContentOf>,
    /// Directory of such contents
    #[arg(long, value_name = "DIR")]
    pub(crate) bind_dir: Option<PathBuf>,
    /// How to generate contents that are not bound: zeros, ones, random, or random:SEED [default:
    /// random]
    #[arg(long, value_name = "HOW", num_args = 0..=1, require_equals = true, default_missing_value = "random")]
    pub(crate) fill_unknown: Option<Filling>,
    /// Relative tolerance, in place of the computed rounding bound
    #[arg(long, value_name = "X")]
    pub(crate) rtol: Option<f64>,
    /// Absolute tolerance, with --rtol
    #[arg(long, value_name = "X")]
    pub(crate) atol: Option<f64>,
    /// Distinguish 0 from -0
    #[arg(long)]
    pub(crate) signed_zero: bool,
    /// Treat infinity as equal to a value beyond half of the largest finite value of its type
    #[arg(long)]
    pub(crate) overflow_is_large: bool,
    /// Stop a run after N nodes
    #[arg(long, value_name = "N", default_value_t = JudgeArgs::MAX_STEPS)]
    pub(crate) max_steps: u64,
    /// Stop a run after this time; a started operator is completed
    #[arg(long, value_name = "SECONDS")]
    pub(crate) timeout: Option<f64>,
    /// PyTorch release whose results are reproduced, such as 1.3, 1.8.1 or 2.15 [default: the
    /// newest release that prints such text]; `1.8,2.15`: the first graph as 1.8 runs it, the
    /// second, or the same again, as 2.15
    #[arg(long, value_name = "VERSION", require_equals = true)]
    pub(crate) torch: Option<Releases>,
    /// Graph of a called function or method; may be repeated
    #[arg(long, value_name = "NAME=FILE")]
    pub(crate) callee: Vec<CalleeOf>,
    #[command(flatten)]
    pub(crate) seen: ProfileArg,
    /// Do not verify graphs after passes; structural errors are still refused
    #[arg(long)]
    pub(crate) no_verify: bool,
}

impl JudgeArgs {
    pub(crate) const SAMPLES: u64 = 8;
    pub(crate) const SEED: u64 = 1;
    pub(crate) const MAX_STEPS: u64 = 10_000_000;
}

/// Restrictions on which rewrites are applied.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct GateArgs {
    /// Restrict a rule to these rewrites; may be repeated
    #[arg(long, value_name = "RULE=RANGES")]
    pub(crate) debug_counter: Vec<String>,
    /// Skip a pass; may be repeated
    #[arg(long, value_name = "PASS")]
    pub(crate) disable: Vec<String>,
}

#[derive(Clone, Debug, Args)]
#[command(after_help = VALIDATE_EXAMPLES)]
pub(crate) struct ValidateArgs {
    /// The graph, or several with --passes; without passes two graphs that are compared
    #[arg(required = true, num_args = 1..)]
    pub(crate) files: Vec<PathBuf>,
    /// Number of files compared in parallel
    #[arg(short, long, value_name = "N", default_value_t = 1)]
    pub(crate) jobs: usize,
    #[command(flatten)]
    pub(crate) shard: ShardArg,
    /// Compare the files of two folders that have the same names, extensions apart
    #[arg(long, conflicts_with = "passes")]
    pub(crate) pairs: bool,
    /// Print one line of JSON for each pair of graphs, or each graph with --passes
    #[arg(long)]
    pub(crate) json: bool,
    /// Passes to run
    #[arg(long, value_name = "PIPELINE")]
    pub(crate) passes: Option<String>,
    /// Compare at the end, after each pass, or after each rewrite
    #[arg(long, value_name = "WHEN", default_value = "end", require_equals = true)]
    #[arg(value_parser = PossibleValuesParser::new(["end", "pass", "rewrite"]))]
    pub(crate) each: String,
    #[command(flatten)]
    pub(crate) gates: GateArgs,
    /// Print the error of each value that both graphs name, on the first sample
    #[arg(long)]
    pub(crate) per_node: bool,
    /// Directory for reproducers of failed validations
    #[arg(long, value_name = "DIR")]
    pub(crate) repro_dir: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) backend: BackendArgs,
    #[command(flatten)]
    pub(crate) judge: JudgeArgs,
}

const DIFF_EXAMPLES: &str = "\
Examples:
  jitopt diff before.ir after.ir
  jitopt diff in.ir --passes='@default'              the changes that a pipeline makes
  git config diff.jitopt.command 'jitopt diff'       with `*.ir diff=jitopt` in .gitattributes

Exit codes: 0 no difference, 1 differences; always 0 when called by Git.";

#[derive(Debug, Args)]
#[command(after_help = DIFF_EXAMPLES)]
pub(crate) struct DiffArgs {
    /// Two graphs; or one, and --passes; or the seven arguments that Git passes
    #[arg(required = true, num_args = 1..=9)]
    pub(crate) files: Vec<PathBuf>,
    /// Compare with the result of these passes on the graph
    #[arg(long, value_name = "PIPELINE")]
    pub(crate) passes: Option<String>,
    /// Ignore types of values
    #[arg(long)]
    pub(crate) ignore_types: bool,
    /// Print one JSON array of changes
    #[arg(long)]
    pub(crate) json: bool,
    /// PyTorch release whose semantics apply, such as 1.3, 1.8.1 or 2.15 [default: the newest
    /// release that prints such text]
    #[arg(long, value_name = "VERSION", require_equals = true)]
    pub(crate) torch: Option<Release>,
    /// Graph that `inline` substitutes for calls of NAME; may be repeated
    #[arg(long, value_name = "NAME=FILE")]
    pub(crate) callee: Vec<CalleeOf>,
}

const EXPLAIN_EXAMPLES: &str = "\
Examples:
  jitopt explain in.ir
  jitopt explain in.ir --passes='@default'           fusion after these passes
  jitopt explain in.ir --shape '%x=64,128'           fusion with known sizes

Each suggested edit was applied to a copy of the graph; the counts are those of its fusion groups.";

#[derive(Debug, Args)]
#[command(after_help = EXPLAIN_EXAMPLES)]
pub(crate) struct ExplainArgs {
    /// The graphs; stdin if `-` or none
    pub(crate) files: Vec<PathBuf>,
    /// Passes to run before fusion
    #[arg(long, value_name = "PIPELINE")]
    pub(crate) passes: Option<String>,
    /// Sizes of a parameter, written into its type; may be repeated
    #[arg(long, value_name = "%X=SIZES")]
    pub(crate) shape: Vec<SizesOf>,
    /// PyTorch release whose semantics apply, such as 1.3, 1.8.1 or 2.15 [default: the newest
    /// release that prints such text]
    #[arg(long, value_name = "VERSION", require_equals = true)]
    pub(crate) torch: Option<Release>,
}

#[derive(Debug, Args)]
pub(crate) struct BisectArgs {
    /// The graph
    pub(crate) file: PathBuf,
    /// The pipeline that fails
    #[arg(long, value_name = "PIPELINE")]
    pub(crate) passes: String,
    /// The graph is wrong if this command, which reads it on stdin, fails
    #[arg(long, value_name = "COMMAND")]
    pub(crate) check: Option<String>,
    /// Number of sets of rewrites tried in parallel; the result does not depend on it
    #[arg(short, long, value_name = "N", default_value_t = 1)]
    pub(crate) jobs: usize,
    #[command(flatten)]
    pub(crate) backend: BackendArgs,
    #[command(flatten)]
    pub(crate) judge: JudgeArgs,
}

#[derive(Debug, Args)]
pub(crate) struct ReduceArgs {
    /// The graph
    pub(crate) file: PathBuf,
    /// The pipeline that fails on it
    #[arg(long, value_name = "PIPELINE")]
    pub(crate) passes: Option<String>,
    /// The graph is of interest if this command, which reads it on stdin, fails
    #[arg(long, value_name = "COMMAND")]
    pub(crate) check: Option<String>,
    /// Output file [default: stdout]; the smallest graph so far is kept there if the search is
    /// interrupted
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) gates: GateArgs,
    /// Maximum number of graphs to try
    #[arg(long, value_name = "N", default_value_t = 20_000)]
    pub(crate) max_tries: usize,
    /// Number of graphs tried in parallel; the result does not depend on it
    #[arg(short, long, value_name = "N", default_value_t = 1)]
    pub(crate) jobs: usize,
    #[command(flatten)]
    pub(crate) backend: BackendArgs,
    #[command(flatten)]
    pub(crate) judge: JudgeArgs,
}

#[derive(Debug, Args)]
pub(crate) struct SmithArgs {
    /// Random seed; equal seeds give equal graphs
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) seed: u64,
    /// Number of graphs, with consecutive seeds
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) count: u64,
    /// Approximate number of nodes per graph
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub(crate) nodes: usize,
    /// Maximum nesting depth of blocks
    #[arg(long, value_name = "N", default_value_t = 2)]
    pub(crate) depth: usize,
    /// Run this pipeline on each graph and compare the results before and after it, instead of
    /// printing
    #[arg(long, value_name = "PIPELINE")]
    pub(crate) passes: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct ExtractArgs {
    /// The log; `-` is stdin
    #[arg(default_value = "-")]
    pub(crate) log: PathBuf,
    /// Write one file per graph into this directory, named after the pass
    #[arg(short = 'd', long, value_name = "DIR")]
    pub(crate) output_dir: Option<PathBuf>,
    /// Print only the graph with this number, counted from 1
    #[arg(short, long, value_name = "N")]
    pub(crate) number: Option<usize>,
    /// List the graphs instead of printing them
    #[arg(short, long)]
    pub(crate) list: bool,
    /// Keep graphs that are equal to earlier ones
    #[arg(long)]
    pub(crate) keep_duplicates: bool,
}

#[derive(Debug, Args)]
pub(crate) struct SamplesArgs {
    /// Name of the sample; without one, the samples are listed
    pub(crate) name: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct GuideArgs {
    /// The chapter; without a name they are listed
    pub(crate) chapter: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct TestArgs {
    /// Directories or files with RUN lines
    #[arg(required = true)]
    pub(crate) paths: Vec<PathBuf>,
    /// Run only tests whose path matches this regular expression
    #[arg(long, value_name = "REGEX")]
    pub(crate) filter: Option<String>,
    /// Update the snapshot blocks of the tests with what the commands print
    #[arg(long)]
    pub(crate) bless: bool,
    /// Number of tests run in parallel; 0 is one per core
    #[arg(short, long, value_name = "N", default_value_t = 0)]
    pub(crate) jobs: usize,
}

#[derive(Debug, Args)]
#[command(disable_help_flag = true)]
pub(crate) struct FilecheckArgs {
    /// CHECK-FILE and options: --check-prefix=X --check-prefixes=A,B --pytorch --input-file=F
    /// --strict-whitespace --match-full-lines --allow-empty
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    pub(crate) arguments: Vec<String>,
}

#[derive(Debug, Args)]
pub(crate) struct CompletionsArgs {
    /// The shell
    pub(crate) shell: Option<clap_complete::Shell>,
}
