//! The law about the order in which completions arrive.

use super::verdict::NOTICE;
use super::weather::Weather;
use crate::shaky::{SettledUnit, SettledUnits};
use crate::worlds::law::{Broken, Law};
use legwork_core::ids::{ChildId, SessionId, UnitId};
use legwork_core::record::DelegationRecord;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::PoisonError;

/// What the ledger calls a delivery that waits for its session.
const PARKED: &str = "parked";

/// When a unit became ready, as far as that is known.
#[derive(Debug, Clone, Copy)]
struct Ready {
    /// A moment before.
    began: u64,
    /// A moment after. One that was kept back by what was open below it became ready at some moment until then.
    ended: u64,
    /// Its place among those that one commit made ready; none when it was kept back.
    place: Option<usize>,
}

impl Ready {
    fn is_before(self, other: Ready) -> bool {
        let same_commit = self.began == other.began;
        let places = self.place.zip(other.place);
        self.ended < other.began || same_commit && places.is_some_and(|(mine, its)| mine < its)
    }
}

/// What arrived first had become ready first, as far as the order in which two processes stored it is known. What was parked
/// became ready once more when its session was back: until then another process may have had it in hand. What its children had
/// sent out and was open when they ended kept a unit back until it ended too (docs/design/045).
pub(super) fn in_order(
    weather: &Weather,
    records: &[DelegationRecord],
    histories: &BTreeMap<SessionId, Vec<String>>,
) -> Result<(), Broken> {
    let units = records.iter().flat_map(|record| record.accepted.units.iter().zip(&record.deliveries));
    let parked = units.filter(|(_, delivery)| delivery.ledger.iter().any(|line| line.state == PARKED));
    let parked: BTreeSet<&str> = parked.map(|(unit, _)| unit.id.as_str()).collect();
    let settled = weather.settled.lock().unwrap_or_else(PoisonError::into_inner);
    for (session, arrived) in histories {
        let stayed = |unit: &&String| !unit.starts_with(NOTICE) && !parked.contains(unit.as_str());
        let units = arrived.iter().filter(stayed);
        // The dead may have stored one without hearing of it.
        let ready: Vec<Ready> = units.filter_map(|unit| ready(unit, records, &settled)).collect();
        let mut pairs = (1..ready.len()).flat_map(|j| (0..j).map(move |i| (i, j)));
        let wrong = pairs.find(|(i, j)| ready[*j].is_before(ready[*i]));
        Broken::unless(wrong.is_none(), Law::ReadyOrder, || {
            format!("{session} got {arrived:?}, which became ready so: {ready:?}")
        })?;
    }
    Ok(())
}

fn ready(unit: &str, records: &[DelegationRecord], settled: &SettledUnits) -> Option<Ready> {
    let (place, own) = find(unit, settled)?;
    let mut kept_until = own.ended;
    for below in units_below(unit, records) {
        kept_until = kept_until.max(find(below.as_str(), settled)?.1.ended);
    }
    let place = (kept_until == own.ended).then_some(place);
    Some(Ready { began: own.began, ended: kept_until, place })
}

fn find<'a>(unit: &str, settled: &'a SettledUnits) -> Option<(usize, &'a SettledUnit)> {
    settled.units.iter().enumerate().find(|(_, known)| known.unit.as_str() == unit)
}

/// The units that the children of a unit have asked for, at whatever depth.
fn units_below<'a>(unit: &str, records: &'a [DelegationRecord]) -> Vec<&'a UnitId> {
    let mut callers: Vec<&ChildId> = Vec::new();
    for record in records {
        let of_unit = record.accepted.units.iter().filter(|known| known.id.as_str() == unit);
        let tasks = of_unit.flat_map(|known| known.task_indexes.iter());
        callers.extend(tasks.map(|task| &record.accepted.children[*task]));
    }
    let mut below = Vec::new();
    while let Some(caller) = callers.pop() {
        for called in records.iter().filter(|record| record.accepted.lineage.parent.as_ref() == Some(caller))
        {
            below.extend(called.accepted.units.iter().map(|known| &known.id));
            callers.extend(&called.accepted.children);
        }
    }
    below
}
