//! Runs pipelines and calls observers.

use super::context::{PassContext, Session};
use super::fitness;
use super::pipeline::{Pipeline, Side, Stage, Step};
use super::run_error::RunError;
use crate::ir::{Graph, Node};
use crate::symbol::{attr, prim};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::{Duration, Instant};

/// One run of one pass, as observers see it.
#[derive(Debug)]
pub struct PassRun<'a> {
    /// The pass and its options.
    pub stage: &'a Stage,
    /// The number of passes that ran before it, skipped ones included.
    pub index: usize,
    /// Whether the graph was edited; before the run, false.
    pub changed: bool,
    /// The duration; before the run, zero.
    pub time: Duration,
}

/// Called with the graph around every pass: printers, the verifier, timers.
pub trait Observer {
    /// Before a pass runs.
    fn before(&mut self, _run: &PassRun<'_>, _graph: &Graph) -> Result<(), RunError> {
        Ok(())
    }
    /// Whether it also observes graphs of differentiable subgraphs, where passes run over those.
    /// Otherwise it sees the outer graph, before and after all of it, under the names of the first
    /// and the last pass.
    fn goes_inside(&self) -> bool {
        false
    }
    /// After a pass ran.
    fn after(&mut self, _run: &PassRun<'_>, _graph: &Graph) -> Result<(), RunError> {
        Ok(())
    }
}

/// Runs a pipeline over a graph, if passes can run over it.
///
/// # Errors
/// An error of a pass or an observer; a graph that is broken, or that a pass cannot handle.
pub fn run(
    graph: &mut Graph,
    pipeline: &Pipeline,
    session: &mut Session,
    observers: &mut [&mut dyn Observer],
) -> Result<(), RunError> {
    if pipeline.stages().is_empty() {
        return Ok(());
    }
    session.doubts = fitness::doubts(graph, pipeline, &session.callees)?;
    session.size_at_first = fitness::size(graph);
    let mut index = 0;
    run_steps(graph, pipeline, session, observers, &mut index)
}

fn run_steps(
    graph: &mut Graph,
    pipeline: &Pipeline,
    session: &mut Session,
    observers: &mut [&mut dyn Observer],
    index: &mut usize,
) -> Result<(), RunError> {
    for step in &pipeline.steps {
        match step {
            Step::Pass(stage) => {
                let before = graph.epoch();
                run_pass(graph, stage, session, observers, index)?;
                if session.rounds > 0 && graph.epoch() != before {
                    refuse_growth(graph, fitness::WITHIN_A_ROUND * fitness::most_nodes(session.size_at_first))?;
                }
            }
            Step::Named(_, inner) => run_steps(graph, inner, session, observers, index)?,
            Step::Inside(side, inner) => run_inside(graph, *side, inner, session, observers, index)?,
            Step::Fixpoint(inner, max) => {
                for _ in 0..*max {
                    let before = graph.epoch();
                    session.rounds += 1;
                    let ended = run_steps(graph, inner, session, observers, index);
                    session.rounds -= 1;
                    ended?;
                    if graph.epoch() == before {
                        break;
                    }
                    refuse_growth(graph, fitness::most_nodes(session.size_at_first))?;
                }
            }
        }
    }
    Ok(())
}

fn refuse_growth(graph: &Graph, most: usize) -> Result<(), RunError> {
    let nodes = fitness::size(graph);
    if nodes > most { Err(RunError::Exploded { nodes, most }) } else { Ok(()) }
}

