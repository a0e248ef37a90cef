//! The command line.

use crate::World;
use clap::builder::PossibleValuesParser;
use clap::{Args, Parser, Subcommand, ValueEnum};
use jitopt_core::interpreter::Release;
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  jitopt in.ir                                        verify, and print the same bytes back
  jitopt --passes='cse,constant-pooling,dce' in.ir    IR in, IR out
  jitopt samples lstm_cell | jitopt --passes='@default' --stats
  JIT_LOG_LEVEL='>dce' jitopt --passes='cse,dce' in.ir
  jitopt extract build.log

Pipelines and JIT_LOG_LEVEL hold characters that shells treat specially: quote them.
Exit codes: 0 yes, 1 the check said no, 2 usage, 3 parse error, 4 verifier error, 5 other numbers than expected,
6 a budget is spent, 70 a bug in jitopt.";

/// Reads, verifies, transforms and prints TorchScript IR.
#[derive(Debug, Parser)]
#[command(name = "jitopt", version, about = "The pass toolkit for the textual IR of TorchScript", after_help = EXAMPLES)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true, max_term_width = 110)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Option<Command>,

    /// Files to read; `-` or nothing is stdin
    pub(crate) files: Vec<PathBuf>,

    #[command(flatten)]
    pub(crate) input: InputArgs,
    #[command(flatten)]
    pub(crate) pipeline: PipelineArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
    #[command(flatten)]
    pub(crate) watch: WatchArgs,

    /// Colours in messages
    #[arg(long, value_name = "WHEN", default_value = "auto", require_equals = true, global = true)]
    pub(crate) color: When,

    #[command(flatten)]
    pub(crate) declared: DeclaredArgs,
}

/// Operators that PyTorch does not have.
#[derive(Debug, Args)]
#[command(next_help_heading = "Custom operators")]
pub(crate) struct DeclaredArgs {
    /// Declare a custom operator, as PyTorch writes schemas:
    /// `my::scale(Tensor x, float by=2.) -> Tensor`. It is taken for pure unless the schema says
    /// otherwise, `my::fill_(Tensor(a!) x) -> Tensor(a!)`; may be repeated
    #[arg(long, value_name = "SCHEMA", global = true)]
    pub(crate) schema: Vec<String>,
    /// File of such schemas, one a line, `#` begins a comment; may be repeated
    #[arg(long, value_name = "FILE", global = true)]
    pub(crate) schemas: Vec<PathBuf>,
}

