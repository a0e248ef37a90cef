//! Contents that the user gives with `--bind` and `--bind-dir`: what the text of a graph does not show, or shows in few digits.
//!
//! What may be bound is found once, under the names that flags spell: `w`, `self.conv.weight`, `prim::fork_0/%w`, `%list[1]`. A name without
//! a path is the graph's own value, where it has one; else it must be in one section alone.

use crate::World;
use crate::arguments::RunArgs;
use crate::given_values::{is_object, single, tensors_of};
use crate::optimise::{Refusal, refuse};
use crate::plain_values;
use jitopt_core::interpreter::content_names::{Content, all_graphs, contents, part_name};
use jitopt_core::interpreter::exact_literals::may_be_rounded;
use jitopt_core::interpreter::literal_values::{self, is_unshaped, spelled};
use jitopt_core::interpreter::{Environment, IValue, Reason};
use jitopt_core::ir::{Attribute, Graph, Node, Value};
use jitopt_core::log::did_you_mean;
use jitopt_core::symbol::{attr, prim};
use jitopt_core::tensor::Tensor;
use jitopt_core::types::{Type, TypeKind};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Most names that an error lists.
const MOST_LISTED: usize = 8;

/// What there is to bind.
pub(crate) struct Bindable<'g> {
    graphs: Vec<(String, &'g Graph)>,
    known: BTreeMap<String, Known>,
    /// Objects that are passed on, of which anything may be asked.
    open: Vec<String>,
}

/// Something that may be bound.
struct Known {
    ty: Type,
    why: Why,
}

#[derive(PartialEq)]
enum Why {
    /// It is an input.
    Param,
    /// The text does not show it.
    Hidden,
    /// The text has a few digits of it.
    Rounded,
    /// The text has its one element, and not how many dimensions it has.
    Unshaped,
}

/// What a name in a flag stands for.
enum Lookup {
    Found(String),
    /// Several sections have such a value.
    Ambiguous(Vec<String>),
    Missing,
}

impl<'g> Bindable<'g> {
    pub(crate) fn of(graph: &'g Graph, callees: &'g BTreeMap<String, Graph>) -> Bindable<'g> {
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

