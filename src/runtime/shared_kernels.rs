//! Compiled kernels that the backends of several threads share.

use super::launch_plan::{Code, Compiled};
use super::loading::{Function, Loaded};
use crate::codegen::loop_structure::LaunchPhases;
use crate::codegen::nest::identity::Identity;
use rustc_hash::FxHashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Kernels that are functions, by their identity.
#[derive(Debug, Default)]
pub(super) struct SharedKernels {
    known: Mutex<FxHashMap<Identity, Shared>>,
    making: Mutex<()>,
}

/// A kernel, its library, and tile and phases as in [`Compiled`].
type Shared = (Function, Arc<Loaded>, Option<usize>, Option<LaunchPhases>);

impl SharedKernels {
    /// Held while a unit is made: another thread may need its kernels, and waits for them.
    pub(super) fn making(&self) -> MutexGuard<'_, ()> {
        self.making.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A kernel that a thread has made.
    pub(super) fn find(&self, identity: Identity) -> Option<Compiled> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let (function, library, tile, phases) = known.get(&identity)?.clone();
        Some(Compiled { code: Code::Function(function, library), tile, phases })
    }

    /// Keeps a kernel, if it is a function.
    pub(super) fn keep(&self, identity: Identity, compiled: &Compiled) {
        if let Code::Function(function, library) = &compiled.code {
            let shared = (*function, library.clone(), compiled.tile, compiled.phases);
            self.known.lock().unwrap_or_else(PoisonError::into_inner).insert(identity, shared);
        }
    }
}
