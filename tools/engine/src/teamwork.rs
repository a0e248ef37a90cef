//! Parallel searches, in which each thread reads its own trial: graphs are not shared between
//! threads.

use crate::error::Error;
use crate::judging::Trial;
use crate::options::JudgeOptions;
use crate::program::Program;
use crate::{Workspace, stack};
use jitopt_judge::team::Seat;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::mpsc::{Sender, channel};
use std::thread::Scope;

/// The subject of a parallel search.
#[derive(Clone, Copy)]
pub(crate) struct Work<'a> {
    pub(crate) judge: &'a JudgeOptions,
    pub(crate) program: &'a Program,
    pub(crate) cwd: &'a Path,
    pub(crate) jobs: usize,
}

impl Work<'_> {
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
    fn replica(&self, seat: Seat, follow: &(dyn Fn(&Trial, Seat) + Sync)) -> Result<(), Error> {
        let env = BTreeMap::new();
        let mut workspace = Workspace::new(self.cwd, &env, |_| {});
        follow(&Trial::read(self.judge, self.program, &mut workspace)?, seat);
        Ok(())
    }
}
