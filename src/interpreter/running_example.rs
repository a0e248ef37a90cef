//! A graph runs on values.

use crate::interpreter::{Environment, IValue, Machine};
use crate::text::{ParseOptions, parse};

#[test]
fn a_graph_runs_on_an_integer() {
    let text = b"graph(%n : int):\n  %m : int = aten::add(%n, %n)\n  return (%m)\n";
    let parsed = parse(text, ParseOptions::default()).expect("it is a graph");
    let environment = Environment::default();
    let results = Machine::new(&parsed.graph, &environment).run(vec![IValue::Int(21)]).expect("it runs");
    assert!(matches!(results[..], [IValue::Int(42)]));
}
