//! What must be true of a live world when all is over, read from its store.

use super::calls::{CALL, LEFT};
use super::order;
use super::process::owner;
use super::readers;
use super::weather::Weather;
use crate::worlds::law::{Broken, Law};
use legwork_core::batch::Reach;
use legwork_core::delivery::DeliveryState;
use legwork_core::ids::{ChildId, SessionId, UnitId};
use legwork_core::message::Author;
use legwork_core::ports::{Conversations, Facts, Filter, Steps};
use legwork_core::record::DelegationRecord;
use legwork_core::steering::Fate;
use legwork_core::step::{Actor, StepState};
use std::collections::{BTreeMap, BTreeSet};

/// How the id of a notice begins.
pub(super) const NOTICE: &str = "note-";

/// Everything that was ever accepted.
pub(super) async fn records(weather: &Weather) -> Vec<DelegationRecord> {
    weather.store.delegations(Filter::Recent(usize::MAX)).await.expect("an onlooker's store can be read").rows
}

/// Whether everything has settled and is delivered.
pub(super) async fn is_over(weather: &Weather) -> bool {
    let records = records(weather).await;
    records.iter().all(|record| {
        let notices = record.notices.iter().map(|notice| &notice.delivery);
        let mut all = record.deliveries.iter().chain(notices);
        record.is_settled() && all.all(|delivery| delivery.state.is_final())
    })
}

/// What broke when it is never over.
pub(super) async fn never_over(weather: &Weather) -> Broken {
    let records = records(weather).await;
    if let Err(broken) = readers::nothing_behind(&records) {
        return broken;
    }
    Broken { law: Law::Drains, how: "something has not settled, or not arrived".to_owned() }
}

/// What came into a session.
#[derive(Default)]
pub(super) struct History {
    /// Units and notices that woke it, or would if it could be woken, in order.
    arrived: Vec<String>,
    /// The children that it was told of otherwise.
    pub(super) told: Vec<String>,
}

/// Checks every law, and counts what arrived.
pub(super) async fn judge(weather: &Weather, sessions: &[SessionId]) -> Result<(), Broken> {
    let records = records(weather).await;
    let (mut histories, mut told) = (BTreeMap::new(), BTreeMap::new());
    for session in sessions {
        let History { arrived, told: of_others } = history(weather, session).await;
        weather.shared().figures.arrived += arrived.len() as u64;
        histories.insert(session.clone(), arrived);
        told.insert(session.clone(), of_others);
    }
    readers::nothing_behind(&records)?;
    readers::read_once(weather, &records, told).await?;
    arrived_once(&records, &histories)?;
    notices_arrived(&records, &histories)?;
    weather.shared().figures.notices += records.iter().map(|record| record.notices.len() as u64).sum::<u64>();
    order::in_order(weather, &records, &histories)?;
    for record in &records {
        for child in &record.accepted.children {
            steers_ended(weather, child).await?;
            steps_stay(weather, child).await?;
        }
    }
    let late = weather.shared().late.first().cloned();
    Broken::unless(late.is_none(), Law::LateRefused, || late.unwrap_or_default())
}

/// Nobody was declared gone who lived and moved.
pub(super) async fn nothing_is_stolen(weather: &Weather, processes: u32) -> Result<(), Broken> {
    for number in 1..=processes {
        let owner = weather.store.owner(&owner(number).id).await.expect("an onlooker's store can be read");
        let is_gone = owner.is_some_and(|owner| owner.gone);
        let is_free = weather.shared().may_be_gone(number);
        Broken::unless(!is_gone || is_free, Law::NoTheft, || format!("{number} was declared gone"))?;
        let mut shared = weather.shared();
        let has_left = shared.leaving.contains(&number);
        shared.figures.deposed += u64::from(is_gone && !has_left);
    }
    Ok(())
}

