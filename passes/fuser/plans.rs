//! Fusion plans: which operators go into one kernel, chosen by another program, and the pairs to
//! choose from.
//!
//! `--emit=fusion-candidates` lists the pairs that could be fused with the memory traffic that
//! would save; a program weighs them and writes
//!
//! ```json
//! {"groups": [["%a", "%z"], ["%q", "%r", "%s"]]}
//! ```
//!
//! for `fuse{plan=FILE}`: each list names the values that one kernel computes. Values that no list
//! names stay outside. Legality is not up to the plan: a group that cannot be fused is an error.

use super::Fuser;
use jitopt_core::ir::{Graph, Node, Value};
use jitopt_core::log::did_you_mean;
use jitopt_core::pass::PassError;
use jitopt_core::symbol::prim;
use jitopt_core::types::{Dim, TensorType};
use rustc_hash::{FxHashMap, FxHashSet};
use serde_json::{Value as Json, json};

/// Groups by the names of the values that they compute.
#[derive(Debug, Default)]
pub(super) struct Plan {
    group_of: FxHashMap<String, usize>,
    /// Groups that were made, and their indices in the plan.
    made: FxHashMap<Node, usize>,
    /// Indices of groups with pairs that are fused only from level 2 on.
    later: Vec<usize>,
}

impl Plan {
    /// Parses a plan for a graph.
    pub(super) fn read(graph: &Graph, text: &[u8]) -> Result<Plan, PassError> {
        let help = r#"{"groups": [["%a", "%z"], ["%q"]]}"#;
        let wrong = |what: &str| PassError::misuse(format!("the plan {what}")).with_help(help);
        let json: Json = serde_json::from_slice(text).map_err(|error| wrong(&format!("is not valid JSON: {error}")))?;
        let groups = json.get("groups").and_then(Json::as_array).ok_or_else(|| wrong("has no list `groups`"))?;
        let names: FxHashSet<String> =
            graph.all_nodes().flat_map(|node| graph.outputs(node)).map(|value| graph.name(value)).collect();
        let mut plan = Plan::default();
        for (i, group) in groups.iter().enumerate() {
            for name in group.as_array().ok_or_else(|| wrong("has a group that is not a list"))? {
                let name = name.as_str().ok_or_else(|| wrong("has a name that is not a string"))?;
                let name = name.trim_start_matches('%');
                // Options are validated on an empty graph before they are used.
                if !names.contains(name) && graph.num_shown_nodes() > 0 {
                    let known = did_you_mean(name, names.iter().map(String::as_str));
                    let hint = known.map_or(String::new(), |known| format!("; did you mean %{known}?"));
                    return Err(PassError::misuse(format!(
                        "the plan names %{name}, which the graph does not define{hint}"
                    )));
                }
                if plan.group_of.insert(name.to_owned(), i).is_some_and(|other| other != i) {
                    return Err(wrong(&format!("has %{name} in two groups")));
                }
            }
        }
        Ok(plan)
    }

    /// The group of the plan that a node belongs to.
    pub(super) fn group(&self, graph: &Graph, node: Node) -> Option<usize> {
        let by_name = || graph.outputs(node).find_map(|value| self.group_of.get(&graph.name(value)).copied());
        self.made.get(&node).copied().or_else(by_name)
    }

    /// Finds the groups that have pairs which a higher level would fuse, as `candidates` does.
    pub(super) fn look_ahead(&mut self, graph: &Graph, level: u8) {
        if level > 1 {
            return;
        }
        let (mut one, mut two) = (Fuser::new(graph, 1, false), Fuser::new(graph, 2, false));
        let nodes = graph.all_nodes().filter(|&node| self.group(graph, node).is_some());
        for consumer in nodes.collect::<Vec<_>>() {
            for (producer, value) in super::latest_first(graph, consumer) {
                let is_later = self.joins(graph, consumer, producer)
                    && !one.fits(graph, consumer, value)
                    && two.fits(graph, consumer, value);
                self.later.extend(self.group(graph, consumer).filter(|_| is_later));
            }
        }
    }

