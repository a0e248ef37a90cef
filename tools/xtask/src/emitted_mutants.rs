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
/// dimensions each, which do not collapse. Where a maximum is taken, a few elements are NaN, what
/// takes a 0 for one more of them finds NaN, and some places have equal elements.
const CASES: [(&str, &str); 10] = [
    ("points", "%s : Tensor = aten::add(%x, %w, %one)\n  %y : Tensor = aten::relu(%s)"),
    ("gate", "%s : Tensor = aten::sigmoid(%x)\n  %t : Tensor = aten::tanh(%w)\n  %y : Tensor = aten::mul(%s, %t)"),
    ("sum", "%s : Tensor = aten::mul(%x, %w)\n  %y : Tensor = aten::sum(%s, %inner, %no, %none)"),
    (
        "softmax",
        "%t : Tensor = aten::add(%x, %w, %one)\n  %s : Tensor = aten::neg(%t)\n  \
         %y : Tensor = aten::softmax(%s, %last, %none)",
    ),
    ("variance", "%s : Tensor = aten::add(%x, %w, %one)\n  %y : Tensor = aten::var(%s, %inner, %no, %no)"),
    (
        "extremum",
        "%t : Tensor = aten::add(%x, %w, %one)\n  %u : Tensor = aten::sub(%t, %most, %one)\n  \
         %v : Tensor = aten::sqrt(%u)\n  %s : Tensor = aten::neg(%v)\n  \
         %y : Tensor = aten::amax(%s, %inner, %no)",
    ),
    (
        "place",
        "%t : Tensor = aten::add(%x, %w, %one)\n  %u : Tensor = aten::sub(%t, %most, %one)\n  \
         %v : Tensor = aten::sqrt(%u)\n  %o : Tensor = aten::sub(%v, %bend, %one)\n  \
         %s : Tensor = aten::relu(%o)\n  %y : Tensor = aten::argmin(%s, %last, %no)",
    ),
    ("scan", "%s : Tensor = aten::add(%x, %w, %one)\n  %y : Tensor = aten::cumsum(%s, %last, %none)"),
    ("interleaved", "%s : Tensor = aten::mul(%x, %w)\n  %y : Tensor = aten::sum(%s, %outer, %no, %none)"),
    (
        "columns",
        "%s : Tensor = aten::add(%x, %w, %one)\n  %m : Tensor = aten::sum(%s, %inner, %yes, %none)\n  \
         %d : Tensor = aten::mul(%s, %m)\n  \
         %y : Tensor = aten::sum(%d, %outer, %no, %none)",
    ),
];

/// What the operand `%x` of a case is outside of the group, as `%u`. Elements of a softmax are far
/// from 0, as are those whose maximum is taken. In some rows they are so far from each other that
/// no other number than their maximum may be subtracted. Elements of a variance grow along rows, so
/// that parts have other means than rows.
const PREPARED: [(&str, &str); 4] = [
    ("extremum", FAR),
    ("place", FAR),
    (
        "softmax",
        "%g : Tensor = aten::mean(%x, %lasts, %yes, %none)\n  %h : Tensor = aten::sign(%g)\n  \
         %k : Tensor = aten::mul(%h, %less)\n  %l : Tensor = aten::add(%k, %steep, %one)\n  \
         %m : Tensor = aten::add(%x, %far, %one)\n  \
         %u : Float(*, *, *, *, *, *) = aten::mul(%m, %l)",
    ),
    (
        "variance",
        "%g : Tensor = aten::ones_like(%x, %long, %none, %none, %none, %none)\n  \
         %h : Tensor = aten::cumsum(%g, %last, %none)\n  %k : Tensor = aten::mul(%h, %step)\n  \
         %u : Float(*, *, *, *, *, *) = aten::add(%x, %k, %one)",
    ),
];

