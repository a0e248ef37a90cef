//! Contents given with `--bind` and `--bind-dir`: values that the text of a graph omits or rounds.
//!
//! Bindable values are collected once, under the names that options use: `w`, `self.conv.weight`,
//! `prim::fork_0/%w`, `%list[1]`. A name without a path resolves to the graph's own value, if there
//! is one; else it must occur in exactly one section.

use crate::Workspace;
use crate::error::{Error, refuse};
use crate::given_values::{is_object, single, tensors_of};
use crate::options::RunOptions;
use crate::plain_values;
use crate::settings::{BIND, BIND_DIR, REPLAY};
use jitopt_core::interpreter::content_names::{Content, all_graphs, contents, part_name};
use jitopt_core::interpreter::exact_literals::may_be_rounded;
use jitopt_core::interpreter::literal_values::{self, is_unshaped, spelled};
use jitopt_core::interpreter::{Environment, IValue, Reason};
use jitopt_core::ir::{Attribute, Graph, Node, Value};
use jitopt_core::log::did_you_mean;
use jitopt_core::symbol::{attr, prim};
use jitopt_core::tensor::{Precision, Tensor};
use jitopt_core::types::{Type, TypeKind};
use jitopt_judge::sharing::Copier;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Maximum number of names that an error lists.
const MOST_LISTED: usize = 8;

/// The bindable values of a graph.
pub struct Bindable<'g> {
    graphs: Vec<(String, &'g Graph)>,
    known: BTreeMap<String, Known>,
    /// Objects that are passed to calls, so that any attribute of them may be read.
    open: Vec<String>,
}

/// A bindable value.
struct Known {
    ty: Type,
    why: Why,
}

#[derive(PartialEq)]
enum Why {
    /// A parameter.
    Param,
    /// The text omits it.
    Hidden,
    /// The text rounds it.
    Rounded,
    /// The text shows its only element, but not its number of dimensions.
    Unshaped,
}

/// The resolution of a name in an option.
enum Lookup {
    Found(String),
    /// Several sections have a value of this name.
    Ambiguous(Vec<String>),
    Missing,
}

