//! Mutants of emitted texts: faults injected into the CUDA C of kernels, which the emulation and
//! its checks must find.
//!
//! `jitopt validate --backend=cuda-checked` compiles each case through a script in place of the
//! compiler, which first keeps the unit, then compiles a changed one in its stead: without a
//! barrier or a mask, with another index, identity or bound. A mutant is found if validation fails.
//! One that survives is known, with a reason, in `tools/mutation/survivors.md`, or an error.
//!
//! ```text
//! sum: JO_BARRIER(); -> nothing, in `JO_BARRIER();` (25)
//! ```

use anyhow::{Context, Result, anyhow, ensure};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Names and statements of groups over `%x` and `%w`, which make `%y`. Rows and elements have two
/// dimensions each, which do not collapse.
const CASES: [(&str, &str); 10] = [
    ("points", "%s : Tensor = aten::add(%x, %w, %one)\n  %y : Tensor = aten::relu(%s)"),
    ("gate", "%s : Tensor = aten::sigmoid(%x)\n  %t : Tensor = aten::tanh(%w)\n  %y : Tensor = aten::mul(%s, %t)"),
    ("sum", "%s : Tensor = aten::mul(%x, %w)\n  %y : Tensor = aten::sum(%s, %inner, %no, %none)"),
    ("softmax", "%s : Tensor = aten::add(%x, %w, %one)\n  %y : Tensor = aten::softmax(%s, %last, %none)"),
    ("variance", "%s : Tensor = aten::add(%x, %w, %one)\n  %y : Tensor = aten::var(%s, %inner, %no, %no)"),
    ("extremum", "%s : Tensor = aten::add(%x, %w, %one)\n  %y : Tensor = aten::amax(%s, %inner, %no)"),
    ("place", "%s : Tensor = aten::add(%x, %w, %one)\n  %y : Tensor = aten::argmax(%s, %last, %no)"),
    ("scan", "%s : Tensor = aten::add(%x, %w, %one)\n  %y : Tensor = aten::cumsum(%s, %last, %none)"),
    ("interleaved", "%s : Tensor = aten::mul(%x, %w)\n  %y : Tensor = aten::sum(%s, %outer, %no, %none)"),
    (
        "columns",
        "%m : Tensor = aten::sum(%x, %inner, %yes, %none)\n  %d : Tensor = aten::mul(%w, %m)\n  \
         %y : Tensor = aten::sum(%d, %outer, %no, %none)",
    ),
];

/// Operands of a case, for most of which it is one kernel.
struct Form {
    name: &'static str,
    /// Whether `%x` is a view in which dimensions 1 and 2 are swapped.
    is_permuted: bool,
    /// The shapes of `%x` before that, and of `%w`, which is broadcast, but not along the last
    /// dimension: that would be another kernel.
    sizes: &'static [(&'static str, &'static str)],
}

