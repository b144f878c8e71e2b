//! Recording what happens to children and units.

use crate::store_suite::sample;
use crate::store_suite::{Owned, Place};
use legwork_core::child::{ChildEvent, ChildState};
use legwork_core::delivery::DeliveryState;
use legwork_core::fact::Fact;
use legwork_core::ids::{DelegationId, Epoch, OwnerId};
use legwork_core::outcome::{Ending, FailureKind, Force, Outcome, StopReason};
use legwork_core::ports::AppendError;
use legwork_core::time::Timestamp;

/// Any number but the right one, an older or newer epoch, and another owner are refused.
pub async fn facts_are_appended_under_the_expected_number_only(place: &dyn Place) {
    let store = place.open();
    let owned = Owned::accept(&store, 1, &[&[0]]).await;
    let good = owned.append(vec![owned.started(0)]);
    let stale = Err(AppendError::Stale(owned.accepted.delegation.clone()));

    for seq in [0, 2, u64::MAX] {
        let mut append = good.clone();
        append.expected_seq = seq;
        assert_eq!(store.append(vec![append]).await, Ok(vec![stale.clone()]), "expected_seq {seq}");
    }
    for epoch in [0, 2] {
        let mut append = good.clone();
        append.epoch = Epoch(epoch);
        assert_eq!(store.append(vec![append]).await, Ok(vec![stale.clone()]), "epoch {epoch}");
    }
    let mut foreign = good.clone();
    foreign.owner = OwnerId::from_bits(99);
    assert_eq!(store.append(vec![foreign]).await, Ok(vec![stale]));
    let mut unknown = good.clone();
    unknown.delegation = DelegationId::from_bits(99);
    let unknown_id = unknown.delegation.clone();
    assert_eq!(store.append(vec![unknown]).await, Ok(vec![Err(AppendError::Stale(unknown_id))]));
    assert_eq!(owned.stored().await.seq, 1);

    assert_eq!(store.append(vec![good.clone()]).await, Ok(vec![Ok(())]));
    assert_eq!(owned.stored().await.children[0].state, ChildState::Running { attempt: 1 });
    let repeated = store.append(vec![good]).await.expect("the store works");
    assert!(matches!(repeated.as_slice(), [Err(AppendError::Stale(_))]), "{repeated:?}");
}

/// A refused append leaves nothing behind, and the appends beside it go through.
pub async fn an_illegal_move_refuses_its_own_append_and_no_other(place: &dyn Place) {
    let store = place.open();
    let first = Owned::accept(&store, 1, &[&[0, 1]]).await;
    let second = Owned::accept(&store, 2, &[&[0]]).await;
    let third = Owned::accept(&store, 3, &[&[0]]).await;

    let half_legal = vec![first.started(1), first.returned(0, "never ran")];
    let appends = vec![
        second.append(vec![second.started(0)]),
        first.append(half_legal),
        third.append(vec![third.started(0)]),
    ];
    let answers = store.append(appends).await.expect("the store works");
    assert!(matches!(answers.as_slice(), [Ok(()), Err(AppendError::Illegal(_)), Ok(())]), "{answers:?}");

    let record = first.stored().await;
    assert_eq!(record.seq, 1);
    assert!(record.children.iter().all(|child| child.state == ChildState::NEW));
    for untouched in [second, third] {
        assert_eq!(untouched.stored().await.children[0].state, ChildState::Running { attempt: 1 });
    }

    let foreign_child = Fact::Moved { child: sample_child(), event: ChildEvent::Started, report: None };
    let answers = store.append(vec![first.append(vec![foreign_child])]).await.expect("the store works");
    assert!(matches!(answers.as_slice(), [Err(AppendError::Illegal(_))]), "{answers:?}");
}

fn sample_child() -> legwork_core::ids::ChildId {
    sample::accepted(2, &[&[0]]).children[0].clone()
}

/// The outcome, the answer and the cost of a child are there as soon as it ended.
pub async fn inv_02_an_outcome_is_stored_while_siblings_still_run(place: &dyn Place) {
    let mut owned = Owned::accept(&place.open(), 1, &[&[0, 1]]).await;
    owned.record(vec![owned.started(0), owned.started(1)]).await.expect("both start");
    owned.record(vec![owned.returned(0, "the first answer")]).await.expect("the first returns");
    let id = owned.accepted.delegation.clone();
    drop(owned);

    let record = place.open().delegation(&id).await.expect("readable").expect("there");
    assert_eq!(record.children[0].outcome(), Some(Outcome::Succeeded));
    assert_eq!(record.children[0].report, Some(sample::report(Ending::Answered, "the first answer")));
    assert_eq!(record.children[0].started_at, Some(Timestamp(1001)));
    assert_eq!(record.children[0].ended_at, Some(Timestamp(1003)));
    assert_eq!(record.children[1].state, ChildState::Running { attempt: 1 });
    assert_eq!(record.deliveries[0].state, DeliveryState::Held);
    assert_eq!((record.seq, record.state_text()), (4, "running"));
}

