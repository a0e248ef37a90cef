//! The code of `--emit=code` frees every register exactly once, on every path.
//!
//! An abstract machine that only tracks whether registers are free or in use executes the code of
//! every recorded graph, with branches decided by random bits. Reading a free register and ending
//! with one in use are errors.

use crate::support::recorded;

use jitopt_core::report::listing::{Instruction, instructions};
use jitopt_core::text::{ParseOptions, parse};
use jitopt_core::verify::verify;
use std::collections::{BTreeMap, BTreeSet};

/// Loops may not terminate: the execution is stopped then.
const MOST_STEPS: usize = 20_000;

fn walk(code: &[Instruction], mut seed: u64) -> Result<(), String> {
    let labelled = code.iter().enumerate().flat_map(|(i, one)| one.labels.iter().map(move |label| (*label, i)));
    let labels: BTreeMap<usize, usize> = labelled.collect();
    let (mut taken, mut at) = (BTreeSet::new(), 0);
    for _ in 0..MOST_STEPS {
        let Some(instruction) = code.get(at) else { break };
        at += 1;
        for (register, last) in &instruction.operands {
            let there = if *last { taken.remove(register) } else { taken.contains(register) };
            if !there {
                return Err(format!("`{instruction}` reads {register}, which is free"));
            }
        }
        taken.extend(instruction.results.iter().copied());
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let jumps = instruction.name == "Jump" || seed >> 62 == 0;
        match instruction.jump {
            Some(label) if jumps => at = labels[&label],
            _ => {}
        }
        if instruction.name == "Store" {
            return if taken.is_empty() { Ok(()) } else { Err(format!("{taken:?} are never freed")) };
        }
    }
    Ok(())
}

#[test]
fn every_register_is_freed_once() {
    let (mut walked, mut wrong) = (0, Vec::new());
    for path in recorded::files() {
        let Some(graph) = std::fs::read(&path).ok().and_then(|text| parse(&text, ParseOptions::default()).ok()) else {
            continue;
        };
        if verify(&graph.graph).has_errors() {
            continue;
        }
        let code = instructions(&graph.graph);
        for seed in 1..5 {
            walked += 1;
            if let Err(why) = walk(&code, seed) {
                wrong.push(format!("{}: {why}", path.display()));
                break;
            }
        }
    }
    assert!(walked > 1000, "only {walked}");
    assert!(wrong.is_empty(), "{} are wrong: {}", wrong.len(), wrong[..wrong.len().min(5)].join("\n"));
}
