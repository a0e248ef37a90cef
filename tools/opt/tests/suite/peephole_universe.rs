//! Every rule of the peephole pass, on all small operands.
//!
//! A template is a few lines of IR around the pattern of a rule. It is instantiated over the
//! possible types of its parameters and over contexts (the result is returned, read, written; an
//! operand is written in between). Where the rule applies, the graphs before and after run on all
//! values of the universe: ranks 0 to 3, extents 0 to 3, broadcast and strided operands, aliased
//! operands, all element types, zeros of both signs, infinities, NaN, denormals, extremes. Results,
//! element types, shapes and operands after the run must be bitwise equal; then every result is
//! written, and all values must still be equal. A failure prints the first, smallest
//! counterexample.
//!
//! Incorrect rules, as peephole passes have had them, go through the same test and must fail it.

#![allow(clippy::print_stdout, reason = "a test tells its figures")]

use crate::support::universe;

use jitopt_core::interpreter::IValue;
use jitopt_core::ir::{Graph, Node};
use jitopt_core::pass::{PassContext, PassError, PassInfo, Pipeline, Registry, Session, run};
use jitopt_core::text::{ParseOptions, PrintOptions, parse, print};
use jitopt_core::types::era::Era;
use jitopt_core::types::release::Release;
use jitopt_core::types::{DType, Type};
use jitopt_passes::peephole::{self, Edit, Facts, Known, New, Rule};
use std::cell::Cell;
use std::fmt::Write;
use std::time::Instant;
use universe::{Choice, choices, compare};

/// Parameters with their domains, and lines. `{n}` stands for a constant number, `{b}` for a
/// constant bool, `{o}` for an operator. The result is `%r`, its operand `%m`, the first parameter
/// `%x`.
struct Template {
    params: &'static str,
    lines: &'static str,
}

const fn template(params: &'static str, lines: &'static str) -> Template {
    Template { params, lines }
}

