//! Renders the measurement as Markdown and as JSON.

use std::fmt::Write;
use std::fs;

use serde_json::{Value, json};

use crate::process::{Failure, Usage};
use crate::toolkit::{Measurement, Row, Start};

/// The text above the rows.
const LEGEND: &str = "
Whole processes; median (min-max) of interleaved runs. Growth: ns/node relative to the smallest size, without the start.

| shape | nodes | program | CPU ms | wall ms | ns/node | of opt | growth | RSS B/node | text B/node |
| --- | ---: | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |
";

/// The median and the extremes of some numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Spread {
    median: f64,
    min: f64,
    max: f64,
}

impl Spread {
    /// The numbers that `get` selects from `usages`; `None` if there are none.
    fn of(usages: &[Usage], get: impl Fn(&Usage) -> f64) -> Option<Self> {
        let mut numbers: Vec<f64> = usages.iter().map(get).collect();
        numbers.sort_by(f64::total_cmp);
        let (&min, &max) = (numbers.first()?, numbers.last()?);
        let median = f64::midpoint(numbers[(numbers.len() - 1) / 2], numbers[numbers.len() / 2]);
        Some(Spread { median, min, max })
    }

    /// In milliseconds: `median (min-max)`.
    fn milliseconds(&self) -> String {
        let digits = if self.median < 0.1 { 1 } else { 0 };
        let ms = |seconds: f64| format!("{:.digits$}", seconds * 1e3);
        format!("{} ({}-{})", ms(self.median), ms(self.min), ms(self.max))
    }

    fn json(&self) -> Value {
        json!({"median": self.median, "min": self.min, "max": self.max})
    }
}

/// The figures of a row, if its program succeeded.
struct Summary {
    cpu: Spread,
    wall: Spread,
    ns_per_node: f64,
    rss_per_node: f64,
    /// Ratio of the CPU time to that of `opt` on the same shape and size.
    to_opt: Option<f64>,
    /// See [`Measurement::growth`]; 1 is linear.
    growth: Option<f64>,
}

/// Nanoseconds of CPU time per node.
fn ns_per_node(row: &Row) -> Option<f64> {
    let cpu = Spread::of(row.result.as_ref().ok()?, |u| u.cpu_s)?;
    Some(cpu.median * 1e9 / row.nodes as f64)
}

impl Measurement {
    /// The summary of one row.
    fn summary(&self, row: &Row) -> Option<Summary> {
        let usages = row.result.as_ref().ok()?;
        let cpu = Spread::of(usages, |u| u.cpu_s)?;
        let ns = ns_per_node(row)?;
        let opt = self.rows.iter().find(|other| {
            other.shape == row.shape && other.size == row.size && self.contenders[other.contender].name == "opt"
        });
        let to_opt = opt.and_then(ns_per_node).map(|opt| ns / opt);
        Some(Summary {
            cpu,
            wall: Spread::of(usages, |u| u.wall_s)?,
            ns_per_node: ns,
            rss_per_node: Spread::of(usages, |u| u.peak_rss as f64)?.median / row.nodes as f64,
            to_opt,
            growth: self.growth(row),
        })
    }

    /// The ratio of the cost per node in `row` to that at the smallest size of the same shape,
    /// startup excluded.
    fn growth(&self, row: &Row) -> Option<f64> {
        let same = |other: &&Row| other.shape == row.shape && other.contender == row.contender;
        let smallest = self.rows.iter().filter(same).min_by_key(|other| other.size)?;
        if smallest.size == row.size {
            return None;
        }
        let start_ns = self.start_ns(row.contender)?;
        let net = |row: &Row| ns_per_node(row).map(|ns| ns - start_ns / row.nodes as f64);
        let (small, large) = (net(smallest)?, net(row)?);
        (small > 0.0).then_some(large / small)
    }

    /// The startup time contained in a program's rows, in nanoseconds of CPU time.
    fn start_ns(&self, contender: usize) -> Option<f64> {
        if self.contenders[contender].excludes_startup {
            return Some(0.0);
        }
        let start = self.starts.iter().find(|start| start.contender == contender)?;
        let cpu = Spread::of(start.result.as_ref().ok()?, |u| u.cpu_s)?;
        Some(cpu.median * 1e9)
    }

    /// The largest growth of a program, and its shape.
    pub fn worst_growth(&self, name: &str) -> Option<(f64, &'static str)> {
        let rows = self.rows.iter().filter(|row| self.contenders[row.contender].name == name);
        let growths = rows.filter_map(|row| Some((self.growth(row)?, row.shape.name())));
        growths.max_by(|a, b| a.0.total_cmp(&b.0))
    }

    /// Whether a run of a program failed whose name starts with `name`.
    pub fn failed(&self, name: &str) -> bool {
        let rows = self.rows.iter().map(|row| (row.contender, &row.result));
        let starts = self.starts.iter().map(|start| (start.contender, &start.result));
        rows.chain(starts).any(|(i, result)| self.contenders[i].name.starts_with(name) && result.is_err())
    }

