//! Comparison of results with expected values: `--expect`, tolerances, and the table of
//! differences.

use crate::Workspace;
use crate::error::{Error, refuse};
use crate::given_texts::Expected;
use crate::given_values::{read_tensors, single};
use crate::named_values::{self, Place};
use crate::options::RunOptions;
use crate::settings::EXPECT;
use jitopt_core::interpreter::comparison::{Difference, Tolerance, differences};
use jitopt_core::interpreter::description::{Description, Source};
use jitopt_core::interpreter::files::Tensors;
use jitopt_core::interpreter::{IValue, shown_values};
use jitopt_core::ir::Graph;
use jitopt_core::tensor::{DType, Precision, Tensor};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::Path;

/// A short description of a value.
pub(crate) fn summary(value: &IValue) -> String {
    const SHOWN: usize = 40;
    match value {
        IValue::Tensor(tensor) => {
            let device = tensor.device().name();
            let device = if device == "cpu" { String::new() } else { format!(" on {device}") };
            format!("{}{:?}{device}", tensor.dtype().python_name(), tensor.shape())
        }
        IValue::List(list) => format!("[{}]", joined(&list.borrow())),
        IValue::Tuple(list) => format!("({})", joined(list)),
        IValue::Dict(dict) => format!("a dict of {}", dict.borrow().len()),
        other => {
            let text: String = shown_values::to_repr(other).chars().take(SHOWN + 1).collect();
            if text.chars().count() > SHOWN {
                format!("{}…", text.chars().take(SHOWN).collect::<String>())
            } else {
                text
            }
        }
    }
}

fn joined(values: &[IValue]) -> String {
    const SHOWN: usize = 6;
    let shown: Vec<String> = values.iter().take(SHOWN).map(summary).collect();
    let more = if values.len() > SHOWN { format!(", … {} in all", values.len()) } else { String::new() };
    shown.join(", ") + &more
}

/// The expected values of `--expect`.
pub(crate) struct Expectations {
    /// The kind of the values, for messages.
    what: &'static str,
    /// Files for the outputs.
    outputs: Vec<(String, Tensors)>,
    /// Tensors for values, with their names.
    values: BTreeMap<Place, (String, Tensor)>,
    /// The sections that contain some of them, and the enclosing ones.
    sections: BTreeSet<u64>,
    /// The computed values.
    pub(crate) found: BTreeMap<Place, IValue>,
}

impl Expectations {
    pub(crate) fn read(args: &RunOptions, graph: &Graph, workspace: &Workspace<'_>) -> Result<Expectations, Error> {
        let (outputs, values, found) = (Vec::new(), BTreeMap::new(), BTreeMap::new());
        let mut all = Expectations { what: "output", outputs, values, sections: BTreeSet::new(), found };
        for expected in &args.checks.expect {
            let value = match expected {
                Expected::Outputs(file) => {
                    all.outputs.push((file.display().to_string(), read_tensors(file, workspace)?));
                    continue;
                }
                Expected::Value(value) => value,
            };
            let named = named_values::find(EXPECT, value.name(), graph)?;
            let tensor = single(value.last_name(), value.file(), workspace)?;
            all.sections.extend(named.way.iter());
            if all.values.insert(named.place(), (value.name().to_owned(), tensor)).is_some() {
                return refuse(format_args!("{EXPECT} {value}: %{} is given twice", value.name()));
            }
        }
        Ok(all)
    }

    /// Expectations of files alone.
    pub(crate) fn of_files<'p>(
        what: &'static str,
        files: impl Iterator<Item = &'p Path>,
        workspace: &Workspace<'_>,
    ) -> Result<Expectations, Error> {
        let read = |path: &Path| Ok((path.display().to_string(), read_tensors(path, workspace)?));
        let outputs = files.map(read).collect::<Result<_, Error>>()?;
        Ok(Expectations { what, outputs, values: BTreeMap::new(), sections: BTreeSet::new(), found: BTreeMap::new() })
    }

    /// The values to record.
    pub(crate) fn values(&self) -> BTreeSet<Place> {
        self.values.keys().copied().collect()
    }

    /// The sections that must be interpreted to record them.
    pub(crate) fn sections(&self) -> &BTreeSet<u64> {
        &self.sections
    }

    /// Records the contents of parameters after the run: the program may have written to its
    /// inputs.
    pub(crate) fn note_params(&mut self, graph: &Graph, inputs: Vec<IValue>) {
        let number = graph.id().number();
        let params = graph.params(graph.root()).map(|param| (number, param)).zip(inputs);
        self.found.extend(params.filter(|(param, _)| self.values.contains_key(param)));
    }

    /// Compares everything.
    pub(crate) fn judge(
        &self,
        args: &RunOptions,
        description: &Description,
        whole: &IValue,
        results: &Tensors,
    ) -> Result<Compared, Error> {
        let judge = Judge { args, what: self.what, description };
        let (mut compared, mut wrong) = (0, Vec::new());
        for (file, tensors) in &self.outputs {
            compared += judge.outputs(file, tensors, whole, results, &mut wrong)?;
        }
        for (value, (name, expected)) in &self.values {
            compared += 1;
            let path = format!("%{name}");
            match self.found.get(value) {
                Some(found) => wrong.extend(judge.tensor(expected, found, &path)),
                None => {
                    wrong.push(Difference { path, what: "the run did not reach it".to_owned(), distance: None });
                }
            }
        }
        Ok(Compared { what: self.what, compared, wrong })
    }
}

/// The result of a comparison with expected values; it displays as a sentence or a table.
pub struct Compared {
    what: &'static str,
    compared: usize,
    wrong: Vec<Difference>,
}

