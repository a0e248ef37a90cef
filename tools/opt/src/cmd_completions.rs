//! `jitopt completions SHELL`: prints a completion script.

use crate::arguments::{Cli, CompletionsArgs};
use crate::{World, exit};
use clap::{CommandFactory, ValueEnum};
use clap_complete::Shell;

pub(crate) fn run(args: &CompletionsArgs, world: &mut World<'_>) -> i32 {
    let Some(shell) = args.shell else {
        let shells: Vec<String> = Shell::value_variants().iter().map(Shell::to_string).collect();
        world.say(&format!(
            "error: for which shell? one of {}\n  help: bash reads `source <(jitopt completions bash)`",
            shells.join(", ")
        ));
        return exit::USAGE;
    };
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "jitopt", &mut script);
    world.print(&script);
    exit::YES
}
