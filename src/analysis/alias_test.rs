//! The rows of the table of transfer rules, and the bounds on time.

use super::AliasDb;
use crate::entity::EntitySet;
use crate::ir::{Graph, Node, Value};
use crate::symbol::Symbol;
use crate::text::{ParseOptions, parse};
use crate::types::era::Era;
use crate::types::release::Release;
use std::fmt::Write;

struct Case {
    graph: Graph,
    db: AliasDb,
}

impl Case {
    fn of_era(era: Era, text: &str) -> Case {
        let options = ParseOptions::of(Release::of(era));
        let graph = parse(text.as_bytes(), options).unwrap_or_else(|e| panic!("{e:?}\n{text}")).graph;
        Case { db: AliasDb::new(&graph), graph }
    }

    /// A graph of these lines, with params of many types. `%z` and `%w` are two new tensors.
    fn new(lines: &str) -> Case {
        Case::body(Era::V2, lines)
    }

    fn body(era: Era, lines: &str) -> Case {
        let params = "%x : Tensor, %y : Tensor, %l : Tensor[], %i : int, %c : bool, %self : __torch__.M, %k : int[]";
        let head = "%1 : int = prim::Constant[value=1]()\n%0 : bool = prim::Constant[value=0]()\n\
            %z : Tensor = aten::neg(%x)\n%w : Tensor = aten::neg(%x)\n";
        Case::of_era(era, &format!("graph({params}):\n{head}{lines}\nreturn (%x)\n"))
    }

    fn value(&self, name: &str) -> Value {
        self.graph.value_named(name.as_bytes()).unwrap_or_else(|| panic!("%{name}"))
    }

    fn node(&self, kind: &str) -> Node {
        self.graph
            .all_nodes()
            .find(|&node| self.graph.kind(node) == Symbol::new(kind))
            .unwrap_or_else(|| panic!("{kind}"))
    }

    fn aliases(&self, a: &str, b: &str) -> bool {
        self.db.may_alias(self.value(a), self.value(b))
    }

    fn written(&self, name: &str) -> bool {
        self.db.has_writers(self.value(name))
    }

    fn wild(&self, name: &str) -> bool {
        self.db.may_alias_wildcard(self.value(name))
    }
}

/// `lines` define `%r`: which other values it may alias, which are written, and whether `%r` comes
/// from outside.
fn check(lines: &str, same: &str, written: &str, wild: bool) {
    let case = Case::new(lines);
    let all = "x y z w l".split(' ');
    let found = |is: &dyn Fn(&str) -> bool| all.clone().filter(|name| is(name)).collect::<Vec<_>>().join(" ");
    assert_eq!(found(&|name| case.aliases("r", name)), same, "{lines}");
    assert_eq!(found(&|name| case.written(name)), written, "{lines}");
    assert_eq!(case.wild("r"), wild, "{lines}");
}

#[test]
fn schemas() {
    check("%r : Tensor = aten::neg(%z)", "", "", false);
    check("%r : Tensor = aten::t(%z)", "z", "", false);
    check("%r : Tensor = aten::add_(%z, %w, %1)", "z", "z", false);
    check("%r : Tensor = aten::add_(%x, %w, %1)", "x y", "x y", true);
    check("%r : Tensor = aten::neg(%z, %w)", "w", "w", false);
    check("%r : Tensor[] = aten::append(%l, %z)", "l", "l", true);
    check("%r : Tensor[] = aten::append(%l, %z)\n%q : Tensor = aten::add_(%x, %x, %1)", "l", "x y z l", true);
    check("%r : Tensor = aten::__getitem__(%l, %1)", "x y", "", true);
    check(
        "%q : Tensor[] = aten::split(%z, %1, %1)\n%r : Tensor, %p : Tensor = prim::ListUnpack(%q)",
        "x y z",
        "",
        true,
    );
    check("%r : Tensor = aten::type_as(%z, %w)", "z", "", false);
    check("%r : Tensor = aten::contiguous(%z, %1)", "z", "", false);
}