/// Elements that are far from 0.
const FAR: &str = "%u : Float(*, *, *, *, *, *) = aten::add(%x, %far, %one)";

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
const SIZES: [(&str, &str); 20] = [
    ("3,2,3,2,3,7", "3,1,3,2,1,7"),
    ("2,2,2,2,2,301", "2,1,2,2,1,301"),
    ("10,4,3,5,3,4", "10,1,3,5,1,4"),
    // Interleaved rows, split or not.
    ("20,6,10,2,3,6", "20,1,10,2,1,6"),
    ("3,5,4,5,11,12", "3,1,4,5,1,12"),
    // Aligned rows of 4 elements, of up to 512, 1,024, 4,096, 16,384 and more elements.
    ("3,2,3,1,1,4", "3,1,3,1,1,4"),
    ("3,2,2,2,1,100", "3,1,2,2,1,100"),
    ("3,2,2,2,1,200", "3,1,2,2,1,200"),
    ("3,2,2,2,1,400", "3,1,2,2,1,400"),
    ("3,2,2,2,1,520", "3,1,2,2,1,520"),
    ("2,2,2,2,1,2056", "2,1,2,2,1,2056"),
    ("2,2,2,2,1,8200", "2,1,2,2,1,8200"),
    ("2,2,2,2,1,17000", "2,1,2,2,1,17000"),
    // Long rows that are split, aligned or not, of one and of two dimensions; in more parts than a
    // block has threads.
    ("2,2,2,2,1,16999", "2,1,2,2,1,16999"),
    ("1,1,1,1,1,140003", "1,1,1,1,1,140003"),
    ("2,1,2,1,1,131100", "2,1,1,1,1,131100"),
    ("1,1,2,3,2,16400", "1,1,2,3,1,16400"),
    ("1,1,2,3,2,16399", "1,1,2,3,1,16399"),
    ("1,1,1,1,1,2200003", "1,1,1,1,1,2200003"),
    ("1,1,1,1,1,2200000", "1,1,1,1,1,2200000"),
];
/// How many of them, the last ones, are for split rows.
const SPLIT: usize = 7;
/// The samples of each validation: ordinary numbers, and those with infinities, NaN and equal ones.
const SAMPLES: &str = "2";
/// What kernels begin with in a unit, and what they say in a trial run.
const KERNEL: &str = "\nJO_KERNEL(";
const ENTERED: &str = "launches ";
/// The seconds that a validation may take, and the exit code of one that takes longer.
const LIMIT: &str = "60";
const LATE: i32 = 124;
/// The number of mutants that are judged at the same time.
const WORKERS: usize = 2;
/// How many are judged between two lines that say so.
const PROGRESS: usize = 25;
/// The replacements in the text of kernels. An empty text stands for nothing.
const CHANGES: [(&str, &str); 32] = [
    ("JO_BARRIER();", ""),
    ("if (JO_THREAD == 0) {", "{"),
    ("if (JO_LANE == 0) {", "{"),
    ("if (JO_LANE >= distance) {", "{"),
    ("if ((i64)element < launch.count) {", "{"),
    ("if (element < launch.count) {", "{"),
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
    (", 31)", ", 30)"),
    ("round * ", "(round ^ 1) * "),
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
    /// The kernel, the line before, the line with the change in brackets, and the line after.
    place: String,
    /// Whether it is a change of what threads have in common.
    is_of_teams: bool,
}

impl Mutant<'_> {
    /// What is changed, and where.
    fn name(&self) -> String {
        let Mutant { unit, from, line, kernel, number, place, .. } = self;
        let form = unit.form.name;
        let to = self.becomes();
        format!(
            "{}: `{}` to `{to}` in `{line}` ({kernel}, {form}, {number}): {}",
            unit.case,
            from.trim(),
            place.replace('\n', " / ")
        )
    }

    /// What the change makes of it, for people.
    fn becomes(&self) -> &'static str {
        if self.to.is_empty() { "nothing" } else { self.to.trim() }
    }

    /// Whether it is known to change nothing: in these cases or in any, in a place that contains
    /// these pieces in their order.
    fn is_known(&self, known: &str) -> bool {
        let fits = |item: &str| {
            let (cases, change) = item.split_once(": ")?;
            let [_, from, _, becomes, _, pieces, ..] = change.split('`').collect::<Vec<_>>()[..] else { return None };
            let is_case = cases == "any" || cases.split(", ").any(|case| case == self.unit.case);
            let is_change = from == self.from.trim() && becomes == self.becomes();
            Some(is_case && is_change && has_in_order(&self.place, pieces))
        };
        let items = format!("{}\n", known.replace("\n  ", " "));
        items.lines().filter_map(|line| line.strip_prefix("- ")).any(|item| fits(item) == Some(true))
    }
}

/// Whether a text contains pieces, separated by dots, in their order.
fn has_in_order(text: &str, pieces: &str) -> bool {
    let mut rest = Some(text);
    for piece in pieces.split(" ... ") {
        rest = rest.and_then(|rest| rest.split_once(piece)).map(|(_, rest)| rest);
    }
    rest.is_some()
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
    /// Found since they did not end.
    endless: usize,
    /// Of these, those that remove barriers and masks.
    teams_found: usize,
    teams_survived: usize,
}

