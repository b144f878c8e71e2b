//! The wait for results: while a living process is at work nothing but the store is looked at; the work of one that has died
//! is taken over and gone on with here. What this process gives up on the way, because the store would not take it, it takes up
//! again a few times; where that cannot be done the wait ends with the reason, since nobody else would do it.
//!
//! What is asked for may be a part of what has to be taken over; what becomes of the rest is not decided here.

use std::time::Duration;

use legwork_core::ids::DelegationId;
use legwork_core::ports::{Facts, StoreError};
use legwork_core::record::DelegationRecord;
use legwork_engine::Hold;
use legwork_engine::recovery::{Orphans, RecoveryError};
use tokio::time::Instant;

use super::Sought;
use super::finishing::{finish, has_work};
use crate::failure::{CliError, Exit, Kind};
use crate::model_source::Models;
use crate::orphans::Trouble;
use crate::owner::{self, Suspect};
use crate::signals::{Asked, EndedBy, Signals};
use crate::stderr::Voice;
use crate::wire::Workplace;
use crate::{lookup, orphans, outliving, state};

/// Between two looks at the store.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// How often work that this process gave up is taken up again by one wait.
const TAKEN_UP_AGAIN_MAX: u32 = 3;
/// After a process was watched that may stand still, or could not be, it is left alone for this long.
const WATCH_AGAIN_AFTER: Duration = Duration::from_secs(5);

/// How the wait ended.
pub(super) enum Waited {
    /// Everything has settled; where this process has gone on with it, which is to be [finished](finish).
    Settled(Option<Box<Workplace>>),
    /// Somebody did not want to wait any longer.
    Left(Exit),
}

/// Waits until the delegation has settled. A signal ends the wait; what this process had taken over is released then, and
/// goes on with whoever asks next.
///
/// # Errors
/// When the work cannot be gone on with here, or the store fails.
pub(super) async fn until_settled(sought: &Sought<'_>, signals: &mut Signals) -> Result<Waited, CliError> {
    let mut wait = Wait::new(sought);
    let waited = wait.until_settled(signals).await;
    let Some(mut workplace) = wait.workplace else {
        return Ok(waited?.map_or(Waited::Settled(None), Waited::Left));
    };
    let ended_by = match waited {
        Ok(None) if has_work(&workplace).await => {
            return Ok(Waited::Settled(Some(Box::new(workplace))));
        }
        Ok(None) => EndedBy::Itself,
        Ok(Some(_)) => EndedBy::Release,
        Err(error) => {
            finish(sought.invocation, workplace, signals).await;
            return Err(error);
        }
    };
    // Told twice or once: what it was told first is its exit code.
    workplace.close_after(ended_by, signals).await.ok();
    let left = waited?.or(signals.told().map(Asked::exit));
    Ok(left.map_or_else(|| Waited::Settled(Some(Box::new(workplace))), Waited::Left))
}

/// Who works on what is waited for.
enum WorkedOnBy {
    /// The process that did is gone.
    Nobody,
    /// A process that lives, or may.
    Another,
    /// The same, and it may stand still: whoever goes on with the work watches that first.
    Silent(Suspect),
    /// This process.
    Us,
    /// Nobody: it is this process's, and it has given it up for this reason.
    NobodySinceWeGaveUp(String),
}

/// Why a look came to nothing.
enum Unseen {
    /// The store could not be read.
    Store(StoreError),
    /// The wait has come to its end.
    ForGood(CliError),
}

impl From<StoreError> for Unseen {
    fn from(error: StoreError) -> Unseen {
        Unseen::Store(error)
    }
}

impl From<RecoveryError> for Unseen {
    fn from(error: RecoveryError) -> Unseen {
        match error {
            RecoveryError::Store(error) => Unseen::Store(error),
            RecoveryError::Closed => Unseen::ForGood(error.into()),
        }
    }
}

impl From<CliError> for Unseen {
    fn from(error: CliError) -> Unseen {
        Unseen::ForGood(error)
    }
}

/// A wait, with what it has met so far.
struct Wait<'a> {
    sought: &'a Sought<'a>,
    /// What this process needs to go on with work of others, once there is any to go on with.
    workplace: Option<Workplace>,
    told: Told,
    trouble: Trouble,
    /// How often the work was given up here.
    times: u32,
    watch_again: Instant,
}

