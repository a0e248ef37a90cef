//! Prints nests as C. It visits and decides nothing: each statement has one spelling.
//!
//! A loop over tiles in parallel is the range of tiles that a call is given; offsets of rows are
//! stepped, not divided. A loop as a vector has a `#pragma omp simd`, and a result that may be
//! written with non-temporal stores a buffer that is copied from (see `c_form/streaming.rs`):
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

use super::c_spelling::{applied, converted, literal, memory_type, narrowed, value_type, widened};
use super::kernel::Inner;
use super::nest::{Axis, Bind, Buffer, Compute, For, Nest, Operand, Origin, Place, Scope, Stmt};
use crate::tensor::DType;
use std::fmt::Write;

/// Column that comments begin in.
const MARGIN: usize = 68;
/// Bytes of a line of the caches.
pub(super) const LINE: usize = 64;

/// What a function says of itself before its statements.
pub(super) struct Head<'a> {
    pub(super) name: &'a str,
    pub(super) group: &'a str,
    pub(super) assumed: &'a [String],
    /// Operands, then results, each with its element type.
    pub(super) accesses: [Vec<String>; 2],
    pub(super) reals: usize,
    pub(super) wholes: usize,
}

impl Head<'_> {
    pub(super) fn print(&self, out: &mut String) {
        line(out, 0, &format!("// {}", self.group));
        self.assumed.iter().for_each(|assumed| line(out, 0, &format!("// {assumed}")));
        line(out, 0, &format!("// data: {}", self.accesses[0].join(", ")));
        line(out, 0, &format!("// and then, written: {}", self.accesses[1].join(", ")));
        line(out, 0, &format!("void {}(const jo_args *args)", self.name));
        line(out, 0, "{");
        let fields =
            "const i64 *const shape = args->shape, *const strides = args->strides, *const wholes = args->wholes;";
        line(out, 4, fields);
        line(out, 4, "char *const *const data = args->data;");
        line(out, 4, "const double *const reals = args->reals;");
        line(out, 4, "const i64 rank = args->rank, kept = args->kept, begin = args->begin, end = args->end;");
        line(out, 4, "const i64 stream = args->stream, ask = args->ask, columns = args->columns;");
        line(out, 4, "(void)reals, (void)wholes, (void)stream, (void)ask, (void)columns;");
        numbers(out, "double", "real", self.reals);
        numbers(out, "i64", "whole", self.wholes);
    }
}

/// Numbers that the graph computes, read once.
fn numbers(out: &mut String, ty: &str, name: &str, count: usize) {
    let all: Vec<String> = (0..count).map(|k| format!("{name}{k} = {name}s[{k}]")).collect();
    if !all.is_empty() {
        line(out, 4, &format!("const {ty} {};", all.join(", ")));
    }
}

pub(super) fn line(out: &mut String, indent: usize, text: &str) {
    let _ = writeln!(out, "{:indent$}{text}", "");
}

/// A statement, and the IR line that it is of.
pub(super) fn noted(out: &mut String, indent: usize, text: &str, note: &str) {
    // A comment that ends in a backslash goes on in the next line.
    let note = note.replace('\\', "/");
    let width = MARGIN.saturating_sub(indent);
    let _ = writeln!(out, "{:indent$}{text:width$} // {note}", "");
}

/// The function of a nest.
pub fn function(name: &str, nest: &Nest) -> String {
    let mut printer = Printer { nest, out: String::new(), indent: 4 };
    let named = |is_written: bool| {
        let accesses = nest.accesses.iter().filter(|access| access.is_written == is_written);
        accesses.map(|access| format!("{} {}", access.name, access.dtype.name())).collect()
    };
    let Nest { group, assumed, reals, wholes, .. } = nest;
    let accesses = [named(false), named(true)];
    Head { name, group, assumed, accesses, reals: *reals, wholes: *wholes }.print(&mut printer.out);
    printer.body();
    printer.out
}

struct Printer<'n> {
    nest: &'n Nest,
    out: String,
    indent: usize,
}

