//! The declarations of serialized code: classes with their attributes and methods, functions, and
//! the operators that are called. Bodies are read as tokens; their types and names are not checked.

use crate::code_tokens::{Line, Token, lines};
use crate::declared_types::Declared;
use crate::refusal::{Refusal, Result, refuse, shown};
use std::collections::{BTreeMap, HashSet};

/// Bases that PyTorch writes; a class without one is a plain script class.
const BASES: [&str; 5] = ["Module", "NamedTuple", "Enum", "Interface", "ModuleInterface"];
/// Names of types that a class may not take.
const TYPES: [&str; 16] = [
    "Tensor", "int", "float", "bool", "str", "complex", "number", "List", "Dict", "Tuple", "Optional", "Union",
    "Future", "Any", "NoneType", "Device",
];
/// Statements that PyTorch's parser does not know.
const FOREIGN: [&str; 12] =
    ["try", "except", "finally", "import", "from", "lambda", "yield", "global", "nonlocal", "async", "await", "exec"];
/// Operators that write or read files of any name.
const FILE_OPERATORS: [&str; 2] = ["aten::save", "aten::from_file"];

/// A method, or a function outside classes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Method {
    /// Its name.
    pub name: String,
    /// Names and types of the params, without `self`, as written.
    pub params: Vec<(String, String)>,
    /// The declared type of the result.
    pub result: String,
}

impl Method {
    /// As a signature, `forward(x: Tensor) -> Tensor`.
    pub fn signature(&self) -> String {
        let param = |(name, declared): &(String, String)| {
            if declared.is_empty() { name.clone() } else { format!("{name}: {declared}") }
        };
        let params: Vec<String> = self.params.iter().map(param).collect();
        let result = if self.result.is_empty() { String::new() } else { format!(" -> {}", self.result) };
        format!("{}({}){result}", self.name, params.join(", "))
    }
}

/// A class of the archive.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Class {
    /// `__torch__.torch.nn.modules.conv.Conv2d`
    pub qualified_name: String,
    /// `Module`, another base, or nothing.
    pub base: String,
    /// Names and types of the attributes.
    pub attributes: Vec<(String, String)>,
    /// Names of the attributes that are parameters.
    pub parameters: Vec<String>,
    /// Names of the attributes that are buffers.
    pub buffers: Vec<String>,
    /// Whether the class says which attributes are buffers; 1.3 to 1.5 do not.
    pub lists_buffers: bool,
    /// The methods in order.
    pub methods: Vec<Method>,
}

impl Class {
    /// The declared type of an attribute.
    pub(crate) fn declared(&self, attribute: &str) -> Declared {
        let found = self.attributes.iter().find(|(name, _)| name == attribute);
        found.map_or(Declared::Open, |(_, text)| Declared::parse(text))
    }

    /// Whether loading runs code of the archive.
    pub(crate) fn has_load_hook(&self) -> bool {
        self.methods.iter().any(|method| method.name == "__setstate__")
    }
}

/// The declarations of all code of an archive.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Surface {
    /// By qualified name.
    pub(crate) classes: BTreeMap<String, Class>,
    /// Functions outside classes, by qualified name.
    pub(crate) functions: BTreeMap<String, Method>,
    /// How often each operator is called.
    pub(crate) operators: BTreeMap<String, usize>,
    /// The largest number N of a `CONSTANTS.cN`.
    pub(crate) last_constant: Option<usize>,
    /// Whether a class without methods may be there again: 1.2 writes a named tuple once for each
    /// use.
    pub(crate) repeats: bool,
}

impl Surface {
    /// Adds a file, whose definitions belong to this module, `__torch__.torch.nn`.
    pub(crate) fn read(&mut self, module: &str, bytes: &[u8]) -> Result<()> {
        let lines = lines(bytes)?;
        let mut at = 0;
        while at < lines.len() {
            let end = block_end(&lines, at);
            self.statement(module, &lines[at..end]).map_err(|refusal| refusal.at_line(lines[at].number))?;
            at = end;
        }
        lines.iter().try_for_each(|line| self.calls(line))
    }