#[rustfmt::skip]
const TEMPLATES: &[Template] = &[
    // Branches, optionals, casts.
    template("c bool", "%t : bool = prim::Constant[value={b}]()\n%f : bool = prim::Constant[value={b}]()\n%r : bool = prim::If(%c)\n  block0():\n    -> (%t)\n  block1():\n    -> (%f)"),
    template("c bool, a bool", "%t : bool = prim::Constant[value={b}]()\n%r : bool = prim::If(%c)\n  block0():\n    -> (%t)\n  block1():\n    -> (%a)"),
    template("c bool, a int, b int", "%r : int? = prim::If(%c)\n  block0():\n    -> (%a)\n  block1():\n    -> (%b)"),
    template("c bool, a maybe-int, b int", "%r : int? = prim::If(%c)\n  block0():\n    -> (%a)\n  block1():\n    -> (%b)"),
    template("x small", "%n : NoneType = prim::Constant()\n%r : bool = aten::{o:__is__|__isnot__}(%x, %n)"),
    template("x maybe", "%n : NoneType = prim::Constant()\n%r : bool = aten::{o:__is__|__isnot__}(%n, %x)"),
    template("x maybe-int", "%n : NoneType = prim::Constant()\n%r : bool = aten::{o:__is__|__isnot__}(%x, %n)"),
    template("x small", "%r : Tensor = {o:aten::_unwrap_optional|prim::unchecked_unwrap_optional}(%x)"),
    template("x maybe", "%r : Tensor = aten::_unwrap_optional(%x)"),
    template("x small", "%r : Tensor = prim::unchecked_cast(%x)"),
    template("x maybe-int", "%r : int = prim::unchecked_cast(%x)"),
    template("x int", "%r : Scalar = prim::unchecked_cast(%x)"),
    template("c bool", "%r : NoneType = prim::If(%c)\n  block0():\n    %n : NoneType = prim::Constant()\n    -> (%n)\n  block1():\n    %p : NoneType = prim::Constant()\n    -> (%p)"),
    template("c bool", "%m : bool = aten::__not__(%c)\n%r : bool = aten::__not__(%m)"),
    // Views.
    template("x tensor", "%m : Tensor = aten::t(%x)\n%r : Tensor = aten::t(%m)"),
    template("x tensor", "%0 : int = prim::Constant[value=0]()\n%1 : int = prim::Constant[value={i:-1|2}]()\n%m : Tensor = aten::transpose(%x, %0, %1)\n%r : Tensor = aten::transpose(%m, {i:%1, %0|%1, %1})"),
    template("x small", "%s : int[] = prim::Constant[value={i:[2, 3]|[2]|[3]|[1, 2]|[2, 1, 2]}]()\n%f : bool = prim::Constant[value=0]()\n%r : Tensor = aten::expand(%x, %s, %f)"),
    template("x pair, y pair", "%r : Tensor = aten::type_as(%x, %y)"),
    template("x small", "%p : float = prim::Constant[value=0.5]()\n%t : bool = prim::Constant[value={b}]()\n%r : Tensor = aten::dropout(%x, %p, %t)"),
    template("x small", "%n : NoneType = prim::Constant()\n%0 : int = prim::Constant[value=0]()\n%1 : int = prim::Constant[value=1]()\n%i : int = prim::Constant[value=-1]()\n%s : int[] = prim::ListConstruct(%1, %1, %i)\n%v : Tensor = aten::reshape(%x, %s)\n%a : int[] = prim::ListConstruct(%1)\n%z : int[] = prim::ListConstruct(%0)\n%m : Tensor = aten::conv1d(%v, %v, %n, %a, %z, %a, %1)\n%r : int = aten::dim(%m)"),
    // Gradients.
    template("x small, s maybe-size", "%r : Tensor = aten::_grad_sum_to_size(%x, %s)"),
    template("x small", "%n : NoneType = prim::Constant()\n%r : Tensor = aten::_grad_sum_to_size(%x, %n)"),
    template("x exact, s maybe-size, t maybe-size", "%m : Tensor = aten::_grad_sum_to_size(%x, %s)\n%r : Tensor = aten::_grad_sum_to_size(%m, %t)"),
    template("x exact, s maybe-size, t size", "%m : Tensor = aten::_grad_sum_to_size(%x, %s)\n%r : Tensor = aten::_grad_sum_to_size(%m, %t)"),
    template("x exact, n int", "%i : int = prim::Constant[value=1]()\n%r : Tensor = prim::GradOf[name=\"add\"](%x)\n  block0():\n    %m : Tensor = aten::mul(%x, %i)\n    -> (%m)"),
    // Numbers.
    template("n {o:int|float|bool}", "%m : Tensor = prim::NumToTensor(%n)\n%r : int = aten::{o:Int|IntImplicit}(%m)"),
    template("n {o:int|float|bool}", "%m : Tensor = prim::NumToTensor(%n)\n%r : float = aten::{o:Float|FloatImplicit}(%m)"),
    template("n {o:int|float}", "%m : Tensor = prim::NumToTensor(%n)\n%r : Scalar = aten::ScalarImplicit(%m)"),
    template("x int", "%k : int = prim::Constant[value={i:0|1|-1|5}]()\n%r : int = aten::{o:add|sub|mul|floordiv|remainder}({i:%x, %k|%k, %x|%x, %x})"),
    template("x int", "%k : int = prim::Constant[value={i:0|1|2}]()\n%r : {o:int|float} = aten::div(%x, %k)"),
    template("x int", "%k : int = prim::Constant[value={i:5|9223372036854775807|-9223372036854775808}]()\n%l : int = prim::Constant[value={i:3|9223372036854775807}]()\n%m : int = aten::{o:add|sub}({i:%x, %k|%k, %x})\n%r : int = aten::{o:add|sub}(%m, %l)"),
    template("x float", "%k : float = prim::Constant[value={i:0.|-0.|1.}]()\n%r : float = aten::{o:add|sub|mul|div}(%x, %k)"),
    template("x {o:int|float|bool|str|ints|floats|strs}", "%r : bool = aten::{o:eq|ne}(%x, %x)"),
    template("x {o:int|float|bool|str|ints|floats|strs}, y {o:int|float|bool|str|ints|floats|strs}", "%r : bool = aten::{o:eq|ne}(%x, %y)"),
    // Questions.
    template("x tensor", "%r : int[] = aten::size(%x)"),
    template("x tensor", "%d : int = prim::Constant[value={i:0|1|-1|-2|5}]()\n%r : int = aten::size(%x, %d)"),
    template("x tensor", "%r : int = {o:aten::dim|prim::dtype}(%x)"),
    template("x tensor", "%r : Device = prim::device(%x)"),
    template("x tensor", "%r : bool = {o:prim::is_cuda|aten::is_floating_point|aten::is_complex}(%x)"),
    template("x tensor", "%m : int[] = aten::size(%x)\n%r : int = aten::len(%m)"),
    // Identities.
    template("x tensor", "%n : {n} \n%r : Tensor = aten::{o:mul|div|pow}(%x, %n)"),
    template("x tensor", "%n : {n} \n%a : int = prim::Constant[value={i:1|2}]()\n%r : Tensor = aten::{o:add|sub}(%x, %n, %a)"),
    template("x pair, y pair", "%a : int = prim::Constant[value={i:1|2}]()\n%r : Tensor = aten::{o:add|sub}(%x, {i:%x|%y}, %a)"),
    template("x tensor", "%n : {n} \n%m : Tensor = aten::mul(%x, %n)\n%r : Tensor = aten::mul(%m, %n)"),
    template("x tensor", "%m : Tensor = aten::{o:neg|relu|sqrt}(%x)\n%r : Tensor = aten::{o:neg|relu|mul}({i:%m|%m, %m})"),
    template("x pair, y pair", "%r : Tensor = aten::{o:max|min|div|mul}(%x, {i:%x|%y})"),
    template("x tensor", "%n : {n} \n%v : int[] = prim::Constant[value=[-1]]()\n%m : Tensor = aten::mul(%x, %n)\n%r : Tensor = aten::view(%m, %v)"),
    // Containers.
    template("a int, b int", "%m : int[] = prim::ListConstruct(%a, %b)\n%r : int = aten::len(%m)"),
    template("a int, b int", "%i : int = prim::Constant[value={i:0|1|-1|-2|2|-3}]()\n%m : int[] = prim::ListConstruct(%a, %b)\n%r : int = aten::__getitem__(%m, %i)"),
    template("x pair, y pair", "%i : int = prim::Constant[value={i:0|1}]()\n%m : Tensor[] = prim::ListConstruct(%x, %y)\n%r : Tensor = aten::__getitem__(%m, %i)"),
    template("a int, b int", "%m : int[] = prim::ListConstruct(%a, %b)\n%p : int, %r : int = prim::ListUnpack(%m)"),
    template("x exact", "%d : int = prim::Constant[value={i:0|1|-1}]()\n%i : int = prim::Constant[value={i:0|1|-1|-2|2|-3}]()\n%m : Tensor[] = aten::unbind(%x, %d)\n%r : Tensor = aten::__getitem__(%m, %i)"),
    template("x exact", "%d : int = prim::Constant[value={i:0|1|-1}]()\n%n : int = prim::Constant[value={i:1|2|3|0}]()\n%i : int = prim::Constant[value={i:0|1|-1|2}]()\n%m : Tensor[] = aten::{o:chunk|split}(%x, %n, %d)\n%r : Tensor = aten::__getitem__(%m, %i)"),
    template("x pair, y pair", "%m : Tensor[] = prim::ListConstruct(%x, %y)\n%p : Tensor, %r : Tensor = prim::ListUnpack(%m)"),
    template("a int, b int", "%m : int[] = prim::ListConstruct(%a, %b)\n%l : int[] = prim::ListConstruct({i:%b|})\n%r : int[] = aten::add(%m, %l)"),
    template("x ints, b int", "%m : int[] = prim::ListConstruct(%b)\n%r : int[] = aten::add(%m, %x)"),
    template("a int, b int", "%n : NoneType = prim::Constant()\n%i : int = prim::Constant[value={i:0|1|-1|5|-5}]()\n%j : int = prim::Constant[value={i:0|2|-1|9223372036854775807}]()\n%k : int = prim::Constant[value={i:1|2}]()\n%m : int[] = prim::ListConstruct(%a, %b, %a)\n%r : int[] = aten::slice(%m, {i:%i|%n}, {i:%j|%n}, %k)"),
    template("x ints", "%k : int = prim::Constant[value={i:0|2}]()\n%m : int = aten::len(%x)\n%q : bool = aten::{o:eq|ne|lt}(%m, %k)\n%r : int = prim::If(%q)\n  block0():\n    %g : int = aten::len(%x)\n    -> (%g)\n  block1():\n    %h : int = aten::len(%x)\n    -> (%h)"),
    template("a int, b int", "%k : int = prim::Constant[value={i:0|1|-1}]()\n%l : int = prim::Constant[value={i:1|2}]()\n%m : Dict(int, int) = prim::DictConstruct(%k, %a, %l, %b)\n%r : int = aten::__getitem__(%m, {i:%k|%l})"),
    template("a int, b int", "%k : int = prim::Constant[value={i:0|1|-1}]()\n%l : int = prim::Constant[value={i:1|2}]()\n%m : Dict(int, int) = prim::DictConstruct(%k, %a, %l, %b)\n%r : int = aten::len(%m)"),
    template("a int, b int", "%k : float = prim::Constant[value={i:0.|nan|1.}]()\n%l : float = prim::Constant[value={i:-0.|nan}]()\n%m : Dict(float, int) = prim::DictConstruct(%k, %a, %l, %b)\n%r : int = aten::{o:len(%m|__getitem__(%m, %k})"),
    // Two operators in one.
    template("x joined, y joined", "%d : int = prim::Constant[value={i:0|-1}]()\n%e : int = prim::Constant[value={i:0|-1}]()\n%l : Tensor[] = prim::ListConstruct(%x, %y)\n%m : Tensor = aten::cat(%l, %d)\n%k : Tensor[] = prim::ListConstruct({i:%m, %x|%y, %m|%m, %m})\n%r : Tensor = aten::cat(%k, %e)"),
    template("x matrix, y matrix, z summand", "%a : int = prim::Constant[value={i:1|2}]()\n%m : Tensor = aten::mm(%x, %y)\n%r : Tensor = aten::add({i:%m, %z|%z, %m}, %a)"),
];

