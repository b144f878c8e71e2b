//! The processes of a live world: they die, stand still, are declared gone, and others go on with their work and their
//! sessions.

use super::process::{LEASE, Process, is_gone};
use super::world::World;
use crate::worlds::law::{Broken, Law};
use futures::future::select_all;
use legwork_core::ids::SessionId;
use legwork_core::ports::Facts;
use legwork_engine::recovery::Orphans;
use std::sync::Arc;
use std::time::Duration;
use tokio::pin;
use tokio::time::sleep;

impl World {
    /// Resolves when one of the processes has died of a write.
    pub(super) fn death(&self) -> impl Future<Output = ()> + use<> {
        let deaths = self.processes.iter().map(|process| Box::pin(process.weather.store.death()));
        let first = select_all(deaths.collect::<Vec<_>>());
        async move { drop(first.await) }
    }

    /// Some process dies where it stands.
    pub(super) fn die(&self) {
        let place = self.weather.chance(|chance| chance.below(self.processes.len()));
        self.processes[place].weather.store.die();
    }

    /// Some process is told to end, in the middle of its work. Others open its sessions meanwhile.
    pub(super) async fn leave(&mut self) {
        self.delegate().await;
        self.delegate().await;
        self.weather.dawdle(1500).await;
        let place = self.weather.chance(|chance| chance.below(self.processes.len()));
        let process = self.processes.remove(place);
        self.weather.shared().leaving.insert(process.number);
        self.leaving.spawn(process.leave());
    }

    /// Somebody stands still, for a while or for so long that another one sees that it is gone.
    pub(super) async fn stand_still(&mut self) -> Result<(), Broken> {
        // In the middle of some work.
        self.delegate().await;
        self.delegate().await;
        let [first, second] = self.processes.as_mut_slice() else { return Ok(()) };
        let (late, other) = match self.weather.chance(|chance| chance.once_in(2)) {
            true => (first, second),
            false => (second, first),
        };
        let seconds = self.weather.chance(|chance| *chance.pick(&[4, 25, 32, 32, 60]));
        late.stand_still(Duration::from_secs(seconds));
        let sees = other.sees_gone(&late.owner);
        pin!(sees);
        let judged = tokio::select! {
            biased;
            judged = &mut sees => judged,
            // Deadline: it stands still for so long.
            () = sleep(Duration::from_secs(seconds)) => {
                late.weather.store.go_on();
                sees.await
            }
        };
        // A watch that a bad store broke off has judged nothing.
        let stolen = judged == Ok(true) && Duration::from_secs(seconds) < LEASE * 2;
        Broken::unless(!stolen, Law::NoTheft, || format!("gone after {seconds} s"))
    }

    /// Somebody looks for work without an owner while everybody lives and moves: there is none, whatever the clock says.
    pub(super) async fn recover_needlessly(&mut self) -> Result<(), Broken> {
        let handle = self.handle();
        // A store that fails now leaves it as it is.
        let Ok(recovered) = handle.recover(&Orphans::All).await else { return Ok(()) };
        Broken::unless(recovered.taken.is_empty(), Law::NoTheft, || format!("{recovered:?}"))
    }

    /// Who has died is buried. Who stands still goes on, at once or, when it was declared gone, in its time.
    pub(super) async fn look_after(&mut self) -> Result<(), Broken> {
        let taken_over = self.depose().await?;
        self.processes.iter_mut().for_each(Process::go_on);
        self.ghosts.iter_mut().for_each(Process::go_on_in_time);
        if self.weather.chance(|chance| chance.once_in(8))
            && let Some(place) = self.ghosts.iter().position(|ghost| ghost.still_until.is_none())
        {
            self.ghosts.remove(place).die().await;
        }
        let lost = self.processes.iter().any(|process| process.weather.store.is_dead());
        let too_few = self.processes.len() < self.wanted;
        if lost || taken_over || too_few { self.repopulate().await } else { Ok(()) }
    }

    /// Takes those that were declared gone out of the living; `true` when there were any. The dead are left to be buried.
    async fn depose(&mut self) -> Result<bool, Broken> {
        let mut found = false;
        for place in (0..self.processes.len()).rev() {
            let owner = self.weather.store.owner(&self.processes[place].owner.id).await;
            let owner = owner.expect("an onlooker's store can be read");
            let is_dead = self.processes[place].weather.store.is_dead();
            if !is_dead && owner.is_some_and(|owner| owner.gone) {
                let number = self.processes[place].number;
                let may_be = self.weather.shared().may_be_gone(number);
                Broken::unless(may_be, Law::NoTheft, || format!("{number} was declared gone"))?;
                self.ghosts.push(self.processes.remove(place));
                found = true;
            }
        }
        Ok(found)
    }

    async fn bury(&mut self) {
        for place in (0..self.processes.len()).rev() {
            if self.processes[place].weather.store.is_dead() {
                self.weather.shared().figures.deaths += 1;
                let process = self.processes.remove(place);
                process.die().await;
            }
        }
    }

    /// Processes begin and take over until there are enough of them, every session is open and all work has an owner. Each of
    /// them may die of a write while it does.
    pub(super) async fn repopulate(&mut self) -> Result<(), Broken> {
        self.weather.storm(false);
        loop {
            while let Some(left) = self.leaving.try_join_next() {
                left.expect("BUG: the end of a process panicked");
            }
            self.bury().await;
            self.depose().await?;
            if self.processes.len() < self.wanted {
                self.begin_one().await;
            } else if let Some(session) = self.sessions.iter().find(|id| !self.is_held(id)).cloned() {
                self.give(session).await;
            } else if let Some(left) = self.leaving.join_next().await {
                left.expect("BUG: the end of a process panicked");
            } else if self.take_stock().await {
                break;
            }
        }
        self.weather.storm(true);
        Ok(())
    }

    fn is_held(&self, session: &SessionId) -> bool {
        self.processes.iter().any(|process| process.held.contains(session))
    }

    async fn begin_one(&mut self) {
        self.number += 1;
        let weather = self.weather.of_a_process();
        let (death, store) = (weather.store.death(), Arc::downgrade(&weather.store));
        let process = tokio::select! {
            biased;
            () = death => None,
            process = Process::start(weather, self.number) => Some(process),
        };
        match process {
            Some(process) => self.processes.push(process),
            None => {
                self.weather.shared().figures.deaths += 1;
                self.weather.shared().dead.insert(self.number);
                is_gone(store).await;
            }
        }
    }

    /// Some process opens a session that nobody has open.
    async fn give(&mut self, session: SessionId) {
        let fewest = self.processes.iter().map(|process| process.held.len()).min().unwrap_or_default();
        let place = match self.weather.chance(|chance| chance.once_in(3)) {
            true => self.weather.chance(|chance| chance.below(self.processes.len())),
            false => self.processes.iter().position(|process| process.held.len() == fewest).unwrap_or(0),
        };
        let process = &mut self.processes[place];
        tokio::select! {
            biased;
            () = process.weather.store.death() => {}
            () = process.open(session) => {}
        }
    }

    /// Each process goes on with what it finds without an owner; `false` when one dies of it, or was declared gone.
    async fn take_stock(&mut self) -> bool {
        for process in &self.processes {
            let lives = tokio::select! {
                biased;
                () = process.weather.store.death() => false,
                recovered = process.recover() => recovered,
            };
            if !lives {
                return false;
            }
        }
        true
    }
}
