//! The time of a run by operators: seconds, bytes and rate of each kind of operator, and of each
//! group that ran as a kernel.
//!
//! ```text
//!         ms share         MB    GB/s     times operator
//!     41.302 61.2 %    102.410    2.48        20 aten::convolution
//!      9.750 14.4 %     38.536    3.95         1 prim::FusionGroup of %r
//! ```
//!
//! A group that the interpreter runs instead is shown as its operators. Views move no bytes.

use crate::traffic;
use jitopt_core::interpreter::{IValue, Outs, Stop, Watch};
use jitopt_core::ir::{Graph, Node};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// The sums of the executions of one kind.
#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    time: Duration,
    bytes: u64,
    times: u64,
}

/// Measures the operators of runs.
#[derive(Debug, Default)]
pub struct OperatorTimes {
    begun: Option<Instant>,
    sums: BTreeMap<String, Sum>,
}

impl OperatorTimes {
    /// Notes the start of a node.
    pub(crate) fn begin(&mut self) {
        self.begun = Some(Instant::now());
    }

    /// Adds the node that began last. A group that ran here has begun long before its last
    /// operator, but it does not end as a node.
    pub(crate) fn end(&mut self, graph: &Graph, node: Node, operands: &[IValue], outputs: &[IValue]) {
        let Some(begun) = self.begun.take() else { return };
        let time = begun.elapsed();
        let sum = self.sums.entry(label(graph, node)).or_default();
        sum.time += time;
        sum.bytes += traffic::moved(graph, node, operands, outputs).total();
        sum.times += 1;
    }

    /// Adds another run.
    pub(crate) fn add(&mut self, other: &OperatorTimes) {
        for (name, more) in &other.sums {
            let sum = self.sums.entry(name.clone()).or_default();
            sum.time += more.time;
            sum.bytes += more.bytes;
            sum.times += more.times;
        }
    }

    /// Seconds of each execution of the group with these results, such as `%y, %z`.
    pub(crate) fn of_group(&self, outputs: &str) -> Option<f64> {
        let ending = format!(" of {outputs}");
        let sum = self.sums.iter().find(|(name, _)| name.ends_with(&ending))?.1;
        Some(ratio(sum.time.as_secs_f64(), sum.times as f64))
    }

    /// The kinds, slowest first, and their total.
    fn sorted(&self) -> (Vec<(&str, Sum)>, Duration) {
        let mut rows: Vec<(&str, Sum)> = self.sums.iter().map(|(name, &sum)| (name.as_str(), sum)).collect();
        rows.sort_by_key(|(_, sum)| std::cmp::Reverse(sum.time));
        (rows, self.sums.values().map(|sum| sum.time).sum())
    }

    /// A table, one line for each kind; empty if nothing ran.
    pub fn table(&self) -> String {
        let (rows, total) = self.sorted();
        if rows.is_empty() {
            return String::new();
        }
        let lines = rows.iter().map(|(name, sum)| {
            format!(
                "{:>10.3} {:>4.1} % {:>10.3} {:>7.2} {:>9} {name}\n",
                sum.time.as_secs_f64() * 1e3,
                100.0 * ratio(sum.time.as_secs_f64(), total.as_secs_f64()),
                sum.bytes as f64 / 1e6,
                ratio(sum.bytes as f64, sum.time.as_secs_f64()) / 1e9,
                sum.times,
            )
        });
        format!("{:>10} {:>6} {:>10} {:>7} {:>9} operator\n", "ms", "share", "MB", "GB/s", "times")
            + &lines.collect::<String>()
    }

    /// The same as JSON.
    pub fn json(&self) -> Value {
        let (rows, total) = self.sorted();
        let row = |(name, sum): &(&str, Sum)| {
            json!({
                "operator": name,
                "time_s": sum.time.as_secs_f64(),
                "share": ratio(sum.time.as_secs_f64(), total.as_secs_f64()),
                "bytes": sum.bytes,
                "bytes_per_s": ratio(sum.bytes as f64, sum.time.as_secs_f64()),
                "times": sum.times,
            })
        };
        rows.iter().map(row).collect()
    }
}

/// The kind of a node. Groups are distinguished by their results, as in warnings.
fn label(graph: &Graph, node: Node) -> String {
    let kind = graph.kind(node).as_str();
    if graph.subgraph(node).is_none() {
        return kind.to_owned();
    }
    let names: Vec<String> = graph.outputs(node).map(|value| format!("%{}", graph.name(value))).collect();
    format!("{kind} of {}", names.join(", "))
}

/// The quotient, and 0 where a clock shows no time.
fn ratio(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole } else { 0.0 }
}

impl Watch for OperatorTimes {
    fn instead(&mut self, _graph: &Graph, _node: Node) -> Option<Outs> {
        self.begin();
        None
    }

    fn after(&mut self, graph: &Graph, node: Node, operands: &[IValue], outputs: &[IValue]) -> Result<(), Stop> {
        self.end(graph, node, operands, outputs);
        Ok(())
    }
}
