//! Decides which plans are legal: those under which a kernel computes the same results, up to the
//! order in which floats are summed.

use super::{Plan, has_room, may_be_streamed, name_of_aim, reads_once};
use crate::codegen::kernel::{Direction, Kernel, Source, Traversal};
use crate::codegen::loop_structure::{Aim, Loops};

/// Tiles are whole cache lines.
const LINE: usize = 64;
/// The largest tile, block or part: buffers are on the stack, and sums of floats lose digits.
const MOST: usize = 4096;
/// Most rows that a loop reduces at once: it is unrolled.
const MOST_TOGETHER: usize = 16;

/// Whether a plan is legal for a kernel.
///
/// # Errors
/// The loop, and the value in it, that forbid the plan.
pub fn check(kernel: &Kernel, traversal: &Traversal, plan: &Plan) -> Result<(), String> {
    let given = (plan.direction, traversal.direction);
    if given.0 != given.1 && !(given.0.has_single_rows() && given.1.has_single_rows()) {
        return Err(format!("the plan is for direction {}, and operands have {}", given.0.name(), given.1.name()));
    }
    sizes(plan)?;
    shared(kernel, traversal, plan)?;
    kept(kernel, traversal, plan)?;
    for &store in &plan.streamed {
        // A result with non-temporal stores is computed in a buffer of one tile, not in its memory.
        if let Some((&step, _)) = plan.kept.iter().find(|&(_, &taken)| taken == store) {
            return Err(format!("stream out{store}: {} is kept there", &kernel.steps[step].name[2..]));
        }
        if !may_be_streamed(kernel, traversal, store) {
            return Err(format!("stream out{store}: its elements are not contiguous, or it has one element per row"));
        }
    }
    let loops = Loops::new(kernel, traversal, plan);
    apart(&loops)?;
    (0..loops.phases).try_for_each(|number| phase(&loops, number))
}

fn sizes(plan: &Plan) -> Result<(), String> {
    let lines = |what: &str, n: usize| match (LINE..=MOST).contains(&n) && n.is_multiple_of(LINE) {
        true => Ok(()),
        false => Err(format!("{what} {n}: it must be a multiple of {LINE} from {LINE} to {MOST}")),
    };
    lines("tile", plan.tile)?;
    lines("part", plan.part)?;
    match plan.side {
        1..=MOST => Ok(()),
        side => Err(format!("side {side}: it must be from 1 to {MOST}")),
    }
}

/// Shared values must be the same in all rows, and so must all that other steps read of them be.
fn shared(kernel: &Kernel, traversal: &Traversal, plan: &Plan) -> Result<(), String> {
    let may_be = match traversal.direction {
        Direction::Points => kernel.columns_of(&traversal.invariant).all,
        _ => Default::default(),
    };
    let name = |i: usize| &kernel.steps[i].name[2..];
    if let Some(&i) = plan.shared.iter().find(|i| !may_be.contains(i)) {
        return Err(format!("share {}: this value is not the same in all rows", name(i)));
    }
    let columns = plan.columns(kernel);
    let is_lost = |source: Source| match source {
        Source::Step(i) => (columns.all.contains(&i) && !columns.kept.contains(&i)).then_some(i),
        _ => None,
    };
    for (reader, step) in kernel.steps.iter().enumerate().filter(|(i, _)| !columns.all.contains(i)) {
        if let Some(i) = step.inputs.iter().find_map(|input| is_lost(input.source)) {
            return Err(format!("share: {} is read by {} for each row, and not shared", name(i), name(reader)));
        }
    }
    match kernel.stores.iter().find_map(|store| is_lost(store.source)) {
        Some(i) => Err(format!("share: {} is a result, and not shared", name(i))),
        None => Ok(()),
    }
}

/// A value kept in the memory of a result must fit there, and be read before the result is written.
fn kept(kernel: &Kernel, traversal: &Traversal, plan: &Plan) -> Result<(), String> {
    let without = Plan { kept: Default::default(), ..plan.clone() };
    let loops = Loops::new(kernel, traversal, &without);
    for (&step, &store) in &plan.kept {
        let why = |why: &str| Err(format!("keep {} in out{store}: {why}", &kernel.steps[step].name[2..]));
        let own = kernel.phase(Source::Step(step));
        let needs = |phase: &usize| loops.steps(*phase, &loops.aims(*phase)).contains(&step);
        let Some(last) = (own + 1..loops.phases).rev().find(needs) else {
            return why("no later phase reads it");
        };
        if plan.kept.iter().any(|(&other, &taken)| other != step && taken == store) {
            return why("another value is kept there");
        }
        if !has_room(kernel, traversal, (step, store), last) {
            return why("it has another type or size, or is written before");
        }
        let is_later = kernel.phase(kernel.stores[store].source) > last;
        if !is_later && !reads_once(kernel, traversal, plan, last) {
            return why(&format!("the loops of phase {last} write there before all of them have read it"));
        }
    }
    Ok(())
}

fn apart(loops: &Loops<'_>) -> Result<(), String> {
    for &aim in &loops.plan.apart {
        let accumulates = match aim {
            Aim::Reduce(k) => !loops.kernel.reductions[k].op.picks() && !loops.sums_floats(k),
            Aim::Store(k) => loops.kernel.stores[k].column_reduction.is_some(),
            _ => false,
        };
        if !accumulates {
            return Err(format!("apart {}: it is not a sum in doubles", &name_of_aim(loops.kernel, aim)[2..]));
        }
    }
    Ok(())
}

fn phase(loops: &Loops<'_>, number: usize) -> Result<(), String> {
    let (phase, is_outer) = (loops.plan.phase(number), loops.is_outer());
    for (what, n) in [("block", phase.block), ("first", phase.first), ("scan-block", phase.scan_block)] {
        if !(1..=MOST).contains(&n) {
            return Err(format!("phase {number}: {what} {n}: it must be from 1 to {MOST}"));
        }
    }
    if phase.first > phase.block {
        return Err(format!(
            "phase {number}: the first block has {} elements, and others {}",
            phase.first, phase.block
        ));
    }
    let planned = loops.planned(number, &loops.aims(number));
    for (what, rows, aims) in [("together", phase.together, &planned.aims), ("again", phase.again, &planned.squares)] {
        let why = match rows {
            1 => continue,
            2..=MOST_TOGETHER if is_outer => loops.keeps_rows_apart(number, aims),
            2..=MOST_TOGETHER => Some("rows are not interleaved"),
            _ => return Err(format!("phase {number}: {what} {rows}: it must be from 1 to {MOST_TOGETHER}")),
        };
        if let Some(why) = why {
            let value =
                aims.first().map_or(String::new(), |&aim| format!(" of {}", &name_of_aim(loops.kernel, aim)[2..]));
            return Err(format!("phase {number}: {what} {rows}: the loop{value}: {why}"));
        }
    }
    Ok(())
}
