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

/// Names and statements of groups over `%x` and `%w`, which make `%y`. Rows and elements have three
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
        "%s : Tensor = aten::add(%x, %w, %one)\n  %m : Tensor = aten::sum(%s, %inner, %yes, %none)\n  \
         %d : Tensor = aten::mul(%s, %m)\n  \
         %y : Tensor = aten::sum(%d, %outer, %no, %none)",
    ),
];

/// Operands of a case.
struct Form {
    name: &'static str,
    /// Whether `%x` is a view in which dimensions 2 and 3 are swapped.
    is_permuted: bool,
}

const FORMS: [Form; 2] =
    [Form { name: "permuted", is_permuted: true }, Form { name: "contiguous", is_permuted: false }];
/// The sizes of `%x`, as the group sees it, and of `%w`, which is broadcast, but not along the last
/// dimension: that would be another kernel. Each function of a kernel is launched by some of them,
/// and each loop over rows, parts or elements runs more than once in one.
const SIZES: [(&str, &str); 15] = [
    ("3,2,3,2,3,7", "3,1,3,2,1,7"),
    ("2,2,2,2,2,301", "2,1,2,2,1,301"),
    ("10,4,3,5,3,4", "10,1,3,5,1,4"),
    // Interleaved rows, split or not.
    ("20,6,10,2,3,6", "20,1,10,2,1,6"),
    ("3,5,4,5,11,12", "3,1,4,5,1,12"),
    // Aligned rows of up to 512, 1,024, 4,096, 16,384 and more elements.
    ("3,2,2,2,1,100", "3,1,2,2,1,100"),
    ("3,2,2,2,1,200", "3,1,2,2,1,200"),
    ("3,2,2,2,1,400", "3,1,2,2,1,400"),
    ("3,2,2,2,1,520", "3,1,2,2,1,520"),
    ("2,2,2,2,1,2056", "2,1,2,2,1,2056"),
    ("2,2,2,2,1,8200", "2,1,2,2,1,8200"),
    ("2,1,2,2,1,17000", "2,1,1,2,1,17000"),
    // Long rows that are split, aligned or not.
    ("2,2,2,2,1,16999", "2,1,2,2,1,16999"),
    ("1,1,1,1,1,140003", "1,1,1,1,1,140003"),
    ("2,1,2,1,1,131100", "2,1,1,1,1,131100"),
];
/// How many of them, the last ones, are for split rows.
const SPLIT: usize = 3;
/// What kernels begin with in a unit, and what they say in a trial run.
const KERNEL: &str = "\nJO_KERNEL(";
const ENTERED: &str = "launches ";
/// The number of mutants that are judged at the same time.
const WORKERS: usize = 2;
/// How many are judged between two lines that say so.
const PROGRESS: usize = 25;
/// The replacements in the text of kernels. An empty text stands for nothing.
const CHANGES: [(&str, &str); 29] = [
    ("JO_BARRIER();", ""),
    ("if (JO_THREAD == 0) {", "{"),
    ("if (JO_LANE == 0) {", "{"),
    ("if (JO_LANE >= distance) {", "{"),
    ("if ((i64)element < launch.count) {", "{"),
    ("JO_LANE == 0", "JO_LANE == 1"),
    ("JO_LANE >= distance", "JO_LANE > distance"),
    ("row < launch.rows", "row <= launch.rows"),
    ("row < launch.rows", "row + 1 < launch.rows"),
    ("element < launch.count", "element <= launch.count"),
    ("element < launch.count", "element + 4 < launch.count"),
    ("chunk < launch.count", "chunk + 256 < launch.count"),
    (", half)", ", half + 1)"),
    ("JO_WARP - 1)", "JO_WARP)"),
    (", JO_THREAD)", ", 0)"),
    (", JO_THREAD,", ", JO_THREAD ^ 1,"),
    (", 7)", ", 6)"),
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

/// Changes of what threads have in common: each of them is judged, however few mutants are wanted.
const OF_TEAMS: usize = 4;

impl Form {
    /// The sizes of `%x`, as the graph has it, and of `%w`.
    fn sizes(&self, number: usize) -> (String, &'static str) {
        let (x, w) = SIZES[number];
        let mut sizes: Vec<&str> = x.split(',').collect();
        if self.is_permuted {
            sizes.swap(2, 3);
        }
        (sizes.join(","), w)
    }
}

/// The unit of a case in one form.
struct Unit {
    case: &'static str,
    form: &'static Form,
    text: String,
    /// The sizes that launch each kernel of it.
    launched: BTreeMap<String, Vec<usize>>,
}

/// A change of the text of a unit.
struct Mutant<'u> {
    unit: &'u Unit,
    at: usize,
    from: &'static str,
    to: &'static str,
    /// The kernel, the line, and its number in the kernel.
    kernel: String,
    line: String,
    number: usize,
    /// Whether it is a change of what threads have in common.
    is_of_teams: bool,
}

