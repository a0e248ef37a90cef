//! Executes blocks one after the other, and the threads of a block each until it ends or waits: at
//! a barrier for the others of its block, at a shuffle for those of its warp.
//!
//! Instructions are counted, so that a launch that does not end is an error.

use super::address_spaces::{Memory, Region, UNWRITTEN};
use super::bits::Type;
use super::instructions::{Action, Address, Entry, Instruction, Shuffle, Space, Special, Way};

/// The threads of a warp.
const WARP: usize = 32;

/// A launch of an entry.
#[derive(Clone, Copy, Debug)]
pub struct Launch<'a> {
    /// The bytes of its parameters.
    pub parameters: &'a [u8],
    /// Blocks, and the threads of each.
    pub blocks: u32,
    /// See `blocks`.
    pub threads: u32,
    /// Determines the order of blocks and threads; that of their numbers if it is 0.
    pub seed: u32,
}

/// An error in a launch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The line of the instruction, and that of the source that it is made of, 0 if it is unknown.
    pub line: u32,
    /// See `line`.
    pub origin: u32,
    /// The block and the thread of the error.
    pub block: u32,
    /// See `block`.
    pub thread: u32,
    /// The error, as the end of a sentence about the thread.
    pub why: String,
}

/// The next step of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Runs,
    /// It waits at the instruction that it is at.
    AtBarrier,
    InWarp,
    Done,
}

/// The block that runs.
struct Block<'a> {
    entry: &'a Entry,
    launch: Launch<'a>,
    memory: Memory<'a>,
    /// The slots of all threads.
    slots: Vec<u64>,
    states: Vec<State>,
    /// The instruction that each is at.
    at: Vec<usize>,
    steps: u64,
    most_steps: u64,
    number: u32,
}

