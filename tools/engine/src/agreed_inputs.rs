//! The inputs of two files of one model: an exported program has a param for each part of a dict,
//! a list or a tuple, and none for an input that was left out when it was exported.
//!
//! Both graphs get the same params, in the order of the file with the code: containers are built
//! from their parts where the code takes them, and what one file lacks is held at its default.

use crate::Program;
use crate::error::{Error, refuse};
use crate::given_values::is_object;
use jitopt_core::interpreter::comparison::{Tolerance, differences};
use jitopt_core::interpreter::{IValue, ivalue};
use jitopt_core::ir::{Attribute, Graph, Node, Value};
use jitopt_core::symbol::{Symbol, attr, prim};
use jitopt_core::tensor::{DType, Precision, Tensor};
use jitopt_core::types::{Simple, Type, TypeKind};
use jitopt_exported::{Inputs, Key, Tree};
use std::collections::BTreeMap;

/// The inputs of one file.
pub(crate) struct Side {
    inputs: Vec<Taken>,
    /// For each param that is no module, the value that it was exported for.
    fixed: Vec<Option<IValue>>,
    is_exported: bool,
    /// The name in messages.
    which: &'static str,
}

/// One input.
#[derive(Clone, Debug)]
struct Taken {
    name: Option<String>,
    is_positional: bool,
    /// How its params nest; the code of a module does not say what is in its containers.
    tree: Tree,
    is_open: bool,
    /// Its first param.
    first: usize,
    /// The value that it has if it is left out.
    default: Option<IValue>,
}

/// A param that both graphs get.
#[derive(Clone, Debug)]
struct Slot {
    /// The param that it is in each of the files; nothing where it is built into a container, or
    /// the file lacks it.
    params: [Option<usize>; 2],
    /// The value of generated inputs.
    held: Option<IValue>,
}

/// A container of the code, by the number of its param, and the first of its slots.
struct Built {
    param: usize,
    tree: Tree,
    first: usize,
}

/// What two files take.
#[derive(Default)]
pub(crate) struct Agreed {
    slots: Vec<Slot>,
    /// What each file builds from slots.
    built: [Vec<Built>; 2],
    /// Constants that one of them was exported for, in words.
    pub(crate) fixed: Vec<String>,
    /// Inputs that one of them does not have, in words.
    pub(crate) left_out: Vec<String>,
    /// Whether params stay as they are.
    is_same: bool,
}

impl Side {
    /// The inputs of a graph. Contents have the defaults of params under their names.
    pub(crate) fn of(
        program: &Program,
        graph: &Graph,
        contents: &BTreeMap<String, IValue>,
        which: &'static str,
    ) -> Result<Side, Error> {
        let params = plain_params(graph);
        let exported = program.exported_inputs()?.filter(|exported| exported.fixed.len() == params.len());
        if let Some(Inputs { inputs, fixed }) = exported {
            let mut first = 0;
            let taken = inputs.into_iter().map(|input| {
                let leaves = input.tree.leaves();
                first += leaves;
                let (name, is_positional) = (input.name, input.is_positional);
                let default = if leaves == 1 { fixed[first - 1].clone() } else { None };
                Taken { name, is_positional, tree: input.tree, is_open: false, first: first - leaves, default }
            });
            return Ok(Side { inputs: taken.collect(), fixed, is_exported: true, which });
        }
        let taken = params.iter().enumerate().map(|(first, param)| {
            let name = stem(&graph.name(*param)).to_owned();
            let default = contents.get(&graph.name(*param)).or_else(|| contents.get(&name)).cloned();
            Taken { name: Some(name), is_positional: true, tree: Tree::Leaf, is_open: true, first, default }
        });
        let inputs = taken.collect();
        Ok(Side { inputs, fixed: vec![None; params.len()], is_exported: false, which })
    }

    fn named(&self, name: &str) -> Option<usize> {
        self.inputs.iter().position(|input| input.name.as_deref() == Some(name))
    }