impl<'a> Wait<'a> {
    fn new(sought: &'a Sought<'a>) -> Wait<'a> {
        let voice = sought.invocation.voice();
        Wait {
            sought,
            workplace: None,
            told: Told::new(voice),
            trouble: Trouble::of_a_wait(voice),
            times: 0,
            watch_again: Instant::now(),
        }
    }

    /// Gives the exit code when a signal has ended the wait.
    async fn until_settled(&mut self, signals: &mut Signals) -> Result<Option<Exit>, CliError> {
        loop {
            let looked = tokio::select! {
                asked = signals.next() => return Ok(Some(asked.exit())),
                looked = self.look() => looked,
            };
            let pause = match looked {
                Ok(true) => return Ok(None),
                Ok(false) => {
                    self.trouble.is_over();
                    LOOK_EVERY
                }
                // What runs here or elsewhere goes on meanwhile.
                Err(Unseen::Store(error)) if self.trouble.is_worth_another_look(&error) => {
                    self.trouble.met(&error)
                }
                Err(Unseen::Store(error)) => return Err(error.into()),
                Err(Unseen::ForGood(error)) => return Err(error),
            };
            tokio::select! {
                asked = signals.next() => return Ok(Some(asked.exit())),
                // Deadline: the ends are rows of the store, so this process looks again.
                () = tokio::time::sleep(pause) => {}
            }
        }
    }

    /// Looks whether it has settled, and goes on with it where nobody else does.
    async fn look(&mut self) -> Result<bool, Unseen> {
        let Sought { invocation, store, id, .. } = self.sought;
        let record = store.delegation(id).await?.ok_or_else(|| lookup::unknown(id.as_str()))?;
        if record.is_settled() {
            return Ok(true);
        }
        if self.told.has_not_told_of_pause()
            && let Err(error) = state::tell_of_pause(invocation, store).await
        {
            tracing::debug!(%error, "whether there is a pause cannot be read");
        }
        match self.worked_on_by(&record).await? {
            WorkedOnBy::Us => {}
            WorkedOnBy::Another => self.told.of_another(&record),
            WorkedOnBy::Silent(suspect) => self.watch(&record, &suspect).await?,
            WorkedOnBy::Nobody if outliving::has_worker(self.sought.invocation, &record) => {
                self.beside_a_worker().await?;
            }
            WorkedOnBy::Nobody => self.take_up().await?,
            WorkedOnBy::NobodySinceWeGaveUp(why) => self.take_up_again(&why).await?,
        }
        Ok(false)
    }

    async fn worked_on_by(&self, record: &DelegationRecord) -> Result<WorkedOnBy, Unseen> {
        let hold = match &self.workplace {
            Some(place) => place.handle.hold_of(record).await?,
            None => Hold::NotHere,
        };
        match hold {
            Hold::InHand => return Ok(WorkedOnBy::Us),
            // Also what it left to others since: they would meet the same store.
            Hold::GivenUp(why) => return Ok(WorkedOnBy::NobodySinceWeGaveUp(why)),
            Hold::NotHere => {}
        }
        // It may not be where the record said any more; whoever takes it up reads it again.
        let was_ours = self.workplace.as_ref().is_some_and(|place| place.owner.record.id == record.owner.id);
        if was_ours || orphans::is_orphaned(record) {
            return Ok(WorkedOnBy::Nobody);
        }
        let suspect = owner::may_stand_still(self.sought.store.as_ref(), &record.owner).await?;
        Ok(suspect.map_or(WorkedOnBy::Another, WorkedOnBy::Silent))
    }

    /// Watches a process that may stand still, and goes on with its work when it does. As long as that is not proved
    /// its results may still come: where this process could not go on with them, or the store takes nothing of it, they
    /// are waited for all the same.
    async fn watch(&mut self, record: &DelegationRecord, suspect: &Suspect) -> Result<(), Unseen> {
        if Instant::now() < self.watch_again {
            return Ok(());
        }
        let orphans = Orphans::Of(self.sought.id.clone());
        let obstacle = match self.equipped().await {
            Ok(place) => place.handle.obstacle(&orphans).await?,
            Err(error) => Some(error.in_a_line()),
        };
        let obstacle = match obstacle {
            Some(obstacle) => Some(obstacle),
            None => {
                self.told.of_silence(suspect);
                self.take_up().await.err().map(|error| error.in_a_line())
            }
        };
        if let Some(obstacle) = obstacle {
            self.told.of_an_obstacle(record, &obstacle);
        }
        self.watch_again = Instant::now() + WATCH_AGAIN_AFTER;
        Ok(())
    }

    /// Goes on with what is left to a worker that has not begun. Where the store does not take that, the worker is
    /// waited for: it may begin as soon as the store does.
    async fn beside_a_worker(&mut self) -> Result<(), Unseen> {
        if Instant::now() < self.watch_again {
            return Ok(());
        }
        match self.take_up().await {
            Err(error) if error.kind() == Kind::State => {
                self.told.of_a_worker(&self.sought.id, &error.to_string());
                self.watch_again = Instant::now() + WATCH_AGAIN_AFTER;
                Ok(())
            }
            taken => Ok(taken?),
        }
    }

    /// Goes on with it here. What of it can go on does; after that the rest is nobody's again, and is asked for once more.
    async fn take_up(&mut self) -> Result<(), CliError> {
        let Sought { invocation, id, .. } = self.sought;
        let place = self.equipped().await?;
        let recovered = orphans::take_up(invocation, place, &Orphans::Of(id.clone())).await?;
        let error = orphans::cannot_go_on(place, &recovered).await;
        error.filter(|_| recovered.taken.is_empty()).map_or(Ok(()), Err)
    }

    /// The same with what was given up here.
    async fn take_up_again(&mut self, why: &str) -> Result<(), CliError> {
        let Sought { invocation, id, .. } = self.sought;
        self.times += 1;
        if self.times > TAKEN_UP_AGAIN_MAX {
            return Err(given_up(id, self.times, why));
        }
        let place = self.equipped().await?;
        let recovered = place.handle.recover_again(id).await?;
        if !recovered.taken.is_empty() {
            invocation
                .voice()
                .tell(&format!("note: {id} had been given up here; it goes on from what is stored of it"));
        }
        let error = orphans::cannot_go_on(place, &recovered).await;
        error.filter(|_| recovered.taken.is_empty()).map_or(Ok(()), Err)
    }

    /// This process with what it needs to go on with work of others.
    async fn equipped(&mut self) -> Result<&Workplace, CliError> {
        let invocation = self.sought.invocation;
        match &mut self.workplace {
            Some(place) => Ok(place),
            empty => {
                let settings = invocation.settings()?;
                let models = Models::for_work_of_others(invocation, &settings).await?;
                Ok(empty.insert(Workplace::open_with(invocation, &settings, models).await?))
            }
        }
    }
}

