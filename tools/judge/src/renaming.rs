//! What values were called before passes gave them other names.

use crate::showing::Settings;
use jitopt_core::ir::{Graph, Node, Value};
use jitopt_core::symbol::prim;
use std::collections::{BTreeMap, HashMap, HashSet};

/// The names that outputs of nodes had in the graph that passes made the second graph of. What a pass made anew has none.
pub fn old_names(before: &Graph, after: &Graph) -> HashMap<Value, String> {
    let known: HashSet<Node> = before.all_nodes().collect();
    let mut names = HashMap::new();
    for node in after.all_nodes() {
        let root = after.lineage_root(node);
        if known.contains(&root) && before.kind(root) == after.kind(node) {
            let pairs = after.outputs(node).zip(before.outputs(root));
            names.extend(pairs.map(|(now, then)| (now, before.name(then))));
        }
    }
    names
}

/// What constants are called after passes, and what their contents were bound as. Of graphs that were not made from
/// one another names must be the same.
pub fn renamed(before: &Graph, after: &Graph, settings: &Settings) -> BTreeMap<String, String> {
    if settings.by_origin || (settings.bindings.is_empty() && settings.invent.is_none()) {
        return BTreeMap::new();
    }
    let is_constant = |value: &Value| after.definer(*value).is_some_and(|node| after.kind(node) == prim::CONSTANT);
    let constants = old_names(before, after).into_iter().filter(|(value, _)| is_constant(value));
    constants.map(|(value, then)| (after.name(value), then)).filter(|(now, then)| now != then).collect()
}
