//! A cached result as text: the key, the inherited names and comments, and the resulting graph.
//!
//! ```text
//! # jitopt transform cache 1 5f0c…                      checksum of what follows
//! # key: passes: cse,dce                                one line for each line of the key
//! # key: graph(%0 : Tensor):
//! # graph: nodes=2 values=3 named=5
//! # node: attributes=0 location=0 scope=0               one for each node of the result
//! # value: place=0 type=own
//! # edit: moved 1 3
//! graph(%x : Tensor):
//! ```
//!
//! Everything except the graph is a comment, so that an entry is a file that can be read, printed
//! and compared like any other. The key is text as well, and is compared in full: it is the same in
//! every process, which encodings of symbols and types are not.

use crate::ir::{
    Detail, Dialect, Graph, GraphWords, NameEdit, NodeSource, Sources, Survey, TypeSource, ValueSource, hash_of_bytes,
};
use crate::symbol::prim;
use crate::text::{ParseOptions, PrintOptions, parse, print, quoted};
use crate::types::release::Release;
use crate::types::{Type, TypeKind};
use rustc_hash::FxHashMap;
use std::fmt::Write as _;

/// The first words of an entry; the number changes with the format.
const MAGIC: &str = "# jitopt transform cache 1 ";

/// The reason why a text is not an entry for a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unreadable {
    /// It was not written by this program, or not completely.
    Damaged,
    /// It is an entry of another key.
    Foreign,
}

/// The key of a graph: all facts in its encoding, independent of the process. None for bytes that
/// are not text.
pub(super) fn key_of(preamble: &str, graph: &Graph, detail: Detail, survey: &Survey) -> Option<String> {
    let mut plain = graph.clone();
    for (place, &value) in survey.values.iter().enumerate() {
        plain.set_number(value, place as u32);
        let is_constant = graph.definer(value).is_some_and(|node| graph.kind(node) == prim::CONSTANT);
        if let Some(ty) = graph.written_type(value).filter(|_| detail == Detail::Erased && !is_constant) {
            plain.set_type(value, ty.erased());
        }
    }
    let mut key = format!("{preamble}\nrelease: {} {:?} {detail:?}\n", graph.release(), graph.dialect);
    types(&mut key, &plain, survey);
    for section in survey.nodes.iter().filter_map(|&node| plain.subgraph(node)) {
        key += &text(section, PrintOptions::default())?;
    }
    Some(key + &text(&plain, PrintOptions { no_comments: true, ..PrintOptions::default() })?)
}

fn text(graph: &Graph, options: PrintOptions) -> Option<String> {
    String::from_utf8(print(graph, options)).ok()
}

/// Types with all their facts: the spellings of some versions omit some.
fn types(key: &mut String, graph: &Graph, survey: &Survey) {
    let mut numbers: FxHashMap<Type, usize> = FxHashMap::default();
    let mut which = String::from("types:");
    for &value in &survey.values {
        let Some(ty) = graph.written_type(value) else {
            which += " -";
            continue;
        };
        let next = numbers.len();
        let number = *numbers.entry(ty).or_insert_with(|| {
            describe(key, ty);
            next
        });
        let _ = write!(which, " {number}");
    }
    *key += &which;
    key.push('\n');
}

/// A line for a type, with its parts in full: tensor types print less than they hold.
fn describe(key: &mut String, ty: Type) {
    let _ = write!(key, "type {ty}");
    ty.map_tensors(&mut |tensor| {
        let _ = write!(key, " {tensor:?}");
        Type::new(TypeKind::Tensor(tensor.clone()))
    });
    key.push('\n');
}

/// The name of the file for a key.
pub(super) fn file_name(key: &str) -> String {
    format!("{:032x}.ir", hash_of_bytes(key.as_bytes()))
}

