//! Builds the nest of a kernel under a plan: the only place that makes loops of them.

use super::{Access, Axis, Bind, Buffer, Compute, For, Nest, Operand, Origin, Place, Scope, Stmt, Value};
use crate::codegen::kernel::{Direction, Inner, Input, Kernel, Source, Traversal};
use crate::codegen::kernel_plan::{Ahead, Plan, TARGET};
use crate::codegen::loop_structure::Loops;
use crate::codegen::schedule::{Aim, Stages, source_of};
use crate::tensor::{DType, Kind};
use std::collections::BTreeSet;

/// The nest of a kernel.
///
/// # Errors
/// Kernels with reductions have none yet.
pub fn build(kernel: &Kernel, traversal: &Traversal, plan: &Plan) -> Result<Nest, String> {
    if traversal.direction != Direction::Points || !kernel.column_reductions.is_empty() {
        let name = traversal.direction.name();
        return Err(format!("there are no nests of kernels with reductions or scans yet: its direction is {name}"));
    }
    let loops = Loops::new(kernel, traversal, plan);
    let mut builder = Builder { loops: &loops, nest: bare(&loops) };
    builder.shared_row();
    builder.tiles();
    Ok(builder.nest)
}

/// A nest without statements.
fn bare(loops: &Loops<'_>) -> Nest {
    let kernel = loops.kernel;
    let access = |access: usize| {
        let store = access.checked_sub(kernel.loads.len());
        Access {
            name: store.map_or_else(|| format!("in{access}"), |store| format!("out{store}")),
            dtype: kernel.dtype_of(access),
            is_written: store.is_some(),
            inner: loops.traversal.inner[access],
            streamed: store.and_then(|store| loops.streamed(store)),
        }
    };
    let value = |name: &str, dtype: DType| Value { name: name.to_owned(), dtype };
    let loads = kernel.loads.iter().map(|load| value(&load.name, load.dtype));
    Nest {
        group: kernel.group.clone(),
        assumed: kernel.assumed.clone(),
        accesses: (0..kernel.accesses()).map(access).collect(),
        reals: kernel.floats.len(),
        wholes: kernel.integers.len(),
        values: loads.chain(kernel.steps.iter().map(|step| value(&step.name, step.out))).collect(),
        buffers: Vec::new(),
        body: Vec::new(),
    }
}

struct Builder<'a> {
    loops: &'a Loops<'a>,
    nest: Nest,
}

/// The loops over the points of a tile, with some aims.
struct Tile<'a> {
    aims: &'a [Aim],
    steps: BTreeSet<usize>,
    stages: Stages,
    /// Loads of one element, which is read before the loops.
    invariant: BTreeSet<usize>,
    /// Steps that a later loop reads, with their buffers.
    between: Vec<(usize, usize)>,
}

