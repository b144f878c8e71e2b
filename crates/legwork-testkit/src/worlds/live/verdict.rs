//! What must be true of a live world when all is over, read from its store.

use super::weather::Weather;
use crate::worlds::law::{Broken, Law};
use legwork_core::batch::Reach;
use legwork_core::ids::{ChildId, SessionId};
use legwork_core::message::Author;
use legwork_core::ports::{Conversations, Facts, Filter};
use legwork_core::record::DelegationRecord;
use legwork_core::steering::Fate;
use std::collections::{BTreeMap, BTreeSet};

/// Everything that was ever accepted.
pub(super) async fn records(weather: &Weather) -> Vec<DelegationRecord> {
    weather.memory.delegations(Filter::Recent(usize::MAX)).await.expect("memory can be read")
}

/// Whether everything has settled and everything that wakes somebody is delivered.
pub(super) async fn is_over(weather: &Weather) -> bool {
    let records = records(weather).await;
    records.iter().all(|record| {
        let pushed = record.accepted.reach != Reach::Joined;
        record.is_settled() && (!pushed || record.deliveries.iter().all(|delivery| delivery.state.is_final()))
    })
}

/// Checks every law, and counts what arrived.
pub(super) async fn judge(weather: &Weather, sessions: &[SessionId]) -> Result<(), Broken> {
    let records = records(weather).await;
    let mut histories = BTreeMap::new();
    for session in sessions {
        let (arrived, said) = history(weather, session).await;
        let mut shared = weather.shared();
        shared.figures.arrived += arrived.len() as u64;
        shared.figures.said += said;
        histories.insert(session.clone(), arrived);
    }
    arrived_once(&records, &histories)?;
    in_order(weather, &histories)?;
    for record in &records {
        for child in &record.accepted.children {
            steers_ended(weather, child).await?;
        }
    }
    Ok(())
}

/// The units in a session's history in order, and the number of its user's messages.
async fn history(weather: &Weather, session: &SessionId) -> (Vec<String>, u64) {
    let messages = weather.memory.history(session).await.expect("memory can be read");
    let said = messages.iter().filter(|message| message.author == Author::User).count() as u64;
    let arrived = messages.iter().filter(|message| message.author == Author::Completion);
    (arrived.map(|message| message.plain_text()).collect(), said)
}

/// Each unit that wakes its session is in its history once, and nothing else is in any.
fn arrived_once(
    records: &[DelegationRecord],
    histories: &BTreeMap<SessionId, Vec<String>>,
) -> Result<(), Broken> {
    let mut expected: BTreeMap<&SessionId, BTreeSet<&str>> = BTreeMap::new();
    for record in records.iter().filter(|record| record.accepted.reach != Reach::Joined) {
        let units = record.accepted.units.iter().map(|unit| unit.id.as_str());
        expected.entry(&record.accepted.lineage.session).or_default().extend(units);
    }
    for (session, arrived) in histories {
        let ours = expected.get(session);
        let foreign = arrived.iter().find(|unit| !ours.is_some_and(|ours| ours.contains(unit.as_str())));
        Broken::unless(foreign.is_none(), Law::OwnSession, || format!("{foreign:?} is not for {session}"))?;
    }
    for (session, units) in expected {
        let arrived = histories.get(session).map(Vec::as_slice).unwrap_or_default();
        for unit in units {
            let times = arrived.iter().filter(|other| *other == unit).count();
            Broken::unless(times == 1, Law::ArrivesOnce, || {
                format!("{unit} came {times} times to {session}")
            })?;
        }
    }
    Ok(())
}

/// What arrived first had become ready first.
fn in_order(weather: &Weather, histories: &BTreeMap<SessionId, Vec<String>>) -> Result<(), Broken> {
    let settled = weather.store.settled();
    let place = |unit: &String| settled.iter().position(|other| other.as_str() == unit);
    for (session, arrived) in histories {
        let places: Vec<Option<usize>> = arrived.iter().map(place).collect();
        Broken::unless(places.is_sorted(), Law::ReadyOrder, || {
            format!("{session} got {arrived:?}, which became ready in the order {places:?}")
        })?;
    }
    Ok(())
}

/// What was said to a child that has settled was read or missed, and read once at most.
async fn steers_ended(weather: &Weather, child: &ChildId) -> Result<(), Broken> {
    let steers = weather.memory.steers(child).await.expect("memory can be read");
    let mut shared = weather.shared();
    for steer in steers {
        let id = &steer.request.id;
        let taken = shared.taken.get(id).copied().unwrap_or_default();
        let fits = match steer.fate {
            Fate::Seen { .. } => taken == 1,
            // A child that was cut off while it stored what it had read missed it.
            Fate::Missed => taken <= 1,
            Fate::Open | Fate::CarriedOut => false,
        };
        Broken::unless(fits, Law::SteersEnd, || {
            format!("{id} for {child} is {:?} and was taken {taken} times", steer.fate)
        })?;
        match steer.fate {
            Fate::Seen { .. } => shared.figures.seen += 1,
            Fate::Open | Fate::CarriedOut | Fate::Missed => shared.figures.missed += 1,
        }
    }
    Ok(())
}
