//! `jitopt`: the pass toolkit for the TorchScript textual IR.

use jitopt_driver::{Choice, World};
use std::io::{IsTerminal, Read, Write};
use std::process::ExitCode;

/// Standard input, which says on a terminal that it is being read.
struct Announced {
    is_announced: bool,
}

impl Read for Announced {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        if !std::mem::replace(&mut self.is_announced, true) {
            let note = "note: reading a graph from the terminal; Ctrl-D ends it, `jitopt --help` shows examples\n";
            let _ = std::io::stderr().write_all(note.as_bytes());
        }
        std::io::stdin().read(buffer)
    }
}

/// Reports that a file with weights was truncated while they were in use: the system sends a signal
/// to a process that reads bytes which the file no longer has.
#[cfg(target_os = "linux")]
#[allow(unsafe_code, reason = "signals are handled by functions of C")]
fn report_truncated_files() {
    extern "C" fn report(_: libc::c_int) {
        const TEXT: &[u8] = b"error: a file was truncated while its weights were in use\n  \
            help: run again; write a new version to another file and rename it\n";
        // SAFETY: both functions may be called by handlers of signals, and the text is static.
        unsafe {
            libc::write(libc::STDERR_FILENO, TEXT.as_ptr().cast(), TEXT.len());
            libc::_exit(jitopt_driver::exit::USAGE);
        }
    }
    // SAFETY: the handler calls nothing that must not be called in one, and does not return.
    unsafe { libc::signal(libc::SIGBUS, report as extern "C" fn(libc::c_int) as libc::sighandler_t) };
}

#[cfg(not(target_os = "linux"))]
fn report_truncated_files() {}

fn main() -> ExitCode {
    report_truncated_files();
    let work = || {
        let (mut stdout, mut stderr) = (std::io::stdout().lock(), std::io::stderr());
        let mut world = World {
            stdin: Box::new(Announced { is_announced: !std::io::stdin().is_terminal() }),
            stdout: &mut stdout,
            stderr: &mut stderr,
            env: std::env::vars_os()
                .filter_map(|(k, v)| Some((k.into_string().ok()?, v.into_string().ok()?)))
                .collect(),
            cwd: std::path::PathBuf::new(),
            colour: std::io::stderr().is_terminal(),
            chosen: Choice::default(),
            failed_write: None,
        };
        let argv: Vec<String> = std::env::args_os().map(|arg| arg.to_string_lossy().into_owned()).collect();
        jitopt_driver::run(&argv, &mut world)
    };
    let code = jitopt_driver::with_room(work).unwrap_or_else(|error| {
        // If stderr is closed too, the error cannot be reported.
        let _ = writeln!(std::io::stderr(), "error: cannot start a thread: {error}; is memory limited (`ulimit -v`)?");
        jitopt_driver::exit::USAGE
    });
    ExitCode::from(code as u8)
}
