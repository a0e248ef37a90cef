//! An encoding of a graph as a stream of words: two graphs with one encoding are equal up to names,
//! source locations and scopes, and, on request, up to the known properties of tensors.
//!
//! Definitions precede their uses, operands are the numbers of their definitions, and every list
//! begins with its length, so that equal encodings imply equal graphs. Symbols and types are
//! encoded by their numbers in this process: the encoding must not leave it. Linear in nodes and
//! operands.

use super::attribute::{Attribute, Float};
use super::graph::{Block, Dialect, Graph, Node, Value};
use super::naming::Label;
use super::survey::Survey;
use crate::entity::Entity;
use crate::symbol::prim;
use crate::types::Type;
use crate::types::release::Release;
use crate::types::spelling::Spelling;
use rustc_hash::FxHashMap;

/// The part of types that is encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detail {
    /// Tensor types without their properties, other types in full. Types of constants are encoded
    /// in full: they determine the constant.
    Erased,
    /// Everything.
    Whole,
}

/// The reason why a graph has no encoding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unrepeatable {
    /// A value is used before, or outside the scope of, its definition.
    Scoping,
    /// Two values have one name, or a name of digits that is not a number.
    Names,
    /// The graph was edited already: rows are not in printed order.
    Edited,
}

/// The encoding of a graph with its survey. Reusable for the next graph: the memory is kept.
#[derive(Debug, Default)]
pub struct GraphWords {
    /// The stream.
    pub words: Vec<u32>,
    /// The nodes and values in the order of the stream.
    pub survey: Survey,
    /// One more than the place of each value, 0 for those not seen yet.
    places: Vec<u32>,
    erased: FxHashMap<Type, Type>,
}

/// The end of a block; no kind has this number.
const END: u32 = u32::MAX;

impl GraphWords {
    /// Encodes a graph.
    pub fn read(&mut self, graph: &Graph, detail: Detail) -> Result<(), Unrepeatable> {
        self.words.clear();
        self.survey.clear();
        self.places.clear();
        self.places.resize(graph.num_values(), 0);
        if graph.names.is_odd {
            return Err(Unrepeatable::Names);
        }
        self.setting(graph);
        self.words.reserve(graph.uses.len() + 4 * graph.nodes.len());
        self.block(graph, detail)?;
        self.survey.note_names(graph);
        let complete =
            self.survey.values.len() == graph.num_values() && self.survey.nodes.len() == graph.num_shown_nodes();
        complete.then_some(()).ok_or(Unrepeatable::Edited)
    }

    /// 128 bits of the stream.
    pub fn hash(&self) -> u128 {
        hash(&self.words)
    }

    /// Encodes the properties of the whole text.
    fn setting(&mut self, graph: &Graph) {
        let Dialect { spelling, releases } = graph.dialect;
        let Spelling {
            old_none,
            dynamic,
            undefined,
            colon_strides,
            square_unions,
            square_dicts,
            string,
            raw_strings,
            verbosity,
        } = spelling;
        let flags = [old_none, dynamic, colon_strides, square_unions, square_dicts, string, raw_strings]
            .into_iter()
            .fold(0, |all, flag| all << 1 | u32::from(flag));
        let verbosity = verbosity.map_or(0, |n| 1 + u32::from(n));
        self.words.push(undefined as u32 | flags << 8 | verbosity << 16);
        let word = |release: Release| release.0 << 8 | release.1;
        self.words.extend([graph.release(), releases.oldest, releases.newest].map(word));
    }

    fn block(&mut self, graph: &Graph, detail: Detail) -> Result<(), Unrepeatable> {
        let mut open: Vec<(Block, Node, usize)> = Vec::new();
        let mut block = graph.root();
        self.params(graph, block, detail);
        let mut cursor = graph.first(block);
        loop {
            while let Some(node) = cursor {
                self.node(graph, node, detail)?;
                if graph.num_blocks(node) > 0 {
                    open.push((block, node, 1));
                    block = graph.node_block(node, 0);
                    self.params(graph, block, detail);
                    cursor = graph.first(block);
                } else {
                    cursor = graph.next(node);
                }
            }
            self.end(graph, block)?;
            let Some((outer, owner, done)) = open.last_mut() else { return Ok(()) };
            if *done < graph.num_blocks(*owner) {
                block = graph.node_block(*owner, *done);
                *done += 1;
                self.params(graph, block, detail);
                cursor = graph.first(block);
            } else {
                (block, cursor) = (*outer, graph.next(*owner));
                open.pop();
            }
        }
    }

    fn params(&mut self, graph: &Graph, block: Block, detail: Detail) {
        let node = graph.param_node(block);
        self.words.push(graph.num_outputs(node) as u32);
        self.outputs(graph, node, detail);
    }

