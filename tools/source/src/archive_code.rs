//! The code of an archive, ready to be read into graphs.

use crate::declared_names::{Callable, Declarations};
use crate::emission::Emitter;
use crate::old_operators;
use crate::source_error::{Result, SourceError, fail};
use crate::stored_ivalues::Values;
use crate::tidying;
use jitopt_archive::{Archive, Dtype, Kind, Refusal, StoredTensor, StoredValue};
use jitopt_core::interpreter::{IValue, exact_literals, tensor_format};
use jitopt_core::ir::{Attribute, Dialect, Graph, Node, Releases};
use jitopt_core::symbol::{Symbol, attr};
use jitopt_core::tensor::Tensor;
use jitopt_core::types::Type;
use jitopt_core::types::release::Release;
use jitopt_core::types::spelling::Spelling;
use std::cell::Cell;
use std::collections::HashMap;
use std::sync::Arc;

/// Elements of a tensor that PyTorch shows in a constant.
const MOST_SHOWN: usize = 10;

/// Bytes of a constant that is compared with others.
const LARGEST_COMPARED: u64 = 1 << 18;

/// The code of an archive, with its constants.
#[derive(Debug)]
pub struct ArchiveCode {
    pub(crate) names: Declarations,
    /// Whose rules hold, and how text is spelt.
    pub(crate) release: Release,
    /// `CONSTANTS.c0` and the following.
    pub(crate) constants: Vec<Constant>,
    /// The class of the module.
    class: String,
    /// Whether nodes are located in the archive, not in the source that it was made of.
    pub(crate) places_in_archive: bool,
    /// The version of the operators that the code was written for.
    pub(crate) version: u64,
    /// The meaning of old operators.
    pub(crate) upgraders: Declarations,
    warnings: Cell<i64>,
}

/// A constant of the archive.
#[derive(Debug)]
pub(crate) struct Constant {
    stored: StoredValue,
    /// Type and literal, or what it is that has no literal.
    pub(crate) literal: std::result::Result<(Type, Attribute), &'static str>,
}

impl Constant {
    /// As it is stored.
    pub(crate) fn stored(&self) -> &StoredValue {
        &self.stored
    }
}

/// Gives a graph a release, and its spelling.
pub fn set_dialect(graph: &mut Graph, release: Release) {
    graph.set_release(release);
    let spelling = Spelling { old_none: release < Release(1, 9), ..Spelling::default() };
    graph.dialect = Dialect { spelling, releases: Releases { oldest: release, newest: release } };
}

/// A method that has a graph.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MethodName {
    /// The class; empty for functions.
    pub class: String,
    /// The name of the method, or the qualified name of the function.
    pub name: String,
}

impl ArchiveCode {
    /// Reads the code and the constants of an archive.
    ///
    /// # Errors
    /// The archive has no code that is read here, or code that PyTorch does not print.
    pub fn read(archive: &mut Archive, release: Release) -> std::result::Result<ArchiveCode, SourceError> {
        let refused = |refusal: Refusal| SourceError::new(format!("the archive is refused: {refusal}"));
        if archive.kind == Kind::Legacy {
            return ArchiveCode::read_legacy(archive, release);
        }
        if !matches!(archive.kind, Kind::TorchScript | Kind::Mobile) {
            return fail(format!("the graph of an {} is not read yet", archive.kind.name()));
        }
        let names = Declarations::read(archive.code().map_err(refused)?)?;
        let constants = archive.stored("constants").map_err(refused)?;
        let (StoredValue::Tuple(items) | StoredValue::List(items)) = constants else {
            return fail("the constants of the archive are no tuple");
        };
        let mut values = Values::of_constants(archive, &names);
        let constant = |stored: StoredValue| Constant { literal: literal(&mut values, &stored, release), stored };
        let mut constants: Vec<Constant> = items.into_iter().map(constant).collect();
        share_equal(archive, &mut constants);
        let class = archive.class.clone();
        ArchiveCode::of(archive, release, names, (constants, class))
    }

