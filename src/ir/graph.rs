//! The tables of a graph and its queries.

use super::attribute::Attribute;
use super::journal::Journaling;
use super::lineage::{DrawPlace, Iteration, Lineage, LineageRow, LoopIterations};
use super::list_pool::{List, ListPool};
use super::naming::{LabelId, Names};
use super::text_pool::{TextId, TextPool};
use super::usage::{Run, UseRow};
use crate::entity::{Entity, EntityVec};
use crate::symbol::{Symbol, attr, prim};
use crate::types::Type;
use crate::types::era::Era;
use crate::types::release::Release;
use crate::types::spelling::Spelling;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use std::sync::atomic::{AtomicU64, Ordering};

crate::entities! {
    /// One operator application.
    Node, "n";
    /// A param of a block or an output of a node.
    Value, "v";
    /// A list of nodes with params and results.
    Block, "b";
    /// One operand of one node.
    Use, "u";
}

#[derive(Clone, Copy, Debug)]
pub(super) struct NodeRow {
    pub(super) kind: Symbol,
    pub(super) block: Option<Block>,
    pub(super) prev: Option<Node>,
    pub(super) next: Option<Node>,
    pub(super) order: u64,
    pub(super) inputs: Run,
    pub(super) outputs: List<Value>,
    pub(super) blocks: List<Block>,
    /// One more than the index of the attributes, 0 for none.
    pub(super) attributes: u32,
    pub(super) location: TextId,
    pub(super) scope: TextId,
    pub(super) lineage: Option<Lineage>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct ValueRow {
    /// `None` where the text gave no type.
    pub(super) ty: Option<Type>,
    pub(super) label: LabelId,
    /// `None` for a name that is used but never defined.
    pub(super) definer: Option<Node>,
    pub(super) index: u32,
    pub(super) first_use: Option<Use>,
    pub(super) last_use: Option<Use>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct BlockRow {
    /// The node it belongs to; none for the root.
    pub(super) owner: Option<Node>,
    pub(super) first: Option<Node>,
    pub(super) last: Option<Node>,
    pub(super) param: Node,
    pub(super) ret: Node,
    pub(super) depth: u32,
}

pub(super) type AttributeList = SmallVec<[(Symbol, Attribute); 1]>;

/// Counts edits, so that "changed" and "still valid" are derived, never declared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Epoch {
    /// All edits, names and moves included.
    pub edits: u64,
    /// Edits that change the computation or the uses of values.
    pub computation: u64,
}

/// The releases that print a text: from the oldest to the newest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Releases {
    /// The oldest.
    pub oldest: Release,
    /// The newest.
    pub newest: Release,
}

impl Default for Releases {
    fn default() -> Self {
        Releases { oldest: Release::OLDEST, newest: Release::NEWEST }
    }
}

/// The spelling of the text that a graph was read from, where versions differ and the meaning does
/// not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Dialect {
    /// Types.
    pub spelling: Spelling,
    /// The oldest and the newest release that print such text; equal if a release was given.
    pub releases: Releases,
}

/// The layout of one graph, where versions differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Layout {
    /// `graph(..) {` … `}` and `block0() {` … `}`, 0.4 and 1.0.
    pub braces: bool,
    /// Params stand one per line without commas, 0.4.
    pub no_commas: bool,
    /// `return (%x);`
    pub semicolon: bool,
}

/// The identity of a graph; a copy is another graph.
#[derive(Debug, PartialEq, Eq)]
pub struct GraphId(u64);

impl GraphId {
    fn fresh() -> GraphId {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        GraphId(NEXT.fetch_add(1, Ordering::Relaxed))
    }

    /// The number itself, for use as a key of results computed from the graph.
    pub fn number(&self) -> u64 {
        self.0
    }
}

impl Clone for GraphId {
    fn clone(&self) -> Self {
        GraphId::fresh()
    }
}

