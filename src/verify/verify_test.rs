//! Each check on a text that triggers it, deep nesting, and generated texts.

use super::*;
use crate::ir::{Node, Value};
use crate::symbol::Symbol;
use crate::text::{ParseOptions, parse};
use crate::types::Type;
use proptest::prelude::*;
use std::fmt::Write;

fn read(text: &str) -> Graph {
    match parse(text.as_bytes(), ParseOptions::default()) {
        Ok(parsed) => parsed.graph,
        Err(diagnostics) => panic!("{text}\n{diagnostics:?}"),
    }
}

/// `error 4:12 %9 is not defined`, one for each finding.
fn found(text: &str) -> Vec<String> {
    let graph = read(text);
    let report = verify(&graph);
    let line = |(finding, at): (&Finding, Position)| {
        let severity = if finding.severity == Severity::Error { "error" } else { "warning" };
        format!("{severity} {}:{} {}", at.line, at.column, finding.message)
    };
    report.findings.iter().zip(positions(&graph, &report)).map(line).collect()
}

/// Params `%x %y : Tensor`, `%n : int`, `%b : bool`, `%t : (Tensor, int)`, `%l : Tensor[]`, then
/// the lines; they begin on line 7, since each param has a line of its own.
fn found_in(lines: &str) -> Vec<String> {
    let params = "%x : Tensor, %y : Tensor, %n : int, %b : bool, %t : (Tensor, int), %l : Tensor[]";
    let end = if lines.contains("return") { "" } else { "\n  return (%x)" };
    found(&format!("graph({params}):\n{lines}{end}\n"))
}

#[track_caller]
fn check(lines: &str, expected: &[&str]) {
    assert_eq!(found_in(lines), expected, "{lines}");
}

// ---- scoping

#[test]
fn values_in_scope_are_accepted() {
    let nested = "%c : int = prim::Constant[value=1]()
        %o : Tensor, %p : Tensor = prim::If(%b)
          block0():
            %q : Tensor = aten::add(%x, %y, %c)
            %r : Tensor = prim::Loop(%n, %b, %q)
              block0(%i : int, %s : Tensor):
                %u : Tensor = aten::add(%s, %q, %c)
                -> (%b, %u)
            -> (%q, %r)
          block1():
            -> (%x, %y)
        return (%o, %p)";
    check(nested, &[]);
}

#[test]
fn undefined_names_are_errors_with_a_suggestion() {
    check("%1 : Tensor = aten::relu(%nowhere)", &["error 7:28 %nowhere is not defined"]);
    let graph = read("graph(%weight : Tensor):\n  %1 : Tensor = aten::relu(%wieght)\n  return (%1, %9)\n");
    let report = verify(&graph);
    assert_eq!(report.findings.len(), 2);
    assert_eq!(report.findings[0].help.as_deref(), Some("did you mean %weight?"));
    assert_eq!(report.findings[0].at.spot.value(&graph), graph.value_named(b"wieght"));
    assert_eq!(report.findings[1].at.spot, Spot::Operand(graph.return_node(graph.root()), 1));
}

#[test]
fn use_before_definition() {
    check("%1 : Tensor = aten::relu(%2)\n%2 : Tensor = aten::neg(%x)", &["error 7:28 %2 is used before it is defined"]);
    check("%1 : Tensor = aten::relu(%1)", &["error 7:28 %1 is an operand of the node that defines it"]);
    let inside = "%o : Tensor = prim::If(%b)\nblock0():\n%1 : Tensor = aten::relu(%o)\n-> (%1)\nblock1():\n-> (%x)";
    check(inside, &["error 9:32 %o is used before it is defined"]);
}

#[test]
fn use_outside_of_a_block() {
    let lines = "%o : Tensor = prim::If(%b)
        block0():
          %1 : Tensor = aten::relu(%x)
          -> (%1)
        block1():
          %2 : Tensor = aten::neg(%1)
          -> (%2)
        return (%o, %2)";
    let expected = [
        "error 12:31 %1 is used outside of the block that defines it",
        "error 14:15 %2 is used outside of the block that defines it",
    ];
    check(lines, &expected);
}

