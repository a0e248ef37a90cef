//! Lowers reductions by the recipes of the operator table.

use super::{Cause, Known, Lowering, Operand, Refusal, refuse, refuse_for};
use crate::analysis::axis_maps::AxisMap;
use crate::analysis::reduced_dims::{Axes, axes, is_of_channels, keeps, overload, returned_columns};
use crate::codegen::expression::{Expression, expression};
use crate::codegen::kernel::{ColumnReduction, Input, Reduction, ResultLayout, Scan, Source, Step};
use crate::ir::Node;
use crate::ops::recipes::{Elements, LETTERS, Line, Making, OPTIONAL, Over, Recipe, ReduceOp};
use crate::ops::schema::Schema;
use crate::tensor::promotion::of_number;
use crate::tensor::{DType, Kind, Scalar};

/// The parameters that all lines of a recipe share.
struct Terms {
    /// The type that elements are converted to, and computed in.
    elements: DType,
    axes: Axes,
    /// Whether the result keeps the reduced dimensions.
    keep: bool,
    /// See [`Reduction::correction`].
    correction: f64,
    /// The sizes that the reduced dimensions must have, where the node gives them.
    sizes: Option<Vec<i64>>,
}

impl Lowering<'_> {
    /// Lowers a node by the first recipe that applies.
    pub(super) fn reduce(&mut self, node: Node, recipes: &[&'static Recipe]) -> Result<(), Refusal> {
        let Some((schema, _)) = overload(self.section, node) else {
            return refuse("a reduction with an unknown overload");
        };
        let given = |name: &str| {
            let at = schema.formal(name).filter(|&i| i < self.section.num_inputs(node));
            at.is_some_and(|i| !matches!(self.known_operand(node, i), None | Some(Known::Missing)))
        };
        let says = |&(name, n): &(&str, i64)| {
            let at = schema.formal(name).and_then(|i| self.known_operand(node, i));
            matches!(at, Some(Known::Number { source: Source::Constant(scalar), .. }) if scalar.int() == n)
        };
        let sizes = schema.formal("output_size").and_then(|i| self.known_operand(node, i));
        let is_one = matches!(sizes, Some(Known::Numbers(all)) if !all.is_empty() && all.iter().all(|&n| n == 1));
        let holds = |recipe: &&&Recipe| {
            OPTIONAL.iter().all(|name| given(name) == recipe.given.contains(name))
                && recipe.says.iter().all(says)
                && (!matches!(recipe.over, Over::Image(_)) || is_one)
        };
        let Some(recipe) = recipes.iter().find(holds) else {
            let why = format!("`{}` has no recipe for these operands", self.section.kind(node));
            return refuse_for(Cause::Operator, why);
        };
        self.follow(Cooking { node, schema, recipe, elements: DType::Float, made: Vec::new() })
    }

    fn follow(&mut self, mut cooking: Cooking) -> Result<(), Refusal> {
        let (node, recipe) = (cooking.node, cooking.recipe);
        let Some(x) = self.tensor(self.section.input(node, 0), AxisMap::Whole) else {
            return refuse(format!("`{}` of a value that kernels do not support", recipe.kind));
        };
        let terms = self.terms(&cooking, x.dtype)?;
        cooking.elements = terms.elements;
        if recipe.is_elementwise() {
            self.kernel.of_space.push(x.source);
        }
        if let Over::Image(dims) = recipe.over {
            self.kernel.images.push((x.source, dims));
        }
        if self.axis_maps.is_column_reduction(self.section.output(node, 0)) && !recipe.is_column_reduction(0) {
            return self.column_reduction(&cooking, terms);
        }
        if recipe.finds_indices() && self.release < (1, 7) {
            return refuse(format!(
                "`{}` as it was before 1.7, where the last of equal elements was found",
                recipe.kind
            ));
        }
        for i in 0..recipe.lines.len() {
            let Line(letter, making, _) = recipe.lines[i];
            if making != Making::Columns && self.is_wanted(&cooking, letter) {
                let made = self.line_of(&cooking, &terms, i)?;
                cooking.made.push((letter, made));
            }
        }
        // For a value without dimensions only a sum over all of them remains.
        let dimensioned = x.dimensioned && (terms.keep || terms.axes != Axes::All);
        for (k, letter) in recipe.results().enumerate() {
            let output = self.section.output(node, k);
            if !self.section.has_uses(output) {
                continue;
            }
            if !self.is_asked_for(&cooking, k) {
                return refuse(format!("`{}` with a result that its mask leaves out", recipe.kind));
            }
            if recipe.is_column_reduction(k) {
                self.returned_columns(&cooking, &terms, k, letter)?;
                continue;
            }
            let (source, dtype) = match cooking.is_read(letter) {
                true => self.handed_out(&cooking, &terms, k, letter)?,
                false => cooking.known(letter)?,
            };
            let axis_map = self.axis_map(output);
            self.known.insert(output, Known::Tensor { source, dtype, dimensioned, axis_map });
        }
        Ok(())
    }

    /// Whether the result of a line is used: by the graph, or by another line, since all lines lead
    /// to used results.
    fn is_wanted(&self, cooking: &Cooking, letter: char) -> bool {
        let at = cooking.recipe.results().position(|result| result == letter);
        let is_used = |k: usize| self.section.has_uses(self.section.output(cooking.node, k));
        let readers = cooking.recipe.lines.iter().filter(|line| line.0 != letter && names(line, letter));
        at.is_some_and(is_used) || readers.into_iter().any(|line| self.is_wanted(cooking, line.0))
    }

    /// A result that other lines read, too: they read it unrounded, while readers in the graph get
    /// what it would be in memory, perhaps without the reduced dimensions.
    fn handed_out(
        &mut self,
        cooking: &Cooking,
        terms: &Terms,
        k: usize,
        letter: char,
    ) -> Result<(Source, DType), Refusal> {
        let (source, dtype) = cooking.known(letter)?;
        let (name, line) = (self.section.name(self.section.output(cooking.node, k)), self.line(cooking.node));
        let out = terms.elements;
        let step = Step {
            formula: expression("a").or_else(refuse)?,
            computed: out,
            out,
            inputs: vec![Input { letter: 'a', source, dtype, to: out }],
            name: self.fresh(&name),
            line,
            layout: ResultLayout::AsOperands,
            drops: !keeps(self.section, cooking.node, k),
            scan: None,
            is_value: true,
            phase: self.kernel.phase(source),
        };
        Ok((self.step(step), out))
    }

    /// Whether an output mask selects a result, or there is no mask.
    fn is_asked_for(&self, cooking: &Cooking, k: usize) -> bool {
        let mask = cooking.at("output_mask").and_then(|i| self.known_operand(cooking.node, i));
        match mask {
            None => true,
            Some(Known::Numbers(mask)) => mask.get(k) == Some(&1),
            Some(_) => false,
        }
    }

    /// Adds a sum over other dimensions than those of rows, which is a result.
    fn returned_columns(&mut self, cooking: &Cooking, terms: &Terms, k: usize, letter: char) -> Result<(), Refusal> {
        let output = self.section.output(cooking.node, k);
        if !self.axis_maps.is_column_reduction(output) {
            return refuse(format!(
                "`{}` with sums over other dimensions than those that it scans",
                cooking.recipe.kind
            ));
        }
        let lines = cooking.recipe.lines.iter();
        let (Some(Line(_, _, text)), Some((_, axes))) =
            (lines.into_iter().find(|line| line.0 == letter), returned_columns(self.section, cooking.node))
        else {
            return refuse(format!("`{}` has no line {letter}", cooking.recipe.kind));
        };
        let formula = expression(text).or_else(refuse)?;
        let inputs = self.letters(cooking, formula, terms.elements)?;
        let (name, line) = (self.section.name(output), self.line(cooking.node));
        let input = match inputs[..] {
            [input] if formula.is_operand() => input,
            _ => self.hidden(formula, terms.elements, inputs, &format!("v_{name}"), &line),
        };
        self.kernel.column_reductions.push(ColumnReduction { axes, keep: false, input, line });
        self.known.insert(output, Known::ColumnReduction(self.kernel.column_reductions.len() - 1));
        Ok(())
    }

    /// Adds a column reduction: a sum over other dimensions than those of rows.
    fn column_reduction(&mut self, cooking: &Cooking, terms: Terms) -> Result<(), Refusal> {
        let Line(_, _, text) = cooking.recipe.lines[0];
        match self.letters(cooking, expression(text).or_else(refuse)?, terms.elements)?[..] {
            [input] if terms.elements.is_float() => {
                let column_reduction =
                    ColumnReduction { axes: terms.axes, keep: terms.keep, input, line: self.line(cooking.node) };
                self.kernel.column_reductions.push(column_reduction);
            }
            _ => return refuse("integers that are summed over other dimensions than the rest is reduced"),
        }
        self.known.insert(
            self.section.output(cooking.node, 0),
            Known::ColumnReduction(self.kernel.column_reductions.len() - 1),
        );
        Ok(())
    }

    fn terms(&self, cooking: &Cooking, own: DType) -> Result<Terms, Refusal> {
        let Some(axes) = axes(self.section, cooking.node) else {
            return refuse(format!("`{}` over dimensions that are known only at run time", cooking.recipe.kind));
        };
        Ok(Terms {
            elements: self.elements(cooking, own)?,
            axes,
            keep: keeps(self.section, cooking.node, 0),
            correction: self.correction(cooking)?,
            sizes: self.sizes(cooking),
        })
    }

    /// The result of a line of a recipe.
    fn line_of(&mut self, cooking: &Cooking, terms: &Terms, i: usize) -> Result<(Source, DType), Refusal> {
        let (node, recipe) = (cooking.node, cooking.recipe);
        let Line(letter, making, text) = recipe.lines[i];
        // A result that only the graph reads.
        let given = recipe.results().position(|result| result == letter).filter(|_| !cooking.is_read(letter));
        let is_given = given.is_some();
        let (name, line) = (self.section.name(self.section.output(node, given.unwrap_or(0))), self.line(node));
        let name = self.fresh(&if is_given { name } else { format!("{name}.{letter}") });
        let is_wide = recipe.wide.contains(letter);
        let computed = if is_wide && making == Making::Each { DType::Double } else { terms.elements };
        let out = if is_wide { DType::Double } else { terms.elements };
        let formula = expression(text).or_else(refuse)?;
        let inputs = self.letters(cooking, formula, computed)?;
        let reduce = match making {
            Making::Whole(reduce) => reduce,
            Making::Each | Making::Scan(_) | Making::Columns => {
                let layout = match recipe.over {
                    Over::Channels if is_given => ResultLayout::WithChannels,
                    Over::Row | Over::Last if is_given => ResultLayout::Contiguous,
                    _ => ResultLayout::AsOperands,
                };
                let drops = is_given && !terms.keep;
                let scan = match making {
                    Making::Scan(reduce) => Some(Scan { op: reduce, axes: terms.axes.clone() }),
                    _ => None,
                };
                let is_value = is_given;
                let phase = self.kernel.phase_of(&inputs);
                let step = Step { formula, computed, out, inputs, name, line, layout, drops, scan, is_value, phase };
                return Ok((self.step(step), out));
            }
        };
        if reduce == ReduceOp::Product && terms.elements.is_short_float() {
            return refuse_for(Cause::Operator, "a product of halves, which is rounded after each factor");
        }
        let input = match inputs[..] {
            [input] if formula.is_operand() => input,
            _ => self.hidden(formula, computed, inputs, &name, &line),
        };
        let out = if reduce.is_arg_reduction() { DType::Long } else { out };
        self.kernel.reductions.push(Reduction {
            op: reduce,
            correction: if reduce.varies() { terms.correction } else { 0.0 },
            input,
            out,
            axes: terms.axes.clone(),
            sizes: terms.sizes.clone(),
            // An operand of elementwise steps keeps its dimensions.
            keep: terms.keep || !is_given,
            name,
            line,
            is_value: is_given,
            phase: self.kernel.phase(input.source),
        });
        Ok((Source::Reduced(self.kernel.reductions.len() - 1), out))
    }

    /// A step for the operand of a reduction that is no value of the graph.
    fn hidden(
        &mut self,
        formula: &'static Expression,
        computed: DType,
        inputs: Vec<Input>,
        name: &str,
        line: &str,
    ) -> Input {
        let (name, line) = (self.fresh(&format!("{}.of", name.trim_start_matches("v_"))), line.to_owned());
        let phase = self.kernel.phase_of(&inputs);
        let source = self.step(Step {
            formula,
            computed,
            out: computed,
            inputs,
            name,
            line,
            layout: ResultLayout::AsOperands,
            drops: false,
            scan: None,
            is_value: false,
            phase,
        });
        Input { letter: 'x', source, dtype: computed, to: computed }
    }

    /// The operands and values that an expression names.
    fn letters(&mut self, cooking: &Cooking, formula: &Expression, to: DType) -> Result<Vec<Input>, Refusal> {
        let mut inputs: Vec<Input> = Vec::new();
        for &letter in &formula.operands {
            let made = cooking.made.iter().find(|made| made.0 == letter);
            // Results of earlier lines are not rounded to 16 bits in between: the inverse of a
            // small deviation may exceed the range of halves.
            let (source, dtype, to) = match made {
                Some(&(_, (source, dtype))) => (source, dtype, if to.is_short_float() { DType::Float } else { to }),
                None => {
                    let (source, dtype, is_weight) = self.operand(cooking, letter)?;
                    // Weights of halves may be floats, and are not rounded then.
                    let is_wider = is_weight && dtype == DType::Float && to.is_short_float();
                    (source, dtype, if is_wider { dtype } else { to })
                }
            };
            inputs.push(Input { letter, source, dtype, to });
        }
        Ok(inputs)
    }

    /// An operand, its type, and whether it is a weight or one of the like, which may be absent.
    fn operand(&mut self, cooking: &Cooking, letter: char) -> Result<(Source, DType, bool), Refusal> {
        let names = LETTERS.iter().filter(|row| row.0 == letter);
        let Some((i, name)) = names.filter_map(|row| Some((cooking.schema.formal(row.1)?, row.1))).next() else {
            return refuse(format!("`{}` has no operand {letter}", cooking.recipe.kind));
        };
        if let Some(Operand { source, dtype, .. }) = self.given(cooking.node, i) {
            let is_weight = OPTIONAL.contains(&name);
            return match i == 0 || dtype == cooking.elements || is_weight && self.weights_are_floats(cooking) {
                true if is_of_channels(self.section, cooking.node, i) && !matches!(source, Source::Load(_)) => {
                    refuse(format!("`{}` with {name} that the group computes", cooking.recipe.kind))
                }
                true if is_weight && cooking.recipe.over == Over::Last => {
                    self.kernel.exact.push((source, self.sizes(cooking).unwrap_or_default()));
                    Ok((source, dtype, true))
                }
                true => Ok((source, dtype, is_weight)),
                false => {
                    let why = format!("`{}` with {name} of {}", cooking.recipe.kind, dtype.name());
                    refuse_for(Cause::ElementType, why)
                }
            };
        }
        match self.known_operand(cooking.node, i) {
            Some(Known::Number { source, kind }) => Ok((*source, of_number(*kind, DType::Double), false)),
            None => match cooking.schema.formals[i].default.and_then(|text| text.parse().ok()) {
                Some(x) => Ok((Source::Constant(Scalar::Float(x)), DType::Double, false)),
                None => refuse(format!("`{}` without {name}", cooking.recipe.kind)),
            },
            _ => refuse(format!("`{}` with {name} that kernels do not support", cooking.recipe.kind)),
        }
    }

    /// Whether halves have weights, and statistics, that are all floats. Statistics that are a
    /// result would be floats, too, and have no recipe.
    fn weights_are_floats(&self, cooking: &Cooking) -> bool {
        let is_float = |name: &&str| {
            let at = cooking.at(name).and_then(|i| self.known_operand(cooking.node, i));
            matches!(at, Some(Known::Tensor { dtype, .. } | Known::Operand { dtype, .. }) if *dtype == DType::Float)
        };
        let (is_short, is_one) = (cooking.elements.is_short_float(), cooking.recipe.gives.is_empty());
        is_short && is_one && cooking.recipe.given.iter().all(is_float)
    }

    /// A tensor operand of a node that reduces.
    fn given(&mut self, node: Node, i: usize) -> Option<Operand> {
        let given = i < self.section.num_inputs(node);
        let axis_map = self.axis_maps.read(self.section, node, i);
        given.then(|| self.tensor(self.section.input(node, i), axis_map)).flatten()
    }

    /// The type that elements are converted to, and computed in.
    fn elements(&self, cooking: &Cooking, own: DType) -> Result<DType, Refusal> {
        let asked = match cooking.at("dtype").and_then(|i| self.known_operand(cooking.node, i)) {
            None | Some(Known::Missing) => None,
            Some(Known::Number { source: Source::Constant(code), .. }) => match DType::from_code(code.int()) {
                None => {
                    return refuse(format!(
                        "`{}` with dtype {}, which is no element type",
                        cooking.recipe.kind,
                        code.int()
                    ));
                }
                known => known,
            },
            _ => {
                return refuse(format!(
                    "`{}` with an element type that is known only at run time",
                    cooking.recipe.kind
                ));
            }
        };
        let kind = own.arithmetic();
        let computed = match cooking.recipe.elements {
            Elements::Summed if matches!(kind, Some(Kind::Int | Kind::Bool)) => asked.unwrap_or(DType::Long),
            Elements::Ordered if kind == Some(Kind::Bool) => {
                return refuse(format!("`{}` of bools", cooking.recipe.kind));
            }
            _ => asked.unwrap_or(own),
        };
        let fits = match cooking.recipe.elements {
            Elements::Real => computed.is_float(),
            Elements::Summed | Elements::Ordered => matches!(computed.arithmetic(), Some(Kind::Float | Kind::Int)),
        };
        match fits {
            true => Ok(computed),
            false => {
                let why = format!("`{}` of {} has no recipe", cooking.recipe.kind, computed.name());
                refuse_for(Cause::Operator, why)
            }
        }
    }

    /// The sizes that the reduced dimensions must have.
    fn sizes(&self, cooking: &Cooking) -> Option<Vec<i64>> {
        match cooking.at("normalized_shape").and_then(|i| self.known_operand(cooking.node, i)) {
            Some(Known::Numbers(all)) => Some(all.clone()),
            Some(Known::Number { source: Source::Constant(n), .. }) => Some(vec![n.int()]),
            _ => None,
        }
    }

    /// The correction of a variance, subtracted from the number of elements: 1 by default.
    fn correction(&self, cooking: &Cooking) -> Result<f64, Refusal> {
        if cooking.recipe.over != Over::Dims {
            return Ok(0.0);
        }
        let at = cooking.at("unbiased").or(cooking.at("correction"));
        match at.and_then(|i| self.known_operand(cooking.node, i)) {
            None | Some(Known::Missing) => Ok(1.0),
            Some(Known::Number { source: Source::Constant(n), .. }) => Ok(n.real()),
            _ => refuse(format!("`{}` with a correction that is known only at run time", cooking.recipe.kind)),
        }
    }
}

/// A node that is being lowered by a recipe.
struct Cooking {
    node: Node,
    schema: &'static Schema,
    recipe: &'static Recipe,
    /// The type of elements.
    elements: DType,
    /// The results of the lines so far.
    made: Vec<(char, (Source, DType))>,
}

/// Whether a line names the result of another one.
fn names(line: &Line, letter: char) -> bool {
    expression(line.2).is_ok_and(|formula| formula.reads(letter))
}

impl Cooking {
    /// The index of an operand.
    fn at(&self, name: &str) -> Option<usize> {
        self.schema.formal(name)
    }

    /// Whether a line names the result of another one.
    fn is_read(&self, letter: char) -> bool {
        self.recipe.lines.iter().any(|line| line.0 != letter && names(line, letter))
    }

    /// The result of a line.
    fn known(&self, letter: char) -> Result<(Source, DType), Refusal> {
        let made = self.made.iter().find(|made| made.0 == letter);
        made.map_or_else(|| refuse(format!("`{}` has no line {letter}", self.recipe.kind)), |made| Ok(made.1))
    }
}
