//! `legwork results ID`: the stored results, again and again. With `--wait` they are waited for, and work whose process has
//! died is gone on with. Results that nobody can take any more are delivered by being printed.

mod claims;
mod finishing;
mod looking;
mod waiting;

use std::sync::Arc;
use std::time::Duration;

use legwork_core::below::Below;
use legwork_core::ids::{ChildId, ClaimId, DelegationId, Epoch};
use legwork_core::ports::{Facts, StoreError};
use legwork_core::record::DelegationRecord;
use legwork_core::taking::missed_texts;
use legwork_engine::recovery::{Conclusion, Orphans, may_go_on};
use legwork_sqlite::SqliteStore;
use tokio::time::Instant;

use crate::args::ResultsArgs;
use crate::failure::{CliError, Exit};
use crate::invocation::Invocation;
use crate::lookup;
use crate::outcomes::Outcomes;
use crate::owner::{self, Owner};
use crate::signals::{Asked, Signals};
use crate::{handed_over, orphans, outliving, state, stderr, stdout};
use finishing::finish;
use looking::Looked;
use waiting::Waited;

/// How long another process may take to settle what it has taken over.
const SETTLING_MAX: Duration = Duration::from_secs(5);
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Prints what is stored; with `--wait` once all of it has settled.
///
/// # Errors
/// When there is no such delegation, it cannot be gone on with, or the state folder cannot be used.
pub async fn run(invocation: &Invocation, args: &ResultsArgs) -> Result<Exit, CliError> {
    if args.wait {
        return wait(invocation, args).await;
    }
    let looked = state::open_to_look(invocation).await?.ok_or_else(|| lookup::unknown(&args.id))?;
    if looked.only_looks().is_some() {
        return Sought::find(invocation, args, looked).await?.show_only().await;
    }
    drop(looked);
    let sought = Sought::find(invocation, args, state::open_to_work(invocation)?).await?;
    let owner = Owner::new();
    match sought.store.enter(owner.record.clone(), owner.now()).await {
        // Nothing was waited for: a signal ends the program as any other.
        Ok(()) => sought.hand_out(&owner, None).await,
        Err(why) if why.may_pass() => {
            state::tell_only_looks(invocation, &why);
            sought.show_only().await
        }
        Err(error) => Err(error.into()),
    }
}

/// Waits until all of it has settled, and prints it then. What this process has taken up besides goes on until its end.
/// A signal ends either wait.
async fn wait(invocation: &Invocation, args: &ResultsArgs) -> Result<Exit, CliError> {
    let mut signals = Signals::listen()?;
    match looking::until_it_can_be_written(invocation, args, &mut signals).await? {
        Looked::Settled(sought) => return sought.show_only().await,
        Looked::Left(sought, exit) => {
            sought.leave(&mut signals).await;
            return Ok(exit);
        }
        Looked::Writable => {}
    }
    let sought = Sought::find(invocation, args, state::open_to_work(invocation)?).await?;
    match waiting::until_settled(&sought, &mut signals).await? {
        Waited::Settled(None) => {
            let owner = Owner::new();
            match sought.store.enter(owner.record.clone(), owner.now()).await {
                Ok(()) => sought.hand_out(&owner, Some(&mut signals)).await,
                // The results are there, and somebody waits for them.
                Err(why) if why.may_pass() => {
                    state::tell_only_looks(invocation, &why);
                    sought.show_only().await
                }
                Err(error) => Err(error.into()),
            }
        }
        Waited::Settled(Some(workplace)) => {
            let handed_out = sought.hand_out(&workplace.owner, Some(&mut signals)).await;
            finish(invocation, *workplace, &mut signals).await;
            handed_out.map(|exit| signals.told().map_or(exit, Asked::exit))
        }
        Waited::Left(exit) => {
            sought.leave(&mut signals).await;
            Ok(exit)
        }
    }
}

/// What somebody wants to see.
struct Sought<'a> {
    invocation: &'a Invocation,
    args: &'a ResultsArgs,
    store: Arc<SqliteStore>,
    id: DelegationId,
    /// Which of its tasks.
    wanted: Vec<usize>,
}

/// What is printed, and what is claimed by that.
struct Gathered {
    record: DelegationRecord,
    claims: Vec<ClaimId>,
    missed: Vec<(ChildId, String)>,
    below: Below,
}

