//! The effect of a node on memory, computed once for an operator and the types of its operands.
//!
//! Resolving the overload of a node takes microseconds and mostly repeats an earlier result. So the
//! result is compiled into a [`Plan`] and cached under the kind and the types, where all
//! refinements of tensor types are equal.

use crate::ir::{Graph, Node};
use crate::ops::Operator;
use crate::ops::rules::AliasRule;
use crate::ops::schema::{Alias, Formal, Schema, WILDCARD};
use crate::types::{Type, TypeKind};
use hashbrown::HashTable;
use rustc_hash::FxHasher;
use smallvec::SmallVec;
use std::hash::{Hash, Hasher};
use std::rc::Rc;

/// Indices of operands.
pub(super) type Operands = SmallVec<[u32; 2]>;

/// The memory of a result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Out {
    /// New memory.
    Fresh,
    /// Anything of its type that comes from outside.
    Wild,
    /// One of these operands.
    Points(Operands),
    /// Possibly this operand, or its elements, where the types permit it; see
    /// [`AliasRule::MayReturn`].
    MayReturn(u32),
}

/// The effect of a node, as far as its schema describes it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Plan {
    /// Whether all results are new memory and there is no other effect: most nodes.
    pub(super) quiet: bool,
    /// Whether nothing is known.
    pub(super) conservative: bool,
    /// Operands that are written.
    pub(super) writes: Operands,
    /// Operands that are written together with all their contents.
    pub(super) deep_writes: Operands,
    /// Operands that are reachable from outside from here on.
    pub(super) escapes: Operands,
    /// One for each result that the schema declares.
    pub(super) outputs: SmallVec<[Out; 2]>,
    /// Whether further results may be anything.
    pub(super) open: bool,
    /// Running statistics are written unless this operand is the constant false.
    pub(super) training: Option<u32>,
}

impl Plan {
    fn of(op: &Operator, schema: Option<&'static Schema>) -> Plan {
        let (rule, Some(schema)) = (op.alias_rule(schema), schema) else {
            return Plan { conservative: true, ..Plan::default() };
        };
        let mut plan = Plan { open: schema.varret, conservative: rule == AliasRule::Conservative, ..Plan::default() };
        plan.operands(schema);
        for formal in &schema.returns {
            let out = plan.output(schema, formal, rule);
            plan.outputs.push(out);
        }
        if let AliasRule::BatchNorm { training_operand } = rule {
            plan.training = Some(training_operand as u32);
        }
        let nothing = plan.writes.is_empty() && plan.deep_writes.is_empty() && plan.escapes.is_empty();
        let fresh = !plan.open && plan.outputs.iter().all(|out| *out == Out::Fresh);
        plan.quiet = nothing && fresh && !plan.conservative && plan.training.is_none();
        plan
    }

    fn operands(&mut self, schema: &Schema) {
        for i in schema.writes() {
            let deep = schema.formals[i].elements.as_ref().is_some_and(|alias| alias.write);
            if deep { &mut self.deep_writes } else { &mut self.writes }.push(i as u32);
        }
        for (i, formal) in schema.formals.iter().enumerate() {
            if [&formal.alias, &formal.elements].into_iter().flatten().any(Alias::is_wildcard) {
                self.escapes.push(i as u32);
            }
        }
    }

    fn output(&mut self, schema: &Schema, formal: &Formal, rule: AliasRule) -> Out {
        if let Some(elements) = &formal.elements {
            // A value read from a list may be anything, so stored values must be, too.
            self.escapes.extend(elements.result().iter().flat_map(|set| bound(schema, set)));
        }
        match (&formal.alias, rule) {
            (Some(alias), _) => self.annotated(schema, alias),
            (None, AliasRule::MayReturn(operand)) if formal.elements.is_none() => Out::MayReturn(operand as u32),
            (None, _) => Out::Fresh,
        }
    }

