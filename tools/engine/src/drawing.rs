//! A layered drawing of a graph as SVG: data flows from the parameters at the top downwards, row by
//! row.
//!
//! Each node of the graph's outermost block is a box, constants omitted; a fusion group, a section
//! or a node with blocks is a box that lists its nodes. The row of a node is one below the lowest
//! of its operands. The order within a row follows the barycentre heuristic of Sugiyama, Tagawa and
//! Toda (1981), in two sweeps, so that the time is dominated by sorting. Text is not measured by a
//! browser: letters are assumed to have the width of the page's font.

use jitopt_core::ir::{Block, Graph, Node, Value};
use jitopt_core::symbol::prim;
use std::collections::HashMap;
use std::fmt::Write;
use std::ops::Range;

/// Widths and heights, in SVG user units.
const LETTER: f64 = 6.3;
const LINE: f64 = 14.0;
const MARGIN: f64 = 8.0;
const GAP: f64 = 18.0;
const ROW_GAP: f64 = 40.0;
/// Maximum number of lines of a box, and of letters of a line.
const MOST_LINES: usize = 40;
const MOST_LETTERS: usize = 60;

/// One box.
struct Item {
    lines: Vec<String>,
    /// Fusion groups inside of it: the first line of each, and the line after its last.
    groups: Vec<Range<usize>>,
    /// CSS class: `param`, `node`, `group`, `blocks`, `return`.
    class: &'static str,
    /// The boxes that it reads from.
    from: Vec<usize>,
    row: usize,
    x: f64,
    y: f64,
}

impl Item {
    fn width(&self) -> f64 {
        let letters = self.lines.iter().map(|line| line.chars().count()).max().unwrap_or(0);
        letters as f64 * LETTER + 2.0 * MARGIN
    }

    fn height(&self) -> f64 {
        self.lines.len() as f64 * LINE + MARGIN
    }
}

/// The drawing, one `<svg>` element.
pub(crate) fn svg(graph: &Graph) -> String {
    let mut items = items(graph);
    let rows = rows(&mut items);
    order(&mut items, &rows);
    let (width, height) = place(&mut items, &rows);
    let mut text = format!("<svg viewBox=\"0 0 {width:.0} {height:.0}\" preserveAspectRatio=\"xMidYMin meet\">\n");
    for item in &items {
        item.from.iter().for_each(|&from| edge(&mut text, &items[from], item));
    }
    items.iter().for_each(|item| shape(&mut text, item));
    text + "</svg>\n"
}

fn items(graph: &Graph) -> Vec<Item> {
    let root = graph.root();
    let mut items = Vec::new();
    let mut made: HashMap<Value, usize> = HashMap::new();
    for param in graph.params(root) {
        made.insert(param, items.len());
        items.push(item(Label::line(named(graph, param)), "param", Vec::new()));
    }
    for node in graph.nodes(root).filter(|&node| graph.kind(node) != prim::CONSTANT) {
        let mut from: Vec<usize> = reads(graph, node).filter_map(|value| made.get(&value).copied()).collect();
        from.sort_unstable();
        from.dedup();
        made.extend(graph.outputs(node).map(|output| (output, items.len())));
        let class = match () {
            () if graph.kind(node) == prim::FUSION_GROUP => "group",
            () if graph.subgraph(node).is_some() || graph.num_blocks(node) > 0 => "blocks",
            () => "node",
        };
        items.push(item(label(graph, node), class, from));
    }
    let from = graph.results(root).filter_map(|value| made.get(&value).copied()).collect();
    items.push(item(Label::line("return".to_owned()), "return", from));
    items
}

fn item(label: Label, class: &'static str, from: Vec<usize>) -> Item {
    Item { lines: label.lines, groups: label.groups, class, from, row: 0, x: 0.0, y: 0.0 }
}

/// The text of a box.
#[derive(Default)]
struct Label {
    lines: Vec<String>,
    groups: Vec<Range<usize>>,
}

impl Label {
    fn line(text: String) -> Label {
        Label { lines: vec![text], ..Label::default() }
    }
}

/// The operands of a node, including those of nodes in its blocks.
fn reads(graph: &Graph, node: Node) -> impl Iterator<Item = Value> {
    let mut values: Vec<Value> = graph.inputs(node).collect();
    let mut blocks: Vec<Block> = graph.node_blocks(node).collect();
    while let Some(block) = blocks.pop() {
        values.extend(graph.results(block));
        for node in graph.nodes(block) {
            values.extend(graph.inputs(node));
            blocks.extend(graph.node_blocks(node));
        }
    }
    values.into_iter()
}

fn named(graph: &Graph, value: Value) -> String {
    cut(format!("%{} : {}", graph.name(value), graph.ty(value)))
}

fn cut(line: String) -> String {
    if line.chars().count() <= MOST_LETTERS {
        return line;
    }
    line.chars().take(MOST_LETTERS - 1).chain(['…']).collect()
}

