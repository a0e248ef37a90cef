//! Prints nests as C. It visits and decides nothing: each statement has one spelling.
//!
//! A loop over tiles in parallel is the range of tiles that a call is given; offsets of rows are
//! stepped, not divided. A loop as a vector has a `#pragma omp simd`, and a result that may be
//! written with non-temporal stores a buffer that is copied from (see `c_loops.rs`):
//!
//! ```c
//! for (i64 item = begin; item < end; item++) {
//!     const float *restrict in0 = (const float *)data[0] + place[0] + from;
//!     #pragma omp simd
//!     for (i64 i = 0; i < m; i++) {
//!         const float v_x = in0[i];                // %x
//!         const float v_y = v_x < 0 ? 0 : v_x;     // %y : Float(*) = aten::relu(%x)
//!         out0[i] = v_y;                           // a result
//!     }
//! }
//! ```

use super::c_expressions::{SLOT, Spelling};
use super::c_spelling::{memory_type, value_type};
use super::kernel::{Direction, Inner};
use super::nest::{Axis, Buffer, Known, Nest, Place, Scope, Spread, Stmt, Term};
use super::number_type::NumberType;
use super::source_lines::{Printing, head};
use super::text_lines::{Lines, SourceText};
use super::window::{Gives, Guard};

/// The function of a nest.
pub(crate) fn function(name: &str, nest: &Nest) -> SourceText {
    let mut printer = Printer { nest, lines: Lines::of_source(), loops: Vec::new() };
    printer.head(name);
    printer.body();
    printer.close();
    printer.lines.finish()
}

pub(super) struct Printer<'n> {
    pub(super) nest: &'n Nest,
    lines: Lines,
    /// The loops around a statement.
    pub(super) loops: Vec<Axis>,
}

