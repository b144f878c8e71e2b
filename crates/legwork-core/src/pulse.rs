//! The pulse of a running child: counted facts about its progress, folded from what it tells on its line. Stuck is
//! told from slow by the pulse, not by age (invariant 8).

use crate::report::{Cost, FailureReason, Usage};
use crate::spans::Reading;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// What a child tells on its line, once for each thing that happens.
#[derive(Debug, Clone, PartialEq)]
pub enum LineEvent {
    /// A model call begins.
    ModelCalled,
    /// A piece of the reply arrived.
    Text(String),
    /// A piece of the model's reasoning arrived.
    Thinking(String),
    /// The reply is whole and stored.
    Replied {
        /// Its tokens.
        usage: Usage,
        /// Its price.
        cost: Cost,
    },
    /// A model call failed and will be made again after a pause.
    Retrying {
        /// The class of failure.
        reason: FailureReason,
        /// What went wrong, in one line.
        error: String,
        /// Milliseconds until the next try.
        pause_ms: u64,
    },
    /// A tool begins.
    ToolStarted {
        /// The id of the call, by which its end is known: several may run at once.
        call: String,
        /// Its name.
        tool: String,
        /// Its arguments on one line.
        arguments: String,
    },
    /// A tool call shows life: the model goes on writing its arguments, or the output of the running tool grew.
    ToolMoved,
    /// A tool has ended.
    ToolEnded {
        /// The id of the call.
        call: String,
        /// Its name.
        tool: String,
        /// Its result, as the model reads it.
        result: String,
        /// Whether it said that it failed.
        is_error: bool,
        /// How long it took.
        took_ms: u64,
    },
    /// Earlier messages were summarised, so that the next request fits; nothing was removed from the store.
    Compacted {
        /// Messages that the summary stands for.
        messages: usize,
        /// Estimated tokens of a request before.
        tokens_before: u64,
        /// Estimated tokens of a request after.
        tokens_after: u64,
        /// The tokens that the summary took.
        usage: Usage,
        /// Its price.
        cost: Cost,
    },
    /// Something a reader of the transcript should know.
    Note(String),
}

/// What a child is doing now.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Being set up.
    #[default]
    Starting,
    /// Waiting for the model.
    Model,
    /// Running a tool.
    Tool(String),
    /// Waiting for its own children.
    Children,
}

/// A wait that was decided before a model is asked again: it is neither silence nor work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pause {
    /// Why the model is not asked now.
    pub reason: FailureReason,
    /// Milliseconds from the last move to the next try.
    pub pause_ms: u64,
}

impl Pause {
    /// How long it is in all.
    pub fn length(self) -> Duration {
        Duration::from_millis(self.pause_ms)
    }
}

/// The counted facts.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pulse {
    /// How often anything at all moved. It only grows; a child whose beat stands still makes no progress.
    pub beat: u64,
    /// What the child is doing.
    pub phase: Phase,
    /// Model calls begun.
    pub model_calls: u32,
    /// Tool calls begun.
    pub tool_calls: u32,
    /// Tokens so far.
    pub usage: Usage,
    /// Price so far.
    pub cost: Cost,
    /// The wait that began with the last move, if one did. Pulses that were stored before this was told have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pause: Option<Pause>,
    /// Attempts that ended with their processes. Pulses that were stored before this was told have none.
    #[serde(default, skip_serializing_if = "Deaths::are_none")]
    pub deaths: Deaths,
    /// How long it had been worked on when it was stored; only stored pulses have it, and not those from before this was told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reading: Option<Reading>,
}

/// How attempts of a child ended without an end of the child: what recovery must know so that it does not go on for ever with
/// one that ends its process each time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Deaths {
    /// Attempts in a row that the death of their process ended, with no step that ended between.
    pub in_a_row: u32,
    /// The last attempt of which it is known how it ended, from 1: it is counted, or its process let go of it in good order.
    pub attempt: u32,
    /// Steps of the journal that had ended when the last one was counted.
    pub steps: u32,
    /// Attempts that the death of their process ended, however far the child had got between. Those that were counted before
    /// this was told are not among them.
    #[serde(default)]
    pub in_all: u32,
}

impl Deaths {
    /// Whether no attempt has ended this way.
    pub fn are_none(&self) -> bool {
        *self == Deaths::default()
    }

    /// With the attempt that the death of its process has ended, when `steps` of the journal had ended by then. An attempt
    /// that is known is not counted again.
    #[must_use]
    pub fn and(self, attempt: u32, steps: u32) -> Deaths {
        if attempt <= self.attempt {
            return self;
        }
        let before = if steps > self.steps { 0 } else { self.in_a_row };
        Deaths { in_a_row: before.saturating_add(1), attempt, steps, in_all: self.in_all.saturating_add(1) }
    }

    /// With an attempt that its own process let go of; it counts neither as a death nor as progress.
    #[must_use]
    pub fn but_not(self, attempt: u32) -> Deaths {
        Deaths { attempt: attempt.max(self.attempt), ..self }
    }
}