/// `%y = tanh(%x)`
fn call(graph: &Graph, node: Node) -> String {
    let names = |values: &mut dyn Iterator<Item = Value>| -> String {
        values.map(|value| operand(graph, value)).collect::<Vec<_>>().join(", ")
    };
    let outputs = names(&mut graph.outputs(node));
    let call = format!("{}({})", graph.kind(node).short(), names(&mut graph.inputs(node)));
    cut(if outputs.is_empty() { call } else { format!("{outputs} = {call}") })
}

/// A value by its name; a constant number as a literal.
fn operand(graph: &Graph, value: Value) -> String {
    match graph.constant_int(value) {
        Some(n) => n.to_string(),
        None => format!("%{}", graph.name(value)),
    }
}

/// The text of a node: the call, the types of its results, and what is inside.
fn label(graph: &Graph, node: Node) -> Label {
    let mut label = Label::line(call(graph, node));
    label.lines.extend(graph.outputs(node).take(4).map(|output| named(graph, output)));
    let last = label.lines.len() + MOST_LINES;
    inside(graph, node, 1, &mut label);
    let left = label.lines.len().saturating_sub(last);
    label.lines.truncate(last);
    label.groups.retain(|group| group.start < last);
    label.groups.iter_mut().for_each(|group| group.end = group.end.min(last));
    label.lines.extend((left > 0).then(|| format!("  … {left} more")));
    label
}

/// Adds the section and the blocks of a node.
fn inside(graph: &Graph, node: Node, depth: usize, label: &mut Label) {
    if let Some(section) = graph.subgraph(node) {
        inner(section, section.root(), depth, label);
    }
    for block in graph.node_blocks(node) {
        label.lines.push(format!("{}─", "  ".repeat(depth)));
        inner(graph, block, depth, label);
    }
}

fn inner(graph: &Graph, block: Block, depth: usize, label: &mut Label) {
    // Few boxes show what is deeper, or so many lines.
    const DEEPEST: usize = 4;
    const MOST_COUNTED: usize = 1000;
    for node in graph.nodes(block).filter(|&node| graph.kind(node) != prim::CONSTANT) {
        if label.lines.len() > MOST_COUNTED {
            return;
        }
        let start = label.lines.len();
        label.lines.push(format!("{}{}", "  ".repeat(depth), call(graph, node)));
        if depth < DEEPEST {
            inside(graph, node, depth + 1, label);
        }
        if graph.kind(node) == prim::FUSION_GROUP {
            label.groups.push(start..label.lines.len());
        }
    }
}

/// Assigns each item its row; returns the items of each row.
fn rows(items: &mut [Item]) -> Vec<Vec<usize>> {
    let mut first_reader = vec![usize::MAX; items.len()];
    for i in 0..items.len() {
        // Operands precede their users.
        let row = items[i].from.iter().map(|&from| items[from].row + 1).max().unwrap_or(0);
        items[i].row = row;
        items[i].from.iter().for_each(|&from| first_reader[from] = first_reader[from].min(row));
    }
    // A parameter is placed in the row before its first reader, not in one long row of all
    // parameters.
    let params = items.iter_mut().zip(&first_reader).filter(|(item, row)| item.class == "param" && **row != usize::MAX);
    params.for_each(|(item, row)| item.row = row.saturating_sub(1));
    let last = items.iter().map(|item| item.row).max().unwrap_or(0);
    let mut rows = vec![Vec::new(); last + 1];
    items.iter().enumerate().for_each(|(i, item)| rows[item.row].push(i));
    rows
}

/// Orders each row by the average position of the neighbours above, then below.
fn order(items: &mut [Item], rows: &[Vec<usize>]) {
    let mut to: Vec<Vec<usize>> = vec![Vec::new(); items.len()];
    for (i, item) in items.iter().enumerate() {
        item.from.iter().for_each(|&from| to[from].push(i));
    }
    let spread = |items: &mut [Item], row: &[usize]| {
        row.iter().enumerate().for_each(|(at, &i)| items[i].x = at as f64 / row.len() as f64);
    };
    rows.iter().for_each(|row| spread(items, row));
    for down in [true, false, true] {
        let all: Vec<&Vec<usize>> = if down { rows.iter().collect() } else { rows.iter().rev().collect() };
        for row in all {
            let mean = |i: usize| {
                let near = if down { &items[i].from } else { &to[i] };
                let sum: f64 = near.iter().map(|&other| items[other].x).sum();
                if near.is_empty() { items[i].x } else { sum / near.len() as f64 }
            };
            let mut sorted: Vec<(f64, usize)> = row.iter().map(|&i| (mean(i), i)).collect();
            sorted.sort_by(|a, b| a.0.total_cmp(&b.0));
            let sorted: Vec<usize> = sorted.into_iter().map(|pair| pair.1).collect();
            spread(items, &sorted);
        }
    }
}

