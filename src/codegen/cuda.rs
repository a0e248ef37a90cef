//! Prints nests of blocks of threads as CUDA C. It visits and decides nothing: which loops are over
//! blocks and which over threads, what is in shared memory and where barriers are, the nest says.
//!
//! ```c
//! JO_KERNEL(FusionGroup_0, 256)
//! {
//!     const float *const in0 = (const float *)launch.data[0];
//!     float *const out0 = (float *)launch.data[1];
//!     for (jo_index row = JO_BLOCK * 256 + JO_THREAD; row < launch.rows; row += JO_BLOCKS * 256) {
//!         …                                                where row 17 of in0 and out0 is
//!         const float v_x = JO_GET(in0, r0);               // %x
//!         const float v_y = v_x < 0 ? 0 : v_x;             // %y : Float(*) = aten::relu(%x)
//!         JO_PUT(out0, r1, v_y);                           // a result
//!     }
//! }
//! ```
//!
//! The text is a narrow dialect: what differs between NVRTC, clang and a C compiler that emulates
//! blocks is in the words `JO_…`, which `cuda_head.c` defines. Accesses of memory are such words,
//! too, so that an emulation can check each of them.

use super::c_expressions::{SLOT, Spelling};
use super::c_spelling::{memory_type, value_type};
use super::kernel::{Direction, Inner};
use super::kernel_plan::{WARP, line};
use super::nest::{
    Access, Axis, Bind, Buffer, For, Known, Nest, Origin, Place, Split, Spread, Stmt, Term, Variable, Way, Whole,
};
use super::number_type::NumberType;
use super::prelude;
use super::source_lines::{Printing, head};
use super::text_lines::{Lines, SourceText};
use std::collections::BTreeSet;

/// What every unit begins with.
const HEAD: &str = include_str!("cuda_head.c");
/// What follows the vector mathematics in units that have one of some symbols: conversions of
/// halves, accesses of several narrow elements at once, and exchanges between threads.
const PIECES: [(&[&str], &str); 4] = [
    (&["jo_from_half", "jo_to_half"], include_str!("cuda_halves.c")),
    (&["JO_PACKED"], include_str!("cuda_packed.c")),
    (&["JO_FIRST_LANE", "JO_LANE_BEFORE"], include_str!("cuda_warps.c")),
    (&["JO_LANE_BEFORE"], include_str!("cuda_scans.c")),
];

/// A unit of several functions.
pub(crate) fn unit(functions: &[SourceText]) -> SourceText {
    let symbols = prelude::symbols(functions.iter().map(SourceText::text));
    // On processors compilers must not know that it is 0; here a load of it would cost more.
    let called = prelude::used_by(&symbols).replace("static __attribute__((used)) u32 jo_none;", "#define jo_none 0u");
    let inner = prelude::symbols(std::iter::once(called.as_str()));
    let has = |name: &&str| symbols.contains(name) || inner.contains(name);
    let pieces: String = PIECES.iter().filter(|(names, _)| names.iter().any(has)).map(|(_, text)| *text).collect();
    let mut unit = SourceText::from(format!("{}{called}\n{pieces}", HEAD.trim_end()));
    for function in functions {
        unit.push("\n");
        unit.append(function);
    }
    unit
}

/// The function of a nest.
pub(crate) fn function(name: &str, nest: &Nest) -> SourceText {
    let mut printer = Printer { nest, lines: Lines::of_source() };
    head(&mut printer.lines, nest);
    let blocks = if nest.blocks > 0 { format!(", {}", nest.blocks) } else { String::new() };
    printer.open(&format!("JO_KERNEL({name}, {}{blocks})\n{{", printer.threads()));
    printer.operands();
    printer.wide_types();
    printer.stmts(&nest.body);
    printer.close();
    printer.lines.finish()
}

struct Printer<'n> {
    nest: &'n Nest,
    lines: Lines,
}

