//! Values given for a run: inputs, contents that the text omits, and replayed values.

use crate::Workspace;
use crate::bindings::Bindable;
use crate::error::{Error, refuse};
use crate::named_values::{self, Named};
use crate::options::{AtHand, RunOptions};
use crate::program::Program;
use crate::settings::{ARGS, BIND, INPUTS, REPLAY, SEED, SHAPE};
use crate::specializing::near_name;
use crate::verdicts::summary;
use jitopt_core::interpreter::description::{self, Described, Description, Input, Source, TensorNote, fitted};
use jitopt_core::interpreter::files::{Tensors, read_any};
use jitopt_core::interpreter::literal_values;
use jitopt_core::interpreter::{Environment, IValue};
use jitopt_core::ir::{Graph, Value};
use jitopt_core::log::did_you_mean;
use jitopt_core::tensor::Tensor;
use jitopt_core::tensor::layout::Dims;
use jitopt_core::types::{Dim, TypeKind};
use jitopt_judge::sharing::Copier;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The inputs that were read.
#[derive(Default)]
pub(crate) struct Given {
    /// The description; empty if there is none.
    pub(crate) description: Description,
    /// Its file, for messages.
    described_in: Option<String>,
    tensors: Tensors,
    tensors_in: Option<String>,
    /// The names of the parameters when contents were bound, before passes renamed them.
    names: Vec<String>,
    /// Inputs that an archive records, in the order of the parameters that are no objects.
    recorded: Vec<IValue>,
}

impl Given {
    /// Reads the files that flags name; without flags, the files next to the graph.
    pub(crate) fn read(args: &RunOptions, program: &Program, workspace: &Workspace<'_>) -> Result<Given, Error> {
        if let Some(at_hand) = &args.values.at_hand {
            return Ok(Given::of(at_hand));
        }
        let (graph, method) = (program.path.as_path(), program.choice.method.as_deref());
        let mut given = Given::default();
        let adjacent = |suffix: &str| file_next_to(graph, suffix, workspace).filter(|_| args.values.seed.is_none());
        let whole = graph.with_extension("");
        let part = parts_next_to(&whole, workspace).filter(|_| args.values.seed.is_none());
        let several = part.as_ref().map(|(path, _)| path.clone());
        if let Some(path) = args.values.args.clone().or_else(|| adjacent(".json")).or(several) {
            let bytes = workspace.read(&path)?;
            let name = path.display().to_string();
            let of_method = method.map_or(Ok(None), |method| description::parse_method(&bytes, method));
            let description = match (of_method, description::part_in(&bytes, &parts(&whole))) {
                (Err(error), _) => Err(error),
                (Ok(Some(description)), _) => Ok(description),
                (Ok(None), Some(part)) => description::parse_part(&bytes, part),
                (Ok(None), None) => description::parse(&bytes),
            };
            given.description = description.or_else(|error| refuse(format_args!("`{name}`: {error}")))?;
            given.described_in = Some(name);
        }
        if given.described_in.is_none() && args.values.seed.is_none() {
            given.inline(program)?;
        }
        let several = part.map(|(_, tensors)| tensors).filter(|path| workspace.path(path).is_file());
        if let Some(path) = args.values.inputs.clone().or_else(|| adjacent(".inputs.safetensors")).or(several) {
            given.tensors = read_tensors(&path, workspace)?;
            given.tensors_in = Some(path.display().to_string());
        }
        Ok(given)
    }

    /// Inputs that are in no file.
    fn of(at_hand: &AtHand) -> Given {
        let key = |i: usize| format!("in{i}");
        let note = |(i, (tensor, requires_grad)): (usize, &(Tensor, bool))| TensorNote {
            key: Some(key(i)),
            dtype: tensor.dtype(),
            shape: tensor.shape().into(),
            strides: None,
            device: None,
            requires_grad: Some(*requires_grad),
            storage: None,
            values: None,
            quantizer: None,
        };
        let notes = at_hand.inputs.iter().enumerate().map(note);
        let inputs = notes.map(|note| Input { name: None, value: Described::Tensor(Box::new(note)) }).collect();
        let tensors = at_hand.inputs.iter().enumerate().map(|(i, (tensor, _))| (key(i), tensor.clone())).collect();
        Given {
            description: Description { inputs, ..Description::default() },
            described_in: Some("the inputs at hand".to_owned()),
            tensors,
            tensors_in: Some("the inputs at hand".to_owned()),
            ..Given::default()
        }
    }

