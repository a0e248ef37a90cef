//! Kernels as C: readable, without headers, each statement beside its IR line.
//!
//! A kernel is one function over a range of tiles of its iteration space. Offsets of rows are
//! stepped, not divided; a tile is one loop, or one for each stage, all of which a compiler can
//! make vectors of:
//!
//! ```c
//! for (i64 i = 0; i < m; i++) {
//!     const float v_x = x0[i];                     // %x
//!     const float v_y = v_x < 0 ? 0 : v_x;         // %y : Float(*) = aten::relu(%x)
//!     y0[i] = v_y;
//! }
//! ```
//!
//! Kernels without reductions are printed by [`super::c`]. Reductions are in `c_form/row_loops.rs`:
//! there a tile is a row, or as many interleaved rows as a tile has. Names in the text: `v_x` the
//! value of `%x` at an element or of a row, `t_x` an array of such, and for reductions `a_x` the
//! total, `p_x` that of a block.

mod asking_ahead;
mod element_loops;
mod parted_rows;
mod places;
mod row_loops;
mod rows_in_turn;
mod rows_together;
mod streaming;
mod variances;

use super::c::{self, Head};
use super::c_spelling::{literal, memory_type};
use super::kernel::{Direction, Inner, Kernel, Source, Traversal};
use super::kernel_plan::Plan;
use super::loop_structure::Loops;
use super::nest::build::build;
use super::prelude;
use crate::tensor::DType;

/// One translation unit of several kernels: what they call of the prelude, then each as a function
/// of its name.
pub fn unit(kernels: &[(&str, &Kernel, &Traversal, &Plan)]) -> String {
    let functions: Vec<String> =
        kernels.iter().map(|(name, kernel, traversal, plan)| function(name, kernel, traversal, plan)).collect();
    let mut text = prelude::types().to_owned();
    text += &prelude::used_by(functions.iter().map(String::as_str));
    for function in functions {
        text += "\n";
        text += &function;
    }
    text
}

/// A text without what only people read: lines of the graph, in whose types sizes may stand.
pub fn without_notes(text: &str) -> String {
    text.lines().map(|line| line.split("//").next().unwrap_or_default().trim_end()).fold(
        String::new(),
        |mut all, line| {
            all += line;
            all.push('\n');
            all
        },
    )
}

/// The function of a kernel for a traversal and a plan.
pub fn function(name: &str, kernel: &Kernel, traversal: &Traversal, plan: &Plan) -> String {
    if let Ok(nest) = build(kernel, traversal, plan) {
        return c::function(name, &nest);
    }
    let mut writer = Writer::new(kernel, traversal, plan);
    writer.head(name);
    writer.body();
    writer.out
}

struct Writer<'k> {
    kernel: &'k Kernel,
    traversal: &'k Traversal,
    loops: Loops<'k>,
    /// Whether the loops that are being written are over a part of the rows that stand side by
    /// side, which begins at `c`.
    in_parts: bool,
    /// Whether they take several rows that they fold at once: row `u` of those that begin at `j`.
    together: Option<usize>,
    /// How much further in lines stand than they would without loops around that only some kernels
    /// have.
    deeper: usize,
    out: String,
}

/// Another variable of a value: its name with another first letter.
fn beside(letter: char, name: &str) -> String {
    format!("{letter}{}", &name[1..])
}

impl<'k> Writer<'k> {
    fn new(kernel: &'k Kernel, traversal: &'k Traversal, plan: &Plan) -> Writer<'k> {
        let loops = Loops::new(kernel, traversal, plan);
        Writer { kernel, traversal, loops, in_parts: false, together: None, deeper: 0, out: String::new() }
    }
}

impl<'k> std::ops::Deref for Writer<'k> {
    type Target = Loops<'k>;

    fn deref(&self) -> &Loops<'k> {
        &self.loops
    }
}

