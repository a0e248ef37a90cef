//! The system's C compiler: found, tested, and run on units of kernels.
//!
//! It runs without a shell, in a folder that no other user reads, within a time limit. Kernels
//! include no headers and call no library.

use super::disk_cache::{DiskCache, digest};
use super::loading::Loaded;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// A compiler that works here.
#[derive(Clone, Debug)]
pub struct Compiler {
    /// The program with its leading arguments: `CC` may be `ccache gcc`.
    program: Vec<String>,
    /// The flags that it accepts.
    flags: Vec<&'static str>,
    /// Identifies its output: version, flags, processor.
    identity: String,
}

/// The time limit for a unit.
const TIME_LIMIT: Duration = Duration::from_secs(60);

/// The compilers that are tried by default.
const USUAL: [&str; 3] = ["cc", "gcc", "clang"];

/// Sets of flags, best first; the first that a compiler accepts is used. No flag allows it to
/// assume that there are no NaN or infinities, and none sets flush-to-zero for the whole process,
/// as `-Ofast` does. Multiply-adds are contracted where the source of a kernel says so, and nowhere
/// else. Without the vector width, compilers halve the vectors of AVX-512. GCC threads jumps
/// through the bounds of a number into the values computed from it, which costs an exponential a
/// fifth once the jumps are masks again. Measured: 2.56 ns for an element of an LSTM cell with the
/// first set, 5.2 with vectors of AVX2, 22 without `-fopenmp-simd`.
///
/// Kernels are as fast at `-O2` with the vectors of `-O3`, and compile in half the time (the
/// gradient of an LSTM cell in 0.35 s instead of 0.69 with GCC 12): `-O3` in addition splits the
/// ends of loops, once for each vector width. Register allocation treats a function as one region,
/// which takes another fifth off, as loops need all of them anyway.
const FLAGS: [&[&[&str]]; 5] = [
    &[&["-O2"], &GCC, &NATIVE, &USED],
    &[&["-O2"], &NATIVE, &USED],
    &[&["-O3", "-mcpu=native"], &USED],
    &[&["-std=gnu11", "-O2", "-ffp-contract=off", "-fno-math-errno", "-fwrapv", "-fopenmp-simd", "-fPIC", "-shared"]],
    &[&["-fPIC", "-shared"]],
];

/// Flags for GCC only.
const GCC: [&str; 5] = [
    "-ftree-vectorize",
    "-fvect-cost-model=dynamic",
    "-fira-region=one",
    "-fno-tree-loop-distribute-patterns",
    "-fno-thread-jumps",
];

/// Flags for this processor, without registers for programs of before 1999. GCC 12 moves a pair of
/// integers through an MMX register (`movq2dq`) and never emits `emms`: the next x87 instruction of
/// the thread finds a full stack and loads NaN, and GCC copies floats through those registers where
/// it has run out of others.
const NATIVE: [&str; 4] = ["-march=native", "-mprefer-vector-width=512", "-mno-mmx", "-mno-80387"];

/// Flags for every compiler that accepts them.
const USED: [&str; 9] = [
    "-std=gnu11",
    "-fno-math-errno",
    "-fno-trapping-math",
    "-ffp-contract=off",
    "-fwrapv",
    "-fopenmp-simd",
    "-fPIC",
    "-shared",
    "-nostdlib",
];

/// The flags without vectorisation.
const FEW: [&str; 1] = ["-O1"];

/// The flags that request vectorisation.
const VECTORS: [&str; 2] = ["-fopenmp-simd", "-ftree-vectorize"];

/// A set of flags; without vectorisation compilation takes a tenth of the time.
fn flags(set: usize, scalar: bool) -> Vec<&'static str> {
    let all = FLAGS[set].iter().copied().flatten().copied();
    match scalar {
        false => all.collect(),
        true => all.filter(|flag| !flag.starts_with("-O") && !VECTORS.contains(flag)).chain(FEW).collect(),
    }
}

/// The source that tests whether a compiler works.
const PROBE: &str = "int jo_probe(void) { return 42; }\n";