const NUMBERS: &[&str] = &[
    "int = prim::Constant[value=0]()",
    "int = prim::Constant[value=1]()",
    "int = prim::Constant[value=-1]()",
    "float = prim::Constant[value=0.]()",
    "float = prim::Constant[value=-0.]()",
    "float = prim::Constant[value=1.]()",
];

/// All expansions of the choices `{…}` of a text.
fn filled(text: &str) -> Vec<String> {
    let Some(open) = text.find('{') else { return vec![text.to_owned()] };
    let close = open + text[open..].find('}').expect("a choice that is closed");
    let options: Vec<&str> = match &text[open + 1..close] {
        "n" => NUMBERS.to_vec(),
        "b" => vec!["0", "1"],
        list => list[2..].split('|').collect(),
    };
    let with = |option: &str| filled(&format!("{}{option}{}", &text[..open], &text[close + 1..]));
    options.into_iter().flat_map(with).collect()
}

/// The contexts of a pattern.
fn surroundings(lines: &str) -> Vec<(String, &'static str)> {
    let type_of = |name: &str| {
        let at = lines.find(&format!("%{name} : "))? + name.len() + 4;
        lines[at..].split([',', ' ', '\n']).next()
    };
    let result = type_of("r").unwrap_or_default();
    let before_last = |write: &str| {
        let at = lines.lines().position(|line| line.contains("%r : ")).unwrap_or(0);
        let mut all: Vec<&str> = lines.lines().collect();
        all.insert(at, write);
        all.join("\n")
    };
    let mut ways = vec![(lines.to_owned(), "%r")];
    if let "Tensor" = result {
        ways.push((format!("{lines}\n%z9 : Tensor = aten::clone(%r, %none9)"), "%z9"));
        ways.push((format!("{lines}\n%w9 : Tensor = aten::mul_(%r, %r)"), "%r"));
        ways.push((
            format!("{lines}\n%w9 : Tensor = aten::mul_(%x, %x)\n%z9 : Tensor = aten::clone(%r, %none9)"),
            "%z9",
        ));
        ways.push((lines.to_owned(), "%r, %x"));
    }
    if result.ends_with("[]") {
        ways.push((format!("{lines}\n = aten::clear(%r)"), "%r"));
    }
    match type_of("m") {
        Some("Tensor") if !lines.contains("block0") => {
            ways.push((before_last("%w9 : Tensor = aten::mul_(%m, %m)"), "%r"));
            ways.push((format!("{lines}\n%z9 : Tensor = aten::add(%m, %r, %one9)"), "%z9"));
            if result == "Tensor" {
                ways.push((before_last("%w9 : Tensor = aten::mul_(%x, %x)"), "%r"));
                ways.push((lines.to_owned(), "%r, %m"));
            }
        }
        Some(list) if list.ends_with("[]") => {
            ways.push((before_last(" = aten::clear(%m)"), "%r"));
            ways.push((lines.to_owned(), "%r, %m"));
        }
        Some(dict) if dict.starts_with("Dict") => ways.push((before_last(" = aten::clear(%m)"), "%r")),
        _ => {}
    }
    ways
}

