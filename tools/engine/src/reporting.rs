//! Renders diagnostics for users: file, line, caret, what was expected, and the remedy.

use annotate_snippets::{AnnotationKind, Level, Renderer, Snippet};
use jitopt_core::text::{Diagnostic, Severity};
use std::ops::Range;

/// Lines are cut to this many bytes around the finding: a line may be 100 MB long.
const SHOWN: usize = 160;

/// Renders diagnostics of one file.
pub fn render(name: &str, text: &[u8], diagnostics: &[Diagnostic], colour: bool) -> String {
    let renderer = if colour { Renderer::styled() } else { Renderer::plain() };
    let shown: Vec<String> = diagnostics.iter().map(|d| one(&renderer, name, text, d)).collect();
    let errors = diagnostics.iter().filter(|d| d.severity == Severity::Error).count();
    let more = if errors > 1 { format!("{name}: {errors} errors\n") } else { String::new() };
    let all = format!("{}{more}", shown.concat());
    all.lines().map(|line| format!("{}\n", line.trim_end())).collect()
}

fn one(renderer: &Renderer, name: &str, text: &[u8], diagnostic: &Diagnostic) -> String {
    let (window, number) = window(text, &diagnostic.span);
    let line = printable(&text[window.clone()]);
    let inside = |at: usize| printable(&text[window.start..at.clamp(window.start, window.end)]).len();
    let start = boundary(&line, inside(diagnostic.span.start));
    let end = boundary(&line, inside(diagnostic.span.end).max(start + 1).min(line.len().max(start + 1)));
    // A caret after the end of the line needs a character above it.
    let line = if end > line.len() { format!("{line} ") } else { line };
    let level = match diagnostic.severity {
        Severity::Error => Level::ERROR,
        Severity::Warning => Level::WARNING,
    };
    let annotation = AnnotationKind::Primary.span(start..end).label(&diagnostic.label);
    let snippet = Snippet::source(&line).line_start(number).path(name).annotation(annotation);
    let title = level.primary_title(diagnostic.message.as_str()).element(snippet);
    let report = match &diagnostic.help {
        Some(help) => vec![title.element(Level::HELP.message(help.as_str()))],
        None => vec![title],
    };
    format!("{}\n", renderer.render(&report))
}

/// The line around the start of a span, truncated if long, and its number from 1.
fn window(text: &[u8], span: &Range<usize>) -> (Range<usize>, usize) {
    let at = span.start.min(text.len());
    // A finding at the end of the file is shown on the last line.
    let at = if at == text.len() && at > 0 && text[at - 1] == b'\n' { at - 1 } else { at };
    let first = text[..at].iter().rposition(|&b| b == b'\n').map_or(0, |i| i + 1);
    let last = text[at..].iter().position(|&b| b == b'\n').map_or(text.len(), |i| at + i);
    let number = 1 + text[..first].iter().filter(|&&b| b == b'\n').count();
    let start = if at - first > SHOWN { at - SHOWN } else { first };
    (start..last.min(at + SHOWN), number)
}

/// The first character boundary at or after `at`.
fn boundary(line: &str, at: usize) -> usize {
    (at..line.len()).find(|&at| line.is_char_boundary(at)).unwrap_or(at.max(line.len()))
}

/// Bytes as one line of text; control characters would shift the carets.
fn printable(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_caret_stands_under_the_culprit() {
        let text = b"graph(%x : Tensor):\n  %y : Tensr = aten::neg(%x)\n  return (%y)\n";
        let found = Diagnostic::error(27..32, "this is no type", "did you mean `Tensor`?");
        let shown = render("a.ir", text, &[found], false);
        assert!(shown.contains("a.ir:2:8"), "{shown}");
        assert!(shown.contains("2 |   %y : Tensr = aten::neg(%x)\n  |        ^^^^^ did you mean `Tensor`?"), "{shown}");
    }

    #[test]
    fn ends_of_files_long_lines_and_odd_bytes_are_shown() {
        for (text, span) in [
            (&b""[..], 0..0),
            (b"abc\n", 4..4),
            (b"\xff\xfe\0\x01", 2..3),
            (&vec![b'x'; 1 << 20], 500_000..500_001),
            ("é".repeat(300).as_bytes(), 301..302),
        ] {
            let shown = render("f", text, &[Diagnostic::error(span, "message", "label")], false);
            assert!(shown.contains("message") && shown.contains("label") && shown.len() < 2000, "{shown}");
        }
    }
}
