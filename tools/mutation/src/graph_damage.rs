//! Mutates the parts of a graph: operands, kinds, attributes, types, names, blocks.
//!
//! It only uses lines and brackets, so that it works on graphs that are damaged already.

use crate::byte_damage::{self, replace_number};
use crate::chance::Chance;
use std::ops::Range;

/// Replacement types of values.
const TYPES: &[&str] = &[
    "Tensor",
    "Tensor?",
    "Tensor[]",
    "Tensor?[]",
    "int",
    "int[]",
    "int?",
    "float",
    "bool",
    "str",
    "complex",
    "None",
    "NoneType",
    "Any",
    "Device",
    "Generator",
    "Scalar",
    "number",
    "(Tensor, int)",
    "()",
    "Dict(str, Tensor)",
    "Future(Tensor)",
    "Float(*, *)",
    "Float(2, 3)",
    "Long(3)",
    "Half(0, 4)",
    "Bool()",
    "Double(99999999999)",
    "Float(1000000, 1000000)",
    "Float(9223372036854775807, 9223372036854775807)",
    "Float(2, 3, strides=[-1, 0], requires_grad=1, device=cuda:0)",
    "Float(2:0, 3:9223372036854775807)",
    "Float(SS(-1), SS(-2))",
    "ComplexFloat(2)",
    "QUInt8(2)",
    "BFloat16(3, 3)",
    "__torch__.M",
    "Union(int, Tensor)",
    "int[][][][]",
];

/// Replacement values of attributes.
const VALUES: &[&str] = &[
    "0",
    "1",
    "-1",
    "7",
    "9223372036854775807",
    "-9223372036854775808",
    "1000000000000",
    "0.",
    "1.5",
    "-0.",
    "1e300",
    "inf",
    "nan",
    "1j",
    "\"mean\"",
    "\"\"",
    "\"cuda:0\"",
    "\"floor\"",
    "[]",
    "[0]",
    "[1, 2]",
    "[-1]",
    "[9223372036854775807, 9223372036854775807]",
    "[1.5]",
    "[\"a\"]",
    "annotate(List[int], [])",
    "(1, 2)",
    "{1}",
    "{}",
    "{0.5}",
    "<Tensor>",
    "<Graph>",
    "None",
    "(True)",
];

