//! Measurements of kernels on this machine, which are kept in the cache folder, and the constants
//! of the model that explain them.
//!
//! ```text
//! # jitopt measurements 1 of cpu with 1 thread, model 3f02a1c4
//! 8c01…   300 91234.1 40211 512.3 0.7 120345.2   direction inner; phase 0 block 256
//! ```
//!
//! A line has a kernel with its sizes, the parts of the model's time of a plan (launch, memory,
//! computation, loops, the share that is hidden), the time that was measured, and the plan. The
//! model has a factor for each of the four parts. They are fitted on one half of the kernels, and
//! their error is that on the other half: a fit that explains only what it has seen is not used.

use jitopt_core::codegen::cost_model::Estimate;
use jitopt_core::codegen::devices::Device;
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::path::{Path, PathBuf};

/// The format of the file.
const FORMAT: u32 = 1;
/// Measurements that are kept; the oldest are dropped.
const MOST: usize = 4096;
/// Kernels that a fit needs: two in each half.
const FEWEST: usize = 4;
/// A factor is within this of 1, both ways.
const LIMIT: f64 = 32.0;
/// How far factors are moved, in this order.
const STEPS: [f64; 6] = [2.0, 1.4, 1.15, 1.05, 1.02, 1.005];
/// What a factor costs that no measurement needs: it stays 1.
const PULL: f64 = 1e-2;

/// A measurement of a kernel under a plan.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Record {
    /// The kernel, with its sizes.
    pub(crate) kernel: u64,
    /// Launch, memory, computation and loops, in nanoseconds, by the model.
    pub(crate) parts: [f64; 4],
    /// The share of memory or computation that is hidden.
    pub(crate) hidden: f64,
    /// Nanoseconds.
    pub(crate) measured: f64,
    /// The lines of the plan after the first, joined by `; `.
    pub(crate) plan: String,
}

/// Factors of the parts of the model's time.
pub(crate) type Factors = [f64; 4];

/// What a fit explains.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Fit {
    pub(crate) factors: Factors,
    /// Kernels that it was made of, and those of its error.
    pub(crate) kernels: [usize; 2],
    /// The median error of the times of the latter, with the factors and without.
    pub(crate) error: f64,
    pub(crate) before: f64,
}

/// The measurements of a machine.
#[derive(Debug, Default)]
pub(crate) struct Bank {
    path: Option<PathBuf>,
    head: String,
    records: Vec<Record>,
}

impl Record {
    pub(crate) fn new(kernel: u64, estimate: &Estimate, measured: f64, plan: String) -> Record {
        let Estimate { launch, memory, compute, loops, hidden, .. } = *estimate;
        Record { kernel, parts: [launch, memory, compute, loops], hidden, measured, plan }
    }

    /// The time by the model with factors.
    fn time(&self, factors: &Factors) -> f64 {
        let part = |at: usize| self.parts[at] * factors[at];
        let (memory, compute) = (part(1), part(2));
        part(0) + memory.max(compute) + (1.0 - self.hidden) * memory.min(compute) + part(3)
    }

    /// The relative error of that time.
    fn error(&self, factors: &Factors) -> f64 {
        (self.time(factors) / self.measured - 1.0).abs()
    }

    /// Reads a line.
    fn read(line: &str) -> Option<Record> {
        let mut words = line.splitn(8, ' ');
        let kernel = u64::from_str_radix(words.next()?, 16).ok()?;
        let mut number = || words.next()?.parse::<f64>().ok().filter(|n| n.is_finite() && *n >= 0.0);
        let parts = [number()?, number()?, number()?, number()?];
        let (hidden, measured) = (number()?, number()?);
        let plan = words.next()?.to_owned();
        (measured > 0.0 && hidden <= 1.0).then_some(Record { kernel, parts, hidden, measured, plan })
    }

    fn line(&self) -> String {
        let [launch, memory, compute, loops] = self.parts;
        let Record { kernel, hidden, measured, plan, .. } = self;
        format!("{kernel:016x} {launch} {memory} {compute} {loops} {hidden} {measured} {plan}")
    }
}