    /// Whether a tensor belongs to another method that the description describes.
    fn is_of_another_method(&self, tensor: &str) -> bool {
        let method = tensor.split_once('.').map_or(tensor.trim_end_matches(|c: char| c.is_ascii_digit()), |(m, _)| m);
        self.description.methods.iter().any(|other| other == method)
    }

    /// Takes the inputs that an archive records where none are given.
    pub(crate) fn or_recorded(
        mut self,
        args: &RunOptions,
        graph: &Graph,
        recorded: impl FnOnce() -> Result<Option<Vec<IValue>>, Error>,
        workspace: &mut Workspace<'_>,
    ) -> Result<Given, Error> {
        let is_given = self.described_in.is_some() || self.tensors_in.is_some() || args.values.seed.is_some();
        if is_given {
            return Ok(self);
        }
        let Some(recorded) = recorded()? else { return Ok(self) };
        let places = places(graph, usize::MAX);
        if places.len() == recorded.len() {
            workspace.note("inputs are those that the archive records");
            self.recorded = recorded;
        } else {
            let (wanted, found) = (places.len(), recorded.len());
            workspace.note(format!("the archive records {found} inputs, its graph takes {wanted}: they are not used"));
        }
        Ok(self)
    }

    /// Remembers the parameter names of `graph`: contents are bound by them before passes transform
    /// the graph.
    pub(crate) fn bound_for(mut self, graph: &Graph) -> Given {
        self.names = graph.params(graph.root()).map(|param| graph.name(param)).collect();
        self
    }

    /// The original name of a parameter.
    fn name(&self, graph: &Graph, i: usize, param: Value) -> String {
        let are_the_same = self.names.len() == graph.params(graph.root()).len();
        if are_the_same { self.names[i].clone() } else { graph.name(param) }
    }

    /// For each parameter, the key of its tensors and the index of its description.
    pub(crate) fn keys(&self, graph: &Graph, env: &Environment) -> Result<Vec<(String, Option<usize>)>, Error> {
        let mut keys = vec![(String::new(), None); graph.params(graph.root()).count()];
        for (k, i) in places(graph, usize::MAX).into_iter().enumerate() {
            keys[i].0 = format!("in{k}");
        }
        for (k, (i, key, _)) in described_inputs(graph, self, env)?.into_iter().enumerate() {
            keys[i] = (key, self.described_in.is_some().then_some(k));
        }
        Ok(keys)
    }

    /// Reads the description from `# ARGS: ` lines of the graph's own file, so that one file is a
    /// complete test.
    fn inline(&mut self, program: &Program) -> Result<(), Error> {
        let graph = &program.path;
        let Some(text) = program.text_in_file() else { return Ok(()) };
        let lines: Vec<&str> = text.lines().filter_map(|line| line.trim_start().strip_prefix("# ARGS:")).collect();
        if !lines.is_empty() {
            let name = format!("{}, lines `# ARGS:`", graph.display());
            self.description = description::parse(format!("[{}]", lines.join("\n")).as_bytes())
                .or_else(|error| refuse(format_args!("{name}: {error}")))?;
            self.described_in = Some(name);
        }
        Ok(())
    }

    /// For each parameter, the description of tensors whose elements are to be generated.
    pub(crate) fn hints(&self, graph: &Graph) -> BTreeMap<usize, Described> {
        let described = self.described(graph).into_iter().map(|(_, value)| value);
        places(graph, described.len()).into_iter().zip(described).collect()
    }

    /// The description of each input, under the key of its tensors. If passes flattened tuples
    /// among the parameters, described tuples are flattened too; exported programs flatten lists
    /// and dicts as well.
    pub(crate) fn described(&self, graph: &Graph) -> Vec<(String, Described)> {
        let whole = self.description.inputs.iter().enumerate();
        let whole: Vec<(String, Described)> = whole.map(|(k, input)| (format!("in{k}"), input.value.clone())).collect();
        if are_taken(graph, &whole) {
            return whole;
        }
        let apart = |is_deep: bool| {
            let mut apart = Vec::new();
            whole.iter().for_each(|(key, value)| take_apart(key, value, is_deep, &mut apart));
            Some(apart).filter(|apart| are_taken(graph, apart))
        };
        apart(false).or_else(|| apart(true)).unwrap_or(whole)
    }
}