/// Kinds that passes handle specially.
const KINDS: &[&str] = &[
    "prim::Constant",
    "prim::If",
    "prim::Loop",
    "prim::ListConstruct",
    "prim::ListUnpack",
    "prim::TupleConstruct",
    "prim::TupleUnpack",
    "prim::TupleIndex",
    "prim::TupleSlice",
    "prim::DictConstruct",
    "prim::GetAttr",
    "prim::SetAttr",
    "prim::CallMethod",
    "prim::CallFunction",
    "prim::CreateObject",
    "prim::FusionGroup",
    "prim::FusionGroup_0",
    "prim::DifferentiableGraph",
    "prim::DifferentiableGraph_0",
    "prim::TensorExprGroup_0",
    "prim::GradOf",
    "prim::ConstantChunk",
    "prim::BroadcastSizes",
    "prim::SumToSize",
    "prim::NumToTensor",
    "prim::RaiseException",
    "prim::Guard",
    "prim::BailOut",
    "prim::BailoutTemplate_0",
    "prim::profile",
    "prim::TypeCheck",
    "prim::RequiresGradCheck",
    "prim::unchecked_cast",
    "prim::unchecked_unwrap_optional",
    "prim::Print",
    "prim::fork",
    "prim::fork_0",
    "prim::Closure",
    "prim::AutogradAdd",
    "prim::AutogradAnyNonZero",
    "prim::AutogradZero",
    "prim::Return",
    "prim::Param",
    "prim::Uninitialized",
    "prim::device",
    "prim::dtype",
    "prim::shape",
    "prim::min",
    "prim::max",
    "prim::Drop",
    "prim::Store",
    "prim::isinstance",
    "prim::EnumValue",
    "prim::PythonOp",
    "^Function",
    "aten::wait",
    "aten::add",
    "aten::add_",
    "aten::mul",
    "aten::mm",
    "aten::addmm",
    "aten::chunk",
    "aten::split",
    "aten::cat",
    "aten::stack",
    "aten::size",
    "aten::len",
    "aten::append",
    "aten::__getitem__",
    "aten::_set_item",
    "aten::slice",
    "aten::select",
    "aten::index",
    "aten::index_put_",
    "aten::view",
    "aten::expand",
    "aten::expand_as",
    "aten::to",
    "aten::type_as",
    "aten::detach",
    "aten::t",
    "aten::transpose",
    "aten::permute",
    "aten::sum",
    "aten::mean",
    "aten::max",
    "aten::softmax",
    "aten::layer_norm",
    "aten::batch_norm",
    "aten::native_layer_norm",
    "aten::linear",
    "aten::matmul",
    "aten::conv2d",
    "aten::_convolution",
    "aten::lstm",
    "aten::einsum",
    "aten::dropout",
    "aten::bernoulli",
    "aten::zeros",
    "aten::zeros_like",
    "aten::full",
    "aten::arange",
    "aten::tensor",
    "aten::repeat",
    "aten::embedding",
    "aten::format",
    "aten::Int",
    "aten::Float",
    "aten::ScalarImplicit",
    "aten::item",
    "aten::ne",
    "aten::eq",
    "aten::floordiv",
    "aten::remainder",
    "aten::div",
    "aten::pow",
    "aten::neg",
    "aten::relu",
    "aten::sigmoid",
    "aten::_grad_sum_to_size",
    "aten::_size_if_not_equal",
    "aten::where",
    "aten::copy_",
    "aten::warn",
    "aten::is_grad_enabled",
    "aten::set_grad_enabled",
];

/// Mutates one place of a graph; `other` is a source of foreign fragments.
pub fn damage(text: &mut Vec<u8>, other: &[u8], chance: &mut Chance) {
    let mut lines = lines_of(text);
    if lines.is_empty() {
        return byte_damage::damage(text, other, chance);
    }
    let at = some_line(&lines, chance);
    match chance.below(19) {
        0..=2 => operands(&mut lines, at, chance),
        3 | 4 => kind(&mut lines[at], chance),
        5 | 6 => attribute(&mut lines[at], chance),
        7 | 8 => type_of(&mut lines[at], chance),
        9 => rename(&mut lines, at, chance),
        10 => delete_block(&mut lines, at, chance),
        11 | 12 => number(&mut lines[at], chance),
        13 => nest(&mut lines, at, chance),
        14 => graft(&mut lines, at, other, chance),
        15 => outputs(&mut lines[at], chance),
        16 => results(&mut lines, chance),
        17 => move_line(&mut lines, at, chance),
        _ => drop(lines.remove(at)),
    }
    *text = lines.concat().into_bytes();
}

fn lines_of(text: &[u8]) -> Vec<String> {
    String::from_utf8_lossy(text).split_inclusive('\n').map(str::to_owned).collect()
}

/// A line, preferably one of a node.
fn some_line(lines: &[String], chance: &mut Chance) -> usize {
    let nodes: Vec<usize> = (0..lines.len()).filter(|&i| kind_in(&lines[i]).is_some()).collect();
    match nodes.is_empty() || chance.one_in(6) {
        true => chance.below(lines.len()),
        false => nodes[chance.below(nodes.len())],
    }
}

// ---- positions in a line

/// The range of a node's kind: the word with `::` before a bracket.
fn kind_in(line: &str) -> Option<Range<usize>> {
    let colons = line.find("::")?;
    let is_word = |c: char| c.is_alphanumeric() || "_^.".contains(c);
    let start = line[..colons].char_indices().rev().take_while(|(_, c)| is_word(*c)).last()?.0;
    let rest = line[colons + 2..].find(|c: char| !is_word(c)).unwrap_or(line.len() - colons - 2);
    Some(start..colons + 2 + rest)
}