    /// The attributes that a graph and its sections ask objects for. Sections are handed objects under other names.
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
                let handed = inner.params(inner.root()).zip(graph.inputs(node));
                let handed = handed.filter_map(|(param, value)| Some((param, objects.get(&value)?.clone()))).collect();
                let inside = self.graphs.iter().find(|(_, graph)| std::ptr::eq(*graph, inner));
                let inside = inside.map_or(String::new(), |(path, _)| path.clone());
                self.add_attributes(inner, handed, &inside);
            }
        }
    }

    /// Whether a name is something that may be bound, as it stands.
    pub(crate) fn is_known(&self, name: &str) -> bool {
        self.known.contains_key(name)
    }

    /// Whether it is known, has parts or attributes that are, or may be asked of an object.
    pub(crate) fn takes(&self, name: &str) -> bool {
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

    /// The values of sections that are called so.
    fn in_sections(&self, name: &str) -> Vec<String> {
        let of_section = |known: &String| {
            let (path, last) = known.rsplit_once("/%")?;
            (last == name || is_below(last, name)).then(|| format!("{path}/%{name}"))
        };
        let found: BTreeSet<String> = self.known.keys().filter_map(of_section).collect();
        found.into_iter().collect()
    }

    /// What a flag names, or why there is no such thing.
    fn find(&self, flag: &str, typed: &str) -> Result<String, Refusal> {
        match self.look_up(typed) {
            Lookup::Found(name) => Ok(name),
            Lookup::Ambiguous(names) => ambiguous(flag, typed, &names),
            Lookup::Missing => self.missing(flag, typed),
        }
    }

    fn missing(&self, flag: &str, typed: &str) -> Result<String, Refusal> {
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
        let Some((_, graph)) = graph else { return refuse(format_args!("{flag}: there is no section {path}{near}")) };
        let base = last.split('[').next().unwrap_or(last);
        match graph.value_named(base.as_bytes()).and_then(|value| graph.definer(value)) {
            Some(node) if graph.kind(node) == prim::CONSTANT => refuse(format_args!(
                "{flag}: the text shows what {name} is; --replay puts another value in its place{near}"
            )),
            Some(_) => {
                refuse(format_args!("{flag}: {name} is computed; --replay puts another value in its place{near}"))
            }
            None => refuse(format_args!("{flag}: there is no value {name}{near}")),
        }
    }

    /// Whether nothing is hidden, inputs apart.
    fn is_empty(&self) -> bool {
        self.open.is_empty() && self.known.values().all(|known| known.why == Why::Param)
    }

    /// What is behind `=` of a flag, or in a file, for a value, for the parts of a list, or the attributes of an object.
    fn read(&self, flag: &str, name: &str, text: &str, world: &World<'_>) -> Result<Vec<(String, Given)>, Refusal> {
        let one = |given: Given| Ok(vec![(name.to_owned(), given)]);
        if let Some(Known { ty, .. }) = self.known.get(name) {
            if let Some(value) = plain_values::parse(text, *ty) {
                return one(Given::Plain(value));
            }
            if plain_values::is_plain(*ty) {
                return one(Given::Plain(plain_values::from_file(flag, text, *ty, world)?));
            }
            if matches!(ty.kind(), TypeKind::List(_)) {
                return one(Given::List(listed(name, text, world)?));
            }
        }
        if self.known.contains_key(name) || !self.has_below(name) {
            return one(Given::One(single(last_name(name), text, world)?));
        }
        let is_list = self.known.keys().any(|known| known.strip_prefix(name).is_some_and(|rest| rest.starts_with('[')));
        let path = |key: &str| match (key, place(key)) {
            ("", _) => name.to_owned(),
            (_, Some(i)) if is_list => part_name(name, i),
            _ => format!("{name}.{key}"),
        };
        Ok(tensors_of(text, world)?.into_iter().map(|(key, tensor)| (path(&key), Given::One(tensor))).collect())
    }

    /// What the files of a folder are for, by their names; those of sections are in folders that are named as the sections.
    fn in_folder(
        &self,
        flag: &str,
        folder: &Path,
        path: &str,
        world: &World<'_>,
    ) -> Result<Vec<(String, Given)>, Refusal> {
        let entries = std::fs::read_dir(world.path(folder))
            .or_else(|error| refuse(format_args!("cannot read `{}`: {error}", folder.display())))?;
        let mut names: Vec<String> = entries.flatten().map(|e| e.file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        let mut found = Vec::new();
        for name in names {
            let (file, inner) = (folder.join(&name), format!("{path}{name}/"));
            if world.path(&file).is_dir() {
                if self.known.keys().any(|known| known.starts_with(&inner)) {
                    found.extend(self.in_folder(flag, &file, &inner, world)?);
                }
                continue;
            }
            let Some((value, "npy" | "npz" | "safetensors")) = name.rsplit_once('.') else { continue };
            let typed = if path.is_empty() { value.to_owned() } else { format!("{path}%{value}") };
            match self.look_up(&typed) {
                Lookup::Found(name) if self.is_known(&name) || self.has_below(&name) => {
                    let given = self.read(flag, &name, &file.to_string_lossy(), world)?;
                    found.extend(given.into_iter().filter(|(name, _)| self.takes(name)));
                }
                Lookup::Ambiguous(names) => drop(ambiguous(&format!("{flag}: {name}"), &typed, &names)?),
                _ => {}
            }
        }
        Ok(found)
    }

    /// Says which constants have few digits, and which unknown dimensions.
    fn note_guesses(&self, bound: &BTreeMap<String, IValue>, world: &mut World<'_>) {
        let names = |why: Why| -> Vec<String> {
            let of_kind = self.known.iter().filter(|(name, known)| known.why == why && !bound.contains_key(*name));
            of_kind.map(|(name, _)| spelled(name)).collect()
        };
        if let Some((first, others)) = first_of(&names(Why::Rounded)) {
            world.say(&format!(
                "note: the text rounds the constant {first}{others} to a few digits: --bind '{first}=FILE' gives all of them"
            ));
        }
        if let Some((first, others)) = first_of(&names(Why::Unshaped)) {
            world.say(&format!(
                "note: the text does not tell how many dimensions {first}{others} has, and one is taken: --bind '{first}=FILE' tells it"
            ));
        }
    }
}

/// The first of some names, and how many more there are.
fn first_of(names: &[String]) -> Option<(&String, String)> {
    let others = if names.len() > 1 { format!(" and {} more", names.len() - 1) } else { String::new() };
    Some((names.first()?, others))
}

fn is_list(content: &Content<'_>) -> bool {
    matches!(content.graph.ty(content.constant).kind(), TypeKind::List(_))
}

/// Whether something is a part or an attribute of what is called `name`.
fn is_below(known: &str, name: &str) -> bool {
    known.strip_prefix(name).is_some_and(|rest| rest.starts_with(['.', '[']))
}

/// Whether a constant is a list of which the text shows parts: those are bound one by one.
fn has_parts(attribute: &Attribute) -> bool {
    matches!(attribute, Attribute::Opaque(text) if jitopt_core::text::printed_list::parts(text).is_some())
}

fn ambiguous(flag: &str, typed: &str, names: &[String]) -> Result<String, Refusal> {
    let name = typed.rsplit('%').next().unwrap_or(typed);
    refuse(format_args!(
        "{flag}: several sections have a %{name}, each its own: name one of them, {}",
        listed_names(names)
    ))
}

/// `a` or `b`, not all of them where they are many.
fn listed_names(names: &[String]) -> String {
    let mut listed: Vec<String> = names.iter().take(MOST_LISTED).map(|name| format!("`{}`", spelled(name))).collect();
    if names.len() > MOST_LISTED {
        listed.push(format!("{} others", names.len() - MOST_LISTED));
    }
    listed.join(" or ")
}

/// What stands behind the path.
fn last_name(name: &str) -> &str {
    name.rsplit_once("/%").map_or(name, |(_, last)| last)
}

/// `%name=FILE`, `%name=VALUE` or `section/%name=FILE`
fn named(text: &str) -> Result<(&str, &str), Refusal> {
    let parts = text.split_once('=').filter(|(name, given)| !given.is_empty() && !name.is_empty());
    match parts.filter(|(name, _)| name.len() > 1 && (name.starts_with('%') || name.contains("/%"))) {
        Some(parts) => Ok(parts),
        None => refuse(format_args!("--bind {text}: write `--bind '%value=FILE'`")),
    }
}

/// Contents that flags name, by what they are called.
pub(crate) fn bindings(
    args: &RunArgs,
    graph: &Graph,
    env: &Environment,
    world: &mut World<'_>,
) -> Result<BTreeMap<String, IValue>, Refusal> {
    let bindable = Bindable::of(graph, &env.callees);
    let mut bindings = BTreeMap::new();
    for text in &args.values.bind {
        let (flag, (typed, given)) = (format!("--bind {text}"), named(text)?);
        let name = bindable.find(&flag, typed)?;
        for (name, given) in bindable.read(&flag, &name, given, world)? {
            let name = bindable.find(&flag, &name)?;
            if bindings.insert(name.clone(), given.value(env)).is_some() {
                return refuse(format_args!("{flag}: {} is bound before", spelled(&name)));
            }
        }
    }
    if let Some(folder) = &args.values.bind_dir {
        let flag = format!("--bind-dir {}", folder.display());
        let found = bindable.in_folder(&flag, folder, "", world)?;
        if found.is_empty() && bindable.is_empty() {
            world.say(&format!("note: {flag}: nothing is bound, the text shows all of the graph"));
        } else if found.is_empty() {
            return refuse(format_args!("{flag}: no file there is named as a value that the text does not show"));
        }
        let mut of_folder = BTreeMap::new();
        for (name, given) in found {
            if of_folder.insert(name.clone(), given.value(env)).is_some() {
                return refuse(format_args!("{flag}: two files there are for {}", spelled(&name)));
            }
        }
        // What a flag names by itself goes before what lies in a folder.
        of_folder.extend(std::mem::take(&mut bindings));
        bindings = of_folder;
    }
    bindable.note_guesses(&bindings, world);
    Ok(bindings)
}

/// What was given for a value.
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

/// Which part of a list a key names: `0`, also with a name and a dot in front, as `--outputs` calls them; NumPy says `arr_0`.
fn place(key: &str) -> Option<usize> {
    let behind_name = key.rsplit_once('.').map(|(_, last)| last);
    behind_name.or_else(|| key.strip_prefix("arr_")).unwrap_or(key).parse().ok()
}

/// The tensors of a list, by their places.
fn listed(name: &str, file: &str, world: &World<'_>) -> Result<Vec<Tensor>, Refusal> {
    let mut places: BTreeMap<usize, Tensor> = BTreeMap::new();
    let name = spelled(name);
    for (key, tensor) in tensors_of(file, world)? {
        let Some(place) = place(&key) else {
            let found =
                if key.is_empty() { "this is a tensor without a name".into() } else { format!("here is `{key}`") };
            return refuse(format_args!(
                "`{file}`: {name} is a list, whose tensors are called `0`, `1` and so on, and {found}"
            ));
        };
        if places.insert(place, tensor).is_some() {
            return refuse(format_args!("`{file}` has two tensors {place} of {name}"));
        }
    }
    if let Some(gap) = places.keys().enumerate().find(|(i, place)| i != *place).map(|(i, _)| i) {
        return refuse(format_args!("`{file}` has no tensor {gap} of {name}, and one behind it"));
    }
    Ok(places.into_values().collect())
}

fn text_of(graph: &Graph, node: Node) -> String {
    match graph.attribute(node, attr::NAME) {
        Some(Attribute::Str(name)) => String::from_utf8_lossy(name).into_owned(),
        _ => String::new(),
    }
}