    fn annotated(&mut self, schema: &Schema, alias: &Alias) -> Out {
        let mut operands = Operands::new();
        let mut wild = false;
        for set in alias.result() {
            let found = bound(schema, set);
            wild |= *set == WILDCARD || found.is_empty();
            for operand in found {
                let formal = &schema.formals[operand as usize];
                if formal.alias.as_ref().is_some_and(|alias| alias.before.contains(set)) {
                    operands.push(operand);
                } else {
                    // An element of the list.
                    wild = true;
                    self.escapes.push(operand);
                }
            }
        }
        if wild {
            self.escapes.extend(operands);
            return Out::Wild;
        }
        Out::Points(operands)
    }
}

/// The operands that belong to an alias set, or whose elements do.
fn bound(schema: &Schema, set: &str) -> Operands {
    let is_in = |alias: &Option<Alias>| alias.as_ref().is_some_and(|alias| alias.before.contains(&set));
    let named = |formal: &Formal| set != WILDCARD && (is_in(&formal.alias) || is_in(&formal.elements));
    let found = schema.formals.iter().enumerate().filter(|(_, formal)| named(formal));
    found.map(|(i, _)| i as u32).collect()
}

/// A cached plan.
#[derive(Debug)]
struct Entry {
    op: &'static Operator,
    types: (u32, u32),
    plan: u32,
    hash: u64,
}

/// The plans computed so far.
#[derive(Debug, Default)]
pub(super) struct Plans {
    table: HashTable<Entry>,
    types: Vec<Type>,
    plans: Vec<Rc<Plan>>,
    operands: Vec<Type>,
    /// The number of plans that had to be computed.
    pub(super) misses: u64,
}

impl Plans {
    /// The index of the plan of a node whose operator has schemas.
    pub(super) fn of(&mut self, op: &'static Operator, graph: &Graph, node: Node) -> u32 {
        self.operands.clear();
        self.operands.extend(graph.inputs(node).map(|value| plain(graph.ty(value))));
        let mut hasher = FxHasher::default();
        std::ptr::from_ref(op).hash(&mut hasher);
        self.operands.iter().for_each(|ty| ty.hash(&mut hasher));
        let hash = hasher.finish();
        let same = |entry: &Entry| {
            let (start, len) = (entry.types.0 as usize, entry.types.1 as usize);
            std::ptr::eq(entry.op, op) && self.types[start..start + len] == self.operands
        };
        match self.table.find(hash, same) {
            Some(entry) => entry.plan,
            None => self.work_out(op, hash),
        }
    }

    /// See [`Plan::quiet`].
    #[inline]
    pub(super) fn is_quiet(&self, index: u32) -> bool {
        self.plans[index as usize].quiet
    }

    pub(super) fn get(&self, index: u32) -> Rc<Plan> {
        Rc::clone(&self.plans[index as usize])
    }

    fn work_out(&mut self, op: &'static Operator, hash: u64) -> u32 {
        self.misses += 1;
        let found = op.resolve(&self.operands);
        let schema = found.schema().or_else(|| op.resolve_erased(&self.operands).schema());
        let plan = Plan::of(op, schema);
        // Operators have few plans, but a graph may have many types.
        let index = self.plans.iter().rev().take(64).position(|known| **known == plan);
        let index = index.map_or(self.plans.len(), |back| self.plans.len() - 1 - back);
        if index == self.plans.len() {
            self.plans.push(Rc::new(plan));
        }
        let types = (self.types.len() as u32, self.operands.len() as u32);
        self.types.extend(&self.operands);
        self.table.insert_unique(hash, Entry { op, types, plan: index as u32, hash }, |entry| entry.hash);
        index as u32
    }
}

/// The type without the facts about the tensors directly in it.
fn plain(ty: Type) -> Type {
    match ty.kind() {
        TypeKind::Tensor(_) => Type::tensor(),
        _ => ty,
    }
}