/// Each function of a kernel is launched: for any rows, for rows of up to 512, 1,024, 4,096, 16,384
/// and more aligned elements, and for parts of long rows, aligned or not. There are more rows than
/// two blocks of threads have.
const FORMS: [Form; 2] = [
    Form {
        name: "permuted",
        is_permuted: true,
        sizes: &[
            ("2,5,3,101", "2,3,5,101"),
            ("3,3,11,7", "3,1,3,7"),
            ("40,3,15,2", "1,15,3,2"),
            ("2,2,3,64", "2,1,2,64"),
            ("2,4,2,256", "2,1,4,256"),
            ("2,2,2,1000", "2,1,2,1000"),
            ("2,2,2,5000", "2,1,2,5000"),
            ("2,2,2,20000", "2,1,2,20000"),
            ("2,5,2,4001", "2,1,5,4001"),
        ],
    },
    Form {
        name: "contiguous",
        is_permuted: false,
        sizes: &[
            ("3,5,11,7", "3,1,1,7"),
            ("40,15,3,2", "1,15,1,2"),
            ("2,3,2,64", "1,3,1,64"),
            ("2,2,4,256", "2,1,1,256"),
            ("2,2,4,1000", "1,2,1,1000"),
            ("1,2,4,5000", "1,2,1,5000"),
            ("1,2,5,4001", "1,2,1,4001"),
            ("1,2,4,36000", "1,2,1,36000"),
        ],
    },
];
/// The number of mutants that are judged at the same time.
const WORKERS: usize = 2;
/// The replacements in the text of kernels. An empty text stands for nothing.
const CHANGES: [(&str, &str); 30] = [
    ("JO_BARRIER();", ""),
    ("if (JO_THREAD == 0) {", "{"),
    ("if (JO_LANE == 0) {", "{"),
    ("if (JO_THREAD >= distance) {", "{"),
    ("if ((i64)element < launch.count) {", "{"),
    ("JO_THREAD == 0", "JO_THREAD == 1"),
    ("JO_LANE == 0", "JO_LANE == 1"),
    ("JO_THREAD >= distance", "JO_THREAD > distance"),
    ("row < launch.rows", "row <= launch.rows"),
    ("row < launch.rows", "row + 1 < launch.rows"),
    ("element < launch.count", "element <= launch.count"),
    ("element < launch.count", "element + 1 < launch.count"),
    ("chunk < launch.count", "chunk + 256 < launch.count"),
    (", half)", ", half + 1)"),
    ("JO_THREAD - distance", "JO_THREAD"),
    (", JO_THREAD)", ", 0)"),
    (", JO_THREAD,", ", JO_THREAD ^ 1,"),
    (", 255)", ", 254)"),
    ("JO_GET(all", "JO_GET(1 + all"),
    ("= JO_BLOCK", "= 0"),
    ("+= JO_BLOCKS", "+= 1 + JO_BLOCKS"),
    ("half = 16", "half = 8"),
    ("distance *= 2", "distance *= 4"),
    ("half /= 2", "half /= 4"),
    ("launch.strides[0]", "launch.strides[1]"),
    ("launch.of_block", "launch.of_thread"),
    (" = 0;", " = 1;"),
    (" + ", " - "),
    (" * ", " + "),
    (" += ", " = "),
];

/// A change of the text of a case.
struct Mutant {
    case: &'static str,
    form: &'static Form,
    at: usize,
    from: &'static str,
    to: &'static str,
    /// The line that it changes, and its number.
    line: String,
    number: usize,
}

impl Mutant {
    fn file(&self) -> String {
        file(self.case, self.form)
    }

    /// The name in the list of survivors.
    fn name(&self) -> String {
        let to = if self.to.is_empty() { "nothing" } else { self.to.trim() };
        format!("{}: `{}` to `{to}` in `{}` ({})", self.file(), self.from.trim(), self.line, self.number)
    }
}

/// The folder and the binary with which one worker checks cases.
struct Bench {
    jitopt: PathBuf,
    folder: PathBuf,
}

/// The number of mutants by verdict.
#[derive(Default)]
struct Counts {
    found: usize,
    explained: usize,
    survived: usize,
    not_compiled: usize,
}