/// When to colour.
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
    /// Run a graph on tensors, as PyTorch would
    Run(Box<RunArgs>),
    /// Run a graph, and write what tensors came by
    Profile(Box<ProfileArgs>),
    /// Run a graph before and after passes, or two graphs, and compare what they show
    Validate(ValidateArgs),
    /// Find the rewrites that make a pipeline wrong
    Bisect(BisectArgs),
    /// Make a failing graph small
    Reduce(ReduceArgs),
    /// Print random graphs that run
    Smith(SmithArgs),
    /// Say what happened between two graphs; names and legal order are no change
    Diff(DiffArgs),
    /// Say what PyTorch is known to get wrong about a graph
    Lint(LintArgs),
    /// Say what of a graph fuses into kernels, what does not and why, and what would help
    Explain(ExplainArgs),
    /// Time graphs behind a pipeline beside the same without fusion
    Bench(Box<BenchArgs>),
    /// Take graphs out of a PyTorch log
    Extract(ExtractArgs),
    /// Print embedded examples to try things on
    Samples(SamplesArgs),
    /// Print a chapter of the guide, or list the chapters
    Guide(GuideArgs),
    /// Run lit tests
    Test(TestArgs),
    /// Check a text against CHECK lines, as LLVM's FileCheck or PyTorch's does
    Filecheck(FilecheckArgs),
    /// Print a completion script for a shell
    Completions(CompletionsArgs),
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Input")]
pub(crate) struct InputArgs {
    /// PyTorch whose rules hold, such as 1.3, 1.8.1 or 2.15; else the newest release that prints
    /// such text
    #[arg(long, value_name = "VERSION", require_equals = true)]
    pub(crate) torch: Option<Release>,
    /// A file holds several graphs
    #[arg(long)]
    pub(crate) split_input_file: bool,
    /// JSON that describes arguments: params get their element types, ranks, devices, and whether gradients are wanted
    #[arg(long, value_name = "FILE")]
    pub(crate) args: Option<PathBuf>,
    /// Sizes of a param, written into its type; `%x=` is one without dimensions; may be repeated
    #[arg(long, value_name = "%X=SIZES")]
    pub(crate) shape: Vec<String>,
    /// What of the tensors of --args goes into types: their rank, or sizes and strides too
    #[arg(long, value_name = "WHAT", default_value = "rank", require_equals = true, requires = "args")]
    #[arg(value_parser = PossibleValuesParser::new(["rank", "sizes"]))]
    pub(crate) specialize: String,
    /// Graph that a call of NAME is replaced by when `inline` runs; may be repeated
    #[arg(long, value_name = "NAME=FILE")]
    pub(crate) callee: Vec<String>,
    /// Do not check the graph that was read, nor the one to be printed; passes refuse a broken one
    /// all the same
    #[arg(long)]
    pub(crate) no_verify: bool,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Passes")]
pub(crate) struct PipelineArgs {
    /// Passes to run: `a,b{opt=1 flag},fixpoint(a,b){max=8},forward(a),backward(b),@named`
    #[arg(long, value_name = "PIPELINE", conflicts_with = "passes_file")]
    pub(crate) passes: Option<String>,
    /// File that holds the pipeline, `#` begins a comment
    #[arg(long, value_name = "FILE")]
    pub(crate) passes_file: Option<PathBuf>,
    /// List passes, with options and IR before and after
    #[arg(long, value_name = "FORMAT", num_args = 0..=1, require_equals = true, default_missing_value = "text")]
    #[arg(value_parser = PossibleValuesParser::new(["text", "json", "markdown"]))]
    pub(crate) list_passes: Option<String>,
    /// Print the pipeline as it is run, named ones spelt out
    #[arg(long)]
    pub(crate) print_pipeline: bool,
    /// Do not check the graph after each pass
    #[arg(long)]
    pub(crate) no_verify_each: bool,
    /// Let only these rewrites of a rule happen, counted from 1: `dce.nodes-erased=1-5:9`; may be repeated
    #[arg(long, value_name = "RULE=RANGES")]
    pub(crate) debug_counter: Vec<String>,
    /// Skip a pass; may be repeated
    #[arg(long, value_name = "PASS")]
    pub(crate) disable: Vec<String>,
    #[command(flatten)]
    pub(crate) seen: ProfileArg,
    /// Keep what passes make of graphs, and do not run them over graphs that differ only in what they do not read:
    /// `memory`, or a folder
    #[arg(long, value_name = "PLACE", require_equals = true)]
    pub(crate) transform_cache: Option<String>,
    /// Run the passes all the same, and compare
    #[arg(long, requires = "transform_cache")]
    pub(crate) transform_cache_verify: bool,
    /// Run the graph before and after, and compare: at the end, after each pass, or after each rewrite
    #[arg(long, value_name = "WHEN", num_args = 0..=1, require_equals = true, default_missing_value = "end")]
    #[arg(value_parser = PossibleValuesParser::new(["end", "pass", "rewrite"]))]
    pub(crate) validate: Option<String>,
    /// Where reproducers of failed validations go
    #[arg(long, value_name = "DIR", requires = "validate")]
    pub(crate) repro_dir: Option<PathBuf>,
}

/// What was seen of a graph, for the passes that ask for that.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct ProfileArg {
    /// What tensors came by when the graph ran: what `insert-guards` guards, as `jitopt profile` writes it
    #[arg(long, value_name = "FILE")]
    pub(crate) profile: Option<PathBuf>,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Output")]
pub(crate) struct OutputArgs {
    /// Write here instead of to stdout; `-` is stdout
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Write each result into this folder, under the name of its file
    #[arg(long, value_name = "DIR", conflicts_with = "output")]
    pub(crate) output_dir: Option<PathBuf>,
    /// As PyTorch's own reader would print it: no comments, outputs numbered densely
    #[arg(long)]
    pub(crate) canonical: bool,
    /// How much of types to print, 0 to 4, as JIT_TYPE_VERBOSITY and PYTORCH_JIT_TYPE_VERBOSITY
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(0..=4), require_equals = true)]
    pub(crate) type_verbosity: Option<u8>,
    /// Print in the words of another PyTorch, such as 1.3 or 2.15, or say what it cannot say
    #[arg(long, value_name = "VERSION", require_equals = true)]
    pub(crate) print_as: Option<Release>,
    /// What to print: the IR, TorchScript source as PyTorch's `.code`, the code of a register machine, a drawing for Graphviz,
    /// the kernels of fusion groups in C, which pairs `fuse` could fuse and what that saves, as JSON, or where types come
    /// from: what is declared, inferred, guarded or profiled
    #[arg(long, value_name = "FORM", default_value = "ir", require_equals = true)]
    #[arg(value_parser = PossibleValuesParser::new(["ir", "python", "code", "dot", "c", "fusion-candidates", "types"]))]
    pub(crate) emit: String,
    /// Mark nodes that write to memory by a comment after their line: what they write, and which
    /// values see it. The text reads as without
    #[arg(long, conflicts_with_all = ["canonical", "print_alias"])]
    pub(crate) print_mutations: bool,
    /// Print what may share memory with what instead of the graph
    #[arg(long)]
    pub(crate) print_alias: bool,
    /// Check that the output reads back as the same text
    #[arg(long)]
    pub(crate) verify_roundtrip: bool,
    /// Work on so many files at once
    #[arg(short, long, value_name = "N", default_value_t = 1)]
    pub(crate) jobs: usize,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Watching (all to stderr)")]
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
    /// Write the graph after every pass that changed it into this folder, a folder for each file
    #[arg(long, value_name = "DIR")]
    pub(crate) print_tree_dir: Option<PathBuf>,
    /// Write a page that shows what passes did: times, changes side by side, a drawing of the graph with its groups, kernels, counters
    #[arg(long, value_name = "FILE.html", require_equals = true)]
    pub(crate) report: Option<PathBuf>,
    /// Of what these flags print, show only the lines that hold this text, below their titles
    #[arg(long, value_name = "TEXT")]
    pub(crate) filter_print: Option<String>,
    /// Time spent in each pass
    #[arg(long, value_name = "FORMAT", num_args = 0..=1, require_equals = true, default_missing_value = "table")]
    #[arg(value_parser = PossibleValuesParser::new(["table", "json", "trace"]))]
    pub(crate) time_passes: Option<String>,
    /// What was counted
    #[arg(long, value_name = "FORMAT", num_args = 0..=1, require_equals = true, default_missing_value = "table")]
    #[arg(value_parser = PossibleValuesParser::new(["table", "json"]))]
    pub(crate) stats: Option<String>,
    /// What was and was not done, and why
    #[arg(long, value_name = "FORMAT", num_args = 0..=1, require_equals = true, default_missing_value = "text")]
    #[arg(value_parser = PossibleValuesParser::new(["text", "json"]))]
    pub(crate) remarks: Option<String>,
    /// Log levels, as JIT_LOG_LEVEL: `dce:>cse`
    #[arg(long, value_name = "ITEMS")]
    pub(crate) log: Option<String>,
}