    fn end(&mut self, graph: &Graph, block: Block) -> Result<(), Unrepeatable> {
        let results = graph.return_node(block);
        self.words.extend_from_slice(&[END, graph.num_inputs(results) as u32]);
        self.operands(graph, results, 0)
    }

    #[inline]
    fn node(&mut self, graph: &Graph, node: Node, detail: Detail) -> Result<(), Unrepeatable> {
        self.survey.nodes.push(node);
        let row = &graph.nodes[node];
        let kind = row.kind;
        let (inputs, outputs, blocks) = (row.inputs.len, row.outputs.len() as u32, row.blocks.len() as u32);
        // Usual values fit one word; greater numbers follow in words of their own.
        let counts =
            inputs.min(0xfff) | outputs.min(0xff) << 12 | blocks.min(0xff) << 20 | u32::from(row.attributes != 0) << 28;
        let detail = if kind == prim::CONSTANT { Detail::Whole } else { detail };
        let is_large = inputs >= 0xfff || outputs >= 0xff || blocks >= 0xff;
        if outputs == 1 && !is_large {
            let value = row.outputs.get(&graph.lists, 0);
            let ty = self.define(graph, value, detail);
            self.words.extend_from_slice(&[kind.index() as u32, counts, ty as u32, (ty >> 32) as u32]);
        } else {
            self.words.extend_from_slice(&[kind.index() as u32, counts]);
            self.words.extend([inputs, outputs, blocks].into_iter().filter(|_| is_large));
            self.outputs(graph, node, detail);
        }
        if row.attributes != 0 {
            self.attributes(graph, node);
        }
        self.operands(graph, node, outputs)
    }

    /// Encodes the places of the operands; the outputs of a node itself are not valid operands of
    /// it, although they have places.
    #[inline]
    fn operands(&mut self, graph: &Graph, node: Node, own: u32) -> Result<(), Unrepeatable> {
        let run = graph.nodes[node].inputs;
        let rows = &graph.uses.rows()[run.first as usize..(run.first + run.len) as usize];
        let (first, mut fits) = ((self.survey.values.len() as u32 - own), true);
        let places = &self.places;
        self.words.extend(rows.iter().map(|row| {
            let place = row.value.map_or(0, |value| places[value.index()]);
            fits &= place.wrapping_sub(1) < first;
            place
        }));
        if fits { Ok(()) } else { Err(Unrepeatable::Scoping) }
    }

    fn outputs(&mut self, graph: &Graph, node: Node, detail: Detail) {
        for value in graph.outputs(node) {
            let ty = self.define(graph, value, detail);
            self.words.extend_from_slice(&[ty as u32, (ty >> 32) as u32]);
        }
    }

    /// Assigns a place to a value; returns the number of its type.
    #[inline]
    fn define(&mut self, graph: &Graph, value: Value, detail: Detail) -> u64 {
        self.survey.values.push(value);
        self.places[value.index()] = self.survey.values.len() as u32;
        match (graph.values[value].ty, detail) {
            (None, _) => 0,
            (Some(ty), Detail::Whole) => ty.number() as u64,
            // No type has address 1.
            (Some(ty), Detail::Erased) if ty.is_tensor() => 1,
            (Some(ty), Detail::Erased) => self.erased.entry(ty).or_insert_with(|| ty.erased()).number() as u64,
        }
    }

    /// Encodes the attribute list.
    pub(crate) fn attributes(&mut self, graph: &Graph, node: Node) {
        let attributes = graph.attributes(node);
        if let [(name, Attribute::Int(n))] = attributes {
            // Most are of this kind, whose words are written at once.
            return self.words.extend_from_slice(&[1, name.index() as u32, 0, *n as u32, (*n as u64 >> 32) as u32]);
        }
        self.words.push(attributes.len() as u32);
        for (name, value) in attributes {
            self.words.push(name.index() as u32);
            self.attribute(value);
        }
    }

    fn long(&mut self, number: u64) {
        self.words.extend([number as u32, (number >> 32) as u32]);
    }

    fn text(&mut self, text: &[u8]) {
        self.words.push(text.len() as u32);
        let (parts, rest) = text.as_chunks::<4>();
        self.words.extend(parts.iter().map(|part| u32::from_le_bytes(*part)));
        if !rest.is_empty() {
            let mut word = [0; 4];
            word[..rest.len()].copy_from_slice(rest);
            self.words.push(u32::from_le_bytes(word));
        }
    }

    fn float(&mut self, float: Float) {
        self.long(float.value.to_bits());
        self.words.push(float.style as u32);
    }

