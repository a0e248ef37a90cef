//! `jitopt`: the pass toolkit for the textual IR of TorchScript.

use jitopt_driver::World;
use std::io::IsTerminal;
use std::process::ExitCode;

/// Nesting of 10,000 levels is read, and the few walks that recurse over types and literals need room for that; pages that
/// are not touched cost nothing.
const STACK: usize = 1 << 30;

fn main() -> ExitCode {
    let work = || {
        let (mut stdout, mut stderr) = (std::io::stdout().lock(), std::io::stderr());
        let mut world = World {
            stdin: Box::new(std::io::stdin()),
            stdout: &mut stdout,
            stderr: &mut stderr,
            env: std::env::vars_os()
                .filter_map(|(k, v)| Some((k.into_string().ok()?, v.into_string().ok()?)))
                .collect(),
            cwd: std::path::PathBuf::new(),
            colour: std::io::stderr().is_terminal(),
        };
        let argv: Vec<String> = std::env::args_os().map(|arg| arg.to_string_lossy().into_owned()).collect();
        jitopt_driver::run(&argv, &mut world)
    };
    let code = std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().stack_size(STACK).spawn_scoped(scope, work);
        thread.ok().and_then(|thread| thread.join().ok()).unwrap_or(jitopt_driver::exit::BUG)
    });
    ExitCode::from(code as u8)
}
