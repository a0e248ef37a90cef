//! Splits groups that no single kernel can run into a few that can.
//!
//! A kernel has one iteration space. Whether all of a group fits one depends on sizes, which types
//! need not give, and PyTorch's own rules form groups that do not:
//!
//! ```text
//! %s : Float(2, 1) = aten::sqrt(%a)               | a kernel over [2, 1]
//! %y : Float(2, 64) = aten::mul(%x, %s)           | a kernel over [2, 64], which reads %s
//! return (%y, %s)                                 | one kernel cannot write both
//! ```
//!
//! Nodes are visited in order, and each joins the last piece that it can: after those that compute
//! its operands, and such that the piece still has a kernel. Values that later pieces or the
//! group's reader need are results of a piece. Numbers, lists and chunks of operands are copied
//! into each piece that reads them, and so are conversions without effect, which are no kernel
//! alone.

use crate::codegen::geometry::View;
use crate::codegen::lowering::Argument;
use crate::ir::{Graph, Node, Value};
use crate::ops::formulas::formulas;
use crate::outlining::{Excerpt, excerpt};
use crate::symbol::prim;
use rustc_hash::{FxHashMap, FxHashSet};

/// The size limit of groups that are divided: each node may be tried in several pieces.
const MOST_NODES: usize = 128;
/// The number of pieces that a node is tried in, from the last one on.
const TRIES: usize = 4;

/// The known properties of a value before a run: its type, and the layout of a tensor.
pub type Known = (Argument, Option<View>);

/// The results of a section on its operands, if one kernel can run it.
pub(crate) type Fits<'a> = dyn Fn(&Graph, &[Known]) -> Option<Vec<Known>> + 'a;

/// The pieces of a section whose operands are known, in execution order. `fits` returns the results
/// of a piece, if a kernel can run it.
///
/// `None` where one of the nodes alone has no kernel, or where there would be one piece.
pub(crate) fn divide(section: &Graph, operands: &[Known], fits: &Fits<'_>) -> Option<Vec<Excerpt>> {
    let root = section.root();
    let known: FxHashMap<Value, Known> = section.params(root).zip(operands.iter().cloned()).collect();
    let nodes: Vec<Node> = section.nodes(root).filter(|&node| !goes_along(section, node)).collect();
    if nodes.len() > MOST_NODES {
        return None;
    }
    let (pieces, piece_of, idle) = Default::default();
    let mut division = Divider { section, fits, known, pieces, piece_of, idle };
    nodes.into_iter().try_for_each(|node| division.place(node))?;
    let pieces: Vec<Excerpt> = division.pieces.iter().map(|nodes| division.piece(nodes)).collect();
    let made: FxHashSet<Value> = pieces.iter().flat_map(|piece| piece.results.iter().copied()).collect();
    (pieces.len() > 1 && section.results(root).all(|result| made.contains(&result))).then_some(pieces)
}

/// Whether a node is copied into each piece that reads it.
fn goes_along(section: &Graph, node: Node) -> bool {
    [prim::CONSTANT, prim::LIST_CONSTRUCT, prim::CONSTANT_CHUNK].contains(&section.kind(node))
}

struct Divider<'g> {
    section: &'g Graph,
    fits: &'g Fits<'g>,
    known: FxHashMap<Value, Known>,
    pieces: Vec<Vec<Node>>,
    piece_of: FxHashMap<Node, usize>,
    /// Conversions without effect.
    idle: FxHashSet<Node>,
}

impl Divider<'_> {
    /// Puts a node into the last piece that it can join, or into a new one.
    fn place(&mut self, node: Node) -> Option<()> {
        let first = self.first_piece(node);
        let last = self.pieces.len();
        for at in (first..last).rev().take(TRIES) {
            let nodes: Vec<Node> = self.pieces[at].iter().copied().chain([node]).collect();
            if self.settle(&nodes).is_some() {
                self.pieces[at] = nodes;
                self.piece_of.insert(node, at);
                return Some(());
            }
        }
        if self.settle(&[node]).is_none() {
            // Any other fault also fails the pieces that read it.
            let converts = formulas(self.section.kind(node)).iter().any(|formula| formula.only_converts());
            return converts.then(|| self.idle.insert(node)).map(drop);
        }
        self.pieces.push(vec![node]);
        self.piece_of.insert(node, last);
        Some(())
    }

    /// The first piece that may read all operands of a node.
    fn first_piece(&self, node: Node) -> usize {
        let (mut open, mut first) = (vec![node], 0);
        while let Some(node) = open.pop() {
            for definer in self.section.inputs(node).filter_map(|value| self.section.definer(value)) {
                match self.piece_of.get(&definer) {
                    Some(&piece) => first = first.max(piece),
                    None if self.goes_along(definer) => open.push(definer),
                    None => {}
                }
            }
        }
        first
    }

    /// Records the results of a piece, if a kernel can run it.
    fn settle(&mut self, nodes: &[Node]) -> Option<()> {
        let piece = self.piece(nodes);
        let operands: Option<Vec<Known>> = piece.operands.iter().map(|value| self.known.get(value).cloned()).collect();
        let results = (self.fits)(&piece.section, &operands?)?;
        self.known.extend(piece.results.into_iter().zip(results));
        Some(())
    }

    /// A new section of some nodes of this one.
    fn piece(&self, nodes: &[Node]) -> Excerpt {
        excerpt(self.section, nodes, |node| self.goes_along(node))
    }

    fn goes_along(&self, node: Node) -> bool {
        goes_along(self.section, node) || self.idle.contains(&node)
    }
}