/// What somebody who waits was told, so that it is told once.
pub(super) struct Told {
    voice: Voice,
    pause: bool,
    silence: bool,
    obstacle: bool,
    worker: bool,
    /// The process for which it waits.
    another: Option<u32>,
}

impl Told {
    pub(super) fn new(voice: Voice) -> Told {
        Told { voice, pause: false, silence: false, obstacle: false, worker: false, another: None }
    }

    fn has_not_told_of_pause(&mut self) -> bool {
        !std::mem::replace(&mut self.pause, true)
    }

    /// Says which process is waited for.
    pub(super) fn of_another(&mut self, record: &DelegationRecord) {
        let (pid, id) = (record.owner.process.pid, &record.accepted.delegation);
        if self.another.replace(pid) != Some(pid) {
            self.voice.tell(&format!("note: waits for process {pid}, which runs {id}"));
        }
    }

    /// Says why a worker is waited for that has not begun.
    pub(super) fn of_a_worker(&mut self, id: &DelegationId, why: &str) {
        if !std::mem::replace(&mut self.worker, true) {
            self.voice.tell(&format!(
                "note: {id} is left to a worker that has not begun, which is waited for, because it could not go on here: {why}"
            ));
        }
    }

    /// Says that a process is watched that may stand still.
    fn of_silence(&mut self, suspect: &Suspect) {
        if !std::mem::replace(&mut self.silence, true) && self.voice.is_aloud() {
            suspect.tell();
        }
    }

    /// Says why nobody is declared gone, although a process may stand still.
    pub(super) fn of_an_obstacle(&mut self, record: &DelegationRecord, why: &str) {
        let (pid, id) = (record.owner.process.pid, &record.accepted.delegation);
        if !std::mem::replace(&mut self.obstacle, true) {
            self.voice.tell(&format!(
                "note: process {pid} does not renew its lease; it is waited for all the same, because {id} could not go on here: {why}"
            ));
        }
    }
}

/// The failure when the store takes nothing of the work again and again.
fn given_up(id: &DelegationId, times: u32, why: &str) -> CliError {
    let message =
        format!("{id} was given up here {times} times, because what became of it could not be stored: {why}");
    CliError::new(Kind::State, message).with_hint(format!(
        "nothing that is stored is lost; once the state folder takes it, `legwork results {id} --wait` goes on"
    ))
}
