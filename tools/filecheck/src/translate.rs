//! Translates POSIX regular expressions, as LLVM interprets them, to the syntax of
//! `regex-lite`.

use std::iter::Peekable;
use std::str::Chars;

/// Translates an expression: a negated set never matches a newline, `[`, `&` and `~` are literal
/// inside a set, and a brace that does not open a repetition is literal.
pub(crate) fn translate(expression: &str) -> String {
    let mut out = String::with_capacity(expression.len() + 8);
    let mut rest = expression.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            '\\' => {
                out.push(c);
                out.extend(rest.next());
            }
            '[' => set(&mut rest, &mut out),
            '{' if !rest.peek().is_some_and(char::is_ascii_digit) => out.push_str("\\{"),
            _ => out.push(c),
        }
    }
    out
}

/// The rest of a bracket expression, after its `[`.
fn set(rest: &mut Peekable<Chars<'_>>, out: &mut String) {
    out.push('[');
    let negated = rest.next_if_eq(&'^').is_some();
    if negated {
        out.push('^');
    }
    if rest.next_if_eq(&']').is_some() {
        out.push_str("\\]");
    }
    while let Some(c) = rest.next() {
        match c {
            ']' => {
                out.push_str(if negated { "\\n]" } else { "]" });
                return;
            }
            '[' if rest.peek() == Some(&':') => named_class(rest, out),
            '[' | '&' | '~' => out.extend(['\\', c]),
            '\\' => {
                out.push(c);
                out.extend(rest.next());
            }
            _ => out.push(c),
        }
    }
}

/// `[:alpha:]` inside a set, after its `[`.
fn named_class(rest: &mut Peekable<Chars<'_>>, out: &mut String) {
    out.push('[');
    while let Some(c) = rest.next() {
        out.push(c);
        if c == ':' && rest.peek() == Some(&']') {
            out.extend(rest.next());
            return;
        }
    }
}

/// Whether the crate's leftmost-first choice may be shorter than the longest match.
pub(crate) fn may_stop_short(expression: &str) -> bool {
    let quantified = [")?", ")*", ")+", "){"];
    expression.contains('|') || quantified.iter().any(|group| expression.contains(group))
}

#[cfg(test)]
mod tests {
    use super::translate;

    #[test]
    fn sets() {
        assert_eq!(translate("[^a]"), "[^a\\n]");
        assert_eq!(translate("[^]a]"), "[^\\]a\\n]");
        assert_eq!(translate("[a[b]"), "[a\\[b]");
        assert_eq!(translate("[[:alpha:]_]"), "[[:alpha:]_]");
        assert_eq!(translate("[a&&b~]"), "[a\\&\\&b\\~]");
    }

    #[test]
    fn braces_and_escapes() {
        assert_eq!(translate("a{2,3}"), "a{2,3}");
        assert_eq!(translate("{x}"), "\\{x}");
        assert_eq!(translate("\\[a\\{"), "\\[a\\{");
    }
}
