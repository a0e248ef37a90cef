//! Nodes that make one element of many, by the recipes of the operator table.

use super::{Known, Lowering, Operand, Refusal, refuse};
use crate::analysis::folds::{Axes, axes, keeps, overload};
use crate::analysis::framing::Frame;
use crate::codegen::expressions;
use crate::codegen::kernel::{Folding, Input, Source, Step};
use crate::ir::Node;
use crate::ops::recipes::{Elements, LETTERS, Line, OPTIONAL, Over, Recipe};
use crate::ops::schema::Schema;
use crate::tensor::promotion::of_number;
use crate::tensor::{DType, Kind, Scalar};

/// The types of a node that folds.
struct Types {
    /// What the elements are converted to, and computed in.
    computed: DType,
}

impl Lowering<'_> {
    /// Computes a node by the first recipe that holds.
    pub(super) fn fold(&mut self, node: Node, recipes: &[&'static Recipe]) -> Result<(), Refusal> {
        let Some((schema, _)) = overload(self.section, node) else { return refuse("a fold of an unknown overload") };
        let given = |name: &str| {
            let at = schema.formal(name).filter(|&i| i < self.section.num_inputs(node));
            at.is_some_and(|i| !matches!(self.known_operand(node, i), None | Some(Known::Missing)))
        };
        let holds = |recipe: &&&Recipe| OPTIONAL.iter().all(|name| given(name) == recipe.given.contains(name));
        let Some(recipe) = recipes.iter().find(holds) else {
            return refuse(format!("`{}` has no recipe for these operands", self.section.kind(node)));
        };
        self.follow(Cooking { node, schema, recipe, made: Vec::new() })
    }

    fn follow(&mut self, mut cooking: Cooking) -> Result<(), Refusal> {
        let (node, recipe) = (cooking.node, cooking.recipe);
        let Some(x) = self.tensor(self.section.input(node, 0), Frame::Whole) else {
            return refuse(format!("`{}` of something that no kernel takes", recipe.kind));
        };
        let types = self.types_folded(&cooking, x.dtype)?;
        let Some(axes) = axes(self.section, node) else {
            return refuse(format!("`{}` over dimensions that only a run tells", recipe.kind));
        };
        let keep = keeps(self.section, node);
        let (correction, sizes) = (self.correction(&cooking)?, self.sizes(&cooking));
        let output = self.section.output(node, 0);
        let (name, line) = (self.section.name(output), self.line(node));
        for (i, &Line(letter, fold, text)) in recipe.lines.iter().enumerate() {
            let is_last = i + 1 == recipe.lines.len();
            let name = self.fresh(&if is_last { name.clone() } else { format!("{name}.{letter}") });
            let is_wide = recipe.wide.contains(letter);
            let computed = if is_wide && fold.is_none() { DType::Double } else { types.computed };
            let out = if is_wide { DType::Double } else { types.computed };
            let inputs = self.letters(&cooking, text, computed)?;
            let source = match fold {
                None => {
                    let in_a_row = is_last && recipe.over != Over::Dims;
                    let drops = is_last && !keep;
                    self.step(Step { text, computed, out, inputs, name, line: line.clone(), in_a_row, drops })
                }
                Some(fold) => {
                    let input = match inputs[..] {
                        [input] if text.len() == 1 => input,
                        _ => self.hidden(text, computed, inputs, &name, &line),
                    };
                    let folding = Folding {
                        fold,
                        correction: if fold.varies() { correction } else { 0.0 },
                        input,
                        out,
                        axes: axes.clone(),
                        sizes: sizes.clone(),
                        // What goes with elements keeps its dimensions.
                        keep: keep || !is_last,
                        name,
                        line: line.clone(),
                    };
                    self.kernel.foldings.push(folding);
                    Source::Folded(self.kernel.foldings.len() - 1)
                }
            };
            cooking.made.push((letter, source, out));
        }
        let source = cooking.made[cooking.made.len() - 1].1;
        // Of a value without dimensions nothing but a sum over all of them is left.
        let dimensioned = x.dimensioned && (keep || axes != Axes::All);
        let frame = self.frame(output);
        self.known.insert(output, Known::Tensor { source, dtype: types.computed, dimensioned, frame });
        Ok(())
    }

    /// A step for what is folded but is no value of the graph.
    fn hidden(&mut self, text: &'static str, computed: DType, inputs: Vec<Input>, name: &str, line: &str) -> Input {
        let (name, line) = (self.fresh(&format!("{}.of", name.trim_start_matches("v_"))), line.to_owned());
        let source =
            self.step(Step { text, computed, out: computed, inputs, name, line, in_a_row: false, drops: false });
        Input { letter: 'x', source, dtype: computed, to: computed }
    }

    /// The operands and values that an expression names.
    fn letters(&mut self, cooking: &Cooking, text: &str, to: DType) -> Result<Vec<Input>, Refusal> {
        let mut inputs: Vec<Input> = Vec::new();
        for name in expressions::names(text).filter(|name| name.len() == 1) {
            let letter = name.chars().next().unwrap_or_default();
            if inputs.iter().any(|input| input.letter == letter) {
                continue;
            }
            let made = cooking.made.iter().find(|made| made.0 == letter);
            let (source, dtype) = match made {
                Some(&(_, source, dtype)) => (source, dtype),
                None => self.operand(cooking, letter, to)?,
            };
            inputs.push(Input { letter, source, dtype, to });
        }
        Ok(inputs)
    }

    fn operand(&mut self, cooking: &Cooking, letter: char, computed: DType) -> Result<(Source, DType), Refusal> {
        let names = LETTERS.iter().filter(|row| row.0 == letter);
        let Some((i, name)) = names.filter_map(|row| Some((cooking.schema.formal(row.1)?, row.1))).next() else {
            return refuse(format!("`{}` has no operand {letter}", cooking.recipe.kind));
        };
        if let Some(Operand { source, dtype, .. }) = self.given(cooking.node, i) {
            return match i == 0 || dtype == computed {
                true if i > 0 => {
                    self.kernel.exact.push((source, self.sizes(cooking).unwrap_or_default()));
                    Ok((source, dtype))
                }
                true => Ok((source, dtype)),
                false => refuse(format!("`{}` with {name} of {}", cooking.recipe.kind, dtype.name())),
            };
        }
        match self.known_operand(cooking.node, i) {
            Some(Known::Number { source, kind }) => Ok((*source, of_number(*kind, DType::Double))),
            None => match cooking.schema.formals[i].default.and_then(|text| text.parse().ok()) {
                Some(x) => Ok((Source::Constant(Scalar::Float(x)), DType::Double)),
                None => refuse(format!("`{}` without {name}", cooking.recipe.kind)),
            },
            _ => refuse(format!("`{}` with {name} that no kernel takes", cooking.recipe.kind)),
        }
    }

    /// A tensor that is an operand of a node that folds.
    fn given(&mut self, node: Node, i: usize) -> Option<Operand> {
        let given = i < self.section.num_inputs(node);
        given.then(|| self.tensor(self.section.input(node, i), Frame::Whole)).flatten()
    }

    fn types_folded(&self, cooking: &Cooking, own: DType) -> Result<Types, Refusal> {
        let asked = match cooking.at("dtype").and_then(|i| self.known_operand(cooking.node, i)) {
            None | Some(Known::Missing) => None,
            Some(Known::Number { source: Source::Constant(code), .. }) => DType::from_code(code.int()),
            _ => return refuse(format!("`{}` with an element type that only a run tells", cooking.recipe.kind)),
        };
        let kind = own.arithmetic();
        let computed = match cooking.recipe.elements {
            Elements::Summed if matches!(kind, Some(Kind::Int | Kind::Bool)) => asked.unwrap_or(DType::Long),
            Elements::Ordered if kind == Some(Kind::Bool) => {
                return refuse(format!("`{}` of truth values", cooking.recipe.kind));
            }
            _ => asked.unwrap_or(own),
        };
        let fits = match cooking.recipe.elements {
            Elements::Real => computed.is_float(),
            Elements::Summed | Elements::Ordered => matches!(computed.arithmetic(), Some(Kind::Float | Kind::Int)),
        };
        match fits {
            true => Ok(Types { computed }),
            false => refuse(format!("`{}` of {} has no recipe", cooking.recipe.kind, computed.name())),
        }
    }

    /// The sizes that the folded dimensions must have.
    fn sizes(&self, cooking: &Cooking) -> Option<Vec<i64>> {
        match cooking.at("normalized_shape").and_then(|i| self.known_operand(cooking.node, i)) {
            Some(Known::Numbers(all)) => Some(all.clone()),
            Some(Known::Number { source: Source::Constant(n), .. }) => Some(vec![n.int()]),
            _ => None,
        }
    }

    /// What a variance takes from the number of elements: one where nothing is said.
    fn correction(&self, cooking: &Cooking) -> Result<f64, Refusal> {
        if cooking.recipe.over != Over::Dims {
            return Ok(0.0);
        }
        let at = cooking.at("unbiased").or(cooking.at("correction"));
        match at.and_then(|i| self.known_operand(cooking.node, i)) {
            None | Some(Known::Missing) => Ok(1.0),
            Some(Known::Number { source: Source::Constant(n), .. }) => Ok(n.real()),
            _ => refuse(format!("`{}` with a correction that only a run tells", cooking.recipe.kind)),
        }
    }
}

/// A node that is being computed by a recipe.
struct Cooking {
    node: Node,
    schema: &'static Schema,
    recipe: &'static Recipe,
    /// What the lines so far have made.
    made: Vec<(char, Source, DType)>,
}

impl Cooking {
    /// The place of an operand.
    fn at(&self, name: &str) -> Option<usize> {
        self.schema.formal(name)
    }
}
