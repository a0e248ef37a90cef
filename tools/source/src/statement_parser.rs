//! Statements, functions and classes: lines to syntax trees.

use crate::expression_parser::Cursor;
use crate::printed_syntax::{ClassDef, Definition, Expr, ExprKind, Field, FunctionDef, Param, Stmt, StmtKind};
use crate::source_error::{Place, Record, Result, SourceError, fail};
use jitopt_archive::code_tokens::{Line, Token, lines};
use std::sync::Arc;

/// Parses a record.
pub(crate) fn parse(record: &Arc<Record>) -> Result<Vec<Definition>> {
    let lines = lines(record.text.as_bytes()).map_err(|refusal| SourceError::new(refusal.to_string()))?;
    let mut parser = Parser { record, text: &record.text, lines: &lines, at: 0 };
    let mut definitions = Vec::new();
    while let Some(line) = lines.get(parser.at) {
        match line.get(0) {
            Some(Token::Name("class")) => definitions.push(Definition::Class(parser.class()?)),
            Some(Token::Name("def")) => definitions.push(Definition::Function(parser.function()?)),
            // Up to 1.2: `op_version_set = 1`, and imports of libraries, all of which are read.
            Some(Token::Name("op_version_set" | "import")) => parser.at += 1,
            _ => return parser.located(parser.cursor(line).expected("`class` or `def`")),
        }
    }
    Ok(definitions)
}

struct Parser<'a, 'l> {
    record: &'l Arc<Record>,
    text: &'a str,
    lines: &'l [Line<'a>],
    at: usize,
}

impl<'a, 'l> Parser<'a, 'l> {
    fn cursor(&self, line: &'l Line<'a>) -> Cursor<'a, 'l> {
        Cursor::new(self.text, line)
    }

    /// Adds the place of the current line to an error that has none.
    fn located<T>(&self, result: Result<T>) -> Result<T> {
        let at = self.lines.get(self.at).map_or(self.text.len(), |line| self.cursor(line).offset());
        result.map_err(|error| error.at(&Place { record: Arc::clone(self.record), at }))
    }

    /// Reads a line with `read`, and moves on. An error gets the place that was reached.
    fn line<T>(&mut self, read: impl FnOnce(&mut Cursor<'a, 'l>) -> Result<T>) -> Result<T> {
        let Some(line) = self.lines.get(self.at) else { return self.located(fail("the code ends here")) };
        let mut cursor = self.cursor(line);
        let place = |cursor: &Cursor<'_, '_>| Place { record: Arc::clone(self.record), at: cursor.offset() };
        let value = read(&mut cursor).map_err(|error| error.at(&place(&cursor)))?;
        cursor.end().map_err(|error| error.at(&place(&cursor)))?;
        self.at += 1;
        Ok(value)
    }

    /// The lines that are deeper than this level.
    fn block(&mut self, level: usize) -> Result<Vec<Stmt>> {
        let mut statements = Vec::new();
        while self.lines.get(self.at).is_some_and(|line| line.level > level) {
            statements.push(self.statement()?);
        }
        if statements.is_empty() { self.located(fail("expected a block")) } else { Ok(statements) }
    }

    fn class(&mut self) -> Result<ClassDef> {
        let level = self.lines[self.at].level;
        let mut class = self.line(|cursor| {
            cursor.next();
            let name = cursor.name()?;
            let mut base = String::new();
            if cursor.takes("(") && !cursor.takes(")") {
                base = cursor.name()?;
                cursor.expect(")")?;
            }
            cursor.expect(":")?;
            let (fields, methods, before_forward, after_forward) = Default::default();
            Ok(ClassDef { name, base, fields, methods, before_forward, after_forward })
        })?;
        while self.lines.get(self.at).is_some_and(|line| line.level > level) {
            match self.lines[self.at].get(0) {
                Some(Token::Name("def")) => class.methods.push(self.function()?),
                Some(Token::Name("__forward_pre_hooks__")) => class.before_forward = self.line(names)?,
                Some(Token::Name("__forward_hooks__")) => class.after_forward = self.line(names)?,
                _ => {
                    let field = self.line(field)?;
                    class.fields.extend(field);
                }
            }
        }
        Ok(class)
    }

    fn function(&mut self) -> Result<FunctionDef> {
        let level = self.lines[self.at].level;
        let mut function = self.line(header)?;
        function.body = self.block(level)?;
        Ok(function)
    }

    fn statement(&mut self) -> Result<Stmt> {
        let line = &self.lines[self.at];
        let (level, at) = (line.level, self.cursor(line).offset());
        let Some(Token::Name(word)) = line.get(0) else { return self.simple(at) };
        let kind = match word {
            "def" => StmtKind::Def(self.function()?),
            "if" => self.conditional(level)?,
            "for" => {
                let (target, over) = self.line(|cursor| {
                    cursor.next();
                    let target = cursor.name()?;
                    if !cursor.takes_name("in") {
                        return cursor.expected("`in`");
                    }
                    let over = cursor.expression()?;
                    cursor.expect(":")?;
                    Ok((target, over))
                })?;
                StmtKind::For { target, over, body: self.block(level)? }
            }
            "while" => {
                let condition = self.line(condition)?;
                StmtKind::While { condition, body: self.block(level)? }
            }
            "with" => {
                let objects = self.line(|cursor| {
                    cursor.next();
                    let objects = cursor.expressions()?;
                    cursor.expect(":")?;
                    Ok(objects)
                })?;
                let objects = match objects.kind {
                    ExprKind::Tuple(items) => items,
                    _ => vec![objects],
                };
                StmtKind::With { objects, body: self.block(level)? }
            }
            _ => return self.simple(at),
        };
        Ok(Stmt { at, kind })
    }

