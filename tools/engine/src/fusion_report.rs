//! Lists the operators of a graph that fuse, those that do not, with the reasons, and the edits
//! that would help.
//!
//! Reasons are the remarks of the fuser; every suggested edit was applied to a copy of the graph,
//! which was fused again.

use crate::settings::{ARGS, SPECIALIZE};
use jitopt_core::ir::{Attribute, Graph};
use jitopt_core::pass::{self, Pipeline, Remark, RemarkKind, Session};
use jitopt_core::symbol::{Symbol, attr, prim};
use jitopt_core::types::{Simple, Type};
use jitopt_passes::fuser::{Tally, int_operands};
use std::collections::{BTreeMap, HashMap};
use std::path::Path;

/// Passes that create or expose fusible operators.
const HELPERS: &[&str] = &[
    "inline",
    "lower-simple-tuples",
    "constant-propagation",
    "peephole",
    "remove-mutation",
    TRUSTING,
    "remove-expands",
    "canonicalize-ops",
    "decompose-ops",
    "decompose-ops{norms}",
    "constant-loop-unrolling",
];
/// Removes writes as PyTorch does, without type information.
const TRUSTING: &str = "remove-mutation{trusting}";
/// The edit that makes sizes known.
fn sizes_edit() -> String {
    format!("sizes in types ({ARGS}=FILE {SPECIALIZE}=sizes, then `@default,fuse{{level=2}}`)")
}
/// Maximum number of source lines shown per reason.
const LINES: usize = 3;

/// Runs passes on a copy.
fn passed(graph: &Graph, passes: &str, session: &mut Session) -> Option<Graph> {
    let pipeline = Pipeline::parse(passes, &jitopt_passes::REGISTRY).ok()?;
    let mut copy = graph.clone();
    pass::run(&mut copy, &pipeline, session, &mut []).ok().map(|_| copy)
}

/// An edit that was tried, and the resulting fusion statistics.
struct Edit {
    what: String,
    tally: Tally,
}

/// The fusion report of a graph.
pub struct FusionReport {
    fused: Graph,
    tally: Tally,
    /// Reasons why pairs did not fuse, with their locations.
    apart: Vec<(String, Vec<Remark>)>,
    /// In-place operators whose functional variants are pointwise.
    in_place: usize,
    /// Reasons why operators are in no group of level 2, independent of their neighbours.
    outside: Vec<(String, Vec<Remark>)>,
    edits: Vec<Edit>,
}

impl FusionReport {
    /// Fuses copies of a graph, as it is and after edits that may help.
    pub fn of(graph: &Graph) -> FusionReport {
        let listening = || Session { collects_remarks: true, ..Session::default() };
        let (mut session, mut beyond) = (listening(), listening());
        let fused = passed(graph, "fuse", &mut session).unwrap_or_else(|| graph.clone());
        let tally = Tally::of(&fused);
        let edits = edits(graph, &tally);
        passed(graph, "fuse{level=2}", &mut beyond);
        let writes = |node| fused.kind(node).as_str().ends_with('_');
        let in_place = tally.outside.iter().filter(|&&node| writes(node)).count();
        let (apart, outside) = (causes(session.remarks, "producers-fused"), causes(beyond.remarks, "loners-grouped"));
        FusionReport { tally, apart, in_place, outside, edits, fused }
    }

    /// The report of the graph of a file, after passes.
    pub fn text(&self, path: &Path, passes: Option<&str>) -> String {
        let all = self.tally.inside + self.tally.outside.len();
        let after = passes.map_or(String::new(), |passes| format!(" after {passes}"));
        let (path, groups) = (path.display(), counted(self.tally.groups.len(), "group"));
        let mut text = format!(
            "{path}: {groups} with {} of {all} pointwise operators{}{after}\n",
            self.tally.inside,
            reduces(&self.tally)
        );
        for &group in &self.tally.groups {
            let outputs: Vec<String> =
                self.fused.outputs(group).map(|value| format!("%{}", self.fused.name(value))).collect();
            let section = self.fused.subgraph(group).expect("a group has a section");
            let kinds: Vec<&str> = section.all_nodes().map(|node| section.kind(node).as_str()).collect();
            let kinds: Vec<&str> = kinds.into_iter().filter(|kind| *kind != "prim::Constant").collect();
            text += &format!(
                "  {} of {}: {}\n",
                outputs.join(", "),
                counted(self.fused.num_inputs(group), "operand"),
                kinds.join(" ")
            );
        }
        text += &listed("pairs that do not fuse", &self.apart);
        text += &listed("operators that do not fuse at level 2 either", &self.outside);
        if self.in_place > 0 {
            text += &format!("\n{} in place, which cannot fuse\n", counted(self.in_place, "pointwise operator"));
        }
        text + &self.help()
    }

    fn help(&self) -> String {
        if self.edits.is_empty() {
            return "\nno known edit fuses more operators\n".to_owned();
        }
        let mut text = "\nedits that help, each tried separately\n".to_owned();
        for Edit { what, tally } in &self.edits {
            let more = tally.all_inside() as isize - self.tally.all_inside() as isize;
            text += &format!(
                "{more:+5}  {what}: {} with {}{}\n",
                counted(tally.groups.len(), "group"),
                counted(tally.inside, "pointwise operator"),
                reduces(tally)
            );
        }
        text
    }
}

/// Reductions are not pointwise operators, and may form groups of their own.
fn reduces(tally: &Tally) -> String {
    if tally.reduces == 0 { String::new() } else { format!(" and {}", counted(tally.reduces, "reduction")) }
}

fn counted(n: usize, what: &str) -> String {
    if n == 1 { format!("1 {what}") } else { format!("{n} {what}s") }
}

