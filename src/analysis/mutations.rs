//! Descriptions of the writes of nodes, which `--print-mutations` shows after their lines, and
//! whether a graph may assign attributes of modules.
//!
//! ```text
//! %v : Tensor = aten::view(%x, %sizes)
//! %w : Tensor = aten::relu_(%v) #! writes %v; same memory: input %x, %w; may alias: input %y
//! ```
//!
//! Values in *same memory* share memory, or a part of it, according to the nodes between them. For
//! values in *may alias* only types are known: params of a graph may share memory.

use super::alias::AliasDb;
use super::memory::Element;
use crate::ir::{Attribute, Graph, Node, Value};
use crate::ops::rules::AliasRule;
use crate::ops::schema::{Alias, Formal, Schema, WILDCARD};
use crate::ops::{self, Operator};
use crate::symbol::{attr, prim};
use crate::types::Type;
use rustc_hash::{FxHashMap, FxHashSet};

/// The maximum number of values named in a list.
const SHOWN: usize = 8;

/// The descriptions for a graph and its sections, by the number of the graph and the node.
pub fn notes(graph: &Graph) -> FxHashMap<(u64, Node), String> {
    let (mut found, mut pending) = (FxHashMap::default(), vec![graph]);
    while let Some(graph) = pending.pop() {
        let writes = Writes::of(graph);
        for node in graph.all_nodes() {
            if let Some(note) = writes.note(node) {
                found.insert((graph.id().number(), node), note);
            }
            pending.extend(graph.subgraph(node));
            pending.extend(graph.backward(node));
        }
    }
    found
}

struct Writes<'g> {
    graph: &'g Graph,
    db: AliasDb,
    /// Values of mutable type in the order of their definitions, each with the memory that it is,
    /// or is a part of.
    memory: Vec<(Value, Memory)>,
}

/// The memory that a value is, or is a part of: in the alias analysis, which does not distinguish
/// memory from outside, and the values that it is derived from.
struct Memory {
    elements: FxHashSet<Element>,
    values: FxHashSet<Value>,
}

impl Memory {
    fn of(graph: &Graph, db: &AliasDb, value: Value) -> Option<Memory> {
        let elements = db.parts_of(value)?;
        let (mut values, mut pending) = (FxHashSet::default(), vec![value]);
        while let Some(value) = pending.pop() {
            if values.insert(value) {
                pending.extend(wholes(graph, value).into_iter().filter(|&whole| db.is_tracked(whole)));
            }
        }
        Some(Memory { elements, values })
    }

    fn is_shared(&self, other: &Memory) -> bool {
        !self.elements.is_disjoint(&other.elements) || !self.values.is_disjoint(&other.values)
    }
}

/// The values that a value is, or is a part of, according to its defining node.
fn wholes(graph: &Graph, value: Value) -> Vec<Value> {
    let Some(node) = graph.definer(value) else { return Vec::new() };
    let Some(index) = graph.outputs(node).position(|output| output == value) else { return Vec::new() };
    let types: Vec<Type> = graph.inputs(node).map(|value| graph.ty(value)).collect();
    let operator = ops::operator(graph.era, graph.kind(node));
    let schema = operator.resolve(&types).schema();
    let operand = |i: usize| graph.inputs(node).nth(i).into_iter().collect();
    let returned = |i: usize| graph.node_blocks(node).filter_map(move |block| graph.results(block).nth(i)).collect();
    match operator.alias_rule(schema) {
        AliasRule::Schema => schema.map_or(Vec::new(), |schema| annotated(graph, node, schema, index)),
        AliasRule::MayReturn(i) | AliasRule::PointsTo(i) => operand(i),
        AliasRule::Pairwise => operand(index),
        AliasRule::ChunkPointsTo => operand(0),
        AliasRule::If | AliasRule::Block => returned(index),
        AliasRule::Loop => [operand(index + 2), returned(index + 1)].concat(),
        _ => Vec::new(),
    }
}