    fn all(&mut self, tag: u32, parts: &[Attribute]) {
        self.words.extend([tag, parts.len() as u32]);
        parts.iter().for_each(|part| self.attribute(part));
    }

    fn tagged_text(&mut self, tag: u32, text: &[u8]) {
        self.words.push(tag);
        self.text(text);
    }

    fn attribute(&mut self, attribute: &Attribute) {
        match attribute {
            Attribute::Int(n) => {
                self.words.push(0);
                self.long(*n as u64);
            }
            Attribute::Float(float) => {
                self.words.push(1);
                self.float(*float);
            }
            Attribute::Complex(parts) => {
                self.words.push(2);
                self.float(parts.0);
                self.float(parts.1);
            }
            Attribute::Bool(b) => self.words.extend([3, u32::from(*b)]),
            Attribute::None => self.words.push(4),
            Attribute::Str(text) => self.tagged_text(5, text),
            Attribute::List(parts) => self.all(6, parts),
            Attribute::EmptyList(text) => self.tagged_text(7, text.as_bytes()),
            Attribute::Tuple(parts) => self.all(8, parts),
            Attribute::Dict(pairs) => {
                self.words.extend([9, pairs.len() as u32]);
                for (key, value) in pairs {
                    self.attribute(key);
                    self.attribute(value);
                }
            }
            Attribute::Device(text) => self.tagged_text(10, text),
            Attribute::Type(ty) => {
                self.words.push(11);
                self.long(ty.number() as u64);
            }
            Attribute::Enum(name) => self.words.extend([12, name.index() as u32]),
            Attribute::Tensor(text) => self.tagged_text(13, text.as_bytes()),
            Attribute::Opaque(text) => self.tagged_text(14, text.as_bytes()),
            Attribute::Graph(section) => {
                self.words.push(15);
                self.section(section);
            }
        }
    }

    /// A section is encoded in full, names and comments included: results keep it verbatim.
    fn section(&mut self, section: &Graph) {
        let mut inner = GraphWords::default();
        let read = inner.read(section, Detail::Whole);
        self.words.extend([inner.words.len() as u32, section.next_number]);
        self.words.append(&mut inner.words);
        if read.is_err() {
            // A number unique to this section: it equals no other encoding.
            self.words.push(END);
            self.long(section.id().number());
        }
        for &value in &inner.survey.values {
            self.label(section, value);
        }
        for &node in &inner.survey.nodes {
            for comment in [section.location(node), section.scope(node)] {
                self.words.push(u32::from(comment.is_some()));
                self.text(comment.unwrap_or_default());
            }
        }
    }

    fn label(&mut self, graph: &Graph, value: Value) {
        match graph.label(value) {
            Label::Number(n) => self.words.extend([0, n]),
            Label::Text(text) => self.tagged_text(1, text),
        }
    }
}

/// 128 bits of hash, by multiplying and folding: equal hashes are confirmed by comparison, so that
/// the hash only has to spread.
fn hash(words: &[u32]) -> u128 {
    const FACTORS: [u64; 4] =
        [0xa076_1d64_78bd_642f, 0xe703_7ed1_a0b4_28db, 0x8ebc_6af0_9c88_c6e3, 0x5899_65cc_7537_4cc3];
    let fold = |a: u64, b: u64| {
        let product = u128::from(a) * u128::from(b);
        product as u64 ^ (product >> 64) as u64
    };
    let (mut low, mut high) = (words.len() as u64 ^ FACTORS[0], FACTORS[3]);
    let mut chunks = words.chunks_exact(4);
    for chunk in &mut chunks {
        let (a, b) = (pair(chunk[0], chunk[1]), pair(chunk[2], chunk[3]));
        low = fold(a ^ FACTORS[1], b ^ low);
        high = fold(a ^ high, b ^ FACTORS[2]);
    }
    for (i, &word) in chunks.remainder().iter().enumerate() {
        low = fold(u64::from(word) ^ FACTORS[i], low ^ FACTORS[1]);
        high = fold(u64::from(word) ^ FACTORS[1 + i], high ^ FACTORS[2]);
    }
    u128::from(fold(low, FACTORS[3])) << 64 | u128::from(fold(high, FACTORS[1]))
}

/// 128 bits of hash of a text, the same in every process.
pub(crate) fn hash_of_bytes(text: &[u8]) -> u128 {
    let word = |part: &[u8]| {
        let mut word = [0; 4];
        word[..part.len()].copy_from_slice(part);
        u32::from_le_bytes(word)
    };
    let mut words: Vec<u32> = text.chunks(4).map(word).collect();
    words.push(text.len() as u32);
    hash(&words)
}

fn pair(low: u32, high: u32) -> u64 {
    u64::from(low) | u64::from(high) << 32
}