/// A graph. See the [module](super).
#[derive(Clone, Debug)]
pub struct Graph {
    pub(super) nodes: EntityVec<Node, NodeRow>,
    pub(super) values: EntityVec<Value, ValueRow>,
    pub(super) blocks: EntityVec<Block, BlockRow>,
    pub(super) uses: EntityVec<Use, UseRow>,
    pub(super) lists: ListPool,
    pub(super) attributes: Vec<AttributeList>,
    pub(super) names: Names,
    pub(super) texts: TextPool,
    pub(super) lineages: EntityVec<Lineage, LineageRow>,
    pub(super) current_rewrite: Option<Lineage>,
    /// The iteration that copies are made for.
    pub(super) copied_iteration: Option<Iteration>,
    /// For random nodes that came from another graph: the key of their draws.
    pub(super) foreign_places: FxHashMap<Node, DrawPlace>,
    /// For loops that are parts of loops of the file: the numbering of their iterations.
    pub(super) loop_iterations: FxHashMap<Node, LoopIterations>,
    pub(super) last_scope: TextId,
    pub(super) root: Block,
    pub(super) next_number: u32,
    pub(super) epoch: Epoch,
    pub(super) journal: Journaling,
    id: GraphId,
    release: Release,
    /// The family of releases whose rules hold. It follows from the release: [`Graph::set_release`]
    /// sets both.
    pub era: Era,
    /// The spelling.
    pub dialect: Dialect,
    /// The layout.
    pub layout: Layout,
}

/// Subgraphs nest to any depth that a file has: they are dropped from a list, not by recursion.
impl Drop for Graph {
    fn drop(&mut self) {
        let mut work = Vec::new();
        self.take_subgraphs(&mut work);
        while let Some(mut graph) = work.pop() {
            graph.take_subgraphs(&mut work);
        }
    }
}

impl Default for Graph {
    fn default() -> Self {
        Graph::new()
    }
}

impl Graph {
    /// An empty graph: a root block without params, nodes and results.
    pub fn new() -> Graph {
        let mut graph = Graph {
            nodes: EntityVec::default(),
            values: EntityVec::default(),
            blocks: EntityVec::default(),
            uses: EntityVec::default(),
            lists: ListPool::default(),
            attributes: Vec::new(),
            names: Names::default(),
            texts: TextPool::default(),
            lineages: EntityVec::default(),
            current_rewrite: None,
            copied_iteration: None,
            foreign_places: FxHashMap::default(),
            loop_iterations: FxHashMap::default(),
            last_scope: TextId::default(),
            root: Block::at(0),
            next_number: 0,
            epoch: Epoch::default(),
            journal: Journaling::default(),
            id: GraphId::fresh(),
            release: Release::default(),
            era: Era::default(),
            dialect: Dialect::default(),
            layout: Layout::default(),
        };
        graph.root = graph.new_block(None);
        graph
    }

    /// An empty graph of the same era, spelling and layout.
    pub fn empty_like(graph: &Graph) -> Graph {
        let mut new = Graph::new();
        (new.release, new.era) = (graph.release, graph.era);
        (new.dialect, new.layout) = (graph.dialect, graph.layout);
        new
    }

    /// The release of PyTorch whose rules hold.
    pub fn release(&self) -> Release {
        self.release
    }

    /// Changes the release. Sections keep theirs.
    pub fn set_release(&mut self, release: Release) {
        (self.release, self.era) = (release, release.era());
    }

    fn take_subgraphs(&mut self, into: &mut Vec<Graph>) {
        for (_, value) in self.attributes.iter_mut().flatten() {
            if let Attribute::Graph(_) = value
                && let Attribute::Graph(graph) = std::mem::replace(value, Attribute::None)
            {
                into.push(*graph);
            }
        }
    }

    /// The number of edits so far.
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// The identity of the graph.
    pub fn id(&self) -> &GraphId {
        &self.id
    }

    /// The outermost block.
    pub fn root(&self) -> Block {
        self.root
    }

    // ---- nodes

    /// The operator.
    #[inline]
    pub fn kind(&self, node: Node) -> Symbol {
        self.nodes[node].kind
    }

    /// The block that holds `node`; none while it is detached or after it was erased.
    #[inline]
    pub fn block_of(&self, node: Node) -> Option<Block> {
        self.nodes[node].block
    }

    /// The node whose block holds `node`.
    pub fn enclosing(&self, node: Node) -> Option<Node> {
        self.block_of(node).and_then(|block| self.owner_node(block))
    }

    /// The number of outputs of `node`.
    #[inline]
    pub fn num_outputs(&self, node: Node) -> usize {
        self.nodes[node].outputs.len()
    }

    /// Output `i`.
    #[inline]
    #[track_caller]
    pub fn output(&self, node: Node, i: usize) -> Value {
        self.nodes[node].outputs.get(&self.lists, i)
    }

