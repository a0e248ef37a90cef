//! Redundant code that programs contain and passes simplify: neutral operands, numbers converted to
//! tensors and back, conditions with known outcomes; together with similar code that must not be
//! simplified.

use super::{Known, O, Smith, refined, returned};
use jitopt_core::interpreter::IValue;
use jitopt_core::ir::Value;
use jitopt_core::symbol::prim;
use jitopt_core::tensor::DType;
use jitopt_core::types::{Simple, Type, TypeKind};

impl Smith {
    /// One of these idioms.
    pub(super) fn idiom(&mut self) {
        let made = match self.draws.below(10) {
            0 | 1 => self.with_neutral(),
            2 => self.joined_twice(),
            3 => self.same_key_twice(),
            4 => self.cast_like(),
            5 if self.depth > 0 => self.tested_twice(),
            6 if self.depth > 0 => self.length_tested(),
            7 => self.number_as_tensor(),
            8 => self.of_constants(),
            _ => self.real_numbers(),
        };
        let Some(made) = made else { return };
        // A result that may alias another value is not returned itself.
        let last = if self.chance(3) { None } else { self.made_of("aten::neg", std::slice::from_ref(&made)) };
        self.shown(last.unwrap_or(made).0);
    }

    /// A tensor with a complete type.
    fn exact(&mut self) -> Option<Known> {
        let x = self.earlier(O::Tensor)?;
        let zero = IValue::Float(if self.chance(2) { -0.0 } else { 0.0 });
        let made = match self.draws.below(4) {
            0 => self.made_of("aten::alias", &[x])?,
            // Zeros of both signs.
            1 => {
                let zero = self.constant(zero);
                self.made_of("aten::mul", &[x, zero])?
            }
            _ => self.made_of("aten::relu", std::slice::from_ref(&x)).or_else(|| self.made_of("aten::alias", &[x]))?,
        };
        if self.is_certain() && !self.chance(4) {
            made.1.tensor().into_iter().for_each(|tensor| self.graph.set_type(made.0, refined(tensor)));
        }
        Some(made)
    }

    fn number_among(&mut self, numbers: &[f64]) -> Known {
        let x = self.pick(numbers);
        let whole = x.fract() == 0.0 && self.chance(2);
        self.constant(if whole { IValue::Int(x as i64) } else { IValue::Float(x) })
    }

    /// `x + 0`, `x - 0`, `x * 1`, `x / 1`, and near misses.
    fn with_neutral(&mut self) -> Option<Known> {
        let x = self.exact()?;
        match self.draws.below(4) {
            0 | 1 => {
                let n = self.number_among(&[0.0, 0.0, -0.0, 1.0]);
                let alpha = self.number_among(&[1.0, 1.0, 2.0, 0.0]);
                let kind = self.pick(&["aten::add", "aten::sub"]);
                self.made_of(kind, &[x, n, alpha])
            }
            _ => {
                let n = self.number_among(&[1.0, 1.0, 1.0, 2.0]);
                let kind = self.pick(&["aten::mul", "aten::div", "aten::pow"]);
                self.made_of(kind, &[x, n])
            }
        }
    }

    /// A concatenation of concatenations.
    fn joined_twice(&mut self) -> Option<Known> {
        let (x, element) = (self.exact()?, Type::tensor());
        let kind = self.pick(&["aten::neg", "aten::alias", "aten::relu"]);
        let y = self.made_of(kind, std::slice::from_ref(&x))?;
        let y = if self.chance(3) { self.cast(y)? } else { y };
        let dims = [IValue::Int(self.draws.int(-1, 2)), IValue::Int(self.draws.int(-1, 2))];
        let [first, second] = dims;
        let parts = self.list(&[x.clone(), y.clone()], element)?;
        let dim = self.constant(first.clone());
        let inner = self.made_of("aten::cat", &[parts, dim])?;
        if !self.pure && self.chance(3) {
            let one = self.constant(IValue::Int(1));
            let written = if self.chance(2) { y } else { inner.clone() };
            self.made_of("aten::add_", &[written, one.clone(), one])?;
        }
        let again = if self.chance(2) { first } else { second };
        let like_it = self.made_of("aten::neg", std::slice::from_ref(&inner)).unwrap_or(inner.clone());
        let other = self.pick(&[x, inner.clone(), like_it]);
        let parts = self.list(&[inner, other], element)?;
        let dim = self.constant(again);
        self.made_of("aten::cat", &[parts, dim])
    }