/// The range inside the brackets that open at byte `at`.
fn inside(line: &str, at: usize) -> Option<Range<usize>> {
    let mut depth = 0;
    for (i, byte) in line.bytes().enumerate().skip(at) {
        match byte {
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return (i > at).then_some(at + 1..i);
        }
    }
    None
}

fn attributes_in(line: &str) -> Option<Range<usize>> {
    let end = kind_in(line)?.end;
    line[end..].starts_with('[').then(|| inside(line, end)).flatten()
}

fn operands_in(line: &str) -> Option<Range<usize>> {
    let end = attributes_in(line).map_or(kind_in(line)?.end, |found| found.end + 1);
    line[end..].starts_with('(').then(|| inside(line, end)).flatten()
}

/// The elements of a list, split at commas outside brackets.
fn parts(list: &str) -> Vec<String> {
    let (mut depth, mut all) = (0, vec![String::new()]);
    for c in list.chars() {
        depth += i32::from("([{".contains(c)) - i32::from(")]}".contains(c));
        match all.last_mut() {
            Some(last) if c != ',' || depth != 0 => last.push(c),
            _ => all.push(String::new()),
        }
    }
    let all: Vec<String> = all.into_iter().map(|part| part.trim().to_owned()).collect();
    if all == [""] { Vec::new() } else { all }
}

/// All value names in a text.
fn names(lines: &[String]) -> Vec<String> {
    let mut all = Vec::new();
    for line in lines {
        for piece in line.split('%').skip(1) {
            let name: String = piece.chars().take_while(|c| c.is_alphanumeric() || "._".contains(*c)).collect();
            all.push(format!("%{name}"));
        }
    }
    all
}

fn some_name(lines: &[String], chance: &mut Chance) -> String {
    let all = names(lines);
    if all.is_empty() { "%x".to_owned() } else { all[chance.below(all.len())].clone() }
}

// ---- mutations

/// Removes, repeats, swaps or changes an element of a list.
fn change_list(mut all: Vec<String>, foreign: String, chance: &mut Chance) -> String {
    let (i, j) = (chance.below(all.len()), chance.below(all.len()));
    match chance.below(7) {
        _ if all.is_empty() => all.push(foreign),
        0 | 1 => drop(all.remove(i)),
        2 => all.insert(i, foreign),
        3 => all[i] = foreign,
        4 => all.swap(i, j),
        5 => all.clear(),
        _ => all.extend(all.clone()),
    }
    all.join(", ")
}

fn operands(lines: &mut [String], at: usize, chance: &mut Chance) {
    let foreign = some_name(lines, chance);
    let Some(place) = operands_in(&lines[at]) else { return number(&mut lines[at], chance) };
    let changed = change_list(parts(&lines[at][place.clone()]), foreign, chance);
    lines[at].replace_range(place, &changed);
}

fn kind(line: &mut String, chance: &mut Chance) {
    let Some(place) = kind_in(line) else { return };
    match chance.below(6) {
        0 => {
            // A typing error: the last letter repeated several times.
            let last = line[..place.end].chars().next_back().unwrap_or('d');
            let slip: String = std::iter::repeat_n(last, 1 + chance.below(3)).collect();
            line.insert_str(place.end, &slip);
        }
        1 => drop(line.remove(place.end - 1)),
        _ => line.replace_range(place, chance.pick(KINDS)),
    }
}

fn attribute(line: &mut String, chance: &mut Chance) {
    let Some(place) = attributes_in(line) else {
        if let Some(kind) = kind_in(line) {
            let name = chance.pick(&["value", "dim", "chunks", "name", "Subgraph", "types", "index", "beg", "idx"]);
            line.insert_str(kind.end, &format!("[{name}={}]", chance.pick(VALUES)));
        }
        return;
    };
    let mut all = parts(&line[place.clone()]);
    let i = chance.below(all.len());
    if chance.one_in(3) || all.is_empty() {
        let changed = change_list(all, format!("value={}", chance.pick(VALUES)), chance);
        return line.replace_range(place, &changed);
    }
    let name = all[i].split('=').next().unwrap_or("value").to_owned();
    all[i] = format!("{name}={}", chance.pick(VALUES));
    line.replace_range(place, &all.join(", "));
}