/// Makes so many mutants, and says which ones are found.
pub(crate) fn run(root: &Path, jitopt: &str, wanted: usize) -> Result<()> {
    let (jitopt, folder) = (fs::canonicalize(jitopt)?, std::env::temp_dir());
    let known = fs::read_to_string(root.join("tools/mutation/survivors.md"))?;
    let folder = folder.join(format!("emitted-mutants-{}", std::process::id()));
    let benches: Vec<Bench> =
        (0..WORKERS).map(|k| Bench { jitopt: jitopt.clone(), folder: folder.join(k.to_string()) }).collect();
    let (mut all, mut texts) = (Vec::new(), BTreeMap::new());
    for ((case, body), form) in CASES.into_iter().flat_map(|case| FORMS.iter().map(move |form| (case, form))) {
        benches.iter().try_for_each(|bench| bench.write((case, form), body))?;
        let text = benches[0].recorded((case, form))?;
        all.extend(mutants((case, form), &text));
        texts.insert(file(case, form), text);
    }
    let every = all.len().div_ceil(wanted.max(1)).max(1);
    let chosen: Vec<&Mutant> = all.iter().step_by(every).collect();
    let next = AtomicUsize::new(0);
    let work = |bench: &Bench| -> Result<Counts> {
        let mut counts = Counts::default();
        while let Some(mutant) = chosen.get(next.fetch_add(1, Ordering::Relaxed)) {
            match bench.verdict(mutant, &texts[&mutant.file()])? {
                Verdict::Found => counts.found += 1,
                Verdict::NotCompiled => counts.not_compiled += 1,
                Verdict::Survived if known.contains(&mutant.name()) => counts.explained += 1,
                Verdict::Survived => {
                    counts.survived += 1;
                    println!("survived: {}", mutant.name());
                }
            }
        }
        Ok(counts)
    };
    let counts = std::thread::scope(|scope| {
        let started: Vec<_> = benches.iter().map(|bench| scope.spawn(|| work(bench))).collect();
        started
            .into_iter()
            .map(|one| one.join().unwrap_or_else(|_| Err(anyhow!("a worker stopped"))))
            .collect::<Result<Vec<_>>>()
    })?;
    fs::remove_dir_all(&folder)?;
    print_sums(&counts, all.len())
}

/// Prints the sums; too few that are found are an error.
fn print_sums(counts: &[Counts], possible: usize) -> Result<()> {
    let sum = |f: fn(&Counts) -> usize| counts.iter().map(f).sum::<usize>();
    let (found, explained) = (sum(|counts| counts.found), sum(|counts| counts.explained));
    let (survived, not_compiled) = (sum(|counts| counts.survived), sum(|counts| counts.not_compiled));
    let share = 100 * found / (found + survived).max(1);
    println!(
        "{} of {possible} possible mutants: {found} found, {explained} equivalent, {survived} survived, \
         {not_compiled} do not compile; {share} % of those not shown equivalent are found",
        found + explained + survived + not_compiled
    );
    ensure!(share >= 90, "less than 90 % are found");
    Ok(())
}

/// The name of a case in one form.
fn file(case: &str, form: &Form) -> String {
    format!("{case}-{}", form.name)
}

/// All changes of the kernels in a unit, in the order of places in the text.
fn mutants((case, form): (&'static str, &'static Form), text: &str) -> Vec<Mutant> {
    let begin = text.find("\nJO_KERNEL(").unwrap_or(0);
    let end = text.find("_body(const void *arguments)").unwrap_or(text.len());
    let mut all = Vec::new();
    for (from, to) in CHANGES {
        for (at, _) in text[begin..end].match_indices(from) {
            let at = begin + at;
            let number = text[begin..at].matches('\n').count();
            let first = text[..at].rfind('\n').map_or(0, |at| at + 1);
            let code = text[first..].lines().next().unwrap_or_default();
            let is_note = code.find(" // ").is_some_and(|note| first + note < at);
            if !is_note {
                let line = code.split(" // ").next().unwrap_or_default().trim().to_owned();
                all.push(Mutant { case, form, at, from, to, line, number });
            }
        }
    }
    all.sort_by_key(|mutant| mutant.at);
    all
}

enum Verdict {
    Found,
    Survived,
    NotCompiled,
}

impl Bench {
    fn graph(&self, case: &str) -> PathBuf {
        self.folder.join(format!("{case}.ir"))
    }