/// An entry; none where the graph does not read back unchanged.
pub(super) fn write(key: &str, graph: &Graph, sources: &Sources) -> Option<String> {
    let mut body = String::new();
    for line in key.lines() {
        let _ = writeln!(body, "# key: {line}");
    }
    let named: Vec<String> = sources.named.iter().map(|word| format!("{word:x}")).collect();
    let _ =
        writeln!(body, "# graph: nodes={} values={} named={}", sources.num_nodes, sources.num_values, named.join(","));
    for NodeSource { attributes, location, scope } in &sources.nodes {
        let shown = |n: &Option<u32>| n.map_or("-".to_owned(), |n| n.to_string());
        let (attributes, location, scope) = (shown(attributes), shown(location), shown(scope));
        let _ = writeln!(body, "# node: attributes={attributes} location={location} scope={scope}");
    }
    for ValueSource { place, ty } in &sources.values {
        let _ = writeln!(body, "# value: place={place} type={}", type_text(ty));
    }
    for edit in &sources.edits {
        let _ = writeln!(body, "# edit: {}", edit_text(edit));
    }
    body += &whole_text(graph)?;
    Some(format!("{MAGIC}{:032x}\n{body}", hash_of_bytes(body.as_bytes())))
}

/// The graph in its own spelling, or in today's where its own omits facts of its types.
fn whole_text(graph: &Graph) -> Option<String> {
    let mut modern = graph.clone();
    modern.set_release(Release::NEWEST);
    modern.dialect = Dialect::default();
    let texts = [graph, &modern].into_iter().filter_map(|graph| text(graph, PrintOptions::default()));
    texts.into_iter().find(|printed| reads_back(graph, printed))
}

/// Whether the text represents the graph completely.
fn reads_back(graph: &Graph, printed: &str) -> bool {
    let Some(mut read) = graph_of(printed, graph.release()) else { return false };
    read.dialect = graph.dialect;
    let (mut a, mut b) = (GraphWords::default(), GraphWords::default());
    a.read(graph, Detail::Whole).is_ok() && b.read(&read, Detail::Whole).is_ok() && a.words == b.words
}

fn graph_of(text: &str, release: Release) -> Option<Graph> {
    parse(text.as_bytes(), ParseOptions::of(release)).ok().map(|parsed| parsed.graph)
}

fn type_text(ty: &TypeSource) -> String {
    match ty {
        TypeSource::Own => "own".to_owned(),
        TypeSource::Whole(place) => format!("whole:{place}"),
        TypeSource::Parts(parts) => {
            let part = |part: &Option<(u32, u32)>| part.map_or("-".to_owned(), |(place, i)| format!("{place}.{i}"));
            format!("parts:{}", parts.iter().map(part).collect::<Vec<_>>().join(","))
        }
    }
}

fn edit_text(edit: &NameEdit<u32>) -> String {
    match edit {
        NameEdit::Fresh(v) => format!("fresh {v}"),
        NameEdit::Literal(v, name) => {
            let mut text = Vec::new();
            quoted::print(&mut text, name);
            format!("literal {v} {}", String::from_utf8_lossy(&text))
        }
        NameEdit::Moved { from, to, only_nameless: false } => format!("moved {from} {to}"),
        NameEdit::Moved { from, to, only_nameless: true } => format!("moved-to-nameless {from} {to}"),
        NameEdit::Cleared(v) => format!("cleared {v}"),
        NameEdit::Numbered(v, n) => format!("numbered {v} {n}"),
        NameEdit::NumberedIfNameless(v, n) => format!("numbered-if-nameless {v} {n}"),
        NameEdit::Restarted(n) => format!("restarted {n}"),
        NameEdit::Released(v) => format!("released {v}"),
        NameEdit::Exchanged(a, b) => format!("exchanged {a} {b}"),
    }
}

/// The graph and the sources of an entry for `key`.
pub(super) fn read(bytes: &[u8], key: &str, release: Release) -> Result<(Graph, Sources), Unreadable> {
    let text = std::str::from_utf8(bytes).map_err(|_| Unreadable::Damaged)?;
    let (sum, body) = text.strip_prefix(MAGIC).and_then(|rest| rest.split_once('\n')).ok_or(Unreadable::Damaged)?;
    if sum != format!("{:032x}", hash_of_bytes(body.as_bytes())) {
        return Err(Unreadable::Damaged);
    }
    let mut kept = body.lines().map_while(|line| line.strip_prefix("# key: "));
    if !key.lines().all(|line| kept.next() == Some(line)) || kept.next().is_some() {
        return Err(Unreadable::Foreign);
    }
    let sources = sources_of(body).ok_or(Unreadable::Damaged)?;
    let graph = graph_of(body, release).ok_or(Unreadable::Damaged)?;
    Ok((graph, sources))
}