/// Flattens a tuple, nested tuples included; with `is_deep` lists and dicts, too.
fn take_apart(key: &str, value: &Described, is_deep: bool, all: &mut Vec<(String, Described)>) {
    match value {
        Described::Tuple(parts) => {
            parts.iter().enumerate().for_each(|(i, part)| take_apart(&format!("{key}.{i}"), part, is_deep, all));
        }
        Described::List(parts) if is_deep => {
            parts.iter().enumerate().for_each(|(i, part)| take_apart(&format!("{key}.{i}"), part, is_deep, all));
        }
        Described::Dict(items) if is_deep => {
            items.iter().enumerate().for_each(|(i, (_, part))| take_apart(&format!("{key}.v{i}"), part, is_deep, all));
        }
        other => all.push((key.to_owned(), other.clone())),
    }
}

/// Whether a graph has this many parameters, and no tuple is described for a tensor parameter.
fn are_taken(graph: &Graph, described: &[(String, Described)]) -> bool {
    let params: Vec<Value> = graph.params(graph.root()).collect();
    let places = places(graph, described.len());
    let fits = |(i, (_, value)): (usize, &(String, Described))| {
        !(graph.ty(params[i]).is_tensor() && matches!(value, Described::Tuple(_)))
    };
    places.len() == described.len() && places.into_iter().zip(described).all(fits)
}

/// The file next to a graph with the same stem and this suffix, if it exists.
pub(crate) fn file_next_to(graph: &Path, suffix: &str, workspace: &Workspace<'_>) -> Option<PathBuf> {
    let path = graph.with_extension("").with_added_suffix(suffix);
    (graph.as_os_str() != "-" && workspace.path(&path).is_file()).then_some(path)
}

/// Names of a graph in a description of several graphs: `f` for `case.f.ir`; `df_new` and `df` for
/// `case.df_new.ir`.
fn parts(whole: &Path) -> Vec<&str> {
    let name = whole.extension().and_then(|name| name.to_str());
    name.into_iter().flat_map(|name| [name, name.split('_').next().unwrap_or(name)]).collect()
}

/// The description and the tensors of one of several graphs: `case.json` and
/// `case.f_inputs.safetensors` for `case.f.ir`.
fn parts_next_to(whole: &Path, workspace: &Workspace<'_>) -> Option<(PathBuf, PathBuf)> {
    let case = whole.with_extension("");
    let path = case.clone().with_added_suffix(".json");
    let bytes = std::fs::read(workspace.path(&path)).ok()?;
    let part = description::part_in(&bytes, &parts(whole))?;
    Some((path, case.with_added_suffix(&format!(".{part}_inputs.safetensors"))))
}

trait AddedSuffix {
    fn with_added_suffix(self, suffix: &str) -> PathBuf;
}

impl AddedSuffix for PathBuf {
    fn with_added_suffix(self, suffix: &str) -> PathBuf {
        let mut text = self.into_os_string();
        text.push(suffix);
        text.into()
    }
}

/// Reads the tensors of a file; errors name the file.
pub(crate) fn read_tensors(path: &Path, workspace: &Workspace<'_>) -> Result<Tensors, Error> {
    let bytes = workspace.read(path)?;
    read_any(&bytes).or_else(|error| refuse(format_args!("`{}`: {error}", path.display())))
}

/// Whether a parameter is an object: objects are bound by attribute, and descriptions may omit
/// them.
pub(crate) fn is_object(graph: &Graph, param: Value) -> bool {
    matches!(graph.ty(param).kind(), TypeKind::Class(_) | TypeKind::Interface(_))
}

/// The parameters that `n` inputs are assigned to, by position.
fn places(graph: &Graph, n: usize) -> Vec<usize> {
    let params: Vec<Value> = graph.params(graph.root()).collect();
    let plain: Vec<usize> = (0..params.len()).filter(|&i| !is_object(graph, params[i])).collect();
    if n == params.len() { (0..n).collect() } else { plain }
}

