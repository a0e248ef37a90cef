//! Lowers pools: a load for each element of the window, and steps that combine them in order.

use super::{Cause, Known, Lowering, Refusal, refuse, refuse_for};
use crate::analysis::axis_maps::AxisMap;
use crate::codegen::expression::expression;
use crate::codegen::kernel::{Input, Kernel, Limit, Load, Part, ResultLayout, Source, Step};
use crate::codegen::window::{Gives, Outside, Slide, Tap, Window};
use crate::ir::Node;
use crate::ops::schema::Schema;
use crate::ops::window_rules::{
    INDEX, LARGER, LARGER_INTEGER, PRODUCT, Pooled, QUOTIENT, SAME, SHARE, SUM, TAKEN, WindowRule,
};
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
        let image = self.image(node, schema, if rule.pooled.is_gradient() { "grad_output" } else { "self" })?;
        let is_taken = match rule.pooled {
            Pooled::Largest | Pooled::LargestAndIndex if rule.dims == 2 => {
                matches!(image.dtype.arithmetic(), Some(Kind::Float | Kind::Int))
            }
            _ => image.dtype.is_float(),
        };
        if !is_taken {
            return refuse_for(Cause::Operator, format!("`{kind}` of {}", image.dtype.name()));
        }
        let made = match rule.pooled {
            Pooled::Largest => vec![self.largest(node, &image, &window)?],
            Pooled::LargestAndIndex => {
                vec![self.largest(node, &image, &window)?, self.index_of_largest(node, &image, &window)?]
            }
            Pooled::Mean => vec![self.mean(node, schema, &image, &window)?],
            Pooled::GradientOfLargest => vec![self.gradient_of_largest(node, schema, &image, &window)?],
            Pooled::GradientOfMean => vec![self.gradient_of_mean(node, schema, &image, &window)?],
        };
        let axis_map = AxisMap::Whole;
        for (output, (source, dtype)) in self.section.outputs(node).zip(made) {
            if self.axis_map(output) != axis_map {
                return refuse(format!("`{kind}` among values that lack reduced dimensions"));
            }
            self.known.insert(output, Known::Tensor { source, dtype, dimensioned: true, axis_map });
        }
        Ok(())
    }

    fn image(&self, node: Node, schema: &Schema, name: &str) -> Result<Image, Refusal> {
        let Some(at) = schema.formal(name).filter(|&at| at < self.section.num_inputs(node)) else {
            return refuse(format!("`{}` without {name}", self.section.kind(node)));
        };
        let value = self.section.input(node, at);
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
            Some(Known::Number { source: Source::Constant(scalar), kind: Kind::Int }) => {
                [scalar.int()].into_iter().collect()
            }
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
        let slide =
            |i: usize| Slide { kernel: kernel[i], stride: stride[i], padding: padding[i], dilation: dilation[i] };
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
            let why = format!(
                "`{kind}` with {taps} elements under a window: a kernel has a load for each, at most {MOST_TAPS}"
            );
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
            Gives::Element(_) => {
                (format!("{name}.{}", at.join(".")), format!("{line}, {} of the window", at.join(" ")))
            }
            Gives::Presence { slide, .. } => {
                (format!("{name}.in.{slide}.{}", at[slide]), "whether it is inside".to_owned())
            }
            Gives::Index | Gives::Part => (format!("{name}.at.{}", at.join(".")), "an index".to_owned()),
        };
        let axis_map = AxisMap::Whole;
        self.load(Load { operand, axis_map, part, tap: Some(tap), dtype, dimensioned: true, name, line })
    }

    /// The elements of a window, in order.
    fn taps(&mut self, image: &Image, window: &Window, gives: Gives) -> Vec<Source> {
        let all = window.slides.iter().map(|slide| (0..slide.kernel).collect());
        let tap = |at| Tap { window: window.clone(), at, gives, image: None };
        combinations(all).into_iter().map(tap).map(|tap| self.tap(image, tap)).collect()
    }

    /// What an operand has for the positions that each element of an image is under, in order.
    fn positions(&mut self, of: &Image, window: &Window, image: usize, outside: Outside) -> Vec<Source> {
        let all = window.slides.iter().map(|slide| (0..slide.around()).rev().collect());
        let gives = Gives::Element(outside);
        let tap = |at| Tap { window: window.clone(), at, gives, image: Some(image) };
        combinations(all).into_iter().map(tap).map(|tap| self.tap(of, tap)).collect()
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
            found = self.combined(node, formula, &[(found, to), ((next, from), to)], (to, to), None)?;
        }
        Ok(found)
    }

    /// A step of operands, each with the type that it is read in; the last one of a pool is a value
    /// of the graph.
    fn combined(
        &mut self,
        node: Node,
        formula: &'static str,
        operands: &[(Typed, DType)],
        (computed, out): (DType, DType),
        result: Option<(usize, ResultLayout)>,
    ) -> Result<Typed, Refusal> {
        let input = |(letter, &((source, dtype), to)): (char, &(Typed, DType))| Input { letter, source, dtype, to };
        let name = self.section.name(self.section.output(node, result.map_or(0, |(output, _)| output)));
        let name = self.fresh(&if result.is_some() { name } else { format!("{name}.of") });
        let source = self.step(Step {
            formula: expression(formula).or_else(refuse)?,
            computed,
            out,
            inputs: ('a'..).zip(operands).map(input).collect(),
            name,
            line: if result.is_some() { self.line(node) } else { String::new() },
            layout: result.map_or(ResultLayout::AsOperands, |(_, layout)| layout),
            drops: false,
            scan: None,
            is_value: result.is_some(),
            phase: 0,
        });
        Ok((source, out))
    }

    fn largest(&mut self, node: Node, image: &Image, window: &Window) -> Result<Typed, Refusal> {
        let all = self.taps(image, window, Gives::Element(Outside::Lowest));
        let (Some((&last, others)), Some(layout)) = (all.split_last(), layout_as(&all)) else {
            return refuse("a window without elements");
        };
        let (own, last) = (image.dtype, ((last, image.dtype), image.dtype));
        let formula = larger(own);
        match others {
            [] => self.combined(node, SAME, &[last], (own, own), Some((0, layout))),
            _ => {
                let found = self.folded(node, others, formula, (own, own))?;
                self.combined(node, formula, &[(found, own), last], (own, own), Some((0, layout)))
            }
        }
    }

    /// The index of the largest element. Windows that are in the padding entirely have none.
    fn index_of_largest(&mut self, node: Node, image: &Image, window: &Window) -> Result<Typed, Refusal> {
        if window.slides.iter().any(|slide| slide.dilation > 1 && slide.padding > 0) {
            return refuse_for(Cause::Operator, "indices of a window that may be in the padding entirely");
        }
        let all = self.taps(image, window, Gives::Element(Outside::Lowest));
        let places = self.taps(image, window, Gives::Index);
        let Some(layout) = layout_as(&all) else { return refuse("a window without elements") };
        let (own, long) = (image.dtype, DType::Long);
        let mut found = ((all[0], own), (places[0], long));
        for (&next, &place) in all.iter().zip(&places).skip(1) {
            let operands = [(found.0, own), ((next, own), own), (found.1, long), ((place, long), long)];
            let index = self.combined(node, INDEX, &operands, (long, long), None)?;
            let largest = self.combined(node, larger(own), &operands[..2], (own, own), None)?;
            found = (largest, index);
        }
        self.combined(node, SAME, &[(found.1, long)], (long, long), Some((1, layout)))
    }

    /// The sum is computed in doubles, as the interpreter does.
    fn mean(&mut self, node: Node, schema: &Schema, image: &Image, window: &Window) -> Result<Typed, Refusal> {
        let all = self.taps(image, window, Gives::Element(Outside::Nothing));
        let Some(layout) = layout_as(&all) else { return refuse("a window without elements") };
        let double = DType::Double;
        let sum = self.folded(node, &all, SUM, (image.dtype, double))?;
        let count = self.count(node, schema, image, window)?;
        let operands = [(sum, double), (count, double)];
        self.combined(node, QUOTIENT, &operands, (double, image.dtype), Some((0, layout)))
    }

    /// The operand of the group that is the image of a gradient.
    fn image_of_gradient(
        &self,
        node: Node,
        schema: &Schema,
        gradient: &Image,
        window: &Window,
    ) -> Result<usize, Refusal> {
        let image = self.image(node, schema, "self")?;
        let around = window.slides.iter().fold(1, |all: i64, slide| all.saturating_mul(slide.around()));
        match image.part.is_none() && image.dtype == gradient.dtype && around <= MOST_TAPS {
            true => Ok(image.operand),
            false => refuse_for(
                Cause::Operator,
                format!(
                    "`{}` of an image of another element type, or with too large a window",
                    self.section.kind(node)
                ),
            ),
        }
    }

    /// Adds up gradients: each position that has an element under it gives a term.
    fn added_up(
        &mut self,
        node: Node,
        formula: &'static str,
        terms: &[Vec<(Typed, DType)>],
        dtype: DType,
    ) -> Result<Typed, Refusal> {
        let double = DType::Double;
        let mut sum = (Source::Constant(Scalar::Float(0.0)), double);
        for (i, term) in terms.iter().enumerate() {
            let operands: Vec<(Typed, DType)> = [(sum, double)].into_iter().chain(term.iter().copied()).collect();
            let is_last = i + 1 == terms.len();
            let result = is_last.then_some((0, ResultLayout::Contiguous));
            sum = self.combined(node, formula, &operands, (double, if is_last { dtype } else { double }), result)?;
        }
        Ok(sum)
    }

    fn gradient_of_largest(
        &mut self,
        node: Node,
        schema: &Schema,
        gradient: &Image,
        window: &Window,
    ) -> Result<Typed, Refusal> {
        let image = self.image_of_gradient(node, schema, gradient, window)?;
        let indices = self.image(node, schema, "indices")?;
        let (double, long) = (DType::Double, DType::Long);
        if indices.dtype != long || indices.part.is_some() {
            return refuse_for(Cause::Operator, "indices that are not 64-bit integers");
        }
        self.kernel.limits.push((indices.operand, Limit::Places(image, window.slides.len())));
        let given = self.positions(gradient, window, image, Outside::Nothing);
        let places = self.positions(&indices, window, image, Outside::NoIndex);
        let at = window.slides.iter().map(|_| 0).collect();
        let own = self.tap(&indices, Tap { window: window.clone(), at, gives: Gives::Index, image: Some(image) });
        let term = |(&given, &place): (&Source, &Source)| {
            vec![((given, gradient.dtype), double), ((place, long), long), ((own, long), long)]
        };
        let terms: Vec<_> = given.iter().zip(&places).map(term).collect();
        self.added_up(node, TAKEN, &terms, gradient.dtype)
    }

    fn gradient_of_mean(
        &mut self,
        node: Node,
        schema: &Schema,
        gradient: &Image,
        window: &Window,
    ) -> Result<Typed, Refusal> {
        let image = self.image_of_gradient(node, schema, gradient, window)?;
        let count = match self.divisor(node, schema, window)? {
            Some(count) => count,
            None => {
                let why = "the gradient of a mean whose number of elements differs between positions";
                return refuse_for(Cause::Operator, why);
            }
        };
        let given = self.positions(gradient, window, image, Outside::Nothing);
        let double = DType::Double;
        let term = |&given: &Source| vec![((given, gradient.dtype), double), (count, double)];
        let terms: Vec<_> = given.iter().map(term).collect();
        self.added_up(node, SHARE, &terms, gradient.dtype)
    }

    /// The number that all sums are divided by, if there is one.
    fn divisor(&self, node: Node, schema: &Schema, window: &Window) -> Result<Option<Typed>, Refusal> {
        let number = |n: i64| Ok(Some((Source::Constant(Scalar::Float(n as f64)), DType::Double)));
        let given = schema.formal("divisor_override").and_then(|i| self.known_operand(node, i));
        match given {
            None | Some(Known::Missing) => {}
            Some(Known::Number { source: Source::Constant(scalar), kind: Kind::Int }) if scalar.int() != 0 => {
                return number(scalar.int());
            }
            Some(_) => return refuse_for(Cause::Operator, "a divisor that is zero, or known only at run time"),
        }
        let padded = self.counts_padding(node, schema)?;
        let has_padding = window.slides.iter().any(|slide| slide.padding > 0);
        match !window.ceil && (padded || !has_padding) {
            true => number(window.slides.iter().map(|slide| slide.kernel).product()),
            false => Ok(None),
        }
    }

    fn counts_padding(&self, node: Node, schema: &Schema) -> Result<bool, Refusal> {
        let known = self.truth(node, schema, "count_include_pad");
        known.map_or_else(|| refuse_for(Cause::Operator, "`count_include_pad` is known only at run time"), Ok)
    }

    /// The number that a sum is divided by.
    fn count(&mut self, node: Node, schema: &Schema, image: &Image, window: &Window) -> Result<Typed, Refusal> {
        if let Some(one) = self.divisor(node, schema, window)? {
            return Ok(one);
        }
        let padded = self.counts_padding(node, schema)?;
        let mut counts = Vec::new();
        for (slide, one) in window.slides.iter().enumerate() {
            let presence = |at: i64| {
                let at = (0..window.slides.len()).map(|i| if i == slide { at } else { 0 }).collect();
                Tap { window: window.clone(), at, gives: Gives::Presence { slide, padded }, image: None }
            };
            let all: Vec<Source> = (0..one.kernel).map(|at| self.tap(image, presence(at))).collect();
            counts.push(self.folded(node, &all, SUM, (image.dtype, DType::Double))?);
        }
        match counts[..] {
            [one] => Ok(one),
            [height, width] => {
                let double = DType::Double;
                self.combined(node, PRODUCT, &[(height, double), (width, double)], (double, double), None)
            }
            _ => refuse("a window over more than two dimensions"),
        }
    }
}