thread_local! {
    static RULE: Cell<Option<&'static Rule>> = const { Cell::new(None) };
}

static ONE_RULE: [PassInfo; 1] = [PassInfo { run: one_rule, ..peephole::PASS }];

fn one_rule(graph: &mut Graph, cx: &mut PassContext<'_>) -> Result<(), PassError> {
    let rule = RULE.get().expect("a rule");
    peephole::apply(graph, cx, &[rule], false);
    Ok(())
}

/// The graph after a rule, if it applied.
fn applied(graph: &Graph, rule: &'static Rule) -> Option<Graph> {
    RULE.set(Some(rule));
    let registry = Registry { passes: &ONE_RULE, pipelines: &[] };
    let pipeline = Pipeline::parse("peephole", &registry).expect("a pipeline");
    let mut after = graph.clone();
    run(&mut after, &pipeline, &mut Session::default(), &mut []).expect("rules do not fail");
    (after.epoch() != graph.epoch()).then_some(after)
}

/// The instances tried for a rule, and the first counterexample.
#[derive(Default)]
struct Report {
    graphs: usize,
    runs: usize,
    counterexample: Option<String>,
}

fn check(rule: &'static Rule, templates: &[Template]) -> Report {
    let mut report = Report::default();
    let concerned = |lines: &str| match (rule.kinds, rule.group) {
        ([], _) => lines.contains("NoneType = prim::If"),
        (_, "numbers") if lines.contains("Tensor") => false,
        (kinds, _) => kinds.iter().any(|kind| lines.contains(&format!("{kind}("))),
    };
    for template in templates {
        for params in filled(template.params) {
            for lines in filled(template.lines).into_iter().filter(|lines| concerned(lines)) {
                for (lines, results) in surroundings(&lines) {
                    check_graphs(rule, &params, &lines, results, &mut report);
                    if report.counterexample.is_some() {
                        return report;
                    }
                }
            }
        }
    }
    report
}

