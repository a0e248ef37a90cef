//! Layout is free: blanks, line ends, indentation and comments change wherever two tokens allow it,
//! and the graph stays the same. The test has its own lexer, independent of the parser.

use super::{ParseOptions, PrintOptions, parse, parse_all_graphs, print};
use std::path::{Path, PathBuf};

/// A part of a printed graph that must not contain a line break or other layout.
struct Token<'a> {
    text: &'a str,
    before: Before,
}

/// The layout allowed before a token.
#[derive(Clone, Copy, PartialEq)]
enum Before {
    /// Nothing but the original text: the first blank of a printed tensor belongs to the tensor.
    Nothing,
    /// Blanks of the same line: a scope or a location belongs to the preceding node.
    Blanks,
    /// Any layout but a `#` comment, which would be the location of the node that ends here.
    Statement,
    /// Any layout.
    Gap,
}

/// The tokens of a graph as the printer lays it out; `None` if it has names or scalars that are
/// free text.
fn tokens(text: &str) -> Option<Vec<Token<'_>>> {
    let mut found = Vec::new();
    for line in text.lines() {
        let (mut rest, mut before) = (line.trim_start(), Before::Statement);
        // Defaults of named tuples are Python's printed text.
        if rest.contains('^') || rest.contains("NamedTuple(") && rest.contains(" = (") {
            return None;
        }
        while !rest.is_empty() {
            let closed = found.last().is_some_and(|last: &Token<'_>| last.text == ")");
            let (length, before_it) = match rest {
                _ if closed && (rest.starts_with(", scope: ") || rest.starts_with("# ")) => {
                    (rest.len(), Before::Blanks)
                }
                _ if starts_raw(&found, rest) => (rest.rfind("](")?, Before::Nothing),
                _ => (token_length(rest)?, before),
            };
            found.push(Token { text: &rest[..length], before: before_it });
            before = Before::Gap;
            rest = &rest[length..];
            if !starts_raw(&found, rest) {
                rest = rest.trim_start();
            }
        }
    }
    Some(found)
}

/// Whether an attribute that is not a literal begins here: a printed tensor, or a list of them.
fn starts_raw(found: &[Token<'_>], rest: &str) -> bool {
    let [.., name, equals] = found else { return false };
    let dict = || rest.starts_with("{}") || rest.split('}').next().is_some_and(|inner| inner.contains(": "));
    let raw = rest.contains("Type{")
        || rest.contains("Type]{")
        || rest.contains("MKLDNN")
        || rest.contains("object(")
        || rest.contains("[{");
    equals.text == "=" && name.text == "value" && (raw || rest.starts_with('{') && !dict())
}

fn token_length(rest: &str) -> Option<usize> {
    let bytes = rest.as_bytes();
    let plain = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.');
    let run = |from: usize, of: &dyn Fn(usize) -> bool| from + (from..bytes.len()).take_while(|&i| of(i)).count();
    match bytes[0] {
        b'%' => {
            let end = run(1, &|i| plain(&bytes[i]));
            matches!(bytes.get(end), None | Some(b' ' | b',' | b')')).then_some(end)
        }
        b'"' => super::quoted::parse(bytes).ok().map(|(_, used)| used),
        b'-' if rest.starts_with("->") => Some(2),
        b'<' => rest.find('>').map(|at| at + 1),
        _ => {
            let colon =
                |i: usize| bytes[i] == b':' && i > 0 && bytes.get(i + 1).is_some_and(|b| plain(b) || *b == b':');
            let word = run(0, &|i| plain(&bytes[i]) || matches!(bytes[i], b'-' | b'+') || colon(i));
            // `ClassType<A.B>` is one word.
            let angled = (word > 0 && bytes.get(word) == Some(&b'<')).then(|| rest.find('>').map(|at| at + 1));
            Some(angled.flatten().unwrap_or(word.max(rest.chars().next()?.len_utf8())))
        }
    }
}

/// A deterministic generator, so that a failure names a seed.
struct Chance(u64);

impl Chance {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        ((self.0 >> 33) as usize) % n
    }

    fn pick<'a>(&mut self, of: &[&'a str]) -> &'a str {
        of[self.below(of.len())]
    }
}