/// Removes loads of chunks that are read under windows only: they have another shape.
pub(super) fn without_whole_images(kernel: &mut Kernel) {
    if kernel.loads.iter().all(|load| load.tap.is_none()) {
        return;
    }
    let is_read = |k: usize| {
        let source = Source::Load(k);
        kernel.reads(source) || kernel.stores.iter().any(|store| store.source == source)
    };
    let kept: Vec<usize> = (0..kernel.loads.len()).filter(|&k| kernel.loads[k].tap.is_some() || is_read(k)).collect();
    let place = |k: usize| kept.iter().position(|&old| old == k).unwrap_or(0);
    let moved = |source: &mut Source| {
        if let Source::Load(k) = source {
            *k = place(*k);
        }
    };
    for step in &mut kernel.steps {
        step.inputs.iter_mut().for_each(|input| moved(&mut input.source));
        if let ResultLayout::AsImage(load) = &mut step.layout {
            *load = place(*load);
        }
    }
    kernel.reductions.iter_mut().for_each(|reduction| moved(&mut reduction.input.source));
    kernel.column_reductions.iter_mut().for_each(|sum| moved(&mut sum.input.source));
    kernel.stores.iter_mut().for_each(|store| moved(&mut store.source));
    kernel.exact.iter_mut().for_each(|(source, _)| moved(source));
    kernel.images.iter_mut().for_each(|(source, _)| moved(source));
    kernel.of_space.iter_mut().for_each(moved);
    let mut k = 0;
    kernel.loads.retain(|_| {
        k += 1;
        kept.contains(&(k - 1))
    });
}

/// The larger of two elements of a type.
fn larger(dtype: DType) -> &'static str {
    if dtype.is_float() { LARGER } else { LARGER_INTEGER }
}

/// The order of dimensions of the operand that loads read.
fn layout_as(all: &[Source]) -> Option<ResultLayout> {
    all.first().and_then(|source| if let Source::Load(k) = source { Some(ResultLayout::AsImage(*k)) } else { None })
}

/// One of the numbers for each dimension, the last of which varies fastest.
fn combinations(all: impl Iterator<Item = Vec<i64>>) -> Vec<SmallVec<[i64; 2]>> {
    let with = |at: &SmallVec<[i64; 2]>, i: i64| at.iter().copied().chain([i]).collect();
    all.fold(vec![SmallVec::new()], |made: Vec<SmallVec<[i64; 2]>>, own| {
        made.iter().flat_map(|at| own.iter().map(move |&i| with(at, i))).collect()
    })
}
