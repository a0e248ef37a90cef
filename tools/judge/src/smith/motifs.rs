//! Boundary cases of rewrites: a few nodes each, with parameters of their own, that match the
//! pattern of a pass exactly or nearly.
//!
//! Random choice rarely generates such graphs, and surrounding nodes keep passes from matching. So
//! these motifs have few surrounding nodes, and their operands are finite, have fitting sizes, and
//! are written by no other node.

mod conditions;
mod each_iteration;
mod given_gradients;
mod matrices;
mod near_groups;
mod near_patterns;
mod shared_memory;

use super::{Known, Smith, copies, refined, returned};
use jitopt_core::interpreter::IValue;
use jitopt_core::ir::Value;
use jitopt_core::symbol::prim;
use jitopt_core::tensor::{DType, Precision, Tensor};
use jitopt_core::types::Type;
use jitopt_core::types::spelling::parse_all;

/// Generates a motif; a partial one leaves dead nodes.
type Motif = fn(&mut Smith) -> Option<()>;

const MOTIFS: &[Motif] = &[
    Smith::sum_of_matrices,
    Smith::factors_between_writes,
    Smith::scaled_summand,
    Smith::nearly_linear,
    Smith::draws_each_iteration,
    Smith::made_each_iteration,
    Smith::fails_in_no_iteration,
    Smith::counted_by_a_param,
    Smith::constant_written_each_iteration,
    Smith::made_before_the_loop,
    Smith::view_each_iteration,
    Smith::branch_of_two_names,
    Smith::written_in_wider_elements,
    Smith::joined_of_joined,
    Smith::list_grows,
    Smith::perhaps_itself,
    Smith::held_by_a_list,
    Smith::gradients_given,
    Smith::gradients_given,
    Smith::float_compared,
    Smith::raises_otherwise,
    Smith::float_less_zero,
    Smith::summed_to_sizes,
    Smith::neutral_of_integers,
    Smith::list_length_tested,
    Smith::neutral_of_bools,
    Smith::attended_twice,
    Smith::draws_of_constants,
    Smith::norm_of_few_bits,
    Smith::integers_in_patterns,
    Smith::rectified_and_turned,
    Smith::rectified_often,
    Smith::negated_twice,
    Smith::joined_of_joined,
    Smith::computed_and_divided,
    Smith::computed_and_divided,
    Smith::divided_both_ways,
    Smith::size_on_the_way,
    Smith::joined_after_a_write,
    Smith::drawn_on_the_way,
    Smith::windows,
    Smith::sizes_not_reported,
    Smith::sizes_not_reported,
    Smith::held_by_a_tuple,
    Smith::norm_of_zeros,
    Smith::norm_that_trains,
    Smith::summed_to_sizes,
    Smith::passed_back,
    Smith::passed_back,
    Smith::infinite_in_identities,
    Smith::neutral_of_bools,
];

/// Motifs after which the graph raises an exception itself.
const ENDS: &[Motif] = &[Smith::products_around_a_raise, Smith::raises_each_iteration];

impl Smith {
    /// A graph of several motifs and a few other nodes.
    pub(super) fn with_motifs(&mut self, nodes: usize) {
        self.pure = true;
        self.fill(nodes / 6);
        for _ in 0..3 + self.draws.below(4) {
            self.motif(MOTIFS);
        }
        if self.chance(6) {
            self.motif(ENDS);
        }
    }

    fn motif(&mut self, from: &[Motif]) {
        let (motif, seen) = (self.pick(from), self.known.len());
        _ = motif(self);
        self.known.truncate(seen);
    }

    // ---- params

    fn given(&mut self, value: IValue, ty: Type) -> Known {
        let param = self.graph.add_param(self.graph.root(), ty);
        self.graph.set_name(param, format!("x{}", self.inputs.len()).as_bytes());
        let known = (param, copies(std::slice::from_ref(&value), Precision::Typed).remove(0));
        self.inputs.push(value);
        known
    }

    fn flag(&mut self) -> Known {
        let value = self.chance(2);
        self.given(IValue::Bool(value), Type::bool())
    }

    fn tensor_of_shape(&mut self, shape: &[i64], dtype: DType) -> IValue {
        let n: i64 = shape.iter().product();
        let number = |smith: &mut Smith| match dtype.is_float() {
            true => smith.draws.normal(),
            false => smith.draws.int(0, 4) as f64,
        };
        let elements: Vec<f64> = (0..n).map(|_| number(self)).collect();
        IValue::Tensor(Tensor::of(&elements, dtype, shape, Precision::Typed))
    }

    /// A tensor with a complete type.
    fn typed(&mut self, shape: &[i64], dtype: DType) -> Known {
        let value = self.tensor_of_shape(shape, dtype);
        let ty = value.tensor().map_or(Type::tensor(), refined);
        self.given(value, ty)
    }

    /// A tensor with an unrefined type.
    fn untyped(&mut self, shape: &[i64], dtype: DType) -> Known {
        let value = self.tensor_of_shape(shape, dtype);
        self.given(value, Type::tensor())
    }