/// Finds a compiler: the requested one, or else `CC`, `cc`, `gcc`, `clang`. The verdict on each is
/// kept on disk.
///
/// # Errors
/// The message of each of them.
pub(crate) fn find(
    (asked_for, cc): (Option<&str>, Option<&str>),
    scalar: bool,
    cache: &DiskCache,
    deadline: Option<Instant>,
) -> Result<Compiler, String> {
    let mut tried = Vec::new();
    let names: Vec<&str> = match asked_for {
        Some(name) => vec![name],
        None => cc.into_iter().chain(USUAL).collect(),
    };
    for name in names {
        let program: Vec<String> = name.split_whitespace().map(str::to_owned).collect();
        if program.is_empty() {
            continue;
        }
        match probe(&program, scalar, cache, deadline) {
            Ok(compiler) => return Ok(compiler),
            Err(why) => tried.push(format!("`{name}`: {why}")),
        }
    }
    Err(format!("no C compiler works here: {}", tried.join("; ")))
}

fn probe(program: &[String], scalar: bool, cache: &DiskCache, deadline: Option<Instant>) -> Result<Compiler, String> {
    let path = located(&program[0])?;
    let file = std::fs::metadata(&path).map_err(|error| error.to_string())?;
    let time = file.modified().ok().and_then(|at| at.duration_since(std::time::UNIX_EPOCH).ok()).unwrap_or_default();
    let processor = processor();
    let sets = digest(format!("{FLAGS:?}").as_bytes());
    let asked = format!("{program:?} {sets} {} {} {time:?}\n{processor}", path.display(), file.len());
    let known = cache.verdict(&asked).and_then(|text| {
        let (set, version) = text.split_once('\n')?;
        Some((set.parse::<usize>().ok().filter(|&set| set < FLAGS.len())?, version.to_owned()))
    });
    let (set, version) = match known {
        Some(known) => known,
        None => {
            let found = tried(program, cache, deadline)?;
            cache.remember_verdict(&asked, &format!("{}\n{}", found.0, found.1));
            found
        }
    };
    let flags = flags(set, scalar);
    let identity = format!("{version}\n{program:?} {flags:?}\n{processor}");
    Ok(Compiler { program: program.to_vec(), flags, identity })
}

/// The first set of flags that works, and the version.
fn tried(program: &[String], cache: &DiskCache, deadline: Option<Instant>) -> Result<(usize, String), String> {
    let folder = cache.private_folder().map_err(|error| format!("cannot create a folder to compile in: {error}"))?;
    let mut first_error = None;
    for set in 0..FLAGS.len() {
        let compiler = Compiler { program: program.to_vec(), flags: flags(set, false), identity: String::new() };
        let works =
            compiler.compile((PROBE, false), &folder.0, deadline).and_then(|library| Loaded::open(&library)?.answers());
        match works {
            Ok(()) => return Ok((set, version(program, &folder.0))),
            Err(why) => first_error.get_or_insert(why),
        };
        if deadline.is_some_and(|end| Instant::now() >= end) {
            break;
        }
    }
    Err(first_error.unwrap_or_default())
}

/// The number of words that name the compiler, as in `ccache gcc -O1`; options follow them.
fn names(program: &[String]) -> usize {
    program.iter().position(|word| word.starts_with('-')).unwrap_or(program.len()).max(1)
}

fn version(program: &[String], folder: &Path) -> String {
    let mut command = Command::new(&program[0]);
    command.args(&program[1..]).arg("--version");
    match finished(command, folder, None) {
        Ok((_, said)) => said.lines().next().unwrap_or_default().to_owned(),
        Err(_) => String::new(),
    }
}

/// The path of a program.
pub(super) fn located(program: &str) -> Result<PathBuf, &'static str> {
    if program.contains('/') {
        return Some(PathBuf::from(program)).filter(|path| path.is_file()).ok_or("there is no such program");
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).map(|folder| folder.join(program)).find(|path| path.is_file());
    found.ok_or("there is no such program on the path")
}

/// The processor's features, as the system reports them: code compiled for one processor does not
/// run on another.
fn processor() -> String {
    let all = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let features = all.lines().find(|line| line.starts_with("flags") || line.starts_with("Features"));
    format!("{} {}", std::env::consts::ARCH, features.map_or("unknown".to_owned(), |line| digest(line.as_bytes())))
}

impl Compiler {
    /// Distinguishes its output from that of other compilers, flags and processors.
    pub(crate) fn identity(&self) -> &str {
        &self.identity
    }

    /// The program.
    pub fn name(&self) -> String {
        self.program.join(" ")
    }

