//! The shapes of programs, as deterministic streams of steps.
//!
//! Of the nodes 60 % are unique, 20 % repeat an earlier one, 20 % are dead. Every unique node has
//! the previous one as its first operand, so all of them are different and reach the result; every
//! duplicate is used by a unique node. Only a window of recent nodes is kept in memory, whatever
//! the size.
//!
//! A sixth shape, `ifs-same`, is measured on demand only, as `opt` and `mlir-opt` take quadratic
//! time for it: `ifs`, but every second conditional has the condition of the first.
//!
//! Two shapes have other proportions: almost every constant is a duplicate, and in `in-place` a
//! fifth of the nodes are writes.
//!
//! | shape | what it stresses |
//! | --- | --- |
//! | `straight-low` | operands come from the last few nodes: every value has few uses |
//! | `straight-high` | a third of the nodes use one constant and one parameter: use lists as long as the graph |
//! | `ifs` | every fifteenth node is a conditional with two blocks; duplicates within and across scopes |
//! | `constants` | every second node is a constant, with 64 distinct values; duplicates appear once they are merged |
//! | `in-place` | fresh tensors, views of them, writes through the views, reads that a write separates |

use std::io;

use super::dialect::{Expr, FIRST_FREE, Kind, N, Step, Val, Writer, X, Y};

/// Number of recent nodes that are candidates for operands and duplicates.
const WINDOW: usize = 64;
/// Number of distinct constants of the shape `constants`.
const CONSTANTS: u32 = 64;

/// A shape of programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Shape {
    /// Straight-line code, few uses for each value.
    StraightLow,
    /// Straight-line code, one constant and one parameter with uses everywhere.
    StraightHigh,
    /// Many conditionals.
    Ifs,
    /// Many conditionals, half of them with the same condition.
    IfsSame,
    /// Many constants, few values.
    Constants,
    /// Mutation through views.
    InPlace,
}

impl Shape {
    /// The five shapes that are measured by default.
    pub const FIVE: [Shape; 5] =
        [Shape::StraightLow, Shape::StraightHigh, Shape::Ifs, Shape::Constants, Shape::InPlace];

    /// The shape's name on the command line and in reports.
    pub fn name(self) -> &'static str {
        match self {
            Shape::StraightLow => "straight-low",
            Shape::StraightHigh => "straight-high",
            Shape::Ifs => "ifs",
            Shape::IfsSame => "ifs-same",
            Shape::Constants => "constants",
            Shape::InPlace => "in-place",
        }
    }

    /// Writes a program of at least `nodes` nodes (at most one group more) and returns their
    /// number.
    pub fn generate(self, nodes: u64, writer: &mut dyn Writer) -> io::Result<u64> {
        writer.begin()?;
        let mut generator = Generator::new(writer);
        let one = match self {
            Shape::StraightHigh => Some(generator.constant(1)?),
            _ => None,
        };
        let mut group = 0;
        while generator.nodes < nodes {
            match self {
                Shape::StraightLow | Shape::StraightHigh => generator.straight(one)?,
                Shape::Ifs => generator.conditional(true)?,
                Shape::IfsSame => generator.conditional(group % 2 == 0)?,
                Shape::Constants => generator.constants()?,
                Shape::InPlace => generator.in_place(group % 2 == 0)?,
            }
            group += 1;
        }
        let last = generator.finish()?;
        let count = generator.nodes;
        writer.end(last)?;
        Ok(count)
    }
}

/// The role of a node of straight-line code.
#[derive(Clone, Copy)]
enum Role {
    Unique,
    Duplicate,
    Dead,
}

/// The state between steps.
struct Generator<'w> {
    writer: &'w mut dyn Writer,
    random: Random,
    nodes: u64,
    next: u32,
    /// The newest live tensor.
    last: Val,
    /// The newest integer.
    last_int: Val,
    /// The condition of the first conditional.
    first_condition: Option<Val>,
    /// The newest dead tensor.
    dead: Val,
    /// Duplicates without uses so far.
    pending: Vec<Val>,
    values: Recent<Val>,
    exprs: Recent<Expr>,
}

impl<'w> Generator<'w> {
    fn new(writer: &'w mut dyn Writer) -> Self {
        Generator {
            writer,
            random: Random(0x9e37_79b9_7f4a_7c15),
            nodes: 0,
            next: FIRST_FREE,
            last: X,
            last_int: N,
            first_condition: None,
            dead: Y,
            pending: Vec::new(),
            values: Recent::new(Y),
            exprs: Recent::new(Expr { kind: Kind::Mul, args: [X, Y, X] }),
        }
    }

