//! `jitopt filecheck`: checks the text on stdin.

use crate::arguments::{Cli, FilecheckArgs};
use crate::{World, exit};
use clap::CommandFactory;
use std::io::Read;
use std::path::Path;

pub(crate) fn run(args: &FilecheckArgs, world: &mut World<'_>) -> i32 {
    if args.arguments.iter().any(|arg| arg == "--help" || arg == "-h") {
        world.print(help().as_bytes());
        return exit::YES;
    }
    let mut stdin = Vec::new();
    let from_file = args.arguments.iter().any(|arg| arg.starts_with("--input-file"));
    if !from_file && world.stdin.read_to_end(&mut stdin).is_err() {
        world.say("error: cannot read standard input");
        return exit::USAGE;
    }
    let argv: Vec<String> = std::iter::once("filecheck".to_owned()).chain(args.arguments.iter().cloned()).collect();
    let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
    let cwd = if world.cwd.as_os_str().is_empty() { Path::new(".").to_owned() } else { world.cwd.clone() };
    let mut io = jitopt_lit::Io { stdin: &stdin, stdout: &mut stdout, stderr: &mut stderr, env: &world.env, cwd: &cwd };
    let code = jitopt_lit::filecheck_command(&argv, &mut io);
    world.print(&stdout);
    if !stderr.is_empty() {
        world.say(&String::from_utf8_lossy(&stderr));
    }
    code
}

/// The help of the subcommand. Its flags are parsed by the filecheck crate, so `--help` is handled
/// here.
fn help() -> String {
    let mut all = Cli::command();
    all.build();
    all.find_subcommand_mut("filecheck").map_or(String::new(), |command| command.render_help().to_string())
}