/// Runs a launch. Returns how many instructions that took.
pub(super) fn run(
    entry: &Entry,
    (variables, most_steps): (&[u8], u64),
    launch: Launch<'_>,
    regions: &[Region<'_>],
) -> Result<u64, Fault> {
    let threads = launch.threads as usize;
    let memory = Memory {
        regions,
        variables,
        parameters: launch.parameters,
        arrays: &entry.arrays,
        shared: Vec::new(),
        local: vec![0; entry.local as usize * threads],
        of_thread: entry.local as usize,
    };
    let (states, at) = (vec![State::Runs; threads], vec![0; threads]);
    let slots = vec![0; entry.slots.len() * threads];
    let mut block = Block { entry, launch, memory, slots, states, at, steps: 0, most_steps, number: 0 };
    for number in order(launch.blocks, launch.seed) {
        block.begin(number);
        block.run()?;
    }
    Ok(block.steps)
}

/// Numbers in their order, or in one that a seed determines.
fn order(count: u32, seed: u32) -> impl Iterator<Item = u32> {
    let count = u64::from(count);
    let has_no_divisor = |step: &u64| (2..=*step).all(|by| !step.is_multiple_of(by) || !count.is_multiple_of(by));
    let (first, step) = match seed {
        0 => (0, 1),
        seed => {
            let from = u64::from(seed) * 7919 % count.max(1);
            (from, (from + 2..).find(has_no_divisor).unwrap_or(1))
        }
    };
    (0..count).map(move |i| ((first + i * step) % count) as u32)
}

impl Block<'_> {
    /// Sets the state of all threads back, and their numbers.
    fn begin(&mut self, number: u32) {
        self.number = number;
        self.states.fill(State::Runs);
        self.at.fill(0);
        self.memory.shared.clear();
        self.memory.shared.resize(self.entry.shared as usize, UNWRITTEN);
        let size = self.entry.slots.len().max(1);
        for (thread, slots) in self.slots.chunks_mut(size).enumerate() {
            slots.copy_from_slice(&self.entry.slots);
            for &(slot, special) in &self.entry.specials {
                slots[slot as usize] = match special {
                    Special::Thread => thread as u64,
                    Special::Threads => u64::from(self.launch.threads),
                    Special::Block => u64::from(number),
                    Special::Blocks => u64::from(self.launch.blocks),
                    Special::Lane => (thread % WARP) as u64,
                };
            }
        }
    }

    fn run(&mut self) -> Result<(), Fault> {
        loop {
            for thread in order(self.launch.threads, self.launch.seed) {
                if self.states[thread as usize] == State::Runs {
                    self.run_thread(thread as usize)?;
                }
            }
            if self.states.iter().all(|&state| state == State::Done) {
                return Ok(());
            }
            if self.states.contains(&State::InWarp) {
                for warp in 0..self.states.len().div_ceil(WARP) {
                    self.meet(warp * WARP)?;
                }
            } else {
                self.pass_barrier()?;
            }
        }
    }

    fn fault(&self, thread: usize, why: String) -> Fault {
        let Instruction { line, origin, .. } = self.entry.code[self.at[thread]];
        Fault { line, origin, block: self.number, thread: thread as u32, why }
    }

    /// Runs a thread until it waits or ends.
    fn run_thread(&mut self, thread: usize) -> Result<(), Fault> {
        let (entry, count) = (self.entry, self.entry.slots.len());
        let mut at = self.at[thread];
        loop {
            let Instruction { guard, action, .. } = &entry.code[at];
            self.steps += 1;
            let slots = &mut self.slots[thread * count..][..count];
            let is_executed = guard.is_none_or(|(slot, value)| slots[slot as usize] & 1 == value);
            let done = match action {
                _ if !is_executed => Ok(()),
                Action::Load(space, ty, to, address) => load(&self.memory, thread, slots, (*space, *ty, to, *address)),
                Action::Store(space, ty, from, address) => {
                    store(&mut self.memory, thread, slots, (*space, *ty, from, *address))
                }
                // A thread that does not end passes here again and again.
                Action::Jump(_) if self.steps > self.most_steps => {
                    Err(format!("has not ended after {} instructions of all threads", self.most_steps))
                }
                Action::Jump(to) => {
                    at = *to;
                    continue;
                }
                Action::Barrier | Action::Shuffle(_) | Action::Meet(_) | Action::Leave => {
                    self.at[thread] = at;
                    self.states[thread] = state_at(action);
                    return Ok(());
                }
                arithmetic => {
                    compute(arithmetic, slots);
                    Ok(())
                }
            };
            if let Err(why) = done {
                self.at[thread] = at;
                return Err(self.fault(thread, why));
            }
            at += 1;
        }
    }

    /// Lets all threads pass the barrier at which they wait, if it is the same one.
    fn pass_barrier(&mut self) -> Result<(), Fault> {
        let waits = |thread: &usize| self.states[*thread] == State::AtBarrier;
        let first = (0..self.states.len()).find(waits).unwrap_or(0);
        let elsewhere = |thread: &usize| !waits(thread) || self.at[*thread] != self.at[first];
        if let Some(other) = (0..self.states.len()).find(elsewhere) {
            let why = match self.states[other] {
                State::Done => format!("waits at a barrier, and thread {other} has ended"),
                _ => {
                    let line = self.entry.code[self.at[other]].line;
                    format!("waits at a barrier, and thread {other} at another one, of PTX line {line}")
                }
            };
            return Err(self.fault(first, why));
        }
        self.states.fill(State::Runs);
        self.at.iter_mut().for_each(|at| *at += 1);
        Ok(())
    }

    /// Lets the lanes of a warp pass the instruction at which they meet.
    fn meet(&mut self, first: usize) -> Result<(), Fault> {
        let lanes = first..(first + WARP).min(self.states.len());
        let waits = |thread: &usize| self.states[*thread] == State::InWarp;
        let Some(one) = lanes.clone().find(waits) else { return Ok(()) };
        let (entry, at, count) = (self.entry, self.at[one], self.entry.slots.len());
        let members = match &entry.code[at].action {
            Action::Shuffle(shuffle) => shuffle.members,
            Action::Meet(members) => *members,
            _ => return Ok(()),
        };
        let members = self.slots[one * count + members as usize];
        let is_member = |thread: &usize| members >> (thread - first) & 1 == 1;
        if let Some(missing) = lanes.clone().filter(is_member).find(|thread| !waits(thread) || self.at[*thread] != at) {
            return Err(self.fault(one, format!("waits for thread {missing} of its warp, which is elsewhere")));
        }
        let met: Vec<usize> = lanes.filter(is_member).collect();
        if !met.contains(&one) {
            return Err(self.fault(one, "is no lane of the mask that it gives".to_owned()));
        }
        if let Action::Shuffle(shuffle) = &entry.code[at].action {
            self.shuffle(shuffle, first, &met)?;
        }
        for thread in met {
            self.states[thread] = State::Runs;
            self.at[thread] += 1;
        }
        Ok(())
    }

    fn shuffle(&mut self, shuffle: &Shuffle, first: usize, lanes: &[usize]) -> Result<(), Fault> {
        let count = self.entry.slots.len();
        let slot = |block: &Self, thread: usize, slot: u32| block.slots[thread * count + slot as usize];
        let before: Vec<(usize, u64)> = lanes.iter().map(|&one| (one, slot(self, one, shuffle.from))).collect();
        for &thread in lanes {
            let (by, limits) = (slot(self, thread, shuffle.by) as usize, slot(self, thread, shuffle.limits) as usize);
            let (source, is_within) = source_lane(shuffle.way, thread - first, by & 31, limits);
            let Some((_, value)) = before.iter().find(|(lane, _)| *lane == first + source) else {
                return Err(self.fault(thread, format!("reads lane {source}, which is not there")));
            };
            self.slots[thread * count + shuffle.to as usize] = value & 0xffff_ffff;
            if let Some(predicate) = shuffle.predicate {
                self.slots[thread * count + predicate as usize] = u64::from(is_within);
            }
        }
        Ok(())
    }
}