    /// A new value.
    fn fresh(&mut self) -> Val {
        self.next += 1;
        Val(self.next - 1)
    }

    /// Writes a step.
    fn emit(&mut self, step: Step) -> io::Result<()> {
        self.nodes += u64::from(step.is_node());
        self.writer.step(&step)
    }

    /// Writes a step that has a result.
    fn emit_with(&mut self, step: impl FnOnce(Val) -> Step) -> io::Result<Val> {
        let out = self.fresh();
        self.emit(step(out))?;
        Ok(out)
    }

    /// Writes a pure node.
    fn pure(&mut self, expr: Expr) -> io::Result<Val> {
        self.emit_with(|out| Step::Pure { out, expr })
    }

    /// Writes a constant node.
    fn constant(&mut self, value: u32) -> io::Result<Val> {
        self.emit_with(|out| Step::Constant { out, value })
    }

    /// An operation on `first` and recent values, of a random kind that needs no constant.
    fn random_expr(&mut self, first: Val) -> Expr {
        let kind = match self.random.below(8) {
            0 => Kind::Tanh,
            1 => Kind::Exp,
            2 | 3 => Kind::Div,
            _ => Kind::Mul,
        };
        Expr { kind, args: [first, self.values.pick(&mut self.random), X] }
    }

    /// Remembers a unique node as the newest live one.
    fn keep(&mut self, out: Val, expr: Expr) {
        self.last = out;
        self.values.push(out);
        self.exprs.push(expr);
    }

    /// Writes a unique node that uses the newest live one.
    fn unique(&mut self, one: Option<Val>) -> io::Result<Val> {
        let expr = match (self.pending.pop(), one) {
            (Some(duplicate), _) => Expr { kind: Kind::Mul, args: [self.last, duplicate, X] },
            (None, Some(one)) if self.random.below(2) == 0 => Expr { kind: Kind::Add, args: [self.last, X, one] },
            (None, _) => self.random_expr(self.last),
        };
        let out = self.pure(expr)?;
        self.keep(out, expr);
        Ok(out)
    }

    /// Writes a node that only dead nodes use: half of them continue a dead chain.
    fn dead(&mut self, one: Option<Val>) -> io::Result<()> {
        let first = if self.random.below(2) == 0 { self.dead } else { self.values.pick(&mut self.random) };
        let expr = match one {
            Some(one) if self.random.below(3) == 0 => Expr { kind: Kind::Add, args: [first, X, one] },
            _ => self.random_expr(first),
        };
        self.dead = self.pure(expr)?;
        Ok(())
    }

    /// Ten nodes in random order. `one` is the constant that is used everywhere, if there is one.
    fn straight(&mut self, one: Option<Val>) -> io::Result<()> {
        use Role::{Dead, Duplicate, Unique};
        let mut roles = [Unique, Unique, Unique, Unique, Unique, Unique, Duplicate, Duplicate, Dead, Dead];
        self.random.shuffle(&mut roles);
        for role in roles {
            match role {
                Unique => {
                    self.unique(one)?;
                }
                Duplicate => {
                    let expr = self.exprs.pick(&mut self.random);
                    let out = self.pure(expr)?;
                    self.pending.push(out);
                }
                Dead => self.dead(one)?,
            }
        }
        Ok(())
    }

    /// Fifteen nodes around a conditional: nine unique, three duplicates (one of a node outside its
    /// block), three dead. Values of a block are used in that block only. The condition is computed
    /// anew, or is the first one of the program, as models query repeatedly whether they are in
    /// training.
    fn conditional(&mut self, anew: bool) -> io::Result<()> {
        let cond = self.condition(anew)?;
        let previous = self.last;
        let shared = self.random_expr(previous);
        let outer = self.pure(shared)?;
        let result = self.emit_with(|out| Step::If { out, cond })?;
        self.block(outer, previous, shared, false)?;
        self.block(outer, previous, shared, true)?;
        let repeated = self.pure(shared)?;
        let expr = Expr { kind: Kind::Mul, args: [result, repeated, X] };
        let out = self.pure(expr)?;
        self.keep(out, expr);
        self.dead(None)
    }

    /// Two unique nodes and the condition for [`Generator::conditional`].
    fn condition(&mut self, anew: bool) -> io::Result<Val> {
        if let Some(cond) = self.first_condition.filter(|_| !anew) {
            self.unique(None)?;
            self.unique(None)?;
            return Ok(cond);
        }
        let (a, b) = (self.last_int, N);
        self.last_int = self.emit_with(|out| Step::AddInt { out, a, b })?;
        let a = self.last_int;
        let cond = self.emit_with(|out| Step::Greater { out, a, b })?;
        self.first_condition.get_or_insert(cond);
        Ok(cond)
    }

