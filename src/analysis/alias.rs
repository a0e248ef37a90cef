//! stub
use crate::ir::{Graph, Node, Value};
crate::entities! {
    /// stub
    Location, "l";
}
/// stub
pub struct AliasDb;
#[allow(missing_docs)]
impl AliasDb {
    pub fn new(_g: &Graph) -> Self {
        AliasDb
    }
    pub fn is_current(&self, _g: &Graph) -> bool {
        false
    }
    pub fn writes_to_wildcard(&self, _n: Node) -> bool {
        false
    }
    pub fn writes(&self, _n: Node) -> impl Iterator<Item = Location> {
        std::iter::empty()
    }
    pub fn reachable_locations(&self, _n: Value) -> impl Iterator<Item = Location> {
        std::iter::empty()
    }
    pub fn node_has_writers(&self, _g: &Graph, _n: Node) -> bool {
        false
    }
    pub fn may_reach_results(&self, _n: Value) -> bool {
        false
    }
    pub fn safe_to_change_aliasing(&self, _a: Value, _b: Value) -> bool {
        true
    }
}