/// The state of a thread at an instruction that it does not pass alone.
fn state_at(action: &Action) -> State {
    match action {
        Action::Leave => State::Done,
        Action::Barrier => State::AtBarrier,
        _ => State::InWarp,
    }
}

/// Executes an instruction that reads and writes slots alone.
fn compute(action: &Action, slots: &mut [u64]) {
    let of = |slot: &u32| slots[*slot as usize];
    let (to, value) = match action {
        Action::One(function, [to, a]) => (to, function(of(a))),
        Action::Two(function, [to, a, b]) => (to, function(of(a), of(b))),
        Action::Three(function, [to, a, b, c]) => (to, function(of(a), of(b), of(c))),
        Action::Four(function, [to, a, b, c, d]) => (to, function(of(a), of(b), of(c), of(d))),
        Action::Convert(conversion, [to, a]) => (to, conversion.of(of(a))),
        Action::Join(to, from, bits) => (to, joined(slots, from, *bits)),
        Action::Split(to, from, bits) => return split(slots, to, *from, *bits),
        // The others are executed where threads are.
        _ => return,
    };
    slots[*to as usize] = value;
}

/// The lane whose value a lane gets, its own where the way leads out of its segment, and whether it
/// does not. Limits are the last lane of a segment, and from bit 8 on the bits that all lanes of a
/// segment share.
fn source_lane(way: Way, lane: usize, by: usize, limits: usize) -> (usize, bool) {
    let (clamp, segment) = (limits & 31, limits >> 8 & 31);
    let (least, most) = (lane & segment, lane & segment | clamp & !segment);
    let (source, is_within) = match way {
        Way::Up => (lane.wrapping_sub(by), lane >= by && lane - by >= most),
        Way::Down => (lane + by, lane + by <= most),
        Way::Across => (lane ^ by, lane ^ by <= most),
        Way::To => (least | by & !segment, least | by & !segment <= most),
    };
    (if is_within { source } else { lane }, is_within)
}

fn split(slots: &mut [u64], to: &[u32], from: u32, bits: u32) {
    let value = slots[from as usize];
    for (&to, at) in to.iter().zip(0..) {
        slots[to as usize] = value >> (at * bits) & (u64::MAX >> (64 - bits));
    }
}

fn joined(slots: &[u64], from: &[u32], bits: u32) -> u64 {
    from.iter().rev().fold(0, |all, &from| all << bits | slots[from as usize] & (u64::MAX >> (64 - bits)))
}

/// The address of an access, if its size divides it.
fn aligned(slots: &[u64], Address { base, offset }: Address, bytes: usize) -> Result<u64, String> {
    let address = slots[base as usize].wrapping_add_signed(offset);
    match address.is_multiple_of(bytes as u64) {
        true => Ok(address),
        false => Err(format!("is at an address that its size does not divide ({address:#x})")),
    }
}

fn load(
    memory: &Memory<'_>,
    thread: usize,
    slots: &mut [u64],
    (space, ty, to, address): (Space, Type, &[u32], Address),
) -> Result<(), String> {
    let size = ty.size();
    let address = aligned(slots, address, size * to.len())?;
    for (&to, at) in to.iter().zip(0..) {
        slots[to as usize] = ty.widened(memory.read(space, address.wrapping_add(at * size as u64), size, thread)?);
    }
    Ok(())
}

fn store(
    memory: &mut Memory<'_>,
    thread: usize,
    slots: &[u64],
    (space, ty, from, address): (Space, Type, &[u32], Address),
) -> Result<(), String> {
    let size = ty.size();
    let address = aligned(slots, address, size * from.len())?;
    for (&from, at) in from.iter().zip(0..) {
        memory.write((space, address.wrapping_add(at * size as u64)), size, thread, slots[from as usize])?;
    }
    Ok(())
}
