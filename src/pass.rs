//! Running passes: the pass interface, pipelines as text, the runner, and its observers.
//!
//! A pass is a function `run(&mut Graph, &mut PassContext)` and a registry entry, [`PassInfo`]. It
//! does each of its transformations as a *rewrite*, [`PassContext::rewrite`]; that one call gives
//! it a gate (`--debug-counter`, `--disable`), a counter (`--stats`), a log line, a remark and
//! lineage. A pass never prints, times, verifies or touches files: [`Observer`]s of the [`run`]ner
//! do.

mod context;
mod entry_text;
mod fitness;
mod gate;
mod info;
mod pipeline;
mod recording;
mod remark;
mod run_error;
mod runner;
mod transform_cache;

pub use context::{PassContext, Rewrite, RewriteWatch, Session};

pub use context::LastAnalysis;
pub use entry_text::Unreadable;
pub use gate::GateError;
pub use gate::{Gate, never_came_up};
pub use info::{PassError, PassInfo, PassOption, Registry, Run};
pub use pipeline::PipelineError;
pub use pipeline::{GRAPH_FILE, JSON_FILE, NamedPipeline, Pipeline, Side, Stage, Step};
pub use remark::{Remark, RemarkKind};
pub use run_error::RunError;
pub use runner::{Observer, PassRun, run};
pub use transform_cache::{EntryStore, Lookup, StoreTrouble, TransformCache, Why};
