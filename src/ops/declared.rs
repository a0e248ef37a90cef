//! Operators that a user declares by their schemas: custom operators, which PyTorch's lists lack.
//!
//! A [`Declared`] holds rows of the operator table. [`Declared::enter`] puts them into the table of
//! this thread until the guard is dropped, so that programs in one process (tests, a fuzzer) do not
//! see each other's operators. Threads that work for the same command enter the result of
//! [`Declared::current`].
//!
#![doc = "```ignore"]
#![doc = include_str!("declared/declaring_example.rs")]
#![doc = "```"]
//!
//! A schema is trusted: without alias annotations the operator is taken to be pure, as PyTorch does
//! for operators registered with `AliasAnalysisKind::FROM_SCHEMA`.
//!
//! Looking up an operator costs the same with declared operators as without.

#[cfg(test)]
mod declaring_example;

use super::declaration::{SchemaError, parse};
use super::rules::{self, Carries, Structure};
use super::schema::{Formal, Schema};
use super::{Operator, catalog, replace};
use crate::symbol::Symbol;
use crate::types::era::Era;
use crate::types::{Type, TypeKind};
use std::cell::RefCell;
use std::marker::PhantomData;
use std::rc::Rc;
use std::sync::{LazyLock, Mutex, OnceLock};

/// The declared operators, in order of declaration.
#[derive(Clone, Debug, Default)]
pub struct Declared {
    schemas: Vec<Schema>,
}

thread_local! {
    static CURRENT: RefCell<Declared> = RefCell::default();
}

const ERAS: [Era; 2] = [Era::V1_3, Era::V2];

impl Declared {
    /// The operators that this thread has entered.
    pub fn current() -> Declared {
        CURRENT.with_borrow(Clone::clone)
    }

    /// Adds a schema. Returns a warning, if any.
    ///
    /// # Errors
    /// The syntax error of the text, or the schema that it contradicts.
    pub fn add(&mut self, text: &str) -> Result<Option<String>, SchemaError> {
        let blank = |c: char| if c.is_whitespace() { ' ' } else { c };
        // Schemas live as long as the process, so each text is stored once.
        let text = Symbol::new(&text.chars().map(blank).collect::<String>()).as_str();
        let schema = parse(text)?;
        check_kind(text, schema.kind)?;
        check_returns(text, &schema)?;
        let builtin = builtin(schema.kind);
        if let Some(known) = self.schemas.iter().chain(&builtin).find(|known| says_the_same(known, &schema)) {
            return Ok((known.overload != schema.overload).then(|| format!("already known as `{known}`")));
        }
        let clash = |message| Err(SchemaError { at: 0, message });
        if let Some(known) =
            self.schemas.iter().find(|known| is_overload(known, &schema) || takes_the_same(known, &schema))
        {
            return clash(format!("this contradicts the earlier declaration `{known}`"));
        }
        if let Some(known) = builtin.iter().find(|known| takes_the_same(known, &schema)) {
            return clash(format!("this contradicts PyTorch, which declares `{known}`"));
        }
        let rule = super::rule(schema.kind, &builtin);
        if rule.structure != Structure::None || rule.carries != Carries::Nothing {
            return clash(format!("`{}` is a construct of TorchScript, not an operator", schema.kind));
        }
        let known = builtin.iter().find(|known| is_overload(known, &schema));
        let warning =
            known.map(|known| format!("PyTorch declares `{known}`; this schema is added as another overload"));
        self.schemas.push(schema);
        Ok(warning)
    }

    /// The names of the operators.
    pub(crate) fn kinds(&self) -> Vec<Symbol> {
        let mut kinds: Vec<Symbol> = self.schemas.iter().map(|schema| schema.kind).collect();
        kinds.sort();
        kinds.dedup();
        kinds
    }

    /// The schemas of one operator.
    pub(crate) fn schemas_of(&self, kind: Symbol) -> impl Iterator<Item = Schema> + use<> {
        let mut schemas = self.schemas.clone();
        schemas.retain(|schema| schema.kind == kind);
        schemas.into_iter()
    }

    /// The schemas as text.
    pub fn texts(&self) -> Vec<String> {
        self.schemas.iter().map(Schema::to_string).collect()
    }

    /// Makes the operators known to this thread until the guard is dropped.
    pub fn enter(&self) -> Entered {
        let before = CURRENT.replace(self.clone());
        let mut replaced = Vec::new();
        for kind in self.kinds() {
            replaced.extend(ERAS.map(|era| (era, kind, replace(era, kind, Some(self.row(era, kind))))));
        }
        Entered { before, replaced, in_this_thread: PhantomData }
    }

