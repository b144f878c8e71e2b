//! Checks at the end of a step that everything happened that had to, and nothing else was pressed or ended.

use super::Audit;
use crate::worlds::expectation::Expectation;
use crate::worlds::law::{Broken, Law};
use legwork_core::child::ChildEvent;
use legwork_core::ids::ChildId;
use legwork_core::outcome::Force;

impl Audit<'_> {
    /// What the event had to lead to has happened.
    pub(super) fn nothing_is_missing(mut self) -> Result<(), Broken> {
        let (call, list) = (self.expected.call.is_some(), self.expected.list_for.is_some());
        Broken::unless(self.answered == call, Law::OneAnswer, || "a call has no answer".to_owned())?;
        Broken::unless(self.listed == list, Law::OneAnswer, || "a stop has no answer".to_owned())?;
        let is_grant = |event: &ChildEvent| matches!(event, ChildEvent::Started | ChildEvent::SlotGranted);
        let idle = self.moves.iter().find(|(_, event)| is_grant(event));
        Broken::unless(idle.is_none(), Law::NoIdleSlot, || format!("{idle:?} has no effect"))?;
        self.stops_arrived()?;
        self.pressed_only_where_due()?;
        self.ended_as_expected()
    }

    fn stops_arrived(&self) -> Result<(), Broken> {
        let law = if self.expected.list_for.is_some() { Law::StopReaches } else { Law::Time };
        for (child, due) in &self.expected.stops {
            let recorded = self.moves.iter().filter_map(|(moved, event)| match event {
                ChildEvent::StopAsked { force, .. } if moved == child => Some(*force),
                _ => None,
            });
            Broken::unless(recorded.max() == Some(due.force), law, || {
                format!("{child} is not stopped, {due:?}")
            })?;
            let open = self.account.is_open(child);
            let heard = !open || self.pressed.get(child) >= Some(&due.force);
            Broken::unless(heard, law, || format!("{child} does not hear of its stop, {due:?}"))?;
        }
        Ok(())
    }

    fn pressed_only_where_due(&mut self) -> Result<(), Broken> {
        let Expectation { stops, cuts, asks, .. } = self.expected;
        for child in cuts {
            let cut = self.pressed.get(child) == Some(&Force::Abort);
            Broken::unless(cut, Law::Release, || format!("the run of {child} is not cut"))?;
            if let Some(kid) = self.account.kid_mut(child) {
                kid.abort_at = None;
            }
        }
        for child in asks {
            let asked = self.pressed.contains_key(child);
            Broken::unless(asked, Law::Release, || format!("{child} is not asked to end"))?;
        }
        for (child, force) in &self.pressed {
            let due = stops.contains_key(child) || asks.contains(child) || cuts.contains(child);
            Broken::unless(due, Law::OnlyStops, || format!("{child} is pressed ({force:?}) for nothing"))?;
        }
        Ok(())
    }

    fn ended_as_expected(&self) -> Result<(), Broken> {
        let ends = self.moves.iter().filter(|(_, event)| matches!(event, ChildEvent::Returned(_)));
        let ends: Vec<&ChildId> = ends.map(|(child, _)| child).collect();
        let expected: Vec<&ChildId> = self.expected.ends.iter().map(|(child, _)| child).collect();
        Broken::unless(ends == expected, Law::OneOutcome, || {
            format!("{ends:?} ended, expected {expected:?}")
        })?;
        if let Some((child, outcome)) = &self.expected.ends {
            let settled = self.account.kid(child).and_then(|kid| kid.row.outcome());
            Broken::unless(settled == Some(*outcome), Law::OneOutcome, || {
                format!("{child} ended as {outcome:?} and is recorded as {settled:?}")
            })?;
        }
        Ok(())
    }
}
