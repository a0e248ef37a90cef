//! The driver as tests call it: without a process, with its streams in memory.

use jitopt_driver::World;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// The exit code of `jitopt ARGV`, its messages and its output.
pub fn jitopt<S: AsRef<str>>(argv: &[S]) -> (i32, String, String) {
    let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
    let mut world = World {
        stdin: Box::new(std::io::empty()),
        stdout: &mut stdout,
        stderr: &mut stderr,
        env: BTreeMap::default(),
        cwd: PathBuf::new(),
        colour: false,
        chosen: jitopt_driver::Choice::default(),
        failed_write: None,
    };
    let argv: Vec<String> =
        std::iter::once("jitopt").chain(argv.iter().map(AsRef::as_ref)).map(str::to_owned).collect();
    let code = jitopt_driver::run(&argv, &mut world);
    drop(world);
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (code, text(&stderr), text(&stdout))
}