/// Instantiates the parameters of one text.
fn check_graphs(rule: &'static Rule, params: &str, lines: &str, results: &str, report: &mut Report) {
    let params: Vec<(&str, Vec<Choice>)> = params
        .split(", ")
        .map(|param| param.split_once(' ').expect("a domain"))
        .map(|(name, domain)| (name, choices(domain)))
        .collect();
    let head = [
        ("%one9", "  %one9 : int = prim::Constant[value=1]()\n"),
        ("%none9", "  %none9 : NoneType = prim::Constant()\n"),
    ];
    let head: String = head.into_iter().filter(|(name, _)| lines.contains(name)).map(|(_, line)| line).collect();
    let mut at = vec![0; params.len()];
    loop {
        let chosen: Vec<&Choice> = at.iter().zip(&params).map(|(i, (_, choices))| &choices[*i]).collect();
        let typed: Vec<String> =
            params.iter().zip(&chosen).map(|((name, _), choice)| format!("%{name} : {}", choice.ty)).collect();
        let mut text = format!("graph({}):\n{head}", typed.join(", "));
        lines.lines().for_each(|line| writeln!(text, "  {line}").expect("a text that grows"));
        writeln!(text, "  return ({results})").expect("a text that grows");
        // Effects around it do not depend on the version.
        let eras = if results == "%r" && !text.contains("9 ") { &[Era::V2, Era::V1_3][..] } else { &[Era::V2] };
        for &era in eras {
            if report.counterexample.is_none() {
                check_graph(rule, &text, era, &chosen, report);
            }
        }
        let Some(next) = (0..at.len()).rev().find(|&i| at[i] + 1 < params[i].1.len()) else { return };
        at[next] += 1;
        at[next + 1..].fill(0);
    }
}