    /// One statement outside classes and functions, with its block.
    fn statement(&mut self, module: &str, lines: &[Line<'_>]) -> Result<()> {
        match lines[0].tokens.as_slice() {
            [Token::Name("class"), ..] => {
                let class = class(module, lines)?;
                let name = class.qualified_name.clone();
                let repeats = self.repeats && class.methods.is_empty() && self.classes.get(&name) == Some(&class);
                if self.classes.insert(name.clone(), class).is_some() && !repeats {
                    return refuse(format!("class {} is defined twice", shown(&name)));
                }
                Ok(())
            }
            [Token::Name("def"), ..] => {
                let function = method(lines)?;
                let name = format!("{module}.{}", function.name);
                if self.functions.insert(name.clone(), function).is_some() {
                    return refuse(format!("function {} is defined twice", shown(&name)));
                }
                Ok(())
            }
            [Token::Name("op_version_set"), Token::Mark("="), Token::Number(_)] if lines.len() == 1 => Ok(()),
            // 1.2 names the libraries that a file uses.
            [Token::Name("import"), ..] if lines.len() == 1 => Ok(()),
            [first, ..] => refuse(format!("unknown statement {}", shown(first.text()))),
            [] => Ok(()),
        }
    }

    /// Counts the operators that a line calls, and the constants that it uses.
    fn calls(&mut self, line: &Line<'_>) -> Result<()> {
        use Token::{Mark, Name};
        for at in 0..line.tokens.len() {
            if at > 0 && line.has(at - 1, ".") {
                continue;
            }
            let operator = match &line.tokens[at..] {
                [Name("torch"), Mark("."), Name(name), Mark("("), ..] => format!("aten::{name}"),
                [Name("ops"), Mark("."), Name(space), Mark("."), Name(name), Mark("("), ..] => {
                    format!("{space}::{name}")
                }
                [Name("CONSTANTS"), Mark("."), Name(name), ..] => {
                    let number = name.strip_prefix('c').and_then(|number| number.parse().ok());
                    let Some(number) = number else { return refuse(format!("constant {}", shown(name))) };
                    self.last_constant = self.last_constant.max(Some(number));
                    continue;
                }
                _ => continue,
            };
            if FILE_OPERATORS.contains(&operator.as_str()) {
                let help = "it reads or writes files; do not run this program";
                let refusal = Refusal::new(format!("operator {operator} is not allowed"));
                return Err(refusal.at_line(line.number).with_help(help));
            }
            *self.operators.entry(operator).or_default() += 1;
        }
        Ok(())
    }
}

/// The end of the block of the statement at `at`.
fn block_end(lines: &[Line<'_>], at: usize) -> usize {
    let level = lines[at].level;
    let rest = lines[at + 1..].iter().position(|line| line.level <= level);
    rest.map_or(lines.len(), |length| at + 1 + length)
}

fn class(module: &str, lines: &[Line<'_>]) -> Result<Class> {
    use Token::{Mark, Name};
    let (name, base) = match lines[0].tokens.as_slice() {
        [_, Name(name), Mark("("), Name(base), Mark(")"), Mark(":")] => (*name, *base),
        [_, Name(name), Mark(":")] | [_, Name(name), Mark("("), Mark(")"), Mark(":")] => (*name, ""),
        _ => return refuse("malformed class header"),
    };
    if !base.is_empty() && !BASES.contains(&base) {
        return refuse(format!("unknown base class {}", shown(base)));
    }
    if TYPES.contains(&name) {
        return refuse(format!("class name {} shadows a type", shown(name)));
    }
    let mut class = Class { qualified_name: format!("{module}.{name}"), base: base.to_owned(), ..Class::default() };
    let mut at = 1;
    while at < lines.len() {
        let end = block_end(lines, at);
        class_statement(&mut class, &lines[at..end]).map_err(|refusal| refusal.at_line(lines[at].number))?;
        at = end;
    }
    check_class(&class)?;
    Ok(class)
}

fn class_statement(class: &mut Class, lines: &[Line<'_>]) -> Result<()> {
    use Token::{Mark, Name};
    let tokens = lines[0].tokens.as_slice();
    match tokens {
        [Name("def"), ..] => {
            let method = method(lines)?;
            if !class.base.ends_with("Interface") {
                check_return(&method, lines)?;
            }
            class.methods.push(method);
        }
        [Name("__parameters__"), Mark("="), list @ ..] => class.parameters = texts(list),
        [Name("__buffers__"), Mark("="), list @ ..] => {
            class.buffers = texts(list);
            class.lists_buffers = true;
        }
        [Name("__forward_hooks__" | "__forward_pre_hooks__"), Mark("="), ..] | [Name("pass")] => {}
        // Before the first annotation of a name that is no identifier.
        [Name("__annotations__"), Mark("="), Mark("["), Mark("]")] => {}
        [Name("__annotations__"), Mark("["), Token::Text(name), Mark("]"), Mark("="), declared @ ..] => {
            class.attributes.push((unquoted(name), joined(declared)));
        }
        [Name(name), Mark(":"), declared @ ..] => {
            let end = declared.iter().position(|token| token.is("=")).unwrap_or(declared.len());
            class.attributes.push(((*name).to_owned(), joined(&declared[..end])));
        }
        [Name(_), Mark("="), ..] if class.base == "Enum" => {}
        [first, ..] => return refuse(format!("unknown statement {} in a class", shown(first.text()))),
        [] => {}
    }
    Ok(())
}

/// The strings of `["a", "b", ]`.
fn texts(list: &[Token<'_>]) -> Vec<String> {
    list.iter().filter_map(|token| if let Token::Text(text) = token { Some(unquoted(text)) } else { None }).collect()
}

fn unquoted(text: &str) -> String {
    text[1..text.len() - 1].to_owned()
}

fn check_class(class: &Class) -> Result<()> {
    let twice = |names: Vec<&String>| {
        let mut seen = HashSet::new();
        names.into_iter().find(|name| !seen.insert(name.as_str())).cloned()
    };
    if let Some(name) = twice(class.attributes.iter().map(|(name, _)| name).collect()) {
        return refuse(format!("attribute {} is declared twice", shown(&name)));
    }
    if let Some(name) = twice(class.methods.iter().map(|method| &method.name).collect()) {
        return refuse(format!("method {} is defined twice", shown(&name)));
    }
    let missing = |name: &&String| !class.attributes.iter().any(|(known, _)| known == *name);
    for (list, names) in [("__parameters__", &class.parameters), ("__buffers__", &class.buffers)] {
        if let Some(name) = names.iter().find(missing) {
            return refuse(format!("{list} names an attribute that is not there: {}", shown(name)));
        }
    }
    Ok(())
}

/// A method with its body.
fn method(lines: &[Line<'_>]) -> Result<Method> {
    let tokens = lines[0].tokens.as_slice();
    let [Token::Name("def"), Token::Name(name), Token::Mark("("), rest @ ..] = tokens else {
        return refuse("malformed header of a method");
    };
    let Some(close) = closing(rest) else { return refuse("malformed header of a method") };
    let params = params(&rest[..close])?;
    let result = match &rest[close + 1..] {
        [Token::Mark("->"), declared @ .., Token::Mark(":")] => joined(declared),
        [Token::Mark(":")] => String::new(),
        _ => return refuse("malformed header of a method"),
    };
    if lines.len() == 1 {
        return refuse(format!("method {} has no body", shown(name)));
    }
    lines[1..].iter().try_for_each(check_statement)?;
    Ok(Method { name: (*name).to_owned(), params, result })
}

/// The place of the bracket that closes the one before the tokens.
fn closing(tokens: &[Token<'_>]) -> Option<usize> {
    let mut depth = 0usize;
    for (at, token) in tokens.iter().enumerate() {
        match token {
            Token::Mark("(" | "[" | "{") => depth += 1,
            Token::Mark(")" | "]" | "}") if depth == 0 => return Some(at),
            Token::Mark(")" | "]" | "}") => depth -= 1,
            _ => {}
        }
    }
    None
}

fn params(tokens: &[Token<'_>]) -> Result<Vec<(String, String)>> {
    let mut found: Vec<(String, String)> = Vec::new();
    for param in parts(tokens) {
        let (name, declared) = match param {
            [] | [Token::Name("self"), ..] | [Token::Mark("*")] => continue,
            [Token::Name(name), Token::Mark(":"), declared @ ..] => (*name, declared),
            [Token::Name(name), ..] => (*name, &[][..]),
            [first, ..] => return refuse(format!("malformed param at {}", shown(first.text()))),
        };
        if found.iter().any(|(known, _)| known == name) {
            return refuse(format!("parameter {} is given twice", shown(name)));
        }
        let end = declared.iter().position(|token| token.is("=")).unwrap_or(declared.len());
        found.push((name.to_owned(), joined(&declared[..end])));
    }
    Ok(found)
}

/// The parts between commas outside brackets.
fn parts<'a, 'b>(tokens: &'b [Token<'a>]) -> Vec<&'b [Token<'a>]> {
    let (mut depth, mut start, mut parts) = (0usize, 0, Vec::new());
    for (at, token) in tokens.iter().enumerate() {
        match token {
            Token::Mark("(" | "[" | "{") => depth += 1,
            Token::Mark(")" | "]" | "}") => depth = depth.saturating_sub(1),
            Token::Mark(",") if depth == 0 => {
                parts.push(&tokens[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&tokens[start..]);
    parts
}

/// A type as it is written, from its tokens.
fn joined(tokens: &[Token<'_>]) -> String {
    tokens.iter().map(|token| if token.is(",") { ", " } else { token.text() }).collect()
}

fn check_statement(line: &Line<'_>) -> Result<()> {
    match line.get(0) {
        Some(Token::Name(word)) if FOREIGN.contains(&word) => {
            Err(Refusal::new(format!("unknown statement {}", shown(word))).at_line(line.number))
        }
        _ => Ok(()),
    }
}

/// PyTorch prints one `return`, at the end, unless the result is None.
fn check_return(method: &Method, lines: &[Line<'_>]) -> Result<()> {
    let level = lines[0].level + 1;
    let last = lines.iter().rev().find(|line| line.level == level);
    let returns = last.and_then(|line| line.get(0)).and_then(Token::name) == Some("return");
    if returns || matches!(method.result.as_str(), "" | "None" | "NoneType") {
        return Ok(());
    }
    refuse(format!("method {} has no return at its end, {} declared", shown(&method.name), shown(&method.result)))
}