impl<'g> Bindable<'g> {
    /// Collects the bindable values of a graph and its callees.
    pub fn of(graph: &'g Graph, callees: &'g BTreeMap<String, Graph>) -> Bindable<'g> {
        let graphs = all_graphs(graph, callees);
        let mut found = Bindable { graphs, known: BTreeMap::new(), open: Vec::new() };
        let mut objects = BTreeMap::new();
        for param in graph.params(graph.root()) {
            match is_object(graph, param) {
                true => drop(objects.insert(param, graph.name(param))),
                false => found.add(graph.name(param), graph.ty(param), Why::Param),
            }
        }
        let all = found.graphs.clone();
        all.iter()
            .for_each(|(path, graph)| contents(path, graph).iter().for_each(|content| found.add_content(content)));
        found.add_attributes(graph, objects, "");
        for (path, callee) in all.iter().filter(|(path, _)| callees.contains_key(path.trim_end_matches('/'))) {
            found.add_attributes(callee, BTreeMap::new(), path);
        }
        found
    }

    fn add(&mut self, name: String, ty: Type, why: Why) {
        self.known.entry(name).or_insert(Known { ty, why });
    }

    fn add_content(&mut self, content: &Content<'_>) {
        let ty = match &content.attribute {
            _ if content.is_whole => content.graph.ty(content.constant),
            Attribute::Opaque(text) if text.starts_with('[') => Type::list(Type::tensor()),
            _ => Type::tensor(),
        };
        match literal_values::of(&Environment::default(), &content.attribute, ty, "") {
            Err(stop) if matches!(stop.reason, Reason::Unbound(_)) && !has_parts(&content.attribute) => {
                self.add(content.name.clone(), ty, Why::Hidden);
            }
            Ok(_) if !content.is_whole && is_list(content) && is_unshaped(&content.attribute) => {
                self.add(content.name.clone(), ty, Why::Unshaped);
            }
            Ok(_) if matches!(&content.attribute, Attribute::Tensor(text) if may_be_rounded(text)) => {
                self.add(content.name.clone(), ty, Why::Rounded);
            }
            _ => {}
        }
    }

    /// Adds the attributes that a graph and its sections read from objects. Sections receive
    /// objects under other names.
    fn add_attributes(&mut self, graph: &Graph, mut objects: BTreeMap<Value, String>, path: &str) {
        for node in graph.all_nodes() {
            let output = graph.single_output(node);
            let object = graph.inputs(node).next().and_then(|value| objects.get(&value)).cloned();
            match (graph.kind(node), output, object) {
                (prim::GET_ATTR, Some(output), Some(object)) => {
                    let name = format!("{object}.{}", text_of(graph, node));
                    match is_object(graph, output) {
                        true => drop(objects.insert(output, name)),
                        false => self.add(name, graph.ty(output), Why::Hidden),
                    }
                }
                (prim::CONSTANT, Some(output), _) if is_object(graph, output) => {
                    let name = graph.name(output);
                    let name = if path.is_empty() { name } else { format!("{path}%{name}") };
                    objects.insert(output, name);
                }
                _ => self.open.extend(graph.inputs(node).filter_map(|value| objects.get(&value).cloned())),
            }
            if let Some(inner) = graph.subgraph(node) {
                let passed = inner.params(inner.root()).zip(graph.inputs(node));
                let passed = passed.filter_map(|(param, value)| Some((param, objects.get(&value)?.clone()))).collect();
                let inside = self.graphs.iter().find(|(_, graph)| std::ptr::eq(*graph, inner));
                let inside = inside.map_or(String::new(), |(path, _)| path.clone());
                self.add_attributes(inner, passed, &inside);
            }
        }
    }

    /// Whether a name is bindable as written.
    pub(crate) fn is_known(&self, name: &str) -> bool {
        self.known.contains_key(name)
    }

    /// Whether a name is bindable, has bindable elements or attributes, or is an attribute of an
    /// open object.
    pub fn takes(&self, name: &str) -> bool {
        let below = |object: &String| name.strip_prefix(object.as_str()).is_some_and(|rest| rest.starts_with('.'));
        self.is_known(name) || self.has_below(name) || self.open.iter().any(below)
    }

    fn has_below(&self, name: &str) -> bool {
        self.known.keys().any(|known| is_below(known, name))
    }

    fn look_up(&self, typed: &str) -> Lookup {
        let name = typed.strip_prefix('%').unwrap_or(typed);
        if self.takes(name) {
            return Lookup::Found(name.to_owned());
        }
        let base = name.split('[').next().unwrap_or(name);
        let is_ours = self.graphs.first().is_some_and(|(_, graph)| graph.value_named(base.as_bytes()).is_some());
        if is_ours || name.contains("/%") {
            return Lookup::Missing;
        }
        let mut found = self.in_sections(name);
        match found.len() {
            0 => Lookup::Missing,
            1 => Lookup::Found(found.remove(0)),
            _ => Lookup::Ambiguous(found),
        }
    }

    /// The values of this name in sections.
    fn in_sections(&self, name: &str) -> Vec<String> {
        let of_section = |known: &String| {
            let (path, last) = known.rsplit_once("/%")?;
            (last == name || is_below(last, name)).then(|| format!("{path}/%{name}"))
        };
        let found: BTreeSet<String> = self.known.keys().filter_map(of_section).collect();
        found.into_iter().collect()
    }

    /// The value that an option names, or why there is none.
    fn find(&self, option: &str, typed: &str) -> Result<String, Error> {
        match self.look_up(typed) {
            Lookup::Found(name) => Ok(name),
            Lookup::Ambiguous(names) => ambiguous(option, typed, &names),
            Lookup::Missing => self.missing(option, typed),
        }
    }

    fn missing(&self, option: &str, typed: &str) -> Result<String, Error> {
        let name = typed.strip_prefix('%').unwrap_or(typed);
        let (path, last) = name.rsplit_once("/%").map_or(("", name), |(path, last)| (path, last));
        let elsewhere = listed_names(&self.in_sections(last));
        let near = did_you_mean(name, self.known.keys().map(String::as_str));
        let near = match (elsewhere.is_empty(), near) {
            (false, _) => format!("; did you mean {elsewhere}?"),
            (true, Some(near)) => format!("; did you mean `{}`?", spelled(near)),
            (true, None) => String::new(),
        };
        let name = spelled(name);
        let graph = self.graphs.iter().find(|(known, _)| known.trim_end_matches('/') == path);
        let Some((_, graph)) = graph else { return refuse(format_args!("{option}: there is no section {path}{near}")) };
        let base = last.split('[').next().unwrap_or(last);
        match graph.value_named(base.as_bytes()).and_then(|value| graph.definer(value)) {
            Some(node) if graph.kind(node) == prim::CONSTANT => refuse(format_args!(
                "{option}: the text contains the value of {name}; use {REPLAY} to override it{near}"
            )),
            Some(_) => refuse(format_args!("{option}: {name} is computed; use {REPLAY} to override it{near}")),
            None => refuse(format_args!("{option}: there is no value {name}{near}")),
        }
    }

    /// Whether there are no bindable values apart from parameters.
    fn is_empty(&self) -> bool {
        self.open.is_empty() && self.known.values().all(|known| known.why == Why::Param)
    }

    /// Reads the text after `=` of an option, or a file: the content of a value, of the elements of
    /// a list, or of the attributes of an object.
    fn read(
        &self,
        option: &str,
        name: &str,
        text: &str,
        workspace: &Workspace<'_>,
    ) -> Result<Vec<(String, Given)>, Error> {
        let one = |given: Given| Ok(vec![(name.to_owned(), given)]);
        if let Some(Known { ty, .. }) = self.known.get(name) {
            if let Some(value) = plain_values::parse(text, *ty) {
                return one(Given::Plain(value));
            }
            if plain_values::is_plain(*ty) {
                return one(Given::Plain(plain_values::from_file(option, text, *ty, workspace)?));
            }
            if matches!(ty.kind(), TypeKind::List(_)) {
                return one(Given::List(listed(name, text, workspace)?));
            }
        }
        if self.known.contains_key(name) || !self.has_below(name) {
            return one(Given::One(single(last_name(name), text, workspace)?));
        }
        let is_list = self.known.keys().any(|known| known.strip_prefix(name).is_some_and(|rest| rest.starts_with('[')));
        let path = |key: &str| match (key, place(key)) {
            ("", _) => name.to_owned(),
            (_, Some(i)) if is_list => part_name(name, i),
            _ => format!("{name}.{key}"),
        };
        Ok(tensors_of(text, workspace)?.into_iter().map(|(key, tensor)| (path(&key), Given::One(tensor))).collect())
    }

    /// Assigns the files of a directory to values by their names; files of sections are in
    /// subdirectories named after the sections.
    fn in_folder(
        &self,
        option: &str,
        folder: &Path,
        path: &str,
        workspace: &Workspace<'_>,
    ) -> Result<Vec<(String, Given)>, Error> {
        let entries = std::fs::read_dir(workspace.path(folder))
            .or_else(|error| refuse(format_args!("cannot read `{}`: {error}", folder.display())))?;
        let mut names: Vec<String> = entries.flatten().map(|e| e.file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        let mut found = Vec::new();
        for name in names {
            let (file, inner) = (folder.join(&name), format!("{path}{name}/"));
            if workspace.path(&file).is_dir() {
                if self.known.keys().any(|known| known.starts_with(&inner)) {
                    found.extend(self.in_folder(option, &file, &inner, workspace)?);
                }
                continue;
            }
            let Some((value, "npy" | "npz" | "safetensors")) = name.rsplit_once('.') else { continue };
            let typed = if path.is_empty() { value.to_owned() } else { format!("{path}%{value}") };
            match self.look_up(&typed) {
                Lookup::Found(name) if self.is_known(&name) || self.has_below(&name) => {
                    let given = self.read(option, &name, &file.to_string_lossy(), workspace)?;
                    found.extend(given.into_iter().filter(|(name, _)| self.takes(name)));
                }
                Lookup::Ambiguous(names) => drop(ambiguous(&format!("{option}: {name}"), &typed, &names)?),
                _ => {}
            }
        }
        Ok(found)
    }

    /// Notes constants that the text rounds, and constants whose number of dimensions is unknown.
    fn note_guesses(&self, bound: &BTreeMap<String, IValue>, workspace: &mut Workspace<'_>) {
        let names = |why: Why| -> Vec<String> {
            let of_kind = self.known.iter().filter(|(name, known)| known.why == why && !bound.contains_key(*name));
            of_kind.map(|(name, _)| spelled(name)).collect()
        };
        if let Some((first, others)) = first_of(&names(Why::Rounded)) {
            workspace.note(format!(
                "the text rounds the constant {first}{others}; bind the exact values with {BIND} '{first}=FILE'"
            ));
        }
        if let Some((first, others)) = first_of(&names(Why::Unshaped)) {
            workspace.note(format!("the text does not contain the rank of {first}{others}; rank 1 is assumed; bind the tensor with {BIND} '{first}=FILE'"
            ));
        }
    }
}

