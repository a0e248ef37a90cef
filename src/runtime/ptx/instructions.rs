//! Entries as instructions that can be executed: opcodes are functions, registers and numbers are
//! slots of one array, labels are positions.
//!
//! ```text
//! slots: 0 .. registers, numbers, addresses of variables, %tid.x and the like
//! fma.rn.f32 %f4, %f2, 0f3DCCCCCD, %f1;     Three(fused, [4, 2, 7, 1])
//! ```

use super::bits::Type;
use super::functions::{Function, function};
use super::ptx_conversions::{Conversion, conversion};
use super::ptx_text::{Listed, Listing, Operand, Statement, Variable};
use rustc_hash::FxHashMap;

/// The distance of shared arrays, so that an element after the end of one is in none.
const GAP: u64 = 64;
/// The base of variables outside of entries, which is an address of global memory.
pub(super) const VARIABLES: u64 = 1 << 39;
/// The base of shared memory, and of that of a thread, among generic addresses.
pub(super) const SHARED: u64 = 1 << 38;
pub(super) const LOCAL: u64 = 1 << 37;

/// An entry.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) name: String,
    pub(super) code: Vec<Instruction>,
    /// The slots at the beginning of a thread.
    pub(super) slots: Vec<u64>,
    /// The slots that differ between threads and launches.
    pub(super) specials: Vec<(u32, Special)>,
    /// The bytes of parameters.
    pub(super) parameters: usize,
    /// The addresses of the arrays in shared memory, and its end.
    pub(super) arrays: Vec<(u64, u64)>,
    pub(super) shared: u64,
    /// The bytes of a thread's own memory.
    pub(super) local: u64,
}

/// A register that a launch sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Special {
    Thread,
    Threads,
    Block,
    Blocks,
    Lane,
}

const SPECIALS: [(&str, Special); 5] = [
    ("%tid.x", Special::Thread),
    ("%ntid.x", Special::Threads),
    ("%ctaid.x", Special::Block),
    ("%nctaid.x", Special::Blocks),
    ("%laneid", Special::Lane),
];
/// Registers that are 0, since launches have one dimension.
const ZEROS: [&str; 4] = ["%tid.y", "%tid.z", "%ctaid.y", "%ctaid.z"];

/// An instruction.
#[derive(Debug)]
pub(super) struct Instruction {
    /// The slot of the predicate, and the value under which it is executed.
    pub(super) guard: Option<(u32, u64)>,
    pub(super) action: Action,
    /// Its line, and that of the source.
    pub(super) line: u32,
    pub(super) origin: u32,
}

/// The operation of an instruction, with the slots that it writes first.
#[derive(Debug)]
pub(super) enum Action {
    One(fn(u64) -> u64, [u32; 2]),
    Two(fn(u64, u64) -> u64, [u32; 3]),
    Three(fn(u64, u64, u64) -> u64, [u32; 4]),
    Four(fn(u64, u64, u64, u64) -> u64, [u32; 5]),
    Convert(Conversion, [u32; 2]),
    /// Parts of a register of so many bits each.
    Split(Vec<u32>, u32, u32),
    Join(u32, Vec<u32>, u32),
    /// Registers, or values, and an address.
    Load(Space, Type, Vec<u32>, Address),
    Store(Space, Type, Vec<u32>, Address),
    Jump(usize),
    Barrier,
    /// The operations that lanes of a warp do together.
    Shuffle(Shuffle),
    Meet(u32),
    Leave,
    Nothing,
}

/// A kind of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Space {
    /// Operands, results, and variables outside of entries.
    Global,
    Shared,
    Local,
    Parameter,
    /// The address says which.
    Any,
}

/// An address: that in a slot, and a distance.
#[derive(Clone, Copy, Debug)]
pub(super) struct Address {
    pub(super) base: u32,
    pub(super) offset: i64,
}

/// `shfl.sync`: the way to choose a lane, and slots.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shuffle {
    pub(super) way: Way,
    pub(super) to: u32,
    /// Whether another lane's value came.
    pub(super) predicate: Option<u32>,
    pub(super) from: u32,
    pub(super) by: u32,
    pub(super) limits: u32,
    pub(super) members: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    Up,
    Down,
    Across,
    To,
}