    /// All outputs in order.
    #[inline]
    pub fn outputs(&self, node: Node) -> impl DoubleEndedIterator<Item = Value> + ExactSizeIterator + '_ {
        let list = self.nodes[node].outputs;
        (0..list.len()).map(move |i| list.get(&self.lists, i))
    }

    /// The output of a node that has exactly one.
    pub fn single_output(&self, node: Node) -> Option<Value> {
        (self.num_outputs(node) == 1).then(|| self.output(node, 0))
    }

    /// The blocks of `node`.
    #[inline]
    pub fn node_blocks(&self, node: Node) -> impl DoubleEndedIterator<Item = Block> + ExactSizeIterator + '_ {
        let list = self.nodes[node].blocks;
        (0..list.len()).map(move |i| list.get(&self.lists, i))
    }

    /// The number of blocks of `node`.
    #[inline]
    pub fn num_blocks(&self, node: Node) -> usize {
        self.nodes[node].blocks.len()
    }

    /// Block `i` of `node`.
    #[track_caller]
    pub fn node_block(&self, node: Node, i: usize) -> Block {
        self.nodes[node].blocks.get(&self.lists, i)
    }

    /// The attributes in their printed order.
    #[inline]
    pub fn attributes(&self, node: Node) -> &[(Symbol, Attribute)] {
        match self.nodes[node].attributes {
            0 => &[],
            index => &self.attributes[index as usize - 1],
        }
    }

    /// One attribute.
    pub fn attribute(&self, node: Node, name: Symbol) -> Option<&Attribute> {
        self.attributes(node).iter().find(|(n, _)| *n == name).map(|(_, value)| value)
    }

    /// The subgraph, which is printed as a section of its own.
    pub fn subgraph(&self, node: Node) -> Option<&Graph> {
        match self.attribute(node, attr::SUBGRAPH)? {
            Attribute::Graph(graph) => Some(graph),
            _ => None,
        }
    }

    /// The graph that computes the gradients of the subgraph, if the node has one.
    pub fn backward(&self, node: Node) -> Option<&Graph> {
        match self.attribute(node, attr::REVERSE_SUBGRAPH)? {
            Attribute::Graph(graph) => Some(graph),
            _ => None,
        }
    }

    /// The source location after `#`, without the mark.
    pub fn location(&self, node: Node) -> Option<&[u8]> {
        self.texts.get(self.nodes[node].location)
    }

    /// The text after `, scope:`.
    pub fn scope(&self, node: Node) -> Option<&[u8]> {
        self.texts.get(self.nodes[node].scope)
    }

    // ---- order within a block

    /// The node after `node` in its block.
    #[inline]
    pub fn next(&self, node: Node) -> Option<Node> {
        self.nodes[node].next
    }

    /// The node before `node` in its block.
    #[inline]
    pub fn prev(&self, node: Node) -> Option<Node> {
        self.nodes[node].prev
    }

    /// The first node of a block.
    #[inline]
    pub fn first(&self, block: Block) -> Option<Node> {
        self.blocks[block].first
    }

    /// The last node of a block.
    #[inline]
    pub fn last(&self, block: Block) -> Option<Node> {
        self.blocks[block].last
    }

    /// The nodes of a block in order. Do not edit while iterating: step with [`Graph::next`].
    pub fn nodes(&self, block: Block) -> impl Iterator<Item = Node> + '_ {
        std::iter::successors(self.first(block), |&node| self.next(node))
    }

    /// All nodes of the graph in printed order, nested ones after their owner. No recursion.
    pub fn all_nodes(&self) -> impl Iterator<Item = Node> + '_ {
        std::iter::successors(self.first_nested(self.root), |&node| self.next_printed(node))
    }

    /// All blocks in printed order, the root first.
    pub fn all_blocks(&self) -> impl Iterator<Item = Block> + '_ {
        std::iter::once(self.root).chain(self.all_nodes().flat_map(|node| self.node_blocks(node)))
    }

    fn first_nested(&self, block: Block) -> Option<Node> {
        self.first(block)
    }

    /// The node printed after `node`.
    fn next_printed(&self, node: Node) -> Option<Node> {
        if let Some(first) = self.node_blocks(node).find_map(|block| self.first(block)) {
            return Some(first);
        }
        let mut at = node;
        loop {
            if let Some(next) = self.next(at) {
                return Some(next);
            }
            let block = self.block_of(at)?;
            let owner = self.owner_node(block)?;
            let mut later = self.node_blocks(owner).skip_while(|&b| b != block).skip(1);
            if let Some(first) = later.find_map(|b| self.first(b)) {
                return Some(first);
            }
            at = owner;
        }
    }

    // ---- blocks

    /// The node that a block belongs to; none for the root.
    #[inline]
    pub fn owner_node(&self, block: Block) -> Option<Node> {
        self.blocks[block].owner
    }

    /// The hidden node whose outputs are the params.
    pub fn param_node(&self, block: Block) -> Node {
        self.blocks[block].param
    }

    /// The hidden node whose inputs are the results.
    pub fn return_node(&self, block: Block) -> Node {
        self.blocks[block].ret
    }

    /// The params of a block.
    pub fn params(&self, block: Block) -> impl DoubleEndedIterator<Item = Value> + ExactSizeIterator + '_ {
        self.outputs(self.param_node(block))
    }

    /// The results of a block.
    pub fn results(&self, block: Block) -> impl DoubleEndedIterator<Item = Value> + ExactSizeIterator + '_ {
        self.inputs(self.return_node(block))
    }

    /// The number of blocks that enclose a block.
    pub(crate) fn block_depth(&self, block: Block) -> u32 {
        self.blocks[block].depth
    }

    // ---- values

    /// The type; plain `Tensor` if the text has none.
    #[inline]
    pub fn ty(&self, value: Value) -> Type {
        self.values[value].ty.unwrap_or_else(Type::tensor)
    }

    /// The type, if the text or a pass set one.
    #[inline]
    pub fn written_type(&self, value: Value) -> Option<Type> {
        self.values[value].ty
    }

    /// The node that defines `value`: the hidden `prim::Param` for a param, `None` for an undefined
    /// name.
    #[inline]
    pub fn definer(&self, value: Value) -> Option<Node> {
        self.values[value].definer
    }

    /// The index of the value among the outputs of its definer.
    pub fn output_index(&self, value: Value) -> usize {
        self.values[value].index as usize
    }

    /// Whether `value` is a param of a block.
    pub fn is_param(&self, value: Value) -> bool {
        self.definer(value).is_some_and(|node| self.kind(node) == prim::PARAM)
    }

    /// Whether `value` still belongs to a node of the graph.
    pub(super) fn is_live(&self, value: Value) -> bool {
        self.definer(value).is_none_or(|node| self.block_of(node).is_some())
    }

    /// Bounds for side tables: one more than the greatest index.
    pub(crate) fn num_values(&self) -> usize {
        self.values.len()
    }

    /// Bounds for side tables: nodes ever made, hidden and erased ones included.
    pub fn num_node_rows(&self) -> usize {
        self.nodes.len()
    }

    /// The number of nodes ever made that a text shows: all but the two hidden ones of every block.
    pub fn num_shown_nodes(&self) -> usize {
        self.nodes.len() - 2 * self.blocks.len()
    }

    /// The value of a constant: the attribute of its `prim::Constant`, `Ok(None)` for the None
    /// constant.
    pub fn constant(&self, value: Value) -> Option<Option<&Attribute>> {
        let node = self.definer(value).filter(|&node| self.kind(node) == prim::CONSTANT)?;
        match self.attributes(node) {
            [] => Some(None),
            _ => self.attribute(node, attr::VALUE).map(Some),
        }
    }

    /// The value of an integer constant, or of a bool one as 0 or 1.
    pub fn constant_int(&self, value: Value) -> Option<i64> {
        self.constant(value)??.as_int()
    }

    /// The integers of a constant list, or of a list made of constants.
    pub fn constant_ints(&self, value: Value) -> Option<Vec<i64>> {
        let definer = self.definer(value)?;
        if self.kind(definer) == prim::LIST_CONSTRUCT {
            return self.inputs(definer).map(|element| self.constant_int(element)).collect();
        }
        match self.constant(value)?? {
            Attribute::List(all) => all.iter().map(Attribute::as_int).collect(),
            Attribute::EmptyList(_) => Some(Vec::new()),
            _ => None,
        }
    }

    /// The bytes held by the graph itself and by texts (names, locations, scopes), nested graphs
    /// included.
    pub fn bytes(&self) -> (usize, usize) {
        let tables = self.nodes.bytes() + self.values.bytes() + self.blocks.bytes() + self.uses.bytes();
        let attributes = self.attributes.capacity() * size_of::<AttributeList>();
        let (names, text) = self.names.bytes();
        let mut total = (tables + attributes + self.lists.bytes() + names, text + self.texts.bytes());
        let nested = self.attributes.iter().flatten().filter_map(|(_, value)| match value {
            Attribute::Graph(graph) => Some(graph.bytes()),
            _ => None,
        });
        for (own, text) in nested {
            total = (total.0 + own, total.1 + text);
        }
        total
    }
}