const RUN_EXAMPLES: &str = "\
Examples:
  jitopt run case.ir                                 case.json and case.inputs.safetensors beside it are taken
  jitopt run in.ir --inputs x.safetensors --args x.json --outputs y.safetensors
  jitopt run in.ir --seed 7 --shape '%x=3,4'         inputs are made up to fit the graph
  jitopt run in.ir --bind '%self.conv1.weight=w.npy' --fill-unknown=random:1
  jitopt run case.ir --expect case.outputs.safetensors
  jitopt run case.df.ir                              with case.json, its df_inputs, and case.df_inputs.safetensors
  jitopt run case.ir --backend=cpu --stats           fusion groups as kernels that the C compiler makes
  jitopt run case.ir --grad-outputs g.safetensors --grads out.safetensors
                                                     forward and backward; --passes then run over both graphs

Inputs and outputs go by the keys of the description; without one by in0, in1, … or the names of the params, and by out, or
out.0, out.1, … of several. What is printed describes the outputs; `--args` reads the same format.";

/// One graph, its inputs, and who looks on.
#[derive(Clone, Debug, Default, Args)]
#[command(after_help = RUN_EXAMPLES)]
pub(crate) struct RunArgs {
    /// The graphs; `-` or nothing is stdin
    pub(crate) files: Vec<PathBuf>,

    /// Work on so many files at once
    #[arg(short, long, value_name = "N", default_value_t = 1)]
    pub(crate) jobs: usize,
    /// Of several graphs, write the outputs of each into this folder, as NAME.outputs.safetensors
    #[arg(long, value_name = "DIR", conflicts_with = "outputs")]
    pub(crate) output_dir: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) values: RunValues,
    #[command(flatten)]
    pub(crate) checks: RunChecks,
    #[command(flatten)]
    pub(crate) semantics: RunSemantics,
}

const PROFILE_EXAMPLES: &str = "\
Examples:
  jitopt profile case.ir                             writes case.prof; inputs as for `jitopt run`
  jitopt profile case.ir --inputs more.safetensors --merge-profile case.prof -o case.prof
  jitopt --passes='insert-guards,guard-elimination,insert-bailouts' --profile=case.prof case.ir

