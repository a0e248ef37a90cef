//! Options for archives where a graph is read.

use clap::Args;
use jitopt_engine::archives::Choice;

/// Options of the main job for archives.
#[derive(Debug, Args)]
pub(crate) struct ArchiveArgs {
    /// List the methods of archives
    #[arg(long)]
    pub(crate) list: bool,
    /// Inline the methods and functions of an archive, as PyTorch's `inlined_graph`
    #[arg(long)]
    pub(crate) inline: bool,
    /// Freeze the module of an archive, as `torch.jit.freeze`: in evaluation mode, with calls
    /// inlined and what its numbers decide settled, before other passes
    #[arg(long)]
    pub(crate) freeze: bool,
}

/// Options for archives of every command that reads graphs.
#[derive(Debug, Args)]
#[command(next_help_heading = "Archives")]
pub(crate) struct ChoiceArgs {
    /// Method of an archive whose graph is read: `encode`, or `encoder.forward` of a module in it
    /// [default: forward]
    #[arg(long, value_name = "NAME", require_equals = true, global = true)]
    pub(crate) method: Option<String>,
    /// Run an archive in evaluation mode, as after `.eval()`, whatever mode it was saved in
    #[arg(long, global = true)]
    pub(crate) eval: bool,
}

impl ChoiceArgs {
    pub(crate) fn choice(&self) -> Choice {
        Choice { method: self.method.clone(), evaluates: self.eval }
    }

    /// The flag that is given, if one is.
    pub(crate) fn given(&self) -> Option<&'static str> {
        if self.method.is_some() { Some("--method") } else { self.eval.then_some("--eval") }
    }
}
