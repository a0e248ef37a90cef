//! Operations on TorchScript graphs, for programs: reading graphs and values, running, comparing,
//! bisecting, reducing and measuring them.
//!
//! The crate returns values, [`Note`]s and [`Error`]s. It knows no command line, no standard
//! streams and no exit codes; [`spell_settings`] sets how messages name options.
//!
//! Each operation takes options, a [`Program`] and a [`Workspace`]: [`Comparison`] validates
//! passes, [`Run`] runs a graph and its gradients, [`Bisection`] finds the rewrites at fault,
//! [`Reduction`] shrinks a failing graph, [`Measured`] compares the speed of two pipelines. The
//! example `validate_my_pass` shows the whole of it.

mod agreed_inputs;
pub mod archives;
pub mod audit;
pub mod audit_report;
mod bindings;
mod cache_folder;
mod callees;
mod device_rows;
mod drawing;
mod error;
mod fusion_report;
mod given_texts;
mod given_values;
mod gradient_run;
pub mod judging;
mod keeping;
mod kept_graphs;
mod kernel_table;
mod known_values;
mod measurement_bank;
mod measuring;
mod memory_proofs;
pub mod merged_results;
mod minimizing;
mod move_classes;
pub mod move_report;
mod moved_weights;
mod named_values;
pub mod observing;
mod onlooker;
mod operator_times;
mod options;
mod page;
mod paired;
mod paired_gradients;
pub mod panics;
pub mod plain_values;
mod prediction;
pub mod processor;
pub mod profiles;
mod program;
mod repeated_inputs;
pub mod reporting;
mod roof;
mod running;
mod settings;
mod specializing;
pub mod stack;
mod suspects;
mod teamwork;
mod traffic;
mod tuning;
mod validating;
mod verdicts;
mod workspace;

pub use bindings::Bindable;
pub use callees::{Callees, Calls, load as load_callees_of, load_all as load_callees, warn_of_uncalled};
pub use error::{Error, Kind, Stopped};
pub use fusion_report::FusionReport;
pub use given_texts::{CalleeOf, ContentOf, Expected, FileOf, Filling, SizesOf};
pub use gradient_run::GradientRun;
pub use judging::Trial;
pub use keeping::{Caching, Circumstances};
pub use kernel_table::KernelTable;
pub use measuring::{Bench, Measured};
pub use minimizing::{Reduced, Reduction};
pub use move_classes::MoveClass;
pub use operator_times::OperatorTimes;
pub use options::{AtHand, BackendOptions, Checks, GateOptions, JudgeOptions, RunOptions, Semantics, Values};
pub use page::Page;
pub use paired_gradients::Gradients;
pub use prediction::{Predicted, PredictionSubject};
pub use program::Program;
pub use running::{Ran, Run};
pub use settings::{Setting, spell_settings};
pub use specializing::Specialization;
pub use suspects::{Bisection, Fault, WrongGroup};
pub use tuning::{Measurement, Tuned, TuningOptions};
pub use validating::{Against, Comparison, EachPass, When};
pub use verdicts::Compared;
pub use workspace::{Level, Note, Workspace};
