//! Order tags: `u64` keys that make "does `a` precede `b`?" one comparison.
//!
//! Appending and prepending step by [`STEP`]; inserting takes the midpoint of the neighbours. When
//! they touch, the smallest aligned tag range around them that is still sparse enough is respread
//! evenly (Bender et al., "Two simplified algorithms for maintaining order in a list", 2002), so an
//! insertion costs O(log n) tag writes amortised at any position. Inlining and unrolling insert
//! whole bodies before one node, so this case is ordinary.

use super::graph::{Graph, Node};

/// Tag of the first node of a block: room for 2^30 steps on either side.
const FIRST: u64 = 1 << 62;
/// Distance between neighbours that were appended.
const STEP: u64 = 1 << 32;
/// The density bound of a range: tags per doubling of its width; between 1 and 2, smaller moves
/// more and respreads less often.
const SPREAD: f64 = 1.3;

impl Graph {
    /// Whether `a` precedes `b`; across blocks the enclosing nodes in their common block decide. A
    /// node precedes those nested in it. The time is linear in the difference of depths.
    pub fn is_before(&self, a: Node, b: Node) -> bool {
        let (outer_a, outer_b) = self.in_common_block(a, b);
        match outer_a == outer_b {
            true => outer_a == a && a != b,
            false => self.order_of(outer_a) < self.order_of(outer_b),
        }
    }

    /// The nodes of the innermost common block that are, or enclose, `a` and `b`.
    pub fn in_common_block(&self, mut a: Node, mut b: Node) -> (Node, Node) {
        while self.block_of(a) != self.block_of(b) {
            let (depth_a, depth_b) = (self.depth(a), self.depth(b));
            if depth_a >= depth_b {
                a = self.enclosing(a).expect("nodes of one graph share at least the root block");
            }
            if depth_b >= depth_a {
                b = self.enclosing(b).expect("nodes of one graph share at least the root block");
            }
        }
        (a, b)
    }

    fn depth(&self, node: Node) -> u32 {
        self.block_of(node).map_or(0, |block| self.blocks[block].depth)
    }

    /// The tag, which increases along a block.
    pub(crate) fn order_of(&self, node: Node) -> u64 {
        self.nodes[node].order
    }

    /// Assigns a tag to `node`, which was just linked into its block.
    pub(super) fn assign_order(&mut self, node: Node) {
        let (prev, next) = (self.nodes[node].prev, self.nodes[node].next);
        let prev_tag = prev.map(|n| self.order_of(n));
        let next_tag = next.map(|n| self.order_of(n));
        let tag = match (prev_tag, next_tag) {
            (None, None) => Some(FIRST),
            (Some(p), None) => p.checked_add(STEP).filter(|&tag| tag < u64::MAX),
            // Tag 0 belongs to the hidden Param.
            (None, Some(n)) => n.checked_sub(STEP).filter(|&tag| tag > 0),
            (Some(p), Some(n)) if n - p > 1 => Some(p + (n - p) / 2),
            (Some(_), Some(_)) => None,
        };
        match tag {
            Some(tag) => self.nodes[node].order = tag,
            None => self.respread(node),
        }
    }

    /// O(log n) amortised: makes room around `node`, which has no tag yet, and tags it.
    fn respread(&mut self, node: Node) {
        let near = self.nodes[node].prev.or(self.nodes[node].next).expect("a crowded node has a neighbour");
        let centre = self.order_of(near);
        let (mut left, mut right, mut count) = (node, node, 1u64);
        let mut limit = 1.0;
        for bits in 1..64 {
            let low = centre >> bits << bits;
            let high = low + ((1 << bits) - 1);
            limit *= 2.0 / SPREAD;
            while let Some(prev) = self.nodes[left].prev.filter(|&p| self.order_of(p) >= low) {
                (left, count) = (prev, count + 1);
            }
            while let Some(next) = self.nodes[right].next.filter(|&n| self.order_of(n) <= high) {
                (right, count) = (next, count + 1);
            }
            if (count as f64) < limit && count < (1 << bits) - 1 {
                return self.spread_evenly(left, right, count, low, high);
            }
        }
        unreachable!("a block of fewer than 2^32 nodes is sparse in 2^63 tags")
    }

    fn spread_evenly(&mut self, left: Node, right: Node, count: u64, low: u64, high: u64) {
        let step = (high - low) / (count + 1);
        let (mut tag, mut node) = (low, left);
        loop {
            tag += step;
            self.nodes[node].order = tag;
            if node == right {
                return;
            }
            node = self.nodes[node].next.expect("`right` comes after `left`");
        }
    }
}
