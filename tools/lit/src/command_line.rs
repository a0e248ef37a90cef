//! Parses `RUN:` lines: the subset of shell syntax that needs no shell.

/// Commands joined by pipes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pipeline {
    pub(crate) commands: Vec<Command>,
}

/// One command with its environment and redirects.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Command {
    /// `NAME=value` before the command.
    pub(crate) env: Vec<(String, String)>,
    pub(crate) argv: Vec<String>,
    /// In the order written, as the order of `> f` and `2>&1` matters.
    pub(crate) redirects: Vec<Redirect>,
}

impl Command {
    /// The name of the command.
    pub(crate) fn name(&self) -> &str {
        self.argv.first().map_or("", String::as_str)
    }
}

/// The source or destination of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Redirect {
    Input(String),
    Output { path: String, append: bool },
    Error { path: String, append: bool },
    ErrorToOutput,
}

/// The values of `%` and a letter.
pub(crate) struct Substitutions {
    /// `%s`, `%S`, `%t`, `%T`.
    pub(crate) values: [(char, String); 4],
}

impl Substitutions {
    /// Substitutes them in a word. Value names such as `%sum` are left alone.
    fn apply(&self, word: &str) -> String {
        let mut out = String::new();
        let mut rest = word;
        while let Some(at) = rest.find('%') {
            out.push_str(&rest[..at]);
            rest = &rest[at + 1..];
            if let Some(after) = rest.strip_prefix('%') {
                out.push('%');
                rest = after;
            } else if let Some(value) = self.value(rest) {
                out.push_str(value);
                rest = &rest[1..];
            } else {
                out.push('%');
            }
        }
        out + rest
    }

    fn value(&self, rest: &str) -> Option<&str> {
        let mut chars = rest.chars();
        let (letter, next) = (chars.next()?, chars.next());
        let (_, value) = self.values.iter().find(|(name, _)| *name == letter)?;
        let name_goes_on = |c: char| c.is_ascii_alphabetic() || c == '_' || (c.is_ascii_digit() && letter != 't');
        (!next.is_some_and(name_goes_on)).then_some(value)
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Token {
    /// A word, and how much of its start was not quoted.
    Word(String, usize),
    Pipe,
    /// `<`, `>`, `>>`, `2>`, `2>>`: needs a word next.
    Redirect(&'static str),
    ErrorToOutput,
}

/// Parses one line.
pub(crate) fn parse(line: &str, substitutions: &Substitutions) -> Result<Pipeline, String> {
    let mut commands = vec![Command::default()];
    let mut tokens = Lexer { rest: line }.tokens()?.into_iter();
    while let Some(token) = tokens.next() {
        let last = commands.len() - 1;
        let command = &mut commands[last];
        match token {
            Token::Pipe if command.argv.is_empty() => return Err("no command before `|`".to_owned()),
            Token::Pipe => commands.push(Command::default()),
            Token::ErrorToOutput => command.redirects.push(Redirect::ErrorToOutput),
            Token::Redirect(sign) => match tokens.next() {
                Some(Token::Word(path, _)) => command.redirects.push(redirect(sign, substitutions.apply(&path))),
                _ => return Err(format!("no file after `{sign}`")),
            },
            Token::Word(word, bare) => match assignment(&word, bare) {
                Some((name, value)) if command.argv.is_empty() => {
                    command.env.push((name.to_owned(), substitutions.apply(value)));
                }
                _ => command.argv.push(substitutions.apply(&word)),
            },
        }
    }
    if commands.iter().any(|command| command.argv.is_empty()) {
        return Err("expected a command".to_owned());
    }
    Ok(Pipeline { commands })
}

fn redirect(sign: &str, path: String) -> Redirect {
    match sign {
        "<" => Redirect::Input(path),
        ">" | ">>" => Redirect::Output { path, append: sign == ">>" },
        _ => Redirect::Error { path, append: sign == "2>>" },
    }
}

/// `NAME=value`, if the name was not quoted.
fn assignment(word: &str, bare: usize) -> Option<(&str, &str)> {
    let (name, value) = word.split_once('=')?;
    let word = name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    let named = word && name.bytes().next().is_some_and(|b| !b.is_ascii_digit());
    (named && bare > name.len()).then_some((name, value))
}

struct Lexer<'a> {
    rest: &'a str,
}

impl Lexer<'_> {
    fn tokens(mut self) -> Result<Vec<Token>, String> {
        let mut tokens = Vec::new();
        loop {
            self.rest = self.rest.trim_start();
            let Some(first) = self.rest.chars().next() else {
                return Ok(tokens);
            };
            let token = match self.operator() {
                Some(token) => token,
                None if first == '#' => return Err("`#` starts a comment in a shell: quote it".to_owned()),
                None => self.word()?,
            };
            tokens.push(token);
        }
    }

    fn operator(&mut self) -> Option<Token> {
        const OPERATORS: [(&str, Option<&str>); 8] = [
            ("2>&1", None),
            ("2>>", Some("2>>")),
            ("2>", Some("2>")),
            ("1>>", Some(">>")),
            ("1>", Some(">")),
            (">>", Some(">>")),
            (">", Some(">")),
            ("<", Some("<")),
        ];
        if self.rest.starts_with('|') && !self.rest.starts_with("||") {
            self.rest = &self.rest[1..];
            return Some(Token::Pipe);
        }
        let (sign, redirect) = OPERATORS.into_iter().find(|(sign, _)| self.rest.starts_with(sign))?;
        self.rest = &self.rest[sign.len()..];
        Some(redirect.map_or(Token::ErrorToOutput, Token::Redirect))
    }

    fn word(&mut self) -> Result<Token, String> {
        let mut word = String::new();
        let mut bare = None;
        while let Some(c) = self.rest.chars().next() {
            match c {
                ' ' | '\t' | '<' | '>' => break,
                '|' if !self.rest.starts_with("||") => break,
                '\'' | '"' => {
                    bare.get_or_insert(word.len());
                    self.rest = &self.rest[1..];
                    if c == '"' { self.double_quoted(&mut word)? } else { self.single_quoted(&mut word)? }
                }
                '\\' => {
                    bare.get_or_insert(word.len());
                    let escaped = self.rest[1..].chars().next().ok_or("nothing after `\\`")?;
                    word.push(escaped);
                    self.rest = &self.rest[1 + escaped.len_utf8()..];
                }
                _ => {
                    refuse(self.rest)?;
                    word.push(c);
                    self.rest = &self.rest[c.len_utf8()..];
                }
            }
        }
        let bare = bare.unwrap_or(word.len());
        Ok(Token::Word(word, bare))
    }

    fn single_quoted(&mut self, word: &mut String) -> Result<(), String> {
        let (quoted, rest) = self.rest.split_once('\'').ok_or("`'` is not closed")?;
        word.push_str(quoted);
        self.rest = rest;
        Ok(())
    }

    fn double_quoted(&mut self, word: &mut String) -> Result<(), String> {
        let mut chars = self.rest.char_indices();
        while let Some((at, c)) = chars.next() {
            match c {
                '"' => {
                    self.rest = &self.rest[at + 1..];
                    return Ok(());
                }
                '$' | '`' => return Err(format!("`{c}` is expanded in a shell: use single quotes")),
                '\\' => match chars.next() {
                    Some((_, escaped @ ('"' | '\\' | '$' | '`'))) => word.push(escaped),
                    other => word.extend([Some('\\'), other.map(|(_, c)| c)].into_iter().flatten()),
                },
                _ => word.push(c),
            }
        }
        Err("`\"` is not closed".to_owned())
    }
}

/// Refuses characters that a shell would interpret.
fn refuse(rest: &str) -> Result<(), String> {
    for sequence in ["&&", "||", ";"] {
        if rest.starts_with(sequence) {
            return Err(format!("`{sequence}` is not supported: write one RUN line for each command"));
        }
    }
    match rest.chars().next() {
        Some(c @ ('&' | '(' | ')' | '{' | '}' | '$' | '`' | '*' | '?')) => {
            Err(format!("`{c}` is special to a shell: quote it"))
        }
        _ => Ok(()),
    }
}

/// The command as typed in a shell.
pub(crate) fn show(argv: &[String]) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_=./,:@%+[]".contains(c);
    let quote = |word: &String| match !word.is_empty() && word.chars().all(plain) {
        true => word.clone(),
        false => format!("'{}'", word.replace('\'', "'\\''")),
    };
    argv.iter().map(quote).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::{Redirect, Substitutions, parse};

