//! Takes in what a dead process left: the book queues its children, their transcripts go on, and what was said to them is
//! where they find it before they begin.

use super::announce::End;
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
        adopted.iter().for_each(|Adopted { record, .. }| self.reopen_transcripts(record));
        for one in &adopted {
            self.given_up.taken_up(&one.record.accepted.delegation);
            self.note_ended(one);
        }
        for (child, steers) in steers {
            steers.into_iter().for_each(|steer| self.say(child.clone(), steer));
        }
        self.step(Event::Adopted(adopted));
        // What was asked of it before it was known here, stops among it, is read once more.
        self.chores.reread();
    }

    /// What had ended before, or ends with its process, without a run here that would tell of it.
    fn note_ended(&mut self, Adopted { record, losses, .. }: &Adopted) {
        for unit in &record.accepted.units {
            let ended = unit.task_indexes.iter().filter(|task| record.children[**task].outcome().is_some());
            self.told.insert(unit.id.clone(), ended.count());
        }
        for (task_index, loss) in losses {
            if let Some(report) = &loss.report {
                self.ends.insert(record.children[*task_index].id.clone(), End::of(report));
            }
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
