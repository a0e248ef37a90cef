//! The line of a node after its outputs: kind, attributes, operands, scope and location.

use super::{Kind, Parser, Step, fault};
use crate::ir::{Attribute, Node};
use crate::symbol::{Symbol, attr};
use crate::text::diagnostic::Diagnostic;
use crate::text::extents::{closing, is_kind};
use crate::text::literal;
use crate::text::printer::NOTE;
use crate::types::gaps;

impl<'a> Parser<'a> {
    /// `kind[attributes](operands), scope: … # location`; the outputs are already in
    /// `self.outputs`.
    pub(super) fn node(&mut self) -> Step<()> {
        let (kind, text) = self.kind()?;
        let frame = self.frames.last_mut().expect("a frame is open while a graph is read");
        let node = frame.graph.create(kind.symbol);
        self.attributes(node)?;
        if text.starts_with(b"^") {
            self.python_arguments(node)?;
        }
        if !self.cursor.eat_after_space(b"(") {
            let at = self.cursor.at;
            return fault(at..at + 1, "expected `(` and the operands after the operator", "expected `(`");
        }
        self.operand_list("operands")?;
        self.finish_node(node)?;
        let frame = self.frame();
        if kind.numbered {
            frame.references.entry(text).or_default().push_back(node);
        }
        Ok(())
    }

    fn finish_node(&mut self, node: Node) -> Step<()> {
        let frame = self.frames.last_mut().expect("a frame is open while a graph is read");
        frame.graph.set_inputs(node, self.operands.iter().copied());
        for &(name, ty) in &self.outputs {
            frame.define(node, name, ty);
        }
        let open = frame.blocks.last_mut().expect("the root block stays open until `return`");
        frame.graph.append(open.block, node);
        open.last = Some(node);
        self.trailer(node)
    }

    fn kind(&mut self) -> Step<(Kind, &'a [u8])> {
        let start = self.cursor.at;
        let rest = self.cursor.rest();
        let caret = usize::from(rest.first() == Some(&b'^'));
        let mut len = caret + rest[caret..].iter().take_while(|b| is_kind(**b)).count();
        if len == caret {
            // Names of Python functions may contain any character, `^<lambda>(`.
            len = rest.iter().take_while(|b| caret == 1 && !matches!(b, b'(' | b'[' | b'\n')).count();
        }
        let text = &rest[..len];
        if let Some(&kind) = self.kinds.get(text) {
            self.cursor.at += len;
            return Ok((kind, text));
        }
        if caret == 0 && !text.windows(2).any(|pair| pair == b"::") {
            return fault(
                start..start + len.max(1),
                "invalid operator name",
                "expected `namespace::name`, such as `aten::add`",
            );
        }
        let Ok(name) = std::str::from_utf8(text) else {
            return fault(start..start + len, "this operator name is not UTF-8", "expected `namespace::name`");
        };
        if matches!(name, "prim::Param" | "prim::Return") {
            let label = "every graph and block has an implicit one";
            return fault(start..start + len, format!("`{name}` is not allowed in the text"), label);
        }
        let digits = text.iter().rev().take_while(|b| b.is_ascii_digit()).count();
        let numbered = caret == 0 && digits > 0 && text[..len - digits].ends_with(b"_");
        let kind = Kind { symbol: Symbol::new(name), numbered };
        self.mentions.kinds.push((kind.symbol, start..start + len));
        self.kinds.insert(text, kind);
        self.cursor.at += len;
        Ok((kind, text))
    }

    /// `[name=value, …]`, if present.
    fn attributes(&mut self, node: Node) -> Step<()> {
        if !self.cursor.eat_after_space(b"[") {
            return Ok(());
        }
        self.cursor.space();
        if self.cursor.eat(b"]") {
            self.frame().graph.set_empty_attributes(node);
            return Ok(());
        }
        loop {
            self.attribute(node)?;
            self.cursor.space();
            if self.cursor.eat(b"]") {
                return Ok(());
            }
            let at = self.cursor.at;
            if !self.cursor.eat(b",") {
                return fault(at..at + 1, "expected `,` or `]` after this attribute", "here");
            }
            self.cursor.space();
        }
    }

