//! Damages a text the way people, editors and log collectors do, and in some ways nobody does.

/// Pseudo-random numbers (SplitMix64): small, good enough, the same everywhere.
pub struct Random(pub u64);

impl Random {
    /// The next number.
    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `bound`; 0 when there is none.
    pub fn below(&mut self, bound: usize) -> usize {
        if bound == 0 { 0 } else { (self.draw() % bound as u64) as usize }
    }
}

/// Pieces of the language: what random bytes would take ages to find.
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

/// One to four damages at random.
pub fn damage(seeds: &[Vec<u8>], random: &mut Random) -> Vec<u8> {
    let mut text = seeds[random.below(seeds.len())].clone();
    for _ in 0..1 + random.below(4) {
        one(&mut text, seeds, random);
    }
    text
}

fn one(text: &mut Vec<u8>, seeds: &[Vec<u8>], random: &mut Random) {
    let at = random.below(text.len() + 1);
    match random.below(12) {
        0 => flip_byte(text, random),
        1 => insert(text, at, &[random.draw() as u8]),
        2 | 3 => insert(text, at, WORDS[random.below(WORDS.len())].as_bytes()),
        4 => replace_word(text, at, random),
        5 => drop(text.drain(at..(at + random.below(40)).min(text.len()))),
        6 => delete_line(text, random),
        7 => swap_lines(text, random),
        8 => copy_range(text, at, random),
        9 => splice(text, at, &seeds[random.below(seeds.len())], random),
        10 => text.truncate(at),
        _ => repeat(text, at, random),
    }
}

fn insert(text: &mut Vec<u8>, at: usize, bytes: &[u8]) {
    text.splice(at..at, bytes.iter().copied());
}

fn flip_byte(text: &mut [u8], random: &mut Random) {
    let at = random.below(text.len());
    if let Some(byte) = text.get_mut(at) {
        *byte ^= 1 << random.below(8);
    }
}

/// A run of letters and digits becomes another word.
fn replace_word(text: &mut Vec<u8>, at: usize, random: &mut Random) {
    let length = text[at..].iter().take_while(|byte| byte.is_ascii_alphanumeric()).count();
    text.splice(at..at + length, WORDS[random.below(WORDS.len())].bytes());
}

/// Where lines begin and end, line feeds included.
pub fn lines(text: &[u8]) -> Vec<std::ops::Range<usize>> {
    let mut start = 0;
    text.split_inclusive(|byte| *byte == b'\n').map(|line| (start, start += line.len()).0..start).collect()
}

fn delete_line(text: &mut Vec<u8>, random: &mut Random) {
    let lines = lines(text);
    if !lines.is_empty() {
        text.drain(lines[random.below(lines.len())].clone());
    }
}

fn swap_lines(text: &mut Vec<u8>, random: &mut Random) {
    let lines = lines(text);
    if lines.is_empty() {
        return;
    }
    let (a, b) = (random.below(lines.len()), random.below(lines.len()));
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

/// A piece stands in two places.
fn copy_range(text: &mut Vec<u8>, at: usize, random: &mut Random) {
    let start = random.below(text.len());
    let piece = text[start..(start + random.below(200)).min(text.len())].to_vec();
    insert(text, at, &piece);
}

/// A piece of another file.
fn splice(text: &mut Vec<u8>, at: usize, other: &[u8], random: &mut Random) {
    let start = random.below(other.len());
    let piece = other[start..(start + random.below(400)).min(other.len())].to_vec();
    insert(text, at, &piece);
}

/// A few bytes many times: nesting and long lists.
fn repeat(text: &mut Vec<u8>, at: usize, random: &mut Random) {
    let piece = text[at..(at + 1 + random.below(12)).min(text.len())].to_vec();
    let times = 1 + random.below(300);
    insert(text, at, &piece.repeat(times));
}
