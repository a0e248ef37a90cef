//! `jitopt samples`: example graphs embedded in the binary.

use crate::arguments::SamplesArgs;
use crate::{World, exit};
use jitopt_core::log::did_you_mean;

/// Name, description, text.
pub(crate) const SAMPLES: &[(&str, &str, &str)] = &[
    (
        "lstm_cell",
        "the LSTM cell of the JIT overview: matmuls, chunks, a pointwise tail",
        include_str!("../samples/lstm_cell.ir"),
    ),
    (
        "fused_lstm",
        "the same after PyTorch's executor: a fusion group in a section",
        include_str!("../samples/fused_lstm.ir"),
    ),
    ("branches", "an If with results, an effect, a Loop", include_str!("../samples/branches.ir")),
    (
        "in_place",
        "writes through views: which nodes may be removed and which may not",
        include_str!("../samples/in_place.ir"),
    ),
];

pub(crate) fn run(args: &SamplesArgs, world: &mut World<'_>) -> i32 {
    let Some(name) = &args.name else {
        let lines: String = SAMPLES.iter().map(|(name, what, _)| format!("{name:<12} {what}\n")).collect();
        world.print(lines.as_bytes());
        return exit::YES;
    };
    match SAMPLES.iter().find(|(known, ..)| known == name) {
        Some((.., text)) => {
            world.print(text.as_bytes());
            exit::YES
        }
        None => {
            let near = did_you_mean(name, SAMPLES.iter().map(|sample| sample.0));
            let near = near.map_or("`jitopt samples` lists them".to_owned(), |near| format!("did you mean `{near}`?"));
            world.say(&format!("error: there is no sample `{name}`; {near}"));
            exit::USAGE
        }
    }
}
