//! The options of the engine that the command line gives.

use crate::arguments::{BackendArgs, BenchArgs, GateArgs, JudgeArgs, RunArgs};
use jitopt_core::interpreter::generator::Style;
use jitopt_core::runtime::Engine;
use jitopt_engine::{BackendOptions, Checks, GateOptions, JudgeOptions, RunOptions, Semantics, Values};

impl RunArgs {
    pub(crate) fn options(&self) -> RunOptions {
        let (values, checks, semantics) = (&self.values, &self.checks, &self.semantics);
        RunOptions {
            graph: self.files.first().cloned(),
            values: Values {
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
            torch: self.torch,
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
