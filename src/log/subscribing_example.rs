//! A driver listens to messages of the log.

use crate::log::{KnownNames, parse_spec, subscriber, tracing};
use crate::{graph_debug, graph_dump, graph_update};

#[test]
fn messages_have_a_prefix() {
    let known = KnownNames(&[("fuser", &["fuse"])]);
    let (spec, _warnings) = parse_spec(">fuse:fuser.cpp=debug", &known).expect("a specification");
    let listener = subscriber(spec, |text| assert!(text.starts_with('[')));
    tracing::subscriber::with_default(listener, || {
        graph_dump!("Before fusion", "graph():\n  return ()");
        graph_update!("Fused {} into {}", "%3", "%5");
        graph_debug!("kept {node}: it writes", node = "%7");
    });
}
