//! Lowers the section of a fusion group to a kernel.
//!
//! Element types are resolved here, once, by the rules of promotion: tensors with dimensions,
//! tensors without, and plain numbers are three classes. Constants become part of the kernel;
//! numbers that are operands of the group remain arguments.

mod numbers;
mod pool_taps;
mod recipe_steps;

use super::expression::{Expression, expression};
use super::kernel::{
    ColumnReduction, Input, Kernel, Limit, Load, Made, Outcome, Part, ResultLayout, Source, Step, Store,
};
use crate::analysis::axis_maps::{AxisMap, AxisMaps};
use crate::analysis::reduced_dims::recipes_of;
use crate::interpreter::{Environment, IValue, literal_values};
use crate::ir::{Attribute, Graph, Node, Value};
use crate::ops::formulas::{Formula, Typing, When, formulas};
use crate::ops::release_rules::{OperandTypes, Operands, ReleaseRow, release_rows};
use crate::ops::rows::window_rule;
use crate::symbol::{Symbol, attr, prim};
use crate::tensor::promotion::{Promotion, of_number, to_float_arithmetic};
use crate::tensor::{DType, Kind, Precision, Scalar, Tensor};
use crate::text::{PrintOptions, Printer};
use crate::types::release::Release;
use crate::types::{Simple, Type};
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::BTreeSet;
use std::fmt;

/// The type of an operand of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Argument {
    /// A tensor.
    Tensor {
        /// Its element type.
        dtype: DType,
        /// Whether it has dimensions.
        dimensioned: bool,
    },
    /// A plain number.
    Number(Kind),
    /// A value that kernels do not support.
    Other,
}

/// The reason why a group has no kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// In words.
    pub why: String,
    /// Whether a larger group may have one.
    pub cause: Cause,
}

/// The facts on which a refusal depends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// An operator has no formula or recipe for its operands, in whatever group.
    Operator,
    /// An operand of an operator has this element type; where all operands of the operator have
    /// it, another group may convert them.
    ElementType,
    /// The group: another one may have a kernel.
    Group,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.why)
    }
}

impl std::error::Error for Refusal {}

fn refuse<T>(why: impl Into<String>) -> Result<T, Refusal> {
    refuse_for(Cause::Group, why)
}

fn refuse_for<T>(cause: Cause, why: impl Into<String>) -> Result<T, Refusal> {
    Err(Refusal { why: why.into(), cause })
}

/// The operands of a section by the types of its params, and the assumptions made: `usual` where a
/// type has no element type.
pub fn arguments_of_types(section: &Graph, usual: DType) -> (Vec<Argument>, Vec<String>) {
    let mut assumed = Vec::new();
    let arguments = section.params(section.root()).map(|param| {
        let ty = section.ty(param);
        if let Some(tensor) = ty.as_tensor() {
            if tensor.dtype.is_none() {
                assumed.push(format!(
                    "%{} : {} is assumed, as its type has no element type",
                    section.name(param),
                    usual.name()
                ));
            }
            let dimensioned = tensor.rank() != Some(0);
            return Argument::Tensor { dtype: tensor.dtype.unwrap_or(usual), dimensioned };
        }
        number_of(ty).map_or(Argument::Other, Argument::Number)
    });
    (arguments.collect(), assumed)
}

fn number_of(ty: Type) -> Option<Kind> {
    match () {
        () if ty.is(Simple::Float) => Some(Kind::Float),
        () if ty.is(Simple::Int) => Some(Kind::Int),
        () if ty.is(Simple::Bool) => Some(Kind::Bool),
        () => None,
    }
}

/// The kind of a value of the section.
#[derive(Clone, Debug)]
enum Known {
    Tensor {
        source: Source,
        dtype: DType,
        dimensioned: bool,
        axis_map: AxisMap,
    },
    /// An operand of the group without a load so far.
    Operand {
        operand: usize,
        dtype: DType,
        dimensioned: bool,
    },
    Number {
        source: Source,
        kind: Kind,
    },
    /// A sum over other dimensions than those of rows, which no step reads.
    ColumnReduction(usize),
    Text(String),
    Numbers(Vec<i64>),
    Missing,
    /// Values that are concatenated along a dimension.
    Joined {
        parts: Vec<(Source, DType)>,
        dtype: DType,
        dim: i64,
        axis_map: AxisMap,
    },
    Other,
}