#[test]
fn constructors() {
    check("%q : Tensor[] = prim::ListConstruct(%z)\n%r : Tensor = aten::cat(%q, %1)", "", "", false);
    let kept = "%q : Tensor[] = prim::ListConstruct(%z)\n%r : Tensor = aten::__getitem__(%q, %1)";
    check(kept, "x y z", "", true);
    check("%q : Dict(str, Tensor) = prim::DictConstruct()\n%r : Tensor[] = aten::values(%q)", "l", "", true);
    check(
        "%q : (Tensor, int) = prim::TupleConstruct(%z, %1)\n%r : Tensor, %p : int = prim::TupleUnpack(%q)",
        "x y z",
        "",
        true,
    );
    check("%r : Tensor = prim::GetAttr[name=\"a\"](%self)", "x y", "", true);
    check("prim::SetAttr[name=\"a\"](%self, %z)\n%r : Tensor = prim::GetAttr[name=\"a\"](%self)", "x y z", "", true);
    check("%o : __torch__.M = prim::CreateObject()\n%r : Tensor = prim::Uninitialized()", "", "", false);
}

#[test]
fn a_list_made_for_one_operator_keeps_its_elements_apart_in_new_versions_only() {
    let lines = "%q : Tensor[] = prim::ListConstruct(%z, %w)\n%r : Tensor = aten::cat(%q, %1)\n%p : Tensor = aten::add_(%z, %r, %1)";
    let (new, old) = (Case::body(Era::V2, lines), Case::body(Era::V1_3, lines));
    assert!(!new.wild("z") && !new.written("x") && new.db.may_contain_alias(new.value("q"), new.value("z")));
    assert!(old.wild("z") && old.written("x") && old.written("w"));
    assert!(!new.written("q") && new.db.reaches_writers(new.value("q")));
    assert!(new.db.node_has_writers(&new.graph, new.node("aten::cat")));
}

#[test]
fn pointers_and_chunks() {
    check("%r : Tensor, %q : Tensor = prim::ConstantChunk[chunks=2, dim=0](%z)", "z", "", false);
    check(
        "%p : Tensor, %q : Tensor, %r : Tensor, %s : Tensor = prim::BroadcastingChunk[chunks=2, dim=0](%z, %w)",
        "w",
        "",
        false,
    );
    check("%r : Tensor = prim::unchecked_cast(%z)", "z", "", false);
    check("%r : Float(2) = prim::Guard(%z)", "z", "", false);
    check("%r : Float(2) = prim::profile(%z)", "z", "", false);
    check("%b : int = prim::BailoutTemplate()\n%r : Float(2) = prim::BailOut[index=0](%b, %z, %w)", "z", "", false);
    check(
        "%q : Float(2), %r : Float(2), %p : bool = prim::TypeCheck[types=[Float(2), Float(2)]](%z, %w)",
        "w",
        "",
        false,
    );
}

#[test]
fn branches_and_loops() {
    check("%r : Tensor = prim::If(%c)\nblock0():\n-> (%z)\nblock1():\n-> (%w)", "z w", "", false);
    check("%r : Tensor = prim::GradOf[name=\"f\"](%w)\nblock0():\n-> (%z)", "z", "", false);
    check(
        "%r : Tensor? = prim::If(%c)\nblock0():\n%n : NoneType = prim::Constant()\n-> (%n)\nblock1():\n-> (%w)",
        "w",
        "",
        false,
    );
    let swap = "%r : Tensor, %s : Tensor = prim::Loop(%i, %c, %z, %w)\nblock0(%n : int, %a : Tensor, %b : Tensor):\n-> (%c, %b, %a)";
    check(swap, "z w", "", false);
    let written = "%r : Tensor = prim::Loop(%i, %c, %z)\nblock0(%n : int, %a : Tensor):\n%t : Tensor = aten::t(%a)\n\
        %u : Tensor = aten::add_(%t, %a, %1)\n-> (%c, %w)";
    check(written, "z w", "z w", false);
    let case = Case::new(written);
    assert!(case.db.is_writing(case.node("prim::Loop")) && !case.db.writes_to_wildcard(case.node("prim::Loop")));
    let alone = Case::new("%r : Tensor = prim::Loop(%i, %c, %1)\nblock0(%n : int, %a : Tensor):\n-> (%c, %a)");
    assert!(alone.aliases("r", "a") && !alone.aliases("r", "z"));
}