    /// For each input of this file, that of the other: by name if the other file has all names of
    /// the one with fewer inputs, else by position.
    fn partners(&self, other: &Side) -> Vec<Option<usize>> {
        let names = |side: &Side| side.inputs.iter().map(|input| input.name.clone()).collect::<Option<Vec<_>>>();
        let fewer = if self.inputs.len() < other.inputs.len() { (self, other) } else { (other, self) };
        let by_name = names(fewer.0).is_some_and(|names| names.iter().all(|name| fewer.1.named(name).is_some()));
        let partner = |(at, input): (usize, &Taken)| {
            let same_name = input.name.as_deref().and_then(|name| other.named(name));
            let same_place = other.inputs.get(at).filter(|other| other.is_positional && input.is_positional);
            if by_name || !input.is_positional { same_name } else { same_place.map(|_| at).or(same_name) }
        };
        self.inputs.iter().enumerate().map(partner).collect()
    }
}

/// `x` for `x.1`.
fn stem(name: &str) -> &str {
    match name.rsplit_once('.') {
        Some((stem, digits)) if !stem.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()) => stem,
        _ => name,
    }
}

/// The params that are no modules.
fn plain_params(graph: &Graph) -> Vec<Value> {
    graph.params(graph.root()).filter(|param| !is_object(graph, *param)).collect()
}

/// The types of the params that are no modules.
pub(crate) fn plain_types(graph: &Graph) -> Vec<Type> {
    plain_params(graph).into_iter().map(|param| graph.ty(param)).collect()
}

/// Inputs that only one graph reads and that were equal to another input when it was exported, in
/// words: the program may have taken one for the other.
pub(crate) fn unread(graphs: [&Graph; 2], recorded: &[IValue]) -> Vec<String> {
    let params = graphs.map(|graph| graph.params(graph.root()).collect::<Vec<Value>>());
    let reads = |which: usize, at: usize| params[which].get(at).is_some_and(|param| graphs[which].has_uses(*param));
    let is_same =
        |a: &IValue, b: &IValue| a.tensor().is_some() && differences(a, b, Tolerance::of(0.0, 0.0), "").is_empty();
    let mut found = Vec::new();
    for (at, value) in recorded.iter().enumerate() {
        let which = match (reads(0, at), reads(1, at)) {
            (false, true) => 0,
            (true, false) => 1,
            _ => continue,
        };
        if let Some(other) = (0..recorded.len()).find(|i| *i != at && reads(which, *i) && is_same(value, &recorded[*i]))
        {
            let file = ["first", "second"][which];
            let (name, other) = (graphs[0].name(params[0][at]), graphs[0].name(params[0][other]));
            found.push(format!("the {file} file does not read %{name}, which was %{other} when it was exported"));
        }
    }
    found
}

/// Matches the inputs of two files.
///
/// # Errors
/// One takes an input that the other neither takes nor has a value for.
pub(crate) fn agree(sides: [&Side; 2], graphs: [&Graph; 2]) -> Result<Agreed, Error> {
    // The file with the code leads: its containers are built from the params of the other.
    let lead = usize::from(sides[0].is_exported && !sides[1].is_exported);
    let (ours, theirs) = (sides[lead], sides[1 - lead]);
    let partners = ours.partners(theirs);
    let mut agreed = Agreed::default();
    for (input, partner) in ours.inputs.iter().zip(&partners) {
        match partner {
            Some(at) => agreed.pair(lead, (ours, input), (theirs, &theirs.inputs[*at]))?,
            None => agreed.single(lead, (ours, input), theirs)?,
        }
    }
    for (_, input) in theirs.inputs.iter().enumerate().filter(|(at, _)| !partners.contains(&Some(*at))) {
        agreed.single(1 - lead, (theirs, input), ours)?;
    }
    let is_as_it_was = |which: usize| {
        let in_order = agreed.slots.iter().enumerate().all(|(at, slot)| slot.params[which] == Some(at));
        in_order && agreed.slots.len() == plain_params(graphs[which]).len()
    };
    let holds_none = agreed.slots.iter().all(|slot| slot.held.is_none());
    agreed.is_same = holds_none && is_as_it_was(0) && is_as_it_was(1);
    Ok(agreed)
}