/// A tensor as a step reads it.
#[derive(Clone, Copy, Debug)]
struct Operand {
    source: Source,
    dtype: DType,
    dimensioned: bool,
}

/// Builds the kernel of a group.
///
/// Operators without a [`Formula`] for the element types of their operands, results that are views
/// of operands, and whatever one loop cannot compute are refused, with the reason.
pub fn lower(section: &Graph, group: &str, arguments: &[Argument], release: (u32, u32)) -> Result<Kernel, Refusal> {
    let kernel = Kernel { group: group.to_owned(), keeps_channels: release >= (1, 5), ..Kernel::default() };
    let axis_maps = AxisMaps::of(section).or_else(|clash| refuse(clash.0))?;
    let (known, names) = (FxHashMap::default(), FxHashSet::default());
    let mut lowering = Lowering { section, release, kernel, axis_maps, known, names };
    lowering.params(arguments);
    for node in section.nodes(section.root()) {
        lowering.node(node)?;
    }
    lowering.results()?;
    if lowering.kernel.has_scan() && lowering.kernel.has_arg_reductions() {
        return refuse("argmax or argmin together with scans: finding an element takes a second loop over its row");
    }
    if lowering.kernel.reductions.is_empty() && !lowering.kernel.column_reductions.is_empty() {
        // The unread one determines which dimensions a row has, and leaves no loop over rows.
        return refuse("a reduction whose result is not read, next to one over other dimensions; `dce` removes it");
    }
    pool_taps::without_whole_images(&mut lowering.kernel);
    lowering.kernel.operations = operations(&lowering.kernel);
    Ok(lowering.kernel)
}

fn operations(kernel: &Kernel) -> usize {
    let reduced: usize = kernel.reductions.iter().map(|reduction| if reduction.op.varies() { 3 } else { 1 }).sum();
    kernel.steps.iter().map(|step| step.formula.operations.max(1)).sum::<usize>() + reduced
}

struct Lowering<'g> {
    section: &'g Graph,
    release: (u32, u32),
    kernel: Kernel,
    axis_maps: AxisMaps,
    known: FxHashMap<Value, Known>,
    names: FxHashSet<String>,
}

