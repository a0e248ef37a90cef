//! Plans as text: `--emit=plan`, and `--plan=FILE`, which reads what that wrote.

use super::{Ahead, Grid, Plan, RowsBy, name_of_aim};
use crate::codegen::kernel::{Direction, Kernel, Traversal};
use crate::codegen::loop_structure::Aim;
use crate::codegen::target::Target;
use crate::codegen::text_lines::Lines;

/// The plans of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PlanFile {
    entries: Vec<Entry>,
}

/// The plan of a group, with names that a kernel resolves.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Entry {
    /// The results of the group.
    pub group: String,
    /// Lines with their number, as words.
    lines: Vec<(usize, Vec<String>)>,
}

/// The words that lines begin with.
const WORDS: [&str; 11] =
    ["direction", "tile", "part", "side", "alone", "apart", "keep", "share", "stream", "phase", "grid"];

impl PlanFile {
    /// Reads a file. Text after `#` is a comment.
    ///
    /// # Errors
    /// The line, and what is wrong with it.
    pub fn parse(text: &str) -> Result<PlanFile, String> {
        let mut entries: Vec<Entry> = Vec::new();
        for (number, line) in (1..).zip(text.lines()) {
            let line = line.split('#').next().unwrap_or_default();
            let words: Vec<String> = line
                .split(|c: char| c.is_whitespace() || c == ',')
                .filter(|word| !word.is_empty())
                .map(str::to_owned)
                .collect();
            match (words.first().map(String::as_str), entries.last_mut()) {
                (None, _) => {}
                (Some("group"), _) => {
                    let group = words[1..].join(", ");
                    if entries.iter().any(|entry| entry.group == group) {
                        return Err(format!("line {number}: the group of {group} has two plans"));
                    }
                    entries.push(Entry { group, lines: Vec::new() });
                }
                (Some(word), Some(entry)) if WORDS.contains(&word) => entry.lines.push((number, words)),
                (Some(word), Some(_)) => {
                    let known = WORDS.join(", ");
                    return Err(format!("line {number}: `{word}` is not a setting; expected one of: {known}"));
                }
                (Some(_), None) => return Err(format!("line {number}: a setting before the first `group`")),
            }
        }
        Ok(PlanFile { entries })
    }

    /// The plan of the group with these results, such as `%y, %z`.
    pub(crate) fn find(&self, group: &str) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.group == group)
    }

    /// The plan of a group for its kernel.
    ///
    /// # Errors
    /// There is none, or it is not legal.
    pub fn of_group(
        &self,
        group: &str,
        kernel: &Kernel,
        traversal: &Traversal,
        target: &Target,
    ) -> Result<Plan, String> {
        let entry = self.find(group).ok_or_else(|| format!("the group of {group} has no plan"))?;
        entry.resolve(kernel, traversal, target)
    }

    /// The groups that have plans.
    pub(crate) fn groups(&self) -> impl Iterator<Item = &str> {
        self.entries.iter().map(|entry| entry.group.as_str())
    }
}

impl Entry {
    /// The plan for a kernel on a target.
    ///
    /// # Errors
    /// The line that names what the kernel does not have, or why the plan is not legal.
    pub(crate) fn resolve(&self, kernel: &Kernel, traversal: &Traversal, target: &Target) -> Result<Plan, String> {
        let chosen = (target.choose)(kernel, traversal);
        let mut plan = Plan {
            alone: Default::default(),
            apart: Vec::new(),
            kept: Default::default(),
            shared: Default::default(),
            streamed: Default::default(),
            ..chosen
        };
        for (number, words) in &self.lines {
            set(&mut plan, kernel, words).map_err(|why| format!("line {number}: {why}"))?;
        }
        (target.check)(kernel, traversal, &plan)?;
        // Split reductions have the loops of inner ones.
        plan.direction = traversal.direction;
        Ok(plan)
    }
}

/// Applies a line.
fn set(plan: &mut Plan, kernel: &Kernel, words: &[String]) -> Result<(), String> {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words[..] {
        ["direction", name] => {
            plan.direction = Direction::named(name).ok_or_else(|| format!("there is no direction `{name}`"))?;
        }
        ["grid", rows, threads, ref others @ ..] if plan.grid.is_some() && others.iter().all(is_of_grid) => {
            let rows =
                RowsBy::named(rows).ok_or_else(|| format!("`{rows}` computes no rows; expected thread or block"))?;
            let [wide, split, squares] = OF_GRID.map(|word| others.contains(&word));
            plan.grid = Some(Grid { threads: number(threads)?, rows, wide, split, squares });
        }
        ["grid", ..] if plan.grid.is_none() => return Err("processors have no blocks of threads".to_owned()),
        ["tile", n] => plan.tile = number(n)?,
        ["part", n] => plan.part = number(n)?,
        ["side", n] => plan.side = number(n)?,
        ["alone", ref names @ ..] => {
            plan.alone = names.iter().map(|name| step(kernel, name)).collect::<Result<_, _>>()?;
        }
        ["apart", ref names @ ..] => {
            plan.apart = names.iter().map(|name| aim(kernel, name)).collect::<Result<_, _>>()?;
        }
        ["keep", name, "in", memory] => {
            plan.kept.insert(step(kernel, name)?, store(kernel, memory)?);
        }
        ["share", ref names @ ..] => {
            plan.shared = names.iter().map(|name| step(kernel, name)).collect::<Result<_, _>>()?;
        }
        ["stream", ref names @ ..] => {
            plan.streamed = names.iter().map(|name| store(kernel, name)).collect::<Result<_, _>>()?;
        }
        ["phase", n, ref settings @ ..] => set_phase(plan, number(n)?, settings)?,
        _ => return Err(format!("`{}` is not how `{}` is written", words.join(" "), words[0])),
    }
    Ok(())
}

