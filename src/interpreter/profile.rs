//! Tensor types observed at profiling nodes: recorded while a graph runs, kept in a file, and
//! written back into the graph.
//!
//! ```json
//! {"profile": 1, "runs": 2, "places": [
//!   {"at": "0", "node": "aten::mul", "operand": 1, "times": 2, "type": "Float(2, *, requires_grad=0, device=cpu)"},
//!   {"at": "1/0/return", "node": "prim::Return", "operand": 0, "times": 0}
//! ]}
//! ```
//!
//! A place is an operand of a node, or a result of a block: `1/0/return` is a result of block 0 of
//! node 1. Nodes are counted from 0 in their block, without constants and profiling nodes, so that
//! names, source locations and constants may change. Otherwise the graph must be the recorded one:
//! the first missing place is reported.
//!
//! Of tensors that differ between runs the common properties are kept: element type, rank, each
//! size, all strides. If any input requires a gradient, `requires_grad` of computed values is left
//! open.
//!
//! A graph that was edited in another way is another graph: guessing which node moved where would
//! give types to the wrong values.

use super::ivalue::IValue;
use crate::ir::{Attribute, Block, Graph, Node};
use crate::symbol::{Symbol, attr, prim};
use crate::tensor::Tensor;
use crate::types::era::Era;
use crate::types::spelling::parse_all;
use crate::types::{Dim, Strides, TensorType, Type, TypeKind};
use rustc_hash::FxHashMap;
use serde_json::{Value as Json, json};

/// The version of the format.
const FORMAT: u64 = 1;

/// One place, and the types observed there.
#[derive(Clone, Debug, PartialEq)]
pub struct Place {
    /// The position of the reader.
    pub at: String,
    /// The kind of the reader.
    pub node: Symbol,
    /// The index of the operand.
    pub operand: usize,
    /// The number of observations.
    pub times: u64,
    /// The common type of all of them; `None` without observations, or if one was not a tensor.
    pub ty: Option<Type>,
    /// Whether `None` was observed.
    pub seen_none: bool,
}

impl Place {
    fn see(&mut self, value: &IValue) {
        self.times = self.times.saturating_add(1);
        let seen = match value {
            IValue::Tensor(tensor) => type_of(tensor),
            IValue::Undefined => {
                Type::new(TypeKind::Tensor(TensorType { undefined: Some(true), ..TensorType::default() }))
            }
            _ => return self.seen_none = true,
        };
        self.widen(seen);
    }

    fn widen(&mut self, seen: Type) {
        self.ty = Some(self.ty.map_or(seen, |known| known.join(seen).unwrap_or_else(Type::tensor)));
    }

    /// Drops `requires_grad`, which the interpreter does not propagate from operands to results.
    fn forget_gradients(&mut self) {
        let Some(seen) = self.ty.as_ref().and_then(|ty| ty.as_tensor()) else { return };
        let differentiable = seen.dtype.is_none_or(|dtype| dtype.is_float() || dtype.is_complex());
        if seen.requires_grad == Some(false) && differentiable {
            self.ty = Some(Type::new(TypeKind::Tensor(TensorType { requires_grad: None, ..seen.clone() })));
        }
    }

    fn name(&self) -> String {
        format!("operand {} of `{}` at {}", self.operand, self.node, self.at)
    }
}

/// All known properties of a tensor.
pub(super) fn type_of(tensor: &Tensor) -> Type {
    let strides = if tensor.rank() == 0 { Strides::Unknown } else { Strides::Known(tensor.strides().into()) };
    Type::new(TypeKind::Tensor(TensorType {
        dtype: Some(tensor.dtype()),
        sizes: Some(tensor.shape().iter().copied().map(Dim::Known).collect()),
        strides,
        requires_grad: Some(tensor.requires_grad()),
        device: Some(Symbol::new(tensor.device().name())),
        undefined: None,
        profiled: false,
    }))
}

/// The observations about a graph.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Profile {
    /// The number of runs.
    pub runs: u64,
    /// The places, in printed order.
    pub places: Vec<Place>,
}

