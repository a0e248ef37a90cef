//! Groups that run as several kernels.

use super::{CpuBackend, Known, NAME, Request, Wanted, known};
use crate::codegen::geometry::{Geometry, View, settle};
use crate::codegen::kernel::{Kernel, Outcome};
use crate::codegen::lowering::{Argument, lower};
use crate::interpreter::IValue;
use crate::interpreter::call::Outs;
use crate::ir::{Graph, Value};
use crate::outlining::Excerpt;
use crate::runtime::division::divide;
use rustc_hash::FxHashMap;
use std::rc::Rc;

/// The number of divisions of a group for operands of the same element types: each may be a run of
/// the compiler.
const MOST_DIVISIONS: usize = 16;
/// The number of groups that cannot be divided, with their operands, that are remembered.
const MOST_SIZES: usize = 256;

impl CpuBackend {
    /// Runs a group as several kernels.
    pub(super) fn run_pieces(&self, request: Request<'_>, pieces: &[Excerpt]) -> Result<Outs, String> {
        let section = request.section;
        let mut values: FxHashMap<Value, IValue> =
            section.params(section.root()).zip(request.operands.iter().cloned()).collect();
        let mut launched = 0;
        for piece in pieces {
            let operands: Vec<IValue> = piece.operands.iter().map(|value| values[value].clone()).collect();
            let request = Request { section: &piece.section, operands: &operands, ..request };
            let mut prepared = self.prepared(request)?;
            launched += u64::from(prepared.launch()?);
            self.note_seen(request.name, prepared.seen());
            values.extend(piece.results.iter().copied().zip(prepared.results()?));
        }
        self.count(|counts| {
            counts.launched += launched;
            counts.divided += 1;
        });
        Ok(section.results(section.root()).map(|result| values[&result].clone()).collect())
    }

    /// The pieces of a group, compiled together. Those of other sizes are tried first.
    pub(super) fn division(&self, request: &Request<'_>) -> Option<Rc<Vec<Excerpt>>> {
        let operands: Vec<Known> = request.operands.iter().map(known).collect();
        let id = request.section.id().number();
        let key = (id, operands.iter().map(|(argument, _)| *argument).collect::<Vec<_>>());
        let fitting = |pieces: &&Rc<Vec<Excerpt>>| self.wanted_for(request, pieces, &operands).is_some();
        if let Some(pieces) = self.divisions.borrow().get(&key).and_then(|all| all.iter().find(fitting)) {
            return Some(pieces.clone());
        }
        let hopeless = (id, operands.clone());
        let is_full = self.divisions.borrow().get(&key).is_some_and(|all| all.len() >= MOST_DIVISIONS);
        if is_full || self.undivided.borrow().contains(&hopeless) {
            return None;
        }
        let Some((pieces, wanted)) = self.divided(request, &operands) else {
            self.note_undivided(hopeless);
            return None;
        };
        if !wanted.is_empty() && self.settings.engine.compiles() {
            // An error is reported to each piece that needs a kernel.
            let _ = self.make(&wanted);
        }
        self.divisions.borrow_mut().entry(key).or_default().push(pieces.clone());
        Some(pieces)
    }

    /// New pieces of a group, and the kernels that they lack.
    fn divided(&self, request: &Request<'_>, operands: &[Known]) -> Option<(Rc<Vec<Excerpt>>, Vec<Wanted>)> {
        let fits = |section: &Graph, operands: &[Known]| results_of(section, operands, request.release);
        let pieces = divide(request.section, operands, &fits)?;
        let wanted = self.wanted_for(request, &pieces, operands)?;
        Some((Rc::new(pieces), self.new_ones(wanted)))
    }

    fn note_undivided(&self, hopeless: (u64, Vec<Known>)) {
        let mut undivided = self.undivided.borrow_mut();
        if undivided.len() >= MOST_SIZES {
            undivided.clear();
        }
        undivided.insert(hopeless);
    }

    /// The kernels of pieces, if they can run on the operands of a group.
    fn wanted_for(&self, request: &Request<'_>, pieces: &[Excerpt], operands: &[Known]) -> Option<Vec<Wanted>> {
        let section = request.section;
        let mut values: FxHashMap<Value, Known> =
            section.params(section.root()).zip(operands.iter().cloned()).collect();
        let mut wanted = Vec::with_capacity(pieces.len());
        for piece in pieces {
            let known: Vec<Known> = piece.operands.iter().map(|value| values[value].clone()).collect();
            let (kernel, geometry) = self.settled_for(&piece.section, request.name, &known, request.release).ok()?;
            values.extend(piece.results.iter().copied().zip(results(&kernel, &geometry, &known)));
            wanted.push(Wanted::new(&kernel, &geometry.traversal, self.target()).ok()?);
        }
        Some(wanted)
    }
}

/// The results of a section on its operands, if one kernel can run it.
fn results_of(section: &Graph, operands: &[Known], release: (u32, u32)) -> Option<Vec<Known>> {
    let (arguments, views): (Vec<Argument>, Vec<Option<View>>) = operands.iter().cloned().unzip();
    let kernel = lower(section, NAME, &arguments, release).ok()?;
    let geometry = settle(&kernel, &views).ok()?;
    Some(results(&kernel, &geometry, operands))
}

/// The results of a launch, computed or forwarded.
fn results(kernel: &Kernel, geometry: &Geometry, operands: &[Known]) -> Vec<Known> {
    let known = |outcome: &Outcome| {
        let tensor = match *outcome {
            Outcome::Made(tensor) => tensor,
            Outcome::Operand(operand) => return operands[operand].clone(),
        };
        let (shape, strides) = geometry.made[tensor].clone();
        let argument = Argument::Tensor { dtype: kernel.made[tensor].dtype, dimensioned: !shape.is_empty() };
        (argument, Some(View { shape, strides, offset: 0 }))
    };
    kernel.results.iter().map(known).collect()
}
