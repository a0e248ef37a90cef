//! The operator table: overloads, effects, randomness and aliasing of operators.
//!
//! One table for all passes, so that no pass matches on kinds to determine the semantics of an
//! operator. [`operator`] gives the row of a kind: the schemas that PyTorch declares ([`catalog`],
//! [`schema`]) and the columns that a schema does not have ([`rules`], [`formulas`]).
//! [`Operator::resolve`] finds the overload of a node.
//!
#![doc = "```ignore"]
#![doc = include_str!("ops/resolving_example.rs")]
#![doc = "```"]
//!
//! **Unknown operators are legal.** Their row is the worst case: they read and write everything,
//! may have any effect and never give the same result twice. PyTorch takes an unknown `prim::` kind
//! to be harmless; it knows all of them, this table cannot.

pub mod attention_rules;
pub mod catalog;
pub mod declaration;
pub mod declared;
pub mod epilogue_rules;
pub mod formulas;
pub mod fusion_rules;
pub mod gradient_table;
pub mod guard_rules;
pub mod later_operands;
pub mod linear_rules;
pub mod nearby;
pub mod overloads;
pub mod recipes;
pub mod release_rules;
#[cfg(test)]
mod resolving_example;
pub mod rows;
pub mod rules;
pub mod schema;
pub mod shape_rules;
pub mod touches;
pub mod window_rules;

use crate::symbol::Symbol;
use crate::types::era::Era;
use crate::types::{Simple, Type};
use overloads::Resolution;
use rules::{AliasRule, Effect, Nondeterminism, Rule};
use rustc_hash::FxHashMap;
use schema::Schema;
use std::cell::RefCell;
use std::sync::{LazyLock, Mutex, OnceLock};

/// The row of an operator kind.
#[derive(Debug)]
pub struct Operator {
    /// The kind.
    pub kind: Symbol,
    /// The era of the lookup.
    pub era: Era,
    /// Its overloads in that era or, if it has none, in the other one; empty if the kind is
    /// unknown.
    pub schemas: &'static [Schema],
    /// The facts that schemas lack.
    pub rule: Rule,
    /// Whether a user declared it, or an overload of it; see [`declared`].
    pub is_declared: bool,
    elsewhere: OnceLock<&'static [Schema]>,
    /// The nondeterminism of the worst overload: derived from the names of formals, so computed
    /// once.
    worst: OnceLock<Nondeterminism>,
}

type Rows = RefCell<Vec<Option<&'static Operator>>>;

thread_local! {
    /// The rows that this thread has looked up, by era and kind.
    static SEEN: [Rows; 2] = const { [RefCell::new(Vec::new()), RefCell::new(Vec::new())] };
}

/// Whether a kind has the form of a section name, `prim::FusionGroup_0`.
pub(crate) fn names_section(era: Era, kind: Symbol) -> bool {
    let base = kind.as_str().trim_end_matches(|c: char| c.is_ascii_digit()).strip_suffix('_');
    base.is_some_and(|base| operator(era, Symbol::new(base)).rule.carries != rules::Carries::Nothing)
}

/// The row of `kind`. There is one for every kind; see [`Operator::is_known`].
///
/// The first lookup of a kind costs microseconds. Later ones index a vector of the thread.
pub fn operator(era: Era, kind: Symbol) -> &'static Operator {
    SEEN.with(|seen| {
        let mut seen = seen[era as usize].borrow_mut();
        if let Some(Some(found)) = seen.get(kind.index()) {
            return *found;
        }
        if seen.len() <= kind.index() {
            seen.resize(kind.index() + 1, None);
        }
        *seen[kind.index()].insert(shared(era, kind))
    })
}

/// Sets the row of `kind` in this thread; returns the previous one.
fn replace(era: Era, kind: Symbol, row: Option<&'static Operator>) -> Option<&'static Operator> {
    SEEN.with(|seen| {
        let mut seen = seen[era as usize].borrow_mut();
        if seen.len() <= kind.index() {
            seen.resize(kind.index() + 1, None);
        }
        std::mem::replace(&mut seen[kind.index()], row)
    })
}

/// Finds the overload of a node: [`operator`], then [`Operator::resolve`].
pub fn resolve(era: Era, kind: Symbol, operands: &[Type]) -> Resolution {
    operator(era, kind).resolve(operands)
}

/// The row that all threads share, made on first use.
fn shared(era: Era, kind: Symbol) -> &'static Operator {
    static ALL: LazyLock<Mutex<FxHashMap<(Era, Symbol), &'static Operator>>> = LazyLock::new(Mutex::default);
    let mut all = ALL.lock().expect("no holder of this lock panics");
    all.entry((era, kind)).or_insert_with(|| Box::leak(Box::new(Operator::load(era, kind))))
}