#[test]
fn sections() {
    let graph = |kind: &str| {
        let text = format!(
            "graph(%x : Tensor):\n%z : Tensor = aten::neg(%x)\n%r : Tensor = {kind}_0(%z)\nreturn (%r)\n\
            with {kind}_0 = graph(%a : Tensor):\n%1 : int = prim::Constant[value=1]()\n%b : Tensor = aten::add_(%a, %a, %1)\n\
            %t : Tensor = aten::t(%b)\nreturn (%t)\n"
        );
        Case::of_era(Era::V2, &text)
    };
    let fused = graph("prim::DifferentiableGraph");
    assert!(fused.aliases("r", "z") && fused.written("z") && !fused.written("x") && !fused.aliases("r", "x"));
    assert!(fused.db.is_writing(fused.node("prim::DifferentiableGraph")));
    let group = graph("prim::TensorExprGroup");
    assert!(!group.aliases("r", "z") && !group.written("z"));
    let fork = graph("prim::fork");
    assert!(fork.written("x") && fork.wild("z"));
}

#[test]
fn calls_and_waiting() {
    check("%r : Tensor = prim::CallFunction(%i, %z)", "x y z", "x y z", true);
    // The result of an unknown operator may be anything.
    check("%r : Tensor = my::op(%i)", "x y", "x y l", true);
    check("%r : Tensor = my::op(%z)", "x y z", "x y z l", true);
    check("%r : Tensor = prim::CallMethod[name=\"f\"](%self)", "x y", "x y l", true);
    check("%f : Future[Tensor] = prim::fork(%z)\n%r : Tensor = aten::neg(%z)", "", "", false);
    check("%f : Future[Tensor] = prim::fork(%z)\n%r : Tensor = aten::wait(%f)", "x y z", "x y z l", true);
    check("%r : Tensor = aten::relu(%z, %1)", "x y z", "x y z", true);
    check("prim::Print(%z)\n%r : bool = prim::isinstance[types=[int]](%z)", "", "", false);
}

#[test]
fn containers_of_written_or_kept_values_move_with_them() {
    // The list keeps its elements distinct until it is returned.
    let case =
        Case::new("%q : Tensor[] = prim::ListConstruct(%z)\n%r : Tensor = aten::cat(%q, %1)\n%p : Any = my::op(%w)");
    assert!(!case.wild("z") && case.wild("w") && case.written("w"));
    let each = Case::new("%q : Tensor[] = prim::ListConstruct(%z)\naten::_foreach_add_(%q, %1)");
    assert!(each.written("z") && each.written("q"));
    let any = Case::new(
        "%q : Any = prim::GetAttr[name=\"a\"](%self)\n%t : Tensor = prim::unchecked_cast(%q)\n%p : Tensor = aten::add_(%t, %t, %1)",
    );
    assert!(any.written("x") && any.aliases("t", "x"));
}

#[test]
fn running_statistics_are_written_in_training() {
    let norm = |training: &str| {
        Case::new(
            &format!("%r : Tensor = aten::batch_norm(%x, %x, %x, %z, %w, {training}, %f, %f, %c)")
                .replace("%r :", "%f : float = prim::Constant[value=0.1]()\n%r :"),
        )
    };
    assert!(norm("%c").written("z") && norm("%c").written("w") && !norm("%c").written("x"));
    assert!(!norm("%0").written("z") && !norm("%0").db.is_writing(norm("%0").node("aten::batch_norm")));
}

#[test]
fn effects_count_from_within() {
    let case = Case::new(
        "prim::If(%c)\nblock0():\nprim::If(%c)\nblock0():\nprim::Print(%x)\n-> ()\nblock1():\n-> ()\n-> ()\nblock1():\n-> ()\n\
        %q : Tensor = prim::If(%c)\nblock0():\n-> (%x)\nblock1():\n-> (%y)",
    );
    let nodes: Vec<bool> = case.graph.all_nodes().map(|node| case.db.has_side_effects(node)).collect();
    assert_eq!(nodes, [false, false, false, false, true, true, true, false]);
}