/// Reasons under a title, with their locations.
fn listed(title: &str, causes: &[(String, Vec<Remark>)]) -> String {
    let mut text = if causes.is_empty() { String::new() } else { format!("\n{title}\n") };
    for (why, remarks) in causes {
        text += &format!("{:5}  {why}\n", remarks.len());
        for line in places(remarks) {
            text += &format!("         {line}\n");
        }
    }
    text
}

/// The reasons why a rule of the fuser was not applied, the most frequent one first.
pub(crate) fn causes(remarks: Vec<Remark>, rule: &str) -> Vec<(String, Vec<Remark>)> {
    let mut causes: BTreeMap<String, Vec<Remark>> = BTreeMap::new();
    let is_meant = |remark: &Remark| (remark.kind, remark.pass, remark.rule) == (RemarkKind::Missed, "fuse", rule);
    for remark in remarks.into_iter().filter(is_meant) {
        causes.entry(without_names(&remark.message)).or_default().push(remark);
    }
    let mut causes: Vec<_> = causes.into_iter().collect();
    causes.sort_by_key(|(_, remarks)| std::cmp::Reverse(remarks.len()));
    causes
}

/// A reason without value names, so that equal reasons are counted together.
fn without_names(message: &str) -> String {
    let mut parts = message.split('%');
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let end = part.find(|c: char| !c.is_alphanumeric() && c != '.' && c != '_').unwrap_or(part.len());
        text += "%…";
        text += &part[end..];
    }
    text
}

/// The locations of a reason: source lines where known, else nodes.
pub(crate) fn places(remarks: &[Remark]) -> Vec<String> {
    let (mut places, mut known): (Vec<(&str, usize)>, HashMap<&str, usize>) = Default::default();
    for remark in remarks {
        let (place, next) = (remark.location.as_ref().unwrap_or(&remark.node), places.len());
        let at = *known.entry(place).or_insert(next);
        if at == next {
            places.push((place, 0));
        }
        places[at].1 += 1;
    }
    let more = places.len().saturating_sub(LINES);
    let line = |(place, n): (&str, usize)| if n == 1 { place.to_owned() } else { format!("{place}  ({n} times)") };
    let mut lines: Vec<String> = places.into_iter().take(LINES).map(line).collect();
    lines.extend((more > 0).then(|| format!("and {more} more")));
    lines
}

/// A copy in which queried sizes are constants, as if types contained them; `None` if the graph
/// queries no sizes.
fn with_sizes(graph: &Graph) -> Option<Graph> {
    let size = Symbol::new("aten::size");
    let queries_size = |graph: &Graph, node| graph.kind(node) == size && graph.num_inputs(node) == 2;
    let nodes: Vec<_> = graph.all_nodes().filter(|&node| queries_size(graph, node)).collect();
    let mut copy = graph.clone();
    for &node in &nodes {
        let number = copy.create_op(prim::CONSTANT, &[], Type::simple(Simple::Int));
        copy.set_attribute(number, attr::VALUE, Attribute::Int(1));
        copy.insert_before(node, number);
        let number = copy.output(number, 0);
        copy.replace_all_uses(copy.output(node, 0), number);
    }
    (!nodes.is_empty()).then_some(copy)
}

/// Edits that may fuse more operators than `base`; the best first.
fn edits(graph: &Graph, base: &Tally) -> Vec<Edit> {
    let mut found = Vec::new();
    let mut attempt = |what: String, result: Option<Graph>| {
        let tally = result.map(|graph| Tally::of(&graph));
        found.extend(tally.filter(|tally| tally.beats(base)).map(|tally| Edit { what, tally }));
    };
    let fused = |graph: &Graph, passes: &str| passed(graph, passes, &mut Session::default());
    let two = fused(graph, "fuse{level=2}");
    let beyond = two.as_ref().map(Tally::of).filter(|tally| tally.beats(base)).unwrap_or_else(|| base.clone());
    let more_with_sizes = with_sizes(graph).and_then(|sized| fused(&sized, "fuse{level=2}")).filter(|sized| {
        let without = two.as_ref().map(Tally::of).unwrap_or_default();
        Tally::of(sized).beats(&without)
    });
    attempt("fuse{level=2}".to_owned(), two);
    attempt(sizes_edit(), more_with_sizes);
    for helper in HELPERS {
        let granted = if *helper == TRUSTING {
            " (assumes that written values already have the element type of their destination)"
        } else {
            ""
        };
        let passes = format!("{helper},fuse");
        let with_two = format!("{passes}{{level=2}}");
        let more = fused(graph, &with_two).filter(|graph| Tally::of(graph).beats(&beyond));
        let one = fused(graph, &passes).filter(|graph| Tally::of(graph).beats(base));
        // The effect of level 2 is reported only if level 2 needs the edit.
        match (one, more) {
            (Some(one), _) => attempt(passes + granted, Some(one)),
            (None, more) => attempt(with_two + granted, more),
        }
    }
    for node in Tally::of(graph).outside {
        for operand in int_operands(graph, node) {
            let mut edited = graph.clone();
            let float = edited.create_op(Symbol::new("aten::Float"), &[operand], Type::simple(Simple::Float));
            edited.insert_before(node, float);
            let value = edited.output(float, 0);
            for i in 0..edited.num_inputs(node) {
                if edited.input(node, i) == operand {
                    edited.set_input(node, i, value);
                }
            }
            let (name, user) = (graph.name(operand), graph.name(graph.output(node, 0)));
            attempt(format!("a float for the int %{name} in %{user}, or a constant"), fused(&edited, "fuse"));
        }
    }
    found.sort_by_key(|edit| std::cmp::Reverse(edit.tally.all_inside()));
    found
}