    /// A floating-point matrix whose type does not contain sizes.
    fn partly_typed(&mut self, shape: &[i64]) -> Known {
        let value = self.tensor_of_shape(shape, DType::Float);
        self.given(value, parse_all(b"Float(*, *)").unwrap_or(Type::tensor()))
    }

    fn floats(&mut self, shape: &[i64]) -> Known {
        if self.chance(2) { self.typed(shape, DType::Float) } else { self.untyped(shape, DType::Float) }
    }

    // ---- nodes

    /// Gives a tensor its complete type, if it is computed once, from parameters of one motif
    /// alone.
    fn complete_type(&mut self, known: &Known) {
        if let Some(tensor) = known.1.tensor() {
            self.graph.set_type(known.0, refined(tensor));
        }
    }

    fn one(&mut self) -> Known {
        self.constant(IValue::Int(1))
    }

    /// Fresh memory with the numbers of `x`, negative ones replaced by 0.
    fn rectified(&mut self, x: &Known) -> Option<Known> {
        self.made_of("aten::relu", std::slice::from_ref(x))
    }

    fn of(&mut self, kind: &str, x: &Known) -> Option<Known> {
        self.made_of(kind, std::slice::from_ref(x))
    }

    fn sum(&mut self, a: &Known, b: &Known) -> Option<Known> {
        let one = self.one();
        self.made_of("aten::add", &[a.clone(), b.clone(), one])
    }

    /// Adds one in place.
    fn grow(&mut self, x: &Known) -> Option<Known> {
        let one = self.one();
        self.made_of("aten::add_", &[x.clone(), one.clone(), one])
    }

    /// A node that does not run now: it would raise, or is not reached.
    fn unrun(&mut self, kind: &str, operands: &[Value], ty: Type) -> Value {
        let node = self.graph.create_op(jitopt_core::symbol::Symbol::new(kind), operands, ty);
        self.graph.append(self.block, node);
        self.graph.output(node, 0)
    }

    fn see(&mut self, known: &Known) -> Option<()> {
        self.shown(known.0);
        Some(())
    }

    /// Makes a number observable in a tensor whose element type shows the type of the number.
    fn see_number(&mut self, number: &Known) -> Option<()> {
        let tensor = self.of("prim::NumToTensor", number)?;
        self.see(&tensor)
    }

    // ---- blocks

    /// A branch: the results of both blocks, with the values of the one taken.
    fn either(
        &mut self,
        condition: &Known,
        side: &dyn Fn(&mut Smith, bool) -> Option<Vec<Known>>,
    ) -> Option<Vec<Known>> {
        let node = self.graph.create(prim::IF);
        self.graph.add_input(node, condition.0);
        self.graph.append(self.block, node);
        let taken = matches!(condition.1, IValue::Bool(true));
        let mut values = Vec::new();
        for is_then in [true, false] {
            let block = self.graph.add_block(node);
            let (outer, seen) = (std::mem::replace(&mut self.block, block), self.known.len());
            let results = side(self, is_then);
            self.block = outer;
            self.known.truncate(seen);
            let Some(results) = results else {
                self.graph.erase(node);
                return None;
            };
            results.iter().for_each(|result| self.graph.add_result(block, result.0));
            if is_then == taken {
                values = results.into_iter().map(|result| result.1).collect();
            }
        }
        let known = |smith: &mut Smith, value: IValue| (smith.graph.add_output(node, returned(&value)), value);
        Some(values.into_iter().map(|value| known(self, value)).collect())
    }

    /// A loop with a carried value; its known content is that after one iteration, so later nodes
    /// must accept any value.
    fn iterations(
        &mut self,
        trips: &Known,
        start: &Known,
        body: &dyn Fn(&mut Smith, &Known, &Known) -> Option<Known>,
    ) -> Option<Known> {
        let goes_on = self.constant(IValue::Bool(true));
        let node = self.graph.create(prim::LOOP);
        [trips, &goes_on, start].into_iter().for_each(|value| self.graph.add_input(node, value.0));
        self.graph.append(self.block, node);
        let block = self.graph.add_block(node);
        let counter = (self.graph.add_param(block, Type::int()), IValue::Int(0));
        let state = (self.graph.add_param(block, returned(&start.1)), start.1.clone());
        let (outer, seen) = (std::mem::replace(&mut self.block, block), self.known.len());
        let end = body(self, &counter, &state);
        self.block = outer;
        self.known.truncate(seen);
        let Some(end) = end else {
            self.graph.erase(node);
            return None;
        };
        [goes_on.0, end.0].into_iter().for_each(|value| self.graph.add_result(block, value));
        Some((self.graph.add_output(node, returned(&start.1)), end.1))
    }

    fn few_iterations(&mut self) -> Known {
        let trips = self.draws.int(2, 5);
        self.constant(IValue::Int(trips))
    }
}
