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

use super::c_expressions::Spelling;
use super::c_spelling::{memory_type, value_type};
use super::nest::{Access, Axis, Bind, For, Known, Nest, Origin, Place, Spread, Stmt, Term};
use super::prelude;
use super::source_lines::{Lines, Printing};

/// What every unit begins with.
const HEAD: &str = include_str!("cuda_head.c");

/// A unit of several functions.
pub fn unit(functions: &[String]) -> String {
    // On processors compilers must not know that it is 0; here a load of it would cost more.
    let called = prelude::used_by(functions.iter().map(String::as_str));
    let called = called.replace("static __attribute__((used)) u32 jo_none;", "#define jo_none 0u");
    functions.iter().fold(HEAD.trim_end().to_owned() + &called, |unit, function| unit + "\n" + function)
}

/// The function of a nest.
pub fn function(name: &str, nest: &Nest) -> String {
    let mut printer = Printer { nest, lines: Lines::default() };
    printer.lines.head(nest);
    printer.open(&format!("JO_KERNEL({name}, {})\n{{", printer.threads()));
    printer.operands();
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
        let threads = self.threads();
        match (all.axis, all.bind) {
            (Axis::Rows, Bind::Block) => {
                "for (jo_index row = JO_BLOCK; row < launch.rows; row += JO_BLOCKS) {".to_owned()
            }
            (Axis::Rows, _) => {
                let begin = format!("JO_BLOCK * {threads} + JO_THREAD");
                format!("for (jo_index row = {begin}; row < launch.rows; row += JO_BLOCKS * {threads}) {{")
            }
            (Axis::Elements, Bind::Thread) => {
                format!("for (jo_index element = JO_THREAD; element < launch.count; element += {threads}) {{")
            }
            (Axis::Elements, _) => "for (jo_index element = 0; element < launch.count; element++) {".to_owned(),
            (Axis::Chunks, _) => {
                let begin = "jo_index chunk = 0, element = JO_THREAD";
                format!("for ({begin}; chunk < launch.count; chunk += {threads}, element += {threads}) {{")
            }
            (Axis::Distances, _) => format!("for (jo_index distance = 1; distance < {threads}; distance *= 2) {{"),
            (Axis::Halves, _) => format!("for (jo_index half = {}; half > 0; half /= 2) {{", threads / 2),
            (other, _) => format!("#error {other:?}"),
        }
    }

    /// Where accesses are at a row, or at an element of it: its position is taken apart into those
    /// along the dimensions, from the innermost one on, without a division where there is one only.
    fn locate(&mut self, accesses: &[usize], at: Axis) {
        let (letter, position, first, last) = match at {
            Axis::Elements => ("i", "element", "launch.kept", "launch.rank"),
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
            (Spread::Threads(threads), _) => format!("JO_SHARED({}, {}, {threads});", one.ty, one.name),
            (_, Some(term)) => format!("{constant}{} {} = {};", one.ty, one.name, self.term(term)),
            (_, None) => format!("{} {};", one.ty, one.name),
        };
        self.line(&text);
    }

    /// The position of an access at the row or element at hand.
    fn index(&self, at: usize) -> String {
        if self.nest.accesses[at].is_of_row { format!("r{at}") } else { format!("i{at}") }
    }
}

impl Printing for Printer<'_> {
    fn lines(&mut self) -> &mut Lines {
        &mut self.lines
    }

    fn stmt(&mut self, stmt: &Stmt) {
        match stmt {
            Stmt::For(all) => self.block(&self.loop_over(all), &all.body),
            Stmt::Locate { accesses, at } => self.locate(accesses, *at),
            Stmt::Let { value, compute, note } => {
                let (ty, name) = (value_type(self.nest.values[*value].dtype), &self.nest.values[*value].name);
                let statement = format!("const {ty} {name} = {};", self.compute(*value, compute));
                self.noted(&statement, note);
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
                let statement = match self.nest.variables[*variable].spread {
                    Spread::Threads(_) => {
                        format!("JO_PUT({}, JO_THREAD, {});", self.nest.variables[*variable].name, self.term(term))
                    }
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
            Spread::Threads(_) => format!("JO_GET({}, JO_THREAD)", one.name),
            _ => one.name.clone(),
        }
    }

    fn place(&self, place: Place) -> String {
        match place {
            Place::Access(at) => format!("JO_GET({}, {})", self.nest.accesses[at].name, self.index(at)),
            Place::Buffer(_) => "#error a buffer".to_owned(),
        }
    }

    fn known(&self, known: Known) -> &'static str {
        match known {
            Known::Count => "(double)launch.count",
            Known::Thread => "JO_THREAD",
            Known::Half => "half",
            Known::Element => "(i64)element",
            Known::End => "launch.count",
            Known::Distance => "distance",
            _ => "#error a number",
        }
    }

    fn of_thread(&self, origin: Origin) -> String {
        match origin {
            Origin::Partner(variable) => format!("JO_GET({}, JO_THREAD + half)", self.nest.variables[variable].name),
            Origin::OfFirst(variable) => format!("JO_GET({}, 0)", self.nest.variables[variable].name),
            Origin::OfLast(variable) => {
                format!("JO_GET({}, {})", self.nest.variables[variable].name, self.threads() - 1)
            }
            Origin::Before(variable) => {
                format!("JO_GET({}, JO_THREAD - distance)", self.nest.variables[variable].name)
            }
            _ => String::new(),
        }
    }
}
