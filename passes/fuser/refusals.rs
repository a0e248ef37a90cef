//! Why two nodes stay apart.

use jitopt_core::ir::{Graph, Node, Value};
use jitopt_core::log::tracing::level_filters::LevelFilter;

/// Whether somebody listens to the smallest things that are said.
pub(super) fn is_heard() -> bool {
    LevelFilter::current() >= LevelFilter::TRACE
}

/// Whether anybody listens to dumps of graphs.
pub(super) fn dumps_are_heard() -> bool {
    LevelFilter::current() >= LevelFilter::INFO
}

/// A reason why a producer is not taken into a consumer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// The producer is no pointwise operator.
    Kind,
    /// The consumer is none.
    ConsumerKind,
    /// It is one that no level takes, for this reason.
    Untaken(Node, &'static str),
    /// It may hand on its operand as it is, so that a kernel of its own is nothing to gain.
    HandsOn(Node),
    /// This one of the two is one from this level on.
    Level(u8, Node),
    /// It, or the consumer, reads a number or bool that only a run tells, and that is no float.
    RunTimeOperand(Value),
    /// It is on a device that no kernels are made for.
    Device,
    /// No kernel computes it for the element types of its operands.
    Formula(Node),
    /// No kernel computes it for the operands that it is given, such as running statistics.
    Recipe(Node),
    /// It may return its operand, and somebody writes to that.
    Written(Value),
    /// It joins tensors at its end.
    Concat,
    /// The consumer divides it into chunks.
    Chunked,
    /// Together they have too many operands and outputs.
    Arguments,
    /// The plan has them apart.
    Unplanned,
    /// They fold other dimensions.
    OtherAxes,
    /// One folds, and the shapes of what the other one computes are not known to go with that.
    OtherSpace,
    /// What stands between them depends on one and is needed by the other, has effects, or writes to what they read: this node, where it is one
    /// alone.
    Between(Option<Node>),
    /// Too much stands between them.
    TooFar,
}

impl Refusal {
    /// Whether it is a reason why a pointwise operator is in no group, whatever stands around it.
    pub(super) fn is_of_operator(self) -> bool {
        use Refusal::{Device, Formula, HandsOn, Recipe, RunTimeOperand, Untaken, Written};
        matches!(self, Untaken(..) | HandsOn(_) | RunTimeOperand(_) | Device | Formula(_) | Recipe(_) | Written(_))
    }

    /// The reason of a node, which is the consumer of a pair.
    pub(super) fn of_consumer(self) -> Refusal {
        if self == Refusal::Kind { Refusal::ConsumerKind } else { self }
    }

    /// The reason in words, with what bears witness to it.
    pub(super) fn told(self, graph: &Graph, consumer: Node, producer: Node) -> String {
        let kind = |node| graph.kind(node).as_str();
        let user = graph.outputs(consumer).next().map_or(String::new(), |value| format!(" of %{}", graph.name(value)));
        match self {
            Refusal::Kind => format!("{} is no pointwise operator", kind(producer)),
            Refusal::ConsumerKind => format!("{}{user}, which reads it, is no pointwise operator", kind(consumer)),
            Refusal::Untaken(node, why) => format!("no level takes {}: {why}", kind(node)),
            Refusal::HandsOn(node) => format!(
                "{} may hand on its operand as it is: types do not tell that it converts, and alone it is not worth a kernel",
                kind(node)
            ),
            Refusal::Level(level, node) => {
                format!("{} is fused from level {level} on: `fuse{{level={level}}}`", kind(node))
            }
            Refusal::RunTimeOperand(value) => format!(
                "%{} : {} is known when the graph runs only: only floats can be handed to a kernel, other numbers must be constants",
                graph.name(value),
                graph.ty(value)
            ),
            Refusal::Device => "no kernels are made for the device of its output".to_owned(),
            Refusal::Formula(node) => format!(
                "no kernel computes {} of the element types of its operands, or of what it is given beside tensors",
                kind(node)
            ),
            Refusal::Recipe(node) => format!(
                "no kernel computes {} of the operands that it is given: running statistics and other constants than it is made for keep it outside",
                kind(node)
            ),
            Refusal::Written(value) => {
                format!("%{} may be the operand itself, and somebody writes to that", graph.name(value))
            }
            Refusal::Concat => "it joins tensors, which ends a kernel".to_owned(),
            Refusal::Chunked => format!("the group{user} divides it into chunks"),
            Refusal::Arguments => {
                format!("together with the node{user} it has more than {} operands and outputs", super::ARGUMENT_LIMIT)
            }
            Refusal::Unplanned => format!("the plan does not put it into one kernel with the node{user}"),
            Refusal::OtherAxes => {
                format!("the node{user} folds other dimensions, or it is not known whether they are others")
            }
            Refusal::OtherSpace => {
                format!(
                    "one kernel folds one space: the shapes of it and of the node{user} are not known to go together"
                )
            }
            Refusal::Between(Some(node)) => {
                let name =
                    graph.outputs(node).next().map_or(String::new(), |value| format!(" of %{}", graph.name(value)));
                format!("{}{name} must run between the two", kind(node))
            }
            Refusal::Between(None) => {
                format!("it cannot be moved to the node{user}: what it reads is written in between")
            }
            Refusal::TooFar => format!("too many nodes stand between it and the node{user} to look for a way"),
        }
    }
}