/// Four children end in four ways, in another order than they were asked for.
/// Proves FIN-9.
pub async fn inv_10_outcomes_stay_with_their_own_tasks(place: &dyn Place) {
    let mut owned = Owned::accept(&place.open(), 1, &[&[0, 1, 2, 3]]).await;
    let moved = |index, event| Fact::Moved { child: owned.child(index).clone(), event, report: None };
    let stop = ChildEvent::StopAsked { reason: StopReason::Cancelled, force: Force::Ask };
    let facts = vec![
        moved(3, stop),
        moved(2, ChildEvent::Started),
        moved(0, ChildEvent::Started),
        moved(2, stop),
        moved(1, ChildEvent::Started),
        moved(2, ChildEvent::Returned(Ending::Interrupted)),
        moved(1, ChildEvent::Returned(Ending::Failed(FailureKind::Model))),
        moved(0, ChildEvent::Returned(Ending::Answered)),
    ];
    owned.record(facts).await.expect("every move is legal");
    let outcomes: Vec<_> = owned.stored().await.children.iter().map(|child| child.outcome()).collect();
    let stopped = Some(Outcome::Stopped(StopReason::Cancelled));
    let expected = [Some(Outcome::Succeeded), Some(Outcome::Failed(FailureKind::Model)), stopped, stopped];
    assert_eq!(outcomes, expected);
}

/// `UnitSettled` is refused while a child of the unit runs, and also the second time.
/// Proves REG-7, DUR-5.
pub async fn a_unit_settles_with_its_last_child_and_not_before(place: &dyn Place) {
    let mut owned = Owned::accept(&place.open(), 1, &[&[0, 2], &[1]]).await;
    owned.record((0..3).map(|index| owned.started(index)).collect()).await.expect("all start");
    owned.record(vec![owned.returned(0, "a"), owned.returned(1, "b")]).await.expect("two return");

    let early = owned.record(vec![owned.unit_settled(0)]).await;
    assert!(matches!(early, Err(AppendError::Illegal(_))), "{early:?}");
    owned.record(vec![owned.unit_settled(1)]).await.expect("the second unit has settled");
    owned.record(vec![owned.returned(2, "c"), owned.unit_settled(0)]).await.expect("the last child ends");
    let again = owned.record(vec![owned.unit_settled(0)]).await;
    assert!(matches!(again, Err(AppendError::Illegal(_))), "{again:?}");

    let record = owned.stored().await;
    assert!(record.is_settled());
    assert!(record.deliveries.iter().all(|delivery| delivery.state == DeliveryState::Ready { tries: 0 }));
}

/// Acceptance and what follows it may come in one append.
pub async fn an_append_may_carry_a_whole_life(place: &dyn Place) {
    let store = place.open();
    let sketch = Owned::accept(&store, 1, &[&[0]]).await;
    let mut accepted = sample::accepted(2, &[&[0]]);
    accepted.transcripts = vec!["/live/task-0.log".to_owned()];
    let whole = Owned { seq: 0, accepted: accepted.clone(), store: store.clone(), ..sketch };
    let facts = vec![
        Fact::Accepted(Box::new(accepted)),
        whole.started(0),
        whole.returned(0, "at once"),
        whole.unit_settled(0),
    ];
    assert_eq!(store.append(vec![whole.append(facts)]).await, Ok(vec![Ok(())]));

    let record = whole.stored().await;
    assert!(record.is_settled());
    assert_eq!(record.seq, 4);
    assert_eq!(
        record.children[0].report.as_ref().and_then(|report| report.answer.as_deref()),
        Some("at once")
    );
    assert_eq!(record.deliveries[0].state, DeliveryState::Ready { tries: 0 });
    assert_eq!(record.deliveries[0].ledger.len(), 2);
}

/// Text is carried, never interpreted: control characters, quotes, a NUL, a right-to-left mark and megabytes.
pub async fn k24_odd_and_large_texts_come_back_unchanged(place: &dyn Place) {
    let store = place.open();
    let odd = "a\0b\u{1}\u{1b}[31m\"'`\\\r\n\u{202e}\u{feff}\u{10ffff}🧵 ' ; DROP TABLE facts; --";
    let large = "é".repeat(1 << 20);
    let mut accepted = sample::accepted(1, &[&[0, 1]]);
    accepted.tasks[0].goal = odd.to_owned();
    accepted.tasks[1].goal = large.clone();
    accepted.tasks[1].context = Some(String::new());
    let mut owned = Owned::try_accept(&store, accepted).await.expect("any text is accepted");
    owned.record(vec![owned.started(0), owned.returned(0, odd)]).await.expect("any answer is stored");
    owned.record(vec![owned.started(1), owned.returned(1, &large)]).await.expect("any answer is stored");

    let record = owned.stored().await;
    assert_eq!(record.accepted, owned.accepted);
    let answers: Vec<_> = record
        .children
        .iter()
        .map(|child| child.report.as_ref().and_then(|report| report.answer.as_deref()))
        .collect();
    assert!(answers == [Some(odd), Some(large.as_str())]);
}