    /// Writes a case.
    fn write(&self, (case, form): (&str, &Form), body: &str) -> Result<()> {
        fs::create_dir_all(&self.folder)?;
        let x = if form.is_permuted { "%v" } else { "%x" };
        let graph = format!(
            "graph(%x : Float(*, *, *, *), %w : Float(*, *, *, *)):
  %order : int[] = prim::Constant[value=[0, 2, 1, 3]]()
  %v : Float(*, *, *, *) = aten::permute(%x, %order)
  %r : Tensor = prim::FusionGroup_0({x}, %w)
  return (%r)
with prim::FusionGroup_0 = graph(%x : Float(*, *, *, *), %w : Float(*, *, *, *)):
  %none : None = prim::Constant()
  %one : int = prim::Constant[value=1]()
  %last : int = prim::Constant[value=-1]()
  %no : bool = prim::Constant[value=0]()
  %yes : bool = prim::Constant[value=1]()
  %outer : int[] = prim::Constant[value=[0, 1]]()
  %inner : int[] = prim::Constant[value=[2, 3]]()
  {body}
  return (%y)
"
        );
        Ok(fs::write(self.graph(&file(case, form)), graph)?)
    }

    /// The unit that a case is compiled from.
    fn recorded(&self, (case, form): (&str, &Form)) -> Result<String> {
        let case = file(case, form);
        let unit = self.folder.join("unit.c");
        let keep = format!("if grep -q jo_launch \"$a\" 2> /dev/null; then cp \"$a\" '{}'; fi", unit.display());
        self.write_compiler(&keep)?;
        let mut texts = Vec::new();
        // Some sizes have another kernel in some cases, and then find no mutant of the first one.
        for (seed, sizes) in form.sizes.iter().enumerate() {
            let (code, output) = self.validate(&case, *sizes, seed)?;
            ensure!(code == Some(0) && output.contains("launched"), "{case} {sizes:?}: {output}");
            texts.push(fs::read_to_string(&unit).with_context(|| format!("{case} has no unit"))?);
        }
        Ok(texts.swap_remove(0))
    }

    /// Whether a mutant is found, by checks or by its results.
    fn verdict(&self, mutant: &Mutant, text: &str) -> Result<Verdict> {
        let changed = format!("{}{}{}", &text[..mutant.at], mutant.to, &text[mutant.at + mutant.from.len()..]);
        let (unit, other) = (self.folder.join("unit.c"), self.folder.join("changed.c"));
        fs::write(&unit, text)?;
        fs::write(&other, changed)?;
        let swap = format!("if cmp -s \"$a\" '{}'; then a='{}'; fi", unit.display(), other.display());
        self.write_compiler(&swap)?;
        for (seed, sizes) in mutant.form.sizes.iter().enumerate() {
            let (code, output) = self.validate(&mutant.file(), *sizes, seed)?;
            if output.contains("could not be compiled") || output.contains("no kernel") {
                return Ok(Verdict::NotCompiled);
            }
            if code != Some(0) {
                return Ok(Verdict::Found);
            }
        }
        Ok(Verdict::Survived)
    }

    /// A script that does something with each argument, `a`, and calls the compiler.
    fn write_compiler(&self, each: &str) -> Result<()> {
        let script = format!("for a do\n  shift\n  {each}\n  set -- \"$@\" \"$a\"\ndone\nexec cc \"$@\"\n");
        Ok(fs::write(self.folder.join("compiler.sh"), script)?)
    }

    fn validate(&self, case: &str, (x, w): (&str, &str), seed: usize) -> Result<(Option<i32>, String)> {
        let program = self.jitopt.display();
        let mut command = Command::new("timeout");
        command.arg("60").arg(&self.jitopt).arg("validate").arg(self.graph(case)).args([
            "--samples",
            "1",
            "--no-cache",
        ]);
        command.args([format!("--shape=%x={x}"), format!("--shape=%w={w}")]);
        command.args(["--backend=cuda-checked".to_owned(), format!("--schedule-seed={seed}")]);
        command.env("JITOPT_CC", format!("sh {}", self.folder.join("compiler.sh").display()));
        let output = command.stdin(Stdio::null()).output().with_context(|| format!("{program} does not run"))?;
        let text = String::from_utf8_lossy(&output.stderr) + String::from_utf8_lossy(&output.stdout);
        Ok((output.status.code(), text.into_owned()))
    }
}