    /// Compiles a unit into a folder and returns the path of the library. If the unit `truncates`
    /// floats, the compiler keeps conversions to integers as they are written.
    ///
    /// # Errors
    /// The exit status and output of the compiler; that the deadline has passed.
    pub(crate) fn compile(
        &self,
        (source, truncates): (&str, bool),
        folder: &Path,
        deadline: Option<Instant>,
    ) -> Result<PathBuf, String> {
        let (unit, library) = (folder.join("unit.c"), folder.join("unit.so"));
        std::fs::write(&unit, source).map_err(|error| format!("cannot write a unit: {error}"))?;
        let mut command = Command::new(&self.program[0]);
        // The user's options come last and win: `JITOPT_CC='gcc -march=x86-64'`.
        let (names, options) = self.program.split_at(names(&self.program));
        command.args(&names[1..]).args(&self.flags).args(options);
        // Without traps, GCC 12 turns the conversion of a float to an integer and back into
        // `trunc`, which gives -0.0 for numbers between -1 and 0.
        if truncates {
            command.arg("-ftrapping-math");
        }
        command.args([OsStr::new("-o"), library.as_os_str(), unit.as_os_str()]);
        let (status, said) = finished(command, folder, deadline)?;
        if status.success() && library.is_file() {
            return Ok(library);
        }
        let said = if said.trim().is_empty() { String::new() } else { format!(":\n{}", said.trim_end()) };
        Err(format!("it ended with {status} and made no library{said}"))
    }
}

/// Runs a program in a folder and returns its exit status and output. It is killed after the time
/// limit.
pub(super) fn finished(
    mut command: Command,
    folder: &Path,
    deadline: Option<Instant>,
) -> Result<(ExitStatus, String), String> {
    // A file, not a pipe, because nothing reads while the program runs.
    let said = folder.join("said.txt");
    let file = || std::fs::File::create(&said).and_then(|file| Ok((file.try_clone()?, file)));
    let (out, err) = file().map_err(|error| error.to_string())?;
    command.current_dir(folder).env("LC_ALL", "C").stdin(Stdio::null()).stdout(out).stderr(err);
    // Intermediate files are private, too.
    command.env("TMPDIR", folder);
    let mut child = command.spawn().map_err(|error| error.to_string())?;
    let begin = Instant::now();
    let mut pause = Duration::from_micros(200);
    loop {
        match child.try_wait() {
            Ok(Some(status)) => {
                let text = std::fs::read(&said).unwrap_or_default();
                return Ok((status, String::from_utf8_lossy(&text).into_owned()));
            }
            Ok(None) if deadline.is_some_and(|end| Instant::now() >= end) => {
                end(&mut child);
                let spent = begin.elapsed().as_secs_f64();
                return Err(format!("it was ended after {spent:.1} seconds, as the time that was given is over"));
            }
            Ok(None) if begin.elapsed() < TIME_LIMIT => std::thread::sleep(pause),
            Ok(None) => {
                end(&mut child);
                return Err(format!("it took more than {} seconds", TIME_LIMIT.as_secs()));
            }
            Err(error) => return Err(error.to_string()),
        }
        pause = (pause * 2).min(Duration::from_millis(2));
    }
}

/// Kills a program, and first the ones that it started: compilers are often a driver that starts
/// another program.
fn end(child: &mut Child) {
    let mut all = vec![child.id()];
    let mut i = 0;
    while let Some(&id) = all.get(i) {
        // Without that file only the driver is killed.
        let children = std::fs::read_to_string(format!("/proc/{id}/task/{id}/children")).unwrap_or_default();
        all.extend(children.split_whitespace().filter_map(|id| id.parse::<u32>().ok()));
        i += 1;
    }
    if all.len() > 1 {
        let started = all[1..].iter().map(u32::to_string);
        let _ = Command::new("kill").arg("-KILL").args(started).stderr(Stdio::null()).status();
    }
    let _ = child.kill();
    let _ = child.wait();
}

#[cfg(test)]
#[cfg(target_arch = "x86_64")]
mod tests {
    use super::*;

    #[test]
    fn kernels_leave_the_registers_of_mmx_and_x87_alone() {
        let cache = DiskCache::new(None);
        let text =
            "#if defined __MMX__ || !defined _SOFT_FLOAT && !defined __clang__\n#error \"old registers\"\n#endif\n";
        for (cc, scalar) in [("cc", false), ("cc", true), ("cc -march=x86-64", false)] {
            let compiler = find((Some(cc), None), scalar, &cache, None).expect("there is a C compiler");
            let folder = cache.private_folder().expect("there is a folder");
            let compiled = compiler.compile((&format!("{text}{PROBE}"), false), &folder.0, None);
            assert!(compiled.is_ok(), "{cc}: {compiled:?}");
        }
    }
}