/// The operands whose memory a schema gives to a result.
fn annotated(graph: &Graph, node: Node, schema: &Schema, index: usize) -> Vec<Value> {
    let sets = |alias: &Option<Alias>| alias.as_ref().map_or(Vec::new(), |alias| alias.before.to_vec());
    let Some(result) = schema.returns.get(index).map(|result| sets(&result.alias)) else { return Vec::new() };
    let is_given = |formal: &Formal| sets(&formal.alias).iter().any(|set| *set != WILDCARD && result.contains(set));
    let operands = graph.inputs(node).zip(schema.formals.iter());
    operands.filter(|(_, formal)| is_given(formal)).map(|(operand, _)| operand).collect()
}

impl Writes<'_> {
    fn of(graph: &Graph) -> Writes<'_> {
        let db = AliasDb::new(graph);
        let nested = graph.all_nodes().flat_map(|node| {
            let params = graph.node_blocks(node).flat_map(|block| graph.params(block));
            graph.outputs(node).chain(params)
        });
        let all = graph.params(graph.root()).chain(nested);
        let memory = all.filter_map(|value| Some((value, Memory::of(graph, &db, value)?))).collect();
        Writes { graph, db, memory }
    }

    /// The description of a node's writes; nothing where nested nodes write, which have
    /// descriptions of their own.
    fn note(&self, node: Node) -> Option<String> {
        if !self.db.is_writing(node) || self.graph.num_blocks(node) > 0 {
            return None;
        }
        let operator = ops::operator(self.graph.era, self.graph.kind(node));
        let verb = if operator.is_known() { "writes" } else { "may write" };
        let written = self.written(node, operator);
        if written.is_empty() {
            return Some(format!("{verb} any memory reachable from outside"));
        }
        let what: Vec<String> = written.iter().map(|(value, part)| format!("{part}{}", self.name(*value))).collect();
        let values: Vec<Value> = written.iter().map(|&(value, _)| value).collect();
        let (same, others) = self.seen_through(&values);
        let list = |title: &str, found: &[String]| match found.len() {
            0 => String::new(),
            n if n > SHOWN => format!("; {title}: {} and {} more", found[..SHOWN].join(", "), n - SHOWN),
            _ => format!("; {title}: {}", found.join(", ")),
        };
        Some(format!("{verb} {}{}{}", what.join(", "), list("same memory", &same), list("may alias", &others)))
    }

    /// The written operands, and a description of the written part of each.
    fn written(&self, node: Node, operator: &'static Operator) -> Vec<(Value, String)> {
        let graph = self.graph;
        let types: Vec<Type> = graph.inputs(node).map(|value| graph.ty(value)).collect();
        let schema = operator.resolve(&types).schema().or_else(|| operator.resolve_erased(&types).schema());
        let mut found: Vec<(Value, String)> = match (operator.alias_rule(schema), schema) {
            (AliasRule::SetAttr, _) => {
                let name = match graph.attribute(node, attr::NAME) {
                    Some(Attribute::Str(name)) => format!("`{}` of ", String::from_utf8_lossy(name)),
                    _ => String::new(),
                };
                graph.inputs(node).take(1).map(|object| (object, name.clone())).collect()
            }
            (AliasRule::Schema | AliasRule::MayReturn(_), Some(schema)) => {
                let part = |i: usize| {
                    let elements = schema.formals[i].elements.as_ref().is_some_and(|alias| alias.write);
                    if elements { "elements of " } else { "" }
                };
                schema.writes().map(|i| (graph.input(node, i), part(i).to_owned())).collect()
            }
            _ => {
                let is_written = |value: &Value| self.db.writes_to_alias_of(node, &[*value]);
                graph.inputs(node).filter(is_written).map(|value| (value, String::new())).collect()
            }
        };
        let mut seen = FxHashSet::default();
        found.retain(|(value, _)| seen.insert(*value));
        found
    }

    /// The other values that observe these writes: by the operators between them, and inputs that
    /// may alias by their types alone.
    fn seen_through(&self, written: &[Value]) -> (Vec<String>, Vec<String>) {
        let here: Vec<Memory> = written.iter().filter_map(|&value| Memory::of(self.graph, &self.db, value)).collect();
        let is_other = |value: &Value| !written.contains(value);
        let (mut same, mut others) = (Vec::new(), Vec::new());
        for (value, memory) in self.memory.iter().filter(|(value, _)| is_other(value)) {
            if here.iter().any(|written| written.is_shared(memory)) {
                same.push(self.role(*value));
            } else if self.is_input(*value) && written.iter().any(|&written| self.db.may_alias(written, *value)) {
                others.push(self.role(*value));
            }
        }
        (same, others)
    }

    fn is_input(&self, value: Value) -> bool {
        self.graph.definer(value) == Some(self.graph.param_node(self.graph.root()))
    }

    fn role(&self, value: Value) -> String {
        if self.is_input(value) { format!("input {}", self.name(value)) } else { self.name(value) }
    }

    fn name(&self, value: Value) -> String {
        format!("%{}", self.graph.name(value))
    }
}

