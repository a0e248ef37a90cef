//! Plans for processors: what begins a loop of its own, what is kept, shared and streamed, and the
//! sizes of tiles and blocks.
//!
//! Variables that decide which loops there are come first, sizes after them. The bound of a state
//! whose loops are settled is the time of its nest with sizes that are open, or the largest blocks.
//! Each choice that has been made is checked against those before it with what comes later left
//! out: a later choice takes back no condition of an earlier one.

use super::{Space, Variable, estimate};
use crate::codegen::cost_model::{Model, Open};
use crate::codegen::kernel::Direction;
use crate::codegen::kernel_plan::{Ahead, Plan};
use crate::codegen::loop_structure::Aim;
use crate::codegen::target::Target;

/// A move: what is chosen, with its options.
#[derive(Clone, Debug)]
enum Move {
    /// Whether a step begins a loop of its own.
    Alone(usize),
    /// In the memory of which result a step is kept, if anywhere.
    Keep(usize, Vec<Option<usize>>),
    /// Whether rows share what is the same in all of them.
    Share,
    /// Which reductions are summed in a loop after all others.
    Apart(Vec<Vec<Aim>>),
    /// Whether a result is written with non-temporal stores.
    Stream(usize),
    /// Points of a tile, or interleaved rows.
    Tile(Vec<usize>),
    /// Interleaved rows of a part.
    Part(Vec<usize>),
    /// Rows of a side.
    Side(Vec<usize>),
    /// Elements of a block of a phase.
    Block(usize, Vec<usize>),
    /// Interleaved rows that a phase reduces at once.
    Together(usize, Vec<usize>),
    /// The operands that a phase prefetches.
    Ahead(usize, Vec<Ahead>),
}

/// Most expensive steps that each have a variable; of more, all begin a loop or none does.
const MOST_STEPS: usize = 5;
/// Most results that each have a variable.
const MOST_STORES: usize = 3;

/// The space of choices.
pub(super) struct Choices<'k> {
    model: Model<'k>,
    target: &'k Target,
    /// The plan without choices.
    base: Plan,
    chosen: Plan,
    moves: Vec<Move>,
    /// How many of them decide which loops there are.
    of_loops: usize,
    variables: Vec<Variable>,
}

