//! Builds the nest of a kernel under a plan: the only place that makes loops of them.
//!
//! Here are kernels without reductions, and what all kernels have. Loops over elements are in
//! `element_nests.rs`, rows and their reductions in `row_nests.rs`, variances in
//! `variance_nests.rs`, rows that are split between threads in `split_nests.rs`. Blocks of threads
//! are in `grid_nests.rs`.

use super::state_rules::rule;
use super::{
    Access, Axis, Bind, Buffer, Combined, Distance, For, Known, Nest, Operand, Origin, Place, Scope, Split, Spread,
    Stmt, Term, Value, Variable, Watch,
};
use crate::codegen::kernel::{Direction, Inner, Input, Kernel, Load, Source, Traversal};
use crate::codegen::kernel_plan::{Ahead, Grid, MOST_KEPT, Plan, TUNING, Wide, fits_grid};
use crate::codegen::loop_structure::Aim;
use crate::codegen::loop_structure::Loops;
use crate::codegen::monoid::type_of_initial;
use crate::codegen::number_type::NumberType;
use crate::codegen::window::{Gives, Guard, Tap};
use crate::tensor::{DType, Kind, Scalar};
use rustc_hash::FxHashMap;
use std::collections::{BTreeMap, BTreeSet};

/// Bytes of a line of the caches.
const LINE: usize = 64;

/// The nest of a kernel.
///
/// # Errors
/// Why there is none.
pub(crate) fn build(kernel: &Kernel, traversal: &Traversal, plan: &Plan) -> Result<Nest, String> {
    let mut builder = Builder::new(kernel, traversal, plan);
    if let Some(grid) = plan.grid {
        fits_grid(kernel)?;
        has_no_guards(kernel, traversal)?;
        builder.rows_on_grid(grid);
        return Ok(builder.nest);
    }
    match traversal.direction {
        Direction::Points if !kernel.column_reductions.is_empty() => {
            return Err("its column reductions have no rows".to_owned());
        }
        Direction::Points => {
            builder.shared_row();
            builder.tiles();
        }
        _ if kernel.steps.iter().any(|step| step.scan.is_some() && !step.formula.is_operand()) => {
            return Err("a scan of what its formula computes".to_owned());
        }
        Direction::Strided if kernel.has_scan() => return Err("its scans have rows that alternate".to_owned()),
        _ => builder.all_rows(),
    }
    Ok(builder.nest)
}

/// The nest of a kernel whose threads take several elements at once, in fewer rounds if a thread
/// would keep too much; none where that would be no round.
///
/// # Errors
/// Why there is none.
pub(crate) fn build_wide(
    kernel: &Kernel,
    traversal: &Traversal,
    plan: &Plan,
    wide: Wide,
) -> Result<Option<(Wide, Nest)>, String> {
    fits_grid(kernel)?;
    has_no_guards(kernel, traversal)?;
    let grid = plan.grid.ok_or("processors have no threads that take several elements at once")?;
    let mut builder = Builder::new(kernel, traversal, plan);
    let most = MOST_KEPT / (wide.lanes * builder.kept_at_once().max(1));
    let Some(wide) = wide.within(most) else { return Ok(None) };
    builder.wide = Some(wide);
    builder.rows_on_grid(Grid { threads: wide.threads, ..grid });
    Ok(Some((wide, builder.nest)))
}

/// The nest of a kernel of points whose blocks take squares.
///
/// # Errors
/// Why there is none.
pub(crate) fn build_squares(kernel: &Kernel, traversal: &Traversal, plan: &Plan) -> Result<Nest, String> {
    fits_grid(kernel)?;
    has_no_guards(kernel, traversal)?;
    let grid = plan.grid.ok_or("processors have no shared memory")?;
    let mut builder = Builder::new(kernel, traversal, plan);
    builder.squares_on_grid(grid);
    Ok(builder.nest)
}