    /// Whether two nodes may be fused.
    pub(super) fn joins(&self, graph: &Graph, consumer: Node, producer: Node) -> bool {
        let group = self.group(graph, consumer);
        group.is_some() && group == self.group(graph, producer)
    }

    /// Records which group of the plan a node became.
    pub(super) fn note(&mut self, group: Node, of: Option<usize>) {
        if let Some(of) = of {
            self.made.insert(group, of);
        }
    }

    /// Reports two values that the plan puts into one kernel and that were not fused.
    pub(super) fn check(&self, graph: &Graph) -> Result<(), PassError> {
        let mut places: FxHashMap<usize, (Node, String)> = FxHashMap::default();
        for node in graph.all_nodes() {
            let section = graph.subgraph(node).filter(|_| graph.kind(node) == prim::FUSION_GROUP);
            let inside = section.into_iter().flat_map(|s| s.all_nodes().flat_map(|n| s.outputs(n)).map(|v| s.name(v)));
            let names: Vec<String> = graph.outputs(node).map(|value| graph.name(value)).chain(inside).collect();
            for name in names {
                let Some(&group) = self.group_of.get(&name) else { continue };
                match places.get(&group) {
                    Some((other, first)) if *other != node => {
                        return Err(PassError::misuse(format!("the plan puts %{first} and %{name} into one kernel"))
                            .with_help(match self.later.contains(&group) {
                                true => "they are fused from level 2 on: use `fuse{plan=FILE level=2}`",
                                false => "they cannot be fused: `fuse --remarks` without a plan reports the reason",
                            }));
                    }
                    Some(_) => {}
                    None => {
                        places.insert(group, (node, name));
                    }
                }
            }
        }
        Ok(())
    }
}

/// The number of elements of a value, and of bytes, where its type determines them.
fn extent(graph: &Graph, value: Value) -> Option<(u64, u64)> {
    let tensor: &TensorType = graph.ty(value).as_tensor()?;
    let size = |dim: &Dim| if let Dim::Known(n) = dim { u64::try_from(*n).ok() } else { None };
    let mut sizes = tensor.sizes.as_ref()?.iter();
    let elements = sizes.try_fold(1u64, |product, dim| product.checked_mul(size(dim)?))?;
    Some((elements, elements.checked_mul(tensor.dtype?.size() as u64)?))
}

/// The pairs of a graph that could be fused, with the level that each needs: fusing saves the
/// memory traffic between the two.
///
/// ```json
/// {"candidates": [{"producer": "%a", "consumer": "%z", "operators": ["aten::mul", "aten::tanh"], "level": 1,
///                  "bytes_saved": 8192, "flops": 1024}]}
/// ```
///
/// `bytes_saved` counts the reading of the producer's value, and its writing where it has no other
/// reader; `flops` is one operation for each element of the producer's result, which is the cost of
/// computing it twice. Both are null where types have no sizes.
pub fn candidates(graph: &Graph) -> Json {
    let (mut one, mut two) = (Fuser::new(graph, 1, false), Fuser::new(graph, 2, false));
    let mut found = Vec::new();
    for block in graph.all_blocks() {
        for consumer in graph.nodes(block) {
            for (producer, value) in super::latest_first(graph, consumer) {
                let level = if one.fits(graph, consumer, value) {
                    1
                } else if two.fits(graph, consumer, value) {
                    2
                } else {
                    continue;
                };
                let alone = graph.users(value).all(|user| user == consumer);
                let extent = extent(graph, value);
                let name = |node| graph.outputs(node).next().map(|value| format!("%{}", graph.name(value)));
                found.push(json!({
                    "producer": format!("%{}", graph.name(value)),
                    "consumer": name(consumer),
                    "operators": [graph.kind(producer).as_str(), graph.kind(consumer).as_str()],
                    "level": level,
                    "bytes_saved": extent.map(|(_, bytes)| if alone { 2 * bytes } else { bytes }),
                    "flops": extent.map(|(elements, _)| elements),
                }));
            }
        }
    }
    json!({ "candidates": found })
}