    /// One block of [`Generator::conditional`]: the first repeats a node from outside, the second
    /// one of its own.
    fn block(&mut self, outer: Val, previous: Val, shared: Expr, second: bool) -> io::Result<()> {
        let own = Expr { kind: Kind::Mul, args: [outer, previous, X] };
        let own = if second { Expr { kind: Kind::Div, ..own } } else { own };
        let first = self.pure(own)?;
        let repeated = self.pure(if second { own } else { shared })?;
        let yielded = self.pure(Expr { kind: Kind::Mul, args: [first, repeated, X] })?;
        let dead = self.random_expr(yielded);
        self.pure(dead)?;
        self.emit(if second { Step::EndIf { yielded } } else { Step::Else { yielded } })
    }

    /// Ten nodes, five of them constants: three unique operations, a duplicate that shows once
    /// equal constants are merged, a dead operation with a constant of its own.
    fn constants(&mut self) -> io::Result<()> {
        for round in 0..3 {
            let value = self.random.below(CONSTANTS);
            let constant = self.constant(value)?;
            let other = self.pending.pop().unwrap_or(Y);
            let expr = Expr { kind: Kind::Add, args: [self.last, other, constant] };
            let out = self.pure(expr)?;
            self.keep(out, expr);
            if round == 0 {
                let again = self.constant(value)?;
                let duplicate = self.pure(Expr { args: [expr.args[0], other, again], ..expr })?;
                self.pending.push(duplicate);
            }
        }
        let value = self.random.below(CONSTANTS);
        let constant = self.constant(value)?;
        let first = self.values.pick(&mut self.random);
        self.pure(Expr { kind: Kind::Add, args: [first, Y, constant] })?;
        Ok(())
    }

    /// Ten nodes on average around one buffer: six unique, two duplicates (a read and a view), two
    /// dead. The last read looks like the others but has a write before it. The dead nodes are a
    /// view in one group, a buffer and a write through a view of it in the next.
    fn in_place(&mut self, dead_write: bool) -> io::Result<()> {
        let previous = self.last;
        let buffer = self.emit_with(|out| Step::Fresh { out, from: previous })?;
        let view = self.emit_with(|out| Step::View { out, of: buffer })?;
        self.emit_with(|out| Step::Write { out, to: view, value: previous })?;
        self.emit_with(|out| Step::Read { out, from: buffer })?;
        let read = self.emit_with(|out| Step::Read { out, from: buffer })?;
        let view = self.emit_with(|out| Step::View { out, of: buffer })?;
        self.emit_with(|out| Step::Write { out, to: view, value: read })?;
        self.last = self.emit_with(|out| Step::Read { out, from: buffer })?;
        self.values.push(self.last);
        if dead_write {
            let from = self.values.pick(&mut self.random);
            let buffer = self.emit_with(|out| Step::Fresh { out, from })?;
            let view = self.emit_with(|out| Step::View { out, of: buffer })?;
            return self.emit_with(|out| Step::Write { out, to: view, value: previous }).map(drop);
        }
        self.emit_with(|out| Step::View { out, of: buffer }).map(drop)
    }

    /// Uses the remaining duplicates and returns the last value.
    fn finish(&mut self) -> io::Result<Val> {
        while !self.pending.is_empty() {
            self.unique(None)?;
        }
        Ok(self.last)
    }
}

/// The last [`WINDOW`] items pushed.
struct Recent<T> {
    items: [T; WINDOW],
    next: usize,
}

impl<T: Copy> Recent<T> {
    fn new(fill: T) -> Self {
        Recent { items: [fill; WINDOW], next: 0 }
    }

    fn push(&mut self, item: T) {
        self.items[self.next] = item;
        self.next = (self.next + 1) % WINDOW;
    }

    fn pick(&self, random: &mut Random) -> T {
        self.items[random.below(WINDOW as u32) as usize]
    }
}

/// Xorshift, for reproducible numbers on all machines.
struct Random(u64);