impl Printer<'_> {
    /// The threads of a block.
    fn threads(&self) -> usize {
        self.nest.threads.unwrap_or(1)
    }

    /// Operands, results and numbers, by name.
    fn operands(&mut self) {
        for (at, Access { name, dtype, is_written, .. }) in self.nest.accesses.iter().enumerate() {
            let (ty, constant) = (memory_type(*dtype), if *is_written { "" } else { "const " });
            self.line(&format!("{constant}{ty} *const {name} = ({constant}{ty} *)launch.data[{at}];"));
        }
        for k in 0..self.nest.floats {
            self.line(&format!("const double float{k} = launch.floats[{k}];"));
        }
        for k in 0..self.nest.integers {
            self.line(&format!("const i64 integer{k} = launch.integers[{k}];"));
        }
    }

    fn loop_over(&self, all: &For) -> String {
        let (threads, lanes) = (self.threads(), self.nest.lanes);
        match (all.axis, all.bind) {
            (Axis::Rows, bind) if self.has_parts() => {
                let by_block = bind == Bind::Block;
                let begin = if by_block { "JO_BLOCK".to_owned() } else { format!("JO_BLOCK * {threads} + JO_THREAD") };
                let step = if by_block { "JO_BLOCKS".to_owned() } else { format!("JO_BLOCKS * {threads}") };
                format!("for (jo_index item = {begin}; item < launch.rows * launch.parts; item += {step}) {{")
            }
            (Axis::Elements, bind) if self.has_parts() => {
                let by_threads = bind == Bind::Thread;
                let own = if by_threads { format!(" + {}", self.several("JO_THREAD")) } else { String::new() };
                let step = if by_threads { threads * lanes } else { 1 };
                format!("for (jo_index element = begin{own}; element < end; element += {step}) {{")
            }
            (Axis::Shares, Bind::Thread) => {
                let (threads, own) = self.team();
                format!("for (jo_index part = {own}; part < launch.parts; part += {threads}) {{")
            }
            (Axis::Shares, _) => "for (jo_index part = 0; part < launch.parts; part++) {".to_owned(),
            (Axis::Rows, Bind::Block) => {
                "for (jo_index row = JO_BLOCK; row < launch.rows; row += JO_BLOCKS) {".to_owned()
            }
            (Axis::Rows, Bind::Warp) => {
                let warps = threads / WARP;
                let begin = format!("JO_BLOCK * {warps} + JO_WARP");
                format!("for (jo_index row = {begin}; row < launch.rows; row += JO_BLOCKS * {warps}) {{")
            }
            (Axis::Rows, _) => {
                let begin = self.several(&format!("JO_BLOCK * {threads} + JO_THREAD"));
                let step = threads * lanes;
                format!("for (jo_index row = {begin}; row < launch.rows; row += JO_BLOCKS * {step}) {{")
            }
            (Axis::Elements, Bind::Thread) => {
                let (begin, step) = (self.several("JO_THREAD"), threads * lanes);
                format!("for (jo_index element = {begin}; element < launch.count; element += {step}) {{")
            }
            (Axis::Elements, _) => "for (jo_index element = 0; element < launch.count; element++) {".to_owned(),
            (Axis::Chunks, _) => {
                let (begin, own) = if self.has_parts() { ("begin", "begin + JO_THREAD") } else { ("0", "JO_THREAD") };
                let (begin, end) = (format!("jo_index chunk = {begin}, element = {own}"), self.end());
                format!("for ({begin}; chunk < {end}; chunk += {threads}, element += {threads}) {{")
            }
            (Axis::SharesBefore, _) => {
                format!("for (jo_index before = JO_THREAD; before < part; before += {threads}) {{")
            }
            (Axis::Distances(lanes), _) => format!("for (u32 distance = 1; distance < {lanes}; distance *= 2) {{"),
            (Axis::Halves(lanes), _) => format!("for (u32 half = {}; half > 0; half /= 2) {{", lanes / 2),
            (Axis::Batches(batches), _) => format!("for (i32 batch = 0; batch < {batches}; batch++) {{"),
            (Axis::Rounds { count, of: Whole::Batch }, _) => {
                format!("for (i32 round = batch * {count}; round < batch * {count} + {count}; round++) {{")
            }
            (Axis::Rounds { count, .. }, _) => format!("for (i32 round = 0; round < {count}; round++) {{"),
            (Axis::Groups(rounds), _) => {
                let step = rounds * threads * lanes;
                format!("for (jo_index first = JO_BLOCK * {step}; first < launch.rows; first += JO_BLOCKS * {step}) {{")
            }
            (Axis::Spans(rounds), _) => {
                let begin = if self.has_parts() { "begin" } else { "0" };
                let step = rounds * self.team().0 * lanes;
                format!("for (jo_index span = {begin}; span < {}; span += {step}) {{", self.end())
            }
            (Axis::Lanes(lanes), _) => format!("for (i32 lane = 0; lane < {lanes}; lane++) {{"),
            (Axis::Squares(_), _) => {
                "for (jo_index square = JO_BLOCK; square < launch.rows; square += JO_BLOCKS) {".to_owned()
            }
            (Axis::Strips(strips, _), _) => format!("for (i32 strip = 0; strip < {strips}; strip++) {{"),
            (other, _) => format!("#error {other:?}"),
        }
    }

    /// Where a square is, and how many there are along each of the last two dimensions.
    fn begin_square(&mut self, side: usize) {
        let along = format!("({{}} + {}) / {side}", side - 1);
        for (name, last) in [("down", 2), ("across", 1)] {
            self.line(&format!("const jo_index end_{name} = launch.shape[launch.rank - {last}];"));
        }
        let [down, across] = ["end_down", "end_across"].map(|end| along.replace("{}", end));
        self.line(&format!("const jo_index squares_down = {down}, squares_across = {across};"));
        self.line(&format!("const jo_index first_down = square / squares_across % squares_down * {side};"));
        self.line(&format!("const jo_index first_across = square % squares_across * {side};"));
    }

    /// Where the point of a thread is, in its square and in the space.
    fn begin_strip(&mut self, way: Way) {
        let apart = format!("strip * {} + JO_WARP", self.threads() / self.nest.side.max(1));
        let (down, across) = match way {
            Way::Across => (apart.as_str(), "JO_LANE"),
            Way::Down => ("JO_LANE", apart.as_str()),
        };
        self.line(&format!("const jo_index line = {down}, column = {across};"));
        self.line("const jo_index down = first_down + line, across = first_across + column;");
    }

    /// The square of an access, by name, and where the point of a thread is in it.
    fn square(&self, at: usize) -> (String, String) {
        let name = format!("square_{}", self.nest.accesses[at].name);
        (name, format!("line * {} + column", self.line_of_square(at)))
    }

    /// The elements of a line of the square of an access, with those that nothing is in.
    fn line_of_square(&self, at: usize) -> usize {
        line(self.nest.side, self.nest.accesses[at].dtype.size())
    }

    /// Where accesses are at a point of a square.
    fn locate_point(&mut self, accesses: &[usize]) {
        let located = accesses.iter().map(|&at| {
            let down = format!("i{at} = r{at} + down * launch.strides[{at}][launch.rank - 2]");
            match self.nest.accesses[at].inner {
                Inner::Unit => format!("{down} + across"),
                Inner::Broadcast => down,
                Inner::Strided => format!("{down} + across * launch.strides[{at}][launch.rank - 1]"),
            }
        });
        let located: Vec<String> = located.collect();
        self.line(&format!("const jo_index {};", located.join(", ")));
    }

    /// Where the elements end.
    fn end(&self) -> &'static str {
        if self.has_parts() { "end" } else { "launch.count" }
    }

    fn has_parts(&self) -> bool {
        self.nest.split == Some(Split::Parts)
    }

    /// The threads that compute a row, and the number of one among them.
    fn team(&self) -> (usize, &'static str) {
        let is_by_warp = |stmt: &Stmt| matches!(stmt, Stmt::For(For { bind: Bind::Warp, .. }));
        if self.nest.body.iter().any(is_by_warp) { (WARP, "JO_LANE") } else { (self.threads(), "JO_THREAD") }
    }

    /// The first of the elements that a thread takes, where it takes several.
    fn several(&self, thread: &str) -> String {
        match self.nest.lanes {
            1 => thread.to_owned(),
            lanes => format!("({thread}) * {lanes}"),
        }
    }

    fn looped(&mut self, all: &For) {
        if all.bind == Bind::Unroll {
            self.line("JO_UNROLL");
        }
        self.open(&self.loop_over(all));
        if all.axis == Axis::Rows && self.has_parts() {
            self.line("const jo_index row = item % launch.rows, part = item / launch.rows;");
            self.line("const jo_index begin = part * launch.share;");
            self.line(
                "const jo_index end = launch.count - begin < launch.share ? launch.count : begin + launch.share;",
            );
        }
        match all.axis {
            Axis::Squares(side) => self.begin_square(side),
            Axis::Strips(_, way) => self.begin_strip(way),
            _ => {}
        }
        if let Axis::Rounds { of, .. } = all.axis {
            let (threads, own) = self.team();
            let (name, begin) = match of {
                Whole::Row | Whole::Batch => ("element", ""),
                Whole::Span => ("element", "span + "),
                Whole::Group => ("row", "first + "),
            };
            let own = self.several(&format!("round * {threads} + {own}"));
            self.line(&format!("const jo_index {name} = {begin}{own};"));
        }
        self.stmts(&all.body);
        self.close();
    }

    /// Whether a thread reads words of which an element is a part: a compiler takes structures of
    /// narrower elements apart as soon as they arrive, and waits for them.
    fn is_packed(&self, at: usize) -> bool {
        let access = &self.nest.accesses[at];
        access.is_wide && !access.is_written && access.dtype.size() < 4
    }

    /// The type of several elements of an access.
    fn wide_type(&self, at: usize) -> String {
        let packed = if self.is_packed(at) { "packed_" } else { "" };
        format!("jo_{packed}{}_{}", memory_type(self.nest.accesses[at].dtype), self.nest.lanes)
    }

    /// Several elements of an access, by name.
    fn wide(&self, at: usize) -> String {
        format!("w_{}", self.nest.accesses[at].name)
    }

    /// Types of several elements, and those that threads have of results.
    fn wide_types(&mut self) {
        let wide = || (0..self.nest.accesses.len()).filter(|&at| self.nest.accesses[at].is_wide);
        let made = |at: usize| if self.is_packed(at) { "JO_PACKED" } else { "JO_WIDE" };
        let types = wide().map(|at| (made(at), memory_type(self.nest.accesses[at].dtype)));
        let types: BTreeSet<(&str, NumberType)> = types.collect();
        let types = types.into_iter().map(|(made, ty)| format!("{made}({ty}, {});", self.nest.lanes));
        let results = wide().filter(|&at| self.nest.accesses[at].is_written);
        let results = results.map(|at| format!("{} {};", self.wide_type(at), self.wide(at)));
        let lines: Vec<String> = types.chain(results).collect();
        lines.iter().for_each(|line| self.line(line));
    }

    /// Where the elements of an access are that a thread has read, or makes.
    fn taken(&self, at: usize) -> String {
        match self.nest.accesses[at].ahead {
            0 => self.wide(at),
            ahead => format!("{}[round % {ahead}]", self.wide(at)),
        }
    }

    /// Reads several elements of an access.
    fn fetch(&mut self, at: usize) {
        let (ty, own, name) = (self.wide_type(at), self.taken(at), &self.nest.accesses[at].name);
        let begin = if self.nest.accesses[at].ahead == 0 { format!("const {ty} ") } else { String::new() };
        self.line(&format!("{begin}{own} = JO_FETCH({ty}, {name}, {});", self.position(at)));
    }

    /// Where accesses are at an element of a row that is one piece of memory.
    fn locate_flat(&mut self, accesses: &[usize]) {
        let located = accesses.iter().map(|&at| match self.nest.accesses[at].inner {
            Inner::Unit => format!("i{at} = r{at} + element"),
            Inner::Broadcast => format!("i{at} = r{at}"),
            Inner::Strided => format!("i{at} = r{at} + element * launch.strides[{at}][launch.kept]"),
        });
        let located: Vec<String> = located.collect();
        self.line(&format!("const jo_index {};", located.join(", ")));
    }

    /// Where accesses are at a row, or at an element of it: its position is taken apart into those
    /// along the dimensions, from the innermost one on, without a division where there is one only.
    fn locate(&mut self, accesses: &[usize], at: Axis) {
        let (letter, position, first, last) = match at {
            Axis::Elements => ("i", "element", "launch.kept", "launch.rank"),
            Axis::Squares(_) => ("r", "square / squares_across / squares_down", "0", "launch.rank - 2"),
            _ => ("r", "row", "0", "launch.kept"),
        };
        let origin = |at: &usize| match letter {
            "i" => format!("r{at}"),
            _ if self.nest.accesses[*at].is_added_to => {
                format!("JO_BLOCK * launch.of_block[{at}] + JO_THREAD * launch.of_thread[{at}]")
            }
            _ => "0".to_owned(),
        };
        let begun: Vec<String> = accesses.iter().map(|at| format!("{letter}{at} = {}", origin(at))).collect();
        let moved = |factor: &str, dim: &str| {
            let moves = |at: &usize| format!("{letter}{at} += {factor} * launch.strides[{at}][{dim}]");
            accesses.iter().map(moves).collect::<Vec<_>>().join(", ")
        };
        self.line(&format!("jo_index {}, {letter} = {position};", begun.join(", ")));
        self.line("JO_ROLLED");
        self.open(&format!("for (i32 d = {last} - 1; d > {first}; d--) {{"));
        self.line(&format!("const jo_index along = {letter} % launch.shape[d];"));
        self.line(&format!("{letter} /= launch.shape[d];"));
        self.line(&format!("{};", moved("along", "d")));
        self.close();
        self.line(&format!("{};", moved(letter, first)));
    }

    fn begin(&mut self, variable: usize, initial: Option<&Term>) {
        let one = &self.nest.variables[variable];
        let constant = if one.is_fixed { "const " } else { "" };
        let text = match (one.spread, initial) {
            (Spread::Warps(count), _) => format!("JO_SHARED({}, {}, {count});", one.ty, one.name),
            (_, Some(term)) => format!("{constant}{} {} = {};", one.ty, one.name, self.term(term)),
            (_, None) => format!("{} {};", one.ty, one.name),
        };
        self.line(&text);
    }

    /// Where a slot of a part of a row is: slots have 8 bytes each, and those of neighbouring rows
    /// are neighbours.
    fn slot(&self, slot: usize, ty: NumberType, part: &str) -> (String, String) {
        let at = format!("({slot} * launch.parts{part}) * launch.rows + row");
        let at = match SLOT / ty.size() {
            1 => at,
            each => format!("{each} * ({at})"),
        };
        (format!("({ty} *)launch.left"), at)
    }

    /// The position of an access at the row or element at hand, the first of several.
    fn position(&self, at: usize) -> String {
        if self.nest.accesses[at].is_of_row { format!("r{at}") } else { format!("i{at}") }
    }

    /// The same at one of several elements: partial sums are not taken several at once.
    fn index(&self, at: usize) -> String {
        let Access { inner, is_of_row, .. } = self.nest.accesses[at];
        let moves = inner == Inner::Unit && (!is_of_row || self.nest.direction == Direction::Points);
        let lane = if self.nest.lanes > 1 && moves { " + lane" } else { "" };
        self.position(at) + lane
    }
}