/// A step that was told to be finished was told so once, and is.
async fn steps_stay(weather: &Weather, child: &ChildId) -> Result<(), Broken> {
    let steps = weather.store.steps(&Actor::Child(child.clone())).await;
    let steps = steps.expect("an onlooker's store can be read");
    let mut shared = weather.shared();
    let ours: Vec<(u32, u32)> = shared
        .finished
        .iter()
        .filter(|((of, _), _)| of == child)
        .map(|((_, seq), times)| (*seq, *times))
        .collect();
    for (seq, times) in ours {
        let state = steps.get(seq as usize).map(|step| &step.state);
        let stays = times == 1 && matches!(state, Some(StepState::Done(_)));
        Broken::unless(stays, Law::StepsOnce, || {
            format!("step {seq} of {child} was finished {times} times and is {state:?}")
        })?;
        shared.figures.steps += 1;
    }
    Ok(())
}

/// What came into a session, with the number of its user's messages among the figures.
async fn history(weather: &Weather, session: &SessionId) -> History {
    let messages = weather.store.history(session).await.expect("an onlooker's store can be read");
    let mut history = History::default();
    let mut shared = weather.shared();
    for message in messages {
        if message.author != Author::Completion {
            shared.figures.said += u64::from(message.author == Author::User);
            continue;
        }
        let text = message.plain_text();
        let mut lines = text.lines().map(str::to_owned);
        let Some(head) = lines.next() else { continue };
        history.told.extend(lines);
        if head.starts_with(CALL) {
            shared.figures.called += 1;
        } else if head.starts_with(LEFT) {
            shared.figures.left += 1;
        } else {
            history.arrived.push(head);
        }
    }
    history
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
        let mut units = arrived.iter().filter(|unit| !unit.starts_with(NOTICE));
        let foreign = units.find(|unit| !ours.is_some_and(|ours| ours.contains(unit.as_str())));
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

/// The notice of an early failure is in the history of its own session once if it was delivered, and nowhere otherwise;
/// the results that it told of come all the same.
fn notices_arrived(
    records: &[DelegationRecord],
    histories: &BTreeMap<SessionId, Vec<String>>,
) -> Result<(), Broken> {
    let mut known = 0;
    for (record, notice) in
        records.iter().flat_map(|record| record.notices.iter().map(move |one| (record, one)))
    {
        let id = UnitId::notice(&record.accepted.children[notice.task_index]);
        let arrived = histories.get(&record.accepted.lineage.session).map(Vec::as_slice).unwrap_or_default();
        let times = arrived.iter().filter(|other| *other == id.as_str()).count();
        let due = usize::from(notice.delivery.state == DeliveryState::Delivered);
        Broken::unless(times == due, Law::ArrivesOnce, || {
            format!("{id} came {times} times, due were {due}")
        })?;
        known += times;
    }
    let all = histories.values().flatten().filter(|unit| unit.starts_with(NOTICE)).count();
    Broken::unless(all == known, Law::OwnSession, || format!("{all} notices came, {known} to their sessions"))
}

/// What was said to a child that has settled was read or missed, and read once at most.
async fn steers_ended(weather: &Weather, child: &ChildId) -> Result<(), Broken> {
    let steers = weather.store.steers(child).await.expect("an onlooker's store can be read").rows;
    let mut shared = weather.shared();
    for steer in steers {
        let id = &steer.request.id;
        let taken: Vec<u32> =
            shared.taken.iter().filter(|((taken, _), _)| taken == id).map(|(_, times)| *times).collect();
        let once = taken.iter().all(|times| *times == 1);
        let fits = match steer.fate {
            // An attempt that was cut off while it stored what it had read leaves it to the next one.
            Fate::Seen { .. } => once && !taken.is_empty(),
            Fate::Missed => once,
            Fate::Open | Fate::CarriedOut => false,
        };
        Broken::unless(fits, Law::SteersEnd, || {
            format!("{id} for {child} is {:?} and was taken {taken:?} times, by attempts", steer.fate)
        })?;
        match steer.fate {
            Fate::Seen { .. } => shared.figures.seen += 1,
            Fate::Open | Fate::CarriedOut | Fate::Missed => shared.figures.missed += 1,
        }
    }
    Ok(())
}