impl Agreed {
    /// An input that both files take.
    fn pair(
        &mut self,
        lead: usize,
        (ours, input): (&Side, &Taken),
        (theirs, other): (&Side, &Taken),
    ) -> Result<(), Error> {
        let first = self.slots.len();
        let is_built = input.is_open && other.tree != Tree::Leaf;
        if !is_built && !other.is_open && !fit(&input.tree, &other.tree) {
            return refuse(format_args!(
                "the inputs of the two files cannot be matched: `{}` has other parts in the {} file than in the {} one",
                input.name.as_deref().unwrap_or("an input"),
                ours.which,
                theirs.which,
            ));
        }
        let order = if is_built { (0..other.tree.leaves()).collect() } else { leaf_order(&input.tree, &other.tree) };
        for (at, leaf) in order.into_iter().enumerate() {
            let (a, b) = (input.first + at, other.first + leaf);
            let own = if is_built { None } else { ours.fixed[a].clone() };
            let held = own.clone().or_else(|| theirs.fixed[b].clone());
            let name = input.name.as_deref().or(other.name.as_deref()).unwrap_or("an input");
            self.note_fixed(name, (ours.which, &own), (theirs.which, &theirs.fixed[b]));
            let mut params = [Some(b), Some(b)];
            params[lead] = (!is_built).then_some(a);
            self.slots.push(Slot { params, held });
        }
        if is_built {
            self.built[lead].push(Built { param: input.first, tree: other.tree.clone(), first });
        }
        Ok(())
    }

    /// Notes a number that a file was exported for; None is what is left out.
    fn note_fixed(&mut self, name: &str, ours: (&str, &Option<IValue>), theirs: (&str, &Option<IValue>)) {
        let is_number = |value: &&IValue| !matches!(value, IValue::None);
        let both = (ours.1.as_ref().filter(is_number), theirs.1.as_ref().filter(is_number));
        let one = match both {
            (Some(a), Some(b)) if shown(a) != shown(b) => {
                let (first, second) = (ours.0, theirs.0);
                format!("the {first} file was made for {name} = {}, the {second} one for {}", shown(a), shown(b))
            }
            (Some(_), Some(_)) | (None, None) => return,
            (Some(value), None) => format!("the {} file was made for {name} = {} only", ours.0, shown(value)),
            (None, Some(value)) => format!("the {} file was made for {name} = {} only", theirs.0, shown(value)),
        };
        self.fixed.push(one);
    }

    /// An input that one file takes.
    fn single(&mut self, which: usize, (side, input): (&Side, &Taken), other: &Side) -> Result<(), Error> {
        let name = input.name.as_deref().unwrap_or("an input");
        for at in input.first..input.first + input.tree.leaves() {
            let held = side.fixed[at].clone().or_else(|| input.default.clone());
            let Some(held) = held else {
                return refuse(format_args!(
                    "the inputs of the two files cannot be matched: the {} file takes `{name}`, which has no default \
                     and is no input of the {} one",
                    side.which, other.which
                ));
            };
            self.left_out.push(format!("the {} file has no input {name}, so it is {}", other.which, shown(&held)));
            let mut params = [None, None];
            params[which] = Some(at);
            self.slots.push(Slot { params, held: Some(held) });
        }
        Ok(())
    }

