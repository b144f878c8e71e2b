//! What people do in a live world: they delegate, say something to children, stop them, and turn the switch.

use super::session::reach_of;
use super::world::World;
use crate::worlds::law::Broken;
use legwork_core::batch::{Isolation, Lineage, NewBatch, Reach, Rights, Route, Setting, Task};
use legwork_core::budget::Allowance;
use legwork_core::ids::{ChildId, RequestId};
use legwork_core::outcome::{Force, StopReason};
use legwork_core::ports::{Delegator, Facts, SteerError};
use legwork_core::steering::{Request, Scope, Wish};
use legwork_core::time::Timestamp;
use legwork_engine::Handle;

impl World {
    /// Somebody does something.
    pub(super) async fn act(&mut self) -> Result<(), Broken> {
        let roll = self.weather.chance(|chance| chance.below(100));
        match roll {
            0..45 => self.delegate().await,
            45..75 => self.steer().await,
            75..83 => self.steer_from_elsewhere().await,
            83..88 => self.stop().await,
            88..90 => {
                let pauses = self.weather.chance(|chance| chance.once_in(3));
                let handle = self.handle();
                // A switch that cannot be stored stays where it is.
                if pauses { handle.pause().await } else { handle.resume().await }.ok();
            }
            90..92 => self.die(),
            92..96 => self.leave().await,
            96..97 => return self.recover_needlessly().await,
            _ => return self.stand_still().await,
        }
        Ok(())
    }

    /// Some process.
    pub(super) fn handle(&self) -> Handle {
        self.weather.chance(|chance| chance.pick(&self.processes).handle.clone())
    }

    pub(super) async fn delegate(&mut self) {
        let session = self.weather.chance(|chance| chance.pick(&self.sessions).clone());
        let holder = self.processes.iter().find(|process| process.held.contains(&session));
        let Some(handle) = holder.map(|holder| holder.handle.clone()) else { return };
        let batch = self.weather.chance(|chance| {
            let reach = reach_of(&session);
            let groups = *chance.pick(&[&[None][..], &[Some("a")], &[None, Some("a"), Some("b")]]);
            NewBatch {
                lineage: Lineage::of_session(session),
                call_key: None,
                context: None,
                reach: if chance.once_in(5) { Reach::Joined } else { reach },
                tasks: (0..chance.between(1, 3)).map(|_| task(*chance.pick(groups))).collect(),
                setting: setting(),
            }
        });
        // A call that is refused leaves nothing behind.
        if let Ok(ticket) = handle.dispatch(batch).await {
            self.delegations.push(ticket.delegation);
            self.children.extend(ticket.children);
        }
    }

    fn some_child(&self) -> Option<ChildId> {
        // The last ones still work, as a rule.
        let from = self.children.len().saturating_sub(8);
        let late = &self.children[from..];
        (!late.is_empty()).then(|| self.weather.chance(|chance| chance.pick(late).clone()))
    }

    async fn steer(&mut self) {
        let Some(child) = self.some_child() else { return };
        let asker = self.weather.chance(|chance| chance.pick(&self.sessions).clone());
        let asker = self.weather.chance(|chance| chance.once_in(2)).then_some(asker);
        let said = self.handle().steer(&child, "do it otherwise".to_owned(), asker.as_ref()).await;
        if let Err(SteerError::NotFound(_) | SteerError::Ending(_)) = said {
            self.weather.shared().figures.refused += 1;
        }
    }

    /// Somebody says something to a child by way of the store.
    async fn steer_from_elsewhere(&mut self) {
        let Some(child) = self.some_child() else { return };
        let id = RequestId::from_bits(self.weather.chance(|chance| chance.bits()));
        let wish = Wish::Steer { text: "hurry".to_owned() };
        let request = Request { id, at: Timestamp(0), scope: Scope::Child(child), wish };
        self.weather.store.ask(request).await.expect("an onlooker's store takes it");
    }

    async fn stop(&mut self) {
        let scope = match self.weather.chance(|chance| chance.below(10)) {
            0 => Scope::All,
            1 => Scope::Session(self.weather.chance(|chance| chance.pick(&self.sessions).clone())),
            2..5 if !self.delegations.is_empty() => {
                Scope::Delegation(self.weather.chance(|chance| chance.pick(&self.delegations).clone()))
            }
            _ => match self.some_child() {
                Some(child) => Scope::Child(child),
                None => return,
            },
        };
        let force = self.weather.chance(|chance| *chance.pick(&[Force::Ask, Force::Ask, Force::Abort]));
        self.handle().stop(scope, StopReason::Cancelled, force).await;
    }
}

pub(super) fn task(group: Option<&str>) -> Task {
    Task { group: group.map(str::to_owned), ..Task::of("work") }
}

pub(super) fn setting() -> Setting {
    Setting {
        folder: "/".to_owned(),
        route: Route {
            model: "scripted/live".to_owned(),
            base_url: None,
            api_mode: "chat".to_owned(),
            key_source: None,
            terms: None,
            table: None,
            fallbacks: Vec::new(),
        },
        rights: Rights::default(),
        allowance: Allowance { steps_max: 10 },
        isolation: Isolation::Shared,
    }
}
