//! Mutates text as people, editors and log collectors damage it, and in other ways.

use crate::chance::Chance;

/// Fragments of the language that random bytes would rarely form.
const WORDS: &[&str] = &[
    "%",
    "%x",
    "%0",
    "%x.1",
    "%4294967295",
    "%99999999999",
    " : ",
    " = ",
    "(",
    ")",
    "[",
    "]",
    "{",
    "}",
    ",",
    ", ",
    "->",
    "-> (%x)",
    "return (",
    "return (%0)",
    "graph(",
    "graph():\n",
    "block0():\n",
    "block1(%i : int):\n",
    "with prim::FusionGroup_0 = graph(",
    "prim::FusionGroup_0",
    "prim::Constant[value=",
    "prim::If(%x)",
    "prim::Loop(",
    "^Python[",
    "^Op(1, (2, 3))(",
    "aten::add(",
    "[Subgraph=<Graph>]",
    "[]",
    "<Tensor>",
    "{1}",
    "{nan}",
    "inf",
    "-inf",
    "nan",
    "-0.",
    "1e400",
    "1e-400",
    "-9223372036854775808",
    "9223372036854775808",
    "0x10",
    "1.5j",
    "(1,2)",
    "\"",
    "\\\"",
    "\\377",
    "\\777",
    "\\-1",
    "\\x00",
    "''",
    "annotate(",
    "None",
    "True",
    "Tensor",
    "Float(*, *)",
    "Float(2, 3, strides=[3, 1], requires_grad=0, device=cpu)",
    "Float(2:3, 3:1)",
    "Double(SS(-1))",
    "Tensor?",
    "Tensor[]",
    "(int, int)",
    "Dict(str, Tensor)",
    "Optional[int]",
    "Union(int, str)",
    "Future[Tensor]",
    "__torch__.M",
    "ClassType<M>",
    "NoneType",
    "None",
    "Undefined",
    "Dynamic",
    "UndefinedTensor",
    "int[][][]",
    "...",
    "*",
    "?",
    "::",
    ";",
    "\\",
    "\r\n",
    "\n",
    "\n\n",
    "\t",
    " # a.py:1:2",
    " // c",
    ", scope: A/B[c]",
    "\u{feff}",
    "\u{e9}",
    "\0",
];

/// Numbers at the limits of the tool's integer types, and just beyond.
const EXTREMES: &[&str] = &[
    "0",
    "1",
    "-1",
    "2147483648",
    "4294967295",
    "4294967296",
    "1000000000000",
    "4611686018427387904",
    "9223372036854775807",
    "-9223372036854775808",
    "18446744073709551615",
    "99999999999999999999",
    "1e308",
    "1e999",
    "nan",
];

/// Mutates a text once; `other` is a source of foreign fragments.
pub fn damage(text: &mut Vec<u8>, other: &[u8], chance: &mut Chance) {
    let at = chance.below(text.len() + 1);
    match chance.below(14) {
        0 => flip_byte(text, chance),
        1 => insert(text, at, &[chance.draw() as u8]),
        2 | 3 => insert(text, at, chance.pick(WORDS).as_bytes()),
        4 => replace_word(text, at, chance),
        5 => drop(text.drain(at..(at + chance.below(40)).min(text.len()))),
        6 => delete_line(text, chance),
        7 => swap_lines(text, chance),
        8 => copy_range(text, at, chance),
        9 => splice(text, at, other, chance),
        10 => text.truncate(at),
        11 | 12 => replace_number(text, at, chance),
        _ => repeat(text, at, chance),
    }
}

/// Replaces the first number from `at` on by an extreme one.
pub fn replace_number(text: &mut Vec<u8>, at: usize, chance: &mut Chance) {
    let start = text[at..].iter().position(u8::is_ascii_digit).map(|found| at + found);
    let Some(start) = start.or_else(|| text.iter().position(u8::is_ascii_digit)) else { return };
    let length = text[start..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    text.splice(start..start + length, chance.pick(EXTREMES).bytes());
}

fn insert(text: &mut Vec<u8>, at: usize, bytes: &[u8]) {
    text.splice(at..at, bytes.iter().copied());
}

fn flip_byte(text: &mut [u8], chance: &mut Chance) {
    let at = chance.below(text.len());
    if let Some(byte) = text.get_mut(at) {
        *byte ^= 1 << chance.below(8);
    }
}

/// Replaces a run of letters and digits by another word.
fn replace_word(text: &mut Vec<u8>, at: usize, chance: &mut Chance) {
    let length = text[at..].iter().take_while(|byte| byte.is_ascii_alphanumeric()).count();
    text.splice(at..at + length, chance.pick(WORDS).bytes());
}

/// The ranges of lines, line feeds included.
pub fn lines(text: &[u8]) -> Vec<std::ops::Range<usize>> {
    let mut start = 0;
    text.split_inclusive(|byte| *byte == b'\n').map(|line| (start, start += line.len()).0..start).collect()
}

fn delete_line(text: &mut Vec<u8>, chance: &mut Chance) {
    let lines = lines(text);
    if !lines.is_empty() {
        text.drain(lines[chance.below(lines.len())].clone());
    }
}

fn swap_lines(text: &mut Vec<u8>, chance: &mut Chance) {
    let lines = lines(text);
    if lines.is_empty() {
        return;
    }
    let (a, b) = (chance.below(lines.len()), chance.below(lines.len()));
    let order = (0..lines.len()).map(|i| {
        if i == a {
            b
        } else if i == b {
            a
        } else {
            i
        }
    });
    *text = order.flat_map(|i| text[lines[i].clone()].to_vec()).collect();
}

/// Duplicates a fragment.
fn copy_range(text: &mut Vec<u8>, at: usize, chance: &mut Chance) {
    let start = chance.below(text.len());
    let piece = text[start..(start + chance.below(200)).min(text.len())].to_vec();
    insert(text, at, &piece);
}

/// Inserts a fragment of another file.
fn splice(text: &mut Vec<u8>, at: usize, other: &[u8], chance: &mut Chance) {
    let start = chance.below(other.len());
    let piece = other[start..(start + chance.below(400)).min(other.len())].to_vec();
    insert(text, at, &piece);
}

/// Repeats a few bytes many times: nesting and long lists.
fn repeat(text: &mut Vec<u8>, at: usize, chance: &mut Chance) {
    let piece = text[at..(at + 1 + chance.below(12)).min(text.len())].to_vec();
    let times = 1 + chance.below(300);
    insert(text, at, &piece.repeat(times));
}