    pub(super) fn cast(&mut self, x: Known) -> Option<Known> {
        let dtype = self.pick(&[6i64, 7, 5, 4]);
        let (dtype, no, none) =
            (self.constant(IValue::Int(dtype)), self.constant(IValue::Bool(false)), self.constant(IValue::None));
        self.made_of("aten::to", &[x, dtype, no.clone(), no, none])
    }

    /// A dict with a duplicate key: the last value counts.
    fn same_key_twice(&mut self) -> Option<Known> {
        let (a, b) = (self.earlier(O::Tensor)?, self.earlier(O::Tensor)?);
        let keys = [self.constant(IValue::from("a")), self.constant(IValue::from("a"))];
        let ty = Type::new(TypeKind::Dict(Type::simple(Simple::Str), Type::tensor()));
        let node = self.graph.create_op(prim::DICT_CONSTRUCT, &[keys[0].0, a.0, keys[1].0, b.0], ty);
        self.graph.append(self.block, node);
        let [first, second] = keys;
        let dict = (self.graph.output(node, 0), IValue::dict([(first.1.clone(), a.1), (second.1, b.1)]));
        self.known.push(dict.clone());
        self.made_of("aten::__getitem__", &[dict, first])
    }

    fn cast_like(&mut self) -> Option<Known> {
        let (x, y) = (self.exact()?, self.exact()?);
        let y = if self.chance(2) { y } else { self.cast(y)? };
        if let Some(tensor) = y.1.tensor().filter(|_| self.is_certain()) {
            self.graph.set_type(y.0, refined(tensor));
        }
        self.made_of("aten::type_as", &[x, y])
    }

    /// A branch that is equivalent to its condition, and one that tests the condition again.
    fn tested_twice(&mut self) -> Option<Known> {
        let condition = self.earlier(O::Bool)?;
        let answers = self.pick(&[[true, false], [true, false], [false, true], [true, true]]);
        let taken = usize::from(!matches!(condition.1, IValue::Bool(true)));
        let results: Vec<Vec<IValue>> = answers.iter().map(|&yes| vec![IValue::Bool(yes)]).collect();
        let made = self.branch_of(&condition, &results, taken)?;
        let x = self.earlier(O::Tensor)?;
        self.filled_with(&made, &x)
    }

    /// A branch with constant blocks; `taken` is the one that runs.
    fn branch_of(&mut self, condition: &Known, results: &[Vec<IValue>], taken: usize) -> Option<Known> {
        let node = self.graph.create(prim::IF);
        self.graph.add_input(node, condition.0);
        self.graph.append(self.block, node);
        for values in results {
            let block = self.graph.add_block(node);
            let outer = std::mem::replace(&mut self.block, block);
            let constants: Vec<Value> = values.iter().map(|value| self.constant(value.clone()).0).collect();
            constants.into_iter().for_each(|value| self.graph.add_result(block, value));
            self.block = outer;
        }
        let value = results[taken].first()?.clone();
        let output = self.graph.add_output(node, returned(&value));
        self.known.push((output, value.clone()));
        Some((output, value))
    }

    /// Makes a number observable in a tensor.
    fn filled_with(&mut self, number: &Known, x: &Known) -> Option<Known> {
        let none = self.constant(IValue::None);
        let more = std::iter::repeat_n(none, 5);
        let operands: Vec<Known> = [x.clone(), number.clone()].into_iter().chain(more).collect();
        self.made_of("aten::full_like", &operands)
    }