The graph is instrumented first, unless it is. A profile is of a graph whatever its values are called.";

/// One graph and its inputs, to see what tensors come by.
#[derive(Debug, Default, Args)]
#[command(after_help = PROFILE_EXAMPLES)]
pub(crate) struct ProfileArgs {
    /// Write here, `-` is stdout; without it beside the graph, as `.prof`
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) run: RunArgs,
}

#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Values")]
pub(crate) struct RunValues {
    /// Tensors that go in: a file of safetensors, .npz or .npy
    #[arg(long, value_name = "FILE")]
    pub(crate) inputs: Option<PathBuf>,
    /// JSON that describes inputs, and for --expect outputs and tolerances
    #[arg(long, value_name = "FILE")]
    pub(crate) args: Option<PathBuf>,
    /// Write the tensors that come out: safetensors, or .npz by its name
    #[arg(long, value_name = "FILE")]
    pub(crate) outputs: Option<PathBuf>,
    /// Gradients of the outputs, under their keys: safetensors, .npz or .npy; an output without one
    /// does not count.
    /// `ones` is 1 in each element of each output
    #[arg(long, value_name = "FILE|ones")]
    pub(crate) grad_outputs: Option<PathBuf>,
    /// Write the gradients of the inputs, under their keys: safetensors, or .npz by its name; `-` only prints them
    #[arg(long, value_name = "FILE")]
    pub(crate) grads: Option<PathBuf>,
    /// Make up inputs that are not given, from their types and from what the graph does with them
    #[arg(long, value_name = "N")]
    pub(crate) seed: Option<u64>,
    /// Shape of a tensor that is made up; `%x=` is one without dimensions; may be repeated
    #[arg(long, value_name = "%X=SIZES")]
    pub(crate) shape: Vec<String>,
    /// What is made up is like this
    #[arg(long, value_name = "STYLE", requires = "seed", require_equals = true)]
    #[arg(value_parser = PossibleValuesParser::new(["ordinary", "adversarial", "broadcasting", "tiny", "aliased"]))]
    pub(crate) style: Option<String>,
    /// Content of a constant, an attribute or a param that the text does not show; FILE:KEY names one tensor of several,
    /// those of a list are called `0`, `1`, …; `prim::fork_0/%v` is one of a section, `%list[1]` a part; without tensors
    /// it is spelt in place, `[1, 2]` or `{"a": 1}`; may be repeated
    #[arg(long, value_name = "%V=FILE")]
    pub(crate) bind: Vec<String>,
    /// Folder of such contents: V.npy binds %V, prim::fork_0/V.npy that of a section, V.safetensors the attributes of %V
    #[arg(long, value_name = "DIR")]
    pub(crate) bind_dir: Option<PathBuf>,
    /// Make up contents that nobody bound: zeros, ones, random, or random:SEED
    #[arg(long, value_name = "HOW", num_args = 0..=1, require_equals = true, default_missing_value = "random")]
    pub(crate) fill_unknown: Option<String>,
    /// Take this for a value instead of computing it; one of a section is `prim::FusionGroup_0/%v`; may be repeated
    #[arg(long, value_name = "%V=FILE")]
    pub(crate) replay: Vec<String>,
}

#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Checks")]
pub(crate) struct RunChecks {
    /// Compare the outputs with a file, or any value: `%57=w.npy`, in a section `prim::FusionGroup_0/%v=w.npy`; of a param what
    /// it holds at the end, of what is computed several times the last; may be repeated
    #[arg(long, value_name = "[%V=]FILE")]
    pub(crate) expect: Vec<String>,
    /// Compare the gradients of the inputs with a file; may be repeated
    #[arg(long, value_name = "FILE")]
    pub(crate) expect_grads: Vec<PathBuf>,
    /// Allowed part of each element; without it the description says it, or torch.testing.assert_close does
    #[arg(long, value_name = "X")]
    pub(crate) rtol: Option<f64>,
    /// Allowed everywhere
    #[arg(long, value_name = "X")]
    pub(crate) atol: Option<f64>,
    /// Tell the first node that makes NaN or infinity of finite numbers
    #[arg(long)]
    pub(crate) assert_finite: bool,
    /// Say what each node computed, to stderr
    #[arg(long)]
    pub(crate) steps: bool,
    /// Give up after so many nodes
    #[arg(long, value_name = "N")]
    pub(crate) max_steps: Option<u64>,
    /// Give up after so many seconds, making up inputs included; an operator that has begun is waited for
    #[arg(long, value_name = "SECONDS")]
    pub(crate) timeout: Option<f64>,
    /// Run nothing: which kinds of operators the files have, and whether they can run
    #[arg(long)]
    pub(crate) coverage: bool,
    /// Write what tensors came by at `prim::profile` nodes, for `--profile`
    #[arg(long, value_name = "FILE")]
    pub(crate) record_profile: Option<PathBuf>,
    /// Put a profile of earlier runs of the same graph together with this one; may be repeated
    #[arg(long, value_name = "FILE")]
    pub(crate) merge_profile: Vec<PathBuf>,
    /// Say which guards failed, with what, and where the run went on
    #[arg(long)]
    pub(crate) trace_bailouts: bool,
    /// Whether only the profile is wanted.
    #[arg(skip)]
    pub(crate) only_profile: bool,
}