/// A profile of one graph under construction.
#[derive(Clone, Debug, Default)]
pub struct Recording {
    /// The observations so far.
    pub profile: Profile,
    graph: u64,
    places: FxHashMap<Node, usize>,
    /// Places whose value is not a param of the graph.
    computed: Vec<usize>,
    /// Whether any input requires a gradient.
    gradients: bool,
    /// Whether the graph has counted the current run.
    counted: bool,
}

impl Recording {
    /// Prepares the profile of a graph; `None` if it has no profiling nodes.
    pub fn of(graph: &Graph) -> Option<Recording> {
        let looks = |node: Node| graph.kind(node) == prim::PROFILE;
        graph.all_nodes().any(looks).then(|| {
            let (nodes, places): (Vec<Node>, Vec<Place>) = places(graph).into_iter().unzip();
            let params = graph.param_node(graph.root());
            let is_param =
                |node: Node| graph.inputs(node).next().and_then(|value| graph.definer(value)) == Some(params);
            let computed = (0..nodes.len()).filter(|&i| !is_param(nodes[i])).collect();
            let places_of = nodes.into_iter().enumerate().map(|(i, node)| (node, i)).collect();
            let profile = Profile { runs: 0, places };
            Recording {
                profile,
                graph: graph.id().number(),
                places: places_of,
                computed,
                gradients: false,
                counted: false,
            }
        })
    }

    /// Records the inputs of the graph.
    pub(super) fn begin(&mut self, inputs: &[IValue]) {
        self.gradients |= inputs.iter().any(requires_gradients);
        self.counted = false;
    }

    /// Counts a completed run in a graph without its counting node: passes may remove it, as they
    /// know of no effect.
    pub(super) fn finish(&mut self) {
        if !self.counted {
            self.end();
        }
    }

    /// Records the observation at a node.
    pub(crate) fn see(&mut self, graph: &Graph, node: Node, args: &[IValue]) {
        if graph.id().number() != self.graph {
            return;
        }
        match (self.places.get(&node), args.first()) {
            (Some(&i), Some(value)) => {
                self.gradients |= requires_gradients(value);
                self.profile.places[i].see(value);
            }
            (None, None) => self.end(),
            _ => {}
        }
    }

    fn end(&mut self) {
        self.counted = true;
        self.profile.runs = self.profile.runs.saturating_add(1);
        for &i in self.computed.iter().filter(|_| self.gradients) {
            self.profile.places[i].forget_gradients();
        }
    }
}

fn requires_gradients(value: &IValue) -> bool {
    matches!(value, IValue::Tensor(tensor) if tensor.requires_grad())
}

/// The profiling nodes of a graph, and their places.
fn places(graph: &Graph) -> Vec<(Node, Place)> {
    let mut paths: FxHashMap<Node, String> = FxHashMap::default();
    let mut work: Vec<(Block, String)> = vec![(graph.root(), String::new())];
    let mut order = Vec::new();
    while let Some((block, path)) = work.pop() {
        let mut count = 0;
        for node in graph.nodes(block) {
            match graph.kind(node) {
                prim::PROFILE => order.push(node),
                prim::CONSTANT => {}
                _ => {
                    for (i, inner) in graph.node_blocks(node).enumerate() {
                        work.push((inner, format!("{path}{count}/{i}/")));
                    }
                    paths.insert(node, format!("{path}{count}"));
                    count += 1;
                }
            }
        }
        paths.insert(graph.return_node(block), format!("{path}return"));
    }
    let place = |node: Node| {
        let reader = graph.uses(graph.single_output(node)?).next()?;
        let (user, operand) = (graph.user(reader), graph.operand_index(reader));
        let at = paths.get(&user)?.clone();
        let place = Place { at, node: graph.kind(user), operand, times: 0, ty: None, seen_none: false };
        Some((node, place))
    };
    order.into_iter().filter_map(place).collect()
}

impl Profile {
    /// Adds the observations of other runs of the same graph.
    pub fn merge(&mut self, other: &Profile) -> Result<(), String> {
        self.compare(&other.places)?;
        self.runs = self.runs.saturating_add(other.runs);
        for (place, other) in self.places.iter_mut().zip(&other.places) {
            place.times = place.times.saturating_add(other.times);
            place.seen_none |= other.seen_none;
            if let Some(ty) = other.ty {
                place.widen(ty);
            }
        }
        Ok(())
    }

