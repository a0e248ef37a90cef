//! The loop nest of a kernel under a plan: what every target prints, and what the executor runs.
//!
//! A [`Nest`] is a list of statements over accesses (elements of operands and results), buffers and
//! values. All decisions have been made: [`build`](build::build) reads them off the plan, printers
//! only visit. Values have the names of the graph, and statements their IR lines:
//!
//! ```text
//! for each tile of 256 points, in parallel
//!   for each point, as a vector
//!     v_x = in0[i]                     # %x
//!     v_y = a < 0 ? 0 : a              # %y : Float(*) = aten::relu(%x)
//!     out0[i] = v_y                    # a result
//! ```
//!
//! So far there are nests of kernels without reductions; [`build`](build::build) refuses others.
//!
//! A transformation of nests changes the plan and not the statements: add the choice to
//! [`super::kernel_plan`], and let `build` read it. [`verify`](verification::verify) then checks
//! the nest, and the executor runs it.

pub mod build;
pub mod nest_execution;
#[cfg(test)]
mod nest_test;
pub mod verification;

use super::expression::{Expr, Expression};
use super::kernel::Inner;
use crate::tensor::{DType, Scalar};
use std::fmt::{self, Write};

/// How the iterations of a loop run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bind {
    /// Sequentially.
    Serial,
    /// In parallel: ranges of them are shares of a launch.
    Worker,
    /// Several at once, in a vector.
    Vector,
}

/// What a loop runs over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Axis {
    /// The tiles of all rows: pieces of the innermost dimension, of at most so many points.
    Tiles(usize),
    /// The tiles of the first row.
    FirstRow(usize),
    /// The points of a tile.
    Points,
}

/// A loop.
#[derive(Clone, Debug)]
pub struct For {
    /// What it runs over.
    pub axis: Axis,
    /// How its iterations run.
    pub bind: Bind,
    /// What each does.
    pub body: Vec<Stmt>,
}

/// A place in memory, at the point of the loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// An element of an operand or result.
    Access(usize),
    /// An element of a buffer.
    Buffer(usize),
}

/// The origin of an operand.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Origin {
    /// A value.
    Value(usize),
    /// A constant.
    Constant(Scalar),
    /// A floating-point operand of the group.
    Float(usize),
    /// An integer operand of the group.
    Integer(usize),
}

/// A value, converted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Operand {
    /// Where it comes from.
    pub origin: Origin,
    /// Its type there.
    pub from: DType,
    /// The type that it is read in.
    pub to: DType,
}

/// What a value is computed from.
#[derive(Clone, Debug)]
pub enum Compute {
    /// An element of memory.
    Load(Place),
    /// A formula.
    Apply {
        /// The formula.
        formula: &'static Expression,
        /// The type that it computes in.
        computed: DType,
        /// Its operands by their letters.
        operands: Vec<(char, Operand)>,
        /// The 16-bit type that the result is rounded to, as if it were written to memory.
        rounded: Option<DType>,
    },
}

/// A statement.
#[derive(Clone, Debug)]
pub enum Stmt {
    /// A loop.
    For(For),
    /// Makes a buffer, whose elements are not initialised.
    Alloc(usize),
    /// Makes a place accessible in a tile.
    Open(Place),
    /// Computes a value.
    Let {
        /// The value.
        value: usize,
        /// What it is.
        compute: Compute,
        /// Its IR line; empty where it is read from a buffer.
        note: String,
    },
    /// Writes a value.
    Store {
        /// Where.
        to: Place,
        /// What.
        operand: Operand,
        /// Why.
        note: String,
    },
    /// The end of a tile of a result that may be written with non-temporal stores.
    Flush(usize),
    /// Prefetches the elements that these accesses read so many elements later.
    Prefetch {
        /// The accesses.
        accesses: Vec<usize>,
        /// How much later.
        ahead: usize,
    },
}

/// An operand or result, as a loop sees it.
#[derive(Clone, Debug)]
pub struct Access {
    /// Its name.
    pub name: String,
    /// Its element type in memory.
    pub dtype: DType,
    /// Whether it is written.
    pub is_written: bool,
    /// Its stride along the innermost dimension.
    pub inner: Inner,
    /// The elements of the buffer that it goes through when a launch streams; none where it never
    /// does.
    pub streamed: Option<usize>,
}

/// A value of the graph, at a point.
#[derive(Clone, Debug)]
pub struct Value {
    /// Its name.
    pub name: String,
    /// Its type.
    pub dtype: DType,
}

/// What the elements of a buffer are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// The points of a tile.
    Tile,
    /// The points of a row.
    Row,
}

/// A buffer of values.
#[derive(Clone, Debug)]
pub struct Buffer {
    /// The value that its elements are.
    pub value: usize,
    /// How many elements it has.
    pub elements: usize,
    /// What they are for.
    pub scope: Scope,
}

/// A kernel as loops.
#[derive(Clone, Debug, Default)]
pub struct Nest {
    /// The name of its group.
    pub group: String,
    /// Assumptions, as text for people.
    pub assumed: Vec<String>,
    /// The operands and results.
    pub accesses: Vec<Access>,
    /// The number of floating-point operands of the group.
    pub reals: usize,
    /// The number of integer operands.
    pub wholes: usize,
    /// The values.
    pub values: Vec<Value>,
    /// The buffers.
    pub buffers: Vec<Buffer>,
    /// The statements.
    pub body: Vec<Stmt>,
}