impl Random {
    /// A number below `bound`.
    fn below(&mut self, bound: u32) -> u32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        ((self.0 >> 32) % u64::from(bound)) as u32
    }

    fn shuffle<T>(&mut self, items: &mut [T]) {
        for i in (1..items.len()).rev() {
            items.swap(i, self.below(i as u32 + 1) as usize);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{HashMap, HashSet};

    use clap::ValueEnum;

    use super::super::dialect::Dialect;
    use super::*;

    /// Records the steps.
    #[derive(Default)]
    struct Recorder {
        steps: Vec<Step>,
        result: Option<Val>,
    }

    impl Writer for Recorder {
        fn begin(&mut self) -> io::Result<()> {
            Ok(())
        }

        fn step(&mut self, step: &Step) -> io::Result<()> {
            self.steps.push(*step);
            Ok(())
        }

        fn end(&mut self, result: Val) -> io::Result<()> {
            self.result = Some(result);
            Ok(())
        }
    }

    fn record(shape: Shape, nodes: u64) -> Recorder {
        let mut recorder = Recorder::default();
        let count = shape.generate(nodes, &mut recorder).expect("a recorder cannot fail");
        assert_eq!(count, recorder.steps.iter().filter(|step| step.is_node()).count() as u64);
        assert!((nodes..nodes + 15).contains(&count), "{count} nodes");
        recorder
    }

    fn text(shape: Shape, nodes: u64) -> String {
        let mut out = Vec::new();
        shape.generate(nodes, Dialect::Torchscript.writer(&mut out).as_mut()).expect("memory cannot fail");
        String::from_utf8(out).expect("text")
    }

    /// The number of nodes of straight-line code that remain after value numbering and dead code
    /// elimination.
    fn survivors(recorder: &Recorder) -> usize {
        let mut leaders: HashMap<Val, Val> = HashMap::new();
        let mut seen: HashMap<Expr, Val> = HashMap::new();
        let mut operands: HashMap<Val, Vec<Val>> = HashMap::new();
        for step in &recorder.steps {
            let Step::Pure { out, expr } = *step else { continue };
            let mut args = [X; 3];
            for (arg, operand) in args.iter_mut().zip(expr.operands()) {
                *arg = *leaders.get(operand).unwrap_or(operand);
            }
            let expr = Expr { args, ..expr };
            leaders.insert(out, *seen.entry(expr).or_insert(out));
            operands.insert(out, expr.operands().to_vec());
        }
        let mut live = HashSet::new();
        let mut work = vec![recorder.result.expect("a result")];
        while let Some(value) = work.pop() {
            if let Some(more) = operands.get(&value).filter(|_| live.insert(value)) {
                work.extend(more);
            }
        }
        live.len()
    }

    #[test]
    fn three_fifths_of_straight_line_code_survive() {
        for shape in [Shape::StraightLow, Shape::StraightHigh] {
            let left = survivors(&record(shape, 10_000));
            assert!((5_950..=6_050).contains(&left), "{left} nodes of {} are left", shape.name());
        }
    }

    #[test]
    fn high_fan_out_is_a_third_of_the_nodes_and_low_is_low() {
        let most_uses = |shape| {
            let mut uses: HashMap<Val, usize> = HashMap::new();
            for step in &record(shape, 9_000).steps {
                let Step::Pure { expr, .. } = step else { continue };
                expr.operands().iter().for_each(|&v| *uses.entry(v).or_default() += 1);
            }
            uses.into_values().max()
        };
        assert!(most_uses(Shape::StraightLow) < Some(200));
        assert!(most_uses(Shape::StraightHigh) > Some(2_700));
    }

    #[test]
    fn every_text_defines_what_it_uses_and_is_the_same_each_time() {
        for &shape in Shape::value_variants() {
            record(shape, 500);
            let text = text(shape, 500);
            assert_eq!(text, self::text(shape, 500));
            let mut defined = HashSet::new();
            for line in text.lines() {
                let (left, right) = line
                    .split_once(" = ")
                    .unwrap_or(if line.contains("->") || line.contains("return") { ("", line) } else { (line, "") });
                let names = |part: &str| -> Vec<String> {
                    let ends = |c: char| " ,():".contains(c);
                    part.split(ends).filter(|word| word.starts_with('%')).map(str::to_owned).collect()
                };
                for name in names(right) {
                    assert!(defined.contains(&name), "{name} is used before it is defined in {line}");
                }
                for name in names(left) {
                    assert!(defined.insert(name.clone()), "{name} is defined twice");
                }
            }
        }
    }

    #[test]
    fn a_conditional_looks_as_pytorch_prints_it() {
        let text = text(Shape::Ifs, 15);
        let (_, text) = text.split_once("int):\n").expect("a header");
        assert!(text.contains("  %6 : Tensor = prim::If(%4)\n    block0():\n      %7 : Tensor = "), "{text}");
        assert!(text.contains("\n      -> (%9)\n    block1():\n      %11 : Tensor = "), "{text}");
        assert!(text.ends_with("\n  return (%h.16)\n"), "{text}");
    }
}
