//! Tests on logs in the forms that users have.

use super::*;
use proptest::prelude::*;

const SMALL: &str = "graph(%x.1 : Float(*, *),\n      %y.1 : Tensor):\n  %2 : int = prim::Constant[value=1]()\n  \
%3 : Tensor = aten::add(%x.1, %y.1, %2) # f.py:3:9\n  return (%3)\n";

const EMPTY: &str = "graph():\n  return ()\n";

const BLOCKS: &str = "graph(%x.1 : Tensor):\n  %12 : str = prim::Constant[value=\"a(\\\"[\"]()\n   = prim::Print(%x.1, %12)\n  \
%5 : bool, %6 : Tensor = prim::If(%20) # f.py:44:4\n    block0():\n      -> (%20, %x.1)\n    block1(%i : int):\n       \
= prim::RaiseException(%12)\n      -> ()\n  return (%6)\n";

const FUSED: &str = "graph(%x : Tensor):\n  %1 : Tensor = prim::DifferentiableGraph_0(%x)\n  \
%2 : Tensor = prim::DifferentiableGraph_1[device=0](%1)\n  return (%2)\nwith prim::DifferentiableGraph_0 = graph(%0 : Tensor):\n  \
%1 : Tensor = prim::FusionGroup_0(%0)\n  return (%1)\nwith prim::FusionGroup_0 = graph(%0 : Float(*, *),\n      %1 : int):\n  \
%2 : Tensor = aten::mul(%0, %0)\n  return (%2)\nwith prim::DifferentiableGraph_1 = graph(%0 : Tensor):\n  return (%0)\n";

const BRACES: &str = "graph(%x : Float(*)\n      %y : Float(*)) {\n  %d : Dynamic = ^pyfn()(%y)\n  \
%a : Dynamic = prim::FusionGroup_0(%x, %d)\n  return (%a);\n}\nwith prim::FusionGroup_0 = graph(%0 : Float(*)\n      \
%1 : Float(*)) {\n  %2 : Float(*) = aten::mul(%0, %1)\n  return (%2);\n}\n";

const GRAPHS: [&str; 5] = [SMALL, EMPTY, BLOCKS, FUSED, BRACES];

fn prefixed(prefix: &str, text: &str) -> String {
    text.lines().map(|line| format!("{prefix}{line}\n")).collect()
}

fn texts(log: &str) -> Vec<String> {
    extract(log.as_bytes()).into_iter().map(|graph| graph.text).collect()
}

fn only(log: &str) -> Extracted {
    let mut graphs = extract(log.as_bytes());
    assert_eq!(graphs.len(), 1, "{log}");
    graphs.remove(0)
}

#[test]
fn every_decoration() {
    for graph in GRAPHS {
        let gutter: String = graph.lines().enumerate().map(|(i, l)| format!("{:3} | {l}\n", i + 8)).collect();
        let stamp = |(i, l)| format!("2024-03-01T12:00:{:02}.{:07}Z {l}\n", i / 3, i * 71);
        let stamps: String = graph.lines().enumerate().map(stamp).collect();
        for log in [
            graph.to_owned(),
            prefixed("[DUMP guard_elimination.cpp:020] ", graph),
            prefixed("E       ", graph),
            prefixed("    ", graph),
            prefixed("> ", graph),
            prefixed("[rank0]: ", graph),
            prefixed("\u{1b}[32m2024\u{1b}[0m | ", graph),
            prefixed("", graph).replace('\n', "\r\n"),
            prefixed("\u{1b}]0;title\u{7}", graph),
            gutter,
            stamps,
            format!("INFO:root:{graph}"),
            format!("Graph: {graph}"),
            format!("\u{feff}{graph}"),
            format!("<GRAPH_EXPORT>\n{graph}</GRAPH_EXPORT>\n"),
            format!("<GRAPH_EXPORT>{}</GRAPH_EXPORT>", graph.trim_end()),
            format!("    ir = \"\"\"{}\"\"\"\n", graph.trim_end()),
            graph.replace('\n', "\n\n"),
        ] {
            if log.contains("\"\"\"") && graph == BRACES {
                continue;
            }
            let found = only(&log);
            assert_eq!(found.text, graph, "from\n{log}");
            assert!(found.complete, "{log}");
        }
    }
}

