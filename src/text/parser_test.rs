//! The parser never panics, overflows the stack or hangs, whatever its input.

use super::{ParseOptions, PrintOptions, parse, parse_all_graphs, print};
use crate::types::MAX_DEPTH;
use proptest::prelude::*;
use std::fmt::Write;

const SAMPLE: &str = include_str!("../../tools/opt/samples/fused_lstm.ir");
/// The default stack size of a thread.
const SMALL_STACK: usize = 2 << 20;

/// Parses the text, and if that succeeds, checks that its print is parsed and printed alike.
fn try_out(text: &[u8]) {
    let _ = parse_all_graphs(text, ParseOptions::default());
    let Ok(parsed) = parse(text, ParseOptions::default()) else { return };
    let once = print(&parsed.graph, PrintOptions::default());
    let again = parse(&once, ParseOptions::default()).expect("our own print can be read");
    assert_eq!(String::from_utf8_lossy(&print(&again.graph, PrintOptions::default())), String::from_utf8_lossy(&once));
}

fn on_a_small_stack(work: impl FnOnce() + Send + 'static) {
    let thread = std::thread::Builder::new().stack_size(SMALL_STACK).spawn(work).expect("a thread");
    thread.join().expect("no panic");
}

proptest! {
    #[test]
    fn any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        try_out(&bytes);
    }

    /// Byte sequences with a meaning are more frequent than others.
    #[test]
    fn any_tokens(tokens in prop::collection::vec(prop::sample::select(TOKENS), 0..40)) {
        try_out(format!("graph(%x : Tensor):\n{}", tokens.concat()).as_bytes());
        try_out(tokens.concat().as_bytes());
    }

    #[test]
    fn lines_left_out_and_swapped(out in any::<prop::sample::Index>(), a in any::<prop::sample::Index>(), b in any::<prop::sample::Index>()) {
        let mut lines: Vec<&str> = SAMPLE.split_inclusive('\n').collect();
        let n = lines.len();
        lines.swap(a.index(n), b.index(n));
        try_out(lines.concat().as_bytes());
        lines.remove(out.index(n));
        try_out(lines.concat().as_bytes());
    }

    #[test]
    fn cut_anywhere(at in 0..SAMPLE.len(), length in 0..40usize) {
        let text = SAMPLE.as_bytes();
        try_out(&text[..at]);
        try_out(&[&text[..at], &text[(at + length).min(text.len())..]].concat());
    }
}

const TOKENS: &[&str] = &[
    "%x",
    "%0",
    " : ",
    "Tensor",
    "Float(2, 3, strides=[3, 1])",
    "int[]",
    "ClassType<.>",
    " = ",
    "prim::If",
    "prim::Loop_0",
    "(%x)",
    "()",
    "(",
    ")",
    "[value=1]",
    "[",
    "]",
    "\n",
    ",",
    "block0():\n",
    "-> (%x)\n",
    "return (%x)\n",
    "with prim::Loop_0 = graph():\n",
    ", scope:",
    "#",
    "\"",
    "^Op",
    "}",
    "{\n",
    "annotate(",
    "<Tensor>",
    "%9999999",
];

/// `n` nested ifs, without indentation.
fn nested_ifs(n: usize) -> String {
    let mut text = "graph(%c : bool):\n".to_owned();
    for _ in 0..n {
        text += " = prim::If(%c)\nblock0():\n";
    }
    text += &"-> ()\n".repeat(n);
    text + "return ()\n"
}

/// `n` sections, each of a node of the preceding one.
fn nested_sections(n: usize) -> String {
    let mut text = "graph(%x : Tensor):\n".to_owned();
    for _ in 0..n {
        write!(
            text,
            "%y : Tensor = prim::FusionGroup_0(%x)\nreturn (%y)\nwith prim::FusionGroup_0 = graph(%x : Tensor):\n"
        )
        .expect("a String");
    }
    text + "return (%x)\n"
}

fn first_error(text: &str) -> String {
    parse(text.as_bytes(), ParseOptions::default()).map_or_else(|all| all[0].message.clone(), |_| "none".to_owned())
}

#[test]
fn blocks_nest_deep_on_a_small_stack() {
    on_a_small_stack(|| {
        // Printed with indentation, 10,000 levels are a gigabyte: a tenth of that is enough to
        // detect recursion.
        try_out(nested_ifs(MAX_DEPTH / 10).as_bytes());
        assert_eq!(first_error(&nested_ifs(MAX_DEPTH)), "none");
        assert_eq!(first_error(&nested_ifs(MAX_DEPTH + 1)), "blocks nest deeper than 10000 levels");
    });
}

#[test]
fn sections_nest_deep_on_a_small_stack() {
    on_a_small_stack(|| {
        try_out(nested_sections(MAX_DEPTH).as_bytes());
        assert_eq!(first_error(&nested_sections(MAX_DEPTH + 1)), "sections nest deeper than 10000 levels");
    });
}

#[test]
fn types_and_literals_nest_deep() {
    // These traversals recurse; the driver gives them a large stack, see its `main`.
    for (open, close) in [("(", ")"), ("Optional[", "]"), ("Dict(int, ", ")")] {
        let text = |n: usize| format!("graph(%x : {}int{}):\n  return (%x)\n", open.repeat(n), close.repeat(n));
        try_out(text(200).as_bytes());
    }
    let text = format!("graph():\n  %x = a::b[v={}1{}]()\n  return (%x)\n", "[".repeat(200), "]".repeat(200));
    try_out(text.as_bytes());
}