impl Printing for Printer<'_> {
    fn lines(&mut self) -> &mut Lines {
        &mut self.lines
    }

    fn stmt(&mut self, stmt: &Stmt) {
        match stmt {
            Stmt::For(all) => self.looped(all),
            Stmt::Alloc(buffer) => {
                let Buffer { dtype, elements, .. } = self.nest.buffers[*buffer];
                let name = self.nest.place(Place::Buffer(*buffer));
                self.line(&format!("{} {name}[{elements}] = {{0}};", value_type(dtype)));
            }
            Stmt::Reserve(at) => {
                let (ty, own, ahead) = (self.wide_type(*at), self.wide(*at), self.nest.accesses[*at].ahead);
                self.line(&format!("{ty} {own}[{ahead}] = {{0}};"));
            }
            Stmt::Leave { variable, slot } => {
                let Variable { name, ty, .. } = &self.nest.variables[*variable];
                // What merges parts leaves the result of a row in the slot of the first.
                let part = if self.nest.split == Some(Split::Merge) { "" } else { " + part" };
                let (memory, at) = self.slot(*slot, *ty, part);
                self.line(&format!("JO_PUT({memory}, {at}, {name});"));
            }
            Stmt::Fetch(at) => self.fetch(*at),
            Stmt::Deliver(at) => {
                let (ty, own, name) = (self.wide_type(*at), self.wide(*at), &self.nest.accesses[*at].name);
                self.line(&format!("JO_DELIVER({ty}, {name}, {}, {own});", self.position(*at)));
            }
            Stmt::MakeSquare(at) => {
                let (ty, side) = (memory_type(self.nest.accesses[*at].dtype), self.nest.side);
                self.line(&format!("JO_SHARED({ty}, {}, {});", self.square(*at).0, side * self.line_of_square(*at)));
            }
            Stmt::FillSquare { access, note } => {
                let ((square, place), position) = (self.square(*access), self.position(*access));
                let element = format!("JO_GET({}, {position})", self.nest.accesses[*access].name);
                self.noted(&format!("JO_PUT({square}, {place}, {element});"), note);
            }
            Stmt::EmptySquare { access, note } => {
                let ((square, place), position) = (self.square(*access), self.position(*access));
                let name = &self.nest.accesses[*access].name;
                self.noted(&format!("JO_PUT({name}, {position}, JO_GET({square}, {place}));"), note);
            }
            Stmt::Locate { accesses, at: Axis::Points } => self.locate_point(accesses),
            Stmt::Locate { accesses, at: Axis::Elements } if self.nest.is_flat => self.locate_flat(accesses),
            Stmt::Locate { accesses, at } => self.locate(accesses, *at),
            Stmt::Let { value, compute, note } => {
                let (ty, name) = (value_type(self.nest.values[*value].dtype), &self.nest.values[*value].name);
                let statement = format!("const {ty} {name} = {};", self.compute(*value, compute));
                self.noted(&statement, note);
            }
            Stmt::Store { to: Place::Buffer(buffer), operand, note, .. } => {
                let to = Place::Buffer(*buffer);
                self.noted(&format!("{} = {};", self.place(to), self.stored(to, operand)), note);
            }
            Stmt::Store { to: Place::Access(at), operand, note, .. } if self.nest.accesses[*at].is_wide => {
                let value = self.stored(Place::Access(*at), operand);
                self.noted(&format!("{}.of[lane] = {value};", self.wide(*at)), note);
            }
            Stmt::Store { to: Place::Access(at), operand, note, .. } if self.nest.accesses[*at].is_crossed => {
                let ((square, place), value) = (self.square(*at), self.stored(Place::Access(*at), operand));
                self.noted(&format!("JO_PUT({square}, {place}, {value});"), note);
            }
            Stmt::Store { to: Place::Access(at), operand, note, .. } => {
                let (name, index) = (&self.nest.accesses[*at].name, self.index(*at));
                let value = self.stored(Place::Access(*at), operand);
                self.noted(&format!("JO_PUT({name}, {index}, {value});"), note);
            }
            Stmt::Accumulate { to, term, note } => {
                let (name, place) = (&self.nest.accesses[*to].name, self.place(Place::Access(*to)));
                let statement = format!("JO_PUT({name}, {}, {place} + {});", self.index(*to), self.term(term));
                self.noted(&statement, note);
            }
            Stmt::Begin(variables) => variables.iter().for_each(|(one, initial)| self.begin(*one, initial.as_ref())),
            Stmt::Set { variable, term, note } => {
                let one = &self.nest.variables[*variable];
                let statement = match one.spread {
                    Spread::Warps(_) => format!("JO_PUT({}, JO_WARP, {});", one.name, self.term(term)),
                    _ => self.set(*variable, term),
                };
                self.noted(&statement, note);
            }
            Stmt::Scope(body) => self.block("{", body),
            Stmt::If { when, body } => self.block(&format!("if ({}) {{", self.term(when)), body),
            Stmt::Barrier => self.line("JO_BARRIER();"),
            // The verifier refuses the others where there are threads.
            other => self.line(&format!("#error {other:?}")),
        }
    }
}