#[test]
fn a_log_of_several_passes() {
    let dump = |line: u32, title: &str, graph| {
        prefixed(&format!("[DUMP guard_elimination.cpp:{line:03}] "), &format!("{title}\n{graph}"))
    };
    let noise = "[UPDATE guard_elimination.cpp:047] Moved 32 to x.1\n[DEBUG guard_elimination.cpp:246] cannot remove aten::sum\n\
        [UPDATE common_subexpression_elimination.cpp:095] Replacing\n\
        [UPDATE common_subexpression_elimination.cpp:095] %c.1 : Tensor = aten::mul(%x.1, %y.1) # f.py:6:8\n";
    let log = [
        "running 3 tests\n",
        &dump(20, "After moveGuardsToDefs", SMALL),
        noise,
        &dump(24, "After coalesceGuards:", BLOCKS),
        &dump(28, "After coalesceGuards:", SMALL),
        "torch/nn/modules.py:12: UserWarning: %x = foo\n",
        &prefixed("[DEBUG fuser.cpp:1210] ", &format!("Final:\n<GRAPH_EXPORT>\n{FUSED}</GRAPH_EXPORT>\n")),
    ]
    .concat();
    let graphs = extract(log.as_bytes());
    let names: Vec<_> = graphs.iter().map(|g| g.name.as_deref().unwrap()).collect();
    assert_eq!(names, ["After moveGuardsToDefs", "After coalesceGuards", "After coalesceGuards", "Final"]);
    let texts: Vec<_> = graphs.iter().map(|g| g.text.as_str()).collect();
    assert_eq!(texts, [SMALL, BLOCKS, SMALL, FUSED]);
    let duplicates: Vec<_> = graphs.iter().map(|g| g.duplicate_of).collect();
    assert_eq!(duplicates, [None, None, Some(0), None]);
    assert!(graphs.iter().all(|g| g.complete));
    assert_eq!(
        (graphs[0].first_line, graphs[0].stem(), graphs[0].level.as_deref()),
        (3, Some("guard_elimination"), Some("DUMP"))
    );
    assert_eq!((graphs[3].source_file.as_deref(), graphs[3].level.as_deref()), (Some("fuser.cpp"), Some("DEBUG")));
}

#[test]
fn titles() {
    let name = |log: &str| only(log).name;
    assert_eq!(name(&format!("NoOpt Graph:\n{SMALL}")).as_deref(), Some("NoOpt Graph"));
    assert_eq!(name(&format!("=== optimized ===\n\n{SMALL}")).as_deref(), Some("optimized"));
    assert_eq!(name(&format!("Optimized: {SMALL}")).as_deref(), Some("Optimized"));
    assert_eq!(name(&format!("INFO:root:{SMALL}")), None);
    assert_eq!(name(&format!("Process exited with 3\n{SMALL}")), None);
    let inline = prefixed("[DEBUG a.cpp:1] ", SMALL).replacen("] ", "] Now: ", 1);
    assert_eq!(name(&inline).as_deref(), Some("Now"));
    assert_eq!(only(&inline).text, SMALL);
    let shortened = prefixed("[DEBUG profiling_...] ", &format!("After inlining\n{SMALL}"));
    assert_eq!(name(&shortened).as_deref(), Some("After inlining"));
}