fn sources_of(body: &str) -> Option<Sources> {
    let mut sources = Sources::default();
    for line in body.lines().map_while(|line| line.strip_prefix("# ")) {
        let (what, rest) = line.split_once(": ").unwrap_or((line, ""));
        match what {
            "graph" => {
                let [nodes, values, named] = settings(rest, ["nodes", "values", "named"])?;
                sources.num_nodes = nodes.parse().ok()?;
                sources.num_values = values.parse().ok()?;
                let words = named.split(',').filter(|word| !word.is_empty());
                sources.named = words.map(|word| u64::from_str_radix(word, 16).ok()).collect::<Option<_>>()?;
            }
            "node" => {
                let [attributes, location, scope] = settings(rest, ["attributes", "location", "scope"])?;
                let [attributes, location, scope] = [place_of(attributes)?, place_of(location)?, place_of(scope)?];
                sources.nodes.push(NodeSource { attributes, location, scope });
            }
            "value" => {
                let [place, ty] = settings(rest, ["place", "type"])?;
                sources.values.push(ValueSource { place: place.parse().ok()?, ty: type_of(ty)? });
            }
            "edit" => sources.edits.push(edit_of(rest)?),
            _ => {}
        }
    }
    Some(sources)
}

/// The values of `a=1 b=2`.
fn settings<'a, const N: usize>(text: &'a str, names: [&str; N]) -> Option<[&'a str; N]> {
    let mut words = text.split(' ');
    let mut values = [""; N];
    for (value, name) in values.iter_mut().zip(names) {
        *value = words.next()?.strip_prefix(name)?.strip_prefix('=')?;
    }
    words.next().is_none().then_some(values)
}

fn place_of(text: &str) -> Option<Option<u32>> {
    if text == "-" { Some(None) } else { text.parse().ok().map(Some) }
}

fn type_of(text: &str) -> Option<TypeSource> {
    if text == "own" {
        return Some(TypeSource::Own);
    }
    if let Some(place) = text.strip_prefix("whole:") {
        return Some(TypeSource::Whole(place.parse().ok()?));
    }
    let part = |part: &str| match part {
        "-" => Some(None),
        _ => {
            let (place, i) = part.split_once('.')?;
            Some(Some((place.parse().ok()?, i.parse().ok()?)))
        }
    };
    Some(TypeSource::Parts(text.strip_prefix("parts:")?.split(',').map(part).collect::<Option<_>>()?))
}

fn edit_of(text: &str) -> Option<NameEdit<u32>> {
    let (what, rest) = text.split_once(' ')?;
    let (first, second) = rest.split_once(' ').unwrap_or((rest, ""));
    let first: u32 = first.parse().ok()?;
    let second_number = || second.parse::<u32>().ok();
    Some(match what {
        "fresh" => NameEdit::Fresh(first),
        "literal" => {
            let (name, _) = quoted::parse(second.as_bytes()).ok()?;
            NameEdit::Literal(first, name.into())
        }
        "moved" => NameEdit::Moved { from: first, to: second_number()?, only_nameless: false },
        "moved-to-nameless" => NameEdit::Moved { from: first, to: second_number()?, only_nameless: true },
        "cleared" => NameEdit::Cleared(first),
        "numbered" => NameEdit::Numbered(first, second_number()?),
        "numbered-if-nameless" => NameEdit::NumberedIfNameless(first, second_number()?),
        "restarted" => NameEdit::Restarted(first),
        "released" => NameEdit::Released(first),
        "exchanged" => NameEdit::Exchanged(first, second_number()?),
        _ => return None,
    })
}