    /// Writes the observed types into the profiling nodes of the graph.
    pub fn apply(&self, graph: &mut Graph) -> Result<(), String> {
        let (nodes, found): (Vec<Node>, Vec<Place>) = places(graph).into_iter().unzip();
        self.compare(&found)?;
        for (node, place) in nodes.into_iter().zip(&self.places) {
            if graph.era == Era::V2 {
                graph.set_attribute(node, attr::SEEN_NONE, Attribute::Int(place.seen_none.into()));
            }
            // A type in the text may have been observed in another run.
            let ty = place.ty.unwrap_or_else(Type::tensor);
            match graph.era {
                Era::V1_3 => {
                    let output = graph.output(node, 0);
                    graph.set_type(output, ty);
                }
                Era::V2 => graph.set_attribute(node, attr::PROFILED_TYPE, Attribute::Type(ty)),
            }
        }
        Ok(())
    }

    fn compare(&self, found: &[Place]) -> Result<(), String> {
        let key = |place: &Place| (place.at.clone(), place.node, place.operand);
        let differs = self.places.iter().zip(found).find(|(a, b)| key(a) != key(b));
        let (recorded, here) = match differs {
            Some((a, b)) => (a.name(), b.name()),
            None if self.places.len() == found.len() => return Ok(()),
            None => (format!("{} places", self.places.len()), format!("{}", found.len())),
        };
        Err(format!("the profile is of another graph: it has {recorded}, the graph has {here}"))
    }

    /// The text of a file.
    pub fn to_json(&self) -> String {
        let place = |place: &Place| {
            let mut json = json!({
                "at": place.at, "node": place.node.as_str(), "operand": place.operand, "times": place.times,
            });
            if let Some(ty) = place.ty {
                json["type"] = ty.to_string().into();
            }
            if place.seen_none {
                json["seen_none"] = true.into();
            }
            format!("  {json}")
        };
        let places: Vec<String> = self.places.iter().map(place).collect();
        format!("{{\"profile\": {FORMAT}, \"runs\": {}, \"places\": [\n{}\n]}}\n", self.runs, places.join(",\n"))
    }

    /// Reads the text of a file.
    pub fn from_json(text: &[u8]) -> Result<Profile, String> {
        let json: Json = serde_json::from_slice(text).map_err(|error| format!("invalid JSON: {error}"))?;
        match json["profile"].as_u64() {
            Some(FORMAT) => {}
            Some(other) => return Err(format!("unsupported format {other} of a profile: expected format {FORMAT}")),
            None => return Err(format!("not a profile: expected an object with \"profile\": {FORMAT}")),
        }
        let runs = json["runs"].as_u64().ok_or("`runs` is not a number")?;
        let places = json["places"].as_array().ok_or("`places` is not a list")?;
        let places = places.iter().enumerate().map(|(i, json)| place(json).map_err(|why| format!("place {i}: {why}")));
        Ok(Profile { runs, places: places.collect::<Result<_, String>>()? })
    }
}

fn place(json: &Json) -> Result<Place, String> {
    let text = |key: &str| json[key].as_str().ok_or_else(|| format!("`{key}` is not a string"));
    let number = |key: &str| json[key].as_u64().ok_or_else(|| format!("`{key}` is not a number"));
    let ty = match &json["type"] {
        Json::Null => None,
        Json::String(text) => {
            let ty = parse_all(text.as_bytes()).map_err(|error| format!("`type`: {}", error.message))?;
            Some(ty).filter(|ty| ty.is_tensor()).ok_or_else(|| format!("`{text}` is not a tensor type")).map(Some)?
        }
        _ => return Err("`type` is not a string".to_owned()),
    };
    Ok(Place {
        at: text("at")?.to_owned(),
        node: Symbol::new(text("node")?),
        operand: number("operand")? as usize,
        times: number("times")?,
        ty,
        seen_none: json["seen_none"].as_bool().unwrap_or(false),
    })
}