impl Lowering<'_> {
    fn params(&mut self, arguments: &[Argument]) {
        for (operand, (param, argument)) in self.section.params(self.section.root()).zip(arguments).enumerate() {
            let known = match *argument {
                Argument::Tensor { dtype, dimensioned } => Known::Operand { operand, dtype, dimensioned },
                Argument::Number(Kind::Float) => {
                    self.kernel.floats.push(operand);
                    Known::Number { source: Source::Float(self.kernel.floats.len() - 1), kind: Kind::Float }
                }
                Argument::Number(kind @ (Kind::Int | Kind::Bool)) => {
                    self.kernel.integers.push(operand);
                    Known::Number { source: Source::Integer(self.kernel.integers.len() - 1), kind }
                }
                Argument::Number(Kind::Complex) | Argument::Other => Known::Other,
            };
            self.known.insert(param, known);
        }
    }

    fn node(&mut self, node: Node) -> Result<(), Refusal> {
        let kind = self.section.kind(node);
        // Where the type of a result is fixed or given, formulas would drop imaginary parts.
        if let Some(dtype) = self.operand_types(node).find(|dtype| dtype.is_complex()) {
            return refuse_for(Cause::Operator, format!("`{kind}` of {} has no formula", dtype.name()));
        }
        match kind {
            prim::CONSTANT => self.constant(node),
            prim::CONSTANT_CHUNK => self.chunk(node),
            prim::FUSED_CONCAT => self.join(node),
            prim::LIST_CONSTRUCT => self.list(node),
            kind => match (window_rule(kind), recipes_of(self.section, node)) {
                (Some(rule), _) => self.pool(node, rule),
                (None, []) => self.compute(node, kind),
                (None, recipes) => self.reduce(node, recipes),
            },
        }
    }

    fn axis_map(&self, value: Value) -> AxisMap {
        self.axis_maps.axis_map(value)
    }

    fn constant(&mut self, node: Node) -> Result<(), Refusal> {
        let value = literal_values::constant(self.section, &Environment::default(), node);
        let known = match value {
            Ok(IValue::None) => Known::Missing,
            Ok(IValue::Str(text)) => Known::Text(text.to_string()),
            Ok(IValue::List(list)) => integers_of(&list.borrow()).map_or(Known::Other, Known::Numbers),
            Ok(value) => match value.scalar() {
                Some(scalar) => Known::Number { source: Source::Constant(scalar), kind: scalar.kind() },
                None => Known::Other,
            },
            Err(_) => Known::Other,
        };
        self.known.insert(self.section.output(node, 0), known);
        Ok(())
    }

    /// A list of known numbers, such as the dimensions of a sum.
    fn list(&mut self, node: Node) -> Result<(), Refusal> {
        let number = |value| match self.known.get(&value) {
            Some(Known::Number { source: Source::Constant(scalar), kind: Kind::Int | Kind::Bool }) => {
                Some(scalar.int())
            }
            _ => None,
        };
        let numbers: Option<Vec<i64>> = self.section.inputs(node).map(number).collect();
        self.known.insert(self.section.output(node, 0), numbers.map_or(Known::Other, Known::Numbers));
        Ok(())
    }

    fn attribute(&self, node: Node, name: Symbol) -> Result<i64, Refusal> {
        match self.section.attribute(node, name) {
            Some(Attribute::Int(n)) => Ok(*n),
            _ => refuse(format!("`{}` lacks its attribute `{}`", self.section.kind(node), name.as_str())),
        }
    }

    fn chunk(&mut self, node: Node) -> Result<(), Refusal> {
        let (count, dim) = (self.attribute(node, attr::CHUNKS)?, self.attribute(node, attr::DIM)?);
        let operand = self.section.input(node, 0);
        let Some(&Known::Operand { operand, dtype, dimensioned: true }) = self.known.get(&operand) else {
            return refuse("chunks of a value that is not an operand of the group");
        };
        if count != self.section.num_outputs(node) as i64 {
            return refuse(format!("{count} chunks for {} values", self.section.num_outputs(node)));
        }
        let line = self.line(node);
        for (index, output) in self.section.outputs(node).enumerate() {
            let part = Some(Part { dim, count, index: index as i64 });
            let (name, line) = (self.section.name(output), line.clone());
            let axis_map = self.axis_map(output);
            let source = self.load(Load { operand, axis_map, part, tap: None, dtype, dimensioned: true, name, line });
            self.known.insert(output, Known::Tensor { source, dtype, dimensioned: true, axis_map });
        }
        Ok(())
    }

    fn join(&mut self, node: Node) -> Result<(), Refusal> {
        let dim = self.attribute(node, attr::DIM)?;
        let axis_map = self.axis_map(self.section.output(node, 0));
        let mut parts = Vec::new();
        for (i, value) in self.section.inputs(node).enumerate() {
            match self.tensor(value, self.axis_maps.read(self.section, node, i)) {
                Some(Operand { source, dtype, dimensioned: true }) => parts.push((source, dtype)),
                _ => return refuse("a concatenation of a value that is not a tensor with dimensions"),
            }
        }
        let dtypes = parts.iter().map(|part| part.1);
        let Some(dtype) = dtypes.reduce(crate::tensor::promotion::join) else {
            return refuse("a concatenation of nothing");
        };
        self.known.insert(self.section.output(node, 0), Known::Joined { parts, dtype, dim, axis_map });
        Ok(())
    }

    /// Adds a load, unless there is an equal one.
    fn load(&mut self, mut load: Load) -> Source {
        let same = |other: &Load| {
            (other.operand, other.part, other.axis_map) == (load.operand, load.part, load.axis_map)
                && other.tap == load.tap
        };
        let found = self.kernel.loads.iter().position(same);
        Source::Load(found.unwrap_or_else(|| {
            load.name = self.fresh(&load.name);
            self.kernel.loads.push(load);
            self.kernel.loads.len() - 1
        }))
    }

    /// A tensor, loaded where it is an operand without a load so far.
    fn tensor(&mut self, value: Value, axis_map: AxisMap) -> Option<Operand> {
        match self.known.get(&value)?.clone() {
            Known::Tensor { source, dtype, dimensioned, .. } => Some(Operand { source, dtype, dimensioned }),
            Known::Operand { operand, dtype, dimensioned } => {
                let name = self.section.name(value);
                let line = format!("%{name}");
                let load = Load { operand, axis_map, part: None, tap: None, dtype, dimensioned, name, line };
                Some(Operand { source: self.load(load), dtype, dimensioned })
            }
            _ => None,
        }
    }

    fn compute(&mut self, node: Node, kind: Symbol) -> Result<(), Refusal> {
        let rows = formulas(kind);
        if self.release_computes_otherwise(node) {
            return refuse(format!("`{kind}` of these types is not the same in this release"));
        }
        let Some(row) = rows.iter().find(|row| row.when.iter().all(|when| self.holds(node, row, *when))) else {
            let why = if rows.is_empty() { "has no formula" } else { "has no formula for these operands" };
            return refuse_for(Cause::Operator, format!("`{kind}` {why}"));
        };
        if self.section.num_outputs(node) != 1 {
            return refuse(format!("`{kind}` has {} results", self.section.num_outputs(node)));
        }
        let (computed, out) = self.types(node, row)?;
        let output = self.section.output(node, 0);
        let axis_map = self.axis_map(output);
        if row.only_converts()
            && let Some(&Known::Operand { operand, dtype, dimensioned }) = self.known_operand(node, 0)
            && dtype == out
        {
            self.known.insert(output, Known::Operand { operand, dtype, dimensioned });
            return Ok(());
        }
        if row.only_converts()
            && let Some(x) = self.tensor(self.section.input(node, 0), axis_map).filter(|x| x.dtype == out)
        {
            let Operand { source, dtype, dimensioned } = x;
            self.known.insert(output, Known::Tensor { source, dtype, dimensioned, axis_map });
            return Ok(());
        }
        let formula = formula_of(row, kind, computed)?;
        self.limit(node, row, computed);
        let inputs = self.inputs(node, row, formula, computed)?;
        // The shape of operands that are read for their type only is irrelevant.
        let read = inputs.iter().map(|input| input.letter as usize - 'a' as usize);
        let dimensioned = read.into_iter().any(|i| match self.known_operand(node, i) {
            Some(Known::Tensor { dimensioned, .. } | Known::Operand { dimensioned, .. }) => *dimensioned,
            _ => false,
        });
        let name = self.fresh(&self.section.name(output));
        let line = self.line(node);
        let layout = match (row.contiguous, row.only_converts()) {
            (true, _) => ResultLayout::Contiguous,
            (_, true) => ResultLayout::Kept,
            _ => ResultLayout::AsOperands,
        };
        let (drops, scan) = (false, None);
        let (is_value, phase) = (true, self.kernel.phase_of(&inputs));
        let source =
            self.step(Step { formula, computed, out, inputs, name, line, layout, drops, scan, is_value, phase });
        self.known.insert(output, Known::Tensor { source, dtype: out, dimensioned, axis_map });
        Ok(())
    }

    fn step(&mut self, step: Step) -> Source {
        self.kernel.steps.push(step);
        Source::Step(self.kernel.steps.len() - 1)
    }

    fn known_operand(&self, node: Node, i: usize) -> Option<&Known> {
        let given = i < self.section.num_inputs(node);
        given.then(|| self.known.get(&self.section.input(node, i))).flatten()
    }

    /// The element types of the tensors that a node reads.
    fn operand_types(&self, node: Node) -> impl Iterator<Item = DType> {
        (0..self.section.num_inputs(node)).filter_map(move |i| match self.known_operand(node, i) {
            Some(Known::Tensor { dtype, .. } | Known::Operand { dtype, .. }) => Some(*dtype),
            _ => None,
        })
    }

    /// Whether the release raises or computes something else on operands of these types; the
    /// interpreter decides.
    fn release_computes_otherwise(&self, node: Node) -> bool {
        let tensors = self.operand_types(node).collect();
        let (types, release) = (OperandTypes { tensors, float_number: None }, Release(self.release.0, self.release.1));
        let applies =
            |row: &&ReleaseRow| row.operands != Operands::Values && row.covers(release) && row.operands.hold(&types);
        release_rows(self.section.kind(node)).iter().any(|row| row.until.is_some() && applies(row))
    }

    fn holds(&self, node: Node, row: &Formula, when: When) -> bool {
        match when {
            When::Before(major, minor) => self.release < (major, minor),
            When::Since(major, minor) => self.release >= (major, minor),
            When::Missing(i) => matches!(self.known_operand(node, i), None | Some(Known::Missing)),
            When::IsNumber(i) => matches!(self.known_operand(node, i), Some(Known::Number { .. })),
            When::Is(i, x) => match self.known_operand(node, i) {
                Some(Known::Number { source: Source::Constant(scalar), .. }) => scalar.real() == x,
                _ => false,
            },
            When::IsNot(i, x) => self.is_constant_or_missing(node, i, |number| number != x),
            When::From(i, x) => self.is_constant_or_missing(node, i, |number| number >= x && number.is_finite()),
            When::Names(i) => self.named(node, i).is_some(),
            When::Tensor(i) => {
                matches!(self.known_operand(node, i), Some(Known::Tensor { .. } | Known::Operand { .. }))
            }
            When::FitsWide(i) => {
                let number = self.known_operand(node, i);
                number.is_none_or(|number| self.wide(node, row).is_none_or(|dtype| numbers::fits(number, dtype)))
            }
            When::Scales(i) => {
                let (number, types) = (self.known_operand(node, i), self.types(node, row));
                number.is_none_or(|number| types.map_or(true, |(dtype, _)| numbers::scales(number, dtype)))
            }
            When::Fits(i) => match (self.known_operand(node, i), self.known_operand(node, 0)) {
                (
                    Some(Known::Number { source: Source::Constant(number), .. }),
                    Some(Known::Tensor { dtype, .. } | Known::Operand { dtype, .. }),
                ) if dtype.is_float() => !number.real().is_finite() || number.real().abs() <= dtype.largest(),
                (
                    Some(Known::Number { source, kind: Kind::Int }),
                    Some(Known::Tensor { dtype, .. } | Known::Operand { dtype, .. }),
                ) => dtype.range().is_none_or(|(low, high)| match source {
                    Source::Constant(number) => (low..=high).contains(&number.int()),
                    _ => *dtype == DType::Long,
                }),
                _ => true,
            },
            When::Held(i) => match (self.known_operand(node, i), self.known_operand(node, 0)) {
                (
                    Some(Known::Number { source, .. }),
                    Some(Known::Tensor { dtype, .. } | Known::Operand { dtype, .. }),
                ) => dtype.range().is_none_or(|(low, high)| match source {
                    Source::Constant(number) => (low as f64..=high as f64).contains(&number.real()),
                    _ => false,
                }),
                _ => true,
            },
            When::OfOneType(n) => {
                let dtypes = (0..n).filter_map(|i| match self.known_operand(node, i) {
                    Some(Known::Tensor { dtype, .. } | Known::Operand { dtype, .. }) => Some(*dtype),
                    _ => None,
                });
                dtypes.collect::<BTreeSet<DType>>().len() == 1
            }
            When::IsNotOf(other) => match self.known_operand(node, 0) {
                Some(Known::Tensor { dtype, .. } | Known::Operand { dtype, .. }) => *dtype != other,
                _ => false,
            },
            When::Wide => match self.known_operand(node, 0) {
                Some(Known::Tensor { dtype, .. } | Known::Operand { dtype, .. }) => !dtype.is_short_float(),
                _ => false,
            },
            When::OfFloats => match self.known_operand(node, 0) {
                Some(Known::Tensor { dtype, .. } | Known::Operand { dtype, .. }) => dtype.is_float(),
                _ => false,
            },
            When::Divides(i) | When::Natural(i) => {
                let computed = self.types(node, row).map_or(DType::Bool, |(computed, _)| computed);
                let is_divisor = matches!(when, When::Divides(_));
                let known = self.known_operand(node, i);
                !computed.is_integral() || known.is_none_or(|known| numbers::may_be_used(known, computed, is_divisor))
            }
            When::Says(i, text) => matches!(self.known_operand(node, i), Some(Known::Text(said)) if said == text),
        }
    }

    fn is_constant_or_missing(&self, node: Node, i: usize, is_right: impl Fn(f64) -> bool) -> bool {
        match self.known_operand(node, i) {
            Some(Known::Number { source: Source::Constant(scalar), .. }) => is_right(scalar.real()),
            other => matches!(other, None | Some(Known::Missing)),
        }
    }

    /// The element type that a constant operand gives.
    fn named(&self, node: Node, i: usize) -> Option<DType> {
        match self.known_operand(node, i)? {
            Known::Number { source: Source::Constant(scalar), kind: Kind::Int } => named_dtype(scalar.int()),
            _ => None,
        }
    }

    /// The type that a formula computes in: floats for halves.
    fn wide(&self, node: Node, row: &Formula) -> Option<DType> {
        let (computed, _) = self.types(node, row).ok()?;
        Some(if computed.is_short_float() { DType::Float } else { computed })
    }

    /// Records conditions on operands that can only be checked at launch, since no kernel can raise
    /// an exception.
    fn limit(&mut self, node: Node, row: &Formula, computed: DType) {
        for &when in row.when {
            let (i, limit) = match (when, self.known_operand(node, 0)) {
                (When::Fits(i), Some(Known::Tensor { dtype, .. } | Known::Operand { dtype, .. })) => {
                    (i, Limit::Holds(*dtype))
                }
                (When::FitsWide(i), _) => (i, Limit::Holds(self.wide(node, row).unwrap_or(computed))),
                (When::Scales(i), _) => (i, Limit::Holds(computed)),
                (When::Divides(i), _) if computed.is_integral() => (i, Limit::NoZeros(computed)),
                (When::Natural(i), _) if computed.is_integral() => (i, Limit::Natural),
                _ => continue,
            };
            let operand = match self.known_operand(node, i) {
                Some(Known::Number { source: Source::Float(k), .. }) => self.kernel.floats[*k],
                Some(Known::Number { source: Source::Integer(k), .. }) => self.kernel.integers[*k],
                Some(Known::Operand { operand, .. }) if limit == Limit::NoZeros(computed) => *operand,
                Some(Known::Tensor { source: Source::Load(k), .. }) if limit == Limit::NoZeros(computed) => {
                    self.kernel.loads[*k].operand
                }
                _ => continue,
            };
            if !matches!(limit, Limit::Holds(dtype) if !dtype.is_float()) {
                self.kernel.limits.push((operand, limit));
            }
        }
    }

    /// The type that a node computes in, and the type of its result.
    fn types(&self, node: Node, row: &Formula) -> Result<(DType, DType), Refusal> {
        let own = |i: usize| match self.known_operand(node, i) {
            Some(Known::Tensor { dtype, .. } | Known::Operand { dtype, .. }) => Ok(*dtype),
            _ => refuse(format!("operand {i} of `{}` is not a tensor", row.kind)),
        };
        let same = |dtype| (dtype, dtype);
        Ok(match row.typing {
            Typing::Promoted(n) => same(self.promoted(node, 0..n)),
            Typing::FloatPromoted(n) => same(to_float_arithmetic(self.promoted(node, 0..n))),
            Typing::Compared => (self.promoted(node, 0..2), DType::Bool),
            Typing::Kept => same(own(0)?),
            Typing::Real => same(to_float_arithmetic(own(0)?)),
            Typing::Predicate => (own(0)?, DType::Bool),
            Typing::Chosen => match own(0)? {
                DType::Bool | DType::Byte => same(self.promoted(node, 1..3)),
                other => {
                    let why = format!("`{}` with a condition of {}", row.kind, other.name());
                    return refuse_for(Cause::ElementType, why);
                }
            },
            Typing::Cast(dtype) => same(dtype),
            Typing::Named(i) => match self.named(node, i) {
                Some(dtype) => same(dtype),
                None => return refuse(format!("`{}` to an element type that is not known", row.kind)),
            },
            Typing::Like => same(own(1)?),
        })
    }

    fn promoted(&self, node: Node, operands: std::ops::Range<usize>) -> DType {
        let count = |seen: Promotion, i| match self.known_operand(node, i) {
            Some(Known::Tensor { dtype, dimensioned, .. } | Known::Operand { dtype, dimensioned, .. }) => {
                seen.element(*dtype, *dimensioned)
            }
            Some(Known::Number { kind, .. }) => seen.number(*kind),
            _ => seen,
        };
        operands.fold(Promotion::default(), count).result()
    }

    /// The operands that a formula names.
    fn inputs(
        &mut self,
        node: Node,
        row: &Formula,
        formula: &Expression,
        computed: DType,
    ) -> Result<Vec<Input>, Refusal> {
        let mut inputs = Vec::new();
        for (i, letter) in ('a'..='f').enumerate() {
            if !formula.reads(letter) {
                continue;
            }
            let (mut source, dtype) = self.input(node, row, i, computed)?;
            let to = match row.typing {
                // A condition is not converted.
                Typing::Chosen if i == 0 => dtype,
                _ if i >= row.factors && computed.is_short_float() && self.is_number(node, i) => DType::Float,
                _ => computed,
            };
            // The quotient of wrapped operands is not the wrapped quotient.
            let wraps = || row.when.iter().any(|when| matches!(when, When::Divides(_) | When::Natural(_)));
            if let Source::Constant(number) = source
                && (row.typing == Typing::Compared || to.is_short_float() || to.is_integral() && wraps())
            {
                source = Source::Constant(as_element(number, to));
            }
            inputs.push(Input { letter, source, dtype, to });
        }
        Ok(inputs)
    }

    /// Whether an operand is a number or a tensor without dimensions.
    fn is_number(&self, node: Node, i: usize) -> bool {
        !matches!(
            self.known_operand(node, i),
            Some(Known::Tensor { dimensioned: true, .. } | Known::Operand { dimensioned: true, .. })
        )
    }

    fn input(&mut self, node: Node, row: &Formula, i: usize, computed: DType) -> Result<(Source, DType), Refusal> {
        if i < self.section.num_inputs(node) {
            let (value, axis_map) = (self.section.input(node, i), self.axis_maps.read(self.section, node, i));
            if let Some(Operand { source, dtype, .. }) = self.tensor(value, axis_map) {
                return Ok((source, dtype));
            }
        }
        match self.known_operand(node, i) {
            // Doubles keep the exact literal until the type of its conversion is known.
            Some(Known::Number { source, kind }) => Ok((*source, of_number(*kind, DType::Double))),
            None | Some(Known::Missing) => match row.defaults.iter().find(|default| default.0 == i) {
                Some((_, x)) => {
                    let bound = if computed.is_float() { computed.largest() } else { f64::INFINITY };
                    Ok((Source::Constant(Scalar::Float(x.clamp(-bound, bound))), DType::Double))
                }
                None => refuse(format!("`{}` with {} operands", row.kind, self.section.num_inputs(node))),
            },
            _ => refuse(format!("`{}` of a value that kernels do not support", row.kind)),
        }
    }

    fn results(&mut self) -> Result<(), Refusal> {
        let mut tensors: FxHashMap<Value, usize> = FxHashMap::default();
        for value in self.section.results(self.section.root()) {
            if let Some(&Known::Operand { operand, .. }) = self.known.get(&value) {
                self.kernel.results.push(Outcome::Operand(operand));
                continue;
            }
            let next = self.kernel.made.len();
            let tensor = *tensors.entry(value).or_insert(next);
            self.kernel.results.push(Outcome::Made(tensor));
            if tensor == next {
                self.store(value, tensor)?;
            }
        }
        match self.kernel.stores.is_empty() {
            true => refuse("the group has no results but operands"),
            false => Ok(()),
        }
    }

    fn store(&mut self, value: Value, tensor: usize) -> Result<(), Refusal> {
        let name = self.section.name(value);
        let (stores, dtype) = match self.known.get(&value) {
            Some(&Known::Tensor {
                source: source @ (Source::Step(_) | Source::Reduced(_)), dtype, axis_map, ..
            }) => (vec![Store { axis_map, source, dtype, tensor, part: None, column_reduction: None }], dtype),
            Some(&Known::ColumnReduction(at)) => {
                let ColumnReduction { keep, input, .. } = self.kernel.column_reductions[at];
                let axis_map = if keep { AxisMap::Whole } else { AxisMap::Kept };
                let (source, dtype) = (input.source, input.dtype);
                (vec![Store { axis_map, source, dtype, tensor, part: None, column_reduction: Some(at) }], input.to)
            }
            Some(&Known::Joined { ref parts, dtype, dim, axis_map }) => {
                let count = parts.len() as i64;
                let store = |(index, &(source, from)): (i64, &(Source, DType))| Store {
                    axis_map,
                    source,
                    dtype: from,
                    tensor,
                    part: Some(Part { dim, count, index }),
                    column_reduction: None,
                };
                ((0..).zip(parts).map(store).collect(), dtype)
            }
            _ => return refuse(format!("result `%{name}` is a view of an operand")),
        };
        self.kernel.stores.extend(stores);
        let name = self.fresh(&format!("{name}.out"));
        self.kernel.made.push(Made { dtype, name });
        Ok(())
    }

    /// A unique C name for a name in the graph.
    fn fresh(&mut self, name: &str) -> String {
        let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
        let name: String = name.chars().map(plain).collect();
        // C keywords, names in formulas and the function's own variables have other prefixes.
        let base = format!("v_{name}");
        let mut name = base.clone();
        let mut n = 1;
        while !self.names.insert(name.clone()) {
            n += 1;
            name = format!("{base}_x{n}");
        }
        name
    }

    fn line(&self, node: Node) -> String {
        let mut printer = Printer::new(PrintOptions::default());
        printer.node_line(self.section, node);
        String::from_utf8_lossy(&printer.out).trim().to_owned()
    }
}

