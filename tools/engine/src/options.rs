//! Options of runs and comparisons. Messages name an option by its field, or as
//! [`spell_settings`](crate::spell_settings) has it.

use crate::given_texts::{CalleeOf, ContentOf, Expected, FileOf, Filling, SizesOf};
use jitopt_core::codegen::kernel_plan::PlanFile;
use jitopt_core::interpreter::Release;
use jitopt_core::interpreter::files::Tensors;
use jitopt_core::interpreter::generator::Style;
use jitopt_core::runtime::{Engine, GraphPolicy};
use jitopt_core::tensor::Tensor;
use std::path::PathBuf;
use std::sync::Arc;

/// Options of a run.
#[derive(Clone, Debug, Default)]
pub struct RunOptions {
    /// The file of the graph, for messages.
    pub graph: Option<PathBuf>,
    /// The values.
    pub values: Values,
    /// The checks and limits.
    pub checks: Checks,
    /// The semantics of the run.
    pub semantics: Semantics,
}

/// Tensors that a program has at hand, in place of files.
#[derive(Clone, Debug, Default)]
pub struct AtHand {
    /// The inputs in the order of the parameters, and whether each requires a gradient.
    pub inputs: Vec<(Tensor, bool)>,
    /// Gradients of outputs by the keys of these: `out`, or `out.0` of several.
    pub gradients: Tensors,
}

/// The values of a run: those that files give, and how the others are generated.
#[derive(Clone, Debug, Default)]
pub struct Values {
    /// Inputs, and gradients of outputs, that are in no file.
    pub at_hand: Option<AtHand>,
    /// Input tensors: a safetensors, .npz or .npy file.
    pub inputs: Option<PathBuf>,
    /// JSON description of the inputs.
    pub args: Option<PathBuf>,
    /// Gradients of the outputs: a file of tensors, or `ones`.
    pub grad_outputs: Option<PathBuf>,
    /// Generates missing inputs from their types and uses, with this seed.
    pub seed: Option<u64>,
    /// Shapes of generated tensors.
    pub shape: Vec<SizesOf>,
    /// Distribution of generated inputs.
    pub style: Style,
    /// Contents that the text does not show.
    pub bind: Vec<ContentOf>,
    /// Directory of such contents.
    pub bind_dir: Option<PathBuf>,
    /// The generator of contents that are not bound.
    pub fill_unknown: Option<Filling>,
    /// Values that replace computed ones.
    pub replay: Vec<FileOf>,
}

/// Checks and limits of a run.
#[derive(Clone, Debug, Default)]
pub struct Checks {
    /// Expected outputs and values.
    pub expect: Vec<Expected>,
    /// Expected gradients of the inputs.
    pub expect_grads: Vec<PathBuf>,
    /// Relative tolerance; that of the description, or of `torch.testing.assert_close`, if absent.
    pub rtol: Option<f64>,
    /// Absolute tolerance.
    pub atol: Option<f64>,
    /// Stops at the first node that produces NaN or infinity from finite operands.
    pub assert_finite: bool,
    /// Reports the result of each node.
    pub steps: bool,
    /// Measures the time of each operator.
    pub times: bool,
    /// Maximum number of nodes.
    pub max_steps: Option<u64>,
    /// Time limit in seconds; a started operator is completed.
    pub timeout: Option<f64>,
    /// Reports which guards failed, and where the run resumed.
    pub trace_bailouts: bool,
    /// Instruments the graph if it has no profile nodes.
    pub only_profile: bool,
    /// Records the tensor types observed at profile nodes.
    pub record_profile: bool,
    /// Profiles of earlier runs of the same graph, which are merged into the recorded one.
    pub merge_profile: Vec<PathBuf>,
}

/// The semantics of a run.
#[derive(Clone, Debug, Default)]
pub struct Semantics {
    /// Computes all floating-point values in f64, whatever their type.
    pub f64: bool,
    /// PyTorch release whose results are reproduced; the newest that prints such text, if absent.
    pub torch: Option<Release>,
    /// Graphs of called functions and methods.
    pub callee: Vec<CalleeOf>,
    /// Does not verify the graph after passes.
    pub no_verify: bool,
    /// The backend that runs fusion groups.
    pub backend: BackendOptions,
}