impl Bank {
    /// The measurements that a folder has of a machine with so many threads; those of another model
    /// are none.
    pub(crate) fn open(folder: Option<&Path>, device: &Device, threads: u32) -> Bank {
        let mut state = DefaultHasher::new();
        (format!("{device:?}"), env!("CARGO_PKG_VERSION")).hash(&mut state);
        let name = device.name;
        let head =
            format!("# jitopt measurements {FORMAT} of {name} with {threads} threads, model {:016x}", state.finish());
        let path = folder.map(|folder| folder.join(format!("measurements-{name}-{threads}")));
        let text = path.as_ref().and_then(|path| std::fs::read_to_string(path).ok()).unwrap_or_default();
        let mut lines = text.lines();
        let is_ours = lines.next() == Some(&head);
        let records = if is_ours { lines.filter_map(Record::read).collect() } else { Vec::new() };
        Bank { path, head, records }
    }

    /// Adds a measurement, in the place of an earlier one of the same plan.
    pub(crate) fn add(&mut self, record: Record) {
        self.records.retain(|known| (known.kernel, &known.plan) != (record.kernel, &record.plan));
        self.records.push(record);
    }

    /// Writes the file. It is replaced as a whole.
    pub(crate) fn keep(&mut self) -> io::Result<()> {
        let Some(path) = &self.path else { return Ok(()) };
        self.records.drain(..self.records.len().saturating_sub(MOST));
        let lines: String = self.records.iter().map(|record| record.line() + "\n").collect();
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder)?;
        }
        let draft = path.with_extension(format!("{}.draft", std::process::id()));
        std::fs::write(&draft, format!("{}\n{lines}", self.head))?;
        std::fs::rename(&draft, path)
    }

    /// The measured times of a kernel's plans.
    pub(crate) fn of_kernel(&self, kernel: u64) -> impl Iterator<Item = &Record> {
        self.records.iter().filter(move |record| record.kernel == kernel)
    }

    /// Measurements, and kernels that they are of.
    pub(crate) fn size(&self) -> (usize, usize) {
        (self.records.len(), self.by_kernel().len())
    }

    fn by_kernel(&self) -> BTreeMap<u64, Vec<&Record>> {
        let mut kernels: BTreeMap<u64, Vec<&Record>> = BTreeMap::new();
        self.records.iter().for_each(|record| kernels.entry(record.kernel).or_default().push(record));
        kernels
    }

    /// Fits the model on every second kernel; none if there are too few.
    pub(crate) fn fit(&self) -> Option<Fit> {
        let kernels: Vec<Vec<&Record>> = self.by_kernel().into_values().collect();
        let every_second =
            |first: usize| -> Vec<Vec<&Record>> { kernels.iter().skip(first).step_by(2).cloned().collect() };
        let (seen, others) = (every_second(0), every_second(1));
        (kernels.len() >= FEWEST).then(|| {
            let factors = fitted(&seen);
            let error = |factors: &Factors| median(others.iter().flatten().map(|one| one.error(factors)).collect());
            let (error, before) = (error(&factors), error(&[1.0; 4]));
            Fit { factors, kernels: [seen.len(), others.len()], error, before }
        })
    }
}

impl Fit {
    /// Whether times of kernels that it has not seen are closer with it.
    pub(crate) fn helps(&self) -> bool {
        self.error < self.before
    }

    /// The machine with these factors.
    pub(crate) fn device(&self, device: &Device) -> Device {
        let [launch, memory, compute, loops] = self.factors;
        Device {
            band: device.band / memory,
            cached_band: device.cached_band / memory,
            lanes: device.lanes / compute,
            lanes_of_doubles: device.lanes_of_doubles / compute,
            scalars: device.scalars / compute,
            launch: device.launch * launch,
            barrier: device.barrier * loops,
            head: device.head * loops,
            ..*device
        }
    }
}

/// The lines of a plan after the first, which names the group, as a line.
pub(crate) fn plan_in_a_line(text: &str) -> String {
    text.lines().skip(1).map(str::trim).collect::<Vec<_>>().join("; ")
}