impl<'a> Sought<'a> {
    async fn find(
        invocation: &'a Invocation,
        args: &'a ResultsArgs,
        store: Arc<SqliteStore>,
    ) -> Result<Sought<'a>, CliError> {
        let target = lookup::find(invocation, &store, &args.id).await?.of_delegation(&args.id)?;
        let (record, wanted) = target.into_tasks().ok_or_else(|| lookup::unknown(&args.id))?;
        Ok(Sought { invocation, args, store, id: record.accepted.delegation, wanted })
    }

    /// The delegation as it is stored now.
    async fn record(&self) -> Result<DelegationRecord, CliError> {
        let record = self.store.delegation(&self.id).await?;
        record.ok_or_else(|| lookup::unknown(self.id.as_str()))
    }

    /// Prints what is there, and notes that it has arrived where nobody else takes it.
    async fn hand_out(&self, owner: &Owner, mut signals: Option<&mut Signals>) -> Result<Exit, CliError> {
        let gathering = self.gather(owner);
        let gathered = match &mut signals {
            Some(signals) => match signals.unless_told(gathering).await {
                Ok(gathered) => gathered?,
                Err(asked) => return Ok(asked.exit()),
            },
            None => gathering.await?,
        };
        let Gathered { record, claims, missed, below } = gathered;
        let outcomes = Outcomes::of(&record, self.wanted.clone()).with_missed(&missed).with_below(&below);
        let printed = print(self.text(&outcomes), signals.as_deref_mut()).await;
        let noting = async {
            let noted = match &printed {
                Ok(None) if !stdout::goes_nowhere() => self.store.acknowledge(claims, owner.now()).await,
                Ok(_) | Err(_) => {
                    self.store.release(claims, owner.now(), "the results could not be written out").await
                }
            };
            if let Err(error) = noted {
                // The claims come free with this process; the results can be asked for again in any case.
                tracing::warn!(%error, "whether the results arrived could not be stored");
            }
        };
        match &mut signals {
            Some(signals) => drop(signals.unless_insisted(noting).await),
            None => noting.await,
        }
        if printed?.is_none() && stdout::goes_nowhere() {
            stderr::tell(&format!(
                "note: stdout is thrown away; `legwork results {}` prints them again",
                self.id
            ));
        }
        Ok(signals.and_then(|signals| signals.told()).map_or_else(|| outcomes.exit(), Asked::exit))
    }

    async fn gather(&self, owner: &Owner) -> Result<Gathered, CliError> {
        let (invocation, store) = (self.invocation, self.store.as_ref());
        let mut record = self.after_the_dead(owner).await?;
        handed_over::look(&mut record);
        if !invocation.common.quiet && outliving::is_abandoned(invocation, &record) {
            stderr::tell(&orphans::left(&self.id));
        }
        let below = self.below(&record).await?;
        let claims = match claims::claim_unowned(store, (&record, &below), &self.wanted, owner).await {
            Ok(claims) => claims,
            // What was claimed all the same comes free with this process.
            Err(why) if why.may_pass() => {
                state::tell_only_looks(invocation, &why);
                Vec::new()
            }
            Err(error) => return Err(error.into()),
        };
        let children = self.wanted.iter().filter_map(|task| record.accepted.children.get(*task));
        let children: Vec<ChildId> = children.cloned().collect();
        let unreadable = |child: &ChildId, error: StoreError| tracing::warn!(%child, %error, "what was said to a child too late cannot be read");
        let missed = missed_texts(store, &children, unreadable).await;
        Ok(Gathered { record, claims, missed, below })
    }

    /// The last words of a wait that a signal has ended: nobody has taken anything, and what is not there yet goes on
    /// with whoever asks next.
    async fn leave(&self, signals: &mut Signals) {
        let record = match signals.unless_insisted(self.store.delegation(&self.id)).await {
            Some(Ok(Some(record))) => record,
            Some(Err(error)) => return tracing::warn!(%error, "what is stored by now cannot be read"),
            Some(Ok(None)) | None => return,
        };
        if self.invocation.common.json {
            let text = self.text(&Outcomes::of(&record, self.wanted.clone()));
            if let Err(error) = stdout::print_attended(text, signals).await {
                tracing::warn!(%error, "what is stored by now could not be written out");
            }
        }
        if !self.invocation.common.quiet && !record.is_settled() {
            stderr::tell(&format!(
                "note: nothing is lost; `legwork results {} --wait` waits again, and goes on with what nobody else does",
                self.id
            ));
        }
    }

    /// Prints what is stored where nothing can be written, so that nobody has taken it afterwards.
    async fn show_only(&self) -> Result<Exit, CliError> {
        let mut record = self.record().await?;
        handed_over::look(&mut record);
        let outcomes = Outcomes::of(&record, self.wanted.clone());
        stdout::print(&self.text(&outcomes))?;
        Ok(outcomes.exit())
    }

    /// The delegation as it is after what is only to be reported of dead processes was settled: by this process, or by
    /// another one that came first and is at it.
    async fn after_the_dead(&self, owner: &Owner) -> Result<DelegationRecord, CliError> {
        let until = Instant::now() + SETTLING_MAX;
        loop {
            // Nothing is concluded of what this process may go on with beside it.
            let record = self.record().await?;
            if record.is_settled() {
                return Ok(record);
            }
            let orphans = Orphans::Of(self.id.clone());
            let store = self.store.as_ref();
            orphans::conclude(self.invocation, (store, owner), &orphans, Conclusion::Reported).await?;
            let record = self.record().await?;
            // What does not go on is taken over only to be settled.
            let is_being_settled = record.epoch > Epoch::FIRST && !record.is_settled() && !may_go_on(&record);
            if !is_being_settled || Instant::now() >= until {
                return Ok(record);
            }
            // Deadline: another process writes the ends and tells nobody, so this one looks again until then.
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    /// What is below the delegation; with `--wait` once what is about to end of it has.
    async fn below(&self, record: &DelegationRecord) -> Result<Below, CliError> {
        let until = Instant::now() + SETTLING_MAX;
        loop {
            let below = Below::of(self.store.as_ref(), record).await?;
            let is_ending = self.args.wait && below.open().any(|open| !owner::is_dead(&open.owner));
            if !is_ending || Instant::now() >= until {
                return Ok(below);
            }
            // Deadline: another process writes the ends and tells nobody, so this one looks again until then.
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    fn text(&self, outcomes: &Outcomes<'_>) -> String {
        if self.invocation.common.json {
            stdout::json_line(&outcomes.to_json_with_delivery())
        } else {
            outcomes.to_text()
        }
    }
}

/// Prints, and gives back the signal that came while nobody read.
async fn print(text: String, signals: Option<&mut Signals>) -> Result<Option<Asked>, CliError> {
    match signals {
        Some(signals) => stdout::print_attended(text, signals).await,
        None => stdout::print(&text).map(|()| None),
    }
}
