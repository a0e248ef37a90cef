//! Options for archives where a graph is read.

use clap::Args;
use jitopt_core::interpreter::Release;
use jitopt_engine::archives::Wanted;

#[derive(Debug, Args)]
pub(crate) struct ArchiveArgs {
    /// Method of an archive whose graph is read: `encode`, or `encoder.forward` of a module in it
    /// [default: forward]
    #[arg(long, value_name = "NAME", require_equals = true)]
    pub(crate) method: Option<String>,
    /// List the methods of archives
    #[arg(long)]
    pub(crate) list: bool,
    /// Inline the methods and functions of an archive, as PyTorch's `inlined_graph`
    #[arg(long)]
    pub(crate) inline: bool,
}

impl ArchiveArgs {
    pub(crate) fn wanted(&self, release: Option<Release>) -> Wanted {
        Wanted { method: self.method.clone(), inline: self.inline, runs: false, release }
    }
}
