//! Nests as text for people: `--emit=nest`.

use super::{
    Axis, Bind, Buffer, Compute, Distance, For, Known, Nest, Operand, Origin, Place, Scope, Split, Spread, Stmt, Term,
    Watch, Way, Whole,
};
use crate::codegen::expression::{Callee, Expr, Expression};
use crate::codegen::kernel::Inner;
use crate::codegen::text_lines::Lines;
use crate::codegen::window::{Gives, Guard};
use crate::tensor::Scalar;
use std::fmt;

impl fmt::Display for Nest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut lines = Lines::of_text();
        let threads = self.threads.map_or(String::new(), |threads| format!(", blocks of {threads} threads"));
        lines.line(&format!("nest {}{threads}", self.group));
        lines.deeper();
        self.assumed.iter().for_each(|assumed| lines.line(&format!("# {assumed}")));
        for access in &self.accesses {
            let (name, ty) = (&access.name, access.dtype.name());
            let layout = match access.inner {
                _ if access.is_of_row => "one element per row",
                Inner::Broadcast => "broadcast along rows",
                Inner::Unit => "contiguous",
                Inner::Strided => "strided",
            };
            let watch = match access.watch {
                None => "",
                Some(Watch { gives: Gives::Presence { .. }, .. }) => {
                    ", nothing but whether it is inside of the operand"
                }
                Some(Watch { gives: Gives::Part, .. }) => ", in one part of the result",
                Some(Watch { gives: Gives::Index, .. }) => ", nothing but the index of the element in its image",
                Some(Watch { guard: Guard::None, .. }) => ", under a window",
                Some(Watch { guard: Guard::RowUnder | Guard::PointUnder(..), .. }) => {
                    ", that of a window over the point"
                }
                Some(Watch { guard: Guard::Row, .. }) => ", under a window, outside of the operand in some rows",
                Some(Watch { guard: Guard::Point, .. }) => ", under a window, outside of the operand at some points",
            };
            let verb = if access.is_written { "writes" } else { "reads" };
            lines.line(&format!("{verb} {name}: {ty}, {layout}{watch}"));
        }
        self.stmts(&mut lines, &self.body);
        f.write_str(lines.finish().text())
    }
}

/// A number as people write it.
fn number(scalar: Scalar) -> String {
    match scalar {
        Scalar::Int(n) => n.to_string(),
        Scalar::Float(x) => format!("{x:?}"),
        scalar => format!("{}", scalar.real()),
    }
}

/// The range of a loop over an axis.
fn over(axis: Axis) -> String {
    match axis {
        Axis::Tiles(points) => format!("for each tile of {points} points of each row"),
        Axis::FirstRow(points) => format!("for each tile of {points} points of the first row"),
        Axis::Points => "for each point i of the tile".to_owned(),
        Axis::Rows => "for each row".to_owned(),
        Axis::Columns(rows) => format!("for each tile of {rows} interleaved rows"),
        Axis::Sides(rows) => format!("for each side of {rows} rows"),
        Axis::Side => "for each row r of the side".to_owned(),
        Axis::Pieces => "for each piece of the row".to_owned(),
        Axis::Blocks { size, first: None } => format!("for each block of {size} elements"),
        Axis::Blocks { size, first: Some((_, first)) } => {
            format!("for each block of {size} elements, the first of {first}")
        }
        Axis::Lines { at_once: 1, rest_of: 1 } => "for each line j of the block".to_owned(),
        Axis::Lines { at_once: 1, .. } => "for each line j that is left".to_owned(),
        Axis::Lines { at_once, .. } => format!("for each {at_once} lines of the block"),
        Axis::Together(lines) => format!("for each u of {lines} lines"),
        Axis::Parts { columns, .. } => format!("for each part of {columns} rows"),
        Axis::Shares => "for each part of the row".to_owned(),
        Axis::SharesBefore => "for each part before this one".to_owned(),
        Axis::Elements => "for each element of the row".to_owned(),
        Axis::Chunks => "for each chunk of the row, an element a thread".to_owned(),
        Axis::Distances(lanes) => format!("for each distance between {lanes} lanes"),
        Axis::Halves(lanes) => format!("for each half of {lanes} lanes"),
        Axis::Rounds { count, of: Whole::Row } => format!("for each of {count} rounds"),
        Axis::Rounds { count, of: Whole::Batch } => format!("for each of {count} rounds of the batch"),
        Axis::Rounds { count, of: Whole::Span } => format!("for each of {count} rounds of the span"),
        Axis::Rounds { count, of: Whole::Group } => format!("for each of {count} rounds of points"),
        Axis::Groups(rounds) => format!("for each group of {rounds} rounds of points, for each block"),
        Axis::Spans(rounds) => format!("for each span of {rounds} rounds of the row"),
        Axis::Batches(batches) => format!("for each of {batches} batches of rounds"),
        Axis::Lanes(lanes) => format!("for each of {lanes} elements"),
        Axis::Squares(side) => format!("for each square of {side} x {side} points"),
        Axis::Strips(count, Way::Across) => format!("for each of {count} strips of the square, lanes across"),
        Axis::Strips(count, Way::Down) => format!("for each of {count} strips of the square, lanes down"),
    }
}