    fn attribute(&mut self, node: Node) -> Step<()> {
        let start = self.cursor.at;
        let name = self.cursor.take_while(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'.');
        self.cursor.space();
        if name.is_empty() || !self.cursor.eat(b"=") {
            let end = self.cursor.at.max(start + 1);
            return fault(start..end, "malformed attribute", "expected `name=value`");
        }
        let symbol = if name == b"value" { attr::VALUE } else { Symbol::new(&String::from_utf8_lossy(name)) };
        let at = self.cursor.at;
        let ty = self.outputs.first().and_then(|&(_, ty)| ty);
        match literal::parse(self.cursor.rest(), symbol, ty, &mut self.evidence) {
            Ok(literal::Read { value, used, doubt }) => {
                self.cursor.at += used;
                if let Some(literal::Problem { span, message, help }) = doubt {
                    let span = at + span.start..at + span.end;
                    let found = Diagnostic::warning(span, "this is not a literal that PyTorch prints", message);
                    self.report(Diagnostic { help, ..found });
                }
                if self.frame().graph.attribute(node, symbol).is_some() {
                    return fault(
                        start..start + name.len(),
                        "duplicate attribute",
                        "the list already has an attribute of this name",
                    );
                }
                self.frame().graph.set_attribute(node, symbol, value);
                Ok(())
            }
            Err(literal::Problem { span, message, help }) => {
                let length = self.cursor.text.len();
                let (start, end) = ((at + span.start).min(length), (at + span.end).min(length));
                let found = Diagnostic::error(start..end.max(start + 1), "invalid attribute value", message);
                Err(Box::new(Diagnostic { help, ..found }))
            }
        }
    }

    /// `^Fn(2.0, "a")(%x)`: the scalars, kept verbatim.
    fn python_arguments(&mut self, node: Node) -> Step<()> {
        self.cursor.space();
        let start = self.cursor.at;
        let rest = self.cursor.rest();
        let then = |end: usize| rest[end + 1 + gaps::gap(&rest[end + 1..])..].first();
        let end = closing(rest).filter(|&end| rest.first() == Some(&b'(') && then(end) == Some(&b'('));
        // A Python operator without scalars in the text of some versions: `^Fn(%x)`.
        let Some(end) = end else { return Ok(()) };
        let Ok(text) = std::str::from_utf8(&rest[1..end]) else {
            return fault(start..start + end, "these scalars are not UTF-8", "expected `(2.0, …)`");
        };
        self.cursor.at += end + 1;
        let graph = &mut self.frame().graph;
        if graph.has_attribute_list(node) && graph.attributes(node).is_empty() {
            graph.set_attribute(node, attr::EMPTY_BRACKETS, Attribute::None);
        }
        graph.set_attribute(node, attr::PYTHON_ARGS, Attribute::Opaque(text.into()));
        Ok(())
    }

    /// `(%a, %b)` into `self.operands`.
    pub(super) fn operands(&mut self, what: &str) -> Step<()> {
        let at = self.cursor.at;
        match self.cursor.eat(b"(") {
            true => self.operand_list(what),
            false => fault(at..at + 1, format!("expected `(` before the {what}"), "here"),
        }
    }