impl Pulse {
    /// Folds one event into the pulse.
    pub fn apply(&mut self, event: &LineEvent) {
        self.beat += 1;
        self.pause = None;
        match event {
            LineEvent::ModelCalled => {
                self.phase = Phase::Model;
                self.model_calls += 1;
            }
            LineEvent::Replied { usage, cost } | LineEvent::Compacted { usage, cost, .. } => {
                self.usage += *usage;
                self.cost = self.cost.plus(*cost);
            }
            LineEvent::ToolStarted { tool, .. } => {
                self.phase = Phase::Tool(tool.clone());
                self.tool_calls += 1;
            }
            LineEvent::ToolEnded { .. } => self.phase = Phase::Model,
            LineEvent::Retrying { reason, pause_ms, .. } => {
                self.pause = Some(Pause { reason: *reason, pause_ms: *pause_ms });
            }
            LineEvent::Text(_) | LineEvent::Thinking(_) | LineEvent::ToolMoved | LineEvent::Note(_) => {}
        }
    }

    /// The pulse of a child that another attempt begins, with what was counted before.
    pub fn begun_again(&self) -> Pulse {
        Pulse { beat: self.beat + 1, phase: Phase::Starting, pause: None, reading: None, ..self.clone() }
    }

    /// The child waits for its own children from now on.
    pub fn wait_for_children(&mut self) {
        self.beat += 1;
        self.phase = Phase::Children;
        self.pause = None;
    }

    /// Why the next try of a model is waited for, and how long it still is, when nothing has moved for `quiet`.
    pub fn pausing(&self, quiet: Duration) -> Option<(FailureReason, Duration)> {
        let pause = self.pause?;
        let left = pause.length().checked_sub(quiet)?;
        Some((pause.reason, left))
    }

    /// The word for the phase, as lists show it.
    pub fn phase_text(&self) -> String {
        match &self.phase {
            Phase::Starting => "starting".to_owned(),
            Phase::Model => "model".to_owned(),
            Phase::Tool(name) => format!("tool {name}"),
            Phase::Children => "children".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn k08_only_deaths_without_a_step_between_are_in_a_row() {
        let mut deaths = Deaths::default();
        for (attempt, in_a_row) in [(1, 1), (2, 2), (3, 3)] {
            deaths = deaths.and(attempt, 5);
            assert_eq!(deaths, Deaths { in_a_row, attempt, steps: 5, in_all: attempt });
            assert_eq!(deaths.and(attempt, 5), deaths, "each is counted once");
        }
        assert_eq!(deaths.but_not(4).and(4, 5).in_a_row, 3, "one that was let go of is none");
        assert_eq!(deaths.but_not(4).and(5, 5).in_a_row, 4, "and begins nothing anew");
        let further = Deaths { in_a_row: 1, attempt: 4, steps: 6, in_all: 4 };
        assert_eq!(deaths.and(4, 6), further, "a step begins anew, but for the number in all");
    }

    #[test]
    fn stall_04_a_pause_is_told_until_it_is_over_or_anything_else_happens() {
        let retrying = LineEvent::Retrying {
            reason: FailureReason::RateLimit,
            error: "429".to_owned(),
            pause_ms: 40_000,
        };
        let mut pulse = Pulse::default();
        pulse.apply(&LineEvent::ModelCalled);
        pulse.apply(&retrying);
        let left = |pulse: &Pulse, quiet| pulse.pausing(Duration::from_secs(quiet)).map(|(_, left)| left);
        assert_eq!(left(&pulse, 10), Some(Duration::from_secs(30)));
        assert_eq!(left(&pulse, 41), None);
        let text = serde_json::to_string(&pulse).expect("it is written");
        assert_eq!(serde_json::from_str::<Pulse>(&text).expect("it is read"), pulse);
        for event in [LineEvent::Text("a".to_owned()), LineEvent::Note("another is asked".to_owned())] {
            let mut moved = pulse.clone();
            moved.apply(&event);
            assert_eq!(left(&moved, 0), None, "{event:?}");
        }
    }

    #[test]
    fn a_pulse_stored_without_its_deaths_can_be_read_and_one_with_them_by_older_programs() {
        let pulse = Pulse { beat: 3, ..Pulse::default() };
        let text = serde_json::to_string(&pulse).expect("it is written");
        assert!(!text.contains("deaths"), "{text}");
        assert_eq!(serde_json::from_str::<Pulse>(&text).expect("an old row"), pulse);
        let died = Pulse { deaths: Deaths::default().and(1, 0), ..pulse };
        let text = serde_json::to_string(&died).expect("it is written");
        assert_eq!(serde_json::from_str::<Pulse>(&text).expect("a new row"), died);
        let before = r#"{"in_a_row":3,"attempt":4,"steps":5}"#;
        let deaths = Deaths { in_a_row: 3, attempt: 4, steps: 5, in_all: 0 };
        assert_eq!(
            serde_json::from_str::<Deaths>(before).expect("from before there was a number in all"),
            deaths
        );
        /// The pulse as programs knew it that told nothing of deaths.
        #[derive(serde::Deserialize)]
        struct Older {
            beat: u64,
        }
        assert_eq!(serde_json::from_str::<Older>(&text).expect("a new row").beat, 3);
    }
}
