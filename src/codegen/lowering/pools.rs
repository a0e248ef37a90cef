//! Lowers pools: a load for each element of the window, and steps that combine them in order.

use super::{Cause, Known, Lowering, Refusal, refuse, refuse_for};
use crate::analysis::axis_maps::AxisMap;
use crate::codegen::expression::expression;
use crate::codegen::kernel::{Input, Lies, Load, Part, Source, Step};
use crate::codegen::window::{Gives, Outside, Slide, Tap, Window};
use crate::ir::Node;
use crate::ops::schema::Schema;
use crate::ops::window_rules::{LARGER, PRODUCT, Pooled, QUOTIENT, SAME, SUM, WindowRule};
use crate::ops::{self};
use crate::tensor::{DType, Kind, Scalar};
use crate::types::Type;
use smallvec::SmallVec;

/// The most elements of a window: each is a load of its own.
const MOST_TAPS: i64 = 81;

/// The operand of a pool, without the window.
struct Image {
    operand: usize,
    part: Option<Part>,
    dtype: DType,
    name: String,
    line: String,
}

/// A value, and its type.
type Typed = (Source, DType);

impl Lowering<'_> {
    /// Lowers a pool.
    pub(super) fn pool(&mut self, node: Node, rule: WindowRule) -> Result<(), Refusal> {
        let kind = self.section.kind(node);
        let types: Vec<Type> = self.section.inputs(node).map(|value| self.section.ty(value)).collect();
        let Some(schema) = ops::resolve(self.section.era, kind, &types).schema() else {
            return refuse(format!("`{kind}` with an unknown overload"));
        };
        let window = self.window(node, schema, rule)?;
        let image = self.image(node)?;
        let is_taken = match rule.pooled {
            Pooled::Largest if rule.dims == 1 => image.dtype.is_float(),
            Pooled::Largest => matches!(image.dtype.arithmetic(), Some(Kind::Float | Kind::Int)),
            Pooled::Mean => image.dtype.is_float(),
        };
        if !is_taken {
            return refuse_for(Cause::Operator, format!("`{kind}` of {}", image.dtype.name()));
        }
        let made = match rule.pooled {
            Pooled::Largest => self.largest(node, &image, &window)?,
            Pooled::Mean => self.mean(node, schema, &image, &window)?,
        };
        let output = self.section.output(node, 0);
        let axis_map = AxisMap::Whole;
        if self.axis_map(output) != axis_map {
            return refuse(format!("`{kind}` among values that lack reduced dimensions"));
        }
        self.known.insert(output, Known::Tensor { source: made, dtype: image.dtype, dimensioned: true, axis_map });
        Ok(())
    }

    fn image(&self, node: Node) -> Result<Image, Refusal> {
        let value = self.section.input(node, 0);
        let name = self.section.name(value);
        match self.known.get(&value) {
            Some(&Known::Operand { operand, dtype, dimensioned: true }) => {
                Ok(Image { operand, part: None, dtype, line: format!("%{name}"), name })
            }
            Some(&Known::Tensor { source: Source::Load(k), dtype, .. }) if self.kernel.loads[k].tap.is_none() => {
                let Load { operand, part, .. } = self.kernel.loads[k];
                Ok(Image { operand, part, dtype, line: format!("%{name}"), name })
            }
            _ => refuse(format!("`{}` of a value that the kernel computes", self.section.kind(node))),
        }
    }

    /// The numbers of an operand, one for each dimension of the window.
    fn numbers(&self, node: Node, (schema, name): (&Schema, &str), dims: usize) -> Option<SmallVec<[i64; 2]>> {
        let given = schema.formal(name).and_then(|i| self.known_operand(node, i));
        let all: SmallVec<[i64; 2]> = match given {
            Some(Known::Numbers(all)) => all.as_slice().into(),
            Some(Known::Number { source: Source::Constant(scalar), kind: Kind::Int }) => [scalar.int()].into_iter().collect(),
            _ => return None,
        };
        match all.len() {
            1 => Some(std::iter::repeat_n(all[0], dims).collect()),
            n => (n == dims || n == 0).then_some(all),
        }
    }

    fn window(&self, node: Node, schema: &Schema, rule: WindowRule) -> Result<Window, Refusal> {
        let kind = self.section.kind(node);
        let read = |name: &str, missing: i64| match schema.formal(name) {
            Some(_) => self.numbers(node, (schema, name), rule.dims),
            None => Some(std::iter::repeat_n(missing, rule.dims).collect()),
        };
        let given = (read("kernel_size", 1), read("stride", 1), read("padding", 0), read("dilation", 1));
        let ceil = self.truth(node, schema, "ceil_mode");
        let (Some(kernel), Some(stride), Some(padding), Some(dilation), Some(ceil)) =
            (given.0, given.1, given.2, given.3, ceil)
        else {
            return refuse_for(Cause::Operator, format!("`{kind}` with a window that is known only at run time"));
        };
        let stride = if stride.is_empty() { kernel.clone() } else { stride };
        if [&kernel, &stride, &padding, &dilation].iter().any(|all| all.len() != rule.dims) {
            return refuse_for(Cause::Operator, format!("`{kind}` with a window that PyTorch refuses"));
        }
        let slide = |i: usize| Slide { kernel: kernel[i], stride: stride[i], padding: padding[i], dilation: dilation[i] };
        let slides: SmallVec<[Slide; 2]> = (0..rule.dims).map(slide).collect();
        let small = 1..=i64::from(i32::MAX);
        let is_right = |one: &Slide| {
            [one.kernel, one.stride, one.dilation].iter().all(|n| small.contains(n))
                && (0..=one.kernel / 2).contains(&one.padding)
        };
        if !slides.iter().all(is_right) {
            return refuse_for(Cause::Operator, format!("`{kind}` with a window that PyTorch refuses"));
        }
        let taps = slides.iter().fold(1, |all: i64, one| all.saturating_mul(one.kernel));
        if taps > MOST_TAPS {
            let why = format!("`{kind}` with {taps} elements under a window: a kernel has a load for each, at most {MOST_TAPS}");
            return refuse_for(Cause::Operator, why);
        }
        Ok(Window { slides, ceil })
    }

    /// A constant operand that is true or false.
    fn truth(&self, node: Node, schema: &Schema, name: &str) -> Option<bool> {
        match schema.formal(name).and_then(|i| self.known_operand(node, i)) {
            Some(Known::Number { source: Source::Constant(scalar), .. }) => Some(scalar.int() != 0),
            _ => None,
        }
    }

    /// A load of an element of a window.
    fn tap(&mut self, image: &Image, tap: Tap) -> Source {
        let Image { operand, part, dtype, ref name, ref line } = *image;
        let at: Vec<String> = tap.at.iter().map(|i| i.to_string()).collect();
        let (name, line) = match tap.gives {
            Gives::Element(_) => (format!("{name}.{}", at.join(".")), format!("{line}, {} of the window", at.join(" "))),
            Gives::Presence { slide, .. } => {
                (format!("{name}.in.{slide}.{}", at[slide]), "whether it is inside".to_owned())
            }
        };
        let axis_map = AxisMap::Whole;
        self.load(Load { operand, axis_map, part, tap: Some(tap), dtype, dimensioned: true, name, line })
    }

    /// The elements of a window, in order.
    fn taps(&mut self, image: &Image, window: &Window, gives: Gives) -> Vec<Source> {
        let mut all: Vec<SmallVec<[i64; 2]>> = vec![SmallVec::new()];
        for slide in &window.slides {
            let with = |at: &SmallVec<[i64; 2]>, i: i64| at.iter().copied().chain([i]).collect();
            all = all.iter().flat_map(|at| (0..slide.kernel).map(move |i| with(at, i))).collect();
        }
        all.into_iter().map(|at| self.tap(image, Tap { window: window.clone(), at, gives })).collect()
    }

    /// Combines values, the first two first.
    fn folded(
        &mut self,
        node: Node,
        all: &[Source],
        formula: &'static str,
        (from, to): (DType, DType),
    ) -> Result<Typed, Refusal> {
        let Some((&first, rest)) = all.split_first() else { return refuse("a window without elements") };
        let mut found = (first, from);
        for &next in rest {
            found = self.combined(node, formula, &[found, (next, from)], (to, to), None)?;
        }
        Ok(found)
    }

    /// A step; the last one of a pool is a value of the graph, in the order of its operand.
    fn combined(
        &mut self,
        node: Node,
        formula: &'static str,
        operands: &[Typed],
        (computed, out): (DType, DType),
        result: Option<usize>,
    ) -> Result<Typed, Refusal> {
        let input = |(letter, &(source, dtype)): (char, &Typed)| Input { letter, source, dtype, to: computed };
        let name = self.section.name(self.section.output(node, 0));
        let name = self.fresh(&if result.is_some() { name } else { format!("{name}.of") });
        let source = self.step(Step {
            formula: expression(formula).or_else(refuse)?,
            computed,
            out,
            inputs: ('a'..).zip(operands).map(input).collect(),
            name,
            line: if result.is_some() { self.line(node) } else { String::new() },
            lies: result.map_or(Lies::AsOperands, Lies::AsImage),
            drops: false,
            scan: None,
            is_value: result.is_some(),
            phase: 0,
        });
        Ok((source, out))
    }

    fn largest(&mut self, node: Node, image: &Image, window: &Window) -> Result<Source, Refusal> {
        let all = self.taps(image, window, Gives::Element(Outside::Lowest));
        let (Some((&last, others)), Some(load)) = (all.split_last(), load_of(&all)) else {
            return refuse("a window without elements");
        };
        let own = (image.dtype, image.dtype);
        Ok(match others {
            [] => self.combined(node, SAME, &[(last, image.dtype)], own, Some(load))?.0,
            _ => {
                let found = self.folded(node, others, LARGER, own)?;
                self.combined(node, LARGER, &[found, (last, image.dtype)], own, Some(load))?.0
            }
        })
    }

    /// The sum is computed in doubles, as the interpreter does.
    fn mean(&mut self, node: Node, schema: &Schema, image: &Image, window: &Window) -> Result<Source, Refusal> {
        let all = self.taps(image, window, Gives::Element(Outside::Nothing));
        let Some(load) = load_of(&all) else { return refuse("a window without elements") };
        let sum = self.folded(node, &all, SUM, (image.dtype, DType::Double))?;
        let count = self.count(node, schema, image, window)?;
        Ok(self.combined(node, QUOTIENT, &[sum, count], (DType::Double, image.dtype), Some(load))?.0)
    }

    /// The number that a sum is divided by.
    fn count(&mut self, node: Node, schema: &Schema, image: &Image, window: &Window) -> Result<Typed, Refusal> {
        let number = |n: i64| (Source::Constant(Scalar::Float(n as f64)), DType::Double);
        let given = schema.formal("divisor_override").and_then(|i| self.known_operand(node, i));
        match given {
            None | Some(Known::Missing) => {}
            Some(Known::Number { source: Source::Constant(scalar), kind: Kind::Int }) if scalar.int() != 0 => {
                return Ok(number(scalar.int()));
            }
            Some(_) => return refuse_for(Cause::Operator, "a divisor that is zero, or known only at run time"),
        }
        let Some(padded) = self.truth(node, schema, "count_include_pad") else {
            return refuse_for(Cause::Operator, "`count_include_pad` is known only at run time");
        };
        let has_padding = window.slides.iter().any(|slide| slide.padding > 0);
        if !window.ceil && (padded || !has_padding) {
            return Ok(number(window.slides.iter().map(|slide| slide.kernel).product()));
        }
        let mut counts = Vec::new();
        for (slide, one) in window.slides.iter().enumerate() {
            let presence = |at: i64| {
                let at = (0..window.slides.len()).map(|i| if i == slide { at } else { 0 }).collect();
                Tap { window: window.clone(), at, gives: Gives::Presence { slide, padded } }
            };
            let all: Vec<Source> = (0..one.kernel).map(|at| self.tap(image, presence(at))).collect();
            counts.push(self.folded(node, &all, SUM, (image.dtype, DType::Double))?);
        }
        match counts[..] {
            [one] => Ok(one),
            [height, width] => self.combined(node, PRODUCT, &[height, width], (DType::Double, DType::Double), None),
            _ => refuse("a window over more than two dimensions"),
        }
    }
}

fn load_of(all: &[Source]) -> Option<usize> {
    all.first().and_then(|source| if let Source::Load(k) = source { Some(*k) } else { None })
}