    /// The report as Markdown.
    pub fn markdown(&self) -> String {
        let mut text = format!("Machine: {}.\n\n", machine());
        text += "| program | command | version |\n| --- | --- | --- |\n";
        for c in &self.contenders {
            let _ = writeln!(text, "| {} | `{}` | {} |", c.name, c.command_line(), c.version);
        }
        text += LEGEND;
        for row in &self.rows {
            self.markdown_row(&mut text, row);
        }
        text += "\nFrom start to exit on a three-line file, and the peak memory of that:\n\n";
        text += "| program | wall ms | CPU ms | RSS MB |\n| --- | ---: | ---: | ---: |\n";
        for start in &self.starts {
            self.markdown_start(&mut text, start);
        }
        for note in &self.notes {
            let _ = write!(text, "\nNote: {note}.\n");
        }
        text
    }

    fn markdown_row(&self, text: &mut String, row: &Row) {
        let (shape, name) = (row.shape.name(), self.contenders[row.contender].name);
        let _ = write!(text, "| {shape} | {} | {name} | ", row.nodes);
        let per_node = row.bytes as f64 / row.nodes as f64;
        let Some(s) = self.summary(row) else {
            let _ = writeln!(text, "{} | | | | | | {per_node:.0} |", failure(&row.result));
            return;
        };
        let (cpu, wall, ns, rss) = (s.cpu.milliseconds(), s.wall.milliseconds(), s.ns_per_node, s.rss_per_node);
        let (to_opt, growth) = (ratio(s.to_opt), ratio(s.growth));
        let _ = writeln!(text, "{cpu} | {wall} | {ns:.0} | {to_opt} | {growth} | {rss:.0} | {per_node:.0} |");
    }

    fn markdown_start(&self, text: &mut String, start: &Start) {
        let name = self.contenders[start.contender].name;
        let usages = start.result.as_deref().unwrap_or_default();
        let (wall, cpu) = (Spread::of(usages, |u| u.wall_s), Spread::of(usages, |u| u.cpu_s));
        let rss = Spread::of(usages, |u| u.peak_rss as f64 / 1e6);
        let _ = match (wall, cpu, rss) {
            (Some(wall), Some(cpu), Some(rss)) => {
                writeln!(text, "| {name} | {} | {} | {:.1} |", wall.milliseconds(), cpu.milliseconds(), rss.median)
            }
            _ => writeln!(text, "| {name} | {} | | |", failure(&start.result)),
        };
    }

    /// The report as JSON.
    pub fn json(&self) -> Value {
        let contenders = self.contenders.iter();
        json!({
            "machine": machine(),
            "programs": contenders
                .map(|c| json!({"name": c.name, "version": c.version, "command": c.command_line()}))
                .collect::<Vec<_>>(),
            "rows": self.rows.iter().map(|row| self.json_row(row)).collect::<Vec<_>>(),
            "start_to_exit": self.starts.iter().map(|start| self.json_start(start)).collect::<Vec<_>>(),
            "notes": self.notes,
        })
    }

    fn json_row(&self, row: &Row) -> Value {
        let mut object = json!({
            "shape": row.shape.name(),
            "program": self.contenders[row.contender].name,
            "nodes": row.nodes,
            "text_bytes": row.bytes,
        });
        match self.summary(row) {
            None => object["failure"] = failure(&row.result).into(),
            Some(s) => {
                object["cpu_s"] = s.cpu.json();
                object["wall_s"] = s.wall.json();
                object["ns_per_node"] = s.ns_per_node.into();
                object["rss_bytes_per_node"] = s.rss_per_node.into();
                object["relative_to_opt"] = s.to_opt.into();
                object["growth"] = s.growth.into();
            }
        }
        object
    }

    fn json_start(&self, start: &Start) -> Value {
        let name = self.contenders[start.contender].name;
        let usages = start.result.as_deref().unwrap_or_default();
        match (Spread::of(usages, |u| u.wall_s), Spread::of(usages, |u| u.peak_rss as f64)) {
            (Some(wall), Some(rss)) => json!({"program": name, "wall_s": wall.json(), "rss_bytes": rss.median}),
            _ => json!({"program": name, "failure": failure(&start.result)}),
        }
    }
}

/// A ratio for the table.
fn ratio(ratio: Option<f64>) -> String {
    ratio.map_or_else(String::new, |r| format!("{r:.2}"))
}

/// The reason why there are no figures.
fn failure(result: &Result<Vec<Usage>, Failure>) -> String {
    match result {
        Err(Failure::TimedOut(limit)) => format!("over {} s", limit.as_secs()),
        Err(Failure::Failed(why)) => format!("failed: {}", why.replace('|', "/")),
        Ok(_) => "not run".to_owned(),
    }
}

/// The processor model, if the system reports it.
fn machine() -> String {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = info.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    let model = model.map_or("unknown processor", |(_, model)| model);
    format!("{model}, {threads} threads, {}", std::env::consts::OS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_of_an_even_number_is_the_middle() {
        let usage = |cpu_s| Usage { cpu_s, wall_s: 0.0, peak_rss: 0 };
        let usages = [usage(4.0), usage(1.0), usage(2.0), usage(3.0)];
        assert_eq!(Spread::of(&usages, |u| u.cpu_s), Some(Spread { median: 2.5, min: 1.0, max: 4.0 }));
        assert_eq!(Spread::of(&[], |u| u.cpu_s), None);
    }
}
