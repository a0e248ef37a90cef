//! Reasons why two nodes are not fused.

use jitopt_core::ir::{Graph, Node, Value};
use jitopt_core::log::tracing::level_filters::LevelFilter;

/// Whether debug messages or missed remarks can be observed.
pub(super) fn is_observed() -> bool {
    LevelFilter::current() >= LevelFilter::TRACE
}

/// Whether dumps of graphs are logged.
pub(super) fn dumps_are_observed() -> bool {
    LevelFilter::current() >= LevelFilter::INFO
}

/// A reason why a producer is not absorbed into a consumer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NotFused {
    /// The producer is not a pointwise operator.
    Kind,
    /// The consumer is not a pointwise operator.
    ConsumerKind,
    /// The operator is fused at no level, for this reason.
    Untaken(Node, &'static str),
    /// The operator may return its operand unchanged, so that a kernel of its own gains nothing.
    MayReturnOperand(Node),
    /// This one of the two is fusible from this level on.
    Level(u8, Node),
    /// The producer, or the consumer, reads a scalar that is known only at run time and is not a
    /// float.
    RunTimeOperand(Value),
    /// The producer is on a device that no kernels are generated for.
    Device,
    /// No kernel computes the operator for the element types of its operands.
    Formula(Node),
    /// No kernel computes the operator for its operands, such as running statistics.
    Recipe(Node),
    /// No kernel computes the pool for its operands, such as a window of too many elements.
    Window(Node),
    /// The consumer reads the producer's value under a window.
    UnderWindow,
    /// One has a window, and the other reduces.
    WindowOfRows,
    /// The producer may return its operand, which is written to.
    Written(Value),
    /// The producer concatenates tensors at its end.
    Concat,
    /// The parts of a concatenation have different sizes, and operands in common.
    UnequalParts,
    /// The consumer divides the producer's result into chunks.
    Chunked,
    /// Together they have too many operands and outputs.
    Arguments,
    /// The plan puts them into different kernels.
    Unplanned,
    /// They reduce different dimensions.
    OtherAxes,
    /// One reduces, and the shapes that the other computes are not known to be compatible.
    OtherSpace,
    /// Nodes between them depend on one and are needed by the other, have effects, or write to
    /// their operands: this node, where it is a single one.
    Between(Option<Node>),
    /// Too many nodes stand between them.
    TooFar,
}

impl NotFused {
    /// Whether the reason keeps a pointwise operator out of all groups, independent of its
    /// neighbours.
    pub(super) fn is_of_operator(self) -> bool {
        use NotFused::{Device, Formula, MayReturnOperand, Recipe, RunTimeOperand, Untaken, Window, Written};
        let of_operands = matches!(self, RunTimeOperand(_) | Formula(_) | Recipe(_) | Window(_) | Written(_));
        of_operands || matches!(self, Untaken(..) | MayReturnOperand(_) | Device)
    }

    /// The reason for a node that is the consumer of a pair.
    pub(super) fn of_consumer(self) -> NotFused {
        if self == NotFused::Kind { NotFused::ConsumerKind } else { self }
    }

    /// The reason as text, with the nodes and values that it is based on.
    pub(super) fn message(self, graph: &Graph, consumer: Node, producer: Node) -> String {
        let kind = |node| graph.kind(node).as_str();
        let user = graph.outputs(consumer).next().map_or(String::new(), |value| format!(" of %{}", graph.name(value)));
        match self {
            NotFused::Kind => format!("{} is not a pointwise operator", kind(producer)),
            NotFused::ConsumerKind => format!("{}{user}, which reads it, is not a pointwise operator", kind(consumer)),
            NotFused::Untaken(node, why) => format!("{} has no kernel at any level: {why}", kind(node)),
            NotFused::MayReturnOperand(node) => format!(
                "{} may return its operand unchanged: types do not prove a conversion, and alone it is not worth a kernel",
                kind(node)
            ),
            NotFused::Level(level, node) => {
                format!("{} is fused from level {level} on: `fuse{{level={level}}}`", kind(node))
            }
            NotFused::RunTimeOperand(value) => format!(
                "%{} : {} is known only at run time: floats can be passed to a kernel, other scalars must be constants",
                graph.name(value),
                graph.ty(value)
            ),
            NotFused::Device => "kernels are not generated for the device of its output".to_owned(),
            NotFused::Formula(node) => format!(
                "no kernel computes {} for the element types of its operands, or for its operands that are not tensors",
                kind(node)
            ),
            NotFused::Recipe(node) => format!(
                "no kernel computes {} for its operands: running statistics and unsupported constants keep it outside",
                kind(node)
            ),
            NotFused::Window(node) => {
                format!("no kernel computes {}: {}", kind(node), super::missing_formulas::why(graph, node))
            }
            NotFused::UnderWindow => format!(
                "the node{user} reads it under a window: it would be computed for each position that it is under"
            ),
            NotFused::WindowOfRows => {
                "one has a window and the other reduces: rows of a kernel have no padding".to_owned()
            }
            NotFused::Written(value) => {
                format!("%{} may be the operand itself, which is written to", graph.name(value))
            }
            NotFused::Concat => "it concatenates tensors, which ends a kernel".to_owned(),
            NotFused::UnequalParts => {
                "its parts have different sizes, and are computed from a common operand".to_owned()
            }
            NotFused::Chunked => format!("the group{user} divides it into chunks"),
            NotFused::Arguments => {
                format!("together with the node{user} it has more than {} operands and outputs", super::ARGUMENT_LIMIT)
            }
            NotFused::Unplanned => format!("the plan puts it and the node{user} into different kernels"),
            NotFused::OtherAxes => {
                format!("the node{user} reduces different dimensions, or dimensions that are not known to be the same")
            }
            NotFused::OtherSpace => {
                format!(
                    "one kernel reduces one iteration space: the shapes of it and of the node{user} are not known to be compatible"
                )
            }
            NotFused::Between(Some(node)) => {
                let name =
                    graph.outputs(node).next().map_or(String::new(), |value| format!(" of %{}", graph.name(value)));
                format!("{}{name} must run between these two nodes", kind(node))
            }
            NotFused::Between(None) => {
                format!("it cannot be moved to the node{user}: its operands are written to in between")
            }
            NotFused::TooFar => format!("too many nodes stand between it and the node{user} to analyse"),
        }
    }
}