#[test]
fn a_name_defined_twice_is_a_warning() {
    let lines = "%a : Tensor = aten::relu(%x)
        %a : Tensor = aten::neg(%a)
        %a : Tensor = aten::neg(%a)
        %1 : Tensor = aten::neg(%a)
        %1 : Tensor = aten::neg(%1)";
    let expected =
        ["warning 11:3 %1 is defined again", "warning 8:3 %a is defined again", "warning 9:3 %a is defined again"];
    check(lines, &expected);
    assert_eq!(found("graph(%x : Tensor, %x : Tensor):\n  return (%x)\n"), ["warning 2:7 %x is defined again"]);
    // Very large numbers are not kept in the bit table.
    check(
        "%900000000 : Tensor = aten::relu(%x)\n%900000000 : Tensor = aten::neg(%x)",
        &["warning 8:3 %900000000 is defined again"],
    );
}

#[test]
fn erased_definers() {
    let mut graph = read("graph(%x : Tensor):\n  %1 : Tensor = aten::relu(%x)\n  return (%1)\n");
    let node = graph.first(graph.root()).expect("a node");
    graph.detach(node);
    let report = verify(&graph);
    assert_eq!(report.findings[0].message, "%1 belongs to a `aten::relu` that is no longer in the graph");
}

// ---- arity

#[test]
fn blocks() {
    check("%1 : Tensor = aten::relu(%x)\nblock0():\n-> ()", &["error 7:17 `aten::relu` has 1 block, expected 0"]);
    check("%1 : Tensor = my::op(%x)\nblock0(%i : int):\n-> ()", &[]);
    check("prim::If(%b)\nblock0():\n-> ()", &["warning 7:6 this `prim::If` has 1 block, expected 2"]);
    let lines = "%o : Tensor = prim::If(%b)\nblock0(%i : int):\n-> (%x)\nblock1():\n-> ()";
    let expected = [
        "error 8:5 a block of `prim::If` takes no values, this one takes 1",
        "error 11:7 this block returns 0 values, expected 1",
    ];
    check(lines, &expected);
    let grad = "%g : Tensor = prim::GradOf[name=\"aten::tanh\"](%x)\nblock0():\n-> (%x, %y)";
    check(grad, &["error 9:7 this block returns 2 values, expected 1"]);
    let with = "prim::With(%x)\nblock0(%i : int):\n-> ()\nblock1():\n-> ()";
    check(with, &["error 8:5 a block of `prim::With` takes no values, this one takes 1"]);
}

#[test]
fn loops() {
    let fine = "%o : Tensor = prim::Loop(%n, %b, %x)\nblock0(%i : int, %s : Tensor):\n-> (%b, %s)";
    check(fine, &[]);
    check(
        "%o : Tensor = prim::Loop(%n, %b)\nblock0(%s : int):\n-> (%b)",
        &["error 7:17 `prim::Loop` carries 0 values and has 1 output"],
    );
    check(
        "%o : Tensor = prim::Loop(%n, %b, %x)\nblock0():\n-> (%b)",
        &["error 8:5 this body takes 0 values, expected 2", "error 9:7 this block returns 1 value, expected 2"],
    );
    let none = found_in("prim::Loop(%n)\nblock0():\n-> (%b)");
    assert_eq!(none[0], "error 7:6 `prim::Loop` has 1 operand");
}

#[test]
fn constants() {
    check("%1 : int = prim::Constant[value=1](%x)", &["error 7:38 a constant has no operands, this one has 1"]);
    check("%1 : int, %2 : int = prim::Constant[value=1]()", &["error 7:24 a constant has one output, this one has 2"]);
    check("%1 : str = prim::Constant[value=1]()", &["warning 7:3 the value of this constant is not of type `str`"]);
    check("%1 : int[] = prim::Constant[value=1]()", &["warning 7:3 the value of this constant is not of type `int[]`"]);
    check("%1 : int = prim::Constant[what=1]()", &["warning 7:14 this constant has no value"]);
    check("%1 : int? = prim::Constant()\n%2 : Function = prim::Constant[name=\"f\"]()", &[]);
}