/// Changes the text after ` : ` up to the end of the definition.
fn type_of(line: &mut String, chance: &mut Chance) {
    let starts: Vec<usize> = line.match_indices(" : ").map(|(at, _)| at).collect();
    let Some(&start) = starts.get(chance.below(starts.len())) else { return };
    let mut depth = 0;
    let end = line[start + 3..].find(|c: char| {
        depth += i32::from("([".contains(c)) - i32::from(")]".contains(c));
        depth < 0 || depth == 0 && (c == ',' || c == '=')
    });
    let end = end.map_or(line.len(), |found| start + 3 + found);
    match chance.below(6) {
        0 => line.replace_range(start..end, ""),
        _ => line.replace_range(start + 3..end, &format!("{} ", chance.pick(TYPES))),
    }
}

fn rename(lines: &mut [String], at: usize, chance: &mut Chance) {
    let (from, to) = (some_name(&lines[at..=at], chance), some_name(lines, chance));
    let to = if chance.one_in(5) { format!("%{}", chance.below(50)) } else { to };
    match chance.below(3) {
        0 => lines.iter_mut().for_each(|line| *line = line.replace(&from, &to)),
        1 => lines[at] = lines[at].replacen(&from, &to, 1),
        _ => lines[at] = lines[at].replace(&from, &to),
    }
}

fn indentation(line: &str) -> usize {
    line.len() - line.trim_start().len()
}

/// Deletes the nodes, the head or the end of the block around a line, or all of it.
fn delete_block(lines: &mut Vec<String>, at: usize, chance: &mut Chance) {
    let heads: Vec<usize> = (0..lines.len()).filter(|&i| lines[i].trim_start().starts_with("block")).collect();
    let Some(&head) = heads.get(chance.below(heads.len())) else { return drop(lines.remove(at)) };
    let depth = indentation(&lines[head]);
    let end = (head + 1..lines.len()).find(|&i| indentation(&lines[i]) <= depth).unwrap_or(lines.len());
    match chance.below(4) {
        0 => drop(lines.drain(head..end)),
        1 => drop(lines.remove(head)),
        2 => drop(lines.remove(end - 1)),
        _ => drop(lines.drain((head + 1).min(end - 1)..end - 1)),
    }
}

fn number(line: &mut String, chance: &mut Chance) {
    let mut bytes = std::mem::take(line).into_bytes();
    let at = chance.below(bytes.len());
    replace_number(&mut bytes, at, chance);
    *line = String::from_utf8_lossy(&bytes).into_owned();
}

/// Moves some lines into a block of a new node, possibly nested many times.
fn nest(lines: &mut Vec<String>, at: usize, chance: &mut Chance) {
    let name = some_name(lines, chance);
    let indent = " ".repeat(indentation(&lines[at]));
    let end = (at + 1 + chance.below(3)).min(lines.len());
    let depth = if chance.one_in(30) { 2 + chance.below(300) } else { 1 };
    let (open, close) = match chance.below(4) {
        0 => (
            format!("{indent} = prim::If({name})\n{indent}  block0():\n"),
            format!("{indent}  block1():\n{indent}    -> ()\n"),
        ),
        1 => (format!("{indent} = prim::Loop({name}, {name})\n{indent}  block0(%i : int):\n"), String::new()),
        2 => (
            format!("{indent}%n : Tensor = prim::If({name})\n{indent}  block0():\n"),
            format!("{indent}  block1():\n{indent}    -> ({name})\n"),
        ),
        _ => (
            format!(
                "{indent}%n : Tensor = prim::Loop({name}, {name}, {name})\n{indent}  block0(%i : int, %c : Tensor):\n"
            ),
            String::new(),
        ),
    };
    let result = if open.contains("Loop") {
        format!("({name}{})", if open.contains("%n") { format!(", {name}") } else { String::new() })
    } else if open.contains("%n") {
        format!("({name})")
    } else {
        "()".to_owned()
    };
    for _ in 0..depth {
        lines.insert(end, format!("{indent}    -> {result}\n{close}"));
    }
    for _ in 0..depth {
        lines.insert(at, open.clone());
    }
}