impl Nest {
    fn stmts(&self, lines: &mut Lines, stmts: &[Stmt]) {
        for stmt in stmts {
            // Braces mean nothing to readers.
            if let Stmt::Scope(body) = stmt {
                self.stmts(lines, body);
                continue;
            }
            self.stmt(stmt).into_iter().for_each(|(text, note)| lines.noted(&text, note));
            match stmt {
                Stmt::Retry { body, lost, again } => {
                    self.block(lines, body);
                    let lost: Vec<String> = lost.iter().map(|term| self.term(term)).collect();
                    lines.line(&format!("again, once, if {}:", lost.join(" | ")));
                    self.block(lines, again);
                }
                _ => stmt.inside().into_iter().for_each(|body| self.block(lines, body)),
            }
        }
    }

    fn block(&self, lines: &mut Lines, body: &[Stmt]) {
        lines.deeper();
        self.stmts(lines, body);
        lines.back();
    }

    /// The range of a loop over an axis, by parts where rows are split.
    fn over(&self, axis: Axis) -> String {
        match (axis, self.split) {
            (Axis::Rows, Some(Split::Parts)) => "for each part of each row".to_owned(),
            (Axis::Elements, Some(Split::Parts)) => "for each element of the part".to_owned(),
            _ => over(axis),
        }
    }

    /// A loop.
    fn head(&self, all: &For) -> String {
        let bind = match all.bind {
            Bind::Serial => "",
            Bind::Worker => ", in parallel",
            Bind::Vector => ", as a vector",
            Bind::Unroll => ", unrolled",
            Bind::Grid => ", a thread each",
            Bind::Block => ", a block of threads each",
            Bind::Warp => ", a warp each",
            Bind::Thread => ", the threads of the block in turn",
        };
        let combined = all.combined.iter().map(|one| {
            let scan = if one.is_scan { "scan " } else { "" };
            format!(", {scan}{} {}", one.how, self.variables[one.variable].name)
        });
        let within = all.within.map_or(String::new(), |at| format!(" in the part of {}", self.accesses[at].name));
        self.over(all.axis) + &within + bind + &combined.collect::<String>()
    }

    /// An element that is read, or what it is outside of an operand.
    fn loaded(&self, place: Place) -> String {
        let element = format!("{}{}", self.place(place), self.index(place));
        let watch = if let Place::Access(access) = place { self.accesses[access].watch } else { None };
        match (watch, place) {
            (Some(Watch { gives: Gives::Part, .. }), _) => element,
            (Some(Watch { gives: Gives::Presence { .. }, .. }), _) => format!("{element} is inside"),
            (Some(Watch { guard: Guard::None, gives: Gives::Index }), _) => format!("the index of {element}"),
            (Some(Watch { guard, gives }), Place::Access(access)) if guard != Guard::None => {
                let outside = gives.outside(self.accesses[access].dtype);
                let element = if gives == Gives::Index { format!("the index of {element}") } else { element };
                format!("{element} if inside, else {}", number(outside))
            }
            _ => element,
        }
    }