#[test]
fn containers() {
    check("%1 : Tensor = prim::TupleUnpack(%t)", &["error 7:35 a tuple of 2 is unpacked into 1"]);
    let index = "%i : int = prim::Constant[value=2]()\n%1 : int = prim::TupleIndex(%t, %i)";
    check(index, &["error 8:35 a tuple of 2 has no element 2"]);
    check("%1 : (Tensor, int) = prim::TupleConstruct(%x)", &["error 7:3 a tuple of 2 is made from 1 operand"]);
    check(
        "%1 : (Tensor, int) = prim::TupleConstruct(%x, %l)",
        &["warning 7:49 element 1 of this `(Tensor, int)` is a `Tensor[]`"],
    );
    check("%1 : int[] = prim::ListConstruct(%n, %l)", &["warning 7:40 element 1 of this `int[]` is a `Tensor[]`"]);
    let list = "%1 : Tensor[] = prim::ListConstruct(%x, %y)\n%2 : Tensor = prim::ListUnpack(%1)";
    check(list, &["warning 8:34 a list made of 2 is unpacked into 1"]);
    check(
        "%1 : Dict(int, Tensor) = prim::DictConstruct(%n, %x, %n)",
        &["error 7:28 `prim::DictConstruct` has 3 operands"],
    );
    check(
        "%1 : Tensor, %2 : Tensor = prim::ConstantChunk[chunks=3, dim=0](%x)",
        &["error 7:30 3 chunks have 2 outputs"],
    );
    check(
        "%1 : Tensor = prim::TypeCheck[types=[Float(2), Float(2)]](%x)",
        &[
            "error 7:17 `prim::TypeCheck` has 1 output, expected 2",
            "error 7:17 `prim::TypeCheck` checks 1 operand against 2 types",
        ],
    );
}

/// `body` is the section of `node`.
fn section(node: &str, body: &str) -> Vec<String> {
    let (_, call) = node.split_once(" = ").expect("a node with outputs");
    let name = call.split(['(', '[']).next().unwrap_or(call);
    found(&format!("graph(%x : Tensor):\n  {node}\n  return (%x)\nwith {name} = {body}\n"))
}

#[test]
fn sections() {
    let two = "graph(%a : Tensor, %b : Tensor):\n  return (%a, %b)";
    assert_eq!(section("%1 : Tensor, %2 : Tensor = prim::FusionGroup_0(%x, %x)", two), [""; 0]);
    assert_eq!(
        section("%1 : Tensor = prim::FusionGroup_0(%x)", two),
        [
            "error 2:17 `prim::FusionGroup` has 1 operand and its section takes 2 values",
            "error 2:17 `prim::FusionGroup` has 1 output and its section returns 2 values",
        ]
    );
    assert_eq!(section("%1 : Tensor = prim::DifferentiableGraph_0(%x, %x)", two), [""; 0]);
    assert_eq!(
        section("%1 : Tensor = prim::DifferentiableGraph_0(%x, %x)", "graph(%a : Tensor, %b : Tensor):\n  return ()"),
        ["error 2:17 `prim::DifferentiableGraph` has 1 output and its section returns only 0 values",]
    );
    assert_eq!(
        section("%1 : Future[Tensor], %2 : Tensor = prim::fork_0(%x, %x)", two),
        ["error 2:38 `prim::fork` has 2 outputs, expected 1",]
    );
    assert_eq!(
        section("%1 : int = prim::BailoutTemplate_0(%x)", two),
        ["error 2:14 `prim::BailoutTemplate` takes no operands, this one has 1",]
    );
    check("%1 : Tensor = prim::FusionGroup_0(%x)", &["warning 7:17 there is no section `prim::FusionGroup_0`"]);
    check("%1 : Tensor = prim::FusionGroup(%x)", &["warning 7:17 `prim::FusionGroup` has no section"]);
}

#[test]
fn findings_in_sections_know_their_path() {
    let text = "graph(%x : Tensor):
  %1 : Tensor = prim::DifferentiableGraph_0(%x)
  %2 : Tensor = prim::FusionGroup_1(%1)
  return (%2)
with prim::DifferentiableGraph_0 = graph(%a : Tensor):
  %b : Tensor = prim::FusionGroup_0(%a)
  return (%b)
with prim::FusionGroup_0 = graph(%c : Tensor):
  %d : Tensor = aten::relu(%gone)
  return (%d)
with prim::FusionGroup_1 = graph(%e : Tensor):
  return (%f)
";
    assert_eq!(found(text), ["error 9:28 %gone is not defined", "error 12:11 %f is not defined"]);
    let graph = read(text);
    let report = verify(&graph);
    let path = report.path(report.findings[0].at);
    let inner = report.graph_of(&graph, report.findings[0].at);
    assert_eq!((path.len(), inner.kind(inner.first(inner.root()).expect("a node"))), (2, Symbol::new("aten::relu")));
    assert_eq!(report.path(report.findings[1].at), [graph.next(path[0]).expect("the group")]);
}

// ---- types

