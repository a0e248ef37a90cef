//! `jitopt samples`: example graphs and archives that are part of the binary.

use crate::arguments::SamplesArgs;
use crate::{World, exit};
use jitopt_core::log::did_you_mean;

/// Name, description, text.
pub(crate) const SAMPLES: &[(&str, &str, &str)] = &[
    (
        "lstm_cell",
        "the LSTM cell of PyTorch's JIT overview: matrix products, chunks, pointwise operators",
        include_str!("../samples/lstm_cell.ir"),
    ),
    (
        "fused_lstm",
        "the same cell after the executor: a fusion group with its section",
        include_str!("../samples/fused_lstm.ir"),
    ),
    ("branches", "a branch with results, a side effect, a loop", include_str!("../samples/branches.ir")),
    (
        "in_place",
        "writes through views: some are dead and removable, some are not",
        include_str!("../samples/in_place.ir"),
    ),
    (
        "true_division",
        "an integer divided by one, which PyTorch's peephole gets wrong",
        include_str!("../samples/true_division.ir"),
    ),
];

/// Sample archives: name, description, bytes. The chapter `archives` of the guide uses them.
const ARCHIVES: &[(&str, &str, &[u8])] = &[
    (
        "two_layers.pt",
        "an archive of PyTorch 2.15: two linear layers, two methods, an extra file",
        include_bytes!("../samples/two_layers.pt"),
    ),
    (
        "two_layers.pt2",
        "the same module with the same weights, exported with an open batch size",
        include_bytes!("../samples/two_layers.pt2"),
    ),
];

pub(crate) fn run(args: &SamplesArgs, world: &mut World<'_>) -> i32 {
    let Some(name) = &args.name else {
        let graphs = SAMPLES.iter().map(|(name, what, _)| (*name, *what));
        let all = graphs.chain(ARCHIVES.iter().map(|(name, what, _)| (*name, *what)));
        let lines: String = all.map(|(name, what)| format!("{name:<14} {what}\n")).collect();
        world.print(lines.as_bytes());
        return exit::YES;
    };
    if let Some((.., bytes)) = ARCHIVES.iter().find(|(known, ..)| known == name) {
        world.print(bytes);
        return exit::YES;
    }
    match SAMPLES.iter().find(|(known, ..)| known == name) {
        Some((.., text)) => {
            world.print(text.as_bytes());
            exit::YES
        }
        None => {
            let near =
                did_you_mean(name, SAMPLES.iter().map(|sample| sample.0).chain(ARCHIVES.iter().map(|sample| sample.0)));
            let near = near.map_or("`jitopt samples` lists them".to_owned(), |near| format!("did you mean `{near}`?"));
            world.say(&format!("error: there is no sample `{name}`; {near}"));
            exit::USAGE
        }
    }
}