    /// Gives both graphs the same params.
    ///
    /// # Errors
    /// The code takes a container that is not made of the inputs of the other file.
    pub(crate) fn apply(&self, graphs: [&mut Graph; 2]) -> Result<(), Error> {
        if self.is_same {
            return Ok(());
        }
        let old = [plain_params(graphs[0]), plain_params(graphs[1])];
        let known = |which: usize, slot: &Slot| {
            let param = old[which][slot.params[which]?];
            Some((graphs[which].ty(param), graphs[which].name(param)))
        };
        let known: Vec<[Option<(Type, String)>; 2]> =
            self.slots.iter().map(|slot| [known(0, slot), known(1, slot)]).collect();
        for [ours, theirs] in &known {
            let (Some((a, name)), Some((b, other))) = (ours, theirs) else { continue };
            if is_text(*a).zip(is_text(*b)).is_some_and(|(a, b)| a != b) {
                return refuse(format_args!(
                    "the inputs of the two files cannot be matched: `{name}` is {a} in the first file, `{other}` is \
                     {b} in the second"
                ));
            }
        }
        for (which, graph) in graphs.into_iter().enumerate() {
            self.apply_to(which, graph, &old[which], &known)?;
        }
        Ok(())
    }

    fn apply_to(
        &self,
        which: usize,
        graph: &mut Graph,
        old: &[Value],
        known: &[[Option<(Type, String)>; 2]],
    ) -> Result<(), Error> {
        let root = graph.root();
        let start = graph.first(root);
        let mut new = Vec::new();
        for (slot, known) in self.slots.iter().zip(known) {
            let own = slot.params[which].map(|at| old[at]);
            let ty = match (&known[which], &known[1 - which]) {
                // A number that the program was made for is a tensor in a trace.
                (Some((ty, _)), Some((other, _))) if slot.held.is_some() && other.is_tensor() => {
                    if ty.is_tensor() {
                        *ty
                    } else {
                        Type::tensor()
                    }
                }
                // What is optional in the code has a value in a program that was exported with one.
                (Some((ty, _)), Some((other, _))) if slot.held.is_none() => without_optional(*ty, *other),
                (Some((ty, _)), _) => *ty,
                // A part of a container: the code does not say of what sizes it is.
                (None, Some((ty, _))) if ty.is_tensor() => Type::tensor(),
                (None, Some((ty, _))) => *ty,
                (None, None) => Type::none(),
            };
            let param = graph.add_param(root, ty);
            if let Some(own) = own {
                graph.replace_all_uses(own, param);
                graph.move_name(own, param);
            } else if let Some((_, name)) = &known[1 - which] {
                name_as(graph, param, name);
            }
            new.push(param);
        }
        for built in &self.built[which] {
            self.build(graph, start, (built, old[built.param]), &new)?;
        }
        let params = graph.param_node(root);
        for value in old.iter().rev() {
            let at = graph.output_index(*value);
            graph.remove_output(params, at);
        }
        Ok(())
    }

    /// Builds a container from its parts.
    fn build(
        &self,
        graph: &mut Graph,
        start: Option<Node>,
        (built, old): (&Built, Value),
        new: &[Value],
    ) -> Result<(), Error> {
        let ty = graph.ty(old);
        let mut builder = Builder { graph, start, leaves: &new[built.first..], at: 0 };
        let Some(value) = builder.container(&built.tree, ty) else {
            let name = graph.name(old);
            return refuse(format_args!(
                "the inputs of the two files cannot be matched: `{name}` is {ty}, which is not made of the inputs of \
                 the other file"
            ));
        };
        graph.replace_all_uses(old, value);
        Ok(())
    }

    /// The recorded inputs of a file as params of these types take them; nothing if they do not
    /// fit.
    pub(crate) fn arranged(&self, types: &[Type], which: usize, recorded: Vec<IValue>) -> Option<Vec<IValue>> {
        let mut parts: BTreeMap<usize, IValue> = BTreeMap::new();
        for built in &self.built[which] {
            let mut leaves = Vec::new();
            take_apart(recorded.get(built.param)?, &built.tree, &mut leaves)?;
            parts.extend(leaves.into_iter().enumerate().map(|(i, leaf)| (built.first + i, leaf)));
        }
        let value = |(at, slot): (usize, &Slot)| match slot.params[which] {
            Some(param) => recorded.get(param).cloned(),
            None => parts.get(&at).cloned().or_else(|| slot.held.clone()),
        };
        if self.slots.is_empty() {
            return Some(recorded);
        }
        let fitted = |(ty, value): (&Type, Option<IValue>)| Some(as_tensor(*ty, value?));
        types.iter().zip(self.slots.iter().enumerate().map(value)).map(fitted).collect()
    }