#[test]
fn who_may_see_it() {
    let text = "graph(%x : Tensor):\n%a : Tensor = aten::neg(%x)\n%b : Tensor = aten::neg(%x)\n%t : Tensor = aten::t(%a)\n\
        %n : int[] = aten::size(%x)\n%p : (Tensor, int) = prim::TupleConstruct(%t, %i)\nreturn (%p)\n";
    let case = Case::of_era(Era::V2, &text.replace("%x : Tensor)", "%x : Tensor, %i : int)"));
    let (db, v) = (&case.db, |name| case.value(name));
    assert!(
        db.escapes_scope(v("a")) && db.escapes_scope(v("x")) && !db.escapes_scope(v("b")) && !db.escapes_scope(v("n"))
    );
    assert!(db.may_alias_graph_output(v("a")) && !db.may_alias_graph_output(v("x")) && !db.is_tracked(v("i")));
    assert!(db.safe_to_change_aliasing(v("a"), v("b")) && !db.safe_to_change_aliasing(v("a"), v("x")));
    let mut reached = EntitySet::new();
    db.mark_reachable(v("p"), &mut reached);
    assert!(db.locations(v("a")).all(|l| reached.contains(l)) && !db.locations(v("b")).any(|l| reached.contains(l)));
}

#[test]
fn writes_meet_live_values() {
    let mut case = Case::new(
        "%q : Tensor[] = prim::ListConstruct(%z, %w)\n%r : Tensor = aten::cat(%q, %1)\n%p : Tensor = aten::add_(%z, %r, %1)",
    );
    let (write, q, w, z) = (case.node("aten::add_"), case.value("q"), case.value("w"), case.value("z"));
    assert!(case.db.writes_to_alias_of(write, &[w, q]) && !case.db.writes_to_alias_of(write, &[w]));
    let mut live = EntitySet::new();
    case.db.mark_reachable(w, &mut live);
    assert!(!case.db.writes_to_any(write, &live));
    case.db.mark_reachable(q, &mut live);
    assert!(case.db.writes_to_any(write, &live) && case.db.is_current(&case.graph));
    let copy = case.graph.create_op(Symbol::new("aten::t"), &[z], crate::types::Type::tensor());
    assert!(!case.db.is_current(&case.graph));
    let copied = case.graph.output(copy, 0);
    case.db.copy_value(copied, z);
    case.db.assume_current(&case.graph);
    assert!(case.db.has_writers(copied) && case.db.may_alias(copied, z) && case.db.is_current(&case.graph));
}

#[test]
fn the_text_is_laid_out_like_that_of_pytorch() {
    let case = Case::of_era(
        Era::V2,
        "graph(%x : Tensor):\n  %1 : int = prim::Constant[value=1]()\n  %2 : Tensor = aten::neg(%x)\n  \
        %3 : Tensor = aten::add_(%2, %1, %1)\n  %4 : Tensor[] = prim::ListConstruct(%3)\n  %5 : Tensor = aten::cat(%4, %1)\n  return (%5)\n",
    );
    let dump = case.db.dump(&case.graph);
    let from = dump.find("===2.").expect("a section");
    assert_eq!(
        &dump[from..],
        "===2. ALIAS DB===\n%x points to: WILDCARD for type Tensor\n%3 points to: %2\n%4 contains: %3,\n\n\
        ===3. Writes===\n%3 : Tensor = aten::add_(%2, %1, %1)\n  %2, \n\n"
    );
}