/// The given inputs, one entry per parameter.
pub(crate) fn inputs(
    args: &RunOptions,
    graph: &Graph,
    given: &Given,
    env: &Environment,
) -> Result<Vec<Option<IValue>>, Error> {
    let params: Vec<Value> = graph.params(graph.root()).collect();
    let mut inputs = vec![None; params.len()];
    let described = described_inputs(graph, given, env)?;
    let tensors = named(&given.tensors, &described);
    let source = Source::new(&tensors, env.precision);
    for (i, key, value) in &described {
        let lacking = wanted_keys(value, key).iter().any(|key| !tensors.contains_key(key));
        let generated = args.values.seed.is_some() && lacking;
        if generated {
            continue;
        }
        if lacking && given.tensors_in.is_none() {
            let what = format!("`{key}` has no elements, and there is no file of tensors{}", expected_file(args));
            return refuse(in_file(given, &what));
        }
        let value = source.value(value, key).or_else(|error| refuse(in_file(given, &error.0)))?;
        let name = graph.name(params[*i]);
        let value = fitted(value, graph.ty(params[*i]))
            .or_else(|error| refuse(in_file(given, &format!("%{name}: {error}"))))?;
        inputs[*i] = Some(value);
    }
    if let Some(lost) = source.unused().iter().find(|lost| !given.is_of_another_method(lost)) {
        let file = given.tensors_in.as_deref().unwrap_or_default();
        let names = described.iter().map(|(_, key, _)| key.as_str());
        let near = did_you_mean(lost, names).map_or(String::new(), |near| format!("; did you mean `{near}`?"));
        return refuse(format_args!("`{file}`: tensor `{lost}` is not an input of the graph{near}"));
    }
    if described.is_empty() && !given.recorded.is_empty() {
        for (i, value) in places(graph, usize::MAX).into_iter().zip(&given.recorded) {
            // A run may write to its inputs.
            let value = Copier::new(env.precision).copy(value);
            let name = graph.name(params[i]);
            let fits = fitted(value, graph.ty(params[i]));
            inputs[i] = Some(fits.or_else(|error| refuse(format_args!("recorded input %{name}: {error}")))?);
        }
    }
    for (i, &param) in params.iter().enumerate() {
        let name = given.name(graph, i, param);
        let bound = env.bindings.borrow().get(&name).cloned();
        let is_flagged = || args.values.bind.iter().any(|given| given.name().trim_start_matches('%') == name);
        if bound.is_some() && inputs[i].is_some() && is_flagged() {
            return refuse(format_args!("{BIND}: %{name} is also given as an input"));
        }
        let object = |class| literal_values::object(class, &name);
        inputs[i] = inputs[i].take().or(bound).or_else(|| match graph.ty(param).kind() {
            TypeKind::Class(class) | TypeKind::Interface(class) => Some(object(*class)),
            _ => None,
        });
    }
    Ok(inputs)
}

/// The expected path of the input tensors, for messages.
fn expected_file(args: &RunOptions) -> String {
    let adjacent = |path: &PathBuf| path.with_extension("").with_added_suffix(".inputs.safetensors");
    let expected = args.graph.as_ref().map(|path| format!(": expected `{}`, or {INPUTS}", adjacent(path).display()));
    expected.unwrap_or_else(|| format!("; give {INPUTS}"))
}

fn in_file(given: &Given, message: &str) -> String {
    let files = [given.described_in.as_deref(), given.tensors_in.as_deref()];
    let files: Vec<String> = files.into_iter().flatten().map(|file| format!("`{file}`")).collect();
    format!("{}: {message}", files.join(" with "))
}

/// `x` for `%x.1`, as inlining renames `%x`, if no other param has that stem.
fn stem_of_one(graph: &Graph, param: Value) -> Option<String> {
    let name = graph.name(param);
    let stem = |name: &str| name.rsplit_once('.').map(|(stem, _)| stem.to_owned());
    let own = stem(&name).filter(|own| !own.is_empty())?;
    let is_same = |other: String| other == own || stem(&other).as_ref() == Some(&own);
    let same = graph.params(graph.root()).filter(|&other| is_same(graph.name(other))).count();
    (same == 1).then_some(own)
}