/// Whether a node of a graph, or of its sections, may assign an attribute of a module: directly, or
/// in a callee. Linear in nodes.
pub fn may_assign_attributes(graph: &Graph) -> bool {
    let mut open = vec![graph];
    while let Some(graph) = open.pop() {
        let mut kinds = graph.all_nodes().map(|node| graph.kind(node));
        if kinds.any(|kind| [prim::SET_ATTR, prim::CALL_METHOD, prim::CALL_FUNCTION].contains(&kind)) {
            return true;
        }
        open.extend(graph.all_nodes().filter_map(|node| graph.subgraph(node)));
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::{ParseOptions, PrintOptions, parse, print, print_with_notes};

    const TEXT: &str = "\
graph(%x : Tensor,
      %y : Tensor,
      %l : int[]):
  %1 : int = prim::Constant[value=1]()
  %s : int[] = prim::ListConstruct(%1)
  %v : Tensor = aten::view(%x, %s) # a.py:1:2
  %w : Tensor = aten::relu_(%v) # a.py:2:2
  %n : Tensor = aten::neg(%y)
  %m : Tensor = aten::add_(%n, %y, %1), scope: net
  %p : int[] = aten::append(%s, %1)
  %u : Tensor = my::op(%n)
  return (%w, %m)
";

    #[test]
    fn notes_name_the_written_value_and_its_readers() {
        let graph = parse(TEXT.as_bytes(), ParseOptions::default()).expect("a graph").graph;
        let text = print_with_notes(&graph, PrintOptions::default(), notes(&graph));
        let text = String::from_utf8_lossy(&text);
        let noted =
            |line: &str| text.lines().find(|found| found.contains(line)).and_then(|found| found.split_once(" #! "));
        for (line, note) in [
            ("aten::relu_", "writes %v; same memory: input %x, %w; may alias: input %y"),
            // `my::op` is unknown, so it may keep `%n`.
            ("aten::add_", "writes %n; same memory: %m; may alias: input %x, input %y"),
            ("aten::append", "writes %s; same memory: %p"),
        ] {
            assert_eq!(noted(line).map(|(_, found)| found), Some(note), "{text}");
        }
        assert!(noted("my::op").is_some_and(|(_, found)| found.starts_with("may write %n")), "{text}");
        assert!(noted("aten::neg").is_none() && text.contains("# a.py:2:2 #! writes"), "{text}");
    }

    #[test]
    fn a_text_with_notes_reads_as_the_one_without() {
        let graph = parse(TEXT.as_bytes(), ParseOptions::default()).expect("a graph").graph;
        let text = print_with_notes(&graph, PrintOptions::default(), notes(&graph));
        let again = parse(&text, ParseOptions::default()).expect("a graph").graph;
        assert_eq!(String::from_utf8_lossy(&print(&again, PrintOptions::default())), TEXT);
    }
}
