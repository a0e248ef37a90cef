//! Sources of values: sizes that occur in a graph, unbound contents, and the params from which
//! values are computed.

use super::Source;
use crate::analysis::alias::AliasDb;
use crate::interpreter::environment::Environment;
use crate::interpreter::ivalue::IValue;
use crate::interpreter::machine::{callee_name, result_of};
use crate::ir::{Attribute, Block, Graph, Node, Value};
use crate::symbol::{Symbol, attr, prim};
use crate::types::{Dim, TypeKind};
use std::collections::{BTreeMap, BTreeSet};

/// Integers in the graph that may be sizes, and sizes in its types.
pub(super) fn sizes_in(graph: &Graph) -> Vec<i64> {
    let mut sizes = BTreeSet::new();
    for node in graph.all_nodes().filter(|&node| graph.kind(node) == prim::CONSTANT) {
        match graph.attribute(node, attr::VALUE) {
            Some(Attribute::Int(n)) => sizes.extend([*n]),
            Some(Attribute::List(parts)) => sizes.extend(parts.iter().filter_map(Attribute::as_int)),
            _ => {}
        }
    }
    for param in graph.params(graph.root()) {
        if let Some(dims) = graph.ty(param).as_tensor().and_then(|ty| ty.sizes.as_ref()) {
            sizes.extend(dims.iter().filter_map(|dim| if let Dim::Known(n) = dim { Some(*n) } else { None }));
        }
    }
    sizes.into_iter().filter(|n| (1..=4096).contains(n)).collect()
}

/// The values whose content may be generated, with the path that it is bound to.
pub(super) fn unbound_places(graph: &Graph, env: &Environment) -> Vec<(String, Value)> {
    let mut paths: BTreeMap<Value, String> =
        graph.params(graph.root()).map(|param| (param, graph.name(param))).collect();
    let mut places = Vec::new();
    for node in graph.all_nodes() {
        let Some(output) = graph.single_output(node) else { continue };
        match graph.kind(node) {
            prim::CONSTANT => {
                let name = match graph.attribute(node, attr::VALUE) {
                    Some(Attribute::Opaque(text) | Attribute::Tensor(text)) => env.content_names.get(text),
                    _ => None,
                };
                let name = name.map_or_else(|| graph.name(output), str::to_owned);
                places.push((name.clone(), output));
                paths.insert(output, name);
            }
            prim::GET_ATTR => {
                let object = graph.inputs(node).next().and_then(|value| paths.get(&value));
                if let (Some(object), Some(Attribute::Str(name))) = (object, graph.attribute(node, attr::NAME)) {
                    let path = format!("{object}.{}", String::from_utf8_lossy(name));
                    places.push((path.clone(), output));
                    paths.insert(output, path);
                }
            }
            prim::CALL_FUNCTION | prim::CALL_METHOD | prim::ENTER => {
                let mut operands = Vec::new();
                let function = graph.inputs(node).next().and_then(|value| graph.definer(value));
                let function = function.filter(|&node| graph.kind(node) == prim::CONSTANT);
                if let Some(Attribute::Str(name)) = function.and_then(|node| graph.attribute(node, attr::NAME)) {
                    operands.push(IValue::Function(Symbol::new(&String::from_utf8_lossy(name))));
                }
                let name = callee_name(graph, node, &mut operands);
                places.push((result_of(&name, 0, graph.ty(output)), output));
            }
            _ => {}
        }
    }
    places
}

/// The sources of values that no node may write to. An object may hold any value.
pub(super) fn unwritten(graph: &Graph, direct: &BTreeMap<Value, Source>) -> BTreeSet<Source> {
    let aliases = AliasDb::new(graph);
    let untouched = direct.iter().filter(|&(&value, _)| {
        let is_object = matches!(graph.ty(value).kind(), TypeKind::Class(_) | TypeKind::Interface(_));
        !is_object && !aliases.reaches_writers(value)
    });
    untouched.map(|(_, source)| source.clone()).collect()
}

/// The sketches that these values are computed from.
pub(super) fn sources_of(graph: &Graph, env: &Environment, values: &[Value]) -> BTreeSet<Source> {
    let places: BTreeMap<Value, String> =
        unbound_places(graph, env).into_iter().map(|(path, value)| (value, path)).collect();
    let params: BTreeMap<Value, usize> = graph.params(graph.root()).enumerate().map(|(i, v)| (v, i)).collect();
    let owners: BTreeMap<Node, Block> = graph.all_blocks().map(|block| (graph.param_node(block), block)).collect();
    let (mut sources, mut seen, mut work) = (BTreeSet::new(), BTreeSet::new(), values.to_vec());
    while let Some(value) = work.pop() {
        if !seen.insert(value) {
            continue;
        }
        if let Some(&i) = params.get(&value) {
            sources.insert(Source::Param(i));
        } else if let Some(path) = places.get(&value) {
            sources.insert(Source::Unbound(path.clone()));
        } else if let Some(node) = graph.definer(value) {
            let owner = owners.get(&node).and_then(|&block| graph.owner_node(block));
            let at = owner.unwrap_or(node);
            work.extend(graph.inputs(at));
            work.extend(graph.node_blocks(at).flat_map(|block| graph.results(block).collect::<Vec<_>>()));
        }
    }
    sources
}