#[test]
fn foreign_lines_inside_are_skipped() {
    let mut lines: Vec<&str> = SMALL.lines().collect();
    for (at, foreign) in
        [(1, "thread 7: hello"), (3, "  File \"x.py\", line 3"), (4, "[UPDATE fuser.cpp:047] x"), (2, "")]
    {
        lines.insert(at, foreign);
    }
    assert_eq!(texts(&lines.join("\n")), [SMALL]);
    let tagged = prefixed("[DUMP a.cpp:001] ", SMALL).replacen('\n', "\n  %9 : int = prim::Constant[value=7]()\n", 2);
    assert_eq!(texts(&tagged), [SMALL]);
}

#[test]
fn cut_text_is_reported() {
    let cut: String = SMALL.lines().take(3).map(|l| format!("{l}\n")).collect();
    let graphs = extract(format!("{cut}{BLOCKS}").as_bytes());
    assert_eq!(graphs.iter().map(|g| g.complete).collect::<Vec<_>>(), [false, true]);
    assert_eq!((graphs[0].text.as_str(), graphs[1].text.as_str()), (cut.as_str(), BLOCKS));
    let junk = "unrelated\n".repeat(PATIENCE + 5);
    let graphs = extract(format!("{cut}{junk}  %z : int = prim::Constant[value=7]()\n").as_bytes());
    assert_eq!((graphs.len(), graphs[0].text.as_str()), (1, cut.as_str()));
    let without_last = FUSED.rsplit_once("with ").unwrap().0;
    assert!(!only(without_last).complete);
    assert!(only("graph(%x : Tensor):\n  %1 : Tensor = my::op_0(%x)\n  return (%1)\n").complete);
}

#[test]
fn a_mention_of_a_graph_is_none() {
    for log in
        ["graph(%x : Tensor):", "# CHECK: graph(%x\nfoo\n", "def graph():\n  return (x)\n", "", "graph(", "a.graph()\n"]
    {
        assert_eq!(texts(log), [""; 0], "{log}");
    }
}

#[test]
fn sections_without_their_graph() {
    let log = FUSED.split_once("return (%2)\n").unwrap().1;
    let graphs = extract(log.as_bytes());
    let names: Vec<_> = graphs.iter().map(|g| g.name.as_deref().unwrap()).collect();
    assert_eq!(names, ["prim::DifferentiableGraph_0", "prim::DifferentiableGraph_1"]);
    assert!(graphs[0].text.starts_with("graph(%0") && graphs[0].text.contains("\nwith prim::FusionGroup_0 = graph("));
    assert!(graphs.iter().all(|g| g.complete));
}

#[test]
fn ranks_may_be_interleaved() {
    let ranks: Vec<String> = GRAPHS.iter().enumerate().map(|(i, g)| prefixed(&format!("[rank{i}]: "), g)).collect();
    let mut streams: Vec<_> = ranks.iter().map(|r| r.lines()).collect();
    let mut log = String::new();
    while !streams.is_empty() {
        streams.retain_mut(|stream| stream.next().map(|line| log.push_str(&format!("{line}\n"))).is_some());
    }
    assert_eq!(texts(&log), GRAPHS);
}

#[test]
fn time_stamps_with_a_graph_cut_off() {
    let stamp = |(i, l): (usize, &str)| format!("12:00:{:02}.{:03} [1] {l}\n", i / 7, (i * 377) % 1000);
    let text = format!("{}graph(%a : int):\n  %1 : int = aten::neg(%a)\n{FUSED}{BLOCKS}", SMALL);
    let graphs = texts(&text.lines().enumerate().map(stamp).collect::<String>());
    assert_eq!(graphs, [SMALL, "graph(%a : int):\n  %1 : int = aten::neg(%a)\n", FUSED, BLOCKS]);
}

