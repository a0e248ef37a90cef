//! The names of the values of a result, independent of the graph: this value has the name of value
//! 7 of the first graph, that one has the second new number.
//!
//! Such a plan exists if names only move, which is usual. If a name comes from another graph, or a
//! renamed value remains, names depend on which texts clash, and the edits have to be repeated one
//! by one.

use super::journal::NameEdit;

/// The source of a label.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LabelSource {
    /// The label of this value of the first graph.
    Place(u32),
    /// The next number, plus this offset.
    Fresh(u32),
    /// This number.
    Number(u32),
}

/// Labels by place, values of the first graph before created ones, and the next number.
pub(super) struct LabelPlan {
    pub(super) labels: Vec<Option<LabelSource>>,
    pub(super) next: LabelSource,
}

struct State<'a> {
    named: &'a dyn Fn(u32) -> bool,
    labels: Vec<Option<LabelSource>>,
    /// The current owner of the name of each value of the first graph.
    owners: Vec<Option<u32>>,
    next: Option<LabelSource>,
}

impl LabelPlan {
    /// Follows the edits over `inputs` values, of which `named` have names; `None` if no plan
    /// exists.
    pub(super) fn of(edits: &[NameEdit<u32>], inputs: u32, named: &dyn Fn(u32) -> bool) -> Option<LabelPlan> {
        let mut state = State {
            named,
            labels: (0..inputs).map(|place| Some(LabelSource::Place(place))).collect(),
            owners: (0..inputs).map(Some).collect(),
            next: Some(LabelSource::Fresh(0)),
        };
        edits.iter().try_for_each(|edit| state.follow(edit))?;
        Some(LabelPlan { next: state.next?, labels: state.labels })
    }
}

impl State<'_> {
    fn follow(&mut self, edit: &NameEdit<u32>) -> Option<()> {
        match *edit {
            NameEdit::Fresh(v) => self.fresh(v)?,
            NameEdit::Literal(..) => return None,
            NameEdit::Moved { from, to, only_nameless } => {
                if !(only_nameless && self.is_named(to)) && self.is_named(from) {
                    self.take(from, to);
                }
            }
            NameEdit::Cleared(v) => {
                if self.is_named(v) {
                    self.fresh(v)?;
                }
            }
            NameEdit::Numbered(v, number) => self.number(v, number),
            NameEdit::NumberedIfNameless(v, number) => {
                if !self.is_named(v) {
                    self.number(v, number);
                }
            }
            NameEdit::Restarted(number) => self.next = Some(LabelSource::Number(number)),
            NameEdit::Released(v) => self.disown(v),
            NameEdit::Exchanged(a, b) => self.exchange(a, b),
        }
        Some(())
    }

    fn slot(&mut self, v: u32) -> &mut Option<LabelSource> {
        if self.labels.len() <= v as usize {
            self.labels.resize(v as usize + 1, None);
        }
        &mut self.labels[v as usize]
    }

    /// Whether it has a name; a renamed value has one, whose text is unknown.
    fn is_named(&mut self, v: u32) -> bool {
        match *self.slot(v) {
            Some(LabelSource::Place(place)) => (self.named)(place),
            Some(LabelSource::Fresh(_) | LabelSource::Number(_)) => false,
            None => true,
        }
    }

    fn fresh(&mut self, v: u32) -> Option<()> {
        self.disown(v);
        let next = self.next?;
        *self.slot(v) = Some(next);
        self.next = Some(match next {
            LabelSource::Fresh(n) => LabelSource::Fresh(n + 1),
            LabelSource::Number(n) => LabelSource::Number(n + 1),
            LabelSource::Place(_) => return None,
        });
        Some(())
    }

    fn number(&mut self, v: u32, number: u32) {
        self.disown(v);
        *self.slot(v) = Some(LabelSource::Number(number));
        self.next = match self.next {
            Some(LabelSource::Number(n)) => Some(LabelSource::Number(n.max(number + 1))),
            // Which of the two is greater is known only when numbers restart.
            _ => None,
        };
    }

    /// Moves the name of `from` to `to`; its previous owner is renamed.
    fn take(&mut self, from: u32, to: u32) {
        let label = *self.slot(from);
        let Some(LabelSource::Place(place)) = label else {
            self.disown(to);
            *self.slot(to) = None;
            return;
        };
        let previous = self.owners[place as usize];
        if previous == Some(to) {
            return;
        }
        self.disown(to);
        if let Some(previous) = previous {
            *self.slot(previous) = None;
        }
        self.owners[place as usize] = Some(to);
        *self.slot(to) = label;
    }

    fn disown(&mut self, v: u32) {
        if let Some(LabelSource::Place(place)) = *self.slot(v) {
            let owner = &mut self.owners[place as usize];
            if *owner == Some(v) {
                *owner = None;
            }
        }
    }

    fn exchange(&mut self, a: u32, b: u32) {
        let (old, new) = (*self.slot(a), *self.slot(b));
        let owns = |state: &Self, v: u32, label: Option<LabelSource>| match label {
            Some(LabelSource::Place(place)) => state.owners[place as usize] == Some(v),
            _ => false,
        };
        let (owned, other) = (owns(self, a, old), owns(self, b, new));
        *self.slot(a) = new;
        *self.slot(b) = old;
        for (v, label, owns) in [(a, new, other), (b, old, owned)] {
            if let (Some(LabelSource::Place(place)), true) = (label, owns) {
                self.owners[place as usize] = Some(v);
            }
        }
    }
}
