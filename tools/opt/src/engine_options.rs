//! The options of the engine that the command line gives.

use crate::arguments::{BackendArgs, GateArgs, JudgeArgs, RunArgs};
use crate::cmd_bench::BenchArgs;
use jitopt_core::interpreter::Release;
use jitopt_core::interpreter::generator::Style;
use jitopt_core::runtime::{Engine, GraphPolicy};
use jitopt_engine::{BackendOptions, Checks, GateOptions, JudgeOptions, RunOptions, Semantics, Values};
use std::fmt;
use std::str::FromStr;

/// The option of a field: `--bind-dir` of `bind_dir`.
pub(crate) fn option_of_field(field: &'static str) -> String {
    format!("--{}", field.replace('_', "-"))
}

/// A release, or one for each of two graphs: `2.15`, `1.8,2.15`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Releases {
    first: Release,
    second: Option<Release>,
}

impl Releases {
    /// Whether there is one for each of two graphs.
    pub(crate) fn are_two(self) -> bool {
        self.second.is_some()
    }
}

impl From<Release> for Releases {
    fn from(first: Release) -> Releases {
        Releases { first, second: None }
    }
}

impl FromStr for Releases {
    type Err = <Release as FromStr>::Err;

    fn from_str(text: &str) -> Result<Releases, Self::Err> {
        let (first, second) = text.split_once(',').map_or((text, None), |(first, second)| (first, Some(second)));
        Ok(Releases { first: first.parse()?, second: second.map(str::parse).transpose()? })
    }
}

impl fmt::Display for Releases {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.first)?;
        self.second.map_or(Ok(()), |second| write!(f, ",{second}"))
    }
}

impl RunArgs {
    pub(crate) fn options(&self) -> RunOptions {
        let (values, checks, semantics) = (&self.values, &self.checks, &self.semantics);
        RunOptions {
            graph: self.files.first().cloned(),
            values: Values {
                at_hand: None,
                inputs: values.inputs.clone(),
                args: values.args.clone(),
                grad_outputs: values.grad_outputs.clone(),
                seed: values.seed,
                shape: values.shape.clone(),
                style: values.style.as_deref().and_then(Style::named).unwrap_or_default(),
                bind: values.bind.clone(),
                bind_dir: values.bind_dir.clone(),
                fill_unknown: values.fill_unknown.clone(),
                replay: values.replay.clone(),
            },
            checks: Checks {
                expect: checks.expect.clone(),
                expect_grads: checks.expect_grads.clone(),
                rtol: checks.rtol,
                atol: checks.atol,
                assert_finite: checks.assert_finite,
                steps: checks.steps,
                times: self.semantics.stats.is_some(),
                max_steps: checks.max_steps,
                timeout: checks.timeout,
                trace_bailouts: checks.trace_bailouts,
                only_profile: checks.only_profile,
                record_profile: checks.record_profile.is_some(),
                merge_profile: checks.merge_profile.clone(),
            },
            semantics: Semantics {
                f64: semantics.f64,
                torch: semantics.torch,
                callee: semantics.callee.clone(),
                no_verify: semantics.no_verify,
                backend: semantics.backend.options(),
            },
        }
    }
}

impl BackendArgs {
    /// Whether fusion groups run as kernels.
    pub(crate) fn has_kernels(&self) -> bool {
        self.backend != "interp"
    }

    pub(crate) fn options(&self) -> BackendOptions {
        BackendOptions {
            engine: Engine::named(&self.backend),
            no_cache: self.no_cache,
            threads: self.threads,
            plans: None,
            device: self.device,
            schedule_seed: self.schedule_seed,
            graphs: self.cuda_graphs.as_deref().and_then(GraphPolicy::named),
        }
    }
}

impl GateArgs {
    pub(crate) fn options(&self) -> GateOptions {
        GateOptions { debug_counter: self.debug_counter.clone(), disable: self.disable.clone() }
    }
}

impl JudgeArgs {
    pub(crate) fn options(&self) -> JudgeOptions {
        JudgeOptions {
            samples: self.samples,
            seed: self.seed,
            shape: self.shape.clone(),
            inputs: self.inputs.clone(),
            args: self.args.clone(),
            bind: self.bind.clone(),
            bind_dir: self.bind_dir.clone(),
            fill_unknown: self.fill_unknown.clone(),
            rtol: self.rtol,
            atol: self.atol,
            signed_zero: self.signed_zero,
            overflow_is_large: self.overflow_is_large,
            max_steps: self.max_steps,
            timeout: self.timeout,
            torch: self.torch.map(|releases| releases.first),
            other_torch: self.torch.and_then(|releases| releases.second),
            callee: self.callee.clone(),
            no_verify: self.no_verify,
        }
    }
}

impl BenchArgs {
    /// The backend of the groups; compiled kernels by default.
    pub(crate) fn backend(&self) -> BackendOptions {
        BackendOptions {
            engine: Engine::named(&self.backend),
            no_cache: self.no_cache,
            threads: self.threads,
            plans: None,
            device: self.device,
            schedule_seed: None,
            graphs: self.cuda_graphs.as_deref().and_then(GraphPolicy::named),
        }
    }

    pub(crate) fn options(&self) -> RunOptions {
        RunOptions {
            values: Values {
                inputs: self.inputs.clone(),
                args: self.args.clone(),
                seed: self.seed,
                shape: self.shape.clone(),
                bind: self.bind.clone(),
                bind_dir: self.bind_dir.clone(),
                fill_unknown: self.fill_unknown.clone(),
                ..Values::default()
            },
            semantics: Semantics {
                torch: self.torch,
                callee: self.callee.clone(),
                backend: self.backend(),
                ..Semantics::default()
            },
            ..RunOptions::default()
        }
    }
}