#[test]
fn lines_cut_by_a_terminal_are_joined() {
    let operands: Vec<String> = (0..90).map(|i| format!("%v.{i}")).collect();
    let node = format!("  %o : Tensor = prim::BailOut[index=3]({})\n", operands.join(", "));
    let graph = format!("graph(%x : Tensor):\n{node}  return (%o)\n");
    for prefix in ["", "[DUMP insert_bailouts.cpp:088] "] {
        let wrapped: String = prefixed(prefix, &graph)
            .lines()
            .flat_map(|l| l.as_bytes().chunks(80).map(|part| format!("{}\n", std::str::from_utf8(part).unwrap())))
            .collect();
        // Blanks at the cut are lost, as in a terminal.
        let squeezed = |s: &str| s.replace(' ', "");
        assert_eq!(squeezed(&only(&wrapped).text), squeezed(&graph));
    }
}

#[test]
fn other_encodings() {
    let wide = |text: &str| text.encode_utf16().flat_map(u16::to_le_bytes).collect::<Vec<u8>>();
    let log = wide(&format!("\u{feff}{SMALL}"));
    assert_eq!(extract(&log)[0].text, SMALL);
    assert_eq!(looks_like_log(&log), Some(LogKind::Utf16));
    let mut latin = SMALL.as_bytes().to_vec();
    latin.splice(0..0, *b"caf\xe9\n");
    assert_eq!(extract(&latin)[0].text, SMALL);
}

#[test]
fn a_waiting_prompt_does_not_mix_ranks() {
    let log = ">>> rank0: graph(%x : Tensor):\nrank1: graph(%y : Tensor):\nrank0:   %2 : Tensor = aten::sin(%x)\n\
        rank1:   %2 = aten::cos(%y)\nrank0:   return (%2)\nrank1:   return (%2)\n";
    let sin = "graph(%x : Tensor):\n  %2 : Tensor = aten::sin(%x)\n  return (%2)\n";
    let cos = "graph(%y : Tensor):\n  %2 = aten::cos(%y)\n  return (%2)\n";
    assert_eq!(texts(log), [sin, cos]);
    assert!(extract(log.as_bytes()).iter().all(|graph| graph.complete));
    let second = log.replace(">>> ", "").replace("rank1: graph", ">>> rank1: graph");
    assert_eq!(texts(&second), [sin, cos]);
}

#[test]
fn logs_are_distinguished_from_graphs() {
    for graph in GRAPHS {
        assert_eq!(looks_like_log(graph.as_bytes()), None);
        let commented = format!("# RUN: dce\n# CHECK: graph(%x\n// graph\n\n{graph}trailing junk\n");
        assert_eq!(looks_like_log(commented.as_bytes()), None);
        let kind = |log: String| looks_like_log(log.as_bytes());
        assert_eq!(kind(prefixed("[DUMP a.cpp:1] ", graph)), Some(LogKind::JitLog));
        assert_eq!(kind(prefixed("12:00 ", graph)), Some(LogKind::Prefixed));
        assert_eq!(kind(format!("{{\"text\": {graph:?}}}\n")), Some(LogKind::Quoted));
        assert_eq!(kind(format!("hello\n{graph}")), Some(LogKind::Surrounded));
    }
    assert_eq!(looks_like_log(b"nothing\n"), None);
    assert!(LogKind::JitLog.to_string().contains("`jitopt extract`"));
}

#[test]
fn junk_is_read_in_linear_time() {
    let unit = "[UPDATE fuser.cpp:047] getOrCreate: %736 : Float(3:20) = tensorexpr::Group[Subgraph=<Graph>](%X)\n\
        graph(%x\n   1 graph(%y\n%z graph %w ( [ [ = aten::\u{1b}[1m\n";
    assert_eq!(extract(unit.repeat(50_000_000 / unit.len()).as_bytes()), []);
    for byte in [b"graph(".as_slice(), b"%", b" ", b"\x1b[", b"[DUMP ", b"  1", b"graph(%"] {
        extract(&byte.repeat(4_000_000));
        let open = [b"graph(%x,\n", byte.repeat(2_000_000).as_slice()].concat();
        extract(&open);
    }
}

