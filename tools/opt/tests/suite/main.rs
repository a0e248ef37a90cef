//! The tests of the whole tool, one module each, in one program: a program links the whole tool,
//! and the modules' long tests run in parallel.
//!
//! `cargo test -p jitopt --test suite random_groups` runs one of them.

#![allow(dead_code, reason = "modules use a part of what the benchmark has")]

#[path = "../support/shared.rs"]
mod support;

mod any_order;
mod coverage_matrix;
mod emulated_groups;
mod exported_programs;
mod false_alarms;
mod fused_cases;
mod gates;
mod gradient_releases;
mod gradient_universe;
mod gradients;
mod half_gradients;
mod kernels;
mod linear;
mod listings;
mod numerics;
mod other_processors;
mod peephole_universe;
mod plan_search;
mod programs;
mod ptx_groups;
mod random_deoptimisation;
mod random_forks;
mod random_graphs;
mod random_groups;
mod random_layers;
mod random_pools;
mod random_sums;
mod random_traces;
mod recorded_code;
mod recorded_gradients;
mod recorded_guards;
mod recorded_kernels;
mod recorded_passes;
mod recorded_pipelines;
mod recorded_soundness;
mod recorded_ssa;
mod recorded_validation;
mod releases;
mod round_trip;
mod shape_coverage;
mod shape_universe;
mod terminal;
mod transform_cache;
mod verify_corpus;