#[test]
fn overloads() {
    check(
        "%1 : Tensor = aten::relu(%t)",
        &["warning 7:28 PyTorch has no overload of `aten::relu` for ((Tensor, int))"],
    );
    check(
        "%1 : Tensor = aten::relu(%x, %x, %n)",
        &["warning 7:17 PyTorch has no overload of `aten::relu` for (Tensor, Tensor, int)"],
    );
    check("%1 : int = aten::relu(%x)", &["warning 7:3 `aten::relu` returns `Tensor`, not `int`"]);
    check(
        "%1 : Tensor, %2 : Tensor = aten::relu(%x)",
        &["warning 7:30 `aten::relu` returns 1 value, this one has 2 outputs"],
    );
    check("%1 : int = aten::__getitem__(%l, %n)", &["warning 7:3 `aten::__getitem__` returns `Tensor`, not `int`"]);
    check("%1 = prim::Constant[value=1]()\n%2 = aten::add(%x, %y, %1)\n%3 : Float(2) = aten::relu(%2)", &[]);
    // Reported for each node, computed once.
    let twice = found_in("%1 : Tensor = aten::relu(%t)\n%2 : Tensor = aten::relu(%t)");
    assert_eq!(twice.len(), 2);
}

#[test]
fn erased_numbers_are_fine() {
    let lines = "%1 : Long() = prim::Constant[value={1}]()
        %2 : Tensor = aten::add(%x, %y, %1)
        %3 : Long() = aten::add(%n, %n)
        %4 : Tensor = aten::select(%x, %1, %1)";
    check(lines, &[]);
}

#[test]
fn unknown_operators_are_fine_in_other_namespaces() {
    check("%1 : str = my::op(%x, %t)\n%2 : str = tomorrow::of(%x)\n = ^Fn(2.0)(%x)", &[]);
    check("%1 : str = aten::adddd(%x)", &["warning 7:14 `aten::adddd` is not an operator of PyTorch"]);
    // Some release between 1.3 and 2.15 has it.
    check("%1 : Tensor = aten::_bmm(%x, %x, %b)", &[]);
    let graph = read("graph(%x : Tensor):\n  %1 : Tensor = aten::realu(%x)\n  return (%1)\n");
    let report = verify(&graph);
    assert_eq!(report.findings[0].message, "`aten::realu` is not an operator of PyTorch");
    assert_eq!(report.findings[0].help.as_deref(), Some("did you mean `aten::real` or `aten::relu`?"));
    for (close, far) in
        [("aten::sigmiod", "atem::sigmax"), ("aten::matmull", "atex::matmull"), ("prim::ListContruct", "prin::Lust")]
    {
        assert_eq!(found_in(&format!("{close}(%x)")).len(), 1, "{close}");
        assert_eq!(found_in(&format!("{far}(%x)")).len(), 0, "{far}");
    }
}

#[test]
fn what_passes_through_blocks() {
    let branches = "%o : Tensor = prim::If(%b)\nblock0():\n-> (%x)\nblock1():\n-> (%l)";
    check(branches, &["warning 11:11 %l, a `Tensor[]`, is returned as %o, a `Tensor`"]);
    check("%o : Float(2) = prim::If(%n)\nblock0():\n-> (%x)\nblock1():\n-> (%y)", &[]);
    let carried = "%o : str = prim::Loop(%n, %b, %l)\nblock0(%i : int, %s : Tensor):\n-> (%t, %x)";
    let expected = [
        "warning 7:33 %l, a `Tensor[]`, is carried into %s, a `Tensor`",
        "warning 9:15 %x, a `Tensor`, is returned as %o, a `str`",
        "warning 9:11 the condition of the loop is a `(Tensor, int)`, expected `bool`",
    ];
    check(carried, &expected);
}

#[test]
fn groups_are_on_one_device() {
    let text = "graph(%x : Float(2, device=cpu), %y : Float(2, device=cuda:0)):
  %1 : Tensor = prim::FusionGroup_0(%x, %y)
  return (%1)
with prim::FusionGroup_0 = graph(%a : Tensor, %b : Tensor):
  return (%a)
";
    assert_eq!(found(text), ["warning 3:17 this group is on `cpu` and on `cuda:0`"]);
}

#[test]
fn the_structure_alone() {
    let graph = read("graph(%x : Tensor):\n  %1 : str = aten::relu(%9)\n  return (%1)\n");
    assert_eq!((verify_structure_only(&graph).findings.len(), verify(&graph).findings.len()), (1, 2));
    assert!(verify(&graph).has_errors() && !verify(&read("graph():\n  return ()\n")).has_errors());
}