/// Makes so many mutants, of one case or all, and says which ones are found.
pub(crate) fn run(root: &Path, jitopt: &str, wanted: usize, only: Option<&str>) -> Result<()> {
    let (jitopt, folder) = (fs::canonicalize(jitopt)?, std::env::temp_dir());
    let known = fs::read_to_string(root.join("tools/mutation/survivors.md"))?;
    let folder = folder.join(format!("emitted-mutants-{}", std::process::id()));
    let benches: Vec<Bench> =
        (0..WORKERS).map(|k| Bench { jitopt: jitopt.clone(), folder: folder.join(k.to_string()) }).collect();
    let cases = CASES.into_iter().filter(|case| only.is_none_or(|only| only == case.0));
    let cases = cases.flat_map(|case| FORMS.iter().map(move |form| (case, form))).collect::<Vec<_>>();
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
            Verdict::Found | Verdict::Endless => {
                counts.found += 1;
                counts.endless += usize::from(matches!(verdict, Verdict::Endless));
                counts.teams_found += usize::from(mutant.is_of_teams);
            }
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

/// Prints the sums; too few that are found are an error. Barriers and masks do not count: each of
/// them has to be found.
fn print_sums(counts: &Counts) -> Result<()> {
    let Counts { found, explained, survived, not_compiled, endless, teams_found, teams_survived } = counts;
    println!("{teams_found} removed barriers and masks found, {teams_survived} survived");
    let (found, survived) = (found - teams_found, survived - teams_survived);
    let share = 100.0 * found as f64 / (found + survived).max(1) as f64;
    println!("{found} others found, {survived} survived: {share:.1} % are found");
    println!("{explained} are shown equivalent, {not_compiled} do not compile, {endless} of those found do not end");
    ensure!(share >= 90.0, "less than 90 % are found");
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
                let line = without_note(code).to_owned();
                let (kernel, is_of_teams) = (kernel.to_owned(), change < OF_TEAMS);
                let place = place(text, (first, at), from, &kernel);
                all.push(Mutant { unit, at, from, to, kernel, line, number, place, is_of_teams });
            }
        }
    }
    all.sort_by_key(|mutant| mutant.at);
    all
}

/// A line of code without the line of the graph that it comes from.
fn without_note(code: &str) -> &str {
    code.split(" // ").next().unwrap_or_default().trim()
}

/// Where something is: the kernel, the line before, its own with the change in brackets, and the
/// next line.
fn place(text: &str, (first, at): (usize, usize), from: &str, kernel: &str) -> String {
    let before = text[..first].lines().next_back().unwrap_or_default();
    let rest = &text[at + from.len()..];
    let (own, after) = rest.split_once('\n').unwrap_or((rest, ""));
    let own = own.split(" // ").next().unwrap_or_default();
    let after = without_note(after.lines().next().unwrap_or_default());
    let marked = format!("{}[{from}]{own}", text[first..at].trim_start());
    format!("{kernel}:\n{}\n{}\n{after}", without_note(before), marked.trim_end())
}

#[derive(Clone, Copy)]
enum Verdict {
    Found,
    /// It did not end in time.
    Endless,
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
        let (prepared, made) = PREPARED.iter().find(|row| row.0 == case).map_or(("", "%x"), |row| (row.1, "%u"));
        let x = if form.is_permuted { "%v" } else { made };
        let graph = format!(
            "graph(%x : Float(*, *, *, *, *, *), %w : Float(*, *, *, *, *, *)):
  %order : int[] = prim::Constant[value=[0, 1, 3, 2, 4, 5]]()
  %last : int = prim::Constant[value=-1]()
  %none : None = prim::Constant()
  %one : int = prim::Constant[value=1]()
  %yes : bool = prim::Constant[value=1]()
  %long : int = prim::Constant[value=4]()
  %lasts : int[] = prim::Constant[value=[-1]]()
  %less : float = prim::Constant[value=1499.]()
  %steep : float = prim::Constant[value=1501.]()
  %far : float = prim::Constant[value=300.]()
  %step : float = prim::Constant[value=0.01]()
  {prepared}
  %v : Float(*, *, *, *, *, *) = aten::permute({made}, %order)
  %r : Tensor = prim::FusionGroup_0({x}, %w)
  return (%r)
with prim::FusionGroup_0 = graph(%x : Float(*, *, *, *, *, *), %w : Float(*, *, *, *, *, *)):
  %none : None = prim::Constant()
  %one : int = prim::Constant[value=1]()
  %last : int = prim::Constant[value=-1]()
  %no : bool = prim::Constant[value=0]()
  %yes : bool = prim::Constant[value=1]()
  %most : float = prim::Constant[value=295.]()
  %bend : float = prim::Constant[value=1.5]()
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
            match code {
                Some(0) => {}
                Some(LATE) => return Ok(Verdict::Endless),
                _ => return Ok(Verdict::Found),
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
        command.arg(LIMIT).arg(&self.jitopt).arg("validate").arg(self.graph(case)).args([
            "--samples",
            SAMPLES,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_are_about_places() {
        let text = "\nJO_KERNEL(jo_kernel_0_merge, 256)\n{\n    r0 += r * a[0], r1 += r * b[0]; // %y\n    next;\n}\n\nJO_ENTRY(x)\n";
        let (launched, form) = (BTreeMap::new(), &FORMS[0]);
        let unit = Unit { case: "sum", form, text: text.to_owned(), launched };
        let all = mutants(&unit);
        let of = |n: usize| all.iter().filter(|mutant| mutant.from == " * ").nth(n).expect("two products");
        assert_eq!(of(1).place, "jo_kernel_0_merge:\n{\nr0 += r * a[0], r1 += r[ * ]b[0];\nnext;");
        let known = "- place, sum: `*` to `+` in `_merge: ... r1 += r[ * ]b ...\n  next`: nothing reads it\n";
        assert!(of(1).is_known(known) && !of(0).is_known(known));
        assert!(!of(1).is_known(&known.replace("sum", "variance")) && !of(1).is_known(&known.replace("next", "last")));
    }
}