impl Mutant<'_> {
    /// What is changed, and where.
    fn name(&self) -> String {
        let Mutant { unit, from, to, kernel, line, number, .. } = self;
        let form = unit.form.name;
        format!("{}: `{}` to `{}` in `{line}` ({kernel}, {form}, {number})", unit.case, from.trim(), to.trim())
    }

    /// Whether it is known to change nothing: in this case or in any, in a line that contains this.
    fn is_known(&self, known: &str) -> bool {
        let to = if self.to.is_empty() { "nothing" } else { self.to.trim() };
        let fits = |item: &str| {
            let (case, change) = item.split_once(": ")?;
            let [_, from, _, becomes, _, part, ..] = change.split('`').collect::<Vec<_>>()[..] else { return None };
            let is_case = case == "any" || case == self.unit.case;
            Some(is_case && from == self.from.trim() && becomes == to && self.line.contains(part))
        };
        known.lines().filter_map(|line| line.strip_prefix("- ")).any(|item| fits(item) == Some(true))
    }
}

/// A folder for a case, and the program.
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
    teams_survived: usize,
}

/// Makes so many mutants, and says which ones are found.
pub(crate) fn run(root: &Path, jitopt: &str, wanted: usize) -> Result<()> {
    let (jitopt, folder) = (fs::canonicalize(jitopt)?, std::env::temp_dir());
    let known = fs::read_to_string(root.join("tools/mutation/survivors.md"))?;
    let folder = folder.join(format!("emitted-mutants-{}", std::process::id()));
    let benches: Vec<Bench> =
        (0..WORKERS).map(|k| Bench { jitopt: jitopt.clone(), folder: folder.join(k.to_string()) }).collect();
    let cases = CASES.into_iter().flat_map(|case| FORMS.iter().map(move |form| (case, form))).collect::<Vec<_>>();
    let units = shared_out(&benches, &cases, &|bench, (case, form)| {
        benches.iter().try_for_each(|bench| bench.write((case.0, form), case.1))?;
        bench.recorded((*case, *form))
    })?;
    let all: Vec<Mutant<'_>> = units.iter().flat_map(mutants).collect();
    let is_repeated = |mutant: &&Mutant<'_>| mutant.unit.form.is_permuted && mutant.is_of_teams;
    // Both forms of a case have the same barriers.
    let (teams, others): (Vec<&Mutant<'_>>, Vec<_>) =
        all.iter().filter(|mutant| !is_repeated(mutant)).partition(|mutant| mutant.is_of_teams);
    let every = others.len().div_ceil(wanted.max(1)).max(1);
    let chosen: Vec<&Mutant<'_>> = teams.into_iter().chain(others.into_iter().step_by(every)).collect();
    println!("{} of {} possible mutants", chosen.len(), all.len());
    let judged = AtomicUsize::new(0);
    let verdicts = shared_out(&benches, &chosen, &|bench, mutant| {
        let verdict = bench.verdict(mutant)?;
        let judged = 1 + judged.fetch_add(1, Ordering::Relaxed);
        if judged.is_multiple_of(PROGRESS) {
            println!("{judged} judged");
        }
        let is_open = matches!(verdict, Verdict::Survived) && !mutant.is_known(&known);
        if is_open {
            println!("survived: {}", mutant.name());
        }
        Ok(verdict)
    })?;
    let mut counts = Counts::default();
    for (mutant, verdict) in chosen.iter().zip(verdicts) {
        match verdict {
            Verdict::Found => counts.found += 1,
            Verdict::NotCompiled => counts.not_compiled += 1,
            Verdict::Survived if mutant.is_known(&known) => counts.explained += 1,
            Verdict::Survived => {
                counts.survived += 1;
                counts.teams_survived += usize::from(mutant.is_of_teams);
            }
        }
    }
    fs::remove_dir_all(&folder)?;
    print_sums(&counts)
}

/// Does something with all items, in their order, on several benches at the same time.
fn shared_out<T: Sync, R: Send>(
    benches: &[Bench],
    items: &[T],
    work: &(dyn Fn(&Bench, &T) -> Result<R> + Sync),
) -> Result<Vec<R>> {
    let next = AtomicUsize::new(0);
    let all = |bench: &Bench| -> Result<Vec<(usize, R)>> {
        let mut done = Vec::new();
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(item) = items.get(at) else { return Ok(done) };
            done.push((at, work(bench, item)?));
        }
    };
    let done = std::thread::scope(|scope| {
        let started: Vec<_> = benches.iter().map(|bench| scope.spawn(|| all(bench))).collect();
        let joined = started.into_iter().map(|one| one.join().unwrap_or_else(|_| Err(anyhow!("a worker stopped"))));
        joined.collect::<Result<Vec<_>>>()
    })?;
    let mut done: Vec<(usize, R)> = done.into_iter().flatten().collect();
    done.sort_by_key(|one| one.0);
    Ok(done.into_iter().map(|one| one.1).collect())
}