// ---- drawing

#[test]
fn findings_are_drawn_under_their_lines() {
    let text = "graph(%x : Tensor):
  %1 : int = prim::Constant[value=1]()
  %5 : Tensor = aten::add(%x, %9, %1) # model.py:3:4
  %9 : Tensor = aten::relu(%x, %1)
  return (%5)
";
    let expected = "graph(%x : Tensor):
  %1 : int = prim::Constant[value=1]()
  %5 : Tensor = aten::add(%x, %9, %1) # model.py:3:4
                              ^~ error: %9 is used before it is defined
                                 note: `aten::relu` defines it further down
  %9 : Tensor = aten::relu(%x, %1)
                ^~~~~~~~~~ warning: PyTorch has no overload of `aten::relu` for (Tensor, int)
                           note: `aten::relu(Tensor self) -> Tensor` takes 1 operands, not 2
  return (%5)
1 error, 1 warning
";
    let graph = read(text);
    let report = verify(&graph);
    assert_eq!(render(&graph, &report), expected);
    assert_eq!(report.findings[0].source.as_deref(), Some("model.py:3:4"));
}

#[test]
fn long_graphs_are_shown_around_their_findings() {
    let mut text = "graph(%x : Tensor, %b : bool):\n".to_owned();
    for i in 0..500 {
        let _ = writeln!(text, "  %{i} : Tensor = aten::neg(%x)");
        if i == 250 {
            text += "  %o : Tensor = prim::If(%b)\n    block0():\n";
            for i in 500..600 {
                let _ = writeln!(text, "      %{i} : Tensor = aten::neg(%x)");
            }
            text += "      -> (%gone)\n    block1():\n      -> (%x)\n";
        }
    }
    text += "  return (%x)\n";
    let graph = read(&text);
    let drawn = render(&graph, &verify(&graph));
    let lines: Vec<&str> = drawn.lines().map(str::trim_start).collect();
    assert_eq!(lines.len(), 17, "{drawn}");
    assert_eq!(lines[..4], ["graph(%x : Tensor,", "…", "%o : Tensor = prim::If(%b)", "block0():"]);
    assert_eq!(lines[10], "^~~~~ error: %gone is not defined");
}

#[test]
fn many_findings_are_counted() {
    let mut text = "graph(%x : Tensor):\n".to_owned();
    for i in 0..1000 {
        let _ = writeln!(text, "  %{i} : Tensor = aten::neg(%a{i})");
    }
    text += "  return (%x)\n";
    let graph = read(&text);
    let drawn = render(&graph, &verify(&graph));
    assert!(drawn.ends_with("1000 errors; the first 100 are shown\n"), "{drawn}");
}

// ---- depth

#[test]
fn ten_thousand_nested_blocks() {
    const DEPTH: usize = 9_990;
    let mut text = "graph(%x : Tensor, %b : bool):\n".to_owned();
    for i in 0..DEPTH {
        let _ = writeln!(text, "%o{i} : Tensor = prim::If(%b)\nblock0():");
    }
    text += "%y : Tensor = aten::relu(%gone)\n-> (%y)\n";
    for i in (1..DEPTH).rev() {
        let _ = writeln!(text, "block1():\n-> (%x)\n-> (%o{i})");
    }
    text += "block1():\n-> (%x)\nreturn (%o0)\n";
    let graph = read(&text);
    let report = verify(&graph);
    assert_eq!(report.findings.len(), 1);
    assert!(render(&graph, &report).contains("%gone is not defined"));
}

#[test]
fn many_nested_sections() {
    const DEPTH: usize = 9_990;
    let mut text = "graph(%x : Tensor):\n".to_owned();
    for _ in 0..DEPTH {
        text +=
            "  %y : Tensor = prim::FusionGroup_0(%x)\n  return (%y)\nwith prim::FusionGroup_0 = graph(%x : Tensor):\n";
    }
    text += "  return (%gone)\n";
    let graph = read(&text);
    let report = verify(&graph);
    assert_eq!((report.findings.len(), report.path(report.findings[0].at).len()), (1, DEPTH));
    assert!(render(&graph, &report).contains("%gone is not defined"));
}

// ---- generated texts