#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Semantics")]
pub(crate) struct RunSemantics {
    /// Keep all reals in doubles, whatever their type: the shadow that results are judged by
    #[arg(long)]
    pub(crate) f64: bool,
    /// PyTorch whose results are wanted, such as 1.3, 1.8.1 or 2.15; else the newest release that
    /// prints such text
    #[arg(long, value_name = "VERSION", require_equals = true)]
    pub(crate) torch: Option<Release>,
    /// Graph of a function or method that is called; may be repeated
    #[arg(long, value_name = "NAME=FILE")]
    pub(crate) callee: Vec<String>,
    /// Passes to run first
    #[arg(long, value_name = "PIPELINE")]
    pub(crate) passes: Option<String>,
    #[command(flatten)]
    pub(crate) seen: ProfileArg,
    /// Do not check the graph after passes; one that is broken is refused all the same
    #[arg(long)]
    pub(crate) no_verify: bool,
    #[command(flatten)]
    pub(crate) backend: BackendArgs,
    /// What was counted
    #[arg(long, value_name = "FORMAT", num_args = 0..=1, require_equals = true, default_missing_value = "table")]
    #[arg(value_parser = PossibleValuesParser::new(["table", "json"]))]
    pub(crate) stats: Option<String>,
}

/// Who runs fusion groups.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct BackendArgs {
    /// Who runs fusion groups: the interpreter, or kernels that the C compiler makes. JITOPT_CC or CC names the compiler,
    /// JITOPT_CACHE the folder that kernels are kept in
    #[arg(long, value_name = "WHO", default_value = "interp", require_equals = true)]
    #[arg(value_parser = PossibleValuesParser::new(["interp", "cpu"]))]
    pub(crate) backend: String,
    /// Keep no compiled kernels, and take none that were kept
    #[arg(long)]
    pub(crate) no_cache: bool,
    /// Threads of kernels; as many as there are processors when it is not said
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) threads: Option<u32>,
}

const VALIDATE_EXAMPLES: &str = "\
Examples:
  jitopt validate in.ir --passes='cse,dce'           before against after
  jitopt validate a.ir b.ir --samples 32             two graphs
  jitopt validate --jobs=2 --passes=@default *.ir    each of several graphs, with a summary
  jitopt validate in.ir --passes='@default' --each=rewrite
  jitopt validate fused.ir --backend=cpu             kernels against the interpreter
  jitopt validate case.ir --passes='insert-guards,guard-elimination,insert-bailouts' --profile=case.prof

Without inputs, they are made up from the seed: ordinary numbers, special ones, broadcasting, empty tensors, one memory passed
twice. Exit codes: 0 the same, 5 not the same, 1 nothing could be compared.";