const BLANKS: &[&str] = &["", " ", "   ", "\t", "\u{a0}", " \u{2003}"];
const STATEMENTS: &[&str] =
    &["", " ", "\n", "\r\n", "\n\t\t", "\n\u{a0}\u{a0}", "  \n\n   ", " // a note\n", "\n# a note\n"];
const GAPS: &[&str] = &["", "", "", " ", "  ", "\t", "\u{a0}", "\n", "\r\n      ", " # a note\n  ", "\n// %a note)\n"];

/// The same tokens in another layout.
fn laid_out_anew(tokens: &[Token<'_>], chance: &mut Chance) -> String {
    let mut text = String::new();
    let mut last = "";
    for token in tokens {
        let needs_line_end = last.starts_with("# ") || last.starts_with(", scope");
        let word = |text: &str, end: bool| {
            let c = if end { text.chars().last() } else { text.chars().next() };
            c.is_some_and(|c| c.is_alphanumeric() || "_.%:+-\"<>".contains(c))
        };
        let mut gap = match token.before {
            Before::Nothing => "",
            Before::Blanks => chance.pick(BLANKS),
            Before::Statement => chance.pick(STATEMENTS),
            Before::Gap => chance.pick(GAPS),
        };
        if gap.is_empty() && token.before != Before::Nothing && word(last, true) && word(token.text, false) {
            gap = " ";
        }
        text.push_str(if needs_line_end { "\n" } else { gap });
        text.push_str(token.text);
        last = token.text;
    }
    text + "\n"
}

fn graph_files(folder: &Path, into: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("testdata is there").flatten() {
        let path = entry.path();
        match path.is_dir() {
            true => graph_files(&path, into),
            false if path.extension().is_some_and(|name| name == "ir") => into.push(path),
            false => {}
        }
    }
}

/// The effort: one layout of each file, or the number in `JITOPT_LAYOUTS`.
#[test]
fn every_layout_is_the_same_graph() {
    let rounds = std::env::var("JITOPT_LAYOUTS").ok().and_then(|n| n.parse().ok()).unwrap_or(1);
    let mut files = Vec::new();
    graph_files(&Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata"), &mut files);
    files.sort();
    let (mut tried, mut free_text, mut faults) = (0, 0, Vec::new());
    for (index, file) in files.iter().enumerate() {
        let bytes = std::fs::read(file).expect("a file of testdata");
        let Ok(graphs) = parse_all_graphs(&bytes, ParseOptions::default()) else { continue };
        for parsed in graphs.into_iter().filter(|parsed| parsed.warnings.is_empty()) {
            let printed = String::from_utf8_lossy(&print(&parsed.graph, PrintOptions::default())).into_owned();
            let Some(tokens) = tokens(&printed) else {
                free_text += 1;
                continue;
            };
            for round in 0..rounds {
                let text = laid_out_anew(&tokens, &mut Chance((index * 1009 + round) as u64));
                let fault = fault(&text, &printed).map(|fault| format!("{} {round}: {fault}", file.display()));
                faults.extend(fault);
                tried += 1;
            }
        }
    }
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults[..faults.len().min(20)].join("\n"));
    assert!(tried > 1500 && free_text < 200, "{tried} graphs, {free_text} left out");
}

/// The difference that another layout of the same graph makes, described for the failure message.
fn fault(text: &str, printed: &str) -> Option<String> {
    let parsed = match parse(text.as_bytes(), ParseOptions::default()) {
        Ok(parsed) => parsed,
        Err(errors) => {
            let near = text.as_bytes().get(errors[0].span.start.saturating_sub(60)..).unwrap_or_default();
            let near = String::from_utf8_lossy(&near[..near.len().min(120)]).into_owned();
            return Some(format!("{}: {}: {near:?}", errors[0].message, errors[0].label));
        }
    };
    let again = print(&parsed.graph, PrintOptions::default());
    let again = String::from_utf8_lossy(&again);
    let differs = again.lines().zip(printed.lines()).find(|(a, b)| a != b);
    let warned = parsed.warnings.first().map(|warning| format!("{warning:?}"));
    (again != printed).then(|| format!("{differs:?}")).or(warned)
}