impl Writer<'_> {
    fn line(&mut self, indent: usize, text: &str) {
        c::line(&mut self.out, indent + self.deeper, text);
    }

    /// A statement, and the IR line that it is of.
    fn noted(&mut self, indent: usize, text: &str, note: &str) {
        c::noted(&mut self.out, indent + self.deeper, text, note);
    }

    fn head(&mut self, name: &str) {
        let kernel = self.kernel;
        let access = |access| format!("{} {}", self.access_name(access), kernel.dtype_of(access).name());
        let loads = kernel.loads.len();
        let accesses = [(0..loads).map(access).collect(), (loads..kernel.accesses()).map(access).collect()];
        let Kernel { group, assumed, floats, integers, .. } = kernel;
        let head = Head { name, group, assumed, accesses, reals: floats.len(), wholes: integers.len() };
        head.print(&mut self.out);
    }

    fn access_name(&self, access: usize) -> String {
        match access.checked_sub(self.kernel.loads.len()) {
            None => format!("in{access}"),
            Some(store) => self.store_name(store),
        }
    }

    fn store_name(&self, store: usize) -> String {
        format!("out{store}")
    }

    /// The position of the first row, from which others are walked to by adding strides, and the
    /// loop over them.
    fn body(&mut self) {
        let accesses = self.kernel.accesses();
        match self.width_of_tile() {
            Some(width) => {
                self.line(4, &format!("const i64 n = shape[rank - 1], tiles = (n + {width} - 1) / {width};"));
            }
            None => self.line(4, "const i64 tiles = 1;"),
        }
        self.reduction_space();
        if self.is_split() {
            self.own_part();
        }
        self.lines_of_results();
        self.line(4, &format!("i64 at[64], place[{accesses}];"));
        self.line(4, &format!("jo_first(shape, rank, kept, begin / tiles, strides, {accesses}, at, place);"));
        if self.is_strided() {
            self.sides()
        } else {
            self.tiles()
        }
        if self.streams() {
            self.line(4, "if (stream) jo_fence();");
        }
        self.line(0, "}");
    }

    /// How many points a tile has along the innermost dimension, as a text.
    fn width_of_tile(&self) -> Option<String> {
        self.plan.tile().map(|tile| {
            if self.traversal.direction == Direction::Outer { "columns".to_owned() } else { tile.to_string() }
        })
    }

    /// From tile to tile.
    fn tiles(&mut self) {
        self.line(4, "i64 tile = begin % tiles;");
        self.line(4, "for (i64 item = begin; item < end; item++) {");
        if let Some(width) = self.width_of_tile() {
            self.line(8, &format!("const i64 from = tile * {width}, m = n - from < {width} ? n - from : {width};"));
        }
        self.tile_of_rows();
        if self.is_split() {
            self.line(8, "next:");
        }
        self.line(8, "if (++tile < tiles) continue;");
        self.line(8, "tile = 0;");
        let accesses = self.kernel.accesses();
        self.line(8, &format!("jo_next(shape, rank, 0, kept, strides, {accesses}, at, place);"));
        self.line(4, "}");
    }

    /// Where an access begins; `behind` says how far behind the beginning of its row that is.
    fn pointer(&mut self, indent: usize, access: usize, behind: &str) {
        let (name, element) = (self.access_name(access), memory_type(self.kernel.dtype_of(access)));
        let constant = if access < self.kernel.loads.len() { "const " } else { "" };
        let from = match self.traversal.inner[access] {
            Inner::Broadcast => String::new(),
            _ if self.traversal.direction.has_inner_loop() && self.traversal.invariant[access] => String::new(),
            Inner::Unit => " + from".to_owned(),
            Inner::Strided => format!(" + from * s{access}"),
        };
        if self.traversal.inner[access] == Inner::Strided {
            self.line(indent, &format!("const i64 s{access} = strides[{access} * rank + rank - 1];"));
        }
        let place = format!("({constant}{element} *)data[{access}] + place[{access}]{behind}{from}");
        let store = access.checked_sub(self.kernel.loads.len());
        match store.and_then(|store| self.streamed(store)) {
            None => self.line(indent, &format!("{constant}{element} *restrict {name} = {place};")),
            Some(_) => {
                self.line(indent, &format!("{element} *const to_{name} = {place};"));
                self.line(indent, &format!("{element} *restrict {name} = stream ? l_{name} : to_{name};"));
            }
        }
    }

    fn index(&self, access: usize) -> String {
        let is_of_row = self.in_parts && self.traversal.invariant[access];
        match self.traversal.inner[access] {
            Inner::Unit if self.together.is_some() && !self.traversal.invariant[access] => {
                format!("[u * d{access} + i]")
            }
            Inner::Strided if self.together.is_some() && !self.traversal.invariant[access] => {
                format!("[u * d{access} + i * s{access}]")
            }
            Inner::Broadcast => "[0]".to_owned(),
            Inner::Unit if is_of_row => "[c + i]".to_owned(),
            Inner::Unit => "[i]".to_owned(),
            Inner::Strided if is_of_row => format!("[(c + i) * s{access}]"),
            Inner::Strided => format!("[i * s{access}]"),
        }
    }

    /// An element of an array that has one for each of the rows side by side.
    fn row_of(&self, name: &str) -> String {
        if self.in_parts { format!("{name}[c + i]") } else { format!("{name}[i]") }
    }

    /// A value as an expression, constants as numbers of a type.
    fn name(&self, source: Source, dtype: DType) -> String {
        match source {
            Source::Load(k) => self.kernel.loads[k].name.clone(),
            Source::Step(i) => self.kernel.steps[i].name.clone(),
            Source::Reduced(k) => self.kernel.reductions[k].name.clone(),
            Source::Float(k) => format!("real{k}"),
            Source::Integer(k) => format!("whole{k}"),
            Source::Constant(scalar) => literal(scalar, dtype),
        }
    }
}