/// The nest of a launch of a phase of split reductions, whose threads may take several elements at
/// once.
///
/// # Errors
/// Why there is none.
pub(crate) fn build_split(
    kernel: &Kernel,
    traversal: &Traversal,
    plan: &Plan,
    (split, phase, wide): (Split, usize, Option<Wide>),
) -> Result<Nest, String> {
    fits_grid(kernel)?;
    has_no_guards(kernel, traversal)?;
    let grid = plan.grid.ok_or("processors have split reductions of their own")?;
    let mut builder = Builder::new(kernel, traversal, plan);
    builder.wide = wide;
    if kernel.has_scan() {
        builder.scans_of_parts(phase, grid);
        return Ok(builder.nest);
    }
    builder.split_on_grid((split, phase), grid);
    Ok(builder.nest)
}

/// Whether threads of blocks can compute where the windows of a kernel are: not in the padding.
fn has_no_guards(kernel: &Kernel, traversal: &Traversal) -> Result<(), String> {
    let counts = |load: &Load| load.tap.as_ref().is_some_and(|tap| !tap.gives.reads());
    match traversal.guards.iter().all(|&guard| guard == Guard::None) && !kernel.loads.iter().any(counts) {
        true => Ok(()),
        false => Err("blocks of threads have no windows that reach beyond their operand".to_owned()),
    }
}

/// A nest without statements.
fn bare(loops: &Loops<'_>) -> Nest {
    let (kernel, traversal) = (loops.kernel, loops.traversal);
    let has_rows = traversal.direction != Direction::Points;
    let watch = |access: usize| move |tap: &Tap| Watch { gives: tap.gives, guard: traversal.guards[access] };
    let part = |access: usize| {
        let guard = traversal.guards[access];
        (guard != Guard::None).then_some(Watch { gives: Gives::Part, guard })
    };
    let access = |access: usize| {
        let store = access.checked_sub(kernel.loads.len());
        Access {
            name: store.map_or_else(|| format!("in{access}"), |store| format!("out{store}")),
            dtype: kernel.dtype_of(access),
            is_written: store.is_some(),
            inner: traversal.inner[access],
            is_of_row: has_rows && traversal.invariant[access],
            is_added_to: kernel.is_column_reduction(access),
            watch: kernel
                .loads
                .get(access)
                .and_then(|load| load.tap.as_ref())
                .map(watch(access))
                .or_else(|| part(access)),
            is_wide: false,
            is_crossed: false,
            ahead: 0,
            streamed: store.and_then(|store| loops.streamed(store)),
        }
    };
    let value = |name: &str, dtype: DType| Value { name: name.to_owned(), dtype };
    let loads = kernel.loads.iter().map(|load| value(&load.name, load.value_dtype()));
    let steps = kernel.steps.iter().map(|step| value(&step.name, step.out));
    let reductions = kernel.reductions.iter().map(|reduction| value(&reduction.name, reduction.out));
    Nest {
        group: kernel.group.clone(),
        direction: traversal.direction,
        assumed: kernel.assumed.clone(),
        accesses: (0..kernel.accesses()).map(access).collect(),
        floats: kernel.floats.len(),
        integers: kernel.integers.len(),
        values: loads.chain(steps).chain(reductions).collect(),
        buffers: Vec::new(),
        variables: Vec::new(),
        slots: 0,
        threads: None,
        blocks: 0,
        is_flat: false,
        lanes: 1,
        side: 0,
        split: None,
        body: Vec::new(),
    }
}

pub(super) struct Builder<'a> {
    pub(super) kernel: &'a Kernel,
    pub(super) loops: Loops<'a>,
    pub(super) nest: Nest,
    /// The buffers of values that each of several rows has.
    pub(super) rows: BTreeMap<usize, usize>,
    /// The variables by their names.
    pub(super) names: FxHashMap<String, usize>,
    /// How many lines the loop that is built takes at once, if several.
    pub(super) together: Option<usize>,
    /// How threads take several elements at once, if they do.
    pub(super) wide: Option<Wide>,
    /// The buffers of values that a thread keeps for later phases.
    pub(super) kept: BTreeMap<usize, usize>,
    /// The access whose part of a tile loops run over.
    pub(super) within: Option<usize>,
}

/// Another name of a value, with another first letter.
pub(super) fn with_letter(letter: char, name: &str) -> String {
    format!("{letter}{}", &name[1..])
}

/// A value of a type that is not converted.
pub(super) fn plain(origin: Origin) -> Operand {
    Operand { origin, from: DType::Double, to: DType::Double }
}