impl<'k> Choices<'k> {
    pub(super) fn new(model: Model<'k>, target: &'k Target, chosen: &Plan) -> Choices<'k> {
        let base = without_choices(chosen);
        let mut space = Choices {
            model,
            target,
            base,
            chosen: chosen.clone(),
            moves: Vec::new(),
            of_loops: 0,
            variables: Vec::new(),
        };
        let mut moves = space.moves_of_loops();
        space.of_loops = moves.len();
        moves.extend(space.moves_of_sizes());
        space.variables = moves.iter().map(|one| variable(one, &model)).collect();
        space.moves = moves;
        space
    }

    fn moves_of_loops(&self) -> Vec<Move> {
        let (kernel, traversal) = (self.model.kernel, self.model.traversal);
        let expensive = (0..kernel.steps.len()).filter(|&i| kernel.steps[i].formula.is_expensive);
        let expensive: Vec<usize> = expensive.take(MOST_STEPS).collect();
        let mut moves: Vec<Move> = expensive.iter().map(|&step| Move::Alone(step)).collect();
        for &step in &expensive {
            let is_legal = |&store: &usize| self.is_legal(|plan| plan.kept.extend([(step, store)]));
            let stores: Vec<usize> = (0..kernel.stores.len()).filter(is_legal).collect();
            if !stores.is_empty() {
                moves.push(Move::Keep(step, std::iter::once(None).chain(stores.into_iter().map(Some)).collect()));
            }
        }
        if traversal.direction == Direction::Points && !kernel.columns(&traversal.invariant).kept.is_empty() {
            moves.push(Move::Share);
        }
        if !self.chosen.apart.is_empty() {
            moves.push(Move::Apart(vec![Vec::new(), self.chosen.apart.clone()]));
        }
        let streams = (0..kernel.stores.len()).filter(|&store| self.is_legal(|plan| plan.streamed.extend([store])));
        moves.extend(streams.take(MOST_STORES).map(Move::Stream));
        moves
    }

    fn moves_of_sizes(&self) -> Vec<Move> {
        let direction = self.model.traversal.direction;
        let mut moves = Vec::new();
        match direction {
            Direction::Points => moves.push(Move::Tile(vec![256, 512, 1024, 4096])),
            Direction::Outer => {
                moves.push(Move::Tile(vec![256, 1024, 4096]));
                moves.push(Move::Part(vec![256, 1024]));
            }
            Direction::Strided => moves.push(Move::Side(vec![16, 64, 256])),
            Direction::Inner | Direction::Split => {}
        }
        for phase in 0..self.base.phases.len() {
            match direction {
                Direction::Points => moves.push(Move::Ahead(phase, vec![Ahead::Nothing, Ahead::Elements(512)])),
                Direction::Outer => {
                    moves.push(Move::Block(phase, vec![16, 64]));
                    let several = |plan: &mut Plan| plan.phases[phase].together = 8;
                    if self.is_legal(several) {
                        moves.push(Move::Together(phase, vec![1, 8]));
                    }
                }
                _ => {
                    moves.push(Move::Block(phase, vec![64, 256, 1024, 4096]));
                    let next = [Ahead::Nothing, Ahead::Elements(1024), Ahead::NextRow(1 << 17)];
                    moves.push(Move::Ahead(phase, next.to_vec()));
                }
            }
        }
        moves
    }

    /// Whether a change of the plan without choices is legal.
    fn is_legal(&self, change: impl FnOnce(&mut Plan)) -> bool {
        let mut plan = self.base.clone();
        change(&mut plan);
        self.check(&plan).is_ok()
    }

    fn check(&self, plan: &Plan) -> Result<(), String> {
        (self.target.check)(self.model.kernel, self.model.traversal, plan)
    }

    /// The plan with options for the first variables, and no choice for others.
    fn partial(&self, options: &[usize]) -> Plan {
        let mut plan = self.base.clone();
        for (one, &option) in self.moves.iter().zip(options) {
            self.apply(&mut plan, one, option);
        }
        plan
    }

    fn apply(&self, plan: &mut Plan, one: &Move, option: usize) {
        match one {
            Move::Alone(step) if option == 1 => self.begin_loop(plan, *step),
            Move::Share if option == 1 => {
                plan.shared = self.model.kernel.columns(&self.model.traversal.invariant).kept;
            }
            Move::Stream(store) if option == 1 => plan.streamed.extend([*store]),
            Move::Alone(_) | Move::Share | Move::Stream(_) => {}
            Move::Keep(step, stores) => {
                if let Some(store) = stores[option] {
                    plan.kept.insert(*step, store);
                }
            }
            Move::Apart(aims) => plan.apart.clone_from(&aims[option]),
            Move::Tile(sizes) => plan.tile = sizes[option],
            Move::Part(sizes) => plan.part = sizes[option],
            Move::Side(sizes) => plan.side = sizes[option],
            Move::Block(phase, sizes) => {
                let (phase, size) = (&mut plan.phases[*phase], sizes[option]);
                // A shorter first block is for variances that need a second look; it stays.
                (phase.block, phase.scan_block, phase.first) = (size, size, phase.first.min(size));
            }
            Move::Together(phase, rows) => plan.phases[*phase].together = rows[option],
            Move::Ahead(phase, ahead) => plan.phases[*phase].ahead = ahead[option],
        }
    }

    /// Lets a step begin a loop; the last one of those that have variables, with all after it.
    fn begin_loop(&self, plan: &mut Plan, step: usize) {
        let steps = &self.model.kernel.steps;
        let is_expensive = |i: &usize| steps[*i].formula.is_expensive;
        plan.alone.insert(step);
        if (0..=step).filter(is_expensive).count() == MOST_STEPS {
            plan.alone.extend((step..steps.len()).filter(is_expensive));
        }
    }
}