/// The entries of a module, and the bytes of its variables.
///
/// # Errors
/// The line with an instruction that is not known.
pub(super) fn decoded(listing: &Listing<'_>) -> Result<(Vec<Entry>, Vec<u8>), String> {
    let mut outside = FxHashMap::default();
    let mut bytes = Vec::new();
    for variable in &listing.variables {
        bytes.resize(bytes.len().next_multiple_of(variable.align as usize), 0);
        outside.insert(variable.name, VARIABLES + bytes.len() as u64);
        bytes.extend(&variable.initial);
        bytes.resize(bytes.len() + variable.bytes as usize - variable.initial.len(), 0);
    }
    let entries = listing.entries.iter().map(|entry| Decoder::new(entry, &outside).decode());
    Ok((entries.collect::<Result<_, _>>()?, bytes))
}

struct Decoder<'t> {
    listed: &'t Listed<'t>,
    entry: Entry,
    /// Addresses of variables and parameters, by name.
    addresses: FxHashMap<&'t str, u64>,
    /// Slots of registers, and of constants.
    registers: FxHashMap<&'t str, u32>,
    constants: FxHashMap<u64, u32>,
    /// The start of each statement.
    begins: Vec<usize>,
    now: (u32, u32),
}

impl<'t> Decoder<'t> {
    fn new(listed: &'t Listed<'t>, outside: &FxHashMap<&'t str, u64>) -> Decoder<'t> {
        let entry = Entry {
            name: listed.name.to_owned(),
            code: Vec::new(),
            slots: Vec::new(),
            specials: Vec::new(),
            parameters: 0,
            arrays: Vec::new(),
            shared: 0,
            local: 0,
        };
        let mut decoder = Decoder {
            listed,
            entry,
            addresses: outside.clone(),
            registers: FxHashMap::default(),
            constants: FxHashMap::default(),
            begins: Vec::new(),
            now: (0, 0),
        };
        listed.variables.iter().for_each(|variable| decoder.place(variable));
        decoder
    }

    /// Gives a variable an address.
    fn place(&mut self, variable: &Variable<'t>) {
        let Variable { name, space, align, bytes, .. } = *variable;
        let entry = &mut self.entry;
        let address = match space {
            ".param" => {
                let at = (entry.parameters as u64).next_multiple_of(align);
                entry.parameters = (at + bytes) as usize;
                at
            }
            ".shared" => {
                let at = (entry.shared + GAP).next_multiple_of(align.max(GAP));
                entry.arrays.push((at, at + bytes));
                entry.shared = at + bytes;
                at
            }
            _ => {
                let at = entry.local.next_multiple_of(align.max(16));
                entry.local = at + bytes;
                at
            }
        };
        self.addresses.insert(name, address);
    }

    fn decode(mut self) -> Result<Entry, String> {
        for statement in &self.listed.statements {
            self.begins.push(self.entry.code.len());
            self.now = (statement.line, statement.origin);
            let decoded = self.statement(statement);
            decoded.map_err(|why| format!("PTX line {}: {why}", statement.line))?;
        }
        // Code that has no end ends with it.
        self.begins.push(self.entry.code.len());
        self.push(None, Action::Leave);
        for at in 0..self.entry.code.len() {
            if let Action::Jump(to) = &mut self.entry.code[at].action {
                *to = self.begins[*to];
            }
        }
        Ok(self.entry)
    }

    fn push(&mut self, guard: Option<(u32, u64)>, action: Action) {
        let (line, origin) = self.now;
        self.entry.code.push(Instruction { guard, action, line, origin });
    }

    /// A slot that begins with a value.
    fn slot(&mut self, value: u64) -> u32 {
        self.entry.slots.push(value);
        (self.entry.slots.len() - 1) as u32
    }

    fn constant(&mut self, value: u64) -> u32 {
        if let Some(&slot) = self.constants.get(&value) {
            return slot;
        }
        let slot = self.slot(value);
        self.constants.insert(value, slot);
        slot
    }

    /// The slot of a register, or of the address of a variable.
    fn named(&mut self, name: &'t str) -> Result<u32, String> {
        if let Some(&address) = self.addresses.get(name) {
            return Ok(self.constant(address));
        }
        if let Some(&slot) = self.registers.get(name) {
            return Ok(slot);
        }
        let special = SPECIALS.iter().find(|row| row.0 == name).map(|row| row.1);
        if special.is_none() && name.contains('.') && !ZEROS.contains(&name) {
            return Err(format!("the register `{name}` is not known"));
        }
        let slot = self.slot(0);
        self.registers.insert(name, slot);
        self.entry.specials.extend(special.map(|special| (slot, special)));
        Ok(slot)
    }

    fn value(&mut self, operand: &Operand<'t>) -> Result<u32, String> {
        match operand {
            Operand::Name(name) => self.named(name),
            Operand::Number(bits) => Ok(self.constant(*bits)),
            other => Err(format!("{other:?} is no register and no number")),
        }
    }

    fn values(&mut self, operands: &[Operand<'t>]) -> Result<Vec<u32>, String> {
        operands.iter().map(|operand| self.value(operand)).collect()
    }

    /// Those of a vector, or of one value.
    fn elements(&mut self, operand: &Operand<'t>) -> Result<Vec<u32>, String> {
        match operand {
            Operand::Vector(all) => self.values(all),
            one => Ok(vec![self.value(one)?]),
        }
    }

    fn address(&mut self, operand: &Operand<'t>) -> Result<Address, String> {
        match operand {
            Operand::Address(name, offset) => Ok(Address { base: self.named(name)?, offset: *offset }),
            other => Err(format!("{other:?} is no address")),
        }
    }

    fn statement(&mut self, statement: &Statement<'t>) -> Result<(), String> {
        let guard = match statement.guard {
            Some((name, is_negated)) => Some((self.named(name)?, u64::from(!is_negated))),
            None => None,
        };
        let words: Vec<&str> = statement.opcode.split('.').collect();
        let unknown = || format!("the instruction `{}` is not known", statement.opcode);
        let action = match (&words[..], &statement.operands[..]) {
            (["bra", ..], [Operand::Name(label)]) => {
                let to = self.listed.labels.get(label).ok_or_else(|| format!("there is no label {label}"))?;
                Action::Jump(*to)
            }
            (["ret" | "exit"], []) => Action::Leave,
            (["bar" | "barrier", "sync"] | ["barrier", "sync", "aligned"], [_]) => Action::Barrier,
            (["bar", "warp", "sync"], [members]) => Action::Meet(self.value(members)?),
            (["membar" | "fence", ..], _) => Action::Nothing,
            (["ld", modifiers @ .., ty], [to, from]) => {
                let (space, ty) = access(modifiers, ty).ok_or_else(unknown)?;
                Action::Load(space, ty, self.elements(to)?, self.address(from)?)
            }
            (["st", modifiers @ .., ty], [to, from]) => {
                let (space, ty) = access(modifiers, ty).ok_or_else(unknown)?;
                Action::Store(space, ty, self.elements(from)?, self.address(to)?)
            }
            (["cvta", modifiers @ .., "u64" | "u32"], [to, from]) => self.cvta(modifiers, to, from)?,
            (["cvt", modifiers @ .., to, from], [result, operand]) => {
                let types = Type::named(to).zip(Type::named(from)).ok_or_else(unknown)?;
                let conversion = conversion(modifiers, types.0, types.1).ok_or_else(unknown)?;
                Action::Convert(conversion, [self.value(result)?, self.value(operand)?])
            }
            (["mov", ty], [Operand::Vector(parts), from]) => {
                let bits = Type::named(ty).ok_or_else(unknown)?.size() * 8 / parts.len().max(1);
                Action::Split(self.values(parts)?, self.value(from)?, bits as u32)
            }
            (["mov", ty], [to, Operand::Vector(parts)]) => {
                let bits = Type::named(ty).ok_or_else(unknown)?.size() * 8 / parts.len().max(1);
                Action::Join(self.value(to)?, self.values(parts)?, bits as u32)
            }
            (["shfl", "sync", way, "b32"], [to, from, by, limits, members]) => {
                let way = way_named(way).ok_or_else(unknown)?;
                self.shuffle(way, to, [from, by, limits, members])?
            }
            (["setp", relation, combined @ ("and" | "or" | "xor"), ty], [to, a, b, other]) => {
                let ty = Type::named(ty).ok_or_else(unknown)?;
                let (compared, slots) = (self.slot(0), [self.value(a)?, self.value(b)?]);
                let compare = self.computed(function("setp", &[relation], ty), compared, &slots).ok_or_else(unknown)?;
                self.push(guard, compare);
                let (to, slots) = (self.value(to)?, [compared, self.value(other)?]);
                self.computed(function(combined, &[], Type::Pred), to, &slots).ok_or_else(unknown)?
            }
            ([name, modifiers @ .., ty], [to, operands @ ..]) => {
                let function = Type::named(ty).and_then(|ty| function(name, modifiers, ty)).ok_or_else(unknown)?;
                let (to, slots) = (self.value(to)?, self.values(operands)?);
                self.computed(Some(function), to, &slots).ok_or_else(unknown)?
            }
            _ => return Err(unknown()),
        };
        self.push(guard, action);
        Ok(())
    }

    fn computed(&self, function: Option<Function>, to: u32, slots: &[u32]) -> Option<Action> {
        match (function?, slots) {
            (Function::One(function), &[a]) => Some(Action::One(function, [to, a])),
            (Function::Two(function), &[a, b]) => Some(Action::Two(function, [to, a, b])),
            (Function::Three(function), &[a, b, c]) => Some(Action::Three(function, [to, a, b, c])),
            (Function::Four(function), &[a, b, c, d]) => Some(Action::Four(function, [to, a, b, c, d])),
            _ => None,
        }
    }

    /// An address among those of any memory, or of one kind. Those of global memory are the same.
    fn cvta(&mut self, modifiers: &[&str], to: &Operand<'t>, from: &Operand<'t>) -> Result<Action, String> {
        let (to, from) = (self.value(to)?, self.value(from)?);
        let begin = |space: &str| match space {
            "shared" => SHARED,
            "local" => LOCAL,
            _ => 0,
        };
        let distance = match modifiers {
            ["to", space] => begin(space).wrapping_neg(),
            [space] => begin(space),
            _ => return Err(format!("an address of {modifiers:?} is not known")),
        };
        Ok(Action::Two(u64::wrapping_add, [to, from, self.constant(distance)]))
    }

    fn shuffle(&mut self, way: Way, to: &Operand<'t>, others: [&Operand<'t>; 4]) -> Result<Action, String> {
        let (to, predicate) = match to {
            Operand::Pair(to, predicate) => (self.named(to)?, Some(self.named(predicate)?)),
            one => (self.value(one)?, None),
        };
        let [from, by, limits, members] = others;
        Ok(Action::Shuffle(Shuffle {
            way,
            to,
            predicate,
            from: self.value(from)?,
            by: self.value(by)?,
            limits: self.value(limits)?,
            members: self.value(members)?,
        }))
    }
}

fn way_named(name: &str) -> Option<Way> {
    [("up", Way::Up), ("down", Way::Down), ("bfly", Way::Across), ("idx", Way::To)]
        .iter()
        .find(|row| row.0 == name)
        .map(|row| row.1)
}

/// The memory and the type of an access. How it goes through caches changes nothing here.
fn access(modifiers: &[&str], ty: &str) -> Option<(Space, Type)> {
    let mut space = Space::Any;
    for modifier in modifiers {
        space = match *modifier {
            "global" | "const" => Space::Global,
            "shared" => Space::Shared,
            "local" => Space::Local,
            "param" => Space::Parameter,
            "nc" | "v2" | "v4" | "ca" | "cg" | "cs" | "volatile" => space,
            _ => return None,
        };
    }
    Some((space, Type::named(ty)?))
}
