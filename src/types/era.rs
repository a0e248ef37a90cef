//! Which PyTorch a graph belongs to.

/// The generation of PyTorch whose spelling, schemas, rules and eager semantics hold for a graph.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Era {
    /// Up to 1.4: floats of six digits, no strides or devices in types, one operand of `RaiseException`.
    V1_3,
    /// From 1.5 on: floats of 17 digits, complete tensor types.
    #[default]
    V2,
}
