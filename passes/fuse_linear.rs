//! Fuses a product with a transposed matrix into a linear layer.
//!
//! ```text
//! %t : Tensor = aten::t(%w)
//! %y : Tensor = aten::addmm(%b, %x, %t, %1, %1)    =>    %y : Tensor = aten::linear(%x, %w, %b)
//! ```
//!
//! `aten::linear` is defined as these operators, so there is nothing to prove: a sum of a matrix
//! product and a bias with both factors 1, `aten::matmul` with a bias added in place,
//! `aten::matmul` alone; the longest pattern first. A bias that is added out of place may be larger
//! than the product, and is left alone.
//!
//! PyTorch also fuses where the weight is written to between its transpose and the product, which
//! makes the layer read it before. Linear in nodes; idempotent.

use crate::subgraph_rewrite::replace_all;
use jitopt_core::analysis::matching::{Match, Rule};
use jitopt_core::graph_dump;
use jitopt_core::ir::{Attribute, Graph};
use jitopt_core::pass::{PassContext, PassError, PassInfo};
use jitopt_core::text::{ParseOptions, parse};

/// The registry entry.
pub const PASS: PassInfo = PassInfo {
    name: "fuse-linear",
    aliases: &[],
    summary: "fuse a product with a transposed matrix into a linear layer",
    example: "%t : Tensor = aten::t(%w), %y : Tensor = aten::addmm(%b, %x, %t, %1, %1)  =>  %y : Tensor = aten::linear(%x, %w, %b)",
    options: &[],
    required: false,
    reads_shapes: true,
    run,
    file: file!(),
};

/// A rewrite, its pattern and its replacement. Params whose name begins with `one` are constants of
/// value 1.
const RULES: &[(&str, &str, &str)] = &[
    (
        "sums-fused",
        "graph(%x, %w, %b, %one, %one_too):
           %t = aten::t(%w)
           %y = aten::addmm(%b, %x, %t, %one, %one_too)
           return (%y)",
        "graph(%x, %w, %b, %one, %one_too):
           %y : Tensor = aten::linear(%x, %w, %b)
           return (%y)",
    ),
    (
        "biases-fused",
        "graph(%x, %w, %b, %one):
           %t = aten::t(%w)
           %m = aten::matmul(%x, %t)
           %y = aten::add_(%m, %b, %one)
           return (%y)",
        "graph(%x, %w, %b, %one):
           %y : Tensor = aten::linear(%x, %w, %b)
           return (%y)",
    ),
    (
        "products-fused",
        "graph(%x, %w):
           %t = aten::t(%w)
           %y = aten::matmul(%x, %t)
           return (%y)",
        "graph(%x, %w):
           %b : Tensor? = prim::Constant()
           %y : Tensor = aten::linear(%x, %w, %b)
           return (%y)",
    ),
];

fn run(graph: &mut Graph, cx: &mut PassContext<'_>) -> Result<(), PassError> {
    graph_dump!("Before fusing linear layers", graph);
    for (name, pattern, replacement) in RULES {
        let rule =
            rule(pattern, replacement, graph).ok_or_else(|| PassError::new(format!("`{name}` is not a valid rule")))?;
        let wanted = |graph: &Graph, found: &Match| has_ones(&rule, graph, found);
        replace_all(graph, cx, name, &rule, &wanted);
    }
    graph_dump!("After fusing linear layers", graph);
    Ok(())
}

/// A rule made of two texts, for the release of `graph`.
pub(crate) fn rule(pattern: &str, replacement: &str, graph: &Graph) -> Option<Rule> {
    let options = ParseOptions::of(graph.release());
    let read = |text: &str| parse(format!("{text}\n").as_bytes(), options).ok().map(|parsed| parsed.graph);
    Rule::new(read(pattern)?, read(replacement)?).ok()
}

/// Whether the values that the pattern names `one…` are 1.
pub(crate) fn has_ones(rule: &Rule, graph: &Graph, found: &Match) -> bool {
    rule.params().filter(|(name, _)| name.starts_with("one")).all(|(_, param)| {
        match found.values.get(&param).and_then(|&value| graph.constant(value)).flatten() {
            Some(Attribute::Int(n)) => *n == 1,
            Some(Attribute::Float(x)) => x.value == 1.0,
            _ => false,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_rules() {
        assert!(RULES.iter().all(|(_, pattern, replacement)| rule(pattern, replacement, &Graph::new()).is_some()));
    }
}
