//! The values of a graph that may share memory, and those that nodes write to.

use crate::{analysis::AliasDb, text};

#[test]
fn aliases_and_writers_of_a_graph() {
    let text = b"graph(%x : Tensor):\n  %1 : int = prim::Constant[value=1]()\n  %y : Tensor = aten::neg(%x)\n  \
        %z : Tensor = aten::add_(%y, %1, %1)\n  return (%z)\n";
    let graph = text::parse(text, text::ParseOptions::default()).expect("a graph").graph;
    let db = AliasDb::new(&graph);
    let value = |name: &[u8]| graph.value_named(name).expect("a name of the graph");
    assert!(db.may_alias(value(b"y"), value(b"z")) && !db.may_alias(value(b"x"), value(b"z")));
    assert!(db.has_writers(value(b"y")) && !db.has_writers(value(b"x")));
}