/// Inserts some lines of another graph.
fn graft(lines: &mut Vec<String>, at: usize, other: &[u8], chance: &mut Chance) {
    let foreign = lines_of(other);
    let start = chance.below(foreign.len());
    let end = (start + 1 + chance.below(6)).min(foreign.len());
    match chance.below(3) {
        0 => lines.extend(foreign),
        _ => drop(lines.splice(at..at, foreign.get(start..end).unwrap_or_default().to_vec())),
    }
}

/// Changes the definitions of a node, or of the head of a block or graph.
fn outputs(line: &mut String, chance: &mut Chance) {
    let definition = format!("%{} : {}", chance.below(40), chance.pick(TYPES));
    if let Some(at) = line.find("graph(").map(|at| at + 5).or_else(|| line.find("block").and_then(|_| line.find('('))) {
        if let Some(place) = inside(line, at) {
            let changed = change_list(parts(&line[place.clone()]), definition, chance);
            line.replace_range(place, &changed);
        }
        return;
    }
    let Some(kind) = kind_in(line) else { return };
    let Some(equals) = line[..kind.start].rfind('=') else { return };
    let start = indentation(line).min(equals);
    let changed = change_list(parts(&line[start..equals]), definition, chance);
    line.replace_range(start..equals, &format!("{changed} "));
}

/// Changes the results of a graph or block.
fn results(lines: &mut Vec<String>, chance: &mut Chance) {
    let returns = |line: &String| line.contains("return (") || line.contains("-> (");
    let all: Vec<usize> = (0..lines.len()).filter(|&i| returns(&lines[i])).collect();
    let Some(&at) = all.get(chance.below(all.len())) else { return };
    if chance.one_in(8) {
        return drop(lines.remove(at));
    }
    let foreign = some_name(lines, chance);
    let place = lines[at].find('(').and_then(|open| inside(&lines[at], open));
    if let Some(place) = place {
        let changed = change_list(parts(&lines[at][place.clone()]), foreign, chance);
        lines[at].replace_range(place, &changed);
    }
}

fn move_line(lines: &mut Vec<String>, at: usize, chance: &mut Chance) {
    let line = if chance.one_in(2) { lines.remove(at) } else { lines[at].clone() };
    let to = chance.below(lines.len() + 1);
    lines.insert(to, line);
}

#[cfg(test)]
mod tests {
    use super::*;

    const GRAPH: &str = "graph(%x : Tensor):\n  %1 : int = prim::Constant[value=1]()\n  %2 : Tensor = aten::add(%x, %x, %1)\n  return (%2)\n";

    #[test]
    fn the_parts_of_a_line_are_found() {
        let line = "  %2 : Float(2, 3) = prim::ConstantChunk[chunks=2, dim=1](%x, %y)\n";
        assert_eq!(kind_in(line).map(|place| &line[place]), Some("prim::ConstantChunk"));
        assert_eq!(attributes_in(line).map(|place| &line[place]), Some("chunks=2, dim=1"));
        assert_eq!(operands_in(line).map(|place| &line[place]), Some("%x, %y"));
        assert_eq!(parts("%a : (int, int), %b"), ["%a : (int, int)", "%b"]);
    }

    #[test]
    fn any_damage_can_be_damaged_again() {
        let mut chance = Chance(1);
        for _ in 0..2000 {
            let mut text = GRAPH.as_bytes().to_vec();
            for _ in 0..6 {
                damage(&mut text, GRAPH.as_bytes(), &mut chance);
            }
            assert!(text.len() < 1 << 20, "{} bytes", text.len());
        }
    }
}