impl Spelling for Printer<'_> {
    fn nest(&self) -> &Nest {
        self.nest
    }

    fn variable(&self, variable: usize) -> String {
        let one = &self.nest.variables[variable];
        match one.spread {
            Spread::Warps(_) => format!("JO_GET({}, JO_WARP)", one.name),
            _ => one.name.clone(),
        }
    }

    fn place(&self, place: Place) -> String {
        match place {
            Place::Access(at) if self.is_packed(at) => {
                format!("JO_PART({}, {}, lane)", memory_type(self.nest.accesses[at].dtype), self.taken(at))
            }
            Place::Access(at) if self.nest.accesses[at].is_wide => format!("{}.of[lane]", self.taken(at)),
            Place::Access(at) if self.nest.accesses[at].is_crossed => {
                let (square, place) = self.square(at);
                format!("JO_GET({square}, {place})")
            }
            Place::Access(at) => format!("JO_GET({}, {})", self.nest.accesses[at].name, self.index(at)),
            Place::Buffer(_) => format!("{}[round * {} + lane]", self.nest.place(place), self.nest.lanes),
        }
    }

    fn known(&self, known: Known) -> &'static str {
        match known {
            Known::Count => "(double)launch.count",
            Known::Thread => "JO_THREAD",
            Known::Lane => "JO_LANE",
            Known::Warp => "JO_WARP",
            Known::InGroup => "lane",
            Known::Element if self.nest.lanes > 1 => "(i64)(element + lane)",
            Known::Element => "(i64)element",
            Known::First => "element",
            Known::End => self.end(),
            Known::Row => "row",
            Known::Rows => "launch.rows",
            Known::Distance => "distance",
            Known::Down => "down",
            Known::DownEnd => "end_down",
            Known::Across => "across",
            Known::AcrossEnd => "end_across",
            _ => "#error a number",
        }
    }

    fn found(&self, slot: usize, ty: NumberType) -> String {
        // A part reads what those before it have left.
        let part = if self.has_parts() { " + before" } else { " + part" };
        let (memory, at) = self.slot(slot, ty, part);
        format!("JO_GET({memory}, {at})")
    }

    fn merged(&self, slot: usize, ty: NumberType) -> String {
        let (memory, at) = self.slot(slot, ty, "");
        format!("JO_GET({memory}, {at})")
    }

    fn of_thread(&self, origin: Origin) -> String {
        let named = |variable: usize| &self.nest.variables[variable].name;
        match origin {
            Origin::Partner(own) => format!("JO_LANE_BELOW({}, {}, half)", self.nest.variables[own].ty, named(own)),
            Origin::OfFirst(own) => format!("JO_FIRST_LANE({}, {})", self.nest.variables[own].ty, named(own)),
            Origin::OfWarp(all) => format!("JO_GET({}, JO_LANE % {})", named(all), self.nest.variables[all].count()),
            Origin::Before(own) => format!("JO_LANE_BEFORE({}, {}, distance)", self.nest.variables[own].ty, named(own)),
            Origin::OfLane(own, lane) => format!("JO_OF_LANE({}, {}, {lane})", self.nest.variables[own].ty, named(own)),
            Origin::OfWarpBefore(own) => {
                format!("JO_OF_LANE({}, {}, JO_WARP - 1)", self.nest.variables[own].ty, named(own))
            }
            _ => String::new(),
        }
    }
}