/// The backend that runs fusion groups.
#[derive(Clone, Debug, Default)]
pub struct BackendOptions {
    /// The engine that runs groups as kernels; the interpreter runs them, if absent.
    pub engine: Option<Engine>,
    /// Neither reads nor writes the cache of compiled kernels.
    pub no_cache: bool,
    /// Threads per kernel; the number of processors, if absent.
    pub threads: Option<u32>,
    /// Plans of kernels that replace the usual ones.
    pub plans: Option<Arc<PlanFile>>,
    /// The number of the GPU.
    pub device: Option<u32>,
    /// The seed of the order in which threads of an emulated device are scheduled.
    pub schedule_seed: Option<u32>,
    /// Which sequences of a GPU's work are launched as graphs.
    pub graphs: Option<GraphPolicy>,
}

/// Samples and tolerances of a comparison.
#[derive(Clone, Debug)]
pub struct JudgeOptions {
    /// Number of generated samples.
    pub samples: u64,
    /// Seed of the first sample.
    pub seed: u64,
    /// Shapes of generated tensors.
    pub shape: Vec<SizesOf>,
    /// Input tensors of another sample: a safetensors, .npz or .npy file.
    pub inputs: Option<PathBuf>,
    /// JSON description of the inputs.
    pub args: Option<PathBuf>,
    /// Contents that the text does not show.
    pub bind: Vec<ContentOf>,
    /// Directory of such contents.
    pub bind_dir: Option<PathBuf>,
    /// The generator of contents that are not bound; `random` if absent.
    pub fill_unknown: Option<Filling>,
    /// Relative tolerance, in place of the computed rounding bound.
    pub rtol: Option<f64>,
    /// Absolute tolerance, with `rtol`.
    pub atol: Option<f64>,
    /// Distinguishes 0 from -0.
    pub signed_zero: bool,
    /// Treats infinity as equal to a value beyond half of the largest finite value of its type.
    pub overflow_is_large: bool,
    /// Maximum number of nodes of a run.
    pub max_steps: u64,
    /// Time limit of a run in seconds.
    pub timeout: Option<f64>,
    /// PyTorch release whose results are reproduced; the newest that prints such text, if absent.
    pub torch: Option<Release>,
    /// The release for the second of two graphs, if it is another one.
    pub other_torch: Option<Release>,
    /// Graphs of called functions and methods.
    pub callee: Vec<CalleeOf>,
    /// Does not verify graphs after passes.
    pub no_verify: bool,
}

impl JudgeOptions {
    /// The default number of samples.
    pub const SAMPLES: u64 = 8;
    /// The default seed.
    pub const SEED: u64 = 1;
    /// The default limit on the nodes of a run.
    pub const MAX_STEPS: u64 = 10_000_000;

    /// The release for the second of two graphs.
    pub(crate) fn second_torch(&self) -> Option<Release> {
        self.other_torch.or(self.torch)
    }
}

impl Default for JudgeOptions {
    fn default() -> JudgeOptions {
        JudgeOptions {
            samples: JudgeOptions::SAMPLES,
            seed: JudgeOptions::SEED,
            shape: Vec::new(),
            inputs: None,
            args: None,
            bind: Vec::new(),
            bind_dir: None,
            fill_unknown: None,
            rtol: None,
            atol: None,
            signed_zero: false,
            overflow_is_large: false,
            max_steps: JudgeOptions::MAX_STEPS,
            timeout: None,
            torch: None,
            other_torch: None,
            callee: Vec::new(),
            no_verify: false,
        }
    }
}

/// Restrictions on which rewrites are applied.
#[derive(Clone, Debug, Default)]
pub struct GateOptions {
    /// Restrictions of rules to some rewrites, as in `dce.nodes-erased=1-5:9`.
    pub debug_counter: Vec<String>,
    /// Passes that are skipped.
    pub disable: Vec<String>,
}
