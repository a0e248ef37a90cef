//! Points of operands and results that disagree about the innermost dimension, by blocks of
//! threads: through shared memory.
//!
//! A warp is to read neighbouring elements. Those of a transposed operand are neighbours along
//! another dimension than the innermost one, so that each lane would read from a sector of its own.
//! Blocks take squares of points instead. They copy the elements of transposed operands, with lanes
//! along the dimension in which these are neighbours, and read the copies with lanes along the
//! other one; transposed results go the other way:
//!
//! ```text
//! square of in0: shared by threads, Float
//! for each square of 32 x 32 points, a block of threads each
//!   locate the square in in0, in1, out0
//!   for each of 4 strips of the square, lanes down
//!     if down < end down && across < end across
//!       locate the point in in0
//!       square of in0 = in0[i]                     # %x
//!   barrier
//!   for each of 4 strips of the square, lanes across
//!     if down < end down && across < end across
//!       locate the point in in1, out0
//!       v_x = in0[i]                               of the square
//!       v_y = in1[i]
//!       out0[i] = v_x + v_y
//!   barrier                                        the next square overwrites that of in0
//! ```
//!
//! Lines of squares are four bytes longer than their sides, or one element that has more, so that
//! neither way has a bank with two words for a warp. A launch decides which dimension takes the
//! place before the innermost one: points are independent of each other, so that their order does
//! not matter. Values are computed by the same statements as without squares.

use super::build::{Builder, known, term};
use super::state_rules::IS_IN_SPACE;
use super::{Axis, Bind, For, Known, Stmt, Way};
use crate::codegen::kernel_plan::{Grid, SIDE, crossed};

impl Builder<'_> {
    /// The loop over squares.
    pub(super) fn squares_on_grid(&mut self, grid: Grid) {
        (self.nest.threads, self.nest.side) = (Some(grid.threads), SIDE);
        let loads = self.kernel.loads.len();
        let all: Vec<usize> = (0..self.kernel.accesses()).collect();
        let through = crossed(self.loops.traversal);
        through.iter().for_each(|&at| self.nest.accesses[at].is_crossed = true);
        self.nest.body.extend(through.iter().map(|&at| Stmt::MakeSquare(at)));
        let (filled, emptied): (Vec<usize>, Vec<usize>) = through.iter().partition(|&&at| at < loads);
        let others: Vec<usize> = all.iter().copied().filter(|at| !through.contains(at)).collect();
        let strips = SIDE * SIDE / grid.threads;
        let mut body = vec![Stmt::Locate { accesses: all, at: Axis::Squares(SIDE) }];
        if !filled.is_empty() {
            let fill = |&access: &usize| Stmt::FillSquare { access, note: self.kernel.loads[access].line.clone() };
            body.push(in_strips((strips, Way::Down), &filled, filled.iter().map(fill).collect()));
            body.push(Stmt::Barrier);
        }
        let mut computed = Vec::new();
        self.element(0, &self.loops.aims(0), &mut computed);
        body.push(in_strips((strips, Way::Across), &others, computed));
        body.push(Stmt::Barrier);
        if !emptied.is_empty() {
            let empty = |&access: &usize| Stmt::EmptySquare { access, note: "a result".to_owned() };
            body.push(in_strips((strips, Way::Down), &emptied, emptied.iter().map(empty).collect()));
            // Those of operands have a barrier between what is read of them and the next square.
            body.extend(filled.is_empty().then_some(Stmt::Barrier));
        }
        self.nest.body.push(For::over(Axis::Squares(SIDE), Bind::Block, body));
    }
}

/// The statements of threads that have a point of the space, which they locate in some accesses.
fn in_strips((strips, way): (usize, Way), accesses: &[usize], body: Vec<Stmt>) -> Stmt {
    let located = (!accesses.is_empty()).then(|| Stmt::Locate { accesses: accesses.to_vec(), at: Axis::Points });
    let operands = [('i', Known::Down), ('h', Known::DownEnd), ('j', Known::Across), ('w', Known::AcrossEnd)];
    let when = term(IS_IN_SPACE, operands.map(|(letter, number)| (letter, known(number))));
    let body = located.into_iter().chain(body).collect();
    For::over(Axis::Strips(strips, way), Bind::Unroll, vec![Stmt::If { when, body }])
}