impl Printer<'_> {
    /// The comment before a function, and its arguments by name.
    fn head(&mut self, name: &str) {
        head(&mut self.lines, self.nest);
        self.open(&format!("void {name}(const jo_args *args)\n{{"));
        let fields =
            "const i64 *const shape = args->shape, *const strides = args->strides, *const integers = args->integers;";
        self.line(fields);
        self.line("char *const *const data = args->data;");
        self.line("const double *const floats = args->floats;");
        self.line("const i64 rank = args->rank, kept = args->kept, begin = args->begin, end = args->end;");
        self.line("const i64 stream = args->stream, prefetch = args->prefetch, columns = args->columns;");
        self.line("(void)floats, (void)integers, (void)stream, (void)prefetch, (void)columns;");
        self.numbers("double", "float", self.nest.floats);
        self.numbers("i64", "integer", self.nest.integers);
    }

    /// Numbers that the graph computes, read once.
    fn numbers(&mut self, ty: &str, name: &str, count: usize) {
        let all: Vec<String> = (0..count).map(|k| format!("{name}{k} = {name}s[{k}]")).collect();
        if !all.is_empty() {
            self.line(&format!("const {ty} {};", all.join(", ")));
        }
    }

    fn body(&mut self) {
        let nest = self.nest;
        let tile = match nest.direction {
            Direction::Points => Some(nest.tile().to_string()),
            Direction::Outer => Some("columns".to_owned()),
            _ => None,
        };
        match tile {
            Some(tile) => self.line(&format!("const i64 n = shape[rank - 1], tiles = (n + {tile} - 1) / {tile};")),
            None => self.line("const i64 tiles = 1;"),
        }
        if nest.direction != Direction::Points {
            self.reduced_space();
        }
        let streamed = || nest.accesses.iter().filter_map(|access| Some((access, access.streamed?)));
        for (access, elements) in streamed() {
            let (ty, name) = (memory_type(access.dtype), &access.name);
            self.line(&format!("{ty} l_{name}[{elements}] __attribute__((aligned(64)));"));
        }
        let accesses = nest.accesses.len();
        self.line(&format!("i64 at[64], place[{accesses}];"));
        self.line(&format!("jo_first(shape, rank, kept, begin / tiles, strides, {accesses}, at, place);"));
        self.stmts(&nest.body);
        if streamed().next().is_some() {
            self.line("if (stream) jo_fence();");
        }
    }

    /// Makes variables: arrays are filled in one loop.
    fn begin(&mut self, variables: &[(usize, Option<Term>)]) {
        let mut filled = Vec::new();
        for (variable, initial) in variables {
            let (one, name) = (&self.nest.variables[*variable], &self.nest.variables[*variable].name);
            let constant = if one.is_fixed { "const " } else { "" };
            let value = initial.as_ref().map(|term| self.term(term));
            match (one.spread, value) {
                (Spread::One, Some(value)) => self.line(&format!("{constant}{} {name} = {value};", one.ty)),
                (Spread::One, None) => self.line(&format!("{} {name};", one.ty)),
                (_, value) => {
                    self.line(&format!("{} {name}[{}];", one.ty, one.count()));
                    filled.extend(value.map(|value| format!("{} = {value};", self.variable(*variable))));
                }
            }
        }
        if filled.is_empty() {
            return;
        }
        let is_side = variables.iter().any(|(one, _)| matches!(self.nest.variables[*one].spread, Spread::Side(_)));
        let head = if is_side { "for (i64 r = 0; r < side; r++) {" } else { "for (i64 i = 0; i < m; i++) {" };
        self.line(&format!("{head} {} }}", filled.join(" ")));
    }

    pub(super) fn is_in(&self, is_it: impl Fn(&Axis) -> bool) -> bool {
        self.loops.iter().any(is_it)
    }

    /// The interleaved row at hand: a part of a line begins at `c`.
    fn row(&self) -> &'static str {
        if self.is_in(|axis| matches!(axis, Axis::Parts { .. })) { "c + i" } else { "i" }
    }

    /// How many lines are taken at once, where several are.
    pub(super) fn at_once(&self) -> Option<usize> {
        let lines = |axis: &Axis| if let Axis::Lines { at_once, .. } = *axis { Some(at_once) } else { None };
        self.loops.iter().find_map(lines).filter(|&lines| lines > 1)
    }

    fn type_of(&self, buffer: usize) -> NumberType {
        value_type(self.nest.buffers[buffer].dtype)
    }

    /// The memory of a buffer, and the part of it that is a tile's: the name of its value with
    /// another first letter.
    fn names_of(&self, buffer: usize) -> [String; 2] {
        let Buffer { value, scope, .. } = self.nest.buffers[buffer];
        let letters = if scope == Scope::Row { ["c", "u"] } else { ["t", "t"] };
        letters.map(|letter| format!("{letter}{}", &self.nest.values[value].name[1..]))
    }

    /// The element of an access at the point of the loop.
    fn index(&self, at: usize) -> String {
        let access = &self.nest.accesses[at];
        let lines = if self.at_once().is_some() && !access.is_of_row { format!("u * d{at} + ") } else { String::new() };
        let row = if access.is_of_row { self.row() } else { "i" };
        let is_first = !self.is_in(|axis| *axis == Axis::Points);
        match access.inner {
            _ if is_first => "0".to_owned(),
            _ if let Some(Guard::PointUnder(divisor, _)) = access.watch.map(|watch| watch.guard) => {
                format!("(i + q{at}) / {divisor} * t{at}")
            }
            Inner::Broadcast => "0".to_owned(),
            Inner::Unit => format!("{lines}{row}"),
            Inner::Strided if row == "i" => format!("{lines}i * s{at}"),
            Inner::Strided => format!("({row}) * s{at}"),
        }
    }
}