/// A number as an element of the type in which it is compared: integers wrap, and 16-bit floats
/// round.
fn as_element(number: Scalar, dtype: DType) -> Scalar {
    match number {
        _ if dtype.is_short_float() => {
            let rounded = Tensor::scalar(number, dtype, Precision::Typed);
            rounded.read::<f64>().first().map_or(number, |&x| Scalar::Float(x))
        }
        Scalar::Int(n) => Scalar::Int(wrapped(n, dtype)),
        other => other,
    }
}

/// An integer wrapped to a type. PyTorch converts numbers before it compares them, but not before
/// it clamps by them.
pub(super) fn wrapped(n: i64, dtype: DType) -> i64 {
    match dtype {
        DType::Byte => i64::from(n as u8),
        DType::Char => i64::from(n as i8),
        DType::Short => i64::from(n as i16),
        DType::Int => i64::from(n as i32),
        _ => n,
    }
}

/// The element type of a code, where kernels support it.
pub fn named_dtype(code: i64) -> Option<DType> {
    let is_known = |dtype: &DType| matches!(dtype.arithmetic(), Some(Kind::Float | Kind::Int | Kind::Bool));
    DType::from_code(code).filter(is_known)
}

fn integers_of(values: &[IValue]) -> Option<Vec<i64>> {
    let is_whole = |scalar: &Scalar| matches!(scalar.kind(), Kind::Int | Kind::Bool);
    values.iter().map(|value| value.scalar().filter(is_whole).map(Scalar::int)).collect()
}

/// The formula for the number class of a type.
fn formula_of(row: &Formula, kind: Symbol, computed: DType) -> Result<&'static Expression, Refusal> {
    let text = match computed.arithmetic() {
        Some(Kind::Float) => row.float,
        Some(Kind::Int) => row.integer,
        Some(Kind::Bool) => row.boolean,
        _ => "",
    };
    match text.is_empty() {
        true => refuse_for(Cause::Operator, format!("`{kind}` of {} has no formula", computed.name())),
        false => expression(text).or_else(refuse),
    }
}