    fn conditional(&mut self, level: usize) -> Result<StmtKind> {
        let condition = self.line(condition)?;
        let then = self.block(level)?;
        let has_else = |line: &Line<'_>| line.level == level && line.get(0) == Some(Token::Name("else"));
        let otherwise = if self.lines.get(self.at).is_some_and(has_else) {
            self.line(|cursor| {
                cursor.next();
                cursor.expect(":")
            })?;
            self.block(level)?
        } else {
            Vec::new()
        };
        Ok(StmtKind::If { condition, then, otherwise })
    }

    fn simple(&mut self, at: usize) -> Result<Stmt> {
        let kind = self.line(simple)?;
        Ok(Stmt { at, kind })
    }
}

/// `if condition:`, `while condition:`
fn condition(cursor: &mut Cursor<'_, '_>) -> Result<Expr> {
    cursor.next();
    let condition = cursor.expression()?;
    cursor.expect(":")?;
    Ok(condition)
}

/// A statement without a block.
fn simple(cursor: &mut Cursor<'_, '_>) -> Result<StmtKind> {
    if cursor.takes_name("pass") {
        return Ok(StmtKind::Pass);
    }
    if cursor.takes_name("return") {
        let value = cursor.peek().map(|_| cursor.expressions()).transpose()?;
        return Ok(StmtKind::Return(value));
    }
    let first = cursor.expressions()?;
    let declared = if cursor.takes(":") { Some(cursor.expression()?) } else { None };
    if !cursor.takes("=") {
        return match declared {
            None => Ok(StmtKind::Expr(first)),
            Some(_) => cursor.expected("`=`"),
        };
    }
    let value = cursor.expressions()?;
    Ok(match first.kind {
        ExprKind::Tuple(targets) => StmtKind::Assign { targets, unpacks: true, declared, value },
        _ => StmtKind::Assign { targets: vec![first], unpacks: false, declared, value },
    })
}

/// `def name(self, x: T=default) -> T:`
fn header(cursor: &mut Cursor<'_, '_>) -> Result<FunctionDef> {
    let at = cursor.offset();
    cursor.next();
    let name = cursor.name()?;
    cursor.expect("(")?;
    let mut params = Vec::new();
    while !cursor.takes(")") {
        if !cursor.takes("*") {
            let name = cursor.name()?;
            let declared = cursor.takes(":").then(|| cursor.expression()).transpose()?;
            let default = cursor.takes("=").then(|| cursor.expression()).transpose()?;
            params.push(Param { name, declared, default });
        }
        if !cursor.takes(",") {
            cursor.expect(")")?;
            break;
        }
    }
    let result = cursor.takes("->").then(|| cursor.expression()).transpose()?;
    cursor.expect(":")?;
    Ok(FunctionDef { at, name, params, result, body: Vec::new() })
}

/// The names of `__forward_hooks__ = ["a", "b", ]`.
fn names(cursor: &mut Cursor<'_, '_>) -> Result<Vec<String>> {
    cursor.next();
    cursor.expect("=")?;
    let list = cursor.expression()?;
    let ExprKind::List(items) = list.kind else { return cursor.expected("a list of names") };
    let text = |item: Expr| match item.kind {
        ExprKind::Text(text) => Some(String::from_utf8_lossy(&text).into_owned()),
        _ => None,
    };
    Ok(items.into_iter().filter_map(text).collect())
}

/// A statement of a class; nothing for lists of parameters, buffers and hooks.
fn field(cursor: &mut Cursor<'_, '_>) -> Result<Option<Field>> {
    let at = cursor.offset();
    if cursor.takes_name("pass") {
        return Ok(None);
    }
    let mut name = cursor.name()?;
    if name == "__annotations__" {
        if cursor.takes("=") {
            cursor.expression()?;
            return Ok(None);
        }
        cursor.expect("[")?;
        let ExprKind::Text(text) = cursor.expression()?.kind else { return cursor.expected("a name in quotes") };
        name = String::from_utf8_lossy(&text).into_owned();
        cursor.expect("]")?;
        cursor.expect("=")?;
        let declared = Some(cursor.expression()?);
        return Ok(Some(Field { at, name, declared, value: None }));
    }
    let declared = cursor.takes(":").then(|| cursor.expression()).transpose()?;
    let value = cursor.takes("=").then(|| cursor.expressions()).transpose()?;
    Ok((!name.starts_with("__")).then_some(Field { at, name, declared, value }))
}
