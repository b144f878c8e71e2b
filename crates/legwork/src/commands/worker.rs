//! `legwork worker`: goes on with the work of this state folder whose process has gone, whether it died, was told to end or
//! left it behind on purpose. It takes nothing from a living process, and releases everything when it is told to end itself.

use std::time::Duration;

use legwork_core::delivery::{DeliveryState, ParkReason};
use legwork_core::ids::DelegationId;
use legwork_core::ports::{Conversations, Facts, Filter, SessionKind};
use legwork_core::record::DelegationRecord;
use legwork_engine::recovery::{Orphans, Recovered};

use crate::args::WorkerArgs;
use crate::failure::{CliError, Exit};
use crate::invocation::Invocation;
use crate::lookup::{self, Target};
use crate::signals::{EndedBy, Signals};
use crate::wire::Workplace;
use crate::{orphans, state, stderr};

/// Between two looks for work that lost its process.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// The same while it waits for the end of what it was given.
const LOOK_CLOSELY: Duration = Duration::from_millis(200);

/// Works until it is told to end, or with `--only` until that has settled.
///
/// # Errors
/// When there is no such work, it cannot be gone on with here, no model is configured, or the state folder cannot be used.
pub async fn run(invocation: &Invocation, args: &WorkerArgs) -> Result<Exit, CliError> {
    if args.apart {
        legwork_agent::process::leave_terminal();
    }
    let settings = invocation.settings()?;
    let orphans = meant(invocation, args).await?;
    let mut workplace = Workplace::open(invocation, &settings).await?;
    let mut signals = Signals::listen()?;
    let worked = work(invocation, (&workplace, &orphans), &mut signals).await;
    let ended_by = match worked {
        Ok(Exit::Success) | Err(_) => EndedBy::Itself,
        Ok(_asked_to_end) => EndedBy::Release,
    };
    workplace.close_after(ended_by, &mut signals).await;
    if matches!(worked, Ok(Exit::Success)) {
        workplace.tidy_up().await;
    }
    worked
}

async fn meant(invocation: &Invocation, args: &WorkerArgs) -> Result<Orphans, CliError> {
    let Some(typed) = &args.only else { return Ok(Orphans::All) };
    let store = state::open_to_look(invocation).await?.ok_or_else(|| lookup::unknown(typed))?;
    Ok(match lookup::find(invocation, &store, typed).await? {
        Target::Delegation(record) | Target::Unit(record, _) | Target::Child(record, _) => {
            Orphans::Of(record.accepted.delegation)
        }
        Target::Session(session) => Orphans::OfSession(session),
    })
}

async fn work(
    invocation: &Invocation,
    (workplace, orphans): (&Workplace, &Orphans),
    signals: &mut Signals,
) -> Result<Exit, CliError> {
    let quiet = invocation.common.quiet;
    if !quiet {
        stderr::tell("works on what has lost its process; Ctrl-C ends it and loses nothing");
    }
    state::tell_of_pause(invocation, &workplace.store).await?;
    let mut before = Recovered::default();
    let mut taken: Vec<DelegationId> = Vec::new();
    loop {
        let recovered = tokio::select! {
            asked = signals.next() => return Ok(asked.exit()),
            recovered = workplace.handle.recover(orphans) => recovered?,
        };
        taken.extend(recovered.taken.iter().cloned());
        if !quiet && recovered != before {
            orphans::tell(&recovered);
        }
        // Asked first: what settles after that is put aside before the next time it is asked.
        let open = open(workplace, orphans).await?;
        put_aside(workplace, &mut taken).await?;
        if *orphans != Orphans::All {
            if open.is_empty() {
                return Ok(Exit::Success);
            }
            // What can go on does; after that the rest of it is nobody's again.
            let is_at_work = open.iter().any(|record| record.owner.id == workplace.owner.record.id);
            if let Some(error) = orphans::cannot_go_on(&recovered).filter(|_| !is_at_work) {
                return Err(error);
            }
        }
        before = recovered;
        let pause = if *orphans == Orphans::All { LOOK_EVERY } else { LOOK_CLOSELY };
        tokio::select! {
            asked = signals.next() => return Ok(asked.exit()),
            // Deadline: a process that dies tells nobody, so the store is looked at again.
            () = tokio::time::sleep(pause) => {}
        }
    }
}

/// What is open of what was named.
async fn open(workplace: &Workplace, orphans: &Orphans) -> Result<Vec<DelegationRecord>, CliError> {
    let store = &workplace.store;
    Ok(match orphans {
        // Nothing was named.
        Orphans::All => Vec::new(),
        Orphans::OfSession(session) => store.delegations(Filter::OpenOf(session.clone())).await?,
        Orphans::Of(id) => {
            store.delegation(id).await?.into_iter().filter(|record| !record.is_settled()).collect()
        }
    })
}

/// Results of the shell have no conversation to go to: they are put aside for `legwork results`. Those of a conversation
/// wait for it.
async fn put_aside(workplace: &Workplace, taken: &mut Vec<DelegationId>) -> Result<(), CliError> {
    let mut open = Vec::new();
    for id in taken.drain(..) {
        let Some(record) = workplace.store.delegation(&id).await? else { continue };
        if !record.is_settled() {
            open.push(id);
        } else if of_a_shell(workplace, &record).await? {
            park(workplace, &record).await?;
        }
    }
    *taken = open;
    Ok(())
}

async fn of_a_shell(workplace: &Workplace, record: &DelegationRecord) -> Result<bool, CliError> {
    let session = workplace.store.session(&record.accepted.lineage.session).await?;
    let kind = session.map(|session| session.session.kind);
    Ok(record.accepted.lineage.parent.is_none() && kind.is_none_or(|kind| kind == SessionKind::Shell))
}

async fn park(workplace: &Workplace, record: &DelegationRecord) -> Result<(), CliError> {
    let owner = &workplace.owner;
    for (unit, delivery) in record.accepted.units.iter().zip(&record.deliveries) {
        if !matches!(delivery.state, DeliveryState::Ready { .. }) {
            continue;
        }
        let claimant = owner.record.claimant();
        let claim = workplace.store.claim(&unit.id, owner.new_claim(), &claimant, owner.now()).await?;
        if let Some(claim) = claim {
            workplace.store.park(vec![claim], owner.now(), ParkReason::NoConversation).await?;
        }
    }
    Ok(())
}
