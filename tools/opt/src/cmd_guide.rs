//! `jitopt guide`: the chapters of the guide, inside the binary.

use crate::arguments::GuideArgs;
use crate::{World, exit};
use jitopt_core::log::did_you_mean;

/// Name and text of each chapter, in reading order. The first line of a text is its title.
const CHAPTERS: &[(&str, &str)] = &[
    ("getting-graphs", include_str!("../guide/getting-graphs.md")),
    ("archives", include_str!("../guide/archives.md")),
    ("passes", include_str!("../guide/passes.md")),
    ("running", include_str!("../guide/running.md")),
    ("proving", include_str!("../guide/proving.md")),
    ("comparing", include_str!("../guide/comparing.md")),
    ("kernels", include_str!("../guide/kernels.md")),
    ("choosing-plans", include_str!("../guide/choosing-plans.md")),
    ("gradients", include_str!("../guide/gradients.md")),
    ("speculation", include_str!("../guide/speculation.md")),
    ("lint", include_str!("../guide/lint.md")),
    ("writing-a-pass", include_str!("../guide/writing-a-pass.md")),
    ("adding-an-operator", include_str!("../guide/adding-an-operator.md")),
    ("fidelity", include_str!("../guide/fidelity.md")),
];

/// Prints one chapter, or the list of chapters.
pub(crate) fn run(args: &GuideArgs, world: &mut World<'_>) -> i32 {
    let Some(name) = &args.chapter else {
        let lines = CHAPTERS.iter().map(|(name, text)| format!("{name:<18} {}\n", title(text)));
        world.print(lines.collect::<String>().as_bytes());
        return exit::YES;
    };
    if let Some(text) = chapter(name) {
        world.print(text.as_bytes());
        return exit::YES;
    }
    let near = did_you_mean(name, CHAPTERS.iter().map(|chapter| chapter.0));
    let help = near.map_or("`jitopt guide` lists them".to_owned(), |near| format!("did you mean `{near}`?"));
    world.say(&format!("error: the guide has no chapter `{name}`; {help}"));
    exit::USAGE
}

/// The text of a chapter.
pub(crate) fn chapter(name: &str) -> Option<&'static str> {
    CHAPTERS.iter().find(|(known, _)| *known == name).map(|chapter| chapter.1)
}

/// The names of all chapters.
pub(crate) fn names() -> impl Iterator<Item = String> {
    CHAPTERS.iter().map(|chapter| chapter.0.to_owned())
}

/// The heading of a chapter without its mark.
fn title(text: &str) -> &str {
    text.lines().next().unwrap_or_default().trim_start_matches('#').trim()
}