impl Builder<'_> {
    fn kernel(&self) -> &Kernel {
        self.loops.kernel
    }

    /// The value of a step.
    fn step(&self, i: usize) -> usize {
        self.kernel().loads.len() + i
    }

    fn buffer(&mut self, step: usize, elements: usize, scope: Scope) -> usize {
        let value = self.step(step);
        self.nest.buffers.push(Buffer { value, elements, scope });
        self.nest.buffers.len() - 1
    }

    /// The buffer of a step that all rows share.
    fn shared(&self, step: usize) -> Option<usize> {
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
        let columns = self.loops.schedule.columns.clone();
        if columns.kept.is_empty() {
            return;
        }
        for &step in &columns.kept {
            let buffer = self.buffer(step, TARGET.shared, Scope::Row);
            self.nest.body.push(Stmt::Alloc(buffer));
        }
        let read = columns.all.iter().flat_map(|&i| &self.kernel().steps[i].inputs);
        let loads: BTreeSet<usize> =
            read.filter_map(|input| if let Source::Load(k) = input.source { Some(k) } else { None }).collect();
        let mut body: Vec<Stmt> = loads.into_iter().map(|load| Stmt::Open(Place::Access(load))).collect();
        body.extend(self.opened_buffers());
        let aims: Vec<Aim> = columns.kept.into_iter().map(Aim::Keep).collect();
        self.points(&aims, &mut body);
        let axis = Axis::FirstRow(self.loops.plan.tile);
        self.nest.body.push(Stmt::For(For { axis, bind: Bind::Serial, body }));
    }

    fn opened_buffers(&self) -> Vec<Stmt> {
        let rows = self.nest.buffers.iter().enumerate().filter(|(_, buffer)| buffer.scope == Scope::Row);
        rows.map(|(buffer, _)| Stmt::Open(Place::Buffer(buffer))).collect()
    }

    /// The loop over tiles.
    fn tiles(&mut self) {
        let mut body: Vec<Stmt> = (0..self.kernel().accesses()).map(|at| Stmt::Open(Place::Access(at))).collect();
        body.extend(self.opened_buffers());
        let aims: Vec<Aim> = (0..self.kernel().stores.len()).map(Aim::Store).collect();
        self.points(&aims, &mut body);
        if let Ahead::Elements(ahead) = self.loops.plan.phase(0).ahead {
            let is_in_a_row = |&access: &usize| self.nest.accesses[access].inner == Inner::Unit;
            let accesses: Vec<usize> = (0..self.kernel().loads.len()).filter(is_in_a_row).collect();
            if !accesses.is_empty() {
                body.push(Stmt::Prefetch { accesses, ahead });
            }
        }
        let axis = Axis::Tiles(self.loops.plan.tile);
        self.nest.body.push(Stmt::For(For { axis, bind: Bind::Worker, body }));
    }

    /// The loops over the points of a tile that compute what some aims need: one for each stage.
    fn points(&mut self, aims: &[Aim], body: &mut Vec<Stmt>) {
        let steps = self.loops.schedule.steps(self.kernel(), 0, aims);
        let stages = self.loops.stages(0, aims);
        let invariant = self.invariant_loads(&steps, aims);
        body.extend(invariant.iter().map(|&k| self.load(k)));
        let mut tile = Tile { aims, steps, stages, invariant, between: Vec::new() };
        for step in self.between(&tile) {
            let buffer = self.buffer(step, self.loops.plan.tile, Scope::Tile);
            tile.between.push((step, buffer));
            body.push(Stmt::Alloc(buffer));
        }
        for stage in 0..tile.stages.count {
            body.extend(self.stage(&tile, stage));
        }
        let written = aims.iter().filter_map(|aim| if let Aim::Store(store) = *aim { Some(store) } else { None });
        let accesses = written.map(|store| self.kernel().loads.len() + store);
        body.extend(accesses.filter(|&at| self.nest.accesses[at].streamed.is_some()).map(Stmt::Flush));
    }

    /// What is the same for all points of a loop. Compilers cannot tell that no result is written
    /// to it, and would spread it over a vector once for each: the overlap of boxes takes 1.7 times
    /// as long that way.
    fn invariant_loads(&self, steps: &BTreeSet<usize>, aims: &[Aim]) -> BTreeSet<usize> {
        let inputs = steps.iter().flat_map(|&i| self.kernel().steps[i].inputs.iter().map(|input| input.source));
        let sources = inputs.chain(aims.iter().map(|&aim| source_of(self.kernel(), aim)));
        let is_same = |k: usize| self.nest.accesses[k].inner == Inner::Broadcast;
        sources.filter_map(|source| if let Source::Load(k) = source { is_same(k).then_some(k) } else { None }).collect()
    }

    /// The steps whose values are read in a later stage than that in which they are computed.
    fn between(&self, tile: &Tile<'_>) -> BTreeSet<usize> {
        let mut between = BTreeSet::new();
        let mut read = |source: Source, stage: usize| match source {
            Source::Step(i) if tile.stages.of_step.get(&i).is_some_and(|&made| made < stage) => {
                between.insert(i);
            }
            _ => {}
        };
        for &i in &tile.steps {
            let inputs = &self.kernel().steps[i].inputs;
            inputs.iter().for_each(|input| read(input.source, tile.stages.of_step[&i]));
        }
        tile.aims.iter().for_each(|&aim| read(source_of(self.kernel(), aim), self.stage_of(tile, aim)));
        between
    }

    fn stage_of(&self, tile: &Tile<'_>, aim: Aim) -> usize {
        tile.stages.of(source_of(self.kernel(), aim))
    }

    /// The loop of a stage, if it does anything.
    fn stage(&self, tile: &Tile<'_>, stage: usize) -> Option<Stmt> {
        let aims: Vec<Aim> = tile.aims.iter().copied().filter(|&aim| self.stage_of(tile, aim) == stage).collect();
        let steps: Vec<usize> = tile.steps.iter().copied().filter(|i| tile.stages.of_step[i] == stage).collect();
        if aims.is_empty() && steps.is_empty() {
            return None;
        }
        let (mut body, mut known) = (Vec::new(), BTreeSet::new());
        for i in steps {
            let step = &self.kernel().steps[i];
            let read = step.inputs.iter();
            read.for_each(|input| body.extend(self.declared(input.source, tile, stage, &mut known)));
            body.push(Stmt::Let { value: self.step(i), compute: self.applied(i), note: step.line.clone() });
            known.insert(self.step(i));
            if let Some(&(_, buffer)) = tile.between.iter().find(|row| row.0 == i) {
                body.push(self.kept(i, buffer, ""));
            }
        }
        for &aim in &aims {
            body.extend(self.declared(source_of(self.kernel(), aim), tile, stage, &mut known));
        }
        body.extend(aims.iter().filter_map(|&aim| self.taken(aim)));
        Some(Stmt::For(For { axis: Axis::Points, bind: Bind::Vector, body }))
    }

    /// Reads a value that the loop of a stage does not compute.
    fn declared(&self, source: Source, tile: &Tile<'_>, stage: usize, known: &mut BTreeSet<usize>) -> Option<Stmt> {
        let (value, place) = match source {
            Source::Load(k) if !tile.invariant.contains(&k) => return known.insert(k).then(|| self.load(k)),
            Source::Step(i) if !tile.steps.contains(&i) => (self.step(i), self.shared(i)?),
            Source::Step(i) if tile.stages.of_step[&i] != stage => {
                (self.step(i), tile.between.iter().find(|row| row.0 == i)?.1)
            }
            _ => return None,
        };
        let compute = Compute::Load(Place::Buffer(place));
        known.insert(value).then(|| Stmt::Let { value, compute, note: String::new() })
    }

    fn load(&self, k: usize) -> Stmt {
        Stmt::Let { value: k, compute: Compute::Load(Place::Access(k)), note: self.kernel().loads[k].line.clone() }
    }

    /// What a step computes. A value of 16 bits that is read again is rounded as memory would.
    fn applied(&self, i: usize) -> Compute {
        let step = &self.kernel().steps[i];
        let is_short = matches!(step.out, DType::Half | DType::BFloat16);
        let rounds = is_short && step.is_value && self.kernel().reads(Source::Step(i));
        let operands = step.inputs.iter().map(|input| (input.letter, self.operand(input))).collect();
        Compute::Apply { formula: step.formula, computed: step.computed, operands, rounded: rounds.then_some(step.out) }
    }

    fn operand(&self, input: &Input) -> Operand {
        Operand { origin: self.origin(input.source), from: input.dtype, to: input.to }
    }

    fn origin(&self, source: Source) -> Origin {
        match source {
            Source::Load(k) => Origin::Value(k),
            Source::Step(i) => Origin::Value(self.step(i)),
            Source::Constant(scalar) => Origin::Constant(scalar),
            Source::Float(k) => Origin::Float(k),
            Source::Integer(k) => Origin::Integer(k),
            // Nests of kernels with reductions are not built.
            Source::Reduced(_) => Origin::Constant(crate::tensor::Scalar::Int(0)),
        }
    }

    fn kept(&self, step: usize, buffer: usize, note: &str) -> Stmt {
        let dtype = self.kernel().steps[step].out;
        let operand = Operand { origin: Origin::Value(self.step(step)), from: dtype, to: dtype };
        Stmt::Store { to: Place::Buffer(buffer), operand, note: note.to_owned() }
    }

    /// Does with a value what a loop is for.
    fn taken(&self, aim: Aim) -> Option<Stmt> {
        match aim {
            Aim::Store(k) => {
                let (store, access) = (self.kernel().stores[k], self.kernel().loads.len() + k);
                let made = self.kernel().made[store.tensor].dtype;
                let operand = Operand { origin: self.origin(store.source), from: store.dtype, to: made };
                let part = store.part.map_or(String::new(), |part| format!(", part {}", part.index));
                Some(Stmt::Store { to: Place::Access(access), operand, note: format!("a result{part}") })
            }
            Aim::Keep(step) => Some(self.kept(step, self.shared(step)?, "kept for all rows")),
            _ => None,
        }
    }
}

/// Whether a value of a type is a floating-point number.
pub(super) fn is_real(dtype: DType) -> bool {
    dtype.arithmetic() == Some(Kind::Float)
}