    /// Archives of 1.0 to 1.2: each module is a class of its own, constants are tensors.
    fn read_legacy(archive: &mut Archive, release: Release) -> std::result::Result<ArchiveCode, SourceError> {
        let refused = |refusal: Refusal| SourceError::new(format!("the archive is refused: {refusal}"));
        let mut names = Declarations::read(archive.code().map_err(refused)?)?;
        let tree = archive.legacy_tree().map_err(refused)?;
        for class in &tree.classes {
            let code = class.record.as_ref().map(|record| archive.legacy_code(record)).transpose().map_err(refused)?;
            names.add_module(class, code)?;
        }
        let mut values = Values::of_constants(archive, &names);
        let constant = |tensor: StoredTensor| {
            let stored = StoredValue::Tensor(tensor);
            Constant { literal: literal(&mut values, &stored, release), stored }
        };
        let constants = tree.tensors.into_iter().map(constant).collect();
        let class = tree.classes.into_iter().next().map(|class| class.name).unwrap_or_default();
        ArchiveCode::of(archive, release, names, (constants, class))
    }

    fn of(
        archive: &Archive,
        release: Release,
        names: Declarations,
        (constants, class): (Vec<Constant>, String),
    ) -> std::result::Result<ArchiveCode, SourceError> {
        let version = archive.version.unwrap_or(u64::MAX);
        let upgraders = old_operators::declared()?;
        let (places_in_archive, warnings) = (false, Cell::new(0));
        Ok(ArchiveCode { names, release, constants, class, places_in_archive, version, upgraders, warnings })
    }

    /// Locates nodes in the code of the archive.
    pub fn locate_in_archive(&mut self) {
        self.places_in_archive = true;
    }

    /// The class of the module.
    pub fn class(&self) -> &str {
        &self.class
    }

    /// The methods of the module, then those of other classes and functions.
    pub fn methods(&self) -> Vec<MethodName> {
        let mut found = Vec::new();
        let mut add =
            |class: &str, name: &str| found.push(MethodName { class: class.to_owned(), name: name.to_owned() });
        let classes = || self.names.classes().filter(|(_, class)| !class.def.base.ends_with("Interface"));
        let ours = classes().filter(|(name, _)| *name == self.class);
        for (name, class) in ours.chain(classes().filter(|(name, _)| *name != self.class)) {
            class.def.methods.iter().for_each(|method| add(name, &method.name));
        }
        self.names.functions().for_each(|(name, _)| add("", name));
        found
    }

    /// The graph of a method of a class, or of a function, as PyTorch prints it.
    ///
    /// # Errors
    /// There is none of this name, or its code is not read.
    pub fn graph(&self, method: &MethodName) -> Result<Graph> {
        self.emitted(method, false)
    }

    pub(crate) fn callable(&self, method: &MethodName) -> Option<Callable<'_>> {
        match method.class.as_str() {
            "" => self.names.function(&method.name),
            class => self.names.method(class, &method.name),
        }
    }

    /// With whole names, constants of functions have the qualified ones, which tell them apart.
    pub(crate) fn emitted(&self, method: &MethodName, whole_names: bool) -> Result<Graph> {
        let graph = self.untidied(method, whole_names)?;
        let place = self.callable(method).map(|callable| callable.place(callable.def.at));
        tidying::tidy(graph).map_err(|error| match &place {
            Some(place) => error.at(place),
            None => error,
        })
    }

    /// The same as it is written, without what PyTorch does to a graph after it was emitted.
    pub(crate) fn untidied(&self, method: &MethodName, whole_names: bool) -> Result<Graph> {
        let Some(callable) = self.callable(method) else {
            return fail(format!("there is no method `{}`", method.name));
        };
        let class = match method.class.as_str() {
            "" => None,
            class => Some(self.names.type_of_class(class)?),
        };
        let place = callable.place(callable.def.at);
        let emitter = Emitter::new(self, callable, None, whole_names);
        emitter.function(class).map_err(|error| error.at(&place))
    }

    /// The constant of the archive that a node is a copy of: copies share their text.
    pub(crate) fn archived_value(&self, graph: &Graph, node: Node) -> Option<&StoredValue> {
        let text = shared_text(graph.attribute(node, attr::VALUE)?)?;
        let is_this = |constant: &&Constant| match &constant.literal {
            Ok((_, literal)) => shared_text(literal).is_some_and(|other| Arc::ptr_eq(other, text)),
            Err(_) => false,
        };
        self.constants.iter().find(is_this).map(|constant| &constant.stored)
    }

    pub(crate) fn result_type(&self, callable: Callable<'_>) -> Result<Type> {
        match &callable.def.result {
            Some(declared) => self.names.annotation(declared, callable.record),
            None => Ok(Type::tensor()),
        }
    }

    // ---- what releases do

    pub(crate) fn set_dialect(&self, graph: &mut Graph) {
        set_dialect(graph, self.release);
    }

    /// Whether None has the expected type, `Tensor?`: up to 1.2.
    pub(crate) fn types_none(&self) -> bool {
        self.release < Release(1, 3)
    }

    /// Whether `annotate(Optional[int], None)` is a constant of that type: up to 1.3.
    pub(crate) fn annotates_none(&self) -> bool {
        self.release < Release(1, 4)
    }

    /// The operator that makes a number of a tensor. 1.5 renamed that for numbers of any type.
    pub(crate) fn conversion(&self, kind: &str) -> Symbol {
        let is_old = kind == "aten::ScalarImplicit" && self.release < Release(1, 5);
        Symbol::new(if is_old { "prim::ImplicitTensorToNum" } else { kind })
    }

    /// `annotate(List[int], [])` instead of `[]`.
    pub(crate) fn annotates_empty_lists(&self) -> bool {
        self.release >= Release(1, 7)
    }

    /// Whether exceptions have a class, `prim::RaiseException(str msg, str? cls=None)`.
    pub(crate) fn raises_classes(&self) -> bool {
        self.release >= Release(1, 11)
    }

    /// Whether warnings have numbers, `aten::warn[warn_id=0]`.
    pub(crate) fn numbers_warnings(&self) -> bool {
        self.release >= Release(1, 8)
    }

    /// Whether old operators are replaced by what they meant.
    pub(crate) fn upgrades(&self) -> bool {
        self.release >= Release(1, 6)
    }

    pub(crate) fn next_warning(&self) -> i64 {
        self.warnings.replace(self.warnings.get() + 1)
    }
}