/// For each input, its parameter, the key of its tensors and its description. Without a
/// description, the tensors describe themselves.
fn described_inputs(graph: &Graph, given: &Given, env: &Environment) -> Result<Vec<(usize, String, Described)>, Error> {
    let params: Vec<Value> = graph.params(graph.root()).collect();
    if given.described_in.is_some() {
        let inputs = given.described(graph);
        let mut places = places(graph, inputs.len());
        // The last ones may be left out where they have values of their own, such as defaults.
        let has_value = |i: &usize| env.bindings.borrow().contains_key(&given.name(graph, *i, params[*i]));
        if places.get(inputs.len()..).is_some_and(|rest| rest.iter().all(has_value)) {
            places.truncate(inputs.len());
        }
        if places.len() != inputs.len() {
            let (file, n) = (given.described_in.as_deref().unwrap_or_default(), inputs.len());
            return refuse(format_args!("`{file}` describes {n} inputs, but the graph takes {}", places.len()));
        }
        return Ok(places.into_iter().zip(inputs).map(|(i, (key, value))| (i, key, value)).collect());
    }
    let mut found = Vec::new();
    for (k, i) in places(graph, usize::MAX).into_iter().enumerate() {
        let mut keys = vec![format!("in{k}"), graph.name(params[i])];
        keys.extend(stem_of_one(graph, params[i]));
        keys.extend((k == 0 && given.tensors.len() == 1 && places(graph, usize::MAX).len() == 1).then(String::new));
        if let Some((key, tensor)) = keys.iter().find_map(|key| given.tensors.get_key_value(key)) {
            let note = TensorNote {
                key: Some(key.clone()),
                dtype: tensor.dtype(),
                shape: tensor.shape().into(),
                strides: (!tensor.is_contiguous()).then(|| tensor.strides().into()),
                device: None,
                requires_grad: None,
                storage: None,
                values: None,
                quantizer: None,
            };
            found.push((i, key.clone(), Described::Tensor(Box::new(note))));
        }
    }
    Ok(found)
}

/// The keys of tensors without inline elements.
fn wanted_keys(described: &Described, key: &str) -> Vec<String> {
    match described {
        Described::Tensor(note) if note.values.is_none() && note.storage.is_none() => {
            vec![note.key.as_deref().unwrap_or(key).to_owned()]
        }
        Described::List(list) | Described::Tuple(list) => {
            list.iter().enumerate().flat_map(|(i, part)| wanted_keys(part, &format!("{key}.{i}"))).collect()
        }
        Described::Dict(items) => {
            items.iter().enumerate().flat_map(|(i, (_, value))| wanted_keys(value, &format!("{key}.v{i}"))).collect()
        }
        _ => Vec::new(),
    }
}

/// The tensors of a file. A single unnamed tensor is the one tensor that the description requires.
fn named(tensors: &Tensors, described: &[(usize, String, Described)]) -> Tensors {
    let wanted: Vec<String> = described.iter().flat_map(|(_, key, value)| wanted_keys(value, key)).collect();
    match (tensors.get(""), &wanted[..]) {
        (Some(tensor), [key]) if tensors.len() == 1 => Tensors::from([(key.clone(), tensor.clone())]),
        _ => tensors.clone(),
    }
}

/// All inputs, or an error for a missing one.
pub(crate) fn complete(graph: &Graph, inputs: Vec<Option<IValue>>, given: &Given) -> Result<Vec<IValue>, Error> {
    let mut plain = 0;
    let mut all = Vec::new();
    for (param, input) in graph.params(graph.root()).zip(inputs) {
        let (name, ty) = (graph.name(param), graph.ty(param));
        match input {
            Some(value) => all.push(value),
            None => {
                let way = match (ty.is_tensor(), given.tensors_in.as_deref()) {
                    (true, Some(file)) => format!("`{file}` has neither `in{plain}` nor `{name}`; bind it"),
                    (true, None) => format!("give it with {INPUTS}, as `in{plain}` or `{name}`, bind it"),
                    _ => format!("describe it in a file for {ARGS}"),
                };
                let bind = if ty.is_tensor() { format!(" with {BIND} '%{name}=FILE'") } else { String::new() };
                return refuse(format_args!("%{name} : {ty} has no value: {way}{bind}, or generate it with {SEED}=1"));
            }
        }
        plain += usize::from(!is_object(graph, param));
    }
    Ok(all)
}

/// The shapes of generated inputs, as in `%x=3,4`.
pub(crate) fn shapes(
    args: &RunOptions,
    graph: &Graph,
    callees: &BTreeMap<String, Graph>,
    inputs: &[Option<IValue>],
) -> Result<BTreeMap<String, Dims>, Error> {
    let bindable = Bindable::of(graph, callees);
    let mut shapes = BTreeMap::new();
    for given in &args.values.shape {
        let name = given.name.as_str();
        let param = graph.params(graph.root()).position(|param| graph.name(param) == name);
        let generated = match param {
            Some(i) => inputs.get(i).is_some_and(Option::is_none),
            None => args.values.fill_unknown.is_some() && bindable.is_known(name),
        };
        if !generated {
            let names: Vec<String> = graph.params(graph.root()).map(|param| graph.name(param)).collect();
            let near = near_name(name, &names);
            let near = near.map_or(String::new(), |near| format!("; did you mean `%{near}`?"));
            return refuse(format_args!("{SHAPE} {given}: %{name} is not generated{near}"));
        }
        if shapes.insert(name.to_owned(), given.sizes.clone()).is_some() {
            return refuse(format_args!("{SHAPE} {given}: %{name} has a shape already"));
        }
    }
    Ok(shapes)
}