/// The first name, and a text that counts the others.
fn first_of(names: &[String]) -> Option<(&String, String)> {
    let others = if names.len() > 1 { format!(" and {} more", names.len() - 1) } else { String::new() };
    Some((names.first()?, others))
}

fn is_list(content: &Content<'_>) -> bool {
    matches!(content.graph.ty(content.constant).kind(), TypeKind::List(_))
}

/// Whether `known` is an element or attribute of `name`.
fn is_below(known: &str, name: &str) -> bool {
    known.strip_prefix(name).is_some_and(|rest| rest.starts_with(['.', '[']))
}

/// Whether a constant is a list with elements in the text: those are bound individually.
fn has_parts(attribute: &Attribute) -> bool {
    matches!(attribute, Attribute::Opaque(text) if jitopt_core::text::printed_list::parts(text).is_some())
}

fn ambiguous(option: &str, typed: &str, names: &[String]) -> Result<String, Error> {
    let name = typed.rsplit('%').next().unwrap_or(typed);
    refuse(format_args!("{option}: %{name} is ambiguous: several sections define it; use {}", listed_names(names)))
}

/// `a` or `b`; long lists are truncated.
fn listed_names(names: &[String]) -> String {
    let mut listed: Vec<String> = names.iter().take(MOST_LISTED).map(|name| format!("`{}`", spelled(name))).collect();
    if names.len() > MOST_LISTED {
        listed.push(format!("{} others", names.len() - MOST_LISTED));
    }
    listed.join(" or ")
}

