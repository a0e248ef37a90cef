//! Runs directives as `torch._C.FileCheck` does: DAGs and NOTs in groups, all others one by one.

use crate::check_file::{Directive, Kind};
use crate::needle::Variables;
use crate::outcome::State;
use std::ops::Range;

/// Runs all directives; returns the state of each.
pub(crate) fn run(directives: &[Directive], text: &str) -> Vec<State> {
    let states = directives.iter().map(|_| State::NotTried).collect();
    let mut matcher = Matcher { directives, text, states };
    // The states contain the failure.
    let _ = matcher.run();
    matcher.states
}

struct Matcher<'a> {
    directives: &'a [Directive],
    text: &'a str,
    states: Vec<State>,
}

/// A failure; the state of the directive has the reason.
struct Failed;

impl Matcher<'_> {
    fn run(&mut self) -> Result<(), Failed> {
        let mut end = 0;
        let mut nots = 0..0;
        for group in self.groups() {
            if self.directives[group.start].kind == Kind::Not {
                nots = group;
                continue;
            }
            let found = self.group(group, end)?;
            self.forbid(std::mem::take(&mut nots), end..found.start)?;
            end = found.end;
        }
        self.forbid(nots, end..self.text.len())
    }

    /// Adjacent DAGs form a group, and so do adjacent NOTs.
    fn groups(&self) -> Vec<Range<usize>> {
        let mut groups: Vec<Range<usize>> = Vec::new();
        for (index, directive) in self.directives.iter().enumerate() {
            let joins = matches!(directive.kind, Kind::Dag | Kind::Not);
            match groups.last_mut() {
                Some(last) if joins && self.directives[last.start].kind == directive.kind => last.end = index + 1,
                _ => groups.push(index..index + 1),
            }
        }
        groups
    }

    /// Every member is searched from the same position, so DAGs may overlap.
    fn group(&mut self, group: Range<usize>, from: usize) -> Result<Range<usize>, Failed> {
        let mut all: Option<Range<usize>> = None;
        for index in group {
            let found = self.single(index, from)?;
            self.states[index] = State::Matched(found.clone());
            all = Some(match all {
                Some(all) => all.start.min(found.start)..all.end.max(found.end),
                None => found,
            });
        }
        Ok(all.unwrap_or(from..from))
    }

    fn single(&mut self, index: usize, from: usize) -> Result<Range<usize>, Failed> {
        match self.directives[index].kind {
            Kind::Same => self.on_line(index, from, from, "not on the same line as the match before it"),
            Kind::Next => {
                let Some(newline) = self.text[from..].find('\n') else {
                    self.miss(index, self.text.len());
                    return Err(Failed);
                };
                self.on_line(index, from + newline + 1, from, "not on the line after the match before it")
            }
            _ => self.repeated(index, from),
        }
    }

    /// A match with no newline between `start` and itself.
    fn on_line(
        &mut self,
        index: usize,
        start: usize,
        previous: usize,
        reason: &'static str,
    ) -> Result<Range<usize>, Failed> {
        let found = self.find(index, start)?;
        if self.text[start..found.start].contains('\n') {
            self.states[index] = State::Misplaced { found, reason, previous };
            return Err(Failed);
        }
        Ok(found)
    }

    fn repeated(&mut self, index: usize, from: usize) -> Result<Range<usize>, Failed> {
        let first = self.find(index, from)?;
        let mut end = first.end;
        for done in 1..self.directives[index].count {
            let next = self.find(index, end);
            if next.is_err() {
                self.states[index].after(done);
            }
            end = next?.end;
        }
        Ok(first.start..end)
    }

    fn find(&mut self, index: usize, from: usize) -> Result<Range<usize>, Failed> {
        match self.directives[index].needle.find(&self.text[from..], &Variables::new()) {
            Ok(Some(found)) => Ok(found.range.start + from..found.range.end + from),
            Ok(None) => {
                self.miss(index, from);
                Err(Failed)
            }
            Err(impossible) => {
                self.states[index] = State::Impossible(impossible);
                Err(Failed)
            }
        }
    }

    fn miss(&mut self, index: usize, from: usize) {
        let needle = &self.directives[index].needle;
        self.states[index] = State::missing(from..self.text.len(), needle, &Variables::new());
    }

    fn forbid(&mut self, nots: Range<usize>, region: Range<usize>) -> Result<(), Failed> {
        for index in nots {
            // A group of DAGs may begin before the end of the match before it only if it is empty.
            let searched = &self.text[region.start..region.end.max(region.start)];
            let found = self.directives[index].needle.find(searched, &Variables::new());
            self.states[index] = match found {
                Ok(Some(found)) => State::Forbidden(found.range.start + region.start..found.range.end + region.start),
                _ => State::Absent,
            };
            if matches!(self.states[index], State::Forbidden(_)) {
                return Err(Failed);
            }
        }
        Ok(())
    }
}