/// A disguise of a graph in the generated logs.
#[derive(Clone, Debug)]
struct Disguise {
    prefix: &'static str,
    gutter: bool,
    title: &'static str,
    ending: &'static str,
    /// Foreign lines: before which line of the graph, and which.
    foreign: Vec<(usize, &'static str)>,
}

fn disguises() -> impl Strategy<Value = Disguise> {
    let prefixes = [
        "",
        "    ",
        "E   ",
        "[DUMP a_b.cpp:020] ",
        "[DEBUG c.cpp:1234] ",
        "INFO 12:00:01 [3]: ",
        "| ",
        "\u{1b}[1m> \u{1b}[0m",
    ];
    let titles =
        ["", "After X:", "-----", "Traceback (most recent call last):", "[UPDATE q.cpp:001] %1 : int = aten::neg(%2)"];
    let foreign = [
        "warning: something",
        "[UPDATE z.cpp:047] Moved 3",
        "  File \"a.py\", line 3, in f",
        "%",
        "100%|###| 3/3",
        "é\u{0}",
    ];
    let insertions = prop::collection::vec((1usize..12, prop::sample::select(foreign.to_vec())), 0..4);
    (
        prop::sample::select(prefixes.to_vec()),
        any::<bool>(),
        prop::sample::select(titles.to_vec()),
        prop::sample::select(vec!["\n", "\r\n", " \n"]),
        insertions,
    )
        .prop_map(|(prefix, gutter, title, ending, foreign)| Disguise { prefix, gutter, title, ending, foreign })
}

fn disguised(graph: &str, how: &Disguise) -> String {
    let mut out = format!("{}{}", how.title, how.ending);
    let returns = graph.lines().position(|l| l.starts_with("  return")).unwrap();
    for (at, line) in graph.lines().enumerate() {
        for (_, foreign) in how.foreign.iter().filter(|(before, _)| *before == at && at <= returns) {
            out += &format!("{foreign}{}", how.ending);
        }
        let number = if how.gutter { format!("{:>4}: ", at + 7) } else { String::new() };
        out += &format!("{}{number}{line}{}", how.prefix, how.ending);
    }
    out
}

proptest! {
    #[test]
    fn disguised_graphs_come_back(parts in prop::collection::vec((0..GRAPHS.len(), disguises()), 0..8)) {
        let log: String = parts.iter().map(|(graph, how)| disguised(GRAPHS[*graph], how)).collect();
        let expected: Vec<&str> = parts.iter().map(|(graph, _)| GRAPHS[*graph]).collect();
        let found = extract(log.as_bytes());
        prop_assert_eq!(found.iter().map(|g| g.text.as_str()).collect::<Vec<_>>(), expected, "{}", log);
        for (at, graph) in found.iter().enumerate() {
            prop_assert!(graph.complete);
            let first = found.iter().position(|g| g.text == graph.text);
            prop_assert_eq!(graph.duplicate_of, first.filter(|first| *first != at));
        }
    }

    #[test]
    fn bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        extract(&bytes);
        looks_like_log(&bytes);
    }

    #[test]
    fn near_graphs_never_panic(parts in prop::collection::vec(prop::sample::select(vec![
        "graph(", "%x", " : Tensor", ",", "):", ")", " {", "}", "\n", "  ", " = ", "aten::f", "(", "return (", "with ",
        "prim::G_0", "with prim::G_0 = graph(", "block0(", "-> (", "[DUMP a.cpp:1] ", "[DUMP ", "]", "12", "\"", "\u{1b}[",
        "<GRAPH_EXPORT>", "</GRAPH_EXPORT>", "é", "\r", "#", "INFO:root:", "^f", "[",
    ]), 0..120)) {
        let log = parts.concat();
        let found = extract(log.as_bytes());
        looks_like_log(log.as_bytes());
        // The extracted text, extracted again, is the same.
        for graph in found.iter().filter(|g| g.complete) {
            prop_assert!(graph.text.starts_with("graph("));
        }
    }
}
