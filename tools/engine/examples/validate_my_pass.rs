//! Validates a pass of one's own, and shows that a wrong one is found.
//!
//! `cargo run -p jitopt-engine --example validate_my_pass`

#![allow(clippy::print_stdout, reason = "an example shows what it finds")]

use jitopt_core::ir::{Graph, Node};
use jitopt_core::pass::{Gate, PassContext, PassError, PassInfo, Pipeline, Registry};
use jitopt_core::symbol::Symbol;
use jitopt_engine::{Against, Comparison, Error, JudgeOptions, Kind, Program, When, Workspace};
use std::collections::BTreeMap;
use std::path::Path;

const GRAPH: &str = "\
graph(%x : Tensor):
  %a : Tensor = aten::neg(%x)
  %b : Tensor = aten::neg(%a)
  %c : Tensor = aten::abs(%b)
  return (%c)
";

/// Right: the negation of a negation is its operand.
const NEGATIONS: PassInfo =
    pass("drop-double-negations", "replace the negation of a negation by its operand", |graph, cx| {
        let neg = Symbol::new("aten::neg");
        for node in nodes(graph, neg) {
            let operand = graph.input(node, 0);
            let Some(inner) = graph.definer(operand).filter(|&inner| graph.kind(inner) == neg) else { continue };
            cx.rewrite(graph, "negations-dropped", node, |graph| {
                graph.replace_all_uses(graph.output(node, 0), graph.input(inner, 0));
            });
        }
        Ok(())
    });

/// Wrong: the absolute value of a negative number is not 0.
const RELU: PassInfo = pass("relu-for-abs", "replace absolute values by relu", |graph, cx| {
    for node in nodes(graph, Symbol::new("aten::abs")) {
        cx.rewrite(graph, "values-replaced", node, |graph| {
            let (operand, ty) = (graph.input(node, 0), graph.ty(graph.output(node, 0)));
            let relu = graph.create_op(Symbol::new("aten::relu"), &[operand], ty);
            graph.insert_before(node, relu);
            graph.replace_all_uses(graph.output(node, 0), graph.output(relu, 0));
        });
    }
    Ok(())
});

const REGISTRY: Registry = Registry { passes: &[NEGATIONS, RELU], pipelines: &[] };

const fn pass(
    name: &'static str,
    summary: &'static str,
    run: fn(&mut Graph, &mut PassContext<'_>) -> Result<(), PassError>,
) -> PassInfo {
    let (aliases, options): (&[&str], &[_]) = (&[], &[]);
    PassInfo { name, aliases, summary, example: "", options, required: false, reads_shapes: false, run, file: file!() }
}

fn nodes(graph: &Graph, kind: Symbol) -> Vec<Node> {
    graph.all_nodes().filter(|&node| graph.kind(node) == kind).collect()
}

/// The result of a validation.
#[derive(Debug, PartialEq)]
enum Validated {
    /// The results are equal on so many samples.
    Equal(usize),
    /// The first difference, or why the passes stopped.
    Wrong(String),
}

/// Runs a graph before and after passes on generated inputs.
fn validate(program: &Program, passes: &str) -> Result<Validated, Error> {
    let env = BTreeMap::new();
    let mut workspace = Workspace::new(Path::new(""), &env, |note| println!("{note}"));
    let options = JudgeOptions::default();
    // Comparing after each rewrite names the node at fault.
    let against = Against { when: When::Rewrite, ..Against::default() };
    let mut comparison = Comparison::new(&options, program, &against, &mut workspace)?;
    let pipeline =
        Pipeline::parse(passes, &REGISTRY).map_err(|error| Error::new(Kind::Misuse, error.render(passes)))?;
    if let Err(stopped) = comparison.transform(&pipeline, Gate::default(), None) {
        return Ok(Validated::Wrong(stopped.into_run_error()?.to_string()));
    }
    Ok(match comparison.check() {
        Ok(tally) => Validated::Equal(tally.same),
        Err(finding) => Validated::Wrong(finding.to_string()),
    })
}

fn main() -> Result<(), Error> {
    let program = Program::of_text(GRAPH);
    for passes in ["drop-double-negations", "drop-double-negations,relu-for-abs"] {
        match validate(&program, passes)? {
            Validated::Equal(samples) => println!("{passes}: the same on {samples} samples\n"),
            Validated::Wrong(finding) => println!("{passes}: {finding}\n"),
        }
    }
    Ok(())
}

#[test]
fn the_wrong_pass_is_found_and_the_right_one_passes() {
    let program = Program::of_text(GRAPH);
    let right = validate(&program, "drop-double-negations").expect("the graph runs");
    assert_eq!(right, Validated::Equal(JudgeOptions::SAMPLES as usize));
    let wrong = validate(&program, "relu-for-abs").expect("the graph runs");
    let Validated::Wrong(finding) = wrong else { panic!("abs is not relu") };
    assert!(finding.contains("relu-for-abs.values-replaced"), "{finding}");
}