/// Gives constants with equal elements one text: PyTorch pools them as one constant.
fn share_equal(archive: &Archive, constants: &mut [Constant]) {
    let mut alike: HashMap<(Dtype, Vec<u64>), Vec<usize>> = HashMap::new();
    for (at, constant) in constants.iter().enumerate() {
        if let StoredValue::Tensor(tensor) = &constant.stored
            && tensor.quantizer.is_none()
            && tensor.bytes() <= LARGEST_COMPARED
        {
            alike.entry((tensor.dtype, tensor.sizes.clone())).or_default().push(at);
        }
    }
    for group in alike.into_values().filter(|group| group.len() > 1) {
        let mut firsts: HashMap<Vec<u8>, usize> = HashMap::new();
        for at in group {
            let StoredValue::Tensor(tensor) = &constants[at].stored else { continue };
            let Ok(content) = archive.content(tensor) else { continue };
            let first = *firsts.entry(content).or_insert(at);
            let literal = constants[first].literal.clone();
            constants[at].literal = literal;
        }
    }
}

/// The text of a tensor, whose copies share it.
fn shared_text(attribute: &Attribute) -> Option<&Arc<str>> {
    if let Attribute::Tensor(text) | Attribute::Opaque(text) = attribute { Some(text) } else { None }
}

/// The literal of a constant of the archive. A tensor has the text that PyTorch prints, which may
/// be rounded.
fn literal(
    values: &mut Values<'_>,
    item: &StoredValue,
    release: Release,
) -> std::result::Result<(Type, Attribute), &'static str> {
    // The text shows no elements, so none are read.
    if let StoredValue::Tensor(tensor) = item
        && tensor.elements() > MOST_SHOWN as u64
    {
        return Ok((Type::tensor(), Attribute::Opaque("<Tensor>".into())));
    }
    let value = values.value(item).map_err(|_| "a value")?;
    match exact_literals::of(&value, value.ty(), release) {
        Ok((Some(attribute), ty)) => Ok((plain_type(ty), attribute)),
        _ => match &value {
            IValue::Tensor(tensor) if tensor.numel() == 1 && !tensor.dtype().is_quantized() => {
                Ok((Type::tensor(), Attribute::Tensor(format!("{{{}}}", exact_literals::single(tensor)).into())))
            }
            IValue::Tensor(tensor) => Ok((Type::tensor(), Attribute::Tensor(printed(tensor, release).into()))),
            IValue::Object(_) => Ok((value.ty(), Attribute::Opaque("object(0x0)".into()))),
            _ => Err("a value without a literal"),
        },
    }
}

fn plain_type(ty: Type) -> Type {
    if ty.is_tensor() { Type::tensor() } else { ty }
}

/// The text of a tensor in a constant, in one line.
fn printed(tensor: &Tensor, release: Release) -> String {
    tensor_format::text(tensor, release).replace('\n', " ")
}