    /// Gives generated inputs the values that are held.
    pub(crate) fn hold(&self, graph: &Graph, inputs: &mut [IValue]) {
        let all: Vec<Value> = graph.params(graph.root()).collect();
        let plain = (0..all.len()).filter(|at| !is_object(graph, all[*at]));
        for (at, slot) in plain.zip(&self.slots) {
            if let (Some(held), Some(input)) = (&slot.held, inputs.get_mut(at)) {
                *input = as_tensor(graph.ty(all[at]), held.clone());
            }
        }
    }
}

/// The type of an optional value that the other file always has.
fn without_optional(ty: Type, other: Type) -> Type {
    match (ty.kind(), other.kind()) {
        (TypeKind::Optional(_), TypeKind::Optional(_)) => ty,
        (TypeKind::Optional(inner), _) => *inner,
        _ => ty,
    }
}

/// Whether a value of a type is text; None may stand for it.
fn is_text(ty: Type) -> Option<bool> {
    match ty.kind() {
        TypeKind::Optional(inner) => is_text(*inner),
        TypeKind::Simple(Simple::Str) => Some(true),
        TypeKind::Simple(Simple::None | Simple::Any) => None,
        _ => Some(false),
    }
}

/// A number as a tensor without dimensions where a tensor is taken.
fn as_tensor(ty: Type, value: IValue) -> IValue {
    let dtype = match value {
        IValue::Bool(_) => DType::Bool,
        IValue::Int(_) => DType::Long,
        IValue::Float(_) => DType::Float,
        _ => return value,
    };
    match value.scalar() {
        Some(number) if ty.is_tensor() => IValue::Tensor(Tensor::scalar(number, dtype, Precision::Typed)),
        _ => value,
    }
}

/// Names a value unless the name is taken: contents are found by names.
fn name_as(graph: &mut Graph, value: Value, name: &str) {
    let is_number = name.bytes().all(|byte| byte.is_ascii_digit());
    if !is_number && graph.value_named(name.as_bytes()).is_none() {
        graph.set_name(value, name.as_bytes());
    }
}

fn shown(value: &IValue) -> String {
    match value {
        IValue::None => "None".to_owned(),
        other => crate::verdicts::summary(other),
    }
}

/// Whether two containers have as many parts, and dicts the same keys.
fn fit(a: &Tree, b: &Tree) -> bool {
    if let (Tree::Dict(ours, parts), Tree::Dict(theirs, others)) = (a, b) {
        let other = |key: &Key| theirs.iter().position(|their| their == key).map(|at| &others[at]);
        return ours.len() == theirs.len()
            && ours.iter().zip(parts).all(|(key, part)| other(key).is_some_and(|other| fit(part, other)));
    }
    let (ours, theirs) = (a.parts(), b.parts());
    (*a == Tree::Leaf) == (*b == Tree::Leaf)
        && ours.len() == theirs.len()
        && ours.iter().zip(theirs).all(|(a, b)| fit(a, b))
}

/// For each leaf of the first tree, that of the second: keys of dicts may be in another order.
fn leaf_order(a: &Tree, b: &Tree) -> Vec<usize> {
    fn visit(a: &Tree, b: &Tree, first: usize, order: &mut Vec<usize>) {
        if *a == Tree::Leaf {
            return order.push(first);
        }
        let start = |at: usize| first + b.parts()[..at].iter().map(Tree::leaves).sum::<usize>();
        for (at, part) in a.parts().iter().enumerate() {
            let other = match (a, b) {
                (Tree::Dict(ours, _), Tree::Dict(theirs, _)) => theirs.iter().position(|key| *key == ours[at]),
                _ => Some(at),
            };
            if let Some(other) = other {
                visit(part, &b.parts()[other], start(other), order);
            }
        }
    }
    let mut order = Vec::new();
    visit(a, b, 0, &mut order);
    order
}