/// Runs a pipeline over one of the graphs of each differentiable subgraph.
fn run_inside(
    graph: &mut Graph,
    side: Side,
    inner: &Pipeline,
    session: &mut Session,
    observers: &mut [&mut dyn Observer],
    index: &mut usize,
) -> Result<(), RunError> {
    let stages = inner.stages();
    let (Some(first), Some(last)) = (stages.first(), stages.last()) else { return Ok(()) };
    let run = PassRun { stage: first, index: *index, changed: false, time: Duration::ZERO };
    for observer in observers.iter_mut().filter(|observer| !observer.goes_inside()) {
        observer.before(&run, graph)?;
    }
    let (before, start) = (graph.epoch(), Instant::now());
    let around = std::mem::replace(&mut session.is_inside, true);
    let groups: Vec<Node> = graph.all_nodes().filter(|&node| graph.kind(node) == prim::DIFFERENTIABLE_GRAPH).collect();
    let name = if side == Side::Forward { attr::SUBGRAPH } else { attr::REVERSE_SUBGRAPH };
    let mut ended = Ok(());
    session.stats.entry(format!("{}.graphs", side.name())).or_default();
    for group in groups {
        let mut inside: Vec<&mut dyn Observer> = Vec::new();
        for observer in observers.iter_mut().filter(|observer| observer.goes_inside()) {
            inside.push(&mut **observer);
        }
        let entered = graph.with_graph(group, name, |section| run_steps(section, inner, session, &mut inside, index));
        *session.stats.entry(format!("{}.graphs", side.name())).or_default() += u64::from(entered.is_some());
        ended = entered.unwrap_or(Ok(()));
        if ended.is_err() {
            break;
        }
    }
    session.is_inside = around;
    ended?;
    let changed = graph.epoch() != before;
    let run = PassRun { stage: last, index: index.saturating_sub(1), changed, time: start.elapsed() };
    for observer in observers.iter_mut().filter(|observer| !observer.goes_inside()) {
        observer.after(&run, graph)?;
    }
    Ok(())
}

/// Runs the function of a pass. A panic over a graph with verifier warnings is a refusal of that
/// graph.
fn attempt(graph: &mut Graph, stage: &Stage, session: &mut Session) -> Result<(), RunError> {
    let pass = stage.pass.name;
    let work = || {
        let mut cx = PassContext::new(stage, session, graph);
        let result = (stage.pass.run)(graph, &mut cx);
        cx.finish(graph);
        result.map_err(|error| RunError::Pass { pass, error })
    };
    // The graph is not used any more after a failure: all callers discard it.
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|payload| match session.doubts.is_empty() {
        true => resume_unwind(payload),
        false => Err(RunError::Unfit { pass: Some(pass), report: session.doubts.concat() }),
    })
}

fn run_pass(
    graph: &mut Graph,
    stage: &Stage,
    session: &mut Session,
    observers: &mut [&mut dyn Observer],
    index: &mut usize,
) -> Result<(), RunError> {
    let pass = stage.pass;
    let mut run = PassRun { stage, index: *index, changed: false, time: Duration::ZERO };
    *index += 1;
    if session.is_late() {
        return Err(RunError::Late);
    }
    if !pass.required && session.gate.disabled.iter().any(|name| pass.is_called(name)) {
        return Ok(());
    }
    for observer in observers.iter_mut() {
        observer.before(&run, graph)?;
    }
    let (before, start) = (graph.epoch(), Instant::now());
    let result = attempt(graph, stage, session);
    if session.is_late() && !matches!(result, Err(RunError::Unfit { .. })) {
        return Err(RunError::Late);
    }
    result?;
    run.time = start.elapsed();
    run.changed = graph.epoch() != before;
    if !session.ran.contains(&pass.name) {
        session.ran.push(pass.name);
    }
    if run.changed && !session.is_inside {
        session.changed_by.push(stage.to_string());
    }
    if let Some(objection) = session.objection.take() {
        return Err(RunError::Stopped(objection));
    }
    for observer in observers.iter_mut() {
        observer.after(&run, graph).map_err(|error| blamed(error, session))?;
    }
    Ok(())
}

/// A graph that is broken after a pass is our bug, unless the verifier warned about the input of
/// the pass.
fn blamed(error: RunError, session: &Session) -> RunError {
    match error {
        RunError::Broken { pass, .. } if !session.doubts.is_empty() => {
            RunError::Unfit { pass: Some(pass), report: session.doubts.concat() }
        }
        error => error,
    }
}