impl Axis {
    /// The points of a tile, of loops over tiles.
    pub fn tile(self) -> Option<usize> {
        match self {
            Axis::Tiles(points) | Axis::FirstRow(points) => Some(points),
            Axis::Points => None,
        }
    }
}

impl Nest {
    /// The points of a tile.
    pub fn tile(&self) -> usize {
        let tiles = self.body.iter().filter_map(|stmt| if let Stmt::For(all) = stmt { all.axis.tile() } else { None });
        tiles.max().unwrap_or(1)
    }

    /// The name of a place, for people.
    pub fn place(&self, place: Place) -> String {
        match place {
            Place::Access(access) => self.accesses[access].name.clone(),
            Place::Buffer(buffer) => format!("t{}", &self.values[self.buffers[buffer].value].name[1..]),
        }
    }
}

/// Column that notes begin in.
const MARGIN: usize = 60;

impl fmt::Display for Nest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "nest {}", self.group)?;
        for assumed in &self.assumed {
            writeln!(f, "  # {assumed}")?;
        }
        for access in &self.accesses {
            let (name, ty) = (&access.name, access.dtype.name());
            let layout = match access.inner {
                Inner::Broadcast => "broadcast along rows",
                Inner::Unit => "contiguous",
                Inner::Strided => "strided",
            };
            writeln!(f, "  {} {name}: {ty}, {layout}", if access.is_written { "writes" } else { "reads" })?;
        }
        let mut out = String::new();
        self.stmts(&mut out, 2, &self.body);
        f.write_str(&out)
    }
}

impl Nest {
    fn stmts(&self, out: &mut String, indent: usize, stmts: &[Stmt]) {
        for stmt in stmts {
            let (text, note) = self.stmt(stmt);
            let _ = match note.is_empty() {
                true => writeln!(out, "{:indent$}{text}", ""),
                false => writeln!(out, "{:indent$}{text:width$} # {note}", "", width = MARGIN.saturating_sub(indent)),
            };
            if let Stmt::For(all) = stmt {
                self.stmts(out, indent + 2, &all.body);
            }
        }
    }

    /// A statement, and its note.
    fn stmt<'a>(&self, stmt: &'a Stmt) -> (String, &'a str) {
        let at = |place: Place| format!("{}[i]", self.place(place));
        match stmt {
            Stmt::For(all) => {
                let over = match all.axis {
                    Axis::Tiles(points) => format!("for each tile of {points} points of each row"),
                    Axis::FirstRow(points) => format!("for each tile of {points} points of the first row"),
                    Axis::Points => "for each point i of the tile".to_owned(),
                };
                let bind = match all.bind {
                    Bind::Serial => "",
                    Bind::Worker => ", in parallel",
                    Bind::Vector => ", as a vector",
                };
                (over + bind, "")
            }
            Stmt::Alloc(buffer) => {
                let Buffer { value, elements, scope } = self.buffers[*buffer];
                let scope = if scope == Scope::Row { "row" } else { "tile" };
                let (name, ty) = (self.place(Place::Buffer(*buffer)), self.values[value].dtype.name());
                (format!("buffer {name}: {elements} of {ty}, for a {scope}"), "")
            }
            Stmt::Open(place) => (format!("open {}", self.place(*place)), ""),
            Stmt::Let { value, compute, note } => {
                let text = match compute {
                    Compute::Load(place) => at(*place),
                    Compute::Apply { formula, operands, rounded, .. } => {
                        let text = self.formula(formula, operands);
                        rounded.map_or(text.clone(), |dtype| format!("{}({text})", dtype.name()))
                    }
                };
                (format!("{} = {text}", self.values[*value].name), note)
            }
            Stmt::Store { to, operand, note } => (format!("{} = {}", at(*to), self.operand(operand)), note),
            Stmt::Flush(access) => (format!("flush {}", self.accesses[*access].name), ""),
            Stmt::Prefetch { accesses, ahead } => {
                let names: Vec<&str> = accesses.iter().map(|&access| self.accesses[access].name.as_str()).collect();
                (format!("prefetch {}, {ahead} elements ahead", names.join(", ")), "")
            }
        }
    }

    fn formula(&self, formula: &Expression, operands: &[(char, Operand)]) -> String {
        let leaf = |leaf: &Expr| match *leaf {
            Expr::Operand(letter) => {
                let found = operands.iter().find(|(own, _)| *own == letter);
                found.map_or(String::new(), |(_, operand)| self.operand(operand))
            }
            Expr::Integer(n) => n.to_string(),
            Expr::Float(x) => format!("{x:?}"),
            _ => String::new(),
        };
        formula.expr.print(&leaf, &|function| function.name.to_owned())
    }

    fn operand(&self, operand: &Operand) -> String {
        let name = match operand.origin {
            Origin::Value(value) => self.values[value].name.clone(),
            Origin::Constant(Scalar::Int(n)) => return n.to_string(),
            Origin::Constant(Scalar::Float(x)) => return format!("{x:?}"),
            Origin::Constant(scalar) => return format!("{}", scalar.real()),
            Origin::Float(k) => format!("real{k}"),
            Origin::Integer(k) => format!("whole{k}"),
        };
        match operand.from == operand.to {
            true => name,
            false => format!("{}({name})", operand.to.name()),
        }
    }
}