/// Places the boxes of each row next to each other, centred; returns the size of the drawing.
fn place(items: &mut [Item], rows: &[Vec<usize>]) -> (f64, f64) {
    let long = |items: &[Item], row: &[usize]| row.iter().map(|&i| items[i].width() + GAP).sum::<f64>();
    let width = rows.iter().map(|row| long(items, row)).fold(0.0, f64::max) + GAP;
    let mut y = GAP;
    for row in rows {
        let mut sorted = row.clone();
        sorted.sort_by(|&a, &b| items[a].x.total_cmp(&items[b].x));
        let mut x = (width - long(items, row)) / 2.0 + GAP / 2.0;
        for &i in &sorted {
            (items[i].x, items[i].y) = (x, y);
            x += items[i].width() + GAP;
        }
        y += row.iter().map(|&i| items[i].height()).fold(0.0, f64::max) + ROW_GAP;
    }
    (width, y)
}

fn edge(text: &mut String, from: &Item, to: &Item) {
    let (x1, y1) = (from.x + from.width() / 2.0, from.y + from.height());
    let (x2, y2) = (to.x + to.width() / 2.0, to.y);
    let bend = (y2 - y1) / 2.0;
    let _ = writeln!(
        text,
        "<path d=\"M{x1:.0} {y1:.0}C{x1:.0} {:.0} {x2:.0} {:.0} {x2:.0} {y2:.0}\"/>",
        y1 + bend,
        y2 - bend
    );
}

fn shape(text: &mut String, item: &Item) {
    let (x, y, width, height) = (item.x, item.y, item.width(), item.height());
    let _ = write!(
        text,
        "<g class=\"{}\"><rect x=\"{x:.0}\" y=\"{y:.0}\" width=\"{width:.0}\" height=\"{height:.0}\" rx=\"4\"/>",
        item.class
    );
    for group in &item.groups {
        let (top, lines) = (y + group.start as f64 * LINE + 4.0, group.len() as f64);
        let _ = write!(
            text,
            "<rect class=\"inner\" x=\"{:.0}\" y=\"{top:.0}\" width=\"{:.0}\" height=\"{:.0}\" rx=\"3\"/>",
            x + MARGIN / 2.0,
            width - MARGIN,
            lines * LINE
        );
    }
    for (i, line) in item.lines.iter().enumerate() {
        let down = y + (i + 1) as f64 * LINE;
        let _ = write!(text, "<text x=\"{:.0}\" y=\"{down:.0}\">{}</text>", x + MARGIN, escaped(line));
    }
    text.push_str("</g>\n");
}

/// Text escaped for HTML. Leading blanks would be lost otherwise.
pub(crate) fn escaped(text: &str) -> String {
    let blanks = text.len() - text.trim_start_matches(' ').len();
    let rest = text[blanks..].replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;");
    "\u{a0}".repeat(blanks) + &rest
}

#[cfg(test)]
mod tests {
    use super::*;
    use jitopt_core::text::{ParseOptions, parse};

    #[test]
    fn boxes_of_a_row_do_not_overlap_and_stand_below_their_operands() {
        let text =
            b"graph(%x : Tensor, %y : Tensor):\n  %a : Tensor = aten::neg(%x)\n  %b : Tensor = aten::exp(%y)\n  \
            %c : Tensor = aten::mul(%a, %b)\n  %d : Tensor = aten::relu(%x)\n  return (%c, %d)\n";
        let graph = parse(text, ParseOptions::default()).expect("a graph").graph;
        let mut items = items(&graph);
        let rows = rows(&mut items);
        order(&mut items, &rows);
        let (width, height) = place(&mut items, &rows);
        assert_eq!(rows.iter().map(Vec::len).collect::<Vec<_>>(), [2, 3, 1, 1]);
        for (i, item) in items.iter().enumerate() {
            assert!(item.x >= 0.0 && item.x + item.width() <= width && item.y + item.height() <= height);
            assert!(item.from.iter().all(|&from| items[from].y + items[from].height() < item.y));
            let row_mates = items.iter().enumerate().filter(|(j, other)| *j != i && other.row == item.row);
            assert!(row_mates.clone().all(|(_, o)| o.x + o.width() <= item.x || item.x + item.width() <= o.x));
        }
        assert_eq!(svg(&graph).matches("<rect").count(), 7);
    }

    #[test]
    fn a_group_in_a_section_is_drawn_as_a_group() {
        let text = b"graph(%x : Tensor):\n  %y : Tensor = prim::DifferentiableGraph_0(%x)\n  return (%y)\n\
            with prim::DifferentiableGraph_0 = graph(%x : Tensor):\n  %y : Tensor = prim::FusionGroup_1(%x)\n  \
            return (%y)\nwith prim::FusionGroup_1 = graph(%x : Tensor):\n  %y : Tensor = aten::exp(%x)\n  return (%y)\n";
        let graph = parse(text, ParseOptions::default()).expect("a graph").graph;
        let items = items(&graph);
        let groups: Vec<&Range<usize>> = items.iter().flat_map(|item| &item.groups).collect();
        assert_eq!(groups, [&(2..4)]);
        assert_eq!(svg(&graph).matches("class=\"inner\"").count(), 1);
    }
}
