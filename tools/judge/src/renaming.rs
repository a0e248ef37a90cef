//! The names of values before passes renamed them.

use jitopt_core::ir::{Graph, Node, Value};
use std::collections::{HashMap, HashSet};

/// For outputs of nodes, the names of the corresponding values in `before`. Outputs of nodes that
/// passes created have none.
pub(crate) fn old_names(before: &Graph, after: &Graph) -> HashMap<Value, String> {
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