impl Printer<'_> {
    fn line(&mut self, text: &str) {
        line(&mut self.out, self.indent, text);
    }

    /// A statement with its IR line, if it has one.
    fn noted(&mut self, text: &str, note: &str) {
        match note.is_empty() {
            true => self.line(text),
            false => noted(&mut self.out, self.indent, text, note),
        }
    }

    fn body(&mut self) {
        let (nest, tile) = (self.nest, self.nest.tile());
        self.line(&format!("const i64 n = shape[rank - 1], tiles = (n + {tile} - 1) / {tile};"));
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
        line(&mut self.out, 0, "}");
    }

    fn stmts(&mut self, stmts: &[Stmt]) {
        stmts.iter().for_each(|stmt| self.stmt(stmt));
    }

    fn stmt(&mut self, stmt: &Stmt) {
        match stmt {
            Stmt::For(all) => self.loop_over(all),
            Stmt::Alloc(buffer) => {
                let Buffer { value, elements, .. } = self.nest.buffers[*buffer];
                let (ty, name) = (value_type(self.nest.values[value].dtype), self.memory_of(*buffer));
                self.line(&format!("{ty} {name}[{elements}] __attribute__((aligned(64)));"));
            }
            Stmt::Open(Place::Access(access)) => self.open(*access),
            Stmt::Open(Place::Buffer(buffer)) => {
                let (ty, all) = (self.type_of(*buffer), self.memory_of(*buffer));
                self.line(&format!("{ty} *restrict {} = {all} + from;", self.name_of(*buffer)));
            }
            Stmt::Let { value, compute, note } => {
                let ty = value_type(self.nest.values[*value].dtype);
                let statement =
                    format!("const {ty} {} = {};", self.nest.values[*value].name, self.compute(*value, compute));
                self.noted(&statement, note);
            }
            Stmt::Store { to, operand, note } => {
                let statement = format!("{} = {};", self.place(*to), self.stored(*to, operand));
                self.noted(&statement, note);
            }
            Stmt::Flush(access) => {
                let (name, size) = (&self.nest.accesses[*access].name, self.nest.accesses[*access].dtype.size());
                self.line(&format!("if (stream) jo_stream(to_{name}, {name}, m * {size});"));
            }
            Stmt::Prefetch { accesses, ahead } => self.prefetch(accesses, *ahead),
        }
    }

    fn loop_over(&mut self, all: &For) {
        match (all.axis, all.bind) {
            (Axis::Tiles(_), _) => {
                self.line("i64 tile = begin % tiles;");
                self.line("for (i64 item = begin; item < end; item++) {");
            }
            (Axis::FirstRow(_), _) => self.line("for (i64 tile = 0; tile < tiles; tile++) {"),
            (Axis::Points, bind) => {
                if bind == Bind::Vector {
                    self.line("#pragma omp simd");
                }
                self.line("for (i64 i = 0; i < m; i++) {");
            }
        }
        self.indent += 4;
        if let Some(tile) = all.axis.tile() {
            self.line(&format!("const i64 from = tile * {tile}, m = n - from < {tile} ? n - from : {tile};"));
        }
        self.stmts(&all.body);
        if let Axis::Tiles(_) = all.axis {
            self.line("if (++tile < tiles) continue;");
            self.line("tile = 0;");
            let accesses = self.nest.accesses.len();
            self.line(&format!("jo_next(shape, rank, 0, kept, strides, {accesses}, at, place);"));
        }
        self.indent -= 4;
        self.line("}");
    }

    /// Where an access begins in a tile.
    fn open(&mut self, at: usize) {
        let access = &self.nest.accesses[at];
        let (name, element) = (&access.name, memory_type(access.dtype));
        let constant = if access.is_written { "" } else { "const " };
        let from = match access.inner {
            Inner::Broadcast => String::new(),
            Inner::Unit => " + from".to_owned(),
            Inner::Strided => format!(" + from * s{at}"),
        };
        if access.inner == Inner::Strided {
            self.line(&format!("const i64 s{at} = strides[{at} * rank + rank - 1];"));
        }
        let place = format!("({constant}{element} *)data[{at}] + place[{at}]{from}");
        match access.streamed {
            None => self.line(&format!("{constant}{element} *restrict {name} = {place};")),
            Some(_) => {
                self.line(&format!("{element} *const to_{name} = {place};"));
                self.line(&format!("{element} *restrict {name} = stream ? l_{name} : to_{name};"));
            }
        }
    }

    /// One loop that prefetches a cache line of each access at a time.
    fn prefetch(&mut self, accesses: &[usize], ahead: usize) {
        let widest = accesses.iter().map(|&at| self.nest.accesses[at].dtype.size()).max().unwrap_or(LINE);
        self.line(&format!("if (ask) for (i64 i = 0; i < m; i += {}) {{", LINE / widest));
        self.indent += 4;
        for &at in accesses {
            self.line(&format!("__builtin_prefetch({} + i + {ahead});", self.nest.accesses[at].name));
        }
        self.indent -= 4;
        self.line("}");
    }

    fn type_of(&self, buffer: usize) -> &'static str {
        value_type(self.nest.values[self.nest.buffers[buffer].value].dtype)
    }

    /// The name of a buffer's value with another first letter.
    fn beside(&self, letter: char, buffer: usize) -> String {
        format!("{letter}{}", &self.nest.values[self.nest.buffers[buffer].value].name[1..])
    }

    /// The memory of a buffer.
    fn memory_of(&self, buffer: usize) -> String {
        self.beside(if self.nest.buffers[buffer].scope == Scope::Row { 'c' } else { 't' }, buffer)
    }

    /// The part of it that is a tile's.
    fn name_of(&self, buffer: usize) -> String {
        self.beside(if self.nest.buffers[buffer].scope == Scope::Row { 'u' } else { 't' }, buffer)
    }

    fn place(&self, place: Place) -> String {
        match place {
            Place::Buffer(buffer) => format!("{}[i]", self.name_of(buffer)),
            Place::Access(at) => {
                let name = &self.nest.accesses[at].name;
                match self.nest.accesses[at].inner {
                    Inner::Broadcast => format!("{name}[0]"),
                    Inner::Unit => format!("{name}[i]"),
                    Inner::Strided => format!("{name}[i * s{at}]"),
                }
            }
        }
    }

    fn compute(&self, value: usize, compute: &Compute) -> String {
        match compute {
            Compute::Load(place @ Place::Access(at)) => widened(&self.place(*place), self.nest.accesses[*at].dtype),
            Compute::Load(place) => self.place(*place),
            Compute::Apply { formula, computed, operands, rounded } => {
                let operand = |letter: char| {
                    let found = operands.iter().find(|(own, _)| *own == letter);
                    found.map_or(String::new(), |(_, operand)| self.operand(operand))
                };
                let text = applied(formula, (*computed, self.nest.values[value].dtype), &operand);
                match rounded {
                    Some(dtype) => converted(&format!("({text})"), DType::Float, *dtype),
                    None => text,
                }
            }
        }
    }

    /// A value as an expression, constants as numbers of a type.
    fn origin(&self, origin: Origin, dtype: DType) -> String {
        match origin {
            Origin::Value(value) => self.nest.values[value].name.clone(),
            Origin::Constant(scalar) => literal(scalar, dtype),
            Origin::Float(k) => format!("real{k}"),
            Origin::Integer(k) => format!("whole{k}"),
        }
    }

    /// An operand of a formula: constants are numbers of the type that it is read in.
    fn operand(&self, operand: &Operand) -> String {
        match operand.origin {
            Origin::Constant(scalar) => literal(scalar, operand.to),
            origin => converted(&self.origin(origin, operand.from), operand.from, operand.to),
        }
    }

    /// What is written to a place.
    fn stored(&self, to: Place, operand: &Operand) -> String {
        let value = converted(&self.origin(operand.origin, operand.from), operand.from, operand.to);
        match to {
            Place::Access(at) => narrowed(value, self.nest.accesses[at].dtype),
            Place::Buffer(_) => value,
        }
    }
}
