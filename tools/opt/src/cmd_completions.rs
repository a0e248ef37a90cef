//! `jitopt completions SHELL`: prints a completion script.

use crate::arguments::{Cli, CompletionsArgs};
use crate::{World, exit};
use clap::CommandFactory;

pub(crate) fn run(args: &CompletionsArgs, world: &mut World<'_>) -> i32 {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "jitopt", &mut script);
    world.print(&script);
    exit::YES
}