impl Printing for Printer<'_> {
    fn lines(&mut self) -> &mut Lines {
        &mut self.lines
    }

    fn stmt(&mut self, stmt: &Stmt) {
        match stmt {
            Stmt::For(all) => self.loop_over(all),
            Stmt::Alloc(buffer) => {
                let Buffer { elements, scope, .. } = self.nest.buffers[*buffer];
                let (ty, [name, _]) = (self.type_of(*buffer), self.names_of(*buffer));
                let aligned = if scope == Scope::Rows { "" } else { " __attribute__((aligned(64)))" };
                self.line(&format!("{ty} {name}[{elements}]{aligned};"));
            }
            Stmt::Open(Place::Access(access)) => self.open_access(*access),
            Stmt::Open(Place::Buffer(buffer)) => {
                let (ty, [all, name]) = (self.type_of(*buffer), self.names_of(*buffer));
                self.line(&format!("{ty} *restrict {name} = {all} + from;"));
            }
            Stmt::Let { value, compute, note } => {
                let ty = value_type(self.nest.values[*value].dtype);
                let statement =
                    format!("const {ty} {} = {};", self.nest.values[*value].name, self.compute(*value, compute));
                self.noted(&statement, note);
            }
            Stmt::Store { to, operand, note, .. } => {
                let statement = format!("{} = {};", self.place(*to), self.stored(*to, operand));
                self.noted(&statement, note);
            }
            Stmt::Flush(access) => {
                let (name, size) = (&self.nest.accesses[*access].name, self.nest.accesses[*access].dtype.size());
                self.line(&format!("if (stream) jo_stream(to_{name}, {name}, m * {size});"));
            }
            Stmt::Prefetch { accesses, ahead, step } => self.prefetch(accesses, *ahead, *step),
            Stmt::Begin(variables) => self.begin(variables),
            Stmt::Set { variable, term, note } => {
                let statement = self.set(*variable, term);
                self.noted(&statement, note);
            }
            Stmt::Accumulate { to, term, note } => {
                let statement = format!("{} += {};", self.place(Place::Access(*to)), self.term(term));
                self.noted(&statement, note);
            }
            Stmt::Scope(body) => self.block("{", body),
            Stmt::If { when, body } => self.block(&format!("if ({}) {{", self.term(when)), body),
            Stmt::Retry { body, lost, again } => {
                self.open("for (int more = 1;; more--) {");
                self.stmts(body);
                let lost: Vec<String> = lost.iter().map(|term| self.term(term)).collect();
                self.line(&format!("if (!more || !({})) break;", lost.join(" | ")));
                self.stmts(again);
                self.close();
            }
            Stmt::Inclusive(variable) => {
                self.line(&format!("#pragma omp scan inclusive({})", self.nest.variables[*variable].name));
            }
            Stmt::Phase { number, body } => {
                self.open(&format!("if (phase == {number}) {{"));
                self.stmts(body);
                self.line("goto next;");
                self.close();
            }
            Stmt::Once { number, body } => self.block(&format!("if (phase == {number} && part == 0) {{"), body),
            Stmt::Leave { variable, slot } => {
                let (ty, name) = (self.nest.variables[*variable].ty, self.variable(*variable));
                self.line(&format!("*({ty} *)(own + {}) = {name};", SLOT * slot));
            }
            // The verifier refuses statements of threads.
            _ => self.line("#error threads"),
        }
    }
}

impl Spelling for Printer<'_> {
    fn nest(&self) -> &Nest {
        self.nest
    }

    /// A variable, as an element of its array where there are several.
    fn variable(&self, variable: usize) -> String {
        let name = &self.nest.variables[variable].name;
        match self.nest.variables[variable].spread {
            Spread::One => name.clone(),
            Spread::Columns(_) => format!("{name}[{}]", self.row()),
            _ => format!("{name}[r]"),
        }
    }

    fn place(&self, place: Place) -> String {
        match place {
            Place::Buffer(buffer) => {
                let index = match self.nest.buffers[buffer].scope {
                    Scope::Rows if self.nest.direction == Direction::Strided => "r",
                    Scope::Rows => self.row(),
                    Scope::Tile | Scope::Row | Scope::Thread => "i",
                };
                format!("{}[{index}]", self.names_of(buffer)[1])
            }
            Place::Access(at) => {
                let access = &self.nest.accesses[at];
                match access.watch.is_some_and(|watch| watch.gives == Gives::Index) {
                    true => format!("n{at} + {}", self.index(at)),
                    false => format!("{}[{}]", access.name, self.index(at)),
                }
            }
        }
    }

    fn known(&self, known: Known) -> &'static str {
        match known {
            Known::Count => "count",
            Known::Width => "width",
            Known::Points => "m",
            Known::Lines => "rows",
            Known::Piece => "b",
            Known::First if self.nest.direction == Direction::Outer => "first",
            Known::First => "from",
            Known::Line if self.at_once().is_some() => "j + u",
            Known::Line => "j",
            Known::Point => "i",
            // The verifier refuses numbers of threads.
            _ => "#error threads",
        }
    }
}
