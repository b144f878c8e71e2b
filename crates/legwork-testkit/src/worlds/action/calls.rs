//! Calls: conversations and children delegate.

use crate::worlds::law::Broken;
use crate::worlds::runner::Stage;
use crate::worlds::world::World;
use legwork_core::batch::{Isolation, Lineage, NewBatch, Reach, Rights, Route, Setting, Task};
use legwork_core::budget::Allowance;
use legwork_core::ids::{ChildId, DelegationId, SessionId};
use legwork_engine::book::{Event, NewIds, ReplyTo};

impl World {
    /// A conversation delegates.
    pub(super) fn call(&mut self) -> Result<(), Broken> {
        let session = self.chance.below(self.terms.sessions) as u64 + 1;
        let lineage = Lineage::of_session(SessionId::from_bits(session));
        self.dispatch(lineage).map(|_| ())
    }

    fn dispatch(&mut self, lineage: Lineage) -> Result<ReplyTo, Broken> {
        let tasks = if self.chance.once_in(30) { 0 } else { self.chance.between(1, self.terms.tasks_max) };
        let ids = NewIds {
            delegation: DelegationId::from_bits(self.id_bits()),
            children: (0..tasks).map(|index| ChildId::from_bits(index, self.id_bits())).collect(),
            transcripts: Vec::new(),
        };
        self.next_reply += 1;
        let reply = ReplyTo(self.next_reply);
        let nested = lineage.parent.is_some();
        self.calls.insert(reply, lineage.parent.clone());
        let known = self.account.delegations.len();
        let tasks = self.some_tasks(tasks);
        let reach = *self.chance.pick(&[Reach::Push, Reach::Push, Reach::History, Reach::Joined]);
        let reach = if nested { Reach::Joined } else { reach };
        let batch = Box::new(NewBatch { reach, ..batch(lineage, tasks) });
        self.step(Event::Dispatch { batch, ids, reply })?;
        let inline = self.account.delegations.values().filter(|kept| kept.accepted.fallback.is_some());
        self.figures.inline = self.figures.inline.max(inline.count() as u64);
        if self.account.delegations.len() > known {
            self.figures.delegations += 1;
            self.figures.nested += u64::from(nested);
        }
        Ok(reply)
    }

    /// Tasks of a few groups, or of none.
    fn some_tasks(&mut self, count: usize) -> Vec<Task> {
        let groups =
            *self.chance.pick(&[&[None][..], &[Some("a"), Some("b")], &[None, Some("a"), Some("b")]]);
        let task = |index| Task {
            group: self.chance.pick(groups).map(str::to_owned),
            ..Task::of(format!("task {index}"))
        };
        (0..count).map(task).collect()
    }

    fn id_bits(&mut self) -> u32 {
        (self.chance.bits() >> 32) as u32
    }

    pub(super) fn call_from(&mut self, child: &ChildId) -> Result<(), Broken> {
        let (kept, _) = self.account.kept_of(child).expect("a runner's child is known");
        let above = &kept.accepted.lineage;
        let lineage = Lineage {
            session: above.session.clone(),
            parent: Some(child.clone()),
            depth: above.depth + 1,
            ..above.clone()
        };
        // The answer may come within the step: the number that the call will have is the next one.
        let reply = ReplyTo(self.next_reply + 1);
        if let Some(runner) = self.runners.get_mut(child) {
            runner.stage = Stage::Calling(reply);
        }
        self.dispatch(lineage).map(|_| ())
    }
}

fn batch(lineage: Lineage, tasks: Vec<Task>) -> NewBatch {
    NewBatch {
        lineage,
        call_key: None,
        context: None,
        reach: Reach::Joined,
        tasks,
        setting: Setting {
            folder: "/".to_owned(),
            route: Route {
                model: "scripted/world".to_owned(),
                base_url: None,
                api_mode: "chat".to_owned(),
                key_source: None,
                terms: None,
                table: None,
                fallbacks: Vec::new(),
            },
            rights: Rights::default(),
            allowance: Allowance { steps_max: 1 },
            isolation: Isolation::Shared,
        },
    }
}