// ---- tensors of files

/// The tensors of `FILE`, or the one tensor of `FILE:KEY`.
pub(crate) fn tensors_of(text: &str, workspace: &Workspace<'_>) -> Result<Tensors, Error> {
    let parts = text.rsplit_once(':').filter(|_| !workspace.path(Path::new(text)).exists());
    let Some((file, key)) = parts else { return read_tensors(Path::new(text), workspace) };
    let mut tensors = read_tensors(Path::new(file), workspace)?;
    match tensors.remove(key) {
        Some(tensor) => Ok(Tensors::from([(String::new(), tensor)])),
        None => {
            let near = did_you_mean(key, tensors.keys().map(String::as_str));
            let near = near.map_or(String::new(), |near| format!("; did you mean `{near}`?"));
            refuse(format_args!("`{file}` has no tensor `{key}`{near}"))
        }
    }
}

/// The single tensor for a value.
pub(crate) fn single(name: &str, file: &str, workspace: &Workspace<'_>) -> Result<Tensor, Error> {
    let mut tensors = tensors_of(file, workspace)?;
    if let Some(tensor) = tensors.remove(name) {
        return Ok(tensor);
    }
    match tensors.len() {
        1 => Ok(tensors.pop_first().map(|(_, tensor)| tensor).expect("there is one")),
        n => refuse(format_args!("`{file}` has {n} tensors, none named `{name}`; select one with {file}:KEY")),
    }
}

// ---- replay

/// Warns of inputs that contradict the types of their parameters: passes may rely on those types.
pub(crate) fn warn_of_contradictions<'v>(
    graph: &Graph,
    inputs: impl Iterator<Item = &'v IValue>,
    workspace: &mut Workspace<'_>,
) {
    for (param, input) in graph.params(graph.root()).zip(inputs) {
        let (Some(declared), Some(tensor)) = (graph.ty(param).as_tensor(), input.tensor()) else { continue };
        let size = |(dim, &n): (&Dim, &i64)| !matches!(dim, Dim::Known(known) if *known != n);
        let sizes = declared
            .sizes
            .as_ref()
            .is_none_or(|dims| dims.len() == tensor.rank() && dims.iter().zip(tensor.shape()).all(size));
        if !sizes || declared.dtype.is_some_and(|dtype| dtype != tensor.dtype()) {
            let (name, ty) = (graph.name(param), graph.ty(param));
            let given = summary(input);
            workspace
                .warn(format!("%{name} is declared `{ty}`, but {given} is given; passes rely on the declared type"));
        }
    }
}

/// Values that replace computed ones.
pub(crate) fn replayed<'g>(
    args: &RunOptions,
    graph: &'g Graph,
    env: &Environment,
    workspace: &Workspace<'_>,
) -> Result<Vec<(Named<'g>, IValue)>, Error> {
    let mut replayed: Vec<(Named<'g>, IValue)> = Vec::new();
    for given in &args.values.replay {
        let name = given.name();
        let named = named_values::find(REPLAY, name, graph)?;
        if graph.params(graph.root()).any(|param| named.way.is_empty() && param == named.value) {
            return refuse(format_args!("{REPLAY}: %{name} is a parameter; give it with {INPUTS} or {BIND}"));
        }
        let tensor = single(given.last_name(), given.file(), workspace)?;
        let tensor = tensor.converted(tensor.dtype(), env.precision);
        let fits = fitted(IValue::Tensor(tensor), named.graph.ty(named.value));
        let fits = fits.or_else(|error| refuse(format_args!("{REPLAY} {given}: {error}")))?;
        if replayed.iter().any(|(other, _)| other.place() == named.place()) {
            return refuse(format_args!("{REPLAY} {given}: %{name} is given twice"));
        }
        replayed.push((named, fits));
    }
    Ok(replayed)
}