    /// The lines of a statement, with their notes.
    fn stmt<'a>(&self, stmt: &'a Stmt) -> Vec<(String, &'a str)> {
        let at = |place: Place| format!("{}{}", self.place(place), self.index(place));
        let one = match stmt {
            Stmt::For(all) => (self.head(all), ""),
            Stmt::Alloc(buffer) => {
                let Buffer { elements, scope, dtype, .. } = self.buffers[*buffer];
                let scope = match scope {
                    Scope::Row => "a row",
                    Scope::Tile => "a tile",
                    Scope::Rows => "rows",
                    Scope::Thread => "a thread",
                };
                let name = self.place(Place::Buffer(*buffer));
                (format!("buffer {name}: {elements} of {}, for {scope}", dtype.name()), "")
            }
            Stmt::Open(place) => (format!("open {}", self.place(*place)), ""),
            Stmt::Let { value, compute, note } => {
                let text = match compute {
                    Compute::Load(place) => self.loaded(*place),
                    Compute::Apply { formula, operands, rounded, .. } => {
                        let text = self.formula(formula, operands);
                        rounded.map_or(text.clone(), |dtype| format!("{}({text})", dtype.name()))
                    }
                    Compute::Finish { term, rounded } => {
                        let text = self.term(term);
                        rounded.map_or(text.clone(), |dtype| format!("{}({text})", dtype.name()))
                    }
                };
                (format!("{} = {text}", self.values[*value].name), note.as_str())
            }
            Stmt::Store { to, operand, note, .. } => {
                (format!("{} = {}", at(*to), self.operand(operand)), note.as_str())
            }
            Stmt::Flush(access) => (format!("flush {}", self.accesses[*access].name), ""),
            Stmt::Prefetch { accesses, ahead, step: _ } => {
                let names: Vec<&str> = accesses.iter().map(|&access| self.accesses[access].name.as_str()).collect();
                let ahead = match ahead {
                    Distance::Elements(n) => format!("{n} elements ahead"),
                    Distance::Lines(n) => format!("{n} elements of lines ahead"),
                    Distance::NextRow(n) => format!("a row ahead, of at most {n} elements"),
                };
                (format!("prefetch {}, {ahead}", names.join(", ")), "")
            }
            Stmt::Begin(variables) => {
                let begun = variables.iter().map(|(variable, term)| {
                    let count = match self.variables[*variable].spread {
                        Spread::One => String::new(),
                        Spread::Columns(n) | Spread::Side(n) => format!("{n} of "),
                        Spread::Warps(n) => format!("shared by {n} warps, "),
                    };
                    let (name, value) = (&self.variables[*variable].name, term.as_ref().map(|term| self.term(term)));
                    let value = value.map_or(String::new(), |value| format!(" = {value}"));
                    (format!("variable {name}: {count}{}{value}", self.variables[*variable].ty), "")
                });
                return begun.collect();
            }
            Stmt::Set { variable, term, note } => {
                (format!("{} = {}", self.variable(*variable), self.term(term)), note.as_str())
            }
            Stmt::Accumulate { to, term, note } => {
                let place = at(Place::Access(*to));
                (format!("{place} = {place} + {}", self.term(term)), note.as_str())
            }
            Stmt::If { when, .. } => (format!("if {}", self.term(when)), ""),
            Stmt::Retry { .. } => ("try".to_owned(), ""),
            Stmt::Inclusive(variable) => (format!("{} has this element in it", self.variables[*variable].name), ""),
            Stmt::Phase { number, .. } => (format!("in phase {number} of the launch, and then the next row"), ""),
            Stmt::Once { number, .. } => (format!("in phase {number} of the launch, by one part"), ""),
            Stmt::Leave { variable, slot } => (format!("leave {} in slot {slot}", self.variables[*variable].name), ""),
            Stmt::Locate { accesses, at } => {
                let names: Vec<&str> = accesses.iter().map(|&access| self.accesses[access].name.as_str()).collect();
                let what = match at {
                    Axis::Elements => "element",
                    Axis::Squares(_) => "square",
                    Axis::Points => "point",
                    _ => "row",
                };
                (format!("locate the {what} in {}", names.join(", ")), "")
            }
            Stmt::Reserve(access) => {
                let one = &self.accesses[*access];
                (format!("reserve {} x {} elements of {}", one.ahead, self.lanes, one.name), "")
            }
            Stmt::Fetch(access) => (format!("fetch {} elements of {}", self.lanes, self.accesses[*access].name), ""),
            Stmt::Deliver(access) => {
                (format!("deliver {} elements of {}", self.lanes, self.accesses[*access].name), "")
            }
            Stmt::MakeSquare(access) => {
                let one = &self.accesses[*access];
                (format!("square of {}: shared by threads, {}", one.name, one.dtype.name()), "")
            }
            Stmt::FillSquare { access, note } => {
                let place = at(Place::Access(*access));
                (format!("square of {} = {place}", self.accesses[*access].name), note.as_str())
            }
            Stmt::EmptySquare { access, note } => {
                let place = at(Place::Access(*access));
                (format!("{place} = square of {}", self.accesses[*access].name), note.as_str())
            }
            Stmt::Barrier => ("barrier".to_owned(), ""),
            Stmt::Scope(_) => return Vec::new(),
        };
        vec![one]
    }

    /// The element of a place.
    fn index(&self, place: Place) -> &'static str {
        match place {
            Place::Access(access) if self.accesses[access].inner == Inner::Broadcast => "[0]",
            Place::Buffer(buffer) if self.buffers[buffer].scope == Scope::Rows && self.is_of_sides() => "[r]",
            _ => "[i]",
        }
    }

    fn is_of_sides(&self) -> bool {
        self.direction == crate::codegen::kernel::Direction::Strided
    }

    fn variable(&self, variable: usize) -> String {
        let name = &self.variables[variable].name;
        match self.variables[variable].spread {
            Spread::One => name.clone(),
            Spread::Columns(_) => format!("{name}[i]"),
            Spread::Side(_) => format!("{name}[r]"),
            Spread::Warps(_) => format!("{name}[warp]"),
        }
    }

    fn term(&self, term: &Term) -> String {
        self.formula(term.formula, &term.operands)
    }

    fn formula(&self, formula: &Expression, operands: &[(char, Operand)]) -> String {
        let leaf = |leaf: &Expr| match leaf {
            Expr::Integer(n) => n.to_string(),
            Expr::Float(x) => format!("{x:?}"),
            Expr::Typed(number) => number.spelled(),
            other => {
                let found = operands.iter().find(|(own, _)| other.letter() == Some(*own));
                found.map_or(String::new(), |(_, operand)| self.operand(operand))
            }
        };
        formula.expr.print(&leaf, &Callee::plain)
    }

    fn operand(&self, operand: &Operand) -> String {
        let name = match operand.origin {
            Origin::Value(value) => self.values[value].name.clone(),
            Origin::Constant(scalar) => return number(scalar),
            Origin::Float(k) => format!("float{k}"),
            Origin::Integer(k) => format!("integer{k}"),
            Origin::Variable(variable) => self.variable(variable),
            Origin::Known(known) => known.name().to_owned(),
            Origin::Found(slot, _) => format!("slot {slot}"),
            Origin::Merged(slot, _) => format!("slot {slot}, merged"),
            Origin::Partner(variable) => format!("{} of lane + half", self.variables[variable].name),
            Origin::OfFirst(variable) => format!("{} of lane 0", self.variables[variable].name),
            Origin::OfWarp(variable) => format!("{}[lane]", self.variables[variable].name),
            Origin::Before(variable) => format!("{} of lane - distance", self.variables[variable].name),
            Origin::OfLane(variable, lane) => format!("{} of lane {lane}", self.variables[variable].name),
            Origin::OfWarpBefore(variable) => format!("{} of lane warp - 1", self.variables[variable].name),
        };
        match operand.from == operand.to {
            true => name,
            false => format!("{}({name})", operand.to.name()),
        }
    }
}

impl Known {
    /// Its name for people.
    fn name(self) -> &'static str {
        match self {
            Known::Count => "count",
            Known::Width => "width",
            Known::Points => "points",
            Known::Lines => "lines",
            Known::Piece => "piece",
            Known::First => "first",
            Known::Line => "line",
            Known::Point | Known::InGroup => "i",
            Known::Thread => "thread",
            Known::Lane => "lane",
            Known::Warp => "warp",
            Known::Element => "element",
            Known::End => "end",
            Known::Row => "row",
            Known::Rows => "rows",
            Known::Distance => "distance",
            Known::Down => "down",
            Known::DownEnd => "end down",
            Known::Across => "across",
            Known::AcrossEnd => "end across",
        }
    }
}
