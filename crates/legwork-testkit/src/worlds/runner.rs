//! The workers of a world: each has a plan for its work and a manner of taking stops. Some are as bad as workers get.

use super::chance::Chance;
use super::terms::Terms;
use legwork_core::ids::DelegationId;
use legwork_core::outcome::{Ending, FailureKind, Force, Limit};
use legwork_core::pulse::{Phase, Pulse};
use legwork_engine::book::ReplyTo;

/// One live runner.
#[derive(Debug)]
pub(super) struct Runner {
    pub(super) stage: Stage,
    /// The hardest stop that it has heard of.
    pub(super) pressed: Option<Force>,
    pub(super) pulse: Pulse,
    plan: Plan,
    manner: Manner,
    /// How often it still wants to delegate.
    calls_left: usize,
    /// One wait for its children in so many breaks; 0 for never.
    breaks_in: usize,
}

/// Where a runner stands with its own delegations.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Stage {
    Working,
    /// It waits for a ticket.
    Calling(ReplyTo),
    /// It has its ticket and gives its slot back next.
    Called(DelegationId),
    /// It gave its slot back and waits for its children.
    Joining(DelegationId),
    /// It wants its slot again.
    Returning,
}

/// How its work goes when nobody disturbs it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Plan {
    End(Ending),
    Hang,
}

/// How it takes a request to stop. Nobody survives an abort.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Manner {
    Obeys,
    /// It ends with an answer all the same.
    Answers,
    /// It goes on as if nothing had been said.
    Ignores,
}

/// What a runner does next.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Act {
    Nothing,
    Beat,
    End(Ending),
    Call,
    Park(DelegationId),
    Join,
}

/// What a runner may do now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mood {
    /// Whatever it likes.
    Free,
    /// It ends as soon as it can and begins nothing.
    Closing,
}

impl Runner {
    pub(super) fn new(pressed: Option<Force>, terms: &Terms, chance: &mut Chance) -> Self {
        let plan = match chance.below(100) {
            hang if hang < terms.hangs => Plan::Hang,
            _ => Plan::End(*chance.pick(&terms.endings)),
        };
        let manner = *chance.pick(&[Manner::Obeys, Manner::Obeys, Manner::Answers, Manner::Ignores]);
        let calls_left = chance.below(terms.calls_max + 1);
        Runner {
            stage: Stage::Working,
            pressed,
            pulse: Pulse::default(),
            plan,
            manner,
            calls_left,
            breaks_in: terms.breaks_in,
        }
    }

    /// What it does when its turn comes. `joined` says whether the children that it waits for have ended.
    pub(super) fn act(&mut self, mood: Mood, joined: bool, chance: &mut Chance) -> Act {
        // What it had sent before it was dropped is still under way.
        let late = self.pressed == Some(Force::Abort) && self.stage == Stage::Working && self.calls_left > 0;
        if late && chance.once_in(3) {
            self.calls_left -= 1;
            return Act::Call;
        }
        match (self.pressed, self.manner) {
            (Some(Force::Abort), _) | (Some(Force::Ask), Manner::Obeys) => {
                return Act::End(Ending::Interrupted);
            }
            (Some(Force::Ask), Manner::Answers) => return Act::End(Ending::Answered),
            (Some(Force::Ask), Manner::Ignores) | (None, _) => {}
        }
        match &self.stage {
            Stage::Calling(_) | Stage::Returning => Act::Nothing,
            Stage::Called(delegation) => Act::Park(delegation.clone()),
            Stage::Joining(_) if mood == Mood::Free && chance.once_in(self.breaks_in) => {
                Act::End(Ending::Failed(FailureKind::Panicked))
            }
            Stage::Joining(_) => {
                if joined {
                    Act::Join
                } else {
                    Act::Nothing
                }
            }
            Stage::Working => self.work(mood, chance),
        }
    }

    fn work(&mut self, mood: Mood, chance: &mut Chance) -> Act {
        let closing = mood == Mood::Closing;
        if self.calls_left > 0 && !closing && chance.once_in(2) {
            self.calls_left -= 1;
            return Act::Call;
        }
        match self.plan {
            Plan::Hang => Act::Nothing,
            Plan::End(_) if self.is_deaf() => Act::Nothing,
            Plan::End(ending) if closing || (self.calls_left == 0 && chance.once_in(3)) => Act::End(ending),
            Plan::End(_) => Act::Beat,
        }
    }

    /// One that ignores a stop does not come back before it is aborted.
    fn is_deaf(&self) -> bool {
        self.pressed.is_some() && self.manner == Manner::Ignores
    }

    /// Makes the pulse move.
    pub(super) fn beat(&mut self, chance: &mut Chance) {
        self.pulse.beat += 1;
        self.pulse.phase =
            chance.pick(&[Phase::Model, Phase::Tool("read_file".to_owned()), Phase::Children]).clone();
    }
}

/// The ways in which work can end by itself.
pub(super) const ENDINGS: [Ending; 8] = [
    Ending::Answered,
    Ending::Answered,
    Ending::CutShort(Limit::Steps),
    Ending::CutShort(Limit::Spend),
    Ending::CutShort(Limit::Output),
    Ending::Failed(FailureKind::Model),
    Ending::Failed(FailureKind::Panicked),
    // It says so although nobody told it to stop.
    Ending::Interrupted,
];