impl Compared {
    /// Whether all values are as expected.
    pub fn is_equal(&self) -> bool {
        self.wrong.is_empty()
    }

    /// The values that differ.
    pub fn differences(&self) -> &[Difference] {
        &self.wrong
    }
}

impl fmt::Display for Compared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.is_equal() {
            return f.write_str(&table(&self.wrong));
        }
        let s = if self.compared == 1 { " is" } else { "s are" };
        let what = if self.what == "output" { "value" } else { self.what };
        write!(f, "{} {what}{s} as expected", self.compared)
    }
}

struct Judge<'a> {
    args: &'a RunOptions,
    what: &'static str,
    description: &'a Description,
}

impl Judge<'_> {
    /// The tolerance of the flags, else of the description, else of PyTorch's `assert_close` for
    /// the element type.
    fn tolerance(&self, dtype: DType) -> Tolerance {
        let (rtol, atol) = match dtype {
            DType::Half => (1e-3, 1e-5),
            DType::BFloat16 => (1.6e-2, 1e-5),
            DType::Float | DType::ComplexFloat => (1.3e-6, 1e-5),
            _ => (1e-7, 1e-7),
        };
        let base = self.description.tolerance.unwrap_or(Tolerance::of(rtol, atol));
        Tolerance {
            rtol: self.args.checks.rtol.unwrap_or(base.rtol),
            atol: self.args.checks.atol.unwrap_or(base.atol),
            // Values computed with --f64 have no element type of their own.
            dtypes: !self.args.semantics.f64,
            ..base
        }
    }

    fn tensor(&self, expected: &Tensor, found: &IValue, path: &str) -> Vec<Difference> {
        differences(&expected.clone().into(), found, self.tolerance(expected.dtype()), path)
    }

    /// Compares the outputs with a file: by the description if there is one, else by key. Returns
    /// the number of values.
    fn outputs(
        &self,
        file: &str,
        tensors: &Tensors,
        whole: &IValue,
        results: &Tensors,
        wrong: &mut Vec<Difference>,
    ) -> Result<usize, Error> {
        if let Some(described) = self.description.outputs.as_ref().filter(|_| !self.args.semantics.f64) {
            let source = Source::new(tensors, Precision::Typed).trusting();
            let expected = source.value(described, "out").or_else(|error| refuse(format_args!("`{file}`: {error}")))?;
            // Outputs of other methods of the module may be in the same file.
            let methods = &self.description.methods;
            let is_of_method = |key: &str| methods.iter().any(|method| key.starts_with(&format!("{method}.")));
            if let Some(lost) = source.unused().iter().find(|key| !is_of_method(key)) {
                return refuse(format_args!("`{file}`: tensor `{lost}` is not an output of the description"));
            }
            // Descriptions of several graphs contain a list of outputs even for a single output.
            let expected = match (&expected, whole) {
                (IValue::Tuple(values), found) if values.len() == 1 && !matches!(found, IValue::Tuple(_)) => &values[0],
                _ => &expected,
            };
            wrong.extend(differences(expected, whole, self.tolerance(DType::Float), "out"));
            return Ok(1);
        }
        for (key, expected) in tensors {
            // A file of one tensor need not name it.
            let one = tensors.len() == 1 && results.len() == 1;
            let found = results.get(key).or_else(|| results.values().next().filter(|_| one));
            let path = if key.is_empty() { "out" } else { key };
            let Some(found) = found else {
                let keys: Vec<&str> = results.keys().map(String::as_str).collect();
                let there = match keys.is_empty() {
                    true => "found none".to_owned(),
                    false => format!("found {}", keys.join(", ")),
                };
                return refuse(format_args!("`{file}`: there is no {} `{key}`; {there}", self.what));
            };
            wrong.extend(self.tensor(expected, &found.clone().into(), path));
        }
        let lost = results.keys().find(|key| !tensors.contains_key(*key) && tensors.len() < results.len());
        if let Some(lost) = lost {
            wrong.push(Difference {
                path: lost.clone(),
                what: format!("`{file}` does not contain it"),
                distance: None,
            });
        }
        Ok(tensors.len())
    }
}

/// One row for each value that differs.
fn table(wrong: &[Difference]) -> String {
    let mut rows = vec![["value", "wrong", "max error", "at", "found", "expected"].map(str::to_owned)];
    let mut others = Vec::new();
    for difference in wrong {
        match &difference.distance {
            None => others.push(format!("{}: {}", difference.path, difference.what)),
            Some(distance) => rows.push([
                difference.path.clone(),
                format!("{} of {}", distance.wrong, distance.of),
                format!("{:.3e}", distance.most),
                format!("{:?}", distance.at),
                number(distance.found),
                number(distance.expected),
            ]),
        }
    }
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..6).map(width).collect();
    let line = |row: &[String; 6]| {
        let cells: Vec<String> = row.iter().zip(&widths).map(|(cell, &width)| format!("{cell:<width$}")).collect();
        cells.join("  ").trim_end().to_owned() + "\n"
    };
    let head = format!("error: {} value{} differ\n", wrong.len(), if wrong.len() == 1 { " does" } else { "s do" });
    let head = head.replace(" does differ", " differs").replace(" do differ", " differ");
    let numbers = if rows.len() > 1 { rows.iter().map(line).collect() } else { String::new() };
    head + &numbers + &others.iter().map(|text| format!("{text}\n")).collect::<String>()
}

fn number(z: jitopt_core::tensor::C128) -> String {
    if z.im == 0.0 { z.re.to_string() } else { z.to_string() }
}