/// What is judged, and on which inputs.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Samples")]
pub(crate) struct JudgeArgs {
    /// Make up inputs so many times
    #[arg(long, value_name = "N", default_value_t = JudgeArgs::SAMPLES)]
    pub(crate) samples: u64,
    /// Seed of the first of them
    #[arg(long, value_name = "N", default_value_t = JudgeArgs::SEED)]
    pub(crate) seed: u64,
    /// Shape of a tensor that is made up; may be repeated
    #[arg(long, value_name = "%X=SIZES")]
    pub(crate) shape: Vec<String>,
    /// Tensors that go in: a file of safetensors, .npz or .npy
    #[arg(long, value_name = "FILE")]
    pub(crate) inputs: Option<PathBuf>,
    /// JSON that describes inputs
    #[arg(long, value_name = "FILE")]
    pub(crate) args: Option<PathBuf>,
    /// Content that the text does not show; may be repeated
    #[arg(long, value_name = "%V=FILE")]
    pub(crate) bind: Vec<String>,
    /// Folder of such contents
    #[arg(long, value_name = "DIR")]
    pub(crate) bind_dir: Option<PathBuf>,
    /// How contents are generated that nobody bound: zeros, ones, random, or random:SEED; random
    /// when it is not given
    #[arg(long, value_name = "HOW", num_args = 0..=1, require_equals = true, default_missing_value = "random")]
    pub(crate) fill_unknown: Option<String>,
    /// Judge by this tolerance instead of by what rounding can do
    #[arg(long, value_name = "X")]
    pub(crate) rtol: Option<f64>,
    /// Allowed everywhere, with --rtol
    #[arg(long, value_name = "X")]
    pub(crate) atol: Option<f64>,
    /// 0 and -0 are two numbers
    #[arg(long)]
    pub(crate) signed_zero: bool,
    /// An infinity, and a number beyond half of the largest of its type, are one
    #[arg(long)]
    pub(crate) overflow_is_large: bool,
    /// Give up a run after so many nodes
    #[arg(long, value_name = "N", default_value_t = JudgeArgs::MAX_STEPS)]
    pub(crate) max_steps: u64,
    /// Give up a run after so many seconds; an operator that has begun is waited for
    #[arg(long, value_name = "SECONDS")]
    pub(crate) timeout: Option<f64>,
    /// PyTorch whose results are wanted, such as 1.3, 1.8.1 or 2.15; else the newest release that
    /// prints such text
    #[arg(long, value_name = "VERSION", require_equals = true)]
    pub(crate) torch: Option<Release>,
    /// Graph of a function or method that is called; may be repeated
    #[arg(long, value_name = "NAME=FILE")]
    pub(crate) callee: Vec<String>,
    #[command(flatten)]
    pub(crate) seen: ProfileArg,
    /// Do not check graphs after passes; one that is broken is refused all the same
    #[arg(long)]
    pub(crate) no_verify: bool,
}

impl JudgeArgs {
    pub(crate) const SAMPLES: u64 = 8;
    pub(crate) const SEED: u64 = 1;
    pub(crate) const MAX_STEPS: u64 = 10_000_000;
}

/// Which rewrites happen.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct GateArgs {
    /// Let only these rewrites of a rule happen; may be repeated
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
    /// Work on so many files at once
    #[arg(short, long, value_name = "N", default_value_t = 1)]
    pub(crate) jobs: usize,
    /// Passes to run in between
    #[arg(long, value_name = "PIPELINE")]
    pub(crate) passes: Option<String>,
    /// Compare at the end, after each pass, or after each rewrite
    #[arg(long, value_name = "WHEN", default_value = "end", require_equals = true)]
    #[arg(value_parser = PossibleValuesParser::new(["end", "pass", "rewrite"]))]
    pub(crate) each: String,
    #[command(flatten)]
    pub(crate) gates: GateArgs,
    /// How far each value of the same name is off, on the first sample
    #[arg(long)]
    pub(crate) per_node: bool,
    /// Where reproducers of failed validations go
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
  jitopt diff in.ir --passes='@default'              what a pipeline does to a graph
  git config diff.jitopt.command 'jitopt diff'       with `*.ir diff=jitopt` in .gitattributes

Exit codes: 0 no difference, 1 differences. When Git calls it, always 0.";

#[derive(Debug, Args)]
#[command(after_help = DIFF_EXAMPLES)]
pub(crate) struct DiffArgs {
    /// Two graphs; or one, and --passes; or the seven arguments that Git gives
    #[arg(required = true, num_args = 1..=9)]
    pub(crate) files: Vec<PathBuf>,
    /// Compare with what these passes make of the graph
    #[arg(long, value_name = "PIPELINE")]
    pub(crate) passes: Option<String>,
    /// Types of values do not count
    #[arg(long)]
    pub(crate) ignore_types: bool,
    /// One JSON array of changes
    #[arg(long)]
    pub(crate) json: bool,
    /// PyTorch whose rules hold, such as 1.3, 1.8.1 or 2.15; else the newest release that prints
    /// such text
    #[arg(long, value_name = "VERSION", require_equals = true)]
    pub(crate) torch: Option<Release>,
    /// Graph that a call of NAME is replaced by when `inline` runs; may be repeated
    #[arg(long, value_name = "NAME=FILE")]
    pub(crate) callee: Vec<String>,
}

const EXPLAIN_EXAMPLES: &str = "\
Examples:
  jitopt explain in.ir
  jitopt explain in.ir --passes='@default'           what fuses behind these passes
  jitopt explain in.ir --shape '%x=64,128'           what fuses where sizes are known

Each edit that is named was tried: the operators that it counts are in groups then.";

