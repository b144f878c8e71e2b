//! Takes in what a dead process left: the book queues its children, their transcripts go on, and what was said to them is
//! where they find it before they begin.

use super::{Dispatcher, Heirloom};
use crate::book::{Adopted, Event};
use legwork_core::outcome::Outcome;
use legwork_core::ports::Heading;
use legwork_core::record::DelegationRecord;
use legwork_core::time::Timestamp;

impl Dispatcher {
    pub(super) fn adopt(&mut self, heirloom: Heirloom) {
        let Heirloom { mut adopted, steers } = heirloom;
        adopted.retain(|one| self.book.delegation(&one.record.accepted.delegation).is_none());
        for Adopted { record, .. } in &adopted {
            self.reopen_transcripts(record);
            self.count_told(record);
        }
        for (child, steers) in steers {
            steers.into_iter().for_each(|steer| self.say(child.clone(), steer));
        }
        self.step(Event::Adopted(adopted));
        // What was asked of it before it was known here, stops among it, is read once more.
        self.chores.reread();
    }

    /// Who had ended before is not told of once more, and is not waited for.
    fn count_told(&mut self, record: &DelegationRecord) {
        for unit in &record.accepted.units {
            let rows = unit.task_indexes.iter().filter_map(|index| record.children.get(*index));
            let settled = rows.filter(|row| row.outcome().is_some()).count();
            self.told.insert(unit.id.clone(), settled);
        }
    }

    fn reopen_transcripts(&self, record: &DelegationRecord) {
        let accepted = &record.accepted;
        if accepted.transcripts.iter().all(String::is_empty) {
            return;
        }
        let heading = |(task_index, task): (usize, &legwork_core::batch::Task)| Heading {
            delegation: accepted.delegation.clone(),
            child: accepted.children[task_index].clone(),
            task_index,
            goal: task.goal.clone(),
            context: accepted.context_of(task_index).map(str::to_owned),
            model: accepted.model_of(task_index).to_owned(),
            at: record.accepted_at,
        };
        let headings: Vec<Heading> = accepted.tasks.iter().enumerate().map(heading).collect();
        let ended = record.children.iter().enumerate();
        let ended = ended.filter_map(|(index, child)| Some((index, child.outcome()?, child.ended_at?)));
        let settled: Vec<(usize, Outcome, Timestamp)> = ended.collect();
        let at = self.wiring.clock.now().wall;
        if let Err(error) = self.wiring.transcripts.reopen(&headings, &settled, at) {
            tracing::warn!(delegation = %accepted.delegation, %error, "the delegation goes on without transcripts");
        }
    }
}
