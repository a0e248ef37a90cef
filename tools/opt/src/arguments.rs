//! The command line.

use crate::World;
use clap::builder::PossibleValuesParser;
use clap::{Args, Parser, Subcommand, ValueEnum};
use jitopt_core::types::era::Era;
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  jitopt in.ir                                        verify, and print the same bytes back
  jitopt --passes='cse,constant-pooling,dce' in.ir    IR in, IR out
  jitopt samples lstm_cell | jitopt --passes='@default' --stats
  JIT_LOG_LEVEL='>dce' jitopt --passes='cse,dce' in.ir
  jitopt extract build.log

Pipelines and JIT_LOG_LEVEL hold characters that shells treat specially: quote them.
Exit codes: 0 yes, 1 the check said no, 2 usage, 3 parse error, 4 verifier error, 70 a bug in jitopt.";

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
}

/// The era of a version of PyTorch, `2`, `1.13`, `2.1.0` or `2.1.0+cpu`. Only there have been 1.x and 2.x.
fn era_of(version: &str) -> Result<Era, String> {
    let wrong = || "write a version of PyTorch such as 1.3 or 2.15".to_owned();
    let release = version.split_once('+').map_or(version, |(release, _)| release);
    let numbers: Result<Vec<u32>, _> = release.split('.').map(str::parse).collect();
    match numbers.map_err(|_| wrong())?[..] {
        [1, minor] | [1, minor, _] => Ok(if minor < 5 { Era::V1_3 } else { Era::V2 }),
        [2] | [2, _] | [2, _, _] => Ok(Era::V2),
        _ => Err(wrong()),
    }
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
    /// Take graphs out of a PyTorch log
    Extract(ExtractArgs),
    /// Print embedded examples to try things on
    Samples(SamplesArgs),
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
    /// PyTorch whose rules hold where the file does not show it, such as 1.3 or 2.15; they changed with 1.5
    #[arg(long, value_name = "VERSION", value_parser = era_of, require_equals = true)]
    pub(crate) torch: Option<Era>,
    /// A file holds several graphs
    #[arg(long)]
    pub(crate) split_input_file: bool,
    /// Graph that a call of NAME is replaced by when `inline` runs; may be repeated
    #[arg(long, value_name = "NAME=FILE")]
    pub(crate) callee: Vec<String>,
    /// Do not check the graph that was read, nor the one to be printed
    #[arg(long)]
    pub(crate) no_verify: bool,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Passes")]
pub(crate) struct PipelineArgs {
    /// Passes to run: `a,b{opt=1 flag},fixpoint(a,b){max=8},@named`
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
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Output")]
pub(crate) struct OutputArgs {
    /// Write here instead of to stdout; `-` is stdout
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// As PyTorch's own reader would print it: no comments, outputs numbered densely
    #[arg(long)]
    pub(crate) canonical: bool,
    /// How much of types to print, 0 to 4, as JIT_TYPE_VERBOSITY and PYTORCH_JIT_TYPE_VERBOSITY
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(0..=4), require_equals = true)]
    pub(crate) type_verbosity: Option<u8>,
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
    pub(crate) shell: clap_complete::Shell,
}