/// Prints the sums; too few that are found are an error.
fn print_sums(counts: &Counts) -> Result<()> {
    let Counts { found, explained, survived, not_compiled, teams_survived } = counts;
    let share = 100 * found / (found + survived).max(1);
    println!(
        "{found} found, {explained} equivalent, {survived} survived ({teams_survived} of them removed barriers and \
         masks), {not_compiled} do not compile; {share} % of those not shown equivalent are found"
    );
    ensure!(share >= 90, "less than 90 % are found");
    ensure!(*teams_survived == 0, "a removed barrier or mask is not found");
    Ok(())
}

/// The name of a case in one form.
fn file(case: &str, form: &Form) -> String {
    format!("{case}-{}", form.name)
}

/// All changes of the kernels in a unit, in the order of places in the text.
fn mutants(unit: &Unit) -> Vec<Mutant<'_>> {
    let text = &unit.text;
    let begin = text.find(KERNEL).unwrap_or(0);
    let end = text[begin..].find("\nJO_ENTRY(").map_or(text.len(), |at| begin + at);
    let mut all = Vec::new();
    for (change, (from, to)) in CHANGES.into_iter().enumerate() {
        for (at, _) in text[begin..end].match_indices(from) {
            let at = begin + at;
            let first = text[..at].rfind('\n').map_or(0, |at| at + 1);
            let code = text[first..].lines().next().unwrap_or_default();
            let is_note = code.find(" // ").is_some_and(|note| first + note < at);
            let before = text[..at].rsplit(KERNEL).next().unwrap_or_default();
            let (kernel, number) = (before.split(',').next().unwrap_or_default(), before.matches('\n').count());
            if !is_note {
                let line = code.split(" // ").next().unwrap_or_default().trim().to_owned();
                let (kernel, is_of_teams) = (kernel.to_owned(), change < OF_TEAMS);
                all.push(Mutant { unit, at, from, to, kernel, line, number, is_of_teams });
            }
        }
    }
    all.sort_by_key(|mutant| mutant.at);
    all
}

#[derive(Clone, Copy)]
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
            "graph(%x : Float(*, *, *, *, *, *), %w : Float(*, *, *, *, *, *)):
  %order : int[] = prim::Constant[value=[0, 1, 3, 2, 4, 5]]()
  %v : Float(*, *, *, *, *, *) = aten::permute(%x, %order)
  %r : Tensor = prim::FusionGroup_0({x}, %w)
  return (%r)
with prim::FusionGroup_0 = graph(%x : Float(*, *, *, *, *, *), %w : Float(*, *, *, *, *, *)):
  %none : None = prim::Constant()
  %one : int = prim::Constant[value=1]()
  %last : int = prim::Constant[value=-1]()
  %no : bool = prim::Constant[value=0]()
  %yes : bool = prim::Constant[value=1]()
  %outer : int[] = prim::Constant[value=[0, 1, 2]]()
  %inner : int[] = prim::Constant[value=[3, 4, 5]]()
  {body}
  return (%y)
