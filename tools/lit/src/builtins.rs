//! Built-in commands, so that tests do not depend on the machine.

use crate::Io;
use crate::line_diff::line_diff;
use std::fs;

/// Returns an exit status, or a usage error.
type Builtin = fn(&[String], &mut Io<'_>) -> Result<i32, String>;

/// The built-in commands, apart from `not` and `snapshot`, which need to know about the test.
const BUILTINS: [(&str, Builtin); 9] = [
    ("cat", cat),
    ("cp", cp),
    ("diff", diff),
    ("echo", echo),
    ("filecheck", filecheck),
    ("FileCheck", filecheck),
    ("printf", printf),
    ("rm", rm),
    ("test", test),
];

/// The names of all built-in commands.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    BUILTINS.iter().map(|(name, _)| *name).chain(["not", "snapshot"])
}

/// Runs a built-in command; `None` if there is none of that name. Errors of usage exit with 2.
pub(crate) fn run(argv: &[String], io: &mut Io<'_>) -> Option<i32> {
    let (name, command) = BUILTINS.iter().find(|(name, _)| *name == argv[0])?;
    Some(command(argv, io).unwrap_or_else(|message| {
        io.stderr.extend(format!("{name}: {message}\n").bytes());
        2
    }))
}

fn filecheck(argv: &[String], io: &mut Io<'_>) -> Result<i32, String> {
    Ok(crate::filecheck_command(argv, io))
}

/// The file, or standard input for `-`.
fn read(path: &str, io: &Io<'_>) -> Result<Vec<u8>, String> {
    if path == "-" {
        return Ok(io.stdin.to_vec());
    }
    fs::read(io.cwd.join(path)).map_err(|error| format!("{path}: {error}"))
}

fn cat(argv: &[String], io: &mut Io<'_>) -> Result<i32, String> {
    if argv.len() == 1 {
        io.stdout.extend(io.stdin);
    }
    for path in &argv[1..] {
        let bytes = read(path, io)?;
        io.stdout.extend(bytes);
    }
    Ok(0)
}

fn cp(argv: &[String], io: &mut Io<'_>) -> Result<i32, String> {
    let [_, from, to] = argv else {
        return Err("expected a file and its destination".to_owned());
    };
    let (from, mut to) = (io.cwd.join(from), io.cwd.join(to));
    if let (true, Some(name)) = (to.is_dir(), from.file_name()) {
        to.push(name);
    }
    fs::copy(&from, &to).map_err(|error| format!("{}: {error}", from.display()))?;
    Ok(0)
}

/// `diff [-u] A B`: 0 if the files are equal, else 1.
fn diff(argv: &[String], io: &mut Io<'_>) -> Result<i32, String> {
    let files: Vec<&String> = argv[1..].iter().filter(|word| *word != "-u").collect();
    let [old, new] = files[..] else {
        return Err("expected two files".to_owned());
    };
    let (a, b) = (read(old, io)?, read(new, io)?);
    if a == b {
        return Ok(0);
    }
    let difference = line_diff(&String::from_utf8_lossy(&a), &String::from_utf8_lossy(&b));
    io.stdout.extend(format!("--- {old}\n+++ {new}\n{difference}").bytes());
    Ok(1)
}

fn echo(argv: &[String], io: &mut Io<'_>) -> Result<i32, String> {
    io.stdout.extend(argv[1..].join(" ").bytes().chain([b'\n']));
    Ok(0)
}

/// `printf FORMAT [WORDS…]` with `%s`, `%d` and `%%`.
fn printf(argv: &[String], io: &mut Io<'_>) -> Result<i32, String> {
    let [_, format, words @ ..] = argv else {
        return Err("expected a format".to_owned());
    };
    let mut words = words.iter();
    loop {
        let before = words.len();
        let printed = print_once(format, &mut words)?;
        io.stdout.extend(printed);
        if words.len() == 0 {
            return Ok(0);
        }
        if words.len() == before {
            return Err("the format has no placeholder for the arguments".to_owned());
        }
    }
}

fn print_once<'a>(format: &str, words: &mut impl Iterator<Item = &'a String>) -> Result<Vec<u8>, String> {
    let mut out = Vec::new();
    let mut chars = format.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => out.extend(escape(&mut chars)?),
            '%' => match chars.next() {
                Some('s' | 'd') => out.extend(words.next().into_iter().flat_map(|word| word.bytes())),
                Some('%') => out.push(b'%'),
                _ => return Err("only %s, %d and %% are supported".to_owned()),
            },
            _ => out.extend(c.to_string().bytes()),
        }
    }
    Ok(out)
}

/// The bytes of an escape sequence, after its backslash.
fn escape(chars: &mut std::str::Chars<'_>) -> Result<Vec<u8>, String> {
    Ok(match chars.next() {
        Some('n') => vec![b'\n'],
        Some('t') => vec![b'\t'],
        Some('r') => vec![b'\r'],
        Some('0') => vec![0],
        Some(c @ ('\\' | '\'' | '"')) => vec![c as u8],
        Some('x') => {
            let digits: String = chars.by_ref().take(2).collect();
            let byte = u8::from_str_radix(&digits, 16).ok().filter(|_| digits.len() == 2);
            vec![byte.ok_or("\\x needs two hexadecimal digits")?]
        }
        other => {
            return Err(format!("unknown escape \\{}", other.map_or(String::new(), String::from)));
        }
    })
}

/// `rm [-r] [-f] PATHS…`, below the test's own directory only.
fn rm(argv: &[String], io: &mut Io<'_>) -> Result<i32, String> {
    let flag = |letter: char| argv[1..].iter().any(|word| word.starts_with('-') && word.contains(letter));
    for path in argv[1..].iter().filter(|word| !word.starts_with('-')) {
        let full = io.cwd.join(path);
        let inside = full.starts_with(io.cwd) && !path.split('/').any(|part| part == "..");
        if !inside {
            return Err(format!("{path}: outside the directory of the test"));
        }
        let removed = if full.is_dir() && flag('r') { fs::remove_dir_all(&full) } else { fs::remove_file(&full) };
        match removed {
            Err(error) if !(flag('f') && error.kind() == std::io::ErrorKind::NotFound) => {
                return Err(format!("{path}: {error}"));
            }
            _ => {}
        }
    }
    Ok(0)
}

/// `test [!] -e|-f|-d|-s PATH`.
fn test(argv: &[String], io: &mut Io<'_>) -> Result<i32, String> {
    let words: Vec<&str> = argv[1..].iter().map(String::as_str).collect();
    let (negated, words) = if words.first() == Some(&"!") { (true, &words[1..]) } else { (false, &words[..]) };
    let [what, path] = words else {
        return Err("expected `test -e PATH`".to_owned());
    };
    let path = io.cwd.join(path);
    let holds = match *what {
        "-e" => path.exists(),
        "-f" => path.is_file(),
        "-d" => path.is_dir(),
        "-s" => path.metadata().is_ok_and(|data| data.len() > 0),
        _ => return Err(format!("{what}: only -e, -f, -d and -s are supported")),
    };
    if holds == negated {
        let not = if negated { "" } else { "not " };
        io.stderr.extend(format!("test: {} does {not}satisfy {what}\n", path.display()).bytes());
    }
    Ok(i32::from(holds == negated))
}