fn check_graph(rule: &'static Rule, text: &str, era: Era, chosen: &[&Choice], report: &mut Report) {
    let options = ParseOptions::of(Release::of(era));
    let parsed = parse(text.as_bytes(), options).unwrap_or_else(|_| panic!("no graph:\n{text}"));
    let before = parsed.graph;
    let Some(after) = applied(&before, rule) else { return };
    report.graphs += 1;
    let mut at = vec![0; chosen.len()];
    loop {
        let inputs: Vec<IValue> = at.iter().zip(chosen).map(|(i, choice)| choice.values[*i].clone()).collect();
        // Where the types are the same, one memory may be passed twice.
        let same = inputs.len() > 1 && chosen[0].ty == chosen[1].ty && at[0] == at[1];
        let aliased = same.then(|| {
            std::iter::once(inputs[0].clone())
                .chain(inputs[..1].iter().cloned())
                .chain(inputs[2..].iter().cloned())
                .collect()
        });
        for inputs in [Some(inputs), aliased].into_iter().flatten() {
            report.runs += 1;
            if let Some(why) = compare(&before, &after, &inputs) {
                let shown =
                    |graph: &Graph| String::from_utf8_lossy(&print(graph, PrintOptions::default())).into_owned();
                let inputs: Vec<String> = inputs.iter().map(universe::show).collect();
                report.counterexample = Some(format!(
                    "{}: {}\n{}became, with the rules of {era:?},\n{}on {}\n{why}",
                    rule.name,
                    rule.law,
                    shown(&before),
                    shown(&after),
                    inputs.join(", ")
                ));
                return;
            }
        }
        let Some(next) = (0..at.len()).rev().find(|&i| at[i] + 1 < chosen[i].values.len()) else { return };
        at[next] += 1;
        at[next + 1..].fill(0);
    }
}

#[test]
fn every_rule_holds_on_the_universe() {
    let (mut wrong, mut idle, mut lines) = (Vec::new(), Vec::new(), Vec::new());
    for rule in peephole::rules() {
        let start = Instant::now();
        let report = check(rule, TEMPLATES);
        lines.push(format!("{:28} {:7} graphs {:9} runs {:?}", rule.name, report.graphs, report.runs, start.elapsed()));
        idle.extend((report.runs == 0).then_some(rule.name));
        wrong.extend(report.counterexample);
    }
    println!("{}", lines.join("\n"));
    assert!(wrong.is_empty(), "{} rules are wrong\n{}", wrong.len(), wrong.join("\n\n"));
    assert!(idle.is_empty(), "no template has the pattern of {idle:?}");
}

// ---- incorrect rules

const fn wrong(
    name: &'static str,
    kinds: &'static [&'static str],
    law: &'static str,
    find: fn(&Facts<'_>, Node) -> Option<Edit>,
) -> Rule {
    Rule { name, kinds, group: "wrong", known: Known::Nowhere, shapes: false, shares: true, law, find }
}

const fn careless(rule: Rule) -> Rule {
    Rule { shares: false, ..rule }
}

fn is(facts: &Facts<'_>, node: Node, i: usize, wanted: &str) -> Option<()> {
    let number = facts.number(facts.operand(node, i)?)?;
    (format!("{number:?}").trim_end_matches(".0)").trim_end_matches(')').ends_with(&format!("({wanted}"))).then_some(())
}

fn tensor(facts: &Facts<'_>, node: Node, i: usize) -> Option<()> {
    facts.tensor(facts.operand(node, i)?).map(|_| ())
}

fn first(facts: &Facts<'_>, node: Node) -> Option<Edit> {
    Some(Edit::Output(0, New::Value(facts.operand(node, 0)?)))
}

fn zeros(facts: &Facts<'_>, node: Node) -> Option<Edit> {
    let none = || New::Constant(None, Type::none());
    let operands = vec![New::Value(facts.operand(node, 0)?), none(), none(), none(), none(), none()];
    Some(Edit::Output(0, New::Op("aten::zeros_like", operands, Type::tensor())))
}