/// The semantics of a kind with these schemas: the word of its row, else that of a table or of its
/// schemas.
fn rule(kind: Symbol, schemas: &[Schema]) -> Rule {
    match rows::row(kind) {
        Some(row) => row.semantics.known().unwrap_or_else(|| rules::of_schemas(schemas)),
        None => rules::rule(kind, schemas),
    }
}

impl Operator {
    fn load(era: Era, kind: Symbol) -> Operator {
        let lists = [catalog::list(era), catalog::LIST_PRIM, catalog::list(era.other()), catalog::LIST_BETWEEN];
        let schemas = lists.into_iter().map(|list| catalog::schemas(list, kind)).find(|found| !found.is_empty());
        let schemas: &'static [Schema] = schemas.map_or(&[], |found| found.leak());
        let rule = rule(kind, schemas);
        let (elsewhere, worst) = (OnceLock::new(), OnceLock::new());
        Operator { kind, era, schemas, rule, is_declared: false, elsewhere, worst }
    }

    /// The overloads of other versions: those between the two lists have operators of both, and a
    /// few of their own.
    pub fn elsewhere(&self) -> &'static [Schema] {
        let lists = [catalog::LIST_BETWEEN, catalog::list(self.era.other())];
        let load = || lists.into_iter().flat_map(|list| catalog::schemas(list, self.kind)).collect::<Vec<_>>().leak();
        self.elsewhere.get_or_init(|| load())
    }

    /// Whether the kind is known.
    pub fn is_known(&self) -> bool {
        self.rule.effect != Effect::Unknown
    }

    /// Whether a node of this kind must be kept, and must not be reordered with other such nodes.
    /// Effects inside its blocks and its subgraph do not count: `prim::If` has no effect, its
    /// contents may have.
    pub fn has_side_effects(&self) -> bool {
        self.rule.effect.is_side_effect()
    }

    /// Whether the same operands give the same result. Without a schema the result is the worst of
    /// all overloads.
    pub fn nondeterminism(&self, schema: Option<&Schema>) -> Nondeterminism {
        match (self.rule.nondeterminism, schema) {
            (Some(known), _) => known,
            (None, Some(schema)) => rules::nondeterminism(schema),
            (None, None) => *self
                .worst
                .get_or_init(|| self.schemas.iter().map(rules::nondeterminism).max().unwrap_or(Nondeterminism::Always)),
        }
    }

    /// Whether a node of this kind may be replaced by its results if its operands are constants, as
    /// far as the kind decides.
    pub fn is_folded(&self) -> bool {
        let counted = || !self.schemas.is_empty() && !self.schemas.iter().any(|schema| schema.vararg);
        self.rule.folded.unwrap_or_else(counted)
    }

    /// Whether a node of this kind never fails for operands of these types.
    pub fn is_total(&self, operands: &[Type]) -> bool {
        let number = |ty: &Type| ty.is(Simple::Int) || ty.is(Simple::Float);
        self.rule.total || self.rule.total_of_numbers && operands.iter().all(number)
    }

    /// The memory relation of results and operands. Without a schema, a kind that has no rule of
    /// its own is treated as unknown: the overload may be one of another version.
    /// [`AliasRule::MayReturn`] is only returned if the schema is not more precise.
    pub fn alias_rule(&self, schema: Option<&Schema>) -> AliasRule {
        let rule = self.rule.alias;
        match (rule, schema) {
            (AliasRule::Schema | AliasRule::MayReturn(_), None) => AliasRule::Conservative,
            (AliasRule::MayReturn(_), Some(schema)) if schema.returns.iter().any(schema::Formal::is_annotated) => {
                AliasRule::Schema
            }
            (rule, _) => rule,
        }
    }

    /// Whether it may write to memory reachable from its operands. Without a schema that is assumed
    /// unless a row gives its aliasing.
    pub fn may_write(&self, schema: Option<&Schema>) -> bool {
        self.alias_rule(schema).writes() || schema.is_some_and(Schema::is_writing)
    }

    /// No effect, no write, and the same result every time: the node may be computed once, earlier,
    /// or not at all, as long as its operands are not written to. Never true for nodes with blocks
    /// or subgraphs.
    pub fn is_pure(&self, schema: Option<&Schema>) -> bool {
        self.rule.effect == Effect::None
            && !self.may_write(schema)
            && self.nondeterminism(schema) == Nondeterminism::Deterministic
            && self.rule.structure == rules::Structure::None
            && self.rule.carries == rules::Carries::Nothing
    }
}