    fn substitutions() -> Substitutions {
        let value = |name: char| (name, format!("/{name}"));
        Substitutions { values: ['s', 'S', 't', 'T'].map(value) }
    }

    fn argv(line: &str) -> Vec<String> {
        parse(line, &substitutions()).unwrap().commands.remove(0).argv
    }

    #[test]
    fn words_and_quotes() {
        assert_eq!(argv(r#"a 'b c' "d\"e" f\ g h'i'j '' "#), ["a", "b c", "d\"e", "f g", "hij", ""]);
        assert_eq!(argv("a '--passes=fixpoint(a,b){max=8}'"), ["a", "--passes=fixpoint(a,b){max=8}"]);
    }

    #[test]
    fn percent_letters() {
        assert_eq!(argv("a %s %t.out %t1 %S/x %T"), ["a", "/s", "/t.out", "/t1", "/S/x", "/T"]);
        assert_eq!(argv("a '%sum=1' %%s %x %s1 100%"), ["a", "%sum=1", "%s", "%x", "%s1", "100%"]);
    }

    #[test]
    fn pipes_redirects_and_variables() {
        let line = "A=1 B='x y' a <in >out 2>&1 | b 2>err >>log C=2";
        let commands = parse(line, &substitutions()).unwrap().commands;
        assert_eq!(commands[0].env, [("A".into(), "1".into()), ("B".into(), "x y".into())]);
        let output = Redirect::Output { path: "out".into(), append: false };
        assert_eq!(commands[0].redirects, [Redirect::Input("in".into()), output, Redirect::ErrorToOutput]);
        assert_eq!(commands[1].argv, ["b", "C=2"]);
        let error = Redirect::Error { path: "err".into(), append: false };
        assert_eq!(commands[1].redirects, [error, Redirect::Output { path: "log".into(), append: true }]);
    }

    #[test]
    fn shell_syntax_is_refused() {
        for (line, message) in [
            ("a && b", "`&&` is not supported: write one RUN line for each command"),
            ("a; b", "`;` is not supported: write one RUN line for each command"),
            ("a || b", "`||` is not supported: write one RUN line for each command"),
            ("a --passes=f(a)", "`(` is special to a shell: quote it"),
            ("a $X", "`$` is special to a shell: quote it"),
            ("a \"$X\"", "`$` is expanded in a shell: use single quotes"),
            ("a 'b", "`'` is not closed"),
            ("a |", "expected a command"),
            ("| a", "no command before `|`"),
            ("a >", "no file after `>`"),
            ("A=1", "expected a command"),
        ] {
            assert_eq!(parse(line, &substitutions()).unwrap_err(), message, "{line}");
        }
    }
}