/// The last component of a path.
fn last_name(name: &str) -> &str {
    name.rsplit_once("/%").map_or(name, |(_, last)| last)
}

/// Contents by name: those of the file of the graph, and those that options bind, which override
/// them.
pub(crate) fn bindings(
    args: &RunOptions,
    graph: &Graph,
    env: &Environment,
    mut contents: BTreeMap<String, IValue>,
    workspace: &mut Workspace<'_>,
) -> Result<BTreeMap<String, IValue>, Error> {
    let bindable = Bindable::of(graph, &env.callees);
    let mut bindings = BTreeMap::new();
    for given in &args.values.bind {
        let option = format!("{BIND} {given}");
        let name = bindable.find(&option, given.name())?;
        for (name, given) in bindable.read(&option, &name, given.content(), workspace)? {
            let name = bindable.find(&option, &name)?;
            if bindings.insert(name.clone(), given.value(env)).is_some() {
                return refuse(format_args!("{option}: {} is bound twice", spelled(&name)));
            }
        }
    }
    if let Some(folder) = &args.values.bind_dir {
        let option = format!("{BIND_DIR} {}", folder.display());
        let found = bindable.in_folder(&option, folder, "", workspace)?;
        if found.is_empty() && bindable.is_empty() {
            workspace.note(format!("{option}: nothing to bind: the text contains all contents of the graph"));
        } else if found.is_empty() {
            return refuse(format_args!("{option}: no file in this directory is named after a bindable value"));
        }
        let mut of_folder = BTreeMap::new();
        for (name, given) in found {
            if of_folder.insert(name.clone(), given.value(env)).is_some() {
                return refuse(format_args!("{option}: two files in this directory bind {}", spelled(&name)));
            }
        }
        // Individual bindings override files of the directory.
        of_folder.extend(std::mem::take(&mut bindings));
        bindings = of_folder;
    }
    if env.precision != Precision::Typed {
        let mut copier = Copier::new(env.precision);
        contents.values_mut().for_each(|value| *value = copier.copy(value));
    }
    contents.extend(bindings);
    bindable.note_guesses(&contents, workspace);
    Ok(contents)
}

/// The source of a value's content.
enum Given {
    Plain(IValue),
    One(Tensor),
    List(Vec<Tensor>),
}

impl Given {
    fn value(self, env: &Environment) -> IValue {
        let kept = |tensor: Tensor| IValue::Tensor(tensor.converted(tensor.dtype(), env.precision));
        match self {
            Given::Plain(value) => value,
            Given::One(tensor) => kept(tensor),
            Given::List(tensors) => IValue::list(tensors.into_iter().map(kept).collect::<Vec<_>>()),
        }
    }
}

/// The list index that a key names: `0`, optionally after a name and a dot, as in files written by
/// `--outputs`; NumPy's default is `arr_0`.
fn place(key: &str) -> Option<usize> {
    let after_dot = key.rsplit_once('.').map(|(_, last)| last);
    after_dot.or_else(|| key.strip_prefix("arr_")).unwrap_or(key).parse().ok()
}

/// The tensors of a list, in order of their indices.
fn listed(name: &str, file: &str, workspace: &Workspace<'_>) -> Result<Vec<Tensor>, Error> {
    let mut places: BTreeMap<usize, Tensor> = BTreeMap::new();
    let name = spelled(name);
    for (key, tensor) in tensors_of(file, workspace)? {
        let Some(place) = place(&key) else {
            let found =
                if key.is_empty() { "the file has an unnamed tensor".into() } else { format!("the file has `{key}`") };
            return refuse(format_args!(
                "`{file}`: {name} is a list, whose tensors must be named `0`, `1`, …; {found}"
            ));
        };
        if places.insert(place, tensor).is_some() {
            return refuse(format_args!("`{file}` has two tensors for element {place} of {name}"));
        }
    }
    if let Some(gap) = places.keys().enumerate().find(|(i, place)| i != *place).map(|(i, _)| i) {
        return refuse(format_args!("`{file}` has no tensor for element {gap} of {name}, but a later one"));
    }
    Ok(places.into_values().collect())
}

fn text_of(graph: &Graph, node: Node) -> String {
    match graph.attribute(node, attr::NAME) {
        Some(Attribute::Str(name)) => String::from_utf8_lossy(name).into_owned(),
        _ => String::new(),
    }
}