#[derive(Debug, Args)]
#[command(after_help = EXPLAIN_EXAMPLES)]
pub(crate) struct ExplainArgs {
    /// The graphs; `-` or nothing is stdin
    pub(crate) files: Vec<PathBuf>,
    /// Passes to run before fusion
    #[arg(long, value_name = "PIPELINE")]
    pub(crate) passes: Option<String>,
    /// Sizes of a param, written into its type; may be repeated
    #[arg(long, value_name = "%X=SIZES")]
    pub(crate) shape: Vec<String>,
    /// PyTorch whose rules hold, such as 1.3, 1.8.1 or 2.15; else the newest release that prints
    /// such text
    #[arg(long, value_name = "VERSION", require_equals = true)]
    pub(crate) torch: Option<Release>,
}

const BENCH_EXAMPLES: &str = "\
Examples:
  jitopt bench case.ir --passes='@default,fuse'
  jitopt bench case.ir --passes='@default,fuse{level=2}' --against='@default,fuse' --threads 1 --json
  jitopt bench in.ir --passes='@default,fuse' --seed 1 --shape '%x=512,1024'

Both run in turns on the same inputs, and their results are compared first. Bytes are those that operators read and wrote, a
group that a kernel runs being one operator; the roof is a copy of as many bytes by a kernel, in the same turns.
Exit codes: 0 measured, 5 other results, 1 a graph does not run.";

#[derive(Debug, Args)]
#[command(after_help = BENCH_EXAMPLES)]
pub(crate) struct BenchArgs {
    /// The graphs, each with its inputs beside it
    #[arg(required = true)]
    pub(crate) files: Vec<PathBuf>,
    /// The passes whose result is timed
    #[arg(long, value_name = "PIPELINE")]
    pub(crate) passes: String,
    /// The passes that it is timed against; those of --passes without `fuse` when nothing is said
    #[arg(long, value_name = "PIPELINE")]
    pub(crate) against: Option<String>,
    #[command(flatten)]
    pub(crate) seen: ProfileArg,
    /// How many turns
    #[arg(long, value_name = "N", default_value_t = 51, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) runs: u32,
    /// Threads of kernels; as many as there are processors when it is not said
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) threads: Option<u32>,
    /// JSON in place of tables
    #[arg(long)]
    pub(crate) json: bool,
    /// Who runs fusion groups: kernels that the C compiler makes, or the interpreter
    #[arg(long, value_name = "WHO", default_value = "cpu", require_equals = true)]
    #[arg(value_parser = PossibleValuesParser::new(["interp", "cpu"]))]
    pub(crate) backend: String,
    /// Keep no compiled kernels, and take none that were kept
    #[arg(long)]
    pub(crate) no_cache: bool,
    /// Tensors that go in: a file of safetensors, .npz or .npy
    #[arg(long, value_name = "FILE")]
    pub(crate) inputs: Option<PathBuf>,
    /// JSON that describes inputs
    #[arg(long, value_name = "FILE")]
    pub(crate) args: Option<PathBuf>,
    /// Make up inputs that are not given
    #[arg(long, value_name = "N")]
    pub(crate) seed: Option<u64>,
    /// Shape of a tensor that is made up; may be repeated
    #[arg(long, value_name = "%X=SIZES")]
    pub(crate) shape: Vec<String>,
    /// Content of a constant, an attribute or a param that the text does not show; may be repeated
    #[arg(long, value_name = "%V=FILE")]
    pub(crate) bind: Vec<String>,
    /// Folder of such contents
    #[arg(long, value_name = "DIR")]
    pub(crate) bind_dir: Option<PathBuf>,
    /// Make up contents that nobody bound: zeros, ones, random, or random:SEED
    #[arg(long, value_name = "HOW", num_args = 0..=1, require_equals = true, default_missing_value = "random")]
    pub(crate) fill_unknown: Option<String>,
    /// PyTorch whose results are wanted, such as 1.3, 1.8.1 or 2.15; else the newest release that
    /// prints such text
    #[arg(long, value_name = "VERSION", require_equals = true)]
    pub(crate) torch: Option<Release>,
    /// Graph of a function or method that is called; may be repeated
    #[arg(long, value_name = "NAME=FILE")]
    pub(crate) callee: Vec<String>,
}

const LINT_EXAMPLES: &str = "\
Examples:
  jitopt lint in.ir
  jitopt lint --torch=2.15 *.ir                      only what this release gets wrong
  jitopt lint --list                                 what is looked for, with sources and workarounds

Exit codes: 0 nothing found, 1 findings.";

