//! Parallel searches, in which each thread reads its own trial: graphs are not shared between
//! threads.

use crate::arguments::JudgeArgs;
use crate::judging::Trial;
use crate::optimise::{Refusal, refuse};
use crate::{World, stack};
use jitopt_judge::team::Seat;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::mpsc::{Sender, channel};
use std::thread::Scope;

/// The subject of a parallel search.
#[derive(Clone, Copy)]
pub(crate) struct Work<'a> {
    pub(crate) judge: &'a JudgeArgs,
    pub(crate) file: &'a Path,
    pub(crate) cwd: &'a Path,
    pub(crate) jobs: usize,
}

impl Work<'_> {
    /// # Errors
    /// Input that cannot be read twice, or results that depend on time, cannot be shared.
    pub(crate) fn check(&self) -> Result<(), Refusal> {
        if self.jobs > 1 && (self.file.as_os_str() == "-" || self.judge.timeout.is_some()) {
            return refuse(
                "--jobs: every worker must read the same graph and get the same results; give a file, and remove --timeout",
            );
        }
        Ok(())
    }

    /// Runs `lead` here and `follow` in other threads; returns the result of `lead`.
    pub(crate) fn share<T>(self, follow: &(dyn Fn(&Trial, Seat) + Sync), lead: impl FnOnce(Seat) -> T) -> T {
        std::thread::scope(|scope| {
            // Only started threads get a seat: the others would wait for absent ones.
            let others: Vec<Sender<Seat>> = (1..self.jobs).map_while(|_| self.helper(scope, follow)).collect();
            let mut seats = Seat::team(others.len() + 1).into_iter();
            let mine = seats.next().expect("a team has a member");
            others.iter().zip(seats).for_each(|(other, seat)| drop(other.send(seat)));
            lead(mine)
        })
    }

    /// A thread that searches as soon as it has a seat; `None` if it cannot be started.
    fn helper<'s, 'e>(self, scope: &'s Scope<'s, 'e>, follow: &'s (dyn Fn(&Trial, Seat) + Sync)) -> Option<Sender<Seat>>
    where
        Self: 's,
    {
        let (sender, receiver) = channel();
        let work = move || receiver.recv().map(|seat| drop(self.replica(seat, follow)));
        stack::spawn(scope, work).ok().map(|_| sender)
    }

    /// The same search over its own trial; its messages are discarded, as the lead prints them.
    fn replica(&self, seat: Seat, follow: &(dyn Fn(&Trial, Seat) + Sync)) -> Result<(), Refusal> {
        let (mut nothing, mut said) = (Vec::new(), Vec::new());
        let mut world = World {
            stdin: Box::new(std::io::empty()),
            stdout: &mut nothing,
            stderr: &mut said,
            env: BTreeMap::new(),
            cwd: self.cwd.to_owned(),
            colour: false,
            failed_write: None,
        };
        follow(&Trial::read(self.judge, self.file, &mut world)?, seat);
        Ok(())
    }
}
