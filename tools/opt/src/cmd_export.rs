//! `jitopt export`: the weights of an archive in another form.

use crate::exit::refuse;
use crate::{World, exit};
use clap::Args;
use clap::builder::PossibleValuesParser;
use jitopt_archive::{Refusal, Written, safetensors};
use jitopt_engine::{Error, Kind, archives, panics};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

const EXAMPLES: &str = "\
Examples:
  jitopt export model.pt --to=safetensors -o weights.safetensors

Names are qualified, as in `state_dict()`: `encoder.0.weight`. Tensors that share memory become independent; constants
of the code are left out. Weights that a load hook makes are those that it makes in the interpreter, within the budget
of hooks; nothing else in the archive is executed. A tensor that cannot be in such a file is named, the others are written.
Exit codes: 0 written, 1 a tensor cannot be in such a file, 2 it cannot be written, 3 the file is no archive of a program, or is refused.";

/// `jitopt export`
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ExportArgs {
    /// The archive: .pt, .ptl or .pt2
    file: PathBuf,
    /// The form
    #[arg(long, value_name = "FORM", require_equals = true)]
    #[arg(value_parser = PossibleValuesParser::new(["safetensors"]))]
    to: String,
    /// The file to write
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
}

/// Writes the file, and names the tensors that cannot be in it.
pub(crate) fn run(args: &ExportArgs, world: &mut World<'_>) -> i32 {
    let (from, to) = (world.path(&args.file), world.path(&args.output));
    let result = panics::caught(|| exported(args, &from, &to));
    let result = result.map(|written| {
        for refusal in &written.left_out {
            world.say(&format!("error: {}: {}", args.file.display(), with_help(refusal)));
        }
        let rest =
            if written.left_out.is_empty() { String::new() } else { format!(", {} left out", written.left_out.len()) };
        world.say(&format!("{}: {} tensors{rest}", args.output.display(), written.tensors));
        if written.left_out.is_empty() { exit::YES } else { exit::NO }
    });
    exit::ended(result, world)
}

fn with_help(refusal: &Refusal) -> String {
    let help = refusal.help.as_ref().map_or(String::new(), |help| format!("\n  help: {help}"));
    format!("{refusal}{help}")
}

fn exported(args: &ExportArgs, from: &Path, to: &Path) -> Result<Written, Error> {
    if args.to != "safetensors" {
        return refuse(format_args!("--to={}: the form is `safetensors`", args.to));
    }
    let archive = archives::open(from, &args.file)?;
    let (archive, made) = archives::made_by_hooks(archive, &args.file)?;
    let unwritable =
        |error: &std::io::Error| Error::new(Kind::Misuse, format!("cannot write `{}`: {error}", args.output.display()));
    let partial = partial_path(to);
    let file = File::create(&partial).map_err(|error| unwritable(&error))?;
    let mut file = BufWriter::new(file);
    let mut failed = None;
    let written = safetensors(&archive, made.as_deref(), |bytes| {
        file.write_all(bytes).map_err(|error| {
            let refusal = Refusal::new(error.to_string());
            failed = Some(error);
            refusal
        })
    });
    let flushed = file.flush();
    let done = match (failed.or(flushed.err()), written) {
        (Some(error), _) => Err(unwritable(&error)),
        (None, Err(refusal)) => {
            Err(Error::new(Kind::Refused, format!("{}: {}", args.file.display(), with_help(&refusal))))
        }
        (None, Ok(written)) => std::fs::rename(&partial, to).map_err(|error| unwritable(&error)).map(|()| written),
    };
    if done.is_err() {
        // The error that is reported is the first one.
        let _ = std::fs::remove_file(&partial);
    }
    done
}

/// Next to the output, so that renaming stays within a file system.
fn partial_path(to: &Path) -> PathBuf {
    let mut name = to.file_name().unwrap_or_default().to_owned();
    name.push(".part");
    to.with_file_name(name)
}
