//! `--schema` and `--schemas`: custom operators declared by the user.

use crate::World;
use crate::arguments::DeclaredArgs;
use crate::batch::unreadable;
use jitopt_core::ops::declared::Declared;
use jitopt_engine::{Error, Kind};

/// Reads all schemas, and reports all errors at once.
pub(crate) fn read(args: &DeclaredArgs, world: &mut World<'_>) -> Result<Declared, Error> {
    let mut errors = Vec::new();
    let mut sources: Vec<(String, String)> =
        args.schema.iter().map(|text| ("--schema".to_owned(), text.clone())).collect();
    for path in &args.schemas {
        match std::fs::read_to_string(world.path(path)) {
            Ok(text) => sources.extend(in_file(&path.display().to_string(), &text)),
            Err(error) => errors.push(unreadable(path, &error, world)),
        }
    }
    let mut declared = Declared::default();
    for (place, text) in &sources {
        match declared.add(text) {
            Ok(None) => {}
            Ok(Some(warning)) => world.say(&format!("warning: {place}: {warning}\n  {}", text.trim())),
            Err(error) => errors.push(format!("{place}: {}", error.render(text))),
        }
    }
    if errors.is_empty() { Ok(declared) } else { Err(Error::new(Kind::Misuse, errors.join("\nerror: "))) }
}

/// The schemas of a file, each with its line number.
fn in_file(name: &str, text: &str) -> Vec<(String, String)> {
    let lines =
        text.lines().enumerate().map(|(i, line)| (format!("{name}:{}", i + 1), without_comment(line).to_owned()));
    lines.filter(|(_, line)| !line.trim().is_empty()).collect()
}

/// The line up to a `#` outside quotes.
fn without_comment(line: &str) -> &str {
    let (mut quote, mut escaped) = (None, false);
    for (i, c) in line.char_indices() {
        match (quote, c) {
            _ if escaped => escaped = false,
            (Some(_), '\\') => escaped = true,
            (Some(open), _) => quote = if open == c { None } else { quote },
            (None, '"' | '\'') => quote = Some(c),
            (None, '#') => return &line[..i],
            (None, _) => {}
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_end_lines_and_not_strings() {
        let text = "# all\n\n a::b(str s=\"#\") -> () # one\nc::d() -> ()\r\n";
        let found = in_file("f", text);
        assert_eq!(found[0], ("f:3".to_owned(), " a::b(str s=\"#\") -> () ".to_owned()));
        assert_eq!(found[1], ("f:4".to_owned(), "c::d() -> ()".to_owned()));
        assert_eq!(found.len(), 2);
    }
}