    /// A branch on the length of a list: the length is known in one branch only.
    fn length_tested(&mut self) -> Option<Known> {
        let parts: Vec<Known> = (0..1 + self.draws.below(3)).filter_map(|_| self.earlier(O::Tensor)).collect();
        let list = self.list(&parts, Type::tensor())?;
        let length = self.made_of("aten::len", std::slice::from_ref(&list))?;
        let other = IValue::Int(self.draws.int(1, 4));
        let other = self.constant(other);
        let kind = self.pick(&["aten::eq", "aten::ne"]);
        let condition = self.made_of(kind, &[length.clone(), other])?;
        let node = self.graph.create(prim::IF);
        self.graph.add_input(node, condition.0);
        self.graph.append(self.block, node);
        for _ in 0..2 {
            let block = self.graph.add_block(node);
            let (outer, seen) = (std::mem::replace(&mut self.block, block), self.known.len());
            let inner = self.made_of("aten::len", std::slice::from_ref(&list));
            inner.into_iter().for_each(|(value, _)| self.graph.add_result(block, value));
            self.known.truncate(seen);
            self.block = outer;
        }
        let output = self.graph.add_output(node, Type::int());
        self.known.push((output, length.1.clone()));
        Some((output, length.1))
    }

    /// A number becomes a tensor and a number again, of the same type or of another.
    fn number_as_tensor(&mut self) -> Option<Known> {
        let n = self.number_among(&[2.5, 3.0, -1.5, 0.0]);
        let tensor = self.made_of("prim::NumToTensor", &[n])?;
        let kind = self.pick(&["aten::Int", "aten::Float"]);
        let number = self.made_of(kind, &[tensor])?;
        let x = self.earlier(O::Tensor)?;
        self.filled_with(&number, &x)
    }

    /// Values that depend on constants alone, and others that only seem to: random numbers, and
    /// rounded constants.
    fn of_constants(&mut self) -> Option<Known> {
        let constant = self.tensor_constant()?;
        match self.draws.below(3) {
            0 if !self.inside => {
                let none = self.constant(IValue::None);
                let operands: Vec<Known> = std::iter::once(constant).chain(std::iter::repeat_n(none, 5)).collect();
                self.made_of("aten::rand_like", &operands)
            }
            1 => {
                let n = self.number_among(&[0.1, 3.0]);
                let made = self.made_of("aten::mul", &[constant, n])?;
                let one = self.constant(IValue::Int(1));
                let x = self.exact()?;
                self.made_of("aten::add", &[x, made, one])
            }
            _ => {
                let x = self.exact()?;
                let x = if self.chance(2) { self.cast(x)? } else { x };
                if let Some(tensor) = x.1.tensor().filter(|tensor| tensor.dtype() != DType::Bool && self.is_certain()) {
                    self.graph.set_type(x.0, refined(tensor));
                }
                let kind = self.pick(&["aten::mul", "aten::div"]);
                self.made_of(kind, &[x, constant])
            }
        }
    }

    /// Floating-point scalars: zeros of both signs, and NaN, which differs from itself.
    fn real_numbers(&mut self) -> Option<Known> {
        let x = self.earlier(O::Tensor)?;
        let zero = self.number_among(&[-0.0, 0.0]);
        let tensor = self.made_of("prim::NumToTensor", std::slice::from_ref(&zero))?;
        let real = self.made_of("aten::Float", &[tensor])?;
        let real = match self.draws.below(3) {
            0 => {
                let infinite = self.constant(IValue::Float(f64::INFINITY));
                self.made_of("aten::mul", &[real, infinite])?
            }
            _ => real,
        };
        match self.draws.below(2) {
            0 => {
                let same = self.made_of("aten::eq", &[real.clone(), real])?;
                self.filled_with(&same, &x)
            }
            _ => {
                let zero = self.number_among(&[-0.0, 0.0]);
                let sum = self.made_of("aten::add", &[real, zero])?;
                self.made_of("aten::mul", &[x, sum])
            }
        }
    }
}
