//! The laws that hold after every step of every world, by name.

use std::fmt;

/// One law.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Law {
    /// A fact is recorded in the same step before every effect that waits for it.
    RecordFirst,
    /// An honest book's facts are never refused, and each append goes on where the last one ended.
    StoreTakes,
    /// Replaying the recorded facts gives the live state.
    Replay,
    /// Never more children than `children_max` hold a slot.
    Cap,
    /// Never more children than `queue_max` wait, and the book counts them right.
    Queue,
    /// `slots_used` is the number of runners that hold a slot.
    Slots,
    /// No slot stays free while somebody may take it.
    NoIdleSlot,
    /// Within a session first in, first out; between sessions in turn; who comes back goes first.
    Fair,
    /// A delivery leaves *held* exactly when all children of its unit have settled, with the last one's fact.
    UnitSettled,
    /// A failure is told early when, and only when, others of its unit go on and nobody waits for them.
    EarlyNotice,
    /// Nothing settles twice, and each settling is told once.
    SettlesOnce,
    /// Each of n tasks has exactly one outcome, the one that its runner and its stops make.
    OneOutcome,
    /// A stop reaches everything in its scope and below, and each runner hears of it.
    StopReaches,
    /// Nothing is stopped that no stop, no stall and no end of a parent covers.
    OnlyStops,
    /// The answer to a stop lists what it stopped, each once.
    StopAnswer,
    /// No child starts, comes back to a slot or makes children after a stop that covers it.
    NothingAfterStop,
    /// Of a stop the first cause is reported.
    FirstCause,
    /// The force of a stop never falls.
    ForceRises,
    /// What is recorded of a call is what was asked, and who asked it.
    TrueToTheCall,
    /// Every call is answered exactly once.
    OneAnswer,
    /// A call is refused if, and only if, a rule forbids it, and the refusal names that rule.
    Refusals,
    /// Who does not move is stopped in time, who does not stop is aborted in time, and nobody earlier.
    Time,
    /// A process that is ending starts nothing and concludes nothing from cutting its runs.
    Release,
    /// What was told is found again after the owner's death, and every child gets its one outcome.
    Recovery,
    /// Once everything answers or is aborted, nothing is left over.
    Drains,
    /// Each completion is in the history of a session once.
    ArrivesOnce,
    /// No completion is in the history of a session that did not ask for it, or cannot be woken.
    OwnSession,
    /// A session gets its completions in the order in which they became ready.
    ReadyOrder,
    /// What somebody waits for is read once: in the turn of whoever asked for it, or, when that one had ended, with what it
    /// brought itself.
    ReadOnce,
    /// When all is over, no result of those that somebody waited for is held, ready, claimed or parked.
    NothingBehind,
    /// What is said to a child is read once, or missed.
    SteersEnd,
    /// A step of a child is finished once, and stays so.
    StepsOnce,
    /// Nothing is taken from a process that lives and moves.
    NoTheft,
    /// No write of a process is taken once its work is somebody else's.
    LateRefused,
}

/// A law that did not hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Broken {
    /// Which.
    pub law: Law,
    /// How.
    pub how: String,
}

impl Broken {
    /// `Ok` while `holds`.
    pub(super) fn unless(holds: bool, law: Law, how: impl FnOnce() -> String) -> Result<(), Broken> {
        if holds { Ok(()) } else { Err(Broken { law, how: how() }) }
    }
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} is broken: {}", self.law, self.how)
    }
}