const BASE: &str = "graph(%x : Tensor, %n : int, %b : bool):
  %1 : int = prim::Constant[value=1]()
  %t : (Tensor, int) = prim::TupleConstruct(%x, %n)
  %2 : Tensor, %3 : int = prim::TupleUnpack(%t)
  %o : Tensor, %p : int = prim::If(%b)
    block0():
      %4 : Tensor = aten::add(%x, %2, %1)
      %5 : Tensor = prim::Loop(%n, %b, %4)
        block0(%i : int, %s : Tensor):
          %6 : Tensor = aten::relu(%s)
          -> (%b, %6)
      -> (%5, %1)
    block1():
      %7 : Tensor = prim::FusionGroup_0(%x, %2)
      -> (%7, %3)
   = prim::Print(%o)
  %8 : Tensor[] = prim::ListConstruct(%o, %x)
  %9 : Tensor, %10 : Tensor = prim::ListUnpack(%8)
  return (%9, %p)
with prim::FusionGroup_0 = graph(%c : Tensor, %d : Tensor):
  %e : Tensor = aten::mul(%c, %d)
  return (%e)
";

/// Deletes, duplicates or swaps lines.
fn mangled(edits: &[(u8, prop::sample::Index, prop::sample::Index)]) -> String {
    let mut lines: Vec<&str> = BASE.lines().collect();
    for (what, a, b) in edits {
        let (a, b) = (a.index(lines.len()), b.index(lines.len()));
        match what {
            0 if lines.len() > 1 => drop(lines.remove(a)),
            1 => lines.insert(b, lines[a]),
            _ => lines.swap(a, b),
        }
    }
    lines.join("\n") + "\n"
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]
    #[test]
    fn mangled_graphs_never_panic(edits in prop::collection::vec((0u8..3, any::<prop::sample::Index>(), any::<prop::sample::Index>()), 1..6)) {
        let text = mangled(&edits);
        if let Ok(parsed) = parse(text.as_bytes(), ParseOptions::default()) {
            let report = verify(&parsed.graph);
            let drawn = render(&parsed.graph, &report);
            prop_assert!(positions(&parsed.graph, &report).iter().all(|at| at.line > 0 && at.column > 0));
            prop_assert!(report.findings.iter().all(|finding| drawn.contains(&finding.message)), "{}", drawn);
        }
    }

    /// A value is visible exactly when the node that defines it, or its block, encloses or precedes
    /// the use.
    #[test]
    fn scoping_agrees_with_a_slow_check(edits in prop::collection::vec((0u8..3, any::<prop::sample::Index>(), any::<prop::sample::Index>()), 0..4)) {
        let text = mangled(&edits);
        if let Ok(parsed) = parse(text.as_bytes(), ParseOptions::default()) {
            let graph = &parsed.graph;
            let report = verify(graph);
            let found = |node: Node, i: usize| report.errors().any(|f| f.at.section == 0 && f.at.spot == Spot::Operand(node, i) && !f.message.starts_with("a tuple"));
            let returns = graph.all_blocks().map(|block| graph.return_node(block));
            for node in graph.all_nodes().chain(returns) {
                for (i, value) in graph.inputs(node).enumerate() {
                    prop_assert_eq!(!found(node, i), is_visible(graph, node, value), "operand {} of {} in\n{}", i, graph.kind(node), text);
                }
            }
        }
    }
}

fn is_visible(graph: &Graph, user: Node, value: Value) -> bool {
    let Some(definer) = graph.definer(value) else { return false };
    let home = graph.block_of(definer);
    let mut at = Some(user);
    while let Some(node) = at {
        if graph.block_of(node) == home {
            // The hidden Param precedes all nodes, the hidden Return follows them.
            return node != definer
                && graph.is_before(definer, node)
                && (node == user || graph.is_before(definer, node));
        }
        at = graph.enclosing(node);
    }
    false
}

#[test]
fn the_base_is_valid() {
    assert_eq!(found(BASE), [""; 0]);
}

#[test]
fn broken_links_are_found() {
    // Two nodes that share an output cannot be made through the interface; a use list cannot be
    // broken either. The remaining property is that the check accepts the results of edits.
    let mut graph = read(BASE);
    let node = graph.first(graph.root()).expect("a node");
    let extra = graph.create_op(Symbol::new("aten::relu"), &[], Type::tensor());
    graph.insert_after(node, extra);
    let x = graph.params(graph.root()).next().expect("a param");
    graph.add_input(extra, x);
    graph.move_before(extra, node);
    assert!(verify(&graph).is_clean());
}
