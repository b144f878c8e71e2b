//! Seeded bugs. Each is made by bending what goes into an honest book or what comes out of it, so that the code under
//! test has no branch for it; the laws must catch every one.

use super::law::Law;
use super::terms::Scenario;

/// One bug.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sabotage {
    /// The record of a step comes after what it was to protect.
    RecordsLast,
    /// A child is started before the record of its start.
    StartsBeforeRecord,
    /// One child more than the limit runs.
    RunsOneTooMany,
    /// The queue has no limit.
    QueuesWithoutLimit,
    /// A unit counts as settled with its first child.
    SettlesUnitOnFirst,
    /// The last child of a unit settles and the unit does not.
    LosesUnitSettled,
    /// A settling is told twice.
    TellsTwice,
    /// A caller gets its ticket twice.
    AnswersTwice,
    /// A queued child that was stopped is started all the same.
    StartsTheStopped,
    /// A child that was stopped while it waited for its slot gets one.
    GrantsToTheStopped,
    /// An abort is forgotten.
    DropsAborts,
    /// A request to stop is recorded and the runner never hears of it.
    DropsAsks,
    /// A hard stop is pressed softly.
    LowersForce,
    /// A later reason replaces the first.
    ReportsLastCause,
    /// A stop of one child stops its siblings too.
    StopsSiblings,
    /// Nobody remembers which child made a delegation.
    ForgetsParents,
    /// All conversations share one queue.
    ServesInOrderOfArrival,
    /// A runner's end goes unnoticed.
    MissesAnEnd,
    /// Progress goes unnoticed.
    MissesBeats,
    /// Decisions are made by the wall clock.
    GoesByTheWallClock,
    /// A fact is lost on its way to the store.
    LosesAFact,
    /// A pause is ignored.
    IgnoresPauses,
    /// An ending process starts what waits.
    StartsAfterRelease,
}

impl Sabotage {
    /// All of them.
    pub const ALL: [Sabotage; 23] = [
        Sabotage::RecordsLast,
        Sabotage::StartsBeforeRecord,
        Sabotage::RunsOneTooMany,
        Sabotage::QueuesWithoutLimit,
        Sabotage::SettlesUnitOnFirst,
        Sabotage::LosesUnitSettled,
        Sabotage::TellsTwice,
        Sabotage::AnswersTwice,
        Sabotage::StartsTheStopped,
        Sabotage::GrantsToTheStopped,
        Sabotage::DropsAborts,
        Sabotage::DropsAsks,
        Sabotage::LowersForce,
        Sabotage::ReportsLastCause,
        Sabotage::StopsSiblings,
        Sabotage::ForgetsParents,
        Sabotage::ServesInOrderOfArrival,
        Sabotage::MissesAnEnd,
        Sabotage::MissesBeats,
        Sabotage::GoesByTheWallClock,
        Sabotage::LosesAFact,
        Sabotage::IgnoresPauses,
        Sabotage::StartsAfterRelease,
    ];

    /// The worlds in which it must show.
    pub fn shows_in(self) -> Scenario {
        match self {
            // Elsewhere stops of a whole conversation would show it first.
            Sabotage::ServesInOrderOfArrival => Scenario::OneSlotTrees,
            _ => Scenario::Anything,
        }
    }

    /// The laws of which one must be found broken.
    pub fn caught_by(self) -> &'static [Law] {
        match self {
            Sabotage::RecordsLast | Sabotage::StartsBeforeRecord => &[Law::RecordFirst],
            Sabotage::RunsOneTooMany => &[Law::Cap],
            Sabotage::QueuesWithoutLimit => &[Law::Refusals],
            Sabotage::SettlesUnitOnFirst | Sabotage::LosesUnitSettled => &[Law::UnitSettled],
            Sabotage::TellsTwice => &[Law::SettlesOnce],
            Sabotage::AnswersTwice => &[Law::OneAnswer],
            Sabotage::StartsTheStopped => &[Law::NothingAfterStop],
            Sabotage::GrantsToTheStopped => &[Law::RecordFirst],
            Sabotage::DropsAborts => &[Law::StopReaches, Law::Time, Law::Release],
            Sabotage::DropsAsks | Sabotage::LowersForce => &[Law::StopReaches, Law::Time],
            Sabotage::ReportsLastCause => &[Law::FirstCause],
            Sabotage::StopsSiblings => &[Law::OnlyStops],
            Sabotage::ForgetsParents => &[Law::StopReaches, Law::Time, Law::Refusals],
            Sabotage::ServesInOrderOfArrival => &[Law::Fair],
            Sabotage::MissesAnEnd => &[Law::OneOutcome, Law::Slots],
            Sabotage::MissesBeats | Sabotage::GoesByTheWallClock => &[Law::Time, Law::OnlyStops],
            Sabotage::LosesAFact => &[Law::Replay, Law::StoreTakes],
            Sabotage::IgnoresPauses => &[Law::NothingAfterStop, Law::Refusals],
            Sabotage::StartsAfterRelease => &[Law::Release],
        }
    }
}
