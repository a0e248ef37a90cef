//! The `filecheck` command: its arguments and its execution.

use crate::Io;
use jitopt_filecheck::{CheckFile, Dialect, Options, did_you_mean};

/// The parsed arguments of `filecheck`.
#[derive(Clone, Debug, Default)]
pub(crate) struct Arguments {
    pub(crate) check_file: String,
    input_file: Option<String>,
    pub(crate) options: Options,
}

const FLAGS: [&str; 7] =
    ["check-prefix", "check-prefixes", "input-file", "pytorch", "strict-whitespace", "match-full-lines", "allow-empty"];

impl Arguments {
    /// Parses the arguments after the command's name.
    pub(crate) fn parse(arguments: &[String]) -> Result<Arguments, String> {
        let mut parsed = Arguments::default();
        let mut prefixes: Vec<String> = Vec::new();
        let mut files = Vec::new();
        let mut rest = arguments.iter();
        while let Some(argument) = rest.next() {
            let Some(flag) = argument.strip_prefix('-').map(|flag| flag.strip_prefix('-').unwrap_or(flag)) else {
                files.push(argument.clone());
                continue;
            };
            let (name, value) =
                flag.split_once('=').map_or((flag, None), |(name, value)| (name, Some(value.to_owned())));
            let mut needed = || value.clone().or_else(|| rest.next().cloned()).ok_or(format!("--{name} needs a value"));
            match name {
                "check-prefix" | "check-prefixes" => {
                    let given = needed()?;
                    if given.split(',').any(str::is_empty) {
                        return Err(format!("--{name}={given}: a prefix is empty"));
                    }
                    prefixes.extend(given.split(',').map(str::to_owned));
                }
                "input-file" => parsed.input_file = Some(needed()?),
                _ => parsed.switch(name, value.as_deref())?,
            }
        }
        if !prefixes.is_empty() {
            parsed.options.prefixes = prefixes;
        }
        let Ok([file]) = <[String; 1]>::try_from(files) else {
            return Err("expected one file with checks".to_owned());
        };
        parsed.check_file = file;
        Ok(parsed)
    }

    fn switch(&mut self, name: &str, value: Option<&str>) -> Result<(), String> {
        if value.is_some() && FLAGS.contains(&name) {
            return Err(format!("--{name} takes no value"));
        }
        match name {
            "pytorch" => self.options.dialect = Dialect::PyTorch,
            "strict-whitespace" => self.options.strict_whitespace = true,
            "match-full-lines" => self.options.match_full_lines = true,
            "allow-empty" => self.options.allow_empty = true,
            _ => {
                let meant =
                    did_you_mean(name, FLAGS).map_or(String::new(), |flag| format!("; did you mean `--{flag}`?"));
                return Err(format!("unknown flag `--{name}`{meant}"));
            }
        }
        Ok(())
    }
}

/// Runs `filecheck CHECKS [--input-file=F] [--check-prefix=P] [--check-prefixes=P,Q] [--pytorch]
/// [--strict-whitespace] [--match-full-lines] [--allow-empty]`; `argv[0]` is the name. The input is
/// standard input unless a file is given.
///
/// Returns 0 if the checks pass, 1 if they fail, and 2 if they or the arguments are invalid.
pub fn filecheck_command(argv: &[String], io: &mut Io<'_>) -> i32 {
    match check(argv.get(1..).unwrap_or_default(), io) {
        Ok(()) => 0,
        Err((status, message)) => {
            io.stderr.extend(message.trim_end().bytes().chain([b'\n']));
            status
        }
    }
}

fn check(arguments: &[String], io: &Io<'_>) -> Result<(), (i32, String)> {
    let usage = |message: String| (2, format!("filecheck: error: {message}"));
    let arguments = Arguments::parse(arguments).map_err(usage)?;
    let read = |path: &str| std::fs::read(io.cwd.join(path)).map_err(|error| usage(format!("{path}: {error}")));
    let text = |bytes: Vec<u8>| {
        String::from_utf8(bytes).unwrap_or_else(|bad| String::from_utf8_lossy(bad.as_bytes()).into_owned())
    };
    let checks = text(read(&arguments.check_file)?);
    let (input_name, input) = match &arguments.input_file {
        Some(path) if path != "-" => (path.as_str(), text(read(path)?)),
        _ => ("<stdin>", text(io.stdin.to_vec())),
    };
    let problems = |problems: Vec<jitopt_filecheck::Problem>| {
        (2, problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))
    };
    let checks = CheckFile::parse(&arguments.check_file, &checks, &arguments.options).map_err(problems)?;
    let outcome = checks.run(input_name, &input);
    if outcome.passed() { Ok(()) } else { Err((1, outcome.to_string())) }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::Arguments;

    fn parse(line: &str) -> Result<Arguments, String> {
        Arguments::parse(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn flags() {
        let parsed = parse("f --check-prefix=A --check-prefixes B,C -strict-whitespace").unwrap();
        assert_eq!(parsed.options.prefixes, ["A", "B", "C"]);
        assert!(parsed.options.strict_whitespace);
        assert_eq!(parsed.check_file, "f");
        assert_eq!(parse("f --pytorhc").unwrap_err(), "unknown flag `--pytorhc`; did you mean `--pytorch`?");
        assert_eq!(parse("f --input-file").unwrap_err(), "--input-file needs a value");
        assert_eq!(parse("f --pytorch=1").unwrap_err(), "--pytorch takes no value");
        assert_eq!(parse("").unwrap_err(), "expected one file with checks");
    }
}