/// Applies a line of a phase. Settings that it leaves out are off, and all blocks have one size.
fn set_phase(plan: &mut Plan, at: usize, settings: &[&str]) -> Result<(), String> {
    let phases = plan.phases.len();
    let Some(phase) = plan.phases.get_mut(at) else {
        return Err(format!("phase {at}: the kernel has {phases}"));
    };
    (phase.ahead, phase.together, phase.again) = (Ahead::Nothing, 1, 1);
    let mut rest = settings;
    while let [what, after @ ..] = rest {
        rest = match (*what, after) {
            ("ahead", ["next-rows", n, after @ ..]) => {
                phase.ahead = Ahead::NextRow(number(n)?);
                after
            }
            (what, [n, after @ ..]) => {
                let n = number(n)?;
                match what {
                    "block" => (phase.block, phase.first, phase.scan_block) = (n, n, n),
                    "scan-block" => phase.scan_block = n,
                    "first" => phase.first = n,
                    "together" => phase.together = n,
                    "again" => phase.again = n,
                    "ahead" => phase.ahead = Ahead::Elements(n),
                    other => return Err(format!("`{other}` is not a setting of a phase")),
                }
                after
            }
            (what, []) => return Err(format!("`{what}` without a number")),
        };
    }
    Ok(())
}

/// The additional kinds of functions of a grid.
const OF_GRID: [&str; 3] = ["wide", "split", "squares"];

fn is_of_grid(word: &&str) -> bool {
    OF_GRID.contains(word)
}

fn number(text: &str) -> Result<usize, String> {
    text.parse().map_err(|_| format!("`{text}` is not a number"))
}

fn step(kernel: &Kernel, name: &str) -> Result<usize, String> {
    let found = kernel.steps.iter().position(|step| &step.name[2..] == name);
    found.ok_or_else(|| format!("the group does not compute `{name}`"))
}

fn store(kernel: &Kernel, name: &str) -> Result<usize, String> {
    let found = (0..kernel.stores.len()).find(|k| name == format!("out{k}"));
    found.ok_or_else(|| format!("the group does not store `{name}`"))
}

fn aim(kernel: &Kernel, name: &str) -> Result<Aim, String> {
    match kernel.reductions.iter().position(|reduction| &reduction.name[2..] == name) {
        Some(k) => Ok(Aim::Reduce(k)),
        None => store(kernel, name).map(Aim::Store).map_err(|_| format!("the group has no reduction `{name}`")),
    }
}

impl Plan {
    /// Its text, for the group with these results.
    pub fn print(&self, group: &str, kernel: &Kernel) -> String {
        let mut lines = Lines::of_text();
        lines.line(&format!("group {group}"));
        lines.deeper();
        self.choices(kernel).iter().for_each(|line| lines.line(line));
        lines.finish().into_text()
    }

    /// Its lines.
    fn choices(&self, kernel: &Kernel) -> Vec<String> {
        let mut all = vec![format!("direction {}", self.direction.name())];
        let mut line = |line: String| all.push(line);
        if let Some(Grid { threads, rows, wide, split, squares }) = self.grid {
            let others = OF_GRID.iter().zip([wide, split, squares]).filter(|(_, has)| *has);
            let others: String = others.map(|(word, _)| format!(" {word}")).collect();
            line(format!("grid {} {threads}{others}", rows.name()));
            return all;
        }
        if self.tile().is_some() {
            line(format!("tile {}", self.tile));
        }
        if self.direction == Direction::Outer {
            line(format!("part {}", self.part));
        }
        if self.direction == Direction::Strided {
            line(format!("side {}", self.side));
        }
        let step = |i: &usize| kernel.steps[*i].name[2..].to_owned();
        let store = |k: &usize| format!("out{k}");
        let list = |word: &str, names: Vec<String>| (!names.is_empty()).then(|| format!("{word} {}", names.join(", ")));
        let apart = self.apart.iter().map(|&aim| name_of_aim(kernel, aim)[2..].to_owned());
        let lists = [
            list("alone", self.alone.iter().map(step).collect()),
            list("apart", apart.collect()),
            list("share", self.shared.iter().map(step).collect()),
            list("stream", self.streamed.iter().map(store).collect()),
        ];
        lists.into_iter().flatten().for_each(&mut line);
        for (i, k) in &self.kept {
            line(format!("keep {} in out{k}", step(i)));
        }
        for (number, phase) in self.phases.iter().enumerate() {
            let mut all = vec![format!("phase {number} block {}", phase.block)];
            let others = [
                ("scan-block", phase.scan_block, phase.block),
                ("first", phase.first, phase.block),
                ("together", phase.together, 1),
                ("again", phase.again, 1),
            ];
            all.extend(others.iter().filter(|row| row.1 != row.2).map(|row| format!("{} {}", row.0, row.1)));
            match phase.ahead {
                Ahead::Nothing => {}
                Ahead::Elements(n) => all.push(format!("ahead {n}")),
                Ahead::NextRow(n) => all.push(format!("ahead next-rows {n}")),
            }
            // The loop over a tile of points has no blocks.
            if self.direction == Direction::Points {
                all[0] = format!("phase {number}");
            }
            line(all.join(" "));
        }
        all
    }
}
