//! The laws about results that somebody waits for: a session's own agent, or a child. Each reads them once.

use super::journal::read_in;
use super::weather::Weather;
use crate::worlds::law::{Broken, Law};
use legwork_core::batch::Reach;
use legwork_core::ids::{ChildId, SessionId};
use legwork_core::ports::Steps;
use legwork_core::record::{DelegationRecord, DeliveryRecord};
use legwork_core::step::Actor;
use std::collections::BTreeMap;

/// Who was told of a child.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Reader {
    /// A child, in this step of its journal.
    Child(ChildId, u32),
    /// A conversation.
    Session(SessionId),
}

/// Nothing that somebody waited for is left anywhere.
pub(super) fn nothing_behind(records: &[DelegationRecord]) -> Result<(), Broken> {
    for record in awaited(records) {
        let mut units = record.accepted.units.iter().zip(&record.deliveries);
        let left = units.find(|(_, delivery)| !delivery.state.is_final());
        Broken::unless(left.is_none() || !record.is_settled(), Law::NothingBehind, || {
            let left = left.map(|(unit, delivery)| (&unit.id, &delivery.state));
            format!("{left:?} is left behind by {:?}", record.accepted.lineage)
        })?;
    }
    Ok(())
}

/// Each child that somebody waited for was told of once: to whoever had sent it out, or with what that one brought.
pub(super) async fn read_once(
    weather: &Weather,
    records: &[DelegationRecord],
    told: BTreeMap<SessionId, Vec<String>>,
) -> Result<(), Broken> {
    let mut readers: BTreeMap<String, Vec<Reader>> = BTreeMap::new();
    for (session, children) in told {
        for child in children {
            readers.entry(child).or_default().push(Reader::Session(session.clone()));
        }
    }
    for child in records.iter().flat_map(|record| &record.accepted.children) {
        let steps = weather.store.steps(&Actor::Child(child.clone())).await;
        for step in steps.expect("an onlooker's store can be read") {
            for read in read_in(&step).into_iter().flat_map(str::lines) {
                readers.entry(read.to_owned()).or_default().push(Reader::Child(child.clone(), step.seq));
            }
        }
    }
    for record in awaited(records) {
        let lineage = &record.accepted.lineage;
        for child in &record.accepted.children {
            let read = readers.remove(child.as_str()).unwrap_or_default();
            let is_strange =
                |reader: &Reader| matches!(reader, Reader::Session(session) if *session != lineage.session);
            let strange = read.iter().any(is_strange);
            // Looked at first: what came to a stranger mostly came home too.
            Broken::unless(!strange, Law::OwnSession, || format!("{child} was told of to {read:?}"))?;
            Broken::unless(read.len() == 1, Law::ReadOnce, || {
                let ledgers: Vec<Vec<String>> = record.deliveries.iter().map(ledger).collect();
                format!("{child}, which {lineage:?} had asked for, was told of to {read:?}; {ledgers:?}")
            })?;
            let by_caller =
                matches!(&read[0], Reader::Child(reader, _) if Some(reader) == lineage.parent.as_ref());
            weather.shared().figures.told_below += u64::from(lineage.parent.is_some() && !by_caller);
        }
    }
    let strange = readers.into_iter().next();
    Broken::unless(strange.is_none(), Law::ReadOnce, || format!("nobody waited for {strange:?}"))
}

/// What somebody waited for.
fn awaited(records: &[DelegationRecord]) -> impl Iterator<Item = &DelegationRecord> {
    records.iter().filter(|record| record.accepted.reach == Reach::Joined)
}

fn ledger(delivery: &DeliveryRecord) -> Vec<String> {
    let word = |text: &Option<String>| text.clone().unwrap_or_default();
    let lines = delivery.ledger.iter();
    lines.map(|line| format!("{} {} {}", line.state, word(&line.claimant), word(&line.reason))).collect()
}