/// A number that loops know.
pub(super) fn known(known: Known) -> Operand {
    plain(Origin::Known(known))
}

/// A term that is one of the rules.
pub(super) fn term<const N: usize>(text: &'static str, operands: [(char, Operand); N]) -> Term {
    Term { formula: rule(text), ty: NumberType::Double, operands: operands.to_vec() }
}

/// A copy of an operand.
pub(super) fn copy(operand: Operand) -> Term {
    term(super::state_rules::COPY, [('x', operand)])
}

/// An initial value.
pub(super) fn constant(scalar: Scalar) -> Term {
    let dtype = type_of_initial(scalar);
    copy(Operand { origin: Origin::Constant(scalar), from: dtype, to: dtype })
}

/// Zero.
pub(super) fn zero() -> Term {
    constant(Scalar::Int(0))
}

impl<'a> Builder<'a> {
    fn new(kernel: &'a Kernel, traversal: &'a Traversal, plan: &Plan) -> Builder<'a> {
        let loops = Loops::new(kernel, traversal, plan);
        let nest = bare(&loops);
        let (rows, names, kept) = Default::default();
        Builder { kernel, loops, nest, rows, names, together: None, wide: None, kept, within: None }
    }
}

impl Builder<'_> {
    /// The value of a step.
    pub(super) fn step(&self, i: usize) -> usize {
        self.kernel.loads.len() + i
    }

    /// The value of a reduction.
    pub(super) fn reduced(&self, k: usize) -> usize {
        self.kernel.loads.len() + self.kernel.steps.len() + k
    }

    pub(super) fn buffer(&mut self, value: usize, dtype: DType, elements: usize, scope: Scope) -> usize {
        self.nest.buffers.push(Buffer { value, dtype, elements, scope });
        self.nest.buffers.len() - 1
    }

    /// Makes a variable; a name means the last one that was made with it.
    pub(super) fn declared_as(&mut self, name: String, ty: NumberType, spread: Spread, is_fixed: bool) -> usize {
        let variable = self.nest.variables.len();
        self.nest.variables.push(Variable { name: name.clone(), ty, spread, is_fixed });
        self.names.insert(name, variable);
        variable
    }

    /// A variable, by its letter and the value that it belongs to.
    pub(super) fn variable(&self, letter: char, name: &str) -> usize {
        let name = with_letter(letter, name);
        // The builder asks for none that it has not made; the verifier refuses a nest that does.
        self.names.get(&name).copied().unwrap_or_default()
    }

    /// The same as an operand.
    pub(super) fn of(&self, letter: char, name: &str) -> Operand {
        plain(Origin::Variable(self.variable(letter, name)))
    }

    /// The buffer of a step that all rows share.
    pub(super) fn shared(&self, step: usize) -> Option<usize> {
        let value = self.step(step);
        self.nest.buffers.iter().position(|buffer| buffer.scope == Scope::Row && buffer.value == value)
    }

    /// Computes what all rows share, such as the areas of boxes that are compared with many others,
    /// before the loop over tiles:
    ///
    /// ```text
    /// buffer t_b: 4096 of Float, for a row
    /// for each tile of 256 points of the first row
    ///   for each point i of the tile, as a vector
    ///     t_b[i] = v_b                  # kept for all rows
    /// for each tile of 256 points of each row, in parallel
    ///   …                               v_b = t_b[i]
    /// ```
    ///
    /// Each share of a launch does so for itself. Rows that are longer than the buffer are another
    /// pattern, in which all is computed for each row. The overlap of 1000 boxes with 1000 takes
    /// 262 us so, and 279 without (Xeon with AVX-512, both in one process).
    fn shared_row(&mut self) {
        let columns = self.loops.columns.clone();
        if columns.kept.is_empty() {
            return;
        }
        for &step in &columns.kept {
            let (value, dtype) = (self.step(step), self.kernel.steps[step].out);
            let buffer = self.buffer(value, dtype, TUNING.shared, Scope::Row);
            self.nest.body.push(Stmt::Alloc(buffer));
        }
        let read = columns.all.iter().flat_map(|&i| &self.kernel.steps[i].inputs);
        let loads: BTreeSet<usize> =
            read.filter_map(|input| if let Source::Load(k) = input.source { Some(k) } else { None }).collect();
        let mut body: Vec<Stmt> = loads.into_iter().map(|load| Stmt::Open(Place::Access(load))).collect();
        body.extend(self.opened_buffers());
        let aims: Vec<Aim> = columns.kept.into_iter().map(Aim::Keep).collect();
        self.elements(0, &aims, self.loops.plan.tile, &mut body);
        let axis = Axis::FirstRow(self.loops.plan.tile);
        self.nest.body.push(For::over(axis, Bind::Serial, body));
    }

    fn opened_buffers(&self) -> Vec<Stmt> {
        let rows = self.nest.buffers.iter().enumerate().filter(|(_, buffer)| buffer.scope == Scope::Row);
        rows.map(|(buffer, _)| Stmt::Open(Place::Buffer(buffer))).collect()
    }

    /// The loop over tiles.
    fn tiles(&mut self) {
        let mut body: Vec<Stmt> = (0..self.kernel.accesses()).map(|at| Stmt::Open(Place::Access(at))).collect();
        body.extend(self.opened_buffers());
        self.results(&mut body);
        if let Ahead::Elements(ahead) = self.loops.plan.phase(0).ahead {
            body.extend(self.prefetched(0..self.kernel.loads.len(), Distance::Elements(ahead)));
        }
        let axis = Axis::Tiles(self.loops.plan.tile);
        self.nest.body.push(For::over(axis, Bind::Worker, body));
    }

    /// Computes all results of a tile: parts of different sizes one after the other.
    fn results(&mut self, body: &mut Vec<Stmt>) {
        let (loads, tile) = (self.kernel.loads.len(), self.loops.plan.tile);
        let aims: Vec<Aim> = (0..self.kernel.stores.len()).map(Aim::Store).collect();
        if aims.is_empty() || !self.nest.accesses[loads].has_guard() {
            return self.elements(0, &aims, tile, body);
        }
        for (store, aim) in aims.into_iter().enumerate() {
            self.within = Some(loads + store);
            let mut part = Vec::new();
            self.elements(0, &[aim], tile, &mut part);
            body.push(Stmt::Scope(part));
        }
        self.within = None;
    }

    /// Prefetches those of some loads that are contiguous, each line of the caches once.
    pub(super) fn prefetched(&self, loads: impl IntoIterator<Item = usize>, ahead: Distance) -> Option<Stmt> {
        let is_contiguous = |&access: &usize| {
            let access = &self.nest.accesses[access];
            access.inner == Inner::Unit && access.watch.is_none()
        };
        let accesses: Vec<usize> = loads.into_iter().filter(is_contiguous).collect();
        let widest = accesses.iter().map(|&at| self.nest.accesses[at].dtype.size()).max()?;
        Some(Stmt::Prefetch { accesses, ahead, step: LINE / widest })
    }

    pub(super) fn input(&self, input: &Input) -> Operand {
        Operand { origin: self.origin(input.source), from: input.dtype, to: input.to }
    }

    pub(super) fn origin(&self, source: Source) -> Origin {
        match source {
            Source::Load(k) => Origin::Value(k),
            Source::Step(i) => Origin::Value(self.step(i)),
            Source::Reduced(k) => Origin::Value(self.reduced(k)),
            Source::Constant(scalar) => Origin::Constant(scalar),
            Source::Float(k) => Origin::Float(k),
            Source::Integer(k) => Origin::Integer(k),
        }
    }

    /// The type that a value is rounded to where it is read again, as memory would: halves.
    pub(super) fn rounded(&self, dtype: DType, source: Source) -> Option<DType> {
        let is_value = match source {
            Source::Step(i) => self.kernel.steps[i].is_value,
            Source::Reduced(k) => self.kernel.reductions[k].is_value,
            _ => false,
        };
        let is_short = matches!(dtype, DType::Half | DType::BFloat16);
        (is_short && is_value && self.kernel.reads(source)).then_some(dtype)
    }
}

/// A variable that iterations combine.
pub(super) fn combined(variable: usize, how: &'static str) -> Combined {
    Combined { variable, how, is_scan: false }
}

/// Whether a value of a type is a floating-point number.
pub(super) fn is_real(dtype: DType) -> bool {
    dtype.arithmetic() == Some(Kind::Float)
}