/// The leaves of a value, if it nests as the tree does.
fn take_apart(value: &IValue, tree: &Tree, leaves: &mut Vec<IValue>) -> Option<()> {
    let parts: Vec<IValue> = match (tree, value) {
        (Tree::Leaf, leaf) => {
            leaves.push(leaf.clone());
            return Some(());
        }
        (Tree::Dict(keys, _), IValue::Dict(dict)) => {
            let dict = dict.borrow();
            let of = |key: &Key| dict.get(&ivalue::Key(value_of(key))).cloned();
            keys.iter().map(of).collect::<Option<_>>()?
        }
        (_, IValue::List(items)) => items.borrow().iter().cloned().collect(),
        (_, IValue::Tuple(items)) => items.to_vec(),
        _ => return None,
    };
    let trees = tree.parts();
    (trees.len() == parts.len()).then_some(())?;
    parts.iter().zip(trees).try_for_each(|(part, tree)| take_apart(part, tree, leaves))
}

fn value_of(key: &Key) -> IValue {
    match key {
        Key::Text(text) => IValue::Str(text.as_str().into()),
        Key::Int(number) => IValue::Int(*number),
    }
}

/// The type of the keys of a dict.
fn ty_of_keys(ty: Type) -> Option<Type> {
    if let TypeKind::Dict(key, _) = ty.kind() { Some(*key) } else { None }
}

/// Builds containers at the start of a graph.
struct Builder<'a> {
    graph: &'a mut Graph,
    start: Option<Node>,
    leaves: &'a [Value],
    at: usize,
}

impl Builder<'_> {
    /// The container of a type; nothing if the type has other parts than the tree.
    fn container(&mut self, tree: &Tree, whole: Type) -> Option<Value> {
        if *tree == Tree::Leaf {
            self.at += 1;
            return self.leaves.get(self.at - 1).copied();
        }
        let (kind, types): (Symbol, Vec<Type>) = match whole.kind() {
            TypeKind::Optional(inner) => return self.container(tree, *inner),
            TypeKind::List(element) => (prim::LIST_CONSTRUCT, vec![*element; tree.parts().len()]),
            TypeKind::Dict(_, value) => (prim::DICT_CONSTRUCT, vec![*value; tree.parts().len()]),
            _ => (prim::TUPLE_CONSTRUCT, whole.tuple_elements().filter(|types| types.len() == tree.parts().len())?),
        };
        let mut operands = Vec::new();
        for (i, (part, ty)) in tree.parts().iter().zip(types).enumerate() {
            if kind == prim::DICT_CONSTRUCT {
                let Tree::Dict(keys, _) = tree else { return None };
                operands.push(self.key(&keys[i], ty_of_keys(whole))?);
            }
            operands.push(self.container(part, ty)?);
        }
        let node = self.graph.create_op(kind, &operands, whole);
        self.place(node);
        self.graph.single_output(node)
    }

    /// A constant; nothing if the dict has keys of another type.
    fn key(&mut self, key: &Key, ty: Option<Type>) -> Option<Value> {
        let (value, own) = match key {
            Key::Text(text) => (Attribute::Str(text.as_bytes().into()), Type::simple(Simple::Str)),
            Key::Int(number) => (Attribute::Int(*number), Type::int()),
        };
        (ty == Some(own)).then_some(())?;
        let node = self.graph.create_op(prim::CONSTANT, &[], own);
        self.graph.set_attribute(node, attr::VALUE, value);
        self.place(node);
        self.graph.single_output(node)
    }

    fn place(&mut self, node: Node) {
        match self.start {
            Some(start) => self.graph.insert_before(start, node),
            None => self.graph.append(self.graph.root(), node),
        }
    }
}