/// A plan without those choices that the space has.
fn without_choices(chosen: &Plan) -> Plan {
    let mut plan = chosen.clone();
    plan.alone.clear();
    plan.apart.clear();
    plan.kept.clear();
    plan.shared.clear();
    plan.streamed.clear();
    for phase in &mut plan.phases {
        (phase.together, phase.again, phase.ahead) = (1, 1, Ahead::Nothing);
    }
    plan
}

/// The variable of a move.
fn variable(one: &Move, model: &Model<'_>) -> Variable {
    let step = |i: usize| &model.kernel.steps[i].name[2..];
    let numbers = |all: &[usize]| all.iter().map(usize::to_string).collect::<Vec<_>>();
    let switch = || vec!["no".to_owned(), "yes".to_owned()];
    let (name, options) = match one {
        Move::Alone(i) => (format!("alone {}", step(*i)), switch()),
        Move::Keep(i, stores) => {
            let place = |store: &Option<usize>| store.map_or("nowhere".to_owned(), |k| format!("out{k}"));
            (format!("keep {} in", step(*i)), stores.iter().map(place).collect())
        }
        Move::Share => ("share".to_owned(), switch()),
        Move::Apart(_) => ("apart".to_owned(), switch()),
        Move::Stream(k) => (format!("stream out{k}"), switch()),
        Move::Tile(all) => ("tile".to_owned(), numbers(all)),
        Move::Part(all) => ("part".to_owned(), numbers(all)),
        Move::Side(all) => ("side".to_owned(), numbers(all)),
        Move::Block(phase, all) => (format!("phase {phase} block"), numbers(all)),
        Move::Together(phase, all) => (format!("phase {phase} together"), numbers(all)),
        Move::Ahead(phase, all) => {
            let spell = |ahead: &Ahead| match ahead {
                Ahead::Nothing => "nothing".to_owned(),
                Ahead::Elements(n) => n.to_string(),
                Ahead::NextRow(n) => format!("next-rows {n}"),
            };
            (format!("phase {phase} ahead"), all.iter().map(spell).collect())
        }
    };
    Variable { name, options }
}

impl Space for Choices<'_> {
    fn variables(&self) -> &[Variable] {
        &self.variables
    }

    fn consistent(&self, options: &[usize]) -> Result<(), String> {
        self.check(&self.partial(options))
    }

    fn plan(&self, options: &[usize]) -> Option<Plan> {
        Some(self.partial(options))
    }

    fn independent(&self) -> usize {
        self.of_loops
    }

    fn bound(&self, options: &[usize]) -> f64 {
        if options.len() < self.of_loops {
            return self.model.floor();
        }
        let mut plan = self.partial(options);
        let mut open = Open::default();
        for one in &self.moves[options.len()..] {
            match one {
                Move::Tile(_) | Move::Part(_) | Move::Side(_) => (open.tiles, open.buffers) = (true, true),
                Move::Together(..) => open.together = true,
                Move::Ahead(..) => open.ahead = true,
                // Heads, merges and ends of vectors are fewest with the largest blocks.
                Move::Block(phase, sizes) => {
                    open.buffers = true;
                    plan.phases[*phase].block = sizes.last().copied().unwrap_or(1);
                }
                Move::Alone(_) | Move::Keep(..) | Move::Share | Move::Apart(_) | Move::Stream(_) => {}
            }
        }
        estimate(&self.model, &plan, open).map_or(f64::INFINITY, |one| one.time())
    }

    fn time(&self, plan: &Plan) -> Option<f64> {
        estimate(&self.model, plan, Open::default()).map(|one| one.time())
    }
}