/// The factors with the least squares of the logarithms of errors. Each kernel counts once, however
/// many plans of it were measured.
fn fitted(kernels: &[Vec<&Record>]) -> Factors {
    let loss = |factors: &Factors| {
        let of_kernel = |records: &Vec<&Record>| {
            let all: f64 = records.iter().map(|one| (one.time(factors) / one.measured).ln().powi(2)).sum();
            all / records.len() as f64
        };
        let pull: f64 = factors.iter().map(|factor| PULL * factor.ln().powi(2)).sum();
        kernels.iter().map(of_kernel).sum::<f64>() + pull
    };
    let (mut best, mut least) = ([1.0; 4], loss(&[1.0; 4]));
    for step in STEPS {
        let mut moved = true;
        while moved {
            moved = false;
            for (at, by) in (0..4).flat_map(|at| [(at, step), (at, step.recip())]) {
                let mut next = best;
                next[at] = (next[at] * by).clamp(LIMIT.recip(), LIMIT);
                let now = loss(&next);
                if now < least * (1.0 - 1e-9) {
                    (best, least, moved) = (next, now, true);
                }
            }
        }
    }
    best
}

fn median(mut all: Vec<f64>) -> f64 {
    all.sort_by(f64::total_cmp);
    let n = all.len();
    if n == 0 { 0.0 } else { f64::midpoint(all[(n - 1) / 2], all[n / 2]) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Measurements of kernels by a machine with other factors.
    fn bank(kernels: u64, factors: &Factors) -> Bank {
        let mut bank = Bank { head: "# head".to_owned(), ..Bank::default() };
        for kernel in 0..kernels {
            for plan in 0..3 {
                let size = (1 + kernel * 7 % 5) as f64 * 1e4;
                let parts = [300.0, size, 2e4 / (1.0 + kernel as f64), 500.0 * (1 + plan) as f64];
                let mut record = Record { kernel, parts, hidden: 0.7, measured: 1.0, plan: format!("tile {plan}") };
                record.measured = record.time(factors);
                bank.add(record);
            }
        }
        bank
    }

    #[test]
    fn a_fit_finds_the_factors_of_a_machine() {
        let factors = [2.0, 1.5, 0.5, 3.0];
        let fit = bank(10, &factors).fit().expect("there are enough kernels");
        assert_eq!(fit.kernels, [5, 5]);
        assert!(fit.error < 0.03 && fit.before > 0.2 && fit.helps(), "{fit:?}");
        // Most of the time is memory's; a factor that matters little stays near 1.
        assert!((fit.factors[1] / factors[1]).ln().abs() < 0.1, "{fit:?}");
        let device = Device::named("cpu").expect("a machine");
        let other = fit.device(device);
        assert!((device.band / other.band - fit.factors[1]).abs() < 1e-9);
        assert!((other.head / device.head - fit.factors[3]).abs() < 1e-9);
    }

    #[test]
    fn few_kernels_have_no_fit() {
        assert_eq!(bank(3, &[2.0; 4]).fit(), None);
        // Where the model is right, no factors are better.
        let fit = bank(6, &[1.0; 4]).fit().expect("there are enough");
        assert_eq!((fit.factors, fit.helps()), ([1.0; 4], false));
    }

    #[test]
    fn files_are_read_again() {
        let folder = std::env::temp_dir().join(format!("jitopt-bank-{}", std::process::id()));
        let device = Device::named("cpu").expect("a machine");
        let mut first = Bank::open(Some(&folder), device, 1);
        let known = bank(2, &[1.5; 4]).records;
        known.iter().for_each(|record| first.add(record.clone()));
        // A second measurement of a plan replaces the first.
        let again = Record { measured: 5.0, ..known[0].clone() };
        first.add(again.clone());
        first.keep().expect("it is written");
        let read = Bank::open(Some(&folder), device, 1);
        assert_eq!((read.size(), read.records.last()), ((6, 2), Some(&again)));
        // Those of another number of threads, or of another model, are others.
        assert_eq!(Bank::open(Some(&folder), device, 2).size(), (0, 0));
        let changed = Device { band: 1.0, ..*device };
        assert_eq!(Bank::open(Some(&folder), &changed, 1).size(), (0, 0));
        // Lines that were damaged are left out.
        let path = read.path.clone().expect("a path");
        let text = std::fs::read_to_string(&path).expect("a file");
        std::fs::write(&path, text.replacen(" 300 ", " x ", 1) + "0 0\n").expect("it is written");
        assert_eq!(Bank::open(Some(&folder), device, 1).size().0, 5);
        let _ = std::fs::remove_dir_all(&folder);
    }
}
