//! The verdict about two files of one model, with the class of their difference and the nodes where
//! it begins.

use crate::Program;
use crate::archives;
use crate::move_classes::{Evidence, MoveClass, class};
use crate::validating::Comparison;
use jitopt_core::tensor::Precision;
use jitopt_judge::aligning::{Alignment, Parting, align};
use jitopt_judge::rewrites::{Finding, Tally};
use jitopt_judge::showing::{Outcome, Settings};
use jitopt_judge::verdict::{Rounding, Verdict, fitting, judge};
use serde_json::{Value, json};
use std::fmt::Write as _;

/// The findings about two files.
#[derive(Debug)]
pub struct MoveReport {
    /// `same`, `different`, or `not compared`.
    pub verdict: &'static str,
    /// Samples with equal results.
    pub samples: usize,
    /// The kind of difference, also of one that is harmless.
    pub class: Option<MoveClass>,
    /// Why it is of this kind.
    pub why: Vec<String>,
    /// By how much results differ that are the same within rounding.
    pub rounding: Option<Rounding>,
    /// Weights that differ.
    pub weights: Vec<String>,
    /// Sizes and numbers that one file fixes.
    pub sizes: Vec<String>,
    /// Inputs that one of the files lacks, or does not read.
    pub inputs: Vec<String>,
    /// The values that differ, and the sample that shows it.
    pub differences: Vec<String>,
    /// The sample.
    pub sample: Option<String>,
    /// Why samples could not be compared.
    pub unjudged: Option<String>,
    alignment: Alignment,
    /// Lines of code at the nodes where the files part.
    sources: [Option<String>; 2],
}

impl MoveReport {
    /// Classes the result of [`Comparison::check`].
    pub fn of(comparison: &Comparison<'_>, result: &Result<Tally, Finding>, programs: [&Program; 2]) -> MoveReport {
        let files = &comparison.files;
        let mut report = MoveReport {
            verdict: "same",
            samples: 0,
            class: None,
            why: Vec::new(),
            rounding: None,
            weights: files.weights.notes.clone(),
            sizes: files.sizes.clone(),
            inputs: files.left_out.iter().chain(&files.unread).cloned().collect(),
            differences: Vec::new(),
            sample: None,
            unjudged: None,
            alignment: Alignment::default(),
            sources: [None, None],
        };
        match result {
            Ok(tally) => report.same(comparison, tally),
            Err(finding) => report.different(comparison, finding, programs),
        }
        report
    }

    fn same(&mut self, comparison: &Comparison<'_>, tally: &Tally) {
        self.samples = tally.same;
        self.unjudged = tally.unjudged.as_ref().map(|(_, stop)| stop.to_string());
        if tally.same == 0 {
            // Inputs for one of them do not fit the other.
            let dtypes = comparison.files.weights.dtypes.clone();
            self.verdict = if dtypes.is_some() { "different" } else { "not compared" };
            self.class = dtypes.as_ref().map(|_| MoveClass::Dtype);
            self.why.extend(dtypes);
            return;
        }
        self.rounding = comparison.reference.rounding(&comparison.after);
        self.class = match (self.sizes.is_empty(), self.rounding) {
            (false, _) => Some(MoveClass::Shape),
            (true, Some(_)) => Some(MoveClass::Rounding),
            (true, None) => None,
        };
    }

    fn different(&mut self, comparison: &Comparison<'_>, finding: &Finding, programs: [&Program; 2]) {
        self.verdict = "different";
        self.samples = finding.sample;
        self.differences = finding.lines.clone();
        self.sample = Some(finding.name.clone());
        let (reference, after) = (&comparison.reference, &comparison.after);
        let Some((sample, ours)) = reference.samples().nth(finding.sample) else { return };
        let (first, settings) = (reference.graph(), reference.settings());
        self.alignment = align(first, after, settings, &sample.inputs);
        let others = Settings { content_names: settings.names_of(first), ..settings.of_other() };
        let theirs = Outcome::of(after, &others, &fitting(after, &sample.inputs), Precision::Typed);
        let same_with_our_weights = (!self.weights.is_empty()).then(|| {
            let settings = Settings { other_bindings: None, ..settings.clone() };
            matches!(judge(first, after, &settings, &sample.inputs, reference.policy()), Verdict::Same)
        });
        let evidence = Evidence {
            results: (&ours.results, &theirs.results),
            alignment: &self.alignment,
            same_with_our_weights,
            weights: &comparison.files.weights,
            releases_differ: comparison.files.is_one_program,
            fixes_sizes: !self.sizes.is_empty(),
            unread: &comparison.files.unread,
        };
        let (found, why) = class(&evidence);
        (self.class, self.why) = (Some(found), why);
        let partings = [&self.alignment.first, &self.alignment.second];
        let source = |(parting, program): (&&Option<Parting>, &Program)| {
            archives::source_line(program, parting.as_ref()?.location.as_deref()?)
        };
        let mut sources = partings.iter().zip(programs).map(source);
        self.sources = [sources.next().flatten(), sources.next().flatten()];
    }

    /// Whether the files were found to differ.
    pub fn is_different(&self) -> bool {
        self.verdict == "different"
    }

    /// What to say below the differences, or the verdict.
    pub fn as_text(&self) -> String {
        let mut text = String::new();
        if let Some(Rounding { off, explained }) = self.rounding {
            let _ = writeln!(text, "rounding only: off by {off:.3e} where it explains {explained:.3e}");
        }
        if !self.is_different() {
            return text;
        }
        if let Some(class) = self.class {
            let why = if self.why.is_empty() { String::new() } else { format!("; {}", self.why.join("; ")) };
            let _ = writeln!(text, "  class: {}: {}{why}", class.name(), class.meaning());
        }
        let partings = [&self.alignment.first, &self.alignment.second];
        for (which, (parting, source)) in ["first", "second"].iter().zip(partings.iter().zip(&self.sources)) {
            let Some(parting) = parting else { continue };
            let _ = writeln!(text, "  the first node that differs, in the {which} file: {}", parting.line);
            if let Some(location) = &parting.location {
                let source = source.as_ref().map_or(String::new(), |source| format!(": {source}"));
                let _ = writeln!(text, "    from {location}{source}");
            }
        }
        text
    }

    /// One JSON object.
    pub fn as_json(&self, files: [&str; 2]) -> Value {
        let node = |parting: &Option<Parting>, source: &Option<String>| {
            parting.as_ref().map(|parting| {
                json!({
                    "kind": parting.kind, "line": parting.line, "location": parting.location, "source": source,
                    "numbers": parting.numbers, "trains": parting.trains,
                })
            })
        };
        json!({
            "first": files[0], "second": files[1], "verdict": self.verdict, "class": self.class.map(MoveClass::name),
            "why": self.why, "samples": self.samples, "sample": self.sample, "differences": self.differences,
            "rounding": self.rounding.map(|rounding| json!({"off": rounding.off, "explained": rounding.explained})),
            "weights": self.weights, "sizes": self.sizes, "inputs": self.inputs, "not_compared": self.unjudged,
            "first_node": node(&self.alignment.first, &self.sources[0]),
            "second_node": node(&self.alignment.second, &self.sources[1]),
        })
    }
}

/// One JSON object about files that could not be compared.
pub fn failed_json(files: [&str; 2], message: &str) -> Value {
    json!({"first": files[0], "second": files[1], "verdict": "refused", "message": message.trim_end()})
}