#[derive(Debug, Args)]
#[command(after_help = LINT_EXAMPLES)]
pub(crate) struct LintArgs {
    /// The graphs; `-` or nothing is stdin
    pub(crate) files: Vec<PathBuf>,
    /// Only mistakes that this PyTorch makes, such as 1.3 or 2.15
    #[arg(long, value_name = "VERSION", require_equals = true)]
    pub(crate) torch: Option<Release>,
    /// Only this lint; may be repeated
    #[arg(long, value_name = "LINT")]
    pub(crate) only: Vec<String>,
    /// Not this lint; may be repeated
    #[arg(long, value_name = "LINT")]
    pub(crate) skip: Vec<String>,
    /// One line of JSON for each finding
    #[arg(long)]
    pub(crate) json: bool,
    /// Say what is looked for
    #[arg(long)]
    pub(crate) list: bool,
}

#[derive(Debug, Args)]
pub(crate) struct BisectArgs {
    /// The graph
    pub(crate) file: PathBuf,
    /// The pipeline that fails
    #[arg(long, value_name = "PIPELINE")]
    pub(crate) passes: String,
    /// The graph is wrong when this command, which gets it on standard input, does not succeed
    #[arg(long, value_name = "COMMAND")]
    pub(crate) check: Option<String>,
    /// Try so many sets of rewrites at once; what comes out is the same
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
    /// The graph is of interest while this command, which gets it on standard input, does not succeed
    #[arg(long, value_name = "COMMAND")]
    pub(crate) check: Option<String>,
    /// Write the result here instead of to stdout; what is there so far, should it be interrupted
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) gates: GateArgs,
    /// Most graphs to try
    #[arg(long, value_name = "N", default_value_t = 20_000)]
    pub(crate) max_tries: usize,
    /// Try so many graphs at once; what comes out is the same
    #[arg(short, long, value_name = "N", default_value_t = 1)]
    pub(crate) jobs: usize,
    #[command(flatten)]
    pub(crate) backend: BackendArgs,
    #[command(flatten)]
    pub(crate) judge: JudgeArgs,
}

#[derive(Debug, Args)]
pub(crate) struct SmithArgs {
    /// The seed: the same one gives the same graph
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) seed: u64,
    /// So many graphs, of as many seeds
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) count: u64,
    /// About so many nodes each
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub(crate) nodes: usize,
    /// Most blocks in blocks
    #[arg(long, value_name = "N", default_value_t = 2)]
    pub(crate) depth: usize,
    /// Run this pipeline over each graph, and compare before and after instead of printing
    #[arg(long, value_name = "PIPELINE")]
    pub(crate) passes: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct ExtractArgs {
    /// The log; `-` is stdin
    #[arg(default_value = "-")]
    pub(crate) log: PathBuf,
    /// Write one file per graph into this folder, named by pass
    #[arg(short = 'd', long, value_name = "DIR")]
    pub(crate) output_dir: Option<PathBuf>,
    /// Only the graph with this number, counted from 1
    #[arg(short, long, value_name = "N")]
    pub(crate) number: Option<usize>,
    /// Say what there is instead of printing it
    #[arg(short, long)]
    pub(crate) list: bool,
    /// Keep graphs that came before
    #[arg(long)]
    pub(crate) keep_duplicates: bool,
}

#[derive(Debug, Args)]
pub(crate) struct SamplesArgs {
    /// Which one; without a name they are listed
    pub(crate) name: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct GuideArgs {
    /// The chapter; without a name they are listed
    pub(crate) chapter: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct TestArgs {
    /// Folders or files with RUN lines
    #[arg(required = true)]
    pub(crate) paths: Vec<PathBuf>,
    /// Only tests whose path matches this regular expression
    #[arg(long, value_name = "REGEX")]
    pub(crate) filter: Option<String>,
    /// Write what commands print into the snapshot blocks of the tests
    #[arg(long)]
    pub(crate) bless: bool,
    /// Run so many tests at once; 0 is one per core
    #[arg(short, long, value_name = "N", default_value_t = 0)]
    pub(crate) jobs: usize,
}

#[derive(Debug, Args)]
#[command(disable_help_flag = true)]
pub(crate) struct FilecheckArgs {
    /// CHECK-FILE and options: --check-prefix=X --check-prefixes=A,B --pytorch --input-file=F --strict-whitespace
    /// --match-full-lines --allow-empty
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    pub(crate) arguments: Vec<String>,
}

#[derive(Debug, Args)]
pub(crate) struct CompletionsArgs {
    /// The shell
    pub(crate) shell: Option<clap_complete::Shell>,
}