"
        );
        Ok(fs::write(self.graph(&file(case, form)), graph)?)
    }

    /// The unit that a case is compiled from, and what launches its kernels.
    fn recorded(&self, (case, form): ((&'static str, &str), &'static Form)) -> Result<Unit> {
        let (name, unit) = (file(case.0, form), self.folder.join("unit.c"));
        let keep = format!("if grep -q jo_launch \"$a\" 2> /dev/null; then cp \"$a\" '{}'; fi", unit.display());
        self.write_compiler(&keep)?;
        let (_, output) = self.validate(&name, &form.sizes(0), 0)?;
        let text = fs::read_to_string(&unit).with_context(|| format!("{name} has no unit: {output}"))?;
        self.write_swap(&text, &announced(&text))?;
        let mut launched: BTreeMap<String, Vec<usize>> = BTreeMap::new();
        // Long rows are only split by kernels that reduce them.
        let sizes = if text.contains("_parts") { SIZES.len() } else { SIZES.len() - SPLIT };
        for seed in 0..sizes {
            let sizes = form.sizes(seed);
            let (code, output) = self.validate(&name, &sizes, seed)?;
            ensure!(code == Some(0) && output.contains("launched"), "{name} {sizes:?}: {output}");
            for kernel in output.lines().filter_map(|line| line.strip_prefix(ENTERED)) {
                launched.entry(kernel.to_owned()).or_default().push(seed);
            }
        }
        for kernel in text.split(KERNEL).skip(1).filter_map(|text| text.split(',').next()) {
            ensure!(launched.contains_key(kernel), "no sizes of {name} launch {kernel}");
        }
        Ok(Unit { case: case.0, form, text, launched })
    }

    /// Whether a mutant is found, by checks or by its results.
    fn verdict(&self, mutant: &Mutant<'_>) -> Result<Verdict> {
        let Mutant { unit: Unit { case, form, text, launched }, at, from, to, kernel, .. } = mutant;
        self.write_swap(text, &format!("{}{to}{}", &text[..*at], &text[at + from.len()..]))?;
        for &seed in launched.get(kernel).into_iter().flatten() {
            let (code, output) = self.validate(&file(case, form), &form.sizes(seed), seed)?;
            if output.contains("could not be compiled") || output.contains("no kernel") {
                return Ok(Verdict::NotCompiled);
            }
            if code != Some(0) {
                return Ok(Verdict::Found);
            }
        }
        Ok(Verdict::Survived)
    }

    /// A compiler that compiles a unit as if it were another one, once.
    fn write_swap(&self, text: &str, changed: &str) -> Result<()> {
        let path = |name: &str| self.folder.join(name);
        let (unit, other, kept) = (path("unit.c"), path("changed.c"), path("changed.so"));
        fs::write(&unit, text)?;
        fs::write(&other, changed)?;
        if kept.exists() {
            fs::remove_file(&kept)?;
        }
        let swap = "if cmp -s \"$a\" 'UNIT'; then a='OTHER'; kept='KEPT'; fi\n  if [ \"$last\" = -o ]; then out=\"$a\"; fi\n  last=\"$a\"";
        let swap = swap.replace("UNIT", &unit.display().to_string()).replace("OTHER", &other.display().to_string());
        self.write_compiler(&swap.replace("KEPT", &kept.display().to_string()))
    }

    /// A script that does something with each argument, `a`, and calls the compiler, unless the
    /// library that it would make is kept.
    fn write_compiler(&self, each: &str) -> Result<()> {
        let keeps = "if [ -z \"$kept\" ]; then exec cc \"$@\"; fi\n\
                     if [ ! -e \"$kept\" ]; then cc \"$@\" -o \"$kept\" || exit 1; fi\nexec cp \"$kept\" \"$out\"\n";
        let script = format!("for a do\n  shift\n  {each}\n  set -- \"$@\" \"$a\"\ndone\n{keeps}");
        Ok(fs::write(self.folder.join("compiler.sh"), script)?)
    }

    fn validate(&self, case: &str, (x, w): &(String, &str), seed: usize) -> Result<(Option<i32>, String)> {
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

/// A unit whose kernels say that they are launched.
fn announced(text: &str) -> String {
    let mut pieces = text.split(KERNEL);
    let mut changed = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let name = piece.split(',').next().unwrap_or_default();
        let said = format!("{ENTERED}{name}\\n");
        let say = format!(
            "\n{{ static int is_entered; extern long write(int, const void *, unsigned long); \
             if (!is_entered) {{ is_entered = 1; write(2, \"{said}\", {}); }}",
            said.len() - 1
        );
        changed += KERNEL;
        changed += &piece.replacen("\n{", &say, 1);
    }
    changed
}