    /// The rest of an operand list after its opening bracket.
    fn operand_list(&mut self, what: &str) -> Step<()> {
        self.operands.clear();
        self.cursor.space();
        if self.cursor.eat(b")") {
            return Ok(());
        }
        loop {
            let at = self.cursor.at;
            if !self.cursor.eat(b"%") {
                return fault(at..at + 1, format!("expected a value among the {what}"), "expected `%name`");
            }
            let name = self.used_name()?;
            let frame = self.frames.last_mut().expect("a frame is open while a graph is read");
            let value = frame.resolve(name, at..self.cursor.at);
            self.operands.push(value);
            let end = self.cursor.at;
            self.cursor.space();
            match self.cursor.peek() {
                Some(b')') => {
                    self.cursor.at += 1;
                    return Ok(());
                }
                Some(b',') => {
                    self.cursor.at += 1;
                    self.cursor.space();
                }
                Some(b':') => {
                    let at = self.cursor.at;
                    return fault(at..at + 1, "operands have no types", "expected `,` or `)`");
                }
                _ => {
                    let at = self.place_after(end);
                    return fault(at..at + 1, format!("expected `,` or `)` after the {what}"), "here");
                }
            }
        }
    }

    /// The position of an error in the token after the one that ends at `end`: never on a later
    /// line.
    pub(super) fn place_after(&self, end: usize) -> usize {
        let gap = &self.cursor.text[end..self.cursor.at];
        if gap.contains(&b'\n') { end } else { self.cursor.at }
    }

    /// `, scope: …` and `# location` after the operands.
    fn trailer(&mut self, node: Node) -> Step<()> {
        self.cursor.blanks();
        if self.at_plain_line_end() {
            return Ok(());
        }
        let at = self.cursor.at;
        let line = &self.cursor.text[at..self.cursor.line_end()];
        if let Some((word, rest)) = scope_word(line) {
            let end = match rest.starts_with(b"#") {
                true => 0,
                false => scope_end(rest),
            };
            let scope = gaps::trim_end(&rest[gaps::blanks(rest).min(end)..end]);
            self.frame().graph.set_scope(node, scope);
            self.cursor.at = at + word + end;
            self.cursor.blanks();
        }
        let line = &self.cursor.text[self.cursor.at..self.cursor.line_end()];
        if let Some(comment) = line.strip_prefix(b"#") {
            let location = without_note(comment);
            let trimmed = gaps::trim_end(location);
            let trimmed = &trimmed[gaps::blanks(trimmed)..];
            if location == comment || !trimmed.is_empty() {
                self.frame().graph.set_location(node, trimmed);
            }
            self.cursor.at += line.len();
            return Ok(());
        }
        if self.at_statement_end() {
            return Ok(());
        }
        let at = self.cursor.at;
        fault(
            at..at + line.len(),
            "unexpected text after the operands of this node",
            "expected `, scope: …`, `# location`, another statement or the end of the line",
        )
    }

    fn at_plain_line_end(&self) -> bool {
        matches!(self.cursor.peek(), None | Some(b'\n'))
    }
}

/// `, scope:` at the start of a line: its length, and the text after it.
fn scope_word(line: &[u8]) -> Option<(usize, &[u8])> {
    let mut rest = line;
    for token in [&b","[..], b"scope", b":"] {
        rest = rest[gaps::blanks(rest)..].strip_prefix(token)?;
    }
    Some((line.len() - rest.len(), rest))
}

/// The end of a scope: before ` # ` of a location, or ` #! ` of a note.
fn scope_end(rest: &[u8]) -> usize {
    let begins = |&at: &usize| {
        let after = &rest[at + 1..];
        rest[..at].ends_with(b" ") && (after.starts_with(b" ") || after.starts_with(b"! "))
    };
    memchr::memchr_iter(b'#', rest).find(begins).map_or(rest.len(), |at| at - 1)
}

/// A comment without the note of `--print-mutations`, which does not belong to the graph.
fn without_note(comment: &[u8]) -> &[u8] {
    let note = NOTE.as_bytes();
    if comment.starts_with(&note[1..]) {
        return &[];
    }
    let begins = |&at: &usize| comment[..at].ends_with(b" ") && comment[at..].starts_with(note);
    &comment[..memchr::memrchr_iter(note[0], comment).find(begins).map_or(comment.len(), |at| at - 1)]
}