#[test]
fn moves_keep_the_order_of_effects_and_stop_at_ends() {
    let mut case = Case::new(
        "%a : Tensor = aten::neg(%z)\nprim::Print(%w)\n%b : Tensor = aten::neg(%a)\n%d : Tensor = aten::neg(%w)",
    );
    let at = |case: &Case, name| case.graph.definer(case.value(name)).expect("a definer");
    let (z, w, a, b, d) = (at(&case, "z"), at(&case, "w"), at(&case, "a"), at(&case, "b"), at(&case, "d"));
    let (print, ret) = (case.node("prim::Print"), case.graph.return_node(case.graph.root()));
    // A node without effects crosses one with effects, but none that it depends on.
    assert!(case.db.could_move_before(&case.graph, d, a) && !case.db.could_move_before(&case.graph, w, b));
    assert!(!case.db.could_move_before(&case.graph, print, d) && case.db.obstacle(&case.graph, w, b) == Some(print));
    assert!(!case.db.could_move_before(&case.graph, a, z) && !case.db.could_move_after(&case.graph, d, ret));
    assert!(case.db.move_before_topologically(&mut case.graph, d, b) && case.graph.next(d) == Some(b));
    assert!(
        case.db.move_before_topologically(&mut case.graph, d, ret) && case.graph.last(case.graph.root()) == Some(d)
    );
    assert!(case.db.move_after_topologically(&mut case.graph, z, w) && case.graph.next(z) == Some(a));
}

/// Writes the i-th part of a text.
type Shape<'a> = &'a dyn Fn(&mut String, usize);

/// Steps per node of a graph of `n` lines.
fn steps(n: usize, lines: Shape<'_>) -> f64 {
    let mut text = String::from("graph(%v0 : Tensor, %c : bool, %n : int):\n%1 : int = prim::Constant[value=1]()\n");
    (1..=n).for_each(|i| lines(&mut text, i));
    text += "return (%v0)\n";
    let case = Case::of_era(Era::V2, &text);
    case.db.work() as f64 / n as f64
}

#[test]
fn time_is_linear_in_the_graph() {
    let shapes: [(&str, Shape<'_>); 7] = [
        ("chain", &|t, i| writeln!(t, "%v{i} : Tensor = aten::neg(%v{})", i - 1).expect("a string")),
        ("views", &|t, i| writeln!(t, "%v{i} : Tensor = aten::t(%v{})", i - 1).expect("a string")),
        ("writes", &|t, i| writeln!(t, "%v{i} : Tensor = aten::add_(%v{}, %v0, %1)", i - 1).expect("a string")),
        ("joins", &|t, i| {
            writeln!(t, "%w{i} : Tensor = aten::neg(%v0)\n%v{i} : Tensor = prim::If(%c)\nblock0():\n-> (%w{i})\nblock1():\n-> (%v{})", i - 1)
                .expect("a string");
        }),
        ("lists", &|t, i| {
            writeln!(t, "%l{i} : Tensor[] = prim::ListConstruct(%v{})\n%v{i} : Tensor = aten::cat(%l{i}, %1)", i - 1)
                .expect("a string")
        }),
        ("unknown", &|t, i| {
            writeln!(t, "%l{i} : Tensor[] = prim::ListConstruct(%v{})\n%v{i} : Tensor = my::op(%l{i})", i - 1)
                .expect("a string")
        }),
        ("loops", &|t, i| {
            writeln!(t, "%v{i} : Tensor = prim::Loop(%n, %c, %v{})\nblock0(%i{i} : int, %p{i} : Tensor):\n%q{i} : Tensor = aten::neg(%p{i})\n-> (%c, %q{i})", i - 1)
                .expect("a string");
        }),
    ];
    for (name, shape) in shapes {
        let (few, many) = (steps(500, shape), steps(5000, shape));
        assert!(many < few * 1.2 + 1.0, "{name}: {few} and {many} steps per line");
    }
}

#[test]
fn ten_thousand_nested_loops_need_no_stack() {
    let n = 10_000;
    let mut text = String::from("graph(%v0 : Tensor, %c : bool, %n : int):\n");
    for i in 1..=n {
        writeln!(text, "%r{i} : Tensor = prim::Loop(%n, %c, %v{})\nblock0(%i{i} : int, %v{i} : Tensor):", i - 1)
            .expect("a string");
    }
    writeln!(text, "%r{} : Tensor = aten::t(%v{n})", n + 1).expect("a string");
    (1..=n).rev().for_each(|i| writeln!(text, "-> (%c, %r{})", i + 1).expect("a string"));
    let case = Case::of_era(Era::V2, &(text + "return (%r1)\n"));
    assert!(case.aliases("r1", "v0") && case.db.work() < 20 * n as u64);
}
