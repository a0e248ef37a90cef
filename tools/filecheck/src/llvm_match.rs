//! Runs directives as LLVM does: LABELs cut the input into sections, and each section is checked on
//! its own.

use crate::check_file::{Directive, Kind};
use crate::needle::{Found, Variables};
use crate::outcome::State;
use std::ops::Range;

/// Runs all directives; returns the state of each.
pub(crate) fn run(directives: &[Directive], text: &str) -> Vec<State> {
    let states = directives.iter().map(|_| State::NotTried).collect();
    let mut matcher = Matcher { directives, text, states, variables: Variables::new() };
    matcher.run();
    matcher.states
}

/// A positive directive with the DAGs and NOTs before it; at the end of the file it may be missing.
struct Block {
    group: Range<usize>,
    main: Option<usize>,
}

struct Matcher<'a> {
    directives: &'a [Directive],
    text: &'a str,
    states: Vec<State>,
    variables: Variables,
}

/// A failure; the state of the directive has the reason.
struct Failed;

impl Matcher<'_> {
    fn run(&mut self) {
        let blocks = self.blocks();
        let mut rest = 0;
        let mut first = 0;
        for last in self.section_ends(&blocks) {
            let label = blocks[last].main.filter(|main| self.directives[*main].kind == Kind::Label);
            let end = match label {
                Some(label) => match self.find(label, rest..self.text.len()) {
                    Ok(found) => found.range.end,
                    Err(Failed) => return,
                },
                None => self.text.len(),
            };
            self.section(&blocks[first..=last], rest..end);
            rest = end;
            first = last + 1;
        }
    }

    fn blocks(&self) -> Vec<Block> {
        let mut blocks = Vec::new();
        let mut start = 0;
        for (index, directive) in self.directives.iter().enumerate() {
            if !matches!(directive.kind, Kind::Dag | Kind::Not) {
                blocks.push(Block { group: start..index, main: Some(index) });
                start = index + 1;
            }
        }
        if start < self.directives.len() {
            blocks.push(Block { group: start..self.directives.len(), main: None });
        }
        blocks
    }

    /// The blocks that end a section: those of a LABEL, and the last.
    fn section_ends(&self, blocks: &[Block]) -> Vec<usize> {
        let is_label = |block: &Block| block.main.is_some_and(|main| self.directives[main].kind == Kind::Label);
        (0..blocks.len()).filter(|index| is_label(&blocks[*index]) || index + 1 == blocks.len()).collect()
    }

    /// Checks blocks in order until one fails.
    fn section(&mut self, blocks: &[Block], mut region: Range<usize>) {
        for block in blocks {
            match self.block(block, region.clone()) {
                Ok(end) => region.start = end,
                Err(Failed) => return,
            }
        }
    }

    /// Returns the end of the block's match.
    fn block(&mut self, block: &Block, region: Range<usize>) -> Result<usize, Failed> {
        let (start, nots) = self.group(block.group.clone(), region.clone())?;
        let Some(main) = block.main else {
            self.forbid(&nots, start..region.end)?;
            return Ok(region.end);
        };
        let found = self.repeat(main, start..region.end)?;
        self.check_line(main, start, found.clone())?;
        self.forbid(&nots, start..found.start)?;
        self.states[main] = State::Matched(found.clone());
        Ok(found.end)
    }

    /// Matches the directive as many times in a row as its count requires.
    fn repeat(&mut self, index: usize, region: Range<usize>) -> Result<Range<usize>, Failed> {
        let first = self.find(index, region.clone())?.range;
        let mut end = first.end;
        for done in 1..self.directives[index].count {
            let next = self.find(index, end..region.end);
            if next.is_err() {
                self.states[index].after(done);
            }
            end = next?.range.end;
        }
        Ok(first.start..end)
    }

    /// NEXT and EMPTY require one newline between the matches, SAME none.
    fn check_line(&mut self, index: usize, start: usize, found: Range<usize>) -> Result<(), Failed> {
        let newlines = self.text[start..found.start].matches('\n').count();
        let reason = match self.directives[index].kind {
            Kind::Next | Kind::Empty if newlines == 0 => "found on the same line as the match before it",
            Kind::Next | Kind::Empty if newlines > 1 => "not on the line after the match before it",
            Kind::Same if newlines > 0 => "not on the same line as the match before it",
            _ => return Ok(()),
        };
        self.states[index] = State::Misplaced { found, reason, previous: start };
        Err(Failed)
    }

    /// Matches the DAGs; returns where to continue, and the NOTs before the next match.
    fn group(&mut self, group: Range<usize>, region: Range<usize>) -> Result<(usize, Vec<usize>), Failed> {
        let mut start = region.start;
        let mut nots = Vec::new();
        let mut taken: Vec<Range<usize>> = Vec::new();
        for index in group.clone() {
            if self.directives[index].kind == Kind::Not {
                nots.push(index);
                continue;
            }
            self.dag(index, start..region.end, &mut taken)?;
            let more = index + 1 < group.end && self.directives[index + 1].kind == Kind::Dag;
            if !more {
                self.forbid(&nots, start..taken[0].start)?;
                nots.clear();
                start = taken[taken.len() - 1].end;
                taken.clear();
            }
        }
        Ok((start, nots))
    }

    /// A match that overlaps none of those taken, which stay sorted.
    fn dag(&mut self, index: usize, region: Range<usize>, taken: &mut Vec<Range<usize>>) -> Result<(), Failed> {
        let mut from = region.start;
        let mut slot = 0;
        loop {
            let found = self.find(index, from..region.end)?.range;
            while slot < taken.len() && found.start >= taken[slot].end {
                slot += 1;
            }
            let overlapped = taken.get(slot).filter(|other| other.start < found.end);
            let Some(other) = overlapped else {
                taken.insert(slot, found.clone());
                self.states[index] = State::Matched(found);
                return Ok(());
            };
            from = other.end;
            slot += 1;
        }
    }

    /// None of the NOTs may match in the region.
    fn forbid(&mut self, nots: &[usize], region: Range<usize>) -> Result<(), Failed> {
        let mut clean = Ok(());
        for &index in nots {
            let found = self.directives[index].needle.find(&self.text[region.clone()], &self.variables);
            self.states[index] = match found {
                Ok(None) => State::Absent,
                Ok(Some(found)) => State::Forbidden(shifted(&found, region.start)),
                Err(impossible) => State::Impossible(impossible),
            };
            if !matches!(self.states[index], State::Absent) {
                clean = Err(Failed);
            }
        }
        clean
    }

    /// The first match in the region; variables get their values.
    fn find(&mut self, index: usize, region: Range<usize>) -> Result<Found, Failed> {
        let needle = &self.directives[index].needle;
        let state = match needle.find(&self.text[region.clone()], &self.variables) {
            Ok(Some(mut found)) => {
                found.range = shifted(&found, region.start);
                self.variables.extend(found.bound.iter().cloned());
                return Ok(found);
            }
            Ok(None) => State::missing(region, needle, &self.variables),
            Err(impossible) => State::Impossible(impossible),
        };
        self.states[index] = state;
        Err(Failed)
    }
}

fn shifted(found: &Found, by: usize) -> Range<usize> {
    found.range.start + by..found.range.end + by
}