static WRONG: &[Rule] = &[
    wrong("times-zero", &["aten::mul"], "x · 0 = 0", |f, n| {
        tensor(f, n, 0).and(is(f, n, 1, "0")).and_then(|()| zeros(f, n))
    }),
    wrong("less-itself", &["aten::sub"], "x - x = 0", |f, n| {
        let [a, b, _] = f.operands(n)?;
        (f.tensor(a).is_some() && a == b).then(|| zeros(f, n))?
    }),
    wrong("ints-by-one", &["aten::div"], "x / 1 = x, for ints too", |f, n| {
        tensor(f, n, 0).and(is(f, n, 1, "1")).and_then(|()| first(f, n))
    }),
    wrong("int-by-one", &["aten::div"], "i / 1 = i, as PyTorch 1.13 and 2.15", |f, n| {
        is(f, n, 1, "1").and_then(|()| first(f, n))
    }),
    wrong("nan-equals-itself", &["aten::eq", "aten::ne"], "x == x, as PyTorch 1.13 and 2.15", |f, n| {
        let [a, b] = f.operands(n)?;
        (a == b).then(|| {
            Some(Edit::Output(
                0,
                New::Constant(
                    Some(jitopt_core::ir::Attribute::Int(i64::from(f.graph.kind(n).as_str() == "aten::eq"))),
                    Type::bool(),
                ),
            ))
        })?
    }),
    careless(wrong("max-of-itself", &["aten::max"], "max(x, x) = x, in the memory of x", |f, n| {
        let [a, b] = f.operands(n)?;
        (a == b).then(|| first(f, n))?
    })),
    careless(wrong("one-in-place", &["aten::mul"], "x · 1 = x, in the memory of x", |f, n| {
        (f.dtype(f.operand(n, 0)?)? == DType::Float).then_some(()).and(is(f, n, 1, "1")).and_then(|()| first(f, n))
    })),
    wrong("bools-times-one", &["aten::mul"], "x · 1 = x, for bools too", |f, n| {
        tensor(f, n, 0).and(is(f, n, 1, "1")).and_then(|()| first(f, n))
    }),
    wrong("plus-zero", &["aten::add"], "x + 0 = x, for floats too", |f, n| {
        (f.dtype(f.operand(n, 0)?)? == DType::Float).then_some(()).and(is(f, n, 1, "0")).and_then(|()| first(f, n))
    }),
    wrong("difference-reversed", &["aten::sub"], "x - αy = x - y·α, the other way round", |f, n| {
        let [a, b, _] = f.operands(n)?;
        let alpha = New::Value(f.operand(n, 2)?);
        let commuted = New::Op("aten::rsub", vec![New::Value(a), New::Value(b), alpha], Type::tensor());
        (f.tensor(a).is_some() && f.tensor(b).is_some() && a != b).then_some(Edit::Output(0, commuted))
    }),
    wrong("minus-minus-zero", &["aten::sub"], "f - 0.0 = f, for -0.0 too", |f, n| {
        let [a, b] = f.operands(n)?;
        let zero = matches!(f.number(b)?, peephole::Number::Float(x) if x == 0.0);
        (zero && f.tensor(a).is_none()).then(|| first(f, n))?
    }),
    wrong("square-of-root", &["aten::mul"], "√x · √x = x", |f, n| {
        let [a, b] = f.operands(n)?;
        let root = f.made_by(a, "aten::sqrt")?;
        (a == b).then(|| Some(Edit::Output(0, New::Value(f.operand(root, 0)?))))?
    }),
    wrong("by-itself", &["aten::div"], "x / x = x", |f, n| {
        let [a, b] = f.operands(n)?;
        (a == b).then(|| first(f, n))?
    }),
    careless(wrong("t-gone", &["aten::t"], "xᵀ = x", first)),
    careless(wrong("expand-gone", &["aten::expand"], "expand(x, s) = x", first)),
    careless(wrong("type-as-gone", &["aten::type_as"], "type_as(x, y) = x", first)),
    careless(wrong("dropout-gone", &["aten::dropout"], "dropout(x) = x", first)),
    wrong("unwrap-none", &["aten::__is__"], "(x is None) = false", |_, _| {
        Some(Edit::Output(0, New::Constant(Some(jitopt_core::ir::Attribute::Int(0)), Type::bool())))
    }),
    wrong(
        "sum-to-maybe",
        &["aten::_grad_sum_to_size"],
        "sum_to(sum_to(x, s), t) = sum_to(x, t), for t that may be None",
        |f, n| {
            let [inner, _] = f.operands(n)?;
            let [x, _] = f.operands(f.made_by(inner, "aten::_grad_sum_to_size")?)?;
            Some(Edit::Operands(vec![(0, New::Value(x))]))
        },
    ),
    wrong("int-of-any-number", &["aten::Int"], "Int(tensor(n)) = n, as PyTorch", |f, n| {
        let number = f.made_by(f.operand(n, 0)?, "prim::NumToTensor")?;
        first(f, number)
    }),
    wrong("length-once", &["aten::len"], "len([a, b]) = 2, also after a write", |f, n| {
        let list = f.made_by(f.operand(n, 0)?, "prim::ListConstruct")?;
        Some(Edit::Output(
            0,
            New::Constant(Some(jitopt_core::ir::Attribute::Int(f.graph.num_inputs(list) as i64)), Type::int()),
        ))
    }),
    wrong("item-first", &["aten::__getitem__"], "[a, b][i] = a", |f, n| {
        let list = f.made_by(f.operand(n, 0)?, "prim::ListConstruct")?;
        Some(Edit::Output(0, New::Value(f.operand(list, 0)?)))
    }),
    wrong("chain-added", &["aten::sub"], "(i + a) - b = i - (a + b)", |f, n| {
        let [inner, b] = f.operands(n)?;
        let [i, a] = f.operands(f.made_by(inner, "aten::add")?)?;
        let sum = f.int(a)?.wrapping_add(f.int(b)?);
        Some(Edit::Operands(vec![
            (0, New::Value(i)),
            (1, New::Constant(Some(jitopt_core::ir::Attribute::Int(sum)), Type::int())),
        ]))
    }),
    wrong("size-without-last", &["aten::dim"], "dim(x) = 2", |_, _| {
        Some(Edit::Output(0, New::Constant(Some(jitopt_core::ir::Attribute::Int(2)), Type::int())))
    }),
    wrong(
        "cat-flattened",
        &["aten::cat"],
        "cat([cat([a, b], d), c], e) = cat([a, b, c], e), whatever d, e and the element types",
        |f, n| {
            let outer = f.made_by(f.operand(n, 0)?, "prim::ListConstruct")?;
            let cat = f.made_by(f.operand(outer, 0)?, "aten::cat")?;
            let inner = f.made_by(f.operand(cat, 0)?, "prim::ListConstruct")?;
            let parts = f.graph.inputs(inner).chain(f.graph.inputs(outer).skip(1)).map(New::Value).collect();
            let list = New::Op("prim::ListConstruct", parts, Type::list(Type::tensor()));
            Some(Edit::Operands(vec![(0, list)]))
        },
    ),
    wrong("addmm-of-any", &["aten::add"], "c + a·b = addmm(c, a, b), whatever the shape of c", |f, n| {
        let [x, y, alpha] = f.operands(n)?;
        let [a, b] = f.operands(f.made_by(x, "aten::mm")?)?;
        let operands = [y, a, b, alpha, alpha].map(New::Value).to_vec();
        Some(Edit::Output(0, New::Op("aten::addmm", operands, Type::tensor())))
    }),
];

#[test]
fn rules_that_are_wrong_are_refused() {
    let accepted: Vec<&str> =
        WRONG.iter().filter(|rule| check(rule, TEMPLATES).counterexample.is_none()).map(|rule| rule.name).collect();
    assert!(accepted.is_empty(), "{accepted:?} are taken for right");
}

#[test]
fn counterexamples_are_printed() {
    let rule = WRONG.iter().find(|rule| rule.name == "plus-zero").expect("a rule that is there");
    let shown = check(rule, TEMPLATES).counterexample.expect("a counterexample");
    for part in ["x + 0 = x", "graph(%x : Float", "became", "-0"] {
        assert!(shown.contains(part), "{part} is not in\n{shown}");
    }
}