    /// The row of a kind. Rows live as long as the process; equal ones are made once.
    fn row(&self, era: Era, kind: Symbol) -> &'static Operator {
        type Key = (Era, Symbol, Vec<Schema>);
        static ALL: LazyLock<Mutex<Vec<(Key, &'static Operator)>>> = LazyLock::new(Mutex::default);
        let given: Vec<Schema> = self.schemas_of(kind).collect();
        let mut all = ALL.lock().expect("no holder of this lock panics");
        let key = (era, kind, given);
        if let Some((_, row)) = all.iter().find(|(known, _)| *known == key) {
            return row;
        }
        let row = Box::leak(Box::new(row(era, kind, &key.2)));
        all.push((key, row));
        row
    }
}

/// The operators are known to the thread as long as this guard lives.
#[must_use = "the operators are known only while this lives"]
pub struct Entered {
    before: Declared,
    replaced: Vec<(Era, Symbol, Option<&'static Operator>)>,
    in_this_thread: PhantomData<Rc<()>>,
}

impl Drop for Entered {
    fn drop(&mut self) {
        CURRENT.set(std::mem::take(&mut self.before));
        for (era, kind, row) in self.replaced.drain(..) {
            replace(era, kind, row);
        }
    }
}

/// The built-in overloads of a kind precede the declared ones, and its rule is kept.
fn row(era: Era, kind: Symbol, given: &[Schema]) -> Operator {
    let builtin = Operator::load(era, kind);
    let is_builtin = !self::builtin(kind).is_empty();
    let schemas: Vec<Schema> = builtin.schemas.iter().chain(given).cloned().collect();
    Operator {
        rule: if is_builtin { builtin.rule } else { rules::of_schemas(given) },
        schemas: schemas.leak(),
        is_declared: true,
        worst: OnceLock::new(),
        ..builtin
    }
}

/// The schemas of a kind in the lists, each once.
fn builtin(kind: Symbol) -> Vec<Schema> {
    let lists = [catalog::LIST_2, catalog::LIST_1_3, catalog::LIST_BETWEEN, catalog::LIST_PRIM];
    lists.into_iter().flat_map(|list| catalog::schemas(list, kind)).collect()
}

fn is_overload(known: &Schema, schema: &Schema) -> bool {
    (known.kind, known.overload) == (schema.kind, schema.overload)
}

fn takes_the_same(known: &Schema, schema: &Schema) -> bool {
    let types = |schema: &Schema| schema.formals.iter().map(|formal| formal.ty).collect::<Vec<_>>();
    known.kind == schema.kind && known.vararg == schema.vararg && types(known) == types(schema)
}

/// Whether two schemas are equal up to the names of formals and defaults, which no graph shows.
fn says_the_same(known: &Schema, schema: &Schema) -> bool {
    let facts = |formals: &[Formal]| {
        formals.iter().map(|formal| (formal.ty, formal.alias.clone(), formal.elements.clone())).collect::<Vec<_>>()
    };
    takes_the_same(known, schema)
        && known.varret == schema.varret
        && facts(&known.formals) == facts(&schema.formals)
        && facts(&known.returns) == facts(&schema.returns)
}

/// Checks for `namespace::name`, the form in graphs.
fn check_kind(text: &str, kind: Symbol) -> Result<(), SchemaError> {
    let start = text.len() - text.trim_start().len();
    let parts = kind.as_str().trim().split("::").collect::<Vec<_>>();
    let is_word = |part: &&str| !part.is_empty() && part.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    if parts.len() == 2 && parts.iter().all(is_word) {
        return Ok(());
    }
    Err(SchemaError { at: start, message: "expected `namespace::name(`, such as `my_ops::scale(`".to_owned() })
}

/// A type variable of a result must be one of an operand: otherwise it would be unbound.
fn check_returns(text: &str, schema: &Schema) -> Result<(), SchemaError> {
    let variables = |formals: &[Formal]| formals.iter().flat_map(|formal| variables(formal.ty)).collect::<Vec<_>>();
    let bound = variables(&schema.formals);
    match variables(&schema.returns).into_iter().find(|variable| !bound.contains(variable)) {
        None => Ok(()),
        Some(variable) => {
            let returns = text.rfind("->").map_or(0, |at| at + 2);
            let at = text[returns..].find(variable.as_str()).map_or(returns, |at| returns + at);
            let message = format!("`{variable}` is read as a type variable, which no operand binds");
            Err(SchemaError { at, message })
        }
    }
}

fn variables(ty: Type) -> Vec<Symbol> {
    let (mut found, mut pending) = (Vec::new(), vec![ty]);
    while let Some(ty) = pending.pop() {
        found.extend(if let TypeKind::Var(name) = ty.kind() { Some(*name) } else { None });
        pending.extend(ty.parts());
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::operator;
    use crate::ops::rules::Effect;
    use crate::types::Simple;

    fn declared(texts: &[&str]) -> Declared {
        let mut declared = Declared::default();
        for text in texts {
            declared.add(text).unwrap_or_else(|error| panic!("{text}: {error:?}"));
        }
        declared
    }

    fn refusal(texts: &[&str]) -> String {
        let (last, before) = texts.split_last().expect("a text");
        declared(before).add(last).expect_err(last).message
    }

    #[test]
    fn annotations_decide_purity() {
        let texts = ["my::f(Tensor x) -> Tensor", "my::g_(Tensor(a!) x) -> Tensor(a!)", "my::h(Tensor x) -> ()"];
        let _entered = declared(&texts).enter();
        for era in ERAS {
            let [f, g, h] = ["my::f", "my::g_", "my::h"].map(|kind| operator(era, Symbol::new(kind)));
            assert!(f.is_pure(f.schemas.first()) && f.is_declared);
            assert!(g.may_write(g.schemas.first()) && g.rule.effect == Effect::None);
            assert!(h.has_side_effects(), "it must do something");
        }
    }

    #[test]
    fn entered_scopes_are_left_again() {
        let kind = Symbol::new("my::left");
        assert!(!operator(Era::V2, kind).is_known());
        let outer = declared(&["my::left(int x) -> int"]).enter();
        {
            let _inner = declared(&["my::left(int x, int y) -> int"]).enter();
            assert_eq!(operator(Era::V2, kind).schemas[0].formals.len(), 2);
        }
        assert_eq!(operator(Era::V2, kind).schemas[0].formals.len(), 1);
        assert_eq!(Declared::current().texts(), ["my::left(int x) -> int"]);
        drop(outer);
        assert!(!operator(Era::V2, kind).is_known() && Declared::current().texts().is_empty());
    }

    #[test]
    fn one_more_overload_is_added_to_the_built_in_ones() {
        let _entered = declared(&["aten::relu.scaled(Tensor self, float scale) -> Tensor"]).enter();
        let relu = operator(Era::V2, Symbol::new("aten::relu"));
        let found = relu.resolve(&[Type::tensor(), Type::simple(Simple::Float)]);
        assert_eq!(found.schema().map(|schema| schema.overload), Some("scaled"));
        assert!(relu.resolve(&[Type::tensor()]).schema().is_some());
    }

    #[test]
    fn contradictions_are_refused() {
        for (texts, says) in [
            (&["aten::relu(Tensor self) -> int"][..], "contradicts PyTorch, which declares `aten::relu(Tensor self)"),
            (&["aten::relu_(Tensor self) -> Tensor"], "contradicts PyTorch"),
            (&["prim::If(bool cond, int x) -> ()"], "a construct of TorchScript"),
            (&["my::f(Tensor x) -> Tensor", "my::f(Tensor x) -> int"], "the earlier declaration"),
            (&["my::f(Tensor x) -> Tensor", "my::f(int x) -> int"], "the earlier declaration"),
            (&["my::f(Tensor x) -> t"], "`t` is read as a type variable"),
            (&["f(Tensor x) -> Tensor"], "namespace::name"),
            (&["my::a::f(Tensor x) -> Tensor"], "namespace::name"),
            (&["my::f(tensor x) -> tensor"], "did you mean `Tensor`"),
        ] {
            assert!(refusal(texts).contains(says), "{texts:?}: {}", refusal(texts));
        }
        let mut same = declared(&["my::f(Tensor x) -> Tensor", "aten::relu(Tensor self) -> Tensor"]);
        assert_eq!((same.add("my::f(Tensor  y) -> Tensor"), same.schemas.len()), (Ok(None), 1));
        let warning = same.add("aten::relu(Tensor self, int n) -> Tensor").expect("an overload");
        assert!(warning.is_some_and(|text| text.contains("another overload")));
    }
}
