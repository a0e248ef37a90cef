//! `jitopt help TOPIC` of what is no subcommand: a pass, a chapter of the guide, or a near word.

use crate::arguments::Cli;
use crate::{World, cmd_guide, exit, optimise};
use clap::CommandFactory;
use jitopt_core::log::did_you_mean;
use jitopt_passes::REGISTRY;
use std::path::Path;

/// Answers `help TOPIC`; `None` where the command line is another.
pub(crate) fn of_topic(argv: &[String], world: &mut World<'_>) -> Option<i32> {
    let [_, word, topic] = argv else { return None };
    if word != "help" {
        return None;
    }
    let pass = REGISTRY.passes.iter().find(|pass| pass.names().any(|name| name == topic));
    let text = pass.map(optimise::describe).or_else(|| cmd_guide::chapter(topic).map(str::to_owned));
    match text {
        Some(text) => {
            world.print(text.as_bytes());
            Some(exit::YES)
        }
        None => {
            let near = near_topic(topic).map(|near| format!("; did you mean `{near}`?")).unwrap_or_default();
            world.say(&format!(
                "error: there is no help on `{topic}`{near}\n  help: `jitopt --help` lists subcommands, \
                 `jitopt --list-passes` passes, `jitopt guide` chapters"
            ));
            Some(exit::USAGE)
        }
    }
}

/// The topic that was probably meant.
fn near_topic(topic: &str) -> Option<String> {
    let passes = REGISTRY.passes.iter().map(|pass| pass.name.to_owned());
    let topics: Vec<String> = subcommands().into_iter().chain(cmd_guide::names()).chain(passes).collect();
    did_you_mean(topic, topics.iter().map(String::as_str)).map(str::to_owned)
}

/// The subcommand that was probably meant, where a command line begins with a word that is neither
/// one nor a file.
pub(crate) fn near_command(argv: &[String], world: &World<'_>) -> Option<String> {
    let word = argv.get(1).filter(|word| !word.starts_with('-') && !world.path(Path::new(word)).exists())?;
    let commands = subcommands();
    let near = did_you_mean(word, commands.iter().map(String::as_str))?;
    (near != word).then(|| near.to_owned())
}

/// The names of all subcommands.
pub(crate) fn subcommands() -> Vec<String> {
    let names = Cli::command().get_subcommands().map(|command| command.get_name().to_owned()).collect::<Vec<_>>();
    names.into_iter().chain(["help".to_owned()]).collect()
}