#[cfg(test)]
mod tests {
    use crate::codegen::geometry::{View, settle};
    use crate::codegen::kernel_plan::Plan;
    use crate::codegen::nest::verification::verify;
    use crate::codegen::nest::{For, Nest, Stmt};
    use crate::codegen::target::CUDA;
    use crate::codegen::whole_graph::kernels;
    use crate::tensor::Dims;
    use crate::text::{ParseOptions, parse};

    /// The nest of squares of a transposed operand and a transposed result, if they are there.
    fn squares(section: &str) -> Nest {
        let text = format!(
            "graph(%a : Float(*, *), %b : Float(*, *)):
  %p : Tensor, %q : Tensor = prim::FusionGroup_0(%a, %b)
  return (%p, %q)
with prim::FusionGroup_0 = graph(%x : Float(*, *), %t : Float(*, *)):
  %one : int = prim::Constant[value=1]()
  {section}
"
        );
        let graph = parse(text.as_bytes(), ParseOptions::default()).expect("a graph").graph;
        let kernel = kernels(&graph, None, &CUDA).planned.remove(0).kernel;
        let view = |strides: [i64; 2]| {
            Some(View { shape: Dims::from_slice(&[64, 96]), strides: Dims::from_slice(&strides), offset: 0 })
        };
        let traversal = settle(&kernel, &[view([96, 1]), view([1, 64])]).expect("a space").traversal;
        let plan: Plan = (CUDA.choose)(&kernel, &traversal);
        CUDA.nests(&kernel, &traversal, &plan).expect("nests").squares.expect("squares")
    }

    /// Removes the n-th of some statements.
    fn remove(stmts: &mut Vec<Stmt>, n: &mut usize, is_one: &dyn Fn(&Stmt) -> bool) {
        stmts.retain(|stmt| {
            let goes = is_one(stmt) && *n == 0;
            *n = n.wrapping_sub(usize::from(is_one(stmt)));
            !goes
        });
        for stmt in stmts {
            if let Stmt::For(For { body, .. }) | Stmt::If { body, .. } = stmt {
                remove(body, n, is_one);
            }
        }
    }

    /// The lines of a group, the number and the kind of a statement, and the finding without it.
    type Case<'a> = (&'a str, usize, &'a dyn Fn(&Stmt) -> bool, &'a str);

    #[test]
    fn removed_barriers_and_copies_are_refused() {
        let is_barrier = |stmt: &Stmt| matches!(stmt, Stmt::Barrier);
        let is_copy = |stmt: &Stmt| matches!(stmt, Stmt::FillSquare { .. });
        let is_made = |stmt: &Stmt| matches!(stmt, Stmt::MakeSquare(_));
        let one = "%y : Tensor = aten::add(%x, %t, %one)\n  %z : Tensor = aten::neg(%x)\n  return (%y, %z)";
        let two = "%y : Tensor = aten::neg(%x)\n  %z : Tensor = aten::neg(%t)\n  return (%y, %z)";
        let cases: [Case<'_>; 7] = [
            (one, 0, &is_barrier, "no barrier is between a write of the square of in1 and its read"),
            (one, 1, &is_barrier, "no barrier is between a read of the square of in1 and this write"),
            (two, 0, &is_barrier, "no barrier is between a write of the square of in1 and its read"),
            (two, 1, &is_barrier, "no barrier is between a write of the square of out1 and its read"),
            (one, 0, &is_copy, "the square of in1 is read before it is filled"),
            (one, 0, &is_made, "the square of in1 is not made"),
            (two, 1, &is_made, "the square of out1 is not made"),
        ];
        for (section, n, is_one, expected) in cases {
            let mut nest = squares(section);
            verify(&nest).expect("the nest is right");
            remove(&mut nest.body, &mut { n }, is_one);
            let why = verify(&nest).expect_err(expected);
            assert!(why.ends_with(expected), "{section}, {n}: {why}");
        }
    }
}
